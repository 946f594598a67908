//! One folder per system that Haul can read from or write to.

pub mod file;
pub mod generate;
#[cfg(feature = "object")]
pub mod object;
pub mod postgres;
mod registry;

pub use registry::{CONNECTORS, by_scheme};
