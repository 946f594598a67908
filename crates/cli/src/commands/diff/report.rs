//! What was found, for people and for programs.

use crate::render::{Table, count};
use haul_engine::diff::{Found, Report, Row, What};
use serde_json::{Map, Value, json};

/// Differing columns that are told by name in one line.
const NAMED: usize = 5;

fn listed(names: &[String]) -> String {
    match names.len().checked_sub(NAMED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMED].join(", ")),
    }
}

fn rows(n: u64, what: &str) -> Option<String> {
    (n > 0).then(|| format!("{} {} {what}", count(n), if n == 1 { "row" } else { "rows" }))
}

/// The difference in a line.
pub fn summary(report: &Report) -> String {
    let mut parts = Vec::new();
    if let Some(found) = &report.found {
        let least = if found.complete { "" } else { "at least " };
        let counts = [rows(found.missing, "missing in B"), rows(found.extra, "only in B"), rows(found.changed, "with other values")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        parts.push(match counts.is_empty() {
            true => "the same values, written in another way".to_string(),
            false => format!("{least}{}", counts.join(", ")),
        });
    } else if report.rows[0] != report.rows[1] {
        parts.push(format!("{} rows and {} rows", count(report.rows[0]), count(report.rows[1])));
    } else if !report.same_rows {
        let names: Vec<String> = report.columns.iter().filter(|c| !c.equal).map(|c| format!("{:?}", c.name)).collect();
        parts.push(match names.is_empty() {
            true => "every column holds the same values, but some of them in other rows".into(),
            false => format!("other values in {}", listed(&names)),
        });
    }
    for (side, only) in ["A", "B"].into_iter().zip(&report.only) {
        if !only.is_empty() {
            parts.push(format!("only {side} has {}", listed(&only.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>())));
        }
    }
    parts
        .extend(report.incomparable.iter().map(|c| format!("{:?} is {} and {}, which cannot be compared", c.name, c.types[0], c.types[1])));
    parts.join("; ")
}

/// All of it, for people.
pub fn text(report: &Report) -> String {
    let way = if report.exact { "byte for byte" } else { "by value" };
    let columns = report.columns.len();
    if report.is_equal() {
        return format!("equal: {} rows, {columns} columns, {way}\n", count(report.rows[0]));
    }
    let mut out = String::new();
    for (side, (name, rows)) in ["A", "B"].into_iter().zip(report.names.iter().zip(report.rows)) {
        out.push_str(&format!("{side}  {name}: {} rows\n", count(rows)));
    }
    out.push_str(&format!("{columns} columns compared {way}"));
    out.push_str(&match report.key.is_empty() {
        true => "\n".to_string(),
        false => format!(", rows told apart by {}\n", report.key.join(", ")),
    });
    out.push_str(&differing_columns(report));
    match &report.found {
        Some(found) => out.push_str(&shown(found, &report.key)),
        None if !report.same_rows => out.push_str(&known(report)),
        None => out.push_str("\nthe compared columns hold the same rows\n"),
    }
    out
}

/// The columns whose sums differ, and those that could not be compared.
fn differing_columns(report: &Report) -> String {
    let mut table = Table::new(&["column", "found", "NULLs in A", "NULLs in B"]).right(&[2, 3]);
    let mut any = false;
    // One row more or less makes all of them differ.
    let told = report.found.as_ref().is_none_or(|found| found.missing + found.extra == 0);
    for column in report.columns.iter().filter(|column| told && !column.equal) {
        any = true;
        table.row(vec![column.name.clone(), "other values".into(), count(column.nulls[0]), count(column.nulls[1])]);
    }
    for (side, only) in ["A", "B"].into_iter().zip(&report.only) {
        for name in only {
            any = true;
            table.row(vec![name.clone(), format!("only in {side}")]);
        }
    }
    for column in &report.incomparable {
        any = true;
        table.row(vec![column.name.clone(), format!("not compared: {} and {}", column.types[0], column.types[1])]);
    }
    if any { format!("\n{}", table.render()) } else { String::new() }
}

/// What checksums alone tell.
fn known(report: &Report) -> String {
    let rows = match report.rows[0] == report.rows[1] {
        true => "both sides have as many rows".to_string(),
        false => format!("A has {} rows, B {}", count(report.rows[0]), count(report.rows[1])),
    };
    let columns = match report.columns.iter().filter(|c| !c.equal).count() {
        0 => "every column holds the same values, but some of them in other rows".to_string(),
        n => format!("{n} of {} columns do not hold the same values", report.columns.len()),
    };
    format!("\nknown: {rows}; {columns}. Which rows these are is not known: there is no key.\n")
}

fn shown(found: &Found, key: &[String]) -> String {
    let mut out = String::from("\n");
    for row in &found.shown {
        let id: Vec<String> = key.iter().zip(&row.key).map(|(name, value)| format!("{name} = {}", short(value))).collect();
        let id = id.join(", ");
        match &row.what {
            What::Missing(_) => out.push_str(&format!("missing in B  {id}\n")),
            What::Extra(_) => out.push_str(&format!("only in B     {id}\n")),
            What::Changed(columns) => {
                out.push_str(&format!("other values  {id}\n"));
                for (name, a, b) in columns {
                    let (a, b) = apart(a, b);
                    out.push_str(&format!("                {name}: {a} in A, {b} in B\n"));
                }
            }
        }
    }
    let all = found.missing + found.extra + found.changed;
    let more = all.saturating_sub(found.shown.len() as u64);
    if more > 0 {
        out.push_str(&format!("... and {} more (--show N shows more)\n", count(more)));
    }
    if found.repeated > 0 {
        out.push_str(&format!("note: several rows of a side have the same key, {} times among these\n", count(found.repeated)));
    }
    if !found.complete {
        out.push_str("note: there is more than could be matched at a time; compare again after a repair\n");
    }
    out
}

/// JSON text in a line of its own, cut.
fn short(value: &str) -> String {
    const MOST: usize = 60;
    let value = if value == "null" { "NULL" } else { value };
    if value.chars().count() > MOST { value.chars().take(MOST - 1).chain(['\u{2026}']).collect() } else { value.to_string() }
}

/// Two values, cut so that the place where they part is seen.
fn apart(a: &str, b: &str) -> (String, String) {
    const BEFORE: usize = 20;
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    if same <= 2 * BEFORE || a.chars().count().max(b.chars().count()) <= 60 {
        return (short(a), short(b));
    }
    let tail = |text: &str| short(&['\u{2026}'].into_iter().chain(text.chars().skip(same - BEFORE)).collect::<String>());
    (tail(a), tail(b))
}

/// A value as it is, or its text where a JSON reader would bend it.
fn value(text: &str) -> Value {
    let bent = |value: &Value| {
        (value.is_number() || value.is_array() || value.is_object()) && serde_json::to_string(value).ok().as_deref() != Some(text)
    };
    serde_json::from_str::<Value>(text).ok().filter(|value| !bent(value)).unwrap_or_else(|| Value::from(text))
}

fn named(names: impl Iterator<Item = String>, values: &[String]) -> Value {
    Value::Object(names.zip(values).map(|(name, text)| (name, value(text))).collect::<Map<_, _>>())
}

fn row(report: &Report, row: &Row) -> Value {
    let key = named(report.key.iter().cloned(), &row.key);
    let whole = |values: &[String]| named(report.columns.iter().map(|c| c.name.clone()), values);
    match &row.what {
        What::Missing(values) => json!({"what": "missing", "key": key, "row": whole(values)}),
        What::Extra(values) => json!({"what": "extra", "key": key, "row": whole(values)}),
        What::Changed(columns) => {
            let columns = columns.iter().map(|(name, a, b)| (name.clone(), json!({"a": value(a), "b": value(b)})));
            json!({"what": "different", "key": key, "columns": Value::Object(columns.collect())})
        }
    }
}

/// All of it, for programs.
pub fn json(report: &Report, seconds: f64) -> Value {
    let columns = report.columns.iter().map(|c| json!({"name": c.name, "equal": c.equal, "nulls_a": c.nulls[0], "nulls_b": c.nulls[1]}));
    let incomparable = report.incomparable.iter().map(|c| json!({"name": c.name, "type_a": c.types[0], "type_b": c.types[1]}));
    let side = |number: usize| json!({"name": report.names[number], "rows": report.rows[number], "only_there": report.only[number]});
    json!({
        "status": if report.is_equal() { "equal" } else { "different" },
        "a": side(0),
        "b": side(1),
        "byte_for_byte": report.exact,
        "key": report.key,
        "columns": columns.collect::<Vec<_>>(),
        "not_compared": incomparable.collect::<Vec<_>>(),
        "same_rows": report.same_rows,
        "differences": report.found.as_ref().map(|found| json!({
            "missing": found.missing, "extra": found.extra, "different": found.changed, "repeated_keys": found.repeated,
            "complete": found.complete, "first": found.shown.iter().map(|r| row(report, r)).collect::<Vec<_>>(),
        })),
        "seconds": seconds,
    })
}
