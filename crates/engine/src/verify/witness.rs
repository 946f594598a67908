//! The source's side of a proof: what a worker sends is added up while it is warm in the cache, in the same pass and snapshot as the read.
//!
//! Sums are kept by split. Those of splits that are not durable yet are apart: a lane that fails leaves them away, and they come again when
//! it sends those splits again.

use super::arrays::ArrayHasher;
use super::canon::Canon;
use haul_model::Encoding;
use haul_model::{Digester, Error, Hashes, Raw, Result, Rows, Source, Sums};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What all workers add up.
#[derive(Debug)]
pub(crate) struct Proof {
    /// Columns that are sent, and as what they are compared.
    pub columns: Vec<(usize, Canon)>,
    /// Bytes are compared as they pass through.
    pub exact: Option<Encoding>,
    sums: Mutex<BTreeMap<u32, Sums>>,
}

impl Proof {
    pub fn new(columns: Vec<(usize, Canon)>, exact: Option<Encoding>) -> Self {
        Self { columns, exact, sums: Mutex::default() }
    }

    /// What was sent, by split.
    pub fn sums(&self) -> BTreeMap<u32, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One worker's eyes.
pub(crate) struct Witness<'a> {
    proof: &'a Proof,
    hasher: ArrayHasher,
    digester: Option<Box<dyn Digester>>,
    hashes: Hashes,
    /// By split, since the last durable one.
    since: BTreeMap<u32, Sums>,
    /// Of a try that failed, whose last commit may have been done.
    in_doubt: BTreeMap<u32, Sums>,
}

impl<'a> Witness<'a> {
    pub fn new(proof: &'a Proof, source: &dyn Source) -> Result<Self> {
        let digester = match &proof.exact {
            None => None,
            Some(encoding) => Some(source.digester(encoding).ok_or_else(|| Error::internal("pass-through bytes that nobody sums up"))?),
        };
        let hasher = ArrayHasher::new(proof.columns.clone(), false);
        Ok(Self { proof, hasher, digester, hashes: Hashes::default(), since: BTreeMap::new(), in_doubt: BTreeMap::new() })
    }

    /// Rows as the sink was sent them.
    pub fn rows(&mut self, split: u32, rows: &Rows) -> Result<()> {
        self.hasher.hash(&rows.batch, &mut self.hashes)?;
        self.since.entry(split).or_default().add(&mut self.hashes);
        Ok(())
    }

    /// A row that was refused in the end.
    pub fn without(&mut self, split: u32, rows: &Rows, row: usize) -> Result<()> {
        self.hasher.hash(&rows.batch.slice(row, 1), &mut self.hashes)?;
        let mut less = Sums::default();
        less.add(&mut self.hashes);
        self.since.entry(split).or_default().take(&less);
        Ok(())
    }

    /// Bytes that pass through.
    pub fn raw(&mut self, split: u32, raw: &Raw) -> Result<()> {
        let digester = self.digester.as_mut().ok_or_else(|| Error::internal("pass-through bytes that nobody sums up"))?;
        digester.digest(raw, &mut self.hashes)?;
        self.since.entry(split).or_default().add(&mut self.hashes);
        Ok(())
    }

    /// Everything so far is durable.
    pub fn settle(&mut self) {
        let mut sums = self.proof.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for (split, more) in std::mem::take(&mut self.since) {
            sums.entry(split).or_default().merge(&more);
        }
    }

    /// What is not durable will come again.
    pub fn take_back(&mut self) {
        self.in_doubt = std::mem::take(&mut self.since);
    }

    /// A split turned out to be durable, by a commit whose answer was lost.
    pub fn found(&mut self, split: u32) {
        if let Some(more) = self.in_doubt.remove(&split) {
            self.proof.sums.lock().unwrap_or_else(PoisonError::into_inner).entry(split).or_default().merge(&more);
        }
    }
}
