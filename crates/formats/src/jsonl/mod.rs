//! JSON Lines: one object a line, LF after each, UTF-8.
//!
//! On output, keys stand in column order and every value has one documented form: numbers with all their digits
//! (decimals too), dates and times as ISO 8601 strings, bytes as `"\\x..."` in hex, lists and structs nested, JSON
//! columns as they are. NaN and infinity have no form and are errors unless `--on-lossy` says otherwise.

mod columns;
mod decode;
mod encode;
mod escape;
pub mod fuzz;
mod input;
pub mod json;
mod lines;
mod value;

pub use encode::JsonlOutput;
pub use escape::push_string;
pub use input::JsonlInput;
pub use json::{JsonError, JsonReason, compact_json, validate_json};
pub(crate) use value::check;
pub use value::{NoJson, ValueWriter, write_json_value};

use crate::FormatSpec;
use haul_model::{Encoding, Kind, Setting};

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "jsonl",
    aliases: &["json", "raw", "ndjson"],
    extensions: &["jsonl", "ndjson", "json"],
    title: "JSON Lines: one object a line",
    read: READ,
    write: WRITE,
    container: false,
};

static READ: &[Setting] = &[
    Setting::new(
        "types",
        Kind::Choice(&["sample", "strings", "json"]),
        "sample",
        "sample takes text, booleans and 64-bit integers from the first lines and carries everything else as JSON; strings makes text of all; json carries every value as it is written.",
    ),
    Setting::new(
        "extra_keys",
        Kind::Choice(&["error", "ignore"]),
        "error",
        "A key that is not in the first lines is an error, or left out and counted.",
    ),
    Setting::new(
        "duplicate_keys",
        Kind::Choice(&["error", "last"]),
        "error",
        "A key that stands twice in one object is an error, or its last value counts.",
    ),
    Setting::new("columns", Kind::List, "", "Only these keys, in this order; also ones that the first lines do not have."),
];

static WRITE: &[Setting] = &[Setting::new(
    "nulls",
    Kind::Choice(&["keep", "omit"]),
    "keep",
    "keep writes NULL as null; omit leaves the key out. A NULL in a column of JSON values always leaves the key out, because null is a value there.",
)];

/// The encoding of JSON Lines for pass-through.
fn encoding() -> Encoding {
    Encoding { format: "jsonl", detail: String::new() }
}

#[cfg(test)]
mod tests;
