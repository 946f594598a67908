//! Which files, in which format and compression.

use haul_formats::compression::Compression;
use haul_formats::{FORMATS, FormatSpec, by_extension, by_name};
use haul_model::{Endpoint, Error, ErrorKind, Kind, Result, Setting, Settings};
use std::path::{Path, PathBuf};

/// `--max-row-bytes` when nothing is said.
pub const MAX_ROW_BYTES: u64 = 64 << 20;

const FORMAT: Setting = Setting::new(
    "format",
    Kind::Text,
    "by extension",
    "csv, tsv, jsonl (also json, raw, ndjson: one JSON object a line), parquet, arrow. Needed where the name does not say it.",
);
const COMPRESSION: Setting = Setting::new(
    "compression",
    Kind::Choice(&["auto", "none", "gzip", "gz", "zstd", "zst", "lz4", "snappy"]),
    "auto",
    "Compression of the file; auto goes by extension (.gz, .zst, .lz4) and, when reading, by the first bytes. For Parquet and Arrow: the codec inside the file.",
);

/// Settings for reading, beside the format's.
pub static SOURCE: &[Setting] = &[
    FORMAT,
    COMPRESSION,
    Setting::new("max_row_bytes", Kind::Bytes, "64MiB", "A longer record is an error, so that one broken quote cannot take all memory."),
];

/// Settings for writing, beside the format's.
pub static SINK: &[Setting] = &[
    FORMAT,
    COMPRESSION,
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

/// The format and compression that an endpoint asks for, by setting or by name.
pub struct Choice {
    pub format: &'static FormatSpec,
    pub compression: Option<Compression>,
}

/// Works out format and compression for a file called `name`.
pub fn choose(name: &str, format: Option<&str>, compression: Option<&str>) -> Result<Choice> {
    let by_name_end = Compression::of_extension(name);
    let compression = match compression {
        None | Some("auto") => by_name_end.map(|(c, _)| c),
        Some(word) => Compression::by_name(word),
    };
    let stem = by_name_end.map_or(name, |(_, stem)| stem);
    let found = match format {
        Some(word) => by_name(word).ok_or_else(|| unknown_format(word))?,
        None => by_extension(stem).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("cannot tell the format of {name:?} by its name"))
                .hint(format!("say it: ?format=csv (one of {})", names()))
        })?,
    };
    Ok(Choice { format: found, compression })
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
    Ok(choose(&name, format, endpoint.get("compression").filter(|c| *c != "snappy"))?.format)
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
