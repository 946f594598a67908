//! `rate`: not faster than this.

use arrow_schema::SchemaRef;
use haul_model::{Error, ErrorKind, Rejects, Result, Rows, Transform};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets at most so many rows through in a second, all workers together. Rows are held back a batch at a time, so the rate holds over
/// seconds, not from row to row; time that was not used is not made up for.
pub struct Rate {
    rows_per_second: u32,
    /// When the next rows may pass.
    next: Mutex<Instant>,
}

impl Rate {
    /// Rows in a second, from 1.
    ///
    /// # Errors
    /// `Config`.
    pub fn parse(text: &str) -> Result<Self> {
        let number = text.trim().trim_end_matches("/s").replace(['_', ','], "");
        match number.parse() {
            Ok(rows_per_second @ 1..) => Ok(Self { rows_per_second, next: Mutex::new(Instant::now()) }),
            _ => Err(Error::new(ErrorKind::Config, format!("rate cannot be {text:?}")).hint("rows in a second: 10000")),
        }
    }

    /// How long these rows have to wait.
    fn wait(&self, rows: usize, now: Instant) -> Duration {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*next).max(now);
        *next = begin + Duration::from_secs_f64(rows as f64 / f64::from(self.rows_per_second));
        begin - now
    }
}

impl Transform for Rate {
    fn describe(&self) -> String {
        format!("at most {} rows/s", self.rows_per_second)
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows, _rejects: &mut dyn Rejects) -> Result<Rows> {
        std::thread::sleep(self.wait(rows.batch.num_rows(), Instant::now()));
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_for_those_before_them() {
        let rate = Rate::parse("1_000/s").unwrap();
        let begin = Instant::now() + Duration::from_secs(10);
        assert_eq!(rate.wait(500, begin), Duration::ZERO);
        assert_eq!(rate.wait(2000, begin), Duration::from_millis(500));
        assert_eq!(rate.wait(1, begin + Duration::from_millis(600)), Duration::from_millis(1900));
        assert_eq!(rate.wait(1, begin + Duration::from_secs(60)), Duration::ZERO, "an idle minute is not made up for");
        for bad in ["0", "-1", "fast", ""] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }
}
