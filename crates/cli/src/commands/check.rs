//! `haul check URI`: can it be reached, and with what rights?

use crate::args::given;
use crate::job::{Side, end};
use crate::render;
use clap::ArgMatches;
use haul_model::{Endpoint, Environment, Error, ErrorKind, Result};

/// Prints the findings; an error if one of them is bad.
///
/// # Errors
/// It cannot be reached at all, or something is missing.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let text = matches.get_one::<String>("address").ok_or_else(|| Error::internal("no endpoint"))?;
    let flags = given(matches);
    let json = flags.iter().any(|(n, v)| n == "json" && v != "false" && v != "off");
    let end = end(Endpoint::parse(text)?, Side::Source, &flags, &mut Vec::new(), &mut Vec::new())?;
    let lines = end.connector.check(&end.endpoint, &end.settings, env)?;
    if json {
        let lines: Vec<_> = lines.iter().map(|l| serde_json::json!({"what": l.what, "ok": l.ok, "found": l.found})).collect();
        render::print(&format!("{}\n", serde_json::json!({"endpoint": end.endpoint.redacted(), "checks": lines})))?;
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
    // Reading or writing is enough: an endpoint is usually one of the two.
    let reachable = lines.iter().any(|l| l.ok == Some(true));
    if reachable { Ok(()) } else { Err(Error::new(ErrorKind::NotFound, "nothing can be done with it").object(end.endpoint.redacted())) }
}
