//! `haul`: the command line.

mod args;
mod commands;
mod env;
mod foreign_flags;
mod job;
mod jobfile;
mod options;
mod progress;
mod render;
mod sample;
mod streams;
mod tracking;

use clap::error::{ContextKind, ContextValue};
use haul_model::Result;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::join_switches(std::env::args_os());
    let matches = args::command().try_get_matches_from(&arguments).unwrap_or_else(|error| {
        if let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg)
            && error.kind() == clap::error::ErrorKind::UnknownArgument
            && let Some(error) = foreign_flags::translate(unknown, &arguments)
        {
            render::error(&error);
            std::process::exit(i32::from(render::exit_code(&error)));
        }
        error.exit()
    });
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            render::error(&error);
            ExitCode::from(render::exit_code(&error))
        }
    }
}

fn run(matches: &clap::ArgMatches) -> Result<()> {
    let env = env::environment()?;
    // For tests: ends the process at a named place, as kill -9 would.
    if let Some(place) = env.var("HAUL_FAILPOINT") {
        haul_model::failpoint::arm(place)?;
    }
    match matches.subcommand() {
        Some(("copy", m)) => commands::copy::run(m, &env),
        Some(("plan", m)) => commands::plan::run(m, &env),
        Some(("diff", m)) => commands::diff::run(m, &env),
        Some(("run", m)) => commands::run::run(m, &env),
        Some(("schema-of-config", _)) => render::print(&format!("{:#}\n", jobfile::schema())),
        Some(("schema", m)) => commands::schema::schema(m, &env),
        Some(("preview", m)) => commands::schema::preview(m, &env),
        Some(("check", m)) => commands::check::run(m, &env),
        Some(("cdc", m)) => commands::cdc::run(m, &env),
        Some(("state", m)) => commands::state::run(m, &env),
        Some(("connectors", m)) => commands::connectors::run(m),
        Some(("generate", m)) => commands::generate::run(m, &env),
        Some(("demo", m)) => commands::demo::run(m, &env),
        Some(("completions", m)) => {
            if let Some(shell) = m.get_one::<clap_complete::Shell>("shell") {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut args::command(), "haul", &mut script);
                render::print(&String::from_utf8_lossy(&script))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
