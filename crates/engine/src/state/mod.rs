//! What is remembered between runs: which job this is, how its source was cut, what a killed run may have left.
//!
//! It is a cache. What is durable stands in the target, written with the rows; where the two differ, the target is right.

mod job_id;
mod sqlite;

pub use job_id::job_id;
pub use sqlite::SqliteStore;
