//! PostgreSQL: reading by COPY in snapshot-consistent lanes, writing by COPY.

mod array_wire;
pub mod catalog;
mod datetime;
pub mod decode;
mod decode_column;
mod decode_json;
pub mod encode;
mod encode_json;
mod encode_lossy;
mod encode_source;
mod encode_value;
mod numeric;
mod target;
pub mod text;
pub mod types;
