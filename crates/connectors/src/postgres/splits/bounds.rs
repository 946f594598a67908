//! Where ranges of a key begin: values of the key, ascending in the server's own order, as the server prints them.
//!
//! Bounds only decide how even the ranges are. They come from the server's statistics, from a window query over the rows (all, or a
//! sample), or from even spacing between the smallest and the largest key.

use super::key::{Key, Spacing};
use crate::postgres::catalog::{Relation, quote_literal};
use crate::postgres::session::Session;
use haul_model::Result;

/// The rows that are read: what stands behind FROM, and the user's condition.
pub(in crate::postgres) struct Scope<'a> {
    pub from: String,
    pub condition: Option<&'a str>,
}

impl Scope<'_> {
    /// `FROM ... WHERE condition AND also`, with a sample of so many percent if one is wanted.
    pub(super) fn rows(&self, sample: Option<f64>, also: Option<&str>) -> String {
        let sample = sample.map(|percent| format!(" TABLESAMPLE SYSTEM ({percent}) REPEATABLE (0)")).unwrap_or_default();
        // A line break, so that a comment at the end of the user's text ends there.
        let own = self.condition.map(|condition| format!("(\n{condition}\n)"));
        let terms: Vec<String> = also.map(str::to_string).into_iter().chain(own).collect();
        let clause = if terms.is_empty() { String::new() } else { format!(" WHERE {}", terms.join(" AND ")) };
        format!("FROM {}{sample}{clause}", self.from)
    }
}

/// Bounds of `count` parts with equally many rows, by a window query over the keys. It sorts them all, or follows an index; with
/// `sample`, over so many percent of the pages.
///
/// # Errors
/// The server's: no rights on the column, a statement time-out, a full disk during the sort.
pub(in crate::postgres) fn tiles(
    session: &mut Session,
    scope: &Scope<'_>,
    key: &Key,
    count: u64,
    sample: Option<f64>,
) -> Result<Vec<String>> {
    let k = &key.sql;
    let rows = scope.rows(sample, Some(&key.not_null()));
    // The first row of each tile. Equal keys cannot be parted, so their tiles become one.
    let sql = format!(
        "SELECT {k} FROM (SELECT {k}, pg_catalog.row_number() OVER (ORDER BY {k}) AS haul_row, pg_catalog.count(*) OVER () AS haul_all {rows}) \
         AS haul_keys WHERE haul_row = 1 OR (haul_row - 1) * {count} / haul_all <> (haul_row - 2) * {count} / haul_all GROUP BY {k} ORDER BY {k}"
    );
    let found = session.query(&sql, &[])?;
    // Below the smallest key there is nothing.
    Ok(found.iter().skip(1).map(|row| row.text(0).to_string()).collect())
}

/// Bounds of `count` parts from what ANALYZE has noted, if it is there, fine enough and not stale.
///
/// # Errors
/// The server's.
pub(in crate::postgres) fn statistics(session: &mut Session, relation: &Relation, key: &Key, count: u64) -> Result<Option<Vec<String>>> {
    let t = &key.type_sql;
    // A histogram has a bound for each equal share of what the common values leave; the last bound begins nothing.
    let sql = format!(
        "WITH s AS (SELECT CAST(CAST(s.histogram_bounds AS pg_catalog.text) AS {t}[]) AS h, \
             CAST(CAST(s.most_common_vals AS pg_catalog.text) AS {t}[]) AS m, s.most_common_freqs AS f, \
             1 - s.null_frac - COALESCE((SELECT pg_catalog.sum(x) FROM pg_catalog.unnest(s.most_common_freqs) x), 0) AS others \
           FROM pg_catalog.pg_stats s LEFT JOIN pg_catalog.pg_stat_all_tables a ON a.relid = $4::pg_catalog.oid \
           WHERE s.schemaname = $1 AND s.tablename = $2 AND s.attname = $3 AND NOT s.inherited \
             AND COALESCE(a.n_mod_since_analyze, 0) <= COALESCE(a.n_live_tup, 0) / 10) \
         SELECT v, pg_catalog.sum(w) FROM ( \
           SELECT v, CASE WHEN i < pg_catalog.cardinality(h) THEN others / (pg_catalog.cardinality(h) - 1) ELSE 0 END AS w \
             FROM s CROSS JOIN LATERAL pg_catalog.unnest(h) WITH ORDINALITY AS b(v, i) \
           UNION ALL SELECT v, w FROM s CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(m), pg_catalog.unnest(f)) AS c(v, w)) p \
         GROUP BY v ORDER BY v"
    );
    let names = [Some(relation.schema.as_str()), Some(&relation.name), Some(&key.name), Some(&relation.oid.to_string())];
    let found = session.query(&sql, &names)?;
    let points: Vec<(&str, f64)> = found.iter().map(|row| (row.text(0), row.parse(1).unwrap_or(0.0))).collect();
    if (points.len() as u64) < 2 * count {
        return Ok(None);
    }
    Ok(Some(pick(&points, count)))
}

/// Chooses bounds among weighted values so that `count` parts weigh about the same.
fn pick(points: &[(&str, f64)], count: u64) -> Vec<String> {
    let mut before = Vec::with_capacity(points.len());
    let mut sum = 0.0;
    for (_, weight) in points {
        before.push(sum);
        sum += weight.max(0.0);
    }
    let mut chosen: Vec<usize> = (1..count)
        .filter_map(|k| {
            let wanted = sum * k as f64 / count as f64;
            let after = before.partition_point(|weight| *weight < wanted).min(points.len() - 1);
            let near = |i: &usize| (before[*i] - wanted).abs();
            // Ahead of the first value there is nothing.
            [after.saturating_sub(1), after].into_iter().filter(|i| *i > 0).min_by(|a, b| near(a).total_cmp(&near(b)))
        })
        .collect();
    chosen.dedup();
    chosen.into_iter().map(|i| points[i].0.to_string()).collect()
}

/// Bounds of `count` parts that are equally wide, between the smallest and the largest finite key.
///
/// # Errors
/// The server's.
pub(in crate::postgres) fn even(session: &mut Session, scope: &Scope<'_>, key: &Key, count: u64) -> Result<Vec<String>> {
    let Some(spacing) = key.spacing else { return Ok(Vec::new()) };
    let (Some(low), Some(high)) = (end(session, scope, key, "")?, end(session, scope, key, " DESC")?) else { return Ok(Vec::new()) };
    if count < 2 || low == high {
        return Ok(Vec::new());
    }
    if spacing == Spacing::Uuid {
        return Ok(even_uuids(&low, &high, count));
    }
    let found = session.query(&spaced(spacing, &key.type_sql, &low, &high, count), &[])?;
    Ok(found.iter().map(|row| row.text(0).to_string()).collect())
}

/// The smallest finite key, or with ` DESC` the largest.
fn end(session: &mut Session, scope: &Scope<'_>, key: &Key, direction: &str) -> Result<Option<String>> {
    let k = &key.sql;
    let mut find = |also: &str| {
        let rows = scope.rows(None, Some(also));
        Ok(session.row(&format!("SELECT {k} {rows} ORDER BY {k}{direction} LIMIT 1"), &[])?.map(|row| row.text(0).to_string()))
    };
    let there = key.not_null();
    let found = find(&there)?;
    let special = ["NaN", "Infinity", "-Infinity", "infinity", "-infinity"];
    match found {
        // An index gave the first one at once; only if it cannot be divided, all are looked at.
        Some(text) if special.contains(&text.as_str()) => {
            let words = special.map(quote_literal).join(", ");
            find(&format!("{there} AND CAST({k} AS pg_catalog.text) NOT IN ({words})"))
        }
        found => Ok(found),
    }
}

/// The query for bounds between `low` and `high`, all by the server's exact arithmetic.
fn spaced(spacing: Spacing, type_sql: &str, low: &str, high: &str, count: u64) -> String {
    let (low, high) = (quote_literal(low), quote_literal(high));
    let both = |t: &str| (format!("{low}::pg_catalog.{t}"), format!("{high}::pg_catalog.{t}"));
    let bound = match spacing {
        Spacing::Whole => {
            let (low, high) = both("\"numeric\"");
            format!("{low} + pg_catalog.div(({high} - {low}) * k, {count})")
        }
        Spacing::Fraction => {
            let (low, high) = both("\"numeric\"");
            format!("{low} + ({high} - {low}) * k / {count}")
        }
        Spacing::Date => {
            let (low, high) = both("\"date\"");
            format!("{low} + (({high} - {low})::pg_catalog.int8 * k / {count})::pg_catalog.int4")
        }
        // Seconds, not intervals: the difference of two extremes overflows an interval. What is rounded is only where a range begins.
        Spacing::Timestamp | Spacing::Uuid => {
            let (low, high) = both("\"timestamp\"");
            let seconds = |t: String| format!("EXTRACT(epoch FROM {t})::pg_catalog.float8");
            let (low, high) = (seconds(low), seconds(high));
            format!("pg_catalog.timezone('UTC', pg_catalog.to_timestamp({low} + ({high} - {low}) * (k::pg_catalog.float8 / {count})))")
        }
    };
    // There is no cast from numeric to oid.
    let type_sql = if spacing == Spacing::Whole { "pg_catalog.numeric" } else { type_sql };
    format!(
        "SELECT b FROM (SELECT CAST({bound} AS {type_sql}) AS b FROM pg_catalog.generate_series(1, {count} - 1) k) s \
         WHERE b > {low}::{type_sql} GROUP BY b ORDER BY b"
    )
}

/// UUIDs compare as 128-bit numbers.
fn even_uuids(low: &str, high: &str, count: u64) -> Vec<String> {
    let number = |text: &str| u128::from_str_radix(&text.replace('-', ""), 16).ok();
    let (Some(low), Some(high)) = (number(low), number(high)) else { return Vec::new() };
    let width = high.saturating_sub(low) / u128::from(count);
    let print = |n: u128| {
        let hex = format!("{n:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    };
    if width == 0 {
        return if high > low { vec![print(high)] } else { Vec::new() };
    }
    (1..u128::from(count)).map(|k| print(low + width * k)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_follow_the_weight() {
        let even: Vec<(String, f64)> = (0..=100).map(|i| (i.to_string(), if i < 100 { 1.0 } else { 0.0 })).collect();
        let even: Vec<(&str, f64)> = even.iter().map(|(v, w)| (v.as_str(), *w)).collect();
        assert_eq!(pick(&even, 4), ["25", "50", "75"]);
        assert_eq!(pick(&even, 1), Vec::<String>::new());
        // One value with most of the rows gets a part of its own.
        let skewed = [("a", 1.0), ("b", 1.0), ("heavy", 16.0), ("y", 1.0), ("z", 1.0)];
        assert_eq!(pick(&skewed, 4), ["heavy", "y"]);
        // Most at the very start.
        assert_eq!(pick(&[("1", 98.0), ("2", 1.0), ("3", 1.0)], 8), ["2"]);
        assert_eq!(pick(&[("1", 1.0), ("9223372036854775807", 1.0)], 8), ["9223372036854775807"]);
        assert_eq!(pick(&[("1", 1.0)], 8), Vec::<String>::new());
    }

    #[test]
    fn uuids_are_numbers() {
        let (zero, one, max) =
            ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff");
        assert_eq!(
            even_uuids(zero, max, 4),
            ["3fffffff-ffff-ffff-ffff-ffffffffffff", "7fffffff-ffff-ffff-ffff-fffffffffffe", "bfffffff-ffff-ffff-ffff-fffffffffffd"]
        );
        assert_eq!(even_uuids(zero, one, 64), [one]);
        assert_eq!(even_uuids(one, one, 4), Vec::<String>::new());
    }
}
