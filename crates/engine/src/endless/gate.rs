//! One file for all lanes: its length is durable at an instant, and the marks that go with it must be of that instant. So lanes write chunk by
//! chunk with the gate open, and whoever settles closes it: then no chunk is half written. A lane whose rows another one has settled
//! meanwhile has nothing to do, so lanes that are due together share one fsync.

use haul_model::{Mark, Position, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

/// The gate, and what has passed it.
#[derive(Default)]
pub(super) struct Gate {
    open: RwLock<()>,
    passed: Mutex<Passed>,
}

#[derive(Default)]
struct Passed {
    /// Up to where each split is written, by its name.
    written: BTreeMap<String, Position>,
    /// Chunks written, and how many of them are settled.
    chunks: u64,
    settled: u64,
}

impl Gate {
    /// Writes one chunk. On success the splits that it moves on are written up to these positions; the number of the chunk.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn pass(&self, write: impl FnOnce() -> Result<Vec<(String, Position)>>) -> Result<u64> {
        let _open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let moved = write()?;
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.written.extend(moved);
        passed.chunks += 1;
        Ok(passed.chunks)
    }

    /// Settles everything that has passed, unless chunk `mine` is settled already.
    ///
    /// # Errors
    /// Those of `settle`.
    pub fn settle(&self, mine: u64, settle: impl FnOnce(&[Mark]) -> Result<()>) -> Result<()> {
        let _closed = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if mine <= passed.settled {
            return Ok(());
        }
        let marks = passed.written.iter().map(|(split, position)| Mark { split: split.clone(), position: position.clone() });
        settle(&marks.collect::<Vec<_>>())?;
        passed.settled = passed.chunks;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_settling_serves_all_that_have_passed() {
        let gate = Gate::default();
        let chunk = |name: &str, to: u64| gate.pass(|| Ok(vec![(name.to_string(), Position::number(to))])).unwrap();
        let (a, b) = (chunk("a", 3), chunk("b", 5));
        let mut seen = Vec::new();
        gate.settle(b, |marks| {
            seen.extend(marks.iter().map(|m| (m.split.clone(), m.position.as_number())));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [("a".to_string(), Some(3)), ("b".into(), Some(5))]);
        gate.settle(a, |_| panic!("settled twice")).unwrap();
        let c = chunk("a", 9);
        let failed = gate.settle(c, |_| Err(haul_model::Error::internal("full")));
        assert!(failed.is_err());
        // What failed is not settled.
        let mut again = 0;
        gate.settle(c, |_| {
            again += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(again, 1);
    }
}
