//! Reading the same rows once more, for whoever compares two tables: what tells rows apart, and a narrower look under the same snapshot.

use super::session::Session;
use super::source::{PostgresSource, What};
use super::splits::Part;
use haul_model::{KeyRanges, ReadPlan, Result, Split};

/// The columns of the primary key, in its order.
fn primary_key(session: &mut Session, relation: u32) -> Result<Vec<String>> {
    // indclass has one entry for each key column; included columns have none.
    let sql = "SELECT a.attname FROM pg_catalog.pg_index i \
               CROSS JOIN LATERAL pg_catalog.generate_series(0, pg_catalog.array_upper(i.indclass, 1)) n \
               JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n] \
               WHERE i.indrelid = $1::pg_catalog.oid AND i.indisprimary AND i.indisvalid ORDER BY n";
    Ok(session.query(sql, &[Some(&relation.to_string())])?.iter().map(|row| row.text(0).to_string()).collect())
}

impl PostgresSource {
    /// The primary key, if there is one and all of it is read.
    pub(super) fn known_key(&mut self) -> Result<Vec<String>> {
        let (What::Relation(relation), Some(leader)) = (&self.what, &mut self.leader) else { return Ok(Vec::new()) };
        let key = primary_key(leader, relation.oid)?;
        let read = key.iter().all(|name| self.columns().iter().any(|column| column.name == *name));
        Ok(if read { key } else { Vec::new() })
    }

    /// One COPY of the ranges, or what was planned.
    pub(super) fn once_more(&self, within: Option<&KeyRanges>) -> Option<ReadPlan> {
        let planned = self.planned.clone()?;
        let Some(KeyRanges { key, ranges }) = within.filter(|_| !self.is_ordered() && self.limit().is_none()) else { return Some(planned) };
        let part = Part::Ranges(key.clone(), ranges.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect());
        let splits = vec![Split { id: 0, what: part.to_string(), rows: None, bytes: None }];
        let method = format!("{} ranges of {key} under the same snapshot", ranges.len());
        Some(ReadPlan { splits, method, lanes: 1, network: true, notes: Vec::new() })
    }
}
