//! As what two columns are compared: chosen from what was sent and what the target has, before a row moves.

use arrow_schema::{DataType, Field};
use haul_model::field_meta;

/// The canonical form of a column's values. See [the module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Canon {
    Bool,
    Int,
    Number,
    Float32,
    Float64,
    /// Bytes of a text, byte for byte.
    Text,
    /// As `Text`, without blanks at the end: one side is a `char(n)`.
    Padded,
    /// As `Text`, but a JSON string is the same as the text it stands for, and JSON's `null` the same as NULL.
    Loose,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    /// By parsed value.
    Json,
}

/// What a column is by itself. `None`: no canonical form.
fn natural(field: &Field) -> Option<Canon> {
    Some(match field.data_type() {
        DataType::Null => Canon::Text,
        DataType::Boolean => Canon::Bool,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Canon::Int,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Canon::Int,
        DataType::Float32 => Canon::Float32,
        DataType::Float64 => Canon::Float64,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => Canon::Number,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if field_meta::is_json(field) => Canon::Json,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => by_source_type(field),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Canon::Bytes,
        DataType::FixedSizeBinary(16) if field_meta::is_uuid(field) => Canon::Uuid,
        DataType::FixedSizeBinary(_) => Canon::Bytes,
        DataType::Date32 | DataType::Date64 => Canon::Date,
        DataType::Time32(_) | DataType::Time64(_) => Canon::Time,
        DataType::Timestamp(..) => Canon::Timestamp,
        DataType::Dictionary(_, values) => return natural(&field.clone().with_data_type(values.as_ref().clone())),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_) | DataType::Map(..) => Canon::Json,
        _ => return None,
    })
}

/// Text may stand for a value of another type, where its own type had no room for all values.
fn by_source_type(field: &Field) -> Canon {
    let name = field_meta::source_type(field, "postgres").unwrap_or_default();
    match name.split('(').next().unwrap_or_default() {
        _ if name.ends_with(']') => Canon::Text,
        "numeric" => Canon::Number,
        "date" => Canon::Date,
        "time" | "time without time zone" if !name.ends_with("with time zone") => Canon::Time,
        "timestamp" | "timestamp without time zone" | "timestamp with time zone" => Canon::Timestamp,
        _ => Canon::Text,
    }
}

fn is_text(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// How `sent` and what the target has `there` are compared; without a target yet, how what was sent will be. `tokens`: see
/// [`haul_model::ReadBack`]. `None`: they cannot be.
pub(crate) fn agree(sent: &Field, there: Option<&Field>, tokens: bool) -> Option<Canon> {
    let own = natural(sent)?;
    let Some(there) = there else { return Some(own) };
    if tokens {
        return Some(own);
    }
    let source_type = |field: &Field| field_meta::source_type(field, "postgres").map(str::to_string);
    if is_text(sent) && is_text(there) && source_type(sent).is_some() && source_type(sent) == source_type(there) {
        // The server's own text of the same type, on both sides.
        return Some(Canon::Text);
    }
    let padded = |field: &Field| source_type(field).is_some_and(|name| name.starts_with("character("));
    match both(own, natural(there)?)? {
        Canon::Text if padded(sent) || padded(there) => Some(Canon::Padded),
        canon => Some(canon),
    }
}

/// Whether the server may write a value in another way than it came: it is compared by the server's text, and came as a text of another kind.
pub(crate) fn is_rewritten(sent: &Field, there: &Field, canon: Canon) -> bool {
    const AS_THEY_ARE: &[&str] = &["text", "character varying", "character", "\"char\"", "name", "citext"];
    let Some(name) = field_meta::source_type(there, "postgres") else { return false };
    let plain = name.split('(').next().unwrap_or_default();
    canon == Canon::Text && field_meta::source_type(sent, "postgres") != Some(name) && !AS_THEY_ARE.contains(&plain)
}

/// How values of two canonical forms are compared.
fn both(one: Canon, other: Canon) -> Option<Canon> {
    use Canon::{Bytes, Date, Float32, Float64, Int, Json, Loose, Number, Padded, Text, Timestamp, Uuid};
    Some(match (one, other) {
        (one, other) if one == other => one,
        (Json, Text) => Loose,
        (Text, Json) => Json,
        (Padded, Text) | (Text, Padded) => Padded,
        // A text, or a JSON value, is read as what the other side has.
        (Text | Json | Loose, typed) | (typed, Text | Json | Loose) => typed,
        (Int, Number) | (Number, Int) => Number,
        (Int | Float32, Float64) | (Float64, Int | Float32) => Float64,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        (Uuid, Bytes) | (Bytes, Uuid) => Bytes,
        _ => return None,
    })
}

/// Whether a column can be hashed in this form.
pub(crate) fn readable(field: &Field, canon: Canon, tokens: bool) -> bool {
    tokens || is_text(field) || natural(field).is_some_and(|own| own == canon || both(own, canon) == Some(canon))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::TimeUnit;

    fn field(data_type: DataType) -> Field {
        Field::new("c", data_type, true)
    }

    #[test]
    fn the_side_that_knows_more_decides() {
        let text = field(DataType::Utf8View);
        let stamp = field(DataType::Timestamp(TimeUnit::Microsecond, None));
        let json = field_meta::with(field(DataType::Utf8View), field_meta::EXTENSION, field_meta::JSON);
        let numeric = field_meta::with(field(DataType::Utf8View), field_meta::SOURCE_TYPE, "postgres:numeric(15,2)");
        let agreed = |a: &Field, b: &Field| agree(a, Some(b), false);
        assert_eq!(agreed(&text, &stamp), Some(Canon::Timestamp));
        assert_eq!(agreed(&stamp, &text), Some(Canon::Timestamp));
        assert_eq!(agreed(&text, &numeric), Some(Canon::Number));
        assert_eq!(agreed(&numeric, &numeric), Some(Canon::Text), "the server's text says more than the value");
        assert_eq!(agreed(&field(DataType::Decimal128(15, 2)), &numeric), Some(Canon::Number));
        assert_eq!(agreed(&field(DataType::Int16), &field(DataType::UInt64)), Some(Canon::Int));
        assert_eq!(agreed(&field(DataType::Int16), &json), Some(Canon::Int));
        assert_eq!((agreed(&text, &json), agreed(&json, &text)), (Some(Canon::Json), Some(Canon::Loose)));
        assert_eq!(agree(&text, Some(&json), true), Some(Canon::Text), "JSON tokens of texts");
        assert_eq!(agreed(&field(DataType::Boolean), &field(DataType::Int64)), None);
        assert_eq!(agree(&stamp, None, false), Some(Canon::Timestamp));
        assert!(readable(&text, Canon::Uuid, false) && !readable(&stamp, Canon::Uuid, false));
    }
}
