//! What a column of the target table takes, and from which Arrow types.

use super::catalog::{PgColumn, PgType, TypeKind};
use super::types::{element_type, is_geometry, numeric_typmod, oid};
use arrow_schema::{DataType, Field};
use haul_model::field_meta;
use std::sync::Arc;

/// The type of a target column, as far as writing it goes. Domains are their base type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    /// Precision and scale, if constrained.
    Numeric(Option<(i32, i32)>),
    Text(Limit),
    Enum(Arc<Vec<String>>),
    QuotedChar,
    Bytea,
    Uuid,
    Date,
    /// Digits kept after the second.
    Time(u8),
    Timestamp {
        zone: bool,
        digits: u8,
    },
    Json,
    Jsonb,
    /// EWKB.
    Geometry,
    Array {
        elem: Box<Target>,
        elem_oid: u32,
    },
    /// Has no binary writer here: the server parses its text. `interval_digits`: digits that an `interval(p)` keeps.
    Server {
        interval_digits: Option<u8>,
    },
}

/// How long a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    None,
    /// `varchar(n)`: characters.
    Varchar(usize),
    /// `char(n)`: characters; spaces past the end do not count.
    Char(usize),
    /// `name`: 63 bytes.
    Name,
}

impl Target {
    /// The target of a column.
    pub fn of(column: &PgColumn) -> Self {
        match &column.elem {
            Some(elem) if column.base.name.starts_with('_') => {
                let elem = scalar(&element_type(column, elem), &column.labels);
                match elem {
                    Self::Server { .. } | Self::Geometry => elem_server(),
                    elem => Self::Array { elem: Box::new(elem), elem_oid: column.elem_oid },
                }
            }
            _ => scalar(&column.base, &column.labels),
        }
    }

    /// Whether values of `field` can be written to it in COPY BINARY.
    pub fn binary_from(&self, field: &Field) -> bool {
        match self {
            Self::Server { .. } => false,
            Self::Array { .. } => field_meta::is_json(field) || !is_text(field.data_type()),
            _ => true,
        }
    }

    /// Whether values of `field` can be written to it at all; if not, why.
    pub fn takes(&self, field: &Field) -> Result<(), String> {
        self.takes_type(field.data_type(), field_meta::is_json(field))
    }

    fn takes_type(&self, from: &DataType, json: bool) -> Result<(), String> {
        let refuse = |why: &str| Err(why.to_string());
        let fits = match from {
            DataType::Null => true,
            _ if json || is_text(from) => true,
            DataType::Dictionary(_, value) => return self.takes_type(value, false),
            DataType::Boolean => matches!(self, Self::Bool | Self::Text(_)),
            from if from.is_integer() || from.is_floating() => {
                matches!(
                    self,
                    Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid | Self::Float4 | Self::Float8 | Self::Numeric(_) | Self::Text(_)
                )
            }
            from if from.is_decimal() => matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Numeric(_) | Self::Text(_)),
            DataType::FixedSizeBinary(16) => matches!(self, Self::Uuid | Self::Bytea | Self::Text(_)),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                matches!(self, Self::Bytea | Self::Geometry)
            }
            DataType::Date32 | DataType::Date64 => matches!(self, Self::Date | Self::Timestamp { zone: false, .. } | Self::Text(_)),
            DataType::Time32(_) | DataType::Time64(_) => matches!(self, Self::Time(_) | Self::Text(_)),
            DataType::Timestamp(_, None) => match self {
                Self::Timestamp { zone: true, .. } => {
                    return refuse("a time without a zone is not an instant (--cast NAME:timestamptz takes it as UTC)");
                }
                _ => matches!(self, Self::Timestamp { .. } | Self::Date | Self::Text(_)),
            },
            DataType::Timestamp(_, Some(_)) => match self {
                Self::Timestamp { zone: false, .. } | Self::Date => {
                    return refuse("the zone would be lost (--cast NAME:timestamp keeps the UTC clock)");
                }
                _ => matches!(self, Self::Timestamp { .. } | Self::Text(_)),
            },
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => match self {
                Self::Array { elem, .. } => return elem.takes(item),
                _ => false,
            },
            _ => false,
        };
        if fits { Ok(()) } else { refuse("no exact mapping") }
    }
}

fn elem_server() -> Target {
    Target::Server { interval_digits: None }
}

/// Whether an Arrow type is text.
pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

fn scalar(base: &PgType, labels: &[String]) -> Target {
    let server = Target::Server { interval_digits: None };
    if base.kind == TypeKind::Enum {
        return Target::Enum(Arc::new(labels.to_vec()));
    }
    if base.name == "citext" && base.category == b'S' && base.has_binary {
        return Target::Text(Limit::None);
    }
    if is_geometry(base) {
        return Target::Geometry;
    }
    if base.kind != TypeKind::Base || !base.is_builtin() {
        return server;
    }
    let digits = u8::try_from(base.typmod).ok().filter(|d| *d <= 6).unwrap_or(6);
    let length = usize::try_from(base.typmod - 4).ok();
    match base.oid {
        oid::BOOL => Target::Bool,
        oid::INT2 => Target::Int2,
        oid::INT4 => Target::Int4,
        oid::INT8 => Target::Int8,
        oid::OID => Target::Oid,
        oid::FLOAT4 => Target::Float4,
        oid::FLOAT8 => Target::Float8,
        oid::NUMERIC => Target::Numeric(numeric_typmod(base.typmod)),
        oid::TEXT => Target::Text(Limit::None),
        oid::VARCHAR => Target::Text(length.map_or(Limit::None, Limit::Varchar)),
        oid::BPCHAR => Target::Text(length.map_or(Limit::None, Limit::Char)),
        oid::NAME => Target::Text(Limit::Name),
        oid::CHAR => Target::QuotedChar,
        oid::BYTEA => Target::Bytea,
        oid::UUID => Target::Uuid,
        oid::DATE => Target::Date,
        oid::TIME => Target::Time(digits),
        oid::TIMESTAMP => Target::Timestamp { zone: false, digits },
        oid::TIMESTAMPTZ => Target::Timestamp { zone: true, digits },
        oid::JSON => Target::Json,
        oid::JSONB => Target::Jsonb,
        // The low half of an interval's modifier is its precision (0xFFFF = full).
        oid::INTERVAL if base.typmod >= 0 => Target::Server { interval_digits: u8::try_from(base.typmod & 0xFFFF).ok() },
        _ => server,
    }
}
