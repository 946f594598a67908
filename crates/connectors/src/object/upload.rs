//! One object while it is written: a multipart upload with parts of one size, a few of them under way at the same time.
//!
//! The upload is begun with its first part, so that a small file costs no more requests than it must. Until it is completed nobody sees
//! anything of it; its id is noted beside the target first, so that an upload that nobody completes can be found and aborted.

use super::store::{Store, runtime};
use crate::file::Upload;
use bytes::Bytes;
use haul_model::{Error, ErrorKind, Result};
use object_store::PutPayload;
use object_store::multipart::PartId;
use object_store::path::Path;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::task::JoinHandle;

/// Parts under way at the same time.
const FLYING: usize = 2;
/// No store takes more.
const MOST_PARTS: usize = 10_000;

/// An object that is being written.
pub struct ObjectUpload {
    store: Store,
    key: String,
    path: Path,
    /// Where the upload's id is noted.
    note: String,
    part_size: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    id: Option<String>,
    buffer: Vec<u8>,
    bytes: u64,
    parts: Vec<String>,
    flying: VecDeque<JoinHandle<object_store::Result<PartId>>>,
    /// Handed over: dropping it takes nothing back.
    sealed: bool,
}

/// What stands for a complete upload that is not published yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Pending {
    /// `None`: an object without a byte, which is no upload at all.
    pub id: Option<String>,
    /// What the store called each part.
    pub parts: Vec<String>,
    /// Where the upload is noted.
    pub note: String,
    /// Its length.
    pub bytes: u64,
}

impl Pending {
    /// Whether an object is what became of it: stores tag what was uploaded in parts with their number.
    pub fn is(&self, object: &super::store::Object) -> bool {
        let tag = object.version.as_deref().unwrap_or_default().trim_matches('"');
        object.bytes == self.bytes && tag.ends_with(&format!("-{}", self.parts.len()))
    }

    /// As text.
    pub fn to_text(&self) -> String {
        serde_json::json!({"upload": self.id, "parts": self.parts, "note": self.note, "bytes": self.bytes}).to_string()
    }

    /// From text.
    ///
    /// # Errors
    /// `Data`.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || Error::new(ErrorKind::Data, "a manifest names an upload that cannot be read");
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_| bad())?;
        let parts = value["parts"].as_array().ok_or_else(bad)?.iter().filter_map(|p| p.as_str().map(str::to_string)).collect();
        let note = value["note"].as_str().ok_or_else(bad)?.to_string();
        let bytes = value["bytes"].as_u64().ok_or_else(bad)?;
        Ok(Self { id: value["upload"].as_str().map(str::to_string), parts, note, bytes })
    }
}

impl ObjectUpload {
    /// An upload to `key`, noted at `note`.
    ///
    /// # Errors
    /// `Config`: an impossible key.
    pub fn new(store: Store, key: &str, note: String, part_size: usize) -> Result<Self> {
        let path = store.key_path(key)?;
        Ok(Self { store, key: key.to_string(), path, note, part_size, state: Mutex::default() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, state: &mut State) -> Result<String> {
        if let Some(id) = &state.id {
            return Ok(id.clone());
        }
        let parts = self.store.parts()?;
        let id = self.store.wait(&self.key, "cannot begin the upload", parts.create_multipart(&self.path))?;
        state.id = Some(id.clone());
        let note = serde_json::json!({"key": self.key, "upload": id}).to_string();
        self.store.put(&self.note, note.into_bytes())?;
        Ok(id)
    }

    /// Sends what the buffer holds as the next part.
    fn send(&self, state: &mut State) -> Result<()> {
        let id = self.begin(state)?;
        let number = state.parts.len() + state.flying.len();
        if number >= MOST_PARTS {
            return Err(Error::new(ErrorKind::Limit, format!("the object has more than {MOST_PARTS} parts"))
                .object(self.name())
                .hint("raise --part-size, or cut the output with --file-bytes"));
        }
        let bytes = Bytes::from(std::mem::take(&mut state.buffer));
        let (parts, path) = (self.store.parts()?.clone(), self.path.clone());
        state.flying.push_back(runtime()?.spawn(async move { parts.put_part(&path, &id, number, PutPayload::from_bytes(bytes)).await }));
        while state.flying.len() > FLYING {
            self.land(state)?;
        }
        Ok(())
    }

    /// Waits for the oldest part that is under way.
    fn land(&self, state: &mut State) -> Result<()> {
        let Some(oldest) = state.flying.pop_front() else { return Ok(()) };
        let sent = async { oldest.await.map_err(object_store::Error::from)? };
        state.parts.push(self.store.wait(&self.key, "cannot upload", sent)?.content_id);
        Ok(())
    }
}

impl Upload for ObjectUpload {
    fn name(&self) -> String {
        self.store.address.uri(&self.key)
    }

    fn write(&self, mut bytes: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if state.buffer.capacity() == 0 {
                state.buffer.reserve_exact(self.part_size);
            }
            let room = self.part_size - state.buffer.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            state.buffer.extend_from_slice(now);
            bytes = rest;
            if state.buffer.len() >= self.part_size {
                self.send(&mut state)?;
            }
        }
        Ok(())
    }

    fn seal(&self) -> Result<(String, u64)> {
        let mut state = self.state();
        if !state.buffer.is_empty() {
            self.send(&mut state)?;
        }
        while !state.flying.is_empty() {
            self.land(&mut state)?;
        }
        state.sealed = true;
        let pending = Pending { id: state.id.clone(), parts: state.parts.clone(), note: self.note.clone(), bytes: state.bytes };
        Ok((pending.to_text(), state.bytes))
    }

    fn discard(&self) -> Vec<String> {
        let mut state = self.state();
        if std::mem::replace(&mut state.sealed, true) {
            return Vec::new();
        }
        for part in std::mem::take(&mut state.flying) {
            part.abort();
        }
        let Some(id) = state.id.take() else { return Vec::new() };
        match abort(&self.store, &self.key, &id, &self.note) {
            Ok(()) => Vec::new(),
            Err(_) => vec![format!("an unfinished upload of {}", self.name())],
        }
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        let _ = self.discard();
    }
}

/// Aborts an upload, and forgets it. One that is not there is no error.
///
/// # Errors
/// Connection, rights.
pub fn abort(store: &Store, key: &str, id: &str, note: &str) -> Result<()> {
    let (path, id) = (store.key_path(key)?, id.to_string());
    // Also for a job that is being stopped: this is what stopping takes.
    match store.unstoppable().wait(key, "cannot abort the upload", store.parts()?.abort_multipart(&path, &id)) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    store.unstoppable().remove(&[note.to_string()])
}
