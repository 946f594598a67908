//! Looking at values the way a JSON Schema does.

use super::parse::Kind;
use crate::transform::convert::number_text::is_json_number;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{Array, ArrayRef, StringViewArray};
use haul_formats::jsonl::json::{unescape, validate_json};
use haul_formats::jsonl::push_string;
use haul_formats::literal::{LiteralError, parse_date, parse_timestamp_nanos, parse_uuid};
use std::collections::HashSet;
use std::sync::Arc;

/// `format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// RFC 3339: date, `T`, time with seconds, zone.
    DateTime,
    /// RFC 3339's full-date.
    Date,
    /// RFC 9562, with hyphens.
    Uuid,
}

impl Format {
    /// Whether the text is written so. The text stays as it is.
    pub(super) fn holds(self, text: &[u8]) -> bool {
        match self {
            Self::DateTime => is_date_time(text),
            Self::Date => text.len() == 10 && parse_date(text).is_ok(),
            Self::Uuid => text.len() == 36 && parse_uuid(text).is_ok(),
        }
    }

    /// For sentences.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::DateTime => "a date-time such as 2020-01-31T09:30:00Z",
            Self::Date => "a date such as 2020-01-31",
            Self::Uuid => "a UUID",
        }
    }
}

/// Structure first; then the ranges, for which any number of fraction digits is fine.
fn is_date_time(text: &[u8]) -> bool {
    let Some((clock, rest)) = text.split_at_checked(19) else { return false };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| clock[*at] != *mark) || !matches!(clock[10], b'T' | b't') {
        return false;
    }
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            rest.split_at(digits)
        }
        _ => (&rest[..0], rest),
    };
    let zoned = match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    let known = |text: &[u8]| matches!(parse_timestamp_nanos(text), Ok(_) | Err(LiteralError::TooPrecise));
    // Beyond nanoseconds the digits are digits, whatever a timestamp would make of them.
    zoned && if fraction.len() > 9 { known(&[clock, zone].concat()) } else { known(text) }
}

/// The kind of a JSON value, from its first byte (and, for numbers, from whether it has a fraction or exponent).
fn kind_of(token: &[u8]) -> Option<Kind> {
    Some(match token.first()? {
        b'"' => Kind::String,
        b'{' => Kind::Object,
        b'[' => Kind::Array,
        b't' | b'f' => Kind::Boolean,
        b'n' => return None,
        _ if token.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) => Kind::Number,
        _ => Kind::Integer,
    })
}

/// What a JSON value is called in a sentence.
pub(super) fn describe(token: &[u8]) -> &'static str {
    kind_of(token).map_or("null", Kind::noun)
}

/// Whether a JSON value is of one of the kinds. `null` is, where `null` is allowed.
pub(super) fn is_one_of(token: &[u8], kinds: &[Kind], null: bool) -> bool {
    match kind_of(token) {
        None => null,
        Some(Kind::Integer) => kinds.contains(&Kind::Integer) || kinds.contains(&Kind::Number),
        Some(kind) => kinds.contains(&kind),
    }
}

/// Texts to JSON values: each becomes the first of `kinds` that its spelling allows.
pub(super) fn coerce(input: &StringViewArray, kinds: &[Kind], mut fail: impl FnMut(usize)) -> ArrayRef {
    let mut out = StringViewBuilder::with_capacity(input.len());
    let mut token = Vec::new();
    for row in 0..input.len() {
        if input.is_null(row) {
            out.append_null();
            continue;
        }
        let text = input.value(row);
        if let Some(kind) = kinds.iter().find(|kind| spells(text.as_bytes(), **kind)) {
            if *kind == Kind::String {
                token.clear();
                push_string(text.as_bytes(), &mut token);
                out.append_value(std::str::from_utf8(&token).expect("an escaped string is as valid as the string"));
            } else {
                out.append_value(text);
            }
        } else {
            fail(row);
            out.append_null();
        }
    }
    Arc::new(out.finish())
}

/// Whether the text, as it stands, is JSON of that kind (any text is a string).
fn spells(text: &[u8], kind: Kind) -> bool {
    let starts = |byte| text.first() == Some(&byte) && validate_json(text).is_ok();
    match kind {
        Kind::String => true,
        Kind::Boolean => matches!(text, b"true" | b"false"),
        Kind::Number => is_json_number(text),
        Kind::Integer => is_json_number(text) && kind_of(text) == Some(Kind::Integer),
        Kind::Object => starts(b'{'),
        Kind::Array => starts(b'['),
    }
}

/// `enum`: the values that are allowed. Numbers are equal when their values are (`1.0` and `1`), texts when their characters are.
#[derive(Debug)]
pub(super) struct Enumeration {
    keys: HashSet<Vec<u8>>,
    /// For messages.
    listing: String,
}

impl Enumeration {
    /// `None`: an object or array is among them.
    pub(super) fn new(values: &[serde_json::Value]) -> Option<Self> {
        let mut keys = HashSet::new();
        for value in values {
            if value.is_object() || value.is_array() {
                return None;
            }
            let mut key = Vec::new();
            json_key(value.to_string().as_bytes(), &mut key);
            keys.insert(key);
        }
        let listing: Vec<String> = values.iter().map(ToString::to_string).collect();
        Some(Self { keys, listing: listing.join(", ") })
    }

    /// The allowed values, as the schema writes them.
    pub(super) fn listing(&self) -> &str {
        &self.listing
    }

    /// Calls `fail` for each row whose value is not allowed. `json`: the column holds JSON, else texts. NULL passes.
    pub(super) fn check(&self, column: &StringViewArray, json: bool, mut fail: impl FnMut(usize)) {
        let mut key = Vec::new();
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            let value = column.value(row).as_bytes();
            key.clear();
            if json {
                json_key(value, &mut key);
            } else {
                key.push(b'"');
                key.extend_from_slice(value);
            }
            if !self.keys.contains(&key) {
                fail(row);
            }
        }
    }
}

/// Appends what equal values have in common.
fn json_key(token: &[u8], key: &mut Vec<u8>) {
    match token {
        [b'"', raw @ .., b'"'] => {
            key.push(b'"');
            if unescape(raw, key).is_err() {
                // Half of a surrogate pair: equal to nothing but its own spelling.
                key.clear();
                key.extend_from_slice(token);
            }
        }
        [b'-' | b'0'..=b'9', ..] => number_key(token, key),
        word => key.extend_from_slice(word),
    }
}

/// Sign, digits without zeros around them, and the power of ten of the last one.
fn number_key(token: &[u8], key: &mut Vec<u8>) {
    let (negative, token) = token.strip_prefix(b"-").map_or((false, token), |t| (true, t));
    let split = token.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(token.len());
    let (mantissa, exponent) = token.split_at(split);
    let exponent: i64 = std::str::from_utf8(exponent).ok().and_then(|e| e.get(1..)).and_then(|e| e.parse().ok()).unwrap_or(0);
    let fraction = mantissa.iter().position(|b| *b == b'.').map_or(0, |at| mantissa.len() - at - 1);
    let start = key.len();
    key.push(if negative { b'-' } else { b'+' });
    key.extend(mantissa.iter().filter(|b| b.is_ascii_digit()).skip_while(|b| **b == b'0'));
    let mut power = exponent.saturating_sub(fraction as i64);
    while key.last() == Some(&b'0') {
        key.pop();
        power += 1;
    }
    if key.len() == start + 1 {
        key.truncate(start);
        key.push(b'0');
        return;
    }
    key.push(b'e');
    haul_formats::literal::print_i64(key, power);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_times_as_rfc_3339_writes_them() {
        for text in
            ["2020-01-01T00:00:00Z", "2020-12-31t23:59:59.123456789012z", "2020-02-29T00:00:00.5+05:30", "0001-01-01T00:00:00-12:00"]
        {
            assert!(Format::DateTime.holds(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "2020-01-01",
            "2020-01-01 00:00:00Z",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00Z",
            "2020-01-01T00:00:00.Z",
            "2021-02-29T00:00:00Z",
            "2020-01-01T25:00:00Z",
            "2020-01-01T00:00:00+05",
            "2020-01-01T00:00:00+0530",
            "2020-13-01T00:00:00Z",
            "2020-01-01T00:00:00.5+ab:cd",
        ] {
            assert!(!Format::DateTime.holds(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn equal_numbers_have_equal_keys() {
        let key = |text: &str| {
            let mut key = Vec::new();
            json_key(text.as_bytes(), &mut key);
            key
        };
        for (a, b) in [("1", "1.0"), ("100", "1e2"), ("-0", "0.00"), ("0.015", "15E-3"), ("\"a\"", "\"\\u0061\"")] {
            assert_eq!(key(a), key(b), "{a} {b}");
        }
        for (a, b) in [("1", "-1"), ("1", "\"1\""), ("9007199254740993", "9007199254740992"), ("true", "\"true\""), ("10", "1")] {
            assert_ne!(key(a), key(b), "{a} {b}");
        }
    }
}
