//! `--on-lossy clamp`: the nearest value that the column can hold.

use super::datetime::{self, DAY_MICROS, MAX_DAY, MIN_DAY, Moment};
use super::encode_source::{Source, Values, print};
use super::encode_value::write_text;
use super::numeric::Decimal;
use super::target::{Limit, Target};
use haul_formats::literal;

/// Appends the field with the nearest value; `false` (and nothing appended) when there is none.
pub(super) fn clamp(target: &Target, source: &Source<'_>, row: usize, out: &mut Vec<u8>) -> bool {
    let mut text = Vec::new();
    let printed = match &source.values {
        Values::Json { text: json, .. } => match super::encode_json::look(json.value(row)) {
            Some(super::encode_json::Json::Scalar(scalar)) => {
                text.extend_from_slice(&scalar);
                true
            }
            _ => false,
        },
        values => print(values, row, &mut text),
    };
    let Some(nearest) = printed.then(|| nearest(target, &text)).flatten() else { return false };
    let start = out.len();
    if write_text(target, &nearest, out).is_err() {
        out.truncate(start);
        return false;
    }
    true
}

/// The text of the nearest value that the column takes.
pub(super) fn nearest(target: &Target, text: &[u8]) -> Option<Vec<u8>> {
    let integer = |least: i64, most: i64| {
        let rounded = Decimal::parse(text).ok()?.clamped(30, 0)?;
        let value = whole(&rounded)?.clamp(i128::from(least), i128::from(most));
        Some(value.to_string().into_bytes())
    };
    match target {
        Target::Int2 => integer(i64::from(i16::MIN), i64::from(i16::MAX)),
        Target::Int4 => integer(i64::from(i32::MIN), i64::from(i32::MAX)),
        Target::Int8 => integer(i64::MIN, i64::MAX),
        Target::Oid => integer(0, i64::from(u32::MAX)),
        Target::Float4 => {
            let wide: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
            let mut out = Vec::new();
            literal::print_f32(&mut out, (wide as f32).clamp(f32::MIN, f32::MAX));
            Some(out)
        }
        Target::Float8 => {
            let wide: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
            let mut out = Vec::new();
            literal::print_f64(&mut out, wide.clamp(f64::MIN, f64::MAX));
            Some(out)
        }
        Target::Numeric(Some((precision, scale))) => Some(Decimal::parse(text).ok()?.clamped(*precision, *scale)?.into_bytes()),
        Target::Text(Limit::Varchar(n) | Limit::Char(n)) => {
            let text = std::str::from_utf8(text).ok().filter(|t| !t.contains('\0'))?;
            Some(text.chars().take(*n).collect::<String>().into_bytes())
        }
        Target::Date | Target::Timestamp { .. } | Target::Time(_) => nearest_time(target, text),
        _ => None,
    }
}

fn whole(decimal: &str) -> Option<i128> {
    let mut wire = Vec::new();
    Decimal::parse(decimal.as_bytes()).ok()?.write(&mut wire);
    super::numeric::Wire::parse(&wire)?.to_i128(0)
}

fn nearest_time(target: &Target, text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let cut = |micros: i64, digits: u8| micros - micros.rem_euclid(10i64.pow(6 - u32::from(digits.min(6))));
    // Digits past the sixth are dropped before the rest is read.
    let text = without_nanos(text);
    if let Target::Time(digits) = target {
        datetime::print_time(cut(datetime::parse_time(&text)?, *digits), &mut out);
        return Some(out);
    }
    let Moment::At { day, clock, offset } = datetime::parse_moment(&text)? else { return None };
    match target {
        Target::Date if offset.is_none() => datetime::print_date(day.clamp(i64::from(MIN_DAY), i64::from(MAX_DAY)) as i32, &mut out),
        Target::Timestamp { zone, digits } if *zone == offset.is_some() => {
            let micros = day.checked_mul(DAY_MICROS)?.checked_add(clock.unwrap_or(0))? - offset.unwrap_or(0) * 1_000_000;
            let micros = micros.clamp(datetime::MIN_MICROS, datetime::END_MICROS - 1);
            datetime::print_timestamp(cut(micros, *digits), *zone, &mut out);
        }
        _ => return None,
    }
    Some(out)
}

fn without_nanos(text: &[u8]) -> Vec<u8> {
    let Some(point) = text.iter().position(|b| *b == b'.') else { return text.to_vec() };
    let digits = text[point + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut out = text[..point + 1 + digits.min(6)].to_vec();
    out.extend_from_slice(&text[point + 1 + digits..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_value_of_each_kind() {
        let near = |target: Target, text: &str| nearest(&target, text.as_bytes()).map(|t| String::from_utf8(t).unwrap());
        assert_eq!(near(Target::Int4, "5000000000").unwrap(), "2147483647");
        assert_eq!(near(Target::Int2, "-2.5").unwrap(), "-3");
        assert_eq!(near(Target::Oid, "-1").unwrap(), "0");
        assert_eq!(near(Target::Numeric(Some((10, 2))), "1.2345").unwrap().parse::<f64>().unwrap(), 1.23);
        assert_eq!(near(Target::Text(Limit::Varchar(2)), "éàü").unwrap(), "éà");
        assert_eq!(near(Target::Float4, "1e300").unwrap(), "3.4028235e+38");
        assert_eq!(near(Target::Date, "2020-01-31T12:00:00").unwrap(), "2020-01-31");
        let stamp = Target::Timestamp { zone: true, digits: 3 };
        assert_eq!(near(stamp, "2020-01-31T12:00:00.123456789Z").unwrap(), "2020-01-31T12:00:00.123Z");
        assert_eq!(near(Target::Bool, "maybe"), None);
    }
}
