//! PostgreSQL: reading by COPY in snapshot-consistent lanes, writing by COPY.

mod address;
mod array_wire;
pub mod catalog;
pub mod config;
mod datetime;
pub mod decode;
mod decode_column;
mod decode_json;
pub mod discover;
mod numeric;
mod passfile;
pub mod session;
pub mod types;
