//! Modes with a key: rows wait in staging tables and meet the target in one statement, inside the transaction of the session at hand.
//!
//! The unit is whatever the staging tables hold: a whole load, or one split of it. Of several rows with the same key the last one
//! wins: the highest split, in it the highest place. A staging table is made in the transaction that fills it, so the server
//! appends to it and never looks for free space in earlier pages: its `ctid` is the order in which rows came, and no column is
//! needed to remember it. The server itself notices when a row is about to be written twice, so duplicates cost nothing where there
//! are none.

use super::keys;
use super::settings::KeyedMode;
use super::staging::Staging;
use super::way::qualified;
use crate::postgres::catalog::{Identity, PgColumn, Relation, quote_ident};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Keyed, Result};

/// Duplicates are looked for in so many rows before anything is written: they tend to be everywhere or nowhere.
const LOOK_AHEAD: u64 = 100_000;

/// What a unit is merged into, and how. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merge {
    pub mode: KeyedMode,
    /// Key columns, bare.
    pub key: Vec<String>,
    /// `"schema"."name"`.
    table: String,
    /// `"a", "b"`: what is loaded.
    list: String,
    key_list: String,
    /// `"v" = EXCLUDED."v"`; empty if there is nothing to update.
    set: String,
    overriding: &'static str,
    /// The column of staging tables that numbers splits; used only where rows of several splits meet.
    pub split_column: String,
    /// Whether triggers could skip rows without a word.
    skipping_triggers: bool,
}

/// Where rows of a unit wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staged {
    /// As SQL.
    pub sql: String,
    /// Whether it has the column that numbers splits.
    pub numbered: bool,
}

/// A load with a key: where its rows wait, and how they are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merging {
    pub merge: Merge,
    pub staging: Staging,
    /// CREATE TABLE of a target that is not there yet.
    pub create: Option<String>,
}

impl Merging {
    /// What happens, after `COPY BINARY`.
    pub fn described(&self) -> String {
        format!("into {}; at the end one transaction {}", self.staging.table(0).sql, self.merge.described())
    }

    /// The statements, for the plan.
    pub fn shown(&self) -> Vec<String> {
        let staged = self.staging.table(0).sql;
        let mut shown = self.staging.create(0);
        shown.extend(self.create.clone());
        shown.extend(self.merge.shown(&staged));
        shown.push(format!("DROP TABLE {staged}"));
        shown
    }
}

impl Merge {
    /// Decides how `loaded` columns come into `relation` (or into a table `table` that is still to be made).
    ///
    /// # Errors
    /// A missing or unfit key, missing rights.
    pub fn plan(
        session: &mut Session,
        relation: Option<&Relation>,
        table: (&str, &str),
        mode: KeyedMode,
        asked: Option<&[String]>,
        loaded: &[PgColumn],
    ) -> Result<Self> {
        let key = match relation {
            Some(relation) => keys::key(session, relation, mode, asked, loaded)?,
            None => keys::key_of_a_new_table(&format!("{}.{}", table.0, table.1), mode, asked, loaded)?,
        };
        let always = |c: &&PgColumn| c.identity == Some(Identity::Always);
        let updated = loaded.iter().filter(|c| !key.contains(&c.name) && !always(c));
        let mut set: Vec<&str> = updated.map(|c| c.name.as_str()).collect();
        if set.is_empty() {
            // A row that is nothing but its key is updated to itself.
            set = loaded.iter().filter(|c| !always(c)).map(|c| c.name.as_str()).take(1).collect();
        }
        let mut split_column = "haul_split".to_string();
        while relation.is_some_and(|r| r.columns.iter().any(|c| c.name == split_column)) || loaded.iter().any(|c| c.name == split_column) {
            split_column.push('_');
        }
        let merge = Self {
            mode,
            table: qualified(table.0, table.1),
            list: quoted(loaded.iter().map(|c| c.name.as_str()), ""),
            key_list: quoted(key.iter().map(String::as_str), ""),
            set: set.iter().map(|c| format!("{0} = EXCLUDED.{0}", quote_ident(c))).collect::<Vec<_>>().join(", "),
            overriding: if loaded.iter().any(|c| always(&c)) { " OVERRIDING SYSTEM VALUE" } else { "" },
            split_column,
            skipping_triggers: relation.map_or(Ok(false), |r| skipping_triggers(session, r))?,
            key,
        };
        if let Some(relation) = relation {
            merge.check(session, relation)?;
        }
        Ok(merge)
    }

    /// Rights, and whether the key can be compared.
    fn check(&self, session: &mut Session, relation: &Relation) -> Result<()> {
        let needed: &[&str] = match self.mode {
            KeyedMode::Upsert => &["SELECT", "UPDATE"],
            KeyedMode::InsertIgnore => &["SELECT"],
            KeyedMode::DeleteInsert => &["SELECT", "DELETE"],
        };
        for right in needed {
            let function = if *right == "DELETE" { "has_table_privilege" } else { "has_any_column_privilege" };
            let sql = format!("SELECT pg_catalog.{function}($1::pg_catalog.oid, '{right}')");
            if !session.row(&sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)) {
                return Err(Error::new(ErrorKind::Permission, format!("--mode {} needs the right to {right}", self.mode.word()))
                    .object(relation.display())
                    .hint(format!("GRANT {right} to this role, or use another one")));
            }
        }
        if self.mode == KeyedMode::DeleteInsert {
            super::way::check_delete(session, relation)?;
            let sql = format!("SELECT FROM {} GROUP BY {} LIMIT 0", self.table, self.key_list);
            session.query(&sql, &[]).map_err(|e| e.context("the key cannot be compared").object(relation.display()))?;
        }
        Ok(())
    }

    /// Columns whose values are kept in rows that are there.
    pub fn kept<'a>(&self, loaded: &'a [PgColumn]) -> Vec<&'a str> {
        let always = loaded.iter().filter(|c| c.identity == Some(Identity::Always) && !self.key.contains(&c.name));
        always.filter(|_| self.mode == KeyedMode::Upsert).map(|c| c.name.as_str()).collect()
    }

    /// The statement that makes a target with these columns.
    pub fn create_target(&self, columns: &str) -> String {
        format!("CREATE TABLE {} ({columns}, PRIMARY KEY ({}))", self.table, self.key_list)
    }

    /// The statement, for the plan.
    pub fn shown(&self, staging: &str) -> Vec<String> {
        match self.mode {
            KeyedMode::DeleteInsert => vec![
                format!("DELETE FROM {} USING {staging} WHERE the key ({}) is the same", self.table, self.key_list),
                self.insert(staging),
            ],
            _ => vec![format!("{}{}", self.insert(staging), self.on_conflict())],
        }
    }

    /// What it does to rows that are there, for people.
    pub fn described(&self) -> String {
        let key = self.key.join(", ");
        match self.mode {
            KeyedMode::Upsert => format!("inserts from it and updates the rows whose ({key}) is there already"),
            KeyedMode::InsertIgnore => format!("inserts from it the rows whose ({key}) is not there yet"),
            KeyedMode::DeleteInsert => format!("deletes the rows whose ({key}) is in it and inserts all of it"),
        }
    }

    /// Merges what `staged` holds, `rows` rows, into the target. The session is in a transaction, which stays open.
    ///
    /// # Errors
    /// The server's (then the transaction is to be rolled back), and rows that the table did not take without an error.
    pub fn run(&self, session: &mut Session, staged: &[Staged], rows: u64) -> Result<Keyed> {
        let mut keyed = Keyed::default();
        if rows == 0 {
            return Ok(keyed);
        }
        let one_by_one = self.mode == KeyedMode::DeleteInsert;
        if self.doubled(session, staged, (!one_by_one).then_some(LOOK_AHEAD))? {
            keyed.superseded = self.supersede(session, staged)?;
        }
        session.run("SAVEPOINT haul_merge")?;
        let known = one_by_one || keyed.superseded > 0 || rows <= LOOK_AHEAD;
        let again = match self.apply(session, staged, rows - keyed.superseded, &mut keyed) {
            // "cannot affect row a second time": the server found what was looked for too briefly.
            Err(error) if error.code_text() == Some("21000") && !known => true,
            Err(error) => return Err(error),
            // Rows were left out: because they are in the table, or because they are there twice in the load?
            Ok(()) => keyed.ignored > 0 && !known && self.doubled(session, staged, None)?,
        };
        if again {
            session.run("ROLLBACK TO SAVEPOINT haul_merge")?;
            keyed = Keyed { superseded: self.supersede(session, staged)?, ..Keyed::default() };
            self.apply(session, staged, rows - keyed.superseded, &mut keyed)?;
        }
        session.run("RELEASE SAVEPOINT haul_merge")?;
        Ok(keyed)
    }

    /// The statement itself, and what came of it.
    fn apply(&self, session: &mut Session, staged: &[Staged], rows: u64, keyed: &mut Keyed) -> Result<()> {
        let from = self.from(staged, &self.list);
        let counts = |session: &mut Session, sql: &str| -> Result<(u64, u64)> {
            let row = session.row(sql, &[])?.ok_or_else(|| Error::internal("a count without a row"))?;
            Ok((row.parse(0).unwrap_or(0), row.parse(1).unwrap_or(0)))
        };
        match self.mode {
            _ if self.ignores() => {
                keyed.inserted = session.execute(&format!("{}{}", self.insert(&from), self.on_conflict()))?;
                keyed.ignored = rows.saturating_sub(keyed.inserted);
                if keyed.ignored > 0 && self.skipping_triggers {
                    self.check_ignored(session, staged)?;
                }
            }
            KeyedMode::DeleteInsert => {
                for table in staged {
                    session.run(&format!("ANALYZE {} ({})", table.sql, self.key_list))?;
                }
                session.run(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", self.table))?;
                // One statement, and the old rows first: foreign keys that point here are checked at its end.
                let matching = self.key.iter().map(|k| format!("haul_t.{0} = haul_s.{0}", quote_ident(k))).collect::<Vec<_>>().join(" AND ");
                let keys = self.from(staged, &self.key_list);
                let (deleted, inserted) = counts(
                    session,
                    &format!(
                        "WITH gone AS (DELETE FROM {} AS haul_t USING {keys} WHERE {matching} RETURNING 1), \
                         put AS ({} WHERE (SELECT pg_catalog.count(*) FROM gone) >= 0 RETURNING 1) \
                         SELECT (SELECT pg_catalog.count(*) FROM gone), (SELECT pg_catalog.count(*) FROM put)",
                        self.table,
                        self.insert(&from)
                    ),
                )?;
                (keyed.deleted, keyed.inserted) = (deleted, inserted);
            }
            // A row that was updated bears this transaction in its xmax, for it was locked first; a new one bears none.
            _ => {
                let (all, fresh) = counts(
                    session,
                    &format!(
                        "WITH put AS ({}{} RETURNING xmax = 0 AS fresh) \
                         SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE fresh) FROM put",
                        self.insert(&from),
                        self.on_conflict()
                    ),
                )?;
                (keyed.inserted, keyed.updated) = (fresh, all - fresh);
            }
        }
        let taken = keyed.written() + keyed.ignored;
        if taken != rows {
            return Err(Error::new(ErrorKind::Server, format!("the table took {taken} of {rows} rows without an error"))
                .hint("does a trigger of the table skip rows?"));
        }
        Ok(())
    }

    /// Whether rows that are there stay as they are.
    fn ignores(&self) -> bool {
        self.mode == KeyedMode::InsertIgnore || (self.mode == KeyedMode::Upsert && self.set.is_empty())
    }

    fn insert(&self, from: &str) -> String {
        format!("INSERT INTO {} ({}){} SELECT {} FROM {from}", self.table, self.list, self.overriding, self.list)
    }

    fn on_conflict(&self) -> String {
        let action = if self.ignores() { "NOTHING".to_string() } else { format!("UPDATE SET {}", self.set) };
        format!(" ON CONFLICT ({}) DO {action}", self.key_list)
    }

    /// What `staged` holds as one FROM item named `haul_s`.
    fn from(&self, staged: &[Staged], list: &str) -> String {
        match staged {
            [one] => format!("{} AS haul_s", one.sql),
            many => {
                let parts: Vec<String> = many.iter().map(|s| format!("SELECT {list} FROM {}", s.sql)).collect();
                format!("({}) AS haul_s", parts.join(" UNION ALL "))
            }
        }
    }

    /// Whether a key is there twice among the first `within` rows, or all.
    fn doubled(&self, session: &mut Session, staged: &[Staged], within: Option<u64>) -> Result<bool> {
        let limit = within.map(|n| format!(" LIMIT {n}")).unwrap_or_default();
        let sql = format!(
            "SELECT EXISTS (SELECT FROM (SELECT {0} FROM {1}{limit}) AS haul_k GROUP BY {0} HAVING pg_catalog.count(*) > 1)",
            self.key_list,
            self.from(staged, &self.key_list)
        );
        Ok(session.row(&sql, &[])?.is_some_and(|row| row.flag(0)))
    }

    /// Takes out every row that a later one has the key of; how many.
    fn supersede(&self, session: &mut Session, staged: &[Staged]) -> Result<u64> {
        let part = |(i, table): (usize, &Staged)| {
            let split = if table.numbered { quote_ident(&self.split_column) } else { "0".into() };
            format!("SELECT {i} AS haul_table, {split} AS haul_number, ctid AS haul_place, {} FROM {}", self.key_list, table.sql)
        };
        let all = staged.iter().enumerate().map(part).collect::<Vec<_>>().join(" UNION ALL ");
        let gone: Vec<String> = staged
            .iter()
            .enumerate()
            .map(|(i, table)| {
                format!(
                    "gone_{i} AS (DELETE FROM {} AS haul_t USING lost WHERE lost.haul_table = {i} AND haul_t.ctid = lost.haul_place RETURNING 1)",
                    table.sql
                )
            })
            .collect();
        let counted = (0..staged.len()).map(|i| format!("(SELECT pg_catalog.count(*) FROM gone_{i})")).collect::<Vec<_>>().join(" + ");
        let sql = format!(
            "WITH lost AS (SELECT haul_table, haul_place FROM (SELECT haul_table, haul_place, pg_catalog.row_number() OVER \
               (PARTITION BY {} ORDER BY haul_number DESC, haul_table DESC, haul_place DESC) AS haul_rank FROM ({all}) AS haul_a) AS haul_r \
               WHERE haul_rank > 1), {} SELECT {counted}",
            self.key_list,
            gone.join(", ")
        );
        Ok(session.row(&sql, &[])?.and_then(|row| row.parse(0)).unwrap_or(0))
    }

    /// Rows that were left out must be there under their key; if not, something else kept them out.
    fn check_ignored(&self, session: &mut Session, staged: &[Staged]) -> Result<()> {
        let matching = self.key.iter().map(|k| format!("haul_t.{0} = haul_s.{0}", quote_ident(k))).collect::<Vec<_>>().join(" AND ");
        let sql = format!(
            "SELECT pg_catalog.count(*) FROM {} WHERE NOT EXISTS (SELECT FROM {} AS haul_t WHERE {matching})",
            self.from(staged, &self.key_list),
            self.table
        );
        match session.row(&sql, &[])?.and_then(|row| row.parse::<u64>(0)).unwrap_or(0) {
            0 => Ok(()),
            n => Err(Error::new(ErrorKind::Server, format!("{n} rows were neither inserted nor there already, without an error"))
                .hint("does a trigger of the table skip rows?")),
        }
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>, before: &str) -> String {
    names.map(|name| format!("{before}{}", quote_ident(name))).collect::<Vec<_>>().join(", ")
}

/// Whether the table has BEFORE triggers for inserted rows: those may skip a row.
fn skipping_triggers(session: &mut Session, relation: &Relation) -> Result<bool> {
    // Bits of tgtype: 1 = for each row, 2 = before, 4 = insert.
    let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = $1::pg_catalog.oid AND NOT tgisinternal \
               AND tgtype & 7 = 7 AND tgenabled <> 'D')";
    Ok(session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)))
}
