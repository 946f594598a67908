//! Reading only what is new: every row version once, however late it commits.

use crate::postgres::Site;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn site() -> Site {
    Site::new(
        "create table src (id serial primary key, v text); create table dst (id int, v text); insert into src (v) select 'old' from generate_series(1, 4)",
    )
}

fn run(site: &Site) -> u64 {
    site.copy(":src", ":dst", "--mode append --cursor id").ok().account().1
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
    run(&site);
    assert_eq!(site.sql("select count(*) from dst where v like 'late%' and v <> 'later'"), "2");
    later.sql("commit");
    run(&site);
    site.assert_same("src", "dst");
    assert_eq!(run(&site), 0);
    // Nobody else writes now: the next read begins behind the highest value.
    let plan = site.plan(":src", ":dst", "--mode append --cursor id").ok().out;
    assert!(plan.contains("one COPY"), "{plan}");
    assert!(site.sql("select what from haul_checkpoint where split = -2").contains("floor 8"));
}

#[test]
fn numbers_that_come_from_elsewhere_may_come_late() {
    let site = Site::new(
        "create table src (id int primary key, v text); create table dst (id int, v text); insert into src values (10, 'a'), (20, 'b')",
    );
    assert_eq!(run(&site), 2);
    assert_eq!(run(&site), 0);
    site.sql("insert into src values (15, 'between'), (30, 'c')");
    let ran = site.copy(":src", ":dst", "--mode append --cursor id").ok();
    assert_eq!(ran.account().1, 2);
    assert!(ran.err.contains("has no sequence of its own"), "{}", ran.err);
    site.assert_same("src", "dst");
}

#[test]
fn changes_come_with_upsert_and_a_time_of_change() {
    let site = Site::new(
        "create table src (id int primary key, v text, changed timestamptz default now()); insert into src select g, 'a' from generate_series(1, 100) g; create table dst (like src including all)",
    );
    let run = || site.copy(":src", ":dst", "--mode upsert --key id --cursor changed").ok();
    assert_eq!(run().account().1, 100);
    site.sql("update src set v = 'b', changed = clock_timestamp() where id % 10 = 0; insert into src values (101, 'new')");
    let ran = run();
    assert_eq!(ran.account().1, 11);
    assert!(ran.err.contains("inserted 1  updated 10"), "{}", ran.err);
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
    assert_eq!(site.sql("select count(*) from dst"), "5");
    assert_eq!(site.dir.haul(&flags).ok().account().1, 0);
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
    for (rows, sql) in [(4, "insert into src (v) values ('more')"), (1, "select 1"), (0, "select 1")] {
        let ran = site.dir.haul(&["copy", &from, &to, "--mode", "append", "--cursor", "id"]).ok();
        assert_eq!(ran.account().1, rows, "{}", ran.err);
        site.sql(sql);
    }
}
