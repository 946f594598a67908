//! The proof that rows which were read before are the rows that are there now.
//!
//! A snapshot dies with its session, so a later run has another one. What a finished split gave then is what it would give now if
//!
//! - the table's files are the same ones (the same cluster on the same timeline, table and file numbers, no partition more or less),
//! - no row in the split was inserted or updated by a transaction that the first snapshot could not surely see. Sure are those before the
//!   oldest one that was still going on (in this database: others cannot write here). Of later ones the snapshot knows only the top
//!   numbers, and a row may carry that of a subtransaction, so they all count as unseen. Such a row's `xmin` lies between there and the
//!   next number that will be given out, also when it was frozen since,
//! - and the split has as many rows as were counted then: none was deleted, so none moved into a part that is still to be read.
//!
//! All this is asked under the snapshot of the new read, in its transaction. With a condition of the user's own (`where`) the same rows may
//! pass at one time and not at another, so nothing can be proven.

use super::catalog::{RelationKind, quote_literal};
use super::discover::Leaf;
use super::session::Session;
use super::source::{PostgresSource, What};
use super::splits::Part;
use haul_model::{Earlier, Error, ReadPlan, Reading, Result, Reuse};
use std::fmt::Write;

const VERSION: &str = "postgres 1";

const ELSEWHERE_NOW: &str = "the source is another server, or was restored or promoted meanwhile";

/// What a read can be recognised by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Proof {
    /// Cluster and database, where the role may ask; its timeline too.
    cluster: String,
    /// The user's condition: it proves nothing.
    condition: Option<String>,
    /// Every transaction before this one had ended.
    seen_before: u64,
    /// The next transaction's number was this.
    next: u64,
    /// OID, file and name of each table.
    tables: Vec<(u32, u32, String)>,
}

impl Proof {
    /// Of the snapshot that the session is in.
    ///
    /// # Errors
    /// The server's.
    pub fn take(session: &mut Session, cluster: Option<&str>, condition: Option<&str>, leaves: &[Leaf]) -> Result<Self> {
        let row = session.row("SELECT pg_catalog.txid_current_snapshot()::pg_catalog.text", &[])?;
        let snapshot = row.map(|row| row.text(0).to_string()).unwrap_or_default();
        let elsewhere = session.query(ELSEWHERE, &[])?;
        let elsewhere: Vec<u64> = elsewhere.iter().filter_map(|row| row.parse(0)).collect();
        let (seen_before, next) =
            horizon(&snapshot, &elsewhere).ok_or_else(|| Error::internal(format!("{snapshot:?} is not a snapshot")))?;
        let allowed = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')";
        let timeline = match session.row(allowed, &[])?.is_some_and(|row| row.flag(0)) {
            true => session.row("SELECT timeline_id::pg_catalog.text FROM pg_catalog.pg_control_checkpoint()", &[])?,
            false => None,
        };
        let timeline = timeline.map(|row| row.text(0).to_string()).unwrap_or_default();
        let mut tables = Vec::new();
        // A few hundred at a time: a tree of partitions may have many thousands.
        for some in leaves.chunks(500) {
            let names: Vec<String> = some.iter().map(|leaf| format!("({})", quote_literal(&leaf.sql))).collect();
            let sql = format!(
                "SELECT n, c::pg_catalog.oid::pg_catalog.text, pg_catalog.pg_relation_filenode(c)::pg_catalog.text \
                 FROM (SELECT n, pg_catalog.to_regclass(n) AS c FROM (VALUES {}) v(n)) q",
                names.join(", ")
            );
            for row in session.query(&sql, &[])?.iter() {
                tables.push((row.parse(1).unwrap_or(0), row.parse(2).unwrap_or(0), row.text(0).to_string()));
            }
        }
        tables.sort();
        Ok(Self {
            cluster: format!("{} {timeline}", cluster.unwrap_or("")),
            condition: condition.map(str::to_string),
            seen_before,
            next,
            tables,
        })
    }

    /// As text, to be stored.
    pub fn text(&self) -> String {
        let mut out = format!("{VERSION}\ncluster {}\nseen {}\n", self.cluster, self.seen_before);
        if let Some(condition) = &self.condition {
            let _ = writeln!(out, "where {}", condition.replace('\n', " "));
        }
        for (oid, file, name) in &self.tables {
            let _ = writeln!(out, "table {oid} {file} {}", name.replace('\n', "\\n"));
        }
        out
    }

    /// From such a text; `None` for that of another version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut proof = Self::default();
        if lines.next()? != VERSION {
            return None;
        }
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "cluster" => proof.cluster = value.into(),
                "seen" => proof.seen_before = value.parse().ok()?,
                "where" => proof.condition = Some(value.into()),
                "table" => {
                    let mut parts = value.splitn(3, ' ');
                    let (oid, file) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                    proof.tables.push((oid, file, parts.next()?.replace("\\n", "\n")));
                }
                _ => return None,
            }
        }
        (proof.seen_before > 0).then_some(proof)
    }

    /// Why `now` cannot be the same source, as far as the catalog tells.
    fn differs(&self, now: &Self) -> Option<String> {
        if self.cluster != now.cluster {
            return Some(ELSEWHERE_NOW.into());
        }
        if self.tables != now.tables {
            let gone = self
                .tables
                .iter()
                .find(|table| !now.tables.contains(table))
                .or_else(|| now.tables.iter().find(|t| !self.tables.contains(t)));
            let name = gone.map(|(_, _, name)| name.as_str()).unwrap_or_default();
            return Some(format!("{name} was rewritten, truncated, made or dropped since the first try"));
        }
        if now.next < self.seen_before || now.next - self.seen_before >= 1 << 31 {
            return Some("too many transactions have passed since the first try to tell old rows from new ones".into());
        }
        None
    }

    /// Select list that counts the rows, and those that the first snapshot could not surely see.
    fn counts(&self, now: &Self) -> String {
        const WRAP: u64 = 1 << 32;
        let (from, range) = (self.seen_before % WRAP, now.next - self.seen_before);
        format!(
            "pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE (xmin::pg_catalog.text::pg_catalog.int8 - {from} + {WRAP}) % {WRAP} < {range})"
        )
    }
}

/// Transactions that are going on and write no rows here: those of other databases, and of autovacuum (their numbers without the epoch).
pub(super) const ELSEWHERE: &str = "\
    SELECT backend_xid::pg_catalog.text FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL \
    AND (datname <> pg_catalog.current_database() OR backend_type = 'autovacuum worker') \
    UNION ALL SELECT transaction::pg_catalog.text FROM pg_catalog.pg_prepared_xacts WHERE database <> pg_catalog.current_database()";

/// From a snapshot `xmin:xmax:one,two`: before which transaction all of this database had ended, and the next number.
pub(super) fn horizon(snapshot: &str, elsewhere: &[u64]) -> Option<(u64, u64)> {
    let mut parts = snapshot.split(':');
    let (_, next) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let mut oldest = next;
    for running in parts.next()?.split(',').filter(|text| !text.is_empty()) {
        let running: u64 = running.parse().ok()?;
        if !elsewhere.contains(&(running % (1 << 32))) {
            oldest = oldest.min(running);
        }
    }
    Some((oldest, next))
}

/// Whether a read can be proven unchanged later at all: tables with rows of their own, all of them seen.
pub(super) fn provable(kind: RelationKind, leaves: &[Leaf]) -> bool {
    matches!(kind, RelationKind::Table | RelationKind::Partitioned) && !leaves.is_empty() && leaves.iter().all(|leaf| leaf.heap)
}

/// The verdict on an earlier read: `Ok(Ok(proven))`, or why it cannot be used. `select` makes the statement for a list and a part.
///
/// # Errors
/// The server's.
pub(super) fn verdict(
    session: &mut Session,
    earlier: &Earlier,
    now: &Proof,
    select: impl Fn(&str, &Part) -> Result<String>,
) -> Result<Result<bool, String>> {
    let Some(then) = Proof::parse(&earlier.fingerprint) else {
        return Ok(Err("the first try was made by another version".into()));
    };
    let mut parts = Vec::new();
    for done in &earlier.done {
        let Some(split) = earlier.splits.iter().find(|split| split.id == done.split) else {
            return Ok(Err(format!("the state does not know split {}, which the target has", done.split)));
        };
        parts.push((done, Part::parse(&split.what)?));
    }
    if !parts.is_empty() && then.cluster != now.cluster {
        return Ok(Err(ELSEWHERE_NOW.into()));
    }
    let changed = if parts.is_empty() {
        None
    } else if then.condition.is_some() {
        Some("whether the same rows pass the condition (where) cannot be proven".to_string())
    } else if let Some(why) = then.differs(now) {
        Some(why)
    } else {
        first_change(session, &then.counts(now), &parts, select)?
    };
    Ok(match changed {
        None => Ok(true),
        Some(_) if earlier.stale_ok && parts.iter().all(|(_, part)| part.is_by_key()) => Ok(false),
        Some(why) if earlier.stale_ok => Err(format!("{why}; stale-ok needs splits by key, and these are ranges of pages")),
        Some(why) => Err(why),
    })
}

/// The first finished split that is not as it was.
fn first_change(
    session: &mut Session,
    list: &str,
    parts: &[(&haul_model::SplitDone, Part)],
    select: impl Fn(&str, &Part) -> Result<String>,
) -> Result<Option<String>> {
    for (done, part) in parts {
        let row = session.row(&select(list, part)?, &[])?.ok_or_else(|| Error::internal("a count without a row"))?;
        let (Some(count), Some(unseen)) = (row.parse::<u64>(0), row.parse::<u64>(1)) else {
            return Err(Error::internal("counts that are no numbers"));
        };
        if unseen > 0 {
            return Ok(Some(format!("{part}: {unseen} rows were inserted or updated since (or while) it was read")));
        }
        if count != done.read {
            return Ok(Some(format!("{part}: it had {} rows when it was read, and has {count} now", done.read)));
        }
    }
    Ok(None)
}

impl PostgresSource {
    /// The proof of the snapshot that the session is in, if there can be one.
    pub(super) fn take_proof(&self, session: &mut Session) -> Result<Option<Proof>> {
        match &self.what {
            What::Relation(relation) if provable(relation.kind, &self.leaves) && !relation.row_security => {
                Proof::take(session, self.identity.as_deref(), self.reads.condition.as_deref(), &self.leaves).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Plans in place of `plan`: an earlier read's splits, if what was read of them is what is there now.
    pub(super) fn go_on(&mut self, reading: &Reading, earlier: &Earlier) -> Result<Reuse> {
        let Some(mut leader) = self.leader.take() else { return Err(Error::internal("a PostgreSQL source was planned twice")) };
        let Some(now) = self.take_proof(&mut leader)? else {
            return Ok(Reuse::No("the source is no table of its own any more".into()));
        };
        let select = |list: &str, part: &Part| Ok(self.select(list, part.condition(self.all_columns())?, part, false));
        let proven = match verdict(&mut leader, earlier, &now, select)? {
            Ok(proven) => proven,
            Err(why) => return Ok(Reuse::No(why)),
        };
        let open = earlier.splits.len() - earlier.done.len();
        let wanted = if reading.degree == 0 { self.env.cores.max(1) } else { reading.degree };
        let mut notes = Vec::new();
        let lanes = self.fitting(&mut leader, wanted.min(open).max(1), &mut notes)?;
        let lanes = self.start_lanes(leader, lanes, &mut notes)?;
        self.reading = Some(reading.clone());
        self.proof = Some(now);
        let method = format!("the {open} open ones of {} splits over {lanes} connections under one new snapshot", earlier.splits.len());
        let plan = ReadPlan { splits: earlier.splits.clone(), method, lanes, network: true, notes };
        let consistency = match proven {
            true => "the source is proven unchanged in them, so the whole is one snapshot",
            false => "the source may have changed since (stale-ok): each split is whole at its own instant",
        };
        Ok(Reuse::Yes { plan, proven, consistency: consistency.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        Proof {
            cluster: "77/5 1".into(),
            condition: None,
            seen_before: 1000,
            next: 1001,
            tables: vec![(16384, 16390, "\"s\".\"a b\"".into()), (16385, 16391, "\"s\".\"line\nbreak\"".into())],
        }
    }

    #[test]
    fn a_proof_comes_back_from_its_text() {
        let back = Proof::parse(&proof().text()).unwrap();
        assert_eq!(back, Proof { next: 0, ..proof() });
        assert_eq!(Proof::parse("postgres 0\nseen 5\n"), None);
        assert_eq!(Proof::parse(""), None);
        assert_eq!(Proof::parse("postgres 1\nseen x\n"), None);
        let conditional = Proof { condition: Some("a >\n1".into()), ..proof() };
        assert_eq!(Proof::parse(&conditional.text()).unwrap().condition.unwrap(), "a > 1");
    }

    #[test]
    fn the_oldest_transaction_that_could_write_here_is_the_limit() {
        assert_eq!(horizon("100:100:", &[]), Some((100, 100)));
        assert_eq!(horizon("100:120:100,110", &[]), Some((100, 120)));
        assert_eq!(horizon("100:120:100,110", &[100]), Some((110, 120)));
        assert_eq!(horizon("100:120:100,110", &[110, 100]), Some((120, 120)));
        // Numbers come without their epoch.
        assert_eq!(horizon("4294967396:4294967416:4294967396", &[100]), Some((4294967416, 4294967416)));
        assert_eq!(horizon("rubbish", &[]), None);
    }

    #[test]
    fn what_the_catalog_tells() {
        let then = proof();
        let now = |change: fn(&mut Proof)| {
            let mut now = proof();
            change(&mut now);
            then.differs(&now)
        };
        assert_eq!(now(|p| p.next = 5000), None);
        assert!(now(|p| p.cluster = "78/5 1".into()).unwrap().contains("another server"));
        assert!(now(|p| p.tables[0].1 = 7).unwrap().contains("\"s\".\"a b\" was rewritten"));
        assert!(now(|p| p.tables.truncate(1)).unwrap().contains("line\nbreak"));
        assert!(now(|p| p.tables.push((9, 9, "new".into()))).unwrap().contains("new was"));
        assert!(now(|p| p.next = 1000 + (1 << 31)).unwrap().contains("too many"));
        assert!(now(|p| p.next = 999).unwrap().contains("too many"));
    }
}
