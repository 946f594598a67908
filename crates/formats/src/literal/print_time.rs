//! Dates, times and timestamps to text.

use super::civil::civil_from_days;
use arrow_schema::TimeUnit;

/// `00` to `99`.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

#[inline]
fn pair(n: u32) -> [u8; 2] {
    PAIRS[(n % 100) as usize]
}

const DAY_SECONDS: i64 = 86_400;

/// Appends `2020-01-31`; years past 9999 with all their digits (`5874897-12-31`), years before 1 as `0044-03-15 BC`.
#[inline]
pub fn print_date(out: &mut Vec<u8>, days_since_1970: i32) {
    let before_christ = push_date(out, i64::from(days_since_1970));
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends year, month and day; tells whether ` BC` is due.
#[inline]
fn push_date(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = civil_from_days(days);
    let before_christ = year <= 0;
    let year = if before_christ { 1 - year } else { year };
    let mut text = *b"0000-00-00";
    text[5..7].copy_from_slice(&pair(month));
    text[8..10].copy_from_slice(&pair(day));
    if year <= 9999 {
        text[0..2].copy_from_slice(&pair(year as u32 / 100));
        text[2..4].copy_from_slice(&pair(year as u32 % 100));
        out.extend_from_slice(&text);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(year).as_bytes());
        out.extend_from_slice(&text[4..]);
    }
    before_christ
}

/// Appends `HH:MM:SS`. `seconds` is within a day, or 86,400.
#[inline]
fn push_clock(out: &mut Vec<u8>, seconds: u32) {
    let mut text = *b"00:00:00";
    text[0..2].copy_from_slice(&pair(seconds / 3600));
    text[3..5].copy_from_slice(&pair(seconds / 60 % 60));
    text[6..8].copy_from_slice(&pair(seconds % 60));
    out.extend_from_slice(&text);
}

/// Appends `.5` for 500,000,000 ns; nothing for 0.
#[inline]
fn push_fraction(out: &mut Vec<u8>, nanos: u32) {
    if nanos == 0 {
        return;
    }
    let mut text = *b".000000000";
    let (high, low) = (nanos / 100_000, nanos % 100_000);
    text[1..3].copy_from_slice(&pair(high / 100));
    text[3..5].copy_from_slice(&pair(high));
    text[5] = b'0' + (low / 10_000) as u8;
    text[6..8].copy_from_slice(&pair(low / 100));
    text[8..10].copy_from_slice(&pair(low));
    let length = text.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    out.extend_from_slice(&text[..length]);
}

/// Appends a time of day in microseconds: `09:30:00.25`, `24:00:00` for the end of the day. The fraction is trimmed.
#[inline]
pub fn print_time(out: &mut Vec<u8>, micros: i64) {
    print_clock(out, micros, 1_000_000);
}

/// [`print_time`] for nanoseconds.
#[inline]
pub fn print_time_nanos(out: &mut Vec<u8>, nanos: i64) {
    print_clock(out, nanos, 1_000_000_000);
}

fn print_clock(out: &mut Vec<u8>, value: i64, per_second: u64) {
    let size = value.unsigned_abs();
    if value < 0 {
        out.push(b'-');
    }
    let (seconds, rest) = (size / per_second, size % per_second);
    if seconds <= DAY_SECONDS as u64 {
        push_clock(out, seconds as u32);
    } else {
        // Not a time of day; show it rather than wrap it.
        out.extend_from_slice(itoa::Buffer::new().format(seconds / 3600).as_bytes());
        out.push(b':');
        out.extend_from_slice(&pair((seconds / 60 % 60) as u32));
        out.push(b':');
        out.extend_from_slice(&pair((seconds % 60) as u32));
    }
    push_fraction(out, (rest * (1_000_000_000 / per_second)) as u32);
}

/// Day number, second of the day and nanosecond of the second.
#[inline]
fn parts(value: i64, unit: TimeUnit) -> (i64, u32, u32) {
    // Constant divisors, so that the compiler multiplies instead.
    let (seconds, nanos) = match unit {
        TimeUnit::Second => (value, 0),
        TimeUnit::Millisecond => (value.div_euclid(1_000), value.rem_euclid(1_000) * 1_000_000),
        TimeUnit::Microsecond => (value.div_euclid(1_000_000), value.rem_euclid(1_000_000) * 1_000),
        TimeUnit::Nanosecond => (value.div_euclid(1_000_000_000), value.rem_euclid(1_000_000_000)),
    };
    (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS) as u32, nanos as u32)
}

/// Appends a timestamp since 1970: `2020-01-01T00:00:43.5Z`, without `Z` where it has no zone (`utc` false). The
/// fraction is trimmed. Before Christ: `0044-03-15T00:00:00Z BC`, which PostgreSQL reads.
#[inline]
pub fn print_timestamp(out: &mut Vec<u8>, value: i64, unit: TimeUnit, utc: bool) {
    push_timestamp(out, value, unit, b'T', if utc { b"Z" } else { b"" });
}

/// [`print_timestamp`] as PostgreSQL prints it: `2020-01-01 00:00:43.5+00`.
#[inline]
pub fn print_timestamp_sql(out: &mut Vec<u8>, value: i64, unit: TimeUnit, utc: bool) {
    push_timestamp(out, value, unit, b' ', if utc { b"+00" } else { b"" });
}

#[inline]
fn push_timestamp(out: &mut Vec<u8>, value: i64, unit: TimeUnit, between: u8, zone: &[u8]) {
    let (days, seconds, nanos) = parts(value, unit);
    let before_christ = push_date(out, days);
    out.push(between);
    push_clock(out, seconds);
    push_fraction(out, nanos);
    out.extend_from_slice(zone);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}
