//! Round trips in memory, files of other writers, and the cases by their ids.

mod cases;
mod foreign;
pub(crate) mod harness;
pub(crate) mod random;
mod round_trip;
