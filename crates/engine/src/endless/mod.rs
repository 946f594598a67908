//! Jobs without an end.
//!
//! Each lane has a worker that reads, writes, and from time to time *settles*: what it has sent becomes durable in the sink, together with the
//! marks that say up to where, and only then is it acknowledged to the source. It settles before it waits, so an idle stream has no
//! latency of its own; while there is more to read, after [`Endless::max_latency`] or [`Endless::settle_bytes`].
//!
//! ```text
//! mod.rs   what such a job may not ask for, and its run
//! lane.rs  the loop of one lane, and trying it again
//! gate.rs  settling for all lanes together, where the sink is one file for all
//! ```

mod gate;
mod lane;

use crate::attempt::wait;
use crate::budget::Budget;
use crate::lane::Shared;
use crate::ledger::Ledger;
use crate::order::Order;
use crate::plan::{Job, Plan};
use crate::progress::Progress;
use crate::reject::{OnError, Policy, RejectLog};
use crate::run::{Failure, Outcome, PanicGuard};
use crate::shares::{self, Shares, TimeSpent};
use gate::Gate;
use haul_model::{Error, ErrorKind, Finished, ReadPlan, Result, WritePlan};
use lane::Lane;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a job without an end needs to know.
#[derive(Debug, Clone)]
pub struct Endless {
    /// The job, as the sink's marks name it.
    pub job: String,
    /// What was read is durable at the latest after this time, as long as the sink keeps up.
    pub max_latency: Duration,
    /// And after about this many bytes of a lane.
    pub settle_bytes: u64,
}

impl Default for Endless {
    fn default() -> Self {
        Self { job: "job".into(), max_latency: Duration::from_secs(1), settle_bytes: 32 << 20 }
    }
}

/// Whether the job has no end. If so, refuses what it cannot have, and tells the source where to go on.
///
/// # Errors
/// `Usage`: it needs an end; `Unsupported`: the sink does.
pub(crate) fn begin(job: &mut Job) -> Result<bool> {
    if !job.source.endless() {
        return Ok(false);
    }
    let needs_end = |what: &str| {
        Err(Error::new(ErrorKind::Usage, format!("{what} needs an end, and this source has none"))
            .object(job.source.name())
            .hint(format!("leave {what} out")))
    };
    if job.options.limit.is_some() {
        return needs_end("--limit");
    }
    if job.options.verify.is_some() {
        return needs_end("--verify");
    }
    if job.options.cursor.is_some() {
        return needs_end("--cursor");
    }
    if !job.sink.settles() {
        return Err(Error::new(ErrorKind::Unsupported, "a stream cannot be written there: it becomes durable only as a whole")
            .object(job.sink.name())
            .hint("a table of PostgreSQL takes such a job"));
    }
    let marks = job.sink.marks(&job.options.endless.job)?;
    job.source.begin_at(&marks)?;
    Ok(true)
}

/// A worker for each split: none of them ends, so none can wait for another.
///
/// # Errors
/// `Unsupported`: the sink has no room for so many.
pub(crate) fn widths(job: &Job, read: &ReadPlan, write: &mut WritePlan) -> Result<(usize, usize)> {
    let splits = read.splits.len().max(1);
    // The order among splits is that of arrival.
    write.in_split_order = false;
    if let Some(most) = write.max_writers.filter(|most| *most < splits) {
        return Err(Error::new(ErrorKind::Unsupported, format!("{splits} endless splits, but the target has room for {most} writers"))
            .object(job.sink.name())
            .hint(format!("read in fewer lanes: --degree {most}")));
    }
    Ok((splits, splits))
}

/// Runs until `stop`, an error that cannot be tried away, or the end of all splits. What was settled stays in any case.
///
/// # Errors
/// The first error; `Internal` if the account does not balance.
pub(crate) fn run(job: &mut Job, plan: &Plan, stop: &AtomicBool, progress: &Progress, log: Option<&RejectLog>) -> Result<Outcome> {
    let started = Instant::now();
    if let Some(tracking) = &job.options.tracking {
        // Two at a time would write the same rows.
        tracking.lock.take(tracking.store.as_ref(), &tracking.run.job)?;
    }
    let mut ledger = Ledger::default();
    let result = job.sink.begin().and_then(|()| lanes(job, plan, stop, (progress, log), &mut ledger));
    job.sink.leave();
    let (spent, confirmed) = result?;
    job.source.finish()?;
    let counts = progress.counts();
    if counts.read != counts.sent + counts.rejected + counts.filtered || counts.sent != confirmed {
        return Err(Error::internal(format!(
            "rows do not add up: read {}, sent {}, rejected {}, filtered {}, confirmed by the target {confirmed}",
            counts.read, counts.sent, counts.rejected, counts.filtered
        )));
    }
    let mut finished = Finished { rows: confirmed, bytes: counts.bytes_out, ..Finished::default() };
    if stop.load(Relaxed) {
        finished.notes.push("stopped by a signal: everything that was read is durable, and the same command goes on behind it".into());
    }
    Ok(Outcome { counts, finished, elapsed: started.elapsed(), checkpoint: ledger.checkpoint(), spent, verified: None })
}

/// Runs all lanes; the rows that the sink confirmed.
fn lanes(
    job: &Job,
    plan: &Plan,
    stop: &AtomicBool,
    (progress, log): (&Progress, Option<&RejectLog>),
    ledger: &mut Ledger,
) -> Result<(TimeSpent, u64)> {
    let policy = Policy { on_error: job.options.on_error, log, progress };
    let (budget, shares, durable) = (Budget::new(job.options.budget), Shares::default(), AtomicUsize::new(0));
    // What has been read is still written when the job is to stop: the lanes look at `stop` themselves, where it is safe.
    let never = AtomicBool::new(false);
    let shared = Shared {
        job,
        plan,
        stop: &never,
        progress,
        policy: &policy,
        budget: &budget,
        failure: Failure::default(),
        ledger: Mutex::new(Ledger::default()),
        splits: Mutex::default(),
        open: Mutex::new(Vec::new()),
        exclusive: true,
        chain: Arc::default(),
        chain_seq: AtomicU64::new(0),
        merged: Order::default(),
        keep_rows: job.options.on_error != OnError::Stop,
        durable: &durable,
        shares: &shares,
        proof: None,
        ahead: None,
        loading: None,
    };
    let gate = (!plan.write.own_connections).then(Gate::default);
    let run = Run { shared: &shared, gate: gate.as_ref(), stop, confirmed: AtomicU64::new(0) };
    let [source, sink] = shares::beside([job.source.watch(), job.sink.watch()], || workers(&run));
    let confirmed = run.confirmed.into_inner();
    *ledger = shared.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.failure.take() {
        Some(error) => Err(error),
        None => Ok((TimeSpent { workers: shares.shares(), source, sink }, confirmed)),
    }
}

/// What all lanes of an endless job see.
struct Run<'a> {
    shared: &'a Shared<'a>,
    /// Where settling is for all lanes together.
    gate: Option<&'a Gate>,
    stop: &'a AtomicBool,
    /// Rows that the sink says are durable.
    confirmed: AtomicU64,
}

impl Run<'_> {
    /// Whether lanes should come to an end: asked to, or another has failed.
    fn ending(&self) -> bool {
        self.stop.load(Relaxed) || self.shared.failure.is_set()
    }

    /// Waits before another try.
    ///
    /// # Errors
    /// The failure itself, when the job is to end meanwhile.
    fn pause(&self, error: Error, pause: Duration) -> Result<()> {
        wait(pause, || self.ending()).map_err(|_| error)
    }
}

fn workers(run: &Run<'_>) {
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for (number, split) in run.shared.plan.read.splits.iter().enumerate() {
            let spawned = std::thread::Builder::new().name(format!("haul-{number}")).stack_size(1 << 20).spawn_scoped(scope, move || {
                let _guard = PanicGuard(&run.shared.failure);
                if let Err(error) = Lane::start(run, number, split).and_then(Lane::follow) {
                    run.shared.failure.set(error);
                }
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => run.shared.failure.set(Error::io("this process", "cannot start a worker thread", error)),
            }
        }
        for handle in handles {
            // A panic is already noted by its guard; joining keeps it from spreading.
            let _ = handle.join();
        }
    });
}
