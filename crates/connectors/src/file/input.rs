//! Where bytes come from: files read straight into the chunk, pipes, and streams that are inflated or transcoded on the way.

use haul_formats::ReadAt;
use haul_formats::compression::{Compression, Decompressor};
use haul_formats::csv::Transcoder;
use haul_model::{Error, ErrorKind, Result, nearest};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A stream of decoded bytes.
pub struct ByteStream {
    /// Decoded bytes to hand out before anything else.
    ready: Vec<u8>,
    /// Bytes read ahead (for sampling), handed out first.
    ahead: Vec<u8>,
    ahead_used: usize,
    inner: Inner,
    transcoder: Option<Transcoder>,
    /// Undecoded bytes, when a transcoder is there.
    undecoded: Vec<u8>,
    regular: bool,
}

enum Inner {
    /// A pipe or device.
    File(File),
    /// A regular file, which others may be reading too.
    At(Arc<File>, u64),
    Stream(Box<dyn Read + Send>),
}

/// Why a file could not be opened; for one that is not there, with the name in its folder that comes nearest.
pub fn cannot_open(path: &Path, error: std::io::Error) -> Error {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let error = Error::io(path.display().to_string(), "cannot open", error);
    if !missing {
        return error;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return error.hint(format!("there is no folder {} either", folder.display()));
    };
    let names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match nearest(&wanted, names.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near:?}?")),
        None if path.is_relative() => error.hint("the path starts in the current folder; a path from the root begins with /"),
        None => error,
    }
}

impl ByteStream {
    /// A pipe or device, opened.
    pub fn special(file: File) -> Self {
        Self::new(Inner::File(file), false)
    }

    /// A regular file from its start.
    pub fn regular(file: Arc<File>) -> Self {
        Self::new(Inner::At(file, 0), true)
    }

    /// A file elsewhere: whole chunks cost no more waiting than parts of them.
    pub fn far(stream: Box<dyn Read + Send>) -> Self {
        Self::new(Inner::Stream(stream), true)
    }

    /// A pipe.
    pub fn pipe(stream: Box<dyn Read + Send>) -> Self {
        Self::new(Inner::Stream(stream), false)
    }

    fn new(inner: Inner, regular: bool) -> Self {
        Self { ready: Vec::new(), ahead: Vec::new(), ahead_used: 0, inner, transcoder: None, undecoded: Vec::new(), regular }
    }

    /// Puts bytes back in front of the stream.
    pub fn push_back(&mut self, bytes: Vec<u8>) {
        self.ahead = bytes;
        self.ahead_used = 0;
    }

    /// Drops the next `bytes` decoded bytes.
    ///
    /// # Errors
    /// IO, or the input ends before.
    pub fn skip(&mut self, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let mut buffer = Vec::with_capacity(bytes.clamp(64, 256 << 10));
            let got = self.read_into(&mut buffer)?;
            if got == 0 {
                return Err(Error::new(ErrorKind::Data, "the input became shorter while it was read"));
            }
            if got > bytes {
                self.ready = buffer.split_off(bytes);
            }
            bytes = bytes.saturating_sub(got);
        }
        Ok(())
    }

    /// Inflates what follows.
    ///
    /// # Errors
    /// A codec that cannot be started.
    pub fn decompress(self, compression: Compression, name: &str) -> Result<Self> {
        let regular = self.regular;
        let stream = Decompressor::new(compression, Box::new(AsRead(self)), name)?;
        Ok(Self::new(Inner::Stream(Box::new(stream)), regular))
    }

    /// Turns another encoding into UTF-8.
    pub fn transcode(mut self, transcoder: Transcoder) -> Self {
        // What was skipped over so far was not transcoded, so what came with it is not either.
        let mut front = std::mem::take(&mut self.ready);
        if !front.is_empty() {
            front.extend_from_slice(&self.ahead[self.ahead_used..]);
            self.push_back(front);
        }
        self.transcoder = Some(transcoder);
        // What a skip has read too far is not decoded yet.
        let ready = std::mem::take(&mut self.ready);
        if !ready.is_empty() {
            let rest = self.ahead.split_off(self.ahead_used);
            self.push_back([ready, rest].concat());
        }
        self
    }

    /// Whether a short read only happens at the end, so that filling the whole chunk costs no waiting.
    pub fn fills_whole_chunks(&self) -> bool {
        self.regular
    }

    /// Appends bytes to the free capacity of `buffer` (which must have some); 0 at the end.
    ///
    /// # Errors
    /// IO; a compressed stream that is cut or broken; bytes that the encoding does not have.
    pub fn read_into(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        if !self.ready.is_empty() {
            let ready = std::mem::take(&mut self.ready);
            buffer.extend_from_slice(&ready);
            return Ok(ready.len());
        }
        let Some(mut transcoder) = self.transcoder.take() else { return self.read_raw(buffer) };
        let before = buffer.len();
        let mut undecoded = std::mem::take(&mut self.undecoded);
        let mut got = 1;
        while buffer.len() == before && got > 0 {
            undecoded.clear();
            undecoded.reserve(64 << 10);
            got = self.read_raw(&mut undecoded)?;
            transcoder.push(&undecoded, got == 0, buffer)?;
        }
        self.undecoded = undecoded;
        self.transcoder = Some(transcoder);
        Ok(buffer.len() - before)
    }

    fn read_raw(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        if self.ahead_used < self.ahead.len() {
            let rest = &self.ahead[self.ahead_used..];
            let take = rest.len().min((buffer.capacity() - buffer.len()).max(1));
            buffer.extend_from_slice(&rest[..take]);
            self.ahead_used += take;
            if self.ahead_used == self.ahead.len() {
                self.ahead = Vec::new();
                self.ahead_used = 0;
            }
            return Ok(take);
        }
        let got = match &mut self.inner {
            Inner::File(file) => loop {
                match rustix::io::read(&*file, rustix::buffer::spare_capacity(buffer)) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other.map_err(std::io::Error::from),
                }
            },
            Inner::At(file, offset) => loop {
                match rustix::io::pread(&**file, rustix::buffer::spare_capacity(buffer), *offset) {
                    Err(rustix::io::Errno::INTR) => {}
                    Ok(got) => {
                        *offset += got as u64;
                        break Ok(got);
                    }
                    Err(error) => break Err(error.into()),
                }
            },
            Inner::Stream(stream) => read_stream(stream.as_mut(), buffer),
        };
        got.map_err(into_error)
    }
}

/// Standard input that can be left: a silent pipe must not keep Ctrl-C waiting. Not buffered, so that nothing hides from `poll`.
pub struct StandardInput {
    stop: Arc<AtomicBool>,
}

impl StandardInput {
    /// Standard input, until `stop` is set.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop }
    }
}

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let handle = std::io::stdin();
        let input = handle.as_fd();
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if self.stop.load(Relaxed) {
                return Err(std::io::Error::other(Error::new(ErrorKind::Cancelled, "stopped by the user")));
            }
            let mut heard = [rustix::event::PollFd::new(&input, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut heard, Some(&pause)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(input, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// One read into the free capacity of `buffer`.
fn read_stream(stream: &mut (dyn Read + Send), buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    let before = buffer.len();
    buffer.resize(buffer.capacity(), 0);
    let got = loop {
        match stream.read(&mut buffer[before..]) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    buffer.truncate(before + *got.as_ref().unwrap_or(&0));
    got
}

/// An error that a layer below carried through `std::io::Error` comes out as it went in.
fn into_error(error: std::io::Error) -> Error {
    let text = error.to_string();
    match error.downcast::<Error>() {
        Ok(inner) => inner,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData || error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Data, text)
        }
        Err(error) => Error::io("input", "cannot read", error),
    }
}

struct AsRead(ByteStream);

impl Read for AsRead {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.0.ahead_used < self.0.ahead.len() {
            let rest = &self.0.ahead[self.0.ahead_used..];
            let take = rest.len().min(out.len());
            out[..take].copy_from_slice(&rest[..take]);
            self.0.ahead_used += take;
            return Ok(take);
        }
        match &mut self.0.inner {
            Inner::File(file) => file.read(out),
            Inner::At(file, offset) => {
                let got = file.read_at(out, *offset)?;
                *offset += got as u64;
                Ok(got)
            }
            Inner::Stream(stream) => stream.read(out),
        }
    }
}

/// A file for random access.
pub struct FileAt {
    file: Arc<File>,
    length: u64,
    name: String,
}

impl FileAt {
    /// An open file of `length` bytes.
    pub fn new(file: Arc<File>, length: u64, name: &str) -> Self {
        Self { file, length, name: name.to_string() }
    }
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<bytes::Bytes> {
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Data, "the file ends early").object(&self.name).byte(offset),
            _ => Error::io(&self.name, "cannot read", e),
        })?;
        Ok(buffer.into())
    }
}
