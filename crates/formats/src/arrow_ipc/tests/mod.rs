//! Round trips in memory, cut files, and pyarrow beside us.

use super::{ArrowInput, ArrowOutput, RecordStream, SPEC};
use crate::ContainerInput;
use crate::parquet::tests::harness::{batch, memory, python, read_all, read_batches, run_python, settings, write_pieces};
use crate::parquet::tests::random::{assert_same, batches};
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_schema::{DataType, Field, IntervalUnit};
use haul_model::ErrorKind;
use proptest::prelude::*;
use std::sync::Arc;

fn write(pieces: &[&[RecordBatch]], pairs: &[(&str, &str)]) -> Vec<u8> {
    let output = ArrowOutput::new(&settings(&SPEC, pairs), pieces[0][0].schema()).unwrap();
    write_pieces(&output, pieces).unwrap()
}

fn open(file: &[u8]) -> haul_model::Result<ArrowInput> {
    ArrowInput::open(memory(file), &settings(&SPEC, &[]), "t.arrow")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_batches_come_back_equal(batch in batches(), rows in 1usize..200, split in 0usize..400, codec in prop::sample::select(vec!["zstd", "lz4", "none"]), views: bool) {
        let split = split.min(batch.num_rows());
        let (head, tail) = (batch.slice(0, split), batch.slice(split, batch.num_rows() - split));
        let pairs = [("compression", codec), ("batch_rows", &rows.to_string()), ("views", if views { "true" } else { "false" })];
        let file = write(&[&[head], &[tail]], &pairs);
        assert_same(&read_all(&open(&file).unwrap()).unwrap(), &batch);
    }
}

fn numbers(from: i64, to: i64) -> RecordBatch {
    let text = StringViewArray::from_iter_values((from..to).map(|n| format!("number {n} in words of more than twelve bytes")));
    batch(vec![
        (Field::new("n", DataType::Int64, false), Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef),
        (Field::new("t", DataType::Utf8View, true), Arc::new(text) as ArrayRef),
    ])
}

#[test]
fn pieces_keep_their_order_and_batches_their_size() {
    let file = write(&[&[numbers(0, 700), numbers(700, 1_500)], &[numbers(1_500, 30_000)]], &[("batch_rows", "10000")]);
    let input = open(&file).unwrap();
    assert_eq!(input.pieces(), [1_500, 10_000, 10_000, 8_500]);
    assert!(read_batches(&input).unwrap().iter().all(|batch| batch.num_rows() <= 8_192));
    assert_same(&read_all(&input).unwrap(), &numbers(0, 30_000));
}

#[test]
fn a_cut_file_is_an_error_at_every_length() {
    let file = write(&[&[numbers(0, 30)], &[numbers(30, 60)]], &[]);
    for length in 0..file.len() {
        let error = open(&file[..length]).err().unwrap_or_else(|| panic!("a file cut at {length} opens"));
        assert_eq!((error.kind(), error.place().object.as_deref()), (ErrorKind::Data, Some("t.arrow")), "{error}");
    }
}

#[test]
fn a_damaged_file_never_panics() {
    let mut random = crate::parquet::tests::random::Random::new(7);
    let mut refused = 0;
    for codec in ["none", "lz4", "zstd"] {
        let file = write(&[&[numbers(0, 30)], &[numbers(30, 60)]], &[("compression", codec)]);
        for _ in 0..1_000 {
            let mut damaged = file.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
            refused += usize::from(open(&damaged).and_then(|input| decode_all(&input)).is_err());
        }
    }
    assert!(refused > 100, "{refused} of 3,000 damaged files refused");
}

/// Decodes every piece; each must have the rows that it promised.
fn decode_all(input: &ArrowInput) -> haul_model::Result<()> {
    for (piece, promised) in input.pieces().into_iter().enumerate() {
        let raw = haul_model::Raw { bytes: crate::piece_token(piece as u32), ..haul_model::Raw::default() };
        let mut rows = 0;
        input.decoder()?.decode(raw, &mut haul_model::Strict::default(), &mut |part, _| {
            rows += part.batch.num_rows() as u64;
            Ok(())
        })?;
        assert_eq!(rows, promised);
    }
    Ok(())
}

#[test]
fn columns_are_read_in_the_order_asked_for() {
    let original = numbers(0, 10);
    let file = write(&[std::slice::from_ref(&original)], &[]);
    let with = |columns: &str| ArrowInput::open(memory(&file), &settings(&SPEC, &[("columns", columns)]), "t.arrow");
    assert_same(&read_all(&with("t,n").unwrap()).unwrap(), &original.project(&[1, 0]).unwrap());
    assert_same(&read_all(&with("t").unwrap()).unwrap(), &original.project(&[1]).unwrap());
    assert_eq!(with("T2").err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn intervals_and_dictionaries_are_kept() {
    let spans = vec![Some(types::IntervalMonthDayNano::new(-14, 3, i64::MIN)), None];
    let words: DictionaryArray<types::Int8Type> = vec![Some("x"), Some("y")].into_iter().collect();
    let original = batch(vec![
        (
            Field::new("span", DataType::Interval(IntervalUnit::MonthDayNano), true),
            Arc::new(IntervalMonthDayNanoArray::from(spans)) as ArrayRef,
        ),
        (Field::new("w", words.data_type().clone(), true), Arc::new(words) as ArrayRef),
    ]);
    let back = read_all(&open(&write(&[std::slice::from_ref(&original)], &[])).unwrap()).unwrap();
    assert_eq!(back.column(0), original.column(0));
    assert_eq!(back.column(1).as_string_view(), &StringViewArray::from(vec!["x", "y"]));
}

fn stream(batches: &[RecordBatch], finish: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut out, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    if finish {
        writer.finish().unwrap();
    }
    drop(writer);
    out
}

#[test]
fn a_stream_gives_its_batches_and_a_cut_one_an_error() {
    let whole = stream(&[numbers(0, 5), numbers(5, 9)], true);
    let read = |bytes: &[u8]| -> haul_model::Result<usize> {
        let stream = RecordStream::open(Box::new(std::io::Cursor::new(bytes.to_vec())), "-")?;
        stream.map(|batch| batch.map(|batch| batch.num_rows())).sum()
    };
    assert_eq!(read(&whole).unwrap(), 9);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).expect_err("a cut stream");
        assert_eq!((error.kind(), error.place().object.as_deref()), (ErrorKind::Data, Some("-")), "{length}: {error}");
    }
}

#[test]
fn pyarrow_reads_our_files_and_we_read_its() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for codec in ["none", "lz4", "zstd"] {
        std::fs::write(folder.path().join("ours.arrow"), write(&[&[numbers(0, 3)], &[numbers(3, 5)]], &[("compression", codec)])).unwrap();
        let script = "
import pyarrow.feather as f
t = pa.ipc.open_file('ours.arrow').read_all()
print(t.schema.types, t['n'].to_pylist(), t['t'].to_pylist()[4])
d = pa.array(['x', None, 'y', 'x']).dictionary_encode()
with pa.ipc.new_file('theirs.arrow', pa.schema([('d', d.type), ('l', pa.list_(pa.large_string()))])) as w:
    w.write(pa.record_batch([d, pa.array([['a', None], [], None, ['long enough for a view buffer']], pa.list_(pa.large_string()))], ['d', 'l']))
";
        let seen = run_python(&python, folder.path(), script);
        assert_eq!(seen, "[DataType(int64), DataType(string)] [0, 1, 2, 3, 4] number 4 in words of more than twelve bytes");
    }
    let theirs = read_all(&open(&std::fs::read(folder.path().join("theirs.arrow")).unwrap()).unwrap()).unwrap();
    assert_eq!(theirs.column(0).as_string_view(), &StringViewArray::from(vec![Some("x"), None, Some("y"), Some("x")]));
    let lists = theirs.column(1).as_list::<i32>();
    assert!(lists.is_null(2) && lists.is_valid(1) && lists.value(1).is_empty() && lists.value(0).is_null(1));
    assert_eq!(lists.value(3).as_string_view().value(0), "long enough for a view buffer");
}
