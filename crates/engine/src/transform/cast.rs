//! `--cast id:bigint,ts:timestamptz`: columns to other types.

use super::bad_rows::BadRows;
use super::convert::Conversion;
pub use super::convert::explain::AskedBy;
use super::convert::explain::flag_name;
use super::prepared::Prepared;
use super::type_names::{TypeName, parse_casts};
use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use haul_model::{Error, ErrorKind, Rejects, Result, Rows, Transform, nearest};
use std::sync::Arc;

/// Casts columns; all others pass untouched. The rules are those of the `convert` module: exact, or an error for the row.
#[derive(Debug)]
pub struct Cast {
    casts: Vec<(String, TypeName)>,
    asked: AskedBy,
    prepared: Prepared<Plan>,
}

#[derive(Debug)]
struct Plan {
    schema: SchemaRef,
    /// Column index and what becomes of it.
    steps: Vec<(usize, Conversion)>,
}

impl Cast {
    /// Casts by column name. `asked` decides what the hints of errors say.
    pub fn new(casts: Vec<(String, TypeName)>, asked: AskedBy) -> Self {
        Self { casts, asked, prepared: Prepared::default() }
    }

    /// Reads what stands behind `--cast`.
    ///
    /// # Errors
    /// `Config`: see [`parse_casts`].
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self::new(parse_casts(text)?, AskedBy::Cast))
    }

    /// The casts, in the order given.
    pub fn casts(&self) -> &[(String, TypeName)] {
        &self.casts
    }

    fn plan(&self, input: &SchemaRef) -> Result<Plan> {
        let mut fields: Vec<Arc<Field>> = input.fields().to_vec();
        let mut steps = Vec::with_capacity(self.casts.len());
        for (column, to) in &self.casts {
            let index = find_column(input, column)?;
            let conversion = Conversion::plan(input.field(index), *to, self.asked)?;
            fields[index] = Arc::new(conversion.field());
            steps.push((index, conversion));
        }
        Ok(Plan { schema: Arc::new(Schema::new_with_metadata(fields, input.metadata().clone())), steps })
    }
}

impl Transform for Cast {
    fn describe(&self) -> String {
        let casts: Vec<String> = self.casts.iter().map(|(name, to)| format!("{}:{to}", flag_name(name))).collect();
        let word = if self.asked == AskedBy::Sample { "infer" } else { "cast" };
        format!("{word} {}", casts.join(","))
    }

    fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.plan(input)?.schema)
    }

    fn apply(&self, rows: Rows, rejects: &mut dyn Rejects) -> Result<Rows> {
        let plan = self.prepared.get(rows.batch.schema_ref(), |schema| self.plan(schema))?;
        let mut bad = BadRows::default();
        let mut columns = rows.batch.columns().to_vec();
        for (index, conversion) in &plan.steps {
            columns[*index] = conversion.convert(&columns[*index], &mut bad)?;
        }
        let batch = rebuild(&plan.schema, columns, &rows)?;
        bad.settle(rows, batch, rejects)
    }
}

/// A batch of new columns for the same rows.
pub(super) fn rebuild(schema: &SchemaRef, columns: Vec<arrow_array::ArrayRef>, rows: &Rows) -> Result<RecordBatch> {
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::internal("columns that do not fit their schema").caused_by(e))
}

/// The index of the one column called `name`.
///
/// # Errors
/// `Schema`: none, with the nearest name, or several.
pub(super) fn find_column(schema: &Schema, name: &str) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, f)| f.name() == name).map(|(i, _)| i);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Error::new(ErrorKind::Schema, format!("there are several columns called {name:?}"))
            .column(name)
            .hint("give the columns names of their own first")),
        (None, _) => Err(no_column(schema, name)),
    }
}

pub(super) fn no_column(schema: &Schema, name: &str) -> Error {
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let error = Error::new(ErrorKind::Schema, format!("there is no column {name:?}"));
    match nearest(name, names.iter().copied()) {
        Some(near) => error.hint(format!("did you mean {near:?}?")),
        None => error.hint(format!("the columns are {}", names.join(", "))),
    }
}
