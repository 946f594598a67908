//! Going on after a failure: what an earlier run of the same job has left on both sides, and what it is worth.
//!
//! A *job* is what the user asked for; each fresh start of it is a *run*. A sink that can ([`crate::Sink::track`]) makes each split
//! durable on its own and notes it beside the rows, in the same transaction: that note is the truth. A later run takes over the split
//! list of the earlier one, and a source that can ([`crate::Source::resume`]) says whether what was read then still is what is there now.

use crate::{Position, ReadPlan, Result, Split};

/// Which run of which job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId {
    /// The job: a hash of what it does, never of how.
    pub job: String,
    /// The fresh start; it names staging tables and temporary files.
    pub run: String,
}

/// A split that is durable in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitDone {
    /// Its number.
    pub split: u32,
    /// Up to where.
    pub position: Position,
    /// Records that were read from it.
    pub read: u64,
    /// Rows of it that the sink confirmed.
    pub rows: u64,
}

/// What a run has left in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// These splits (none, after a fresh start).
    Splits(Vec<SplitDone>),
    /// Everything: the run had finished, only nobody was told. So many rows.
    Everything(u64),
}

/// An earlier read, to be gone on with.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// What [`crate::Source::fingerprint`] gave then.
    pub fingerprint: String,
    /// Its splits, as they were cut.
    pub splits: Vec<Split>,
    /// Those that are durable.
    pub done: Vec<SplitDone>,
    /// The user accepts that finished splits show an earlier instant than the rest.
    pub stale_ok: bool,
}

/// What an earlier read is worth.
#[derive(Debug, Clone)]
pub enum Reuse {
    /// It can be gone on with, under this plan.
    Yes {
        /// The same splits.
        plan: ReadPlan,
        /// Whether the whole is proven to be the source of one instant, this plan's. Else each split is whole at an instant of its own.
        proven: bool,
        /// The same in words.
        consistency: String,
    },
    /// It cannot: one clause that says why.
    No(String),
}

/// What is kept of a run until it has ended well. A cache: what is durable, the target knows better.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saved {
    /// The job.
    pub job: String,
    /// The run.
    pub run: String,
    /// Both ends as text without secrets.
    pub source: String,
    /// See `source`.
    pub target: String,
    /// A hash of columns, types and statements: when it changes, rows of two runs do not fit together.
    pub shape: String,
    /// What [`crate::Source::fingerprint`] gave; `None`: the run cannot be gone on with, only cleaned up after.
    pub fingerprint: Option<String>,
    /// The splits, as they were cut.
    pub splits: Vec<Split>,
    /// What it may have left in the target ([`crate::Sink::leaves`]).
    pub leaves: Vec<String>,
    /// Whether rows that it committed are in the target itself, for all to see, so that starting again would double them.
    pub direct: bool,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// It has written so many rows, and is about to be forgotten.
    pub ended: Option<u64>,
}

/// A job that nobody else may run as long as this is held. Ends with the process that holds it.
pub trait Held: Send + Sync {}

/// Where [`Saved`] runs are kept.
///
/// Durability: `save` and `remove` are durable when they return. Concurrency: several processes may share a store; a job is locked by
/// one of them.
pub trait StateStore: Send + Sync + std::fmt::Debug {
    /// The folder or URI, without secrets.
    fn name(&self) -> String;
    /// Locks a job; `None` if somebody holds it.
    ///
    /// # Errors
    /// IO or connection.
    fn lock(&self, job: &str) -> Result<Option<Box<dyn Held>>>;
    /// Keeps a run, or what has changed of it.
    ///
    /// # Errors
    /// IO or connection.
    fn save(&self, saved: &Saved) -> Result<()>;
    /// Forgets a run. One that is not there is no error.
    ///
    /// # Errors
    /// IO or connection.
    fn remove(&self, run: &str) -> Result<()>;
    /// All runs that are kept, the latest first.
    ///
    /// # Errors
    /// IO, connection, or a store that is damaged: the error says how to reset it.
    fn all(&self) -> Result<Vec<Saved>>;
}
