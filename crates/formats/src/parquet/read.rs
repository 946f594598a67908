//! Reading: the footer once, then row groups on the workers.

use super::read_schema::{ReadSchema, ReadTypes, read_schema};
use super::window::Windows;
use super::{from_parquet, prune, twin};
use crate::arrow_ipc::damage::guarded;
use crate::predicate::{Bound, Met, Predicate};
use crate::{ContainerInput, ReadAt, token_piece};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef, TimeUnit};
use haul_model::{Decoder, Emit, Error, ErrorKind, Raw, Rejects, Result, Rows, Settings, nearest};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use std::sync::Arc;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 8_192;
/// Bytes of a batch, about.
const BATCH_BYTES: usize = 1 << 20;

/// A Parquet file, opened: its footer is parsed, its columns are known.
pub struct ParquetInput(Arc<Opened>);

struct Opened {
    file: Arc<dyn ReadAt>,
    name: String,
    /// For decoding in the first (mostly only) type, and in the second.
    main: ArrowReaderMetadata,
    second: ArrowReaderMetadata,
    /// Columns of the file that are decoded, ascending: those asked for and those of the condition.
    decoded: Vec<usize>,
    /// For each column asked for, in that order, its place in `decoded`.
    columns: Vec<usize>,
    /// Those of `decoded` that are decoded twice.
    twins: Vec<usize>,
    /// What is emitted.
    schema: SchemaRef,
    /// Names of the decoded columns, for errors.
    names: Vec<String>,
    condition: Option<Bound>,
    /// Row groups that may hold rows that are wanted.
    groups: Vec<Group>,
    /// Row groups that cannot.
    skipped: u64,
}

/// A row group.
struct Group {
    number: usize,
    /// Rows in the row groups before it.
    before: u64,
}

impl ParquetInput {
    /// Reads the footer of `file`. `settings` are those of this format, `name` stands in errors.
    ///
    /// # Errors
    /// `Data` where it is not a whole Parquet file, `NotFound` for a column that is not there, `Unsupported`, or IO.
    pub fn open(file: Arc<dyn ReadAt>, settings: &Settings, name: &str) -> Result<Self> {
        guarded("the footer cannot be read", || Self::open_named(file, settings, name)).map_err(|error| error.object(name))
    }

    fn open_named(file: Arc<dyn ReadAt>, settings: &Settings, name: &str) -> Result<Self> {
        let metadata = Arc::new(read_footer(&file)?);
        let library = library_schema(&metadata)?;
        let nanos = settings.choice("int96").as_deref() == Some("nanos");
        let types = ReadTypes {
            int96: if nanos { TimeUnit::Nanosecond } else { TimeUnit::Microsecond },
            binary_as_text: settings.flag("binary_as_text", false),
        };
        let schemas = read_schema(&library, metadata.file_metadata().schema_descr(), types)?;
        let bind = |text| Predicate::parse(text).and_then(|condition| Bound::new(&condition, &schemas.emitted));
        let condition = settings.text("where").map(bind).transpose().map_err(|e| e.object("where"))?;
        let (groups, skipped) = choose_groups(&metadata, &schemas, condition.as_ref());
        let ReadSchema { decoded, second, twins, emitted } = schemas;
        let load = |schema: SchemaRef| {
            let options = ArrowReaderOptions::new().with_schema(schema);
            ArrowReaderMetadata::try_new(metadata.clone(), options).map_err(|error| from_parquet("the columns cannot be read", error))
        };
        let columns = match settings.list("columns") {
            Some(names) => select_columns(&emitted, &names)?,
            None => (0..emitted.fields().len()).collect(),
        };
        let schema = emitted.project(&columns).map_err(|error| Error::internal(error.to_string()))?;
        let mut all = columns.clone();
        all.extend(condition.iter().flat_map(Bound::columns));
        all.sort_unstable();
        all.dedup();
        let place = |column: &usize| all.binary_search(column).map_err(|_| Error::internal("a column that is not decoded"));
        let columns = columns.iter().map(place).collect::<Result<_>>()?;
        let twins = twins.into_iter().filter(|twin| all.contains(twin)).collect();
        let names = all.iter().map(|column| emitted.field(*column).name().clone()).collect();
        let (main, second) = (load(decoded)?, load(second)?);
        let schema = Arc::new(schema);
        let name = name.to_string();
        Ok(Self(Arc::new(Opened { file, name, main, second, decoded: all, columns, twins, schema, names, condition, groups, skipped })))
    }
}

/// Row groups with rows: those that may hold wanted ones, and how many were left out because they cannot.
fn choose_groups(metadata: &ParquetMetaData, schemas: &ReadSchema, condition: Option<&Bound>) -> (Vec<Group>, u64) {
    let may_hold = condition.map(|condition| prune::may_hold(condition, schemas, metadata));
    let (mut groups, mut skipped, mut before) = (Vec::new(), 0, 0);
    for (number, group) in metadata.row_groups().iter().enumerate().filter(|(_, group)| group.num_rows() > 0) {
        if may_hold.as_ref().is_none_or(|may_hold| may_hold[number]) {
            groups.push(Group { number, before });
        } else {
            skipped += 1;
        }
        before += group.num_rows() as u64;
    }
    (groups, skipped)
}

/// Parses the footer, and checks that the column chunks it names lie inside the file.
fn read_footer(file: &Arc<dyn ReadAt>) -> Result<ParquetMetaData> {
    let hint = "it may have been cut on its way; copy it again, or check that it is a Parquet file";
    if file.len() < 12 {
        return Err(Error::new(ErrorKind::Data, format!("not a Parquet file: only {} bytes", file.len())).hint(hint));
    }
    let windows = Windows::new(file.clone(), []);
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&windows)
        .map_err(|error| from_parquet("not a whole Parquet file", error).hint(hint))?;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 || group.columns().iter().any(|column| chunk_range(column).is_none_or(|range| range.end > file.len())) {
            return Err(Error::new(ErrorKind::Data, "the footer names data outside the file").hint(hint));
        }
    }
    Ok(metadata)
}

fn chunk_range(column: &parquet::file::metadata::ColumnChunkMetaData) -> Option<std::ops::Range<u64>> {
    let start = match column.dictionary_page_offset() {
        Some(dictionary) if dictionary > 0 => dictionary.min(column.data_page_offset()),
        _ => column.data_page_offset(),
    };
    let (start, length) = (u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?);
    Some(start..start.checked_add(length)?)
}

/// The library's own choice of types; without the embedded Arrow schema where that does not fit the file.
fn library_schema(metadata: &Arc<ParquetMetaData>) -> Result<SchemaRef> {
    let with = ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new());
    let loaded = match with {
        Ok(loaded) => Ok(loaded),
        Err(_) => ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new().with_skip_arrow_metadata(true)),
    };
    loaded.map(|loaded| loaded.schema().clone()).map_err(|error| from_parquet("the columns cannot be read", error))
}

/// Column numbers of `names`, which must each name one column exactly.
pub(crate) fn select_columns(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name).map(|(index, _)| index);
        match (found.next(), found.next()) {
            (Some(index), None) if !columns.contains(&index) => columns.push(index),
            (Some(_), None) => return Err(Error::new(ErrorKind::Config, "the column is asked for twice").column(name)),
            (Some(_), Some(_)) => return Err(Error::new(ErrorKind::Schema, "the file has several columns of this name").column(name)),
            (None, _) => {
                let error = Error::new(ErrorKind::NotFound, "no such column").column(name);
                return Err(match nearest(name, schema.fields().iter().map(|field| field.name().as_str())) {
                    Some(near) => error.hint(format!("did you mean {near:?}?")),
                    None => error,
                });
            }
        }
    }
    Ok(columns)
}

impl ContainerInput for ParquetInput {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn pieces(&self) -> Vec<u64> {
        let metadata = self.0.main.metadata();
        self.0.groups.iter().map(|group| metadata.row_group(group.number).num_rows() as u64).collect()
    }

    fn records_before(&self, piece: u32) -> Option<u64> {
        self.0.groups.get(piece as usize).map(|group| group.before)
    }

    fn skipped(&self) -> u64 {
        self.0.skipped
    }

    fn decoder(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(RowGroupDecoder(self.0.clone())))
    }
}

struct RowGroupDecoder(Arc<Opened>);

impl Decoder for RowGroupDecoder {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let piece = token_piece(&raw.bytes).ok_or_else(|| Error::internal("a Parquet decoder got bytes that are not a piece"))?;
        let group = self.0.groups.get(piece as usize).ok_or_else(|| Error::internal("no such row group"))?;
        self.0.decode_group(group, rejects, emit).map_err(|error| error.object(&self.0.name))
    }
}

impl Opened {
    fn decode_group(&self, group: &Group, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let number = group.number;
        let meta = self.main.metadata().row_group(number);
        let what = format!("row group {number} cannot be read");
        let batch_rows = self.batch_rows(meta);
        let reader = |metadata, columns| {
            guarded(&what, || self.reader(metadata, number, columns, batch_rows).map_err(|error| from_parquet(&what, error)))
        };
        let next =
            |reader: &mut ParquetRecordBatchReader| guarded(&what, || reader.next().transpose().map_err(|error| from_arrow(&what, error)));
        let mut main = reader(&self.main, &self.decoded)?;
        let mut second = match self.twins.as_slice() {
            [] => None,
            twins => Some(reader(&self.second, twins)?),
        };
        let mut first_record = group.before;
        while let Some(batch) = next(&mut main)? {
            let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
            if let Some(second) = &mut second {
                let twins = next(second)?.ok_or_else(|| Error::internal("two decodings of a row group differ in length"))?;
                self.merge_twins(&mut arrays, &twins).map_err(|(row, error)| match row {
                    Some(row) => error.row_in_chunk(first_record + row as u64),
                    None => error,
                })?;
            }
            if let Some(rows) = self.wanted(arrays, batch.num_rows(), first_record).map_err(|error| from_arrow(&what, error))? {
                emit(rows, rejects)?;
            }
            first_record += batch.num_rows() as u64;
        }
        let held = first_record - group.before;
        if held != meta.num_rows() as u64 {
            let detail = format!("row group {number} holds {held} rows, the footer promises {}", meta.num_rows());
            return Err(Error::new(ErrorKind::Data, detail));
        }
        Ok(())
    }

    fn merge_twins(&self, arrays: &mut [ArrayRef], twins: &RecordBatch) -> Result<(), (Option<usize>, Error)> {
        for (position, column) in self.decoded.iter().enumerate() {
            if let Ok(twin) = self.twins.binary_search(column) {
                arrays[position] = twin::merge(&arrays[position], twins.column(twin))
                    .map_err(|(row, error)| (row, error.column(&self.names[position])))?;
            }
        }
        Ok(())
    }

    /// The columns asked for, of the rows that meet the condition; `None` when no row does.
    fn wanted(&self, arrays: Vec<ArrayRef>, rows: usize, first_record: u64) -> Result<Option<Rows>, arrow_schema::ArrowError> {
        let met = match &self.condition {
            None => Met::All,
            Some(condition) => {
                let place = |column: usize| self.decoded.binary_search(&column).unwrap_or_default();
                condition.rows(rows, &|column| arrays[place(column)].as_ref() as &dyn Array)
            }
        };
        let columns = self.columns.iter().map(|position| arrays[*position].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let Met::Some(met) = met else { return Ok(Some(Rows::new(batch, first_record))) };
        if met.count_set_bits() == 0 {
            return Ok(None);
        }
        let selection = met.set_indices().map(|row| row as u32).collect();
        let batch = arrow_select::filter::filter_record_batch(&batch, &BooleanArray::new(met, None))?;
        Ok(Some(Rows { selection: Some(Arc::new(selection)), ..Rows::new(batch, first_record) }))
    }

    fn reader(
        &self,
        metadata: &ArrowReaderMetadata,
        group: usize,
        columns: &[usize],
        batch_rows: usize,
    ) -> parquet::errors::Result<ParquetRecordBatchReader> {
        let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
        let meta = metadata.metadata().row_group(group);
        let leaves = meta.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let windows = Windows::new(self.file.clone(), leaves.filter_map(|(_, column)| chunk_range(column)));
        windows.fetch()?;
        ParquetRecordBatchReaderBuilder::new_with_metadata(windows, metadata.clone())
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
    }

    /// Rows of a batch, so that it holds about a MiB.
    fn batch_rows(&self, meta: &RowGroupMetaData) -> usize {
        let share = self.decoded.len() as u64 * (meta.total_byte_size().max(0) as u64) / meta.num_columns().max(1) as u64;
        let row_bytes = (share / meta.num_rows().max(1) as u64).max(1);
        (BATCH_BYTES as u64 / row_bytes).clamp(16, BATCH_ROWS as u64) as usize
    }
}

fn from_arrow(what: &str, error: arrow_schema::ArrowError) -> Error {
    match error {
        arrow_schema::ArrowError::ExternalError(inner) => match inner.downcast::<ParquetError>() {
            Ok(error) => from_parquet(what, *error),
            Err(inner) => match inner.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(inner) => Error::new(ErrorKind::Data, format!("{what}: {inner}")),
            },
        },
        error => {
            let text = error.to_string();
            let text = text.split_once(": ").map_or(text.as_str(), |(_, detail)| detail);
            Error::new(ErrorKind::Data, format!("{what}: {text}"))
        }
    }
}
