//! Object stores against a real S3: what is written is read back, sets, push-down, and what is told when something is wrong.

use crate::runner::{Folder, Ran};
use crate::sets_write::numbered;
use haul_testkit::s3::S3;
use haul_testkit::services::required;
use std::process::Command;

/// The command, as somebody who may do everything at that server, and with nothing else of the kind in its environment.
pub fn command(dir: &Folder, s3: &S3, arguments: &[&str]) -> Command {
    let mut command = dir.command(arguments);
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.env("HOME", dir.path(".")).env("AWS_ENDPOINT_URL_S3", &s3.endpoint);
    command.env("AWS_ACCESS_KEY_ID", &s3.key).env("AWS_SECRET_ACCESS_KEY", &s3.secret);
    command
}

/// Runs it; the secret is in no output.
pub fn haul(dir: &Folder, s3: &S3, arguments: &[&str]) -> Ran {
    told(dir, s3, &mut command(dir, s3, arguments))
}

fn told(dir: &Folder, s3: &S3, command: &mut Command) -> Ran {
    let ran = dir.ran(command.output().unwrap());
    assert!(!ran.out.contains(&s3.secret) && !ran.err.contains(&s3.secret), "{ran:?}");
    ran
}

/// Keys below a prefix that tools would read.
pub fn visible(s3: &S3, prefix: &str) -> Vec<String> {
    let keys = s3.keys(prefix).into_iter().map(|key| key[prefix.len()..].to_string());
    keys.filter(|key| key.split('/').all(|part| !part.starts_with(['.', '_']))).collect()
}

/// Rows of what an argument names, as sorted lines.
fn rows(dir: &Folder, s3: &S3, from: &str, flags: &[&str]) -> Vec<String> {
    let ran = haul(dir, s3, &[&["copy", from, "rows.jsonl"], flags].concat()).ok();
    let mut lines: Vec<String> = dir.text("rows.jsonl").lines().map(str::to_string).collect();
    assert_eq!(ran.account().1, lines.len() as u64);
    lines.sort_unstable();
    lines
}

#[test]
fn every_format_comes_back_as_it_went() {
    let (dir, s3) = (Folder::new(), S3::shared());
    dir.line("generate bench a.csv --rows 100000").ok();
    let expected = rows(&dir, &s3, "a.csv", &[]);
    for extension in ["csv", "tsv", "jsonl", "csv.gz", "jsonl.zst", "parquet", "arrow"] {
        let uri = format!("s3://haul/every/{extension}/a.{extension}");
        let ran = haul(&dir, &s3, &["copy", "a.csv", &uri, "--part-size", "5MiB"]).ok();
        assert_eq!(ran.account(), (100_000, 100_000, 0), "{extension}");
        assert!(rows(&dir, &s3, &uri, &[]) == expected, "{extension}");
        assert_eq!(s3.keys(&format!("every/{extension}/")), [format!("every/{extension}/a.{extension}")], "no note is left");
    }
    dir.line("copy a.csv here.csv").ok();
    assert!(s3.get("every/csv/a.csv") == dir.read("here.csv"), "12 MiB in three parts are the bytes of a file");
    assert!(s3.uploads("every/").is_empty());
    // From one object to another, and a few rows of one.
    haul(&dir, &s3, &["copy", "s3://haul/every/parquet/a.parquet", "s3a://haul/every/again.jsonl"]).ok();
    assert!(rows(&dir, &s3, "s3://haul/every/again.jsonl", &[]) == expected);
    assert_eq!(rows(&dir, &s3, "s3://haul/every/csv.gz/a.csv.gz", &["--limit", "7"]).len(), 7);
}

#[test]
fn no_rows_and_no_bytes() {
    let (dir, s3) = (Folder::new(), S3::shared());
    dir.write("a.csv", "id,t\n");
    for extension in ["csv", "parquet"] {
        let uri = format!("s3://haul/nothing/a.{extension}");
        haul(&dir, &s3, &["copy", "a.csv", &uri]).ok();
        assert!(haul(&dir, &s3, &["schema", &uri]).ok().out.contains("id"), "{extension}");
    }
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/nothing/a.jsonl"]).ok();
    assert_eq!(s3.get("nothing/a.jsonl"), b"");
    assert!(rows(&dir, &s3, "s3://haul/nothing/a.jsonl", &[]).is_empty());
    assert!(s3.uploads("nothing/").is_empty());
}

#[test]
fn fs_02_a_set_is_cut_and_replaced_as_a_whole() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 8_000);
    let template = "s3://haul/set8/{table}_{part}.csv";
    let ran = haul(&dir, &s3, &["copy", "a.csv", template, "--file-rows", "1000", "--degree", "1"]).ok();
    assert_eq!(ran.account(), (8_000, 8_000, 0));
    let parts = |count: usize| (0..count).map(|part| format!("a_{part}.csv")).collect::<Vec<_>>();
    assert_eq!(visible(&s3, "set8/"), parts(8));
    let expected = rows(&dir, &s3, "a.csv", &[]);
    for from in ["s3://haul/set8/", "s3://haul/set8", "s3://haul/set8/*.csv", "s3://haul/set%3F/a_*.csv"] {
        let flags: &[&str] = if from.ends_with(".csv") { &[] } else { &["--format", "csv"] };
        assert!(rows(&dir, &s3, from, flags) == expected, "{from}");
    }
    s3.put("set8/README.txt", b"not ours\n");
    let plan = haul(&dir, &s3, &["plan", "a.csv", template, "--file-rows", "2000"]).ok();
    assert!(plan.out.contains("8 file(s) of the set before are replaced"), "{}", plan.out);
    haul(&dir, &s3, &["copy", "a.csv", template, "--file-rows", "2000", "--degree", "1"]).ok();
    assert_eq!(visible(&s3, "set8/"), [vec!["README.txt".to_string()], parts(4)].concat());
    assert!(rows(&dir, &s3, "s3://haul/set8/*.csv", &[]) == expected);
    let manifest: serde_json::Value = serde_json::from_slice(&s3.get("set8/_manifest.json")).unwrap();
    assert_eq!((&manifest["state"], &manifest["rows"], manifest["files"].as_array().unwrap().len()), (&"whole".into(), &8000.into(), 4));
    assert!(manifest["files"][0]["version"].is_string());
    assert_eq!(s3.keys("set8/").len(), 6, "four parts, the manifest, and what is not ours: no notes");
    assert!(s3.uploads("set8/").is_empty());
    // What a manifest names must be what it was.
    s3.put("set8/a_1.csv", b"id,t\n1,other\n");
    let ran = haul(&dir, &s3, &["copy", "s3://haul/set8/", "x.jsonl", "--format", "csv"]).failed();
    assert!(ran.err.contains("s3://haul/set8/a_1.csv") && ran.err.contains("than the manifest of its set says"), "{}", ran.err);
}

#[test]
fn a_set_by_lanes_and_partitions() {
    let (dir, s3) = (Folder::new(), S3::shared());
    dir.line("generate bench a.csv --rows 60000").ok();
    let expected = rows(&dir, &s3, "a.csv", &[]);
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/lanes/", "--format", "parquet", "--file-rows", "10000", "--degree", "3"]).ok();
    assert!(visible(&s3, "lanes/").len() >= 6);
    assert!(rows(&dir, &s3, "s3://haul/lanes/*.parquet", &["--degree", "3"]) == expected);
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/hive/", "--format", "jsonl", "--partition-by", "country"]).ok();
    let keys = visible(&s3, "hive/");
    assert!(keys.len() >= 2 && keys.iter().all(|key| key.starts_with("country=")), "{keys:?}");
    let columns = ["--hive", "--format", "jsonl", "--columns", "id,first_name,country,amount,created_at,active,attributes"];
    assert!(rows(&dir, &s3, "s3://haul/hive/", &columns) == expected);
}

#[test]
fn a_condition_and_columns_leave_out_what_need_not_be_read() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 40_000);
    let flags = ["--cast", "id:bigint", "--row-group-rows", "10000"];
    haul(&dir, &s3, &[&["copy", "a.csv", "s3://haul/push/a.parquet"], &flags[..]].concat()).ok();
    let flags = ["--where", "id >= 35000", "--columns", "id"];
    let plan = haul(&dir, &s3, &[&["plan", "s3://haul/push/*.parquet", "x.jsonl"], &flags[..]].concat()).ok();
    assert!(plan.out.contains("3 of 4 row groups are ruled out by their statistics"), "{}", plan.out);
    let found = rows(&dir, &s3, "s3://haul/push/*.parquet", &flags);
    assert_eq!((found.len(), found[0].as_str()), (5_000, "{\"id\":35000}"));
    let found = rows(&dir, &s3, "s3://haul/push/a.parquet", &["--columns", "id,_file", "--limit", "1"]);
    assert_eq!(found, ["{\"id\":0,\"_file\":\"s3://haul/push/a.parquet\"}"]);
}

#[test]
fn a_job_file_writes_below_a_connection() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 10);
    dir.write(
        "job.yaml",
        "connections: {lake: 's3://haul/run'}\nstreams:\n  - {from: a.csv, to: 'lake:out/b.csv'}\n  - {from: a.csv, to: 'lake:c.jsonl'}\n",
    );
    haul(&dir, &s3, &["run", "job.yaml"]).ok();
    assert_eq!(visible(&s3, "run/"), ["c.jsonl", "out/b.csv"]);
    assert_eq!(s3.get("run/out/b.csv"), dir.read("a.csv"));
}

#[test]
fn check_preview_and_modes() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 3);
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/look/{table}-{schema}.csv"]).failed_config();
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/look/{table}.csv"]).ok();
    assert_eq!(
        haul(&dir, &s3, &["check", "s3://haul/look/a.csv"]).ok().out,
        "ok  exists         1 object(s), 32 bytes\nok  read           2 columns\n"
    );
    let preview = haul(&dir, &s3, &["preview", "s3://haul/look/a.csv"]).ok();
    assert!(preview.out.contains("text 2"), "{}", preview.out);
    let ran = haul(&dir, &s3, &["copy", "a.csv", "s3://haul/look/a.csv", "--mode", "create"]).failed();
    assert!(ran.err.contains("s3://haul/look/a.csv: the object exists"), "{}", ran.err);
    let ran = haul(&dir, &s3, &["copy", "a.csv", "s3://haul/look/a.csv", "--mode", "append"]).failed();
    assert!(ran.err.contains("an object cannot be appended to"), "{}", ran.err);
    let ran = haul(&dir, &s3, &["copy", "a.csv", "s3://haul/look/a.csv", "--part-size", "1MiB"]).failed_config();
    assert!(ran.err.contains("\"part_size\" goes from 5MiB to 5GiB"), "{}", ran.err);
}

/// What is wrong, the variables that make it so, and the arguments.
type Case = (&'static str, Vec<(&'static str, &'static str)>, Vec<&'static str>);

/// What is told, whole, with the server's address taken out.
fn refused(dir: &Folder, s3: &S3, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = command(dir, s3, arguments);
    let ran = told(dir, s3, command.envs(variables.iter().copied()));
    assert_ne!(ran.code, 0, "{ran:?}");
    format!("exit {}\n{}", ran.code, ran.err).replace(&s3.endpoint, "http://SERVER")
}

#[test]
fn what_is_told_when_something_is_wrong() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 3);
    s3.put("wrong/orders.csv", b"id\n1\n");
    let read = |uri: &'static str| vec!["copy", uri, "x.jsonl"];
    let cases: Vec<Case> = vec![
        ("no such bucket", vec![], read("s3://no-such-bucket/orders.csv")),
        ("no such bucket, written", vec![], vec!["copy", "a.csv", "s3://no-such-bucket/a.csv"]),
        ("no such key", vec![], read("s3://haul/wrong/order.csv")),
        ("no match", vec![], read("s3://haul/wrong/*.parquet")),
        ("a wrong key", vec![("AWS_ACCESS_KEY_ID", "nobody")], read("s3://haul/wrong/orders.csv")),
        ("a wrong secret", vec![("AWS_SECRET_ACCESS_KEY", "guessed-secret")], read("s3://haul/wrong/orders.csv")),
        (
            "may only read",
            vec![("AWS_ACCESS_KEY_ID", "haulread"), ("AWS_SECRET_ACCESS_KEY", "readsecret")],
            vec!["copy", "a.csv", "s3://haul/wrong/a.csv"],
        ),
        ("no keys", vec![("AWS_ACCESS_KEY_ID", "")], read("s3://haul/wrong/orders.csv")),
        ("no such profile", vec![], vec!["copy", "s3://haul/wrong/orders.csv", "x.jsonl", "--profile", "work"]),
        ("nobody there", vec![("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")], read("s3://haul/wrong/orders.csv")),
        ("no endpoint", vec![], read("s3://haul/wrong/orders.csv?endpoint=localhost:9000")),
        ("keys in the URI", vec![], read("s3://KEY:hidden@haul/wrong/orders.csv")),
        ("a folder without a format", vec![], read("s3://haul/wrong/")),
        ("a store that is only read", vec![], vec!["copy", "a.csv", "http://127.0.0.1:9/a.csv"]),
    ];
    let mut text = String::new();
    for (what, variables, arguments) in cases {
        let ran = refused(&dir, &s3, &variables, &arguments);
        for secret in ["guessed-secret", "readsecret", "hidden"] {
            assert!(!ran.contains(secret), "{ran}");
        }
        text.push_str(&format!("# {what}\n{ran}\n"));
    }
    insta::assert_snapshot!(text);
    assert_eq!(s3.keys("wrong/"), ["wrong/orders.csv"]);
}

#[test]
fn keys_and_endpoint_of_a_profile() {
    let (dir, s3) = (Folder::new(), S3::shared());
    s3.put("profile/a.csv", b"id\n7\n");
    std::fs::create_dir(dir.path(".aws")).unwrap();
    dir.write(".aws/config", format!("[profile test]\nendpoint_url = {}\nregion = us-east-1\n", s3.endpoint));
    dir.write(".aws/credentials", format!("[test]\naws_access_key_id = {}\naws_secret_access_key = {}\n", s3.key, s3.secret));
    for by_variable in [true, false] {
        let flags: &[&str] = if by_variable { &[] } else { &["--profile", "test"] };
        let mut command = command(&dir, &s3, &[&["copy", "s3://haul/profile/a.csv", "x.jsonl"], flags].concat());
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            command.env_remove(name);
        }
        if by_variable {
            command.env("AWS_PROFILE", "test");
        }
        told(&dir, &s3, &mut command).ok();
        assert_eq!(dir.text("x.jsonl"), "{\"id\":\"7\"}\n");
    }
    // What is said wins over variables.
    let mut command = command(&dir, &s3, &["copy", &format!("s3://haul/profile/a.csv?endpoint={}", s3.endpoint), "y.jsonl"]);
    told(&dir, &s3, command.env("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")).ok();
}

#[test]
fn files_are_read_over_http() {
    let (dir, s3) = (Folder::new(), S3::shared());
    dir.line("generate bench a.csv --rows 30000").ok();
    let expected = rows(&dir, &s3, "a.csv", &[]);
    for extension in ["csv", "jsonl.zst", "parquet"] {
        haul(&dir, &s3, &["copy", "a.csv", &format!("s3://haul/http/a.{extension}")]).ok();
        let uri = format!("{}/buckets/haul/http/a.{extension}", required("HAUL_S3_HTTP"));
        assert!(rows(&dir, &s3, &uri, &[]) == expected, "{extension}");
    }
    let ran = haul(&dir, &s3, &["copy", &format!("{}/buckets/haul/http/b.csv", required("HAUL_S3_HTTP")), "x.jsonl"]).failed();
    assert!(ran.err.contains("/buckets/haul/http/b.csv: not found"), "{}", ran.err);
}

#[test]
fn what_is_in_the_bucket_is_proven() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 20_000);
    for to in ["proof/one file.parquet", "proof/{table}.csv.zst", "proof/set/{part}.parquet", "proof/lines/{table}_{part}.jsonl"] {
        let uri = format!("s3://haul/{to}");
        let flags: &[&str] = if to.contains("part}") { &["--file-rows", "7000"] } else { &[] };
        for how in ["count", "checksum"] {
            let ran = haul(&dir, &s3, &[&["copy", "a.csv", &uri, "--verify", how], flags].concat()).ok();
            assert!(ran.err.contains(&format!("verified by {how}")), "{to}: {}", ran.err);
        }
    }
}
