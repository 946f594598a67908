//! From parts that differ to rows: matched by hashes, then shown with their values.

use super::first::Differing;
use super::lens::{Seen, Sight};
use super::pairing::Pairing;
use super::{Pass, Row, What};
use crate::verify::arrays::ArrayHasher;
use arrow_array::RecordBatch;
use haul_formats::jsonl::write_json_value;
use haul_model::{Hashes, Result};
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
    /// Whether others of this key are equal.
    equal: bool,
}

/// What is left when equal rows are taken away from both sides.
#[derive(Default)]
pub(super) struct Matched {
    pub missing: u64,
    pub extra: u64,
    pub changed: u64,
    pub repeated: u64,
    /// Hashes of the keys of rows that the first side has and the second does not hold like that.
    pub wanted: HashSet<u64>,
    /// The first ones.
    pub told: Told,
    /// The key that is at hand.
    open: Group,
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

/// Reads the parts and matches their rows; the first `told` of them will be told.
///
/// # Errors
/// What reading can meet.
pub(super) fn matched(pass: &Pass<'_>, parts: &Differing, told: usize) -> Result<Matched> {
    let all = [Mutex::default(), Mutex::default()];
    pass.read(|side| Collected { parts, own: Vec::new(), all: &all[side] })?;
    let sorted = all.map(|entries| {
        let mut entries: Vec<Entry> = entries.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.sort_unstable();
        entries
    });
    Ok(Matched::of(sorted, told))
}

impl Matched {
    /// From both sides' rows, sorted.
    fn of([a, b]: [Vec<Entry>; 2], told: usize) -> Self {
        let mut out = Self::default();
        let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
        loop {
            let (entry, sides): (_, &[usize]) = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(one), Some(other)) if one == other => (b.next().and(a.next()), &[]),
                (Some(one), Some(other)) if one > other => (b.next(), &[1]),
                (Some(_), _) => (a.next(), &[0]),
                (None, Some(_)) => (b.next(), &[1]),
            };
            let Some(entry) = entry else { break };
            // Rows of one key are neighbours.
            if (out.open.number, out.open.key) != (entry.number, entry.key) {
                out.close(told);
                out.open = Group { number: entry.number, key: entry.key, ..Group::default() };
            }
            match sides {
                [side] => out.open.rows[*side].push(entry.row),
                _ => out.open.equal = true,
            }
        }
        out.close(told);
        out
    }

    /// Counts the rows of a key.
    fn close(&mut self, told: usize) {
        let mut group = std::mem::take(&mut self.open);
        let [here, there] = group.rows.each_ref().map(Vec::len);
        let (pairs, more) = (here.min(there), here.max(there));
        if more == 0 {
            return;
        }
        self.changed += pairs as u64;
        self.missing += (here - pairs) as u64;
        self.extra += (there - pairs) as u64;
        self.repeated += u64::from(group.equal || more > 1);
        if here > 0 {
            self.wanted.insert(group.key);
        }
        if self.told.rows < told {
            self.told.rows += more;
            group.rows.iter_mut().for_each(|rows| rows.truncate(told));
            for (wanted, rows) in self.told.wanted.iter_mut().zip(&group.rows) {
                wanted.extend(rows.iter().map(|row| (group.key, *row)));
            }
            self.told.groups.push(group);
        }
    }
}

/// Rows whose values are wanted.
#[derive(Default)]
pub(super) struct Told {
    groups: Vec<Group>,
    rows: usize,
    /// By the hashes of key and row.
    wanted: [HashSet<(u64, u64)>; 2],
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
    wanted: &'a HashSet<(u64, u64)>,
    places: &'a [usize],
    found: &'a Mutex<Read>,
}

impl Shown<'_> {
    fn wants(&self, seen: &Seen<'_>, row: usize) -> bool {
        self.parts.has(seen.part(row)) && self.wanted.contains(&(seen.key(row), seen.row(row)))
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

/// A longer value is shown by its beginning.
const LONGEST: usize = 64 << 10;

fn text(batch: &RecordBatch, place: usize, row: usize) -> String {
    let mut out = Vec::new();
    match write_json_value(batch.column(place).as_ref(), batch.schema_ref().field(place), row, &mut out) {
        Ok(()) if out.len() > LONGEST => {
            let beginning: String = String::from_utf8_lossy(&out).chars().take(1000).collect();
            serde_json::Value::from(format!("{beginning}\u{2026} ({} bytes)", out.len())).to_string()
        }
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
        let sides = [entries(&[(1, 1), (2, 2), (3, 3), (4, 4), (4, 4)]), entries(&[(1, 1), (3, 30), (4, 4), (5, 5), (5, 6)])];
        let matched = Matched::of(sides, 2);
        assert_eq!((matched.missing, matched.extra, matched.changed, matched.repeated), (2, 2, 1, 2));
        assert_eq!(matched.wanted, [2, 3, 4].into_iter().collect());
        assert_eq!(matched.told.groups.iter().map(|group| group.key).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(matched.told.wanted[1], [(3, 30)].into_iter().collect());
    }
}
