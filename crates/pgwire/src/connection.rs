//! A session: statements, their results as text, and what the server says beside them.

use crate::link::{Canceller, Frame, Link};
use crate::rows::Body;
use crate::startup::{self, not_expected};
use crate::{Column, Config, Error, Host, PgError, Result, Rows};
use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Whether a transaction is open, as the server reported last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// None.
    None,
    /// Open.
    Open,
    /// Open and failed: only ROLLBACK is possible.
    Failed,
}

/// What may be done with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server waits for a statement.
    Ready,
    /// A COPY is going on.
    Busy,
    /// An error left the stream in an unknown place.
    Broken,
}

/// The last notices; older ones are dropped.
#[derive(Debug, Default)]
pub(crate) struct Notices(VecDeque<PgError>);

impl Notices {
    const KEEP: usize = 100;

    pub fn push(&mut self, notice: PgError) {
        if self.0.len() == Self::KEEP {
            self.0.pop_front();
        }
        self.0.push_back(notice);
    }
}

/// A session with a server. One thread uses it at a time. Dropping it ends the session; an open transaction rolls back.
pub struct Connection {
    link: Link,
    host: Host,
    parameters: HashMap<String, String>,
    notices: Notices,
    transaction: Transaction,
    state: State,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({}, {:?}, {:?})", self.host, self.state, self.transaction)
    }
}

impl Connection {
    /// Connects to the first acceptable host and logs in.
    ///
    /// # Errors
    /// Whatever kept the only host, or each of several ([`Error::AllHosts`]), from being used; a refused log-in at once.
    pub fn connect(config: &Config, stop: Arc<AtomicBool>) -> Result<Self> {
        startup::connect(config, stop)
    }

    pub(crate) fn new(link: Link, host: Host, parameters: HashMap<String, String>, notices: Notices) -> Self {
        Self { link, host, parameters, notices, transaction: Transaction::None, state: State::Ready }
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// The server that it is connected to.
    pub fn host(&self) -> &Host {
        &self.host
    }
    /// A run-time parameter that the server reports by itself: `server_version`, `TimeZone`, `in_hot_standby`, ...
    pub fn parameter_status(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }
    /// The server's version as a number as in `server_version_num` (150018); 0 if it cannot be told.
    pub fn server_version(&self) -> u32 {
        version_number(self.parameter_status("server_version").unwrap_or(""))
    }
    /// Process id of the backend; 0 if it sent none.
    pub fn backend_pid(&self) -> i32 {
        self.link.key.map_or(0, |(pid, _)| pid)
    }
    /// Version of TLS in use; `None` = plain.
    pub fn tls(&self) -> Option<String> {
        self.link.socket.tls_version()
    }
    /// Whether a transaction is open.
    pub fn transaction(&self) -> Transaction {
        self.transaction
    }
    /// Whether the next statement can be sent.
    pub fn is_usable(&self) -> bool {
        self.state == State::Ready
    }
    /// What is needed to cancel a statement from another thread; `None` if the server gave no key.
    pub fn canceller(&self) -> Option<Canceller> {
        Canceller::of(&self.link)
    }
    /// Takes the notices that came since the last call (the last 100).
    pub fn take_notices(&mut self) -> Vec<PgError> {
        std::mem::take(&mut self.notices.0).into()
    }
    /// Listens to another stop flag from now on (cleaning up must work after the first one was set).
    pub fn set_stop(&mut self, stop: Arc<AtomicBool>) {
        self.link.wait.stop = stop;
    }
    /// Changes the longest silence that is accepted; `None` = any.
    pub fn set_idle_timeout(&mut self, limit: Option<Duration>) {
        self.link.wait.idle = limit;
    }

    /// Runs one or more statements without parameters; a result for each.
    ///
    /// # Errors
    /// The server's first error (the rest was not run), or a broken connection.
    pub fn simple_query(&mut self, sql: &str) -> Result<Vec<Rows>> {
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message).map_err(nul)?;
        self.exchange(&message)
    }

    /// Runs one or more statements; the rows affected or returned by the last.
    ///
    /// # Errors
    /// As [`Connection::simple_query`].
    pub fn execute(&mut self, sql: &str) -> Result<u64> {
        Ok(self.simple_query(sql)?.last().map_or(0, Rows::count))
    }

    /// Runs one statement with parameters (`$1`, ...) as text; the server infers their types.
    ///
    /// # Errors
    /// As [`Connection::simple_query`].
    pub fn query(&mut self, sql: &str, parameters: &[Option<&str>]) -> Result<Rows> {
        let mut message = BytesMut::new();
        frontend::parse("", sql, [], &mut message).map_err(nul)?;
        let text = |value: Option<&str>, buffer: &mut BytesMut| match value {
            None => Ok(IsNull::Yes),
            Some(value) => {
                buffer.put_slice(value.as_bytes());
                Ok(IsNull::No)
            }
        };
        frontend::bind("", "", [], parameters.iter().copied(), text, [0], &mut message)
            .map_err(|_| Error::Config("too many or too large parameters for one statement".into()))?;
        frontend::describe(b'P', "", &mut message).map_err(nul)?;
        frontend::execute("", 0, &mut message).map_err(nul)?;
        frontend::sync(&mut message);
        Ok(self.exchange(&message)?.pop().unwrap_or_default())
    }

    /// The columns that a statement would return, without running it; empty for one that returns nothing.
    ///
    /// # Errors
    /// As [`Connection::simple_query`].
    pub fn describe(&mut self, sql: &str) -> Result<Vec<Column>> {
        let mut message = BytesMut::new();
        frontend::parse("", sql, [], &mut message).map_err(nul)?;
        frontend::describe(b'S', "", &mut message).map_err(nul)?;
        frontend::sync(&mut message);
        Ok(self.exchange(&message)?.pop().unwrap_or_default().columns)
    }

    /// Sends a request and collects everything up to ReadyForQuery.
    fn exchange(&mut self, message: &[u8]) -> Result<Vec<Rows>> {
        self.begin(message)?;
        let mut results = Vec::new();
        let mut current: Option<Rows> = None;
        let mut failed = None;
        loop {
            let frame = self.message()?;
            match frame.tag {
                b'T' => {
                    let columns = self.read_body(&frame, |body| body.columns())?;
                    current = Some(Rows { columns, ..Rows::default() });
                }
                b'D' => {
                    let row = self.read_body(&frame, |body| body.row())?;
                    current.get_or_insert_default().rows.push(row);
                }
                b'C' => {
                    let tag = self.read_body(&frame, |mut body| Ok(body.cstr()?.to_string()))?;
                    results.push(Rows { tag, ..current.take().unwrap_or_default() });
                }
                b'I' => results.push(Rows::default()),
                b'E' => {
                    failed.get_or_insert(self.server_error(&frame)?);
                }
                b'G' => {
                    let mut refuse = BytesMut::new();
                    frontend::copy_fail("COPY FROM STDIN is not possible here", &mut refuse).map_err(nul)?;
                    let sent = self.link.send(&refuse);
                    self.settle(sent)?;
                }
                // ParseComplete, BindComplete, NoData, ParameterDescription, PortalSuspended, and a COPY out that nobody reads.
                b'1' | b'2' | b'n' | b't' | b's' | b'3' | b'H' | b'd' | b'c' => {}
                b'Z' => {
                    self.ready(&frame)?;
                    break;
                }
                other => {
                    let error = not_expected(&self.link.wait.host, other, "a statement");
                    return self.settle(Err(error));
                }
            }
        }
        // Describe without Execute gives columns, but no tag.
        results.extend(current);
        failed.map_or(Ok(results), Err)
    }

    /// Reads a message's body; one that does not hold what it should breaks the connection.
    pub(crate) fn read_body<T>(&mut self, frame: &Frame, read: impl FnOnce(Body<'_>) -> Result<T>) -> Result<T> {
        let value = read(Body::new(self.link.body(frame), &self.link.wait.host));
        self.settle(value)
    }

    /// Sends the first message of a statement.
    pub(crate) fn begin(&mut self, message: &[u8]) -> Result<()> {
        if self.state != State::Ready {
            return Err(Error::Broken { host: self.link.wait.host.clone() });
        }
        self.state = State::Busy;
        self.link.running = true;
        let sent = self.link.send(message);
        self.writing(sent)
    }

    /// The next message that is not a notice, notification or parameter change; those are noted.
    pub(crate) fn message(&mut self) -> Result<Frame> {
        loop {
            let frame = self.link.frame();
            let frame = self.settle(frame)?;
            if !self.aside(&frame)? {
                return Ok(frame);
            }
        }
    }

    /// Notes a message that may come at any time. False: it is something else.
    pub(crate) fn aside(&mut self, frame: &Frame) -> Result<bool> {
        match frame.tag {
            b'N' => self.notices.push(PgError::parse(self.link.body(frame))),
            b'A' => {}
            b'S' => {
                let (name, value) = self.read_body(frame, |mut body| Ok((body.cstr()?.to_string(), body.cstr()?.to_string())))?;
                self.parameters.insert(name, value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The error of an ErrorResponse; `Err` at once if it ends the session.
    pub(crate) fn server_error(&mut self, frame: &Frame) -> Result<Error> {
        let error = PgError::parse(self.link.body(frame));
        let fatal = error.is_fatal();
        let error = Error::Server(Box::new(error));
        if fatal { self.settle(Err(error)) } else { Ok(error) }
    }

    /// ReadyForQuery: the statement is over.
    pub(crate) fn ready(&mut self, frame: &Frame) -> Result<()> {
        self.transaction = match self.link.body(frame) {
            b"I" => Transaction::None,
            b"T" => Transaction::Open,
            b"E" => Transaction::Failed,
            _ => {
                let error = not_expected(&self.link.wait.host, b'Z', "a statement, with an unknown state,");
                return self.settle(Err(error));
            }
        };
        self.state = State::Ready;
        self.link.running = false;
        Ok(())
    }

    /// Reads on until ReadyForQuery, for a statement that has failed.
    pub(crate) fn skip_to_ready(&mut self) -> Result<()> {
        loop {
            let frame = self.message()?;
            if frame.tag == b'Z' {
                return self.ready(&frame);
            }
        }
    }

    /// Marks the connection as unusable if `result` is an error.
    pub(crate) fn settle<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.state = State::Broken;
            self.link.running = false;
        }
        result
    }

    /// As `settle`; when the connection broke under a write, the server's last words say why, if they arrived.
    pub(crate) fn writing<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = self.settle(result);
        if let Err(Error::Io { .. } | Error::Closed { .. }) = &result {
            while let Ok(Some(frame)) = self.link.try_frame() {
                if frame.tag == b'E' {
                    return Err(Error::Server(Box::new(PgError::parse(self.link.body(&frame)))));
                }
            }
        }
        result
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.state == State::Ready {
            let mut message = BytesMut::new();
            frontend::terminate(&mut message);
            let _ = self.link.send_some(&[std::io::IoSlice::new(&message)]);
            let _ = self.link.socket.try_flush();
        }
    }
}

fn nul(_: std::io::Error) -> Error {
    Error::Config("a statement holds a NUL byte".into())
}

/// `15.18 (Debian 15.18-0)` -> 150018, `9.6.3` -> 90603, `17beta1` -> 170000.
fn version_number(text: &str) -> u32 {
    let text = text.split([' ', '(']).next().unwrap_or("");
    let mut numbers = text.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse::<u32>().unwrap_or(0)
    });
    let (major, second, third) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if major >= 10 { major * 10_000 + second } else { major * 10_000 + second * 100 + third }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version_number("15.18 (Debian 15.18-0+deb12u1)"), 150_018);
        assert_eq!((version_number("9.6.3"), version_number("17beta1"), version_number("")), (90_603, 170_000, 0));
    }

    #[test]
    fn notices_are_bounded() {
        let mut notices = Notices::default();
        (0..300).for_each(|_| notices.push(PgError::default()));
        assert_eq!(notices.0.len(), Notices::KEEP);
    }
}
