//! The command line as a user meets it: exit code, standard output and standard error, whole.
#![allow(clippy::unwrap_used)]

mod commands;
mod compressed;
mod csv_cases;
mod csv_sets;
mod diff;
mod docs;
mod durable;
mod jobs;
mod memory;
mod objects;
mod objects_broken;
mod pipes;
mod postgres;
mod postgres_18;
mod postgres_crash;
mod postgres_exact;
mod postgres_failures;
mod postgres_faults;
mod postgres_files;
mod postgres_incremental;
mod postgres_keyed;
mod postgres_loading;
mod postgres_pushdown;
mod postgres_resume;
mod postgres_snapshots;
mod postgres_splits;
mod postgres_tables;
mod postgres_values;
mod runner;
mod sets_hive;
mod sets_read;
mod sets_write;
mod snapshots;
mod values;
mod verify;
