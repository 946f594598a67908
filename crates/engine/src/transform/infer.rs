//! `--infer`: the narrowest types that a sample of texts allows, without changing how any of them reads.
//!
//! A column gets a type only if every value of the sample is written in that type's plainest way, so that nothing is lost when it is
//! taken for one: `01234`, `+31612345678`, `1E5`, `00E1` and `1,213` are texts. What a later row holds cannot be known; if
//! it does not fit, the cast stops there and names the type that takes it.

use super::convert::strings;
use super::type_names::TypeName;
use arrow_schema::TimeUnit;
use haul_formats::jsonl::json::validate_json;
use haul_formats::literal::{parse_date, parse_f64, parse_i64, parse_timestamp, print_date, print_f64, print_timestamp};
use haul_model::{Error, Rejects, Result, Rows, Transform, field_meta};

/// Proposes casts for the text columns of a sample (batches of one schema). Columns that stay text, NULL-only ones among them, are not named.
///
/// # Errors
/// `Internal` only.
pub fn infer(sample: &[Rows]) -> Result<Vec<(String, TypeName)>> {
    let Some(first) = sample.first() else { return Ok(Vec::new()) };
    let mut casts = Vec::new();
    for (index, field) in first.batch.schema().fields().iter().enumerate() {
        if !field.data_type().is_string() || field_meta::is_json(field) {
            continue;
        }
        let mut seen = Seen::default();
        for rows in sample {
            let column = strings(rows.batch.column(index))?;
            let mut values = column.iter().flatten();
            if !values.all(|value| seen.add(value.as_bytes())) {
                break;
            }
        }
        if let Some(kind) = seen.narrowest() {
            casts.push((field.name().clone(), kind));
        }
    }
    Ok(casts)
}

/// [`infer`] for what a sample becomes after the transforms `before`. Columns in `except` are not named: their types were given.
///
/// # Errors
/// A transform that does not take the sample's columns.
pub fn infer_after(sample: Vec<Rows>, before: &[Box<dyn Transform>], except: &[String]) -> Result<Vec<(String, TypeName)>> {
    let mut casts = infer(&after(sample, before)?)?;
    casts.retain(|(name, _)| !except.contains(name));
    Ok(casts)
}

/// A sample after the transforms `before`, without the rows that they refuse.
pub(super) fn after(sample: Vec<Rows>, before: &[Box<dyn Transform>]) -> Result<Vec<Rows>> {
    let through = |rows| before.iter().try_fold(rows, |rows, transform| transform.apply(rows, &mut Overlook));
    sample.into_iter().map(through).collect()
}

/// Leaves bad rows out of the sample; the job itself will meet them again and tell.
struct Overlook;

impl Rejects for Overlook {
    fn row(&mut self, _rows: &Rows, _row: usize, _error: Error) -> Result<()> {
        Ok(())
    }
    fn record(&mut self, _record: &[u8], _error: Error) -> Result<()> {
        Ok(())
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}

/// How booleans are written; a column that mixes ways is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    Lower,
    Capital,
    Upper,
    LowerLetter,
    UpperLetter,
}

/// What one value is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Boolean(Words, bool),
    /// Fits 64 bits.
    Integer,
    /// More digits than 64 bits hold.
    LongInteger,
    /// With a point; whether it is what its double prints as.
    Decimal {
        prints: bool,
    },
    Date,
    Timestamp {
        zoned: bool,
    },
    Json,
}

/// What all values so far have in common.
#[derive(Debug, Default)]
struct Seen {
    shape: Option<Shape>,
    is_text: bool,
    /// For booleans: both values were seen.
    both: bool,
}

impl Seen {
    /// Takes one more value in. False once the column is text for certain.
    fn add(&mut self, text: &[u8]) -> bool {
        let merged = match (shape_of(text), self.shape) {
            (Some(new), None) => Some(new),
            (Some(new), Some(old)) => merge(old, new),
            (None, _) => None,
        };
        if let (Some(Shape::Boolean(_, new)), Some(Shape::Boolean(_, old))) = (merged, self.shape) {
            self.both |= new != old;
        }
        self.is_text |= merged.is_none();
        self.shape = merged;
        !self.is_text
    }

    fn narrowest(&self) -> Option<TypeName> {
        if self.is_text {
            return None;
        }
        Some(match self.shape? {
            // One letter alone may be a code.
            Shape::Boolean(Words::LowerLetter | Words::UpperLetter, _) if !self.both => return None,
            Shape::Boolean(..) => TypeName::Boolean,
            Shape::Integer => TypeName::Int64,
            Shape::LongInteger | Shape::Decimal { prints: false } => TypeName::Numeric,
            Shape::Decimal { prints: true } => TypeName::Float64,
            Shape::Date => TypeName::Date,
            Shape::Timestamp { zoned } => TypeName::Timestamp { unit: TimeUnit::Microsecond, zoned },
            Shape::Json => TypeName::JSON,
        })
    }
}

/// The shape that both have; `None` = text.
fn merge(old: Shape, new: Shape) -> Option<Shape> {
    use Shape::{Boolean, Decimal, Integer, LongInteger};
    match (old, new) {
        (Boolean(a, _), Boolean(b, value)) => (a == b).then_some(Boolean(a, value)),
        (a, b) if a == b => Some(a),
        (Integer, LongInteger) | (LongInteger, Integer) => Some(LongInteger),
        // `1` would print as `1.0` if the column were of doubles.
        (Integer | LongInteger | Decimal { .. }, Integer | LongInteger | Decimal { .. }) => Some(Decimal { prints: false }),
        _ => None,
    }
}

fn shape_of(text: &[u8]) -> Option<Shape> {
    let boolean = match text {
        b"true" | b"false" => Some(Words::Lower),
        b"True" | b"False" => Some(Words::Capital),
        b"TRUE" | b"FALSE" => Some(Words::Upper),
        b"t" | b"f" => Some(Words::LowerLetter),
        b"T" | b"F" => Some(Words::UpperLetter),
        _ => None,
    };
    if let Some(words) = boolean {
        return Some(Shape::Boolean(words, text[0] | 0x20 == b't'));
    }
    match text.first()? {
        b'{' | b'[' => validate_json(text).is_ok().then_some(Shape::Json),
        b'-' | b'0'..=b'9' => number(text).or_else(|| day_or_moment(text)),
        _ => None,
    }
}

/// A number in its plainest form: no plus, no leading zeros, no exponent, no negative zero, digits on both sides of a point.
fn number(text: &[u8]) -> Option<Shape> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole == 0 || (whole > 1 && digits[0] == b'0') {
        return None;
    }
    match &digits[whole..] {
        [] if text == b"-0" => None,
        [] => Some(if parse_i64(text).is_ok() { Shape::Integer } else { Shape::LongInteger }),
        [b'.', fraction @ ..] if !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit) => {
            let mut printed = Vec::with_capacity(24);
            print_f64(&mut printed, parse_f64(text).ok()?);
            Some(Shape::Decimal { prints: printed == text })
        }
        _ => None,
    }
}

/// An ISO date, or date and time of day with seconds; a zone is `Z` or an offset.
fn day_or_moment(text: &[u8]) -> Option<Shape> {
    let mut plain = Vec::with_capacity(32);
    if text.len() == 10 {
        print_date(&mut plain, parse_date(text).ok()?);
        return (plain == text).then_some(Shape::Date);
    }
    // `YYYY-MM-DD HH:MM:SS` and what may follow: without the seconds it may be anything.
    if text.len() < 19 || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let parsed = parse_timestamp(text).ok()?;
    let east = i64::from(parsed.offset_seconds.unwrap_or(0)) * 1_000_000;
    print_timestamp(&mut plain, parsed.micros + east, TimeUnit::Microsecond, false);
    // The wall clock reads the same (not 24:00:00, no leap second); fraction zeros and the zone may differ.
    let same = plain[..10] == text[..10] && plain[11..19] == text[11..19];
    same.then_some(Shape::Timestamp { zoned: parsed.offset_seconds.is_some() })
}
