//! A dialect: the bytes that mean something, and the rules that framer, decoder and encoder share.

/// What ends a record.
///
/// `Auto` and `Lf` are the same but for a lone CR outside quotes (one that is not followed by LF): under `Auto` it is an
/// error that names its line, because lines may end in CR from there on and fields would be glued; under
/// `Lf` the user has said that lines end in LF, so it is data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Newline {
    /// LF; a CR before it belongs to it. A lone CR outside quotes is an error.
    Auto,
    /// LF; a CR before it belongs to it. A lone CR is data.
    Lf,
    /// CR LF only; a lone CR or LF is data.
    CrLf,
    /// CR only; an LF outside quotes is an error.
    Cr,
}

/// The bytes of a dialect. All of them are ASCII and differ from each other, from CR and from LF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields; only at the start of a field does it open a quoted one.
    pub quote: Option<u8>,
    /// Inside quotes, before a quote or before itself: that byte is data. A doubled quote works as well.
    pub escape: Option<u8>,
    /// What ends a record.
    pub newline: Newline,
    /// At the start of a record: the line is no record.
    pub comment: Option<u8>,
    /// Spaces and tabs around unquoted fields, and behind quoted ones, are dropped.
    pub trim: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), escape: None, newline: Newline::Auto, comment: None, trim: false }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The quote is never closed.
    Unclosed,
    /// Text between the closing quote and the delimiter.
    AfterQuote,
    /// A lone CR outside quotes.
    LoneCr,
    /// An LF outside quotes where records end with CR.
    LoneLf,
    /// Spaces before the opening quote, under `trim`.
    SpaceBeforeQuote,
}

impl Fault {
    /// What failed, and what to do.
    pub(crate) fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Unclosed => ("a quote is opened here and never closed", "close it, or double it inside a quoted field"),
            Self::AfterQuote => (
                "text between a closing quote and the next delimiter",
                "double the quotes inside a quoted field, or name the escape character with escape=\\",
            ),
            Self::LoneCr => (
                "a lone carriage return outside quotes, in a file whose lines end with LF",
                "newline=lf keeps it as data, newline=cr makes it the end of the line",
            ),
            Self::LoneLf => {
                ("a line feed outside quotes, in a file whose lines end with a lone CR", "make the line ends of the file alike")
            }
            Self::SpaceBeforeQuote => ("a space before an opening quote", "remove the space: a quote opens only at the start of a field"),
        }
    }
}

impl Dialect {
    /// Whether structure needs the byte-by-byte scan.
    pub(crate) fn is_bytewise(&self) -> bool {
        self.escape.is_some() || self.comment.is_some()
    }

    /// Where the content of a record ends whose bytes `..end` lie in front of its terminator (or of the end of the input,
    /// when not `terminated`): a CR that belongs to the terminator is taken off.
    #[inline]
    pub(crate) fn content_end(&self, bytes: &[u8], start: usize, end: usize, terminated: bool) -> usize {
        let strip = match self.newline {
            // CR at the very end of the input is half of a CR LF.
            Newline::Auto => true,
            Newline::Lf | Newline::CrLf => terminated,
            Newline::Cr => false,
        };
        if strip && end > start && bytes[end - 1] == b'\r' { end - 1 } else { end }
    }

    /// Checks one field, terminator already removed.
    pub(crate) fn check_field(&self, field: &[u8]) -> Result<(), Fault> {
        if self.quote.is_some() && field.first().copied() == self.quote {
            let close = self.closing_quote(field).ok_or(Fault::Unclosed)?;
            let rest = &field[close + 1..];
            let rest = if self.trim { trim_blanks(rest) } else { rest };
            return if rest.is_empty() { Ok(()) } else { Err(Fault::AfterQuote) };
        }
        match self.newline {
            Newline::Auto if field.contains(&b'\r') => return Err(Fault::LoneCr),
            Newline::Cr if field.contains(&b'\n') => return Err(Fault::LoneLf),
            _ => {}
        }
        if self.trim && self.quote.is_some() && trim_blanks(field).first().copied() == self.quote {
            return Err(Fault::SpaceBeforeQuote);
        }
        Ok(())
    }

    /// The index of the quote that closes a field that starts with one.
    fn closing_quote(&self, field: &[u8]) -> Option<usize> {
        let mut i = 1;
        while i < field.len() {
            if Some(field[i]) == self.escape {
                i += 2;
            } else if Some(field[i]) != self.quote {
                i += 1;
            } else if field.get(i + 1).copied() == self.quote {
                i += 2;
            } else {
                return Some(i);
            }
        }
        None
    }

    /// Appends the value of a well-formed quoted field to `out`.
    pub(crate) fn unquote(&self, field: &[u8], out: &mut Vec<u8>) {
        let close = self.closing_quote(field).unwrap_or(field.len());
        let mut inner = field[1..close].iter().copied().peekable();
        while let Some(byte) = inner.next() {
            let next = inner.peek().copied();
            let doubled = Some(byte) == self.quote && next == self.quote;
            let escaped = self.escape == Some(byte) && next.is_some() && (next == self.quote || next == self.escape);
            out.push(if doubled || escaped { inner.next().unwrap_or(byte) } else { byte });
        }
    }
}

/// Without spaces and tabs at both ends.
pub(crate) fn trim_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
