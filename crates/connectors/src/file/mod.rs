//! Files and pipes: CSV, TSV, JSON Lines, Parquet and Arrow IPC, compressed or not.

mod config;
mod input;
mod reader;
mod sink;
mod source;
mod target;
#[cfg(test)]
mod tests;

pub use reader::CHUNK;
pub use sink::{Destination, FileSink};
pub use source::FileSource;

use haul_model::{
    CheckLine, Connector, ConnectorSpec, Endpoint, Environment, Error, ErrorKind, Example, Leftover, Result, Setting, Settings, Sink,
    Source,
};
use std::path::PathBuf;

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
        if !config::is_stdio(endpoint) {
            target::not_a_folder(std::path::Path::new(&endpoint.path()?))?;
        }
        // A container's own settings win: its `compression=` is of another kind.
        Ok(vec![config::format_of(endpoint, None)?.write, config::SINK])
    }

    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>> {
        if config::is_stdio(endpoint) {
            return Ok(Box::new(FileSource::pipe(Box::new(input::StandardInput::new(env.stop.clone())), settings)?));
        }
        let path = endpoint.path()?;
        Ok(Box::new(FileSource::files(config::expand(&path)?, &path, settings)?))
    }

    fn sink(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Sink>> {
        let destination = if config::is_stdio(endpoint) {
            Destination::Pipe(Box::new(std::io::stdout()))
        } else {
            Destination::Path(PathBuf::from(endpoint.path()?))
        };
        Ok(Box::new(FileSink::new(destination, settings, &env.run_id)?))
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
                && target::remove_left(std::path::Path::new(temp), &left.run)?
            {
                removed.push(left.what.clone());
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
        match config::expand(&path) {
            Ok(files) if files.iter().all(|f| f.exists()) => {
                let bytes: u64 = files.iter().filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum();
                lines.push(line("exists", Some(true), format!("{} file(s), {bytes} bytes", files.len())));
                match FileSource::files(files, &path, settings) {
                    Ok(source) => {
                        let columns = source.schema(haul_model::Form::Typed)?.fields().len();
                        lines.push(line("read", Some(true), format!("{columns} columns")));
                    }
                    Err(error) => lines.push(line("read", Some(false), error.to_string())),
                }
            }
            Ok(_) => lines.push(line("exists", Some(false), "no such file".into())),
            Err(error) => lines.push(line("exists", Some(false), error.to_string())),
        }
        match target::check(std::path::Path::new(&path), false) {
            Ok(()) => lines.push(line("write", Some(true), "the folder can be written".into())),
            Err(error) => lines.push(line("write", Some(false), error.to_string())),
        }
        if lines.is_empty() {
            return Err(Error::new(ErrorKind::Internal, "nothing to check"));
        }
        Ok(lines)
    }
}
