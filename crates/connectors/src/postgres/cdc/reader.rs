//! Reading: what is there, under the snapshot of a new slot, and then what the slot delivers.
//!
//! Life of a first run: a batch without rows, which settles that a slot may be made from now on; when that is durable, publication and
//! slot are made, the slot's exported snapshot is read table by table, and the stream begins exactly where the snapshot ends. A
//! run that finds only a part of the snapshot settled throws the slot away and begins again: nothing of the stream was delivered yet, and
//! a snapshot lives no longer than the session that holds it. Each table is then emptied first by a truncate event.
//!
//! The slot moves only to the end of transactions that are acknowledged as a whole, and while there is nothing to acknowledge, along with
//! what the server has been through.

use super::place::Place;
use super::publication;
use super::settings::Capture;
use super::snapshot::Snapshot;
use super::sorter::Sorter;
use super::source::Subject;
use crate::postgres::catalog::PgColumn;
use crate::postgres::discover;
use crate::postgres::session::{self, Session};
use haul_model::{Batch, Error, ErrorKind, Next, Payload, Position, Raw, Reader, Result, Span, failpoint};
use haul_pgwire::{Connection, Lsn, Replication, WalMessage};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A chunk is handed out when it has so many bytes.
const CHUNK: usize = 256 << 10;
/// In the middle of a transaction the rest of it is on its way.
const REST: Duration = Duration::from_millis(100);
/// How long the walsender of an earlier run, whose client is gone, may take to notice.
const HELD: Duration = Duration::from_secs(20);

enum Phase {
    /// Nothing was made.
    Begin,
    /// It is to be settled first that a slot may be made.
    Announced,
    Snapshot(Box<Snapshot>),
    Stream(Box<Stream>),
    End,
}

/// The stream of a slot.
struct Stream {
    replication: Replication<Connection>,
    sorter: Sorter,
    /// For the types of columns that come later.
    catalog: Option<Session>,
}

/// Reads one slot.
pub(super) struct ChangesReader {
    subject: Arc<Subject>,
    split: u32,
    text: bool,
    phase: Phase,
    /// The end of the last batch.
    at: Position,
    /// What the target had when it was opened.
    from: Option<Place>,
    acked: Position,
    /// Ends of batches that are not acknowledged, and the transactions that end before them.
    open: VecDeque<(Position, Lsn)>,
    /// The last time that a batch moved the position.
    moved: Instant,
}

impl ChangesReader {
    pub fn new(subject: Arc<Subject>, split: u32, from: &Position, text: bool) -> Result<Self> {
        let place = Place::of(from);
        if place.is_none() && *from != Position::start() {
            return Err(Error::internal("a position that is none of a stream of changes"));
        }
        let (open, moved) = (VecDeque::new(), Instant::now());
        Ok(Self { subject, split, text, phase: Phase::Begin, at: from.clone(), from: place, acked: from.clone(), open, moved })
    }

    fn batch(&mut self, bytes: Vec<u8>, records: u64, to: Place) -> Next {
        let to = to.position().max(self.at.clone());
        let span = Span { split: self.split, from: std::mem::replace(&mut self.at, to.clone()), to };
        self.moved = Instant::now();
        let raw = Raw { bytes: bytes.into(), records: Some(records), ..Raw::default() };
        Next::Batch(Batch { spans: vec![span], payload: Payload::Raw(raw) })
    }

    /// Makes what is missing and begins where the target stands.
    fn begin(&mut self) -> Result<Option<Next>> {
        let subject = Arc::clone(&self.subject);
        let mut session = subject.session("cdc")?;
        if subject.options.capture == Capture::Snapshot {
            let again = self.from.is_some_and(|from| from.index > 0);
            let snapshot = Snapshot::plain(&subject, session, self.text, again)?;
            self.phase = Phase::Snapshot(Box::new(snapshot));
            return Ok(None);
        }
        let found = publication::slot(&mut session, &subject.slot)?;
        match (self.from, found) {
            (Some(from), Some(state)) if !from.is_before_the_stream() => {
                publication::check_slot(&subject.slot, &state, &subject.target.config.database)?;
                if let Some(confirmed) = state.confirmed.filter(|confirmed| *confirmed > from.lsn) {
                    return Err(self.moved_on(from, confirmed));
                }
                self.stream(from)?;
            }
            (Some(from), None) if !from.is_before_the_stream() => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("the slot is gone: changes after {}, where the target stands, are lost", from.lsn),
                )
                .object(&subject.slot)
                .hint("empty the target, remove its marks, and start again with a new snapshot"));
            }
            (None, Some(_)) if subject.options.capture == Capture::Both => {
                return Err(Error::new(ErrorKind::Exists, "the slot is there, but the target knows nothing of it: where should it begin?")
                    .object(&subject.slot)
                    .hint("--capture stream begins where the slot stands; or drop it (haul cdc drop) and start again with a snapshot; or give --slot another name"));
            }
            (None, None) if subject.options.capture == Capture::Both => {
                self.phase = Phase::Announced;
                return Ok(Some(self.batch(Vec::new(), 0, Place::snapshot(0))));
            }
            (None, Some(state)) => {
                let from = Place::at(state.confirmed.unwrap_or_default());
                self.stream(from)?;
                return Ok(Some(self.batch(Vec::new(), 0, from)));
            }
            (None, None) => {
                self.publish(&mut session)?;
                let mut wire = self.wire()?;
                let slot = wire.create_logical_slot(&subject.slot, "pgoutput", false, false).map_err(session::error)?;
                self.start(wire, Place::at(slot.start))?;
                return Ok(Some(self.batch(Vec::new(), 0, Place::at(slot.start))));
            }
            (Some(from), found) => self.snapshot(session, from, found.is_some())?,
        }
        Ok(None)
    }

    fn moved_on(&self, from: Place, confirmed: Lsn) -> Error {
        Error::new(
            ErrorKind::Mismatch,
            format!(
                "the slot was moved on to {confirmed} by somebody else, and the target stands at {}: the changes in between are lost",
                from.lsn
            ),
        )
        .object(&self.subject.slot)
        .hint("empty the target, drop the slot, and start again with a new snapshot")
    }

    fn publish(&self, session: &mut Session) -> Result<()> {
        match &self.subject.publication.create {
            Some(create) => match session.run(create) {
                // An earlier try has made it.
                Err(error) if error.code_text() == Some("42710") => Ok(()),
                result => result.map_err(|e| e.context("the publication cannot be made").object(&self.subject.publication.name)),
            },
            None => Ok(()),
        }
    }

    /// A replication connection on which values are printed exactly.
    fn wire(&self) -> Result<Connection> {
        let mut config = self.subject.target.config.clone();
        config.replication = true;
        config.application_name =
            self.subject.target.application_name.clone().unwrap_or_else(|| session::lane_name(&self.subject.env, "replication"));
        let mut wire = Connection::connect(&config, self.subject.env.stop.clone()).map_err(session::error)?;
        let settings = "SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET bytea_output = 'hex'; \
                        SET lc_monetary = 'C'; SET extra_float_digits = 3; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";
        wire.simple_query(settings).map_err(session::error)?;
        // A stream may be silent for as long as nothing changes; keep-alives tell whether the server is there.
        wire.set_idle_timeout(None);
        Ok(wire)
    }

    /// Makes the slot and begins with its snapshot.
    fn snapshot(&mut self, mut session: Session, from: Place, there: bool) -> Result<()> {
        let subject = Arc::clone(&self.subject);
        if there {
            free(&mut session, &subject.slot)?;
            // One that was still being made when its run was killed is gone as soon as the server notices.
            match session.run(&publication::drop_slot(&subject.slot)) {
                Err(error) if error.code_text() != Some("42704") => return Err(error.object(&subject.slot)),
                _ => {}
            }
        }
        self.publish(&mut session)?;
        let mut wire = self.wire()?;
        failpoint::pass("cdc-before-slot");
        let slot = wire.create_logical_slot(&subject.slot, "pgoutput", false, true).map_err(|e| session::error(e).object(&subject.slot))?;
        failpoint::pass("cdc-after-slot");
        let name = slot.snapshot.clone().ok_or_else(|| Error::internal("a slot without a snapshot"))?;
        let snapshot = Snapshot::of_slot(&subject, session, &name, (wire, slot.start), self.text, from.index > 0)?;
        self.phase = Phase::Snapshot(Box::new(snapshot));
        Ok(())
    }

    fn stream(&mut self, from: Place) -> Result<()> {
        let mut session = self.subject.session("cdc")?;
        free(&mut session, &self.subject.slot)?;
        drop(session);
        let wire = self.wire()?;
        self.start(wire, from)
    }

    fn start(&mut self, mut wire: Connection, from: Place) -> Result<()> {
        let subject = &self.subject;
        let until = match subject.options.until {
            Some(until) => Some(until),
            None if subject.options.follow => None,
            None => Some(wire.identify_system().map_err(session::error)?.flushed),
        };
        let publication = crate::postgres::catalog::quote_ident(&subject.publication.name);
        let mut options = vec![("proto_version", "1"), ("publication_names", publication.as_str())];
        if !self.text {
            options.push(("binary", "true"));
        }
        let replication =
            Replication::start(wire, &subject.slot, from.lsn, &options).map_err(|e| explain(session::error(e), &subject.slot))?;
        let wanted = subject.relations.iter().map(|r| (r.schema.clone(), r.name.clone())).collect();
        let sorter = Sorter::new(Arc::clone(&subject.shapes), Some(wanted), from, until, subject.options.max_row_bytes);
        self.phase = Phase::Stream(Box::new(Stream { replication, sorter, catalog: None }));
        Ok(())
    }

    fn streamed(&mut self) -> Result<Next> {
        let Phase::Stream(stream) = &mut self.phase else { return Ok(Next::End) };
        let subject = Arc::clone(&self.subject);
        loop {
            let more = stream.fill(&subject)?;
            let sorter = &mut stream.sorter;
            if sorter.chunk.rows() > 0 && (sorter.chunk.len() >= CHUNK || sorter.is_between()) {
                let (bytes, records) = sorter.chunk.take();
                let (place, committed) = (sorter.place, sorter.committed);
                let next = self.batch(bytes, records, place);
                self.open.push_back((self.at.clone(), committed));
                return Ok(next);
            }
            if !more && !sorter.is_between() && !sorter.ended {
                stream.replication.wait(REST).map_err(session::error)?;
                if subject.env.stopping() {
                    return Ok(Next::Idle);
                }
                continue;
            }
            break;
        }
        let (place, committed) = (stream.sorter.place, stream.sorter.committed);
        let further = place.position() > self.at;
        if stream.sorter.ended {
            if further {
                let next = self.batch(Vec::new(), 0, place);
                self.open.push_back((self.at.clone(), committed));
                return Ok(next);
            }
            // The slot is told what is durable before the stream ends.
            if self.acked < self.at {
                return Ok(Next::Idle);
            }
            self.phase = Phase::End;
            return Ok(Next::End);
        }
        let beats = self.moved.elapsed() >= subject.options.heartbeat;
        if beats && further && self.acked >= self.at {
            let next = self.batch(Vec::new(), 0, place);
            self.open.push_back((self.at.clone(), committed));
            return Ok(next);
        }
        if stream.sorter.wants_word() || beats {
            stream.replication.ask().map_err(session::error)?;
            self.moved = if beats { Instant::now() } else { self.moved };
        }
        Ok(Next::Idle)
    }
}

impl Stream {
    /// Takes what is here, until the chunk is full. False: there is no more for now.
    fn fill(&mut self, subject: &Subject) -> Result<bool> {
        while self.sorter.chunk.len() < CHUNK && !self.sorter.ended {
            match self.replication.message().map_err(|e| explain(session::error(e), &subject.slot))? {
                Some(WalMessage::Data { payload, .. }) => {
                    let catalog = &mut self.catalog;
                    self.sorter.take(payload, &mut |named| look_up(subject, catalog, named))?;
                }
                Some(WalMessage::KeepAlive { end, .. }) => self.sorter.nothing_before(end),
                None => {
                    if !self.replication.wait(Duration::ZERO).map_err(session::error)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// What the columns of a table are that was altered since the stream began.
fn look_up(subject: &Subject, catalog: &mut Option<Session>, named: &[(String, u32, i32)]) -> Result<Vec<PgColumn>> {
    let session = match catalog {
        Some(session) => session,
        None => catalog.insert(subject.session("cdc types")?),
    };
    discover::named_columns(session, named)
}

/// Waits until the slot is free: the server may not have noticed yet that an earlier run is gone.
fn free(session: &mut Session, slot: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let active = publication::slot(session, slot)?.and_then(|state| state.active);
        let Some(pid) = active else { return Ok(()) };
        if begun.elapsed() > HELD {
            return Err(Error::new(ErrorKind::Exists, format!("another connection reads the slot (process {pid})"))
                .object(slot)
                .hint("is the same job running elsewhere? Two at a time would take changes from each other; or give --slot another name"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the server's refusal of a stream means.
fn explain(error: Error, slot: &str) -> Error {
    match error.code_text() {
        Some("55000" | "58P01") => error.object(slot).hint(
            "the slot has lost log that it needs: drop it (haul cdc drop), and start again with a new snapshot; a larger max_slot_wal_keep_size keeps slots longer",
        ),
        Some("42501") => error.hint("the role needs the attribute REPLICATION: ALTER ROLE ... REPLICATION"),
        _ => error.object(slot),
    }
}

impl Reader for ChangesReader {
    fn next(&mut self) -> Result<Next> {
        loop {
            match &mut self.phase {
                Phase::Begin => {
                    if let Some(next) = self.begin()? {
                        return Ok(next);
                    }
                }
                Phase::Announced if self.acked < self.at => return Ok(Next::Idle),
                Phase::Announced => {
                    let session = self.subject.session("cdc")?;
                    self.snapshot(session, Place::snapshot(0), false)?;
                }
                Phase::Snapshot(snapshot) => match snapshot.next()? {
                    Some((bytes, records, rows)) => return Ok(self.batch(bytes, records, Place::snapshot(rows))),
                    None => {
                        let Phase::Snapshot(snapshot) = std::mem::replace(&mut self.phase, Phase::End) else { continue };
                        let Some((wire, start)) = snapshot.into_wire() else { continue };
                        self.start(wire, Place::at(start))?;
                        return Ok(self.batch(Vec::new(), 0, Place::at(start)));
                    }
                },
                Phase::Stream(_) => return self.streamed(),
                Phase::End => return Ok(Next::End),
            }
        }
    }

    fn ack(&mut self, spans: &[Span]) -> Result<()> {
        let Some(to) = spans.iter().map(|span| &span.to).max() else { return Ok(()) };
        self.acked = self.acked.clone().max(to.clone());
        let mut safe = None;
        while self.open.front().is_some_and(|(end, _)| *end <= self.acked) {
            safe = self.open.pop_front().map(|(_, lsn)| lsn).or(safe);
        }
        if let (Phase::Stream(stream), Some(lsn)) = (&mut self.phase, safe)
            && lsn > stream.replication.confirmed()
        {
            failpoint::pass("cdc-before-confirm");
            stream.replication.confirm(lsn).map_err(session::error)?;
            failpoint::pass("cdc-after-confirm");
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) {
        if let Phase::Stream(stream) = &mut self.phase {
            // What is wrong with the connection is told by the next read.
            let _ = stream.replication.wait(at_most);
        } else {
            std::thread::sleep(at_most.min(Duration::from_millis(1)));
        }
    }
}
