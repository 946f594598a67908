//! How many more connections the server, the database and the role allow. Asked before lanes are planned, so that a job uses fewer
//! of them instead of failing half-way.

use super::session::Session;
use haul_model::{Note, Result};

/// Room for further sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// How many.
    pub sessions: usize,
    /// What sets the limit, for a note.
    pub limit: String,
}

/// The room that this side of the job may use. When the job's other side has a session on the same server, each takes half.
/// Behind a pooler the server's counts say nothing about ours: `None`.
///
/// # Errors
/// The server's.
pub fn room(session: &mut Session, run_id: &str) -> Result<Option<Room>> {
    if session.is_pooled() {
        return Ok(None);
    }
    // Others' backend_type may be hidden. A parallel worker that is then counted as a client makes us a little more modest.
    let sql = "WITH a AS (SELECT pid, usesysid, datid, application_name FROM pg_catalog.pg_stat_activity \
                 WHERE usesysid IS NOT NULL AND (backend_type = 'client backend' OR backend_type IS NULL)), \
               r AS (SELECT oid, rolname, rolsuper, rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = session_user), \
               d AS (SELECT oid, datname, datconnlimit FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) \
               SELECT pg_catalog.current_setting('max_connections')::pg_catalog.int4 - (SELECT pg_catalog.count(*) FROM a), \
                 CASE WHEN r.rolsuper THEN 0 ELSE pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4 \
                   + CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles m WHERE m.rolname = 'pg_use_reserved_connections' \
                                         AND pg_catalog.pg_has_role(r.oid, m.oid, 'USAGE')) THEN 0 \
                       ELSE COALESCE(pg_catalog.current_setting('reserved_connections', true)::pg_catalog.int4, 0) END END, \
                 r.rolname, CASE WHEN NOT r.rolsuper AND r.rolconnlimit >= 0 THEN r.rolconnlimit END, \
                 (SELECT pg_catalog.count(*) FROM a WHERE a.usesysid = r.oid), \
                 d.datname, CASE WHEN NOT r.rolsuper AND d.datconnlimit >= 0 THEN d.datconnlimit END, \
                 (SELECT pg_catalog.count(*) FROM a WHERE a.datid = d.oid), \
                 $1 <> '' AND EXISTS (SELECT FROM a WHERE pid <> pg_catalog.pg_backend_pid() \
                                        AND pg_catalog.left(application_name, pg_catalog.length($1)) = $1) \
               FROM r, d";
    let ours = if run_id.is_empty() { String::new() } else { format!("haul/{run_id}/") };
    let Some(row) = session.row(sql, &[Some(&ours)])? else { return Ok(None) };
    let number = |i: usize| row.parse::<i64>(i);
    let mut limits = vec![(number(0).unwrap_or(0) - number(1).unwrap_or(0), "the server's max_connections".to_string())];
    for (kind, name, limit, used) in [("role", 2, 3, 4), ("database", 5, 6, 7)] {
        if let Some(limit) = number(limit) {
            limits.push((limit - number(used).unwrap_or(0), format!("the connection limit of {kind} {} ({limit})", row.text(name))));
        }
    }
    let (free, limit) = limits.into_iter().min_by_key(|(free, _)| *free).unwrap_or_default();
    let free = usize::try_from(free).unwrap_or(0);
    Ok(Some(Room { sessions: if row.flag(8) { free / 2 } else { free }, limit }))
}

/// Lowers `wanted` lanes to what there is room for beside the `held` sessions that are open already, with a note.
///
/// # Errors
/// The server's.
pub fn fit(session: &mut Session, run_id: &str, wanted: usize, held: usize) -> Result<(usize, Option<Note>)> {
    let Some(room) = room(session, run_id)? else { return Ok((wanted, None)) };
    let lanes = wanted.min(held + room.sessions).max(1);
    let note = (lanes < wanted).then(|| Note::new(format!("{wanted} connections were wanted: {} leaves room for {lanes}", room.limit)));
    Ok((lanes, note))
}
