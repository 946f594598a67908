//! Values of a change: from the server's text to its binary form, and from there to JSON.

use crate::postgres::catalog::PgColumn;
use crate::postgres::decode_column::Refused;
use crate::postgres::decode_json::{checked, print_array, print_element, print_number};
use crate::postgres::encode_value::write_text;
use crate::postgres::target::Target;
use crate::postgres::types::ReadAs;
use haul_formats::jsonl::push_string;
use haul_model::OnLossy;

/// Whether the text of a value is taken as it is.
pub fn is_text(read: &ReadAs) -> bool {
    matches!(read, ReadAs::Text | ReadAs::Json | ReadAs::ServerText)
}

/// Appends the binary form of a value that came as text.
pub fn to_binary(read: &ReadAs, target: &Target, text: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    match (read, target) {
        (ReadAs::Jsonb, _) => {
            out.push(1);
            out.extend_from_slice(text);
        }
        (ReadAs::List(_) | ReadAs::ArrayJson(_), Target::Array { elem, elem_oid }) => array(elem, *elem_oid, text, out)?,
        _ => {
            let start = out.len();
            field(target, text, out)?;
            // The length is known from where it ends.
            out.drain(start..start + 4);
        }
    }
    Ok(())
}

/// Appends the length and the binary form of a scalar.
fn field(target: &Target, text: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    match target {
        Target::Text(_) | Target::Enum(_) | Target::Json => {
            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
            out.extend_from_slice(text);
            Ok(())
        }
        Target::Jsonb => {
            out.extend_from_slice(&(text.len() as u32 + 1).to_be_bytes());
            out.push(1);
            out.extend_from_slice(text);
            Ok(())
        }
        _ => write_text(target, text, out).map_err(|_| Refused::Malformed),
    }
}

/// Appends the binary form of an array literal: `{1,NULL,"a b"}`, nested, perhaps behind its bounds (`[0:1]={1,2}`).
fn array(elem: &Target, oid: u32, text: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
    let (mut bounds, mut rest) = (Vec::new(), text);
    if rest.first() == Some(&b'[') {
        let end = memchr::memchr(b'=', rest).ok_or(Refused::Malformed)?;
        let told = std::str::from_utf8(&rest[..end]).map_err(|_| Refused::Malformed)?;
        for part in told.split(']').filter(|part| !part.is_empty()) {
            let lower = part.trim_start_matches('[').split(':').next().and_then(|n| n.parse::<i32>().ok());
            bounds.push(lower.ok_or(Refused::Malformed)?);
        }
        rest = &rest[end + 1..];
    }
    let mut literal =
        Literal { rest, depth: 0, lengths: Vec::new(), counts: Vec::new(), nulls: false, values: Vec::new(), word: Vec::new() };
    literal.walk(elem)?;
    let dimensions = if literal.lengths.contains(&0) { 0 } else { literal.lengths.len() };
    out.extend_from_slice(&(dimensions as u32).to_be_bytes());
    out.extend_from_slice(&u32::from(literal.nulls).to_be_bytes());
    out.extend_from_slice(&oid.to_be_bytes());
    for (i, length) in literal.lengths.iter().take(dimensions).enumerate() {
        out.extend_from_slice(&(*length as u32).to_be_bytes());
        out.extend_from_slice(&bounds.get(i).copied().unwrap_or(1).to_be_bytes());
    }
    out.extend_from_slice(&literal.values);
    Ok(())
}

/// An array literal that is being read.
struct Literal<'a> {
    rest: &'a [u8],
    depth: usize,
    /// Of each dimension.
    lengths: Vec<usize>,
    /// Elements so far on the way down.
    counts: Vec<usize>,
    nulls: bool,
    /// Lengths and binary forms.
    values: Vec<u8>,
    word: Vec<u8>,
}

impl Literal<'_> {
    fn walk(&mut self, elem: &Target) -> Result<(), Refused> {
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(Refused::Malformed)?;
            match byte {
                b'{' => {
                    self.rest = rest;
                    self.depth += 1;
                    self.counts.push(0);
                    if self.lengths.len() < self.depth {
                        self.lengths.push(0);
                    }
                }
                b'}' => {
                    self.rest = rest;
                    let count = self.counts.pop().ok_or(Refused::Malformed)?;
                    self.depth -= 1;
                    self.lengths[self.depth] = self.lengths[self.depth].max(count);
                    match self.counts.last_mut() {
                        Some(outer) => *outer += 1,
                        None if self.rest.is_empty() => return Ok(()),
                        None => return Err(Refused::Malformed),
                    }
                }
                b',' => self.rest = rest,
                _ => self.element(elem)?,
            }
        }
    }

    fn element(&mut self, elem: &Target) -> Result<(), Refused> {
        let quoted = self.rest.first() == Some(&b'"');
        self.word.clear();
        let mut i = usize::from(quoted);
        loop {
            match self.rest.get(i).ok_or(Refused::Malformed)? {
                b'\\' => {
                    self.word.push(*self.rest.get(i + 1).ok_or(Refused::Malformed)?);
                    i += 2;
                }
                b'"' if quoted => {
                    i += 1;
                    break;
                }
                b',' | b'}' if !quoted => break,
                byte => {
                    self.word.push(*byte);
                    i += 1;
                }
            }
        }
        self.rest = &self.rest[i..];
        *self.counts.last_mut().ok_or(Refused::Malformed)? += 1;
        if !quoted && self.word == b"NULL" {
            self.nulls = true;
            self.values.extend_from_slice(&(-1i32).to_be_bytes());
            return Ok(());
        }
        let word = std::mem::take(&mut self.word);
        let written = field(elem, &word, &mut self.values);
        self.word = word;
        written
    }
}

/// How the values of a column become JSON.
pub struct JsonColumn {
    /// The name as a JSON string, and a colon.
    pub key: Vec<u8>,
    pub read: ReadAs,
    pub target: Target,
}

impl JsonColumn {
    pub fn new(column: &PgColumn, read: ReadAs) -> Self {
        let mut key = Vec::new();
        push_string(column.name.as_bytes(), &mut key);
        key.push(b':');
        Self { key, read, target: Target::of(column) }
    }
}

/// Appends a value as JSON. `true`: another one stands for it.
pub fn print_json(read: &ReadAs, bytes: &[u8], out: &mut Vec<u8>, on_lossy: OnLossy) -> Result<bool, Refused> {
    let start = out.len();
    let printed = match read {
        ReadAs::ServerText => checked(bytes).map(|text| {
            push_string(text, out);
            false
        }),
        ReadAs::Float4 => print_number(&ReadAs::FloatJson { double: false }, bytes, out, on_lossy),
        ReadAs::Float8 => print_number(&ReadAs::FloatJson { double: true }, bytes, out, on_lossy),
        ReadAs::NumericJson | ReadAs::FloatJson { .. } => print_number(read, bytes, out, on_lossy),
        ReadAs::ArrayJson(item) => print_array(item, bytes, out).map(|()| false),
        read => print_element(read, bytes, out).map(|()| false),
    };
    match printed {
        Err(Refused::Lossy(_)) if matches!(on_lossy, OnLossy::Null | OnLossy::Clamp) => {
            out.truncate(start);
            out.extend_from_slice(b"null");
            Ok(true)
        }
        printed => printed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::target::Limit;

    fn json(item: ReadAs, elem: Target, text: &str) -> String {
        let read = ReadAs::ArrayJson(Box::new(item));
        let mut binary = Vec::new();
        to_binary(&read, &Target::Array { elem: Box::new(elem), elem_oid: 25 }, text.as_bytes(), &mut binary).unwrap();
        let mut out = Vec::new();
        print_json(&read, &binary, &mut out, OnLossy::Error).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn array_literals_become_arrays() {
        let int = |text| json(ReadAs::Int4, Target::Int4, text);
        assert_eq!(int("{}"), "[]");
        assert_eq!(int("{1,NULL,-3}"), "[1,null,-3]");
        assert_eq!(int("{{1,2},{3,NULL}}"), "[[1,2],[3,null]]");
        assert_eq!(int("[1:1][1:2]={{7,8}}"), "[[7,8]]");
        let text = |text| json(ReadAs::Text, Target::Text(Limit::None), text);
        assert_eq!(text(r#"{a,"b c","NULL",NULL,"","q\"\\x","{,}"}"#), r#"["a","b c","NULL",null,"","q\"\\x","{,}"]"#);
    }

    #[test]
    fn literals_that_are_cut_are_refused() {
        let whole = r#"{1,{"a"},NULL}"#;
        for end in 0..whole.len() {
            let target = Target::Array { elem: Box::new(Target::Text(Limit::None)), elem_oid: 25 };
            let refused = to_binary(&ReadAs::ArrayJson(Box::new(ReadAs::Text)), &target, &whole.as_bytes()[..end], &mut Vec::new());
            assert!(refused.is_err(), "{end}");
        }
    }

    #[test]
    fn scalars_that_came_as_text() {
        let cases: [(ReadAs, Target, &str, &str); 8] = [
            (ReadAs::Bool, Target::Bool, "t", "true"),
            (ReadAs::Int8, Target::Int8, "-9223372036854775808", "-9223372036854775808"),
            (ReadAs::NumericJson, Target::Numeric(None), "1.50", "1.50"),
            (ReadAs::Float8, Target::Float8, "0.1", "0.1"),
            (
                ReadAs::TimestampText { zone: true },
                Target::Timestamp { zone: true, digits: 6 },
                "2020-01-31 12:00:00.5+00",
                "\"2020-01-31T12:00:00.5Z\"",
            ),
            (ReadAs::DateText, Target::Date, "0044-03-15 BC", "\"0044-03-15 BC\""),
            (ReadAs::Jsonb, Target::Jsonb, "{\"a\": 1}", "{\"a\": 1}"),
            (ReadAs::Bytea, Target::Bytea, "\\xdead", "\"\\\\xdead\""),
        ];
        for (read, target, text, expected) in cases {
            let (mut binary, mut out) = (Vec::new(), Vec::new());
            to_binary(&read, &target, text.as_bytes(), &mut binary).unwrap();
            print_json(&read, &binary, &mut out, OnLossy::Error).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let nan = f64::NAN.to_be_bytes();
        assert!(print_json(&ReadAs::Float8, &nan, &mut Vec::new(), OnLossy::Error).is_err());
        let mut out = Vec::new();
        assert_eq!((print_json(&ReadAs::Float8, &nan, &mut out, OnLossy::Null), out.as_slice()), (Ok(true), &b"null"[..]));
    }
}
