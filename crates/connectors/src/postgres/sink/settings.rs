//! Settings for writing.

use super::mapping::By;
use crate::postgres::config::{CONNECTION, joined};
use haul_model::{Kind, OnLossy, Setting, Settings};
use std::time::Duration;

const WRITING: &[Setting] = &[
    Setting::new(
        "mode",
        Kind::Choice(&["append", "truncate", "replace", "upsert", "insert-ignore", "delete-insert"]),
        "append",
        "append adds rows; truncate empties the table, replace replaces what it holds; with a key: upsert updates the rows that are there and inserts the others, insert-ignore inserts only the others, delete-insert deletes the rows that are there and inserts all. The table changes only when every row has arrived. A table that has rows already needs the mode spelled out.",
    ),
    Setting::new(
        "key",
        Kind::List,
        "primary key",
        "Columns that tell rows apart, for upsert, insert-ignore and delete-insert. NULL in them is an error; of several rows with the same key the last one wins.",
    ),
    Setting::new(
        "map",
        Kind::Choice(&["name", "position"]),
        "name",
        "How the source's columns find the table's: by exact name, or the first to the first, whatever the names.",
    )
    .alias(&["map_method"]),
    Setting::new("create", Kind::Bool, "false", "Create the table if it is missing; the plan shows the statement.")
        .alias(&["auto_create_table"]),
    Setting::new(
        "table_options",
        Kind::Text,
        "",
        "What a created table has beside its columns, word for word as behind CREATE TABLE (...): WITH (fillfactor=70), TABLESPACE x, USING columnar; with unlogged in front of it, an unlogged table.",
    ),
    Setting::new("with_keys", Kind::Bool, "false", "A created table gets the primary key and the unique constraints of the source's table, after the rows."),
    Setting::new("with_indexes", Kind::Bool, "false", "A created table gets the other indexes of the source's table, after the rows."),
    Setting::new(
        "with_constraints",
        Kind::Bool,
        "false",
        "A created table gets the defaults, identities and sequences (moved to where they stand), CHECK constraints and foreign keys of the source's table.",
    ),
    Setting::new(
        "triggers",
        Kind::Choice(&["on", "off"]),
        "on",
        "Whether triggers of the table fire for the rows that are written. The plan lists them.",
    ),
    Setting::new("pre_sql", Kind::Text, "", "Statements to run in the target's database before anything is written."),
    Setting::new("post_sql", Kind::Text, "", "Statements to run in the target's database when the rows are committed."),
    Setting::new("analyze", Kind::Bool, "false", "ANALYZE the table at the end.").tuning(),
    Setting::new(
        "copy_format",
        Kind::Choice(&["auto", "binary", "text"]),
        "auto",
        "auto sends binary where every column has an exact writer. text lets the server parse values that come as text, as it likes.",
    ),
    Setting::new(
        "schema_changes",
        Kind::Choice(&["stop", "add"]),
        "stop",
        "Changes of another PostgreSQL: what happens when the source's table got a column. stop: before the first row that has it. add: it is added here too (rows that are there get NULL).",
    )
    .tuning(),
    Setting::new("columns", Kind::Choice(&["auto"]), "auto", "Columns are mapped by name."),
    Setting::new("allow_empty", Kind::Bool, "false", "truncate and replace may leave the table empty when the source has no rows.").tuning(),
    Setting::new("lock_timeout", Kind::Duration, "30s", "How long the last step waits for its lock on the table, and pre_sql and post_sql for theirs.").tuning(),
    Setting::new(
        "commit",
        Kind::Choice(&["end", "split"]),
        "end",
        "append: end makes all rows visible when every one has arrived; split commits each split with its checkpoint, so that a failed run leaves its finished splits and --resume goes on. Other modes commit splits aside anyway.",
    )
    .tuning(),
    Setting::new(
        "pushdown",
        Kind::Choice(&["auto", "never"]),
        "auto",
        "auto: if the rows come from the same database, by the same role, and nothing happens to them on the way, the server moves them itself by INSERT ... SELECT. never: they go through COPY and Haul.",
    )
    .tuning(),
    Setting::new("bulk_copy", Kind::Bool, "true", "Reading and writing always use COPY; accepted for scripts that say it.").tuning(),
    Setting::new("on_error", Kind::Choice(&["stop", "reject"]), "stop", "reject takes out rows that the server refuses, one by one."),
    Setting::new(
        "on_lossy",
        Kind::Choice(&["error", "text", "null", "clamp"]),
        "error",
        "What to do with a value that the column cannot hold exactly.",
    ),
];

/// Settings for writing.
pub static SINK: &[Setting] = &joined::<{ CONNECTION.len() + WRITING.len() }>(CONNECTION, WRITING);

/// What the content of the target becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Old rows and new ones.
    Append,
    /// New ones only; the table is emptied with TRUNCATE.
    Truncate,
    /// New ones only, without ever taking the table away from its readers for longer than a moment.
    Replace,
    /// Old rows and new ones, told apart by a key.
    Keyed(KeyedMode),
}

/// What happens to a row whose key is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyedMode {
    /// The old row gets the new values.
    Upsert,
    /// The new row is left out.
    InsertIgnore,
    /// The old row goes, the new one comes.
    DeleteInsert,
}

impl KeyedMode {
    /// As the user writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::InsertIgnore => "insert-ignore",
            Self::DeleteInsert => "delete-insert",
        }
    }
}

/// What the user chose.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// `None`: not said, which means append to an empty table.
    pub mode: Option<Mode>,
    pub key: Option<Vec<String>>,
    pub by_position: bool,
    /// UNLOGGED, and what stands behind the columns.
    pub table_options: (bool, String),
    pub with_keys: bool,
    pub with_indexes: bool,
    pub with_constraints: bool,
    pub triggers: bool,
    pub pre_sql: Option<String>,
    pub post_sql: Option<String>,
    pub analyze: bool,
    pub create: bool,
    pub format: Format,
    pub allow_empty: bool,
    pub lock_timeout: Duration,
    pub reject: bool,
    pub on_lossy: OnLossy,
    /// Append commits each split.
    pub commit_splits: bool,
    /// Columns that the source of changes got are added.
    pub add_columns: bool,
    /// INSERT ... SELECT within one database.
    pub pushdown: bool,
}

/// `copy_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Auto,
    Binary,
    Text,
}

impl Options {
    /// How columns find each other.
    pub fn map_by(&self) -> By {
        if self.by_position { By::Position } else { By::Name }
    }

    pub fn of(settings: &Settings) -> Self {
        Self {
            mode: settings.choice("mode").map(|mode| match mode.as_str() {
                "truncate" => Mode::Truncate,
                "replace" => Mode::Replace,
                "upsert" => Mode::Keyed(KeyedMode::Upsert),
                "insert-ignore" => Mode::Keyed(KeyedMode::InsertIgnore),
                "delete-insert" => Mode::Keyed(KeyedMode::DeleteInsert),
                _ => Mode::Append,
            }),
            pushdown: settings.choice("pushdown").as_deref() != Some("never"),
            commit_splits: settings.choice("commit").as_deref() == Some("split"),
            add_columns: settings.choice("schema_changes").as_deref() == Some("add"),
            key: settings.list("key"),
            table_options: table_options(settings.text("table_options").unwrap_or_default()),
            with_keys: settings.flag("with_keys", false),
            with_indexes: settings.flag("with_indexes", false),
            with_constraints: settings.flag("with_constraints", false),
            triggers: settings.choice("triggers").as_deref() != Some("off"),
            pre_sql: settings.text("pre_sql").map(str::to_string),
            post_sql: settings.text("post_sql").map(str::to_string),
            analyze: settings.flag("analyze", false),
            by_position: settings.choice("map").as_deref() == Some("position"),
            create: settings.flag("create", false),
            format: match settings.choice("copy_format").as_deref() {
                Some("binary") => Format::Binary,
                Some("text") => Format::Text,
                _ => Format::Auto,
            },
            allow_empty: settings.flag("allow_empty", false),
            lock_timeout: settings.duration("lock_timeout").unwrap_or(Duration::from_secs(30)),
            reject: settings.choice("on_error").as_deref() == Some("reject"),
            on_lossy: match settings.choice("on_lossy").as_deref() {
                Some("text") => OnLossy::Text,
                Some("null") => OnLossy::Null,
                Some("clamp") => OnLossy::Clamp,
                _ => OnLossy::Error,
            },
        }
    }
}

/// `unlogged WITH (fillfactor=70)` as whether the table is unlogged, and the rest.
fn table_options(text: &str) -> (bool, String) {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if first.eq_ignore_ascii_case("unlogged") { (true, rest.trim().to_string()) } else { (false, text.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::table_options;

    #[test]
    fn unlogged_is_told_from_the_rest() {
        assert_eq!(table_options(" UNLOGGED "), (true, String::new()));
        assert_eq!(table_options("unlogged WITH (fillfactor=70)"), (true, "WITH (fillfactor=70)".into()));
        assert_eq!(table_options("USING unlogged"), (false, "USING unlogged".into()));
        assert_eq!(table_options(""), (false, String::new()));
    }
}
