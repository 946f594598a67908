//! CSV and TSV.

use crate::FormatSpec;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "csv",
    aliases: &[],
    extensions: &["csv"],
    title: "Comma-separated values (RFC 4180)",
    read: &[],
    write: &[],
    container: false,
};

/// The reference of this format.
pub static TSV_SPEC: FormatSpec = FormatSpec {
    name: "tsv",
    aliases: &[],
    extensions: &["tsv", "tab"],
    title: "Tab-separated values",
    read: &[],
    write: &[],
    container: false,
};
