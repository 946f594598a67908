//! The sessions of one read: all under the same snapshot, used again for split after split.

use super::config::Target;
use super::session::Session;
use haul_model::{Environment, Error, ErrorKind, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How every transaction of a read begins.
pub(super) const READ_ONLY: &str = "ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Each transaction has a savepoint from before its first COPY, so that one which is cancelled does not take the snapshot with it.
const HOLD_THE_SNAPSHOT: &str = "SAVEPOINT haul_read";
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
    opened: AtomicU32,
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
        Ok(Self { target, env, row_security, snapshots: Mutex::new(snapshots), idle: Mutex::new(vec![leader]), opened: AtomicU32::new(1) })
    }

    /// A session under the snapshot: one that is free, else a new one.
    ///
    /// # Errors
    /// Connection; the snapshot is gone.
    pub fn take(&self) -> Result<Session> {
        let known = self.snapshots().clone();
        // The first reader of several gets a new session, so that from the start two of them hold the snapshot.
        let alone = known.len() == 1 && self.opened.load(Ordering::Relaxed) == 1;
        if let Some(session) = (!alone).then(|| self.free().pop()).flatten() {
            return Ok(session);
        }
        if known.is_empty() {
            return Err(snapshot_gone());
        }
        let lane = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::open(&self.target, &self.env, &format!("read {lane}"))?;
        for name in known {
            let import = format!("SET TRANSACTION SNAPSHOT {}", super::catalog::quote_literal(&name));
            let settings = read_settings(self.row_security);
            match session.run(&format!("BEGIN {READ_ONLY}; {import}; {}; {settings}", session.exact_settings())) {
                Ok(()) => {
                    let again = export(&mut session)?;
                    self.snapshots().extend(again);
                    session.run(HOLD_THE_SNAPSHOT)?;
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
fn export(session: &mut Session) -> Result<Option<String>> {
    Ok(session.row("SELECT pg_catalog.pg_export_snapshot()", &[])?.map(|row| row.text(0).to_string()))
}

/// The code is the one that servers have for snapshots that are gone: trying again does not help.
fn snapshot_gone() -> Error {
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
