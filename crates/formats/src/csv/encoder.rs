//! Columns to records.

use super::dialect::Dialect;
use super::options::{Quoting, WriteOptions};
use crate::jsonl::{NoJson, ValueWriter};
use crate::simd::{BLOCK, bytes_equal, has_any, word_has_any};
use arrow_array::cast::AsArray;
use arrow_array::{Array, LargeStringArray, StringArray, StringViewArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, SchemaRef};
use haul_model::{Block, BlockBody, Encoder, Error, ErrorKind, Rejects, Result, Rows};
use std::sync::Arc;

/// Decides about quotes, and writes them.
pub(crate) struct Quoter {
    dialect: Dialect,
    null: Vec<u8>,
    quoting: Quoting,
    /// Bytes that may not stand unquoted.
    special: [u8; 4],
}

impl Quoter {
    pub(crate) fn new(options: &WriteOptions) -> Self {
        let dialect = options.dialect;
        let special = [dialect.delimiter, dialect.quote.unwrap_or(dialect.delimiter), b'\n', b'\r'];
        Self { dialect, null: options.null.clone(), quoting: options.quoting, special }
    }

    /// Appends a value, quoted if it must be. `first`: it starts its record.
    ///
    /// # Errors
    /// `Data`: it needs quotes and there are none.
    #[inline(always)]
    pub(crate) fn push(&self, value: &[u8], first: bool, out: &mut Vec<u8>) -> Result<()> {
        if self.quoting == Quoting::Minimal && !self.needs_quotes(value, first) {
            out.extend_from_slice(value);
            return Ok(());
        }
        self.push_otherwise(value, first, out)
    }

    /// [`Quoter::push`] for the text of a view that holds it itself.
    #[inline(always)]
    fn push_inline(&self, view: u128, first: bool, out: &mut Vec<u8>) -> Result<()> {
        let length = view as u32 as usize;
        let window = (view >> 32).to_le_bytes();
        let clean = !word_has_any((view >> 32) as u64, &self.special) && !word_has_any((view >> 96) as u64, &self.special);
        if self.quoting == Quoting::Minimal && clean && !self.is_special_word(&window[..length], first) {
            let end = out.len() + length;
            // A whole register, then cut: cheaper than a copy of unknown length.
            out.extend_from_slice(&window);
            out.truncate(end);
            return Ok(());
        }
        self.push(&window[..length], first, out)
    }

    #[inline(always)]
    fn needs_quotes(&self, value: &[u8], first: bool) -> bool {
        self.is_special_word(value, first) || has_any(value, &self.special)
    }

    /// Whether the value as a whole would be read as something else.
    #[inline(always)]
    fn is_special_word(&self, value: &[u8], first: bool) -> bool {
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let ([start, ..], [.., end]) = (value, value) else { return true };
        is_blank(start)
            || is_blank(end)
            || value == b"\\."
            || (!self.null.is_empty() && value == self.null)
            || (first && (self.dialect.comment == Some(*start) || *start == 0xef && value.starts_with(b"\xef\xbb\xbf")))
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self) -> Error {
        Error::new(ErrorKind::Data, "a value that needs quotes, and quoting is off")
            .hint("write with quoting=minimal, or with a delimiter that no value holds")
    }

    fn push_otherwise(&self, value: &[u8], first: bool, out: &mut Vec<u8>) -> Result<()> {
        match self.dialect.quote {
            Some(quote) if self.quoting != Quoting::None => push_quoted(value, quote, out),
            _ if self.needs_quotes(value, first) => return Err(self.refuse()),
            _ => out.extend_from_slice(value),
        }
        Ok(())
    }
}

/// Appends `value` in quotes, its own ones doubled.
fn push_quoted(value: &[u8], quote: u8, out: &mut Vec<u8>) {
    const SLACK: usize = 16;
    let begin = out.len();
    // Room for the worst, and for copies of 16 bytes that reach past their end.
    out.resize(begin + 2 * value.len() + 2 + SLACK, 0);
    let target = &mut out[begin..];
    target[0] = quote;
    let mut at = 1;
    let mut next = 0;
    let mut copy = |from: usize, to: usize| {
        if to - from <= SLACK && from + SLACK <= value.len() {
            let window: [u8; SLACK] = value[from..from + SLACK].try_into().expect("16 bytes");
            target[at..at + SLACK].copy_from_slice(&window);
        } else {
            target[at..at + to - from].copy_from_slice(&value[from..to]);
        }
        at += to - from;
        // Behind a quote this doubles it, behind the end it closes the field.
        target[at] = quote;
        at += 1;
    };
    let mut double = |base: usize, mut quotes: u64| {
        while quotes != 0 {
            let end = base + quotes.trailing_zeros() as usize + 1;
            copy(next, end);
            next = end;
            quotes &= quotes - 1;
        }
    };
    let (blocks, rest) = value.as_chunks::<BLOCK>();
    for (i, block) in blocks.iter().enumerate() {
        double(i * BLOCK, bytes_equal(block, quote));
    }
    if !rest.is_empty() {
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        double(value.len() - rest.len(), bytes_equal(&padded, quote) & (u64::MAX >> (BLOCK - rest.len())));
    }
    copy(next, value.len());
    let length = at;
    out.truncate(begin + length);
}

/// Typed access to one column; made once a batch.
struct Column {
    cells: Cells,
    nulls: Option<NullBuffer>,
}

enum Cells {
    Views(StringViewArray),
    Text(StringArray),
    LargeText(LargeStringArray),
    /// Text that holds nothing special by its type.
    Plain(ValueWriter),
    /// Text that may.
    Checked(ValueWriter),
}

impl Column {
    fn new(array: &dyn Array, field: &Field, clashes: bool) -> Result<Self> {
        let cells = match array.data_type() {
            DataType::Utf8View => Cells::Views(array.as_string_view().clone()),
            DataType::Utf8 => Cells::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Cells::LargeText(array.as_string().clone()),
            other if !clashes && is_plain(other) => Cells::Plain(ValueWriter::new(array, field)?),
            _ => Cells::Checked(ValueWriter::new(array, field)?),
        };
        Ok(Self { cells, nulls: array.logical_nulls() })
    }
}

/// Only nested values are JSON here.
#[cold]
fn no_json(value: NoJson) -> Error {
    Error::new(ErrorKind::Lossy, format!("the number {} inside a nested value has no form in JSON", value.text()))
        .hint("nested values are written as JSON: --cast the column to text, or leave it out")
}

/// Whether the texts of a type hold only letters, digits and `+-.:\`, with nothing before or behind.
fn is_plain(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.is_numeric()
        || data_type.is_temporal()
        || matches!(data_type, T::Boolean | T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_))
}

/// Writes rows as CSV. Made by [`super::CsvOutput`].
pub(crate) struct CsvEncoder {
    options: Arc<WriteOptions>,
    schema: SchemaRef,
    quoter: Quoter,
    /// Numbers and times must be checked like texts.
    clashes: bool,
    out: Vec<u8>,
    rows: u64,
    scratch: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl CsvEncoder {
    pub(crate) fn new(options: Arc<WriteOptions>, schema: SchemaRef) -> Self {
        let dialect = options.dialect;
        let usual = matches!(dialect.delimiter, b',' | b';' | b'\t' | b'|')
            && matches!(dialect.quote, Some(b'"' | b'\''))
            && options.null.is_empty()
            && dialect.comment.is_none()
            && options.quoting == Quoting::Minimal;
        let quoter = Quoter::new(&options);
        Self { options, schema, quoter, clashes: !usual, out: Vec::new(), rows: 0, scratch: Vec::new(), spare: Vec::new() }
    }

    /// Appends one row; on a value that cannot be written, its column and why.
    #[inline(always)]
    fn write_row(&mut self, columns: &[Column], row: usize) -> Result<(), (usize, Error)> {
        let out = &mut self.out;
        for (number, column) in columns.iter().enumerate() {
            if number > 0 {
                out.push(self.options.dialect.delimiter);
            }
            if column.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                out.extend_from_slice(&self.options.null);
                continue;
            }
            let first = number == 0;
            let written = match &column.cells {
                Cells::Views(array) => {
                    let view = array.views()[row];
                    if view as u32 <= 12 {
                        self.quoter.push_inline(view, first, out)
                    } else {
                        self.quoter.push(array.value(row).as_bytes(), first, out)
                    }
                }
                Cells::Text(array) => self.quoter.push(array.value(row).as_bytes(), first, out),
                Cells::LargeText(array) => self.quoter.push(array.value(row).as_bytes(), first, out),
                Cells::Plain(values) => values.write_text(row, out).map_err(no_json),
                Cells::Checked(values) => {
                    self.scratch.clear();
                    let text = values.write_text(row, &mut self.scratch).map_err(no_json);
                    text.and_then(|()| self.quoter.push(&self.scratch, first, out))
                }
            };
            written.map_err(|e| (number, e))?;
        }
        out.extend_from_slice(self.options.terminator());
        Ok(())
    }
}

impl Encoder for CsvEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let schema = self.schema.clone();
        let columns = rows.batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| Column::new(array.as_ref(), field, self.clashes)).collect::<Result<Vec<_>>>()?;
        for row in 0..rows.batch.num_rows() {
            let start = self.out.len();
            match self.write_row(&columns, row) {
                Ok(()) => self.rows += 1,
                Err((column, error)) => {
                    self.out.truncate(start);
                    rejects.row(rows, row, error.column(schema.field(column).name()))?;
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.out.len()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        if self.out.is_empty() {
            return Ok(None);
        }
        let next = self.spare.pop().unwrap_or_default();
        let body = BlockBody::Bytes(std::mem::replace(&mut self.out, next));
        Ok(Some(Block { body, rows: std::mem::take(&mut self.rows) }))
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < 2 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
