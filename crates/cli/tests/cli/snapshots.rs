//! Whole outputs: what people see first, and what they see when something is wrong.

use crate::runner::Folder;
use insta::assert_snapshot;

#[test]
fn csv_to_jsonl() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name\n1,Ann\n2,\n3,\"\"\n");
    assert_snapshot!(dir.line("copy a.csv a.jsonl").whole());
    assert_eq!(dir.text("a.jsonl"), "{\"id\":\"1\",\"name\":\"Ann\"}\n{\"id\":\"2\",\"name\":null}\n{\"id\":\"3\",\"name\":\"\"}\n");
    assert_eq!(dir.names(), ["a.csv", "a.jsonl"]);
}

#[test]
fn a_missing_file() {
    let dir = Folder::new();
    assert_snapshot!(dir.line("copy nothere.csv out.jsonl").whole());
}

#[test]
fn an_unknown_setting_in_a_query() {
    let dir = Folder::new();
    dir.write("a.csv", "id\n1\n");
    assert_snapshot!(dir.line("copy a.csv?delimeter=; out.jsonl").whole());
}

#[test]
fn an_unknown_flag() {
    let dir = Folder::new();
    assert_snapshot!(dir.line("copy a.csv out.jsonl --delimeter ;").whole());
}

#[test]
fn a_ragged_row() {
    let dir = Folder::new();
    dir.write("a.csv", "a,b,c\n1,2,3\n4,5\n6,7,8,9\n10,11,12\n");
    assert_snapshot!(dir.line("copy a.csv out.jsonl").whole());
    assert_eq!(dir.names(), ["a.csv"]);
}

#[test]
fn a_value_that_does_not_fit_its_cast() {
    let dir = Folder::new();
    dir.write("a.csv", "id,n\n1,5\n2,\"1,213\"\n");
    assert_snapshot!(dir.line("copy a.csv out.jsonl --cast n:integer").whole());
}

#[test]
fn a_plan() {
    let dir = Folder::new();
    dir.write("a.csv", "id,name\n1,Ann\n");
    assert_snapshot!(dir.line("plan a.csv a.parquet --cast id:bigint").whole());
}

#[test]
fn flags_of_fasttransfer() {
    let dir = Folder::new();
    let line = "copy --sourceconnectiontype pgcopy --sourceserver localhost:5432 --sourceuser me --sourcetable orders --targetconnectiontype=pgcopy \
                --method Ntile --distributeKeyColumn id --loadmode Truncate --mapmethod Name --batchsize 10000 --degree 4";
    assert_snapshot!(dir.line(line).whole());
    assert_snapshot!("one_flag_of_fasttransfer", dir.line("copy a.csv b.csv -M Ctid").whole());
}
