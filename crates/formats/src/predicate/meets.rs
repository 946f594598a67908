//! Which rows meet a condition, and which groups of rows cannot hold one that does.

use super::Compare;
use super::bind::{Bound, Part, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use std::cmp::Ordering;

/// Which rows meet a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// All of them.
    All,
    /// These.
    Some(BooleanBuffer),
}

/// What is known of a column in several groups of rows: entry `i` is of group `i`, NULL where it is not known.
pub struct Limits {
    /// No value is smaller.
    pub least: arrow_array::ArrayRef,
    /// No value is larger.
    pub most: arrow_array::ArrayRef,
    /// How many are NULL.
    pub nulls: Vec<Option<u64>>,
    /// How many rows there are.
    pub rows: Vec<u64>,
}

impl Bound {
    /// Which of `rows` rows meet the condition; `columns` are those of the schema that it was bound to.
    pub fn rows<'a>(&self, rows: usize, columns: &dyn Fn(usize) -> &'a dyn Array) -> Met {
        let met = meets(&self.root, rows, columns);
        if met.count_set_bits() == rows { Met::All } else { Met::Some(met) }
    }

    /// Which of `groups` groups may hold a row that meets the condition. Where nothing is known of a column, all may.
    pub fn groups(&self, groups: usize, limits: &dyn Fn(usize) -> Option<Limits>) -> Vec<bool> {
        may_meet(&self.root, groups, limits).iter().collect()
    }

    /// The columns that it looks at, by index, each once.
    pub fn columns(&self) -> Vec<usize> {
        fn walk(part: &Part, out: &mut Vec<usize>) {
            match part {
                Part::All(parts) | Part::Any(parts) => parts.iter().for_each(|part| walk(part, out)),
                Part::Compare(column, ..) | Part::Null(column, _) => out.push(*column),
            }
        }
        let mut out = Vec::new();
        walk(&self.root, &mut out);
        out.sort_unstable();
        out.dedup();
        out
    }
}

fn meets<'a>(part: &Part, rows: usize, columns: &dyn Fn(usize) -> &'a dyn Array) -> BooleanBuffer {
    match part {
        Part::All(parts) => {
            parts.iter().map(|part| meets(part, rows, columns)).fold(BooleanBuffer::new_set(rows), |all, part| &all & &part)
        }
        Part::Any(parts) => {
            parts.iter().map(|part| meets(part, rows, columns)).fold(BooleanBuffer::new_unset(rows), |any, part| &any | &part)
        }
        Part::Null(column, is) => {
            let valid = columns(*column).logical_nulls().map_or_else(|| BooleanBuffer::new_set(rows), |nulls| nulls.into_inner());
            if *is { !&valid } else { valid }
        }
        Part::Compare(column, compare, value) => compared(columns(*column), *compare, value),
    }
}

fn may_meet(part: &Part, groups: usize, limits: &dyn Fn(usize) -> Option<Limits>) -> BooleanBuffer {
    let unknown = || BooleanBuffer::new_set(groups);
    match part {
        Part::All(parts) => parts.iter().map(|part| may_meet(part, groups, limits)).fold(unknown(), |all, part| &all & &part),
        Part::Any(parts) => {
            parts.iter().map(|part| may_meet(part, groups, limits)).fold(BooleanBuffer::new_unset(groups), |any, part| &any | &part)
        }
        Part::Null(column, is) => match limits(*column) {
            None => unknown(),
            Some(limits) => limits
                .nulls
                .iter()
                .zip(&limits.rows)
                .map(|(nulls, rows)| nulls.is_none_or(|n| if *is { n > 0 } else { n < *rows }))
                .collect(),
        },
        Part::Compare(column, compare, value) => match limits(*column) {
            None => unknown(),
            Some(Limits { least, most, .. }) => {
                let held = |limit: &dyn Array, compare| &compared(limit, compare, value) | &not_known(limit);
                match compare {
                    Compare::Less | Compare::AtMost => held(least.as_ref(), *compare),
                    Compare::Greater | Compare::AtLeast => held(most.as_ref(), *compare),
                    Compare::Equal => &held(least.as_ref(), Compare::AtMost) & &held(most.as_ref(), Compare::AtLeast),
                    Compare::Other => &held(least.as_ref(), Compare::Other) | &held(most.as_ref(), Compare::Other),
                }
            }
        },
    }
}

fn not_known(limit: &dyn Array) -> BooleanBuffer {
    limit.logical_nulls().map_or_else(|| BooleanBuffer::new_unset(limit.len()), |nulls| !nulls.inner())
}

/// The rows whose value is not NULL and compares so.
fn compared(array: &dyn Array, compare: Compare, value: &Value) -> BooleanBuffer {
    let met = match value {
        Value::Text(text) => texts(array, compare, text.as_bytes()),
        Value::Bool(value) => {
            let values = array.as_boolean().values();
            BooleanBuffer::collect_bool(array.len(), |row| compare.met_by(values.value(row).cmp(value)))
        }
        Value::Float(value) => floats(array, compare, *value),
        Value::Wide(value) => {
            let values = array.as_primitive::<Decimal256Type>().values();
            BooleanBuffer::collect_bool(array.len(), |row| compare.met_by(<i256 as Ord>::cmp(&values[row], value)))
        }
        Value::Whole(value) => whole(array, compare, *value),
    };
    match array.nulls() {
        Some(nulls) => &met & nulls.inner(),
        None => met,
    }
}

fn texts(array: &dyn Array, compare: Compare, value: &[u8]) -> BooleanBuffer {
    let rows = array.len();
    match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            BooleanBuffer::collect_bool(rows, |row| compare.met_by(array.value(row).as_bytes().cmp(value)))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            BooleanBuffer::collect_bool(rows, |row| compare.met_by(array.value(row).as_bytes().cmp(value)))
        }
        _ => {
            let array = array.as_string_view();
            BooleanBuffer::collect_bool(rows, |row| compare.met_by(array.value(row).as_bytes().cmp(value)))
        }
    }
}

/// Both zeros are equal, NaN is larger than every number: as PostgreSQL has it.
fn floats(array: &dyn Array, compare: Compare, value: f64) -> BooleanBuffer {
    let order = |found: f64| found.partial_cmp(&value).unwrap_or(Ordering::Greater);
    match array.data_type() {
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            BooleanBuffer::collect_bool(array.len(), |row| compare.met_by(order(values[row].into())))
        }
        _ => {
            let values = array.as_primitive::<Float64Type>().values();
            BooleanBuffer::collect_bool(array.len(), |row| compare.met_by(order(values[row])))
        }
    }
}

fn whole(array: &dyn Array, compare: Compare, value: i128) -> BooleanBuffer {
    match array.data_type() {
        DataType::Int8 => natives::<Int8Type>(array, compare, value),
        DataType::Int16 => natives::<Int16Type>(array, compare, value),
        DataType::Int32 => natives::<Int32Type>(array, compare, value),
        DataType::UInt8 => natives::<UInt8Type>(array, compare, value),
        DataType::UInt16 => natives::<UInt16Type>(array, compare, value),
        DataType::UInt32 => natives::<UInt32Type>(array, compare, value),
        DataType::UInt64 => natives::<UInt64Type>(array, compare, value),
        DataType::Date32 => natives::<Date32Type>(array, compare, value),
        DataType::Time32(TimeUnit::Second) => natives::<Time32SecondType>(array, compare, value),
        DataType::Time32(_) => natives::<Time32MillisecondType>(array, compare, value),
        DataType::Time64(TimeUnit::Microsecond) => natives::<Time64MicrosecondType>(array, compare, value),
        DataType::Time64(_) => natives::<Time64NanosecondType>(array, compare, value),
        DataType::Timestamp(TimeUnit::Second, _) => natives::<TimestampSecondType>(array, compare, value),
        DataType::Timestamp(TimeUnit::Millisecond, _) => natives::<TimestampMillisecondType>(array, compare, value),
        DataType::Timestamp(TimeUnit::Microsecond, _) => natives::<TimestampMicrosecondType>(array, compare, value),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => natives::<TimestampNanosecondType>(array, compare, value),
        DataType::Decimal32(..) => natives::<Decimal32Type>(array, compare, value),
        DataType::Decimal64(..) => natives::<Decimal64Type>(array, compare, value),
        DataType::Decimal128(..) => natives::<Decimal128Type>(array, compare, value),
        _ => natives::<Int64Type>(array, compare, value),
    }
}

/// Compares in the column's own type: one branchless loop.
fn natives<T: ArrowPrimitiveType>(array: &dyn Array, compare: Compare, value: i128) -> BooleanBuffer
where
    T::Native: Into<i128> + TryFrom<i128> + Ord,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    let values: &[T::Native] = array.values();
    let rows = values.len();
    // A value past the type's range never comes from a literal, only (if at all) from a wider file: then the slow way is right too.
    let Ok(value) = T::Native::try_from(value) else {
        return BooleanBuffer::collect_bool(rows, |row| compare.met_by(values[row].into().cmp(&value)));
    };
    match compare {
        Compare::Equal => BooleanBuffer::collect_bool(rows, |row| values[row] == value),
        Compare::Other => BooleanBuffer::collect_bool(rows, |row| values[row] != value),
        Compare::Less => BooleanBuffer::collect_bool(rows, |row| values[row] < value),
        Compare::AtMost => BooleanBuffer::collect_bool(rows, |row| values[row] <= value),
        Compare::Greater => BooleanBuffer::collect_bool(rows, |row| values[row] > value),
        Compare::AtLeast => BooleanBuffer::collect_bool(rows, |row| values[row] >= value),
    }
}
