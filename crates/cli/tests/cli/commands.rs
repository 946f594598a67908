//! The commands themselves, as the documentation writes them.

use crate::runner::Folder;
use insta::assert_snapshot;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn the_command_of_other_tools_runs_as_typed() {
    let dir = Folder::new();
    dir.line("generate bench bench.csv --rows 1000 --newline crlf").ok();
    dir.write(
        "bench.json",
        r#"{"type":"object","properties":{"id":{"type":"integer"},"attributes":{"type":"string","contentMediaType":"application/json"}}}"#,
    );
    let from = format!("file://{}?format=csv", dir.path("bench.csv").display());
    let to = format!("file://{}?format=raw|transform?schema_file=bench.json", dir.path("out.jsonl").display());
    let ran = dir.haul(&["copy", "--from", &from, "--to", &to, "--drain", "--batch-size", "1024", "--concurrency", "1"]).ok();
    assert_eq!(ran.account(), (1000, 1000, 0));
    let same = dir.python(
        "import csv,json
a=list(csv.DictReader(open('bench.csv',newline='')))
for r in a: r['id']=int(r['id']); r['attributes']=json.loads(r['attributes'])
print(a==[json.loads(l) for l in open('out.jsonl')])",
    );
    assert_eq!(same, "True\n");
    // The same by position and flag.
    dir.line("copy bench.csv two.jsonl --json-schema bench.json --columns=auto").ok();
    assert_eq!(dir.read("two.jsonl"), dir.read("out.jsonl"));
}

#[test]
fn nested_values_in_csv() {
    let dir = Folder::new();
    dir.write("a.jsonl", "{\"id\":1,\"o\":{\"k\":[1,\"x\"]}}\n");
    dir.haul(&["copy", "a.jsonl", r#"o.csv?csv={"nested":"json"}"#]).ok();
    assert_eq!(dir.text("o.csv"), "id,o\n1,\"{\"\"k\"\":[1,\"\"x\"\"]}\"\n");
    let ran = dir.haul(&["copy", "a.jsonl", "p.csv?csv=yes"]);
    assert!(ran.code == 2 && ran.err.contains("nested"), "{ran:?}");
    assert!(!dir.path("p.csv").exists());
}

#[test]
fn nested_values_spread_over_columns() {
    let dir = Folder::new();
    let rows = [
        r#"{"id":1,"o":{"k":[1,"x"],"in":{"a":"q\"\u00e9","b":null}},"plain":"p"}"#,
        r#"{"id":2,"o":null}"#,
        r#"{"id":3,"o":{"in":{"a":""},"n":1.50}}"#,
        r#"{"id":4,"o":"text"}"#,
        r#"{"id":5,"o":{}}"#,
    ];
    dir.write("a.jsonl", rows.join("\n"));
    dir.haul(&["copy", "a.jsonl", r#"o.csv?csv={"nested": "flatten"}"#]).ok();
    let expected =
        ["id,o,o.k,o.in.a,o.in.b,o.n,plain", r#"1,,"[1,""x""]","q""é",,,p"#, "2,,,,,,", r#"3,,,"",,1.50,"#, "4,text,,,,,", "5,,,,,,", ""];
    assert_eq!(dir.text("o.csv"), expected.join("\n"));
    let plan = dir.haul(&["plan", "a.jsonl", r#"o.csv?csv={"nested":"flatten"}"#]).ok();
    assert!(plan.out.contains("flatten o"), "{plan:?}");
    // A file that has this name already for one of its columns.
    dir.write("b.jsonl", "{\"o\":{\"k\":1},\"o.k\":2}\n");
    let ran = dir.haul(&["copy", "b.jsonl", r#"p.csv?csv={"nested":"flatten"}"#]);
    assert!(ran.code == 1 && ran.err.contains("several columns called \"o.k\""), "{ran:?}");
    dir.write("c.jsonl", "{\"o\":{\"k\":1,\"k\":2}}\n");
    let ran = dir.haul(&["copy", "c.jsonl", r#"p.csv?csv={"nested":"flatten"}"#]);
    assert!(ran.code == 1 && ran.err.contains("the key \"k\" twice"), "{ran:?}");
    assert!(!dir.path("p.csv").exists());
}

#[test]
fn a_key_that_the_sample_did_not_have_stops_at_its_row() {
    let dir = Folder::new();
    let mut text: String = (0..30_000).map(|i| format!("{{\"id\":{i},\"o\":{{\"a\":{i}}}}}\n")).collect();
    text.push_str("{\"id\":30000,\"o\":{\"a\":1,\"late\":2}}\n");
    dir.write("a.jsonl", &text);
    let ran = dir.haul(&["copy", "a.jsonl", r#"o.csv?csv={"nested":"flatten"}"#]);
    assert!(ran.code == 1 && ran.err.contains("\"o.late\" has no column"), "{ran:?}");
    assert!(ran.err.contains("30001") && ran.err.contains("nested"), "{ran:?}");
    assert!(!dir.path("o.csv").exists());
    dir.haul(&["copy", "a.jsonl", r#"o.csv?csv={"nested":"flatten"}"#, "--on-error", "reject", "--rejects", "bad.jsonl"]).ok();
    assert_eq!(dir.text("o.csv").lines().count(), 30_001);
    assert!(dir.text("bad.jsonl").contains("o.late"));
}

#[test]
fn a_dry_run_changes_nothing() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name\n1,Ann\n");
    let plan = dir.line("plan a.csv o.parquet --cast id:bigint").ok();
    let dry = dir.line("copy a.csv o.parquet --cast id:bigint --dry-run").ok();
    assert_eq!(plan, dry);
    let result = json(&dir.line("plan a.csv o.parquet --json").ok().out);
    assert_eq!(result["columns"][0]["source"], "id");
    assert_eq!(dir.names(), ["a.csv"]);
    let ran = dir.line("plan a.csv no/o.parquet");
    assert!(ran.code == 1 && ran.err.contains("folder does not exist"), "{ran:?}");
}

#[test]
fn results_as_json() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name\n1,Ann\n2\n");
    let ran = dir.line("copy a.csv o.jsonl --json --on-error reject").ok();
    let result = json(&ran.out);
    assert_eq!(
        (&result["status"], &result["rows_read"], &result["rows_written"], &result["rows_rejected"]),
        (&"ok".into(), &2.into(), &1.into(), &1.into())
    );
    assert_eq!(result["bytes_written"], dir.read("o.jsonl").len());
    let workers = result["time"]["workers"].as_object().unwrap();
    let shares: f64 = workers.values().map(|share| share.as_f64().unwrap()).sum();
    assert!(workers.len() == 4 && (shares - 1.0).abs() < 0.01, "{workers:?}");
    let ran = dir.line("copy a.csv o.jsonl --json").failed();
    let result = json(&ran.out);
    assert_eq!(result["status"], "failed");
    assert_eq!((&result["error"]["line"], &result["error"]["object"]), (&3.into(), &"a.csv".into()));
    assert!(ran.err.starts_with("error: "));
    let ran = dir.line("copy nope.csv o.jsonl --json").failed();
    assert_eq!(json(&ran.out)["error"]["kind"], "notfound");
    let ran = dir.line("copy a.csv?x=1 o.jsonl --json");
    assert_eq!((ran.code, &json(&ran.out)["error"]["kind"]), (2, &"config".into()));
    let ran = dir.haul(&["copy", "a.csv", "-", "--format", "jsonl", "--json"]);
    assert!(ran.code == 2 && ran.out.is_empty(), "rows and result would mix: {ran:?}");
}

#[test]
fn schema_preview_and_check() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name,note\n1,Ann,\n2,日本,\"two\nlines\"\n3,Bob,a value that is much too long for one cell of a table\n");
    assert_snapshot!("schema", dir.line("schema a.csv").whole());
    assert_snapshot!("preview", dir.line("preview a.csv -n 3").whole());
    assert_snapshot!("check", dir.line("check a.csv").whole());
    assert_snapshot!("check_missing", dir.line("check nope/a.csv").whole());
    assert_eq!(dir.line("preview a.csv -n 2 --json").ok().out.lines().map(json).count(), 2);
    assert_eq!(json(&dir.line("schema a.csv --json").ok().out)["columns"].as_array().unwrap().len(), 3);
    assert_eq!(json(&dir.line("check a.csv --json").ok().out)["checks"][0]["ok"], true);
    assert_eq!(dir.line("preview a.csv -n 0").ok().out.lines().count(), 2);
    assert_eq!(dir.piped(&["preview", "-?format=csv"], b"a\n1\n").ok().out, "a\n-\n1\n");
    dir.write("bad.csv", "a,b\n1,2\n3\n");
    let ran = dir.line("preview bad.csv").failed();
    assert!(ran.err.contains("line 3"), "{ran:?}");
}

#[test]
fn reference_and_completions() {
    let dir = Folder::new();
    assert_snapshot!("connectors", dir.line("connectors").whole());
    let file = dir.line("connectors file").ok().out;
    for word in ["## Format csv", "## Format parquet", "`max_row_bytes`", "## Examples"] {
        assert!(file.contains(word), "{word}");
    }
    assert!(dir.line("connectors --markdown").ok().out.contains("# postgres"));
    assert_snapshot!("connectors_unknown", dir.line("connectors fil").whole());
    for shell in ["bash", "zsh", "fish"] {
        assert!(dir.haul(&["completions", shell]).ok().out.contains("max-row-bytes"), "{shell}");
    }
    dir.write("completions.sh", dir.line("completions bash").ok().out);
    assert!(std::process::Command::new("bash").arg("-n").arg(dir.path("completions.sh")).status().unwrap().success());
}

#[test]
fn the_demo_proves_itself() {
    let dir = Folder::new();
    let ran = dir.line("demo --rows 2000").ok();
    assert!(ran.out.contains("proof: 2,000 rows each way"), "{ran:?}");
    assert_eq!(ran.err, "");
}

#[test]
fn generated_data_is_the_same_everywhere() {
    use sha2::Digest;
    let dir = Folder::new();
    let once = |name: &str, seed: &str| {
        dir.haul(&["generate", "bench", name, "--rows", "1000", "--seed", seed, "--newline", "crlf"]).ok();
        sha2::Sha256::digest(dir.read(name))
    };
    assert_eq!(once("a.csv", "42"), once("b.csv", "42"));
    assert_ne!(once("a.csv", "42"), once("b.csv", "43"));
    let ran = dir.line("generate padded p.jsonl --rows 100 --bytes 256").ok();
    assert_eq!(ran.account().1, 100);
    assert!(dir.text("p.jsonl").lines().all(|l| l.len() == 256), "rows of 256 bytes");
    let ran = dir.line("generate bench a.csv --rows many");
    assert_eq!(ran.code, 2);
}

#[test]
fn usage_errors() {
    let dir = Folder::new();
    dir.write("a.csv", "id\n1\n");
    let all = [
        "copy",
        "copy a.csv",
        "copi a.csv o.jsonl",
        "copy a.csv o.xyz",
        "copy a.csv ftp://bucket/o.csv",
        "copy a.csv o.jsonl --cast id:bigin",
        "copy a.csv o.jsonl --cast nope:bigint",
        "copy a.csv o.jsonl --columns nope",
        "copy a.csv o.jsonl --batch-size 0",
        "copy a.csv o.jsonl --delimiter ab",
        "copy a.csv o.jsonl --json-schema nope.json",
        "copy a.csv o.jsonl --sslmode disable",
        "copy a.csv o.jsonl?mode=overwrite",
        "copy a.csv o.jsonl --budget much",
        "copy file:///%zz o.jsonl",
    ];
    let told: Vec<String> = all
        .iter()
        .map(|line| {
            let ran = dir.line(line);
            assert!(ran.code == 2 || ran.code == 1, "{ran:?}");
            format!("$ haul {line}\nexit {}\n{}{}", ran.code, ran.out, ran.err)
        })
        .collect();
    assert_snapshot!("usage_errors", told.join("\n"));
    assert_eq!(dir.names(), ["a.csv"]);
}

#[test]
fn every_example_of_the_reference_parses() {
    let dir = Folder::new();
    for connector in haul_connectors::CONNECTORS {
        for example in connector.spec().examples {
            // As a shell would split it, without the commands that it pipes from or to.
            let words = shell_words(example.command);
            let from = words.iter().position(|w| w == "haul").unwrap_or_else(|| panic!("{}", example.command));
            let words: Vec<&str> = words[from + 1..].iter().map(String::as_str).take_while(|w| *w != "|").collect();
            let ran = dir.haul(&[&words[..], &["--help"]].concat());
            assert_eq!(ran.code, 0, "{}: {ran:?}", example.command);
            // What stands in the query of a URI is a setting that its connector has.
            for uri in words.iter().filter(|w| w.contains("://")) {
                let endpoint = haul_model::Endpoint::parse(uri).unwrap();
                let connector = haul_connectors::by_scheme(&endpoint.scheme).unwrap();
                let mut specs = connector.source_settings(&endpoint).unwrap_or_default();
                specs.extend(connector.sink_settings(&endpoint).unwrap_or_default());
                for (key, _) in &endpoint.query {
                    assert!(specs.iter().flat_map(|s| s.iter()).any(|s| s.answers_to(key)), "{key} in {}", example.command);
                }
            }
        }
    }
}

/// Splits at spaces outside single and double quotes.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ' ' => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|w| !w.is_empty());
    words
}
