//! Modes with a key: rows wait in staging tables and meet the target in one statement, inside the transaction of the session at hand.
//!
//! The unit is whatever the staging tables hold: a whole load, or one split of it. Of several rows with the same key the last one
//! wins: the highest split, in it the highest place. A staging table is made in the transaction that fills it, so the server
//! appends to it and never looks for free space in earlier pages: its `ctid` is the order in which rows came, and no column is
//! needed to remember it. The server itself notices when a row is about to be written twice, so duplicates cost nothing where there
//! are none.

use super::keys;
use super::plan::Located;
use super::settings::KeyedMode;
use super::staging::Staging;
use super::way::{overriding, qualified};
use crate::postgres::catalog::{Identity, PgColumn, Relation, RelationKind, quote_ident};
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
    /// The same behind `loaded.`.
    values: String,
    key_list: String,
    /// Columns that are updated, quoted; none if there is nothing to update.
    set: Vec<String>,
    overriding: &'static str,
    /// The column of staging tables that numbers splits; used only where rows of several splits meet.
    pub split_column: String,
    /// Whether the table has triggers or rules, which could skip rows without a word.
    triggers: bool,
    /// Whether rows go to partitions, which do not say which of them were updated.
    partitioned: bool,
    /// Whether upsert tries MERGE first.
    by_merge: bool,
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
    pub fn shown(&self, objects: Vec<String>) -> Vec<String> {
        let staged = self.staging.table(0).sql;
        let mut shown = self.staging.create(0);
        shown.extend(self.create.clone());
        shown.extend(self.merge.shown(&staged));
        shown.extend(objects);
        shown.push(format!("DROP TABLE {staged}"));
        shown
    }
}

impl Merge {
    /// Decides how `loaded` columns come into the target. `fire`: its triggers are not held back.
    ///
    /// # Errors
    /// A missing or unfit key, missing rights.
    pub fn plan(
        session: &mut Session,
        target: &Located,
        mode: KeyedMode,
        asked: Option<&[String]>,
        loaded: &[PgColumn],
        fire: bool,
    ) -> Result<Self> {
        let relation = target.relation.as_ref();
        let key = match relation {
            Some(relation) => keys::key(session, relation, mode, asked, loaded)?,
            None => keys::key_of_a_new_table(&target.display, mode, asked, loaded)?,
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
        let triggers = fire && relation.map_or(Ok(false), |r| has_triggers(session, r))?;
        let merge = Self {
            mode,
            table: qualified(&target.schema, &target.name),
            list: quoted(loaded.iter().map(|c| c.name.as_str()), ""),
            values: quoted(loaded.iter().map(|c| c.name.as_str()), "loaded."),
            key_list: quoted(key.iter().map(String::as_str), ""),
            set: set.iter().map(|c| quote_ident(c)).collect(),
            overriding: overriding(loaded),
            split_column,
            by_merge: mode == KeyedMode::Upsert && !set.is_empty() && may_merge(session, triggers)?,
            triggers,
            partitioned: relation.is_some_and(|r| r.kind == RelationKind::Partitioned),
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
        let rules = "SELECT EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = $1::pg_catalog.oid)";
        if session.row(rules, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)) {
            return Err(Error::new(ErrorKind::Unsupported, format!("the table has rules, which --mode {} cannot obey", self.mode.word()))
                .object(relation.display())
                .hint("--mode append copies past them"));
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
    pub fn create_target(&self, columns: &str, (unlogged, options): &(bool, String)) -> String {
        super::plan::create_table(*unlogged, &self.table, &format!("{columns}, PRIMARY KEY ({})", self.key_list), options)
    }

    /// The statement, for the plan.
    pub fn shown(&self, staging: &str) -> Vec<String> {
        match self.mode {
            KeyedMode::DeleteInsert => vec![
                format!("DELETE FROM {} USING {staging} WHERE the key ({}) is the same", self.table, self.key_list),
                self.insert(staging),
            ],
            _ if self.by_merge => vec![self.merge_statement(&format!("{staging} AS loaded"))],
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
        if rows == 0 {
            return Ok(Keyed::default());
        }
        let within = (self.mode != KeyedMode::DeleteInsert).then_some(LOOK_AHEAD);
        let (mut superseded, mut by_merge) = (0, self.by_merge);
        // Whether no key is there twice any more.
        let mut single = rows <= LOOK_AHEAD || within.is_none();
        if self.doubled(session, staged, within)? {
            (superseded, single) = (self.supersede(session, staged)?, true);
        }
        session.run("SAVEPOINT haul_merge")?;
        loop {
            let left = rows - superseded;
            let applied = if by_merge { self.merge(session, staged, left) } else { self.apply(session, staged, left).map(Some) };
            match applied {
                // Rows were left out: because they are in the table, or because they are there twice in the load?
                Ok(Some(keyed)) if keyed.ignored == 0 || single || !self.doubled(session, staged, None)? => {
                    session.run("RELEASE SAVEPOINT haul_merge")?;
                    return Ok(Keyed { superseded, ..keyed });
                }
                Ok(_) => {}
                // A key that is there twice in the load; or, for MERGE, in another session's hands meanwhile.
                Err(error) if error.code_text() == Some("21000") && !single || error.code_text() == Some("23505") && by_merge => {}
                Err(error) => return Err(error),
            }
            session.run("ROLLBACK TO SAVEPOINT haul_merge")?;
            if !single {
                (superseded, single) = (self.supersede(session, staged)?, true);
            }
            by_merge = false;
        }
    }

    /// By MERGE, which is the fastest, but does not say how many rows it inserted: the session's own statistics do. `None` if they
    /// cannot be trusted.
    fn merge(&self, session: &mut Session, staged: &[Staged], rows: u64) -> Result<Option<Keyed>> {
        let before = self.counted(session)?;
        let taken = session.execute(&self.merge_statement(&self.from(staged, &self.list)))?;
        let after = self.counted(session)?;
        let keyed = Keyed { inserted: after.0 - before.0, updated: after.1 - before.1, ..Keyed::default() };
        self.balance(taken, rows)?;
        Ok((keyed.written() == taken).then_some(keyed))
    }

    /// Rows that this transaction has inserted and updated in the target so far.
    fn counted(&self, session: &mut Session) -> Result<(u64, u64)> {
        let sql = "WITH t AS (SELECT pg_catalog.to_regclass($1) AS root) \
                   SELECT sum(pg_catalog.pg_stat_get_xact_tuples_inserted(o)), sum(pg_catalog.pg_stat_get_xact_tuples_updated(o)) \
                   FROM (SELECT root::pg_catalog.oid FROM t UNION SELECT p.relid FROM t, pg_catalog.pg_partition_tree(t.root) p) AS tree(o)";
        pair(session.row(sql, &[Some(&self.table)])?)
    }

    /// By INSERT ... ON CONFLICT, or DELETE and INSERT.
    fn apply(&self, session: &mut Session, staged: &[Staged], rows: u64) -> Result<Keyed> {
        let keyed = match self.mode {
            _ if self.ignores() => self.insert_others(session, staged, rows)?,
            KeyedMode::DeleteInsert => self.delete_insert(session, staged)?,
            _ if self.partitioned => self.upsert_in_partitions(session, staged)?,
            _ => {
                // A row that was updated bears this transaction in its xmax, for it was locked first; a new one bears none.
                let sql = format!(
                    "WITH put AS ({}{} RETURNING xmax = 0 AS fresh) \
                     SELECT pg_catalog.count(*) FILTER (WHERE fresh), pg_catalog.count(*) FILTER (WHERE NOT fresh) FROM put",
                    self.insert(&self.from(staged, &self.list)),
                    self.on_conflict()
                );
                let (inserted, updated) = pair(session.row(&sql, &[])?)?;
                Keyed { inserted, updated, ..Keyed::default() }
            }
        };
        self.balance(keyed.confirmed(), rows)?;
        Ok(keyed)
    }

    fn balance(&self, taken: u64, rows: u64) -> Result<()> {
        if taken == rows {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Server, format!("the table took {taken} of {rows} rows without an error"))
            .hint("does a trigger of the table skip rows?"))
    }

    fn insert_others(&self, session: &mut Session, staged: &[Staged], rows: u64) -> Result<Keyed> {
        let inserted = session.execute(&format!("{}{}", self.insert(&self.from(staged, &self.list)), self.on_conflict()))?;
        let ignored = rows.saturating_sub(inserted);
        if ignored > 0 && self.triggers {
            self.check_ignored(session, staged)?;
        }
        Ok(Keyed { inserted, ignored, ..Keyed::default() })
    }

    /// `RETURNING xmax` is not to be had of a partitioned table, so the keys that are there are counted before, while nobody else can add one.
    fn upsert_in_partitions(&self, session: &mut Session, staged: &[Staged]) -> Result<Keyed> {
        session.run(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", self.table))?;
        let there = format!(
            "SELECT pg_catalog.count(*) FROM {} WHERE EXISTS (SELECT FROM {} AS target WHERE {})",
            self.from(staged, &self.key_list),
            self.table,
            self.same_key()
        );
        let updated = session.row(&there, &[])?.and_then(|row| row.parse(0)).unwrap_or(0);
        let taken = session.execute(&format!("{}{}", self.insert(&self.from(staged, &self.list)), self.on_conflict()))?;
        Ok(Keyed { inserted: taken.saturating_sub(updated), updated, ..Keyed::default() })
    }

    fn delete_insert(&self, session: &mut Session, staged: &[Staged]) -> Result<Keyed> {
        for table in staged {
            session.run(&format!("ANALYZE {} ({})", table.sql, self.key_list))?;
        }
        session.run(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", self.table))?;
        // One statement, and the old rows first: foreign keys that point here are checked at its end.
        let sql = format!(
            "WITH gone AS (DELETE FROM {} AS target USING {} WHERE {} RETURNING 1), \
             put AS ({} WHERE (SELECT pg_catalog.count(*) FROM gone) >= 0 RETURNING 1) \
             SELECT (SELECT pg_catalog.count(*) FROM put), (SELECT pg_catalog.count(*) FROM gone)",
            self.table,
            self.from(staged, &self.key_list),
            self.same_key(),
            self.insert(&self.from(staged, &self.list))
        );
        let (inserted, deleted) = pair(session.row(&sql, &[])?)?;
        Ok(Keyed { inserted, deleted, ..Keyed::default() })
    }

    fn assignments(&self, from: &str) -> String {
        self.set.iter().map(|c| format!("{c} = {from}.{c}")).collect::<Vec<_>>().join(", ")
    }

    /// `target` and `loaded` have the same key.
    fn same_key(&self) -> String {
        self.key.iter().map(|k| format!("target.{0} = loaded.{0}", quote_ident(k))).collect::<Vec<_>>().join(" AND ")
    }

    fn merge_statement(&self, from: &str) -> String {
        format!(
            "MERGE INTO {} AS target USING {from} ON {} WHEN MATCHED THEN UPDATE SET {} WHEN NOT MATCHED THEN INSERT ({}){} VALUES ({})",
            self.table,
            self.same_key(),
            self.assignments("loaded"),
            self.list,
            self.overriding,
            self.values
        )
    }

    /// Whether rows that are there stay as they are.
    fn ignores(&self) -> bool {
        self.mode == KeyedMode::InsertIgnore || (self.mode == KeyedMode::Upsert && self.set.is_empty())
    }

    fn insert(&self, from: &str) -> String {
        format!("INSERT INTO {} ({}){} SELECT {} FROM {from}", self.table, self.list, self.overriding, self.list)
    }

    fn on_conflict(&self) -> String {
        let action = if self.ignores() { "NOTHING".to_string() } else { format!("UPDATE SET {}", self.assignments("EXCLUDED")) };
        format!(" ON CONFLICT ({}) DO {action}", self.key_list)
    }

    /// What `staged` holds as one FROM item named `loaded`.
    fn from(&self, staged: &[Staged], list: &str) -> String {
        match staged {
            [one] => format!("{} AS loaded", one.sql),
            many => {
                let parts: Vec<String> = many.iter().map(|s| format!("SELECT {list} FROM {}", s.sql)).collect();
                format!("({}) AS loaded", parts.join(" UNION ALL "))
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
                    "gone_{i} AS (DELETE FROM {} AS target USING lost WHERE lost.haul_table = {i} AND target.ctid = lost.haul_place RETURNING 1)",
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
        let sql = format!(
            "SELECT pg_catalog.count(*) FROM {} WHERE NOT EXISTS (SELECT FROM {} AS target WHERE {})",
            self.from(staged, &self.key_list),
            self.table,
            self.same_key()
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

/// The two counts of a row.
fn pair(row: Option<haul_pgwire::Row>) -> Result<(u64, u64)> {
    let counts = row.and_then(|row| Some((row.parse(0)?, row.parse(1)?)));
    counts.ok_or_else(|| Error::internal("two counts were expected"))
}

/// Whether the table, or a partition of it, has triggers or rules of its owner's: they may skip rows and write others.
///
/// # Errors
/// The server's.
pub(super) fn has_triggers(session: &mut Session, relation: &Relation) -> Result<bool> {
    let sql = "WITH RECURSIVE tree(oid) AS (SELECT $1::pg_catalog.oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.oid) \
               SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN tree t ON g.tgrelid = t.oid WHERE NOT g.tgisinternal AND g.tgenabled <> 'D') \
               OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r JOIN tree t ON r.ev_class = t.oid)";
    Ok(session.row(sql, &[Some(&relation.oid.to_string())])?.is_some_and(|row| row.flag(0)))
}

/// Whether MERGE serves: from version 15 on, where nothing but it writes to the table, and where the server counts.
fn may_merge(session: &mut Session, triggers: bool) -> Result<bool> {
    if session.version() < 150_000 || triggers {
        return Ok(false);
    }
    let counts = session.row("SELECT pg_catalog.current_setting('track_counts') = 'on'", &[])?;
    Ok(counts.is_some_and(|row| row.flag(0)))
}
