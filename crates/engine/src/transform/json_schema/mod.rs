//! `--json-schema FILE`: columns as a JSON Schema describes them.
//!
//! Each property that is a column is brought to its type; texts are coerced, never bent:
//!
//! - `integer` becomes a 64-bit integer; beyond that is an error, and `number` keeps it;
//! - `number` keeps the number's own text, all digits, as a JSON number;
//! - `boolean`, `string`; `object` and `array` are read as JSON;
//! - `string` with `contentMediaType: application/json` becomes the JSON value it holds, compact, keys in source order;
//! - `string` with a `format` is checked and stays as it is;
//! - a list of types: each value becomes the first that its spelling allows.
//!
//! NULL is an absent value: fine unless the property is `required`, and then fine only if `null` is among its types. Columns
//! without a property pass untouched, or stop the plan under `additionalProperties: false`.

mod parse;
mod values;

use super::bad_rows::BadRows;
use super::cast::{no_column, rebuild};
use super::convert::explain::{AskedBy, Why, explain, shown};
use super::convert::number_text::is_json_number;
use super::convert::{Conversion, check_text, strings};
use super::prepared::Prepared;
use super::type_names::TypeName;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_formats::literal::LiteralError;
use haul_model::{Error, ErrorKind, Rejects, Result, Rows, Transform, field_meta};
use parse::{Kind, Parsed, Property};
use std::sync::Arc;

/// A JSON Schema, applied to rows.
#[derive(Debug)]
pub struct JsonSchema {
    parsed: Parsed,
    prepared: Prepared<Plan>,
}

#[derive(Debug)]
struct Plan {
    schema: SchemaRef,
    steps: Vec<Step>,
}

/// What happens to one column.
#[derive(Debug)]
struct Step {
    index: usize,
    /// Which property of the schema.
    property: Option<usize>,
    /// First this.
    convert: Option<Conversion>,
    /// Then this.
    then: Then,
    /// Whether NULL is an error.
    required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Nothing.
    Keep,
    /// The text must be a JSON number.
    Number,
    /// The text must follow the property's `format`.
    Format,
    /// The JSON value must be of one of the property's types.
    Kinds,
    /// The text becomes the first of the property's types that it spells.
    Coerce,
    /// The text is read as JSON.
    Decode,
    /// Only NULL may be there.
    Nothing,
}

impl JsonSchema {
    /// Reads a schema document.
    ///
    /// # Errors
    /// `Config`: not JSON, or a keyword or value that is not understood, with its path in the document.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { parsed: parse::parse(text)?, prepared: Prepared::default() })
    }

    fn plan(&self, input: &SchemaRef) -> Result<Plan> {
        let Parsed { properties, required, additional } = &self.parsed;
        if let Some(missing) = required.iter().find(|name| input.index_of(name).is_err()) {
            return Err(no_column(input, missing).context("the JSON Schema requires a property that the source does not have"));
        }
        let mut fields: Vec<Arc<Field>> = input.fields().to_vec();
        let mut steps = Vec::new();
        for (index, field) in input.fields().iter().enumerate() {
            let required = required.contains(field.name());
            let Some(at) = properties.iter().position(|(name, _)| name == field.name()) else {
                if !additional {
                    let error = Error::new(ErrorKind::Schema, "the JSON Schema has no such property and forbids additional ones");
                    return Err(error.column(field.name()).hint("add it to \"properties\", or leave the column out with --columns"));
                }
                if required {
                    steps.push(Step { index, property: None, convert: None, then: Then::Keep, required });
                }
                continue;
            };
            let (step, out) = step(index, field, at, &properties[at].1, required)?;
            fields[index] = Arc::new(out);
            steps.push(step);
        }
        Ok(Plan { schema: Arc::new(Schema::new_with_metadata(fields, input.metadata().clone())), steps })
    }

    fn run(&self, step: &Step, name: &str, field: &Field, input: &ArrayRef, bad: &mut BadRows) -> Result<ArrayRef> {
        let mut column = match &step.convert {
            Some(conversion) => conversion.convert(input, bad)?,
            None => input.clone(),
        };
        let Some(property) = step.property.map(|at| &self.parsed.properties[at].1) else {
            require(name, &column, bad);
            return Ok(column);
        };
        column = finish(step.then, property, name, column, bad)?;
        if let Some(allowed) = &property.allowed {
            let (text, json) = printed(field, &column)?;
            allowed.check(&text, json, |row| {
                let detail = format!("{} is not one of {}", shown(text.value(row)), allowed.listing());
                bad.push(row, data(name, detail).hint("add it to \"enum\" in the JSON Schema if it is right"));
            });
        }
        if step.required {
            require(name, &column, bad);
        }
        Ok(column)
    }
}

impl Transform for JsonSchema {
    fn describe(&self) -> String {
        let properties: Vec<String> = self.parsed.properties.iter().map(|(name, p)| format!("{name}:{}", wanted(p))).collect();
        format!("json schema {}", properties.join(","))
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.plan(input)?.schema)
    }

    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        let plan = self.prepared.get(rows.batch.schema_ref(), |schema| self.plan(schema))?;
        let mut bad = BadRows::default();
        let mut columns = rows.batch.columns().to_vec();
        for step in &plan.steps {
            let field = plan.schema.field(step.index);
            columns[step.index] = self.run(step, field.name(), field, &columns[step.index], &mut bad)?;
        }
        let batch = rebuild(&plan.schema, columns, &rows)?;
        bad.settle(rows, batch, rejects)
    }
}

/// What follows the conversion of a column.
fn finish(then: Then, property: &Property, name: &str, column: ArrayRef, bad: &mut BadRows) -> Result<ArrayRef> {
    if then == Then::Keep {
        return Ok(column);
    }
    let text = strings(&column)?;
    let hint = "widen \"type\" in the JSON Schema if the value is right";
    Ok(match then {
        Then::Keep => column,
        Then::Number => {
            let look = |t: &[u8]| if is_json_number(t) { Ok(()) } else { Err(not_a_number(t)) };
            check_text(&text, look, &mut |row, why| {
                bad.push(row, explain(name, text.value(row), TypeName::Numeric, why, AskedBy::Schema));
            })
        }
        Then::Format => {
            let format = property.format.unwrap_or(values::Format::DateTime);
            let malformed = Why::Literal(LiteralError::Malformed);
            let look = |t: &[u8]| if format.holds(t) { Ok(()) } else { Err(malformed) };
            check_text(&text, look, &mut |row, _| {
                let detail = format!("{} is not {}", shown(text.value(row)), format.noun());
                bad.push(row, data(name, detail).hint("without \"format\" in the JSON Schema any string is taken"));
            })
        }
        Then::Kinds => {
            let look = |t: &[u8]| {
                if values::is_one_of(t, &property.kinds, property.null) { Ok(()) } else { Err(LiteralError::Malformed.into()) }
            };
            check_text(&text, look, &mut |row, _| {
                let value = text.value(row);
                let is = values::describe(value.as_bytes());
                bad.push(row, data(name, format!("{} is {is}, not {}", shown(value), nouns(&property.kinds))).hint(hint));
            })
        }
        Then::Coerce => values::coerce(&text, &property.kinds, |row| {
            bad.push(row, data(name, format!("{} is not {}", shown(text.value(row)), nouns(&property.kinds))).hint(hint));
        }),
        Then::Decode => {
            let from = TypeName::TEXT.field(name, true);
            Conversion::plan(&from, TypeName::JSON, AskedBy::Schema)?.convert(&column, bad)?
        }
        Then::Nothing => {
            for row in (0..text.len()).filter(|row| text.is_valid(*row)) {
                bad.push(row, data(name, format!("{} is a value, not null", shown(text.value(row)))).hint(hint));
            }
            column
        }
    })
}

/// What to do with a column, and the field that comes out.
fn step(index: usize, field: &Field, at: usize, property: &Property, required: bool) -> Result<(Step, Field)> {
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_json = is_text && field_meta::is_json(field);
    let convert = |to| Conversion::plan(field, to, AskedBy::Schema).map(Some);
    let json_field = || TypeName::JSON.field(field.name(), true);
    let (convert, then) = match property.kinds[..] {
        [] if property.null => (convert(TypeName::TEXT)?, Then::Nothing),
        [] => (None, Then::Keep),
        [Kind::Integer] => (convert(TypeName::Int64)?, Then::Keep),
        [Kind::Boolean] => (convert(TypeName::Boolean)?, Then::Keep),
        [Kind::Number] if field.data_type().is_numeric() => (None, Then::Keep),
        [Kind::Number] if is_text => (convert(TypeName::TEXT)?, Then::Number),
        [Kind::Number] => return Err(impossible(field, "a number")),
        // A JSON string gives its characters first: they are the document.
        [Kind::String] if property.holds_json && is_json => (convert(TypeName::TEXT)?, Then::Decode),
        [Kind::String] if property.holds_json => (convert(TypeName::JSON)?, Then::Keep),
        [Kind::String] if property.format.is_some() => (convert(TypeName::TEXT)?, Then::Format),
        [Kind::String] => (convert(TypeName::TEXT)?, Then::Keep),
        [Kind::Object | Kind::Array] => (convert(TypeName::JSON)?, Then::Kinds),
        _ if is_json => (convert(TypeName::JSON)?, Then::Kinds),
        // Any text is a string, so nothing behind `string` is ever reached.
        [Kind::String, ..] => (convert(TypeName::TEXT)?, Then::Keep),
        _ => (convert(TypeName::TEXT)?, Then::Coerce),
    };
    let out = match then {
        Then::Number => field_meta::with(json_field(), field_meta::SOURCE_TYPE, "postgres:numeric"),
        Then::Coerce | Then::Kinds | Then::Decode => json_field(),
        _ => convert.as_ref().map_or_else(|| field.clone(), Conversion::field),
    };
    Ok((Step { index, property: Some(at), convert, then, required: required && !property.null }, out))
}

fn impossible(field: &Field, noun: &str) -> Error {
    Error::new(ErrorKind::Schema, format!("a column of type {} is not {noun}, as the JSON Schema wants it", field.data_type()))
        .column(field.name())
}

/// A value that the schema does not allow.
fn data(column: &str, detail: String) -> Error {
    Error::new(ErrorKind::Data, detail).column(column)
}

fn require(name: &str, input: &ArrayRef, bad: &mut BadRows) {
    let Some(nulls) = input.logical_nulls().filter(|n| n.null_count() > 0) else { return };
    for row in (0..input.len()).filter(|row| nulls.is_null(*row)) {
        let hint = "add \"null\" to its \"type\" in the JSON Schema, or take it out of \"required\"";
        bad.push(row, data(name, "NULL, but the JSON Schema requires a value".to_string()).hint(hint));
    }
}

fn not_a_number(text: &[u8]) -> Why {
    if super::convert::number_text::is_numeric(text) { Why::NotJsonNumber } else { LiteralError::Malformed.into() }
}

/// The column as `enum` compares it: JSON values, or texts.
fn printed(field: &Field, column: &ArrayRef) -> Result<(StringViewArray, bool)> {
    let bare = matches!(column.data_type(), DataType::Boolean) || column.data_type().is_numeric();
    let json = bare || field_meta::is_json(field);
    let text = match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => strings(column)?,
        _ => strings(&Conversion::plan(field, TypeName::TEXT, AskedBy::Schema)?.convert(column, &mut BadRows::default())?)?,
    };
    Ok((text, json))
}

fn nouns(kinds: &[Kind]) -> String {
    kinds.iter().map(|k| k.noun()).collect::<Vec<_>>().join(" or ")
}

fn wanted(property: &Property) -> String {
    let mut words: Vec<&str> = property.kinds.iter().map(|k| k.word()).collect();
    if property.holds_json {
        words = vec!["json"];
    }
    if property.null {
        words.push("null");
    }
    if words.is_empty() { "any".to_string() } else { words.join("|") }
}
