//! One column of a chunk: fields to string views and NULLs.

use super::decoder::Layout;
use super::dialect::trim_blanks;
use super::index::Index;
use crate::simd::{TextBuffer, string_views, view_of};
use arrow_array::StringViewArray;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use haul_model::Result;

/// What an unquoted field can mean beside its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldRule {
    /// Unquoted fields that mean NULL.
    pub nulls: Vec<Vec<u8>>,
    /// An unquoted empty field is "" and not NULL.
    pub empty_is_string: bool,
}

/// Views and validity of one column.
pub(crate) struct ViewColumn {
    views: Vec<u128>,
    /// One bit a row, set = a value.
    valid: Vec<u64>,
    nulls: usize,
}

impl ViewColumn {
    /// The column; views with buffer number 1 point into the second of `buffers`.
    pub(crate) fn finish(self, buffers: &[TextBuffer]) -> Result<StringViewArray> {
        let rows = self.views.len();
        let nulls = (self.nulls > 0).then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.valid), 0, rows)));
        string_views(self.views, nulls, buffers)
    }
}

/// The rows of a chunk, indexed and checked.
pub(crate) struct Table<'a> {
    pub layout: &'a Layout,
    pub index: &'a Index,
    pub bytes: &'a [u8],
    /// For each row, the index of its first field.
    pub firsts: &'a [u32],
    /// Where each record starts.
    pub starts: &'a [u32],
    /// For each row its record; `None` = the same number.
    pub selection: Option<&'a [u32]>,
}

impl Table<'_> {
    /// Makes column `column` of the file. Values that differ from the bytes of the chunk go to `side`.
    pub(crate) fn column(&self, column: usize, side: &mut Vec<u8>) -> ViewColumn {
        let Self { layout, index, bytes, firsts, starts, selection } = *self;
        let simple = layout.rule == FieldRule::default() && !layout.dialect.trim && !index.closes.is_empty();
        // Without quotes, a byte that no field can start with.
        let quote = layout.dialect.quote.unwrap_or(layout.dialect.delimiter);
        let bounds = |row: usize| {
            let at = firsts[row] as usize + column;
            let start = match column {
                0 => starts[selection.map_or(row, |s| s[row] as usize)],
                _ => index.ends[at - 1] + 1,
            };
            (start as usize, index.ends[at] as usize)
        };
        if simple {
            fill(firsts.len(), |row| {
                let (start, end) = bounds(row);
                if start >= end {
                    return None;
                }
                if bytes[start] != quote {
                    return Some(view_of(bytes, 0, start, end));
                }
                Some(quoted(index, bytes, start + 1, end - 1, side))
            })
        } else {
            fill(firsts.len(), |row| {
                let (start, end) = bounds(row);
                if start > end { None } else { general(layout, bytes, start, end, side) }
            })
        }
    }
}

#[inline(always)]
fn fill(rows: usize, mut field: impl FnMut(usize) -> Option<u128>) -> ViewColumn {
    let mut views = Vec::with_capacity(rows);
    let mut valid = Vec::with_capacity(rows.div_ceil(64));
    let mut values = 0;
    let mut row = 0;
    while row < rows {
        let mut word = 0u64;
        let count = (rows - row).min(64);
        views.extend((0..count).map(|i| {
            let view = field(row + i);
            word |= u64::from(view.is_some()) << i;
            view.unwrap_or(0)
        }));
        values += word.count_ones() as usize;
        valid.push(word);
        row += count;
    }
    ViewColumn { views, valid, nulls: rows - values }
}

/// The view of a well-formed quoted field whose text is `from..to`, quotes left out.
#[inline]
fn quoted(index: &Index, bytes: &[u8], from: usize, to: usize, side: &mut Vec<u8>) -> u128 {
    let mut at = from;
    while at < to {
        if closes_in(index, at, to) != 0 {
            return undoubled(index, bytes, from, to, side);
        }
        at += 64;
    }
    view_of(bytes, 0, from, to)
}

/// Doubled quotes among the (at most 64) bytes `from..to`; bit `i` = the first quote of a pair at `from + i`.
#[inline(always)]
fn closes_in(index: &Index, from: usize, to: usize) -> u64 {
    let (word, shift) = (from / 64, from % 64);
    let low = index.closes[word] >> shift;
    // Shifted in two steps: by 64 - shift, which may be 64.
    let high = index.closes[word + 1] << 1 << (63 - shift);
    let length = to - from;
    let keep = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    (low | high) & keep
}

/// Drops the second quote of each pair.
fn undoubled(index: &Index, bytes: &[u8], from: usize, to: usize, side: &mut Vec<u8>) -> u128 {
    const SLACK: usize = 16;
    let begin = side.len();
    // Room for the whole field and for copies of 16 bytes that reach past their end.
    side.resize(begin + (to - from) + SLACK, 0);
    let mut out = begin;
    let mut next = from;
    let mut copy = |piece: std::ops::Range<usize>| {
        let length = piece.len();
        if length <= SLACK && piece.start + SLACK <= bytes.len() {
            let window: [u8; SLACK] = bytes[piece.start..piece.start + SLACK].try_into().expect("16 bytes");
            side[out..out + SLACK].copy_from_slice(&window);
        } else {
            side[out..out + length].copy_from_slice(&bytes[piece]);
        }
        out += length;
    };
    let mut at = from;
    while at < to {
        let mut pairs = closes_in(index, at, to);
        while pairs != 0 {
            let first = at + pairs.trailing_zeros() as usize;
            copy(next..first + 1);
            next = first + 2;
            pairs &= pairs - 1;
        }
        at += 64;
    }
    if next < to {
        copy(next..to);
    }
    side.truncate(out);
    keep(side, begin)
}

/// The view of what was just put into the side buffer from `begin` on; short values do not stay there.
fn keep(side: &mut Vec<u8>, begin: usize) -> u128 {
    let view = view_of(side, 1, begin, side.len());
    if side.len() - begin <= 12 {
        side.truncate(begin);
    }
    view
}

/// A field under any rule and dialect.
fn general(layout: &Layout, bytes: &[u8], start: usize, end: usize, side: &mut Vec<u8>) -> Option<u128> {
    let field = &bytes[start..end];
    if layout.dialect.quote.is_some() && field.first().copied() == layout.dialect.quote {
        let begin = side.len();
        layout.dialect.unquote(field, side);
        return Some(keep(side, begin));
    }
    let (start, field) = if layout.dialect.trim {
        let trimmed = trim_blanks(field);
        let blanks = field.iter().take_while(|b| matches!(b, b' ' | b'\t')).count().min(field.len() - trimmed.len());
        (start + blanks, trimmed)
    } else {
        (start, field)
    };
    if field.is_empty() && !layout.rule.empty_is_string || layout.rule.nulls.iter().any(|n| n == field) {
        return None;
    }
    Some(view_of(bytes, 0, start, start + field.len()))
}
