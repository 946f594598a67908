//! Reads one input of records: bytes in, whole records out.
//!
//! The reader runs under the lane's lock, so it only reads, (where it must) inflates and transcodes, and frames. A chunk's
//! buffer is handed on as it is; only the started record at its end is copied to the next buffer.

use super::input::ByteStream;
use bytes::Bytes;
use haul_formats::Framer;
use haul_model::{Batch, Error, ErrorKind, Next, Payload, Position, Raw, Reader, Result, Span};
use std::sync::Arc;

/// Bytes read at a time: a chunk and what is made of it stay in a core's L2 cache.
pub const CHUNK: usize = 256 << 10;

/// A [`Reader`] over a byte stream of records.
pub struct RecordReader {
    stream: ByteStream,
    framer: Box<dyn Framer>,
    /// Read, not yet cut.
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that the framer has seen without finding a whole record.
    seen: usize,
    /// Offset of `buffer[0]` in the decoded input.
    offset: u64,
    line: u64,
    ended: bool,
    object: Arc<str>,
    split: u32,
    max_row: u64,
    position: Position,
}

impl RecordReader {
    /// A reader that starts behind the prolog: `stream` is at offset `offset`, line `line`.
    pub fn new(
        stream: ByteStream,
        framer: Box<dyn Framer>,
        object: Arc<str>,
        split: u32,
        (offset, line): (u64, u64),
        max_row: u64,
    ) -> Self {
        Self {
            stream,
            framer,
            buffer: Vec::new(),
            seen: 0,
            offset,
            line,
            ended: false,
            object,
            split,
            max_row,
            position: Position::start(),
        }
    }

    /// Reads more into the free room of the buffer; `false` at the end of the input.
    fn fill(&mut self) -> Result<bool> {
        let got = self.stream.read_into(&mut self.buffer).map_err(|e| e.object(self.object.as_ref()))?;
        self.ended |= got == 0;
        Ok(got > 0)
    }

    fn emit(&mut self, length: usize, records: Option<u64>, lines: u64) -> Batch {
        let mut next = Vec::with_capacity(CHUNK.max(self.buffer.len() - length + CHUNK / 2));
        next.extend_from_slice(&self.buffer[length..]);
        self.buffer.truncate(length);
        let bytes = Bytes::from(std::mem::replace(&mut self.buffer, next));
        let raw = Raw { bytes, records, first_line: self.line, first_byte: self.offset, object: Some(self.object.clone()), offsets: None };
        self.seen = 0;
        self.line += lines;
        self.offset += length as u64;
        let to = Position::number(self.offset);
        let span = Span { split: self.split, from: std::mem::replace(&mut self.position, to.clone()), to };
        Batch { spans: vec![span], payload: Payload::Raw(raw) }
    }
}

impl Reader for RecordReader {
    fn next(&mut self) -> Result<Next> {
        if self.buffer.capacity() - self.buffer.len() < CHUNK / 4 {
            self.buffer.reserve_exact(CHUNK);
        }
        loop {
            while !self.ended && self.buffer.len() < self.buffer.capacity() && self.fill()? {
                if !self.stream.fills_whole_chunks() {
                    break;
                }
            }
            if self.ended && self.buffer.is_empty() {
                return Ok(Next::End);
            }
            let cut = self.framer.cut(&self.buffer, self.seen, self.ended).map_err(|e| e.object(self.object.as_ref()))?;
            match cut {
                Some(cut) => return Ok(Next::Batch(self.emit(cut.bytes, cut.records, cut.lines))),
                None if self.ended => return Ok(Next::End),
                None => {
                    self.seen = self.buffer.len();
                    if self.seen as u64 > self.max_row {
                        return Err(self.too_long());
                    }
                    // Doubled, but not far past the longest record allowed.
                    let most = (self.max_row as usize).saturating_add(CHUNK) - self.buffer.len();
                    self.buffer.reserve_exact(self.buffer.len().max(CHUNK).min(most));
                }
            }
        }
    }
}

impl RecordReader {
    fn too_long(&self) -> Error {
        too_long(self.max_row, &self.object, self.line, self.offset)
    }
}

/// A record that goes past `--max-row-bytes`.
pub(super) fn too_long(max_row: u64, object: &str, line: u64, byte: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("a record longer than {max_row} bytes starts here"))
        .object(object)
        .line(line)
        .byte(byte)
        .hint("if it is meant to be that long, raise --max-row-bytes; else look for a quote that is never closed")
}

/// Hands out the pieces of a container, in order.
pub struct PieceReader {
    pieces: std::vec::IntoIter<(u32, u64)>,
    object: Arc<str>,
    split: u32,
    rows: u64,
    position: Position,
}

impl PieceReader {
    /// A reader over (piece number, rows).
    pub fn new(pieces: Vec<(u32, u64)>, object: Arc<str>, split: u32) -> Self {
        Self { pieces: pieces.into_iter(), object, split, rows: 0, position: Position::start() }
    }
}

impl Reader for PieceReader {
    fn next(&mut self) -> Result<Next> {
        let Some((number, rows)) = self.pieces.find(|(_, rows)| *rows > 0) else { return Ok(Next::End) };
        self.rows += rows;
        let to = Position::number(self.rows);
        let span = Span { split: self.split, from: std::mem::replace(&mut self.position, to.clone()), to };
        let raw = Raw {
            bytes: haul_formats::piece_token(number),
            records: Some(rows),
            first_line: 0,
            first_byte: 0,
            object: Some(self.object.clone()),
            offsets: None,
        };
        Ok(Next::Batch(Batch { spans: vec![span], payload: Payload::Raw(raw) }))
    }
}
