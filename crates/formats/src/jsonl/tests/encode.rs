//! What the encoder writes, seen by serde_json.

use crate::Output;
use crate::jsonl::JsonlOutput;
use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{IntervalMonthDayNano, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use haul_model::{BlockBody, ErrorKind, OnLossy, Rejects, Rows, Settings, Strict, field_meta};
use std::sync::Arc;

pub(super) fn json_field(name: &str) -> Field {
    field_meta::with(Field::new(name, DataType::Utf8View, true), field_meta::EXTENSION, field_meta::JSON)
}

pub(super) fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn col(name: &str, array: impl Array + 'static) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), Arc::new(array))
}

fn encode_with(output: JsonlOutput, batch: &RecordBatch, rejects: &mut dyn Rejects) -> haul_model::Result<String> {
    let mut encoder = output.encoder()?;
    encoder.push(&Rows::new(batch.clone(), 0), rejects)?;
    let Some(block) = encoder.take()? else { return Ok(String::new()) };
    let BlockBody::Bytes(bytes) = block.body else { panic!("text makes bytes") };
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.lines().count() as u64, block.rows);
    Ok(text)
}

pub(super) fn encode(batch: &RecordBatch) -> haul_model::Result<String> {
    encode_with(JsonlOutput::new(&Settings::default(), batch.schema())?, batch, &mut Strict::default())
}

#[test]
fn bench_row_is_byte_exact() {
    let text = |s: &str| StringViewArray::from(vec![s]);
    let batch = batch(vec![
        col("id", text("1")),
        col("first_name", text("Ada")),
        col("created_at", text("2020-01-01T00:00:43Z")),
        col("attributes", text(r#"{"tier":"pro","score":12.345,"tags":["alpha","beta"]}"#)),
    ]);
    assert_eq!(
        encode(&batch).unwrap(),
        concat!(
            r#"{"id":"1","first_name":"Ada","created_at":"2020-01-01T00:00:43Z","#,
            r#""attributes":"{\"tier\":\"pro\",\"score\":12.345,\"tags\":[\"alpha\",\"beta\"]}"}"#,
            "\n"
        )
    );
}

#[test]
fn ty_03_json_is_nested_in_source_form_and_null_differs_from_null() {
    let json = StringViewArray::from(vec![Some(r#"{"b":1, "a":[1.0,1e2]}"#), Some("null"), None, Some(r#""x""#), Some("{\n\"a\":\r\n1}")]);
    let batch = batch(vec![(json_field("j"), Arc::new(json)), col("n", Int32Array::from(vec![Some(1), None, None, Some(4), Some(5)]))]);
    let lines = encode(&batch).unwrap();
    let expected = [
        r#"{"j":{"b":1, "a":[1.0,1e2]},"n":1}"#,
        r#"{"j":null,"n":null}"#,
        r#"{"n":null}"#,
        r#"{"j":"x","n":4}"#,
        r#"{"j":{ "a":  1},"n":5}"#,
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn nulls_may_be_left_out() {
    let mut settings = Settings::default();
    settings.set("nulls", "omit");
    let batch = batch(vec![col("a", Int32Array::from(vec![None, Some(1)])), col("b", StringArray::from(vec![None, Some("x")]))]);
    let output = JsonlOutput::new(&settings, batch.schema()).unwrap();
    assert_eq!(encode_with(output, &batch, &mut Strict::default()).unwrap(), "{}\n{\"a\":1,\"b\":\"x\"}\n");
}

#[test]
fn num_03_decimals_keep_every_digit() {
    let decimals = Decimal128Array::from(vec![
        1_234_567_890_123,
        99_999_999_999_999_999_999_999_999_999_999_999_999,
        -1,
        1_000_000_000,
        123_456_789_012_345_678_901_234_567_890,
    ])
    .with_precision_and_scale(38, 10)
    .unwrap();
    let wide = Decimal256Array::from(vec![i256::from_string(&"9".repeat(76)).unwrap(); 5]).with_precision_and_scale(76, 38).unwrap();
    let text = encode(&batch(vec![col("d", decimals), col("w", wide)])).unwrap();
    let digits: Vec<_> = text.lines().map(|l| l.split([':', ',']).nth(1).unwrap()).collect();
    assert_eq!(
        digits,
        ["123.4567890123", "9999999999999999999999999999.9999999999", "-0.0000000001", "0.1000000000", "12345678901234567890.1234567890"]
    );
    assert!(text.contains(&format!("\"w\":{}.{}}}", "9".repeat(38), "9".repeat(38))));
}

#[test]
fn num_01_integers_keep_every_digit() {
    let text = encode(&batch(vec![
        col("i", Int64Array::from(vec![i64::MAX, i64::MIN, 9_007_199_254_740_993])),
        col("u", UInt64Array::from(vec![u64::MAX, 0, 1])),
    ]))
    .unwrap();
    assert_eq!(
        text,
        "{\"i\":9223372036854775807,\"u\":18446744073709551615}\n{\"i\":-9223372036854775808,\"u\":0}\n{\"i\":9007199254740993,\"u\":1}\n"
    );
}

#[test]
fn num_02_nan_and_infinity_are_errors_or_counted() {
    let batch = batch(vec![
        col("id", Int32Array::from(vec![1, 2, 3, 4])),
        col("f", Float64Array::from(vec![1.5, f64::NAN, f64::NEG_INFINITY, -0.0])),
        col("r", Float32Array::from(vec![0.1, 5.0, 1e30, -0.0])),
    ]);
    let error = encode(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lossy);
    assert_eq!(error.place().column.as_deref(), Some("f"));
    assert_eq!(error.place().row_in_chunk, Some(1));
    assert!(error.detail().contains("NaN"), "{error}");
    assert!(error.hint_text().unwrap().contains("--on-lossy text"));

    #[derive(Default)]
    struct Take(Vec<String>, u64);
    impl Rejects for Take {
        fn row(&mut self, _: &Rows, row: usize, error: haul_model::Error) -> haul_model::Result<()> {
            self.0.push(format!("{row}: {error}"));
            Ok(())
        }
        fn record(&mut self, _: &[u8], error: haul_model::Error) -> haul_model::Result<()> {
            Err(error)
        }
        fn lossy(&mut self, _: &str, count: u64) {
            self.1 += count;
        }
    }
    let output = |policy| JsonlOutput::new(&Settings::default(), batch.schema()).unwrap().on_lossy(policy);
    let mut take = Take::default();
    let text = encode_with(output(OnLossy::Error), &batch, &mut take).unwrap();
    assert_eq!(text, "{\"id\":1,\"f\":1.5,\"r\":0.1}\n{\"id\":4,\"f\":-0.0,\"r\":-0.0}\n");
    assert_eq!(take.0.len(), 2);

    let mut take = Take::default();
    let text = encode_with(output(OnLossy::Text), &batch, &mut take).unwrap();
    assert!(text.contains("\"f\":\"NaN\",\"r\":5.0") && text.contains("\"f\":\"-Infinity\""), "{text}");
    assert_eq!(take.1, 2);
    let text = encode_with(output(OnLossy::Null), &batch, &mut take).unwrap();
    assert!(text.contains("{\"id\":2,\"f\":null,"), "{text}");
}

#[test]
fn every_scalar_type_has_its_form() {
    let uuid = FixedSizeBinaryArray::try_from_iter([*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"].iter()).unwrap();
    let uuid_field = field_meta::with(Field::new("uuid", DataType::FixedSizeBinary(16), true), field_meta::EXTENSION, field_meta::UUID);
    let binary: &[u8] = b"\x00\xff";
    let dictionary: DictionaryArray<Int8Type> = vec!["pro"].into_iter().collect();
    let batch = batch(vec![
        col("null", NullArray::new(1)),
        col("bool", BooleanArray::from(vec![true])),
        col("i8", Int8Array::from(vec![-128])),
        col("u16", UInt16Array::from(vec![65535])),
        col("f16", Float16Array::from(vec![half_one_and_a_half()])),
        col("d32", Decimal32Array::from(vec![-150]).with_precision_and_scale(5, 2).unwrap()),
        col("d64", Decimal64Array::from(vec![150]).with_precision_and_scale(15, 3).unwrap()),
        col("date", Date32Array::from(vec![18262])),
        col("time32", Time32SecondArray::from(vec![3661])),
        col("time", Time64MicrosecondArray::from(vec![86_399_999_999])),
        col("nanos", Time64NanosecondArray::from(vec![1])),
        col("ts", TimestampSecondArray::from(vec![1_577_836_843])),
        col("tsz", TimestampMicrosecondArray::from(vec![1_577_836_843_500_000]).with_timezone("Europe/Amsterdam")),
        col("bin", BinaryArray::from(vec![binary])),
        col("large", LargeBinaryArray::from(vec![binary])),
        col("view", BinaryViewArray::from(vec![binary])),
        col("fixed", FixedSizeBinaryArray::try_from_iter([*b"ab"].iter()).unwrap()),
        (uuid_field, Arc::new(uuid)),
        col("utf8", StringArray::from(vec!["a\"b"])),
        col("lutf8", LargeStringArray::from(vec!["é"])),
        col("dict", dictionary),
        col("span", IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, -1, 90_000_000_001_000)])),
        col("dur", DurationMillisecondArray::from(vec![-1500])),
    ]);
    let expected = concat!(
        r#"{"null":null,"bool":true,"i8":-128,"u16":65535,"f16":1.5,"d32":-1.50,"d64":0.150,"date":"2020-01-01","#,
        r#""time32":"01:01:01","time":"23:59:59.999999","nanos":"00:00:00.000000001","ts":"2020-01-01T00:00:43","tsz":"2020-01-01T00:00:43.5Z","#,
        r#""bin":"\\x00ff","large":"\\x00ff","view":"\\x00ff","fixed":"\\x6162","uuid":"00112233-4455-6677-8899-aabbccddeeff","#,
        r#""utf8":"a\"b","lutf8":"é","dict":"pro","span":"P1M-1DT90000.000001S","dur":"PT-1.5S"}"#,
        "\n"
    );
    assert_eq!(encode(&batch).unwrap(), expected);
}

fn half_one_and_a_half() -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(1.5)
}

#[test]
fn ty_01_nested_values_keep_their_shape() {
    let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    lists.values().values().append_slice(&[1, 2]);
    lists.values().append(true);
    lists.values().append(false);
    lists.values().append(true);
    lists.append(true);
    lists.append(false);
    lists.append(true);
    let words = StringArray::from(vec![Some("a,b"), None, Some("NULL")]);
    let fields = Fields::from(vec![Field::new("w", DataType::Utf8, true), json_field("j")]);
    let json = StringViewArray::from(vec![Some("[1, 2]"), None, Some("null")]);
    let structs = StructArray::new(fields, vec![Arc::new(words) as ArrayRef, Arc::new(json)], None);
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("keys", DataType::Int32, false)), Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        (Arc::new(Field::new("values", DataType::Boolean, true)), Arc::new(BooleanArray::from(vec![Some(true), None])) as ArrayRef),
    ]);
    let entry_field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::new(entry_field, OffsetBuffer::new(vec![0, 2, 2, 2].into()), entries, None, false);
    let pairs = FixedSizeListArray::new(
        Arc::new(Field::new("item", DataType::Float64, true)),
        2,
        Arc::new(Float64Array::from(vec![1.0, 2.5, 3.0, 4.0, 5.0, 6.0])),
        None,
    );
    let whole = batch(vec![col("l", lists.finish()), col("s", structs), col("m", map), col("p", pairs)]);
    let expected = [
        r#"{"l":[[1,2],null,[]],"s":{"w":"a,b","j":[1, 2]},"m":{"1":true,"2":null},"p":[1.0,2.5]}"#,
        r#"{"l":null,"s":{"w":null},"m":{},"p":[3.0,4.0]}"#,
        r#"{"l":[],"s":{"w":"NULL","j":null},"m":{},"p":[5.0,6.0]}"#,
    ];
    assert_eq!(encode(&whole).unwrap().lines().collect::<Vec<_>>(), expected);
    // Slices of the batch write the same rows.
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(encode(&whole.slice(row, 1)).unwrap().trim_end(), *expected);
    }
}

#[test]
fn types_without_a_form_are_refused_before_any_row() {
    let union = DataType::Union(arrow_schema::UnionFields::empty(), arrow_schema::UnionMode::Sparse);
    let schema = Arc::new(Schema::new(vec![Field::new("u", union, true)]));
    let error = JsonlOutput::new(&Settings::default(), schema).err().unwrap();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Unsupported, Some("u")));
}

#[test]
fn no_columns_and_long_keys() {
    let empty =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &RecordBatchOptions::new().with_row_count(Some(2))).unwrap();
    assert_eq!(encode(&empty).unwrap(), "{}\n{}\n");
    let name = "k\"".repeat(40);
    let text = encode(&batch(vec![col(&name, Int32Array::from(vec![1]))])).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()[&name], 1);
}

#[test]
fn recycled_buffers_start_empty() {
    let batch = batch(vec![col("a", Int32Array::from(vec![7]))]);
    let mut encoder = JsonlOutput::new(&Settings::default(), batch.schema()).unwrap().encoder().unwrap();
    for _ in 0..4 {
        assert!(encoder.take().unwrap().is_none());
        encoder.push(&Rows::new(batch.clone(), 0), &mut Strict::default()).unwrap();
        assert_eq!(encoder.pending(), 8);
        let block = encoder.take().unwrap().unwrap();
        let BlockBody::Bytes(bytes) = block.body else { panic!("text makes bytes") };
        assert_eq!((bytes.as_slice(), block.rows), (b"{\"a\":7}\n".as_slice(), 1));
        encoder.recycle(bytes);
    }
}

#[test]
fn interval_units_are_told_apart() {
    let text = encode(&batch(vec![
        (Field::new("y", DataType::Interval(IntervalUnit::YearMonth), true), Arc::new(IntervalYearMonthArray::from(vec![-13])) as ArrayRef),
        (
            Field::new("d", DataType::Interval(IntervalUnit::DayTime), true),
            Arc::new(IntervalDayTimeArray::from(vec![arrow_buffer::IntervalDayTime::new(3, -250)])) as ArrayRef,
        ),
        (Field::new("t", DataType::Duration(TimeUnit::Second), true), Arc::new(DurationSecondArray::from(vec![60])) as ArrayRef),
    ]))
    .unwrap();
    assert_eq!(text, "{\"y\":\"P-13M0DT0S\",\"d\":\"P0M3DT-0.25S\",\"t\":\"PT60S\"}\n");
}
