//! Numbers, booleans, UUIDs and bytes to text.

use arrow_buffer::i256;

/// Appends a signed integer.
#[inline]
pub fn print_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an unsigned integer.
#[inline]
pub fn print_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest text that reads back to the same double. Whole values keep `.0`, exponents are valid JSON
/// (`1e+300`), the sign of `-0.0` stays; the rest is `NaN`, `Infinity`, `-Infinity`.
#[inline]
pub fn print_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        print_not_finite(out, value.is_nan(), value.is_sign_negative());
    }
}

/// [`print_f64`] for single precision: shortest for 32 bits (`0.1`, not `0.10000000149011612`).
#[inline]
pub fn print_f32(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        print_not_finite(out, value.is_nan(), value.is_sign_negative());
    }
}

#[cold]
fn print_not_finite(out: &mut Vec<u8>, nan: bool, negative: bool) {
    out.extend_from_slice(match (nan, negative) {
        (true, _) => b"NaN",
        (false, false) => b"Infinity",
        (false, true) => b"-Infinity",
    });
}

/// Appends `true` or `false`.
#[inline]
pub fn print_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends `unscaled * 10^-scale` with all `scale` fraction digits (`1.50` for 150 at scale 2). A negative scale
/// appends zeros.
#[inline]
pub fn print_decimal(out: &mut Vec<u8>, unscaled: i128, scale: i8) {
    let mut buffer = itoa::Buffer::new();
    let digits = match u64::try_from(unscaled.unsigned_abs()) {
        Ok(small) => buffer.format(small),
        Err(_) => buffer.format(unscaled.unsigned_abs()),
    };
    place_point(out, unscaled < 0, digits.as_bytes(), scale);
}

/// [`print_decimal`] for 256 bits.
pub fn print_decimal256(out: &mut Vec<u8>, unscaled: i256, scale: i8) {
    if let Some(small) = unscaled.to_i128() {
        return print_decimal(out, small, scale);
    }
    let negative = unscaled.is_negative();
    let (low, high) = if negative { unscaled.wrapping_neg() } else { unscaled }.to_parts();
    let high = high as u128;
    let mut limbs = [low as u64, (low >> 64) as u64, high as u64, (high >> 64) as u64];
    let mut digits = [b'0'; 80];
    let mut start = digits.len();
    while limbs != [0; 4] {
        let mut part = divide_limbs(&mut limbs, 10_000_000_000_000_000_000);
        for at in (start.saturating_sub(19)..start).rev() {
            digits[at] = b'0' + (part % 10) as u8;
            part /= 10;
        }
        start = start.saturating_sub(19);
    }
    let first = digits.iter().position(|d| *d != b'0').unwrap_or(digits.len() - 1);
    place_point(out, negative, &digits[first..], scale);
}

/// Divides a little-endian 256-bit number in place and returns the remainder.
fn divide_limbs(limbs: &mut [u64; 4], divisor: u64) -> u64 {
    let mut rest = 0u128;
    for limb in limbs.iter_mut().rev() {
        let part = (rest << 64) | u128::from(*limb);
        *limb = (part / u128::from(divisor)) as u64;
        rest = part % u128::from(divisor);
    }
    rest as u64
}

fn place_point(out: &mut Vec<u8>, negative: bool, digits: &[u8], scale: i8) {
    if negative {
        out.push(b'-');
    }
    let fraction = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.resize(out.len() + fraction, b'0');
        }
    } else if digits.len() > fraction {
        let (whole, rest) = digits.split_at(digits.len() - fraction);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(rest);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + fraction - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Two lower-case hex digits for each byte.
static HEX_PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [HEX[byte >> 4], HEX[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Appends the 36-character form in lower case. `value` is big-endian, as in RFC 9562.
#[inline]
pub fn print_uuid(out: &mut Vec<u8>, value: &[u8; 16]) {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in value.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at..at + 2].copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        at += 2;
    }
    out.extend_from_slice(&text);
}

/// Appends PostgreSQL's hex form of bytes: `\x` and lower-case digits.
pub fn print_hex(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(2 + 2 * value.len());
    out.extend_from_slice(b"\\x");
    out.extend(value.iter().flat_map(|byte| HEX_PAIRS[usize::from(*byte)]));
}
