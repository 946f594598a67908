//! Change data capture: what a table holds and then what happens to it, in commit order.
//!
//! The server decodes its log (`pgoutput`), Haul reads it over a replication connection. Between source and sink changes travel in the
//! encoding `pg-changes` (`changes.rs`): the tuples as the server sent them. A sink that knows it takes them untouched; for the others
//! `decode.rs` makes rows of them. The place in the stream (`place.rs`) is the commit LSN and the number of the change in its transaction, so
//! that a transaction of any size flows in bounded memory, and a restart skips what was taken.

pub(in crate::postgres) mod apply;
mod changes;
mod connector;
mod decode;
mod events;
mod held;
mod pgoutput;
mod place;
mod publication;
mod reader;
mod settings;
mod shape;
mod snapshot;
mod sorter;
mod source;
#[cfg(test)]
mod tests;
mod texts;
mod value;

pub use connector::{PostgresCdc, SPEC};
