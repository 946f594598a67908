//! Writing: row groups built on the workers, put into the file in order.

use super::columns::describe_columns;
use super::distinct::Sketch;
use super::write_schema::{WriteSchema, write_schema};
use super::{from_io, from_parquet};
use crate::arrow_ipc::plain::{same_values, slice_bytes};
use crate::{Assembler, Output};
use arrow_array::cast::AsArray;
use arrow_array::types::{Time32MillisecondType, Time32SecondType, TimestampMillisecondType, TimestampSecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use haul_model::{Block, BlockBody, Encoder, Encoding, Error, ErrorKind, Rejects, Result, Rows, Settings};
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};
use std::any::Any;
use std::io::Write;
use std::sync::Arc;

/// Input bytes for one piece: large enough for good row groups, small enough for several workers.
const RUN_BYTES: usize = 16 << 20;

/// A Parquet file to be written with known columns.
pub struct ParquetOutput {
    shared: Arc<Shared>,
    columns: Vec<(String, String, Option<String>)>,
}

struct Shared {
    incoming: SchemaRef,
    file: SchemaRef,
    root: TypePtr,
    properties: WriterPropertiesPtr,
    group_rows: usize,
    group_bytes: usize,
}

impl ParquetOutput {
    /// Checks that Parquet can hold the columns of `schema` and fixes the file's types.
    ///
    /// # Errors
    /// `Schema` for a column that it cannot hold, `Config` for a setting.
    pub fn new(settings: &Settings, schema: SchemaRef) -> Result<Self> {
        let WriteSchema { arrow, root } = write_schema(&schema)?;
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("haul version ", env!("CARGO_PKG_VERSION")).to_string())
            .set_compression(compression(settings)?)
            .set_statistics_enabled(EnabledStatistics::Page)
            .build();
        add_encoded_arrow_schema_to_metadata(&arrow, &mut properties);
        let (properties, file) = (Arc::new(properties), Arc::new(arrow));
        let positive = |name: &str, value: Option<u64>, default: usize| match value {
            None => Ok(default),
            Some(0) => Err(Error::new(ErrorKind::Config, format!("setting {name:?} must be at least 1"))),
            Some(value) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
        };
        let rows = settings.int("row_group_rows").map(|rows| u64::try_from(rows).unwrap_or(0));
        let (group_rows, group_bytes) =
            (positive("row_group_rows", rows, 122_880)?, positive("row_group_bytes", settings.bytes("row_group_bytes"), 64 << 20)?);
        let columns = describe_columns(&schema, &root);
        Ok(Self { shared: Arc::new(Shared { incoming: schema, file, root, properties, group_rows, group_bytes }), columns })
    }
}

fn compression(settings: &Settings) -> Result<Compression> {
    let level = settings.int("compression_level");
    let bad = |range: &str| Error::new(ErrorKind::Config, format!("setting \"compression_level\" takes {range} here"));
    Ok(match settings.choice("compression").as_deref() {
        Some("none") => Compression::UNCOMPRESSED,
        Some("snappy") => Compression::SNAPPY,
        Some("lz4") => Compression::LZ4_RAW,
        Some("gzip") => {
            let level = u32::try_from(level.unwrap_or(6)).ok().and_then(|level| GzipLevel::try_new(level).ok());
            Compression::GZIP(level.ok_or_else(|| bad("0 to 9"))?)
        }
        _ => {
            let level = i32::try_from(level.unwrap_or(1)).ok().and_then(|level| ZstdLevel::try_new(level).ok());
            Compression::ZSTD(level.ok_or_else(|| bad("1 to 22"))?)
        }
    })
}

impl Output for ParquetOutput {
    fn encoding(&self) -> Option<Encoding> {
        None
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(RowGroupEncoder {
            factory: self.shared.factory(&[])?,
            sketches: Some(self.shared.file.fields().iter().map(|field| Sketch::of(field.data_type())).collect()),
            shared: self.shared.clone(),
            writers: None,
            rows: 0,
            bytes: 0,
            done: Vec::new(),
            done_rows: 0,
            done_bytes: 0,
        }))
    }

    fn assembler(&self, out: Box<dyn Write + Send>) -> Result<Option<Box<dyn Assembler>>> {
        let writer = SerializedFileWriter::new(out, self.shared.root.clone(), self.shared.properties.clone())
            .map_err(|error| from_parquet("the file cannot be begun", error))?;
        Ok(Some(Box::new(FileAssembler { writer })))
    }

    fn run_bytes(&self) -> Option<usize> {
        Some(RUN_BYTES)
    }

    fn piece_rows(&self) -> Option<usize> {
        Some(self.shared.group_rows)
    }

    fn columns(&self) -> Vec<(String, String, Option<String>)> {
        self.columns.clone()
    }
}

/// A finished row group: its column chunks, encoded and compressed.
struct RowGroup {
    chunks: Vec<ArrowColumnChunk>,
    rows: usize,
}

/// What an encoder hands to the assembler.
struct Piece(Vec<RowGroup>);

/// Builds row groups; one is open at a time.
struct RowGroupEncoder {
    shared: Arc<Shared>,
    factory: ArrowRowGroupWriterFactory,
    /// Until the first row group is closed.
    sketches: Option<Vec<Option<Sketch>>>,
    writers: Option<Vec<ArrowColumnWriter>>,
    /// Rows and bytes (before encoding) of the open row group.
    rows: usize,
    bytes: usize,
    done: Vec<RowGroup>,
    done_rows: usize,
    done_bytes: usize,
}

impl Encoder for RowGroupEncoder {
    fn push(&mut self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<()> {
        self.shared.check_types(&rows.batch)?;
        let mut batch = self.shared.without_missing(rows, rejects)?;
        while batch.num_rows() > 0 {
            let length = batch.num_rows().min(self.shared.group_rows - self.rows);
            self.write(&batch.slice(0, length)).map_err(|(row, error)| match row {
                Some(row) => rows.locate(row, error),
                None => error,
            })?;
            batch = batch.slice(length, batch.num_rows() - length);
            if self.rows >= self.shared.group_rows || self.bytes >= self.shared.group_bytes {
                self.close_group()?;
            }
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.done_bytes + self.writers.iter().flatten().map(ArrowColumnWriter::get_estimated_total_bytes).sum::<usize>()
    }

    fn take(&mut self) -> Result<Option<Block>> {
        self.close_group()?;
        if self.done.is_empty() {
            return Ok(None);
        }
        let groups = std::mem::take(&mut self.done);
        let rows = std::mem::take(&mut self.done_rows) as u64;
        self.done_bytes = 0;
        Ok(Some(Block { body: BlockBody::Opaque(Box::new(Piece(groups))), rows }))
    }
}

impl RowGroupEncoder {
    /// Adds rows to the open row group.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), (Option<usize>, Error)> {
        let shared = self.shared.clone();
        if self.writers.is_none() {
            let writers = self.factory.create_column_writers(0);
            self.writers = Some(writers.map_err(|error| (None, from_parquet("a row group cannot be begun", error)))?);
        }
        for (sketch, column) in self.sketches.iter_mut().flatten().zip(batch.columns()) {
            if let Some(sketch) = sketch {
                sketch.add(column);
            }
        }
        let mut writers = self.writers.iter_mut().flatten();
        for (column, field) in batch.columns().iter().zip(shared.file.fields()) {
            let array = to_millis(column).map_err(|row| (Some(row), seconds_error(field)))?;
            let failed = |error| (None, from_parquet("the column cannot be written", error).column(field.name()));
            // The array's own type (a view, say), with the file's nullability.
            let field = Field::new("", array.data_type().clone(), field.is_nullable());
            for leaf in compute_leaves(&field, &array).map_err(failed)? {
                let writer = writers.next().ok_or_else(|| (None, Error::internal("more Parquet leaves than writers")))?;
                writer.write(&leaf).map_err(failed)?;
            }
            self.bytes += slice_bytes(&array);
        }
        self.rows += batch.num_rows();
        Ok(())
    }

    fn close_group(&mut self) -> Result<()> {
        let Some(writers) = self.writers.take() else { return Ok(()) };
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        self.learn()?;
        let chunks = writers.into_iter().map(ArrowColumnWriter::close).collect::<parquet::errors::Result<Vec<_>>>();
        let chunks = chunks.map_err(|error| from_parquet("a row group cannot be written", error))?;
        self.done_bytes += chunks.iter().map(|chunk| chunk.close().bytes_written as usize).sum::<usize>();
        self.done_rows += rows;
        self.done.push(RowGroup { chunks, rows });
        Ok(())
    }
}

impl RowGroupEncoder {
    /// After the first row group: the columns that go on without a dictionary.
    fn learn(&mut self) -> Result<()> {
        let Some(sketches) = self.sketches.take() else { return Ok(()) };
        let fields = self.shared.file.fields().iter().zip(sketches);
        let plain: Vec<&str> = fields
            .filter(|(_, sketch)| sketch.as_ref().is_some_and(Sketch::hardly_repeats))
            .map(|(field, _)| field.name().as_str())
            .collect();
        if !plain.is_empty() {
            self.factory = self.shared.factory(&plain)?;
        }
        Ok(())
    }
}

fn seconds_error(field: &Field) -> Error {
    Error::new(ErrorKind::Data, "a time in seconds does not fit milliseconds, the coarsest unit of Parquet").column(field.name())
}

/// Seconds as milliseconds; any other array as it is. The error is the row that does not fit.
fn to_millis(array: &ArrayRef) -> Result<ArrayRef, usize> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            let seconds = array.as_primitive::<TimestampSecondType>();
            let fits = |row: usize| seconds.is_null(row) || seconds.value(row).checked_mul(1_000).is_some();
            if let Some(row) = (0..seconds.len()).find(|row| !fits(*row)) {
                return Err(row);
            }
            let millis: PrimitiveArray<TimestampMillisecondType> = seconds.unary(|value| value.wrapping_mul(1_000));
            Ok(Arc::new(millis.with_timezone_opt(zone.clone())))
        }
        DataType::Time32(TimeUnit::Second) => {
            let seconds = array.as_primitive::<Time32SecondType>();
            let fits = |row: usize| seconds.is_null(row) || seconds.value(row).checked_mul(1_000).is_some();
            if let Some(row) = (0..seconds.len()).find(|row| !fits(*row)) {
                return Err(row);
            }
            Ok(Arc::new(seconds.unary::<_, Time32MillisecondType>(|value| value.wrapping_mul(1_000))))
        }
        _ => Ok(array.clone()),
    }
}

impl Shared {
    /// What makes the writers of a row group, without a dictionary for the columns `plain`.
    fn factory(&self, plain: &[&str]) -> Result<ArrowRowGroupWriterFactory> {
        let mut properties = self.properties.clone();
        if !plain.is_empty() {
            let without = |builder: WriterPropertiesBuilder, name: &&str| {
                builder.set_column_dictionary_enabled(ColumnPath::new(vec![(*name).to_string()]), false)
            };
            properties = Arc::new(plain.iter().fold(properties.as_ref().clone().into_builder(), without).build());
        }
        let template = SerializedFileWriter::new(std::io::sink(), self.root.clone(), properties)
            .map_err(|error| from_parquet("the columns cannot be written", error))?;
        Ok(ArrowRowGroupWriterFactory::new(&template, self.file.clone()))
    }

    fn check_types(&self, batch: &RecordBatch) -> Result<()> {
        let expected = self.incoming.fields();
        if batch.num_columns() != expected.len() {
            return Err(Error::internal(format!("a batch of {} columns for a file of {}", batch.num_columns(), expected.len())));
        }
        let wrong = batch.columns().iter().zip(expected).find(|(array, field)| !same_values(array.data_type(), field.data_type()));
        match wrong {
            None => Ok(()),
            Some((array, field)) => {
                let detail = format!("a batch has {} where the plan has {}", array.data_type(), field.data_type());
                Err(Error::internal(detail).column(field.name()))
            }
        }
    }

    /// The rows that have a value in every required column; the others are reported.
    fn without_missing(&self, rows: &Rows, rejects: &mut dyn Rejects) -> Result<RecordBatch> {
        let batch = &rows.batch;
        let required =
            self.file.fields().iter().zip(batch.columns()).filter(|(field, array)| !field.is_nullable() && array.null_count() > 0);
        let mut keep: Option<Vec<bool>> = None;
        for (field, array) in required {
            let keep = keep.get_or_insert_with(|| vec![true; batch.num_rows()]);
            for row in (0..array.len()).filter(|row| array.is_null(*row)) {
                if std::mem::replace(&mut keep[row], false) {
                    let error = Error::new(ErrorKind::Data, "NULL in a column that must have a value").column(field.name());
                    rejects.row(rows, row, error)?;
                }
            }
        }
        match keep {
            None => Ok(batch.clone()),
            Some(keep) => arrow_select::filter::filter_record_batch(batch, &BooleanArray::from(keep))
                .map_err(|error| Error::internal(error.to_string())),
        }
    }
}

struct FileAssembler {
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
}

impl Assembler for FileAssembler {
    fn add(&mut self, piece: Box<dyn Any + Send>) -> Result<u64> {
        let piece = piece.downcast::<Piece>().map_err(|_| Error::internal("a Parquet file got a piece of another format"))?;
        let mut rows = 0;
        for group in piece.0 {
            rows += group.rows as u64;
            let add = || {
                let mut writer = self.writer.next_row_group()?;
                for chunk in group.chunks {
                    chunk.append_to_row_group(&mut writer)?;
                }
                writer.close()
            };
            add().map_err(|error| from_parquet("a row group cannot be written", error))?;
        }
        Ok(rows)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut out = self.writer.into_inner().map_err(|error| from_parquet("the footer cannot be written", error))?;
        out.flush().map_err(|error| from_io("the file cannot be written", error))
    }
}
