//! The one connection over which changes are applied, and its transactions.
//!
//! Chunks wait until they are many or are to be settled. Then a transaction begins, takes the row of the mark (so that a transaction of an
//! earlier run which may still be going on is over, and has not moved the mark), and applies them. The mark moves in the transaction of the
//! changes; it moves only from where this run has seen it, so nothing can be applied twice, whatever was in flight when a run ended.

use super::super::changes::Told;
use super::marks::Marks;
use super::stretch;
use super::table::{Missing, TargetTable};
use crate::postgres::config::TableName;
use crate::postgres::session::{self, Session};
use bytes::Bytes;
use haul_model::{Block, BlockBody, Error, ErrorKind, Mark, Result, Slot, Writer, failpoint};
use haul_pgwire::Transaction;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// So many bytes of changes are applied at once.
const STRETCH: usize = 4 << 20;

/// What was decided.
#[derive(Debug)]
pub struct Shared {
    pub marks: Marks,
    /// The target's table, if the changes are of one table and it has another name.
    pub named: Option<TableName>,
    /// Tables that are missing.
    pub create: bool,
    /// Columns that are missing.
    pub missing: Missing,
    /// Rows of a snapshot may meet rows that are there: they stay (`Some(false)`), or go (`Some(true)`); `None`: there must be none.
    pub meets: Option<bool>,
    /// Triggers and foreign keys are held back.
    pub replica: bool,
}

/// The connection, and what is known of the target.
pub struct Lane {
    session: Session,
    shared: Arc<Shared>,
    tables: HashMap<u32, Arc<TargetTable>>,
    /// Staging tables, by the columns that they have.
    stages: HashMap<(u32, String), String>,
    /// Tables whose first rows were seen.
    met: HashSet<u32>,
    missed: u64,
}

impl Lane {
    pub fn new(mut session: Session, shared: Arc<Shared>) -> Result<Self> {
        if shared.replica {
            session.run("SET session_replication_role = replica").map_err(|e| {
                e.context("triggers cannot be held back")
                    .hint("--triggers on fires them; or grant SET ON PARAMETER session_replication_role")
            })?;
        }
        Ok(Self { session, shared, tables: HashMap::new(), stages: HashMap::new(), met: HashSet::new(), missed: 0 })
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs statements.
    ///
    /// # Errors
    /// The server's.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        if sql.starts_with("ROLLBACK TO") {
            self.stages.clear();
        }
        self.session.run(sql)
    }

    /// Runs statements; the rows that each has changed.
    ///
    /// # Errors
    /// The server's.
    pub fn counts(&mut self, sql: &str) -> Result<Vec<u64>> {
        let results = self.session.connection().simple_query(sql).map_err(session::error)?;
        Ok(results.iter().map(haul_pgwire::Rows::count).collect())
    }

    /// Deleted rows that were not there.
    pub fn missed(&mut self, rows: u64) {
        self.missed += rows;
    }

    /// The target's table for a shape.
    ///
    /// # Errors
    /// As [`TargetTable::find`].
    pub fn table(&mut self, id: u32, told: &Told) -> Result<Arc<TargetTable>> {
        if let Some(table) = self.tables.get(&id) {
            return Ok(Arc::clone(table));
        }
        let missing = if self.shared.create { Missing::Add } else { Missing::Stop };
        let table = TargetTable::find(&mut self.session, told, self.shared.named.as_ref(), (missing, self.shared.missing))?;
        // The same table with the same columns is the same, whatever of its shape has changed at the source.
        let table = match self.tables.values().find(|known| ***known == table) {
            Some(known) => Arc::clone(known),
            None => Arc::new(table),
        };
        self.tables.insert(id, Arc::clone(&table));
        Ok(table)
    }

    /// Before the first row of a snapshot comes into a table.
    ///
    /// # Errors
    /// `Exists`: it has rows already, and nobody has said what becomes of them.
    pub fn meet(&mut self, table: &TargetTable) -> Result<()> {
        if !self.met.insert(table.oid) || !self.shared.marks.is_fresh() {
            return Ok(());
        }
        match self.shared.meets {
            Some(false) => Ok(()),
            Some(true) => self.run(&format!("TRUNCATE {}", table.sql)).map_err(|e| e.object(&table.display)),
            None => {
                let some = self.session.row(&format!("SELECT EXISTS (SELECT FROM {})", table.sql), &[])?.is_some_and(|row| row.flag(0));
                if !some {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::Exists, "the table has rows already, and the snapshot brings all of the source's")
                    .object(&table.display)
                    .hint("--mode truncate empties it first; --mode append keeps its rows; --capture stream brings only what changes"))
            }
        }
    }

    /// Before an interrupted snapshot empties a table, to come again.
    ///
    /// # Errors
    /// `Mismatch`: rows that were there before were to stay.
    pub fn begins_again(&self, table: &TargetTable) -> Result<()> {
        if self.shared.meets != Some(false) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Mismatch,
            "the snapshot was interrupted, and the rows that it brought cannot be told from those that were to stay",
        )
        .object(&table.display)
        .hint("delete what it brought, drop the slot (haul cdc drop) and the mark in haul_checkpoint, and start again; without --mode append the table is emptied"))
    }

    /// A staging table for changes of a table, made if this session has none.
    ///
    /// # Errors
    /// The server's.
    pub fn stage(&mut self, table: &TargetTable) -> Result<String> {
        let key = (table.oid, table.list.clone());
        if let Some(name) = self.stages.get(&key) {
            return Ok(name.clone());
        }
        let name = format!("pg_temp.haul_stage_{}_{}", table.oid, self.stages.len());
        let sql = format!(
            "DROP TABLE IF EXISTS {name}; CREATE TEMPORARY TABLE {} AS SELECT NULL::pg_catalog.int4 AS haul_kind, {} FROM {} WITH NO DATA",
            name.trim_start_matches("pg_temp."),
            table.list,
            table.sql
        );
        self.session.run(&sql).map_err(|e| e.context("the staging table"))?;
        self.stages.insert(key, name.clone());
        Ok(name)
    }
}

/// The way of changes into the target.
pub struct ChangesWriter {
    lane: Lane,
    pending: Vec<Bytes>,
    bytes: usize,
    /// Changes that are applied in the open transaction.
    applied: u64,
}

impl ChangesWriter {
    pub fn new(lane: Lane) -> Self {
        Self { lane, pending: Vec::new(), bytes: 0, applied: 0 }
    }

    fn apply(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        if pending.is_empty() {
            return Ok(());
        }
        if self.lane.session.wire().transaction() == Transaction::None {
            self.lane.session.begin("")?;
            // Few rows meet a large table by its index: a plan for many would read all of it.
            self.lane.run("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")?;
            let shared = Arc::clone(&self.lane.shared);
            shared.marks.hold(&mut self.lane.session)?;
        }
        self.applied += stretch::apply(&mut self.lane, &pending)?;
        Ok(())
    }
}

impl Writer for ChangesWriter {
    fn reserve(&mut self, _block: &mut Block) -> Result<Slot> {
        Ok(Slot::default())
    }

    fn write(&mut self, _slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        let BlockBody::Shared(bytes) = &block.body else {
            return Err(Error::internal("changes come as they were read"));
        };
        self.bytes += bytes.len();
        self.pending.push(bytes.clone());
        if self.bytes >= STRETCH {
            self.apply()?;
        }
        Ok(Vec::new())
    }

    fn settle(&mut self, marks: &[Mark]) -> Result<u64> {
        self.apply()?;
        let shared = Arc::clone(&self.lane.shared);
        if self.lane.session.wire().transaction() == Transaction::None {
            self.lane.session.begin("")?;
        }
        failpoint::pass("apply-before-mark");
        shared.marks.move_to(&mut self.lane.session, marks)?;
        failpoint::pass("apply-before-commit");
        self.lane.run("COMMIT")?;
        failpoint::pass("apply-after-commit");
        shared.marks.moved(marks);
        Ok(std::mem::take(&mut self.applied))
    }

    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        Ok(Vec::new())
    }
}
