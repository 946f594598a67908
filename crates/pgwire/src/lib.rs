//! The PostgreSQL wire protocol (version 3.0) as Haul needs it: few round trips for control, whole blocks for data.
//!
//! Blocking, without a runtime: one thread, one [`Connection`]. Underneath, sockets are non-blocking and every wait
//! is cut into slices, so that the stop flag given to [`Connection::connect`] is honoured within 250 ms; a statement
//! that runs is then cancelled at the server ([`Error::Cancelled`]).
//!
//! - Control: [`Connection::simple_query`], [`Connection::query`] (parameters as text, unnamed statements, so that
//!   it works through poolers), [`Connection::describe`].
//! - COPY out: [`CopyOut`] reads in large blocks, walks the CopyData frames in place and hands out whole frames,
//!   heads included, without a copy.
//! - COPY in: [`CopyIn`] takes frames as they came from another server, or payload to be framed; it looks at what the
//!   server says while it writes, so a refused row surfaces at once.
//! - Replication: logical slots with their snapshots, and [`Replication`], the stream of changes, as views into the buffer.
//!
//! Specification: PostgreSQL documentation, chapter "Frontend/Backend Protocol".

mod certificate;
mod config;
mod connection;
mod copy_in;
mod copy_out;
mod error;
mod link;
mod lowat;
mod replication;
mod rows;
mod socket;
mod startup;
mod tls;
mod wal;

pub use config::{Config, Host, RootCert, Secret, SslMode, TargetSession};
pub use connection::{Connection, Transaction};
pub use copy_in::CopyIn;
pub use copy_out::{CopyChunk, CopyFormat, CopyOut};
pub use error::{Error, PgError, Result};
pub use link::Canceller;
pub use replication::{NewSlot, Replication, System};
pub use rows::{Column, Row, Rows};
pub use wal::{Lsn, NoLsn, WalMessage};

#[cfg(test)]
mod replication_tests;
#[cfg(test)]
mod server_tests;
