//! Pipes, FIFOs, devices and odd names.

use crate::runner::{Folder, Ran};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CSV: &[u8] = b"id,name\n1,Ann\n2,Bob";

fn rows() -> String {
    "{\"id\":\"1\",\"name\":\"Ann\"}\n{\"id\":\"2\",\"name\":\"Bob\"}\n".to_string()
}

#[test]
fn csv_to_jsonl_through_both_pipes() {
    let dir = Folder::new();
    let ran = dir.piped(&["copy", "-?format=csv", "-?format=jsonl"], CSV).ok();
    assert_eq!((ran.out, ran.err.lines().count()), (rows(), 1));
    let ran = dir.piped(&["copy", "-", "-", "--format", "csv"], CSV).ok();
    assert_eq!(ran.out.as_bytes(), CSV, "bytes pass untouched");
    let ran = dir.piped(&["copy", "--from", "-?format=csv", "--to", "-?format=jsonl"], CSV).ok();
    assert_eq!(ran.out, rows());
    let ran = dir.piped(&["copy", "-", "-"], CSV);
    assert!(ran.code == 2 && ran.err.contains("--format csv"), "{ran:?}");
    dir.python("import gzip; gzip.open('a','wb').write(b'id,name\\n1,Ann\\n2,Bob')");
    let zipped = dir.read("a");
    assert_eq!(dir.piped(&["copy", "-?format=csv", "-?format=jsonl"], &zipped).ok().out, rows());
}

#[test]
fn a_format_flag_helps_where_the_name_does_not_tell() {
    let dir = Folder::new();
    dir.write("a.csv", CSV);
    assert_eq!(dir.line("copy a.csv - --format jsonl").ok().out, rows());
    dir.piped(&["copy", "-", "o.csv", "--format", "jsonl"], rows().as_bytes()).ok();
    assert_eq!(dir.read("o.csv"), [CSV, b"\n"].concat());
    let ran = dir.line("copy a.csv o.jsonl --format tsv");
    assert!(ran.code == 2 && ran.err.contains("?format="), "{ran:?}");
    let ran = dir.line("copy a.csv o.jsonl --format cvs");
    assert_eq!(ran.code, 2, "{ran:?}");
    let ran = dir.line("copy a.csv - --format cvs");
    assert!(ran.code == 2 && ran.err.contains("\"csv\""), "{ran:?}");
}

#[test]
fn a_reader_that_has_seen_enough() {
    let dir = Folder::new();
    dir.line("generate bench a.csv --rows 100000").ok();
    let mut child = dir.start(&["copy", "a.csv", "-?format=jsonl"]);
    let mut first = [0; 100];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    let ran = dir.ran(child.wait_with_output().unwrap()).failed();
    assert_eq!(ran.err, "error: standard output: the reader of the pipe has gone\n");
    for command in [&["connectors", "file"][..], &["completions", "bash"], &["schema", "a.csv"], &["preview", "a.csv", "-n", "5000"]] {
        let mut child = dir.start(command);
        drop(child.stdout.take());
        let ran = dir.ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{command:?}");
    }
}

#[test]
fn empty_and_missing_input() {
    let dir = Folder::new();
    let ran = dir.line("copy /dev/null?format=csv o.jsonl").failed();
    assert!(ran.err.contains("/dev/null: the file is empty"), "{ran:?}");
    let ran = dir.piped(&["copy", "-?format=csv", "o.jsonl"], b"").failed();
    assert!(ran.err.contains("standard input is empty"), "{ran:?}");
    assert!(dir.names().is_empty());
    let ran = dir.piped(&["copy", "-?format=csv", "-?format=jsonl"], b"a,b\n").ok();
    assert_eq!((ran.account(), ran.out.as_str()), ((0, 0, 0), ""));
    let ran = dir.piped(&["copy", "-?format=parquet", "-?format=jsonl"], b"x");
    assert!(ran.code != 0 && ran.err.contains("pipe"), "{ran:?}");
    dir.write("a.csv", CSV);
    assert_eq!(dir.line("copy a.csv /dev/null?format=csv").ok().account(), (2, 2, 0));
    let ran = dir.line("copy a.csv /dev/full?format=csv").failed();
    assert!(ran.err.contains("/dev/full") && ran.err.contains("no space left"), "{ran:?}");
}

#[test]
fn fifos_in_and_out() {
    let dir = Folder::new();
    for name in ["in.csv", "out.jsonl"] {
        assert!(Command::new("mkfifo").arg(dir.path(name)).status().unwrap().success());
    }
    let child = dir.start(&["copy", "in.csv", "out.jsonl"]);
    let source = dir.path("in.csv");
    let writer = std::thread::spawn(move || {
        let mut file = std::fs::File::options().write(true).open(source).unwrap();
        for line in ["id,name\n", "1,A", "nn\n2,", "Bob"] {
            file.write_all(line.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(std::fs::read_to_string(dir.path("out.jsonl")).unwrap(), rows());
    writer.join().unwrap();
    assert_eq!(dir.ran(child.wait_with_output().unwrap()).ok().account(), (2, 2, 0));
    assert_eq!(dir.names(), ["in.csv", "out.jsonl"], "the pipes are still there");
    let ran = dir.line("copy in.csv o.parquet --infer");
    assert!(ran.code != 0 && ran.err.contains("--cast"), "a pipe gives no sample twice: {ran:?}");
}

#[test]
fn a_line_goes_through_before_the_pipe_ends() {
    let dir = Folder::new();
    let mut child = dir
        .command(&["copy", "-?format=csv", "-?format=jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"id,name\n1,Ann\n2,Bob\n").unwrap();
    drop(input);
    assert_eq!(dir.ran(child.wait_with_output().unwrap()).ok().out, rows());
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_a_silent_pipe() {
    let dir = Folder::new();
    dir.write("o.jsonl", "old\n");
    let mut child = dir
        .command(&["copy", "-?format=csv", "o.jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"id\n1\n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let ran = dir.ran(child.wait_with_output().unwrap());
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!((ran.code, ran.err.as_str()), (130, "error: stopped by the user\n"));
    assert_eq!((dir.names(), dir.text("o.jsonl")), (vec!["o.jsonl".to_string()], "old\n".to_string()));
    drop(input);
}

#[test]
fn the_same_file_at_both_ends() {
    let dir = Folder::new();
    let text: String = "a,b\n".to_string() + &(0..100_000).map(|i| format!("{i},x\n")).collect::<String>();
    dir.write("a.csv", &text);
    dir.line("copy a.csv a.csv").ok();
    assert_eq!(dir.text("a.csv"), text);
    dir.line("copy a.csv a.csv --columns b,a").ok();
    assert!(dir.text("a.csv").starts_with("b,a\nx,0\nx,1\n"));
    assert_eq!(dir.text("a.csv").lines().count(), 100_001);
    assert_eq!(dir.names(), ["a.csv"]);
}

#[test]
fn odd_names() {
    let dir = Folder::new();
    let percent = |path: &std::path::Path| path.display().to_string().replace('%', "%25").replace(' ', "%20").replace('?', "%3F");
    for name in ["sp ace.csv", "what?.csv", "50%41.csv", "a[1].csv", "ü-日本.csv", "a*b.csv", "a|b.csv", "q\"'.csv"] {
        dir.write(name, CSV);
        assert_eq!(dir.lines_of(name, &[]), rows().lines().collect::<Vec<_>>(), "{name}");
        let uri = format!("file://{}", percent(&dir.path(name)));
        assert_eq!(dir.lines_of(&uri, &[]).len(), 2, "{uri}");
        let out = format!("out {name}");
        dir.haul(&["copy", name, &out]).ok();
        assert_eq!(dir.read(&out), CSV, "{out}");
    }
    dir.write("-x.csv", CSV);
    assert_eq!(dir.lines_of("./-x.csv", &[]).len(), 2);
}

#[test]
fn folders_are_no_targets() {
    let dir = Folder::new();
    dir.write("a.csv", CSV);
    std::fs::create_dir(dir.path("sub")).unwrap();
    for to in [".", "sub", "sub/", "./sub", "newfolder/"] {
        let ran: Ran = dir.haul(&["copy", "a.csv", to]);
        assert!(ran.code == 2 && ran.err.contains("is a folder") && ran.err.contains("out.jsonl"), "{to}: {ran:?}");
    }
    assert_eq!(dir.names(), ["a.csv", "sub"]);
}
