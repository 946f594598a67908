//! Which columns tell rows apart, and whether the table can hold the server to it.

use super::settings::KeyedMode;
use crate::postgres::catalog::{PgColumn, Relation};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Result, nearest};
use std::collections::BTreeSet;

/// An index that lets no two rows be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UniqueIndex {
    name: String,
    primary: bool,
    /// Bare columns only; empty if there is an expression among them.
    columns: Vec<String>,
    /// Why it does not help to tell whether a row is there already.
    unfit: Option<&'static str>,
}

/// The key of a load into `relation`: what the user `asked` for, or the primary key. Upsert and insert-ignore need a unique
/// index on just these columns, for the server decides by it which rows are there already.
///
/// # Errors
/// `Config` without a key; `Schema` for key columns that are not there or not loaded; `Unsupported` without a fitting index.
pub(super) fn key(
    session: &mut Session,
    relation: &Relation,
    mode: KeyedMode,
    asked: Option<&[String]>,
    loaded: &[PgColumn],
) -> Result<Vec<String>> {
    let indexes = unique_indexes(session, relation)?;
    let key: Vec<String> = match asked {
        Some(asked) => asked.to_vec(),
        None => match indexes.iter().find(|index| index.primary) {
            Some(primary) => primary.columns.clone(),
            None => return Err(no_key(mode, "the table has no primary key").object(relation.display())),
        },
    };
    check_columns(&key, loaded, Some(relation)).map_err(|e| e.object(relation.display()))?;
    if mode == KeyedMode::DeleteInsert {
        return Ok(key);
    }
    let wanted: BTreeSet<&str> = key.iter().map(String::as_str).collect();
    let same = |index: &&UniqueIndex| index.columns.iter().map(String::as_str).collect::<BTreeSet<_>>() == wanted;
    match indexes.iter().filter(same).min_by_key(|index| index.unfit.is_some()) {
        Some(UniqueIndex { unfit: None, .. }) => Ok(key),
        unfit => Err(no_index(relation, mode, &key, unfit, &indexes)),
    }
}

/// The key of a load into a table that is still to be made.
///
/// # Errors
/// As [`key`].
pub(super) fn key_of_a_new_table(table: &str, mode: KeyedMode, asked: Option<&[String]>, loaded: &[PgColumn]) -> Result<Vec<String>> {
    let Some(asked) = asked else { return Err(no_key(mode, "the table is still to be made").object(table)) };
    check_columns(asked, loaded, None).map_err(|e| e.object(table))?;
    Ok(asked.to_vec())
}

fn no_key(mode: KeyedMode, why: &str) -> Error {
    Error::new(ErrorKind::Config, format!("--mode {} needs a key, and {why}", mode.word()))
        .hint("--key COLUMNS names the columns that tell rows apart")
}

fn check_columns(key: &[String], loaded: &[PgColumn], relation: Option<&Relation>) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::Config, "the key has no columns").hint("--key id, or --key a,b"));
    }
    for (i, name) in key.iter().enumerate() {
        if key[..i].contains(name) {
            return Err(Error::new(ErrorKind::Config, "the key names a column twice").column(name));
        }
        if loaded.iter().any(|c| c.name == *name) {
            continue;
        }
        let there = relation.is_some_and(|r| r.columns.iter().any(|c| c.name == *name));
        let error = Error::new(
            ErrorKind::Schema,
            match there {
                true => format!("the source does not fill the key column {name:?}"),
                false => format!("the key column {name:?} does not exist"),
            },
        );
        return Err(match nearest(name, loaded.iter().map(|c| c.name.as_str())) {
            Some(near) if !there => error.hint(format!("did you mean {near:?}?")),
            _ => error.hint("every row needs its key: --columns and --rename say what the source sends, --key which columns are the key"),
        });
    }
    Ok(())
}

fn no_index(relation: &Relation, mode: KeyedMode, key: &[String], unfit: Option<&UniqueIndex>, all: &[UniqueIndex]) -> Error {
    let list = key.join(", ");
    let (why, advice) = match unfit {
        Some(UniqueIndex { name, unfit: Some(unfit), .. }) => {
            (format!("the unique index {name} on ({list}) is {unfit}"), "make another one that is not".to_string())
        }
        _ => {
            let others: Vec<String> =
                all.iter().filter(|i| i.unfit.is_none() && !i.columns.is_empty()).map(|i| format!("({})", i.columns.join(", "))).collect();
            let others = if others.is_empty() { "it has no other".into() } else { format!("it has {}", others.join(" and ")) };
            (
                format!("the table has no unique index on just ({list}); {others}"),
                format!("CREATE UNIQUE INDEX ON {} ({list})", relation.display()),
            )
        }
    };
    Error::new(ErrorKind::Unsupported, format!("--mode {} cannot tell which rows are there already: {why}", mode.word()))
        .object(relation.display())
        .hint(format!("{advice}; or --mode delete-insert, which needs none"))
}

fn unique_indexes(session: &mut Session, relation: &Relation) -> Result<Vec<UniqueIndex>> {
    // Columns of INCLUDE are no part of what is unique.
    let columns = if session.version() >= 110_000 { "i.indnkeyatts" } else { "i.indnatts" };
    let sql = format!(
        "SELECT c.relname, i.indisprimary, i.indimmediate, i.indisvalid, i.indpred IS NOT NULL, i.indexprs IS NOT NULL, a.attname \
         FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[]) WITH ORDINALITY k(number, place) \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number <> 0 \
         WHERE i.indrelid = $1::pg_catalog.oid AND i.indisunique AND k.place <= {columns} ORDER BY i.indisprimary DESC, i.indexrelid, k.place"
    );
    let mut found: Vec<UniqueIndex> = Vec::new();
    for row in session.query(&sql, &[Some(&relation.oid.to_string())])?.iter() {
        if found.last().is_none_or(|last| last.name != row.text(0)) {
            let unfit = match (row.flag(2), row.flag(3), row.flag(4), row.flag(5)) {
                (false, ..) => Some("DEFERRABLE, and the server cannot decide by it"),
                (_, false, ..) => Some("not valid"),
                (.., true, _) => Some("partial (it has a WHERE)"),
                (.., true) => Some("on an expression"),
                _ => None,
            };
            found.push(UniqueIndex { name: row.text(0).to_string(), primary: row.flag(1), columns: Vec::new(), unfit });
        }
        if let (Some(index), Some(column)) = (found.last_mut(), row.get(6)) {
            index.columns.push(column.to_string());
        }
    }
    Ok(found)
}
