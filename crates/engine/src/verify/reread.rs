//! Reading a source for its sums alone: lanes as for a copy, no sink.

use super::arrays::ArrayHasher;
use super::canon::Canon;
use crate::run::Failure;
use haul_model::{
    Decoder, Digester, Encoding, Error, ErrorKind, Form, Hashes, Next, Payload, Position, Raw, ReadPlan, Reader, Reading, Result, Source,
    Split, Strict, Sums,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// How values are hashed.
#[derive(Debug, Clone)]
pub(crate) enum Hashing {
    /// Rows are counted.
    None,
    /// By their bytes in this encoding.
    Exact(Encoding),
    /// By their canonical forms: columns of the source, and as what they are compared.
    Typed { form: Form, columns: Vec<(usize, Canon)>, tokens: bool },
}

impl Hashing {
    fn reading(&self, degree: usize) -> Reading {
        match self {
            Self::None => Reading { pass_through: None, form: Form::Text, degree, ordered: false },
            Self::Exact(encoding) => Reading { pass_through: Some(encoding.clone()), form: Form::Text, degree, ordered: false },
            Self::Typed { form, .. } => Reading { pass_through: None, form: *form, degree, ordered: false },
        }
    }
}

/// A source that is planned to be summed up.
pub(crate) struct Summing<'a> {
    source: &'a mut dyn Source,
    hashing: Hashing,
    plan: ReadPlan,
    threads: usize,
    stop: &'a AtomicBool,
}

impl<'a> Summing<'a> {
    /// Plans the read over so many lanes.
    ///
    /// # Errors
    /// As [`Source::plan`].
    pub fn plan(source: &'a mut dyn Source, hashing: Hashing, threads: usize, stop: &'a AtomicBool) -> Result<Self> {
        let plan = source.plan(&hashing.reading(threads))?;
        Ok(Self { source, hashing, plan, threads, stop })
    }

    /// All rows.
    ///
    /// # Errors
    /// What reading can meet; a stop.
    pub fn all(&self) -> Result<Sums> {
        let mut all = Sums::default();
        self.run(&self.plan.splits)?.values().for_each(|sums| all.merge(sums));
        Ok(all)
    }

    /// Split by split, for splits of another source, if this one can open them.
    ///
    /// # Errors
    /// As [`Summing::all`].
    pub fn shared(&self, splits: &[Split]) -> Result<Option<BTreeMap<u32, Sums>>> {
        if splits.len() < 2 || !splits.iter().all(|split| self.source.shares(split)) {
            return Ok(None);
        }
        self.run(splits).map(Some)
    }

    /// Ends the read.
    ///
    /// # Errors
    /// As [`Source::finish`].
    pub fn finish(self) -> Result<()> {
        self.source.finish()
    }

    fn run(&self, splits: &[Split]) -> Result<BTreeMap<u32, Sums>> {
        let sums = Mutex::default();
        let look = || Ok(Added { tap: Tap::new(self.source, &self.hashing)?, own: BTreeMap::new(), all: &sums });
        read(self.source, &self.plan, splits, self.threads, self.stop, &look)?;
        Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One worker's sums.
struct Added<'a> {
    tap: Tap,
    own: BTreeMap<u32, Sums>,
    all: &'a Mutex<BTreeMap<u32, Sums>>,
}

impl Look for Added<'_> {
    fn chunk(&mut self, split: u32, payload: Payload) -> Result<()> {
        self.tap.add(payload, self.own.entry(split).or_default())
    }

    fn end(self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        self.own.iter().for_each(|(split, sums)| all.entry(*split).or_default().merge(sums));
    }
}

/// What one worker does with the chunks that it reads.
pub(crate) trait Look {
    /// A chunk of a split.
    ///
    /// # Errors
    /// A value that cannot be read.
    fn chunk(&mut self, split: u32, payload: Payload) -> Result<()>;
    /// There are no more.
    fn end(self);
}

/// Reads these splits in the lanes of the plan; each worker looks at its chunks through what `look` makes.
///
/// # Errors
/// What reading and looking can meet; a stop.
pub(crate) fn read<L: Look>(
    source: &dyn Source,
    plan: &ReadPlan,
    splits: &[Split],
    threads: usize,
    stop: &AtomicBool,
    look: &(dyn Fn() -> Result<L> + Sync),
) -> Result<()> {
    let lanes = if plan.lanes == 0 { threads } else { plan.lanes };
    let workers = if plan.network { lanes.min(threads) } else { threads }.max(1);
    let work = Work {
        source,
        splits: Mutex::new(splits.iter().cloned().collect()),
        open: Mutex::default(),
        failure: Failure::default(),
        stop,
        share: !plan.network,
    };
    std::thread::scope(|scope| {
        for number in 0..workers {
            let work = &work;
            let spawned = std::thread::Builder::new().name(format!("haul-sum-{number}")).spawn_scoped(scope, move || {
                if let Err(error) = look().and_then(|look| work.run(look)) {
                    work.failure.set(error);
                }
            });
            if let Err(error) = spawned {
                work.failure.set(Error::io("this process", "cannot start a worker thread", error));
            }
        }
    });
    work.failure.take().map_or(Ok(()), Err)
}

/// An open split; `None` once it has ended.
struct Open {
    split: u32,
    reader: Mutex<Option<Box<dyn Reader>>>,
}

/// What the workers of one read share.
struct Work<'a> {
    source: &'a dyn Source,
    splits: Mutex<VecDeque<Split>>,
    open: Mutex<Vec<Arc<Open>>>,
    failure: Failure,
    stop: &'a AtomicBool,
    /// Several workers may read from one split.
    share: bool,
}

impl Work<'_> {
    fn run(&self, mut look: impl Look) -> Result<()> {
        while let Some(open) = self.next()? {
            loop {
                if self.failure.is_set() {
                    return Ok(());
                }
                if self.stop.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Cancelled, "stopped by the user"));
                }
                let mut reader = open.reader.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(from) = reader.as_mut() else { break };
                let next = from.next()?;
                if let Next::End = next {
                    *reader = None;
                    break;
                }
                drop(reader);
                match next {
                    Next::Batch(batch) => look.chunk(open.split, batch.payload)?,
                    _ => std::thread::sleep(std::time::Duration::from_millis(1)),
                }
            }
        }
        look.end();
        Ok(())
    }

    /// A split that nobody has opened yet, or one that others read too.
    fn next(&self) -> Result<Option<Arc<Open>>> {
        let split = self.splits.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.reader.try_lock().map_or(true, |reader| reader.is_some()));
        let Some(split) = split else { return Ok(if self.share { open.first().cloned() } else { None }) };
        let lane = Arc::new(Open { split: split.id, reader: Mutex::new(None) });
        let mut reader = lane.reader.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(lane.clone());
        drop(open);
        *reader = Some(self.source.open(&split, &Position::start())?);
        drop(reader);
        Ok(Some(lane))
    }
}

/// What turns chunks into hashes.
enum Through {
    Counted(Option<Box<dyn Decoder>>),
    Exact(Box<dyn Digester>),
    Typed(Box<dyn Decoder>, ArrayHasher),
}

/// One worker's way from chunks to sums.
pub(crate) struct Tap {
    through: Through,
    hashes: Hashes,
}

impl Tap {
    /// # Errors
    /// The source has no such decoder or digester.
    pub fn new(source: &dyn Source, hashing: &Hashing) -> Result<Self> {
        let through = match hashing {
            Hashing::None => Through::Counted(source.decoder(Form::Text).ok()),
            Hashing::Exact(encoding) => Through::Exact(
                source
                    .digester(encoding)
                    .ok_or_else(|| Error::internal("the target cannot be read as it was written").object(source.name()))?,
            ),
            Hashing::Typed { form, columns, tokens } => Through::Typed(source.decoder(*form)?, ArrayHasher::new(columns.clone(), *tokens)),
        };
        Ok(Self { through, hashes: Hashes::default() })
    }

    /// Adds a chunk.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub fn add(&mut self, payload: Payload, sums: &mut Sums) -> Result<()> {
        let Self { through, hashes } = self;
        match (through, payload) {
            (Through::Counted(_), Payload::Raw(Raw { records: Some(records), .. })) => sums.rows += records,
            (Through::Counted(_), Payload::Columns(columns)) => sums.rows += columns.num_rows() as u64,
            (Through::Counted(decoder), Payload::Raw(raw)) => {
                let decoder = decoder.as_mut().ok_or_else(|| Error::internal("records that nobody counts"))?;
                decoder.decode(raw, &mut Strict::default(), &mut |rows, _| {
                    sums.rows += rows.batch.num_rows() as u64;
                    Ok(())
                })?;
            }
            (Through::Exact(digester), Payload::Raw(raw)) => {
                digester.digest(&raw, hashes)?;
                sums.add(hashes);
            }
            (Through::Typed(decoder, hasher), Payload::Raw(raw)) => decoder.decode(raw, &mut Strict::default(), &mut |rows, _| {
                hasher.hash(&rows.batch, hashes)?;
                sums.add(hashes);
                Ok(())
            })?,
            (Through::Typed(_, hasher), Payload::Columns(columns)) => {
                hasher.hash(&columns, hashes)?;
                sums.add(hashes);
            }
            (Through::Exact(_), Payload::Columns(_)) => return Err(Error::internal("columns in a pass-through read")),
        }
        Ok(())
    }
}
