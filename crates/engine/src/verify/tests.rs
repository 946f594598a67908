//! One value has one hash whatever it is held in, and every change shows.

use super::arrays::ArrayHasher;
use super::canon::{Canon, agree};
use super::value::Scratch;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
    Time32MillisecondArray, Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema};
use haul_model::digest::NULL_HASH;
use haul_model::{Hashes, Sums, field_meta};
use proptest::prelude::*;
use std::sync::Arc;

fn hashes_of(array: ArrayRef, field: &Field, canon: Canon, tokens: bool) -> Vec<u64> {
    let field = field.clone().with_data_type(array.data_type().clone());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    let mut out = Hashes::default();
    ArrayHasher::new(vec![(0, canon)], tokens).hash(&batch, &mut out).unwrap();
    assert_eq!(out.rows, out.columns[0].len());
    out.columns.remove(0)
}

fn plain() -> Field {
    Field::new("c", DataType::Utf8View, true)
}

fn json() -> Field {
    field_meta::with(plain(), field_meta::EXTENSION, field_meta::JSON)
}

fn hashed(array: impl arrow_array::Array + 'static, canon: Canon) -> Vec<u64> {
    hashes_of(Arc::new(array), &plain(), canon, false)
}

fn texts(values: &[&str], canon: Canon) -> Vec<u64> {
    hashed(StringViewArray::from(values.to_vec()), canon)
}

#[test]
fn a_value_has_one_hash_in_every_representation() {
    let two = |text: &[&str], canon, array: Vec<u64>| assert_eq!(texts(text, canon), array, "{text:?}");
    two(&["true", "f"], Canon::Bool, hashed(BooleanArray::from(vec![true, false]), Canon::Bool));
    two(&["-7", "32767"], Canon::Int, hashed(Int16Array::from(vec![-7, 32767]), Canon::Int));
    two(&["5", "18446744073709551615"], Canon::Int, hashed(UInt64Array::from(vec![5, u64::MAX]), Canon::Int));
    assert_eq!(hashed(Int64Array::from(vec![5]), Canon::Int), hashed(UInt64Array::from(vec![5]), Canon::Int));
    let decimals = Decimal128Array::from(vec![150, -1, 0, 12_300]).with_precision_and_scale(15, 2).unwrap();
    let wide = Decimal256Array::from(vec![i256::from(1500), i256::from(-10), i256::ZERO, i256::from(123_000)]);
    let wide = wide.with_precision_and_scale(50, 3).unwrap();
    for text in [["1.5", "-0.01", "0", "123"], ["1.50", "-0.010", "-0.00", "123.000"], ["15e-1", "-1E-2", "0e9", "+1.23e2"]] {
        two(&text, Canon::Number, hashed(decimals.clone(), Canon::Number));
        two(&text, Canon::Number, hashed(wide.clone(), Canon::Number));
    }
    assert_eq!(hashed(Int64Array::from(vec![-1500, 0]), Canon::Number), texts(&["-1.5e3", "0.0"], Canon::Number));
    let long = "123456789012345678901234567890123456789012345";
    assert_eq!(texts(&[long], Canon::Number), texts(&[&format!("{long}.000")], Canon::Number));
    assert_ne!(texts(&[long], Canon::Number), texts(&[&format!("{long}0")], Canon::Number));
    two(
        &["0.1", "NaN", "-0", "Infinity"],
        Canon::Float64,
        hashed(Float64Array::from(vec![0.1, -f64::NAN, -0.0, f64::INFINITY]), Canon::Float64),
    );
    two(&["0.1", "1e-45"], Canon::Float32, hashed(Float32Array::from(vec![0.1, 1e-45]), Canon::Float32));
    assert_ne!(texts(&["0"], Canon::Float64), texts(&["-0"], Canon::Float64));
    assert_eq!(hashed(Float32Array::from(vec![0.1]), Canon::Float64), hashed(Float64Array::from(vec![f64::from(0.1f32)]), Canon::Float64));
    two(&["\\x00ff"], Canon::Bytes, hashed(BinaryViewArray::from(vec![&[0u8, 255][..]]), Canon::Bytes));
    let id = [0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11];
    let ids = FixedSizeBinaryArray::try_from_iter([id].into_iter()).unwrap();
    two(&["A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"], Canon::Uuid, hashed(ids, Canon::Uuid));
}

#[test]
fn times_have_one_hash_in_every_unit() {
    let day = 18_321; // 2020-02-29
    assert_eq!(texts(&["2020-02-29"], Canon::Date), hashed(Date32Array::from(vec![day]), Canon::Date));
    assert_eq!(
        hashed(Date64Array::from(vec![i64::from(day) * 86_400_000]), Canon::Date),
        hashed(Date32Array::from(vec![day]), Canon::Date)
    );
    let noon = texts(&["12:00:00.5"], Canon::Time);
    assert_eq!(noon, hashed(Time64MicrosecondArray::from(vec![43_200_500_000]), Canon::Time));
    assert_eq!(noon, hashed(Time64NanosecondArray::from(vec![43_200_500_000_000]), Canon::Time));
    assert_eq!(noon, hashed(Time32MillisecondArray::from(vec![43_200_500]), Canon::Time));
    let second = 1_582_934_400; // 2020-02-29T00:00:00Z
    let instant = texts(&["2020-02-29T02:00:00+02:00"], Canon::Timestamp);
    assert_eq!(instant, texts(&["2020-02-29 00:00:00Z"], Canon::Timestamp));
    assert_eq!(instant, hashed(Date32Array::from(vec![day]), Canon::Timestamp));
    assert_eq!(instant, hashed(TimestampSecondArray::from(vec![second]), Canon::Timestamp));
    assert_eq!(instant, hashed(TimestampMillisecondArray::from(vec![second * 1000]).with_timezone("UTC"), Canon::Timestamp));
    assert_eq!(instant, hashed(TimestampMicrosecondArray::from(vec![second * 1_000_000]), Canon::Timestamp));
    assert_eq!(instant, hashed(TimestampNanosecondArray::from(vec![second * 1_000_000_000]), Canon::Timestamp));
    assert_ne!(instant, hashed(TimestampNanosecondArray::from(vec![second * 1_000_000_000 + 1]), Canon::Timestamp));
    assert_eq!(
        texts(&["1969-12-31T23:59:59.999999999"], Canon::Timestamp),
        hashed(TimestampNanosecondArray::from(vec![-1]), Canon::Timestamp)
    );
    assert_ne!(texts(&["infinity"], Canon::Timestamp), texts(&["-infinity"], Canon::Timestamp));
}

#[test]
fn json_is_compared_by_its_value() {
    let of = |text: &str| Scratch::default().json(text.as_bytes());
    let same = [
        (r#"{"a":1,  "b":1.10}"#, r#"{"b": 1.1, "a":1e0}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"["\u00e9\n"]"#, "[\"é\\u000a\"]"),
        ("[1, 2,3]", "[1,2,3]"),
        (r#"{"x":{"y":[{}]},"z":null}"#, r#"{"z":null,"x":{"y":[{ }]}}"#),
    ];
    for (a, b) in same {
        assert_eq!(of(a), of(b), "{a} {b}");
    }
    let different = [
        "[]",
        "{}",
        "null",
        "\"null\"",
        "0",
        "false",
        "true",
        "\"\"",
        "[[]]",
        "[null]",
        "[1,2]",
        "[2,1]",
        "[12]",
        "[1,[2]]",
        r#"{"a":1}"#,
        r#"{"a":"1"}"#,
        r#"{"a":{"a":1}}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":2,"b":1}"#,
        r#"["a",1]"#,
        "[1,]",
        "[",
        "x",
    ];
    let hashes: std::collections::HashSet<u64> = different.iter().map(|text| of(text)).collect();
    assert_eq!(hashes.len(), different.len());
    assert!(!hashes.contains(&NULL_HASH));
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert_ne!(of(&deep), of(&deep.replace('1', "2")));
    // A list is the JSON that it is written as.
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let found = hashes_of(Arc::new(list), &plain(), Canon::Json, false);
    assert_eq!(found, [of("[1, null]"), NULL_HASH]);
    let text = StringViewArray::from(vec![Some("[1,null]"), None]);
    assert_eq!(found, hashes_of(Arc::new(text), &json(), Canon::Json, false));
}

#[test]
fn tokens_stand_for_values() {
    let tokens = |values: &[&str], canon| hashes_of(Arc::new(StringViewArray::from(values.to_vec())), &json(), canon, true);
    assert_eq!(tokens(&["\"a\\\"b\\n\"", "\"\"", "null", "\"null\""], Canon::Text)[..2], texts(&["a\"b\n", ""], Canon::Text));
    assert_eq!(tokens(&["null", "\"null\""], Canon::Text), [NULL_HASH, texts(&["null"], Canon::Text)[0]]);
    assert_ne!(tokens(&["1"], Canon::Text), texts(&["1"], Canon::Text), "a number is no text");
    assert_eq!(tokens(&["1", "1.50", "\"NaN\""], Canon::Number), texts(&["1", "1.5", "NaN"], Canon::Number));
    assert_eq!(tokens(&["true", "null"], Canon::Bool), [texts(&["true"], Canon::Bool)[0], NULL_HASH]);
    assert_eq!(tokens(&["\"2020-01-01T00:00:00Z\""], Canon::Timestamp), texts(&["2020-01-01T00:00:00Z"], Canon::Timestamp));
    // Of a JSON column, null is a value.
    assert_ne!(tokens(&["null"], Canon::Json)[0], NULL_HASH);
    // JSON beside text.
    let loose = |values: &[&str]| texts(values, Canon::Loose);
    assert_eq!(loose(&["\"a\\tb\"", "null", "{\"a\":1}"]), [loose(&["a\tb"])[0], NULL_HASH, texts(&["{\"a\":1}"], Canon::Text)[0]]);
    assert_eq!(texts(&["ab   ", "  "], Canon::Padded), texts(&["ab", ""], Canon::Text));
}

#[test]
fn null_is_nothing_else_and_dictionaries_are_their_values() {
    let array = StringViewArray::from(vec![Some(""), None, Some("NULL"), Some("\u{0}")]);
    let found = hashed(array, Canon::Text);
    assert_eq!(found[1], NULL_HASH);
    assert_eq!(found.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    let dictionary: DictionaryArray<Int32Type> = [Some("x"), None, Some("y"), Some("x")].into_iter().collect();
    assert_eq!(hashed(dictionary, Canon::Text), hashed(StringArray::from(vec![Some("x"), None, Some("y"), Some("x")]), Canon::Text));
    let sliced = StringViewArray::from(vec![Some("a"), None, Some("b")]);
    let slice = arrow_array::Array::slice(&sliced, 1, 2);
    assert_eq!(hashes_of(slice, &plain(), Canon::Text, false)[0], NULL_HASH);
    assert_eq!(agree(&plain(), None, false), Some(Canon::Text));
}

type Row = (Option<i64>, Option<String>);
type Change<'a> = &'a dyn Fn(&mut Vec<Row>);

fn sums(rows: &[Row], step: usize) -> Sums {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8View, true)]));
    let (mut out, mut hashes) = (Sums::default(), Hashes::default());
    let mut hasher = ArrayHasher::new(vec![(0, Canon::Int), (1, Canon::Text)], false);
    for chunk in rows.chunks(step.max(1)) {
        let numbers: Int64Array = chunk.iter().map(|(a, _)| *a).collect();
        let words: StringViewArray = chunk.iter().map(|(_, b)| b.clone()).collect();
        hasher.hash(&RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(words)]).unwrap(), &mut hashes).unwrap();
        out.add(&mut hashes);
    }
    out
}

fn a_row() -> impl Strategy<Value = Row> {
    (
        prop_oneof![Just(None), any::<i64>().prop_map(Some), (-3i64..3).prop_map(Some)],
        prop_oneof![Just(None), "[ab]{0,3}".prop_map(Some), any::<String>().prop_map(Some)],
    )
}

proptest! {
    #[test]
    fn sums_depend_on_rows_alone(rows in prop::collection::vec(a_row(), 1..40), step in 1usize..10, turn in 0usize..40) {
        let whole = sums(&rows, rows.len());
        prop_assert_eq!(&whole, &sums(&rows, step));
        let mut turned = rows.clone();
        turned.rotate_left(turn % rows.len());
        turned.reverse();
        prop_assert_eq!(&whole, &sums(&turned, step));
    }

    #[test]
    fn every_change_shows(rows in prop::collection::vec(a_row(), 2..20), at in 0usize..20, other in a_row(), bit in 0u32..64) {
        let whole = sums(&rows, 7);
        let at = at % rows.len();
        let changed = |change: Change<'_>| {
            let mut rows = rows.clone();
            change(&mut rows);
            let mut sorted = rows.clone();
            sorted.sort();
            (rows, sorted)
        };
        let mut before = rows.clone();
        before.sort();
        let changes: [Change<'_>; 6] = [
            &|rows| { rows.remove(at); },
            &|rows| rows.push(rows[at].clone()),
            &|rows| rows[at] = other.clone(),
            &|rows| rows[at].0 = rows[at].0.map(|v| v ^ 1 << bit),
            &|rows| rows[at].1 = match rows[at].1.take() { None => Some(String::new()), Some(text) if text.is_empty() => None, Some(text) => Some(text + "x") },
            &|rows| { let next = (at + 1) % rows.len(); let kept = rows[at].0; rows[at].0 = rows[next].0; rows[next].0 = kept; },
        ];
        for (number, change) in changes.iter().enumerate() {
            let (rows, sorted) = changed(*change);
            prop_assert_eq!(whole == sums(&rows, 5), sorted == before, "change {}", number);
        }
    }

    #[test]
    fn numbers_are_equal_as_values(unscaled in any::<i64>(), scale in 0i8..20, zeros in 0usize..4) {
        let mut text = Vec::new();
        haul_formats::literal::print_decimal(&mut text, i128::from(unscaled), scale);
        let text = String::from_utf8(text).unwrap();
        let more = if text.contains('.') { format!("{text}{}", "0".repeat(zeros)) } else { format!("{text}.{}", "0".repeat(zeros + 1)) };
        let array = Decimal128Array::from(vec![i128::from(unscaled)]).with_precision_and_scale(38, scale).unwrap();
        let expected = hashed(array, Canon::Number);
        prop_assert_eq!(&expected, &texts(&[&text], Canon::Number));
        prop_assert_eq!(&expected, &texts(&[&more], Canon::Number));
        prop_assert_ne!(&expected, &texts(&[&format!("{text}1")], Canon::Number));
    }
}
