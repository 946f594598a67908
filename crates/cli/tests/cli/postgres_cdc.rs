//! Changes from one database applied to another: whatever happens at the source, and whatever happens to haul, after a drain both are the same.

use crate::runner::{Folder, Ran, full};
use haul_testkit::pg::Scratch;
use std::process::Child;
use std::time::{Duration, Instant};

/// A source, a target, and the slot between them.
struct Pair {
    dir: Folder,
    slot: String,
    source: Scratch,
    target: Scratch,
}

impl Pair {
    /// Runs `sql` in both.
    fn new(sql: &str) -> Self {
        Self::between(Scratch::new(), sql)
    }

    fn between(source: Scratch, sql: &str) -> Self {
        let target = Scratch::new();
        source.sql(sql);
        target.sql(sql);
        Self { dir: Folder::new(), slot: source.database.replace("haul_", "haul_c_"), source, target }
    }

    fn from(&self, tables: &str) -> String {
        let url = self.source.url().replace("postgres://", "postgres-cdc://");
        format!("{url}?tables={tables}&slot={}&publication=pub", self.slot)
    }

    fn arguments(&self, tables: &str, flags: &str) -> Vec<String> {
        let mut arguments = vec!["copy".to_string(), self.from(tables), self.target.url()];
        arguments.extend(flags.split_whitespace().map(str::to_string));
        arguments
    }

    fn run(&self, tables: &str, flags: &str) -> Ran {
        let arguments = self.arguments(tables, flags);
        self.dir.haul(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn start(&self, tables: &str, flags: &str) -> Child {
        let arguments = self.arguments(tables, flags);
        self.dir.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Both hold the same rows in a table, as text.
    #[track_caller]
    fn assert_same(&self, table: &str) {
        let rows = |db: &Scratch| db.sql(&format!("select x::text from {table} x order by 1"));
        let (source, target) = (rows(&self.source), rows(&self.target));
        if source != target {
            let only = |a: &str, b: &str| {
                let b: std::collections::HashSet<&str> = b.lines().collect();
                a.lines().filter(|l| !b.contains(l)).take(5).map(|l| format!("{:.300}\n", l)).collect::<String>()
            };
            panic!(
                "{table} differs ({} and {} rows)\nonly in the source:\n{}only in the target:\n{}",
                source.lines().count(),
                target.lines().count(),
                only(&source, &target),
                only(&target, &source)
            );
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let drop = format!(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '{0}' and active; \
             select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '{0}' and not active",
            self.slot
        );
        let left = format!("select count(*) from pg_replication_slots where slot_name = '{}'", self.slot);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) && self.source.try_sql(&left).is_ok_and(|n| n != "0") {
            let _ = self.source.try_sql(&drop);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The linear congruential generator of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const TABLES: &str = "create table a (id int primary key, n numeric, small int, big text, j jsonb); alter table a alter big set storage external; \
    create table b (x int, y text, code text unique, primary key (x, y)); \
    create table c (v int, t text); \
    create table d (v int, f float8, t text); alter table d replica identity full; \
    create table e (id int primary key, big text); alter table e replica identity full; alter table e alter big set storage external";

/// One statement of a random transaction. What it may not do (a key that is there) is forgiven, in a savepoint of its own.
fn statement(random: &mut Random) -> String {
    let (k, m, n) = (random.below(60), random.below(60), random.below(1000));
    let big = format!("(select string_agg(md5((g * {n})::text), '') from generate_series(1, {}) g)", 70 + random.below(40));
    let sql = match random.below(24) {
        0..=3 => format!("insert into a values ({k}, {n}.50, {m}, {big}, '{{\"k\": [{n}, null]}}') on conflict do nothing"),
        4 | 5 => format!("update a set small = {n} where id = {k}"),
        6 => format!("update a set big = {big} where id between {k} and {k} + 5"),
        7 => format!("update a set id = {m} where id = {k}"),
        8 => format!("update a set id = id + 100, small = {n} where id = {k}; update a set id = id - 100 where id = {k} + 100"),
        9 => format!("delete from a where id = {k}"),
        10 => format!("update a set n = null, j = null where id % 7 = {}", k % 7),
        11 => format!("insert into b values ({}, 'y{}', 'c{k}') on conflict do nothing", k % 8, m % 8),
        12 => format!(
            "update b set code = 'swap' where code = 'c{k}'; update b set code = 'c{k}' where code = 'c{m}'; update b set code = 'c{m}' where code = 'swap'"
        ),
        13 => format!("update b set y = 'it''s \\ {n}' where x = {}", k % 8),
        14 => format!("delete from b where x = {}", k % 8),
        15 => format!("insert into c select g, E'line\\n\\t{n}' from generate_series(1, {}) g", 1 + k),
        16 => format!("insert into d values ({k}, {n} / 3.0, null), ({k}, 'NaN', 't'), ({k}, {n} / 3.0, null)"),
        17 => format!("update d set t = 'u{n}' where ctid = (select min(ctid) from d where v = {k})"),
        18 => format!("delete from d where ctid = (select min(ctid) from d where v = {k})"),
        19 => format!("insert into e values ({k}, {big}) on conflict (id) do update set big = excluded.big"),
        20 => format!("update e set id = {m} where id = {k}"),
        21 => format!(
            "insert into a select g, g, 0, null, null from generate_series(1000 + {n}, 1000 + {n} + {}) g on conflict do nothing",
            random.below(300)
        ),
        22 => format!("delete from a where id >= 1000 + {n}"),
        _ if random.below(6) == 0 => ["truncate a", "truncate b, c", "truncate e"][random.below(3) as usize].to_string(),
        _ => "update a set small = small + 1 where id % 3 = 0".to_string(),
    };
    format!("do $do$ begin {sql}; exception when others then null; end $do$;\n")
}

fn transaction(random: &mut Random) -> String {
    let mut sql = "begin;\n".to_string();
    for _ in 0..=random.below(6) {
        sql.push_str(&statement(random));
    }
    if random.below(4) == 0 {
        sql.push_str("savepoint s;\n");
        sql.push_str(&statement(random));
        sql.push_str("rollback to s;\n");
        sql.push_str(&statement(random));
    }
    sql.push_str(if random.below(8) == 0 { "rollback;\n" } else { "commit;\n" });
    sql
}

/// Runs random transactions in two sessions at the same time.
fn storm(source: &Scratch, seed: u64, transactions: usize) {
    std::thread::scope(|scope| {
        for session in 0..2 {
            scope.spawn(move || {
                let mut random = Random(seed * 7919 + session);
                let script: String = (0..transactions).map(|_| transaction(&mut random)).collect();
                source.sql(&script);
            });
        }
    });
}

fn seeds(few: u64, many: u64) -> std::ops::Range<u64> {
    1..1 + if full() { many } else { few }
}

fn compare(pair: &Pair) {
    for table in ["a", "b", "c", "d", "e"] {
        pair.assert_same(table);
    }
}

#[test]
fn after_a_drain_the_target_is_the_source() {
    for seed in seeds(5, 50) {
        let pair = Pair::new(TABLES);
        storm(&pair.source, seed, 20);
        pair.run("public.*", "").ok();
        compare(&pair);
        storm(&pair.source, seed + 1000, 60);
        let ran = pair.run("public.*", "").ok();
        compare(&pair);
        let (read, written, rejected) = ran.account();
        assert!(read > 0 && read == written && rejected == 0, "{ran:?}");
        let again = pair.run("public.*", "").ok();
        assert_eq!(again.account(), (0, 0, 0), "seed {seed}: nothing comes twice");
    }
}

#[test]
fn a_newer_server_is_read_too() {
    let pair = Pair::between(Scratch::on_18(), TABLES);
    storm(&pair.source, 77, 20);
    pair.run("public.*", "").ok();
    storm(&pair.source, 78, 40);
    pair.run("public.*", "").ok();
    compare(&pair);
}

#[test]
fn kill_9_at_any_moment_loses_nothing_and_doubles_nothing() {
    for seed in seeds(5, 50) {
        let pair = Pair::new(TABLES);
        storm(&pair.source, seed, 40);
        let mut random = Random(seed);
        for round in 0..8 {
            let mut child = pair.start("public.*", "--follow");
            let moment = Duration::from_millis(20 + random.below(400));
            std::thread::scope(|scope| {
                scope.spawn(|| storm(&pair.source, seed * 100 + round, 8));
                std::thread::sleep(moment);
                child.kill().unwrap();
            });
            let output = child.wait_with_output().unwrap();
            assert!(output.status.code().is_none(), "seed {seed}: it ended by itself: {}", String::from_utf8_lossy(&output.stderr));
        }
        pair.run("public.*", "").ok();
        compare(&pair);
    }
}

#[test]
fn a_crash_at_each_step_is_gone_on_from() {
    let pair = Pair::new("create table t (id int primary key, v text)");
    pair.source.sql("insert into t select g, g from generate_series(1, 500) g");
    let arguments = pair.arguments("t", "");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for (n, place) in [
        "cdc-before-slot",
        "cdc-after-slot",
        "apply-before-mark",
        "apply-before-commit",
        "apply-after-commit",
        "cdc-before-confirm",
        "cdc-after-confirm",
    ]
    .iter()
    .enumerate()
    {
        let ran = pair.dir.failing(place, &arguments);
        assert_ne!(ran.code, 0, "{place}: {ran:?}");
        pair.source.sql(&format!("insert into t values ({}, 'new'); update t set v = 'u{n}' where id % 5 = {}", 1000 + n, n % 5));
    }
    pair.run("t", "").ok();
    pair.assert_same("t");
    assert_eq!(pair.run("t", "").ok().account(), (0, 0, 0));
}

#[test]
fn keys_that_move_swap_and_come_back() {
    let pair = Pair::new(
        "create table t (id int primary key, code text unique, big text); alter table t alter big set storage external; create table n (a int, b text)",
    );
    pair.source.sql("insert into t values (1, 'A', repeat('x', 20000)), (2, 'B', repeat('y', 20000)), (7, 'G', 'small')");
    pair.source.sql("insert into n values (1, 'x'), (1, 'x')");
    pair.run("t,n", "").ok();
    for table in ["t", "n"] {
        pair.assert_same(table);
    }
    for step in [
        // Unique values are swapped through a third one.
        "begin; update t set code = 'TEMP' where id = 1; update t set code = 'A' where id = 2; update t set code = 'B' where id = 1; commit",
        // A row with an untouched large value moves.
        "update t set id = 1001 where id = 1",
        // Two keys are swapped.
        "begin; update t set id = -1 where id = 1001; update t set id = 1001 where id = 2; update t set id = 2 where id = -1; commit",
        "begin; insert into t values (3001, 'c', 'd'); update t set id = 3002 where id = 3001; delete from t where id = 3002; commit",
        "begin; delete from t where id = 7; insert into t values (7, 'again', null); update t set code = 'G' where id = 7; commit",
        "insert into n select 2, null from generate_series(1, 200)",
        "begin; insert into t values (50, '50', ''); truncate t; insert into t values (51, '51', ''); commit",
        "insert into t select g, g, repeat('z', 3000) from generate_series(100, 400) g",
        "update t set code = code || '!' where id > 100",
        "delete from t where id % 2 = 0",
        "update t set id = id + 10000 where id > 200",
    ] {
        pair.source.sql(step);
        pair.run("t,n", "").ok();
        for table in ["t", "n"] {
            pair.assert_same(table);
        }
    }
}

#[test]
fn tables_without_a_key_keep_their_doubles() {
    let pair = Pair::new("create table n (a int, b text, f float8, j json); alter table n replica identity full");
    pair.run("n", "").ok();
    for step in [
        "insert into n values (1, null, 'NaN', '{\"a\":1}'), (1, null, 'NaN', '{\"a\":1}'), (1, null, 'NaN', '{\"a\":1}')",
        "update n set a = 2 where ctid = (select min(ctid) from n)",
        "delete from n where ctid = (select max(ctid) from n)",
        "update n set b = 'both'",
        "delete from n",
    ] {
        pair.source.sql(step);
        pair.run("n", "").ok();
        pair.assert_same("n");
    }
    // Without any identity only new rows can be sent, and that is said.
    let pair = Pair::new("create table n (a int)");
    let plan = pair.dir.haul(&["plan", &pair.from("n"), &pair.target.url()]).ok();
    assert!(plan.out.contains("public.n: it has no replica identity"), "{}", plan.out);
    pair.source.sql("insert into n values (1)");
    pair.run("n", "").ok();
    pair.source.sql("insert into n values (2), (2)");
    let refused = pair.source.try_sql("update n set a = 3").unwrap_err();
    assert!(refused.contains("replica identity"), "{refused}");
    pair.run("n", "").ok();
    pair.assert_same("n");
}

#[test]
fn the_zoo_of_types_is_applied_bit_for_bit() {
    let exact = include_str!("../../../../tests/fixtures/exact.sql");
    let pair = Pair::new(exact);
    pair.target.sql("truncate exact");
    pair.run("exact", "").ok();
    pair.assert_same("exact");
    let columns = pair.source.sql(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute where attrelid = 'exact'::regclass and attnum > 0 \
         and not attisdropped and attgenerated = ''",
    );
    pair.source.sql("create table kept as table exact");
    pair.source.sql("delete from exact");
    pair.run("exact", "").ok();
    assert_eq!(pair.target.sql("select count(*) from exact"), "0");
    pair.source.sql(&format!("insert into exact ({columns}) overriding system value select {columns} from kept"));
    pair.run("exact", "").ok();
    pair.assert_same("exact");
    let floats = "select coalesce(string_agg(encode(float8send(x::float8), 'hex'), ',' order by x), '') from (select unnest(array[0.1::float8, 'NaN', '-0', 'Infinity']) x) s";
    assert_eq!(pair.source.sql(floats), pair.target.sql(floats));
}

#[test]
fn what_the_source_alters_stops_or_is_followed() {
    let pair = Pair::new("create table t (id int primary key)");
    pair.run("t", "").ok();
    pair.source.sql("insert into t values (1); alter table t add c int default 7; insert into t values (2, 8)");
    let ran = pair.run("t", "").failed();
    assert!(ran.err.contains("the source's table has a column c of type integer, and the target's has not"), "{}", ran.err);
    assert!(ran.err.contains("--schema-changes add"), "{}", ran.err);
    pair.run("t", "--schema-changes add").ok();
    assert_eq!(pair.target.sql("select * from t order by id"), "1|<NULL>\n2|8");
    // A type that would round is not written to.
    pair.source.sql("alter table t add n numeric(10,2)");
    pair.target.sql("alter table t add n numeric(10,2)");
    pair.source.sql("insert into t values (10, 1, 1.25); alter table t alter n type numeric(12,4); insert into t values (11, 1, 1.2345)");
    let ran = pair.run("t", "").failed();
    assert!(ran.err.contains("the source's column is of type numeric(12,4), and the target's of numeric(10,2)"), "{}", ran.err);
    assert!(ran.err.contains("ALTER TABLE \"public\".\"t\" ALTER \"n\" TYPE numeric(12,4)"), "{}", ran.err);
    pair.target.sql("alter table t alter n type numeric(12,4)");
    pair.run("t", "").ok();
    assert_eq!(pair.target.sql("select n from t where id >= 10 order by id"), "1.2500\n1.2345");
    pair.source.sql("delete from t where id >= 10");
    pair.run("t", "").ok();
    pair.source.sql("alter table t drop n");
    pair.target.sql("alter table t drop n");
    // A column that goes away leaves what is there alone, and a table may be made.
    pair.source.sql("alter table t drop c; insert into t values (3)");
    pair.run("t", "").ok();
    assert_eq!(pair.target.sql("select * from t order by id"), "1|<NULL>\n2|8\n3|<NULL>");
}

#[test]
fn a_target_is_made_filled_and_kept_from_its_own_source() {
    let pair = Pair::new("");
    pair.source.sql("create table t (id bigint primary key, v numeric(10,2)); insert into t values (1, 1.5)");
    let ran = pair.run("t", "").refused();
    assert!(ran.err.contains("the target has no table public.t for the changes of public.t"), "{}", ran.err);
    pair.run("t", "--create").ok();
    pair.source.sql("update t set v = 2");
    pair.run("t", "").ok();
    pair.assert_same("t");
    // Rows that are there already are not silently mixed with a snapshot.
    let other = Pair::new("create table t (id int primary key); insert into t values (1)");
    let ran = other.run("t", "").failed();
    assert!(ran.err.contains("the table has rows already"), "{}", ran.err);
    other.run("t", "--mode truncate").ok();
    other.assert_same("t");
    // A stream into its own tables would never end.
    let from = other.from("t");
    let ran = other.dir.haul(&["copy", &from, &other.source.url()]).refused();
    assert!(ran.err.contains("the target is the source"), "{}", ran.err);
}

#[test]
fn a_stream_that_is_followed_applies_at_once_and_stops_when_it_is_told_to() {
    let pair = Pair::new("create table t (id int primary key, v text)");
    let mut child = pair.start("t", "--follow");
    let until = |what: &str, there: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !there() {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let slot = format!("select count(*) from pg_replication_slots where slot_name = '{}' and active", pair.slot);
    until("the slot", &|| pair.source.sql(&slot) == "1");
    for n in 0..5 {
        pair.source.sql(&format!("insert into t values ({n}, 'v{n}')"));
        until("the row", &|| pair.target.sql("select count(*) from t") == (n + 1).to_string());
    }
    assert!(std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    pair.assert_same("t");
    assert_eq!(pair.run("t", "").ok().account(), (0, 0, 0));
}

#[test]
fn a_stream_tells_how_it_stands_and_leaves_nothing_behind() {
    let pair = Pair::new("create table t (id int primary key)");
    let url = pair.source.url().replace("postgres://", "postgres-cdc://") + "?table=t";
    let none = pair.dir.haul(&["cdc", "status", &url]).refused();
    assert!(none.err.contains("there is neither a slot haul_"), "{}", none.err);
    pair.dir.haul(&["copy", &url, &pair.target.url()]).ok();
    pair.source.sql("insert into t select generate_series(1, 1000)");
    let status = pair.dir.haul(&["cdc", "status", &url]).ok();
    for told in ["ok  publication", "ok  slot", "nobody reads it", "bytes of log", "is confirmed"] {
        assert!(status.out.contains(told), "{told}: {}", status.out);
    }
    let json = pair.dir.haul(&["cdc", "status", &url, "--json"]).ok();
    assert!(json.out.contains(r#"{"what":"reader","ok":null,"found":"nobody reads it"}"#), "{}", json.out);
    let dropped = pair.dir.haul(&["cdc", "drop", &url]).ok();
    assert!(dropped.out.contains("dropped slot haul_") && dropped.out.contains("dropped publication haul_"), "{}", dropped.out);
    assert_eq!(pair.source.sql("select count(*) from pg_publication"), "0");
    assert_eq!(pair.source.sql("select count(*) from pg_replication_slots where database = current_database()"), "0");
    let gone = pair.dir.haul(&["copy", &url, &pair.target.url()]).refused();
    assert!(gone.err.contains("the slot is gone"), "{}", gone.err);
}
