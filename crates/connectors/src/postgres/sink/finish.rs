//! The end of a load: commit the lanes, and put the new content in its place.

use super::checkpoint;
use super::merge::{Merging, Staged};
use super::settings::Options;
use super::staging::Lane;
use super::triggers;
use super::way::{Way, index_names, qualified};
use super::writer::Done;
use super::{Planned, PostgresSink};
use crate::postgres::catalog::{quote_ident, quote_literal};
use crate::postgres::discover;
use crate::postgres::session::Session;
use haul_model::{Error, ErrorKind, Finished, Keyed, Result, failpoint};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl PostgresSink {
    /// Commits everything and makes it visible.
    pub(super) fn settle(&mut self, lanes: Vec<Done>) -> Result<Finished> {
        let planned = self.planned.as_ref().ok_or_else(|| Error::internal("the sink was not planned"))?;
        let notes = planned.shared.notes.get();
        let noted = match notes {
            Some(notes) => notes.rows(&mut self.session("finish")?)?,
            None => 0,
        };
        let rows = lanes.iter().map(|l| l.rows).sum::<u64>() + noted;
        let bytes = lanes.iter().map(|l| l.bytes).sum::<u64>() + notes.map_or(0, |notes| notes.bytes());
        let keys_later = planned.objects.later(&planned.table_sql());
        let mut finished = Finished { rows, bytes, keyed: None, keys_later, notes: planned.remarks.clone() };
        if rows == 0 && planned.had_rows && !self.options.allow_empty && matches!(planned.way, Way::Swap | Way::Refill { .. }) {
            return Err(Error::new(ErrorKind::Data, "the source has no rows, and the table would be left empty")
                .object(&planned.shared.table)
                .hint("the old rows were kept; allow_empty=true takes them away"));
        }
        if let Some(merging) = &planned.merging {
            let keyed = self.merge(merging, lanes).map_err(|error| explain(error, planned))?;
            (finished.rows, finished.keyed) = (keyed.confirmed(), Some(keyed));
            return Ok(finished);
        }
        let name = planned.transaction_name.clone();
        if planned.way == Way::Append && notes.is_none() {
            let mut lanes = unwatched(lanes, planned)?;
            // In the transaction that is committed last: by then everything is in.
            if let (Some(end), Some(lane)) = (planned.shared.end.get(), lanes.iter_mut().rfind(|lane| lane.rows > 0)) {
                lane.session.run(&end.insert_all(rows))?;
            }
            if let Some(cursor) = planned.shared.cursor.get() {
                match lanes.iter_mut().rfind(|lane| lane.rows > 0) {
                    Some(lane) => cursor.note(&mut lane.session)?,
                    None => cursor.note(&mut self.session("finish")?)?,
                }
            }
            commit_lanes(lanes, planned.prepared, &name).map_err(|e| e.object(&planned.shared.table))?;
            return Ok(finished);
        }
        // Nobody looks at the staging table: one commit after the other is as good as all at once.
        commit_lanes(lanes, 0, &name).map_err(|e| e.object(&planned.shared.table))?;
        let mut session = self.session("finish")?;
        session.begin("")?;
        session.run(&format!("SET LOCAL lock_timeout = {}", self.options.lock_timeout.as_millis()))?;
        failpoint::pass("final-before-place");
        run_all(&mut session, &planned.held.before).map_err(|error| explain(error, planned))?;
        let placed = match planned.way {
            Way::Append | Way::Merge => Ok(()),
            Way::Create => rename(&mut session, planned).and_then(|()| planned.objects.make(&mut session, &planned.table_sql())),
            Way::Swap => swap(&mut session, planned, &self.options, &mut finished.notes),
            Way::Refill { truncate } => {
                refill(&mut session, planned, truncate, rows).and_then(|()| session.run(&format!("DROP TABLE {}", planned.staging_sql())))
            }
        };
        placed.and_then(|()| run_all(&mut session, &planned.held.after)).map_err(|error| explain(error, planned))?;
        if let Some(notes) = notes {
            let summed = notes.sum_up(&mut session)?;
            if summed != noted {
                return Err(Error::internal(format!("the checkpoints count {summed} rows, and {noted} a moment ago")));
            }
        }
        if let Some(cursor) = planned.shared.cursor.get() {
            cursor.note(&mut session)?;
        }
        failpoint::pass("final-before-commit");
        self.commit_last(session, "finish")?;
        failpoint::pass("final-after-commit");
        Ok(finished)
    }

    /// Commits the last transaction. If its answer is lost, the target is asked what became of it.
    fn commit_last(&self, mut session: Session, name: &str) -> Result<()> {
        let planned = self.planned()?;
        let process = session.wire().backend_pid();
        let number = Number::of(&mut session)?;
        let Err(error) = commit(&mut session) else { return Ok(()) };
        let lost = matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout) && error.code_text().is_none();
        if !lost {
            return Err(explain(error, planned));
        }
        drop(session);
        match self.was_committed(process, name, &number) {
            Ok(true) => Ok(()),
            Ok(false) => Err(explain(error, planned)),
            Err(_) => {
                Err(explain(error, planned).also("whether the last COMMIT was done could not be found out: look before the next try"))
            }
        }
    }

    /// What became of the transaction `number` of a session that was called `name`.
    fn was_committed(&self, process: i32, name: &str, number: &Number) -> Result<bool> {
        let mut session = self.session(name)?;
        if !session.is_pooled() {
            checkpoint::fence(&mut session, process)?;
        }
        match self.planned()?.shared.notes.get() {
            Some(notes) => notes.has_summed_up(&mut session),
            None => number.was_committed(&mut session),
        }
    }

    /// Merges what the lanes have staged. One lane's own transaction serves; the tables of several are committed first, for nobody
    /// looks at them.
    fn merge(&self, merging: &Merging, mut lanes: Vec<Done>) -> Result<Keyed> {
        let rows = lanes.iter().map(|l| l.rows).sum();
        let filled: Vec<Arc<Lane>> = lanes.iter().filter_map(|l| l.staged.clone()).collect();
        let staged: Vec<Staged> = filled.iter().map(|lane| lane.table.clone()).collect();
        let (mut session, name) = match (lanes.pop(), &filled[..]) {
            (Some(only), [lane]) => (only.session, format!("lane {}", lane.number)),
            (last, _) => {
                for mut lane in lanes.into_iter().chain(last) {
                    commit(&mut lane.session)?;
                }
                let mut session = self.session("finish")?;
                session.begin("")?;
                (session, "finish".into())
            }
        };
        session.run(&format!("SET LOCAL lock_timeout = {}", self.options.lock_timeout.as_millis()))?;
        if let Some(create) = &merging.create {
            session.run(create)?;
        }
        failpoint::pass("final-before-place");
        let planned = self.planned()?;
        run_all(&mut session, &planned.held.before)?;
        let keyed = merging.merge.run(&mut session, &staged, rows)?;
        session.run("SET CONSTRAINTS ALL IMMEDIATE")?;
        run_all(&mut session, &planned.held.after)?;
        if merging.create.is_some() {
            planned.objects.make(&mut session, &planned.table_sql())?;
        }
        for table in &staged {
            session.run(&format!("DROP TABLE {}", table.sql))?;
        }
        if let Some(cursor) = self.planned()?.shared.cursor.get() {
            cursor.note(&mut session)?;
        }
        failpoint::pass("final-before-commit");
        self.commit_last(session, &name)?;
        failpoint::pass("final-after-commit");
        Ok(keyed)
    }

    /// Takes everything back; names what could not be.
    pub(super) fn take_back(&mut self) -> Vec<String> {
        let Some(planned) = self.planned.as_ref() else { return Vec::new() };
        // Closing the connections rolls the lanes' transactions back.
        planned.shared.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        let notes = planned.shared.notes.get();
        if !self.begun || !planned.way.is_staged() {
            return Vec::new();
        }
        // The job was perhaps stopped by the very flag that sessions listen to.
        self.env.stop = Arc::new(AtomicBool::new(false));
        let staging = match &planned.merging {
            None => planned.staging_sql(),
            Some(merging) => match merging.staging.committed() {
                tables if tables.is_empty() => return Vec::new(),
                tables => tables.join(", "),
            },
        };
        let dropped = self.session("abort").and_then(|mut session| {
            session.run("SET lock_timeout = '15s'")?;
            session.run(&format!("DROP TABLE IF EXISTS {staging}"))?;
            notes.map_or(Ok(()), |notes| notes.remove(&mut session))
        });
        match dropped {
            Ok(()) => Vec::new(),
            Err(error) => vec![format!("the staging table {staging} is left: {}; DROP TABLE {staging} removes it", error.detail())],
        }
    }
}

/// The number of a transaction, and when the server that gave it out had started: after a crash it may give the same one out again.
struct Number {
    transaction: String,
    server: String,
}

impl Number {
    fn of(session: &mut Session) -> Result<Self> {
        let sql = "SELECT pg_catalog.txid_current()::pg_catalog.text, pg_catalog.pg_postmaster_start_time()::pg_catalog.text";
        let row = session.row(sql, &[])?.ok_or_else(|| Error::internal("a transaction without a number"))?;
        Ok(Self { transaction: row.text(0).to_string(), server: row.text(1).to_string() })
    }

    fn was_committed(&self, session: &mut Session) -> Result<bool> {
        let sql = "SELECT pg_catalog.txid_status($1::pg_catalog.int8), pg_catalog.pg_postmaster_start_time()::pg_catalog.text = $2";
        let row = session.row(sql, &[Some(&self.transaction), Some(&self.server)])?;
        match row.as_ref().map(|row| (row.get(0), row.flag(1))) {
            Some((Some("committed"), true)) => Ok(true),
            // A number that was lost in a crash, and not given out again, counts as aborted.
            Some((Some("aborted"), _)) => Ok(false),
            other => {
                let status = other.and_then(|(status, _)| status).unwrap_or("unknown");
                Err(Error::new(ErrorKind::Server, format!("the last transaction is {status}, perhaps another one of that number")))
            }
        }
    }
}

/// Lanes whose rows the server moved itself: if the table has got a trigger or a rule since the plan was made, rows may be missing that nobody
/// has counted. From the INSERT on, its lock keeps others from adding one.
fn unwatched(mut lanes: Vec<Done>, planned: &Planned) -> Result<Vec<Done>> {
    let Some(relation) = planned.relation.as_ref().filter(|_| planned.shared.statement) else { return Ok(lanes) };
    for lane in &mut lanes {
        if super::plan::is_watched(&mut lane.session, relation)? {
            return Err(Error::new(ErrorKind::Schema, "the table has got triggers or rules since the plan was made")
                .object(&planned.shared.table)
                .hint("nothing was committed; run it again, or with --pushdown never"));
        }
    }
    Ok(lanes)
}

fn run_all(session: &mut Session, statements: &[String]) -> Result<()> {
    statements.iter().try_for_each(|sql| session.run(sql))
}

/// Names the lock that was waited for, and hides the staging table's name.
fn explain(error: Error, planned: &Planned) -> Error {
    let error = error.object(&planned.shared.table);
    if error.code_text() == Some("55P03") {
        return error.hint("another session holds the table; try again later, or raise lock_timeout. The old rows were kept");
    }
    error
}

/// Commits, and looks at the answer: COMMIT of a failed transaction is a ROLLBACK without an error.
pub(super) fn commit(session: &mut Session) -> Result<()> {
    let results = session.connection().simple_query("COMMIT").map_err(crate::postgres::session::error)?;
    match results.last().map(|r| r.tag.as_str()) {
        Some("COMMIT") => Ok(()),
        other => Err(Error::new(ErrorKind::Server, format!("the server answered COMMIT with {}", other.unwrap_or("nothing")))),
    }
}

/// Commits the lanes' transactions: one by one, or through prepared transactions where the server has room for them.
fn commit_lanes(lanes: Vec<Done>, prepared: usize, name: &str) -> Result<()> {
    let mut lanes: Vec<Done> = lanes.into_iter().filter(|l| l.rows > 0).collect();
    for lane in &mut lanes {
        lane.session.run("SET CONSTRAINTS ALL IMMEDIATE")?;
    }
    if lanes.len() < 2 || prepared < lanes.len() {
        let total = lanes.len();
        for (i, lane) in lanes.iter_mut().enumerate() {
            commit(&mut lane.session).map_err(|error| match i {
                0 => error,
                _ => error
                    .context(format!("{i} of {total} lanes are committed, the rest is not"))
                    .hint("the table holds part of the new rows: delete them before the next try, or use mode=replace"),
            })?;
        }
        return Ok(());
    }
    let id = |i: usize| quote_literal(&format!("{name}_{i}"));
    for i in 0..lanes.len() {
        if let Err(error) = lanes[i].session.run(&format!("PREPARE TRANSACTION {}", id(i))) {
            let mut left = Vec::new();
            for (j, lane) in lanes[..i].iter_mut().enumerate() {
                if lane.session.run(&format!("ROLLBACK PREPARED {}", id(j))).is_err() {
                    left.push(id(j));
                }
            }
            return Err(match left.is_empty() {
                true => error,
                false => error.hint(format!("prepared transactions are left: ROLLBACK PREPARED {}", left.join(", "))),
            });
        }
    }
    for i in 0..lanes.len() {
        let sql = format!("COMMIT PREPARED {}", id(i));
        lanes[i].session.run(&sql).map_err(|error| {
            let rest: Vec<String> = (i..lanes.len()).map(|j| format!("COMMIT PREPARED {}", id(j))).collect();
            error.context("every lane is prepared, but not every one committed").hint(format!("complete it with: {}", rest.join("; ")))
        })?;
    }
    Ok(())
}

fn rename(session: &mut Session, planned: &Planned) -> Result<()> {
    session.run(&format!("ALTER TABLE {} RENAME TO {}", planned.staging_sql(), quote_ident(&planned.name)))
}

/// Drops the old table and gives its name, and those of its indexes, to the new one.
fn swap(session: &mut Session, planned: &Planned, options: &Options, notes: &mut Vec<String>) -> Result<()> {
    let relation = planned.relation.as_ref().ok_or_else(|| Error::internal("a swap without an old table"))?;
    let table = qualified(&planned.schema, &planned.name);
    session.run(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))?;
    // What the plan saw may have changed: look again, now that nobody can change it.
    let now = discover::relation_by_oid(session, relation.oid)?;
    let obstacles = super::way::swap_obstacles(session, &now)?;
    let staging = session.row("SELECT pg_catalog.to_regclass($1)::pg_catalog.oid", &[Some(&planned.staging_sql())])?;
    let staging = staging.and_then(|row| row.parse(0)).ok_or_else(|| Error::internal("the staging table is gone"))?;
    let indexes = index_names(session, relation.oid, staging)?;
    if let (Some(names), true) = (indexes, obstacles.is_empty()) {
        session.run(&format!("DROP TABLE {table}"))?;
        rename(session, planned)?;
        for (from, to) in names {
            session.run(&format!("ALTER INDEX {} RENAME TO {}", qualified(&planned.schema, &from), quote_ident(&to)))?;
        }
        return Ok(());
    }
    notes.push("something came to depend on the old table during the load: its rows were replaced instead of the table".into());
    super::way::check_delete(session, &now)?;
    let rows = session.row(&format!("SELECT count(*) FROM {}", planned.staging_sql()), &[])?.and_then(|row| row.parse(0)).unwrap_or(0);
    // Triggers may be among what came to be.
    let held = triggers::plan(session, &now, Way::Refill { truncate: false }, options, &mut Vec::new())?;
    run_all(session, &held.before)?;
    refill(session, planned, false, rows)?;
    run_all(session, &held.after)?;
    session.run(&format!("DROP TABLE {}", planned.staging_sql()))
}

/// Empties the target and inserts from the staging table.
fn refill(session: &mut Session, planned: &Planned, truncate: bool, rows: u64) -> Result<()> {
    let relation = planned.relation.as_ref().ok_or_else(|| Error::internal("a refill without a table"))?;
    let table = qualified(&planned.schema, &planned.name);
    let (list, staging) = (&planned.column_list, planned.staging_sql());
    let overriding = planned.overriding;
    let only = if relation.kind == crate::postgres::catalog::RelationKind::Partitioned { "" } else { "ONLY " };
    let mode = if truncate { "ACCESS EXCLUSIVE" } else { "SHARE ROW EXCLUSIVE" };
    session.run(&format!("LOCK TABLE {only}{table} IN {mode} MODE"))?;
    let inserted = if truncate {
        session.run(&format!("TRUNCATE {only}{table}"))?;
        session.execute(&format!("INSERT INTO {table} ({list}){overriding} SELECT {list} FROM {staging}"))?
    } else {
        // One statement, and the old rows first: foreign keys that point here are checked at its end, when the new rows are there.
        session.execute(&format!(
            "WITH gone AS (DELETE FROM {only}{table} RETURNING 1) INSERT INTO {table} ({list}){overriding} \
             SELECT {list} FROM {staging} WHERE (SELECT count(*) FROM gone) >= 0"
        ))?
    };
    session.run("SET CONSTRAINTS ALL IMMEDIATE")?;
    if inserted != rows {
        return Err(Error::new(ErrorKind::Server, format!("the table took {inserted} of {rows} rows without an error"))
            .hint("does a trigger of the table skip rows?"));
    }
    Ok(())
}
