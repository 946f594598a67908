//! In which form values travel between a decoder and an encoder, and how a column remembers where it came from.

/// What the receiving end of a decoder wants to see. A source that has values Arrow cannot hold (infinity,
/// BC dates, 24:00, NaN in a decimal) can hand them over exactly when the sink writes text anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Arrow types; a value that its Arrow type cannot hold is an error (or follows [`OnLossy`]).
    Typed,
    /// For text files (CSV): columns that Arrow cannot hold in full arrive as the source's own exact text.
    Text,
    /// For JSON: as `Text`, but arrays arrive as JSON (`arrow.json`) and numbers stay numbers.
    Json,
}

/// What to do with a value that the target cannot hold exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLossy {
    /// Stop at the value, with its place.
    #[default]
    Error,
    /// Carry the source's own text exactly; the column becomes text. Counted.
    Text,
    /// Write NULL. Counted.
    Null,
    /// Write the nearest value that the target can hold. Counted.
    Clamp,
}

/// Keys and values of Arrow field metadata.
pub mod field_meta {
    use arrow_schema::Field;

    /// Arrow's own key for extension types.
    pub const EXTENSION: &str = "ARROW:extension:name";
    /// JSON text (`arrow.json`): the column holds one JSON value a row, in source order.
    pub const JSON: &str = "arrow.json";
    /// UUID (`arrow.uuid`): FixedSizeBinary(16), big-endian.
    pub const UUID: &str = "arrow.uuid";
    /// WKB geometry (`geoarrow.wkb`).
    pub const WKB: &str = "geoarrow.wkb";
    /// The source's own type, as it would write it: `postgres:numeric(15,2)`.
    pub const SOURCE_TYPE: &str = "haul.source_type";

    /// Whether the column holds JSON text.
    pub fn is_json(field: &Field) -> bool {
        field.metadata().get(EXTENSION).is_some_and(|v| v == JSON)
    }
    /// Whether the column holds UUIDs.
    pub fn is_uuid(field: &Field) -> bool {
        field.metadata().get(EXTENSION).is_some_and(|v| v == UUID)
    }
    /// The source's own type for `system` (`postgres`), if it came from there.
    pub fn source_type<'a>(field: &'a Field, system: &str) -> Option<&'a str> {
        field.metadata().get(SOURCE_TYPE)?.strip_prefix(system)?.strip_prefix(':')
    }
    /// The field with one more metadata entry.
    pub fn with(field: Field, key: &str, value: impl Into<String>) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(key.to_string(), value.into());
        field.with_metadata(metadata)
    }
}
