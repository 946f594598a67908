//! `haul run`: many streams from one file.

use crate::postgres::Site;
use crate::runner::{Folder, Ran};
use haul_testkit::pg::Scratch;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A shop with foreign keys, something of an extension's look, and names that need quotes.
const SHOP: &str = "create schema sales;
    create table public.customers (id int primary key, name text);
    create table public.orders (id int primary key, customer int references customers, total numeric(10,2));
    create table public.audit_log (at timestamptz, what text);
    create table sales.\"Odd/Name\" (id int, \"A b\" text);
    insert into customers select g, 'c' || g from generate_series(1, 500) g;
    insert into orders select g, 1 + g % 500, g / 7.0 from generate_series(1, 9000) g;
    insert into audit_log values (now(), 'x');
    insert into sales.\"Odd/Name\" values (1, 'one'), (2, null)";

/// Two databases and a folder with a job file.
struct Shop {
    site: Site,
    copy: Scratch,
}

impl Shop {
    fn new(target: &str, streams: &str) -> Self {
        let shop = Self { site: Site::new(SHOP), copy: Scratch::new() };
        shop.copy.sql(target);
        shop.job(streams);
        shop
    }

    fn job(&self, streams: &str) {
        let (prod, copy) = (self.site.db.url(), self.copy.url());
        let text =
            format!("connections:\n  prod: {prod}\n  copy: {{uri: '{copy}'}}\n  lake: {}\n{streams}", self.site.dir.path("lake").display());
        self.site.dir.write("job.yaml", text);
    }

    fn run(&self, flags: &[&str]) -> Ran {
        let mut arguments = vec!["run", "job.yaml"];
        arguments.extend(flags);
        self.site.dir.haul(&arguments)
    }

    fn streams(&self, flags: &[&str]) -> Vec<(String, String)> {
        let ran = self.run(&[flags, &["--json"]].concat());
        // Shown if the test fails.
        eprintln!("{}", ran.err);
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let text = |stream: &serde_json::Value, key: &str| stream[key].as_str().unwrap_or_default().to_string();
        json["streams"].as_array().unwrap().iter().map(|s| (text(s, "stream"), text(s, "status"))).collect()
    }
}

#[test]
fn a_schema_is_copied_with_its_names_and_in_the_order_of_its_foreign_keys() {
    let shop = Shop::new(
        "create table customers (id int primary key, name text); create table orders (id int primary key, customer int references customers, total numeric(10,2)); create schema sales",
        "defaults: {mode: append, create: true}\nstreams:\n  - {from: 'prod:*.*', exclude: [public.audit_*], to: 'copy:{schema}.{table}'}\n",
    );
    let plan = shop.run(&["--dry-run"]).ok();
    assert!(plan.out.contains("== prod:public.orders (after prod:public.customers)\n"), "{}", plan.out);
    assert!(plan.out.contains("CREATE TABLE") && plan.out.contains("\"Odd/Name\""), "{}", plan.out);
    assert_eq!(shop.copy.sql("select count(*) from customers"), "0");
    let ran = shop.run(&[]).ok();
    for (table, rows) in [("public.customers", 500), ("public.orders", 9000), ("sales.\"Odd/Name\"", 2)] {
        assert_eq!(shop.copy.sql(&format!("select count(*) from {table}")), rows.to_string());
        let rows = |db: &Scratch| db.sql(&format!("select x::text from {table} x order by 1"));
        assert_eq!(rows(&shop.copy), rows(&shop.site.db), "{table}");
    }
    assert_eq!(shop.copy.sql("select to_regclass('audit_log') is null"), "t");
    for line in ["prod:public.customers", "prod:sales.Odd/Name", "3 streams  9,502 rows"] {
        assert!(ran.err.contains(line), "{}", ran.err);
    }
}

#[test]
fn tables_become_files_and_files_tables() {
    let shop = Shop::new(
        "",
        "streams:\n  - {from: 'prod:*.*', include: [orders, Odd*], to: 'lake:{schema}/{table}.csv'}\n  - from: prod?query=SELECT id * 2 AS twice FROM customers WHERE id < 4\n    name: doubled\n    to: lake:doubled.jsonl\n",
    );
    std::fs::create_dir(shop.site.dir.path("lake")).unwrap();
    // The folders of the schemas are made; a dry run makes none.
    shop.run(&["--dry-run"]).ok();
    assert!(!shop.site.dir.path("lake/public").exists());
    shop.run(&[]).ok();
    assert_eq!(shop.site.dir.text("lake/public/orders.csv").lines().count(), 9001);
    assert_eq!(shop.site.dir.text("lake/sales/Odd%2FName.csv"), "id,A b\n1,one\n2,\n");
    assert_eq!(shop.site.dir.text("lake/doubled.jsonl"), "{\"twice\":2}\n{\"twice\":4}\n{\"twice\":6}\n");
    shop.job(
        "streams:\n  - from: lake:public/orders.csv\n    to: copy:back\n    create: true\n    transforms: [{cast: {id: int, total: 'numeric(10,2)'}}, {rename: {customer: who}}, {columns: [id, total]}]\n",
    );
    shop.run(&[]).ok();
    assert_eq!(
        shop.copy.sql("select count(*), sum(id), sum(total) from back"),
        shop.site.sql("select count(*), sum(id), sum(total) from orders")
    );
    assert_eq!(
        shop.copy.sql("select string_agg(column_name || ' ' || data_type, ',') from information_schema.columns where table_name = 'back'"),
        "id integer,total numeric"
    );
}

#[test]
fn one_failure_leaves_the_others_alone_and_resume_does_it_again() {
    let shop = Shop::new(
        "create table customers (id int primary key, name text); create table audit_log (at timestamptz, what text)",
        "defaults: {mode: append}\nstreams:\n  - {from: 'prod:public.*', to: 'copy:{table}'}\n",
    );
    let ran = shop.run(&[]).failed();
    assert!(ran.err.contains("error: prod:public.orders: "), "{}", ran.err);
    assert!(ran.err.contains("--create"), "{}", ran.err);
    assert!(ran.err.contains("1 of 3 streams did not end well"), "{}", ran.err);
    assert_eq!(shop.copy.sql("select (select count(*) from customers), (select count(*) from audit_log)"), "500|1");
    shop.copy.sql("create table orders (id int primary key, customer int references customers, total numeric(10,2))");
    let of = |name: &str, status: &str| (format!("prod:public.{name}"), status.to_string());
    assert_eq!(shop.streams(&["--resume"]), [of("audit_log", "done before"), of("customers", "done before"), of("orders", "ok")]);
    assert_eq!(
        shop.copy.sql("select (select count(*) from customers), (select count(*) from audit_log), (select count(*) from orders)"),
        "500|1|9000"
    );
    // The job is over: nothing is remembered of it.
    assert!(shop.site.dir.haul(&["state", "list"]).ok().out.starts_with("no run has left anything"));
}

#[test]
fn what_refers_to_a_failed_stream_does_not_begin_and_fail_fast_ends_it_all() {
    let target = "create table customers (id int primary key, name int); create table orders (id int primary key, customer int references customers, total numeric(10,2)); create table audit_log (at timestamptz, what text)";
    let streams = "defaults: {mode: append}\nstreams:\n  - {from: 'prod:public.*', to: 'copy:{table}'}\n";
    let shop = Shop::new(target, streams);
    let of = |name: &str, status: &str| (format!("prod:public.{name}"), status.to_string());
    assert_eq!(shop.streams(&[]), [of("audit_log", "ok"), of("customers", "failed"), of("orders", "skipped")]);
    assert_eq!(shop.copy.sql("select count(*) from orders"), "0");
    shop.copy.sql("truncate audit_log");
    let ends = shop.streams(&["--fail-fast", "--max-parallel-tables", "1", "--select", "customers,orders"]);
    assert_eq!(ends, [of("customers", "failed"), of("orders", "skipped")]);
}

#[test]
fn foreign_keys_come_when_all_tables_are_there_also_in_circles() {
    let ddl = "create table a (id int primary key, b int); create table b (id int primary key, a int references a, up int references b);
        alter table a add constraint a_b foreign key (b) references b deferrable initially deferred; create table c (a int constraint c_a references a not null)";
    let site = Site::new(&format!(
        "{ddl}; begin; insert into a select g, g from generate_series(1, 100) g; insert into b select g, g, 1 from generate_series(1, 100) g; commit; insert into c values (7)"
    ));
    let copy = Scratch::new();
    copy.sql("create schema other");
    let job = format!(
        "defaults: {{create: true, with_keys: true, with_constraints: true}}\nconnections: {{one: '{}', two: '{}'}}\nstreams:\n  - {{from: 'one:public.*', to: 'two:other.{{table}}'}}\n",
        site.db.url(),
        copy.url()
    );
    site.dir.write("job.yaml", &job);
    let plan = site.dir.haul(&["run", "job.yaml", "--dry-run"]).ok().out;
    assert!(plan.contains("the foreign key a_b is made and checked when all tables of the job are there"), "{plan}");
    site.dir.haul(&["run", "job.yaml"]).ok();
    let keys = "select conname, pg_get_constraintdef(oid), convalidated from pg_constraint where contype = 'f' order by 1";
    let expected = site.sql(keys).replace("REFERENCES ", "REFERENCES other.");
    assert_eq!(copy.sql(keys), expected);
    assert_eq!(expected.lines().count(), 4);
    // Rows that break a key fail the job, by name; then nothing has to be loaded again.
    copy.sql("drop schema other cascade; create schema other");
    site.sql("alter table c drop constraint c_a; insert into c values (4711); alter table c add constraint c_a foreign key (a) references a not valid; update pg_constraint set convalidated = true where conname = 'c_a'");
    let ran = site.dir.haul(&["run", "job.yaml"]).failed();
    assert!(ran.err.contains("one:public.c: foreign keys") && ran.err.contains("4711"), "{}", ran.err);
    copy.sql("delete from other.c where a = 4711");
    let ran = site.dir.haul(&["run", "job.yaml", "--resume"]).ok();
    assert_eq!(ran.err.matches("done before").count(), 3, "{}", ran.err);
    assert_eq!(copy.sql("select count(*) from pg_constraint where contype = 'f' and convalidated"), "4");
}

#[test]
fn all_streams_of_a_database_show_one_instant() {
    let site = Site::new(
        "create table a (id int primary key, amount bigint); create table b (id int primary key, amount bigint); insert into a select g, 1000 from generate_series(1, 20000) g; insert into b select g, 1000 from generate_series(1, 20000) g",
    );
    let copy = Scratch::new();
    site.dir.write(
        "job.yaml",
        format!("max_parallel_tables: 1\ndefaults: {{mode: replace, create: true}}\nconnections: {{one: '{}', two: '{}'}}\nstreams:\n  - {{from: 'one:public.*', to: two}}\n", site.db.url(), copy.url()),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut session = site.db.session();
            let mut moved = 0;
            while !stop.load(Relaxed) {
                // From one table to the other and on, in one transaction.
                let id = 1 + moved % 20000;
                session.sql(&format!(
                    "begin; update a set amount = amount - 7 where id = {id}; update b set amount = amount + 7 where id = {id}; commit"
                ));
                moved += 1;
            }
            moved
        });
        let runs: Vec<(Ran, String)> = (0..6)
            .map(|_| (site.dir.haul(&["run", "job.yaml"]), copy.sql("select (select sum(amount) from a) + (select sum(amount) from b)")))
            .collect();
        stop.store(true, Relaxed);
        assert!(writer.join().unwrap() > 10);
        for (ran, sum) in runs {
            assert_eq!((ran.code, sum.as_str()), (0, "40000000"), "{ran:?}");
        }
    });
    assert_ne!(copy.sql("select sum(amount) from a"), "20000000", "the writer wrote between the runs");
}

#[test]
fn a_killed_job_of_fifty_tables_is_gone_on_with() {
    let ddl = |n: usize| format!("create table t{n} (id int, pad text)");
    let fill = |n: usize| format!("insert into t{n} select g, repeat('x', 50) from generate_series(1, {}) g", 100 + n);
    let tables: Vec<usize> = (0..50).collect();
    let all = |of: &dyn Fn(usize) -> String| tables.iter().map(|n| of(*n)).collect::<Vec<_>>().join("; ");
    let (site, copy) = (Site::new(&format!("{}; {}", all(&ddl), all(&fill))), Scratch::new());
    copy.sql(&all(&ddl));
    site.dir.write(
        "job.yaml",
        format!(
            "defaults: {{mode: truncate}}\nconnections: {{one: '{}', two: '{}'}}\nstreams:\n  - {{from: 'one:public.t*', to: two}}\n",
            site.db.url(),
            copy.url()
        ),
    );
    let mut redone = 0;
    for after in [20, 31] {
        let mut child = site.dir.start(&["run", "job.yaml", "--resume"]);
        while copy.sql("select count(*) > 0 from pg_stat_all_tables where relname ~ '^t\\d' and n_tup_ins > 0") != "t" {}
        let full = all(&|n| format!("select {n} from t{n} having count(*) > 0")).replace("; ", " union all ");
        while copy.sql(&format!("select count(*) >= {after} from ({full}) x")) != "t" {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        redone += 1;
    }
    let ran = site.dir.haul(&["run", "job.yaml", "--resume", "--json"]).ok();
    assert!(ran.out.matches("done before").count() >= 15, "after {redone} kills: {}", ran.out);
    for n in tables {
        assert_eq!(
            copy.sql(&format!("select count(*), sum(id) from t{n}")),
            site.sql(&format!("select count(*), sum(id) from t{n}")),
            "t{n}"
        );
    }
    assert!(site.dir.haul(&["state", "list"]).ok().out.starts_with("no run has left anything"));
}

/// Job files that are wrong, and what is said of them.
#[test]
fn mistakes_in_the_file_are_told_with_their_line() {
    let dir = Folder::new();
    let told = |text: &str| {
        dir.write("job.yaml", text);
        let ran = dir.haul(&["run", "job.yaml"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        ran.err
    };
    let mut all = String::new();
    for text in [
        "streams:\n  - from: a.csv\n    to: b.jsonl\n    batch_sise: 10\n",
        "streams:\n  - from: a.csv\n    to: b.jsonl\n    degree: many\n",
        "streams:\n  - from: a.csv\n",
        "streams: []\n",
        "streams:\n  - from: a.csv\n    from: b.csv\n    to: c.csv\n",
        "max_parallel_workers: 4\nstreams:\n  - {from: a.csv, to: b.csv}\n",
        "defaults:\n  batches_per_partition: 4\nstreams:\n  - {from: a.csv, to: b.csv}\n",
        "connections:\n  db: postgres://app:${HAUL_NO_SUCH_PASSWORD}@h/d\nstreams:\n  - {from: 'db:t', to: b.csv}\n",
        "connections:\n  prod: postgres://app@h/d\nstreams:\n  - {from: 'prdo:t', to: b.csv}\n",
        "streams:\n  - {from: a.csv, to: b.csv, transforms: [{filtre: x}]}\n",
        "streams:\n  - {from: a.csv, to: b.csv, resume: on}\n",
        "streams:\n  - {from: a.csv, to: 'out/{table}.csv'}\n",
        "streams:\n  - {from: a.csv, to: c.csv}\n  - {from: b.csv, to: c.csv}\n",
        "streams: [\n",
    ] {
        all.push_str(&format!("{text}--\n{}\n", told(text)));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_schema_of_the_file_knows_every_setting() {
    let dir = Folder::new();
    let schema: serde_json::Value = serde_json::from_str(&dir.haul(&["schema-of-config"]).ok().out).unwrap();
    let stream = &schema["properties"]["streams"]["items"];
    assert_eq!(stream["additionalProperties"], false);
    for name in
        ["from", "to", "mode", "split_key", "key", "degree", "concurrency", "where", "sslmode", "delimiter", "transforms", "exclude"]
    {
        assert!(stream["properties"][name]["description"].is_string(), "{name}");
    }
    for name in ["resume", "state", "json", "progress", "dry_run"] {
        assert!(stream["properties"][name].is_null(), "{name} belongs to the command line");
    }
    // Python's own judgement of the schema's words is not at hand; but every type in it is one of JSON's.
    let text = schema.to_string();
    for kind in text.split("\"type\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(["string", "number", "integer", "boolean", "object", "array"].contains(&kind), "{kind}");
    }
}

#[test]
fn each_stream_is_verified_as_it_asks_for() {
    let shop = Shop::new(
        "create table customers (id int primary key, name text); create table orders (id int primary key, customer int, total numeric(10,2)); \
         create function bend() returns trigger language plpgsql as 'begin new.total = 0; return new; end'; \
         create trigger bend before insert on orders for each row when (new.id = 7) execute function bend()",
        "defaults: {verify: checksum}\nstreams:\n  - {from: 'prod:customers', to: 'copy:{table}'}\n  - {from: 'prod:customers', name: counted, to: 'lake:c.parquet', verify: count}\n  \
         - {from: 'prod:customers', name: unproven, to: 'lake:c.csv', verify: off}\n  - {from: 'prod:orders', to: 'copy:{table}'}\n",
    );
    std::fs::create_dir(shop.site.dir.path("lake")).unwrap();
    let ran = shop.run(&[]).failed();
    let line = |name: &str| ran.err.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{ran:?}"));
    let table = |name: &str| line(name).split_whitespace().rev().take(2).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(line("stream").split_whitespace().rev().take(2).collect::<Vec<_>>(), ["result", "verified"]);
    assert_eq!(table("prod:public.customers"), ["ok", "checksum"], "{ran:?}");
    assert_eq!(table("counted"), ["ok", "count"], "{ran:?}");
    assert_eq!(table("unproven"), ["ok", "-"], "{ran:?}");
    assert_eq!(table("prod:public.orders"), ["FAILED", "-"], "{ran:?}");
    assert!(ran.err.contains("column \"total\": the values are not those that were sent"), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&shop.run(&["--json", "--select", "counted"]).ok().out).unwrap();
    assert_eq!(json["streams"][0]["verified"]["how"], "count", "{json}");
}

#[test]
fn many_streams_share_few_sessions() {
    let tables: String = (0..24).map(|i| format!("create table t{i} as select g as id from generate_series(1, 50) g; ")).collect();
    let site = Site::new(&tables);
    let copy = Scratch::new();
    let text = format!(
        "streams:\n  - {{from: '{}?table=t*', to: '{}?table={{table}}', create: true, mode: replace}}\n",
        site.db.url(),
        copy.url()
    );
    site.dir.write("job.yaml", text);
    // What the server counts comes in a moment late.
    let sessions = || copy.sql("select sessions from pg_stat_database where datname = current_database()").parse::<u64>().unwrap();
    site.dir.haul(&["run", "job.yaml", "--max-parallel-tables", "2"]).ok();
    assert_eq!(copy.sql("select sum(id) from t0, (select count(*) from t23) c"), "1275");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let opened = sessions();
    assert!((1..24).contains(&opened), "{opened} sessions for 24 tables");
    // Nothing of one stream stays in the session for the next.
    let names = copy.sql("select count(*) from pg_stat_activity where datname = current_database() and application_name like 'haul/%'");
    assert_eq!(names, "0");
}
