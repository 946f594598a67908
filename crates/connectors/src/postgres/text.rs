//! Arrow columns to COPY TEXT: the way for tables with a column that has no exact binary writer (ranges, composites,
//! intervals, arrays that come as text).
//!
//! Fields are separated by tabs, NULL is `\N`, and backslash, tab, LF, CR and the other control characters that COPY knows are escaped. Types
//! that do have a binary writer are checked by it first, so that the server never rounds, cuts or guesses where the
//! binary way would have refused; `copy_format=text` leaves the reading of texts to the server instead.

use super::encode::{WriteColumns, bind, bound_arrays, report};
use super::encode_json::{self, Json};
use super::encode_lossy;
use super::encode_source::{Source, Values, print};
use super::encode_value::{self, Refusal, Written, bad, no_nul};
use super::target::Target;
use haul_model::{Block, BlockBody, Encoder, OnLossy, Rejects, Result, Rows};

/// Encodes batches as COPY TEXT lines. One per worker.
pub struct TextEncoder {
    plan: WriteColumns,
    out: Vec<u8>,
    rows: u64,
    spare: Vec<u8>,
    replaced: Vec<u64>,
    scratch: Vec<u8>,
}

impl TextEncoder {
    /// An encoder for planned columns.
    pub fn new(plan: &WriteColumns) -> Self {
        let replaced = vec![0; plan.columns.len()];
        Self { plan: plan.clone(), out: Vec::new(), rows: 0, spare: Vec::new(), replaced, scratch: Vec::new() }
    }

    fn row(&mut self, sources: &[Source<'_>], row: usize) -> std::result::Result<(), (usize, Box<Refusal>)> {
        let start = self.out.len();
        for (index, (column, source)) in self.plan.columns.iter().zip(sources).enumerate() {
            if index > 0 {
                self.out.push(b'\t');
            }
            let field = self.out.len();
            let written = write(&column.target, source, row, self.plan.lenient, &mut self.scratch, &mut self.out);
            let Err(refusal) = written else { continue };
            self.out.truncate(field);
            if !refusal.lossy || !matches!(self.plan.on_lossy, OnLossy::Null | OnLossy::Clamp) {
                self.out.truncate(start);
                return Err((index, refusal));
            }
            self.replaced[index] += 1;
            match nearest(&column.target, source, row).filter(|_| self.plan.on_lossy == OnLossy::Clamp) {
                Some(text) => escape(&text, &mut self.out),
                None => self.out.extend_from_slice(b"\\N"),
            }
        }
        self.out.push(b'\n');
        Ok(())
    }
}

fn nearest(target: &Target, source: &Source<'_>, row: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    print(&source.values, row, &mut text).then(|| encode_lossy::nearest(target, &text)).flatten()
}

/// Appends one field.
fn write(target: &Target, source: &Source<'_>, row: usize, lenient: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Written {
    if source.is_null(row) {
        out.extend_from_slice(b"\\N");
        return Ok(());
    }
    scratch.clear();
    match &source.values {
        Values::Text(text) => write_text(target, text.value(row), lenient, scratch, out),
        Values::Json { text, from_database } => write_json(target, text.value(row), *from_database, lenient, scratch, out),
        values => {
            encode_value::write(target, source, row, scratch)?;
            scratch.clear();
            if !print(values, row, scratch) {
                print_list(source, row, scratch)?;
            }
            escape(scratch, out);
            Ok(())
        }
    }
}

fn write_text(target: &Target, text: &[u8], lenient: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Written {
    let server_parses = match target {
        Target::Server { interval_digits } => {
            check_interval(text, *interval_digits)?;
            true
        }
        Target::Array { .. } => true,
        // What the server would cut or round without a word is checked also when it may parse.
        Target::Text(_) | Target::Numeric(Some(_)) => false,
        _ => lenient,
    };
    if server_parses {
        no_nul(text)?;
    } else {
        encode_value::write_text(target, text, scratch)?;
    }
    escape(text, out);
    Ok(())
}

fn write_json(target: &Target, text: &[u8], from_database: bool, lenient: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Written {
    match target {
        Target::Json | Target::Jsonb => return write_text(target, text, lenient, scratch, out),
        Target::Text(_) if from_database => return write_text(target, text, lenient, scratch, out),
        _ => {}
    }
    match encode_json::look(text).ok_or_else(|| bad("a text that is not JSON"))? {
        Json::Null => out.extend_from_slice(b"\\N"),
        Json::Scalar(value) => return write_text(target, &value, lenient, scratch, out),
        Json::List(list) => match target {
            Target::Text(_) => return write_text(target, list, lenient, scratch, out),
            Target::Array { .. } | Target::Server { .. } => {
                if matches!(target, Target::Array { .. }) {
                    encode_json::write(target, list, false, scratch)?;
                    scratch.clear();
                }
                encode_json::print_array(list, scratch)?;
                escape(scratch, out);
            }
            _ => return Err(bad("a JSON list does not fit the column")),
        },
        Json::Object(object) => match target {
            Target::Text(_) | Target::Server { .. } => return write_text(target, object, lenient, scratch, out),
            _ => return Err(bad("a JSON object does not fit the column")),
        },
    }
    Ok(())
}

/// `interval(p)` would round; one restricted to some fields would drop the others.
fn check_interval(text: &[u8], digits: Option<u8>) -> Written {
    let Some(digits) = digits else { return Ok(()) };
    let fraction = text.iter().position(|b| *b == b'.').map_or(0, |point| {
        let digits = text[point + 1..].iter().take_while(|b| b.is_ascii_digit());
        digits.enumerate().filter(|(_, d)| **d != b'0').last().map_or(0, |(i, _)| i + 1)
    });
    if fraction > usize::from(digits) {
        return Err(Box::new(Refusal {
            lossy: true,
            detail: format!("an interval with {fraction} digits after the second, the column keeps {digits}"),
            hint: Some("widen the column, or choose --on-lossy null"),
        }));
    }
    Ok(())
}

/// A list as the text of an array.
fn print_list(source: &Source<'_>, row: usize, out: &mut Vec<u8>) -> Written {
    let Values::List { ranges, item } = &source.values else { return Err(bad("a value that has no text")) };
    let mut text = Vec::new();
    out.push(b'{');
    for (i, index) in ranges.of(row).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if item.is_null(index) {
            out.extend_from_slice(b"NULL");
            continue;
        }
        text.clear();
        if print(&item.values, index, &mut text) {
            encode_json::quote_item(&text, out)?;
        } else {
            print_list(item, index, out)?;
        }
    }
    out.push(b'}');
    Ok(())
}

/// Appends a field's text with COPY's escapes.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(byte),
        }
    }
}

impl Encoder for TextEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let arrays = bound_arrays(&self.plan, rows)?;
        let sources = bind(&self.plan, &arrays)?;
        for row in 0..rows.batch.num_rows() {
            match self.row(&sources, row) {
                Ok(()) => self.rows += 1,
                Err((column, refusal)) => rejects.row(rows, row, self.plan.refused(column, *refusal))?,
            }
        }
        report(&self.plan, &mut self.replaced, rejects);
        Ok(())
    }

    fn pending(&self) -> usize {
        self.out.len()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let bytes = std::mem::replace(&mut self.out, std::mem::take(&mut self.spare));
        Ok(Some(Block { body: BlockBody::Bytes(bytes), rows: std::mem::take(&mut self.rows) }))
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare = buffer;
    }
}
