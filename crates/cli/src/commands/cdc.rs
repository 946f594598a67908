//! `haul cdc status|drop URI`: what a stream of changes holds at its source.

use crate::args::given;
use crate::job::{Side, end};
use crate::render;
use clap::ArgMatches;
use haul_model::{Endpoint, Environment, Error, ErrorKind, Result};

/// Runs the command.
///
/// # Errors
/// The endpoint has no streams, or none like this; `status`: the stream cannot go on.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
    let text = matches.get_one::<String>("address").ok_or_else(|| Error::internal("no endpoint"))?;
    let flags = given(matches);
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    let end = end(Endpoint::parse(text)?, Side::Source, &flags, &mut Vec::new(), &mut Vec::new())?;
    if command == "drop" {
        let dropped = end.connector.stream_drop(&end.endpoint, &end.settings, env)?;
        return match json {
            true => render::print(&format!("{}\n", serde_json::json!({"endpoint": end.endpoint.redacted(), "dropped": dropped}))),
            false => dropped.iter().try_for_each(|what| render::print(&format!("dropped {what}\n"))),
        };
    }
    let lines = end.connector.stream_status(&end.endpoint, &end.settings, env)?;
    if json {
        let lines: Vec<_> = lines.iter().map(|l| serde_json::json!({"what": l.what, "ok": l.ok, "found": l.found})).collect();
        render::print(&format!("{}\n", serde_json::json!({"endpoint": end.endpoint.redacted(), "stream": lines})))?;
    } else {
        for line in &lines {
            let mark = match line.ok {
                Some(true) => "ok",
                Some(false) => "NO",
                None => "--",
            };
            render::print(&format!("{mark}  {:<14} {}\n", line.what, line.found))?;
        }
    }
    match lines.iter().find(|l| l.ok == Some(false)) {
        Some(line) => Err(Error::new(ErrorKind::Mismatch, format!("the stream cannot go on: {} {}", line.what, line.found))
            .object(end.endpoint.redacted())
            .hint("`haul cdc drop` removes what is left of it; then start again with a new snapshot")),
        None => Ok(()),
    }
}
