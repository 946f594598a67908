//! Rows that are kept until the sink has taken them, and which of a batch's rows were left out on the way down.

use haul_model::{Error, Rejects, Result, Rows};

/// Rows in a block, and which of them the encoder left out of it (ascending).
pub(crate) struct Kept {
    pub rows: Rows,
    pub left_out: Vec<usize>,
}

/// The batch and row that number `row` of a block came from.
pub(crate) fn find_row(kept: &[Kept], row: u64) -> Option<(&Rows, usize)> {
    let mut row = usize::try_from(row).ok()?;
    for Kept { rows, left_out } in kept {
        let here = rows.batch.num_rows() - left_out.len();
        if row < here {
            let mut index = row;
            for out in left_out {
                if *out <= index {
                    index += 1;
                }
            }
            return Some((rows, index));
        }
        row -= here;
    }
    None
}

/// Notes which rows were rejected on the way down.
pub(crate) struct Noted<'a> {
    pub inner: &'a mut dyn Rejects,
    pub rows: Vec<usize>,
}

impl Rejects for Noted<'_> {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.inner.row(rows, row, error)?;
        self.rows.push(row);
        Ok(())
    }
    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.inner.record(record, error)
    }
    fn lossy(&mut self, column: &str, count: u64) {
        self.inner.lossy(column, count);
    }
}
