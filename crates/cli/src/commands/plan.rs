//! `haul plan FROM TO`: what would happen, before it does.

use crate::args::{Given, given};
use crate::job::{Asked, Ready, ready};
use crate::render::{self, Table};
use crate::tracking::Purpose;
use clap::ArgMatches;
use haul_engine::Plan;
use haul_model::{Environment, Result};

/// Runs the command.
///
/// # Errors
/// Usage, or whatever makes the job impossible.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let (from, to) = crate::commands::copy::ends(matches)?;
    let flags = given(matches);
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    show(&from, &to, &flags, env, json)
}

/// Plans and prints.
///
/// # Errors
/// See [`run`].
pub fn show(from: &str, to: &str, flags: &Given, env: &Environment, json: bool) -> Result<()> {
    let mut ready = ready(Asked::parse(from, to, flags)?, env, Purpose::Plan)?;
    match json {
        true => render::print(&format!("{}\n", planned_json(&mut ready)?)),
        false => render::print(&planned_text(&mut ready)?),
    }
}

/// Plans, for people.
///
/// # Errors
/// Whatever makes the job impossible.
pub fn planned_text(ready: &mut Ready) -> Result<String> {
    let plan = haul_engine::plan(&mut ready.job)?;
    Ok(as_text(&plan, &ready.from, &ready.to))
}

/// Plans, for programs.
///
/// # Errors
/// Whatever makes the job impossible.
pub fn planned_json(ready: &mut Ready) -> Result<serde_json::Value> {
    let plan = haul_engine::plan(&mut ready.job)?;
    Ok(as_json(&plan, &ready.from, &ready.to))
}

fn encoding(plan: &Plan) -> String {
    match &plan.pass_through {
        Some(encoding) => format!("pass-through: {} bytes go untouched", encoding.format),
        None => "decoded to columns and encoded".into(),
    }
}

fn as_text(plan: &Plan, from: &str, to: &str) -> String {
    let mut out = format!(
        "from       {from}\nto         {to}\nread       {}\nwrite      {}\nrows       {}\n",
        plan.read.method,
        plan.write.method,
        encoding(plan)
    );
    for transform in &plan.transforms {
        out.push_str(&format!("transform  {transform}\n"));
    }
    let pools = Some(plan.pools.to_string()).filter(|pools| !pools.is_empty()).map_or(String::new(), |pools| format!("; {pools}"));
    out.push_str(&format!("width      {} lane(s), {} worker(s){pools}\nguarantee  {}\n", plan.lanes, plan.workers, plan.guarantee));
    out.push_str(&format!("resume     {}\n", plan.resume));
    if let Some(verify) = &plan.verify {
        out.push_str(&format!("verify     {verify}\n"));
    }
    let mut table = Table::new(&["column", "type", "target", "type there", "note"]);
    for column in &plan.write.columns {
        table.row(vec![
            if column.source.is_empty() { "-".into() } else { column.source.clone() },
            column.source_type.clone(),
            column.target.clone(),
            column.target_type.clone(),
            column.note.clone().unwrap_or_default(),
        ]);
    }
    out.push('\n');
    out.push_str(&table.render());
    if !plan.write.ddl.is_empty() {
        out.push_str("\nstatements\n");
        for statement in &plan.write.ddl {
            out.push_str(&format!("  {};\n", statement.replace('\n', "\n  ")));
        }
    }
    if !plan.notes.is_empty() {
        out.push_str("\nnotes\n");
        for note in &plan.notes {
            let column = note.column.as_ref().map(|c| format!("column {c:?}: ")).unwrap_or_default();
            out.push_str(&format!("  {}{column}{}\n", if note.lossy { "LOSSY " } else { "" }, note.text));
        }
    }
    out
}

fn as_json(plan: &Plan, from: &str, to: &str) -> serde_json::Value {
    let columns: Vec<_> = plan
        .write
        .columns
        .iter()
        .map(|c| serde_json::json!({"source": c.source, "source_type": c.source_type, "target": c.target, "target_type": c.target_type, "note": c.note}))
        .collect();
    let notes: Vec<_> = plan.notes.iter().map(|n| serde_json::json!({"column": n.column, "text": n.text, "lossy": n.lossy})).collect();
    let splits: Vec<_> =
        plan.read.splits.iter().map(|s| serde_json::json!({"id": s.id, "what": s.what, "rows": s.rows, "bytes": s.bytes})).collect();
    serde_json::json!({
        "from": from,
        "to": to,
        "read": plan.read.method,
        "write": plan.write.method,
        "pass_through": plan.pass_through.as_ref().map(|e| e.format),
        "transforms": plan.transforms,
        "lanes": plan.lanes,
        "workers": plan.workers,
        "extractors": plan.pools.extractors.map(|(threads, _)| threads),
        "loaders": plan.pools.loaders.map(|(threads, _)| threads),
        "guarantee": plan.guarantee.to_string(),
        "resume": plan.resume.to_string(),
        "verify": plan.verify,
        "columns": columns,
        "statements": plan.write.ddl,
        "splits": splits,
        "notes": notes,
    })
}
