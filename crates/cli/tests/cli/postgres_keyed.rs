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

#[test]
fn sc_05_the_key_is_that_of_the_table_itself() {
    let mut site = Site::new(
        "create schema a; create schema b; create table b.other (id int primary key); insert into b.other values (1), (2);
        create table a.t (id int primary key, ref_id int references b.other, x int unique);
        create table b.t (other text primary key, id int); create sequence b.t_id_seq;
        insert into a.t values (1, 1, null), (2, 1, 20); insert into b.t values ('one', 1)",
    );
    let role = site.db.role("pw", "");
    site.sql(&format!(
        "grant usage on schema a, b to {role}; grant create on schema a, b to {role}; alter role {role} set search_path = b, a;
         grant select, insert, update, delete on a.t, b.t to {role}"
    ));
    let base = site.db.url_of(&role, "pw");
    site.dir.write("t.csv", "id,ref_id,x\n2,2,\n3,2,\n1,2,7\n");
    let plan = site.plan("t.csv", &format!("{base}?table=a.t"), "--mode upsert").ok();
    assert!(plan.out.contains("the rows whose (id) is there already"), "{}", plan.out);
    for mode in ["upsert", "insert-ignore", "delete-insert"] {
        site.sql("truncate a.t; insert into a.t values (1, 1, null), (2, 1, 20)");
        assert_eq!(site.copy("t.csv", &format!("{base}?table=a.t"), &format!("--mode {mode}")).ok().account().0, 3, "{mode}");
        let kept = mode == "insert-ignore";
        assert_eq!(
            site.sql("select * from a.t order by id"),
            if kept { "1|1|<NULL>\n2|1|20\n3|2|<NULL>" } else { "1|2|7\n2|2|<NULL>\n3|2|<NULL>" },
            "{mode}"
        );
        assert_eq!(site.sql("select * from b.t"), "one|1", "{mode}");
    }
    // The bare name is the first on the path, with a key of its own.
    site.dir.write("b.csv", "other,id\none,5\ntwo,6\n");
    site.copy("b.csv", &format!("{base}?table=t"), "--mode upsert").ok();
    assert_eq!(site.sql("select * from b.t order by 1"), "one|5\ntwo|6");
    // A role that may only read is told so before a row moves.
    let reader = site.db.role("pw", "");
    site.sql(&format!("grant usage on schema a to {reader}; grant select on a.t to {reader}"));
    let ran = site.copy("t.csv", &format!("{}?table=a.t", site.db.url_of(&reader, "pw")), "--mode upsert").failed();
    assert!(ran.err.contains("a.t") && ran.err.contains("GRANT INSERT"), "{}", ran.err);
}

#[test]
fn sc_07_wide_tables_by_key() {
    let (rows, old) = (10_000, 5_000);
    let list = |columns: usize, f: &dyn Fn(usize) -> String| (1..=columns).map(f).collect::<Vec<_>>().join(",");
    let site = Site::new(&format!(
        "create table s ({}); insert into s select {} from generate_series(1, {rows}) g; create table t (like s, primary key (c1))",
        list(300, &|i| format!("c{i} int")),
        list(300, &|i| if i == 1 { "g".into() } else { format!("g * {i} % 100000") })
    ));
    for (mode, degree) in [("upsert", 1), ("upsert", 3), ("insert-ignore", 2), ("delete-insert", 2)] {
        site.sql(&format!("truncate t; insert into t (c1, c2) select g, -1 from generate_series(1, {old}) g"));
        let ran = site.copy(":s", ":t", &format!("--mode {mode} --degree {degree}")).ok();
        assert_eq!(ran.account().0, rows, "{mode}");
        match mode {
            "insert-ignore" => {
                assert_eq!(site.sql("select count(*), count(*) filter (where c2 = -1 and c300 is null) from t"), format!("{rows}|{old}"));
            }
            _ => site.assert_same("s", "t"),
        }
    }
    // As many columns as there can be: the staging table has no room for the number of a split, so there is one lane.
    site.sql(&format!(
        "create table s16 ({0}); insert into s16 select {1} from generate_series(1, 500) g; create table t16 (like s16, primary key (c1));
         insert into t16 select * from s16 where c1 <= 100; update t16 set c1600 = 0",
        list(1600, &|i| format!("c{i} int")),
        list(1600, &|i| format!("g + {i} - 1"))
    ));
    for mode in ["upsert", "delete-insert"] {
        let ran = site.copy(":s16", ":t16", &format!("--mode {mode} --degree 4")).ok();
        assert_eq!(ran.account(), (500, 500, 0), "{mode}");
        site.assert_same("s16", "t16");
    }
}

#[test]
fn sc_08_other_types_are_told_before_the_merge() {
    let site = Site::new(
        "create table s (id int, big bigint, x text, at timestamp, n numeric(10,4), maybe int);
        insert into s values (1, 1, '1', '2024-01-01', 1.2, 5), (2, 5000000000, 'x', '2024-01-01 10:00', 1.2345, null);
        create table big (id int primary key, big int); create table x (id int primary key, x int); create table at (id int primary key, at date);
        create table n (id int primary key, n numeric(10,2)); create table maybe (id int primary key, maybe int not null);
        create table extra (id int primary key, must int not null); create table less (id int primary key)",
    );
    for (table, old) in [("big", "7"), ("x", "7"), ("at", "2000-01-01"), ("n", "7.00"), ("maybe", "7")] {
        site.sql(&format!("insert into {table} values (1, '{old}')"));
        for mode in ["upsert", "insert-ignore", "delete-insert"] {
            for from in [":s", "s.jsonl"] {
                site.copy(":s", "s.jsonl", &format!("--columns id,{table}")).ok();
                let ran = site.copy(from, &format!(":{table}"), &format!("--mode {mode} --columns id,{table}")).failed();
                assert!(
                    ran.err.contains(&format!("public.{table}")) || ran.err.contains("public.s") || ran.err.contains("s.jsonl"),
                    "{mode} {}",
                    ran.err
                );
                assert!(
                    ran.err.contains(&format!("column \"{table}\"")) || ran.err.contains(&format!("{table:?}")),
                    "{mode} {from}: {}",
                    ran.err
                );
                assert_eq!(site.sql(&format!("select * from {table}")), format!("1|{old}"), "{mode} {from}");
            }
        }
    }
    for (table, column) in [("extra", "must"), ("less", "big")] {
        let flags = if table == "extra" { "--columns id" } else { "--columns id,big" };
        let ran = site.copy(":s", &format!(":{table}"), &format!("--mode upsert {flags}")).failed();
        assert!(ran.err.contains(&format!("{column:?}")), "{}", ran.err);
    }
    assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0");
}
