//! One column to another type: exact, or an error for the row. The type is looked at once per batch.
//!
//! - Text becomes any type whose spelling it is. An empty string is a value, and only text takes it; NULL stays NULL.
//! - A JSON string counts as its characters, JSON `null` as NULL, any other JSON value as its own text.
//! - Numbers become other numbers when nothing is lost: no rounding, no decimal through a float. A float prints as the
//!   shortest text that reads back to it, and that text is what becomes a decimal.
//! - A timestamp with a zone becomes the instant in UTC. Without one it is taken as UTC where an instant is asked for. Text with
//!   a zone does not become a timestamp without one.

pub(super) mod explain;
mod from_text;
mod from_typed;
mod json;
pub(super) mod number_text;
mod to_text;

use super::bad_rows::BadRows;
use super::type_names::TypeName;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_schema::{DataType, Field};
use explain::{AskedBy, Why, explain};
pub(super) use from_text::check as check_text;
use from_typed::Way;
use haul_model::{Error, ErrorKind, Result, field_meta};
use std::sync::Arc;

/// How a column gets its new type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// It has it.
    Same,
    /// It holds text.
    Text,
    /// It holds JSON.
    Json,
    /// It holds typed values.
    Typed(Way),
}

/// A conversion of one column, planned from its field.
#[derive(Debug)]
pub(super) struct Conversion {
    column: String,
    to: TypeName,
    how: How,
    asked: AskedBy,
    uuid: bool,
    nullable: bool,
}

impl Conversion {
    /// Plans the way from `from` to `to`.
    ///
    /// # Errors
    /// `Schema`: there is none.
    pub(super) fn plan(from: &Field, to: TypeName, asked: AskedBy) -> Result<Self> {
        let uuid = field_meta::is_uuid(from);
        let how = match value_type(from.data_type()) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match (field_meta::is_json(from), to) {
                (true, TypeName::Json { .. }) => Some(How::Same),
                (true, _) => Some(How::Json),
                (false, _) => Some(How::Text),
            },
            same if *same == to.data_type() && !matches!(to, TypeName::Uuid) => Some(How::Same),
            DataType::FixedSizeBinary(16) if uuid && to == TypeName::Uuid => Some(How::Same),
            typed => from_typed::way(typed, to).map(How::Typed),
        };
        let Some(how) = how else {
            let error = Error::new(ErrorKind::Schema, format!("a column of type {} cannot be cast to {to}", from.data_type()));
            return Err(error.column(from.name()).hint("leave it as it is, or cast it to text"));
        };
        Ok(Self { column: from.name().clone(), to, how, asked, uuid, nullable: from.is_nullable() || how == How::Json })
    }

    /// The field that comes out.
    pub(super) fn field(&self) -> Field {
        self.to.field(&self.column, self.nullable)
    }

    /// The error for `value` of this column.
    pub(super) fn explain(&self, value: &str, why: Why) -> Error {
        explain(&self.column, value, self.to, why, self.asked)
    }

    /// Converts a column of one batch. Rows that go to `bad` hold a value without meaning.
    ///
    /// # Errors
    /// `Internal` only.
    pub(super) fn convert(&self, input: &ArrayRef, bad: &mut BadRows) -> Result<ArrayRef> {
        let input = &plain(input)?;
        match self.how {
            How::Same if self.to.data_type() == *input.data_type() => Ok(input.clone()),
            How::Same => Ok(Arc::new(strings(input)?)),
            How::Text => self.convert_text(&strings(input)?, bad),
            How::Json => {
                let source = strings(input)?;
                let text = json::to_text(&source, &mut |row, why| bad.push(row, self.explain(source.value(row), why)))?;
                self.convert_text(&text, bad)
            }
            How::Typed(Way::Text) => self.convert_text(&to_text::to_text(input, self.uuid)?, bad),
            How::Typed(way) => {
                let printed = |row| to_text::to_text(&input.slice(row, 1), self.uuid);
                let mut failed = Vec::new();
                let output = from_typed::from_typed(input, way, self.to, &mut |row, why| failed.push((row, why)))?;
                for (row, why) in failed {
                    bad.push(row, self.explain(printed(row)?.value(0), why));
                }
                Ok(output)
            }
        }
    }

    fn convert_text(&self, text: &StringViewArray, bad: &mut BadRows) -> Result<ArrayRef> {
        from_text::from_text(text, self.to, &mut |row, why| bad.push(row, self.explain(text.value(row), why)))
    }
}

/// The type of the values, dictionaries looked through.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The column without a dictionary.
fn plain(input: &ArrayRef) -> Result<ArrayRef> {
    match input.as_any_dictionary_opt() {
        Some(dictionary) => arrow_select::take::take(dictionary.values(), dictionary.keys(), None)
            .map_err(|e| Error::internal("a dictionary that points outside itself").caused_by(e)),
        None => Ok(input.clone()),
    }
}

/// A column of strings of any Arrow layout as views.
///
/// # Errors
/// `Internal`: not strings.
pub(super) fn strings(input: &ArrayRef) -> Result<StringViewArray> {
    match input.data_type() {
        DataType::Utf8View => Ok(input.as_string_view().clone()),
        DataType::Utf8 => Ok(StringViewArray::from(input.as_string::<i32>())),
        DataType::LargeUtf8 => Ok(StringViewArray::from(input.as_string::<i64>())),
        other => Err(Error::internal(format!("{other} is no text"))),
    }
}
