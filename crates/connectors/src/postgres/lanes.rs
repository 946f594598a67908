//! The sessions of one read: all under the same snapshot, used again for split after split.

use super::config::Target;
use super::session::Session;
use haul_model::{Environment, Error, ErrorKind, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How every transaction of a read begins.
pub(super) const READ_ONLY: &str = "ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Sessions in an open transaction under one snapshot. The one that exported it stays among them to the end: a snapshot can
/// only be imported while its exporter's transaction is open.
pub(super) struct Lanes {
    target: Target,
    env: Environment,
    row_security: bool,
    snapshot: Option<String>,
    idle: Mutex<Vec<Session>>,
    opened: AtomicU32,
}

impl Lanes {
    /// Lanes around the session that has discovered everything. `parallel`: exports its snapshot for others.
    ///
    /// # Errors
    /// The server cannot export one.
    pub fn new(mut leader: Session, target: Target, env: Environment, row_security: bool, parallel: bool) -> Result<Self> {
        let snapshot = if parallel {
            let exported = leader.row("SELECT pg_catalog.pg_export_snapshot()", &[]);
            let exported = exported
                .map_err(|e| e.context("the snapshot cannot be shared between connections").hint("--degree 1 reads over one connection"))?;
            exported.map(|row| row.text(0).to_string())
        } else {
            None
        };
        Ok(Self { target, env, row_security, snapshot, idle: Mutex::new(vec![leader]), opened: AtomicU32::new(1) })
    }

    /// A session under the snapshot: one that is free, else a new one.
    ///
    /// # Errors
    /// Connection; the snapshot is gone.
    pub fn take(&self) -> Result<Session> {
        if let Some(session) = self.free().pop() {
            return Ok(session);
        }
        let Some(snapshot) = &self.snapshot else {
            return Err(Error::new(ErrorKind::Connect, "the connection that held the snapshot is gone").hint("start the job again"));
        };
        let lane = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::open(&self.target, &self.env, &format!("read {lane}"))?;
        let import = format!("SET TRANSACTION SNAPSHOT {}", super::catalog::quote_literal(snapshot));
        session.run(&format!("BEGIN {READ_ONLY}; {import}; {}; {}", session.exact_settings(), read_settings(self.row_security)))?;
        Ok(session)
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

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        // A panic while the list was held cannot leave it half changed.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
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
