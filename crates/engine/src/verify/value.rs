//! Hashes of single values in their canonical form.
//!
//! Two representations of one value have one hash: that is what the functions here are for, and what their tests hold them to.

use super::canon::Canon;
use haul_formats::jsonl::json::{Cursor, JsonKind, unescape};
use haul_formats::literal::{
    parse_bool, parse_date, parse_f32, parse_f64, parse_hex, parse_i64, parse_time, parse_timestamp_nanos, parse_uuid,
};
use haul_model::digest::{NULL_HASH, hash_bytes, hash_wide, hash_word, join};

/// Arrays and objects of JSON are followed this deep; deeper ones are compared as text.
const DEEPEST: usize = 128;
const NOT_A_NUMBER: u64 = 0x7ff8_0000_0000_0000;

/// Buffers for values that must be rewritten to be hashed.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    unescaped: Vec<u8>,
    /// Keys and values of the JSON objects that are open.
    members: Vec<(u64, u64)>,
}

pub(crate) fn int(value: i64) -> u64 {
    hash_word(value as u64)
}

/// Integers past 63 bits have hashes of their own.
pub(crate) fn unsigned(value: u64) -> u64 {
    i64::try_from(value).map_or_else(|_| hash_wide(u128::from(value)), int)
}

/// All NaN are one; -0 is not 0.
pub(crate) fn float64(value: f64) -> u64 {
    hash_word(if value.is_nan() { NOT_A_NUMBER } else { value.to_bits() })
}

/// See [`float64`].
pub(crate) fn float32(value: f32) -> u64 {
    hash_word(if value.is_nan() { NOT_A_NUMBER } else { u64::from(value.to_bits()) })
}

/// A time of day in nanoseconds.
pub(crate) fn time(nanos: i64) -> u64 {
    hash_word(nanos as u64)
}

/// An instant, or a local time: microseconds since 1970, and nanoseconds past them.
pub(crate) fn timestamp(micros: i64, nanos: u16) -> u64 {
    if nanos == 0 { hash_word(micros as u64) } else { hash_wide(u128::from(micros as u64) << 16 | u128::from(nanos)) }
}

pub(crate) fn uuid(bytes: &[u8; 16]) -> u64 {
    hash_bytes(bytes)
}

/// `mantissa` * 10^`exponent`: 1.5 and 1.50 are one number.
pub(crate) fn number(negative: bool, mantissa: u128, exponent: i32) -> u64 {
    let (mut mantissa, mut exponent) = (mantissa, exponent);
    if mantissa == 0 {
        return sealed(hash_wide(0), false, 0);
    }
    if let Ok(mut small) = u64::try_from(mantissa) {
        while small.is_multiple_of(10) {
            small /= 10;
            exponent += 1;
        }
        return sealed(hash_wide(u128::from(small)), negative, exponent);
    }
    while mantissa.is_multiple_of(10) {
        mantissa /= 10;
        exponent += 1;
    }
    sealed(hash_wide(mantissa), negative, exponent)
}

/// An unscaled decimal.
pub(crate) fn decimal(unscaled: i128, scale: i8) -> u64 {
    number(unscaled < 0, unscaled.unsigned_abs(), -i32::from(scale))
}

fn sealed(digits: u64, negative: bool, exponent: i32) -> u64 {
    hash_word(digits ^ (u64::from(exponent as u32) << 1 | u64::from(negative)).rotate_left(20))
}

/// A number as text: sign, digits, point, exponent. `None`: it is none.
fn number_text(text: &[u8], digits: &mut Vec<u8>) -> Option<u64> {
    const MOST: usize = 38;
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let end = rest.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(rest.len());
    let mut exponent = if end < rest.len() {
        i32::try_from(parse_i64(rest.get(end + 1..)?.strip_prefix(b"+").unwrap_or(&rest[end + 1..])).ok()?).ok()?
    } else {
        0
    };
    let (mut point, mut any) = (false, false);
    digits.clear();
    for byte in &rest[..end] {
        match byte {
            b'0'..=b'9' => {
                any = true;
                exponent = exponent.checked_sub(i32::from(point))?;
                if !(digits.is_empty() && *byte == b'0') {
                    digits.push(*byte);
                }
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    if !any {
        return None;
    }
    while digits.last() == Some(&b'0') {
        digits.pop();
        exponent = exponent.checked_add(1)?;
    }
    if digits.len() <= MOST {
        return Some(number(negative, digits.iter().fold(0, |value, digit| value * 10 + u128::from(digit - b'0')), exponent));
    }
    Some(sealed(hash_bytes(digits), negative, exponent))
}

/// What is not a value of its canonical form (infinity as a date, an array of the server's): its own text, which no value has.
fn stray(text: &[u8]) -> u64 {
    hash_word(hash_bytes(text).rotate_left(17))
}

/// Without the blanks that fill a `char(n)` up.
fn unpadded(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

impl Scratch {
    /// Of a text that stands for a value of this form.
    #[inline]
    pub fn text(&mut self, canon: Canon, text: &[u8]) -> u64 {
        match canon {
            Canon::Text => return hash_bytes(text),
            Canon::Json => return self.json(text),
            Canon::Loose => return self.loose(text),
            Canon::Padded => return hash_bytes(unpadded(text)),
            Canon::Bytes => {
                self.bytes.clear();
                let hex = parse_hex(text, &mut self.bytes).is_ok();
                return if hex { hash_bytes(&self.bytes) } else { stray(text) };
            }
            _ => {}
        }
        self.scalar(canon, text).unwrap_or_else(|| stray(text))
    }

    fn scalar(&mut self, canon: Canon, text: &[u8]) -> Option<u64> {
        Some(match canon {
            Canon::Bool => hash_word(u64::from(parse_bool(text).ok()?)),
            Canon::Int => match parse_i64(text) {
                Ok(value) => int(value),
                Err(_) => unsigned(haul_formats::literal::parse_u64(text).ok()?),
            },
            Canon::Number => return number_text(text, &mut self.bytes),
            Canon::Float32 => float32(parse_f32(text).ok()?),
            Canon::Float64 => float64(parse_f64(text).ok()?),
            Canon::Uuid => uuid(&parse_uuid(text).ok()?),
            Canon::Date => int(i64::from(parse_date(text).ok()?)),
            Canon::Time => time(parse_time(text).ok()? * 1000),
            Canon::Timestamp => {
                let parsed = parse_timestamp_nanos(text).ok()?;
                timestamp(parsed.micros, parsed.nanos)
            }
            Canon::Text | Canon::Padded | Canon::Json | Canon::Loose | Canon::Bytes => return None,
        })
    }

    /// Of a JSON token that stands for a value of this form: `null` for NULL, a string for its text.
    pub fn token(&mut self, canon: Canon, token: &[u8]) -> u64 {
        if matches!(canon, Canon::Json) {
            return self.json(token);
        }
        match token {
            b"null" => NULL_HASH,
            [b'"', inside @ .., b'"'] if !inside.contains(&b'\\') => self.text(canon, inside),
            [b'"', inside @ .., b'"'] => {
                let mut text = std::mem::take(&mut self.unescaped);
                text.clear();
                let hash = unescape(inside, &mut text).map_or_else(|_| stray(token), |()| self.text(canon, &text));
                self.unescaped = text;
                hash
            }
            _ if matches!(canon, Canon::Text | Canon::Padded) => stray(token),
            other => self.text(canon, other),
        }
    }

    fn loose(&mut self, text: &[u8]) -> u64 {
        match text {
            b"null" => NULL_HASH,
            [b'"', inside @ .., b'"'] if Cursor::new(text).string().is_ok() => {
                self.bytes.clear();
                match unescape(inside, &mut self.bytes) {
                    Ok(()) => hash_bytes(&self.bytes),
                    Err(_) => hash_bytes(text),
                }
            }
            other => hash_bytes(other),
        }
    }

    /// JSON by its value: no white space, keys in any order and the last of a kind, numbers as decimals.
    pub fn json(&mut self, text: &[u8]) -> u64 {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        self.members.clear();
        let hash = self.json_value(&mut cursor, text, 0);
        cursor.skip_space();
        hash.filter(|_| cursor.at() == text.len()).unwrap_or_else(|| stray(text))
    }

    fn json_value(&mut self, cursor: &mut Cursor<'_>, text: &[u8], depth: usize) -> Option<u64> {
        match cursor.peek()? {
            b'{' if depth < DEEPEST => self.json_object(cursor, text, depth),
            b'[' if depth < DEEPEST => self.json_array(cursor, text, depth),
            b'"' => Some(hash_word(self.json_string(cursor, text)?)),
            _ => {
                let start = cursor.at();
                Some(match cursor.value().ok()? {
                    JsonKind::Null => hash_word(0x2e11),
                    JsonKind::Bool(value) => hash_word(0xb001 + u64::from(value)),
                    JsonKind::Integer | JsonKind::Number => number_text(text.get(start..cursor.at())?, &mut self.bytes)?,
                    _ => return None,
                })
            }
        }
    }

    fn json_string(&mut self, cursor: &mut Cursor<'_>, text: &[u8]) -> Option<u64> {
        let start = cursor.at() + 1;
        let escaped = cursor.string().ok()?;
        let inside = text.get(start..cursor.at() - 1)?;
        if !escaped {
            return Some(hash_bytes(inside));
        }
        self.bytes.clear();
        unescape(inside, &mut self.bytes).ok()?;
        Some(hash_bytes(&self.bytes))
    }

    fn json_array(&mut self, cursor: &mut Cursor<'_>, text: &[u8], depth: usize) -> Option<u64> {
        cursor.expect(b'[').ok()?;
        cursor.skip_space();
        let mut hash = 0xa88a;
        while cursor.peek()? != b']' {
            hash = join(hash, self.json_value(cursor, text, depth + 1)?);
            separator(cursor, b']')?;
        }
        cursor.expect(b']').ok()?;
        Some(hash_word(hash))
    }

    fn json_object(&mut self, cursor: &mut Cursor<'_>, text: &[u8], depth: usize) -> Option<u64> {
        cursor.expect(b'{').ok()?;
        cursor.skip_space();
        let base = self.members.len();
        while cursor.peek()? != b'}' {
            let key = self.json_string(cursor, text)?;
            cursor.skip_space();
            cursor.expect(b':').ok()?;
            cursor.skip_space();
            let value = self.json_value(cursor, text, depth + 1)?;
            self.members.push((key, value));
            separator(cursor, b'}')?;
        }
        cursor.expect(b'}').ok()?;
        // Stable, so that of equal keys the last one stays last.
        self.members[base..].sort_by_key(|(key, _)| *key);
        let members = &self.members[base..];
        let hash = members.iter().enumerate().fold(0x0b1e, |hash, (i, (key, value))| match members.get(i + 1) {
            Some((next, _)) if next == key => hash,
            _ => join(join(hash, *key), *value),
        });
        self.members.truncate(base);
        Some(hash_word(hash))
    }
}

/// Goes past a comma, or stands at the end.
fn separator(cursor: &mut Cursor<'_>, end: u8) -> Option<()> {
    cursor.skip_space();
    if cursor.peek()? != end {
        cursor.expect(b',').ok()?;
        cursor.skip_space();
        // `[1,]` is no JSON.
        (cursor.peek()? != end).then_some(())?;
    }
    Some(())
}
