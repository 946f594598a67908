//! Reading only what is new: where the last run has got to, handed to the source before anything is planned, and kept with the last commit.

use crate::plan::{Job, Plan};
use haul_model::{Error, ErrorKind, Result, Saved, Split, StateStore};
use std::sync::Arc;

/// The shape by which positions are known among the runs that a store keeps.
pub const POSITION: &str = "cursor position";

/// A cursor between a source and a target.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Its name: a hash of both places and the column.
    pub id: String,
    /// Both ends as text without secrets.
    pub ends: (String, String),
    /// For targets that cannot keep the position with their rows.
    pub store: Option<Arc<dyn StateStore>>,
}

/// Narrows the source to what is new; the position to keep.
pub(crate) fn narrow(job: &mut Job) -> Result<Option<String>> {
    let Some(cursor) = job.options.cursor.clone() else { return Ok(None) };
    let mut stored = job.sink.cursor(&cursor.id)?;
    if let (None, Some(store)) = (&stored, &cursor.store) {
        let mut all = store.all()?.into_iter();
        let mine = all.find(|saved| saved.shape == POSITION && saved.job == cursor.id);
        stored = mine.and_then(|saved| saved.splits.into_iter().next()).map(|split| split.what);
    }
    job.source.since(stored.as_deref())
}

/// Hands the position to the sink; what is left for the store.
pub(crate) fn hand_over(job: &mut Job, position: Option<String>) -> Result<Option<String>> {
    let (Some(cursor), Some(position)) = (job.options.cursor.clone(), position) else { return Ok(None) };
    if job.sink.keep_cursor(&cursor.id, &position)? {
        return Ok(None);
    }
    match cursor.store {
        Some(_) => Ok(Some(position)),
        None => Err(Error::new(ErrorKind::Config, "there is no place for the cursor's position").hint("give --state DIR")),
    }
}

/// After the last commit, keeps a position that the sink does not.
pub(crate) fn keep(job: &Job, plan: &Plan) -> Result<()> {
    let (Some(cursor), Some(position)) = (&job.options.cursor, &plan.position) else { return Ok(()) };
    let Some(store) = &cursor.store else { return Ok(()) };
    let split = Split { id: 0, what: position.clone(), rows: None, bytes: None };
    let saved = Saved {
        job: cursor.id.clone(),
        run: format!("cursor-{}", cursor.id),
        source: cursor.ends.0.clone(),
        target: cursor.ends.1.clone(),
        shape: POSITION.into(),
        splits: vec![split],
        started: std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        ..Saved::default()
    };
    store.save(&saved).map_err(|e| {
        e.context("the rows are written, but how far the cursor has got could not be kept")
            .hint("the next run would bring them again: remove them first")
    })
}
