//! Two sources side by side: whether they hold the same rows, and which rows they do not share.
//!
//! Both sides are read at the same time, each under one snapshot where it can give one, and summed up as `verify` does it: rows, and for each
//! column an order-independent checksum ([`haul_model::digest`]). Columns are paired by name. Where both sides have the same columns of the
//! same types of one server, values are compared by their bytes as they stand in its records; else by value, in the canonical forms of
//! [`crate::verify`].
//!
//! # Down to the rows
//! With a key, the same pass also sums up the rows by parts of the key: blocks of 1024 successive values where it is one integer, its hash
//! otherwise (`lens.rs`). If the whole differs, only the parts that differ are read again, of the same snapshot (an integer key becomes ranges
//! that the server looks up; where nothing leads to them, all is read and the rest dropped), and matched by hashes of key and row (`rows.rs`).
//! The rows to be shown are read a third time for their values. Memory is bounded: [`MOST_MATCHED`] rows of a side are matched at most, and the
//! report says if there were more.

mod first;
mod lens;
mod pairing;
mod rows;

use crate::transform::KeepKeys;
use haul_model::{KeyRanges, ReadPlan, Reading, Result, Source, Sums};
use lens::Lens;
use pairing::Pairing;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Rows of the parts that differ, of one side, that are matched at most.
pub const MOST_MATCHED: u64 = 1 << 19;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The columns that tell rows apart; `None`: a primary key, if a side knows one.
    pub key: Option<Vec<String>>,
    /// Rows that are told one by one.
    pub shown: usize,
    /// Lanes for each side.
    pub lanes: usize,
    /// Threads for each side.
    pub threads: usize,
    /// Whether [`Report::keep`] will be asked for.
    pub repair: bool,
}

/// A column that both sides have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether both sides hold the same values in it.
    pub equal: bool,
    /// NULLs on either side.
    pub nulls: [u64; 2],
}

/// A column whose types have nothing in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomparable {
    /// Its name.
    pub name: String,
    /// What it is on either side.
    pub types: [String; 2],
}

/// A row that is not the same on both sides. Values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The key's values, in its order.
    pub key: Vec<String>,
    /// What is wrong with it.
    pub what: What,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Only the first side has it: the values of all compared columns.
    Missing(Vec<String>),
    /// Only the second side has it.
    Extra(Vec<String>),
    /// Both have it: the columns that differ, and what either side has in them.
    Changed(Vec<(String, String, String)>),
}

/// Rows that differ.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Rows that only the first side has.
    pub missing: u64,
    /// Rows that only the second side has.
    pub extra: u64,
    /// Rows of one key that are not the same.
    pub changed: u64,
    /// Keys of rows that differ, and that several rows of one side have.
    pub repeated: u64,
    /// Whether all parts that differ were looked at.
    pub complete: bool,
    /// The first ones.
    pub shown: Vec<Row>,
    /// Hashes of the keys of rows that the first side has and the second does not hold like that.
    wanted: Arc<HashSet<u64>>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// Names of both sides.
    pub names: [String; 2],
    /// Rows on either side.
    pub rows: [u64; 2],
    /// The columns that were compared.
    pub columns: Vec<Column>,
    /// Columns that only one side has.
    pub only: [Vec<String>; 2],
    /// Columns whose types have nothing in common.
    pub incomparable: Vec<Incomparable>,
    /// Whether values were compared by their bytes.
    pub exact: bool,
    /// The key; empty: there is none.
    pub key: Vec<String>,
    /// Whether the compared columns hold the same rows.
    pub same_rows: bool,
    /// The rows that differ, where there is a key.
    pub found: Option<Found>,
    pairing: Arc<Pairing>,
}

impl Report {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.same_rows && self.only.iter().all(Vec::is_empty) && self.incomparable.is_empty()
    }

    /// Lets only those rows of the first side through that the second one misses or has otherwise, where a repair was asked for.
    pub fn keep(&self) -> Option<KeepKeys> {
        let found = self.found.as_ref()?;
        Some(KeepKeys::new(self.key.clone(), self.pairing.canons_of_the_key(), found.wanted.clone()))
    }
}

/// Compares.
///
/// # Errors
/// A key that is not there; whatever reading either side can meet; a stop.
pub fn diff(a: &mut dyn Source, b: &mut dyn Source, ask: &Ask, stop: &AtomicBool) -> Result<Report> {
    let pairing = Arc::new(Pairing::of(a, b, ask.key.clone())?);
    let reading = Reading { pass_through: None, form: pairing.form, degree: ask.lanes, ordered: false };
    let mut plans = [a.plan(&reading)?, b.plan(&reading)?];
    let first = first::sums(&Pass { sources: [a, b], pairing: &pairing, plans: &plans, threads: ask.threads, stop })?;
    let sums = [&first[0].sums, &first[1].sums];
    let mut report = Report {
        names: [a.name(), b.name()],
        rows: sums.map(|sums| sums.rows),
        columns: columns(&pairing, sums),
        only: pairing.only.clone(),
        incomparable: pairing.incomparable.clone(),
        exact: pairing.exact,
        key: pairing.key.clone(),
        same_rows: sums[0] == sums[1],
        found: None,
        pairing: Arc::clone(&pairing),
    };
    if !report.same_rows && !pairing.key.is_empty() {
        let parts = first::Differing::of(&first);
        plans = again(a, b, &reading, &pairing, parts.ranges(&first))?;
        let pass = Pass { sources: [a, b], pairing: &pairing, plans: &plans, threads: ask.threads, stop };
        let mut matched = rows::matched(&pass, &parts, if pairing.by_number { ask.shown } else { ask.shown.max(FETCHED) })?;
        let narrow = matched.told.parts(&pairing);
        let narrowed = again(a, b, &reading, &pairing, narrow.ranges(&first))?;
        let pass = Pass { sources: [a, b], pairing: &pairing, plans: &narrowed, threads: ask.threads, stop };
        let mut shown = rows::values(&pass, &narrow, &matched.told)?;
        if ask.repair {
            let pass = Pass { sources: [a, b], pairing: &pairing, plans: &plans, threads: ask.threads, stop };
            matched.wanted = rows::keys(&pass, &parts, &matched.wanted)?;
        }
        shown.truncate(ask.shown);
        report.found = Some(Found {
            missing: matched.missing,
            extra: matched.extra,
            changed: matched.changed,
            repeated: matched.repeated,
            complete: parts.complete,
            shown,
            wanted: Arc::new(matched.wanted),
        });
    }
    a.finish()?;
    b.finish()?;
    Ok(report)
}

/// So many rows are fetched where fewer are shown, so that the first ones in the order of their keys can be chosen among them.
const FETCHED: usize = 1000;

fn columns(pairing: &Pairing, sums: [&Sums; 2]) -> Vec<Column> {
    let at = |side: &Sums, place: usize| side.columns.get(place).copied().unwrap_or_default();
    let column = |(place, name): (usize, &String)| {
        let [a, b] = sums.map(|side| at(side, place));
        Column { name: name.clone(), equal: a == b, nulls: [a.nulls, b.nulls] }
    };
    pairing.names.iter().enumerate().map(column).collect()
}

/// Plans both reads once more, of some ranges of the key if they are told.
fn again(
    a: &mut dyn Source,
    b: &mut dyn Source,
    reading: &Reading,
    pairing: &Pairing,
    ranges: Option<[Vec<(i64, i64)>; 2]>,
) -> Result<[ReadPlan; 2]> {
    let [in_a, in_b] = ranges.map_or([None, None], |ranges| ranges.map(|ranges| Some(KeyRanges { key: pairing.key[0].clone(), ranges })));
    let plan = |source: &mut dyn Source, within: Option<KeyRanges>| match source.again(within.as_ref())? {
        Some(plan) => Ok(plan),
        None => source.plan(reading),
    };
    Ok([plan(a, in_a)?, plan(b, in_b)?])
}

/// One reading of both sides.
struct Pass<'a> {
    sources: [&'a dyn Source; 2],
    pairing: &'a Pairing,
    plans: &'a [ReadPlan; 2],
    threads: usize,
    stop: &'a AtomicBool,
}

impl Pass<'_> {
    /// Reads both sides at the same time. What `look` makes for a side sees the side's rows.
    fn read<S: lens::Sight>(&self, look: impl Fn(usize) -> S + Sync) -> Result<()> {
        let failed = AtomicBool::new(false);
        let side = |number: usize| {
            let (source, plan) = (self.sources[number], &self.plans[number]);
            let make = || Ok(lens::Worker { lens: Lens::new(source, self.pairing, number)?, sight: look(number), failed: &failed });
            let read = crate::verify::reread::read(source, plan, &plan.splits, self.threads, self.stop, &make);
            read.inspect_err(|_| failed.store(true, Relaxed))
        };
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| side(1));
            (side(0), other.join().unwrap_or_else(|_| Err(haul_model::Error::internal("a reader panicked"))))
        });
        match (one, other) {
            // The one that only followed the other's failure does not hide it.
            (Err(one), Err(other)) => Err(if one.kind() == haul_model::ErrorKind::Cancelled { other } else { one }),
            (one, other) => one.and(other),
        }
    }
}
