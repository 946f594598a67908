//! Which streams of an unfinished job are done, so that `--resume` leaves them alone.
//!
//! A stream that has ended well is noted in the state, and all notes go when the whole job has. What is half done is the business of the
//! stream's own run: see [`crate::tracking`].

use super::End;
use haul_model::{KeysLater, PartKind, Result, Saved, Split, StateStore, TablePart};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The shape by which such notes are known among the runs that a store keeps.
pub const FINISHED: &str = "stream finished";

/// Notes of one run.
pub struct Journal {
    store: Option<Arc<dyn StateStore>>,
    run: String,
    /// Finished by an earlier run: job -> its note.
    earlier: HashMap<String, Saved>,
    kept: Mutex<Vec<String>>,
}

impl Journal {
    /// Reads what an earlier run has noted.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn open(store: Option<Arc<dyn StateStore>>, run: &str) -> Result<Self> {
        let all = store.as_ref().map(|store| store.all()).transpose()?.unwrap_or_default();
        let earlier = all.into_iter().filter(|saved| saved.shape == FINISHED).map(|saved| (saved.job.clone(), saved));
        Ok(Self { store, run: run.to_string(), earlier: earlier.collect(), kept: Mutex::default() })
    }

    /// The end of a stream that an earlier run has finished.
    pub fn done(&self, job: &str) -> Option<End> {
        let [rows, later @ ..] = &self.earlier.get(job)?.splits[..] else { return None };
        Some(End::Before { rows: rows.rows.unwrap_or(0), keys_later: later.first().and_then(|split| parse(&split.what)) })
    }

    /// A stream begins anew: what was noted of it is no longer so.
    ///
    /// # Errors
    /// State that cannot be written.
    pub fn begin(&self, job: &str) -> Result<()> {
        match (&self.store, self.earlier.get(job)) {
            (Some(store), Some(saved)) => store.remove(&saved.run),
            _ => Ok(()),
        }
    }

    /// A stream has ended well.
    ///
    /// # Errors
    /// State that cannot be written.
    pub fn finished(
        &self,
        number: usize,
        (job, from, to): &(String, String, String),
        rows: u64,
        keys_later: Option<&KeysLater>,
    ) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let run = format!("{}.{number}", self.run);
        let mut splits = vec![Split { id: 0, what: "everything".into(), rows: Some(rows), bytes: None }];
        splits.extend(keys_later.map(|later| Split { id: 1, what: text(later), rows: None, bytes: None }));
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        store.save(&Saved {
            job: job.clone(),
            run: run.clone(),
            source: from.clone(),
            target: to.clone(),
            shape: FINISHED.to_string(),
            splits,
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
        let earlier = jobs.iter().filter_map(|job| self.earlier.get(job)).map(|saved| &saved.run);
        kept.iter().chain(earlier).try_for_each(|run| store.remove(run))
    }
}

fn text(later: &KeysLater) -> String {
    let keys = later.keys.iter().map(|key| json!([key.name, key.sql, key.refers_to, key.columns]));
    json!({"source": later.source, "target": later.target, "keys": keys.collect::<Value>()}).to_string()
}

fn parse(text: &str) -> Option<KeysLater> {
    let all: Value = serde_json::from_str(text).ok()?;
    let word = |value: &Value| value.as_str().map(str::to_string);
    let key = |key: &Value| {
        let columns = key[3].as_array()?.iter().map(word).collect::<Option<_>>()?;
        let (name, sql, refers_to) = (word(&key[0])?, word(&key[1])?, word(&key[2]));
        Some(TablePart { kind: PartKind::ForeignKey, name, columns, sql, refers_to, position: None })
    };
    let keys = all["keys"].as_array()?.iter().map(key).collect::<Option<_>>()?;
    Some(KeysLater { source: word(&all["source"])?, target: word(&all["target"])?, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_do_comes_back() {
        let key = TablePart {
            kind: PartKind::ForeignKey,
            name: "k \"x\"".into(),
            columns: vec!["a".into(), "b".into()],
            sql: "FOREIGN KEY (a, b) REFERENCES {}(c, d)".into(),
            refers_to: Some("public.t".into()),
            position: None,
        };
        let later = KeysLater { source: "s.a".into(), target: "\"t\".\"a\"".into(), keys: vec![key] };
        assert_eq!(parse(&text(&later)), Some(later));
    }
}
