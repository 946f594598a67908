//! A strict JSON scanner over bytes (RFC 8259): finds where values start and end, copies nothing, keeps no tree.
//!
//! Numbers and strings stay as they are written; key order and duplicate keys are none of its business. It does
//! not recurse: nesting is a bit per level, and past [`MAX_DEPTH`] levels it is an error, never a stack overflow.
//! Half of a surrogate pair is fine for the grammar and therefore here; only [`unescape`] refuses it.

use crate::simd::string_bits;
use std::fmt;

/// Levels of arrays and objects that are accepted inside each other.
pub const MAX_DEPTH: usize = 1024;

/// Why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonReason {
    /// The text ends inside a value, or there is none.
    EndsEarly,
    /// A character that cannot stand here.
    Unexpected,
    /// A number that does not follow the grammar: `01`, `1.`, `.5`, `+1`, `1e`.
    Number,
    /// A backslash with something unknown after it.
    Escape,
    /// A control character inside a string that should have been escaped.
    Control,
    /// Half of a surrogate pair (`\ud83d` alone): no character.
    Surrogate,
    /// Nested deeper than [`MAX_DEPTH`].
    Depth,
    /// Bytes that are not UTF-8.
    Utf8,
    /// Something follows the value.
    Trailing,
}

/// A text that is not JSON: why, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// Offset in bytes, from 0.
    pub offset: usize,
    /// Why.
    pub reason: JsonReason,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            JsonReason::EndsEarly => "it ends in the middle of a value",
            JsonReason::Unexpected => "a character that cannot stand there",
            JsonReason::Number => "a malformed number",
            JsonReason::Escape => "an unknown escape",
            JsonReason::Control => "a control character that is not escaped",
            JsonReason::Surrogate => "half of a surrogate pair, which is no character",
            JsonReason::Depth => return write!(f, "more than {MAX_DEPTH} levels of nesting at offset {}", self.offset),
            JsonReason::Utf8 => "bytes that are not UTF-8",
            JsonReason::Trailing => "something after the value",
        };
        write!(f, "{what} at offset {}", self.offset)
    }
}

impl std::error::Error for JsonError {}

/// Checks that `input` is exactly one JSON value, white space around it allowed.
///
/// # Errors
/// Where and why it is not.
pub fn validate_json(input: &[u8]) -> Result<(), JsonError> {
    whole(input).map(|_| ())
}

/// Checks `input` like [`validate_json`] and appends it to `out` without white space between tokens. Numbers, strings,
/// key order and duplicate keys stay as they are. On an error `out` is as it was.
///
/// # Errors
/// Where and why it is not one JSON value.
pub fn compact_json(input: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    if whole(input)? {
        strip_space(input, out);
    } else {
        out.extend_from_slice(input);
    }
    Ok(())
}

/// Scans one whole document; whether it has white space between its tokens.
fn whole(input: &[u8]) -> Result<bool, JsonError> {
    let mut cursor = Cursor::new(input);
    cursor.skip_space();
    cursor.value()?;
    cursor.skip_space();
    if cursor.at != input.len() {
        return Err(cursor.error(JsonReason::Trailing));
    }
    if cursor.wide
        && let Err(error) = simdutf8::compat::from_utf8(input)
    {
        return Err(JsonError { offset: error.valid_up_to(), reason: JsonReason::Utf8 });
    }
    Ok(cursor.spaced)
}

/// Copies valid JSON without white space between tokens.
fn strip_space(input: &[u8], out: &mut Vec<u8>) {
    out.reserve(input.len());
    let (mut from, mut at) = (0, 0);
    while at < input.len() {
        match input[at] {
            b'"' => at = string_end(input, at),
            b' ' | b'\t' | b'\r' | b'\n' => {
                out.extend_from_slice(&input[from..at]);
                while at < input.len() && is_space(input[at]) {
                    at += 1;
                }
                from = at;
            }
            _ => at += 1,
        }
    }
    out.extend_from_slice(&input[from..]);
}

/// Just after the string that opens at `at`, in valid JSON.
fn string_end(input: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &input[at..]) {
        at += found;
        if input[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    input.len()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// What kind of value was scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction and exponent.
    Integer,
    /// Any other number.
    Number,
    /// A string; whether it has escapes.
    String {
        /// Whether a backslash is in it.
        escaped: bool,
    },
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonKind {
    /// For messages: `a string`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer => "a whole number",
            Self::Number => "a number with a fraction or exponent",
            Self::String { .. } => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// A place in a text that is being scanned. After an error it stands where the error is.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// White space was skipped.
    spaced: bool,
    /// A string has bytes outside ASCII: the text may not be UTF-8.
    wide: bool,
}

impl<'a> Cursor<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, spaced: false, wide: false }
    }

    /// The offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// An error at the next byte.
    pub fn error(&self, reason: JsonReason) -> JsonError {
        JsonError { offset: self.at, reason }
    }

    /// The next byte.
    #[inline(always)]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Goes past white space.
    #[inline(always)]
    pub fn skip_space(&mut self) {
        if self.peek().is_some_and(|b| b <= b' ') {
            let start = self.at;
            while self.peek().is_some_and(is_space) {
                self.at += 1;
            }
            self.spaced |= self.at > start;
        }
    }

    /// Goes past `byte`.
    ///
    /// # Errors
    /// Something else is there.
    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        match self.peek() {
            Some(b) if b == byte => {
                self.at += 1;
                Ok(())
            }
            found => Err(self.wrong(found)),
        }
    }

    /// Goes past one value; the cursor stands at its first byte.
    ///
    /// # Errors
    /// Not a value.
    #[inline]
    pub fn value(&mut self) -> Result<JsonKind, JsonError> {
        match self.peek() {
            Some(b'{') => self.nested().map(|()| JsonKind::Object),
            Some(b'[') => self.nested().map(|()| JsonKind::Array),
            first => self.scalar(first),
        }
    }

    /// Goes past one value that is no array or object and begins with `first`.
    #[inline(always)]
    fn scalar(&mut self, first: Option<u8>) -> Result<JsonKind, JsonError> {
        match first {
            Some(b'"') => self.string().map(|escaped| JsonKind::String { escaped }),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", JsonKind::Bool(true)),
            Some(b'f') => self.word(b"false", JsonKind::Bool(false)),
            Some(b'n') => self.word(b"null", JsonKind::Null),
            found => Err(self.wrong(found)),
        }
    }

    /// Goes past a string; whether it has escapes.
    ///
    /// # Errors
    /// Not a string, or one that is never closed.
    #[inline]
    pub fn string(&mut self) -> Result<bool, JsonError> {
        self.expect(b'"')?;
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            if let Some(chunk) = rest.first_chunk::<16>() {
                let bits = string_bits(chunk);
                if bits.special == 0 {
                    self.wide |= bits.wide != 0;
                    self.at += 16;
                    continue;
                }
                let clear = bits.special.trailing_zeros();
                self.wide |= bits.wide & ((1 << clear) - 1) != 0;
                self.at += clear as usize;
            } else {
                let clear = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
                self.wide |= rest[..clear].iter().any(|b| *b >= 0x80);
                self.at += clear;
            }
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err(self.error(JsonReason::Control)),
                None => return Err(self.error(JsonReason::EndsEarly)),
            }
        }
    }

    /// Goes past a backslash and what belongs to it.
    fn escape(&mut self) -> Result<(), JsonError> {
        let length = match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..).unwrap_or_default();
                match digits.iter().take(4).position(|b| !b.is_ascii_hexdigit()) {
                    Some(_) => return Err(self.error(JsonReason::Escape)),
                    None if digits.len() < 4 => {
                        self.at = self.text.len();
                        return Err(self.error(JsonReason::EndsEarly));
                    }
                    None => 6,
                }
            }
            Some(_) => return Err(self.error(JsonReason::Escape)),
            None => {
                self.at = self.text.len();
                return Err(self.error(JsonReason::EndsEarly));
            }
        };
        self.at += length;
        Ok(())
    }

    #[inline(always)]
    fn word(&mut self, word: &[u8], kind: JsonKind) -> Result<JsonKind, JsonError> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(kind);
        }
        let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.at += same;
        Err(self.wrong(self.peek()))
    }

    /// Goes past a number.
    #[inline]
    fn number(&mut self) -> Result<JsonKind, JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut kind = JsonKind::Integer;
        if self.peek() == Some(b'.') {
            kind = JsonKind::Number;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            kind = JsonKind::Number;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E') => Err(self.error(JsonReason::Number)),
            _ => Ok(kind),
        }
    }

    /// Goes past one or more digits.
    #[inline(always)]
    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        match self.peek() {
            None if self.at == start => Err(self.error(JsonReason::EndsEarly)),
            _ if self.at == start => Err(self.error(JsonReason::Number)),
            _ => Ok(()),
        }
    }

    /// Goes past an array or object.
    fn nested(&mut self) -> Result<(), JsonError> {
        let mut levels = Levels::default();
        'open: loop {
            let mut object = self.peek() == Some(b'{');
            if !levels.push(object) {
                return Err(self.error(JsonReason::Depth));
            }
            self.at += 1;
            self.skip_space();
            let mut empty = self.peek() == Some(if object { b'}' } else { b']' });
            loop {
                if !empty {
                    if object {
                        self.string()?;
                        self.skip_space();
                        self.expect(b':')?;
                        self.skip_space();
                    }
                    match self.peek() {
                        Some(b'{' | b'[') => continue 'open,
                        first => self.scalar(first)?,
                    };
                    self.skip_space();
                }
                // After a value: a comma, or the ends of one or more levels.
                empty = false;
                loop {
                    match self.peek() {
                        Some(b',') => {
                            self.at += 1;
                            self.skip_space();
                            break;
                        }
                        Some(b'}') if object => {}
                        Some(b']') if !object => {}
                        found => return Err(self.wrong(found)),
                    }
                    self.at += 1;
                    match levels.pop() {
                        Some(outer) => object = outer,
                        None => return Ok(()),
                    }
                    self.skip_space();
                }
            }
        }
    }

    fn wrong(&self, found: Option<u8>) -> JsonError {
        self.error(if found.is_some() { JsonReason::Unexpected } else { JsonReason::EndsEarly })
    }
}

/// The open arrays (0) and objects (1), a bit each.
struct Levels {
    bits: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Default for Levels {
    fn default() -> Self {
        Self { bits: [0; MAX_DEPTH / 64], depth: 0 }
    }
}

impl Levels {
    /// Opens a level; `false` when there are too many.
    #[inline(always)]
    fn push(&mut self, object: bool) -> bool {
        let Some(word) = self.bits.get_mut(self.depth / 64) else { return false };
        let bit = self.depth % 64;
        *word = (*word & !(1 << bit)) | (u64::from(object) << bit);
        self.depth += 1;
        true
    }

    /// Closes a level; whether the one around it is an object, `None` when it was the outermost.
    #[inline(always)]
    fn pop(&mut self) -> Option<bool> {
        self.depth -= 1;
        let outer = self.depth.checked_sub(1)?;
        Some(self.bits[outer / 64] >> (outer % 64) & 1 == 1)
    }
}

/// Appends the characters of a scanned string (`raw`: between the quotes, escapes valid) to `out`.
///
/// # Errors
/// Half of a surrogate pair; the offset is inside `raw`. `out` then has a part of the string.
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    let mut at = 0;
    while let Some(clear) = memchr::memchr(b'\\', &raw[at..]) {
        out.extend_from_slice(&raw[at..at + clear]);
        at += clear;
        let simple = match raw.get(at + 1) {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'u') => {
                at += unescape_unicode(raw, at, out)?;
                continue;
            }
            Some(other) => *other,
            None => return Err(JsonError { offset: at, reason: JsonReason::EndsEarly }),
        };
        out.push(simple);
        at += 2;
    }
    out.extend_from_slice(&raw[at..]);
    Ok(())
}

/// Appends the character of `\uXXXX` (or of a pair) at `at`; the length of what was read.
fn unescape_unicode(raw: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, JsonError> {
    let unit = |at: usize| -> Option<u32> {
        let hex = raw.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let lone = JsonError { offset: at, reason: JsonReason::Surrogate };
    let first = unit(at).ok_or(JsonError { offset: at, reason: JsonReason::Escape })?;
    let (code, length) = match first {
        0xd800..=0xdbff => match unit(at + 6) {
            Some(second @ 0xdc00..=0xdfff) => (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12),
            _ => return Err(lone),
        },
        code => (code, 6),
    };
    let character = char::from_u32(code).ok_or(lone)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(length)
}
