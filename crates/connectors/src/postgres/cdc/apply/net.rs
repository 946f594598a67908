//! The net effect of a stretch of changes on one table: for each key what it was at first and what it is in the end.
//!
//! A row that is changed ten times is written once, and one that is born and gone not at all. A value that an update did not send is taken
//! from the row before, if that is part of the stretch too; else it is left alone in the target.

use super::super::pgoutput::{Value, value};
use super::table::TargetTable;
use haul_model::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A tuple: a part of the chunks that are kept, or one that was put together.
#[derive(Debug, Clone)]
pub enum Tuple {
    /// Chunk, start, end.
    Part(u32, u32, u32),
    Own(Arc<[u8]>),
}

/// Where the parts of tuples lie.
pub type Chunks = [bytes::Bytes];

impl Tuple {
    pub fn bytes<'a>(&'a self, chunks: &'a Chunks) -> &'a [u8] {
        match self {
            Self::Part(chunk, from, to) => &chunks[*chunk as usize][*from as usize..*to as usize],
            Self::Own(bytes) => bytes,
        }
    }
}

/// What has become of a key.
#[derive(Debug, Clone)]
pub enum Fate {
    Put(Tuple),
    Gone,
}

/// A key.
#[derive(Debug)]
pub struct Entry {
    /// Any tuple that has it.
    pub key: Tuple,
    /// It was not there before the stretch.
    pub born: bool,
    pub fate: Fate,
    /// The next entry with the same hash.
    chain: u32,
}

/// What [`Net::take`] says of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Yes,
    /// It depends on what the target holds: the stretch must be written first, and then this change alone.
    Alone,
}

const NONE: u32 = u32::MAX;

/// The net effect on one table.
#[derive(Debug)]
pub struct Net {
    pub table: Arc<TargetTable>,
    pub entries: Vec<Entry>,
    /// Rows that nothing else here is about: of a table without a key, or of a snapshot.
    pub rows: Vec<Tuple>,
    index: HashMap<u64, u32>,
    hasher: RandomState,
    scratch: Vec<u8>,
}

impl Net {
    pub fn new(table: Arc<TargetTable>) -> Self {
        Self { table, entries: Vec::new(), rows: Vec::new(), index: HashMap::new(), hasher: RandomState::new(), scratch: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.rows.is_empty()
    }

    /// Takes a change.
    ///
    /// # Errors
    /// `Protocol`: a tuple that is none, or has no key.
    pub fn take(&mut self, op: u8, old: Option<Tuple>, new: Option<Tuple>, chunks: &Chunks) -> Result<Taken> {
        if op == b'S' || self.table.key.is_empty() {
            return Ok(match (op, new) {
                (b'I' | b'S', Some(new)) => {
                    self.rows.push(new);
                    Taken::Yes
                }
                _ => Taken::Alone,
            });
        }
        match (op, old, new) {
            (b'I', _, Some(new)) => {
                let at = self.entry(&new, true, chunks)?;
                self.entries[at].fate = Fate::Put(new);
            }
            (b'D', Some(old), _) => {
                let at = self.entry(&old, false, chunks)?;
                self.entries[at].fate = Fate::Gone;
            }
            (b'U', old, Some(new)) => {
                let moved = match &old {
                    Some(old) => !self.same_key(old.bytes(chunks), new.bytes(chunks))?,
                    None => false,
                };
                return if let Some(old) = old.filter(|_| moved) { self.move_row(old, new, chunks) } else { self.change(new, chunks) };
            }
            _ => return Err(broken()),
        }
        Ok(Taken::Yes)
    }

    fn change(&mut self, new: Tuple, chunks: &Chunks) -> Result<Taken> {
        let at = self.entry(&new, false, chunks)?;
        let new = match &self.entries[at].fate {
            Fate::Put(before) => self.merged(&new, before, chunks)?,
            Fate::Gone => new,
        };
        self.entries[at].fate = Fate::Put(new);
        Ok(Taken::Yes)
    }

    fn move_row(&mut self, old: Tuple, new: Tuple, chunks: &Chunks) -> Result<Taken> {
        let before = match self.find(&old, chunks)? {
            Some(at) => match &self.entries[at].fate {
                Fate::Put(before) => Some(before.clone()),
                Fate::Gone => None,
            },
            None => None,
        };
        let new = match &before {
            Some(before) => self.merged(&new, before, chunks)?,
            None => new,
        };
        if self.is_partial(&new, chunks)? {
            return Ok(Taken::Alone);
        }
        let at = self.entry(&old, false, chunks)?;
        self.entries[at].fate = Fate::Gone;
        let at = self.entry(&new, true, chunks)?;
        self.entries[at].fate = Fate::Put(new);
        Ok(Taken::Yes)
    }

    /// The entry of a tuple's key, made if there is none.
    fn entry(&mut self, tuple: &Tuple, born: bool, chunks: &Chunks) -> Result<usize> {
        if let Some(at) = self.find(tuple, chunks)? {
            return Ok(at);
        }
        // `find` has left the key in the scratch.
        let hash = self.hasher.hash_one(&self.scratch);
        let at = self.entries.len();
        let chain = self.index.insert(hash, at as u32).unwrap_or(NONE);
        self.entries.push(Entry { key: tuple.clone(), born, fate: Fate::Gone, chain });
        Ok(at)
    }

    fn find(&mut self, tuple: &Tuple, chunks: &Chunks) -> Result<Option<usize>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let key = key_of(&self.table, tuple.bytes(chunks), &mut scratch);
        self.scratch = scratch;
        key?;
        let hash = self.hasher.hash_one(&self.scratch);
        let mut next = self.index.get(&hash).copied().unwrap_or(NONE);
        let mut other = Vec::new();
        while let Some(entry) = self.entries.get(next as usize) {
            key_of(&self.table, entry.key.bytes(chunks), &mut other)?;
            if other == self.scratch {
                return Ok(Some(next as usize));
            }
            next = entry.chain;
        }
        Ok(None)
    }

    fn same_key(&self, a: &[u8], b: &[u8]) -> Result<bool> {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        key_of(&self.table, a, &mut one)?;
        key_of(&self.table, b, &mut two)?;
        Ok(one == two)
    }

    fn is_partial(&self, tuple: &Tuple, chunks: &Chunks) -> Result<bool> {
        let mut rest = tuple.bytes(chunks);
        for _ in 0..self.table.columns.len() {
            if value(&mut rest).ok_or_else(broken)? == Value::Unchanged {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `new`, with what it leaves out taken from the row before.
    fn merged(&self, new: &Tuple, before: &Tuple, chunks: &Chunks) -> Result<Tuple> {
        if !self.is_partial(new, chunks)? {
            return Ok(new.clone());
        }
        let (mut a, mut b, mut out) = (new.bytes(chunks), before.bytes(chunks), Vec::new());
        for _ in 0..self.table.columns.len() {
            let (from_a, from_b) = (a, b);
            let found = value(&mut a).ok_or_else(broken)?;
            value(&mut b).ok_or_else(broken)?;
            let (from, rest) = if found == Value::Unchanged { (from_b, b) } else { (from_a, a) };
            out.extend_from_slice(&from[..from.len() - rest.len()]);
        }
        Ok(Tuple::Own(out.into()))
    }
}

/// Writes the key of a tuple into `out`.
fn key_of(table: &TargetTable, mut tuple: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let mut wanted = table.key.iter().peekable();
    for i in 0..table.columns.len() {
        let from = tuple;
        let found = value(&mut tuple).ok_or_else(broken)?;
        if wanted.next_if(|k| **k == i).is_some() {
            if found == Value::Unchanged {
                return Err(broken());
            }
            out.extend_from_slice(&from[..from.len() - tuple.len()]);
        }
        if wanted.peek().is_none() {
            return Ok(());
        }
    }
    Err(broken())
}

fn broken() -> Error {
    Error::new(ErrorKind::Protocol, "the stream of changes is broken: a change without a key, or a tuple that cannot be understood")
}

#[cfg(test)]
mod tests {
    use super::super::table::TargetColumn;
    use super::*;

    fn table() -> Arc<TargetTable> {
        let column = |sql: &str| TargetColumn { sql: sql.into(), type_name: "text".into() };
        let columns = vec![column("k"), column("a"), column("b")];
        let (display, sql, list) = (String::new(), String::new(), String::new());
        Arc::new(TargetTable { oid: 1, display, sql, columns, list, key: vec![0], overriding: "" })
    }

    /// `-` is unchanged, `.` NULL.
    fn tuple(text: &str) -> Option<Tuple> {
        let mut out = Vec::new();
        for c in text.bytes() {
            match c {
                b'-' => out.push(b'u'),
                b'.' => out.push(b'n'),
                c => out.extend_from_slice(&[b't', 0, 0, 0, 1, c]),
            }
        }
        Some(Tuple::Own(out.into()))
    }

    fn told(net: &Net) -> Vec<String> {
        let text = |tuple: &Tuple| {
            let mut rest = tuple.bytes(&[]);
            let mut out = String::new();
            while let Some(v) = value(&mut rest) {
                match v {
                    Value::Unchanged => out.push('-'),
                    Value::Null => out.push('.'),
                    Value::Text(b) | Value::Binary(b) => out.push_str(std::str::from_utf8(b).unwrap()),
                }
            }
            out
        };
        let entry = |e: &Entry| {
            let fate = match &e.fate {
                Fate::Put(t) => text(t),
                Fate::Gone => format!("{} gone", &text(&e.key)[..1]),
            };
            format!("{}{fate}", if e.born { "+" } else { "" })
        };
        net.entries.iter().map(entry).collect()
    }

    fn net(changes: &[(u8, &str, &str)]) -> (Net, Vec<Taken>) {
        let mut net = Net::new(table());
        let some = |t: &str| if t.is_empty() { None } else { tuple(t) };
        let taken = changes.iter().map(|(op, old, new)| net.take(*op, some(old), some(new), &[]).unwrap()).collect();
        (net, taken)
    }

    #[test]
    fn a_row_is_written_once_however_often_it_changes() {
        let (net, _) =
            net(&[(b'I', "", "1ab"), (b'U', "", "1cb"), (b'U', "", "2xy"), (b'D', "3..", ""), (b'I', "", "4.."), (b'D', "4..", "")]);
        assert_eq!(told(&net), ["+1cb", "2xy", "3 gone", "+4 gone"]);
    }

    #[test]
    fn what_an_update_leaves_out_comes_from_the_row_before_or_stays() {
        let (net, _) =
            net(&[(b'I', "", "1ab"), (b'U', "", "1c-"), (b'U', "", "2x-"), (b'U', "", "2-y"), (b'U', "", "3-z"), (b'U', "", "3--")]);
        assert_eq!(told(&net), ["+1cb", "2xy", "3-z"]);
    }

    #[test]
    fn a_row_that_moves_is_gone_at_its_old_key() {
        let (net, taken) =
            net(&[(b'I', "", "1ab"), (b'U', "1..", "2a-"), (b'U', "3..", "4xy"), (b'U', "4..", "3xy"), (b'U', "9..", "8x-")]);
        assert_eq!(told(&net), ["+1 gone", "+2ab", "3xy", "+4 gone"]);
        assert_eq!(taken.last(), Some(&Taken::Alone), "what it keeps is only in the target");
        // A swap through a third key.
        let (net, _) = self::net(&[(b'U', "1..", "x1."), (b'U', "2..", "12."), (b'U', "x..", "21.")]);
        assert_eq!(told(&net), ["12.", "+x gone", "21."]);
    }

    #[test]
    fn without_a_key_there_are_only_new_rows() {
        let keyless = Arc::new(TargetTable { key: Vec::new(), ..(*table()).clone() });
        let mut net = Net::new(keyless);
        assert_eq!(net.take(b'I', None, tuple("1ab"), &[]).unwrap(), Taken::Yes);
        assert_eq!(net.take(b'D', tuple("1ab"), None, &[]).unwrap(), Taken::Alone);
        assert_eq!(net.rows.len(), 1);
        let mut net = Net::new(table());
        assert_eq!((net.take(b'S', None, tuple("1ab"), &[]).unwrap(), net.rows.len(), net.entries.len()), (Taken::Yes, 1, 0));
    }
}
