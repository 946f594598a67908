//! Cases by their ids, on files made by hand or by our own writer; `foreign` has those that need another system.

use super::harness::{Memory, batch, memory, read_all, read_batches, settings, write_pieces};
use super::random::assert_same;
use crate::literal::parse_timestamp_nanos;
use crate::parquet::{ParquetInput, ParquetOutput, SPEC};
use crate::{ContainerInput, Output, ReadAt};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use haul_model::{ErrorKind, Result, Rows, Strict, field_meta};
use parquet::data_type::{ByteArrayType, FixedLenByteArrayType, Int32Type as I32, Int64Type as I64, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes the columns of one row group.
type Group<'a> = &'a dyn Fn(&mut SerializedRowGroupWriter<'_, &mut Vec<u8>>);

/// A file written column by column with the library's low-level writer, one row group for each function.
fn hand_made(message: &str, groups: &[Group<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(WriterProperties::default())).unwrap();
    for group in groups {
        let mut group_writer = writer.next_row_group().unwrap();
        group(&mut group_writer);
        group_writer.close().unwrap();
    }
    writer.close().unwrap();
    out
}

/// Writes one column without NULLs.
fn column<T: parquet::data_type::DataType>(group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>, values: &[T::T]) {
    let mut writer = group.next_column().unwrap().unwrap();
    writer.typed::<T>().write_batch(values, None, None).unwrap();
    writer.close().unwrap();
}

fn open(file: &[u8], pairs: &[(&str, &str)]) -> Result<ParquetInput> {
    ParquetInput::open(memory(file), &settings(&SPEC, pairs), "t.parquet")
}

fn write(batches: &[RecordBatch], pairs: &[(&str, &str)]) -> Vec<u8> {
    let output = ParquetOutput::new(&settings(&SPEC, pairs), batches[0].schema()).unwrap();
    write_pieces(&output, &[batches]).unwrap()
}

fn round_trip(original: &RecordBatch) -> RecordBatch {
    read_all(&open(&write(std::slice::from_ref(original), &[]), &[]).unwrap()).unwrap()
}

/// Nanoseconds since 1970, in 128 bits.
fn nanos(text: &str) -> i128 {
    let parsed = parse_timestamp_nanos(text.as_bytes()).unwrap();
    i128::from(parsed.micros) * 1_000 + i128::from(parsed.nanos)
}

fn int96(text: &str) -> Int96 {
    let (days, rest) = (nanos(text).div_euclid(86_400_000_000_000), nanos(text).rem_euclid(86_400_000_000_000));
    let mut value = Int96::new();
    value.set_data(rest as u32, (rest >> 32) as u32, (days + 2_440_588) as u32);
    value
}

fn int96_file(texts: &[&str]) -> Vec<u8> {
    let values: Vec<Int96> = texts.iter().map(|text| int96(text)).collect();
    hand_made(
        "message m { required int96 t; required int32 n; }",
        &[&|group| {
            column::<Int96Type>(group, &values);
            column::<I32>(group, &vec![7; values.len()]);
        }],
    )
}

#[test]
fn pq_01_int96_is_read_to_the_microsecond_without_wrapping() {
    let texts = [
        "0001-01-01T00:00:00",
        "1000-01-01T00:00:00",
        "1677-09-21T00:12:43",
        "2000-01-01T00:00:00",
        "2262-04-12T00:00:00",
        "3332-12-14T11:33:10.965",
        "9999-12-31T02:00:00",
    ];
    let input = open(&int96_file(&texts), &[]).unwrap();
    assert_eq!(input.schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let micros: Vec<i64> = texts.iter().map(|text| (nanos(text) / 1_000) as i64).collect();
    assert_eq!(read_all(&input).unwrap().column(0).as_primitive::<TimestampMicrosecondType>().values(), micros.as_slice());
}

#[test]
fn pq_01_int96_below_the_microsecond_is_refused_unless_asked_for() {
    let texts = ["2000-01-01T00:00:00.5", "2000-01-01T00:00:00.000000001"];
    let file = int96_file(&texts);
    let error = read_all(&open(&file, &[]).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.place().row_in_chunk, error.place().column.as_deref()), (ErrorKind::Lossy, Some(1), Some("t")));
    assert_eq!(error.hint_text(), Some("read INT96 as nanoseconds: ?int96=nanos"));
    let exact = read_all(&open(&file, &[("int96", "nanos"), ("columns", "n,t")]).unwrap()).unwrap();
    let expected: Vec<i64> = texts.iter().map(|text| nanos(text) as i64).collect();
    assert_eq!(exact.column(1).as_primitive::<TimestampNanosecondType>().values(), expected.as_slice());
    let far = int96_file(&["2262-04-11T23:47:16.854775807", "3332-12-14T11:33:10.965"]);
    let error = read_all(&open(&far, &[("int96", "nanos")]).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.place().row_in_chunk), (ErrorKind::Data, Some(1)));
    // The column that is not read is not looked at.
    assert_eq!(read_all(&open(&file, &[("columns", "n")]).unwrap()).unwrap().num_rows(), 2);
}

#[test]
fn pq_01_interval_keeps_months_days_and_milliseconds() {
    let part = |months: u32, days: u32, millis: u32| [months.to_le_bytes(), days.to_le_bytes(), millis.to_le_bytes()].concat();
    let file = |values: &[parquet::data_type::FixedLenByteArray]| {
        hand_made(
            "message m { required fixed_len_byte_array(12) span (INTERVAL); }",
            &[&|group| column::<FixedLenByteArrayType>(group, values)],
        )
    };
    let bytes = |value: Vec<u8>| parquet::data_type::FixedLenByteArray::from(value);
    let input = open(&file(&[bytes(part(14, 3, 500)), bytes(part(0, 0, 0))]), &[]).unwrap();
    assert_eq!(input.schema().field(0).data_type(), &DataType::Interval(IntervalUnit::MonthDayNano));
    let expected = [IntervalMonthDayNano::new(14, 3, 500_000_000), IntervalMonthDayNano::new(0, 0, 0)];
    assert_eq!(read_all(&input).unwrap().column(0).as_primitive::<IntervalMonthDayNanoType>().values(), expected.as_slice());
    let error = read_all(&open(&file(&[bytes(part(0, u32::MAX, 0))]), &[]).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Data, Some("span")));
}

/// Per type: -1, the smallest step below zero, 0, the largest and the smallest value.
fn decimal_values(precision: u8, scale: u8) -> [i128; 5] {
    let (one, limit) = (10i128.pow(scale.into()), 10i128.pow(precision.into()) - 1);
    [-one, -1, 0, limit, -limit]
}

const DECIMALS: [(&str, u8, u8); 5] = [("i32", 9, 2), ("i64", 18, 4), ("flba9", 20, 5), ("flba16", 38, 10), ("bytes", 30, 3)];

/// Big-endian two's complement in as few bytes as possible.
fn minimal(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let same_sign = |start: usize| {
        (start + 1..16).contains(&(start + 1))
            && bytes[start] == if value < 0 { 0xff } else { 0 }
            && (bytes[start + 1] ^ value.to_be_bytes()[0]) < 0x80
    };
    let start = (0..15).find(|start| !same_sign(*start)).unwrap_or(15);
    bytes[start..].to_vec()
}

#[test]
fn pq_02_decimals_in_all_physical_types() {
    let message = "message m {
        required int32 i32 (DECIMAL(9,2));
        required int64 i64 (DECIMAL(18,4));
        required fixed_len_byte_array(9) flba9 (DECIMAL(20,5));
        required fixed_len_byte_array(16) flba16 (DECIMAL(38,10));
        required binary bytes (DECIMAL(30,3));
    }";
    let file = hand_made(
        message,
        &[&|group| {
            column::<I32>(group, &decimal_values(9, 2).map(|v| v as i32));
            column::<I64>(group, &decimal_values(18, 4).map(|v| v as i64));
            column::<FixedLenByteArrayType>(group, &decimal_values(20, 5).map(|v| v.to_be_bytes()[7..].to_vec().into()));
            column::<FixedLenByteArrayType>(group, &decimal_values(38, 10).map(|v| v.to_be_bytes().to_vec().into()));
            column::<ByteArrayType>(group, &decimal_values(30, 3).map(|v| minimal(v).into()));
        }],
    );
    let read = read_all(&open(&file, &[]).unwrap()).unwrap();
    for (index, (name, precision, scale)) in DECIMALS.into_iter().enumerate() {
        assert_eq!(read.schema().field(index).data_type(), &DataType::Decimal128(precision, scale as i8), "{name}");
        assert_eq!(read.column(index).as_primitive::<Decimal128Type>().values(), decimal_values(precision, scale).as_slice(), "{name}");
    }
    assert_same(&round_trip(&read), &read);
}

#[test]
fn pq_03_null_empty_and_lists_of_null_differ() {
    let item = Arc::new(Field::new("element", DataType::Int32, true));
    let field = Field::new("l", DataType::List(item.clone()), true);
    let rows = vec![Some(vec![Some(1), Some(2)]), Some(vec![]), None, Some(vec![None]), Some(vec![None, Some(2)])];
    let lists = |rows: Vec<Option<Vec<Option<i32>>>>| {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let (_, offsets, values, nulls) = list.into_parts();
        Arc::new(ListArray::new(item.clone(), offsets, values, nulls)) as ArrayRef
    };
    let five = batch(vec![(field.clone(), lists(rows))]);
    assert_same(&round_trip(&five), &five);
    let mut sparse = vec![None; 349_525];
    sparse.push(Some(vec![Some(1), Some(2)]));
    let sparse = batch(vec![(field, lists(sparse))]);
    let pairs = [("row_group_rows", "1000000")];
    assert_same(&read_all(&open(&write(std::slice::from_ref(&sparse), &pairs), &[]).unwrap()).unwrap(), &sparse);
}

#[test]
fn pq_04_a_no_row_group() {
    let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8View, true), Field::new("n", DataType::Int64, false)]));
    let output = ParquetOutput::new(&settings(&SPEC, &[]), schema.clone()).unwrap();
    for file in [write_pieces(&output, &[]).unwrap(), write_pieces(&output, &[&[RecordBatch::new_empty(schema.clone())]]).unwrap()] {
        let input = open(&file, &[]).unwrap();
        assert_eq!((input.pieces(), input.schema()), (vec![], schema.clone()));
    }
}

#[test]
fn pq_04_b_row_groups_without_rows_are_skipped() {
    let file = hand_made(
        "message m { required int32 n; }",
        &[&|group| column::<I32>(group, &[1, 2, 3, 4, 5]), &|group| column::<I32>(group, &[]), &|group| {
            column::<I32>(group, &[6, 7, 8, 9, 10])
        }],
    );
    let input = open(&file, &[]).unwrap();
    assert_eq!(input.pieces(), [5, 5]);
    assert_eq!(read_all(&input).unwrap().column(0).as_primitive::<Int32Type>().values(), (1..=10).collect::<Vec<_>>().as_slice());
}

#[test]
fn pq_04_c_a_column_of_nulls() {
    let columns = vec![
        (Field::new("typed", DataType::Int32, true), Arc::new(Int32Array::new_null(9)) as ArrayRef),
        (Field::new("text", DataType::Utf8View, true), Arc::new(StringViewArray::new_null(9)) as ArrayRef),
        (Field::new("untyped", DataType::Null, true), Arc::new(NullArray::new(9)) as ArrayRef),
    ];
    assert_same(&round_trip(&batch(columns.clone())), &batch(columns));
}

#[test]
fn pq_04_e_a_dictionary_that_grows_too_large() {
    let text = |from: u64| {
        StringViewArray::from_iter_values((from..from + 100_000).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    };
    let parts: Vec<RecordBatch> =
        (0..11).map(|part| batch(vec![(Field::new("t", DataType::Utf8View, false), Arc::new(text(part * 100_000)) as _)])).collect();
    let file = write(&parts, &[("row_group_rows", "2000000")]);
    let input = open(&file, &[]).unwrap();
    assert_eq!(input.pieces(), [1_100_000]);
    let mut number = 0u64;
    for batch in read_batches(&input).unwrap() {
        for value in batch.column(0).as_string_view().iter().flatten() {
            assert_eq!(value, format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            number += 1;
        }
    }
    assert_eq!(number, 1_100_000);
}

#[test]
fn pq_04_f_names_with_dots_and_names_that_differ_by_case() {
    let int = |n: i32| Arc::new(Int32Array::from(vec![n])) as ArrayRef;
    let names = ["a.b", "a", "A", "a.b.c", "", "Grün "];
    let columns = names.iter().enumerate().map(|(n, name)| (Field::new(*name, DataType::Int32, true), int(n as i32))).collect();
    let original = batch(columns);
    assert_same(&round_trip(&original), &original);
}

#[test]
fn pq_04_g_a_cut_file_is_an_error_at_every_length() {
    let text = StringViewArray::from_iter_values((0..200).map(|n| format!("value {n}")));
    let file = write(&[batch(vec![(Field::new("t", DataType::Utf8View, false), Arc::new(text) as _)])], &[]);
    for length in 0..file.len() {
        let error = open(&file[..length], &[]).err().unwrap_or_else(|| panic!("a file cut at {length} opens"));
        assert_eq!((error.kind(), error.place().object.as_deref()), (ErrorKind::Data, Some("t.parquet")), "{error}");
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn pq_04_g_a_hole_in_the_data_is_an_error() {
    let text = StringViewArray::from_iter_values((0..2_000).map(|n| format!("value {n}")));
    let mut file = write(&[batch(vec![(Field::new("t", DataType::Utf8View, false), Arc::new(text) as _)])], &[]);
    file[4..200].fill(0);
    let error = read_all(&open(&file, &[]).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.place().object.as_deref()), (ErrorKind::Data, Some("t.parquet")), "{error}");
}

#[test]
fn bn_02_uuids_are_stored_big_endian_and_ordered_by_unsigned_bytes() {
    let (low, high) =
        (0x0011_2233_4455_6677_8899_aabb_ccdd_eeffu128.to_be_bytes(), 0xffee_ddcc_bbaa_9988_7766_5544_3322_1100u128.to_be_bytes());
    let field = field_meta::with(Field::new("u", DataType::FixedSizeBinary(16), false), field_meta::EXTENSION, field_meta::UUID);
    let values = FixedSizeBinaryArray::try_from_iter([high, low].into_iter()).unwrap();
    let original = batch(vec![(field, Arc::new(values) as _)]);
    let file = write(std::slice::from_ref(&original), &[("compression", "none")]);
    assert!(file.windows(32).any(|window| window[..16] == high && window[16..] == low));
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
    let chunk = reader.metadata().row_group(0).column(0);
    assert_eq!(chunk.column_descr().logical_type_ref(), Some(&parquet::basic::LogicalType::Uuid));
    let statistics = chunk.statistics().unwrap();
    assert_eq!((statistics.min_bytes_opt(), statistics.max_bytes_opt()), (Some(&low[..]), Some(&high[..])));
    // The mark comes from Parquet's own type where a writer knew nothing of Arrow.
    let foreign = hand_made(
        "message m { required fixed_len_byte_array(16) u (UUID); required binary j (JSON); }",
        &[&|group| {
            column::<FixedLenByteArrayType>(group, &[low.to_vec().into()]);
            column::<ByteArrayType>(group, &["{}".into()]);
        }],
    );
    let schema = open(&foreign, &[]).unwrap().schema();
    assert!(field_meta::is_uuid(schema.field(0)) && field_meta::is_json(schema.field(1)));
    assert_same(&read_all(&open(&file, &[]).unwrap()).unwrap(), &original);
}

#[test]
fn num_06_unsigned_maxima_survive() {
    let original = batch(vec![
        (Field::new("a", DataType::UInt8, true), Arc::new(UInt8Array::from(vec![u8::MAX])) as ArrayRef),
        (Field::new("b", DataType::UInt16, true), Arc::new(UInt16Array::from(vec![u16::MAX])) as ArrayRef),
        (Field::new("c", DataType::UInt32, true), Arc::new(UInt32Array::from(vec![u32::MAX])) as ArrayRef),
        (Field::new("d", DataType::UInt64, true), Arc::new(UInt64Array::from(vec![u64::MAX])) as ArrayRef),
    ]);
    assert_same(&round_trip(&original), &original);
    let message = "message m { required int32 c (UINT_32); required int64 d (UINT_64); required int32 a (UINT_8); }";
    let file = hand_made(
        message,
        &[&|group| {
            column::<I32>(group, &[-1]);
            column::<I64>(group, &[-1]);
            column::<I32>(group, &[255]);
        }],
    );
    let read = read_all(&open(&file, &[]).unwrap()).unwrap();
    assert_eq!(read.column(0).as_primitive::<UInt32Type>().value(0), u32::MAX);
    assert_eq!(read.column(1).as_primitive::<UInt64Type>().value(0), u64::MAX);
    assert_eq!(read.column(2).as_primitive::<UInt8Type>().value(0), 255);
}

#[test]
fn text_that_is_not_utf_8_is_an_error_and_untyped_bytes_become_text_when_asked() {
    let file =
        |message: &str, bytes: &'static [u8]| hand_made(message, &[&|group| column::<ByteArrayType>(group, &[bytes.to_vec().into()])]);
    let text = file("message m { required binary t (UTF8); }", b"gr\xfcn");
    assert_eq!(read_all(&open(&text, &[]).unwrap()).unwrap_err().kind(), ErrorKind::Data);
    let untyped = file("message m { required binary t; }", "Grün".as_bytes());
    assert_eq!(open(&untyped, &[]).unwrap().schema().field(0).data_type(), &DataType::BinaryView);
    let read = read_all(&open(&untyped, &[("binary_as_text", "true")]).unwrap()).unwrap();
    assert_eq!(read.column(0).as_string_view().value(0), "Grün");
}

/// Counts what is read.
struct Counting {
    file: Memory,
    largest: AtomicUsize,
    total: AtomicUsize,
}

impl ReadAt for Counting {
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn read_at(&self, offset: u64, length: usize) -> Result<bytes::Bytes> {
        self.largest.fetch_max(length, Ordering::Relaxed);
        self.total.fetch_add(length, Ordering::Relaxed);
        self.file.read_at(offset, length)
    }
}

#[test]
fn op_05_1500_columns_are_written_and_read_in_bounded_pieces() {
    let fields: Vec<Field> = (0..1_500).map(|n| Field::new(format!("c{n}"), DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let part = |seed: i64| {
        let columns =
            (0..1_500i64).map(|c| Arc::new(Int64Array::from_iter_values((0..100).map(|row| (row + seed * 100) * (c + 7919)))) as ArrayRef);
        RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
    };
    let output = ParquetOutput::new(&settings(&SPEC, &[("row_group_bytes", "2MiB")]), schema.clone()).unwrap();
    let mut encoder = output.encoder().unwrap();
    for seed in 0..6 {
        encoder.push(&Rows::new(part(seed), 0), &mut Strict::default()).unwrap();
        // An open row group costs about 80 KiB a column in the library's own tables, whatever its rows.
        assert!(encoder.pending() < 160 << 20, "{} bytes held", encoder.pending());
    }
    let parts: Vec<RecordBatch> = (0..6).map(part).collect();
    let file = write_pieces(&output, &[&parts]).unwrap();
    let size = file.len();
    let counting = Arc::new(Counting { file: Memory(file.into()), largest: 0.into(), total: 0.into() });
    let input = ParquetInput::open(counting.clone(), &settings(&SPEC, &[]), "t.parquet").unwrap();
    assert_eq!(input.pieces(), [200, 200, 200]);
    let batches = read_batches(&input).unwrap();
    assert!(batches.iter().all(|batch| batch.num_rows() * 1_500 * 8 <= 2 << 20));
    assert_same(
        &arrow_select::concat::concat_batches(&schema, &batches).unwrap(),
        &arrow_select::concat::concat_batches(&schema, &parts).unwrap(),
    );
    assert!(counting.total.load(Ordering::Relaxed) < size + size / 4, "read {} of {size}", counting.total.load(Ordering::Relaxed));
    assert!(counting.largest.load(Ordering::Relaxed) <= 1 << 20);
}

#[test]
fn a_damaged_file_never_panics() {
    let text = StringViewArray::from_iter_values((0..300).map(|n| format!("value {}", n % 40)));
    let item = Arc::new(Field::new("element", DataType::Int32, true));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..300).map(|n| (n % 3 > 0).then(|| vec![Some(n); n as usize % 4])));
    let (_, offsets, values, nulls) = lists.into_parts();
    let decimals = Decimal128Array::from_iter_values(0..300).with_precision_and_scale(30, 3).unwrap();
    let original = batch(vec![
        (Field::new("t", DataType::Utf8View, false), Arc::new(text) as ArrayRef),
        (Field::new("l", DataType::List(item.clone()), true), Arc::new(ListArray::new(item, offsets, values, nulls)) as ArrayRef),
        (Field::new("d", DataType::Decimal128(30, 3), true), Arc::new(decimals) as ArrayRef),
    ]);
    let mut random = super::random::Random::new(11);
    let mut refused = 0;
    for codec in ["none", "zstd"] {
        let file = write(std::slice::from_ref(&original), &[("compression", codec)]);
        for _ in 0..1_500 {
            let mut damaged = file.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
            refused += usize::from(open(&damaged, &[]).and_then(|input| decode_all(&input)).is_err());
        }
    }
    assert!(refused > 300, "{refused} of 3,000 damaged files refused");
}

/// Decodes every piece, without the harness's own checks.
fn decode_all(input: &ParquetInput) -> Result<()> {
    for piece in 0..input.pieces().len() {
        let raw = haul_model::Raw { bytes: crate::piece_token(piece as u32), ..haul_model::Raw::default() };
        input.decoder()?.decode(raw, &mut Strict::default(), &mut |_, _| Ok(()))?;
    }
    Ok(())
}

#[test]
fn columns_that_hardly_repeat_go_on_without_a_dictionary() {
    let rows = 60_000_i32;
    let of = |name, array: ArrayRef| (Field::new(name, array.data_type().clone(), true), array);
    let original = batch(vec![
        of("id", Arc::new(Int32Array::from_iter_values(0..rows)) as ArrayRef),
        of("note", Arc::new(StringViewArray::from_iter_values((0..rows).map(|i| format!("note number {i}"))))),
        of("kind", Arc::new(StringViewArray::from_iter((0..rows).map(|i| (i % 7 > 0).then(|| format!("kind {}", i % 50)))))),
        of("flag", Arc::new(BooleanArray::from_iter((0..rows).map(|i| Some(i % 3 == 0))))),
    ]);
    let file = write(std::slice::from_ref(&original), &[("row_group_rows", "20000")]);
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
    let dictionaries = |group: usize| {
        let columns = reader.metadata().row_group(group).columns();
        columns.iter().map(|c| c.dictionary_page_offset().is_some()).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2].map(dictionaries), [[true, true, true, false], [false, false, true, false], [false, false, true, false]]);
    let back = read_all(&open(&file, &[]).unwrap()).unwrap();
    assert_same(&original, &back);
}
