//! Runs that can be gone on with: which job this is, where its state is kept, and what `--resume` and `--restart` do before anything is
//! planned.

use crate::job::End;
use crate::options::{DISPLAY, JOB};
use haul_connectors::by_scheme;
use haul_engine::state::{SqliteStore, job_id};
use haul_engine::{Cursor, Lock, Tracking};
use haul_model::{Endpoint, Environment, Error, ErrorKind, Leftover, Result, RunId, Saved, Setting, Settings, StateStore};
use std::path::PathBuf;
use std::sync::Arc;

/// What was found out before the ends are connected.
pub struct Opened {
    /// For the engine; `None` where no state can be kept.
    pub tracking: Option<Tracking>,
    /// Names of this run: the ones of the run that is gone on with.
    pub run_id: String,
    /// For the result.
    pub notes: Vec<String>,
    /// Earlier runs of the job that cannot be gone on with, when one is to be.
    pub left_behind: Vec<Saved>,
}

/// Whether a run is only planned, or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Nothing may change, nor be locked.
    Plan,
    /// It will run.
    Run,
}

/// Finds the job's state and does what `--resume` and `--restart` ask for.
///
/// # Errors
/// The state cannot be used although it was asked for, or another process runs the job.
pub fn open(source: &End, sink: &End, settings: &Settings, env: &Environment, purpose: Purpose) -> Result<Opened> {
    let resume = settings.choice("resume").filter(|word| word != "off");
    let restart = settings.flag("restart", false);
    if resume.is_some() && restart {
        return Err(Error::new(ErrorKind::Usage, "--resume and --restart are both given").hint("--resume goes on, --restart starts over"));
    }
    let required = resume.is_some() || restart || settings.has("state");
    let Some(store) = store(settings, env)? else {
        return match required {
            true => Err(Error::new(ErrorKind::Config, "there is no place for state: neither XDG_STATE_HOME nor HOME is set")
                .hint("give --state DIR")),
            false => Ok(Opened { tracking: None, run_id: env.run_id.clone(), notes: Vec::new(), left_behind: Vec::new() }),
        };
    };
    let job = identity(source, sink, settings, env)?;
    let mut opened = Opened { tracking: None, run_id: env.run_id.clone(), notes: Vec::new(), left_behind: Vec::new() };
    let lock = Lock::default();
    let mut earlier = None;
    if resume.is_some() || restart {
        // Also for a plan: looking at what a run has left ends sessions of it, so it must not be running.
        if purpose == Purpose::Run || !restart {
            lock.take(store.as_ref(), &job)?;
        }
        let of_job = || Ok::<_, Error>(store.all()?.into_iter().filter(|saved| saved.job == job));
        if restart && purpose == Purpose::Run {
            for saved in of_job()? {
                opened.notes.extend(start_over(store.as_ref(), &saved, sink, env)?);
            }
        } else if !restart {
            let (can, cannot): (Vec<_>, Vec<_>) = of_job()?.partition(|saved| saved.fingerprint.is_some());
            earlier = can.into_iter().next();
            opened.left_behind = cannot.into_iter().filter(|saved| !saved.leaves.is_empty()).collect();
            match &earlier {
                Some(saved) => opened.run_id = saved.run.clone(),
                None => opened.notes.push("there was nothing to go on with: a fresh start".into()),
            }
        }
    }
    opened.tracking = Some(Tracking {
        run: RunId { job, run: opened.run_id.clone() },
        ends: (source.endpoint.redacted(), target_text(sink)),
        store,
        required,
        earlier,
        stale_ok: resume.as_deref() == Some("stale-ok"),
        restarted: restart,
        note_end: false,
        lock,
    });
    Ok(opened)
}

/// Removes what an earlier run left, so that a fresh one can start.
///
/// # Errors
/// Connection, rights, the state.
pub fn start_over(store: &dyn StateStore, saved: &Saved, sink: &End, env: &Environment) -> Result<Vec<String>> {
    let left: Vec<Leftover> = saved.leaves.iter().map(|what| Leftover { run: saved.run.clone(), what: what.clone() }).collect();
    let removed = sink.connector.clean(&sink.endpoint, &sink.settings, env, &left)?;
    store.remove(&saved.run)?;
    let mut notes: Vec<String> = removed.into_iter().map(|what| format!("removed of an earlier run: {what}")).collect();
    if saved.direct {
        notes.push(format!("rows that run {} had committed are still in the table", saved.run));
    }
    Ok(notes)
}

/// The store that was asked for, or the user's own; `None` where there is no home for it.
///
/// # Errors
/// A URI that cannot keep state.
pub fn store(settings: &Settings, env: &Environment) -> Result<Option<Arc<dyn StateStore>>> {
    if let Some(text) = settings.text("state") {
        if text.contains("://") {
            let endpoint = Endpoint::parse(text)?;
            return Ok(Some(Arc::from(by_scheme(&endpoint.scheme)?.state(&endpoint, env)?)));
        }
        return Ok(Some(Arc::new(SqliteStore::new(text))));
    }
    let folder = match (env.var("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute()), &env.home) {
        (Some(folder), _) => folder,
        (None, Some(home)) if home.is_absolute() => home.join(".local/state"),
        _ => return Ok(None),
    };
    Ok(Some(Arc::new(SqliteStore::new(folder.join("haul")))))
}

/// The job's id: both places, and every setting that says what is done. Never how fast, nor over which way.
///
/// # Errors
/// `Config`.
pub fn identity(source: &End, sink: &End, settings: &Settings, env: &Environment) -> Result<String> {
    let mut pairs = Vec::new();
    for (side, end) in [("from", source), ("to", sink)] {
        let specs = end.specs()?;
        let what = end.settings.iter().filter(|(name, _)| !is_tuning(specs.iter().copied().flatten(), name));
        pairs.extend(what.map(|(name, value)| (format!("{side}.{name}"), value.to_string())));
        pairs.extend(end.endpoint.suffixes.iter().enumerate().map(|(i, s)| (format!("{side}|{i}"), format!("{s:?}"))));
    }
    let of_job = settings.iter().filter(|(name, _)| !is_tuning(JOB.iter().chain(DISPLAY), name));
    pairs.extend(of_job.map(|(name, value)| (name.to_string(), value.to_string())));
    let place = |end: &End| end.connector.identity(&end.endpoint, &end.settings, env);
    Ok(job_id(&place(source)?, &place(sink)?, &pairs))
}

/// The cursor of a job, if it reads only what is new.
///
/// # Errors
/// `Config`.
pub fn cursor(source: &End, sink: &End, settings: &Settings, env: &Environment) -> Result<Option<Cursor>> {
    let Some(column) = source.settings.text("cursor") else { return Ok(None) };
    let place = |end: &End| end.connector.identity(&end.endpoint, &end.settings, env);
    let id = job_id(&place(source)?, &place(sink)?, &[("cursor".to_string(), column.to_string())]);
    Ok(Some(Cursor { id, ends: (source.endpoint.redacted(), target_text(sink)), store: store(settings, env)? }))
}

fn is_tuning<'a>(mut settings: impl Iterator<Item = &'a Setting>, name: &str) -> bool {
    settings.find(|s| s.name == name).is_some_and(|s| s.tuning)
}

/// The target as text that can be connected to again, without secrets: settings that came as flags stand in the query.
fn target_text(sink: &End) -> String {
    // Statements of the user's own may hold secrets too, and cleaning needs none of them.
    let secret = |name: &str| matches!(name, "password" | "sslpassword" | "pre_sql" | "post_sql");
    let address = match sink.endpoint.address.rsplit_once('@') {
        Some((user, host)) if sink.endpoint.is_uri => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        _ => sink.endpoint.address.clone(),
    };
    let mut text = if sink.endpoint.is_uri { format!("{}://{address}", sink.endpoint.scheme) } else { address };
    for (i, (name, value)) in sink.settings.iter().filter(|(name, _)| !secret(name)).enumerate() {
        text.push(if i == 0 { '?' } else { '&' });
        text.push_str(&format!("{name}={}", haul_model::percent_encode(value)));
    }
    text
}
