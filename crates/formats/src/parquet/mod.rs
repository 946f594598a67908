//! Apache Parquet, read and written a row group at a time.
//!
//! Reading: [`ParquetInput`] parses the footer once; its pieces are the row groups that hold rows. A decoder reads its
//! row group through [`crate::ReadAt`] in windows of at most 1 MiB a column, and emits batches of at most 8,192 rows or
//! about 1 MiB. With a condition (`where=`), row groups whose statistics say that no row can meet it are no pieces at all, and of
//! the others only the rows that meet it come. Text and bytes come as views over the pages. Values are exact: INT96 is read to the
//! microsecond without wrapping (and refused where it is finer, unless `int96=nanos`), INTERVAL comes as months, days and
//! nanoseconds.
//!
//! Writing: [`ParquetOutput`] gives every worker an encoder that builds row groups on its own; an assembler appends
//! the finished ones in order and writes the footer. Columns whose values hardly repeat in its first row group go on without a dictionary. Views become plain strings and bytes in the file; the
//! columns' own metadata travels in `ARROW:schema`, UUID and JSON also as Parquet's logical types.

mod columns;
mod distinct;
mod prune;
mod read;
mod read_schema;
mod twin;
mod window;
mod write;
mod write_schema;

#[cfg(test)]
pub(crate) mod tests;

pub use read::ParquetInput;
pub(crate) use read::select_columns;
pub use write::ParquetOutput;

use crate::FormatSpec;
use haul_model::{Error, ErrorKind, Kind, Setting};
use parquet::errors::ParquetError;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "parquet",
    aliases: &[],
    extensions: &["parquet", "pq"],
    title: "Apache Parquet",
    read: READ,
    write: WRITE,
    container: true,
};

const READ: &[Setting] = &[
    Setting::new("columns", Kind::List, "", "Read only these columns, in this order."),
    Setting::new(
        "where",
        Kind::Text,
        "",
        "Read only rows that meet this condition: comparisons, in, between, is null, and, or, not. Row groups whose statistics rule it out are not read.",
    ),
    Setting::new(
        "int96",
        Kind::Choice(&["micros", "nanos"]),
        "micros",
        "Unit in which old INT96 timestamps are read. Nanoseconds reach only from 1677 to 2262; a value that the unit cannot hold is an error.",
    ),
    Setting::new(
        "binary_as_text",
        Kind::Bool,
        "false",
        "Read byte columns without a type as text, as old writers (Impala, early Spark) meant them. Bytes that are not UTF-8 are an error.",
    ),
];

const WRITE: &[Setting] = &[
    Setting::new("compression", Kind::Choice(&["zstd", "snappy", "gzip", "lz4", "none"]), "zstd", "How pages are compressed."),
    Setting::new("compression_level", Kind::Int, "1", "Level for zstd (1 to 22) or gzip (0 to 9)."),
    Setting::new("row_group_rows", Kind::Int, "122880", "Most rows in a row group."),
    Setting::new("row_group_bytes", Kind::Bytes, "64MiB", "A row group ends at about this much data, before encoding."),
];

/// An error of the Parquet library in Haul's words; errors of our own that travelled through it come out whole.
fn from_parquet(what: &str, error: ParquetError) -> Error {
    let error = match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(inner) => match inner.downcast::<std::io::Error>() {
                Ok(io) => return from_io(what, *io),
                Err(inner) => ParquetError::External(inner),
            },
        },
        error => error,
    };
    let text = error.to_string();
    let text = text.split_once(": ").map_or(text.as_str(), |(_, detail)| detail).trim_end_matches('.');
    Error::new(ErrorKind::Data, format!("{what}: {text}"))
}

/// An IO error, or the error of ours inside it.
fn from_io(what: &str, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::io("the Parquet file", what, error),
    }
}
