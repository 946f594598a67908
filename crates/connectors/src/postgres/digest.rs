//! Hashes of values by their bytes in COPY BINARY or COPY TEXT: for proofs where the bytes themselves pass through.
//!
//! Both sides of such a proof have the same types and are read in the same encoding by the same server code, so equal values have equal
//! bytes; what a server cannot tell apart in its output (a NaN's payload, say) is not told apart here either.

use super::array_wire::field;
use super::decode::{frame_end, header_len};
use haul_model::digest::{NO_NUMBER, NULL_HASH, hash_bytes};
use haul_model::{Digester, Error, ErrorKind, Hashes, Raw, Result};

/// Hashes chunks of CopyData frames.
pub(super) struct CopyDigester {
    table: String,
    columns: usize,
    binary: bool,
}

impl CopyDigester {
    /// For rows of so many columns of `table` (its name for messages).
    pub fn new(table: String, columns: usize, binary: bool) -> Self {
        Self { table, columns, binary }
    }

    fn broken(&self) -> Error {
        Error::new(ErrorKind::Protocol, format!("the COPY stream is broken: not rows of {} columns", self.columns)).object(&self.table)
    }
}

impl Digester for CopyDigester {
    fn digest(&mut self, raw: &Raw, out: &mut Hashes) -> Result<()> {
        out.clear();
        out.columns.resize(self.columns, Vec::new());
        let bytes: &[u8] = &raw.bytes;
        let mut at = 0;
        while at < bytes.len() {
            let end = frame_end(bytes, at).ok_or_else(|| self.broken())?;
            let body = &bytes[at + 5..end];
            let read = if self.binary { binary(body, out) } else { text(body, out) };
            out.rows += read.ok_or_else(|| self.broken())?;
            at = end;
        }
        Ok(())
    }
}

/// The tuples of a frame.
#[inline]
fn binary(body: &[u8], out: &mut Hashes) -> Option<usize> {
    let mut rest = &body[header_len(body)..];
    let mut rows = 0;
    while let Some((count, fields)) = rest.split_first_chunk::<2>() {
        let count = i16::from_be_bytes(*count);
        rest = fields;
        if count == -1 {
            break;
        }
        if usize::try_from(count) != Ok(out.columns.len()) {
            return None;
        }
        for (place, column) in out.columns.iter_mut().enumerate() {
            let (value, after) = field(rest)?;
            column.push(value.map_or(NULL_HASH, hash_bytes));
            if out.number == Some(place) {
                out.numbers.push(value.and_then(integer).unwrap_or(NO_NUMBER));
            }
            rest = after;
        }
        rows += 1;
    }
    rest.is_empty().then_some(rows)
}

/// A value of `int2`, `int4` or `int8`.
fn integer(value: &[u8]) -> Option<i64> {
    Some(match value.len() {
        2 => i64::from(i16::from_be_bytes(*value.first_chunk()?)),
        4 => i64::from(i32::from_be_bytes(*value.first_chunk()?)),
        8 => i64::from_be_bytes(*value.first_chunk()?),
        _ => return None,
    })
}

/// The lines of a frame. An escaped tab or line feed is written with letters, so every tab and line feed separates.
fn text(body: &[u8], out: &mut Hashes) -> Option<usize> {
    let mut rows = 0;
    for line in body.split_inclusive(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\n")?;
        if line == b"\\." {
            break;
        }
        let mut fields = line.split(|b| *b == b'\t');
        // Without columns, a row is an empty line.
        if out.columns.is_empty() {
            fields.next()?.is_empty().then_some(())?;
        }
        for (place, column) in out.columns.iter_mut().enumerate() {
            let value = fields.next()?;
            column.push(if value == b"\\N" { NULL_HASH } else { hash_bytes(value) });
            if out.number == Some(place) {
                out.numbers.push(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(NO_NUMBER));
            }
        }
        if fields.next().is_some() {
            return None;
        }
        rows += 1;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::super::decode::HEADER;
    use super::*;
    use haul_model::Sums;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = vec![b'd'];
        out.extend((body.len() as u32 + 4).to_be_bytes());
        out.extend(body);
        out
    }

    fn tuple(fields: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = (fields.len() as i16).to_be_bytes().to_vec();
        for field in fields {
            match field {
                None => out.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    out.extend((bytes.len() as i32).to_be_bytes());
                    out.extend(*bytes);
                }
            }
        }
        out
    }

    fn sums(binary: bool, frames: &[Vec<u8>]) -> Result<Sums> {
        let raw = Raw { bytes: frames.concat().into(), ..Raw::default() };
        let (mut hashes, mut sums) = (Hashes::default(), Sums::default());
        CopyDigester::new("t".into(), 2, binary).digest(&raw, &mut hashes)?;
        sums.add(&mut hashes);
        Ok(sums)
    }

    #[test]
    fn header_frames_and_trailer_do_not_count() {
        let (a, b) = (tuple(&[Some(b"1"), None]), tuple(&[Some(b"2"), Some(b"")]));
        let plain = sums(true, &[frame(&a), frame(&b)]).unwrap();
        assert_eq!((plain.rows, plain.columns[1].nulls), (2, 1));
        let with = [[HEADER.as_slice(), &b].concat(), a.clone(), (-1i16).to_be_bytes().to_vec()].map(|body| frame(&body));
        assert_eq!(plain, sums(true, &with).unwrap());
        assert_eq!(plain, sums(true, &[frame(&[a.clone(), b.clone()].concat())]).unwrap());
        for wrong in [frame(&a[..a.len() - 1]), frame(&tuple(&[None])), b"d\0".to_vec()] {
            assert!(sums(true, &[wrong]).is_err());
        }
        assert_ne!(plain, sums(true, &[frame(&a), frame(&tuple(&[Some(b"2"), None]))]).unwrap());
    }

    #[test]
    fn integers_are_told_beside_their_hashes() {
        let rows = [tuple(&[Some(&7i16.to_be_bytes()), None]), tuple(&[Some(&(-7i32).to_be_bytes()), None]), tuple(&[None, None])];
        let raw = Raw { bytes: frame(&rows.concat()).into(), ..Raw::default() };
        let mut hashes = Hashes::default().with_number(Some(0));
        CopyDigester::new("t".into(), 2, true).digest(&raw, &mut hashes).unwrap();
        assert_eq!(hashes.numbers, [7, -7, NO_NUMBER]);
        let raw = Raw { bytes: frame(b"7\tx\n\\N\tx\n").into(), ..Raw::default() };
        CopyDigester::new("t".into(), 2, false).digest(&raw, &mut hashes).unwrap();
        assert_eq!(hashes.numbers, [7, NO_NUMBER]);
    }

    #[test]
    fn lines_of_text() {
        let plain = sums(false, &[frame(b"1\t\\N\n"), frame(b"2\t\n")]).unwrap();
        assert_eq!((plain.rows, plain.columns[1].nulls), (2, 1));
        assert_eq!(plain, sums(false, &[frame(b"2\t\n1\t\\N\n")]).unwrap());
        for wrong in [b"1\n".as_slice(), b"1\t2\t3\n", b"1\t2"] {
            assert!(sums(false, &[frame(wrong)]).is_err());
        }
    }
}
