//! The turnstile of a lane: blocks leave in the order in which their chunks were read, and records get their
//! absolute numbers.

use haul_model::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The order of one lane's chunks, numbered from 0.
#[derive(Debug, Default)]
pub struct Order {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The chunk whose turn it is.
    next: u64,
    /// Records in all chunks before `next`.
    records_before: u64,
    /// Records of chunks that finished ahead of their turn.
    done: BTreeMap<u64, u64>,
    /// First chunk of each split -> records before it, once known. Splits that follow one another share an order.
    splits: BTreeMap<u64, u64>,
}

impl State {
    /// Records before the chunk whose turn it is, counted from the start of its split.
    fn before(&self, seq: u64) -> u64 {
        let base = self.splits.range(..=seq).next_back().map_or(0, |(_, base)| *base);
        self.records_before - base
    }
}

impl Order {
    /// A split begins with chunk `seq`: its records are numbered from there.
    pub fn begin_split(&self, seq: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let base = if state.next == seq { state.records_before } else { 0 };
        state.splits.insert(seq, base);
    }

    /// The number of records of its split before chunk `seq`, if it is its turn.
    pub fn try_turn(&self, seq: u64) -> Option<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.next == seq).then(|| state.before(seq))
    }

    /// Waits for the turn of chunk `seq`; returns the number of records of its split before it.
    ///
    /// # Errors
    /// `Cancelled`, when `failed` says that another worker has given up.
    pub fn wait(&self, seq: u64, failed: impl Fn() -> bool) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.next != seq {
            if failed() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by the user"));
            }
            state = self.moved.wait_timeout(state, Duration::from_millis(50)).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(state.before(seq))
    }

    /// Chunk `seq` is done and had `records` records. May be called ahead of its turn.
    pub fn complete(&self, seq: u64, records: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done.insert(seq, records);
        while let Some(records) = {
            let next = state.next;
            state.done.remove(&next)
        } {
            state.next += 1;
            state.records_before += records;
            let (next, before) = (state.next, state.records_before);
            if let Some(base) = state.splits.get_mut(&next) {
                *base = before;
            }
        }
        drop(state);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_split_numbers_its_own_records() {
        let order = Order::default();
        order.begin_split(0);
        order.begin_split(2);
        order.complete(1, 5);
        order.complete(0, 7);
        assert_eq!(order.wait(2, || false).unwrap(), 0);
        order.complete(2, 4);
        assert_eq!(order.wait(3, || false).unwrap(), 4);
    }

    #[test]
    fn turns_come_in_order_and_records_add_up() {
        let order = Order::default();
        order.complete(1, 5);
        assert_eq!(order.try_turn(1), None);
        assert_eq!(order.try_turn(0), Some(0));
        order.complete(0, 7);
        assert_eq!(order.wait(2, || false).unwrap(), 12);
        assert_eq!(order.wait(9, || true).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
