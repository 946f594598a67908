//! Flags that people know from FastTransfer, and what they are called here.

use haul_model::{Error, ErrorKind};
use std::ffi::OsString;

/// Their name without dashes, in lower case (short ones as they are), and what to write instead. Parts of an address first.
static FLAGS: &[(&[&str], &str)] = &[
    (&["sourceconnectiontype", "targetconnectiontype"], "the address says it: postgres://..., file://... or a path"),
    (
        &[
            "sourceserver",
            "targetserver",
            "sourcedatabase",
            "targetdatabase",
            "sourceuser",
            "targetuser",
            "sourceconnectstring",
            "targetconnectstring",
        ],
        "FROM and TO are addresses: postgres://USER@HOST:PORT/DATABASE?table=SCHEMA.TABLE",
    ),
    (&["sourceschema", "sourcetable", "targetschema", "targettable"], "at the end of the address: ?table=SCHEMA.TABLE"),
    (&["sourcepassword", "targetpassword"], "PGPASSWORD or ~/.pgpass (or in the address: postgres://USER:PASSWORD@HOST/...)"),
    (&["sourcetrusted", "targettrusted"], "a password is asked for only if the server wants one"),
    (&["fileinput"], "--query \"$(cat FILE)\""),
    (&["parallelmethod", "M"], "--method"),
    (&["paralleldegree"], "--degree"),
    (&["distributekeycolumn"], "--split-key"),
    (&["datadrivenquery"], "--split-query"),
    (&["loadmode"], "--mode append|truncate|replace|upsert|insert-ignore|delete-insert"),
    (&["mapmethod"], "--map name|position"),
    (&["batchsize"], "--batch-size"),
    (&["runid", "loglevel", "nobanner"], "leave it away; --progress and --json say what is printed"),
];

/// An error that translates what is FastTransfer's among the arguments; `None` if `unknown` is not.
pub fn translate(unknown: &str, arguments: &[OsString]) -> Option<Error> {
    entry(unknown)?;
    let mut lines: Vec<(Vec<&str>, &str)> = Vec::new();
    for argument in arguments.iter().filter_map(|a| a.to_str()) {
        let flag = argument.split('=').next().unwrap_or(argument);
        let Some((_, instead)) = entry(flag) else { continue };
        match lines.iter_mut().find(|(_, i)| i == instead) {
            Some((flags, _)) => flags.push(flag),
            None => lines.push((vec![flag], instead)),
        }
    }
    let lines: Vec<String> = lines.iter().map(|(flags, instead)| format!("\n  {}: {instead}", flags.join(", "))).collect();
    Some(
        Error::new(ErrorKind::Usage, format!("there is no flag {unknown}; FastTransfer has one"))
            .hint(format!("here it is written so:{}", lines.concat())),
    )
}

fn entry(flag: &str) -> Option<&'static (&'static [&'static str], &'static str)> {
    let name = match (flag.strip_prefix("--"), flag.strip_prefix('-')) {
        (Some(long), _) => long.replace(['-', '_'], "").to_ascii_lowercase(),
        (None, Some(short)) => short.to_string(),
        _ => return None,
    };
    FLAGS.iter().find(|(names, _)| names.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_to_be_written_instead_exists() {
        let command = crate::args::command();
        let copy = command.find_subcommand("copy").unwrap();
        let known = |flag: &str| {
            copy.get_arguments().any(|a| a.get_long() == Some(flag) || a.get_all_aliases().unwrap_or_default().contains(&flag))
        };
        for (names, instead) in FLAGS {
            for flag in instead.split_whitespace().filter_map(|w| w.strip_prefix("--")) {
                // Until splitting by a key has its settings.
                assert!(known(flag) || ["method", "split-key", "split-query"].contains(&flag), "--{flag}");
            }
            assert!(names.iter().all(|name| !known(name)), "{names:?} are flags already");
        }
    }
}
