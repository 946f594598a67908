//! Pools of threads before and behind the workers, for endpoints that are slow to answer.
//!
//! A worker reads, works and writes in turn, which is quickest where both ends keep up. Where an end lets its caller wait, threads of their
//! own can do the waiting: *extractors* read splits ahead, *loaders* write finished blocks, each through a bounded queue to or from the
//! workers, the *transformers*. What lies in the queues comes out of the budget. None of it is there unless it is asked for.

mod ahead;
mod loading;

pub(crate) use ahead::Ahead;
pub(crate) use loading::Loading;

use crate::plan::Options;
use haul_model::{Note, ReadPlan, WritePlan};

/// What was asked for. `None`: no such pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools {
    /// Threads that read, each a split of its own.
    pub extractors: Option<usize>,
    /// Chunks that may lie ready for each split; 8 if nothing is said.
    pub extractor_queue: Option<usize>,
    /// Threads that decode, transform and encode.
    pub transformers: Option<usize>,
    /// Threads that write, each with its own way into the target.
    pub loaders: Option<usize>,
    /// Blocks that may wait for the loaders, for each of them; 2 if nothing is said.
    pub loader_queue: Option<usize>,
}

/// What there will be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Planned {
    /// Extractors and the chunks of each one's queue.
    pub extractors: Option<(usize, usize)>,
    /// Loaders and the blocks of their queue, together.
    pub loaders: Option<(usize, usize)>,
}

/// A chunk as readers fill it, about.
const CHUNK: u64 = 256 << 10;

impl Planned {
    /// Sizes the pools: at most half of the budget lies in queues, and a target that needs its rows sorted into writers has no loaders.
    pub fn of(options: &Options, read: &ReadPlan, write: &WritePlan, notes: &mut Vec<Note>) -> Self {
        let asked = &options.pools;
        let kept_back = if options.limit.is_some() {
            Some("a limited number of rows is written by one worker")
        } else if options.on_error != crate::OnError::Stop {
            Some("rows that the target refuses are handed back to the worker that sent them")
        } else if write.whole_splits {
            Some("the rows of a split go to one writer in their order")
        } else {
            None
        };
        let loaders = asked.loaders.filter(|_| match kept_back {
            Some(why) => {
                notes.push(Note::new(format!("loaders: none, each worker writes for itself: {why}")));
                false
            }
            None => true,
        });
        let room = write.max_writers.unwrap_or(usize::MAX).max(1);
        if let Some(loaders) = loaders.filter(|loaders| *loaders > room) {
            notes.push(Note::new(format!("{loaders} loaders were asked for: the target has room for {room}")));
        }
        let loaders = loaders.map(|loaders| loaders.min(room));
        let quarter = options.budget / 4;
        let mut fit = |name: &str, (threads, queue): (usize, usize), each: u64| {
            let most = usize::try_from(quarter / (threads as u64 * each.max(1))).unwrap_or(usize::MAX).max(1);
            if queue > most {
                notes.push(Note::new(format!("{name}: {most} for each of {threads}, so that a quarter of the budget holds them")));
            }
            (threads, queue.min(most))
        };
        let block = if write.block_bytes == usize::MAX { 8 << 20 } else { (write.block_bytes as u64).max(CHUNK) };
        // More than there are splits would have nothing to do; more than the source has connections for would be refused.
        let most = if read.network && read.lanes > 0 { read.lanes } else { usize::MAX };
        let extractors = asked.extractors.filter(|_| options.limit.is_none()).map(|n| n.min(most).min(read.splits.len().max(1)));
        Self {
            extractors: extractors.map(|n| fit("extractor_queue", (n, asked.extractor_queue.unwrap_or(8)), CHUNK)),
            loaders: loaders.map(|n| fit("loader_queue", (n, asked.loader_queue.unwrap_or(2)), block)).map(|(n, queue)| (n, n * queue)),
        }
    }

    /// Bytes that may lie in the queues.
    pub fn held(&self, options: &Options) -> u64 {
        let pools = u64::from(self.extractors.is_some()) + u64::from(self.loaders.is_some());
        options.budget / 4 * pools
    }
}

impl std::fmt::Display for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        if let Some((threads, queue)) = self.extractors {
            parts.push(format!("{threads} extractors, {queue} chunks ahead for each split"));
        }
        if let Some((threads, queue)) = self.loaders {
            parts.push(format!("{threads} loaders, {queue} blocks before them"));
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests;
