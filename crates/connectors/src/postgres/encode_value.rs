//! One value to its COPY BINARY field: i32 length and bytes. Exact, or refused with the reason.

use super::datetime::{self, DAY_MICROS, END_MICROS, EPOCH_DAYS, EPOCH_MICROS, MAX_DAY, MIN_DAY, MIN_MICROS, Moment};
use super::encode_json;
use super::encode_source::{Decimals, Source, Values, print};
use super::numeric::{self, Decimal, Refused};
use super::target::{Limit, Target};
use arrow_schema::TimeUnit;
use haul_formats::literal::{self, LiteralError};

/// Why a value was not written.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Whether the value itself is fine and only the target too small for it (`--on-lossy` may decide).
    pub lossy: bool,
    /// One clause: `"a word" is not ...`.
    pub detail: String,
    /// What to do.
    pub hint: Option<&'static str>,
}

/// Boxed: the good path carries one pointer.
pub(super) type Written = Result<(), Box<Refusal>>;

pub(super) fn bad(detail: impl Into<String>) -> Box<Refusal> {
    Box::new(Refusal { lossy: false, detail: detail.into(), hint: Some(LET_THE_SERVER) })
}

fn lossy(detail: impl Into<String>) -> Box<Refusal> {
    Box::new(Refusal { lossy: true, detail: detail.into(), hint: Some("widen the column, or choose --on-lossy null or clamp") })
}

const LET_THE_SERVER: &str = "copy_format=text lets the server parse the text as it is";
/// A NULL field.
const NULL: [u8; 4] = (-1i32).to_be_bytes();

/// Appends NULL.
#[inline]
pub(super) fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&NULL);
}

#[inline]
pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[inline]
fn put_fixed<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends a field whose length is known only afterwards.
pub(super) fn put_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends the field for a value.
///
/// # Errors
/// The value cannot be written exactly; what was appended must be cut off by the caller.
#[inline]
pub(super) fn write(target: &Target, source: &Source<'_>, row: usize, out: &mut Vec<u8>) -> Written {
    if source.is_null(row) {
        put_null(out);
        return Ok(());
    }
    match &source.values {
        Values::Text(text) => write_text(target, text.value(row), out),
        Values::Json { text, from_database } => encode_json::write(target, text.value(row), *from_database, out),
        values => write_typed(target, values, row, out),
    }
}

/// Appends the field for a text, parsed as the server would.
pub(super) fn write_text(target: &Target, text: &[u8], out: &mut Vec<u8>) -> Written {
    let not_a = |what: &str| bad(format!("{} is not {what}", literal::describe_value_kind(text)));
    let number = |what: &str, error: LiteralError| match error {
        LiteralError::Malformed => not_a(what),
        _ => lossy(format!("a number does not fit {what}")),
    };
    match target {
        Target::Text(limit) => return put_text(text, *limit, out),
        Target::Enum(labels) => {
            if !labels.iter().any(|l| l.as_bytes() == text) {
                return Err(not_a("a label of the enum"));
            }
            put(out, text);
        }
        Target::QuotedChar => put_fixed(out, [quoted_char(text).ok_or_else(|| not_a("a value of \"char\" (one ASCII character)"))?]),
        Target::Int8 => put_fixed(out, parse_int(text).map_err(|e| number("bigint", e))?.to_be_bytes()),
        Target::Int4 => {
            let value = parse_int(text).map_err(|e| number("integer", e))?;
            put_fixed(out, i32::try_from(value).map_err(|_| number("integer", LiteralError::OutOfRange))?.to_be_bytes());
        }
        Target::Int2 => {
            let value = parse_int(text).map_err(|e| number("smallint", e))?;
            put_fixed(out, i16::try_from(value).map_err(|_| number("smallint", LiteralError::OutOfRange))?.to_be_bytes());
        }
        Target::Oid => {
            let value = parse_int(text).map_err(|e| number("oid", e))?;
            put_fixed(out, u32::try_from(value).map_err(|_| number("oid", LiteralError::OutOfRange))?.to_be_bytes());
        }
        Target::Float8 => put_fixed(out, literal::parse_f64(text.trim_ascii()).map_err(|e| number("double precision", e))?.to_be_bytes()),
        Target::Float4 => put_fixed(out, literal::parse_f32(text.trim_ascii()).map_err(|e| number("real", e))?.to_be_bytes()),
        Target::Numeric(typmod) => return put_numeric(text, *typmod, out),
        Target::Bool => put_fixed(out, [u8::from(literal::parse_bool(text.trim_ascii()).map_err(|_| not_a("boolean"))?)]),
        Target::Uuid => put_fixed(out, literal::parse_uuid(text.trim_ascii()).map_err(|_| not_a("a uuid"))?),
        Target::Bytea => {
            return put_with(out, |out| {
                literal::parse_hex(text, out).map_err(|_| not_a("bytea in its hex form (\\x and pairs of hex digits)"))
            });
        }
        Target::Geometry => return put_with(out, |out| raw_hex(text, out).ok_or_else(|| not_a("a geometry in (E)WKB hex"))),
        Target::Date => put_fixed(out, text_date(text)?.to_be_bytes()),
        Target::Time(digits) => {
            let micros = datetime::parse_time(text).ok_or_else(|| not_a("a time such as 12:34:56.789"))?;
            check_digits(micros, *digits)?;
            put_fixed(out, micros.to_be_bytes());
        }
        Target::Timestamp { zone, digits } => put_fixed(out, text_timestamp(text, *zone, *digits)?.to_be_bytes()),
        Target::Json => return put_text(text, Limit::None, out),
        Target::Jsonb => return put_jsonb(text, out),
        Target::Array { .. } | Target::Server { .. } => return Err(bad("a text that only the server can parse")),
    }
    Ok(())
}

fn parse_int(text: &[u8]) -> Result<i64, LiteralError> {
    literal::parse_i64(text.trim_ascii())
}

/// `charin`: nothing is zero, one ASCII byte is itself, `\` and three octal digits are that byte.
fn quoted_char(text: &[u8]) -> Option<u8> {
    match text {
        [] => Some(0),
        [byte @ 1..0x80] => Some(*byte),
        [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] => Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')),
        _ => None,
    }
}

fn raw_hex(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digit = |b: u8| char::from(b).to_digit(16);
    if text.is_empty() || text.len() % 2 == 1 {
        return None;
    }
    for pair in text.chunks_exact(2) {
        out.push((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    }
    Some(())
}

/// PostgreSQL's text cannot hold U+0000.
#[inline]
pub(super) fn no_nul(text: &[u8]) -> Written {
    if has_nul(text) {
        return Err(Box::new(Refusal {
            lossy: true,
            detail: "a text with a NUL character (U+0000), which PostgreSQL cannot hold".into(),
            hint: Some("load the column as bytea, or choose --on-lossy null"),
        }));
    }
    Ok(())
}

/// Most texts are shorter than what a search of whole registers pays for.
#[inline]
fn has_nul(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let nul = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    match text.last_chunk::<8>() {
        None => text.contains(&0),
        Some(last) if text.len() <= 64 => {
            let words = text.as_chunks::<8>().0.iter();
            words.fold(nul(u64::from_le_bytes(*last)), |found, word| found | nul(u64::from_le_bytes(*word))) != 0
        }
        Some(_) => memchr::memchr(0, text).is_some(),
    }
}

#[inline]
fn put_text(text: &[u8], limit: Limit, out: &mut Vec<u8>) -> Written {
    no_nul(text)?;
    check_limit(text, limit)?;
    put(out, text);
    Ok(())
}

/// Whether a text fits the column. Bytes are counted first: characters are at most as many.
pub(super) fn check_limit(text: &[u8], limit: Limit) -> Written {
    let characters = |text: &[u8]| text.iter().filter(|b| **b & 0xC0 != 0x80).count();
    let (most, what) = match limit {
        Limit::None => return Ok(()),
        Limit::Varchar(n) if text.len() <= n || characters(text) <= n => return Ok(()),
        // The type itself says that spaces past the end do not count.
        Limit::Char(n) if text.len() <= n || characters(text) <= n || characters(trim_spaces(text)) <= n => return Ok(()),
        Limit::Name if text.len() < 64 => return Ok(()),
        Limit::Varchar(n) => (n, "varchar"),
        Limit::Char(n) => (n, "char"),
        Limit::Name => return Err(lossy(format!("a name of {} bytes does not fit name (63 bytes)", text.len()))),
    };
    Err(lossy(format!("a text of {} characters does not fit {what}({most})", characters(text))))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
    &text[..end]
}

fn put_jsonb(text: &[u8], out: &mut Vec<u8>) -> Written {
    no_nul(text)?;
    out.extend_from_slice(&(text.len() as u32 + 1).to_be_bytes());
    out.push(1);
    out.extend_from_slice(text);
    Ok(())
}

fn put_numeric(text: &[u8], typmod: Option<(i32, i32)>, out: &mut Vec<u8>) -> Written {
    let refused = |refused| match refused {
        Refused::Malformed => bad(format!("{} is not numeric", literal::describe_value_kind(text))),
        Refused::TooLong => lossy("a number with more digits than numeric can hold"),
        Refused::Scale => {
            lossy(format!("a number has digits past the {} places of the column and would be rounded", typmod.map_or(0, |t| t.1)))
        }
        Refused::Precision => lossy("a number has more digits before the point than the column"),
    };
    let decimal = Decimal::parse(text).map_err(refused)?;
    if let Some((precision, scale)) = typmod {
        decimal.fits(precision, scale).map_err(refused)?;
    }
    put_with(out, |out| {
        decimal.write(out);
        Ok(())
    })
}

fn check_digits(micros: i64, digits: u8) -> Written {
    let unit = 10i64.pow(6 - u32::from(digits.min(6)));
    if micros % unit != 0 {
        return Err(lossy(format!("a fraction of a second has more than the {digits} digits of the column")));
    }
    Ok(())
}

fn text_date(text: &[u8]) -> Result<i32, Box<Refusal>> {
    let not = || bad(format!("{} is not a date such as 2020-01-31", literal::describe_value_kind(text)));
    match datetime::parse_moment(text).ok_or_else(not)? {
        Moment::Infinity => Ok(i32::MAX),
        Moment::MinusInfinity => Ok(i32::MIN),
        Moment::At { clock: Some(1..), .. } => Err(lossy("a timestamp with a time of day does not fit date")),
        Moment::At { offset: Some(_), .. } => Err(bad("a timestamp with a zone is not a date")),
        Moment::At { day, .. } => date_in_range(day),
    }
}

fn date_in_range(day: i64) -> Result<i32, Box<Refusal>> {
    i32::try_from(day)
        .ok()
        .filter(|d| (MIN_DAY..=MAX_DAY).contains(d))
        .ok_or_else(|| lossy("a date before 4714 BC or after the year 5874897"))
}

fn text_timestamp(text: &[u8], zone: bool, digits: u8) -> Result<i64, Box<Refusal>> {
    let not = || bad(format!("{} is not a timestamp such as 2020-01-31T12:34:56Z", literal::describe_value_kind(text)));
    let micros = match datetime::parse_moment(text).ok_or_else(not)? {
        Moment::Infinity => return Ok(i64::MAX),
        Moment::MinusInfinity => return Ok(i64::MIN),
        Moment::At { offset: None, .. } if zone => {
            return Err(Box::new(Refusal {
                lossy: false,
                detail: "a timestamp without a zone is not an instant".into(),
                hint: Some("write an offset such as Z or +02:00, or --cast the column to timestamptz, which takes it as UTC"),
            }));
        }
        Moment::At { offset: Some(_), .. } if !zone => {
            return Err(bad("a timestamp with a zone would lose it in a column without one"));
        }
        Moment::At { day, clock, offset } => day
            .checked_mul(DAY_MICROS)
            .and_then(|m| m.checked_add(clock.unwrap_or(0)))
            .and_then(|m| m.checked_sub(offset.unwrap_or(0) * 1_000_000)),
    };
    let micros = micros.filter(|m| (MIN_MICROS..END_MICROS).contains(m)).ok_or_else(|| lossy(OUT_OF_TIME))?;
    check_digits(micros, digits)?;
    Ok(micros)
}

const OUT_OF_TIME: &str = "a time before 4714 BC or after the year 294276";

/// Appends the field for a typed value.
fn write_typed(target: &Target, values: &Values<'_>, row: usize, out: &mut Vec<u8>) -> Written {
    match (target, values) {
        (Target::Int8, Values::Ints(ints)) => {
            put_fixed(out, i64::try_from(ints.value(row)).map_err(|_| lossy("a number does not fit bigint"))?.to_be_bytes());
        }
        (Target::Int4, Values::Ints(ints)) => {
            put_fixed(out, i32::try_from(ints.value(row)).map_err(|_| lossy("a number does not fit integer"))?.to_be_bytes());
        }
        (Target::Int2, Values::Ints(ints)) => {
            put_fixed(out, i16::try_from(ints.value(row)).map_err(|_| lossy("a number does not fit smallint"))?.to_be_bytes());
        }
        (Target::Oid, Values::Ints(ints)) => {
            put_fixed(out, u32::try_from(ints.value(row)).map_err(|_| lossy("a number does not fit oid"))?.to_be_bytes());
        }
        (Target::Numeric(typmod), Values::Decimals(Decimals::D128(a), scale)) => match numeric::scaled(a.value(row), *scale, *typmod) {
            Some(wire) => put(out, wire.bytes()),
            // Large, or it does not fit, which the long way tells.
            None => return write_converted(target, values, row, out),
        },
        (Target::Float8, Values::F64(a)) => put_fixed(out, a.value(row).to_be_bytes()),
        (Target::Float4, Values::F32(a)) => put_fixed(out, a.value(row).to_be_bytes()),
        (Target::Bool, Values::Bool(a)) => put_fixed(out, [u8::from(a.value(row))]),
        (Target::Bytea | Target::Geometry, Values::Binary(binary)) => put(out, binary.value(row)),
        (Target::Bytea | Target::Uuid, Values::Uuid(a)) => put(out, a.value(row)),
        (Target::Uuid, Values::Binary(binary)) if binary.value(row).len() == 16 => put(out, binary.value(row)),
        (Target::Array { elem, elem_oid }, Values::List { ranges, item }) => {
            return write_list(elem, *elem_oid, item, ranges.of(row), out);
        }
        (Target::Timestamp { zone, digits }, Values::Timestamp { at, zone: from }) if zone == from => {
            let (value, unit) = at.value(row);
            put_fixed(out, stamp_micros(value, unit, *digits)?.to_be_bytes());
        }
        (Target::Timestamp { zone: false, digits }, Values::Date64(a)) => {
            put_fixed(out, stamp_micros(a.value(row), TimeUnit::Millisecond, *digits)?.to_be_bytes());
        }
        (Target::Timestamp { zone: false, digits }, Values::Date32(a)) => {
            put_fixed(out, stamp_micros(i64::from(a.value(row)) * 86_400, TimeUnit::Second, *digits)?.to_be_bytes());
        }
        (Target::Date, Values::Date32(a)) => put_fixed(out, date_in_range(i64::from(a.value(row)) - i64::from(EPOCH_DAYS))?.to_be_bytes()),
        (Target::Date, Values::Date64(a)) => put_fixed(out, stamp_date(a.value(row), TimeUnit::Millisecond)?.to_be_bytes()),
        (Target::Date, Values::Timestamp { at, zone: false }) => {
            let (value, unit) = at.value(row);
            put_fixed(out, stamp_date(value, unit)?.to_be_bytes());
        }
        (Target::Time(digits), Values::Time(clock)) => {
            let nanos = clock.nanos(row);
            let micros = i64::try_from(nanos / 1000).ok().filter(|m| nanos % 1000 == 0 && (0..=DAY_MICROS).contains(m));
            let micros = micros.ok_or_else(|| lossy("a time of day outside of 00:00 to 24:00, or with nanoseconds"))?;
            check_digits(micros, *digits)?;
            put_fixed(out, micros.to_be_bytes());
        }
        _ => return write_converted(target, values, row, out),
    }
    Ok(())
}

/// The rarer pairs: numbers that change their kind, and everything that becomes text.
fn write_converted(target: &Target, values: &Values<'_>, row: usize, out: &mut Vec<u8>) -> Written {
    match (target, values) {
        (Target::Float8, Values::F32(a)) => put_fixed(out, f64::from(a.value(row)).to_be_bytes()),
        (Target::Float8, Values::F16(a)) => put_fixed(out, a.value(row).to_f64().to_be_bytes()),
        (Target::Float4, Values::F16(a)) => put_fixed(out, a.value(row).to_f32().to_be_bytes()),
        (Target::Float4, Values::F64(a)) => {
            let (wide, narrow) = (a.value(row), a.value(row) as f32);
            if f64::from(narrow).to_bits() != wide.to_bits() && !wide.is_nan() {
                return Err(lossy("a double has digits that real does not hold"));
            }
            put_fixed(out, narrow.to_be_bytes());
        }
        (Target::Float8, Values::Ints(ints)) => {
            let value = ints.value(row);
            if (value as f64) as i128 != value {
                return Err(lossy("a whole number has digits that double precision does not hold"));
            }
            put_fixed(out, (value as f64).to_be_bytes());
        }
        (Target::Float4, Values::Ints(ints)) => {
            let value = ints.value(row);
            if (value as f32) as i128 != value {
                return Err(lossy("a whole number has digits that real does not hold"));
            }
            put_fixed(out, (value as f32).to_be_bytes());
        }
        (
            Target::Int2 | Target::Int4 | Target::Int8 | Target::Oid,
            Values::Decimals(..) | Values::F16(_) | Values::F32(_) | Values::F64(_),
        ) => {
            let mut text = Vec::with_capacity(48);
            print(values, row, &mut text);
            let whole = whole_number(&text).ok_or_else(|| lossy("a number with a fraction does not fit a whole number"))?;
            return write_text(target, whole.to_string().as_bytes(), out);
        }
        (Target::Numeric(_) | Target::Text(_), _) => {
            let mut text = Vec::with_capacity(48);
            if !print(values, row, &mut text) {
                return Err(bad("a list does not fit a text column"));
            }
            return write_text(target, &text, out);
        }
        _ => return Err(bad("a value of a type that the column does not take")),
    }
    Ok(())
}

/// A decimal text as a whole number, if it is one.
fn whole_number(text: &[u8]) -> Option<i128> {
    let mut digits = Vec::with_capacity(64);
    let decimal = Decimal::parse(text).ok().filter(|d| !d.is_special() && d.fits(40, 0).is_ok())?;
    decimal.write(&mut digits);
    super::numeric::Wire::parse(&digits)?.to_i128(0)
}

/// Microseconds since 2000.
#[inline]
fn stamp_micros(value: i64, unit: TimeUnit, digits: u8) -> Result<i64, Box<Refusal>> {
    let micros = match unit {
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Nanosecond if value % 1000 != 0 => return Err(lossy("a timestamp with nanoseconds, of which PostgreSQL keeps none")),
        TimeUnit::Nanosecond => Some(value / 1000),
    };
    let micros = micros.and_then(|m| m.checked_sub(EPOCH_MICROS)).filter(|m| (MIN_MICROS..END_MICROS).contains(m));
    let micros = micros.ok_or_else(|| lossy(OUT_OF_TIME))?;
    if digits < 6 {
        check_digits(micros, digits)?;
    }
    Ok(micros)
}

fn stamp_date(value: i64, unit: TimeUnit) -> Result<i32, Box<Refusal>> {
    let per_day = match unit {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => 86_400_000,
        TimeUnit::Microsecond => DAY_MICROS,
        TimeUnit::Nanosecond => DAY_MICROS * 1000,
    };
    if value % per_day != 0 {
        return Err(lossy("a timestamp with a time of day does not fit date"));
    }
    date_in_range(value / per_day - i64::from(EPOCH_DAYS))
}

fn write_list(elem: &Target, elem_oid: u32, item: &Source<'_>, range: std::ops::Range<usize>, out: &mut Vec<u8>) -> Written {
    put_with(out, |out| {
        let has_nulls = range.clone().any(|i| item.is_null(i));
        array_header(out, &[range.len()], has_nulls, elem_oid);
        range.into_iter().try_for_each(|i| write(elem, item, i, out))
    })
}

/// The header of a binary array with lower bounds of 1; no dimensions where it is empty.
pub(super) fn array_header(out: &mut Vec<u8>, lengths: &[usize], has_nulls: bool, elem_oid: u32) {
    let empty = lengths.contains(&0);
    let dimensions = if empty { 0 } else { lengths.len() };
    out.extend_from_slice(&(dimensions as u32).to_be_bytes());
    out.extend_from_slice(&u32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&elem_oid.to_be_bytes());
    for length in lengths.iter().take(dimensions) {
        out.extend_from_slice(&(*length as u32).to_be_bytes());
        out.extend_from_slice(&1u32.to_be_bytes());
    }
}
