//! The end of a set: sealed files get their names, old ones go, and the manifest says so.
//!
//! The commit point is the first manifest, which says `replacing` and names everything that is left to do. Whoever reads by the
//! manifest sees the old set before it and the new one after it; a crash behind it is finished by the next one to come along.

use super::manifest::{Manifest, Member};
use super::place::Place;
use haul_model::{Result, failpoint};
use std::collections::BTreeSet;

/// Files that a new set takes the place of.
///
/// # Errors
/// IO.
pub fn old_files(place: &dyn Place, before: Option<&Manifest>, is_one: &dyn Fn(&str) -> bool) -> Result<BTreeSet<String>> {
    let mut old: BTreeSet<String> = place.list()?.into_iter().filter(|path| is_one(path)).collect();
    if let Some(before) = before {
        old.extend(before.files.iter().map(|m| m.path.clone()));
        old.extend(before.remove.iter().cloned());
    }
    Ok(old)
}

/// Makes `files` the set.
///
/// # Errors
/// IO. Before the commit point nothing has changed; after it, whatever is left to do stands in the manifest.
pub fn commit(place: &dyn Place, new: Manifest, old: &BTreeSet<String>, before: Option<&Manifest>) -> Result<()> {
    let names: BTreeSet<&String> = new.files.iter().map(|m| &m.path).collect();
    let remove = old.iter().filter(|path| !names.contains(path)).cloned().collect();
    let replacing = Manifest { replacing: true, remove, ..new };
    failpoint::pass("set-before-commit");
    place.put_manifest(&replacing)?;
    failpoint::pass("set-after-commit");
    // What an interrupted run before had not published yet, it need not any more.
    for Member { path, pending, .. } in before.iter().filter(|m| m.replacing).flat_map(|m| &m.files) {
        if let Some(pending) = pending {
            place.discard(path, pending)?;
        }
    }
    finish(place, replacing)
}

/// Does what a manifest says is left to do.
///
/// # Errors
/// IO.
pub fn finish(place: &dyn Place, mut replacing: Manifest) -> Result<()> {
    for member in &mut replacing.files {
        if let Some(pending) = member.pending.take() {
            member.version = place.publish(&member.path, &pending)?;
        }
        failpoint::pass("set-between-names");
    }
    for path in &replacing.remove {
        place.remove(path)?;
    }
    place.settle()?;
    failpoint::pass("set-before-last-manifest");
    place.put_manifest(&Manifest { replacing: false, remove: Vec::new(), ..replacing })?;
    failpoint::pass("set-after-last-manifest");
    Ok(())
}
