//! Folders named for values: written so that others find their columns, and read back.

use crate::runner::Folder;
use crate::sets_write::listed;
use haul_testkit::services::run_python;

const ROWS: &str =
    "id,country,day,amount\n1,DE,2024-01-01,5\n2,a/b c,2024-01-01,6\n3,,2024-01-02,7\n4,DE,2024-01-02,8\n5,DE,2024-01-01,9\n";

#[test]
fn partitions_are_folders_and_come_back_as_columns() {
    let dir = Folder::new();
    dir.write("a.csv", ROWS);
    for extension in ["parquet", "csv", "jsonl.gz"] {
        let target = format!("o/{{table}}_{{part:02}}.{extension}");
        let by = ["--partition-by", "country,day", "--cast", "id:bigint,day:date,amount:int"];
        dir.haul(&[&["copy", "a.csv", &target], &by[..]].concat()).ok();
        let expected = [
            "country=DE/day=2024-01-01/a_00",
            "country=DE/day=2024-01-02/a_00",
            "country=__HIVE_DEFAULT_PARTITION__/day=2024-01-02/a_00",
            "country=a%2Fb%20c/day=2024-01-01/a_00",
        ];
        assert_eq!(listed(&dir, "o"), expected.map(|f| format!("{f}.{extension}")));
        let mut lines = dir.lines_of("o", &["--hive", "--columns", "id,country,day,amount", "--cast", "id:bigint,amount:int"]);
        lines.sort();
        let expected = [
            r#"{"id":1,"country":"DE","day":"2024-01-01","amount":5}"#,
            r#"{"id":2,"country":"a/b c","day":"2024-01-01","amount":6}"#,
            r#"{"id":3,"country":null,"day":"2024-01-02","amount":7}"#,
            r#"{"id":4,"country":"DE","day":"2024-01-02","amount":8}"#,
            r#"{"id":5,"country":"DE","day":"2024-01-01","amount":9}"#,
        ];
        assert_eq!(lines, expected, "{extension}");
        // Replaced by fewer: folders without a file go too.
        dir.write("b.csv", "id,country,day,amount\n9,FR,2024-03-01,1\n");
        let plan = dir.haul(&[&["plan", "a.csv", &target], &by[..]].concat()).ok();
        assert!(plan.out.contains("country=VALUE/") && plan.out.contains("folder"), "{}", plan.out);
        dir.haul(&["copy", "b.csv", &target, "--partition-by", "country"]).ok();
        assert_eq!(listed(&dir, "o"), [format!("country=FR/b_00.{extension}")]);
        assert!(!dir.path("o/country=DE").exists());
        std::fs::remove_dir_all(dir.path("o")).unwrap();
    }
}

#[test]
fn pyarrow_and_duckdb_find_the_columns() {
    let dir = Folder::new();
    dir.write("a.csv", ROWS);
    let by = ["--partition-by", "country,day", "--cast", "id:bigint,day:date,amount:int"];
    dir.haul(&[&["copy", "a.csv", "o/{part}.parquet"], &by[..]].concat()).ok();
    let seen = run_python(
        "import sys, duckdb, pyarrow as pa, pyarrow.dataset as ds\n\
         parts = ds.partitioning(pa.schema([('country', pa.string()), ('day', pa.date32())]), flavor='hive')\n\
         t = ds.dataset(sys.argv[1], format='parquet', partitioning=parts).to_table().sort_by('id')\n\
         print([(r['id'], r['country'], str(r['day'])) for r in t.to_pylist()])\n\
         print(duckdb.sql(f\"select id, country, day::text from read_parquet('{sys.argv[1]}/*/*/*.parquet', hive_partitioning=true) order by id\").fetchall())",
        &[&dir.path("o").display().to_string()],
    );
    let expected = "[(1, 'DE', '2024-01-01'), (2, 'a/b c', '2024-01-01'), (3, None, '2024-01-02'), (4, 'DE', '2024-01-02'), (5, 'DE', '2024-01-01')]\n";
    assert_eq!(seen, expected.repeat(2));
}

#[test]
fn many_partitions_stay_within_open_files_and_memory() {
    let dir = Folder::new();
    let text: String = std::iter::once("id,k\n".to_string()).chain((0..60_000).map(|i| format!("{i},{}\n", i % 500))).collect();
    dir.write("a.csv", text);
    let ran = dir.haul(&["copy", "a.csv", "o/{lane}_{part}.csv", "--partition-by", "k", "--fsync", "off", "--json"]).ok();
    let result: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(result["peak_rss_bytes"].as_u64().unwrap() < 200 << 20, "{result}");
    assert_eq!(std::fs::read_dir(dir.path("o")).unwrap().count(), 501, "500 folders and the manifest");
    let lines = dir.lines_of("o", &["--hive"]);
    let right = lines.iter().filter(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| row[key].as_str().unwrap().parse::<u64>().unwrap();
        number("id") % 500 == number("k")
    });
    assert_eq!(right.count(), 60_000);
}

#[test]
fn refused_partitions() {
    let dir = Folder::new();
    dir.write("a.csv", "id,f\n1,2.5\n");
    let told = |arguments: &[&str]| dir.haul(&[&["copy", "a.csv", "o/{part}.parquet"], arguments].concat()).failed().err;
    assert!(told(&["--partition-by", "f", "--cast", "f:double"]).contains("cannot name folders"));
    assert!(told(&["--partition-by", "if"]).contains("did you mean"));
    let ran = dir.haul(&["copy", "a.csv", "o/{part}.csv", "--partition-by", "id,f"]);
    assert!(ran.code == 2 && ran.err.contains("names every column"), "{ran:?}");
    let ran = dir.haul(&["copy", "a.csv", "o/{lane}.csv", "--partition-by", "id"]);
    assert!(ran.code == 2 && ran.err.contains("{part:04}"), "{ran:?}");
}
