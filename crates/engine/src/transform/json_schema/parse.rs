//! The subset of JSON Schema that is understood, read strictly: a keyword that would be ignored is an error.

use super::values::{Enumeration, Format};
use haul_model::{Error, ErrorKind, Result, nearest};
use serde_json::{Map, Value};

/// What a JSON Schema calls a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Number,
    Boolean,
    String,
    Object,
    Array,
}

impl Kind {
    /// For sentences: `a number`.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::String => "a string",
            Self::Object => "an object",
            Self::Array => "an array",
        }
    }

    /// As the schema writes it.
    pub(super) fn word(self) -> &'static str {
        self.noun().split_once(' ').map_or("", |(_, word)| word)
    }
}

/// What is asked of one column.
#[derive(Debug, Default)]
pub(super) struct Property {
    /// The types that it may have, in the order given; empty = any, unless `only_null`.
    pub kinds: Vec<Kind>,
    /// Whether `null` is among its types.
    pub null: bool,
    /// `format`.
    pub format: Option<Format>,
    /// `contentMediaType: application/json`: the string holds a JSON value, which takes its place.
    pub holds_json: bool,
    /// `enum`.
    pub allowed: Option<Enumeration>,
}

/// A parsed schema.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub properties: Vec<(String, Property)>,
    pub required: Vec<String>,
    /// Whether columns without a property may pass.
    pub additional: bool,
}

/// Keywords that say nothing about values.
const ANNOTATIONS: &[&str] =
    &["$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];
const TOP: &[&str] = &["type", "properties", "required", "additionalProperties"];
const PROPERTY: &[&str] = &["type", "format", "contentMediaType", "enum"];

/// Reads a schema document.
///
/// # Errors
/// `Config`: not JSON, or a keyword or value outside the subset, with its path.
pub(super) fn parse(text: &str) -> Result<Parsed> {
    let document: Value = serde_json::from_str(text).map_err(|e| {
        Error::new(ErrorKind::Config, format!("the JSON Schema is not JSON: {e}")).hint("it is one JSON object with \"properties\"")
    })?;
    let Value::Object(top) = document else { return Err(wrong("#", "the JSON Schema is not an object")) };
    let mut parsed = Parsed { additional: true, ..Parsed::default() };
    for (keyword, value) in &top {
        match keyword.as_str() {
            "type" if value == "object" => {}
            "type" => return Err(wrong("#/type", "a row is an \"object\", nothing else")),
            "properties" => parsed.properties = properties(value)?,
            "required" => parsed.required = names(value)?,
            "additionalProperties" => {
                parsed.additional = value.as_bool().ok_or_else(|| wrong("#/additionalProperties", "only true and false are understood"))?;
            }
            other => unknown(other, "#", TOP)?,
        }
    }
    Ok(parsed)
}

fn properties(value: &Value) -> Result<Vec<(String, Property)>> {
    let Value::Object(map) = value else { return Err(wrong("#/properties", "it is not an object")) };
    map.iter()
        .map(|(name, value)| {
            let path = format!("#/properties/{}", name.replace('~', "~0").replace('/', "~1"));
            match value {
                Value::Object(map) => Ok((name.clone(), property(map, &path)?)),
                Value::Bool(true) => Ok((name.clone(), Property::default())),
                _ => Err(wrong(&path, "it is not an object")),
            }
        })
        .collect()
}

fn property(map: &Map<String, Value>, path: &str) -> Result<Property> {
    let mut property = Property::default();
    for (keyword, value) in map {
        let path = format!("{path}/{keyword}");
        match keyword.as_str() {
            "type" => (property.kinds, property.null) = kinds(value, &path)?,
            "format" => property.format = Some(format(value, &path)?),
            "contentMediaType" if value == "application/json" => property.holds_json = true,
            "contentMediaType" => return Err(wrong(&path, "only \"application/json\" is understood")),
            "enum" => {
                let Value::Array(values) = value else { return Err(wrong(&path, "it is not a list of values")) };
                property.allowed =
                    Some(Enumeration::new(values).ok_or_else(|| wrong(&path, "objects and arrays in it are not understood"))?);
            }
            other => unknown(other, path.rsplit_once('/').map_or("#", |(p, _)| p), PROPERTY)?,
        }
    }
    for (given, keyword) in [(property.format.is_some(), "format"), (property.holds_json, "contentMediaType")] {
        if given && property.kinds != [Kind::String] {
            let path = format!("{path}/{keyword}");
            return Err(wrong(&path, "it says something about strings, so the type must be \"string\"").hint("add \"type\": \"string\""));
        }
    }
    Ok(property)
}

fn kinds(value: &Value, path: &str) -> Result<(Vec<Kind>, bool)> {
    let listed = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (mut kinds, mut null) = (Vec::new(), false);
    for word in listed {
        let kind = match word.as_str() {
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            Some("string") => Kind::String,
            Some("object") => Kind::Object,
            Some("array") => Kind::Array,
            Some("null") => {
                null = true;
                continue;
            }
            _ => {
                return Err(wrong(path, &format!("{word} is not a type")).hint(
                    "types are \"integer\", \"number\", \"boolean\", \"string\", \"object\", \"array\", \"null\", or a list of them",
                ));
            }
        };
        kinds.push(kind);
    }
    // Every integer is a number.
    if kinds.contains(&Kind::Number) {
        kinds.retain(|k| *k != Kind::Integer);
    }
    if kinds.is_empty() && !null {
        return Err(wrong(path, "the list is empty"));
    }
    Ok((kinds, null))
}

fn format(value: &Value, path: &str) -> Result<Format> {
    match value.as_str() {
        Some("date-time") => Ok(Format::DateTime),
        Some("date") => Ok(Format::Date),
        Some("uuid") => Ok(Format::Uuid),
        _ => Err(wrong(path, &format!("format {value} is not understood")).hint("formats are \"date-time\", \"date\", \"uuid\"")),
    }
}

fn names(value: &Value) -> Result<Vec<String>> {
    let list = value.as_array().map(|list| list.iter().map(|n| n.as_str().map(str::to_string)).collect::<Option<Vec<_>>>());
    list.flatten().ok_or_else(|| wrong("#/required", "it is not a list of names"))
}

fn unknown(keyword: &str, path: &str, known: &[&str]) -> Result<()> {
    if ANNOTATIONS.contains(&keyword) {
        return Ok(());
    }
    let error = wrong(path, &format!("keyword {keyword:?} is not understood"));
    Err(match nearest(keyword, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean {near:?}?")),
        None => error.hint(format!("keywords here are {}, and annotations such as title", known.join(", "))),
    })
}

fn wrong(path: &str, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("JSON Schema, {path}: {what}"))
}
