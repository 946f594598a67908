//! From words to a job: endpoints, settings by where they belong, connectors, transforms.

use crate::args::{Given, job_setting};
use crate::options::{DISPLAY, JOB};
use crate::tracking::{self, Opened, Purpose};
use haul_connectors::by_scheme;
use haul_engine::transform::{
    AskedBy, Cast, Filter, Flatten, JsonSchema, Project, engine_settings, infer_after, parse_casts, parse_suffix,
};
use haul_engine::verify::{How, Target, Verify};
use haul_engine::{Endless, Job, OnError, Options, Pools, Retries};
use haul_formats::csv::flattens;
use haul_model::{
    Catalog, Connector, Endpoint, Environment, Error, ErrorKind, Left, ReadBack, Result, Rows, RunId, Saved, Setting, Settings, Source,
    TablePart, Transform,
};
use std::sync::Arc;
use std::time::Duration;

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
    /// Earlier runs that cannot be gone on with, where one is to be.
    left_behind: Vec<Saved>,
    sink_end: End,
}

impl Ready {
    /// Looks at earlier runs of this job that cannot be gone on with, and clears away what they left. `Some`: one of them had ended, with
    /// so many rows, and only nobody was told.
    ///
    /// # Errors
    /// The target cannot be looked at or cleared.
    pub fn ended_before(&mut self, env: &Environment) -> Result<Option<u64>> {
        let Some(tracking) = self.job.options.tracking.clone() else { return Ok(None) };
        let mut ended = None;
        for saved in std::mem::take(&mut self.left_behind) {
            let run = RunId { job: saved.job.clone(), run: saved.run.clone() };
            if let Left::Everything(rows) = self.job.sink.left(&run, &saved.leaves)? {
                ended = Some(rows);
            }
            tracking::start_over(tracking.store.as_ref(), &saved, &self.sink_end, env)?;
        }
        Ok(ended)
    }
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
pub fn end(mut endpoint: Endpoint, side: Side, flags: &Given, job: &mut Vec<(String, String)>, used: &mut Vec<String>) -> Result<End> {
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

/// Takes the steps off an endpoint that are spellings of settings: those of the endpoint go into its query, those of the job are returned.
fn spelled(endpoint: &mut Endpoint) -> Result<Given> {
    let mut of_job = Vec::new();
    for suffix in std::mem::take(&mut endpoint.suffixes) {
        match engine_settings(&suffix.name, &suffix.query)? {
            None => endpoint.suffixes.push(suffix),
            Some(settings) => {
                let (job, own): (Vec<_>, Vec<_>) = settings.into_iter().partition(|(name, _)| job_setting(name).is_some());
                of_job.extend(job);
                endpoint.query.extend(own);
            }
        }
    }
    Ok(of_job)
}

/// Which ends `--format` and `--compression` are meant for, as flags for each end.
///
/// `--format` helps where a name does not tell the format; a name that tells it stays right, so that `copy - out.csv --format jsonl`
/// reads JSON Lines and writes CSV. With one such end only, it overrides the name. `--compression` is the output's: an
/// input's is seen from its first bytes.
fn flags_by_side(from: &Endpoint, to: &Endpoint, flags: &Given) -> Result<(Given, Given)> {
    let (mut source, mut sink) = (flags.clone(), flags.clone());
    let without = |flags: &mut Given, name: &str| flags.retain(|(n, _)| n != name);
    let look = |endpoint: &Endpoint, side: Side| -> Result<(bool, bool)> {
        let connector = by_scheme(&endpoint.scheme)?;
        let settings = if side == Side::Source { connector.source_settings(endpoint) } else { connector.sink_settings(endpoint) };
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

/// A copy as it was asked for.
pub struct Asked<'a> {
    pub from: Endpoint,
    pub to: Endpoint,
    /// What must mean something to one of the ends, or to the job.
    pub flags: Given,
    /// What is taken by those who know it, where `flags` does not say it.
    pub defaults: Given,
    /// The system under whose instant the source is read, if it is one of several streams.
    pub catalog: Option<&'a dyn Catalog>,
}

impl Asked<'_> {
    /// A copy between two ends as they were typed.
    ///
    /// # Errors
    /// `Config`.
    pub fn parse(from: &str, to: &str, flags: &Given) -> Result<Self> {
        Ok(Self { from: Endpoint::parse(from)?, to: Endpoint::parse(to)?, flags: flags.clone(), defaults: Vec::new(), catalog: None })
    }
}

/// Both ends of a copy and what was asked of it, before anything connects.
pub struct Ends<'a> {
    source: End,
    sink: End,
    settings: Settings,
    catalog: Option<&'a dyn Catalog>,
}

impl<'a> Ends<'a> {
    /// Gives every flag to whom it means something.
    ///
    /// # Errors
    /// `Usage` or `Config`: a flag that means nothing here, a bad value.
    pub fn of(asked: Asked<'a>) -> Result<Self> {
        let Asked { mut from, mut to, flags: own, defaults, catalog } = asked;
        let spelled = [spelled(&mut from)?, spelled(&mut to)?].concat();
        let defaults = defaults.into_iter().filter(|(name, _)| !own.iter().any(|(n, _)| n == name));
        let flags: Given = defaults.chain(own.iter().cloned()).chain(spelled).collect();
        let (mut job_pairs, mut used) = (Vec::new(), Vec::new());
        let (source_flags, sink_flags) = flags_by_side(&from, &to, &flags)?;
        let mut source = end(from, Side::Source, &source_flags, &mut job_pairs, &mut used)?;
        let mut sink = end(to, Side::Sink, &sink_flags, &mut job_pairs, &mut used)?;
        if let Some((name, _)) = own.iter().find(|(n, _)| job_setting(n).is_none() && !used.contains(n)) {
            let (from, to) = (source.connector.spec().name, sink.connector.spec().name);
            return Err(Error::new(ErrorKind::Usage, format!("--{} means nothing for {from} to {to}", name.replace('_', "-")))
                .hint("`haul connectors NAME` lists what each end understands"));
        }
        let job_flags = flags.iter().filter(|(n, _)| job_setting(n).is_some()).cloned();
        let all: Vec<(String, String)> = job_pairs.into_iter().chain(job_flags).collect();
        let settings = Settings::resolve(&[JOB, DISPLAY], all.iter().map(|(n, v)| (n.as_str(), v.as_str())), "a job")?;
        for shared in ["on_lossy", "on_error"] {
            if let Some(value) = settings.text(shared) {
                let value = value.to_ascii_lowercase();
                share(&mut source, Side::Source, shared, &value)?;
                share(&mut sink, Side::Sink, shared, &value)?;
            }
        }
        if let Some(batches) = settings.int("batches_per_split") {
            let Some(rows) = settings.int("batch_size") else {
                return Err(Error::new(
                    ErrorKind::Config,
                    "batches_per_split counts batches, and batch_size does not say how large they are",
                )
                .hint("give both, or --split-rows N"));
            };
            if !source.settings.has("split_rows") {
                share(&mut source, Side::Source, "split_rows", &batches.saturating_mul(rows).to_string())?;
            }
        }
        if settings.flag("infer", false) {
            can_be_read_twice(&source, "--infer")?;
        }
        if flattens(sink.settings.text("csv"))? {
            can_be_read_twice(&source, "csv={\"nested\":\"flatten\"}")?;
        }
        Ok(Self { source, sink, settings, catalog })
    }

    /// Adds foreign keys to the table that was made at the sink; what was left out, in words.
    ///
    /// # Errors
    /// As [`Connector::add_keys`].
    pub fn add_keys(&self, env: &Environment, table: &str, keys: &[TablePart]) -> Result<Vec<String>> {
        self.sink.connector.add_keys(&self.sink.endpoint, &self.sink.settings, env, table, keys)
    }

    /// The job's id, and both ends as text without secrets.
    ///
    /// # Errors
    /// `Config`.
    pub fn identity(&self, env: &Environment) -> Result<(String, String, String)> {
        let id = tracking::identity(&self.source, &self.sink, &self.settings, env)?;
        Ok((id, self.source.endpoint.redacted(), self.sink.endpoint.redacted()))
    }

    /// Connects both ends.
    ///
    /// # Errors
    /// Whatever keeps them from being connected; state that cannot be used.
    pub fn connect(self, env: &Environment, purpose: Purpose) -> Result<Ready> {
        let Self { source: mut source_end, sink: sink_end, settings, catalog } = self;
        let Opened { tracking, run_id, notes, left_behind } = tracking::open(&source_end, &sink_end, &settings, env, purpose)?;
        let env = &Environment { run_id, ..env.clone() };
        let sink = sink_end.connector.sink(&sink_end.endpoint, &sink_end.settings, env)?;
        if sink.types_decide() && !has_steps(&source_end, &sink_end, &settings) && !source_end.settings.has("types") {
            let specs = specs_of(source_end.connector, Side::Source, &source_end.endpoint)?;
            if accepts(&specs, "types") {
                source_end.settings.set("types", "json");
            }
        }
        let source = match catalog {
            Some(catalog) => catalog.open(&source_end.endpoint, &source_end.settings, env)?,
            None => source_end.connector.source(&source_end.endpoint, &source_end.settings, env)?,
        };
        let transforms = transforms(&source_end, &sink_end, &settings, env)?;
        let limit_in_source = source_end.settings.has("limit");
        let cursor = tracking::cursor(&source_end, &sink_end, &settings, env)?;
        if let (Some(_), Some(tracking), Purpose::Run) = (&cursor, &tracking, purpose) {
            // Two runs at a time would bring the same rows.
            tracking.lock.take(tracking.store.as_ref(), &tracking.run.job)?;
        }
        let verify = verify(&settings, &sink_end, env);
        let mut options = Options { tracking, cursor, verify, ..options(&settings, env, limit_in_source)? };
        if source.endless() {
            options.endless.job = tracking::identity(&source_end, &sink_end, &settings, env)?;
            if !settings.has("retries") {
                // A server that restarts may be away for minutes, and nobody is there to start the job again.
                options.retries.most = 20;
            }
            crate::env::wait_to_stop(settings.duration("grace").unwrap_or(Duration::from_secs(10)));
        }
        Ok(Ready {
            from: source_end.endpoint.redacted(),
            to: sink_end.endpoint.redacted(),
            job: Job { source, transforms, sink, options },
            settings,
            notes,
            left_behind,
            sink_end,
        })
    }
}

/// Sets up a copy.
///
/// # Errors
/// As [`Ends::of`] and [`Ends::connect`].
pub fn ready(asked: Asked<'_>, env: &Environment, purpose: Purpose) -> Result<Ready> {
    Ends::of(asked)?.connect(env, purpose)
}

/// Whether anything looks at values on the way.
fn has_steps(source_end: &End, sink_end: &End, settings: &Settings) -> bool {
    let typed = ["cast", "infer", "json_schema", "filter"].iter().any(|name| settings.has(name));
    typed || !source_end.endpoint.suffixes.is_empty() || !sink_end.endpoint.suffixes.is_empty()
}

/// Hands a job setting on to an end that has one of the same name.
///
/// # Errors
/// `Config`: a value that it does not know.
pub fn share(end: &mut End, side: Side, name: &str, value: &str) -> Result<()> {
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
        batch_bytes: settings.bytes("batch_bytes").map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1)),
        limit: if limit_in_source { None } else { positive("limit")? },
        on_error,
        retries: Retries {
            most: positive("retries")?.map_or(3, |n| u32::try_from(n).unwrap_or(u32::MAX)),
            wait: settings.duration("retry_wait").unwrap_or(Retries::default().wait),
        },
        tracking: None,
        cursor: None,
        verify: None,
        endless: Endless { max_latency: settings.duration("max_latency").unwrap_or(Endless::default().max_latency), ..Endless::default() },
        pools: pools(settings)?,
        keys_later: false,
    })
}

/// Threads that read ahead and write behind.
fn pools(settings: &Settings) -> Result<Pools> {
    let number = |name: &str| match settings.int(name) {
        None => Ok(None),
        Some(n @ 1..=1024) => Ok(Some(n as usize)),
        Some(n) => Err(Error::new(ErrorKind::Config, format!("setting {name:?} goes from 1 to 1024, not {n}"))),
    };
    Ok(Pools {
        extractors: number("extractors")?,
        extractor_queue: number("extractor_queue")?,
        transformers: number("transformers")?,
        loaders: number("loaders")?,
        loader_queue: number("loader_queue")?,
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
    fn source(&self, back: &ReadBack) -> Result<Box<dyn Source>> {
        let mut endpoint = match &back.at {
            Some(uri) if uri.contains("://") => Endpoint { query: Vec::new(), ..Endpoint::parse(uri)? },
            Some(path) => Endpoint { address: path.clone(), is_uri: false, ..self.endpoint.clone() },
            None => self.endpoint.clone(),
        };
        let settings = &back.settings;
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
    if let Some(condition) = settings.text("filter") {
        out.push(Box::new(Filter::parse(condition)?));
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

/// Whether it is a pipe, which gives its rows once.
///
/// # Errors
/// `Config`.
pub fn is_pipe(end: &End) -> Result<bool> {
    let once = |path: String| std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    Ok(end.endpoint.scheme == "stdio" || (end.endpoint.scheme == "file" && once(end.endpoint.path()?)))
}

/// A pipe gives its rows once, so no sample can be taken first.
fn can_be_read_twice(end: &End, what: &str) -> Result<()> {
    if is_pipe(end)? {
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
