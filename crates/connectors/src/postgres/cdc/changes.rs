//! The encoding `pg-changes`: changes in commit order, in chunks that can be understood alone.
//!
//! A chunk is records back to back: a letter, the length of what follows (32 bit big-endian), and that. A chunk that begins inside a
//! transaction repeats its head, and the shape of a table stands in every chunk before the first change that refers to it. Tuples are as
//! the server sent them ([`super::pgoutput`]). What counts as a record for the account is a change; heads and shapes do not.
//!
//! | letter | what | content |
//! |---|---|---|
//! | `B` | head of a transaction | commit LSN, commit time, xid, number of the next change in it |
//! | `C` | its end | LSN behind the commit record |
//! | `R` | shape of a table | number, schema, name, replica identity, columns |
//! | `I` `U` `D` | insert, update, delete | number of the shape, tuples |
//! | `S` | row of the snapshot | number of the shape, tuple |
//! | `T` | truncate | number of the shape |

use super::pgoutput::{u16_of, u32_of, u64_of};
use super::shape::Shape;
use haul_pgwire::Lsn;

/// The name of the encoding.
pub const FORMAT: &str = "pg-changes";

/// The head of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Where its commit record begins; for a snapshot, where the slot begins.
    pub commit: Lsn,
    /// Microseconds since 2000.
    pub at: i64,
    /// 0: the snapshot.
    pub xid: u32,
    /// Number of the next change in it, from 0.
    pub next: u64,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    Begin(Head),
    Commit {
        end: Lsn,
    },
    Shape {
        id: u32,
        body: &'a [u8],
    },
    Row {
        /// `I`, `U`, `D` or `S`.
        op: u8,
        shape: u32,
        tuples: &'a [u8],
    },
    Truncate {
        shape: u32,
    },
}

/// Walks over the records of a chunk. `Err` and then nothing, if the chunk is broken.
#[derive(Debug, Clone)]
pub struct Records<'a>(&'a [u8]);

/// A chunk that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl<'a> Records<'a> {
    pub fn new(chunk: &'a [u8]) -> Self {
        Self(chunk)
    }

    fn step(&mut self) -> Option<Record<'a>> {
        let (&tag, mut rest) = self.0.split_first()?;
        let length = u32_of(&mut rest)? as usize;
        let (mut body, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        let body = &mut body;
        Some(match tag {
            b'I' | b'U' | b'D' | b'S' => Record::Row { op: tag, shape: u32_of(body)?, tuples: body },
            b'B' => Record::Begin(Head { commit: Lsn(u64_of(body)?), at: u64_of(body)? as i64, xid: u32_of(body)?, next: u64_of(body)? }),
            b'C' => Record::Commit { end: Lsn(u64_of(body)?) },
            b'R' => Record::Shape { id: u32_of(body)?, body },
            b'T' => Record::Truncate { shape: u32_of(body)? },
            _ => return None,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let step = self.step().ok_or(Broken);
        if step.is_err() {
            self.0 = &[];
        }
        Some(step)
    }
}

/// Puts a chunk together.
#[derive(Debug, Default)]
pub struct ChunkWriter {
    bytes: Vec<u8>,
    /// Changes in it.
    rows: u64,
    /// Numbers of the shapes that stand in it.
    shapes: Vec<u32>,
    /// Whether it has the head of the transaction that goes on.
    headed: bool,
}

impl ChunkWriter {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    fn record(&mut self, tag: u8, parts: &[&[u8]]) {
        self.bytes.push(tag);
        let length: usize = parts.iter().map(|p| p.len()).sum();
        self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    fn before(&mut self, head: &Head, shape: &Shape) {
        if !self.headed {
            let (commit, at) = (head.commit.0.to_be_bytes(), head.at.to_be_bytes());
            self.record(b'B', &[&commit, &at, &head.xid.to_be_bytes(), &head.next.to_be_bytes()]);
            self.headed = true;
        }
        if !self.shapes.contains(&shape.id) {
            self.shapes.push(shape.id);
            self.record(b'R', &[&shape.id.to_be_bytes(), &shape.told]);
        }
    }

    /// A change of a row, or (`S`) a row of the snapshot.
    #[inline]
    pub fn row(&mut self, head: &Head, shape: &Shape, op: u8, tuples: &[u8]) {
        self.before(head, shape);
        self.record(op, &[&shape.id.to_be_bytes(), tuples]);
        self.rows += 1;
    }

    pub fn truncate(&mut self, head: &Head, shape: &Shape) {
        self.before(head, shape);
        self.record(b'T', &[&shape.id.to_be_bytes()]);
        self.rows += 1;
    }

    /// The transaction ends. Nothing is said of one that has no change here.
    pub fn commit(&mut self, end: Lsn) {
        if std::mem::take(&mut self.headed) {
            self.record(b'C', &[&end.0.to_be_bytes()]);
        }
    }

    /// A number between two heads was left out: the next change says its own.
    pub fn skip(&mut self) {
        self.headed = false;
    }

    /// The chunk and the number of its changes; the next one begins empty.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        self.shapes.clear();
        self.headed = false;
        let capacity = self.bytes.capacity().min(1 << 20);
        (std::mem::replace(&mut self.bytes, Vec::with_capacity(capacity)), std::mem::take(&mut self.rows))
    }
}

/// What a chunk tells of a table: enough to write into one like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub schema: String,
    pub name: String,
    /// `d`efault, `n`othing, `f`ull, `i`ndex.
    pub identity: u8,
    pub columns: Vec<ToldColumn>,
}

/// A column of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldColumn {
    /// Whether it belongs to the replica identity.
    pub key: bool,
    pub name: String,
    /// The type as SQL.
    pub type_name: String,
}

impl Told {
    /// `schema.name`, for messages.
    pub fn display(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The content of a record `R` behind the number.
    pub fn print(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        };
        text(&mut out, &self.schema);
        text(&mut out, &self.name);
        out.push(self.identity);
        out.extend_from_slice(&(self.columns.len() as u16).to_be_bytes());
        for column in &self.columns {
            out.push(u8::from(column.key));
            text(&mut out, &column.name);
            text(&mut out, &column.type_name);
        }
        out
    }

    /// The same, read.
    pub fn parse(mut body: &[u8]) -> Option<Self> {
        let rest = &mut body;
        fn text(rest: &mut &[u8]) -> Option<String> {
            let end = memchr::memchr(0, rest)?;
            let text = std::str::from_utf8(&rest[..end]).ok()?.to_string();
            *rest = &rest[end + 1..];
            Some(text)
        }
        fn byte(rest: &mut &[u8]) -> Option<u8> {
            let (byte, tail) = rest.split_first()?;
            *rest = tail;
            Some(*byte)
        }
        let (schema, name, identity) = (text(rest)?, text(rest)?, byte(rest)?);
        let count = u16_of(rest)?;
        let columns = (0..count).map(|_| Some(ToldColumn { key: byte(rest)? != 0, name: text(rest)?, type_name: text(rest)? }));
        Some(Self { schema, name, identity, columns: columns.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str) -> Told {
        let column = |key, name: &str, t: &str| ToldColumn { key, name: name.into(), type_name: t.into() };
        let columns = vec![column(true, "id", "integer"), column(false, "t", "text")];
        Told { schema: "public".into(), name: name.into(), identity: b'd', columns }
    }

    fn shape(id: u32, name: &str) -> Shape {
        Shape { id, told: told(name).print(), ..Shape::default() }
    }

    #[test]
    fn a_chunk_can_be_understood_alone() {
        let (a, b) = (shape(3, "a"), shape(4, "b"));
        let head = |next| Head { commit: Lsn(100), at: 7, xid: 9, next };
        let mut writer = ChunkWriter::default();
        writer.row(&head(0), &a, b'I', b"one");
        writer.row(&head(1), &b, b'U', b"two");
        let (first, rows) = writer.take();
        assert_eq!(rows, 2);
        writer.row(&head(2), &a, b'D', b"three");
        writer.truncate(&head(3), &a);
        writer.commit(Lsn(130));
        writer.commit(Lsn(140));
        let (second, rows) = writer.take();
        assert_eq!((rows, writer.take().0.len()), (2, 0));
        let all = |chunk: &[u8]| Records::new(chunk).map(|r| format!("{:?}", r.unwrap())).collect::<Vec<_>>();
        let row = |op: u8, shape, tuples: &[u8]| format!("{:?}", Record::Row { op, shape, tuples });
        let shaped = |s: &Shape| format!("{:?}", Record::Shape { id: s.id, body: &s.told });
        let begin = |next| format!("{:?}", Record::Begin(head(next)));
        assert_eq!(all(&first), [begin(0), shaped(&a), row(b'I', 3, b"one"), shaped(&b), row(b'U', 4, b"two")]);
        let end = [format!("{:?}", Record::Truncate { shape: 3 }), format!("{:?}", Record::Commit { end: Lsn(130) })];
        assert_eq!(all(&second), [&[begin(2), shaped(&a), row(b'D', 3, b"three")][..], &end].concat());
    }

    #[test]
    fn a_chunk_that_is_cut_is_broken() {
        let mut writer = ChunkWriter::default();
        writer.row(&Head::default(), &shape(1, "a"), b'I', b"one");
        let (chunk, _) = writer.take();
        for end in 1..chunk.len() {
            let records: Vec<_> = Records::new(&chunk[..end]).collect();
            let whole = records.iter().filter(|r| r.is_ok()).count();
            assert!(records.last().unwrap().is_err() || whole < 3, "{end}");
        }
        assert_eq!(Records::new(b"X\0\0\0\0").collect::<Vec<_>>(), [Err(Broken)]);
    }

    #[test]
    fn shapes_are_told() {
        let told = told("weird \"name");
        let bytes = told.print();
        assert_eq!(Told::parse(&bytes), Some(told));
        assert!((0..bytes.len()).all(|end| Told::parse(&bytes[..end]).is_none()));
    }
}
