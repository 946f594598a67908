//! Cutting tables into ranges of pages.
//!
//! A range of `ctid`s is read by a TID range scan (server 14 or newer): each page once, in its own lane. The last range of a
//! table is open-ended, and the sizes are asked for after the snapshot was taken, so no visible row can lie outside.

use super::{LARGEST, PER_LANE, Part, SMALLEST, Sized};
use crate::postgres::discover::Leaf;

/// Cuts the tables for `lanes`. `ranges`: pages may be asked for; otherwise each table is one part. `wanted`: bytes of a part, if somebody
/// has said so.
pub(in crate::postgres) fn cut(leaves: &[Leaf], lanes: usize, ranges: bool, wanted: Option<u64>) -> Vec<Sized> {
    let total: u64 = leaves.iter().map(Leaf::size).sum();
    // One lane after the other has nobody to wait for: only the size of a split counts.
    let finer = if lanes > 1 { lanes as u64 * PER_LANE } else { 1 };
    let target = wanted.map_or((total / finer).clamp(SMALLEST, LARGEST), |wanted| wanted.clamp(1, LARGEST));
    leaves.iter().flat_map(|leaf| cut_table(leaf, target, ranges)).collect()
}

fn cut_table(leaf: &Leaf, target: u64, ranges: bool) -> Vec<Sized> {
    let block = leaf.block.max(1);
    let pages = leaf.bytes.div_ceil(block);
    let count = if leaf.heap && ranges { leaf.size().div_ceil(target).min(pages).max(1) } else { 1 };
    if count == 1 {
        return vec![Sized { part: Part::Table(leaf.sql.clone()), bytes: leaf.size() }];
    }
    let bound = |i: u64| pages * i / count;
    let share = |i: u64| leaf.toast * i / count;
    (0..count)
        .map(|i| {
            let (from, to) = (bound(i), bound(i + 1));
            let end = (i + 1 < count).then_some(to);
            let bytes = (to - from) * block + share(i + 1) - share(i);
            Sized { part: Part::Pages(leaf.sql.clone(), from, end), bytes }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(bytes: u64, heap: bool) -> Leaf {
        Leaf { sql: "\"s\".\"t\"".into(), heap, bytes, toast: 0, block: 8192, rows: Some(1000), direct: true }
    }

    #[test]
    fn ranges_touch_and_the_last_is_open() {
        for bytes in [0, 8192, 100 << 20, (100 << 20) + 8192, 7 << 30] {
            for lanes in [1, 2, 3, 16] {
                let parts = cut(&[leaf(bytes, true)], lanes, true, None);
                let mut next = Some(0);
                for sized in &parts {
                    assert!(sized.bytes <= LARGEST + 8192, "{sized:?}");
                    match &sized.part {
                        Part::Pages(_, from, to) => {
                            assert_eq!(Some(*from), next);
                            assert!(to.is_none_or(|to| to > *from));
                            next = *to;
                        }
                        Part::Table(_) => next = None,
                        other => panic!("{other}"),
                    }
                }
                assert_eq!(next, None, "{bytes} bytes, {lanes} lanes");
                assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), bytes);
                assert!(parts.len() as u64 <= bytes / SMALLEST + 1);
            }
        }
        assert_eq!(cut(&[leaf(100 << 20, true)], 1, true, None).len(), 1, "one lane needs no finer parts");
        assert_eq!(cut(&[leaf(1 << 30, true)], 1, true, None).len(), 4, "but none larger than a unit of commit");
        assert_eq!(cut(&[leaf(100 << 20, true)], 2, false, None).len(), 1, "an old server");
        assert_eq!(cut(&[leaf(100 << 20, false)], 2, true, None).len(), 1, "another access method");
        assert_eq!(cut(&[leaf(1 << 20, true), leaf(1 << 20, true)], 2, true, None).len(), 2, "every partition once");
    }

    #[test]
    fn values_that_lie_beside_the_table_count() {
        let wide = Leaf { toast: 1 << 30, ..leaf(80 << 10, true) };
        let parts = cut(&[wide], 2, true, None);
        assert!((4..=10).contains(&parts.len()), "no more ranges than pages: {parts:?}");
        assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), (1 << 30) + (80 << 10));
    }
}
