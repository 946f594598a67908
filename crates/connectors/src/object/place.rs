//! A prefix of a bucket as the place of a set: files are uploads that are completed at the end.

use super::store::Store;
use super::upload::{ObjectUpload, Pending, abort};
use crate::file::{Manifest, Place, Target, manifest};
use haul_model::{Error, ErrorKind, Result, failpoint};
use object_store::multipart::PartId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Folder of notes on uploads, below the root of a set. Hidden, as it starts with an underscore.
const NOTES: &str = "_haul";
/// How what a killed run may leave is told, in front of the root and its endpoint.
pub const LEFT: &str = "uploads below ";

/// The root of a set in a bucket.
pub struct Prefix {
    store: Store,
    /// Ends in `/`, or is empty.
    root: String,
    run: String,
    part_size: usize,
    next_note: AtomicU64,
}

impl Prefix {
    /// The prefix `root` for the run `run`.
    pub fn new(store: Store, root: &str, run: &str, part_size: usize) -> Self {
        Self { store, root: root.to_string(), run: run.replace('/', "-"), part_size, next_note: AtomicU64::new(0) }
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }

    fn notes(&self) -> String {
        self.key(&format!("{NOTES}/{}/", self.run))
    }

    /// Aborts what a killed run has left, as it noted it; how many uploads.
    ///
    /// # Errors
    /// Connection, rights; a note that cannot be read.
    pub fn abort_noted(&self) -> Result<usize> {
        let notes = self.store.list(&self.notes())?;
        for note in &notes {
            let Some(text) = self.store.get(&note.key)? else { continue };
            let value: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
            let text = |name: &str| value.as_ref().and_then(|v| v[name].as_str());
            let (Some(key), Some(id)) = (text("key"), text("upload")) else {
                return Err(
                    Error::new(ErrorKind::Data, "a note on an upload that cannot be read").object(self.store.address.uri(&note.key))
                );
            };
            if !key.starts_with(&self.root) {
                return Err(
                    Error::new(ErrorKind::Data, "a note on an upload that is not of this set").object(self.store.address.uri(&note.key))
                );
            }
            abort(&self.store, key, id, &note.key)?;
        }
        Ok(notes.len())
    }
}

impl Place for Prefix {
    fn name(&self) -> String {
        self.store.address.uri(&self.root)
    }

    fn label(&self, path: &str) -> String {
        self.store.address.uri(&self.key(path))
    }

    fn method(&self) -> String {
        format!("multipart upload in parts of {} MiB, completed at the end", self.part_size >> 20)
    }

    fn check(&self) -> Result<()> {
        self.store.parts()?;
        // Tells whether the bucket is there and the keys are known. Keys that only write are told of when they may not write.
        match self.store.get(&self.key(manifest::NAME)) {
            Err(e) if e.kind() != ErrorKind::Permission => Err(e),
            _ => Ok(()),
        }
    }

    fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.store.look(&self.key(path))?.is_some())
    }

    fn manifest(&self) -> Result<Option<Manifest>> {
        let key = self.key(manifest::NAME);
        match self.store.get(&key)? {
            Some(text) => Manifest::parse(&text, &self.store.address.uri(&key)),
            None => Ok(None),
        }
    }

    fn put_manifest(&self, new: &Manifest) -> Result<()> {
        failpoint::pass("set-before-manifest");
        self.store.put(&self.key(manifest::NAME), new.to_json()).map(|_| ())
    }

    fn list(&self) -> Result<Vec<String>> {
        let all = self.store.list(&self.root)?;
        let paths = all.iter().filter_map(|object| object.key.strip_prefix(&self.root));
        Ok(paths.filter(|path| is_data(path)).map(str::to_string).collect())
    }

    fn create(&self, path: &str) -> Result<Target> {
        let note = format!("{}{}", self.notes(), self.next_note.fetch_add(1, Relaxed));
        Ok(Target::Upload(Arc::new(ObjectUpload::new(self.store.clone(), &self.key(path), note, self.part_size)?)))
    }

    fn seal(&self, target: &Target) -> Result<(String, u64)> {
        target.seal(true)
    }

    fn publish(&self, path: &str, pending: &str) -> Result<Option<String>> {
        let (key, pending) = (self.key(path), Pending::parse(pending)?);
        let Some(id) = &pending.id else { return self.store.put(&key, Vec::new()) };
        let parts = pending.parts.iter().map(|part| PartId { content_id: part.clone() }).collect();
        let path = self.store.key_path(&key)?;
        let completed = self.store.wait(&key, "cannot complete the upload", self.store.parts()?.complete_multipart(&path, id, parts));
        let version = match completed {
            Ok(done) => done.e_tag,
            // Done before: the note goes last, so that it tells of uploads that are not.
            Err(e) if e.kind() == ErrorKind::NotFound && e.code_text() != Some(super::errors::NO_BUCKET) => match self.store.look(&key)? {
                Some(object) if pending.is(&object) => object.version,
                _ => return Err(e.hint("the upload was aborted by somebody else: run the job again")),
            },
            Err(e) => return Err(e),
        };
        self.store.remove(&[pending.note])?;
        Ok(version)
    }

    fn discard(&self, path: &str, pending: &str) -> Result<()> {
        let pending = Pending::parse(pending)?;
        match &pending.id {
            Some(id) => abort(&self.store, &self.key(path), id, &pending.note),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.store.remove(&[self.key(path)])
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn tidy(&self) {}

    fn leaves(&self) -> Vec<String> {
        // The endpoint may have come by a flag, which nobody repeats when it comes to cleaning.
        let at = self.store.endpoint.as_ref().map(|endpoint| format!(" at {endpoint}")).unwrap_or_default();
        vec![format!("{LEFT}{}{at}", self.name())]
    }
}

/// Whether no part of a path is hidden.
pub fn is_data(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/') && path.split('/').all(|part| !part.starts_with(['.', '_']))
}
