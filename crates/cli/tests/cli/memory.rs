//! Memory is bounded whatever the size of the input.

use crate::runner::{Folder, full};

/// Runs a copy and gives its peak resident memory in MiB.
fn peak(dir: &Folder, arguments: &[&str]) -> u64 {
    let mut all = vec!["copy"];
    all.extend(arguments);
    all.push("--json");
    let ran = dir.haul(&all).ok();
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["rows_read"], result["rows_written"]);
    result["peak_rss_bytes"].as_u64().unwrap() >> 20
}

#[test]
fn op_05_a_large_csv_in_little_memory() {
    let dir = Folder::new();
    let rows: u64 = if full() { 1_700_000 } else { 430_000 };
    dir.haul(&["generate", "bench", "big.csv", "--rows", &rows.to_string()]).ok();
    dir.haul(&["generate", "bench", "small.csv", "--rows", &(rows / 4).to_string()]).ok();
    assert!(!full() || dir.read("big.csv").len() > 200_000_000);
    for target in ["o.jsonl", "o.jsonl.gz", "o.csv.zst"] {
        let (small, big) = (peak(&dir, &["small.csv", target]), peak(&dir, &["big.csv", target]));
        assert!(big < 64 && big <= small * 6 / 5 + 4, "{target}: {small} MiB for a quarter, {big} MiB for the whole");
    }
    for source in ["o.jsonl.gz", "o.csv.zst", "o.jsonl"] {
        let big = peak(&dir, &[source, "back.jsonl"]);
        assert!(big < 64, "from {source}: {big} MiB");
    }
    let big = peak(&dir, &["big.csv", "o.parquet", "--cast", "id:bigint,amount:double"]);
    assert!(big < 192, "Parquet: {big} MiB");
    let big = peak(&dir, &["o.parquet", "o.jsonl"]);
    assert!(big < 128, "from Parquet: {big} MiB");
}

#[test]
fn op_05_csv_25_one_huge_field() {
    let dir = Folder::new();
    let megabytes = if full() { 300 } else { 80 };
    dir.python(&format!(
        "f=open('a.csv','w');f.write('id,t\\n1,\"');[f.write('x'*1000000) for _ in range({megabytes})];f.write('\"\\n2,y\\n')"
    ));
    let limited = |limit: &str| {
        // Address space limited by the shell: more than that fails.
        let line = format!("ulimit -v 700000; exec '{}' copy a.csv o.jsonl --max-row-bytes {limit}", env!("CARGO_BIN_EXE_haul"));
        let output = std::process::Command::new("bash").args(["-c", &line]).current_dir(dir.path(".")).output().unwrap();
        dir.ran(output)
    };
    let ran = limited("64MiB").failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("67108864 bytes") && ran.err.contains("--max-row-bytes"), "{ran:?}");
    assert_eq!(dir.names(), ["a.csv"]);
    let ran = dir.haul(&["copy", "a.csv", "o.jsonl", "--max-row-bytes", "400MB"]).ok();
    assert_eq!(ran.account(), (2, 2, 0));
    assert_eq!(dir.read("o.jsonl").len(), megabytes * 1_000_000 + "{\"id\":\"1\",\"t\":\"\"}\n{\"id\":\"2\",\"t\":\"y\"}\n".len());
}
