//! Files and pipes: CSV, TSV, JSON Lines, Parquet and Arrow IPC, compressed or not.

mod config;
mod input;
mod open;
mod placed;
mod reader;
mod set;
mod shape;
mod sink;
mod source;
mod stored;
mod target;
#[cfg(test)]
mod tests;
mod writing;

pub use reader::CHUNK;
pub use sink::{Destination, FileSink};
pub use source::FileSource;

// What files elsewhere are made of: the same formats, sets and manifests.
pub(crate) use config::{
    SINK as SINK_SETTINGS, SOURCE as SOURCE_SETTINGS, choose as format_by_name, no_set, template_in_folder, template_of_several,
};
pub(crate) use input::ByteStream;
pub(crate) use placed::PlacedSink;
pub(crate) use set::manifest::{self, Manifest, Member};
pub(crate) use set::{Place, SetSink, finish as finish_set};
pub(crate) use stored::Stored;
pub(crate) use target::{Target, Upload};

use haul_model::{
    CheckLine, Connector, ConnectorSpec, Endpoint, Environment, Error, ErrorKind, Example, Leftover, Result, Setting, Settings, Sink,
    Source,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reference.
pub static SPEC: ConnectorSpec = ConnectorSpec {
    name: "file",
    schemes: &["file", "stdio"],
    title: "Files and pipes: CSV, TSV, JSON Lines, Parquet, Arrow IPC",
    doc: include_str!("README.md"),
    source: config::SOURCE,
    sink: config::SINK,
    examples: &[
        Example { command: "haul copy orders.csv orders.jsonl", what: "CSV to JSON Lines, values stay strings" },
        Example { command: "haul copy orders.csv orders.parquet --infer", what: "CSV to Parquet, types from a sample" },
        Example { command: "haul copy 'logs/*.csv.gz' all.jsonl.zst", what: "many gzipped files into one zstd file" },
        Example { command: "haul copy - out.csv --format jsonl", what: "JSON Lines from a pipe" },
        Example {
            command: "haul copy 'lake/*.parquet' big.csv --where \"amount > 1000\" --columns id,amount",
            what: "some rows and columns of a set",
        },
        Example { command: "haul copy 'old/*.parquet' new.parquet --schemas union --file-column", what: "files with different columns" },
        Example { command: "haul copy orders.csv 'out/{table}_{part:03}.parquet' --file-rows 1000000", what: "a file cut into parts" },
        Example { command: "haul copy orders.parquet out/ --format parquet --partition-by country,day", what: "folders by value" },
    ],
};

/// The connector.
pub struct FileConnector;

impl Connector for FileConnector {
    fn spec(&self) -> &'static ConnectorSpec {
        &SPEC
    }

    fn source_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        Ok(vec![config::SOURCE, config::format_of(endpoint, None)?.read])
    }

    fn sink_settings(&self, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        let path = if config::is_stdio(endpoint) { "-".to_string() } else { endpoint.path()? };
        let format = match config::is_folder(&path) {
            true => config::format_in_folder(&path, endpoint.get("format"))?,
            false => config::format_of(endpoint, None)?,
        };
        // A container's own settings win: its `compression=` is of another kind.
        Ok(vec![format.write, config::SINK])
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        if config::is_stdio(endpoint) {
            return Ok(Box::new(FileSource::pipe(Box::new(input::StandardInput::new(env.stop.clone())), settings)?));
        }
        let path = endpoint.path()?;
        Ok(Box::new(FileSource::files(&stored::open_local(&path)?, &path, settings)?))
    }

    fn sink(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Sink>> {
        if config::is_stdio(endpoint) {
            config::no_set(settings, "-")?;
            return Ok(Box::new(FileSink::new(Destination::Pipe(Box::new(std::io::stdout())), settings, &env.run_id)?));
        }
        let path = endpoint.path()?;
        let Some(template) = config::set_template(&path, settings)? else {
            config::no_set(settings, &path)?;
            return Ok(Box::new(FileSink::new(Destination::Path(PathBuf::from(path)), settings, &env.run_id)?));
        };
        let (run, fsync) = (env.run_id.clone(), settings.flag("fsync", true));
        let make = move |root: &str| -> Result<Arc<dyn set::Place>> { Ok(Arc::new(set::Folder::new(root, &run, fsync))) };
        Ok(Box::new(SetSink::new(&template, settings, &env.run_id, Box::new(make))?))
    }

    fn object(&self, connection: &Endpoint, name: &str) -> Result<Endpoint> {
        let name = if connection.is_uri { haul_model::percent_encode_path(name) } else { name.to_string() };
        let folder = connection.address.trim_end_matches('/');
        Ok(Endpoint { address: format!("{folder}/{name}"), ..connection.clone() })
    }

    /// A name is one part of a path, whatever is in it.
    fn quoted(&self, name: &str) -> String {
        match name {
            "." | ".." => name.replace('.', "%2E"),
            _ => name.replace('/', "%2F"),
        }
    }

    fn identity(&self, endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<String> {
        if config::is_stdio(endpoint) {
            return Ok("-".into());
        }
        let path = endpoint.path()?;
        Ok(std::path::absolute(&path).map_or(path, |path| path.display().to_string()))
    }

    fn clean(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment, left: &[Leftover]) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for left in left {
            if let Some(temp) = left.what.strip_prefix("file ")
                && target::remove_left(Path::new(temp), &left.run)?
            {
                removed.push(left.what.clone());
            }
            if let Some(root) = left.what.strip_prefix("set ") {
                removed.extend(clean_set(root, &left.run)?);
            }
        }
        Ok(removed)
    }

    fn check(&self, endpoint: &Endpoint, settings: &Settings, _env: &Environment) -> Result<Vec<CheckLine>> {
        let line = |what: &str, ok, found: String| CheckLine { what: what.to_string(), ok, found };
        if config::is_stdio(endpoint) {
            return Ok(vec![line("pipe", None, "standard input and output are always there".into())]);
        }
        let path = endpoint.path()?;
        let mut lines = Vec::new();
        match stored::open_local(&path) {
            Ok(files) => {
                let bytes: u64 = files.iter().filter_map(|f| f.bytes()).sum();
                lines.push(line("exists", Some(true), format!("{} file(s), {bytes} bytes", files.len())));
                match FileSource::files(&files, &path, settings) {
                    Ok(source) => {
                        let columns = source.schema(haul_model::Form::Typed)?.fields().len();
                        lines.push(line("read", Some(true), format!("{columns} columns")));
                    }
                    Err(error) => lines.push(line("read", Some(false), error.to_string())),
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !config::is_pattern(&path) => {
                lines.push(line("exists", Some(false), "no such file".into()));
            }
            Err(error) => lines.push(line("exists", Some(false), error.to_string())),
        }
        let written = if config::is_folder(&path) { path.trim_end_matches('/').to_string() + "/." } else { path };
        match target::check(Path::new(&written), false) {
            Ok(()) => lines.push(line("write", Some(true), "the folder can be written".into())),
            Err(error) => lines.push(line("write", Some(false), error.to_string())),
        }
        if lines.is_empty() {
            return Err(Error::new(ErrorKind::Internal, "nothing to check"));
        }
        Ok(lines)
    }
}

/// What a killed run has left of a set: past its commit point the set is finished, before it its files go.
fn clean_set(root: &str, run: &str) -> Result<Vec<String>> {
    let place = set::Folder::new(root, run, true);
    if let Some(manifest) = set::Place::manifest(&place)?.filter(|m| m.replacing && m.run == run) {
        set::finish(&place, manifest)?;
        return Ok(vec![format!("the last step of the set in {root}: it is whole now")]);
    }
    let count = set::remove_temporaries(Path::new(root), run)?;
    Ok(if count == 0 { Vec::new() } else { vec![format!("{count} file(s) of a set in {root}")] })
}
