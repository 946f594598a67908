//! The ledger: spans that were read, and up to where each split is durable.
//!
//! Spans of a split chain; a gap or an overlap is an error of the source and ends the job. The checkpoint of a
//! split is the end of its longest durable prefix, whatever order blocks became durable in.

use haul_model::{Checkpoint, Error, Position, Result, Span};
use std::collections::{BTreeMap, VecDeque};

/// Book-keeping for the spans of one job.
#[derive(Debug, Default)]
pub struct Ledger {
    splits: BTreeMap<u32, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    read_to: Position,
    durable_to: Position,
    /// Spans read and not yet part of the durable prefix: (end, durable).
    open: VecDeque<(Position, bool)>,
}

impl Ledger {
    /// Starts a split at `from`.
    pub fn open(&mut self, split: u32, from: Position) {
        self.splits.insert(split, Entry { read_to: from.clone(), durable_to: from, open: VecDeque::new() });
    }

    /// A span has been read.
    ///
    /// # Errors
    /// `Internal`, if it does not start where the last one ended, or ends before it starts.
    pub fn read(&mut self, span: &Span) -> Result<()> {
        let entry = self.splits.entry(span.split).or_default();
        if span.from != entry.read_to || span.to < span.from {
            return Err(Error::internal(format!(
                "the spans of split {} do not chain: {:?} follows {:?}; rows would be lost or doubled",
                span.split, span, entry.read_to
            )));
        }
        entry.read_to = span.to.clone();
        entry.open.push_back((span.to.clone(), false));
        Ok(())
    }

    /// A span is durable in the sink.
    ///
    /// # Errors
    /// `Internal`, if it was never read.
    pub fn durable(&mut self, span: &Span) -> Result<()> {
        let entry = self.splits.entry(span.split).or_default();
        let Some(slot) = entry.open.iter_mut().find(|(to, done)| !done && *to == span.to) else {
            return Err(Error::internal(format!("split {}: a span became durable that was never read: {span:?}", span.split)));
        };
        slot.1 = true;
        while let Some((to, true)) = entry.open.front() {
            entry.durable_to = to.clone();
            entry.open.pop_front();
        }
        Ok(())
    }

    /// Everything that was read of a split is durable: the sink has committed it.
    pub fn split_durable(&mut self, split: u32) {
        if let Some(entry) = self.splits.get_mut(&split) {
            entry.open.clear();
            entry.durable_to = entry.read_to.clone();
        }
    }

    /// Whether a split was opened.
    pub fn knows(&self, split: u32) -> bool {
        self.splits.contains_key(&split)
    }

    /// A split that will not be read any further under this number.
    pub fn close(&mut self, split: u32) {
        self.splits.remove(&split);
    }

    /// Up to where a split is durable.
    pub fn durable_to(&self, split: u32) -> Position {
        self.splits.get(&split).map(|entry| entry.durable_to.clone()).unwrap_or_default()
    }

    /// Up to where a split was read.
    pub fn read_to(&self, split: u32) -> Position {
        self.splits.get(&split).map(|entry| entry.read_to.clone()).unwrap_or_default()
    }

    /// Everything that was read is durable: the sink has finished.
    pub fn all_durable(&mut self) {
        for entry in self.splits.values_mut() {
            entry.open.clear();
            entry.durable_to = entry.read_to.clone();
        }
    }

    /// Forgets which spans are open in between: for sinks that become durable only as a whole, so that the ledger
    /// does not grow with the job.
    pub fn settle_at_finish(&mut self) {
        for entry in self.splits.values_mut() {
            entry.open.clear();
        }
    }

    /// Split -> position up to which everything is durable.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.splits.iter().map(|(id, e)| (*id, e.durable_to.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u64, to: u64) -> Span {
        let position = |n| if n == 0 { Position::start() } else { Position::number(n) };
        Span { split: 0, from: position(from), to: position(to) }
    }

    #[test]
    fn checkpoint_is_the_contiguous_durable_prefix() {
        let mut ledger = Ledger::default();
        for s in [span(0, 10), span(10, 20), span(20, 30)] {
            ledger.read(&s).unwrap();
        }
        ledger.durable(&span(20, 30)).unwrap();
        assert_eq!(ledger.checkpoint().0[&0], Position::start());
        ledger.durable(&span(0, 10)).unwrap();
        assert_eq!(ledger.checkpoint().0[&0], Position::number(10));
        ledger.durable(&span(10, 20)).unwrap();
        assert_eq!(ledger.checkpoint().0[&0], Position::number(30));
    }

    #[test]
    fn gaps_overlaps_and_strangers_are_errors() {
        let mut ledger = Ledger::default();
        ledger.read(&span(0, 10)).unwrap();
        assert!(ledger.read(&span(11, 20)).unwrap_err().to_string().contains("do not chain"));
        assert!(ledger.read(&span(9, 20)).is_err());
        assert!(ledger.durable(&span(10, 20)).unwrap_err().to_string().contains("never read"));
    }
}
