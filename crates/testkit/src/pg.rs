//! A scratch database per test, and SQL through `psql`: the server's own client is the oracle, not our code.

use crate::services::{Postgres, postgres, postgres18};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

fn unique() -> String {
    format!("haul_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A database of its own, dropped in the end with the roles that it made.
#[derive(Debug)]
pub struct Scratch {
    /// The server.
    pub server: Postgres,
    /// The database's name.
    pub database: String,
    roles: Vec<String>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// An empty UTF-8 database.
    ///
    /// # Panics
    /// Outside `./test`.
    pub fn new() -> Self {
        Self::with(postgres(), "")
    }

    /// An empty UTF-8 database of PostgreSQL 18.
    ///
    /// # Panics
    /// As [`Scratch::new`].
    pub fn on_18() -> Self {
        Self::with(postgres18(), "")
    }

    /// An empty database in another encoding: `LATIN1`, `SQL_ASCII`, `EUC_JP`.
    ///
    /// # Panics
    /// As [`Scratch::new`].
    pub fn with_encoding(encoding: &str) -> Self {
        Self::with(postgres(), &format!("template template0 encoding '{encoding}' locale 'C'"))
    }

    fn with(server: Postgres, options: &str) -> Self {
        let database = unique();
        check(psql(&server, "postgres", "postgres", &format!("create database {database} {options}")));
        Self { server, database, roles: Vec::new() }
    }

    /// The database as a URI for the superuser, over TCP: `postgres://postgres@127.0.0.1:PORT/DB`.
    pub fn url(&self) -> String {
        self.url_of("postgres", "")
    }

    /// The database as a URI for a role; the password is percent-encoded.
    pub fn url_of(&self, role: &str, password: &str) -> String {
        let password = if password.is_empty() { String::new() } else { format!(":{}", haul_model::percent_encode(password)) };
        format!("postgres://{role}{password}@127.0.0.1:{}/{}", self.server.port, self.database)
    }

    /// The URI with settings: `table("public.t")` is `...?table=public.t`.
    pub fn table(&self, table: &str) -> String {
        format!("{}?table={}", self.url(), haul_model::percent_encode(table))
    }

    /// Runs statements in autocommit, stops at the first error, and returns what they print, unaligned, `|` between
    /// columns, NULL as `<NULL>`.
    ///
    /// # Panics
    /// With the server's message, when one fails.
    pub fn sql(&self, sql: &str) -> String {
        check(psql(&self.server, &self.database, "postgres", sql))
    }

    /// As [`Scratch::sql`]; the server's message where one fails.
    ///
    /// # Errors
    /// What psql printed on stderr.
    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        text(psql(&self.server, &self.database, "postgres", sql))
    }

    /// As [`Scratch::try_sql`], as another role that needs no password over the socket (`set role` is undone at the end).
    ///
    /// # Errors
    /// What psql printed on stderr.
    pub fn try_sql_as(&self, role: &str, sql: &str) -> Result<String, String> {
        self.try_sql(&format!("set role {role};\n{sql}"))
    }

    /// The raw bytes that `COPY (query) TO STDOUT` gives, with the options: `format csv, header`.
    ///
    /// # Panics
    /// When it fails.
    pub fn copy_out(&self, query: &str, options: &str) -> Vec<u8> {
        let output = psql(&self.server, &self.database, "postgres", &format!("copy ({query}) to stdout with ({options})"));
        assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Creates a login role, unique to this test, with attributes (`"superuser"`, `""`). It is dropped with the database.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn role(&mut self, password: &str, attributes: &str) -> String {
        let role = unique();
        self.sql(&format!("create role {role} login password '{}' {attributes}", password.replace('\'', "''")));
        self.roles.push(role.clone());
        role
    }

    /// A session that stays open: for locks, transactions that block, temporary tables.
    ///
    /// # Panics
    /// When psql cannot be run.
    pub fn session(&self) -> Session {
        let mut child = command(&self.server, &self.database, "postgres").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Session { child, input: Some(input), output }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let roles = self.roles.iter().map(|role| format!("drop owned by {role} cascade; drop role {role};")).collect::<String>();
        // A test that panics must not be hidden by what its leftovers say.
        let _ = psql(&self.server, &self.database, "postgres", &roles);
        let _ = psql(&self.server, "postgres", "postgres", &format!("drop database if exists {} with (force)", self.database));
    }
}

/// An open psql session.
#[derive(Debug)]
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    /// Runs statements and returns what they print. An error ends the session.
    ///
    /// # Panics
    /// When the session has ended.
    pub fn sql(&mut self, sql: &str) -> String {
        self.send(sql);
        self.wait()
    }

    /// Sends statements without waiting, for those that block; [`Session::wait`] gets their output.
    ///
    /// # Panics
    /// When the session has ended.
    pub fn send(&mut self, sql: &str) {
        let input = self.input.as_mut().unwrap();
        write!(input, "{sql};\n\\echo haul-session-done\n").unwrap();
        input.flush().unwrap();
    }

    /// The output of the statements sent last.
    ///
    /// # Panics
    /// When the session has ended.
    pub fn wait(&mut self) -> String {
        let (mut out, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the psql session ended; it had printed {out:?}");
            if line.trim_end() == "haul-session-done" {
                return out.trim_end().to_string();
            }
            out.push_str(&line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(server: &Postgres, database: &str, role: &str) -> Command {
    let mut command = Command::new(server.bin.join("psql"));
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P", "null=<NULL>", "-U", role, "-d", database, "-p"]);
    command.arg(server.port.to_string()).arg("-h").arg(&server.socket);
    // Nothing that a developer has set may reach the oracle.
    for name in ["PGOPTIONS", "PGPASSWORD", "PGSERVICE", "PGSSLMODE", "PGDATESTYLE", "PGTZ"] {
        command.env_remove(name);
    }
    command.env("PGCLIENTENCODING", "UTF8");
    command
}

fn psql(server: &Postgres, database: &str, role: &str, sql: &str) -> Output {
    let mut command = command(server, database, role);
    let mut child = command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let sql = sql.to_string();
    // Written aside, so that neither pipe can block the other; psql stops reading when a statement fails.
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(sql.as_bytes()).and_then(|()| input.write_all(b"\n;\n"));
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(output: Output) -> Result<String, String> {
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn check(output: Output) -> String {
    text(output).unwrap_or_else(|message| panic!("{message}"))
}
