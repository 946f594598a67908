//! Extractors: threads that read splits before a worker asks for them.

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use haul_model::{Batch, Error, ErrorKind, Next, Position, Reader, Result, Source, Split};
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a thread that waits looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Splits that are read ahead, in their order.
///
/// Extractors and workers take splits in the same order, so the split that a worker waits for is never behind one that nobody reads from.
pub(crate) struct Ahead {
    state: Mutex<State>,
    begun: Condvar,
    queue: usize,
}

struct State {
    /// Not begun.
    splits: VecDeque<Split>,
    /// Begun, and not yet asked for.
    begun: HashMap<u32, Receiver<Read>>,
    closed: bool,
}

/// What comes of a split: records, then its end or why there is none.
enum Read {
    Batch(Batch),
    End,
    Failed(Error),
}

impl Ahead {
    pub fn new(splits: VecDeque<Split>, queue: usize) -> Self {
        Self { state: Mutex::new(State { splits, begun: HashMap::new(), closed: false }), begun: Condvar::new(), queue }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One extractor: reads split after split until there is none left.
    pub fn extract(&self, source: &dyn Source, stopping: &dyn Fn() -> bool) {
        while let Some((split, out)) = self.next() {
            let end = match self.read(source, &split, &out, stopping) {
                Ok(true) => Read::End,
                Ok(false) => continue,
                Err(error) => Read::Failed(error),
            };
            self.send(&out, end, stopping);
        }
    }

    fn next(&self) -> Option<(Split, Sender<Read>)> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let split = state.splits.pop_front()?;
        let (out, into) = bounded(self.queue);
        state.begun.insert(split.id, into);
        self.begun.notify_all();
        Some((split, out))
    }

    /// Whether the split was read to its end; `false`: nobody wants it any more.
    fn read(&self, source: &dyn Source, split: &Split, out: &Sender<Read>, stopping: &dyn Fn() -> bool) -> Result<bool> {
        let mut reader = source.open(split, &Position::start())?;
        loop {
            match reader.next()? {
                Next::Batch(batch) => {
                    if !self.send(out, Read::Batch(batch), stopping) {
                        return Ok(false);
                    }
                }
                Next::Idle if stopping() => return Ok(false),
                Next::Idle => std::thread::sleep(Duration::from_millis(1)),
                Next::End => return Ok(true),
            }
        }
    }

    /// Whether it was taken in; `false`: nobody will take it.
    fn send(&self, out: &Sender<Read>, mut read: Read, stopping: &dyn Fn() -> bool) -> bool {
        loop {
            match out.send_timeout(read, LOOK) {
                Ok(()) => return true,
                Err(SendTimeoutError::Timeout(back)) if !stopping() => read = back,
                Err(_) => return false,
            }
        }
    }

    /// The reader of a split that is read ahead. `None`: it was handed out already, or is no split of this run's first pass.
    ///
    /// # Errors
    /// The run has ended meanwhile.
    pub fn take(&self, split: u32, stopping: &dyn Fn() -> bool) -> Result<Option<Box<dyn Reader>>> {
        let mut state = self.state();
        loop {
            if let Some(from) = state.begun.remove(&split) {
                return Ok(Some(Box::new(Queued { from, ended: false })));
            }
            if !state.splits.iter().any(|s| s.id == split) {
                return Ok(None);
            }
            if stopping() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by the user"));
            }
            state = self.begun.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The workers are done: nothing that lies ready will be asked for.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.begun.clear();
    }
}

/// A split whose records come through a queue.
struct Queued {
    from: Receiver<Read>,
    ended: bool,
}

impl Reader for Queued {
    fn next(&mut self) -> Result<Next> {
        if self.ended {
            return Ok(Next::End);
        }
        match self.from.recv() {
            Ok(Read::Batch(batch)) => Ok(Next::Batch(batch)),
            Ok(Read::End) => {
                self.ended = true;
                Ok(Next::End)
            }
            Ok(Read::Failed(error)) => Err(error),
            // Its extractor has ended without a word: it was stopped, or panicked, which is told elsewhere. No end of the split in any case.
            Err(_) => Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
        }
    }
}
