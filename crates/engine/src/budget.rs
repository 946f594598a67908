//! Bytes in flight. A reservation is made when a chunk is read, its expansion included, and given back when the
//! chunk has been written. Reserving happens in the order of the split, under the reader's lock, so the chunk
//! whose turn it is to be written always has its reservation: an ordered writer cannot deadlock behind it.

use haul_model::{Error, ErrorKind, Result};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counting semaphore over bytes.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// Reserved bytes, given back on drop.
#[derive(Debug)]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until `bytes` are free and takes them. A request larger than the whole budget waits until it is alone.
    /// `stopping` is asked every 100 ms while waiting.
    ///
    /// # Errors
    /// `Cancelled` when `stopping` says so.
    pub fn reserve(&self, bytes: u64, stopping: impl Fn() -> bool) -> Result<Reservation<'_>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + bytes > self.limit {
            if stopping() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by the user"));
            }
            used = self.freed.wait_timeout(used, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes;
        Ok(Reservation { budget: self, bytes })
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_room_and_lets_one_giant_through() {
        let budget = Budget::new(100);
        let a = budget.reserve(60, || false).unwrap();
        assert_eq!(budget.reserve(60, || true).unwrap_err().kind(), ErrorKind::Cancelled);
        std::thread::scope(|s| {
            let waiting = s.spawn(|| budget.reserve(500, || false).map(|_| budget.used()));
            std::thread::sleep(Duration::from_millis(20));
            drop(a);
            assert_eq!(waiting.join().unwrap().unwrap(), 500);
        });
        assert_eq!(budget.used(), 0);
    }
}
