//! PostgreSQL 18: the same exactness within it, and between it and 15 in both directions.

use crate::postgres::Site;
use haul_testkit::pg::Scratch;

const EXACT: &str = include_str!("../../../../tests/fixtures/exact.sql");

/// Rows as the server writes them, floats by their bits.
fn rows(db: &Scratch, table: &str) -> String {
    db.sql(&format!("select id, encode(float4send(f4), 'hex'), encode(float8send(f8), 'hex'), x::text from {table} x order by id"))
}

#[test]
fn exact_within_18() {
    let site = Site::over(Scratch::on_18(), EXACT);
    assert!(site.sql("select version()").starts_with("PostgreSQL 18"));
    site.sql("create table plain as select * from exact");
    site.copy(":plain", ":made", "--create").ok();
    assert!(rows(&site.db, "exact") == rows(&site.db, "made"));
    for flags in ["", "--copy-format text", "--degree 4", "--mode replace", "--mode truncate"] {
        if !flags.contains("--mode") {
            site.sql("drop table if exists back; create table back (like exact including all)");
        }
        site.copy(":exact", ":back", flags).ok();
        assert!(rows(&site.db, "exact") == rows(&site.db, "back"), "{flags}");
    }
    for file in ["e.csv", "e.jsonl", "e.parquet", "e.arrow"] {
        site.copy(":exact", file, "--on-lossy text").ok();
        site.sql("drop table if exists back; create table back (like exact including all)");
        site.copy(file, ":back", "").ok();
        assert!(rows(&site.db, "exact") == rows(&site.db, "back"), "{file}");
    }
}

#[test]
fn exact_between_15_and_18() {
    let (old, new) = (Site::new(EXACT), Scratch::on_18());
    new.sql(&format!("{EXACT}; delete from exact"));
    old.copy(":exact", &new.table("exact"), "").ok();
    assert!(rows(&old.db, "exact") == rows(&new, "exact"));
    old.sql("create table back (like exact including all)");
    old.copy(&new.table("exact"), ":back", "").ok();
    assert!(rows(&old.db, "exact") == rows(&old.db, "back"));
}

#[test]
fn many_rows_over_many_lanes_between_15_and_18() {
    let (old, new) = (
        Site::new("create table t as select g id, md5(g::text) || repeat('x', 100) v from generate_series(1, 200000) g"),
        Scratch::on_18(),
    );
    old.copy(":t", &new.table("t"), "--create --degree 4").ok();
    let sum = "select count(*), sum(id), sum(hashtext(v)::bigint) from ";
    assert_eq!(old.sql(&format!("{sum} t")), new.sql(&format!("{sum} t")));
    old.sql("create table back (like t)");
    old.copy(&new.table("t"), ":back", "--degree 4").ok();
    old.assert_same("t", "back");
}
