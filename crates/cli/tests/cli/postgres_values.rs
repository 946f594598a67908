//! Values: numbers, times, texts, bytes, types, and Parquet's.

use crate::postgres::Site;
use haul_testkit::pg::Scratch;
use haul_testkit::services::run_python;

const FILES: [&str; 4] = ["v.csv", "v.jsonl", "v.parquet", "v.arrow"];

/// Out to every format and back into a table of the same shape.
#[track_caller]
fn everywhere(site: &Site, flags: &str) {
    for file in FILES {
        site.round_trip("v", file, Some("create table back (like v)"), flags);
    }
    site.sql("drop table if exists back");
    site.copy(":v", ":back", "--create").ok();
    site.assert_same("v", "back");
}

#[test]
fn num_01_every_digit_of_json_numbers() {
    let numbers = [
        "9007199254740993",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "1E400",
    ];
    let site = Site::new("create table n (id numeric); create table j (id jsonb); create table i (id bigint)");
    let lines: Vec<String> = numbers.iter().map(|n| format!("{{\"id\":{n}}}\n")).collect();
    site.dir.write("n.jsonl", lines.concat());
    site.copy("n.jsonl", ":n", "").ok();
    site.copy("n.jsonl", ":j", "").ok();
    for table in ["n", "j"] {
        let expected = numbers.map(|n| format!("'{n}'::numeric")).join(", ");
        let kept = site.sql(
            &format!("select count(*) from {table} where (id #>> '{{}}')::numeric in ({expected})")
                .replace("(id #>> '{}')", if table == "n" { "id" } else { "(id #>> '{}')" }),
        );
        assert_eq!(kept, "6", "{table}");
    }
    let ran = site.copy("n.jsonl", ":i", "").failed();
    assert!(ran.err.contains("n.jsonl, line 3") && ran.err.contains("column \"id\""), "{}", ran.err);
    site.dir.write("two.jsonl", lines[..2].concat());
    site.copy("two.jsonl", ":i", "").ok();
    site.sql("insert into i values (9223372036854775807); create table v as table i");
    everywhere(&site, "");
}

#[test]
fn num_02_nan_and_infinity() {
    let site = Site::new(
        "create table v (id int, n numeric, n2 numeric(12,2), f float8, r real);
        insert into v values (1, 'NaN', 'NaN', 'NaN', 'NaN'), (2, 'Infinity', null, 'Infinity', '-Infinity'), (3, '-Infinity', 1.10, '-0', '-0')",
    );
    site.round_trip("v", "v.csv", Some("create table back (like v)"), "");
    assert_eq!(
        site.sql("select encode(float8send(f), 'hex'), encode(float4send(r), 'hex') from back where id = 3"),
        "8000000000000000|80000000"
    );
    for file in ["v.jsonl", "v.parquet"] {
        let ran = site.copy(":v", file, "").failed();
        assert!(ran.err.contains("public.v, row 1, column \"n") || ran.err.contains("public.v, row 1, column \"f"), "{}", ran.err);
    }
    everywhere(&site, "--on-lossy text");
    let ran = site.copy(":v", "null.jsonl", "--on-lossy null").ok();
    assert!(ran.err.contains("values replaced 8"), "{}", ran.err);
    // Floats alone are at home in Parquet.
    site.sql("create table f as select id, f, r from v; alter table v rename to w; alter table f rename to v");
    site.round_trip("v", "f.parquet", Some("create table back (like v)"), "");
    assert_eq!(site.sql("select encode(float8send(f), 'hex') from back where id = 3"), "8000000000000000");
}

#[test]
fn num_03_decimals_keep_their_digits() {
    let site = Site::new(
        "create table v (id int, n numeric(38,10));
        insert into v values (1, 123.4567890123), (2, 9999999999999999999999999999.9999999999), (3, -0.0000000001), (4, 0.1), (5, 12345678901234567890.1234567890)",
    );
    everywhere(&site, "");
    assert!(site.dir.text("v.csv").contains("\n2,9999999999999999999999999999.9999999999\n"));
    let typed = run_python(
        "import pyarrow.parquet as p,sys\nt=p.read_table(sys.argv[1]); print(t.schema.field('n').type, t['n'].to_pylist()[2])",
        &[&site.dir.path("v.parquet").display().to_string()],
    );
    assert_eq!(typed, "decimal128(38, 10) -1E-10\n");
}

#[test]
fn num_04_numeric_without_bounds() {
    let site = Site::new(
        "create table v (id int, n numeric); insert into v values (1, 1e-130), (2, 1e130), (3, 12345678901234567890123456789012345678901234567890),
        (4, 0.00), (5, 100), (6, 1.50), (7, -0)",
    );
    everywhere(&site, "");
    assert!(site.dir.text("v.csv").contains("\n6,1.50\n"));
    site.sql("create table narrow (id int, n numeric(38,10))");
    let ran = site.copy(":v", ":narrow", "").failed();
    assert!(ran.err.contains("column \"n\""), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from narrow"), "0");
}

#[test]
fn dt_01_infinity() {
    let site = Site::new(
        "create table v (id int, d date, t timestamp, tz timestamptz);
        insert into v values (1, 'infinity', 'infinity', 'infinity'), (2, '-infinity', '-infinity', '-infinity'), (3, null, null, null), (4, '2024-02-29', '2024-02-29 01:02:03.4', '2024-02-29 01:02:03.4+02')",
    );
    everywhere(&site, "--on-lossy text");
    for file in ["v.parquet", "v.arrow"] {
        let ran = site.copy(":v", file, "").failed();
        assert!(ran.err.contains("row 1") && ran.err.contains("column \"d\"") && ran.err.contains("infinity"), "{}", ran.err);
    }
    for file in ["i.csv", "i.jsonl"] {
        site.copy(":v", file, "").ok();
        assert_eq!(site.dir.text(file).matches("-infinity").count(), 3);
    }
}

#[test]
fn dt_03_bc_and_year_one() {
    let site = Site::new(
        "create table v (id int, d date, t timestamp, tz timestamptz);
        insert into v values (1, '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00'), (2, '1582-10-10', null, null)",
    );
    everywhere(&site, "");
    site.sql("insert into v values (3, '0044-03-15 BC', '4713-01-01 00:00:00 BC', null), (4, '4713-01-01 BC', null, '0044-03-15 00:00:00+00 BC')");
    everywhere(&site, "--on-lossy text");
    for file in FILES {
        // Exact, or refused: never another day.
        let ran = site.copy(":v", file, "");
        if ran.code == 0 {
            site.round_trip("v", file, Some("create table back (like v)"), "");
        } else {
            assert!(ran.err.contains("public.v, row 3, column \"d\""), "{}", ran.err);
        }
    }
}

#[test]
fn dt_07_fractions() {
    let site = Site::new(
        "create table v (id int, a timestamp(0), b timestamp(3), c timestamp(6), d timestamptz(3));
        insert into v values (1, '2022-05-31 20:23:49', '2022-05-31 20:23:49.4', '2022-05-31 20:23:49.000001', '2022-05-31 20:23:49.494+02')",
    );
    everywhere(&site, "");
    let text = site.dir.text("v.csv");
    assert!(text.contains("49.4,") && text.contains("49.000001") && !text.contains("49:4"), "{text}");
    let schema = site.dir.haul(&["schema", "v.parquet"]).ok().out;
    assert_eq!(schema.matches("timestamp").count(), 4, "{schema}");
}

#[test]
fn dt_09_time_with_offset_midnight_and_intervals() {
    let site = Site::new(
        "create table v (id int, t time, tz timetz, i interval);
        insert into v values (1, '24:00:00', '24:00:00+05:30', '1 mon -1 day +25:00:00.000001'), (2, '00:00:00', '10:23:54-02', '-1 year'),
        (3, '23:59:59.999999', '00:00+15:59', '178000000 years'), (4, null, null, '1 mon'), (5, null, null, '30 days')",
    );
    everywhere(&site, "--on-lossy text");
    site.round_trip("v", "x.csv", Some("create table back (like v)"), "");
    let ran = site.copy(":v", "x.parquet", "");
    assert!(ran.code == 0 || ran.err.contains("row 1, column \"t\""), "{}", ran.err);
}

#[test]
fn tx_01_nul_in_json() {
    let site = Site::new("create table s (k text); create table b (k jsonb); create table j (k json)");
    site.dir.write("s.jsonl", "{\"k\":\"fine\"}\n{\"k\":\"a\\u0000b\"}\n{\"k\":\"last\"}\n");
    site.dir.write("b.jsonl", "{\"k\":{\"v\":1}}\n{\"k\":{\"a\\u0000\":1}}\n{\"k\":{\"v\":\"last\"}}\n");
    for table in ["s", "b"] {
        let file = format!("{table}.jsonl");
        let ran = site.copy(&file, &format!(":{table}"), "").failed();
        // The server's own refusal knows the row, not the line.
        let place = if table == "s" { "s.jsonl, line 2" } else { "public.b, row 2" };
        assert!(ran.err.contains(place) && ran.err.contains("column \"k\""), "{table}: {}", ran.err);
        assert_eq!(site.sql(&format!("select count(*) from {table}")), "0");
        let ran = site.copy(&file, &format!(":{table}"), "--on-error reject --rejects r.jsonl").ok();
        assert_eq!(ran.account(), (3, 2, 1), "{table}");
    }
    site.copy("b.jsonl", ":j", "").ok();
    assert_eq!(site.sql("select k from j"), "{\"v\":1}\n{\"a\\u0000\":1}\n{\"v\":\"last\"}");
}

#[test]
fn tx_02_bytes_that_are_no_text() {
    let site =
        Site::over(Scratch::with_encoding("SQL_ASCII"), r"create table t (id int, t text); insert into t values (1, 'ok'), (2, E'\xff')");
    for file in ["t.csv", "t.jsonl", "t.parquet"] {
        let ran = site.copy(":t", file, "").failed();
        assert!(ran.err.contains("public.t") && ran.err.contains("invalid byte sequence") && ran.err.contains("0xff"), "{}", ran.err);
    }
    assert!(site.dir.names().is_empty());
    let site = Site::new("create table t (id int, t text)");
    site.dir.write("l.csv", b"id,t\n1,caf\xe9\n2,\xc2\n3,ok\n");
    let ran = site.copy("l.csv", ":t", "").failed();
    assert!(ran.err.contains("l.csv, line 2"), "{}", ran.err);
    site.dir.write("w.csv", b"id,t\n1,caf\xe9\n2,\x80\n");
    site.copy("w.csv?encoding=windows-1252", ":t", "").ok();
    assert_eq!(site.sql("select * from t order by id"), "1|café\n2|€");
    let latin = Site::over(Scratch::with_encoding("LATIN1"), "create table t (id int, t text)");
    let ran = site.copy(":t", &latin.table("t"), "").failed();
    assert!(ran.err.contains("public.t"), "{}", ran.err);
    assert_eq!(latin.sql("select count(*) from t"), "0");
    site.sql("delete from t where id = 2");
    site.copy(":t", &latin.table("t"), "").ok();
    assert_eq!(latin.sql("select * from t"), "1|café");
    latin.copy(":t", "l.csv", "").ok();
    assert_eq!(latin.dir.text("l.csv"), "id,t\n1,café\n");
}

#[test]
fn tx_05_padding_and_keys_that_look_alike() {
    let site = Site::new(
        "create table v (k text primary key, c char(5)); insert into v select unnest(array['ab ', 'ab', 'AB', 'áb', '', ' ab']), 'ab'",
    );
    for file in FILES {
        site.round_trip("v", file, Some("create table back (like v including all)"), "");
    }
    site.copy(":v", ":made", "--create").ok();
    assert_eq!(site.sql("select count(*), min(octet_length(c)) from made"), "6|5");
}

#[test]
fn tx_06_escapes_and_surrogates() {
    let site = Site::new("create table s (s text); create table j (s json); create table b (s jsonb)");
    site.dir.write("ok.jsonl", "{\"s\":\"\\ud83d\\ude00\"}\n{\"s\":\"\\/\\b\\f\"}\n");
    site.copy("ok.jsonl", ":s", "").ok();
    assert_eq!(site.sql("select encode(s::bytea, 'hex') from s"), "f09f9880\n2f080c");
    site.dir.write("lone.jsonl", "{\"s\":\"x\"}\n{\"s\":\"\\ud83d\"}\n");
    let ran = site.copy("lone.jsonl", ":s", "--mode replace").failed();
    assert!(ran.err.contains("lone.jsonl, line 2"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from s"), "2");
    site.dir.write("dup.jsonl", "{\"s\":{\"a\":1, \"a\":2}}\n");
    site.copy("dup.jsonl", ":j", "").ok();
    site.copy("dup.jsonl", ":b", "").ok();
    assert_eq!(site.sql("select s from j"), "{\"a\":1, \"a\":2}");
    assert_eq!(site.sql("select s from b"), "{\"a\": 2}");
    let deep = format!("{{\"s\":{}{}}}\n", "[".repeat(200), "]".repeat(200));
    site.dir.write("deep.jsonl", &deep);
    site.copy("deep.jsonl", ":j", "--mode replace").ok();
    assert_eq!(site.sql("select length(s::text) from j"), "400");
}

#[test]
fn bn_01_bytes() {
    let mut site = Site::new(
        r"create table v (id int, b bytea); insert into v values (1, ''), (2, '\x00'), (3, '\x00ff00'), (4, null),
        (5, (select string_agg(int4send((random() * 1e9)::int), '') from generate_series(1, 250000)))",
    );
    everywhere(&site, "");
    // As a role whose bytea is written in the old form.
    let role = site.db.role("pw", "");
    site.sql(&format!("alter role {role} set bytea_output = 'escape'; grant select on v to {role}"));
    let from = format!("{}?table=v", site.db.url_of(&role, "pw"));
    for file in ["r.csv", "r.jsonl"] {
        site.copy(&from, file, "").ok();
        site.sql("drop table if exists back; create table back (like v)");
        site.copy(file, ":back", "").ok();
        site.assert_same("v", "back");
    }
}

#[test]
fn bn_03_bit_strings_and_booleans() {
    let site = Site::new(
        "create table v (id int, b bit(3), vb bit varying, f boolean); insert into v values (1, '101', '10110', true), (2, '000', '', false), (3, null, null, null)",
    );
    everywhere(&site, "");
    assert_eq!(site.dir.text("v.jsonl").lines().next().unwrap(), r#"{"id":1,"b":"101","vb":"10110","f":true}"#);
}

#[test]
fn bn_04_geometry_keeps_its_srid() {
    let site = Site::new(
        "create extension postgis; create table v (id int, g geometry, p geometry(Point, 4326), geo geography);
        insert into v values (1, 'SRID=4326;POINT(5 52)', 'SRID=4326;POINT(5 52)', 'POINT(5 52)'), (2, 'POINT EMPTY', null, null), (3, null, null, null), (4, 'LINESTRING(0 0, 1 1)', null, null)",
    );
    everywhere(&site, "");
    assert_eq!(site.sql("select st_srid(g), st_x(g), st_y(p), st_astext(geo) from back where id = 1"), "4326|5|52|POINT(5 52)");
}

#[test]
fn ty_03_a_json_string_stays_a_string() {
    let site = Site::new("create table t (id int, j json, b jsonb, x text)");
    site.dir.write("s.jsonl", "{\"id\":1,\"j\":\"5\",\"b\":\"5\",\"x\":\"5\"}\n{\"id\":2,\"j\":\"fine\",\"b\":\"a\\\"b\",\"x\":null}\n{\"id\":3,\"j\":null,\"b\":null}\n");
    site.copy("s.jsonl", ":t", "").ok();
    assert_eq!(site.sql("select id, j, b, x from t order by id"), "1|\"5\"|\"5\"|5\n2|\"fine\"|\"a\\\"b\"|<NULL>\n3|null|null|<NULL>");
    assert_eq!(site.sql("select jsonb_typeof(b) from t where id = 1"), "string");
}

#[test]
fn ty_01_arrays_keep_their_shape() {
    let site = Site::new(
        r#"create table v (id int, a int[], t text[]); insert into v values (1, '{}', '{"a,b","NULL",NULL,"","{"}'), (2, null, '{}'), (3, '{NULL,1}', null),
        (4, '{{1,2},{3,4}}', '{{a,b}}'), (5, '[0:1]={7,8}', null), (6, '{{{1}}}', null)"#,
    );
    everywhere(&site, "--on-lossy text");
    site.round_trip("v", "plain.csv", Some("create table back (like v)"), "");
    // Either exact or refused, never flattened.
    for file in ["plain.jsonl", "plain.parquet"] {
        let ran = site.copy(":v", file, "");
        if ran.code == 0 {
            site.round_trip("v", file, Some("create table back (like v)"), "");
        } else {
            assert!(ran.err.contains("column \"a\"") || ran.err.contains("column \"t\""), "{}", ran.err);
        }
    }
    site.sql("delete from v where id = 5");
    site.copy(":v", "nested.jsonl", "").ok();
    let text = site.dir.text("nested.jsonl");
    assert!(text.contains(r#"["a,b","NULL",null,"","{"]"#) && text.contains("[[1,2],[3,4]]"), "{text}");
    site.round_trip("v", "nested.jsonl", Some("create table back (like v)"), "");
}

#[test]
fn ty_02_types_of_extensions_and_domains() {
    let site = Site::new(
        "create extension hstore; create extension ltree; create extension citext;
        create domain d_pos as int check (value > 0); create type mood as enum ('sad', 'ok'); create type money_cur as (cur text, amt numeric);
        create domain d_h as hstore; create domain d_c as citext;
        create table v (id int, p d_pos, m mood, c money_cur, h hstore, dh d_h, ts tsvector, r int4range, e int4range, mr tstzmultirange,
            i inet, ci cidr, ma macaddr, x xml, l ltree, ls pg_lsn, ct citext, dc d_c, mo money);
        insert into v values (1, 5, 'ok', row('EUR', 1.50), 'a=>1,b=>NULL', 'k=>v', 'a:1 b:2', '[1,5)', 'empty', '{[2020-01-01 00:00+00,2021-01-01 00:00+00)}',
            '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '<a/>', 'Top.Sub', '16/B374D848', 'CiText', 'Dom', 12.34); insert into v (id) values (2)",
    );
    everywhere(&site, "");
    // A value that a domain refuses names the row.
    site.dir.write("bad.csv", "id,p\n1,3\n2,-3\n");
    let ran = site.copy("bad.csv", ":v", "--mode append").failed();
    assert!(ran.err.contains("d_pos"), "{}", ran.err);
    assert_eq!(site.sql("select count(*) from v"), "2");
}

#[test]
fn ty_03_json_is_neither_bent_nor_wrapped() {
    let site = Site::new(
        r#"create table v (id int, j json, b jsonb); insert into v values (1, '{"b":1, "a":[1.0,1e2]}', '{"b":1, "a":[1.0,1e2]}'), (2, '"x"', '"x"'), (3, 'null', 'null'), (4, null, null)"#,
    );
    everywhere(&site, "");
    assert_eq!(
        site.dir.text("v.jsonl"),
        "{\"id\":1,\"j\":{\"b\":1, \"a\":[1.0,1e2]},\"b\":{\"a\": [1.0, 100], \"b\": 1}}\n{\"id\":2,\"j\":\"x\",\"b\":\"x\"}\n{\"id\":3,\"j\":null,\"b\":null}\n{\"id\":4}\n"
    );
}

#[test]
fn pq_01_timestamps_of_every_unit() {
    let site = Site::new("");
    let script = r"
import sys, datetime as D, pyarrow as A, pyarrow.parquet as P
t=[D.datetime(1000,1,1),D.datetime(1677,9,21),D.datetime(2000,1,1),D.datetime(2262,4,12),D.datetime(3332,12,14,11,33,10,965000),D.datetime(9999,12,31,2)]
ids=A.array(range(6), A.int32())
P.write_table(A.table({'id':ids,'t':A.array(t,A.timestamp('us'))}), sys.argv[1]+'/i96.parquet', use_deprecated_int96_timestamps=True)
P.write_table(A.table({'id':ids,'t':A.array(t,A.timestamp('ms')),'z':A.array(t,A.timestamp('ms','UTC'))}), sys.argv[1]+'/ms.parquet')
P.write_table(A.table({'id':ids,'t':A.array([None,D.datetime(1677,9,22),D.datetime(2000,1,1,0,0,0,1),None,None,None],A.timestamp('ns'))}), sys.argv[1]+'/ns.parquet', version='2.6')
P.write_table(A.table({'t':A.array([1],A.timestamp('ns'))}), sys.argv[1]+'/one.parquet', version='2.6')
";
    run_python(script, &[&site.dir.path(".").display().to_string()]);
    let expected =
        "1000-01-01 00:00:00\n1677-09-21 00:00:00\n2000-01-01 00:00:00\n2262-04-12 00:00:00\n3332-12-14 11:33:10.965\n9999-12-31 02:00:00";
    for file in ["i96", "ms"] {
        site.copy(&format!("{file}.parquet"), &format!(":{file}"), "--create").ok();
        assert_eq!(site.sql(&format!("select t from {file} order by id")), expected, "{file}");
    }
    assert_eq!(site.sql("select z at time zone 'UTC' from ms order by id"), expected);
    assert_eq!(site.sql("select pg_typeof(t), pg_typeof(z) from ms limit 1"), "timestamp without time zone|timestamp with time zone");
    site.copy("ns.parquet", ":ns", "--create").ok();
    assert_eq!(site.sql("select t from ns where id in (1, 2) order by id"), "1677-09-22 00:00:00\n2000-01-01 00:00:00.000001");
    // A nanosecond has no place in the table.
    let ran = site.copy("one.parquet", ":one", "--create").failed();
    assert!(ran.err.contains("column \"t\""), "{}", ran.err);
    assert_eq!(site.sql("select to_regclass('one')"), "<NULL>");
}

#[test]
fn pq_02_decimals_in_every_physical_type() {
    let site = Site::new("");
    let script = r"
import sys, decimal as D, pyarrow as A, pyarrow.parquet as P
D.getcontext().prec=60
def col(p,s):
    m=D.Decimal(10**p-1).scaleb(-s); q=D.Decimal(1).scaleb(-s)
    return A.array([D.Decimal(-1).quantize(q), -q, D.Decimal(0).quantize(q), m, -m], A.decimal128(p,s))
t=A.table({'a':col(9,2),'b':col(18,4),'c':col(20,5),'d':col(38,10),'e':col(30,3)})
P.write_table(t, sys.argv[1]+'/int.parquet', store_decimal_as_integer=True)
P.write_table(t, sys.argv[1]+'/flba.parquet')
";
    let folder = site.dir.path(".").display().to_string();
    run_python(script, &[&folder]);
    for file in ["int", "flba"] {
        site.copy(&format!("{file}.parquet"), &format!(":{file}"), "--create").ok();
        assert_eq!(
            site.sql(&format!("select a, b, c from {file}")),
            "-1.00|-1.0000|-1.00000\n-0.01|-0.0001|-0.00001\n0.00|0.0000|0.00000\n9999999.99|99999999999999.9999|999999999999999.99999\n-9999999.99|-99999999999999.9999|-999999999999999.99999"
        );
        assert_eq!(site.sql(&format!("select d from {file} offset 3 limit 1")), "9999999999999999999999999999.9999999999");
    }
    site.assert_same("int", "flba");
    site.copy(":int", "out.parquet", "").ok();
    let same = run_python(
        "import pyarrow.parquet as p,sys\na,b=[p.read_table(sys.argv[1]+f).to_pydict() for f in ('/int.parquet','/out.parquet')]\nprint(a==b)",
        &[&folder],
    );
    assert_eq!(same, "True\n");
}

#[test]
fn pq_03_lists_with_nothing_in_them() {
    let site = Site::new(
        "create table v (id int, a int[], j jsonb); insert into v values (1, '{1,2}', '[1,2]'), (2, '{}', '[]'), (3, null, null), (4, '{NULL}', '[null]'), (5, '{NULL,2}', '[null,2]')",
    );
    everywhere(&site, "");
    site.sql("create table long as select g as id, case when g = 349526 then array[1, 2] end as a from generate_series(1, 349526) g");
    site.copy(":long", "long.parquet", "").ok();
    site.sql("create table back2 (like long)");
    site.copy("long.parquet", ":back2", "").ok();
    assert_eq!(site.sql("select count(*), count(a), max(a::text) from back2"), "349526|1|{1,2}");
}
