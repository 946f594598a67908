//! Arrow columns to COPY BINARY tuples.
//!
//! [`WriteColumns`] is made once at plan time from the incoming fields and the target's columns; it says whether every pair has an
//! exact binary writer (else the whole table goes as COPY TEXT, [`super::text`]) and lists all pairs that cannot be
//! written at all. [`CopyEncoder`] then works row by row over columns bound once per batch: a block is tuples back to back (i16 field
//! count, then i32 length and bytes for each field), without stream header and trailer and without CopyData heads.

use super::catalog::PgColumn;
use super::encode_lossy;
use super::encode_source::{Source, unpacked};
use super::encode_value::{self, Refusal};
use super::target::Target;
use arrow_schema::Field;
use haul_model::{Block, BlockBody, Encoder, Error, ErrorKind, OnLossy, Rejects, Result, Rows, field_meta};
use std::sync::Arc;

/// One column on its way into the table.
#[derive(Debug, Clone)]
pub(super) struct WriteColumn {
    /// Name in the target.
    pub name: String,
    /// The target's type as SQL.
    pub type_name: String,
    pub target: Target,
    /// Name and type that come in.
    pub field: Field,
    /// Position in the incoming batch.
    pub index: usize,
}

/// The columns to be written, in the order of the COPY column list.
#[derive(Debug, Clone)]
pub struct WriteColumns {
    pub(super) columns: Arc<Vec<WriteColumn>>,
    /// The table, for messages.
    pub(super) table: Arc<str>,
    pub(super) on_lossy: OnLossy,
    /// The user asked that the server parses texts as it likes (`copy_format=text`).
    pub(super) lenient: bool,
}

impl WriteColumns {
    /// For each column of the COPY column list: its position in the incoming batch, the field there, and the target column.
    ///
    /// # Errors
    /// `Schema`: one error that lists every pair whose types have no exact mapping.
    pub fn new(table: &str, pairs: &[(usize, Field, PgColumn)], on_lossy: OnLossy) -> Result<Self> {
        let mut columns = Vec::with_capacity(pairs.len());
        let mut refused = Vec::new();
        for (index, field, column) in pairs {
            let target = Target::of(column);
            if let Err(why) = target.takes(field) {
                refused.push(format!("{:?} ({}) into {}: {why}", field.name(), field.data_type(), column.type_name));
            }
            if drops_interval_fields(column) && field_meta::source_type(field, "postgres") != Some(column.type_name.as_str()) {
                refused.push(format!(
                    "{:?} into {}, which drops the other fields of an interval without a word",
                    field.name(),
                    column.type_name
                ));
            }
            let (name, type_name) = (column.name.clone(), column.type_name.clone());
            columns.push(WriteColumn { name, type_name, target, field: field.clone(), index: *index });
        }
        if !refused.is_empty() {
            return Err(Error::new(ErrorKind::Schema, format!("types do not fit: {}", refused.join("; "))).object(table));
        }
        Ok(Self { columns: Arc::new(columns), table: table.into(), on_lossy, lenient: false })
    }

    /// Lets the server parse text as it likes: `copy_format=text`.
    pub fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// Whether every column has an exact binary writer.
    pub fn all_binary(&self) -> bool {
        self.text_only().is_empty()
    }

    /// Columns that only COPY TEXT can carry.
    pub fn text_only(&self) -> Vec<&str> {
        self.columns.iter().filter(|c| !c.target.binary_from(&c.field)).map(|c| c.name.as_str()).collect()
    }

    /// Whether arrays come as JSON: lists have a binary writer, but a JSON string is the server's own text of an array, which only
    /// the server parses, and which of the two comes is known only at the value.
    pub fn arrays_from_json(&self) -> bool {
        self.columns.iter().any(|c| field_meta::is_json(&c.field) && matches!(c.target, Target::Array { .. }))
    }

    pub(super) fn refused(&self, column: usize, refusal: Refusal) -> Error {
        let column = &self.columns[column];
        let kind = if refusal.lossy { ErrorKind::Lossy } else { ErrorKind::Data };
        let error = Error::new(kind, format!("{} (column of type {})", refusal.detail, column.type_name)).column(&column.name);
        match refusal.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// `interval year to month` and the like: the high half of the modifier is a mask of the fields kept (0x7FFF = all).
fn drops_interval_fields(column: &PgColumn) -> bool {
    column.base.oid == super::types::oid::INTERVAL && column.base.typmod >= 0 && (column.base.typmod >> 16) & 0x7FFF != 0x7FFF
}

/// Encodes batches as COPY BINARY tuples. One per worker.
pub struct CopyEncoder {
    plan: WriteColumns,
    out: Vec<u8>,
    rows: u64,
    spare: Vec<u8>,
    replaced: Vec<u64>,
}

impl CopyEncoder {
    /// An encoder for planned columns.
    ///
    /// # Errors
    /// `Unsupported`: a column that only COPY TEXT can carry.
    pub fn new(plan: &WriteColumns) -> Result<Self> {
        if let Some(column) = plan.text_only().first() {
            return Err(Error::new(ErrorKind::Unsupported, "the column has no binary writer; the table must be sent as COPY TEXT")
                .object(plan.table.as_ref())
                .column(*column)
                .hint("leave copy_format=auto"));
        }
        Ok(Self { replaced: vec![0; plan.columns.len()], plan: plan.clone(), out: Vec::new(), rows: 0, spare: Vec::new() })
    }

    /// Appends one row; on refusal the column, with the row taken back.
    #[inline]
    fn row(&mut self, sources: &[Source<'_>], row: usize) -> std::result::Result<(), (usize, Box<Refusal>)> {
        let start = self.out.len();
        self.out.extend_from_slice(&(sources.len() as u16).to_be_bytes());
        for (index, (column, source)) in self.plan.columns.iter().zip(sources).enumerate() {
            let field = self.out.len();
            if let Err(refusal) = encode_value::write(&column.target, source, row, &mut self.out) {
                self.out.truncate(field);
                match self.plan.on_lossy {
                    OnLossy::Null if refusal.lossy => encode_value::put_null(&mut self.out),
                    OnLossy::Clamp if refusal.lossy => {
                        if !encode_lossy::clamp(&column.target, source, row, &mut self.out) {
                            encode_value::put_null(&mut self.out);
                        }
                    }
                    _ => {
                        self.out.truncate(start);
                        return Err((index, refusal));
                    }
                }
                self.replaced[index] += 1;
            }
        }
        Ok(())
    }
}

/// The planned columns of a batch, without dictionaries.
pub(super) fn bound_arrays(plan: &WriteColumns, rows: &Rows) -> Result<Vec<arrow_array::ArrayRef>> {
    let column = |c: &WriteColumn| match rows.batch.columns().get(c.index) {
        Some(array) => unpacked(array),
        None => Err(Error::internal("a batch has fewer columns than were planned").column(&c.name)),
    };
    plan.columns.iter().map(column).collect()
}

/// Binds arrays for one batch.
pub(super) fn bind<'a>(plan: &WriteColumns, arrays: &'a [arrow_array::ArrayRef]) -> Result<Vec<Source<'a>>> {
    arrays.iter().zip(plan.columns.iter()).map(|(array, column)| Source::new(array, &column.field)).collect()
}

/// Tells how many values were replaced, column by column.
pub(super) fn report(plan: &WriteColumns, replaced: &mut [u64], rejects: &mut dyn Rejects) {
    for (column, count) in plan.columns.iter().zip(replaced) {
        if *count > 0 {
            rejects.lossy(&column.name, std::mem::take(count));
        }
    }
}

impl Encoder for CopyEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        let arrays = bound_arrays(&self.plan, rows)?;
        let sources = bind(&self.plan, &arrays)?;
        for row in 0..rows.batch.num_rows() {
            match self.row(&sources, row) {
                Ok(()) => self.rows += 1,
                Err((column, refusal)) => rejects.row(rows, row, self.plan.refused(column, *refusal))?,
            }
        }
        report(&self.plan, &mut self.replaced, rejects);
        Ok(())
    }

    fn pending(&self) -> usize {
        self.out.len()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let bytes = std::mem::replace(&mut self.out, std::mem::take(&mut self.spare));
        Ok(Some(Block { body: BlockBody::Bytes(bytes), rows: std::mem::take(&mut self.rows) }))
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare = buffer;
    }
}
