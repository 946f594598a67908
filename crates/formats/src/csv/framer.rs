//! Finds record boundaries.

use super::dialect::{Dialect, Fault, Newline};
use super::scan::{Block, State, open_quote, scan};
use crate::{Cut, Framer};
use haul_model::{Error, ErrorKind, Result};

/// The framer: remembers where the scan of an unfinished record stopped, so that no byte is scanned twice while a record grows.
pub(crate) struct CsvFramer {
    dialect: Dialect,
    /// In files of more than one column a blank line is no record.
    blank_is_record: bool,
    /// Line breaks and bytes in front of the buffer, for messages.
    lines_before: u64,
    bytes_before: u64,
    tally: Tally,
}

/// What is known about the buffer up to `scanned`.
struct Tally {
    scanned: usize,
    state: State,
    /// Behind the last whole record.
    cut: usize,
    records: u64,
    /// Line breaks up to `cut`, and up to `scanned`.
    lines: u64,
    lines_seen: u64,
    /// 1 at the start of a record; 1 behind a CR that starts a record.
    at_start: u64,
    after_first_cr: u64,
}

impl Tally {
    fn new() -> Self {
        Self { scanned: 0, state: State::Record, cut: 0, records: 0, lines: 0, lines_seen: 0, at_start: 1, after_first_cr: 0 }
    }

    #[inline(always)]
    fn add(&mut self, base: usize, block: Block, len: usize, newline: Newline, blank_is_record: bool) {
        let breaks = if newline == Newline::Cr { block.cr } else { block.lf };
        let starts = block.newlines << 1 | self.at_start;
        let first_cr = block.cr & starts;
        if block.newlines != 0 {
            let blank = match newline {
                _ if blank_is_record => 0,
                Newline::Cr => starts,
                _ => starts | first_cr << 1 | self.after_first_cr,
            };
            let last = 63 - block.newlines.leading_zeros();
            self.records += u64::from((block.newlines & !blank & !block.comments).count_ones());
            self.lines = self.lines_seen + u64::from((breaks & (u64::MAX >> (63 - last))).count_ones());
            self.cut = base + last as usize + 1;
        }
        // With CR LF only, the CR in front of the LF is in the block before at worst, and never the start of a terminator.
        self.lines_seen += u64::from(breaks.count_ones());
        self.at_start = block.newlines >> (len - 1) & 1;
        self.after_first_cr = first_cr >> (len - 1) & 1;
    }
}

impl CsvFramer {
    /// A framer for input that has `lines` line breaks in the `bytes` in front of its first record.
    pub(crate) fn new(dialect: Dialect, blank_is_record: bool, lines: u64, bytes: u64) -> Self {
        Self { dialect, blank_is_record, lines_before: lines, bytes_before: bytes, tally: Tally::new() }
    }

    fn unclosed(&self, buffer: &[u8]) -> Error {
        let record = self.tally.cut;
        let opened = record + open_quote(&self.dialect, &buffer[record..]).unwrap_or(0);
        let line_break = if self.dialect.newline == Newline::Cr { b'\r' } else { b'\n' };
        let lines = memchr::memchr_iter(line_break, &buffer[..opened]).count() as u64;
        let (what, hint) = Fault::Unclosed.text();
        Error::new(ErrorKind::Data, what).line(self.lines_before + lines + 1).byte(self.bytes_before + opened as u64).hint(hint)
    }

    /// The rest behind the last terminator is a record too, unless it is a comment or blank.
    fn last_record(&self, buffer: &[u8]) -> u64 {
        let (from, to) = (self.tally.cut, buffer.len());
        let blank = self.dialect.content_end(buffer, from, to, false) == from;
        u64::from(from < to && self.tally.state != State::Comment && (self.blank_is_record || !blank))
    }
}

impl Framer for CsvFramer {
    fn cut(&mut self, buffer: &[u8], seen: usize, end: bool) -> Result<Option<Cut>> {
        if seen != self.tally.scanned || seen > buffer.len() {
            self.tally = Tally::new();
        }
        let (newline, blank_is_record) = (self.dialect.newline, self.blank_is_record);
        let tally = &mut self.tally;
        let (from, state) = (tally.scanned, tally.state);
        let total = buffer.len();
        tally.state = scan(&self.dialect, buffer, from, state, |base, block| {
            tally.add(base, block, (total - base).min(64), newline, blank_is_record);
        });
        tally.scanned = total;
        let cut = if end {
            if matches!(tally.state, State::Quoted | State::Escape) {
                return Err(self.unclosed(buffer));
            }
            let records = self.tally.records + self.last_record(buffer);
            Cut { bytes: total, records: Some(records), lines: self.tally.lines_seen }
        } else {
            Cut { bytes: tally.cut, records: Some(tally.records), lines: tally.lines }
        };
        if cut.bytes == 0 {
            return Ok(None);
        }
        self.lines_before += cut.lines;
        self.bytes_before += cut.bytes as u64;
        self.tally = Tally::new();
        Ok(Some(cut))
    }
}
