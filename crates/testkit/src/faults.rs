//! Decorators that break a source or a sink at a chosen call, so that tests can see what the engine makes of it.

use arrow_schema::SchemaRef;
use haul_model::{
    Block, Checkpoint, Decoder, Earlier, Encoder, Encoding, Error, ErrorKind, Estimate, Finished, Form, Incoming, Mark, Next, Note,
    Position, ReadPlan, Reader, Reading, Result, Reuse, Sink, Slot, Source, Span, Split, WritePlan, Writer,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Which call is hit. Calls are counted over all readers or writers of the endpoint, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The n-th `Source::open`.
    OpenReader(u64),
    /// The n-th `Reader::next`.
    Read(u64),
    /// `Source::finish`.
    FinishSource,
    /// `Sink::begin`.
    Begin,
    /// The n-th `Sink::open`.
    OpenWriter(u64),
    /// The n-th `Writer::reserve`.
    Reserve(u64),
    /// The n-th `Writer::write`.
    Write(u64),
    /// The n-th `Writer::close`.
    Close(u64),
    /// The n-th `Writer::settle` or `Sink::settle`, before it does anything.
    Settle(u64),
    /// The same, once it is done: its answer is lost.
    Settled(u64),
    /// The n-th `Reader::ack`.
    Ack(u64),
    /// `Sink::finish`.
    FinishSink,
}

/// What happens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this kind of error ("injected"), and does nothing.
    Fail(ErrorKind),
    /// The call takes this much longer.
    Delay(Duration),
    /// The call does less than it says: a read claims a span but loses its last row, a write drops its block, a
    /// finish confirms one row less.
    Short,
    /// The call panics.
    Panic,
}

/// A plan of faults, shared by an endpoint and its readers or writers.
#[derive(Debug)]
struct Plan {
    faults: Vec<(At, Fault)>,
    counts: [AtomicU64; 9],
}

impl Plan {
    fn new(faults: &[(At, Fault)]) -> Arc<Self> {
        Arc::new(Self { faults: faults.to_vec(), counts: Default::default() })
    }

    /// Counts a call of kind `at(n)` and applies what is planned for it; true when it is to be short.
    fn hit(&self, counter: usize, at: impl Fn(u64) -> At) -> Result<bool> {
        let call = at(self.counts[counter].fetch_add(1, Ordering::SeqCst) + 1);
        let mut short = false;
        for (_, fault) in self.faults.iter().filter(|(planned, _)| *planned == call) {
            match fault {
                Fault::Fail(kind) => return Err(Error::new(*kind, "injected").object(format!("{call:?}"))),
                Fault::Delay(time) => std::thread::sleep(*time),
                Fault::Short => short = true,
                Fault::Panic => panic!("injected at {call:?}"),
            }
        }
        Ok(short)
    }
}

/// A settling with what is planned before and after it.
fn settled(plan: &Plan, settle: impl FnOnce() -> Result<u64>) -> Result<u64> {
    let short = plan.hit(7, At::Settle)?;
    let rows = settle()?;
    plan.hit(8, At::Settled)?;
    Ok(if short { rows.saturating_sub(1) } else { rows })
}

/// A source with faults.
pub struct FaultySource {
    inner: Box<dyn Source>,
    plan: Arc<Plan>,
}

impl FaultySource {
    /// `inner`, with these faults.
    pub fn new(inner: impl Source + 'static, faults: &[(At, Fault)]) -> Self {
        Self { inner: Box::new(inner), plan: Plan::new(faults) }
    }
}

impl Source for FaultySource {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn estimate(&self) -> Estimate {
        self.inner.estimate()
    }
    fn encodings(&self) -> Vec<Encoding> {
        self.inner.encodings()
    }
    fn schema(&self, form: Form) -> Result<SchemaRef> {
        self.inner.schema(form)
    }
    fn notes(&self, form: Form) -> Vec<Note> {
        self.inner.notes(form)
    }
    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan> {
        self.inner.plan(reading)
    }
    fn fingerprint(&self) -> Option<String> {
        self.inner.fingerprint()
    }
    fn resume(&mut self, reading: &Reading, earlier: &Earlier) -> Result<Reuse> {
        self.inner.resume(reading, earlier)
    }
    fn reopens(&self) -> bool {
        self.inner.reopens()
    }
    fn endless(&self) -> bool {
        self.inner.endless()
    }
    fn begin_at(&mut self, marks: &[Mark]) -> Result<()> {
        self.inner.begin_at(marks)
    }
    fn settled(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.inner.settled(checkpoint)
    }
    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        self.plan.hit(0, At::OpenReader)?;
        Ok(Box::new(FaultyReader { inner: self.inner.open(split, from)?, plan: self.plan.clone() }))
    }
    fn decoder(&self, form: Form) -> Result<Box<dyn Decoder>> {
        self.inner.decoder(form)
    }
    fn finish(&mut self) -> Result<()> {
        self.plan.hit(1, |_| At::FinishSource)?;
        self.inner.finish()
    }
}

struct FaultyReader {
    inner: Box<dyn Reader>,
    plan: Arc<Plan>,
}

impl Reader for FaultyReader {
    fn next(&mut self) -> Result<Next> {
        let short = self.plan.hit(2, At::Read)?;
        let mut next = self.inner.next()?;
        if let (true, Next::Batch(batch)) = (short, &mut next)
            && let haul_model::Payload::Columns(columns) = &mut batch.payload
        {
            *columns = columns.slice(0, columns.num_rows().saturating_sub(1));
        }
        Ok(next)
    }
    fn ack(&mut self, spans: &[Span]) -> Result<()> {
        self.plan.hit(6, At::Ack)?;
        self.inner.ack(spans)
    }
    fn begin_at(&mut self, marks: &[Mark]) -> Result<()> {
        self.inner.begin_at(marks)
    }
    fn split(&self, id: u32) -> Option<Split> {
        self.inner.split(id)
    }
    fn wait(&mut self, at_most: Duration) {
        self.inner.wait(at_most);
    }
    fn lag(&self) -> Option<u64> {
        self.inner.lag()
    }
}

/// A sink with faults.
pub struct FaultySink {
    inner: Box<dyn Sink>,
    plan: Arc<Plan>,
}

impl FaultySink {
    /// `inner`, with these faults.
    pub fn new(inner: impl Sink + 'static, faults: &[(At, Fault)]) -> Self {
        Self { inner: Box::new(inner), plan: Plan::new(faults) }
    }
}

impl Sink for FaultySink {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn form(&self) -> Form {
        self.inner.form()
    }
    fn accepts(&self, encoding: &Encoding, schema: &SchemaRef) -> bool {
        self.inner.accepts(encoding, schema)
    }
    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        self.inner.plan(incoming)
    }
    fn takes_back(&self) -> bool {
        self.inner.takes_back()
    }
    fn settles(&self) -> bool {
        self.inner.settles()
    }
    fn marks(&self, job: &str) -> Result<Vec<Mark>> {
        self.inner.marks(job)
    }
    fn settle(&self, marks: &[Mark]) -> Result<u64> {
        settled(&self.plan, || self.inner.settle(marks))
    }
    fn leave(&mut self) {
        self.inner.leave();
    }
    fn begin(&mut self) -> Result<()> {
        self.plan.hit(0, |_| At::Begin)?;
        self.inner.begin()
    }
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        self.inner.encoder()
    }
    fn open(&self, lane: u32) -> Result<Box<dyn Writer>> {
        self.plan.hit(1, At::OpenWriter)?;
        Ok(Box::new(FaultyWriter { inner: self.inner.open(lane)?, plan: self.plan.clone() }))
    }
    fn finish(&mut self) -> Result<Finished> {
        let short = self.plan.hit(2, |_| At::FinishSink)?;
        let mut finished = self.inner.finish()?;
        if short {
            finished.rows = finished.rows.saturating_sub(1);
        }
        Ok(finished)
    }
    fn abort(&mut self) -> Vec<String> {
        self.inner.abort()
    }
}

struct FaultyWriter {
    inner: Box<dyn Writer>,
    plan: Arc<Plan>,
}

impl Writer for FaultyWriter {
    fn reserve(&mut self, block: &mut Block) -> Result<Slot> {
        self.plan.hit(3, At::Reserve)?;
        self.inner.reserve(block)
    }
    fn write(&mut self, slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        if self.plan.hit(4, At::Write)? {
            return Ok(Vec::new());
        }
        self.inner.write(slot, block)
    }
    fn settle(&mut self, marks: &[Mark]) -> Result<u64> {
        settled(&self.plan, || self.inner.settle(marks))
    }
    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        self.plan.hit(5, At::Close)?;
        self.inner.close()
    }
}
