//! Comparing batches by their rows, whatever way they were cut.

use arrow_array::{Array, RecordBatch};

/// Each row as text, column by column as `name=value`, NULL as `null`. For messages and for comparing sets of rows.
pub fn texts(batches: &[RecordBatch]) -> Vec<String> {
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| text(batch, row))).collect()
}

fn text(batch: &RecordBatch, row: usize) -> String {
    let schema = batch.schema();
    let value = |column: &dyn Array| {
        let one = format!("{:?}", column.slice(row, 1));
        // The Debug form of an array: type, newline, `[`, newline, value, `,`, newline, `]`.
        let inner = one.split_once("[\n").and_then(|(_, rest)| rest.rsplit_once("\n]")).map_or(one.clone(), |(v, _)| v.to_string());
        inner.trim().trim_end_matches(',').to_string()
    };
    let pairs = schema.fields().iter().zip(batch.columns()).map(|(field, column)| format!("{}={}", field.name(), value(column.as_ref())));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Asserts that two lists of rows are equal, in order, and shows the first difference.
///
/// # Panics
/// When they are not.
pub fn assert_same(what: &str, actual: &[String], expected: &[String]) {
    if actual == expected {
        return;
    }
    let at = actual.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let show = |rows: &[String]| rows.get(at).cloned().unwrap_or_else(|| "(no row)".into());
    panic!(
        "{what}: {} rows where {} were expected; row {} is\n  {}\nand should be\n  {}",
        actual.len(),
        expected.len(),
        at + 1,
        show(actual),
        show(expected)
    );
}

/// As [`assert_same`], for rows that have no order.
///
/// # Panics
/// When the sets differ.
pub fn assert_same_set(what: &str, actual: &[String], expected: &[String]) {
    let sorted = |rows: &[String]| {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    assert_same(what, &sorted(actual), &sorted(expected));
}
