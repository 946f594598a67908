//! A worker's unfinished business: the splits that it has read since its last durable one, what was counted of them, and trying
//! them again.
//!
//! Nothing that was sent after the last durable split stays in the target once the writer is dropped, so these splits are sent again
//! whole, and their counts are taken back. One thing may have happened unseen: a commit that was sent, but whose answer was lost.
//! The target knows.

use crate::lane::{Shared, Worker};
use crate::progress::{Counts, Progress};
use haul_model::{Error, ErrorKind, Position, Result, Split};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Waiting looks this often at the stop flag.
const SLICE: Duration = Duration::from_millis(50);

/// Waits, unless the run is being stopped.
pub(crate) fn wait(pause: Duration, stopping: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < pause {
        if stopping() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped by the user"));
        }
        std::thread::sleep(SLICE.min(pause));
    }
    Ok(())
}

/// The counts of one worker, and those that are not durable yet apart.
pub(crate) struct Tally<'a> {
    progress: &'a Progress,
    /// Since the last durable split.
    pub since: Counts,
}

impl<'a> Tally<'a> {
    pub fn new(progress: &'a Progress) -> Self {
        Self { progress, since: Counts::default() }
    }

    pub fn add(&mut self, more: Counts) {
        self.progress.add(&more);
        let since = &mut self.since;
        since.read += more.read;
        since.bytes_in += more.bytes_in;
        since.sent += more.sent;
        since.bytes_out += more.bytes_out;
        since.rejected += more.rejected;
        since.filtered += more.filtered;
        since.lossy += more.lossy;
    }

    /// What was counted is durable.
    pub fn settle(&mut self) {
        self.since = Counts::default();
    }

    /// What was counted will come again.
    pub fn take_back(&mut self) {
        self.progress.take_back(&std::mem::take(&mut self.since));
    }
}

/// Splits that were begun and are not durable.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    begun: Vec<Split>,
    /// To be begun again.
    again: VecDeque<Split>,
    /// Tries that failed since the last durable split.
    failed: u32,
}

impl Owed {
    /// The next split: one that is to be tried again, else a new one.
    pub fn next(&mut self, new: impl FnOnce() -> Option<Split>) -> Option<Split> {
        let split = self.again.pop_front().or_else(new)?;
        self.begun.push(split.clone());
        Some(split)
    }

    pub fn durable(&mut self, split: u32) {
        self.begun.retain(|s| s.id != split);
        self.again.retain(|s| s.id != split);
        self.failed = 0;
    }
}

/// Whether a worker may start again from its last durable split.
fn possible(shared: &Shared<'_>) -> bool {
    let job = shared.job;
    shared.exclusive
        && shared.loading.is_none()
        && !shared.keep_rows
        && job.options.limit.is_none()
        && job.sink.takes_back()
        && job.source.reopens()
}

impl<'a> Worker<'a> {
    /// A worker, once its way into the sink is open.
    ///
    /// # Errors
    /// As [`Worker::again`].
    pub fn start(shared: &'a Shared<'a>, number: usize) -> Result<Self> {
        let mut failed = 0;
        loop {
            let error = match Self::new(shared, number) {
                Err(error) if possible(shared) => error,
                result => return result,
            };
            failed += 1;
            let Some(pause) = shared.job.options.retries.pause(&error, failed) else { return Err(error) };
            wait(pause, || shared.stopping())?;
        }
    }

    /// After a failure: waits, opens everything anew, and puts the owed splits in front of the others.
    ///
    /// # Errors
    /// The failure itself, if it cannot be tried again or was too often; a stop.
    pub fn again(&mut self, mut error: Error) -> Result<()> {
        let shared = self.shared;
        if !possible(shared) {
            return Err(error);
        }
        loop {
            self.owed.failed += 1;
            let Some(pause) = shared.job.options.retries.pause(&error, self.owed.failed) else {
                return Err(match self.owed.failed - 1 {
                    0 => error,
                    1 => error.context("tried twice"),
                    n => error.context(format!("tried {} times", n + 1)),
                });
            };
            // The connection goes first, so that the server can roll back while we wait.
            self.let_go();
            wait(pause, || shared.stopping())?;
            match self.renew().and_then(|()| self.owe_again()) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
    }

    /// Puts what was begun back to be begun again, but for splits that turn out to be durable.
    fn owe_again(&mut self) -> Result<()> {
        let begun = self.owed.begun.clone();
        for split in begun {
            if self.shared.plan.resume.by_split()
                && let Some(done) = self.shared.job.sink.durable(split.id)?
            {
                let failed = self.owed.failed;
                self.found_durable(&done);
                self.owed.failed = failed;
            }
        }
        let mut ledger = self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        for split in self.owed.begun.drain(..).rev() {
            ledger.open(split.id, Position::start());
            self.owed.again.push_front(split);
        }
        Ok(())
    }
}
