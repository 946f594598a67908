//! Reading compressed streams to their very end.

use super::Compression;
use super::lz4_frames::Lz4Frames;
use flate2::bufread::GzDecoder;
use haul_model::{Error, ErrorKind, Result};
use lz4_flex::frame::FrameDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Compressed bytes that are read at once.
const INPUT_BYTES: usize = 128 << 10;

/// Decompresses a stream while it is read.
///
/// Every byte of the input belongs to the stream: several gzip members, zstd or lz4 frames are read one after the other,
/// zero bytes after the last gzip member are padding. A stream that ends early, is damaged, or is followed by something
/// else is a `Data` error; an error of the input itself is passed on as such.
pub struct Decompressor {
    stream: Stream,
    compression: Compression,
    name: String,
    input_failure: Failure,
}

enum Stream {
    Plain(Input),
    Gzip(Box<GzipMembers>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Input>>>),
    Lz4(Lz4Stream),
    Ended,
}

impl Decompressor {
    /// Reads `input`; `name` is for messages.
    ///
    /// # Errors
    /// The decompressor could not be made (memory).
    pub fn new(compression: Compression, input: Box<dyn Read + Send>, name: impl Into<String>) -> Result<Self> {
        let (name, input_failure) = (name.into(), Failure::default());
        let input = Input { inner: input, failure: input_failure.clone() };
        let buffered = |input| BufReader::with_capacity(INPUT_BYTES, input);
        let stream = match compression {
            Compression::None => Stream::Plain(input),
            Compression::Gzip => Stream::Gzip(Box::new(GzipMembers { member: Some(GzDecoder::new(buffered(input))) })),
            Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(buffered(input)) {
                Ok(decoder) => Stream::Zstd(Box::new(decoder)),
                Err(e) => return Err(Error::io(name, "the zstd stream cannot be opened", e)),
            },
            Compression::Lz4 => Stream::Lz4(Lz4Stream { frame: Some(Box::new(FrameDecoder::new(Lz4Frames::new(buffered(input))))) }),
        };
        Ok(Self { stream, compression, name, input_failure })
    }

    /// What it decompresses.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads some bytes; 0 is the end of the stream, and then the stream was whole.
    ///
    /// # Errors
    /// `Data`: the stream ends early, is damaged, or is followed by something else. Or the input's own error.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = match &mut self.stream {
            Stream::Plain(input) => input.read(buffer),
            Stream::Gzip(members) => members.read(buffer),
            Stream::Zstd(decoder) => decoder.read(buffer),
            Stream::Lz4(frames) => frames.read(buffer),
            Stream::Ended => Ok(0),
        };
        match read {
            Ok(0) => {
                self.stream = Stream::Ended;
                Ok(0)
            }
            Ok(read) => Ok(read),
            Err(error) => Err(self.explain(error)),
        }
    }

    fn explain(&self, error: io::Error) -> Error {
        if let Some(own) = self.input_failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Error::io(self.name.clone(), "cannot be read", own);
        }
        let error = match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Data, format!("the compressed stream ends early ({})", self.compression))
                .hint("the file is not complete: copy or download it again"),
            _ => Error::new(ErrorKind::Data, format!("the {} stream is damaged: {error}", self.compression))
                .hint("compression=none reads the bytes as they are"),
        };
        error.object(self.name.clone())
    }
}

impl Read for Decompressor {
    /// [`Decompressor::read_some`]; the [`Error`] is inside the `io::Error`.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(buffer).map_err(io::Error::other)
    }
}

/// The first error of the input, kept apart from the decompressor's own.
type Failure = Arc<Mutex<Option<io::Error>>>;

struct Input {
    inner: Box<dyn Read + Send>,
    failure: Failure,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                    return Err(io::Error::other("the input failed"));
                }
                read => return read,
            }
        }
    }
}

/// One gzip member after the other.
struct GzipMembers {
    /// `None` after the last one.
    member: Option<GzDecoder<BufReader<Input>>>,
}

impl GzipMembers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let read = member.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            // The member is whole and its checksum held.
            let Some(mut input) = self.member.take().map(GzDecoder::into_inner) else { return Ok(0) };
            if another_member(&mut input)? {
                self.member = Some(GzDecoder::new(input));
            }
        }
    }
}

/// Whether another member follows; zero bytes up to the end are padding.
fn another_member(input: &mut impl BufRead) -> io::Result<bool> {
    let mut padded = false;
    loop {
        let bytes = input.fill_buf()?;
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        match bytes.get(zeros) {
            Some(0x1f) if !padded && zeros == 0 => return Ok(true),
            Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "something that is no gzip member follows the last one")),
            None if bytes.is_empty() => return Ok(false),
            None => {
                padded = true;
                input.consume(zeros);
            }
        }
    }
}

/// One lz4 frame after the other, each with a decoder of its own.
struct Lz4Stream {
    /// `None` only while the decoder is replaced.
    frame: Option<Box<FrameDecoder<Lz4Frames<BufReader<Input>>>>>,
}

impl Lz4Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            if frame.get_ref().cut_off {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if frame.get_ref().complete {
                return Ok(0);
            }
            if let Some(mut frames) = self.frame.take().map(|f| f.into_inner()) {
                frames.next_frame();
                self.frame = Some(Box::new(FrameDecoder::new(frames)));
            }
        }
    }
}
