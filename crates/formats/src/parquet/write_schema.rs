//! From Haul's columns to the types of a Parquet file.

use crate::arrow_ipc::plain::plain_field;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use haul_model::{Error, ErrorKind, Result, field_meta};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::LogicalType;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The columns of a file to be written.
pub(super) struct WriteSchema {
    /// As Arrow: plain strings and bytes, no seconds.
    pub arrow: Schema,
    /// As Parquet.
    pub root: TypePtr,
}

/// Decides the file's types for `incoming` columns.
///
/// # Errors
/// `Schema`, naming a column that Parquet cannot hold.
pub(super) fn write_schema(incoming: &Schema) -> Result<WriteSchema> {
    let fields = incoming.fields().iter().map(|field| file_field(field).map_err(|error| error.column(field.name())));
    let arrow = Schema::new_with_metadata(fields.collect::<Result<Vec<Field>>>()?, incoming.metadata().clone());
    let converted = ArrowSchemaConverter::new().convert(&arrow).map_err(|error| {
        let text = error.to_string();
        let text = text.split_once(": ").map_or(text.as_str(), |(_, detail)| detail);
        Error::new(ErrorKind::Schema, format!("Parquet cannot hold these columns: {text}"))
    })?;
    let root = annotate(converted.root_schema(), arrow.fields().iter().map(Arc::as_ref))?;
    Ok(WriteSchema { arrow, root })
}

/// The field as it is in the file.
fn file_field(field: &Field) -> Result<Field> {
    check(field.data_type())?;
    let field = plain_field(field);
    Ok(match field.data_type() {
        // Parquet has no seconds.
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let zone = zone.clone();
            field.with_data_type(DataType::Timestamp(TimeUnit::Millisecond, zone))
        }
        DataType::Time32(TimeUnit::Second) => field.with_data_type(DataType::Time32(TimeUnit::Millisecond)),
        _ => standard_names(field),
    })
}

/// Names inside lists and maps as the Parquet specification has them.
fn standard_names(field: Field) -> Field {
    let renamed = |child: &Field, name: &str| Arc::new(standard_names(child.clone().with_name(name)));
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(renamed(item, "element")),
        DataType::LargeList(item) => DataType::LargeList(renamed(item, "element")),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(renamed(item, "element"), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| standard_names(field.as_ref().clone())).collect()),
        DataType::Map(entries, sorted) => {
            let entries = match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let pair = vec![renamed(&pair[0], "key"), renamed(&pair[1], "value")];
                    entries.as_ref().clone().with_name("key_value").with_data_type(DataType::Struct(pair.into()))
                }
                _ => entries.as_ref().clone(),
            };
            DataType::Map(Arc::new(entries), *sorted)
        }
        _ => return field,
    };
    field.with_data_type(data_type)
}

/// Refuses what Parquet, or the library, cannot hold exactly.
fn check(data_type: &DataType) -> Result<()> {
    let refuse = |what: &str, hint: &str| Err(Error::new(ErrorKind::Schema, format!("Parquet cannot hold {what}")).hint(hint));
    match data_type {
        DataType::Interval(_) => {
            refuse("intervals exactly: its own are unsigned and end at milliseconds", "cast the column to text: --cast COLUMN:text")
        }
        DataType::Union(..) => refuse("a column of several types", "cast the column to JSON or text"),
        DataType::RunEndEncoded(..) => refuse("run-end encoded columns", "write it with its plain type"),
        DataType::ListView(_) | DataType::LargeListView(_) => refuse("list views", "write it as a list"),
        DataType::Struct(fields) if fields.is_empty() => refuse("a group without fields", "leave the column out"),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)
            if *scale < 0 =>
        {
            refuse("decimals with a negative scale", "cast the column to a decimal of scale 0")
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::Map(item, _) => {
            check(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().try_for_each(|field| check(field.data_type())),
        DataType::Dictionary(_, value) => check(value),
        DataType::Timestamp(..) | DataType::Time32(_) => Ok(()),
        _ => Ok(()),
    }
}

/// The same type with the logical types UUID and JSON where the Arrow field says so.
fn annotate<'a>(group: &Type, fields: impl Iterator<Item = &'a Field>) -> Result<TypePtr> {
    let children = group.get_fields().iter().zip(fields).map(|(child, field)| annotate_field(child, field));
    rebuild_group(group, children.collect::<Result<_>>()?)
}

fn annotate_field(parquet: &TypePtr, field: &Field) -> Result<TypePtr> {
    let logical = match field.data_type() {
        DataType::FixedSizeBinary(16) if field_meta::is_uuid(field) => Some(LogicalType::Uuid),
        DataType::Utf8 | DataType::LargeUtf8 if field_meta::is_json(field) => Some(LogicalType::Json),
        DataType::Struct(children) => return annotate(parquet, children.iter().map(Arc::as_ref)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let [list] = parquet.get_fields() else { return Ok(parquet.clone()) };
            let list = annotate(list, std::iter::once(item.as_ref()))?;
            return rebuild_group(parquet, vec![list]);
        }
        DataType::Map(entries, _) => {
            let [pairs] = parquet.get_fields() else { return Ok(parquet.clone()) };
            return rebuild_group(parquet, vec![annotate_field(pairs, entries)?]);
        }
        _ => None,
    };
    match (logical, parquet.as_ref()) {
        (Some(logical), Type::PrimitiveType { basic_info, physical_type, type_length, .. }) => {
            let id = basic_info.has_id().then(|| basic_info.id());
            let built = Type::primitive_type_builder(basic_info.name(), *physical_type)
                .with_repetition(basic_info.repetition())
                .with_length(*type_length)
                .with_logical_type(Some(logical))
                .with_id(id)
                .build();
            built.map(Arc::new).map_err(|error| Error::internal(error.to_string()))
        }
        _ => Ok(parquet.clone()),
    }
}

fn rebuild_group(group: &Type, children: Vec<TypePtr>) -> Result<TypePtr> {
    let info = group.get_basic_info();
    let mut builder = Type::group_type_builder(info.name())
        .with_fields(children)
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()));
    if info.has_repetition() {
        builder = builder.with_repetition(info.repetition());
    }
    builder.build().map(Arc::new).map_err(|error| Error::internal(error.to_string()))
}
