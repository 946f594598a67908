//! `--verify`: what a target does to rows behind the load's back is named, and nothing else is.

use crate::postgres::Site;
use crate::runner::Folder;
use haul_testkit::pg::Scratch;

const ROWS: &str = "create table src (id int primary key, name text, n bigint, at timestamptz, raw bytea); \
    insert into src select g, case when g % 10 = 7 then null else 'n' || g end, g * 1000003, timestamptz '2020-01-01' + g * interval '1 hour', \
      int8send(g * 31) from generate_series(1, 1000) g; \
    create table dst (like src); analyze src";

/// A trigger on `dst` that does `body` for each row, or after the statement.
fn bent(site: &Site, when: &str, body: &str) {
    site.sql(&format!(
        "truncate dst; drop trigger if exists bend on dst; \
         create or replace function bend() returns trigger language plpgsql as $f$ begin {body} end $f$; \
         create trigger bend {when} execute function bend()"
    ));
}

const EACH: &str = "before insert on dst for each row";
const AFTER: &str = "after insert on dst for each statement when (pg_trigger_depth() = 0)";

/// What happens to the rows, and what is said of it.
const BENDS: &[(&str, &str, &str)] = &[
    (
        EACH,
        "if new.id = 7 then new.name = ''; end if; return new;",
        "column \"name\": the values are not those that were sent (100 NULLs sent, 99 there)",
    ),
    (EACH, "if new.id = 500 then new.n = new.n # 1; end if; return new;", "column \"n\": the values are not those that were sent"),
    (
        EACH,
        "if new.id = 500 then new.raw = set_bit(new.raw, 3, 1 - get_bit(new.raw, 3)); end if; return new;",
        "column \"raw\": the values are not",
    ),
    (
        EACH,
        "if new.id = 500 then new.at = new.at + interval '1 us'; end if; return new;",
        "column \"at\": the values are not those that were sent",
    ),
    (AFTER, "delete from dst where id = 3; return null;", "1000 rows were sent, and the target holds 999 of the load"),
    (AFTER, "insert into dst select * from dst where id = 3; return null;", "1000 rows were sent, and the target holds 1001 of the load"),
    (
        AFTER,
        "update dst set n = 1000003 * (1001 - id); return null;",
        "every column holds the values that were sent, but some of them in other rows",
    ),
    (
        AFTER,
        "delete from dst where id = 3; insert into dst select * from dst where id = 4; return null;",
        "the values are not those that were sent, in columns",
    ),
];

#[test]
fn what_the_target_bends_is_named() {
    let site = Site::new(ROWS);
    site.copy(":src", "src.csv", "").ok();
    site.copy(":src", ":dst", "--verify checksum").ok();
    for (when, body, told) in BENDS {
        // As bytes that pass through, as columns from a table, and as texts from a file.
        for (from, flags) in [(":src", ""), (":src", "--rename id:id"), ("src.csv", "")] {
            bent(&site, when, body);
            let ran = site.copy(from, ":dst", &format!("{flags} --verify checksum")).failed();
            assert!(
                ran.err.contains(&format!("public.dst, {told}")) || ran.err.contains(&format!("public.dst: {told}")),
                "{from} {flags} {body}: {}",
                ran.err
            );
            assert!(ran.err.contains("the load is committed as it is") && ran.err.contains("haul diff"), "{}", ran.err);
            assert!(!site.sql("select count(*) from dst").is_empty());
        }
        bent(&site, when, body);
        let ran = site.copy(":src", ":dst", "--verify count");
        assert_eq!(ran.code, i32::from(told.contains("rows were sent")), "{body}: {}", ran.err);
    }
}

#[test]
fn the_split_is_named_where_it_is_told_by_a_key() {
    let site = Site::new(
        "create table src (id bigint primary key, name text); insert into src select g, 'n' || g from generate_series(1, 20000) g; \
         create table dst (like src); analyze src",
    );
    for flags in ["", "--rename id:id"] {
        let flags = format!("{flags} --split-key id --method range --degree 2 --verify checksum");
        bent(&site, EACH, "return new;");
        site.copy(":src", ":dst", &flags).ok();
        bent(&site, EACH, "if new.id = 20000 then new.name = 'N20000'; end if; return new;");
        let ran = site.copy(":src", ":dst", &flags).failed();
        assert!(ran.err.contains("column \"name\": the values are not those that were sent, in split key \"id\" from "), "{}", ran.err);
    }
}

#[test]
fn rows_that_were_there_do_not_count() {
    let site = Site::new(ROWS);
    site.sql("insert into dst select -id, 'old', n, at, raw from src where id <= 50");
    for flags in ["--mode append", "--mode append --rename id:id", "--mode append --columns id,name", "--mode replace", "--mode truncate"] {
        for how in ["count", "checksum"] {
            let ran = site.copy(":src", ":dst", &format!("{flags} --verify {how}")).ok();
            assert!(ran.err.contains(&format!("verified by {how}")), "{}", ran.err);
        }
    }
    bent(&site, EACH, "if new.id = 9 then new.n = 0; end if; return new;");
    site.sql("insert into dst select -id, 'old', n, at, raw from src where id <= 50");
    assert!(site.copy(":src", ":dst", "--mode append --verify").failed().err.contains("column \"n\""));
}

#[test]
fn what_cannot_be_proven_is_refused_before_a_row_moves() {
    let site = Site::new(&format!("{ROWS}; alter table dst add primary key (id)"));
    let refused = |to: &str, flags: &str, told: &str| {
        let ran = site.copy(":src", to, flags).failed();
        assert!(ran.err.contains(told) && ran.err.contains(" hint: "), "{flags}: {}", ran.err);
        let plan = site.plan(":src", to, flags);
        assert_eq!(plan.code, 1, "{plan:?}");
    };
    for how in ["count", "checksum"] {
        refused(":dst", &format!("--mode upsert --verify {how}"), "public.dst: --verify");
        refused("-", &format!("--format csv --verify {how}"), "cannot be read again");
        refused("/dev/null", &format!("--format csv --verify {how}"), "cannot be read again");
    }
    assert_eq!(site.sql("select count(*) from dst"), "0");
}

#[test]
fn the_plan_the_result_and_the_json_say_what_was_verified() {
    let site = Site::new(ROWS);
    let plan = site.plan(":src", ":dst", "--verify").ok().out;
    assert!(plan.contains("verify     checksum of every column, byte for byte: of what is sent, in the same pass, and of the target, read again after the commit, less what it held before\n"), "{plan}");
    let plan = site.plan(":src", ":dst", "--verify checksum --mode replace --columns id").ok().out;
    assert!(plan.contains("verify     checksum of every column, by") && !plan.contains("held before"), "{plan}");
    let ran = site.copy(":src", ":dst", "--verify checksum").ok();
    assert!(
        ran.err.contains("read 1,000  written 1,000  rejected 0  verified by checksum of 5 column(s), byte for byte\n")
            || ran.err.contains("byte for byte  in TIME"),
        "{}",
        ran.err
    );
    let ran = site.copy(":src", "out.parquet", "--verify checksum --json").ok();
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["verified"], serde_json::json!({"how": "checksum", "rows": 1000, "columns": 5, "byte_for_byte": false}));
    let ran = site.copy(":src", "out.parquet", "--json").ok();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["verified"], serde_json::Value::Null);
}

#[test]
fn a_type_that_rounds_is_told() {
    let site = Site::new("create table dst (id int, at timestamp(0), ch char(5), n numeric)");
    site.dir.write("a.csv", "id,at,ch,n\n1,2020-01-01T00:00:00,ab,1.50\n2,2020-01-01T00:00:00.6,c,1e3\n");
    let ran = site.copy("a.csv", ":dst", "--copy-format text --verify").failed();
    assert_eq!(site.sql("select at from dst where id = 2"), "2020-01-01 00:00:01");
    assert!(ran.err.starts_with("error: public.dst, column \"at\": the values are not those that were sent\n"), "{}", ran.err);
    site.copy("a.csv", ":dst", "--columns id,ch,n --mode replace --verify").ok();
}

#[test]
fn limits_rejects_transforms_and_pushdown_go_together_with_it() {
    let site = Site::new(ROWS);
    let ran = site.copy(":src", ":dst", "--limit 33 --verify").ok();
    assert_eq!((ran.account().1, site.sql("select count(*) from dst").as_str()), (33, "33"));
    // The server may not move the rows by itself: nobody would see them.
    let ran = site.copy(":src", ":dst", "--mode replace --pushdown auto --verify").ok();
    assert!(ran.err.contains("verified by checksum"), "{}", ran.err);
    assert!(site.plan(":src", ":dst", "--pushdown auto --mode replace --verify count").ok().out.contains("pass-through: pgcopy-binary"));
    let csv: String = (1..=200).map(|n| if n % 20 == 0 { format!("{n},x\n") } else { format!("{n},{n}\n") }).collect();
    site.dir.write("some.csv", format!("id,n\n{csv}"));
    site.sql("create table numbers (id int primary key, n int check (n <> 77))");
    for how in ["count", "checksum"] {
        let ran = site.copy("some.csv", ":numbers", &format!("--mode replace --on-error reject --verify {how}")).ok();
        assert_eq!(ran.account(), (200, 189, 11), "{}", ran.err);
    }
    site.copy("some.csv", "some.parquet", "--on-error reject --cast n:bigint --verify").ok();
}

/// The bench fixture and the exact table, through every kind of file and back.
#[test]
fn tables_and_files_agree() {
    let site = Site::new("create table none (id int)");
    site.dir.line("generate bench --rows 5000 bench.csv").ok();
    let types = "--cast id:bigint,amount:double,created_at:timestamptz,active:boolean,attributes:json";
    site.copy("bench.csv", ":bench", &format!("--create {types} --verify")).ok();
    site.sql("create table jb as select id, attributes::jsonb, amount::numeric(12,2) amount from bench");
    for file in ["b.csv", "b.jsonl", "b.parquet", "b.arrow", "b.tsv", "b.csv.gz", "b.jsonl.zst"] {
        let out = site.copy(":bench", file, "--verify checksum").ok();
        assert!(out.err.contains("verified by checksum of 7 column(s)"), "{file}: {}", out.err);
        site.copy(file, ":bench", "--mode replace --verify checksum").ok();
        site.copy(":jb", file, "--verify checksum").ok();
        site.copy(file, ":jb", "--mode replace --verify checksum").ok();
    }
    for (from, to) in [
        ("b.csv", "c.jsonl"),
        ("b.jsonl", "c.parquet"),
        ("b.parquet", "c.csv"),
        ("b.csv", "c.csv"),
        ("b.jsonl", "d.jsonl"),
        ("b.arrow", "e.parquet"),
    ] {
        site.copy(from, to, "--verify checksum").ok();
        site.copy(from, to, "--verify count").ok();
    }
}

#[test]
fn the_exact_table_agrees_with_every_file() {
    const EXACT: &str = include_str!("../../../../tests/fixtures/exact.sql");
    let site = Site::new(&format!("{EXACT}; create table plain as select * from exact; create table passed (like plain)"));
    site.copy(":plain", ":passed", "--verify checksum").ok();
    site.copy(":plain", ":made", "--create --verify checksum").ok();
    site.copy(":exact", ":exact", "--mode replace --rename id:id --verify checksum").ok();
    for file in ["e.csv", "e.jsonl", "e.parquet", "e.arrow"] {
        site.copy(":exact", file, "--on-lossy text --verify checksum").ok();
        site.sql("drop table if exists back; create table back (like exact including all)");
        let ran = site.copy(file, ":back", "--verify checksum").ok();
        assert!(ran.err.contains("verified by checksum"), "{file}: {}", ran.err);
    }
    let other = Scratch::on_18();
    other.sql(&format!("{EXACT}; create table plain as select * from exact limit 0"));
    let (from, to) = (site.table("plain"), other.table("plain"));
    site.dir.haul(&["copy", &from, &to, "--verify", "checksum"]).ok();
}

#[test]
fn dialects_of_csv_are_read_as_they_were_written() {
    let dir = Folder::new();
    dir.write(
        "a.jsonl",
        "{\"a\":\"x,y\",\"b\":null}\n{\"a\":\"\",\"b\":\"NA\"}\n{\"a\":null,\"b\":\"\\\"q\\\"\\n\"}\n{\"a\":\"#c\",\"b\":\"\"}\n",
    );
    for flags in [
        "",
        "?null=NA",
        "?null=NA&quoting=all",
        "?delimiter=;&header=false",
        "?newline=crlf&bom=true",
        "?quote='",
        "?comment=%23",
        "?null=\\N",
    ] {
        let ran = dir.haul(&["copy", "a.jsonl", &format!("out.csv{flags}"), "--verify"]).ok();
        assert!(ran.err.contains("verified by checksum of 2 column(s)"), "{flags}: {}", ran.err);
    }
    dir.haul(&["copy", "a.jsonl", "out.jsonl?nulls=omit", "--verify"]).ok();
}

#[test]
fn a_run_that_is_gone_on_with_is_counted_but_not_summed_up() {
    let site = crate::postgres_resume::site();
    let flags = "--mode replace --degree 2";
    site.ended_at("split-after-commit:3", flags);
    let ran = site.copy(":src", ":dst", &format!("{flags} --resume --verify checksum")).failed();
    assert!(ran.err.contains("an earlier run has read part of the rows, and left no checksums of them"), "{}", ran.err);
    assert!(ran.err.contains("--verify count counts them too"), "{}", ran.err);
    let ran = site.copy(":src", ":dst", &format!("{flags} --resume --verify count")).ok();
    assert!(ran.err.contains("verified by count"), "{}", ran.err);
    site.copy(":src", ":dst", &format!("{flags} --verify checksum")).ok();
}

#[test]
fn sets_of_files_and_names_with_placeholders_are_read_again() {
    let site = Site::new(&format!(
        "{ROWS}; alter table src add kind text; update src set kind = case id % 3 when 0 then null else 'k ' || id % 3 end"
    ));
    for to in [
        "set/{table}_{lane}_{part}.parquet",
        "csvs/{part}.csv.gz",
        "lines/{table}-{part}.jsonl",
        "{table}.csv",
        "one {table}.parquet",
        "arrows/",
    ] {
        for how in ["count", "checksum"] {
            let flags = if to.contains("part}") {
                "--file-rows 300"
            } else if to == "arrows/" {
                "--format arrow"
            } else {
                ""
            };
            let ran = site.copy(":src", to, &format!("{flags} --verify {how}")).ok();
            assert!(ran.err.contains(&format!("verified by {how}")), "{to}: {}", ran.err);
        }
    }
    for format in ["parquet", "csv", "jsonl"] {
        for how in ["count", "checksum"] {
            let ran = site.copy(":src", &format!("by-{format}/"), &format!("--format {format} --partition-by kind --verify {how}")).ok();
            assert!(ran.err.contains(&format!("verified by {how}")), "{format}: {}", ran.err);
        }
    }
}
