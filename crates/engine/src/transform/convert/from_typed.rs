//! Numbers to numbers and times to times, exactly. Whatever is not listed here goes through text, if at all.

use super::explain::Why;
use crate::transform::type_names::TypeName;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use haul_formats::literal::LiteralError;
use haul_model::{Error, Result};
use std::sync::Arc;

type Fail<'a> = &'a mut dyn FnMut(usize, Why);

/// A way from one typed column to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Integers and decimals, as integers of a power of ten.
    Exact,
    /// A float to an integer, where it is one.
    FloatToInteger,
    /// Float to float.
    Floats,
    /// Dates and timestamps, as a count of the finer unit.
    Instants,
    /// Times of day.
    Times,
    /// By way of the text that the value prints as.
    Text,
}

/// The way from `from` to `to`; `None` = there is none.
pub(super) fn way(from: &DataType, to: TypeName) -> Option<Way> {
    let integer_like = from.is_integer() || matches!(from, DataType::Decimal128(..));
    let to_exact = is_integer(to) || matches!(to, TypeName::Decimal { .. });
    let floating = matches!(from, DataType::Float32 | DataType::Float64);
    Some(match to {
        _ if !super::to_text::prints(from) => return None,
        _ if integer_like && to_exact => Way::Exact,
        _ if floating && is_integer(to) => Way::FloatToInteger,
        TypeName::Float32 | TypeName::Float64 if floating => Way::Floats,
        // Through the shortest text: no decimal through a float, no float through its binary expansion.
        TypeName::Float32 | TypeName::Float64 | TypeName::Decimal { .. } | TypeName::Numeric if from.is_numeric() => Way::Text,
        _ if is_integer(to) && from.is_numeric() => Way::Text,
        TypeName::Date | TypeName::Timestamp { .. } if matches!(from, DataType::Date32 | DataType::Timestamp(..)) => Way::Instants,
        TypeName::Time if matches!(from, DataType::Time32(_) | DataType::Time64(_)) => Way::Times,
        TypeName::Text { .. } => Way::Text,
        TypeName::Json { .. } if from.is_numeric() || *from == DataType::Boolean => Way::Text,
        TypeName::Boolean if *from == DataType::Boolean => Way::Text,
        TypeName::Binary if matches!(from, DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => Way::Text,
        _ => return None,
    })
}

fn is_integer(to: TypeName) -> bool {
    use TypeName::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(to, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
}

/// Converts `input` along `way`. Rows for which `fail` was called hold a value without meaning.
///
/// # Errors
/// `Internal`: not a way from this type.
pub(super) fn from_typed(input: &ArrayRef, way: Way, to: TypeName, fail: Fail<'_>) -> Result<ArrayRef> {
    let nulls = input.logical_nulls();
    match way {
        Way::Exact => {
            let (values, scale) = mantissas(input)?;
            from_mantissas(&values, scale, to, nulls, fail)
        }
        Way::FloatToInteger => {
            let values = doubles(input)?;
            let whole = |v: f64| {
                // Beyond 2^100 no integer type reaches, and the cast to i128 is exact below.
                if v.fract() == 0.0 && v.abs() < 1e30 { Ok(v as i128) } else { Err(not_whole(v)) }
            };
            let mut wide = Vec::with_capacity(values.len());
            for (row, value) in values.into_iter().enumerate() {
                wide.push(if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                    0
                } else {
                    whole(value).unwrap_or_else(|why| {
                        fail(row, why);
                        0
                    })
                });
            }
            from_mantissas(&wide, 0, to, nulls, fail)
        }
        Way::Floats => floats(input, to, nulls, fail),
        Way::Instants => instants(input, to, nulls, fail),
        Way::Times => times(input, nulls, fail),
        Way::Text => Err(Error::internal("a cast by way of text took another way")),
    }
}

fn not_whole(value: f64) -> Why {
    Why::Literal(if value.is_finite() && value.fract() != 0.0 { LiteralError::Malformed } else { LiteralError::OutOfRange })
}

/// The values as integers of `10^-scale`.
fn mantissas(input: &ArrayRef) -> Result<(Vec<i128>, i8)> {
    fn wide<T: ArrowPrimitiveType>(input: &ArrayRef) -> Vec<i128>
    where
        T::Native: Into<i128>,
    {
        input.as_primitive::<T>().values().iter().map(|v| (*v).into()).collect()
    }
    Ok(match input.data_type() {
        DataType::Int8 => (wide::<Int8Type>(input), 0),
        DataType::Int16 => (wide::<Int16Type>(input), 0),
        DataType::Int32 => (wide::<Int32Type>(input), 0),
        DataType::Int64 => (wide::<Int64Type>(input), 0),
        DataType::UInt8 => (wide::<UInt8Type>(input), 0),
        DataType::UInt16 => (wide::<UInt16Type>(input), 0),
        DataType::UInt32 => (wide::<UInt32Type>(input), 0),
        DataType::UInt64 => (wide::<UInt64Type>(input), 0),
        DataType::Decimal128(_, scale) => (wide::<Decimal128Type>(input), *scale),
        other => return Err(Error::internal(format!("{other} is no integer"))),
    })
}

/// `values * 10^-scale` as `to`.
fn from_mantissas(values: &[i128], scale: i8, to: TypeName, nulls: Option<NullBuffer>, fail: Fail<'_>) -> Result<ArrayRef> {
    fn narrow<T: ArrowPrimitiveType>(values: &[i128], scale: i8, nulls: Option<NullBuffer>, fail: Fail<'_>) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let one = |v: i128| {
            let whole = rescale(v, scale, 0).map_err(|e| if e == LiteralError::TooPrecise { LiteralError::Malformed } else { e })?;
            T::Native::try_from(whole).map_err(|_| LiteralError::OutOfRange)
        };
        Arc::new(map::<T>(values, nulls, |v| Ok(one(v)?), fail))
    }
    Ok(match to {
        TypeName::Int8 => narrow::<Int8Type>(values, scale, nulls, fail),
        TypeName::Int16 => narrow::<Int16Type>(values, scale, nulls, fail),
        TypeName::Int32 => narrow::<Int32Type>(values, scale, nulls, fail),
        TypeName::Int64 => narrow::<Int64Type>(values, scale, nulls, fail),
        TypeName::UInt8 => narrow::<UInt8Type>(values, scale, nulls, fail),
        TypeName::UInt16 => narrow::<UInt16Type>(values, scale, nulls, fail),
        TypeName::UInt32 => narrow::<UInt32Type>(values, scale, nulls, fail),
        TypeName::UInt64 => narrow::<UInt64Type>(values, scale, nulls, fail),
        TypeName::Decimal { precision, scale: digits } => {
            let limit = 10i128.pow(u32::from(precision));
            let one = |v: i128| {
                let value = rescale(v, scale, digits as i8)?;
                if value.abs() < limit { Ok(value) } else { Err(LiteralError::OutOfRange.into()) }
            };
            let array = map::<Decimal128Type>(values, nulls, one, fail).with_precision_and_scale(precision, digits as i8);
            Arc::new(array.map_err(|e| Error::internal("a decimal's precision").caused_by(e))?)
        }
        _ => return Err(Error::internal(format!("{to} is no integer or decimal"))),
    })
}

/// The same number at another scale, never rounded.
fn rescale(value: i128, from: i8, to: i8) -> Result<i128, LiteralError> {
    let power = |n: i16| 10i128.checked_pow(n as u32);
    let shift = i16::from(to) - i16::from(from);
    if shift >= 0 {
        return match power(shift) {
            _ if value == 0 => Ok(0),
            Some(p) => value.checked_mul(p).ok_or(LiteralError::OutOfRange),
            None => Err(LiteralError::OutOfRange),
        };
    }
    match power(-shift) {
        Some(p) if value % p == 0 => Ok(value / p),
        None if value == 0 => Ok(0),
        _ => Err(LiteralError::TooPrecise),
    }
}

fn map<T: ArrowPrimitiveType>(
    values: &[impl Copy + Into<i128>],
    nulls: Option<NullBuffer>,
    one: impl Fn(i128) -> Result<T::Native, Why>,
    fail: Fail<'_>,
) -> PrimitiveArray<T> {
    let mut out = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        out.push(one((*value).into()).unwrap_or_else(|why| {
            // What stands under a NULL is nobody's business.
            if nulls.as_ref().is_none_or(|n| n.is_valid(row)) {
                fail(row, why);
            }
            T::Native::default()
        }));
    }
    PrimitiveArray::new(out.into(), nulls)
}

fn doubles(input: &ArrayRef) -> Result<Vec<f64>> {
    match input.data_type() {
        DataType::Float32 => Ok(input.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)).collect()),
        DataType::Float64 => Ok(input.as_primitive::<Float64Type>().values().to_vec()),
        other => Err(Error::internal(format!("{other} is no float"))),
    }
}

fn floats(input: &ArrayRef, to: TypeName, nulls: Option<NullBuffer>, fail: Fail<'_>) -> Result<ArrayRef> {
    let values = doubles(input)?;
    if to == TypeName::Float64 {
        return Ok(Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)));
    }
    for (row, value) in values.iter().enumerate() {
        let same = f64::from(*value as f32) == *value || value.is_nan();
        if !same && nulls.as_ref().is_none_or(|n| n.is_valid(row)) {
            let why = if (*value as f32).is_finite() { LiteralError::TooPrecise } else { LiteralError::OutOfRange };
            fail(row, why.into());
        }
    }
    let single: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
    Ok(Arc::new(PrimitiveArray::<Float32Type>::new(single.into(), nulls)))
}

/// Units of a resolution in a day.
fn per_day(unit: TimeUnit) -> i128 {
    86_400
        * match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        }
}

/// Dates count as midnights; a timestamp without zone becomes an instant, and back, as its reading in UTC.
fn instants(input: &ArrayRef, to: TypeName, nulls: Option<NullBuffer>, fail: Fail<'_>) -> Result<ArrayRef> {
    let (values, from_day): (Vec<i64>, i128) = match input.data_type() {
        DataType::Date32 => (input.as_primitive::<Date32Type>().values().iter().map(|v| i64::from(*v)).collect(), 1),
        DataType::Timestamp(unit, _) => {
            let values = match unit {
                TimeUnit::Second => input.as_primitive::<TimestampSecondType>().values().to_vec(),
                TimeUnit::Millisecond => input.as_primitive::<TimestampMillisecondType>().values().to_vec(),
                TimeUnit::Microsecond => input.as_primitive::<TimestampMicrosecondType>().values().to_vec(),
                TimeUnit::Nanosecond => input.as_primitive::<TimestampNanosecondType>().values().to_vec(),
            };
            (values, per_day(*unit))
        }
        other => return Err(Error::internal(format!("{other} is no date or timestamp"))),
    };
    let to_day = if let TypeName::Timestamp { unit, .. } = to { per_day(unit) } else { 1 };
    let finer = if to == TypeName::Date { Why::NotMidnight } else { LiteralError::TooPrecise.into() };
    let one = |v: i128| if (v * to_day) % from_day == 0 { Ok(v * to_day / from_day) } else { Err(finer) };
    fn narrow<T: ArrowPrimitiveType>(
        values: &[i64],
        nulls: Option<NullBuffer>,
        one: impl Fn(i128) -> Result<i128, Why>,
        fail: Fail<'_>,
    ) -> PrimitiveArray<T>
    where
        T::Native: TryFrom<i128>,
    {
        map::<T>(values, nulls, |v| T::Native::try_from(one(v)?).map_err(|_| LiteralError::OutOfRange.into()), fail)
    }
    let zone = matches!(to, TypeName::Timestamp { zoned: true, .. }).then_some("UTC");
    Ok(match to {
        TypeName::Timestamp { unit: TimeUnit::Second, .. } => {
            Arc::new(narrow::<TimestampSecondType>(&values, nulls, one, fail).with_timezone_opt(zone))
        }
        TypeName::Timestamp { unit: TimeUnit::Millisecond, .. } => {
            Arc::new(narrow::<TimestampMillisecondType>(&values, nulls, one, fail).with_timezone_opt(zone))
        }
        TypeName::Timestamp { unit: TimeUnit::Microsecond, .. } => {
            Arc::new(narrow::<TimestampMicrosecondType>(&values, nulls, one, fail).with_timezone_opt(zone))
        }
        TypeName::Timestamp { unit: TimeUnit::Nanosecond, .. } => {
            Arc::new(narrow::<TimestampNanosecondType>(&values, nulls, one, fail).with_timezone_opt(zone))
        }
        _ => Arc::new(narrow::<Date32Type>(&values, nulls, one, fail)),
    })
}

fn times(input: &ArrayRef, nulls: Option<NullBuffer>, fail: Fail<'_>) -> Result<ArrayRef> {
    use arrow_array::types::{Time32MillisecondType, Time32SecondType, Time64NanosecondType};
    let (values, unit): (Vec<i64>, _) = match input.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            (input.as_primitive::<Time32SecondType>().values().iter().map(|v| i64::from(*v)).collect(), TimeUnit::Second)
        }
        DataType::Time32(_) => {
            (input.as_primitive::<Time32MillisecondType>().values().iter().map(|v| i64::from(*v)).collect(), TimeUnit::Millisecond)
        }
        DataType::Time64(TimeUnit::Microsecond) => (input.as_primitive::<Time64MicrosecondType>().values().to_vec(), TimeUnit::Microsecond),
        DataType::Time64(_) => (input.as_primitive::<Time64NanosecondType>().values().to_vec(), TimeUnit::Nanosecond),
        other => return Err(Error::internal(format!("{other} is no time of day"))),
    };
    let (from, to) = (per_day(unit), per_day(TimeUnit::Microsecond));
    let one = |v: i128| match v * to % from {
        0 => i64::try_from(v * to / from).map_err(|_| LiteralError::OutOfRange.into()),
        _ => Err(LiteralError::TooPrecise.into()),
    };
    Ok(Arc::new(map::<Time64MicrosecondType>(&values, nulls, one, fail)))
}
