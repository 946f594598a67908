//! Arrow IPC files.

use crate::FormatSpec;

/// The reference of this format.
pub static SPEC: FormatSpec = FormatSpec {
    name: "arrow",
    aliases: &["ipc", "feather"],
    extensions: &["arrow", "feather", "ipc"],
    title: "Arrow IPC file (Feather v2)",
    read: &[],
    write: &[],
    container: true,
};
