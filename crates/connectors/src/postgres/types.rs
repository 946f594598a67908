//! PostgreSQL types and Arrow types: one table, both directions.
//!
//! [`TYPES`] is the documentation; [`column_plan`] says how a column is read in a given [`Form`]; [`super::ddl`] goes the other way.
//! The rule behind all rows: a value arrives exact, or stops the job at its place, or follows `--on-lossy`. What Arrow
//! has no type for travels as the server's own text, which the server reads back exactly.

use super::catalog::{PgColumn, PgType, TypeKind, quote_ident};
use arrow_schema::{DataType, Field, TimeUnit};
use haul_model::{Form, Note, OnLossy, Result, field_meta};
use std::sync::Arc;

/// One row of the type table, for `docs/types.md`.
#[derive(Debug, Clone, Copy)]
pub struct TypeRow {
    /// PostgreSQL type.
    pub pg: &'static str,
    /// Arrow type (typed form; Parquet and Arrow IPC store it).
    pub arrow: &'static str,
    /// In Parquet files.
    pub parquet: &'static str,
    /// In CSV files.
    pub csv: &'static str,
    /// In JSON Lines files.
    pub jsonl: &'static str,
    /// Values that the typed form cannot hold (an error, or `--on-lossy`); empty = none.
    pub lossy: &'static str,
}

const fn row(
    pg: &'static str,
    arrow: &'static str,
    parquet: &'static str,
    csv: &'static str,
    jsonl: &'static str,
    lossy: &'static str,
) -> TypeRow {
    TypeRow { pg, arrow, parquet, csv, jsonl, lossy }
}

const TEXT: &str = "Utf8View";

/// Every type, in the order of the docs.
pub static TYPES: &[TypeRow] = &[
    row("boolean", "Boolean", "BOOLEAN", "true/false", "true/false", ""),
    row("smallint, integer, bigint", "Int16, Int32, Int64", "INT32, INT64", "digits", "number", ""),
    row("oid", "UInt32", "INT64 (UINT_32)", "digits", "number", ""),
    row(
        "real, double precision",
        "Float32, Float64",
        "FLOAT, DOUBLE",
        "shortest digits, NaN, Infinity",
        "number",
        "JSON: NaN and infinity",
    ),
    row("numeric(p,s), 0 <= s <= p <= 38", "Decimal128(p,s)", "DECIMAL(p,s)", "all digits", "number token, all digits", "NaN"),
    row("numeric(p,s), 0 <= s <= p <= 76", "Decimal256(p,s)", "DECIMAL(p,s)", "all digits", "number token, all digits", "NaN"),
    row(
        "numeric, other numeric(p,s)",
        "Utf8View (exact text)",
        "STRING",
        "all digits",
        "number token, all digits",
        "JSON: NaN and infinity",
    ),
    row("text, varchar, \"char\", name, citext, enums", TEXT, "STRING", "text", "string", ""),
    row("char(n)", "Utf8View, padding kept", "STRING", "text with padding", "string with padding", ""),
    row("bytea", "BinaryView", "BYTE_ARRAY", "\\x and hex digits", "\\x and hex digits", ""),
    row("uuid", "FixedSizeBinary(16), arrow.uuid", "UUID", "36 characters", "string", ""),
    row("json", "Utf8View, arrow.json", "JSON", "the text as stored", "the value, byte for byte", ""),
    row("jsonb", "Utf8View, arrow.json", "JSON", "the server's text", "the value as the server prints it", ""),
    row("date", "Date32", "DATE", "2020-01-31, infinity, 0044-03-15 BC", "as CSV, in a string", "infinity"),
    row("time", "Time64(us)", "TIME(us)", "23:59:59.5, 24:00:00", "as CSV, in a string", "24:00:00"),
    row("timestamp", "Timestamp(us)", "TIMESTAMP(us, local)", "2020-01-31T12:00:00", "as CSV, in a string", "infinity, years past 294247"),
    row(
        "timestamptz",
        "Timestamp(us, UTC)",
        "TIMESTAMP(us, UTC)",
        "2020-01-31T12:00:00Z",
        "as CSV, in a string",
        "infinity, years past 294247",
    ),
    row(
        "arrays of the scalar types above",
        "List",
        "LIST",
        "the server's text: {1,2,NULL}",
        "nested lists",
        "more than one dimension, lower bound other than 1; JSON: NaN inside",
    ),
    row(
        "timetz, interval, money, bit, varbit, inet, cidr, macaddr, xml, tsvector, tsquery, jsonpath, pg_lsn, point and other geometric types",
        "Utf8View (the server's text)",
        "STRING",
        "the server's text",
        "the server's text in a string",
        "",
    ),
    row(
        "ranges, multiranges, composites, hstore, reg types, arrays of these or of enums",
        "Utf8View (the server's text)",
        "STRING",
        "the server's text",
        "the server's text in a string",
        "",
    ),
    row("geometry, geography (PostGIS)", "BinaryView, geoarrow.wkb (EWKB: SRID kept)", "BYTE_ARRAY", "EWKB in hex", "EWKB in hex", ""),
    row("domains", "as their base type", "as their base type", "as their base type", "as their base type", ""),
    row("any other type", "Utf8View (the server's text)", "STRING", "the server's text", "the server's text in a string", ""),
];

/// OIDs of builtin types, the same on every server.
pub(super) mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const INET: u32 = 869;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// How the COPY BINARY bytes of a column become Arrow values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAs {
    /// One byte.
    Bool,
    /// Two bytes.
    Int2,
    /// Four bytes.
    Int4,
    /// Eight bytes.
    Int8,
    /// Four bytes, unsigned.
    Oid,
    /// IEEE single.
    Float4,
    /// IEEE double.
    Float8,
    /// UTF-8 text as it is.
    Text,
    /// UTF-8 text that is one JSON value.
    Json,
    /// `"char"`: one byte, printed as the server does.
    QuotedChar,
    /// The server's text of a value that has no other form (cast in the query).
    ServerText,
    /// Bytes as they are.
    Bytea,
    /// 16 bytes.
    Uuid,
    /// Version byte, then text.
    Jsonb,
    /// Days to `Date32`.
    Date,
    /// Microseconds to `Time64`.
    Time,
    /// Microseconds to `Timestamp`.
    Timestamp,
    /// `numeric` to `Decimal128`.
    Decimal128 {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// `numeric` to `Decimal256`.
    Decimal256 {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// Array of at most one dimension to `List`.
    List(Box<ReadAs>),
    /// Days, printed.
    DateText,
    /// Microseconds since midnight, printed.
    TimeText,
    /// Microseconds, printed.
    TimestampText {
        /// Ends in `Z`.
        zone: bool,
    },
    /// `numeric`, printed with all digits.
    NumericText,
    /// `numeric` as a JSON number token.
    NumericJson,
    /// IEEE single or double as a JSON number token, NaN and infinity as strings (`--on-lossy text`).
    FloatJson {
        /// Eight bytes.
        double: bool,
    },
    /// Array as nested JSON lists of its elements' JSON forms.
    ArrayJson(Box<ReadAs>),
}

/// How one column is read.
#[derive(Debug, Clone)]
pub struct ColumnPlan {
    /// The Arrow field, with `haul.source_type` and, where it has one, the extension type.
    pub field: Field,
    /// The expression for the select list of the COPY query.
    pub select: String,
    /// How its bytes become values.
    pub read: ReadAs,
    /// What a user should know.
    pub note: Option<Note>,
}

impl ColumnPlan {
    /// Whether the column is sent as it is stored (no cast), so that its bytes could be passed through.
    pub fn is_plain(&self) -> bool {
        self.read != ReadAs::ServerText
    }
}

/// How `column` is read in `form`. `on_lossy` is what to do with values that the form cannot hold.
///
/// # Errors
/// None today: every type has at least the server's text. Kept for types that a later form cannot carry.
pub fn column_plan(form: Form, on_lossy: OnLossy, column: &PgColumn) -> Result<ColumnPlan> {
    let plan = match &column.elem {
        Some(elem) => array_read(form, on_lossy, column, elem),
        None => scalar_read(form, on_lossy, &column.base),
    };
    let name = quote_ident(&column.name);
    let (data_type, read, extension) = plan.unwrap_or((DataType::Utf8View, ReadAs::ServerText, None));
    let (select, note) = if read == ReadAs::ServerText {
        (server_text(&name, &column.base), Some(text_note(column, form, on_lossy)))
    } else {
        let note = lossy_note(&read).map(|values| {
            let note =
                Note::column(&column.name, format!("{} is carried as {data_type}: {values} {}", column.type_name, what_happens(on_lossy)));
            if on_lossy == OnLossy::Error { note } else { note.lossy() }
        });
        (name, note)
    };
    let mut field = Field::new(&column.name, data_type, !column.not_null);
    if let Some(extension) = extension {
        field = field_meta::with(field, field_meta::EXTENSION, extension);
    }
    field = field_meta::with(field, field_meta::SOURCE_TYPE, format!("postgres:{}", column.type_name));
    Ok(ColumnPlan { field, select, read, note })
}

/// The select expression for the server's own text. `inet::text` adds a netmask that `inet_out` leaves away.
pub(super) fn server_text(name: &str, base: &PgType) -> String {
    if base.oid == oid::INET { format!("pg_catalog.textin(pg_catalog.inet_out({name}))") } else { format!("{name}::pg_catalog.text") }
}

fn text_note(column: &PgColumn, form: Form, on_lossy: OnLossy) -> Note {
    let why = if form == Form::Typed && on_lossy == OnLossy::Text { " (--on-lossy text)" } else { "" };
    Note::column(&column.name, format!("{} is carried as the server's own text{why}", column.type_name))
}

fn what_happens(on_lossy: OnLossy) -> &'static str {
    match on_lossy {
        OnLossy::Error => "stops the job",
        OnLossy::Text => "is written as a string",
        OnLossy::Null => "becomes NULL, counted",
        OnLossy::Clamp => "becomes the nearest value, counted (NULL where there is none)",
    }
}

/// What a value can be that `read` has no room for.
fn lossy_note(read: &ReadAs) -> Option<&'static str> {
    Some(match read {
        ReadAs::Date => "infinity",
        ReadAs::Time => "24:00:00",
        ReadAs::Timestamp => "infinity or a year past 294247",
        ReadAs::Decimal128 { .. } | ReadAs::Decimal256 { .. } => "NaN",
        ReadAs::NumericJson | ReadAs::FloatJson { .. } => "NaN or infinity",
        ReadAs::List(_) => "an array of several dimensions or with a lower bound other than 1",
        ReadAs::ArrayJson(_) => "an array with a lower bound other than 1, or NaN inside,",
        _ => return None,
    })
}

type Read = (DataType, ReadAs, Option<&'static str>);

/// Precision and scale of a numeric type modifier; `None` for unconstrained.
pub(super) fn numeric_typmod(typmod: i32) -> Option<(i32, i32)> {
    let raw = (typmod >= 4).then(|| typmod - 4)?;
    Some(((raw >> 16) & 0xFFFF, ((raw & 0x7FF) ^ 1024) - 1024))
}

/// How a value of a scalar type is read; `None` = as the server's text.
fn scalar_read(form: Form, on_lossy: OnLossy, base: &PgType) -> Option<Read> {
    let plain = |data_type, read| Some((data_type, read, None));
    let text = |read| Some((DataType::Utf8View, read, None));
    if base.kind == TypeKind::Enum || (base.name == "citext" && base.category == b'S' && base.has_binary) {
        return text(ReadAs::Text);
    }
    if form == Form::Typed && is_geometry(base) {
        return Some((DataType::BinaryView, ReadAs::Bytea, Some(field_meta::WKB)));
    }
    if base.kind != TypeKind::Base || !base.is_builtin() {
        return None;
    }
    let as_text = form != Form::Typed || on_lossy == OnLossy::Text;
    match base.oid {
        oid::BOOL => plain(DataType::Boolean, ReadAs::Bool),
        oid::INT2 => plain(DataType::Int16, ReadAs::Int2),
        oid::INT4 => plain(DataType::Int32, ReadAs::Int4),
        oid::INT8 => plain(DataType::Int64, ReadAs::Int8),
        oid::OID => plain(DataType::UInt32, ReadAs::Oid),
        oid::FLOAT4 | oid::FLOAT8 if form == Form::Json && on_lossy != OnLossy::Error => {
            Some((DataType::Utf8View, ReadAs::FloatJson { double: base.oid == oid::FLOAT8 }, Some(field_meta::JSON)))
        }
        oid::FLOAT4 => plain(DataType::Float32, ReadAs::Float4),
        oid::FLOAT8 => plain(DataType::Float64, ReadAs::Float8),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME => text(ReadAs::Text),
        oid::CHAR => text(ReadAs::QuotedChar),
        oid::BYTEA => plain(DataType::BinaryView, ReadAs::Bytea),
        oid::UUID => Some((DataType::FixedSizeBinary(16), ReadAs::Uuid, Some(field_meta::UUID))),
        oid::JSON => Some((DataType::Utf8View, ReadAs::Json, Some(field_meta::JSON))),
        oid::JSONB => Some((DataType::Utf8View, ReadAs::Jsonb, Some(field_meta::JSON))),
        oid::DATE if as_text => text(ReadAs::DateText),
        oid::DATE => plain(DataType::Date32, ReadAs::Date),
        oid::TIME if as_text => text(ReadAs::TimeText),
        oid::TIME => plain(DataType::Time64(TimeUnit::Microsecond), ReadAs::Time),
        oid::TIMESTAMP | oid::TIMESTAMPTZ if as_text => text(ReadAs::TimestampText { zone: base.oid == oid::TIMESTAMPTZ }),
        oid::TIMESTAMP => plain(DataType::Timestamp(TimeUnit::Microsecond, None), ReadAs::Timestamp),
        oid::TIMESTAMPTZ => plain(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), ReadAs::Timestamp),
        oid::NUMERIC if form == Form::Json => Some((DataType::Utf8View, ReadAs::NumericJson, Some(field_meta::JSON))),
        oid::NUMERIC if as_text => text(ReadAs::NumericText),
        oid::NUMERIC => Some(decimal_read(base.typmod)),
        _ => None,
    }
}

fn decimal_read(typmod: i32) -> Read {
    match numeric_typmod(typmod) {
        Some((p @ 1..=38, s)) if (0..=p).contains(&s) => {
            (DataType::Decimal128(p as u8, s as i8), ReadAs::Decimal128 { precision: p as u8, scale: s as i8 }, None)
        }
        Some((p @ 39..=76, s)) if (0..=p).contains(&s) => {
            (DataType::Decimal256(p as u8, s as i8), ReadAs::Decimal256 { precision: p as u8, scale: s as i8 }, None)
        }
        _ => (DataType::Utf8View, ReadAs::NumericText, None),
    }
}

/// Whether it is a PostGIS type: its binary form is EWKB.
pub(super) fn is_geometry(base: &PgType) -> bool {
    base.kind == TypeKind::Base && !base.is_builtin() && base.has_binary && matches!(base.name.as_str(), "geometry" | "geography")
}

/// The element type with the modifier that applies to it: an array column's own modifier is its elements'.
pub(super) fn element_type(column: &PgColumn, elem: &PgType) -> PgType {
    let mut elem = elem.clone();
    if elem.oid == column.elem_oid && column.base.typmod >= 0 {
        elem.typmod = column.base.typmod;
    }
    elem
}

/// How an array is read; `None` = as the server's text.
fn array_read(form: Form, on_lossy: OnLossy, column: &PgColumn, elem: &PgType) -> Option<Read> {
    if form == Form::Text
        || (form == Form::Typed && (on_lossy == OnLossy::Text || elem.kind == TypeKind::Enum))
        || column.base.name.is_empty()
    {
        return None;
    }
    let elem = element_type(column, elem);
    let json = form == Form::Json;
    let element = match elem.oid {
        // Inside JSON a float is a token like any other; NaN is caught while it is printed.
        oid::FLOAT4 | oid::FLOAT8 if json => (DataType::Utf8View, ReadAs::FloatJson { double: elem.oid == oid::FLOAT8 }, None),
        _ => scalar_read(form, if json { OnLossy::Error } else { on_lossy }, &elem)?,
    };
    // int2vector and oidvector print differently from arrays and have a lower bound of 0.
    if !column.base.name.starts_with('_') || is_geometry(&elem) {
        return None;
    }
    if json {
        // A list that NaN or bounds keep out of JSON has only its text left.
        return (on_lossy != OnLossy::Text).then(|| (DataType::Utf8View, ReadAs::ArrayJson(Box::new(element.1)), Some(field_meta::JSON)));
    }
    let (data_type, read, extension) = element;
    let mut item = Field::new("item", data_type, true);
    if let Some(extension) = extension {
        item = field_meta::with(item, field_meta::EXTENSION, extension);
    }
    Some((DataType::List(Arc::new(item)), ReadAs::List(Box::new(read)), None))
}
