//! Rows that never leave their server: `INSERT ... SELECT` where source and sink are one database.

use crate::postgres::Site;

const SOURCE: &str = "create table src (id int primary key, name text, at timestamptz); \
                      insert into src select g, 'n' || g, '2020-01-01'::timestamptz + g * interval '1 hour' from generate_series(1, 1000) g";
const AUTO: &str = "--pushdown auto";

#[test]
fn the_server_moves_the_rows_in_every_mode() {
    let site = Site::new(&format!("{SOURCE}; create table dst (like src)"));
    let plan = site.plan(":src", ":dst", AUTO).ok();
    assert!(plan.out.contains("INSERT ... SELECT") && plan.out.contains("same database"), "{}", plan.out);
    assert_eq!(site.copy(":src", ":dst", AUTO).ok().account(), (1000, 1000, 0));
    site.assert_same("src", "dst");
    for flags in ["--mode truncate", "--mode replace"] {
        site.sql("insert into dst values (0, 'old', null)");
        assert_eq!(site.copy(":src", ":dst", &format!("{flags} {AUTO}")).ok().account(), (1000, 1000, 0));
        site.assert_same("src", "dst");
    }
    assert_eq!(site.copy(":src", ":made", &format!("--create {AUTO}")).ok().account(), (1000, 1000, 0));
    site.assert_same("src", "made");
    let flags = format!("--mode append --columns id,name --order-by id --limit 7 {AUTO}");
    site.sql("truncate dst");
    assert_eq!(site.copy(":src", ":dst", &flags).ok().account(), (7, 7, 0));
    assert_eq!(site.sql("select sum(id), count(at) from dst"), "28|0");
    assert_eq!(site.sql("select count(*) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"), "3");
}

#[test]
fn a_condition_means_the_same_on_both_ways() {
    let site = Site::new(&format!("{SOURCE}; create table one (like src); create table two (like src)"));
    site.sql("do $$ begin execute format('alter database %I set timezone = %L', current_database(), 'Asia/Tokyo'); end $$");
    for (table, way) in [("one", "auto"), ("two", "never")] {
        let (from, to) = (site.table("src"), site.table(table));
        site.dir.haul(&["copy", &from, &to, "--where", "at < '2020-01-05 10:00'", "--pushdown", way]).ok();
    }
    assert_ne!(site.sql("select count(*) from one"), "0");
    site.assert_same("one", "two");
}

#[test]
fn where_rows_must_come_by_they_do() {
    let site = Site::new(&format!(
        "{SOURCE}; create table dst (like src); create table ruled (like src); create table other (id bigint, name text, at timestamptz); \
         create rule r as on insert to ruled do instead nothing; create table skips (like src); \
         create function skip() returns trigger language plpgsql as 'begin return null; end'; \
         create trigger skip before insert on skips for each row execute function skip(); \
         create table parted (like src) partition by hash (id); create table part partition of parted for values with (modulus 1, remainder 0)"
    ));
    let ran = site.copy(":src", ":skips", AUTO).failed();
    assert!(ran.err.contains("took 0 of 1000 rows") && ran.err.contains("trigger"), "{}", ran.err);
    for (table, flags) in [
        ("ruled", ""),
        ("skips", ""),
        ("parted", ""),
        ("other", ""),
        ("dst", "--cast id:int"),
        ("dst", "--on-error reject"),
        ("dst", "--copy-format binary"),
        ("dst", "--method hash --split-key id"),
        ("dst", "--commit split"),
    ] {
        let plan = site.plan(":src", &format!(":{table}"), &format!("{flags} {AUTO}")).ok();
        assert!(!plan.out.contains("INSERT ... SELECT"), "{table} {flags}: {}", plan.out);
    }
    let plan = site.plan(":src", ":dst", "--pushdown never").ok();
    assert!(plan.out.contains("pgcopy-binary"), "{}", plan.out);
}

#[test]
fn a_failure_leaves_the_old_rows() {
    let site = Site::new(&format!(
        "{SOURCE}; create table dst (id int check (id < 900), name text, at timestamptz); insert into dst values (1, 'old', null)"
    ));
    for mode in ["append", "truncate", "replace"] {
        let ran = site.copy(":src", ":dst", &format!("--mode {mode} {AUTO}")).failed();
        assert!(
            ran.err.contains("dst_id_check") && ran.err.contains("public.dst") && !ran.err.contains("haul_staging"),
            "{mode}: {}",
            ran.err
        );
        assert_eq!(site.sql("select * from dst"), "1|old|<NULL>", "{mode}");
    }
    assert_eq!(site.sql("select count(*) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"), "2");
}

#[test]
fn a_run_that_went_through_haul_is_not_gone_on_with_by_the_server() {
    let site = Site::new(
        "create table src (id bigint, pad text); insert into src select g, repeat('x', 200) from generate_series(1, 120000) g; \
         create table dst (id bigint, pad text); vacuum analyze src",
    );
    let (from, to) = (site.table("src"), site.table("dst"));
    for mode in ["replace", "truncate"] {
        let arguments = ["copy", &from, &to, "--mode", mode, "--degree", "2"];
        let killed = site.dir.failing("split-after-commit:3", &arguments);
        assert_eq!(killed.code, -1, "{mode}: {killed:?}");
        // Rows wait in the staging table already; the statement would put all of them in once more.
        let again = |flag| site.dir.haul(&[&arguments[..], &["--pushdown", "auto", flag]].concat());
        let ran = again("--resume").failed();
        assert!(ran.err.contains("the way of loading") && ran.err.contains("--restart"), "{mode}: {}", ran.err);
        assert_eq!(again("--restart").ok().account(), (120_000, 120_000, 0), "{mode}");
        assert_eq!(site.sql("select count(*), count(distinct id) from dst"), "120000|120000", "{mode}");
    }
}

#[test]
fn triggers_and_options_keep_the_count_right() {
    let site = Site::new(&format!(
        "{SOURCE}; create table watched (like src); create function skip() returns trigger language plpgsql as 'begin return null; end';
         create trigger skip before insert on watched for each row when (new.id % 2 = 0) execute function skip();
         create table keyed (id int generated always as identity primary key, name text, at timestamptz)"
    ));
    // Held back, the trigger skips nothing; and the rows come by, so that somebody counts them.
    for mode in ["append", "truncate", "replace"] {
        let flags = format!("--mode {mode} --triggers off {AUTO}");
        assert!(!site.plan(":src", ":watched", &flags).ok().out.contains("INSERT ... SELECT"), "{mode}");
        site.sql("truncate watched");
        assert_eq!(site.copy(":src", ":watched", &flags).ok().account(), (1000, 1000, 0), "{mode}");
        site.assert_same("src", "watched");
    }
    // One that comes after the plan: nothing of it is committed.
    site.sql("create table late (like src)");
    let trigger = "create trigger late before insert on late for each row when (new.id = 7) execute function skip()";
    let (from, to) = (site.table("src"), site.table("late"));
    let arguments = ["copy", &from, &to, "--pre-sql", trigger, "--pushdown", "auto"];
    let ran = site.dir.haul(&arguments).failed();
    assert!(ran.err.contains("has got triggers or rules since the plan") && ran.err.contains("--pushdown never"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from late"), "0");
    // What a new table gets, it gets here too.
    let flags = format!("--create --with-keys --with-indexes --with-constraints --table-options unlogged --analyze {AUTO}");
    assert!(site.plan(":src", ":made", &flags).ok().out.contains("INSERT ... SELECT"));
    assert_eq!(site.copy(":src", ":made", &flags).ok().account(), (1000, 1000, 0));
    site.assert_same("src", "made");
    assert_eq!(
        site.sql("select relpersistence, reltuples, (select count(*) from pg_constraint where contype = 'p' and conrelid = c.oid) from pg_class c where relname = 'made'"),
        "u|1000|1"
    );
    // Numbers that the table would give out itself.
    for mode in ["append", "truncate", "replace"] {
        site.sql("truncate keyed");
        let flags = format!("--mode {mode} {AUTO}");
        assert!(site.plan(":src", ":keyed", &flags).ok().out.contains("INSERT ... SELECT"), "{mode}");
        assert_eq!(site.copy(":src", ":keyed", &flags).ok().account(), (1000, 1000, 0), "{mode}");
        site.assert_same("src", "keyed");
    }
}

#[test]
fn a_table_loaded_from_itself() {
    let site = Site::new(
        "create table t (id int, v text); insert into t select g, 'v' || g from generate_series(1, 100) g;
         create view w as select id + 100 as id, v from t where id <= 10",
    );
    // Replaced by what is read from it, which would be nothing if the old rows went first.
    for (mode, rows) in [("truncate", "10|110"), ("replace", "10|210")] {
        site.copy(":w", ":t", &format!("--mode {mode} {AUTO}")).ok();
        assert_eq!(site.sql("select count(*), max(id) from t"), rows, "{mode}");
        site.sql("create or replace view w as select id + 100 as id, v from t");
    }
    site.copy(":t", ":t", &format!("--mode append {AUTO}")).ok();
    assert_eq!(site.sql("select count(*), max(id) from t"), "20|210");
}
