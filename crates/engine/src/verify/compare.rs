//! Two sums side by side, in words.

use super::Compared;
use haul_model::{Error, ErrorKind, Split, Sums};
use std::collections::BTreeMap;

/// Names of this many columns or splits are told.
const TOLD: usize = 5;

/// Whether what was sent is what was found.
///
/// # Errors
/// `Mismatch`, in words; with its place if it is one column.
pub(crate) fn compare(columns: &[Compared], sent: &Sums, found: &Sums) -> Result<(), Error> {
    let blank = Default::default();
    let at = |sums: &Sums, place: usize| sums.columns.get(place).copied().unwrap_or(blank);
    let differing: Vec<usize> = (0..columns.len()).filter(|place| at(sent, *place) != at(found, *place)).collect();
    if sent.rows != found.rows {
        let found_rows = found.rows as i64;
        let text = match found_rows {
            0.. => format!("{} rows were sent, and the target holds {found_rows} of the load", sent.rows),
            // Others deleted rows that were there.
            _ => format!("{} rows were sent, and the target holds {} fewer than before", sent.rows, found_rows.unsigned_abs()),
        };
        return Err(Error::new(ErrorKind::Mismatch, text));
    }
    let nulls = |place: usize| match (at(sent, place).nulls, at(found, place).nulls) {
        (sent, found) if sent != found => format!(" ({sent} NULLs sent, {found} there)"),
        _ => String::new(),
    };
    match differing.as_slice() {
        [] if sent.sum == found.sum => Ok(()),
        [] => Err(Error::new(ErrorKind::Mismatch, "every column holds the values that were sent, but some of them in other rows")),
        [place] => Err(Error::new(ErrorKind::Mismatch, format!("the values are not those that were sent{}", nulls(*place)))
            .column(&columns[*place].name)),
        many => {
            let names: Vec<String> = many.iter().map(|place| format!("{:?}{}", columns[*place].name, nulls(*place))).collect();
            Err(Error::new(ErrorKind::Mismatch, format!("the values are not those that were sent, in columns {}", listed(&names))))
        }
    }
}

/// The splits whose rows are not there as they were sent.
pub(crate) fn differing(splits: &[Split], sent: &BTreeMap<u32, Sums>, found: &BTreeMap<u32, Sums>) -> Vec<String> {
    let nothing = Sums::default();
    let of =
        |sums: &BTreeMap<u32, Sums>, split: u32| sums.get(&split).cloned().filter(|sums| sums.rows > 0).unwrap_or_else(|| nothing.clone());
    splits.iter().filter(|split| of(sent, split.id) != of(found, split.id)).map(|split| split.what.clone()).collect()
}

/// Says in which splits.
pub(crate) fn in_splits(error: Error, splits: &[String]) -> Error {
    match splits {
        [] => error,
        [one] => error.within(format!("in split {one}")),
        many => error.within(format!("in splits {}", listed(many))),
    }
}

fn listed(names: &[String]) -> String {
    match names.len().checked_sub(TOLD) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..TOLD].join(", ")),
    }
}
