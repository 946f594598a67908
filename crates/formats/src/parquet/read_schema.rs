//! From the types of a Parquet file to the columns that Haul reads it as.

use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use haul_model::{Error, ErrorKind, Result, field_meta};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// How some columns are to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadTypes {
    /// Unit of INT96 timestamps.
    pub int96: TimeUnit,
    /// Byte columns without a type hold text.
    pub binary_as_text: bool,
}

/// The schemas of one file.
pub(super) struct ReadSchema {
    /// What the library decodes to.
    pub decoded: SchemaRef,
    /// The same with the columns of `twins` in their second type.
    pub second: SchemaRef,
    /// Columns that must be decoded in two types to be exact (INT96, INTERVAL).
    pub twins: Vec<usize>,
    /// What Haul emits.
    pub emitted: SchemaRef,
}

/// A column in its three roles.
struct Roles {
    decoded: Field,
    second: Field,
    emitted: Field,
    twin: bool,
}

impl Roles {
    fn map(self, change: impl Fn(Field) -> Field) -> Self {
        Self { decoded: change(self.decoded), second: change(self.second), emitted: change(self.emitted), twin: self.twin }
    }
}

/// Decides how the columns of a file are read. `library` is the schema that the library would choose.
pub(super) fn read_schema(library: &Schema, file: &SchemaDescriptor, types: ReadTypes) -> Result<ReadSchema> {
    let mut walk = Walk { file, next: 0, types };
    let mut roles = Vec::with_capacity(library.fields().len());
    for field in library.fields() {
        let mut role = walk.field(field, 0)?;
        if matches!(role.emitted.data_type(), DataType::Interval(_)) {
            role.emitted = role.emitted.with_data_type(DataType::Interval(IntervalUnit::MonthDayNano));
        }
        roles.push(role);
    }
    let schema = |field: fn(&Roles) -> &Field| {
        let fields: Vec<Field> = roles.iter().map(|roles| field(roles).clone()).collect();
        Arc::new(Schema::new_with_metadata(fields, library.metadata().clone()))
    };
    Ok(ReadSchema {
        decoded: schema(|r| &r.decoded),
        second: schema(|r| &r.second),
        emitted: schema(|r| &r.emitted),
        twins: roles.iter().enumerate().filter(|(_, roles)| roles.twin).map(|(index, _)| index).collect(),
    })
}

/// Walks Arrow fields and Parquet leaves side by side: both count leaves depth first.
struct Walk<'a> {
    file: &'a SchemaDescriptor,
    next: usize,
    types: ReadTypes,
}

impl Walk<'_> {
    fn field(&mut self, field: &Field, depth: usize) -> Result<Roles> {
        match field.data_type() {
            DataType::List(item) => self.wrapped(field, item, depth, DataType::List),
            DataType::LargeList(item) => self.wrapped(field, item, depth, DataType::LargeList),
            DataType::FixedSizeList(item, size) => self.wrapped(field, item, depth, |item| DataType::FixedSizeList(item, *size)),
            DataType::Map(entries, sorted) => self.wrapped(field, entries, depth, |entries| DataType::Map(entries, *sorted)),
            DataType::Struct(children) => {
                let children = children.iter().map(|child| self.field(child, depth + 1)).collect::<Result<Vec<_>>>()?;
                let with = |role: fn(&Roles) -> &Field| {
                    let fields: Fields = children.iter().map(|child| role(child).clone()).collect();
                    field.clone().with_data_type(DataType::Struct(fields))
                };
                Ok(Roles {
                    decoded: with(|r| &r.decoded),
                    second: with(|r| &r.second),
                    emitted: with(|r| &r.emitted),
                    twin: children.iter().any(|child| child.twin),
                })
            }
            DataType::Dictionary(_, value) => self.field(&field.clone().with_data_type(value.as_ref().clone()), depth),
            _ => self.leaf(field, depth),
        }
    }

    fn wrapped(&mut self, field: &Field, item: &Field, depth: usize, wrap: impl Fn(Arc<Field>) -> DataType) -> Result<Roles> {
        let inner = self.field(item, depth + 1)?;
        Ok(inner.map(|item| field.clone().with_data_type(wrap(Arc::new(item)))))
    }

    fn leaf(&mut self, field: &Field, depth: usize) -> Result<Roles> {
        if self.next >= self.file.num_columns() {
            return Err(Error::new(ErrorKind::Data, "the file's Arrow schema has more columns than the file").column(field.name()));
        }
        let column = self.file.column(self.next);
        self.next += 1;
        let decoded = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary if self.types.binary_as_text && column.logical_type_ref().is_none() => {
                DataType::Utf8View
            }
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            DataType::Timestamp(_, zone) if column.physical_type() == Physical::INT96 => {
                DataType::Timestamp(self.types.int96, zone.clone())
            }
            other => other.clone(),
        };
        let second = match &decoded {
            DataType::Timestamp(unit, zone) if column.physical_type() == Physical::INT96 => {
                let other = if *unit == TimeUnit::Microsecond { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
                DataType::Timestamp(other, zone.clone())
            }
            DataType::Interval(_) if column.converted_type() == ConvertedType::INTERVAL => DataType::Interval(IntervalUnit::YearMonth),
            _ => decoded.clone(),
        };
        let decoded = match decoded {
            DataType::Interval(_) if depth > 0 => {
                return Err(Error::new(ErrorKind::Unsupported, "a Parquet INTERVAL inside a list or group").column(field.name()));
            }
            DataType::Interval(_) => DataType::Interval(IntervalUnit::DayTime),
            other => other,
        };
        let twin = decoded != second;
        let emitted = annotate(field.clone().with_data_type(decoded.clone()), column.logical_type_ref());
        let role = |data_type| field.clone().with_data_type(data_type);
        Ok(Roles { decoded: role(decoded), second: role(second), emitted, twin })
    }
}

/// Parquet's logical types that Arrow knows as extension types.
fn annotate(field: Field, logical: Option<&LogicalType>) -> Field {
    match (logical, field.data_type()) {
        _ if field.metadata().contains_key(field_meta::EXTENSION) => field,
        (Some(LogicalType::Uuid), DataType::FixedSizeBinary(16)) => field_meta::with(field, field_meta::EXTENSION, field_meta::UUID),
        (Some(LogicalType::Json), DataType::Utf8View) => field_meta::with(field, field_meta::EXTENSION, field_meta::JSON),
        _ => field,
    }
}
