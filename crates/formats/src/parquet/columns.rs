//! The file's types as the plan shows them.

use arrow_schema::{DataType, Schema, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetUnit};
use parquet::schema::types::Type;

/// For each column its name, its type in the file, and a remark where one is due.
pub(super) fn describe_columns(incoming: &Schema, root: &Type) -> Vec<(String, String, Option<String>)> {
    let columns = incoming.fields().iter().zip(root.get_fields());
    columns.map(|(field, parquet)| (field.name().clone(), describe_type(parquet), remark(field.data_type()))).collect()
}

fn remark(data_type: &DataType) -> Option<String> {
    let text = match data_type {
        DataType::Timestamp(TimeUnit::Second, _) | DataType::Time32(TimeUnit::Second) => "kept in milliseconds: Parquet has no seconds",
        DataType::Duration(_) | DataType::Date64 => "a plain number to readers that do not know Arrow's metadata",
        DataType::Null => "a column of NULLs without a type",
        _ => return None,
    };
    Some(text.to_string())
}

fn describe_type(parquet: &Type) -> String {
    let info = parquet.get_basic_info();
    let physical = match parquet {
        Type::PrimitiveType { physical_type, type_length, .. } if *type_length > 0 => format!("{physical_type}({type_length})"),
        Type::PrimitiveType { physical_type, .. } => physical_type.to_string(),
        Type::GroupType { .. } => "group".to_string(),
    };
    match info.logical_type_ref().map(describe_logical) {
        Some(logical) => format!("{physical} {logical}"),
        None if info.converted_type() != ConvertedType::NONE => format!("{physical} {}", info.converted_type()),
        None => physical,
    }
}

fn describe_logical(logical: &LogicalType) -> String {
    match logical {
        LogicalType::Decimal(decimal) => format!("DECIMAL({},{})", decimal.precision, decimal.scale),
        LogicalType::Timestamp(timestamp) => {
            format!("TIMESTAMP({}{})", unit(timestamp.unit), if timestamp.is_adjusted_to_u_t_c { ", UTC" } else { "" })
        }
        LogicalType::Time(time) => format!("TIME({})", unit(time.unit)),
        LogicalType::Integer(integer) => format!("{}({})", if integer.is_signed { "INT" } else { "UINT" }, integer.bit_width),
        other => format!("{other:?}").to_uppercase(),
    }
}

fn unit(unit: ParquetUnit) -> &'static str {
    match unit {
        ParquetUnit::MILLIS => "ms",
        ParquetUnit::MICROS => "us",
        ParquetUnit::NANOS => "ns",
    }
}
