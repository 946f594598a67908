//! `haul check`: whether the server can be reached, as whom, and with what rights.

use super::catalog::RelationKind;
use super::config;
use super::discover;
use super::session::Session;
use haul_model::{CheckLine, Endpoint, Environment, Result, Settings};

/// Connects and looks around.
///
/// # Errors
/// Config only: a connection that fails is a finding.
pub fn check(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Vec<CheckLine>> {
    let target = config::target(endpoint, settings, env)?;
    let mut lines: Vec<CheckLine> = target.notes.iter().map(|note| line("password file", Some(false), note.text.clone())).collect();
    let mut session = match Session::open(&target, env, "check") {
        Ok(session) => session,
        Err(error) => {
            lines.push(line("connect", Some(false), with_hint(&error)));
            return Ok(lines);
        }
    };
    lines.push(line("connect", Some(true), format!("PostgreSQL {} at {}", session.version_text(), session.host())));
    let tls = session.connection().tls();
    lines.push(line("encryption", None, tls.unwrap_or_else(|| "none".into())));
    match look(&mut session, &target) {
        Ok(found) => lines.extend(found),
        Err(error) => lines.push(line("look around", Some(false), with_hint(&error))),
    }
    Ok(lines)
}

fn look(session: &mut Session, target: &config::Target) -> Result<Vec<CheckLine>> {
    let sql = "SELECT current_user::pg_catalog.text, pg_catalog.current_database(), r.rolsuper, r.rolbypassrls, r.rolreplication, \
               pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only') \
               FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
    let mut lines = Vec::new();
    if let Some(row) = session.row(sql, &[])? {
        let extra = [(row.flag(2), "superuser"), (row.flag(3), "sees past row-level security"), (row.flag(4), "may replicate")];
        let extra: String = extra.iter().filter(|(has, _)| *has).map(|(_, word)| format!(", {word}")).collect();
        lines.push(line("role", None, format!("{}{extra}, in database {}", row.text(0), row.text(1))));
        let mode = match (row.flag(5), row.text(6)) {
            (true, _) => "a standby: can be read only",
            (false, "on") => "read-only by default_transaction_read_only",
            (false, _) => "a primary",
        };
        lines.push(line("server", None, mode.into()));
    }
    if session.is_pooled() {
        lines.push(line("pooler", None, "a connection pooler (pgbouncer or the like) stands in between".into()));
    }
    if let Some(name) = &target.table {
        match discover::locate(session, name) {
            Ok(located) => lines.extend(table_rights(session, &located)?),
            Err(error) => lines.push(line("table", Some(false), with_hint(&error))),
        }
    }
    Ok(lines)
}

fn table_rights(session: &mut Session, located: &discover::Located) -> Result<Vec<CheckLine>> {
    let sql = "SELECT pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'), \
               pg_catalog.row_security_active(c.oid), pg_catalog.has_table_privilege(c.oid, 'INSERT') \
                 OR pg_catalog.has_any_column_privilege(c.oid, 'INSERT'), \
               pg_catalog.has_table_privilege(c.oid, 'TRUNCATE'), pg_catalog.has_table_privilege(c.oid, 'DELETE'), \
               pg_catalog.pg_has_role(c.relowner, 'USAGE') \
               FROM pg_catalog.pg_class c WHERE c.oid = $1::pg_catalog.oid";
    let Some(row) = session.row(sql, &[Some(&located.oid.to_string())])? else { return Ok(Vec::new()) };
    let name = format!("{}.{}", located.schema, located.name);
    let mut lines = vec![line("table", Some(true), format!("{name}, a {}", located.kind.word()))];
    let read = match (row.flag(0), row.flag(1)) {
        (false, _) => line("read rights", Some(false), "no SELECT".into()),
        (true, true) => {
            line("read rights", Some(false), "SELECT, but row-level security hides rows (row_security=on reads the rest)".into())
        }
        (true, false) => line("read rights", Some(true), "SELECT".into()),
    };
    lines.push(read);
    if matches!(located.kind, RelationKind::Table | RelationKind::Partitioned | RelationKind::View | RelationKind::Foreign) {
        let words = [(2, "INSERT"), (3, "TRUNCATE"), (4, "DELETE"), (5, "owner")];
        let words: Vec<&str> = words.iter().filter(|(i, _)| row.flag(*i)).map(|(_, word)| *word).collect();
        let found = if words.is_empty() { "none".to_string() } else { words.join(", ") };
        // Whoever only reads needs none, so their absence is no failure.
        lines.push(line("write rights", row.flag(2).then_some(true), found));
    }
    Ok(lines)
}

fn line(what: &str, ok: Option<bool>, found: String) -> CheckLine {
    CheckLine { what: what.to_string(), ok, found }
}

fn with_hint(error: &haul_model::Error) -> String {
    match error.hint_text() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}
