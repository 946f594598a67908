//! Columns to cells.

use super::MAX_TEXT;
use crate::jsonl::ValueWriter;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, TimeUnit};
use haul_model::{Error, ErrorKind, Result};

/// Digits that a number in Excel keeps.
const DIGITS: usize = 15;
/// Days from 1899-12-30, where Excel's count begins for days after its 29 February 1900, to 1970-01-01.
const EPOCH: i64 = 25_569;
/// 1 March 1900 and 31 December 9999, counted from 1899-12-30.
const DAYS: std::ops::RangeInclusive<i64> = 61..=2_958_465;
const NANOS_OF_DAY: i64 = 86_400_000_000_000;

/// What a cell holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Empty,
    Number(f64),
    Flag(bool),
    /// Days from 1899-12-30.
    Day(f64),
    /// The same, with the time of the day.
    Moment(f64),
    Text(String),
}

/// What the cells of a column hold where nothing keeps them from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Flag,
    Day,
    Moment(TimeUnit),
    Text,
}

impl Class {
    pub(super) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Flag,
            DataType::Date32 => Self::Day,
            DataType::Timestamp(unit, None) => Self::Moment(*unit),
            other if other.is_numeric() => Self::Number,
            _ => Self::Text,
        }
    }

    /// For the plan: what the type is called, and what is to be known of it.
    pub(super) fn told(self, field: &Field) -> (&'static str, Option<String>) {
        match self {
            Self::Number if matches!(field.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64) => ("number", None),
            Self::Number => ("number", Some(format!("text where it has more than {DIGITS} digits"))),
            Self::Flag => ("boolean", None),
            Self::Day => ("date", Some("text before March 1900".into())),
            Self::Moment(_) => ("date and time", Some("text where it is finer than a millisecond, or before March 1900".into())),
            Self::Text => ("text", None),
        }
    }
}

/// Typed access to one column; made once a batch.
pub(super) struct Column {
    class: Class,
    array: ArrayRef,
    text: ValueWriter,
    nulls: Option<NullBuffer>,
}

impl Column {
    pub(super) fn new(array: &ArrayRef, field: &Field) -> Result<Self> {
        let text = ValueWriter::new(array.as_ref(), field)?;
        Ok(Self { class: Class::of(array.data_type()), array: array.clone(), text, nulls: array.logical_nulls() })
    }

    /// The cell of a row.
    ///
    /// # Errors
    /// A text that is too long, or a nested value that JSON cannot hold.
    pub(super) fn cell(&self, row: usize) -> Result<Cell> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(Cell::Empty);
        }
        let exact = match self.class {
            Class::Flag => Some(Cell::Flag(self.array.as_boolean().value(row))),
            Class::Day => day(i64::from(self.array.as_primitive::<Date32Type>().value(row))).map(Cell::Day),
            Class::Moment(unit) => self.moment(unit, row),
            Class::Number | Class::Text => None,
        };
        match exact {
            Some(cell) => Ok(cell),
            None => self.text(row),
        }
    }

    fn text(&self, row: usize) -> Result<Cell> {
        let mut out = Vec::new();
        self.text.write_text(row, &mut out).map_err(|value| {
            Error::new(ErrorKind::Lossy, format!("the number {} inside a nested value has no form in JSON", value.text()))
                .hint("nested values are written as JSON: --cast the column to text, or leave it out")
        })?;
        let text = String::from_utf8(out).map_err(|e| Error::internal("a text that is not UTF-8").caused_by(e))?;
        if self.class == Class::Number
            && let Some(number) = number(&text, self.array.data_type().is_floating())
        {
            return Ok(Cell::Number(number));
        }
        if text.len() > MAX_TEXT {
            let units = text.encode_utf16().count();
            if units > MAX_TEXT {
                return Err(Error::new(ErrorKind::Limit, format!("a text of {units} characters, and a cell holds {MAX_TEXT}"))
                    .hint("leave the column out, or write CSV or Parquet"));
            }
        }
        Ok(Cell::Text(text))
    }

    fn moment(&self, unit: TimeUnit, row: usize) -> Option<Cell> {
        let (value, nanos) = match unit {
            TimeUnit::Second => (self.array.as_primitive::<TimestampSecondType>().value(row), 1_000_000_000),
            TimeUnit::Millisecond => (self.array.as_primitive::<TimestampMillisecondType>().value(row), 1_000_000),
            TimeUnit::Microsecond => (self.array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000),
            TimeUnit::Nanosecond => (self.array.as_primitive::<TimestampNanosecondType>().value(row), 1),
        };
        let of_day = NANOS_OF_DAY / nanos;
        let in_day = value.rem_euclid(of_day) * nanos;
        if in_day % 1_000_000 != 0 {
            return None;
        }
        day(value.div_euclid(of_day)).map(|day| Cell::Moment(day + in_day as f64 / NANOS_OF_DAY as f64))
    }
}

/// Excel's number for a day, counted from 1970.
fn day(since_1970: i64) -> Option<f64> {
    let day = since_1970 + EPOCH;
    DAYS.contains(&day).then_some(day as f64)
}

/// The number that this text is, if it comes out of a cell as it went in.
fn number(text: &str, floating: bool) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let digits = || text.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0').count();
    // A float is what it is: 17 digits go into the file.
    (number.is_finite() && (floating || digits() <= DIGITS)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use std::sync::Arc;

    fn cells(array: impl Array + 'static) -> Vec<Cell> {
        let field = Field::new("c", array.data_type().clone(), true);
        let array: ArrayRef = Arc::new(array);
        let column = Column::new(&array, &field).unwrap();
        (0..array.len()).map(|row| column.cell(row).unwrap()).collect()
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.into())
    }

    #[test]
    fn numbers_stay_numbers_where_nothing_is_lost() {
        assert_eq!(
            cells(Int64Array::from(vec![Some(0), Some(-999_999_999_999_999), Some(1_000_000_000_000_000), Some(i64::MIN), None])),
            [Cell::Number(0.0), Cell::Number(-999_999_999_999_999.0), text("1000000000000000"), text("-9223372036854775808"), Cell::Empty]
        );
        let decimals = Decimal128Array::from(vec![123_456_789_012_345, 1, 1_234_567_890_123_456]).with_precision_and_scale(38, 4).unwrap();
        assert_eq!(cells(decimals), [Cell::Number(12_345_678_901.234_5), Cell::Number(0.0001), text("123456789012.3456")]);
        assert_eq!(cells(Float32Array::from(vec![0.1, f32::NAN])), [Cell::Number(0.1), text("NaN")]);
        assert_eq!(
            cells(Float64Array::from(vec![0.1 + 0.2, f64::NEG_INFINITY])),
            [Cell::Number(0.300_000_000_000_000_04), text("-Infinity")]
        );
    }

    #[test]
    fn days_and_moments_are_excels_where_it_can_count_them() {
        // 1900-02-28, 1900-03-01, 1970-01-01, 9999-12-31, 10000-01-01.
        assert_eq!(
            cells(Date32Array::from(vec![-25_509, -25_508, 0, 2_932_896, 2_932_897])),
            [text("1900-02-28"), Cell::Day(61.0), Cell::Day(25_569.0), Cell::Day(2_958_465.0), text("10000-01-01")]
        );
        assert_eq!(
            cells(TimestampMicrosecondArray::from(vec![43_200_000_000, 1_000, 1, -1_000])),
            [
                Cell::Moment(25_569.5),
                Cell::Moment(25_569.0 + 1.0 / 86_400_000.0),
                text("1970-01-01T00:00:00.000001"),
                Cell::Moment(25_568.0 + 86_399_999.0 / 86_400_000.0)
            ]
        );
        assert_eq!(cells(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC")).len(), 1);
        assert!(
            matches!(&cells(TimestampMicrosecondArray::from(vec![0]).with_timezone("UTC"))[0], Cell::Text(t) if t.starts_with("1970-01-01"))
        );
    }

    #[test]
    fn a_text_that_no_cell_holds_is_refused() {
        let array: ArrayRef = Arc::new(StringArray::from(vec!["é".repeat(MAX_TEXT), "é".repeat(MAX_TEXT + 1)]));
        let column = Column::new(&array, &Field::new("c", DataType::Utf8, true)).unwrap();
        assert!(column.cell(0).is_ok());
        let error = column.cell(1).unwrap_err();
        assert!(error.to_string().contains("a text of 32768 characters, and a cell holds 32767"), "{error}");
    }
}
