//! What flows: raw records cut at record boundaries, or Arrow columns.

use crate::Span;
use arrow_array::RecordBatch;
use bytes::Bytes;

/// One unit of flow: the spans that it covers and their records.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Spans covered, in order. The batch is durable when all its rows are.
    pub spans: Vec<Span>,
    /// The records.
    pub payload: Payload,
}

/// Records, raw or in columns.
#[derive(Debug, Clone)]
pub enum Payload {
    /// Encoded records, cut at record boundaries.
    Raw(Raw),
    /// Arrow columns.
    Columns(RecordBatch),
}

/// Encoded records, cut at record boundaries, with where they came from.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    /// The records, back to back, terminators and frame headers included.
    pub bytes: Bytes,
    /// Number of records, where the framer knows it. Under pass-through without it, the writer counts them into its block.
    pub records: Option<u64>,
    /// Physical line of the first byte, from 1 (0 where lines mean nothing).
    pub first_line: u64,
    /// Offset of the first byte in the (decompressed, transcoded) input.
    pub first_byte: u64,
    /// Name of the file or table they came from, when the source has several.
    pub object: Option<std::sync::Arc<str>>,
    /// The number by which the source itself knows each record (an offset in a log), where lines mean nothing.
    pub offsets: Option<std::sync::Arc<[u64]>>,
}

/// Where the rows of a batch came from, so that an error far down the road can still name line and
/// record. Kept per chunk, resolved only when an error is built: the happy path pays one offset a row.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The chunk that the rows were decoded from.
    pub raw: Raw,
    /// Start of record `i` in `raw.bytes`; one more entry than records.
    pub starts: Vec<u32>,
    /// Index of the first of these records among the chunk's records (a chunk may give several batches).
    pub first_record: u64,
}

/// A batch of rows in columns, and where they came from.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns.
    pub batch: RecordBatch,
    /// Where the rows came from; `None` where the source has only row numbers.
    pub origin: Option<std::sync::Arc<Origin>>,
    /// Index of the first row among the chunk's records, for sources without an `origin`.
    pub first_record: u64,
    /// For row `i` of the batch, its record in `origin` (or in the chunk); `None` = the same index.
    pub selection: Option<std::sync::Arc<Vec<u32>>>,
}

impl Rows {
    /// Rows without an origin, starting at record `first_record` of their chunk.
    pub fn new(batch: RecordBatch, first_record: u64) -> Self {
        Self { batch, origin: None, first_record, selection: None }
    }

    /// Rows with their origin.
    pub fn with_origin(batch: RecordBatch, origin: Origin) -> Self {
        let first_record = origin.first_record;
        Self { batch, origin: Some(std::sync::Arc::new(origin)), first_record, selection: None }
    }

    /// `length` rows from `offset`, with their places.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        let selection = (offset..offset + length).map(|row| self.record_of(row) as u32).collect();
        Self {
            batch: self.batch.slice(offset, length),
            origin: self.origin.clone(),
            first_record: self.first_record,
            selection: Some(std::sync::Arc::new(selection)),
        }
    }

    /// The record (index inside this batch's origin) that row `row` was made from.
    pub fn record_of(&self, row: usize) -> usize {
        self.selection.as_ref().map_or(row, |s| s[row] as usize)
    }

    /// The raw record that row `row` was made from.
    pub fn raw_record(&self, row: usize) -> Option<&[u8]> {
        let origin = self.origin.as_ref()?;
        let record = self.record_of(row);
        let (from, to) = (*origin.starts.get(record)?, *origin.starts.get(record + 1)?);
        origin.raw.bytes.get(from as usize..to as usize)
    }

    /// Adds line, byte, object and record number of row `row` to an error.
    pub fn locate(&self, row: usize, error: crate::Error) -> crate::Error {
        let record = self.record_of(row);
        let mut error = error.row_in_chunk(self.first_record + record as u64);
        if let Some(origin) = &self.origin
            && let Some(&start) = origin.starts.get(record)
        {
            let before = &origin.raw.bytes[..start as usize];
            if origin.raw.first_line > 0 {
                error = error.line(origin.raw.first_line + before.iter().filter(|b| **b == b'\n').count() as u64);
            }
            if let Some(offset) = origin.raw.offsets.as_ref().and_then(|offsets| offsets.get(self.first_record as usize + record)) {
                error = error.offset(*offset);
            }
            if let Some(object) = &origin.raw.object {
                error = error.object(object.as_ref());
            }
        }
        error
    }
}
