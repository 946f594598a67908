//! The sessions of one read: all under the same snapshot, used again for split after split.

use super::catalog::quote_literal;
use super::config::Target;
use super::pooler;
use super::session::{self, Session};
use haul_model::{Environment, Error, ErrorKind, Result};
use std::sync::Mutex;
use std::time::Duration;

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
        Ok(Self { target, env, row_security, snapshot, idle: Mutex::new(vec![leader]) })
    }

    /// A session under the snapshot for a split, named after it: one that is free, else a new one.
    ///
    /// # Errors
    /// Connection; the snapshot is gone.
    pub fn take(&self, split: u32) -> Result<Session> {
        let lane = format!("split {split}");
        // Not in the condition of an `if`: the list would stay locked.
        let idle = self.free().pop();
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
        let Some(snapshot) = &self.snapshot else {
            return Err(Error::new(ErrorKind::Connect, "the connection that held the snapshot is gone").hint("start the job again"));
        };
        let mut session = Session::open_within(&self.target, &self.env, lane, limit)?;
        let import = format!("SET TRANSACTION SNAPSHOT {}", quote_literal(snapshot));
        session.connection().set_idle_timeout(limit);
        session.run(&format!("BEGIN {READ_ONLY}; {import}; {}; {}", session.exact_settings(), read_settings(self.row_security)))?;
        session.connection().set_idle_timeout(self.target.config.idle_timeout);
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
