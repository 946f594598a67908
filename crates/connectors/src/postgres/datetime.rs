//! PostgreSQL's dates and times: microseconds (days) since 2000-01-01, proleptic Gregorian, with two infinities.
//!
//! Text is ISO 8601 with `T` and, for timestamptz, `Z`; years before 1 as `0044-03-15 BC`; years past 9999 with all their
//! digits. The server reads all of it back exactly. Parsing takes only what means the same whatever the session's
//! DateStyle and TimeZone are; the rest is refused.

/// Days from 1970-01-01 to 2000-01-01.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub(super) const EPOCH_MICROS: i64 = 946_684_800_000_000;
pub(super) const DAY_MICROS: i64 = 86_400_000_000;
/// First day that the server holds: 4714-11-24 BC (Julian day 0).
pub(super) const MIN_DAY: i32 = -2_451_545;
/// Last `date`: 5874897-12-31.
pub(super) const MAX_DAY: i32 = 2_145_031_948;
/// Timestamps end before 294277-01-01 (exclusive).
pub(super) const END_MICROS: i64 = 9_223_371_331_200_000_000;
/// First timestamp: 4714-11-24 00:00:00 BC.
pub(super) const MIN_MICROS: i64 = -211_813_488_000_000_000;

/// Year (astronomical: 0 is 1 BC), month and day of a day number since 2000-01-01.
pub(super) fn civil(day: i32) -> (i64, u32, u32) {
    // Shift to days since 0000-03-01, count whole 400-year eras, then years and months that start in March.
    let z = i64::from(day) + 730_425;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Day number since 2000-01-01, `None` when there is no such day.
pub(super) fn day_of(year: i64, month: u32, day: u32) -> Option<i64> {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let length = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 730_425)
}

fn two(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

/// `YYYY-MM-DD`; whether ` BC` must follow.
fn print_day(day: i32, out: &mut Vec<u8>) -> bool {
    let (year, month, date) = civil(day);
    let (year, bc) = if year > 0 { (year, false) } else { (1 - year, true) };
    if year < 10_000 {
        two((year / 100) as u32, out);
        two((year % 100) as u32, out);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(year).as_bytes());
    }
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(date, out);
    bc
}

/// `HH:MM:SS[.ffffff]` without trailing zeros.
fn print_clock(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros / 1_000_000;
    two((seconds / 3600) as u32, out);
    out.push(b':');
    two((seconds / 60 % 60) as u32, out);
    out.push(b':');
    two((seconds % 60) as u32, out);
    let mut fraction = micros % 1_000_000;
    if fraction > 0 {
        out.push(b'.');
        let mut by = 100_000;
        while fraction > 0 {
            out.push(b'0' + (fraction / by) as u8);
            fraction %= by;
            by /= 10;
        }
    }
}

/// A `date`, days since 2000-01-01.
pub(super) fn print_date(day: i32, out: &mut Vec<u8>) {
    match day {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        _ => {
            if print_day(day, out) {
                out.extend_from_slice(b" BC");
            }
        }
    }
}

/// A `time`, microseconds since midnight (24:00:00 included).
pub(super) fn print_time(micros: i64, out: &mut Vec<u8>) {
    print_clock(micros, out);
}

/// 0001-01-01 and 10000-01-01.
const YEAR_1: i64 = -730_119 * DAY_MICROS;
const YEAR_10000: i64 = 2_921_940 * DAY_MICROS;

/// The day that was printed last, which the next timestamp of a table is often on, too.
#[derive(Debug, Clone)]
pub(super) struct LastDay {
    day: i32,
    /// `2020-01-31T`.
    text: [u8; 11],
}

impl Default for LastDay {
    fn default() -> Self {
        Self { day: 0, text: *b"2000-01-01T" }
    }
}

impl LastDay {
    /// The common case, written at once: four digits of year, no fraction.
    fn print_plain(&mut self, micros: i64, zone: bool, out: &mut Vec<u8>) {
        let (day, second) = (micros.div_euclid(DAY_MICROS) as i32, (micros.rem_euclid(DAY_MICROS) / 1_000_000) as u32);
        if day != self.day {
            let (year, month, date) = civil(day);
            let pairs = [year as u32 / 100, year as u32 % 100, month, date];
            for (at, value) in [0, 2, 5, 8].into_iter().zip(pairs) {
                self.text[at..at + 2].copy_from_slice(&two_digits(value));
            }
            self.day = day;
        }
        let mut text = *b"0000-00-00T00:00:00Z";
        text[..11].copy_from_slice(&self.text);
        text[11..13].copy_from_slice(&two_digits(second / 3600));
        text[14..16].copy_from_slice(&two_digits(second / 60 % 60));
        text[17..19].copy_from_slice(&two_digits(second % 60));
        let end = out.len() + 19 + usize::from(zone);
        out.extend_from_slice(&text);
        out.truncate(end);
    }

    /// As [`print_timestamp`].
    pub fn print_timestamp(&mut self, micros: i64, zone: bool, out: &mut Vec<u8>) {
        let whole_second = micros.rem_euclid(1_000_000) == 0;
        if whole_second && (YEAR_1..YEAR_10000).contains(&micros) {
            return self.print_plain(micros, zone, out);
        }
        print_any_timestamp(micros, zone, out);
    }
}

/// `value` below 100.
#[inline]
fn two_digits(value: u32) -> [u8; 2] {
    [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]
}

/// A `timestamp` or (`zone`) `timestamptz`, microseconds since 2000-01-01.
pub(super) fn print_timestamp(micros: i64, zone: bool, out: &mut Vec<u8>) {
    LastDay::default().print_timestamp(micros, zone, out);
}

/// Any timestamp: infinities, fractions, BC, years of more digits.
fn print_any_timestamp(micros: i64, zone: bool, out: &mut Vec<u8>) {
    match micros {
        i64::MAX => return out.extend_from_slice(b"infinity"),
        i64::MIN => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let bc = print_day(micros.div_euclid(DAY_MICROS) as i32, out);
    out.push(b'T');
    print_clock(micros.rem_euclid(DAY_MICROS), out);
    if zone {
        out.push(b'Z');
    }
    if bc {
        out.extend_from_slice(b" BC");
    }
}

/// A date and time as written, before anything is assumed about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// `infinity`.
    Infinity,
    /// `-infinity`.
    MinusInfinity,
    /// A day, the time of day in microseconds (if one was written), and the offset east of UTC in seconds (if one was written).
    At {
        /// Days since 2000-01-01.
        day: i64,
        /// Microseconds since midnight.
        clock: Option<i64>,
        /// Seconds east of UTC.
        offset: Option<i64>,
    },
}

/// Reads `2020-01-31[T12:34[:56[.123456]][Z|+01[:30[:15]]]][ BC]`, `infinity`, `-infinity`; spaces around. `None`: anything else.
pub(super) fn parse_moment(text: &[u8]) -> Option<Moment> {
    let text = text.trim_ascii();
    match text {
        b"infinity" | b"Infinity" | b"INFINITY" => return Some(Moment::Infinity),
        b"-infinity" | b"-Infinity" | b"-INFINITY" => return Some(Moment::MinusInfinity),
        _ => {}
    }
    let (text, bc) = match text.strip_suffix(b" BC") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let dash = text.iter().position(|b| *b == b'-')?;
    if !(4..=7).contains(&dash) {
        return None;
    }
    let year = i64::from(digits(&text[..dash])?);
    let rest = &text[dash..];
    let (b'-', m @ &[_, _], b'-', d @ &[_, _]) = (rest[0], rest.get(1..3)?, *rest.get(3)?, rest.get(4..6)?) else { return None };
    let year = match (year, bc) {
        (0, _) => return None,
        (year, true) => 1 - year,
        (year, false) => year,
    };
    let day = day_of(year, digits(m)?, digits(d)?)?;
    let rest = &rest[6..];
    if rest.is_empty() {
        return Some(Moment::At { day, clock: None, offset: None });
    }
    let (b'T' | b't' | b' ', rest) = rest.split_first()? else { return None };
    let (clock, rest) = parse_clock(rest)?;
    Some(Moment::At { day, clock: Some(clock), offset: parse_offset(rest)? })
}

/// `HH:MM[:SS[.f{1,6}]]` at the front; digits past the sixth must be zeros. 24:00:00 is allowed, 23:59:60 is not.
fn parse_clock(text: &[u8]) -> Option<(i64, &[u8])> {
    let (hour, minute) = (i64::from(digits(text.get(..2)?)?), i64::from(digits(text.get(3..5)?)?));
    if text[2] != b':' {
        return None;
    }
    let (mut micros, mut rest) = ((hour * 60 + minute) * 60_000_000, &text[5..]);
    let mut second = 0;
    if let Some((b':', after)) = rest.split_first() {
        second = i64::from(digits(after.get(..2)?)?);
        rest = &after[2..];
        micros += second * 1_000_000;
        if let Some((b'.', after)) = rest.split_first() {
            let length = after.iter().position(|b| !b.is_ascii_digit()).unwrap_or(after.len());
            let (fraction, after) = after.split_at(length);
            if fraction.is_empty() || fraction.iter().skip(6).any(|d| *d != b'0') {
                return None;
            }
            micros += (0..6).fold(0, |n, i| n * 10 + i64::from(fraction.get(i).map_or(0, |d| d - b'0')));
            rest = after;
        }
    }
    (minute < 60 && second < 60 && micros <= DAY_MICROS).then_some((micros, rest))
}

/// Nothing, `Z`, ` UTC`, or `+HH[:MM[:SS]]` (`+HHMM` too). The outer `None` means: not an offset.
fn parse_offset(text: &[u8]) -> Option<Option<i64>> {
    let (sign, rest) = match text {
        b"" => return Some(None),
        b"Z" | b"z" | b" UTC" | b"UTC" => return Some(Some(0)),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (h, m, s): (&[u8], &[u8], &[u8]) = match rest.len() {
        2 => (rest, b"0", b"0"),
        4 => (&rest[..2], &rest[2..], b"0"),
        5 if rest[2] == b':' => (&rest[..2], &rest[3..], b"0"),
        8 if rest[2] == b':' && rest[5] == b':' => (&rest[..2], &rest[3..5], &rest[6..]),
        _ => return None,
    };
    let (h, m, s) = (digits(h)?, digits(m)?, digits(s)?);
    (h < 16 && m < 60 && s < 60).then(|| Some(sign * i64::from(h * 3600 + m * 60 + s)))
}

/// A `time`: `HH:MM[:SS[.ffffff]]`, nothing behind it.
pub(super) fn parse_time(text: &[u8]) -> Option<i64> {
    let (micros, rest) = parse_clock(text.trim_ascii())?;
    rest.is_empty().then_some(micros)
}

fn digits(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(text: &str) -> i64 {
        match parse_moment(text.as_bytes()).unwrap() {
            Moment::Infinity => i64::MAX,
            Moment::MinusInfinity => i64::MIN,
            Moment::At { day, clock, offset } => day * DAY_MICROS + clock.unwrap_or(0) - offset.unwrap_or(0) * 1_000_000,
        }
    }

    #[test]
    fn dt_03_days_count_both_ways_through_year_1_and_the_leap_rules() {
        assert_eq!(day_of(2000, 1, 1), Some(0));
        assert_eq!(day_of(1970, 1, 1), Some(i64::from(-EPOCH_DAYS)));
        assert_eq!(day_of(-4713, 11, 24), Some(i64::from(MIN_DAY)));
        assert_eq!(day_of(5_874_897, 12, 31), Some(i64::from(MAX_DAY)));
        assert_eq!(day_of(1900, 2, 29), None);
        for day in (-2_451_545..3_000_000).step_by(37).chain(-400..400).chain([MIN_DAY, MAX_DAY]) {
            let (y, m, d) = civil(day);
            assert_eq!(day_of(y, m, d), Some(i64::from(day)));
        }
        assert_eq!(day_of(294_277, 1, 1).map(|d| d * DAY_MICROS), Some(END_MICROS));
        assert_eq!(i64::from(MIN_DAY) * DAY_MICROS, MIN_MICROS);
    }

    #[test]
    fn dt_07_print_and_parse_agree() {
        for text in [
            "2020-01-01T00:00:43Z",
            "2022-05-31T20:23:49.4Z",
            "2022-05-31T20:23:49.000001Z",
            "0044-03-15T00:00:00Z BC",
            "0001-01-01T00:00:00Z",
            "0001-12-31T23:59:59Z BC",
            "9999-12-31T23:59:59Z",
            "10000-01-01T00:00:00Z",
            "294276-12-31T23:59:59.999999Z",
            "4713-01-01T00:00:00Z BC",
            "infinity",
            "-infinity",
        ] {
            let mut out = Vec::new();
            print_timestamp(stamp(text), true, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert_eq!(stamp("2024-10-27 00:30:00+02"), stamp("2024-10-26T22:30Z"));
        assert_eq!(stamp("2024-10-27 00:30:00-05:30:15"), stamp("2024-10-27 06:00:15+0000"));
        for bad in [
            "2020-13-01",
            "2020-02-30",
            "20-01-01",
            "01/02/2020",
            "2020-01-01 25:00",
            "2020-01-01 00:00:60",
            "0000-01-01",
            "now",
            "2020-01-01T",
            "2020-01-01 00:00:00.1234567",
        ] {
            assert_eq!(parse_moment(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(parse_time(b"24:00:00"), Some(DAY_MICROS));
        assert_eq!(parse_time(b"24:00:01"), None);
        assert_eq!(parse_time(b"23:59:59.999999"), Some(DAY_MICROS - 1));
        assert_eq!(parse_time(b"12:00:00+01"), None);
    }
}
