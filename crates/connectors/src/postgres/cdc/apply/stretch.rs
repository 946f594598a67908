//! A stretch of changes, applied in one transaction: by its net effect where that is possible, else change by change in their order.
//!
//! The net effect is written table by table: rows that went, rows that changed, new rows. That order is not the source's, so a unique
//! constraint, an exclusion or a foreign key may object to a step that the end would not violate (two rows that swap a unique value).
//! Then everything goes back to the savepoint, and the same changes are made one by one, as the source made them.

use super::super::changes::{Record, Records, Told};
use super::super::pgoutput::{Tuples, Value};
use super::net::{Chunks, Fate, Net, Taken, Tuple};
use super::sql;
use super::table::TargetTable;
use super::writer::Lane;
use crate::postgres::session;
use bytes::Bytes;
use haul_model::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// So many rows are written as literals; more of them by COPY.
const FEW: usize = 64;
/// Statements of a replay that are sent at once.
const AT_ONCE: usize = 200;

/// One change, with its table.
enum Change {
    Row { op: u8, old: Option<Tuple>, new: Option<Tuple> },
    Truncate,
}

/// Applies the changes of these chunks in the transaction that is open; how many there were.
///
/// # Errors
/// The server's; a change that does not fit the target.
pub fn apply(lane: &mut Lane, chunks: &[Bytes]) -> Result<u64> {
    // What tables and columns are made now stays when the savepoint takes the rest back.
    prepare(lane, chunks)?;
    lane.run("SAVEPOINT haul_stretch")?;
    match by_net(lane, chunks) {
        Ok(count) => {
            lane.run("RELEASE SAVEPOINT haul_stretch")?;
            Ok(count)
        }
        Err(error) if matches!(error.code_text(), Some("23505" | "23503" | "23P01" | "27000" | "21000")) => {
            lane.run("ROLLBACK TO SAVEPOINT haul_stretch")?;
            let count = one_by_one(lane, chunks)?;
            lane.run("RELEASE SAVEPOINT haul_stretch")?;
            Ok(count)
        }
        Err(error) => Err(error),
    }
}

/// Looks for the tables of all shapes, and sees to what rows of a snapshot meet in them.
fn prepare(lane: &mut Lane, chunks: &[Bytes]) -> Result<()> {
    for chunk in chunks {
        let mut tables: HashMap<u32, Arc<TargetTable>> = HashMap::new();
        let mut of_snapshot = false;
        for record in Records::new(chunk) {
            match record.map_err(|_| broken())? {
                Record::Begin(head) => of_snapshot = head.xid == 0,
                Record::Shape { id, body } => {
                    let told = Told::parse(body).ok_or_else(broken)?;
                    tables.insert(id, lane.table(id, &told)?);
                }
                Record::Truncate { shape } if of_snapshot => lane.begins_again(tables.get(&shape).ok_or_else(broken)?)?,
                Record::Row { op: b'S', shape, .. } => {
                    if let Some(table) = tables.remove(&shape) {
                        lane.meet(&table)?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn broken() -> Error {
    Error::new(ErrorKind::Protocol, "the stream of changes is broken: a chunk cannot be understood")
}

/// Walks over the changes in their order.
fn walk(lane: &mut Lane, chunks: &[Bytes], mut each: impl FnMut(&mut Lane, &Arc<TargetTable>, Change) -> Result<()>) -> Result<u64> {
    let mut count = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        let base = chunk.as_ptr() as usize;
        let part = |bytes: &[u8]| {
            let at = bytes.as_ptr() as usize - base;
            Tuple::Part(number as u32, at as u32, (at + bytes.len()) as u32)
        };
        let mut tables: HashMap<u32, Arc<TargetTable>> = HashMap::new();
        for record in Records::new(chunk) {
            let (id, change) = match record.map_err(|_| broken())? {
                Record::Begin(_) | Record::Commit { .. } => continue,
                Record::Shape { id, body } => {
                    let told = Told::parse(body).ok_or_else(broken)?;
                    tables.insert(id, lane.table(id, &told)?);
                    continue;
                }
                Record::Truncate { shape } => (shape, Change::Truncate),
                Record::Row { op, shape, tuples } => {
                    let table = tables.get(&shape).ok_or_else(broken)?;
                    let tuples = Tuples::parse(tuples, table.columns.len()).ok_or_else(broken)?;
                    // Where the whole old row is there, an update leaves nothing out.
                    let whole = tuples.old.filter(|(kind, _)| *kind == b'O').map(|(_, old)| old);
                    let new = match (tuples.new, whole) {
                        (Some(new), Some(old)) => {
                            Some(completed(new, old, table.columns.len()).map_or_else(|| part(new), |own| Tuple::Own(own.into())))
                        }
                        (new, _) => new.map(part),
                    };
                    (shape, Change::Row { op, old: tuples.old.map(|(_, old)| part(old)), new })
                }
            };
            let table = Arc::clone(tables.get(&id).ok_or_else(broken)?);
            each(lane, &table, change)?;
            count += 1;
        }
    }
    Ok(count)
}

/// A tuple with what it leaves out taken from the old row; `None`: nothing is left out.
fn completed(new: &[u8], old: &[u8], columns: usize) -> Option<Vec<u8>> {
    use super::super::pgoutput::value;
    let (mut a, mut b, mut out, mut partial) = (new, old, Vec::new(), false);
    for _ in 0..columns {
        let (from_a, from_b) = (a, b);
        let unchanged = value(&mut a)? == Value::Unchanged;
        value(&mut b)?;
        let (from, rest) = if unchanged { (from_b, b) } else { (from_a, a) };
        out.extend_from_slice(&from[..from.len() - rest.len()]);
        partial |= unchanged;
    }
    partial.then_some(out)
}

fn by_net(lane: &mut Lane, chunks: &[Bytes]) -> Result<u64> {
    let mut nets: Vec<Net> = Vec::new();
    let mut emptied: Vec<Arc<TargetTable>> = Vec::new();
    let count = walk(lane, chunks, |lane, table, change| match change {
        Change::Truncate => {
            flush(lane, &mut nets, chunks)?;
            emptied.push(Arc::clone(table));
            Ok(())
        }
        Change::Row { op, old, new } => {
            truncate(lane, &mut emptied)?;
            // Changes of rows that the snapshot has brought come after those rows.
            if op != b'S' && !table.key.is_empty() && nets.iter().any(|net| net.table.oid == table.oid && !net.rows.is_empty()) {
                flush(lane, &mut nets, chunks)?;
            }
            let at = match nets.iter().position(|net| Arc::ptr_eq(&net.table, table)) {
                Some(at) => at,
                None => {
                    // Another shape of the same table begins: its rows come after those of the one before.
                    if nets.iter().any(|net| net.table.oid == table.oid) {
                        flush(lane, &mut nets, chunks)?;
                    }
                    nets.push(Net::new(Arc::clone(table)));
                    nets.len() - 1
                }
            };
            if nets[at].take(op, old.clone(), new.clone(), chunks)? == Taken::Alone {
                flush(lane, &mut nets, chunks)?;
                let mut sql = String::new();
                statement(table, op, old.as_ref(), new.as_ref(), chunks, &mut sql)?;
                send(lane, &sql, &[(op, Arc::clone(table))])?;
            }
            Ok(())
        }
    })?;
    truncate(lane, &mut emptied)?;
    flush(lane, &mut nets, chunks)?;
    Ok(count)
}

fn one_by_one(lane: &mut Lane, chunks: &[Bytes]) -> Result<u64> {
    let (mut sql, mut ops, mut emptied) = (String::new(), Vec::new(), Vec::new());
    let count = walk(lane, chunks, |lane, table, change| {
        match change {
            Change::Truncate => {
                send(lane, &std::mem::take(&mut sql), &std::mem::take(&mut ops))?;
                emptied.push(Arc::clone(table));
            }
            Change::Row { op, old, new } => {
                truncate(lane, &mut emptied)?;
                statement(table, op, old.as_ref(), new.as_ref(), chunks, &mut sql)?;
                ops.push((op, Arc::clone(table)));
                if ops.len() >= AT_ONCE {
                    send(lane, &std::mem::take(&mut sql), &std::mem::take(&mut ops))?;
                }
            }
        }
        Ok(())
    })?;
    truncate(lane, &mut emptied)?;
    send(lane, &sql, &ops)?;
    Ok(count)
}

/// Appends the statement that makes one change.
fn statement(table: &TargetTable, op: u8, old: Option<&Tuple>, new: Option<&Tuple>, chunks: &Chunks, out: &mut String) -> Result<()> {
    let width = table.columns.len();
    let new_bytes = new.map(|t| t.bytes(chunks));
    let old_bytes = old.map(|t| t.bytes(chunks));
    let condition = |from: &[u8], out: &mut String| {
        let values = sql::values(from, width)?;
        if table.key.is_empty() { sql::one_like(table, &values, out) } else { sql::key_condition(table, &values, out) }
    };
    match (op, new_bytes, old_bytes) {
        (b'I' | b'S', Some(new), _) => sql::insert(table, &[sql::values(new, width)?], out)?,
        (b'U', Some(new), old) => {
            let values = sql::values(new, width)?;
            sql::update(table, &values, old.is_some(), out)?;
            condition(old.unwrap_or(new), out)?;
        }
        (b'D', _, Some(old)) => {
            out.push_str(&format!("DELETE FROM {} WHERE ", table.sql));
            condition(old, out)?;
        }
        _ => {
            return Err(Error::new(ErrorKind::Protocol, "the stream of changes is broken: a change without its row").object(&table.display));
        }
    }
    out.push_str(";\n");
    Ok(())
}

/// Runs statements, of which each must change one row.
fn send(lane: &mut Lane, sql: &str, ops: &[(u8, Arc<TargetTable>)]) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    let counts = lane.counts(sql).map_err(|e| e.object(&ops[0].1.display))?;
    for ((op, table), count) in ops.iter().zip(counts) {
        match (op, count) {
            (_, 1) => {}
            // Deleted there already: what was wanted is so.
            (b'D', 0) => lane.missed(1),
            (_, 0) => return Err(gone(table)),
            (_, n) => {
                return Err(Error::new(ErrorKind::Mismatch, format!("{n} rows of the target have the key of one row of the source"))
                    .object(&table.display)
                    .hint("the key is not unique in the target: give it the source's primary key"));
            }
        }
    }
    Ok(())
}

fn gone(table: &TargetTable) -> Error {
    Error::new(ErrorKind::Mismatch, "a row that the source has changed is not in the target")
        .object(&table.display)
        .hint("somebody else writes to the target, or it was not filled by this job: begin again with a snapshot")
}

/// Empties tables that the source has emptied together.
fn truncate(lane: &mut Lane, emptied: &mut Vec<Arc<TargetTable>>) -> Result<()> {
    if emptied.is_empty() {
        return Ok(());
    }
    let tables = std::mem::take(emptied);
    let list = tables.iter().map(|t| t.sql.as_str()).collect::<Vec<_>>().join(", ");
    lane.run("SAVEPOINT haul_truncate")?;
    match lane.run(&format!("TRUNCATE {list}")) {
        Ok(()) => lane.run("RELEASE SAVEPOINT haul_truncate"),
        // Another table refers to it: its rows go one by one, under the eyes of the foreign key.
        Err(error) if error.code_text() == Some("0A000") => {
            lane.run("ROLLBACK TO SAVEPOINT haul_truncate; RELEASE SAVEPOINT haul_truncate")?;
            let deletes: Vec<String> = tables.iter().rev().map(|t| format!("DELETE FROM {}", t.sql)).collect();
            lane.run(&deletes.join("; ")).map_err(|e| e.object(&tables[0].display))
        }
        Err(error) => Err(error.object(&tables[0].display)),
    }
}

/// Writes the net effect, and forgets it.
fn flush(lane: &mut Lane, nets: &mut Vec<Net>, chunks: &Chunks) -> Result<()> {
    for net in std::mem::take(nets) {
        let table = Arc::clone(&net.table);
        write(lane, net, chunks).map_err(|e| e.object(&table.display))?;
    }
    Ok(())
}

fn write(lane: &mut Lane, net: Net, chunks: &Chunks) -> Result<()> {
    if net.is_empty() {
        return Ok(());
    }
    let table = Arc::clone(&net.table);
    let (mut new, mut changed, mut gone) = (net.rows, Vec::new(), Vec::new());
    for entry in net.entries {
        match entry.fate {
            Fate::Put(tuple) if entry.born => new.push(tuple),
            Fate::Put(tuple) => changed.push(tuple),
            Fate::Gone if entry.born => {}
            Fate::Gone => gone.push(entry.key),
        }
    }
    if changed.len() + gone.len() > FEW {
        by_staging(lane, &table, &changed, &gone, chunks)?;
    } else if !changed.is_empty() || !gone.is_empty() {
        let (mut sql, mut ops) = (String::new(), Vec::new());
        for tuple in &gone {
            statement(&table, b'D', Some(tuple), None, chunks, &mut sql)?;
            ops.push((b'D', Arc::clone(&table)));
        }
        for tuple in &changed {
            statement(&table, b'U', None, Some(tuple), chunks, &mut sql)?;
            ops.push((b'U', Arc::clone(&table)));
        }
        send(lane, &sql, &ops)?;
    }
    insert(lane, &table, &new, chunks)
}

/// New rows: as they are into the table.
fn insert(lane: &mut Lane, table: &TargetTable, new: &[Tuple], chunks: &Chunks) -> Result<()> {
    let width = table.columns.len();
    if new.is_empty() {
        return Ok(());
    }
    // COPY writes identity columns that are always generated; INSERT has to be told to.
    let count = if new.len() <= FEW {
        let rows: Vec<Vec<Value<'_>>> = new.iter().map(|t| sql::values(t.bytes(chunks), width)).collect::<Result<_>>()?;
        let mut text = String::new();
        sql::insert(table, &rows, &mut text)?;
        lane.counts(&text)?.first().copied().unwrap_or(0)
    } else {
        let copy = format!("COPY {} ({}) FROM STDIN", table.sql, table.list);
        lane.copy(&copy, new.iter().map(|t| t.bytes(chunks)), |tuple, out| sql::copy_tuple(tuple, width, out))?
    };
    if count == new.len() as u64 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Server, format!("the target took {count} of {} new rows without an error", new.len()))
        .hint("does a trigger or rule of the table skip rows?"))
}

/// Rows that changed or went, through a staging table of the session.
fn by_staging(lane: &mut Lane, table: &TargetTable, changed: &[Tuple], gone: &[Tuple], chunks: &Chunks) -> Result<()> {
    let width = table.columns.len();
    let stage = lane.stage(table)?;
    // Updates that leave out the same columns are one statement.
    let (mut masks, mut mask): (Vec<Vec<bool>>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut numbers: Vec<usize> = Vec::with_capacity(changed.len());
    for tuple in changed {
        sql::left_out(tuple.bytes(chunks), width, &mut mask)?;
        numbers.push(masks.iter().position(|m| *m == mask).unwrap_or_else(|| {
            masks.push(mask.clone());
            masks.len() - 1
        }));
    }
    let rows = gone.iter().map(|t| (t, -1i64)).chain(changed.iter().zip(numbers.iter().map(|n| *n as i64)));
    let copy = format!("COPY {} (haul_kind, {}) FROM STDIN", stage, table.list);
    lane.copy(&copy, rows.map(|(t, n)| (t.bytes(chunks), n)), |(tuple, kind), out| {
        out.extend_from_slice(kind.to_string().as_bytes());
        out.push(b'\t');
        sql::copy_tuple(tuple, width, out)
    })?;
    let on = |a: &str| table.key.iter().map(|&k| format!("{a}.{0} = s.{0}", table.columns[k].sql)).collect::<Vec<_>>().join(" AND ");
    if !gone.is_empty() {
        let sql = format!("DELETE FROM {} t USING {stage} s WHERE s.haul_kind = -1 AND {}", table.sql, on("t"));
        let deleted = lane.counts(&sql)?.first().copied().unwrap_or(0);
        lane.missed((gone.len() as u64).saturating_sub(deleted));
    }
    for (number, mask) in masks.iter().enumerate() {
        let mut set: Vec<String> =
            (0..width).filter(|i| !mask[*i] && !table.key.contains(i)).map(|i| format!("{0} = s.{0}", table.columns[i].sql)).collect();
        if set.is_empty() {
            set.push(format!("{0} = s.{0}", table.columns[table.key[0]].sql));
        }
        let sql = format!("UPDATE {} t SET {} FROM {stage} s WHERE s.haul_kind = {number} AND {}", table.sql, set.join(", "), on("t"));
        let updated = lane.counts(&sql)?.first().copied().unwrap_or(0);
        let wanted = numbers.iter().filter(|n| **n == number).count() as u64;
        if updated != wanted {
            return Err(self::gone(table).context(format!("{wanted} rows were to be updated, and {updated} were")));
        }
    }
    lane.run(&format!("TRUNCATE {stage}"))
}

impl Lane {
    /// COPY from rows that `print` writes; the rows that the server counted.
    fn copy<T>(&mut self, sql: &str, rows: impl Iterator<Item = T>, print: impl Fn(T, &mut Vec<u8>) -> Result<()>) -> Result<u64> {
        const BLOCK: usize = 128 << 10;
        let mut buffer = Vec::with_capacity(BLOCK + 4096);
        let mut copy = self.session().connection().copy_in(sql).map_err(session::error)?;
        for row in rows {
            print(row, &mut buffer)?;
            buffer.push(b'\n');
            if buffer.len() >= BLOCK {
                copy.write_data(&buffer).map_err(session::error)?;
                buffer.clear();
            }
        }
        if !buffer.is_empty() {
            copy.write_data(&buffer).map_err(session::error)?;
        }
        copy.finish().map(|(rows, _)| rows).map_err(session::error)
    }
}
