//! Steps written behind an endpoint: `out.jsonl|transform?schema_file=bench.json`.

use super::{Cast, JsonSchema, Project};
use arrow_schema::SchemaRef;
use haul_model::{Error, ErrorKind, Kind, Rejects, Result, Rows, Setting, Settings, Transform};

/// The settings of `|transform`, applied in this order.
pub static SETTINGS: &[Setting] = &[
    Setting::new("schema_file", Kind::Path, "", "A JSON Schema, as for `--json-schema`."),
    Setting::new("cast", Kind::Text, "", "Casts, as for `--cast`: `id:bigint,ts:timestamptz`."),
    Setting::new("columns", Kind::Text, "", "The columns to keep, in order."),
    Setting::new("rename", Kind::Text, "", "New names: `old:new`."),
];

/// The steps that exist.
const NAMES: &[&str] = &["transform"];

/// Transforms one after the other.
pub struct Chain(Vec<Box<dyn Transform>>);

impl Chain {
    /// In the order given; none of them leaves rows as they are.
    pub fn new(steps: Vec<Box<dyn Transform>>) -> Self {
        Self(steps)
    }
}

impl Transform for Chain {
    fn describe(&self) -> String {
        self.0.iter().map(|t| t.describe()).collect::<Vec<_>>().join("; ")
    }
    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        self.0.iter().try_fold(input.clone(), |schema, t| t.output(&schema))
    }
    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        self.0.iter().try_fold(rows, |rows, t| t.apply(rows, rejects))
    }
}

/// The transform that `|name?query` stands for. `read` reads a file that the query names.
///
/// # Errors
/// `Config`: an unknown step or setting, a file that is no such schema; whatever `read` gives.
pub fn parse_suffix(name: &str, query: &[(String, String)], read: &dyn Fn(&str) -> Result<String>) -> Result<Box<dyn Transform>> {
    if !NAMES.contains(&name) {
        return Err(Error::new(ErrorKind::Config, format!("unknown step \"|{name}\"")).hint(format!("steps are |{}", NAMES.join(", |"))));
    }
    let settings = Settings::resolve(&[SETTINGS], query.iter().map(|(k, v)| (k.as_str(), v.as_str())), "|transform")
        .map_err(|e| e.hint("its settings are schema_file, cast, columns, rename"))?;
    let mut steps: Vec<Box<dyn Transform>> = Vec::new();
    if let Some(path) = settings.text("schema_file") {
        steps.push(Box::new(JsonSchema::parse(&read(path)?).map_err(|e| e.object(path))?));
    }
    if let Some(casts) = settings.text("cast") {
        steps.push(Box::new(Cast::parse(casts)?));
    }
    let columns = settings.text("columns").map(Project::parse_columns);
    let renames = settings.text("rename").map(Project::parse_renames).transpose()?.unwrap_or_default();
    if columns.is_some() || !renames.is_empty() {
        steps.push(Box::new(Project::new(columns, renames)?));
    }
    match steps.len() {
        0 => Err(Error::new(ErrorKind::Config, "\"|transform\" says nothing to do")
            .hint("give it schema_file=PATH, cast=COLUMN:TYPE, columns=A,B or rename=OLD:NEW")),
        1 => Ok(steps.remove(0)),
        _ => Ok(Box::new(Chain::new(steps))),
    }
}
