//! One loop: take a framed chunk, decode, transform, encode, write.
//!
//! A worker takes the next chunk of a lane under a short lock, does all CPU work on it while it is warm, and writes the
//! result: positionally at an offset handed out in order, or over its own connection. With fewer open splits than
//! workers the lanes are *shared* and a chunk's block leaves when its turn comes; otherwise each worker owns a lane
//! (*exclusive*) and blocks grow over many chunks.

use crate::attempt::{Owed, Tally};
use crate::budget::{Budget, Reservation};
use crate::kept::{Kept, Noted, find_row};
use crate::ledger::Ledger;
use crate::order::Order;
use crate::plan::{Job, Plan};
use crate::pools::{Ahead, Loading};
use crate::progress::{Counts, Progress};
use crate::reject::{Policy, WorkerRejects, is_row_error};
use crate::run::{Failure, records_before};
use crate::shares::{Clock, Doing, Shares};
use crate::verify::witness::{Proof, Witness};
use haul_model::{
    Batch, Block, BlockBody, Decoder, Encoder, Error, ErrorKind, Next, Payload, Position, Raw, Reader, Rejects, Result, Rows, Slot, Split,
    SplitDone, Transform, Writer,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a chunk may take on its way, per input byte: decoded views and the encoded block.
const EXPANSION: u64 = 4;
/// A worker ahead of its turn buffers at most this much output before it waits.
const AHEAD: usize = 8 << 20;
/// Rows of a container piece count as this many bytes when runs are measured out.
const PIECE_ROW_BYTES: usize = 128;
/// What a container piece holds in memory, at most: it is decoded in batches of about a MiB.
const PIECE_HELD: usize = 2 << 20;

/// What all workers of a run see.
pub(crate) struct Shared<'a> {
    pub job: &'a Job,
    pub plan: &'a Plan,
    pub stop: &'a AtomicBool,
    pub progress: &'a Progress,
    pub policy: &'a Policy<'a>,
    pub budget: &'a Budget,
    pub failure: Failure,
    pub ledger: Mutex<Ledger>,
    pub splits: Mutex<VecDeque<Split>>,
    pub open: Mutex<Vec<Arc<Lane>>>,
    /// Each worker owns its lane.
    pub exclusive: bool,
    /// The order of splits that are read one after another, and its next chunk.
    pub chain: Arc<Order>,
    pub chain_seq: AtomicU64,
    /// The order in which splits leave that are read at the same time, where the sink wants one.
    pub merged: Order,
    /// Rows are kept until the sink has taken them, because it may hand some back.
    pub keep_rows: bool,
    /// Splits that are durable.
    pub durable: &'a AtomicUsize,
    /// Where the workers' time goes.
    pub shares: &'a Shares,
    /// What is sent is added up here.
    pub proof: Option<&'a Proof>,
    /// Splits that are read before a worker asks for them.
    pub ahead: Option<Ahead>,
    /// Blocks that others write.
    pub loading: Option<Loading>,
}

impl Shared<'_> {
    pub fn stopping(&self) -> bool {
        self.failure.is_set() || self.stop.load(Relaxed)
    }

    fn stopped<T>(&self) -> Result<T> {
        Err(Error::new(ErrorKind::Cancelled, "stopped by the user"))
    }
}

/// An open split.
pub(crate) struct Lane {
    pub(crate) split: Split,
    /// Where the split stands among all.
    place: u64,
    order: Arc<Order>,
    pub(crate) reader: Mutex<ReaderState>,
}

pub(crate) struct ReaderState {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) seq: u64,
    ended: bool,
}

/// Chunks taken from a lane in one go.
pub(crate) struct Work<'a> {
    pub(crate) seq: u64,
    pub(crate) batches: Vec<Batch>,
    pub(crate) _reservation: Reservation<'a>,
}

/// One worker with its codecs and its way into the sink.
pub(crate) struct Worker<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) number: usize,
    decoder: Option<Box<dyn Decoder>>,
    pub(crate) chunk: Chunk<'a>,
    pub(crate) owed: Owed,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>, number: usize) -> Result<Self> {
        let decoder = shared.plan.pass_through.is_none().then(|| shared.job.source.decoder(shared.plan.form)).transpose()?;
        Ok(Self { shared, number, decoder, chunk: Chunk::new(shared, number)?, owed: Owed::default() })
    }

    /// Runs until no lane has more, then closes the writer. What fails and may succeed is tried again.
    pub fn run(mut self) -> Result<()> {
        loop {
            match self.work() {
                Ok(()) => return Ok(()),
                Err(error) => self.again(error)?,
            }
        }
    }

    fn work(&mut self) -> Result<()> {
        while let Some(lane) = self.next_lane()? {
            self.drain(&lane)?;
            if self.chunk.left == Some(0) {
                break;
            }
        }
        let mut rejects = WorkerRejects::new(self.shared.policy);
        self.chunk.flush(&mut rejects)?;
        self.chunk.clock.now(Doing::Writing);
        if self.shared.loading.is_none()
            && let Some((_, error)) = self.chunk.writer()?.close()?.into_iter().next()
        {
            return Err(error);
        }
        self.chunk.seen(Witness::settle);
        Ok(())
    }

    /// Lets go of everything that has failed. What was counted since the last durable split is taken back.
    pub(crate) fn let_go(&mut self) {
        self.chunk.writer = None;
        self.chunk.order = None;
        self.chunk.tally.take_back();
        self.chunk.seen(Witness::take_back);
    }

    /// A new decoder, encoder and writer.
    pub(crate) fn renew(&mut self) -> Result<()> {
        let mut renewed = Self::new(self.shared, self.number)?;
        renewed.chunk.witness = self.chunk.witness.take().or(renewed.chunk.witness);
        (self.decoder, self.chunk) = (renewed.decoder, renewed.chunk);
        Ok(())
    }

    /// A split was written by this worker: makes it durable now, if the sink does that.
    fn commit(&mut self, split: &Split) -> Result<()> {
        if !self.shared.plan.resume.by_split() {
            return Ok(());
        }
        let position = self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner).read_to(split.id);
        let counts = self.chunk.tally.since;
        let done = SplitDone { split: split.id, position, read: counts.read, rows: counts.sent };
        self.chunk.clock.now(Doing::Writing);
        if self.chunk.writer()?.commit(&split.what, &done)? {
            self.chunk.tally.settle();
            self.chunk.seen(Witness::settle);
            self.durable(split.id);
        }
        Ok(())
    }

    /// A split is durable, by this try or an earlier one.
    pub(crate) fn durable(&mut self, split: u32) {
        self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner).split_durable(split);
        self.shared.durable.fetch_add(1, Relaxed);
        self.owed.durable(split);
    }

    /// Counts a split that an earlier try has made durable.
    pub(crate) fn found_durable(&mut self, done: &SplitDone) {
        let filtered = done.read.saturating_sub(done.rows);
        self.shared.progress.add(&Counts { read: done.read, sent: done.rows, filtered, ..Counts::default() });
        self.chunk.seen(|witness| witness.found(done.split));
        self.durable(done.split);
    }

    /// A lane to work on: a split nobody has opened yet, or (shared) one that others work on too.
    fn next_lane(&mut self) -> Result<Option<Arc<Lane>>> {
        if self.shared.exclusive {
            let next = || self.shared.splits.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            return match self.owed.next(next) {
                Some(split) => Ok(Some(Arc::new(self.open(split)?))),
                None => Ok(None),
            };
        }
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|lane| !lane.ended());
        if open.len() < self.shared.plan.lanes {
            let split = self.shared.splits.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(split) = split {
                let lane = Arc::new(self.open(split)?);
                open.push(lane.clone());
                return Ok(Some(lane));
            }
        }
        if open.is_empty() { Ok(None) } else { Ok(Some(open[self.number % open.len()].clone())) }
    }

    /// Opens a split. Splits that are read one after another continue one order, so that their rows stay in it.
    fn open(&self, split: Split) -> Result<Lane> {
        let ahead = self.shared.ahead.as_ref().map(|ahead| ahead.take(split.id, &|| self.shared.stopping())).transpose()?.flatten();
        let reader = match ahead {
            Some(reader) => reader,
            None => self.shared.job.source.open(&split, &Position::start())?,
        };
        let one_by_one = self.shared.plan.lanes == 1 && !self.shared.exclusive;
        let (order, seq) = match one_by_one {
            true => (self.shared.chain.clone(), self.shared.chain_seq.load(Relaxed)),
            false => (Arc::default(), 0),
        };
        order.begin_split(seq);
        let place = self.shared.plan.read.splits.iter().position(|s| s.id == split.id).unwrap_or_default() as u64;
        Ok(Lane { split, place, order, reader: Mutex::new(ReaderState { reader, seq, ended: false }) })
    }

    /// The chunks that follow are of this lane.
    pub(crate) fn enter(&mut self, lane: &Arc<Lane>) -> Result<()> {
        self.chunk.order = Some(lane.clone());
        if self.shared.plan.write.whole_splits {
            self.chunk.writer()?.split(lane.split.id)?;
        }
        Ok(())
    }

    fn drain(&mut self, lane: &Arc<Lane>) -> Result<()> {
        self.enter(lane)?;
        loop {
            if self.shared.stopping() {
                return self.shared.stopped();
            }
            self.chunk.clock.now(Doing::Reading);
            let work = match lane.take(self.shared) {
                Ok(Some(work)) => work,
                Ok(None) => break,
                Err(error) => return Err(self.after_earlier_chunks(lane, error)),
            };
            self.chunk.seq = work.seq;
            self.chunk.clock.now(Doing::Working);
            if let Err(error) = self.process(work) {
                return Err(self.place(lane, error));
            }
            if self.chunk.left == Some(0) {
                break;
            }
        }
        if self.shared.exclusive {
            let write = &self.shared.plan.write;
            // A writer of its own may go on with its block into the next split, unless this one is to be durable alone.
            if !write.own_connections || write.whole_splits || self.shared.plan.resume.by_split() {
                let mut rejects = WorkerRejects::new(self.shared.policy);
                self.chunk.flush(&mut rejects)?;
            }
            if write.in_split_order {
                self.shared.merged.complete(lane.place, 0);
            }
            self.commit(&lane.split)?;
        }
        Ok(())
    }

    pub(crate) fn process(&mut self, work: Work<'_>) -> Result<()> {
        let mut rejects = WorkerRejects::new(self.shared.policy);
        let result = self.process_into(work, &mut rejects);
        // Counted where they were noticed; kept apart here for when they will come again.
        self.chunk.tally.since.rejected += rejects.records + rejects.rows;
        result
    }

    fn process_into(&mut self, work: Work<'_>, rejects: &mut WorkerRejects<'_>) -> Result<()> {
        let chunk = &mut self.chunk;
        (chunk.read, chunk.filtered) = (0, 0);
        let mut bytes_in = 0;
        for batch in work.batches {
            match batch.payload {
                Payload::Raw(raw) => {
                    bytes_in += raw.bytes.len() as u64;
                    match &mut self.decoder {
                        Some(decoder) => decoder.decode(raw, rejects, &mut |rows, rejects| chunk.rows(rows, rejects))?,
                        None => chunk.pass(raw)?,
                    }
                }
                Payload::Columns(columns) => {
                    bytes_in += columns.get_array_memory_size() as u64;
                    let first = chunk.read;
                    chunk.rows(Rows::new(columns, first), rejects)?;
                }
            }
            if chunk.left == Some(0) {
                break;
            }
        }
        chunk.end(rejects)?;
        chunk.tally.add(Counts { bytes_in, filtered: chunk.filtered, lossy: rejects.lossy, ..Counts::default() });
        Ok(())
    }

    /// Errors are told in source order: this one waits for its turn, and learns its row number there.
    pub(crate) fn place(&self, lane: &Lane, error: Error) -> Error {
        if error.kind() == ErrorKind::Cancelled || error.place().row_in_chunk.is_none() && !is_row_error(&error) {
            return error;
        }
        // A row number without the name of what it counts helps nobody.
        let error = match error.place().row_in_chunk {
            Some(_) => error.object(self.shared.plan.source.as_str()),
            None => error,
        };
        let before = records_before(&lane.order, self.chunk.seq, || self.shared.failure.is_set());
        let in_parts = self.shared.plan.read.network && self.shared.plan.read.splits.len() > 1;
        match before {
            // The number of a row inside a range of pages tells nobody anything, unless the range is named too.
            Some(before) if in_parts => error.resolve_row_in(before, &lane.split.what),
            Some(before) => error.resolve_row(before),
            None => error,
        }
    }

    /// A chunk could not be read. What is wrong in the chunks before it is told first.
    fn after_earlier_chunks(&self, lane: &Lane, error: Error) -> Error {
        let seq = lane.reader.lock().unwrap_or_else(PoisonError::into_inner).seq;
        let _ = records_before(&lane.order, seq, || self.shared.failure.is_set());
        error
    }
}

impl Lane {
    /// A lane of one worker alone.
    pub(crate) fn alone(split: Split, reader: Box<dyn Reader>) -> Self {
        let order = Arc::<Order>::default();
        order.begin_split(0);
        Self { split, place: 0, order, reader: Mutex::new(ReaderState { reader, seq: 0, ended: false }) }
    }

    fn ended(&self) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).ended
    }

    /// The next chunk (or run of chunks), under the reader's lock. The budget is reserved here, in order.
    fn take<'a>(&self, shared: &'a Shared<'_>) -> Result<Option<Work<'a>>> {
        let mut state = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let want = if shared.exclusive { 1 } else { shared.plan.write.run_bytes.unwrap_or(1) };
        let (mut batches, mut weight, mut held) = (Vec::new(), 0, 0);
        while weight < want && !state.ended {
            let next = state.reader.next().inspect_err(|_| state.ended = true);
            match next? {
                Next::Batch(batch) => {
                    let mut ledger = shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
                    batch.spans.iter().try_for_each(|span| ledger.read(span))?;
                    // Bounded jobs become durable as a whole: no need to keep every span.
                    ledger.settle_at_finish();
                    drop(ledger);
                    let weighs = weigh(&batch.payload);
                    weight += weighs;
                    held += if is_token(&batch.payload) { weighs.min(PIECE_HELD) } else { weighs };
                    batches.push(batch);
                }
                Next::Idle => {
                    if shared.stopping() {
                        return shared.stopped();
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Next::End => state.ended = true,
            }
        }
        if batches.is_empty() {
            return Ok(None);
        }
        let seq = state.seq;
        state.seq += 1;
        shared.chain_seq.store(state.seq, Relaxed);
        let reservation = shared.budget.reserve(held as u64 * EXPANSION, || shared.stopping())?;
        Ok(Some(Work { seq, batches, _reservation: reservation }))
    }
}

/// Bytes that a chunk holds in memory, what is made of it included.
pub(crate) fn held(payload: &Payload) -> u64 {
    let weight = weigh(payload);
    (if is_token(payload) { weight.min(PIECE_HELD) } else { weight }) as u64 * EXPANSION
}

fn weigh(payload: &Payload) -> usize {
    match payload {
        Payload::Raw(raw) if is_token(payload) => raw.records.unwrap_or_default() as usize * PIECE_ROW_BYTES,
        Payload::Raw(raw) => raw.bytes.len().max(1),
        Payload::Columns(columns) => columns.get_array_memory_size().max(1),
    }
}

/// A piece of a container: a few bytes that stand for many rows.
fn is_token(payload: &Payload) -> bool {
    matches!(payload, Payload::Raw(raw) if raw.records.is_some_and(|records| records as usize > raw.bytes.len()))
}

/// The chunk in hand, from rows to the sink.
pub(crate) struct Chunk<'a> {
    shared: &'a Shared<'a>,
    transforms: &'a [Box<dyn Transform>],
    encoder: Option<Box<dyn Encoder>>,
    /// `None` once it has failed.
    writer: Option<Box<dyn Writer>>,
    pub(crate) tally: Tally<'a>,
    pub(crate) clock: Clock<'a>,
    order: Option<Arc<Lane>>,
    pub(crate) seq: u64,
    /// Rows decoded from this chunk (rejected records not counted).
    read: u64,
    filtered: u64,
    /// A pass-through block that waits to be the chunk's last, so that the turn is passed before its bytes are written.
    held: Option<Block>,
    /// Rows in the encoder's block, for sinks that hand rows back.
    kept: Vec<Kept>,
    /// Rows still wanted under a limit.
    left: Option<u64>,
    /// Adds up what is sent, if it is to be proven.
    witness: Option<Witness<'a>>,
}

impl<'a> Chunk<'a> {
    fn new(shared: &'a Shared<'a>, number: usize) -> Result<Self> {
        let decoded = shared.plan.pass_through.is_none();
        let lane = u32::try_from(number).map_err(|_| Error::internal("more than 2^32 workers"))?;
        Ok(Self {
            shared,
            transforms: &shared.job.transforms,
            encoder: decoded.then(|| shared.job.sink.encoder()).transpose()?,
            // Loaders have their own connections; where a place must be taken in order, the worker takes it.
            writer: (shared.loading.is_none() || !shared.plan.write.own_connections).then(|| shared.job.sink.open(lane)).transpose()?,
            tally: Tally::new(shared.progress),
            clock: Clock::new(shared.shares),
            order: None,
            seq: 0,
            read: 0,
            filtered: 0,
            held: None,
            kept: Vec::new(),
            left: shared.job.options.limit,
            witness: shared.proof.map(|proof| Witness::new(proof, shared.job.source.as_ref())).transpose()?,
        })
    }

    fn seen(&mut self, what: impl FnOnce(&mut Witness<'a>)) {
        if let Some(witness) = &mut self.witness {
            what(witness);
        }
    }

    /// The split in hand.
    fn split(&self) -> u32 {
        self.order.as_ref().map_or(0, |lane| lane.split.id)
    }

    pub(crate) fn writer(&mut self) -> Result<&mut dyn Writer> {
        match &mut self.writer {
            Some(writer) => Ok(writer.as_mut()),
            None => Err(Error::internal("a writer is used after it has failed")),
        }
    }

    /// Decoded rows: transform, encode, and write when the block is full.
    fn rows(&mut self, mut rows: Rows, rejects: &mut dyn Rejects) -> Result<()> {
        if let Some(left) = &mut self.left {
            let take = (rows.batch.num_rows() as u64).min(*left);
            rows = rows.slice(0, take as usize);
            *left -= take;
        }
        let total = rows.batch.num_rows();
        self.read += total as u64;
        let step = self.shared.job.options.batch_rows.unwrap_or(total).max(1);
        let mut from = 0;
        while from < total {
            let length = step.min(total - from);
            let part = if length == total { rows.clone() } else { rows.slice(from, length) };
            self.encode(part, rejects)?;
            from += length;
        }
        Ok(())
    }

    fn encode(&mut self, mut rows: Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let before = rows.batch.num_rows();
        let mut noted = Noted { inner: rejects, rows: Vec::new() };
        for transform in self.transforms {
            rows = transform.apply(rows, &mut noted)?;
        }
        self.filtered += (before - rows.batch.num_rows() - noted.rows.len()) as u64;
        noted.rows.clear();
        let encoder = self.encoder.as_mut().ok_or_else(|| Error::internal("columns in a pass-through plan"))?;
        encoder.push(&rows, &mut noted)?;
        let pending = encoder.pending();
        let split = self.split();
        if let Some(witness) = &mut self.witness {
            witness.rows(split, &rows)?;
            noted.rows.iter().try_for_each(|row| witness.without(split, &rows, *row))?;
        }
        if self.shared.keep_rows {
            self.kept.push(Kept { rows, left_out: noted.rows });
            return Ok(());
        }
        if pending >= self.shared.plan.write.block_bytes && (pending >= AHEAD || self.may_write_now()) {
            self.write_block(false)?;
        }
        Ok(())
    }

    /// Whether a block that is full in mid-chunk can go out at once.
    fn may_write_now(&self) -> bool {
        if let Some(place) = self.place_among_splits() {
            return self.shared.merged.try_turn(place).is_some();
        }
        self.shared.exclusive || self.unordered() || self.order.as_ref().is_some_and(|lane| lane.order.try_turn(self.seq).is_some())
    }

    /// Its split's number, where the sink wants the splits in their order although each worker reads its own.
    fn place_among_splits(&self) -> Option<u64> {
        let merging = self.shared.exclusive && self.shared.plan.write.in_split_order;
        self.order.as_ref().filter(|_| merging).map(|lane| lane.place)
    }

    fn unordered(&self) -> bool {
        self.shared.plan.write.own_connections
    }

    /// Pass-through bytes are a block of their own.
    fn pass(&mut self, raw: Raw) -> Result<()> {
        let split = self.split();
        if let Some(witness) = &mut self.witness {
            witness.raw(split, &raw)?;
        }
        let Some(records) = raw.records else { return self.pass_uncounted(raw) };
        self.read += records;
        let block = Block { body: BlockBody::Shared(raw.bytes), rows: records };
        if self.unordered() || self.shared.exclusive {
            return self.write(block, false);
        }
        match self.held.replace(block) {
            Some(earlier) => self.write(earlier, false),
            None => Ok(()),
        }
    }

    /// A chunk whose rows nobody has counted yet: the writer does, and says so in the block.
    fn pass_uncounted(&mut self, raw: Raw) -> Result<()> {
        let mut block = Block { body: BlockBody::Shared(raw.bytes), rows: 0 };
        if let Some(loading) = &self.shared.loading {
            self.clock.now(Doing::Waiting);
            return loading.hand(Slot::default(), block, false, || self.shared.stopping());
        }
        if let Some((_, error)) = self.send(&mut block, false)?.into_iter().next() {
            return Err(error);
        }
        self.read += block.rows;
        self.account(&block, block.rows);
        Ok(())
    }

    /// The chunk is decoded: let its block go when it should, pass the turn, account for it.
    fn end(&mut self, rejects: &mut WorkerRejects<'_>) -> Result<()> {
        let lane = self.order.clone().ok_or_else(|| Error::internal("a chunk without a lane"))?;
        let ordered = !self.unordered() && !self.shared.exclusive;
        if self.shared.keep_rows {
            self.flush(rejects)?;
            let before = lane.order.wait(self.seq, || self.shared.stopping())?;
            rejects.settle(before)?;
            lane.order.complete(self.seq, self.read + rejects.records);
        } else if ordered {
            self.write_block(true)?;
        } else {
            lane.order.complete(self.seq, self.read + rejects.records);
        }
        self.tally.add(Counts { read: self.read + rejects.records, ..Counts::default() });
        Ok(())
    }

    /// Writes what the encoder holds.
    pub(crate) fn flush(&mut self, rejects: &mut WorkerRejects<'_>) -> Result<()> {
        while let Some(mut block) = self.take_block()? {
            if self.shared.loading.is_some() {
                self.hand(block, false)?;
                continue;
            }
            let sent = block.rows;
            let refused = self.send(&mut block, false)?;
            self.account(&block, sent - refused.len() as u64);
            self.recycle(block);
            let kept = std::mem::take(&mut self.kept);
            for (row, error) in refused {
                let (rows, row) = find_row(&kept, row).ok_or_else(|| Error::internal("the sink refused a row that it was not sent"))?;
                let split = self.split();
                if let Some(witness) = &mut self.witness {
                    witness.without(split, rows, row)?;
                }
                rejects.refused(rows, row, error)?;
            }
        }
        Ok(())
    }

    fn take_block(&mut self) -> Result<Option<Block>> {
        if let Some(block) = self.held.take() {
            return Ok(Some(block));
        }
        self.encoder.as_mut().map_or(Ok(None), |encoder| encoder.take())
    }

    /// Takes the block and writes it. `last` passes the turn as soon as its place is taken, so that the bytes
    /// themselves are written in parallel.
    fn write_block(&mut self, last: bool) -> Result<()> {
        match self.take_block()? {
            Some(block) => self.write(block, last),
            None if last => self.pass_turn(),
            None => Ok(()),
        }
    }

    fn write(&mut self, mut block: Block, last: bool) -> Result<()> {
        if self.shared.loading.is_some() {
            return self.hand(block, last);
        }
        let sent = block.rows;
        let refused = self.send(&mut block, last)?;
        if let Some((_, error)) = refused.into_iter().next() {
            return Err(error);
        }
        self.account(&block, sent);
        self.recycle(block);
        Ok(())
    }

    /// Leaves the block to the loaders, once its place is taken.
    fn hand(&mut self, mut block: Block, last: bool) -> Result<()> {
        self.wait_for_turn()?;
        let slot = match &mut self.writer {
            Some(writer) => writer.reserve(&mut block)?,
            None => Slot::default(),
        };
        if last {
            self.pass_turn()?;
        }
        self.clock.now(Doing::Waiting);
        let Some(loading) = &self.shared.loading else { return Err(Error::internal("a block for loaders that are not there")) };
        loading.hand(slot, block, true, || self.shared.stopping())?;
        self.clock.now(Doing::Working);
        Ok(())
    }

    /// Waits for the chunk's turn where there is an order, takes the block's place, and writes it.
    fn send(&mut self, block: &mut Block, last: bool) -> Result<Vec<(u64, Error)>> {
        self.wait_for_turn()?;
        self.clock.now(Doing::Writing);
        let slot = self.writer()?.reserve(block)?;
        if last {
            self.pass_turn()?;
        }
        let refused = self.writer()?.write(slot, block)?;
        self.clock.now(Doing::Working);
        Ok(refused)
    }

    fn wait_for_turn(&mut self) -> Result<()> {
        if let Some(place) = self.place_among_splits() {
            self.clock.now(Doing::Waiting);
            self.shared.merged.wait(place, || self.shared.stopping())?;
        } else if !self.shared.exclusive && !self.unordered() {
            self.clock.now(Doing::Waiting);
            let lane = self.order.clone().ok_or_else(|| Error::internal("a block without a lane"))?;
            lane.order.wait(self.seq, || self.shared.stopping())?;
        }
        Ok(())
    }

    fn pass_turn(&self) -> Result<()> {
        let lane = self.order.as_ref().ok_or_else(|| Error::internal("a turn without a lane"))?;
        lane.order.complete(self.seq, self.read);
        Ok(())
    }

    fn account(&mut self, block: &Block, rows: u64) {
        self.tally.add(Counts { sent: rows, bytes_out: block.body.bytes(), ..Counts::default() });
    }

    fn recycle(&mut self, block: Block) {
        let (BlockBody::Bytes(mut buffer) | BlockBody::Compressed { bytes: mut buffer, .. }) = block.body else { return };
        if let Some(encoder) = &mut self.encoder {
            buffer.clear();
            encoder.recycle(buffer);
        }
    }
}
