//! Literals become values of their column's type.

use super::{Compare, Literal, Node, Predicate};
use crate::literal::{
    LiteralError, ParsedTimestamp, parse_bool, parse_date, parse_decimal, parse_decimal256, parse_f64, parse_i64, parse_time,
    parse_timestamp_nanos, parse_u64,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use haul_model::{Error, ErrorKind, Result, nearest};

/// A condition on the columns of one schema.
#[derive(Debug, Clone)]
pub struct Bound {
    pub(super) root: Part,
}

#[derive(Debug, Clone)]
pub(super) enum Part {
    All(Vec<Part>),
    Any(Vec<Part>),
    Compare(usize, Compare, Value),
    Null(usize, bool),
}

/// A literal in the terms of its column: what the column's values are compared with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Integers, dates, times, timestamps in the column's own unit; i128 holds u64 and decimals too.
    Whole(i128),
    /// Decimals of more than 38 digits, at the column's scale.
    Wide(i256),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl Bound {
    /// Binds `predicate` to the columns of `schema`.
    ///
    /// # Errors
    /// `NotFound` for a column, `Schema` for one that is there twice, `Unsupported` for a type that cannot be compared, `Config` for a value
    /// that the column's type does not have.
    pub fn new(predicate: &Predicate, schema: &Schema) -> Result<Self> {
        Ok(Self { root: bind(&predicate.root, schema)? })
    }
}

fn bind(node: &Node, schema: &Schema) -> Result<Part> {
    let all = |nodes: &[Node]| nodes.iter().map(|node| bind(node, schema)).collect::<Result<Vec<_>>>();
    Ok(match node {
        Node::All(nodes) => Part::All(all(nodes)?),
        Node::Any(nodes) => Part::Any(all(nodes)?),
        Node::Null(column, is) => Part::Null(find(column, schema)?, *is),
        Node::Compare(column, compare, literal) => {
            let index = find(column, schema)?;
            Part::Compare(index, *compare, value(literal, schema.field(index))?)
        }
    })
}

fn find(name: &str, schema: &Schema) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Error::new(ErrorKind::Schema, "the file has several columns of this name").column(name)),
        (None, _) => {
            let error = Error::new(ErrorKind::NotFound, "no such column").column(name);
            Err(match nearest(name, schema.fields().iter().map(|field| field.name().as_str())) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error,
            })
        }
    }
}

fn value(literal: &Literal, field: &Field) -> Result<Value> {
    let data_type = field.data_type();
    let (text, kind) = match literal {
        Literal::Number(text) => (text.as_str(), "the number"),
        Literal::Text(text) => (text.as_str(), "the text"),
        Literal::Bool(value) => (if *value { "true" } else { "false" }, "the word"),
    };
    let refused = |why: &str| {
        Error::new(ErrorKind::Config, format!("{kind} {text:?} is no value of the type {data_type}: {why}")).column(field.name())
    };
    let told = |error: LiteralError| refused(&error.to_string());
    let bytes = text.as_bytes();
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match literal {
            Literal::Text(text) => Ok(Value::Text(text.clone())),
            _ => Err(refused("the column holds text").hint("put the value in single quotes")),
        },
        DataType::Boolean => Ok(Value::Bool(parse_bool(bytes).map_err(told)?)),
        _ if matches!(literal, Literal::Bool(_)) => Err(refused("the column is no boolean")),
        DataType::UInt64 => Ok(Value::Whole(parse_u64(bytes).map_err(told)?.into())),
        DataType::Int8 => whole(bytes, i8::MIN.into(), i8::MAX.into()).map_err(told),
        DataType::Int16 => whole(bytes, i16::MIN.into(), i16::MAX.into()).map_err(told),
        DataType::Int32 => whole(bytes, i32::MIN.into(), i32::MAX.into()).map_err(told),
        DataType::Int64 => whole(bytes, i64::MIN, i64::MAX).map_err(told),
        DataType::UInt8 => whole(bytes, 0, u8::MAX.into()).map_err(told),
        DataType::UInt16 => whole(bytes, 0, u16::MAX.into()).map_err(told),
        DataType::UInt32 => whole(bytes, 0, u32::MAX.into()).map_err(told),
        DataType::Float32 | DataType::Float64 => match parse_f64(bytes).map_err(told)? {
            value if value.is_nan() => Err(refused("NaN cannot be compared with")),
            value => Ok(Value::Float(value)),
        },
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale) => {
            Ok(Value::Whole(parse_decimal(bytes, *precision, *scale).map_err(told)?))
        }
        DataType::Decimal256(precision, scale) => Ok(Value::Wide(parse_decimal256(bytes, *precision, *scale).map_err(told)?)),
        DataType::Date32 => Ok(Value::Whole(parse_date(bytes).map_err(told)?.into())),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            in_unit(parse_time(bytes).map_err(told)?, 0, *unit).ok_or_else(|| told(LiteralError::TooPrecise))
        }
        DataType::Timestamp(unit, zone) => {
            let ParsedTimestamp { micros, nanos, offset_seconds, .. } = parse_timestamp_nanos(bytes).map_err(told)?;
            if zone.is_none() && offset_seconds.is_some() {
                return Err(refused("the column has no time zone"));
            }
            in_unit(micros, nanos, *unit).ok_or_else(|| told(LiteralError::TooPrecise))
        }
        other => Err(Error::new(ErrorKind::Unsupported, format!("a column of the type {other} cannot be compared")).column(field.name())),
    }
}

fn whole(text: &[u8], least: i64, most: i64) -> Result<Value, LiteralError> {
    match parse_i64(text)? {
        value if (least..=most).contains(&value) => Ok(Value::Whole(value.into())),
        _ => Err(LiteralError::OutOfRange),
    }
}

/// Microseconds (and nanoseconds beyond them) in another unit, if that is exact.
fn in_unit(micros: i64, nanos: u16, unit: TimeUnit) -> Option<Value> {
    let all = i128::from(micros) * 1_000 + i128::from(nanos);
    let step = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    (all % step == 0).then(|| Value::Whole(all / step))
}
