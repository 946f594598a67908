//! `haul state list|clean`: what runs have left that were killed, or failed and can be gone on with.

use crate::args::{Given, given};
use crate::job::{Side, end};
use crate::options::JOB;
use crate::render::{self, Table};
use crate::streams::FINISHED;
use crate::tracking;
use clap::ArgMatches;
use haul_engine::POSITION;
use haul_model::{Endpoint, Environment, Error, ErrorKind, Leftover, Result, Saved, Settings, StateStore, parse_duration};
use std::sync::Arc;
use std::time::Duration;

/// Runs the command.
///
/// # Errors
/// Usage; the state cannot be read; something could not be removed.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let flags = given(matches);
    let of_job: Vec<(&str, &str)> =
        flags.iter().filter(|(name, _)| JOB.iter().any(|s| s.name == name)).map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let settings = Settings::resolve(&[JOB], of_job, "a job")?;
    let store = tracking::store(&settings, env)?.ok_or_else(|| {
        Error::new(ErrorKind::Config, "there is no place for state: neither XDG_STATE_HOME nor HOME is set").hint("give --state DIR")
    })?;
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    match command {
        "list" => list(&store, json),
        _ => clean(&store, older_than(matches)?, &flags, env),
    }
}

fn older_than(matches: &ArgMatches) -> Result<Duration> {
    match matches.get_one::<String>("older_than") {
        None => Ok(Duration::ZERO),
        Some(text) => {
            parse_duration(text).ok_or_else(|| Error::new(ErrorKind::Usage, format!("--older-than takes a time such as 12h, not {text:?}")))
        }
    }
}

/// How long ago a run began.
fn age(saved: &Saved) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(saved.started))
}

fn standing(store: &dyn StateStore, saved: &Saved) -> Result<&'static str> {
    match saved.shape.as_str() {
        FINISHED => return Ok("done; the job has not ended"),
        POSITION => return Ok("position of a cursor"),
        _ => {}
    }
    Ok(match (store.lock(&saved.job)?.is_none(), saved.fingerprint.is_some()) {
        (true, _) => "running",
        (false, true) => "can be resumed",
        (false, false) => "left behind",
    })
}

fn list(store: &Arc<dyn StateStore>, json: bool) -> Result<()> {
    let all = store.all()?;
    if json {
        let runs: Result<Vec<_>> = all
            .iter()
            .map(|s| {
                Ok(serde_json::json!({"job": s.job, "run": s.run, "standing": standing(store.as_ref(), s)?, "started": s.started,
                    "from": s.source, "to": s.target, "splits": s.splits.len(), "leaves": s.leaves}))
            })
            .collect();
        return render::print(&format!("{}\n", serde_json::json!({"state": store.name(), "runs": runs?})));
    }
    if all.is_empty() {
        return render::print(&format!("no run has left anything ({})\n", store.name()));
    }
    let mut table = Table::new(&["job", "run", "standing", "began", "splits", "from", "to", "leaves"]).right(&[4]);
    for saved in &all {
        table.row(vec![
            saved.job.clone(),
            saved.run.clone(),
            standing(store.as_ref(), saved)?.into(),
            format!("{} ago", render::seconds(age(saved).as_secs_f64())),
            saved.splits.len().to_string(),
            saved.source.clone(),
            saved.target.clone(),
            saved.leaves.join(", "),
        ]);
    }
    render::print(&table.render())
}

fn clean(store: &Arc<dyn StateStore>, older_than: Duration, flags: &Given, env: &Environment) -> Result<()> {
    let mut failures = Vec::new();
    let mut runs = 0;
    for saved in store.all()?.iter().filter(|saved| age(saved) >= older_than && saved.shape != POSITION) {
        let Some(_held) = store.lock(&saved.job)? else {
            render::print(&format!("run {} is going on: left alone\n", saved.run))?;
            continue;
        };
        match remove(saved, flags, env).and_then(|removed| store.remove(&saved.run).map(|()| removed)) {
            Ok(removed) => {
                runs += 1;
                for what in removed {
                    render::print(&format!("removed {what}\n"))?;
                }
            }
            Err(error) => failures.push(format!("run {} at {}: {error}", saved.run, saved.target)),
        }
    }
    render::print(&format!("{runs} run(s) forgotten\n"))?;
    if failures.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Server, format!("some runs could not be cleaned up: {}", failures.join("; ")))
        .hint("a password can be given by PGPASSWORD or ~/.pgpass; state never holds one"))
}

/// Removes what a run has left in its target.
fn remove(saved: &Saved, flags: &Given, env: &Environment) -> Result<Vec<String>> {
    if saved.leaves.is_empty() {
        return Ok(Vec::new());
    }
    let connection: Given = flags.iter().filter(|(name, _)| name == "password" || name == "passfile").cloned().collect();
    let end = end(Endpoint::parse(&saved.target)?, Side::Sink, &connection, &mut Vec::new(), &mut Vec::new())?;
    let left: Vec<Leftover> = saved.leaves.iter().map(|what| Leftover { run: saved.run.clone(), what: what.clone() }).collect();
    end.connector.clean(&end.endpoint, &end.settings, env, &left)
}
