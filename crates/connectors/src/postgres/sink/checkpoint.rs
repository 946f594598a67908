//! What is durable of a run: a note per split in a table beside the target, written in the transaction of the split's rows.
//!
//! `haul_checkpoint` is the truth; whatever else is remembered of a run is corrected from it. A server crash empties UNLOGGED
//! tables, so the notes of rows in one stand in an UNLOGGED twin and go with them. The last transaction of a run puts one note in
//! place of them all (split -1: everything is in), which goes when the run has been forgotten elsewhere.

use super::way::{Way, qualified};
use crate::postgres::catalog::{quote_ident, quote_literal};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Left, Position, Result, RunId, SplitDone, Tracks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The table, and its twin for UNLOGGED targets.
const TABLES: [&str; 2] = ["haul_checkpoint", "haul_checkpoint_unlogged"];
/// The split of the note that stands for all.
const ALL: i64 = -1;
/// The split of the note of a cursor.
const CURSOR: i64 = -2;
/// How long a session that has to end may take.
const FENCE: Duration = Duration::from_secs(15);

/// Its columns.
pub const COLUMNS: &str = "job text NOT NULL, run text NOT NULL, split bigint NOT NULL, what text NOT NULL, position bytea NOT NULL, \
    rows_read bigint NOT NULL, rows bigint NOT NULL, finished_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(), \
    PRIMARY KEY (run, split)";

/// The notes of one run.
#[derive(Debug)]
pub(super) struct Notes {
    /// `"schema"."haul_checkpoint"`.
    table: String,
    run: RunId,
    /// Bytes of splits that this process has committed.
    bytes: AtomicU64,
}

/// The text by which a run's notes are known to the state.
pub(super) fn leaf(schema: &str) -> String {
    format!("notes {}", quote_ident(schema))
}

impl Notes {
    pub fn new(schema: &str, unlogged: bool, run: &RunId) -> Self {
        Self { table: qualified(schema, TABLES[usize::from(unlogged)]), run: run.clone(), bytes: AtomicU64::new(0) }
    }

    /// Whether the table is there, or may be made.
    fn can_be_made(&self, session: &mut Session, schema: &str) -> Result<bool> {
        let may = session.row("SELECT pg_catalog.has_schema_privilege($1, 'CREATE')", &[Some(schema)])?;
        Ok(may.is_some_and(|row| row.flag(0)) || exists(session, &self.table)?)
    }

    /// Makes the table if it is missing. `fresh`: notes of this run are of rows that are gone, and go too.
    ///
    /// # Errors
    /// Rights.
    pub fn begin(&self, session: &mut Session, fresh: bool) -> Result<()> {
        if !exists(session, &self.table)? {
            let unlogged = if self.table.ends_with("unlogged\"") { "UNLOGGED " } else { "" };
            let create = format!("CREATE {unlogged}TABLE IF NOT EXISTS {} ({COLUMNS})", self.table);
            // Two jobs may make it at the same time; then one of them is told about a double name in the catalog, and finds it there.
            if let Err(error) = session.run(&create)
                && !matches!(error.code_text(), Some("23505" | "42P07"))
            {
                return Err(error.context("the table for checkpoints cannot be made"));
            }
        }
        if fresh { self.remove(session) } else { Ok(()) }
    }

    /// The statement that notes a split.
    pub fn insert(&self, what: &str, done: &SplitDone) -> String {
        let hex: String = done.position.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "INSERT INTO {} (job, run, split, what, position, rows_read, rows) VALUES ({}, {}, {}, {}, '\\x{hex}', {}, {})",
            self.table,
            quote_literal(&self.run.job),
            quote_literal(&self.run.run),
            done.split,
            quote_literal(what),
            done.read,
            done.rows
        )
    }

    /// Puts one note in place of all, in the transaction that is open; the rows that they counted.
    ///
    /// # Errors
    /// The server's.
    pub fn sum_up(&self, session: &mut Session) -> Result<u64> {
        let rows = self.rows(session)?;
        self.remove(session)?;
        session.run(&self.insert_all(rows))?;
        Ok(rows)
    }

    /// The statement that notes that everything is in.
    pub fn insert_all(&self, rows: u64) -> String {
        format!(
            "INSERT INTO {} (job, run, split, what, position, rows_read, rows) VALUES ({}, {}, {ALL}, 'everything', '', {rows}, {rows})",
            self.table,
            quote_literal(&self.run.job),
            quote_literal(&self.run.run)
        )
    }

    /// The rows that are noted.
    ///
    /// # Errors
    /// The server's.
    pub fn rows(&self, session: &mut Session) -> Result<u64> {
        let sql = format!("SELECT COALESCE(pg_catalog.sum(rows), 0)::pg_catalog.text FROM {} WHERE run = $1", self.table);
        let row = session.row(&sql, &[Some(&self.run.run)])?;
        row.and_then(|row| row.parse(0)).ok_or_else(|| Error::internal("checkpoints without a sum"))
    }

    /// Whether the note that stands for all is there.
    ///
    /// # Errors
    /// The server's.
    pub fn has_summed_up(&self, session: &mut Session) -> Result<bool> {
        Ok(read(session, &self.table, &self.run.run)?.iter().any(|(split, _)| *split == ALL))
    }

    /// Removes the notes of this run.
    ///
    /// # Errors
    /// The server's.
    pub fn remove(&self, session: &mut Session) -> Result<()> {
        session.run(&format!("DELETE FROM {} WHERE run = {}", self.table, quote_literal(&self.run.run)))
    }

    /// The note of one split, if it is there and will stay.
    ///
    /// # Errors
    /// The server's.
    pub fn of(&self, session: &mut Session, split: u32) -> Result<Option<SplitDone>> {
        Ok(settled(session, &self.table, &self.run.run)?.into_iter().find(|(n, _)| *n == i64::from(split)).map(|(_, done)| done))
    }

    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// How far a cursor has got: a note that stays (split -2), changed in the transaction of the rows.
#[derive(Debug)]
pub(super) struct Cursor {
    notes: Notes,
    before: Option<String>,
    position: String,
}

impl Cursor {
    pub fn new(schema: &str, unlogged: bool, cursor: &str, before: Option<String>, position: &str) -> Self {
        let run = RunId { job: cursor.to_string(), run: cursor_run(cursor) };
        Self { notes: Notes::new(schema, unlogged, &run), before, position: position.to_string() }
    }

    /// Makes the table if it is missing.
    ///
    /// # Errors
    /// Rights.
    pub fn begin(&self, session: &mut Session) -> Result<()> {
        self.notes.begin(session, false)
    }

    /// Notes the position in the transaction that is open.
    ///
    /// # Errors
    /// Another run has moved it meanwhile; the server's.
    pub fn note(&self, session: &mut Session) -> Result<()> {
        let table = &self.notes.table;
        let unmoved = self.before.as_ref().map_or_else(|| "FALSE".to_string(), |b| format!("c.what = {}", quote_literal(b)));
        let sql = format!(
            "INSERT INTO {table} AS c (job, run, split, what, position, rows_read, rows) VALUES ({}, {}, {CURSOR}, {}, '', 0, 0) \
             ON CONFLICT (run, split) DO UPDATE SET what = EXCLUDED.what, finished_at = EXCLUDED.finished_at WHERE {unmoved}",
            quote_literal(&self.notes.run.job),
            quote_literal(&self.notes.run.run),
            quote_literal(&self.position)
        );
        match session.execute(&sql)? {
            0 => Err(Error::new(ErrorKind::Conflict, "another run has moved the cursor meanwhile")
                .hint("its rows are in; nothing of this run is: start it again if there may be more")),
            _ => Ok(()),
        }
    }
}

fn cursor_run(cursor: &str) -> String {
    format!("cursor {cursor}")
}

/// Where a cursor stands, by the notes in a schema.
///
/// # Errors
/// The server's.
pub(super) fn cursor(session: &mut Session, schema: &str, cursor: &str) -> Result<Option<String>> {
    for table in tables(session, &quote_ident(schema))? {
        let sql = format!("SELECT what FROM {table} WHERE run = $1 AND split = {CURSOR}");
        if let Some(row) = session.row(&sql, &[Some(&cursor_run(cursor))])? {
            return Ok(Some(row.text(0).to_string()));
        }
    }
    Ok(None)
}

/// The notes of a run in one table.
fn read(session: &mut Session, table: &str, run: &str) -> Result<Vec<(i64, SplitDone)>> {
    let sql = format!(
        "SELECT split::pg_catalog.text, pg_catalog.encode(position, 'hex'), rows_read::pg_catalog.text, rows::pg_catalog.text \
         FROM {table} WHERE run = $1 ORDER BY split"
    );
    let rows = session.query(&sql, &[Some(run)])?;
    let bad = || Error::new(ErrorKind::Data, "a checkpoint cannot be understood").object(table);
    rows.iter()
        .map(|row| {
            let split: i64 = row.parse(0).ok_or_else(bad)?;
            let hex = row.text(1);
            let position = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16)).collect::<Result<_, _>>();
            let done = SplitDone {
                split: u32::try_from(split).unwrap_or(u32::MAX),
                position: Position(position.map_err(|_| bad())?),
                read: row.parse(2).ok_or_else(bad)?,
                rows: row.parse(3).ok_or_else(bad)?,
            };
            Ok((split, done))
        })
        .collect()
}

/// The tables for notes that are there, of a schema that is quoted already.
fn tables(session: &mut Session, schema: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in TABLES {
        let table = format!("{schema}.{}", quote_ident(name));
        if exists(session, &table)? {
            found.push(table);
        }
    }
    Ok(found)
}

/// What a run has left, by what the state knows of it. Whoever asks holds the job's lock, so the run is over; but the server may not
/// know yet, and have a COMMIT of it still to do.
///
/// # Errors
/// The server's.
pub(super) fn look(session: &mut Session, run: &str, leaves: &[String]) -> Result<Left> {
    end_lanes(session, run)?;
    let mut splits = Vec::new();
    for schema in leaves.iter().filter_map(|leaf| leaf.strip_prefix("notes ")) {
        for table in tables(session, schema)? {
            for (split, done) in settled(session, &table, run)? {
                if split == ALL {
                    return Ok(Left::Everything(done.rows));
                }
                splits.push(done);
            }
        }
    }
    // Notes without the table that they speak of are worth nothing.
    for table in leaves.iter().filter_map(|leaf| leaf.strip_prefix("table ")) {
        if !exists(session, table)? {
            splits.clear();
        }
    }
    Ok(Left::Splits(splits))
}

/// The notes of a run, once nothing is in the way any more: a COMMIT is only sent after its note was written, so a transaction
/// that may still commit holds a lock on the table, and the stronger one waits for it.
fn settled(session: &mut Session, table: &str, run: &str) -> Result<Vec<(i64, SplitDone)>> {
    session.run(&format!("BEGIN; SET LOCAL lock_timeout = '15s'; LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))?;
    let notes = read(session, table, run)?;
    session.run("COMMIT")?;
    Ok(notes)
}

/// Ends the sessions of a run that is over: one whose client is gone without a word would hold its locks for long.
fn end_lanes(session: &mut Session, run: &str) -> Result<()> {
    // Not the ones that read: this very job may have opened some by now.
    const THOSE: &str = "FROM pg_catalog.pg_stat_activity WHERE usename = current_user AND pid <> pg_catalog.pg_backend_pid() \
                         AND (application_name LIKE 'haul/' || $1 || '/lane %' OR application_name = 'haul/' || $1 || '/finish')";
    let begun = Instant::now();
    while !session.query(&format!("SELECT pg_catalog.pg_terminate_backend(pid) {THOSE}"), &[Some(run)])?.rows.is_empty() {
        if begun.elapsed() > FENCE {
            return Err(Error::new(ErrorKind::Timeout, format!("the sessions of run {run} do not end")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Removes what a run has left; in words.
///
/// # Errors
/// The server's.
pub(super) fn clean(session: &mut Session, run: &str, what: &str) -> Result<Option<String>> {
    if let Some(schema) = what.strip_prefix("notes ") {
        let mut removed = 0;
        for table in tables(session, schema)? {
            removed += session.execute(&format!("DELETE FROM {table} WHERE run = {}", quote_literal(run)))?;
        }
        return Ok((removed > 0).then(|| format!("{removed} checkpoints of run {run} in schema {schema}")));
    }
    let Some(table) = what.strip_prefix("table ") else { return Ok(None) };
    if !exists(session, table)? {
        return Ok(None);
    }
    session.run("SET lock_timeout = '15s'")?;
    session.run(&format!("DROP TABLE IF EXISTS {table}"))?;
    Ok(Some(format!("table {table}")))
}

/// Whether there is a relation of this (quoted) name.
///
/// # Errors
/// The server's.
pub(super) fn exists(session: &mut Session, table: &str) -> Result<bool> {
    Ok(session.row("SELECT pg_catalog.to_regclass($1) IS NOT NULL", &[Some(table)])?.is_some_and(|row| row.flag(0)))
}

/// How the table and its partitions are kept: `Some(unlogged)`, or `None` where some are and some are not.
///
/// # Errors
/// The server's.
pub(super) fn persistence(session: &mut Session, table: &str) -> Result<Option<bool>> {
    let sql = "WITH RECURSIVE tree(oid) AS (SELECT pg_catalog.to_regclass($1)::pg_catalog.oid UNION ALL \
               SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid) \
               SELECT pg_catalog.bool_or(c.relpersistence = 'u'), pg_catalog.bool_and(c.relpersistence = 'u') \
               FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid WHERE c.relkind IN ('r', 'f')";
    let row = session.row(sql, &[Some(table)])?;
    Ok(row.and_then(|row| (row.flag(0) == row.flag(1)).then(|| row.flag(0))))
}

/// Makes sure that an earlier session of the same lane is gone, so that nothing that it was sent can still be done: after that, what is not
/// there will not come.
///
/// # Errors
/// It does not end.
pub(super) fn fence(session: &mut Session, pid: i32) -> Result<()> {
    const THAT: &str = "FROM pg_catalog.pg_stat_activity WHERE pid = $1::pg_catalog.int4 \
                        AND application_name = pg_catalog.current_setting('application_name') AND pid <> pg_catalog.pg_backend_pid()";
    let pid = pid.to_string();
    let begun = Instant::now();
    while session.row(&format!("SELECT pg_catalog.pg_terminate_backend(pid) {THAT}"), &[Some(&pid)])?.is_some() {
        if begun.elapsed() > FENCE {
            return Err(Error::new(ErrorKind::Timeout, format!("the lane's earlier session (process {pid}) does not end")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl super::PostgresSink {
    /// Decides whether each split is committed on its own.
    pub(super) fn track_with(&self, control: &mut Session, run: &RunId) -> Result<Tracks> {
        let planned = self.planned()?;
        if planned.merging.is_some() {
            return Ok(Tracks::No("rows with a key are merged as a whole, at the end".into()));
        }
        let staged = planned.way.is_staged();
        if !staged && !self.options.commit_splits {
            return Ok(Tracks::No("appended rows become visible together at the end (--commit split commits each split)".into()));
        }
        let unlogged = match (&planned.create, staged) {
            (Some(create), true) => Some(create.starts_with("CREATE UNLOGGED")),
            _ => persistence(control, &qualified(&planned.schema, &planned.name))?,
        };
        let Some(unlogged) = unlogged else {
            return Ok(Tracks::No("some partitions are UNLOGGED and some are not: a crash would take part of the rows".into()));
        };
        let notes = Notes::new(&planned.schema, unlogged, run);
        if !notes.can_be_made(control, &planned.schema)? {
            return Ok(Tracks::No(format!("this role may not make the table for checkpoints in schema {:?}", planned.schema)));
        }
        let _ = planned.shared.notes.set(Arc::new(notes));
        Ok(if staged { Tracks::Aside } else { Tracks::Directly })
    }

    /// Prepares the note of a run that adds to what is there: any other can be done again without harm.
    pub(super) fn note_end_with(&self, control: &mut Session, run: &RunId) -> Result<()> {
        let planned = self.planned()?;
        if planned.way != Way::Append {
            return Ok(());
        }
        let unlogged = persistence(control, &qualified(&planned.schema, &planned.name))?.unwrap_or(false);
        let notes = Notes::new(&planned.schema, unlogged, run);
        if notes.can_be_made(control, &planned.schema)? {
            let _ = planned.shared.end.set(Arc::new(notes));
        }
        Ok(())
    }
}
