//! What can go wrong between here and the server.

use std::fmt;
use std::io;
use std::time::Duration;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed. `host` is always the server as [`crate::Host`] shows it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used as it is.
    #[error("{0}")]
    Config(String),
    /// The host name has no address.
    #[error("{host}: the host name cannot be resolved: {source}")]
    Resolve {
        /// The server.
        host: String,
        /// The resolver's answer.
        source: io::Error,
    },
    /// A socket operation failed.
    #[error("{host}: {what}: {source}")]
    Io {
        /// The server.
        host: String,
        /// What was being done: `connect`, `read`, `write`.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The server ended the connection without saying why.
    #[error("{host}: the server closed the connection unexpectedly")]
    Closed {
        /// The server.
        host: String,
    },
    /// Nothing happened for too long.
    #[error("{host}: {what} took longer than {after:?}")]
    Timeout {
        /// The server.
        host: String,
        /// What was being waited for.
        what: &'static str,
        /// The limit.
        after: Duration,
    },
    /// The stop flag was set; a running statement was cancelled.
    #[error("stopped")]
    Cancelled,
    /// TLS was asked for and could not be had, or the certificate does not hold.
    #[error("{host}: {reason}")]
    Tls {
        /// The server.
        host: String,
        /// Why.
        reason: String,
    },
    /// Authentication could not be done (the server's own refusal is `Server`).
    #[error("{host}: {reason}")]
    Auth {
        /// The server.
        host: String,
        /// Why.
        reason: String,
    },
    /// The other side does not speak the protocol as specified.
    #[error("{host}: protocol error: {detail}")]
    Protocol {
        /// The server.
        host: String,
        /// What was wrong.
        detail: String,
    },
    /// One message is larger than the limit.
    #[error("a row of {bytes} bytes is larger than the limit of {limit} bytes")]
    RowTooLarge {
        /// Its size on the wire.
        bytes: u64,
        /// The limit.
        limit: u64,
        /// Rows received before it.
        row: u64,
    },
    /// The server refused or failed.
    #[error("{0}")]
    Server(Box<PgError>),
    /// The connection cannot be used any more because of an earlier error.
    #[error("{host}: the connection is no longer usable")]
    Broken {
        /// The server.
        host: String,
    },
    /// The host is up, but not what `target_session_attrs` asks for.
    #[error("{host}: the server is {is}, target_session_attrs wants {wanted}")]
    WrongSession {
        /// The server.
        host: String,
        /// What it is.
        is: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// None of several hosts could be used.
    #[error("no host could be used: {}", .0.iter().map(|e| e.to_string()).collect::<Vec<_>>().join("; "))]
    AllHosts(Vec<Error>),
}

impl Error {
    /// The server's error, if it is one.
    pub fn server(&self) -> Option<&PgError> {
        match self {
            Self::Server(e) => Some(e),
            _ => None,
        }
    }

    /// SQLSTATE, if the server sent one.
    pub fn code(&self) -> Option<&str> {
        self.server().map(|e| e.code.as_str())
    }
}

/// An error or notice as the server reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PgError {
    /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, ... (not localised).
    pub severity: String,
    /// SQLSTATE, five characters.
    pub code: String,
    /// Primary message.
    pub message: String,
    /// Detail.
    pub detail: Option<String>,
    /// Hint.
    pub hint: Option<String>,
    /// Call stack of the server; for COPY `COPY t, line 3, column n: "x"`.
    pub where_: Option<String>,
    /// Schema of the object.
    pub schema: Option<String>,
    /// Table.
    pub table: Option<String>,
    /// Column.
    pub column: Option<String>,
    /// Data type.
    pub data_type: Option<String>,
    /// Constraint.
    pub constraint: Option<String>,
    /// Character position in the statement, from 1.
    pub position: Option<u32>,
    /// Name of the server's function that reported it.
    pub routine: Option<String>,
}

impl PgError {
    /// From the body of an ErrorResponse or NoticeResponse. Bytes that are not UTF-8 (an error before
    /// the encoding is agreed on) are replaced.
    pub(crate) fn parse(mut body: &[u8]) -> Self {
        let mut error = Self::default();
        while let Some((&kind, rest)) = body.split_first() {
            let Some(end) = memchr::memchr(0, rest) else { break };
            let text = String::from_utf8_lossy(&rest[..end]).into_owned();
            body = &rest[end + 1..];
            match kind {
                b'S' if error.severity.is_empty() => error.severity = text,
                b'V' => error.severity = text,
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = Some(text),
                b'H' => error.hint = Some(text),
                b'W' => error.where_ = Some(text),
                b's' => error.schema = Some(text),
                b't' => error.table = Some(text),
                b'c' => error.column = Some(text),
                b'd' => error.data_type = Some(text),
                b'n' => error.constraint = Some(text),
                b'P' => error.position = text.parse().ok(),
                b'R' => error.routine = Some(text),
                _ => {}
            }
        }
        error
    }

    /// Whether the session is over.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl std::error::Error for PgError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_error_response() {
        let body = b"SFEHLER\0VERROR\0C22P02\0Mbad\0Wwhere\0ttab\0ccol\0P12\0Xunknown\0\0";
        let error = PgError::parse(body);
        assert_eq!((error.severity.as_str(), error.code.as_str(), error.message.as_str()), ("ERROR", "22P02", "bad"));
        assert_eq!((error.table.as_deref(), error.column.as_deref(), error.position), (Some("tab"), Some("col"), Some(12)));
        assert!(!error.is_fatal());
        assert_eq!(PgError::parse(b"Mcut off").message, "");
    }
}
