//! Typed columns to text: each value as the text that reads back to it.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StringArray, StringViewArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};
use haul_formats::literal::{
    print_bool, print_date, print_decimal, print_decimal256, print_f32, print_f64, print_hex, print_i64, print_time, print_time_nanos,
    print_timestamp, print_u64, print_uuid,
};
use haul_model::{Error, Result};

/// Whether [`to_text`] knows the type.
pub(super) fn prints(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_numeric() && *data_type != Float16 && !matches!(data_type, Decimal32(..) | Decimal64(..))
        || matches!(
            data_type,
            Boolean | Date32 | Time32(_) | Time64(_) | Timestamp(..) | FixedSizeBinary(_) | Binary | LargeBinary | BinaryView
        )
}

/// The texts of a column; NULL stays NULL. Bytes print as `\x` and hex digits, 16 fixed bytes as a UUID where `uuid` says so.
///
/// # Errors
/// `Internal`: a type that [`prints`] does not know.
pub(super) fn to_text(input: &ArrayRef, uuid: bool) -> Result<StringViewArray> {
    use DataType::*;
    macro_rules! print {
        ($kind:ty, |$out:ident, $value:ident| $print:expr) => {{
            let array = input.as_primitive::<$kind>();
            each(input, |$out, row| {
                let $value = array.value(row);
                $print
            })
        }};
    }
    match input.data_type() {
        Boolean => each(input, |out, row| print_bool(out, input.as_boolean().value(row))),
        Int8 => print!(Int8Type, |out, v| print_i64(out, v.into())),
        Int16 => print!(Int16Type, |out, v| print_i64(out, v.into())),
        Int32 => print!(Int32Type, |out, v| print_i64(out, v.into())),
        Int64 => print!(Int64Type, |out, v| print_i64(out, v)),
        UInt8 => print!(UInt8Type, |out, v| print_u64(out, v.into())),
        UInt16 => print!(UInt16Type, |out, v| print_u64(out, v.into())),
        UInt32 => print!(UInt32Type, |out, v| print_u64(out, v.into())),
        UInt64 => print!(UInt64Type, |out, v| print_u64(out, v)),
        Float32 => print!(Float32Type, |out, v| print_f32(out, v)),
        Float64 => print!(Float64Type, |out, v| print_f64(out, v)),
        Decimal128(_, scale) => print!(Decimal128Type, |out, v| print_decimal(out, v, *scale)),
        Decimal256(_, scale) => print!(Decimal256Type, |out, v| print_decimal256(out, v, *scale)),
        Date32 => print!(Date32Type, |out, v| print_date(out, v)),
        Time32(TimeUnit::Second) => print!(Time32SecondType, |out, v| print_time(out, i64::from(v) * 1_000_000)),
        Time32(_) => print!(Time32MillisecondType, |out, v| print_time(out, i64::from(v) * 1000)),
        Time64(TimeUnit::Microsecond) => print!(Time64MicrosecondType, |out, v| print_time(out, v)),
        Time64(_) => print!(Time64NanosecondType, |out, v| print_time_nanos(out, v)),
        Timestamp(unit, zone) => {
            let utc = zone.is_some();
            match unit {
                TimeUnit::Second => print!(TimestampSecondType, |out, v| print_timestamp(out, v, *unit, utc)),
                TimeUnit::Millisecond => print!(TimestampMillisecondType, |out, v| print_timestamp(out, v, *unit, utc)),
                TimeUnit::Microsecond => print!(TimestampMicrosecondType, |out, v| print_timestamp(out, v, *unit, utc)),
                TimeUnit::Nanosecond => print!(TimestampNanosecondType, |out, v| print_timestamp(out, v, *unit, utc)),
            }
        }
        FixedSizeBinary(_) => each(input, |out, row| match <&[u8; 16]>::try_from(input.as_fixed_size_binary().value(row)) {
            Ok(value) if uuid => print_uuid(out, value),
            _ => print_hex(out, input.as_fixed_size_binary().value(row)),
        }),
        Binary => each(input, |out, row| print_hex(out, input.as_binary::<i32>().value(row))),
        LargeBinary => each(input, |out, row| print_hex(out, input.as_binary::<i64>().value(row))),
        BinaryView => each(input, |out, row| print_hex(out, input.as_binary_view().value(row))),
        other => Err(Error::internal(format!("a column of type {other} has no text form"))),
    }
}

fn each(input: &ArrayRef, mut print: impl FnMut(&mut Vec<u8>, usize)) -> Result<StringViewArray> {
    let mut bytes = Vec::with_capacity(16 * input.len());
    let mut offsets = Vec::with_capacity(input.len() + 1);
    offsets.push(0i32);
    for row in 0..input.len() {
        if input.is_valid(row) {
            print(&mut bytes, row);
        }
        offsets.push(i32::try_from(bytes.len()).map_err(|_| Error::internal("a batch with more than 2 GiB of text"))?);
    }
    let array = StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from_vec(bytes), input.logical_nulls());
    Ok(StringViewArray::from(&array.map_err(|e| Error::internal("printed values").caused_by(e))?))
}
