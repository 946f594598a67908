//! Steps written behind an endpoint: `out.jsonl|transform?schema_file=bench.json`, `in.csv|filter?where=n > 5`.
//!
//! Some work on rows; others are spellings of settings that the engine has anyway, for those who know them as steps.

use super::{Cast, Filter, JsonSchema, Project, Rate};
use arrow_schema::SchemaRef;
use haul_model::{Error, ErrorKind, Kind, Rejects, Result, Rows, Setting, Settings, Transform};

/// A step that can be named.
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub settings: &'static [Setting],
    /// For a spelling: which setting of the job or the endpoint each of its own is.
    stands_for: &'static [(&'static str, &'static str)],
}

impl Step {
    const fn new(name: &'static str, settings: &'static [Setting]) -> Self {
        Self { name, aliases: &[], settings, stands_for: &[] }
    }

    /// Whether it is called so.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// The settings of `|transform`, applied in this order.
pub static SETTINGS: &[Setting] = &[
    Setting::new("schema_file", Kind::Path, "", "A JSON Schema, as for `--json-schema`."),
    Setting::new("cast", Kind::Text, "", "Casts, as for `--cast`: `id:bigint,ts:timestamptz`."),
    Setting::new("columns", Kind::Text, "", "The columns to keep, in order."),
    Setting::new("rename", Kind::Text, "", "New names: `old:new`."),
];

/// The steps that exist, in the order of the docs.
pub static STEPS: &[Step] = &[
    Step::new("transform", SETTINGS),
    Step::new("filter", &[Setting::new("where", Kind::Text, "", "Rows that do not meet this condition are left out, and counted.")]),
    Step::new("project", &[Setting::new("columns", Kind::Text, "", "The columns to keep, in order.")]),
    Step::new("rename", &[Setting::new("columns", Kind::Text, "", "New names: `old:new`.")]),
    Step::new("cast", &[Setting::new("columns", Kind::Text, "", "Types: `id:bigint,ts:timestamptz`.")]),
    Step { aliases: &["limiter"], ..Step::new("rate", &[Setting::new("rows", Kind::Text, "", "At most so many rows in a second.")]) },
    Step {
        stands_for: &[("times", "retries"), ("wait", "retry_wait")],
        ..Step::new(
            "retry",
            &[Setting::new("times", Kind::Int, "", "As --retries."), Setting::new("wait", Kind::Duration, "", "As --retry-wait.")],
        )
    },
    Step {
        aliases: &["dlq"],
        stands_for: &[("path", "rejects"), ("most", "max_rejects")],
        ..Step::new(
            "dead_letter",
            &[
                Setting::new("path", Kind::Path, "", "Bad rows go there: --on-error reject --rejects PATH."),
                Setting::new("most", Kind::Int, "", "As --max-rejects."),
            ],
        )
    },
    Step { stands_for: &[("rows", "batch_size")], ..Step::new("batch", &[Setting::new("rows", Kind::Int, "", "As --batch-size.")]) },
    Step {
        stands_for: &[("connect", "connect_timeout"), ("idle", "idle_timeout"), ("statement", "statement_timeout")],
        ..Step::new(
            "timeout",
            &[
                Setting::new("connect", Kind::Duration, "", "The endpoint's connect_timeout."),
                Setting::new("idle", Kind::Duration, "", "The endpoint's idle_timeout."),
                Setting::new("statement", Kind::Duration, "", "The endpoint's statement_timeout."),
            ],
        )
    },
];

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

fn step(name: &str, query: &[(String, String)]) -> Result<(&'static Step, Settings)> {
    let Some(step) = STEPS.iter().find(|step| step.answers_to(name)) else {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Error::new(ErrorKind::Config, format!("unknown step \"|{name}\"")).hint(format!("steps are |{}", names.join(", |"))));
    };
    let known: Vec<&str> = step.settings.iter().map(|setting| setting.name).collect();
    let settings = Settings::resolve(&[step.settings], query.iter().map(|(k, v)| (k.as_str(), v.as_str())), &format!("|{}", step.name))
        .map_err(|e| e.hint(format!("its settings are {}", known.join(", "))))?;
    if step.settings.iter().all(|setting| settings.text(setting.name).is_none()) {
        return Err(Error::new(ErrorKind::Config, format!("\"|{}\" says nothing to do", step.name))
            .hint(format!("its settings are {}", known.join(", "))));
    }
    Ok((step, settings))
}

/// The settings of job or endpoint that `|name?query` is a spelling of; `None`: it is a step that works on rows.
///
/// # Errors
/// `Config`: an unknown step or setting.
pub fn engine_settings(name: &str, query: &[(String, String)]) -> Result<Option<Vec<(String, String)>>> {
    let (step, settings) = step(name, query)?;
    if step.stands_for.is_empty() {
        return Ok(None);
    }
    let given = step.stands_for.iter().filter_map(|(own, other)| Some(((*other).to_string(), settings.text(own)?.to_string())));
    let mut out: Vec<(String, String)> = given.collect();
    if step.name == "dead_letter" {
        out.push(("on_error".into(), "reject".into()));
    }
    Ok(Some(out))
}

/// The transform that `|name?query` stands for. `read` reads a file that the query names.
///
/// # Errors
/// `Config`: an unknown step or setting, a file that is no such schema; whatever `read` gives.
pub fn parse_suffix(name: &str, query: &[(String, String)], read: &dyn Fn(&str) -> Result<String>) -> Result<Box<dyn Transform>> {
    let (step, settings) = step(name, query)?;
    let text = |name: &str| settings.text(name).unwrap_or_default();
    Ok(match step.name {
        "filter" => Box::new(Filter::parse(text("where"))?),
        "project" => Box::new(Project::new(Some(Project::parse_columns(text("columns"))), Vec::new())?),
        "rename" => Box::new(Project::new(None, Project::parse_renames(text("columns"))?)?),
        "cast" => Box::new(Cast::parse(text("columns"))?),
        "rate" => Box::new(Rate::parse(text("rows"))?),
        "transform" => transform(&settings, read)?,
        other => return Err(Error::internal(format!("the step |{other} is a setting"))),
    })
}

fn transform(settings: &Settings, read: &dyn Fn(&str) -> Result<String>) -> Result<Box<dyn Transform>> {
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
    Ok(if steps.len() == 1 { steps.remove(0) } else { Box::new(Chain::new(steps)) })
}
