//! The staging tables of a load with a key: one per writer, made in the transaction that fills it.

use super::Shared;
use super::merge::{Merge, Staged};
use super::plan::Located;
use super::way::{self, qualified};
use crate::postgres::catalog::{PgColumn, quote_ident};
use crate::postgres::session::Session;
use haul_model::Result;
use std::sync::Arc;

/// How many columns the server lets a table have.
const MOST_COLUMNS: usize = 1600;

/// How staging tables are made. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staging {
    run_id: String,
    schema: String,
    name: String,
    /// A table of the session alone, where this role may not make others. Then there is only one writer.
    pub temporary: bool,
    /// It has as many columns as a table can have: none is left for the number of a split.
    full: bool,
    /// What stands behind the name in CREATE TABLE, and what must not be NULL.
    body: String,
    not_null: Vec<String>,
    split_column: String,
    /// How many writers there will be. With several, rows bear the number of their split.
    pub lanes: u32,
}

/// The staging table of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    /// Which lane it is.
    pub number: u32,
    pub table: Staged,
    split_column: String,
}

impl Lane {
    /// The statement after which rows are of split `number`, if that matters.
    pub fn begin_split(&self, number: u32) -> Option<String> {
        let column = quote_ident(&self.split_column);
        self.table.numbered.then(|| format!("ALTER TABLE {} ALTER {column} SET DEFAULT {number}", self.table.sql))
    }
}

impl Staging {
    /// For rows that will be merged into `relation`, or into a new table with the columns `create`.
    pub fn plan(run_id: &str, target: &Located, create: Option<&str>, loaded: &[PgColumn], merge: &Merge, version: u32) -> Self {
        let table = qualified(&target.schema, &target.name);
        let filled = |c: &PgColumn| c.generated || loaded.iter().any(|l| l.name == c.name);
        let generated = if version >= 120_000 { " INCLUDING GENERATED" } else { "" };
        let list = || loaded.iter().map(|c| quote_ident(&c.name)).collect::<Vec<_>>().join(", ");
        let (body, mut not_null) = match (&target.relation, create) {
            (Some(relation), _) if relation.columns.iter().all(filled) => {
                // With the constraints, so that a row is refused where its number is known.
                (format!("(LIKE {table} INCLUDING CONSTRAINTS{generated})"), Vec::new())
            }
            (None, Some(columns)) => (format!("({columns})"), Vec::new()),
            _ => (
                format!("AS SELECT {} FROM {table} WITH NO DATA", list()),
                loaded.iter().filter(|c| c.not_null).map(|c| c.name.clone()).collect(),
            ),
        };
        not_null.extend(merge.key.iter().filter(|k| !not_null.contains(k)).cloned().collect::<Vec<_>>());
        Self {
            run_id: run_id.into(),
            schema: target.schema.clone(),
            name: target.name.clone(),
            temporary: false,
            full: target.relation.as_ref().map_or(loaded.len(), |r| r.columns.len().max(loaded.len())) >= MOST_COLUMNS,
            body,
            not_null,
            split_column: merge.split_column.clone(),
            lanes: 1,
        }
    }

    /// Whether only one writer can have one.
    pub fn is_for_one(&self) -> bool {
        self.temporary || self.full
    }

    /// Bare name of the table of a writer.
    pub fn name(&self, lane: u32) -> String {
        way::staging_name(&self.run_id, &format!("{lane}_{}", self.name))
    }

    /// The table of a writer, as SQL.
    pub fn table(&self, lane: u32) -> Staged {
        let schema = if self.temporary { "pg_temp" } else { &self.schema };
        Staged { sql: qualified(schema, &self.name(lane)), numbered: self.lanes > 1 }
    }

    /// The tables that are committed before the merge, as SQL: none with one writer, whose own transaction makes, fills and drops it.
    pub fn committed(&self) -> Vec<String> {
        if self.lanes > 1 { (0..self.lanes).map(|lane| self.table(lane).sql).collect() } else { Vec::new() }
    }

    /// The statements that make it.
    pub fn create(&self, lane: u32) -> Vec<String> {
        let Staged { sql, .. } = self.table(lane);
        let kind = if self.temporary { "TEMPORARY" } else { "UNLOGGED" };
        let mut actions: Vec<String> = self.not_null.iter().map(|c| format!("ALTER {} SET NOT NULL", quote_ident(c))).collect();
        if self.lanes > 1 {
            actions.push(format!("ADD {} integer NOT NULL DEFAULT 0", quote_ident(&self.split_column)));
        }
        vec![format!("CREATE {kind} TABLE {sql} {}", self.body), format!("ALTER TABLE {sql} {}", actions.join(", "))]
    }

    /// Makes the table of a lane in the session's transaction; what the lane's writer is to know.
    ///
    /// # Errors
    /// The server's.
    pub fn open(&self, shared: &Shared, columns: &str, session: &mut Session, lane: u32) -> Result<Shared> {
        session.run(&self.create(lane).join("; ")).map_err(|e| e.context("the staging table").object(&shared.table))?;
        let table = self.table(lane);
        let format = if shared.binary { "binary" } else { "text" };
        Ok(Shared {
            copy_sql: format!("COPY {} ({columns}) FROM STDIN (FORMAT {format})", table.sql),
            names: (self.name(lane), self.name.clone()),
            staged: Some(Arc::new(Lane { number: lane, table, split_column: self.split_column.clone() })),
            ..shared.clone()
        })
    }
}
