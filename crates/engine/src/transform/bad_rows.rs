//! The bad values of one batch, told in row order once all columns have been converted.
//!
//! Columns are converted one after the other, but users read files by line: the first error that is shown
//! must be the first bad row, not the first bad column.

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_select::filter::filter_record_batch;
use haul_model::{Error, Rejects, Result, Rows};
use std::sync::Arc;

/// Rows that must be left out, with the reason. Empty on the happy path, and then free.
#[derive(Default)]
pub(super) struct BadRows(Vec<(u32, Error)>);

impl BadRows {
    /// Row `row` cannot be used. The first reason that is given for a row is the one that is told.
    pub(super) fn push(&mut self, row: usize, error: Error) {
        self.0.push((row as u32, error));
    }

    /// Tells `rejects` of every bad row of `input`, and gives `output` (same rows, converted) without them.
    ///
    /// # Errors
    /// The first one that `rejects` does not take.
    pub(super) fn settle(mut self, input: Rows, output: RecordBatch, rejects: &mut dyn Rejects) -> Result<Rows> {
        if self.0.is_empty() {
            return Ok(Rows { batch: output, ..input });
        }
        self.0.sort_by_key(|(row, _)| *row);
        self.0.dedup_by_key(|(row, _)| *row);
        let mut keep = BooleanBufferBuilder::new(output.num_rows());
        keep.append_n(output.num_rows(), true);
        for (row, error) in self.0 {
            rejects.row(&input, row as usize, error)?;
            keep.set_bit(row as usize, false);
        }
        without(input, output, BooleanArray::new(keep.finish(), None::<NullBuffer>))
    }
}

/// `output` (made from `input`, same rows) with only the rows that `keep` names.
fn without(input: Rows, output: RecordBatch, keep: BooleanArray) -> Result<Rows> {
    let selection = keep.values().set_indices().map(|row| input.record_of(row) as u32).collect();
    let batch = filter_record_batch(&output, &keep).map_err(|e| Error::internal("taking rows out of a batch").caused_by(e))?;
    Ok(Rows { batch, selection: Some(Arc::new(selection)), ..input })
}
