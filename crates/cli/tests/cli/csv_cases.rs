//! One CSV file in: what the bytes mean, end to end.

use crate::runner::{Folder, full};
use std::fmt::Write;

#[test]
fn csv_01_quoted_line_breaks_that_look_like_rows() {
    let dir = Folder::new();
    let rows = if full() { 300_000 } else { 30_000 };
    dir.python(&format!(
        "import csv
with open('a.csv','w',newline='') as f:
    w=csv.writer(f,lineterminator='\\n'); w.writerow(['id','txt','n'])
    for i in range(1,{rows}+1):
        t='plain'
        if i%7==0: t='line A\\n%d,fake,0\\nline \"C\"'%i
        elif i%(11 if {rows}<100000 else 1100)==0: t='x'*7000
        w.writerow([i,t,i*3])
"
    ));
    let digest = "import csv,json,hashlib,sys
csv.field_size_limit(1<<30)
def h(rows):
    d=hashlib.sha256()
    for r in rows: d.update(repr(tuple(r)).encode())
    return d.hexdigest()
a=list(csv.reader(open('a.csv',newline='')))[1:]
";
    let expected = dir.python(&format!("{digest}print(len(a),h(a))"));
    for flags in [&[][..], &["--batch-size", "1"], &["--batch-size", "1000"], &["--budget", "1MiB"], &["--degree", "8"]] {
        dir.lines_of("a.csv", flags);
        let found = dir.python(&format!(
            "{digest}r=[[o['id'],o['txt'],o['n']] for o in map(json.loads,open('lines.jsonl',newline='\\n'))];print(len(r),h(r))"
        ));
        assert_eq!(found, expected, "{flags:?}");
    }
    // Workers are as many as there are cores.
    dir.on_one_core(&["copy", "a.csv", "one.jsonl"]).ok();
    assert!(dir.read("one.jsonl") == dir.read("lines.jsonl"), "one worker gives other bytes than several");
}

#[test]
fn csv_03_one_column_with_crlf_keeps_its_rows() {
    let dir = Folder::new();
    dir.write("a.csv", "\"1\"\r\n1\r\n");
    for newline in ["auto", "lf", "crlf"] {
        let lines = dir.lines_of("a.csv", &["--header", "false", "--newline", newline]);
        assert_eq!(lines, [r#"{"column_1":"1"}"#; 2], "{newline}");
    }
}

#[test]
fn csv_04_lf_and_crlf_give_the_same_rows() {
    let dir = Folder::new();
    let table = |end: &str, inner: &str| {
        let mut out = (0..40).map(|c| format!("c{c}")).collect::<Vec<_>>().join(",") + end;
        for row in 0..if full() { 20_000 } else { 4_000 } {
            let cell = |c: usize| match (row + c) % 9 {
                0 => format!("\"a,{row}{inner}b\""),
                _ if row % 5 == 0 && c > 30 => String::new(),
                _ => (row * c).to_string(),
            };
            out += &((0..40).map(cell).collect::<Vec<_>>().join(",") + end);
        }
        out
    };
    dir.write("lf.csv", table("\n", "\n"));
    dir.write("crlf.csv", table("\r\n", "\n"));
    dir.write("inner.csv", table("\n", "\r\n"));
    let lf = dir.lines_of("lf.csv", &[]);
    assert!(lf == dir.lines_of("crlf.csv", &[]));
    let inner: Vec<String> = dir.lines_of("inner.csv", &[]).iter().map(|l| l.replace(r"\r\n", r"\n")).collect();
    assert!(lf == inner);
    assert!(dir.text("lines.jsonl").contains(r"\r\n"));
}

#[test]
fn csv_05_bad_rows_leave_their_neighbours_alone() {
    let dir = Folder::new();
    let rows = if full() { 100_000 } else { 20_000 };
    let mut text = "id,a,b\n".to_string();
    for id in 1..=rows {
        let _ = if id % 1000 == 0 { write!(text, "{id},x\ny,z\n") } else { writeln!(text, "{id},x,y") };
    }
    dir.write("a.csv", &text);
    let cut = rows / 1000;
    let expected: Vec<String> = (1..=rows).filter(|id| id % 1000 != 0).map(|id| format!(r#"{{"id":"{id}","a":"x","b":"y"}}"#)).collect();
    for flags in [&[][..], &["--rejects", "bad.jsonl"], &["--batch-size", "100"], &["--rejects", "bad.jsonl", "--budget", "1MiB"]] {
        let mut arguments = vec!["copy", "a.csv", "lines.jsonl", "--on-error", "reject"];
        arguments.extend(flags);
        let ran = dir.haul(&arguments).ok();
        assert_eq!(ran.account(), (rows + cut, rows - cut, 2 * cut), "{flags:?}");
        assert!(dir.text("lines.jsonl").lines().eq(expected.iter().map(String::as_str)));
    }
    let rejects = dir.text("bad.jsonl");
    assert_eq!(rejects.lines().count() as u64, 2 * cut);
    let mut places: Vec<u64> =
        rejects.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["line"].as_u64().unwrap()).collect();
    places.sort_unstable();
    let lines: Vec<u64> = (1..=cut).flat_map(|k| [1000 * k + k, 1000 * k + k + 1]).collect();
    assert_eq!(places, lines);
}

#[test]
fn csv_05_more_bad_rows_than_allowed_fail_the_job() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b\n1\n2\n3\n4,5\n");
    let ran = dir.line("copy a.csv o.jsonl --on-error reject --max-rejects 2").failed();
    assert!(ran.err.contains("more than --max-rejects 2 allows"), "{ran:?}");
    assert_eq!(dir.names(), ["a.csv"]);
}

#[test]
fn rejects_go_to_a_file_of_their_own() {
    let dir = Folder::new();
    let source = "a,b\n1\n2,3\n";
    dir.write("a.csv", source);
    dir.write("old.jsonl", "{\"old\":1}\n");
    std::os::unix::fs::symlink("a.csv", dir.path("alias.csv")).unwrap();
    for rejects in ["a.csv", "./a.csv", "alias.csv", "old.jsonl", "./old.jsonl"] {
        let ran = dir.haul(&["copy", "a.csv", "old.jsonl", "--on-error", "reject", "--rejects", rejects]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert_eq!((dir.text("a.csv").as_str(), dir.text("old.jsonl").as_str()), (source, "{\"old\":1}\n"));
    }
    let ran = dir.haul(&["copy", "a.csv", "new.jsonl", "--on-error", "reject", "--rejects", "new.jsonl"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = dir.line("copy a.csv new.jsonl --rejects bad.jsonl");
    assert!(ran.code == 2 && ran.err.contains("--on-error reject"), "{ran:?}");
    assert!(!dir.path("bad.jsonl").exists());
}

#[test]
fn csv_06_a_byte_order_mark_is_no_part_of_a_name() {
    let dir = Folder::new();
    let row = [r#"{"id":"1","name":"Zed"}"#];
    dir.write("a.csv", "\u{feff}id,name\n1,Zed\n");
    dir.write("b.csv", "\u{feff}\"id\",\"name\"\n\"1\",\"Zed\"\n");
    dir.write("c.csv", "\u{feff}1,Zed\n");
    dir.write("d.csv", "\u{feff}");
    dir.write("e.csv", "\u{feff}id,name\n1,Zed\n\u{feff}id,name\n1,Zed\n");
    assert_eq!(dir.lines_of("a.csv", &[]), row);
    assert_eq!(dir.lines_of("b.csv", &[]), row);
    assert_eq!(dir.lines_of("c.csv", &["--header", "false", "--cast", "column_1:integer"]), [r#"{"column_1":1,"column_2":"Zed"}"#]);
    let ran = dir.line("copy d.csv o.jsonl").failed();
    assert!(ran.err.contains("d.csv") && ran.err.contains("empty"), "{ran:?}");
    assert_eq!(
        dir.lines_of("e.csv", &[]),
        [row[0], "{\"id\":\"\u{feff}id\",\"name\":\"name\"}", row[0]],
        "a second mark is data, and its line is a row"
    );
}

#[test]
fn csv_11_null_and_empty_stay_different() {
    let dir = Folder::new();
    let text = "id,t,n\n1,,\n2,\"\",5\n3,NULL,6\n4,\"NULL\",7\n5,\\N,8\n";
    dir.write("a.csv", text);
    let t = |lines: &[String]| {
        lines.iter().map(|l| l.split("\"t\":").nth(1).unwrap().split(",\"n\"").next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(t(&dir.lines_of("a.csv", &[])), ["null", "\"\"", "\"NULL\"", "\"NULL\"", "\"\\\\N\""]);
    assert_eq!(t(&dir.lines_of("a.csv", &["--null", "NULL"])), ["null", "\"\"", "null", "\"NULL\"", "\"\\\\N\""]);
    assert_eq!(t(&dir.lines_of("a.csv", &["--empty", "string"]))[0], "\"\"");
    // Through every format and back.
    for way in ["w.jsonl", "w.parquet", "w.arrow", "w.tsv", "w.csv.gz"] {
        dir.haul(&["copy", "a.csv", way]).ok();
        dir.haul(&["copy", way, "back.csv"]).ok();
        assert_eq!(dir.text("back.csv"), text.replace("\"NULL\"", "NULL"), "{way}");
    }
}

#[test]
fn csv_14_ragged_rows() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n");
    for target in ["o.jsonl", "o.parquet", "o.csv.gz"] {
        let ran = dir.haul(&["copy", "a.csv", target]).failed();
        assert!(ran.err.contains("line 3") && ran.err.contains("2 fields, 3 expected"), "{ran:?}");
    }
    let ran = dir.line("copy a.csv o.jsonl --on-error reject --rejects bad.jsonl").ok();
    assert_eq!(ran.account(), (4, 2, 2));
    let bad = dir.text("bad.jsonl");
    assert!(bad.contains(r#""line":3"#) && bad.contains(r#""line":4"#) && bad.contains(r#""record":"6,7,8,9\n""#), "{bad}");
    dir.write("t.csv", "a,b,c,\n1,2,3,\n4,5,6,\n");
    assert_eq!(dir.lines_of("t.csv", &["--trailing-delimiter", "drop"])[1], r#"{"a":"4","b":"5","c":"6"}"#);
    assert!(dir.lines_of("t.csv", &[])[0].starts_with(r#"{"a":"1","b":"2","c":"3","#));
}

#[test]
fn csv_14_a_copy_of_csv_to_csv_looks_at_its_rows_too() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b,c\n1,2,3\n4,5\n");
    let ran = dir.line("copy a.csv o.csv");
    // Bytes may pass untouched, but then nothing is lost and the count is the file's.
    match ran.code {
        0 => assert_eq!((ran.account(), dir.read("o.csv")), ((2, 2, 0), dir.read("a.csv"))),
        _ => assert!(ran.failed().err.contains("line 3")),
    }
}

#[test]
fn csv_15_blanks_are_kept_or_trimmed_in_every_row() {
    let dir = Folder::new();
    let rows = if full() { 100_000 } else { 20_000 };
    let mut text = "c1;c2\n v0 ;\" q \"\n".to_string();
    for row in 1..=rows {
        let _ = writeln!(text, " v{row} ;x");
    }
    dir.write("a.csv", text);
    let kept = dir.lines_of("a.csv", &["--delimiter", ";"]);
    assert_eq!(kept[0], r#"{"c1":" v0 ","c2":" q "}"#);
    assert_eq!(kept[rows], format!(r#"{{"c1":" v{rows} ","c2":"x"}}"#));
    let trimmed = dir.lines_of("a.csv", &["--delimiter", ";", "--trim"]);
    assert_eq!(trimmed[0], r#"{"c1":"v0","c2":" q "}"#);
    assert!(trimmed.iter().all(|l| l.starts_with(r#"{"c1":"v"#)));
}

#[test]
fn csv_16_skip_counts_what_it_says() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b\n1,\"x\ny\"\n2,z\n3,w\n");
    assert_eq!(dir.lines_of("a.csv", &["--skip-records", "1"]), [r#"{"a":"2","b":"z"}"#, r#"{"a":"3","b":"w"}"#]);
    let ran = dir.line("copy a.csv o.jsonl --skip 2").failed();
    assert!(ran.err.contains("quote"), "{ran:?}");
    dir.write("b.csv", "\"na\nme\",b\n1,2\n");
    assert_eq!(dir.lines_of("b.csv", &[]), [r#"{"na\nme":"1","b":"2"}"#]);
}

#[test]
fn csv_19_lone_carriage_returns() {
    let dir = Folder::new();
    dir.write("a.csv", "id,t\r1,a\r2,\"x\ry\"\r");
    dir.write("b.csv", "id,t\r1,a\r2,\"x\ry\"");
    let rows = [r#"{"id":"1","t":"a"}"#, r#"{"id":"2","t":"x\ry"}"#];
    assert_eq!(dir.lines_of("a.csv", &[]), rows);
    assert_eq!(dir.lines_of("b.csv", &[]), rows);
    dir.write("mixed.csv", "id,t\n1,a\r\n2,b\r3,c\n");
    let ran = dir.line("copy mixed.csv o.jsonl").failed();
    assert!(ran.err.contains("line 3"), "{ran:?}");
}

fn utf16(text: &str, big: bool, mark: bool) -> Vec<u8> {
    let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
    units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
}

#[test]
fn csv_20_utf16_is_decoded_or_refused() {
    let dir = Folder::new();
    let text = "id;t\r\n1;Grün\r\n2;日本";
    let rows = [r#"{"id":"1","t":"Grün"}"#, r#"{"id":"2","t":"日本"}"#];
    dir.write("le.csv", utf16(text, false, true));
    dir.write("be.csv", utf16(text, true, true));
    dir.write("none.csv", utf16(text, false, false));
    dir.python("import gzip; gzip.open('le2.csv.gz','wb').write(open('le.csv','rb').read())");
    for name in ["le.csv", "be.csv", "le2.csv.gz"] {
        assert_eq!(dir.lines_of(name, &["--delimiter", ";"]), rows, "{name}");
    }
    let ran = dir.line("copy none.csv o.jsonl --delimiter ;").failed();
    assert!(ran.err.contains("utf-16le"), "{ran:?}");
    assert_eq!(dir.lines_of("none.csv", &["--delimiter", ";", "--encoding", "utf-16le"]), rows);
}

#[test]
fn csv_21_nul_bytes_are_data() {
    let dir = Folder::new();
    dir.write("a.csv", "id,t\n1,a\0b\n2,ok\n3,\0\n");
    let rows = [r#"{"id":"1","t":"a\u0000b"}"#, r#"{"id":"2","t":"ok"}"#, r#"{"id":"3","t":"\u0000"}"#];
    assert_eq!(dir.lines_of("a.csv", &[]), rows);
    dir.line("copy a.csv o.parquet").ok();
    assert_eq!(dir.lines_of("o.parquet", &[]), rows);
    dir.line("copy o.parquet back.csv").ok();
    assert_eq!(dir.read("back.csv"), dir.read("a.csv"));
}

#[test]
fn csv_22_names_that_are_equal_blank_or_differ_by_case() {
    let dir = Folder::new();
    dir.write("a.csv", "id,id,,name,,Name\n1,2,3,z,5,Z\n");
    let ran = dir.line("copy a.csv o.jsonl").ok();
    let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&dir.text("o.jsonl")).unwrap();
    assert_eq!(row.len(), 6);
    let values: Vec<&str> = row.values().map(|v| v.as_str().unwrap()).collect();
    let mut sorted = values.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["1", "2", "3", "5", "Z", "z"]);
    assert!(ran.err.contains("note: ") && ran.err.contains("id_"), "the made-up names are told: {ran:?}");
    dir.write("b.csv", "id,id_1,id\n1,2,3\n");
    let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&dir.lines_of("b.csv", &[])[0]).unwrap();
    assert_eq!((row.len(), row["id"].as_str(), row["id_1"].as_str()), (3, Some("1"), Some("2")));
}

#[test]
fn csv_23_inference_leaves_codes_alone() {
    let dir = Folder::new();
    dir.write(
        "a.csv",
        "zip,phone,amt,code,flag,n\n01234,+31612345678,\"1,213\",1E5,t,1\n98765,0031612345678,\"1.213,50\",00E1,yes,2\n00000,112,\"(12)\",12e3,1,3\n",
    );
    let lines = dir.lines_of("a.csv", &["--infer"]);
    assert_eq!(lines[0], r#"{"zip":"01234","phone":"+31612345678","amt":"1,213","code":"1E5","flag":"t","n":1}"#);
    assert_eq!(lines[1], r#"{"zip":"98765","phone":"0031612345678","amt":"1.213,50","code":"00E1","flag":"yes","n":2}"#);
    let ran = dir.haul(&["copy", "a.csv", "o.jsonl", "--cast", "amt:decimal(12,2)"]).failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("\"amt\"") && ran.err.contains("1,213"), "{ran:?}");
}

#[test]
fn csv_23_a_later_value_that_does_not_fit_the_sample_is_an_error() {
    let dir = Folder::new();
    let mut text = "id,n\n".to_string();
    for id in 1..=30_000 {
        let _ = writeln!(text, "{id},{}", if id == 29_000 { "1.5".to_string() } else { id.to_string() });
    }
    dir.write("a.csv", text);
    let ran = dir.line("copy a.csv o.jsonl --infer").failed();
    assert!(ran.err.contains("line 29001") && ran.err.contains("\"n\"") && ran.err.contains("--cast n:"), "{ran:?}");
    assert_eq!(dir.names(), ["a.csv"]);
}

#[test]
fn csv_25_a_quote_that_is_never_closed() {
    let dir = Folder::new();
    let rows = if full() { 1_000_000 } else { 100_000 };
    let mut text = "id,t\n".to_string();
    for id in 1..=rows {
        let _ = writeln!(text, "{id},{}", if id == rows / 2 { "\"abc" } else { "5\" pipe" });
    }
    dir.write("a.csv", &text);
    let ran = dir.line("copy a.csv o.jsonl").failed();
    assert!(ran.err.contains(&format!("line {}", rows / 2 + 1)), "{ran:?}");
    assert_eq!(dir.names(), ["a.csv"]);
    dir.write("b.csv", text.replace("\"abc", "5\" pipe"));
    let lines = dir.lines_of("b.csv", &[]);
    assert_eq!((lines.len(), lines[7].as_str()), (rows, r#"{"id":"8","t":"5\" pipe"}"#));
    dir.write("c.csv", "id,t\n1,x\n2,\"abc\n3,y\n4,z\n");
    let ran = dir.line("copy c.csv o.jsonl").failed();
    assert!(ran.err.contains("line 3") && ran.err.contains("never closed"), "{ran:?}");
    dir.write("d.csv", "id,t\n1,x\n2,\"\"A\"\"\n");
    let ran = dir.line("copy d.csv o.jsonl").failed();
    assert!(ran.err.contains("line 3"), "{ran:?}");
}

#[test]
fn csv_26_settings_that_cannot_work_are_refused_before_writing() {
    let dir = Folder::new();
    dir.write("a.jsonl", "{\"a\":\"t,n,g\",\"b\":\"a\"}\n{\"a\":null,\"b\":null}\n{\"a\":\"NA\",\"b\":\"\"}\n");
    for bad in [["--delimiter", "\""], ["--delimiter", "||"], ["--delimiter", "\n"], ["--delimiter", "\r"]] {
        let ran = dir.haul(&["copy", "a.jsonl", "o.csv", bad[0], bad[1]]);
        assert_eq!(ran.code, 2, "{bad:?} {ran:?}");
        assert!(!dir.path("o.csv").exists());
    }
    for good in [
        &["--delimiter", "n"][..],
        &["--delimiter", "\\"],
        &["--delimiter", "tab", "--null", "n"],
        &["--null", "NA"],
        &["--delimiter", "|"],
    ] {
        let mut out = vec!["copy", "a.jsonl", "o.csv"];
        out.extend(good);
        dir.haul(&out).ok();
        assert_eq!(dir.lines_of("o.csv", good).join("\n") + "\n", dir.text("a.jsonl"), "{good:?}: {}", dir.text("o.csv"));
    }
}
