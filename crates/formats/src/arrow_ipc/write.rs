//! Writing files: record batches gathered on the workers, written in order.

use super::from_arrow;
use super::plain::{plain_array, plain_field, same_values, slice_bytes};
use crate::{Assembler, Output};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Block, BlockBody, Encoder, Encoding, Error, ErrorKind, Rejects, Result, Rows, Settings};
use std::any::Any;
use std::io::Write;
use std::sync::Arc;

/// Input bytes for one piece.
const RUN_BYTES: usize = 4 << 20;
/// A record batch ends at about this many bytes, whatever its rows.
const BATCH_BYTES: usize = 16 << 20;

/// An Arrow IPC file to be written with known columns.
pub struct ArrowOutput {
    incoming: SchemaRef,
    file: SchemaRef,
    compression: Option<CompressionType>,
    batch_rows: usize,
    views: bool,
}

impl ArrowOutput {
    /// Fixes the file's types for the columns of `schema`.
    ///
    /// # Errors
    /// `Config` for a setting, `Schema` for a column that cannot be written.
    pub fn new(settings: &Settings, schema: SchemaRef) -> Result<Self> {
        let views = settings.flag("views", false);
        let batch_rows = match settings.int("batch_rows") {
            None => 65_536,
            Some(rows) => usize::try_from(rows)
                .ok()
                .filter(|rows| *rows > 0)
                .ok_or_else(|| Error::new(ErrorKind::Config, "setting \"batch_rows\" must be at least 1"))?,
        };
        let compression = match settings.choice("compression").as_deref() {
            Some("lz4") => Some(CompressionType::LZ4_FRAME),
            Some("zstd") => Some(CompressionType::ZSTD),
            _ => None,
        };
        let fields: Vec<Field> =
            schema.fields().iter().map(|field| if views { field.as_ref().clone() } else { plain_field(field) }).collect();
        if let Some(field) = fields.iter().find(|field| views && matches!(field.data_type(), DataType::Dictionary(..))) {
            let error = Error::new(ErrorKind::Schema, "a dictionary column cannot be written with views=true").column(field.name());
            return Err(error.hint("leave out views=true"));
        }
        let file = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Self { incoming: schema, file, compression, batch_rows, views })
    }
}

impl Output for ArrowOutput {
    fn encoding(&self) -> Option<Encoding> {
        None
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(BatchEncoder {
            incoming: self.incoming.clone(),
            file: self.file.clone(),
            batch_rows: self.batch_rows,
            views: self.views,
            parts: Vec::new(),
            rows: 0,
            bytes: 0,
            done: Vec::new(),
            done_bytes: 0,
        }))
    }

    fn assembler(&self, out: Box<dyn Write + Send>) -> Result<Option<Box<dyn Assembler>>> {
        let failed = |error| from_arrow("the file cannot be begun", error);
        let options = IpcWriteOptions::default().try_with_compression(self.compression).map_err(failed)?;
        let writer = FileWriter::try_new_with_options(out, &self.file, options).map_err(failed)?;
        Ok(Some(Box::new(FileAssembler { writer })))
    }

    fn run_bytes(&self) -> Option<usize> {
        Some(RUN_BYTES)
    }

    fn piece_rows(&self) -> Option<usize> {
        Some(self.batch_rows)
    }

    fn columns(&self) -> Vec<(String, String, Option<String>)> {
        self.file.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string(), None)).collect()
    }
}

/// What an encoder hands to the assembler.
struct Piece(Vec<RecordBatch>);

/// Gathers rows into record batches.
struct BatchEncoder {
    incoming: SchemaRef,
    file: SchemaRef,
    batch_rows: usize,
    views: bool,
    /// Rows of the batch being gathered.
    parts: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    done: Vec<RecordBatch>,
    done_bytes: usize,
}

impl Encoder for BatchEncoder {
    fn push(&mut self, rows: &Rows, _rejects: &mut dyn Rejects) -> Result<()> {
        let mut batch = self.to_file_types(&rows.batch)?;
        while batch.num_rows() > 0 {
            let length = batch.num_rows().min(self.batch_rows - self.rows);
            let part = batch.slice(0, length);
            batch = batch.slice(length, batch.num_rows() - length);
            self.rows += length;
            self.bytes += part.columns().iter().map(slice_bytes).sum::<usize>();
            self.parts.push(part);
            if self.rows >= self.batch_rows || self.bytes >= BATCH_BYTES {
                self.close_batch()?;
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.bytes + self.done_bytes
    }

    fn take(&mut self) -> Result<Option<Block>> {
        self.close_batch()?;
        if self.done.is_empty() {
            return Ok(None);
        }
        self.done_bytes = 0;
        let batches = std::mem::take(&mut self.done);
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok(Some(Block { body: BlockBody::Opaque(Box::new(Piece(batches))), rows }))
    }
}

impl BatchEncoder {
    fn to_file_types(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let expected = self.incoming.fields();
        let wrong = batch.columns().iter().zip(expected).find(|(array, field)| !same_values(array.data_type(), field.data_type()));
        if let Some((array, field)) = wrong {
            let detail = format!("a batch has {} where the plan has {}", array.data_type(), field.data_type());
            return Err(Error::internal(detail).column(field.name()));
        }
        let columns = if self.views {
            batch.columns().to_vec()
        } else {
            let plain = batch.columns().iter().zip(expected).map(|(array, field)| plain_array(array).map_err(|e| e.column(field.name())));
            plain.collect::<Result<Vec<_>>>()?
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.file.clone(), columns, &options)
            .map_err(|error| from_arrow("a batch does not fit the planned columns", error))
    }

    fn close_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let batch = match self.parts.as_slice() {
            // A lone part may be a view into something larger; the writer copies only what it needs of it.
            [one] => one.clone(),
            parts => {
                arrow_select::concat::concat_batches(&self.file, parts).map_err(|error| from_arrow("rows cannot be gathered", error))?
            }
        };
        self.parts.clear();
        self.done_bytes += std::mem::take(&mut self.bytes);
        self.rows = 0;
        self.done.push(batch);
        Ok(())
    }
}

struct FileAssembler {
    writer: FileWriter<Box<dyn Write + Send>>,
}

impl Assembler for FileAssembler {
    fn add(&mut self, piece: Box<dyn Any + Send>) -> Result<u64> {
        let piece = piece.downcast::<Piece>().map_err(|_| Error::internal("an Arrow file got a piece of another format"))?;
        let mut rows = 0;
        for batch in &piece.0 {
            self.writer.write(batch).map_err(|error| from_arrow("a record batch cannot be written", error))?;
            rows += batch.num_rows() as u64;
        }
        Ok(rows)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let failed = |error| from_arrow("the footer cannot be written", error);
        self.writer.finish().map_err(failed)?;
        self.writer.flush().map_err(failed)
    }
}
