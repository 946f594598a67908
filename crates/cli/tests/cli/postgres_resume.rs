//! Runs that are killed and gone on with: the exact table or a refusal, never anything else.

use crate::postgres::Site;
use crate::runner::Ran;
use haul_testkit::pg::Scratch;
use std::time::{Duration, Instant};

const ROWS: u64 = 120_000;
const SUM: &str = "120000|7200060000";

/// A source of about 28 MiB (six or seven splits), and an empty target like it.
pub fn site() -> Site {
    Site::new(&format!(
        "create table src (id bigint, pad text); insert into src select g, repeat('x', 200) from generate_series(1, {ROWS}) g; \
         create table dst (id bigint, pad text); vacuum analyze src"
    ))
}

pub fn copied(site: &Site) -> String {
    site.sql("select count(*), sum(id) from dst")
}

/// Tables beside the two that a test has made, without the one for checkpoints.
pub fn left_tables(site: &Site) -> String {
    site.sql("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and relname not in ('src', 'dst', 'haul_checkpoint', 'haul_checkpoint_unlogged') order by 1")
}

pub fn notes(site: &Site) -> String {
    site.sql("select count(*) from haul_checkpoint")
}

impl Site {
    /// `haul copy src dst FLAGS` that is ended at a failpoint.
    pub fn ended_at(&self, place: &str, flags: &str) -> Ran {
        let (from, to) = (self.table("src"), self.table("dst"));
        let mut arguments = vec!["copy", &from, &to];
        arguments.extend(flags.split_whitespace());
        let ran = self.dir.failing(place, &arguments);
        assert_eq!(ran.code, -1, "{place} was not passed: {ran:?}");
        ran
    }
}

#[test]
fn re_01_a_killed_run_is_gone_on_with() {
    let site = site();
    let flags = "--mode replace --degree 2";
    site.ended_at("split-after-commit:3", flags);
    assert_eq!(copied(&site), "0|<NULL>");
    assert_eq!(notes(&site), "3");
    let list = site.dir.haul(&["state", "list"]).ok().out;
    assert!(list.contains("can be resumed") && list.contains("notes \"public\""), "{list}");
    let plan = site.plan(":src", ":dst", &format!("{flags} --resume")).ok().out;
    assert!(plan.contains("resume     goes on with an earlier run: ") && plan.contains("proven unchanged"), "{plan}");
    // Another width does not make it another job.
    let ran = site.copy(":src", ":dst", "--mode replace --degree 3 --budget 32MiB --resume").ok();
    assert_eq!(ran.account(), (ROWS, ROWS, 0));
    assert!(
        ran.err.contains("rows of 3 splits are there; the source is proven unchanged in them, so the whole is one snapshot"),
        "{}",
        ran.err
    );
    assert_eq!((copied(&site).as_str(), left_tables(&site).as_str(), notes(&site).as_str()), (SUM, "", "0"));
    site.assert_same("src", "dst");
    assert!(site.dir.haul(&["state", "list"]).ok().out.starts_with("no run has left anything"));
    // Everything is done: nothing to go on with, and cron may ask all the same.
    let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).ok();
    assert!(ran.err.contains("note: there was nothing to go on with: a fresh start"), "{}", ran.err);
    assert_eq!(copied(&site), SUM);
}

/// Repeatable moments: the linear congruential generator of Knuth's MMIX.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
fn re_01_kill_9_at_any_moment_then_resume() {
    let site = site();
    let mut moments = Moments(7);
    for (flags, before, after) in [
        ("--mode replace --degree 2", "1|-1", SUM),
        ("--mode truncate --degree 2", "1|-1", SUM),
        ("--mode append --degree 2 --commit split", "", SUM),
    ] {
        let begun = Instant::now();
        site.sql("truncate dst");
        site.copy(":src", ":dst", flags).ok();
        let whole = u64::try_from(begun.elapsed().as_millis()).unwrap();
        let (mut killed, mut went_on) = (0, 0);
        for _ in 0..7 {
            site.sql("truncate dst");
            if !before.is_empty() {
                site.sql("insert into dst values (-1, 'old')");
            }
            let (from, to) = (site.table("src"), site.table("dst"));
            let mut arguments = vec!["copy", &from, &to];
            arguments.extend(flags.split_whitespace());
            let mut child = site.dir.start(&arguments);
            std::thread::sleep(Duration::from_millis(moments.below(whole)));
            child.kill().unwrap();
            let ended = child.wait_with_output().unwrap();
            killed += u32::from(!ended.status.success());
            if !before.is_empty() {
                let found = copied(&site);
                assert!(found == before || found == after, "{flags}: {found}");
            }
            // Once the state is gone, only the exit code is missing, and another run appends again.
            let over = copied(&site) == SUM && site.dir.haul(&["state", "list"]).ok().out.starts_with("no run has left anything");
            if ended.status.success() || (before.is_empty() && over) {
                continue;
            }
            let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).ok();
            went_on += u32::from(ran.err.contains("goes on with an earlier run") || ran.err.contains("has written everything"));
            assert_eq!(ran.account(), (ROWS, ROWS, 0), "{}", ran.err);
            assert_eq!(copied(&site), after, "{flags}: {}", ran.err);
            assert_eq!(left_tables(&site), "");
        }
        assert!(killed >= 3 && went_on >= 2, "{flags}: {killed} killed, {went_on} gone on with");
    }
}

#[test]
fn a_source_that_has_changed_is_refused_and_never_mixed() {
    let site = site();
    let flags = "--mode replace --degree 2";
    for (change, why) in [
        ("update src set pad = 'new' where id = 1", "1 rows were inserted or updated since"),
        ("update src set id = id where id between 1 and 30", "rows when it was read, and has"),
        (
            "update src set id = id where id = 1; vacuum src; update src set id = id where id between 1 and 30",
            "were inserted or updated since",
        ),
        ("delete from src where id = 1", "rows when it was read, and has"),
        ("begin; delete from src where id = 1; insert into src values (1, 'new'); commit; vacuum src", "rows when it was read, and has"),
        ("vacuum full src", "\"public\".\"src\" was rewritten, truncated, made or dropped since"),
        (
            "create table other (like src); insert into other select * from src; drop table src; alter table other rename to src",
            "was rewritten, truncated, made or dropped",
        ),
        ("alter table src add more int; alter table dst add more int", "columns, types or the way of loading have changed"),
        ("alter table src alter pad type varchar(300)", "columns, types or the way of loading have changed"),
    ] {
        site.sql("insert into dst values (-1, 'old')");
        // The first split holds row 1, and is read first.
        site.ended_at("split-after-commit:4", flags);
        site.sql(change);
        let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).failed();
        // A transaction of another test's database that ends at the wrong moment counts as one of this: then rows count as new that are not.
        let why = ran.err.contains(why) || ran.err.contains("rows were inserted or updated since");
        assert!(ran.err.contains("the job cannot be gone on with: ") && why, "{change}: {}", ran.err);
        assert!(ran.err.contains("hint: --restart starts over and removes what the first try left"), "{}", ran.err);
        assert_eq!(site.sql("select id from dst where id < 0"), "-1", "{change}");
        let ran = site.copy(":src", ":dst", &format!("{flags} --restart")).ok();
        assert!(ran.err.contains("note: removed of an earlier run: table"), "{}", ran.err);
        assert_eq!(left_tables(&site), "", "{change}");
        site.assert_same("src", "dst");
        site.sql("alter table dst drop column if exists more; drop table src; create table src (id bigint, pad text); insert into src select g, repeat('x', 200) from generate_series(1, 120000) g; truncate dst");
    }
}

#[test]
fn changes_where_nothing_was_read_are_taken_over() {
    let site = site();
    let flags = "--mode replace --degree 1 --commit split";
    site.ended_at("split-after-commit:2", &flags.replace("--degree 1", "--degree 2"));
    // The last page is in no finished split.
    site.sql("update src set pad = 'new' where id > 119990; insert into src values (120001, repeat('y', 200))");
    let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).ok();
    assert!(ran.err.contains("proven unchanged"), "{}", ran.err);
    site.assert_same("src", "dst");
    assert_eq!(copied(&site), "120001|7200180001");
}

#[test]
fn append_commits_at_the_end_unless_asked() {
    let site = site();
    let plan = site.plan(":src", ":dst", "--mode append --degree 2").ok().out;
    assert!(plan.contains("resume     a failed run starts again: appended rows become visible together at the end"), "{plan}");
    let plan = site.plan(":src", ":dst", "--mode append --degree 2 --commit split").ok().out;
    assert!(plan.contains("resume     each split is committed into the table; --resume goes on after a failure"), "{plan}");
    site.ended_at("split-after-commit:2", "--mode append --degree 2 --commit split");
    let there: u64 = site.sql("select count(*) from dst").parse().unwrap();
    assert!(there > 0 && there < ROWS, "{there}");
    // Starting again without a word would double these rows.
    let ran = site.copy(":src", ":dst", "--mode append --degree 2 --commit split").failed();
    assert!(
        ran.err.contains("an earlier run of this job has committed part of its rows") && ran.err.contains("--resume goes on with it"),
        "{}",
        ran.err
    );
    site.copy(":src", ":dst", "--mode append --degree 2 --commit split --resume").ok();
    assert_eq!(copied(&site), SUM);
    site.assert_same("src", "dst");
}

#[test]
fn re_03_a_second_process_is_refused_and_damage_is_named() {
    let site = site();
    let flags =
        ["copy", &site.table("src"), &site.table("dst"), "--mode", "replace", "--degree", "2", "--state", "kept"].map(str::to_string);
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    assert_eq!(site.dir.failing("split-after-commit:2", &words).code, -1);
    std::fs::copy(site.dir.path("kept/state.db"), site.dir.path("whole.db")).unwrap();
    for cut in [0, 5000] {
        let mut bytes = site.dir.read("whole.db");
        bytes.truncate(cut);
        site.dir.write("kept/state.db", bytes);
        let ran = site.dir.haul(&[&words[..], &["--resume"]].concat()).failed();
        assert!(
            ran.err.contains("kept/state.db: the state of earlier runs cannot be read") && ran.err.contains("hint: remove the file"),
            "{}",
            ran.err
        );
    }
    std::fs::copy(site.dir.path("whole.db"), site.dir.path("kept/state.db")).unwrap();
    // A process that waits for a lock on the table, at the end of its work.
    let mut lock = site.db.session();
    lock.sql("begin; lock table dst in access share mode");
    let first = site.dir.start(&[&words[..], &["--resume", "--lock-timeout", "60s"]].concat());
    let begun = Instant::now();
    while site.sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()") == "0" {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never waited");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = site.dir.haul(&[&words[..], &["--resume"]].concat()).failed();
    assert!(second.err.contains("another process is running this job"), "{}", second.err);
    assert!(site.dir.haul(&["state", "list", "--state", "kept"]).ok().out.contains("running"));
    assert!(site.dir.haul(&["state", "clean", "--state", "kept"]).ok().out.contains("is going on: left alone"));
    lock.sql("commit");
    assert!(first.wait_with_output().unwrap().status.success());
    assert_eq!(copied(&site), SUM);
}

#[test]
fn what_killed_runs_left_is_listed_and_removed() {
    let site = site();
    site.ended_at("split-after-commit:2", "--mode replace --degree 2");
    site.ended_at("staging-after-create", "--mode truncate --degree 1");
    assert_eq!(left_tables(&site).lines().count(), 2);
    let list: serde_json::Value = serde_json::from_str(&site.dir.haul(&["state", "list", "--json"]).ok().out).unwrap();
    let runs = list["runs"].as_array().unwrap();
    let standings: Vec<&str> = runs.iter().map(|r| r["standing"].as_str().unwrap()).collect();
    assert_eq!(standings.len(), 2, "{list}");
    assert!(standings.contains(&"can be resumed") && standings.contains(&"left behind"), "{list}");
    assert!(site.dir.haul(&["state", "clean", "--older-than", "1h"]).ok().out.contains("0 run(s) forgotten"));
    assert_eq!(left_tables(&site).lines().count(), 2);
    let cleaned = site.dir.haul(&["state", "clean"]).ok().out;
    assert!(cleaned.contains("removed table \"public\".\"haul_") && cleaned.contains(" checkpoints of run "), "{cleaned}");
    assert_eq!((left_tables(&site).as_str(), notes(&site).as_str()), ("", "0"));
    assert!(site.dir.haul(&["state", "list"]).ok().out.starts_with("no run has left anything"));
}

#[test]
fn state_holds_no_password() {
    let mut site = site();
    let role = site.db.role("s3cret-word", "superuser");
    let from = format!("{}?table=src&sslmode=disable", site.db.url_of(&role, "s3cret-word"));
    let to = format!("{}?table=dst&sslmode=disable", site.db.url_of(&role, "s3cret-word"));
    let ran = site.dir.failing("split-after-commit:1", &["copy", &from, &to, "--mode", "replace", "--degree", "2", "--state", "kept"]);
    assert_eq!(ran.code, -1);
    for name in ["kept/state.db", "kept/state.db-journal"] {
        let bytes = std::fs::read(site.dir.path(name)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|w| w == b"s3cret-word"), "{name}");
    }
    let ran = site.dir.haul(&["state", "clean", "--state", "kept"]).failed();
    assert!(ran.err.contains("a password can be given by PGPASSWORD"), "{}", ran.err);
    let output = site.dir.command(&["state", "clean", "--state", "kept"]).env("PGPASSWORD", "s3cret-word").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(left_tables(&site), "");
}

#[test]
fn every_failpoint_of_a_load_leaves_old_or_new_and_can_be_gone_on_with() {
    let site = site();
    let all = haul_model::failpoint::NAMES.iter().filter(|name| !name.starts_with("file-") && !name.starts_with("set-"));
    let last = all.clone().filter(|name| name.starts_with("final-"));
    for (flags, places) in [("--mode truncate --degree 2", all.collect::<Vec<_>>()), ("--mode replace --degree 2", last.collect())] {
        for place in places {
            site.sql("truncate dst; insert into dst values (-1, 'old')");
            site.ended_at(place, flags);
            let found = copied(&site);
            let new = [
                "final-after-commit",
                "state-before-end",
                "state-after-end",
                "note-after-forget",
                "state-before-remove",
                "state-after-remove",
            ]
            .contains(place);
            assert_eq!(found, if new { SUM } else { "1|-1" }, "{flags} {place}");
            let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).ok();
            assert_eq!(ran.account(), (ROWS, ROWS, 0), "{flags} {place}");
            assert_eq!(copied(&site), SUM, "{flags} {place}");
            assert_eq!(left_tables(&site), "", "{flags} {place}");
            site.assert_same("src", "dst");
        }
    }
}

#[test]
fn every_failpoint_of_a_committing_append_can_be_gone_on_with() {
    let site = site();
    let flags = "--mode append --degree 2 --commit split";
    for place in
        haul_model::failpoint::NAMES.iter().filter(|name| !["file-", "set-", "staging-"].iter().any(|start| name.starts_with(start)))
    {
        site.sql("truncate dst");
        site.ended_at(place, flags);
        // Once the state is gone, the run is over, and another one appends again.
        if *place == "state-after-remove" {
            assert_eq!(copied(&site), SUM, "{place}");
            continue;
        }
        let ran = site.copy(":src", ":dst", &format!("{flags} --resume")).ok();
        assert_eq!(ran.account(), (ROWS, ROWS, 0), "{place}");
        assert_eq!(copied(&site), SUM, "{place}: {}", ran.err);
    }
}

#[test]
fn every_failpoint_of_a_file_leaves_the_old_or_the_new_one() {
    let site = Site::over(Scratch::new(), "create table src as select g as id from generate_series(1, 1000) g");
    let new: String = std::iter::once("id\n".to_string()).chain((1..=1000).map(|i| format!("{i}\n"))).collect();
    for place in haul_model::failpoint::NAMES.iter().filter(|name| name.starts_with("file-")) {
        site.dir.write("out.csv", "old\n");
        let ran = site.dir.failing(place, &["copy", &site.table("src"), "out.csv"]);
        assert_eq!(ran.code, -1, "{place}: {ran:?}");
        assert_eq!(site.dir.text("out.csv"), if *place == "file-after-rename" { new.as_str() } else { "old\n" }, "{place}");
        let ran = site.copy(":src", "out.csv", "--resume").ok();
        assert!(ran.err.contains("nothing to go on with: a fresh start"), "{place}: {}", ran.err);
        assert_eq!(site.dir.text("out.csv"), new, "{place}");
    }
}

#[test]
fn splits_by_key_are_gone_on_with_when_the_user_accepts_their_age() {
    let site = site();
    site.sql("alter table src add primary key (id); analyze src");
    let flags = "--mode replace --degree 2 --method range --split-key id";
    for (resume, told) in [
        ("--resume", None),
        ("--resume stale-ok", Some("the source may have changed since (stale-ok): each split is whole at its own instant")),
    ] {
        site.ended_at("split-after-commit:3", flags);
        site.sql("update src set pad = pad || '!'");
        let plan = site.plan(":src", ":dst", &format!("{flags} {resume}"));
        let ran = site.copy(":src", ":dst", &format!("{flags} {resume}"));
        let Some(told) = told else {
            assert!(ran.failed().err.contains("rows were inserted or updated since"));
            assert!(plan.failed().err.contains("rows were inserted or updated since"));
            site.dir.haul(&["state", "clean"]).ok();
            continue;
        };
        let ran = ran.ok();
        assert!(plan.ok().out.contains(told) && ran.err.contains(told), "{}", ran.err);
        assert_eq!(copied(&site), SUM);
        let old: u64 = site.sql("select count(*) from dst where pad not like '%!!'").parse().unwrap();
        assert!(old > 0 && old < ROWS, "{old} rows of the first instant");
    }
    // Ranges of pages are not for that: a row may have moved from an open one into a finished one. The pages of the rows' earlier versions
    // would make splits without a row, of which nothing can have changed.
    site.sql("vacuum full src");
    site.ended_at("split-after-commit:3", "--mode replace --degree 2 --method ctid");
    site.sql("update src set pad = 'newer'");
    let ran = site.copy(":src", ":dst", "--mode replace --degree 2 --method ctid --resume stale-ok").failed();
    assert!(ran.err.contains("stale-ok needs splits by key, and these are ranges of pages"), "{}", ran.err);
}

#[test]
fn a_condition_is_nothing_that_can_be_proven() {
    let site = site();
    let arguments =
        ["copy", &site.table("src"), &site.table("dst"), "--mode", "replace", "--degree", "2", "--where", "id > 0"].map(str::to_string);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(site.dir.failing("split-after-commit:3", &words).code, -1);
    let ran = site.dir.haul(&[&words[..], &["--resume"]].concat()).failed();
    assert!(ran.err.contains("whether the same rows pass the condition (where) cannot be proven"), "{}", ran.err);
    site.dir.haul(&[&words[..], &["--restart"]].concat()).ok();
    assert_eq!(copied(&site), SUM);
}

#[test]
fn state_may_be_kept_in_a_database() {
    let site = site();
    let state = format!("{}?sslmode=disable", site.db.url());
    let arguments =
        ["copy", &site.table("src"), &site.table("dst"), "--mode", "replace", "--degree", "2", "--state", &state].map(str::to_string);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(site.dir.failing("split-after-commit:2", &words).code, -1);
    assert!(site.dir.haul(&["state", "list", "--state", &state]).ok().out.contains("can be resumed"));
    let ran = site.dir.haul(&[&words[..], &["--resume"]].concat()).ok();
    assert!(ran.err.contains("goes on with an earlier run"), "{}", ran.err);
    assert_eq!(copied(&site), SUM);
    assert_eq!(site.sql("select count(*) from haul_runs"), "0");
}
