//! Reading only what is new: every row version once, however late it commits.

use crate::postgres::Site;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn site() -> Site {
    Site::new(
        "create table src (id serial primary key, v text); create table dst (id int, v text); insert into src (v) select 'old' from generate_series(1, 4)",
    )
}

fn run(site: &Site) -> u64 {
    settled(site, "--mode append --cursor id").0
}

/// Runs until nobody is in the way: transactions of other tests' databases that end at the wrong moment count as ours, and then rows wait
/// for the next run. Rows of all runs, and the last result.
fn settled(site: &Site, flags: &str) -> (u64, String) {
    let (mut rows, mut told) = (0, String::new());
    for _ in 0..50 {
        let ran = site.copy(":src", ":dst", flags).ok();
        rows += ran.account().1;
        told.push_str(&ran.err);
        if !ran.err.contains("transactions are going on") {
            return (rows, told);
        }
    }
    panic!("transactions are going on all the time: {told}");
}

/// Runs, until a query gives what it should.
fn until(site: &Site, query: &str, expected: &str) {
    for _ in 0..50 {
        site.copy(":src", ":dst", "--mode append --cursor id").ok();
        if site.sql(query) == expected {
            return;
        }
    }
    assert_eq!(site.sql(query), expected, "{query}");
}

#[test]
fn in_05_rows_that_commit_late_are_not_missed() {
    let site = site();
    assert_eq!(run(&site), 4);
    assert_eq!(run(&site), 0);
    let mut late = site.db.session();
    let mut later = site.db.session();
    late.sql(
        "begin; insert into src (v) values ('late'); savepoint s; insert into src (v) values ('late, in a subtransaction'); release s",
    );
    later.sql("begin");
    site.sql("insert into src (v) values ('early')");
    later.sql("insert into src (v) values ('later')");
    let ran = site.copy(":src", ":dst", "--mode append --cursor id").ok();
    assert!(ran.err.contains("transactions are going on"), "{}", ran.err);
    late.sql("commit");
    until(&site, "select count(*) from dst where v like 'late%' and v <> 'later'", "2");
    later.sql("commit");
    run(&site);
    site.assert_same("src", "dst");
    assert_eq!(run(&site), 0);
    // Nobody else writes now: the next read begins behind the highest value.
    until(&site, "select what ~ 'floor 8\\n' from haul_checkpoint where split = -2", "t");
    let plan = site.plan(":src", ":dst", "--mode append --cursor id").ok().out;
    assert!(plan.contains("one COPY"), "{plan}");
}

#[test]
fn numbers_that_come_from_elsewhere_may_come_late() {
    let site = Site::new(
        "create table src (id int primary key, v text); create table dst (id int, v text); insert into src values (10, 'a'), (20, 'b')",
    );
    assert_eq!(run(&site), 2);
    assert_eq!(run(&site), 0);
    site.sql("insert into src values (15, 'between'), (30, 'c')");
    let (rows, told) = settled(&site, "--mode append --cursor id");
    assert_eq!(rows, 2);
    assert!(told.contains("has no sequence of its own"), "{told}");
    site.assert_same("src", "dst");
}

#[test]
fn changes_come_with_upsert_and_a_time_of_change() {
    let site = Site::new(
        "create table src (id int primary key, v text, changed timestamptz default now()); insert into src select g, 'a' from generate_series(1, 100) g; create table dst (like src including all)",
    );
    let run = || settled(&site, "--mode upsert --key id --cursor changed");
    assert_eq!(run().0, 100);
    site.sql("update src set v = 'b', changed = clock_timestamp() where id % 10 = 0; insert into src values (101, 'new')");
    let (rows, told) = run();
    assert_eq!(rows, 11, "{told}");
    site.assert_same("src", "dst");
}

#[test]
fn writers_without_pause_lose_and_double_nothing() {
    let site = site();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (site, stop) = (&site, &stop);
            scope.spawn(move || {
                let mut session = site.db.session();
                while !stop.load(Relaxed) {
                    // Numbers are taken at the start, and kept for a while.
                    session.sql(&format!("begin; insert into src (v) values ('w{writer}'); savepoint s; insert into src (v) values ('in s'); release s; select pg_sleep(random() * 0.02); insert into src (v) values ('end'); commit"));
                }
            });
        }
        let ran: Vec<i32> = (0..25).map(|_| site.copy(":src", ":dst", "--mode append --cursor id").code).collect();
        stop.store(true, Relaxed);
        assert_eq!(ran, [0; 25]);
    });
    run(&site);
    site.assert_same("src", "dst");
    assert!(site.sql("select count(*) > 100 from dst") == "t");
}

#[test]
fn position_and_rows_are_committed_together() {
    let site = site();
    run(&site);
    site.sql("insert into src (v) values ('new')");
    let (from, to) = (site.table("src"), site.table("dst"));
    let flags = ["copy", &from, &to, "--mode", "upsert", "--key", "id", "--cursor", "id"];
    site.sql("alter table dst add primary key (id)");
    assert_eq!(site.dir.failing("final-before-commit", &flags).code, -1);
    assert_eq!(site.sql("select count(*) from dst"), "4");
    assert_eq!(site.dir.failing("final-after-commit", &flags).code, -1);
    let there: u64 = site.sql("select count(*) from dst").parse().unwrap();
    assert_eq!(there + settled(&site, "--mode upsert --key id --cursor id").0, 5, "what is there is not brought again");
    site.assert_same("src", "dst");
}

#[test]
fn a_view_needs_a_lag_and_reads_up_to_it() {
    let site = Site::new(
        "create table t (id int, at timestamptz); insert into t select g, '2026-01-01 00:00:00+00'::timestamptz + g * interval '1 min' from generate_series(1, 60) g; create view v as select * from t; create table dst (id int, at timestamptz)",
    );
    let ran = site.copy(":v", ":dst", "--mode append --cursor at").failed_config();
    assert!(ran.err.contains("rows that commit late would be missed") && ran.err.contains("cursor_lag=5min"), "{}", ran.err);
    let run = |site: &Site| site.copy(":v", ":dst", "--mode append --cursor at --cursor-lag 10min").ok().account().1;
    assert_eq!(run(&site), 50);
    site.sql("insert into t values (70, '2026-01-01 01:10:00+00'), (51, '2026-01-01 00:51:30+00')");
    assert_eq!(run(&site), 11);
    assert_eq!(run(&site), 0);
    assert_eq!(site.sql("select count(*), count(distinct id), max(id) from dst"), "61|60|60");
}

#[test]
fn a_backfill_fills_a_gap_and_leaves_the_position() {
    let site = site();
    run(&site);
    site.sql("delete from dst where id in (2, 3)");
    let ran = site.copy(":src", ":dst", "--mode append --cursor id --backfill 2..4").ok();
    assert_eq!(ran.account().1, 2);
    site.assert_same("src", "dst");
    assert_eq!(run(&site), 0);
    let ran = site.copy(":src", ":dst", "--mode append --cursor id --backfill 2");
    assert!(ran.code == 2 && ran.err.contains("FROM..TO"), "{ran:?}");
}

#[test]
fn targets_that_would_lose_earlier_rows_are_refused() {
    let site = site();
    for (to, flags) in [(":dst", "--mode replace"), (":dst", "--mode truncate"), ("out.csv", "")] {
        let ran = site.copy(":src", to, &format!("{flags} --cursor id"));
        assert!(ran.code == 2 && ran.err.contains("what is new"), "{ran:?}");
        assert!(ran.err.contains("mode=append"), "{ran:?}");
    }
    let ran = site.copy(":src", ":dst", "--mode append --cursor idd");
    assert!(ran.code == 1 && ran.err.contains("did you mean \"id\""), "{ran:?}");
    // A role that may not look at others' transactions reads the same rows.
    let mut site = site;
    let role = site.db.role("pw", "");
    site.sql(&format!("grant select on src to {role}; grant select, insert on dst to {role}; grant create on schema public to {role}; grant usage on schema public to {role}"));
    let (from, to) = (format!("{}?table=src", site.db.url_of(&role, "pw")), format!("{}?table=dst", site.db.url_of(&role, "pw")));
    let mut idle = site.db.session();
    idle.sql("begin; select 1");
    for all in ["4", "5"] {
        for _ in 0..50 {
            site.dir.haul(&["copy", &from, &to, "--mode", "append", "--cursor", "id"]).ok();
            if site.sql("select count(*) from dst") == all {
                break;
            }
        }
        assert_eq!(site.sql("select count(*), count(distinct id) from dst"), format!("{all}|{all}"));
        site.sql("insert into src (v) values ('more')");
    }
}
