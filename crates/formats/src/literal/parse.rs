//! Text to numbers, booleans, UUIDs and bytes.

use arrow_buffer::i256;

/// Why a text is not a value of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LiteralError {
    /// It is not written as one.
    #[error("not written as such a value")]
    Malformed,
    /// It is, but the type does not reach that far.
    #[error("out of range")]
    OutOfRange,
    /// It has non-zero digits beyond what the type keeps.
    #[error("more digits after the point than the type holds")]
    TooPrecise,
}

use LiteralError::{Malformed, OutOfRange, TooPrecise};

/// Splits an optional sign off; true = negative.
#[inline]
fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// Reads one or more digits.
#[inline]
fn parse_digits(digits: &[u8]) -> Result<u64, LiteralError> {
    if digits.is_empty() {
        return Err(Malformed);
    }
    let mut value = 0u64;
    let (safe, rest) = digits.split_at(digits.len().min(19));
    for byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Malformed);
        }
        value = value * 10 + u64::from(digit);
    }
    if rest.is_empty() { Ok(value) } else { parse_more_digits(value, rest) }
}

#[cold]
fn parse_more_digits(mut value: u64, rest: &[u8]) -> Result<u64, LiteralError> {
    if !rest.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    for byte in rest {
        value = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0'))).ok_or(OutOfRange)?;
    }
    Ok(value)
}

/// Reads a signed integer: an optional sign and digits, nothing else.
///
/// # Errors
/// [`LiteralError`].
#[inline]
pub fn parse_i64(text: &[u8]) -> Result<i64, LiteralError> {
    let (negative, digits) = split_sign(text);
    let size = parse_digits(digits)?;
    if negative { 0i64.checked_sub_unsigned(size).ok_or(OutOfRange) } else { i64::try_from(size).map_err(|_| OutOfRange) }
}

/// Reads an unsigned integer; `-0` is 0, any other negative one is out of range.
///
/// # Errors
/// [`LiteralError`].
#[inline]
pub fn parse_u64(text: &[u8]) -> Result<u64, LiteralError> {
    let (negative, digits) = split_sign(text);
    match parse_digits(digits)? {
        0 => Ok(0),
        _ if negative => Err(OutOfRange),
        value => Ok(value),
    }
}

/// Reads a double, to the nearest. Takes `NaN`, `Infinity` and `inf` in any case, with a sign. A finite text that
/// would become infinite, or 0 though it is not, is out of range (as in PostgreSQL).
///
/// # Errors
/// [`LiteralError`].
#[inline]
pub fn parse_f64(text: &[u8]) -> Result<f64, LiteralError> {
    let value: f64 = fast_float2::parse(text).map_err(|_| Malformed)?;
    if value.is_normal() || (value == 0.0 && text.len() == 1) {
        return Ok(value);
    }
    check_extreme(text, value.is_infinite(), value == 0.0).map(|()| value)
}

/// [`parse_f64`] for single precision.
///
/// # Errors
/// [`LiteralError`].
pub fn parse_f32(text: &[u8]) -> Result<f32, LiteralError> {
    let value: f32 = fast_float2::parse(text).map_err(|_| Malformed)?;
    check_extreme(text, value.is_infinite(), value == 0.0).map(|()| value)
}

/// Infinity must have been written as such, and zero too.
fn check_extreme(text: &[u8], infinite: bool, zero: bool) -> Result<(), LiteralError> {
    let overflow = infinite && text.iter().any(u8::is_ascii_digit);
    let mantissa = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let underflow = zero && mantissa.into_iter().any(|byte| matches!(byte, b'1'..=b'9'));
    if overflow || underflow { Err(OutOfRange) } else { Ok(()) }
}

/// Whether the text says NaN or infinity, in any of PostgreSQL's spellings.
pub(super) fn is_not_finite(text: &[u8]) -> bool {
    let (_, word) = split_sign(text);
    [b"nan".as_slice(), b"inf", b"infinity"].iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// Reads a boolean in PostgreSQL's spellings: any unambiguous beginning of true, false, yes, no, on, off; 1, 0.
///
/// # Errors
/// [`LiteralError`].
pub fn parse_bool(text: &[u8]) -> Result<bool, LiteralError> {
    let starts =
        |word: &[u8], least: usize| text.len() >= least && text.len() <= word.len() && word[..text.len()].eq_ignore_ascii_case(text);
    match text {
        b"true" | b"t" | b"1" => Ok(true),
        b"false" | b"f" | b"0" => Ok(false),
        _ if starts(b"true", 1) || starts(b"yes", 1) || starts(b"on", 2) => Ok(true),
        _ if starts(b"false", 1) || starts(b"no", 1) || starts(b"off", 2) => Ok(false),
        _ => Err(Malformed),
    }
}

/// A decimal's text, taken apart: value = digits * 10^exponent.
struct Decimal<'a> {
    negative: bool,
    /// Digits before the point.
    whole: &'a [u8],
    /// Digits after it.
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn scan(text: &'a [u8]) -> Result<Self, LiteralError> {
        let (negative, rest) = split_sign(text);
        let malformed = || if is_not_finite(text) { OutOfRange } else { Malformed };
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => rest.split_at(digits(rest)),
            _ => (&rest[..0], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(malformed());
        }
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => match parse_i64(rest) {
                Ok(exponent) => exponent.clamp(-1_000_000_000_000, 1_000_000_000_000),
                // An exponent too long for an i64 is decided by its sign alone.
                Err(OutOfRange) if rest.starts_with(b"-") => -1_000_000_000_000,
                Err(OutOfRange) => 1_000_000_000_000,
                Err(error) => return Err(error),
            },
            _ => return Err(Malformed),
        };
        Ok(Self { negative, whole, fraction, exponent })
    }

    /// Feeds the significant digits at `scale` to `push` and returns the power of ten that is still to be multiplied.
    /// Errs where digits beyond the scale are not zero.
    fn digits(&self, scale: i8, mut push: impl FnMut(u8) -> Result<(), LiteralError>) -> Result<u64, LiteralError> {
        let shift = self.exponent - self.fraction.len() as i64 + i64::from(scale);
        let total = self.whole.len() + self.fraction.len();
        let kept = if shift < 0 { (total as i64 + shift).max(0) as usize } else { total };
        let (from_whole, from_fraction) = (kept.min(self.whole.len()), kept.saturating_sub(self.whole.len()));
        let (whole, more) = self.whole.split_at(from_whole);
        let (fraction, rest) = self.fraction.split_at(from_fraction);
        if more.iter().chain(rest).any(|digit| *digit != b'0') {
            return Err(TooPrecise);
        }
        for digit in whole.iter().chain(fraction) {
            push(digit - b'0')?;
        }
        Ok(shift.max(0) as u64)
    }
}

/// Reads a decimal exactly as an integer of `10^-scale`, at most `precision` digits (<= 38). Takes a sign, a point
/// (`.5` and `5.` too) and an exponent; never rounds. `NaN` and infinity are out of range.
///
/// # Errors
/// [`LiteralError`].
#[inline]
pub fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, LiteralError> {
    let decimal = Decimal::scan(text)?;
    let value = if decimal.whole.len() + decimal.fraction.len() <= 18 {
        let mut small = 0u64;
        let power = decimal.digits(scale, |digit| {
            small = small * 10 + u64::from(digit);
            Ok(())
        })?;
        times_power_of_ten(u128::from(small), power)?
    } else {
        let mut large = 0u128;
        let power = decimal.digits(scale, |digit| {
            large = large.checked_mul(10).and_then(|v| v.checked_add(u128::from(digit))).ok_or(OutOfRange)?;
            Ok(())
        })?;
        times_power_of_ten(large, power)?
    };
    if value >= POWERS[usize::from(precision).min(38)] {
        return Err(OutOfRange);
    }
    let value = value as i128;
    Ok(if decimal.negative { -value } else { value })
}

/// Powers of ten that fit 128 bits.
static POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

fn times_power_of_ten(value: u128, power: u64) -> Result<u128, LiteralError> {
    if value == 0 || power == 0 {
        return Ok(value);
    }
    let factor = usize::try_from(power).ok().and_then(|power| POWERS.get(power)).ok_or(OutOfRange)?;
    value.checked_mul(*factor).ok_or(OutOfRange)
}

/// [`parse_decimal`] for 256 bits (`precision` <= 76).
///
/// # Errors
/// [`LiteralError`].
pub fn parse_decimal256(text: &[u8], precision: u8, scale: i8) -> Result<i256, LiteralError> {
    let ten = i256::from_i128(10);
    let decimal = Decimal::scan(text)?;
    let mut value = i256::ZERO;
    let mut times_ten_plus = |digit: u8| {
        let next = value.checked_mul(ten).and_then(|v| v.checked_add(i256::from_i128(i128::from(digit))));
        value = next.ok_or(OutOfRange)?;
        Ok(())
    };
    let power = decimal.digits(scale, &mut times_ten_plus)?;
    if value != i256::ZERO {
        for _ in 0..power.min(80) {
            value = value.checked_mul(ten).ok_or(OutOfRange)?;
        }
    }
    let limit = ten.checked_pow(u32::from(precision.min(76))).unwrap_or(i256::MAX);
    if value >= limit {
        return Err(OutOfRange);
    }
    Ok(if decimal.negative { value.wrapping_neg() } else { value })
}

#[inline]
fn hex_digit(byte: u8) -> Result<u8, LiteralError> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(Malformed),
    }
}

/// Reads a UUID, big-endian: 32 hex digits in any case with hyphens after any four of them or none, braces around or not.
///
/// # Errors
/// [`LiteralError::Malformed`].
pub fn parse_uuid(text: &[u8]) -> Result<[u8; 16], LiteralError> {
    let mut rest = match text {
        [b'{', inner @ .., b'}'] => inner,
        _ => text,
    };
    let mut value = [0; 16];
    for (index, byte) in value.iter_mut().enumerate() {
        if index > 0
            && index % 2 == 0
            && let [b'-', after @ ..] = rest
        {
            rest = after;
        }
        let [high, low, after @ ..] = rest else { return Err(Malformed) };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = after;
    }
    if rest.is_empty() { Ok(value) } else { Err(Malformed) }
}

/// Reads PostgreSQL's hex form of bytes (`\x` and pairs of digits) and appends them. On error `out` is as before.
///
/// # Errors
/// [`LiteralError::Malformed`].
pub fn parse_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), LiteralError> {
    let digits = text.strip_prefix(b"\\x").ok_or(Malformed)?;
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Malformed);
    }
    let before = out.len();
    out.reserve(pairs.len());
    for [high, low] in pairs {
        match (hex_digit(*high), hex_digit(*low)) {
            (Ok(high), Ok(low)) => out.push(high << 4 | low),
            _ => {
                out.truncate(before);
                return Err(Malformed);
            }
        }
    }
    Ok(())
}
