//! gzip, zstd and lz4 around a byte stream.
//!
//! Reading ([`Decompressor`]) takes everything that belongs to the stream: all gzip members, all zstd and lz4
//! frames, empty and skippable ones too. What is cut off, damaged or followed by something else is an error, never
//! a shorter result.
//!
//! Writing is parallel: each worker compresses whole blocks ([`BlockCompressor`], or [`CompressingEncoder`] around a
//! format's encoder), and the sink only joins them in order: [`Envelope::header`], the blocks, [`Envelope::finish`]. A gzip
//! file is still one member, because half the world's readers stop after the first; zstd and lz4 get a frame per block.

mod crc;
mod lz4_frames;
mod read;
mod write;

pub use read::Decompressor;
pub use write::{BlockCompressor, CompressingEncoder, Envelope};

use haul_model::{Error, ErrorKind, Kind, Result, Setting, Settings};

/// A way to compress a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// The bytes as they are.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// LZ4 frames.
    Lz4,
}

/// `compression=` of everything that reads or writes files.
pub const SETTING: Setting = Setting::new(
    "compression",
    Kind::Choice(&["auto", "none", "gzip", "zstd", "lz4"]),
    "auto",
    "auto goes by the extension (.gz .zst .lz4), and on reading by the first bytes where no extension says it.",
);

/// `compression_level=` for writing.
pub const LEVEL_SETTING: Setting =
    Setting::new("compression_level", Kind::Int, "", "1-9 for gzip (default 6), -7 to 22 for zstd (default 3); lz4 has one level.");

impl Compression {
    /// All that change the bytes.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Zstd, Self::Lz4];

    /// `gzip`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// The compression that a file name's extension says, and the name without it: `a.csv.gz` is gzip around `a.csv`.
    pub fn by_extension(file_name: &str) -> (Self, &str) {
        let Some((stem, extension)) = file_name.rsplit_once('.') else { return (Self::None, file_name) };
        match extension.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => (Self::Gzip, stem),
            "zst" | "zstd" => (Self::Zstd, stem),
            "lz4" => (Self::Lz4, stem),
            _ => (Self::None, file_name),
        }
    }

    /// How file names end that have it.
    pub fn extension(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gz"),
            Self::Zstd => Some("zst"),
            Self::Lz4 => Some("lz4"),
        }
    }

    /// The compression that the first bytes of a stream say (4 are enough).
    pub fn by_magic(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            _ => Self::None,
        }
    }

    /// For writing to `file_name`: what `compression=` says, else the extension.
    pub fn for_writing(settings: &Settings, file_name: &str) -> Self {
        Self::said(settings).unwrap_or_else(|| Self::by_extension(file_name).0)
    }

    /// For reading `file_name`: what `compression=` says, else the extension, else the first bytes in `start`. A file whose
    /// extension names a compression must have it: an empty or plain `.gz` is broken, not uncompressed.
    pub fn for_reading(settings: &Settings, file_name: &str, start: &[u8]) -> Self {
        Self::said(settings).unwrap_or_else(|| match Self::by_extension(file_name).0 {
            Self::None => Self::by_magic(start),
            named => named,
        })
    }

    fn said(settings: &Settings) -> Option<Self> {
        let word = settings.choice(SETTING.name)?;
        [Self::None, Self::Gzip, Self::Zstd, Self::Lz4].into_iter().find(|c| c.name() == word)
    }

    /// The level that `compression_level=` says.
    ///
    /// # Errors
    /// `Config`: a level that this compression does not have.
    pub fn level(self, settings: &Settings) -> Result<Option<i32>> {
        let Some(level) = settings.int(LEVEL_SETTING.name) else { return Ok(None) };
        let range = match self {
            Self::None => return Ok(None),
            Self::Gzip => 1..=9,
            Self::Zstd => -7..=22,
            Self::Lz4 => return Err(Error::new(ErrorKind::Config, "lz4 has no levels").hint("leave compression_level out")),
        };
        match i32::try_from(level) {
            Ok(level) if range.contains(&level) => Ok(Some(level)),
            _ => {
                Err(Error::new(ErrorKind::Config, format!("{} has levels {} to {}, not {level}", self.name(), range.start(), range.end())))
            }
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
