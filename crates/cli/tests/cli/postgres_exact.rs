//! `tests/fixtures/exact.sql`: a table of everything that careless tools bend. Every way out and back gives the same rows,
//! or refuses with the place.

use crate::postgres::Site;
use crate::runner::Folder;
use haul_testkit::pg::Scratch;

const EXACT: &str = include_str!("../../../../tests/fixtures/exact.sql");
/// Same columns, keys and defaults, and no rows.
const LIKE: &str = "create table back (like exact including all)";

/// Rows as the server writes them, floats by their bits.
fn rows(db: &Scratch, table: &str) -> String {
    db.sql(&format!(
        "select id, encode(float4send(f4), 'hex'), encode(float8send(f8), 'hex'), md5(x::text), x::text from {table} x order by id"
    ))
}

#[track_caller]
fn assert_exact(site: &Site, table: &str) {
    assert_eq!(site.sql(&format!("select count(*) from {table}")), "7");
    site.assert_same("exact", table);
    assert!(rows(&site.db, "exact") == rows(&site.db, table), "{table}: floats differ in their bits");
}

#[test]
fn exact_from_table_to_table() {
    let site = Site::new(EXACT);
    // Plain columns: the bytes pass through.
    site.sql("create table plain as select * from exact; create table passed (like plain)");
    assert!(site.plan(":plain", ":passed", "").ok().out.contains("pass-through: pgcopy-binary"));
    site.copy(":plain", ":passed", "").ok();
    assert_exact(&site, "passed");
    site.copy(":plain", ":made", "--create").ok();
    assert_exact(&site, "made");
    let types = |t: &str| {
        site.sql(&format!("select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' order by attnum) from pg_attribute where attrelid = '{t}'::regclass and attnum > 0"))
    };
    assert_eq!(types("plain"), types("made"));
    // Through columns, binary and as text, in one lane and several.
    for flags in ["", "--copy-format text", "--rename id:id", "--on-error reject", "--limit 100", "--degree 4", "--batch-size 2"] {
        site.sql(&format!("drop table if exists back; {LIKE}"));
        site.copy(":exact", ":back", flags).ok();
        assert_exact(&site, "back");
    }
    // In place of rows that are there, by each way.
    for mode in ["replace", "truncate"] {
        site.copy(":exact", ":back", &format!("--mode {mode}")).ok();
        assert_exact(&site, "back");
    }
}

#[test]
fn exact_to_another_database() {
    let (site, other) = (Site::new(EXACT), Scratch::new());
    // Other OIDs for the types of the same names.
    other.sql(&format!("create type filler as enum ('x'); {EXACT}; delete from exact"));
    site.copy(":exact", &other.table("exact"), "").ok();
    assert!(rows(&site.db, "exact") == rows(&other, "exact"));
    site.copy(":exact", &other.table("made"), "--create").ok();
    assert!(rows(&site.db, "exact") == rows(&other, "made"));
}

#[test]
fn exact_through_files() {
    let site = Site::new(EXACT);
    for file in ["e.csv", "e.jsonl", "e.parquet", "e.arrow", "e.csv.gz", "e.jsonl.zst"] {
        site.copy(":exact", file, "--on-lossy text").ok();
        site.sql(&format!("drop table if exists back; {LIKE}"));
        site.copy(file, ":back", "").ok();
        assert_exact(&site, "back");
    }
}

#[test]
fn exact_is_refused_with_its_place_where_a_format_cannot_hold_it() {
    let site = Site::new(EXACT);
    site.copy(":exact", "e.csv", "").ok();
    for (file, column) in [("e.jsonl", "narr"), ("e.parquet", "ts"), ("e.arrow", "ts")] {
        site.dir.write(file, "old");
        let ran = site.copy(":exact", file, "").failed();
        assert!(ran.err.contains("public.exact, row ") && ran.err.contains(&format!("column \"{column}\"")), "{}", ran.err);
        assert!(ran.err.contains("--on-lossy text"), "{}", ran.err);
        assert_eq!(site.dir.text(file), "old");
    }
    assert_eq!(site.dir.names(), ["e.arrow", "e.csv", "e.jsonl", "e.parquet"]);
}

#[test]
fn exact_is_made_again_from_files_that_know_the_types() {
    let site = Site::new(&format!("{EXACT}; create table plain as select * from exact"));
    for file in ["e.parquet", "e.arrow"] {
        site.copy(":plain", file, "--on-lossy text").ok();
        site.sql("drop table if exists back");
        site.copy(file, ":back", "--create").ok();
        assert_exact(&site, "back");
    }
    // Nothing is left beside the files.
    assert_eq!(Folder::names(&site.dir), ["e.arrow", "e.parquet"]);
}
