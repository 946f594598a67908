//! JSON values on their way into columns that are not JSON: strings unwrapped, numbers by their digits, lists as arrays.

use super::encode_value::{Written, array_header, bad, no_nul, put_null, put_with, write_text};
use super::target::Target;
use std::borrow::Cow;

/// A JSON value, looked at one level deep.
pub(super) enum Json<'a> {
    /// `null`.
    Null,
    /// A string's content, or the token of a number or boolean.
    Scalar(Cow<'a, [u8]>),
    /// A list, brackets included.
    List(&'a [u8]),
    /// An object, braces included.
    Object(&'a [u8]),
}

/// Looks at a value; `None` when it is not JSON as far as that is seen here.
pub(super) fn look(text: &[u8]) -> Option<Json<'_>> {
    let text = text.trim_ascii();
    Some(match text {
        b"null" => Json::Null,
        b"true" | b"false" => Json::Scalar(Cow::Borrowed(text)),
        [b'[', .., b']'] => Json::List(text),
        [b'{', .., b'}'] => Json::Object(text),
        [b'"', inner @ .., b'"'] => Json::Scalar(unescape(inner)?),
        [b'-' | b'0'..=b'9', ..] => Json::Scalar(Cow::Borrowed(text)),
        _ => return None,
    })
}

/// Appends the field for a JSON value. `from_database`: the column is JSON of a database, where a string in a text column keeps its quotes.
pub(super) fn write(target: &Target, text: &[u8], from_database: bool, out: &mut Vec<u8>) -> Written {
    match target {
        Target::Json | Target::Jsonb => return write_text(target, text, out),
        Target::Text(_) if from_database => return write_text(target, text, out),
        _ => {}
    }
    match look(text).ok_or_else(|| bad("a text that is not JSON"))? {
        Json::Null => put_null(out),
        Json::Scalar(value) => return write_text(target, &value, out),
        Json::List(list) => match target {
            Target::Array { elem, elem_oid } => return write_array(elem, *elem_oid, list, out),
            Target::Text(_) => return write_text(target, list, out),
            _ => return Err(bad("a JSON list does not fit the column")),
        },
        Json::Object(object) => match target {
            Target::Text(_) => return write_text(target, object, out),
            _ => return Err(bad("a JSON object does not fit the column")),
        },
    }
    Ok(())
}

/// The values of a list, in order, each trimmed; `None` when it is malformed.
pub(super) fn items(list: &[u8]) -> Option<Vec<&[u8]>> {
    let inner = list.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let mut items = Vec::new();
    if inner.trim_ascii().is_empty() {
        return Some(items);
    }
    let (mut depth, mut start, mut at) = (0usize, 0, 0);
    while at < inner.len() {
        match inner[at] {
            b'"' => at += string_len(&inner[at..])? - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                items.push(inner[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    items.push(inner[start..].trim_ascii());
    (depth == 0 && items.iter().all(|i| !i.is_empty())).then_some(items)
}

/// Length of the string that starts here, quotes included.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The content of a string; borrowed where nothing is escaped. `None` for broken escapes and lone surrogates.
fn unescape(inner: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(first) = memchr::memchr(b'\\', inner) else { return Some(Cow::Borrowed(inner)) };
    let mut out = inner[..first].to_vec();
    let mut rest = &inner[first..];
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escape, after) = rest.split_first()?;
        rest = after;
        match escape {
            b'"' | b'\\' | b'/' => out.push(escape),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let high = u32::from(hex4(rest)?);
                rest = &rest[4..];
                let code = if (0xD800..0xDC00).contains(&high) {
                    let low = u32::from(hex4(rest.strip_prefix(b"\\u")?)?);
                    rest = &rest[6..];
                    (0xDC00..0xE000).contains(&low).then(|| 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))?
                } else {
                    high
                };
                out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
    }
    Some(Cow::Owned(out))
}

fn hex4(text: &[u8]) -> Option<u16> {
    text.get(..4)?.iter().try_fold(0u16, |n, b| Some(n << 4 | char::from(*b).to_digit(16)? as u16))
}

/// Nested lists as one rectangle: its lengths, and its leaves in order.
fn rectangle<'a>(
    list: &'a [u8],
    depth: usize,
    lengths: &mut Vec<usize>,
    leaves: &mut Vec<&'a [u8]>,
) -> Result<(), Box<super::encode_value::Refusal>> {
    let items = items(list).ok_or_else(|| bad("a text that is not a JSON list"))?;
    if depth == lengths.len() {
        if !leaves.is_empty() || depth == super::array_wire::MAX_DIMENSIONS {
            return Err(bad("a JSON list of lists with different depths is no array"));
        }
        lengths.push(items.len());
    } else if lengths[depth] != items.len() {
        return Err(bad("a JSON list of lists with different lengths is no array"));
    }
    for item in items {
        if item.starts_with(b"[") {
            rectangle(item, depth + 1, lengths, leaves)?;
        } else if depth + 1 == lengths.len() {
            leaves.push(item);
        } else {
            return Err(bad("a JSON list that mixes lists and values is no array"));
        }
    }
    Ok(())
}

fn write_array(elem: &Target, elem_oid: u32, list: &[u8], out: &mut Vec<u8>) -> Written {
    let (mut lengths, mut leaves) = (Vec::new(), Vec::new());
    rectangle(list, 0, &mut lengths, &mut leaves)?;
    if lengths.len() > 1 && lengths.contains(&0) {
        return Err(bad("empty lists inside a JSON list are no array"));
    }
    put_with(out, |out| {
        array_header(out, &lengths, leaves.contains(&&b"null"[..]), elem_oid);
        leaves.iter().try_for_each(|leaf| write(elem, leaf, false, out))
    })
}

/// A JSON list as the text of an array: for columns whose elements only the server can parse.
pub(super) fn print_array(list: &[u8], out: &mut Vec<u8>) -> Written {
    let items = items(list).ok_or_else(|| bad("a text that is not a JSON list"))?;
    out.push(b'{');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match look(item).ok_or_else(|| bad("a text that is not JSON"))? {
            Json::Null => out.extend_from_slice(b"NULL"),
            Json::List(inner) => print_array(inner, out)?,
            Json::Scalar(value) => quote_item(&value, out)?,
            Json::Object(object) => quote_item(object, out)?,
        }
    }
    out.push(b'}');
    Ok(())
}

/// An element of an array's text, always in quotes.
pub(super) fn quote_item(value: &[u8], out: &mut Vec<u8>) -> Written {
    no_nul(value)?;
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_at_their_own_commas() {
        let list = br#" [1, "a,]\"", {"k":[1,2]}, null, [ ] ]"#.trim_ascii();
        let cut: Vec<_> = items(list).unwrap().into_iter().map(|i| std::str::from_utf8(i).unwrap()).collect();
        assert_eq!(cut, ["1", r#""a,]\"""#, r#"{"k":[1,2]}"#, "null", "[ ]"]);
        assert_eq!(items(b"[ ]").unwrap().len(), 0);
        for broken in [&b"[1,]"[..], b"[\"a]", b"[1]]", b"1"] {
            assert!(items(broken).is_none());
        }
    }

    #[test]
    fn tx_06_strings_are_unescaped_or_refused() {
        let text = |json: &str| match look(json.as_bytes()) {
            Some(Json::Scalar(s)) => Some(String::from_utf8(s.into_owned()).unwrap()),
            _ => None,
        };
        assert_eq!(text(r#""\ud83d\ude00\/\b\f\n""#).unwrap(), "😀/\u{8}\u{c}\n");
        assert_eq!(text(r#""\ud83d""#), None);
        assert_eq!(text(r#""\x""#), None);
        assert_eq!(text("12.50").unwrap(), "12.50");
    }

    #[test]
    fn ty_01_nested_lists_must_be_rectangles() {
        let array = |json: &str| {
            let mut out = Vec::new();
            write_array(&Target::Int4, 23, json.as_bytes(), &mut out).map(|()| out)
        };
        let wire = array("[[1,2],[null,4]]").unwrap();
        let parsed = super::super::array_wire::ArrayWire::parse(&wire[4..]).unwrap();
        assert_eq!((parsed.dimensions, &parsed.lengths[..2]), (2, &[2, 2][..]));
        assert_eq!(super::super::array_wire::ArrayWire::parse(&array("[]").unwrap()[4..]).unwrap().dimensions, 0);
        for ragged in ["[[1],[2,3]]", "[1,[2]]", "[[1],2]", "[[],[]]", "[[[1]],[2]]"] {
            assert!(array(ragged).is_err(), "{ragged}");
        }
    }
}
