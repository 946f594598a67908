//! The column chunks of one row group as the Parquet library reads them, over [`ReadAt`].
//!
//! The library asks for a page's header, then for its bytes, page after page in each column. Each column chunk keeps one
//! window of the file, so that a page header does not cost a read of its own and memory stays bounded.

use crate::ReadAt;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that the windows of one row group may take together.
const ALL_WINDOWS: usize = 16 << 20;
const LARGEST_WINDOW: usize = 1 << 20;
const SMALLEST_WINDOW: usize = 64 << 10;

/// The parts of a file that belong to one row group.
#[derive(Clone)]
pub(super) struct Windows(Arc<Inner>);

struct Inner {
    file: Arc<dyn ReadAt>,
    chunks: Vec<Chunk>,
    window: usize,
}

/// One column chunk: where it is in the file and what of it is in memory.
struct Chunk {
    range: Range<u64>,
    loaded: Mutex<Loaded>,
}

#[derive(Default, Clone)]
struct Loaded {
    start: u64,
    bytes: Bytes,
}

impl Windows {
    /// Windows over these byte ranges of the file.
    pub(super) fn new(file: Arc<dyn ReadAt>, ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut chunks: Vec<Chunk> = ranges.into_iter().map(|range| Chunk { range, loaded: Mutex::default() }).collect();
        chunks.sort_by_key(|chunk| chunk.range.start);
        let window = (ALL_WINDOWS / chunks.len().max(1)).clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        Self(Arc::new(Inner { file, chunks, window }))
    }

    /// Fetches all column chunks together (of large ones their beginnings), where the file is far away.
    pub(super) fn fetch(&self) -> Result<()> {
        let inner = &self.0;
        let all: u64 = inner.chunks.iter().map(|chunk| chunk.range.end - chunk.range.start).sum();
        let most = if all <= ALL_WINDOWS as u64 { u64::MAX } else { inner.window as u64 };
        let ranges: Vec<Range<u64>> =
            inner.chunks.iter().map(|Chunk { range, .. }| range.start..range.end.min(range.start.saturating_add(most))).collect();
        let fetched = inner.file.read_ranges(&ranges).map_err(|error| ParquetError::External(Box::new(error)))?;
        for (chunk, bytes) in inner.chunks.iter().zip(fetched.into_iter().flatten()) {
            *chunk.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Loaded { start: chunk.range.start, bytes };
        }
        Ok(())
    }

    /// Bytes from `start` on: at least `least`, and more where the window holds them.
    fn load(&self, start: u64, least: usize) -> Result<Bytes> {
        let inner = &self.0;
        let end = start.checked_add(least as u64).ok_or_else(|| ParquetError::EOF(format!("byte {start} + {least}")))?;
        let after = inner.chunks.partition_point(|chunk| chunk.range.start <= start);
        let chunk = after.checked_sub(1).map(|index| &inner.chunks[index]).filter(|chunk| start < chunk.range.end);
        let Some(chunk) = chunk else { return read(inner.file.as_ref(), start, least) };
        let mut loaded = chunk.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.start > start || loaded.start + (loaded.bytes.len() as u64) < end.max(start + 1) {
            let length = least.max(inner.window.min((chunk.range.end - start) as usize));
            *loaded = Loaded { start, bytes: read(inner.file.as_ref(), start, length)? };
        }
        Ok(loaded.bytes.slice((start - loaded.start) as usize..))
    }
}

fn read(file: &dyn ReadAt, start: u64, length: usize) -> Result<Bytes> {
    file.read_at(start, length).map_err(|error| ParquetError::External(Box::new(error)))
}

impl Length for Windows {
    fn len(&self) -> u64 {
        self.0.file.len()
    }
}

impl ChunkReader for Windows {
    type T = WindowReader;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(WindowReader { windows: self.clone(), at: start, ready: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(self.load(start, length)?.slice(..length))
    }
}

/// Reads on from an offset.
pub(super) struct WindowReader {
    windows: Windows,
    at: u64,
    ready: Bytes,
}

impl Read for WindowReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ready.is_empty() {
            let left = self.windows.len().saturating_sub(self.at);
            if left == 0 || buffer.is_empty() {
                return Ok(0);
            }
            self.ready = self.windows.load(self.at, 1).map_err(std::io::Error::other)?;
        }
        let length = buffer.len().min(self.ready.len());
        buffer[..length].copy_from_slice(&self.ready.split_to(length));
        self.at += length as u64;
        Ok(length)
    }
}
