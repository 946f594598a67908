//! One lane's files.

use super::encoder::{SetBlock, SetPiece};
use super::manifest::Member;
use super::place::Place;
use super::template::Names;
use crate::file::writing::{Dress, Writing};
use haul_formats::Output;
use haul_model::{Block, BlockBody, Error, Result, Slot, Writer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What all lanes of a set share.
pub struct Shared {
    /// Where it is written.
    pub place: Arc<dyn Place>,
    /// What its files are called.
    pub names: Names,
    /// What they are written as.
    pub dress: Dress,
    /// The format, configured.
    pub output: Arc<dyn Output>,
    /// Files that are sealed.
    pub sealed: Mutex<Vec<Member>>,
    /// The next part by folder, where the names do not tell lanes apart.
    pub parts: Mutex<HashMap<Arc<str>, u32>>,
}

impl Shared {
    /// Begins the next file in a folder.
    fn begin(&self, folder: &Arc<str>, lane: u32, parts: &mut HashMap<Arc<str>, u32>) -> Result<(String, Writing)> {
        let next = |parts: &mut HashMap<Arc<str>, u32>| {
            let part = parts.entry(folder.clone()).or_default();
            *part += 1;
            *part - 1
        };
        let part = match self.names.by_lane() {
            true => next(parts),
            false => next(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        if part > 0 && !self.names.by_part() {
            return Err(Error::internal("a second file of the same name"));
        }
        let path = self.names.path(folder, lane, part);
        let writing = Writing::begin(self.place.create(&path)?, &self.dress, self.output.clone())?;
        Ok((path, writing))
    }

    /// Completes a file and makes it durable.
    fn seal(&self, path: String, writing: &Writing) -> Result<()> {
        let rows = writing.complete()?;
        let (pending, bytes) = self.place.seal(&writing.target)?;
        let member = Member { path, pending: Some(pending), rows, bytes, version: None };
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner).push(member);
        Ok(())
    }

    /// A set without rows has one file: it holds the columns.
    ///
    /// # Errors
    /// IO.
    pub fn seal_an_empty_one(&self) -> Result<()> {
        let (path, writing) = self.begin(&Arc::from(""), 0, &mut HashMap::new())?;
        self.seal(path, &writing)
    }
}

/// A lane's writer.
pub struct SetWriter {
    shared: Arc<Shared>,
    lane: u32,
    open: HashMap<Arc<str>, (String, Writing)>,
    parts: HashMap<Arc<str>, u32>,
}

impl SetWriter {
    /// For lane `lane`.
    pub fn new(shared: Arc<Shared>, lane: u32) -> Self {
        Self { shared, lane, open: HashMap::new(), parts: HashMap::new() }
    }

    fn piece(&mut self, piece: SetPiece) -> Result<()> {
        if let Some(mut block) = piece.block {
            if !self.open.contains_key(&piece.folder) {
                let begun = self.shared.begin(&piece.folder, self.lane, &mut self.parts)?;
                self.open.insert(piece.folder.clone(), begun);
            }
            let (_, writing) = self.open.get(&piece.folder).ok_or_else(|| Error::internal("a piece without a file"))?;
            let slot = writing.reserve(&mut block.body)?;
            writing.write(slot, &block)?;
        }
        if piece.ends
            && let Some((path, writing)) = self.open.remove(&piece.folder)
        {
            self.shared.seal(path, &writing)?;
        }
        Ok(())
    }
}

impl Writer for SetWriter {
    fn reserve(&mut self, _block: &mut Block) -> Result<Slot> {
        Ok(Slot::default())
    }

    fn write(&mut self, _slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        let BlockBody::Opaque(body) = std::mem::replace(&mut block.body, BlockBody::Bytes(Vec::new())) else {
            return Err(Error::internal("a set got a block of another sink"));
        };
        let pieces = body.downcast::<SetBlock>().map_err(|_| Error::internal("a set got a piece of another format"))?;
        for piece in pieces.0 {
            self.piece(piece)?;
        }
        Ok(Vec::new())
    }

    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        for (path, writing) in std::mem::take(&mut self.open).into_values() {
            self.shared.seal(path, &writing)?;
        }
        Ok(Vec::new())
    }
}
