//! PostgreSQL: reading by COPY in snapshot-consistent lanes, writing by COPY.

mod array_wire;
pub mod catalog;
mod datetime;
pub mod decode;
mod decode_column;
mod decode_json;
mod numeric;
pub mod types;
