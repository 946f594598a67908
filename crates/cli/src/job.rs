//! From words to a job: endpoints, settings by where they belong, connectors, transforms.

use crate::args::{Given, job_setting};
use crate::options::{DISPLAY, JOB};
use crate::tracking::{self, Opened, Purpose};
use haul_connectors::by_scheme;
use haul_engine::transform::{AskedBy, Cast, Flatten, JsonSchema, Project, infer_after, parse_casts, parse_suffix};
use haul_engine::verify::{How, Target, Verify};
use haul_engine::{Job, OnError, Options, Retries};
use haul_formats::csv::flattens;
use haul_model::{Connector, Endpoint, Environment, Error, ErrorKind, Result, Rows, Setting, Settings, Source, Transform};
use std::sync::Arc;

/// A job that is set up, with the settings that shape its display.
pub struct Ready {
    /// The job.
    pub job: Job,
    /// Both ends as text without secrets.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Job settings.
    pub settings: Settings,
    /// What was found of earlier runs, for the result.
    pub notes: Vec<String>,
}

/// Which way an endpoint is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Read from.
    Source,
    /// Written to.
    Sink,
}

/// An endpoint with its connector and settings.
pub struct End {
    pub endpoint: Endpoint,
    pub connector: &'static dyn Connector,
    pub settings: Settings,
    side: Side,
}

impl End {
    /// The settings that it understands.
    pub fn specs(&self) -> Result<Vec<&'static [Setting]>> {
        specs_of(self.connector, self.side, &self.endpoint)
    }
}

/// Splits what was given by flag and query into the settings of this end and those of the job.
///
/// Flags come first, so that a key in the endpoint's own query wins.
pub fn end(text: &str, side: Side, flags: &Given, job: &mut Vec<(String, String)>, used: &mut Vec<String>) -> Result<End> {
    let mut endpoint = Endpoint::parse(text)?;
    let connector = by_scheme(&endpoint.scheme)?;
    // The format decides which settings exist, and may itself come as a flag.
    if let Some((_, value)) = flags.iter().find(|(n, _)| n == "format")
        && endpoint.get("format").is_none()
        && takes(connector, side, "format")
    {
        endpoint.query.push(("format".to_string(), value.clone()));
        used.push("format".to_string());
    }
    let specs = specs_of(connector, side, &endpoint)?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (name, value) in flags {
        // Which columns, is said to the source; the target maps them by name.
        if accepts(&specs, name) && !(side == Side::Sink && name == "columns") {
            used.push(name.clone());
            pairs.push((name.clone(), value.clone()));
        }
    }
    for (name, value) in &endpoint.query {
        if !accepts(&specs, name) && job_setting(name).is_some() {
            job.push((name.clone(), value.clone()));
        } else {
            pairs.push((name.clone(), value.clone()));
        }
    }
    let pairs = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).filter(|(n, v)| !(*n == "columns" && v.eq_ignore_ascii_case("auto")));
    let settings = Settings::resolve(&specs, pairs, connector.spec().name)?;
    Ok(End { endpoint, connector, settings, side })
}

/// Whether a connector itself has a setting, whatever the format.
fn takes(connector: &dyn Connector, side: Side, name: &str) -> bool {
    let spec = connector.spec();
    let settings = if side == Side::Source { spec.source } else { spec.sink };
    settings.iter().any(|s| s.answers_to(name))
}

/// Which ends `--format` and `--compression` are meant for, as flags for each end.
///
/// `--format` helps where a name does not tell the format; a name that tells it stays right, so that `copy - out.csv --format jsonl`
/// reads JSON Lines and writes CSV. With one such end only, it overrides the name. `--compression` is the output's: an
/// input's is seen from its first bytes.
fn flags_by_side(from: &str, to: &str, flags: &Given) -> Result<(Given, Given)> {
    let (mut source, mut sink) = (flags.clone(), flags.clone());
    let without = |flags: &mut Given, name: &str| flags.retain(|(n, _)| n != name);
    let look = |text: &str, side: Side| -> Result<(bool, bool)> {
        let endpoint = Endpoint::parse(text)?;
        let connector = by_scheme(&endpoint.scheme)?;
        let settings = if side == Side::Source { connector.source_settings(&endpoint) } else { connector.sink_settings(&endpoint) };
        Ok((takes(connector, side, "format"), endpoint.get("format").is_some() || settings.is_ok()))
    };
    let ((source_takes, source_told), (sink_takes, sink_told)) = (look(from, Side::Source)?, look(to, Side::Sink)?);
    if flags.iter().any(|(n, _)| n == "format") && source_takes && sink_takes {
        if source_told && sink_told {
            return Err(Error::new(ErrorKind::Usage, "--format: the names of both ends tell their formats already")
                .hint("to read or write one of them as something else, say it behind its path: data.csv?format=tsv"));
        }
        if source_told {
            without(&mut source, "format");
        }
        if sink_told {
            without(&mut sink, "format");
        }
    }
    if sink_takes {
        without(&mut source, "compression");
    }
    Ok((source, sink))
}

/// The settings that an end understands.
fn specs_of(connector: &'static dyn Connector, side: Side, endpoint: &Endpoint) -> Result<Vec<&'static [Setting]>> {
    match side {
        Side::Source => connector.source_settings(endpoint),
        Side::Sink => connector.sink_settings(endpoint),
    }
}

fn accepts(specs: &[&'static [Setting]], name: &str) -> bool {
    specs.iter().flat_map(|s| s.iter()).any(|s| s.answers_to(name))
}

/// Sets up a copy from `from` to `to`.
pub fn ready(from: &str, to: &str, flags: &Given, env: &Environment, purpose: Purpose) -> Result<Ready> {
    let (mut job_pairs, mut used) = (Vec::new(), Vec::new());
    let (source_flags, sink_flags) = flags_by_side(from, to, flags)?;
    let source_end = end(from, Side::Source, &source_flags, &mut job_pairs, &mut used)?;
    let sink_end = end(to, Side::Sink, &sink_flags, &mut job_pairs, &mut used)?;
    let job_flags = flags.iter().filter(|(n, _)| job_setting(n).is_some()).cloned();
    let all: Vec<(String, String)> = job_pairs.into_iter().chain(job_flags).collect();
    if let Some((name, _)) = flags.iter().find(|(n, _)| job_setting(n).is_none() && !used.contains(n)) {
        return Err(Error::new(
            ErrorKind::Usage,
            format!(
                "--{} means nothing for {} to {}",
                name.replace('_', "-"),
                source_end.connector.spec().name,
                sink_end.connector.spec().name
            ),
        )
        .hint("`haul connectors NAME` lists what each end understands"));
    }
    let settings = Settings::resolve(&[JOB, DISPLAY], all.iter().map(|(n, v)| (n.as_str(), v.as_str())), "a job")?;
    let mut source_end = source_end;
    let mut sink_end = sink_end;
    for shared in ["on_lossy", "on_error"] {
        if let Some(value) = settings.text(shared) {
            let value = value.to_ascii_lowercase();
            share(&mut source_end, Side::Source, shared, &value)?;
            share(&mut sink_end, Side::Sink, shared, &value)?;
        }
    }
    if settings.flag("infer", false) {
        can_be_read_twice(&source_end, "--infer")?;
    }
    if flattens(sink_end.settings.text("csv"))? {
        can_be_read_twice(&source_end, "csv={\"nested\":\"flatten\"}")?;
    }
    let Opened { tracking, run_id, notes } = tracking::open(&source_end, &sink_end, &settings, env, purpose)?;
    let env = &Environment { run_id, ..env.clone() };
    let sink = sink_end.connector.sink(&sink_end.endpoint, &sink_end.settings, env)?;
    if sink.types_decide() && !has_steps(&source_end, &sink_end, &settings) && !source_end.settings.has("types") {
        let specs = specs_of(source_end.connector, Side::Source, &source_end.endpoint)?;
        if accepts(&specs, "types") {
            source_end.settings.set("types", "json");
        }
    }
    let source = source_end.connector.source(&source_end.endpoint, &source_end.settings, env)?;
    let transforms = transforms(&source_end, &sink_end, &settings, env)?;
    let limit_in_source = source_end.settings.has("limit");
    let verify = verify(&settings, &sink_end, env);
    let options = Options { tracking, verify, ..options(&settings, env, limit_in_source)? };
    Ok(Ready {
        from: source_end.endpoint.redacted(),
        to: sink_end.endpoint.redacted(),
        job: Job { source, transforms, sink, options },
        settings,
        notes,
    })
}

/// Whether anything looks at values on the way.
fn has_steps(source_end: &End, sink_end: &End, settings: &Settings) -> bool {
    let typed = ["cast", "infer", "json_schema"].iter().any(|name| settings.has(name));
    typed || !source_end.endpoint.suffixes.is_empty() || !sink_end.endpoint.suffixes.is_empty()
}

/// Hands a job setting on to an end that has one of the same name.
fn share(end: &mut End, side: Side, name: &str, value: &str) -> Result<()> {
    let specs = specs_of(end.connector, side, &end.endpoint)?;
    if let Some(setting) = specs.iter().flat_map(|s| s.iter()).find(|s| s.name == name) {
        setting.check(value)?;
        end.settings.set(setting.name, value);
    }
    Ok(())
}

fn options(settings: &Settings, env: &Environment, limit_in_source: bool) -> Result<Options> {
    let positive = |name: &str| -> Result<Option<u64>> {
        match settings.int(name) {
            None => Ok(None),
            Some(n) => {
                u64::try_from(n).map(Some).map_err(|_| Error::new(ErrorKind::Config, format!("setting {name:?} must not be negative")))
            }
        }
    };
    let degree = match settings.int("degree").unwrap_or(0) {
        n @ 0..=1024 => n as usize,
        n if n < 0 => (env.cores / n.unsigned_abs() as usize).max(1),
        n => return Err(Error::new(ErrorKind::Config, format!("setting \"degree\" goes from 1 to 1024, not {n}"))),
    };
    let batch_rows = positive("batch_size")?;
    if batch_rows == Some(0) {
        return Err(Error::new(ErrorKind::Config, "setting \"batch_size\" must be at least 1"));
    }
    let on_error = match settings.choice("on_error").as_deref() {
        Some("reject") => OnError::Reject { max: positive("max_rejects")?.unwrap_or(1000) },
        _ => OnError::Stop,
    };
    Ok(Options {
        degree,
        cores: env.cores,
        budget: settings.bytes("budget").unwrap_or(64 << 20),
        batch_rows: batch_rows.map(|n| n as usize),
        limit: if limit_in_source { None } else { positive("limit")? },
        on_error,
        retries: Retries {
            most: positive("retries")?.map_or(3, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            wait: settings.duration("retry_wait").unwrap_or(Retries::default().wait),
        },
        tracking: None,
        verify: None,
    })
}

/// `--verify`.
fn verify(settings: &Settings, sink_end: &End, env: &Environment) -> Option<Verify> {
    let how = match settings.choice("verify").as_deref() {
        Some("count") => How::Count,
        Some("checksum") => How::Checksum,
        _ => return None,
    };
    let endpoint = Endpoint { query: Vec::new(), suffixes: Vec::new(), ..sink_end.endpoint.clone() };
    Some(Verify { how, target: Arc::new(WayBack { connector: sink_end.connector, endpoint, env: env.clone() }) })
}

/// The sink's endpoint, to read from.
struct WayBack {
    connector: &'static dyn Connector,
    endpoint: Endpoint,
    env: Environment,
}

impl Target for WayBack {
    fn source(&self, settings: &[(String, String)]) -> Result<Box<dyn Source>> {
        let mut endpoint = self.endpoint.clone();
        // The format decides which settings exist.
        endpoint.query.extend(settings.iter().filter(|(name, _)| name == "format").cloned());
        let specs = self.connector.source_settings(&endpoint)?;
        let pairs = settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.connector.source(&endpoint, &Settings::resolve(&specs, pairs, self.connector.spec().name)?, &self.env)
    }
}

/// The steps between source and sink, in order: suffixes of FROM, suffixes of TO, then the flags.
fn transforms(source_end: &End, sink_end: &End, settings: &Settings, env: &Environment) -> Result<Vec<Box<dyn Transform>>> {
    let mut out: Vec<Box<dyn Transform>> = Vec::new();
    let read = |path: &str| std::fs::read_to_string(path).map_err(|e| Error::io(path, "cannot read", e));
    for suffix in source_end.endpoint.suffixes.iter().chain(&sink_end.endpoint.suffixes) {
        out.push(parse_suffix(&suffix.name, &suffix.query, &read)?);
    }
    if let Some(columns) = settings
        .list("columns")
        .filter(|c| !source_end.settings.has("columns") && !matches!(c.as_slice(), [a] if a.eq_ignore_ascii_case("auto")))
    {
        out.push(Box::new(Project::new(Some(columns), Vec::new())?));
    }
    if let Some(path) = settings.text("json_schema") {
        out.push(Box::new(JsonSchema::parse(&read(path)?).map_err(|e| e.object(path))?));
    }
    let casts = settings.text("cast").map(parse_casts).transpose()?.unwrap_or_default();
    if settings.flag("infer", false) {
        let given: Vec<String> = casts.iter().map(|(column, _)| column.clone()).collect();
        out.push(inferred(source_end, env, &out, &given)?);
    }
    if !casts.is_empty() {
        out.push(Box::new(Cast::new(casts, AskedBy::Cast)));
    }
    if let Some(rename) = settings.text("rename") {
        out.push(Box::new(Project::new(None, Project::parse_renames(rename)?)?));
    }
    if flattens(sink_end.settings.text("csv"))? {
        let flatten = Flatten::from_sample(sample(source_end, env)?, &out)?;
        out.push(Box::new(flatten));
    }
    Ok(out)
}

/// A pipe gives its rows once, so no sample can be taken first.
fn can_be_read_twice(end: &End, what: &str) -> Result<()> {
    let once = |path: String| std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    if end.endpoint.scheme == "stdio" || (end.endpoint.scheme == "file" && once(end.endpoint.path()?)) {
        return Err(Error::new(ErrorKind::Unsupported, format!("{what} reads a sample first, which a pipe cannot give twice"))
            .hint("write the input to a file first, or name the types with --cast or --json-schema"));
    }
    Ok(())
}

/// The first rows, through a second instance of the source.
fn sample(end: &End, env: &Environment) -> Result<Vec<Rows>> {
    let mut second = end.connector.source(&end.endpoint, &end.settings, env)?;
    crate::sample::rows(second.as_mut(), haul_model::Form::Text, 20_000)
}

/// `--infer`. Columns whose type was `given` are left alone.
fn inferred(end: &End, env: &Environment, before: &[Box<dyn Transform>], given: &[String]) -> Result<Box<dyn Transform>> {
    Ok(Box::new(Cast::new(infer_after(sample(end, env)?, before, given)?, AskedBy::Sample)))
}
