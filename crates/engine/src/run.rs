//! Runs a planned job to completion: begin, lanes, finish or abort, and the final account.

use crate::attempt;
use crate::budget::Budget;
use crate::cursor;
use crate::endless;
use crate::lane::{Shared, Worker};
use crate::ledger::Ledger;
use crate::order::Order;
use crate::plan::{Job, Plan};
use crate::pools::{Ahead, Loading};
use crate::progress::{Counts, Progress};
use crate::reject::{OnError, Policy, RejectLog};
use crate::resume::{self, Resume};
use crate::retry::rule_for;
use crate::shares::{self, TimeSpent};
use crate::verify::witness::Proof;
use crate::verify::{self, Verified};
use haul_model::{Checkpoint, Error, ErrorKind, Finished, Result, Split};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
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
    /// Where the time went.
    pub spent: TimeSpent,
    /// What was proven afterwards.
    pub verified: Option<Verified>,
}

/// Runs the job. On any error the sink is aborted and the target is as the plan's guarantee says; unless the run can be gone on with
/// and the world failed, not the data: then what is durable stays, with the state of the run.
///
/// `stop` ends the run early (Ctrl-C). `log` takes rejected rows.
///
/// # Errors
/// The first error in source order; `Internal` if the account does not balance; `Mismatch` if the target was to be verified and does not hold
/// what was sent.
pub fn run(job: &mut Job, plan: &Plan, stop: &AtomicBool, progress: &Progress, log: Option<&RejectLog>) -> Result<Outcome> {
    let started = Instant::now();
    if let Resume::Finished { rows } = plan.resume {
        return Ok(finished_before(job, plan, rows, progress, started));
    }
    if plan.endless {
        return endless::run(job, plan, stop, progress, log);
    }
    let estimate = job.source.estimate();
    progress.expected_rows.store(estimate.rows.unwrap_or(0), Relaxed);
    progress.expected_bytes.store(estimate.bytes.unwrap_or(0), Relaxed);
    let mut ledger = Ledger::default();
    for split in &plan.read.splits {
        ledger.open(split.id, haul_model::Position::start());
    }
    for done in plan.resume.done() {
        ledger.open(done.split, done.position.clone());
        progress.add(&Counts { read: done.read, sent: done.rows, filtered: done.read.saturating_sub(done.rows), ..Counts::default() });
    }
    let durable = AtomicUsize::new(plan.resume.done().len());
    let prepared = verify::prepare(job, plan, stop)?;
    let proof = prepared.as_ref().and_then(|prepared| prepared.proof.as_ref());
    let notes = resume::save(job, plan)?;
    let saved = plan.resume.by_split() || !job.sink.leaves().is_empty();
    let mut spent = TimeSpent::default();
    let result = job
        .sink
        .begin()
        .and_then(|()| lanes(job, plan, Watch { stop, progress, log, durable: &durable, proof }, &mut ledger))
        .map(|lanes| spent = lanes)
        .and_then(|()| job.source.finish())
        .and_then(|()| log.map_or(Ok(()), RejectLog::flush))
        .and_then(|()| balance_before_finish(progress))
        .and_then(|()| finish(job, plan, stop));
    match result {
        Ok(mut finished) => {
            let counts = progress.counts();
            ledger.all_durable();
            let balanced = balance(&counts, &finished);
            finished.notes.extend(notes);
            // The run is known until everything about it is done: one that is ended here and is gone on with loads nothing again.
            let proven = balanced
                .and_then(|()| note_in_source(job, &ledger.checkpoint()))
                .and_then(|()| cursor::keep(job, plan))
                .and_then(|()| prepared.map(|prepared| prepared.prove(job, plan, counts.sent, stop)).transpose());
            finished.notes.extend(resume::forget(job, plan, saved, Some(finished.rows)));
            if matches!(plan.resume, Resume::Continues { .. }) {
                finished.notes.push(plan.resume.to_string());
            }
            let verified = proven?;
            Ok(Outcome { counts, finished, elapsed: started.elapsed(), checkpoint: ledger.checkpoint(), spent, verified })
        }
        Err(error) => Err(after_failure(job, plan, error, saved, durable.into_inner())),
    }
}

/// A source that remembers how far it was read is told, once all of it is durable.
fn note_in_source(job: &mut Job, checkpoint: &Checkpoint) -> Result<()> {
    // Under a limit more was read than was sent.
    if job.options.limit.is_some() {
        return Ok(());
    }
    job.source.settled(checkpoint).map_err(|e| e.context("the rows are written, but the source could not note that"))
}

/// Makes everything visible. Once every split is durable, nothing is lost by trying that again.
fn finish(job: &mut Job, plan: &Plan, stop: &AtomicBool) -> Result<Finished> {
    let mut failed = 0;
    loop {
        match job.sink.finish() {
            Err(error) if plan.resume.by_split() => {
                failed += 1;
                let Some(pause) = job.options.retries.pause(&error, failed) else { return Err(error) };
                attempt::wait(pause, || stop.load(Relaxed))?;
            }
            result => return result,
        }
    }
}

/// Keeps what is durable, or takes everything back; says which beside the error.
fn after_failure(job: &mut Job, plan: &Plan, error: Error, saved: bool, durable: usize) -> Error {
    // Rows that everybody sees cannot be taken back, whatever failed.
    let keep = plan.resume.direct() || rule_for(&error).is_some_and(|rule| rule.keep);
    if keep && durable > 0 && plan.resume.by_split() {
        job.sink.leave();
        let (all, clean) = (plan.read.splits.len(), if plan.resume.direct() { "forgets the run" } else { "removes them" });
        return error
            .also(format!("{durable} of {all} splits are committed: the same command with --resume goes on, haul state clean {clean}"));
    }
    let leftovers = job.sink.abort();
    if !leftovers.is_empty() {
        // The state stays: it names them for a later cleaning.
        return error.also(format!("left behind: {}", leftovers.join(", ")));
    }
    match resume::forget(job, plan, saved, None) {
        Some(note) => error.also(note),
        None => error,
    }
}

/// The earlier run had written everything, and was ended before it could say so.
fn finished_before(job: &mut Job, plan: &Plan, rows: u64, progress: &Progress, started: Instant) -> Outcome {
    progress.add(&Counts { read: rows, sent: rows, ..Counts::default() });
    let mut notes = vec![plan.resume.to_string()];
    notes.extend(resume::forget(job, plan, true, Some(rows)));
    let finished = Finished { rows, notes, ..Finished::default() };
    Outcome {
        counts: progress.counts(),
        finished,
        elapsed: started.elapsed(),
        checkpoint: Checkpoint::default(),
        spent: TimeSpent::default(),
        verified: None,
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

/// What a run is told and tells, while it goes on.
struct Watch<'a> {
    stop: &'a AtomicBool,
    progress: &'a Progress,
    log: Option<&'a RejectLog>,
    /// Splits that are durable.
    durable: &'a AtomicUsize,
    proof: Option<&'a Proof>,
}

fn lanes(job: &Job, plan: &Plan, watch: Watch<'_>, ledger: &mut Ledger) -> Result<TimeSpent> {
    let Watch { stop, progress, log, durable, proof } = watch;
    let policy = Policy { on_error: job.options.on_error, log, progress };
    // What may lie in queues is reserved once for all.
    let budget = Budget::new(job.options.budget - plan.pools.held(&job.options));
    let shares = shares::Shares::default();
    let done = plan.resume.done();
    let splits: VecDeque<Split> = plan.read.splits.iter().filter(|s| !done.iter().any(|d| d.split == s.id)).cloned().collect();
    let shared = Shared {
        job,
        plan,
        stop,
        progress,
        policy: &policy,
        budget: &budget,
        failure: Failure::default(),
        ledger: Mutex::new(std::mem::take(ledger)),
        splits: Mutex::new(splits.clone()),
        open: Mutex::new(Vec::new()),
        exclusive: plan.lanes >= plan.workers,
        chain: Arc::default(),
        chain_seq: AtomicU64::new(0),
        merged: Order::default(),
        keep_rows: job.options.on_error != OnError::Stop,
        durable,
        shares: &shares,
        proof,
        ahead: plan.pools.extractors.map(|(_, queue)| Ahead::new(splits, queue)),
        loading: plan.pools.loaders.map(|(_, queue)| Loading::new(queue)),
    };
    let [source, sink] = shares::beside([job.source.watch(), job.sink.watch()], || workers(&shared));
    *ledger = shared.ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    match shared.failure.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None if stop.load(Relaxed) => Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
        None => Ok(TimeSpent { workers: shares.shares(), source, sink }),
    }
}

/// Runs all workers to their end, with what reads before and writes behind them.
fn workers(shared: &Shared<'_>) {
    let stopping = || shared.stopping();
    std::thread::scope(|scope| {
        let ahead = shared.ahead.iter().flat_map(|ahead| (0..shared.plan.pools.extractors.map_or(0, |(n, _)| n)).map(move |n| (n, ahead)));
        let readers: Vec<_> = ahead
            .filter_map(|(number, ahead)| {
                spawn(scope, shared, format!("haul-read-{number}"), move || {
                    ahead.extract(shared.job.source.as_ref(), &stopping);
                    Ok(())
                })
            })
            .collect();
        let loading = shared
            .loading
            .iter()
            .flat_map(|loading| (0..shared.plan.pools.loaders.map_or(0, |(n, _)| n as u32)).map(move |n| (n, loading)));
        let writers: Vec<_> = loading
            .filter_map(|(number, loading)| {
                spawn(scope, shared, format!("haul-load-{number}"), move || {
                    // A place among the writers that no worker has.
                    let lane = if shared.plan.write.own_connections { number } else { number + shared.plan.workers as u32 };
                    loading.load(shared.job.sink.as_ref(), lane, shared.progress, stopping)
                })
            })
            .collect();
        let workers: Vec<_> = (0..shared.plan.workers)
            .filter_map(|number| {
                spawn(scope, shared, format!("haul-{number}"), move || Worker::start(shared, number).and_then(Worker::run))
            })
            .collect();
        // A panic is already noted by its guard; joining keeps it from spreading.
        workers.into_iter().for_each(|handle| drop(handle.join()));
        shared.ahead.iter().for_each(Ahead::close);
        shared.loading.iter().for_each(Loading::close);
        readers.into_iter().chain(writers).for_each(|handle| drop(handle.join()));
    });
}

/// A thread of the run, whose failure is the run's.
fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    shared: &'scope Shared<'_>,
    name: String,
    work: impl FnOnce() -> Result<()> + Send + 'scope,
) -> Option<std::thread::ScopedJoinHandle<'scope, ()>> {
    let spawned = std::thread::Builder::new().name(name).stack_size(1 << 20).spawn_scoped(scope, move || {
        let _guard = PanicGuard(&shared.failure);
        if let Err(error) = work() {
            shared.failure.set(error);
        }
    });
    match spawned {
        Ok(handle) => Some(handle),
        Err(error) => {
            shared.failure.set(Error::io("this process", "cannot start a thread", error));
            None
        }
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

impl Failure {
    /// The first error, if there is one.
    pub fn take(&self) -> Option<Error> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A worker that panics must not leave the others waiting for its turn.
pub(crate) struct PanicGuard<'a>(pub &'a Failure);

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
