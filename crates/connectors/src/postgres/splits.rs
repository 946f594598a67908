//! Cutting tables into ranges of pages.
//!
//! A range of `ctid`s is read by a TID range scan (server 14 or newer): each page once, in its own lane. The last range of a
//! table is open-ended, and the sizes are asked for after the snapshot was taken, so no visible row can lie outside.

use super::catalog::quote_literal;
use super::discover::Leaf;
use haul_model::{Error, Result};

/// A table smaller than this is read in one lane: a second connection costs more than it brings.
pub(super) const WORTH_A_LANE: u64 = 8 << 20;
/// No range is cut smaller than this.
const SMALLEST: u64 = 1 << 20;
/// Ranges for each lane, so that lanes which run at different speeds end together.
const PER_LANE: u64 = 16;

/// What a split reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything, through the relation that the user named (or the query).
    All,
    /// One table of the tree, whole.
    Table(String),
    /// Pages `[from, to)` of one table; without an end to its last page.
    Pages(String, u64, Option<u64>),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Table(sql) => f.write_str(sql),
            Self::Pages(sql, from, Some(to)) => write!(f, "{sql} pages {from}-{to}"),
            Self::Pages(sql, from, None) => write!(f, "{sql} pages {from}-"),
        }
    }
}

impl Part {
    /// From a split's text.
    ///
    /// # Errors
    /// `Internal`: not one of ours.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Self::All);
        }
        if text.ends_with('"') {
            return Ok(Self::Table(text.to_string()));
        }
        let pages = text.rsplit_once(" pages ").and_then(|(sql, range)| {
            let (from, to) = range.split_once('-')?;
            let to = if to.is_empty() { None } else { Some(to.parse().ok()?) };
            Some(Self::Pages(sql.to_string(), from.parse().ok()?, to))
        });
        pages.ok_or_else(|| Error::internal(format!("{text:?} is not a split of a PostgreSQL source")))
    }

    /// Whether which rows it holds depends on a key alone, not on where they lie.
    pub fn is_by_key(&self) -> bool {
        false
    }

    /// The condition that keeps a read within the pages.
    pub fn condition(&self) -> Option<String> {
        let Self::Pages(_, from, to) = self else { return None };
        let tid = |page: &u64| format!("{}::pg_catalog.tid", quote_literal(&format!("({page},0)")));
        let mut terms = Vec::new();
        // The first range needs no lower end.
        if *from > 0 {
            terms.push(format!("ctid >= {}", tid(from)));
        }
        terms.extend(to.as_ref().map(|to| format!("ctid < {}", tid(to))));
        (!terms.is_empty()).then(|| terms.join(" AND "))
    }
}

/// A part and what is known of its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sized {
    pub part: Part,
    pub bytes: u64,
}

/// Cuts the tables for `lanes`. `ranges`: the server has TID range scans.
pub(super) fn cut(leaves: &[Leaf], lanes: usize, ranges: bool) -> Vec<Sized> {
    let total: u64 = leaves.iter().map(|leaf| leaf.bytes).sum();
    let target = (total / (lanes as u64 * PER_LANE).max(1)).max(SMALLEST);
    leaves.iter().flat_map(|leaf| cut_table(leaf, target, ranges)).collect()
}

fn cut_table(leaf: &Leaf, target: u64, ranges: bool) -> Vec<Sized> {
    let count = if leaf.heap && ranges { leaf.bytes.div_ceil(target).max(1) } else { 1 };
    if count == 1 {
        return vec![Sized { part: Part::Table(leaf.sql.clone()), bytes: leaf.bytes }];
    }
    let block = leaf.block.max(1);
    let pages = leaf.bytes.div_ceil(block);
    let bound = |i: u64| pages * i / count;
    (0..count)
        .map(|i| {
            let (from, to) = (bound(i), bound(i + 1));
            let end = (i + 1 < count).then_some(to);
            Sized { part: Part::Pages(leaf.sql.clone(), from, end), bytes: (to - from) * block }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(bytes: u64, heap: bool) -> Leaf {
        Leaf { sql: "\"s\".\"a pages 1-\"".into(), heap, bytes, block: 8192, rows: Some(1000), direct: true }
    }

    #[test]
    fn parts_come_back_from_their_text() {
        let name = "\"s\".\"a pages 1-\"".to_string();
        for part in [Part::All, Part::Table(name.clone()), Part::Pages(name.clone(), 0, Some(9)), Part::Pages(name, 9, None)] {
            assert_eq!(Part::parse(&part.to_string()).unwrap(), part);
        }
        assert!(Part::parse("rubbish").is_err());
    }

    #[test]
    fn ranges_touch_and_the_last_is_open() {
        for bytes in [0, 8192, 100 << 20, (100 << 20) + 8192, 7 << 30] {
            for lanes in [1, 2, 3, 16] {
                let parts = cut(&[leaf(bytes, true)], lanes, true);
                let mut next = Some(0);
                for sized in &parts {
                    match &sized.part {
                        Part::Pages(_, from, to) => {
                            assert_eq!(Some(*from), next);
                            assert!(to.is_none_or(|to| to > *from));
                            next = *to;
                        }
                        Part::Table(_) => next = None,
                        Part::All => panic!("a table was named"),
                    }
                }
                assert_eq!(next, None, "{bytes} bytes, {lanes} lanes");
                assert_eq!(parts.iter().map(|p| p.bytes).sum::<u64>(), bytes);
                assert!(parts.len() as u64 <= bytes / SMALLEST + 1);
            }
        }
        assert_eq!(cut(&[leaf(100 << 20, true)], 2, false).len(), 1, "an old server");
        assert_eq!(cut(&[leaf(100 << 20, false)], 2, true).len(), 1, "another access method");
        assert_eq!(cut(&[leaf(1 << 20, true), leaf(1 << 20, true)], 2, true).len(), 2, "every partition once");
    }

    #[test]
    fn conditions() {
        let part = |from, to| Part::Pages("t".into(), from, to).condition();
        assert_eq!(part(0, Some(5)).as_deref(), Some("ctid < '(5,0)'::pg_catalog.tid"));
        assert_eq!(part(5, Some(9)).as_deref(), Some("ctid >= '(5,0)'::pg_catalog.tid AND ctid < '(9,0)'::pg_catalog.tid"));
        assert_eq!((part(0, None), Part::All.condition()), (None, None));
    }
}
