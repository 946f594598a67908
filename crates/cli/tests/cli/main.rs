//! The command line as a user meets it: exit code, standard output and standard error, whole.

mod commands;
mod compressed;
mod csv_cases;
mod csv_sets;
mod durable;
mod memory;
mod pipes;
mod runner;
mod snapshots;
mod values;
