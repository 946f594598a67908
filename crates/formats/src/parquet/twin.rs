//! Columns that the library can decode exactly only in two steps.
//!
//! INT96 is a day and nanoseconds of the day: decoded to microseconds it loses digits, decoded to nanoseconds it
//! wraps outside 1677-2262, both in silence. Decoded to both, the two agree exactly where nothing was lost. INTERVAL is
//! months, days and milliseconds: one decoding gives the months, the other the rest.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    IntervalDayTimeType, IntervalMonthDayNano, IntervalYearMonthType, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, IntervalMonthDayNanoArray};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use haul_model::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Puts the two decodings of a column together. The error carries the row of the batch where it is known.
pub(super) fn merge(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef, (Option<usize>, Error)> {
    match first.data_type() {
        DataType::Interval(_) => interval(first, second),
        _ => check_int96(&first.to_data(), &second.to_data(), true).map(|()| first.clone()),
    }
}

/// Days and milliseconds from one, months from the other. The parts are unsigned in Parquet, yet some writers put
/// negative ones there: past 2^31 nobody knows what was meant.
fn interval(day_time: &ArrayRef, year_month: &ArrayRef) -> Result<ArrayRef, (Option<usize>, Error)> {
    let day_time = day_time.as_primitive::<IntervalDayTimeType>();
    let months = year_month.as_primitive::<IntervalYearMonthType>();
    let values = || day_time.values().iter().zip(months.values());
    let unclear = values().position(|(rest, months)| *months < 0 || rest.days < 0 || rest.milliseconds < 0);
    if let Some(row) = unclear {
        let detail = "an INTERVAL with a part of 2^31 or more, which may be negative or very long";
        return Err((Some(row), Error::new(ErrorKind::Data, detail)));
    }
    let exact = values().map(|(rest, months)| IntervalMonthDayNano::new(*months, rest.days, i64::from(rest.milliseconds) * 1_000_000));
    Ok(Arc::new(IntervalMonthDayNanoArray::new(exact.collect(), day_time.nulls().cloned())))
}

fn check_int96(first: &ArrayData, second: &ArrayData, top: bool) -> Result<(), (Option<usize>, Error)> {
    if let (DataType::Timestamp(unit, _), DataType::Timestamp(..)) = (first.data_type(), second.data_type()) {
        let nanos_wanted = *unit == TimeUnit::Nanosecond;
        let (micros, nanos) = if nanos_wanted { (second, first) } else { (first, second) };
        let micros = arrow_array::PrimitiveArray::<TimestampMicrosecondType>::from(micros.clone());
        let nanos = arrow_array::PrimitiveArray::<TimestampNanosecondType>::from(nanos.clone());
        let wrong = micros.values().iter().zip(nanos.values()).enumerate().find(|(row, (micros, nanos))| {
            let exact = if nanos_wanted {
                // Below a microsecond the two may differ; a wrap shows as a larger distance.
                micros.checked_mul(1_000).and_then(|whole| nanos.checked_sub(whole)).is_some_and(|rest| (0..1_000).contains(&rest))
            } else {
                micros.wrapping_mul(1_000) == **nanos
            };
            !exact && first.is_valid(*row)
        });
        return match wrong {
            Some((row, _)) => Err((top.then_some(row), int96_error(nanos_wanted))),
            None => Ok(()),
        };
    }
    let children = first.child_data().iter().zip(second.child_data());
    children.into_iter().try_for_each(|(first, second)| check_int96(first, second, false))
}

fn int96_error(nanos_wanted: bool) -> Error {
    if nanos_wanted {
        Error::new(ErrorKind::Data, "an INT96 timestamp outside the years 1677 to 2262 does not fit nanoseconds")
            .hint("read INT96 as microseconds: ?int96=micros")
    } else {
        Error::new(ErrorKind::Lossy, "an INT96 timestamp has digits below the microsecond").hint("read INT96 as nanoseconds: ?int96=nanos")
    }
}
