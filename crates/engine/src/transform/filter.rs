//! `filter`: only the rows that meet a condition.

use arrow_array::BooleanArray;
use arrow_schema::SchemaRef;
use haul_formats::predicate::{Bound, Met, Predicate};
use haul_model::{Error, Rejects, Result, Rows, Transform};
use std::sync::{Arc, Mutex, PoisonError};

/// Lets the rows through that meet a condition, as `where=` of a Parquet file does. The others are counted as filtered.
pub struct Filter {
    text: String,
    predicate: Predicate,
    /// Bound to the columns that came last: they are the same from batch to batch.
    bound: Mutex<Option<(SchemaRef, Arc<Bound>)>>,
}

impl Filter {
    /// The condition, as [`Predicate::parse`] takes it.
    ///
    /// # Errors
    /// `Config`: what was expected, and where.
    pub fn parse(text: &str) -> Result<Self> {
        let predicate = Predicate::parse(text).map_err(|e| e.object("filter"))?;
        Ok(Self { text: text.to_string(), predicate, bound: Mutex::default() })
    }

    fn bind(&self, schema: &SchemaRef) -> Result<Arc<Bound>> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, bound)) = bound.as_ref()
            && (Arc::ptr_eq(known, schema) || known == schema)
        {
            return Ok(bound.clone());
        }
        let new = Arc::new(Bound::new(&self.predicate, schema).map_err(|e| e.object("filter"))?);
        *bound = Some((schema.clone(), new.clone()));
        Ok(new)
    }
}

impl Transform for Filter {
    fn describe(&self) -> String {
        format!("filter {}", self.text)
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        self.bind(input).map(|_| input.clone())
    }

    fn apply(&self, rows: Rows, _rejects: &mut dyn Rejects) -> Result<Rows> {
        let bound = self.bind(&rows.batch.schema())?;
        let batch = &rows.batch;
        let Met::Some(met) = bound.rows(batch.num_rows(), &|column| batch.column(column).as_ref()) else { return Ok(rows) };
        let selection = met.set_indices().map(|row| rows.record_of(row) as u32).collect();
        let batch = arrow_select::filter::filter_record_batch(batch, &BooleanArray::new(met, None))
            .map_err(|e| Error::internal(format!("rows could not be left out: {e}")))?;
        Ok(Rows { batch, selection: Some(Arc::new(selection)), ..rows })
    }
}
