//! Text to each type, a batch at a time. Exact or an error for the row; NULL stays NULL.

use super::explain::Why;
use super::{json, number_text};
use crate::transform::type_names::TypeName;
use arrow_array::builder::{BinaryViewBuilder, BooleanBufferBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringViewArray};
use arrow_buffer::Buffer;
use arrow_schema::TimeUnit;
use haul_formats::literal::{
    LiteralError, ParsedTimestamp, parse_bool, parse_date, parse_decimal, parse_f32, parse_f64, parse_hex, parse_i64, parse_time,
    parse_timestamp, parse_timestamp_nanos, parse_u64, parse_uuid,
};
use haul_model::{Error, Result};
use std::sync::Arc;

const DAY_MICROS: i64 = 86_400_000_000;

/// Converts `input` to `to`. Rows for which `fail` was called hold a value without meaning.
///
/// # Errors
/// `Internal` only.
pub(super) fn from_text(input: &StringViewArray, to: TypeName, fail: &mut dyn FnMut(usize, Why)) -> Result<ArrayRef> {
    Ok(match to {
        TypeName::Boolean => booleans(input, fail),
        TypeName::Int8 => each::<Int8Type>(input, |t| narrow(parse_i64(t)?), fail),
        TypeName::Int16 => each::<Int16Type>(input, |t| narrow(parse_i64(t)?), fail),
        TypeName::Int32 => each::<Int32Type>(input, |t| narrow(parse_i64(t)?), fail),
        TypeName::Int64 => each::<Int64Type>(input, |t| Ok(parse_i64(t)?), fail),
        TypeName::UInt8 => each::<UInt8Type>(input, |t| narrow(parse_u64(t)?), fail),
        TypeName::UInt16 => each::<UInt16Type>(input, |t| narrow(parse_u64(t)?), fail),
        TypeName::UInt32 => each::<UInt32Type>(input, |t| narrow(parse_u64(t)?), fail),
        TypeName::UInt64 => each::<UInt64Type>(input, |t| Ok(parse_u64(t)?), fail),
        TypeName::Float32 => each::<Float32Type>(input, single, fail),
        TypeName::Float64 => each::<Float64Type>(input, double, fail),
        TypeName::Decimal { precision, scale } => {
            let array = primitives::<Decimal128Type>(input, |t| Ok(parse_decimal(t, precision, scale as i8)?), fail);
            let array = array.with_precision_and_scale(precision, scale as i8);
            Arc::new(array.map_err(|e| Error::internal("a decimal's precision").caused_by(e))?)
        }
        TypeName::Numeric => check(input, |t| if number_text::is_numeric(t) { Ok(()) } else { Err(LiteralError::Malformed.into()) }, fail),
        TypeName::Text { max_chars: None } => Arc::new(input.clone()),
        TypeName::Text { max_chars: Some(n) } => check(input, |t| length_within(t, n), fail),
        TypeName::Date => each::<Date32Type>(input, |t| Ok(parse_date(t)?), fail),
        TypeName::Time => each::<Time64MicrosecondType>(input, time_of_day, fail),
        TypeName::Timestamp { unit, zoned } => timestamps(input, unit, zoned, fail),
        TypeName::Json { .. } => Arc::new(json::compact(input, fail)?),
        TypeName::Uuid => uuids(input, fail)?,
        TypeName::Binary => binaries(input, fail),
    })
}

/// Calls `parse` for each value; NULL and failed rows hold the default.
fn primitives<T: ArrowPrimitiveType>(
    input: &StringViewArray,
    parse: impl Fn(&[u8]) -> Result<T::Native, Why>,
    fail: &mut dyn FnMut(usize, Why),
) -> PrimitiveArray<T> {
    let mut out = Vec::with_capacity(input.len());
    let nulls = input.nulls().filter(|n| n.null_count() > 0);
    for row in 0..input.len() {
        if nulls.is_some_and(|n| n.is_null(row)) {
            out.push(T::Native::default());
            continue;
        }
        out.push(parse(input.value(row).as_bytes()).unwrap_or_else(|why| {
            fail(row, why);
            T::Native::default()
        }));
    }
    PrimitiveArray::new(out.into(), input.nulls().cloned())
}

fn each<T: ArrowPrimitiveType>(
    input: &StringViewArray,
    parse: impl Fn(&[u8]) -> Result<T::Native, Why>,
    fail: &mut dyn FnMut(usize, Why),
) -> ArrayRef {
    Arc::new(primitives::<T>(input, parse, fail))
}

/// Looks at each value and keeps the column as it is, without a copy.
pub(in crate::transform) fn check(
    input: &StringViewArray,
    look: impl Fn(&[u8]) -> Result<(), Why>,
    fail: &mut dyn FnMut(usize, Why),
) -> ArrayRef {
    let nulls = input.nulls().filter(|n| n.null_count() > 0);
    for row in 0..input.len() {
        if nulls.is_none_or(|n| n.is_valid(row))
            && let Err(why) = look(input.value(row).as_bytes())
        {
            fail(row, why);
        }
    }
    Arc::new(input.clone())
}

fn narrow<W, N: TryFrom<W>>(wide: W) -> Result<N, Why> {
    N::try_from(wide).map_err(|_| LiteralError::OutOfRange.into())
}

fn double(text: &[u8]) -> Result<f64, Why> {
    let value = parse_f64(text)?;
    if number_text::double_holds(text, value) { Ok(value) } else { Err(LiteralError::TooPrecise.into()) }
}

fn single(text: &[u8]) -> Result<f32, Why> {
    let value = parse_f32(text)?;
    if number_text::single_holds(text, value) { Ok(value) } else { Err(LiteralError::TooPrecise.into()) }
}

fn length_within(text: &[u8], most: u32) -> Result<(), Why> {
    // Characters start with a byte that is not 10xxxxxx.
    let fits = text.len() <= most as usize || text.iter().filter(|b| **b & 0xc0 != 0x80).count() <= most as usize;
    if fits { Ok(()) } else { Err(Why::TooLong) }
}

fn time_of_day(text: &[u8]) -> Result<i64, Why> {
    // Arrow's (and Parquet's) times end before midnight.
    match parse_time(text)? {
        DAY_MICROS => Err(Why::EndOfDay),
        micros => Ok(micros),
    }
}

fn timestamps(input: &StringViewArray, unit: TimeUnit, zoned: bool, fail: &mut dyn FnMut(usize, Why)) -> ArrayRef {
    let zone = |parsed: ParsedTimestamp| if zoned || parsed.offset_seconds.is_none() { Ok(parsed) } else { Err(Why::Zone) };
    let coarse = |text: &[u8], per_unit: i64| {
        let micros = zone(parse_timestamp(text)?)?.micros;
        if micros % per_unit == 0 { Ok(micros / per_unit) } else { Err(LiteralError::TooPrecise.into()) }
    };
    let fine = |text: &[u8]| {
        let parsed = zone(parse_timestamp_nanos(text)?)?;
        let nanos = parsed.micros.checked_mul(1000).and_then(|n| n.checked_add(parsed.nanos.into()));
        nanos.ok_or(Why::Literal(LiteralError::OutOfRange))
    };
    fn stamped<T: arrow_array::types::ArrowTimestampType>(array: PrimitiveArray<T>, zoned: bool) -> ArrayRef {
        Arc::new(array.with_timezone_opt(zoned.then_some("UTC")))
    }
    match unit {
        TimeUnit::Second => stamped(primitives::<TimestampSecondType>(input, |t| coarse(t, 1_000_000), fail), zoned),
        TimeUnit::Millisecond => stamped(primitives::<TimestampMillisecondType>(input, |t| coarse(t, 1000), fail), zoned),
        TimeUnit::Microsecond => {
            stamped(primitives::<TimestampMicrosecondType>(input, |t| Ok(zone(parse_timestamp(t)?)?.micros), fail), zoned)
        }
        TimeUnit::Nanosecond => stamped(primitives::<TimestampNanosecondType>(input, fine, fail), zoned),
    }
}

fn booleans(input: &StringViewArray, fail: &mut dyn FnMut(usize, Why)) -> ArrayRef {
    let mut bits = BooleanBufferBuilder::new(input.len());
    for row in 0..input.len() {
        let value = input.is_valid(row).then(|| parse_bool(input.value(row).as_bytes()));
        if let Some(Err(why)) = value {
            fail(row, why.into());
        }
        bits.append(value.is_some_and(|v| v == Ok(true)));
    }
    Arc::new(BooleanArray::new(bits.finish(), input.nulls().cloned()))
}

fn uuids(input: &StringViewArray, fail: &mut dyn FnMut(usize, Why)) -> Result<ArrayRef> {
    let mut out = Vec::with_capacity(16 * input.len());
    for row in 0..input.len() {
        let value = if input.is_valid(row) { parse_uuid(input.value(row).as_bytes()) } else { Ok([0; 16]) };
        out.extend_from_slice(&value.unwrap_or_else(|why| {
            fail(row, why.into());
            [0; 16]
        }));
    }
    let array = FixedSizeBinaryArray::try_new(16, Buffer::from_vec(out), input.nulls().cloned());
    Ok(Arc::new(array.map_err(|e| Error::internal("a column of UUIDs").caused_by(e))?))
}

fn binaries(input: &StringViewArray, fail: &mut dyn FnMut(usize, Why)) -> ArrayRef {
    let mut out = BinaryViewBuilder::with_capacity(input.len());
    let mut bytes = Vec::new();
    for row in 0..input.len() {
        if input.is_null(row) {
            out.append_null();
            continue;
        }
        bytes.clear();
        if let Err(why) = parse_hex(input.value(row).as_bytes(), &mut bytes) {
            fail(row, why.into());
        }
        out.append_value(&bytes);
    }
    Arc::new(out.finish())
}
