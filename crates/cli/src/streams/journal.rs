//! Which streams of an unfinished job are done, so that `--resume` leaves them alone.
//!
//! A stream that has ended well is noted in the state, and all notes go when the whole job has. What is half done is the business of the
//! stream's own run: see [`crate::tracking`].

use haul_model::{Result, Saved, Split, StateStore};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The shape by which such notes are known among the runs that a store keeps.
pub const FINISHED: &str = "stream finished";

/// Notes of one run.
pub struct Journal {
    store: Option<Arc<dyn StateStore>>,
    run: String,
    /// Finished by an earlier run: job -> (its run, rows).
    earlier: HashMap<String, (String, u64)>,
    kept: Mutex<Vec<String>>,
}

impl Journal {
    /// Reads what an earlier run has noted.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn open(store: Option<Arc<dyn StateStore>>, run: &str) -> Result<Self> {
        let all = store.as_ref().map(|store| store.all()).transpose()?.unwrap_or_default();
        let earlier = all.into_iter().filter(|saved| saved.shape == FINISHED).map(|saved| {
            let rows = saved.splits.first().and_then(|split| split.rows).unwrap_or(0);
            (saved.job, (saved.run, rows))
        });
        Ok(Self { store, run: run.to_string(), earlier: earlier.collect(), kept: Mutex::default() })
    }

    /// The rows of a stream that an earlier run has finished.
    pub fn done(&self, job: &str) -> Option<u64> {
        self.earlier.get(job).map(|(_, rows)| *rows)
    }

    /// A stream begins anew: what was noted of it is no longer so.
    ///
    /// # Errors
    /// State that cannot be written.
    pub fn begin(&self, job: &str) -> Result<()> {
        match (&self.store, self.earlier.get(job)) {
            (Some(store), Some((run, _))) => store.remove(run),
            _ => Ok(()),
        }
    }

    /// A stream has ended well.
    ///
    /// # Errors
    /// State that cannot be written.
    pub fn finished(&self, number: usize, (job, from, to): &(String, String, String), rows: u64) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let run = format!("{}.{number}", self.run);
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        store.save(&Saved {
            job: job.clone(),
            run: run.clone(),
            source: from.clone(),
            target: to.clone(),
            shape: FINISHED.to_string(),
            splits: vec![Split { id: 0, what: "everything".into(), rows: Some(rows), bytes: None }],
            started,
            ..Saved::default()
        })?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        Ok(())
    }

    /// The whole job has ended well: nothing needs to be known of its streams any more.
    ///
    /// # Errors
    /// State that cannot be written.
    pub fn close(self, jobs: &[String]) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let earlier = jobs.iter().filter_map(|job| self.earlier.get(job)).map(|(run, _)| run);
        kept.iter().chain(earlier).try_for_each(|run| store.remove(run))
    }
}
