//! From a URI, settings, `PG*` variables and the password file to a connection. Everything is read before anything connects.
//!
//! Precedence: URI and settings, then variables, then the password file (for the password), then libpq's defaults.

use super::address::{Address, parse_address};
use super::passfile;
use super::splits;
use haul_model::{Endpoint, Environment, Error, ErrorKind, Kind, Note, Result, Setting, Settings};
use haul_pgwire::{Config, Host, RootCert, Secret, SslMode, TargetSession};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SSL_WORDS: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Settings of the connection, for reading and for writing.
pub const CONNECTION: &[Setting] = &all_tuning([
    Setting::new(
        "table",
        Kind::Text,
        "",
        "The table: schema.name, a bare name (found through search_path), or \"Quoted.Name\". Names are exact.",
    )
    .alias(&["relation"]),
    Setting::new("host", Kind::Text, "PGHOST", "Host, address, folder of a Unix socket, or several of them separated by commas."),
    Setting::new("port", Kind::Text, "5432", "Port, or one for each host."),
    Setting::new("user", Kind::Text, "PGUSER", "Role to log in as."),
    Setting::new(
        "password",
        Kind::Text,
        "PGPASSWORD, ~/.pgpass",
        "Its password. The variable or the password file keep it out of your shell's history.",
    ),
    Setting::new("dbname", Kind::Text, "PGDATABASE", "Database; the user's name by default.").alias(&["database"]),
    Setting::new("sslmode", Kind::Choice(SSL_WORDS), "prefer", "As in libpq. require checks the certificate only if sslrootcert is given."),
    Setting::new("sslrootcert", Kind::Text, "~/.postgresql/root.crt", "PEM file of trusted CAs, or system for the operating system's."),
    Setting::new("sslcert", Kind::Path, "", "Client certificate (PEM)."),
    Setting::new("sslkey", Kind::Path, "", "Its private key (PEM, not encrypted)."),
    Setting::new(
        "target_session_attrs",
        Kind::Choice(&["any", "read-write", "read-only", "primary", "standby"]),
        "any",
        "Which of several hosts will do.",
    ),
    Setting::new("passfile", Kind::Path, "~/.pgpass", "Password file."),
    Setting::new("application_name", Kind::Text, "haul/RUN/LANE", "Name in pg_stat_activity."),
    Setting::new("options", Kind::Text, "", "Command-line options for the server process. Poolers refuse them."),
    Setting::new("connect_timeout", Kind::Duration, "30s", "Limit for look-up, TCP, TLS and log-in of one host."),
    Setting::new(
        "idle_timeout",
        Kind::Duration,
        "0",
        "A server that sends nothing for this long is given up. Off by default: a sort may be silent for hours, and dead peers are found by keep-alive probes within a minute.",
    ),
    Setting::new("statement_timeout", Kind::Duration, "0", "The server cancels a statement that runs longer."),
]);

const READING: &[Setting] = &[
    Setting::new("query", Kind::Text, "", "A SELECT to read instead of a table. Read in one lane, unless there is a split_key."),
    Setting::new("columns", Kind::List, "auto", "Only these columns, in this order."),
    Setting::new("where", Kind::Text, "", "SQL condition for the rows to read."),
    Setting::new("order_by", Kind::Text, "", "SQL sort order: name, other desc. Read in one lane."),
    Setting::new("limit", Kind::Int, "", "Read at most this many rows. Read in one lane."),
    Setting::new(
        "method",
        Kind::Choice(splits::WORDS),
        "auto",
        "How the read is cut into splits: none, ctid (pages), range (or rangeid), ntile, hash (or random), values (or distinct, datadriven). physloc and rowid belong to other engines.",
    )
    .tuning(),
    Setting::new(
        "split_key",
        Kind::List,
        "",
        "Column to cut by: one for range and ntile, one or more for hash and values. Names are exact.",
    )
    .tuning(),
    Setting::new(
        "split_query",
        Kind::Text,
        "",
        "A SELECT with the values to cut by, one row for each split (method=values). Rows that match none of them get a split too.",
    )
    .tuning(),
    Setting::new(
        "split_rows",
        Kind::Int,
        "automatic",
        "About this many rows in a split, going by the server's statistics, where the read is cut by pages or by the ranges of an indexed key.",
    )
    .tuning(),
    Setting::new(
        "cursor_column",
        Kind::Text,
        "",
        "Read in the order of this column, in one lane. Without it a table is read as it is stored, in parallel.",
    ),
    Setting::new(
        "cursor",
        Kind::Text,
        "",
        "Read only what is new since the last run, by this column whose values grow (a serial number, a time of change). Needs mode append or a mode with a key. Rows that commit late are not missed.",
    ),
    Setting::new(
        "cursor_lag",
        Kind::Text,
        "",
        "For a view or query, which cannot tell what commits late: read up to the highest value less this (5min, 1000), and the rest the next time.",
    ),
    Setting::new("backfill", Kind::Text, "", "FROM..TO: read the rows whose cursor is from FROM to below TO, and leave the position where it is."),
    Setting::new(
        "row_security",
        Kind::Choice(&["off", "on"]),
        "off",
        "off: a table whose row-level security hides rows from this role is an error. on: read what the role may see.",
    ),
    Setting::new("bulk_copy", Kind::Bool, "true", "Reading and writing always use COPY; accepted for scripts that say it.").tuning(),
    Setting::new("max_row_bytes", Kind::Bytes, "64MiB", "A larger row is an error, so that memory stays bounded.").tuning(),
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "What to do with a value that the target cannot hold exactly.",
    ),
];

/// Settings for reading.
pub static SOURCE: &[Setting] = &joined::<{ CONNECTION.len() + READING.len() }>(CONNECTION, READING);

/// Which place a connection leads to is told by [`haul_model::Connector::identity`]; how it gets there may change.
const fn all_tuning<const N: usize>(mut settings: [Setting; N]) -> [Setting; N] {
    let mut i = 0;
    while i < N {
        settings[i] = settings[i].tuning();
        i += 1;
    }
    settings
}

/// Two lists of settings as one.
pub const fn joined<const N: usize>(first: &[Setting], second: &[Setting]) -> [Setting; N] {
    assert!(first.len() + second.len() == N, "N is the sum of the lengths");
    let mut all = [first[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    all
}

/// Everything needed to open sessions.
#[derive(Debug, Clone)]
pub struct Target {
    /// For the wire. `application_name` is set for each session.
    pub config: Config,
    /// The name that the user gave, if any.
    pub application_name: Option<String>,
    /// Limit of the server for one statement; `None` = none.
    pub statement_timeout: Option<Duration>,
    /// The `table` setting.
    pub table: Option<TableName>,
    /// What the user should know (a password file that was ignored).
    pub notes: Vec<Note>,
}

/// A table as the user named it. Names are exact: nothing is folded to lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// Schema, if one was given.
    pub schema: Option<String>,
    /// Name.
    pub name: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl TableName {
    /// Parses `name`, `schema.name`, `"Name"`, `"Sche.ma"."na""me"`.
    ///
    /// # Errors
    /// `Config`: empty parts, an open quote, or more than two parts.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Err(Error::new(ErrorKind::Config, format!("the table name {text:?} cannot be understood: {why}"))
                .hint("write schema.name, and put a part that holds a dot into double quotes: \"my.schema\".\"my table\""))
        };
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            let part;
            if let Some(quoted) = rest.strip_prefix('"') {
                let mut name = String::new();
                let mut chars = quoted.char_indices();
                let end = loop {
                    match chars.next() {
                        None => return bad("a double quote is not closed"),
                        Some((i, '"')) if !quoted[i + 1..].starts_with('"') => break i + 1,
                        Some((_, '"')) => {
                            chars.next();
                            name.push('"');
                        }
                        Some((_, c)) => name.push(c),
                    }
                };
                (part, rest) = (name, &quoted[end..]);
            } else {
                let end = rest.find('.').unwrap_or(rest.len());
                (part, rest) = (rest[..end].to_string(), &rest[end..]);
            }
            if part.is_empty() {
                return bad("a part is empty");
            }
            parts.push(part);
            match rest.strip_prefix('.') {
                Some(more) => rest = more,
                None if rest.is_empty() => break,
                None => return bad("something follows a closing quote"),
            }
        }
        match <[String; 2]>::try_from(parts) {
            Ok([schema, name]) => Ok(Self { schema: Some(schema), name }),
            Err(mut parts) if parts.len() == 1 => Ok(Self { schema: None, name: parts.remove(0) }),
            Err(_) => bad("it has more than two parts"),
        }
    }
}

/// Variables of libpq that would change the connection in ways that are not done here.
const NOT_SUPPORTED: &[(&str, &str)] = &[
    ("PGSERVICE", "service files are not read: put host, user and database into the URI"),
    ("PGHOSTADDR", "use PGHOST or the URI's host"),
    ("PGREQUIREPEER", "the owner of a Unix socket is not checked"),
    ("PGREQUIREAUTH", "authentication methods cannot be restricted"),
    ("PGSSLCRL", "certificate revocation lists are not checked"),
    ("PGSSLCRLDIR", "certificate revocation lists are not checked"),
];

/// Looks only at the shape of an endpoint, before its query is taken for settings: an unencoded `?` in a password
/// makes the rest of the password a "setting", which must not be repeated in a message.
///
/// # Errors
/// `Config`, saying to percent-encode.
pub fn check_shape(endpoint: &Endpoint) -> Result<()> {
    parse_address(&endpoint.address)?;
    let odd = |key: &str| !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if endpoint.query.iter().any(|(key, _)| odd(key)) {
        return Err(super::address::unencoded());
    }
    Ok(())
}

/// Puts together what the user gave.
///
/// # Errors
/// `Config`: a URI that cannot be understood, contradicting or missing parts, variables that are not supported.
pub fn target(endpoint: &Endpoint, settings: &Settings, env: &Environment) -> Result<Target> {
    check_shape(endpoint)?;
    let address = parse_address(&endpoint.address)?;
    for (name, why) in NOT_SUPPORTED {
        if env.var(name).is_some() {
            return Err(
                Error::new(ErrorKind::Config, format!("{name} is set, and that is not supported: {why}")).hint(format!("unset {name}"))
            );
        }
    }
    let given =
        |setting: &str, variable: &str| settings.text(setting).filter(|v| !v.is_empty()).or_else(|| env.var(variable)).map(str::to_string);
    let user = address
        .user
        .clone()
        .or_else(|| given("user", "PGUSER"))
        .or_else(|| env.var("USER").or_else(|| env.var("LOGNAME")).map(str::to_string));
    let user =
        user.ok_or_else(|| Error::new(ErrorKind::Config, "no user to log in as").hint("write postgres://USER@host/db, or set PGUSER"))?;
    let database = address.database.clone().or_else(|| given("dbname", "PGDATABASE")).unwrap_or_else(|| user.clone());
    let mut notes = Vec::new();
    let hosts = hosts(&address, settings, env)?;
    let password = match address.password.clone().or_else(|| given("password", "PGPASSWORD")) {
        Some(password) => Some(password),
        None => from_passfile(&hosts, &database, &user, settings, env, &mut notes)?,
    };
    let mut config = Config::new(hosts[0].clone(), user, database);
    config.hosts = hosts;
    config.password = password.map(Secret::new);
    config.options = given("options", "PGOPTIONS");
    tls(&mut config, settings, env)?;
    if let Some(word) = given("target_session_attrs", "PGTARGETSESSIONATTRS") {
        config.target_session_attrs = TargetSession::parse(&word.to_ascii_lowercase()).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("target_session_attrs {word:?} is not known"))
                .hint("use any, read-write, read-only, primary or standby")
        })?;
    }
    let on = |limit: Duration| (!limit.is_zero()).then_some(limit);
    match (settings.duration("connect_timeout"), env.var("PGCONNECT_TIMEOUT")) {
        (Some(limit), _) => config.connect_timeout = on(limit),
        (None, Some(text)) => {
            let seconds: i64 = text
                .trim()
                .parse()
                .map_err(|_| Error::new(ErrorKind::Config, format!("PGCONNECT_TIMEOUT is not a number of seconds: {text:?}")))?;
            config.connect_timeout = u64::try_from(seconds).ok().map(Duration::from_secs).and_then(on);
        }
        (None, None) => {}
    }
    config.idle_timeout = settings.duration("idle_timeout").and_then(on);
    Ok(Target {
        config,
        application_name: given("application_name", "PGAPPNAME"),
        statement_timeout: settings.duration("statement_timeout").and_then(on),
        table: settings.text("table").map(TableName::parse).transpose()?,
        notes,
    })
}

/// The servers to try: the URI's, or `host` and `port`, or the variables, or the usual socket.
fn hosts(address: &Address, settings: &Settings, env: &Environment) -> Result<Vec<Host>> {
    let conflict = |what: &str| Error::new(ErrorKind::Config, format!("the {what} is given twice: in the address and as a setting"));
    let named = settings.text("host").filter(|h| !h.is_empty());
    if named.is_some() && address.hosts.iter().any(|(host, _)| !host.is_empty()) {
        return Err(conflict("host"));
    }
    let ports = settings.text("port").filter(|p| !p.is_empty());
    if ports.is_some() && address.hosts.iter().any(|(_, port)| port.is_some()) {
        return Err(conflict("port"));
    }
    let ports = ports.or_else(|| env.var("PGPORT")).unwrap_or("5432");
    let ports: Vec<u16> = ports.split(',').map(|p| parse_port(p.trim())).collect::<Result<_>>()?;
    let names: Vec<(String, Option<u16>)> = match named.or_else(|| env.var("PGHOST")) {
        Some(list) if address.hosts.iter().all(|(host, _)| host.is_empty()) => {
            let own = address.hosts.first().and_then(|(_, port)| *port);
            list.split(',').map(|h| (h.trim().trim_start_matches('[').trim_end_matches(']').to_string(), own)).collect()
        }
        _ if address.hosts.is_empty() => vec![(String::new(), None)],
        _ => address.hosts.clone(),
    };
    if ports.len() > 1 && ports.len() != names.len() {
        return Err(Error::new(ErrorKind::Config, format!("{} ports for {} hosts", ports.len(), names.len()))
            .hint("give one port, or one for each host"));
    }
    let host = |(i, (name, port)): (usize, (String, Option<u16>))| {
        let port = port.unwrap_or(if ports.len() > 1 { ports[i] } else { ports[0] });
        match name.as_str() {
            "" => Host::Unix(default_socket_folder(port), port),
            path if path.starts_with('/') || path.starts_with('@') => Host::Unix(PathBuf::from(path), port),
            _ => Host::Tcp(name, port),
        }
    };
    Ok(names.into_iter().enumerate().map(host).collect())
}

fn parse_port(text: &str) -> Result<u16> {
    text.parse().ok().filter(|p| *p > 0).ok_or_else(|| Error::new(ErrorKind::Config, format!("{text:?} is not a port")))
}

/// Debian's and everyone else's place for the socket.
fn default_socket_folder(port: u16) -> PathBuf {
    const PLACES: &[&str] = &["/var/run/postgresql", "/tmp"];
    let there = PLACES.iter().find(|folder| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists());
    PathBuf::from(there.unwrap_or(&PLACES[0]))
}

fn tls(config: &mut Config, settings: &Settings, env: &Environment) -> Result<()> {
    let given = |setting: &str, variable: &str| settings.text(setting).filter(|v| !v.is_empty()).or_else(|| env.var(variable));
    let mode = given("sslmode", "PGSSLMODE");
    config.sslrootcert = match given("sslrootcert", "PGSSLROOTCERT") {
        Some("system") => RootCert::System,
        Some(path) => RootCert::File(path.into()),
        None => RootCert::None,
    };
    config.sslmode = match mode {
        Some(word) => SslMode::parse(&word.to_ascii_lowercase()).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("sslmode {word:?} is not known")).hint(format!("use one of {}", SSL_WORDS.join(", ")))
        })?,
        // As in libpq: whoever trusts the public CAs must check the name.
        None if config.sslrootcert == RootCert::System => SslMode::VerifyFull,
        None => SslMode::Prefer,
    };
    let of_home = |name: &str| env.home.as_ref().map(|home| home.join(".postgresql").join(name)).filter(|path| path.is_file());
    if config.sslrootcert == RootCert::None
        && config.sslmode >= SslMode::Require
        && let Some(path) = of_home("root.crt")
    {
        config.sslrootcert = RootCert::File(path);
    }
    config.sslcert = given("sslcert", "PGSSLCERT").map(PathBuf::from);
    config.sslkey = given("sslkey", "PGSSLKEY").map(PathBuf::from);
    if config.sslcert.is_none() && config.sslkey.is_none() && config.sslmode != SslMode::Disable {
        let pair = of_home("postgresql.crt").zip(of_home("postgresql.key"));
        (config.sslcert, config.sslkey) = pair.unzip();
    }
    match env.var("PGCHANNELBINDING") {
        None | Some("prefer") => Ok(()),
        Some(_) => {
            Err(Error::new(ErrorKind::Config, "PGCHANNELBINDING is set, and only prefer is supported").hint("unset PGCHANNELBINDING"))
        }
    }
}

fn from_passfile(
    hosts: &[Host],
    database: &str,
    user: &str,
    settings: &Settings,
    env: &Environment,
    notes: &mut Vec<Note>,
) -> Result<Option<String>> {
    let named = settings.text("passfile").or_else(|| env.var("PGPASSFILE")).map(PathBuf::from);
    let Some(path) = named.or_else(|| env.home.as_ref().map(|home| home.join(".pgpass"))) else { return Ok(None) };
    let text = match passfile::read(&path)? {
        passfile::Content::Text(text) => text,
        passfile::Content::Absent => return Ok(None),
        passfile::Content::Unsafe(mode) => {
            notes.push(Note::new(format!(
                "{} is ignored: others can read it (mode {mode:04o}); chmod 0600 makes it usable",
                path.display()
            )));
            return Ok(None);
        }
    };
    let mut found = hosts.iter().map(|host| passfile::find(&text, host, database, user));
    let first = found.next().flatten();
    // One password is tried on every host; a file with several is better refused than used wrongly.
    if first.is_some() && found.any(|other| other != first) {
        return Err(Error::new(ErrorKind::Config, format!("{} has different passwords for the hosts of one connection", path.display()))
            .hint("use one host, or give the password by PGPASSWORD"));
    }
    Ok(first)
}
