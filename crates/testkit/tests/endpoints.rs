//! The memory endpoints pass the conformance suite, the suite notices what is wrong, faults strike where they are
//! planned, and the servers are as the services table says.
#![allow(clippy::unwrap_used)]

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use bytes::Bytes;
use haul_model::{Encoding, ErrorKind, Form, Incoming, Position, Reading, Result, Sink, Source};
use haul_testkit::conformance::{self, ReadCase, Target};
use haul_testkit::faults::{At, Fault, FaultySink, FaultySource};
use haul_testkit::memory::{MemorySink, MemorySource};
use haul_testkit::{pg, rows, services};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let names: StringViewArray = ids.clone().map(|id| (id % 3 != 0).then(|| format!("row number {id}"))).collect();
    let columns: [(&str, ArrayRef, bool); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(ids)), false), ("name", Arc::new(names), true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn splits() -> Vec<Vec<RecordBatch>> {
    vec![vec![batch(0..3), batch(3..4), batch(4..9)], vec![batch(9..10)], vec![]]
}

fn memory() -> MemorySource {
    MemorySource::new(batch(0..1).schema(), splits())
}

struct Memory(MemorySink);

impl Target for Memory {
    fn sink(&self) -> Result<Box<dyn Sink>> {
        Ok(Box::new(self.0.again()))
    }
    fn rows(&self) -> Option<Vec<String>> {
        Some(rows::texts(&self.0.content().batches))
    }
}

#[test]
fn memory_source_conforms() {
    let case = ReadCase::new(splits().concat());
    conformance::source(&|| Ok(Box::new(memory())), &case);
    let one = ReadCase::new(vec![batch(0..7)]);
    conformance::source(&|| Ok(Box::new(MemorySource::new(batch(0..1).schema(), vec![vec![batch(0..7)]]))), &one);
}

#[test]
fn memory_sink_conforms() {
    let batches = splits().concat();
    let expected = rows::texts(&batches);
    conformance::sink(&|| Box::new(Memory(MemorySink::new())), &batches, &expected);
    conformance::sink(&|| Box::new(Memory(MemorySink::new().own_connections())), &batches, &expected);
}

#[test]
fn the_suite_notices_lost_rows() {
    let case = ReadCase::new(splits().concat());
    let lossy = || -> Result<Box<dyn Source>> { Ok(Box::new(FaultySource::new(memory(), &[(At::Read(2), Fault::Short)]))) };
    let noticed = catch_unwind(AssertUnwindSafe(|| conformance::source(&lossy, &case)));
    // `Short` on a batch of one row leaves an empty batch behind a span that claims it.
    assert!(noticed.is_err());

    struct Lossy(MemorySink);
    impl Target for Lossy {
        fn sink(&self) -> Result<Box<dyn Sink>> {
            Ok(Box::new(FaultySink::new(self.0.again(), &[(At::Write(2), Fault::Short)])))
        }
        fn rows(&self) -> Option<Vec<String>> {
            Some(rows::texts(&self.0.content().batches))
        }
    }
    let batches = splits().concat();
    let expected = rows::texts(&batches);
    let noticed = catch_unwind(AssertUnwindSafe(|| conformance::sink(&|| Box::new(Lossy(MemorySink::new())), &batches, &expected)));
    assert!(noticed.is_err());
}

#[test]
fn encoded_chunks_pass_through() {
    let encoding = Encoding { format: "jsonl", detail: String::new() };
    let chunk = |text: &'static str| (Bytes::from_static(text.as_bytes()), text.lines().count() as u64);
    let chunks = vec![vec![chunk("{\"id\":1}\n{\"id\":2}\n"), chunk("{\"id\":3}\n")]];
    let source = MemorySource::encoded(batch(0..1).schema(), encoding.clone(), chunks);
    let mut sink = MemorySink::new().accepting(encoding.clone());
    assert!(sink.accepts(&source.encodings()[0], &batch(0..1).schema()));
    let schema = source.schema(Form::Typed).unwrap();
    sink.plan(&Incoming { pass_through: Some(encoding), ..Incoming::new("memory", schema) }).unwrap();
    assert_eq!(source.estimate().rows, Some(3));
}

#[test]
fn faults_strike_where_they_are_planned() {
    let mut source = FaultySource::new(memory(), &[(At::Read(2), Fault::Fail(ErrorKind::Connect)), (At::FinishSource, Fault::Panic)]);
    let plan = source.plan(&Reading { pass_through: None, form: Form::Typed, degree: 0, ordered: true }).unwrap();
    let mut reader = source.open(&plan.splits[0], &Position::start()).unwrap();
    reader.next().unwrap();
    let error = reader.next().unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Connect, "Read(2): injected"));
    reader.next().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| source.finish())).is_err());

    let mut sink = FaultySink::new(MemorySink::new(), &[(At::FinishSink, Fault::Fail(ErrorKind::DiskFull))]);
    sink.begin().unwrap();
    assert_eq!(sink.finish().unwrap_err().kind(), ErrorKind::DiskFull);
    assert!(sink.abort().is_empty());
}

#[test]
fn a_refused_row_is_handed_back() {
    let mut sink = MemorySink::new().refusing(3);
    sink.begin().unwrap();
    let mut encoder = sink.encoder().unwrap();
    for batch in [batch(0..2), batch(2..5)] {
        encoder.push(&haul_model::Rows::new(batch, 0), &mut haul_model::Strict::default()).unwrap();
    }
    let mut block = encoder.take().unwrap().unwrap();
    let mut writer = sink.open(0).unwrap();
    let slot = writer.reserve(&mut block).unwrap();
    assert_eq!(writer.write(slot, &mut block).unwrap()[0].0, 3);
    assert_eq!(sink.finish().unwrap().rows, 4);
    assert_eq!(rows::texts(&sink.content().batches), rows::texts(&[batch(0..3), batch(4..5)]));
}

#[test]
fn the_servers_are_what_the_table_says() {
    let mut scratch = pg::Scratch::new();
    assert_eq!(scratch.sql("show wal_level; show max_replication_slots; show server_version_num").lines().count(), 3);
    assert_eq!(scratch.sql("show wal_level"), "logical");
    assert!(scratch.sql("show server_version_num").starts_with("15"));
    assert_eq!(scratch.sql("select null, 'ä', 1 where true"), "<NULL>|ä|1");
    assert_eq!(scratch.copy_out("values (1, null), (2, '')", "format csv"), b"1,\n2,\"\"\n");
    assert!(scratch.try_sql("select 1/0").unwrap_err().contains("division by zero"));
    scratch.sql("create extension postgis");

    let role = scratch.role("pass'word", "");
    assert!(scratch.try_sql_as(&role, "create table t (i int)").unwrap_err().contains("permission denied"));

    let mut session = scratch.session();
    session.sql("create table locked (i int); begin; lock table locked");
    assert!(scratch.try_sql("set lock_timeout = '10ms'; select * from locked").is_err());
    assert_eq!(session.sql("select 41 + 1"), "42");
    drop(session);

    let (sessions, transactions) = services::pgbouncer();
    assert_ne!(sessions, transactions);
}

#[test]
fn the_second_reader_is_there() {
    assert_eq!(services::run_python("import pyarrow, sys; print(sys.argv[1])", &["ok"]).trim(), "ok");
}

#[test]
fn a_scratch_database_goes_away() {
    let scratch = pg::Scratch::with_encoding("LATIN1");
    assert_eq!(scratch.sql("show server_encoding"), "LATIN1");
    let name = scratch.database.clone();
    drop(scratch);
    let other = pg::Scratch::new();
    assert_eq!(other.sql(&format!("select count(*) from pg_database where datname = '{name}'")), "0");
}
