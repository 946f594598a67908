//! How far a stream was applied: rows of `haul_checkpoint` that move in the transaction of the changes.

use crate::postgres::catalog::{quote_ident, quote_literal};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Mark, Position, Result};
use std::sync::{Mutex, PoisonError};

/// The split of a mark: those of other notes in the table are greater.
const SPLIT: i64 = -10;

/// The mark of one stream. It bears the stream's name, so it is found again whatever else is said of the job.
#[derive(Debug)]
pub struct Marks {
    /// `"schema"."haul_checkpoint"`.
    table: String,
    /// The split's name.
    stream: String,
    /// Where it stands, as this run has seen and moved it.
    known: Mutex<Option<Position>>,
    /// No earlier run has left a row of the stream.
    fresh: bool,
}

/// The table, in the schema that new tables go to, and whether it is there.
fn table(session: &mut Session) -> Result<(String, bool)> {
    let row = session.row("SELECT pg_catalog.current_schema()", &[])?;
    let schema = row.and_then(|row| row.get(0).map(str::to_string));
    let schema = schema.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "no schema of the search_path is there, so checkpoints have no place")
            .hint("set search_path for this role")
    })?;
    let table = format!("{}.{}", quote_ident(&schema), quote_ident("haul_checkpoint"));
    let there = session.row("SELECT pg_catalog.to_regclass($1) IS NOT NULL", &[Some(&table)])?.is_some_and(|row| row.flag(0));
    Ok((table, there))
}

/// The marks of all streams that are applied here.
///
/// # Errors
/// The server's.
pub fn all(session: &mut Session) -> Result<Vec<Mark>> {
    let (table, there) = table(session)?;
    if !there {
        return Ok(Vec::new());
    }
    let sql = format!("SELECT what, pg_catalog.encode(position, 'hex') FROM {table} WHERE split = {SPLIT} AND run LIKE 'stream %'");
    let found = session.query(&sql, &[])?;
    let mark =
        |row: &haul_pgwire::Row| Ok(Mark { split: row.text(0).to_string(), position: unhex(row.text(1)).ok_or_else(|| bad(&table))? });
    found.iter().map(mark).collect()
}

impl Marks {
    /// As it stands.
    ///
    /// # Errors
    /// The server's.
    pub fn look(session: &mut Session, stream: &str) -> Result<Self> {
        let (table, _) = table(session)?;
        let known = all(session)?.into_iter().find(|mark| mark.split == stream).map(|mark| mark.position);
        // Before the first row there is a mark of zeros: a slot may be there.
        let fresh = known.as_ref().is_none_or(|position| position.0.iter().all(|b| *b == 0));
        Ok(Self { table, stream: stream.to_string(), known: Mutex::new(known), fresh })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Position>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no earlier run has left a row of the stream.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Makes the table, if it is missing.
    ///
    /// # Errors
    /// Rights.
    pub fn begin(&self, session: &mut Session) -> Result<()> {
        let sql = format!("CREATE TABLE IF NOT EXISTS {} ({})", self.table, crate::postgres::sink::CHECKPOINT_COLUMNS);
        match session.run(&sql) {
            Err(error) if !matches!(error.code_text(), Some("23505" | "42P07")) => {
                Err(error.context("the table for checkpoints cannot be made"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the mark's row for the open transaction: whoever moves it otherwise is over.
    ///
    /// # Errors
    /// `Conflict`: somebody else has moved it.
    pub fn hold(&self, session: &mut Session) -> Result<()> {
        let sql = format!(
            "SELECT pg_catalog.encode(position, 'hex') FROM {} WHERE run = {} AND split = {SPLIT} FOR UPDATE",
            self.table,
            quote_literal(&run(&self.stream))
        );
        let found = session.row(&sql, &[])?;
        let found = found.map(|row| unhex(row.text(0)).ok_or_else(|| bad(&self.table))).transpose()?;
        if found == *self.known() { Ok(()) } else { Err(moved(&self.table)) }
    }

    /// Moves the mark in the open transaction, from where this run has seen it.
    ///
    /// # Errors
    /// `Conflict`: somebody else has moved it.
    pub fn move_to(&self, session: &mut Session, marks: &[Mark]) -> Result<()> {
        let Some(to) = self.of(marks)? else { return Ok(()) };
        let (what, run) = (quote_literal(&self.stream), quote_literal(&run(&self.stream)));
        let sql = match &*self.known() {
            Some(from) => format!(
                "UPDATE {} SET position = '{}', finished_at = pg_catalog.clock_timestamp() WHERE run = {run} AND split = {SPLIT} AND position = '{}'",
                self.table,
                hex(to),
                hex(from)
            ),
            None => format!(
                "INSERT INTO {} (job, run, split, what, position, rows_read, rows) VALUES ({what}, {run}, {SPLIT}, {what}, '{}', 0, 0)",
                self.table,
                hex(to)
            ),
        };
        match session.execute(&sql) {
            Ok(1) => Ok(()),
            Ok(_) => Err(moved(&self.table)),
            Err(error) if error.code_text() == Some("23505") => Err(moved(&self.table)),
            Err(error) => Err(error.context("the checkpoint cannot be written")),
        }
    }

    /// The transaction has committed.
    pub fn moved(&self, marks: &[Mark]) {
        if let Ok(Some(to)) = self.of(marks) {
            *self.known() = Some(to.clone());
        }
    }

    fn of<'a>(&self, marks: &'a [Mark]) -> Result<Option<&'a Position>> {
        match marks {
            [] => Ok(None),
            [mark] if mark.split == self.stream => Ok(Some(&mark.position)),
            _ => Err(Error::internal(format!("the stream {} was planned, and {marks:?} are to be settled", self.stream))),
        }
    }

    /// Looks again, after a failure.
    ///
    /// # Errors
    /// The server's.
    pub fn again(&self, session: &mut Session) -> Result<Vec<Mark>> {
        let marks = all(session)?;
        *self.known() = marks.iter().find(|mark| mark.split == self.stream).map(|mark| mark.position.clone());
        Ok(marks)
    }
}

fn run(stream: &str) -> String {
    format!("stream {stream}")
}

fn moved(table: &str) -> Error {
    Error::new(ErrorKind::Conflict, "another run of this job has moved its checkpoint meanwhile: nothing of this transaction was kept")
        .object(table)
        .hint("is the same job running elsewhere? Two at a time cannot be; else start it again")
}

fn bad(table: &str) -> Error {
    Error::new(ErrorKind::Data, "a checkpoint cannot be understood").object(table)
}

fn hex(position: &Position) -> String {
    format!("\\x{}", position.0.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

fn unhex(text: &str) -> Option<Position> {
    let bytes: Option<Vec<u8>> = (0..text.len() / 2).map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    bytes.map(Position)
}
