//! Ends that come from outside: kill -9 at any moment, Ctrl-C, a backend that is ended. The old table or file is whole each time.

use crate::postgres::Site;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Repeatable moments: the linear congruential generator of Knuth's MMIX.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const ROWS: usize = 40_000;

/// 1,000 old rows in `t`, and a file with 40,000 new ones.
fn site() -> Site {
    let site = Site::new("create table t (id int primary key, pad text); insert into t select -g, 'old' from generate_series(1, 1000) g");
    let pad = "p".repeat(150);
    let text: String = std::iter::once("id,pad\n".to_string()).chain((1..=ROWS).map(|i| format!("{i},{pad}\n"))).collect();
    site.dir.write("new.csv", text);
    site
}

/// Kills runs of `haul copy FROM TO FLAGS` at moments up to the time that an unhurt one takes; `check` looks at each rest.
fn killed(site: &Site, from: &str, to: &str, flags: &str, mut reset: impl FnMut(), mut check: impl FnMut()) -> usize {
    let begun = Instant::now();
    site.copy(from, to, flags).ok();
    let whole = u64::try_from(begun.elapsed().as_millis()).unwrap().max(20);
    let (mut moments, mut killed) = (Moments(42), 0);
    let (from, to) = (site.end(from), site.end(to));
    for _ in 0..15 {
        reset();
        let mut arguments = vec!["copy", &from, &to];
        arguments.extend(flags.split_whitespace());
        let mut child = site.dir.start(&arguments);
        std::thread::sleep(Duration::from_millis(moments.below(whole)));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        killed += usize::from(!output.status.success());
        settled(site);
        check();
    }
    killed
}

/// Waits until the server has noticed that its client is gone.
fn settled(site: &Site) {
    let begun = Instant::now();
    while backends(site) != "0" {
        assert!(begun.elapsed() < Duration::from_secs(30), "a session is left: {}", site.sql("select query from pg_stat_activity"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn backends(site: &Site) -> String {
    site.sql("select count(*) from pg_stat_activity where datname = current_database() and application_name like 'haul%'")
}

#[test]
fn kill_9_leaves_the_old_table_or_the_new_one() {
    for (flags, before, after) in
        [("--mode replace", "1000|-500500", "40000|800020000"), ("--mode append --degree 1", "1000|-500500", "41000|799519500")]
    {
        let site = site();
        let reset = || {
            site.sql("truncate t; insert into t select -g, 'old' from generate_series(1, 1000) g");
        };
        let check = || {
            let found = site.sql("select count(*), sum(id) from t");
            assert!(found == before || found == after, "{flags}: {found}");
        };
        let killed = killed(&site, "new.csv", ":t", flags, reset, check);
        assert!(killed > 5, "only {killed} of 15 runs were still going when they were killed");
        // Leftovers are named after their run, and do not hinder the next.
        site.sql("truncate t");
        site.copy("new.csv", ":t", "--mode replace").ok();
        assert_eq!(site.sql("select count(*), sum(id) from t"), "40000|800020000");
        let tables =
            site.sql("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 't'");
        assert!(tables.lines().all(|name| name.starts_with("haul_") && name.ends_with("_t")), "{tables}");
    }
}

#[test]
fn kill_9_leaves_the_old_file_or_the_new_one() {
    let site = site();
    site.copy("new.csv", ":t", "--mode replace").ok();
    let whole = |text: &str| text.lines().count() == ROWS + 1 && text.ends_with('\n');
    let reset = || {
        site.dir.write("out.csv", "old\n");
    };
    let check = || {
        let text = site.dir.text("out.csv");
        assert!(text == "old\n" || whole(&text), "{} bytes", text.len());
    };
    let killed = killed(&site, ":t", "out.csv", "", reset, check);
    assert!(killed > 3, "only {killed} of 15 runs were still going when they were killed");
    site.copy(":t", "out.csv", "").ok();
    assert!(whole(&site.dir.text("out.csv")));
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ctrl_c_stops_a_read_and_its_query() {
    let site = Site::new(
        "create function slow(i int) returns int language plpgsql as 'begin perform pg_sleep(0.01); return i; end'; create view v as select slow(g) as id from generate_series(1, 100000) g",
    );
    site.dir.write("out.csv", "old\n");
    let child = site.dir.start(&["copy", &site.table("v"), "out.csv"]);
    let busy =
        || site.sql("select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query like 'COPY%'");
    until("the COPY", || busy() != "0");
    let begun = Instant::now();
    interrupt(&child);
    let ran = site.dir.ran(child.wait_with_output().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(ran.code != 0, "{ran:?}");
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
    until("the end of the query", || busy() == "0");
    assert_eq!(site.dir.text("out.csv"), "old\n");
    assert_eq!(site.dir.names(), ["out.csv"]);
}

/// Starts `haul copy - TABLE` and writes the first rows to it.
fn piping(site: &Site, mode: &str) -> Child {
    let mut command = site.dir.command(&["copy", "-", &format!("{}&mode={mode}", site.table("t")), "--format", "csv"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let rows: String = std::iter::once("id,pad\n".to_string()).chain((1..=50_000).map(|i| format!("{i},some text\n"))).collect();
    let input = child.stdin.as_mut().unwrap();
    // The process may have ended by then: the caller sees that.
    let _ = input.write_all(rows.as_bytes()).and_then(|()| input.flush());
    child
}

#[test]
fn ctrl_c_stops_a_write() {
    for mode in ["append", "replace"] {
        let site = Site::new("create table t (id int primary key, pad text); insert into t values (-1, 'old')");
        let mut child = piping(&site, mode);
        until("the sessions", || backends(&site) != "0");
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        interrupt(&child);
        let input = child.stdin.take();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(2), "{mode}: still running");
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(input);
        assert!(!status.success());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(err.matches("error: ").count(), 1, "{err}");
        settled(&site);
        assert_eq!(site.sql("select * from t"), "-1|old", "{mode}");
        assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0", "{mode}");
    }
}

#[test]
fn a_backend_that_is_ended_is_one_clear_error() {
    for mode in ["append", "replace"] {
        let site = Site::new("create table t (id int primary key, pad text); insert into t values (-1, 'old')");
        let mut child = piping(&site, mode);
        until("the COPY", || {
            site.sql("select count(*) from pg_stat_activity where datname = current_database() and query like 'COPY%FROM STDIN%' and pid <> pg_backend_pid()") != "0"
        });
        site.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()");
        let mut input = child.stdin.take().unwrap();
        let rows: String = (50_001..=100_000).map(|i| format!("{i},some text\n")).collect();
        let _ = input.write_all(rows.as_bytes());
        drop(input);
        let ran = site.dir.ran(child.wait_with_output().unwrap()).failed();
        assert_eq!(ran.err.matches("error: ").count(), 1, "{}", ran.err);
        assert!(ran.err.contains("public.t") && ran.err.contains("terminating connection due to administrator command"), "{}", ran.err);
        assert_eq!(site.sql("select * from t"), "-1|old", "{mode}");
        assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0", "{mode}");
    }
}
