//! CSV and TSV.
//!
//! What a file means, by one set of rules for framer, decoder and encoder:
//!
//! - A quote opens a quoted field only as the first byte of a field; anywhere else it is data (`5" pipe`). In quotes,
//!   a doubled quote is one quote, and delimiters and line breaks are data. Text behind a closing quote is an error.
//! - Records end with LF or CR LF, mixed as they come; with a lone CR only if the first line of the file does. In
//!   a file of lines ending in LF, a lone CR outside quotes is an error that names the line (`newline=lf` keeps it as data).
//! - An unquoted empty field is NULL, a quoted one is `""` (`empty=string` makes both `""`). Other NULL tokens count only unquoted.
//! - Blank lines are no records, except in a file of one column, where a blank line is a NULL.
//! - A record with another number of fields than the header is an error (`ragged=pad` fills short ones with NULL).
//! - `skip` counts physical lines before the header, `skip_records` records after it.
//! - The encoder quotes what would be read as something else without: an empty string, delimiters, quotes, line breaks, outer
//!   blanks, a value that equals the NULL token, and `\.` (which ends a PostgreSQL COPY). In a file of one column, a NULL is a blank
//!   line; readers that drop blank lines need `null=` with a token.
//! - Bytes that are not UTF-8 are an error of their record; nothing is ever replaced.

mod decoder;
mod dialect;
mod encoder;
mod fields;
mod framer;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod index;
mod input;
mod options;
mod output;
mod scan;
mod transcode;

#[cfg(test)]
mod tests;

pub use dialect::{Dialect, Newline};
pub use input::CsvInput;
pub use options::{SPEC, TSV_SPEC, apply_defaults};
pub use output::{CsvOutput, flattens};
pub use transcode::{TextEncoding, Transcoder, detect_encoding};
