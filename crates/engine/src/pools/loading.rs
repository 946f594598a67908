//! Loaders: threads that write what the workers have made.

use crate::progress::{Counts, Progress};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use haul_model::{Block, Error, ErrorKind, Result, Sink, Slot};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(100);

/// Blocks on their way to the loaders.
pub(crate) struct Loading {
    /// `None` once the workers are done.
    into: Mutex<Option<Sender<Handed>>>,
    out: Receiver<Handed>,
}

struct Handed {
    slot: Slot,
    block: Block,
    /// Its rows are counted already; else the writer counts them, and they count as read too.
    counted: bool,
}

impl Loading {
    pub fn new(queue: usize) -> Self {
        let (into, out) = bounded(queue.max(1));
        Self { into: Mutex::new(Some(into)), out }
    }

    /// Hands a block over; waits while the queue is full.
    ///
    /// # Errors
    /// The run has ended meanwhile.
    pub fn hand(&self, slot: Slot, block: Block, counted: bool, stopping: impl Fn() -> bool) -> Result<()> {
        let into = self.into.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(into) = into else { return Err(Error::internal("a block for loaders that are gone")) };
        let mut handed = Handed { slot, block, counted };
        loop {
            handed = match into.send_timeout(handed, LOOK) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Timeout(back)) if !stopping() => back,
                Err(_) => return Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
            };
        }
    }

    /// No more blocks will come.
    pub fn close(&self) {
        *self.into.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// One loader: writes until no more blocks come, then has everything confirmed.
    ///
    /// # Errors
    /// IO, connection, a refused row.
    pub fn load(&self, sink: &dyn Sink, lane: u32, progress: &Progress, stopping: impl Fn() -> bool) -> Result<()> {
        let mut writer = sink.open(lane)?;
        loop {
            let Handed { slot, mut block, counted } = match self.out.recv_timeout(LOOK) {
                Ok(handed) => handed,
                Err(RecvTimeoutError::Timeout) if stopping() => return Err(Error::new(ErrorKind::Cancelled, "stopped by the user")),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            refused(writer.write(slot, &mut block)?)?;
            let read = if counted { 0 } else { block.rows };
            progress.add(&Counts { read, sent: block.rows, bytes_out: block.body.bytes(), ..Counts::default() });
        }
        refused(writer.close()?)
    }
}

/// Rows are refused one by one only where they are asked for, and then there are no loaders.
fn refused(rows: Vec<(u64, Error)>) -> Result<()> {
    rows.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}
