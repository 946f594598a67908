//! From the messages of a stream to chunks: which transaction, which table, which change, and what of it is wanted. No IO but the look-up of
//! types that a table got since the stream began.

use super::changes::{ChunkWriter, Head};
use super::pgoutput::{Message, WireRelation};
use super::place::Place;
use super::shape::{Shape, Shapes};
use crate::postgres::catalog::PgColumn;
use haul_model::{Error, ErrorKind, Result};
use haul_pgwire::Lsn;
use std::collections::HashMap;
use std::sync::Arc;

/// Looks up columns of which only names, types and modifiers are known.
pub type LookUp<'a> = dyn FnMut(&[(String, u32, i32)]) -> Result<Vec<PgColumn>> + 'a;

/// A table of the stream.
struct Known {
    shape: Arc<Shape>,
    /// As the server described it.
    wire: Vec<u8>,
    wanted: bool,
}

/// A transaction that is being received.
struct Open {
    head: Head,
    /// So many of its first changes were taken by an earlier run.
    done: u64,
}

/// Takes messages one by one and fills chunks.
pub struct Sorter {
    shapes: Arc<Shapes>,
    /// Schema and name of the tables that are wanted; `None`: all.
    wanted: Option<Vec<(String, String)>>,
    /// Everything up to here was taken by an earlier run.
    from: Place,
    /// The stream ends before the transaction that commits here or later.
    until: Option<Lsn>,
    max_row_bytes: u64,
    known: HashMap<u32, Known>,
    open: Option<Open>,
    pub chunk: ChunkWriter,
    /// Up to here everything was received and is in a chunk, or is none of ours.
    pub place: Place,
    /// Behind the last transaction that was received as a whole.
    pub committed: Lsn,
    pub ended: bool,
}

impl Sorter {
    pub fn new(shapes: Arc<Shapes>, wanted: Option<Vec<(String, String)>>, from: Place, until: Option<Lsn>, max_row_bytes: u64) -> Self {
        Self {
            shapes,
            wanted,
            from,
            until,
            max_row_bytes,
            known: HashMap::new(),
            open: None,
            chunk: ChunkWriter::default(),
            place: from,
            committed: if from.index == 0 { from.lsn } else { Lsn(0) },
            ended: false,
        }
    }

    /// Whether the stream stands between two transactions.
    pub fn is_between(&self) -> bool {
        self.open.is_none()
    }

    /// Whether the server is to say how far it has sent: the end of the stream depends on it.
    pub fn wants_word(&self) -> bool {
        self.until.is_some() && self.open.is_none() && !self.ended
    }

    /// The server has nothing more before `end`.
    pub fn nothing_before(&mut self, end: Lsn) {
        if self.open.is_some() {
            return;
        }
        if Place::at(end) > self.place {
            self.place = Place::at(end);
        }
        self.committed = self.committed.max(end);
        if self.until.is_some_and(|until| end >= until) {
            self.ended = true;
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `Protocol`: not a message of this protocol; `Limit`: a change that is too large; those of `look_up`.
    pub fn take(&mut self, payload: &[u8], look_up: &mut LookUp<'_>) -> Result<()> {
        match Message::parse(payload).ok_or_else(|| broken("a message cannot be understood"))? {
            Message::Begin { commit, at, xid } => {
                if self.until.is_some_and(|until| commit >= until) {
                    self.ended = true;
                    return Ok(());
                }
                let done = match commit.cmp(&self.from.lsn) {
                    std::cmp::Ordering::Less => u64::MAX,
                    std::cmp::Ordering::Equal => self.from.index,
                    std::cmp::Ordering::Greater => 0,
                };
                self.open = Some(Open { head: Head { commit, at, xid, next: 0 }, done });
            }
            Message::Commit { end } => {
                self.chunk.commit(end);
                self.open = None;
                self.committed = self.committed.max(end);
                self.place = self.place.max(Place::at(end));
                if self.until.is_some_and(|until| end >= until) {
                    self.ended = true;
                }
            }
            Message::Relation { oid, body } => self.relation(oid, body, look_up)?,
            Message::Row { op, oid, tuples } => self.row(oid, op, tuples)?,
            Message::Truncate { oids } => {
                for oid in oids.chunks_exact(4) {
                    let oid = u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]);
                    self.change(oid, |chunk, head, shape| chunk.truncate(head, shape))?;
                }
            }
            Message::Aside => {}
        }
        Ok(())
    }

    fn row(&mut self, oid: u32, op: u8, tuples: &[u8]) -> Result<()> {
        if tuples.len() as u64 > self.max_row_bytes {
            let table = self.known.get(&oid).map(|known| known.shape.display()).unwrap_or_default();
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a change of {} bytes is larger than the limit of {} bytes", tuples.len(), self.max_row_bytes),
            )
            .object(table)
            .hint("raise --max-row-bytes"));
        }
        self.change(oid, |chunk, head, shape| chunk.row(head, shape, op, tuples))
    }

    #[inline]
    fn change(&mut self, oid: u32, put: impl FnOnce(&mut ChunkWriter, &Head, &Shape)) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(|| broken("a change outside of a transaction"))?;
        let known = self.known.get(&oid).ok_or_else(|| broken("a change of a table that was not described"))?;
        if open.head.next < open.done || !known.wanted {
            self.chunk.skip();
        } else {
            put(&mut self.chunk, &open.head, &known.shape);
        }
        open.head.next += 1;
        if open.done != u64::MAX {
            self.place = self.place.max(Place { lsn: open.head.commit, index: open.head.next });
        }
        Ok(())
    }

    fn relation(&mut self, oid: u32, body: &[u8], look_up: &mut LookUp<'_>) -> Result<()> {
        if self.known.get(&oid).is_some_and(|known| known.wire == body) {
            return Ok(());
        }
        let wire = WireRelation::parse(body).ok_or_else(|| broken("the description of a table cannot be understood"))?;
        let wanted = self.wanted.as_ref().is_none_or(|all| all.iter().any(|(schema, name)| *schema == wire.schema && *name == wire.name));
        let named: Vec<(String, u32, i32)> = wire.columns.iter().map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect();
        let columns = if wanted { look_up(&named)? } else { Vec::new() };
        let shape = self.shapes.add(oid, &wire, columns);
        self.known.insert(oid, Known { shape, wire: body.to_vec(), wanted });
        Ok(())
    }
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the stream of changes is broken: {what}"))
}

#[cfg(test)]
mod tests {
    use super::super::changes::{Record, Records};
    use super::*;

    fn begin(commit: u64) -> Vec<u8> {
        let mut bytes = vec![b'B'];
        bytes.extend_from_slice(&commit.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&9u32.to_be_bytes());
        bytes
    }

    fn commit(commit: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![b'C', 0];
        for n in [commit, end, 0] {
            bytes.extend_from_slice(&n.to_be_bytes());
        }
        bytes
    }

    fn relation(oid: u32, name: &str) -> Vec<u8> {
        let mut bytes = vec![b'R'];
        bytes.extend_from_slice(&oid.to_be_bytes());
        bytes.extend_from_slice(format!("public\0{name}\0d\0\u{1}\u{1}id\0").as_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 23, 255, 255, 255, 255]);
        bytes
    }

    fn insert(oid: u32, value: &str) -> Vec<u8> {
        let mut bytes = vec![b'I'];
        bytes.extend_from_slice(&oid.to_be_bytes());
        bytes.extend_from_slice(b"N\0\x01t\0\0\0\x01");
        bytes.extend_from_slice(value.as_bytes());
        bytes
    }

    fn sorter(from: Place, until: Option<u64>) -> Sorter {
        Sorter::new(Arc::default(), Some(vec![("public".into(), "a".into())]), from, until.map(Lsn), 100)
    }

    fn feed(sorter: &mut Sorter, messages: &[Vec<u8>]) {
        for message in messages {
            sorter.take(message, &mut |named| Ok(vec![PgColumn::default(); named.len()])).unwrap();
        }
    }

    /// (number in its transaction, last byte) of each change in the chunk.
    fn rows(sorter: &mut Sorter) -> Vec<(u64, char)> {
        let (chunk, _) = sorter.chunk.take();
        let (mut out, mut next) = (Vec::new(), 0);
        for record in Records::new(&chunk) {
            match record.unwrap() {
                Record::Begin(head) => next = head.next,
                Record::Row { tuples, .. } => {
                    out.push((next, char::from(*tuples.last().unwrap())));
                    next += 1;
                }
                _ => {}
            }
        }
        out
    }

    /// Two transactions, at 100 and 200, with changes of a wanted and of another table.
    fn stream() -> Vec<Vec<u8>> {
        let (a, b) = (relation(1, "a"), relation(2, "b"));
        let first = [begin(100), a, insert(1, "u"), b, insert(2, "x"), insert(1, "v"), commit(100, 130)];
        let second = [begin(200), insert(2, "y"), insert(1, "w"), commit(200, 230)];
        [&first[..], &second[..]].concat()
    }

    #[test]
    fn changes_are_numbered_with_those_that_nobody_wants() {
        let mut sorter = sorter(Place::at(Lsn(50)), None);
        feed(&mut sorter, &stream());
        assert_eq!(rows(&mut sorter), [(0, 'u'), (2, 'v'), (1, 'w')]);
        assert_eq!((sorter.place, sorter.committed, sorter.is_between()), (Place::at(Lsn(230)), Lsn(230), true));
    }

    #[test]
    fn a_restart_at_every_place_gives_the_rest_and_nothing_twice() {
        let all = [(100, 0, 'u'), (100, 2, 'v'), (200, 1, 'w')];
        for (lsn, index) in [(50, 0), (100, 0), (100, 1), (100, 2), (100, 3), (130, 0), (200, 0), (200, 1), (200, 2), (230, 0)] {
            let mut sorter = sorter(Place { lsn: Lsn(lsn), index }, None);
            feed(&mut sorter, &stream());
            let rest: Vec<(u64, char)> = all.iter().filter(|(l, i, _)| (*l, *i) >= (lsn, index)).map(|(_, i, c)| (*i, *c)).collect();
            assert_eq!(rows(&mut sorter), rest, "from {lsn}, {index}");
        }
    }

    #[test]
    fn places_inside_a_transaction_never_go_back() {
        let mut sorter = sorter(Place { lsn: Lsn(100), index: 2 }, None);
        let mut before = sorter.place;
        for message in stream() {
            feed(&mut sorter, &[message]);
            assert!(sorter.place >= before);
            before = sorter.place;
        }
        // A sign of life in the middle of a transaction says nothing.
        feed(&mut sorter, &[begin(300)]);
        sorter.nothing_before(Lsn(290));
        assert_eq!(sorter.place, Place::at(Lsn(230)));
        feed(&mut sorter, &[commit(300, 330)]);
        sorter.nothing_before(Lsn(340));
        assert_eq!((sorter.place, sorter.committed), (Place::at(Lsn(340)), Lsn(340)));
    }

    #[test]
    fn a_stream_ends_where_it_is_told_to() {
        for (until, expected) in [(100, ""), (101, "uv"), (130, "uv"), (200, "uv"), (201, "uvw")] {
            let mut sorter = sorter(Place::default(), Some(until));
            for message in stream() {
                if !sorter.ended {
                    feed(&mut sorter, &[message]);
                }
            }
            assert!(sorter.ended || until == 201, "{until}");
            assert_eq!(rows(&mut sorter).iter().map(|(_, c)| *c).collect::<String>(), expected, "{until}");
        }
        let mut quiet = sorter(Place::default(), Some(500));
        quiet.nothing_before(Lsn(499));
        assert!(!quiet.ended);
        quiet.nothing_before(Lsn(500));
        assert!(quiet.ended);
    }

    #[test]
    fn a_table_that_is_altered_gets_another_shape() {
        let mut sorter = sorter(Place::default(), None);
        let mut altered = relation(1, "a");
        altered[1 + 4 + 7 + 2] = b'f';
        feed(&mut sorter, &[begin(1), relation(1, "a"), relation(1, "a"), insert(1, "u"), altered, insert(1, "v"), commit(1, 2)]);
        let (chunk, _) = sorter.chunk.take();
        let shapes: Vec<u32> =
            Records::new(&chunk).filter_map(|r| if let Record::Shape { id, .. } = r.unwrap() { Some(id) } else { None }).collect();
        assert_eq!(shapes, [0, 1]);
    }

    #[test]
    fn what_is_broken_or_too_large_stops_it() {
        let mut sorter = sorter(Place::default(), None);
        let mut take = |message: &[u8]| sorter.take(message, &mut |_| Ok(Vec::new())).map_err(|e| e.to_string());
        assert!(take(b"?").unwrap_err().contains("cannot be understood"));
        assert!(take(&insert(1, "u")).unwrap_err().contains("outside of a transaction"));
        take(&begin(1)).unwrap();
        assert!(take(&insert(1, "u")).unwrap_err().contains("was not described"));
        take(&relation(1, "a")).unwrap();
        let error = take(&insert(1, &"u".repeat(100))).unwrap_err();
        assert!(error.contains("public.a") && error.contains("108 bytes is larger than the limit of 100"), "{error}");
    }
}
