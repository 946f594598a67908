use super::*;
use crate::transform::{Project, engine_settings, parse_suffix};
use haul_model::ErrorKind;

fn three() -> Rows {
    text_rows(&[("a", &[Some("1")]), ("b,c", &[Some("2")]), ("d", &[Some("3")])])
}

fn names(rows: &Rows) -> Vec<String> {
    rows.batch.schema().fields().iter().map(|f| f.name().clone()).collect()
}

#[test]
fn columns_are_picked_in_order_and_renamed() {
    let picked = Project::parse_columns("d, \"b,c\"");
    assert_eq!(picked, ["d", "b,c"]);
    let project = Project::new(Some(picked), Project::parse_renames("\"b,c\":x").unwrap()).unwrap();
    assert_eq!(project.describe(), "columns d,\"b,c\", rename \"b,c\":x");
    let out = apply(&project, three());
    assert_eq!((names(&out), texts(&out, "x")), (vec!["d".to_string(), "x".to_string()], some(&["2"])));
    let swap = Project::new(None, Project::parse_renames("a:d,d:a").unwrap()).unwrap();
    let out = apply(&swap, three());
    assert_eq!((names(&out), texts(&out, "a")), (["d", "b,c", "a"].map(String::from).to_vec(), some(&["3"])));
}

#[test]
fn wrong_projections_say_why() {
    let config = |columns: Option<&str>, renames: &str| {
        let made = Project::parse_renames(renames).and_then(|r| Project::new(columns.map(Project::parse_columns), r));
        made.map(|p| failure(&p, three())).unwrap_or_else(|e| told(&e))
    };
    for (columns, renames, message) in [
        (Some(""), "", "Config: no columns are picked | name at least one column, or leave --columns out"),
        (Some("a,a"), "", "Config: column \"a\" is picked twice | -"),
        (Some("a"), "d:x", "Config: column \"d\" is renamed but not picked | add it to --columns, by its old name"),
        (None, "a:x,a:y", "Config: column \"a\" is renamed twice | -"),
        (None, "a", "Config: rename \"a\" is not OLD:NEW | -"),
        (Some("e"), "", "Schema: there is no column \"e\" | did you mean \"a\"?"),
        (None, "a:d", "Schema: column \"d\": there would be several columns called \"d\" | choose another name in --rename"),
    ] {
        assert_eq!(config(columns, renames), message);
    }
}

#[test]
fn suffixes_become_transforms() {
    let read = |path: &str| match path {
        "s.json" => Ok(r#"{"properties":{"a":{"type":"integer"}}}"#.to_string()),
        "bad.json" => Ok("[".to_string()),
        _ => Err(Error::new(ErrorKind::NotFound, "no such file or directory").object(path)),
    };
    let suffix = |name: &str, query: &[(&str, &str)]| {
        let query: Vec<_> = query.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        parse_suffix(name, &query, &read)
    };
    let wrong = |name: &str, query: &[(&str, &str)]| told(&suffix(name, query).err().expect("it should have failed"));
    assert_eq!(suffix("transform", &[("schema_file", "s.json")]).unwrap().describe(), "json schema a:integer");
    let chain = suffix("transform", &[("columns", "d,a"), ("cast", "d:int"), ("rename", "a:z"), ("schema_file", "s.json")]).unwrap();
    assert_eq!(chain.describe(), "json schema a:integer; cast d:integer; columns d,a, rename a:z");
    let out = apply(chain.as_ref(), three());
    assert_eq!(names(&out), ["d", "z"]);
    assert_eq!(out.batch.schema().field(1).data_type(), &DataType::Int64);
    assert_eq!(
        wrong("transfrom", &[]),
        "Config: unknown step \"|transfrom\" | steps are |transform, |filter, |project, |rename, |cast, |rate, |retry, |dead_letter, |batch, |timeout"
    );
    assert_eq!(
        wrong("transform", &[("schema_fil", "x")]),
        "Config: unknown setting \"schema_fil\" for |transform | did you mean \"schema_file\"?"
    );
    assert_eq!(wrong("transform", &[]), "Config: \"|transform\" says nothing to do | its settings are schema_file, cast, columns, rename");
    assert_eq!(wrong("transform", &[("schema_file", "none.json")]), "NotFound: none.json: no such file or directory | -");
    assert_eq!(
        wrong("transform", &[("schema_file", "bad.json")]),
        "Config: bad.json: the JSON Schema is not JSON: EOF while parsing a list at line 1 column 1 | it is one JSON object with \"properties\""
    );
}

#[test]
fn each_step_is_one_thing() {
    let read = |_: &str| Ok(String::new());
    let suffix = |name: &str, key: &str, value: &str| parse_suffix(name, &[(key.to_string(), value.to_string())], &read);
    for (name, key, value, told) in [
        ("project", "columns", "d,a", "columns d,a"),
        ("rename", "columns", "a:z", "rename a:z"),
        ("cast", "columns", "d:int", "cast d:integer"),
        ("filter", "where", "a = 'x'", "filter a = 'x'"),
        ("rate", "rows", "100", "at most 100 rows/s"),
        ("limiter", "rows", "100", "at most 100 rows/s"),
    ] {
        assert_eq!(suffix(name, key, value).unwrap().describe(), told);
    }
    let spelled = |name: &str, query: &[(&str, &str)]| {
        let query: Vec<_> = query.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        engine_settings(name, &query).unwrap().map(|all| all.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(spelled("filter", &[("where", "a = 1")]), None);
    assert_eq!(spelled("retry", &[("wait", "2s"), ("times", "5")]).unwrap(), "retries=5 retry_wait=2s");
    assert_eq!(spelled("dlq", &[("path", "r.jsonl")]).unwrap(), "rejects=r.jsonl on_error=reject");
    assert_eq!(spelled("batch", &[("rows", "7")]).unwrap(), "batch_size=7");
    assert_eq!(spelled("timeout", &[("idle", "30s")]).unwrap(), "idle_timeout=30s");
}
