//! Walks the structure of LZ4 frames while they are read, because the decoder takes the end of the input for the end of
//! a frame: a stream that was cut between two blocks would look complete.
//! Layout: LZ4 Frame Format Description 1.6.

use std::io::{Error, ErrorKind, Read, Result};

const FRAME: u32 = 0x184d_2204;
const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184d_2a50..=0x184d_2a5f;

/// Passes whole frames on, skippable ones left out.
pub(super) struct Lz4Frames<R> {
    inner: R,
    /// Headers read and not yet passed on.
    staged: Vec<u8>,
    passed: usize,
    /// Bytes of a block's data still to be passed on.
    data: usize,
    /// Flags of the open frame.
    flags: Option<u8>,
    /// A frame has ended, and the next one has not been asked for.
    between: bool,
    started: bool,
    /// The input ended at a frame's end.
    pub(super) complete: bool,
    /// The input ended anywhere else.
    pub(super) cut_off: bool,
}

impl<R: Read> Lz4Frames<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, staged: Vec::new(), passed: 0, data: 0, flags: None, between: false, started: false, complete: false, cut_off: false }
    }

    /// Goes on after the end of a frame, which is an end of the input for the decoder (it takes frames of one size only).
    pub(super) fn next_frame(&mut self) {
        self.between = false;
    }

    /// Reads `length` more bytes of a header.
    fn stage(&mut self, length: usize) -> Result<&[u8]> {
        let from = self.staged.len();
        self.staged.resize(from + length, 0);
        let result = self.inner.read_exact(&mut self.staged[from..]);
        self.note(result)?;
        Ok(&self.staged[from..])
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.cut_off |= matches!(&result, Err(e) if e.kind() == ErrorKind::UnexpectedEof);
        result
    }

    fn stage_u32(&mut self) -> Result<u32> {
        let bytes = self.stage(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Stages the next header: a frame's, or a block's with what follows the last one.
    fn advance(&mut self) -> Result<()> {
        self.staged.clear();
        self.passed = 0;
        match self.flags {
            None => self.frame_header(),
            Some(flags) => self.block_header(flags),
        }
    }

    fn frame_header(&mut self) -> Result<()> {
        loop {
            self.staged.clear();
            let mut first = [0];
            let read = loop {
                match self.inner.read(&mut first) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            if read == 0 && self.started {
                self.complete = true;
                return Ok(());
            } else if read == 0 {
                return self.note(Err(ErrorKind::UnexpectedEof.into()));
            }
            self.started = true;
            self.staged.push(first[0]);
            self.stage(3)?;
            let magic = u32::from_le_bytes([self.staged[0], self.staged[1], self.staged[2], self.staged[3]]);
            if SKIPPABLE.contains(&magic) {
                let length = u64::from(self.stage_u32()?);
                let skipped = std::io::copy(&mut (&mut self.inner).take(length), &mut std::io::sink())?;
                if skipped < length {
                    return self.note(Err(ErrorKind::UnexpectedEof.into()));
                }
                continue;
            }
            if magic != FRAME {
                return Err(Error::new(ErrorKind::InvalidData, "something that is no lz4 frame"));
            }
            let flags = self.stage(2)?[0];
            let size = if flags & 0x08 != 0 { 8 } else { 0 };
            let dictionary = if flags & 0x01 != 0 { 4 } else { 0 };
            self.stage(size + dictionary + 1)?;
            self.flags = Some(flags);
            return Ok(());
        }
    }

    fn block_header(&mut self, flags: u8) -> Result<()> {
        let size = self.stage_u32()?;
        if size == 0 {
            if flags & 0x04 != 0 {
                self.stage(4)?;
            }
            self.flags = None;
            self.between = true;
        } else {
            self.data = (size & 0x7fff_ffff) as usize + if flags & 0x10 != 0 { 4 } else { 0 };
        }
        Ok(())
    }
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let between = self.between && self.passed == self.staged.len();
        if self.passed == self.staged.len() && self.data == 0 && !self.complete && !between {
            self.advance()?;
        }
        if self.passed < self.staged.len() {
            let length = buffer.len().min(self.staged.len() - self.passed);
            buffer[..length].copy_from_slice(&self.staged[self.passed..self.passed + length]);
            self.passed += length;
            return Ok(length);
        }
        if self.complete || between || buffer.is_empty() {
            return Ok(0);
        }
        let length = buffer.len().min(self.data);
        let read = self.inner.read(&mut buffer[..length])?;
        if read == 0 {
            return self.note(Err(ErrorKind::UnexpectedEof.into()));
        }
        self.data -= read;
        Ok(read)
    }
}
