//! Counters of a running job. Workers add once per chunk; whoever renders them polls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Live counters, shared by all workers.
#[derive(Debug, Default)]
pub struct Progress {
    /// Records read, good and bad.
    pub read: AtomicU64,
    /// Input bytes consumed (decompressed).
    pub bytes_in: AtomicU64,
    /// Rows handed to the sink.
    pub sent: AtomicU64,
    /// Output bytes handed to the sink.
    pub bytes_out: AtomicU64,
    /// Rows written aside.
    pub rejected: AtomicU64,
    /// Rows that a transform dropped on purpose.
    pub filtered: AtomicU64,
    /// Values replaced under `--on-lossy`.
    pub lossy: AtomicU64,
    /// Rows expected in total; 0 = unknown.
    pub expected_rows: AtomicU64,
    /// Input bytes expected in total; 0 = unknown.
    pub expected_bytes: AtomicU64,
    /// Records that an endless source has beyond those read, over all lanes, where it can tell.
    pub lag: AtomicU64,
    /// Whether it can.
    pub lag_known: AtomicBool,
}

/// A snapshot of [`Progress`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read.
    pub read: u64,
    /// Input bytes.
    pub bytes_in: u64,
    /// Rows handed to the sink.
    pub sent: u64,
    /// Output bytes.
    pub bytes_out: u64,
    /// Rows written aside.
    pub rejected: u64,
    /// Rows dropped on purpose.
    pub filtered: u64,
    /// Values replaced.
    pub lossy: u64,
}

impl Progress {
    /// The counters now.
    pub fn counts(&self) -> Counts {
        Counts {
            read: self.read.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            sent: self.sent.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            filtered: self.filtered.load(Relaxed),
            lossy: self.lossy.load(Relaxed),
        }
    }

    /// Counts more.
    pub(crate) fn add(&self, more: &Counts) {
        for (counter, n) in self.pairs(more) {
            counter.fetch_add(n, Relaxed);
        }
    }

    /// Takes back what was counted: it will come again.
    pub(crate) fn take_back(&self, counts: &Counts) {
        for (counter, n) in self.pairs(counts) {
            counter.fetch_sub(n, Relaxed);
        }
    }

    fn pairs(&self, c: &Counts) -> [(&AtomicU64, u64); 7] {
        [
            (&self.read, c.read),
            (&self.bytes_in, c.bytes_in),
            (&self.sent, c.sent),
            (&self.bytes_out, c.bytes_out),
            (&self.rejected, c.rejected),
            (&self.filtered, c.filtered),
            (&self.lossy, c.lossy),
        ]
    }

    /// How far behind an endless job is, in records, where the source can tell.
    pub fn behind(&self) -> Option<u64> {
        self.lag_known.load(Relaxed).then(|| self.lag.load(Relaxed))
    }

    /// A lane that was `before` records behind is now `now` records behind.
    pub(crate) fn lags(&self, before: u64, now: u64) {
        self.lag.fetch_add(now.wrapping_sub(before), Relaxed);
        self.lag_known.store(true, Relaxed);
    }

    /// The fraction done, between 0 and 1, where a total is known.
    pub fn fraction(&self) -> Option<f64> {
        let of = |done: &AtomicU64, total: &AtomicU64| {
            let total = total.load(Relaxed);
            (total > 0).then(|| (done.load(Relaxed) as f64 / total as f64).min(1.0))
        };
        of(&self.read, &self.expected_rows).or_else(|| of(&self.bytes_in, &self.expected_bytes))
    }
}
