use super::*;
use crate::transform::{AskedBy, Cast, TypeName};
use arrow_array::types::{Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Decimal128Array, Float64Array, Int64Array, TimestampMicrosecondArray};
use haul_model::field_meta;

fn cast(text: &str) -> Cast {
    Cast::parse(text).unwrap()
}

/// The error that one text gives when it is cast.
fn refused(value: &str, to: &str) -> String {
    failure(&cast(&format!("n:{to}")), text_rows(&[("n", &[Some("0"), None, Some(value)][2..])]))
}

#[test]
fn csv_23_explicit_numeric_refuses_group_signs() {
    assert_eq!(
        refused("1,213", "numeric"),
        "Data: t.csv, line 2, column \"n\": \"1,213\" is a number with a comma, not a number | --cast n:text keeps it as it is"
    );
    assert_eq!(
        refused("1,213", "integer"),
        "Data: t.csv, line 2, column \"n\": \"1,213\" is a number with a comma, not an integer | --cast n:text keeps it as it is"
    );
    assert_eq!(
        refused("(12)", "numeric(10,2)"),
        "Data: t.csv, line 2, column \"n\": \"(12)\" is text, not a number | --cast n:text keeps it as it is"
    );
}

#[test]
fn csv_12_null_stays_null_and_empty_is_a_value() {
    let rows = text_rows(&[("t", &[Some(""), None, Some("x")]), ("n", &[Some("1"), None, None])]);
    let out = apply(&cast("t:text,n:integer"), rows);
    assert_eq!(texts(&out, "t"), [Some("".to_string()), None, Some("x".to_string())]);
    let n = out.batch.column(1).as_primitive::<Int32Type>();
    assert_eq!(n.iter().collect::<Vec<_>>(), [Some(1), None, None]);
    for to in ["bigint", "real", "numeric(5,1)", "numeric", "boolean", "date", "timestamptz", "json", "uuid", "time", "bytea"] {
        assert!(refused("", to).starts_with("Data: t.csv, line 2, column \"n\": an empty string is not "), "{to}");
    }
}

#[test]
fn num_01_integers_keep_every_digit_or_stop() {
    let rows = text_rows(&[("id", &[Some("9007199254740993"), Some("-9223372036854775808"), Some("9223372036854775807")])]);
    let out = apply(&cast("id:bigint"), rows);
    let ids = out.batch.column(0).as_primitive::<Int64Type>();
    assert_eq!(ids.values(), &[9007199254740993, i64::MIN, i64::MAX]);
    let beyond = "does not fit bigint (-9223372036854775808 to 9223372036854775807) | --cast n:numeric holds it";
    for value in ["9223372036854775808", "18446744073709551615", "123456789012345678901234567890"] {
        assert_eq!(refused(value, "int8"), format!("Data: t.csv, line 2, column \"n\": {value:?} {beyond}"));
    }
    let all = ["18446744073709551615", "123456789012345678901234567890", "0.1000000000000000055511151231257827", "1E400"];
    let out = apply(&cast("id:numeric"), text_rows(&[("id", &all.map(Some))]));
    assert_eq!(texts(&out, "id"), some(&all));
    assert_eq!(field_meta::source_type(out.batch.schema().field(0), "postgres"), Some("numeric"));
}

#[test]
fn num_03_decimals_are_exact() {
    let values = ["123.4567890123", "9999999999999999999999999999.9999999999", "-0.0000000001", "0.1", "12345678901234567890.1234567890"];
    let out = apply(&cast("d:numeric(38,10)"), text_rows(&[("d", &values.map(Some))]));
    let d = out.batch.column(0).as_primitive::<Decimal128Type>();
    assert_eq!(d.values(), &[1234567890123, 99999999999999999999999999999999999999, -1, 1000000000, 123456789012345678901234567890]);
    let back = apply(&cast("d:text"), out);
    assert_eq!(
        texts(&back, "d"),
        some(&[
            "123.4567890123",
            "9999999999999999999999999999.9999999999",
            "-0.0000000001",
            "0.1000000000",
            "12345678901234567890.1234567890"
        ])
    );
}

#[test]
fn num_04_unconstrained_numeric_keeps_its_text() {
    let values = ["1e-130", "1e130", "12345678901234567890123456789012345678901234567890", "0.00", "100", "1.50", "-0", "NaN", "-Infinity"];
    let out = apply(&cast("n:decimal"), text_rows(&[("n", &values.map(Some))]));
    assert_eq!(texts(&out, "n"), some(&values));
    assert_eq!(
        refused("1e-130", "numeric(38,10)"),
        "Lossy: t.csv, line 2, column \"n\": \"1e-130\" has more than 10 digits behind the point: numeric(38,10) would round it | \
         --cast n:numeric holds it"
    );
    assert_eq!(
        refused("12345678901234567890123456789012345678901234567890", "numeric(38,10)"),
        "Data: t.csv, line 2, column \"n\": \"1234567890123456789012345678901234567890…\" does not fit numeric(38,10) (28 digits before the \
         point) | --cast n:numeric holds it"
    );
}

#[test]
fn dt_07_timestamps_keep_instant_and_fraction() {
    let values = ["2022-05-31 20:23:49.4", "2022-05-31T20:23:49", "2022-05-31 20:23:49.000001"];
    let out = apply(&cast("t:timestamp"), text_rows(&[("t", &values.map(Some))]));
    let micros = out.batch.column(0).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(micros.values(), &[1654028629400000, 1654028629000000, 1654028629000001]);
    let back = apply(&cast("t:text"), out);
    assert_eq!(texts(&back, "t"), some(&["2022-05-31T20:23:49.4", "2022-05-31T20:23:49", "2022-05-31T20:23:49.000001"]));

    let zones = ["2022-05-31 20:23:49.4+05:30", "2022-05-31T14:53:49.4Z", "2022-05-31 14:53:49.4"];
    let out = apply(&cast("t:timestamptz"), text_rows(&[("t", &zones.map(Some))]));
    assert_eq!(out.batch.column(0).as_primitive::<TimestampMicrosecondType>().values(), &[1654008829400000; 3]);
    assert_eq!(out.batch.column(0).data_type(), &TypeName::TIMESTAMPTZ.data_type());

    assert_eq!(
        refused("2022-05-31 20:23:49+02", "timestamp"),
        "Data: t.csv, line 2, column \"n\": \"2022-05-31 20:23:49+02\" has a zone, timestamp has none | --cast n:timestamptz holds it"
    );
    assert_eq!(
        refused("2022-05-31 20:23:49.0000001", "timestamp"),
        "Lossy: t.csv, line 2, column \"n\": \"2022-05-31 20:23:49.0000001\" is finer than microseconds: timestamp would cut it | \
         --cast 'n:timestamp(9)' holds it"
    );
    assert_eq!(
        refused("2022-05-31 20:23:49.4", "timestamp(0)"),
        "Lossy: t.csv, line 2, column \"n\": \"2022-05-31 20:23:49.4\" is finer than seconds: timestamp(0) would cut it | \
         --cast n:timestamp holds it"
    );
    assert_eq!(
        refused("2022-02-30", "date"),
        "Data: t.csv, line 2, column \"n\": \"2022-02-30\" does not fit date | --cast n:text keeps it as it is"
    );
    assert_eq!(
        refused("2022-05-31 20:23:49", "date"),
        "Data: t.csv, line 2, column \"n\": \"2022-05-31 20:23:49\" is a timestamp, not a date | --cast n:timestamp holds it"
    );
}

#[test]
fn dt_09_the_end_of_the_day_is_no_arrow_time() {
    let out = apply(&cast("t:time"), text_rows(&[("t", &[Some("00:00:00"), Some("23:59:59.999999")])]));
    let back = apply(&cast("t:text"), out);
    assert_eq!(texts(&back, "t"), some(&["00:00:00", "23:59:59.999999"]));
    assert_eq!(
        refused("24:00:00", "time"),
        "Data: t.csv, line 2, column \"n\": \"24:00:00\" is the end of the day, which time cannot hold | --cast n:text keeps it as it is"
    );
}

#[test]
fn sc_08_narrowing_stops_at_the_value() {
    let narrow = |field, array, to: &str| failure(&cast(to), rows_of(field, array));
    let bigint: ArrayRef = Arc::new(Int64Array::from(vec![1, 5_000_000_000]));
    assert_eq!(
        narrow(Field::new("n", DataType::Int64, false), bigint, "n:int"),
        "Data: column \"n\": \"5000000000\" does not fit integer (-2147483648 to 2147483647) | --cast n:bigint holds it"
    );
    let numeric: ArrayRef = Arc::new(Decimal128Array::from(vec![12300, 12345]).with_precision_and_scale(10, 4).unwrap());
    assert_eq!(
        narrow(Field::new("n", DataType::Decimal128(10, 4), false), numeric, "n:numeric(10,2)"),
        "Lossy: column \"n\": \"1.2345\" has more than 2 digits behind the point: numeric(10,2) would round it | --cast n:numeric holds it"
    );
    let stamp: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 1]));
    assert_eq!(
        narrow(Field::new("n", TypeName::TIMESTAMP.data_type(), false), stamp, "n:date"),
        "Lossy: column \"n\": \"1970-01-01T00:00:00.000001\" has a time of day, which date would cut | --cast n:timestamp holds it"
    );
    assert_eq!(refused("x", "int"), "Data: t.csv, line 2, column \"n\": \"x\" is text, not an integer | --cast n:text keeps it as it is");
    assert_eq!(
        refused("abcd", "varchar(3)"),
        "Data: t.csv, line 2, column \"n\": \"abcd\" has 4 characters, varchar(3) takes fewer | --cast n:text keeps it as it is"
    );
    let target = Cast::new(vec![("n".into(), TypeName::Int32)], AskedBy::Target);
    assert_eq!(
        failure(&target, text_rows(&[("n", &[Some("5000000000")])])),
        "Data: t.csv, line 2, column \"n\": \"5000000000\" does not fit integer (-2147483648 to 2147483647) | the target's column is integer; \
         a column of type bigint holds it"
    );
}

#[test]
fn floats_become_other_numbers_only_when_exact() {
    let rows = |values: Vec<f64>| rows_of(Field::new("f", DataType::Float64, true), Arc::new(Float64Array::from(values)));
    let out = apply(&cast("f:int"), rows(vec![3.0, -0.0, 2147483647.0]));
    assert_eq!(out.batch.column(0).as_primitive::<Int32Type>().values(), &[3, 0, i32::MAX]);
    assert_eq!(
        failure(&cast("f:int"), rows(vec![2.5])),
        "Data: column \"f\": \"2.5\" is a decimal number, not an integer | --cast f:numeric holds it"
    );
    assert_eq!(
        failure(&cast("f:bigint"), rows(vec![9.3e18])),
        "Data: column \"f\": \"9.3e+18\" does not fit bigint (-9223372036854775808 to 9223372036854775807) | --cast f:numeric holds it"
    );
    assert!(failure(&cast("f:bigint"), rows(vec![f64::NAN])).contains("\"NaN\" does not fit bigint"));
    let out = apply(&cast("f:numeric(5,3)"), rows(vec![0.1, 12.345]));
    assert_eq!(out.batch.column(0).as_primitive::<Decimal128Type>().values(), &[100, 12345]);
    let out = apply(&cast("f:real"), rows(vec![0.5, f64::INFINITY]));
    assert_eq!(out.batch.column(0).as_primitive::<Float32Type>().values(), &[0.5, f32::INFINITY]);
    assert!(failure(&cast("f:real"), rows(vec![0.1])).contains("\"0.1\" has more digits than real holds"));
    assert!(failure(&cast("f:json"), rows(vec![f64::NAN])).contains("\"NaN\" is not JSON"));
    assert!(refused("3.14159265358979323846", "double precision").contains("has more digits than double precision holds"));
    assert!(refused("1e400", "double precision").contains("\"1e400\" does not fit double precision | --cast n:numeric holds it"));
    let out = apply(&cast("f:double"), text_rows(&[("f", &[Some("0.1"), Some("1e300"), Some("-0.0"), Some("0.30000000000000004")])]));
    assert_eq!(out.batch.column(0).as_primitive::<Float64Type>().values(), &[0.1, 1e300, -0.0, 0.1 + 0.2]);
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1 << 53, (1 << 53) + 1]));
    assert!(
        failure(&cast("f:double"), rows_of(Field::new("f", DataType::Int64, false), ints))
            .contains("\"9007199254740993\" has more digits than double precision holds")
    );
}

#[test]
fn json_is_checked_and_compacted_in_source_order() {
    let input = text_rows(&[(
        "j",
        &[
            Some(r#"{"b":1,"a":[1.0,1e2]}"#),
            None,
            Some("{ \"b\" : 1,\n \"a\" : [ 1.0 , 1e2 ], \"a\" : \" x \" }"),
            Some(" 7 "),
            Some("\"\\ud83d\""),
        ],
    )]);
    let out = apply(&cast("j:json"), input.clone());
    let compact = [r#"{"b":1,"a":[1.0,1e2]}"#, r#"{"b":1,"a":[1.0,1e2],"a":" x "}"#, "7", "\"\\ud83d\""];
    assert_eq!(texts(&out, "j").into_iter().flatten().collect::<Vec<_>>(), compact);
    assert!(out.batch.column(0).is_null(1) && field_meta::is_json(out.batch.schema().field(0)));
    // What was compact still points into the input.
    let (before, after) = (input.batch.column(0).as_string_view(), out.batch.column(0).as_string_view());
    assert_eq!(before.value(0).as_ptr(), after.value(0).as_ptr());
    assert_eq!(
        refused("{'a':1}", "json"),
        "Data: t.csv, line 2, column \"n\": \"{'a':1}\" is not JSON: a character that cannot stand there at offset 1 | \
         --cast n:text keeps it as it is"
    );
}

#[test]
fn json_values_cast_by_what_they_hold() {
    let json = |values: &[&str]| {
        let field = TypeName::JSON.field("j", true);
        rows_of(field, Arc::new(StringViewArray::from(values.to_vec())))
    };
    let out = apply(&cast("j:bigint"), json(&["12", "\"13\"", "null"]));
    assert_eq!(out.batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(12), Some(13), None]);
    let long = "\"a string that is longer than twelve bytes\"";
    let out = apply(&cast("j:text"), json(&["\"a\\u00e9\\n\"", "1.50", "{\"a\":1}", long, "\"\"", "null", "true"]));
    let mut expected = some(&["aé\n", "1.50", "{\"a\":1}", &long[1..long.len() - 1], ""]);
    expected.extend([None, Some("true".to_string())]);
    assert_eq!(texts(&out, "j"), expected);
    assert!(failure(&cast("j:int"), json(&["{\"a\":1}"])).contains("\"{\\\"a\\\":1}\" is JSON text, not an integer"));
    assert!(failure(&cast("j:text"), json(&["\"\\ud83d\""])).contains("has half of a surrogate pair, which is no character"));
}

#[test]
fn bad_rows_are_told_in_row_order_and_taken_out() {
    let rows = text_rows(&[
        ("a", &[Some("1"), Some("2"), Some("x"), Some("4"), Some("5")]),
        ("b", &[Some("1"), Some("y"), Some("z"), Some("4"), Some("w")]),
    ]);
    let transform = cast("a:int,b:int");
    assert!(failure(&transform, rows.clone()).starts_with("Data: t.csv, line 3, column \"b\": \"y\""));
    let mut aside = Aside::default();
    let out = transform.apply(rows, &mut aside).unwrap();
    assert_eq!(
        aside.0,
        [
            "t.csv, line 3, column \"b\": \"y\" is text, not an integer",
            "t.csv, line 4, column \"a\": \"x\" is text, not an integer",
            "t.csv, line 6, column \"b\": \"w\" is text, not an integer",
        ]
    );
    assert_eq!(out.batch.column(0).as_primitive::<Int32Type>().values(), &[1, 4]);
    // The next transform's errors still name the right line.
    assert_eq!(
        failure(&cast("a:numeric(2,2)"), out),
        "Data: t.csv, line 2, column \"a\": \"1\" does not fit numeric(2,2) (0 digits before the point) | --cast a:numeric holds it"
    );
}

#[test]
fn dates_and_times_among_themselves() {
    let out = apply(&cast("d:date"), text_rows(&[("d", &[Some("2024-02-29"), Some("0044-03-15 BC")])]));
    assert_eq!(out.batch.column(0).as_primitive::<Date32Type>().value(0), 19782);
    let stamps = apply(&cast("d:timestamp(0)"), out.clone());
    assert_eq!(texts(&apply(&cast("d:text"), stamps.clone()), "d"), some(&["2024-02-29T00:00:00", "0044-03-15T00:00:00 BC"]));
    assert_eq!(apply(&cast("d:date"), stamps).batch, out.batch);
    assert!(failure(&cast("d:timestamp(9)"), out).contains("\"0044-03-15 BC\" does not fit timestamp(9)"));
}

#[test]
fn the_plan_refuses_what_no_value_could_do() {
    let dates = rows_of(Field::new("d", DataType::Date32, true), Arc::new(arrow_array::Date32Array::from(vec![1])));
    assert_eq!(
        failure(&cast("d:integer"), dates),
        "Schema: column \"d\": a column of type Date32 cannot be cast to integer | leave it as it is, or cast it to text"
    );
    let rows = text_rows(&[("created_at", &[]), ("b", &[]), ("b", &[])]);
    assert_eq!(failure(&cast("create_at:date"), rows.clone()), "Schema: there is no column \"create_at\" | did you mean \"created_at\"?");
    assert_eq!(
        failure(&cast("b:date"), rows),
        "Schema: column \"b\": there are several columns called \"b\" | give the columns names of their own first"
    );
    assert_eq!(cast("id:int8,\"a b\":jsonb").describe(), "cast id:bigint,\"a b\":jsonb");
}

#[test]
fn odd_names_come_back_in_the_hint_as_the_flag_takes_them() {
    let error = failure(&cast("\"a,b\":int"), text_rows(&[("a,b", &[Some("x")])]));
    assert!(error.ends_with("--cast '\"a,b\":text' keeps it as it is"), "{error}");
    assert!(refused("2020-01-01 10:00:00.0000001Z", "timestamptz").ends_with("--cast 'n:timestamptz(9)' holds it"));
}
