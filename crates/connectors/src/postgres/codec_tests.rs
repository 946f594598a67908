//! Decoder and encoder against a real server: what goes through Arrow must come back as it was.

use super::testdb::TestDb;
use arrow_array::cast::AsArray;
use haul_model::{ErrorKind, Form, OnLossy};

/// Creates `copy` like `table`.
fn twin(db: &mut TestDb, table: &str) {
    db.run(&format!("CREATE TABLE copy (LIKE {table} INCLUDING ALL)"));
}

#[test]
fn exact_through_columns_in_text_form_is_bit_for_bit() {
    let mut db = TestDb::exact();
    twin(&mut db, "exact");
    let (rows, _) = db.read("exact", "id", Form::Text, OnLossy::Error).unwrap();
    let (count, binary) = db.load("copy", &rows, OnLossy::Error).unwrap();
    assert_eq!((count, binary), (7, false));
    db.assert_same("exact", "copy");
}

#[test]
fn exact_columns_with_a_binary_writer_are_bit_for_bit() {
    let mut db = TestDb::exact();
    db.run(
        "ALTER TABLE exact DROP m, DROP xm, DROP bt, DROP vb, DROP ttz, DROP iv, DROP jp, DROP arr, DROP tarr, DROP narr, DROP marr, \
            DROP parr, DROP pr, DROP r4, DROP rn, DROP rt, DROP mr, DROP ip, DROP net, DROP mac, DROP pt, DROP poly, DROP tsv, DROP lsn",
    );
    twin(&mut db, "exact");
    let (rows, _) = db.read("exact", "id", Form::Text, OnLossy::Error).unwrap();
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (7, true));
    db.assert_same("exact", "copy");
}

#[test]
fn exact_arrays_survive_as_json_lists() {
    let mut db = TestDb::exact();
    db.run(
        "CREATE TABLE a AS SELECT id, nullif(arr, '[-2:0]={7,8,9}') AS arr, tarr, marr, n152, pos, jb, js, boo, i8, txt, b, u FROM exact",
    );
    db.run("CREATE TABLE copy (LIKE a)");
    let (rows, _) = db.read("a", "id", Form::Json, OnLossy::Error).unwrap();
    let array = rows[0].batch.column_by_name("arr").unwrap().as_string_view();
    assert_eq!((array.value(0), array.value(2), array.value(3)), ("[1,2,null]", "[]", "[[1,2],[3,4]]"));
    let texts = rows[0].batch.column_by_name("tarr").unwrap().as_string_view();
    assert_eq!(texts.value(0), r#"["a,b","c\"d",null,"","NULL","{}"]"#);
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (7, true));
    db.assert_same("a", "copy");
}

#[test]
fn exact_in_typed_form_stops_at_the_first_value_that_does_not_fit() {
    let mut db = TestDb::exact();
    let error = db.read("exact", "id", Form::Typed, OnLossy::Error).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lossy);
    assert_eq!((error.place().row, error.place().column.as_deref(), error.place().object.as_deref()), (Some(3), Some("ts"), Some("exact")));
    assert!(error.hint_text().unwrap().contains("--on-lossy text"));
    twin(&mut db, "exact");
    let (rows, lossy) = db.read("exact", "id", Form::Typed, OnLossy::Text).unwrap();
    assert!(lossy >= 6, "{lossy}");
    db.load("copy", &rows, OnLossy::Error).unwrap();
    db.assert_same("exact", "copy");
    let (rows, lossy) = db.read("exact", "id", Form::Typed, OnLossy::Null).unwrap();
    assert!(rows[0].batch.column_by_name("ts").unwrap().as_ref().logical_null_count() == 3 && lossy > 6, "{lossy}");
}

#[test]
fn num_02_nan_and_infinity() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE t (id int, n numeric, n2 numeric(12,2), f float8, r real); \
            INSERT INTO t VALUES (1,'NaN','NaN','NaN','NaN'), (2,'Infinity',NULL,'Infinity','-Infinity'), (3,'-Infinity',1.10,'-0','-0')",
    );
    twin(&mut db, "t");
    let (rows, _) = db.read("t", "id", Form::Text, OnLossy::Error).unwrap();
    db.load("copy", &rows, OnLossy::Error).unwrap();
    db.assert_same("t", "copy");
    let error = db.read("t", "id", Form::Typed, OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row, error.place().column.as_deref()), (Some(1), Some("n2")));
    let error = db.read("t", "id", Form::Json, OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row, error.place().column.as_deref()), (Some(1), Some("n")));
    let (rows, lossy) = db.read("t", "id", Form::Json, OnLossy::Text).unwrap();
    let n = rows[0].batch.column_by_name("n").unwrap().as_string_view();
    assert_eq!((n.value(0), n.value(2), lossy), ("\"NaN\"", "\"-Infinity\"", 4 + 4));
    db.run("TRUNCATE copy");
    db.load("copy", &rows, OnLossy::Error).unwrap();
    db.assert_same("t", "copy");
}

#[test]
fn num_03_num_04_numerics_keep_digits_and_scale() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id serial, a numeric(38,10), b numeric, c numeric(60,5)); INSERT INTO t (a, b, c) VALUES \
            (123.4567890123, 1e-130, 12345678901234567890123456789012345678901234567890.12345), \
            (9999999999999999999999999999.9999999999, 1e130, -0.00001), (-0.0000000001, 12345678901234567890123456789012345678901234567890, 0), \
            (0.1, 0.00, 1), (12345678901234567890.1234567890, 100, null), (0, 1.50, 1), (1, -0, 1), (1, 1e-16383, 10000), (2, 0.0001, 0.1)");
    for form in [Form::Typed, Form::Text, Form::Json] {
        db.run("DROP TABLE IF EXISTS copy");
        twin(&mut db, "t");
        let (rows, _) = db.read("t", "id", form, OnLossy::Error).unwrap();
        assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (9, true));
        db.assert_same("t", "copy");
    }
}

#[test]
fn dt_01_dt_03_dt_07_dt_09_times_of_every_kind() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id serial, d date, ts timestamp, tz timestamptz, t3 timestamp(3), t time, tt timetz, iv interval); \
            INSERT INTO t (d, ts, tz, t3, t, tt, iv) VALUES \
            ('infinity', 'infinity', 'infinity', '2022-05-31 20:23:49.4', '24:00:00', '24:00:00+05:30', '1 mon -1 day +25:00:00.000001'), \
            ('-infinity', '-infinity', '-infinity', '2022-05-31 20:23:49', '00:00:00', '10:23:54-02', '-1 year'), \
            (null, null, null, null, '23:59:59.999999', '00:00+15:59', '178000000 years'), \
            ('0044-03-15 BC', '4713-01-01 00:00:00 BC', '0001-01-01 00:00:00+00', '0044-03-15 BC', null, null, '1 mon'), \
            ('0001-01-01', '2022-05-31 20:23:49.000001', '1582-10-10 00:00+00', null, null, null, '30 days'), \
            ('1582-10-10', '294276-12-31 23:59:59.999999', '2024-10-27 00:30+00', '1999-12-31 23:59:59.999', null, null, '1 day 02:03:04.5')");
    for form in [Form::Text, Form::Json] {
        db.run("DROP TABLE IF EXISTS copy");
        twin(&mut db, "t");
        let (rows, _) = db.read("t", "id", form, OnLossy::Error).unwrap();
        let text = |name: &str, row: usize| rows[0].batch.column_by_name(name).unwrap().as_string_view().value(row).to_string();
        assert_eq!(
            (text("d", 0), text("tz", 1), text("t3", 0), text("t", 0)),
            ("infinity".into(), "-infinity".into(), "2022-05-31T20:23:49.4".into(), "24:00:00".into())
        );
        assert_eq!(
            (text("d", 3), text("ts", 4), text("tz", 5)),
            ("0044-03-15 BC".into(), "2022-05-31T20:23:49.000001".into(), "2024-10-27T00:30:00Z".into())
        );
        db.load("copy", &rows, OnLossy::Error).unwrap();
        db.assert_same("t", "copy");
    }
    let error = db.read("t", "id", Form::Typed, OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row, error.place().column.as_deref()), (Some(1), Some("d")));
    // In Arrow's own types, with an opt-in for infinity: BC and far years are exact.
    db.run("DELETE FROM t WHERE id < 4; UPDATE t SET ts = '2000-01-01' WHERE id = 6; DROP TABLE copy");
    twin(&mut db, "t");
    let (rows, lossy) = db.read("t", "id", Form::Typed, OnLossy::Null).unwrap();
    db.load("copy", &rows, OnLossy::Error).unwrap();
    db.assert_same("t", "copy");
    assert_eq!(lossy, 0);
}

#[test]
fn tx_01_nul_characters_are_refused_with_their_place() {
    use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (a text); CREATE TABLE j (a jsonb); CREATE TABLE b (a bytea)");
    let text: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["x", "a\0b", "y"]));
    let rows = |array: ArrayRef| [haul_model::Rows::new(RecordBatch::try_from_iter([("a", array)]).unwrap(), 0)];
    let error = db.load("t", &rows(text.clone()), OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row_in_chunk, error.place().column.as_deref()), (Some(1), Some("a")));
    assert!(error.detail().contains("NUL"), "{error}");
    assert_eq!(db.value("SELECT count(*) FROM t"), "0");
    db.load("t", &rows(text), OnLossy::Null).unwrap();
    assert_eq!(db.value("SELECT count(*) FROM t WHERE a IS NULL"), "1");
    let json: ArrayRef = std::sync::Arc::new(StringArray::from(vec![r#"{"k":"a"}"#, r#"{"k":"a\u0000b"}"#]));
    let error = db.load("j", &rows(json), OnLossy::Error).unwrap_err();
    assert_eq!(error.place().column.as_deref(), Some("a"), "{error:?}");
    let bytes: ArrayRef = std::sync::Arc::new(BinaryArray::from_vec(vec![b"a\0b"]));
    db.load("b", &rows(bytes), OnLossy::Error).unwrap();
    assert_eq!(db.value("SELECT a::text FROM b"), "\\x610062");
}

#[test]
fn tx_05_padding_and_text_keys() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (c char(5), k text PRIMARY KEY, v varchar(3)); \
            INSERT INTO t VALUES ('ab', 'ab ', 'a  '), ('', 'ab', ''), ('abcde', 'AB', null), ('é', 'áb', 'é'), (null, '', 'xyz'), ('a b', 'c', 'x')");
    twin(&mut db, "t");
    let (rows, _) = db.read("t", "k", Form::Typed, OnLossy::Error).unwrap();
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (6, true));
    db.assert_same("t", "copy");
    db.run("CREATE TABLE narrow (c char(5), k text, v varchar(2))");
    let error = db.load("narrow", &rows, OnLossy::Error).unwrap_err();
    assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Lossy, Some("v")));
}

#[test]
fn bn_01_bytea_is_never_cut() {
    let mut db = TestDb::new();
    db.run(
        "CREATE TABLE t (id serial, b bytea); SET bytea_output = 'escape'; \
            INSERT INTO t (b) VALUES (''), ('\\x00'), ('\\x00ff00'), (null), (decode(repeat('00ff10', 350000), 'hex'))",
    );
    for form in [Form::Typed, Form::Text, Form::Json] {
        db.run("DROP TABLE IF EXISTS copy");
        twin(&mut db, "t");
        let (rows, _) = db.read("t", "id", form, OnLossy::Error).unwrap();
        assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (5, true));
        let sums = "SELECT string_agg(coalesce(sha256(b)::text, 'null'), ',' ORDER BY id) FROM ";
        assert_eq!(db.value(&format!("{sums} t")), db.value(&format!("{sums} copy")));
    }
}

#[test]
fn bn_03_bit_strings_and_booleans() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id serial, b3 bit(3), v varbit, o bool); INSERT INTO t (b3, v, o) VALUES ('101', '10110', null), ('000', '', true), (null, null, false)");
    twin(&mut db, "t");
    let (rows, _) = db.read("t", "id", Form::Typed, OnLossy::Error).unwrap();
    assert_eq!(rows[0].batch.column_by_name("v").unwrap().as_string_view().value(0), "10110");
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (3, false));
    db.assert_same("t", "copy");
}

#[test]
fn ty_01_arrays_are_never_flattened() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id serial, a int[], s text[]); INSERT INTO t (a, s) VALUES ('{}', null), (null, '{\"a,b\",\"NULL\",NULL,\"\",\"{\"}'), \
            ('{NULL,1}', '{}'), ('{{1,2},{3,4}}', '{x}'), ('[0:1]={7,8}', null), ('{{{1}}}', null)");
    twin(&mut db, "t");
    let (rows, _) = db.read("t", "id", Form::Text, OnLossy::Error).unwrap();
    db.load("copy", &rows, OnLossy::Error).unwrap();
    db.assert_same("t", "copy");
    let error = db.read("t", "id", Form::Typed, OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row, error.place().column.as_deref()), (Some(4), Some("a")));
    let error = db.read("t", "id", Form::Json, OnLossy::Error).unwrap_err();
    assert_eq!((error.place().row, error.place().column.as_deref()), (Some(5), Some("a")));
    db.run("DELETE FROM t WHERE id = 5; TRUNCATE copy");
    let (rows, _) = db.read("t", "id", Form::Json, OnLossy::Error).unwrap();
    assert_eq!(rows[0].batch.column_by_name("a").unwrap().as_string_view().value(3), "[[1,2],[3,4]]");
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (5, true));
    db.assert_same("t", "copy");
    db.run("DELETE FROM t WHERE id IN (4, 6); TRUNCATE copy");
    let (rows, _) = db.read("t", "id", Form::Typed, OnLossy::Error).unwrap();
    assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (3, true));
    db.assert_same("t", "copy");
}

#[test]
fn ty_02_every_other_type_in_a_snapshot() {
    let mut db = TestDb::new();
    db.run("CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE DOMAIN d_pos AS int CHECK (value > 0); CREATE TYPE mood AS ENUM ('sad', 'ok'); \
            CREATE TYPE money_cur AS (cur text, amt numeric); CREATE DOMAIN d_h AS hstore; CREATE DOMAIN d_arr AS int[]; \
            CREATE TABLE t (id serial, dp d_pos, m mood, mc money_cur, h hstore, dh d_h, da d_arr, tsv tsvector, r int4range, mr tstzmultirange, \
              ip inet, c cidr, mac macaddr, x xml, l pg_lsn, ci citext, mo money, rc regclass, ov oidvector, cs citext[], td d_pos[]); \
            INSERT INTO t (dp, m, mc, h, dh, da, tsv, r, mr, ip, c, mac, x, l, ci, mo, rc, ov, cs, td) VALUES \
            (1, 'ok', row('EUR', 1.10), 'a=>1,b=>NULL', 'x=>\"y z\"', '{1,NULL}', 'a:1 b', '[1,5)', '{[2020-01-01,2021-01-01)}', '::1', '10.0.0.0/8', \
             '08:00:2b:01:02:03', '<a/>', '16/B374D848', 'MiXed', '$12.34', 'pg_class', '1 2', '{A,b}', '{1,2}'); INSERT INTO t DEFAULT VALUES");
    for form in [Form::Text, Form::Typed, Form::Json] {
        db.run("DROP TABLE IF EXISTS copy");
        twin(&mut db, "t");
        let (rows, _) = db.read("t", "id", form, OnLossy::Error).unwrap();
        db.load("copy", &rows, OnLossy::Error).unwrap();
        db.assert_same("t", "copy");
    }
}

#[test]
fn ty_03_json_is_never_touched() {
    let mut db = TestDb::new();
    db.run("CREATE TABLE t (id serial, j json, b jsonb); INSERT INTO t (j, b) VALUES ('{\"b\":1, \"a\":[1.0,1e2]}', '{\"b\":1, \"a\":[1.0,1e2]}'), \
            ('\"x\"', '\"x\"'), ('null', 'null'), (null, null), ('  [1] ', '[1]')");
    for form in [Form::Typed, Form::Text, Form::Json] {
        db.run("DROP TABLE IF EXISTS copy");
        twin(&mut db, "t");
        let (rows, _) = db.read("t", "id", form, OnLossy::Error).unwrap();
        assert_eq!(db.load("copy", &rows, OnLossy::Error).unwrap(), (5, true));
        db.assert_same("t", "copy");
        assert_eq!(db.value("SELECT count(*) FROM copy WHERE j IS NULL"), "1");
    }
}
