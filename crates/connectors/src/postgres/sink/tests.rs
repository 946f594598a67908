//! The sink against a real server. Cases are named after their ids.

use super::{PostgresSink, SINK};
use crate::postgres::testdb::{TestDb, url};
use arrow_array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use haul_model::{
    Block, BlockBody, Encoding, Endpoint, Environment, Error, ErrorKind, Finished, Form, Guarantee, Incoming, OnLossy, Rejects, Result,
    Rows, Settings, Sink, Strict, WritePlan, Writer, field_meta,
};
use std::sync::Arc;

pub(super) fn environment(run: &str) -> Environment {
    Environment { run_id: run.into(), cores: 2, ..Environment::default() }
}

pub(super) fn open(db: &TestDb, pairs: &[(&str, &str)]) -> PostgresSink {
    let endpoint = Endpoint::parse(&format!("{}?sslmode=disable", url(&db.name))).unwrap();
    let pairs = endpoint.query.iter().map(|(k, v)| (k.as_str(), v.as_str())).chain(pairs.iter().copied());
    let settings = Settings::resolve(&[SINK], pairs, "postgres").unwrap();
    PostgresSink::open(&endpoint, &settings, &environment("t1")).unwrap()
}

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(super) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn incoming(batch: &RecordBatch) -> Incoming {
    Incoming::new("source.csv", batch.schema())
}

pub(super) fn plan(sink: &mut PostgresSink, batch: &RecordBatch) -> Result<WritePlan> {
    sink.plan(&incoming(batch))
}

/// Rejects that keep what they are told.
#[derive(Default)]
pub(super) struct Kept(pub Vec<Error>);

impl Rejects for Kept {
    fn row(&mut self, rows: &Rows, row: usize, error: Error) -> Result<()> {
        self.0.push(rows.locate(row, error));
        Ok(())
    }
    fn record(&mut self, _record: &[u8], error: Error) -> Result<()> {
        self.0.push(error);
        Ok(())
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}

fn write(sink: &mut PostgresSink, lanes: &[Vec<RecordBatch>], rejects: &mut dyn Rejects, refused: &mut Vec<(u64, Error)>) -> Result<()> {
    let mut writers: Vec<Box<dyn Writer>> = (0..lanes.len()).map(|lane| sink.open(lane as u32)).collect::<Result<_>>()?;
    for (split, (writer, batches)) in writers.iter_mut().zip(lanes).enumerate() {
        let mut encoder = sink.encoder()?;
        let mut first = 0;
        writer.split(split as u32)?;
        for batch in batches {
            encoder.push(&Rows::new(batch.clone(), first), rejects)?;
            first += batch.num_rows() as u64;
            if let Some(mut block) = encoder.take()? {
                let slot = writer.reserve(&mut block)?;
                refused.extend(writer.write(slot, &mut block)?);
            }
        }
    }
    writers.iter_mut().try_for_each(|w| w.close().map(drop))
}

/// A whole job: plan to finish, or abort.
pub(super) fn load(sink: &mut PostgresSink, lanes: Vec<Vec<RecordBatch>>) -> Result<Finished> {
    let mut plan = plan(sink, &lanes[0][0])?;
    sink.writers(lanes.len(), &mut plan);
    run(sink, &lanes, &mut Strict::default()).map(|(finished, _)| finished)
}

pub(super) fn run(sink: &mut PostgresSink, lanes: &[Vec<RecordBatch>], rejects: &mut dyn Rejects) -> Result<(Finished, Vec<(u64, Error)>)> {
    let mut refused = Vec::new();
    let done = sink.begin().and_then(|()| write(sink, lanes, rejects, &mut refused)).and_then(|()| sink.finish());
    if done.is_err() {
        assert_eq!(sink.abort(), Vec::<String>::new());
    }
    Ok((done?, refused))
}

pub(super) fn no_staging(db: &mut TestDb) {
    assert_eq!(db.value("SELECT count(*) FROM pg_class WHERE relname LIKE 'haul\\_t1%'"), "0");
}

fn numbers(n: i64) -> Vec<Vec<RecordBatch>> {
    vec![vec![batch(vec![("id", ints(1..=n)), ("v", ints((1..=n).map(|i| i * 10)))])]]
}

#[test]
fn op_01_a_missing_table_names_the_flag_and_create_makes_it() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE \"Orders\" (id int)");
    let error = load(&mut open(&db, &[("table", "nope")]), numbers(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.hint_text().unwrap().contains("--create"), "{error:?}");
    let error = load(&mut open(&db, &[("table", "orders")]), numbers(3)).unwrap_err();
    assert!(error.hint_text().unwrap().contains("did you mean public.Orders?"), "{error:?}");
    let mut sink = open(&db, &[("table", "nope"), ("create", "true")]);
    let plan = plan(&mut sink, &numbers(3)[0][0]).unwrap();
    assert_eq!(
        plan.ddl,
        [
            "CREATE TABLE \"public\".\"haul_t1_nope\" (\"id\" bigint, \"v\" bigint)",
            "ALTER TABLE \"public\".\"haul_t1_nope\" RENAME TO \"nope\""
        ]
    );
    assert_eq!(plan.guarantee, Guarantee::AllOrNothing);
    assert_eq!(load(&mut sink, numbers(3)).unwrap().rows, 3);
    assert_eq!(db.value("SELECT sum(v) FROM nope"), "60");
    no_staging(&mut db);
}

#[test]
fn op_01_a_value_in_row_123_stops_the_job_and_leaves_nothing() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id int, n numeric(10,2))");
    let values: Vec<String> = (1..=10_000).map(|i| if i == 123 { "1,213".into() } else { format!("{i}.50") }).collect();
    let rows = batch(vec![("id", ints(1..=10_000)), ("n", texts(values.iter().map(String::as_str)))]);
    let mut sink = open(&db, &[("table", "t")]);
    let error = load(&mut sink, vec![vec![rows.clone()]]).unwrap_err();
    assert_eq!((error.kind(), error.place().row_in_chunk, error.place().column.as_deref()), (ErrorKind::Data, Some(122), Some("n")));
    assert_eq!(db.value("SELECT count(*) FROM t"), "0");
    // Taken out on request.
    let mut sink = open(&db, &[("table", "t"), ("on_error", "reject")]);
    plan(&mut sink, &rows).unwrap();
    let mut kept = Kept::default();
    let (finished, refused) = run(&mut sink, &[vec![rows]], &mut kept).unwrap();
    assert_eq!((finished.rows, kept.0.len(), refused.len()), (9_999, 1, 0));
    assert_eq!(db.value("SELECT count(*) FROM t"), "9999");
}

#[test]
fn op_01_rows_that_the_server_refuses_are_taken_out_one_by_one() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint PRIMARY KEY, v bigint CHECK (v <> 70)); INSERT INTO t VALUES (5, 0)");
    let rows = batch(vec![("id", ints([1, 2, 3, 4, 5, 6, 7, 8, 2, 9])), ("v", ints((1..=10).map(|i| i * 10)))]);
    let mut sink = open(&db, &[("table", "t"), ("mode", "append")]);
    let error = load(&mut sink, vec![vec![rows.slice(0, 6)]]).unwrap_err();
    assert_eq!((error.kind(), error.place().row, error.code_text()), (ErrorKind::Constraint, Some(5), Some("23505")));
    assert!(error.to_string().contains("t_pkey") && error.place().object.as_deref() == Some("public.t"), "{error}");
    let mut sink = open(&db, &[("table", "t"), ("mode", "append"), ("on_error", "reject")]);
    plan(&mut sink, &rows).unwrap();
    let (finished, refused) = run(&mut sink, &[vec![rows.clone(), rows]], &mut Kept::default()).unwrap();
    let which: Vec<u64> = refused.iter().map(|(row, _)| *row).collect();
    assert_eq!(which, [&[4, 6, 8][..], &(0..10).collect::<Vec<u64>>()].concat());
    assert_eq!(finished.rows, 7);
    assert_eq!(db.list("SELECT id FROM t ORDER BY 1"), ["1", "2", "3", "4", "5", "6", "8", "9"]);
    // Every row refused: nothing is written, and every one is told.
    db.run("CREATE TABLE none (id bigint CHECK (id < 0), v bigint)");
    let mut sink = open(&db, &[("table", "none"), ("on_error", "reject")]);
    let rows = numbers(20);
    plan(&mut sink, &rows[0][0]).unwrap();
    let (finished, refused) = run(&mut sink, &rows, &mut Kept::default()).unwrap();
    assert_eq!((finished.rows, refused.len()), (0, 20));
}

#[test]
fn a_table_with_rows_needs_the_mode_said() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint, v bigint); INSERT INTO t VALUES (0, 0)");
    let error = plan(&mut open(&db, &[("table", "t")]), &numbers(1)[0][0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert!(error.hint_text().unwrap().contains("--mode append"));
    assert_eq!(load(&mut open(&db, &[("table", "t"), ("mode", "append")]), numbers(2)).unwrap().rows, 2);
    assert_eq!(db.value("SELECT count(*) FROM t"), "3");
}

#[test]
fn lanes_become_visible_together_at_the_end() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint, v bigint)");
    let prepared: usize = db.value("SHOW max_prepared_transactions").parse().unwrap();
    let mut sink = open(&db, &[("table", "t")]);
    let lanes: Vec<_> = (0..2).flat_map(|_| numbers(1000)).collect();
    let mut made = plan(&mut sink, &lanes[0][0]).unwrap();
    sink.writers(1, &mut made);
    assert_eq!((made.guarantee, made.notes.len()), (Guarantee::AllOrNothing, 0), "one lane is one transaction");
    sink.writers(2, &mut made);
    assert_eq!(made.guarantee, if prepared >= 2 { Guarantee::AllOrNothing } else { Guarantee::AtLeastOnce });
    assert!(made.max_writers.is_some_and(|most| most >= 2 && (prepared < 2 || most <= prepared)), "{:?}", made.max_writers);
    sink.begin().unwrap();
    write(&mut sink, &lanes, &mut Strict::default(), &mut Vec::new()).unwrap();
    assert_eq!(db.value("SELECT count(*) FROM t"), "0");
    assert_eq!(sink.finish().unwrap().rows, 2000);
    assert_eq!(db.value("SELECT count(*) || '/' || (SELECT count(*) FROM pg_prepared_xacts) FROM t"), "2000/0");
}

#[test]
fn in_05_a_failed_load_of_any_mode_leaves_the_old_rows() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint PRIMARY KEY, v bigint); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i");
    for mode in ["append", "truncate", "replace"] {
        let mut rows = numbers(5000);
        rows[0].push(batch(vec![("id", ints([77_777, 77_777])), ("v", ints([1, 2]))]));
        let mut sink = open(&db, &[("table", "t"), ("mode", mode)]);
        let error = load(&mut sink, rows).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Constraint, "{error}");
        assert!(error.to_string().contains("t_pkey") && !error.to_string().contains("haul_"), "{error}");
        assert_eq!(db.value("SELECT count(*) || '/' || sum(v) FROM t"), "1000/500500");
        no_staging(&mut db);
    }
    // A source without rows empties nothing unless told to.
    for mode in ["truncate", "replace"] {
        let empty = vec![vec![numbers(1)[0][0].slice(0, 0)]];
        let error = load(&mut open(&db, &[("table", "t"), ("mode", mode)]), empty.clone()).unwrap_err();
        assert!(error.hint_text().unwrap().contains("allow_empty"), "{error:?}");
        assert_eq!(db.value("SELECT count(*) FROM t"), "1000");
        no_staging(&mut db);
        load(&mut open(&db, &[("table", "t"), ("mode", mode), ("allow_empty", "true")]), empty).unwrap();
        assert_eq!(db.value("SELECT count(*) FROM t"), "0");
        db.run("INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i");
    }
    for mode in ["truncate", "replace"] {
        assert_eq!(load(&mut open(&db, &[("table", "t"), ("mode", mode)]), numbers(7)).unwrap().rows, 7);
        assert_eq!(db.value("SELECT count(*) || '/' || sum(v) FROM t"), "7/280");
        no_staging(&mut db);
    }
}

#[test]
fn in_05_readers_never_see_an_empty_or_partial_table() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint, v bigint); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (name, flag) = (db.name.clone(), Arc::clone(&stop));
    let reader = std::thread::spawn(move || {
        let mut session = crate::postgres::testdb::open(&url(&name));
        let mut seen = std::collections::BTreeSet::new();
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            let row = session.row("SELECT count(*) FROM t", &[]).unwrap().unwrap();
            seen.insert(row.parse::<i64>(0).unwrap());
        }
        seen
    });
    for _ in 0..3 {
        load(&mut open(&db, &[("table", "t"), ("mode", "replace")]), numbers(20_000)).unwrap();
        load(&mut open(&db, &[("table", "t"), ("mode", "replace")]), numbers(1000)).unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let seen = reader.join().unwrap();
    assert!(seen.iter().all(|n| [1000, 20_000].contains(n)), "{seen:?}");
}

#[test]
fn replace_swaps_where_nothing_depends_and_keeps_every_name() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE t (id bigint PRIMARY KEY, v bigint DEFAULT 7 CHECK (v > 0), CONSTRAINT both_u UNIQUE (id, v)); \
            CREATE INDEX t_v ON t (v DESC) WHERE v > 5; COMMENT ON TABLE t IS 'x'; INSERT INTO t VALUES (1, 1)",
    );
    let shape = "SELECT string_agg(d, E'\\n' ORDER BY d) FROM (SELECT pg_get_indexdef(indexrelid) d FROM pg_index WHERE indrelid = 't'::regclass \
                 UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass \
                 UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass) s";
    let (before, oid) = (db.value(shape), db.value("SELECT 't'::regclass::oid"));
    let mut sink = open(&db, &[("table", "t"), ("mode", "replace")]);
    let made = plan(&mut sink, &numbers(1)[0][0]).unwrap();
    assert!(made.method.contains("by rename"), "{}", made.method);
    load(&mut sink, numbers(100)).unwrap();
    assert_eq!(db.value(shape), before);
    assert_ne!(db.value("SELECT 't'::regclass::oid"), oid);
    assert_eq!(db.value("SELECT count(*) FROM t"), "100");
}

#[test]
fn replace_keeps_what_depends_on_the_table() {
    let mut db = TestDb::new();
    let name = db.name.clone();
    db.run(&format!("CREATE ROLE {name}_r; CREATE TABLE t (id bigint PRIMARY KEY, v bigint); INSERT INTO t VALUES (1, 1), (2, 2); CREATE VIEW w AS SELECT * FROM t; \
            CREATE TABLE child (t_id bigint REFERENCES t); INSERT INTO child VALUES (2); GRANT SELECT ON t TO {name}_r; CREATE PUBLICATION p FOR TABLE t; \
            CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'begin return new; end'; CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f(); \
            CREATE POLICY pol ON t USING (true)"));
    let facts = "SELECT (SELECT relacl::text FROM pg_class WHERE oid = 't'::regclass) || (SELECT count(*) FROM pg_trigger WHERE tgrelid = 't'::regclass) || \
                 (SELECT count(*) FROM pg_policy) || (SELECT count(*) FROM pg_publication_rel WHERE prrelid = 't'::regclass) || 't'::regclass::oid";
    let before = db.value(facts);
    for mode in ["replace", "truncate"] {
        let mut sink = open(&db, &[("table", "t"), ("mode", mode)]);
        let made = plan(&mut sink, &numbers(1)[0][0]).unwrap();
        assert!(made.method.contains("deletes the old rows"), "{}", made.method);
        if mode == "replace" {
            let note = made.notes.iter().map(|n| n.text.as_str()).find(|n| n.contains("rows are replaced")).unwrap();
            for reason in ["grants", "triggers", "foreign keys point to it", "row-level security", "published", "views"] {
                assert!(note.contains(reason), "{reason}: {note}");
            }
        }
        load(&mut sink, numbers(50)).unwrap();
        assert_eq!(db.value("SELECT count(*) || '/' || (SELECT count(*) FROM w) || '/' || (SELECT count(*) FROM child) FROM t"), "50/50/1");
        assert_eq!(db.value(facts), before);
        no_staging(&mut db);
    }
    // The row that child points to would go: refused, and everything stays.
    let error = load(&mut open(&db, &[("table", "t"), ("mode", "replace")]), vec![vec![batch(vec![("id", ints([1])), ("v", ints([1]))])]])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Constraint);
    assert_eq!(db.value("SELECT count(*) FROM t"), "50");
    no_staging(&mut db);
    db.run("CREATE TABLE kid (t_id bigint REFERENCES t ON DELETE CASCADE)");
    let error = plan(&mut open(&db, &[("table", "t"), ("mode", "replace")]), &numbers(1)[0][0]).unwrap_err();
    assert!(error.detail().contains("ON DELETE CASCADE"), "{error}");
    db.run(&format!("DROP TABLE child, kid; DROP VIEW w; DROP TABLE t; DROP ROLE {name}_r"));
}

#[test]
fn sc_01_generated_and_identity_columns() {
    let mut db = TestDb::new();
    for schema in ["a", "b"] {
        db.run(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.p (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY); \
            CREATE TABLE {schema}.k (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, pid int REFERENCES {schema}.p, a int, b int GENERATED ALWAYS AS (a * 2) STORED)"));
    }
    let ids = |ids: [i32; 3]| -> ArrayRef { Arc::new(Int32Array::from(ids.to_vec())) };
    for mode in ["append", "truncate", "replace"] {
        db.run("TRUNCATE b.k, b.p");
        let mut sink = open(&db, &[("table", "b.p"), ("mode", mode), ("allow_empty", "true")]);
        let p = batch(vec![("id", ids([10, 20, 30]))]);
        let finished = load(&mut sink, vec![vec![p]]).unwrap();
        assert_eq!((finished.rows, finished.notes.iter().filter(|n| n.contains("sequence")).count()), (3, 1), "{finished:?}");
        assert_eq!(db.list("SELECT id FROM b.p ORDER BY 1"), ["10", "20", "30"]);
    }
    let k = batch(vec![("id", ids([1, 2, 3])), ("pid", ids([10, 20, 30])), ("a", ids([5, 6, 7])), ("b", ids([0, 0, 0]))]);
    let mut sink = open(&db, &[("table", "b.k")]);
    let made = plan(&mut sink, &k).unwrap();
    assert!(made.notes.iter().any(|n| n.column.as_deref() == Some("b") && n.text.contains("generates")));
    load(&mut sink, vec![vec![k]]).unwrap();
    assert_eq!(db.list("SELECT b FROM b.k ORDER BY id"), ["10", "12", "14"]);
}

#[test]
fn sc_02_identifiers_are_exact() {
    let mut db = TestDb::new();
    let names = ["Order", "order", "a.b", "sel\"ect", "naïve", " lead", "1x", "user"];
    for (i, name) in names.iter().enumerate() {
        let table = format!("public.{}", crate::postgres::discover::quote_if_needed(name));
        for round in 0..2 {
            let rows = batch(vec![("select", ints([i as i64])), ("A", ints([1])), ("a", ints([2]))]);
            load(&mut open(&db, &[("table", &table), ("create", "true"), ("mode", "append")]), vec![vec![rows]]).unwrap();
            let quoted = crate::postgres::catalog::quote_ident(name);
            assert_eq!(
                db.value(&format!("SELECT count(*) || '/' || min(\"select\") || '/' || sum(\"A\") FROM {quoted}")),
                format!("{0}/{i}/{0}", round + 1)
            );
        }
    }
    assert_eq!(db.value("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "8");
    let long = |end: &str| format!("{}{end}", "x".repeat(68));
    let rows = batch(vec![(&long("aa"), ints([1])), (&long("bb"), ints([1]))]);
    let error = load(&mut open(&db, &[("table", "l"), ("create", "true")]), vec![vec![rows]]).unwrap_err();
    assert_eq!((error.kind(), error.detail().matches("70 bytes").count()), (ErrorKind::Schema, 2));
    let error = load(&mut open(&db, &[("table", &"é".repeat(40)), ("create", "true")]), numbers(1)).unwrap_err();
    assert!(error.detail().contains("80 bytes"), "{error}");
    let error =
        load(&mut open(&db, &[("table", "Order"), ("mode", "append")]), vec![vec![batch(vec![("SELECT", ints([1]))])]]).unwrap_err();
    assert!(error.detail().contains("only the case differs"), "{error}");
}

#[test]
fn sc_03_columns_go_by_name() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (d int, gone text, c int, b int, a int) PARTITION BY RANGE (a); ALTER TABLE t DROP gone; \
            CREATE TABLE child (c int, b int, x int, a int, d int); ALTER TABLE child DROP x; ALTER TABLE t ATTACH PARTITION child FOR VALUES FROM (0) TO (1000)");
    let rows = batch(vec![("a", ints([1, 11])), ("b", ints([2, 12])), ("c", ints([3, 13])), ("d", ints([4, 14]))]);
    for format in ["binary", "text"] {
        db.run("TRUNCATE t");
        load(&mut open(&db, &[("table", "t"), ("copy_format", format)]), vec![vec![rows.clone()]]).unwrap();
        assert_eq!(db.list("SELECT concat_ws(',', a, b, c, d) FROM t ORDER BY a"), ["1,2,3,4", "11,12,13,14"]);
    }
    for mode in ["truncate", "replace"] {
        load(&mut open(&db, &[("table", "t"), ("mode", mode)]), vec![vec![rows.clone()]]).unwrap();
        assert_eq!(db.list("SELECT concat_ws(',', a, b, c, d) FROM child ORDER BY a"), ["1,2,3,4", "11,12,13,14"]);
    }
}

#[test]
fn sc_07_wide_tables() {
    let mut db = TestDb::new();
    let columns: Vec<String> = (0..1600).map(|i| format!("c{i}")).collect();
    let rows = batch(columns.iter().enumerate().map(|(i, c)| (c.as_str(), ints((0..500).map(|r| (r + i as i64) % 100)))).collect());
    let list = columns.iter().map(|c| format!("{c} int")).collect::<Vec<_>>().join(", ");
    db.run(&format!("CREATE TABLE wide ({list})"));
    assert_eq!(load(&mut open(&db, &[("table", "wide")]), vec![vec![rows]]).unwrap().rows, 500);
    assert_eq!(db.value("SELECT count(*) || '/' || sum(c0) || '/' || sum(c1599) FROM wide"), "500/24750/24750");
    // A row that no page can hold is the server's error, not a lost row.
    let list = (0..900).map(|i| format!("t{i} text STORAGE PLAIN")).collect::<Vec<_>>();
    let plain = list.iter().map(|c| c.replace(" STORAGE PLAIN", "")).collect::<Vec<_>>().join(", ");
    db.run(&format!("CREATE TABLE big ({plain})"));
    db.run(&(0..900).map(|i| format!("ALTER TABLE big ALTER t{i} SET STORAGE PLAIN")).collect::<Vec<_>>().join("; "));
    let names: Vec<String> = (0..900).map(|i| format!("t{i}")).collect();
    let row = batch(names.iter().map(|n| (n.as_str(), texts(["0123456789"]))).collect());
    let error = load(&mut open(&db, &[("table", "big")]), vec![vec![row]]).unwrap_err();
    assert!(error.detail().contains("row is too big") && error.place().object.as_deref() == Some("public.big"), "{error:?}");
    assert_eq!(db.value("SELECT count(*) FROM big"), "0");
}

#[test]
fn sc_08_differences_are_told_at_once_or_at_the_value() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (a int, extra text NOT NULL, z timestamptz, u uuid, \"Name\" text)");
    let naive: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0]));
    let rows = batch(vec![("a", ints([1])), ("b", ints([1])), ("z", naive.clone()), ("u", ints([1])), ("name", texts(["x"]))]);
    let error = load(&mut open(&db, &[("table", "t")]), vec![vec![rows]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    for part in ["no column \"b\"", "only the case differs", "\"extra\" is NOT NULL", "\"z\"", "\"u\" (Int64) into uuid"] {
        assert!(error.detail().contains(part), "{part}: {error}");
    }
    db.run("CREATE TABLE v (i int, d date, n numeric(10,2), k int NOT NULL, vc varchar(3), t0 timestamp(0))");
    let good = |i: ArrayRef, d: ArrayRef, n: &str, vc: &str, t0: &str| {
        batch(vec![("i", i), ("d", d), ("n", texts([n])), ("k", ints([1])), ("vc", texts([vc])), ("t0", texts([t0]))])
    };
    let day: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    let fine = good(ints([1]), day.clone(), "1.230", "abc", "2020-01-01T00:00:01");
    load(&mut open(&db, &[("table", "v")]), vec![vec![fine]]).unwrap();
    for (column, wrong) in [
        ("i", good(ints([5_000_000_000]), day.clone(), "1", "abc", "2020-01-01T00:00:01")),
        ("i", good(texts(["x"]), day.clone(), "1", "abc", "2020-01-01T00:00:01")),
        ("d", good(ints([1]), Arc::new(TimestampMicrosecondArray::from(vec![1])), "1", "abc", "2020-01-01T00:00:01")),
        ("n", good(ints([1]), day.clone(), "1.2345", "abc", "2020-01-01T00:00:01")),
        ("vc", good(ints([1]), day.clone(), "1", "abcd", "2020-01-01T00:00:01")),
        ("t0", good(ints([1]), day.clone(), "1", "abc", "2020-01-01T00:00:01.5")),
    ] {
        for format in ["auto", "text"] {
            if (column, format) == ("t0", "text") || (column == "i" && format == "text") {
                continue; // There the server itself reads the text.
            }
            let error = load(&mut open(&db, &[("table", "v"), ("mode", "append"), ("copy_format", format)]), vec![vec![wrong.clone()]])
                .unwrap_err();
            assert_eq!((error.place().column.as_deref(), error.place().row_in_chunk), (Some(column), Some(0)), "{error}");
        }
    }
    let null = batch(vec![("k", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef)]);
    let error = load(&mut open(&db, &[("table", "v"), ("mode", "append")]), vec![vec![null]]).unwrap_err();
    assert_eq!((error.code_text(), error.place().column.as_deref(), error.place().row), (Some("23502"), Some("k"), Some(2)), "{error:?}");
    let clamp = good(ints([5_000_000_000]), day.clone(), "1.2345", "abcd", "2020-01-01T00:00:01.9");
    load(&mut open(&db, &[("table", "v"), ("mode", "append"), ("on_lossy", "clamp")]), vec![vec![clamp]]).unwrap();
    assert_eq!(
        db.value("SELECT concat_ws('|', i, n, vc, t0) FROM v ORDER BY i DESC NULLS LAST LIMIT 1"),
        "2147483647|1.23|abc|2020-01-01 00:00:01"
    );
    assert_eq!(db.value("SELECT count(*) FROM v"), "2");
}

#[test]
fn a_terminated_backend_and_missing_rights_are_clear() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id bigint, v bigint)");
    let mut sink = open(&db, &[("table", "t")]);
    let rows = numbers(1000);
    plan(&mut sink, &rows[0][0]).unwrap();
    sink.begin().unwrap();
    let mut writer = sink.open(0).unwrap();
    let mut encoder = sink.encoder().unwrap();
    encoder.push(&Rows::new(rows[0][0].clone(), 0), &mut Strict::default()).unwrap();
    let mut block = encoder.take().unwrap().unwrap();
    let slot = writer.reserve(&mut block).unwrap();
    writer.write(slot, &mut block).unwrap();
    db.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'haul/t1/lane%' AND datname = current_database()");
    let error = (0..1000)
        .find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            writer.write(slot, &mut block).err()
        })
        .unwrap_or_else(|| writer.close().unwrap_err());
    assert!(matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Connect), "{error:?}");
    drop(writer);
    assert_eq!(sink.abort(), Vec::<String>::new());
    assert_eq!(db.value("SELECT count(*) FROM t"), "0");
    let name = db.name.clone();
    db.run(&format!("CREATE ROLE {name}_w LOGIN PASSWORD 'w'; ALTER TABLE t ENABLE ROW LEVEL SECURITY; GRANT INSERT ON t TO {name}_w; CREATE TABLE u (id bigint, v bigint); CREATE VIEW w AS SELECT * FROM u"));
    let as_role = |table: &str| {
        let endpoint =
            Endpoint::parse(&format!("{}?sslmode=disable&table={table}", url(&name).replace("postgres@", &format!("{name}_w:w@"))))
                .unwrap();
        let settings = Settings::resolve(&[SINK], endpoint.query.iter().map(|(k, v)| (k.as_str(), v.as_str())), "postgres").unwrap();
        let mut sink = PostgresSink::open(&endpoint, &settings, &environment("t1")).unwrap();
        plan(&mut sink, &rows[0][0]).unwrap_err()
    };
    let error = as_role("t");
    assert!(error.kind() == ErrorKind::Permission && error.detail().contains("row-level security"), "{error:?}");
    assert_eq!(as_role("u").kind(), ErrorKind::Permission);
    assert_eq!(plan(&mut open(&db, &[("table", "w")]), &rows[0][0]).unwrap_err().kind(), ErrorKind::Unsupported);
    db.run(&format!("DROP OWNED BY {name}_w; DROP ROLE {name}_w"));
}

/// Copies `from` as raw frames through the sink.
fn pass(db: &mut TestDb, from: &str, format: &'static str, pairs: &[(&str, &str)]) -> Finished {
    let plans = db.plans(from, Form::Text, OnLossy::Error);
    let schema = Arc::new(arrow_schema::Schema::new(plans.iter().map(|p| p.field.clone()).collect::<Vec<_>>()));
    let mut sink = open(db, pairs);
    let encoding = Encoding { format, detail: if format == "pgcopy-binary" { sink.identity.clone().unwrap() } else { String::new() } };
    assert!(sink.accepts(&encoding, &schema));
    assert!(!sink.accepts(&Encoding { format, detail: "other/1".into() }, &schema));
    sink.plan(&Incoming { pass_through: Some(encoding), ..Incoming::new(from, schema) }).unwrap();
    sink.begin().unwrap();
    let list = plans.iter().map(|p| crate::postgres::catalog::quote_ident(p.field.name())).collect::<Vec<_>>().join(", ");
    db.session.begin("").unwrap();
    let sql = format!("COPY (SELECT {list} FROM {from}) TO STDOUT (FORMAT {})", format.trim_start_matches("pgcopy-"));
    let mut writer = sink.open(0).unwrap();
    let mut copy = db.session.connection().copy_out(&sql).unwrap();
    while let Some(chunk) = copy.next_chunk(64 << 10).unwrap() {
        let mut block = Block { rows: chunk.rows, body: BlockBody::Shared(chunk.bytes) };
        let slot = writer.reserve(&mut block).unwrap();
        writer.write(slot, &mut block).unwrap();
    }
    drop(copy);
    db.run("COMMIT");
    writer.close().unwrap();
    sink.finish().unwrap()
}

#[test]
fn exact_passes_through_in_both_encodings_and_equals_the_decoded_way() {
    let mut db = TestDb::exact();
    for (table, format) in [("bin", "pgcopy-binary"), ("txt", "pgcopy-text")] {
        db.run(&format!("CREATE TABLE {table} (LIKE exact INCLUDING ALL)"));
        assert_eq!(pass(&mut db, "exact", format, &[("table", table)]).rows, 7);
        db.assert_same("exact", table);
    }
    db.run("CREATE TABLE decoded (LIKE exact INCLUDING ALL)");
    let (rows, _) = db.read("exact", "id", Form::Text, OnLossy::Error).unwrap();
    let batches = rows.into_iter().map(|r| r.batch).collect();
    assert_eq!(load(&mut open(&db, &[("table", "decoded")]), vec![batches]).unwrap().rows, 7);
    db.assert_same("bin", "decoded");
    // Another type, and another order of columns: bytes may not pass.
    db.run("CREATE TABLE narrow AS SELECT id, i2::int AS i2 FROM exact LIMIT 0; CREATE TABLE s AS SELECT id, i2 FROM exact");
    let plans = db.plans("s", Form::Text, OnLossy::Error);
    let schema = Arc::new(arrow_schema::Schema::new(plans.iter().map(|p| p.field.clone()).collect::<Vec<_>>()));
    let encoding = Encoding { format: "pgcopy-binary", detail: String::new() };
    assert!(!open(&db, &[("table", "narrow")]).accepts(&encoding, &schema));
    assert!(open(&db, &[("table", "s")]).accepts(&encoding, &schema));
    assert!(!open(&db, &[("table", "s"), ("copy_format", "text")]).accepts(&encoding, &schema));
}

#[test]
fn create_gives_the_source_types_back() {
    let mut db = TestDb::exact();
    db.run("ALTER TABLE exact DROP gen");
    let (rows, _) = db.read("exact", "id", Form::Text, OnLossy::Error).unwrap();
    let batches: Vec<RecordBatch> = rows.into_iter().map(|r| r.batch).collect();
    load(&mut open(&db, &[("table", "made"), ("create", "true")]), vec![batches.clone()]).unwrap();
    db.assert_same("exact", "made");
    let types = |t: &str| {
        format!(
            "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || attnotnull, ',' ORDER BY attname) FROM pg_attribute WHERE attrelid = '{t}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
    };
    assert_eq!(db.value(&types("exact")), db.value(&types("made")));
    // A type that is not there is refused by name before anything is made.
    let field = field_meta::with(
        arrow_schema::Field::new("m", arrow_schema::DataType::Utf8, true),
        field_meta::SOURCE_TYPE,
        "postgres:public.nope",
    );
    let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
    let unknown = RecordBatch::try_new(schema, vec![texts(["x"])]).unwrap();
    let error = load(&mut open(&db, &[("table", "n"), ("create", "true")]), vec![vec![unknown]]).unwrap_err();
    assert!(error.detail().contains("public.nope") && error.place().column.as_deref() == Some("m"), "{error}");
}
