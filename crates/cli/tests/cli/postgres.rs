//! A scratch database and a folder, and the binary between them. The server's own text of a row is the oracle.

use crate::runner::{Folder, Ran};
use haul_testkit::pg::Scratch;

/// A database and a folder for one test.
pub struct Site {
    pub dir: Folder,
    pub db: Scratch,
}

impl Site {
    /// Empty ones; then runs `sql`.
    pub fn new(sql: &str) -> Self {
        Self::over(Scratch::new(), sql)
    }

    /// A folder beside a database that is there.
    pub fn over(db: Scratch, sql: &str) -> Self {
        db.sql(sql);
        Self { dir: Folder::new(), db }
    }

    /// URI of a table of the database.
    pub fn table(&self, name: &str) -> String {
        self.db.table(name)
    }

    /// `haul copy FROM TO FLAGS...`; ends that start with `:` are tables.
    pub fn copy(&self, from: &str, to: &str, flags: &str) -> Ran {
        self.run("copy", from, to, flags)
    }

    /// `haul plan`, else as [`Site::copy`].
    pub fn plan(&self, from: &str, to: &str, flags: &str) -> Ran {
        self.run("plan", from, to, flags)
    }

    fn run(&self, command: &str, from: &str, to: &str, flags: &str) -> Ran {
        let (from, to) = (self.end(from), self.end(to));
        let mut arguments = vec![command, from.as_str(), to.as_str()];
        arguments.extend(flags.split_whitespace());
        self.dir.haul(&arguments)
    }

    /// `:name` as the URI of a table, anything else as it is.
    pub fn end(&self, text: &str) -> String {
        text.strip_prefix(':').map_or_else(|| text.to_string(), |name| self.table(name))
    }

    /// What a query prints.
    pub fn sql(&self, sql: &str) -> String {
        self.db.sql(sql)
    }

    /// Rows of the first table that the second lacks, plus the other way round, as text.
    pub fn differences(&self, one: &str, other: &str) -> String {
        let missing = |a: &str, b: &str| self.sql(&format!("select x::text from {a} x except all select x::text from {b} x"));
        missing(one, other) + &missing(other, one)
    }

    /// Both tables hold the same rows, as text.
    #[track_caller]
    pub fn assert_same(&self, one: &str, other: &str) {
        let different = self.differences(one, other);
        assert!(different.is_empty(), "{one} and {other} differ: {different:.2000}");
    }

    /// Copies table -> file -> table `back` (made from the SQL in `ddl`, or by --create) and compares the rows.
    #[track_caller]
    pub fn round_trip(&self, table: &str, file: &str, ddl: Option<&str>, flags: &str) {
        self.copy(&format!(":{table}"), file, flags).ok();
        self.sql(&format!("drop table if exists back; {}", ddl.unwrap_or_default()));
        let create = if ddl.is_some() { "" } else { " --create" };
        self.copy(file, ":back", &format!("{flags}{create}")).ok();
        self.assert_same(table, "back");
    }
}

#[test]
fn a_command_line_of_mqb_runs_as_typed() {
    let mut site = Site::new(
        "create table bench (id bigint primary key, t text); insert into bench select g, 'v' || g from generate_series(500, 1, -1) g",
    );
    let role = site.db.role("pw", "");
    site.sql(&format!("grant select on bench to {role}"));
    let from =
        format!("postgres://{role}:pw@localhost:{}/{}?table=bench&cursor_column=id&sslmode=disable", site.db.server.port, site.db.database);
    let to = format!("file://{}?format=raw", site.dir.path("out.jsonl").display());
    let ran = site.dir.haul(&["copy", "--from", &from, "--to", &to, "--drain"]).ok();
    assert_eq!(ran.account(), (500, 500, 0));
    let expected: String = (1..=500).map(|i| format!("{{\"id\":{i},\"t\":\"v{i}\"}}\n")).collect();
    assert_eq!(site.dir.text("out.jsonl"), expected);
    // And into a table that is not there yet.
    let to = format!("{}&columns=auto&bulk_copy=true&auto_create_table=true", site.table("made"));
    let schema = site.dir.write("s.json", r#"{"properties":{"id":{"type":"integer"},"t":{"type":"string"}}}"#);
    let from = format!("file://{}?format=jsonl|transform?schema_file={schema}", site.dir.path("out.jsonl").display());
    site.dir.haul(&["copy", "--from", &from, "--to", &to, "--drain", "--batch-size", "64", "--concurrency", "1"]).ok();
    site.assert_same("bench", "made");
}
