//! Reading: the cases, and serde_json as the oracle.

use super::encode::encode;
use crate::RecordInput;
use crate::jsonl::{JsonlInput, fuzz};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use haul_model::{Error, ErrorKind, Raw, Rejects, Result, Rows, Settings, Strict, field_meta};
use proptest::prelude::*;

fn settings(pairs: &[(&'static str, &str)]) -> Settings {
    Settings::resolve(&[crate::jsonl::SPEC.read], pairs.iter().copied(), "jsonl").unwrap()
}

fn raw(input: &JsonlInput, text: &[u8]) -> Raw {
    let bom = input.prolog().bytes;
    Raw { bytes: bytes::Bytes::copy_from_slice(&text[bom..]), first_line: 1, first_byte: bom as u64, ..Raw::default() }
}

/// All rows as one batch (the texts here are small).
fn decode_by(input: &JsonlInput, text: &[u8], rejects: &mut dyn Rejects) -> Result<Option<RecordBatch>> {
    let mut out = None;
    input.decoder().decode(raw(input, text), rejects, &mut |rows, _| {
        assert!(out.replace(rows.batch).is_none(), "one batch");
        Ok(())
    })?;
    Ok(out)
}

fn decode(pairs: &[(&'static str, &str)], text: &str) -> Result<RecordBatch> {
    let input = JsonlInput::detect(&settings(pairs), text.as_bytes(), true, "in.jsonl")?;
    Ok(decode_by(&input, text.as_bytes(), &mut Strict::default())?.unwrap())
}

fn types(batch: &RecordBatch) -> Vec<String> {
    let kind = |f: &arrow_schema::Field| if field_meta::is_json(f) { "json".to_string() } else { f.data_type().to_string() };
    batch.schema().fields().iter().map(|f| format!("{}:{}", f.name(), kind(f))).collect()
}

#[derive(Default)]
struct Take {
    records: Vec<(String, Error)>,
    lossy: Vec<String>,
}

impl Rejects for Take {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        Err(rows.locate(row, error))
    }
    fn record(&mut self, record: &[u8], error: Error) -> Result<()> {
        self.records.push((String::from_utf8_lossy(record).into_owned(), error));
        Ok(())
    }
    fn lossy(&mut self, column: &str, count: u64) {
        self.lossy.extend(std::iter::repeat_n(column.to_string(), count as usize));
    }
}

#[test]
fn num_01_no_digit_changes() {
    let lines = [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1E400",
        "-0",
        "1.50",
    ];
    let text: String = lines.iter().map(|n| format!("{{\"id\":{n}}}\n")).collect();
    let batch = decode(&[], &text).unwrap();
    assert_eq!(types(&batch), ["id:json"]);
    assert_eq!(batch.column(0).as_string_view().iter().map(Option::unwrap).collect::<Vec<_>>(), lines);
    assert_eq!(encode(&batch).unwrap(), text);
    let input = JsonlInput::detect(&settings(&[]), text.as_bytes(), true, "in").unwrap();
    assert!(input.notes()[0].text.contains("no digit changes"));

    // Whole numbers that fit are integers; one that does not, later, is an error with its line.
    let text = "{\"id\":9223372036854775807}\n{\"id\":-9223372036854775808}\n";
    let batch = decode(&[], text).unwrap();
    assert_eq!(types(&batch), ["id:Int64"]);
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values().as_ref(), [i64::MAX, i64::MIN]);
    assert_eq!(encode(&batch).unwrap(), text);
    let input = JsonlInput::detect(&settings(&[]), text.as_bytes(), true, "in").unwrap();
    for (late, found) in [
        ("9223372036854775808", "past 64 bits"),
        ("1.5", "fraction"),
        ("-0", "minus zero"),
        ("1e3", "exponent"),
        ("\"1\"", "a string"),
        ("true", "a boolean"),
    ] {
        let line = format!("{{\"id\":1}}\n\n{{\"id\": {late}}}\n");
        let error = decode_by(&input, line.as_bytes(), &mut Strict::default()).unwrap_err();
        assert_eq!((error.kind(), error.place().line, error.place().column.as_deref()), (ErrorKind::Data, Some(3), Some("id")), "{error}");
        assert!(error.detail().contains(found), "{error}");
        assert!(error.hint_text().unwrap().contains("types=json"));
        assert_eq!(error.place().byte, Some(17));
    }
}

#[test]
fn jl_01_keys_that_come_late_change_type_or_differ_by_case() {
    let mut text = String::from("\u{feff}");
    for n in 0..1000 {
        text += &format!("{{\"id\":{n},\"a\":1}}\r\n");
    }
    let sample = text.clone();
    let late = [
        r#"{"id":30001,"a":"x","b":{"c":[1,null]}}"#,
        r#"{"id":30002,"A":2}"#,
        r#"{"id":30003}"#,
        r#"{"id":30004,"a":null}"#,
        "",
        "[1,2]",
        r#"{"id":30005,"a":5},"#,
        r#"{"id":30006,"a":6}"#,
    ];
    text += &late.join("\r\n");
    // By default each surprise is rejected with its line.
    let input = JsonlInput::detect(&settings(&[]), sample.as_bytes(), false, "in.jsonl").unwrap();
    assert_eq!(input.prolog().bytes, 3);
    let mut take = Take::default();
    let batch = decode_by(&input, text.as_bytes(), &mut take).unwrap().unwrap();
    assert_eq!(types(&batch), ["id:Int64", "a:Int64"]);
    assert_eq!(batch.num_rows(), 1003);
    assert!(batch.column(1).is_null(1000) && batch.column(1).is_null(1001));
    let lines: Vec<_> = take.records.iter().map(|(_, e)| (e.place().line.unwrap(), e.place().row_in_chunk.unwrap())).collect();
    assert_eq!(lines, [(1001, 1000), (1002, 1001), (1006, 1004), (1007, 1005)]);
    let details: Vec<_> = take.records.iter().map(|(_, e)| e.detail()).collect();
    assert!(details[0].contains("a string in a column of whole numbers"), "{details:?}");
    assert!(details[1].contains("not in the first lines"), "{details:?}");
    assert!(details[2].contains("an array, not an object"), "{details:?}");
    assert!(details[3].contains("something after the value"), "{details:?}");
    assert_eq!(take.records[1].1.place().column.as_deref(), Some("A"));
    assert_eq!(take.records[2].0, "[1,2]\r\n");

    // With the keys named, everything is kept exactly.
    let input = JsonlInput::detect(&settings(&[("types", "json"), ("columns", "id,a,b,A")]), sample.as_bytes(), false, "in.jsonl").unwrap();
    let mut take = Take::default();
    let batch = decode_by(&input, text.as_bytes(), &mut take).unwrap().unwrap();
    assert_eq!(take.records.len(), 2);
    let rows = encode(&batch.slice(1000, 5)).unwrap();
    let kept = [late[0], late[1], late[2], late[3], late[7]].join("\n");
    assert_eq!(rows.trim_end(), kept);

    // Extra keys may be left out, counted.
    let input =
        JsonlInput::detect(&settings(&[("types", "json"), ("extra_keys", "ignore")]), sample.as_bytes(), false, "in.jsonl").unwrap();
    let mut take = Take::default();
    let batch = decode_by(&input, text.as_bytes(), &mut take).unwrap().unwrap();
    assert_eq!((batch.num_rows(), take.lossy.join(",")), (1005, "b,A".to_string()));
}

#[test]
fn types_come_from_the_sample_and_null_is_told_from_missing() {
    let text = concat!(
        "{\"s\":\"a\",\"b\":true,\"i\":1,\"m\":1,\"o\":{\"x\" : [1, 2]},\"n\":null}\n",
        "{\"s\":null,\"b\":null,\"i\":null,\"m\":\"x\",\"o\":null}\n",
        "{}\n",
    );
    let batch = decode(&[], text).unwrap();
    assert_eq!(types(&batch), ["s:Utf8View", "b:Boolean", "i:Int64", "m:json", "o:json", "n:json"]);
    let nulls: Vec<Vec<bool>> = (0..3).map(|row| batch.columns().iter().map(|c| c.is_null(row)).collect()).collect();
    assert_eq!(nulls[0], [false; 6]);
    assert_eq!(nulls[1], [true, true, true, false, false, true]);
    assert_eq!(nulls[2], [true; 6]);
    assert_eq!(batch.column(4).as_string_view().value(0), "{\"x\" : [1, 2]}");
    assert_eq!(batch.column(4).as_string_view().value(1), "null");
    let strings = decode(&[("types", "strings")], text).unwrap();
    assert_eq!(types(&strings), ["s:Utf8View", "b:Utf8View", "i:Utf8View", "m:Utf8View", "o:Utf8View", "n:Utf8View"]);
    assert_eq!(strings.column(1).as_string_view().value(0), "true");
    assert_eq!(strings.column(4).as_string_view().value(0), "{\"x\" : [1, 2]}");
    assert!(strings.column(5).is_null(0));
}

#[test]
fn tx_06_escapes_pairs_and_halves() {
    let batch =
        decode(&[], "{\"s\":\"\\ud83d\\ude00\"}\n{\"s\":\"\\/\\b\\f\"}\n{\"\\u0073\":\"a long text with an \\n escape\"}\n").unwrap();
    let values: Vec<_> = batch.column(0).as_string_view().iter().map(Option::unwrap).collect();
    assert_eq!(values, ["😀", "/\u{8}\u{c}", "a long text with an \n escape"]);
    let input = JsonlInput::detect(&settings(&[]), b"{\"s\":\"x\"}\n", true, "in").unwrap();
    let error = decode_by(&input, b"{\"s\":\"x\"}\n{\"s\":\"ab\\ud83d\"}\n", &mut Strict::default()).unwrap_err();
    assert_eq!((error.place().line, error.place().byte), (Some(2), Some(18)));
    assert!(error.detail().contains("half of a surrogate pair"), "{error}");
    // A JSON column keeps what the file says.
    let text = "{\"s\":\"ab\\ud83d\"}\n";
    assert_eq!(encode(&decode(&[("types", "json")], text).unwrap()).unwrap(), text);
}

#[test]
fn tx_06_duplicate_keys_are_refused_or_the_last_counts() {
    let text = "{\"a\":1,\"a\":2}\n";
    let error = decode(&[], text).unwrap_err();
    assert_eq!((error.place().column.as_deref(), error.place().line, error.place().byte), (Some("a"), Some(1), Some(7)));
    assert!(error.hint_text().unwrap().contains("duplicate_keys=last"));
    let batch = decode(&[("duplicate_keys", "last")], text).unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 2);
    // Inside a value both stay.
    let inner = "{\"o\":{\"a\":1,\"a\":2}}\n";
    assert_eq!(encode(&decode(&[], inner).unwrap()).unwrap(), inner);
}

#[test]
fn tx_06_deep_and_big_values() {
    let deep = format!("{{\"d\":{}1{}}}\n", "[".repeat(200), "]".repeat(200));
    assert_eq!(encode(&decode(&[], &deep).unwrap()).unwrap(), deep);
    let deeper = format!("{{\"d\":1}}\n{{\"d\":{}}}\n", "[".repeat(100_000));
    let error = decode(&[], &deeper).unwrap_err();
    assert_eq!(error.place().line, Some(2));
    assert!(error.detail().contains("levels of nesting"), "{error}");
    let big = format!("{{\"s\":\"{}\"}}\n", "x".repeat(64 << 20));
    let batch = decode(&[], &big).unwrap();
    assert_eq!(batch.column(0).as_string_view().value(0).len(), 64 << 20);
    assert_eq!(encode(&batch).unwrap().len(), big.len());
}

#[test]
fn tx_01_nul_characters_stay() {
    let text = "{\"k\":\"ok\",\"a\\u0000\":1}\n{\"k\":\"a\\u0000b\",\"a\\u0000\":2}\n";
    let batch = decode(&[], text).unwrap();
    assert_eq!(types(&batch), ["k:Utf8View", "a\0:Int64"]);
    assert_eq!(batch.column(0).as_string_view().value(1), "a\0b");
    assert_eq!(encode(&batch).unwrap(), text);
}

#[test]
fn tx_02_bytes_that_are_not_utf8_reject_their_line_only() {
    let input = JsonlInput::detect(&settings(&[]), b"{\"s\":\"x\"}\n", true, "in").unwrap();
    let text = b"{\"s\":\"a\"}\n{\"s\":\"caf\xe9\"}\n{\"s\":\"\xc2\"}\n{\"s\":\"caf\xc3\xa9 au lait, long\"}\n\xff\xfe\n{\"s\":\"z\"}";
    let mut take = Take::default();
    let batch = decode_by(&input, text, &mut take).unwrap().unwrap();
    assert_eq!(batch.column(0).as_string_view().iter().map(Option::unwrap).collect::<Vec<_>>(), ["a", "café au lait, long", "z"]);
    let places: Vec<_> = take.records.iter().map(|(_, e)| (e.place().line, e.place().byte)).collect();
    assert_eq!(places, [(Some(2), Some(19)), (Some(3), Some(29)), (Some(5), Some(61))]);
}

#[test]
fn rows_know_their_records_even_between_bad_ones() {
    let input = JsonlInput::detect(&settings(&[]), b"{\"a\":1}\n", true, "in").unwrap();
    let text = b"{\"a\":1}\n\n{\"a\":x}\n{\"a\":2}\n{\"a\":3}";
    let mut take = Take::default();
    let mut seen = 0;
    let chunk = Raw { first_line: 11, object: Some("in.jsonl".into()), ..raw(&input, text) };
    input
        .decoder()
        .decode(chunk, &mut take, &mut |rows, _| {
            seen += rows.batch.num_rows();
            let error = rows.locate(2, Error::new(ErrorKind::Data, "bad"));
            assert_eq!(
                (error.place().line, error.place().row_in_chunk, error.place().object.as_deref()),
                (Some(15), Some(3), Some("in.jsonl"))
            );
            assert_eq!(rows.raw_record(1), Some(&b"{\"a\":2}\n"[..]));
            assert_eq!(rows.raw_record(2), Some(&b"{\"a\":3}"[..]));
            Ok(())
        })
        .unwrap();
    assert_eq!((seen, take.records[0].1.place().line, take.records[0].1.place().row_in_chunk), (3, Some(13), Some(1)));
}

#[test]
fn projection_keeps_order_and_unwanted_keys_cost_nothing() {
    let text = "{\"a\":1,\"b\":\"x\",\"c\":[1]}\n{\"c\":2,\"d\":true,\"a\":3}\n";
    let mut take = Take::default();
    let input = JsonlInput::detect(&settings(&[("columns", "c,a,late")]), text.as_bytes(), true, "in").unwrap();
    assert!(input.encoding().is_none(), "bytes with other columns must not pass through");
    let batch = decode_by(&input, text.as_bytes(), &mut take).unwrap().unwrap();
    assert_eq!(types(&batch), ["c:json", "a:Int64", "late:json"]);
    assert_eq!(encode(&batch).unwrap(), "{\"c\":[1],\"a\":1}\n{\"c\":2,\"a\":3}\n");
    assert!(take.lossy.is_empty());
    let all = JsonlInput::detect(&settings(&[("columns", "auto")]), text.as_bytes(), true, "in").unwrap();
    assert_eq!(all.schema().fields().len(), 4);
    assert_eq!(all.encoding().unwrap().format, "jsonl");
}

#[test]
fn known_columns_and_known_schemas() {
    let text = "{\"a\":1.50,\"b\":\"x\"}\n";
    let detect = || JsonlInput::detect(&settings(&[]), text.as_bytes(), true, "in").unwrap();
    let input = detect().with_columns(&["b".into(), "a".into(), "c".into()]).unwrap();
    let batch = decode_by(&input, text.as_bytes(), &mut Strict::default()).unwrap().unwrap();
    assert_eq!(types(&batch), ["b:json", "a:json", "c:json"]);
    assert_eq!(encode(&batch).unwrap(), "{\"b\":\"x\",\"a\":1.50}\n");
    let later = detect().with_schema(&batch.schema()).unwrap();
    assert_eq!(later.schema(), batch.schema());
    assert!(detect().with_columns(&["a".into(), "a".into()]).is_err());
}

#[test]
fn what_is_no_json_lines_is_said_at_once() {
    let error = |text: &str| JsonlInput::detect(&settings(&[]), text.as_bytes(), true, "in.jsonl").err().unwrap();
    let array = error("[\n  {\n    \"a\": 1\n  }\n]\n");
    assert!(array.hint_text().unwrap().contains("jq -c"), "{array:?}");
    assert_eq!(array.place().line, Some(1));
    let lines = decode(&[], "[\n{\"a\":1},\n{\"a\":2}\n]\n").unwrap_err();
    assert!(lines.place().line == Some(1) && lines.hint_text().unwrap().contains("jq -c"), "{lines:?}");
    assert_eq!(error("\n\nid,name\n1,x\n").place().line, Some(3));
    let long = JsonlInput::detect(&settings(&[]), b"{\"a\":\"xxxx", false, "in.jsonl").err().unwrap();
    assert!(long.detail().contains("longer than the sample"));
    let empty = JsonlInput::detect(&settings(&[]), b"", true, "in.jsonl").unwrap();
    assert_eq!(empty.schema().fields().len(), 0);
    // One broken line in the sample does not hide the columns: it is rejected when its turn comes.
    let text = "{\"a\":1}\nbroken\n{\"a\":2,\"b\":3}\n";
    let input = JsonlInput::detect(&settings(&[]), text.as_bytes(), true, "in").unwrap();
    let mut take = Take::default();
    assert_eq!(decode_by(&input, text.as_bytes(), &mut take).unwrap().unwrap().num_rows(), 2);
    assert_eq!(take.records[0].1.place().line, Some(2));
}

#[test]
fn framing_counts_records_and_lines() {
    let input = JsonlInput::detect(&settings(&[]), b"{}\n", true, "in").unwrap();
    let mut framer = input.framer();
    let cut = |text: &[u8], seen, end: bool, framer: &mut dyn crate::Framer| {
        framer.cut(text, seen, end).unwrap().map(|c| (c.bytes, c.records, c.lines))
    };
    assert_eq!(cut(b"{}\n\r\n{}\n{", 0, false, framer.as_mut()), Some((8, Some(2), 3)));
    assert_eq!(cut(b"{\"a\":", 0, false, framer.as_mut()), None);
    assert_eq!(cut(b"{\"a\":1}", 5, true, framer.as_mut()), Some((7, Some(1), 0)));
    assert_eq!(cut(b"", 0, true, framer.as_mut()), None);
    assert_eq!(cut(b"\n \n", 0, true, framer.as_mut()), Some((3, Some(0), 2)));
}

#[test]
fn large_chunks_become_several_batches_with_running_records() {
    let mut text = String::new();
    for n in 0..60_000 {
        text += &format!("{{\"id\":{n},\"name\":\"a name that is longer than a view\"}}\n");
    }
    let input = JsonlInput::detect(&settings(&[]), &text.as_bytes()[..100_000], false, "in").unwrap();
    let (mut next, mut batches) = (0, 0);
    input
        .decoder()
        .decode(raw(&input, text.as_bytes()), &mut Strict::default(), &mut |rows, _| {
            assert_eq!(rows.first_record, next);
            let ids = rows.batch.column(0).as_primitive::<Int64Type>();
            assert_eq!(ids.value(0) as u64, next);
            let last = rows.locate(rows.batch.num_rows() - 1, Error::new(ErrorKind::Data, "x"));
            next += rows.batch.num_rows() as u64;
            assert_eq!(last.place().line, Some(next));
            batches += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(next, 60_000);
    assert!(batches > 2);
}

/// Texts with everything that can go wrong, also the corpus of the fuzz targets.
const NASTY: &[&[u8]] = &[
    b"\xef\xbb\xbf{\"a\":1,\"b\":\"x\"}\r\n\r\n{\"a\":2}\n[1]\n{\"a\":\"\\ud83d\\ude00\"}\n  \n{\"b\":null,\"c\":[1,{\"d\":2}]}\nbroken\n{\"a\":1,\"a\":2}\n{\"A\":1}",
    b"{\"s\":\"caf\xc3\xa9\",\"n\":1.50}\n{\"s\":\"caf\xe9\"}\n{\"s\":\"\\ud83d\"}\n{\"n\":1E400}\n{\"n\":}\n{}\n{\"s\":\"a\\u0000b\"}\n",
    b"\n\n\n{}\n\n",
    b"{\"a\":{\"x\":[[],{}],\"y\":\"\\\"\"},\"b\":true}\n{\"a\":0,\"b\":false},\n{\"b\":0}",
    b"{\"a\":1}\n{\"a\":2",
];

#[test]
fn the_result_does_not_depend_on_where_chunks_are_cut() {
    for text in NASTY {
        for step in 1..=text.len() {
            fuzz::reader(text, step);
        }
        fuzz::scanner(text);
        for line in text.split(|b| *b == b'\n') {
            fuzz::scanner(line);
        }
    }
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_string()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(|f| serde_json::to_string(&f).unwrap()),
        "(?s).{0,30}".prop_map(|s| serde_json::to_string(&s).unwrap()),
        "[a-z]{0,3}".prop_map(|s| format!("{{\"{s}\" : [1, \"{s}\"]}}")),
    ]
}

proptest! {
    #[test]
    fn what_is_read_and_written_again_is_what_serde_json_sees(rows in prop::collection::vec(prop::collection::vec(prop::option::of(scalar()), 4), 1..20)) {
        let object = |row: &Vec<Option<String>>| {
            let pairs = row.iter().enumerate().filter_map(|(i, v)| v.as_ref().map(|v| format!(" \"k{i}\" :{v}")));
            format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","))
        };
        let text: String = rows.iter().map(object).collect();
        for types in ["sample", "json"] {
            let batch = decode(&[("types", types), ("columns", "k0,k1,k2,k3")], &text).unwrap();
            let written = encode(&batch).unwrap();
            for (ours, theirs) in written.lines().zip(text.lines()) {
                let ours: serde_json::Map<_, _> = serde_json::from_str(ours).unwrap();
                let mut theirs: serde_json::Map<String, serde_json::Value> = serde_json::from_str(theirs).unwrap();
                if types == "sample" {
                    // In a typed column a missing key and null are both NULL, written as null.
                    for (key, value) in &ours {
                        prop_assert!(theirs.contains_key(key) || value.is_null());
                        theirs.entry(key.clone()).or_insert(serde_json::Value::Null);
                    }
                }
                prop_assert_eq!(&ours, &theirs);
            }
        }
    }

    #[test]
    fn any_bytes_are_accounted_for(text in "(\\{\"[ab]\":(1|true|\"x\"|\\[1\\])\\}\n|[\\{\\}\\[\\]\":,a1 \n\\\\]{1,6}){0,12}", step in 1..20usize) {
        fuzz::reader(text.as_bytes(), step);
        fuzz::scanner(text.as_bytes());
    }
}

#[test]
fn types_are_what_the_docs_say() {
    let batch = decode(&[], "{\"a\":\"x\"}\n").unwrap();
    assert_eq!(batch.schema().field(0).data_type(), &DataType::Utf8View);
    assert!(batch.schema().field(0).is_nullable());
}
