//! Bodies of the fuzz targets: properties that hold for any bytes.

use super::dialect::{Dialect, Newline};
use super::index::Index;
use super::scan::{State, scan, scan_bytewise};
use super::{CsvInput, SPEC};
use crate::RecordInput;
use bytes::Bytes;
use haul_model::{Error, Raw, Rejects, Result, Rows, Settings};

/// The first two bytes choose dialect and piece size, the rest is the file.
///
/// # Panics
/// When the block scan differs from the byte scan, when the size of the pieces that are framed changes what is read, or when
/// framer and decoder count different records.
pub fn fuzz_scan(data: &[u8]) {
    let [choice, step, file @ ..] = data else { return };
    let (choice, step) = (*choice, usize::from(*step).max(1));
    let newline = [Newline::Auto, Newline::Lf, Newline::CrLf, Newline::Cr][usize::from(choice & 3)];
    let quote = [Some(b'"'), Some(b'"'), Some(b'\''), None][usize::from(choice >> 2 & 3)];
    same_structure(&Dialect { newline, quote, ..Dialect::default() }, file);
    let newline = ["auto", "lf", "crlf", "cr"][usize::from(choice & 3)];
    let quote = ["\"", "\"", "'", "none"][usize::from(choice >> 2 & 3)];
    let escape = if choice & 16 == 0 { "none" } else { "\\" };
    let comment = if choice & 32 == 0 { "none" } else { "#" };
    let trim = if choice & 64 == 0 { "false" } else { "true" };
    let ragged = if choice & 128 == 0 { "error" } else { "pad" };
    let pairs = [("newline", newline), ("quote", quote), ("escape", escape), ("comment", comment), ("trim", trim), ("ragged", ragged)];
    let Ok(settings) = Settings::resolve(&[SPEC.read], pairs, "csv") else { return };
    let Ok(input) = CsvInput::detect(&settings, file, true, "fuzz") else { return };
    let whole = read(&input, file, file.len().max(1));
    assert_eq!(whole, read(&input, file, step), "pieces of {step} bytes");
}

fn same_structure(dialect: &Dialect, file: &[u8]) {
    let mut blocks = Vec::new();
    let fast = scan(dialect, file, 0, State::Record, |base, block| blocks.push((base, block.ends, block.newlines, block.lf, block.cr)));
    let mut bytes = Vec::new();
    let slow =
        scan_bytewise(dialect, file, 0, State::Record, |base, block| bytes.push((base, block.ends, block.newlines, block.lf, block.cr)));
    assert_eq!(blocks, bytes);
    assert_eq!(fast == State::Quoted, slow == State::Quoted);
    let mut index = Index::default();
    if index.build(dialect, file).is_ok() {
        assert!(index.ends[..index.fields].is_sorted());
    }
}

/// Everything that a reader can see: rows as text, rejected records, or the error.
fn read(input: &CsvInput, file: &[u8], step: usize) -> (Vec<String>, Vec<String>, Option<String>) {
    let mut seen = Seen::default();
    let (mut rows, mut failed) = (Vec::new(), None);
    let (mut framer, mut decoder) = (input.framer(), input.decoder());
    let prolog = input.prolog();
    let (mut at, mut line, mut fed, mut known) = (prolog.bytes, prolog.lines + 1, prolog.bytes, 0);
    while at < file.len() {
        fed = (fed + step).min(file.len());
        let cut = match framer.cut(&file[at..fed], known, fed == file.len()) {
            Ok(Some(cut)) => cut,
            Ok(None) => {
                known = fed - at;
                continue;
            }
            Err(error) => {
                failed = Some(error.to_string());
                break;
            }
        };
        known = 0;
        let bytes = Bytes::copy_from_slice(&file[at..at + cut.bytes]);
        let raw = Raw { bytes, records: cut.records, first_line: line, first_byte: at as u64, object: None, offsets: None };
        let before = rows.len() + seen.0.len();
        let decoded = decoder.decode(raw, &mut seen, &mut |batch, _| {
            rows.extend((0..batch.batch.num_rows()).map(|row| row_text(&batch, row)));
            Ok(())
        });
        if let Err(error) = decoded {
            failed = Some(error.to_string());
            break;
        }
        assert_eq!(cut.records, Some((rows.len() + seen.0.len() - before) as u64), "framer and decoder count alike");
        at += cut.bytes;
        line += cut.lines;
    }
    // How much is read before a quote that never closes is found depends on the pieces.
    if failed.is_some() { (Vec::new(), Vec::new(), failed) } else { (rows, seen.0, None) }
}

fn row_text(rows: &Rows, row: usize) -> String {
    use arrow_array::{Array, cast::AsArray};
    let cells = rows.batch.columns().iter().map(|c| c.as_string_view()).map(|c| c.is_valid(row).then(|| c.value(row)));
    format!("{:?}", cells.collect::<Vec<_>>())
}

/// Collects rejected records.
#[derive(Default)]
struct Seen(Vec<String>);

impl Rejects for Seen {
    fn row(&mut self, _rows: &Rows, _row: usize, error: Error) -> Result<()> {
        self.0.push(error.to_string());
        Ok(())
    }
    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.0.push(format!("{record:?} {error}"));
        Ok(())
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}
