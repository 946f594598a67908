//! Sessions: opened by a [`Target`], errors in Haul's words, and transactions with the settings that exactness needs.
//!
//! Settings are made with SET LOCAL at the start of each transaction ([`Session::begin`]), never for the session: behind a
//! pooler in transaction mode a SET would be lost, or worse, would stay with someone else's session.

use super::catalog::quote_literal;
use super::config::Target;
use haul_model::{Environment, Error, ErrorKind, Idle, Result};
use haul_pgwire::{Config, Connection, PgError, Row, Rows, Transaction};
use std::time::Duration;

/// A session with the server. One thread uses it at a time.
pub struct Session {
    /// There until it is dropped.
    connection: Option<Connection>,
    statement_timeout: Option<Duration>,
    pooled: bool,
    /// Where the connection goes in the end, if it is as good as new.
    home: Option<(Idle, Config)>,
}

/// A connection that waits for the next stream of a job.
struct Waiting {
    connection: Connection,
    /// What it was opened with, but for the name.
    config: Config,
}

impl Session {
    /// Opens a session for `lane` (`read`, `lane 2`), which is shown in `pg_stat_activity`.
    ///
    /// # Errors
    /// Everything that keeps it from being opened, or a server that is too old (before 10) or odd.
    pub fn open(target: &Target, env: &Environment, lane: &str) -> Result<Self> {
        Self::open_within(target, env, lane, target.config.connect_timeout)
    }

    /// As [`Session::open`], but the first answer must come within `limit`: a pooler takes the log-in, and lets the first statement
    /// wait for a server connection.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_within(target: &Target, env: &Environment, lane: &str, limit: Option<Duration>) -> Result<Self> {
        let mut config = target.config.clone();
        config.application_name = target.application_name.clone().unwrap_or_else(|| lane_name(env, lane));
        let mut connection = Connection::connect(&config, env.stop.clone()).map_err(error)?;
        let host = connection.host().to_string();
        if connection.server_version() < 100_000 {
            let version = connection.parameter_status("server_version").unwrap_or("of an unknown version").to_string();
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the server is PostgreSQL {version}; 10 is the oldest that is supported"),
            )
            .object(host));
        }
        if connection.parameter_status("integer_datetimes").is_some_and(|v| v != "on") {
            return Err(Error::new(ErrorKind::Unsupported, "the server stores times as floating point numbers").object(host));
        }
        connection.set_idle_timeout(limit.or(config.idle_timeout));
        let mut session = Self { connection: Some(connection), statement_timeout: target.statement_timeout, pooled: false, home: None };
        let own = session.server_pid().map_err(|e| match e.kind() {
            ErrorKind::Timeout => e.hint(
                "the log-in was taken, but no statement is answered: a pooler whose server connections are all in use does that. \
                 Lower --degree, raise its pool size, or connect to the server itself",
            ),
            _ => e,
        })?;
        session.pooled = own != Some(session.wire().backend_pid());
        session.connection().set_idle_timeout(config.idle_timeout);
        Ok(session)
    }

    /// As [`Session::open`], for a job of many streams: a connection that an earlier one has left is taken, and this one is left to the next.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn shared(target: &Target, env: &Environment, lane: &str) -> Result<Self> {
        if !env.idle.keeps() {
            return Self::open(target, env, lane);
        }
        let home = Some((env.idle.clone(), target.config.clone()));
        while let Some(Waiting { mut connection, .. }) = env.idle.take(|waiting: &Waiting| waiting.config == target.config) {
            connection.set_stop(env.stop.clone());
            connection.set_idle_timeout(target.config.idle_timeout);
            let mut session = Self { connection: Some(connection), statement_timeout: target.statement_timeout, pooled: false, home: None };
            let name = target.application_name.clone().unwrap_or_else(|| lane_name(env, lane));
            // One that the server has ended meanwhile says so here.
            if session.run(&format!("SET application_name = {}", quote_literal(&name))).is_ok() {
                session.home = home;
                return Ok(session);
            }
        }
        let mut session = Self::open(target, env, lane)?;
        session.home = home.filter(|_| !session.pooled);
        Ok(session)
    }

    /// How many connections like this one wait for their next use.
    pub fn waiting(&self) -> usize {
        self.home.as_ref().map_or(0, |(idle, config)| idle.count(|waiting: &Waiting| waiting.config == *config))
    }

    /// The process that answers.
    ///
    /// # Errors
    /// The server's.
    pub fn server_pid(&mut self) -> Result<Option<i32>> {
        Ok(self.row("SELECT pg_catalog.pg_backend_pid()", &[])?.and_then(|row| row.parse(0)))
    }

    /// The wire underneath, for COPY.
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("a session has its connection until it is dropped")
    }
    /// The wire underneath, to look at.
    pub fn wire(&self) -> &Connection {
        self.connection.as_ref().expect("a session has its connection until it is dropped")
    }
    /// Version as in `server_version_num` (150018).
    pub fn version(&self) -> u32 {
        self.wire().server_version()
    }
    /// Version as the server writes it.
    pub fn version_text(&self) -> String {
        self.wire().parameter_status("server_version").unwrap_or("").to_string()
    }
    /// Whether a pooler (pgbouncer) stands in between: the process that answers is not the one that was logged in to.
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }
    /// The server, for messages.
    pub fn host(&self) -> String {
        self.wire().host().to_string()
    }

    /// Begins a transaction (`ISOLATION LEVEL REPEATABLE READ READ ONLY`) in which values are printed and read exactly:
    /// ISO dates, UTC, shortest exact floats, hex bytea, a neutral currency; no time-outs but the user's.
    ///
    /// # Errors
    /// The server's.
    pub fn begin(&mut self, mode: &str) -> Result<()> {
        let sql = format!("BEGIN {mode}; {}", self.exact_settings());
        self.run(&sql)
    }

    /// The SET LOCAL statements of [`Session::begin`], for transactions that are begun otherwise.
    pub fn exact_settings(&self) -> String {
        let mut sql = String::from(
            "SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres'; \
             SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C'; \
             SET LOCAL standard_conforming_strings = on; SET LOCAL xmloption = 'content'; SET LOCAL lock_timeout = 0; \
             SET LOCAL idle_in_transaction_session_timeout = 0; ",
        );
        sql.push_str(if self.version() >= 120_000 { "SET LOCAL extra_float_digits = 1; " } else { "SET LOCAL extra_float_digits = 3; " });
        let limit = self.statement_timeout.map_or(0, |limit| limit.as_millis().max(1));
        sql.push_str(&format!("SET LOCAL statement_timeout = {limit}"));
        if self.version() >= 170_000 {
            sql.push_str("; SET LOCAL transaction_timeout = 0");
        }
        sql
    }

    /// Runs one or more statements without parameters.
    ///
    /// # Errors
    /// The server's.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        self.connection().simple_query(sql).map(drop).map_err(error)
    }

    /// Runs one or more statements; the rows affected by the last.
    ///
    /// # Errors
    /// The server's.
    pub fn execute(&mut self, sql: &str) -> Result<u64> {
        self.connection().execute(sql).map_err(error)
    }

    /// Runs one statement with parameters as text.
    ///
    /// # Errors
    /// The server's.
    pub fn query(&mut self, sql: &str, parameters: &[Option<&str>]) -> Result<Rows> {
        self.connection().query(sql, parameters).map_err(error)
    }

    /// As [`Session::query`], for statements that return one row at most.
    ///
    /// # Errors
    /// The server's.
    pub fn row(&mut self, sql: &str, parameters: &[Option<&str>]) -> Result<Option<Row>> {
        Ok(self.query(sql, parameters)?.rows.into_iter().next())
    }

    /// The role in effect.
    ///
    /// # Errors
    /// The server's.
    pub fn role(&mut self) -> Result<String> {
        Ok(self.row("SELECT current_user::pg_catalog.text", &[])?.map(|row| row.text(0).to_string()).unwrap_or_default())
    }

    /// What two sessions in the same database have in common and others have not: the cluster's identifier and the database's OID.
    /// `None` where the role may not ask.
    ///
    /// # Errors
    /// A broken connection.
    pub fn database_identity(&mut self) -> Result<Option<String>> {
        let allowed = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')";
        if !self.row(allowed, &[])?.is_some_and(|row| row.flag(0)) {
            return Ok(None);
        }
        let sql = "SELECT s.system_identifier::pg_catalog.text || '/' || d.oid::pg_catalog.text \
                   FROM pg_catalog.pg_control_system() s, pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";
        Ok(self.row(sql, &[])?.and_then(|row| row.get(0).map(str::to_string)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((idle, config)) = self.home.take() else { return };
        let fresh = self.wire().is_usable() && self.wire().transaction() == Transaction::None && self.run("DISCARD ALL").is_ok();
        if let Some(mut connection) = self.connection.take().filter(|_| fresh) {
            connection.take_notices();
            idle.give(Waiting { connection, config });
        }
    }
}

/// The name in `pg_stat_activity` of the session for `lane`.
pub fn lane_name(env: &Environment, lane: &str) -> String {
    match env.run_id.as_str() {
        "" => format!("haul/{lane}"),
        run => format!("haul/{run}/{lane}"),
    }
}

/// The place that a COPY error names: `COPY t, line 3, column n: "x"` gives (3, `n`). The line counts rows of this COPY from 1.
pub fn copy_place(error: &PgError) -> Option<(u64, Option<String>)> {
    let where_ = error.where_.as_deref()?;
    let line = where_.lines().find(|line| line.starts_with("COPY "))?;
    // The value behind the colon may hold the same words; the first are the server's.
    let (_, rest) = line.split_once(", line ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..end].parse().ok()?;
    let column = rest[end..].strip_prefix(", column ").map(|c| match c.find(": ").or_else(|| c.find(':')) {
        Some(colon) => c[..colon].to_string(),
        None => c.to_string(),
    });
    Some((number, column))
}

/// A wire error in Haul's words.
pub fn error(error: haul_pgwire::Error) -> Error {
    use haul_pgwire::Error as E;
    let text = error.to_string();
    match error {
        E::Config(detail) => Error::new(ErrorKind::Config, detail),
        E::Resolve { host, source } => Error::new(ErrorKind::Connect, "the host name cannot be resolved")
            .object(host)
            .hint("check the spelling of the host")
            .caused_by(source),
        E::Io { host, what, source } => {
            let kind = if source.kind() == std::io::ErrorKind::TimedOut { ErrorKind::Timeout } else { ErrorKind::Connect };
            let hint = match source.kind() {
                std::io::ErrorKind::ConnectionRefused => Some("is the server running, and does it listen on this address and port?"),
                std::io::ErrorKind::NotFound => {
                    Some("there is no server's socket in this folder: give a host (postgres://host/db) or the right folder (?host=/tmp)")
                }
                _ => None,
            };
            let reason = source.to_string();
            let reason = reason.split(" (os error").next().unwrap_or(&reason).to_lowercase();
            let error = Error::new(kind, format!("{what}: {reason}")).object(host).caused_by(source);
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        }
        E::Closed { host } => {
            Error::new(ErrorKind::Connect, "the server closed the connection unexpectedly").object(host).hint("the server's log says why")
        }
        E::Broken { host } => Error::new(ErrorKind::Connect, "the connection is no longer usable").object(host),
        E::Timeout { host, what, after } => Error::new(ErrorKind::Timeout, format!("{what} took longer than {after:?}"))
            .object(host)
            .hint("connect_timeout and idle_timeout set the limits"),
        E::Cancelled => Error::new(ErrorKind::Cancelled, "stopped"),
        E::Tls { host, reason } => {
            let error = Error::new(ErrorKind::Tls, reason).object(host);
            if error.detail().contains("does not offer TLS") {
                error.hint("sslmode=disable connects without TLS, if the network is trusted")
            } else {
                error
            }
        }
        E::Auth { host, reason } => {
            Error::new(ErrorKind::Auth, reason).object(host).hint("give the password by PGPASSWORD, ~/.pgpass or the URI")
        }
        E::Protocol { host, detail } => Error::new(ErrorKind::Protocol, detail).object(host),
        E::RowTooLarge { bytes, limit, row } => {
            Error::new(ErrorKind::Limit, format!("a row of {bytes} bytes is larger than the limit of {limit} bytes"))
                .row(row + 1)
                .hint("raise --max-row-bytes")
        }
        E::Server(e) => server_error(*e),
        E::WrongSession { host, is, wanted } => {
            Error::new(ErrorKind::Connect, format!("the server is {is}, and target_session_attrs asks for {wanted}")).object(host)
        }
        E::AllHosts(errors) => {
            let kind = if errors.iter().all(|e| matches!(e, E::Timeout { .. })) { ErrorKind::Timeout } else { ErrorKind::Connect };
            Error::new(kind, text)
        }
    }
}

/// The kind that an SQLSTATE stands for.
pub fn kind_of(code: &str, message: &str) -> ErrorKind {
    match code {
        "28000" | "28P01" => ErrorKind::Auth,
        "42501" => ErrorKind::Permission,
        // Read-only transaction: a standby, or default_transaction_read_only.
        "25006" => ErrorKind::Permission,
        "42P01" | "42703" | "3D000" | "3F000" | "42704" | "42883" => ErrorKind::NotFound,
        "42P07" | "42P06" | "42710" => ErrorKind::Exists,
        "53100" => ErrorKind::DiskFull,
        "53300" | "53200" | "53400" => ErrorKind::Limit,
        "57014" if message.contains("timeout") => ErrorKind::Timeout,
        "57014" => ErrorKind::Cancelled,
        // One backend was ended, or the server: the next moment may be better.
        "57P01" | "57P02" | "57P03" | "57P05" => ErrorKind::Connect,
        "55P03" | "25P03" | "25P04" => ErrorKind::Timeout,
        "42804" | "42846" => ErrorKind::Schema,
        "0A000" => ErrorKind::Unsupported,
        _ => match code.get(..2).unwrap_or("") {
            "28" => ErrorKind::Auth,
            "08" => ErrorKind::Connect,
            "22" => ErrorKind::Data,
            "23" => ErrorKind::Constraint,
            "40" => ErrorKind::Conflict,
            "54" => ErrorKind::Limit,
            _ => ErrorKind::Server,
        },
    }
}

/// The server's report: kind by SQLSTATE, its own words, place and hint.
fn server_error(e: PgError) -> Error {
    let kind = kind_of(&e.code, &e.message);
    let mut detail = match e.code.as_str() {
        "57P01" => format!("the session was terminated by the server's administrator ({})", e.message),
        _ => e.message.clone(),
    };
    if let Some(more) = &e.detail {
        detail.push_str(&format!(" ({})", more.trim_end_matches('.')));
    }
    let mut error = Error::new(kind, detail).code(&e.code);
    if let Some(table) = &e.table {
        error = error.object(match &e.schema {
            Some(schema) => format!("{schema}.{table}"),
            None => table.clone(),
        });
    }
    if let Some(column) = e.column.clone().or_else(|| copy_place(&e)?.1) {
        error = error.column(column);
    }
    if let Some(hint) = &e.hint {
        error = error.hint(hint.clone());
    }
    match hint_for(&e, kind) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn hint_for(e: &PgError, kind: ErrorKind) -> Option<&'static str> {
    Some(match (e.code.as_str(), kind) {
        ("28P01", _) => "check user and password (URI, PGPASSWORD or ~/.pgpass)",
        ("28000", _) if e.message.contains("no encryption") || e.message.contains("SSL off") => {
            "the server wants TLS for this connection: try sslmode=require"
        }
        ("28000", _) if e.message.contains("SSL encryption") || e.message.contains("SSL on") => {
            "the server does not let this user in with TLS: if it should be without, say sslmode=disable"
        }
        ("28000", _) if e.message.contains("pg_hba.conf") => "the server's pg_hba.conf has no line for this user, database and address",
        ("08P01", _) if e.message.contains("startup parameter") => "a pooler refuses it: leave options and PGOPTIONS away",
        ("42501", _) if e.message.contains("row-level security") => {
            "rows that the policies hide would be missing: read as a role with BYPASSRLS, or set row_security=on to copy only what this role may see"
        }
        ("25006", _) => "is this a standby? target_session_attrs=read-write picks the primary among several hosts",
        ("53300", _) => "lower --degree, or raise max_connections at the server",
        ("57014", ErrorKind::Timeout) => "raise or remove statement_timeout",
        ("40001", _) if e.message.contains("recovery") => {
            "on a standby, long reads conflict with replay: raise max_standby_streaming_delay, set hot_standby_feedback = on, or read from the primary"
        }
        (_, ErrorKind::DiskFull) => "free some space on the server's disk",
        (_, ErrorKind::Permission) => "ask the owner for the right, or use another role",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_error(where_: &str) -> PgError {
        PgError { where_: Some(where_.into()), ..PgError::default() }
    }

    #[test]
    fn places_of_copy_errors() {
        assert_eq!(copy_place(&copy_error("COPY t, line 3, column n: \"x, line 9\"")), Some((3, Some("n".into()))));
        assert_eq!(copy_place(&copy_error("COPY t, line 12: \"7\"")), Some((12, None)));
        assert_eq!(copy_place(&copy_error("PL/pgSQL function f() line 1 at RAISE\nCOPY t, line 5, column b")), Some((5, Some("b".into()))));
        assert_eq!(copy_place(&copy_error("SQL statement")), None);
    }

    #[test]
    fn kinds_follow_the_state() {
        for (code, kind) in [
            ("28P01", ErrorKind::Auth),
            ("42501", ErrorKind::Permission),
            ("42P01", ErrorKind::NotFound),
            ("53100", ErrorKind::DiskFull),
            ("40P01", ErrorKind::Conflict),
            ("23505", ErrorKind::Constraint),
            ("22003", ErrorKind::Data),
            ("08006", ErrorKind::Connect),
            ("57P01", ErrorKind::Connect),
            ("XX000", ErrorKind::Server),
            ("", ErrorKind::Server),
        ] {
            assert_eq!(kind_of(code, ""), kind, "{code}");
        }
        assert_eq!(kind_of("57014", "canceling statement due to statement timeout"), ErrorKind::Timeout);
        assert_eq!(kind_of("57014", "canceling statement due to user request"), ErrorKind::Cancelled);
    }
}
