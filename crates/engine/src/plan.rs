//! What will happen, explainable before it does.
//!
//! The plan intersects what the source can emit with what the sink accepts. The same encoding and no transform: bytes
//! pass through untouched. Otherwise a decoder and an encoder are put in, with columns in between.

use crate::cursor::{self, Cursor};
use crate::endless::{self, Endless};
use crate::pools::{self, Pools};
use crate::reject::OnError;
use crate::resume::{self, Resume, Tracking};
use crate::retry::Retries;
use crate::verify::{self, Verify};
use arrow_schema::SchemaRef;
use haul_model::{Encoding, Form, Guarantee, Incoming, Left, Note, ReadPlan, Reading, Result, Sink, Source, Transform, WritePlan};

/// What the user asked for, with both ends connected.
pub struct Job {
    /// Where rows come from.
    pub source: Box<dyn Source>,
    /// What happens to them, in order.
    pub transforms: Vec<Box<dyn Transform>>,
    /// Where they go.
    pub sink: Box<dyn Sink>,
    /// How.
    pub options: Options,
}

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lanes on the network; 0 = automatic.
    pub degree: usize,
    /// Cores for CPU work.
    pub cores: usize,
    /// Bytes in flight.
    pub budget: u64,
    /// At most this many rows per batch.
    pub batch_rows: Option<usize>,
    /// About this many bytes in a block for a sink with connections of its own.
    pub batch_bytes: Option<usize>,
    /// Stop after this many rows, in source order (single worker).
    pub limit: Option<u64>,
    /// Bad rows.
    pub on_error: OnError,
    /// Lanes that fail.
    pub retries: Retries,
    /// Runs that fail; `None`: nothing is remembered of them.
    pub tracking: Option<Tracking>,
    /// Whether the target is proven to hold what was sent.
    pub verify: Option<Verify>,
    /// Only what is new is read.
    pub cursor: Option<Cursor>,
    /// What jobs without an end need to know.
    pub endless: Endless,
    /// Threads that read ahead and write behind.
    pub pools: Pools,
    /// The job is one of several: foreign keys of a new table wait for the others ([`haul_model::Finished::keys_later`]).
    pub keys_later: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            degree: 0,
            cores: 1,
            budget: 64 << 20,
            batch_rows: None,
            batch_bytes: None,
            limit: None,
            on_error: OnError::Stop,
            retries: Retries::default(),
            tracking: None,
            verify: None,
            cursor: None,
            endless: Endless::default(),
            pools: Pools::default(),
            keys_later: false,
        }
    }
}

/// What will happen.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the source.
    pub source: String,
    /// Name of the sink.
    pub sink: String,
    /// The job goes on until it is stopped.
    pub endless: bool,
    /// Bytes pass through in this encoding; `None` = decoded and encoded.
    pub pass_through: Option<Encoding>,
    /// The form values travel in.
    pub form: Form,
    /// Columns as they arrive at the sink.
    pub schema: SchemaRef,
    /// Transforms, described.
    pub transforms: Vec<String>,
    /// How the source is read.
    pub read: ReadPlan,
    /// How the sink is written.
    pub write: WritePlan,
    /// Splits open at the same time.
    pub lanes: usize,
    /// Worker threads.
    pub workers: usize,
    /// Threads before and behind them.
    pub pools: pools::Planned,
    /// What a failure leaves behind.
    pub guarantee: Guarantee,
    /// Whether a failed run is gone on with, and whether this one does.
    pub resume: Resume,
    /// What will be proven afterwards.
    pub verify: Option<String>,
    /// See [`haul_model::Saved::shape`].
    pub shape: String,
    /// How far a cursor has got when all is written, where the sink does not keep that.
    pub position: Option<String>,
    /// Remarks of both ends.
    pub notes: Vec<Note>,
}

/// An input smaller than this is not worth a second thread.
const SMALL_INPUT: u64 = 512 << 10;

/// Plans a job. Opens what must be opened to know (a snapshot), changes nothing.
///
/// # Errors
/// Whatever makes the job impossible: see [`Source::plan`] and [`Sink::plan`].
pub fn plan(job: &mut Job) -> Result<Plan> {
    let endless = endless::begin(job)?;
    let left = match resume::look(job)? {
        Some(Left::Everything(rows)) => return finished(job, rows),
        Some(Left::Splits(done)) => Some(done),
        None => None,
    };
    let position = cursor::narrow(job)?;
    let form = job.sink.form();
    let mut schema = job.source.schema(form)?;
    let pass_through = choose_pass_through(job, &schema);
    let own = schema.clone();
    let mut transforms = Vec::new();
    for transform in &job.transforms {
        schema = transform.output(&schema)?;
        transforms.push(transform.describe());
    }
    let mut incoming = Incoming {
        pass_through: pass_through.clone(),
        keys_later: job.options.keys_later,
        endless: endless.then(|| job.options.endless.job.clone()),
        ..Incoming::new(job.source.name(), schema.clone())
    };
    if job.sink.wants_definition() && keeps_names(&own, &schema) {
        incoming.definition = job.source.definition()?;
    }
    let mut write = job.sink.plan(&incoming)?;
    let position = cursor::hand_over(job, position)?;
    let degree = match job.options.limit {
        Some(_) => 1,
        None => job
            .options
            .pools
            .extractors
            .unwrap_or_else(|| job.options.degree.min(write.max_writers.filter(|_| write.own_connections).unwrap_or(usize::MAX))),
    };
    let ordered = !write.own_connections && !write.in_split_order;
    let reading = Reading { pass_through: pass_through.clone(), form, degree, ordered };
    let shape = resume::shape(&reading, &schema, &transforms, &write);
    let (mut read, went_on) = resume::read(job, &reading, left, &shape)?;
    if degree < job.options.degree && job.options.limit.is_none() {
        read.notes.push(Note::new(format!("{} lanes were asked for: the target has room for {degree}", job.options.degree)));
    }
    let mut pool_notes = Vec::new();
    let (lanes, workers) = match endless {
        true => endless::widths(job, &read, &mut write)?,
        false => widths(job, &read, &write),
    };
    let pools = match endless {
        true => pools::Planned::default(),
        false => pools::Planned::of(&job.options, &read, &write, &mut pool_notes),
    };
    let writers = pools.loaders.map_or(workers, |(loaders, _)| loaders);
    job.sink.writers(writers, &mut write);
    size_blocks(&job.options, writers, &mut write);
    read.notes.append(&mut pool_notes);
    let resume = match endless {
        true => Resume::Endless,
        false => resume::decide(job, &read, (lanes, workers), went_on)?,
    };
    let verify = verify::plan(job, pass_through.is_some(), &resume)?;
    let mut notes = job.source.notes(form);
    notes.extend(read.notes.iter().cloned());
    notes.extend(write.notes.iter().cloned());
    Ok(Plan {
        source: job.source.name(),
        sink: job.sink.name(),
        endless,
        pass_through,
        form,
        schema,
        transforms,
        lanes,
        workers,
        pools,
        guarantee: write.guarantee,
        resume,
        verify,
        shape,
        read,
        write,
        position,
        notes,
    })
}

/// Takes the user's word for the size of blocks, where each worker sends its own, as far as the budget goes: a worker holds one block.
fn size_blocks(options: &Options, workers: usize, write: &mut WritePlan) {
    let Some(wanted) = options.batch_bytes.filter(|_| write.own_connections) else { return };
    let most = usize::try_from(options.budget).unwrap_or(usize::MAX) / workers.max(1);
    if wanted > most {
        write
            .notes
            .push(Note::new(format!("batch_bytes is {most} here: one block for each of {workers} workers has to fit into the budget")));
    }
    write.block_bytes = wanted.min(most);
}

/// Whether the columns that arrive are some of the source's, under their own names and in their order.
fn keeps_names(own: &SchemaRef, arriving: &SchemaRef) -> bool {
    let mut own = own.fields().iter();
    arriving.fields().iter().all(|field| own.any(|o| o.name() == field.name()))
}

/// The plan of a job that an earlier run has done: nothing is to do.
fn finished(job: &Job, rows: u64) -> Result<Plan> {
    let resume = Resume::Finished { rows };
    if job.options.verify.is_some() {
        return Err(verify::finished_before(job.sink.name()));
    }
    let write = WritePlan {
        method: "nothing: it is written".into(),
        ddl: Vec::new(),
        columns: Vec::new(),
        notes: Vec::new(),
        guarantee: Guarantee::AllOrNothing,
        own_connections: false,
        whole_splits: false,
        in_split_order: false,
        max_writers: None,
        block_bytes: 0,
        run_bytes: None,
    };
    Ok(Plan {
        source: job.source.name(),
        sink: job.sink.name(),
        endless: false,
        pass_through: None,
        form: job.sink.form(),
        schema: std::sync::Arc::new(arrow_schema::Schema::empty()),
        transforms: Vec::new(),
        read: ReadPlan { method: "nothing: it is read".into(), ..ReadPlan::default() },
        write,
        lanes: 0,
        workers: 0,
        pools: pools::Planned::default(),
        guarantee: Guarantee::AllOrNothing,
        resume,
        verify: None,
        shape: String::new(),
        position: None,
        notes: Vec::new(),
    })
}

/// Bytes may pass untouched only when nothing has to look into a row: no transform, no row limit, no rejects.
fn choose_pass_through(job: &Job, schema: &SchemaRef) -> Option<Encoding> {
    if !job.transforms.is_empty() || job.options.limit.is_some() || job.options.on_error != OnError::Stop {
        return None;
    }
    job.source.encodings().into_iter().find(|encoding| verify::may_pass(job, encoding) && job.sink.accepts(encoding, schema))
}

/// Lanes (splits open at once) and workers (threads). CPU work gets one worker per core; a sink with a
/// connection per worker gets as many workers as lanes on the network. A pool that was asked for has the number that was said.
fn widths(job: &Job, read: &ReadPlan, write: &WritePlan) -> (usize, usize) {
    let options = &job.options;
    if options.limit.is_some() {
        return (1, 1);
    }
    let cores = options.cores.max(1);
    let small = job.source.estimate().bytes.is_some_and(|b| b < SMALL_INPUT);
    let mut lanes = match (read.lanes, options.degree) {
        (0, 0) if small => 1,
        (0, 0) => cores,
        (0, degree) => degree,
        (lanes, _) => lanes,
    };
    lanes = options.pools.extractors.unwrap_or(lanes).clamp(1, read.splits.len().max(1));
    let mut workers = if write.own_connections {
        match options.degree {
            0 if read.network => lanes,
            0 if small => 1,
            0 => cores,
            degree => degree,
        }
    } else if small {
        1
    } else {
        cores.max(if read.network { lanes } else { 1 })
    };
    workers = options.pools.transformers.unwrap_or(workers).max(1);
    let alone = read.network && read.splits.len() > 1 && options.pools.transformers.is_none();
    if write.whole_splits || write.in_split_order && lanes > 1 || alone {
        // A worker of its own for each split: only then can a split become durable, or be tried again, alone.
        workers = workers.min(lanes);
    }
    // Where loaders write, the workers need no way into the target.
    if let Some(max) = write.max_writers.filter(|_| options.pools.loaders.is_none()) {
        workers = workers.min(max.max(1));
    }
    (lanes.min(workers), workers)
}
