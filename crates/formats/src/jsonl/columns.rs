//! A column that is being decoded. A row that turns out bad is taken back by cutting every column to the rows before it.

use super::input::ColumnKind;
use crate::simd::{TextBuffer, string_views, view_of};
use arrow_array::{ArrayRef, BooleanArray, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use haul_model::{Error, Result};
use std::sync::Arc;

/// Values of one column; the chunk is buffer 0 of its views, text that had escapes is buffer 1.
pub(super) struct Column {
    values: Values,
    valid: Vec<bool>,
    side: Vec<u8>,
}

enum Values {
    Views(Vec<u128>),
    Integers(Vec<i64>),
    Booleans(Vec<bool>),
}

impl Column {
    pub(super) fn new(kind: ColumnKind) -> Self {
        let values = match kind {
            ColumnKind::Text | ColumnKind::AnyText | ColumnKind::Json => Values::Views(Vec::new()),
            ColumnKind::Integer => Values::Integers(Vec::new()),
            ColumnKind::Boolean => Values::Booleans(Vec::new()),
        };
        Self { values, valid: Vec::new(), side: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.valid.len()
    }

    /// Cuts it to `rows` values.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Views(v) => v.truncate(rows),
            Values::Integers(v) => v.truncate(rows),
            Values::Booleans(v) => v.truncate(rows),
        }
    }

    /// Makes it `rows` values long: a key that was not there is NULL.
    #[inline(always)]
    pub(super) fn fill(&mut self, rows: usize) {
        if self.valid.len() < rows {
            self.push_null();
        }
    }

    #[inline]
    pub(super) fn push_null(&mut self) {
        self.valid.push(false);
        match &mut self.values {
            Values::Views(v) => v.push(0),
            Values::Integers(v) => v.push(0),
            Values::Booleans(v) => v.push(false),
        }
    }

    /// `data[from..to]`, where `data` is the chunk.
    #[inline(always)]
    pub(super) fn push_view(&mut self, data: &[u8], from: usize, to: usize) {
        if let Values::Views(v) = &mut self.values {
            v.push(view_of(data, 0, from, to));
            self.valid.push(true);
        }
    }

    /// Text that does not stand in the chunk; `false` when there is no room for it.
    pub(super) fn push_side(&mut self, text: &[u8]) -> bool {
        let from = self.side.len();
        if u32::try_from(from + text.len()).is_err() {
            return false;
        }
        if let Values::Views(v) = &mut self.values {
            self.side.extend_from_slice(text);
            v.push(view_of(&self.side, 1, from, self.side.len()));
            self.valid.push(true);
        }
        true
    }

    #[inline(always)]
    pub(super) fn push_integer(&mut self, value: i64) {
        if let Values::Integers(v) = &mut self.values {
            v.push(value);
            self.valid.push(true);
        }
    }

    #[inline(always)]
    pub(super) fn push_bool(&mut self, value: bool) {
        if let Values::Booleans(v) = &mut self.values {
            v.push(value);
            self.valid.push(true);
        }
    }

    /// The values as an array; the column is empty afterwards, with room for as many again.
    pub(super) fn finish(&mut self, chunk: &TextBuffer) -> Result<ArrayRef> {
        let rows = self.valid.len();
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid.as_slice()));
        self.valid.clear();
        let array: ArrayRef = match &mut self.values {
            Values::Views(views) => {
                let views = std::mem::replace(views, Vec::with_capacity(rows));
                let side = TextBuffer::new(std::mem::take(&mut self.side)).map_err(|_| Error::internal("unescaped text is not UTF-8"))?;
                Arc::new(string_views(views, nulls, &[chunk.clone(), side])?)
            }
            Values::Integers(values) => {
                let values = std::mem::replace(values, Vec::with_capacity(rows));
                Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls))
            }
            Values::Booleans(values) => {
                let bits = BooleanBuffer::from(values.as_slice());
                values.clear();
                Arc::new(BooleanArray::new(bits, nulls))
            }
        };
        Ok(array)
    }
}
