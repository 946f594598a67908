//! `haul run JOB.yaml`: many streams, each a copy of its own, under one instant per source.

use super::copy::{Done, carry_out, error_json, result};
use super::plan;
use crate::args::{Given, given};
use crate::job::{Asked, Ends};
use crate::jobfile::JobFile;
use crate::options::{DISPLAY, JOB, OF_THE_RUN};
use crate::progress::Style;
use crate::render::{self, Table};
use crate::streams::{Board, End, Item, Items, Journal, expand, schedule, show_board};
use crate::tracking::{self, Purpose};
use clap::ArgMatches;
use haul_engine::Progress;
use haul_model::{Catalog, Environment, Error, ErrorKind, Idle, Result, Settings, TablePart};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What holds for the run, not for one stream.
struct Run<'a> {
    env: &'a Environment,
    catalogs: &'a [Box<dyn Catalog>],
    journal: &'a Journal,
    /// `resume`, `restart` and `state`, as flags of every stream.
    flags: Given,
    resumes: bool,
}

/// Runs the command.
///
/// # Errors
/// Usage; a stream that failed.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let path = matches.get_one::<String>("job").cloned().unwrap_or_default();
    let flags = given(matches);
    let pairs = flags.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    let settings = Settings::resolve(&[JOB, DISPLAY], pairs, "haul run")?;
    let select = matches.get_one::<String>("select").map_or("", String::as_str);
    let select: Vec<String> = select.split(',').map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect();
    let env = &Environment { idle: Idle::kept(), ..env.clone() };
    let file = JobFile::read(&path, env)?;
    let items = expand(&file, &select, env)?;
    let json = settings.flag("json", false);
    if settings.flag("dry_run", false) {
        return dry_run(&items, env, json);
    }
    let width = matches.get_one::<usize>("max_parallel_tables").copied().or(file.max_parallel_tables).unwrap_or(env.cores.min(4));
    let fail_fast = file.fail_fast || matches.get_flag("fail_fast");
    let store = tracking::store(&settings, env)?;
    let journal = Journal::open(store, &env.run_id)?;
    let of_run = flags.iter().filter(|(name, _)| OF_THE_RUN.contains(&name.as_str())).cloned().collect();
    let resumes = settings.choice("resume").is_some_and(|word| word != "off");
    let run = Run { env, catalogs: &items.catalogs, journal: &journal, flags: of_run, resumes };
    let started = Instant::now();
    let board = Arc::new(Board::new(items.items.len(), items.items.iter().map(|i| i.bytes).sum()));
    let display = show_board(Style::of(settings.choice("progress").as_deref()), board.clone());
    let ends = schedule(&items.items, width, fail_fast, &env.stop, &|number, item| {
        let progress = Arc::new(Progress::default());
        board.begin(number, &item.name, item.bytes, progress.clone());
        let end = run.one(number, item, &progress).unwrap_or_else(End::Failed);
        board.end(number);
        end
    });
    drop(display);
    let (mut notes, mut outcome) = (items.notes.clone(), verdict(&items, &ends, env));
    if outcome.is_ok() {
        match run.keys(&items.items, &ends) {
            Ok(more) => notes.extend(more),
            Err(error) => outcome = Err(error.also("the rows are in; the same command with --resume does the keys again")),
        }
    }
    if outcome.is_ok() {
        let jobs: Result<Vec<String>> = items.items.iter().map(|item| Ok(run.identity(item)?.0)).collect();
        journal.close(&jobs?)?;
    }
    report(&items.items, &ends, &notes, started.elapsed(), json)?;
    outcome
}

impl Run<'_> {
    fn asked(&self, item: &Item) -> Asked<'_> {
        asked(item, self.catalogs, &self.flags)
    }

    fn identity(&self, item: &Item) -> Result<(String, String, String)> {
        Ends::of(self.asked(item))?.identity(self.env)
    }

    /// Foreign keys of new tables, now that all tables are there: those that refer to each other too.
    fn keys(&self, items: &[Item], ends: &[End]) -> Result<Vec<String>> {
        let all: Vec<_> = items.iter().zip(ends).filter_map(|(item, end)| Some((item, end.keys_later()?))).collect();
        let mut notes = Vec::new();
        for (item, later) in all.iter().filter(|(_, later)| !later.keys.is_empty()) {
            // A key speaks of the source's tables, which may have other names here.
            let here =
                |name: &str| all.iter().find(|(_, other)| other.source == name).map_or(name.to_string(), |(_, other)| other.target.clone());
            let keys = later.keys.iter().map(|key| TablePart { refers_to: key.refers_to.as_deref().map(here), ..key.clone() });
            let keys: Vec<TablePart> = keys.collect();
            let left_out = Ends::of(self.asked(item)).and_then(|ends| ends.add_keys(self.env, &later.target, &keys));
            notes.extend(left_out.map_err(|e| e.context(format_args!("{}: foreign keys", item.name)))?);
        }
        Ok(notes)
    }

    /// One stream.
    fn one(&self, number: usize, item: &Item, progress: &Arc<Progress>) -> Result<End> {
        let identity = self.identity(item)?;
        match self.journal.done(&identity.0) {
            Some(end) if self.resumes => return Ok(end),
            _ => self.journal.begin(&identity.0)?,
        }
        // Streams of one run must not share the names of what they make.
        let env = Environment { run_id: format!("{}s{number}", self.env.run_id), ..self.env.clone() };
        let mut ready = Ends::of(self.asked(item))?.connect(&env, Purpose::Run)?;
        if self.resumes {
            // That a stream had not begun is no news here.
            ready.notes.clear();
            if let Some(rows) = ready.ended_before(&env)? {
                self.journal.finished(number, &identity, rows, None)?;
                return Ok(End::Before { rows, keys_later: None });
            }
        }
        ready.job.options.keys_later = true;
        if let Some(tracking) = &mut ready.job.options.tracking {
            // Between a stream's last commit and the note that it is done, the job may be killed.
            tracking.note_end = true;
        }
        let done = carry_out(ready, &env, progress, |_| None)?;
        let finished = &done.outcome.finished;
        self.journal.finished(number, &identity, finished.rows, finished.keys_later.as_ref())?;
        Ok(End::Done(Box::new(done)))
    }
}

fn asked<'a>(item: &Item, catalogs: &'a [Box<dyn Catalog>], flags: &Given) -> Asked<'a> {
    Asked {
        from: item.from.clone(),
        to: item.to.clone(),
        flags: item.settings.iter().chain(flags).cloned().collect(),
        defaults: item.defaults.clone(),
        catalog: item.catalog.map(|number| catalogs[number].as_ref()),
    }
}

/// Prints every plan. A stream that cannot be planned is told in its place, and the others all the same.
fn dry_run(items: &Items, env: &Environment, json: bool) -> Result<()> {
    let mut failed = 0;
    let mut all = Vec::new();
    for (number, item) in items.items.iter().enumerate() {
        let env = Environment { run_id: format!("{}s{number}", env.run_id), ..env.clone() };
        let ready = Ends::of(asked(item, &items.catalogs, &Vec::new())).and_then(|ends| ends.connect(&env, Purpose::Plan));
        let ready = ready.map(|mut ready| {
            ready.job.options.keys_later = true;
            ready
        });
        if json {
            let planned = ready.and_then(|mut ready| plan::planned_json(&mut ready));
            failed += usize::from(planned.is_err());
            all.push(planned.unwrap_or_else(|error| serde_json::json!({"stream": item.name, "error": error_json(&error)})));
            continue;
        }
        let after: Vec<&str> = item.waits_for.iter().map(|n| items.items[*n].name.as_str()).collect();
        let after = if after.is_empty() { String::new() } else { format!(" (after {})", after.join(", ")) };
        let text = match ready.and_then(|mut ready| plan::planned_text(&mut ready)) {
            Ok(text) => text,
            Err(error) => {
                failed += 1;
                let hint = error.hint_text().map(|hint| format!("\n hint: {hint}")).unwrap_or_default();
                format!("error: {error}{hint}\n")
            }
        };
        render::print(&format!("== {}{after}\n{text}\n", item.name))?;
    }
    if json {
        render::print(&format!("{}\n", serde_json::json!({"plans": all, "notes": items.notes})))?;
    } else {
        items.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    match failed {
        0 => Ok(()),
        n => Err(Error::new(ErrorKind::Schema, format!("{n} of {} streams cannot be run", items.items.len()))),
    }
}

/// Whether all is well, and which way is out if not.
fn verdict(items: &Items, ends: &[End], env: &Environment) -> Result<()> {
    if env.stopping() {
        return Err(Error::new(ErrorKind::Cancelled, "stopped by the user").hint("the same command with --resume goes on"));
    }
    let failed = ends.iter().filter(|end| !end.is_well()).count();
    match failed {
        0 => Ok(()),
        n => Err(Error::new(ErrorKind::Server, format!("{n} of {} streams did not end well", items.items.len()))
            .hint("the same command with --resume does these again and leaves the others alone")),
    }
}

fn report(items: &[Item], ends: &[End], notes: &[String], elapsed: Duration, json: bool) -> Result<()> {
    for note in notes {
        eprintln!("note: {note}");
    }
    let mut table = Table::new(&["stream", "rows", "MB", "seconds", "rows/s", "guarantee", "verified", "result"]).right(&[1, 2, 3, 4]);
    let mut streams = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    for (item, end) in items.iter().zip(ends) {
        remarks(item, end);
        table.row(row(item, end));
        streams.push(told(item, end));
        if let End::Done(done) = end {
            rows += done.outcome.finished.written();
            bytes += moved(done);
        }
    }
    let seconds = elapsed.as_secs_f64().max(1e-6);
    eprint!("{}", table.render());
    eprintln!(
        "{} streams  {} rows  {}  in {}  ({} rows/s, {}/s)",
        ends.len(),
        render::count(rows),
        render::bytes(bytes),
        render::seconds(seconds),
        render::count((rows as f64 / seconds) as u64),
        render::bytes((bytes as f64 / seconds) as u64)
    );
    if !json {
        return Ok(());
    }
    let status = if ends.iter().all(End::is_well) { "ok" } else { "failed" };
    let all =
        serde_json::json!({"status": status, "rows_written": rows, "bytes": bytes, "seconds": seconds, "streams": streams, "notes": notes});
    render::print(&format!("{all}\n"))
}

fn moved(done: &Done) -> u64 {
    done.outcome.counts.bytes_in.max(done.outcome.counts.bytes_out)
}

/// What is to be said of a stream beside its line.
fn remarks(item: &Item, end: &End) {
    match end {
        End::Done(done) => done.outcome.finished.notes.iter().for_each(|note| eprintln!("note: {}: {note}", item.name)),
        End::Failed(error) => {
            eprintln!("error: {}: {error}", item.name);
            error.hint_text().iter().for_each(|hint| eprintln!(" hint: {hint}"));
        }
        _ => {}
    }
}

/// Its line in the final table.
fn row(item: &Item, end: &End) -> Vec<String> {
    let (mut cells, result) = (vec!["-".to_string(); 6], end.word());
    match end {
        End::Done(done) => {
            let seconds = done.outcome.elapsed.as_secs_f64();
            cells = vec![
                render::count(done.outcome.finished.written()),
                format!("{:.1}", moved(done) as f64 / 1e6),
                format!("{seconds:.2}"),
                render::count((done.outcome.counts.read as f64 / seconds.max(1e-6)) as u64),
                done.plan.guarantee.to_string(),
                done.outcome.verified.as_ref().map_or_else(|| "-".to_string(), |verified| verified.how.to_string()),
            ];
        }
        End::Before { rows, .. } => cells[0] = render::count(*rows),
        _ => {}
    }
    std::iter::once(item.name.clone()).chain(cells).chain([result]).collect()
}

/// The same for programs.
fn told(item: &Item, end: &End) -> serde_json::Value {
    let mut told = match end {
        End::Done(done) => result(done),
        End::Before { rows, .. } => serde_json::json!({"status": "done before", "rows_written": rows}),
        End::Failed(error) => serde_json::json!({"status": "failed", "error": error_json(error)}),
        End::Skipped(why) => serde_json::json!({"status": "skipped", "why": why}),
    };
    told["stream"] = serde_json::json!(item.name);
    told
}
