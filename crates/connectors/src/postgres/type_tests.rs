//! Every type there and back, with the server as the oracle: values that it made, and texts that it reads or refuses.

use super::encode_value;
use super::target::{Limit, Target};
use super::testdb::TestDb;
use haul_model::{Form, OnLossy};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

/// Values of `sql_type` made by `expression` over `s.a` (bigint), `s.b` (double) and `s.t` (text) go out, through Arrow in each form, and back in.
fn round_trip(sql_type: &str, expression: &str, typed: bool) {
    let shared = RefCell::new(TestDb::new());
    let row = (any::<i64>(), prop_oneof![4 => proptest::num::f64::NORMAL, 1 => Just(0.0), 1 => -1e6..1e6], "[a-zé😀\"\\\\,{} \n\t]{0,20}");
    let strategy = proptest::collection::vec(row, 1..40);
    let outcome = runner(8).run(&strategy, |rows| {
        let mut db = shared.borrow_mut();
        let values: Vec<String> = rows
            .iter()
            .map(|(a, b, t)| format!("({a}::bigint, '{b}'::float8, {})", super::catalog::quote_literal(t)))
            .collect();
        db.run(&format!(
            "DROP TABLE IF EXISTS t, copy; CREATE TABLE t (id serial, v {sql_type}); \
             INSERT INTO t (v) SELECT {expression} FROM (VALUES {}) s(a, b, t); INSERT INTO t (v) VALUES (NULL); CREATE TABLE copy (LIKE t)",
            values.join(", ")
        ));
        for form in [Form::Text, Form::Json, Form::Typed] {
            if form == Form::Typed && !typed {
                continue;
            }
            db.run("TRUNCATE copy");
            let (read, _) = db.read("t", "id", form, OnLossy::Error).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
            let (count, _) = db.load("copy", &read, OnLossy::Error).map_err(|e| TestCaseError::fail(format!("{form:?} {e:?}")))?;
            prop_assert_eq!(count, rows.len() as u64 + 1);
            db.assert_same("t", "copy");
        }
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{sql_type}: {e}"));
}

#[test]
fn numbers_round_trip() {
    round_trip("smallint", "(a % 32768)::smallint", true);
    round_trip("integer", "(a % 2147483648)::int", true);
    round_trip("bigint", "a", true);
    round_trip("oid", "(abs(a % 4294967296))::oid", true);
    round_trip("real", "(a % 1000000)::real / 7", true);
    round_trip("double precision", "b", true);
    round_trip("numeric", "a::numeric * (10::numeric ^ (a % 40)::int)", true);
    round_trip("numeric(38,10)", "a::numeric / 1024", true);
    round_trip("numeric(60,20)", "a::numeric * a::numeric / 1024", true);
    round_trip("numeric(5,-2)", "(a % 100000)::numeric", true);
    round_trip("boolean", "a % 2 = 0", true);
}

#[test]
fn times_round_trip() {
    round_trip("date", "date '2000-01-01' + (a % 2000000)::int", true);
    round_trip("time", "time '00:00' + ((a % 86400000000) || ' microseconds')::interval", true);
    round_trip("timestamp", "timestamp '2000-01-01' + ((a % 90000000000000000) || ' microseconds')::interval", true);
    round_trip("timestamptz", "timestamptz '2000-01-01Z' + ((a % 90000000000000000) || ' microseconds')::interval", true);
    round_trip("timestamp(3)", "timestamp '2000-01-01' + ((a % 90000000000000) || ' milliseconds')::interval", true);
    round_trip(
        "interval",
        "make_interval(months => (a % 1000)::int, days => (a % 70)::int, secs => (a % 1000000)::float8 / 1000000)",
        true,
    );
    round_trip("timetz", "timetz '00:00+00' + ((a % 86400000000) || ' microseconds')::interval", true);
}

#[test]
fn texts_and_bytes_round_trip() {
    round_trip("text", "t", true);
    round_trip("varchar(20)", "t", true);
    round_trip("char(20)", "t", true);
    round_trip("name", "t::name", true);
    round_trip("bytea", "int8send(a) || convert_to(t, 'UTF8')", true);
    round_trip("uuid", "md5(t || a)::uuid", true);
    round_trip("json", "json_build_object('a', a, 't', t)", true);
    round_trip("jsonb", "jsonb_build_object('a', a, t, b::text)", true);
    round_trip("bit varying", "a::bit(64)::varbit", true);
    round_trip("inet", "'10.0.0.0'::inet + abs(a % 100000)", true);
}

#[test]
fn arrays_and_ranges_round_trip() {
    round_trip("bigint[]", "ARRAY[a, NULL, a / 2]", true);
    round_trip("text[]", "ARRAY[t, NULL, '', 'NULL', a::text]", true);
    round_trip("numeric[]", "ARRAY[a::numeric / 3, 1.10, NULL]", true);
    round_trip("numeric(30,5)[]", "ARRAY[a::numeric / 3, 1.10, NULL]", true);
    round_trip("double precision[]", "ARRAY[b, 0.1, -0.0]", true);
    round_trip("date[]", "ARRAY[date '2000-01-01' + (a % 100000)::int]", true);
    round_trip("timestamptz[]", "ARRAY[timestamptz '2000-01-01Z' + ((a % 90000000000) || ' microseconds')::interval]", true);
    round_trip("bytea[]", "ARRAY[int8send(a), '']", true);
    round_trip("uuid[]", "ARRAY[md5(t)::uuid]", true);
    round_trip("jsonb[]", "ARRAY[jsonb_build_object('t', t), 'null']", true);
    round_trip("boolean[]", "ARRAY[a > 0, NULL]", true);
    round_trip("integer[]", "ARRAY[ARRAY[(a % 100)::int, NULL], ARRAY[3, 4]]", false);
    round_trip("int8range", "int8range(least(a, a / 2), greatest(a, a / 2))", true);
}

/// What the server makes of a text: its own text, or `None` if it refuses.
fn oracle(db: &mut TestDb, sql_type: &str, texts: &[String]) -> Vec<Option<String>> {
    db.run(&format!(
        "CREATE OR REPLACE FUNCTION try(t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (t::{sql_type})::text; EXCEPTION WHEN others THEN RETURN NULL; END $$; \
         SET timezone = 'UTC'"
    ));
    let list: Vec<String> = texts.iter().map(|t| super::catalog::quote_literal(t)).collect();
    let rows = db
        .session
        .query(&format!("SELECT try(t) FROM unnest(ARRAY[{}]) WITH ORDINALITY u(t, i) ORDER BY i", list.join(", ")), &[])
        .unwrap();
    rows.iter().map(|r| r.get(0).map(str::to_string)).collect()
}

/// Texts near the grammar of a type: whatever is accepted here must mean the same to the server, and what the server refuses must be refused.
fn agrees_with_the_server(sql_type: &str, target: &Target, pattern: &str, must_take: &[&str]) {
    let shared = RefCell::new(TestDb::new());
    let strategy = proptest::collection::vec(proptest::string::string_regex(pattern).unwrap(), 60);
    let outcome = runner(6).run(&strategy, |texts| {
        let mut db = shared.borrow_mut();
        let texts: Vec<String> = texts.into_iter().chain(must_take.iter().map(|t| t.to_string())).collect();
        let expected = oracle(&mut db, sql_type, &texts);
        db.run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (i int, v {sql_type})"));
        let mut payload = Vec::new();
        let mut taken = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let mut field = Vec::new();
            if encode_value::write_text(target, text.as_bytes(), &mut field).is_ok() {
                prop_assert!(expected[i].is_some(), "{sql_type}: {text:?} was taken, the server refuses it");
                payload.extend_from_slice(&[0, 2, 0, 0, 0, 4]);
                payload.extend_from_slice(&(i as i32).to_be_bytes());
                payload.extend_from_slice(&field);
                taken.push(i);
            } else {
                prop_assert!(!must_take.contains(&text.as_str()), "{sql_type}: {text:?} was refused");
            }
        }
        let mut copy = db.session.connection().copy_in("COPY t FROM STDIN (FORMAT binary)").unwrap();
        copy.write_data(&payload).unwrap();
        copy.finish().unwrap();
        let got = db.list("SELECT v::text FROM t ORDER BY i");
        for (i, got) in taken.into_iter().zip(got) {
            prop_assert_eq!(Some(&got), expected[i].as_ref(), "{}: {:?}", sql_type, &texts[i]);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn numbers_are_read_as_the_server_reads_them() {
    let number =
        "[ ]?[+-]?[0-9]{0,12}[.]?[0-9]{0,6}([eE][+-]?[0-9]{1,2})?[ ]?|[+-]?(nan|NaN|inf|Infinity|infinit)|0x1f|1_000|1,000|[+-]{2}1";
    agrees_with_the_server("numeric", &Target::Numeric(None), number, &["1.10", "NaN", "-Infinity", "1e-400", " 7 ", ".5"]);
    agrees_with_the_server("double precision", &Target::Float8, number, &["0.1", "NaN", "-Infinity", "1e308", "5e-324", "1"]);
    agrees_with_the_server("real", &Target::Float4, number, &["0.1", "NaN", "-Infinity", "1e-45"]);
    agrees_with_the_server("bigint", &Target::Int8, number, &["9223372036854775807", "-9223372036854775808", "0"]);
    agrees_with_the_server("integer", &Target::Int4, number, &["2147483647", "-1"]);
    agrees_with_the_server("smallint", &Target::Int2, number, &["-32768"]);
    agrees_with_the_server(
        "boolean",
        &Target::Bool,
        "[ ]?(t|tr|true|TRUE|f|fal|yes|ye|no|n|on|o|off|of|1|0|2|)[ ]?",
        &["true", "false", "t", "f"],
    );
}

#[test]
fn times_are_read_as_the_server_reads_them() {
    let date = "[ ]?([0-9]{4}|0000|[0-9]{2}|29[0-9]{4})-[01][0-9]-[0-3][0-9]";
    let clock = "([ T][0-2][0-9]:[0-6][0-9](:[0-6][0-9]([.][0-9]{1,8})?)?)?";
    let zone = "(Z| UTC|[+-][01][0-9](:?[0-5][0-9])?)?( BC| AD)?";
    let stamp = format!("{date}{clock}");
    agrees_with_the_server("date", &Target::Date, &format!("{date}( BC)?"), &["0044-03-15 BC", "infinity", "5874897-12-31", "2020-02-29"]);
    let (naive, zoned) = (Target::Timestamp { zone: false, digits: 6 }, Target::Timestamp { zone: true, digits: 6 });
    agrees_with_the_server(
        "timestamp",
        &naive,
        &format!("{stamp}( BC)?"),
        &["-infinity", "2020-01-01T00:00:43", "294276-12-31 23:59:59.999999", "2020-01-01"],
    );
    agrees_with_the_server(
        "timestamptz",
        &zoned,
        &format!("{stamp}{zone}"),
        &["2020-01-01T00:00:43Z", "2020-01-01 00:00:43.123+05:30", "infinity"],
    );
    agrees_with_the_server(
        "time",
        &Target::Time(6),
        "[0-2][0-9]:[0-6][0-9](:[0-6][0-9]([.][0-9]{1,7})?)?",
        &["24:00:00", "23:59:59.999999", "12:30"],
    );
}

#[test]
fn texts_are_read_as_the_server_reads_them() {
    agrees_with_the_server(
        "uuid",
        &Target::Uuid,
        "[{]?[0-9a-fA-F]{8}(-?[0-9a-f]{4}){4}[0-9a-f]{8}[}]?",
        &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    );
    agrees_with_the_server("bytea", &Target::Bytea, "\\\\x([0-9a-fA-F]{2}){0,6}[0-9a-f]?", &["\\x", "\\x00FF"]);
    agrees_with_the_server("\"char\"", &Target::QuotedChar, "[a-z\\\\]?|\\\\[0-3][0-7]{2}", &["", "x"]);
    agrees_with_the_server("varchar(5)", &Target::Text(Limit::None), "[a-zé]{0,5}", &["ééééé"]);
}
