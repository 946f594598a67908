//! The first pass: sums of the whole, and of each part of the key.

use super::Pass;
use super::lens::{BLOCK_BITS, PARTS, Seen, Sight, part_of_number};
use haul_model::digest::NO_NUMBER;
use haul_model::{Result, Sums};
use std::sync::{Mutex, PoisonError};

/// Of one side.
pub(super) struct First {
    pub sums: Sums,
    /// Sum of the rows' hashes and number of rows, for each part of the key. Empty without a key.
    parts: Vec<(u64, u64)>,
    /// The smallest and the largest key, where it is an integer.
    ends: Option<(i64, i64)>,
}

impl First {
    fn new(keyed: bool) -> Self {
        Self { sums: Sums::default(), parts: if keyed { vec![(0, 0); PARTS + 1] } else { Vec::new() }, ends: None }
    }

    fn merge(&mut self, more: &Self) {
        self.sums.merge(&more.sums);
        for (one, other) in self.parts.iter_mut().zip(&more.parts) {
            *one = (one.0.wrapping_add(other.0), one.1 + other.1);
        }
        self.ends = match (self.ends, more.ends) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
}

struct Summed<'a> {
    own: First,
    all: &'a Mutex<First>,
}

impl Sight for Summed<'_> {
    fn rows(&mut self, seen: &Seen<'_>) -> bool {
        self.own.sums.add_summed(seen.hashes);
        if self.own.parts.is_empty() {
            return false;
        }
        for row in 0..seen.rows() {
            let (sum, rows) = &mut self.own.parts[seen.part(row)];
            *sum = sum.wrapping_add(seen.row(row));
            *rows += 1;
        }
        for number in seen.hashes.numbers.iter().copied().filter(|number| *number != NO_NUMBER) {
            let (low, high) = self.own.ends.unwrap_or((number, number));
            self.own.ends = Some((low.min(number), high.max(number)));
        }
        false
    }

    fn end(self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).merge(&self.own);
    }
}

/// Reads both sides.
///
/// # Errors
/// What reading can meet.
pub(super) fn sums(pass: &Pass<'_>) -> Result<[First; 2]> {
    let keyed = !pass.pairing.key.is_empty();
    let all = [Mutex::new(First::new(keyed)), Mutex::new(First::new(keyed))];
    pass.read(|side| Summed { own: First::new(keyed), all: &all[side] })?;
    let mut all = all.map(|first| first.into_inner().unwrap_or_else(PoisonError::into_inner));
    // A side without a row has no columns in its sums either.
    for side in &mut all {
        side.sums.columns.resize(pass.pairing.names.len(), Default::default());
    }
    Ok(all)
}

/// Parts of the key.
pub(super) struct Differing {
    chosen: Vec<bool>,
    /// Whether these are all that differ.
    pub complete: bool,
    /// Share of the rows that lie in them.
    share: f64,
}

impl Differing {
    /// The parts that differ, as many as can be matched.
    pub fn of(first: &[First; 2]) -> Self {
        let mut out = Self { chosen: vec![false; PARTS + 1], complete: true, share: 0.0 };
        let mut rows = [0, 0];
        for (part, (a, b)) in first[0].parts.iter().zip(&first[1].parts).enumerate() {
            if a == b {
                continue;
            }
            if rows.iter().any(|n| *n > 0) && (rows[0] + a.1).max(rows[1] + b.1) > super::MOST_MATCHED {
                out.complete = false;
                continue;
            }
            rows = [rows[0] + a.1, rows[1] + b.1];
            out.chosen[part] = true;
        }
        out.share = (rows[0] + rows[1]) as f64 / (first[0].sums.rows + first[1].sums.rows).max(1) as f64;
        out
    }

    /// Those of these numbers, or of these hashes of keys.
    pub fn with(keys: impl Iterator<Item = (u64, i64)>, by_number: bool) -> Self {
        let mut out = Self { chosen: vec![false; PARTS + 1], complete: true, share: 0.0 };
        for (key, number) in keys {
            out.chosen[if by_number { part_of_number(number) } else { key as usize & (PARTS - 1) }] = true;
        }
        out
    }

    pub fn has(&self, part: usize) -> bool {
        self.chosen[part]
    }

    /// The parts as ranges of numbers, between the ends of either side, if that is worth while.
    pub fn ranges(&self, first: &[First; 2]) -> Option<[Vec<(i64, i64)>; 2]> {
        const MOST: usize = 500;
        const TOO_MUCH: f64 = 0.3;
        if self.chosen[PARTS] || self.share > TOO_MUCH {
            return None;
        }
        let parts: Vec<usize> = (0..PARTS).filter(|part| self.chosen[*part]).collect();
        let side = |first: &First| {
            // Without a row there is nothing to be found either.
            let Some((low, high)) = first.ends else { return (first.sums.rows == 0).then(|| vec![(0, 0)]) };
            let (from, to) = (low >> BLOCK_BITS, high >> BLOCK_BITS);
            let times = (i128::from(to) - i128::from(from)) / PARTS as i128 + 2;
            if parts.len() as i128 * times > MOST as i128 {
                return None;
            }
            let mut blocks: Vec<i64> = Vec::new();
            for part in &parts {
                let ahead = (*part as i64 - from).rem_euclid(PARTS as i64);
                let mut block = from.checked_add(ahead);
                while let Some(this) = block.filter(|block| *block <= to) {
                    blocks.push(this);
                    block = this.checked_add(PARTS as i64);
                }
            }
            blocks.sort_unstable();
            Some(joined(&blocks, low, high))
        };
        Some([side(&first[0])?, side(&first[1])?])
    }
}

/// Blocks that touch become one range.
fn joined(blocks: &[i64], low: i64, high: i64) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    for block in blocks {
        let start = block << BLOCK_BITS;
        let end = start | ((1 << BLOCK_BITS) - 1);
        match out.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(start) => *last = end,
            _ => out.push((start, end)),
        }
    }
    // No side has keys past its ends, and its type may have no room for them.
    let mut out: Vec<(i64, i64)> = out.into_iter().map(|(from, to)| (from.max(low), to.min(high))).collect();
    if out.is_empty() {
        out.push((low, low));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(ends: Option<(i64, i64)>, rows: u64) -> First {
        First { sums: Sums { rows, ..Sums::default() }, ends, ..First::new(true) }
    }

    #[test]
    fn parts_become_ranges_between_the_ends() {
        let ranges = |numbers: &[i64], a: (i64, i64), b: (i64, i64)| {
            let parts = Differing::with(numbers.iter().map(|n| (0, *n)), true);
            parts.ranges(&[first(Some(a), 9), first(Some(b), 9)])
        };
        assert_eq!(ranges(&[5], (1, 9000), (-5, 9000)), Some([vec![(1, 1023)], vec![(0, 1023)]]));
        assert_eq!(ranges(&[1500, 2100, 8000], (1, 8000), (1, 2050)), Some([vec![(1024, 3071), (7168, 8000)], vec![(1024, 2050)]]));
        assert_eq!(ranges(&[-1], (-9000, 0), (0, 0)), Some([vec![(-1024, -1)], vec![(0, 0)]]));
        // Far apart, a part comes again.
        let far = 1 << 26;
        assert_eq!(ranges(&[7], (0, far + 5), (0, 5)), Some([vec![(0, 1023), (far, far + 5)], vec![(0, 5)]]));
        assert_eq!(ranges(&[7], (i64::MIN + 1, i64::MAX), (0, 5)), None);
        assert_eq!(ranges(&[i64::MAX], (i64::MAX - 3, i64::MAX), (0, 5)).unwrap()[0], [(i64::MAX - 3, i64::MAX)]);
        assert_eq!(ranges(&[NO_NUMBER], (0, 5), (0, 5)), None);
        let parts = Differing::with([(0, 5)].into_iter(), true);
        assert_eq!(parts.ranges(&[first(None, 0), first(Some((4, 6)), 3)]), Some([vec![(0, 0)], vec![(4, 6)]]));
        assert_eq!(parts.ranges(&[first(None, 3), first(Some((4, 6)), 3)]), None, "keys that are no integers");
    }
}
