//! Files of one source, made alike: columns by name, and columns that come from where a file lies.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use haul_model::{Error, ErrorKind, Result, Rows, nearest};
use std::sync::Arc;

/// The name of the column that says which file a row came from.
pub const FILE_COLUMN: &str = "_file";

/// One file as it is opened.
pub struct Part {
    /// Its name, which becomes the value of `_file`.
    pub label: Arc<str>,
    /// What its decoder emits.
    pub schema: SchemaRef,
    /// Columns that its path gives (`day=2024-01-01/`), in order; `None` is NULL.
    pub places: Vec<(String, Option<String>)>,
}

/// How files are made alike.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A column that a file lacks is NULL there, and smaller types become larger ones.
    pub union: bool,
    /// These columns, in this order.
    pub columns: Option<Vec<String>>,
    /// With a column `_file`.
    pub file_column: bool,
}

/// What becomes of a file's batches.
pub struct Shape {
    schema: SchemaRef,
    takes: Vec<Take>,
}

enum Take {
    /// As it is decoded.
    Column(usize),
    /// In a larger type.
    Widened(usize),
    /// The file does not have it.
    Null,
    /// The same text in all rows; as many as the largest batch so far has.
    Text(ArrayRef),
}

/// Rows of a batch that most texts are made for at once.
const ROWS: usize = 8_192;

/// The columns of all files, and for each file its shape (`None`: its batches are right as they are).
///
/// # Errors
/// `Schema`, naming both files and the column; `NotFound` for a column that was asked for.
pub fn unite(parts: &[Part], wanted: &Wanted) -> Result<(SchemaRef, Vec<Option<Shape>>)> {
    let Some(first) = parts.first() else { return Err(Error::internal("no file to read")) };
    let mut fields: Vec<FieldRef> = first.schema.fields().iter().cloned().collect();
    let mut owners: Vec<usize> = vec![0; fields.len()];
    for (index, part) in parts.iter().enumerate().skip(1) {
        if !wanted.union {
            same_names(&first.label, &first.schema, part)?;
        }
        for field in part.schema.fields() {
            match fields.iter().position(|f| f.name() == field.name()) {
                Some(place) => fields[place] = together(&fields[place], &parts[owners[place]], field, part, wanted.union)?,
                None => {
                    fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
                    owners.push(index);
                }
            }
        }
    }
    for field in &mut fields {
        if parts.iter().any(|part| part.schema.index_of(field.name()).is_err()) {
            *field = Arc::new(field.as_ref().clone().with_nullable(true));
        }
    }
    append_places(&mut fields, parts, wanted)?;
    let schema = Schema::new_with_metadata(fields, first.schema.metadata().clone());
    let schema = Arc::new(match &wanted.columns {
        Some(names) => choose(&schema, names)?,
        None => schema,
    });
    let shapes = parts.iter().map(|part| Shape::new(&schema, part)).collect::<Result<_>>()?;
    Ok((schema, shapes))
}

/// Adds the columns that come from where the files lie.
fn append_places(fields: &mut Vec<FieldRef>, parts: &[Part], wanted: &Wanted) -> Result<()> {
    let names: Vec<&String> = parts[0].places.iter().map(|(name, _)| name).collect();
    if let Some(part) = parts.iter().find(|part| !part.places.iter().map(|(name, _)| name).eq(names.iter().copied())) {
        let list = |part: &Part| part.places.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let told = format!("lies in folders for ({}), but {} for ({})", list(part), parts[0].label, list(&parts[0]));
        return Err(Error::new(ErrorKind::Schema, told)
            .object(part.label.as_ref())
            .hint("--hive needs the same folders around every file"));
    }
    let file = wanted.file_column.then(|| FILE_COLUMN.to_string());
    for (name, nullable) in names.into_iter().map(|name| (name.clone(), true)).chain(file.map(|name| (name, false))) {
        if fields.iter().any(|field| field.name() == &name) {
            let told = "the files have a column of this name already";
            return Err(Error::new(ErrorKind::Schema, told)
                .column(&name)
                .object(parts[0].label.as_ref())
                .hint("leave out --hive or --file-column"));
        }
        fields.push(Arc::new(Field::new(name, DataType::Utf8View, nullable)));
    }
    Ok(())
}

fn choose(schema: &Schema, names: &[String]) -> Result<Schema> {
    let find = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let error = Error::new(ErrorKind::NotFound, "no such column").column(name);
            match nearest(name, schema.fields().iter().map(|f| f.name().as_str())) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error,
            }
        })
    };
    let indices = names.iter().map(find).collect::<Result<Vec<_>>>()?;
    schema.project(&indices).map_err(|e| Error::internal(e.to_string()))
}

/// Files must have the same names, in any order.
fn same_names(label: &str, first: &Schema, here: &Part) -> Result<()> {
    let has = |schema: &Schema, name: &str| schema.fields().iter().any(|f| f.name() == name);
    let only_here = here.schema.fields().iter().find(|f| !has(first, f.name())).map(|f| format!("{:?} is only here", f.name()));
    let missing = first.fields().iter().find(|f| !has(&here.schema, f.name())).map(|f| format!("{:?} is missing", f.name()));
    match missing.into_iter().chain(only_here).reduce(|a, b| format!("{a}, {b}")) {
        None => Ok(()),
        Some(what) => Err(other_columns(label, first, here, &what)),
    }
}

fn other_columns(label: &str, first: &Schema, here: &Part, what: &str) -> Error {
    let list = |s: &Schema| s.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
    let told = format!("its columns ({}) differ from those of {label} ({}): {what}", list(&here.schema), list(first));
    Error::new(ErrorKind::Schema, told)
        .object(here.label.as_ref())
        .hint("--schemas union fills with NULL what a file lacks; --columns names those that all have; or copy them in runs of their own")
}

/// One column of two files.
fn together(before: &FieldRef, owner: &Part, here: &FieldRef, part: &Part, union: bool) -> Result<FieldRef> {
    let nullable = before.is_nullable() || here.is_nullable();
    let data_type = match (before.data_type(), here.data_type()) {
        (a, b) if a == b => a.clone(),
        (a, b) if union && widens(b, a) => a.clone(),
        (a, b) if union && widens(a, b) => b.clone(),
        (a, b) => {
            let error = Error::new(ErrorKind::Schema, format!("is {b} here, but {a} in {}", owner.label));
            let error = error.object(part.label.as_ref()).column(here.name());
            return Err(match union {
                true => error.hint("union widens whole numbers and floats only: copy these files in runs of their own"),
                false => error.hint("--schemas union widens whole numbers and floats; else copy these files in runs of their own"),
            });
        }
    };
    Ok(match *before.data_type() == data_type && before.is_nullable() == nullable {
        true => before.clone(),
        false => Arc::new(before.as_ref().clone().with_data_type(data_type).with_nullable(nullable)),
    })
}

/// Whether every value of one type is exactly one of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(
        (from, to),
        (Int8, Int16 | Int32 | Int64)
            | (Int16, Int32 | Int64)
            | (Int32, Int64)
            | (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64)
            | (UInt16, UInt32 | UInt64 | Int32 | Int64)
            | (UInt32, UInt64 | Int64)
            | (Float32, Float64)
    )
}

impl Shape {
    fn new(schema: &SchemaRef, part: &Part) -> Result<Option<Self>> {
        let mut takes = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let place = part.places.iter().find(|(name, _)| name == field.name());
            takes.push(match (part.schema.index_of(field.name()), place) {
                (Ok(index), _) if part.schema.field(index).data_type() == field.data_type() => Take::Column(index),
                (Ok(index), _) => Take::Widened(index),
                (Err(_), Some((_, Some(value)))) => Take::Text(repeated(value)),
                (Err(_), None) if field.name() == FILE_COLUMN => Take::Text(repeated(&part.label)),
                (Err(_), _) => Take::Null,
            });
        }
        let untouched = takes.iter().enumerate().all(|(at, take)| matches!(take, Take::Column(index) if *index == at));
        let same = untouched && takes.len() == part.schema.fields().len() && schema.fields() == part.schema.fields();
        Ok((!same).then(|| Self { schema: schema.clone(), takes }))
    }

    /// The rows in the columns of all files.
    ///
    /// # Errors
    /// `Internal`: the decoder emits other columns than it said.
    pub fn apply(&self, rows: Rows) -> Result<Rows> {
        let count = rows.batch.num_rows();
        let column = |(take, field): (&Take, &FieldRef)| -> ArrayRef {
            match take {
                Take::Column(index) => rows.batch.column(*index).clone(),
                Take::Widened(index) => widened(rows.batch.column(*index), field.data_type()),
                Take::Null => new_null_array(field.data_type(), count),
                Take::Text(texts) if count <= texts.len() => texts.slice(0, count),
                Take::Text(texts) => repeat(texts.as_string_view().value(0), count),
            }
        };
        let columns = self.takes.iter().zip(self.schema.fields()).map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch =
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(|e| Error::internal(e.to_string()))?;
        Ok(Rows { batch, ..rows })
    }
}

fn repeated(text: &str) -> ArrayRef {
    repeat(text, ROWS)
}

fn repeat(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

fn widened(array: &ArrayRef, to: &DataType) -> ArrayRef {
    macro_rules! each {
        ($($from:ident => $($to:ident)|+),+ $(,)?) => {
            match (array.data_type(), to) {
                $($((a, b) if *a == $from::DATA_TYPE && *b == $to::DATA_TYPE => {
                    Arc::new(array.as_primitive::<$from>().unary::<_, $to>(|v| v.into())) as ArrayRef
                })+)+
                _ => new_null_array(to, array.len()),
            }
        };
    }
    each! {
        Int8Type => Int16Type | Int32Type | Int64Type,
        Int16Type => Int32Type | Int64Type,
        Int32Type => Int64Type,
        UInt8Type => UInt16Type | UInt32Type | UInt64Type | Int16Type | Int32Type | Int64Type,
        UInt16Type => UInt32Type | UInt64Type | Int32Type | Int64Type,
        UInt32Type => UInt64Type | Int64Type,
        Float32Type => Float64Type,
    }
}

/// `day=2024-01-01/hour=7/x.parquet`: the columns that a path below its root gives. Values are decoded; Hive's word for NULL is NULL.
pub fn hive_columns(path: &str) -> Vec<(String, Option<String>)> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let decode = |text: &str| haul_model::percent_decode(text).unwrap_or_else(|_| text.to_string());
    let pairs = folders.split('/').filter_map(|folder| folder.split_once('='));
    let pairs = pairs.filter(|(name, _)| !name.is_empty());
    pairs.map(|(name, value)| (decode(name), (value != super::set::partition::NULL).then(|| decode(value)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;

    fn part(label: &str, fields: &[(&str, DataType)]) -> Part {
        let fields: Vec<Field> = fields.iter().map(|(name, t)| Field::new(*name, t.clone(), false)).collect();
        Part { label: label.into(), schema: Arc::new(Schema::new(fields)), places: Vec::new() }
    }

    fn told(parts: &[Part], union: bool) -> String {
        match unite(parts, &Wanted { union, ..Wanted::default() }) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn differences_name_both_files_and_the_column() {
        let a = || part("a", &[("id", DataType::Int32), ("x", DataType::Utf8View)]);
        assert_eq!(told(&[a(), part("b", &[("x", DataType::Utf8View), ("id", DataType::Int32)])], false), "");
        let error = told(&[a(), part("b", &[("id", DataType::Int32)])], false);
        assert!(error.contains("b") && error.contains("those of a") && error.contains("\"x\" is missing"), "{error}");
        let error = told(&[a(), part("b", &[("id", DataType::Int64), ("x", DataType::Utf8View)])], false);
        assert!(error.contains("column \"id\"") && error.contains("is Int64 here, but Int32 in a"), "{error}");
        assert_eq!(told(&[a(), part("b", &[("id", DataType::Int64), ("y", DataType::Boolean)])], true), "");
        assert!(told(&[a(), part("b", &[("id", DataType::Utf8View)])], true).contains("is Utf8View here, but Int32 in a"));
    }

    #[test]
    fn the_union_fills_and_widens() {
        let parts = [part("a", &[("n", DataType::Int32)]), part("b", &[("n", DataType::Int64), ("m", DataType::Int64)])];
        let wanted = Wanted { union: true, file_column: true, ..Wanted::default() };
        let (schema, shapes) = unite(&parts, &wanted).unwrap();
        let names: Vec<_> = schema.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone(), f.is_nullable())).collect();
        assert_eq!(names, [("n", DataType::Int64, false), ("m", DataType::Int64, true), ("_file", DataType::Utf8View, false)]);
        let batch = RecordBatch::try_new(parts[0].schema.clone(), vec![Arc::new(Int32Array::from(vec![7, -8]))]).unwrap();
        let rows = shapes[0].as_ref().unwrap().apply(Rows::new(batch, 0)).unwrap();
        assert_eq!(rows.batch.column(0).as_primitive::<Int64Type>().values(), &[7, -8]);
        assert_eq!(rows.batch.column(1).null_count(), 2);
        assert_eq!(rows.batch.column(2).as_string_view().value(1), "a");
    }

    #[test]
    fn columns_from_folders() {
        let text = |s: &str| Some(s.to_string());
        let expected = [("day".to_string(), text("2024-01-01")), ("a b".into(), text("x/y")), ("n".into(), None)];
        assert_eq!(hive_columns("day=2024-01-01/a%20b=x%2Fy/n=__HIVE_DEFAULT_PARTITION__/f=1.csv"), expected);
        assert_eq!(hive_columns("f=1.csv"), []);
    }
}
