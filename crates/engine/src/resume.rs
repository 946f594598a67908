//! Whether a run can be gone on with after a failure, and the going on.
//!
//! Before anything moves, the plan says which it is ([`Resume`]). A run that can be gone on with is saved with its splits before
//! the first change to the target, and forgotten after the last.

use crate::plan::{Job, Plan};
use crate::reject::OnError;
use haul_model::{
    Earlier, Error, ErrorKind, Held, Left, ReadPlan, Reading, Result, Reuse, RunId, Saved, SplitDone, StateStore, Tracks, WritePlan,
    failpoint,
};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, PoisonError};

/// What the user and the store say about going on.
#[derive(Debug, Clone)]
pub struct Tracking {
    /// This run. When it goes on with an earlier one, its id is the earlier one's.
    pub run: RunId,
    /// Both ends as text without secrets.
    pub ends: (String, String),
    /// Where runs are kept.
    pub store: Arc<dyn StateStore>,
    /// The run to go on with.
    pub earlier: Option<Saved>,
    /// The user accepts finished splits of an earlier instant.
    pub stale_ok: bool,
    /// Earlier runs were removed just now.
    pub restarted: bool,
    /// A run whose state cannot be kept fails; else it only cannot be gone on with.
    pub required: bool,
    /// Somebody will ask whether the run has ended, also where it cannot be gone on with.
    pub note_end: bool,
    /// Held while the job runs.
    pub lock: Lock,
}

/// The lock of a job, taken when something is kept for it.
#[derive(Clone, Default)]
pub struct Lock(Arc<Mutex<Option<Box<dyn Held>>>>);

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lock")
    }
}

impl Lock {
    /// Takes it, if it is not held already.
    ///
    /// # Errors
    /// Another process holds it; the store's own.
    pub fn take(&self, store: &dyn StateStore, job: &str) -> Result<()> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = store.lock(job)?;
        }
        match *held {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Exists, "another process is running this job")
                .object(store.name())
                .hint("wait for it, or end it; two at a time would mix their rows")),
        }
    }

    fn let_go(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What becomes of the work of a run that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// It is taken back; one clause says why.
    Restarts(String),
    /// Finished splits are kept, and `--resume` goes on.
    BySplit {
        /// They are in the target itself.
        direct: bool,
    },
    /// So it is, and this run goes on with an earlier one.
    Continues {
        /// See `BySplit`.
        direct: bool,
        /// What is there already.
        done: Vec<SplitDone>,
        /// Whether everything is proven to be of this run's snapshot.
        proven: bool,
        /// How the whole hangs together in time.
        consistency: String,
    },
    /// The job has no end; what was settled is there, and the same command goes on behind it.
    Endless,
    /// The earlier run had written everything. Nothing is left to do.
    Finished {
        /// Rows.
        rows: u64,
    },
}

impl Resume {
    /// Splits that are durable already.
    pub fn done(&self) -> &[SplitDone] {
        match self {
            Self::Continues { done, .. } => done,
            _ => &[],
        }
    }

    /// Whether each split is made durable on its own.
    pub fn by_split(&self) -> bool {
        matches!(self, Self::BySplit { .. } | Self::Continues { .. })
    }

    /// Whether committed splits are in the target itself.
    pub fn direct(&self) -> bool {
        matches!(self, Self::BySplit { direct: true } | Self::Continues { direct: true, .. })
    }
}

impl std::fmt::Display for Resume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Restarts(why) => write!(f, "a failed run starts again: {why}"),
            Self::BySplit { direct: false } => f.write_str("each split is committed aside; --resume goes on after a failure"),
            Self::BySplit { direct: true } => f.write_str("each split is committed into the table; --resume goes on after a failure"),
            Self::Continues { done, consistency, .. } => {
                let rows: u64 = done.iter().map(|d| d.rows).sum();
                write!(f, "goes on with an earlier run: {rows} rows of {} splits are there; {consistency}", done.len())
            }
            Self::Endless => f.write_str("an endless job: started again, it goes on behind what is durable"),
            Self::Finished { rows } => write!(f, "an earlier run has written everything: {rows} rows"),
        }
    }
}

/// Looks at what the earlier run has left. `Some`: it has finished, and nothing is to be planned.
pub(crate) fn look(job: &mut Job) -> Result<Option<Left>> {
    let Some(tracking) = job.options.tracking.clone() else { return Ok(None) };
    let Some(earlier) = tracking.earlier.filter(|earlier| earlier.fingerprint.is_some()) else { return Ok(None) };
    let left = job.sink.left(&tracking.run, &earlier.leaves)?;
    // The note in the target may be gone already.
    Ok(Some(earlier.ended.map_or(left, Left::Everything)))
}

/// An earlier read that is gone on with.
pub(crate) struct WentOn {
    done: Vec<SplitDone>,
    proven: bool,
    consistency: String,
}

/// Plans the reading: as the earlier run did, if there is one, else anew.
pub(crate) fn read(job: &mut Job, reading: &Reading, left: Option<Vec<SplitDone>>, shape: &str) -> Result<(ReadPlan, Option<WentOn>)> {
    let earlier = job.options.tracking.as_ref().and_then(|t| t.earlier.clone().map(|e| (e, t.stale_ok)));
    let (Some(done), Some((saved, stale_ok))) = (left, earlier) else { return Ok((job.source.plan(reading)?, None)) };
    if saved.shape != shape {
        return Err(refused("columns, types or the way of loading have changed since the first try", &saved));
    }
    let earlier =
        Earlier { fingerprint: saved.fingerprint.clone().unwrap_or_default(), splits: saved.splits.clone(), done: done.clone(), stale_ok };
    match job.source.resume(reading, &earlier)? {
        Reuse::Yes { plan, proven, consistency } => Ok((plan, Some(WentOn { done, proven, consistency }))),
        Reuse::No(why) => Err(refused(&why, &saved)),
    }
}

fn refused(why: &str, saved: &Saved) -> Error {
    let restart = match saved.direct {
        false => "--restart starts over and removes what the first try left",
        true => "--restart starts over; the rows that the first try committed stay in the table, so delete them first",
    };
    Error::new(ErrorKind::Conflict, format!("the job cannot be gone on with: {why}")).object(&saved.source).hint(restart)
}

/// What a failure of this run will leave.
pub(crate) fn decide(job: &mut Job, read: &ReadPlan, (lanes, workers): (usize, usize), went_on: Option<WentOn>) -> Result<Resume> {
    let Some(tracking) = job.options.tracking.clone() else { return Ok(Resume::Restarts("no state is kept".into())) };
    let why_not = if job.options.limit.is_some() {
        Some("a limited number of rows is read in one lane")
    } else if job.options.on_error != OnError::Stop {
        Some("the file of rejected rows is written anew")
    } else if read.splits.len() < 2 {
        Some("it is read in one piece")
    } else if job.options.pools.loaders.is_some() {
        Some("blocks go to whichever loader is free")
    } else if lanes < workers {
        Some("several workers share what is read")
    } else if job.source.fingerprint().is_none() {
        Some("the source cannot tell later whether it has changed")
    } else {
        None
    };
    let tracks = match why_not {
        Some(why) => Tracks::No(why.into()),
        None => job.sink.track(&tracking.run)?,
    };
    match (tracks, went_on) {
        (Tracks::No(why), None) => {
            if tracking.note_end {
                job.sink.note_end(&tracking.run)?;
            }
            Ok(Resume::Restarts(why))
        }
        (Tracks::No(why), Some(_)) => match &tracking.earlier {
            Some(saved) => Err(refused(&why, saved)),
            None => Err(Error::internal("a run goes on with none")),
        },
        (tracks, None) => Ok(Resume::BySplit { direct: tracks == Tracks::Directly }),
        (tracks, Some(WentOn { done, proven, consistency })) => {
            Ok(Resume::Continues { direct: tracks == Tracks::Directly, done, proven, consistency })
        }
    }
}

/// A hash of everything that must be the same for rows of two runs to fit together.
pub(crate) fn shape(reading: &Reading, schema: &arrow_schema::Schema, transforms: &[String], write: &WritePlan) -> String {
    let columns: Vec<_> = write.columns.iter().map(|c| (&c.source, &c.source_type, &c.target, &c.target_type)).collect();
    let text = format!("{:?} {:?} {:?} {transforms:?} {columns:?} {:?}", reading.pass_through, reading.form, schema.fields(), write.ddl);
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Keeps the run, before the first change to the target. Notes for the result.
pub(crate) fn save(job: &Job, plan: &Plan) -> Result<Vec<String>> {
    let Some(tracking) = &job.options.tracking else { return Ok(Vec::new()) };
    let leaves = job.sink.leaves();
    if leaves.is_empty() && !plan.resume.by_split() {
        return Ok(Vec::new());
    }
    let saved = saved(job, plan, tracking, leaves);
    match keep(tracking, &saved) {
        Ok(notes) => Ok(notes),
        Err(error) if tracking.required || error.kind() == ErrorKind::Exists => Err(error),
        Err(error) => Ok(vec![format!("this run could not be gone on with after a failure: {error}")]),
    }
}

fn keep(tracking: &Tracking, saved: &Saved) -> Result<Vec<String>> {
    tracking.lock.take(tracking.store.as_ref(), &saved.job)?;
    let mut notes = Vec::new();
    if tracking.earlier.is_none() && !tracking.restarted {
        for earlier in tracking.store.all()?.iter().filter(|earlier| earlier.job == saved.job && earlier.fingerprint.is_some()) {
            if earlier.direct {
                return Err(Error::new(ErrorKind::Exists, "an earlier run of this job has committed part of its rows, and has not ended")
                    .object(&saved.target)
                    .hint("--resume goes on with it; --restart starts over and leaves those rows in the table"));
            }
            notes.push(format!("run {} of this job has not ended: haul state clean removes what it left", earlier.run));
        }
    }
    failpoint::pass("state-before-save");
    tracking.store.save(saved)?;
    failpoint::pass("state-after-save");
    Ok(notes)
}

fn saved(job: &Job, plan: &Plan, tracking: &Tracking, leaves: Vec<String>) -> Saved {
    let fingerprint = job.source.fingerprint().filter(|_| plan.resume.by_split());
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Saved {
        job: tracking.run.job.clone(),
        run: tracking.run.run.clone(),
        source: tracking.ends.0.clone(),
        target: tracking.ends.1.clone(),
        shape: plan.shape.clone(),
        // What is done is proven to be of this snapshot too, so the next time it is the one to compare with; else it stays the first.
        fingerprint: match (&plan.resume, &tracking.earlier) {
            (Resume::Continues { proven: false, .. }, Some(earlier)) => earlier.fingerprint.clone(),
            _ => fingerprint,
        },
        splits: if plan.resume.by_split() { plan.read.splits.clone() } else { Vec::new() },
        leaves,
        direct: plan.resume.direct(),
        started: tracking.earlier.as_ref().map_or(since_1970, |e| e.started),
        ended: None,
    }
}

/// Forgets the run: it has ended well with so many rows, or nothing is left of it. What could not be done is returned as a note.
///
/// The note in the target says that nothing is left to do, and goes before the state: so the state must say it first. The state goes
/// last of all, since a run that is not known any more is done again by the next one.
pub(crate) fn forget(job: &mut Job, plan: &Plan, saved: bool, ended: Option<u64>) -> Option<String> {
    let tracking = job.options.tracking.clone().filter(|_| saved)?;
    failpoint::pass("state-before-end");
    let done = ended.map_or(Ok(()), |rows| end(job, plan, &tracking, rows)).and_then(|()| {
        failpoint::pass("state-before-remove");
        tracking.store.remove(&tracking.run.run)
    });
    failpoint::pass("state-after-remove");
    tracking.lock.let_go();
    done.err().map(|error| format!("the run could not be forgotten: {error}"))
}

/// Says in the state that everything is written, then takes the note about it out of the target.
fn end(job: &mut Job, plan: &Plan, tracking: &Tracking, rows: u64) -> Result<()> {
    let known = if plan.resume.by_split() {
        Saved { splits: Vec::new(), ..saved(job, plan, tracking, job.sink.leaves()) }
    } else {
        tracking.earlier.clone().unwrap_or_default()
    };
    // One that cannot be gone on with is not asked about.
    if known.fingerprint.is_some() {
        tracking.store.save(&Saved { ended: Some(rows), ..known })?;
    }
    failpoint::pass("state-after-end");
    job.sink.forget()?;
    failpoint::pass("note-after-forget");
    Ok(())
}
