//! What is written is read back, whatever the settings and the pieces.

use super::harness::{batch, memory, read_all, read_batches, settings, write_pieces};
use super::random::{assert_same, batches};
use crate::parquet::{ParquetInput, ParquetOutput, SPEC};
use crate::{ContainerInput, Output};
use arrow_array::*;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use haul_model::{ErrorKind, Rows, Strict, field_meta};
use proptest::prelude::*;
use std::sync::Arc;

fn round_trip(pieces: &[&[RecordBatch]], pairs: &[(&str, &str)]) -> RecordBatch {
    let output = ParquetOutput::new(&settings(&SPEC, pairs), pieces[0][0].schema()).unwrap();
    let file = write_pieces(&output, pieces).unwrap();
    read_all(&ParquetInput::open(memory(&file), &settings(&SPEC, &[]), "t.parquet").unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_batches_come_back_equal(batch in batches(), group in 1usize..200, split in 0usize..400, codec in prop::sample::select(vec!["zstd", "snappy", "gzip", "lz4", "none"])) {
        let split = split.min(batch.num_rows());
        let (head, tail) = (batch.slice(0, split), batch.slice(split, batch.num_rows() - split));
        let back = round_trip(&[&[head], &[tail]], &[("compression", codec), ("row_group_rows", &group.to_string())]);
        assert_same(&back, &batch);
    }
}

#[test]
fn pieces_keep_their_order_and_row_groups_their_size() {
    let numbers =
        |from: i64, to: i64| batch(vec![(Field::new("n", DataType::Int64, false), Arc::new(Int64Array::from_iter_values(from..to)) as _)]);
    let (a, b, c) = ([numbers(0, 700), numbers(700, 1_500)], [numbers(1_500, 1_501)], [numbers(1_501, 4_000)]);
    let output = ParquetOutput::new(&settings(&SPEC, &[("row_group_rows", "1000")]), a[0].schema()).unwrap();
    let file = write_pieces(&output, &[&a, &b, &c]).unwrap();
    let input = ParquetInput::open(memory(&file), &settings(&SPEC, &[]), "t.parquet").unwrap();
    assert_eq!(input.pieces(), [1_000, 500, 1, 1_000, 1_000, 499]);
    assert_same(&read_all(&input).unwrap(), &numbers(0, 4_000));
}

#[test]
fn row_groups_end_at_their_bytes() {
    let text = StringViewArray::from_iter_values((0..2_000).map(|n| format!("{n:0>1000}")));
    let wide = batch(vec![(Field::new("t", DataType::Utf8View, false), Arc::new(text) as _)]);
    let output = ParquetOutput::new(&settings(&SPEC, &[("row_group_bytes", "200KiB")]), wide.schema()).unwrap();
    let parts: Vec<RecordBatch> = (0..20).map(|part| wide.slice(part * 100, 100)).collect();
    let file = write_pieces(&output, &[&parts]).unwrap();
    let input = ParquetInput::open(memory(&file), &settings(&SPEC, &[]), "t.parquet").unwrap();
    assert_eq!(input.pieces(), vec![300, 300, 300, 300, 300, 300, 200]);
    assert_same(&read_all(&input).unwrap(), &wide);
}

#[test]
fn batches_stay_near_a_mebibyte() {
    let text = StringViewArray::from_iter_values((0..3_000).map(|n| format!("{n:0>4000}")));
    let wide = batch(vec![(Field::new("t", DataType::Utf8View, false), Arc::new(text) as _)]);
    let output = ParquetOutput::new(&settings(&SPEC, &[]), wide.schema()).unwrap();
    let file = write_pieces(&output, &[std::slice::from_ref(&wide)]).unwrap();
    let input = ParquetInput::open(memory(&file), &settings(&SPEC, &[]), "t.parquet").unwrap();
    let batches = read_batches(&input).unwrap();
    assert!(
        batches.iter().all(|batch| batch.num_rows() * 4_000 <= 1 << 20),
        "{:?}",
        batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>()
    );
}

#[test]
fn metadata_of_columns_and_schema_survives() {
    let marked = |name: &str, data_type, extension: &str| {
        let field = field_meta::with(Field::new(name, data_type, true), field_meta::SOURCE_TYPE, format!("postgres:{name}"));
        field_meta::with(field, field_meta::EXTENSION, extension)
    };
    let inner = Arc::new(marked("element", DataType::FixedSizeBinary(16), field_meta::UUID));
    let list = ListArray::new_null(inner.clone(), 2);
    let geometry =
        field_meta::with(marked("geo", DataType::BinaryView, field_meta::WKB), "ARROW:extension:metadata", r#"{"crs":"EPSG:4326"}"#);
    let fields = vec![
        marked("doc", DataType::Utf8View, field_meta::JSON),
        geometry,
        field_meta::with(Field::new("ids", DataType::List(inner), true), field_meta::SOURCE_TYPE, "postgres:uuid[]"),
    ];
    let schema = Arc::new(Schema::new_with_metadata(fields, [("haul.table".to_string(), "public.t".to_string())].into()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec![Some("{}"), None])),
        Arc::new(BinaryViewArray::from(vec![None, Some(&b"\x01"[..])])),
        Arc::new(list),
    ];
    let original = RecordBatch::try_new(schema, columns).unwrap();
    assert_same(&round_trip(&[std::slice::from_ref(&original)], &[]), &original);
}

#[test]
fn seconds_become_milliseconds_or_are_refused() {
    let seconds = |value: i64| {
        batch(vec![
            (
                Field::new("at", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), true),
                Arc::new(TimestampSecondArray::from(vec![Some(value), None]).with_timezone("UTC")) as ArrayRef,
            ),
            (
                Field::new("t", DataType::Time32(TimeUnit::Second), true),
                Arc::new(Time32SecondArray::from(vec![None, Some(86_399)])) as ArrayRef,
            ),
        ])
    };
    let back = round_trip(&[&[seconds(-62_135_596_800)]], &[]);
    assert_eq!(
        back.column(0).as_ref(),
        &TimestampMillisecondArray::from(vec![Some(-62_135_596_800_000), None]).with_timezone("UTC") as &dyn Array
    );
    assert_eq!(back.column(1).as_ref(), &Time32MillisecondArray::from(vec![None, Some(86_399_000)]) as &dyn Array);
    let output = ParquetOutput::new(&settings(&SPEC, &[]), seconds(0).schema()).unwrap();
    let error = write_pieces(&output, &[&[seconds(i64::MAX)]]).unwrap_err();
    assert_eq!((error.kind(), error.place().column.as_deref(), error.place().row_in_chunk), (ErrorKind::Data, Some("at"), Some(0)));
}

#[test]
fn dictionaries_are_written_as_their_values() {
    let words: DictionaryArray<types::Int32Type> = ["x", "y", "x"].into_iter().collect();
    let column = batch(vec![(Field::new("w", words.data_type().clone(), true), Arc::new(words) as _)]);
    let back = round_trip(&[&[column]], &[]);
    assert_eq!(back.column(0).as_ref(), &StringViewArray::from(vec!["x", "y", "x"]) as &dyn Array);
}

#[test]
fn what_parquet_cannot_hold_is_refused_by_column() {
    for data_type in [
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::List(Arc::new(Field::new("element", DataType::Interval(IntervalUnit::YearMonth), true))),
        DataType::Decimal128(5, -2),
        DataType::Struct(Vec::<Field>::new().into()),
    ] {
        let schema = Arc::new(Schema::new(vec![Field::new("ok", DataType::Int32, true), Field::new("span", data_type.clone(), true)]));
        let error = ParquetOutput::new(&settings(&SPEC, &[]), schema).err().unwrap();
        assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Schema, Some("span")), "{data_type}");
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn a_null_in_a_required_column_is_reported_with_its_row() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, false)]));
    let output = ParquetOutput::new(&settings(&SPEC, &[]), schema).unwrap();
    let loose = batch(vec![(Field::new("n", DataType::Int32, true), Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as _)]);
    let error = output.encoder().unwrap().push(&Rows::new(loose, 0), &mut Strict::default()).unwrap_err();
    assert_eq!((error.place().row_in_chunk, error.place().column.as_deref()), (Some(1), Some("n")));
}

#[test]
fn columns_are_read_in_the_order_asked_for() {
    let int = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
    let field = |name: &str| Field::new(name, DataType::Int32, true);
    let original = batch(vec![(field("a"), int(vec![1])), (field("b.c"), int(vec![2])), (field("A"), int(vec![3]))]);
    let output = ParquetOutput::new(&settings(&SPEC, &[]), original.schema()).unwrap();
    let file = write_pieces(&output, &[std::slice::from_ref(&original)]).unwrap();
    let open = |columns: &str| ParquetInput::open(memory(&file), &settings(&SPEC, &[("columns", columns)]), "t.parquet");
    assert_same(&read_all(&open("A,b.c").unwrap()).unwrap(), &original.project(&[2, 1]).unwrap());
    let error = open("a,b.d").err().unwrap();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::NotFound, Some("b.d")));
    assert_eq!(error.hint_text(), Some("did you mean \"b.c\"?"));
    assert_eq!(open("a,a").err().unwrap().kind(), ErrorKind::Config);
}

#[test]
fn the_plan_shows_the_files_types() {
    let schema = Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("name", DataType::Utf8View, true),
        Field::new("amount", DataType::Decimal128(20, 5), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        field_meta::with(Field::new("u", DataType::FixedSizeBinary(16), true), field_meta::EXTENSION, field_meta::UUID),
        Field::new("s", DataType::Timestamp(TimeUnit::Second, None), true),
        Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true))), true),
    ]);
    let output = ParquetOutput::new(&settings(&SPEC, &[]), Arc::new(schema)).unwrap();
    let shown: Vec<String> = output
        .columns()
        .into_iter()
        .map(|(name, data_type, remark)| format!("{name}: {data_type} {}", remark.unwrap_or_default()))
        .collect();
    assert_eq!(
        shown,
        [
            "id: INT64 UINT(64) ",
            "name: BYTE_ARRAY STRING ",
            "amount: FIXED_LEN_BYTE_ARRAY(9) DECIMAL(20,5) ",
            "at: INT64 TIMESTAMP(us, UTC) ",
            "u: FIXED_LEN_BYTE_ARRAY(16) UUID ",
            "s: INT64 TIMESTAMP(ms) kept in milliseconds: Parquet has no seconds",
            "tags: group LIST ",
        ]
    );
}
