//! `haul diff --repair`: the rows that B misses or has otherwise go from A to B, through the upsert of a copy.

use super::Asked as Diff;
use super::report;
use crate::args::Given;
use crate::commands::copy::{carry_out, last_line};
use crate::commands::plan;
use crate::job::{Asked, Ready, ready};
use crate::render;
use crate::tracking::Purpose;
use haul_engine::Progress;
use haul_engine::diff::{Found, Report};
use haul_model::{Environment, Error, ErrorKind, Result};
use std::sync::Arc;

/// Shows the plan, and carries it out if the user is `sure`.
///
/// # Errors
/// What cannot be repaired in this way; the copy's; `Mismatch` while something still differs.
pub fn repair(diff: &Diff, report: &Report, sure: bool, env: &Environment) -> Result<()> {
    let found = possible(diff, report)?;
    let writes = found.missing + found.changed;
    if writes == 0 {
        return Err(left(report, found, "there is nothing in A that B misses"));
    }
    let mut planned = prepared(diff, report, env, Purpose::Plan)?;
    let told = plan::planned_text(&mut planned)?;
    drop(planned);
    let say = |text: &str| if diff.json { eprint!("{text}") } else { drop(render::print(text)) };
    say(&format!(
        "\nrepair: {} missing and {} other rows go from A to B\n{told}",
        render::count(found.missing),
        render::count(found.changed)
    ));
    if !sure {
        return Err(Error::new(ErrorKind::Mismatch, format!("nothing was written: {}", report::summary(report)))
            .hint("the same command with --repair --yes writes these rows"));
    }
    let done = carry_out(prepared(diff, report, env, Purpose::Run)?, env, &Arc::new(Progress::default()), |_| None)?;
    done.outcome.finished.notes.iter().for_each(|note| eprintln!("note: {note}"));
    eprintln!("{}", last_line(&done.outcome));
    if found.extra > 0 || !found.complete {
        return Err(left(report, found, "what A has is written"));
    }
    Ok(())
}

/// What still differs afterwards.
fn left(report: &Report, found: &Found, done: &str) -> Error {
    let [a, b] = &report.names;
    let what = match found.complete {
        true => format!("{} rows that only B has are left alone", render::count(found.extra)),
        false => "there was more than could be matched at a time".into(),
    };
    let error = Error::new(ErrorKind::Mismatch, format!("{a} and {b} still differ: {done}, and {what}"));
    if found.complete {
        error.hint("delete them in B, or find out where they come from")
    } else {
        error.hint("the same command again goes on")
    }
}

fn possible<'a>(diff: &Diff, report: &'a Report) -> Result<&'a Found> {
    let refuse =
        |kind: ErrorKind, why: &str, hint: &str| Err(Error::new(kind, format!("--repair: {why}")).object(&report.names[1]).hint(hint));
    if !diff.writable() {
        return refuse(
            ErrorKind::Usage,
            "rows can be written one by one into a PostgreSQL table only",
            "copy the whole again: haul copy A B",
        );
    }
    if report.same_rows {
        return refuse(ErrorKind::Unsupported, "the rows are the same, only the columns are not", "change the columns of B by hand");
    }
    let Some(found) = &report.found else {
        return refuse(ErrorKind::Config, "there is no key that tells which rows are to be written", "--key COLUMNS names it");
    };
    if found.repeated > 0 {
        return refuse(
            ErrorKind::Unsupported,
            "several rows of a side have the same key, so which of them belong together is not known",
            "name a key that tells all rows apart with --key",
        );
    }
    Ok(found)
}

/// A copy of the rows that are to be written.
fn prepared(diff: &Diff, report: &Report, env: &Environment, purpose: Purpose) -> Result<Ready> {
    let quoted = |names: &mut dyn Iterator<Item = &String>| {
        let names =
            names.map(|name| if name.contains([',', '"', ' ']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.clone() });
        names.collect::<Vec<_>>().join(",")
    };
    let mut flags: Given = diff.flags.iter().filter(|(name, _)| name != "degree" && name != "columns").cloned().collect();
    for (name, value) in [
        ("mode", "upsert".to_string()),
        ("key", quoted(&mut report.key.iter())),
        ("columns", quoted(&mut report.columns.iter().map(|column| &column.name))),
    ] {
        flags.push((name.to_string(), value));
    }
    let mut ready = ready(Asked::parse(&diff.a, &diff.b, &flags)?, env, purpose)?;
    if let Some(keep) = report.keep() {
        ready.job.transforms.push(Box::new(keep));
    }
    if let Some(tracking) = &mut ready.job.options.tracking {
        // A copy of everything between these ends must not go on with this one.
        tracking.run.job.push_str("-repair");
    }
    Ok(ready)
}
