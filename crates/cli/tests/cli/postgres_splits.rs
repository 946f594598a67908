//! Reads that are cut by a key or by pages, from the command line: into files, where lanes share one target, and into tables.

use crate::postgres::Site;
use haul_testkit::pg::Scratch;

const ROWS: &str = "create table t (id bigint primary key, k int, u uuid, day date, at timestamptz, name text);
    insert into t select g, nullif(g % 50, 3), md5(g::text)::uuid, date '2020-01-01' + g % 900, timestamptz 'epoch' + g * interval '1 hour',
      'n' || g % 977 from generate_series(-9000, 9000) g;
    insert into t values (100000, null, null, 'infinity', '-infinity', null), (100001, 0, null, '0044-03-15 BC', '0044-03-15 00:00+00 BC', '')";

const WAYS: &[&str] = &[
    "--method none",
    "--method Ctid",
    "--method RANGE",
    "--method rangeid --split-key day",
    "--method range --split-key u",
    "--method range --split-key at",
    "--method ntile --split-key name",
    "--method random --split-key name,k",
    "--method distinct --split-key k",
    "--split-key day",
];

#[test]
fn every_way_to_cut_gives_the_same_rows() {
    for db in [Scratch::new(), Scratch::on_18()] {
        let site = Site::over(db, ROWS);
        site.sql("create table back (like t); create view v as select * from t");
        let sorted = |file: &str| {
            let mut lines: Vec<String> = site.dir.text(file).lines().map(str::to_string).collect();
            lines.sort_unstable();
            lines
        };
        site.copy(":t", "whole.csv", "--degree 1 --on-lossy text").ok();
        for (n, way) in WAYS.iter().enumerate() {
            let from = if n % 2 == 0 || way.contains("Ctid") || way.contains("RANGE") { ":t" } else { ":v" };
            // More lanes than cores, into one file.
            let ran = site.copy(from, "cut.csv", &format!("{way} --degree 5 --on-lossy text")).ok();
            assert_eq!(ran.account().0, 18_003, "{way}");
            assert!(sorted("cut.csv") == sorted("whole.csv"), "{way}");
            site.copy(from, ":back", &format!("{way} --degree 3 --mode truncate")).ok();
            site.assert_same("t", "back");
        }
        // Many splits, one after the other, worked on by all cores.
        site.copy(":t", "cut.csv", "--method distinct --split-key k --degree 1 --on-lossy text").ok();
        assert!(sorted("cut.csv") == sorted("whole.csv"));
    }
}

#[test]
fn a_not_null_that_was_never_checked_hides_no_row() {
    let site = Site::over(Scratch::on_18(), "create table t (k int, n int); insert into t values (null, 1), (1, 2), (2, 3), (9, 4)");
    site.sql("alter table t add constraint there not null k not valid; create table back (k int, n int)");
    site.copy(":t", ":back", "--method range --split-key k --degree 3").ok();
    site.assert_same("t", "back");
}

#[test]
fn the_plan_says_what_was_chosen_and_why() {
    let site = Site::new(ROWS);
    site.sql(
        "create view v as select * from t; create table large as select g as id, repeat('p', 200) as pad from generate_series(1, 30000) g",
    );
    let read = |from: &str, flags: &str| {
        let ran = site.plan(from, "x.csv", flags).ok();
        ran.out.lines().find_map(|line| line.strip_prefix("read       ")).unwrap().to_string()
    };
    assert_eq!(read(":t", "--degree 1"), "one COPY under one snapshot (auto: one lane was asked for)");
    assert_eq!(read(":t", "--degree -1000"), "one COPY under one snapshot (auto: one lane was asked for)");
    let ran = site.plan(":t", "x.csv", "--degree 1025");
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: setting \"degree\" goes from 1 to 1024, not 1025\n"));
    assert_eq!(read(":t", "--method none"), "one COPY under one snapshot");
    assert_eq!(
        read(":large", "--degree 2"),
        "7 ctid ranges over 2 connections under one exported snapshot (auto: every page is read once)"
    );
    assert_eq!(read(":v", "--degree 2"), "one COPY under one snapshot (auto: a view has no pages of its own)");
    assert_eq!(
        read(":v", "--degree 2 --split-key day"),
        "3 ranges of day over 2 connections under one exported snapshot (auto: a split key was given, and this suits its type)"
    );
    assert_eq!(
        read(":t", "--degree 2 --method hash --split-key name"),
        "2 parts by hash of name over 2 connections under one exported snapshot"
    );
    let ran = site.plan(":v", "x.csv", "--degree 2").ok();
    assert!(ran.out.contains("it is read over one connection; --split-key COLUMN cuts it by a key"), "{}", ran.out);
    let ran = site.copy(":t", "x.csv", "--method physloc");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(
        ran.err,
        "error: --method physloc cuts by the physical location %%physloc%%: it needs SQL Server, and this is PostgreSQL\n \
         hint: --method ctid is PostgreSQL's own way to cut by physical place, and what auto uses where it can\n"
    );
    let ran = site.copy(":v", "x.csv", "--method ctid");
    assert!(ran.code == 1 && ran.err.contains("--method ctid is impossible here: a view has no pages of its own"), "{}", ran.err);
    let ran = site.copy(":t", "x.csv", "--method ntile --split-key Day");
    assert!(ran.err.contains("hint: did you mean \"day\"? only the case differs"), "{}", ran.err);
}

#[test]
fn a_role_with_few_connections_gets_fewer_lanes() {
    let mut site = Site::new(ROWS);
    let role = site.db.role("pw", "connection limit 3");
    site.sql(&format!("grant select on t to {role}; create table back (like t); grant select, insert on back to {role}"));
    let uri = |table: &str| format!("{}?table={table}&sslmode=disable", site.db.url_of(&role, "pw"));
    let ran = site.copy(&uri("t"), &uri("back"), "--method hash --split-key id --degree 8").ok();
    assert!(ran.err.contains("note: 8 lanes were asked for: the target has room for 1"), "{}", ran.err);
    site.assert_same("t", "back");
    let ran = site.copy(&uri("t"), "x.csv", "--method hash --split-key id --degree 8").ok();
    assert!(
        ran.err.contains("8 connections were wanted: the connection limit of role") && ran.err.contains("leaves room for 3"),
        "{}",
        ran.err
    );
}
