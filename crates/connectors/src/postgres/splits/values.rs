//! One split for each value of a key.

use super::bounds::Scope;
use super::key::Key;
use super::{Part, Sized};
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Result};

/// More splits than this are no help to anyone.
const MOST: usize = 10_000;

/// A part for each distinct value that the keys have, NULL among them; those with most rows first, so that none of them comes last. The
/// part for other values is empty now, and not when a later run goes on with these parts.
///
/// # Errors
/// Too many; the server's.
pub(in crate::postgres) fn distinct(session: &mut Session, scope: &Scope<'_>, keys: &[Key], bytes: u64) -> Result<Vec<Sized>> {
    let list = names(keys);
    let sql = format!(
        "SELECT {list}, pg_catalog.count(*) AS haul_rows {} GROUP BY {list} ORDER BY haul_rows DESC LIMIT {}",
        scope.rows(None, None),
        MOST + 1
    );
    let found = session.query(&sql, &[])?;
    if found.rows.len() > MOST {
        let named: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        return Err(Error::new(ErrorKind::Limit, format!("more than {MOST} distinct values: a split for each of them is too many"))
            .column(named.join(", "))
            .hint("--method ntile or --method hash cuts by the same key into fewer parts; --split-query names the values to part by"));
    }
    let count = |row: &haul_pgwire::Row| row.parse::<u64>(keys.len()).unwrap_or(0);
    let all: u64 = found.iter().map(count).sum();
    let share = |rows: u64| (u128::from(bytes) * u128::from(rows) / u128::from(all.max(1))) as u64;
    Ok(with_rest(keys, &found, 0, |row| share(count(row))))
}

/// A part for each row that the user's query returns, and one for the rows that match none: nothing is left out.
///
/// # Errors
/// Too many; values that the keys' types do not take; the server's.
pub(in crate::postgres) fn listed(session: &mut Session, query: &str, keys: &[Key], bytes: u64) -> Result<Vec<Sized>> {
    let columns: Vec<String> = (0..keys.len()).map(|i| format!("haul_{i}")).collect();
    let casts: Vec<String> = keys.iter().zip(&columns).map(|(key, column)| format!("CAST({column} AS {})", key.type_sql)).collect();
    // Equal rows would read the same rows twice. The line breaks end a comment at the end of the user's text.
    let sql = format!("SELECT DISTINCT {} FROM (\n{query}\n) AS haul_list({}) LIMIT {}", casts.join(", "), columns.join(", "), MOST + 1);
    let found = session.query(&sql, &[]).map_err(|e| e.context("split_query"))?;
    if found.rows.len() > MOST {
        return Err(Error::new(ErrorKind::Limit, format!("split_query returns more than {MOST} rows"))
            .hint("each of them becomes a split: let it return fewer"));
    }
    let each = bytes / (found.rows.len() as u64 + 1);
    Ok(with_rest(keys, &found, each, |_| each))
}

/// A part for each row, and one for everything else.
fn with_rest(keys: &[Key], found: &haul_pgwire::Rows, rest: u64, bytes: impl Fn(&haul_pgwire::Row) -> u64) -> Vec<Sized> {
    let mut parts: Vec<Sized> = found.iter().map(|row| Sized { part: part(keys, row), bytes: bytes(row) }).collect();
    let rows = found.iter().map(|row| (0..keys.len()).map(|i| row.get(i).map(str::to_string)).collect()).collect();
    parts.push(Sized { part: Part::Rest(keys.iter().map(|key| key.name.clone()).collect(), rows), bytes: rest });
    parts
}

fn names(keys: &[Key]) -> String {
    keys.iter().map(|key| key.sql.clone()).collect::<Vec<_>>().join(", ")
}

fn part(keys: &[Key], row: &haul_pgwire::Row) -> Part {
    Part::Values(keys.iter().enumerate().map(|(i, key)| (key.name.clone(), row.get(i).map(str::to_string))).collect())
}
