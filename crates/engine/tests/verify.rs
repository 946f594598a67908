//! Proofs on memory endpoints: what a load has bent between its commit and the look at it is named, whatever else happened on the way.
#![allow(clippy::unwrap_used)]

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_engine::verify::{How, Target, Verify};
use haul_engine::{Job, OnError, Options, Outcome, Progress, Retries, plan, run};
use haul_model::{ErrorKind, Result, Sink, Source};
use haul_testkit::faults::{At, Fault, FaultySource};
use haul_testkit::memory::{MemorySink, MemorySource};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8View, true)]))
}

fn batch(ids: impl Iterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.collect();
    let names: StringViewArray = ids.iter().map(|id| (id % 7 != 0).then(|| format!("name {id}"))).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(ids)), Arc::new(names)]).unwrap()
}

fn source() -> MemorySource {
    MemorySource::new(schema(), (0..4).map(|s| (0..10).map(|c| batch((s * 10 + c) * 5..(s * 10 + c) * 5 + 5)).collect()).collect())
}

type Change = fn(Vec<RecordBatch>) -> Vec<RecordBatch>;

/// The content of a sink, changed behind its back.
struct Changed(MemorySink, Change);

impl Target for Changed {
    fn source(&self, _back: &haul_model::ReadBack) -> Result<Box<dyn Source>> {
        let content = self.0.content();
        // Before the load there is nothing to change.
        let batches = if content.finished == 0 { content.batches } else { (self.1)(content.batches) };
        Ok(Box::new(MemorySource::new(schema(), vec![batches])))
    }
}

fn execute(source: impl Source + 'static, sink: MemorySink, how: How, change: Change, options: Options) -> Result<Outcome> {
    let verify = Some(Verify { how, target: Arc::new(Changed(sink.clone(), change)) });
    let mut job = Job { source: Box::new(source), transforms: vec![], sink: Box::new(sink), options: Options { verify, ..options } };
    let plan = plan(&mut job)?;
    assert!(plan.verify.as_ref().unwrap().starts_with(&how.to_string()));
    run(&mut job, &plan, &AtomicBool::new(false), &Progress::default(), None)
}

fn wide() -> Options {
    Options { cores: 4, retries: Retries { most: 3, wait: Duration::from_millis(1) }, ..Options::default() }
}

fn one(batch: &RecordBatch, column: usize, with: ArrayRef) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    columns[column] = with;
    RecordBatch::try_new(schema(), columns).unwrap()
}

const CHANGES: &[(&str, Change, &str)] = &[
    (
        "one flipped bit",
        |mut batches| {
            let ids = batches[3].column(0).as_primitive::<Int64Type>();
            let flipped: Int64Array = ids.values().iter().enumerate().map(|(row, id)| if row == 2 { id ^ 1 << 40 } else { *id }).collect();
            batches[3] = one(&batches[3], 0, Arc::new(flipped));
            batches
        },
        "memory, column \"id\": the values are not those that were sent",
    ),
    (
        "one NULL turned \"\"",
        |mut batches| {
            let at = batches.iter().position(|b| b.column(1).null_count() > 0).unwrap();
            let names: StringViewArray = batches[at].column(1).as_string_view().iter().map(|name| Some(name.unwrap_or(""))).collect();
            batches[at] = one(&batches[at], 1, Arc::new(names));
            batches
        },
        "memory, column \"name\": the values are not those that were sent (29 NULLs sent, 28 there)",
    ),
    (
        "values in other rows",
        |mut batches| {
            let ids = batches[0].column(0).as_primitive::<Int64Type>().values();
            let turned: Int64Array = [ids[1], ids[0]].iter().chain(&ids[2..]).copied().collect();
            batches[0] = one(&batches[0], 0, Arc::new(turned));
            batches
        },
        "memory: every column holds the values that were sent, but some of them in other rows",
    ),
    (
        "one missing row",
        |mut batches| {
            batches[5] = batches[5].slice(1, batches[5].num_rows() - 1);
            batches
        },
        "memory: 200 rows were sent, and the target holds 199 of the load",
    ),
    (
        "one doubled row",
        |mut batches| {
            batches.push(batches[0].slice(0, 1));
            batches
        },
        "memory: 200 rows were sent, and the target holds 201 of the load",
    ),
    (
        "one row in the place of another",
        |mut batches| {
            batches.sort_by_key(|batch| batch.column(0).as_primitive::<Int64Type>().value(0));
            batches.push(batches[0].slice(0, 1));
            batches[5] = batches[5].slice(1, batches[5].num_rows() - 1);
            batches
        },
        "memory: the values are not those that were sent, in columns \"id\", \"name\" (29 NULLs sent, 30 there)",
    ),
];

#[test]
fn every_change_is_named() {
    for connections in [false, true] {
        let sink = || if connections { MemorySink::new().own_connections() } else { MemorySink::new() };
        let done = execute(source(), sink(), How::Checksum, |batches| batches, wide()).unwrap();
        let verified = done.verified.unwrap();
        assert_eq!((verified.rows, verified.columns, verified.exact), (200, 2, false));
        // Rows in another order, in other chunks.
        execute(
            source(),
            sink(),
            How::Checksum,
            |mut b| {
                b.reverse();
                b.push(b[0].slice(1, 4));
                b[0] = b[0].slice(0, 1);
                b
            },
            wide(),
        )
        .unwrap();
        for (what, change, told) in CHANGES {
            let error = execute(source(), sink(), How::Checksum, *change, wide()).unwrap_err();
            assert!(error.kind() == ErrorKind::Mismatch && error.to_string().starts_with(told), "{what}: {error:?}");
            assert!(error.hint_text().unwrap().contains("haul diff"), "{error:?}");
        }
    }
}

#[test]
fn counts_show_what_is_missing_or_doubled() {
    assert_eq!(execute(source(), MemorySink::new(), How::Count, |b| b, wide()).unwrap().verified.unwrap().to_string(), "count");
    let told: Vec<String> = CHANGES
        .iter()
        .filter_map(|(_, change, _)| execute(source(), MemorySink::new(), How::Count, *change, wide()).err())
        .map(|error| error.to_string())
        .collect();
    assert_eq!(
        told,
        [
            "memory: 200 rows were sent, and the target holds 199 of the load",
            "memory: 200 rows were sent, and the target holds 201 of the load"
        ]
    );
}

#[test]
fn limits_and_lanes_that_are_tried_again_count_once() {
    let limited = Options { limit: Some(33), ..wide() };
    let done = execute(source(), MemorySink::new(), How::Checksum, |b| b, limited).unwrap();
    assert_eq!((done.counts.sent, done.verified.unwrap().rows), (33, 33));
    let lost = Fault::Fail(ErrorKind::Connect);
    let faulty = FaultySource::new(source(), &[(At::Read(6), lost), (At::Read(13), lost)]);
    let done = execute(faulty, MemorySink::new().taking_back(), How::Checksum, |b| b, wide()).unwrap();
    assert_eq!(done.verified.unwrap().rows, 200);
}

#[test]
fn rows_that_the_sink_refuses_are_not_missed() {
    let options = Options { on_error: OnError::Reject { max: 1000 }, ..wide() };
    let done = execute(source(), MemorySink::new().refusing(2), How::Checksum, |b| b, options).unwrap();
    assert!(done.counts.rejected > 0);
    assert_eq!(done.verified.unwrap().rows, done.counts.sent);
}

#[test]
fn what_cannot_be_compared_is_refused_before_a_row_moves() {
    struct Other(SchemaRef);
    impl Target for Other {
        fn source(&self, _back: &haul_model::ReadBack) -> Result<Box<dyn Source>> {
            Ok(Box::new(MemorySource::new(self.0.clone(), vec![])))
        }
    }
    let other = Arc::new(Schema::new(vec![Field::new("id", DataType::Boolean, false), Field::new("name", DataType::Utf8View, true)]));
    let sink = MemorySink::new().own_connections();
    let verify = Some(Verify { how: How::Checksum, target: Arc::new(Other(other)) });
    let mut job =
        Job { source: Box::new(source()), transforms: vec![], sink: Box::new(sink.clone()), options: Options { verify, ..wide() } };
    let plan = plan(&mut job).unwrap();
    let error = run(&mut job, &plan, &AtomicBool::new(false), &Progress::default(), None).unwrap_err();
    assert_eq!(error.to_string(), "column \"id\": --verify checksum: Int64 cannot be compared with Boolean there");
    assert_eq!(sink.content().finished, 0);
    assert!(sink.name() == "memory");
}
