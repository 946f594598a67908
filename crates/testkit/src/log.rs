//! A log of numbers that grows while it is read, and sinks that settle: endpoints for jobs without an end.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{
    Batch, Block, BlockBody, Decoder, Emit, Encoder, Encoding, Error, Finished, Form, Guarantee, Incoming, Mark, Next, Payload, Position,
    Raw, ReadPlan, Reader, Reading, Rejects, Result, Rows, Sink, Slot, Source, Span, Split, WritePlan, Writer,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A log in parts. Positions count records.
#[derive(Clone, Default)]
pub struct Log {
    inner: Arc<(Mutex<Parts>, Condvar)>,
    /// One reader has all parts, and gives them new numbers whenever it is opened.
    grouped: bool,
}

#[derive(Default)]
struct Parts {
    records: Vec<Vec<i64>>,
    closed: bool,
    acknowledged: BTreeMap<String, u64>,
    /// Rows for each `next`.
    at_a_time: usize,
    opened: u32,
    begun_at: Vec<Mark>,
}

impl Log {
    /// `parts` empty parts, read in batches of at most `at_a_time` records.
    pub fn new(parts: usize, at_a_time: usize) -> Self {
        let log = Self::default();
        let mut inner = log.inner.0.lock().unwrap();
        inner.records = vec![Vec::new(); parts];
        inner.at_a_time = at_a_time;
        drop(inner);
        log
    }
    /// All parts in one lane.
    pub fn grouped(mut self) -> Self {
        self.grouped = true;
        self
    }
    /// Appends to a part.
    pub fn append(&self, part: usize, records: impl IntoIterator<Item = i64>) {
        self.inner.0.lock().unwrap().records[part].extend(records);
        self.inner.1.notify_all();
    }
    /// Readers end once they have read everything.
    pub fn close(&self) {
        self.inner.0.lock().unwrap().closed = true;
        self.inner.1.notify_all();
    }
    /// Up to where a part was acknowledged.
    pub fn acknowledged(&self, part: usize) -> u64 {
        self.inner.0.lock().unwrap().acknowledged.get(&name(part)).copied().unwrap_or_default()
    }
    /// The marks that the last `begin_at` of the source got.
    pub fn begun_at(&self) -> Vec<Mark> {
        self.inner.0.lock().unwrap().begun_at.clone()
    }
}

fn name(part: usize) -> String {
    format!("part {part}")
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

impl Source for Log {
    fn name(&self) -> String {
        "log".into()
    }
    fn encodings(&self) -> Vec<Encoding> {
        Vec::new()
    }
    fn schema(&self, _form: Form) -> Result<SchemaRef> {
        Ok(schema())
    }
    fn endless(&self) -> bool {
        true
    }
    fn begin_at(&mut self, marks: &[Mark]) -> Result<()> {
        self.inner.0.lock().unwrap().begun_at = marks.to_vec();
        Ok(())
    }
    fn plan(&mut self, _reading: &Reading) -> Result<ReadPlan> {
        let parts = self.inner.0.lock().unwrap().records.len();
        let split = |(id, what)| Split { id, what, rows: None, bytes: None };
        let splits = match self.grouped {
            true => vec![split((0, "all parts".into()))],
            false => (0..parts as u32).map(|id| split((id, name(id as usize)))).collect(),
        };
        Ok(ReadPlan { splits, method: "as it grows".into(), network: true, ..ReadPlan::default() })
    }
    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        let mut inner = self.inner.0.lock().unwrap();
        inner.opened += 1;
        let parts = if self.grouped { (0..inner.records.len()).collect() } else { vec![split.id as usize] };
        let known = |part: &usize| match self.grouped {
            true => inner.acknowledged.get(&name(*part)).copied().unwrap_or_default(),
            false => from.as_number().unwrap_or_default(),
        };
        let cursors: Vec<_> = parts.iter().map(|part| (*part, known(part))).collect();
        let first = if self.grouped { inner.opened * 100 } else { split.id };
        Ok(Box::new(LogReader { log: self.clone(), cursors, first, turn: 0 }))
    }
    fn decoder(&self, _form: Form) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(NoDecoder))
    }
}

struct NoDecoder;

impl Decoder for NoDecoder {
    fn schema(&self) -> SchemaRef {
        schema()
    }
    fn decode(&mut self, _raw: Raw, _rejects: &mut dyn Rejects, _emit: &mut Emit<'_>) -> Result<()> {
        Err(Error::internal("a log of numbers has no bytes"))
    }
}

struct LogReader {
    log: Log,
    /// Part and next record.
    cursors: Vec<(usize, u64)>,
    /// The number of the split of the first part.
    first: u32,
    turn: usize,
}

impl Reader for LogReader {
    fn next(&mut self) -> Result<Next> {
        let inner = self.log.inner.0.lock().unwrap();
        for _ in 0..self.cursors.len() {
            self.turn = (self.turn + 1) % self.cursors.len();
            let (part, cursor) = &mut self.cursors[self.turn];
            let records = &inner.records[*part][*cursor as usize..];
            let records = &records[..records.len().min(inner.at_a_time)];
            if records.is_empty() {
                continue;
            }
            let from = *cursor;
            *cursor += records.len() as u64;
            let at = |n: u64| if n == 0 { Position::start() } else { Position::number(n) };
            let span = Span { split: self.first + self.turn as u32, from: at(from), to: at(*cursor) };
            let batch = RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(records.iter().copied()))]).unwrap();
            return Ok(Next::Batch(Batch { spans: vec![span], payload: Payload::Columns(batch) }));
        }
        Ok(if inner.closed { Next::End } else { Next::Idle })
    }
    fn ack(&mut self, spans: &[Span]) -> Result<()> {
        let mut inner = self.log.inner.0.lock().unwrap();
        for span in spans {
            let part = self.cursors[(span.split - self.first) as usize].0;
            inner.acknowledged.insert(name(part), span.to.as_number().unwrap());
        }
        Ok(())
    }
    fn begin_at(&mut self, marks: &[Mark]) -> Result<()> {
        let mut inner = self.log.inner.0.lock().unwrap();
        for (part, cursor) in self.cursors.iter_mut().filter(|_| self.log.grouped) {
            let mark = marks.iter().find(|mark| mark.split == name(*part));
            *cursor = (*cursor).max(mark.and_then(|mark| mark.position.as_number()).unwrap_or_default());
            inner.acknowledged.insert(name(*part), *cursor);
        }
        Ok(())
    }
    fn split(&self, id: u32) -> Option<Split> {
        let part = self.cursors.get(id.checked_sub(self.first)? as usize)?.0;
        Some(Split { id, what: name(part), rows: None, bytes: None })
    }
    fn wait(&mut self, at_most: Duration) {
        let inner = self.log.inner.0.lock().unwrap();
        let idle =
            |inner: &mut Parts| !inner.closed && self.cursors.iter().all(|(part, cursor)| inner.records[*part].len() as u64 <= *cursor);
        drop(self.log.inner.1.wait_timeout_while(inner, at_most, idle).unwrap());
    }
    fn lag(&self) -> Option<u64> {
        let inner = self.log.inner.0.lock().unwrap();
        Some(self.cursors.iter().map(|(part, cursor)| inner.records[*part].len() as u64 - cursor).sum())
    }
}

/// A sink that settles into memory: rows and marks together, as a database does, or all writers together, as a file does.
#[derive(Clone, Default)]
pub struct SettlingSink {
    state: Arc<Mutex<Settled>>,
    as_file: bool,
}

/// What a [`SettlingSink`] holds.
#[derive(Debug, Default)]
pub struct Settled {
    /// Rows that are durable.
    pub rows: Vec<i64>,
    /// Rows that are written, in a file.
    pub written: Vec<i64>,
    /// Marks.
    pub marks: BTreeMap<String, Position>,
    /// How often something was settled.
    pub times: u64,
    /// How often the sink was left.
    pub left: u64,
}

impl SettlingSink {
    /// Writers have transactions of their own.
    pub fn database() -> Self {
        Self::default()
    }
    /// Writers share a file.
    pub fn file() -> Self {
        Self { as_file: true, ..Self::default() }
    }
    /// What it holds.
    pub fn look<T>(&self, look: impl FnOnce(&Settled) -> T) -> T {
        look(&self.state.lock().unwrap())
    }
    /// As after a crash: what was not durable is gone.
    pub fn crash(&self) {
        self.state.lock().unwrap().written.clear();
    }
}

impl Sink for SettlingSink {
    fn name(&self) -> String {
        "settling".into()
    }
    fn form(&self) -> Form {
        Form::Typed
    }
    fn accepts(&self, _encoding: &Encoding, _schema: &SchemaRef) -> bool {
        false
    }
    fn plan(&mut self, _incoming: &Incoming) -> Result<WritePlan> {
        Ok(WritePlan {
            method: "settled in memory".into(),
            ddl: Vec::new(),
            columns: Vec::new(),
            notes: Vec::new(),
            guarantee: Guarantee::AllOrNothing,
            own_connections: !self.as_file,
            whole_splits: false,
            in_split_order: false,
            max_writers: None,
            block_bytes: 1 << 16,
            run_bytes: None,
        })
    }
    fn takes_back(&self) -> bool {
        true
    }
    fn settles(&self) -> bool {
        true
    }
    fn marks(&self, _job: &str) -> Result<Vec<Mark>> {
        let state = self.state.lock().unwrap();
        Ok(state.marks.iter().map(|(split, position)| Mark { split: split.clone(), position: position.clone() }).collect())
    }
    fn settle(&self, marks: &[Mark]) -> Result<u64> {
        let mut state = self.state.lock().unwrap();
        let written = std::mem::take(&mut state.written);
        let rows = written.len() as u64;
        state.keep(written, marks);
        Ok(rows)
    }
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(NumberEncoder(Vec::new())))
    }
    fn open(&self, _lane: u32) -> Result<Box<dyn Writer>> {
        Ok(Box::new(SettlingWriter { sink: self.clone(), rows: Vec::new() }))
    }
    fn finish(&mut self) -> Result<Finished> {
        Err(Error::internal("an endless job has finished"))
    }
    fn abort(&mut self) -> Vec<String> {
        Vec::new()
    }
    fn leave(&mut self) {
        self.state.lock().unwrap().left += 1;
    }
}

impl Settled {
    fn keep(&mut self, rows: Vec<i64>, marks: &[Mark]) {
        self.rows.extend(rows);
        self.marks.extend(marks.iter().map(|mark| (mark.split.clone(), mark.position.clone())));
        self.times += 1;
    }
}

struct NumberEncoder(Vec<i64>);

impl Encoder for NumberEncoder {
    fn push(&mut self, rows: &Rows, _rejects: &mut dyn Rejects) -> Result<()> {
        self.0.extend(rows.batch.column(0).as_primitive::<Int64Type>().values());
        Ok(())
    }
    fn pending(&self) -> usize {
        self.0.len() * 8
    }
    fn take(&mut self) -> Result<Option<Block>> {
        let rows = std::mem::take(&mut self.0);
        Ok((!rows.is_empty()).then(|| Block { rows: rows.len() as u64, body: BlockBody::Opaque(Box::new(rows)) }))
    }
}

struct SettlingWriter {
    sink: SettlingSink,
    rows: Vec<i64>,
}

impl Writer for SettlingWriter {
    fn reserve(&mut self, _block: &mut Block) -> Result<Slot> {
        Ok(Slot::default())
    }
    fn write(&mut self, _slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        let BlockBody::Opaque(rows) = std::mem::replace(&mut block.body, BlockBody::Bytes(Vec::new())) else {
            return Err(Error::internal("a block of another sink"));
        };
        let rows = rows.downcast::<Vec<i64>>().map_err(|_| Error::internal("a block of another sink"))?;
        match self.sink.as_file {
            true => self.sink.state.lock().unwrap().written.extend(*rows),
            false => self.rows.extend(*rows),
        }
        Ok(Vec::new())
    }
    fn settle(&mut self, marks: &[Mark]) -> Result<u64> {
        let rows = std::mem::take(&mut self.rows);
        let count = rows.len() as u64;
        self.sink.state.lock().unwrap().keep(rows, marks);
        Ok(count)
    }
    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        Ok(Vec::new())
    }
}
