//! Splits, positions, spans and checkpoints: how progress is named.

use std::collections::BTreeMap;

/// One ordered lane of a source that can be read alone: a ctid range, a key range, a file, a topic
/// partition. Plain data, so that it can be stored and read again by a later run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Dense number inside the job, from 0. Spans refer to it.
    pub id: u32,
    /// What the source needs to open it again (its own format), for example `ctid:0-127`.
    pub what: String,
    /// Rows expected, where the source can tell.
    pub rows: Option<u64>,
    /// Bytes expected, where the source can tell.
    pub bytes: Option<u64>,
}

/// An opaque, ordered place inside a split. Bytes compare as the order does (big-endian numbers).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub Vec<u8>);

impl Position {
    /// The place before the first record.
    pub fn start() -> Self {
        Self(Vec::new())
    }
    /// A numeric position (record number, byte offset, LSN).
    pub fn number(n: u64) -> Self {
        Self(n.to_be_bytes().to_vec())
    }
    /// The number of a numeric position; 0 at the start.
    pub fn as_number(&self) -> Option<u64> {
        match self.0.len() {
            0 => Some(0),
            8 => self.0.as_slice().try_into().ok().map(u64::from_be_bytes),
            _ => None,
        }
    }
}

/// The records of one split in `(from, to]`. Spans of a split chain: the next one's `from` is this one's
/// `to`. An overlap or a gap is an error, never assumed away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The split.
    pub split: u32,
    /// Exclusive lower end.
    pub from: Position,
    /// Inclusive upper end.
    pub to: Position,
}

/// Up to where a split is durable, by a name that means the same in a later run: what sinks store beside the rows of an endless job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// [`Split::what`].
    pub split: String,
    /// Everything up to here is durable.
    pub position: Position,
}

/// For each split, the position up to which everything is durable in the sink.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint(pub BTreeMap<u32, Position>);
