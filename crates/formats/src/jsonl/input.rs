//! Reading JSON Lines: columns and their types from a sample.

use super::decode::JsonlDecoder;
use super::json::{Cursor, JsonError, JsonKind, unescape};
use super::lines::{Lines, is_blank};
use crate::{Framer, Prolog, RecordInput};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Decoder, Encoding, Error, ErrorKind, Note, Result, Settings, field_meta};
use std::collections::HashMap;
use std::sync::Arc;

/// For inputs that are one large array or document.
pub(super) const ONE_OBJECT_A_LINE: &str = "JSON Lines is one object a line; one large array becomes lines with: jq -c '.[]'";

const BOM: &[u8] = b"\xef\xbb\xbf";

/// JSON Lines, configured for reading one input: one object a line.
///
/// Columns are the keys of the objects in the sample, in order of first appearance; keys that differ in case are different.
/// Types: only strings make text, only booleans booleans, only whole numbers that fit make 64-bit integers. Everything else
/// (other numbers too, so that no digit changes) is carried as JSON text, exactly as it stands in the file. A missing key is
/// NULL. `null` is NULL as well, except in a JSON column, where it is the JSON value `null`.
pub struct JsonlInput {
    layout: Arc<Layout>,
    bom: usize,
    pass_through: bool,
    notes: Vec<Note>,
}

/// What the decoder needs to know.
pub(super) struct Layout {
    pub(super) schema: SchemaRef,
    pub(super) kinds: Vec<ColumnKind>,
    /// Keys in the order in which they are expected.
    pub(super) order: Vec<(Vec<u8>, Slot)>,
    pub(super) lookup: HashMap<Vec<u8>, usize>,
    pub(super) extra_keys: ExtraKeys,
    pub(super) last_wins: bool,
}

/// How a column's values are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Strings.
    Text,
    /// Strings, and the text of anything else.
    AnyText,
    /// JSON text.
    Json,
    /// 64-bit integers.
    Integer,
    /// Booleans.
    Boolean,
}

/// Where a key's value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Column(usize),
    /// The user did not ask for it.
    Unwanted,
}

/// What becomes of a key that is no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraKeys {
    Error,
    /// Left out and counted.
    Ignore,
    /// Left out: `columns=` names what is wanted.
    Unwanted,
}

/// The kinds of values that a key had in the sample.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    string: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    other: bool,
}

impl Seen {
    fn note(&mut self, kind: JsonKind, token: &[u8]) {
        match kind {
            JsonKind::Null => {}
            JsonKind::String { .. } => self.string = true,
            JsonKind::Bool(_) => self.boolean = true,
            JsonKind::Integer if fits(token) => self.integer = true,
            JsonKind::Integer | JsonKind::Number => self.number = true,
            JsonKind::Array | JsonKind::Object => self.other = true,
        }
    }

    fn kind(self) -> ColumnKind {
        match (self.string, self.boolean, self.integer, self.number || self.other) {
            (true, false, false, false) => ColumnKind::Text,
            (false, true, false, false) => ColumnKind::Boolean,
            (false, false, true, false) => ColumnKind::Integer,
            _ => ColumnKind::Json,
        }
    }
}

/// Whether a number token without fraction is exactly a 64-bit integer; `-0` is not.
pub(super) fn fits(token: &[u8]) -> bool {
    integer(token).is_some()
}

/// The value of such a token.
#[inline]
pub(super) fn integer(token: &[u8]) -> Option<i64> {
    let (negative, digits) = match token.strip_prefix(b"-") {
        Some(b"0") => return None,
        Some(digits) => (true, digits),
        None => (false, token),
    };
    if digits.len() > 19 {
        return None;
    }
    let magnitude = digits.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Keys of the sample, in order of first appearance.
#[derive(Default)]
struct Survey {
    keys: Vec<(Vec<u8>, Seen)>,
    lookup: HashMap<Vec<u8>, usize>,
    /// The first line that is no object.
    broken: Option<(u64, JsonError)>,
    objects: usize,
}

impl Survey {
    fn of(sample: &[u8], complete: bool) -> Self {
        let mut survey = Self::default();
        let end = if complete { sample.len() } else { memchr::memrchr(b'\n', sample).map_or(0, |last| last + 1) };
        for (number, line) in sample[..end].split_inclusive(|b| *b == b'\n').enumerate() {
            if is_blank(line) {
                continue;
            }
            match survey.line(line) {
                Ok(()) => survey.objects += 1,
                Err(error) => {
                    survey.broken.get_or_insert((number as u64 + 1, error));
                }
            }
        }
        survey
    }

    fn line(&mut self, line: &[u8]) -> Result<(), JsonError> {
        super::json::validate_json(line)?;
        let mut cursor = Cursor::new(line);
        cursor.skip_space();
        cursor.expect(b'{')?;
        cursor.skip_space();
        while cursor.peek() == Some(b'"') {
            let start = cursor.at() + 1;
            let escaped = cursor.string()?;
            let mut key = line[start..cursor.at() - 1].to_vec();
            if escaped {
                let raw = std::mem::take(&mut key);
                unescape(&raw, &mut key)?;
            }
            cursor.skip_space();
            cursor.expect(b':')?;
            cursor.skip_space();
            let start = cursor.at();
            let kind = cursor.value()?;
            self.seen(key).note(kind, &line[start..cursor.at()]);
            cursor.skip_space();
            if cursor.peek() == Some(b',') {
                cursor.expect(b',')?;
                cursor.skip_space();
            }
        }
        Ok(())
    }

    fn seen(&mut self, key: Vec<u8>) -> &mut Seen {
        let next = self.keys.len();
        let place = *self.lookup.entry(key.clone()).or_insert(next);
        if place == next {
            self.keys.push((key, Seen::default()));
        }
        &mut self.keys[place].1
    }
}

impl JsonlInput {
    /// Columns and types from `sample`, the start of the input (all of it if `complete`), and the settings of [`super::SPEC`].
    /// `name` is for messages.
    ///
    /// # Errors
    /// `Data`: there are lines in the sample, and none is a JSON object (the first one's place and reason).
    pub fn detect(settings: &Settings, sample: &[u8], complete: bool, name: &str) -> Result<Self> {
        let bom = if sample.starts_with(BOM) { BOM.len() } else { 0 };
        let survey = Survey::of(&sample[bom..], complete);
        if survey.objects == 0 && !is_blank(&sample[bom..]) {
            return Err(no_object(&survey, name));
        }
        let types = settings.choice("types").unwrap_or_default();
        let kind = |seen: Option<&Seen>| match types.as_str() {
            "strings" => ColumnKind::AnyText,
            "json" => ColumnKind::Json,
            _ => seen.map_or(ColumnKind::Json, |s| s.kind()),
        };
        let wanted = settings.list("columns").filter(|names| names.as_slice() != ["auto"]);
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let columns: Vec<(String, ColumnKind)> = match &wanted {
            None => survey.keys.iter().map(|(key, seen)| (text(key), kind(Some(seen)))).collect(),
            Some(names) => {
                let seen = |name: &String| survey.lookup.get(name.as_bytes()).map(|place| &survey.keys[*place].1);
                names.iter().map(|name| (name.clone(), kind(seen(name)))).collect()
            }
        };
        let extra_keys = match (settings.choice("extra_keys").as_deref(), &wanted) {
            (Some("ignore"), _) => ExtraKeys::Ignore,
            (_, Some(_)) => ExtraKeys::Unwanted,
            _ => ExtraKeys::Error,
        };
        let others = survey.keys.iter().map(|(key, _)| key.clone()).filter(|_| wanted.is_some());
        let last_wins = settings.choice("duplicate_keys").as_deref() == Some("last");
        let notes = notes(&survey, &columns);
        let layout = Arc::new(Layout::new(columns, others, extra_keys, last_wins)?);
        Ok(Self { layout, bom, pass_through: wanted.is_none(), notes })
    }

    /// The same input with these columns, every value as its JSON text: what a target that knows its columns wants. Other keys
    /// are treated as `extra_keys=` says.
    ///
    /// # Errors
    /// `Config`: a name twice.
    pub fn with_columns(self, names: &[String]) -> Result<Self> {
        let columns = names.iter().map(|name| (name.clone(), ColumnKind::Json)).collect();
        self.with(columns)
    }

    /// The same input with the columns and types of another one of its kind: the later files of a set.
    ///
    /// # Errors
    /// `Unsupported`: a type that JSON Lines is not read as.
    pub fn with_schema(self, schema: &Schema) -> Result<Self> {
        let kind = |field: &Field| match field.data_type() {
            DataType::Utf8View if field_meta::is_json(field) => Ok(ColumnKind::Json),
            DataType::Utf8View => Ok(ColumnKind::Text),
            DataType::Int64 => Ok(ColumnKind::Integer),
            DataType::Boolean => Ok(ColumnKind::Boolean),
            other => Err(Error::new(ErrorKind::Unsupported, format!("JSON Lines are not read as {other}")).column(field.name())),
        };
        let columns = schema.fields().iter().map(|f| Ok((f.name().clone(), kind(f)?))).collect::<Result<_>>()?;
        self.with(columns)
    }

    fn with(mut self, columns: Vec<(String, ColumnKind)>) -> Result<Self> {
        let layout = Layout::new(columns, std::iter::empty(), self.layout.extra_keys, self.layout.last_wins)?;
        self.layout = Arc::new(layout);
        self.notes = Vec::new();
        Ok(self)
    }
}

impl Layout {
    fn new(
        columns: Vec<(String, ColumnKind)>,
        other_keys: impl Iterator<Item = Vec<u8>>,
        extra_keys: ExtraKeys,
        last_wins: bool,
    ) -> Result<Self> {
        let mut order: Vec<(Vec<u8>, Slot)> = Vec::new();
        let mut lookup = HashMap::new();
        for (number, (name, _)) in columns.iter().enumerate() {
            if lookup.insert(name.clone().into_bytes(), order.len()).is_some() {
                return Err(Error::new(ErrorKind::Config, "the column is named twice").column(name));
            }
            order.push((name.clone().into_bytes(), Slot::Column(number)));
        }
        for key in other_keys {
            if let std::collections::hash_map::Entry::Vacant(entry) = lookup.entry(key.clone()) {
                entry.insert(order.len());
                order.push((key, Slot::Unwanted));
            }
        }
        let fields = columns.iter().map(|(name, kind)| kind.field(name)).collect::<Vec<_>>();
        let kinds = columns.iter().map(|(_, kind)| *kind).collect();
        Ok(Self { schema: Arc::new(Schema::new(fields)), kinds, order, lookup, extra_keys, last_wins })
    }
}

impl ColumnKind {
    fn field(self, name: &str) -> Field {
        let field = |data_type| Field::new(name, data_type, true);
        match self {
            Self::Text | Self::AnyText => field(DataType::Utf8View),
            Self::Json => field_meta::with(field(DataType::Utf8View), field_meta::EXTENSION, field_meta::JSON),
            Self::Integer => field(DataType::Int64),
            Self::Boolean => field(DataType::Boolean),
        }
    }

    /// For messages.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::AnyText | Self::Json => "any value",
            Self::Integer => "whole numbers of 64 bits",
            Self::Boolean => "booleans",
        }
    }
}

fn no_object(survey: &Survey, name: &str) -> Error {
    let Some((line, error)) = &survey.broken else {
        return Error::new(ErrorKind::Data, "the first line is longer than the sample").object(name).line(1).hint("raise sample=");
    };
    Error::new(ErrorKind::Data, format!("no line is a JSON object; the first one: {error}"))
        .object(name)
        .line(*line)
        .hint(ONE_OBJECT_A_LINE)
}

fn notes(survey: &Survey, columns: &[(String, ColumnKind)]) -> Vec<Note> {
    let number = |name: &String| survey.lookup.get(name.as_bytes()).is_some_and(|place| survey.keys[*place].1.number);
    let exact = columns.iter().filter(|(name, kind)| *kind == ColumnKind::Json && number(name));
    let text = "numbers are carried as they are written, so that no digit changes; --cast gives them a type";
    exact.map(|(name, _)| Note::column(name, text)).collect()
}

impl RecordInput for JsonlInput {
    fn prolog(&self) -> Prolog {
        Prolog { bytes: self.bom, lines: 0 }
    }

    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn encoding(&self) -> Option<Encoding> {
        self.pass_through.then(super::encoding)
    }

    fn framer(&self) -> Box<dyn Framer> {
        Box::new(Lines)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(JsonlDecoder::new(self.layout.clone()))
    }

    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}
