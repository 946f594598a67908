//! Text to JSON strings: 64 bytes are classified at once, clear runs are copied 16 bytes at a time.
//!
//! Only what must be escaped is: `"`, `\` and the control characters, those with a short form in it.

use crate::simd::string_bits;

/// Bytes that are classified at once.
const WINDOW: usize = 64;
/// A copy that starts in the window may read this far past it.
const SLACK: usize = 16;

/// For each byte below 0x80 that has an escape: the escape, and in the last place its length.
static ESCAPES: [[u8; 8]; 128] = escapes();

const fn escapes() -> [[u8; 8]; 128] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0; 8]; 128];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = [b'\\', b'u', b'0', b'0', HEX[byte >> 4], HEX[byte & 15], 0, 6];
        byte += 1;
    }
    let short = [(8, b'b'), (9, b't'), (10, b'n'), (12, b'f'), (13, b'r'), (b'"', b'"'), (b'\\', b'\\')];
    let mut i = 0;
    while i < short.len() {
        table[short[i].0 as usize] = [b'\\', short[i].1, 0, 0, 0, 0, 0, 2];
        i += 1;
    }
    table
}

/// Appends `text` as a JSON string, quotes included.
pub fn push_string(text: &[u8], out: &mut Vec<u8>) {
    push_string_in(text, 0, text.len(), out);
}

/// [`push_string`] for `buffer[start..end]`; faster when the buffer goes on after it.
#[inline]
pub(crate) fn push_string_in(buffer: &[u8], start: usize, end: usize, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = start;
    while at < end {
        let length = (end - at).min(WINDOW);
        match buffer[at..].first_chunk() {
            Some(window) => push_window(window, length, out),
            None => {
                let mut window = [0; WINDOW + SLACK];
                window[..length].copy_from_slice(&buffer[at..at + length]);
                push_window(&window, length, out);
            }
        }
        at += length;
    }
    out.push(b'"');
}

/// Appends the first `length` (at most [`WINDOW`]) bytes of `window`, escaped.
#[inline]
fn push_window(window: &[u8; WINDOW + SLACK], length: usize, out: &mut Vec<u8>) {
    let mut special = 0u64;
    for (i, chunk) in window[..WINDOW].as_chunks::<16>().0.iter().enumerate() {
        if i * 16 >= length {
            break;
        }
        special |= u64::from(string_bits(chunk).special) << (i * 16);
    }
    if length < WINDOW {
        special &= (1 << length) - 1;
    }
    let mut from = 0;
    while special != 0 {
        let to = special.trailing_zeros() as usize;
        push_run(window, from, to, out);
        let escape = &ESCAPES[usize::from(window[to] & 0x7f)];
        let after = out.len() + usize::from(escape[7]);
        out.extend_from_slice(escape);
        out.truncate(after);
        special &= special - 1;
        from = to + 1;
    }
    push_run(window, from, length, out);
}

/// Appends `window[from..to]`: whole registers are copied, what was too much is cut off.
#[inline(always)]
fn push_run(window: &[u8; WINDOW + SLACK], from: usize, to: usize, out: &mut Vec<u8>) {
    let after = out.len() + (to - from);
    let mut at = from;
    while at < to {
        out.extend_from_slice(&window[at..at + SLACK]);
        at += SLACK;
    }
    out.truncate(after);
}

/// Appends a view's text (at most 12 bytes, as Arrow lays it out: length, then bytes padded with zeros) as a JSON string.
#[inline(always)]
pub(crate) fn push_inline_view(view: u128, out: &mut Vec<u8>) {
    let length = (view as u32 & 15) as usize;
    let special = string_bits(&view.to_le_bytes()).special >> 4;
    if special & ((1 << length) - 1) == 0 {
        let quoted = (view >> 32 << 8) | u128::from(b'"') | (u128::from(b'"') << (8 * (length + 1)));
        let after = out.len() + length + 2;
        out.extend_from_slice(&quoted.to_le_bytes());
        out.truncate(after);
    } else {
        let bytes = (view >> 32).to_le_bytes();
        let mut window = [0; WINDOW + SLACK];
        window[..16].copy_from_slice(&bytes);
        out.push(b'"');
        push_window(&window, length, out);
        out.push(b'"');
    }
}

/// Appends JSON text; a line break between tokens (the only place where valid JSON has one) becomes a space.
#[inline]
pub(crate) fn push_raw_json(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text);
    if memchr::memchr2(b'\n', b'\r', text).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> String {
        let mut out = b"x".to_vec();
        push_string(text.as_bytes(), &mut out);
        String::from_utf8(out[1..].to_vec()).unwrap()
    }

    #[test]
    fn short_forms_and_control_characters() {
        assert_eq!(json("a\"b\\c\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}/é😀"), "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0000\\u001f\u{7f}/é😀\"");
        assert_eq!(json(""), "\"\"");
    }

    #[test]
    fn every_byte_at_every_place_of_a_window() {
        for length in [1, 11, 12, 13, 16, 31, 32, 33, 63, 64, 65, 80, 130] {
            for place in 0..length {
                for byte in ["\"", "\\", "\n", "\u{1}", "\u{0}", "z"] {
                    let text = format!("{}{byte}{}", "a".repeat(place), "b".repeat(length - place - 1));
                    assert_eq!(json(&text), serde_json::to_string(&text).unwrap());
                    let surrounded = format!("\"\"{text}{}", "\"".repeat(100));
                    let mut out = Vec::new();
                    push_string_in(surrounded.as_bytes(), 2, 2 + text.len(), &mut out);
                    assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let mut out = b"\n".to_vec();
        push_raw_json(b"{\n \"a\":\r\n1}", &mut out);
        assert_eq!(out, b"\n{  \"a\":  1}");
    }

    proptest! {
        #[test]
        fn strings_are_what_serde_json_writes(text in "(?s)([a-z]{0,20}[\"\\\\\u{0}-\u{1f}é😀]{0,3}){0,8}") {
            prop_assert_eq!(json(&text), serde_json::to_string(&text).unwrap());
            if text.len() <= 12 {
                let array = arrow_array::StringViewArray::from(vec![text.as_str()]);
                let mut out = Vec::new();
                push_inline_view(array.views()[0], &mut out);
                prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
