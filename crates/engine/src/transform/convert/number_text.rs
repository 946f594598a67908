//! Numbers that stay text, and whether a float says the same as its text.

use haul_formats::literal::{LiteralError, parse_decimal};

/// Whether PostgreSQL's `numeric` reads it: digits with an optional sign, point and exponent; NaN, infinity.
pub(in crate::transform) fn is_numeric(text: &[u8]) -> bool {
    let word = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    match word.first() {
        Some(b'0'..=b'9' | b'.') => !matches!(parse_decimal(text, 38, 0), Err(LiteralError::Malformed)),
        Some(b'n' | b'N') => text.len() == 3 && text.eq_ignore_ascii_case(b"nan"),
        Some(b'i' | b'I') => word.eq_ignore_ascii_case(b"infinity") || word.eq_ignore_ascii_case(b"inf"),
        _ => false,
    }
}

/// Whether it is a number as JSON writes them (RFC 8259 section 6).
pub(crate) fn is_json_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return false;
    }
    let mut rest = &text[whole..];
    if let [b'.', fraction @ ..] = rest {
        let n = digits(fraction);
        if n == 0 {
            return false;
        }
        rest = &fraction[n..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let n = digits(exponent);
        if n == 0 {
            return false;
        }
        rest = &exponent[n..];
    }
    rest.is_empty()
}

/// Whether `value`, the double nearest to `text`, printed with as many digits as `text` has gives them again. True for every number
/// of up to 15 digits in the normal range, for every text that some program printed from a double, and for NaN and infinity.
pub(super) fn double_holds(text: &[u8], value: f64) -> bool {
    // Longer texts only: sign, point and 15 digits need 17 bytes at the most.
    (text.len() <= 15 && value.is_normal()) || same_digits(text, value.is_normal(), 15, value.is_finite(), |n| format!("{value:.n$e}"))
}

/// [`double_holds`] for single precision: 6 digits.
pub(super) fn single_holds(text: &[u8], value: f32) -> bool {
    (text.len() <= 6 && value.is_normal()) || same_digits(text, value.is_normal(), 6, value.is_finite(), |n| format!("{value:.n$e}"))
}

/// `print(n)` prints the float in exponent form with `n` digits behind the first, correctly rounded.
fn same_digits(text: &[u8], normal: bool, safe: usize, finite: bool, print: impl Fn(usize) -> String) -> bool {
    let digits = significant(text);
    if !finite || digits.is_empty() || (normal && digits.len() <= safe) {
        return true;
    }
    significant(print(digits.len() - 1).as_bytes()) == digits
}

/// The digits of the mantissa without leading and trailing zeros.
fn significant(text: &[u8]) -> Vec<u8> {
    let mantissa = text.iter().take_while(|b| !matches!(b, b'e' | b'E')).filter(|b| b.is_ascii_digit());
    let mut digits: Vec<u8> = mantissa.copied().skip_while(|b| *b == b'0').collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_formats::literal::{parse_f32, parse_f64};

    #[test]
    fn json_numbers_as_serde_sees_them() {
        for text in [
            "0", "-0", "1", "10", "01", "-", "+1", "1.", ".5", "1.0", "1e5", "1E+5", "1e-5", "1e", "1e+", "0.5e1", "00", "-01", "1.e5",
            "NaN", "", "1 ", "0x1", "1_0", "1.5.5",
        ] {
            assert_eq!(
                is_json_number(text.as_bytes()),
                serde_json::from_str::<serde_json::Number>(text).is_ok() && !text.ends_with(' '),
                "{text}"
            );
        }
        assert!(is_json_number(b"1E400"));
    }

    #[test]
    fn numeric_takes_what_postgres_takes() {
        for text in
            ["1", "-1.50", "+.5", "5.", "1e-130", "1E400", "NaN", "-Infinity", "inf", "12345678901234567890123456789012345678901234567890"]
        {
            assert!(is_numeric(text.as_bytes()), "{text}");
        }
        for text in ["", "-", ".", "1,213", "e5", "-NaN", "0x10", "1 000", "five", "infinit"] {
            assert!(!is_numeric(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn doubles_hold_what_they_print() {
        let holds = |text: &str| double_holds(text.as_bytes(), parse_f64(text.as_bytes()).unwrap());
        for text in [
            "0",
            "0.0",
            "-0",
            "0.1",
            "0.10000000000000001",
            "0.1000000000000000055511151231257827",
            "1e300",
            "5e-324",
            "4.9406564584124654e-324",
            "9007199254740992",
            "NaN",
            "-Infinity",
            "1797.6931348623157",
            "9007199254740993.0e0",
        ] {
            let expected = text != "9007199254740993.0e0";
            assert_eq!(holds(text), expected, "{text}");
        }
        for text in ["9007199254740993", "3.14159265358979323846", "123.4567890123456789", "1.2345e-323"] {
            assert!(!holds(text), "{text}");
        }
    }

    #[test]
    fn singles_hold_what_they_print() {
        let holds = |text: &str| single_holds(text.as_bytes(), parse_f32(text.as_bytes()).unwrap());
        for text in ["0.1", "0.100000001", "16777216", "1.17549435e-38", "1e-45"] {
            assert!(holds(text), "{text}");
        }
        for text in ["16777217", "0.123456789", "3.14159265"] {
            assert!(!holds(text), "{text}");
        }
    }
}
