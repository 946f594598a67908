//! The command line, generated from the settings of the job and of every connector and format.

use crate::options::{DISPLAY, JOB};
use clap::{Arg, ArgAction, Command};
use haul_connectors::CONNECTORS;
use haul_formats::FORMATS;
use haul_model::{Kind, Setting};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Flags that were given, by setting name, in order.
pub type Given = Vec<(String, String)>;

/// Builds the whole command.
pub fn command() -> Command {
    Command::new("haul")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Moves tables, files and streams between systems at the speed of the slower end, and proves that every row arrived.")
        .after_help("FROM and TO are paths, URIs such as postgres://user@host/db?table=t, or - for a pipe.\n`haul connectors` lists what they can be; `haul COMMAND --help` lists the flags.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(job_command("copy", "Copy FROM to TO"))
        .subcommand(job_command("plan", "Show what a copy would do: columns, types, statements, guarantee"))
        .subcommand(diff_command())
        .subcommand(run_command())
        .subcommand(Command::new("schema-of-config").about("Print the JSON Schema of a job file, for editors and CI"))
        .subcommand(endpoint_command("schema", "Show the columns and types of a source"))
        .subcommand(
            endpoint_command("preview", "Show the first rows of a source")
                .arg(Arg::new("rows").short('n').long("rows").value_name("N").default_value("10").value_parser(clap::value_parser!(u64)).help("How many rows")),
        )
        .subcommand(endpoint_command("check", "Can it be reached, and with what rights?"))
        .subcommand(cdc_command())
        .subcommand(state_command())
        .subcommand(
            Command::new("connectors")
                .about("List connectors, or show the reference of one")
                .arg(Arg::new("name").value_name("NAME"))
                .arg(Arg::new("markdown").long("markdown").action(ArgAction::SetTrue).help("As a Markdown page"))
                .arg(Arg::new("types").long("types").action(ArgAction::SetTrue).help("How each type travels, as a Markdown page")),
        )
        .subcommand(generate_command())
        .subcommand(
            Command::new("demo")
                .about("Run the main job on generated data in a temporary folder, and prove the result")
                .arg(Arg::new("rows").long("rows").value_name("N").default_value("1000000").value_parser(clap::value_parser!(u64)).help("Rows to generate")),
        )
        .subcommand(
            Command::new("completions")
                .about("Print shell completions")
                .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(clap::value_parser!(clap_complete::Shell))),
        )
}

fn diff_command() -> Command {
    let switch = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("diff")
        .about("Compare A with B: rows, columns, and with a key the rows that differ. Exit code 1: they differ")
        .arg(Arg::new("a").value_name("A").required(true).help("What is right: path or URI"))
        .arg(Arg::new("b").value_name("B").required(true).help("What is compared with it: path or URI"))
        .arg(
            Arg::new("show")
                .long("show")
                .value_name("N")
                .value_parser(clap::value_parser!(usize))
                .help("So many of the rows that differ are shown [default: 20]"),
        )
        .arg(switch("repair", "Show how the rows that B misses or has otherwise would be written to B"))
        .arg(switch("yes", "With --repair: write them"))
        .args(setting_args())
}

fn run_command() -> Command {
    let of_run = ["resume", "restart", "state", "progress", "json", "dry_run"];
    Command::new("run")
        .about("Run the streams of a job file")
        .arg(Arg::new("job").value_name("JOB.yaml").required(true).help("The job file (`haul schema-of-config` describes it)"))
        .arg(Arg::new("select").long("select").value_name("A,B").help("Only streams or tables of these names or patterns"))
        .arg(Arg::new("fail_fast").long("fail-fast").action(ArgAction::SetTrue).help("The first failure ends the job"))
        .arg(
            Arg::new("max_parallel_tables")
                .long("max-parallel-tables")
                .value_name("N")
                .value_parser(clap::value_parser!(usize))
                .help("Streams that run at the same time (default: what the file says, or the number of cores, at most 4)"),
        )
        .args(setting_args().into_iter().filter(|a| of_run.iter().any(|n| a.get_id() == *n)))
}

fn cdc_command() -> Command {
    Command::new("cdc")
        .about("What a stream of changes holds at its source")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(endpoint_command("status", "Is the slot well, who reads it, how far behind is it, and how much log is kept for it?"))
        .subcommand(endpoint_command("drop", "Drop the slot, and the publication if haul has made it"))
}

fn state_command() -> Command {
    let kept = |name: &'static str, about: &'static str| {
        let of_state = ["state", "json", "password", "passfile"];
        Command::new(name).about(about).args(setting_args().into_iter().filter(|a| of_state.iter().any(|n| a.get_id() == *n)))
    };
    Command::new("state")
        .about("What runs have left that were killed, or that failed and can be resumed")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(kept("list", "List them"))
        .subcommand(
            kept("clean", "Remove what they left: staging tables, checkpoints, temporary files, and their state")
                .arg(Arg::new("older_than").long("older-than").value_name("TIME").help("Only runs that began longer ago: 12h, 7d")),
        )
}

fn generate_command() -> Command {
    Command::new("generate")
        .about("Write generated data: the bench fixture, padded rows, or TPC-H orders")
        .arg(Arg::new("dataset").value_name("DATASET").required(true).value_parser(["bench", "padded", "orders"]).help("What to generate"))
        .arg(Arg::new("to").value_name("TO").required(true).help("Where to"))
        .arg(
            Arg::new("rows")
                .long("rows")
                .value_name("N")
                .value_parser(clap::value_parser!(u64))
                .help("bench, padded: rows (default 1000000)"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("S")
                .value_parser(clap::value_parser!(u64))
                .help("bench: seed of the random numbers (default 42)"),
        )
        .arg(
            Arg::new("bytes")
                .long("bytes")
                .value_name("N")
                .value_parser(clap::value_parser!(u64))
                .help("padded: bytes of a row as JSON (default 256)"),
        )
        .args(setting_args())
}

fn job_command(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(Arg::new("from_position").value_name("FROM").help("Where to read: path, URI, or -"))
        .arg(Arg::new("to_position").value_name("TO").help("Where to write: path, URI, or -"))
        .arg(Arg::new("from").long("from").value_name("FROM").conflicts_with("from_position").help("FROM, as a flag"))
        .arg(Arg::new("to").long("to").value_name("TO").conflicts_with_all(["to_position", "from_position"]).help("TO, as a flag"))
        .args(setting_args())
}

fn endpoint_command(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(Arg::new("address").value_name("URI").required(true).help("Path, URI, or -")).args(setting_args())
}

/// Where settings come from, under the headings of the help.
pub fn setting_sources() -> Vec<(&'static str, Vec<&'static [Setting]>)> {
    let mut sources = vec![("Job", vec![JOB]), ("Output", vec![DISPLAY])];
    for connector in CONNECTORS {
        let spec = connector.spec();
        sources.push((spec.name, vec![spec.source, spec.sink]));
    }
    for format in FORMATS {
        sources.push((format.name, vec![format.read, format.write]));
    }
    sources
}

/// One argument per setting name; a setting that several connectors share appears once.
fn setting_args() -> Vec<Arg> {
    const TAKEN: &[&str] = &["from", "to", "older_than", "rows", "seed", "bytes", "dataset", "name", "help", "version"];
    let mut seen: BTreeMap<&str, ()> = TAKEN.iter().map(|t| (*t, ())).collect();
    let mut out = Vec::new();
    for (heading, slices) in setting_sources() {
        for setting in slices.into_iter().flatten() {
            if seen.insert(setting.name, ()).is_none() {
                let aliases: Vec<&'static str> = setting.aliases.iter().copied().filter(|a| seen.insert(a, ()).is_none()).collect();
                out.push(setting_arg(setting, aliases, heading));
            }
        }
    }
    out
}

fn setting_arg(setting: &'static Setting, aliases: Vec<&'static str>, heading: &'static str) -> Arg {
    let dashed = |name: &str| name.replace('_', "-");
    let mut help = setting.doc.to_string();
    if !setting.default.is_empty() {
        help.push_str(&format!(" [default: {}]", setting.default));
    }
    let value_name = match setting.kind {
        Kind::Bool => "on|off".to_string(),
        Kind::Int => "N".into(),
        Kind::Text => "TEXT".into(),
        Kind::Choice(words) => words.join("|"),
        Kind::Bytes => "BYTES".into(),
        Kind::Duration => "TIME".into(),
        Kind::Path => "PATH".into(),
        Kind::List => "A,B".into(),
        Kind::Char => "CHAR".into(),
    };
    let mut arg =
        Arg::new(setting.name).long(dashed(setting.name)).value_name(value_name).help(help).help_heading(heading).allow_hyphen_values(true);
    for alias in aliases {
        arg = arg.visible_alias(dashed(alias));
    }
    if setting.kind == Kind::Bool {
        // `--create` alone means on; a value needs `=`, so that a following path is not taken for it.
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    } else if let Some(bare) = setting.bare {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value(bare);
    }
    arg
}

/// The settings that were given as flags.
pub fn given(matches: &clap::ArgMatches) -> Given {
    let mut out = Vec::new();
    for (_, slices) in setting_sources() {
        for setting in slices.into_iter().flatten() {
            let value = matches.try_get_one::<String>(setting.name).ok().flatten();
            if let Some(value) = value
                && matches.value_source(setting.name) == Some(clap::parser::ValueSource::CommandLine)
                && !out.iter().any(|(n, _)| n == setting.name)
            {
                out.push((setting.name.to_string(), value.clone()));
            }
        }
    }
    out
}

/// Makes arguments what clap can tell apart: `-?format=csv` becomes a URI, and `--fsync off` is joined to `--fsync=off`. A switch takes its value only in these words, so that a path behind it stays a path.
pub fn join_switches(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    const WORDS: &[&str] = &["on", "off", "true", "false", "yes", "no"];
    // Whether `text` is a switch that takes `word` as its value.
    let takes = |text: &str, word: &str| {
        let Some(name) = text.strip_prefix("--") else { return false };
        setting_sources().into_iter().flat_map(|(_, slices)| slices).flatten().filter(|s| s.answers_to(name)).any(|s| match s.kind {
            Kind::Bool => WORDS.iter().any(|w| w.eq_ignore_ascii_case(word)),
            Kind::Choice(words) => s.bare.is_some() && words.iter().any(|w| w.eq_ignore_ascii_case(word)),
            _ => false,
        })
    };
    let mut out: Vec<OsString> = Vec::new();
    for argument in arguments {
        // A pipe with settings behind it must not be taken for a flag.
        let argument = match argument.to_str().and_then(|a| a.strip_prefix('-')) {
            Some(rest) if rest.starts_with(['?', '|']) => OsString::from(format!("stdio://{rest}")),
            _ => argument,
        };
        let word = argument.to_str();
        match out.last_mut() {
            Some(last) if last.to_str().zip(word).is_some_and(|(last, word)| takes(last, word)) => {
                last.push("=");
                last.push(&argument);
            }
            _ => out.push(argument),
        }
    }
    out
}

/// Whether a setting of this name belongs to the job or its display.
pub fn job_setting(name: &str) -> Option<&'static Setting> {
    JOB.iter().chain(DISPLAY).find(|s| s.answers_to(name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn switches_take_words_but_not_paths() {
        let joined = |line: &str| super::join_switches(line.split(' ').map(Into::into)).join(std::ffi::OsStr::new(" "));
        assert_eq!(joined("haul copy --fsync off a.csv b.csv"), "haul copy --fsync=off a.csv b.csv");
        assert_eq!(joined("haul copy --json a.csv --degree 4"), "haul copy --json a.csv --degree 4");
        assert_eq!(joined("haul copy --infer on"), "haul copy --infer=on");
        assert_eq!(joined("haul copy --resume stale-ok a b"), "haul copy --resume=stale-ok a b");
        assert_eq!(joined("haul copy --resume a b"), "haul copy --resume a b");
        assert_eq!(joined("haul copy -?format=csv - -n 3"), "haul copy stdio://?format=csv - -n 3");
    }
}
