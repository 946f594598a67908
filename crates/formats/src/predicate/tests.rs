#![allow(clippy::unwrap_used)]

use super::{Bound, Limits, Met, Predicate};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray, UInt64Array,
};
use std::sync::Arc;

fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(-4)]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1, 2]))),
        ("f", Arc::new(Float64Array::from(vec![-0.0, f64::NAN, 1.5, -1e30]))),
        ("t", Arc::new(StringViewArray::from(vec![Some("a"), Some(""), None, Some("it's")]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("d", Arc::new(Date32Array::from(vec![0, 19_723, -1, 2_932_896]))),
        ("m", Arc::new(Decimal128Array::from(vec![-1, 0, 100, 12_345]).with_precision_and_scale(9, 2).unwrap())),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 1_704_067_200_000_000, -1]))),
        ("odd name", Arc::new(Int32Array::from(vec![1, 2, 3, 4]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

fn rows(text: &str) -> Vec<usize> {
    let batch = batch();
    let bound = Bound::new(&Predicate::parse(text).unwrap(), &batch.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
    match bound.rows(batch.num_rows(), &|column| batch.column(column).as_ref() as &dyn Array) {
        Met::All => (0..batch.num_rows()).collect(),
        Met::Some(met) => met.set_indices().collect(),
    }
}

#[test]
fn rows_that_meet() {
    for (text, expected) in [
        ("n = 3", &[2][..]),
        ("n <> 3", &[0, 3]),
        ("not n = 3", &[0, 3]),
        ("not (n = 3 or n is null)", &[0, 3]),
        ("n is null", &[1]),
        ("n IS NOT NULL and n < 2", &[0, 3]),
        ("n in (1, -4)", &[0, 3]),
        ("n not in (1, -4)", &[2]),
        ("n between 1 and 3", &[0, 2]),
        ("not n between 1 and 3", &[3]),
        ("u = 18446744073709551615", &[0]),
        ("f = 0", &[0]),
        ("f >= 1", &[1, 2]),
        ("f < 0", &[3]),
        ("f > -1e+29", &[0, 1, 2]),
        ("t = ''", &[1]),
        ("t = 'it''s'", &[3]),
        ("t >= 'a'", &[0, 3]),
        ("b = true", &[0, 3]),
        ("not b = true", &[1]),
        ("d >= '2024-01-01'", &[1, 3]),
        ("m = -0.01", &[0]),
        ("m > 1", &[3]),
        ("ts = '2024-01-01 00:00:00'", &[2]),
        ("ts < '1970-01-01'", &[3]),
        ("\"odd name\" = 2", &[1]),
        ("n = 1 or n = 3 and u = 1", &[0, 2]),
        ("(n = 1 or n = 3) and u = 1", &[2]),
        ("n is null or n is not null", &[0, 1, 2, 3]),
    ] {
        assert_eq!(rows(text), expected, "{text}");
    }
}

#[test]
fn conditions_that_are_refused() {
    let schema = batch().schema();
    for (text, told) in [
        ("", "a column expected at character 1, not the end"),
        ("n", "a comparison (= <> < <= > >=), in, between or is null expected at character 2"),
        ("n = ", "a value expected at character 5"),
        ("n = 1 n = 2", "and, or, or the end expected at character 7"),
        ("(n = 1", "a closing parenthesis"),
        ("n = 'x", "a closing quote"),
        ("n = é", "a value expected at character 5, not \"é\""),
        ("n ~ 1", "a column, a value or a comparison expected at character 3, not \"~\""),
        ("n not 1", "in or between"),
        ("n = 1.5", "the number \"1.5\" is no value of the type Int32"),
        ("n = 3000000000", "out of range"),
        ("m = 0.001", "more digits after the point"),
        ("t = 5", "the column holds text"),
        ("b = 'maybe'", "no value of the type Boolean"),
        ("n = true", "the column is no boolean"),
        ("d = 'yesterday'", "no value of the type Date32"),
        ("ts = '2024-01-01T00:00:00Z'", "the column has no time zone"),
        ("N = 1", "no such column"),
    ] {
        let error = Predicate::parse(text).and_then(|p| Bound::new(&p, &schema)).unwrap_err();
        assert!(error.to_string().contains(told), "{text}: {error}");
    }
    let deep = "(".repeat(200) + "n = 1";
    assert!(Predicate::parse(&deep).unwrap_err().to_string().contains("less nesting"));
}

/// Groups 1 to 3, 4 to 6, one of which nothing is known, and one of NULLs only.
fn groups(text: &str) -> Vec<bool> {
    let schema = batch().schema();
    let bound = Bound::new(&Predicate::parse(text).unwrap(), &schema).unwrap();
    let limits = |column: usize| {
        (column == 0).then(|| Limits {
            least: Arc::new(Int32Array::from(vec![Some(1), Some(4), None, None])),
            most: Arc::new(Int32Array::from(vec![Some(3), Some(6), None, None])),
            nulls: vec![Some(0), Some(2), None, Some(9)],
            rows: vec![9; 4],
        })
    };
    bound.groups(4, &limits)
}

#[test]
fn groups_that_cannot_meet() {
    for (text, expected) in [
        ("n = 3", [true, false, true, true]),
        ("n < 4", [true, false, true, true]),
        ("n >= 4", [false, true, true, true]),
        ("n <> 2", [true, true, true, true]),
        ("n in (0, 7)", [false, false, true, true]),
        ("n is null", [false, true, true, true]),
        ("n is not null", [true, true, true, false]),
        ("n > 3 and n < 4", [false, false, true, true]),
        ("n > 5 or u = 1", [true, true, true, true]),
        ("n > 5 and u = 1", [false, true, true, true]),
    ] {
        assert_eq!(groups(text), expected, "{text}");
    }
}
