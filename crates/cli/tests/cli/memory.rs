//! Memory is bounded whatever the size of the input.

use crate::postgres::Site;
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

#[test]
fn op_05_one_huge_value_of_a_table() {
    let megabytes = if full() { 500 } else { 80 };
    // Compressed in its own table, and yet sent whole.
    let site = Site::new(&format!(
        "create table t (id int, b text); create table u (like t); insert into t values (1, 'x'), (2, repeat('y', {megabytes}000000)), (3, 'z')"
    ));
    // Address space limited by the shell: a row that is refused is not held.
    let limited = |to: &str, flags: &str| {
        let line = format!("ulimit -v 400000; exec '{}' copy '{}' '{to}' --degree 1 {flags}", env!("CARGO_BIN_EXE_haul"), site.table("t"));
        let output = std::process::Command::new("bash").args(["-c", &line]).current_dir(site.dir.path(".")).output().unwrap();
        site.dir.ran(output)
    };
    let file = site.dir.path("t.jsonl").display().to_string();
    let table = site.table("u");
    for (to, flags) in [
        (table.as_str(), "--pushdown never"),
        (&table, "--copy-format text --mode replace"),
        (&table, "--mode delete-insert --key id"),
        (&file, ""),
    ] {
        let ran = limited(to, flags).failed();
        assert!(ran.err.contains("public.t, row 2") && ran.err.contains("67108864 bytes"), "{}", ran.err);
        assert!(ran.err.contains("raise --max-row-bytes"), "{}", ran.err);
        assert_eq!(site.sql("select count(*) from u"), "0", "{flags}");
        assert!(site.dir.names().is_empty(), "{:?}", site.dir.names());
    }
    // With leave, it arrives whole, on either way.
    let md5 = "select id, length(b), md5(b) from ";
    let leave = "--max-row-bytes 600MB --mode replace";
    for flags in ["", "--copy-format text"] {
        let ran = site.copy(":t", ":u", &format!("{leave} {flags} --json")).ok();
        let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let peak = result["peak_rss_bytes"].as_u64().unwrap() / 1_000_000;
        assert!(peak < 4 * megabytes + 64, "{flags}: {peak} MB for a value of {megabytes} MB");
        assert_eq!(site.sql(&format!("{md5} u order by 1")), site.sql(&format!("{md5} t order by 1")), "{flags}");
    }
    site.copy(":t", "t.jsonl", "--max-row-bytes 600MB").ok();
    assert_eq!(
        site.dir.read("t.jsonl").len(),
        megabytes as usize * 1_000_000 + "{'id':1,'b':'x'}\n{'id':2,'b':''}\n{'id':3,'b':'z'}\n".len()
    );
    let ran = site.copy("t.jsonl", ":u", "--mode truncate").failed();
    assert!(ran.err.contains("line 2") && ran.err.contains("--max-row-bytes"), "{}", ran.err);
    site.copy("t.jsonl", ":u", "--mode truncate --max-row-bytes 600MB").ok();
    assert_eq!(site.sql(&format!("{md5} u order by 1")), site.sql(&format!("{md5} t order by 1")));
}
