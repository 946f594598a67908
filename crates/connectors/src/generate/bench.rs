//! The bench table: seven columns of mixed types, the same bytes for the same seed on every machine.
//!
//! Drawing is serial (each row depends on all draws before it) and cheap, so a [`Bench`] draws and packs rows into a
//! chunk, and [`columns`] unpacks a chunk into Arrow columns on whatever core is free. [`Bench::write_csv`] writes
//! the rows as the published fixture has them: CRLF, only `attributes` quoted, floats in their shortest form.

use super::mersenne::Mersenne;
use arrow_array::builder::{BooleanBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use haul_model::{Error, Result, field_meta};
use std::sync::Arc;

/// The header of the fixture, with its line end.
pub const HEADER: &str = "id,first_name,country,amount,created_at,active,attributes\r\n";

const FIRST_NAMES: [&str; 16] =
    ["Ada", "Bo", "Chen", "Dinesh", "Eve", "Farah", "Gus", "Hana", "Ivan", "Juno", "Kato", "Lena", "Mira", "Nils", "Omar", "Priya"];
const COUNTRIES: [&str; 10] = ["US", "GB", "DE", "IN", "JP", "BR", "NG", "CA", "AU", "FR"];
const TIERS: [&str; 3] = ["free", "pro", "enterprise"];
const TAGS: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];

/// 2020-01-01T00:00:00Z in seconds since 1970.
const EPOCH: i64 = 1_577_836_800;
/// Bytes of one packed row.
const PACKED: usize = 24;

/// What was drawn for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Draw {
    /// Seconds since [`EPOCH`].
    seconds: u64,
    /// `amount` in hundredths.
    cents: u32,
    /// `score` in thousandths.
    score: u32,
    first_name: u8,
    country: u8,
    tier: u8,
    tag_count: u8,
    tags: [u8; 3],
    active: bool,
}

impl Draw {
    fn pack(&self) -> [u8; PACKED] {
        let mut out = [0; PACKED];
        out[..8].copy_from_slice(&self.seconds.to_le_bytes());
        out[8..12].copy_from_slice(&self.cents.to_le_bytes());
        out[12..16].copy_from_slice(&self.score.to_le_bytes());
        let [a, b, c] = self.tags;
        out[16..].copy_from_slice(&[self.first_name, self.country, self.tier, self.tag_count, a, b, c, u8::from(self.active)]);
        out
    }

    fn unpack(from: &[u8; PACKED]) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3, m0, m1, m2, m3, first_name, country, tier, tag_count, t0, t1, t2, active] =
            *from;
        Self {
            seconds: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            cents: u32::from_le_bytes([c0, c1, c2, c3]),
            score: u32::from_le_bytes([m0, m1, m2, m3]),
            first_name,
            country,
            tier,
            tag_count,
            tags: [t0, t1, t2],
            active: active != 0,
        }
    }

    /// The JSON text of `attributes`; `quote` is `"` or, inside a quoted CSV field, `""`.
    fn attributes(&self, quote: &str, out: &mut Vec<u8>) {
        let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
        for part in ["{", quote, "tier", quote, ":", quote, TIERS[self.tier as usize], quote, ",", quote, "score", quote, ":"] {
            put(part);
        }
        decimal(self.score, 3, out);
        let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
        for part in [",", quote, "tags", quote, ":["] {
            put(part);
        }
        for (i, tag) in self.tags[..self.tag_count as usize].iter().enumerate() {
            for part in [if i == 0 { "" } else { "," }, quote, TAGS[*tag as usize], quote] {
                put(part);
            }
        }
        put("]}");
    }
}

/// Draws rows, in order.
pub struct Bench {
    random: Mersenne,
    seconds: u64,
    /// Rows drawn so far.
    drawn: u64,
    days: Days,
}

impl Bench {
    /// The rows of `seed`, from the first.
    pub fn new(seed: u64) -> Self {
        Self { random: Mersenne::new(seed), seconds: 0, drawn: 0, days: Days::default() }
    }

    /// Passes over `rows` rows.
    pub fn skip(&mut self, rows: u64) {
        for _ in 0..rows {
            self.draw();
        }
    }

    fn draw(&mut self) -> Draw {
        let random = &mut self.random;
        self.drawn += 1;
        self.seconds += 1 + u64::from(random.below(90));
        let tier = random.below(3) as u8;
        let score = rounded(100.0 * random.real(), 1000);
        let tag_count = 1 + random.below(3) as u8;
        let (mut pool, mut tags) = ([0u8, 1, 2, 3, 4], [0u8; 3]);
        for i in 0..tag_count as usize {
            let j = random.below(5 - i as u32) as usize;
            tags[i] = pool[j];
            pool[j] = pool[4 - i];
        }
        let first_name = random.below(FIRST_NAMES.len() as u32) as u8;
        let country = random.below(COUNTRIES.len() as u32) as u8;
        let cents = rounded(1.0 + 9999.0 * random.real(), 100);
        let active = random.real() < 0.5;
        Draw { seconds: self.seconds, cents, score, first_name, country, tier, tag_count, tags, active }
    }

    /// The next `rows` rows, packed for `columns`.
    pub fn pack(&mut self, rows: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + rows * PACKED);
        out.extend_from_slice(&self.drawn.to_le_bytes());
        for _ in 0..rows {
            out.extend_from_slice(&self.draw().pack());
        }
        out
    }

    /// Appends the next `rows` rows as the fixture has them, without the header.
    pub fn write_csv(&mut self, rows: usize, out: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        for _ in 0..rows {
            let draw = self.draw();
            out.extend_from_slice(number.format(self.drawn).as_bytes());
            for text in [FIRST_NAMES[draw.first_name as usize], COUNTRIES[draw.country as usize]] {
                out.push(b',');
                out.extend_from_slice(text.as_bytes());
            }
            out.push(b',');
            decimal(draw.cents, 2, out);
            out.push(b',');
            self.days.write(draw.seconds, out);
            out.extend_from_slice(if draw.active { b",true,\"" } else { b",false,\"" });
            draw.attributes("\"\"", out);
            out.extend_from_slice(b"\"\r\n");
        }
    }
}

/// The typed columns.
pub fn schema() -> SchemaRef {
    let attributes = Field::new("attributes", DataType::Utf8View, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("first_name", DataType::Utf8View, false),
        Field::new("country", DataType::Utf8View, false),
        Field::new("amount", DataType::Float64, false),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
        Field::new("active", DataType::Boolean, false),
        field_meta::with(attributes, field_meta::EXTENSION, field_meta::JSON),
    ]))
}

/// Unpacks a chunk made by [`Bench::pack`].
///
/// # Errors
/// `Internal`: bytes that no `pack` made.
pub fn columns(chunk: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
    let broken = || Error::internal("a chunk of bench rows that is cut off");
    let (first, packed) = chunk.split_first_chunk::<8>().ok_or_else(broken)?;
    let (rows, []) = packed.as_chunks::<PACKED>() else { return Err(broken()) };
    let first = u64::from_le_bytes(*first) as i64 + 1;
    let (mut names, mut countries) = (StringViewBuilder::with_capacity(rows.len()), StringViewBuilder::with_capacity(rows.len()));
    let mut attributes = StringViewBuilder::with_capacity(rows.len());
    let (mut amounts, mut times) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let mut active = BooleanBuilder::with_capacity(rows.len());
    let mut json = Vec::with_capacity(128);
    for row in rows {
        let draw = Draw::unpack(row);
        names.append_value(FIRST_NAMES[draw.first_name as usize]);
        countries.append_value(COUNTRIES[draw.country as usize]);
        amounts.push(f64::from(draw.cents) / 100.0);
        times.push((EPOCH + draw.seconds as i64) * 1_000_000);
        active.append_value(draw.active);
        json.clear();
        draw.attributes("\"", &mut json);
        attributes.append_value(std::str::from_utf8(&json).map_err(|_| broken())?);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + rows.len() as i64)),
        Arc::new(names.finish()),
        Arc::new(countries.finish()),
        Arc::new(Float64Array::from(amounts)),
        Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
        Arc::new(active.finish()),
        Arc::new(attributes.finish()),
    ];
    RecordBatch::try_new(schema.clone(), columns).map_err(|e| Error::internal("bench rows do not fit their schema").caused_by(e))
}

/// `value * scale` as a whole number, half to even, from the exact value of the float (`value * scale` as a float
/// would round twice). `value` is finite, not negative, below 2^22; `scale` at most 1000.
fn rounded(value: f64, scale: u64) -> u32 {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as u32;
    if exponent < 1023 - 64 {
        return 0;
    }
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    // value = mantissa / 2^shift; the product fits: 53 bits and 10 bits.
    let (product, shift) = (mantissa * scale, 1075 - exponent);
    if shift > 64 {
        return 0;
    }
    let product = u128::from(product);
    let (whole, rest, half) = ((product >> shift) as u64, product & ((1 << shift) - 1), 1u128 << (shift - 1));
    let up = rest > half || (rest == half && whole & 1 == 1);
    (whole + u64::from(up)) as u32
}

/// `units / 10^digits` in its shortest form with at least one digit after the point: what a float of that value prints as.
fn decimal(units: u32, digits: u32, out: &mut Vec<u8>) {
    let scale = 10u32.pow(digits);
    out.extend_from_slice(itoa::Buffer::new().format(units / scale).as_bytes());
    out.push(b'.');
    let mut rest = units % scale;
    let mut place = scale / 10;
    loop {
        out.push(b'0' + (rest / place) as u8);
        rest %= place;
        if rest == 0 {
            return;
        }
        place /= 10;
    }
}

/// Writes times; keeps the text of the day it wrote last.
#[derive(Default)]
struct Days {
    day: Option<u64>,
    text: String,
}

impl Days {
    /// `seconds` after the start of 2020, as `2020-01-01T00:00:00Z`.
    fn write(&mut self, seconds: u64, out: &mut Vec<u8>) {
        let (day, second) = (seconds / 86_400, (seconds % 86_400) as u32);
        if self.day != Some(day) {
            self.day = Some(day);
            self.text = date(day);
        }
        out.extend_from_slice(self.text.as_bytes());
        for (mark, number) in [(b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)] {
            out.extend_from_slice(&[mark, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
        }
        out.push(b'Z');
    }
}

/// The date `day` days after 2020-01-01, by counting years and months.
fn date(mut day: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years always have the same number of days.
    let mut year = 2020 + day / 146_097 * 400;
    day %= 146_097;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_exact_and_half_to_even() {
        // 0.125 and 0.375 are exact ties at two digits; 1.005 lies just below its tie, 2.675 too.
        let cases = [(0.125, 12), (0.375, 38), (0.625, 62), (1.005, 100), (2.675, 267), (0.0, 0), (9999.999, 1_000_000)];
        for (value, cents) in cases {
            assert_eq!(rounded(value, 100), cents, "{value}");
        }
        for tiny in [f64::from_bits(1), 1.0 / 9_007_199_254_740_992.0, 1e-18, 0.000_4] {
            assert_eq!(rounded(tiny, 1000), 0, "{tiny}");
        }
        assert_eq!((rounded(0.0005, 1000), rounded(0.000_500_1, 1000), rounded(99.9999, 1000)), (1, 1, 100_000));
    }

    #[test]
    fn decimals_are_as_floats_print() {
        for units in (0..100_100).step_by(7).chain([100, 1000, 1_000_000]) {
            let mut text = Vec::new();
            decimal(units, 3, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), format!("{:?}", f64::from(units) / 1000.0));
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for day in (0..200_000).step_by(13).chain([0, 58, 59, 60, 365, 366, 29_220, 146_097]) {
            let expected = jiff::civil::date(2020, 1, 1).checked_add(jiff::Span::new().days(day as i64)).unwrap();
            assert_eq!(date(day), expected.to_string(), "{day}");
        }
    }

    #[test]
    fn a_row_survives_packing() {
        let mut bench = Bench::new(7);
        for _ in 0..100 {
            let draw = bench.draw();
            assert_eq!(Draw::unpack(&draw.pack()), draw);
        }
    }

    #[test]
    fn a_cut_chunk_is_refused() {
        let chunk = Bench::new(1).pack(2);
        assert!(columns(&chunk[..chunk.len() - 1], &schema()).is_err());
        assert!(columns(&chunk[..3], &schema()).is_err());
    }
}
