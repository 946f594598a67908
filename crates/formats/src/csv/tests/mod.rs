//! The codec as the engine drives it: framed in pieces of any size, decoded chunk by chunk.

mod cases;
mod oracle;
mod write;

use super::{CsvInput, SPEC};
use crate::RecordInput;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use haul_model::{Error, Raw, Rejects, Result, Rows, Settings};

pub(super) type Table = Vec<Vec<Option<String>>>;

/// What came out of an input.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Read {
    pub names: Vec<String>,
    pub rows: Table,
    /// Rejected records: number from 1, line, raw text, reason.
    pub rejected: Vec<(u64, u64, String, String)>,
    /// Records as the framer counted them.
    pub records: u64,
}

/// Takes bad records out.
#[derive(Default)]
struct Aside(Vec<(Vec<u8>, Error)>);

impl Rejects for Aside {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.0.push((rows.raw_record(row).unwrap_or_default().to_vec(), rows.locate(row, error)));
        Ok(())
    }
    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.0.push((record.to_vec(), error));
        Ok(())
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}

pub(super) fn settings(pairs: &[(&str, &str)]) -> Settings {
    Settings::resolve(&[SPEC.read], pairs.iter().copied(), "csv").unwrap()
}

pub(super) fn detect(pairs: &[(&str, &str)], bytes: &[u8]) -> Result<CsvInput> {
    CsvInput::detect(&settings(pairs), bytes, true, "t.csv")
}

/// The values of a batch of string columns, row by row.
pub(super) fn table(batch: &RecordBatch) -> Table {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
    }
    let value = |row: usize, column: usize| {
        let column = batch.column(column).as_string_view();
        column.is_valid(row).then(|| column.value(row).to_string())
    };
    (0..batch.num_rows()).map(|r| (0..batch.num_columns()).map(|c| value(r, c)).collect()).collect()
}

/// Feeds `bytes` to a framer in pieces of `step` bytes and calls `chunk` with what it cuts.
pub(super) fn frame(input: &CsvInput, bytes: &[u8], step: usize, mut chunk: impl FnMut(Raw) -> Result<()>) -> Result<()> {
    let mut framer = input.framer();
    let prolog = input.prolog();
    let (mut at, mut line) = (prolog.bytes, prolog.lines + 1);
    let (mut fed, mut seen) = (prolog.bytes, 0);
    while at < bytes.len() {
        fed = (fed + step).min(bytes.len());
        let end = fed == bytes.len();
        let Some(cut) = framer.cut(&bytes[at..fed], seen, end)? else {
            assert!(!end, "everything is cut at the end");
            seen = fed - at;
            continue;
        };
        assert!(!end || cut.bytes == fed - at, "everything is cut at the end");
        seen = 0;
        let records = Bytes::copy_from_slice(&bytes[at..at + cut.bytes]);
        chunk(Raw { bytes: records, records: cut.records, first_line: line, first_byte: at as u64, object: None, offsets: None })?;
        at += cut.bytes;
        line += cut.lines;
    }
    Ok(())
}

fn run(input: &CsvInput, bytes: &[u8], step: usize, strict: bool) -> Result<Read> {
    let names = input.schema().fields().iter().map(|f| f.name().clone()).collect();
    let mut read = Read { names, ..Read::default() };
    let mut decoder = input.decoder();
    frame(input, bytes, step, |raw| {
        let (before, counted) = (read.records, raw.records.unwrap());
        read.records += counted;
        let mut aside = Aside::default();
        let mut stop = haul_model::Strict::default();
        let rejects: &mut dyn Rejects = if strict { &mut stop } else { &mut aside };
        let mut rows = Vec::new();
        decoder.decode(raw, rejects, &mut |batch, _| {
            for row in 0..batch.batch.num_rows() {
                let record = batch.raw_record(row).expect("each row has its record");
                assert!(record.is_empty() || input.schema().fields().len() > 1 || !record.is_empty());
            }
            rows.extend(table(&batch.batch));
            Ok(())
        })?;
        assert_eq!(counted, (rows.len() + aside.0.len()) as u64, "records counted = rows + rejected");
        read.rows.extend(rows);
        read.rejected.extend(aside.0.into_iter().map(|(record, error)| {
            let error = error.resolve_row(before);
            let place = error.place().clone();
            (place.row.unwrap(), place.line.unwrap(), String::from_utf8_lossy(&record).into_owned(), error.detail().to_string())
        }));
        Ok(())
    })?;
    Ok(read)
}

/// Piece sizes that put a border everywhere in small inputs, and at odd places in large ones.
pub(super) fn steps(len: usize) -> Vec<usize> {
    if len <= 300 { (1..=len.max(1)).collect() } else { vec![61, 64, 1021, 4096, 70_000, len] }
}

/// Reads everything; each piece size must give the same.
pub(super) fn read(pairs: &[(&str, &str)], bytes: &[u8]) -> Result<Read> {
    read_as(pairs, bytes, true)
}

/// As [`read`], with bad records set aside.
pub(super) fn read_aside(pairs: &[(&str, &str)], bytes: &[u8]) -> Result<Read> {
    read_as(pairs, bytes, false)
}

fn read_as(pairs: &[(&str, &str)], bytes: &[u8], strict: bool) -> Result<Read> {
    let input = detect(pairs, bytes)?;
    let whole = run(&input, bytes, bytes.len().max(1), strict);
    for step in steps(bytes.len()) {
        match (&whole, run(&input, bytes, step, strict)) {
            (Ok(whole), Ok(read)) => assert_eq!(*whole, read, "pieces of {step} bytes"),
            (Err(whole), Err(read)) => {
                let place = |e: &Error| (e.place().line, e.place().byte, e.detail().to_string());
                assert_eq!(place(whole), place(&read), "pieces of {step} bytes");
            }
            (whole, read) => panic!("pieces of {step} bytes: {whole:?} against {read:?}"),
        }
    }
    whole
}

/// A table from texts; `~` stands for NULL.
pub(super) fn rows(text: &[&[&str]]) -> Table {
    text.iter().map(|r| r.iter().map(|v| (*v != "~").then(|| (*v).to_string())).collect()).collect()
}
