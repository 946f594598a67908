//! `haul generate bench|padded`: a copy whose source makes the rows.

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
    let mut from =
        format!("generate://{}?rows={}&seed={}", text("dataset")?, number("rows").unwrap_or(1_000_000), number("seed").unwrap_or(42));
    if let Some(bytes) = number("bytes") {
        from.push_str(&format!("&bytes={bytes}"));
    }
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
