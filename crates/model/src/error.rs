//! Errors as a colleague would tell them: what failed, where, and what to do.
//!
//! A library builds an [`Error`] with its kind, an owned detail and the exact [`Place`]; the CLI renders it
//! once. Which kinds may be tried again stands in one table of the engine.

use std::fmt;

/// `Result` with Haul's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of thing failed. Decides the exit code, and whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The command line is wrong (exit 2).
    Usage,
    /// A setting, URI or job file is wrong (exit 2).
    Config,
    /// A file, table, column or host does not exist.
    NotFound,
    /// Something is there that would be overwritten.
    Exists,
    /// The server or the file system refuses for lack of rights.
    Permission,
    /// A connection could not be made or broke.
    Connect,
    /// Wrong user or password, or no method in common.
    Auth,
    /// TLS was asked for and could not be had, or the certificate does not hold.
    Tls,
    /// Nothing happened for too long.
    Timeout,
    /// The operating system refused a read or write.
    Io,
    /// No space left on a disk, ours or the server's.
    DiskFull,
    /// A record is malformed, or a value does not fit its type.
    Data,
    /// A value is fine but the target cannot hold it exactly.
    Lossy,
    /// Columns or types of the two sides do not match.
    Schema,
    /// A constraint of the target refuses a row.
    Constraint,
    /// Two sides that should be equal are not.
    Mismatch,
    /// Deadlock or serialization failure: the server asks for another try.
    Conflict,
    /// Stopped by the user, a signal, or the server's administrator.
    Cancelled,
    /// A configured limit (row bytes, rejects, budget) was reached.
    Limit,
    /// The other side does not speak the protocol as specified.
    Protocol,
    /// Any other error that a server reported.
    Server,
    /// Valid, but not something Haul does.
    Unsupported,
    /// A broken invariant of Haul itself.
    Internal,
}

impl ErrorKind {
    /// Whether the user's input (not the world) is at fault: the CLI exits with 2.
    pub fn is_usage(self) -> bool {
        matches!(self, Self::Usage | Self::Config)
    }
}

/// Where it happened. Every part is optional; numbers count from 1, bytes from 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Table, file, host or URI (without secrets).
    pub object: Option<String>,
    /// Column name.
    pub column: Option<String>,
    /// Record number in the source, from 1 (header not counted).
    pub row: Option<u64>,
    /// Record index inside the chunk, from 0, until the engine knows the absolute row.
    pub row_in_chunk: Option<u64>,
    /// Physical line in a text file, from 1.
    pub line: Option<u64>,
    /// Byte offset in the (decompressed) input, from 0.
    pub byte: Option<u64>,
    /// Offset in a log (a topic's partition): the record's own number there.
    pub offset: Option<u64>,
}

struct Inner {
    kind: ErrorKind,
    detail: String,
    place: Place,
    hint: Option<String>,
    code: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// An error with its kind, detail, place and hint. One pointer wide.
pub struct Error(Box<Inner>);

impl Error {
    /// A new error. `detail` says what failed in one clause, without a trailing full stop.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, detail: detail.into(), place: Place::default(), hint: None, code: None, source: None }))
    }

    /// A broken invariant of Haul itself.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, detail)
    }

    /// An operating system error on `object`; the kind follows the errno.
    pub fn io(object: impl Into<String>, what: &str, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let (kind, hint) = match source.kind() {
            Io::NotFound => (ErrorKind::NotFound, None),
            Io::PermissionDenied => (ErrorKind::Permission, None),
            Io::AlreadyExists => (ErrorKind::Exists, None),
            Io::StorageFull | Io::QuotaExceeded => (ErrorKind::DiskFull, Some("free some space there, or write to another disk")),
            Io::TimedOut | Io::WouldBlock => (ErrorKind::Timeout, None),
            Io::ConnectionRefused | Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe | Io::UnexpectedEof => {
                (ErrorKind::Connect, None)
            }
            _ => (ErrorKind::Io, None),
        };
        let text = match source.kind() {
            Io::StorageFull => "no space left on the device".to_string(),
            Io::NotFound => "no such file or directory".to_string(),
            Io::PermissionDenied => "permission denied".to_string(),
            _ => source.to_string(),
        };
        let mut error = Self::new(kind, format!("{what}: {text}")).object(object);
        if let Some(hint) = hint {
            error = error.hint(hint);
        }
        error.0.source = Some(Box::new(source));
        error
    }

    /// Names the table, file or host, unless one is named already.
    pub fn object(mut self, object: impl Into<String>) -> Self {
        self.0.place.object.get_or_insert_with(|| object.into());
        self
    }
    /// Names the column, unless one is named already.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.0.place.column.get_or_insert_with(|| column.into());
        self
    }
    /// Sets the absolute record number (from 1).
    pub fn row(mut self, row: u64) -> Self {
        self.0.place.row = Some(row);
        self
    }
    /// Sets the record index inside the chunk (from 0); the engine turns it into a row.
    pub fn row_in_chunk(mut self, row: u64) -> Self {
        self.0.place.row_in_chunk = Some(row);
        self
    }
    /// Sets the physical line (from 1).
    pub fn line(mut self, line: u64) -> Self {
        self.0.place.line = Some(line);
        self
    }
    /// Sets the byte offset (from 0).
    pub fn byte(mut self, byte: u64) -> Self {
        self.0.place.byte = Some(byte);
        self
    }
    /// Sets the offset in a log.
    pub fn offset(mut self, offset: u64) -> Self {
        self.0.place.offset.get_or_insert(offset);
        self
    }
    /// Adds what the user can do about it, unless a hint is there already.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }
    /// Adds what else the user can do, behind the hint that may be there.
    pub fn also(mut self, hint: impl fmt::Display) -> Self {
        self.0.hint = Some(match self.0.hint.take() {
            Some(first) => format!("{first}; {hint}"),
            None => hint.to_string(),
        });
        self
    }
    /// Keeps the server's own error code (SQLSTATE and the like).
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }
    /// Keeps the underlying error for `source()`.
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }
    /// Puts `what` in front of the detail: `"what: detail"`.
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.detail = format!("{what}: {}", self.0.detail);
        self
    }
    /// Puts what narrows it down behind the detail: `"detail, where"`.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.detail.push_str(&format!(", {place}"));
        self
    }
    /// Once the number of records before the chunk is known: the absolute row.
    pub fn resolve_row(mut self, records_before: u64) -> Self {
        if let Some(row) = self.0.place.row_in_chunk.take() {
            self.0.place.row.get_or_insert(records_before + row + 1);
        }
        self
    }

    /// As [`Error::resolve_row`] where rows are only numbered inside a part of the source, which is named.
    pub fn resolve_row_in(mut self, records_before: u64, part: &str) -> Self {
        if let Some(row) = self.0.place.row_in_chunk.take() {
            self.0.detail.push_str(&format!(" (row {} of {part})", records_before + row + 1));
        }
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// What failed, without place and hint.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }
    /// Where.
    pub fn place(&self) -> &Place {
        &self.0.place
    }
    /// What to do.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    /// The server's code.
    pub fn code_text(&self) -> Option<&str> {
        self.0.code.as_deref()
    }
}

impl fmt::Display for Place {
    /// `bench.csv, line 3, column "n"`; empty when nothing is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sep = "";
        if let Some(object) = &self.object {
            write!(f, "{object}")?;
            sep = ", ";
        }
        if let Some(line) = self.line {
            write!(f, "{sep}line {line}")?;
            sep = ", ";
        }
        match (self.offset, self.row) {
            // The number in the log finds the record; the one in this run does not.
            (Some(offset), _) => write!(f, "{sep}offset {offset}")?,
            (None, Some(row)) => write!(f, "{sep}row {row}")?,
            (None, None) => {}
        }
        if self.offset.is_some() || self.row.is_some() {
            sep = ", ";
        }
        if let Some(column) = &self.column {
            write!(f, "{sep}column {column:?}")?;
            sep = ", ";
        }
        if let Some(byte) = self.byte {
            write!(f, "{sep}byte {byte}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    /// `place: detail [code]`, on one line, without the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.0.place.to_string();
        if !place.is_empty() {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.0.detail)?;
        if let Some(code) = &self.0.code {
            write!(f, " [{code}]")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        if let Some(hint) = &self.0.hint {
            write!(f, " (hint: {hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|s| s.as_ref() as _)
    }
}

/// Adds a place to the error of a result.
pub trait ResultExt<T> {
    /// Names the table, file or host.
    fn object(self, object: impl Into<String>) -> Result<T>;
    /// Names the column.
    fn column(self, column: impl Into<String>) -> Result<T>;
    /// Adds a hint.
    fn hint(self, hint: impl Into<String>) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn object(self, object: impl Into<String>) -> Result<T> {
        self.map_err(|e| e.object(object))
    }
    fn column(self, column: impl Into<String>) -> Result<T> {
        self.map_err(|e| e.column(column))
    }
    fn hint(self, hint: impl Into<String>) -> Result<T> {
        self.map_err(|e| e.hint(hint))
    }
}
