//! The JSON Schema of a job file, for editors and CI, from the same lists that the file is checked against.

use super::{STREAM, TOP, TRANSFORMS, settings};
use haul_model::{Kind, Setting};
use serde_json::{Map, Value, json};

/// The schema (draft 2020-12).
pub fn schema() -> Value {
    let mut of_settings = Map::new();
    for setting in settings() {
        for name in [setting.name].into_iter().chain(setting.aliases.iter().copied()) {
            let own = property(setting, name != setting.name);
            match of_settings.get_mut(name) {
                None => drop(of_settings.insert(name.to_string(), own)),
                // A name that means different things at different ends takes what either takes.
                Some(other) if other.get("type") != own.get("type") || other.get("enum") != own.get("enum") => {
                    *other = json!({"description": setting.doc});
                }
                Some(_) => {}
            }
        }
    }
    let doc = |list: &[super::Word], name: &str| list.iter().find(|w| w.name == name).map_or("", |w| w.doc).to_string();
    let mut stream = of_settings.clone();
    for word in STREAM {
        let names = json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
        let mut property = match word.name {
            "include" | "exclude" => names,
            "transforms" => json!({"type": "array", "items": transform()}),
            _ => json!({"type": "string"}),
        };
        property["description"] = json!(word.doc);
        stream.insert(word.name.to_string(), property);
    }
    let mut connection = of_settings.clone();
    connection.insert("uri".into(), json!({"type": "string"}));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Haul job",
        "type": "object",
        "required": ["streams"],
        "additionalProperties": false,
        "properties": {
            "connections": {
                "description": doc(TOP, "connections"),
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"},
                "additionalProperties": {"oneOf": [
                    {"type": "string"},
                    {"type": "object", "required": ["uri"], "additionalProperties": false, "properties": connection}
                ]}
            },
            "defaults": {"description": doc(TOP, "defaults"), "type": "object", "additionalProperties": false, "properties": of_settings},
            "max_parallel_tables": {"description": doc(TOP, "max_parallel_tables"), "type": "integer", "minimum": 1},
            "fail_fast": {"description": doc(TOP, "fail_fast"), "type": "boolean"},
            "streams": {
                "description": doc(TOP, "streams"),
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["from", "to"], "additionalProperties": false, "properties": stream}
            }
        }
    })
}

fn transform() -> Value {
    let names = TRANSFORMS.iter().map(|(name, _)| {
        let pairs = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let value = match *name {
            "cast" | "rename" => json!({"oneOf": [{"type": "string"}, pairs]}),
            "columns" | "project" => json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            "rate" | "limiter" | "retry" | "batch" => json!({"type": ["integer", "string"]}),
            _ => json!({"type": "string"}),
        };
        ((*name).to_string(), value)
    });
    json!({"type": "object", "additionalProperties": false, "minProperties": 1, "properties": names.collect::<Map<_, _>>()})
}

/// What a setting takes.
fn property(setting: &Setting, alias: bool) -> Value {
    let word = json!({"type": ["string", "number"]});
    let list = json!({"oneOf": [{"type": ["string", "number"]}, {"type": "array", "items": {"type": ["string", "number"]}}]});
    let mut property = match setting.kind {
        Kind::Bool => json!({"enum": [true, false, "on", "off", "yes", "no", "true", "false"]}),
        Kind::Int => json!({"type": "integer"}),
        Kind::Choice(words) => json!({"enum": words}),
        Kind::Bytes | Kind::Duration | Kind::Char => word,
        Kind::Path => json!({"type": "string"}),
        Kind::List => list,
        Kind::Text if matches!(setting.name, "cast" | "rename" | "csv") => json!({"type": ["string", "object"]}),
        Kind::Text => json!({"type": ["string", "number", "boolean", "array"]}),
    };
    let same = if alias { format!("The same as {}. ", setting.name) } else { String::new() };
    property["description"] = json!(format!("{same}{}", setting.doc));
    if !setting.default.is_empty() {
        property["$comment"] = json!(format!("default: {}", setting.default));
    }
    property
}
