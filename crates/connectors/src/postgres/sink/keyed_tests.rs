//! Modes with a key against a real server, and against what plain SQL makes of the same rows.

use super::tests::{Kept, batch, ints, load, no_staging, open, plan, run, texts};
use crate::postgres::testdb::{TestDb, url};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use haul_model::{Endpoint, ErrorKind, Keyed, Settings, Sink, Writer};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const MODES: [&str; 3] = ["upsert", "insert-ignore", "delete-insert"];

fn keyed(inserted: u64, updated: u64, ignored: u64, superseded: u64, deleted: u64) -> Option<Keyed> {
    Some(Keyed { inserted, updated, ignored, superseded, deleted })
}

fn pairs(rows: &[(i64, &str)]) -> RecordBatch {
    batch(vec![("k", ints(rows.iter().map(|r| r.0))), ("v", texts(rows.iter().map(|r| r.1)))])
}

#[test]
fn in_03_the_last_row_of_a_key_wins() {
    let mut db = TestDb::new();
    let rows = pairs(&[(1, "a"), (2, "b"), (1, "c"), (9, "z")]);
    for (mode, expected, table) in [
        ("upsert", keyed(2, 1, 0, 1, 0), "1=c 2=b 7=old 9=z"),
        ("insert-ignore", keyed(2, 0, 1, 1, 0), "1=c 2=b 7=old 9=old"),
        ("delete-insert", keyed(3, 0, 0, 1, 1), "1=c 2=b 7=old 9=z"),
    ] {
        db.run("DROP TABLE IF EXISTS t; CREATE TABLE t (k bigint PRIMARY KEY, v text); INSERT INTO t VALUES (7, 'old'), (9, 'old')");
        let finished = load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![vec![rows.clone()]]).unwrap();
        assert_eq!((finished.rows, finished.keyed), (4, expected), "{mode}");
        assert_eq!(db.value("SELECT string_agg(k || '=' || v, ' ' ORDER BY k) FROM t"), table, "{mode}");
        no_staging(&mut db);
    }
}

#[test]
fn in_03_order_among_lanes_is_that_of_the_splits() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (k bigint PRIMARY KEY, v text)");
    let mut sink = open(&db, &[("table", "t"), ("mode", "upsert")]);
    let mut made = plan(&mut sink, &pairs(&[(1, "")])).unwrap();
    assert!(made.whole_splits);
    sink.writers(2, &mut made);
    assert!(made.notes.iter().any(|n| n.text.contains("later split")), "{made:?}");
    sink.begin().unwrap();
    let mut writers: Vec<_> = (0..2).map(|lane| sink.open(lane).unwrap()).collect();
    let put = |writer: &mut Box<dyn Writer>, split: u32, rows: RecordBatch| {
        let mut encoder = sink.encoder().unwrap();
        encoder.push(&haul_model::Rows::new(rows, 0), &mut Kept::default()).unwrap();
        let mut block = encoder.take().unwrap().unwrap();
        writer.split(split).unwrap();
        let slot = writer.reserve(&mut block).unwrap();
        writer.write(slot, &mut block).unwrap();
    };
    // Lane 0 has the splits 0 and 3, lane 1 has 1 and 2: 3 is the last, and in it the last row.
    put(&mut writers[0], 0, pairs(&[(1, "0a"), (2, "0b"), (3, "0c"), (4, "0d")]));
    put(&mut writers[1], 1, pairs(&[(2, "1b"), (3, "1c")]));
    put(&mut writers[1], 2, pairs(&[(3, "2c"), (4, "2d")]));
    put(&mut writers[0], 3, pairs(&[(4, "3d"), (4, "3e")]));
    writers.iter_mut().for_each(|w| assert!(w.close().unwrap().is_empty()));
    drop(writers);
    let finished = sink.finish().unwrap();
    assert_eq!((finished.rows, finished.keyed), (10, keyed(4, 0, 0, 6, 0)));
    assert_eq!(db.value("SELECT string_agg(v, ' ' ORDER BY k) FROM t"), "0a 1b 2c 3e");
    no_staging(&mut db);
}

#[test]
fn in_03_duplicates_that_show_late_are_resolved_too() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE start AS SELECT g::bigint k, 'old' v FROM generate_series(0, 59999) g");
    // Past the rows that are looked at first; and narrow rows behind wide ones, which would fit into earlier pages.
    let key = |i: i64| if i >= 125_000 { i - 125_000 + 58_000 } else { i };
    let wide = |i: i64| format!("{i}{}", "x".repeat(if i % 7 == 0 { 1500 } else { 0 }));
    let last: Vec<(i64, String)> = (0..130_000).map(|i| (key(i), wide(i))).collect();
    let columns = |part: &[(i64, String)]| pairs(&part.iter().map(|(k, v)| (*k, v.as_str())).collect::<Vec<_>>());
    let rows: Vec<RecordBatch> = last.chunks(20_000).map(columns).collect();
    for (mode, expected, old) in [
        ("upsert", keyed(65_000, 60_000, 0, 5_000, 0), 0),
        ("insert-ignore", keyed(65_000, 0, 60_000, 5_000, 0), 60_000),
        ("delete-insert", keyed(125_000, 0, 0, 5_000, 60_000), 0),
    ] {
        db.run("DROP TABLE IF EXISTS t; CREATE TABLE t (k bigint PRIMARY KEY, v text); INSERT INTO t SELECT * FROM start");
        let finished = load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![rows.clone()]).unwrap();
        assert_eq!((finished.rows, finished.keyed), (130_000, expected), "{mode}");
        let right = "v = 'old' OR rtrim(v, 'x')::bigint = CASE WHEN k BETWEEN 58000 AND 62999 THEN k + 67000 ELSE k END";
        let facts = format!("SELECT count(*) || '/' || count(*) FILTER (WHERE {right}) || '/' || count(*) FILTER (WHERE v = 'old') FROM t");
        assert_eq!(db.value(&facts), format!("125000/125000/{old}"), "{mode}");
    }
}

/// A row: two key columns, a value, all of them maybe NULL.
type Row = (Option<i64>, Option<i64>, Option<i64>);

fn rows_of(rows: &[Row]) -> RecordBatch {
    let column = |f: fn(&Row) -> Option<i64>| -> ArrayRef { Arc::new(Int64Array::from_iter(rows.iter().map(f))) };
    batch(vec![("a", column(|r| r.0)), ("b", column(|r| r.1)), ("v", column(|r| r.2))])
}

fn values_of(rows: &[Row]) -> String {
    let word = |n: Option<i64>| n.map_or("NULL".to_string(), |n| n.to_string());
    let row = |(i, r): (usize, &Row)| format!("({i}, {}, {}, {})", word(r.0), word(r.1), word(r.2));
    rows.iter().enumerate().map(row).collect::<Vec<_>>().join(", ")
}

/// What plain SQL makes of it, written for clearness: table `want` from `t` and `load`; the counts.
fn oracle(db: &mut TestDb, mode: &str) -> Option<Keyed> {
    db.run(
        "CREATE TEMP TABLE final AS SELECT DISTINCT ON (a, b) a, b, v FROM load ORDER BY a, b, i DESC; \
         CREATE TEMP TABLE met AS SELECT f.* FROM final f WHERE EXISTS (SELECT FROM t WHERE t.a = f.a AND t.b = f.b); \
         CREATE TEMP TABLE want AS SELECT a, b, v, w FROM t",
    );
    let n = |db: &mut TestDb, sql: &str| -> u64 { db.value(sql).parse().unwrap() };
    let superseded = n(db, "SELECT (SELECT count(*) FROM load) - (SELECT count(*) FROM final)");
    let (all, met) = (n(db, "SELECT count(*) FROM final"), n(db, "SELECT count(*) FROM met"));
    let fresh = "INSERT INTO want SELECT a, b, v, 77 FROM final WHERE (a, b) NOT IN (SELECT a, b FROM met)";
    match mode {
        "upsert" => {
            db.run(&format!("UPDATE want SET v = met.v FROM met WHERE want.a = met.a AND want.b = met.b; {fresh}"));
            keyed(all - met, met, 0, superseded, 0)
        }
        "insert-ignore" => {
            db.run(fresh);
            keyed(all - met, 0, met, superseded, 0)
        }
        _ => {
            db.run("DELETE FROM want WHERE (a, b) IN (SELECT a, b FROM met); INSERT INTO want SELECT a, b, v, 77 FROM final");
            keyed(all, 0, 0, superseded, met)
        }
    }
}

/// One random case: the target's rows, the load's in lanes, a mode.
fn check_case(db: &mut TestDb, mode: &str, old: &[Row], lanes: &[Vec<Row>]) {
    db.run(
        "DROP TABLE IF EXISTS t, load, final, met, want, before; CREATE TABLE t (w int DEFAULT 77, a bigint, b bigint, v bigint, UNIQUE (b, a)); \
         CREATE TABLE load (i int, a bigint, b bigint, v bigint)",
    );
    let with_key: Vec<Row> = old.iter().filter(|r| r.0.is_some() && r.1.is_some()).copied().collect();
    if !with_key.is_empty() {
        db.run(&format!("INSERT INTO t (w, a, b, v) VALUES {} ON CONFLICT DO NOTHING", values_of(&with_key)));
    }
    // A NULL of the target's own is in nobody's way.
    db.run("INSERT INTO t VALUES (1, NULL, 2, 3); CREATE TABLE before AS SELECT a, b, v, w FROM t");
    let all: Vec<Row> = lanes.concat();
    db.run(&format!("INSERT INTO load VALUES {}", values_of(&all)));
    let expected = oracle(db, mode);
    let mut sink = open(db, &[("table", "t"), ("mode", mode), ("key", "a,b")]);
    let loaded = load(&mut sink, lanes.iter().map(|rows| vec![rows_of(rows)]).collect());
    let difference = "SELECT count(*) FROM ((TABLE want EXCEPT ALL SELECT a, b, v, w FROM t) UNION ALL (SELECT a, b, v, w FROM t EXCEPT ALL TABLE want)) x";
    if all.iter().any(|r| r.0.is_none() || r.1.is_none()) {
        let error = loaded.unwrap_err();
        assert_eq!((error.kind(), error.code_text()), (ErrorKind::Constraint, Some("23502")), "{error}");
        assert!(error.hint_text().unwrap().contains("part of the key"), "{error:?}");
        db.run("TRUNCATE want; INSERT INTO want TABLE before");
    } else {
        let finished = loaded.unwrap();
        assert_eq!((finished.rows, finished.keyed), (all.len() as u64, expected), "{mode}");
    }
    assert_eq!(db.value(difference), "0", "{mode}");
    no_staging(db);
}

fn row(null_keys: bool) -> impl Strategy<Value = Row> {
    let key = move || prop_oneof![30 => (0i64..6).prop_map(Some), 1 => Just(if null_keys { None } else { Some(3) })];
    (key(), key(), prop_oneof![4 => any::<i8>().prop_map(|v| Some(v.into())), 1 => Just(None)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("HAUL_FULL").is_some() { 300 } else { 40 }, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keyed_modes_agree_with_plain_sql(
        mode in prop::sample::select(MODES.to_vec()),
        old in prop::collection::vec(row(false), 0..20),
        lanes in prop_oneof![
            4 => prop::collection::vec(prop::collection::vec(row(false), 1..25), 1..4),
            1 => prop::collection::vec(prop::collection::vec(row(true), 1..25), 1..4),
        ],
    ) {
        static DB: Mutex<Option<TestDb>> = Mutex::new(None);
        let mut db = DB.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        check_case(db.get_or_insert_with(TestDb::new), mode, &old, &lanes);
    }
}

fn ids(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

#[test]
fn sc_01_keyed_modes_keep_identity_generated_and_default_columns() {
    let mut db = TestDb::new();
    db.run(
        "CREATE DOMAIN small AS int CHECK (VALUE < 100); CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, other int GENERATED ALWAYS AS IDENTITY, \
         a small NOT NULL, b int GENERATED ALWAYS AS (a * 2) STORED, d text NOT NULL DEFAULT 'd', CONSTRAINT even CHECK (a % 2 = 0))",
    );
    let load_of = |id: &[i32], other: &[i32], a: &[i32]| {
        batch(vec![("id", ids(id)), ("other", ids(other)), ("a", ids(a)), ("b", ids(&vec![0; id.len()]))])
    };
    db.run("INSERT INTO t (id, other, a, d) OVERRIDING SYSTEM VALUE VALUES (10, 1, 2, 'own')");
    let rows = load_of(&[10, 20], &[8, 9], &[4, 6]);
    let mut sink = open(&db, &[("table", "t"), ("mode", "upsert")]);
    let made = plan(&mut sink, &rows).unwrap();
    assert!(made.notes.iter().any(|n| n.column.as_deref() == Some("other") && n.text.contains("keep theirs")), "{made:?}");
    assert_eq!(load(&mut sink, vec![vec![rows.clone()]]).unwrap().keyed, keyed(1, 1, 0, 0, 0));
    assert_eq!(db.list("SELECT concat_ws(',', id, other, a, b, d) FROM t ORDER BY id"), ["10,1,4,8,own", "20,9,6,12,d"]);
    assert_eq!(load(&mut open(&db, &[("table", "t"), ("mode", "delete-insert")]), vec![vec![rows]]).unwrap().keyed, keyed(2, 0, 0, 0, 2));
    assert_eq!(db.list("SELECT concat_ws(',', id, other, a, b, d) FROM t ORDER BY id"), ["10,8,4,8,d", "20,9,6,12,d"]);
    // The domain refuses while rows arrive, the table's own CHECK when they are merged: both leave everything as it was.
    for (wrong, name) in [(102, "small_check"), (7, "even")] {
        let error =
            load(&mut open(&db, &[("table", "t"), ("mode", "upsert")]), vec![vec![load_of(&[10, 30], &[1, 1], &[2, wrong])]]).unwrap_err();
        assert!(error.kind() == ErrorKind::Constraint && error.to_string().contains(name), "{error}");
        assert!(!error.to_string().contains("haul_"), "{error}");
        assert_eq!(db.value("SELECT sum(a) || '/' || count(*) FROM t"), "10/2");
        no_staging(&mut db);
    }
    // Nothing but a key.
    db.run("CREATE TABLE bare (k bigint PRIMARY KEY); INSERT INTO bare VALUES (1)");
    let finished = load(&mut open(&db, &[("table", "bare"), ("mode", "upsert")]), vec![vec![batch(vec![("k", ints([1, 2, 2]))])]]).unwrap();
    assert_eq!(finished.keyed, keyed(1, 1, 0, 1, 0));
}

#[test]
fn partitioned_targets_take_keyed_modes() {
    let mut db = TestDb::new();
    db.run("CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end'");
    // With a trigger, or where the server does not count, upsert is no MERGE.
    let trigger = "CREATE TRIGGER g BEFORE INSERT ON t1 FOR EACH ROW EXECUTE FUNCTION pass()";
    for (mode, expected, more) in [
        ("upsert", keyed(2, 1, 0, 1, 0), ""),
        ("upsert", keyed(2, 1, 0, 1, 0), trigger),
        ("insert-ignore", keyed(2, 0, 1, 1, 0), trigger),
        ("insert-ignore", keyed(2, 0, 1, 1, 0), ""),
        ("delete-insert", keyed(3, 0, 0, 1, 1), trigger),
    ] {
        db.run(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (gone int, k bigint PRIMARY KEY, v text) PARTITION BY RANGE (k); ALTER TABLE t DROP gone; \
             CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10); CREATE TABLE t2 (v text, k bigint NOT NULL); \
             ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (10) TO (20); INSERT INTO t VALUES (12, 'old')",
        );
        db.run(more);
        let rows = pairs(&[(1, "a"), (12, "b"), (13, "c"), (1, "d")]);
        assert_eq!(load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![vec![rows]]).unwrap().keyed, expected, "{mode}");
        let there = if mode == "insert-ignore" { "old" } else { "b" };
        assert_eq!(db.value("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t"), format!("1d 12{there} 13c"));
    }
}

#[test]
fn keys_that_cannot_serve_are_refused_in_the_plan() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE none (k bigint, v text, u bigint UNIQUE); CREATE TABLE late (k bigint PRIMARY KEY DEFERRABLE, v text); \
         CREATE TABLE odd (k bigint, v text); CREATE UNIQUE INDEX odd_part ON odd (k) WHERE k > 0; CREATE UNIQUE INDEX odd_low ON odd (lower(v)); \
         CREATE TABLE two (k bigint, v text, PRIMARY KEY (k) INCLUDE (v)); CREATE TABLE doc (k bigint, v json)",
    );
    let refused = |db: &TestDb, table: &str, mode: &str, key: &str| {
        let mut given = vec![("table", table), ("mode", mode)];
        given.extend((!key.is_empty()).then_some(("key", key)));
        let error = plan(&mut open(db, &given), &pairs(&[(1, "a")])).unwrap_err();
        format!("{:?}: {error}; {}", error.kind(), error.hint_text().unwrap_or_default())
    };
    let without_key = refused(&db, "none", "upsert", "");
    assert!(
        without_key.starts_with("Config:") && without_key.contains("no primary key") && without_key.contains("--key COLUMNS"),
        "{without_key}"
    );
    let no_index = refused(&db, "none", "upsert", "k");
    assert!(
        no_index.contains("no unique index on just (k); it has (u)") && no_index.contains("CREATE UNIQUE INDEX ON public.none (k)"),
        "{no_index}"
    );
    assert!(no_index.contains("--mode delete-insert"), "{no_index}");
    let deferrable = refused(&db, "late", "insert-ignore", "");
    assert!(deferrable.contains("late_pkey") && deferrable.contains("DEFERRABLE"), "{deferrable}");
    let partial = refused(&db, "odd", "upsert", "k");
    assert!(partial.contains("odd_part") && partial.contains("partial"), "{partial}");
    assert!(refused(&db, "odd", "upsert", "v").contains("no unique index on just (v)"));
    assert!(refused(&db, "two", "upsert", "kk").contains("did you mean \"k\"?"));
    assert!(refused(&db, "two", "upsert", "k,k").contains("twice"));
    assert!(refused(&db, "none", "upsert", "u").contains("does not fill the key column \"u\""));
    assert!(refused(&db, "doc", "delete-insert", "v").contains("compared"));
    let useless = refused(&db, "two", "append", "k");
    assert!(useless.starts_with("Config:") && useless.contains("no use for it"), "{useless}");
    // The order of the key's columns and those of INCLUDE do not matter; delete-insert needs no index.
    assert_eq!(load(&mut open(&db, &[("table", "two"), ("mode", "upsert")]), vec![vec![pairs(&[(1, "a")])]]).unwrap().rows, 1);
    for table in ["none", "late", "odd"] {
        db.run(&format!("INSERT INTO {table} (k, v) VALUES (1, 'x'), (5, 'y')"));
        let finished = load(
            &mut open(&db, &[("table", table), ("mode", "delete-insert"), ("key", "k")]),
            vec![vec![pairs(&[(1, "a"), (1, "b"), (2, "c")])]],
        )
        .unwrap();
        assert_eq!(finished.keyed, keyed(2, 0, 0, 1, 1), "{table}");
        assert_eq!(db.value(&format!("SELECT string_agg(k || v, ' ' ORDER BY k) FROM {table}")), "1b 2c 5y");
    }
}

#[test]
fn a_trigger_that_skips_rows_is_told() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE t (k bigint PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'old'); \
         CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'begin if new.v = ''skip'' then return null; end if; return new; end'; \
         CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()",
    );
    for mode in MODES {
        let error = load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![vec![pairs(&[(1, "a"), (2, "skip")])]]).unwrap_err();
        assert!(error.kind() == ErrorKind::Server && error.hint_text().unwrap().contains("trigger"), "{mode}: {error}");
        assert_eq!(db.value("SELECT string_agg(k || v, ' ') FROM t"), "1old");
        no_staging(&mut db);
        load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![vec![pairs(&[(1, "old")])]]).unwrap();
    }
}

#[test]
fn op_06_a_row_that_another_session_inserts_meanwhile_is_updated() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (k bigint PRIMARY KEY, v text)");
    db.run("BEGIN; INSERT INTO t VALUES (1, 'theirs')");
    let mut sink = open(&db, &[("table", "t"), ("mode", "upsert")]);
    let loading = std::thread::spawn(move || load(&mut sink, vec![vec![pairs(&[(1, "ours"), (2, "ours")])]]));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while db.value(waiting) == "0" && !loading.is_finished() {
        db.run("SELECT pg_stat_clear_snapshot(), pg_sleep(0.02)");
    }
    db.run("COMMIT");
    assert_eq!(loading.join().unwrap().unwrap().keyed, keyed(1, 1, 0, 0, 0));
    assert_eq!(db.value("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t"), "1ours 2ours");
}

#[test]
fn in_05_a_failed_merge_leaves_the_old_rows() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE other (id bigint PRIMARY KEY); INSERT INTO other VALUES (1); \
         CREATE TABLE t (k bigint PRIMARY KEY, r bigint REFERENCES other DEFERRABLE INITIALLY DEFERRED); INSERT INTO t VALUES (5, 1)",
    );
    let rows = |k: i64, r: i64| batch(vec![("k", ints([k])), ("r", ints([r]))]);
    for mode in MODES {
        for lanes in [vec![vec![rows(5, 1), rows(6, 7)]], vec![vec![rows(5, 1)], vec![rows(6, 7)]]] {
            let error = load(&mut open(&db, &[("table", "t"), ("mode", mode)]), lanes).unwrap_err();
            assert!(error.kind() == ErrorKind::Constraint && error.to_string().contains("t_r_fkey"), "{error}");
            assert_eq!(db.value("SELECT string_agg(k || '/' || r, ' ') FROM t"), "5/1");
            no_staging(&mut db);
        }
    }
    // Rows that the server refuses while they arrive can be taken out.
    let mut sink = open(&db, &[("table", "t"), ("mode", "upsert"), ("on_error", "reject")]);
    let null: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(8), Some(8)]));
    let some = batch(vec![("k", null), ("r", ints([1, 1, 1, 1]))]);
    plan(&mut sink, &some).unwrap();
    let (finished, refused) = run(&mut sink, &[vec![some]], &mut Kept::default()).unwrap();
    assert_eq!((finished.rows, finished.keyed, refused.len(), refused[0].0), (3, keyed(1, 1, 0, 1, 0), 1, 1));
}

#[test]
fn a_role_that_may_not_make_tables_uses_a_temporary_one() {
    let mut db = TestDb::new();
    let role = format!("{}_r", db.name);
    db.run(&format!(
        "CREATE TABLE t (k bigint PRIMARY KEY, v text); REVOKE CREATE ON SCHEMA public FROM public; CREATE ROLE {role} LOGIN PASSWORD 'pw'; GRANT SELECT, INSERT ON t TO {role}"
    ));
    let sink = |mode: &str| {
        let server = url(&db.name);
        let (_, place) = server.rsplit_once('@').unwrap();
        let endpoint = Endpoint::parse(&format!("postgres://{role}:pw@{place}?sslmode=disable&table=t&mode={mode}")).unwrap();
        let given = Settings::resolve(&[super::SINK], endpoint.query.iter().map(|(k, v)| (k.as_str(), v.as_str())), "postgres").unwrap();
        super::PostgresSink::open(&endpoint, &given, &super::tests::environment("t1")).unwrap()
    };
    for (mode, right) in [("upsert", "UPDATE"), ("delete-insert", "DELETE")] {
        let error = plan(&mut sink(mode), &pairs(&[(1, "a")])).unwrap_err();
        assert!(error.kind() == ErrorKind::Permission && error.hint_text().unwrap().contains(&format!("GRANT {right}")), "{error:?}");
    }
    let made = plan(&mut sink("insert-ignore"), &pairs(&[(1, "a")])).unwrap();
    assert!(made.max_writers == Some(1) && made.notes.iter().any(|n| n.text.contains("temporary")), "{made:?}");
    let finished = load(&mut sink("insert-ignore"), vec![vec![pairs(&[(1, "a"), (1, "b"), (2, "c")])]]).unwrap();
    assert_eq!(finished.keyed, keyed(2, 0, 0, 1, 0));
    assert_eq!(db.value("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t"), "1b 2c");
    db.run(&format!("DROP TABLE t; DROP ROLE {role}"));
}

#[test]
fn a_missing_table_is_made_with_its_key() {
    let mut db = TestDb::new();
    let rows = || vec![vec![pairs(&[(1, "a"), (1, "b"), (2, "c")])]];
    let error = plan(&mut open(&db, &[("table", "t"), ("mode", "upsert"), ("create", "true")]), &rows()[0][0]).unwrap_err();
    assert!(error.hint_text().unwrap().contains("--key"), "{error:?}");
    for expected in [keyed(2, 0, 0, 1, 0), keyed(0, 2, 0, 1, 0)] {
        let finished = load(&mut open(&db, &[("table", "t"), ("mode", "upsert"), ("create", "true"), ("key", "k")]), rows()).unwrap();
        assert_eq!(finished.keyed, expected);
    }
    assert_eq!(db.value("SELECT string_agg(k || v, ' ' ORDER BY k) FROM t"), "1b 2c");
    assert_eq!(
        db.value("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p' AND conrelid = 't'::regclass"),
        "PRIMARY KEY (k)"
    );
    no_staging(&mut db);
}

#[test]
fn columns_by_position() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint PRIMARY KEY, g bigint GENERATED ALWAYS AS (id + 1) STORED, name text, d int DEFAULT 5)");
    let names = |columns: &[&str]| {
        let one = |(i, c): (usize, &&str)| -> (String, ArrayRef) {
            ((*c).to_string(), if i == 1 { Arc::new(StringArray::from(vec!["x"])) } else { ints([7]) })
        };
        let made: Vec<(String, ArrayRef)> = columns.iter().enumerate().map(one).collect();
        batch(made.iter().map(|(n, a)| (n.as_str(), Arc::clone(a))).collect())
    };
    let mut sink = open(&db, &[("table", "t"), ("map", "position")]);
    let made = plan(&mut sink, &names(&["d", "id", "whatever"])).unwrap();
    let shown: Vec<String> =
        made.columns.iter().map(|c| format!("{}>{} {}", c.source, c.target, c.note.clone().unwrap_or_default())).collect();
    assert_eq!(shown, ["d>id ", "id>name ", "whatever>d ", ">g generated by the table"]);
    load(&mut sink, vec![vec![names(&["d", "id", "whatever"])]]).unwrap();
    assert_eq!(db.value("SELECT concat_ws(',', id, g, name, d) FROM t"), "7,8,x,7");
    let error = plan(&mut open(&db, &[("table", "t"), ("map", "position"), ("mode", "append")]), &names(&["a", "b"])).unwrap_err();
    assert_eq!(error.detail(), "the source has 2 columns and the table 4 (1 of them generated), so they cannot be mapped by position");
    // By name, what is not there is told.
    let made = plan(&mut open(&db, &[("table", "t"), ("mode", "append")]), &names(&["id", "name"])).unwrap();
    let shown: Vec<String> =
        made.columns.iter().map(|c| format!("{}>{} {}", c.source, c.target, c.note.clone().unwrap_or_default())).collect();
    assert_eq!(shown, ["id>id ", "name>name ", ">g generated by the table", ">d the table's default"]);
}
