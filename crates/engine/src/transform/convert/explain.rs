//! What to say about a value that does not fit: the value, its kind, and the flag that would take it.

use crate::transform::type_names::TypeName;
use arrow_schema::TimeUnit;
use haul_formats::jsonl::json::JsonError;
use haul_formats::literal::{LiteralError, describe_value_kind, parse_decimal, parse_f64, parse_i64, parse_timestamp_nanos};
use haul_model::{Error, ErrorKind};

/// Who asked for the type, so that the hint names the place where it can be widened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// `--cast`.
    Cast,
    /// `--infer`: the sample suggested it.
    Sample,
    /// `--json-schema`.
    Schema,
    /// The column of the target table.
    Target,
}

/// Why a value does not become one of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not written as one, too large, or finer than the type.
    Literal(LiteralError),
    /// It has a zone, the type has none.
    Zone,
    /// `24:00:00`.
    EndOfDay,
    /// A timestamp with a time of day for a date.
    NotMidnight,
    /// More characters than `varchar(n)` takes.
    TooLong,
    /// Not a JSON document.
    NotJson(JsonError),
    /// A number, but not as JSON writes numbers.
    NotJsonNumber,
    /// A JSON string with half a surrogate pair, which no text can hold.
    LoneSurrogate,
}

impl From<LiteralError> for Why {
    fn from(error: LiteralError) -> Self {
        Self::Literal(error)
    }
}

/// The most characters of a value that a message repeats.
const SHOWN: usize = 40;

/// The value in double quotes, cut where it is long.
pub(crate) fn shown(value: &str) -> String {
    let mut chars = value.chars();
    let head: String = chars.by_ref().take(SHOWN).collect();
    if chars.next().is_some() { format!("{:?}", head + "…") } else { format!("{head:?}") }
}

/// The error for `value` of `column`, which was to become `to`.
pub(crate) fn explain(column: &str, value: &str, to: TypeName, why: Why, asked: AskedBy) -> Error {
    let kind = match why {
        Why::NotMidnight | Why::Literal(LiteralError::TooPrecise) => ErrorKind::Lossy,
        _ => ErrorKind::Data,
    };
    Error::new(kind, detail(value, to, why)).column(column).hint(hint(column, value, to, why, asked))
}

fn detail(value: &str, to: TypeName, why: Why) -> String {
    let (text, noun) = (shown(value), to.noun());
    match why {
        Why::Literal(LiteralError::Malformed) if value.is_empty() => format!("an empty string is not {noun}"),
        Why::Literal(LiteralError::Malformed) => format!("{text} is {}, not {noun}", describe_value_kind(value.as_bytes())),
        Why::Literal(LiteralError::OutOfRange) => match (range(to), to) {
            (Some((least, most)), _) => format!("{text} does not fit {to} ({least} to {most})"),
            (None, TypeName::Decimal { precision, scale }) => {
                format!("{text} does not fit {to} ({} digits before the point)", precision - scale)
            }
            _ => format!("{text} does not fit {to}"),
        },
        Why::Literal(LiteralError::TooPrecise) => match to {
            TypeName::Decimal { scale, .. } => format!("{text} has more than {scale} digits behind the point: {to} would round it"),
            TypeName::Float32 | TypeName::Float64 => format!("{text} has more digits than {to} holds"),
            _ => format!("{text} is finer than {}: {to} would cut it", unit_name(to)),
        },
        Why::Zone => format!("{text} has a zone, {to} has none"),
        Why::EndOfDay => format!("{text} is the end of the day, which {to} cannot hold"),
        Why::NotMidnight => format!("{text} has a time of day, which {to} would cut"),
        Why::TooLong => format!("{text} has {} characters, {to} takes fewer", value.chars().count()),
        Why::NotJson(_) if value.is_empty() => "an empty string is not JSON".to_string(),
        Why::NotJson(error) => format!("{text} is not JSON: {error}"),
        Why::NotJsonNumber => format!("{text} is {}, but not as JSON writes numbers", describe_value_kind(value.as_bytes())),
        Why::LoneSurrogate => format!("{text} has half of a surrogate pair, which is no character"),
    }
}

fn hint(column: &str, value: &str, to: TypeName, why: Why, asked: AskedBy) -> String {
    if to == TypeName::Binary {
        return "bytes are written as \\x and two hex digits for each".to_string();
    }
    let wider = wider(value, to, why);
    let fits = if matches!(wider, TypeName::Text { .. }) { "keeps it as it is" } else { "holds it" };
    let flag = format!("--cast {}", flag_cast(column, wider));
    match asked {
        AskedBy::Cast => format!("{flag} {fits}"),
        AskedBy::Sample => format!("the sample looked like {to}; {flag} {fits}"),
        AskedBy::Schema => match wider {
            TypeName::Text { .. } => "type \"string\" in the JSON Schema keeps it as it is".to_string(),
            _ => "type \"number\" in the JSON Schema keeps every digit".to_string(),
        },
        AskedBy::Target => format!("the target's column is {to}; a column of type {wider} {fits}"),
    }
}

/// The narrowest type that takes the values of `to` and this one.
fn wider(value: &str, to: TypeName, why: Why) -> TypeName {
    use TypeName::{Date, Decimal, Float32, Float64, Int8, Int16, Int32, Int64, Numeric, Timestamp, UInt8, UInt16, UInt32, UInt64};
    let bytes = value.as_bytes();
    let is_number = || !matches!(parse_decimal(bytes, 38, 19), Err(LiteralError::Malformed)) || parse_f64(bytes).is_ok();
    match to {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 if parse_i64(bytes).is_ok() => Int64,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Decimal { .. } | Float64 if is_number() => Numeric,
        Float32 if is_number() && parse_f64(bytes).is_ok_and(f64::is_finite) && why == Why::Literal(LiteralError::OutOfRange) => Float64,
        Float32 if is_number() => Numeric,
        Date | Timestamp { .. } => match parse_timestamp_nanos(bytes) {
            Ok(t) if t.has_time => {
                let zoned = t.offset_seconds.is_some() || matches!(to, Timestamp { zoned: true, .. });
                let unit = if t.nanos == 0 { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
                let wider = Timestamp { unit, zoned };
                if wider == to { TypeName::TEXT } else { wider }
            }
            _ => TypeName::TEXT,
        },
        _ => TypeName::TEXT,
    }
}

/// The column's name as the flags take it: in double quotes where it needs them.
pub(crate) fn flag_name(column: &str) -> String {
    if column.contains([',', ':', '=', '"', ' ', '(', ')', '[', ']']) || column.is_empty() {
        format!("\"{}\"", column.replace('"', "\"\""))
    } else {
        column.to_string()
    }
}

/// A cast as a shell takes it.
fn flag_cast(column: &str, to: TypeName) -> String {
    let cast = format!("{}:{to}", flag_name(column));
    if cast.contains([' ', '"', '(']) { format!("'{cast}'") } else { cast }
}

fn range(to: TypeName) -> Option<(i128, i128)> {
    Some(match to {
        TypeName::Int8 => (i8::MIN.into(), i8::MAX.into()),
        TypeName::Int16 => (i16::MIN.into(), i16::MAX.into()),
        TypeName::Int32 => (i32::MIN.into(), i32::MAX.into()),
        TypeName::Int64 => (i64::MIN.into(), i64::MAX.into()),
        TypeName::UInt8 => (0, u8::MAX.into()),
        TypeName::UInt16 => (0, u16::MAX.into()),
        TypeName::UInt32 => (0, u32::MAX.into()),
        TypeName::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn unit_name(to: TypeName) -> &'static str {
    match to {
        TypeName::Timestamp { unit: TimeUnit::Second, .. } => "seconds",
        TypeName::Timestamp { unit: TimeUnit::Millisecond, .. } => "milliseconds",
        TypeName::Timestamp { unit: TimeUnit::Nanosecond, .. } => "nanoseconds",
        _ => "microseconds",
    }
}
