//! The loop of one lane: read, write, settle, acknowledge; and the way back to the last mark when a connection breaks.

use super::Run;
use crate::lane::{self, Work, Worker};
use crate::reject::{RejectLog, WorkerRejects};
use crate::shares::Doing;
use haul_model::{Batch, Error, Mark, Next, Payload, Position, Reader, Result, Span, Split};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a lane waits for records before it looks whether the job is to end.
const NAP: Duration = Duration::from_millis(100);

/// A lane and its worker.
pub(super) struct Lane<'a> {
    run: &'a Run<'a>,
    worker: Worker<'a>,
    lane: Arc<lane::Lane>,
    /// Names of the splits that were met, by number.
    names: BTreeMap<u32, String>,
    /// What was read and is not acknowledged yet: one span for each split.
    open: BTreeMap<u32, Span>,
    /// Bytes of it.
    bytes: u64,
    /// When it has to be settled.
    due: Option<Instant>,
    /// The last chunk of it that passed the gate.
    chunk: u64,
    /// Half of a chunk may be in a file that all lanes share, and cannot be taken back.
    torn: bool,
    /// Tries that failed since the last settling.
    failed: u32,
    lag: u64,
}

impl<'a> Lane<'a> {
    /// A lane with both its ends open.
    ///
    /// # Errors
    /// The last error, if it was tried too often or cannot be tried again.
    pub fn start(run: &'a Run<'a>, number: usize, split: &Split) -> Result<Self> {
        let mut failed = 0;
        loop {
            let opened = Worker::new(run.shared, number).and_then(|worker| Ok((worker, open(run, split, &marks(run)?)?)));
            let error = match opened {
                Ok((worker, lane)) => {
                    let names = BTreeMap::from([(split.id, split.what.clone())]);
                    let (open, due) = (BTreeMap::new(), None);
                    let mut lane = Self { run, worker, lane, names, open, bytes: 0, due, chunk: 0, torn: false, failed: 0, lag: 0 };
                    lane.worker.enter(&lane.lane.clone())?;
                    return Ok(lane);
                }
                Err(error) => error,
            };
            failed += 1;
            let Some(pause) = run.shared.job.options.retries.pause(&error, failed) else { return Err(error) };
            run.pause(error, pause)?;
        }
    }

    /// Goes on until the job is to end. What was read by then is settled.
    ///
    /// # Errors
    /// Whatever cannot be tried away.
    pub fn follow(mut self) -> Result<()> {
        loop {
            match self.work() {
                Ok(()) => return Ok(()),
                Err(error) => self.again(error)?,
            }
        }
    }

    fn reader(&self) -> MutexGuard<'_, lane::ReaderState> {
        self.lane.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&mut self) -> Result<()> {
        while !self.run.ending() {
            self.worker.chunk.clock.now(Doing::Reading);
            let next = self.reader().reader.next()?;
            self.worker.chunk.clock.now(Doing::Working);
            match next {
                Next::Batch(batch) => {
                    self.torn = self.run.gate.is_some();
                    self.batch(batch)?;
                    self.torn = false;
                }
                Next::Idle => {
                    self.settle()?;
                    self.look_behind();
                    self.worker.chunk.clock.now(Doing::Reading);
                    self.reader().reader.wait(NAP);
                }
                Next::End => break,
            }
            if self.bytes >= self.run.shared.job.options.endless.settle_bytes || self.due.is_some_and(|due| Instant::now() >= due) {
                self.settle()?;
                self.look_behind();
            }
        }
        self.settle()
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        self.due.get_or_insert_with(|| Instant::now() + self.run.shared.job.options.endless.max_latency);
        self.bytes += weight(&batch.payload);
        let Some(gate) = self.run.gate else {
            self.note(&batch.spans)?;
            return self.write(batch);
        };
        let spans = batch.spans.clone();
        self.chunk = gate.pass(|| {
            self.note(&spans)?;
            self.write(batch)?;
            // Up to its last row, so that a settling by another lane has whole chunks only.
            self.flush()?;
            Ok(spans.iter().map(|span| (self.name(span.split), span.to.clone())).collect())
        })?;
        Ok(())
    }

    fn name(&self, split: u32) -> String {
        self.names.get(&split).cloned().unwrap_or_default()
    }

    /// The spans chain, and are to be settled.
    fn note(&mut self, spans: &[Span]) -> Result<()> {
        for span in spans {
            let mut ledger = self.run.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.names.contains_key(&span.split) {
                let split = self.reader().reader.split(span.split);
                let split = split.ok_or_else(|| Error::internal(format!("a span of split {}, which nobody knows", span.split)))?;
                self.names.insert(span.split, split.what);
            }
            // A split that begins wherever the source remembers it, or a new one.
            if !ledger.knows(span.split) || ledger.read_to(span.split) == Position::start() {
                ledger.open(span.split, span.from.clone());
            }
            ledger.read(span)?;
            drop(ledger);
            self.open.entry(span.split).and_modify(|open| open.to = span.to.clone()).or_insert_with(|| span.clone());
        }
        Ok(())
    }

    fn write(&mut self, batch: Batch) -> Result<()> {
        if is_empty(&batch.payload) {
            return Ok(());
        }
        let seq = {
            let mut state = self.reader();
            state.seq += 1;
            state.seq - 1
        };
        let shared = self.run.shared;
        // Also when the job is to end: what was read is written.
        let reservation = shared.budget.reserve(lane::held(&batch.payload), || shared.failure.is_set())?;
        self.worker.chunk.seq = seq;
        let lane = self.lane.clone();
        let work = Work { seq, batches: vec![batch], _reservation: reservation };
        self.worker.process(work).map_err(|error| self.worker.place(&lane, error))
    }

    fn flush(&mut self) -> Result<()> {
        let mut rejects = WorkerRejects::new(self.run.shared.policy);
        self.worker.chunk.flush(&mut rejects)?;
        rejects.settle(0)?;
        self.worker.chunk.tally.since.rejected += rejects.records + rejects.rows;
        Ok(())
    }

    /// Makes durable what was read, and acknowledges it.
    fn settle(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.settle_in_sink()?;
        self.worker.chunk.tally.settle();
        {
            let mut ledger = self.run.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            self.open.keys().for_each(|split| ledger.split_durable(*split));
        }
        (self.bytes, self.due, self.failed) = (0, None, 0);
        let spans: Vec<Span> = std::mem::take(&mut self.open).into_values().collect();
        self.reader().reader.ack(&spans)
    }

    fn settle_in_sink(&mut self) -> Result<()> {
        let shared = self.run.shared;
        if let Some(gate) = self.run.gate {
            self.worker.chunk.clock.now(Doing::Writing);
            return gate.settle(self.chunk, |marks| {
                shared.policy.log.map_or(Ok(()), RejectLog::flush)?;
                let rows = shared.job.sink.settle(marks)?;
                let confirmed = self.run.confirmed.fetch_add(rows, Relaxed) + rows;
                let sent = shared.progress.sent.load(Relaxed);
                agree(sent, confirmed)
            });
        }
        self.flush()?;
        shared.policy.log.map_or(Ok(()), RejectLog::flush)?;
        self.worker.chunk.clock.now(Doing::Writing);
        let marks: Vec<Mark> = self.open.values().map(|span| Mark { split: self.name(span.split), position: span.to.clone() }).collect();
        let sent = self.worker.chunk.tally.since.sent;
        let rows = self.worker.chunk.writer()?.settle(&marks)?;
        agree(sent, rows)?;
        self.run.confirmed.fetch_add(rows, Relaxed);
        Ok(())
    }

    fn look_behind(&mut self) {
        let lag = self.reader().reader.lag();
        if let Some(lag) = lag {
            self.run.shared.progress.lags(std::mem::replace(&mut self.lag, lag), lag);
        }
    }

    /// After a failure: waits, opens everything anew, and goes back to what is durable.
    ///
    /// # Errors
    /// The failure itself, if it cannot be tried again or was too often, or the job is to end.
    fn again(&mut self, mut error: Error) -> Result<()> {
        let shared = self.run.shared;
        loop {
            self.failed += 1;
            let Some(pause) = shared.job.options.retries.pause(&error, self.failed).filter(|_| !self.torn) else {
                return Err(match self.failed {
                    1 => error,
                    n => error.context(format!("tried {n} times in a row")),
                });
            };
            // A file keeps what was written: it is made durable, and reading goes on behind it.
            if self.run.gate.is_some() {
                match self.settle_in_sink() {
                    Ok(()) => self.worker.chunk.tally.settle(),
                    Err(_) => return Err(error),
                }
                let mut ledger = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
                self.open.keys().for_each(|split| ledger.split_durable(*split));
            }
            // The connection goes first, so that the server can roll back while we wait.
            self.worker.let_go();
            (self.bytes, self.due) = (0, None);
            self.open.clear();
            self.run.pause(error, pause)?;
            match self.reopen() {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
    }

    fn reopen(&mut self) -> Result<()> {
        let shared = self.run.shared;
        let split = self.lane.split.clone();
        // Before anything else: a commit that is still on its way in the old session must not come any more.
        let marks = marks(self.run)?;
        {
            let mut ledger = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let durable = ledger.durable_to(split.id);
            self.names.keys().for_each(|id| ledger.close(*id));
            ledger.open(split.id, durable);
        }
        self.names = BTreeMap::from([(split.id, split.what.clone())]);
        self.worker.renew()?;
        self.lane = open(self.run, &split, &marks)?;
        self.worker.enter(&self.lane.clone())
    }
}

fn marks(run: &Run<'_>) -> Result<Vec<Mark>> {
    run.shared.job.sink.marks(&run.shared.job.options.endless.job)
}

/// Opens the lane's split behind what is durable.
fn open(run: &Run<'_>, split: &Split, marks: &[Mark]) -> Result<Arc<lane::Lane>> {
    let shared = run.shared;
    let durable = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner).durable_to(split.id);
    let from = furthest(marks, &split.what, durable.clone()).unwrap_or_default();
    let mut reader: Box<dyn Reader> = shared.job.source.open(split, &from)?;
    reader.begin_at(marks)?;
    if from > Position::start() {
        // The target has it, but whoever brought it there may not have been able to tell the source.
        reader.ack(&[Span { split: split.id, from: durable, to: from.clone() }])?;
    }
    shared.ledger.lock().unwrap_or_else(PoisonError::into_inner).open(split.id, from);
    Ok(Arc::new(lane::Lane::alone(split.clone(), reader)))
}

/// What the target knows of a split, or what this process has seen settled, whichever is further; `None`: nothing is known of it.
fn furthest(marks: &[Mark], split: &str, durable: Position) -> Option<Position> {
    let mark = marks.iter().find(|mark| mark.split == split).map(|mark| mark.position.clone());
    mark.into_iter().chain((durable != Position::start()).then_some(durable)).max()
}

fn agree(sent: u64, confirmed: u64) -> Result<()> {
    if sent == confirmed {
        return Ok(());
    }
    Err(Error::internal(format!("{sent} rows were sent but the target confirmed {confirmed}"))
        .hint("compare both sides before using the target"))
}

fn is_empty(payload: &Payload) -> bool {
    match payload {
        Payload::Raw(raw) => raw.bytes.is_empty() && raw.records == Some(0),
        Payload::Columns(columns) => columns.num_rows() == 0,
    }
}

fn weight(payload: &Payload) -> u64 {
    match payload {
        Payload::Raw(raw) => raw.bytes.len() as u64,
        Payload::Columns(columns) => columns.get_array_memory_size() as u64,
    }
}
