//! Transforms on whole batches, as a worker runs them.

mod casts;
mod inference;
mod projection;
mod round_trips;
mod schemas;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use haul_model::{Error, Origin, Raw, Rejects, Result, Rows, Strict, Transform};
use std::sync::Arc;

/// A text column's name and its values.
type Column<'a> = (&'a str, &'a [Option<&'a str>]);

/// Rows of text whose records stand on lines 2 and following of `t.csv`.
fn text_rows(columns: &[Column<'_>]) -> Rows {
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8View, true)).collect();
    let arrays = columns.iter().map(|(_, values)| Arc::new(StringViewArray::from(values.to_vec())) as ArrayRef).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let records = batch.num_rows();
    let raw = Raw { bytes: Bytes::from("r\n".repeat(records)), first_line: 2, object: Some("t.csv".into()), ..Raw::default() };
    Rows::with_origin(batch, Origin { raw, starts: (0..=records as u32).map(|i| 2 * i).collect(), first_record: 0 })
}

fn rows_of(field: Field, array: ArrayRef) -> Rows {
    Rows::new(RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap(), 0)
}

/// Kind, whole text and hint, as the CLI will print them.
fn told(error: &Error) -> String {
    format!("{:?}: {error} | {}", error.kind(), error.hint_text().unwrap_or("-"))
}

/// The first error.
fn failure(transform: &dyn Transform, rows: Rows) -> String {
    let output = transform.output(rows.batch.schema_ref()).and_then(|_| transform.apply(rows, &mut Strict::default()));
    told(&output.expect_err("it should have failed"))
}

fn apply(transform: &dyn Transform, rows: Rows) -> Rows {
    let schema = transform.output(rows.batch.schema_ref()).unwrap();
    let out = transform.apply(rows, &mut Strict::default()).unwrap();
    assert_eq!(out.batch.schema(), schema, "the plan and the batch agree");
    out
}

fn texts(rows: &Rows, column: &str) -> Vec<Option<String>> {
    rows.batch.column_by_name(column).unwrap().as_string_view().iter().map(|v| v.map(str::to_string)).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|v| Some(v.to_string())).collect()
}

/// Takes rows out and remembers what it was told.
#[derive(Default)]
struct Aside(Vec<String>);

impl Rejects for Aside {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.0.push(rows.locate(row, error).to_string());
        Ok(())
    }
    fn record(&mut self, _record: &[u8], error: Error) -> Result<()> {
        Err(error)
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}
