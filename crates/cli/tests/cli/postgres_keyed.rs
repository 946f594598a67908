//! Modes with a key, through the whole command: order across cores and lanes, accounts, what a failure leaves.

use crate::postgres::Site;

#[test]
fn in_03_the_last_row_of_a_big_file_wins_on_every_core() {
    let site = Site::new("create table t (k bigint primary key, v bigint); insert into t select g, -1 from generate_series(0, 9999) g");
    // 400,000 rows of 20,000 keys, far above what one worker gets: the last round is 19.
    let rows: String = (0..400_000_u64).map(|i| format!("{},{}\n", i * 7919 % 20_000, i / 20_000)).collect();
    site.dir.write("t.csv", format!("k,v\n{rows}"));
    for flags in ["", "--degree 4", "--batch-size 100"] {
        site.sql("delete from t where k >= 10000; update t set v = -1");
        let ran = site.copy("t.csv", ":t", &format!("--mode upsert {flags}")).ok();
        assert!(
            ran.err.contains("read 400,000  written 20,000  rejected 0  inserted 10,000  updated 10,000  superseded 380,000"),
            "{}",
            ran.err
        );
        assert_eq!(site.sql("select count(*), min(v), max(v) from t"), "20000|19|19", "{flags}");
    }
}

#[test]
fn in_03_lanes_of_a_table_resolve_duplicates_by_split() {
    let site = Site::new(
        "create table big (k bigint, v bigint, pad text); insert into big select g % 50000, g, repeat('x', 200) from generate_series(0, 199999) g;
        create table t (k bigint primary key, v bigint, pad text)",
    );
    for degree in [1, 3] {
        site.sql("truncate t");
        let ran = site.copy(":big", ":t", &format!("--mode upsert --degree {degree} --json")).ok();
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let keyed = serde_json::json!({"inserted": 50_000, "updated": 0, "ignored": 0, "superseded": 150_000, "deleted": 0});
        assert_eq!((json["rows_read"].as_u64(), json["rows_written"].as_u64(), &json["keyed"]), (Some(200_000), Some(50_000), &keyed));
        // Pages in order are splits in order here, so the last row is the same for every degree.
        assert_eq!(site.sql("select count(*) filter (where v = k + 150000) from t"), "50000");
        assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0");
    }
}

#[test]
fn op_07_a_second_upsert_of_the_same_changes_nothing() {
    let site = Site::new("create table t (k bigint primary key, v text)");
    site.dir.write("t.csv", "k,v\n1,a\n2,b\n");
    site.copy("t.csv", ":t", "--mode upsert").ok();
    let ran = site.copy("t.csv", ":t", "--mode insert-ignore --json").ok();
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((json["rows_written"].as_u64(), json["keyed"]["ignored"].as_u64()), (Some(0), Some(2)));
    site.dir.write("none.csv", "k,v\n");
    for mode in ["upsert", "insert-ignore", "delete-insert"] {
        assert_eq!(site.copy("none.csv", ":t", &format!("--mode {mode}")).ok().account(), (0, 0, 0));
    }
    assert_eq!(site.sql("select k, v from t order by k"), "1|a\n2|b");
}

#[test]
fn in_05_a_killed_upsert_leaves_the_old_rows() {
    let site = Site::new("create table t (k bigint primary key, v text); insert into t values (1, 'old')");
    let rows: String = (0..50_000).map(|i| format!("{i},new\n")).collect();
    site.dir.write("t.csv", format!("k,v\n{rows}x,broken\n"));
    site.copy("t.csv", ":t", "--mode upsert").failed();
    assert_eq!(site.sql("select k, v from t"), "1|old");
    assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0");
}
