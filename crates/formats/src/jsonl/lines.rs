//! Framing: a record is a line.

use crate::{Cut, Framer};
use haul_model::Result;

/// Cuts after the last LF. Blank lines belong to what is before or after them and are no records.
#[derive(Debug, Default)]
pub(super) struct Lines;

impl Framer for Lines {
    fn cut(&mut self, buffer: &[u8], seen: usize, end: bool) -> Result<Option<Cut>> {
        let bytes = match memchr::memrchr(b'\n', &buffer[seen..]) {
            _ if end => buffer.len(),
            Some(last) => seen + last + 1,
            None => 0,
        };
        if bytes == 0 {
            return Ok(None);
        }
        let (mut start, mut lines, mut records) = (0, 0, 0);
        for feed in memchr::memchr_iter(b'\n', &buffer[..bytes]) {
            lines += 1;
            records += u64::from(!is_blank(&buffer[start..feed]));
            start = feed + 1;
        }
        records += u64::from(!is_blank(&buffer[start..bytes]));
        Ok(Some(Cut { bytes, records: Some(records), lines }))
    }
}

/// Whether a line is nothing but white space, its terminator included.
#[inline]
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.first().is_none_or(|b| *b <= b' ') && line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
}
