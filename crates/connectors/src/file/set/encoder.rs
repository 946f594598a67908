//! Rows to pieces of files. Which file a row goes to is decided here, with the rows still in columns; the writer only does what the
//! pieces say.

use super::partition::PartitionBy;
use crate::file::sink::BLOCK;
use crate::file::writing::Dress;
use haul_formats::Output;
use haul_formats::compression::Compression;
use haul_model::{Block, BlockBody, Encoder, Error, Rejects, Result, Rows};
use std::collections::HashMap;
use std::sync::Arc;

/// A container's piece ends at about this many bytes, whatever its rows.
const PIECE_BYTES: usize = 64 << 20;
/// All pieces that a lane has begun hold about this much at most; past that the largest of them ends.
const HELD: usize = 32 << 20;
/// Files that a lane has open at the same time; past that the one ends that has waited longest.
const OPEN_FILES: usize = 128;

/// A part of a file.
pub struct SetPiece {
    /// The partition folder, with its slash; empty without partitions.
    pub folder: Arc<str>,
    /// `None` where only the end is to be told.
    pub block: Option<Block>,
    /// The file ends with it.
    pub ends: bool,
}

/// What an encoder hands to its lane's writer.
pub struct SetBlock(pub Vec<SetPiece>);

/// Where files end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Rows of a file.
    pub rows: Option<u64>,
    /// Bytes of a file, about.
    pub bytes: Option<u64>,
}

/// An encoder for one lane of a set.
pub struct SetEncoder {
    dress: Dress,
    output: Arc<dyn Output>,
    limits: Limits,
    partition: Option<Arc<PartitionBy>>,
    folders: HashMap<Arc<str>, Part>,
    ready: Vec<SetPiece>,
    ready_bytes: usize,
    /// Rises with each batch, to know which file has waited longest.
    tick: u64,
}

/// The file that is being written in one folder.
struct Part {
    encoder: Box<dyn Encoder>,
    /// Rows and bytes of the file so far.
    rows: u64,
    bytes: u64,
    /// Rows of the piece that is being built.
    piece_rows: usize,
    /// Bytes of it.
    pending: usize,
    tick: u64,
}

impl SetEncoder {
    /// For files of `output`.
    pub fn new(dress: Dress, output: Arc<dyn Output>, limits: Limits, partition: Option<Arc<PartitionBy>>) -> Self {
        Self { dress, output, limits, partition, folders: HashMap::new(), ready: Vec::new(), ready_bytes: 0, tick: 0 }
    }

    fn push_to(&mut self, folder: &Arc<str>, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        if !self.folders.contains_key(folder) {
            self.make_room()?;
            let encoder = self.dress.encoder(self.output.as_ref())?;
            self.folders.insert(folder.clone(), Part { encoder, rows: 0, bytes: 0, piece_rows: 0, pending: 0, tick: 0 });
        }
        let most = self.output.piece_rows();
        let whole_piece = if most.is_some() { PIECE_BYTES } else { BLOCK };
        let (mut from, total) = (0, rows.batch.num_rows());
        while from < total {
            let part = self.folders.get_mut(folder).ok_or_else(|| Error::internal("a folder without a file"))?;
            part.tick = self.tick;
            let file_room = self.limits.rows.map_or(usize::MAX, |most| usize::try_from(most - part.rows).unwrap_or(usize::MAX));
            let piece_room = most.map_or(usize::MAX, |most| most - part.piece_rows);
            let length = (total - from).min(file_room).min(piece_room).max(1);
            let slice = if length == total { rows.clone() } else { rows.slice(from, length) };
            let mut counted = Counted { inner: rejects, rows: 0 };
            part.encoder.push(&slice, &mut counted)?;
            let taken = length.saturating_sub(counted.rows);
            part.rows += taken as u64;
            part.piece_rows += taken;
            part.pending = part.encoder.pending();
            // What compression will make of the piece is not known yet.
            let held = if self.dress.compression == Compression::None { part.pending } else { part.pending / 4 } as u64;
            let ends = self.limits.rows.is_some_and(|most| part.rows >= most)
                || part.rows > 0 && self.limits.bytes.is_some_and(|most| part.bytes + held >= most);
            if ends || most.is_some_and(|most| part.piece_rows >= most) || part.pending >= whole_piece {
                self.take_piece(folder, ends)?;
            }
            from += length;
        }
        Ok(())
    }

    /// Ends the piece that is being built in a folder, and perhaps the file.
    fn take_piece(&mut self, folder: &Arc<str>, ends: bool) -> Result<()> {
        let part = self.folders.get_mut(folder).ok_or_else(|| Error::internal("a folder without a file"))?;
        let block = part.encoder.take()?;
        let size = match block.as_ref().map(|block| &block.body) {
            Some(BlockBody::Bytes(bytes) | BlockBody::Compressed { bytes, .. }) => bytes.len(),
            Some(BlockBody::Shared(bytes)) => bytes.len(),
            Some(BlockBody::Opaque(_)) => part.pending,
            None => 0,
        };
        (part.piece_rows, part.pending) = (0, 0);
        part.bytes += size as u64;
        if ends {
            (part.rows, part.bytes) = (0, 0);
        }
        if block.is_some() || ends {
            self.ready.push(SetPiece { folder: folder.clone(), block, ends });
            self.ready_bytes += size.max(1);
        }
        Ok(())
    }

    /// Before one more file is begun: keeps the number of open ones and what they hold within bounds.
    fn make_room(&mut self) -> Result<()> {
        if self.folders.len() >= OPEN_FILES
            && let Some(folder) = self.folders.iter().min_by_key(|(_, part)| part.tick).map(|(folder, _)| folder.clone())
        {
            self.take_piece(&folder, true)?;
            self.folders.remove(&folder);
        }
        Ok(())
    }

    fn hold_less(&mut self) -> Result<()> {
        while self.folders.len() > 1 && self.folders.values().map(|part| part.pending).sum::<usize>() > HELD {
            let Some(folder) = self.folders.iter().max_by_key(|(_, part)| part.pending).map(|(folder, _)| folder.clone()) else { break };
            self.take_piece(&folder, false)?;
        }
        Ok(())
    }
}

impl Encoder for SetEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        self.tick += 1;
        match self.partition.clone() {
            None => self.push_to(&Arc::from(""), rows, rejects),
            Some(partition) => {
                for (folder, rows) in partition.split(rows)? {
                    self.push_to(&folder, &rows, rejects)?;
                }
                self.hold_less()
            }
        }
    }

    /// Only what is finished: the rest may go on growing over many chunks.
    fn pending(&self) -> usize {
        self.ready_bytes
    }

    fn take(&mut self) -> Result<Option<Block>> {
        if self.ready.is_empty() {
            let folders: Vec<Arc<str>> =
                self.folders.iter().filter(|(_, part)| part.piece_rows > 0).map(|(folder, _)| folder.clone()).collect();
            folders.iter().try_for_each(|folder| self.take_piece(folder, false))?;
        }
        let pieces = std::mem::take(&mut self.ready);
        self.ready_bytes = 0;
        if pieces.is_empty() {
            return Ok(None);
        }
        let rows = pieces.iter().filter_map(|piece| piece.block.as_ref()).map(|block| block.rows).sum();
        Ok(Some(Block { body: BlockBody::Opaque(Box::new(SetBlock(pieces))), rows }))
    }
}

/// Counts the rows that an encoder leaves out.
struct Counted<'a> {
    inner: &'a mut dyn Rejects,
    rows: usize,
}

impl Rejects for Counted<'_> {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.inner.row(rows, row, error)?;
        self.rows += 1;
        Ok(())
    }
    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.inner.record(record, error)
    }
    fn lossy(&mut self, column: &str, count: u64) {
        self.inner.lossy(column, count);
    }
}
