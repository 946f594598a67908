use super::*;
use std::collections::HashMap;

fn env(pairs: &[(&str, &str)]) -> Environment {
    let vars: HashMap<String, String> = pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Environment { vars, ..Environment::default() }
}

#[test]
fn the_example_of_the_design_is_read() {
    let text = r#"
connections:
  prod: postgres://app@db1/prod
  lake: {uri: postgres://app@db2/lake, password: "${LAKE_PASSWORD}", sslmode: require}
defaults: {mode: replace, degree: 0}
max_parallel_tables: 3
streams:
  - from: prod:public.*
    exclude: [public.audit_*]
    to: lake:{schema}.{table}
  - from: prod:public.orders
    to: lake:sales.orders
    mode: upsert
    key: [order_id, "odd,name"]
    transforms: [{cast: {amount: "decimal(15,2)"}}, {rename: {"a:b": c}}]
    csv: {nested: json}
    cast: {x: 007}
"#;
    let file = JobFile::parse(text, "job.yaml", &env(&[("LAKE_PASSWORD", "pa$$ss")])).unwrap();
    assert_eq!(file.connections[1].1.redacted(), "postgres://app@db2/lake?password=***&sslmode=require");
    assert_eq!(file.connections[1].1.get("password"), Some("pa$$ss"));
    assert_eq!((file.max_parallel_tables, file.streams.len(), file.streams[0].line), (Some(3), 2, 8));
    let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
    assert_eq!(file.streams[0].defaults, [pair("mode", "replace"), pair("degree", "0")]);
    let second = &file.streams[1];
    assert_eq!(second.defaults, [pair("degree", "0")], "what a stream says itself is no default");
    assert_eq!(
        second.settings,
        [pair("mode", "upsert"), pair("key", "order_id,\"odd,name\""), pair("csv", "{\"nested\":\"json\"}"), pair("cast", "x:007")]
    );
    assert_eq!(second.transforms[1].query, [pair("columns", "\"a:b\":c")]);
}

#[test]
fn variables_have_defaults_and_can_be_written_plainly() {
    let text = "streams: [{from: '${A}/${B:-b}.csv', to: out.csv, where: \"x ~ '$${' and y = '$'\"}]";
    let file = JobFile::parse(text, "j", &env(&[("A", "data")])).unwrap();
    assert_eq!(file.streams[0].from, "data/b.csv");
    assert_eq!(file.streams[0].settings[0].1, "x ~ '${' and y = '$'");
    let error = JobFile::parse("streams: [{from: '${AA}', to: x}]", "j", &env(&[("A", "data")])).unwrap_err();
    assert_eq!(error.to_string(), "j, line 1: the environment variable AA is not set");
}
