//! Lines to columns: strings are views into the chunk, numbers are never bent.

use super::columns::Column;
use super::input::{ColumnKind, ExtraKeys, Layout, ONE_OBJECT_A_LINE, Slot};
use super::json::{Cursor, JsonError, JsonKind, JsonReason, unescape};
use super::lines::is_blank;
use crate::simd::TextBuffer;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use haul_model::{Decoder, Emit, Error, ErrorKind, Origin, Raw, Rejects, Result, Rows};
use std::sync::Arc;

/// Input bytes of one batch.
const BATCH_BYTES: usize = 1 << 20;

/// Decodes chunks of lines. One per worker; keeps nothing between chunks but memory.
pub(super) struct JsonlDecoder {
    layout: Arc<Layout>,
    columns: Vec<Column>,
    rows: usize,
    scratch: Vec<u8>,
}

/// What is wrong with a record.
struct Fault {
    /// Where in the record.
    offset: usize,
    what: What,
}

enum What {
    Json(JsonReason),
    NoObject(JsonKind),
    ExtraKey(String),
    DuplicateKey(usize),
    Value { column: usize, found: &'static str },
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Self {
        Self { offset: error.offset, what: What::Json(error.reason) }
    }
}

impl Decoder for JsonlDecoder {
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        if u32::try_from(raw.bytes.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, "a record of 4 GiB or more").line(raw.first_line).byte(raw.first_byte));
        }
        let (bytes, text, bad_lines) = readable(&raw);
        let data = bytes.as_ref();
        let mut span = Span::default();
        let (mut at, mut bad) = (0, bad_lines.iter().peekable());
        while at < data.len() {
            let end = memchr::memchr(b'\n', &data[at..]).map_or(data.len(), |feed| at + feed + 1);
            if is_blank(&raw.bytes[at..end]) {
                at = end;
                continue;
            }
            span.starts.push(at as u32);
            let result = match bad.next_if(|(start, _)| *start == at) {
                Some((start, offset)) => Err(Fault { offset: offset - start, what: What::Json(JsonReason::Utf8) }),
                None => self.row(data, at, end, rejects)?,
            };
            match result {
                Ok(()) => span.kept.push((span.starts.len() - 1) as u32),
                Err(fault) => {
                    self.columns.iter_mut().for_each(|c| c.truncate(self.rows));
                    let error = self.explain(fault, &raw, at, span.first + span.starts.len() as u64 - 1);
                    rejects.record(&raw.bytes[at..end], error)?;
                }
            }
            at = end;
            if at - span.from >= BATCH_BYTES {
                self.emit(&raw, &text, &mut span, at, rejects, emit)?;
            }
        }
        self.emit(&raw, &text, &mut span, at, rejects, emit)
    }
}

/// The records of the batch being built.
#[derive(Default)]
struct Span {
    /// Where it begins in the chunk.
    from: usize,
    /// Records before it in the chunk.
    first: u64,
    starts: Vec<u32>,
    /// Records that became rows.
    kept: Vec<u32>,
}

/// The chunk as text. Lines that are not UTF-8 are blanked out in a copy; their starts and the bad bytes' places come with it.
fn readable(raw: &Raw) -> (Bytes, TextBuffer, Vec<(usize, usize)>) {
    if let Ok(text) = TextBuffer::new(raw.bytes.clone()) {
        return (raw.bytes.clone(), text, Vec::new());
    }
    let mut copy = raw.bytes.to_vec();
    let (mut bad, mut at) = (Vec::new(), 0);
    for line in raw.bytes.split_inclusive(|b| *b == b'\n') {
        if let Err(error) = simdutf8::compat::from_utf8(line) {
            bad.push((at, at + error.valid_up_to()));
            copy[at..at + line.len()].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        at += line.len();
    }
    let copy = Bytes::from(copy);
    let text = TextBuffer::new(copy.clone()).expect("every line that is not UTF-8 was blanked out");
    (copy, text, bad)
}

impl JsonlDecoder {
    pub(super) fn new(layout: Arc<Layout>) -> Self {
        let columns = layout.kinds.iter().map(|kind| Column::new(*kind)).collect();
        Self { layout, columns, rows: 0, scratch: Vec::new() }
    }

    /// Decodes the record `data[start..end]`. The outer error stops the job.
    #[inline]
    fn row(&mut self, data: &[u8], start: usize, end: usize, rejects: &mut dyn Rejects) -> Result<Result<(), Fault>> {
        let mut left_out = Vec::new();
        let result = self.object(data, start, end, &mut left_out);
        if result.is_ok() {
            self.rows += 1;
            let rows = self.rows;
            self.columns.iter_mut().for_each(|c| c.fill(rows));
            for key in left_out {
                rejects.lossy(&key, 1);
            }
        }
        Ok(result)
    }

    #[inline]
    fn object(&mut self, data: &[u8], start: usize, end: usize, left_out: &mut Vec<String>) -> Result<(), Fault> {
        let line = &data[start..end];
        let mut cursor = Cursor::new(line);
        cursor.skip_space();
        if cursor.peek() != Some(b'{') {
            let offset = cursor.at();
            let kind = cursor.value()?;
            return Err(Fault { offset, what: What::NoObject(kind) });
        }
        cursor.expect(b'{')?;
        cursor.skip_space();
        let mut expected = 0;
        let mut more = cursor.peek() != Some(b'}');
        while more {
            let key = cursor.at();
            let escaped = cursor.string()?;
            let slot = self.slot(&line[key + 1..cursor.at() - 1], escaped, key, &mut expected)?;
            cursor.skip_space();
            cursor.expect(b':')?;
            cursor.skip_space();
            let value = cursor.at();
            let kind = cursor.value()?;
            match slot {
                Ok(Slot::Column(column)) => self.value(column, kind, data, (start, value, cursor.at()), key)?,
                Ok(Slot::Unwanted) => {}
                Err(name) => left_out.push(name),
            }
            cursor.skip_space();
            more = cursor.peek() == Some(b',');
            if more {
                cursor.expect(b',')?;
                cursor.skip_space();
            }
        }
        cursor.expect(b'}')?;
        cursor.skip_space();
        if cursor.at() < line.len() {
            return Err(cursor.error(JsonReason::Trailing).into());
        }
        Ok(())
    }

    /// Where the value of a key goes; `Err(name)` for one that is left out and counted.
    #[inline(always)]
    fn slot(&mut self, raw: &[u8], escaped: bool, offset: usize, expected: &mut usize) -> Result<Result<Slot, String>, Fault> {
        if let Some((key, slot)) = self.layout.order.get(*expected)
            && !escaped
            && key == raw
        {
            *expected += 1;
            return Ok(Ok(*slot));
        }
        self.search(raw, escaped, offset, expected)
    }

    fn search(&mut self, raw: &[u8], escaped: bool, offset: usize, expected: &mut usize) -> Result<Result<Slot, String>, Fault> {
        let mut key = raw;
        if escaped {
            self.scratch.clear();
            unescape(raw, &mut self.scratch).map_err(|e| JsonError { offset: offset + 1 + e.offset, ..e })?;
            key = &self.scratch;
        }
        if let Some(place) = self.layout.lookup.get(key) {
            *expected = place + 1;
            return Ok(Ok(self.layout.order[*place].1));
        }
        let name = || String::from_utf8_lossy(key).into_owned();
        match self.layout.extra_keys {
            ExtraKeys::Unwanted => Ok(Ok(Slot::Unwanted)),
            ExtraKeys::Ignore => Ok(Err(name())),
            ExtraKeys::Error => Err(Fault { offset, what: What::ExtraKey(name()) }),
        }
    }

    /// Stores a value: it stands at `from..to` of the record that begins at `start` of the chunk.
    #[inline(always)]
    fn value(
        &mut self,
        number: usize,
        kind: JsonKind,
        data: &[u8],
        (start, from, to): (usize, usize, usize),
        key: usize,
    ) -> Result<(), Fault> {
        let column = &mut self.columns[number];
        if column.len() > self.rows {
            if !self.layout.last_wins {
                return Err(Fault { offset: key, what: What::DuplicateKey(number) });
            }
            column.truncate(self.rows);
        }
        let (begin, end) = (start + from, start + to);
        match (self.layout.kinds[number], kind) {
            (ColumnKind::Json, _) => column.push_view(data, begin, end),
            (_, JsonKind::Null) => column.push_null(),
            (ColumnKind::Text | ColumnKind::AnyText, JsonKind::String { escaped: false }) => column.push_view(data, begin + 1, end - 1),
            (ColumnKind::Text | ColumnKind::AnyText, JsonKind::String { escaped: true }) => {
                self.scratch.clear();
                unescape(&data[begin + 1..end - 1], &mut self.scratch).map_err(|e| JsonError { offset: from + 1 + e.offset, ..e })?;
                if !column.push_side(&self.scratch) {
                    return Err(Fault { offset: from, what: What::Value { column: number, found: "too much escaped text in one chunk" } });
                }
            }
            (ColumnKind::AnyText, _) => column.push_view(data, begin, end),
            (ColumnKind::Boolean, JsonKind::Bool(value)) => column.push_bool(value),
            (ColumnKind::Integer, JsonKind::Integer) => match super::input::integer(&data[begin..end]) {
                Some(value) => column.push_integer(value),
                None => {
                    let found = if &data[begin..end] == b"-0" { "minus zero" } else { "a whole number past 64 bits" };
                    return Err(Fault { offset: from, what: What::Value { column: number, found } });
                }
            },
            (_, kind) => return Err(Fault { offset: from, what: What::Value { column: number, found: kind.describe() } }),
        }
        Ok(())
    }

    /// Hands the rows so far over as a batch; the chunk was read up to `at`.
    fn emit(
        &mut self,
        raw: &Raw,
        text: &TextBuffer,
        span: &mut Span,
        at: usize,
        rejects: &mut dyn Rejects,
        emit: &mut Emit<'_>,
    ) -> Result<()> {
        let records = span.starts.len() as u64;
        let next = Span { from: at, first: span.first + records, ..Span::default() };
        let Span { first, mut starts, kept, .. } = std::mem::replace(span, next);
        if self.rows == 0 {
            return Ok(());
        }
        let arrays = self.columns.iter_mut().map(|c| c.finish(text)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        let batch = RecordBatch::try_new_with_options(self.layout.schema.clone(), arrays, &options)
            .map_err(|e| Error::internal(format!("decoded columns do not fit together: {e}")))?;
        starts.push(at as u32);
        let mut rows = Rows::with_origin(batch, Origin { raw: raw.clone(), starts, first_record: first });
        if (kept.len() as u64) < records {
            rows.selection = Some(Arc::new(kept));
        }
        emit(rows, rejects)
    }

    #[cold]
    fn explain(&self, fault: Fault, raw: &Raw, start: usize, record: u64) -> Error {
        let column = |number: usize| self.layout.schema.field(number).name();
        let data = |detail: String| Error::new(ErrorKind::Data, detail);
        let mut error = match fault.what {
            What::Json(reason) => data(format!("the line is not JSON: {}", JsonError { offset: fault.offset, reason })),
            What::NoObject(kind) => data(format!("the line is {}, not an object", kind.describe())),
            What::ExtraKey(name) => data("the key is not in the first lines of the input, so it is no column".to_string())
                .column(name)
                .hint("extra_keys=ignore leaves such keys out (counted); columns=a,b,c names all keys that are wanted, seen or not"),
            What::DuplicateKey(number) => data("the key stands twice in one object".to_string())
                .column(column(number))
                .hint("duplicate_keys=last takes the last of them"),
            What::Value { column: number, found } => {
                let kind = self.layout.kinds[number];
                data(format!("{found} in a column of {} (so the first lines of the input say)", kind.describe()))
                    .column(column(number))
                    .hint("types=json keeps every value as it is written; types=strings makes text of all")
            }
        };
        if raw.bytes[start..].trim_ascii_start().starts_with(b"[") {
            error = error.hint(ONE_OBJECT_A_LINE);
        }
        if raw.first_line > 0 {
            error = error.line(raw.first_line + memchr::memchr_iter(b'\n', &raw.bytes[..start]).count() as u64);
        }
        if let Some(object) = &raw.object {
            error = error.object(object.as_ref());
        }
        error.row_in_chunk(record).byte(raw.first_byte + (start + fault.offset) as u64)
    }
}
