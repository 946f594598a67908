//! pyarrow and DuckDB as second writer and second reader.

use super::harness::{batch, memory, python, read_all, run_python, settings, write_pieces};
use crate::ContainerInput;
use crate::literal::{parse_date, parse_timestamp};
use crate::parquet::{ParquetInput, ParquetOutput, SPEC};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field, TimeUnit};
use haul_model::{Result, field_meta};
use std::path::Path;
use std::sync::Arc;

fn open(folder: &Path, name: &str) -> Result<ParquetInput> {
    ParquetInput::open(memory(&std::fs::read(folder.join(name)).unwrap()), &settings(&SPEC, &[]), name)
}

fn write(folder: &Path, name: &str, batch: &RecordBatch) {
    let output = ParquetOutput::new(&settings(&SPEC, &[]), batch.schema()).unwrap();
    std::fs::write(folder.join(name), write_pieces(&output, &[std::slice::from_ref(batch)]).unwrap()).unwrap();
}

fn micros(text: &str) -> i64 {
    parse_timestamp(text.as_bytes()).unwrap().micros
}

#[test]
fn pq_01_timestamps_of_pyarrow_in_every_unit() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
far = [dt.datetime(1000,1,1), dt.datetime(1677,9,21), dt.datetime(2000,1,1), dt.datetime(2262,4,12), dt.datetime(3332,12,14,11,33,10,965000), dt.datetime(9999,12,31,2)]
near = [dt.datetime(2000,1,1,0,0,0,5)]*6
col = lambda v, t: pa.array(v, t)
pq.write_table(pa.table({'t': col(far, pa.timestamp('us'))}), 'int96.parquet', use_deprecated_int96_timestamps=True)
pq.write_table(pa.table({
  'ms': col([v.replace(microsecond=0) for v in far], pa.timestamp('ms')), 'msz': col(far[:0]+[v.replace(microsecond=0) for v in far], pa.timestamp('ms', 'UTC')),
  'us': col(far, pa.timestamp('us')), 'usz': col(far, pa.timestamp('us', 'UTC')),
  'ns': col(near, pa.timestamp('ns')), 'nsz': col(near, pa.timestamp('ns', 'UTC'))}), 'units.parquet', store_schema=False)
";
    run_python(&python, folder.path(), script);
    let far = ["1000-01-01", "1677-09-21", "2000-01-01", "2262-04-12", "3332-12-14T11:33:10.965", "9999-12-31T02:00"].map(micros);
    let int96 = read_all(&open(folder.path(), "int96.parquet").unwrap()).unwrap();
    assert_eq!(int96.column(0).as_primitive::<TimestampMicrosecondType>().values(), far.as_slice());
    let units = read_all(&open(folder.path(), "units.parquet").unwrap()).unwrap();
    let utc = Some(Arc::<str>::from("UTC"));
    let types: Vec<DataType> = units.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let expected = [TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let expected: Vec<DataType> =
        expected.iter().flat_map(|unit| [DataType::Timestamp(*unit, None), DataType::Timestamp(*unit, utc.clone())]).collect();
    assert_eq!(types, expected);
    for column in [2, 3] {
        assert_eq!(units.column(column).as_primitive::<TimestampMicrosecondType>().values(), far.as_slice());
    }
    for column in [0, 1] {
        let whole: Vec<i64> = far.iter().map(|micros| micros.div_euclid(1_000_000) * 1_000).collect();
        assert_eq!(units.column(column).as_primitive::<TimestampMillisecondType>().values(), whole.as_slice());
    }
    assert_eq!(units.column(5).as_primitive::<TimestampNanosecondType>().value(0), micros("2000-01-01T00:00:00.000005") * 1_000);
}

#[test]
fn pq_02_decimals_that_we_write_are_read_equal() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let decimals = [(9u8, 2i8), (18, 4), (20, 5), (38, 10), (30, 3), (76, 20)];
    let columns = decimals.map(|(precision, scale)| {
        let name = format!("d{precision}");
        if precision > 38 {
            let values = Decimal256Array::from(vec![Some(arrow_buffer::i256::from_i128(-i128::MAX)), None]);
            return (
                Field::new(name, DataType::Decimal256(precision, scale), true),
                Arc::new(values.with_precision_and_scale(precision, scale).unwrap()) as ArrayRef,
            );
        }
        let values = Decimal128Array::from(vec![Some(1 - 10i128.pow(precision.into())), None]);
        (
            Field::new(name, DataType::Decimal128(precision, scale), true),
            Arc::new(values.with_precision_and_scale(precision, scale).unwrap()) as ArrayRef,
        )
    });
    write(folder.path(), "d.parquet", &batch(columns.into()));
    let seen = run_python(
        &python,
        folder.path(),
        "print(*[str(v[0]) + str(v[1]) for v in pq.read_table('d.parquet').to_pydict().values()], sep='\\n')",
    );
    let expected = "-9999999.99None\n-99999999999999.9999None\n-999999999999999.99999None\n-9999999999999999999999999999.9999999999None
-999999999999999999999999999.999None\n-1701411834604692317.31687303715884105727None";
    assert_eq!(seen, expected);
}

#[test]
fn pq_03_nested_lists_are_equal_in_pyarrow_and_back() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
l = [[1,2], [], None, [None], [None,2]]
n = [[{'a': 'x', 'b': [1, None]}, {'a': None, 'b': []}], [], None, [{'a': 'y', 'b': None}, None], [{'a': '', 'b': [7]}]]
t = pa.table({'l': pa.array(l, pa.list_(pa.int32())), 'n': pa.array(n, pa.list_(pa.struct([('a', pa.string()), ('b', pa.list_(pa.int64()))])))})
pq.write_table(t, 'theirs.parquet')
pq.write_table(pa.table({'l': pa.array([None]*349525 + [[1,2]], pa.list_(pa.int32()))}), 'sparse.parquet')
";
    run_python(&python, folder.path(), script);
    write(folder.path(), "ours.parquet", &read_all(&open(folder.path(), "theirs.parquet").unwrap()).unwrap());
    let sparse = read_all(&open(folder.path(), "sparse.parquet").unwrap()).unwrap();
    let lists = sparse.column(0).as_list::<i32>();
    assert_eq!((lists.null_count(), lists.value(349_525).as_primitive::<Int32Type>().values().to_vec()), (349_525, vec![1, 2]));
    write(folder.path(), "ours_sparse.parquet", &sparse);
    let script = "
same = lambda a, b: pq.read_table(a).to_pydict() == pq.read_table(b).to_pydict()
print(same('ours.parquet', 'theirs.parquet'), same('ours_sparse.parquet', 'sparse.parquet'))
";
    assert_eq!(run_python(&python, folder.path(), script), "True True");
}

#[test]
fn pq_04_odd_files_of_pyarrow() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "
w = pq.ParquetWriter('none.parquet', pa.schema([('n', pa.int32()), ('s', pa.string())])); w.close()
w = pq.ParquetWriter('gaps.parquet', pa.schema([('n', pa.int32())]))
for v in ([1,2,3,4,5], [], [6,7,8,9,10]): w.write_table(pa.table({'n': pa.array(v, pa.int32())}))
w.close()
pq.write_table(pa.table({'u8': pa.array([255], pa.uint8()), 'u64': pa.array([2**64-1], pa.uint64()), 'z': pa.nulls(1), 'a.b': [1], 'A.B': [2]}), 'odd.parquet', version='1.0')
pq.write_table(pa.table({'c': pa.array(['x', None, 'x']).dictionary_encode(), 'big': pa.array(['p', 'q', None], pa.large_string())}), 'cat.parquet')
";
    run_python(&python, folder.path(), script);
    let none = open(folder.path(), "none.parquet").unwrap();
    assert_eq!((none.pieces(), none.schema().fields().len()), (vec![], 2));
    let gaps = read_all(&open(folder.path(), "gaps.parquet").unwrap()).unwrap();
    assert_eq!(gaps.column(0).as_primitive::<Int32Type>().values(), (1..=10).collect::<Vec<_>>().as_slice());
    let odd = read_all(&open(folder.path(), "odd.parquet").unwrap()).unwrap();
    assert_eq!((odd.column(0).as_primitive::<UInt8Type>().value(0), odd.column(1).as_primitive::<UInt64Type>().value(0)), (255, u64::MAX));
    assert_eq!(odd.column(2).data_type(), &DataType::Null);
    assert_eq!((odd["a.b"].as_primitive::<Int64Type>().value(0), odd["A.B"].as_primitive::<Int64Type>().value(0)), (1, 2));
    let categories = read_all(&open(folder.path(), "cat.parquet").unwrap()).unwrap();
    assert_eq!(categories.column(0).as_string_view(), &StringViewArray::from(vec![Some("x"), None, Some("x")]));
    assert_eq!(categories.column(1).as_string_view(), &StringViewArray::from(vec![Some("p"), Some("q"), None]));
}

#[test]
fn dt_03_ad_dates_are_equal_everywhere() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let days = ["0001-01-01", "1582-10-10", "1582-10-15", "9999-12-31"].map(|text| parse_date(text.as_bytes()).unwrap());
    let instants =
        ["0001-01-01T00:00:00Z", "1582-10-10T12:00:00Z", "1582-10-15T00:00:00.000001Z", "9999-12-31T23:59:59.999999Z"].map(micros);
    let original = batch(vec![
        (Field::new("d", DataType::Date32, true), Arc::new(Date32Array::from(days.to_vec())) as ArrayRef),
        (
            Field::new("z", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
            Arc::new(TimestampMicrosecondArray::from(instants.to_vec()).with_timezone("UTC")) as ArrayRef,
        ),
        (
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
            Arc::new(TimestampMicrosecondArray::from(instants.to_vec())) as ArrayRef,
        ),
    ]);
    write(folder.path(), "d.parquet", &original);
    super::random::assert_same(&read_all(&open(folder.path(), "d.parquet").unwrap()).unwrap(), &original);
    let script = "
t = pq.read_table('d.parquet')
print(*t['d'].to_pylist(), *[v.isoformat() for v in t['t'].to_pylist()], *[f.logical_type.to_json().replace(' ', '') for f in pq.ParquetFile('d.parquet').schema][1:], sep='\\n')
";
    let seen = run_python(&python, folder.path(), script);
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..4], ["0001-01-01", "1582-10-10", "1582-10-15", "9999-12-31"]);
    assert_eq!(lines[4..8], ["0001-01-01T00:00:00", "1582-10-10T12:00:00", "1582-10-15T00:00:00.000001", "9999-12-31T23:59:59.999999"]);
    assert!(lines[8].contains("\"isAdjustedToUTC\":true") && lines[9].contains("\"isAdjustedToUTC\":false"), "{seen}");
}

#[test]
fn bn_02_uuid_json_and_unsigned_are_seen_by_duckdb() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let marked =
        |name: &str, data_type, extension: &str| field_meta::with(Field::new(name, data_type, true), field_meta::EXTENSION, extension);
    let uuids = [0x0011_2233_4455_6677_8899_aabb_ccdd_eeffu128, 0xffee_ddcc_bbaa_9988_7766_5544_3322_1100].map(u128::to_be_bytes);
    let original = batch(vec![
        (
            marked("u", DataType::FixedSizeBinary(16), field_meta::UUID),
            Arc::new(FixedSizeBinaryArray::try_from_iter(uuids.into_iter()).unwrap()) as ArrayRef,
        ),
        (marked("j", DataType::Utf8View, field_meta::JSON), Arc::new(StringViewArray::from(vec!["{\"a\":1}", "null"])) as ArrayRef),
        (Field::new("n", DataType::UInt64, true), Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])) as ArrayRef),
        (
            Field::new("t", DataType::Time64(TimeUnit::Microsecond), true),
            Arc::new(Time64MicrosecondArray::from(vec![Some(86_399_999_999), None])) as ArrayRef,
        ),
    ]);
    write(folder.path(), "u.parquet", &original);
    let script = "
try:
    import duckdb
except ImportError:
    print('no duckdb'); raise SystemExit
q = duckdb.sql(\"select u::varchar, j::varchar, n::varchar, t::varchar, typeof(u), typeof(j), typeof(n) from 'u.parquet' where u >= '00000000-0000-0000-0000-000000000000' order by u\")
for row in q.fetchall(): print(*row, sep='|')
";
    let seen = run_python(&python, folder.path(), script);
    if seen == "no duckdb" {
        eprintln!("skipped: no duckdb beside pyarrow");
        return;
    }
    let expected = "00112233-4455-6677-8899-aabbccddeeff|{\"a\":1}|18446744073709551615|23:59:59.999999|UUID|JSON|UBIGINT
ffeeddcc-bbaa-9988-7766-554433221100|null|None|None|UUID|JSON|UBIGINT";
    assert_eq!(seen, expected);
}
