//! `csv={"nested":"flatten"}`: objects spread over columns `parent.child`, for targets without nesting.
//!
//! A text file's columns must be known before its first row, and what keys an object has is only known from its rows. So the keys come from a
//! sample (and from the schema, where a struct names them). A row that has another key later is an error for that row: a value never
//! vanishes because there is no column for it. Lists stay JSON text; `null`, a missing key and an empty object are all NULL.

use super::bad_rows::BadRows;
use super::cast::rebuild;
use super::prepared::Prepared;
use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_formats::jsonl::json::{Cursor, JsonKind, unescape};
use haul_formats::jsonl::write_json_value;
use haul_model::{Error, ErrorKind, Rejects, Result, Rows, Transform, field_meta};
use std::ops::Range;
use std::sync::Arc;

/// Deeper objects stay JSON text.
const MAX_DEPTH: usize = 32;
/// More columns than this are no table any more.
const MAX_COLUMNS: usize = 10_000;

/// Spreads the object columns of a sample.
#[derive(Debug)]
pub struct Flatten {
    /// Columns with objects in the sample, and the keys seen in them.
    columns: Vec<(String, Tree)>,
    prepared: Prepared<Plan>,
}

/// What stands at one place of an object.
#[derive(Debug, Default, Clone)]
struct Tree {
    /// A value that is no object stood here.
    value: bool,
    /// Keys, in the order in which they were first seen.
    keys: Vec<(String, Tree)>,
}

/// [`Tree`] with the number of the output column of each value.
#[derive(Debug)]
struct Slots {
    value: Option<usize>,
    keys: Vec<(String, Slots)>,
}

#[derive(Debug)]
struct Plan {
    schema: SchemaRef,
    /// For each input column, the columns that it becomes; `None`: it stays.
    steps: Vec<Option<Slots>>,
}

impl Flatten {
    /// Looks which keys the objects of a sample have, after the transforms `before`. Rows that those refuse are left out: the job meets them again.
    ///
    /// # Errors
    /// Text that is not JSON, a key twice in one object, too many keys.
    pub fn from_sample(sample: Vec<Rows>, before: &[Box<dyn Transform>]) -> Result<Self> {
        let sample = super::infer::after(sample, before)?;
        let mut columns = Vec::new();
        let schema = match sample.first() {
            Some(first) => first.batch.schema(),
            None => return Ok(Self { columns, prepared: Prepared::default() }),
        };
        let (mut out, mut count) = (Vec::new(), 0);
        for (index, field) in schema.fields().iter().enumerate() {
            if !is_nested(field) {
                continue;
            }
            let mut tree = Tree::of_type(field.data_type());
            for rows in &sample {
                let array = rows.batch.column(index);
                for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
                    out.clear();
                    write_json_value(array.as_ref(), field, row, &mut out)?;
                    let learned = tree.learn(&out, &mut Cursor::new(&out), 0, &mut count);
                    learned.map_err(|why| why.error().column(field.name()))?;
                }
            }
            if !tree.keys.is_empty() {
                columns.push((field.name().clone(), tree));
            }
        }
        Ok(Self { columns, prepared: Prepared::default() })
    }

    fn plan(&self, input: &SchemaRef) -> Result<Plan> {
        let (mut fields, mut steps): (Vec<Arc<Field>>, Vec<_>) = (Vec::new(), Vec::new());
        for field in input.fields() {
            match self.columns.iter().find(|(name, _)| name == field.name()) {
                None => {
                    fields.push(field.clone());
                    steps.push(None);
                }
                Some((name, tree)) => {
                    let first = fields.len();
                    let slots = Slots::of(tree, name, first, &mut fields);
                    steps.push(Some(slots));
                }
            }
        }
        let mut names = std::collections::HashSet::new();
        if let Some(twice) = fields.iter().find(|f| !names.insert(f.name().as_str())) {
            return Err(Error::new(ErrorKind::Schema, format!("there would be several columns called {:?}", twice.name()))
                .hint(r#"rename one of them with --rename, or keep objects as JSON text with csv={"nested":"json"}"#));
        }
        Ok(Plan { schema: Arc::new(Schema::new_with_metadata(fields, input.metadata().clone())), steps })
    }
}

/// Whether a column can hold objects.
fn is_nested(field: &Field) -> bool {
    field_meta::is_json(field) || matches!(field.data_type(), DataType::Struct(_) | DataType::Map(..))
}

impl Tree {
    /// The keys that a struct names.
    fn of_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Struct(fields) => {
                let keys = fields.iter().map(|f| match Self::of_type(f.data_type()) {
                    nested if nested.keys.is_empty() => (f.name().clone(), Self { value: true, keys: Vec::new() }),
                    nested => (f.name().clone(), nested),
                });
                Self { value: false, keys: keys.collect() }
            }
            _ => Self::default(),
        }
    }

    /// Adds what the value at the cursor has; `count` is the number of keys so far.
    fn learn(&mut self, json: &[u8], cursor: &mut Cursor<'_>, depth: usize, count: &mut usize) -> std::result::Result<(), Why> {
        if cursor.peek() != Some(b'{') || depth == MAX_DEPTH {
            let kind = cursor.value().map_err(|_| Why::NotJson)?;
            self.value |= kind != JsonKind::Null;
            return Ok(());
        }
        let mut seen = Vec::new();
        members(json, cursor, &mut |key, cursor| {
            let at = match self.keys.iter().position(|(k, _)| k == key) {
                Some(at) => at,
                None => {
                    *count += 1;
                    if *count > MAX_COLUMNS {
                        return Err(Why::TooMany);
                    }
                    self.keys.push((key.to_string(), Self::default()));
                    self.keys.len() - 1
                }
            };
            if seen.contains(&at) {
                return Err(Why::Twice(key.to_string()));
            }
            seen.push(at);
            self.keys[at].1.learn(json, cursor, depth + 1, count)
        })
    }
}

impl Slots {
    fn of(tree: &Tree, path: &str, first: usize, fields: &mut Vec<Arc<Field>>) -> Self {
        // A key that was only ever null still has its column.
        let value = (tree.value || tree.keys.is_empty()).then(|| {
            fields.push(Arc::new(Field::new(path, DataType::Utf8, true)));
            fields.len() - 1 - first
        });
        let keys = tree.keys.iter().map(|(key, tree)| (key.clone(), Self::of(tree, &format!("{path}.{key}"), first, fields))).collect();
        Self { value, keys }
    }

    fn width(&self) -> usize {
        usize::from(self.value.is_some()) + self.keys.iter().map(|(_, slots)| slots.width()).sum::<usize>()
    }

    /// Takes the value at the cursor apart: texts into `text`, their places into `found`.
    fn take(&self, cursor: &mut Cursor<'_>, json: &[u8], path: &mut Path, row: &mut Taken, depth: usize) -> std::result::Result<(), Why> {
        if cursor.peek() == Some(b'{') && depth < MAX_DEPTH {
            return members(json, cursor, &mut |key, cursor| {
                let Some((_, slots)) = self.keys.iter().find(|(k, _)| k == key) else { return Err(Why::NewKey(path.joined(key))) };
                path.0.push(key.to_string());
                slots.take(cursor, json, path, row, depth + 1)?;
                path.0.truncate(depth + 1);
                Ok(())
            });
        }
        let start = cursor.at();
        let kind = cursor.value().map_err(|_| Why::NotJson)?;
        if kind == JsonKind::Null {
            return Ok(());
        }
        let Some(slot) = self.value else { return Err(Why::NoObject(path.0.join("."), kind)) };
        let from = row.text.len();
        match kind {
            JsonKind::String { escaped: true } => unescape(&json[start + 1..cursor.at() - 1], &mut row.text).map_err(|_| Why::Surrogate)?,
            JsonKind::String { escaped: false } => row.text.extend_from_slice(&json[start + 1..cursor.at() - 1]),
            _ => row.text.extend_from_slice(&json[start..cursor.at()]),
        }
        if row.found[slot].replace(from..row.text.len()).is_some() {
            return Err(Why::Twice(path.0.join(".")));
        }
        Ok(())
    }
}

/// Keys from the column down to where the cursor is.
struct Path(Vec<String>);

impl Path {
    fn joined(&self, key: &str) -> String {
        self.0.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".")
    }
}

/// The values of one row.
struct Taken {
    text: Vec<u8>,
    found: Vec<Option<Range<usize>>>,
}

/// Why an object cannot be spread.
enum Why {
    NotJson,
    Surrogate,
    Twice(String),
    NewKey(String),
    NoObject(String, JsonKind),
    TooMany,
}

impl Why {
    fn error(self) -> Error {
        let keep = r#"csv={"nested":"json"} keeps objects as JSON text"#;
        let error = |what: String| Error::new(ErrorKind::Data, what);
        match self {
            Self::NotJson => error("the value is not JSON".into()),
            Self::Surrogate => error("a string holds half of a surrogate pair, which no text can hold".into()),
            Self::Twice(key) => error(format!("an object has the key {key:?} twice")).hint(keep),
            Self::NewKey(key) => error(format!("the key {key:?} has no column: no row of the sample had it")).hint(keep),
            Self::NoObject(path, kind) => error(format!("{path:?} is {} here, and an object in the sample", kind.describe())).hint(keep),
            Self::TooMany => error(format!("the objects have more than {MAX_COLUMNS} different keys: too many for columns")).hint(keep),
        }
    }
}

/// Calls `each` for every member of the object at the cursor of `json`; `each` goes past the value.
fn members(
    json: &[u8],
    cursor: &mut Cursor<'_>,
    each: &mut dyn FnMut(&str, &mut Cursor<'_>) -> std::result::Result<(), Why>,
) -> std::result::Result<(), Why> {
    let broken = |_| Why::NotJson;
    cursor.expect(b'{').map_err(broken)?;
    cursor.skip_space();
    if cursor.peek() == Some(b'}') {
        return cursor.expect(b'}').map_err(broken);
    }
    let mut key = Vec::new();
    loop {
        cursor.skip_space();
        let start = cursor.at() + 1;
        cursor.string().map_err(broken)?;
        key.clear();
        unescape(&json[start..cursor.at() - 1], &mut key).map_err(|_| Why::Surrogate)?;
        cursor.skip_space();
        cursor.expect(b':').map_err(broken)?;
        cursor.skip_space();
        each(std::str::from_utf8(&key).map_err(|_| Why::NotJson)?, cursor)?;
        cursor.skip_space();
        if cursor.peek() == Some(b'}') {
            return cursor.expect(b'}').map_err(broken);
        }
        cursor.expect(b',').map_err(broken)?;
    }
}

impl Transform for Flatten {
    fn describe(&self) -> String {
        match self.columns.as_slice() {
            [] => "flatten (no objects in the sample)".into(),
            columns => format!("flatten {}", columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")),
        }
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.plan(input)?.schema)
    }

    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        let plan = self.prepared.get(rows.batch.schema_ref(), |schema| self.plan(schema))?;
        let mut bad = BadRows::default();
        let schema = rows.batch.schema();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(plan.schema.fields().len());
        for (slots, (field, array)) in plan.steps.iter().zip(schema.fields().iter().zip(rows.batch.columns())) {
            match slots {
                None => columns.push(array.clone()),
                Some(slots) => columns.extend(spread(slots, field, array, &mut bad)?),
            }
        }
        let batch = rebuild(&plan.schema, columns, &rows)?;
        bad.settle(rows, batch, rejects)
    }
}

/// The columns that one column becomes.
fn spread(slots: &Slots, field: &Field, array: &ArrayRef, bad: &mut BadRows) -> Result<Vec<ArrayRef>> {
    let width = slots.width();
    let mut columns: Vec<StringBuilder> = (0..width).map(|_| StringBuilder::with_capacity(array.len(), 8 * array.len())).collect();
    let mut row = Taken { text: Vec::new(), found: vec![None; width] };
    let mut json = Vec::new();
    for number in 0..array.len() {
        row.text.clear();
        row.found.iter_mut().for_each(|f| *f = None);
        if array.is_valid(number) {
            json.clear();
            write_json_value(array.as_ref(), field, number, &mut json)?;
            let mut path = Path(vec![field.name().clone()]);
            if let Err(why) = slots.take(&mut Cursor::new(&json), &json, &mut path, &mut row, 0) {
                bad.push(number, why.error().column(field.name()));
            }
        }
        for (column, found) in columns.iter_mut().zip(&row.found) {
            match found {
                None => column.append_null(),
                Some(range) => {
                    let text = std::str::from_utf8(&row.text[range.clone()]);
                    column.append_value(text.map_err(|e| Error::internal("JSON that is not UTF-8").caused_by(e))?);
                }
            }
        }
    }
    Ok(columns.into_iter().map(|mut column| Arc::new(column.finish()) as ArrayRef).collect())
}
