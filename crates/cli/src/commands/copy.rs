//! `haul copy FROM TO`: plan, run, account.

use crate::args::{Given, given};
use crate::job::{Asked, Ready, ready};
use crate::progress::{Display, Style, show};
use crate::tracking::Purpose;
use crate::{commands::plan, render};
use clap::ArgMatches;
use haul_engine::{OnError, Outcome, Plan, Progress, RejectLog, TimeSpent};
use haul_model::{Environment, Error, ErrorKind, Note, Result, Settings};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Runs the command; returns whether all is well (`false` never happens without an error).
///
/// # Errors
/// Usage, or the job's.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let (from, to) = ends(matches)?;
    let flags = given(matches);
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    if flags.iter().any(|(n, v)| n == "dry_run" && v != "false" && v != "off") {
        return plan::show(&from, &to, &flags, env, json);
    }
    if json && haul_model::Endpoint::parse(&to)?.scheme == "stdio" {
        return Err(Error::new(ErrorKind::Usage, "--json prints its result on standard output, where the rows go too")
            .hint("write the rows to a file, or leave --json out"));
    }
    match copy(&from, &to, &flags, env) {
        Ok(done) => report(&done, json),
        Err(error) => {
            if json {
                render::print(&format!("{}\n", failure(&from, &to, &error)))?;
            }
            Err(error)
        }
    }
}

/// FROM and TO, by position or by flag.
pub fn ends(matches: &ArgMatches) -> Result<(String, String)> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let from = text("from").or_else(|| text("from_position"));
    // With --from given, a single positional argument is TO.
    let to = text("to").or_else(|| text("to_position"));
    match (from, to) {
        (Some(from), Some(to)) => Ok((from, to)),
        (None, _) => {
            Err(Error::new(ErrorKind::Usage, "FROM is missing").hint("haul copy FROM TO, for example: haul copy orders.csv orders.parquet"))
        }
        (_, None) => {
            Err(Error::new(ErrorKind::Usage, "TO is missing").hint("haul copy FROM TO, for example: haul copy orders.csv orders.parquet"))
        }
    }
}

/// A finished copy.
pub struct Done {
    pub from: String,
    pub to: String,
    pub plan: Plan,
    pub outcome: Outcome,
}

/// Plans and runs one copy.
///
/// # Errors
/// The job's.
pub fn copy(from: &str, to: &str, flags: &Given, env: &Environment) -> Result<Done> {
    let ready = ready(Asked::parse(from, to, flags)?, env, Purpose::Run)?;
    let progress = Arc::new(Progress::default());
    let style = Style::of(ready.settings.choice("progress").as_deref());
    carry_out(ready, env, &progress, |plan| Some(show(style, &plan.source, progress.clone())))
}

/// Plans and runs a copy that is set up. `shown` gives the display for as long as rows move.
///
/// # Errors
/// The job's.
pub fn carry_out(ready: Ready, env: &Environment, progress: &Arc<Progress>, shown: impl FnOnce(&Plan) -> Option<Display>) -> Result<Done> {
    let Ready { mut job, from, to, settings, notes: earlier, .. } = ready;
    if settings.has("rejects") && job.options.on_error == OnError::Stop {
        return Err(Error::new(ErrorKind::Usage, "--rejects without --on-error reject: the first bad row would stop the job")
            .hint("add --on-error reject"));
    }
    let plan = haul_engine::plan(&mut job)?;
    let notes = job.source.notes(plan.form);
    let rejects = settings.text("rejects").map(|path| open_rejects(path, &plan, &settings)).transpose()?;
    let display = shown(&plan);
    let outcome = haul_engine::run(&mut job, &plan, &env.stop, progress, rejects.as_ref());
    drop(display);
    let mut outcome = outcome?;
    let lossy = plan.write.notes.iter().filter(|n| n.lossy);
    let all = earlier.into_iter().chain(notes.iter().chain(&plan.read.notes).chain(lossy).map(note_text));
    let mut all: Vec<String> = all.collect();
    all.append(&mut outcome.finished.notes);
    outcome.finished.notes = all;
    Ok(Done { from, to, plan, outcome })
}

fn note_text(note: &Note) -> String {
    note.column.as_ref().map_or_else(|| note.text.clone(), |column| format!("column {column:?}: {}", note.text))
}

/// Creates the file for rejected rows, unless that would destroy a file that the job itself uses.
fn open_rejects(path: &str, plan: &Plan, settings: &Settings) -> Result<RejectLog> {
    let sources = plan.read.splits.iter().filter_map(|s| s.what.strip_prefix("file:"));
    let sources = sources.map(|s| s.rsplit_once(" rows ").map_or(s, |(file, _)| file));
    for (used, what) in sources
        .map(|s| (s, "a file that is read"))
        .chain([(plan.sink.as_str(), "the target")])
        .chain(settings.text("json_schema").map(|s| (s, "the schema")))
    {
        if same_file(Path::new(path), Path::new(used)) {
            return Err(Error::new(ErrorKind::Config, format!("--rejects names {what}"))
                .object(path)
                .hint("give the rejected rows a file of their own"));
        }
    }
    let file = std::fs::File::create(path).map_err(|e| Error::io(path, "cannot create the file for rejected rows", e))?;
    Ok(RejectLog::new(Box::new(std::io::BufWriter::new(file))))
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => std::path::absolute(a).is_ok_and(|a| std::path::absolute(b).is_ok_and(|b| a == b)),
    }
}

fn report(done: &Done, json: bool) -> Result<()> {
    for note in &done.outcome.finished.notes {
        eprintln!("note: {note}");
    }
    for line in time_spent(&done.outcome.spent, done.outcome.elapsed) {
        eprintln!("{line}");
    }
    eprintln!("{}", last_line(&done.outcome));
    if json { render::print(&format!("{}\n", result(done))) } else { Ok(()) }
}

/// `read 1,000,000  written 1,000,000  rejected 0  in 0.28 s  (3,571,428 rows/s, 416.1 MB/s)`.
pub fn last_line(outcome: &Outcome) -> String {
    let c = &outcome.counts;
    let seconds = outcome.elapsed.as_secs_f64().max(1e-6);
    let mut text = format!(
        "read {}  written {}  rejected {}",
        render::count(c.read),
        render::count(outcome.finished.written()),
        render::count(c.rejected)
    );
    if let Some(keyed) = &outcome.finished.keyed {
        text.push_str(&format!("  inserted {}  updated {}", render::count(keyed.inserted), render::count(keyed.updated)));
        for (what, n) in [("ignored", keyed.ignored), ("superseded", keyed.superseded), ("deleted", keyed.deleted)] {
            if n > 0 {
                text.push_str(&format!("  {what} {}", render::count(n)));
            }
        }
    }
    if c.filtered > 0 {
        text.push_str(&format!("  filtered {}", render::count(c.filtered)));
    }
    if c.lossy > 0 {
        text.push_str(&format!("  values replaced {}", render::count(c.lossy)));
    }
    if let Some(verified) = &outcome.verified {
        text.push_str(&format!("  verified by {verified}"));
    }
    let bytes = c.bytes_in.max(c.bytes_out);
    text.push_str(&format!(
        "  in {}  ({} rows/s, {}/s)",
        render::seconds(seconds),
        render::count((c.read as f64 / seconds) as u64),
        render::bytes((bytes as f64 / seconds) as u64)
    ));
    text
}

/// Where the time of a job went that took long enough to ask: shares of the workers, what the servers waited for, and advice.
fn time_spent(spent: &TimeSpent, elapsed: Duration) -> Vec<String> {
    const WORTH_A_WORD: Duration = Duration::from_secs(5);
    if elapsed < WORTH_A_WORD || spent.workers.is_empty() {
        return Vec::new();
    }
    let told = |waits: &mut dyn Iterator<Item = (&str, f64)>| {
        let shares = waits.filter(|(_, share)| *share >= 0.005).take(4).map(|(what, share)| format!("{what} {:.0} %", 100.0 * share));
        shares.collect::<Vec<_>>().join(", ")
    };
    let mut parts = vec![format!("workers {}", told(&mut spent.workers.iter().map(|(w, s)| (*w, *s))))];
    for (side, waits) in [("source", &spent.source), ("target", &spent.sink)] {
        if !waits.is_empty() {
            parts.push(format!("{side} {}", told(&mut waits.iter().map(|(w, s)| (w.as_str(), *s)))));
        }
    }
    let mut lines = vec![format!("time: {}", parts.join("; "))];
    lines.extend(spent.advice().map(|advice| format!("advice: {advice}")));
    lines
}

fn shares(waits: impl Iterator<Item = (String, f64)>) -> serde_json::Value {
    serde_json::Value::Object(waits.map(|(what, share)| (what, serde_json::json!((share * 1000.0).round() / 1000.0))).collect())
}

/// The result as one JSON object.
pub fn result(done: &Done) -> serde_json::Value {
    let c = &done.outcome.counts;
    let seconds = done.outcome.elapsed.as_secs_f64();
    serde_json::json!({
        "status": "ok",
        "from": done.from,
        "to": done.to,
        "rows_read": c.read,
        "rows_written": done.outcome.finished.written(),
        "keyed": done.outcome.finished.keyed.map(|k| serde_json::json!({
            "inserted": k.inserted, "updated": k.updated, "ignored": k.ignored, "superseded": k.superseded, "deleted": k.deleted,
        })),
        "rows_rejected": c.rejected,
        "rows_filtered": c.filtered,
        "values_replaced": c.lossy,
        "bytes_read": c.bytes_in,
        "bytes_written": done.outcome.finished.bytes,
        "seconds": seconds,
        "rows_per_second": c.read as f64 / seconds.max(1e-6),
        "guarantee": done.plan.guarantee.to_string(),
        "resume": done.plan.resume.to_string(),
        "verified": done.outcome.verified.as_ref().map(|v| serde_json::json!({
            "how": v.how.to_string(), "rows": v.rows, "columns": v.columns, "byte_for_byte": v.exact,
        })),
        "pass_through": done.plan.pass_through.is_some(),
        "workers": done.plan.workers,
        "lanes": done.plan.lanes,
        "peak_rss_bytes": peak_rss(),
        "time": {
            "workers": shares(done.outcome.spent.workers.iter().map(|(w, s)| ((*w).to_string(), *s))),
            "source_waits": shares(done.outcome.spent.source.iter().cloned()),
            "target_waits": shares(done.outcome.spent.sink.iter().cloned()),
            "advice": done.outcome.spent.advice(),
        },
        "notes": done.outcome.finished.notes,
    })
}

fn failure(from: &str, to: &str, error: &Error) -> serde_json::Value {
    let redact = |text: &str| haul_model::Endpoint::parse(text).map_or_else(|_| "?".to_string(), |e| e.redacted());
    serde_json::json!({"status": "failed", "from": redact(from), "to": redact(to), "error": error_json(error)})
}

/// An error with its place, for programs.
pub fn error_json(error: &Error) -> serde_json::Value {
    let place = error.place();
    serde_json::json!({
            "kind": format!("{:?}", error.kind()).to_lowercase(),
            "message": error.detail(),
            "object": place.object,
            "column": place.column,
            "row": place.row,
            "line": place.line,
            "byte": place.byte,
            "offset": place.offset,
            "code": error.code_text(),
            "hint": error.hint_text(),
    })
}

/// Peak resident memory of this process.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
