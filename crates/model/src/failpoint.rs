//! Failpoints: named places before and after each durable step where a test can end the process, as kill -9 would.
//!
//! Always compiled, off unless armed (the command line does that for its tests); a place that is off costs one load. A place is
//! passed once per split or run at most, never per row.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

struct Armed {
    name: String,
    /// Passes still to be let through.
    left: AtomicU32,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Every place, in the order in which a tracked load into PostgreSQL, then a file, then a set of files pass them. Tests walk this list.
pub static NAMES: &[&str] = &[
    "state-before-save",
    "state-after-save",
    "staging-before-create",
    "staging-after-create",
    "split-before-note",
    "split-before-commit",
    "split-after-commit",
    "final-before-place",
    "final-before-commit",
    "final-after-commit",
    "state-before-end",
    "state-after-end",
    "note-after-forget",
    "state-before-remove",
    "state-after-remove",
    "file-before-sync",
    "file-after-sync",
    "file-before-rename",
    "file-after-rename",
    "set-before-commit",
    "set-before-manifest",
    "set-after-commit",
    "set-between-names",
    "set-before-last-manifest",
    "set-after-last-manifest",
];

/// Those of a stream of changes that is applied.
pub static STREAM: &[&str] = &[
    "cdc-before-slot",
    "cdc-after-slot",
    "apply-before-mark",
    "apply-before-commit",
    "apply-after-commit",
    "cdc-before-confirm",
    "cdc-after-confirm",
];

fn is_listed(name: &str) -> bool {
    NAMES.contains(&name) || STREAM.contains(&name)
}

/// Arms one place for the life of the process: `name`, or `name:3` for its third pass. Only the first call counts.
///
/// # Errors
/// A name that is not in [`NAMES`] or [`STREAM`], or a number that is none.
pub fn arm(spec: &str) -> crate::Result<()> {
    let (name, pass) = spec.split_once(':').unwrap_or((spec, "1"));
    let pass = pass.parse::<u32>().ok().filter(|n| *n > 0);
    let (true, Some(pass)) = (is_listed(name), pass) else {
        return Err(crate::Error::new(crate::ErrorKind::Config, format!("there is no failpoint {spec:?}")));
    };
    let _ = ARMED.set(Armed { name: name.to_string(), left: AtomicU32::new(pass - 1) });
    Ok(())
}

/// Passes a place: ends the process there if it is armed.
pub fn pass(name: &'static str) {
    debug_assert!(is_listed(name), "{name} is not listed");
    let Some(armed) = ARMED.get() else { return };
    if armed.name == name && armed.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_known_places_can_be_armed() {
        assert!(super::arm("nowhere").is_err());
        assert!(super::arm("state-before-save:0").is_err());
        assert!(super::arm("state-before-save:x").is_err());
        super::pass("state-before-save");
    }
}
