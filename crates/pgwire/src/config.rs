//! Where and how to connect: plain data, with libpq's words and meanings.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A password. `Debug` shows three stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The password itself, for the authentication exchange only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One server to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Host name or address, and port.
    Tcp(String, u16),
    /// Folder of the socket, and port (the socket is `.s.PGSQL.<port>` in it).
    Unix(PathBuf, u16),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(folder, port) => write!(f, "{}/.s.PGSQL.{port}", folder.display()),
        }
    }
}

/// `sslmode`, as libpq means it. Never used on Unix sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// Plain first, TLS if the server refuses that.
    Allow,
    /// TLS unless the server says it has none.
    #[default]
    Prefer,
    /// TLS; the certificate is checked only if a root file is given (then as `verify-ca`).
    Require,
    /// TLS, and the certificate must come from a trusted CA.
    VerifyCa,
    /// As `verify-ca`, and it must be for this host name.
    VerifyFull,
}

impl SslMode {
    /// All words, weakest first.
    pub const WORDS: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

    /// From libpq's word; `None` for anything else.
    pub fn parse(word: &str) -> Option<Self> {
        const MODES: [SslMode; 6] =
            [SslMode::Disable, SslMode::Allow, SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];
        SslMode::WORDS.iter().position(|w| *w == word).map(|i| MODES[i])
    }

    /// libpq's word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

/// Where trusted CA certificates come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RootCert {
    /// None given.
    #[default]
    None,
    /// The operating system's store (`sslrootcert=system`).
    System,
    /// A PEM file.
    File(PathBuf),
}

/// `target_session_attrs`: which of several hosts is acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetSession {
    /// Any server.
    #[default]
    Any,
    /// One that takes writes.
    ReadWrite,
    /// One that does not take writes.
    ReadOnly,
    /// One that is not in recovery.
    Primary,
    /// One that is in recovery.
    Standby,
}

impl TargetSession {
    /// From libpq's word; `None` for anything else (`prefer-standby` is not done).
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "any" => Self::Any,
            "read-write" => Self::ReadWrite,
            "read-only" => Self::ReadOnly,
            "primary" => Self::Primary,
            "standby" => Self::Standby,
            _ => return None,
        })
    }
}

/// Everything needed to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Servers, tried in order.
    pub hosts: Vec<Host>,
    /// Role.
    pub user: String,
    /// Password, if there is one.
    pub password: Option<Secret>,
    /// Database.
    pub database: String,
    /// TLS.
    pub sslmode: SslMode,
    /// Trusted CAs.
    pub sslrootcert: RootCert,
    /// Client certificate (PEM), together with `sslkey`.
    pub sslcert: Option<PathBuf>,
    /// Its private key (PEM, unencrypted).
    pub sslkey: Option<PathBuf>,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// Command-line options for the server process (`-c name=value`); most poolers refuse them.
    pub options: Option<String>,
    /// A replication connection to the database: for slots and streams of changes; SQL has no parameters there.
    pub replication: bool,
    /// Which host is acceptable.
    pub target_session_attrs: TargetSession,
    /// Limit for one host: name look-up, TCP, TLS and log-in together; `None` = no limit.
    pub connect_timeout: Option<Duration>,
    /// A read that receives nothing for this long fails; `None` = wait (keep-alive probes still find dead peers).
    pub idle_timeout: Option<Duration>,
    /// How long sent data may stay unacknowledged, and how long a silent peer may leave keep-alive probes unanswered.
    pub tcp_user_timeout: Duration,
}

impl Config {
    /// A configuration for one host with libpq's defaults.
    pub fn new(host: Host, user: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            hosts: vec![host],
            user: user.into(),
            password: None,
            database: database.into(),
            sslmode: SslMode::default(),
            sslrootcert: RootCert::None,
            sslcert: None,
            sslkey: None,
            application_name: "haul".into(),
            options: None,
            replication: false,
            target_session_attrs: TargetSession::Any,
            connect_timeout: Some(Duration::from_secs(30)),
            idle_timeout: None,
            tcp_user_timeout: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_password() {
        let mut config = Config::new(Host::Tcp("h".into(), 5432), "u", "d");
        config.password = Some(Secret::new("hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn ssl_words_round_trip_and_unknown_is_none() {
        for word in SslMode::WORDS {
            assert_eq!(SslMode::parse(word).unwrap().word(), *word);
        }
        assert_eq!(SslMode::parse("verify_full"), None);
    }

    #[test]
    fn hosts_are_shown_as_typed() {
        assert_eq!(Host::Tcp("::1".into(), 1).to_string(), "[::1]:1");
        assert_eq!(Host::Unix("/tmp".into(), 5432).to_string(), "/tmp/.s.PGSQL.5432");
    }
}
