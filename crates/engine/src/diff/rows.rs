//! From parts that differ to rows: matched by hashes, then shown with their values.

use super::first::Differing;
use super::lens::{Seen, Sight};
use super::pairing::Pairing;
use super::{Pass, Row, What};
use crate::verify::arrays::ArrayHasher;
use arrow_array::RecordBatch;
use haul_formats::jsonl::write_json_value;
use haul_model::{Hashes, Result};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// A row by its hashes. In the order of an integer key, else of the key's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    number: i64,
    key: u64,
    row: u64,
}

/// Rows of one key that the other side does not have like that.
#[derive(Debug, Default)]
struct Group {
    number: i64,
    key: u64,
    rows: [Vec<u64>; 2],
}

/// What is left when equal rows are taken away from both sides.
pub(super) struct Matched {
    pub missing: u64,
    pub extra: u64,
    pub changed: u64,
    pub repeated: u64,
    /// Hashes of the keys of rows that the first side has and the second does not hold like that.
    pub wanted: HashSet<u64>,
    groups: Vec<Group>,
}

struct Collected<'a> {
    parts: &'a Differing,
    own: Vec<Entry>,
    all: &'a Mutex<Vec<Entry>>,
}

impl Sight for Collected<'_> {
    fn rows(&mut self, seen: &Seen<'_>) -> bool {
        for row in (0..seen.rows()).filter(|row| self.parts.has(seen.part(*row))) {
            self.own.push(Entry { number: seen.number(row), key: seen.key(row), row: seen.row(row) });
        }
        false
    }

    fn end(mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.own);
    }
}

/// Reads the parts and matches their rows.
///
/// # Errors
/// What reading can meet.
pub(super) fn matched(pass: &Pass<'_>, parts: &Differing) -> Result<Matched> {
    let all = [Mutex::default(), Mutex::default()];
    pass.read(|side| Collected { parts, own: Vec::new(), all: &all[side] })?;
    Ok(Matched::of(all.map(|entries| {
        let mut entries: Vec<Entry> = entries.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.sort_unstable();
        entries
    })))
}

impl Matched {
    /// From both sides' rows, sorted.
    fn of([a, b]: [Vec<Entry>; 2]) -> Self {
        let mut out = Self { missing: 0, extra: 0, changed: 0, repeated: 0, wanted: HashSet::new(), groups: Vec::new() };
        let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            match order {
                Ordering::Equal => drop((a.next(), b.next())),
                Ordering::Less => a.next().into_iter().for_each(|entry| out.left_over(entry, 0)),
                Ordering::Greater => b.next().into_iter().for_each(|entry| out.left_over(entry, 1)),
            }
        }
        for group in &out.groups {
            let [here, there] = group.rows.each_ref().map(|rows| rows.len() as u64);
            out.changed += here.min(there);
            out.missing += here.saturating_sub(there);
            out.extra += there.saturating_sub(here);
            out.repeated += u64::from(here.max(there) > 1);
            if here > 0 {
                out.wanted.insert(group.key);
            }
        }
        out
    }

    fn left_over(&mut self, entry: Entry, side: usize) {
        match self.groups.last_mut() {
            Some(last) if (last.number, last.key) == (entry.number, entry.key) => last.rows[side].push(entry.row),
            _ => {
                let mut group = Group { number: entry.number, key: entry.key, rows: Default::default() };
                group.rows[side].push(entry.row);
                self.groups.push(group);
            }
        }
    }

    /// The first groups, with so many rows or a few more.
    pub fn first(&mut self, rows: usize) -> Told {
        let mut count = 0;
        let enough = |group: &Group| {
            let full = count >= rows;
            count += group.rows[0].len().max(group.rows[1].len());
            full
        };
        let end = self.groups.iter().position(enough).unwrap_or(self.groups.len());
        let mut told = Told { groups: self.groups.drain(..end).collect(), ..Told::default() };
        for group in &told.groups {
            for side in [0, 1] {
                for row in &group.rows[side] {
                    *told.wanted[side].entry((group.key, *row)).or_default() += 1;
                }
            }
        }
        told
    }
}

/// Rows whose values are wanted.
#[derive(Default)]
pub(super) struct Told {
    groups: Vec<Group>,
    /// How often each is wanted, by the hashes of key and row.
    wanted: [HashMap<(u64, u64), u32>; 2],
}

impl Told {
    /// The parts that they lie in.
    pub fn parts(&self, pairing: &Pairing) -> Differing {
        Differing::with(self.groups.iter().map(|group| (group.key, group.number)), pairing.by_number)
    }
}

/// A row with its values as JSON.
#[derive(Debug, Default)]
struct Values {
    texts: Vec<String>,
    hashes: Vec<u64>,
}

type Read = HashMap<(u64, u64), Vec<Values>>;

struct Shown<'a> {
    parts: &'a Differing,
    wanted: &'a HashMap<(u64, u64), u32>,
    places: &'a [usize],
    found: &'a Mutex<Read>,
}

impl Shown<'_> {
    fn wants(&self, seen: &Seen<'_>, row: usize) -> bool {
        self.parts.has(seen.part(row)) && self.wanted.contains_key(&(seen.key(row), seen.row(row)))
    }
}

impl Sight for Shown<'_> {
    fn rows(&mut self, seen: &Seen<'_>) -> bool {
        (0..seen.rows()).any(|row| self.wants(seen, row))
    }

    fn values(&mut self, seen: &Seen<'_>, batch: &RecordBatch, first: usize) -> Result<()> {
        for row in (0..batch.num_rows()).filter(|row| self.wants(seen, first + row)) {
            let hashes = seen.hashes.columns.iter().map(|column| column[first + row]).collect();
            let texts = self.places.iter().map(|place| text(batch, *place, row)).collect();
            let id = (seen.key(first + row), seen.row(first + row));
            self.found.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().push(Values { texts, hashes });
        }
        Ok(())
    }

    fn end(self) {}
}

fn text(batch: &RecordBatch, place: usize, row: usize) -> String {
    let mut out = Vec::new();
    match write_json_value(batch.column(place).as_ref(), batch.schema_ref().field(place), row, &mut out) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => "\"(NaN or infinity)\"".into(),
    }
}

/// Reads the values of the rows that are told, and puts both sides beside one another.
///
/// # Errors
/// What reading can meet.
pub(super) fn values(pass: &Pass<'_>, parts: &Differing, told: &Told) -> Result<Vec<Row>> {
    let found = [Mutex::default(), Mutex::default()];
    let (places, wanted) = (&pass.pairing.places, &told.wanted);
    pass.read(|side| Shown { parts, wanted: &wanted[side], places: &places[side], found: &found[side] })?;
    let mut found: [Read; 2] = found.map(|read| read.into_inner().unwrap_or_else(PoisonError::into_inner));
    let mut rows = Vec::new();
    for group in &told.groups {
        let mut taken = |side: usize, number: usize| {
            let id = (group.key, *group.rows[side].get(number)?);
            // A row that a source gives only once has no values the second time.
            Some(found[side].get_mut(&id).and_then(Vec::pop).unwrap_or_default())
        };
        for number in 0..group.rows[0].len().max(group.rows[1].len()) {
            rows.extend(beside(pass.pairing, taken(0, number), taken(1, number)));
        }
    }
    if !pass.pairing.by_number {
        rows.sort_by(|one, other| one.key.cmp(&other.key));
    }
    Ok(rows)
}

fn beside(pairing: &Pairing, a: Option<Values>, b: Option<Values>) -> Option<Row> {
    let key = |values: &Values| pairing.key_places.iter().map(|place| values.texts.get(*place).cloned().unwrap_or_default()).collect();
    Some(match (a, b) {
        (Some(a), None) => Row { key: key(&a), what: What::Missing(a.texts) },
        (None, Some(b)) => Row { key: key(&b), what: What::Extra(b.texts) },
        (Some(a), Some(b)) => {
            let differing = (0..pairing.names.len()).filter(|place| a.hashes.get(*place) != b.hashes.get(*place));
            let text = |values: &Values, place: usize| values.texts.get(place).cloned().unwrap_or_default();
            let columns = differing.map(|place| (pairing.names[place].clone(), text(&a, place), text(&b, place))).collect();
            Row { key: key(&a), what: What::Changed(columns) }
        }
        (None, None) => return None,
    })
}

struct Keys<'a> {
    parts: &'a Differing,
    wanted: &'a HashSet<u64>,
    hasher: ArrayHasher,
    found: &'a Mutex<HashSet<u64>>,
    /// The rows of the other side are not looked at.
    side: usize,
}

impl Keys<'_> {
    fn wants(&self, seen: &Seen<'_>, row: usize) -> bool {
        self.side == 0 && self.parts.has(seen.part(row)) && self.wanted.contains(&seen.key(row))
    }
}

impl Sight for Keys<'_> {
    fn rows(&mut self, seen: &Seen<'_>) -> bool {
        (0..seen.rows()).any(|row| self.wants(seen, row))
    }

    fn values(&mut self, seen: &Seen<'_>, batch: &RecordBatch, first: usize) -> Result<()> {
        let mut hashes = Hashes::default();
        self.hasher.hash(batch, &mut hashes)?;
        let keys = hashes.rows();
        let wanted = (0..batch.num_rows()).filter(|row| self.wants(seen, first + row)).map(|row| keys[row]);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).extend(wanted);
        Ok(())
    }

    fn end(self) {}
}

/// The keys of these rows of the first side by their values, whatever the rows were compared by.
///
/// # Errors
/// What reading can meet.
pub(super) fn keys(pass: &Pass<'_>, parts: &Differing, wanted: &HashSet<u64>) -> Result<HashSet<u64>> {
    let found = Mutex::default();
    let pairing = pass.pairing;
    pass.read(|side| {
        let places = pairing.key_places.iter().map(|place| pairing.places[side][*place]);
        let hasher = ArrayHasher::new(places.zip(pairing.canons_of_the_key()).collect(), false);
        Keys { parts, wanted, hasher, found: &found, side }
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(of: &[(u64, u64)]) -> Vec<Entry> {
        let mut out: Vec<Entry> = of.iter().map(|(key, row)| Entry { number: *key as i64, key: *key, row: *row }).collect();
        out.sort_unstable();
        out
    }

    #[test]
    fn equal_rows_leave_and_others_are_paired_by_key() {
        let mut matched =
            Matched::of([entries(&[(1, 1), (2, 2), (3, 3), (4, 4), (4, 4)]), entries(&[(1, 1), (3, 30), (4, 4), (5, 5), (5, 6)])]);
        assert_eq!((matched.missing, matched.extra, matched.changed, matched.repeated), (2, 2, 1, 1));
        assert_eq!(matched.wanted, [2, 3, 4].into_iter().collect());
        let told = matched.first(2);
        assert_eq!(told.groups.iter().map(|group| group.key).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(told.wanted[1], [((3, 30), 1)].into_iter().collect());
    }
}
