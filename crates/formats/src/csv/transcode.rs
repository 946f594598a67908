//! Character encodings other than UTF-8: turned into UTF-8 before anything is framed.

use encoding_rs::{DecoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};
use haul_model::{Error, ErrorKind, Result};

/// Encodings of text files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextEncoding {
    /// UTF-8: needs no transcoder; the decoder checks it.
    Utf8,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// ISO 8859-1: each byte is the code point of that number.
    Latin1,
    /// Windows code page 1252 as the web defines it: the five bytes without a character are C1 controls.
    Windows1252,
}

impl TextEncoding {
    /// Its name as `encoding=` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16Le => "utf-16le",
            Self::Utf16Be => "utf-16be",
            Self::Latin1 => "latin-1",
            Self::Windows1252 => "windows-1252",
        }
    }
}

/// The encoding of an input that starts with `first` (at least 3 bytes, if it has so many), and the length of a byte order
/// mark that must be skipped before transcoding. `setting` is the value of `encoding=`; `None` or `auto` goes by the mark, UTF-8
/// without one. The mark of UTF-8 has length 0 here: it is part of the format's prolog.
///
/// # Errors
/// `Config`: an unknown name, or a byte order mark that contradicts it.
pub fn detect_encoding(first: &[u8], setting: Option<&str>) -> Result<(TextEncoding, usize)> {
    let marked = match first {
        [0xff, 0xfe, ..] => Some(TextEncoding::Utf16Le),
        [0xfe, 0xff, ..] => Some(TextEncoding::Utf16Be),
        _ => None,
    };
    let Some(setting) = setting.filter(|s| !s.eq_ignore_ascii_case("auto")) else {
        return Ok(marked.map_or((TextEncoding::Utf8, 0), |m| (m, 2)));
    };
    let asked = match setting.to_ascii_lowercase().replace(['_', ' '], "-").as_str() {
        "utf-8" | "utf8" => TextEncoding::Utf8,
        "utf-16le" => TextEncoding::Utf16Le,
        "utf-16be" => TextEncoding::Utf16Be,
        "utf-16" | "utf16" => marked.unwrap_or(TextEncoding::Utf16Le),
        "latin-1" | "latin1" | "iso-8859-1" => TextEncoding::Latin1,
        "windows-1252" | "cp1252" => TextEncoding::Windows1252,
        _ => {
            return Err(Error::new(ErrorKind::Config, format!("unknown encoding {setting:?}"))
                .hint("one of auto, utf-8, utf-16le, utf-16be, latin-1, windows-1252"));
        }
    };
    match marked {
        Some(marked) if marked == asked => Ok((asked, 2)),
        // In an 8-bit encoding these two bytes could be text, but nobody starts a file with "ÿþ".
        Some(marked) => Err(Error::new(
            ErrorKind::Config,
            format!("the byte order mark says {}, the setting says encoding={}", marked.name(), asked.name()),
        )
        .hint(format!("leave the setting out, or give encoding={}", marked.name()))),
        None => Ok((asked, 0)),
    }
}

/// Turns a stream of bytes into UTF-8, piece by piece. Nothing is ever replaced.
pub struct Transcoder {
    encoding: TextEncoding,
    decoder: Option<encoding_rs::Decoder>,
    consumed: u64,
}

impl Transcoder {
    /// A transcoder for what follows the byte order mark. From UTF-8 it copies.
    pub fn new(encoding: TextEncoding) -> Self {
        let decoder = match encoding {
            TextEncoding::Utf8 | TextEncoding::Latin1 => None,
            TextEncoding::Utf16Le => Some(UTF_16LE.new_decoder_without_bom_handling()),
            TextEncoding::Utf16Be => Some(UTF_16BE.new_decoder_without_bom_handling()),
            TextEncoding::Windows1252 => Some(WINDOWS_1252.new_decoder_without_bom_handling()),
        };
        Self { encoding, decoder, consumed: 0 }
    }

    /// Appends `input` as UTF-8 to `out`. `last`: nothing follows.
    ///
    /// # Errors
    /// `Data`, with the byte offset (from the end of the byte order mark), for input that is malformed in its encoding.
    pub fn push(&mut self, input: &[u8], last: bool, out: &mut Vec<u8>) -> Result<()> {
        let at = out.len();
        let Some(decoder) = &mut self.decoder else {
            if self.encoding == TextEncoding::Utf8 {
                out.extend_from_slice(input);
            } else {
                out.resize(at + input.len() * 2, 0);
                let written = encoding_rs::mem::convert_latin1_to_utf8(input, &mut out[at..]);
                out.truncate(at + written);
            }
            self.consumed += input.len() as u64;
            return Ok(());
        };
        let room = decoder
            .max_utf8_buffer_length_without_replacement(input.len())
            .ok_or_else(|| Error::new(ErrorKind::Limit, "a piece of input too large to transcode"))?;
        out.resize(at + room, 0);
        let (result, read, written) = decoder.decode_to_utf8_without_replacement(input, &mut out[at..], last);
        out.truncate(at + written);
        self.consumed += read as u64;
        match result {
            DecoderResult::InputEmpty => Ok(()),
            DecoderResult::OutputFull => Err(Error::internal("the transcoder's output buffer is too small")),
            DecoderResult::Malformed(length, after) => {
                let byte = self.consumed.saturating_sub(u64::from(length) + u64::from(after));
                Err(Error::new(ErrorKind::Data, format!("input is not valid {}", self.encoding.name()))
                    .byte(byte)
                    .hint("the file is cut, or is in another encoding than encoding= says"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(encoding: TextEncoding, input: &[u8], step: usize) -> Result<String> {
        let mut transcoder = Transcoder::new(encoding);
        let mut out = Vec::new();
        let mut pieces = input.chunks(step).peekable();
        while let Some(piece) = pieces.next() {
            transcoder.push(piece, pieces.peek().is_none(), &mut out)?;
        }
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_encoding_is_exact_in_pieces_of_every_size() {
        let text = "id;t\r\n1;Grün\r\n2;日本😀";
        let units: Vec<u16> = text.encode_utf16().collect();
        let le: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
        let be: Vec<u8> = units.iter().flat_map(|u| u.to_be_bytes()).collect();
        for step in 1..=le.len() {
            assert_eq!(all(TextEncoding::Utf16Le, &le, step).unwrap(), text);
            assert_eq!(all(TextEncoding::Utf16Be, &be, step).unwrap(), text);
            assert_eq!(all(TextEncoding::Windows1252, b"caf\xe9 \x80", step).unwrap(), "café €");
            assert_eq!(all(TextEncoding::Latin1, b"caf\xe9 \x80", step).unwrap(), "café \u{80}");
            assert_eq!(all(TextEncoding::Utf8, "é€".as_bytes(), step).unwrap(), "é€");
        }
    }

    #[test]
    fn malformed_input_is_named_by_its_byte() {
        for step in 1..8 {
            let lone = [b'a', 0, 0x00, 0xd8, b'b', 0, b'c', 0];
            let error = all(TextEncoding::Utf16Le, &lone, step).unwrap_err();
            assert_eq!(error.place().byte, Some(2), "{error}");
            let odd = all(TextEncoding::Utf16Le, b"a\0b", step).unwrap_err();
            assert_eq!((odd.kind(), odd.place().byte), (ErrorKind::Data, Some(2)));
        }
    }

    #[test]
    fn the_byte_order_mark_decides_unless_it_contradicts() {
        assert_eq!(detect_encoding(b"\xff\xfea\0", None).unwrap(), (TextEncoding::Utf16Le, 2));
        assert_eq!(detect_encoding(b"\xfe\xff\0a", Some("auto")).unwrap(), (TextEncoding::Utf16Be, 2));
        assert_eq!(detect_encoding(b"\xef\xbb\xbfid", None).unwrap(), (TextEncoding::Utf8, 0));
        assert_eq!(detect_encoding(b"id", None).unwrap(), (TextEncoding::Utf8, 0));
        assert_eq!(detect_encoding(b"i\0", Some("UTF-16LE")).unwrap(), (TextEncoding::Utf16Le, 0));
        assert_eq!(detect_encoding(b"id", Some("latin1")).unwrap(), (TextEncoding::Latin1, 0));
        assert!(detect_encoding(b"\xff\xfea\0", Some("utf-8")).unwrap_err().to_string().contains("utf-16le"));
        assert!(detect_encoding(b"id", Some("ebcdic")).unwrap_err().hint_text().unwrap().contains("windows-1252"));
    }
}
