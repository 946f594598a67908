//! A table that changes are applied to: how the source's columns find its own, and what tells its rows apart.

use super::super::changes::Told;
use crate::postgres::catalog::{Identity, Relation, quote_ident};
use crate::postgres::config::TableName;
use crate::postgres::discover;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Result};

/// What is done where the source's table has something that the target's has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It stops.
    Stop,
    /// The table, or the column, is made.
    Add,
}

/// A column of the source, by its name in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumn {
    /// Quoted.
    pub sql: String,
    /// The target's type as SQL.
    pub type_name: String,
}

/// A table of the target, for one shape of the source's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetTable {
    pub oid: u32,
    /// `schema.name`, for messages.
    pub display: String,
    /// `"schema"."name"`.
    pub sql: String,
    /// In the order of the tuples.
    pub columns: Vec<TargetColumn>,
    /// The columns, quoted, with commas.
    pub list: String,
    /// Numbers of the columns that tell rows apart; none: only the whole row does.
    pub key: Vec<usize>,
    pub overriding: &'static str,
}

impl TargetTable {
    /// Finds the table for a shape, or makes what is missing (the table, a column) where that is wanted.
    ///
    /// # Errors
    /// `NotFound`: table or column, with what to do; the server's.
    pub fn find(session: &mut Session, told: &Told, named: Option<&TableName>, missing: (Missing, Missing)) -> Result<Self> {
        let (table_missing, column_missing) = missing;
        let name = named.cloned().unwrap_or_else(|| TableName { schema: Some(told.schema.clone()), name: told.name.clone() });
        let relation = match discover::relation(session, &name) {
            Ok(relation) => relation,
            Err(error) if error.kind() == ErrorKind::NotFound && table_missing == Missing::Add => {
                session.run(&create(told, &name)).map_err(|e| e.context("the table cannot be made").object(name.to_string()))?;
                discover::relation(session, &name)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("the target has no table {name} for the changes of {}", told.display()),
                )
                .hint("create it there, or say --create"));
            }
            Err(error) => return Err(error),
        };
        let relation = with_columns(session, told, relation, column_missing)?;
        let found = |name: &str| relation.columns.iter().find(|c| c.name == name);
        for column in &told.columns {
            if let Some(own) = found(&column.name).filter(|own| bends(&column.type_name, &own.type_name)) {
                return Err(Error::new(
                    ErrorKind::Schema,
                    format!(
                        "the source's column is of type {}, and the target's of {}, which would take some values as others",
                        column.type_name, own.type_name
                    ),
                )
                .object(relation.display())
                .column(&column.name)
                .hint(format!(
                    "ALTER TABLE {} ALTER {} TYPE {}, and start the job again",
                    relation.sql(),
                    quote_ident(&column.name),
                    column.type_name
                )));
            }
        }
        let columns: Vec<TargetColumn> = (told.columns.iter())
            .filter_map(|c| found(&c.name))
            .map(|c| TargetColumn { sql: quote_ident(&c.name), type_name: c.type_name.clone() })
            .collect();
        if columns.len() != told.columns.len() {
            return Err(Error::internal("a column went away while it was looked for").object(relation.display()));
        }
        let always = told.columns.iter().filter_map(|c| found(&c.name)).any(|c| c.identity == Some(Identity::Always));
        Ok(Self {
            oid: relation.oid,
            display: relation.display(),
            sql: relation.sql(),
            list: columns.iter().map(|c| c.sql.as_str()).collect::<Vec<_>>().join(", "),
            columns,
            key: key(session, told, &relation)?,
            overriding: if always { "OVERRIDING SYSTEM VALUE " } else { "" },
        })
    }
}

/// Whether a type takes the text of another one's values, but not exactly: it rounds, cuts, or forgets a zone. Any other type takes a text as
/// it is, or refuses it.
fn bends(source: &str, target: &str) -> bool {
    const BENDING: &[&str] = &[
        "numeric(",
        "timestamp",
        "time",
        "date",
        "interval",
        "character",
        "real",
        "double precision",
        "bit",
        "jsonb",
        "money",
        "name",
        "\"char\"",
    ];
    let exact = matches!(target, "character varying" | "character varying[]");
    source != target && !exact && BENDING.iter().any(|start| target.starts_with(start)) && !widens(source, target)
}

/// Whether both are the same type, and the target's has at least as much room.
fn widens(source: &str, target: &str) -> bool {
    let parts = |text: &str| {
        let (start, rest) = text.split_once('(')?;
        let (numbers, end) = rest.split_once(')')?;
        let numbers: Vec<i64> = numbers.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        Some((format!("{start}{end}"), numbers))
    };
    match (parts(source), parts(target)) {
        (Some((from, source)), Some((to, target))) if from == to => match (source.as_slice(), target.as_slice()) {
            ([p, s], [q, t]) => t >= s && q - t >= p - s,
            // char(n) pads to its own length.
            ([n], [m]) => m >= n && from != "character",
            _ => false,
        },
        // No number is as much room as there is.
        (Some((from, _)), None) => from == target,
        _ => false,
    }
}

/// CREATE TABLE with the source's types.
fn create(told: &Told, name: &TableName) -> String {
    let mut columns: Vec<String> = told.columns.iter().map(|c| format!("{} {}", quote_ident(&c.name), c.type_name)).collect();
    let key: Vec<String> = told.columns.iter().filter(|c| c.key).map(|c| quote_ident(&c.name)).collect();
    if told.identity != b'f' && !key.is_empty() {
        columns.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    let schema = name.schema.as_ref().map_or(String::new(), |schema| format!("{}.", quote_ident(schema)));
    format!("CREATE TABLE {schema}{} ({})", quote_ident(&name.name), columns.join(", "))
}

/// The relation, with every column that the source has.
fn with_columns(session: &mut Session, told: &Told, relation: Relation, missing: Missing) -> Result<Relation> {
    let lacks = |c: &&super::super::changes::ToldColumn| !relation.columns.iter().any(|own| own.name == c.name);
    let lacking: Vec<_> = told.columns.iter().filter(lacks).collect();
    if let Some(generated) = told.columns.iter().find_map(|c| relation.columns.iter().find(|own| own.name == c.name && own.generated)) {
        return Err(Error::new(ErrorKind::Schema, "the source has values for a column that the target computes")
            .object(relation.display())
            .column(&generated.name));
    }
    let Some(first) = lacking.first() else { return Ok(relation) };
    if missing == Missing::Stop {
        return Err(Error::new(ErrorKind::Schema, format!("the source's table has a column {} of type {}, and the target's has not", first.name, first.type_name))
            .object(relation.display())
            .column(&first.name)
            .hint("add it to the target as it was added to the source, and start the job again; or say --schema-changes add (rows that are there get NULL)"));
    }
    let adds: Vec<String> = lacking.iter().map(|c| format!("ADD {} {}", quote_ident(&c.name), c.type_name)).collect();
    session.run(&format!("ALTER TABLE {} {}", relation.sql(), adds.join(", "))).map_err(|e| e.object(relation.display()))?;
    discover::relation_by_oid(session, relation.oid)
}

/// What tells rows apart: the source's replica identity; where that is the whole row, the target's primary key.
fn key(session: &mut Session, told: &Told, relation: &Relation) -> Result<Vec<usize>> {
    let numbered = |keep: &dyn Fn(usize) -> bool| (0..told.columns.len()).filter(|i| keep(*i)).collect::<Vec<_>>();
    if told.identity != b'f' {
        return Ok(numbered(&|i| told.columns[i].key));
    }
    let sql = "SELECT a.attname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
               WHERE i.indrelid = $1::pg_catalog.oid AND i.indisprimary";
    let names: Vec<String> = session.query(sql, &[Some(&relation.oid.to_string())])?.iter().map(|row| row.text(0).to_string()).collect();
    let key = numbered(&|i| names.contains(&told.columns[i].name));
    Ok(if key.len() == names.len() { key } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_round_or_cut_take_only_their_own() {
        for (source, target) in [
            ("numeric(12,4)", "numeric(10,2)"),
            ("timestamp with time zone", "timestamp without time zone"),
            ("timestamp(6) without time zone", "timestamp(0) without time zone"),
            ("character varying(20)", "character varying(10)"),
            ("double precision", "real"),
            ("json", "jsonb"),
            ("numeric(12,2)", "numeric(12,4)"),
            ("numeric", "numeric(12,4)"),
            ("character(3)", "character(5)"),
            ("text", "date"),
        ] {
            assert!(bends(source, target), "{source} {target}");
            assert!(!bends(target, target));
        }
        for (source, target) in
            [("integer", "bigint"), ("character varying(20)", "text"), ("numeric(12,4)", "numeric"), ("bigint", "integer")]
        {
            assert!(!bends(source, target), "{source} {target}");
        }
    }
}
