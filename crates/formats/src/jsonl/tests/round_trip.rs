//! Random typed batches: what serde_json reads from the written lines is what was in the columns.

use super::encode::{batch, encode};
use arrow_array::*;
use arrow_schema::Field;
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Row {
    text: Option<String>,
    whole: Option<i64>,
    unsigned: Option<u64>,
    double: Option<f64>,
    single: Option<f32>,
    flag: Option<bool>,
    decimal: Option<i64>,
    bytes: Option<Vec<u8>>,
}

prop_compose! {
    fn row()(
        text in prop::option::of("(?s).{0,80}"),
        whole in prop::option::of(any::<i64>()),
        unsigned in prop::option::of(any::<u64>()),
        double in prop::option::of(any::<f64>().prop_filter("finite", |f| f.is_finite())),
        single in prop::option::of(any::<f32>().prop_filter("finite", |f| f.is_finite())),
        flag in prop::option::of(any::<bool>()),
        decimal in prop::option::of(any::<i64>()),
        bytes in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
    ) -> Row {
        Row { text, whole, unsigned, double, single, flag, decimal, bytes }
    }
}

fn columns(rows: &[Row]) -> RecordBatch {
    let texts = || rows.iter().map(|r| r.text.as_deref());
    let arrays: [(&str, ArrayRef); 11] = [
        ("view", Arc::new(StringViewArray::from_iter(texts()))),
        ("text", Arc::new(StringArray::from_iter(texts()))),
        ("large", Arc::new(LargeStringArray::from_iter(texts()))),
        ("whole", Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.whole)))),
        ("small", Arc::new(Int8Array::from_iter(rows.iter().map(|r| r.whole.map(|w| w as i8))))),
        ("unsigned", Arc::new(UInt64Array::from_iter(rows.iter().map(|r| r.unsigned)))),
        ("double", Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.double)))),
        ("single", Arc::new(Float32Array::from_iter(rows.iter().map(|r| r.single)))),
        ("flag", Arc::new(BooleanArray::from_iter(rows.iter().map(|r| r.flag)))),
        (
            "decimal",
            Arc::new(Decimal128Array::from_iter(rows.iter().map(|r| r.decimal.map(i128::from))).with_precision_and_scale(38, 5).unwrap()),
        ),
        ("bytes", Arc::new(BinaryViewArray::from_iter(rows.iter().map(|r| r.bytes.as_deref())))),
    ];
    batch(arrays.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).collect())
}

fn check(row: &Row, line: &str) -> Result<(), TestCaseError> {
    let object: Value = serde_json::from_str(line).unwrap();
    for key in ["view", "text", "large"] {
        prop_assert_eq!(object[key].as_str(), row.text.as_deref());
    }
    prop_assert_eq!(object["whole"].as_i64(), row.whole);
    prop_assert_eq!(object["small"].as_i64(), row.whole.map(|w| i64::from(w as i8)));
    prop_assert_eq!(object["unsigned"].as_u64(), row.unsigned);
    // serde_json may be off by one unit in the last place; the standard library is exact.
    let token = |key: &str| line.rsplit(key).next().unwrap().split(',').next().unwrap();
    prop_assert_eq!(token("\"double\":").parse::<f64>().ok().map(f64::to_bits), row.double.map(f64::to_bits));
    prop_assert_eq!(token("\"single\":").parse::<f32>().ok().map(f32::to_bits), row.single.map(f32::to_bits));
    prop_assert_eq!(object["flag"].as_bool(), row.flag);
    let exact =
        row.decimal.map(|d| format!("{}{}.{:05}", if d < 0 { "-" } else { "" }, d.unsigned_abs() / 100_000, d.unsigned_abs() % 100_000));
    prop_assert_eq!(token("\"decimal\":"), exact.as_deref().unwrap_or("null"));
    let hex = row.bytes.as_ref().map(|b| b.iter().fold("\\x".to_string(), |s, b| s + &format!("{b:02x}")));
    prop_assert_eq!(object["bytes"].as_str(), hex.as_deref());
    Ok(())
}

proptest! {
    #[test]
    fn written_lines_are_the_columns(rows in prop::collection::vec(row(), 1..30), cut in any::<prop::sample::Index>()) {
        let batch = columns(&rows);
        let text = encode(&batch).unwrap();
        for (row, line) in rows.iter().zip(text.lines()) {
            check(row, line)?;
        }
        // A slice of the batch writes the same lines.
        let from = cut.index(rows.len());
        let tail = encode(&batch.slice(from, rows.len() - from)).unwrap();
        prop_assert!(text.ends_with(&tail));
        prop_assert_eq!(tail.lines().count(), rows.len() - from);
    }
}
