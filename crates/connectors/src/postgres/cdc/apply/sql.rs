//! Rows of changes as SQL: literals for few rows, COPY TEXT for many. Values are the source server's own text, which this one reads
//! back exactly; the type is the column's.

use super::super::pgoutput::{Value, value};
use super::table::TargetTable;
use crate::postgres::catalog::quote_literal;
use haul_model::{Error, ErrorKind, Result};

/// The values of a tuple.
///
/// # Errors
/// `Protocol`: it is none, has another number of values, or values that are no text.
pub fn values<'a>(tuple: &'a [u8], columns: usize) -> Result<Vec<Value<'a>>> {
    let mut rest = tuple;
    let values: Option<Vec<Value<'a>>> = (0..columns).map(|_| value(&mut rest)).collect();
    match values {
        Some(values) if rest.is_empty() && !values.iter().any(|v| matches!(v, Value::Binary(_))) => Ok(values),
        _ => Err(broken()),
    }
}

/// A value as a literal whose type the server infers.
///
/// # Errors
/// `Data`: it is not UTF-8.
pub fn literal(value: &Value<'_>, out: &mut String) -> Result<()> {
    match value {
        Value::Null | Value::Unchanged => out.push_str("NULL"),
        Value::Text(bytes) | Value::Binary(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::Data, "a text value is not UTF-8"))?;
            out.push_str(&quote_literal(text));
        }
    }
    Ok(())
}

/// Appends a field of COPY TEXT.
pub fn copy_field(value: &Value<'_>, out: &mut Vec<u8>) {
    let (Value::Text(bytes) | Value::Binary(bytes)) = value else {
        out.extend_from_slice(b"\\N");
        return;
    };
    let mut from = 0;
    let special = |b: &u8| matches!(b, b'\\' | b'\t' | b'\n' | b'\r');
    while let Some(at) = bytes[from..].iter().position(special) {
        let at = from + at;
        out.extend_from_slice(&bytes[from..at]);
        out.push(b'\\');
        out.push(match bytes[at] {
            b'\t' => b't',
            b'\n' => b'n',
            b'\r' => b'r',
            other => other,
        });
        from = at + 1;
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Appends a tuple as a row of COPY TEXT, without the line's end.
///
/// # Errors
/// As [`values`].
pub fn copy_tuple(tuple: &[u8], columns: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut rest = tuple;
    for i in 0..columns {
        if i > 0 {
            out.push(b'\t');
        }
        match value(&mut rest) {
            Some(Value::Binary(_)) | None => return Err(broken()),
            Some(value) => copy_field(&value, out),
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(broken()) }
}

/// Which values of a tuple are left out.
///
/// # Errors
/// As [`values`].
pub fn left_out(tuple: &[u8], columns: usize, out: &mut Vec<bool>) -> Result<()> {
    let mut rest = tuple;
    out.clear();
    for _ in 0..columns {
        out.push(value(&mut rest).ok_or_else(broken)? == Value::Unchanged);
    }
    Ok(())
}

fn broken() -> Error {
    Error::new(ErrorKind::Protocol, "the stream of changes is broken: a tuple cannot be understood")
}

/// `"k" = '1' AND ...` for the key of a row; NULLs match NULLs.
///
/// # Errors
/// As [`literal`].
pub fn key_condition(table: &TargetTable, values: &[Value<'_>], out: &mut String) -> Result<()> {
    for (n, &i) in table.key.iter().enumerate() {
        if n > 0 {
            out.push_str(" AND ");
        }
        out.push_str(&table.columns[i].sql);
        out.push_str(" = ");
        literal(&values[i], out)?;
    }
    Ok(())
}

/// The condition that one copy of a whole row meets, for tables without a key. Types without equality are compared as text.
///
/// # Errors
/// As [`literal`].
pub fn one_like(table: &TargetTable, values: &[Value<'_>], out: &mut String) -> Result<()> {
    out.push_str(&format!("ctid = (SELECT ctid FROM {} WHERE ", table.sql));
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(" AND ");
        }
        let column = &table.columns[i];
        match value {
            Value::Null | Value::Unchanged => out.push_str(&format!("{} IS NULL", column.sql)),
            value => {
                // By text: floats, JSON and geometry have no equality that means "the same value".
                let mut text = String::new();
                literal(value, &mut text)?;
                out.push_str(&format!("{}::pg_catalog.text = {text}::{}::pg_catalog.text", column.sql, column.type_name));
            }
        }
    }
    out.push_str(" LIMIT 1)");
    Ok(())
}

/// `INSERT INTO t (...) VALUES (...)`.
///
/// # Errors
/// As [`literal`].
pub fn insert(table: &TargetTable, rows: &[Vec<Value<'_>>], out: &mut String) -> Result<()> {
    out.push_str(&format!("INSERT INTO {} ({}) {}VALUES ", table.sql, table.list, table.overriding));
    for (n, row) in rows.iter().enumerate() {
        out.push_str(if n > 0 { ", (" } else { "(" });
        for (i, value) in row.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            literal(value, out)?;
        }
        out.push(')');
    }
    Ok(())
}

/// `UPDATE t SET ... WHERE`, without the condition. Unchanged values are left alone.
///
/// # Errors
/// As [`literal`].
pub fn update(table: &TargetTable, values: &[Value<'_>], with_key: bool, out: &mut String) -> Result<()> {
    out.push_str(&format!("UPDATE {} SET ", table.sql));
    let mut first = true;
    for (i, value) in values.iter().enumerate() {
        if *value == Value::Unchanged || !with_key && table.key.contains(&i) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        out.push_str(&table.columns[i].sql);
        out.push_str(" = ");
        literal(value, out)?;
    }
    if first {
        // Nothing but the key: the row is updated to itself.
        let column = &table.columns[table.key.first().copied().unwrap_or(0)].sql;
        out.push_str(&format!("{column} = {column}"));
    }
    out.push_str(" WHERE ");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_escaped_as_copy_reads_them() {
        let mut out = Vec::new();
        copy_tuple(b"t\0\0\0\x08a\tb\\c\nd\rnt\0\0\0\0ut\0\0\0\x05plain", 5, &mut out).unwrap();
        assert_eq!(out, b"a\\tb\\\\c\\nd\\r\t\\N\t\t\\N\tplain");
        let mut text = String::new();
        literal(&Value::Text(b"it's \\ fine"), &mut text).unwrap();
        assert_eq!(text, "E'it''s \\\\ fine'");
        assert!(literal(&Value::Text(b"\xff"), &mut text).is_err());
    }

    #[test]
    fn tuples_of_another_width_or_kind_are_refused() {
        assert_eq!(values(b"nt\0\0\0\x01x", 2).unwrap(), [Value::Null, Value::Text(b"x")]);
        for (tuple, columns) in [(&b"n"[..], 2), (b"nn", 1), (b"b\0\0\0\x01x", 1)] {
            assert!(values(tuple, columns).is_err() && copy_tuple(tuple, columns, &mut Vec::new()).is_err());
        }
    }
}
