//! The scanner accepts and rejects what serde_json does, and copies exactly.

use crate::jsonl::json::*;
use proptest::prelude::*;
use serde_json::value::RawValue;

fn compact(text: &[u8]) -> Result<String, JsonError> {
    let mut out = b"before".to_vec();
    let result = compact_json(text, &mut out);
    assert!(out.starts_with(b"before"));
    match result {
        Ok(()) => Ok(String::from_utf8(out[6..].to_vec()).unwrap()),
        Err(error) => {
            assert_eq!(out, b"before", "an error must leave the output alone");
            assert!(error.offset <= text.len());
            Err(error)
        }
    }
}

/// serde_json takes and refuses the same texts, and reads the same value from what was compacted.
fn agrees(text: &[u8]) {
    let theirs = serde_json::from_slice::<Box<RawValue>>(text);
    let ours = compact(text);
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}: {ours:?} against {theirs:?}", String::from_utf8_lossy(text));
    assert_eq!(validate_json(text).is_ok(), theirs.is_ok());
    if let Ok(ours) = ours {
        let before = serde_json::from_slice::<serde_json::Value>(text).ok();
        let after = serde_json::from_str::<serde_json::Value>(&ours).ok();
        assert_eq!(before, after);
        assert_eq!(compact(ours.as_bytes()).as_ref(), Ok(&ours));
    }
}

const CORPUS: &[&[u8]] = &[
    b"",
    b" ",
    b"null",
    b" true ",
    b"\tfalse\r\n",
    b"nul",
    b"nulll",
    b"True",
    b"0",
    b"-0",
    b"-",
    b"01",
    b"-01",
    b"1.",
    b".5",
    b"1.5e",
    b"1e+",
    b"1E400",
    b"1e-5",
    b"+1",
    b"1-2",
    b"1.5.2",
    b"0x10",
    b"NaN",
    b"Infinity",
    b"123456789012345678901234567890",
    b"0.1000000000000000055511151231257827",
    b"\"\"",
    b"\"",
    b"\"abc",
    b"\"a\\",
    b"\"a\\\"",
    b"\"a\\\"\"",
    b"\"\\u12\"",
    b"\"\\u123",
    b"\"\\u12g4\"",
    b"\"\\ud83d\"",
    b"\"\\udc00\\ud83d\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\/\\b\\f\\n\\r\\t\\u0000\"",
    b"\"\\x41\"",
    b"\"\\U0041\"",
    b"\"a\nb\"",
    b"\"a\x00b\"",
    b"\"a\x7fb\"",
    b"\"caf\xc3\xa9\"",
    b"\"caf\xe9\"",
    b"\"0123456789abcdef\xc3\xa9\"",
    b"\"0123456789abcdef\xff\"",
    b"\"\xed\xa0\x80\"",
    b"\xc3\xa9",
    b"\xef\xbb\xbf1",
    b"[]",
    b"[ ]",
    b"[1]",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"[1,2",
    b"[",
    b"]",
    b"[}",
    b"{}",
    b"{ }",
    b"{\"a\":1}",
    b"{\"a\":1,}",
    b"{\"a\" : 1 , \"a\" : 2}",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{a:1}",
    b"{\"a\":1 \"b\":2}",
    b"{1:2}",
    b"{\"a\":[{\"b\":[[],{}]},[]]}",
    b"{\"a\":[}",
    b"{\"a\":[1}]",
    b"[1]]",
    b"{} {}",
    b"1 2",
    b"[1,[2,[3,[4,{\"x\":null}]]]]",
    b" { \"k e y\" : [ 1 , \"a  b\" , { } ] } ",
    b"/* c */ 1",
    b"'a'",
    b"[\x0b1]",
    b"{\"tier\":\"pro\",\"score\":12.345,\"tags\":[\"alpha\",\"beta\"]}",
];

#[test]
fn the_corpus_is_judged_as_by_serde_json_also_cut_at_every_byte() {
    for text in CORPUS {
        agrees(text);
        for end in 0..text.len() {
            agrees(&text[..end]);
        }
        // The same away from the buffer's end, where strings are scanned 16 bytes at a time.
        agrees(&[b"[\"0123456789\",", *text, b",\"0123456789abcdef0123456789abcdef\"]"].concat());
    }
}

#[test]
fn white_space_goes_and_everything_else_stays() {
    let text = b" { \"b\" : 1.50 ,\r\n\t\"a b\" : [ 1e2 , \"x  \\\" y\" , -0 ] , \"b\" : \"\\u0041\" } ";
    assert_eq!(compact(text).unwrap(), r#"{"b":1.50,"a b":[1e2,"x  \" y",-0],"b":"\u0041"}"#);
    let tight = r#"{"tier":"pro","score":12.345,"tags":["alpha","beta"]}"#;
    assert_eq!(compact(tight.as_bytes()).unwrap(), tight);
}

#[test]
fn errors_say_where_and_why() {
    let at = |text: &[u8]| compact(text).map_err(|e| (e.offset, e.reason)).unwrap_err();
    assert_eq!(at(b"{\"a\":tru}"), (8, JsonReason::Unexpected));
    assert_eq!(at(b"[1,2"), (4, JsonReason::EndsEarly));
    assert_eq!(at(b"[01]"), (2, JsonReason::Number));
    assert_eq!(at(b"\"a\\q\""), (2, JsonReason::Escape));
    assert_eq!(at(b"\"a\nb\""), (2, JsonReason::Control));
    assert_eq!(at(b"\"caf\xe9\""), (4, JsonReason::Utf8));
    assert_eq!(at(b"{} x"), (3, JsonReason::Trailing));
    assert_eq!(JsonError { offset: 3, reason: JsonReason::Trailing }.to_string(), "something after the value at offset 3");
}

#[test]
fn tx_06_deep_nesting_is_fine_to_a_limit_and_never_overflows() {
    let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
    let objects = |levels: usize| [b"{\"a\":".repeat(levels), b"1".to_vec(), b"}".repeat(levels)].concat();
    for levels in [1, 2, 63, 64, 65, 200, MAX_DEPTH] {
        assert_eq!(validate_json(&nested(levels)), Ok(()));
        assert_eq!(validate_json(&objects(levels)), Ok(()));
    }
    for levels in [MAX_DEPTH + 1, 100_000] {
        assert_eq!(validate_json(&nested(levels)), Err(JsonError { offset: MAX_DEPTH, reason: JsonReason::Depth }));
        assert_eq!(validate_json(&objects(levels)).unwrap_err().reason, JsonReason::Depth);
        assert_eq!(validate_json(&b"[".repeat(levels)).unwrap_err().reason, JsonReason::Depth);
    }
}

#[test]
fn tx_06_unescape_joins_pairs_and_refuses_halves() {
    let text = |raw: &str| {
        let mut out = Vec::new();
        unescape(raw.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap())
    };
    assert_eq!(text(r"\ud83d\ude00").unwrap(), "😀");
    assert_eq!(text(r#"a\/\b\f\n\r\t\"\\\u0041\u00e9\u20ac\u0000z"#).unwrap(), "a/\u{8}\u{c}\n\r\t\"\\Aé€\0z");
    for half in [r"ab\ud83d", r"ab\ude00", r"ab\ud83dx", r"ab\ud83d\u0041", r"ab\ude00\ud83d"] {
        assert_eq!(text(half), Err(JsonError { offset: 2, reason: JsonReason::Surrogate }));
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Into::into),
        "(?s).{0,40}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
            prop::collection::vec(("[a-z\"é]{0,20}", inner), 0..6).prop_map(|v| serde_json::Value::Object(v.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_documents_pass_pretty_or_not(value in value()) {
        let (tight, pretty) = (serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        prop_assert_eq!(compact(tight.as_bytes()).unwrap(), tight.clone());
        prop_assert_eq!(compact(pretty.as_bytes()).unwrap(), tight);
    }

    #[test]
    fn damaged_documents_are_judged_as_by_serde_json(value in value(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let place = place.index(text.len());
        if cut {
            text.remove(place);
        } else {
            text[place] = byte;
        }
        // serde_json's recursion limit for values does not come into play at this depth.
        agrees(&text);
    }
}
