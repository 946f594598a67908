//! New tables like the source's, triggers of the target, and statements around a load.

use crate::postgres::Site;
use haul_testkit::pg::Scratch;

/// A table with one of everything.
const RICH: &str = "create function half(int) returns int language sql immutable as 'select $1 / 2';
    create table city (id int primary key); insert into city values (1), (2);
    create table gone (id int primary key); insert into gone values (1);
    create table rich (id int generated always as identity (increment by 5) primary key, serial serial, at date default '2020-02-29',
        n int not null default half(8) constraint positive check (n > 0), code text, boss int constraint boss_fk references rich on delete set null deferrable initially deferred,
        city int not null references city, gone int references gone, twice int generated always as (n * 2) stored,
        constraint code_u unique (code, n) deferrable, constraint late check (n < 100) not valid);
    create index rich_low on rich (lower(code) desc) include (at) where n > 3;
    create unique index \"Odd \"\" name\" on rich using btree (city, id);
    insert into rich (n, code, boss, city, gone) select g, 'c' || g, case when g > 1 then 1 end, 1, 1 from generate_series(1, 20) g";

const CONSTRAINTS: &str =
    "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'rich'::regclass and contype <> 'n' order by 1";
const INDEXES: &str = "select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'rich'::regclass order by 1";
const FILLERS: &str = "select attname, attidentity, attnotnull, pg_get_expr(adbin, adrelid) from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = 'rich'::regclass and attnum > 0 and attgenerated = '' and attname <> 'twice' order by attnum";

#[test]
fn sc_01_a_new_table_gets_everything_of_the_old_one() {
    let site = Site::new(RICH);
    let other = Scratch::new();
    other.sql("create function half(int) returns int language sql immutable as 'select $1 / 2'; create table city (id int primary key); insert into city values (1), (2)");
    let flags = "--create --with-keys --with-indexes --with-constraints --degree 1";
    let plan = site.plan(":rich", &other.table("rich"), flags).ok();
    assert!(plan.out.contains("the foreign key rich_gone_fkey is left out: public.gone is not there"), "{}", plan.out);
    assert!(plan.out.contains("column \"twice\": is generated in the source"), "{}", plan.out);
    assert!(plan.out.contains("VALIDATE CONSTRAINT \"boss_fk\""), "{}", plan.out);
    site.copy(":rich", &other.table("rich"), flags).ok();
    let without_gone = |text: String| text.lines().filter(|l| !l.contains("gone_fkey")).map(|l| format!("{l}\n")).collect::<String>();
    assert_eq!(other.sql(CONSTRAINTS) + "\n", without_gone(site.sql(CONSTRAINTS)));
    assert_eq!(other.sql(INDEXES), site.sql(INDEXES));
    assert_eq!(other.sql(FILLERS), site.sql(FILLERS));
    assert_eq!(
        other.sql("select string_agg(rich::text, ' ' order by id) from rich"),
        site.sql("select string_agg(rich::text, ' ' order by id) from rich")
    );
    // Numbers go on where they stood.
    let next = "insert into rich (city) values (2) returning id, serial, n";
    assert_eq!(other.sql(next), site.sql(next));
    assert_eq!(
        other.sql("select relname from pg_class where relkind = 'S' order by 1"),
        site.sql("select relname from pg_class where relkind = 'S' order by 1")
    );
}

#[test]
fn names_of_another_table_and_sequences_past_the_rows() {
    let site = Site::new(RICH);
    // Beside the old table: names of indexes are taken, so the server finds others. Fewer columns: what needs others is told.
    let flags = "--create --with-keys --with-indexes --with-constraints --columns id,serial,n,code,city";
    let plan = site.plan(":rich", ":poor", flags).ok();
    for left_out in ["the default of at", "the foreign key boss_fk", "the index rich_low"] {
        assert!(plan.out.contains(&format!("{left_out} is left out")), "{left_out}: {}", plan.out);
    }
    site.sql("insert into rich (id, n, code, city) overriding system value values (1000, 7, 'x', 2)");
    site.copy(":rich", ":poor", flags).ok();
    assert_eq!(site.sql("select count(*) from pg_index where indrelid = 'poor'::regclass"), "3");
    assert_eq!(site.sql("insert into poor (city) values (1) returning id, serial, n"), "1005|22|4");
    // Tables that point to each other, one after the other.
    site.sql("create table a (id int primary key, b int); create table b (id int primary key, a int references a); alter table a add constraint ab foreign key (b) references b; \
              insert into a values (1, null); insert into b values (1, 1); update a set b = 1; create schema s");
    let other = Scratch::new();
    let flags = "--create --with-keys --with-constraints";
    let ran = site.plan(":a", &other.table("a"), flags).ok();
    assert!(
        ran.out.contains("Later: ALTER TABLE \"public\".\"a\" ADD CONSTRAINT \"ab\" FOREIGN KEY (b) REFERENCES public.b(id)"),
        "{}",
        ran.out
    );
    site.copy(":a", &other.table("a"), flags).ok();
    site.copy(":b", &other.table("b"), flags).ok();
    other.sql("ALTER TABLE \"public\".\"a\" ADD CONSTRAINT \"ab\" FOREIGN KEY (b) REFERENCES public.b(id)");
    assert_eq!(other.sql("select conname from pg_constraint where contype = 'f' order by 1"), "ab\nb_a_fkey");
}

#[test]
fn what_a_new_table_cannot_have_is_told_before_rows_move() {
    let site = Site::new(RICH);
    let other = Scratch::new();
    other.sql("create table city (id int primary key)");
    let all = "--create --with-keys --with-indexes --with-constraints";
    // The function of a default is missing there.
    let ran = site.copy(":rich", &other.table("rich"), all).failed();
    assert!(ran.err.contains("public.half") && ran.err.contains("cannot be made like the source's"), "{}", ran.err);
    // Rows that break a foreign key: nothing stays.
    other.sql("create function half(int) returns int language sql immutable as 'select $1 / 2'");
    let ran = site.copy(":rich", &other.table("rich"), all).failed();
    assert!(ran.err.contains("rich_city_fkey"), "{}", ran.err);
    assert_eq!(other.sql("select count(*) from pg_class where relname like 'rich%' or relname like 'haul%'"), "0");
    // Sources that have no such thing.
    site.dir.write("a.csv", "id\n1\n");
    for ran in [
        site.copy("a.csv", ":new", all),
        site.dir.haul(&["copy", &site.db.url(), &site.table("new"), "--query", "select 1 as id", "--create", "--with-keys"]),
    ] {
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("--with-keys") && ran.err.contains("the source is none"), "{}", ran.err);
    }
    // A table that is there stays as it is.
    site.sql("create table there (id int)");
    let plan = site.plan("a.csv", ":there", "--create --table-options unlogged").ok();
    assert!(plan.out.contains("the table is there already"), "{}", plan.out);
}

#[test]
fn table_options_are_taken_word_for_word() {
    let site = Site::new("create table src as select g id, 'x' || g t from generate_series(1, 50) g");
    let made = |options: &str, table: &str| {
        let (from, to) = (site.table("src"), site.table(table));
        site.dir.haul(&["copy", &from, &to, "--create", "--table-options", options])
    };
    made("UNLOGGED WITH (fillfactor=70)", "t").ok();
    assert_eq!(site.sql("select relpersistence, reloptions from pg_class where relname = 't'"), "u|{fillfactor=70}");
    made("with (autovacuum_enabled=off) tablespace pg_default", "u").ok();
    assert_eq!(site.sql("select relpersistence, reloptions from pg_class where relname = 'u'"), "p|{autovacuum_enabled=off}");
    // Another access method, which has no pages to cut by.
    site.sql("create access method stub type table handler heap_tableam_handler");
    made("USING stub", "w").ok();
    assert_eq!(site.sql("select amname from pg_class c join pg_am a on a.oid = relam where relname = 'w'"), "stub");
    site.assert_same("src", "w");
    let ran = site.copy(":w", "w.csv", "--method ctid").failed();
    assert!(ran.err.contains("access method stub has no ctid ranges") && ran.err.contains("--split-key"), "{}", ran.err);
    site.copy(":w", "w.csv", "--method hash --split-key id --degree 2").ok();
    site.copy("w.csv", ":w", "--mode replace").ok();
    site.assert_same("src", "w");
    assert_eq!(site.sql("select amname from pg_class c join pg_am a on a.oid = relam where relname = 'w'"), "stub");
    for (options, told) in [
        ("tablespace nowhere", "tablespace \"nowhere\" does not exist"),
        ("using columnar", "access method \"columnar\" does not exist"),
        ("bogus", "syntax error"),
    ] {
        let ran = made(options, "v").failed();
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    site.dir
        .haul(&["copy", &site.table("src"), &site.table("k"), "--create", "--table-options", "unlogged", "--mode", "upsert", "--key", "id"])
        .ok();
    assert_eq!(site.sql("select relpersistence, count(*) from pg_class, k where relname = 'k' group by 1"), "u|50");
    site.assert_same("src", "k");
    assert_eq!(site.sql("select count(*) from pg_class where relname like 'haul%' or relname = 'v'"), "0");
}

const WATCHED: &str = "create table other (id int primary key); insert into other values (1);
    create table t (id int primary key, o int references other); create table log (what text);
    create function note() returns trigger language plpgsql as $$ begin insert into log values (tg_name || ' ' || tg_op); return new; end $$;
    create trigger each_row before insert or update on t for each row execute function note();
    create trigger asleep before insert on t for each row execute function note(); alter table t disable trigger asleep;
    create trigger awake after insert on t for each statement execute function note(); alter table t enable always trigger awake";

#[test]
fn triggers_are_listed_and_held_back() {
    let mut site = Site::new(WATCHED);
    site.dir.write("t.csv", "id,o\n1,1\n2,\n");
    let enabled = "select string_agg(tgname || tgenabled::text, ' ' order by tgname) from pg_trigger where not tgisinternal";
    let plan = site.plan("t.csv", ":t", "").ok();
    assert!(
        plan.out.contains("triggers of the table fire: awake (AFTER INSERT, each statement), each_row (BEFORE INSERT OR UPDATE, each row)"),
        "{}",
        plan.out
    );
    site.copy("t.csv", ":t", "").ok();
    assert_eq!(site.sql("select what, count(*) from log group by 1 order by 1"), "awake INSERT|1\neach_row INSERT|2");
    for mode in ["truncate", "replace", "upsert", "insert-ignore", "delete-insert"] {
        site.sql("truncate log; delete from t where id = 2");
        site.copy("t.csv", ":t", &format!("--mode {mode} --triggers off")).ok();
        assert_eq!(site.sql("select (select count(*) from t), (select count(*) from log)"), "2|0", "{mode}");
        assert_eq!(site.sql(enabled), "asleepD awakeA each_rowO", "{mode}");
    }
    // Foreign keys hold all the same.
    site.dir.write("bad.csv", "id,o\n3,7\n");
    let ran = site.copy("bad.csv", ":t", "--mode upsert --triggers off").failed();
    assert!(ran.err.contains("t_o_fkey"), "{}", ran.err);
    assert_eq!(site.sql(enabled), "asleepD awakeA each_rowO");
    // Lanes that copy into the table itself can only act as on a replica, where an ALWAYS trigger fires.
    site.dir.write("more.csv", "id,o\n5,1\n6,1\n");
    let ran = site.copy("more.csv", ":t", "--mode append --triggers off").failed();
    assert!(ran.err.contains("awake is ENABLE ALWAYS"), "{}", ran.err);
    site.sql("truncate log; drop trigger awake on t");
    let plan = site.plan("more.csv", ":t", "--mode append --triggers off").ok();
    assert!(plan.out.contains("LOSSY foreign keys are not checked meanwhile"), "{}", plan.out);
    site.copy("more.csv", ":t", "--mode append --triggers off").ok();
    assert_eq!(site.sql("select (select count(*) from t), (select count(*) from log)"), "4|0");
    // Not without the right to.
    let role = site.db.role("pw", "");
    site.sql(&format!("grant create on schema public to {role}; grant select, insert, update, delete on t, log to {role}"));
    let to = format!("{}?table=t", site.db.url_of(&role, "pw"));
    for mode in ["append", "upsert"] {
        let ran = site.copy("more.csv", &to, &format!("--mode {mode} --triggers off")).failed();
        assert!(ran.err.contains("hold them back") && ran.err.contains("hint"), "{}", ran.err);
    }
}

#[test]
fn statements_before_and_after_run_in_their_place() {
    let site = Site::new("create table log (step text, rows bigint); create table t (id int)");
    site.dir.write("t.csv", "id\n1\n2\n");
    let note = |step: &str| format!("insert into log select '{step}', count(*) from t");
    let run = |pre: &str, post: &str, mode: &str| {
        site.dir.haul(&["copy", "t.csv", &site.table("t"), "--mode", mode, "--pre-sql", pre, "--post-sql", post, "--analyze"])
    };
    for mode in ["append", "truncate", "replace"] {
        run(&note("before"), &format!("{}; {}", note("after"), note("after")), mode).ok();
    }
    assert_eq!(
        site.sql("select string_agg(step || rows, ' ') from log"),
        "before0 after2 after2 before2 after2 after2 before2 after2 after2"
    );
    assert_eq!(site.sql("select reltuples from pg_class where relname = 't'"), "2");
    let ran = run("select nonsense", "select 1", "append").failed();
    assert!(ran.err.contains("--pre-sql") && ran.err.contains("nonsense") && ran.err.contains("nothing was written"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "2");
    let ran = run("select 1", "select nonsense", "append").failed();
    assert!(ran.err.contains("--post-sql") && ran.err.contains("the rows are in public.t all the same"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "4");
    let plan =
        site.dir.haul(&["plan", "t.csv", &site.table("t"), "--mode", "append", "--pre-sql", "select 1", "--post-sql", "select 2"]).ok();
    assert!(plan.out.contains("statements\n  select 1;\n  select 2;\n"), "{}", plan.out);
}

#[test]
fn what_statements_may_not_do_is_told() {
    let site = Site::new("create table t (id int); create table log (n serial)");
    site.dir.write("t.csv", "id\n1\n");
    let run = |flag: &str, sql: &str| site.dir.haul(&["copy", "t.csv", &site.table("t"), "--mode", "append", flag, sql]);
    // A transaction that nobody ends would take everything back without a word.
    let ran = run("--pre-sql", "begin; insert into log default values");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("a transaction is left open") && ran.err.contains("COMMIT"), "{}", ran.err);
    run("--pre-sql", "begin; insert into log default values; commit").ok();
    assert_eq!(site.sql("select count(*) from log"), "1");
    let ran = run("--post-sql", "begin").failed();
    assert!(ran.err.contains("a transaction is left open") && ran.err.contains("the rows are in public.t"), "{}", ran.err);
    let ran = run("--pre-sql", "copy log from stdin").failed();
    assert!(ran.err.contains("COPY FROM STDIN is not possible here"), "{}", ran.err);
    // What may not stand in a transaction may stand alone.
    run("--post-sql", "vacuum t").ok();
    // A lock that never comes.
    let mut session = site.db.session();
    session.sql("begin; lock table log");
    let ran = site
        .dir
        .haul(&["copy", "t.csv", &site.table("t"), "--mode", "append", "--pre-sql", "truncate log", "--lock-timeout", "200ms"])
        .failed();
    assert!(ran.err.contains("--pre-sql") && ran.err.contains("lock_timeout"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from t"), "3");
    // Settings stay in their session.
    run("--pre-sql", "set search_path = pg_catalog; set session_replication_role = replica").ok();
    assert_eq!(site.sql("select count(*) from t"), "4");
}

#[test]
fn a_run_that_goes_on_does_not_run_statements_twice() {
    let site = Site::new(
        "create table src (id bigint, pad text); insert into src select g, repeat('x', 200) from generate_series(1, 120000) g;
        create table dst (id bigint, pad text); create table log (what text); vacuum analyze src",
    );
    let (from, to) = (site.table("src"), site.table("dst"));
    for flags in [&["--mode", "append", "--commit", "split"][..], &["--mode", "replace"]] {
        site.sql("truncate log, dst");
        let wanted = ["copy", &from, &to, "--degree", "2", "--pre-sql", "truncate dst; insert into log values ('before')"];
        let after = ["--post-sql", "insert into log values ('after')"];
        let arguments = [&wanted[..], &after, flags].concat();
        let killed = site.dir.failing("split-after-commit:3", &arguments);
        assert_eq!(killed.code, -1, "{flags:?}: {killed:?}");
        let ran = site.dir.haul(&[&arguments[..], &["--resume"]].concat()).ok();
        assert_eq!(ran.account(), (120_000, 120_000, 0), "{flags:?}");
        assert_eq!(site.sql("select count(*), count(distinct id) from dst"), "120000|120000", "{flags:?}");
        assert_eq!(site.sql("select string_agg(what, ' ') from log"), "before after", "{flags:?}");
    }
}

#[test]
fn triggers_of_partitions_and_of_replicas() {
    let mut site = Site::new(
        "create table t (id int primary key) partition by range (id); create table low partition of t for values from (0) to (10);
        create table high partition of t for values from (10) to (20); create table log (what text);
        create function note() returns trigger language plpgsql as $$ begin insert into log values (tg_table_name); return new; end $$;
        create trigger each_row after insert on t for each row execute function note();
        create trigger own before insert on high for each row execute function note()",
    );
    site.dir.write("t.csv", "id\n1\n2\n11\n");
    let enabled = "select tgrelid::regclass, tgname, tgenabled from pg_trigger where not tgisinternal order by 1, 2";
    let before = site.sql(enabled);
    let plan = site.plan("t.csv", ":t", "").ok();
    assert!(plan.out.contains("each_row (AFTER INSERT, each row), own (BEFORE INSERT, each row)"), "{}", plan.out);
    for mode in ["append", "truncate", "replace", "upsert", "insert-ignore", "delete-insert"] {
        site.sql("truncate t, log");
        site.copy("t.csv", ":t", &format!("--mode {mode}")).ok();
        assert_eq!(site.sql("select what, count(*) from log group by 1 order by 1"), "high|2\nlow|2", "{mode}");
        site.sql("truncate t, log");
        site.copy("t.csv", ":t", &format!("--mode {mode} --triggers off")).ok();
        assert_eq!(site.sql("select (select count(*) from t), (select count(*) from log)"), "3|0", "{mode}");
        assert_eq!(site.sql(enabled), before, "{mode}");
    }
    // One that fires only for sessions that act as on a replica.
    site.sql(
        "create table r (id int primary key); create trigger a before insert on r for each row execute function note();
              create trigger sleeper before insert on r for each row execute function note(); alter table r enable replica trigger sleeper",
    );
    let plan = site.plan("t.csv", ":r", "").ok();
    assert!(plan.out.contains("triggers of the table fire: a (") && !plan.out.contains("sleeper"), "{}", plan.out);
    let ran = site.copy("t.csv", ":r", "--triggers off").failed();
    assert!(ran.err.contains("sleeper is ENABLE REPLICA") && ran.err.contains("public.r"), "{}", ran.err);
    site.copy("t.csv", ":r", "--mode truncate --triggers off").ok();
    assert_eq!(site.sql("select (select count(*) from r), (select count(*) from log)"), "3|0");
    // A role that may act as on a replica, and owns nothing.
    let role = site.db.role("pw", "");
    site.sql(&format!("alter table r disable trigger sleeper; grant set on parameter session_replication_role to {role}; grant select, insert on r to {role}"));
    let to = format!("{}?table=r", site.db.url_of(&role, "pw"));
    site.dir.write("more.csv", "id\n21\n");
    site.copy("more.csv", &to, "--mode append --triggers off").ok();
    assert_eq!(site.sql("select (select count(*) from r), (select count(*) from log)"), "4|0");
    // With rejects too, where rows are sent again under savepoints.
    site.dir.write("some.csv", "id\n22\n21\n23\n");
    let ran = site.copy("some.csv", &to, "--mode append --triggers off --on-error reject").ok();
    assert_eq!(ran.account(), (3, 2, 1));
    assert_eq!(site.sql("select (select count(*) from r), (select count(*) from log)"), "6|0");
}

#[test]
fn a_new_table_of_a_mode_with_a_key_gets_the_rest_too() {
    let site = Site::new(RICH);
    let all = "--create --with-keys --with-indexes --with-constraints --mode upsert";
    // The source's primary key is the key.
    let ran = site.copy(":rich", ":same", all).ok();
    assert!(ran.err.contains("inserted 20"), "{}", ran.err);
    let constraints = "select count(*) from pg_constraint where contype <> 'n' and conrelid = ";
    assert_eq!(site.sql(&format!("{constraints}'same'::regclass")), site.sql(&format!("{constraints}'rich'::regclass")));
    assert_eq!(site.sql("insert into same (city) values (2) returning id, serial, n"), "101|21|4");
    // Another key takes its place; a foreign key that needs the other one is told before rows move.
    let ran = site.copy(":rich", ":other", &format!("{all} --key serial")).failed();
    assert!(ran.err.contains("\"boss_fk\"") && ran.err.contains("no unique constraint matching given keys"), "{}", ran.err);
    site.sql("alter table rich drop constraint boss_fk");
    let plan = site.plan(":rich", ":other", &format!("{all} --key serial")).ok();
    assert!(plan.out.contains("the primary key rich_pkey is left out: the key of the mode is the primary key"), "{}", plan.out);
    site.copy(":rich", ":other", &format!("{all} --key serial")).ok();
    assert_eq!(
        site.sql("select pg_get_constraintdef(oid) from pg_constraint where contype = 'p' and conrelid = 'other'::regclass"),
        "PRIMARY KEY (serial)"
    );
    // What the rows break leaves nothing.
    site.sql("alter table city rename to town");
    site.sql("create table city (id int primary key); alter table rich drop constraint rich_city_fkey; alter table rich add constraint rich_city_fkey foreign key (city) references city not valid");
    let ran = site.copy(":rich", ":broken", all).ok();
    assert!(ran.err.contains("inserted 20"), "a key that is NOT VALID there is so here: {}", ran.err);
    site.sql("alter table rich drop constraint rich_city_fkey; drop table broken");
    site.sql("create table far (id int primary key); insert into far values (1); alter table rich add far int default 1 references far");
    let other = Scratch::new();
    other.sql("create function half(int) returns int language sql immutable as 'select $1 / 2'; create table far (id int primary key)");
    let ran = site.copy(":rich", &other.table("rich"), all).failed();
    assert!(ran.err.contains("rich_far_fkey"), "{}", ran.err);
    assert_eq!(other.sql("select count(*) from pg_class where relname like 'rich%' or relname like 'haul%'"), "0");
}

#[test]
fn sc_01_a_new_table_of_18_gets_everything_too() {
    let site = Site::over(Scratch::on_18(), RICH);
    site.sql(
        "alter table rich add half int generated always as (n / 2) virtual, add constraint asked check (n < 1000) not enforced,
              add constraint gone_too foreign key (gone) references gone not enforced",
    );
    let other = Scratch::on_18();
    other.sql(
        "create function half(int) returns int language sql immutable as 'select $1 / 2'; create table city (id int primary key);
               insert into city values (1), (2); create table gone (id int primary key)",
    );
    // What stands in rows that a key of the source is not enforced for need not hold here.
    site.sql("alter table rich drop constraint rich_gone_fkey");
    site.copy(":rich", &other.table("rich"), "--create --with-keys --with-indexes --with-constraints").ok();
    assert_eq!(other.sql(CONSTRAINTS), site.sql(CONSTRAINTS));
    assert_eq!(other.sql(INDEXES), site.sql(INDEXES));
    assert_eq!(other.sql("select count(half), sum(half) from rich"), site.sql("select count(half), sum(half) from rich"));
}

#[test]
fn batches_by_rows_and_bytes() {
    let site = Site::new("create table t (id int, v text)");
    site.dir.write("t.csv", (0..5000).fold("id,v\n".to_string(), |text, i| text + &format!("{i},v{i}\n")));
    for flags in ["--batch-rows 7", "--batch-size 7", "--batch-bytes 1k", "--batch-rows 100 --batch-bytes 1MiB"] {
        assert_eq!(site.copy("t.csv", ":t", &format!("--mode truncate {flags}")).ok().account(), (5000, 5000, 0));
        assert_eq!(site.sql("select count(*), count(distinct id) from t"), "5000|5000");
    }
    assert_eq!(site.copy("t.csv", ":t", "--mode truncate --batch-rows 0").code, 2);
}
