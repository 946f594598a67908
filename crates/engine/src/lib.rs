//! The engine: takes a source, transforms and a sink, plans, runs to completion, and proves that what was
//! read is what was written.
//!
//! ```text
//! plan.rs     what will happen: pass-through or codecs, lanes, workers, guarantee
//! lane.rs     one loop: take a framed chunk, decode, transform, encode, write in order
//! attempt.rs  what a worker owes since its last durable split, and trying it again
//! order.rs    the turnstile that keeps a split's blocks in order, and numbers its records
//! ledger.rs   spans of a split chain; what is durable
//! budget.rs   bytes in flight
//! endless/    jobs without an end: settle what was read, acknowledge it, go on
//! retry.rs    which failures are tried again: one table
//! resume.rs   whether a run can be gone on with, and the going on
//! cursor.rs   reading only what is new
//! state/      what is remembered between runs
//! reject.rs   bad rows: stop at the first, or write them aside
//! kept.rs     rows that the sink may hand back
//! shares.rs   where the time went
//! verify/     proof that the target holds what was sent
//! diff/       two sources side by side, down to the rows
//! progress.rs counters that CLI, UI and metrics render
//! ```
//! It names no connector, and does no IO but that of its state.

mod attempt;
mod budget;
mod cursor;
pub mod diff;
mod endless;
mod kept;
mod lane;
mod ledger;
mod order;
mod plan;
mod pools;
mod progress;
mod reject;
mod resume;
mod retry;
mod run;
mod shares;
pub mod state;
pub mod transform;
pub mod verify;

pub use budget::Budget;
pub use cursor::{Cursor, POSITION};
pub use endless::Endless;
pub use ledger::Ledger;
pub use plan::{Job, Options, Plan, plan};
pub use pools::Pools;
pub use progress::{Counts, Progress};
pub use reject::{OnError, RejectLog};
pub use resume::{Lock, Resume, Tracking};
pub use retry::{RULES, Retries, Rule, rule_for};
pub use run::{Outcome, run};
pub use shares::{Shares, TimeSpent, Waits};
