//! Sans-IO codecs: CSV, JSON Lines, Parquet, Arrow IPC, XLSX, and the compressions around them.
//!
//! A *record format* (CSV, JSONL) is a byte stream of records. Its [`Framer`] runs in the reader's short lock
//! and finds record boundaries; its `Decoder` runs on a worker and makes columns of one framed chunk. A
//! *container* (Parquet, Arrow IPC file) is read piece by piece through [`ReadAt`]: its pieces (row groups,
//! record batches) are handed out as tokens and decoded on the workers.
//! On output every format gives encoders; a container also gives an [`Assembler`] that puts finished
//! pieces into the file in order.

pub mod arrow_ipc;
pub mod compression;
pub mod csv;
pub mod jsonl;
pub mod literal;
pub mod parquet;
pub mod predicate;
mod simd;
pub mod xlsx;

pub use simd::checked_string_views;

use arrow_schema::SchemaRef;
use haul_model::{Decoder, Encoder, Encoding, Form, Note, Result, Setting};
use std::sync::Arc;

/// The reference of a format.
pub struct FormatSpec {
    /// `csv`.
    pub name: &'static str,
    /// Other names for `?format=`.
    pub aliases: &'static [&'static str],
    /// File extensions, without the dot and without a compression's.
    pub extensions: &'static [&'static str],
    /// One line.
    pub title: &'static str,
    /// Settings for reading.
    pub read: &'static [Setting],
    /// Settings for writing.
    pub write: &'static [Setting],
    /// Whether it needs random access to be read (a container).
    pub container: bool,
}

/// Every format, in the order of the docs.
pub static FORMATS: &[&FormatSpec] = &[&csv::SPEC, &csv::TSV_SPEC, &jsonl::SPEC, &parquet::SPEC, &arrow_ipc::SPEC, &xlsx::SPEC];

/// The format called `name` (or an alias).
pub fn by_name(name: &str) -> Option<&'static FormatSpec> {
    FORMATS.iter().find(|f| f.name.eq_ignore_ascii_case(name) || f.aliases.iter().any(|a| a.eq_ignore_ascii_case(name))).copied()
}

/// The format of a file name, its compression's extension already removed.
pub fn by_extension(file_name: &str) -> Option<&'static FormatSpec> {
    let (_, extension) = file_name.rsplit_once('.')?;
    FORMATS.iter().find(|f| f.extensions.iter().any(|e| e.eq_ignore_ascii_case(extension))).copied()
}

/// Whole records at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Their length in bytes, terminators included.
    pub bytes: usize,
    /// How many, where the framer counts them for free.
    pub records: Option<u64>,
    /// Line breaks (LF) in them, for line numbers.
    pub lines: u64,
}

/// Finds record boundaries. Serial, cheap, sans-IO; the result does not depend on how the input was chunked.
pub trait Framer: Send {
    /// The longest run of whole records at the front of `buffer`. `seen` bytes of it were already there at the
    /// last call, which returned `None`. With `end`, no more input follows: everything is cut, also a last record
    /// without terminator.
    ///
    /// Returns `None` when not even one record is complete (never with `end`, unless `buffer` is empty).
    ///
    /// # Errors
    /// The input cannot be framed (a quote that is never closed: line where it opened).
    fn cut(&mut self, buffer: &[u8], seen: usize, end: bool) -> Result<Option<Cut>>;
}

/// A record format, configured for reading one input.
pub trait RecordInput: Send + Sync {
    /// Bytes at the start of the (decompressed, transcoded) input that are not records: BOM, header, skipped lines.
    fn prolog(&self) -> Prolog;
    /// Columns as its decoder emits them.
    fn schema(&self) -> SchemaRef;
    /// The encoding for pass-through, `None` if bytes may not be passed on as they are.
    fn encoding(&self) -> Option<Encoding>;
    /// A framer for one input.
    fn framer(&self) -> Box<dyn Framer>;
    /// A decoder, one per worker.
    fn decoder(&self) -> Box<dyn Decoder>;
    /// Remarks for the plan.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

/// What stands before the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prolog {
    /// Bytes to skip.
    pub bytes: usize,
    /// Line breaks in them.
    pub lines: u64,
}

/// Random access to a file or object. Short reads are errors.
pub trait ReadAt: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Whether it is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads exactly `length` bytes at `offset`.
    ///
    /// # Errors
    /// IO, or the end of the file.
    fn read_at(&self, offset: u64, length: usize) -> Result<bytes::Bytes>;
    /// Reads several ranges together, in the order asked for; `None` where that is no better than one after another.
    ///
    /// # Errors
    /// As [`ReadAt::read_at`].
    fn read_ranges(&self, ranges: &[std::ops::Range<u64>]) -> Result<Option<Vec<bytes::Bytes>>> {
        let _ = ranges;
        Ok(None)
    }
}

/// A container, opened for reading. Its pieces are numbered from 0; a decoder gets a piece's number as a
/// `Raw` whose bytes are [`piece_token`], reads the piece itself and emits batches of at most about 1 MiB.
pub trait ContainerInput: Send + Sync {
    /// Columns as its decoder emits them.
    fn schema(&self) -> SchemaRef;
    /// Rows of each piece.
    fn pieces(&self) -> Vec<u64>;
    /// A decoder, one per worker.
    ///
    /// # Errors
    /// The format's own.
    fn decoder(&self) -> Result<Box<dyn Decoder>>;
    /// Records of the file before a piece, where its decoder numbers them from the start of the file. Such a piece is a split of its own.
    fn records_before(&self, _piece: u32) -> Option<u64> {
        None
    }
    /// Pieces with rows that were left out because none of them can be wanted.
    fn skipped(&self) -> u64 {
        0
    }
    /// Remarks for the plan.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

/// The bytes of a `Raw` that stands for piece `number`.
pub fn piece_token(number: u32) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&number.to_le_bytes())
}

/// The piece that a token stands for.
pub fn token_piece(token: &[u8]) -> Option<u32> {
    token.try_into().ok().map(u32::from_le_bytes)
}

/// A format, configured for writing one file with known columns.
pub trait Output: Send + Sync {
    /// Bytes before the first record (CSV header).
    fn prolog(&self) -> Vec<u8> {
        Vec::new()
    }
    /// The encoding in which pass-through bytes are welcome.
    fn encoding(&self) -> Option<Encoding>;
    /// An encoder, one per worker. Record formats make `BlockBody::Bytes`, containers `BlockBody::Opaque`.
    ///
    /// # Errors
    /// A column that the format cannot hold.
    fn encoder(&self) -> Result<Box<dyn Encoder>>;
    /// For containers: what puts finished pieces into the file.
    ///
    /// # Errors
    /// The format's own.
    fn assembler(&self, out: Box<dyn std::io::Write + Send>) -> Result<Option<Box<dyn Assembler>>>;
    /// For containers: input bytes per piece (see `WritePlan::run_bytes`).
    fn run_bytes(&self) -> Option<usize> {
        None
    }
    /// For containers: most rows of one piece. An encoder that has taken so many has one that is finished.
    fn piece_rows(&self) -> Option<usize> {
        None
    }
    /// Counts the records in encoded bytes, independently of the encoder, where that is cheap.
    fn count_records(&self, _bytes: &[u8]) -> Option<u64> {
        None
    }
    /// Column by column: name, the type that the file will have, and remarks.
    fn columns(&self) -> Vec<(String, String, Option<String>)>;
    /// Remarks for the plan.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }
}

/// Puts finished pieces of a container into a file, in order.
pub trait Assembler: Send {
    /// Appends a piece made by the same format's encoder; returns its rows.
    ///
    /// # Errors
    /// IO, or a piece of another format (internal).
    fn add(&mut self, piece: Box<dyn std::any::Any + Send>) -> Result<u64>;
    /// Writes the footer and hands the output back flushed.
    ///
    /// # Errors
    /// IO.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The form in which a format wants values.
pub fn form_of(format: &FormatSpec) -> Form {
    match format.name {
        "csv" | "tsv" => Form::Text,
        "jsonl" => Form::Json,
        _ => Form::Typed,
    }
}

/// Shared configured output.
pub type SharedOutput = Arc<dyn Output>;
