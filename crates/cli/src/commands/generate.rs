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
    let done = copy::copy(&from, &text("to")?, &given(matches), env)?;
    eprintln!("{}", copy::last_line(&done.outcome));
    Ok(())
}
