//! A column of texts that are printed here, many of them the same as the one before.

use crate::postgres::decode_column::{Refused, null_buffer, view};
use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use haul_formats::checked_string_views;
use std::sync::Arc;

/// Views into a text, and the text.
#[derive(Default)]
pub struct Texts {
    views: Vec<u128>,
    nulls: Vec<u32>,
    pub text: Vec<u8>,
    /// The view that [`Texts::again`] repeats, and what it was made of.
    kept: u128,
    of: Option<u32>,
}

impl Texts {
    /// Where the next text begins; print it into `text`, then [`Texts::end`].
    pub fn start(&self) -> usize {
        self.text.len()
    }

    /// The text since `start` is a row.
    pub fn end(&mut self, start: usize) {
        self.views.push(view(&self.text[start..], start));
    }

    /// The text since `start` is what [`Texts::again`] repeats.
    pub fn keep(&mut self, start: usize) {
        self.kept = view(&self.text[start..], start);
    }

    /// A row like the text that was kept.
    pub fn again(&mut self) {
        self.views.push(self.kept);
    }

    /// A short row.
    pub fn push(&mut self, bytes: &[u8]) {
        let start = self.start();
        if bytes.len() > 12 {
            self.text.extend_from_slice(bytes);
        }
        self.views.push(view(bytes, start));
    }

    pub fn push_null(&mut self) {
        self.nulls.push(self.views.len() as u32);
        self.views.push(0);
    }

    /// A row `schema.name`, printed when `id` is another than before.
    pub fn name_of(&mut self, id: u32, schema: &str, name: &str) {
        if self.of != Some(id) {
            let start = self.start();
            for part in [schema, ".", name] {
                self.text.extend_from_slice(part.as_bytes());
            }
            self.keep(start);
            self.of = Some(id);
        }
        self.again();
    }

    /// One more name in the JSON list that begins at `start`. `key`: the name as a JSON string, and a colon.
    pub fn name(&mut self, start: usize, key: &[u8]) {
        self.text.push(if self.text.len() == start { b'[' } else { b',' });
        self.text.extend_from_slice(key.strip_suffix(b":").unwrap_or(key));
    }

    /// The list that begins at `start` is a row; NULL if nothing is in it.
    pub fn end_list(&mut self, start: usize) {
        if self.text.len() == start {
            return self.push_null();
        }
        self.text.push(b']');
        self.end(start);
    }

    /// Takes back the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.views.truncate(rows);
        while self.nulls.last().is_some_and(|n| *n as usize >= rows) {
            self.nulls.pop();
        }
    }
}

/// The column.
pub fn printed(texts: Texts) -> Result<ArrayRef, Refused> {
    let nulls = null_buffer(&texts.nulls, texts.views.len());
    Ok(Arc::new(checked_string_views(texts.views, nulls, Buffer::from_vec(texts.text)).map_err(|_| Refused::Utf8)?))
}
