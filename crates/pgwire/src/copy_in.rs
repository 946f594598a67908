//! COPY ... FROM STDIN: frames straight to the socket, with an ear for the server.

use crate::connection::Connection;
use crate::link::frame_length;
use crate::rows::tag_count;
use crate::startup::not_expected;
use crate::{CopyFormat, Error, Result};
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use std::borrow::BorrowMut;
use std::io::IoSlice;

/// File header of a binary COPY (signature, no flags, no extension) as one CopyData frame.
const HEADER: &[u8] = b"d\0\0\0\x17PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Its trailer.
const TRAILER: &[u8] = b"d\0\0\0\x06\xff\xff";
const HEAD: usize = 5;

/// A COPY in that is going on. `C` is the connection or a borrow of it.
///
/// For a binary COPY the file header is sent at the start and the trailer by [`CopyIn::finish`]: callers write tuples only. An error from
/// any method ends the COPY; if the server refused a row ([`Error::Server`]) the connection stays usable (ROLLBACK, or
/// ROLLBACK TO SAVEPOINT). Dropping it unfinished makes the connection unusable, and the server discards the rows.
pub struct CopyIn<C: BorrowMut<Connection> = Connection> {
    connection: C,
    format: CopyFormat,
    /// The server has ended it with an error.
    over: bool,
    /// Everything is being sent: what the server says next is its verdict, which [`CopyIn::finish`] reads.
    ending: bool,
    sent: u64,
}

impl Connection {
    /// Starts a `COPY ... FROM STDIN`.
    ///
    /// # Errors
    /// The server's error, or a statement that is no COPY in.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<&mut Self>> {
        CopyIn::start(self, sql)
    }
}

impl<C: BorrowMut<Connection>> CopyIn<C> {
    /// Starts a `COPY ... FROM STDIN` on a connection that it keeps until [`CopyIn::finish`].
    ///
    /// # Errors
    /// The server's error, or a statement that is no COPY in. The connection is then dropped if it was given by value.
    pub fn start(mut connection: C, sql: &str) -> Result<Self> {
        let session = connection.borrow_mut();
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message).map_err(|_| Error::Config("a statement holds a NUL byte".into()))?;
        session.begin(&message)?;
        let frame = session.message()?;
        match frame.tag {
            b'G' => {}
            b'E' => {
                let error = session.server_error(&frame)?;
                session.skip_to_ready()?;
                return Err(error);
            }
            other => {
                let error = not_expected(&session.host().to_string(), other, "the start of COPY FROM STDIN");
                return session.settle(Err(error));
            }
        }
        let binary = session.link().body(&frame).first() == Some(&1);
        let format = if binary { CopyFormat::Binary } else { CopyFormat::Text };
        let mut copy = Self { connection, format, over: false, ending: false, sent: 0 };
        if binary {
            copy.send(&[IoSlice::new(HEADER)])?;
        }
        Ok(copy)
    }

    /// Format that the server expects.
    pub fn format(&self) -> CopyFormat {
        self.format
    }
    /// Bytes sent so far, frame heads included.
    pub fn sent(&self) -> u64 {
        self.sent
    }
    /// The connection, for reports while the COPY goes on.
    pub fn connection(&mut self) -> &mut Connection {
        self.connection.borrow_mut()
    }

    /// Sends whole CopyData frames as they are (from [`crate::CopyOut`]).
    ///
    /// # Errors
    /// The server's error as soon as it is here (a row that is refused; maybe one of an earlier call), a broken connection,
    /// stop, or silence.
    pub fn write(&mut self, frames: &[u8]) -> Result<()> {
        self.send(&[IoSlice::new(frames)])
    }

    /// Sends rows as one CopyData frame (at most 1 GiB; about 64 KiB to 1 MiB is good).
    ///
    /// # Errors
    /// As [`CopyIn::write`].
    pub fn write_data(&mut self, payload: &[u8]) -> Result<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(payload.len() + 4).ok().filter(|n| *n < 1 << 30);
        let length = length.ok_or(Error::RowTooLarge { bytes: payload.len() as u64, limit: 1 << 30, row: 0 })?;
        let mut head = [b'd', 0, 0, 0, 0];
        head[1..].copy_from_slice(&length.to_be_bytes());
        self.send(&[IoSlice::new(&head), IoSlice::new(payload)])
    }

    /// Ends it and has it confirmed: the rows that the server counted, and the connection.
    ///
    /// # Errors
    /// The server's error (constraints that are checked at the end, triggers), or a broken connection.
    pub fn finish(mut self) -> Result<(u64, C)> {
        let mut end = BytesMut::new();
        if self.format == CopyFormat::Binary {
            end.extend_from_slice(TRAILER);
        }
        frontend::copy_done(&mut end);
        self.ending = true;
        self.send(&[IoSlice::new(&end)])?;
        let session = self.connection.borrow_mut();
        let mut tag = None;
        let mut failed = None;
        loop {
            let frame = session.message()?;
            match frame.tag {
                b'C' => {
                    tag = Some(session.read_body(&frame, |mut body| Ok(body.cstr()?.to_string()))?);
                }
                b'E' => {
                    failed.get_or_insert(session.server_error(&frame)?);
                }
                b'Z' => break session.ready(&frame)?,
                other => {
                    let error = not_expected(&session.host().to_string(), other, "the end of COPY FROM STDIN");
                    return session.settle(Err(error));
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        match tag.as_deref().and_then(tag_count) {
            Some(rows) => Ok((rows, self.connection)),
            None => {
                Err(Error::Protocol { host: session.host().to_string(), detail: format!("COPY ended with {tag:?}, without a row count") })
            }
        }
    }

    /// Gives it up: the server discards its rows (and the transaction, if one is open, has failed). The connection.
    ///
    /// # Errors
    /// A broken connection.
    pub fn fail(mut self, reason: &str) -> Result<C> {
        if self.over {
            return Ok(self.connection);
        }
        let mut message = BytesMut::new();
        frontend::copy_fail(&reason.replace('\0', " "), &mut message).map_err(|_| Error::Config("a reason holds a NUL byte".into()))?;
        let session = self.connection.borrow_mut();
        let sent = session.link().send(&message);
        session.writing(sent)?;
        session.skip_to_ready()?;
        Ok(self.connection)
    }

    /// Sends the pieces one after the other, then looks whether the server has something to say.
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> Result<()> {
        if self.over {
            return Err(Error::Broken { host: self.connection.borrow_mut().host().to_string() });
        }
        let total: usize = pieces.iter().map(|p| p.len()).sum();
        let mut done = 0;
        while done < total {
            let session = self.connection.borrow_mut();
            let step = send_from(session, pieces, done);
            let n = session.writing(step)?;
            done += n;
            self.sent += n as u64;
            if n == 0 {
                let heard = session.link().pause_for_room();
                if session.writing(heard)? {
                    self.listen(pieces, done)?;
                }
            }
        }
        let session = self.connection.borrow_mut();
        let flushed = session.link().flush();
        session.writing(flushed)?;
        if self.ending {
            return Ok(());
        }
        let heard = session.link().has_input();
        if session.writing(heard)? {
            self.listen(pieces, total)?;
        }
        Ok(())
    }

    /// Looks at what the server has said. If it has ended the COPY, the frame that was begun is completed (the server
    /// skips it), so that the next statement is understood.
    fn listen(&mut self, pieces: &[IoSlice<'_>], done: usize) -> Result<()> {
        loop {
            let session = self.connection.borrow_mut();
            let frame = session.link().try_frame();
            let Some(frame) = session.writing(frame)? else { return Ok(()) };
            if session.aside(&frame)? {
                continue;
            }
            if frame.tag != b'E' {
                let error = not_expected(&session.host().to_string(), frame.tag, "COPY FROM STDIN");
                return session.settle(Err(error));
            }
            self.over = true;
            let error = session.server_error(&frame)?;
            let all: Vec<u8> = pieces.iter().flat_map(|p| p.iter().copied()).collect();
            let rest = session.link().send(&all[done..frame_end(&all, done)]);
            session.settle(rest)?;
            session.skip_to_ready()?;
            return Err(error);
        }
    }
}

/// The end of the frame that position `at` lies in; `at` itself if it is between two frames.
fn frame_end(frames: &[u8], at: usize) -> usize {
    let mut end = 0;
    while end < at {
        match frame_length(&frames[end..]) {
            Some(length) if length >= HEAD => end += length,
            _ => return frames.len(),
        }
    }
    end.min(frames.len())
}

/// Sends what the socket takes now, from position `done` of the pieces.
fn send_from(session: &mut Connection, pieces: &[IoSlice<'_>], mut done: usize) -> Result<usize> {
    let mut rest: [IoSlice<'_>; 2] = [IoSlice::new(&[]), IoSlice::new(&[])];
    let mut count = 0;
    for piece in pieces {
        if done >= piece.len() {
            done -= piece.len();
            continue;
        }
        rest[count] = IoSlice::new(&piece[done..]);
        count += 1;
        done = 0;
    }
    session.link().send_some(&rest[..count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_frame_is_found() {
        let frames = b"d\0\0\0\x05xd\0\0\0\x06yz";
        let ends: Vec<usize> = (0..=frames.len()).map(|at| frame_end(frames, at)).collect();
        assert_eq!(ends, [0, 6, 6, 6, 6, 6, 6, 13, 13, 13, 13, 13, 13, 13]);
    }

    #[test]
    fn header_and_trailer_are_whole_frames() {
        assert_eq!((frame_length(HEADER), frame_length(TRAILER)), (Some(HEADER.len()), Some(TRAILER.len())));
    }
}
