//! PostgreSQL: reading by COPY in snapshot-consistent lanes, writing by COPY.

mod address;
mod again;
mod array_wire;
pub mod catalog;
pub mod cdc;
pub mod check;
pub mod config;
mod connector;
mod database;
mod datetime;
pub mod ddl;
pub mod decode;
mod decode_column;
mod decode_json;
mod definition;
pub mod digest;
pub mod discover;
pub mod encode;
mod encode_json;
mod encode_lossy;
mod encode_source;
mod encode_value;
pub mod fuzz;
mod incremental;
mod lanes;
mod numeric;
mod passfile;
mod pooler;
mod portable;
mod read_plan;
pub mod session;
pub mod sink;
pub mod slots;
pub mod source;
mod splits;
mod state;
mod statement;
mod target;
pub mod text;
pub mod types;
mod unchanged;
mod watch;

pub use connector::{Postgres, SPEC};

#[cfg(test)]
mod codec_tests;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod testdb;
#[cfg(test)]
mod type_tests;
