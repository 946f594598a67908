//! One lane's COPY: its own connection, its own transaction.
//!
//! By default one COPY runs from the first block to the last; the server's refusal of a row surfaces with the next block, or at the
//! end. With `on_error=reject` each block is a COPY under a savepoint: when the server refuses a row, the rows before it are
//! sent again, the row is taken out, and the rest follows.

use super::Shared;
use crate::postgres::array_wire;
use crate::postgres::session::{self, Session};
use crate::postgres::source::Wire;
use haul_model::{Block, BlockBody, Error, ErrorKind, Result, Slot, SplitDone, Writer, failpoint};
use haul_pgwire::{CopyIn, Transaction};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A lane that has sent everything: its transaction is still open.
pub(super) struct Done {
    pub session: Session,
    pub rows: u64,
    pub bytes: u64,
    /// Where its rows wait, in modes with a key.
    pub staged: Option<Arc<super::staging::Lane>>,
}

enum State {
    Idle(Box<Session>),
    Copying(Box<CopyIn<Wire>>),
    Gone,
}

/// A lane.
pub(super) struct LaneWriter {
    shared: Arc<Shared>,
    state: State,
    /// Rows given to the COPY that is going on.
    sent: u64,
    /// Rows that the server has counted.
    confirmed: u64,
    bytes: u64,
}

impl LaneWriter {
    pub fn new(shared: Arc<Shared>, session: Session) -> Self {
        shared.opened.fetch_add(1, Relaxed);
        Self { shared, state: State::Idle(Box::new(session)), sent: 0, confirmed: 0, bytes: 0 }
    }

    /// The session, while no COPY is going on.
    fn session(&mut self) -> Result<&mut Session> {
        match &mut self.state {
            State::Idle(session) => Ok(session),
            _ => Err(self.shared.gone()),
        }
    }

    /// Lets the server move the rows: the block is a SELECT, and the server says how many there were.
    fn insert(&mut self, block: &mut Block) -> Result<()> {
        let BlockBody::Shared(select) = &block.body else { return Err(Error::internal("a statement that is none")) };
        let select = std::str::from_utf8(select).map_err(|e| Error::internal("a statement that is no text").caused_by(e))?;
        let (sql, shared) = (format!("{} {select}", self.shared.copy_sql), Arc::clone(&self.shared));
        block.rows = self.session()?.connection().execute(&sql).map_err(|e| shared.row_error(e))?;
        self.sent += block.rows;
        self.confirmed += block.rows;
        Ok(())
    }

    fn stream(&mut self, block: &Block) -> Result<()> {
        if let State::Idle(_) = self.state
            && let State::Idle(mut session) = std::mem::replace(&mut self.state, State::Gone)
        {
            begin(&mut session, &self.shared)?;
            let copy = CopyIn::start(Wire(*session), &self.shared.copy_sql).map_err(|e| self.shared.copy_error(e))?;
            self.state = State::Copying(Box::new(copy));
        }
        let State::Copying(copy) = &mut self.state else { return Err(self.shared.gone()) };
        let result = match &block.body {
            BlockBody::Bytes(payload) => copy.write_data(payload),
            BlockBody::Shared(frames) => copy.write(frames),
            _ => return Err(Error::internal("a block of another sink came to PostgreSQL")),
        };
        if let Err(error) = result {
            self.state = State::Gone;
            return Err(self.shared.copy_error(error));
        }
        self.sent += block.rows;
        Ok(())
    }

    /// Ends the COPY that may be going on; the server must have taken every row.
    fn end_copy(&mut self) -> Result<Session> {
        let session = match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(session) => *session,
            State::Copying(copy) => {
                let (rows, wire) = copy.finish().map_err(|e| self.shared.copy_error(e))?;
                self.confirmed += rows;
                wire.0
            }
            State::Gone => return Err(self.shared.gone()),
        };
        if self.confirmed != self.sent {
            return Err(Error::new(
                ErrorKind::Server,
                format!("the server took {} of {} rows without an error", self.confirmed, self.sent),
            )
            .object(&self.shared.table)
            .hint("does a trigger of the table skip rows?"));
        }
        Ok(session)
    }

    /// Sends a block under savepoints; the rows that had to be left out.
    fn stream_rejecting(&mut self, block: &Block) -> Result<Vec<(u64, Error)>> {
        let BlockBody::Bytes(payload) = &block.body else {
            return Err(Error::internal("rows cannot be taken out of a block that passes through"));
        };
        let mut rows: Option<Vec<Range<usize>>> = None;
        let mut refused = Vec::new();
        // Work still to be sent, as ranges of rows, the next one last.
        let mut todo: Vec<Range<usize>> = std::iter::once(0..block.rows as usize).collect();
        while let Some(part) = todo.pop() {
            let bytes = match &rows {
                None => 0..payload.len(),
                Some(rows) => rows[part.start].start..rows[part.end - 1].end,
            };
            let Some(failure) = self.copy_part(&payload[bytes])? else {
                self.sent += part.len() as u64;
                continue;
            };
            if rows.is_none() {
                rows = Some(
                    self.shared
                        .row_ranges(payload)
                        .filter(|r| r.len() as u64 == block.rows)
                        .ok_or_else(|| Error::internal("the rows of a block could not be told apart"))?,
                );
            }
            let place = failure.server().filter(|e| super::line_is_exact(&e.code)).and_then(session::copy_place);
            let line = place.map(|(line, _)| line as usize).filter(|l| (1..=part.len()).contains(l));
            match line {
                Some(line) => {
                    let bad = part.start + line - 1;
                    refused.push((bad as u64, self.shared.row_error(failure)));
                    todo.extend([bad + 1..part.end, part.start..bad].into_iter().filter(|r| !r.is_empty()));
                }
                None if part.len() == 1 => refused.push((part.start as u64, self.shared.row_error(failure))),
                None => {
                    let middle = part.start + part.len() / 2;
                    todo.extend([middle..part.end, part.start..middle]);
                }
            }
        }
        refused.sort_by_key(|(row, _)| *row);
        Ok(refused)
    }

    /// One COPY under a savepoint. `Some` = the server refused a row, and everything was taken back.
    fn copy_part(&mut self, payload: &[u8]) -> Result<Option<haul_pgwire::Error>> {
        let shared = Arc::clone(&self.shared);
        let session = self.session()?;
        begin(session, &shared)?;
        session.run("SAVEPOINT haul_block")?;
        let copied = (|| {
            let mut copy = session.connection().copy_in(&shared.copy_sql)?;
            copy.write_data(payload)?;
            copy.finish().map(|(rows, _)| rows)
        })();
        match copied {
            // Deferred constraints stay deferred: a row may refer to one in a later block.
            Ok(rows) => {
                session.run("RELEASE SAVEPOINT haul_block")?;
                self.confirmed += rows;
                Ok(None)
            }
            Err(error) => self.taken_back(error),
        }
    }

    fn taken_back(&mut self, error: haul_pgwire::Error) -> Result<Option<haul_pgwire::Error>> {
        let of_a_row = error.code().is_some_and(|code| matches!(&code[..2], "22" | "23" | "54" | "P0"));
        if !of_a_row {
            self.state = State::Gone;
            return Err(self.shared.copy_error(error));
        }
        self.session()?.run("ROLLBACK TO SAVEPOINT haul_block; RELEASE SAVEPOINT haul_block")?;
        Ok(Some(error))
    }
}

impl Writer for LaneWriter {
    fn reserve(&mut self, _block: &mut Block) -> Result<Slot> {
        Ok(Slot::default())
    }

    fn split(&mut self, number: u32) -> Result<()> {
        let Some(sql) = self.shared.staged.as_ref().and_then(|lane| lane.begin_split(number)) else { return Ok(()) };
        let mut session = self.end_copy()?;
        begin(&mut session, &self.shared)?;
        session.run(&sql)?;
        self.state = State::Idle(Box::new(session));
        Ok(())
    }

    fn write(&mut self, _slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        if let BlockBody::Bytes(bytes) = &block.body {
            self.bytes += bytes.len() as u64;
        } else if let BlockBody::Shared(bytes) = &block.body {
            self.bytes += bytes.len() as u64;
        }
        if self.shared.reject {
            return self.stream_rejecting(block);
        }
        if self.shared.statement {
            self.insert(block)?
        } else {
            self.stream(block)?
        }
        Ok(Vec::new())
    }

    fn commit(&mut self, split: &str, done: &SplitDone) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let Some(notes) = shared.notes.get() else { return Ok(false) };
        let mut session = self.end_copy()?;
        if self.confirmed != done.rows {
            return Err(Error::internal(format!("split {} has {} rows, but {} were sent", done.split, done.rows, self.confirmed)));
        }
        begin(&mut session, &self.shared)?;
        failpoint::pass("split-before-note");
        session.run(&notes.insert(split, done)).map_err(noted_before)?;
        failpoint::pass("split-before-commit");
        super::finish::commit(&mut session).map_err(|e| e.object(&shared.table))?;
        failpoint::pass("split-after-commit");
        notes.add_bytes(self.bytes);
        (self.sent, self.confirmed, self.bytes) = (0, 0, 0);
        self.state = State::Idle(Box::new(session));
        Ok(true)
    }

    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        let session = self.end_copy()?;
        let done = Done { session, rows: self.confirmed, bytes: self.bytes, staged: self.shared.staged.clone() };
        self.shared.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(done);
        Ok(Vec::new())
    }
}

/// A note that is there already was committed by an earlier try of this split whose answer was lost: looking again finds it.
fn noted_before(error: Error) -> Error {
    match error.code_text() {
        Some("23505") => Error::new(ErrorKind::Conflict, "an earlier try has committed the split after all"),
        _ => error.context("the checkpoint cannot be written"),
    }
}

/// Begins a transaction, if none is open.
pub(super) fn begin(session: &mut Session, shared: &Shared) -> Result<()> {
    if session.wire().transaction() != Transaction::None {
        return Ok(());
    }
    session.begin("")?;
    if shared.prelude.is_empty() { Ok(()) } else { session.run(&shared.prelude) }
}

/// Where each row of a COPY TEXT payload lies.
pub(super) fn text_rows(payload: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut start = 0;
    let rows = memchr::memchr_iter(b'\n', payload).map(|end| std::mem::replace(&mut start, end + 1)..end + 1).collect();
    (start == payload.len()).then_some(rows)
}

/// Where each tuple of a COPY BINARY payload lies.
pub(super) fn binary_rows(payload: &[u8]) -> Option<Vec<Range<usize>>> {
    let (mut rows, mut rest) = (Vec::new(), payload);
    while !rest.is_empty() {
        let start = payload.len() - rest.len();
        let (count, mut after) = rest.split_first_chunk::<2>()?;
        for _ in 0..u16::from_be_bytes(*count) {
            after = array_wire::field(after)?.1;
        }
        rest = after;
        rows.push(start..payload.len() - rest.len());
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_payload_are_told_apart() {
        assert_eq!(text_rows(b"a\tb\n\nc\n").unwrap(), [0..4, 4..5, 5..7]);
        assert_eq!(text_rows(b"a\nb"), None);
        let tuple = [0, 2, 0, 0, 0, 1, b'x', 255, 255, 255, 255];
        let payload = [&tuple[..], &tuple[..]].concat();
        assert_eq!(binary_rows(&payload).unwrap(), [0..11, 11..22]);
        assert_eq!(binary_rows(&payload[..20]), None);
    }
}
