//! What the tests of all crates share.
//!
//! - [`services`]: the servers that `./test` starts, found through the environment (the only place that reads it)
//! - [`pg`]: a scratch database per test, SQL through `psql`
//! - [`instance`]: a server of a test's own, which it may stop
//! - [`proxy`]: a TCP proxy that breaks connections
//! - [`memory`]: a source and a sink that keep their batches in memory
//! - [`kafka`]: topics, another client, and a broker of a test's own
//! - [`log`]: a log that grows while it is read, and sinks that settle, for jobs without an end
//! - [`faults`]: decorators that fail, wait or lie at a chosen call
//! - [`conformance`]: the contracts of the traits, checked against any source or sink
//!
//! Everything here panics with a clear message rather than returning errors: a test has nobody to hand them to.
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod conformance;
pub mod faults;
pub mod instance;
pub mod kafka;
pub mod log;
pub mod memory;
pub mod pg;
pub mod proxy;
pub mod rows;
pub mod s3;
pub mod services;
