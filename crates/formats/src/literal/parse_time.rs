//! Text to dates, times and timestamps.

use super::civil::{days_from_civil, days_in_month};
use super::parse::LiteralError::{self, Malformed, OutOfRange, TooPrecise};
use super::parse::is_not_finite;

const DAY_MICROS: i64 = 86_400_000_000;

/// A timestamp as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedTimestamp {
    /// Microseconds since 1970: of the instant where a zone was written, else of the wall clock.
    pub micros: i64,
    /// Nanoseconds beyond `micros`, 0 to 999.
    pub nanos: u16,
    /// Seconds east of Greenwich, where a zone was written.
    pub offset_seconds: Option<i32>,
    /// Whether a time of day was written.
    pub has_time: bool,
}

/// Reads exactly two digits.
#[inline]
fn two(text: &[u8]) -> Result<(u32, &[u8]), LiteralError> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => Ok((u32::from(a - b'0') * 10 + u32::from(b - b'0'), rest)),
        _ => Err(Malformed),
    }
}

/// Splits ` BC` or ` AD` off; true = before Christ.
#[inline]
fn split_era(text: &[u8]) -> (bool, &[u8]) {
    if let [rest @ .., b' ', a, b] = text
        && rest.len() >= 10
    {
        match (a.to_ascii_uppercase(), b.to_ascii_uppercase()) {
            (b'B', b'C') => return (true, rest),
            (b'A', b'D') => return (false, rest),
            _ => {}
        }
    }
    (false, text)
}

/// Reads `YYYY-MM-DD` at the front (4 to 7 digits of year) and returns the day number and the rest.
fn date_prefix(text: &[u8], before_christ: bool) -> Result<(i64, &[u8]), LiteralError> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(4..=7).contains(&digits) {
        return Err(if is_not_finite(text) { OutOfRange } else { Malformed });
    }
    let (year, rest) = text.split_at(digits);
    let written = year.iter().fold(0i32, |value, digit| value * 10 + i32::from(digit - b'0'));
    let [b'-', rest @ ..] = rest else { return Err(Malformed) };
    let (month, rest) = two(rest)?;
    let [b'-', rest @ ..] = rest else { return Err(Malformed) };
    let (day, rest) = two(rest)?;
    let year = if before_christ { 1 - written } else { written };
    if written == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return Err(OutOfRange);
    }
    Ok((days_from_civil(year, month, day), rest))
}

/// Reads a date, `YYYY-MM-DD` with 4 to 7 digits of year and an optional ` BC`, as days since 1970. There is no year 0000.
///
/// # Errors
/// [`LiteralError`]; `infinity` and a day that the month does not have are out of range.
pub fn parse_date(text: &[u8]) -> Result<i32, LiteralError> {
    let (before_christ, text) = split_era(text);
    let (days, rest) = date_prefix(text, before_christ)?;
    if !rest.is_empty() {
        return Err(Malformed);
    }
    i32::try_from(days).map_err(|_| OutOfRange)
}

/// A time of day at the front of a text.
struct Clock<'a> {
    micros: i64,
    nanos: u16,
    rest: &'a [u8],
}

impl<'a> Clock<'a> {
    /// `HH:MM`, optional `:SS`, optional fraction after the seconds.
    fn scan(text: &'a [u8]) -> Result<Self, LiteralError> {
        let (hour, rest) = two(text)?;
        let [b':', rest @ ..] = rest else { return Err(Malformed) };
        let (minute, mut rest) = two(rest)?;
        let mut second = 0;
        let mut fraction = 0u32;
        if let [b':', after @ ..] = rest {
            (second, rest) = two(after)?;
            if let [b'.', after @ ..] = rest {
                (fraction, rest) = fraction_nanos(after)?;
            }
        }
        let seconds = i64::from(hour * 3600 + minute * 60 + second);
        let past_midnight = seconds == 86_400 && fraction > 0;
        if hour > 24 || minute > 59 || second > 59 || seconds > 86_400 || past_midnight {
            return Err(OutOfRange);
        }
        let micros = seconds * 1_000_000 + i64::from(fraction / 1_000);
        Ok(Self { micros, nanos: (fraction % 1_000) as u16, rest })
    }
}

/// Digits of a second's fraction as nanoseconds. Digits past the ninth must be zero.
fn fraction_nanos(text: &[u8]) -> Result<(u32, &[u8]), LiteralError> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(Malformed);
    }
    let (digits, rest) = text.split_at(count);
    let (kept, beyond) = digits.split_at(count.min(9));
    if beyond.iter().any(|digit| *digit != b'0') {
        return Err(TooPrecise);
    }
    let value = kept.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    Ok((value * 10u32.pow(9 - kept.len() as u32), rest))
}

/// Reads a time of day as microseconds: `HH:MM`, `HH:MM:SS`, `HH:MM:SS.ffffff`; `24:00:00` is the end of the day.
///
/// # Errors
/// [`LiteralError`]; a fraction finer than a microsecond is [`LiteralError::TooPrecise`].
pub fn parse_time(text: &[u8]) -> Result<i64, LiteralError> {
    let clock = Clock::scan(text)?;
    match (clock.rest, clock.nanos) {
        ([], 0) => Ok(clock.micros),
        ([], _) => Err(TooPrecise),
        _ => Err(Malformed),
    }
}

/// Reads a zone: nothing, `Z`, `UTC`, `+05`, `+0530`, `+05:30`, `+05:30:15`, one blank before it or not.
fn zone_offset(text: &[u8]) -> Result<Option<i32>, LiteralError> {
    let text = match text {
        [b' ', rest @ ..] if !rest.is_empty() => rest,
        _ => text,
    };
    let (sign, rest) = match text {
        [] => return Ok(None),
        [b'Z' | b'z'] => return Ok(Some(0)),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ if text.eq_ignore_ascii_case(b"UTC") => return Ok(Some(0)),
        _ => return Err(Malformed),
    };
    let (hours, rest) = two(rest)?;
    let (minutes, rest) = match rest {
        [] => (0, rest),
        [b':', rest @ ..] => two(rest)?,
        _ => two(rest)?,
    };
    let (seconds, rest) = match rest {
        [b':', rest @ ..] => two(rest)?,
        _ => (0, rest),
    };
    if !rest.is_empty() {
        return Err(Malformed);
    }
    // PostgreSQL's own limit.
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(OutOfRange);
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60 + seconds) as i32))
}

/// Reads a timestamp to the microsecond: a date, then `T` or a blank and a time of day, an optional zone, an
/// optional ` BC`; or a date alone.
///
/// # Errors
/// [`LiteralError`]; a fraction finer than a microsecond is [`LiteralError::TooPrecise`], never rounded.
#[inline]
pub fn parse_timestamp(text: &[u8]) -> Result<ParsedTimestamp, LiteralError> {
    if let Ok(text) = <&[u8; 20]>::try_from(text)
        && let Some(micros) = plain_utc(text)
    {
        return Ok(ParsedTimestamp { micros, nanos: 0, offset_seconds: Some(0), has_time: true });
    }
    match parse_timestamp_nanos(text)? {
        parsed if parsed.nanos != 0 => Err(TooPrecise),
        parsed => Ok(parsed),
    }
}

/// [`parse_timestamp`] to the nanosecond (`nanos` holds the part below a microsecond).
///
/// # Errors
/// [`LiteralError`].
pub fn parse_timestamp_nanos(text: &[u8]) -> Result<ParsedTimestamp, LiteralError> {
    let (before_christ, text) = split_era(text);
    let (days, rest) = date_prefix(text, before_christ)?;
    let midnight = days.checked_mul(DAY_MICROS).ok_or(OutOfRange)?;
    let clock = match rest {
        [] => return Ok(ParsedTimestamp { micros: midnight, nanos: 0, offset_seconds: None, has_time: false }),
        [b'T' | b't' | b' ', rest @ ..] => Clock::scan(rest)?,
        _ => return Err(Malformed),
    };
    let offset_seconds = zone_offset(clock.rest)?;
    let east = i64::from(offset_seconds.unwrap_or(0)) * 1_000_000;
    let micros = midnight.checked_add(clock.micros - east).ok_or(OutOfRange)?;
    Ok(ParsedTimestamp { micros, nanos: clock.nanos, offset_seconds, has_time: true })
}

/// For each of 8 bytes the digit `0` or the separator that must stand there, and what to add so that any other
/// byte shows in its high nibble.
const fn pattern(text: [u8; 8]) -> (u64, u64) {
    let (mut base, mut add) = ([0; 8], [0; 8]);
    let mut at = 0;
    while at < 8 {
        base[at] = text[at];
        add[at] = if text[at] == b'0' { 6 } else { 15 };
        at += 1;
    }
    (u64::from_le_bytes(base), u64::from_le_bytes(add))
}

/// Reads 8 bytes against a pattern. Byte `i` of the result is the two-digit number at `i`, `i + 1`.
#[inline]
fn number_pairs(bytes: [u8; 8], (base, add): (u64, u64)) -> (u64, u64) {
    let digits = u64::from_le_bytes(bytes) ^ base;
    let bad = (digits | digits.wrapping_add(add)) & 0xf0f0_f0f0_f0f0_f0f0;
    (bad, digits.wrapping_mul(10).wrapping_add(digits >> 8))
}

/// The fast path: exactly `YYYY-MM-DDTHH:MM:SSZ`, 8 bytes at a time. `None` = take the general path.
#[inline]
fn plain_utc(text: &[u8; 20]) -> Option<i64> {
    const DATE: (u64, u64) = pattern(*b"0000-00-");
    const MIDDLE: (u64, u64) = pattern(*b"00T00:00");
    const TAIL: (u64, u64) = pattern(*b"0:00:00Z");
    let [t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18, t19] = *text;
    let (bad_date, date) = number_pairs([t0, t1, t2, t3, t4, t5, t6, t7], DATE);
    let (bad_middle, middle) = number_pairs([t8, t9, t10, t11, t12, t13, t14, t15], MIDDLE);
    let (bad_tail, tail) = number_pairs([t12, t13, t14, t15, t16, t17, t18, t19], TAIL);
    if bad_date | bad_middle | bad_tail != 0 {
        return None;
    }
    let at = |pairs: u64, byte: u32| (pairs >> (8 * byte)) as u8;
    let year = u32::from(at(date, 0)) * 100 + u32::from(at(date, 2));
    let (month, day) = (u32::from(at(date, 5)), u32::from(at(middle, 0)));
    let (hour, minute, second) = (u32::from(at(middle, 3)), u32::from(at(middle, 6)), u32::from(at(tail, 5)));
    if year == 0 || month.wrapping_sub(1) > 11 || day == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if day > 28 && day > days_in_month(year as i32, month) {
        return None;
    }
    let seconds = days_from_civil(year as i32, month, day) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000)
}
