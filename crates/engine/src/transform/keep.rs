//! Only the rows of some keys: what a repair sends.

use super::cast::find_column;
use crate::verify::arrays::ArrayHasher;
use crate::verify::canon::Canon;
use arrow_array::BooleanArray;
use arrow_schema::SchemaRef;
use haul_model::{Error, Hashes, Rejects, Result, Rows, Transform};
use std::collections::HashSet;
use std::sync::Arc;

/// Lets rows through whose key is one of a set. Keys are told by their hashes in canonical form: that another row slips through is as likely
/// as that a checksum misses an error, and it would only be written as it is.
#[derive(Debug)]
pub struct KeepKeys {
    key: Vec<String>,
    canons: Vec<Canon>,
    wanted: Arc<HashSet<u64>>,
}

impl KeepKeys {
    pub(crate) fn new(key: Vec<String>, canons: Vec<Canon>, wanted: Arc<HashSet<u64>>) -> Self {
        Self { key, canons, wanted }
    }

    /// How many keys.
    pub fn keys(&self) -> usize {
        self.wanted.len()
    }
}

impl Transform for KeepKeys {
    fn describe(&self) -> String {
        format!("only the rows of {} keys of {}", self.wanted.len(), self.key.join(", "))
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        self.key.iter().try_for_each(|name| find_column(input, name).map(drop))?;
        Ok(input.clone())
    }

    fn apply(&self, rows: Rows, _rejects: &mut dyn Rejects) -> Result<Rows> {
        let schema = rows.batch.schema_ref();
        let places = self.key.iter().map(|name| find_column(schema, name)).collect::<Result<Vec<_>>>()?;
        let mut hashes = Hashes::default();
        ArrayHasher::new(places.into_iter().zip(self.canons.iter().copied()).collect(), false).hash(&rows.batch, &mut hashes)?;
        let keep: BooleanArray = hashes.rows().iter().map(|hash| Some(self.wanted.contains(hash))).collect();
        let batch = arrow_select::filter::filter_record_batch(&rows.batch, &keep)
            .map_err(|e| Error::internal(format!("rows could not be left out: {e}")))?;
        let selection = keep.values().set_indices().map(|row| rows.record_of(row) as u32).collect();
        Ok(Rows { batch, selection: Some(Arc::new(selection)), ..rows })
    }
}
