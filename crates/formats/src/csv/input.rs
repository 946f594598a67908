//! One CSV input, configured: what its first bytes say about columns, line ends and prolog.

use super::decoder::{CsvDecoder, Layout};
use super::dialect::{Dialect, Newline};
use super::framer::CsvFramer;
use super::header::unique_names;
use super::index::Index;
use super::options::{Header, ReadOptions, check_bytes};
use super::scan::{State, next_state};
use crate::{Framer, Prolog, RecordInput};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Decoder, Encoding, Error, ErrorKind, Note, Result, Settings, nearest};
use std::sync::Arc;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A CSV input whose header has been read.
pub struct CsvInput {
    layout: Arc<Layout>,
    prolog: Prolog,
    encoding: Option<Encoding>,
    notes: Vec<Note>,
}

impl CsvInput {
    /// Configures an input from its settings and its first bytes. `sample`: the start of the decompressed, transcoded input, 64 KiB
    /// or more, or all of it (`complete`). `name` is for messages.
    ///
    /// # Errors
    /// `Config`: settings that contradict each other. `Schema`: a wanted column that is not there. `Data`: a header that is malformed,
    /// does not end within the sample, or is in another encoding; a `skip` that ends inside quotes.
    pub fn detect(settings: &Settings, sample: &[u8], complete: bool, name: &str) -> Result<Self> {
        Self::read(settings, sample, complete).map_err(|e| e.object(name))
    }

    fn read(settings: &Settings, sample: &[u8], complete: bool) -> Result<Self> {
        let mut options = ReadOptions::parse(settings)?;
        check_encoding(sample)?;
        let mut notes = Vec::new();
        let start = if sample.starts_with(BOM) { BOM.len() } else { 0 };
        let terminator = first_terminator(&options.dialect, &sample[start..], options.skip_lines > 0);
        if options.detect_newline && terminator == Some("cr") {
            options.dialect.newline = Newline::Cr;
            notes.push(Note::new("lines end with a lone carriage return"));
        }
        let start = start + skip_lines(&options, &sample[start..], complete)?;
        if options.sniff_delimiter {
            options.dialect.delimiter = sniff(&options.dialect, &sample[start..], complete);
            check_bytes(&options.dialect)?;
            notes.push(Note::new(format!("delimiter found: {:?}", char::from(options.dialect.delimiter))));
        }
        let sample = Sample::new(&options.dialect, sample, start, complete)?;
        let head = Head::read(&options, &sample, &mut notes)?;
        let wanted = choose_columns(&head.names, options.columns.as_deref())?;
        let fields: Vec<Field> = wanted.iter().map(|&i| Field::new(&head.names[i], DataType::Utf8View, true)).collect();
        let plain = options.dialect.comment.is_none()
            && !options.dialect.trim
            && options.ragged == super::decoder::Ragged::Error
            && !options.drop_trailing
            && wanted.iter().copied().eq(0..head.names.len())
            && !head.names.is_empty();
        let encoding = plain.then(|| Encoding {
            format: "csv",
            detail: fingerprint(
                &options.dialect,
                terminator.unwrap_or("lf"),
                &options.rule.nulls,
                options.rule.empty_is_string,
                head.names.iter().map(String::as_str),
            ),
        });
        let layout = Layout {
            dialect: options.dialect,
            rule: options.rule,
            ragged: options.ragged,
            drop_trailing: options.drop_trailing,
            width: head.names.len(),
            wanted,
            schema: Arc::new(Schema::new(fields)),
        };
        let lines = line_breaks(&options.dialect, &sample.bytes[..head.end]);
        Ok(Self { layout: Arc::new(layout), prolog: Prolog { bytes: head.end, lines }, encoding, notes })
    }

    /// The dialect, as it was found.
    pub fn dialect(&self) -> Dialect {
        self.layout.dialect
    }
}

/// What must be equal for the bytes of records to mean the same: bytes of the dialect, line end, NULL rule, columns.
pub(crate) fn fingerprint<'a>(
    dialect: &Dialect,
    terminator: &str,
    nulls: &[Vec<u8>],
    empty_is_string: bool,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let nulls: Vec<_> = nulls.iter().map(|n| String::from_utf8_lossy(n)).collect();
    format!(
        "{:?} {:?} {:?} {terminator} null={nulls:?} empty={} columns={:?}",
        char::from(dialect.delimiter),
        dialect.quote.map(char::from),
        dialect.escape.map(char::from),
        if empty_is_string { "string" } else { "null" },
        names.collect::<Vec<_>>()
    )
}

impl RecordInput for CsvInput {
    fn prolog(&self) -> Prolog {
        self.prolog
    }
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }
    fn encoding(&self) -> Option<Encoding> {
        self.encoding.clone()
    }
    fn framer(&self) -> Box<dyn Framer> {
        Box::new(CsvFramer::new(self.layout.dialect, self.layout.width == 1, self.prolog.lines, self.prolog.bytes as u64))
    }
    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(CsvDecoder::new(self.layout.clone()))
    }
    fn notes(&self) -> Vec<Note> {
        self.notes.clone()
    }
}

/// UTF-16 that nobody transcoded would give fields full of NULs: refused here, where the hint can be right.
fn check_encoding(sample: &[u8]) -> Result<()> {
    let error = |which: &str, how: &str| {
        Err(Error::new(ErrorKind::Data, format!("{how}: this is {which}, not UTF-8")).hint(format!("give encoding={which}")))
    };
    match sample {
        [0xff, 0xfe, ..] => return error("utf-16le", "the file starts with a UTF-16 byte order mark"),
        [0xfe, 0xff, ..] => return error("utf-16be", "the file starts with a UTF-16 byte order mark"),
        _ => {}
    }
    let head = &sample[..sample.len().min(1024)];
    let pairs = head.len() / 2;
    let nul_at = |offset: usize| head.iter().skip(offset).step_by(2).filter(|b| **b == 0).count();
    let (even, odd) = (nul_at(0), nul_at(1));
    // Text in Latin letters has NUL in each second place; binary data in CSV has not.
    let mostly = |n: usize, other: usize| pairs >= 2 && n * 2 > pairs && other * 8 <= n;
    if mostly(odd, even) {
        return error("utf-16le", "NUL bytes in every second place");
    }
    if mostly(even, odd) {
        return error("utf-16be", "NUL bytes in every second place");
    }
    Ok(())
}

/// The first terminator outside quotes: `lf`, `crlf` or `cr`. `raw`: quotes mean nothing yet (skipped lines come first).
fn first_terminator(dialect: &Dialect, text: &[u8], raw: bool) -> Option<&'static str> {
    // Quotes and delimiters do their work whatever ends a line; the first line end stops the walk.
    let lines = Dialect { newline: Newline::Lf, comment: None, ..*dialect };
    let (mut state, mut previous) = (State::Record, None);
    for (i, &byte) in text.iter().enumerate() {
        let outside = raw || !matches!(state, State::Quoted | State::Escape);
        match byte {
            b'\n' if outside => return Some("lf"),
            // A CR at the very end of the sample says nothing yet.
            b'\r' if outside && i + 1 < text.len() => return Some(if text[i + 1] == b'\n' { "crlf" } else { "cr" }),
            _ => {}
        }
        state = next_state(&lines, state, previous, byte);
        previous = Some(byte);
    }
    None
}

fn line_break(dialect: &Dialect) -> u8 {
    if dialect.newline == Newline::Cr { b'\r' } else { b'\n' }
}

fn line_breaks(dialect: &Dialect, text: &[u8]) -> u64 {
    memchr::memchr_iter(line_break(dialect), text).count() as u64
}

/// The length of the physical lines to skip.
fn skip_lines(options: &ReadOptions, text: &[u8], complete: bool) -> Result<usize> {
    let dialect = &options.dialect;
    let (mut state, mut previous, mut skipped, mut end) = (State::Record, None, 0, 0);
    for (i, &byte) in text.iter().enumerate() {
        if skipped == options.skip_lines {
            break;
        }
        state = next_state(dialect, state, previous, byte);
        previous = Some(byte);
        if byte == line_break(dialect) {
            skipped += 1;
            end = i + 1;
        }
    }
    if skipped < options.skip_lines && !complete {
        return Err(Error::new(
            ErrorKind::Config,
            format!("skip={} reaches past the first {} bytes of the file", options.skip_lines, text.len()),
        )
        .hint("skip is for a few lines in front of the header"));
    }
    if options.skip_lines > 0 && matches!(state, State::Quoted | State::Escape) {
        return Err(Error::new(ErrorKind::Data, "skip= ends inside a quoted field")
            .line(skipped)
            .hint("skip counts physical lines: skip more or fewer"));
    }
    Ok(if skipped < options.skip_lines { text.len() } else { end })
}

/// The start of the input, indexed.
struct Sample<'a> {
    bytes: &'a [u8],
    dialect: &'a Dialect,
    /// Behind byte order mark and skipped lines.
    start: usize,
    index: Index,
    /// Whether it is all of the input.
    complete: bool,
    /// Whether the last record of the index may be cut.
    cut: bool,
}

/// As much of the sample as is looked at.
const LOOK: usize = 1 << 20;

impl<'a> Sample<'a> {
    fn new(dialect: &'a Dialect, bytes: &'a [u8], start: usize, complete: bool) -> Result<Self> {
        let complete = complete && bytes.len() - start <= LOOK;
        let look = &bytes[start..bytes.len().min(start + LOOK)];
        let mut index = Index::default();
        index.build(dialect, look)?;
        let cut = !complete && !index.terminated;
        Ok(Self { bytes: &bytes[..start + look.len()], dialect, start, index, complete, cut })
    }

    /// Whole records that are neither comments nor, unless `blank_counts`, blank: (start, end, fields).
    fn records(&self, blank_counts: bool) -> impl Iterator<Item = (usize, usize, Vec<&'a [u8]>)> {
        let whole = self.index.marks.len() - usize::from(self.cut);
        let (mut start, mut first) = (0, 0);
        self.index.marks[..whole].iter().enumerate().filter_map(move |(n, mark)| {
            let look = &self.bytes[self.start..];
            let ends = &self.index.ends[first..mark.fields as usize];
            let terminated = self.index.terminated || n + 1 < self.index.marks.len();
            let mut from = start;
            let fields: Vec<&[u8]> = (1..)
                .zip(ends)
                .map(|(i, &end)| {
                    let end = end as usize;
                    let end = if i == ends.len() { self.dialect.content_end(look, start, end, terminated) } else { end };
                    let field = &look[from..end];
                    from = end + 1;
                    field
                })
                .collect();
            let record = (self.start + start, self.start + mark.next as usize, fields);
            (start, first) = (mark.next as usize, mark.fields as usize);
            let blank = record.2 == [b""];
            (!mark.comment && (blank_counts || !blank)).then_some(record)
        })
    }

    /// The value of a field of the record that starts at `record`.
    fn text(&self, record: usize, field: &[u8]) -> Result<String> {
        let line = || line_breaks(self.dialect, &self.bytes[..record]) + 1;
        if let Err(fault) = self.dialect.check_field(field) {
            let (what, hint) = fault.text();
            return Err(Error::new(ErrorKind::Data, what).context("header").line(line()).hint(hint));
        }
        let mut value = Vec::new();
        if self.dialect.quote.is_some() && field.first().copied() == self.dialect.quote {
            self.dialect.unquote(field, &mut value);
        } else {
            value.extend_from_slice(if self.dialect.trim { super::dialect::trim_blanks(field) } else { field });
        }
        String::from_utf8(value).map_err(|e| {
            let bad = e.utf8_error().valid_up_to();
            Error::new(ErrorKind::Data, format!("header: byte 0x{:02x} is not valid UTF-8", e.as_bytes()[bad]))
                .line(line())
                .hint("name the file's encoding, for example encoding=windows-1252")
        })
    }
}

/// Names, and where the records start.
struct Head {
    names: Vec<String>,
    end: usize,
}

impl Head {
    fn read(options: &ReadOptions, sample: &Sample<'_>, notes: &mut Vec<Note>) -> Result<Self> {
        let first = sample.records(matches!(options.header, Header::Given(_))).next();
        let Some((start, next, fields)) = first else {
            return Self::without_records(options, sample, notes);
        };
        if sample.index.open && next == sample.bytes.len() && sample.complete {
            let (what, hint) = super::dialect::Fault::Unclosed.text();
            return Err(Error::new(ErrorKind::Data, what).line(line_breaks(sample.dialect, &sample.bytes[..start]) + 1).hint(hint));
        }
        let (mut names, mut end) = match &options.header {
            Header::First => {
                let names = fields.iter().map(|f| sample.text(start, f)).collect::<Result<Vec<_>>>()?;
                (names, next)
            }
            Header::Absent => ((1..=fields.len()).map(|i| format!("column_{i}")).collect(), sample.start),
            Header::Given(names) => (names.clone(), sample.start),
        };
        let unnamed_last = match &options.header {
            Header::First => names.last().is_some_and(String::is_empty),
            Header::Absent => fields.last().is_some_and(|f| f.is_empty()),
            Header::Given(_) => false,
        };
        if options.drop_trailing && names.len() > 1 && unnamed_last {
            names.pop();
            notes.push(Note::new("the empty column behind the trailing delimiter is left out"));
        }
        let (names, renamed) = unique_names(names);
        notes.extend(renamed);
        if options.skip_records > 0 {
            let blank_counts = names.len() == 1;
            let mut records = sample.records(blank_counts).filter(|(start, ..)| *start >= end);
            match records.nth(options.skip_records as usize - 1) {
                Some((_, next, _)) => end = next,
                None if sample.complete && !sample.index.open => end = sample.bytes.len(),
                None => {
                    return Err(Error::new(
                        ErrorKind::Config,
                        format!("skip_records={} reaches past the first {} bytes of the file", options.skip_records, sample.bytes.len()),
                    ));
                }
            }
        }
        Ok(Self { names, end })
    }

    /// No whole record in the sample.
    fn without_records(options: &ReadOptions, sample: &Sample<'_>, notes: &mut Vec<Note>) -> Result<Self> {
        if let Header::Given(names) = &options.header {
            if sample.complete {
                notes.push(Note::new("empty file"));
            }
            return Ok(Self { names: names.clone(), end: sample.start });
        }
        if !sample.complete {
            let what = if options.header == Header::First { "the header" } else { "the first record" };
            let error = Error::new(ErrorKind::Data, format!("{what} does not end within the first {} bytes", sample.bytes.len()));
            return Err(error
                .line(line_breaks(sample.dialect, &sample.bytes[..sample.start]) + 1)
                .hint("look for a quote that is never closed"));
        }
        if options.header == Header::Absent && sample.bytes.len() > sample.start && sample.records(true).next().is_some() {
            // Nothing but blank lines: NULLs of one column, as the writer makes them.
            return Ok(Self { names: vec!["column_1".into()], end: sample.start });
        }
        notes.push(Note::new(if options.header == Header::First { "empty file: no header" } else { "empty file" }));
        Ok(Self { names: Vec::new(), end: sample.bytes.len() })
    }
}

/// The file's columns that are wanted, in the order wanted.
fn choose_columns(names: &[String], wanted: Option<&[String]>) -> Result<Vec<usize>> {
    let Some(wanted) = wanted else { return Ok((0..names.len()).collect()) };
    let mut out = Vec::with_capacity(wanted.len());
    for name in wanted {
        let Some(i) = names.iter().position(|n| n == name) else {
            let error = Error::new(ErrorKind::Schema, format!("no column {name:?} in the file"));
            return Err(match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error.hint(format!("its columns are {}", names.join(", "))),
            });
        };
        if out.contains(&i) {
            return Err(Error::new(ErrorKind::Config, format!("columns= names {name:?} twice")));
        }
        out.push(i);
    }
    Ok(out)
}

/// The delimiter under which the first records have the same number of fields, and the most of them.
fn sniff(dialect: &Dialect, text: &[u8], complete: bool) -> u8 {
    let score = |delimiter: u8| {
        let dialect = Dialect { delimiter, ..*dialect };
        let sample = Sample::new(&dialect, text, 0, complete).ok()?;
        let counts: Vec<usize> = sample.records(false).take(100).map(|(_, _, fields)| fields.len()).collect();
        let first = *counts.first()?;
        let alike = counts.iter().filter(|c| **c == first).count();
        (first > 1 && alike * 10 >= counts.len() * 9).then_some((alike == counts.len(), first))
    };
    let candidates = [b',', b';', b'\t', b'|'].into_iter().filter(|d| Some(*d) != dialect.quote && Some(*d) != dialect.comment);
    let scored: Vec<_> = candidates.filter_map(|d| score(d).map(|s| (s, d))).collect();
    // The first of those that are equally good.
    scored.iter().rev().max_by_key(|(s, _)| *s).map_or(b',', |(_, d)| *d)
}
