//! Bodies of the fuzz targets; their corpus also runs as tests.

use super::json::{compact_json, unescape, validate_json};
use super::{JsonlInput, push_string};
use crate::RecordInput;
use haul_model::{Raw, Rejects, Result, Rows, Settings};

/// The scanner neither fails nor hangs on any bytes, and compacting is idempotent.
///
/// # Panics
/// On a broken promise.
pub fn scanner(data: &[u8]) {
    let mut once = Vec::new();
    assert_eq!(compact_json(data, &mut once), validate_json(data), "compacting and validating must agree");
    if !once.is_empty() {
        let mut twice = Vec::new();
        assert_eq!(compact_json(&once, &mut twice), Ok(()), "compacted JSON must be JSON");
        assert_eq!(once, twice, "compacting must be idempotent");
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let (mut quoted, mut back) = (Vec::new(), Vec::new());
        push_string(text.as_bytes(), &mut quoted);
        assert_eq!(validate_json(&quoted), Ok(()), "a written string must be JSON");
        assert_eq!(unescape(&quoted[1..quoted.len() - 1], &mut back), Ok(()));
        assert_eq!(back, text.as_bytes(), "a written string must read back");
    }
}

/// The reader accounts for every record, wherever the chunks are cut (every `step` bytes), and always in the same way.
///
/// # Panics
/// On a broken promise.
pub fn reader(data: &[u8], step: usize) {
    let Ok(input) = JsonlInput::detect(&Settings::default(), data, true, "fuzz") else { return };
    let whole = outcome(&input, data, usize::MAX);
    assert_eq!(whole, outcome(&input, data, step.max(1)), "the result must not depend on the chunks");
}

/// Rows, rejected records and their lines, framed with at most `step` new bytes at a time.
fn outcome(input: &JsonlInput, data: &[u8], step: usize) -> (Vec<String>, Vec<String>) {
    struct Take(Vec<String>);
    impl Rejects for Take {
        fn row(&mut self, _: &Rows, _: usize, error: haul_model::Error) -> Result<()> {
            Err(error)
        }
        fn record(&mut self, record: &[u8], error: haul_model::Error) -> Result<()> {
            // The record's number counts from the chunk, all else is absolute.
            self.0.push(format!("{error} {}", String::from_utf8_lossy(record)));
            Ok(())
        }
        fn lossy(&mut self, _: &str, _: u64) {}
    }
    let (mut framer, mut decoder) = (input.framer(), input.decoder());
    let mut rejects = Take(Vec::new());
    let mut rows = Vec::new();
    let (mut from, mut line) = (input.prolog().bytes, 1);
    let (mut until, mut seen) = (from, 0);
    while from < data.len() {
        until = until.saturating_add(step).min(data.len());
        let end = until == data.len();
        let Ok(Some(cut)) = framer.cut(&data[from..until], seen, end) else {
            seen = until - from;
            continue;
        };
        let bytes = bytes::Bytes::copy_from_slice(&data[from..from + cut.bytes]);
        let raw = Raw { bytes, records: cut.records, first_line: line, first_byte: from as u64, object: None, offsets: None };
        let (before, refused) = (rows.len(), rejects.0.len());
        let result = decoder.decode(raw, &mut rejects, &mut |batch: Rows, _: &mut dyn Rejects| {
            let columns = batch.batch.columns().iter().zip(batch.batch.schema_ref().fields());
            let writers = columns.map(|(array, field)| super::ValueWriter::new(array.as_ref(), field)).collect::<Result<Vec<_>>>()?;
            for row in 0..batch.batch.num_rows() {
                let mut text = Vec::new();
                for writer in &writers {
                    text.push(if writer.is_null(row) { b'-' } else { b'+' });
                    let written = writer.write(row, &mut text);
                    assert!(written.is_ok(), "no value that was read is without a form");
                }
                rows.push(String::from_utf8_lossy(&text).into_owned());
            }
            Ok(())
        });
        assert!(result.is_ok(), "bad records go to the rejects: {result:?}");
        let records = (rows.len() - before + rejects.0.len() - refused) as u64;
        assert_eq!(Some(records), cut.records, "every record must become a row or a reject");
        from += cut.bytes;
        line += cut.lines;
        seen = until - from;
    }
    (rows, rejects.0)
}
