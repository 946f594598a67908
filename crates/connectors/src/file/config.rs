//! Which files, in which format and compression.

use haul_formats::compression::{self, Compression};
use haul_formats::{FORMATS, FormatSpec, by_extension, by_name};
use haul_model::{Endpoint, Error, ErrorKind, Kind, OnLossy, Result, Setting, Settings};
use std::path::{Path, PathBuf};

/// `--max-row-bytes` when nothing is said.
pub const MAX_ROW_BYTES: u64 = 64 << 20;

const FORMAT: Setting = Setting::new(
    "format",
    Kind::Text,
    "by extension",
    "csv, tsv, jsonl (also json, raw, ndjson: one JSON object a line), parquet, arrow. Needed where the name does not say it; as a flag it is for those ends only.",
);
/// Settings for reading, beside the format's.
pub static SOURCE: &[Setting] = &[
    FORMAT,
    compression::SETTING,
    Setting::new("max_row_bytes", Kind::Bytes, "64MiB", "A longer record is an error, so that one broken quote cannot take all memory."),
];

/// Settings for writing, beside the format's.
pub static SINK: &[Setting] = &[
    FORMAT,
    compression::SETTING,
    compression::LEVEL_SETTING,
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "What to do with a value that the format cannot hold (see the job's setting).",
    ),
    Setting::new("fsync", Kind::Bool, "on", "Make the file durable before it gets its name. off: leave that to the operating system."),
    Setting::new(
        "mode",
        Kind::Choice(&["replace", "create", "append"]),
        "replace",
        "replace: an existing file is replaced at once, when the new one is whole. create: an existing file is an error.",
    ),
];

/// The `-` endpoint.
pub fn is_stdio(endpoint: &Endpoint) -> bool {
    endpoint.scheme == "stdio"
}

/// The format of a file called `name`: by setting, else by its extension (a compression's left out).
pub fn choose(name: &str, format: Option<&str>) -> Result<&'static FormatSpec> {
    match format {
        Some(word) => by_name(word).ok_or_else(|| unknown_format(word)),
        None => by_extension(Compression::by_extension(name).1).ok_or_else(|| {
            let error = Error::new(ErrorKind::Config, format!("cannot tell the format of {name:?} by its name"));
            error.hint(format!("say it: --format csv, or ?format=csv behind the path (one of {})", names()))
        }),
    }
}

/// The settings with what the format itself implies: a TSV file is delimited by tabs.
pub fn dialect(format: &FormatSpec, settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    haul_formats::csv::apply_defaults(format.name, &mut settings);
    settings
}

/// The settings under which a file reads as it was written under `settings` of the sink, with these columns.
pub fn reading(format: &FormatSpec, settings: &Settings, columns: &[String]) -> Vec<(String, String)> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = vec![("format".to_string(), format.name.to_string())];
    let mut set = |name: &str, value: String| out.push((name.to_string(), value));
    match format.name {
        "csv" | "tsv" => {
            let settings = dialect(format, settings);
            set("delimiter", settings.text("delimiter").unwrap_or(",").to_string());
            set(
                "quote",
                if settings.choice("quoting").as_deref() == Some("none") { "none" } else { settings.text("quote").unwrap_or("\"") }
                    .to_string(),
            );
            set("header", settings.flag("header", true).to_string());
            if let Some(comment) = settings.text("comment") {
                set("comment", comment.to_string());
            }
            if let Some(null) = settings.text("null").filter(|null| !null.is_empty()) {
                set("null", quoted(null));
                // With a word for NULL, nothing is an empty string.
                set("empty", "string".into());
            }
        }
        "jsonl" => {
            set("types", "json".into());
            set("columns", columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(","));
        }
        _ => {}
    }
    out
}

/// The policy for values that the format cannot hold.
pub fn on_lossy(settings: &Settings) -> OnLossy {
    match settings.choice("on_lossy").as_deref() {
        Some("text") => OnLossy::Text,
        Some("null") => OnLossy::Null,
        Some("clamp") => OnLossy::Clamp,
        _ => OnLossy::Error,
    }
}

fn unknown_format(word: &str) -> Error {
    let error = Error::new(ErrorKind::Config, format!("unknown format {word:?}"));
    match haul_model::nearest(word, FORMATS.iter().map(|f| f.name)) {
        Some(near) => error.hint(format!("did you mean {near:?}? Formats: {}", names())),
        None => error.hint(format!("formats: {}", names())),
    }
}

fn names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// The format of an endpoint before its settings are checked, so that the format's own settings are known.
pub fn format_of(endpoint: &Endpoint, format: Option<&str>) -> Result<&'static FormatSpec> {
    let format = format.or_else(|| endpoint.get("format"));
    let path = if is_stdio(endpoint) { "-".to_string() } else { endpoint.path()? };
    let name = first_name(&path);
    choose(&name, format)
}

/// The name that stands for a path when its format is looked up: for a folder, its first file's.
fn first_name(path: &str) -> String {
    match expand(path) {
        Ok(files) if Path::new(path).is_dir() => files.first().map_or(path.to_string(), |f| f.to_string_lossy().into_owned()),
        _ => path.to_string(),
    }
}

/// The input files of a path, glob or folder, in name order.
///
/// # Errors
/// `NotFound`, when there is none.
pub fn expand(path: &str) -> Result<Vec<PathBuf>> {
    let plain = Path::new(path);
    if plain.is_dir() {
        return expand_folder(path, plain);
    }
    if plain.exists() || !path.contains(['*', '?', '[']) {
        return Ok(vec![plain.to_path_buf()]);
    }
    let bad = |e: String| Error::new(ErrorKind::Config, format!("the pattern cannot be read: {e}")).object(path);
    let files: Vec<PathBuf> = glob::glob(path)
        .map_err(|e| bad(e.to_string()))?
        .filter_map(|entry| entry.ok().filter(|p| p.is_file() && is_data_file(p)))
        .collect();
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "the pattern matches no file").object(path));
    }
    Ok(files)
}

fn expand_folder(path: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(path, "cannot list the folder", e))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(path, "cannot list the folder", e))?.path();
        if entry.is_file() && is_data_file(&entry) {
            files.push(entry);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(
            Error::new(ErrorKind::NotFound, "the folder holds no data file (names that start with . or _ are left out)").object(path)
        );
    }
    Ok(files)
}

/// Hidden files, temporary files and markers such as `_SUCCESS` are not data.
fn is_data_file(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(|n| !n.starts_with(['.', '_']))
}

/// The longest record allowed.
pub fn max_row_bytes(settings: &Settings) -> u64 {
    settings.bytes("max_row_bytes").unwrap_or(MAX_ROW_BYTES)
}
