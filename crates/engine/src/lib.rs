//! The engine: takes a source, transforms and a sink, plans, runs to completion, and proves that what was
//! read is what was written.
//!
//! ```text
//! plan.rs     what will happen: pass-through or codecs, lanes, workers, guarantee
//! lane.rs     one loop: take a framed chunk, decode, transform, encode, write in order
//! order.rs    the turnstile that keeps a split's blocks in order, and numbers its records
//! ledger.rs   spans of a split chain; what is durable
//! budget.rs   bytes in flight
//! reject.rs   bad rows: stop at the first, or write them aside
//! progress.rs counters that CLI, UI and metrics render
//! ```
//! It names no connector and does no IO of its own.

mod budget;
mod lane;
mod ledger;
mod order;
mod plan;
mod progress;
mod reject;
mod run;
pub mod transform;

pub use budget::Budget;
pub use ledger::Ledger;
pub use plan::{Job, Options, Plan, plan};
pub use progress::{Counts, Progress};
pub use reject::{OnError, RejectLog};
pub use run::{Outcome, run};
