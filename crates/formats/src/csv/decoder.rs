//! Framed chunks to string columns.
//!
//! Three steps over a chunk that is warm in the cache: the index (where fields end), the records (each is checked once, those
//! that are no rows are taken out), then the columns one by one. Once the records are checked, making columns
//! cannot fail.

use super::dialect::{Dialect, Fault};
use super::fields::{FieldRule, Table};
use super::index::{Index, Mark};
use crate::simd::TextBuffer;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use haul_model::{Decoder, Emit, Error, ErrorKind, Origin, Raw, Rejects, Result, Rows};
use std::sync::Arc;

/// What to do with records that have too few fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ragged {
    /// A record with another number of fields than the file has columns is an error.
    Error,
    /// A short record is filled up with NULL; a long one is an error.
    Pad,
}

/// What a decoder needs to know; shared by all of one input.
#[derive(Debug)]
pub(crate) struct Layout {
    pub dialect: Dialect,
    pub rule: FieldRule,
    pub ragged: Ragged,
    /// An empty field behind the last column may be missing or there.
    pub drop_trailing: bool,
    /// Columns of the file.
    pub width: usize,
    /// Those that are wanted, in the order wanted.
    pub wanted: Vec<usize>,
    /// The wanted columns.
    pub schema: SchemaRef,
}

/// Decodes chunks of one dialect.
pub(crate) struct CsvDecoder {
    layout: Arc<Layout>,
    index: Index,
    /// For each row, the index of its first field.
    firsts: Vec<u32>,
}

/// The records of a chunk that became rows.
struct Chosen {
    /// Starts of all records that count, and the end of the chunk.
    starts: Vec<u32>,
    /// For each row its record, once they differ.
    selection: Option<Vec<u32>>,
    /// Byte ranges of records that cannot be rows, and of comments, if the chunk is not UTF-8.
    not_utf8: Vec<(usize, usize)>,
}

impl CsvDecoder {
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        Self { layout, index: Index::default(), firsts: Vec::new() }
    }

    /// Picks the records that are rows; reports those that are malformed.
    fn choose(&mut self, raw: &Raw, is_utf8: bool, rejects: &mut dyn Rejects) -> Result<Chosen> {
        let bytes: &[u8] = &raw.bytes;
        let marks = std::mem::take(&mut self.index.marks);
        let mut chosen = Chosen { starts: Vec::with_capacity(marks.len() + 1), selection: None, not_utf8: Vec::new() };
        let mut chunk = Chunk { bytes, is_utf8, careful: self.index.suspect || !is_utf8, place: Placer::new(raw, self.layout.dialect) };
        self.firsts.clear();
        self.firsts.reserve(marks.len());
        let (mut start, mut first) = (0, 0);
        for (n, mark) in marks.iter().enumerate() {
            let terminated = self.index.terminated || n + 1 < marks.len();
            let last = mark.fields as usize - 1;
            let content_end = self.layout.dialect.content_end(bytes, start, self.index.ends[last] as usize, terminated);
            self.index.ends[last] = content_end as u32;
            if mark.fields as usize - first == self.layout.width && !chunk.careful {
                chosen.starts.push(start as u32);
                self.firsts.push(first as u32);
            } else {
                self.choose_carefully(&mut chunk, &Record { start, first, content_end, mark: *mark }, &mut chosen, rejects)?;
            }
            if let Some(selection) = &mut chosen.selection
                && selection.len() < self.firsts.len()
            {
                selection.push(chosen.starts.len() as u32 - 1);
            }
            (start, first) = (mark.next as usize, mark.fields as usize);
        }
        chosen.starts.push(bytes.len() as u32);
        self.index.marks = marks;
        Ok(chosen)
    }

    #[cold]
    fn choose_carefully(&mut self, chunk: &mut Chunk<'_>, record: &Record, chosen: &mut Chosen, rejects: &mut dyn Rejects) -> Result<()> {
        let end = record.mark.next as usize;
        if record.mark.comment && !chunk.is_utf8 {
            // Comments may be in any encoding.
            chosen.not_utf8.push((record.start, end));
        }
        if record.mark.comment || (self.layout.width != 1 && record.content_end == record.start) {
            return Ok(());
        }
        let number = chosen.starts.len();
        chosen.starts.push(record.start as u32);
        let fault = if chunk.is_utf8 { None } else { not_utf8(chunk, record) };
        if fault.is_some() {
            chosen.not_utf8.push((record.start, end));
        }
        let fault = fault.or_else(|| if chunk.careful { self.malformed(chunk, record) } else { None });
        let first = match fault {
            Some(error) => Err(error),
            None => self.fit(chunk, record),
        };
        match first {
            Ok(first) => self.firsts.push(first as u32),
            Err(error) => {
                rejects.record(&chunk.bytes[record.start..end], error.row_in_chunk(number as u64))?;
                chosen.selection.get_or_insert_with(|| (0..number as u32).collect());
            }
        }
        Ok(())
    }

    /// The first field that is malformed.
    fn malformed(&self, chunk: &mut Chunk<'_>, record: &Record) -> Option<Error> {
        let bytes = chunk.bytes;
        let mut from = record.start;
        for (column, &end) in self.index.ends[record.first..record.mark.fields as usize].iter().enumerate() {
            let end = end as usize;
            if let Err(fault) = self.layout.dialect.check_field(&bytes[from..end]) {
                let at = match fault {
                    Fault::LoneCr => from + memchr::memchr(b'\r', &bytes[from..end]).unwrap_or(0),
                    Fault::LoneLf => from + memchr::memchr(b'\n', &bytes[from..end]).unwrap_or(0),
                    _ => from,
                };
                let (what, hint) = fault.text();
                let error = chunk.place.at(at, Error::new(ErrorKind::Data, what).hint(hint));
                let name = self.layout.wanted.iter().position(|w| *w == column).map(|i| self.layout.schema.field(i).name());
                return Some(match name {
                    Some(name) => error.column(name),
                    None => error,
                });
            }
            from = end + 1;
        }
        None
    }

    /// Makes a record fit the width; returns the index of its first field.
    fn fit(&mut self, chunk: &mut Chunk<'_>, record: &Record) -> Result<usize> {
        let bytes = chunk.bytes;
        let width = self.layout.width;
        let count = record.mark.fields as usize - record.first;
        if count == width {
            return Ok(record.first);
        }
        if count == width + 1 && self.layout.drop_trailing {
            let last = record.mark.fields as usize - 1;
            let from = self.index.ends[last - 1] as usize + 1;
            if from == self.index.ends[last] as usize
                || self.layout.dialect.trim && super::dialect::trim_blanks(&bytes[from..record.content_end]).is_empty()
            {
                return Ok(record.first);
            }
        }
        if count < width && self.layout.ragged == Ragged::Pad {
            let first = self.index.fields;
            for i in 0..width {
                // A field that ends before it starts is missing: NULL whatever the rule for empty ones is.
                let end = if i < count { self.index.ends[record.first + i] } else { record.content_end as u32 };
                self.index.append(end);
            }
            return Ok(first);
        }
        let plural = if count == 1 { "" } else { "s" };
        let error = Error::new(ErrorKind::Data, format!("{count} field{plural}, {width} expected"));
        let hint = match self.layout.ragged {
            Ragged::Error if count < width => "ragged=pad fills short records with NULL, --on-error reject sets them aside",
            _ => "quote fields that hold the delimiter, or set such records aside with --on-error reject",
        };
        Err(chunk.place.at(record.start, error.hint(hint)))
    }
}

/// A chunk while its records are chosen.
struct Chunk<'a> {
    bytes: &'a [u8],
    is_utf8: bool,
    /// Each field must be checked.
    careful: bool,
    place: Placer<'a>,
}

/// A record while it is looked at.
struct Record {
    start: usize,
    /// Index of its first field.
    first: usize,
    /// Behind its last field, terminator left out.
    content_end: usize,
    mark: Mark,
}

#[cold]
fn not_utf8(chunk: &mut Chunk<'_>, record: &Record) -> Option<Error> {
    let text = &chunk.bytes[record.start..record.mark.next as usize];
    let bad = std::str::from_utf8(text).err()?.valid_up_to();
    let error = Error::new(ErrorKind::Data, format!("byte 0x{:02x} is not valid UTF-8", text[bad]));
    Some(chunk.place.at(record.start + bad, error.hint("name the file's encoding, for example encoding=windows-1252")))
}

/// Counts lines only when an error asks for one, going forward from the last.
struct Placer<'a> {
    raw: &'a Raw,
    line_break: u8,
    at: usize,
    lines: u64,
}

impl<'a> Placer<'a> {
    fn new(raw: &'a Raw, dialect: Dialect) -> Self {
        let line_break = if dialect.newline == super::dialect::Newline::Cr { b'\r' } else { b'\n' };
        Self { raw, line_break, at: 0, lines: 0 }
    }

    /// Names line, byte and object of the byte at `at`.
    fn at(&mut self, at: usize, error: Error) -> Error {
        if at < self.at {
            (self.at, self.lines) = (0, 0);
        }
        self.lines += memchr::memchr_iter(self.line_break, &self.raw.bytes[self.at..at]).count() as u64;
        self.at = at;
        let mut error = error.byte(self.raw.first_byte + at as u64);
        if self.raw.first_line > 0 {
            error = error.line(self.raw.first_line + self.lines);
        }
        match &self.raw.object {
            Some(object) => error.object(object.as_ref()),
            None => error,
        }
    }
}

impl Decoder for CsvDecoder {
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        self.index.build(&self.layout.dialect, &raw.bytes)?;
        let text = TextBuffer::new(Buffer::from(raw.bytes.clone())).ok();
        let chosen = self.choose(&raw, text.is_some(), rejects)?;
        if self.firsts.is_empty() {
            return Ok(());
        }
        let text = match text {
            Some(text) => text,
            None => without(&raw.bytes, &chosen.not_utf8)?,
        };
        let mut side = Vec::new();
        let table = Table {
            layout: &self.layout,
            index: &self.index,
            bytes: &raw.bytes,
            firsts: &self.firsts,
            starts: &chosen.starts,
            selection: chosen.selection.as_deref(),
        };
        let columns: Vec<_> = self.layout.wanted.iter().map(|&column| table.column(column, &mut side)).collect();
        let mut buffers = vec![text];
        if !side.is_empty() {
            buffers.push(TextBuffer::new(Buffer::from_vec(side)).map_err(|_| Error::internal("unescaping made invalid UTF-8"))?);
        }
        let columns = columns.into_iter().map(|c| Ok(Arc::new(c.finish(&buffers)?) as ArrayRef)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.firsts.len()));
        let batch = RecordBatch::try_new_with_options(self.layout.schema.clone(), columns, &options)
            .map_err(|e| Error::internal(format!("columns of a CSV chunk: {e}")))?;
        let mut rows = Rows::with_origin(batch, Origin { raw, starts: chosen.starts, first_record: 0 });
        rows.selection = chosen.selection.map(Arc::new);
        emit(rows, rejects)
    }
}

/// A copy of the chunk in which the records that are not UTF-8 are spaces: no view points there.
#[cold]
fn without(bytes: &[u8], records: &[(usize, usize)]) -> Result<TextBuffer> {
    let mut copy = bytes.to_vec();
    for &(from, to) in records {
        copy[from..to].fill(b' ');
    }
    TextBuffer::new(Buffer::from_vec(copy)).map_err(|_| Error::internal("a record that is not UTF-8 was not found"))
}
