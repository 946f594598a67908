//! COPY BINARY to Arrow columns.
//!
//! A chunk is whole CopyData frames back to back (`d`, i32 length that counts itself, then one tuple: i16 field count, and
//! for each field an i32 length, -1 = NULL, and its bytes). One pass walks frames and fields; text, JSON and bytea become views
//! into the chunk, everything else goes into one vector per column. The stream's header and trailer are skipped where they occur.
//!
//! A chunk gives one batch. A row whose value is refused is taken back from the columns before it, told to `Rejects`, and
//! left out; the rest keeps its record numbers through `Rows::selection`.

use super::array_wire::field;
use super::decode_column::{Column, Refused};
use super::types::ColumnPlan;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::{Schema, SchemaRef};
use haul_model::{Decoder, Emit, Error, ErrorKind, Form, OnLossy, Raw, Rejects, Result, Rows};
use std::sync::Arc;

/// The first bytes of a COPY BINARY stream.
pub const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags and the length of the (empty) header extension: what a COPY BINARY stream starts with.
pub const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Decodes chunks of CopyData frames into batches. One per worker; keeps no state between chunks.
pub struct CopyDecoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    names: Vec<(String, String)>,
    table: String,
    on_lossy: OnLossy,
}

/// A record that did not become a row.
struct LeftOut {
    record: u32,
    frame: std::ops::Range<usize>,
    error: Error,
}

impl CopyDecoder {
    /// A decoder for rows read with `columns` from `table` (its name for messages).
    pub fn new(table: &str, columns: &[ColumnPlan], form: Form, on_lossy: OnLossy) -> Self {
        let schema = Arc::new(Schema::new(columns.iter().map(|c| c.field.clone()).collect::<Vec<_>>()));
        let name = |c: &ColumnPlan| {
            let of = haul_model::field_meta::source_type(&c.field, "postgres").unwrap_or_default();
            (c.field.name().clone(), of.to_string())
        };
        Self {
            schema,
            columns: columns.iter().map(|c| Column::new(&c.read, &c.field, on_lossy, form == Form::Typed)).collect(),
            names: columns.iter().map(name).collect(),
            table: table.to_string(),
            on_lossy,
        }
    }

    /// One pass over the chunk: the rows taken and the records refused. With `careful`, text is checked value by value.
    fn pass(&mut self, bytes: &[u8], careful: bool) -> Result<(usize, Vec<LeftOut>)> {
        let (mut rows, mut record, mut at) = (0, 0u32, 0);
        let mut left_out = Vec::new();
        while at < bytes.len() {
            let end = frame_end(bytes, at).ok_or_else(|| self.broken("a CopyData frame is cut", record))?;
            let body = at + 5;
            let mut pos = body + header_len(&bytes[body..end]);
            while pos < end {
                let Some(count) = bytes[pos..end].first_chunk::<2>().map(|c| i16::from_be_bytes(*c)) else {
                    return Err(self.broken("a tuple is cut", record));
                };
                if count == -1 {
                    break;
                }
                if usize::try_from(count) != Ok(self.columns.len()) {
                    return Err(self.broken(&format!("a tuple has {count} fields, not {}", self.columns.len()), record));
                }
                match self.tuple(bytes, pos + 2, end, careful) {
                    Ok(next) => {
                        rows += 1;
                        pos = next;
                    }
                    Err((column, refused)) => {
                        for done in &mut self.columns[..column] {
                            done.truncate(rows);
                        }
                        let error = self.value_error(column, refused, record);
                        left_out.push(LeftOut { record, frame: at..end, error });
                        pos = end;
                    }
                }
                record += 1;
            }
            at = end;
        }
        Ok((rows, left_out))
    }

    /// Takes one tuple's fields from `pos`; where the next one starts, or the column that refused its value.
    #[inline]
    fn tuple(&mut self, bytes: &[u8], pos: usize, end: usize, careful: bool) -> std::result::Result<usize, (usize, Refused)> {
        let mut pos = pos;
        for (index, column) in self.columns.iter_mut().enumerate() {
            let Some((value, rest)) = field(&bytes[pos..end]) else { return Err((index, Refused::Malformed)) };
            match value {
                None => column.push_null(),
                Some(value) => column.push(bytes, value, pos + 4, careful).map_err(|refused| (index, refused))?,
            }
            pos = end - rest.len();
        }
        Ok(pos)
    }

    fn broken(&self, what: &str, record: u32) -> Error {
        Error::new(ErrorKind::Protocol, format!("the COPY stream is broken: {what}")).object(&self.table).row_in_chunk(u64::from(record))
    }

    fn value_error(&self, column: usize, refused: Refused, record: u32) -> Error {
        let (name, of) = &self.names[column];
        let error = match refused {
            Refused::Malformed => Error::new(ErrorKind::Protocol, format!("the server sent a value that is not the binary form of {of}")),
            Refused::Utf8 => Error::new(ErrorKind::Data, "a text value is not UTF-8")
                .hint("the database holds bytes that its encoding does not allow (SQL_ASCII?): repair the value, or read the column as bytea with --query"),
            Refused::Lossy(what) => {
                let into = self.schema.field(column).data_type();
                Error::new(ErrorKind::Lossy, format!("a value of type {of} cannot be carried exactly: {what} does not fit {}", described(into)))
                    .hint("--on-lossy text carries the server's own text; null and clamp replace such values and count them")
            }
        };
        error.object(&self.table).column(name).row_in_chunk(u64::from(record))
    }
}

fn described(data_type: &arrow_schema::DataType) -> String {
    match data_type {
        arrow_schema::DataType::Utf8View => "JSON".into(),
        arrow_schema::DataType::List(_) => "an Arrow list".into(),
        other => format!("Arrow's {other}"),
    }
}

/// The end of the CopyData frame that starts at `at`; `None` when it is not one or is cut.
#[inline]
pub(super) fn frame_end(bytes: &[u8], at: usize) -> Option<usize> {
    let head: &[u8; 5] = bytes.get(at..at + 5)?.try_into().ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let end = (at + 1).checked_add(length)?;
    (head[0] == b'd' && length >= 4 && end <= bytes.len()).then_some(end)
}

/// Length of the stream header at the start of a frame's body, 0 if there is none.
#[inline]
pub(super) fn header_len(body: &[u8]) -> usize {
    if body.first() != Some(&b'P') || !body.starts_with(SIGNATURE) {
        return 0;
    }
    let extension = body.get(15..19).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
    (19 + extension as usize).min(body.len())
}

impl Decoder for CopyDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let chunk = Buffer::from(raw.bytes.clone());
        let mut careful = false;
        let (rows, arrays, left_out) = loop {
            let (rows, left_out) = match self.pass(&raw.bytes, careful) {
                Ok(done) => done,
                Err(error) => {
                    self.columns.iter_mut().for_each(|c| c.truncate(0));
                    return Err(error);
                }
            };
            let arrays: std::result::Result<Vec<_>, _> = self.columns.iter_mut().map(|c| c.finish(&chunk)).collect();
            match arrays {
                Ok(arrays) => break (rows, arrays, left_out),
                // Text is checked column by column, which is fast but does not say which row: read again with checks at each value.
                Err(Refused::Utf8) if !careful => {
                    self.columns.iter_mut().for_each(|c| {
                        c.truncate(0);
                        c.lossy = 0;
                    });
                    careful = true;
                }
                Err(refused) => {
                    return Err(Error::internal(format!("a decoded column could not be built: {refused:?}")).object(&self.table));
                }
            }
        };
        let mut records = Vec::with_capacity(left_out.len());
        for LeftOut { record, frame, error } in left_out {
            rejects.record(&raw.bytes[frame], error)?;
            records.push(record);
        }
        for (column, (name, _)) in self.columns.iter_mut().zip(&self.names) {
            let lossy = std::mem::take(&mut column.lossy);
            if lossy > 0 && self.on_lossy != OnLossy::Error {
                rejects.lossy(name, lossy);
            }
        }
        if rows == 0 {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| Error::internal(format!("decoded columns do not make a batch: {e}")).object(&self.table))?;
        let mut rows = Rows::new(batch, 0);
        if !records.is_empty() {
            let total = (rows.batch.num_rows() + records.len()) as u32;
            rows.selection = Some(Arc::new((0..total).filter(|r| records.binary_search(r).is_err()).collect()));
        }
        emit(rows, rejects)
    }
}
