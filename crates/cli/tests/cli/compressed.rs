//! Compressed files: several members, damage, and what other programs read.

use crate::runner::Folder;
use std::process::{Command, Stdio};

/// Runs a filter over bytes.
fn filter(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let dir = Folder::new();
    let input = std::fs::File::open(dir.write("in", input)).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .stdin(input)
        .stderr(Stdio::piped())
        .output()
        .unwrap_or_else(|e| panic!("{program} is needed for this test: {e}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn csv_07_several_members_are_one_file() {
    let dir = Folder::new();
    for (program, extension) in [("gzip", "gz"), ("zstd", "zst"), ("lz4", "lz4")] {
        let parts = ["a,b\n1,x\n2,", "", "y\n3,z\n"];
        let bytes: Vec<u8> = parts.iter().flat_map(|p| filter(program, &["-c"], p.as_bytes())).collect();
        let name = format!("m.csv.{extension}");
        dir.write(&name, bytes);
        assert_eq!(dir.lines_of(&name, &[]), [r#"{"a":"1","b":"x"}"#, r#"{"a":"2","b":"y"}"#, r#"{"a":"3","b":"z"}"#], "{program}");
    }
    dir.write("1.csv.gz", filter("gzip", &["-c"], b"a\n1\n"));
    dir.write("2.csv.gz", filter("gzip", &["-c"], b"a\n2\n"));
    assert_eq!(dir.lines_of("[12].csv.gz", &[]), [r#"{"a":"1"}"#, r#"{"a":"2"}"#]);
}

#[test]
fn csv_08_cut_padded_and_dirty_streams() {
    let dir = Folder::new();
    let text: String = "a,b\n".to_string() + &(0..50_000).map(|i| format!("{i},x\n")).collect::<String>();
    for (program, extension) in [("gzip", "gz"), ("zstd", "zst"), ("lz4", "lz4")] {
        let good = filter(program, &["-c"], text.as_bytes());
        let name = format!("cut.csv.{extension}");
        for cut in [good.len() - 20, good.len() - 1, good.len() / 2, 12] {
            dir.write(&name, &good[..cut]);
            let ran = dir.haul(&["copy", &name, "o.jsonl"]).failed();
            assert!(ran.err.contains(&name), "{ran:?}");
            assert!(!dir.path("o.jsonl").exists());
        }
    }
    let good = filter("gzip", &["-c"], text.as_bytes());
    dir.write("pad.csv.gz", [&good[..], &[0; 512]].concat());
    assert_eq!(dir.lines_of("pad.csv.gz", &[]).len(), 50_000);
    dir.write("dirty.csv.gz", [&good[..], b"garbage"].concat());
    dir.line("copy dirty.csv.gz o.jsonl").failed();
    dir.write("plain.csv.gz", &text);
    let ran = dir.line("copy plain.csv.gz o.jsonl").failed();
    assert!(ran.err.contains("plain.csv.gz") && ran.err.contains("gzip"), "{ran:?}");
}

#[test]
fn others_read_what_we_compress() {
    let dir = Folder::new();
    dir.line("generate bench plain.csv --rows 20000 --newline crlf").ok();
    let plain = dir.read("plain.csv");
    for (program, extension) in [("gzip", "gz"), ("zstd", "zst"), ("lz4", "lz4")] {
        let name = format!("o.csv.{extension}");
        let ran = dir.haul(&["copy", "plain.csv", &name, "--newline", "crlf"]).ok();
        assert_eq!(ran.account().1, 20_000);
        assert!(filter(program, &["-dc"], &dir.read(&name)) == plain, "{program}");
        assert!(dir.read(&name).len() < plain.len() / 2);
        dir.haul(&["copy", &name, "back.csv", "--newline", "crlf"]).ok();
        assert!(dir.read("back.csv") == plain, "{program}");
    }
    let same = dir.python("import gzip;print(gzip.open('o.csv.gz','rb').read()==open('plain.csv','rb').read())");
    assert_eq!(same, "True\n");
}

#[test]
fn the_compression_flag_is_the_output_s() {
    let dir = Folder::new();
    dir.write("a.csv", "a\n1\n");
    dir.line("copy a.csv o.jsonl --compression gzip").ok();
    assert_eq!(filter("gzip", &["-dc"], &dir.read("o.jsonl")), b"{\"a\":\"1\"}\n");
    // Seen from its first bytes.
    assert_eq!(dir.lines_of("o.jsonl", &[]), [r#"{"a":"1"}"#]);
    for codec in ["snappy", "zstd", "none"] {
        dir.haul(&["copy", "a.csv", "o.parquet", "--compression", codec]).ok();
        assert_eq!(dir.lines_of("o.parquet", &[]), [r#"{"a":"1"}"#], "{codec}");
    }
}
