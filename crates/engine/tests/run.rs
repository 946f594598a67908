//! The engine on memory endpoints: order, accounts, failures.
#![allow(clippy::unwrap_used)]

use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use haul_engine::{Job, OnError, Options, Outcome, Progress, RejectLog, Retries, plan, run};
use haul_model::{Encoding, Error, ErrorKind, Position, Rejects, Result, Rows, Sink, Source, Transform};
use haul_testkit::faults::{At, Fault, FaultySink, FaultySource};
use haul_testkit::memory::MemorySink;
use haul_testkit::memory::MemorySource;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

fn batch(from: i64, rows: i64) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(from..from + rows))]).unwrap()
}

/// `splits` splits of `chunks` chunks of `rows` rows, numbered through.
fn source(splits: i64, chunks: i64, rows: i64) -> MemorySource {
    let split = |s| (0..chunks).map(|c| batch((s * chunks + c) * rows, rows)).collect();
    MemorySource::new(schema(), (0..splits).map(split).collect())
}

fn ids(sink: &MemorySink) -> Vec<i64> {
    sink.content().batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn execute(
    source: impl Source + 'static,
    transforms: Vec<Box<dyn Transform>>,
    sink: impl Sink + 'static,
    options: Options,
    log: Option<&RejectLog>,
) -> Result<Outcome> {
    let mut job = Job { source: Box::new(source), transforms, sink: Box::new(sink), options };
    let plan = plan(&mut job)?;
    run(&mut job, &plan, &AtomicBool::new(false), &Progress::default(), log)
}

fn wide() -> Options {
    Options { cores: 4, ..Options::default() }
}

/// Rejects every row whose id is divisible by `n`, or drops it on purpose.
struct Every {
    n: i64,
    drop: bool,
}

impl Transform for Every {
    fn describe(&self) -> String {
        format!("every {}", self.n)
    }
    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }
    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        let ids = rows.batch.column(0).as_primitive::<Int64Type>().clone();
        let mut keep = Vec::new();
        for (row, id) in ids.values().iter().enumerate() {
            if id % self.n != 0 {
                keep.push(row as u32);
            } else if !self.drop {
                rejects.row(&rows, row, Error::new(ErrorKind::Data, format!("{id} is bad")).column("id"))?;
            }
        }
        let kept = Int64Array::from_iter_values(keep.iter().map(|row| ids.value(*row as usize)));
        let selection = keep.iter().map(|row| rows.record_of(*row as usize) as u32).collect();
        Ok(Rows { batch: RecordBatch::try_new(schema(), vec![Arc::new(kept)]).unwrap(), selection: Some(Arc::new(selection)), ..rows })
    }
}

/// Rejects the row with this id.
struct Only(i64);

impl Transform for Only {
    fn describe(&self) -> String {
        format!("not {}", self.0)
    }
    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(input.clone())
    }
    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        let ids = rows.batch.column(0).as_primitive::<Int64Type>().clone();
        if let Some(row) = ids.values().iter().position(|id| *id == self.0) {
            rejects.row(&rows, row, Error::new(ErrorKind::Data, format!("{} is bad", self.0)).column("id"))?;
        }
        Ok(rows)
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn one_split_on_many_workers_keeps_its_order() {
    let sink = MemorySink::new();
    // A slow chunk in the middle: the others must wait for its turn.
    let slow = FaultySource::new(source(1, 200, 7).lanes(1), &[(At::Read(20), Fault::Delay(Duration::from_millis(30)))]);
    let outcome = execute(slow, vec![], sink.clone(), wide(), None).unwrap();
    assert_eq!(ids(&sink), (0..1400).collect::<Vec<_>>());
    assert_eq!((outcome.counts.read, outcome.finished.rows), (1400, 1400));
    assert_eq!(outcome.checkpoint.0[&0], Position::number(200));
}

#[test]
fn many_splits_each_keep_their_order_and_none_is_lost() {
    for lanes in [1, 2, 4, 0] {
        let sink = MemorySink::new().block_bytes(1 << 20);
        execute(source(9, 11, 5).lanes(lanes), vec![], sink.clone(), wide(), None).unwrap();
        let got = ids(&sink);
        for split in 0..9i64 {
            let own: Vec<i64> = got.iter().copied().filter(|id| id / 55 == split).collect();
            assert_eq!(own, (split * 55..(split + 1) * 55).collect::<Vec<_>>(), "lanes {lanes}");
        }
        assert_eq!(got.len(), 495);
    }
}

#[test]
fn splits_read_one_after_another_stay_in_order_across_their_borders() {
    for _ in 0..20 {
        let sink = MemorySink::new();
        let slow = FaultySource::new(source(30, 2, 3).lanes(1), &[(At::Read(4), Fault::Delay(Duration::from_millis(2)))]);
        execute(slow, vec![], sink.clone(), wide(), None).unwrap();
        assert_eq!(ids(&sink), (0..180).collect::<Vec<_>>());
    }
}

#[test]
fn a_row_is_numbered_from_the_start_of_its_split() {
    let error = execute(source(4, 5, 10).lanes(1), vec![Box::new(Only(113))], MemorySink::new(), wide(), None).unwrap_err();
    assert_eq!(error.to_string(), "memory, row 14, column \"id\": 113 is bad");
}

#[test]
fn a_connection_per_worker_gets_everything_once() {
    for degree in [1, 3] {
        let sink = MemorySink::new().own_connections().block_bytes(1000);
        let outcome = execute(source(1, 100, 10), vec![], sink.clone(), Options { degree, ..wide() }, None).unwrap();
        let mut got = ids(&sink);
        got.sort_unstable();
        assert_eq!(got, (0..1000).collect::<Vec<_>>());
        assert_eq!(outcome.counts.sent, 1000);
    }
}

#[test]
fn batch_bytes_says_how_large_the_blocks_of_a_connection_are() {
    let blocks = |sink: MemorySink, batch_bytes| {
        execute(source(1, 100, 10).lanes(1), vec![], sink.clone(), Options { degree: 1, batch_bytes, ..wide() }, None).unwrap();
        assert_eq!(ids(&sink), (0..1000).collect::<Vec<_>>());
        sink.content().blocks
    };
    let own = || MemorySink::new().own_connections().block_bytes(1 << 20);
    assert!(blocks(own(), Some(64)) > blocks(own(), Some(1 << 14)), "smaller blocks are more");
    // A file's blocks are what its format makes of them.
    let file = || MemorySink::new().block_bytes(1 << 20);
    assert_eq!(blocks(file(), Some(64)), blocks(file(), None));
}

#[test]
fn equal_encodings_pass_bytes_untouched_and_in_order() {
    let lines = |c: u64| (Bytes::from(format!("{c}\n{c}\n")), 2);
    let csv = Encoding { format: "csv", detail: String::new() };
    let sink = MemorySink::new().accepting(csv.clone());
    let source = MemorySource::encoded(schema(), csv, vec![(0..50).map(lines).collect()]).lanes(1);
    let outcome = execute(source, vec![], sink.clone(), wide(), None).unwrap();
    let expected: String = (0..50).map(|c| format!("{c}\n{c}\n")).collect();
    assert_eq!(String::from_utf8(sink.content().bytes).unwrap(), expected);
    assert_eq!(outcome.counts.read, 100);
}

#[test]
fn rejected_and_filtered_rows_add_up_and_are_told_by_number() {
    let out = Shared::default();
    let log = RejectLog::new(Box::new(out.clone()));
    let options = Options { on_error: OnError::Reject { max: 1000 }, ..wide() };
    let sink = MemorySink::new();
    let steps: Vec<Box<dyn Transform>> = vec![Box::new(Every { n: 10, drop: false }), Box::new(Every { n: 7, drop: true })];
    let outcome = execute(source(1, 10, 10).lanes(1), steps, sink.clone(), options, Some(&log)).unwrap();
    let expected: Vec<i64> = (0..100).filter(|id| id % 10 != 0 && id % 7 != 0).collect();
    assert_eq!(ids(&sink), expected);
    let c = outcome.counts;
    assert_eq!((c.read, c.rejected, c.filtered, c.sent), (100, 10, 100 - 10 - expected.len() as u64, expected.len() as u64));
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|l| l.len());
    assert_eq!(lines[0], r#"{"row":1,"column":"id","reason":"0 is bad","record":"{\"id\":0}"}"#);
    assert_eq!(lines[9], r#"{"row":91,"column":"id","reason":"90 is bad","record":"{\"id\":90}"}"#);
}

#[test]
fn rows_that_the_sink_refuses_are_rejected_with_their_row() {
    let out = Shared::default();
    let log = RejectLog::new(Box::new(out.clone()));
    let options = Options { on_error: OnError::Reject { max: 1000 }, cores: 2, ..Options::default() };
    let sink = MemorySink::new().refusing(3);
    let steps: Vec<Box<dyn Transform>> = vec![Box::new(Every { n: 3, drop: true })];
    let outcome = execute(source(1, 2, 10).lanes(1), steps, sink.clone(), options, Some(&log)).unwrap();
    // Chunk 0 keeps 1 2 4 5 7 8, chunk 1 keeps 10 11 13 14 16 17 19: row 3 of each block is 5 and 14.
    assert_eq!(ids(&sink), [1, 2, 4, 7, 8, 10, 11, 13, 16, 17, 19]);
    assert_eq!(outcome.counts.rejected, 2);
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains(r#""row":6,"#) && text.contains(r#""row":15,"#), "{text}");
}

#[test]
fn more_rejects_than_allowed_fail_the_job_and_leave_the_target() {
    let options = Options { on_error: OnError::Reject { max: 4 }, ..wide() };
    let sink = MemorySink::new();
    let error = execute(source(1, 10, 10).lanes(1), vec![Box::new(Every { n: 10, drop: false })], sink.clone(), options, None).unwrap_err();
    assert!(error.to_string().contains("5 rows rejected, more than --max-rejects 4 allows"), "{error}");
    let content = sink.content();
    assert_eq!((content.batches.len(), content.finished, content.aborted), (0, 0, 1));
}

#[test]
fn the_first_bad_row_in_source_order_is_the_one_reported() {
    // Whichever worker gets there first, the message is the same.
    for _ in 0..20 {
        let slow = FaultySource::new(source(1, 40, 3).lanes(1), &[(At::Read(5), Fault::Delay(Duration::from_millis(2)))]);
        let error = execute(slow, vec![Box::new(Every { n: 13, drop: false })], MemorySink::new(), wide(), None).unwrap_err();
        assert_eq!(error.to_string(), "memory, row 1, column \"id\": 0 is bad");
    }
}

#[test]
fn every_fault_aborts_and_leaves_nothing_visible() {
    let faults = [At::OpenReader(1), At::Read(1), At::Read(7), At::FinishSource];
    for at in faults {
        let sink = MemorySink::new();
        let faulty = FaultySource::new(source(2, 10, 10), &[(at, Fault::Fail(ErrorKind::Connect))]);
        let error = execute(faulty, vec![], sink.clone(), wide(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{at:?}");
        assert_eq!((sink.content().batches.len(), sink.content().aborted), (0, 1), "{at:?}");
    }
    for at in [At::Begin, At::OpenWriter(2), At::Reserve(3), At::Write(3), At::Close(1), At::FinishSink] {
        let sink = MemorySink::new();
        let faulty = FaultySink::new(sink.clone(), &[(at, Fault::Fail(ErrorKind::DiskFull))]);
        let error = execute(source(4, 10, 10), vec![], faulty, wide(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{at:?}");
        assert_eq!((sink.content().batches.len(), sink.content().aborted), (0, 1), "{at:?}");
    }
}

fn patient(most: u32) -> Options {
    Options { retries: Retries { most, wait: Duration::from_millis(1) }, ..wide() }
}

#[test]
fn a_lane_that_fails_is_tried_again_and_its_rows_count_once() {
    let all: Vec<i64> = (0..400).collect();
    let sorted = |sink: &MemorySink| {
        let mut ids = ids(sink);
        ids.sort_unstable();
        ids
    };
    for kind in [ErrorKind::Connect, ErrorKind::Timeout, ErrorKind::Conflict] {
        let fail = Fault::Fail(kind);
        for faults in [vec![At::Write(3)], vec![At::Write(9), At::Write(21)], vec![At::Close(2)], vec![At::Reserve(7), At::OpenWriter(5)]] {
            let faults: Vec<_> = faults.into_iter().map(|at| (at, fail)).collect();
            let sink = MemorySink::new().taking_back();
            let faulty = FaultySink::new(sink.clone(), &faults);
            let outcome = execute(source(4, 10, 10), vec![Box::new(Every { n: 7, drop: true })], faulty, patient(3), None).unwrap();
            let kept: Vec<i64> = all.iter().copied().filter(|id| id % 7 != 0).collect();
            assert_eq!(sorted(&sink), kept, "{faults:?}");
            let counts = outcome.counts;
            assert_eq!((counts.read, counts.sent, counts.filtered), (400, kept.len() as u64, 58), "{faults:?}");
        }
        for at in [At::OpenReader(2), At::Read(1), At::Read(17)] {
            let sink = MemorySink::new().taking_back();
            let faulty = FaultySource::new(source(4, 10, 10), &[(at, fail)]);
            let outcome = execute(faulty, vec![], sink.clone(), patient(1), None).unwrap();
            assert_eq!(sorted(&sink), all, "{at:?}");
            assert_eq!(outcome.counts.read, 400);
        }
    }
}

#[test]
fn some_failures_are_not_tried_again() {
    let many: Vec<_> = (1..200).map(|n| (At::Write(n), Fault::Fail(ErrorKind::Connect))).collect();
    for (faults, options, told) in [
        (&many[..], patient(2), "tried 3 times: injected"),
        (&many[..], patient(0), "injected"),
        (&[(At::Write(3), Fault::Fail(ErrorKind::Data))], patient(3), "injected"),
    ] {
        let sink = MemorySink::new().taking_back();
        let error = execute(source(4, 10, 10), vec![], FaultySink::new(sink.clone(), faults), options, None).unwrap_err();
        assert_eq!(error.detail(), told);
        assert_eq!((sink.content().batches.len(), sink.content().aborted), (0, 1));
    }
    // Workers that share a lane cannot tell whose rows are to be sent again.
    let sink = MemorySink::new().taking_back();
    let faulty = FaultySink::new(sink.clone(), &[(At::Write(3), Fault::Fail(ErrorKind::Connect))]);
    assert!(execute(source(1, 40, 10).lanes(1), vec![], faulty, patient(3), None).is_err());
}

#[test]
fn a_panicking_worker_fails_the_job_instead_of_hanging_it() {
    let sink = MemorySink::new();
    let faulty = FaultySink::new(sink.clone(), &[(At::Write(5), Fault::Panic)]);
    let error = execute(source(1, 50, 10).lanes(1), vec![], faulty, wide(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(sink.content().finished, 0);
}

#[test]
fn rows_that_vanish_are_noticed() {
    // A write that drops its block, and a sink that confirms too little.
    for fault in [(At::Write(3), Fault::Short), (At::FinishSink, Fault::Short)] {
        let faulty = FaultySink::new(MemorySink::new(), &[fault]);
        let error = execute(source(1, 10, 10).lanes(1), vec![], faulty, wide(), None).unwrap_err();
        assert!(error.to_string().contains("rows were sent but the target confirmed"), "{error}");
    }
}

#[test]
fn a_stop_request_ends_the_run_and_leaves_the_target() {
    let sink = MemorySink::new();
    let slow = FaultySource::new(source(1, 1000, 1).lanes(1), &[(At::Read(3), Fault::Delay(Duration::from_millis(50)))]);
    let mut job = Job { source: Box::new(slow), transforms: vec![], sink: Box::new(sink.clone()), options: wide() };
    let plan = plan(&mut job).unwrap();
    let stop = AtomicBool::new(true);
    let error = run(&mut job, &plan, &stop, &Progress::default(), None).unwrap_err();
    assert_eq!((error.kind(), sink.content().finished), (ErrorKind::Cancelled, 0));
}

#[test]
fn a_limit_takes_the_first_rows_in_order() {
    let sink = MemorySink::new();
    let outcome = execute(source(3, 10, 10), vec![], sink.clone(), Options { limit: Some(25), ..wide() }, None).unwrap();
    assert_eq!(ids(&sink), (0..25).collect::<Vec<_>>());
    assert_eq!(outcome.counts.read, 25);
}

#[test]
fn batch_rows_cuts_batches_without_changing_rows() {
    let sink = MemorySink::new();
    execute(source(1, 5, 100).lanes(1), vec![], sink.clone(), Options { batch_rows: Some(7), ..wide() }, None).unwrap();
    assert_eq!(ids(&sink), (0..500).collect::<Vec<_>>());
    assert!(sink.content().batches.iter().all(|b| b.num_rows() <= 7));
}

#[test]
fn a_tight_budget_slows_down_but_never_blocks() {
    let sink = MemorySink::new();
    execute(source(1, 100, 50).lanes(1), vec![], sink.clone(), Options { budget: 1, ..wide() }, None).unwrap();
    assert_eq!(ids(&sink), (0..5000).collect::<Vec<_>>());
}
