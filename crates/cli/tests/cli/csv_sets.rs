//! Several files as one source: globs, folders, other column orders.

use crate::runner::Folder;

fn files() -> Folder {
    let dir = Folder::new();
    dir.write("f1.csv", "id,a,b\n1,x,y\n");
    dir.write("f2.csv", "b,id,a\ny2,2,x2\n");
    dir.write("f3.csv", "ID,A\n3,x3\n");
    dir.write("f4.csv", "id,a,b,c\n4,x4,y4,z4\n");
    dir.write("f5.csv", "id,a,b\n");
    dir.write("f6.csv", "");
    dir.write("f7.csv", "id,a\n7,x7\n");
    dir
}

#[test]
fn csv_24_other_order_goes_by_name() {
    let dir = files();
    let ran = dir.line("copy f[1256].csv o.jsonl").ok();
    assert_eq!(dir.text("o.jsonl"), "{\"id\":\"1\",\"a\":\"x\",\"b\":\"y\"}\n{\"id\":\"2\",\"a\":\"x2\",\"b\":\"y2\"}\n");
    assert!(ran.err.contains("note: ") && ran.err.contains("f6.csv is empty: 0 rows"), "{ran:?}");
    assert_eq!(ran.account(), (2, 2, 0));
}

#[test]
fn csv_24_missing_extra_and_case_different_columns_are_errors() {
    let dir = files();
    for (pattern, file) in [("f[13].csv", "f3.csv"), ("f[14].csv", "f4.csv"), ("f[17].csv", "f7.csv")] {
        let ran = dir.haul(&["copy", pattern, "o.jsonl"]).failed();
        assert!(ran.err.starts_with(&format!("error: {file}: its columns (")), "{ran:?}");
        assert!(!dir.path("o.jsonl").exists());
    }
    dir.haul(&["copy", "f[147].csv", "o.jsonl", "--columns", "id,a"]).ok();
    assert_eq!(dir.text("o.jsonl").lines().last(), Some(r#"{"id":"7","a":"x7"}"#));
}

#[test]
fn csv_24_header_only_and_empty_files() {
    let dir = files();
    for to in ["o.jsonl", "o.csv", "o.parquet", "o.arrow", "o.csv.gz", "o.jsonl.zst"] {
        let ran = dir.haul(&["copy", "f5.csv", to]).ok();
        assert_eq!(ran.account(), (0, 0, 0));
        if to != "o.jsonl" && to != "o.jsonl.zst" {
            assert_eq!(dir.haul(&["schema", to]).ok().out.lines().count(), 5, "{to}: header, rule and three columns");
        }
    }
    assert_eq!(dir.text("o.csv"), "id,a,b\n");
    let ran = dir.line("copy f6.csv o.jsonl").failed();
    assert!(ran.err.contains("f6.csv: the file is empty"), "{ran:?}");
}

#[test]
fn op_07_an_empty_json_lines_file_has_no_rows() {
    let dir = Folder::new();
    for (name, content) in [("a.jsonl", ""), ("b.jsonl", "\n\n"), ("c.jsonl", "\u{feff}")] {
        dir.write(name, content);
        let ran = dir.haul(&["copy", name, "o.jsonl"]).ok();
        assert_eq!((ran.account(), dir.text("o.jsonl").trim()), ((0, 0, 0), ""), "{name}");
        let ran = dir.haul(&["copy", name, "o.jsonl", "--json"]).ok();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["rows_read"], 0);
    }
    dir.write("d.jsonl", "{\"a\":1}\n\n  \r\n{\"a\":2}\n");
    assert_eq!(dir.line("copy d.jsonl o.jsonl").ok().account(), (2, 2, 0), "blank lines are no rows on either side");
    let ran = dir.piped(&["copy", "-?format=jsonl", "-?format=jsonl"], b"").ok();
    assert_eq!((ran.account(), ran.out.as_str()), ((0, 0, 0), ""));
}

#[test]
fn folders_and_globs() {
    let dir = files();
    std::fs::create_dir(dir.path("in")).unwrap();
    dir.write("in/2.csv", "id\n2\n");
    dir.write("in/1.csv", "id\n1\n");
    dir.write("in/_SUCCESS", "");
    dir.write("in/.hidden.csv", "id\n9\n");
    for from in ["in", "in/", "in/*.csv", "file://in"] {
        assert_eq!(dir.lines_of(from, &[]), [r#"{"id":"1"}"#, r#"{"id":"2"}"#], "{from}");
    }
    let ran = dir.line("copy in/*.tsv o.jsonl").failed();
    assert!(ran.err.contains("in/*.tsv: the pattern matches no file"), "{ran:?}");
    std::fs::create_dir(dir.path("none")).unwrap();
    let ran = dir.line("copy none o.jsonl --format csv").failed();
    assert!(ran.err.contains("no data file"), "{ran:?}");
    dir.write("in/3.jsonl", "{\"id\":3}\n");
    let ran = dir.line("copy in o.jsonl");
    assert!(ran.code == 2 && ran.err.contains("3.jsonl"), "{ran:?}");
}

#[test]
fn json_lines_sets_share_their_columns() {
    let dir = Folder::new();
    dir.write("a1.jsonl", "{\"a\":1,\"b\":\"x\"}\n");
    dir.write("a2.jsonl", "{\"b\":\"y\",\"a\":2}\n");
    assert_eq!(dir.lines_of("a?.jsonl", &[]), [r#"{"a":1,"b":"x"}"#, r#"{"a":2,"b":"y"}"#]);
    dir.write("a3.jsonl", "{\"a\":3,\"c\":\"new\"}\n");
    let ran = dir.haul(&["copy", "a?.jsonl", "o.jsonl"]).failed();
    assert!(ran.err.contains("a3.jsonl") && ran.err.contains("\"c\""), "{ran:?}");
}
