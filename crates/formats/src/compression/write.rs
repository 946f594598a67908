//! Compressing blocks on the workers so that the sink only has to join them.

use super::Compression;
use super::crc::combine;
use flate2::{Compress, FlushCompress};
use haul_model::{Block, BlockBody, Encoder, Error, Plain, Rejects, Result, Rows};
use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use std::io::{Cursor, Write};

/// The start of a gzip member: deflate, no name, no time, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// A last deflate block with nothing in it.
const DEFLATE_END: [u8; 2] = [3, 0];

/// Compresses one block after the other, each on its own: blocks of several workers may be joined in any order.
pub struct BlockCompressor(Method);

enum Method {
    None,
    Gzip(Box<Compress>),
    Zstd(zstd::bulk::Compressor<'static>),
    Lz4,
}

impl BlockCompressor {
    /// A compressor; `level` as [`Compression::level`] gives it, `None` = the default.
    ///
    /// # Errors
    /// The compressor could not be made (memory).
    pub fn new(compression: Compression, level: Option<i32>) -> Result<Self> {
        Ok(Self(match compression {
            Compression::None => Method::None,
            Compression::Gzip => {
                let level = level.map_or_else(flate2::Compression::default, |l| flate2::Compression::new(l.clamp(1, 9) as u32));
                Method::Gzip(Box::new(Compress::new(level, false)))
            }
            Compression::Zstd => {
                let mut compressor = zstd::bulk::Compressor::new(level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL)).map_err(failed)?;
                compressor.set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true)).map_err(failed)?;
                Method::Zstd(compressor)
            }
            Compression::Lz4 => Method::Lz4,
        }))
    }

    /// Compresses `input` and appends it to `out`. gzip: a run of deflate blocks that ends on a byte; zstd and
    /// lz4: a frame with content size and checksum.
    ///
    /// # Errors
    /// The compressor's own (memory).
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Plain> {
        let mut plain = Plain { crc32: 0, bytes: input.len() as u64 };
        match &mut self.0 {
            Method::None => out.extend_from_slice(input),
            Method::Gzip(deflate) => {
                deflate_block(deflate, input, out)?;
                let mut crc = flate2::Crc::new();
                crc.update(input);
                plain.crc32 = crc.sum();
            }
            Method::Zstd(compressor) => {
                out.reserve(zstd::zstd_safe::compress_bound(input.len()));
                let end = out.len() as u64;
                let mut space = Cursor::new(out);
                space.set_position(end);
                compressor.compress_to_buffer(input, &mut space).map_err(failed)?;
            }
            Method::Lz4 => {
                let frame = FrameInfo::new().block_size(BlockSize::Max256KB).content_size(Some(input.len() as u64)).content_checksum(true);
                let mut encoder = FrameEncoder::with_frame_info(frame, out);
                encoder.write_all(input).map_err(failed)?;
                encoder.finish().map_err(failed)?;
            }
        }
        Ok(plain)
    }
}

/// Deflates `input` on its own (no look back at what went before) and ends on a byte border.
fn deflate_block(deflate: &mut Compress, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    deflate.reset();
    // More than deflate can need (stored blocks), so that one call does all.
    out.reserve(input.len() + input.len() / 16 + 256);
    loop {
        let done = deflate.total_in() as usize;
        let before = out.len();
        deflate.compress_vec(&input[done..], out, FlushCompress::Sync).map_err(failed)?;
        if deflate.total_in() as usize == input.len() && out.len() < out.capacity() {
            return Ok(());
        }
        if out.len() == before && deflate.total_in() as usize == done && out.len() < out.capacity() {
            return Err(Error::internal("deflate makes no progress"));
        }
        out.reserve(input.len() / 2 + 256);
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("a block could not be compressed: {error}"))
}

/// What stands around the blocks of one file. The sink feeds it the blocks' checksums in the order of the file.
#[derive(Debug, Clone, Copy)]
pub struct Envelope {
    compression: Compression,
    plain: Plain,
    blocks: u64,
}

impl Envelope {
    /// Around a file without blocks yet.
    pub fn new(compression: Compression) -> Self {
        Self { compression, plain: Plain::default(), blocks: 0 }
    }

    /// What the file begins with.
    pub fn header(&self) -> &'static [u8] {
        if self.compression == Compression::Gzip { &GZIP_HEADER } else { &[] }
    }

    /// Notes that a block comes next in the file.
    pub fn push(&mut self, block: Plain) {
        self.plain.crc32 = combine(self.plain.crc32, block.crc32, block.bytes);
        self.plain.bytes += block.bytes;
        self.blocks += 1;
    }

    /// Uncompressed bytes so far.
    pub fn plain_bytes(&self) -> u64 {
        self.plain.bytes
    }

    /// What the file ends with. A file without any block becomes a valid stream of no bytes.
    ///
    /// # Errors
    /// The compressor's own (memory).
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self.compression {
            Compression::Gzip => {
                out.extend_from_slice(&DEFLATE_END);
                out.extend_from_slice(&self.plain.crc32.to_le_bytes());
                // The format keeps the length modulo 2^32.
                out.extend_from_slice(&(self.plain.bytes as u32).to_le_bytes());
            }
            other if self.blocks == 0 => {
                BlockCompressor::new(other, None)?.compress(&[], &mut out)?;
            }
            _ => {}
        }
        Ok(out)
    }
}

/// Compresses the blocks of another encoder: `BlockBody::Bytes` becomes `BlockBody::Compressed`.
pub struct CompressingEncoder {
    inner: Box<dyn Encoder>,
    compressor: BlockCompressor,
    spare: Vec<Vec<u8>>,
}

impl CompressingEncoder {
    /// Around `inner`; `level` as [`Compression::level`] gives it.
    ///
    /// # Errors
    /// The compressor could not be made (memory).
    pub fn new(inner: Box<dyn Encoder>, compression: Compression, level: Option<i32>) -> Result<Self> {
        Ok(Self { inner, compressor: BlockCompressor::new(compression, level)?, spare: Vec::new() })
    }
}

impl Encoder for CompressingEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        self.inner.push(rows, rejects)
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        let Some(block) = self.inner.take()? else { return Ok(None) };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        let plain = match block.body {
            BlockBody::Bytes(text) => {
                let plain = self.compressor.compress(&text, &mut bytes)?;
                self.inner.recycle(text);
                plain
            }
            BlockBody::Shared(text) => self.compressor.compress(&text, &mut bytes)?,
            body => return Ok(Some(Block { body, rows: block.rows })),
        };
        Ok(Some(Block { body: BlockBody::Compressed { bytes, plain }, rows: block.rows }))
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 2 {
            self.spare.push(buffer);
        }
    }
}
