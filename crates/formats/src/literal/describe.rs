//! What a text looks like, for error messages that must not quote it.

use super::{LiteralError, parse_date, parse_f64, parse_time, parse_timestamp_nanos, parse_uuid};

/// The kind of value that a text looks like, with its article: `a decimal number`, `a date`, `text`.
pub fn describe_value_kind(text: &[u8]) -> &'static str {
    let trimmed = text.trim_ascii();
    if text.is_empty() {
        "an empty string"
    } else if trimmed.is_empty() {
        "only blanks"
    } else if trimmed.len() < text.len() && is_number(trimmed) {
        "a number with blanks around it"
    } else if is_number(text) {
        describe_number(text)
    } else {
        describe_word(text)
    }
}

fn is_number(text: &[u8]) -> bool {
    text.iter().any(u8::is_ascii_digit) && !matches!(parse_f64(text), Err(LiteralError::Malformed))
}

fn describe_number(text: &[u8]) -> &'static str {
    let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        "a number with an exponent"
    } else if text.contains(&b'.') {
        "a decimal number"
    } else if unsigned.len() > 1 && unsigned.starts_with(b"0") {
        "a whole number with leading zeros"
    } else {
        "a whole number"
    }
}

fn describe_word(text: &[u8]) -> &'static str {
    let known = |result: Result<(), LiteralError>| result != Err(LiteralError::Malformed);
    let is = |words: &[&[u8]]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&[b"true", b"false"]) {
        "a boolean"
    } else if is(&[b"nan", b"+nan", b"-nan"]) {
        "NaN"
    } else if is(&[b"inf", b"+inf", b"-inf", b"infinity", b"+infinity", b"-infinity"]) {
        "infinity"
    } else if is(&[b"null"]) {
        "the word null"
    } else if known(parse_date(text).map(drop)) {
        "a date"
    } else if known(parse_time(text).map(drop)) {
        "a time"
    } else if known(parse_timestamp_nanos(text).map(drop)) {
        "a timestamp"
    } else if parse_uuid(text).is_ok() {
        "a UUID"
    } else if has_group_signs(text) {
        "a number with a comma"
    } else if matches!(text, [b'{', .., b'}'] | [b'[', .., b']']) {
        "JSON text"
    } else {
        "text"
    }
}

/// `1,213` or `1.213,50`: digits with commas among them.
fn has_group_signs(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let only = digits.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.'));
    only && digits.contains(&b',') && digits.first().is_some_and(u8::is_ascii_digit)
}
