//! Values that other tools bend: numbers, times, characters, from file to file.

use crate::runner::{Folder, full};
use std::fmt::Write;

#[test]
fn jl_01_keys_that_come_late_or_change_type() {
    let dir = Folder::new();
    let mut text = String::from("\u{feff}");
    for id in 1..=30_000 {
        let _ = write!(text, "{{\"id\":{id},\"a\":1}}\r\n");
    }
    text += "{\"id\":30001,\"a\":\"x\",\"b\":{\"c\":[1,null]}}\n{\"id\":30002,\"A\":2}\n{\"id\":30003}\n{\"id\":30004,\"a\":null}\n\n";
    dir.write("good.jsonl", format!("{text}{{\"id\":30005,\"a\":2}}"));
    dir.line("copy good.jsonl o.csv").ok();
    let back = dir.text("o.csv");
    let tail: Vec<&str> = back.lines().skip(30_000).collect();
    assert_eq!(back.lines().next(), Some("id,a,b,A"));
    assert_eq!(tail, ["30000,1,,", "30001,\"\"\"x\"\"\",\"{\"\"c\"\":[1,null]}\",", "30002,,,2", "30003,,,", "30004,null,,", "30005,2,,"]);
    dir.line("copy good.jsonl o.parquet").ok();
    let lines = dir.lines_of("o.parquet", &[]);
    assert!(lines[30_000].contains(r#""a":"x","b":{"c":[1,null]}"#), "{}", lines[30_000]);

    dir.write("bad.jsonl", format!("{text}[1,2]\n{{\"id\":30005,\"a\":1,}}\n{{\"id\":30006}}\n"));
    let ran = dir.line("copy bad.jsonl o.csv").failed();
    assert!(ran.err.contains("line 30006"), "{ran:?}");
    let ran = dir.line("copy bad.jsonl o.csv --on-error reject --rejects bad").ok();
    assert_eq!(ran.account(), (30_007, 30_005, 2));
    let bad = dir.text("bad");
    assert!(bad.contains("\"line\":30006") && bad.contains("\"line\":30007"), "{bad}");
}

#[test]
fn jl_01_a_key_behind_the_sample_is_an_error_with_its_line() {
    let dir = Folder::new();
    let mut text = String::new();
    for id in 1..=60_000 {
        let _ = writeln!(text, "{{\"id\":{id},\"name\":\"row number {id}\"}}");
    }
    dir.write("a.jsonl", format!("{text}{{\"id\":60001,\"late\":1}}\n"));
    let ran = dir.line("copy a.jsonl o.csv").failed();
    assert!(ran.err.contains("line 60001") && ran.err.contains("late"), "{ran:?}");
    dir.write("b.jsonl", format!("{text}{{\"id\":\"x\",\"name\":\"n\"}}\n"));
    let ran = dir.line("copy b.jsonl o.csv").failed();
    assert!(ran.err.contains("line 60001") && ran.err.contains("\"id\""), "{ran:?}");
}

const BIG: &[&str] = &[
    "9007199254740993",
    "-9223372036854775808",
    "18446744073709551615",
    "123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
    "1E400",
    "9223372036854775807",
];

#[test]
fn num_01_every_digit_of_a_json_number_is_kept() {
    let dir = Folder::new();
    let text: String = BIG.iter().map(|n| format!("{{\"id\":{n}}}\n")).collect();
    dir.write("a.jsonl", &text);
    for way in ["w.jsonl", "w.csv", "w.parquet", "w.arrow", "w.jsonl.zst"] {
        dir.haul(&["copy", "a.jsonl", way]).ok();
        dir.haul(&["copy", way, "back.csv"]).ok();
        assert_eq!(dir.text("back.csv"), format!("id\n{}\n", BIG.join("\n")), "{way}");
        if way != "w.csv" {
            dir.haul(&["copy", way, "back.jsonl"]).ok();
            assert_eq!(dir.text("back.jsonl"), text, "{way}");
        }
    }
    let ran = dir.line("copy a.jsonl o.parquet --cast id:bigint").failed();
    assert!(ran.err.contains("line 3") && ran.err.contains("\"id\""), "{ran:?}");
}

#[test]
fn num_03_decimals_keep_their_digits() {
    let dir = Folder::new();
    let numbers =
        ["123.4567890123", "9999999999999999999999999999.9999999999", "-0.0000000001", "0.1000000000", "12345678901234567890.1234567890"];
    dir.write("a.csv", format!("n\n{}\n", numbers.join("\n")));
    let cast = ["--cast", "n:decimal(38,10)"];
    let scaled =
        "n\n123.4567890123\n9999999999999999999999999999.9999999999\n-0.0000000001\n0.1000000000\n12345678901234567890.1234567890\n";
    for way in ["w.parquet", "w.arrow", "w.csv", "w.jsonl"] {
        dir.haul(&["copy", "a.csv", way, cast[0], cast[1]]).ok();
        dir.haul(&["copy", way, "back.csv"]).ok();
        assert_eq!(dir.text("back.csv"), scaled, "{way}");
    }
    assert!(dir.haul(&["schema", "w.parquet"]).ok().out.contains("Decimal128(38, 10)"));
    dir.write("b.csv", "n\n1.23456789012\n");
    let ran = dir.haul(&["copy", "b.csv", "o.parquet", cast[0], cast[1]]).failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("\"n\""), "not rounded: {ran:?}");
}

#[test]
fn num_04_numbers_of_any_size() {
    let dir = Folder::new();
    let numbers = ["1e-130", "1e130", "12345678901234567890123456789012345678901234567890", "0.00", "100", "1.50", "-0"];
    dir.write("a.jsonl", numbers.iter().map(|n| format!("{{\"n\":{n}}}\n")).collect::<String>());
    dir.line("copy a.jsonl o.csv").ok();
    assert_eq!(dir.text("o.csv"), format!("n\n{}\n", numbers.join("\n")));
    let ran = dir.haul(&["copy", "o.csv", "o.parquet", "--cast", "n:decimal(38,10)"]).failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("\"n\""), "{ran:?}");
    assert!(!dir.path("o.parquet").exists());
}

#[test]
fn dt_07_timestamps_keep_their_fraction() {
    let dir = Folder::new();
    let text = "t\n2022-05-31 20:23:49.4\n2022-05-31 20:23:49\n2022-05-31 20:23:49.000001\n";
    dir.write("a.csv", text);
    for way in ["w.parquet", "w.arrow"] {
        dir.haul(&["copy", "a.csv", way, "--cast", "t:timestamp"]).ok();
        assert!(dir.haul(&["schema", way]).ok().out.contains("Timestamp("), "{way}");
        dir.haul(&["copy", way, "back.csv"]).ok();
        let back = dir.text("back.csv").replace('T', " ");
        assert_eq!(back, text, "{way}");
    }
}

#[test]
fn tx_01_nul_in_json_text() {
    let dir = Folder::new();
    let text = "{\"k\":\"a\\u0000b\"}\n{\"k\":\"ok\"}\n";
    dir.write("a.jsonl", text);
    for way in ["w.csv", "w.parquet", "w.arrow"] {
        dir.haul(&["copy", "a.jsonl", way]).ok();
        assert_eq!(dir.lines_of(way, &[]).join("\n") + "\n", text, "{way}");
    }
    dir.write("b.jsonl", "{\"a\\u0000\":1}\n");
    assert_eq!(dir.lines_of("b.jsonl", &[]), ["{\"a\\u0000\":1}"]);
}

#[test]
fn tx_02_bytes_that_are_not_utf8() {
    let dir = Folder::new();
    dir.write("a.csv", b"id,t\n1,caf\xe9\n2,\xc2\n3,ok\n");
    let ran = dir.line("copy a.csv o.jsonl").failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("byte ") && ran.err.contains("encoding=windows-1252"), "{ran:?}");
    let ran = dir.line("copy a.csv o.jsonl --on-error reject").ok();
    assert_eq!((ran.account(), dir.text("o.jsonl").as_str()), ((3, 1, 2), "{\"id\":\"3\",\"t\":\"ok\"}\n"));
    assert_eq!(dir.lines_of("a.csv", &["--encoding", "latin-1"])[..2], [r#"{"id":"1","t":"café"}"#, r#"{"id":"2","t":"Â"}"#]);
    dir.write("b.csv", b"id,t\n1,\x80 caf\xe9\n");
    assert_eq!(dir.lines_of("b.csv", &["--encoding", "windows-1252"]), [r#"{"id":"1","t":"€ café"}"#]);
    dir.write("c.jsonl", b"{\"t\":\"ok\"}\n{\"t\":\"caf\xe9\"}\n");
    let ran = dir.line("copy c.jsonl o.csv").failed();
    assert!(ran.err.contains("line 2"), "{ran:?}");
}

#[test]
fn tx_06_surrogates_escapes_and_depth() {
    let dir = Folder::new();
    dir.write("a.jsonl", "{\"s\":\"\\ud83d\\ude00\"}\n{\"s\":\"\\/\\b\\f\"}\n");
    dir.line("copy a.jsonl o.csv").ok();
    assert_eq!(dir.text("o.csv"), "s\n\u{1F600}\n/\u{8}\u{c}\n");
    dir.write("b.jsonl", "{\"s\":\"x\"}\n{\"s\":\"\\ud83d\"}\n");
    let ran = dir.line("copy b.jsonl o.csv").failed();
    assert!(ran.err.contains("line 2"), "{ran:?}");
    dir.write("c.jsonl", "{\"a\":1}\n{\"a\":1,\"a\":2}\n");
    let ran = dir.line("copy c.jsonl o.csv").failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("\"a\""), "{ran:?}");
    dir.write("d.jsonl", format!("{{\"d\":{}1{}}}\n", "[".repeat(200), "]".repeat(200)));
    dir.line("copy d.jsonl o.parquet").ok();
    assert_eq!(dir.lines_of("o.parquet", &[])[0], dir.text("d.jsonl").trim_end());
    dir.write("e.jsonl", format!("{{\"d\":{}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000)));
    let ran = dir.line("copy e.jsonl o.parquet");
    assert!(ran.code == 0 || ran.code == 1, "no stack overflow: {ran:?}");
    if full() {
        dir.write("f.jsonl", format!("{{\"s\":\"{}\"}}\n", "y".repeat(80 << 20)));
        let ran = dir.line("copy f.jsonl o.csv").failed();
        assert!(ran.err.contains("67108864") && ran.err.contains("--max-row-bytes"), "{ran:?}");
        dir.line("copy f.jsonl o.csv --max-row-bytes 100MiB").ok();
        assert_eq!(dir.read("o.csv").len(), (80 << 20) + 3);
    }
}

#[test]
fn csv_17_fs_03_what_we_write_is_what_others_read() {
    let dir = Folder::new();
    dir.python(
        "import json
v=['n\\nn','c\\rr','quote\"','a,b',' lead','\\\\.','',None,'-','=1+1','trail ','\\r\\n','\"','\"\"','#c','tab\\there','\\u2028','\\U0001F600','\\\\N','NULL']
open('a.jsonl','w').write(''.join(json.dumps({'id':i,'v':x})+'\\n' for i,x in enumerate(v)))
open('one.jsonl','w').write(''.join(json.dumps({'v':x})+'\\n' for x in v if x is not None))",
    );
    dir.line("copy a.jsonl a.csv").ok();
    dir.line("copy one.jsonl one.csv").ok();
    let answer = dir.python(
        "import json,csv
a=[json.loads(l)['v'] for l in open('a.jsonl')]
c=[r for r in csv.reader(open('a.csv',newline='',encoding='utf-8'))][1:]
assert [x or '' for x in a]==[r[1] for r in c],c
o=[json.loads(l)['v'] for l in open('one.jsonl')]
d=[r[0] for r in csv.reader(open('one.csv',newline='',encoding='utf-8'))][1:]
assert o==d,d
print('same')",
    );
    assert_eq!(answer, "same\n");
    assert!(dir.text("a.csv").contains("\n6,\"\"\n7,\n"), "NULL and the empty string differ");
    // Back again, and JSON Lines that a strict reader takes.
    dir.line("copy a.csv back.jsonl --cast id:bigint").ok();
    let same = dir.python(
        "import json
s=lambda f:[json.loads(l) for l in open(f,encoding='utf-8',newline='\\n').read().split('\\n')[:-1]]
def no(x): raise ValueError(x)
[json.loads(l,parse_constant=no) for l in open('back.jsonl',newline='\\n').read().split('\\n')[:-1]]
print(s('a.jsonl')==s('back.jsonl'))",
    );
    assert_eq!(same, "True\n");
}

#[test]
fn pq_04_no_rows_and_cut_files() {
    let dir = Folder::new();
    dir.write("a.csv", "id,t\n");
    dir.line("copy a.csv empty.parquet --cast id:bigint").ok();
    let ran = dir.line("copy empty.parquet o.csv").ok();
    assert_eq!((ran.account(), dir.text("o.csv").as_str()), ((0, 0, 0), "id,t\n"));
    dir.write("b.csv", "id,t\n1,x\n");
    dir.line("copy b.csv b.parquet").ok();
    let whole = dir.read("b.parquet");
    for (cut, why) in [(whole.len() - 8, "by 8 bytes"), (whole.len() / 2, "in the middle"), (3, "at the start"), (0, "empty")] {
        dir.write("cut.parquet", &whole[..cut]);
        let ran = dir.line("copy cut.parquet cut.csv").failed();
        assert!(ran.err.contains("cut.parquet") && ran.err.lines().count() <= 2, "{why}: {ran:?}");
        assert!(!dir.path("cut.csv").exists());
    }
    dir.write("text.parquet", "id,t\n1,x\n2,yyyyyyyyyyyyyyyyyyy\n");
    dir.line("copy text.parquet cut.csv").failed();
}

#[test]
fn op_01_what_is_missing_is_never_a_success() {
    let dir = Folder::new();
    let mut text = "id,n\n".to_string();
    for id in 1..=10_000 {
        let _ = writeln!(text, "{id},{}", if id == 123 { "\"1,213\"".to_string() } else { id.to_string() });
    }
    dir.write("a.csv", text);
    let ran = dir.line("copy a.csv o.parquet --cast n:numeric(12,2)").failed();
    assert!(ran.err.contains("line 124") && ran.err.contains("row 123") && ran.err.contains("1,213"), "{ran:?}");
    // (c) the target's folder is missing.
    let ran = dir.line("copy a.csv no/o.parquet").failed();
    assert!(ran.err.contains("mkdir -p no"), "{ran:?}");
    // (d) every row is rejected.
    dir.write("bad.csv", "a,b\n1\n2\n3\n");
    dir.write("o.jsonl", "{\"old\":1}\n");
    let ran = dir.line("copy bad.csv o.jsonl --on-error reject --rejects why.jsonl").failed();
    assert!(ran.err.contains("all 3 rows were rejected"), "{ran:?}");
    assert_eq!((dir.text("o.jsonl").as_str(), dir.text("why.jsonl").lines().count()), ("{\"old\":1}\n", 3));
    // (e) an unknown flag, (f) a missing file or an empty glob.
    assert_eq!(dir.line("copy a.csv o.jsonl --nope").code, 2);
    dir.line("copy nope.csv o.jsonl").failed();
    dir.line("copy nope*.csv o.jsonl").failed();
    assert!(!dir.path("o.parquet").exists());
}
