//! Oracles: jiff for the calendar, the standard library for numbers, round trips for the rest.

use super::LiteralError::{Malformed, OutOfRange, TooPrecise};
use super::*;
use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use proptest::prelude::*;

fn printed(print: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = b"|".to_vec();
    print(&mut out);
    String::from_utf8(out).unwrap()[1..].to_string()
}

#[test]
fn civil_agrees_with_jiff_on_every_day_it_knows() {
    let mut date = jiff::civil::Date::MIN;
    let start = days_from_civil(date.year().into(), date.month() as u32, date.day() as u32);
    for days in start.. {
        let (year, month, day) = (i32::from(date.year()), date.month() as u32, date.day() as u32);
        assert_eq!(civil_from_days(days), (i64::from(year), month, day), "day {days}");
        assert_eq!(days_from_civil(year, month, day), days);
        assert_eq!(days_in_month(year, month), date.days_in_month() as u32);
        match date.tomorrow() {
            Ok(next) => date = next,
            Err(_) => break,
        }
    }
    assert_eq!(days_from_civil(1970, 1, 1), 0);
}

#[test]
fn civil_holds_at_the_ends_of_the_types() {
    assert_eq!(civil_from_days(i32::MAX.into()), (5_881_580, 7, 11));
    assert_eq!(civil_from_days(i32::MIN.into()), (-5_877_641, 6, 23));
    assert_eq!(printed(|o| print_date(o, i32::MAX)), "5881580-07-11");
    assert_eq!(printed(|o| print_date(o, i32::MIN)), "5877642-06-23 BC");
    for value in [i64::MIN, i64::MAX] {
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            assert!(printed(|o| print_timestamp(o, value, unit, true)).len() > 15);
        }
    }
    assert_eq!(printed(|o| print_timestamp(o, i64::MAX, TimeUnit::Nanosecond, false)), "2262-04-11T23:47:16.854775807");
    assert_eq!(printed(|o| print_timestamp(o, i64::MIN, TimeUnit::Nanosecond, true)), "1677-09-21T00:12:43.145224192Z");
    assert_eq!(printed(|o| print_timestamp(o, i64::MAX, TimeUnit::Microsecond, true)), "294247-01-10T04:00:54.775807Z");
}

proptest! {
    #[test]
    fn civil_round_trips_over_all_i32_days(days: i32) {
        let (year, month, day) = civil_from_days(days.into());
        prop_assert_eq!(days_from_civil(year as i32, month, day), i64::from(days));
        let text = printed(|o| print_date(o, days));
        prop_assert_eq!(parse_date(text.as_bytes()), Ok(days), "{}", text);
    }

    #[test]
    fn integers_round_trip(value: i64, unsigned: u64) {
        prop_assert_eq!(parse_i64(printed(|o| print_i64(o, value)).as_bytes()), Ok(value));
        prop_assert_eq!(parse_u64(printed(|o| print_u64(o, unsigned)).as_bytes()), Ok(unsigned));
    }

    #[test]
    fn integers_agree_with_the_standard_library(text in "[+-]?[0-9]{0,22}") {
        prop_assert_eq!(parse_i64(text.as_bytes()).ok(), text.parse::<i64>().ok());
    }

    #[test]
    fn floats_round_trip_bit_for_bit(bits: u64, single: u32) {
        let value = f64::from_bits(bits);
        let text = printed(|o| print_f64(o, value));
        let back = parse_f64(text.as_bytes()).unwrap();
        prop_assert!(back.to_bits() == bits || value.is_nan() && back.is_nan(), "{}", text);
        if value.is_finite() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{} is JSON", text);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        }
        let value = f32::from_bits(single);
        let text = printed(|o| print_f32(o, value));
        let back = parse_f32(text.as_bytes()).unwrap();
        prop_assert!(back.to_bits() == single || value.is_nan() && back.is_nan(), "{}", text);
    }

    #[test]
    fn decimals_round_trip(unscaled in -99_999_999_999_999_999_999_999_999_999_999_999_999i128..=99_999_999_999_999_999_999_999_999_999_999_999_999, shift in 0u32..38, scale in -20i8..=38) {
        let unscaled = unscaled / 10i128.pow(shift);
        let text = printed(|o| print_decimal(o, unscaled, scale));
        prop_assert_eq!(parse_decimal(text.as_bytes(), 38, scale), Ok(unscaled), "{}", text);
        let wide = i256::from_i128(unscaled);
        prop_assert_eq!(printed(|o| print_decimal256(o, wide, scale)), text.clone());
        prop_assert_eq!(parse_decimal256(text.as_bytes(), 76, scale), Ok(wide));
    }

    #[test]
    fn wide_decimals_round_trip(low: u128, high in -(1i128 << 123)..(1i128 << 123), scale in -20i8..=76) {
        let value = i256::from_parts(low, high);
        let text = printed(|o| print_decimal256(o, value, scale));
        let plain = value.to_string();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let expected = plain.trim_start_matches('-').trim_end_matches('0');
        prop_assert_eq!(digits.trim_start_matches('0').trim_end_matches('0'), expected);
        if plain.trim_start_matches('-').len() <= 76 {
            prop_assert_eq!(parse_decimal256(text.as_bytes(), 76, scale), Ok(value), "{}", text);
        }
    }

    #[test]
    fn times_round_trip(micros in 0i64..=86_400_000_000) {
        let text = printed(|o| print_time(o, micros));
        prop_assert_eq!(parse_time(text.as_bytes()), Ok(micros), "{}", text);
    }

    #[test]
    fn timestamps_round_trip(micros: i64, utc: bool, sql: bool) {
        let text = printed(|o| {
            if sql { print_timestamp_sql(o, micros, TimeUnit::Microsecond, utc) } else { print_timestamp(o, micros, TimeUnit::Microsecond, utc) }
        });
        let parsed = parse_timestamp(text.as_bytes()).unwrap();
        prop_assert_eq!((parsed.micros, parsed.offset_seconds), (micros, utc.then_some(0)), "{}", text);
    }

    #[test]
    fn plain_timestamps_agree_with_jiff(second in -62_135_596_800i64..253_402_207_200) {
        let text = jiff::Timestamp::from_second(second).unwrap().to_string();
        prop_assert_eq!(printed(|o| print_timestamp(o, second, TimeUnit::Second, true)), text.clone());
        prop_assert_eq!(parse_timestamp(text.as_bytes()).unwrap().micros, second * 1_000_000);
    }

    #[test]
    fn the_fast_path_agrees_with_the_general_one(change in 0usize..20, byte: u8) {
        let mut text = *b"2024-02-29T23:59:58Z";
        text[change] = byte;
        let slow = parse_timestamp_nanos(&text);
        prop_assert_eq!(parse_timestamp(&text), slow, "{:?}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..40), likely in "[-+0-9.:eETZ \\\\xBC{}a-f]{0,40}", precision in 1u8..=38, scale: i8) {
        for text in [text.as_slice(), likely.as_bytes()] {
            let _ = (parse_i64(text), parse_u64(text), parse_f64(text), parse_f32(text), parse_bool(text));
            let _ = (parse_decimal(text, precision, scale), parse_decimal256(text, precision, scale), parse_uuid(text));
            let _ = (parse_date(text), parse_time(text), parse_timestamp(text), parse_hex(text, &mut Vec::new()));
            prop_assert!(!describe_value_kind(text).is_empty());
        }
    }

    #[test]
    fn uuids_and_bytes_round_trip(uuid: [u8; 16], bytes: Vec<u8>) {
        let text = printed(|o| print_uuid(o, &uuid));
        prop_assert_eq!(parse_uuid(text.as_bytes()), Ok(uuid));
        prop_assert_eq!(parse_uuid(format!("{{{}}}", text.to_uppercase().replace('-', "")).as_bytes()), Ok(uuid));
        let text = printed(|o| print_hex(o, &bytes));
        let mut back = Vec::new();
        parse_hex(text.as_bytes(), &mut back).unwrap();
        prop_assert_eq!(back, bytes);
    }
}

#[test]
fn numbers_print_as_json_readers_expect() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (9999.99, "9999.99"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (1.5e-7, "1.5e-7"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
        (123456789.0, "123456789.0"),
    ] {
        assert_eq!(printed(|o| print_f64(o, value)), text);
    }
    assert_eq!(printed(|o| print_f32(o, 0.1)), "0.1");
    assert_eq!(printed(|o| print_f32(o, f32::NEG_INFINITY)), "-Infinity");
}

#[test]
fn integers_are_strict() {
    assert_eq!(parse_i64(b"-9223372036854775808"), Ok(i64::MIN));
    assert_eq!(parse_i64(b"9223372036854775808"), Err(OutOfRange));
    assert_eq!(parse_i64(b"+0000000000000000000000000007"), Ok(7));
    assert_eq!(parse_u64(b"18446744073709551615"), Ok(u64::MAX));
    assert_eq!(parse_u64(b"18446744073709551616"), Err(OutOfRange));
    assert_eq!(parse_u64(b"-1"), Err(OutOfRange));
    for text in ["", "-", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "1_000"] {
        assert_eq!(parse_i64(text.as_bytes()), Err(Malformed), "{text:?}");
    }
}

#[test]
fn floats_follow_postgres_at_the_extremes() {
    assert!(parse_f64(b"nAn").unwrap().is_nan());
    for text in ["Infinity", "inf", "+INF", "INFINITY"] {
        assert_eq!(parse_f64(text.as_bytes()), Ok(f64::INFINITY), "{text}");
    }
    assert_eq!(parse_f64(b"-infinity"), Ok(f64::NEG_INFINITY));
    assert_eq!(parse_f64(b"1e400"), Err(OutOfRange));
    assert_eq!(parse_f64(b"-1e-400"), Err(OutOfRange));
    assert_eq!(parse_f64(b"0e400"), Ok(0.0));
    assert_eq!(parse_f64(b"5e-324"), Ok(5e-324));
    assert_eq!(parse_f32(b"1e39"), Err(OutOfRange));
    assert_eq!(parse_f64(b"+1.5"), Ok(1.5));
    for text in ["", ".", "1,5", " 1", "1 ", "infinit", "1e"] {
        assert_eq!(parse_f64(text.as_bytes()), Err(Malformed), "{text:?}");
    }
}

#[test]
fn booleans_take_every_unambiguous_beginning() {
    for (yes, no) in [("t", "f"), ("TRUE", "False"), ("tr", "fals"), ("y", "n"), ("yes", "no"), ("on", "off"), ("1", "0"), ("ON", "of")] {
        assert_eq!((parse_bool(yes.as_bytes()), parse_bool(no.as_bytes())), (Ok(true), Ok(false)), "{yes} {no}");
    }
    for text in ["", "o", "2", "truee", "ja"] {
        assert_eq!(parse_bool(text.as_bytes()), Err(Malformed), "{text:?}");
    }
}

#[test]
fn decimals_are_exact_or_refused() {
    for (text, precision, scale, expected) in [
        ("12.50", 4, 2, Ok(1250)),
        ("12.5", 4, 2, Ok(1250)),
        ("12.500000000000000000000000000000000000000000", 4, 2, Ok(1250)),
        ("12.505", 6, 2, Err(TooPrecise)),
        ("99.99", 4, 2, Ok(9999)),
        ("100.00", 4, 2, Err(OutOfRange)),
        ("-.5", 4, 2, Ok(-50)),
        ("5.", 4, 2, Ok(500)),
        ("1.25e3", 6, 2, Ok(125_000)),
        ("1250E-2", 6, 2, Ok(1250)),
        ("1e-3", 6, 2, Err(TooPrecise)),
        ("0e99999999999999999999", 6, 2, Ok(0)),
        ("0e-99999999999999999999", 6, 2, Ok(0)),
        ("1e99999999999999999999", 38, 2, Err(OutOfRange)),
        ("1e-99999999999999999999", 38, 2, Err(TooPrecise)),
        ("-0.00", 4, 2, Ok(0)),
        ("1200", 4, -2, Ok(12)),
        ("1234", 4, -2, Err(TooPrecise)),
        ("99999999999999999999999999999999999999", 38, 0, Ok(10i128.pow(38) - 1)),
        ("100000000000000000000000000000000000000", 38, 0, Err(OutOfRange)),
        ("0000000000000000000000000000000000000000000001", 1, 0, Ok(1)),
        ("NaN", 4, 2, Err(OutOfRange)),
        ("-Infinity", 4, 2, Err(OutOfRange)),
        ("", 4, 2, Err(Malformed)),
        (".", 4, 2, Err(Malformed)),
        ("1,5", 4, 2, Err(Malformed)),
        ("1e", 4, 2, Err(Malformed)),
        (" 1", 4, 2, Err(Malformed)),
    ] {
        assert_eq!(parse_decimal(text.as_bytes(), precision, scale), expected, "{text:?}");
        assert_eq!(parse_decimal256(text.as_bytes(), precision, scale), expected.map(i256::from_i128), "{text:?}");
    }
    assert_eq!(printed(|o| print_decimal(o, -1, 2)), "-0.01");
    assert_eq!(printed(|o| print_decimal(o, 0, 3)), "0.000");
    assert_eq!(printed(|o| print_decimal(o, 12, -2)), "1200");
    assert_eq!(printed(|o| print_decimal(o, 0, -2)), "0");
    assert_eq!(printed(|o| print_decimal(o, i128::MIN, 0)), i128::MIN.to_string());
    assert_eq!(printed(|o| print_decimal256(o, i256::MIN, 0)), i256::MIN.to_string());
}

#[test]
fn dates_and_times_follow_postgres() {
    assert_eq!(printed(|o| print_date(o, parse_date(b"0044-03-15 BC").unwrap())), "0044-03-15 BC");
    assert_eq!(parse_date(b"0001-01-01").map(|d| d - parse_date(b"0001-12-31 bc").unwrap()), Ok(1));
    assert_eq!(parse_date(b"1582-10-10").map(|d| d - parse_date(b"1582-10-04").unwrap()), Ok(6));
    assert_eq!(printed(|o| print_date(o, parse_date(b"5874897-12-31").unwrap())), "5874897-12-31");
    assert_eq!(parse_date(b"2024-02-30"), Err(OutOfRange));
    assert_eq!(parse_date(b"0000-01-01"), Err(OutOfRange));
    assert_eq!(parse_date(b"9999999-01-01"), Err(OutOfRange));
    assert_eq!(parse_date(b"infinity"), Err(OutOfRange));
    for text in ["", "2024-1-01", "24-01-01", "2024/01/01", "2024-01-01x", "12345678-01-01"] {
        assert_eq!(parse_date(text.as_bytes()), Err(Malformed), "{text:?}");
    }
    assert_eq!(printed(|o| print_time(o, 86_400_000_000)), "24:00:00");
    assert_eq!(parse_time(b"24:00:00"), Ok(86_400_000_000));
    assert_eq!(parse_time(b"09:30"), Ok(34_200_000_000));
    assert_eq!(parse_time(b"24:00:00.1"), Err(OutOfRange));
    assert_eq!(parse_time(b"23:59:60"), Err(OutOfRange));
    assert_eq!(parse_time(b"23:59:59.9999999"), Err(TooPrecise));
    assert_eq!(printed(|o| print_time_nanos(o, 1_000_000_001)), "00:00:01.000000001");
}

#[test]
fn timestamps_keep_zone_and_fraction() {
    let utc = |text: &str| parse_timestamp(text.as_bytes()).map(|p| (p.micros, p.offset_seconds));
    assert_eq!(utc("2020-01-01T00:00:43Z"), Ok((1_577_836_843_000_000, Some(0))));
    assert_eq!(utc("2020-01-01 00:00:43.5+00"), Ok((1_577_836_843_500_000, Some(0))));
    assert_eq!(utc("2020-01-01T05:30:43.500000000 +05:30"), Ok((1_577_836_843_500_000, Some(19_800))));
    assert_eq!(utc("2020-01-01T05:30:43+0530"), Ok((1_577_836_843_000_000, Some(19_800))));
    assert_eq!(utc("1890-01-01T00:00:00+00:19:32"), Ok((-2_524_522_772_000_000, Some(1_172))));
    assert_eq!(utc("2020-01-01 00:00 UTC"), Ok((1_577_836_800_000_000, Some(0))));
    assert_eq!(utc("2020-01-01"), Ok((1_577_836_800_000_000, None)));
    assert_eq!(utc("2019-12-31T24:00:00"), Ok((1_577_836_800_000_000, None)));
    assert_eq!(utc("2020-01-01T00:00:00.0000001Z"), Err(TooPrecise));
    assert_eq!(parse_timestamp_nanos(b"2020-01-01T00:00:00.000000123Z").unwrap().nanos, 123);
    assert_eq!(utc("2023-02-29T00:00:00Z"), Err(OutOfRange));
    assert_eq!(utc("2020-13-01T00:00:00Z"), Err(OutOfRange));
    assert_eq!(utc("2020-01-01T00:00:00+16"), Err(OutOfRange));
    assert_eq!(utc("2020-01-01T00:00:00 "), Err(Malformed));
    assert_eq!(utc("2020-01-01T00:00:00X"), Err(Malformed));
    assert_eq!(utc("294277-01-01T00:00:00Z"), Err(OutOfRange));
    let before_christ = utc("0044-03-15T00:00:00Z BC").unwrap().0;
    assert_eq!(printed(|o| print_timestamp(o, before_christ, TimeUnit::Microsecond, true)), "0044-03-15T00:00:00Z BC");
    assert_eq!(printed(|o| print_timestamp_sql(o, before_christ, TimeUnit::Microsecond, true)), "0044-03-15 00:00:00+00 BC");
}

#[test]
fn kinds_are_named_without_the_value() {
    for (text, kind) in [
        ("", "an empty string"),
        ("  ", "only blanks"),
        (" 7", "a number with blanks around it"),
        ("7", "a whole number"),
        ("007", "a whole number with leading zeros"),
        ("-7.5", "a decimal number"),
        ("1E5", "a number with an exponent"),
        ("1,213", "a number with a comma"),
        ("True", "a boolean"),
        ("NaN", "NaN"),
        ("-Infinity", "infinity"),
        ("NULL", "the word null"),
        ("2024-02-30", "a date"),
        ("12:30", "a time"),
        ("2024-01-01T00:00:00Z", "a timestamp"),
        ("00112233-4455-6677-8899-aabbccddeeff", "a UUID"),
        ("{\"a\":1}", "JSON text"),
        ("abc", "text"),
    ] {
        assert_eq!(describe_value_kind(text.as_bytes()), kind, "{text:?}");
    }
}

#[test]
fn a_refused_hex_text_leaves_the_buffer_alone() {
    let mut out = b"x".to_vec();
    for text in ["\\x0", "\\x0g", "00", "\\y00"] {
        assert_eq!(parse_hex(text.as_bytes(), &mut out), Err(Malformed), "{text}");
    }
    assert_eq!(out, b"x");
}
