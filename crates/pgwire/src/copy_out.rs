//! COPY ... TO STDOUT: whole CopyData frames in large blocks, without a copy.
//!
//! A block is read in one piece, its frames are walked in place, and the whole ones are handed out as one [`Bytes`]
//! whose memory comes back for reuse when the last view of it is dropped. Only the frame that the block's end cuts in
//! two is copied (to the start of the next block).

use crate::connection::Connection;
use crate::link::frame_length;
use crate::rows::tag_count;
use crate::startup::not_expected;
use crate::{Error, Result};
use bytes::{Bytes, BytesMut};
use postgres_protocol::message::frontend;
use std::borrow::BorrowMut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Format of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// Text or CSV: one line a frame.
    Text,
    /// Binary: one tuple a frame. File header and trailer are taken off.
    Binary,
}

/// Whole CopyData frames back to back, as the server sent them: `d`, length (32 bit big-endian, itself included), one row.
#[derive(Debug, Clone)]
pub struct CopyChunk {
    /// The frames, heads included: valid as they are for [`crate::CopyIn::write`] on another connection.
    pub bytes: Bytes,
    /// Number of frames, which is the number of rows.
    pub rows: u64,
}

/// The 11 bytes that a binary COPY starts with, then 4 bytes of flags and 4 bytes of extension length.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// See [`crate::lowat`]: a quarter of a chunk.
const LOW_WATER: i32 = 64 << 10;
/// A chunk that is not full yet waits this long for more.
const LINGER: Duration = Duration::from_millis(10);
/// Buffers that wait for reuse.
const SPARE: usize = 4;
const HEAD: usize = 5;
/// Errors and notices are never as large as this.
const MAX_CONTROL: usize = 64 << 20;

type Pool = Arc<Mutex<Vec<Vec<u8>>>>;

/// A block of memory that goes back to its pool.
struct Block {
    bytes: Vec<u8>,
    pool: Pool,
    /// A larger block (one huge row) is freed instead.
    keep: usize,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes.capacity() <= self.keep
            && let Ok(mut pool) = self.pool.lock()
            && pool.len() < SPARE
        {
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            pool.push(bytes);
        }
    }
}

/// Where the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the file header of a binary COPY.
    Header,
    /// Rows.
    Rows,
    /// CopyDone has come.
    Done,
    /// ReadyForQuery has come.
    End,
}

/// A COPY out that is going on. `C` is the connection or a borrow of it.
///
/// Rows come in the server's order. When [`CopyOut::next_chunk`] has returned `None`, the server has confirmed the count.
/// Dropping it earlier makes the connection unusable.
pub struct CopyOut<C: BorrowMut<Connection> = Connection> {
    connection: C,
    format: CopyFormat,
    columns: usize,
    stage: Stage,
    block: Vec<u8>,
    /// Up to here the frames in `block` are whole.
    walked: usize,
    /// Rows in `block[..walked]`.
    waiting: u64,
    /// Rows handed out before.
    total: u64,
    pool: Pool,
    max_row_bytes: u64,
}

impl Connection {
    /// Starts a `COPY ... TO STDOUT`.
    ///
    /// # Errors
    /// The server's error, or a statement that is no COPY out.
    pub fn copy_out(&mut self, sql: &str) -> Result<CopyOut<&mut Self>> {
        CopyOut::start(self, sql)
    }
}

impl<C: BorrowMut<Connection>> CopyOut<C> {
    /// Starts a `COPY ... TO STDOUT` on a connection that it keeps until [`CopyOut::into_inner`].
    ///
    /// # Errors
    /// The server's error, or a statement that is no COPY out.
    pub fn start(mut connection: C, sql: &str) -> Result<Self> {
        let session = connection.borrow_mut();
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message).map_err(|_| Error::Config("a statement holds a NUL byte".into()))?;
        session.begin(&message)?;
        let frame = session.message()?;
        match frame.tag {
            b'H' => {}
            b'E' => {
                let error = session.server_error(&frame)?;
                session.skip_to_ready()?;
                return Err(error);
            }
            other => {
                let error = not_expected(&session.host().to_string(), other, "the start of COPY TO STDOUT");
                return session.settle(Err(error));
            }
        }
        let (binary, columns) = session.read_body(&frame, |mut body| Ok((body.bytes(1)?[0] == 1, body.i16()?)))?;
        let mut block = Vec::new();
        session.link().hand_over(&mut block);
        session.link().socket.low_water(LOW_WATER);
        let (format, stage) = if binary { (CopyFormat::Binary, Stage::Header) } else { (CopyFormat::Text, Stage::Rows) };
        Ok(Self {
            connection,
            format,
            columns: usize::try_from(columns).unwrap_or(0),
            stage,
            block,
            walked: 0,
            waiting: 0,
            total: 0,
            pool: Pool::default(),
            max_row_bytes: 1 << 30,
        })
    }

    /// Refuses rows above this size on the wire (default 1 GiB).
    pub fn max_row_bytes(mut self, limit: u64) -> Self {
        self.max_row_bytes = limit;
        self
    }

    /// Format of the data.
    pub fn format(&self) -> CopyFormat {
        self.format
    }
    /// Columns in a row, as the server announced.
    pub fn columns(&self) -> usize {
        self.columns
    }
    /// Rows handed out so far.
    pub fn rows(&self) -> u64 {
        self.total
    }

    /// The connection, for the next statement. Usable only after the end was reached.
    pub fn into_inner(self) -> C {
        self.connection
    }

    /// Cancels it and takes in what still comes: the connection, in a transaction that has failed (if it did not end by itself before).
    /// A connection over which this takes longer than `within` is no longer usable.
    ///
    /// # Errors
    /// A broken or silent connection, or a server that cannot be asked to cancel.
    pub fn give_up(mut self, within: std::time::Duration) -> Result<C> {
        if self.stage == Stage::End {
            return Ok(self.connection);
        }
        let session = self.connection.borrow_mut();
        let host = session.host().to_string();
        session.canceller().ok_or(Error::Broken { host })?.cancel()?;
        session.link().wait.deadline = Some((std::time::Instant::now() + within, within));
        let ended = loop {
            match self.next_chunk(1 << 20) {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(Error::Server(_)) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.connection.borrow_mut().link().wait.deadline = None;
        ended.map(|()| self.connection)
    }

    /// The next whole frames: about `want` bytes, less if no more arrives within 10 ms, more for one larger row. `None`: the
    /// end, confirmed by the server.
    ///
    /// # Errors
    /// The server's error, a broken connection, stop or silence, a row above the limit, a row count that differs
    /// from the server's.
    pub fn next_chunk(&mut self, want: usize) -> Result<Option<CopyChunk>> {
        if self.stage == Stage::End {
            return Ok(None);
        }
        let want = want.max(4096);
        loop {
            let ended = self.walk()?;
            if self.walked >= want || (ended && self.walked > 0) {
                return Ok(Some(self.cut(want)));
            }
            if ended {
                return self.end().map(|()| None);
            }
            if !self.fill(want)? {
                return Ok(Some(self.cut(want)));
            }
        }
    }

    /// Reads more into the block. False: nothing more is here, and there are rows to hand out.
    fn fill(&mut self, want: usize) -> Result<bool> {
        let needed = self.room_for(want)?;
        if self.block.capacity() < needed {
            self.block.reserve_exact(needed - self.block.len());
        }
        let session = self.connection.borrow_mut();
        // A server that always has more to say would never let the wait below look at the stop flag.
        let going_on = session.link().slice("waiting for rows");
        session.settle(going_on)?;
        if self.walked > 0 {
            let socket = &mut session.link().socket;
            let here = socket.holds_plaintext() || matches!(socket.wait(true, false, LINGER), Ok((true, _)));
            if !here {
                // Less than the low-water mark may still be there.
                let got = session.link().socket.try_read(&mut self.block);
                return Ok(matches!(got, Ok(Some(1..))));
            }
        }
        let got = session.link().receive(&mut self.block, "waiting for rows");
        match session.settle(got) {
            // The rows before a broken connection are of no use: the copy has failed as a whole.
            Err(e) => Err(e),
            Ok(_) => Ok(true),
        }
    }

    /// Capacity that the block must have: a chunk and a bit, or the row that is larger.
    fn room_for(&mut self, want: usize) -> Result<usize> {
        let usual = block_size(want);
        let row = frame_length(&self.block[self.walked..]).unwrap_or(HEAD);
        if row as u64 > self.max_row_bytes.saturating_add(HEAD as u64) && self.block[self.walked] == b'd' {
            let row_number = self.total + self.waiting;
            let session = self.connection.borrow_mut();
            session.link().cancel_running();
            let error = Error::RowTooLarge { bytes: (row - HEAD) as u64, limit: self.max_row_bytes, row: row_number };
            return session.settle(Err(error));
        }
        if row > MAX_CONTROL && self.block[self.walked] != b'd' {
            return self.protocol("a message with an impossible length");
        }
        let needed = self.walked + row;
        Ok(if needed > usual || self.block.len() >= usual { needed.max(self.block.len() + HEAD) } else { usual })
    }

    /// Walks over the whole frames that have arrived. True: the rows are over (CopyDone).
    fn walk(&mut self) -> Result<bool> {
        while self.stage != Stage::Done {
            let rest = &self.block[self.walked..];
            let Some(length) = frame_length(rest) else { return Ok(false) };
            if length < HEAD {
                return self.protocol("a message with an impossible length");
            }
            if rest.len() < length {
                return Ok(false);
            }
            match rest[0] {
                b'd' if self.stage == Stage::Rows => {
                    // Only a frame of two bytes can be the trailer; its -1 stands where a field count would.
                    if length == HEAD + 2 && self.format == CopyFormat::Binary && rest[HEAD..HEAD + 2] == [0xff, 0xff] {
                        self.remove(self.walked, length);
                    } else {
                        self.walked += length;
                        self.waiting += 1;
                    }
                }
                b'd' => self.strip_header(length)?,
                b'c' => {
                    self.remove(self.walked, length);
                    self.stage = Stage::Done;
                }
                _ => self.control(length)?,
            }
        }
        Ok(true)
    }

    /// Takes `length` bytes out of the block.
    fn remove(&mut self, at: usize, length: usize) {
        self.block.drain(at..at + length);
    }

    /// The first frame of a binary COPY: file header, then possibly the first row.
    fn strip_header(&mut self, length: usize) -> Result<()> {
        let body = &self.block[HEAD..length];
        let extension = body.get(15..19).and_then(|b| b.try_into().ok()).map(|b| u32::from_be_bytes(b) as usize);
        let header = match extension {
            Some(extension) if body.starts_with(SIGNATURE) && 19 + extension <= body.len() => 19 + extension,
            _ => return self.protocol("the binary COPY does not start with its signature"),
        };
        self.stage = Stage::Rows;
        let rest = length - HEAD - header;
        if rest == 0 {
            self.remove(0, length);
            return Ok(());
        }
        // The row's own head goes into the last five bytes of the file header.
        self.remove(0, header);
        self.block[0] = b'd';
        self.block[1..HEAD].copy_from_slice(&((rest + 4) as u32).to_be_bytes());
        Ok(())
    }

    /// A message between rows that is not a row: an error, a notice, a parameter change.
    fn control(&mut self, length: usize) -> Result<()> {
        let session = self.connection.borrow_mut();
        let message: Vec<u8> = self.block.drain(self.walked..self.walked + length).collect();
        session.link().hand_back(&message);
        let frame = session.link().frame();
        let frame = session.settle(frame)?;
        match frame.tag {
            b'E' => {
                let error = session.server_error(&frame)?;
                let rest = self.block.split_off(self.walked);
                session.link().hand_back(&rest);
                session.skip_to_ready()?;
                self.stage = Stage::End;
                Err(error)
            }
            other if !session.aside(&frame)? => {
                let error = not_expected(&session.host().to_string(), other, "COPY TO STDOUT");
                session.settle(Err(error))
            }
            _ => Ok(()),
        }
    }

    /// Hands out the whole frames; what is behind them moves to the next block.
    fn cut(&mut self, want: usize) -> CopyChunk {
        let size = block_size(want);
        let mut next = self.pool.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_else(|| Vec::with_capacity(size));
        next.extend_from_slice(&self.block[self.walked..]);
        self.block.truncate(self.walked);
        let bytes = std::mem::replace(&mut self.block, next);
        let block = Block { bytes, pool: self.pool.clone(), keep: 2 * size };
        let rows = std::mem::take(&mut self.waiting);
        self.total += rows;
        self.walked = 0;
        CopyChunk { bytes: Bytes::from_owner(block), rows }
    }

    /// After CopyDone: the server's own count, and ReadyForQuery.
    fn end(&mut self) -> Result<()> {
        let session = self.connection.borrow_mut();
        session.link().socket.low_water(1);
        let rest = std::mem::take(&mut self.block);
        session.link().hand_back(&rest);
        self.stage = Stage::End;
        let mut tag = String::new();
        loop {
            let frame = session.message()?;
            match frame.tag {
                b'C' => {
                    tag = session.read_body(&frame, |mut body| Ok(body.cstr()?.to_string()))?;
                }
                b'E' => {
                    let error = session.server_error(&frame)?;
                    session.skip_to_ready()?;
                    return Err(error);
                }
                b'Z' => {
                    session.ready(&frame)?;
                    break;
                }
                other => {
                    let error = not_expected(&session.host().to_string(), other, "the end of COPY TO STDOUT");
                    return session.settle(Err(error));
                }
            }
        }
        if tag_count(&tag) != Some(self.total) {
            let detail = format!("the server says {tag:?} at the end of a COPY of which {} rows arrived", self.total);
            return Err(Error::Protocol { host: session.host().to_string(), detail });
        }
        Ok(())
    }

    fn protocol<T>(&mut self, detail: &str) -> Result<T> {
        let session = self.connection.borrow_mut();
        let error = Error::Protocol { host: session.host().to_string(), detail: detail.to_string() };
        session.settle(Err(error))
    }
}

/// A block holds a chunk and room for the piece of a frame that follows it.
fn block_size(want: usize) -> usize {
    want + want / 4
}
