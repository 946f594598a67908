//! Messages of the output plugin `pgoutput`, as views into the bytes that came.
//!
//! Specification: PostgreSQL documentation, section "Logical Replication Message Formats". Protocol version 1, without streaming of open
//! transactions: every message between Begin and Commit is of one transaction that has committed.

use haul_pgwire::Lsn;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A transaction begins.
    Begin {
        /// Where its commit record begins.
        commit: Lsn,
        /// When it committed: microseconds since 2000.
        at: i64,
        xid: u32,
    },
    /// It ends.
    Commit {
        /// Where its commit record ends: nothing of it comes behind.
        end: Lsn,
    },
    /// What the changes that follow refer to.
    Relation {
        oid: u32,
        /// From the namespace on.
        body: &'a [u8],
    },
    /// INSERT, UPDATE or DELETE.
    Row {
        /// `I`, `U` or `D`.
        op: u8,
        oid: u32,
        /// Tuples, each behind the letter that says which it is.
        tuples: &'a [u8],
    },
    /// TRUNCATE of one or more tables.
    Truncate {
        /// OIDs, four bytes each.
        oids: &'a [u8],
    },
    /// Origin, Type, a logical message: nothing that changes a row.
    Aside,
}

impl<'a> Message<'a> {
    /// Parses a message. `None`: it is not one of this protocol version.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (tag, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        Some(match tag {
            b'B' => Self::Begin { commit: Lsn(u64_of(rest)?), at: u64_of(rest)? as i64, xid: u32_of(rest)? },
            b'C' => {
                take(rest, 9)?;
                Self::Commit { end: Lsn(u64_of(rest)?) }
            }
            b'R' => Self::Relation { oid: u32_of(rest)?, body: rest },
            b'I' | b'U' | b'D' => Self::Row { op: *tag, oid: u32_of(rest)?, tuples: rest },
            b'T' => {
                let count = u32_of(rest)? as usize;
                take(rest, 1)?;
                Self::Truncate { oids: take(rest, count.checked_mul(4)?)? }
            }
            b'O' | b'Y' | b'M' => Self::Aside,
            _ => return None,
        })
    }
}

/// A column as a Relation message describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireColumn {
    /// Whether it belongs to the replica identity.
    pub key: bool,
    pub name: String,
    pub type_oid: u32,
    pub typmod: i32,
}

/// A Relation message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRelation {
    pub schema: String,
    pub name: String,
    /// `d`efault, `n`othing, `f`ull, `i`ndex.
    pub identity: u8,
    pub columns: Vec<WireColumn>,
}

impl WireRelation {
    /// From [`Message::Relation`]'s body.
    pub fn parse(mut body: &[u8]) -> Option<Self> {
        let rest = &mut body;
        let (schema, name, identity) = (text(rest)?, text(rest)?, take(rest, 1)?[0]);
        let count = u16_of(rest)?;
        let columns = (0..count).map(|_| {
            let flags = take(rest, 1)?[0];
            Some(WireColumn { key: flags & 1 != 0, name: text(rest)?, type_oid: u32_of(rest)?, typmod: u32_of(rest)? as i32 })
        });
        let columns = columns.collect::<Option<_>>()?;
        // The empty name stands for pg_catalog.
        let schema = if schema.is_empty() { "pg_catalog".to_string() } else { schema };
        Some(Self { schema, name, identity, columns })
    }
}

/// What a tuple says about one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// A large value that the UPDATE did not touch: it is not sent.
    Unchanged,
    Text(&'a [u8]),
    Binary(&'a [u8]),
}

/// Takes the next value of a tuple from the front of `rest`.
#[inline]
pub fn value<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let kind = take(rest, 1)?[0];
    Some(match kind {
        b'n' => Value::Null,
        b'u' => Value::Unchanged,
        b't' | b'b' => {
            let length = u32_of(rest)? as usize;
            let bytes = take(rest, length)?;
            if kind == b't' { Value::Text(bytes) } else { Value::Binary(bytes) }
        }
        _ => return None,
    })
}

/// The tuples of a change: the old one, if the server sent it, and the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuples<'a> {
    /// `K`: only the replica identity, the others are null; `O`: all columns.
    pub old: Option<(u8, &'a [u8])>,
    pub new: Option<&'a [u8]>,
}

impl<'a> Tuples<'a> {
    /// Splits what stands behind the table. A tuple here is its values, without their number, of which there must be `columns`.
    pub fn parse(mut bytes: &'a [u8], columns: usize) -> Option<Self> {
        let mut tuples = Self { old: None, new: None };
        while let Some((kind, mut rest)) = bytes.split_first() {
            if u16_of(&mut rest)? as usize != columns {
                return None;
            }
            let start = rest;
            for _ in 0..columns {
                value(&mut rest)?;
            }
            let tuple = &start[..start.len() - rest.len()];
            match kind {
                b'N' if tuples.new.is_none() => tuples.new = Some(tuple),
                b'K' | b'O' if tuples.old.is_none() && tuples.new.is_none() => tuples.old = Some((*kind, tuple)),
                _ => return None,
            }
            bytes = rest;
        }
        Some(tuples)
    }
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(n)?;
    *rest = tail;
    Some(head)
}

pub(super) fn u16_of(rest: &mut &[u8]) -> Option<u16> {
    let (head, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    Some(u16::from_be_bytes(*head))
}

pub(super) fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_be_bytes(*head))
}

pub(super) fn u64_of(rest: &mut &[u8]) -> Option<u64> {
    let (head, tail) = rest.split_first_chunk::<8>()?;
    *rest = tail;
    Some(u64::from_be_bytes(*head))
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let end = memchr::memchr(0, rest)?;
    let text = std::str::from_utf8(take(rest, end)?).ok()?.to_string();
    take(rest, 1)?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation() -> Vec<u8> {
        let mut bytes = b"R\0\0\x40\0public\0t\0d\0\x02".to_vec();
        bytes.extend_from_slice(b"\x01id\0\0\0\0\x17\xff\xff\xff\xff");
        bytes.extend_from_slice(b"\x00n\0\0\0\x06\xa4\0\x05\0\x06");
        bytes
    }

    #[test]
    fn messages_of_a_transaction() {
        let begin = b"B\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\x05\0\0\x02\x9a";
        assert_eq!(Message::parse(begin), Some(Message::Begin { commit: Lsn(0x0102_0304), at: 5, xid: 666 }));
        let commit = b"C\0\0\0\0\0\x01\x02\x03\x04\0\0\0\0\x01\x02\x03\x34\0\0\0\0\0\0\0\x05";
        assert_eq!(Message::parse(commit), Some(Message::Commit { end: Lsn(0x0102_0334) }));
        assert_eq!(Message::parse(b"T\0\0\0\x02\x01\0\0\0\x07\0\0\0\x08"), Some(Message::Truncate { oids: b"\0\0\0\x07\0\0\0\x08" }));
        assert_eq!(Message::parse(b"I\0\0\0\x07Nrest"), Some(Message::Row { op: b'I', oid: 7, tuples: b"Nrest" }));
        assert_eq!(Message::parse(b"M\0anything"), Some(Message::Aside));
        assert_eq!(Message::parse(b"S\0\0\0\x07"), None, "streaming was not asked for");
        let bytes = relation();
        let Some(Message::Relation { oid: 0x4000, body }) = Message::parse(&bytes) else { panic!("no relation") };
        let relation = WireRelation::parse(body).unwrap();
        assert_eq!((relation.schema.as_str(), relation.name.as_str(), relation.identity), ("public", "t", b'd'));
        let columns: Vec<_> = relation.columns.iter().map(|c| (c.key, c.name.as_str(), c.type_oid, c.typmod)).collect();
        assert_eq!(columns, [(true, "id", 23, -1), (false, "n", 1700, 327_686)]);
    }

    #[test]
    fn values_unchanged_null_and_empty_are_four_things() {
        let mut tuple: &[u8] = b"nut\0\0\0\0b\0\0\0\x02\x01\x02t\0\0\0\x01x";
        let mut values = Vec::new();
        while let Some(v) = value(&mut tuple) {
            values.push(v);
        }
        assert_eq!(values, [Value::Null, Value::Unchanged, Value::Text(b""), Value::Binary(b"\x01\x02"), Value::Text(b"x")]);
    }

    #[test]
    fn tuples_are_told_apart() {
        let (old, new): (&[u8], &[u8]) = (b"t\0\0\0\x011n", b"t\0\0\0\x012u");
        let with = |kind: u8, tuple: &[u8]| [&[kind, 0, 2][..], tuple].concat();
        let both = [with(b'K', old), with(b'N', new)].concat();
        assert_eq!(Tuples::parse(&both, 2), Some(Tuples { old: Some((b'K', old)), new: Some(new) }));
        assert_eq!(Tuples::parse(&with(b'N', new), 2), Some(Tuples { old: None, new: Some(new) }));
        assert_eq!(Tuples::parse(&both, 3), None, "another number of columns");
        assert_eq!(Tuples::parse(&[with(b'N', new), with(b'K', old)].concat(), 2), None, "the wrong way round");
    }

    #[test]
    fn a_message_that_is_cut_is_none() {
        let whole = relation();
        for end in 1..whole.len() {
            let parsed = Message::parse(&whole[..end]);
            let relation = match parsed {
                Some(Message::Relation { body, .. }) => WireRelation::parse(body),
                _ => None,
            };
            assert_eq!(relation, None, "{end}");
        }
        let tuples = b"N\0\x01t\0\0\0\x03abc";
        for end in 1..tuples.len() {
            assert_eq!(Tuples::parse(&tuples[..end], 1), None, "{end}");
        }
    }
}
