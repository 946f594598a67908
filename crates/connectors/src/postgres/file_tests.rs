//! PostgreSQL to a file and back: every format reproduces the type zoo bit for bit, or refuses it at the first value that does not fit.

use super::testdb::TestDb;
use crate::file::FileConnector;
use haul_model::{
    Connector, Endpoint, Environment, ErrorKind, Form, Incoming, Next, OnLossy, Payload, Position, Reading, Result, Rows, Settings, Sink,
    Source, Strict,
};
use std::path::Path;

fn environment() -> Environment {
    Environment { run_id: "t".into(), ..Environment::default() }
}

fn sink(path: &Path) -> Box<dyn Sink> {
    let endpoint = Endpoint::parse(path.to_str().unwrap()).unwrap();
    FileConnector.sink(&endpoint, &Settings::default(), &environment()).unwrap()
}

fn source(path: &Path, more: &[(&str, &str)]) -> Box<dyn Source> {
    let endpoint = Endpoint::parse(path.to_str().unwrap()).unwrap();
    let specs = FileConnector.source_settings(&endpoint).unwrap();
    let settings = Settings::resolve(&specs, more.iter().copied(), "file").unwrap();
    FileConnector.source(&endpoint, &settings, &environment()).unwrap()
}

/// Writes a table to a file; the first refusal is the error.
fn export(db: &mut TestDb, table: &str, path: &Path, on_lossy: OnLossy) -> Result<()> {
    let mut sink = sink(path);
    let (rows, _) = db.read(table, "id", sink.form(), on_lossy)?;
    sink.plan(&Incoming::new(table, rows[0].batch.schema()))?;
    sink.begin()?;
    let (mut encoder, mut writer) = (sink.encoder()?, sink.open(0)?);
    for batch in &rows {
        if let Err(error) = encoder.push(batch, &mut Strict::default()) {
            sink.abort();
            return Err(error);
        }
    }
    while let Some(mut block) = encoder.take()? {
        let slot = writer.reserve(&mut block)?;
        writer.write(slot, &mut block)?;
    }
    writer.close()?;
    assert_eq!(sink.finish()?.rows, 7);
    Ok(())
}

/// Reads a file as the PostgreSQL sink would have it.
fn import(path: &Path, more: &[(&str, &str)]) -> Vec<Rows> {
    let mut source = source(path, more);
    let plan = source.plan(&Reading { pass_through: None, form: Form::Text, degree: 1, ordered: true }).unwrap();
    let mut decoder = source.decoder(Form::Text).unwrap();
    let mut all = Vec::new();
    for split in &plan.splits {
        let mut reader = source.open(split, &Position::start()).unwrap();
        while let Next::Batch(batch) = reader.next().unwrap() {
            match batch.payload {
                Payload::Columns(batch) => all.push(Rows::new(batch, 0)),
                Payload::Raw(raw) => {
                    let mut emit = |rows, _: &mut dyn haul_model::Rejects| {
                        all.push(rows);
                        Ok(())
                    };
                    decoder.decode(raw, &mut Strict::default(), &mut emit).unwrap();
                }
            }
        }
    }
    source.finish().unwrap();
    all
}

/// The zoo through a file: exact as it is, or refused at (row, column) and exact with `--on-lossy text`.
fn through(file: &str, read: &[(&str, &str)], refused: Option<(u64, &str)>) {
    let mut db = TestDb::exact();
    db.run("ALTER TABLE exact DROP gen; CREATE TABLE copy (LIKE exact INCLUDING ALL)");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    let mut on_lossy = OnLossy::Error;
    if let Some((row, column)) = refused {
        let error = export(&mut db, "exact", &path, on_lossy).unwrap_err();
        assert_eq!(
            (error.kind(), error.place().row, error.place().column.as_deref()),
            (ErrorKind::Lossy, Some(row), Some(column)),
            "{error}"
        );
        assert!(!path.exists());
        on_lossy = OnLossy::Text;
    }
    export(&mut db, "exact", &path, on_lossy).unwrap();
    let rows = import(&path, read);
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap().0, 7);
    db.assert_same("exact", "copy");
}

#[test]
fn exact_through_csv_and_back() {
    through("exact.csv", &[], None);
}

#[test]
fn exact_through_jsonl_and_back() {
    through("exact.jsonl", &[("types", "json")], Some((1, "narr")));
}

#[test]
fn exact_through_parquet_and_back() {
    through("exact.parquet", &[], Some((3, "ts")));
}

#[test]
fn exact_through_arrow_ipc_and_back() {
    through("exact.arrow", &[], Some((3, "ts")));
}
