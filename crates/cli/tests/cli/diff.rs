//! `haul diff`: what differs is found down to the row, whatever the two are kept in, and a repair makes them equal.

use crate::postgres::Site;
use crate::runner::{Folder, Ran};
use insta::assert_snapshot;

const ROWS: &str = "create table a (id int primary key, name text, n numeric(12,2), at timestamptz, raw bytea); \
    insert into a select g, case when g % 10 = 7 then null else 'n' || g end, g * 1.25, timestamptz '2020-01-01 00:00Z' + g * interval '1 hour', \
      int8send(g * 31) from generate_series(1, 3000) g; \
    create table b (like a including all); insert into b select * from a; analyze";

fn diff(site: &Site, a: &str, b: &str, flags: &str) -> Ran {
    let (a, b) = (site.end(a), site.end(b));
    let mut arguments = vec!["diff", a.as_str(), b.as_str()];
    arguments.extend(flags.split_whitespace());
    site.dir.haul(&arguments)
}

fn json(ran: &Ran) -> serde_json::Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// Makes `b` what `a` is, then changes it.
fn changed(site: &Site, change: &str) {
    site.sql(&format!("truncate b; insert into b select * from a; {change}"));
}

/// Changes of `b`, and the three counts: missing, extra, different.
const CHANGES: &[(&str, &str, [u64; 3])] = &[
    ("one_flipped_value", "update b set n = n + 0.01 where id = 1500", [0, 0, 1]),
    ("one_flipped_bit", "update b set raw = set_bit(raw, 3, 1 - get_bit(raw, 3)) where id = 2999", [0, 0, 1]),
    ("one_missing_row", "delete from b where id = 3", [1, 0, 0]),
    ("one_more_row", "insert into b values (-5, 'new', 0, null, '')", [0, 1, 0]),
    ("null_is_not_empty", "update b set name = '' where id = 7", [0, 0, 1]),
    (
        "several",
        "delete from b where id in (1, 3000); insert into b values (9999, 'x'); update b set name = 'y', at = at + interval '1 us' where id in (20, 1021)",
        [2, 1, 2],
    ),
    ("swapped_values", "update b set n = (3001 - id) * 1.25", [0, 0, 3000]),
];

#[test]
fn what_differs_between_two_tables() {
    let site = Site::new(ROWS);
    assert_snapshot!("equal", diff(&site, ":a", ":b", "").whole());
    for (name, change, counts) in CHANGES {
        changed(&site, change);
        let ran = diff(&site, ":a", ":b", "--show 5").failed();
        if *name != "swapped_values" {
            assert_snapshot!(*name, ran.whole());
        }
        let told = json(&diff(&site, ":a", ":b", "--json").failed());
        let of = |what: &str| told["differences"][what].as_u64().unwrap();
        assert_eq!([of("missing"), of("extra"), of("different")], *counts, "{name}: {told}");
        assert_eq!((told["byte_for_byte"].as_bool(), told["key"][0].as_str()), (Some(true), Some("id")));
    }
    assert!(diff(&site, ":a", ":b", "").failed().out.contains("... and 2,980 more (--show N shows more)\n"));
}

#[test]
fn a_doubled_row_is_found_and_other_keys_too() {
    let site = Site::new(&format!(
        "{ROWS}; alter table b drop constraint b_pkey; create table c as select *, id % 7 as part, 'k' || id as code from a"
    ));
    site.sql("insert into b select * from b where id = 12");
    assert_snapshot!("one_doubled_row", diff(&site, ":a", ":b", "").failed().whole());
    site.sql("create table d as select * from c; update d set n = 0 where id = 100; delete from d where id = 200");
    for key in ["code", "part,code", "id,part", "id"] {
        let told = json(&diff(&site, ":c", ":d", &format!("--json --key {key}")).failed());
        let found = &told["differences"];
        assert_eq!(
            (found["missing"].as_u64(), found["extra"].as_u64(), found["different"].as_u64()),
            (Some(1), Some(0), Some(1)),
            "{key}: {told}"
        );
    }
    assert_snapshot!("a_composite_key", diff(&site, ":c", ":d", "--key part,code").failed().whole());
    assert_snapshot!("without_a_key", diff(&site, ":c", ":d", "").failed().whole());
    site.sql("truncate d; insert into d select * from c; update d set n = (3001 - id) * 1.25");
    assert_snapshot!("values_in_other_rows", diff(&site, ":c", ":d", "").failed().whole());
}

#[test]
fn columns_that_do_not_fit() {
    let site = Site::new(ROWS);
    site.sql("alter table b add more int; alter table a add less text");
    assert_snapshot!("other_columns", diff(&site, ":a", ":b", "").failed().whole());
    diff(&site, ":a", ":b", "--columns id,name,n").ok();
    site.sql("alter table b drop more; alter table a drop less; alter table b alter id type bigint, alter n type numeric(14,4), alter name type varchar(40)");
    let ran = diff(&site, ":a", ":b", "");
    assert_snapshot!("wider_types_are_equal", ran.whole());
    site.sql("alter table b alter raw type boolean using true");
    assert_snapshot!("types_without_anything_in_common", diff(&site, ":a", ":b", "").failed().whole());
    site.sql("create table c (other int)");
    assert_eq!(diff(&site, ":a", ":c", "").code, 1);
    assert_snapshot!("no_common_column", diff(&site, ":a", ":c", "").whole());
}

#[test]
fn tables_and_files_agree() {
    let site = Site::new(ROWS);
    for file in ["a.parquet", "a.csv", "a.jsonl", "a.arrow"] {
        site.copy(":a", file, "").ok();
    }
    let ends = [":a", "a.parquet", "a.csv", "a.jsonl", "a.arrow"];
    for a in ends {
        for b in ends {
            let ran = diff(&site, a, b, "--key id");
            assert_eq!(ran.code, 0, "{a} {b}: {ran:?}");
        }
    }
    changed(&site, "update b set n = 0.5 where id = 17; delete from b where id = 18; update b set name = '' where id = 27");
    for file in ["a.parquet", "a.csv", "a.jsonl"] {
        let ran = diff(&site, file, ":b", "").failed();
        for told in ["missing in B  id = ", "n: ", "name: NULL in A, \"\" in B", "1 row missing in B, 2 rows with other values"] {
            assert!((ran.out.clone() + &ran.err).contains(told), "{file}: {ran:?}");
        }
        let other = json(&diff(&site, ":b", file, "--json --key id").failed());
        assert_eq!(
            (other["differences"]["extra"].as_u64(), other["differences"]["different"].as_u64()),
            (Some(1), Some(2)),
            "{file}: {other}"
        );
    }
}

#[test]
fn two_files() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name\n1,Ann\n2,\n3,\"\"\n4,Bob\n");
    dir.write("b.csv", "name,id\n\"\",3\nAnn,1\n,2\nBob,4\n");
    assert_snapshot!("files_equal_in_another_order", dir.line("diff a.csv b.csv").whole());
    dir.write("b.csv", "name,id\n\"\",3\nAnn,1\n\"\",2\nRob,4\n");
    assert_snapshot!("files_without_a_key", dir.line("diff a.csv b.csv").whole());
    assert_snapshot!("files_with_a_key", dir.line("diff a.csv b.csv --key id").whole());
    assert_snapshot!("a_key_that_is_not_there", dir.line("diff a.csv b.csv --key idd").whole());
    assert_snapshot!("a_pipe", dir.line("diff a.csv -?format=csv --key id").whole());
    assert_snapshot!("a_setting_without_meaning", dir.line("diff a.csv b.csv --verify").whole());
    assert_snapshot!("a_repair_of_a_file", dir.line("diff a.csv b.csv --key id --repair").whole());
    assert_snapshot!("yes_alone", dir.line("diff a.csv b.csv --yes").whole());
    let told = json(&dir.line("diff a.csv b.csv --key id --json"));
    assert_eq!(
        told["differences"]["first"],
        serde_json::json!([
            {"what": "different", "key": {"id": "2"}, "columns": {"name": {"a": null, "b": ""}}},
            {"what": "different", "key": {"id": "4"}, "columns": {"name": {"a": "Bob", "b": "Rob"}}},
        ])
    );
}

#[test]
fn a_repair_makes_them_equal() {
    let site = Site::new(ROWS);
    site.copy(":a", "a.parquet", "").ok();
    for from in [":a", "a.parquet"] {
        changed(&site, "delete from b where id in (5, 2500); update b set name = 'bent', n = null where id between 1000 and 1009");
        let ran = diff(&site, from, ":b", "--repair").failed();
        assert!(
            ran.out.contains("repair: 2 missing and 10 other rows go from A to B\n") && ran.out.contains("only the rows of 12 keys of id"),
            "{ran:?}"
        );
        assert!(
            ran.err.contains(
                "error: nothing was written: 2 rows missing in B, 10 rows with other values\n hint: the same command with --repair --yes"
            ),
            "{ran:?}"
        );
        assert_eq!(site.sql("select count(*) from b where name = 'bent'"), "10");
        let ran = diff(&site, from, ":b", "--repair --yes").ok();
        assert!(ran.err.contains("written 12 ") && ran.err.contains("inserted 2  updated 10"), "{ran:?}");
        diff(&site, from, ":b", "").ok();
        site.assert_same("a", "b");
    }
}

#[test]
fn what_a_repair_leaves_is_told() {
    let site = Site::new(ROWS);
    changed(&site, "insert into b values (7777, 'only here'); delete from b where id = 9");
    let ran = diff(&site, ":a", ":b", "--repair --yes").failed();
    assert!(ran.err.contains("still differ: what A has is written, and 1 rows that only B has are left alone"), "{ran:?}");
    assert_eq!(site.sql("select count(*) from b where id in (9, 7777)"), "2");
    let ran = diff(&site, ":a", ":b", "--repair --yes").failed();
    assert!(ran.err.contains("there is nothing in A that B misses"), "{ran:?}");
    site.sql("alter table b drop constraint b_pkey; insert into b select * from b where id = 1");
    let ran = diff(&site, ":a", ":b", "--repair --yes").failed();
    assert!(ran.err.contains("several rows of a side have the same key"), "{ran:?}");
    site.sql("create table c as select * from a; create table d as select * from a where id > 1");
    let ran = diff(&site, ":c", ":d", "--repair").failed_config();
    assert!(ran.err.contains("there is no key that tells which rows are to be written"), "{ran:?}");
}

#[test]
fn only_the_parts_that_differ_are_read_again() {
    let site = Site::new(
        "create table a (id bigint primary key, name text); insert into a select g * 3, 'n' || g from generate_series(1, 200000) g; \
         create table b (like a including all); insert into b select * from a; update b set name = 'x' where id in (30, 300000); analyze",
    );
    let ran = diff(&site, ":a", ":b", "").failed();
    assert!(ran.out.contains("other values  id = 30\n") && ran.out.contains("other values  id = 300000\n"), "{ran:?}");
    // Keys far apart, and those at the ends of their type.
    site.sql("update a set id = id * 1000000007 where id % 2 = 0; insert into a values (9223372036854775807, 'max'), (-9223372036854775808, 'min')");
    changed(&site, "update b set name = 'x' where id in (9223372036854775807, -9223372036854775808, 9)");
    let told = json(&diff(&site, ":a", ":b", "--json").failed());
    assert_eq!(told["differences"]["different"], 3, "{told}");
    site.sql("create table s (id smallint primary key, v int); insert into s select g, g from generate_series(-32768, 32767) g; create table t (id bigint primary key, v int); \
        insert into t select * from s; insert into t values (99999, 1); update t set v = 0 where id = 32767");
    let told = json(&diff(&site, ":s", ":t", "--json").failed());
    assert_eq!((told["differences"]["different"].as_u64(), told["differences"]["extra"].as_u64()), (Some(1), Some(1)), "{told}");
}

#[test]
fn values_past_the_common_types_are_compared_too() {
    let site = Site::new(
        "create table a (id int primary key, at timestamp, d date, n numeric, i interval, r int4range, x double precision); \
         insert into a values (1, 'infinity', '-infinity', 'NaN', '1 mon', '[1,5)', 'NaN'), (2, '4713-01-01 BC', '0044-03-15 BC', '1.50', '30 days', 'empty', '-0'); \
         create table b (like a including all); insert into b select * from a",
    );
    diff(&site, ":a", ":b", "").ok();
    site.sql(
        "update b set at = '-infinity', n = 0, i = '30 days', x = '-Infinity' where id = 1; update b set n = 1.5, x = '0' where id = 2",
    );
    assert_snapshot!("odd_values", diff(&site, ":a", ":b", "").failed().whole());
}

#[test]
fn empty_tables() {
    let site = Site::new("create table a (id int primary key, v text); create table b (like a including all)");
    assert_snapshot!("both_empty", diff(&site, ":a", ":b", "").whole());
    site.sql("insert into a values (1, 'x'), (2, null)");
    assert_snapshot!("one_empty", diff(&site, ":a", ":b", "").whole());
    assert_eq!(diff(&site, ":b", ":a", "").code, 1);
}
