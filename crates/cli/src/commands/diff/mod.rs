//! `haul diff A B`: whether two ends hold the same rows, and which rows they do not share.

mod repair;
mod report;

use crate::args::{Given, given, job_setting};
use crate::job::{End, Side, end, is_pipe, share};
use crate::render;
use clap::ArgMatches;
use haul_engine::diff::{Ask, Report, diff};
use haul_model::{Endpoint, Environment, Error, ErrorKind, Result};
use std::time::Instant;

/// Settings of a job that mean something here.
const OF_A_DIFF: &[&str] = &["degree", "json", "progress"];

/// What was asked for.
struct Asked {
    a: String,
    b: String,
    flags: Given,
    key: Option<Vec<String>>,
    shown: usize,
    json: bool,
    /// The rows are to be written; `Some(true)`: without asking back.
    repair: Option<bool>,
}

/// Runs the command.
///
/// # Errors
/// `Mismatch` if the two differ; usage; whatever either end can meet.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let asked = Asked::of(matches)?;
    let started = Instant::now();
    let report = match asked.compare(env) {
        Ok(report) => report,
        Err(error) => {
            if asked.json {
                let failed = serde_json::json!({"status": "failed", "error": super::copy::error_json(&error)});
                render::print(&format!("{failed}\n"))?;
            }
            return Err(error);
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    match asked.json {
        true => render::print(&format!("{}\n", report::json(&report, seconds)))?,
        false => render::print(&report::text(&report))?,
    }
    let [in_a, in_b] = report.rows.map(render::count);
    eprintln!("read {in_a} and {in_b} rows  in {}", render::seconds(seconds));
    match asked.repair {
        _ if report.is_equal() => Ok(()),
        Some(sure) => repair::repair(&asked, &report, sure, env),
        None => Err(asked.differ(&report)),
    }
}

impl Asked {
    fn of(matches: &ArgMatches) -> Result<Self> {
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        let all = given(matches);
        let usage = |what: String, hint: &str| Err(Error::new(ErrorKind::Usage, what).hint(hint));
        let key = all.iter().find(|(name, _)| name == "key");
        let key = key.map(|(_, names)| haul_engine::transform::Project::parse_columns(names));
        let json = all.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
        let (repair, sure) = (matches.get_flag("repair"), matches.get_flag("yes"));
        if sure && !repair {
            return usage("--yes without --repair: nothing would be written".into(), "add --repair, or leave --yes out");
        }
        let flags: Given = all.into_iter().filter(|(name, _)| name != "key" && !["json", "progress"].contains(&name.as_str())).collect();
        if let Some((name, _)) = flags.iter().find(|(name, _)| {
            job_setting(name).is_some() && !OF_A_DIFF.contains(&name.as_str()) && !["columns", "on_lossy"].contains(&name.as_str())
        }) {
            return usage(
                format!("--{} means nothing for a diff", name.replace('_', "-")),
                "haul diff A B [--key COLUMNS] [--columns COLUMNS] [--json]",
            );
        }
        let shown = matches.get_one::<usize>("show").copied().unwrap_or(20);
        Ok(Self { a: text("a"), b: text("b"), flags, key, shown, json, repair: repair.then_some(sure) })
    }

    /// An end to be read, before it connects.
    fn end(&self, text: &str, used: &mut Vec<String>) -> Result<End> {
        let endpoint = Endpoint::parse(text)?;
        if let Some(suffix) = endpoint.suffixes.first() {
            return Err(Error::new(ErrorKind::Usage, format!("|{} behind an end of a diff: nothing is changed on the way", suffix.name))
                .object(endpoint.redacted())
                .hint("copy it into a file with haul copy, and compare that"));
        }
        let end = end(endpoint, Side::Source, &self.flags, &mut Vec::new(), used)?;
        if is_pipe(&end)? {
            return Err(Error::new(ErrorKind::Usage, "haul diff reads rows that differ once more, which a pipe cannot give twice")
                .object(end.endpoint.redacted())
                .hint("write the input to a file first"));
        }
        Ok(end)
    }

    fn compare(&self, env: &Environment) -> Result<Report> {
        let mut used: Vec<String> = OF_A_DIFF.iter().map(|name| (*name).to_string()).collect();
        let mut ends = [self.end(&self.a, &mut used)?, self.end(&self.b, &mut used)?];
        if let Some((name, _)) = self.flags.iter().find(|(name, _)| !used.contains(name)) {
            let [a, b] = ends.each_ref().map(|end| end.connector.spec().name);
            return Err(Error::new(ErrorKind::Usage, format!("--{} means nothing for reading {a} and {b}", name.replace('_', "-")))
                .hint("`haul connectors NAME` lists what each end understands"));
        }
        let same_system = ends[0].connector.spec().name == ends[1].connector.spec().name;
        let open = |end: &mut End| {
            // What has no room in a common type is the same text on both sides.
            if same_system && !end.settings.has("on_lossy") {
                share(end, Side::Source, "on_lossy", "text")?;
            }
            end.connector.source(&end.endpoint, &end.settings, env)
        };
        let [a, b] = &mut ends;
        let (mut a, mut b) = (open(a)?, open(b)?);
        for (side, source) in [("A", &a), ("B", &b)] {
            source
                .notes(haul_model::Form::Text)
                .iter()
                .filter(|note| note.lossy && note.column.is_none())
                .for_each(|note| eprintln!("note: {side}: {}", note.text));
        }
        let lanes = self.lanes(env)?;
        let threads = lanes.max(env.cores / 2).max(1);
        let ask = Ask { key: self.key.clone(), shown: self.shown, lanes, threads, repair: self.repair.is_some() };
        diff(a.as_mut(), b.as_mut(), &ask, &env.stop)
    }

    /// Lanes for each side: both read at the same time, so half the cores are enough.
    fn lanes(&self, env: &Environment) -> Result<usize> {
        let Some((_, text)) = self.flags.iter().find(|(name, _)| name == "degree") else { return Ok((env.cores / 2).max(1)) };
        match text.parse::<usize>() {
            Ok(0) => Ok((env.cores / 2).max(1)),
            Ok(lanes @ 1..=1024) => Ok(lanes),
            _ => Err(Error::new(ErrorKind::Config, format!("setting \"degree\" goes from 1 to 1024, not {text}"))),
        }
    }

    /// The verdict, and what can be done.
    fn differ(&self, report: &Report) -> Error {
        let [a, b] = &report.names;
        let error = Error::new(ErrorKind::Mismatch, format!("{a} and {b} differ: {}", report::summary(report)));
        match &report.found {
            _ if report.same_rows => error,
            None => error.hint("--key COLUMNS names the columns that tell rows apart, and finds the rows"),
            Some(found) if found.missing + found.changed > 0 && self.writable() => {
                error.hint("the same command with --repair shows how these rows would be written to B, and with --yes writes them")
            }
            Some(_) => error,
        }
    }

    /// Whether rows of B can be written one by one.
    fn writable(&self) -> bool {
        let specs = || end(Endpoint::parse(&self.b)?, Side::Sink, &Vec::new(), &mut Vec::new(), &mut Vec::new())?.specs();
        specs().is_ok_and(|specs: Vec<&[haul_model::Setting]>| specs.iter().flat_map(|s| s.iter()).any(|setting| setting.name == "key"))
    }
}
