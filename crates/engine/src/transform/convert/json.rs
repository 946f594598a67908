//! Text to JSON and JSON to text, on views: what need not change is not copied.

use super::explain::Why;
use arrow_array::builder::make_view;
use arrow_array::{Array, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};
use haul_formats::jsonl::json::{compact_json, unescape};
use haul_model::{Error, Result};
use std::sync::Arc;

/// The views of a string column while some of its values are replaced: a value that changes goes into one new
/// buffer, all others keep pointing to where they were.
struct Views<'a> {
    input: &'a StringViewArray,
    /// The views from the first change on; none until then.
    changed: Option<Vec<u128>>,
    /// What the new views point to.
    fresh: Vec<u8>,
}

impl<'a> Views<'a> {
    fn new(input: &'a StringViewArray) -> Self {
        Self { input, changed: None, fresh: Vec::new() }
    }

    fn set(&mut self, row: usize, view: u128) {
        self.changed.get_or_insert_with(|| self.input.views().to_vec())[row] = view;
    }

    /// Row `row` is now `fresh[start..]`.
    fn take_fresh(&mut self, row: usize, start: usize) {
        let value = &self.fresh[start..];
        let view = make_view(value, self.input.data_buffers().len() as u32, start as u32);
        if value.len() <= INLINE {
            self.fresh.truncate(start);
        }
        self.set(row, view);
    }

    /// Row `row` is now bytes `from..to` of what it was.
    fn take_part(&mut self, row: usize, from: usize, to: usize) {
        let value = self.input.value(row).as_bytes();
        // The upper half of a view that is not inline: buffer index, then offset, 32 bits each (Arrow columnar format).
        let view = self.input.views()[row];
        let (buffer, offset) = ((view >> 64) as u32, (view >> 96) as u32);
        self.set(row, make_view(&value[from..to], buffer, offset.wrapping_add(from as u32)));
    }

    fn finish(self, nulls: Option<NullBuffer>) -> Result<StringViewArray> {
        let views = match self.changed {
            Some(views) => ScalarBuffer::from(views),
            None => self.input.views().clone(),
        };
        let mut buffers = self.input.data_buffers().to_vec();
        if !self.fresh.is_empty() {
            buffers.push(Buffer::from_vec(self.fresh));
        }
        let array = StringViewArray::try_new(views, Arc::<[Buffer]>::from(buffers), nulls);
        array.map_err(|e| Error::internal("views of a JSON column").caused_by(e))
    }
}

/// Values up to this length stand in the view itself.
const INLINE: usize = 12;

/// Checks that each text is one JSON value and takes white space between tokens out. Keys, their order, numbers and
/// escapes stay as they are. A column that is compact already comes back as it is.
///
/// # Errors
/// `Internal` only; a text that is not JSON goes to `fail`.
pub(super) fn compact(input: &StringViewArray, fail: &mut dyn FnMut(usize, Why)) -> Result<StringViewArray> {
    let nulls = input.nulls().filter(|n| n.null_count() > 0);
    let mut views = Views::new(input);
    for row in 0..input.len() {
        if nulls.is_some_and(|n| n.is_null(row)) {
            continue;
        }
        let (text, start) = (input.value(row).as_bytes(), views.fresh.len());
        match compact_json(text, &mut views.fresh) {
            Ok(()) if views.fresh.len() - start == text.len() => views.fresh.truncate(start),
            Ok(()) => views.take_fresh(row, start),
            Err(error) => fail(row, Why::NotJson(error)),
        }
    }
    if views.changed.is_none() {
        return Ok(input.clone());
    }
    views.finish(input.nulls().cloned())
}

/// JSON to text: a string gives its characters, `null` gives NULL, any other value its own compact text.
///
/// # Errors
/// `Internal` only; a string with half a surrogate pair goes to `fail`.
pub(super) fn to_text(input: &StringViewArray, fail: &mut dyn FnMut(usize, Why)) -> Result<StringViewArray> {
    let mut views = Views::new(input);
    let mut nulls = NullBufferBuilder::new(input.len());
    for row in 0..input.len() {
        if input.is_null(row) {
            nulls.append_null();
            continue;
        }
        let text = input.value(row).as_bytes();
        let mut valid = true;
        match text {
            b"null" => valid = false,
            [b'"', raw @ .., b'"'] if memchr_backslash(raw) => {
                let start = views.fresh.len();
                if unescape(raw, &mut views.fresh).is_ok() {
                    views.take_fresh(row, start);
                } else {
                    views.fresh.truncate(start);
                    fail(row, Why::LoneSurrogate);
                    valid = false;
                }
            }
            [b'"', .., b'"'] => views.take_part(row, 1, text.len() - 1),
            _ => {}
        }
        nulls.append(valid);
    }
    views.finish(nulls.finish())
}

fn memchr_backslash(text: &[u8]) -> bool {
    text.contains(&b'\\')
}
