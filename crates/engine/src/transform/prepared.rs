//! What a transform works out from a schema, kept for the next batch with the same one.

use arrow_schema::SchemaRef;
use haul_model::Result;
use std::sync::{Arc, PoisonError, RwLock};

/// The plan for the schema seen last. All batches of a decoder share one `Arc<Schema>`, so comparing pointers is enough;
/// another schema only costs the planning again.
#[derive(Debug)]
pub(super) struct Prepared<T>(RwLock<Option<(SchemaRef, Arc<T>)>>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T> Prepared<T> {
    /// The plan for `schema`, made by `plan` when it is not the one kept.
    ///
    /// # Errors
    /// Those of `plan`.
    pub(super) fn get(&self, schema: &SchemaRef, plan: impl FnOnce(&SchemaRef) -> Result<T>) -> Result<Arc<T>> {
        if let Some((kept, found)) = &*self.0.read().unwrap_or_else(PoisonError::into_inner)
            && Arc::ptr_eq(kept, schema)
        {
            return Ok(found.clone());
        }
        let made = Arc::new(plan(schema)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some((schema.clone(), made.clone()));
        Ok(made)
    }
}
