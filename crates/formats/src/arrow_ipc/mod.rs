//! Arrow IPC: the file format (Feather v2) as a container, the stream format for pipes.
//!
//! Reading: [`ArrowInput`] parses the footer once; its pieces are the record batches that hold rows. Strings and bytes
//! come as views over the file's buffers, dictionaries unpacked. [`RecordStream`] reads a stream from a pipe.
//! A file without its footer, or a stream without its end marker, is an error: never fewer rows.
//!
//! Writing: workers gather rows into record batches of about 64k rows, views made plain because many readers do not know
//! them; an assembler writes them in order. Columns' metadata is kept as it is.

mod batches;
pub(crate) mod damage;
pub(crate) mod plain;
mod read;
mod stream;
mod views;
mod write;

#[cfg(test)]
mod tests;

pub use read::ArrowInput;
pub use stream::RecordStream;
pub use write::ArrowOutput;

use crate::FormatSpec;
use arrow_schema::ArrowError;
use haul_model::{Error, ErrorKind, Kind, Setting};

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "arrow",
    aliases: &["ipc", "feather"],
    extensions: &["arrow", "feather", "ipc"],
    title: "Arrow IPC file (Feather v2)",
    read: READ,
    write: WRITE,
    container: true,
};

const READ: &[Setting] = &[Setting::new("columns", Kind::List, "", "Read only these columns, in this order.")];

const WRITE: &[Setting] = &[
    Setting::new("compression", Kind::Choice(&["none", "lz4", "zstd"]), "none", "How buffers are compressed."),
    Setting::new("batch_rows", Kind::Int, "65536", "Most rows in a record batch."),
    Setting::new("views", Kind::Bool, "false", "Write strings and bytes as views, for readers that know them."),
];

/// An error of the Arrow library in Haul's words; errors of our own that travelled through it come out whole.
fn from_arrow(what: &str, error: ArrowError) -> Error {
    let text = match error {
        ArrowError::IoError(_, error) => match error.downcast::<Error>() {
            Ok(ours) => return ours,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "it ends early".to_string(),
            Err(error) => return Error::io("the Arrow file", what, error),
        },
        error => error.to_string(),
    };
    let text = text.split_once(": ").map_or(text.as_str(), |(_, detail)| detail).trim_end_matches('.');
    Error::new(ErrorKind::Data, format!("{what}: {text}"))
}
