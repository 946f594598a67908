//! Days since 1970-01-01 <-> year, month, day in the proleptic Gregorian calendar.
//!
//! Years are counted from March so that the leap day is the last one; then every step is a division of a linear
//! function (Neri and Schneider, "Euclidean affine functions and their application to calendar
//! algorithms", 2022). Years are astronomical: 0 is 1 BC, -1 is 2 BC.

/// Whole 400-year cycles added so that every `i32` day, and every year of 7 digits before Christ, counts from above zero.
const CYCLES: i64 = 25_000;
/// Years in those cycles.
const SHIFT_YEARS: i64 = 400 * CYCLES;
/// Days of a 400-year cycle.
const CYCLE_DAYS: i64 = 146_097;
/// Days from the March epoch of the shifted calendar to 1970-01-01.
const SHIFT_DAYS: i64 = 719_468 + CYCLE_DAYS * CYCLES;

/// Year, month (1-12) and day (1-31) of a day number. Any `i64` a timestamp can reach is fine.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    if days.unsigned_abs() <= 1 << 31 {
        civil_near(days)
    } else {
        let (cycles, rest) = (days.div_euclid(CYCLE_DAYS), days.rem_euclid(CYCLE_DAYS));
        let (year, month, day) = civil_near(rest);
        (year + 400 * cycles, month, day)
    }
}

/// [`civil_from_days`] for days within 2^31 of the epoch.
fn civil_near(days: i64) -> (i64, u32, u32) {
    let n1 = 4 * (days + SHIFT_DAYS) as u64 + 3;
    let (century, n2) = (n1 / CYCLE_DAYS as u64, (n1 % CYCLE_DAYS as u64) as u32 | 3);
    let product = 2_939_745 * u64::from(n2);
    let (year_of_century, day_of_year) = (product >> 32, (product as u32) / 2_939_745 / 4);
    let n3 = 2_141 * day_of_year + 197_913;
    let (month, day) = (n3 >> 16, (n3 & 0xffff) / 2_141);
    let wraps = day_of_year >= 306;
    let year = (100 * century + year_of_century) as i64 - SHIFT_YEARS + i64::from(wraps);
    (year, if wraps { month - 12 } else { month }, day + 1)
}

/// Day number of a date. `year` is astronomical and within 9,999,999 of 0, `month` 1-12, `day` valid in the month.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let early = month <= 2;
    let year = (i64::from(year) + SHIFT_YEARS - i64::from(early)) as u64;
    let month = if early { month + 12 } else { month };
    let century = year / 100;
    let before_year = 1_461 * year / 4 - century + century / 4;
    let before_month = (979 * month - 2_919) / 32;
    before_year as i64 + i64::from(before_month + day - 1) - SHIFT_DAYS
}

/// Days of a month; `month` is 1-12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    if month == 2 {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        28 + u32::from(leap)
    } else {
        30 | (month ^ (month >> 3))
    }
}
