//! Rows of one exact size: `{"id":N,"payload":"xxx"}` as JSON has `bytes` bytes, whatever the digits of `id`.

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Bytes of the JSON row without the digits of `id` and the payload.
const FRAME: usize = r#"{"id":,"payload":""}"#.len();
/// Largest row.
const MAX_BYTES: u64 = 64 << 20;

/// The columns.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("payload", DataType::Utf8View, false)]))
}

/// Checks that rows of `bytes` bytes can hold the ids up to `rows`.
///
/// # Errors
/// `Config`, naming the smallest size.
pub fn check(bytes: u64, rows: u64) -> Result<()> {
    let least = FRAME as u64 + u64::from(rows.max(1).ilog10()) + 1;
    if bytes < least {
        return Err(Error::new(ErrorKind::Config, format!("{rows} rows of {bytes} bytes cannot hold their ids"))
            .hint(format!("the smallest row is {least} bytes")));
    }
    if bytes > MAX_BYTES {
        return Err(Error::new(ErrorKind::Config, format!("rows of {bytes} bytes are past the largest, {MAX_BYTES}")));
    }
    Ok(())
}

/// A chunk that stands for rows `first + 1 ..= first + rows`.
pub fn pack(first: u64, rows: u32) -> Vec<u8> {
    [&first.to_le_bytes()[..], &rows.to_le_bytes()].concat()
}

/// The columns of a chunk made by [`pack`]. All payloads are views of one buffer.
///
/// # Errors
/// `Internal`: bytes that no `pack` made.
pub fn columns(chunk: &[u8], bytes: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let broken = || Error::internal("a chunk of padded rows that is cut off");
    let (first, rows) = chunk.split_first_chunk::<8>().ok_or_else(broken)?;
    let (first, rows) = (u64::from_le_bytes(*first) + 1, u32::from_le_bytes(rows.try_into().map_err(|_| broken())?));
    let mut payload = StringViewBuilder::with_capacity(rows as usize);
    let block = payload.append_block(Buffer::from_vec(vec![b'x'; bytes]));
    for id in first..first + u64::from(rows) {
        let length = bytes - FRAME - 1 - id.ilog10() as usize;
        payload.try_append_view(block, 0, length as u32).map_err(|_| broken())?;
    }
    let ids = Int64Array::from_iter_values((first..first + u64::from(rows)).map(|id| id as i64));
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(payload.finish())];
    RecordBatch::try_new(schema.clone(), columns).map_err(|e| Error::internal("padded rows do not fit their schema").caused_by(e))
}
