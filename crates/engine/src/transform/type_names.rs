//! Type names as users write them: SQL's and Arrow's spellings, case-insensitive.
//!
//! Where the two disagree SQL wins, because casts are written next to SQL: `int8` is eight bytes as in
//! `int2`, `int4`, `int8` (Arrow's one-byte integer is `tinyint`), and `float` is double precision (Arrow's
//! four-byte one is `float32` or `real`). `uint8` to `uint64` exist in Arrow only and count bits.

use arrow_schema::{DataType, Field, TimeUnit};
use haul_model::{Error, ErrorKind, Result, field_meta, nearest};
use std::collections::HashMap;
use std::fmt;

/// The most digits that a `numeric(p,s)` can have (Arrow's Decimal128).
pub const MAX_PRECISION: u8 = 38;

/// A column type that a value can be cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeName {
    /// true or false.
    Boolean,
    /// One byte, signed.
    Int8,
    /// Two bytes, signed.
    Int16,
    /// Four bytes, signed.
    Int32,
    /// Eight bytes, signed.
    Int64,
    /// One byte, unsigned.
    UInt8,
    /// Two bytes, unsigned.
    UInt16,
    /// Four bytes, unsigned.
    UInt32,
    /// Eight bytes, unsigned.
    UInt64,
    /// Four-byte IEEE float.
    Float32,
    /// Eight-byte IEEE float.
    Float64,
    /// `numeric(p,s)`: at most `precision` digits, `scale` of them behind the point.
    Decimal {
        /// All digits, 1 to [`MAX_PRECISION`].
        precision: u8,
        /// Digits behind the point, 0 to `precision`.
        scale: u8,
    },
    /// `numeric` without digits: any number, kept as the text that it was.
    Numeric,
    /// Text, with the most characters it may have (`varchar(n)`).
    Text {
        /// The `n` of `varchar(n)`.
        max_chars: Option<u32>,
    },
    /// Days.
    Date,
    /// Microseconds since midnight.
    Time,
    /// A point in time: an instant in UTC (`zoned`) or a wall clock reading.
    Timestamp {
        /// The resolution; a finer value is an error.
        unit: TimeUnit,
        /// Whether it is an instant (`timestamptz`).
        zoned: bool,
    },
    /// One JSON value a row, compact, keys in source order.
    Json {
        /// Whether a PostgreSQL table made from it gets `jsonb`.
        binary: bool,
    },
    /// Sixteen bytes.
    Uuid,
    /// Bytes.
    Binary,
}

const TEXT: TypeName = TypeName::Text { max_chars: None };
const TIMESTAMP: TypeName = TypeName::Timestamp { unit: TimeUnit::Microsecond, zoned: false };
const TIMESTAMPTZ: TypeName = TypeName::Timestamp { unit: TimeUnit::Microsecond, zoned: true };

/// Every spelling without arguments. The first of a type is the one that messages use.
const SPELLINGS: &[(&str, TypeName)] = &[
    ("boolean", TypeName::Boolean),
    ("bool", TypeName::Boolean),
    ("tinyint", TypeName::Int8),
    ("smallint", TypeName::Int16),
    ("int2", TypeName::Int16),
    ("int16", TypeName::Int16),
    ("integer", TypeName::Int32),
    ("int", TypeName::Int32),
    ("int4", TypeName::Int32),
    ("int32", TypeName::Int32),
    ("bigint", TypeName::Int64),
    ("int8", TypeName::Int64),
    ("int64", TypeName::Int64),
    ("uint8", TypeName::UInt8),
    ("uint16", TypeName::UInt16),
    ("uint32", TypeName::UInt32),
    ("uint64", TypeName::UInt64),
    ("real", TypeName::Float32),
    ("float4", TypeName::Float32),
    ("float32", TypeName::Float32),
    ("double precision", TypeName::Float64),
    ("double", TypeName::Float64),
    ("float", TypeName::Float64),
    ("float8", TypeName::Float64),
    ("float64", TypeName::Float64),
    ("numeric", TypeName::Numeric),
    ("decimal", TypeName::Numeric),
    ("text", TEXT),
    ("varchar", TEXT),
    ("character varying", TEXT),
    ("string", TEXT),
    ("utf8", TEXT),
    ("utf8view", TEXT),
    ("large_string", TEXT),
    ("largeutf8", TEXT),
    ("date", TypeName::Date),
    ("date32", TypeName::Date),
    ("time", TypeName::Time),
    ("time without time zone", TypeName::Time),
    ("time64", TypeName::Time),
    ("timestamp", TIMESTAMP),
    ("timestamp without time zone", TIMESTAMP),
    ("datetime", TIMESTAMP),
    ("timestamptz", TIMESTAMPTZ),
    ("timestamp with time zone", TIMESTAMPTZ),
    ("json", TypeName::Json { binary: false }),
    ("jsonb", TypeName::Json { binary: true }),
    ("uuid", TypeName::Uuid),
    ("bytea", TypeName::Binary),
    ("binary", TypeName::Binary),
    ("blob", TypeName::Binary),
    ("varbinary", TypeName::Binary),
];

impl TypeName {
    /// Unlimited text.
    pub const TEXT: Self = TEXT;
    /// `timestamp`, in microseconds.
    pub const TIMESTAMP: Self = TIMESTAMP;
    /// `timestamptz`, in microseconds.
    pub const TIMESTAMPTZ: Self = TIMESTAMPTZ;
    /// `json`.
    pub const JSON: Self = Self::Json { binary: false };

    /// Reads a type name such as `bigint`, `numeric(10,2)`, `timestamp[us, UTC]`.
    ///
    /// # Errors
    /// `Config`: an unknown name (with the nearest one) or arguments that the type does not take.
    pub fn parse(text: &str) -> Result<Self> {
        let normal = normalise(text);
        if let Some((_, found)) = SPELLINGS.iter().find(|(name, _)| *name == normal) {
            return Ok(*found);
        }
        let Some((name, args, tail)) = split_arguments(&normal) else { return Err(unknown(text, &normal)) };
        let args: Vec<&str> = args.split(',').map(str::trim).collect();
        let bad = |takes: &str| Error::new(ErrorKind::Config, format!("type {:?}: {takes}", text.trim()));
        match (name, tail) {
            ("numeric" | "decimal" | "decimal128", "") => decimal(&args).ok_or_else(|| {
                bad(&format!("numeric takes 1 to {MAX_PRECISION} digits and at most as many behind the point"))
                    .hint("numeric without digits keeps any number exactly as it is written")
            }),
            ("varchar" | "character varying", "") => match args[..] {
                [n] => n.parse().ok().filter(|n| *n > 0).map(|n| Self::Text { max_chars: Some(n) }),
                _ => None,
            }
            .ok_or_else(|| bad("varchar takes a number of characters, from 1")),
            ("timestamp", "" | " without time zone" | " with time zone") | ("timestamptz" | "datetime", "") => {
                timestamp(&args, name == "timestamptz" || tail == " with time zone")
                    .ok_or_else(|| bad("a timestamp takes its unit (s, ms, us, ns, or 0, 3, 6, 9 digits) and UTC as its only zone"))
            }
            ("time" | "time64", "") if args == ["us"] || args == ["microsecond"] || args == ["6"] => Ok(Self::Time),
            ("time" | "time64", "") => Err(bad("times are kept in microseconds").hint("write time")),
            _ => Err(unknown(text, &normal)),
        }
    }

    /// The type that an Arrow field has, if it is one of these.
    pub fn of(field: &Field) -> Option<Self> {
        Some(match field.data_type() {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(p, s) => Self::Decimal { precision: *p, scale: u8::try_from(*s).ok()? },
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if field_meta::is_json(field) => {
                Self::Json { binary: field_meta::source_type(field, "postgres") == Some("jsonb") }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match field_meta::source_type(field, "postgres") {
                Some("numeric") => Self::Numeric,
                _ => TEXT,
            },
            DataType::Date32 => Self::Date,
            DataType::Time64(TimeUnit::Microsecond) => Self::Time,
            DataType::Timestamp(unit, zone) => Self::Timestamp { unit: *unit, zoned: zone.is_some() },
            DataType::FixedSizeBinary(16) if field_meta::is_uuid(field) => Self::Uuid,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Binary,
            _ => return None,
        })
    }

    /// The Arrow type that holds it.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int8 => DataType::Int8,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt8 => DataType::UInt8,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Self::Numeric | Self::Text { .. } | Self::Json { .. } => DataType::Utf8View,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp { unit, zoned } => DataType::Timestamp(unit, zoned.then(|| "UTC".into())),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::Binary => DataType::BinaryView,
        }
    }

    /// The field for a column of this type, with the metadata that tells JSON, UUID and plain `numeric` from text.
    pub fn field(self, name: &str, nullable: bool) -> Field {
        let mut metadata = HashMap::new();
        let source = |t: &str| format!("postgres:{t}");
        match self {
            Self::Json { binary } => {
                metadata.insert(field_meta::EXTENSION.to_string(), field_meta::JSON.to_string());
                metadata.insert(field_meta::SOURCE_TYPE.to_string(), source(if binary { "jsonb" } else { "json" }));
            }
            Self::Uuid => {
                metadata.insert(field_meta::EXTENSION.to_string(), field_meta::UUID.to_string());
            }
            Self::Numeric => {
                metadata.insert(field_meta::SOURCE_TYPE.to_string(), source("numeric"));
            }
            Self::Text { max_chars: Some(n) } => {
                metadata.insert(field_meta::SOURCE_TYPE.to_string(), source(&format!("character varying({n})")));
            }
            _ => {}
        }
        Field::new(name, self.data_type(), nullable).with_metadata(metadata)
    }

    /// How a sentence names one value of the type: `an integer`, `a date`.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Boolean => "a boolean",
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => "an integer",
            Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64 => "an unsigned integer",
            Self::Float32 | Self::Float64 | Self::Decimal { .. } | Self::Numeric => "a number",
            Self::Text { .. } => "text",
            Self::Date => "a date",
            Self::Time => "a time of day",
            Self::Timestamp { .. } => "a timestamp",
            Self::Json { .. } => "JSON",
            Self::Uuid => "a UUID",
            Self::Binary => "bytes",
        }
    }
}

impl fmt::Display for TypeName {
    /// The name in SQL, or Arrow's where SQL has none; [`TypeName::parse`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Decimal { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::Text { max_chars: Some(n) } => write!(f, "varchar({n})"),
            Self::Timestamp { unit, zoned } if unit != TimeUnit::Microsecond => {
                let digits = match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                };
                write!(f, "timestamp{}({digits})", if zoned { "tz" } else { "" })
            }
            plain => f.write_str(SPELLINGS.iter().find(|(_, t)| *t == plain).map_or("text", |(name, _)| name)),
        }
    }
}

/// Lower case, one blank between words, none around brackets and commas.
fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let glued = out.is_empty() || out.ends_with(['(', '[', ',']) || word.starts_with(['(', '[', ',', ')', ']']);
        if !glued {
            out.push(' ');
        }
        out.push_str(&word.to_lowercase());
    }
    out
}

/// `name(args)tail` or `name[args]tail`.
fn split_arguments(text: &str) -> Option<(&str, &str, &str)> {
    let open = text.find(['(', '['])?;
    let close = text.rfind(if text.as_bytes()[open] == b'(' { ')' } else { ']' })?;
    (close > open).then(|| (&text[..open], &text[open + 1..close], &text[close + 1..]))
}

fn decimal(args: &[&str]) -> Option<TypeName> {
    let (precision, scale) = match args {
        [p] => (*p, "0"),
        [p, s] => (*p, *s),
        _ => return None,
    };
    let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
    ((1..=MAX_PRECISION).contains(&precision) && scale <= precision).then_some(TypeName::Decimal { precision, scale })
}

fn timestamp(args: &[&str], zoned: bool) -> Option<TypeName> {
    let (unit, zone) = match args {
        [unit] => (*unit, "none"),
        [unit, zone] => (*unit, *zone),
        _ => return None,
    };
    let unit = match unit {
        "s" | "second" | "0" => TimeUnit::Second,
        "ms" | "millisecond" | "3" => TimeUnit::Millisecond,
        "us" | "µs" | "microsecond" | "6" => TimeUnit::Microsecond,
        "ns" | "nanosecond" | "9" => TimeUnit::Nanosecond,
        _ => return None,
    };
    let zone = zone.trim_start_matches("tz=").trim_start_matches("some(").trim_end_matches(')').trim_matches('"');
    match zone {
        "none" => Some(TypeName::Timestamp { unit, zoned }),
        "utc" | "z" | "+00:00" | "etc/utc" => Some(TypeName::Timestamp { unit, zoned: true }),
        _ => None,
    }
}

fn unknown(text: &str, normal: &str) -> Error {
    let error = Error::new(ErrorKind::Config, format!("unknown type {:?}", text.trim()));
    let name = normal.split(['(', '[']).next().unwrap_or(normal);
    match nearest(name, SPELLINGS.iter().map(|(name, _)| *name)) {
        Some(near) => error.hint(format!("did you mean {near:?}?")),
        None => error.hint(
            "types are boolean, smallint, integer, bigint, real, double precision, numeric(p,s), numeric, text, varchar(n), \
             date, time, timestamp, timestamptz, json, jsonb, uuid, bytea",
        ),
    }
}

/// Reads a list of casts: `id:bigint,amount:numeric(10,2),"odd,name":text`. A column name that holds a comma, a
/// colon or a double quote stands in double quotes, inner ones doubled. `=` may stand in place of the colon.
///
/// # Errors
/// `Config`: a part without a colon or type, an unknown type, a column named twice.
pub fn parse_casts(text: &str) -> Result<Vec<(String, TypeName)>> {
    let mut casts: Vec<(String, TypeName)> = Vec::new();
    for part in split_top_level(text) {
        if part.trim().is_empty() {
            continue;
        }
        let (name, rest) = take_name(part.trim(), &[':', '=']);
        let kind = rest.and_then(|rest| rest.trim_start().strip_prefix([':', '='])).map(str::trim).unwrap_or_default();
        if name.is_empty() || kind.is_empty() {
            return Err(Error::new(ErrorKind::Config, format!("cast {:?} is not COLUMN:TYPE", part.trim()))
                .hint("write for example --cast id:bigint,amount:numeric(10,2)"));
        }
        if casts.iter().any(|(n, _)| *n == name) {
            return Err(Error::new(ErrorKind::Config, format!("column {name:?} is cast twice")));
        }
        let kind = TypeName::parse(kind).map_err(|e| e.context(format_args!("cast of column {name:?}")))?;
        casts.push((name, kind));
    }
    Ok(casts)
}

/// Cuts at commas outside of brackets and double quotes.
pub(super) fn split_top_level(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0u32, false);
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'"' => quoted = !quoted,
            b'(' | b'[' if !quoted => depth += 1,
            b')' | b']' if !quoted => depth = depth.saturating_sub(1),
            b',' if !quoted && depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The column name at the front (quotes taken off) and what follows it, from the separator on.
pub(super) fn take_name<'a>(text: &'a str, separators: &[char]) -> (String, Option<&'a str>) {
    if let Some(body) = text.strip_prefix('"') {
        let mut end = 0;
        while let Some(i) = body[end..].find('"') {
            end += i + 1;
            if !body[end..].starts_with('"') {
                let name = body[..end - 1].replace("\"\"", "\"");
                return (name, (!body[end..].is_empty()).then_some(&body[end..]));
            }
            end += 1;
        }
    }
    match text.find(separators) {
        Some(i) => (text[..i].trim().to_string(), Some(&text[i..])),
        None => (text.trim().to_string(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_and_the_printed_name_reads_back() {
        for (name, kind) in SPELLINGS {
            assert_eq!(TypeName::parse(name).unwrap(), *kind, "{name}");
            assert_eq!(TypeName::parse(&name.to_uppercase()).unwrap(), *kind, "{name}");
            assert_eq!(TypeName::parse(&kind.to_string()).unwrap(), *kind, "{name}");
        }
        for text in ["numeric(10,2)", "varchar(5)", "timestamp(3)", "timestamptz(0)", "timestamp(9)"] {
            assert_eq!(TypeName::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn sql_and_arrow_arguments() {
        let zoned = |unit| TypeName::Timestamp { unit, zoned: true };
        for (text, kind) in [
            ("Numeric ( 10 , 2 )", TypeName::Decimal { precision: 10, scale: 2 }),
            ("decimal(5)", TypeName::Decimal { precision: 5, scale: 0 }),
            ("Decimal128(38, 10)", TypeName::Decimal { precision: 38, scale: 10 }),
            ("VARCHAR(20)", TypeName::Text { max_chars: Some(20) }),
            ("timestamp[us, UTC]", TIMESTAMPTZ),
            ("timestamp[ns, tz=UTC]", zoned(TimeUnit::Nanosecond)),
            ("Timestamp(Millisecond, Some(\"UTC\"))", zoned(TimeUnit::Millisecond)),
            ("Timestamp(Microsecond, None)", TIMESTAMP),
            ("timestamp(3) with time zone", zoned(TimeUnit::Millisecond)),
            ("Timestamp  With Time\tZone", TIMESTAMPTZ),
            ("int8", TypeName::Int64),
            ("time64[us]", TypeName::Time),
        ] {
            assert_eq!(TypeName::parse(text).unwrap(), kind, "{text}");
        }
    }

    #[test]
    fn wrong_names_say_what_to_write() {
        let error = |text| {
            let e = TypeName::parse(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Config);
            format!("{e} / {}", e.hint_text().unwrap_or(""))
        };
        assert_eq!(error("bigintt"), "unknown type \"bigintt\" / did you mean \"bigint\"?");
        assert_eq!(error("Timestampz"), "unknown type \"Timestampz\" / did you mean \"timestamp\"?");
        assert_eq!(
            error("numeric(50,2)"),
            "type \"numeric(50,2)\": numeric takes 1 to 38 digits and at most as many behind the point / numeric without digits keeps any \
             number exactly as it is written"
        );
        assert_eq!(error("varchar(0)"), "type \"varchar(0)\": varchar takes a number of characters, from 1 / ");
        assert_eq!(
            error("timestamp[us, Europe/Berlin]"),
            "type \"timestamp[us, Europe/Berlin]\": a timestamp takes its unit (s, ms, us, ns, or 0, 3, 6, 9 digits) and UTC as its only zone / "
        );
        assert!(error("polygon").ends_with("json, jsonb, uuid, bytea"));
    }

    #[test]
    fn lists_with_nested_commas_and_quoted_names() {
        let casts = parse_casts("id:bigint, ts:timestamp[us, UTC],\"a,\"\"b:c\":text , x=numeric(10,2),").unwrap();
        let expected =
            [("id", TypeName::Int64), ("ts", TIMESTAMPTZ), ("a,\"b:c", TEXT), ("x", TypeName::Decimal { precision: 10, scale: 2 })];
        assert_eq!(casts, expected.map(|(n, t)| (n.to_string(), t)));
        for (text, message) in [
            ("id", "cast \"id\" is not COLUMN:TYPE"),
            (":int", "cast \":int\" is not COLUMN:TYPE"),
            ("a:int,a:text", "column \"a\" is cast twice"),
            ("a:intt", "cast of column \"a\": unknown type \"intt\""),
        ] {
            assert_eq!(parse_casts(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn fields_remember_their_type() {
        for (_, kind) in SPELLINGS {
            assert_eq!(TypeName::of(&kind.field("c", true)), Some(*kind));
        }
    }
}
