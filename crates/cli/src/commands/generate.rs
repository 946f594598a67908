//! `haul generate bench|padded|orders`: a copy whose source makes the rows.

use crate::args::given;
use crate::commands::copy;
use clap::ArgMatches;
use haul_model::{Environment, Error, Result};

/// Runs the command.
///
/// # Errors
/// Usage, or the copy's.
pub fn run(matches: &ArgMatches, env: &Environment) -> Result<()> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().ok_or_else(|| Error::internal("a required argument is missing"));
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let given_number = |name: &str| number(name).map(|n| format!("{name}={n}"));
    let settings: Vec<String> = ["rows", "seed", "bytes"].into_iter().filter_map(given_number).collect();
    let from = format!("generate://{}?{}", text("dataset")?, settings.join("&"));
    let to = text("to")?;
    let mut flags = given(matches);
    // The fixture's CSV ends its lines with CR LF; saying --newline makes it another file with the same rows.
    let csv = haul_model::Endpoint::parse(&to)
        .is_ok_and(|e| e.get("format").map_or(e.address.ends_with(".csv"), |f| f == "csv") && e.get("newline").is_none());
    if csv && !flags.iter().any(|(name, _)| name == "newline") {
        flags.push(("newline".into(), "crlf".into()));
    }
    let done = copy::copy(&from, &to, &flags, env)?;
    eprintln!("{}", copy::last_line(&done.outcome));
    Ok(())
}
