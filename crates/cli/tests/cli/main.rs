//! The command line as a user meets it: exit code, standard output and standard error, whole.

mod docs;
mod runner;
mod snapshots;
