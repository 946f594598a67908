//! A job file: many streams in YAML. Read wholly, with every name and value checked, before anything connects.

mod foreign;
mod node;
mod schema;
mod vars;

pub use schema::schema;

use crate::args::{Given, setting_sources};
use crate::options::{DISPLAY, OF_THE_RUN};
use haul_model::{Endpoint, Environment, Error, ErrorKind, Kind, Result, Setting, Suffix, nearest};
use node::{Key, Node, Value};

/// A job file that was read.
#[derive(Debug)]
pub struct JobFile {
    /// Its path, for messages.
    pub path: String,
    /// Connections by name.
    pub connections: Vec<(String, Endpoint)>,
    /// What to copy.
    pub streams: Vec<Stream>,
    /// Streams that run at the same time.
    pub max_parallel_tables: Option<usize>,
    /// Whether the first failure ends the job.
    pub fail_fast: bool,
}

/// One entry of `streams`; a pattern in it may stand for many tables.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The name that it was given.
    pub name: Option<String>,
    /// As written: `prod:public.*`, a path or a URI.
    pub from: String,
    /// As written.
    pub to: String,
    /// Only tables that one of these means, if there are any.
    pub include: Vec<String>,
    /// But none that one of these means.
    pub exclude: Vec<String>,
    /// Its own settings, checked.
    pub settings: Given,
    /// Settings from `defaults`, for those ends that know them.
    pub defaults: Given,
    /// Steps on the way, in order.
    pub transforms: Vec<Suffix>,
    /// Where it stands.
    pub line: u64,
}

/// A key that is no setting: its name and what it is for.
pub struct Word {
    pub name: &'static str,
    pub doc: &'static str,
}

/// Keys of the file.
pub static TOP: &[Word] = &[
    Word {
        name: "connections",
        doc: "Names for systems: a URI or path, or a mapping with `uri` and settings. ${VAR} is taken from the environment.",
    },
    Word { name: "defaults", doc: "Settings for every stream whose ends know them." },
    Word { name: "streams", doc: "What to copy." },
    Word { name: "max_parallel_tables", doc: "Streams that run at the same time. Default: the number of cores, at most 4." },
    Word { name: "fail_fast", doc: "true: the first failure ends the job. Default: the other streams go on." },
];

/// Keys of a stream, beside the settings.
pub static STREAM: &[Word] = &[
    Word { name: "from", doc: "CONNECTION:TABLE, CONNECTION:PATTERN (public.*), CONNECTION with a query setting, a path or a URI." },
    Word { name: "to", doc: "As from; {schema} and {table} stand for the table that is read." },
    Word { name: "name", doc: "A name for messages and --select." },
    Word { name: "include", doc: "Only tables that one of these patterns means." },
    Word { name: "exclude", doc: "No tables that one of these patterns means." },
    Word { name: "transforms", doc: "Steps on the way, in order: cast, rename, columns, filter, schema_file, rate." },
];

/// Names of steps under `transforms`, and the step and its setting that each is.
pub static TRANSFORMS: &[(&str, (&str, &str))] = &[
    ("cast", ("cast", "columns")),
    ("rename", ("rename", "columns")),
    ("columns", ("project", "columns")),
    ("project", ("project", "columns")),
    ("filter", ("filter", "where")),
    ("schema_file", ("transform", "schema_file")),
    ("transform", ("transform", "schema_file")),
    ("rate", ("rate", "rows")),
    ("limiter", ("rate", "rows")),
    ("retry", ("retry", "times")),
    ("dead_letter", ("dead_letter", "path")),
    ("dlq", ("dead_letter", "path")),
    ("batch", ("batch", "rows")),
];

/// Settings that a stream may have, each name once for each of its kinds.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    setting_sources().into_iter().flat_map(|(_, slices)| slices).flatten().filter(|s| !belongs_to_the_run(s))
}

fn belongs_to_the_run(setting: &Setting) -> bool {
    DISPLAY.iter().any(|s| s.name == setting.name) || OF_THE_RUN.contains(&setting.name)
}

impl JobFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// `Config` with file and line; a file that cannot be read.
    pub fn read(path: &str, env: &Environment) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::io(path, "cannot read the job file", e).hint("haul run JOB.yaml; haul schema-of-config describes the file")
        })?;
        Self::parse(&text, path, env)
    }

    /// As [`JobFile::read`], of text.
    ///
    /// # Errors
    /// `Config`.
    pub fn parse(text: &str, path: &str, env: &Environment) -> Result<Self> {
        let mut root = Node::parse(text, path)?;
        vars::substitute(&mut root, env).map_err(|e| e.object(path))?;
        Self::of(root, path).map_err(|e| e.object(path))
    }

    fn of(root: Node, path: &str) -> Result<Self> {
        let line = root.line;
        let pairs = mapping(root, "the job file")?;
        let mut file =
            Self { path: path.to_string(), connections: Vec::new(), streams: Vec::new(), max_parallel_tables: None, fail_fast: false };
        let (mut defaults, mut streams) = (Vec::new(), None);
        for (key, value) in pairs {
            let at = value.line;
            match key.text.as_str() {
                "connections" => file.connections = connections(value)?,
                "defaults" => {
                    for (key, value) in mapping(value, "defaults")? {
                        defaults.push(setting(&key, value)?);
                    }
                }
                "streams" => streams = Some(list(value, "streams")?),
                "max_parallel_tables" => file.max_parallel_tables = Some(positive(&key, value)?),
                "fail_fast" => {
                    let text = word(&key, value)?;
                    Setting::new("fail_fast", Kind::Bool, "", "").check(&text).map_err(|e| e.line(at))?;
                    file.fail_fast = matches!(text.to_ascii_lowercase().as_str(), "true" | "on" | "yes" | "1");
                }
                _ => return Err(unknown(&key, TOP.iter().map(|w| w.name), "a job file")),
            }
        }
        let streams = streams.filter(|s| !s.is_empty()).ok_or_else(|| {
            Error::new(ErrorKind::Config, "there is nothing to copy: streams is missing or empty")
                .line(line)
                .hint("streams:\n  - from: prod:public.*\n    to: lake:{schema}/{table}.parquet")
        })?;
        file.streams = streams.into_iter().map(|node| stream(node, &defaults)).collect::<Result<_>>()?;
        Ok(file)
    }
}

/// `name: URI` or `name: {uri: URI, sslmode: require}`.
fn connections(node: Node) -> Result<Vec<(String, Endpoint)>> {
    let mut out = Vec::new();
    for (name, value) in mapping(node, "connections")? {
        let good = name.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !good {
            return Err(Error::new(ErrorKind::Config, format!("{:?} is no name for a connection", name.text))
                .line(name.line)
                .hint("letters, digits, _ and -, with a letter first"));
        }
        out.push((name.text.clone(), connection(&name, value)?));
    }
    Ok(out)
}

fn connection(name: &Key, value: Node) -> Result<Endpoint> {
    let line = value.line;
    let at = |e: Error| e.line(line);
    let pairs = match value.value {
        Value::Text(text) => return Endpoint::parse(&text).map_err(at),
        _ => mapping(value, &format!("connection {:?}", name.text))?,
    };
    let (mut uri, mut query) = (None, Vec::new());
    for (key, value) in pairs {
        match key.text.as_str() {
            "uri" | "url" => uri = Some(word(&key, value)?),
            _ => query.push(setting(&key, value)?),
        }
    }
    let uri = uri.ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("connection {:?} has no uri", name.text)).line(line).hint("uri: postgres://user@host/db")
    })?;
    let mut endpoint = Endpoint::parse(&uri).map_err(at)?;
    endpoint.query.extend(query);
    Ok(endpoint)
}

fn stream(node: Node, defaults: &Given) -> Result<Stream> {
    let line = node.line;
    let mut out = Stream {
        name: None,
        from: String::new(),
        to: String::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        settings: Vec::new(),
        defaults: Vec::new(),
        transforms: Vec::new(),
        line,
    };
    for (key, value) in mapping(node, "a stream")? {
        match key.text.as_str() {
            "from" => out.from = word(&key, value)?,
            "to" => out.to = word(&key, value)?,
            "name" => out.name = Some(word(&key, value)?),
            "include" => out.include = words(&key, value)?,
            "exclude" => out.exclude = words(&key, value)?,
            "transforms" => out.transforms = transforms(value)?,
            _ => out.settings.push(setting(&key, value)?),
        }
    }
    for (what, text) in [("from", &out.from), ("to", &out.to)] {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::Config, format!("a stream without {what}")).line(line));
        }
    }
    out.defaults = defaults.iter().filter(|(name, _)| !out.settings.iter().any(|(n, _)| n == name)).cloned().collect();
    Ok(out)
}

/// `[{cast: {amount: decimal(15,2)}}, {rename: {a: b}}]`.
fn transforms(node: Node) -> Result<Vec<Suffix>> {
    let mut out = Vec::new();
    for item in list(node, "transforms")? {
        for (key, value) in mapping(item, "a transform")? {
            let Some((_, (step, setting))) = TRANSFORMS.iter().find(|(name, _)| *name == key.text) else {
                return Err(unknown(&key, TRANSFORMS.iter().map(|(name, _)| *name), "transforms"));
            };
            let text = text_of(&key, value)?;
            out.push(Suffix { name: (*step).into(), query: vec![((*setting).to_string(), text)] });
        }
    }
    Ok(out)
}

/// A setting under its own name, with a value that it may have.
fn setting(key: &Key, value: Node) -> Result<(String, String)> {
    let same: Vec<&Setting> = settings().filter(|s| s.answers_to(&key.text)).collect();
    let Some(first) = same.first() else {
        let of_run = setting_sources().into_iter().flat_map(|(_, s)| s).flatten().find(|s| s.answers_to(&key.text));
        if let Some(of_run) = of_run {
            return Err(Error::new(ErrorKind::Config, format!("{:?} is said on the command line, not in the file", key.text))
                .line(key.line)
                .hint(format!("haul run JOB.yaml --{}", of_run.name.replace('_', "-"))));
        }
        let known = settings().map(|s| s.name).chain(STREAM.iter().map(|w| w.name));
        return Err(unknown(key, known, "a stream"));
    };
    let line = value.line;
    let text = text_of(key, value)?;
    // Several connectors may have settings of one name; which of them is meant is known when the ends are.
    let checked: Vec<Result<()>> = same.iter().map(|s| s.check(&text)).collect();
    if checked.iter().all(Result::is_err)
        && let Some(Err(error)) = checked.into_iter().next()
    {
        return Err(error.line(line));
    }
    Ok((first.name.to_string(), text))
}

/// A value as a flag would have it: lists joined by commas, mappings as `a:b,c:d`.
fn text_of(key: &Key, node: Node) -> Result<String> {
    let line = node.line;
    let quoted = |text: &str| match text.contains([',', '"', ':', '=']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    };
    match node.value {
        Value::Text(text) => Ok(text),
        Value::List(items) => {
            let items = items.into_iter().map(|item| word(key, item).map(|w| quoted(&w))).collect::<Result<Vec<_>>>()?;
            Ok(items.join(","))
        }
        Value::Map(pairs) if key.text == "csv" => {
            let object = pairs.into_iter().map(|(k, v)| Ok((k.text.clone(), serde_json::Value::String(word(&k, v)?))));
            Ok(serde_json::Value::Object(object.collect::<Result<_>>()?).to_string())
        }
        Value::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(k, v)| {
                let value = word(&k, v)?;
                // Types have commas in brackets, which are no trouble; names may have any.
                let value = if key.text == "rename" { quoted(&value) } else { value };
                Ok(format!("{}:{value}", quoted(&k.text)))
            });
            Ok(pairs.collect::<Result<Vec<_>>>()?.join(","))
        }
        Value::Null => Err(Error::new(ErrorKind::Config, format!("{:?} has no value", key.text)).line(line)),
    }
}

fn mapping(node: Node, what: &str) -> Result<Vec<(Key, Node)>> {
    match node.value {
        Value::Map(pairs) => Ok(pairs),
        _ => Err(Error::new(ErrorKind::Config, format!("{what} is a mapping (name: value), not {}", node.kind())).line(node.line)),
    }
}

fn list(node: Node, what: &str) -> Result<Vec<Node>> {
    match node.value {
        Value::List(items) => Ok(items),
        _ => Err(Error::new(ErrorKind::Config, format!("{what} is a list (lines that begin with -), not {}", node.kind())).line(node.line)),
    }
}

fn word(key: &Key, node: Node) -> Result<String> {
    match node.value {
        Value::Text(text) => Ok(text),
        _ => Err(Error::new(ErrorKind::Config, format!("{:?} takes a word, not {}", key.text, node.kind())).line(node.line)),
    }
}

/// One word, or a list of them.
fn words(key: &Key, node: Node) -> Result<Vec<String>> {
    match node.value {
        Value::List(items) => items.into_iter().map(|item| word(key, item)).collect(),
        _ => Ok(vec![word(key, node)?]),
    }
}

fn positive(key: &Key, node: Node) -> Result<usize> {
    let line = node.line;
    let text = word(key, node)?;
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| Error::new(ErrorKind::Config, format!("{:?} takes a whole number from 1, not {text:?}", key.text)).line(line))
}

/// A key that is not known here: what it is called here if another tool has it, else the nearest name.
fn unknown<'a>(key: &Key, names: impl Iterator<Item = &'a str>, of: &str) -> Error {
    let error = Error::new(ErrorKind::Config, format!("unknown key {:?} in {of}", key.text)).line(key.line);
    match (foreign::instead(&key.text), nearest(&key.text, names)) {
        (Some(instead), _) => error.hint(format!("go-migrate has it; here it is written so: {instead}")),
        (None, Some(near)) => error.hint(format!("did you mean {near:?}?")),
        (None, None) => error.hint("haul schema-of-config lists all keys"),
    }
}

#[cfg(test)]
mod tests;
