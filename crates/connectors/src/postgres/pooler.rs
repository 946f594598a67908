//! Recognising a connection pooler (pgbouncer and the like), and saying what it means for a read.

use super::config::Target;
use super::session::Session;
use haul_model::{Environment, Error, ErrorKind, Note, Result};
use std::time::Duration;

/// How long a pooler may take to find a server connection for a further lane.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// What to tell the user about a pooler, if one stands in between. `session` must be outside of a transaction.
///
/// In transaction mode a server connection is lent for a transaction only, and the one that was given back last is lent next. So two
/// clients that are both connected, and meet the same server process, are behind such a pooler.
///
/// # Errors
/// A connection that breaks.
pub(super) fn remark(session: &mut Session, target: &Target, env: &Environment) -> Result<Option<Note>> {
    if !session.is_pooled() {
        return Ok(None);
    }
    let shared = match Session::open_within(target, env, "probe", Some(PATIENCE)) {
        Ok(mut other) => (0..3).try_fold(false, |shared, _| Ok::<_, Error>(shared || session.server_pid()? == other.server_pid()?))?,
        Err(error) if is_full(&error) => false,
        Err(error) => return Err(error),
    };
    Ok(Some(Note::new(if shared {
        "a connection pooler in transaction mode stands in between: every lane holds one of its server connections until all is read, \
         so the server's own address is the better one for large reads"
    } else {
        "a connection pooler stands in between: session and transaction pooling work, statement pooling does not"
    })))
}

/// Whether the pooler has no server connection to give.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Limit) || error.code_text() == Some("08P01")
}
