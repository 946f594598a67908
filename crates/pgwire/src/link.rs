//! Whole messages over a socket, with waiting, stopping and cancelling.

use crate::socket::{Address, Socket, Waiting};
use crate::{Config, Error, Result};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Control messages are read in blocks of this size.
const BLOCK: usize = 32 * 1024;
/// No message outside COPY comes near this; a larger length means that the other side is no PostgreSQL server.
const MAX_CONTROL: usize = 1 << 30;
/// How long a CancelRequest may take.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// A whole message in the inbox: its tag and where its body lies. Valid until the next one is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub tag: u8,
    at: Range<usize>,
}

/// A socket, what was received from it and not yet looked at, and how to wait for more.
pub(crate) struct Link {
    pub socket: Socket,
    pub wait: Waiting,
    address: Address,
    config: Arc<Config>,
    /// Process id and secret for CancelRequest, as the server sent them.
    pub key: Option<(i32, i32)>,
    /// A statement is running: stopping cancels it.
    pub running: bool,
    inbox: Vec<u8>,
    /// Start of what was not looked at.
    next: usize,
}

impl Link {
    pub fn connect(address: Address, config: Arc<Config>, wait: Waiting) -> Result<Self> {
        let socket = Socket::connect(&address, &config, &wait)?;
        Ok(Self { socket, wait, address, config, key: None, running: false, inbox: Vec::new(), next: 0 })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Appends at least one byte to `into`, which must have spare capacity.
    ///
    /// # Errors
    /// End of the connection, stop, deadline, silence longer than the idle limit.
    pub fn receive(&mut self, into: &mut Vec<u8>, what: &'static str) -> Result<usize> {
        let mut since = None;
        loop {
            match self.socket.try_read(into) {
                Ok(Some(0)) => return Err(Error::Closed { host: self.wait.host.clone() }),
                Ok(Some(n)) => return Ok(n),
                Ok(None) => {}
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Err(Error::Closed { host: self.wait.host.clone() }),
                Err(e) => return Err(self.wait.io("read", e)),
            }
            let slice = self.slice(what)?;
            let flushed = self.socket.try_flush().map_err(|e| self.wait.io("write", e))?;
            let ready = self.socket.wait(true, !flushed, slice).map_err(|e| self.wait.io("read", e))?;
            if !ready.0
                && let Some(limit) = self.wait.idle
                && since.get_or_insert_with(Instant::now).elapsed() >= limit
            {
                self.cancel_running();
                return Err(Error::Timeout { host: self.wait.host.clone(), what, after: limit });
            }
        }
    }

    /// The next slice of waiting; a stop cancels the running statement first.
    pub fn slice(&mut self, what: &'static str) -> Result<Duration> {
        let slice = self.wait.slice(what);
        if matches!(slice, Err(Error::Cancelled)) {
            self.cancel_running();
        }
        slice
    }

    /// Sends all of it. While the socket is full, what the server says is taken in, so that neither side waits for the other.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn send(&mut self, data: &[u8]) -> Result<()> {
        let mut sent = 0;
        while sent < data.len() {
            match self.send_some(&[IoSlice::new(&data[sent..])])? {
                0 => {
                    self.pause_for_room()?;
                }
                n => sent += n,
            }
        }
        self.flush()
    }

    /// Sends what the socket takes now.
    pub fn send_some(&mut self, data: &[IoSlice<'_>]) -> Result<usize> {
        match self.socket.try_write(data) {
            Ok(n) => Ok(n.unwrap_or(0)),
            Err(e) => Err(self.wait.io("write", e)),
        }
    }

    /// Pushes out ciphertext that TLS still holds.
    pub fn flush(&mut self) -> Result<()> {
        while !self.socket.try_flush().map_err(|e| self.wait.io("write", e))? {
            self.pause_for_room()?;
        }
        Ok(())
    }

    /// Waits until the socket takes more; takes in what arrives. True if something arrived.
    pub fn pause_for_room(&mut self) -> Result<bool> {
        let mut since = None;
        loop {
            let slice = self.slice("sending")?;
            let (readable, writable) = self.socket.wait(true, true, slice).map_err(|e| self.wait.io("write", e))?;
            if readable && self.take_in()? {
                return Ok(true);
            }
            if writable {
                return Ok(false);
            }
            if !readable
                && let Some(limit) = self.wait.idle
                && since.get_or_insert_with(Instant::now).elapsed() >= limit
            {
                self.cancel_running();
                return Err(Error::Timeout { host: self.wait.host.clone(), what: "sending", after: limit });
            }
        }
    }

    /// Takes in what is there without waiting. True if there was something.
    pub fn take_in(&mut self) -> Result<bool> {
        self.inbox.reserve(BLOCK);
        match self.socket.try_read(&mut self.inbox) {
            Ok(Some(0)) => Err(Error::Closed { host: self.wait.host.clone() }),
            Ok(got) => Ok(got.is_some()),
            Err(e) => Err(self.wait.io("read", e)),
        }
    }

    /// Appends what is there to `into`, which must have spare capacity, without waiting. True if there was something.
    pub fn take_into(&mut self, into: &mut Vec<u8>) -> Result<bool> {
        match self.socket.try_read(into) {
            Ok(Some(0)) => Err(Error::Closed { host: self.wait.host.clone() }),
            Ok(got) => Ok(got.is_some()),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::Closed { host: self.wait.host.clone() }),
            Err(e) => Err(self.wait.io("read", e)),
        }
    }

    /// Waits until something can be read, at most for `time`.
    pub fn pause(&mut self, time: Duration) -> Result<()> {
        let flushed = self.socket.try_flush().map_err(|e| self.wait.io("write", e))?;
        self.socket.wait(true, !flushed, time).map(drop).map_err(|e| self.wait.io("read", e))
    }

    /// Whether something to read is here, without waiting.
    pub fn has_input(&mut self) -> Result<bool> {
        if self.next < self.inbox.len() || self.socket.holds_plaintext() {
            return Ok(true);
        }
        Ok(self.socket.wait(true, false, Duration::ZERO).map_err(|e| self.wait.io("read", e))?.0)
    }

    /// One byte, unframed: the answer to SSLRequest. More than that, sent in clear before TLS starts, could be an
    /// attempt to have it taken for part of the session.
    pub fn single_byte(&mut self) -> Result<u8> {
        let mut answer = Vec::with_capacity(16);
        self.receive(&mut answer, "the answer to the TLS request")?;
        match answer[..] {
            [byte] => Ok(byte),
            // An error from a server that is out of processes comes in clear, with its text.
            [b'E', ..] => Ok(b'E'),
            _ => Err(Error::Protocol { host: self.wait.host.clone(), detail: "data in clear behind the answer to the TLS request".into() }),
        }
    }

    /// The next message, if it is here already or can be taken in without waiting.
    pub fn try_frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.whole_frame()? {
                return Ok(Some(frame));
            }
            if !self.take_in()? {
                return Ok(None);
            }
        }
    }

    /// The next message.
    ///
    /// # Errors
    /// As [`Link::receive`], or a length that cannot be right.
    pub fn frame(&mut self) -> Result<Frame> {
        loop {
            if let Some(frame) = self.whole_frame()? {
                return Ok(frame);
            }
            let mut inbox = std::mem::take(&mut self.inbox);
            inbox.drain(..self.next);
            self.next = 0;
            let missing = wanted(&inbox).saturating_sub(inbox.len());
            inbox.reserve(missing.max(BLOCK));
            let got = self.receive(&mut inbox, "waiting for the server's answer");
            self.inbox = inbox;
            got?;
        }
    }

    fn whole_frame(&mut self) -> Result<Option<Frame>> {
        let rest = &self.inbox[self.next..];
        let Some(length) = frame_length(rest) else { return Ok(None) };
        if !(5..=MAX_CONTROL).contains(&length) {
            let detail = format!("a message of type {:?} with an impossible length of {length} bytes", char::from(rest[0]));
            return Err(Error::Protocol { host: self.wait.host.clone(), detail });
        }
        if rest.len() < length {
            return Ok(None);
        }
        let frame = Frame { tag: rest[0], at: self.next + 5..self.next + length };
        self.next += length;
        if self.next == self.inbox.len() && self.inbox.capacity() > 8 * BLOCK && self.next < BLOCK {
            // One large result is over: do not keep its buffer for the life of the connection.
            self.inbox.shrink_to(BLOCK);
        }
        Ok(Some(frame))
    }

    /// The body of the message that was asked for last.
    pub fn body(&self, frame: &Frame) -> &[u8] {
        &self.inbox[frame.at.clone()]
    }

    /// Moves what was received and not looked at to the end of `into`.
    pub fn hand_over(&mut self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.inbox[self.next..]);
        self.inbox.clear();
        self.next = 0;
    }

    /// Puts received bytes back in front of everything else.
    pub fn hand_back(&mut self, bytes: &[u8]) {
        self.inbox.splice(..self.next, bytes.iter().copied());
        self.next = 0;
    }

    /// Asks the server to cancel what this session is doing, over a connection of its own. Best effort.
    pub fn cancel_running(&mut self) {
        if std::mem::take(&mut self.running)
            && let Some((pid, secret)) = self.key
        {
            let _ = send_cancel(&self.address, &self.config, &self.wait.host, pid, secret);
        }
    }
}

/// Length of the whole message at the start of `bytes`, tag included, once its head is there.
pub(crate) fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length: [u8; 4] = bytes.get(1..5)?.try_into().ok()?;
    Some((u32::from_be_bytes(length) as usize).saturating_add(1))
}

/// Bytes needed for the message at the start of `bytes` to be whole, as far as that is known.
fn wanted(bytes: &[u8]) -> usize {
    frame_length(bytes).unwrap_or(5).min(MAX_CONTROL)
}

/// Sends a CancelRequest and waits until the server has taken it (it closes the connection).
pub(crate) fn send_cancel(address: &Address, config: &Config, host: &str, pid: i32, secret: i32) -> Result<()> {
    let wait = Waiting {
        host: host.to_string(),
        stop: Arc::new(AtomicBool::new(false)),
        deadline: Some((Instant::now() + CANCEL_TIME, CANCEL_TIME)),
        idle: None,
    };
    let mut link = Link::connect(address.clone(), Arc::new(config.clone()), wait)?;
    let mut message = BytesMut::new();
    frontend::cancel_request(pid, secret, &mut message);
    link.send(&message)?;
    let mut rest = Vec::with_capacity(16);
    match link.receive(&mut rest, "the answer to the cancel request") {
        Err(Error::Timeout { host, what, after }) => Err(Error::Timeout { host, what, after }),
        _ => Ok(()),
    }
}

/// What is needed to cancel a session's statement from another thread.
#[derive(Clone)]
pub struct Canceller {
    address: Address,
    config: Arc<Config>,
    host: String,
    key: (i32, i32),
}

impl Canceller {
    pub(crate) fn of(link: &Link) -> Option<Self> {
        Some(Self { address: link.address.clone(), config: link.config.clone(), host: link.wait.host.clone(), key: link.key? })
    }

    /// Asks the server to cancel whatever the session is doing now.
    ///
    /// # Errors
    /// The request could not be delivered within two seconds.
    pub fn cancel(&self) -> Result<()> {
        send_cancel(&self.address, &self.config, &self.host, self.key.0, self.key.1)
    }
}
