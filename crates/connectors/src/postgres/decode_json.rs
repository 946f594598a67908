//! Values printed as JSON: number tokens with all their digits, arrays as nested lists.

use super::array_wire::{ArrayWire, Elements};
use super::datetime;
use super::decode_column::{Refused, print_quoted_char};
use super::numeric::Wire;
use super::types::ReadAs;
use haul_formats::jsonl::push_string;
use haul_formats::literal;
use haul_model::OnLossy;

/// A number token; NaN and infinity as a string under `--on-lossy text` (then `true`), else refused.
pub(super) fn print_number(read: &ReadAs, bytes: &[u8], out: &mut Vec<u8>, on_lossy: OnLossy) -> Result<bool, Refused> {
    let special = match read {
        ReadAs::NumericJson => {
            let wire = Wire::parse(bytes).ok_or(Refused::Malformed)?;
            let special = wire.special();
            if special.is_none() {
                wire.print(out);
            }
            special
        }
        ReadAs::FloatJson { double: true } => print_float(f64::from_be_bytes(bytes.try_into().map_err(|_| Refused::Malformed)?), out),
        ReadAs::FloatJson { double: false } => print_float(f32::from_be_bytes(bytes.try_into().map_err(|_| Refused::Malformed)?), out),
        _ => return Err(Refused::Malformed),
    };
    match special {
        None => Ok(false),
        Some(word) if on_lossy == OnLossy::Text => {
            push_string(word.as_bytes(), out);
            Ok(true)
        }
        Some(word) => Err(Refused::Lossy(word)),
    }
}

/// Shortest digits that read back as the same value; the name of a value that JSON has no token for.
fn print_float<F: zmij::Float + Into<f64> + Copy>(value: F, out: &mut Vec<u8>) -> Option<&'static str> {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return Some("NaN");
    }
    if wide.is_infinite() {
        return Some(if wide > 0.0 { "Infinity" } else { "-Infinity" });
    }
    out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    None
}

/// An array as nested lists; empty arrays as `[]`.
pub(super) fn print_array(item: &ReadAs, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let array = ArrayWire::parse(bytes).ok_or(Refused::Malformed)?;
    if array.shifted {
        return Err(Refused::Lossy("an array with a lower bound other than 1"));
    }
    if array.count() == 0 {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    let mut elements = array.elements();
    print_dimension(item, &array.lengths[..array.dimensions], &mut elements, out)?;
    if elements.remaining() == 0 { Ok(()) } else { Err(Refused::Malformed) }
}

fn print_dimension(item: &ReadAs, lengths: &[usize], elements: &mut Elements<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
    let Some((length, inner)) = lengths.split_first() else {
        return match elements.next_value().ok_or(Refused::Malformed)? {
            None => {
                out.extend_from_slice(b"null");
                Ok(())
            }
            Some(value) => print_element(item, value, out),
        };
    };
    out.push(b'[');
    for i in 0..*length {
        if i > 0 {
            out.push(b',');
        }
        print_dimension(item, inner, elements, out)?;
    }
    out.push(b']');
    Ok(())
}

pub(super) fn print_element(item: &ReadAs, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let mut integers = itoa::Buffer::new();
    let malformed = |_| Refused::Malformed;
    match item {
        ReadAs::Bool => out.extend_from_slice(if bytes == [1] { b"true" } else { b"false" }),
        ReadAs::Int2 => out.extend_from_slice(integers.format(i16::from_be_bytes(bytes.try_into().map_err(malformed)?)).as_bytes()),
        ReadAs::Int4 => out.extend_from_slice(integers.format(i32::from_be_bytes(bytes.try_into().map_err(malformed)?)).as_bytes()),
        ReadAs::Int8 => out.extend_from_slice(integers.format(i64::from_be_bytes(bytes.try_into().map_err(malformed)?)).as_bytes()),
        ReadAs::Oid => out.extend_from_slice(integers.format(u32::from_be_bytes(bytes.try_into().map_err(malformed)?)).as_bytes()),
        ReadAs::NumericJson | ReadAs::FloatJson { .. } => {
            print_number(item, bytes, out, OnLossy::Error)?;
        }
        ReadAs::Jsonb => out.extend_from_slice(checked(bytes.strip_prefix(&[1]).ok_or(Refused::Malformed)?)?),
        ReadAs::Json => out.extend_from_slice(checked(bytes)?),
        ReadAs::Text => push_string(checked(bytes)?, out),
        ReadAs::Bytea => {
            out.extend_from_slice(b"\"\\");
            literal::print_hex(out, bytes);
            out.push(b'"');
        }
        ReadAs::Uuid => {
            out.push(b'"');
            literal::print_uuid(out, bytes.try_into().map_err(malformed)?);
            out.push(b'"');
        }
        ReadAs::QuotedChar => {
            let mut text = Vec::with_capacity(4);
            print_quoted_char(*bytes.first().ok_or(Refused::Malformed)?, &mut text);
            push_string(&text, out);
        }
        ReadAs::DateText => {
            let day = i32::from_be_bytes(bytes.try_into().map_err(malformed)?);
            quoted(out, |out| datetime::print_date(day, out));
        }
        ReadAs::TimeText => {
            let micros = i64::from_be_bytes(bytes.try_into().map_err(malformed)?);
            quoted(out, |out| datetime::print_time(micros, out));
        }
        ReadAs::TimestampText { zone } => {
            let micros = i64::from_be_bytes(bytes.try_into().map_err(malformed)?);
            quoted(out, |out| datetime::print_timestamp(micros, *zone, out));
        }
        _ => return Err(Refused::Malformed),
    }
    Ok(())
}

fn quoted(out: &mut Vec<u8>, print: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    print(out);
    out.push(b'"');
}

pub(super) fn checked(bytes: &[u8]) -> Result<&[u8], Refused> {
    std::str::from_utf8(bytes).map(str::as_bytes).map_err(|_| Refused::Utf8)
}
