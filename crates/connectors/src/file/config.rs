//! Which files, in which format and compression.

use super::set::manifest::Manifest;
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
pub const SOURCE: &[Setting] = &[
    FORMAT,
    compression::SETTING,
    Setting::new("max_row_bytes", Kind::Bytes, "64MiB", "A longer record is an error, so that one broken quote cannot take all memory."),
    Setting::new(
        "schemas",
        Kind::Choice(&["same", "union"]),
        "same",
        "Files with other columns than the first one: same refuses them; union fills with NULL what a file lacks, and widens whole numbers and floats.",
    ),
    Setting::new("file_column", Kind::Bool, "false", "Add a column _file: the file that a row comes from. --columns id,_file does so too."),
    Setting::new("hive", Kind::Bool, "false", "Add columns that folders are named for: day=2024-01-01/x.parquet gives a text column day."),
];

/// Settings for writing, beside the format's.
pub const SINK: &[Setting] = &[
    FORMAT,
    compression::SETTING,
    compression::LEVEL_SETTING,
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "What to do with a value that the format cannot hold (see the job's setting).",
    ),
    Setting::new("file_rows", Kind::Int, "", "Begin a new file of the set after so many rows."),
    Setting::new("file_bytes", Kind::Bytes, "", "Begin a new file of the set at about so many bytes (Parquet: when a row group ends)."),
    Setting::new(
        "partition_by",
        Kind::List,
        "",
        "Put rows into folders by the values of these columns (country=DE/day=2024-01-01/), which the files then leave out.",
    ),
    Setting::new(
        "merge",
        Kind::Bool,
        "false",
        "One file in the order of the source, also where several lanes read it: rows of a later part wait for those before.",
    ),
    Setting::new(
        "mkdir",
        Kind::Bool,
        "off",
        "Make the folder of the file if it is missing. Folders that a name is made of are always made.",
    )
    .tuning(),
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
    // A folder that the pattern itself names may well begin with a dot; one that it only finds is hidden.
    let named = path.split('/').filter(|part| !part.is_empty()).take_while(|part| !is_pattern(part)).count();
    let below = |path: &Path| {
        let parts = path.components().filter_map(|c| if let std::path::Component::RootDir = c { None } else { Some(c.as_os_str()) });
        parts.skip(named).filter_map(|part| part.to_str().map(str::to_string)).collect::<Vec<_>>().into_iter()
    };
    let files: Vec<PathBuf> = glob::glob(path)
        .map_err(|e| bad(e.to_string()))?
        .filter_map(|entry| entry.ok().filter(|p| p.is_file() && is_data_file(p) && below(p).all(|part| !is_hidden(part))))
        .collect();
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "the pattern matches no file").object(path));
    }
    Ok(files)
}

fn expand_folder(path: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(folder, &mut files).map_err(|e| Error::io(path, "cannot list the folder", e))?;
    if files.is_empty() {
        return Err(
            Error::new(ErrorKind::NotFound, "the folder holds no data file (names that start with . or _ are left out)").object(path)
        );
    }
    Ok(files)
}

/// The data files in and below a folder, in name order, each folder's own files first.
pub fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut folders = Vec::new();
    let first = files.len();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !is_data_file(&path) {
            continue;
        }
        // A link to a folder is not followed: it may lead back here.
        if entry.file_type()?.is_dir() {
            folders.push(path);
        } else if path.is_file() {
            files.push(path);
        }
    }
    files[first..].sort();
    folders.sort();
    folders.iter().try_for_each(|folder| walk(folder, files))
}

/// Hidden files, temporary files and markers such as `_SUCCESS` are not data.
fn is_data_file(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(|n| !is_hidden(n))
}

fn is_hidden(name: impl AsRef<str>) -> bool {
    name.as_ref().starts_with(['.', '_'])
}

/// Whether a path is a pattern that several files may match.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Whether a target is a folder, there already or written as one.
pub fn is_folder(path: &str) -> bool {
    path.ends_with('/') || Path::new(path).is_dir()
}

/// The format of a set in a folder: as said, else as the set there has it.
///
/// # Errors
/// `Config`: nothing says it.
pub fn format_in_folder(path: &str, format: Option<&str>) -> Result<&'static FormatSpec> {
    if let Some(word) = format {
        return by_name(word).ok_or_else(|| unknown_format(word));
    }
    let folder = Path::new(path);
    match expand(path) {
        Ok(files) if folder.is_dir() && Manifest::read_local(folder)?.is_some() => choose(&files[0].to_string_lossy(), None),
        _ => {
            let example = Path::new(path).join("out.jsonl");
            Err(Error::new(ErrorKind::Config, "is a folder, and nothing says the format of the files in it")
                .object(path)
                .hint(format!("name a file in it, for example {}, or say --format parquet for a set of files", example.display())))
        }
    }
}

/// The names of the files of a set, where the target is one: a template, or a folder.
///
/// # Errors
/// `Config`: a folder without a format.
pub fn set_template(path: &str, settings: &Settings) -> Result<Option<String>> {
    match is_folder(path) {
        true => Ok(Some(template_in_folder(path, format_in_folder(path, settings.text("format"))?, settings))),
        false => template_of_several(path),
    }
}

/// The path, if it names several files.
///
/// # Errors
/// `Config`: a template that cannot be read.
pub fn template_of_several(path: &str) -> Result<Option<String>> {
    let several = super::set::is_template(path) && !super::set::Template::parse(path)?.is_one_file();
    Ok(several.then(|| path.to_string()))
}

/// The names of files in a folder for which no names are given.
pub fn template_in_folder(path: &str, format: &FormatSpec, settings: &Settings) -> String {
    let mut extension = format.extensions[0].to_string();
    if !format.container
        && let Some(outer) = Compression::for_writing(settings, "").extension()
    {
        extension = format!("{extension}.{outer}");
    }
    let folder = path.trim_end_matches('/').replace('{', "{{").replace('}', "}}");
    let folder = if path.is_empty() { String::new() } else { format!("{folder}/") };
    format!("{folder}{{table}}_{{lane:04}}_{{part:04}}.{extension}")
}

/// Refuses settings of sets for a single file.
///
/// # Errors
/// `Config`.
pub fn no_set(settings: &Settings, path: &str) -> Result<()> {
    let Some(name) = ["file_rows", "file_bytes", "partition_by"].into_iter().find(|name| settings.has(name)) else { return Ok(()) };
    let (stem, extension) = path.rsplit_once('/').map_or(path, |(_, file)| file).split_once('.').unwrap_or(("out", "csv"));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    Err(Error::new(ErrorKind::Config, format!("--{} makes several files, but the target is one", name.replace('_', "-")))
        .object(path)
        .hint(format!(
            "say where their numbers go: {folder}{stem}/{stem}_{{lane:04}}_{{part:04}}.{extension}, or name a folder: {folder}{stem}/"
        )))
}

/// The longest record allowed.
pub fn max_row_bytes(settings: &Settings) -> u64 {
    settings.bytes("max_row_bytes").unwrap_or(MAX_ROW_BYTES)
}
