//! PostgreSQL's binary `numeric`: base-10,000 digits, most significant first, with weight, sign and display scale.
//!
//! Layout (`numeric_send`): i16 ndigits, i16 weight (of the first digit, in powers of 10,000), u16 sign, i16 dscale, then
//! ndigits u16. `1.10` and `1.1` differ only in dscale; all conversions here keep it.

use arrow_buffer::i256;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const POS_INF: u16 = 0xD000;
const NEG_INF: u16 = 0xF000;
/// The server's own limits (`NUMERIC_MAX_RESULT_SCALE`, 16,383 digits after and 131,072 before the point).
const MAX_DSCALE: i64 = 16_383;
const MAX_WEIGHT: i64 = 131_072;

/// A binary numeric, not yet converted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    weight: i32,
    sign: u16,
    dscale: usize,
    digits: &'a [u8],
}

impl<'a> Wire<'a> {
    /// Checks the header and the digits; `None` when it is malformed.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, digits) = bytes.split_first_chunk::<8>()?;
        let half = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
        let sign = half(4);
        let well = digits.len() == 2 * usize::from(half(0))
            && matches!(sign, 0 | NEGATIVE | NAN | POS_INF | NEG_INF)
            && digits.chunks_exact(2).all(|d| u16::from_be_bytes([d[0], d[1]]) < 10_000)
            && half(6) <= 0x3FFF;
        well.then(|| Self { weight: i32::from(half(2).cast_signed()), sign, dscale: usize::from(half(6)), digits })
    }

    /// `NaN`, `Infinity` or `-Infinity`, if it is one of them.
    pub fn special(&self) -> Option<&'static str> {
        match self.sign {
            NAN => Some("NaN"),
            POS_INF => Some("Infinity"),
            NEG_INF => Some("-Infinity"),
            _ => None,
        }
    }

    fn digit(&self, index: i32) -> u16 {
        usize::try_from(index).ok().and_then(|i| self.digits.get(2 * i..2 * i + 2)).map_or(0, |d| u16::from_be_bytes([d[0], d[1]]))
    }

    /// Appends the server's own text (`numeric_out`).
    pub fn print(&self, out: &mut Vec<u8>) {
        if let Some(word) = self.special() {
            out.extend_from_slice(word.as_bytes());
            return;
        }
        if self.sign == NEGATIVE {
            out.push(b'-');
        }
        if self.weight < 0 {
            out.push(b'0');
        } else {
            out.extend_from_slice(itoa::Buffer::new().format(self.digit(0)).as_bytes());
            for i in 1..=self.weight {
                out.extend_from_slice(&four(self.digit(i)));
            }
        }
        if self.dscale > 0 {
            out.push(b'.');
            let end = out.len() + self.dscale;
            let mut i = self.weight + 1;
            while out.len() < end {
                out.extend_from_slice(&four(self.digit(i)));
                i += 1;
            }
            out.truncate(end);
        }
    }

    /// The value times 10^scale, exact; `None` when it is special, has digits past `scale`, or overflows.
    pub fn to_i128(self, scale: i32) -> Option<i128> {
        let (mut value, mut power) = (0i128, 0);
        for (digit, place) in self.places(scale)? {
            power = place.max(0);
            let (times, add) = shifted(digit, place)?;
            value = value.checked_mul(i128::from(times))?.checked_add(i128::from(add))?;
        }
        if value != 0 {
            value = value.checked_mul(10i128.checked_pow(power.unsigned_abs())?)?;
        }
        Some(if self.sign == NEGATIVE { -value } else { value })
    }

    /// As [`Self::to_i128`], in 256 bits.
    pub fn to_i256(self, scale: i32) -> Option<i256> {
        let (mut value, mut power) = (i256::ZERO, 0);
        let wide = |n: u16| i256::from_i128(i128::from(n));
        for (digit, place) in self.places(scale)? {
            power = place.max(0);
            let (times, add) = shifted(digit, place)?;
            value = value.checked_mul(wide(times))?.checked_add(wide(add))?;
        }
        if value != i256::ZERO {
            value = value.checked_mul(wide(10).checked_pow(power.unsigned_abs())?)?;
        }
        if self.sign == NEGATIVE { value.checked_neg() } else { Some(value) }
    }

    /// The digits, each with the power of ten of its last decimal place once the value is multiplied by 10^scale.
    fn places(&self, scale: i32) -> Option<impl Iterator<Item = (u16, i32)>> {
        let weight = self.weight;
        let digits = self.digits.chunks_exact(2).map(|d| u16::from_be_bytes([d[0], d[1]]));
        self.special().is_none().then(|| digits.zip(0i32..).map(move |(digit, i)| (digit, 4 * (weight - i) + scale)))
    }
}

/// What the value so far is multiplied with, and what is added, for a digit whose last place is 10^place. A digit that
/// crosses the point gives only its upper part, and must have zeros below; one wholly below must be zero.
fn shifted(digit: u16, place: i32) -> Option<(u16, u16)> {
    match place {
        0.. => Some((10_000, digit)),
        -3..0 => {
            let by = 10u16.pow(place.unsigned_abs());
            digit.is_multiple_of(by).then(|| (10_000 / by, digit / by))
        }
        _ => (digit == 0).then_some((1, 0)),
    }
}

fn four(digit: u16) -> [u8; 4] {
    let d = |by: u16| b'0' + (digit / by % 10) as u8;
    [d(1000), d(100), d(10), d(1)]
}

/// Why a text could not become a numeric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Not a number as the server reads them.
    Malformed,
    /// More digits than the server can hold.
    TooLong,
    /// Digits (not zeros) past the column's scale.
    Scale,
    /// More digits before the point than the column has.
    Precision,
}

/// A decimal number in text, taken apart: digits and where the point stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'a> {
    special: u16,
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Position of the point in `whole ++ fraction`.
    point: i64,
    dscale: i64,
    /// First and one past the last digit that is not zero.
    first: usize,
    end: usize,
}

impl<'a> Decimal<'a> {
    /// Reads what `numeric_in` (PostgreSQL 15) reads: sign, digits with an optional point, an exponent, NaN, infinity; spaces around.
    pub fn parse(text: &'a [u8]) -> Result<Self, Refused> {
        let text = text.trim_ascii();
        let (negative, body) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let special = if body.eq_ignore_ascii_case(b"nan") && body.len() == text.len() {
            NAN
        } else if body.eq_ignore_ascii_case(b"infinity") || body.eq_ignore_ascii_case(b"inf") {
            if negative { NEG_INF } else { POS_INF }
        } else {
            0
        };
        if special != 0 {
            return Ok(Self { special, negative, whole: &[], fraction: &[], point: 0, dscale: 0, first: 0, end: 0 });
        }
        let digits = |from: &'a [u8]| from.split_at(from.iter().position(|b| !b.is_ascii_digit()).unwrap_or(from.len()));
        let (whole, rest) = digits(body);
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', rest)) => digits(rest),
            _ => (&rest[..0], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(Refused::Malformed);
        }
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', exponent)) => parse_exponent(exponent)?,
            Some(_) => return Err(Refused::Malformed),
        };
        let length = whole.len() + fraction.len();
        let at = |i: usize| if i < whole.len() { whole[i] } else { fraction[i - whole.len()] };
        let first = (0..length).find(|&i| at(i) != b'0').unwrap_or(length);
        let end = (first..length).rev().find(|&i| at(i) != b'0').map_or(first, |i| i + 1);
        let point = whole.len() as i64 + exponent;
        let dscale = (fraction.len() as i64 - exponent).max(0);
        if dscale > MAX_DSCALE || (first < end && point - first as i64 > MAX_WEIGHT) {
            return Err(Refused::TooLong);
        }
        Ok(Self { special: 0, negative, whole, fraction, point, dscale, first, end })
    }

    /// Whether it is NaN or infinite.
    pub fn is_special(&self) -> bool {
        self.special != 0
    }

    fn at(&self, i: usize) -> u16 {
        let byte = if i < self.whole.len() { self.whole[i] } else { self.fraction[i - self.whole.len()] };
        u16::from(byte - b'0')
    }

    /// Checks that `numeric(precision, scale)` holds the value without rounding. NaN fits, infinity does not.
    pub fn fits(&self, precision: i32, scale: i32) -> Result<(), Refused> {
        if self.special != 0 {
            return if self.special == NAN { Ok(()) } else { Err(Refused::Precision) };
        }
        if self.first == self.end {
            return Ok(());
        }
        if self.point - self.end as i64 + i64::from(scale) < 0 {
            return Err(Refused::Scale);
        }
        if self.point - self.first as i64 > i64::from(precision - scale) {
            return Err(Refused::Precision);
        }
        Ok(())
    }

    /// The value rounded half away from zero to `scale` digits after the point and, where it is too large, the largest that
    /// `numeric(precision, scale)` holds: for `--on-lossy clamp`. `None` for NaN.
    pub fn clamped(&self, precision: i32, scale: i32) -> Option<String> {
        if self.special == NAN {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        let largest = || format!("{sign}{}e{}", "9".repeat(precision.max(0) as usize), -scale);
        if self.special != 0 || (self.first < self.end && self.point - self.first as i64 > i64::from(precision - scale)) {
            return Some(largest());
        }
        // Digits kept: those with a place value of at least 10^-scale.
        let keep = usize::try_from((self.point + i64::from(scale)).max(0)).ok()?.min(self.end);
        let mut digits: Vec<u8> = (0..keep).map(|i| self.at(i) as u8).collect();
        let next_place = self.point + i64::from(scale);
        let up = next_place >= 0 && keep < self.end && self.at(keep) >= 5 && next_place as usize == keep;
        let mut carry = u8::from(up);
        for digit in digits.iter_mut().rev() {
            *digit += carry;
            carry = *digit / 10;
            *digit %= 10;
        }
        if carry > 0 {
            digits.insert(0, 1);
        }
        let text: String = digits.iter().map(|d| char::from(b'0' + d)).collect();
        let exponent = self.point - keep as i64;
        let rounded = format!("{sign}{}e{exponent}", if text.is_empty() { "0" } else { &text });
        let fits = Decimal::parse(rounded.as_bytes()).is_ok_and(|d| d.fits(precision, scale).is_ok());
        Some(if fits { rounded } else { largest() })
    }

    /// Appends the binary form, without the length word.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        let (mut count, mut weight) = (0u16, 0i64);
        if self.special == 0 && self.first < self.end {
            let place = |i: usize| self.point - 1 - i as i64;
            weight = place(self.first).div_euclid(4);
            let mut current = weight;
            let mut digit = 0u16;
            for i in self.first..self.end {
                let place = place(i);
                if place.div_euclid(4) != current {
                    out.extend_from_slice(&digit.to_be_bytes());
                    (count, current, digit) = (count + 1, current - 1, 0);
                }
                digit += self.at(i) * [1, 10, 100, 1000][place.rem_euclid(4) as usize];
            }
            out.extend_from_slice(&digit.to_be_bytes());
            count += 1;
        }
        let sign = if self.special != 0 {
            self.special
        } else if self.negative && count > 0 {
            NEGATIVE
        } else {
            0
        };
        let head = &mut out[start..start + 8];
        head[0..2].copy_from_slice(&count.to_be_bytes());
        head[2..4].copy_from_slice(&(weight as i16).to_be_bytes());
        head[4..6].copy_from_slice(&sign.to_be_bytes());
        head[6..8].copy_from_slice(&(self.dscale as u16).to_be_bytes());
    }
}

/// A numeric of at most 64 bits as it goes over the wire.
pub struct Scaled {
    bytes: [u8; 8 + 2 * 6],
    length: usize,
}

impl Scaled {
    /// Head and digits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// `value` / 10^`scale`, as [`Decimal`] writes its text. `None`: more than 64 bits, or no clear fit for the column.
pub fn scaled(value: i128, scale: i8, typmod: Option<(i32, i32)>) -> Option<Scaled> {
    let scale = usize::try_from(scale).ok().filter(|scale| *scale <= 32)?;
    let size = value.unsigned_abs();
    if let Some((precision, places)) = typmod {
        let more = usize::try_from(places).ok()?.checked_sub(scale)?;
        let digits = usize::try_from(precision).ok()?.checked_sub(more)?;
        if digits < 20 && size >= 10u128.pow(digits as u32) {
            return None;
        }
    }
    let pad = (4 - scale % 4) % 4;
    let mut rest = u64::try_from(size).ok()?.checked_mul([1, 10, 100, 1000][pad])?;
    let mut groups = [0u16; 6];
    let mut count = 0;
    while rest > 0 {
        groups[count] = (rest % 10_000) as u16;
        rest /= 10_000;
        count += 1;
    }
    let zeros = groups[..count].iter().take_while(|group| **group == 0).count();
    let weight = if count == 0 { 0 } else { count as i16 - 1 - ((scale + pad) / 4) as i16 };
    let mut out = Scaled { bytes: [0; 20], length: 8 + 2 * (count - zeros) };
    out.bytes[0..2].copy_from_slice(&((count - zeros) as u16).to_be_bytes());
    out.bytes[2..4].copy_from_slice(&weight.to_be_bytes());
    out.bytes[4..6].copy_from_slice(&if value < 0 { NEGATIVE } else { 0u16 }.to_be_bytes());
    out.bytes[6..8].copy_from_slice(&(scale as u16).to_be_bytes());
    for (place, group) in groups[zeros..count].iter().rev().enumerate() {
        out.bytes[8 + 2 * place..][..2].copy_from_slice(&group.to_be_bytes());
    }
    Some(out)
}

fn parse_exponent(text: &[u8]) -> Result<i64, Refused> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refused::Malformed);
    }
    let value = digits.iter().try_fold(0i64, |n, d| (n < 1_000_000).then(|| n * 10 + i64::from(d - b'0')));
    let value = value.ok_or(Refused::TooLong)?;
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Decimal::parse(text.as_bytes()).unwrap().write(&mut out);
        out
    }

    fn through(text: &str) -> String {
        let bytes = wire(text);
        let mut out = Vec::new();
        Wire::parse(&bytes).unwrap().print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn num_04_text_to_binary_to_text_keeps_every_digit_and_the_scale() {
        for same in [
            "0",
            "1",
            "1.10",
            "1.50",
            "100",
            "0.00",
            "0.1000",
            "-0.5",
            "10000",
            "12345678901234567890.123456789012345678",
            "0.0001",
            "0.00001",
        ] {
            assert_eq!(through(same), same);
        }
        assert_eq!(through("1e-400"), format!("0.{}1", "0".repeat(399)));
        assert_eq!(through("1e130"), format!("1{}", "0".repeat(130)));
        assert_eq!(through("1.5e1"), "15");
        assert_eq!(through("-0.0"), "0.0");
        assert_eq!(through(" +.5 "), "0.5");
        assert_eq!(through("5."), "5");
        for special in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(through(special), special);
        }
        assert_eq!(through("-inf"), "-Infinity");
        for bad in ["", "-", ".", "1e", "1,213", "0x10", "1 2", "-nan", "1e999999999999"] {
            assert!(Decimal::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn sc_08_scale_and_precision_are_checked_not_rounded() {
        let fits = |text: &str, p, s| Decimal::parse(text.as_bytes()).unwrap().fits(p, s);
        assert_eq!(fits("1.2345", 10, 2), Err(Refused::Scale));
        assert_eq!(fits("1.2300", 10, 2), Ok(()));
        assert_eq!(fits("99999999.99", 10, 2), Ok(()));
        assert_eq!(fits("100000000", 10, 2), Err(Refused::Precision));
        assert_eq!(fits("1200", 2, -2), Ok(()));
        assert_eq!(fits("1250", 2, -2), Err(Refused::Scale));
        assert_eq!(fits("NaN", 2, 1), Ok(()));
        assert_eq!(fits("inf", 2, 1), Err(Refused::Precision));
        let clamp = |text: &str, p, s| through(&Decimal::parse(text.as_bytes()).unwrap().clamped(p, s).unwrap());
        assert_eq!(clamp("1.2345", 10, 2), "1.23");
        assert_eq!(clamp("-1.235", 10, 2), "-1.24");
        assert_eq!(clamp("9.999", 3, 2), "9.99");
        assert_eq!(clamp("0.009", 3, 2), "0.01");
        assert_eq!(clamp("0.0009", 3, 2), "0.00");
        assert_eq!(clamp("12345", 3, 0), "999");
    }

    #[test]
    fn num_03_decimals_are_exact_at_any_width() {
        let as_i128 = |text: &str, s| Wire::parse(&wire(text)).unwrap().to_i128(s);
        assert_eq!(as_i128("123.4567890123", 10), Some(1_234_567_890_123));
        assert_eq!(as_i128("-0.0000000001", 10), Some(-1));
        assert_eq!(as_i128("1.5", 0), None);
        assert_eq!(as_i128("NaN", 0), None);
        let big = "9999999999999999999999999999.9999999999";
        assert_eq!(as_i128(big, 10), Some(10i128.pow(38) - 1));
        let wide = "12345678901234567890123456789012345678901234567890.12";
        let value = Wire::parse(&wire(wide)).unwrap().to_i256(2).unwrap();
        assert_eq!(value.to_string(), wide.replace('.', ""));
    }

    #[test]
    fn the_short_way_is_the_long_one() {
        let mut values: Vec<i128> =
            vec![0, 1, -1, 9, 10, 9_999, 10_000, -10_001, 99_990_000, 123_456_789, i128::from(u64::MAX / 1000), 5_000_000_000_000];
        values.extend((0..18).map(|n| 10i128.pow(n)));
        values.extend((0..17).map(|n| -7 * 10i128.pow(n) - 3));
        for value in values {
            for scale in [0, 1, 2, 3, 4, 5, 8, 9, 18, 30] {
                let mut text = Vec::new();
                haul_formats::literal::print_decimal(&mut text, value, scale);
                let text = String::from_utf8(text).unwrap();
                let Some(short) = scaled(value, scale, None) else {
                    assert!(value.unsigned_abs() > u128::from(u64::MAX / 1000), "{text}");
                    continue;
                };
                assert_eq!(short.bytes(), wire(&text), "{text}");
                for typmod in [(38, 30), (15, 2), (4, 4), (10, 0), (1, 1)] {
                    let fits = Decimal::parse(text.as_bytes()).unwrap().fits(typmod.0, typmod.1).is_ok();
                    assert!(fits || scaled(value, scale, Some(typmod)).is_none(), "{text} into {typmod:?}");
                }
                assert!(scaled(value, scale, Some((60, 30))).is_some(), "{text}");
            }
        }
        assert!(scaled(i128::MAX, 0, None).is_none() && scaled(1, -1, None).is_none());
    }
}
