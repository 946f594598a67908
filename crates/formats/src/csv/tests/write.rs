//! The encoder: every type's text, quotes where they must be, and round trips.

use super::*;
use crate::Output;
use crate::csv::CsvOutput;
use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{BlockBody, ErrorKind, field_meta};
use proptest::prelude::*;
use std::sync::Arc;

fn write_settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::resolve(&[SPEC.write], pairs.iter().copied(), "csv").unwrap()
}

fn output(pairs: &[(&str, &str)], schema: &SchemaRef) -> Result<CsvOutput> {
    CsvOutput::new(&write_settings(pairs), schema.clone())
}

/// Encodes a batch; `rejects` takes rows that cannot be written.
fn encode_with(pairs: &[(&str, &str)], batch: &RecordBatch, rejects: &mut dyn Rejects) -> Result<Vec<u8>> {
    let output = output(pairs, &batch.schema())?;
    let mut encoder = output.encoder()?;
    let mut file = output.prolog();
    encoder.push(&Rows::new(batch.clone(), 0), rejects)?;
    if let Some(block) = encoder.take()? {
        let BlockBody::Bytes(bytes) = block.body else { panic!("records are bytes") };
        file.extend_from_slice(&bytes);
    }
    Ok(file)
}

pub(super) fn encode(pairs: &[(&str, &str)], batch: &RecordBatch) -> Result<Vec<u8>> {
    encode_with(pairs, batch, &mut haul_model::Strict::default())
}

/// A batch of string columns c0, c1, ...
pub(super) fn batch(table: &Table) -> RecordBatch {
    let width = table.first().map_or(1, Vec::len);
    let column = |c: usize| Arc::new(table.iter().map(|r| r[c].clone()).collect::<StringViewArray>()) as ArrayRef;
    let fields: Vec<Field> = (0..width).map(|c| Field::new(format!("c{c}"), DataType::Utf8View, true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), (0..width).map(column).collect()).unwrap()
}

fn one(array: impl Array + 'static, metadata: Option<&str>) -> String {
    let field = Field::new("v", array.data_type().clone(), true);
    let field = match metadata {
        Some(extension) => field_meta::with(field, field_meta::EXTENSION, extension),
        None => field,
    };
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(array)]).unwrap();
    String::from_utf8(encode(&[("header", "false")], &batch).unwrap()).unwrap()
}

#[test]
fn csv_17_the_writer_quotes_what_needs_it() {
    let values = ["n\nn", "c\rr", "quote\"", "a,b", " lead", "trail ", "\\.", "", "-", "=1+1", "plain", "\"", "\u{feff}bom"];
    let mut table: Table = values.iter().map(|v| vec![Some((*v).to_string())]).collect();
    table.push(vec![None]);
    let file = encode(&[], &batch(&table)).unwrap();
    let want = "c0\n\"n\nn\"\n\"c\rr\"\n\"quote\"\"\"\n\"a,b\"\n\" lead\"\n\"trail \"\n\"\\.\"\n\"\"\n-\n=1+1\nplain\n\"\"\"\"\n\"\u{feff}bom\"\n\n";
    assert_eq!(String::from_utf8(file.clone()).unwrap(), want);
    assert_eq!(read(&[], &file).unwrap().rows, table);
    assert_eq!(read(&[("header", "false")], &encode(&[("header", "false")], &batch(&table)).unwrap()).unwrap().rows, table);
}

#[test]
fn a_column_of_nothing_but_nulls_comes_back() {
    let table = rows(&[&["~"], &["~"]]);
    for header in ["true", "false"] {
        let file = encode(&[("header", header)], &batch(&table)).unwrap();
        assert_eq!(read(&[("header", header)], &file).unwrap().rows, table);
    }
}

#[test]
fn csv_26_what_cannot_be_read_back_is_refused() {
    let schema = batch(&rows(&[&["a"]])).schema();
    let refused: &[&[(&str, &str)]] = &[
        &[("delimiter", "\"")],
        &[("delimiter", "\r")],
        &[("delimiter", "\n")],
        &[("null", "a,b")],
        &[("null", "\"")],
        &[("null", "x\ny")],
        &[("null", " NA")],
        &[("quote", ",")],
        &[("quote", "none"), ("quoting", "all")],
        &[("comment", "#"), ("null", "#N/A")],
        &[("comment", ","), ("quote", "'")],
    ];
    for pairs in refused {
        let error = output(pairs, &schema).err().unwrap_or_else(|| panic!("{pairs:?} was accepted"));
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert!(Settings::resolve(&[SPEC.write], [("delimiter", "||")], "csv").is_err());

    let table = rows(&[&["t,n,g", "a"], &["~", "~"], &["NA", ""], &["n", "\\N"], &["'", "\\"]]);
    for pairs in [
        vec![("delimiter", "n")],
        vec![("delimiter", "\\")],
        vec![("delimiter", "tab"), ("null", "n")],
        vec![("null", "NA")],
        vec![("null", "\\N"), ("quote", "'")],
        vec![("quoting", "all"), ("null", "NA"), ("newline", "crlf")],
    ] {
        let file = encode(&pairs, &batch(&table)).unwrap();
        let pairs: Vec<_> = pairs.into_iter().filter(|(k, _)| !matches!(*k, "quoting" | "newline")).collect();
        assert_eq!(read(&pairs, &file).unwrap().rows, table, "{pairs:?}: {}", String::from_utf8_lossy(&file));
    }
}

#[test]
fn numbers_are_quoted_when_the_dialect_makes_them_special() {
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(Int64Array::from(vec![Some(0), Some(11), None])) as ArrayRef),
        ("b", Arc::new(Float64Array::from(vec![1.5, -2.0, f64::NAN])) as ArrayRef),
    ])
    .unwrap();
    assert_eq!(encode(&[("null", "0")], &batch).unwrap(), b"a,b\n\"0\",1.5\n11,-2.0\n0,NaN\n");
    assert_eq!(encode(&[("delimiter", "1")], &batch).unwrap(), b"a1b\n01\"1.5\"\n\"11\"1-2.0\n1NaN\n");
    assert_eq!(encode(&[("quoting", "all")], &batch).unwrap(), b"\"a\",\"b\"\n\"0\",\"1.5\"\n\"11\",\"-2.0\"\n,\"NaN\"\n");
}

#[test]
fn without_quotes_a_value_that_needs_them_is_rejected() {
    let table = rows(&[&["a", "b"], &["x,y", "b"], &["c", "~"]]);
    let mut aside = Aside::default();
    let file = encode_with(&[("quoting", "none")], &batch(&table), &mut aside).unwrap();
    assert_eq!(file, b"c0,c1\na,b\nc,\n");
    assert_eq!((aside.0.len(), aside.0[0].1.place().column.as_deref()), (1, Some("c0")));
    assert!(encode(&[("quote", "none")], &batch(&table)).unwrap_err().to_string().contains("quoting is off"));
}

#[test]
fn every_type_has_its_text() {
    assert_eq!(one(BooleanArray::from(vec![true, false]), None), "true\nfalse\n");
    assert_eq!(one(Int8Array::from(vec![-128]), None), "-128\n");
    assert_eq!(one(UInt64Array::from(vec![u64::MAX]), None), "18446744073709551615\n");
    assert_eq!(one(Float64Array::from(vec![5.0, 0.1, -0.0, f64::INFINITY]), None), "5.0\n0.1\n-0.0\nInfinity\n");
    assert_eq!(one(Float32Array::from(vec![0.1]), None), "0.1\n");
    let decimal = Decimal128Array::from(vec![150, -7]).with_precision_and_scale(38, 2).unwrap();
    assert_eq!(one(decimal, None), "1.50\n-0.07\n");
    let decimal = Decimal256Array::from(vec![i256::from_i128(-12345)]).with_precision_and_scale(76, 4).unwrap();
    assert_eq!(one(decimal, None), "-1.2345\n");
    assert_eq!(one(Date32Array::from(vec![0, 18_262]), None), "1970-01-01\n2020-01-01\n");
    assert_eq!(one(Time64MicrosecondArray::from(vec![34_200_250_000]), None), "09:30:00.25\n");
    let zoned = TimestampMicrosecondArray::from(vec![1_577_836_843_000_000]).with_timezone("UTC");
    assert_eq!(one(zoned, None), "2020-01-01T00:00:43Z\n");
    assert_eq!(one(TimestampMillisecondArray::from(vec![1_577_836_843_500]), None), "2020-01-01T00:00:43.5\n");
    assert_eq!(one(BinaryArray::from(vec![b"\x00\xff".as_slice(), b""]), None), "\\x00ff\n\\x\n");
    assert_eq!(one(BinaryViewArray::from(vec![b"hi".as_slice()]), None), "\\x6869\n");
    let uuid = FixedSizeBinaryArray::try_from_iter([[0x12u8; 16]].into_iter()).unwrap();
    assert_eq!(one(uuid.clone(), Some(field_meta::UUID)), "12121212-1212-1212-1212-121212121212\n");
    assert_eq!(one(uuid, None), "\\x12121212121212121212121212121212\n");
    assert_eq!(one(StringArray::from(vec![Some("a,b"), None, Some("")]), None), "\"a,b\"\n\n\"\"\n");
    assert_eq!(one(LargeStringArray::from(vec!["x"]), None), "x\n");
    assert_eq!(one(StringViewArray::from(vec!["{\"a\": [1, 2]}"]), Some(field_meta::JSON)), "\"{\"\"a\"\": [1, 2]}\"\n");
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None]);
    list.append_null();
    assert_eq!(one(list.finish(), None), "\"[1,null]\"\n\n");
    assert_eq!(one(NullArray::new(2), None), "\n\n");
}

#[test]
fn nan_in_a_list_is_an_error_with_its_column() {
    let mut list = ListBuilder::new(arrow_array::builder::Float64Builder::new());
    list.append_value([Some(f64::NAN)]);
    let batch = RecordBatch::try_from_iter([("v", Arc::new(list.finish()) as ArrayRef)]).unwrap();
    let error = encode(&[], &batch).unwrap_err();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Lossy, Some("v")));
}

#[test]
fn header_and_byte_order_mark() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a,b", DataType::Utf8, true), Field::new("", DataType::Int32, true)]));
    assert_eq!(output(&[("bom", "true")], &schema).unwrap().prolog(), b"\xef\xbb\xbf\"a,b\",\"\"\n");
    assert_eq!(output(&[("header", "false")], &schema).unwrap().prolog(), b"");
    assert!(output(&[], &Arc::new(Schema::empty())).is_err());
}

#[test]
fn pass_through_only_between_equal_dialects() {
    let file = b"a,b\n1,2\n";
    let schema = detect(&[], file).unwrap().schema();
    let welcome = output(&[], &schema).unwrap().encoding();
    assert!(welcome.is_some());
    assert_eq!(detect(&[], file).unwrap().encoding(), welcome);
    assert_eq!(detect(&[("skip_records", "1")], file).unwrap().encoding(), welcome);
    let other: &[&[(&str, &str)]] =
        &[&[("comment", "#")], &[("trim", "true")], &[("ragged", "pad")], &[("columns", "b")], &[("null", "NA")], &[("delimiter", ";")]];
    for pairs in other {
        assert_ne!(detect(pairs, file).unwrap().encoding(), welcome, "{pairs:?}");
    }
    assert_ne!(detect(&[], b"a,b\r\n1,2\r\n").unwrap().encoding(), welcome);
    assert_eq!(output(&[("quoting", "all")], &schema).unwrap().encoding(), None);
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        4 => "[a-zé日\",;\t\n\r #\\\\.N|']{0,14}".prop_map(Some),
        1 => "[a\",\n]{13,90}".prop_map(Some),
        1 => prop::sample::select(vec!["", "NA", "\\.", "\"", "\"\"", "#", "\u{feff}"]).prop_map(|s| Some(s.to_string())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any table comes back as it was, NULL and "" apart, however it is written and in pieces of any size.
    #[test]
    fn tables_come_back(
        table in (1..5usize).prop_flat_map(|width| prop::collection::vec(prop::collection::vec(text(), width), 1..12)),
        delimiter in prop::sample::select(vec![",", ";", "tab", "|", "a"]),
        quote in prop::sample::select(vec!["\"", "'"]),
        null in prop::sample::select(vec!["", "NA", "\\N"]),
        newline in prop::sample::select(vec!["lf", "crlf"]),
        quoting in prop::sample::select(vec!["minimal", "all"]),
        header in prop::sample::select(vec!["true", "false"]),
        comment in prop::sample::select(vec!["none", "#"]),
    ) {
        let both = [("delimiter", delimiter), ("quote", quote), ("null", null), ("header", header), ("comment", comment)];
        let file = encode(&[both.as_slice(), &[("newline", newline), ("quoting", quoting)]].concat(), &batch(&table)).unwrap();
        let back = read(&both, &file).unwrap();
        prop_assert_eq!(back.rows, table, "{}", String::from_utf8_lossy(&file));
    }
}
