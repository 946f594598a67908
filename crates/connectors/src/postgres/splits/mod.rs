//! Cutting a read into splits: by pages, or by the values of a key.
//!
//! A split is a [`Part`]: plain data that is printed into the plan and parsed again by whoever opens it. Together the parts of one
//! cut hold every row exactly once, whatever the bounds are: pages and key ranges touch and are open at both ends, NULL keys
//! have a part of their own, hashes are of the row's own values. So bounds may come from estimates; they only decide how even the
//! parts are.

mod bounds;
mod key;
mod method;
mod pages;
mod part;
mod values;

pub(super) use bounds::{Scope, even, statistics, tiles};
pub(super) use key::{Key, has_index, is_ordered, primary_key};
pub(super) use method::{Choice, Facts, Method, Pages, WORDS, choose};
pub(super) use pages::cut as cut_pages;
pub(super) use part::Part;
pub(super) use values::{distinct, listed};

/// A relation smaller than this is read in one lane: a second connection costs more than it brings.
pub(super) const WORTH_A_LANE: u64 = 8 << 20;
/// No split is cut smaller than this without need.
const SMALLEST: u64 = 1 << 20;
/// A split is what is committed, and repeated after a failure, as a whole: it is cut to at most about this.
pub(super) const LARGEST: u64 = 256 << 20;
/// Splits for each lane, so that lanes which run at different speeds end together.
const PER_LANE: u64 = 16;

/// A part and what is known of its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sized {
    pub part: Part,
    pub bytes: u64,
}

/// How many parts a key cuts `bytes` into for `lanes`. `cheap`: an index leads to the rows of a part; without one, every part costs
/// a scan of everything, so there are no more parts than lanes. `wanted`: bytes of a part, if somebody has said so.
pub(super) fn count(bytes: u64, lanes: usize, cheap: bool, wanted: Option<u64>) -> u64 {
    let lanes = lanes.max(1) as u64;
    if !cheap {
        return lanes;
    }
    if let Some(wanted) = wanted {
        return bytes.div_ceil(wanted.clamp(1, LARGEST)).max(1);
    }
    let finer = if lanes == 1 { 1 } else { (bytes / SMALLEST).clamp(lanes, lanes * PER_LANE) };
    finer.max(bytes.div_ceil(LARGEST))
}

/// The ranges between bounds, with a part for NULL in front: the largest part should not come last.
pub(super) fn ranges(key: &Key, bounds: Vec<String>, bytes: u64) -> Vec<Sized> {
    if bounds.is_empty() {
        return vec![Sized { part: Part::All, bytes }];
    }
    let each = bytes / (bounds.len() as u64 + 1);
    let mut out = vec![Sized { part: Part::Null(key.name.clone()), bytes: 0 }];
    let mut from = None;
    for to in bounds.into_iter().map(Some).chain([None]) {
        out.push(Sized { part: Part::Range { key: key.name.clone(), from, to: to.clone() }, bytes: each });
        from = to;
    }
    out
}

/// The rows by the hash of their keys.
pub(super) fn hashes(keys: &[Key], count: u64, bytes: u64) -> Vec<Sized> {
    let names: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
    (0..count).map(|part| Sized { part: Part::Hash { keys: names.clone(), part, of: count }, bytes: bytes / count.max(1) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_finer_than_lanes_where_an_index_leads_to_them() {
        for (bytes, lanes, cheap, expected) in [
            (0, 1, true, 1),
            (0, 8, true, 8),
            (0, 64, true, 64),
            (100 << 20, 2, true, 32),
            (20 << 20, 2, true, 20),
            (10 << 30, 2, true, 40),
            (10 << 30, 1, true, 40),
            (10 << 30, 2, false, 2),
            (10 << 30, 0, false, 1),
        ] {
            assert_eq!(count(bytes, lanes, cheap, None), expected, "{bytes} {lanes} {cheap}");
        }
        assert_eq!(
            [count(100 << 20, 2, true, Some(1 << 20)), count(1 << 30, 1, true, Some(u64::MAX)), count(0, 1, true, Some(9))],
            [100, 4, 1]
        );
    }

    #[test]
    fn ranges_touch_and_are_open_at_both_ends() {
        let key = Key::of(&crate::postgres::catalog::PgColumn { name: "k".into(), ..Default::default() });
        let parts: Vec<Part> = ranges(&key, vec!["5".into(), "9".into()], 30).into_iter().map(|sized| sized.part).collect();
        let range =
            |from: Option<&str>, to: Option<&str>| Part::Range { key: "k".into(), from: from.map(Into::into), to: to.map(Into::into) };
        assert_eq!(parts, [Part::Null("k".into()), range(None, Some("5")), range(Some("5"), Some("9")), range(Some("9"), None)]);
        assert_eq!(ranges(&key, Vec::new(), 30), [Sized { part: Part::All, bytes: 30 }]);
    }
}
