//! The structural scan: which bytes end a field or a record.
//!
//! Structure is a machine of three states. At the start of a field, and after a closing quote, it is *ready*: a quote
//! leads into *quoted*. Any other byte that ends nothing leads into *plain*, where a quote is data. In *quoted* only a quote
//! matters; it leads back to *ready*, so that a doubled quote goes out and in again. Delimiter and terminator, outside quotes,
//! end a field and lead to *ready*.
//!
//! As long as each quote that parity takes for an opening one stands where the machine is ready, the machine's *quoted* is the
//! quotes' parity, and 64 bytes are done at once. A quote that parity takes for an opening one elsewhere (`5" pipe`) is data: it
//! is struck out and the parity taken anew. Dialects with an escape or comments go byte by byte. Framer and decoder both run
//! this scan, so they cannot disagree.

use super::dialect::{Dialect, Newline};
use crate::simd::{BLOCK, Masks, classify, prefix_xor};

/// Where the machine stands between two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// At the start of a record.
    Record,
    /// At the start of a field, or after a closing quote.
    Ready,
    /// In an unquoted field.
    Plain,
    /// Inside quotes.
    Quoted,
    /// Inside quotes, after the escape character.
    Escape,
    /// In a comment.
    Comment,
}

/// The structure of up to 64 bytes; bit `i` = byte `i`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    /// Ends of fields: delimiters and terminators outside quotes.
    pub ends: u64,
    /// Ends of records (of comments too): the last byte of a terminator.
    pub newlines: u64,
    /// Those of `newlines` that end a comment.
    pub comments: u64,
    /// All LF, inside quotes too.
    pub lf: u64,
    /// All CR, inside quotes too.
    pub cr: u64,
    /// Closing quotes, the first of each doubled pair among them. 0 in byte-by-byte scans.
    pub closes: u64,
    /// Something that makes a field malformed may be here: check each field.
    pub suspect: bool,
}

/// Blocks classified at a time: 4 KiB of input, 2.5 KiB of masks.
const BATCH: usize = 64;

/// Scans `bytes[from..]`, where the machine is in `state`, and gives each block to `sink` with the index of its first byte.
/// `bytes[..from]` is only looked at for the byte before `from`. Returns the state behind the last byte.
#[inline]
pub(crate) fn scan(dialect: &Dialect, bytes: &[u8], from: usize, state: State, sink: impl FnMut(usize, Block)) -> State {
    if dialect.is_bytewise() {
        return scan_bytewise(dialect, bytes, from, state, sink);
    }
    scan_blocks(dialect, bytes, from, state, sink)
}

#[inline]
fn scan_blocks(dialect: &Dialect, bytes: &[u8], from: usize, state: State, mut sink: impl FnMut(usize, Block)) -> State {
    let needles = [dialect.quote.unwrap_or(b'"'), dialect.delimiter, b'\n', b'\r'];
    let mut parity = Parity::new(dialect, state, from.checked_sub(1).map(|i| bytes[i]));
    let mut masks = [Masks::NONE; BATCH];
    let mut base = from;
    let whole = (bytes.len() - from) / BLOCK * BLOCK;
    for batch in bytes[from..from + whole].chunks(BATCH * BLOCK) {
        let masks = &mut masks[..batch.len() / BLOCK];
        classify(batch, &needles, masks);
        for mask in masks.iter() {
            sink(base, parity.step(*mask, BLOCK, bytes.get(base + BLOCK)));
            base += BLOCK;
        }
    }
    let rest = &bytes[base..];
    if !rest.is_empty() {
        let mut padded = [0; BLOCK];
        padded[..rest.len()].copy_from_slice(rest);
        classify(&padded, &needles, &mut masks[..1]);
        // The padding may equal a needle (a dialect may use NUL): mask it off.
        let valid = u64::MAX >> (BLOCK - rest.len());
        let hits = masks[0].hits.map(|h| h & valid);
        let mask = Masks { hits, parity: prefix_xor(hits[0]) };
        sink(base, parity.step(mask, rest.len(), None));
    }
    parity.state()
}

/// What is carried from block to block.
struct Parity {
    newline: Newline,
    /// All ones if there are quotes in this dialect.
    quotes: u64,
    /// All ones inside quotes.
    inside: u64,
    /// 1 if a quote would open.
    ready: u64,
    /// 1 right behind a closing quote.
    closed: u64,
    /// 1 right behind a CR.
    after_cr: u64,
}

impl Parity {
    fn new(dialect: &Dialect, state: State, before: Option<u8>) -> Self {
        Self {
            newline: dialect.newline,
            quotes: if dialect.quote.is_some() { u64::MAX } else { 0 },
            inside: if state == State::Quoted { u64::MAX } else { 0 },
            ready: u64::from(matches!(state, State::Record | State::Ready)),
            closed: 0,
            after_cr: u64::from(before == Some(b'\r')),
        }
    }

    #[inline(always)]
    fn step(&mut self, mask: Masks<4>, len: usize, next: Option<&u8>) -> Block {
        let [quote, delimiter, lf, cr] = mask.hits;
        let terminator = match self.newline {
            Newline::Auto | Newline::Lf => lf,
            Newline::CrLf => lf & (cr << 1 | self.after_cr),
            Newline::Cr => cr,
        };
        let mut quote = quote & self.quotes;
        let mut inside = (mask.parity & self.quotes) ^ self.inside;
        let (ends, newlines) = loop {
            let newlines = terminator & !inside;
            let ends = (delimiter & !inside) | newlines;
            let misplaced = quote & inside & !((ends | quote) << 1 | self.ready);
            if misplaced == 0 {
                break (ends, newlines);
            }
            quote &= !(misplaced & misplaced.wrapping_neg());
            inside = prefix_xor(quote) ^ self.inside;
        };
        let closes = quote & !inside;
        let crlf = cr & (lf >> 1 | u64::from(next == Some(&b'\n')) << 63);
        let garbage = (closes << 1 | self.closed) & !(quote | ends | crlf) & (u64::MAX >> (BLOCK - len));
        let lone = match self.newline {
            Newline::Auto => cr & !crlf & !inside,
            Newline::Cr => lf & !inside,
            Newline::Lf | Newline::CrLf => 0,
        };
        let last = len - 1;
        self.inside = 0u64.wrapping_sub(inside >> last & 1);
        self.ready = (ends | quote) >> last & 1;
        self.closed = closes >> last & 1;
        self.after_cr = cr >> last & 1;
        Block { ends, newlines, comments: 0, lf, cr, closes, suspect: garbage | lone != 0 }
    }

    fn state(&self) -> State {
        match (self.inside != 0, self.ready != 0) {
            (true, _) => State::Quoted,
            (false, true) => State::Ready,
            (false, false) => State::Plain,
        }
    }
}

/// The same machine, byte by byte: for escapes and comments, and the oracle of the fast one.
pub(crate) fn scan_bytewise(dialect: &Dialect, bytes: &[u8], from: usize, mut state: State, mut sink: impl FnMut(usize, Block)) -> State {
    let mut previous = from.checked_sub(1).map(|i| bytes[i]);
    for (n, chunk) in bytes[from..].chunks(BLOCK).enumerate() {
        let mut block = Block { suspect: true, ..Block::default() };
        for (i, &byte) in chunk.iter().enumerate() {
            let bit = 1 << i;
            block.lf |= if byte == b'\n' { bit } else { 0 };
            block.cr |= if byte == b'\r' { bit } else { 0 };
            let outside = !matches!(state, State::Quoted | State::Escape);
            if outside && ends_record(dialect.newline, previous, byte) {
                block.newlines |= bit;
                block.ends |= bit;
                block.comments |= if state == State::Comment { bit } else { 0 };
            } else if byte == dialect.delimiter && outside && state != State::Comment {
                block.ends |= bit;
            }
            state = next_state(dialect, state, previous, byte);
            previous = Some(byte);
        }
        sink(from + n * BLOCK, block);
    }
    state
}

fn ends_record(newline: Newline, previous: Option<u8>, byte: u8) -> bool {
    match newline {
        Newline::Auto | Newline::Lf => byte == b'\n',
        Newline::CrLf => byte == b'\n' && previous == Some(b'\r'),
        Newline::Cr => byte == b'\r',
    }
}

/// The machine's step over `byte`.
pub(crate) fn next_state(dialect: &Dialect, state: State, previous: Option<u8>, byte: u8) -> State {
    let is_quote = Some(byte) == dialect.quote;
    match state {
        State::Quoted if is_quote => State::Ready,
        State::Quoted if Some(byte) == dialect.escape => State::Escape,
        State::Quoted | State::Escape => State::Quoted,
        _ if ends_record(dialect.newline, previous, byte) => State::Record,
        State::Comment => State::Comment,
        State::Record if Some(byte) == dialect.comment => State::Comment,
        _ if byte == dialect.delimiter => State::Ready,
        State::Record | State::Ready if is_quote => State::Quoted,
        _ => State::Plain,
    }
}

/// Where the quoted field opens that is still open at the end of `bytes`, which start at a record.
pub(crate) fn open_quote(dialect: &Dialect, bytes: &[u8]) -> Option<usize> {
    let (mut state, mut previous, mut opened) = (State::Record, None, None);
    for (i, &byte) in bytes.iter().enumerate() {
        let next = next_state(dialect, state, previous, byte);
        // Ready behind a quote is the middle of a doubled one: the field opened before.
        let reopens = state == State::Ready && previous == dialect.quote && opened.is_some();
        if next == State::Quoted && matches!(state, State::Record | State::Ready) && !reopens {
            opened = Some(i);
        }
        (state, previous) = (next, Some(byte));
    }
    opened.filter(|_| matches!(state, State::Quoted | State::Escape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(dialect: &Dialect, bytes: &[u8], fast: bool) -> (Vec<usize>, Vec<usize>, State) {
        let (mut ends, mut newlines) = (Vec::new(), Vec::new());
        let mut sink = |base: usize, block: Block| {
            ends.extend((0..64).filter(|i| block.ends >> i & 1 == 1).map(|i| base + i));
            newlines.extend((0..64).filter(|i| block.newlines >> i & 1 == 1).map(|i| base + i));
        };
        let state = if fast {
            scan_blocks(dialect, bytes, 0, State::Record, &mut sink)
        } else {
            scan_bytewise(dialect, bytes, 0, State::Record, &mut sink)
        };
        (ends, newlines, if state == State::Record { State::Ready } else { state })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn block_scan_equals_byte_scan(
            bytes in prop::collection::vec(prop::sample::select(b"\"\"\",,\n\r\nab \\".to_vec()), 0..300),
            newline in prop::sample::select(vec![Newline::Auto, Newline::Lf, Newline::CrLf, Newline::Cr]),
            quote in prop::sample::select(vec![Some(b'"'), Some(b'\''), None]),
        ) {
            let dialect = Dialect { newline, quote, ..Dialect::default() };
            prop_assert_eq!(collect(&dialect, &bytes, true), collect(&dialect, &bytes, false));
        }

        #[test]
        fn an_open_quote_is_found_exactly_when_the_scan_ends_in_quotes(
            bytes in prop::collection::vec(prop::sample::select(b"\"\",\na".to_vec()), 0..100),
        ) {
            let dialect = Dialect::default();
            let state = scan(&dialect, &bytes, 0, State::Record, |_, _| {});
            prop_assert_eq!(open_quote(&dialect, &bytes).is_some(), state == State::Quoted);
        }
    }

    #[test]
    fn open_quote_names_the_field_that_opened() {
        assert_eq!(open_quote(&Dialect::default(), b"a,\"x\"\"y,\n1\"\"2"), Some(2));
        assert_eq!(open_quote(&Dialect::default(), b"\"a\",\"b\n"), Some(4));
        assert_eq!(open_quote(&Dialect::default(), b"\"a\",5\" b\n"), None);
    }
}
