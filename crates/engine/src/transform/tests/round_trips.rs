//! For every type: what a value prints as, cast back, is the value.

use super::*;
use crate::transform::{Cast, TypeName};
use arrow_array::{
    BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt64Array,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Casts the column to text and back.
fn there_and_back(array: ArrayRef, kind: TypeName) {
    let rows = rows_of(kind.field("c", true), array);
    let to = |kind| Cast::new(vec![("c".into(), kind)], crate::transform::AskedBy::Cast);
    let text = apply(&to(TypeName::TEXT), rows.clone());
    assert_eq!(text.batch.column(0).data_type(), &DataType::Utf8View);
    let back = apply(&to(kind), text);
    assert_eq!(back.batch, rows.batch);
}

proptest! {
    #[test]
    fn whole_numbers(v in vec(any::<Option<i64>>(), 0..20)) {
        there_and_back(Arc::new(Int64Array::from(v.clone())), TypeName::Int64);
        there_and_back(Arc::new(Int32Array::from_iter(v.iter().map(|x| x.map(|x| x as i32)))), TypeName::Int32);
        there_and_back(Arc::new(Int16Array::from_iter(v.iter().map(|x| x.map(|x| x as i16)))), TypeName::Int16);
        there_and_back(Arc::new(Int8Array::from_iter(v.iter().map(|x| x.map(|x| x as i8)))), TypeName::Int8);
        there_and_back(Arc::new(UInt64Array::from_iter(v.iter().map(|x| x.map(|x| x as u64)))), TypeName::UInt64);
        there_and_back(Arc::new(BooleanArray::from_iter(v.iter().map(|x| x.map(|x| x > 0)))), TypeName::Boolean);
    }

    #[test]
    fn floats(v in vec(any::<Option<f64>>(), 0..20)) {
        there_and_back(Arc::new(Float64Array::from_iter(v.iter().map(|x| x.filter(|x| !x.is_nan())))), TypeName::Float64);
        there_and_back(Arc::new(Float32Array::from_iter(v.iter().map(|x| x.filter(|x| !x.is_nan()).map(|x| x as f32)))), TypeName::Float32);
    }

    #[test]
    fn floats_of_any_bits(v in vec(any::<u64>(), 0..20)) {
        let doubles: Vec<f64> = v.iter().map(|b| f64::from_bits(*b)).filter(|x| !x.is_nan()).collect();
        there_and_back(Arc::new(Float64Array::from(doubles)), TypeName::Float64);
        let singles: Vec<f32> = v.iter().map(|b| f32::from_bits(*b as u32)).filter(|x| !x.is_nan()).collect();
        there_and_back(Arc::new(Float32Array::from(singles)), TypeName::Float32);
    }

    #[test]
    fn decimals(v in vec(proptest::option::of(-99_999_999_999_999_999_999i128..=99_999_999_999_999_999_999), 0..20), scale in 0u8..=20) {
        let array = Decimal128Array::from(v).with_precision_and_scale(20, scale as i8).unwrap();
        there_and_back(Arc::new(array), TypeName::Decimal { precision: 20, scale });
    }

    #[test]
    fn times(v in vec(proptest::option::of(0i64..86_400_000_000), 0..20), days in vec(-700_000i32..3_000_000, 0..20)) {
        there_and_back(Arc::new(Time64MicrosecondArray::from(v)), TypeName::Time);
        there_and_back(Arc::new(Date32Array::from(days)), TypeName::Date);
    }

    #[test]
    fn timestamps(micros in vec(-60_000_000_000_000_000i64..250_000_000_000_000_000, 0..20), nanos in vec(any::<i64>(), 0..20)) {
        there_and_back(Arc::new(TimestampMicrosecondArray::from(micros.clone())), TypeName::TIMESTAMP);
        there_and_back(Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC")), TypeName::TIMESTAMPTZ);
        let unit = arrow_schema::TimeUnit::Nanosecond;
        there_and_back(Arc::new(TimestampNanosecondArray::from(nanos)), TypeName::Timestamp { unit, zoned: false });
    }

    #[test]
    fn bytes_and_uuids(v in vec(vec(any::<u8>(), 0..40), 0..20), ids in vec(any::<[u8; 16]>(), 1..20)) {
        there_and_back(Arc::new(BinaryViewArray::from_iter_values(v)), TypeName::Binary);
        there_and_back(Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap()), TypeName::Uuid);
    }

    /// JSON text, compacted, says the same, and compacting again changes nothing.
    #[test]
    fn json_documents(keys in vec(".{0,20}", 1..5), n in any::<f64>(), blank in "[ \t\n\r]{0,3}") {
        let number = serde_json::Number::from_f64(n).map_or(serde_json::Value::Null, serde_json::Value::Number);
        let object: serde_json::Map<_, _> = keys.into_iter().map(|k| (k.clone(), serde_json::json!([k, number.clone(), {"x": []}]))).collect();
        let compact = serde_json::to_string(&object).unwrap();
        let spaced = format!("{blank}{}{blank}", serde_json::to_string_pretty(&object).unwrap());
        let cast = Cast::parse("c:json").unwrap();
        let out = apply(&cast, text_rows(&[("c", &[Some(&spaced), None, Some(&compact)])]));
        prop_assert_eq!(texts(&out, "c"), [Some(compact.clone()), None, Some(compact)]);
    }

    /// A text is a double only if the double says all that the text says.
    #[test]
    fn no_digit_is_lost_in_a_double(text in "-?[0-9]{1,25}\\.[0-9]{1,25}") {
        let out = Cast::parse("c:double").unwrap().apply(text_rows(&[("c", &[Some(&text)])]), &mut Strict::default());
        if let Ok(rows) = out {
            use arrow_array::types::Float64Type;
            let value = rows.batch.column(0).as_primitive::<Float64Type>().value(0);
            // Zeros at the end add nothing to the number.
            let text = text.trim_end_matches('0');
            let digits = text.split_once('.').unwrap().1.len();
            let printed = format!("{value:.digits$}");
            let plain = |t: &str| t.trim_start_matches('-').trim_start_matches('0').trim_end_matches('.').to_string();
            prop_assert_eq!(plain(&printed), plain(text));
        }
    }
}
