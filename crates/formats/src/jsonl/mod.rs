//! JSON Lines.

use crate::FormatSpec;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "jsonl",
    aliases: &["json", "raw", "ndjson"],
    extensions: &["jsonl", "ndjson", "json"],
    title: "JSON Lines: one object a line",
    read: &[],
    write: &[],
    container: false,
};
