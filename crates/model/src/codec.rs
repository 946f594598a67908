//! The sans-IO pieces that run on a worker: decoder, transform, encoder.
//!
//! Each worker owns its instances; none is shared, none does IO. All of them work a batch at a time and
//! report a bad row through [`Rejects`], which either stops the job or takes the row out.

use crate::{Error, Raw, Result, Rows};
use arrow_schema::SchemaRef;

/// Who is told of a bad row. An `Err` from either call stops the job and must be passed up at once;
/// `Ok` means: leave this row out and go on.
pub trait Rejects {
    /// Row `row` of `rows` cannot be used because of `error`.
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()>;
    /// A record that never became a row. `error` carries its place.
    fn record(&mut self, record: &[u8], error: Error) -> Result<()>;
    /// A value was replaced under `--on-lossy`; counted for the summary.
    fn lossy(&mut self, column: &str, count: u64);
}

/// [`Rejects`] that stops at the first bad row: the default policy, and the one for tests.
#[derive(Debug, Default)]
pub struct Strict {
    /// Values replaced under `--on-lossy`.
    pub lossy: u64,
}

impl Rejects for Strict {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        Err(rows.locate(row, error))
    }
    fn record(&mut self, _record: &[u8], error: Error) -> Result<()> {
        Err(error)
    }
    fn lossy(&mut self, _column: &str, count: u64) {
        self.lossy += count;
    }
}

/// What a decoder calls for each batch of rows that it made.
pub type Emit<'a> = dyn FnMut(Rows, &mut dyn Rejects) -> Result<()> + 'a;

/// Raw records to columns. One instance per worker; chunks of one split may go to different instances, so
/// a decoder keeps no state between chunks.
pub trait Decoder: Send {
    /// The schema of the rows that it emits.
    fn schema(&self) -> SchemaRef;
    /// Decodes one chunk into one or more batches, in order.
    ///
    /// # Errors
    /// A malformed record or value that `rejects` did not take.
    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()>;
}

/// Columns to columns. Stateless and shared by all workers; keeps row order; may drop rows (`filtered`).
pub trait Transform: Send + Sync {
    /// A short name for the plan: `cast id:bigint`.
    fn describe(&self) -> String;
    /// The schema that comes out for `input`.
    ///
    /// # Errors
    /// A column that is not there, or types that cannot be mapped.
    fn output(&self, input: &SchemaRef) -> Result<SchemaRef>;
    /// Maps one batch.
    ///
    /// # Errors
    /// A value that `rejects` did not take.
    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows>;
}

/// Encoded output of a worker, ready for a writer.
pub struct Block {
    /// The bytes, or something only the sink of the same connector understands.
    pub body: BlockBody,
    /// Rows inside.
    pub rows: u64,
}

/// The content of a [`Block`].
pub enum BlockBody {
    /// Encoded records back to back.
    Bytes(Vec<u8>),
    /// Encoded records, compressed. The sink joins them in order and needs the checksums for what stands at the end.
    Compressed {
        /// As they go into the file.
        bytes: Vec<u8>,
        /// What they were.
        plain: Plain,
    },
    /// A pass-through chunk, as it was read.
    Shared(bytes::Bytes),
    /// A finished structure (a Parquet row group, an Arrow batch).
    Opaque(Box<dyn std::any::Any + Send>),
}

impl BlockBody {
    /// Encoded bytes in it, as far as it consists of such.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) | Self::Compressed { bytes, .. } => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Opaque(_) => 0,
        }
    }
}

/// What a compressed block was before it was compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Plain {
    /// CRC-32 (IEEE) of the bytes; 0 where the compression does not need it.
    pub crc32: u32,
    /// How many bytes.
    pub bytes: u64,
}

/// Columns to bytes. One instance per worker.
pub trait Encoder: Send {
    /// Appends rows to the block being built.
    ///
    /// # Errors
    /// A value that the format cannot hold and `rejects` did not take.
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()>;
    /// Bytes held by the block being built (an estimate for opaque ones): the lane decides when to take it.
    fn pending(&self) -> usize;
    /// Ends the block being built and hands it over; `None` when it is empty. An encoder that builds several blocks at a time hands over
    /// those that are finished first: at the end it is called until there is none.
    ///
    /// # Errors
    /// The format's own (compression, Parquet).
    fn take(&mut self) -> Result<Option<Block>>;
    /// Gives a buffer back for reuse.
    fn recycle(&mut self, _buffer: Vec<u8>) {}
}
