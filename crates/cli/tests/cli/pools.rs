//! `--extractors`, `--transformers`, `--loaders`: the same rows, whoever carries them.

use crate::postgres::Site;
use crate::runner::Folder;

const SRC: &str = "create table src (id int primary key, pad text, n numeric(12,2)); \
    insert into src select g, repeat('x', g % 300), g / 7.0 from generate_series(1, 60000) g; \
    create table dst (like src); vacuum analyze src";

#[test]
fn tables_come_through_pools_whole() {
    let site = Site::new(SRC);
    for flags in [
        "--extractors 3 --transformers 2 --loaders 3 --batches-per-split 2 --batch-size 5000",
        "--extractors 2 --degree 1",
        "--loaders 2 --transformers 1",
        "--extractors 1 --loaders 1 --extractor-queue 1 --loader-queue 1 --method ctid --degree 4",
        "--extractors 2 --transformers 3 --loaders 2 --rename pad:pad",
        "--extractors 2 --transformers 2 --loaders 2 --mode replace --split-key id --degree 3 --budget 16MiB",
        "--loaders 2 --verify checksum --mode truncate",
    ] {
        site.sql("truncate dst");
        let ran = site.copy(":src", ":dst", flags).ok();
        assert_eq!(ran.account(), (60_000, 60_000, 0), "{flags}");
        site.assert_same("src", "dst");
    }
}

#[test]
fn the_plan_says_what_there_will_be() {
    let site = Site::new(SRC);
    let plan = |flags: &str| site.plan(":src", ":dst", flags).ok().out;
    let told = plan("--extractors 3 --transformers 2 --loaders 4 --split-rows 5000 --method ctid");
    assert!(told.contains("2 worker(s); 3 extractors, 8 chunks ahead for each split; 4 loaders, 8 blocks before them\n"), "{told}");
    assert!(told.contains("a failed run starts again: blocks go to whichever loader is free"), "{told}");
    assert!(told.contains("12 ctid ranges over 3 connections"), "{told}");
    assert!(!plan("--degree 2").contains("extractors"));
    let told = plan("--loaders 2 --on-error reject --rejects r.jsonl");
    assert!(told.contains("loaders: none, each worker writes for itself: rows that the target refuses are handed back"), "{told}");
    site.sql("alter table dst add primary key (id)");
    let told = plan("--loaders 2 --mode upsert --key id");
    assert!(told.contains("loaders: none, each worker writes for itself: the rows of a split go to one writer"), "{told}");
    let error = site.plan(":src", ":dst", "--loaders 0").failed_config().err;
    assert!(error.contains("setting \"loaders\" goes from 1 to 1024, not 0"), "{error}");
    let error = site.plan(":src", ":dst", "--batches-per-split 4").failed_config().err;
    assert!(error.contains("batch_size does not say how large they are"), "{error}");
}

#[test]
fn files_keep_their_order_through_pools() {
    let dir = Folder::new();
    let text: String = std::iter::once("id,t\n".to_string()).chain((0..200_000).map(|i| format!("{i},row {i}\n"))).collect();
    dir.write("a.csv", text);
    dir.line("copy a.csv plain.jsonl").ok();
    for flags in
        ["--extractors 2", "--loaders 2", "--extractors 1 --transformers 3 --loaders 2", "--extractors 4 --loaders 4 --transformers 1"]
    {
        let ran = dir.line(&format!("copy a.csv b.jsonl {flags}")).ok();
        assert_eq!(ran.account(), (200_000, 200_000, 0), "{flags}");
        assert!(dir.read("plain.jsonl") == dir.read("b.jsonl"), "{flags}");
    }
    let ran = dir.line("copy a.csv b.csv.gz --loaders 2 --extractors 1").ok();
    assert_eq!(ran.account(), (200_000, 200_000, 0));
    dir.line("copy b.csv.gz back.jsonl").ok();
    assert!(dir.read("plain.jsonl") == dir.read("back.jsonl"));
}

#[test]
fn a_failure_in_any_pool_is_the_jobs_and_changes_nothing() {
    let site = Site::new(&format!("{SRC}; insert into dst values (-1, 'old', 0)"));
    // A loader's: the target refuses a row.
    site.sql("alter table dst add check (id <> 30000)");
    let ran = site.copy(":src", ":dst", "--mode append --extractors 2 --transformers 2 --loaders 2").failed();
    assert!(ran.err.contains("violates check constraint") && ran.err.contains("dst"), "{}", ran.err);
    assert_eq!(site.sql("select count(*), min(id) from dst"), "1|-1");
    // An extractor's: the source cannot compute a row.
    let ran = site
        .copy(
            &format!("{}?query=select id, pad, 1 / (id - 500) as n from src", site.db.url()),
            ":dst",
            "--mode append --extractors 2 --loaders 2",
        )
        .failed();
    assert!(ran.err.contains("division by zero"), "{}", ran.err);
    // A transformer's: a value that is no number.
    let ran = site.copy(":src", ":dst", "--mode append --extractors 2 --loaders 2 --cast pad:int").failed();
    assert!(ran.err.contains("column \"pad\""), "{}", ran.err);
    assert_eq!(site.sql("select count(*), min(id) from dst"), "1|-1");
}
