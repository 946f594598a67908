//! Damaged files: the libraries check most of what they read and panic at the rest.

use arrow_ipc::RecordBatch;
use haul_model::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a library call on bytes that may be damaged; a panic in it becomes an error of kind `Data`.
///
/// What the call was working on must be thrown away after an error: it may be half changed.
pub(crate) fn guarded<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Data, format!("{what}: the file is damaged"));
        Err(error.hint("it may have been changed on its way; copy it again"))
    })
}

/// What the best of the codecs can make of a byte: zstd fills 128 KiB from a block of 4 bytes.
const LARGEST_RATIO: u64 = 1 << 15;

/// Whether the buffers that a batch's header names lie inside its body, and unpack to sizes that can be true: the library
/// would panic at the first and ask for any amount of memory at the second.
pub(super) fn buffers_are_sound(batch: &RecordBatch<'_>, body: &[u8]) -> bool {
    let compressed = batch.compression().is_some();
    batch.buffers().iter().flatten().all(|buffer| {
        let (Ok(offset), Ok(length)) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length())) else { return false };
        let Some(bytes) = offset.checked_add(length).and_then(|end| body.get(offset..end)) else { return false };
        match bytes.first_chunk::<8>().map(|prefix| i64::from_le_bytes(*prefix)) {
            // Not compressed after all.
            Some(-1) => true,
            Some(unpacked) if compressed => u64::try_from(unpacked).is_ok_and(|size| size / LARGEST_RATIO <= length as u64),
            None if compressed => length == 0,
            _ => true,
        }
    })
}
