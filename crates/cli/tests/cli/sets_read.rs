//! Sets of files as a source: which files, in which order, with which columns and rows.

use crate::runner::Folder;
use haul_testkit::services::run_python;

/// Three Parquet files of four row groups each, made by pyarrow: ids 0 to 11,999 in order, 1,000 a row group.
fn three_files(dir: &Folder) {
    std::fs::create_dir(dir.path("in")).unwrap();
    run_python(
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n\
         for f in range(3):\n\
         \x20   ids = list(range(4000 * f, 4000 * (f + 1)))\n\
         \x20   t = pa.table({'id': pa.array(ids, pa.int32()), 't': [None if i % 10 == 0 else f'text {i}' for i in ids], 'x': [i / 2 for i in ids]})\n\
         \x20   pq.write_table(t, f'{sys.argv[1]}/f{f}.parquet', row_group_size=1000)",
        &[&dir.path("in").display().to_string()],
    );
}

#[test]
fn row_groups_that_cannot_match_are_not_read() {
    let dir = Folder::new();
    three_files(&dir);
    let plan = |condition: &str| dir.haul(&["plan", "in", "o.csv", "--where", condition]).ok().out;
    let said = plan("id >= 3500 and id < 4500");
    assert!(said.contains("3 files, 2 row group(s)") && said.contains("10 of 12 row groups are ruled out by their statistics"), "{said}");
    assert!(plan("id = 99999").contains("12 of 12 row groups"), "none is left");
    assert!(!plan("x > 5").contains("ruled out"), "NaN is in no statistics");
    let json: serde_json::Value =
        serde_json::from_str(&dir.haul(&["plan", "in", "o.csv", "--where", "id between 3500 and 4499", "--json"]).ok().out).unwrap();
    assert_eq!(json["splits"][0]["what"], "file:in/f0.parquet rows 3001-4000");
    for (condition, expected) in [
        ("id >= 3500 and id < 4500", (3500..4500).collect::<Vec<i32>>()),
        ("id = 99999", vec![]),
        ("t is null and id < 50", vec![0, 10, 20, 30, 40]),
        ("t in ('text 1', 'text 11999', 'text 10')", vec![1, 11_999]),
        ("x > 5999 or id = 7", vec![7, 11_999]),
        ("not (id < 11998)", vec![11_998, 11_999]),
    ] {
        let ran = dir.haul(&["copy", "in", "o.csv", "--where", condition, "--columns", "id"]).ok();
        assert_eq!(ran.account(), (expected.len() as u64, expected.len() as u64, 0), "{condition}");
        let text: String = std::iter::once("id\n".to_string()).chain(expected.iter().map(|id| format!("{id}\n"))).collect();
        assert_eq!(dir.text("o.csv"), text, "{condition}: in order, without the columns of the condition");
    }
    for (condition, told) in [
        ("id = 'x'", "column \"id\": the text \"x\" is no value of the type Int32"),
        ("ids = 1", "did you mean \"id\""),
        ("id = ", "a value expected at character 6"),
    ] {
        let ran = dir.haul(&["copy", "in", "o.csv", "--where", condition]);
        assert!(ran.code != 0 && ran.err.contains(told), "{ran:?}");
    }
    let ran = dir.haul(&["copy", "o.csv", "p.csv", "--where", "id = '1'"]);
    assert!(ran.code == 2 && ran.err.contains("--where means nothing for file to file"), "{ran:?}");
}

#[test]
fn a_bad_value_is_named_by_its_row_in_the_file() {
    let dir = Folder::new();
    three_files(&dir);
    for condition in ["id >= 0", "id > 6000"] {
        let ran = dir.haul(&["copy", "in", "o.csv", "--where", condition, "--cast", "t:int", "--columns", "id,t"]).failed();
        let row = if condition == "id >= 0" { "row 2," } else { "row 2002," };
        assert!(ran.err.contains(row), "{condition}: {}", ran.err);
    }
}

#[test]
fn the_file_column_says_where_rows_come_from() {
    let dir = Folder::new();
    dir.write("a1.csv", "id\n1\n");
    dir.write("a2.csv", "id\n2\n3\n");
    let expected = [r#"{"id":"1","_file":"a1.csv"}"#, r#"{"id":"2","_file":"a2.csv"}"#, r#"{"id":"3","_file":"a2.csv"}"#];
    assert_eq!(dir.lines_of("a?.csv", &["--file-column"]), expected);
    assert_eq!(dir.lines_of("a?.csv", &["--columns", "_file,id"])[0], r#"{"_file":"a1.csv","id":"1"}"#);
    three_files(&dir);
    let lines = dir.lines_of("in", &["--columns", "id,_file", "--where", "id in (0, 11999)"]);
    assert_eq!(lines, [r#"{"id":0,"_file":"in/f0.parquet"}"#, r#"{"id":11999,"_file":"in/f2.parquet"}"#]);
    dir.write("b.csv", "id,_file\n1,x\n");
    let ran = dir.haul(&["copy", "b.csv", "o.jsonl", "--file-column"]).failed();
    assert!(ran.err.contains("have a column of this name already"), "{ran:?}");
}

#[test]
fn other_columns_are_refused_or_united() {
    let dir = Folder::new();
    std::fs::create_dir(dir.path("in")).unwrap();
    run_python(
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n\
         w = lambda name, t: pq.write_table(pa.table(t), f'{sys.argv[1]}/{name}.parquet')\n\
         w('a', {'id': pa.array([1, 2], pa.int32()), 't': ['x', None]})\n\
         w('b', {'t': ['y'], 'id': pa.array([3], pa.int32())})\n\
         w('c', {'id': pa.array([2**40], pa.int64()), 'n': pa.array([1.5], pa.float32())})\n\
         w('d', {'id': ['text'], 't': ['z']})",
        &[&dir.path("in").display().to_string()],
    );
    // Another order is no difference.
    assert_eq!(dir.lines_of("in/[ab].parquet", &[])[2], r#"{"id":3,"t":"y"}"#);
    let ran = dir.haul(&["copy", "in/[ac].parquet", "o.jsonl"]).failed();
    assert!(
        ran.err.contains("in/c.parquet") && ran.err.contains("those of in/a.parquet (id, t)") && ran.err.contains("\"t\" is missing"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("--schemas union"), "{}", ran.err);
    let ran = dir.haul(&["copy", "in/[ad].parquet", "o.jsonl"]).failed();
    assert!(
        ran.err.contains("in/d.parquet, column \"id\"") && ran.err.contains("is Utf8View here, but Int32 in in/a.parquet"),
        "{}",
        ran.err
    );
    let united = dir.lines_of("in/[abc].parquet", &["--schemas", "union"]);
    let expected = [
        r#"{"id":1,"t":"x","n":null}"#,
        r#"{"id":2,"t":null,"n":null}"#,
        r#"{"id":3,"t":"y","n":null}"#,
        r#"{"id":1099511627776,"t":null,"n":1.5}"#,
    ];
    assert_eq!(united, expected);
    assert_eq!(dir.lines_of("in/[abc].parquet", &["--schemas", "union", "--columns", "n,id"])[3], r#"{"n":1.5,"id":1099511627776}"#);
    let ran = dir.haul(&["copy", "in/[ad].parquet", "o.jsonl", "--schemas", "union"]).failed();
    assert!(ran.err.contains("is Utf8View here, but Int32"), "{}", ran.err);
    // Text formats.
    dir.write("t1.csv", "id,a\n1,x\n");
    dir.write("t2.csv", "b,id\ny,2\n");
    assert_eq!(dir.lines_of("t?.csv", &["--schemas", "union"]), [r#"{"id":"1","a":"x","b":null}"#, r#"{"id":"2","a":null,"b":"y"}"#]);
    dir.write("j1.jsonl", "{\"id\":1}\n");
    dir.write("j2.jsonl", "{\"id\":2,\"n\":{\"k\":[1]}}\n");
    let lines = dir.lines_of("j?.jsonl", &["--schemas", "union"]);
    assert_eq!(lines, [r#"{"id":1}"#, r#"{"id":2,"n":{"k":[1]}}"#]);
}

#[test]
fn folders_are_read_with_what_is_below_them() {
    let dir = Folder::new();
    for folder in ["in/b", "in/a/c", "in/_tmp", "in/.x"] {
        std::fs::create_dir_all(dir.path(folder)).unwrap();
    }
    for (file, id) in [("in/z.csv", 1), ("in/a/1.csv", 2), ("in/a/c/1.csv", 3), ("in/b/1.csv", 4), ("in/_tmp/1.csv", 8), ("in/.x/1.csv", 9)]
    {
        dir.write(file, format!("id\n{id}\n"));
    }
    let expected: Vec<String> = (1..=4).map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
    assert_eq!(dir.lines_of("in", &[]), expected);
    assert_eq!(dir.lines_of("in/**/1.csv", &[])[..2], expected[1..3]);
}

#[test]
fn a_manifest_that_does_not_fit_is_no_set() {
    let dir = Folder::new();
    dir.write("a.csv", "id\n1\n2\n");
    dir.haul(&["copy", "a.csv", "o/{part}.csv"]).ok();
    dir.write("o/9.csv", "id\n9\n");
    assert_eq!(dir.lines_of("o", &[]).len(), 2, "a file that the manifest does not name is not of the set");
    assert_eq!(dir.lines_of("o/*.csv", &[]).len(), 3, "a glob names files");
    std::fs::remove_file(dir.path("o/0.csv")).unwrap();
    let ran = dir.haul(&["copy", "o", "x.jsonl"]).failed();
    assert!(ran.err.contains("o/0.csv: cannot open") && ran.err.contains("its manifest names files that are not there"), "{}", ran.err);
    dir.write("o/0.csv", "id\n1\n");
    let ran = dir.haul(&["copy", "o", "x.jsonl"]).failed();
    assert!(ran.err.contains("has 5 bytes, but the manifest of its set says 7"), "{}", ran.err);
    dir.write("o/_manifest.json", "{");
    let ran = dir.haul(&["copy", "o", "x.jsonl"]).failed();
    assert!(ran.err.contains("the manifest cannot be read"), "{}", ran.err);
    dir.write("o/_manifest.json", "{\"written by\": \"another tool\"}");
    assert_eq!(dir.lines_of("o", &[]).len(), 2);
}

#[test]
fn pq_04_files_of_pyarrow_and_duckdb_as_one_set() {
    let dir = Folder::new();
    std::fs::create_dir(dir.path("in")).unwrap();
    run_python(
        "import sys, duckdb, pyarrow as pa, pyarrow.parquet as pq\n\
         d = sys.argv[1]\n\
         schema = pa.schema([('id', pa.int64()), ('m', pa.decimal128(18, 4)), ('ts', pa.timestamp('us')), ('l', pa.list_(pa.int32())), ('t', pa.string())])\n\
         from decimal import Decimal as D; import datetime as dt\n\
         rows = lambda a, b: pa.table({'id': range(a, b), 'm': [D(-i) / 10000 for i in range(a, b)], 'ts': [dt.datetime(1000 + i % 8000, 1, 1) for i in range(a, b)],\n\
         \x20   'l': [[None, i] if i % 3 == 0 else [] if i % 3 == 1 else None for i in range(a, b)], 't': ['same'] * (b - a)}, schema=schema)\n\
         pq.write_table(schema.empty_table(), d + '/a.parquet')\n\
         w = pq.ParquetWriter(d + '/b.parquet', schema, use_deprecated_int96_timestamps=True, store_decimal_as_integer=True)\n\
         w.write_table(rows(0, 5)); w.write_table(schema.empty_table()); w.write_table(rows(5, 10)); w.close()\n\
         pq.write_table(rows(10, 20), d + '/c.parquet', use_dictionary=['t'], version='1.0', store_schema=False)\n\
         t = rows(20, 30)\n\
         duckdb.sql(f\"copy (select * from t) to '{d}/d.parquet' (format parquet, row_group_size 2048)\")",
        &[&dir.path("in").display().to_string()],
    );
    let lines = dir.lines_of("in/*.parquet", &[]);
    assert_eq!(lines.len(), 30);
    for (id, line) in lines.iter().enumerate() {
        let list = match id % 3 {
            0 => format!("[null,{id}]"),
            1 => "[]".into(),
            _ => "null".into(),
        };
        let minus = if id == 0 { "" } else { "-" };
        let expected =
            format!("{{\"id\":{id},\"m\":{minus}0.{id:04},\"ts\":\"{}-01-01T00:00:00\",\"l\":{list},\"t\":\"same\"}}", 1000 + id);
        assert_eq!(*line, expected);
    }
}
