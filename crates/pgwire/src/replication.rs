//! Replication connections: what they are asked, logical slots, and the stream of changes (CopyBoth).
//!
//! A connection made with [`crate::Config::replication`] takes SQL ([`Connection::simple_query`], no parameters) and the commands
//! below. [`Replication`] hands out one message of the output plugin after the other, in the server's order, as views into its
//! buffer; nothing is copied and nothing allocated per message. It answers the server's questions for a sign of life by itself while it
//! waits, but never moves the slot by itself: that is what [`Replication::confirm`] is for.

use crate::connection::Connection;
use crate::startup::not_expected;
use crate::wal::{Inbox, Lsn, Step, WalMessage, status};
use crate::{Error, Result};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::borrow::BorrowMut;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Read in blocks of this size.
const BLOCK: usize = 128 << 10;
/// A buffer that one large message has made larger than this is given back.
const KEEP: usize = 4 * BLOCK;
/// A sign of life is sent at least this often: well within the server's `wal_sender_timeout` (one minute by default).
const ALIVE: Duration = Duration::from_secs(10);
/// Seconds from 1970 to 2000, from where the protocol counts.
const EPOCH: u64 = 946_684_800;

/// Who the server is, and where its log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// The cluster's own identifier.
    pub id: String,
    /// The timeline: it changes when a standby takes over.
    pub timeline: u32,
    /// Up to here the log is flushed.
    pub flushed: Lsn,
}

/// A slot that was made just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSlot {
    /// Every transaction that commits after it is in the stream, and none before.
    pub start: Lsn,
    /// The name of the snapshot that shows exactly what was committed before `start`. It can be imported until the next
    /// command on this connection.
    pub snapshot: Option<String>,
}

impl Connection {
    /// Who the server is. Replication connections only.
    ///
    /// # Errors
    /// As [`Connection::simple_query`].
    pub fn identify_system(&mut self) -> Result<System> {
        let results = self.simple_query("IDENTIFY_SYSTEM")?;
        let row = results.first().and_then(|rows| rows.first());
        let system = row.and_then(|row| Some(System { id: row.get(0)?.into(), timeline: row.parse(1)?, flushed: row.parse(2)? }));
        system.ok_or_else(|| self.odd("the answer to IDENTIFY_SYSTEM"))
    }

    /// Makes a logical slot. `temporary`: it goes with the connection. Replication connections only.
    ///
    /// # Errors
    /// The server's: a slot of this name, no free slot, `wal_level` below `logical`, missing rights.
    pub fn create_logical_slot(&mut self, name: &str, plugin: &str, temporary: bool, export_snapshot: bool) -> Result<NewSlot> {
        let (kind, snapshot) =
            (if temporary { " TEMPORARY" } else { "" }, if export_snapshot { "EXPORT_SNAPSHOT" } else { "NOEXPORT_SNAPSHOT" });
        let sql = format!("CREATE_REPLICATION_SLOT {}{kind} LOGICAL {} {snapshot}", identifier(name), identifier(plugin));
        let results = self.simple_query(&sql)?;
        let row = results.first().and_then(|rows| rows.first());
        let slot = row.and_then(|row| Some(NewSlot { start: row.parse(1)?, snapshot: row.get(2).map(str::to_string) }));
        slot.ok_or_else(|| self.odd("the answer to CREATE_REPLICATION_SLOT"))
    }

    /// Starts the stream of a logical slot after `from` (or after what was confirmed last, if that is later).
    ///
    /// # Errors
    /// As [`Replication::start`].
    pub fn start_replication(&mut self, slot: &str, from: Lsn, options: &[(&str, &str)]) -> Result<Replication<&mut Self>> {
        Replication::start(self, slot, from, options)
    }

    fn odd(&mut self, what: &str) -> Error {
        Error::Protocol { host: self.host().to_string(), detail: format!("{what} is not what it should be") }
    }
}

/// A stream of changes that is going on. `C` is the connection or a borrow of it.
///
/// Dropping it leaves the slot where [`Replication::confirm`] has brought it, and makes the connection unusable; [`Replication::stop`] ends
/// it properly.
pub struct Replication<C: BorrowMut<Connection> = Connection> {
    connection: C,
    inbox: Inbox,
    /// The furthest place that the server has spoken of.
    received: Lsn,
    safe: Lsn,
    /// When the last status went out.
    told: Instant,
}

impl<C: BorrowMut<Connection>> std::fmt::Debug for Replication<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replication(received {}, safe {})", self.received, self.safe)
    }
}

impl<C: BorrowMut<Connection>> Replication<C> {
    /// Starts the stream on a connection that it keeps until [`Replication::stop`]. `options` go to the output plugin.
    ///
    /// # Errors
    /// The server's: no such slot, a slot in use (55006) or invalidated (55000).
    pub fn start(mut connection: C, slot: &str, from: Lsn, options: &[(&str, &str)]) -> Result<Self> {
        let list: Vec<String> = options.iter().map(|(name, value)| format!("{} {}", identifier(name), literal(value))).collect();
        let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
        let sql = format!("START_REPLICATION SLOT {} LOGICAL {from}{list}", identifier(slot));
        let mut message = BytesMut::new();
        frontend::query(&sql, &mut message).map_err(|_| Error::Config("a statement holds a NUL byte".into()))?;
        let session = connection.borrow_mut();
        session.begin(&message)?;
        // What runs now is no statement that could be cancelled.
        session.link().running = false;
        let frame = session.message()?;
        match frame.tag {
            b'W' => {}
            b'E' => {
                let error = session.server_error(&frame)?;
                session.skip_to_ready()?;
                return Err(error);
            }
            other => {
                let error = not_expected(&session.host().to_string(), other, "the start of a replication stream");
                return session.settle(Err(error));
            }
        }
        let mut inbox = Inbox::default();
        session.link().hand_over(&mut inbox.bytes);
        Ok(Self { connection, inbox, received: from, safe: Lsn(0), told: Instant::now() })
    }

    /// The next message that is here already. `None`: none is; [`Replication::wait`] gets more.
    ///
    /// # Errors
    /// The server's last words (the slot was taken or invalidated, the server shuts down), or a broken connection.
    pub fn message(&mut self) -> Result<Option<WalMessage<'_>>> {
        loop {
            match self.inbox.next() {
                Step::Message { start, from, to } => {
                    self.received = self.received.max(start);
                    return Ok(Some(WalMessage::Data { start, payload: &self.inbox.bytes[from..to] }));
                }
                Step::KeepAlive { end, reply } => {
                    self.received = self.received.max(end);
                    if reply {
                        self.tell()?;
                    }
                    return Ok(Some(WalMessage::KeepAlive { end, reply }));
                }
                Step::Other { tag, length } => self.control(tag, length)?,
                Step::Broken(detail) => {
                    let session = self.connection.borrow_mut();
                    let error = Error::Protocol { host: session.host().to_string(), detail: detail.into() };
                    return session.settle(Err(error));
                }
                Step::More { .. } => return Ok(None),
            }
        }
    }

    /// Waits until something has arrived, at most for `limit`; whether it has. Zero takes what is there.
    ///
    /// # Errors
    /// As [`Replication::message`]; the stop flag.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        let Step::More { needed } = self.peek() else { return Ok(true) };
        if self.inbox.bytes.capacity() > KEEP && needed <= BLOCK {
            self.inbox.bytes.drain(..std::mem::take(&mut self.inbox.next));
            self.inbox.bytes.shrink_to(BLOCK);
        }
        self.inbox.make_room(needed, BLOCK);
        loop {
            if self.told.elapsed() >= ALIVE {
                self.tell()?;
            }
            let session = self.connection.borrow_mut();
            let link = session.link();
            let got = link.take_into(&mut self.inbox.bytes);
            if session.settle(got)? {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let link = session.link();
            let waited = link.slice("waiting for changes").and_then(|slice| link.pause(slice.min(left).min(ALIVE)));
            session.settle(waited)?;
        }
    }

    /// What the cursor stands at, without moving it.
    fn peek(&mut self) -> Step {
        let at = self.inbox.next;
        let step = self.inbox.next();
        self.inbox.next = at;
        step
    }

    /// Everything before `lsn` is safe where it belongs: the server may forget it. Sent at once.
    ///
    /// # Errors
    /// A broken connection.
    pub fn confirm(&mut self, lsn: Lsn) -> Result<()> {
        self.safe = self.safe.max(lsn);
        self.received = self.received.max(lsn);
        self.tell()
    }

    /// Asks the server for a sign of life, which tells how far it has sent.
    ///
    /// # Errors
    /// A broken connection.
    pub fn ask(&mut self) -> Result<()> {
        self.status(true)
    }

    /// What was confirmed over this connection.
    pub fn confirmed(&self) -> Lsn {
        self.safe
    }

    /// The session underneath, to look at.
    pub fn connection(&self) -> &Connection {
        self.connection.borrow()
    }

    fn tell(&mut self) -> Result<()> {
        self.status(false)
    }

    fn status(&mut self, reply: bool) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(Duration::from_secs(EPOCH));
        let frame = status(self.received, self.safe, i64::try_from(now.as_micros()).unwrap_or(0), reply);
        self.told = Instant::now();
        let session = self.connection.borrow_mut();
        // What arrives while the socket is full goes into the link's own inbox, behind what is here.
        let sent = session.link().send(&frame);
        session.link().hand_over(&mut self.inbox.bytes);
        session.writing(sent)
    }

    /// A message beside the stream: a notice, a parameter, the server's last words.
    fn control(&mut self, tag: u8, length: usize) -> Result<()> {
        let at = self.inbox.next;
        let message: Vec<u8> = self.inbox.bytes[at..at + length].to_vec();
        self.inbox.next += length;
        let session = self.connection.borrow_mut();
        session.link().hand_back(&message);
        let frame = session.link().frame();
        let frame = session.settle(frame)?;
        match tag {
            b'E' => {
                let error = session.server_error(&frame)?;
                session.settle(Err(error))
            }
            _ if session.aside(&frame)? => Ok(()),
            b'c' => {
                let host = session.host().to_string();
                session.settle(Err(Error::Closed { host }))
            }
            other => {
                let error = not_expected(&session.host().to_string(), other, "a replication stream");
                session.settle(Err(error))
            }
        }
    }

    /// Ends the stream; what still arrives is dropped. The connection takes commands again, but not every server (15 does not) can start
    /// a second logical stream on it.
    ///
    /// # Errors
    /// A broken connection, or a server that does not come to an end within `limit`.
    pub fn stop(mut self, limit: Duration) -> Result<C> {
        self.tell()?;
        let session = self.connection.borrow_mut();
        let sent = session.link().send(b"c\0\0\0\x04");
        session.writing(sent)?;
        let rest = self.inbox.bytes.split_off(self.inbox.next);
        session.link().hand_back(&rest);
        let before = session.link().wait.deadline.replace((Instant::now() + limit, limit));
        let mut failed = None;
        loop {
            let frame = session.message()?;
            match frame.tag {
                b'd' | b'c' | b'C' | b'T' | b'D' => {}
                b'E' => failed = Some(session.server_error(&frame)?),
                b'Z' => {
                    session.ready(&frame)?;
                    break;
                }
                other => {
                    let error = not_expected(&session.host().to_string(), other, "the end of a replication stream");
                    return session.settle(Err(error));
                }
            }
        }
        session.link().wait.deadline = before;
        failed.map_or(Ok(self.connection), Err)
    }
}

/// A name in double quotes.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A value in quotes: the grammar of these commands knows no backslashes.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
