//! The sessions of one read: all under the same snapshot, used again for split after split.

use super::catalog::quote_literal;
use super::config::Target;
use super::database::Held;
use super::pooler;
use super::session::{self, Session};
use haul_model::{Environment, Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How every transaction of a read begins.
pub(super) const READ_ONLY: &str = "ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Each transaction has a savepoint from before its first COPY, so that one which is cancelled does not take the snapshot with it.
pub(super) const HOLD_THE_SNAPSHOT: &str = "SAVEPOINT haul_read";
/// After a COPY that failed or was cancelled.
pub(super) const BACK_TO_THE_SNAPSHOT: &str = "ROLLBACK TO SAVEPOINT haul_read";

/// Sessions in an open transaction under one snapshot. A snapshot can only be imported while the transaction that exported it is open, so
/// every session that has imported it exports it again: as long as one of them lives, a lane that was lost can be replaced.
pub(super) struct Lanes {
    target: Target,
    env: Environment,
    row_security: bool,
    /// The names under which it was exported; empty: it is not shared.
    snapshots: Mutex<Vec<String>>,
    idle: Mutex<Vec<Session>>,
    /// Whether a second session was asked for.
    second: AtomicBool,
    /// The job that holds the snapshot, if it is not this read alone: its sessions come from there, and go back.
    held: Option<Arc<Held>>,
}

impl Lanes {
    /// Lanes around the session that has discovered everything. `parallel`: exports its snapshot for others.
    ///
    /// # Errors
    /// The server cannot export one.
    pub fn new(mut leader: Session, target: Target, env: Environment, row_security: bool, parallel: bool) -> Result<Self> {
        let mut snapshots = Vec::new();
        if parallel {
            let exported = export(&mut leader);
            snapshots.extend(exported.map_err(|e| {
                e.context("the snapshot cannot be shared between connections").hint("--degree 1 reads over one connection")
            })?);
        }
        leader.run(HOLD_THE_SNAPSHOT)?;
        Ok(Self {
            target,
            env,
            row_security,
            snapshots: Mutex::new(snapshots),
            idle: Mutex::new(vec![leader]),
            second: AtomicBool::new(false),
            held: None,
        })
    }

    /// Lanes under a snapshot that a job holds, around a session of it.
    pub fn under(held: Arc<Held>, leader: Session, target: Target, env: Environment, row_security: bool) -> Self {
        let (snapshots, idle) = (Mutex::new(vec![held.snapshot.clone()]), Mutex::new(vec![leader]));
        // The snapshot has a holder already.
        Self { target, env, row_security, snapshots, idle, second: AtomicBool::new(true), held: Some(held) }
    }

    /// A session under the snapshot for a split, named after it: one that is free, else a new one.
    ///
    /// # Errors
    /// Connection; the snapshot is gone.
    pub fn take(&self, split: u32) -> Result<Session> {
        let lane = format!("split {split}");
        // The first reader of several gets a new session, so that from the start two of them hold the snapshot.
        let alone = self.snapshots().len() == 1 && !self.second.swap(true, Ordering::Relaxed);
        // Not in the condition of an `if`: the list would stay locked.
        let idle = if alone { None } else { self.free().pop() };
        let Some(mut session) = idle else { return self.open(&lane, self.target.config.connect_timeout) };
        if self.target.application_name.is_none() {
            session.run(&format!("SET LOCAL application_name = {}", quote_literal(&session::lane_name(&self.env, &lane))))?;
        }
        Ok(session)
    }

    /// Opens lanes in advance until there are `wanted`, or a pooler has no more server connections. Returns how many there are.
    ///
    /// # Errors
    /// Connection.
    pub fn open_ahead(&self, wanted: usize) -> Result<usize> {
        let there = self.free().len();
        for lane in there..wanted {
            match self.open("read", Some(pooler::PATIENCE)) {
                Ok(session) => self.give(session),
                Err(error) if pooler::is_full(&error) => return Ok(lane),
                Err(error) => return Err(error),
            }
        }
        Ok(wanted)
    }

    /// Opens a session that must answer within `limit`.
    fn open(&self, lane: &str, limit: Option<Duration>) -> Result<Session> {
        if let Some(held) = &self.held {
            let mut session = held.take(&self.env, lane)?;
            session.run(read_settings(self.row_security))?;
            return Ok(session);
        }
        let known = self.snapshots().clone();
        if known.is_empty() {
            return Err(snapshot_gone());
        }
        let mut session = Session::open_within(&self.target, &self.env, lane, limit)?;
        self.second.store(true, Ordering::Relaxed);
        session.connection().set_idle_timeout(limit);
        for name in known {
            let import = format!("SET TRANSACTION SNAPSHOT {}", quote_literal(&name));
            let settings = read_settings(self.row_security);
            match session.run(&format!("BEGIN {READ_ONLY}; {import}; {}; {settings}", session.exact_settings())) {
                Ok(()) => {
                    let again = export(&mut session)?;
                    self.snapshots().extend(again);
                    session.run(HOLD_THE_SNAPSHOT)?;
                    session.connection().set_idle_timeout(self.target.config.idle_timeout);
                    return Ok(session);
                }
                // Whoever exported it under this name is gone.
                Err(error) if matches!(error.code_text(), Some("22023" | "42704" | "55000")) => {
                    self.snapshots().retain(|other| *other != name);
                    session.run("ROLLBACK")?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(snapshot_gone())
    }

    /// Gives a session back that has reached the end of its COPY.
    pub fn give(&self, session: Session) {
        self.free().push(session);
    }

    /// Ends the transactions.
    ///
    /// # Errors
    /// A connection that broke meanwhile: what was read is whole all the same, so callers may ignore it.
    pub fn close(&self) -> Result<()> {
        let sessions = std::mem::take(&mut *self.free());
        if let Some(held) = &self.held {
            held.give(sessions);
            return Ok(());
        }
        sessions.into_iter().try_for_each(|mut session| session.run("COMMIT"))
    }

    fn snapshots(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.snapshots.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        // A panic while the list was held cannot leave it half changed.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Exports the session's snapshot; its name.
pub(super) fn export(session: &mut Session) -> Result<Option<String>> {
    Ok(session.row("SELECT pg_catalog.pg_export_snapshot()", &[])?.map(|row| row.text(0).to_string()))
}

/// The code is the one that servers have for snapshots that are gone: trying again does not help.
pub(super) fn snapshot_gone() -> Error {
    Error::new(ErrorKind::Connect, "the connections that held the snapshot are gone").code("72000").hint("start the job again")
}

/// The further settings of a read. With `row_security = off` the server refuses a read from which policies would hide rows, also
/// behind views. Without synchronised scans a table comes from its first page to its last.
pub(super) fn read_settings(row_security: bool) -> &'static str {
    if row_security {
        "SET LOCAL synchronize_seqscans = off; SET LOCAL row_security = on"
    } else {
        "SET LOCAL synchronize_seqscans = off; SET LOCAL row_security = off"
    }
}

#[cfg(test)]
mod tests {
    use crate::postgres::source_tests::{open, plan, read_split};
    use haul_model::{Position, Source};
    use haul_testkit::pg::Scratch;

    /// Ends the session that reads or has read a split, by its name.
    fn end(db: &Scratch, lane: &str) {
        let those = format!("from pg_stat_activity where datname = current_database() and application_name = 'haul/test/{lane}'");
        assert_eq!(db.sql(&format!("select count(pg_terminate_backend(pid)) {those}")), "1", "{lane}");
        while db.sql(&format!("select count(*) {those}")) != "0" {}
    }

    #[test]
    fn any_lane_that_lives_hands_the_snapshot_on() {
        let db = Scratch::new();
        db.sql("create table t as select g as id, repeat('p', 200) as pad from generate_series(1, 60000) g");
        let mut source = open(&db.table("t"), &[]).unwrap();
        let plan = plan(&mut source, 2);
        assert!(plan.splits.len() > 3, "{}", plan.method);
        db.sql("delete from t");
        let start = Position::start();
        let first = source.open(&plan.splits[0], &start).unwrap();
        let second = source.open(&plan.splits[1], &start).unwrap();
        // The one that exported it first goes, and its place is taken by a new one.
        end(&db, "split 1");
        drop(second);
        let third = source.open(&plan.splits[1], &start).unwrap();
        end(&db, "split 0");
        drop((first, third));
        let rows: usize = plan.splits.iter().flat_map(|split| read_split(&source, split).unwrap()).map(|b| b.num_rows()).sum();
        assert_eq!(rows, 60_000, "the rows are those of the snapshot");
        // With the last of them it is gone, and nobody pretends otherwise.
        end(&db, &format!("split {}", plan.splits.len() - 1));
        let error = read_split(&source, &plan.splits[0]).unwrap_err();
        assert!(read_split(&source, &plan.splits[0]).unwrap_err().to_string().contains("held the snapshot are gone"), "{error}");
    }
}
