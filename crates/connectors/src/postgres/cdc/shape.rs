//! The shapes of tables that a stream has told of: a table that is altered gets a new one.

use super::changes::{Told, ToldColumn};
use super::pgoutput::WireRelation;
use crate::postgres::catalog::PgColumn;
use std::sync::{Arc, PoisonError, RwLock};

/// A table as one stretch of the stream sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// Its number in this process.
    pub id: u32,
    /// OID of the table.
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// `d`efault, `n`othing, `f`ull, `i`ndex.
    pub identity: u8,
    /// In the order of the tuples.
    pub columns: Vec<PgColumn>,
    /// Which of them belong to the replica identity.
    pub key: Vec<bool>,
    /// The same as it stands in a chunk.
    pub told: Vec<u8>,
}

impl Shape {
    /// `schema.name`, for messages.
    pub fn display(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

/// All shapes of a run, by number. Shared by the reader, which adds, and the decoders.
#[derive(Debug, Default)]
pub struct Shapes(RwLock<Vec<Arc<Shape>>>);

impl Shapes {
    /// Adds a shape.
    pub fn add(&self, oid: u32, wire: &WireRelation, columns: Vec<PgColumn>) -> Arc<Shape> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of = |(wire, own): (&super::pgoutput::WireColumn, &PgColumn)| ToldColumn {
            key: wire.key,
            name: wire.name.clone(),
            type_name: own.type_name.clone(),
        };
        let told = Told {
            schema: wire.schema.clone(),
            name: wire.name.clone(),
            identity: wire.identity,
            columns: wire.columns.iter().zip(&columns).map(of).collect(),
        };
        let shape = Arc::new(Shape {
            id: all.len() as u32,
            oid,
            schema: wire.schema.clone(),
            name: wire.name.clone(),
            identity: wire.identity,
            key: wire.columns.iter().map(|c| c.key).collect(),
            columns,
            told: told.print(),
        });
        all.push(Arc::clone(&shape));
        shape
    }

    /// The shape with this number.
    pub fn get(&self, id: u32) -> Option<Arc<Shape>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(id as usize).cloned()
    }
}
