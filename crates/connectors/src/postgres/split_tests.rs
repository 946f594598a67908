//! Cut reads against a real server: every row exactly once, under one snapshot, whatever is cut and however. Cases are named after
//! their ids.

use super::source::PostgresSource;
use super::source_tests::{environment, failure, open, open_in};
use haul_model::{Encoding, Environment, ErrorKind, Form, Next, Payload, Position, ReadPlan, Reading, Source, Split, percent_encode};
use haul_testkit::pg::Scratch;
use haul_testkit::rows::assert_same_set;
use haul_testkit::services;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Plans a read of the server's own text, which says everything that a row holds.
fn plan(source: &mut PostgresSource, degree: usize) -> ReadPlan {
    let text = Encoding { format: "pgcopy-text", detail: String::new() };
    source.plan(&Reading { pass_through: Some(text), form: Form::Text, degree, ordered: true }).unwrap()
}

fn rows_of(source: &PostgresSource, split: &Split) -> Vec<String> {
    let mut reader = source.open(split, &Position::start()).unwrap_or_else(|e| panic!("{}: {e}", split.what));
    let mut out = Vec::new();
    while let Next::Batch(batch) = reader.next().unwrap_or_else(|e| panic!("{}: {e}", split.what)) {
        let Payload::Raw(raw) = batch.payload else { panic!("raw rows were expected") };
        // CopyData messages: a tag, a length that counts itself, a row with its line feed.
        let mut rest = &raw.bytes[..];
        while let [b'd', a, b, c, d, more @ ..] = rest {
            let (row, next) = more.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4);
            out.push(String::from_utf8(row.to_vec()).unwrap().trim_end_matches('\n').to_string());
            rest = next;
        }
    }
    out
}

/// Reads the splits as lanes come free; the rows of each.
fn read_splits(source: &PostgresSource, plan: &ReadPlan) -> Vec<Vec<String>> {
    let (next, out) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..plan.lanes.max(1) {
            scope.spawn(|| {
                while let Some(split) = plan.splits.get(next.fetch_add(1, Relaxed)) {
                    let rows = rows_of(source, split);
                    out.lock().unwrap().push(rows);
                }
            });
        }
    });
    out.into_inner().unwrap()
}

fn read(uri: &str, more: &[(&str, &str)], degree: usize) -> (Vec<Vec<String>>, ReadPlan) {
    // Many short connections: without TLS they are made in a tenth of the time.
    let settings: Vec<(&str, &str)> = more.iter().copied().chain([("sslmode", "disable")]).collect();
    let mut source = open(uri, &settings).unwrap_or_else(|e| panic!("{more:?}: {e}"));
    let plan = plan(&mut source, degree);
    let parts = read_splits(&source, &plan);
    source.finish().unwrap();
    (parts, plan)
}

/// The rows of a read in one piece.
fn whole(uri: &str, more: &[(&str, &str)]) -> Vec<String> {
    let rows = more.iter().filter(|(name, _)| matches!(*name, "where" | "columns")).copied();
    read(uri, &rows.chain([("method", "none")]).collect::<Vec<_>>(), 1).0.concat()
}

/// Asserts that a cut read gives these rows, and returns its plan and the number of rows in its largest part.
fn assert_rows(uri: &str, more: &[(&str, &str)], degree: usize, whole: &[String]) -> (ReadPlan, usize) {
    let (parts, plan) = read(uri, more, degree);
    let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
    assert_same_set(&format!("{uri} {more:?} {degree} ({})", plan.method), &parts.concat(), whole);
    (plan, largest)
}

/// Asserts that a cut read gives the rows of a read in one piece.
fn assert_whole(uri: &str, more: &[(&str, &str)], degree: usize) -> (ReadPlan, usize) {
    assert_rows(uri, more, degree, &whole(uri, more))
}

fn notes(plan: &ReadPlan) -> String {
    plan.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")
}

const BY_KEY: &[&str] = &["range", "ntile", "hash", "values"];

#[test]
fn pa_02_extremes_skew_and_tiny_ranges() {
    let db = Scratch::new();
    for (what, keys) in [
        ("extremes", "(-9223372036854775808), (-1), (0), (1), (9223372036854775807)"),
        ("one", "(7)"),
        ("same", "(7), (7), (7), (7), (7), (7), (7), (7)"),
        ("fractions", "(0.5), (1.5), (1.50), (-0.000000000000000000000000000001), (123456789012345678901234567890.5)"),
        ("nulls", "(null), (null), (null)"),
        ("some nulls", "(null), (-3), (null), (-2), (-3)"),
        ("empty", "(null)"),
    ] {
        let kind = if what == "fractions" { "numeric" } else { "bigint" };
        db.sql(&format!(
            "drop table if exists t; create table t (k {kind}, n int generated always as identity); insert into t (k) values {keys}"
        ));
        if what == "empty" {
            db.sql("delete from t");
        }
        for analysed in [false, true] {
            let rows = whole(&db.table("t"), &[]);
            for method in BY_KEY {
                let degrees: &[usize] = if what == "extremes" { &[1, 8, 64] } else { &[8] };
                for degree in degrees.iter().copied() {
                    let (plan, _) = assert_rows(&db.table("t"), &[("method", method), ("split_key", "k")], degree, &rows);
                    assert!(plan.lanes <= degree && plan.lanes <= plan.splits.len().max(1), "{what} {method}: {}", plan.method);
                }
            }
            if !analysed {
                db.sql("analyze t");
            }
        }
    }
}

#[test]
fn pa_02_a_skewed_key_keeps_all_lanes_busy() {
    let db = Scratch::new();
    db.sql(
        "create table t (k bigint, pad text) with (autovacuum_enabled = off);
         insert into t select g, repeat('p', 100) from generate_series(1, 10000) g; insert into t values (9223372036854775807, 'far')",
    );
    for state in ["never analysed", "analysed", "indexed"] {
        match state {
            "analysed" => db.sql("analyze t"),
            "indexed" => db.sql("create index on t (k)"),
            _ => String::new(),
        };
        for method in ["range", "ntile"] {
            let (plan, largest) = assert_whole(&db.table("t"), &[("method", method), ("split_key", "k")], 8);
            assert!(plan.lanes == 8 && largest < 2500, "{state}, {method}: the largest of {} has {largest} rows", plan.method);
        }
    }
    // Half of the rows have one key, which no bound can part; the others are still spread.
    db.sql("insert into t select 5000, 'same' from generate_series(1, 10000); analyze t");
    let (plan, largest) = assert_whole(&db.table("t"), &[("method", "range"), ("split_key", "k")], 8);
    assert!(largest < 13_000 && plan.splits.len() >= 5, "{}: {largest}", plan.method);
    let (plan, largest) =
        assert_whole(&db.table("t"), &[("method", "values"), ("split_key", "k"), ("where", "k between 4995 and 5004")], 0);
    assert!(largest == 10_001 && plan.splits.len() == 11, "{} {largest}", plan.method);
}

/// Key types with values that are hard for each of them, and whether ranges can be spaced over them.
const TYPES: &[(&str, &str, bool)] = &[
    ("int2", "-32768 | 32767 | 0 | null | 0", true),
    ("oid", "0 | 4294967295 | 17 | null", true),
    ("numeric", "'NaN' | 'Infinity' | '-Infinity' | 0.1 | 0.10 | -12345678901234567890.123456789 | 1e-40 | null", true),
    ("numeric(12,3)", "1.001 | 1.002 | -999999999.999 | 999999999.999 | null", true),
    ("float8", "'NaN' | 'Infinity' | '-Infinity' | -0.0 | 0.0 | 1e308 | -1e308 | 5e-324 | 0.1 | null", true),
    ("float4", "'NaN' | 3.4e38 | 1e-45 | 0.1 | null", true),
    ("date", "'infinity' | '-infinity' | '4713-01-01 BC' | '5874897-12-31' | '2024-02-29' | '2024-02-29' | null", true),
    (
        "timestamp",
        "'infinity' | '-infinity' | '4713-01-01 BC' | '294276-12-31 23:59:59.999999' | '2024-02-29 12:00:00.000001' | null",
        true,
    ),
    (
        "timestamptz",
        "'infinity' | '-infinity' | '4713-01-01 00:00+00 BC' | '294276-12-31 23:59:59.999999+00' | '2024-02-29 12:00-12' | null",
        true,
    ),
    (
        "uuid",
        "'00000000-0000-0000-0000-000000000000' | 'ffffffff-ffff-ffff-ffff-ffffffffffff' | '018f3b5e-7c1a-7000-8000-000000000001' | null",
        true,
    ),
    ("text", "'' | ' ' | 'a' | 'A' | 'ä' | 'Z' | 'z' | '_' | 'it''s' | E'tab\\tline\\nback\\\\slash' | 'null' | '😀' | null", false),
    ("text collate \"und-x-icu\"", "'' | 'a' | 'A' | 'ä' | 'Z' | 'z' | '_' | 'null' | null", false),
    ("text collate nocase", "'a' | 'A' | 'b' | 'B' | 'ä' | 'Ä' | null", false),
    ("varchar(3)", "'abc' | 'ABC' | 'ab ' | 'ab' | null", false),
    ("char(3)", "'a' | 'a ' | 'b' | null", false),
    ("mood", "'sad' | 'ok' | 'happy' | null", false),
    ("ext.citext", "'a' | 'A' | 'b' | 'B' | '_' | 'Z' | null", false),
    ("bool", "true | false | null", false),
    ("bytea", "'\\x00' | '\\xff27' | '' | null", false),
    ("int[]", "'{1,2}' | '{}' | '{NULL}' | null", false),
    ("interval", "'1 mon' | '30 days' | '-1 day' | null", false),
    ("inet", "'10.0.0.1' | '10.0.0.0/8' | '::1' | null", false),
    ("int4range", "'[1,5)' | 'empty' | null", false),
    ("pair", "row(1, 'x, \"y') | row(1, null) | null", false),
];

#[test]
fn pa_05_every_type_of_key_gives_every_row_once() {
    let db = Scratch::new();
    db.sql(
        "create schema ext; create extension citext schema ext; create type mood as enum ('sad', 'ok', 'happy'); create type pair as (a int, b text);
         create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    );
    for (i, (kind, values, ranges)) in TYPES.iter().enumerate() {
        let base = kind.split(" collate").next().unwrap();
        let rows = values.split(" | ").map(|value| format!("(({value})::{base})")).collect::<Vec<_>>().join(", ");
        db.sql(&format!(
            "create table t{i} (n int generated always as identity, k {kind});
             insert into t{i} (k) select v from (values {rows}) r(v) cross join generate_series(1, 3); create view v{i} as select * from t{i}"
        ));
        for relation in [format!("t{i}"), format!("v{i}")] {
            let rows = whole(&db.table(&relation), &[]);
            for method in BY_KEY {
                if *method == "range" && !ranges {
                    let error = cut_failure(&db.table(&relation), &[("method", "range"), ("split_key", "k")]);
                    assert!(error.hint_text().unwrap().contains("ntile"), "{kind}: {error:?}");
                    continue;
                }
                let (plan, _) = assert_rows(&db.table(&relation), &[("method", method), ("split_key", "k")], 3, &rows);
                assert!(plan.splits.len() > 1, "{kind} {method}: {}", plan.method);
            }
        }
    }
}

/// The error of a plan.
fn cut_failure(uri: &str, more: &[(&str, &str)]) -> haul_model::Error {
    let mut source = match open(uri, more) {
        Ok(source) => source,
        Err(error) => return error,
    };
    source.plan(&Reading { pass_through: None, form: Form::Text, degree: 4, ordered: true }).expect_err("the read is cut and should not be")
}

/// Tables, views and the like with the same rows.
fn relations(db: &Scratch) {
    db.sql(&format!(
        "create table t (id bigint primary key, k int, day date, pad text);
         insert into t select g, nullif(g % 40, 7), date '2020-01-01' + g % 300, repeat('p', 800) from generate_series(-6000, 5999) g;
         delete from t where id between -2000 and 2000 and id % 3 <> 0; vacuum t;
         create view v as select * from t; create materialized view mv as select * from t;
         create table p (like t) partition by range (id); create table p1 partition of p for values from (minvalue) to (0);
         create table p2 partition of p default; insert into p select * from t;
         create extension postgres_fdw; create server loop foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{}', dbname '{}');
         create user mapping for postgres server loop options (user 'postgres', password_required 'false');
         create foreign table ft (id bigint, k int, day date, pad text) server loop options (table_name 't');
         create access method stub type table handler heap_tableam_handler; create table am (like t) using stub; insert into am select * from t;
         create table amk (like t including indexes) using stub; insert into amk select * from t",
        db.server.port, db.database
    ));
}

#[test]
fn pa_04_whatever_is_named_can_be_cut() {
    let db = Scratch::new();
    relations(&db);
    let query = format!("{}?query={}", db.url(), percent_encode("select id, k, day, pad from t where id % 2 = 0 -- even"));
    let all = ["t", "v", "mv", "p", "ft", "am"].map(|relation| db.table(relation));
    for uri in all.iter().chain([&query]) {
        let rows = whole(uri, &[]);
        for (method, key) in [("range", "id"), ("RangeId", "day"), ("ntile", "k"), ("hash", "k,day"), ("random", "pad"), ("distinct", "k")]
        {
            let (plan, _) = assert_rows(uri, &[("method", method), ("split_key", key)], 3, &rows);
            assert!(plan.lanes == 3 && plan.splits.len() >= 3, "{uri} {method}: {}", plan.method);
        }
        let (plan, _) = assert_rows(uri, &[("split_key", "day")], 3, &rows);
        assert!(plan.method.contains("ranges of day") && plan.method.contains("(auto: "), "{}", plan.method);
    }
    // What has pages is cut by them.
    for (relation, method) in [("t", "ctid"), ("mv", "ctid"), ("p", "ctid"), ("t", "auto"), ("p", "auto")] {
        let (plan, _) = assert_whole(&db.table(relation), &[("method", method)], 2);
        assert!(plan.splits.len() > 1 && plan.splits.iter().all(|s| s.what.contains("\"public\".")), "{relation}: {:?}", plan.splits);
    }
    // What has not falls back with a note, or says so.
    for (uri, word) in [(&all[1], "view"), (&all[4], "foreign table"), (&all[5], "access method stub"), (&query, "query")] {
        let (plan, _) = assert_whole(uri, &[], 2);
        assert!(plan.splits.len() == 1 && notes(&plan).contains(word) && notes(&plan).contains("--split-key"), "{}", notes(&plan));
        assert!(plan.method.contains("(auto: ") && plan.method.contains(word), "{}", plan.method);
        let error = cut_failure(uri, &[("method", "ctid")]);
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(word), "{error}");
        assert!(error.hint_text().unwrap().contains("--split-key"), "{error:?}");
    }
    // How large a view is, the server's planner knows.
    db.sql("create view large as select g as id, repeat('x', 100) as pad from generate_series(1, 1000000) g; create view small as select 1 as id");
    for (relation, key, lanes) in [("large", "id", 2), ("large", "", 1), ("small", "id", 1)] {
        let mut source = open(&db.table(relation), &[("split_key", key)][..usize::from(!key.is_empty())]).unwrap();
        let plan = plan(&mut source, 0);
        assert_eq!((plan.lanes, notes(&plan).contains("--split-key")), (lanes, relation == "large" && key.is_empty()), "{}", plan.method);
    }
    // A primary key helps where pages do not.
    let (plan, _) = assert_whole(&db.table("amk"), &[], 2);
    assert!(plan.method.contains("ranges of id") && plan.method.contains("primary key"), "{}", plan.method);
    let (plan, _) = assert_whole(&db.table("t"), &[("method", "range")], 2);
    assert!(plan.method.contains("ranges of id") && !plan.method.contains("auto"), "{}", plan.method);
    // A column list that leaves the key out, a condition, and lanes that an index makes finer.
    let (parts, plan) = read(&db.table("t"), &[("method", "range"), ("columns", "day"), ("where", "k = 3 -- only")], 2);
    assert_eq!(parts.concat().len().to_string(), db.sql("select count(*) from t where k = 3"), "{}", plan.method);
    assert!(plan.splits.len() > 3, "{}", plan.method);
}

#[test]
fn pa_04_without_rights_on_a_partition_or_a_column() {
    let mut db = Scratch::new();
    let role = db.role("pw", "");
    relations(&db);
    db.sql(&format!(
        "grant select on p, p1 to {role}; grant select (id, k) on t to {role};
         create table pk (like t including indexes) partition by range (id); create table pk1 partition of pk for values from (minvalue) to (0);
         create table pk2 partition of pk default; insert into pk select * from t; grant select on pk, pk1 to {role}"
    ));
    let uri = |table: &str| format!("{}?table={table}", db.url_of(&role, "pw"));
    let (plan, _) = assert_whole(&uri("p"), &[], 2);
    assert!(plan.splits.len() == 1 && notes(&plan).contains("\"public\".\"p2\""), "{}", notes(&plan));
    assert!(cut_failure(&uri("p"), &[("method", "ctid")]).to_string().contains("may not read"));
    assert_whole(&uri("p"), &[("method", "range"), ("split_key", "id")], 3);
    let (plan, _) = assert_whole(&uri("pk"), &[], 2);
    assert!(plan.method.contains("ranges of id"), "through the parent, by its key: {}", plan.method);
    // Rights on some columns only: ctid is not among them.
    let (parts, plan) = read(&uri("t"), &[("columns", "k,id")], 2);
    assert_eq!(parts.concat().len().to_string(), db.sql("select count(*) from t"), "{}", plan.method);
    assert!(plan.method.contains("ranges of id"), "{}", plan.method);
    let error = cut_failure(&uri("t"), &[("columns", "k"), ("method", "ntile"), ("split_key", "day")]);
    assert_eq!((error.kind(), error.code_text()), (ErrorKind::Permission, Some("42501")));
}

#[test]
fn pa_03_a_table_written_to_meanwhile_equals_the_snapshot() {
    let db = Scratch::new();
    // Two tables whose balances cancel out, and ways to read both: a view, and partitions.
    db.sql(
        "create table a (id bigint primary key, v bigint not null, pad text); create table b (like a including all);
         insert into a select g, g, repeat('p', 500) from generate_series(1, 20000) g; insert into b select id, -v, pad from a;
         create view pairs as select 'a' as side, * from a union all select 'b', * from b;
         create table acc (side text, id bigint, v bigint, pad text) partition by list (side); create table acc_a partition of acc for values in ('a');
         create table acc_b partition of acc for values in ('b'); create index on acc (id); insert into acc select * from pairs",
    );
    let moves = "update a set v = v - 7 where id = {i}; update b set v = v + 7 where id = {i}; update a set id = -id where id = {j};
         delete from b where id = {j}; insert into b select {j}, 0, 'back' where not exists (select from b where id = {j});
         update acc set side = case side when 'a' then 'b' else 'a' end where id = {i}; update acc set id = id + 1000000 where id = {j};
         delete from acc where id = {j} + 1";
    for (relation, method, key) in [
        ("a", "ctid", ""),
        ("a", "range", "id"),
        ("a", "hash", "v"),
        ("pairs", "range", "id"),
        ("pairs", "ntile", "v"),
        ("acc", "auto", ""),
        ("acc", "values", "side"),
        ("acc", "range", "id"),
    ] {
        let more = [("method", method), ("split_key", key)];
        let mut source = open(&db.table(relation), &more[..if key.is_empty() { 1 } else { 2 }]).unwrap();
        let snapshot: Vec<String> = String::from_utf8(db.copy_out(&format!("select * from {relation}"), "format text"))
            .unwrap()
            .lines()
            .map(str::to_string)
            .collect();
        let stop = AtomicBool::new(false);
        let parts = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = db.session();
                for n in (0..).take_while(|_| !stop.load(Relaxed)) {
                    let (i, j) = ((n * 7919) % 20_000 + 1, (n * 104_729) % 20_000 + 1);
                    writer.sql(&format!("begin; {}; commit", moves.replace("{i}", &i.to_string()).replace("{j}", &j.to_string())));
                    if n % 50 == 0 {
                        writer.sql("vacuum a; vacuum b");
                    }
                }
            });
            // Planned and read while the writer runs; the lanes start one after the other.
            std::thread::sleep(Duration::from_millis(50));
            let plan = plan(&mut source, 3);
            let read = |split| {
                std::thread::sleep(Duration::from_millis(10));
                rows_of(&source, split)
            };
            let parts: Vec<Vec<String>> = plan.splits.iter().rev().map(read).collect();
            stop.store(true, Relaxed);
            assert!(parts.len() > 1, "{relation} {method}: {}", plan.method);
            parts
        });
        source.finish().unwrap();
        assert_same_set(&format!("{relation} {method}"), &parts.concat(), &snapshot);
    }
    assert_eq!(db.sql("select count(*) > 0 from acc where id > 1000000"), "t", "the writer has moved rows");
}

#[test]
fn pa_02_values_by_a_query_leave_nothing_out() {
    let db = Scratch::new();
    db.sql(
        "create table t (region text, y int, n int); insert into t select case g % 5 when 4 then null else 'r' || g % 5 end, 2000 + g % 3, g
           from generate_series(1, 1000) g; create table wanted (region text, y bigint); insert into wanted values ('r0', 2000), ('r1', 2001), (null, 2002), ('r0', 2000), ('nobody', 1)",
    );
    let query = |query: &str, more: &[(&str, &str)]| {
        let more: Vec<(&str, &str)> = [("split_query", query)].into_iter().chain(more.iter().copied()).collect();
        assert_whole(&db.table("t"), &more, 3).0
    };
    // Doubled rows are one split; what no row names is the last.
    let plan = query("select region, y from wanted; ", &[("method", "DataDriven"), ("split_key", "region,y")]);
    assert_eq!(plan.splits.len(), 5, "{:?}", plan.splits);
    let plan = query("select region from wanted -- all", &[]);
    assert!(plan.splits.len() == 5 && plan.method.contains("by value of region"), "{} {:?}", plan.method, plan.splits);
    let plan = query("values ('r0'), ('r3')", &[("split_key", "region")]);
    assert_eq!(plan.splits.len(), 3);
    assert!(plan.splits[2].what.starts_with("rest \"region\" beside ("), "{}", plan.splits[2].what);
    // A query that returns nothing leaves everything to one read.
    assert_eq!(query("select region from wanted where false", &[]).splits.len(), 1);
    let error = cut_failure(&db.table("t"), &[("split_query", "select 1, 2, 3"), ("split_key", "y")]);
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("3 columns for 1 keys"), "{error}");
    let error = cut_failure(&db.table("t"), &[("split_query", "select 'x'"), ("split_key", "y")]);
    assert!(error.kind() == ErrorKind::Data && error.to_string().contains("split_query"), "{error}");
    let error = cut_failure(&db.table("t"), &[("split_query", "select nope from wanted")]);
    assert!(error.to_string().contains("nope"), "{error}");
    let error = cut_failure(&db.table("t"), &[("split_query", "select g from generate_series(1, 10001) g"), ("split_key", "n")]);
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    db.sql("create table many as select g as k from generate_series(1, 10001) g");
    let error = cut_failure(&db.table("many"), &[("method", "values"), ("split_key", "k")]);
    assert!(
        error.kind() == ErrorKind::Limit && error.to_string().contains("10000") && error.hint_text().unwrap().contains("ntile"),
        "{error:?}"
    );
}

#[test]
fn pa_04_splits_of_an_earlier_run_hold_what_came_since() {
    let db = Scratch::new();
    for more in [
        &[("method", "ctid")][..],
        &[("method", "range"), ("split_key", "id")],
        &[("method", "ntile"), ("split_key", "k")],
        &[("method", "hash"), ("split_key", "k")],
        &[("method", "values"), ("split_key", "k")],
        &[("method", "values"), ("split_key", "k,id"), ("where", "id < 20")],
        &[("split_key", "k"), ("split_query", "values (1), (2)")],
    ] {
        db.sql(
            "drop table if exists t; create table t (id int, k int, pad text);
             insert into t select g, g % 5, repeat('p', 800) from generate_series(1, 6000) g",
        );
        let earlier = plan(&mut open(&db.table("t"), more).unwrap(), 3);
        assert!(earlier.splits.len() > 1, "{}", earlier.method);
        db.sql(
            "insert into t select g, g, repeat('n', 800) from generate_series(-3000, 0) g; insert into t values (7, null, ''), (null, null, null), (9, 77, ''); update t set k = 99 where id = 5",
        );
        let rows = whole(&db.table("t"), more);
        let mut source = open(&db.table("t"), more).unwrap();
        plan(&mut source, 1);
        let parts: Vec<Vec<String>> = earlier.splits.iter().map(|split| rows_of(&source, split)).collect();
        assert_same_set(&format!("{more:?}"), &parts.concat(), &rows);
    }
}

#[test]
fn what_cannot_be_cut_is_said_clearly() {
    let db = Scratch::new();
    db.sql("create table t (\"Id\" int, other text, doc json); insert into t values (1, 'x', '{}'); create table k2 (a int, b int, primary key (a, b))");
    let uri = db.table("t");
    for (more, kind, words) in [
        (vec![("method", "physloc")], ErrorKind::Config, "SQL Server"),
        (vec![("method", "ROWID")], ErrorKind::Config, "Oracle"),
        (vec![("method", "sideways")], ErrorKind::Config, "datadriven"),
        (vec![("method", "range"), ("split_key", "id")], ErrorKind::NotFound, "split_key"),
        (vec![("split_key", "Idd")], ErrorKind::NotFound, "Idd"),
        (vec![("method", "none"), ("split_key", "Id")], ErrorKind::Config, "no use for --split-key"),
        (vec![("method", "ctid"), ("split_key", "Id")], ErrorKind::Config, "no use for --split-key"),
        (vec![("method", "range"), ("split_key", "Id,other")], ErrorKind::Config, "one column, not 2"),
        (vec![("method", "hash"), ("split_key", "Id,Id")], ErrorKind::Config, "twice"),
        (vec![("method", "ntile"), ("split_query", "select 1")], ErrorKind::Config, "no use for --split-query"),
        (vec![("method", "hash")], ErrorKind::Config, "needs a column"),
        (vec![("method", "range"), ("split_key", "other")], ErrorKind::Unsupported, "numbers, dates"),
        (vec![("method", "ntile"), ("split_key", "doc")], ErrorKind::Unsupported, "json has no order"),
        (vec![("method", "values"), ("split_key", "doc")], ErrorKind::Unsupported, "json has no order"),
        (vec![("method", "hash"), ("split_key", "Id"), ("order_by", "other")], ErrorKind::Unsupported, "order"),
        (vec![("method", "range"), ("split_key", "Id"), ("limit", "3")], ErrorKind::Unsupported, "limited"),
    ] {
        let error = cut_failure(&uri, &more);
        assert!(error.kind() == kind && error.to_string().contains(words), "{more:?}: {error:?}");
    }
    assert!(failure(&uri, &[("split_key", "id")]).hint_text().unwrap().contains("\"Id\""), "names are exact, near ones are told");
    assert!(cut_failure(&db.table("k2"), &[("method", "range")]).hint_text().unwrap().contains("--split-key"));
    // What is only not best falls back when auto decides.
    for more in
        [vec![("split_key", "doc")], vec![("split_key", "Id"), ("order_by", "other")], vec![("method", "none"), ("order_by", "other")]]
    {
        assert_whole(&uri, &more, 4);
    }
    let (_, plan) = read(&uri, &[("split_key", "Id"), ("order_by", "other")], 4);
    assert!(plan.splits.len() == 1 && notes(&plan).contains("order"), "{}", notes(&plan));
}

#[test]
fn free_connections_are_counted_before_lanes_are_planned() {
    let mut db = Scratch::new();
    let role = db.role("pw", "connection limit 2");
    db.sql(&format!("create table t (id int primary key); insert into t select generate_series(1, 5000); grant select on t to {role}"));
    let limited = format!("{}?table=t", db.url_of(&role, "pw"));
    let more = [("method", "hash"), ("split_key", "id")];
    // Sessions of this run only: other tests share the server.
    let env = Environment { run_id: db.database.clone(), ..environment() };
    let open = |uri: &str, more: &[(&str, &str)]| open_in(uri, more, &env).unwrap();
    let mut source = open(&limited, &more);
    let plan = self::plan(&mut source, 8);
    assert_eq!((plan.lanes, read_splits(&source, &plan).concat().len()), (2, 5000));
    drop(source);
    assert!(
        notes(&plan).contains("8 connections were wanted") && notes(&plan).contains(&role) && notes(&plan).contains("(2)"),
        "{}",
        notes(&plan)
    );
    // The job's other side, on the same server, takes its half of what is left.
    db.sql(&format!("alter role {role} connection limit 8"));
    let mut source = open(&limited, &more);
    let mut url = format!("{}?application_name={}", db.url_of(&role, "pw"), percent_encode(&format!("haul/{}/plan", db.database)));
    url.push_str("&query=select%201%20as%20one");
    let other = open(&url, &[]);
    assert_eq!(self::plan(&mut source, 64).lanes, 1 + (8 - 2) / 2);
    drop((other, source));
    // A database's limit holds too; the server's own is far away.
    db.sql(&format!("alter role {role} connection limit -1; alter database {} connection limit 3", db.database));
    let plan = self::plan(&mut open(&limited, &more), 16);
    assert!(plan.lanes <= 3 && notes(&plan).contains(&format!("database {}", db.database)), "{}: {}", plan.lanes, notes(&plan));
    let plan = self::plan(&mut open(&db.table("t"), &more), 300);
    assert!(plan.lanes <= 200 && notes(&plan).contains("max_connections"), "{}: {}", plan.lanes, notes(&plan));
}

#[test]
fn lanes_are_named_after_their_splits() {
    let db = Scratch::new();
    db.sql("create table t (id int primary key); insert into t select generate_series(1, 100)");
    let mut source = open(&db.table("t"), &[("method", "range")]).unwrap();
    let plan = plan(&mut source, 2);
    let names = || {
        db.sql(&format!(
            "select string_agg(application_name, ',' order by application_name) from pg_stat_activity where datname = '{}' and application_name like 'haul/%'",
            db.database
        ))
    };
    let open = |n: usize| source.open(&plan.splits[n], &Position::start()).unwrap();
    let mut first = open(0);
    let second = open(1);
    assert_eq!(names(), "haul/test/split 0,haul/test/split 1");
    while let Next::Batch(_) = first.next().unwrap() {}
    let third = open(2);
    assert_eq!(names(), "haul/test/split 1,haul/test/split 2");
    drop((second, third));
    // A name of the user's stays.
    let mut source = super::source_tests::open(&db.table("t"), &[("application_name", "mine")]).unwrap();
    let plan = super::source_tests::plan(&mut source, 1);
    let reader = source.open(&plan.splits[0], &Position::start()).unwrap();
    assert_eq!(
        db.sql(&format!("select count(*) from pg_stat_activity where datname = '{}' and application_name = 'mine'", db.database)),
        "1"
    );
    drop(reader);
}

#[test]
fn stopping_ends_the_sort_for_the_bounds() {
    let db = Scratch::new();
    db.sql("create view slow as select g + (pg_sleep(0.05) is null)::int as k from generate_series(1, 2000) g");
    let env = environment();
    let mut source = open_in(&db.table("slow"), &[("method", "ntile"), ("split_key", "k")], &env).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            env.stop.store(true, Relaxed);
        });
        let stopped = source.plan(&Reading { pass_through: None, form: Form::Text, degree: 2, ordered: true }).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    });
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(source);
    let running =
        format!("select count(*) from pg_stat_activity where datname = '{}' and state = 'active' and pid <> pg_backend_pid()", db.database);
    let ended = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        db.sql(&running) == "0"
    });
    assert!(ended, "the server still sorts");
}

#[test]
fn cn_04_a_pooler_is_recognised_and_its_slots_are_counted() {
    let db = Scratch::new();
    db.sql("create table t (id int primary key); insert into t select generate_series(1, 5000)");
    let (session, transaction) = services::pgbouncer();
    let uri = |port: u16| format!("postgres://postgres@127.0.0.1:{port}/{}?table=t&sslmode=disable", db.database);
    let said = |port: u16| open(&uri(port), &[]).unwrap().notes(Form::Text).into_iter().map(|note| note.text).collect::<String>();
    assert!(said(transaction).contains("in transaction mode") && said(transaction).contains("own address"), "{}", said(transaction));
    assert!(said(session).contains("pooler") && !said(session).contains("in transaction mode"), "{}", said(session));
    // Its pools have 20 server connections: more lanes would wait for ever.
    let (parts, plan) = read(&uri(transaction), &[("method", "hash"), ("split_key", "id")], 24);
    assert_eq!(parts.concat().len(), 5000);
    assert!((2..=20).contains(&plan.lanes) && notes(&plan).contains("24 connections were wanted"), "{}: {}", plan.lanes, notes(&plan));
}
