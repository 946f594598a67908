//! The source against a real server. Cases are named after their ids.

use super::config;
use super::source::PostgresSource;
use arrow_array::{Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use haul_model::{
    Endpoint, Environment, Error, ErrorKind, Form, Next, Payload, Position, ReadPlan, Reading, Result, Settings, Source, Split, Strict,
};
use haul_testkit::conformance::{ReadCase, source};
use haul_testkit::pg::Scratch;
use haul_testkit::services;
use std::sync::Arc;

pub(super) fn open_in(uri: &str, more: &[(&str, &str)], env: &Environment) -> Result<PostgresSource> {
    let endpoint = Endpoint::parse(uri)?;
    config::check_shape(&endpoint)?;
    let pairs = endpoint.query.iter().map(|(k, v)| (k.as_str(), v.as_str())).chain(more.iter().copied());
    let settings = Settings::resolve(&[config::SOURCE], pairs, "postgres")?;
    PostgresSource::open(&endpoint, &settings, env)
}

pub(super) fn environment() -> Environment {
    Environment { cores: 2, run_id: "test".into(), ..Environment::default() }
}

pub(super) fn open(uri: &str, more: &[(&str, &str)]) -> Result<PostgresSource> {
    open_in(uri, more, &environment())
}

pub(super) fn failure(uri: &str, more: &[(&str, &str)]) -> Error {
    open(uri, more).err().expect("the source opens and should not")
}

pub(super) fn plan(source: &mut PostgresSource, degree: usize) -> ReadPlan {
    source.plan(&Reading { pass_through: None, form: Form::Typed, degree, ordered: true }).unwrap()
}

pub(super) fn read_split(source: &PostgresSource, split: &Split) -> Result<Vec<RecordBatch>> {
    let mut decoder = source.decoder(Form::Typed)?;
    let mut reader = source.open(split, &Position::start())?;
    let mut out = Vec::new();
    while let Next::Batch(batch) = reader.next()? {
        let Payload::Raw(raw) = batch.payload else { panic!("raw frames were expected") };
        decoder.decode(raw, &mut Strict::default(), &mut |rows, _| {
            out.push(rows.batch);
            Ok(())
        })?;
    }
    Ok(out)
}

/// Reads everything, one thread for each lane.
pub(super) fn read_all(uri: &str, more: &[(&str, &str)], degree: usize) -> (Vec<RecordBatch>, ReadPlan) {
    let mut source = open(uri, more).unwrap();
    let plan = plan(&mut source, degree);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let out = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..plan.lanes.max(1) {
            scope.spawn(|| {
                while let Some(split) = plan.splits.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let batches = read_split(&source, split).unwrap();
                    out.lock().unwrap().extend(batches);
                }
            });
        }
    });
    source.finish().unwrap();
    (out.into_inner().unwrap(), plan)
}

pub(super) fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

pub(super) fn ints(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let mut out = Vec::new();
    for batch in batches {
        let column = batch.column(column);
        match (column.as_any().downcast_ref::<Int32Array>(), column.as_any().downcast_ref::<Int64Array>()) {
            (Some(a), _) => out.extend(a.values().iter().map(|v| i64::from(*v))),
            (_, Some(a)) => out.extend(a.values()),
            _ => panic!("{} is no integer", column.data_type()),
        }
    }
    out
}

fn names(source: &PostgresSource) -> Vec<String> {
    source.schema(Form::Typed).unwrap().fields().iter().map(|f| f.name().clone()).collect()
}

#[test]
fn conformance_suite() {
    let db = Scratch::new();
    db.sql("create table t (id int not null, name text); insert into t values (1, 'one'), (2, null), (3, ''), (4, 'four')");
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false), Field::new("name", DataType::Utf8View, true)]));
    let batch = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
            Arc::new(StringViewArray::from(vec![Some("one"), None, Some(""), Some("four")])),
        ],
    )
    .unwrap();
    let uri = db.table("public.t");
    // The suite compares rows as text, and schemas only with themselves.
    let case = ReadCase { resumes: false, ..ReadCase::new(vec![batch]) };
    source(&|| Ok(Box::new(open(&uri, &[])?)), &case);
}

const PASSWORD: &str = "p@:/#?%25+;=&[]'\"\\ é€";

fn encoded(text: &str) -> String {
    haul_model::percent_encode(text)
}

#[test]
fn cn_01_special_characters_in_every_part() {
    let db = Scratch::new();
    let quoted = PASSWORD.replace('\'', "''");
    db.sql(&format!("create database \"d b/1 {}\"", db.database));
    let database = format!("d b/1 {}", db.database);
    let user = format!("u@x {}", db.database);
    db.sql(&format!("create role \"{user}\" login password '{quoted}'"));
    let port = db.server.port;
    let address = format!("127.0.0.1:{port}/{}", encoded(&database));
    let query = "query=select%201%20as%20x";
    let uri = format!("postgresql://{}:{}@{address}?{query}", encoded(&user), encoded(PASSWORD));
    assert_eq!(count(&read_all(&uri, &[], 1).0), 1);

    let plain = format!("postgres://{}@{address}?{query}", encoded(&user));
    let mut env = environment();
    env.vars.insert("PGPASSWORD".into(), PASSWORD.into());
    assert!(open_in(&plain, &[], &env).is_ok(), "PGPASSWORD");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pgpass");
    let escape = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
    std::fs::write(&file, format!("127.0.0.1:*:{}:{}:{}\n", escape(&database), escape(&user), escape(PASSWORD))).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut env = environment();
    env.vars.insert("PGPASSFILE".into(), file.display().to_string());
    assert!(open_in(&plain, &[], &env).is_ok(), "PGPASSFILE");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = open_in(&plain, &[], &env).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Auth, "a file that others can read is not used: {error}");

    // As typed, without encoding: an error that says what to do, and no word of the secret.
    let raw = format!("postgres://{user}:{PASSWORD}@{address}?{query}");
    for text in [raw, format!("postgres://u:hidden?secret@{address}"), format!("postgres://u:hidden/secret@{address}")] {
        let error = failure(&text, &[]);
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("percent-encode") || error.hint_text().unwrap_or("").contains("%25"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("hidden") && !shown.contains("+;="), "{shown}");
    }
    let error = failure(&uri.replace(&encoded(PASSWORD), "wrong"), &[]);
    assert_eq!((error.kind(), error.code_text()), (ErrorKind::Auth, Some("28P01")));
    db.sql(&format!("drop database \"{database}\""));
    db.sql(&format!("drop role \"{user}\""));
}

#[test]
fn cn_02_ssl_modes_by_uri_and_variable() {
    let server = services::postgres();
    let uri = |host: &str, more: &str| format!("postgres://postgres@{host}:{}/postgres?query=select%201%20as%20x{more}", server.port);
    let ca = encoded(server.ca.to_str().unwrap());
    let other = encoded(server.other_ca.to_str().unwrap());
    for mode in ["disable", "allow", "prefer", "require", "verify-ca", "VERIFY-FULL"] {
        assert!(open(&uri("localhost", &format!("&sslmode={mode}&sslrootcert={ca}")), &[]).is_ok(), "{mode}");
    }
    assert!(open(&uri("127.0.0.1", &format!("&sslmode=verify-ca&sslrootcert={ca}")), &[]).is_ok());
    let name = failure(&uri("127.0.0.1", &format!("&sslmode=verify-full&sslrootcert={ca}")), &[]);
    assert!(name.kind() == ErrorKind::Tls && name.to_string().contains("another host name"), "{name}");
    for mode in ["require", "verify-ca", "verify-full"] {
        let wrong = failure(&uri("localhost", &format!("&sslmode={mode}&sslrootcert={other}")), &[]);
        assert!(wrong.kind() == ErrorKind::Tls && wrong.to_string().contains("not signed by"), "{mode}: {wrong}");
    }
    let system = failure(&uri("localhost", "&sslrootcert=system"), &[]);
    assert_eq!(system.kind(), ErrorKind::Tls, "system means verify-full: {system}");
    assert!(failure(&uri("localhost", "&sslmode=verify_full"), &[]).to_string().contains("verify-full"));
    let mut env = environment();
    env.vars.insert("PGSSLMODE".into(), "verifyfull".into());
    let error = open_in(&uri("localhost", ""), &[], &env).err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.hint_text().unwrap().contains("verify-full"), "{error}");

    let db = Scratch::new();
    let _ = db.try_sql("create role haul_tls");
    db.sql("alter role haul_tls login password 'pw'");
    let tls_only =
        |mode: &str| format!("postgres://haul_tls:pw@127.0.0.1:{}/postgres?query=select%201%20as%20x&sslmode={mode}", server.port);
    for mode in ["allow", "prefer", "require"] {
        assert!(open(&tls_only(mode), &[]).is_ok(), "{mode}");
    }
    assert!(failure(&tls_only("disable"), &[]).to_string().contains("no encryption"));
    let _ = db.try_sql("create role haul_cert login");
    let (cert, key) = (encoded(server.client.0.to_str().unwrap()), encoded(server.client.1.to_str().unwrap()));
    let certified = format!("postgres://haul_cert@localhost:{}/postgres?query=select%201%20as%20x&sslmode=require", server.port);
    assert!(open(&format!("{certified}&sslcert={cert}&sslkey={key}"), &[]).is_ok());
    assert_eq!(failure(&certified, &[]).kind(), ErrorKind::Auth);
}

#[test]
fn cn_03_ways_to_name_a_server() {
    let server = services::postgres();
    let (port, folder) = (server.port, server.socket.to_str().unwrap());
    let query = "query=select%201%20as%20x";
    let socket = encoded(folder);
    for uri in [
        format!("postgres://postgres@/postgres?host={socket}&port={port}&{query}&sslmode=require"),
        format!("postgresql:///postgres?user=postgres&host={socket}&port={port}&{query}"),
        format!("postgres://postgres@{socket}:{port}/postgres?{query}"),
        format!("postgres://postgres@[::1]:{port}/postgres?{query}"),
        format!("postgres://postgres@127.0.0.1:1,localhost:{port}/postgres?{query}&target_session_attrs=read-write"),
        format!("postgres://postgres@/postgres?host=127.0.0.1,127.0.0.1&port=1,{port}&{query}"),
    ] {
        assert!(open(&uri, &[]).is_ok(), "{uri}: {:?}", open(&uri, &[]).err());
    }
    let mut env = environment();
    for (name, value) in
        [("PGHOST", folder), ("PGPORT", &port.to_string()), ("PGUSER", "postgres"), ("PGDATABASE", "postgres"), ("PGAPPNAME", "named")]
    {
        env.vars.insert(name.into(), value.into());
    }
    let bare = "postgres://?query=select%20current_setting('application_name')%20as%20x";
    assert!(open_in(bare, &[], &env).is_ok(), "{:?}", open_in(bare, &[], &env).err());
    env.vars.insert("PGSERVICE".into(), "prod".into());
    let error = open_in(bare, &[], &env).err().unwrap();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("PGSERVICE"), "{error}");
    let standby = format!("postgres://postgres@127.0.0.1:{port}/postgres?{query}&target_session_attrs=standby");
    assert!(failure(&standby, &[]).to_string().contains("standby"));
    let error = failure(&format!("postgres://postgres@127.0.0.1:{port}/no_such?{query}"), &[]);
    assert_eq!((error.kind(), error.code_text()), (ErrorKind::NotFound, Some("3D000")));
    let error = failure(&format!("postgres://postgres@127.0.0.1:1/x?{query}"), &[]);
    assert!(error.kind() == ErrorKind::Connect && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn sc_05_schemas_search_path_and_look_alikes() {
    let mut db = Scratch::new();
    let role = db.role("pw", "");
    db.sql(&format!(
        "create schema a; create schema b; create table a.t (id int primary key, ref_id int, x int unique); insert into a.t values (1, 2, 3);
         create table b.t (other text); create table b.\"T.q\" (\"Or\"\"der\" int); create table b.\"Orders\" (i int); create schema hidden; create table hidden.h (i int);
         grant usage on schema a, b to {role}; grant select on all tables in schema a, b to {role};
         alter role {role} set search_path = b, a"
    ));
    let uri = |table: &str| format!("{}?table={}", db.url_of(&role, "pw"), encoded(table));
    assert_eq!(names(&open(&uri("a.t"), &[]).unwrap()), ["id", "ref_id", "x"]);
    assert_eq!(names(&open(&uri("t"), &[]).unwrap()), ["other"]);
    assert_eq!(names(&open(&uri("b.\"T.q\""), &[]).unwrap()), ["Or\"der"]);
    assert_eq!(ints(&read_all(&uri("a.t"), &[("columns", "x,id")], 1).0, 0), [3]);
    let hint = |table: &str, more: &[(&str, &str)]| failure(&uri(table), more).hint_text().unwrap_or("").to_string();
    assert!(hint("orders", &[]).contains("b.Orders") && hint("b.orders", &[]).contains("case"), "{}", hint("orders", &[]));
    assert!(hint("a.tt", &[]).contains("a.t"), "{}", hint("a.tt", &[]));
    assert!(hint("h", &[]).contains("hidden.h"), "{}", hint("h", &[]));
    assert!(hint("a.t", &[("columns", "ID")]).contains("\"id\""));
    assert_eq!(failure(&uri("hidden.h"), &[]).kind(), ErrorKind::Permission);
    db.sql(&format!("create table a.locked (i int, j int); grant select (i) on a.locked to {role}"));
    assert_eq!(failure(&uri("a.locked"), &[]).kind(), ErrorKind::Permission);
    assert!(open(&uri("a.locked"), &[("columns", "i")]).is_ok(), "rights on one column are enough for that column");
}

#[test]
fn sc_06_empty_no_columns_no_key_views_and_the_like() {
    let db = Scratch::new();
    db.sql(
        "create table t0 (id int); create table z (); insert into z select from generate_series(1, 3);
         create table d (a int, b text); insert into d values (1, 'x'), (1, 'x'), (1, 'x');
         create view v as select a from d; create materialized view mv as select a from d;
         create table parent (id int, k int) partition by list (k);
         create extension if not exists postgres_fdw;",
    );
    db.sql(&format!(
        "create server loop foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{}', dbname '{}');
         create user mapping for postgres server loop options (user 'postgres', password_required 'false');
         create foreign table ft (a int, b text) server loop options (table_name 'd')",
        db.server.port, db.database
    ));
    for degree in [0, 1, 4] {
        for (table, rows) in [("t0", 0), ("z", 3), ("d", 3), ("v", 3), ("mv", 3), ("ft", 3), ("parent", 0)] {
            let (batches, _) = read_all(&db.table(&format!("public.{table}")), &[], degree);
            assert_eq!(count(&batches), rows, "{table}, degree {degree}");
        }
    }
    assert_eq!(failure(&db.table("public.no_such"), &[]).kind(), ErrorKind::NotFound);
    assert!(names(&open(&db.table("z"), &[]).unwrap()).is_empty());
}

#[test]
fn pa_03_all_lanes_see_one_snapshot() {
    let db = Scratch::new();
    // Padding, so that there are pages enough for several ranges.
    db.sql(
        "create table acc (id bigint primary key, v bigint not null, pad text) with (autovacuum_enabled = off);
         insert into acc select g, case when g % 2 = 0 then g else -g - 1 end, repeat('p', 200) from generate_series(1, 120000) g",
    );
    assert_eq!(db.sql("select sum(v) from acc"), "0");
    let uri = db.table("acc");
    std::thread::scope(|scope| {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (flag, db) = (stop.clone(), &db);
        scope.spawn(move || {
            let mut writer = db.session();
            let mut n = 0u64;
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                let a = n * 7919 % 120_000 + 1;
                writer.sql(&format!(
                    "begin; update acc set id = -id where id in ({a}, {b}); update acc set v = v + 5 where abs(id) = {a}; \
                     update acc set v = v - 5 where abs(id) = {b}; delete from acc where id = {c}; \
                     insert into acc select {c}, {v}, 'new' where not exists (select from acc where id = {c}); commit",
                    b = a % 120_000 + 1,
                    c = 1_000_000 + n % 10,
                    v = 0
                ));
            }
        });
        for round in 0..3 {
            let mut source = open(&uri, &[]).unwrap();
            let plan = plan(&mut source, 4);
            assert!(plan.lanes == 4 && plan.splits.len() > 4, "{}: {} splits", plan.method, plan.splits.len());
            // Lanes start late, one after the other, while rows move between the ranges.
            let batches: Vec<RecordBatch> = plan
                .splits
                .iter()
                .rev()
                .flat_map(|split| {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    read_split(&source, split).unwrap()
                })
                .collect();
            let mut ids: Vec<i64> = ints(&batches, 0).into_iter().map(i64::abs).collect();
            let rows = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), rows, "round {round}: an id came twice");
            assert_eq!(ids.iter().filter(|id| **id <= 120_000).count(), 120_000, "round {round}: rows are missing");
            assert_eq!(ints(&batches, 1).iter().sum::<i64>(), 0, "round {round}: the sum does not hold");
            source.finish().unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn pa_04_rewrites_growth_bloat_partitions_and_unknown_sizes() {
    let db = Scratch::new();
    let fill = "select g, repeat('p', 300) from generate_series(1, 60000) g";
    // (e) never analysed: relpages is 0 although there are rows.
    db.sql(&format!("create table t (id int primary key, pad text) with (autovacuum_enabled = off); insert into t {fill}"));
    assert_eq!(db.sql("select relpages from pg_class where relname = 't'"), "0");
    let (batches, read) = read_all(&db.table("t"), &[], 2);
    assert!(read.splits.len() > 1 && count(&batches) == 60_000, "{:?}", read.splits);

    // (a) nobody can rewrite the table between plan and end; (b) it may grow meanwhile.
    let mut source = open(&db.table("t"), &[]).unwrap();
    let plan = plan(&mut source, 2);
    let blocked = db.try_sql("set lock_timeout = '200ms'; cluster t using t_pkey").unwrap_err();
    assert!(blocked.contains("lock timeout"), "{blocked}");
    db.sql("insert into t select g, repeat('n', 300) from generate_series(60001, 200000) g");
    let rows: usize = plan.splits.iter().map(|split| count(&read_split(&source, split).unwrap())).sum();
    assert_eq!(rows, 60_000);
    source.finish().unwrap();
    drop(source);

    // (c) nine pages in ten are empty.
    db.sql("delete from t where id % 20 <> 0 or id > 60000; vacuum t; cluster t using t_pkey");
    assert_eq!(count(&read_all(&db.table("t"), &[], 3).0), 3000);

    // (d) every leaf once, also with a default partition, a sub-partitioned one and a foreign column order.
    db.sql(
        "create table p (id int, k int, pad text) partition by list (k); create table p1 partition of p for values in (1);
         create table p2 (pad text, k int, id int); alter table p attach partition p2 for values in (2);
         create table p3 partition of p for values in (3) partition by range (id);
         create table p3a partition of p3 for values from (0) to (30000); create table p3b partition of p3 default; create table pd partition of p default;
         insert into p select g, g % 5, repeat('x', 300) from generate_series(1, 60000) g",
    );
    let (batches, read) = read_all(&db.table("p"), &[], 3);
    let mut ids = ints(&batches, 0);
    ids.sort_unstable();
    assert_eq!(ids, (1..=60_000).collect::<Vec<i64>>(), "{}", read.method);
    assert!(read.splits.len() >= 5, "{:?}", read.splits);
    // Inheritance: the parent's own rows and its children's.
    db.sql("create table base (id int); create table kid (more int) inherits (base); insert into base values (1); insert into kid values (2, 0)");
    for degree in [1, 2] {
        assert_eq!(count(&read_all(&db.table("base"), &[], degree).0), 2, "degree {degree}");
    }
}

#[test]
fn row_level_security_is_never_silent() {
    let mut db = Scratch::new();
    let role = db.role("pw", "");
    db.sql(&format!(
        "create table t (id int, owner text); insert into t values (1, 'me'), (2, 'you'); alter table t enable row level security;
         create policy mine on t using (owner = 'me'); create view v with (security_invoker) as select * from t; grant select on t, v to {role}"
    ));
    let uri = |table: &str| format!("{}?table={table}", db.url_of(&role, "pw"));
    let error = failure(&uri("t"), &[]);
    assert!(error.kind() == ErrorKind::Permission && error.hint_text().unwrap().contains("row_security=on"), "{error:?}");
    let error = failure(&uri("v"), &[]);
    assert!(error.kind() == ErrorKind::Permission && error.hint_text().unwrap().contains("row_security=on"), "{error:?}");
    let query = format!("{}?query=select%20*%20from%20t", db.url_of(&role, "pw"));
    assert_eq!(failure(&query, &[]).kind(), ErrorKind::Permission);
    let (batches, _) = read_all(&uri("t"), &[("row_security", "on")], 2);
    assert_eq!(ints(&batches, 0), [1]);
    let notes = open(&uri("t"), &[("row_security", "on")]).unwrap().notes(Form::Typed);
    assert!(notes.iter().any(|n| n.lossy && n.text.contains("visible")), "{notes:?}");
    assert_eq!(count(&read_all(&db.table("t"), &[], 1).0), 2, "a superuser sees all");
}

#[test]
fn queries_conditions_orders_and_limits() {
    let db = Scratch::new();
    db.sql("create table t (id int, \"N\" text); insert into t select g, 'n' || g from generate_series(1, 100) g");
    let uri = db.table("t");
    let read = |more: &[(&str, &str)]| ints(&read_all(&uri, more, 2).0, 0);
    assert_eq!(read(&[("where", "id > 97 -- the last"), ("order_by", "id desc -- downwards")]), [100, 99, 98]);
    assert_eq!(read(&[("cursor_column", "id"), ("limit", "2")]), [1, 2]);
    assert_eq!(read(&[("limit", "0")]), [0i64; 0]);
    let by_query = format!("{}?query={}", db.url(), encoded("select id * 2 as twice from t where id < 3 order by id; "));
    assert_eq!(ints(&read_all(&by_query, &[], 4).0, 0), [2, 4]);
    assert_eq!(ints(&read_all(&by_query, &[("where", "twice = 4")], 1).0, 0), [4]);
    let error = failure(&uri, &[("where", "nope = 1")]);
    assert!(error.kind() == ErrorKind::NotFound && error.hint_text().unwrap().contains("where"), "{error:?}");
    assert!(failure(&uri, &[("where", "id = ")]).code_text() == Some("42601"));
    let double = format!("{}?query={}", db.url(), encoded("select 1 as a, 2 as a"));
    assert_eq!(failure(&double, &[]).kind(), ErrorKind::Schema);
    let writes = format!("{}?query={}", db.url(), encoded("insert into t values (1, 'x') returning id"));
    assert!(failure(&writes, &[]).code_text().is_some());
    assert_eq!(db.sql("select count(*) from t"), "100");
    assert!(failure(&db.url(), &[]).hint_text().unwrap().contains("table="));
    assert!(failure(&by_query, &[("table", "t")]).to_string().contains("both"));
    assert_eq!(failure(&uri, &[("cursor_column", "n")]).kind(), ErrorKind::NotFound);
    assert_eq!(failure(&uri, &[("columns", "id,id")]).kind(), ErrorKind::Config);
}

#[test]
fn discovery_of_types_keys_and_shapes() {
    let db = Scratch::new();
    db.sql(
        "create schema other; create type other.mood as enum ('sad', 'ok'); create domain other.pos as numeric(12,3) not null check (value > 0);
         create domain other.pos2 as other.pos; create type pair as (a int, b text);
         create table t (gone int, id int generated always as identity, idd int generated by default as identity, g int generated always as (1) stored,
           n numeric(15,2), p other.pos2, m other.mood, ma other.mood[], ia int[], ps other.pos[], pr pair, r int4range, mr nummultirange, c char(3), dv text default 'x', nn text not null);
         alter table t drop column gone",
    );
    let source = open(&db.table("t"), &[]).unwrap();
    let column = |name: &str| source.columns().iter().find(|c| c.name == name).unwrap().clone();
    assert_eq!(source.columns()[0].name, "id");
    assert_eq!(column("id").identity, Some(super::catalog::Identity::Always));
    assert_eq!(column("idd").identity, Some(super::catalog::Identity::ByDefault));
    assert!(column("g").generated && !column("g").has_default && column("dv").has_default && column("nn").not_null);
    assert_eq!(column("n").type_name, "numeric(15,2)");
    let p = column("p");
    assert_eq!(
        (p.type_name.as_str(), p.base.sql.as_str(), p.base.oid, p.not_null, p.is_domain),
        ("other.pos2", "numeric(12,3)", 1700, true, true)
    );
    assert_eq!((column("m").type_name.as_str(), column("m").labels), ("other.mood", vec!["sad".to_string(), "ok".to_string()]));
    assert_eq!((column("ma").type_name.as_str(), column("ma").labels.len()), ("other.mood[]", 2));
    assert_eq!((column("ia").elem.unwrap().oid, column("ia").elem_oid), (23, 23));
    let ps = column("ps");
    assert!(ps.elem.as_ref().unwrap().oid == 1700 && ps.elem_oid != 1700 && ps.elem.unwrap().typmod == column("p").base.typmod);
    assert_eq!((column("r").subtype.unwrap().oid, column("mr").subtype.unwrap().oid), (23, 1700));
    assert_eq!((column("pr").base.kind, column("c").type_name.as_str()), (super::catalog::TypeKind::Composite, "character(3)"));
    // Composites hold OIDs, so the bytes are only good within their database.
    let copies = |source: &PostgresSource| source.encodings().into_iter().filter(|e| e.format != "pg-statement").collect::<Vec<_>>();
    let encodings = copies(&source);
    assert_eq!(source.encodings()[0].format, "pg-statement");
    assert!(encodings[0].format == "pgcopy-binary" && encodings[0].detail.contains('/'), "{encodings:?}");
    let portable = copies(&open(&db.table("t"), &[("columns", "n,m,ia,r,c")]).unwrap());
    assert_eq!((portable[0].format, portable[0].detail.as_str(), portable[1].format), ("pgcopy-binary", "", "pgcopy-text"));
    db.sql("create table reg (c regclass)");
    assert_eq!(copies(&open(&db.table("reg"), &[]).unwrap())[0].format, "pgcopy-text");
}

#[test]
fn sc_09_large_objects_are_named_before_the_run() {
    let db = Scratch::new();
    db.sql("create extension if not exists lo; create table t (id int, doc oid, l lo); select lo_from_bytea(0, '\\x00')");
    let notes = open(&db.table("t"), &[]).unwrap().notes(Form::Typed);
    for name in ["doc", "l"] {
        assert!(notes.iter().any(|n| n.column.as_deref() == Some(name) && n.lossy && n.text.contains("large objects")), "{notes:?}");
    }
}

#[test]
fn cn_04_a_pooler_in_either_mode() {
    let db = Scratch::new();
    db.sql("create table t (id int, pad text); insert into t select g, repeat('p', 300) from generate_series(1, 60000) g");
    let (session, transaction) = services::pgbouncer();
    for port in [session, transaction] {
        let uri = format!("postgres://postgres@127.0.0.1:{port}/{}?table=t&sslmode=disable", db.database);
        let notes = open(&uri, &[]).unwrap().notes(Form::Typed);
        assert!(notes.iter().any(|n| n.text.contains("pooler")), "{notes:?}");
        let (batches, plan) = read_all(&uri, &[], 2);
        assert_eq!((count(&batches), plan.lanes), (60_000, 2), "port {port}");
    }
}

#[test]
fn op_04_ends_that_the_server_makes() {
    let db = Scratch::new();
    db.sql("create table t (id int); insert into t values (1)");
    let slow = format!("{}?query={}&statement_timeout=300ms", db.url(), encoded("select pg_sleep(5)::text as x"));
    let mut source = open(&slow, &[]).unwrap();
    let read = plan(&mut source, 1);
    assert_eq!(read_split(&source, &read.splits[0]).unwrap_err().kind(), ErrorKind::Timeout);

    let slow = format!("{}?query={}&application_name=victim_{}", db.url(), encoded("select pg_sleep(5)::text as x"), db.database);
    let mut source = open(&slow, &[]).unwrap();
    let read = plan(&mut source, 1);
    let error = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_split(&source, &read.splits[0]).unwrap_err());
        std::thread::sleep(std::time::Duration::from_millis(300));
        db.sql(&format!("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim_{}'", db.database));
        reader.join().unwrap()
    });
    assert!(error.kind() == ErrorKind::Connect && error.to_string().contains("administrator"), "{error}");

    // Roles and databases may come with limits of their own; a read lifts them.
    db.sql(&format!(
        "alter database {} set idle_in_transaction_session_timeout = '200ms'; alter database {} set statement_timeout = '5s'",
        db.database, db.database
    ));
    let mut source = open(&db.table("t"), &[]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let read = plan(&mut source, 1);
    assert_eq!(count(&read_split(&source, &read.splits[0]).unwrap()), 1);
}

#[test]
fn stopping_ends_a_read_at_once() {
    let db = Scratch::new();
    let env = environment();
    let uri = format!("{}?query={}", db.url(), encoded("select pg_sleep(20)::text as x"));
    let mut source = open_in(&uri, &[], &env).unwrap();
    let read = plan(&mut source, 1);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            env.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(read_split(&source, &read.splits[0]).unwrap_err().kind(), ErrorKind::Cancelled);
    });
    assert!(begun.elapsed() < std::time::Duration::from_secs(3));
}

#[test]
fn op_05_a_huge_row_is_refused_by_its_number() {
    let db = Scratch::new();
    db.sql("create table t (id int, b text); insert into t values (1, 'x'), (2, repeat('y', 3000000))");
    assert_eq!(count(&read_all(&db.table("t"), &[], 1).0), 2);
    let mut source = open(&db.table("t"), &[("max_row_bytes", "1MiB")]).unwrap();
    let read = plan(&mut source, 1);
    let error = read_split(&source, &read.splits[0]).unwrap_err();
    assert_eq!((error.kind(), error.place().row), (ErrorKind::Limit, Some(2)));
    assert!(error.to_string().contains("public.t") && error.hint_text().unwrap().contains("max-row-bytes"), "{error:?}");
}

#[test]
fn check_says_what_is_possible() {
    let mut db = Scratch::new();
    let role = db.role("pw", "");
    db.sql(&format!("create table t (id int); grant select on t to {role}"));
    let run = |uri: &str| {
        let endpoint = Endpoint::parse(uri).unwrap();
        let pairs = endpoint.query.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let settings = Settings::resolve(&[config::SOURCE], pairs, "postgres").unwrap();
        super::check::check(&endpoint, &settings, &environment()).unwrap()
    };
    let found = |lines: &[haul_model::CheckLine], what: &str| {
        let line = lines.iter().find(|l| l.what == what).unwrap_or_else(|| panic!("no {what:?} in {lines:?}"));
        (line.ok, line.found.clone())
    };
    let lines = run(&format!("{}?table=t", db.url_of(&role, "pw")));
    assert!(found(&lines, "connect").1.contains("PostgreSQL 15") && found(&lines, "encryption").1.contains("TLS"));
    assert_eq!(found(&lines, "read rights"), (Some(true), "SELECT".into()));
    assert_eq!(found(&lines, "write rights"), (None, "none".into()));
    assert!(found(&run(&db.table("t")), "write rights").1.contains("INSERT, TRUNCATE, DELETE, owner"));
    let lines = run(&format!("{}?table=t", db.url_of(&role, "wrong")));
    assert_eq!(found(&lines, "connect").0, Some(false));
}
