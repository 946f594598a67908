//! Steps on the way: as flags, behind an endpoint, and in a job's file.

use crate::postgres::Site;
use crate::runner::Folder;
use std::time::{Duration, Instant};

const ROWS: &str = "id,status,amount\n1,open,10\n2,draft,20\n3,,30\n4,open,x\n5,closed,50\n";

#[test]
fn a_filter_leaves_rows_out_and_counts_them() {
    let dir = Folder::new();
    dir.write("a.csv", ROWS);
    for (line, kept, filtered) in [
        ("copy a.csv b.csv --filter status='open'", "id,status,amount\n1,open,10\n4,open,x\n", 3),
        ("copy a.csv|filter?where=status<>'open' b.csv", "id,status,amount\n2,draft,20\n5,closed,50\n", 3),
        ("copy a.csv b.csv|filter?where=status%20is%20null", "id,status,amount\n3,,30\n", 4),
        ("copy a.csv b.csv --cast id:int --filter id>=4", "id,status,amount\n4,open,x\n5,closed,50\n", 3),
        ("copy a.csv|filter?where=status='open'|rename?columns=id:n|project?columns=n b.csv", "n\n1\n4\n", 3),
    ] {
        let ran = dir.line(line).ok();
        assert_eq!(dir.text("b.csv"), kept, "{line}");
        assert!(ran.err.contains(&format!("read 5  written {}  rejected 0  filtered {filtered}", 5 - filtered)), "{line}: {}", ran.err);
    }
    let error = dir.line("copy a.csv b.csv --filter nope=1").failed().err;
    assert!(error.contains("filter, column \"nope\": no such column"), "{error}");
    let error = dir.line("copy a.csv b.csv --filter id=").failed_config().err;
    assert!(error.contains("filter"), "{error}");
    // What is left out is not looked at any more: its place is still right in what comes after.
    let error = dir.line("copy a.csv|filter?where=id<>'2'|cast?columns=amount:int b.csv").failed().err;
    assert!(error.contains("a.csv, line 5, row 4, column \"amount\""), "{error}");
}

#[test]
fn spellings_of_settings_are_no_second_mechanism() {
    let dir = Folder::new();
    dir.write("a.csv", ROWS);
    let ran = dir.line("copy a.csv|cast?columns=amount:int b.csv|dlq?path=bad.jsonl|batch?rows=2").ok();
    assert_eq!(ran.account(), (5, 4, 1));
    assert!(dir.text("bad.jsonl").contains("\"line\":5"), "{}", dir.text("bad.jsonl"));
    let ran = dir.line("copy a.csv|cast?columns=amount:int b.csv|dead_letter?path=bad.jsonl&most=0").failed();
    assert!(ran.err.contains("max_rejects") || ran.err.contains("max-rejects"), "{}", ran.err);
    let site = Site::new("create table src as select 1 as id");
    let ran = site.copy(&format!("{}|timeout?statement=1s&connect=5s|retry?times=0", site.table("src")), "out.csv", "").ok();
    assert_eq!(ran.account(), (1, 1, 0));
    let ran =
        site.copy(&format!("{}?query=select pg_sleep(20)|timeout?statement=200ms|retry?times=0", site.db.url()), "out.csv", "").failed();
    assert!(ran.err.contains("statement timeout"), "{}", ran.err);
    let error = dir.line("copy a.csv|timeout?idle=3s b.csv").failed_config().err;
    assert!(error.contains("idle_timeout"), "{error}");
    let error = dir.line("copy a.csv|fliter?where=a b.csv").failed_config().err;
    assert!(error.contains("unknown step \"|fliter\"") && error.contains("|filter"), "{error}");
}

#[test]
fn a_rate_holds_and_a_job_file_has_the_same_steps() {
    let dir = Folder::new();
    dir.write("a.csv", ROWS);
    let begun = Instant::now();
    dir.line("copy a.csv|rate?rows=5/s b.csv --batch-size 1").ok();
    // The first row waits for nobody; the last for four before it.
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
    dir.write(
        "job.yaml",
        "streams:\n  - from: a.csv\n    to: c.csv\n    transforms: [{filter: \"status <> 'draft'\"}, {cast: {amount: int}}, {dlq: bad.jsonl}, {project: [amount, id]}, {rate: 100000}]\n",
    );
    dir.line("run job.yaml").ok();
    assert_eq!(dir.text("c.csv"), "amount,id\n10,1\n50,5\n");
}
