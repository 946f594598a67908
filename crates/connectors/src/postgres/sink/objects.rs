//! What a new table gets beside its columns: keys, indexes, constraints, defaults and sequences of the source's table.
//!
//! They are made when the rows are in, in the transaction that gives the table its name. Before any row moves, all statements are
//! tried on the empty table and rolled back, so that a function or type that is missing here is told at once.

use super::plan::Located;
use super::settings::Options;
use super::way::qualified;
use crate::postgres::catalog::{quote_ident, quote_literal};
use crate::postgres::ddl::MAX_NAME;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Incoming, KeysLater, Note, PartKind, Result, TableDefinition, TablePart};

/// What will be made.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    schema: String,
    parts: Vec<Planned>,
    /// What waits for the other tables of the job: the source's table, and foreign keys.
    later: Option<(String, Vec<TablePart>)>,
}

#[derive(Debug, Clone)]
struct Planned {
    part: TablePart,
    /// The name that it gets; `None`: the server finds one.
    name: Option<String>,
    /// A foreign key to the table itself.
    to_itself: bool,
}

impl Objects {
    /// Decides what is made for a new table with `columns`. `key`: the primary key that it has already.
    ///
    /// # Errors
    /// `Config` if the source has no words for it; the server's.
    pub fn plan(
        session: &mut Session,
        options: &Options,
        incoming: &Incoming,
        target: &Located,
        columns: &[&str],
        key: Option<&[String]>,
        notes: &mut Vec<Note>,
    ) -> Result<Self> {
        let mut objects = Self { schema: target.schema.clone(), ..Self::default() };
        if !wanted(options) {
            return Ok(objects);
        }
        let definition = incoming.definition.as_ref().filter(|d| d.engine == "postgres").ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "--with-keys, --with-indexes and --with-constraints take them from a table of PostgreSQL, and the source is none",
            )
            .object(&target.display)
            .hint("leave them away, or read the table itself (?table=...), with its columns under their own names")
        })?;
        let mut later = Vec::new();
        for part in &definition.parts {
            if !options.asks_for(part.kind) {
                continue;
            }
            if let Some(key) = key.filter(|_| part.kind == PartKind::PrimaryKey) {
                if part.columns != key {
                    notes.push(Note::new(format!("{} is left out: the key of the mode is the primary key", spoken(part))));
                }
                continue;
            }
            if let Some(missing) = part.columns.iter().find(|c| !columns.contains(&c.as_str())) {
                notes.push(Note::new(format!("{} is left out: the column {missing:?} is not loaded", spoken(part))));
                continue;
            }
            let to_itself = part.refers_to.as_deref() == Some(&definition.sql_name);
            if incoming.keys_later && part.refers_to.is_some() && !to_itself {
                later.push(part.clone());
                continue;
            }
            if let Some(other) = part.refers_to.as_deref().filter(|_| !to_itself)
                && !exists(session, other)?
            {
                notes.push(Note::new(format!(
                    "{} is left out: {other} is not there. Later: ALTER TABLE {} ADD CONSTRAINT {} {}",
                    spoken(part),
                    qualified(&target.schema, &target.name),
                    quote_ident(&part.name),
                    part.sql.replacen("{}", other, 1)
                )));
                continue;
            }
            if part.kind == PartKind::Generated {
                notes.push(Note::column(&part.name, "is generated in the source: here it is an ordinary column with the values"));
                continue;
            }
            let name = objects.name(session, part, definition, target)?;
            objects.parts.push(Planned { part: part.clone(), name, to_itself });
        }
        if let Some(first) = later.first() {
            let more = if later.len() > 1 { format!(" and {} more", later.len() - 1) } else { String::new() };
            notes.push(Note::new(format!("{}{more} is made and checked when all tables of the job are there", spoken(first))));
        }
        objects.later = incoming.keys_later.then(|| (definition.sql_name.clone(), later));
        Ok(objects)
    }

    /// The name of a part: names of constraints belong to their table alone, those of indexes and sequences to the whole schema.
    fn name(&self, session: &mut Session, part: &TablePart, definition: &TableDefinition, target: &Located) -> Result<Option<String>> {
        let free = |session: &mut Session, name: &str| exists(session, &qualified(&target.schema, name)).map(|there| !there);
        match part.kind {
            PartKind::Check | PartKind::ForeignKey => Ok(Some(part.name.clone())),
            PartKind::PrimaryKey | PartKind::Unique | PartKind::Index => {
                let same = definition.name == target.name && free(session, &part.name)?;
                Ok(same.then(|| part.name.clone()))
            }
            PartKind::Sequence => {
                for number in 0..1000 {
                    let number = if number == 0 { String::new() } else { number.to_string() };
                    let name = fitting(&format!("{}_{}", target.name, part.name), &format!("_seq{number}"));
                    if free(session, &name)? {
                        return Ok(Some(name));
                    }
                }
                Err(Error::new(ErrorKind::Exists, "no name is free for the sequence").object(&target.display).column(&part.name))
            }
            _ => Ok(None),
        }
    }

    /// The statements that make them on a table with rows.
    pub fn statements(&self, table: &str) -> Vec<String> {
        self.parts.iter().flat_map(|planned| self.statement(planned, table)).collect()
    }

    fn statement(&self, Planned { part, name, to_itself }: &Planned, table: &str) -> Vec<String> {
        let quoted = name.as_deref().map(quote_ident);
        let column = || quote_ident(&part.name);
        let constraint = quoted.as_ref().map(|name| format!("CONSTRAINT {name} ")).unwrap_or_default();
        match part.kind {
            PartKind::Default => vec![format!("ALTER TABLE {table} ALTER {} SET DEFAULT {}", column(), part.sql)],
            PartKind::Identity => vec![format!("ALTER TABLE {table} ALTER {} ADD {}", column(), part.sql)],
            PartKind::Sequence => {
                let sequence = qualified(&self.schema, name.as_deref().unwrap_or_default());
                vec![
                    format!("CREATE SEQUENCE {sequence} {}", part.sql),
                    format!("ALTER TABLE {table} ALTER {} SET DEFAULT pg_catalog.nextval({})", column(), quote_literal(&sequence)),
                    format!("ALTER SEQUENCE {sequence} OWNED BY {table}.{}", column()),
                ]
            }
            PartKind::Generated => Vec::new(),
            PartKind::Check | PartKind::PrimaryKey | PartKind::Unique => vec![format!("ALTER TABLE {table} ADD {constraint}{}", part.sql)],
            PartKind::Index => {
                let (unique, rest) = part.sql.strip_prefix("UNIQUE ").map_or(("", part.sql.as_str()), |rest| ("UNIQUE ", rest));
                let name = quoted.map(|name| format!("{name} ")).unwrap_or_default();
                vec![format!("CREATE {unique}INDEX {name}ON {table} {rest}")]
            }
            PartKind::ForeignKey => {
                let other = if *to_itself { table } else { part.refers_to.as_deref().unwrap_or_default() };
                foreign_key(part, table, other)
            }
        }
    }

    /// The statements that move sequences to where the source's stand, or past the rows.
    pub fn positions(&self, table: &str) -> Vec<String> {
        let moved = self.parts.iter().filter(|p| matches!(p.part.kind, PartKind::Identity | PartKind::Sequence));
        moved
            .map(|Planned { part, .. }| {
                let column = quote_ident(&part.name);
                let stands = part.position.map_or("NULL".to_string(), |n| n.to_string());
                format!(
                    "SELECT pg_catalog.setval(s.seqrelid, v) FROM pg_catalog.pg_sequence s, LATERAL (SELECT CASE WHEN s.seqincrement > 0 \
                     THEN GREATEST({stands}, (SELECT pg_catalog.max({column}) FROM {table})) \
                     ELSE LEAST({stands}, (SELECT pg_catalog.min({column}) FROM {table})) END::pg_catalog.int8 AS v) AS p \
                     WHERE s.seqrelid = pg_catalog.pg_get_serial_sequence({}, {})::pg_catalog.regclass AND v BETWEEN s.seqmin AND s.seqmax",
                    quote_literal(table),
                    quote_literal(&part.name)
                )
            })
            .collect()
    }

    /// Makes everything on a table that has its rows, in the transaction that is open.
    ///
    /// # Errors
    /// The server's: rows that break a constraint.
    pub fn make(&self, session: &mut Session, table: &str) -> Result<()> {
        self.statements(table).iter().chain(&self.positions(table)).try_for_each(|sql| session.run(sql).map_err(|e| told(e, sql)))
    }

    /// What is left for when the job's other tables are there.
    pub fn later(&self, table: &str) -> Option<KeysLater> {
        self.later.clone().map(|(source, keys)| KeysLater { source, target: table.to_string(), keys })
    }

    /// Tries everything on an empty table that `before` makes, and takes it back.
    ///
    /// # Errors
    /// What could not be made.
    pub fn rehearse(&self, session: &mut Session, before: &str, table: &str) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        session.run(&format!("BEGIN; SET LOCAL lock_timeout = '30s'; {before}"))?;
        let made = self.make(session, table);
        session.run("ROLLBACK")?;
        made
    }
}

/// The statements that add a foreign key to `other` and check the rows.
fn foreign_key(part: &TablePart, table: &str, other: &str) -> Vec<String> {
    let text = part.sql.replacen("{}", other, 1);
    let name = quote_ident(&part.name);
    let add = format!("ALTER TABLE {table} ADD CONSTRAINT {name} {}", text.trim_end_matches(" NOT VALID"));
    let validate = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {name}");
    match text.as_str() {
        // One that is not valid in the source may not hold here either.
        text if text.ends_with(" NOT VALID") => vec![format!("{add} NOT VALID")],
        text if text.ends_with(" NOT ENFORCED") => vec![add],
        _ => vec![format!("{add} NOT VALID"), validate],
    }
}

/// See [`haul_model::Connector::add_keys`].
///
/// # Errors
/// As there.
pub fn add_keys(session: &mut Session, table: &str, keys: &[TablePart]) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    for part in keys {
        let other = part.refers_to.as_deref().unwrap_or_default();
        if !exists(session, other)? {
            left_out.push(format!("{} of {table} is left out: {other} is not there", spoken(part)));
            continue;
        }
        let made = "SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = pg_catalog.to_regclass($1) AND conname = $2)";
        let made = session.row(made, &[Some(table), Some(&part.name)])?.is_some_and(|row| row.flag(0));
        for sql in foreign_key(part, table, other).iter().skip(usize::from(made)) {
            session.run(sql).map_err(|e| told(e, sql))?;
        }
    }
    Ok(left_out)
}

/// Whether anything beside columns was asked for.
pub(super) fn wanted(options: &Options) -> bool {
    options.with_keys || options.with_indexes || options.with_constraints
}

impl Options {
    fn asks_for(&self, kind: PartKind) -> bool {
        match kind {
            PartKind::PrimaryKey | PartKind::Unique => self.with_keys,
            PartKind::Index => self.with_indexes,
            _ => self.with_constraints,
        }
    }
}

fn told(error: Error, sql: &str) -> Error {
    let short: String = sql.chars().take(200).collect();
    error.context(format!("the new table cannot be made like the source's ({short})"))
}

fn spoken(part: &TablePart) -> String {
    let what = match part.kind {
        PartKind::PrimaryKey => "the primary key",
        PartKind::Unique => "the unique constraint",
        PartKind::Index => "the index",
        PartKind::Check => "the CHECK",
        PartKind::ForeignKey => "the foreign key",
        PartKind::Default => "the default of",
        PartKind::Identity | PartKind::Sequence => "the sequence of",
        PartKind::Generated => "the expression of",
    };
    format!("{what} {}", part.name)
}

fn exists(session: &mut Session, name: &str) -> Result<bool> {
    Ok(session.row("SELECT pg_catalog.to_regclass($1) IS NOT NULL", &[Some(name)])?.is_some_and(|row| row.flag(0)))
}

/// `start` and `end`, cut in between to what the server keeps of a name.
fn fitting(start: &str, end: &str) -> String {
    let mut start = start.to_string();
    while start.len() + end.len() > MAX_NAME {
        start.pop();
    }
    start + end
}
