//! Connections that break while both servers are well, and a server that is gone for a while: tried again, or failed in time with what to
//! do next. Never hung, never a row too many or too few.

use crate::postgres::Site;
use crate::postgres_resume::{copied, left_tables, notes, site};
use crate::runner::Ran;
use haul_testkit::instance::Instance;
use haul_testkit::proxy::{How, Proxy, When};
use std::time::{Duration, Instant};

const SUM: &str = "120000|7200060000";
/// Small waits, so that the tests are quick; and silence is noticed.
const QUICK: &str = "--retry-wait 20ms --idle-timeout 2s --connect-timeout 5s";

/// A table of the site's database through a proxy.
fn through(site: &Site, proxy: &Proxy, table: &str) -> String {
    site.table(table).replace(&format!(":{}/", site.db.server.port), &format!(":{}/", proxy.port)) + "&sslmode=disable"
}

fn run(site: &Site, from: &str, to: &str, flags: &str) -> Ran {
    let mut arguments = vec!["copy", from, to];
    arguments.extend(flags.split_whitespace().chain(QUICK.split_whitespace()));
    let begun = Instant::now();
    let ran = site.dir.haul(&arguments);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}: {ran:?}", begun.elapsed());
    ran
}

#[test]
fn a_target_connection_that_breaks_is_tried_again() {
    let site = site();
    for how in [How::Close, How::Reset, How::Stall] {
        for flags in ["--mode replace --degree 2", "--mode append --degree 2", "--mode append --degree 1"] {
            site.sql("truncate dst");
            let proxy = Proxy::to(site.db.server.port);
            // In the middle of the COPY of three lanes, one after the other.
            proxy.break_at(When::Sent(2 << 20), how, 2);
            let ran = run(&site, &site.table("src"), &through(&site, &proxy, "dst"), flags).ok();
            assert_eq!(proxy.broken(), 2, "{how:?} {flags}");
            assert_eq!(ran.account(), (120_000, 120_000, 0), "{how:?} {flags}");
            assert_eq!(copied(&site), SUM, "{how:?} {flags}");
            assert_eq!(left_tables(&site), "");
        }
    }
}

#[test]
fn a_source_connection_that_breaks_is_tried_again_under_the_same_snapshot() {
    let site = site();
    for how in [How::Close, How::Reset, How::Stall] {
        let proxy = Proxy::to(site.db.server.port);
        proxy.break_at(When::Received(1 << 20), how, 1);
        let ran = run(&site, &through(&site, &proxy, "src"), &site.table("dst"), "--mode replace --degree 2").ok();
        assert_eq!(proxy.broken(), 1, "{how:?}");
        assert_eq!(ran.account(), (120_000, 120_000, 0), "{how:?}");
        assert_eq!(copied(&site), SUM, "{how:?}");
    }
}

#[test]
fn a_target_that_stays_away_is_one_clear_error_and_keeps_what_it_has() {
    let site = site();
    let proxy = Proxy::to(site.db.server.port);
    site.sql("insert into dst values (-1, 'old')");
    // Every connection that copies breaks, but not before some splits are in.
    proxy.break_at(When::Sent(7 << 20), How::Close, u32::MAX);
    let (from, to) = (site.table("src"), through(&site, &proxy, "dst"));
    let ran = run(&site, &from, &to, "--mode replace --degree 2 --retries 0").failed();
    assert!(ran.err.contains("splits are committed: the same command with --resume goes on, haul state clean removes them"), "{}", ran.err);
    assert_eq!(copied(&site), "1|-1");
    assert!(notes(&site).parse::<u32>().unwrap() > 0);
    proxy.break_at(When::Sent(usize::MAX), How::Close, 0);
    let ran = run(&site, &from, &to, "--mode replace --degree 2 --resume").ok();
    assert!(ran.err.contains("goes on with an earlier run"), "{}", ran.err);
    assert_eq!(copied(&site), SUM);
    assert_eq!((left_tables(&site).as_str(), notes(&site).as_str()), ("", "0"));
}

#[test]
fn re_02_a_commit_whose_question_or_answer_is_lost_is_done_once() {
    let site = site();
    for (when, how) in [
        (When::Before("COMMIT"), How::Close),
        (When::After("COMMIT"), How::Close),
        (When::After("COMMIT"), How::Reset),
        (When::After("COMMIT"), How::Stall),
        (When::Before("COMMIT"), How::Stall),
    ] {
        for flags in ["--mode append --commit split --degree 2", "--mode replace --degree 2", "--mode truncate --degree 2"] {
            site.sql("truncate dst");
            let proxy = Proxy::to(site.db.server.port);
            proxy.break_marked("FROM STDIN", when.clone(), how, 3);
            let ran = run(&site, &site.table("src"), &through(&site, &proxy, "dst"), flags);
            assert_eq!((ran.code, proxy.broken()), (0, 3), "{when:?} {how:?} {flags}: {}", ran.err);
            assert_eq!(ran.account(), (120_000, 120_000, 0), "{when:?} {how:?} {flags}");
            assert_eq!(copied(&site), SUM, "{when:?} {how:?} {flags}");
            site.assert_same("src", "dst");
        }
    }
}

#[test]
fn re_02_the_answer_to_the_very_last_commit_may_be_lost() {
    let site = site();
    for (when, flags, done) in [
        (When::After("COMMIT"), "--mode replace --degree 1", true),
        (When::After("COMMIT"), "--mode truncate --degree 1", true),
        (When::Before("COMMIT"), "--mode replace --degree 1", false),
        (When::Before("COMMIT"), "--mode truncate --degree 1", false),
    ] {
        site.sql("truncate dst; insert into dst values (-1, 'old')");
        let proxy = Proxy::to(site.db.server.port);
        proxy.break_marked("LOCK TABLE", when.clone(), How::Close, 1);
        let ran = run(&site, &site.table("src"), &through(&site, &proxy, "dst"), flags);
        assert_eq!(proxy.broken(), 1, "{when:?} {flags}");
        if done {
            ran.ok();
            assert_eq!(copied(&site), SUM, "{when:?} {flags}");
        } else {
            ran.failed();
            assert_eq!(copied(&site), "1|-1", "{when:?} {flags}");
        }
        assert_eq!(left_tables(&site), "", "{when:?} {flags}");
    }
}

#[test]
fn a_backend_that_is_ended_is_replaced() {
    let site = site();
    // A trigger slows the rows down, so that there is something to end.
    site.sql("create function slow() returns trigger language plpgsql as 'begin if new.id % 5000 = 0 then perform pg_sleep(0.02); end if; return new; end'; create trigger t before insert on dst for each row execute function slow()");
    let child =
        site.dir.start(&["copy", &site.table("src"), &site.table("dst"), "--mode", "append", "--degree", "2", "--retry-wait", "20ms"]);
    let busy = "from pg_stat_activity where datname = current_database() and query like 'COPY%FROM STDIN%' and pid <> pg_backend_pid()";
    let begun = Instant::now();
    while site.sql(&format!("select count(*) {busy}")) == "0" {
        assert!(begun.elapsed() < Duration::from_secs(20), "no COPY came");
        std::thread::sleep(Duration::from_millis(10));
    }
    site.sql(&format!("select pg_terminate_backend(pid) from (select pid {busy} limit 1) q"));
    let ran = site.dir.ran(child.wait_with_output().unwrap()).ok();
    assert_eq!(ran.account(), (120_000, 120_000, 0));
    assert_eq!(copied(&site), SUM);
}

#[test]
fn op_06_a_deadlock_is_tried_again() {
    let site = Site::new(
        "create table src (id int, pad text); insert into src values (2, 'new'); \
         create table dst (id int primary key, pad text); create table other (id int primary key); insert into other values (1); \
         create function f() returns trigger language plpgsql as 'begin perform pg_sleep(1); update other set id = id; return new; end'; \
         create trigger t after insert on dst for each row execute function f()",
    );
    site.sql("alter system set deadlock_timeout = '100ms'; select pg_reload_conf()");
    let mut rival = site.db.session();
    rival.sql("set deadlock_timeout = '1h'; begin; update other set id = id");
    let child = site.dir.start(&["copy", &site.table("src"), &site.table("dst"), "--mode", "append", "--retry-wait", "20ms"]);
    let begun = Instant::now();
    while site.sql("select count(*) from pg_stat_activity where datname = current_database() and query like 'COPY%FROM STDIN%' and wait_event = 'PgSleep'") == "0" {
        assert!(begun.elapsed() < Duration::from_secs(20), "no COPY came");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The rival wants the row that the load has inserted, and the load wants the row that the rival holds: the load is chosen.
    rival.send("insert into dst values (2, 'rival') on conflict (id) do nothing; delete from dst; commit");
    let ran = site.dir.ran(child.wait_with_output().unwrap());
    rival.wait();
    site.sql("alter system reset deadlock_timeout; select pg_reload_conf()");
    assert_eq!(ran.ok().account(), (1, 1, 0));
    assert_eq!(site.sql("select * from dst"), "2|new");
}

#[test]
fn a_server_that_stops_at_once_loses_nothing_that_was_noted() {
    let site = site();
    let server = Instance::new();
    for (ddl, flags, unlogged) in [
        ("create table dst (id bigint, pad text)", "--mode replace --degree 2", false),
        ("create table dst (id bigint, pad text)", "--mode append --commit split --degree 2", false),
        ("create unlogged table dst (id bigint, pad text)", "--mode append --commit split --degree 2", true),
        // Emptying and refilling goes through an UNLOGGED staging table.
        ("create table dst (id bigint, pad text)", "--mode truncate --degree 2", true),
    ] {
        server.sql(&format!("drop table if exists dst, haul_checkpoint, haul_checkpoint_unlogged; {ddl}"));
        let proxy = Proxy::to(server.port);
        // Both lanes hang when some splits are in.
        proxy.break_at(When::Sent(9 << 20), How::Stall, 2);
        let (from, to) = (site.table("src"), server.table(proxy.port, "dst"));
        let mut arguments = vec!["copy", &from, &to];
        arguments.extend(flags.split_whitespace());
        let mut failing = arguments.clone();
        failing.extend("--retries 1 --retry-wait 20ms --idle-timeout 3s".split_whitespace());
        let child = site.dir.start(&failing);
        let begun = Instant::now();
        while proxy.broken() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{flags}: the lanes did not come so far");
            std::thread::sleep(Duration::from_millis(10));
        }
        let table = if unlogged { "haul_checkpoint_unlogged" } else { "haul_checkpoint" };
        let noted = server.sql(&format!("select count(*) from {table}"));
        assert_ne!(noted, "0", "{flags}");
        server.stop_immediately();
        let ran = site.dir.ran(child.wait_with_output().unwrap()).failed();
        assert!(ran.err.contains("with --resume goes on"), "{flags}: {}", ran.err);
        server.start();
        let found = server.sql(&format!("select count(*) from {table}"));
        assert_eq!(found, if unlogged { "0".to_string() } else { noted }, "{flags}: an UNLOGGED table is emptied, its notes with it");
        arguments.push("--resume");
        let ran = site.dir.haul(&arguments).ok();
        assert_eq!(ran.account(), (120_000, 120_000, 0), "{flags}");
        assert_eq!(server.sql("select count(*), sum(id) from dst"), SUM, "{flags}: {}", ran.err);
    }
}
