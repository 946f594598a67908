//! Sets of files as a target: names, cuts, the manifest, and that nobody ever sees half of one.

use crate::runner::Folder;
use haul_testkit::services::run_python;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A CSV of `rows` numbered rows.
pub fn numbered(dir: &Folder, name: &str, rows: usize) {
    let text: String = std::iter::once("id,t\n".to_string()).chain((0..rows).map(|i| format!("{i},text {i}\n"))).collect();
    dir.write(name, text);
}

/// The files in a folder of the test, sorted, hidden ones left out.
pub fn listed(dir: &Folder, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![dir.path(folder)];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if !name.starts_with(['.', '_']) {
                found.push(path.strip_prefix(dir.path(folder)).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The numbers in a folder's rows, sorted.
fn ids(dir: &Folder, from: &str) -> Vec<u64> {
    let lines = dir.lines_of(from, &[]);
    let id = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().parse().unwrap();
    let mut ids: Vec<u64> = lines.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn fs_02_parts_are_exact_numbered_and_never_empty() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 30_000);
    for (template, header) in [
        ("o/{table}_{lane:04}_{part:04}.csv", true),
        ("o/{table}_{lane:04}_{part:04}.csv.gz", true),
        ("o/{table}_{lane:04}_{part:04}.jsonl.zst", false),
        ("o/{table}_{lane:04}_{part:04}.parquet", false),
        ("o/{table}_{lane:04}_{part:04}.arrow", false),
    ] {
        let ran = dir.on_one_core(&["copy", "a.csv", template, "--file-rows", "10000"]).ok();
        assert_eq!(ran.account(), (30_000, 30_000, 0));
        let extension = template.split_once('.').unwrap().1;
        let expected: Vec<String> = (0..3).map(|part| format!("a_0000_000{part}.{extension}")).collect();
        assert_eq!(listed(&dir, "o"), expected, "no fourth part without rows");
        for part in &expected {
            assert_eq!(dir.line(&format!("copy o/{part} x.jsonl")).ok().account().1, 10_000, "{part} can be read alone");
        }
        if header && extension == "csv" {
            assert!(expected.iter().all(|part| dir.text(&format!("o/{part}")).starts_with("id,t\n")));
        }
        assert_eq!(ids(&dir, "o"), (0..30_000).collect::<Vec<_>>(), "{template}");
        std::fs::remove_dir_all(dir.path("o")).unwrap();
    }
    // Several lanes, none of whose files is longer.
    dir.line("generate bench b.csv --rows 100000").ok();
    let ran = dir.haul(&["copy", "b.csv", "p/{lane}-{part}.parquet", "--file-rows", "7000"]).ok();
    assert_eq!(ran.account().1, 100_000);
    let mut all = 0;
    for part in listed(&dir, "p") {
        let rows = dir.line(&format!("copy p/{part} x.jsonl")).ok().account().1;
        assert!((1..=7000).contains(&rows), "{part}: {rows}");
        all += rows;
    }
    assert_eq!(all, 100_000);
}

#[test]
fn fs_02_no_rows_are_one_file_with_the_columns() {
    let dir = Folder::new();
    dir.write("a.csv", "id,t\n");
    for (format, name) in [("csv", "a_0000_0000.csv"), ("parquet", "a_0000_0000.parquet")] {
        dir.haul(&["copy", "a.csv", "o/", "--format", format]).ok();
        assert_eq!(listed(&dir, "o"), [name]);
        assert!(dir.line("schema o").ok().out.contains("id"));
        assert_eq!(dir.line("copy o x.jsonl").ok().account(), (0, 0, 0));
        std::fs::remove_dir_all(dir.path("o")).unwrap();
    }
}

#[test]
fn files_end_at_about_so_many_bytes() {
    let dir = Folder::new();
    dir.line("generate bench a.csv --rows 100000").ok();
    for extension in ["jsonl", "csv.gz", "parquet"] {
        dir.on_one_core(&["copy", "a.csv", &format!("o/{{part:03}}.{extension}"), "--file-bytes", "1MiB"]).ok();
        let sizes: Vec<u64> = listed(&dir, "o").iter().map(|f| std::fs::metadata(dir.path("o").join(f)).unwrap().len()).collect();
        assert!(sizes.len() >= 2, "{extension}: {sizes:?}");
        // What the last pages of a Parquet file shrink to is known only when it ends.
        let least = if extension == "parquet" { 100 << 10 } else { 700 << 10 };
        assert!(sizes[..sizes.len() - 1].iter().all(|s| (least..2 << 20).contains(s)), "{extension}: {sizes:?}");
        assert_eq!(dir.line("copy o x.jsonl").ok().account().1, 100_000);
        std::fs::remove_dir_all(dir.path("o")).unwrap();
    }
}

#[test]
fn replacing_eight_parts_by_four_leaves_four() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 8_000);
    numbered(&dir, "b.csv", 4_000);
    dir.on_one_core(&["copy", "a.csv", "o/{table}_{part}.csv", "--file-rows", "1000"]).ok();
    assert_eq!(listed(&dir, "o").len(), 8);
    dir.write("o/README.txt", "not ours\n");
    let plan = dir.haul(&["plan", "a.csv", "o/{table}_{part}.csv", "--file-rows", "2000"]).ok();
    assert!(plan.out.contains("8 file(s) of the set before are replaced"), "{}", plan.out);
    dir.on_one_core(&["copy", "a.csv", "o/{table}_{part}.csv", "--file-rows", "2000"]).ok();
    assert_eq!(listed(&dir, "o"), ["README.txt", "a_0.csv", "a_1.csv", "a_2.csv", "a_3.csv"]);
    assert_eq!(dir.lines_of("o/*.csv", &[]).len(), 8_000);
    // Without a manifest, files of these names are the set all the same.
    std::fs::remove_file(dir.path("o/_manifest.json")).unwrap();
    dir.on_one_core(&["copy", "a.csv", "o/{table}_{part}.csv"]).ok();
    assert_eq!(listed(&dir, "o"), ["README.txt", "a_0.csv"]);
    let manifest: serde_json::Value = serde_json::from_str(&dir.text("o/_manifest.json")).unwrap();
    assert_eq!((&manifest["rows"], &manifest["files"][0]["path"], &manifest["state"]), (&8_000.into(), &"a_0.csv".into(), &"whole".into()));
    assert!(dir.path("o").read_dir().unwrap().all(|e| !e.unwrap().file_name().to_str().unwrap().ends_with(".tmp")));
}

#[test]
fn what_is_in_the_way_is_said() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 10);
    std::fs::create_dir(dir.path("o")).unwrap();
    dir.write("o/stray.csv", "id\n1\n");
    let told = |arguments: &[&str]| {
        let ran = dir.haul(arguments);
        assert_ne!(ran.code, 0, "{ran:?}");
        ran.err
    };
    assert!(told(&["copy", "a.csv", "o/{table}_{part}.csv"]).contains("o/stray.csv: is no file of the set"));
    std::fs::remove_file(dir.path("o/stray.csv")).unwrap();
    dir.haul(&["copy", "a.csv", "o/{table}_{part}.csv"]).ok();
    assert!(told(&["copy", "a.csv", "o/x_{part}.csv"]).contains("another set is there, whose files are called o/{table}_{part}.csv"));
    assert!(told(&["copy", "a.csv", "o/{table}_{part}.csv", "--mode", "create"]).contains("--mode replace"));
    assert!(told(&["copy", "a.csv", "o/{table}_{part}.csv", "--mode", "append"]).contains("not appended to"));
    assert!(told(&["copy", "a.csv", "o/{table}_{part}.csv", "--merge"]).contains("--merge makes one file"));
    let one = told(&["copy", "a.csv", "p/x.csv", "--file-rows", "5"]);
    assert!(
        one.contains("--file-rows makes several files, but the target is one") && one.contains("p/x/x_{lane:04}_{part:04}.csv"),
        "{one}"
    );
    assert!(told(&["copy", "a.csv", "p/{lane}.csv", "--file-rows", "5"]).contains("put {part:04} into the name"));
    assert!(told(&["copy", "a.csv", "p/{tabel}_{part}.csv"]).contains("did you mean {table}"));
    assert!(told(&["copy", "a.csv", "p/{schema}_{part}.csv"]).contains("no schema"));
    assert!(told(&["copy", "a.csv", "p/{part}.csv", "--file-rows", "0"]).contains("at least 1"));
    assert!(told(&["copy", "a.csv", "p/"]).contains("nothing says the format"));
    assert!(told(&["copy", "a.csv", "-?format=csv&file_rows=3"]).contains("the target is one"));
    assert!(!dir.path("p").exists(), "nothing was made");
    // A path with names but without numbers is one file, in a folder that is made.
    dir.haul(&["copy", "a.csv", "q/{table}/{table}.csv"]).ok();
    assert_eq!(dir.text("q/a/a.csv"), dir.text("a.csv"));
}

#[test]
fn a_failure_leaves_the_old_set_and_nothing_else() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 5_000);
    let text: String = dir.text("a.csv") + &(0..200_000).map(|i| format!("{i},x\n")).collect::<String>() + "oops\n";
    dir.write("bad.csv", text);
    let new = ["copy", "bad.csv", "p/q/{part}.csv", "--file-rows", "1000"];
    dir.haul(&new).failed();
    assert!(!dir.path("p").exists(), "folders that were made for it are gone");
    dir.haul(&["copy", "a.csv", "o/s_{part}.csv", "--file-rows", "1000"]).ok();
    let before = listed(&dir, "o");
    let ran = dir.haul(&["copy", "bad.csv", "o/s_{part}.csv", "--file-rows", "1000"]).failed();
    assert!(ran.err.contains("line 205002"), "{}", ran.err);
    assert_eq!(listed(&dir, "o"), before);
    assert_eq!(std::fs::read_dir(dir.path("o")).unwrap().count(), before.len() + 1, "files and manifest");
    assert_eq!(ids(&dir, "o"), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn fs_01_a_set_is_the_old_one_or_the_new_one_wherever_its_writer_dies() {
    for place in haul_model::failpoint::NAMES.iter().filter(|name| name.starts_with("set-")) {
        let dir = Folder::new();
        numbered(&dir, "a.csv", 8_000);
        numbered(&dir, "b.csv", 4_500);
        let write = |from: &str| ["copy".to_string(), from.to_string(), "o/s_{part}.csv".into(), "--file-rows".into(), "1000".into()];
        let line = write("a.csv");
        dir.on_one_core(&line.iter().map(String::as_str).collect::<Vec<_>>()).ok();
        let line = write("b.csv");
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let ran = dir.failing(place, &line);
        assert_eq!(ran.code, -1, "{place}: {ran:?}");
        let found = ids(&dir, "o");
        assert!(
            [8_000, 4_500].contains(&found.len()) && found == (0..found.len() as u64).collect::<Vec<_>>(),
            "{place}: {} rows",
            found.len()
        );
        let committed = place.contains("after") || place.contains("last") || place.contains("between");
        assert_eq!(found.len(), if committed { 4_500 } else { 8_000 }, "{place}");
        // Cleaning takes back what nobody sees, or finishes what everybody sees.
        let ran = dir.line("state clean").ok();
        assert!(ran.out.contains("1 run(s) forgotten"), "{place}: {ran:?}");
        assert_eq!(ids(&dir, "o"), found, "{place}");
        assert_eq!(listed(&dir, "o").len(), if committed { 5 } else { 8 }, "{place}");
        assert_eq!(std::fs::read_dir(dir.path("o")).unwrap().count(), listed(&dir, "o").len() + 1, "{place}: nothing is left");
        // Without cleaning, the next run does it.
        dir.failing(place, &line);
        dir.haul(&line).ok();
        assert_eq!((ids(&dir, "o").len(), listed(&dir, "o").len()), (4_500, 5), "{place}");
    }
}

#[test]
fn a_reader_that_races_with_a_writer_sees_whole_sets() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 6_000);
    numbered(&dir, "b.csv", 2_500);
    for extension in ["parquet", "jsonl"] {
        let target = format!("o/s_{{part}}.{extension}");
        let write = |from: &str| dir.haul(&["copy", from, &target, "--file-rows", "500", "--fsync", "off"]).ok();
        write("a.csv");
        let over = AtomicBool::new(false);
        let mut seen = std::collections::BTreeMap::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..15 {
                    write(if round % 2 == 0 { "b.csv" } else { "a.csv" });
                }
                over.store(true, Relaxed);
            });
            while !over.load(Relaxed) {
                let found = ids(&dir, "o");
                assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
                *seen.entry(found.len()).or_insert(0) += 1;
            }
        });
        assert!(seen.keys().all(|rows| [6_000, 2_500].contains(rows)), "{extension}: {seen:?}");
        assert_eq!(seen.len(), 2, "{extension}: both were seen: {seen:?}");
        std::fs::remove_dir_all(dir.path("o")).unwrap();
    }
}

#[test]
fn merging_keeps_the_order_of_the_source() {
    let dir = Folder::new();
    numbered(&dir, "a.csv", 120_000);
    dir.haul(&["copy", "a.csv", "a.parquet", "--row-group-rows", "5000", "--cast", "id:bigint"]).ok();
    for target in ["o.jsonl", "o.csv.gz", "o.parquet"] {
        let ran = dir.haul(&["copy", "a.parquet", target, "--merge"]).ok();
        assert_eq!(ran.account().1, 120_000);
        dir.line(&format!("copy {target} back.csv")).ok();
        assert_eq!(dir.text("back.csv"), dir.text("a.csv"), "{target}");
    }
}

#[test]
fn pq_02_fs_03_sets_are_read_by_others() {
    let dir = Folder::new();
    dir.write(
        "a.jsonl",
        "{\"id\":1,\"m\":\"-0.01\",\"t\":\"\",\"d\":\"2024-02-29\",\"ts\":\"2024-01-01T00:00:00.123456Z\"}\n\
         {\"id\":2,\"m\":\"99999999.99\",\"t\":null,\"d\":null,\"ts\":null}\n{\"id\":3,\"m\":\"0\",\"t\":\"\\n,\\\"\",\"d\":\"0001-01-01\",\"ts\":\"1970-01-01T00:00:00Z\"}\n",
    );
    let cast = "id:bigint,m:decimal(10,2),d:date,ts:timestamptz";
    dir.haul(&["copy", "a.jsonl", "o/{part}.parquet", "--file-rows", "1", "--cast", cast]).ok();
    let folder = dir.path("o").display().to_string();
    let seen = run_python(
        "import sys, duckdb, pyarrow.dataset as ds\n\
         t = ds.dataset(sys.argv[1], format='parquet').to_table().sort_by('id')\n\
         print([[str(v) if k == 'm' and v is not None else v for k, v in r.items() if k in ('id', 'm', 't')] for r in t.to_pylist()], t.schema.field('m').type)\n\
         duckdb.sql(\"set timezone='UTC'\")\n\
         for r in duckdb.sql(f\"select id, m::text, t, d::text, epoch_us(ts) from '{sys.argv[1]}/*.parquet' order by id\").fetchall(): print(r)",
        &[&folder],
    );
    let expected = "[[1, '-0.01', ''], [2, '99999999.99', None], [3, '0.00', '\\n,\"']] decimal128(10, 2)\n\
         (1, '-0.01', '', '2024-02-29', 1704067200123456)\n(2, '99999999.99', None, None, None)\n(3, '0.00', '\\n,\"', '0001-01-01', 0)\n";
    assert_eq!(seen, expected);
}
