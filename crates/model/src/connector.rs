//! A connector: one folder, one line in the registry.

use crate::{Catalog, Endpoint, Error, ErrorKind, Idle, Result, Setting, Settings, Sink, Source, StateStore, TablePart};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What libraries may know about the process they run in. The CLI fills it; tests make their own.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Environment variables.
    pub vars: HashMap<String, String>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Set when the job should stop (Ctrl-C). Anything that blocks looks at it at least every 250 ms.
    pub stop: Arc<AtomicBool>,
    /// Name for `application_name` and staging objects: `haul/<job>`, unique to this run.
    pub run_id: String,
    /// CPU cores to use.
    pub cores: usize,
    /// What is kept open between the streams of a job.
    pub idle: Idle,
}

impl Environment {
    /// A variable, if set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }
    /// Whether the user asked to stop.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One command line for the docs; a test runs each of them through the parser.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// As typed.
    pub command: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// The reference of a connector: docs, `haul connectors`, completions and config checks are generated from it.
#[derive(Debug)]
pub struct ConnectorSpec {
    /// `file`, `postgres`.
    pub name: &'static str,
    /// URI schemes, the first is the canonical one.
    pub schemes: &'static [&'static str],
    /// One line.
    pub title: &'static str,
    /// A paragraph or two of Markdown: what a URI means, guarantees, limits.
    pub doc: &'static str,
    /// Settings for reading.
    pub source: &'static [Setting],
    /// Settings for writing.
    pub sink: &'static [Setting],
    /// Command lines.
    pub examples: &'static [Example],
}

/// One finding of `haul check`.
#[derive(Debug, Clone)]
pub struct CheckLine {
    /// What was looked at: `connect`, `read rights`.
    pub what: String,
    /// Whether it is well; `None` = information only.
    pub ok: Option<bool>,
    /// What was found.
    pub found: String,
}

/// Something that a killed run has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The run that made it.
    pub run: String,
    /// What it is, as [`crate::Sink::leaves`] named it.
    pub what: String,
}

/// A system that Haul can read from or write to.
pub trait Connector: Send + Sync {
    /// Its reference.
    fn spec(&self) -> &'static ConnectorSpec;
    /// Further settings that this endpoint's format brings, for reading.
    ///
    /// # Errors
    /// An unknown format.
    fn source_settings(&self, _endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        Ok(vec![self.spec().source])
    }
    /// Further settings that this endpoint's format brings, for writing.
    ///
    /// # Errors
    /// An unknown format.
    fn sink_settings(&self, _endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
        Ok(vec![self.spec().sink])
    }
    /// Connects for reading and discovers the schema.
    ///
    /// # Errors
    /// Config, connection, rights, missing object.
    fn source(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Source>>;
    /// Connects for writing. Changes nothing.
    ///
    /// # Errors
    /// Config, connection, rights.
    fn sink(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Box<dyn Sink>>;
    /// The endpoint of an object inside of a connection: a table of a database, a path below a folder.
    ///
    /// # Errors
    /// `Config`: a name that cannot be one.
    fn object(&self, connection: &Endpoint, _name: &str) -> Result<Endpoint> {
        Err(Error::new(ErrorKind::Config, "this connection has no objects of its own").object(connection.redacted()))
    }
    /// A name as it is written inside of the text that [`Connector::object`] takes: quoted, where it must be.
    fn quoted(&self, name: &str) -> String {
        name.to_string()
    }
    /// Connects to the system of a connection, to find objects by pattern and read many of them under one instant; `None` where there
    /// is nothing of the kind.
    ///
    /// # Errors
    /// Config, connection.
    fn catalog(&self, _connection: &Endpoint, _env: &Environment) -> Result<Option<Box<dyn Catalog>>> {
        Ok(None)
    }
    /// Which place an endpoint means, whatever its spelling: `postgres://db1:5432/prod/public.orders`, an absolute path. No secrets,
    /// and nothing of how it is reached. Part of a job's identity.
    ///
    /// # Errors
    /// Config.
    fn identity(&self, endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<String> {
        Ok(Endpoint { query: Vec::new(), suffixes: Vec::new(), ..endpoint.clone() }.redacted())
    }
    /// Adds foreign keys to a table that a finished load has made, and checks its rows against them. `refers_to` of each names a table there.
    /// One that is there already is only checked. What was left out, in words.
    ///
    /// # Errors
    /// Rows that break a key; connection, rights.
    fn add_keys(
        &self,
        endpoint: &Endpoint,
        _settings: &Settings,
        _env: &Environment,
        _table: &str,
        _keys: &[TablePart],
    ) -> Result<Vec<String>> {
        Err(Error::new(ErrorKind::Unsupported, "there are no foreign keys here").object(endpoint.redacted()))
    }
    /// Removes what killed runs have left at this endpoint; what was removed, in words. What is gone already is no error.
    ///
    /// # Errors
    /// Connection, rights.
    fn clean(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment, _left: &[Leftover]) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// State of jobs, kept in this system.
    ///
    /// # Errors
    /// `Unsupported`; config, connection, rights.
    fn state(&self, endpoint: &Endpoint, _env: &Environment) -> Result<Box<dyn StateStore>> {
        Err(Error::new(ErrorKind::Unsupported, "state cannot be kept there")
            .object(endpoint.redacted())
            .hint("give --state a folder, or postgres://user@host/db"))
    }
    /// How a stream of changes stands at its source: what it holds there, and how far behind it is.
    ///
    /// # Errors
    /// `Unsupported`: it has no such streams; there is none of this name.
    fn stream_status(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<Vec<CheckLine>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{} has no streams of changes", self.spec().name)))
    }
    /// Removes everything that a stream of changes holds at its source; what was removed, in words.
    ///
    /// # Errors
    /// As [`Connector::stream_status`]; the stream is being read.
    fn stream_drop(&self, _endpoint: &Endpoint, _settings: &Settings, _env: &Environment) -> Result<Vec<String>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{} has no streams of changes", self.spec().name)))
    }
    /// Whether it can be reached, and with what rights.
    ///
    /// # Errors
    /// Only what keeps it from looking at all.
    fn check(&self, endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>>;
}
