//! The index of a chunk: where its fields and records end.

use super::dialect::Dialect;
use super::scan::{Block, State, scan};
use haul_model::{Error, ErrorKind, Result};

/// One record of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Fields of the chunk up to and including this record.
    pub fields: u32,
    /// Where the next record starts.
    pub next: u32,
    /// It is a comment.
    pub comment: bool,
}

/// Positions of all fields and records; buffers are kept from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// For each field, the position of the byte that ends it (the length of the chunk for a last one without terminator).
    /// Only the first `fields` entries count.
    pub ends: Vec<u32>,
    /// Number of fields.
    pub fields: usize,
    /// The records, comments and blank lines included.
    pub marks: Vec<Mark>,
    /// One bit per byte of the chunk: closing quotes, the first of each doubled pair included; one word is spare. Empty if
    /// the dialect was scanned byte by byte.
    pub closes: Vec<u64>,
    /// Fields may be malformed: each one must be checked.
    pub suspect: bool,
    /// Whether the last record ends with a terminator.
    pub terminated: bool,
    /// The last record ends inside quotes.
    pub open: bool,
}

impl Index {
    /// Indexes `bytes`, which start at a record.
    ///
    /// # Errors
    /// `Limit` for 2 GiB and more.
    pub(crate) fn build(&mut self, dialect: &Dialect, bytes: &[u8]) -> Result<()> {
        if i32::try_from(bytes.len()).is_err() {
            return Err(Error::new(ErrorKind::Limit, "a chunk of 2 GiB or more").hint("lower --max-row-bytes"));
        }
        self.marks.clear();
        self.closes.clear();
        let mut suspect = false;
        let mut fields = 0;
        let state = scan(dialect, bytes, 0, State::Record, |base, block| {
            suspect |= block.suspect;
            if !dialect.is_bytewise() {
                self.closes.push(block.closes);
            }
            if self.ends.len() < fields + 64 {
                self.ends.resize((self.ends.len() * 2).max(4096), 0);
            }
            mark_records(&mut self.marks, base, block, fields);
            fields += spread(&mut self.ends[fields..fields + 64], base, block.ends);
        });
        self.closes.push(0);
        let last = self.marks.last().map_or(0, |m| m.next as usize);
        self.terminated = last == bytes.len();
        if !self.terminated {
            if self.ends.len() == fields {
                self.ends.push(0);
            }
            self.ends[fields] = bytes.len() as u32;
            fields += 1;
            self.marks.push(Mark { fields: fields as u32, next: bytes.len() as u32, comment: state == State::Comment });
        }
        if dialect.is_bytewise() {
            self.closes.clear();
        }
        self.fields = fields;
        self.open = matches!(state, State::Quoted | State::Escape);
        self.suspect = suspect | self.open | dialect.trim;
        Ok(())
    }

    /// Adds a field to the index behind all others (for records that are mended); returns its number.
    pub(crate) fn append(&mut self, end: u32) -> usize {
        if self.ends.len() == self.fields {
            self.ends.push(end);
        } else {
            self.ends[self.fields] = end;
        }
        self.fields += 1;
        self.fields - 1
    }
}

/// Writes the positions of the bits of `bits` to the front of `out` (64 entries); returns how many.
#[inline(always)]
fn spread(out: &mut [u32], base: usize, mut bits: u64) -> usize {
    let count = bits.count_ones() as usize;
    let out: &mut [u32; 64] = out.try_into().expect("room for one block");
    let base = base as u32;
    // Eight at a time without looking whether they are there: what is too much is written over.
    for eight in out.as_chunks_mut::<8>().0 {
        for slot in eight {
            *slot = base.wrapping_add(bits.trailing_zeros());
            bits &= bits.wrapping_sub(1);
        }
        if bits == 0 {
            break;
        }
    }
    count
}

#[inline(always)]
fn mark_records(marks: &mut Vec<Mark>, base: usize, block: Block, fields_before: usize) {
    let mut newlines = block.newlines;
    while newlines != 0 {
        let bit = newlines.trailing_zeros();
        let upto = (block.ends & (u64::MAX >> (63 - bit))).count_ones();
        let comment = block.comments >> bit & 1 == 1;
        marks.push(Mark { fields: fields_before as u32 + upto, next: base as u32 + bit + 1, comment });
        newlines &= newlines - 1;
    }
}
