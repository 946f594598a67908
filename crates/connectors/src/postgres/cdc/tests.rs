//! The source against the real server: what it reads is compared with what the server itself says.

use super::place::Place;
use super::settings::SOURCE;
use super::source::CdcSource;
use crate::postgres::testdb::{EXACT, TestDb, url};
use haul_formats::Output;
use haul_formats::jsonl::JsonlOutput;
use haul_model::{BlockBody, Endpoint, Environment, Form, Next, Payload, Position, Reader, Reading, Settings, Source, Span, Strict};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A database with a slot of its own, dropped with it.
struct Captured {
    db: TestDb,
    slot: String,
}

impl Captured {
    fn new(sql: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut db = TestDb::new();
        db.run(sql);
        Self { db, slot: format!("haul_t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    fn open(&self, pairs: &[(&str, &str)]) -> haul_model::Result<CdcSource> {
        let endpoint = Endpoint::parse(&url(&self.db.name).replace("postgres://", "postgres-cdc://")).unwrap();
        let own = [("slot", self.slot.as_str()), ("publication", "p"), ("sslmode", "disable")];
        let pairs = own.iter().filter(|(n, _)| !pairs.iter().any(|(m, _)| m == n)).chain(pairs).copied();
        CdcSource::open(&endpoint, &Settings::resolve(&[SOURCE], pairs, "postgres-cdc").unwrap(), &Environment::default())
    }

    fn source(&self, form: Form, pairs: &[(&str, &str)]) -> Planned {
        let mut source = self.open(pairs).unwrap_or_else(|e| panic!("{pairs:?}: {e}"));
        let reading = Reading { pass_through: None, form, degree: 0, ordered: false };
        let plan = source.plan(&reading).unwrap();
        Planned { source, form, split: plan.splits[0].clone() }
    }

    /// The events of a run to where the log ends now, as JSON, and where it got to; everything is acknowledged.
    fn run(&self, from: &Position, pairs: &[(&str, &str)]) -> (Vec<String>, Position) {
        self.source(Form::Json, pairs).run(from)
    }

    fn confirmed(&mut self) -> String {
        self.db.value(&format!("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{}'", self.slot))
    }
}

impl Captured {
    /// Drops the slot as soon as nobody reads it.
    fn drop_slot(&mut self) {
        let begun = Instant::now();
        let drop = format!(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{}' AND NOT active",
            self.slot
        );
        let there = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}'", self.slot);
        while begun.elapsed() < Duration::from_secs(20) {
            let _ = self.db.session.run(&drop);
            if self.db.session.row(&there, &[]).is_ok_and(|row| row.is_some_and(|row| row.text(0) == "0")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.drop_slot();
    }
}

struct Planned {
    source: CdcSource,
    form: Form,
    split: haul_model::Split,
}

impl Planned {
    fn reader(&self, from: &Position) -> Box<dyn Reader> {
        self.source.open(&self.split, from).unwrap()
    }

    fn lines(&self, payload: Payload) -> haul_model::Result<Vec<String>> {
        let Payload::Raw(raw) = payload else { panic!("columns from a source of raw records") };
        let records = raw.records.unwrap();
        let mut decoder = self.source.decoder(self.form).unwrap();
        let mut encoder = JsonlOutput::new(&Settings::default(), decoder.schema()).unwrap().encoder().unwrap();
        let mut strict = Strict::default();
        decoder.decode(raw, &mut strict, &mut |rows, rejects| encoder.push(&rows, rejects))?;
        let Some(block) = encoder.take()? else { return Ok(Vec::new()) };
        assert_eq!(block.rows, records);
        let BlockBody::Bytes(bytes) = block.body else { panic!("an encoder of bytes") };
        Ok(String::from_utf8(bytes).unwrap().lines().map(str::to_string).collect())
    }

    fn run(&self, from: &Position) -> (Vec<String>, Position) {
        let mut reader = self.reader(from);
        let (mut lines, mut at, mut unacked) = (Vec::new(), from.clone(), Vec::new());
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "no end came after {lines:?}");
            match reader.next().unwrap() {
                Next::Batch(batch) => {
                    for span in &batch.spans {
                        assert_eq!(span.from, at, "spans chain");
                        assert!(span.to >= at);
                        at = span.to.clone();
                    }
                    unacked.extend(batch.spans);
                    lines.extend(self.lines(batch.payload).unwrap());
                }
                Next::Idle => {
                    let spans: Vec<Span> = std::mem::take(&mut unacked);
                    reader.ack(&spans).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
                Next::End => return (lines, at),
            }
        }
    }
}

/// A line without what differs from run to run. By text: numbers keep their digits.
fn plain(line: &str) -> String {
    let cut = |text: &str, from: &str, to: &str| {
        let (start, end) = (text.find(from).unwrap(), text.find(to).unwrap());
        format!("{}{}", &text[..start], &text[end..])
    };
    cut(&cut(line, "\"_lsn\"", "\"_seq\""), "\"_xid\"", "\"_table\"")
}

fn plains(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| plain(line)).collect()
}

#[test]
fn what_was_there_then_every_change_and_nothing_twice() {
    let mut c =
        Captured::new("CREATE TABLE t (id int PRIMARY KEY, n numeric, s text); INSERT INTO t VALUES (1, 1.50, 'one'), (2, NULL, '')");
    let pairs = [("table", "t")];
    let (lines, at) = c.run(&Position::start(), &pairs);
    let expected = [
        r#"{"_op":"read","_seq":0,"_table":"public.t","id":1,"n":1.50,"s":"one"}"#,
        r#"{"_op":"read","_seq":1,"_table":"public.t","id":2,"s":""}"#,
    ];
    assert_eq!(plains(&lines), expected);
    assert!(lines[0].contains(r#""_xid":null,"_commit_ts":null"#), "{}", lines[0]);

    c.db.run("INSERT INTO t VALUES (3, 3, 'three')");
    c.db.run("BEGIN; UPDATE t SET s = 'ONE' WHERE id = 1; UPDATE t SET id = 20 WHERE id = 2; DELETE FROM t WHERE id = 3; COMMIT");
    c.db.run("BEGIN; INSERT INTO t VALUES (4, 4, 'rolled back'); ROLLBACK");
    c.db.run("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (5, 5, 'lost'); ROLLBACK TO a; INSERT INTO t VALUES (6, 6, 'kept'); COMMIT");
    c.db.run("TRUNCATE t");
    let (lines, next) = c.run(&at, &pairs);
    let expected = [
        r#"{"_op":"insert","_seq":0,"_table":"public.t","id":3,"n":3,"s":"three"}"#,
        r#"{"_op":"update","_seq":0,"_table":"public.t","id":1,"n":1.50,"s":"ONE"}"#,
        r#"{"_op":"update","_seq":1,"_table":"public.t","_old":{"id":2},"id":20,"s":""}"#,
        r#"{"_op":"delete","_seq":2,"_table":"public.t","_absent":["n","s"],"id":3,"s":null}"#,
        r#"{"_op":"insert","_seq":0,"_table":"public.t","id":6,"n":6,"s":"kept"}"#,
        r#"{"_op":"truncate","_seq":0,"_table":"public.t","id":null,"s":null}"#,
    ];
    assert_eq!(plains(&lines), expected);
    let xids: Vec<i64> = lines.iter().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["_xid"].as_i64().unwrap()).collect();
    assert!(xids[1] == xids[2] && xids[2] == xids[3] && xids[3] != xids[4], "{xids:?}");

    // Nothing new, and everything again from the earlier place: the same, for the slot had not been told otherwise.
    let (lines, same) = c.run(&next, &pairs);
    assert_eq!((lines.len(), same >= next), (0, true));
    let confirmed: haul_pgwire::Lsn = c.confirmed().parse().unwrap();
    assert_eq!(Place::of(&same).unwrap(), Place::at(confirmed), "the slot stands where everything is acknowledged");
}

#[test]
fn a_restart_inside_a_transaction_goes_on_with_the_next_change() {
    let mut c = Captured::new("CREATE TABLE t (id int PRIMARY KEY)");
    let pairs = [("table", "t"), ("capture", "stream")];
    let (_, at) = c.run(&Position::start(), &pairs);
    c.db.run("INSERT INTO t SELECT generate_series(1, 5)");
    // Read without acknowledging, to learn where the transaction is.
    let planned = c.source(Form::Json, &pairs);
    let mut reader = planned.reader(&at);
    let lines = loop {
        if let Next::Batch(batch) = reader.next().unwrap() {
            let lines = planned.lines(batch.payload).unwrap();
            if !lines.is_empty() {
                break lines;
            }
        }
    };
    drop(reader);
    let ids = |lines: &[String]| {
        lines.iter().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["id"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&lines), [1, 2, 3, 4, 5]);
    let commit: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    let lsn = commit["_lsn"].as_str().unwrap().parse().unwrap();
    for taken in 0..=5u64 {
        let place = Place { lsn, index: taken };
        let mut reader = planned.reader(&place.position());
        let (mut seen, begun) = (Vec::new(), Instant::now());
        // It is not told that anything is durable, so it has no end.
        while begun.elapsed() < Duration::from_millis(if seen.len() as u64 + taken < 5 { 20_000 } else { 100 }) {
            match reader.next().unwrap() {
                Next::Batch(batch) => seen.extend(planned.lines(batch.payload).unwrap()),
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        assert_eq!(ids(&seen), (taken as i64 + 1..=5).collect::<Vec<_>>(), "after {taken}");
    }
}

#[test]
fn an_unchanged_large_value_is_absent_and_not_null() {
    let big = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 600) g)";
    for (identity, kept) in [("DEFAULT", false), ("FULL", true), ("USING INDEX other", false)] {
        let mut c = Captured::new(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL UNIQUE, small int, big text, blob bytea, arr text[]); \
             CREATE UNIQUE INDEX other ON t (k); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; ALTER TABLE t REPLICA IDENTITY {identity}"
        ));
        for events in ["columns", "json"] {
            let pairs = [("table", "t"), ("capture", "stream"), ("events", events)];
            c.db.run("TRUNCATE t");
            let (_, at) = c.run(&Position::start(), &pairs);
            c.db.run(&format!("INSERT INTO t SELECT 1, 1, 0, {big}, decode({big}, 'hex'), ARRAY[{big}, NULL]"));
            c.db.run("UPDATE t SET small = 1");
            c.db.run("UPDATE t SET big = NULL");
            c.db.run("UPDATE t SET id = 2");
            let (lines, _) = c.run(&at, &pairs);
            let rows: Vec<serde_json::Value> = lines.iter().map(|l| serde_json::from_str(l).unwrap()).collect();
            assert_eq!(rows.len(), 4);
            let whole = |i: usize| if events == "json" { rows[i]["_row"].clone() } else { rows[i].clone() };
            let text = whole(0)["big"].as_str().unwrap().to_string();
            assert_eq!(text.len(), 600 * 32);
            let absent = |i: usize, name: &str| match events {
                "json" => whole(i).get(name).is_none(),
                _ => rows[i]["_absent"].as_array().is_some_and(|list| list.iter().any(|n| n == name)) && rows[i][name].is_null(),
            };
            for (i, name) in [(1, "big"), (1, "arr"), (2, "arr"), (3, "arr"), (3, "blob")] {
                assert_eq!(absent(i, name), !kept, "{identity} {events} {i} {name}: {}", &lines[i][..200.min(lines[i].len())]);
            }
            if kept {
                assert_eq!(whole(1)["big"].as_str(), Some(text.as_str()));
            }
            assert!(!absent(2, "big") && whole(2)["big"].is_null(), "{identity} {events}: a NULL is not absent");
            let old = &rows[3]["_old"];
            assert_eq!(old.is_null(), identity == "USING INDEX other", "{identity}: {old}");
            if !old.is_null() {
                assert_eq!(old["id"], 1);
            }
        }
    }
}

#[test]
fn several_tables_interleave_as_they_were_changed() {
    let mut c =
        Captured::new("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, t text); CREATE TABLE unwanted (id int)");
    c.db.run("CREATE PUBLICATION p FOR ALL TABLES");
    let pairs = [("tables", "public.a,b"), ("capture", "stream")];
    let (_, at) = c.run(&Position::start(), &pairs);
    c.db.run("BEGIN; INSERT INTO a VALUES (1); INSERT INTO unwanted VALUES (1); INSERT INTO b VALUES (1, 'x'); INSERT INTO a VALUES (2); TRUNCATE a, b; INSERT INTO b VALUES (3, NULL); COMMIT");
    let (lines, _) = c.run(&at, &pairs);
    let expected = [
        r#"{"_op":"insert","_seq":0,"_table":"public.a","_row":{"id":1}}"#,
        r#"{"_op":"insert","_seq":2,"_table":"public.b","_row":{"id":1,"t":"x"}}"#,
        r#"{"_op":"insert","_seq":3,"_table":"public.a","_row":{"id":2}}"#,
        r#"{"_op":"truncate","_seq":4,"_table":"public.a"}"#,
        r#"{"_op":"truncate","_seq":5,"_table":"public.b"}"#,
        r#"{"_op":"insert","_seq":6,"_table":"public.b","_row":{"id":3,"t":null}}"#,
    ];
    assert_eq!(plains(&lines), expected);
}

#[test]
fn a_table_may_be_altered_while_its_rows_are_objects() {
    let mut c = Captured::new("CREATE TABLE t (id int PRIMARY KEY, b text)");
    let json = [("table", "t"), ("capture", "stream"), ("events", "json")];
    let (_, at) = c.run(&Position::start(), &json);
    c.db.run("INSERT INTO t VALUES (1, 'x')");
    c.db.run("ALTER TABLE t ADD c int DEFAULT 7; INSERT INTO t VALUES (2, 'y', 8)");
    c.db.run("ALTER TABLE t DROP b; ALTER TABLE t RENAME c TO d; ALTER TABLE t ALTER d TYPE bigint; INSERT INTO t VALUES (3, 5000000000)");
    let columns = c.source(Form::Json, &[("table", "t"), ("capture", "stream")]);
    let (lines, at) = c.run(&at, &json);
    let rows: Vec<String> = lines.iter().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["_row"].to_string()).collect();
    assert_eq!(rows, [r#"{"id":1,"b":"x"}"#, r#"{"id":2,"b":"y","c":8}"#, r#"{"id":3,"d":5000000000}"#]);
    // With columns of their own, a column that the job was not planned with stops it, before any row of that shape.
    c.db.run("ALTER TABLE t ADD e text; INSERT INTO t VALUES (4, 4, 'new')");
    let mut reader = columns.reader(&at);
    let error = loop {
        match reader.next().unwrap() {
            Next::Batch(batch) => {
                if let Err(error) = columns.lines(batch.payload) {
                    break error.to_string();
                }
            }
            Next::Idle => std::thread::sleep(Duration::from_millis(2)),
            Next::End => panic!("no error came"),
        }
    };
    assert!(error.contains("the table was altered: it has a column") && error.contains("public.t"), "{error}");
}

/// What lines say of rows, whatever the order.
fn rows(lines: &[String]) -> Vec<&str> {
    let mut rows: Vec<&str> = lines.iter().map(|line| &line[line.find("\"_table\"").unwrap()..]).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn the_zoo_of_types_comes_through_the_stream_as_it_comes_by_copy() {
    let mut c = Captured::new(EXACT);
    let columns = c.db.relation("exact").columns;
    let key = columns[0].name.clone();
    c.db.run("CREATE TABLE source AS TABLE exact");
    c.db.run("TRUNCATE exact");
    for form in ["columns", "json"] {
        let pairs = [("table", "exact"), ("events", form), ("on_lossy", "text"), ("capture", "stream"), ("publication", form)];
        c.db.run("TRUNCATE exact");
        let (_, at) = c.run(&Position::start(), &pairs);
        let writable: Vec<String> =
            columns.iter().filter(|c| !c.generated).map(|c| crate::postgres::catalog::quote_ident(&c.name)).collect();
        let list = writable.join(", ");
        c.db.run(&format!("INSERT INTO exact ({list}) OVERRIDING SYSTEM VALUE SELECT {list} FROM source ORDER BY {key}"));
        let (stream, _) = c.run(&at, &pairs);
        c.drop_slot();
        let pairs = [("table", "exact"), ("events", form), ("on_lossy", "text"), ("capture", "snapshot"), ("publication", form)];
        let (snapshot, _) = c.run(&Position::start(), &pairs);
        let (stream, snapshot) = (rows(&stream), rows(&snapshot));
        assert!(!stream.is_empty());
        for (s, t) in stream.iter().zip(&snapshot) {
            assert_eq!(s, t, "{form}");
        }
        assert_eq!(stream.len(), snapshot.len());
    }
}

#[test]
fn what_cannot_go_on_is_refused_with_its_reason_and_the_ways_out() {
    let mut c = Captured::new(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int); CREATE VIEW v AS TABLE t; CREATE UNLOGGED TABLE w (id int)",
    );
    let refused =
        |c: &Captured, pairs: &[(&str, &str)]| c.open(pairs).map(drop).map_err(|e| format!("{e} | {}", e.hint_text().unwrap_or("")));
    let told = |found: Result<(), String>, words: &[&str]| {
        let error = found.unwrap_err();
        assert!(words.iter().all(|w| error.contains(w)), "{error}");
    };
    told(refused(&c, &[("table", "v")]), &["public.v", "it is a view"]);
    told(refused(&c, &[("table", "w")]), &["public.w", "unlogged"]);
    told(refused(&c, &[("tables", "nothing.*")]), &["no table matches"]);
    told(refused(&c, &[]), &["the publication p is not there"]);
    c.db.run("CREATE PUBLICATION p FOR TABLE t");
    told(
        refused(&c, &[("tables", "t,u")]),
        &["the publication p does not have public.u", "ALTER PUBLICATION \"p\" ADD TABLE \"public\".\"u\""],
    );

    let pairs = [("table", "t")];
    let (_, at) = c.run(&Position::start(), &pairs);
    let fails = |c: &Captured, from: &Position| {
        let planned = c.source(Form::Json, &pairs);
        let mut reader = planned.reader(from);
        let error = reader.next().unwrap_err();
        Err(format!("{error} | {}", error.hint_text().unwrap_or("")))
    };
    // The target knows nothing of a slot that is there.
    told(fails(&c, &Position::start()), &["the slot is there, but the target knows nothing of it", "--capture stream"]);
    // Somebody else has moved the slot on.
    c.db.run("INSERT INTO t VALUES (1)");
    let slot = c.slot.clone();
    c.db.run(&format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())"));
    told(fails(&c, &at), &["the slot was moved on", "by somebody else", "new snapshot"]);
    // It is gone.
    c.drop_slot();
    told(fails(&c, &at), &["the slot is gone", "are lost"]);
    // It is of another plugin.
    c.db.run(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')"));
    told(refused(&c, &pairs), &["of plugin test_decoding", "--slot another name"]);
}

#[test]
fn a_snapshot_that_was_interrupted_begins_again_behind_a_truncate() {
    let mut c = Captured::new(
        "CREATE TABLE t (id int PRIMARY KEY, pad text); INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g",
    );
    let pairs = [("table", "t")];
    let planned = c.source(Form::Json, &pairs);
    let mut reader = planned.reader(&Position::start());
    let (mut at, mut lines, mut spans) = (Position::start(), Vec::new(), Vec::new());
    while lines.is_empty() {
        match reader.next().unwrap() {
            Next::Batch(batch) => {
                at = batch.spans[0].to.clone();
                spans.extend(batch.spans);
                lines = planned.lines(batch.payload).unwrap();
            }
            Next::Idle => reader.ack(&std::mem::take(&mut spans)).unwrap(),
            Next::End => panic!("an end"),
        }
    }
    assert!(lines.len() < 2000, "the snapshot comes in pieces");
    drop(reader);
    c.db.run("DELETE FROM t WHERE id <= 10; INSERT INTO t VALUES (5000, 'late')");
    let (lines, at) = c.run(&at, &pairs);
    let ops = |op: &str| lines.iter().filter(|l| l.contains(&format!("\"_op\":\"{op}\""))).count();
    assert!(lines[0].contains("\"_op\":\"truncate\""), "{}", lines[0]);
    assert_eq!((ops("truncate"), ops("read"), ops("insert"), ops("delete")), (1, 1991, 0, 0));
    c.db.run("DELETE FROM t WHERE id = 5000");
    assert_eq!(c.run(&at, &pairs).0.len(), 1);
}

#[test]
fn the_slot_follows_the_server_while_its_tables_are_quiet() {
    let mut c = Captured::new("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE busy (id int)");
    let pairs = [("table", "t"), ("capture", "stream"), ("follow", "true"), ("heartbeat", "100ms")];
    let planned = c.source(Form::Json, &pairs);
    let mut reader = planned.reader(&Position::start());
    let begun = Instant::now();
    let mut goal = None;
    let mut spans = Vec::new();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "the slot stays at {}", c.confirmed());
        match reader.next().unwrap() {
            Next::Batch(batch) => {
                assert_eq!(planned.lines(batch.payload).unwrap().len(), 0);
                spans.extend(batch.spans);
            }
            Next::Idle => {
                reader.ack(&std::mem::take(&mut spans)).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                if goal.is_none() {
                    c.db.run("INSERT INTO busy SELECT generate_series(1, 1000)");
                    goal = Some(c.db.value("SELECT pg_current_wal_lsn()").parse::<haul_pgwire::Lsn>().unwrap());
                }
                if goal.is_some_and(|goal| c.confirmed().parse::<haul_pgwire::Lsn>().unwrap() >= goal) {
                    break;
                }
            }
            Next::End => panic!("an end"),
        }
    }
    // A change that is not acknowledged holds it.
    c.db.run("INSERT INTO t VALUES (1)");
    let before = c.confirmed();
    let (mut taken, until) = (0, Instant::now() + Duration::from_millis(600));
    while Instant::now() < until || taken == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        match reader.next().unwrap() {
            Next::Batch(batch) => taken += planned.lines(batch.payload).unwrap().len(),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
        if taken > 0 {
            c.db.run("INSERT INTO busy VALUES (1)");
        }
    }
    assert_eq!((taken, c.confirmed()), (1, before));
}
