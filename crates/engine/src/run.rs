//! Runs a planned job to completion: begin, lanes, finish or abort, and the final account.

use crate::budget::Budget;
use crate::lane::{Shared, Worker};
use crate::ledger::Ledger;
use crate::order::Order;
use crate::plan::{Job, Plan};
use crate::progress::{Counts, Progress};
use crate::reject::{OnError, Policy, RejectLog};
use haul_model::{Checkpoint, Error, ErrorKind, Finished, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a job that ended well has done.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The engine's counters.
    pub counts: Counts,
    /// What the sink confirmed.
    pub finished: Finished,
    /// Wall time from begin to finish.
    pub elapsed: Duration,
    /// Up to where each split is durable.
    pub checkpoint: Checkpoint,
}

/// Runs the job. On any error the sink is aborted and the target is as the plan's guarantee says.
///
/// `stop` ends the run early (Ctrl-C). `log` takes rejected rows.
///
/// # Errors
/// The first error in source order; `Internal` if the account does not balance.
pub fn run(job: &mut Job, plan: &Plan, stop: &AtomicBool, progress: &Progress, log: Option<&RejectLog>) -> Result<Outcome> {
    let started = Instant::now();
    let estimate = job.source.estimate();
    progress.expected_rows.store(estimate.rows.unwrap_or(0), Relaxed);
    progress.expected_bytes.store(estimate.bytes.unwrap_or(0), Relaxed);
    let mut ledger = Ledger::default();
    for split in &plan.read.splits {
        ledger.open(split.id, haul_model::Position::start());
    }
    let result = job
        .sink
        .begin()
        .and_then(|()| lanes(job, plan, stop, progress, log, &mut ledger))
        .and_then(|()| job.source.finish())
        .and_then(|()| log.map_or(Ok(()), RejectLog::flush))
        .and_then(|()| balance_before_finish(progress))
        .and_then(|()| job.sink.finish());
    match result {
        Ok(finished) => {
            let counts = progress.counts();
            ledger.all_durable();
            balance(&counts, &finished)?;
            Ok(Outcome { counts, finished, elapsed: started.elapsed(), checkpoint: ledger.checkpoint() })
        }
        Err(mut error) => {
            let leftovers = job.sink.abort();
            if !leftovers.is_empty() {
                error = error.hint(format!("left behind: {}", leftovers.join(", ")));
            }
            Err(error)
        }
    }
}

/// Before anything becomes visible: what was read is what was sent, rejected or filtered, and something is left.
fn balance_before_finish(progress: &Progress) -> Result<()> {
    let c = progress.counts();
    if c.read != c.sent + c.rejected + c.filtered {
        return Err(Error::internal(format!(
            "rows do not add up: read {} but sent {} + rejected {} + filtered {}; nothing was made visible",
            c.read, c.sent, c.rejected, c.filtered
        )));
    }
    if c.sent == 0 && c.filtered == 0 && c.rejected > 0 {
        return Err(Error::new(ErrorKind::Data, format!("all {} rows were rejected, so the target was left as it was", c.rejected))
            .hint("--rejects PATH shows why; without --on-error reject the first reason is the error"));
    }
    Ok(())
}

/// Afterwards: the sink confirmed as many rows as it was sent.
fn balance(counts: &Counts, finished: &Finished) -> Result<()> {
    if counts.sent != finished.rows {
        return Err(Error::internal(format!("{} rows were sent but the target confirmed {}", counts.sent, finished.rows))
            .hint("compare both sides before using the target"));
    }
    Ok(())
}

fn lanes(job: &Job, plan: &Plan, stop: &AtomicBool, progress: &Progress, log: Option<&RejectLog>, ledger: &mut Ledger) -> Result<()> {
    let policy = Policy { on_error: job.options.on_error, log, progress };
    let budget = Budget::new(job.options.budget);
    let shared = Shared {
        job,
        plan,
        stop,
        progress,
        policy: &policy,
        budget: &budget,
        failure: Failure::default(),
        ledger: Mutex::new(std::mem::take(ledger)),
        splits: Mutex::new(plan.read.splits.iter().cloned().collect()),
        open: Mutex::new(Vec::new()),
        exclusive: plan.lanes >= plan.workers,
        chain: Arc::default(),
        chain_seq: AtomicU64::new(0),
        keep_rows: job.options.on_error != OnError::Stop,
    };
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for number in 0..plan.workers {
            let shared = &shared;
            let spawned = std::thread::Builder::new().name(format!("haul-{number}")).stack_size(1 << 20).spawn_scoped(scope, move || {
                let _guard = PanicGuard(&shared.failure);
                if let Err(error) = Worker::new(shared, number).and_then(Worker::run) {
                    shared.failure.set(error);
                }
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => shared.failure.set(Error::io("this process", "cannot start a worker thread", error)),
            }
        }
        for handle in handles {
            // A panic is already noted by its guard; joining keeps it from spreading.
            let _ = handle.join();
        }
    });
    *ledger = shared.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.failure.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None if stop.load(Relaxed) => Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
        None => Ok(()),
    }
}

/// The first error of a run; seen by all workers.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    failed: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Failure {
    pub fn is_set(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Keeps the first error; a "stopped" that only follows from another failure never hides it.
    pub fn set(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let replace = match first.as_ref() {
            None => true,
            Some(held) => held.kind() == ErrorKind::Cancelled && error.kind() != ErrorKind::Cancelled,
        };
        if replace {
            *first = Some(error);
        }
        self.failed.store(true, Relaxed);
    }
}

/// A worker that panics must not leave the others waiting for its turn.
struct PanicGuard<'a>(&'a Failure);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set(Error::internal("a worker thread panicked").hint("please report this with the command line"));
        }
    }
}

/// Waits for a chunk's turn, unless it has passed already.
pub(crate) fn records_before(order: &Order, seq: u64, failed: impl Fn() -> bool) -> Option<u64> {
    order.wait(seq, failed).ok()
}
