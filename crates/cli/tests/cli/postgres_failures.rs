//! What goes wrong, and what is left then: rejects, limits of the server, locks, secrets, encryption, poolers.

use crate::postgres::Site;
use haul_testkit::pg::Scratch;
use haul_testkit::services::{self, pgbouncer};
use std::time::{Duration, Instant};

#[test]
fn op_01_no_success_with_missing_rows() {
    let site = Site::new("create table t (id int, n numeric)");
    // (a) a value in row 123 of 10,000.
    let text: String = std::iter::once("id,n\n".to_string())
        .chain((1..=10_000).map(|i| if i == 123 { format!("{i},\"1,213\"\n") } else { format!("{i},{i}.5\n") }))
        .collect();
    site.dir.write("a.csv", &text);
    let ran = site.copy("a.csv", ":t", "").failed();
    assert!(ran.err.contains("a.csv, line 124") && ran.err.contains("column \"n\"") && ran.err.contains("comma"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "0");
    let ran = site.copy("a.csv", ":t", "--on-error reject --rejects r.jsonl").ok();
    assert_eq!(ran.account(), (10_000, 9_999, 1));
    assert_eq!(site.sql("select count(*) from t"), "9999");
    // (c) no such table.
    let ran = site.copy("a.csv", ":nothing", "").failed();
    assert!(ran.err.contains("nothing") && ran.err.contains("--create"), "{}", ran.err);
    // (d) every row rejected.
    site.dir.write("d.csv", "id,n\nx,1\ny,2\n");
    site.sql("truncate t");
    let ran = site.copy("d.csv", ":t", "--on-error reject --rejects r.jsonl").failed();
    assert!(ran.err.contains("all 2 rows were rejected"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "0");
}

#[test]
fn op_01_g_a_full_disk() {
    let Some(space) = services::postgres().small_tablespace else { return };
    let site = Site::new(&format!("create table old (id int, t text) tablespace {space}; insert into old values (1, 'old')"));
    let line = "x".repeat(1000);
    let text: String = std::iter::once("id,t\n".to_string()).chain((0..40_000).map(|i| format!("{i},{line}\n"))).collect();
    site.dir.write("big.csv", text);
    // Staging tables lie elsewhere, where there is room: then the last step fails.
    for mode in ["append", "truncate", "replace"] {
        let ran = site.copy("big.csv", ":old", &format!("--mode {mode}")).failed();
        assert!(ran.err.contains("No space left on device") && ran.err.contains("public.old"), "{mode}: {}", ran.err);
        assert_eq!(site.sql("select * from old"), "1|old", "{mode}");
        let tables = "select count(*) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace";
        assert_eq!(site.sql(tables), "1", "{mode}: a staging table is left");
    }
}

#[test]
fn rejects_add_up_and_carry_the_record() {
    let site = Site::new("create table t (id int primary key, n int check (n < 100), t varchar(5) not null)");
    site.dir.write("r.csv", "id,n,t\n1,1,a\n2,two,b\n3,300,c\n1,4,again\n5,5,toolong\n6,6,\n7,7,\"q\"\"\"\n8,8\n9,9,z\n");
    let ran = site.copy("r.csv", ":t", "--on-error reject --rejects rejects.jsonl --max-rejects 10").ok();
    assert_eq!(ran.account(), (9, 3, 6));
    assert_eq!(site.sql("select * from t order by id"), "1|1|a\n7|7|q\"\n9|9|z");
    let rejects: Vec<serde_json::Value> = site.dir.text("rejects.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let mut seen: Vec<(u64, String)> =
        rejects.iter().map(|r| (r["line"].as_u64().unwrap(), r["record"].as_str().unwrap().trim_end().to_string())).collect();
    seen.sort();
    let expected = [(3, "2,two,b"), (4, "3,300,c"), (5, "1,4,again"), (6, "5,5,toolong"), (7, "6,6,"), (9, "8,8")];
    assert_eq!(seen, expected.map(|(line, record)| (line, record.to_string())));
    assert!(rejects.iter().all(|r| r["reason"].as_str().is_some_and(|t| t.len() > 10)), "{rejects:?}");
    // One more than allowed ends the job, and the table stays as it was.
    let ran = site.copy("r.csv", ":t", "--on-error reject --rejects rejects.jsonl --max-rejects 5 --mode replace").failed();
    assert!(ran.err.contains("--max-rejects 5"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "3");
}

#[test]
fn op_04_limits_of_the_role_do_not_cut_a_read_short() {
    let mut site = Site::new("create table t (id int); insert into t select generate_series(1, 60)");
    let role = site.db.role("pw", "");
    site.sql(&format!(
        "create function slow(i int) returns int language plpgsql as 'begin perform pg_sleep(0.02); return i; end';
        create view v as select slow(id) as id from t; create table target (id int);
        grant select on v, t to {role}; grant all on target to {role};
        alter role {role} set statement_timeout = '300ms'; alter role {role} set idle_in_transaction_session_timeout = '200ms'"
    ));
    let base = site.db.url_of(&role, "pw");
    assert_eq!(site.copy(&format!("{base}?table=v"), "v.csv", "").ok().account(), (60, 60, 0));
    assert_eq!(site.copy(&format!("{base}?table=v"), &format!("{base}?table=target"), "").ok().account(), (60, 60, 0));
    assert_eq!(site.sql("select count(*), sum(id) from target"), "60|1830");
    let ran = site.copy(&format!("{base}?table=v&statement_timeout=300ms"), "cut.csv", "").failed();
    assert!(ran.err.contains("statement timeout"), "{}", ran.err);
    assert_eq!(site.dir.names(), ["v.csv"]);
}

#[test]
fn op_06b_a_reader_holds_the_table() {
    let site = Site::new("create table t (id int); insert into t values (1)");
    site.dir.write("n.csv", "id\n2\n3\n");
    for mode in ["replace", "truncate"] {
        let mut reader = site.db.session();
        reader.sql("begin; select count(*) from t");
        let begun = Instant::now();
        let ran = site.copy("n.csv", ":t", &format!("--mode {mode} --lock-timeout 300ms")).failed();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(ran.err.contains("public.t") && ran.err.contains("lock timeout") && ran.err.contains("lock_timeout"), "{}", ran.err);
        // A third one is not kept waiting.
        assert_eq!(site.sql("set lock_timeout = '5s'; select * from t"), "1");
        assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0");
    }
    site.copy("n.csv", ":t", "--mode replace").ok();
}

#[test]
fn cn_01_secrets_never_show() {
    let secret = "p@:/#?%25+;=&[]'\"\\ é€";
    let mut site = Site::new("create table t (id int); insert into t values (1)");
    let role = site.db.role(secret, "");
    site.sql(&format!("grant select on t to {role}"));
    let encoded = haul_model::percent_encode(secret);
    let silent = |ran: &crate::runner::Ran| {
        let all = format!("{}{}", ran.out, ran.err);
        assert!(!all.contains(secret) && !all.contains(&encoded) && !all.contains("p@:"), "{all}");
    };
    let right = format!("{}?table=t", site.db.url_of(&role, secret));
    for command in [
        vec!["copy", &right, "t.csv"],
        vec!["copy", &right, "t.csv", "--json"],
        vec!["plan", &right, "t.csv"],
        vec!["schema", &right],
        vec!["preview", &right],
        vec!["check", &right],
    ] {
        silent(&site.dir.haul(&command).ok());
    }
    // Wrong ones, with and without a place to show them.
    let wrong = format!("{secret}x");
    let wrong_uri = format!("{}?table=t", site.db.url_of(&role, &wrong));
    for command in [
        vec!["copy", &wrong_uri, "t.csv"],
        vec!["copy", &wrong_uri, "t.csv", "--json"],
        vec!["plan", &wrong_uri, "t.csv"],
        vec!["check", &wrong_uri],
    ] {
        let ran = site.dir.haul(&command);
        assert_ne!(ran.code, 0, "{command:?}");
        silent(&ran);
    }
    for extra in ["&nonsense=1", "&sslmode=nonsense", "&table=missing"] {
        let ran = site.dir.haul(&["copy", &format!("{right}{extra}"), "t.csv"]);
        assert_ne!(ran.code, 0, "{extra}");
        silent(&ran);
    }
    // As typed, without encoding: told to encode.
    let bare = format!("postgres://{role}:{secret}@127.0.0.1:{}/{}?table=t", site.db.server.port, site.db.database);
    let ran = site.dir.haul(&["copy", &bare, "t.csv"]);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("percent"), "{}", ran.err);
    silent(&ran);
    // From the environment, and from a file.
    let without = format!("postgres://{role}@127.0.0.1:{}/{}?table=t", site.db.server.port, site.db.database);
    let run = |name: &str, value: &str| site.dir.ran(site.dir.command(&["copy", &without, "t.csv"]).env(name, value).output().unwrap());
    run("PGPASSWORD", secret).ok();
    let file = site.dir.write("pass", format!("*:*:*:{role}:{}\n", secret.replace('\\', "\\\\").replace(':', "\\:")));
    let mode = |mode| std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o600);
    run("PGPASSFILE", &file).ok();
    mode(0o644);
    silent(&run("PGPASSFILE", &file).failed());
}

#[test]
fn cn_02_ssl_modes_do_what_they_say() {
    let site = Site::new("create table t (id int); insert into t values (1)");
    let server = &site.db.server;
    let run = |host: &str, query: &str| {
        site.dir.haul(&["copy", &format!("postgres://postgres@{host}:{}/{}?table=t&{query}", server.port, site.db.database), "t.csv"])
    };
    let (ca, other) = (format!("sslrootcert={}", server.ca.display()), format!("sslrootcert={}", server.other_ca.display()));
    for query in
        ["sslmode=disable", "sslmode=prefer", "sslmode=require", &format!("sslmode=verify-ca&{ca}"), &format!("sslmode=verify-full&{ca}")]
    {
        run("localhost", query).ok();
    }
    for (host, query) in [
        ("127.0.0.1", format!("sslmode=verify-full&{ca}")),
        ("localhost", format!("sslmode=verify-ca&{other}")),
        ("localhost", format!("sslmode=verify-full&{other}")),
    ] {
        let ran = run(host, &query).failed();
        assert!(ran.err.contains("certificate"), "{}", ran.err);
    }
    assert_eq!(run("localhost", "sslmode=verify").code, 2);
}

#[test]
fn cn_03_ways_to_a_server() {
    let site = Site::new("create table t (id int); insert into t values (1)");
    let (port, db, socket) = (site.db.server.port, &site.db.database, site.db.server.socket.display().to_string());
    for uri in [
        format!("postgres://postgres@[::1]:{port}/{db}?table=t"),
        format!("postgresql://postgres@/{db}?host={socket}&port={port}&table=t"),
        format!("postgresql://postgres@{}:{port}/{db}?table=t", haul_model::percent_encode(&socket)),
        format!("postgresql:///{db}?host={socket}&port={port}&user=postgres&table=t"),
        format!("postgres://postgres@127.0.0.1:1,127.0.0.1:{port}/{db}?table=t&target_session_attrs=read-write"),
    ] {
        site.dir.haul(&["copy", &uri, "t.csv"]).ok();
        assert_eq!(site.dir.text("t.csv"), "id\n1\n");
    }
    let mut command = site.dir.command(&["copy", "postgres://?table=t", "t.csv"]);
    command.env("PGHOST", "127.0.0.1").env("PGPORT", port.to_string()).env("PGUSER", "postgres").env("PGDATABASE", db);
    site.dir.ran(command.output().unwrap()).ok();
    let mut command = site.dir.command(&["copy", "postgres://?table=t", "t.csv"]);
    let ran = site.dir.ran(command.env("PGSERVICE", "x").output().unwrap());
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("PGSERVICE"), "{}", ran.err);
}

#[test]
fn cn_04_poolers() {
    let site = Site::new(
        "create table t (id int primary key, pad text); insert into t select g, repeat('p', 300) from generate_series(1, 40000) g; create table target (like t including all)",
    );
    let (session, transaction) = pgbouncer();
    for port in [session, transaction] {
        let uri = |table: &str| format!("postgres://postgres@127.0.0.1:{port}/{}?table={table}&sslmode=disable", site.db.database);
        assert_eq!(site.copy(&uri("t"), "t.csv", "--degree 4").ok().account(), (40_000, 40_000, 0));
        for mode in ["append", "replace", "truncate"] {
            if mode == "append" {
                site.sql("truncate target");
            }
            let ran = site.copy("t.csv", &uri("target"), &format!("--mode {mode} --degree 4"));
            if ran.code == 0 {
                site.assert_same("t", "target");
            } else {
                assert!(ran.err.contains("pooler"), "{port} {mode}: {}", ran.err);
            }
        }
    }
    assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%'"), "0");
}

#[test]
fn a_missing_right_and_hidden_rows_are_told() {
    let mut site = Site::new(
        "create table t (id int); insert into t values (1), (2); create table rls (id int); insert into rls values (1), (2); alter table rls enable row level security; create policy p on rls using (id = 1)",
    );
    let role = site.db.role("pw", "");
    site.sql(&format!("grant select on rls to {role}"));
    let base = site.db.url_of(&role, "pw");
    let ran = site.copy(&format!("{base}?table=t"), "t.csv", "").failed();
    assert!(ran.err.contains("permission denied for table t"), "{}", ran.err);
    let ran = site.copy(&format!("{base}?table=rls"), "t.csv", "").failed();
    assert!(ran.err.contains("row_security"), "{}", ran.err);
    site.copy(&format!("{base}?table=rls&row_security=on"), "t.csv", "").ok();
    assert_eq!(site.dir.text("t.csv"), "id\n1\n");
    site.dir.write("n.csv", "id\n5\n");
    site.copy("n.csv", &format!("{base}?table=t"), "--mode append").failed();
    assert_eq!(site.sql("select count(*) from t"), "2");
}

#[test]
fn another_database_is_not_the_same() {
    // Names that only the server can resolve travel by name.
    let site = Site::new("create table t (id int, c regclass); insert into t values (1, 'pg_class'), (2, 't')");
    let other = Scratch::new();
    other.sql("create table filler (); create table t (id int, c regclass)");
    site.copy(":t", &other.table("t"), "").ok();
    assert_eq!(other.sql("select * from t order by id"), "1|pg_class\n2|t");
}
