//! The user's own statements before and after the rows, and ANALYZE.
//!
//! Each text runs in a session of its own, as the user would have typed it: what it sets does not reach the rows. They are no part of a
//! transaction of the load, so neither is taken back when the load fails; `post_sql` runs once, and only behind the last COMMIT.

use super::PostgresSink;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Finished, Result};
use haul_pgwire::Transaction;

impl PostgresSink {
    /// Runs `pre_sql`.
    ///
    /// # Errors
    /// The server's, with the name of the setting.
    pub(super) fn before(&self) -> Result<()> {
        let Some(sql) = &self.options.pre_sql else { return Ok(()) };
        let mut session = self.session("before")?;
        self.run_text(&mut session, sql).map_err(|e| e.context("--pre-sql").hint("nothing was written"))
    }

    /// Runs what comes behind the last COMMIT.
    ///
    /// # Errors
    /// The server's for `post_sql`, with its name; the rows are in then.
    pub(super) fn after(&self, finished: &mut Finished) -> Result<()> {
        if !self.options.analyze && self.options.post_sql.is_none() {
            return Ok(());
        }
        let planned = self.planned()?;
        let rows_are_in = format!("the rows are in {} all the same", planned.shared.table);
        let mut session = self.session("after").map_err(|e| e.context("--post-sql, --analyze").also(&rows_are_in))?;
        if self.options.analyze
            && let Err(error) = session.run(&format!("ANALYZE {}", planned.table_sql()))
        {
            finished.notes.push(format!("the table was not analysed: {}", error.detail()));
        }
        let Some(sql) = &self.options.post_sql else { return Ok(()) };
        self.run_text(&mut session, sql).map_err(|e| once(&e).also(rows_are_in))
    }

    /// Nobody is there to give up a lock that is waited for: perhaps this very job holds it.
    fn run_text(&self, session: &mut Session, sql: &str) -> Result<()> {
        session.run(&format!("SET lock_timeout = {}", self.options.lock_timeout.as_millis()))?;
        session.run(sql).map_err(|error| match error.code_text() {
            Some("55P03") => {
                error.hint("another session holds a lock that it needs, perhaps this job's own read; lock_timeout says how long to wait")
            }
            _ => error,
        })?;
        if session.wire().transaction() != Transaction::None {
            return Err(Error::new(ErrorKind::Config, "a transaction is left open, and all of it would be lost").hint("end it with COMMIT"));
        }
        Ok(())
    }
}

/// An error of `post_sql` that nobody tries again: a part of it may have been done.
fn once(error: &Error) -> Error {
    let mut told = Error::new(ErrorKind::Server, format!("--post-sql: {}", error.detail()));
    if let Some(code) = error.code_text() {
        told = told.code(code);
    }
    match error.hint_text() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}
