//! Which objects a URI names: one, those that match a pattern, or a folder's.

use super::place::is_data;
use super::read::StoredObject;
use super::store::{Object, Store};
use crate::file::{Manifest, Stored, manifest};
use haul_model::{Error, ErrorKind, Result, nearest};
use std::sync::Arc;
use std::time::Duration;

/// How often a set is looked at again that is being replaced, and how long in between.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// The objects that the store's key names, in the order in which they are read.
///
/// # Errors
/// `NotFound`; connection, rights; a set that does not come to rest.
pub fn find(store: &Store) -> Result<Vec<Arc<dyn Stored>>> {
    let key = store.address.key.clone();
    let stored = |objects: Vec<Object>| -> Vec<Arc<dyn Stored>> {
        objects.into_iter().map(|object| Arc::new(StoredObject::new(store.clone(), object)) as Arc<dyn Stored>).collect()
    };
    if key.contains(['*', '?', '[']) {
        // A key may have such characters in it itself.
        return match matching(store, &key) {
            Err(e) if e.kind() == ErrorKind::NotFound => match store.look(&key)? {
                Some(object) => Ok(stored(vec![object])),
                None => Err(e),
            },
            found => Ok(stored(found?)),
        };
    }
    if !key.is_empty() && !key.ends_with('/') {
        if let Some(object) = store.look(&key)? {
            return Ok(stored(vec![object]));
        }
        if store.address.scheme.starts_with("http") {
            return Err(Error::new(ErrorKind::NotFound, "not found").object(store.address.uri(&key)));
        }
    }
    let folder = if key.is_empty() || key.ends_with('/') { key } else { format!("{key}/") };
    if let Some(objects) = set(store, &folder)? {
        return Ok(stored(objects));
    }
    let objects: Vec<Object> = store.list(&folder)?.into_iter().filter(|o| o.key.strip_prefix(&folder).is_some_and(is_data)).collect();
    match objects.is_empty() {
        false => Ok(stored(objects)),
        true => Err(missing(store, &folder)),
    }
}

fn matching(store: &Store, key: &str) -> Result<Vec<Object>> {
    let uri = store.address.uri(key);
    let pattern =
        glob::Pattern::new(key).map_err(|e| Error::new(ErrorKind::Config, format!("the pattern cannot be read: {e}")).object(&uri))?;
    // What is sure to be in front of all matches need not be listed past.
    let fixed = &key[..key.find(['*', '?', '[']).unwrap_or(key.len())];
    let folder = fixed.rfind('/').map_or("", |slash| &fixed[..=slash]);
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
    let fits = |object: &Object| pattern.matches_with(&object.key, options) && object.key.strip_prefix(folder).is_some_and(is_data);
    let found: Vec<Object> = store.list(folder)?.into_iter().filter(fits).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::new(ErrorKind::NotFound, "the pattern matches no object").object(uri)),
    }
}

fn missing(store: &Store, folder: &str) -> Error {
    let key = store.address.key.trim_end_matches('/');
    let error =
        Error::new(ErrorKind::NotFound, "there is no such object, and nothing below it").object(store.address.uri(&store.address.key));
    let above = folder.trim_end_matches('/').rfind('/').map_or("", |slash| &folder[..=slash]);
    let Ok(around) = store.list(above) else { return error };
    match nearest(key, around.iter().map(|object| object.key.as_str())) {
        Some(near) => error.hint(format!("did you mean {near:?}?")),
        None => error,
    }
}

/// The objects of a set with a manifest; `None` where there is none.
fn set(store: &Store, folder: &str) -> Result<Option<Vec<Object>>> {
    let name = format!("{folder}{}", manifest::NAME);
    let mut last = None;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        let Some(text) = store.get(&name)? else { return Ok(None) };
        let Some(manifest) = Manifest::parse(&text, &store.address.uri(&name))? else { return Ok(None) };
        if manifest.replacing {
            last = Some(
                Error::new(ErrorKind::Conflict, "the set is being replaced")
                    .object(store.address.uri(folder))
                    .hint("if its writer is dead, haul state clean (where it ran) finishes the set, and so does writing it again"),
            );
            continue;
        }
        match members(store, folder, &manifest) {
            Ok(objects) => return Ok(Some(objects)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::internal("a set that was not looked at")))
}

/// What the manifest names, if it is there as it says.
fn members(store: &Store, folder: &str, manifest: &Manifest) -> Result<Vec<Object>> {
    let all = store.list(folder)?;
    let member = |member: &crate::file::Member| {
        let key = format!("{folder}{}", member.path);
        let differs = |what: &str| {
            Err(Error::new(ErrorKind::Data, format!("{what} than the manifest of its set says"))
                .object(store.address.uri(&key))
                .hint("write the set again, or name its files with a pattern"))
        };
        match all.binary_search_by(|object| object.key.as_str().cmp(&key)).map(|at| &all[at]) {
            Err(_) => differs("is missing, other"),
            Ok(object) if object.bytes != member.bytes => differs("has another length"),
            Ok(object) if member.version.is_some() && object.version != member.version => differs("has another content"),
            Ok(object) => Ok(object.clone()),
        }
    };
    manifest.files.iter().map(member).collect()
}
