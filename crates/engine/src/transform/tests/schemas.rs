use super::*;
use crate::transform::{JsonSchema, TypeName};
use arrow_array::types::Int64Type;
use arrow_array::{Float64Array, Int32Array};
use haul_model::field_meta;

const BENCH: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/bench.json"));

fn schema(properties: &str) -> JsonSchema {
    JsonSchema::parse(&format!("{{\"type\":\"object\",\"properties\":{{{properties}}}}}")).unwrap()
}

/// The column `c` of JSON values.
fn json_rows(values: &[&str]) -> Rows {
    rows_of(TypeName::JSON.field("c", true), Arc::new(StringViewArray::from(values.to_vec())))
}

fn column(values: &[&str]) -> Rows {
    text_rows(&[("c", &values.iter().map(|v| Some(*v)).collect::<Vec<_>>())])
}

fn wrong(text: &str) -> String {
    told(&JsonSchema::parse(text).expect_err("it should have failed"))
}

#[test]
fn the_bench_fixture() {
    let transform = JsonSchema::parse(BENCH).unwrap();
    assert_eq!(transform.describe(), "json schema id:integer,attributes:json");
    let attributes = r#"{"tier":"pro","score":12.345,"tags":["beta","alpha"]}"#;
    let rows = text_rows(&[
        ("id", &[Some("1"), Some("1000000")]),
        ("amount", &[Some("5000.5"), Some("1.0")]),
        ("active", &[Some("true"), Some("false")]),
        ("attributes", &[Some(attributes), Some("{ \"score\": 1 }")]),
    ]);
    let out = apply(&transform, rows);
    assert_eq!(out.batch.column(0).as_primitive::<Int64Type>().values(), &[1, 1_000_000]);
    assert_eq!(texts(&out, "amount"), some(&["5000.5", "1.0"]));
    assert_eq!(texts(&out, "active"), some(&["true", "false"]));
    assert_eq!(texts(&out, "attributes"), some(&[attributes, "{\"score\":1}"]));
    let fields = out.batch.schema();
    let json: Vec<bool> = fields.fields().iter().map(|f| field_meta::is_json(f)).collect();
    assert_eq!(json, [false, false, false, true]);
}

#[test]
fn numbers_keep_their_text() {
    let all = ["9007199254740993", "1.50", "-0", "1E400", "0.1000000000000000055511151231257827", "123456789012345678901234567890"];
    let number = schema("\"c\":{\"type\":\"number\"}");
    let out = apply(&number, column(&all));
    assert_eq!(texts(&out, "c"), some(&all));
    assert!(field_meta::is_json(out.batch.schema().field(0)));
    assert_eq!(field_meta::source_type(out.batch.schema().field(0), "postgres"), Some("numeric"));
    assert_eq!(texts(&apply(&number, json_rows(&["1.50", "\"2.0\"", "7"])), "c"), some(&["1.50", "2.0", "7"]));
    assert_eq!(
        failure(&number, column(&["1", "01"])),
        "Data: t.csv, line 3, column \"c\": \"01\" is a whole number with leading zeros, but not as JSON writes numbers | type \"string\" in \
         the JSON Schema keeps it as it is"
    );
    assert_eq!(
        failure(&number, column(&["1,213"])),
        "Data: t.csv, line 2, column \"c\": \"1,213\" is a number with a comma, not a number | type \"string\" in the JSON Schema keeps it as it is"
    );
    assert_eq!(
        failure(&schema("\"c\":{\"type\":[\"integer\",\"null\"]}"), column(&["18446744073709551615"])),
        "Data: t.csv, line 2, column \"c\": \"18446744073709551615\" does not fit bigint (-9223372036854775808 to 9223372036854775807) | \
         type \"number\" in the JSON Schema keeps every digit"
    );
    let floats = rows_of(Field::new("c", DataType::Float64, true), Arc::new(Float64Array::from(vec![0.5])));
    assert_eq!(apply(&number, floats.clone()).batch, floats.batch);
}

#[test]
fn formats_are_checked_and_the_text_stays() {
    let date_time = schema("\"c\":{\"type\":\"string\",\"format\":\"date-time\"}");
    let all = ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.100+05:30"];
    assert_eq!(texts(&apply(&date_time, column(&all)), "c"), some(&all));
    assert_eq!(
        failure(&date_time, column(&["2020-01-01"])),
        "Data: t.csv, line 2, column \"c\": \"2020-01-01\" is not a date-time such as 2020-01-31T09:30:00Z | without \"format\" in the JSON \
         Schema any string is taken"
    );
}

#[test]
fn required_and_enum() {
    let text = r#"{"properties":{"c":{"enum":["DE","FR"]},"n":{"type":["integer","null"],"enum":[1,2,null]}},"required":["c","n"]}"#;
    let transform = JsonSchema::parse(text).unwrap();
    let rows = |c, n| text_rows(&[("c", &[Some("DE"), c]), ("n", &[Some("1"), n])]);
    apply(&transform, rows(Some("FR"), None));
    assert_eq!(
        failure(&transform, rows(None, Some("2"))),
        "Data: t.csv, line 3, column \"c\": NULL, but the JSON Schema requires a value | add \"null\" to its \"type\" in the JSON Schema, or \
         take it out of \"required\""
    );
    assert_eq!(
        failure(&transform, rows(Some("de"), Some("2"))),
        "Data: t.csv, line 3, column \"c\": \"de\" is not one of \"DE\", \"FR\" | add it to \"enum\" in the JSON Schema if it is right"
    );
    assert_eq!(
        failure(&transform, rows(Some("DE"), Some("3"))),
        "Data: t.csv, line 3, column \"n\": \"3\" is not one of 1, 2, null | add it to \"enum\" in the JSON Schema if it is right"
    );
    assert_eq!(
        failure(&transform, text_rows(&[("country", &[]), ("n", &[])])),
        "Schema: the JSON Schema requires a property that the source does not have: there is no column \"c\" | did you mean \"n\"?"
    );
    let numbers = schema("\"c\":{\"type\":\"number\",\"enum\":[1,2.5]}");
    assert_eq!(texts(&apply(&numbers, column(&["1.0", "25e-1"])), "c"), some(&["1.0", "25e-1"]));
    let ints = rows_of(Field::new("c", DataType::Int32, true), Arc::new(Int32Array::from(vec![1, 3])));
    assert!(failure(&schema("\"c\":{\"enum\":[1,2]}"), ints).starts_with("Data: column \"c\": \"3\" is not one of 1, 2"));
}

#[test]
fn additional_properties() {
    let text = |extra| format!("{{\"properties\":{{\"id\":{{\"type\":\"integer\"}}}},\"additionalProperties\":{extra}}}");
    let rows = || text_rows(&[("id", &[Some("1")]), ("x", &[Some("y")])]);
    assert_eq!(texts(&apply(&JsonSchema::parse(&text("true")).unwrap(), rows()), "x"), some(&["y"]));
    assert_eq!(
        failure(&JsonSchema::parse(&text("false")).unwrap(), rows()),
        "Schema: column \"x\": the JSON Schema has no such property and forbids additional ones | add it to \"properties\", or leave the column \
         out with --columns"
    );
}

#[test]
fn objects_arrays_and_lists_of_types() {
    let object = schema("\"c\":{\"type\":\"object\"}");
    assert_eq!(texts(&apply(&object, column(&["{ \"b\" : 1, \"a\" : 2 }"])), "c"), some(&["{\"b\":1,\"a\":2}"]));
    assert_eq!(
        failure(&object, column(&["[1]"])),
        "Data: t.csv, line 2, column \"c\": \"[1]\" is an array, not an object | widen \"type\" in the JSON Schema if the value is right"
    );
    let mixed = schema("\"c\":{\"type\":[\"integer\",\"boolean\",\"array\",\"string\"]}");
    let out = apply(&mixed, column(&["1", "1.5", "true", "[1, 2]", "[1", "a\"b", "01", "null"]));
    assert_eq!(texts(&out, "c"), some(&["1", "\"1.5\"", "true", "[1, 2]", "\"[1\"", "\"a\\\"b\"", "\"01\"", "\"null\""]));
    let out = apply(&mixed, json_rows(&["1", "\"x\"", "[1]"]));
    assert_eq!(texts(&out, "c"), some(&["1", "\"x\"", "[1]"]));
    assert_eq!(
        failure(&mixed, json_rows(&["null"])),
        "Data: column \"c\": \"null\" is null, not an integer or a boolean or an array or a string | widen \"type\" in the JSON Schema if the value \
         is right"
    );
    let strict = schema("\"c\":{\"type\":[\"integer\",\"boolean\"]}");
    assert!(failure(&strict, column(&["x"])).contains("\"x\" is not an integer or a boolean"));
    assert!(failure(&schema("\"c\":{\"type\":\"null\"}"), column(&["x"])).contains("\"x\" is a value, not null"));
}

#[test]
fn an_embedded_document_is_decoded_from_a_json_string_too() {
    let transform = schema("\"c\":{\"type\":\"string\",\"contentMediaType\":\"application/json\"}");
    let out = apply(&transform, json_rows(&[r#""{\"b\": 1, \"a\": [2]}""#, r#"{"x":1}"#]));
    assert_eq!(texts(&out, "c"), some(&[r#"{"b":1,"a":[2]}"#, r#"{"x":1}"#]));
    assert_eq!(
        failure(&transform, column(&["{}", "{"])),
        "Data: t.csv, line 3, column \"c\": \"{\" is not JSON: it ends in the middle of a value at offset 1 | type \"string\" in the JSON Schema \
         keeps it as it is"
    );
}

#[test]
fn keywords_outside_the_subset_are_refused_with_their_path() {
    let annotated =
        r#"{"$schema":"x","$id":"y","title":"t","description":"d","properties":{"c":{"title":"t","default":1,"examples":[]},"d":true}}"#;
    assert_eq!(JsonSchema::parse(annotated).unwrap().describe(), "json schema c:any,d:any");
    for (text, message) in [
        ("[]", "Config: JSON Schema, #: the JSON Schema is not an object | -"),
        ("{\"type\":\"array\"}", "Config: JSON Schema, #/type: a row is an \"object\", nothing else | -"),
        ("{\"propertys\":{}}", "Config: JSON Schema, #: keyword \"propertys\" is not understood | did you mean \"properties\"?"),
        (
            "{\"properties\":{\"a/b\":{\"minimum\":1}}}",
            "Config: JSON Schema, #/properties/a~1b: keyword \"minimum\" is not understood | keywords here are type, format, contentMediaType, \
             enum, and annotations such as title",
        ),
        (
            "{\"properties\":{\"a\":{\"type\":\"int\"}}}",
            "Config: JSON Schema, #/properties/a/type: \"int\" is not a type | types are \"integer\", \"number\", \"boolean\", \"string\", \
             \"object\", \"array\", \"null\", or a list of them",
        ),
        (
            "{\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"email\"}}}",
            "Config: JSON Schema, #/properties/a/format: format \"email\" is not understood | formats are \"date-time\", \"date\", \"uuid\"",
        ),
        (
            "{\"properties\":{\"a\":{\"contentMediaType\":\"application/json\"}}}",
            "Config: JSON Schema, #/properties/a/contentMediaType: it says something about strings, so the type must be \"string\" | add \
             \"type\": \"string\"",
        ),
        ("{\"additionalProperties\":{}}", "Config: JSON Schema, #/additionalProperties: only true and false are understood | -"),
        ("{\"required\":[1]}", "Config: JSON Schema, #/required: it is not a list of names | -"),
        (
            "{\"properties\":{\"a\":{\"enum\":[[1]]}}}",
            "Config: JSON Schema, #/properties/a/enum: objects and arrays in it are not understood | -",
        ),
    ] {
        assert_eq!(wrong(text), message);
    }
}
