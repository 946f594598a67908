//! Parquet.

use crate::FormatSpec;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "parquet",
    aliases: &[],
    extensions: &["parquet", "pq"],
    title: "Apache Parquet",
    read: &[],
    write: &[],
    container: true,
};
