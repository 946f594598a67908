//! Object stores when something ends in the middle: the server, or Haul itself.

use crate::objects::{command, haul, visible};
use crate::runner::Folder;
use crate::sets_write::numbered;
use haul_testkit::s3::{OwnS3, S3};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Waits until something is so.
fn until(what: &str, so: &dyn Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn fs_01_the_server_ends_in_the_middle_of_an_upload() {
    let dir = Folder::new();
    let mut server = OwnS3::start(dir.path("s3"));
    let s3 = server.s3.clone();
    s3.put("broken/a.csv", b"id\nold\n");
    let arguments = ["copy", "-", "s3://haul/broken/a.csv", "--format", "csv", "--part-size", "5MiB"];
    let mut run = command(&dir, &s3, &arguments);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let megabyte = "0123456789abcde\n".repeat(1 << 16);
    input.write_all(b"id\n").unwrap();
    (0..12).for_each(|_| input.write_all(megabyte.as_bytes()).unwrap());
    until("an upload is begun", &|| !s3.uploads("broken/").is_empty());
    server.kill();
    let feeding = std::thread::spawn(move || while input.write_all(megabyte.as_bytes()).is_ok() {});
    let ran = dir.ran(child.wait_with_output().unwrap()).failed();
    feeding.join().unwrap();
    assert!(ran.err.contains("s3://haul/broken/a.csv: cannot upload"), "{}", ran.err);
    assert!(ran.err.contains("hint: is the server there?"), "{}", ran.err);
    assert!(ran.err.contains("an unfinished upload of s3://haul/broken/a.csv"), "{}", ran.err);
    assert!(!ran.err.contains(&s3.secret), "{}", ran.err);

    server.begin();
    until("old objects are served again", &|| s3.ask("GET", "/haul/broken/a.csv", b"").0 == 200);
    assert_eq!(s3.get("broken/a.csv"), b"id\nold\n", "nothing of the new one is to be seen");
    numbered(&dir, "a.csv", 10);
    haul(&dir, &s3, &["copy", "a.csv", "s3://haul/broken/a.csv"]).ok();
    assert_eq!(s3.get("broken/a.csv"), dir.read("a.csv"));
    haul(&dir, &s3, &["state", "clean"]).ok();
    assert!(s3.uploads("broken/").is_empty(), "{:?}", s3.uploads("broken/"));
    assert_eq!(s3.keys("broken/"), ["broken/a.csv"]);
}

#[test]
fn a_failed_job_takes_its_uploads_back() {
    let (dir, s3) = (Folder::new(), S3::shared());
    let mut text = "id\n".to_string();
    (0..800_000).for_each(|i| text.push_str(&format!("{i}\n")));
    dir.write("a.csv", text + "not a number\n");
    for target in ["s3://haul/taken/a.csv", "s3://haul/taken/set/{part}.csv"] {
        let flags = ["--cast", "id:bigint", "--part-size", "5MiB"];
        let ran = haul(&dir, &s3, &[&["copy", "a.csv", target], &flags[..]].concat()).failed();
        assert!(ran.err.contains("not a number"), "{}", ran.err);
        assert!(s3.keys("taken/").is_empty(), "{:?}", s3.keys("taken/"));
        assert!(s3.uploads("taken/").is_empty());
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_set_or_the_new_one() {
    let (dir, s3) = (Folder::new(), S3::shared());
    numbered(&dir, "a.csv", 4_000);
    numbered(&dir, "b.csv", 6_000);
    let places = haul_model::failpoint::NAMES.iter().filter(|name| name.starts_with("set-"));
    for place in places {
        let prefix = format!("killed/{place}/");
        let target = format!("s3://haul/{prefix}{{part}}.csv");
        let run = |from: &str, failpoint: Option<&str>| {
            let mut command = command(&dir, &s3, &["copy", from, &target, "--file-rows", "1000", "--degree", "1"]);
            if let Some(place) = failpoint {
                command.env("HAUL_FAILPOINT", place);
            }
            dir.ran(command.output().unwrap())
        };
        run("a.csv", None).ok();
        assert_eq!(run("b.csv", Some(place)).code, -1, "{place}");
        haul(&dir, &s3, &["state", "clean"]).ok();
        let folder = format!("s3://haul/{prefix}");
        let read = haul(&dir, &s3, &["copy", &folder, "x.jsonl", "--format", "csv"]).ok().account().1;
        let before = ["set-before-commit", "set-before-manifest"].contains(place);
        assert_eq!(read, if before { 4_000 } else { 6_000 }, "{place}");
        assert_eq!(visible(&s3, &prefix).len(), if before { 4 } else { 6 }, "{place}");
        assert!(s3.uploads(&prefix).is_empty(), "{place}");
        assert_eq!(s3.keys(&prefix).len(), visible(&s3, &prefix).len() + 1, "{place}: {:?}", s3.keys(&prefix));
        // And without the cleaning: the next run does it.
        assert_eq!(run("a.csv", Some(place)).code, -1, "{place}");
        run("b.csv", None).ok();
        let read = haul(&dir, &s3, &["copy", &folder, "x.jsonl", "--format", "csv"]).ok().account().1;
        assert_eq!((read, visible(&s3, &prefix).len()), (6_000, 6), "{place}");
        haul(&dir, &s3, &["state", "clean"]).ok();
        assert!(s3.uploads(&prefix).is_empty(), "{place}");
        assert_eq!(s3.keys(&prefix).len(), 7, "{place}: {:?}", s3.keys(&prefix));
    }
}
