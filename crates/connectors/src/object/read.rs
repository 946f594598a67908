//! Objects as something to read: by ranges of one version, so that an object that is replaced meanwhile is noticed.

use super::store::{Object, Store, runtime};
use crate::file::{ByteStream, Stored};
use bytes::Bytes;
use futures_util::StreamExt;
use haul_formats::ReadAt;
use haul_model::{Error, ErrorKind, Result};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Bytes of the first request: as much as is looked at to know the columns.
const FIRST: u64 = 1 << 20;
/// Bytes of a later request for a stream: large enough that its latency does not count, small enough to have some in memory.
const RANGE: u64 = 4 << 20;
/// Requests of a stream that are under way at the same time.
const AHEAD: usize = 2;
/// The end of a container is fetched with its first request: mostly the whole footer.
const TAIL: u64 = 64 << 10;
/// Requests for ranges that lie this near to each other are one.
const GAP: u64 = 64 << 10;

/// One object that can be read.
pub struct StoredObject {
    store: Store,
    object: Object,
    label: String,
}

impl StoredObject {
    /// `object` in `store`.
    pub fn new(store: Store, object: Object) -> Self {
        let label = store.address.uri(&object.key);
        Self { store, object, label }
    }
}

impl Stored for StoredObject {
    fn label(&self) -> &str {
        &self.label
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.object.bytes)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn stream(&self) -> Result<ByteStream> {
        let reader = Ranges { store: self.store.clone(), object: self.object.clone(), begun: false, rest: None, ready: Bytes::new() };
        Ok(ByteStream::far(Box::new(reader)))
    }

    fn at(&self) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(ObjectAt { store: self.store.clone(), object: self.object.clone(), tail: Mutex::default() }))
    }
}

/// The ranges of an object, one after another. What is behind the first is asked for when that is used up.
struct Ranges {
    store: Store,
    object: Object,
    begun: bool,
    rest: Option<mpsc::Receiver<object_store::Result<Bytes>>>,
    ready: Bytes,
}

impl Ranges {
    /// The next bytes; `None` at the end.
    fn more(&mut self) -> Result<Option<Bytes>> {
        let (store, object) = (&self.store, &self.object);
        if !self.begun {
            self.begun = true;
            return match object.bytes.min(FIRST) {
                0 => Ok(None),
                first => store.wait(&object.key, "cannot read", store.range(object, 0..first)?).map(Some),
            };
        }
        let rest = match &mut self.rest {
            Some(rest) => rest,
            None => {
                let rest = ahead(store, object)?;
                self.rest.insert(rest)
            }
        };
        store.wait(&object.key, "cannot read", async { rest.recv().await.transpose() })
    }
}

/// Reads on in the background. Ends when the receiver is dropped, at the latest with the next range.
fn ahead(store: &Store, object: &Object) -> Result<mpsc::Receiver<object_store::Result<Bytes>>> {
    let (send, receive) = mpsc::channel(1);
    let starts = (FIRST..object.bytes).step_by(RANGE as usize);
    let requests = starts.map(|from| store.range(object, from..(from + RANGE).min(object.bytes))).collect::<Result<Vec<_>>>()?;
    runtime()?.spawn(async move {
        let mut all = futures_util::stream::iter(requests).buffered(AHEAD);
        while let Some(got) = all.next().await {
            let failed = got.is_err();
            if send.send(got).await.is_err() || failed {
                break;
            }
        }
    });
    Ok(receive)
}

impl Read for Ranges {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.ready.is_empty() {
            match self.more().map_err(std::io::Error::other)? {
                Some(bytes) => self.ready = bytes,
                None => return Ok(0),
            }
        }
        let length = out.len().min(self.ready.len());
        out[..length].copy_from_slice(&self.ready.split_to(length));
        Ok(length)
    }
}

/// An object for random access.
struct ObjectAt {
    store: Store,
    object: Object,
    /// Its end, once it was asked for.
    tail: Mutex<Option<(u64, Bytes)>>,
}

impl ObjectAt {
    fn fetch(&self, from: u64, to: u64) -> Result<Bytes> {
        let bytes = self.store.wait(&self.object.key, "cannot read", self.store.range(&self.object, from..to)?)?;
        match bytes.len() as u64 == to - from {
            true => Ok(bytes),
            false => Err(Error::new(ErrorKind::Data, "the object ends early").object(self.store.address.uri(&self.object.key)).byte(from)),
        }
    }
}

impl ReadAt for ObjectAt {
    fn len(&self) -> u64 {
        self.object.bytes
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let end = offset.saturating_add(length as u64);
        if end > self.object.bytes {
            return Err(Error::new(ErrorKind::Data, "the object ends early").object(self.store.address.uri(&self.object.key)).byte(offset));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let from = self.object.bytes.saturating_sub(TAIL);
        if offset < from {
            return self.fetch(offset, end);
        }
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.is_none() {
            *tail = Some((from, self.fetch(from, self.object.bytes)?));
        }
        match tail.as_ref() {
            Some((from, bytes)) => Ok(bytes.slice((offset - from) as usize..(end - from) as usize)),
            None => Err(Error::internal("an end that was just fetched")),
        }
    }

    fn read_ranges(&self, ranges: &[std::ops::Range<u64>]) -> Result<Option<Vec<Bytes>>> {
        // Neighbours are fetched together, all of them at the same time.
        let mut joined: Vec<std::ops::Range<u64>> = Vec::new();
        let mut sorted: Vec<&std::ops::Range<u64>> = ranges.iter().collect();
        sorted.sort_by_key(|range| range.start);
        for range in sorted {
            match joined.last_mut() {
                Some(last) if range.start <= last.end + GAP && range.end.max(last.end) - last.start <= RANGE => {
                    last.end = last.end.max(range.end)
                }
                _ => joined.push(range.clone()),
            }
        }
        let requests = joined.iter().map(|range| self.store.range(&self.object, range.clone())).collect::<Result<Vec<_>>>()?;
        let all = self.store.wait(&self.object.key, "cannot read", futures_util::future::try_join_all(requests))?;
        let part = |range: &std::ops::Range<u64>| {
            let at = joined.partition_point(|j| j.start <= range.start).checked_sub(1)?;
            let (from, bytes) = (joined[at].start, &all[at]);
            let (start, end) = ((range.start - from) as usize, (range.end - from) as usize);
            (end <= bytes.len()).then(|| bytes.slice(start..end))
        };
        let early = || Error::new(ErrorKind::Data, "the object ends early").object(self.store.address.uri(&self.object.key));
        ranges.iter().map(|range| part(range).ok_or_else(early)).collect::<Result<Vec<_>>>().map(Some)
    }
}
