//! Whole outputs of jobs with PostgreSQL: what people see when something is wrong, and what a plan says.

use crate::postgres::Site;
use crate::runner::Ran;
use insta::assert_snapshot;

/// The output with the port, the database, made-up roles and the run's name taken out.
fn whole(site: &Site, ran: &Ran) -> String {
    let text = ran.whole().replace(&format!(":{}", site.db.server.port), ":PORT").replace(&site.db.database, "DB");
    let mut out = String::new();
    let mut rest = text.as_str();
    // Staging tables: haul_RUN_table.
    while let Some(at) = rest.find("haul_") {
        let (before, after) = rest.split_at(at + 5);
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        out.push_str(if end == 0 { "" } else { "RUN" });
        rest = &after[end..];
    }
    out + rest
}

/// As [`whole`], with a made-up role's name taken out.
fn whole_of(site: &Site, ran: &Ran, role: &str) -> String {
    let hidden = |text: &str| text.replace(role, "ROLE");
    whole(site, &Ran { code: ran.code, out: hidden(&ran.out), err: hidden(&ran.err) })
}

fn small() -> Site {
    let site = Site::new("create table orders (id int primary key, name text not null, n int check (n < 100))");
    site.dir.write("orders.csv", "id,name,n\n1,Ann,5\n2,Bo,6\n3,Chen,700\n4,Di,8\n");
    site
}

#[test]
fn wrong_password() {
    let mut site = small();
    let role = site.db.role("right", "");
    let from = format!("{}?table=orders", site.db.url_of(&role, "wrong"));
    let ran = site.copy(&from, "out.csv", "");
    assert_snapshot!(whole_of(&site, &ran, &role));
}

#[test]
fn closed_port_and_no_such_host() {
    let site = small();
    assert_snapshot!("closed_port", whole(&site, &site.copy("postgres://postgres@127.0.0.1:1/db?table=orders", "out.csv", "")));
    let ran = site.copy("postgres://postgres@nothere.invalid/db?table=orders", "out.csv", "");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nothere.invalid"), "{}", ran.err);
}

#[test]
fn missing_database_table_and_column() {
    let site = small();
    let no_database = format!("postgres://postgres@127.0.0.1:{}/nothere?table=orders", site.db.server.port);
    assert_snapshot!("missing_database", whole(&site, &site.copy(&no_database, "out.csv", "")));
    assert_snapshot!("missing_table_to_read", whole(&site, &site.copy(":order", "out.csv", "")));
    assert_snapshot!("missing_table_to_write", whole(&site, &site.copy("orders.csv", ":ordres", "")));
    assert_snapshot!("table_of_another_case", whole(&site, &site.copy(":Orders", "out.csv", "")));
    assert_snapshot!("missing_column_to_read", whole(&site, &site.copy(":orders", "out.csv", "--columns id,nmae")));
    site.dir.write("other.csv", "id,Name,total\n1,Ann,5\n");
    assert_snapshot!("missing_column_to_write", whole(&site, &site.copy("other.csv", ":orders", "")));
    assert!(site.dir.names().iter().all(|n| n != "out.csv"));
}

#[test]
fn constraint_violations() {
    let site = small();
    assert_snapshot!("check_constraint", whole(&site, &site.copy("orders.csv", ":orders", "")));
    site.dir.write("twice.csv", "id,name,n\n1,Ann,5\n2,Bo,6\n1,Chen,7\n");
    assert_snapshot!("unique_constraint", whole(&site, &site.copy("twice.csv", ":orders", "")));
    site.dir.write("null.csv", "id,name,n\n1,Ann,5\n2,,6\n");
    assert_snapshot!("not_null_constraint", whole(&site, &site.copy("null.csv", ":orders", "")));
    assert_eq!(site.sql("select count(*) from orders"), "0");
}

#[test]
fn rights_and_row_security() {
    let mut site = small();
    let role = site.db.role("pw", "");
    site.sql(&format!("create table rls (id int); alter table rls enable row level security; grant select on rls to {role}"));
    let base = site.db.url_of(&role, "pw");
    let shown = |ran: &Ran| whole_of(&site, ran, &role);
    assert_snapshot!("no_right_to_read", shown(&site.copy(&format!("{base}?table=orders"), "out.csv", "")));
    site.sql(&format!("grant select on orders to {role}"));
    assert_snapshot!("no_right_to_write", shown(&site.copy("orders.csv", &format!("{base}?table=orders"), "")));
    assert_snapshot!("row_security", shown(&site.copy(&format!("{base}?table=rls"), "out.csv", "")));
}

#[test]
fn mode_not_said() {
    let site = small();
    site.sql("insert into orders values (9, 'old', 1)");
    assert_snapshot!(whole(&site, &site.copy("orders.csv", ":orders", "")));
}

#[test]
fn modes_with_a_key() {
    let site = small();
    site.sql("alter table orders drop constraint orders_n_check; insert into orders values (2, 'old', 1), (9, 'old', 1)");
    site.dir.write("twice.csv", "id,name,n\n1,Ann,5\n2,Bo,6\n1,Chen,7\n");
    assert_snapshot!("plan_upsert", whole(&site, &site.plan("twice.csv", ":orders", "--mode upsert")));
    site.dir.write("part.csv", "name,id\nAnn,1\n");
    assert_snapshot!(
        "plan_delete_insert_of_some_columns",
        whole(&site, &site.plan("part.csv", ":orders", "--mode delete-insert --key name"))
    );
    assert_snapshot!("upsert_without_an_index", whole(&site, &site.copy("twice.csv", ":orders", "--mode upsert --key name")));
    assert_snapshot!("upsert", whole(&site, &site.copy("twice.csv", ":orders", "--mode upsert")));
    assert_snapshot!("insert_ignore", whole(&site, &site.copy("twice.csv", ":orders", "--mode insert-ignore")));
    assert_snapshot!("delete_insert", whole(&site, &site.copy("twice.csv", ":orders", "--mode delete-insert")));
    assert_eq!(site.sql("select string_agg(concat_ws(',', id, name, n), ' ' order by id) from orders"), "1,Chen,7 2,Bo,6 9,old,1");
    site.dir.write("null.csv", "id,name,n\n3,Ann,5\n,Bo,6\n");
    assert_snapshot!("null_in_a_key", whole(&site, &site.copy("null.csv", ":orders", "--mode upsert")));
    site.sql("create table log (id int generated always as identity, at timestamptz default now(), who text, what text, size int generated always as (length(what)) stored)");
    site.dir.write("log.csv", "who,what\nAnn,came\n");
    assert_snapshot!("plan_missing_columns", whole(&site, &site.plan("log.csv", ":log", "")));
    assert_snapshot!("map_position_of_other_count", whole(&site, &site.plan("log.csv", ":log", "--map position")));
    site.dir.write("place.csv", "n,at,a,b\n5,2024-01-01T00:00:00Z,Ann,came\n");
    assert_snapshot!("plan_map_position", whole(&site, &site.plan("place.csv", ":log", "--map position")));
}

#[test]
fn plans() {
    let site = small();
    site.dir.write("typed.csv", "id,at,amount,ok,doc\n1,2024-02-29T01:02:03Z,1.50,true,\"{}\"\n");
    assert_snapshot!("plan_csv_to_a_new_table", whole(&site, &site.plan("typed.csv", ":fresh", "--create --infer")));
    assert_snapshot!("plan_replace", whole(&site, &site.plan("orders.csv", ":orders", "--mode replace")));
    site.sql("create table odd (id bigint, n numeric, at timestamptz, iv interval, tags text[], doc jsonb)");
    assert_snapshot!("plan_table_to_parquet", whole(&site, &site.plan(":odd", "odd.parquet", "--degree 2")));
    assert_snapshot!("schema_of_a_table", whole(&site, &site.dir.haul(&["schema", &site.table("odd")])));
}
