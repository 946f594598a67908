//! Scalars as text: exact value <-> text, without allocation, for the hot loops of CSV, JSONL and PostgreSQL.
//!
//! `print_*` append to a buffer; `parse_*` read a whole byte slice (no blanks around it are taken). Nothing here
//! ever rounds: a text that the type cannot hold exactly is a [`LiteralError`] that says which way it fails.
//! Floats are the one type whose text is not unique: they print as the shortest text that reads back
//! to the same bits, and parse to the nearest float.
//!
//! Dates are proleptic Gregorian. Years up to 0 print as PostgreSQL writes and reads them: year 0 is `0001-..-.. BC`.

mod civil;
mod describe;
mod parse;
mod parse_time;
mod print;
mod print_time;

#[cfg(test)]
mod tests;

pub use civil::{civil_from_days, days_from_civil, days_in_month};
pub use describe::describe_value_kind;
pub use parse::{
    LiteralError, parse_bool, parse_decimal, parse_decimal256, parse_f32, parse_f64, parse_hex, parse_i64, parse_u64, parse_uuid,
};
pub use parse_time::{ParsedTimestamp, parse_date, parse_time, parse_timestamp, parse_timestamp_nanos};
pub use print::{print_bool, print_decimal, print_decimal256, print_f32, print_f64, print_hex, print_i64, print_u64, print_uuid};
pub use print_time::{print_date, print_time, print_time_nanos, print_timestamp, print_timestamp_sql};
