//! CSV and JSON lines into PostgreSQL and back.

use crate::postgres::Site;
use haul_testkit::services::run_python;

#[test]
fn csv_11_null_and_empty_stay_apart() {
    let site = Site::new("create table c (id int, t text, n int); create table d (id int, t text)");
    site.dir.write("a.csv", "id,t,n\n1,,\n2,\"\",5\n3,NULL,6\n4,\"NULL\",7\n5,\\N,8\n");
    site.copy("a.csv", ":c", "").ok();
    assert_eq!(site.sql("select * from c order by id"), "1|<NULL>|<NULL>\n2||5\n3|NULL|6\n4|NULL|7\n5|\\N|8");
    site.copy("a.csv?null=NULL", ":c", "--mode replace").ok();
    assert_eq!(site.sql("select id from c where t is null order by id"), "1\n3");
    site.sql("insert into d values (1, null), (2, ''), (3, ' '), (4, 'NULL'), (5, '\\N')");
    for file in ["d.csv", "d.jsonl", "d.parquet", "d.tsv"] {
        site.round_trip("d", file, Some("create table back (like d)"), "");
    }
    site.copy(":d", ":dd", "--create").ok();
    site.assert_same("d", "dd");
}

#[test]
fn csv_17_what_needs_quotes_comes_back() {
    let site = Site::new(
        r#"create table v (id int, t text);
        insert into v values (1, E'n\nn'), (2, E'c\rr'), (3, 'quote"'), (4, 'a,b'), (5, ' lead'), (6, '\.'), (7, ''), (8, null), (9, '-'), (10, '=1+1')"#,
    );
    site.round_trip("v", "v.csv", Some("create table back (like v)"), "");
    site.sql("create table one as select t from v");
    site.round_trip("one", "one.csv", Some("create table back (like one)"), "");
    let seen = run_python(
        "import csv,sys\nfor r in csv.reader(open(sys.argv[1], newline='')): print(len(r), ascii(r[1]))",
        &[&site.dir.path("v.csv").display().to_string()],
    );
    let expected = ["t", r"n\nn", r"c\rr", "quote\"", "a,b", " lead", r"\\.", "", "", "-", "=1+1"].map(|t| format!("2 '{t}'\n")).concat();
    assert_eq!(seen, expected);
    // The server's own reader agrees.
    site.sql(&format!("create table theirs (like v); copy theirs from '{}' (format csv, header)", readable(&site, "v.csv")));
    site.assert_same("v", "theirs");
}

/// A copy of a file that the server's user can read.
fn readable(site: &Site, name: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &std::path::Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(&site.dir.path("."), 0o755);
    open(&site.dir.path(name), 0o644);
    site.dir.path(name).display().to_string()
}

#[test]
fn csv_20_utf_16_is_seen() {
    let site = Site::new("create table t (id int, t text)");
    let text = "id;t\r\n1;Grün\r\n2;日本";
    let encode = |bom: bool, big: bool| -> Vec<u8> {
        let units = bom.then_some(0xFEFF).into_iter().chain(text.encode_utf16());
        units.flat_map(|u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    };
    site.dir.write("le.csv", encode(true, false));
    site.dir.write("be.csv", encode(true, true));
    site.dir.write("bare.csv", encode(false, false));
    for file in ["le.csv", "be.csv"] {
        site.copy(&format!("{file}?delimiter=;"), ":t", "--mode replace").ok();
        assert_eq!(site.sql("select * from t order by id"), "1|Grün\n2|日本");
    }
    let ran = site.copy("bare.csv?delimiter=;", ":t", "--mode replace");
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("UTF-16") || ran.err.contains("NUL"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "2");
    site.copy("bare.csv?delimiter=;&encoding=utf-16le", ":t", "--mode replace").ok();
    assert_eq!(site.sql("select * from t order by id"), "1|Grün\n2|日本");
}

#[test]
fn csv_21_nul_into_text_is_an_error_and_into_bytea_is_kept() {
    let site = Site::new("create table t (id int, t text); create table b (id int, t bytea)");
    site.dir.write("n.csv", "id,t\n1,a\0b\n2,ok\n3,\0\n");
    let ran = site.copy("n.csv", ":t", "").failed();
    assert!(ran.err.contains("n.csv, line 2") && ran.err.contains("column \"t\""), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "0");
    let ran = site.copy("n.csv", ":t", "--on-error reject --rejects r.jsonl").ok();
    assert_eq!(ran.account(), (3, 1, 2));
    assert_eq!(site.sql("select * from t"), "2|ok");
    assert!(
        site.dir.text("r.jsonl").contains(r#""line":2"#) && site.dir.text("r.jsonl").contains(r#""line":4"#),
        "{}",
        site.dir.text("r.jsonl")
    );
    // Bytes as text are the server's hex form.
    site.sql(r"insert into b values (1, '\x610062'), (2, ''), (3, '\x00'), (4, null)");
    for file in ["b.csv", "b.jsonl", "b.parquet", "b.arrow"] {
        site.round_trip("b", file, Some("create table back (like b)"), "");
    }
}

#[test]
fn csv_22_duplicate_headers() {
    let site = Site::new("create table old (id int, name text)");
    site.dir.write("d.csv", "id,id,,name,,Name\n1,2,3,z,5,Z\n");
    let ran = site.copy("d.csv", ":fresh", "--create");
    if ran.code == 0 {
        // Made-up names, and no value lost.
        assert_eq!(site.sql("select x::text from fresh x"), "(1,2,3,z,5,Z)");
    } else {
        assert!(ran.err.contains("\"id\""), "{}", ran.err);
        assert_eq!(site.sql("select to_regclass('fresh')"), "<NULL>");
    }
    let ran = site.copy("d.csv", ":old", "");
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("id"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from old"), "0");
    // Names that differ in case only are two columns.
    site.dir.write("c.csv", "name,Name\nz,Z\n");
    site.copy("c.csv", ":cased", "--create").ok();
    assert_eq!(site.sql("select name, \"Name\" from cased"), "z|Z");
}

#[test]
fn csv_23_numbers_that_are_text_stay_text() {
    let site = Site::new("create table t (zip text, phone text, amt numeric, code text, flag text)");
    site.dir.write(
        "z.csv",
        "zip,phone,amt,code,flag\n01234,+31612345678,\"1,213\",1E5,t\n98765,0031612345678,\"1.213,50\",00E1,yes\n00000,112,\"(12)\",12e3,1\n",
    );
    site.copy("z.csv", ":auto", "--create --infer").ok();
    assert_eq!(
        site.sql("select x::text from auto x"),
        "(01234,+31612345678,\"1,213\",1E5,t)\n(98765,0031612345678,\"1.213,50\",00E1,yes)\n(00000,112,\"(12)\",12e3,1)"
    );
    let ran = site.copy("z.csv", ":t", "").failed();
    assert!(ran.err.contains("z.csv, line 2") && ran.err.contains("column \"amt\"") && ran.err.contains("comma"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "0");
}

#[test]
fn csv_24_several_files_go_by_name() {
    let site = Site::new("create table t (id int, a text, b text)");
    site.dir.write("f1.csv", "id,a,b\n1,x,y\n");
    site.dir.write("f2.csv", "b,id,a\ny2,2,x2\n");
    site.dir.write("f5.csv", "id,a,b\n");
    let ran = site.copy("f*.csv", ":t", "").ok();
    assert_eq!(ran.account(), (2, 2, 0));
    assert_eq!(site.sql("select * from t order by id"), "1|x|y\n2|x2|y2");
    // The file with fewer columns, or more, is named, and nothing is loaded.
    for (name, text) in [("f3.csv", "ID,A\n3,x3\n"), ("f6.csv", "id,a\n6,x6\n")] {
        let file = site.dir.write(name, text);
        let ran = site.copy("f*.csv", ":t", "--mode replace").failed();
        assert!(ran.err.contains(name), "{}", ran.err);
        assert_eq!(site.sql("select count(*) from t"), "2");
        std::fs::remove_file(file).unwrap();
    }
    let file = site.dir.write("f4.csv", "id,a,b,c\n4,x4,y4,z4\n");
    let ran = site.copy("f*.csv", ":t", "--mode replace");
    assert!(ran.code != 0 && ran.err.contains("f4.csv"), "a column was left out in silence: {ran:?}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn csv_26_separators_that_overlap_are_refused_or_round_trip() {
    let site = Site::new("create table t (a text, b text); insert into t values ('t,n,g', 'a'), (null, null), ('NA', ''), ('n', 'N')");
    for query in [
        "delimiter=n",
        "delimiter=%09&null=n",
        "null=NA",
        "null=",
        "delimiter=|",
        "delimiter=%5C",
        "quote='",
        "delimiter=%22",
        "delimiter=%0D",
        "delimiter=||",
    ] {
        let file = format!("o.csv?{query}");
        let ran = site.copy(":t", &file, "");
        if ran.code == 0 {
            site.sql("drop table if exists back; create table back (like t)");
            site.copy(&file, ":back", "").ok();
            assert!(site.differences("t", "back").is_empty(), "{query}: {}", site.dir.text("o.csv"));
            std::fs::remove_file(site.dir.path("o.csv")).unwrap();
        } else {
            assert!(matches!(query, "delimiter=%22" | "delimiter=%0D" | "delimiter=||"), "{query}: {}", ran.err);
            assert!(site.dir.names().is_empty(), "{query}: {:?}", site.dir.names());
        }
    }
}

#[test]
fn jl_01_late_keys_and_bad_lines() {
    let site = Site::new("create table t (id int, a text, b jsonb)");
    let mut text: String = (1..=30_000).map(|i| format!("{{\"id\":{i},\"a\":1}}\n")).collect();
    text.push_str("{\"id\":30001,\"a\":\"x\",\"b\":{\"c\":[1,null]}}\n");
    site.dir.write("late.jsonl", &text);
    let ran = site.copy("late.jsonl", ":t", "");
    if ran.code == 0 {
        assert_eq!(site.sql("select a, b from t where id > 29999 order by id"), "1|<NULL>\nx|{\"c\": [1, null]}");
    } else {
        assert!(ran.err.contains("line 30001") && ran.err.contains("\"b\""), "{}", ran.err);
        assert_eq!(site.sql("select count(*) from t"), "0");
        site.copy("late.jsonl?columns=id,a,b", ":t", "").ok();
        assert_eq!(site.sql("select a, b from t where id > 29999 order by id"), "1|<NULL>\nx|{\"c\": [1, null]}");
    }
    site.dir.write(
        "bad.jsonl",
        "\u{feff}{\"id\":1,\"a\":\"x\"}\r\n[1,2]\r\n{\"id\":2,\"a\":\"y\",}\r\n\r\n{\"id\":3,\"a\":null}\r\n{\"id\":4}",
    );
    let ran = site.copy("bad.jsonl", ":t", "--mode replace").failed();
    assert!(ran.err.contains("bad.jsonl, line 2"), "{}", ran.err);
    let ran = site.copy("bad.jsonl", ":t", "--mode replace --on-error reject --rejects r.jsonl").ok();
    assert_eq!(ran.account(), (5, 3, 2));
    assert_eq!(site.sql("select id, a from t order by id"), "1|x\n3|<NULL>\n4|<NULL>");
    let rejects = site.dir.text("r.jsonl");
    assert!(rejects.contains("\"line\":2") && rejects.contains("\"line\":3") && rejects.contains("[1,2]"), "{rejects}");
}
