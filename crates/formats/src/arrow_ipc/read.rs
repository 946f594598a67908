//! Reading files: the footer once, then record batches on the workers.

use super::damage::{buffers_are_sound, guarded};
use super::from_arrow;
use super::views::{viewed_batch, viewed_schema};
use crate::parquet::select_columns;
use crate::{ContainerInput, ReadAt, token_piece};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Footer, convert::fb_to_schema};
use arrow_schema::SchemaRef;
use haul_model::{Decoder, Emit, Error, ErrorKind, Raw, Rejects, Result, Rows, Settings};
use std::sync::Arc;

/// Rows of an emitted batch, at most: the file's own batches may be far larger.
const BATCH_ROWS: usize = 8_192;
/// What a file begins with, and ends with.
const MAGIC: &[u8] = b"ARROW1";

/// An Arrow IPC file, opened: its footer is parsed, its columns are known, its dictionaries read.
pub struct ArrowInput(Arc<Opened>);

struct Opened {
    file: Arc<dyn ReadAt>,
    name: String,
    decoder: FileDecoder,
    schema: SchemaRef,
    /// Record batches that hold rows, with their rows.
    blocks: Vec<(Block, u64)>,
}

impl ArrowInput {
    /// Reads the footer of `file`. `settings` are those of this format, `name` stands in errors.
    ///
    /// # Errors
    /// `Data` where it is not a whole Arrow file, `NotFound` for a column that is not there, or IO.
    pub fn open(file: Arc<dyn ReadAt>, settings: &Settings, name: &str) -> Result<Self> {
        guarded("the footer cannot be read", || Self::open_named(file, settings, name)).map_err(|error| error.object(name))
    }

    fn open_named(file: Arc<dyn ReadAt>, settings: &Settings, name: &str) -> Result<Self> {
        let footer = read_footer(file.as_ref())?;
        let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| broken(format!("its footer is damaged ({error})")))?;
        let schema = footer.schema().ok_or_else(|| broken("its footer has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Error::new(ErrorKind::Unsupported, "the file was written with the bytes of numbers in the other order"));
        }
        let schema = Arc::new(fb_to_schema(schema));
        let mut decoder = FileDecoder::new(schema.clone(), footer.version());
        let projected = match settings.list("columns") {
            None => schema,
            Some(names) => {
                let columns = select_columns(&schema, &names)?;
                let projected = schema.project(&columns).map_err(|error| Error::internal(error.to_string()))?;
                decoder = decoder.with_projection(columns);
                Arc::new(projected)
            }
        };
        for block in footer.dictionaries().iter().flatten() {
            let bytes = read_block(file.as_ref(), block)?;
            let message = header(&bytes)?;
            let batch = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
            check_buffers(batch, block, &bytes)?;
            decoder.read_dictionary(block, &bytes).map_err(|error| from_arrow("a dictionary cannot be read", error))?;
        }
        let blocks = record_blocks(file.as_ref(), &footer)?;
        let schema = Arc::new(viewed_schema(&projected));
        Ok(Self(Arc::new(Opened { file, name: name.to_string(), decoder, schema, blocks })))
    }
}

fn broken(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("not a whole Arrow file: {why}"))
        .hint("it may have been cut on its way; copy it again, or check that it is an Arrow IPC file")
}

/// The bytes of the footer.
fn read_footer(file: &dyn ReadAt) -> Result<bytes::Bytes> {
    let length = file.len();
    if length < 2 * MAGIC.len() as u64 + 8 {
        return Err(broken(format!("only {length} bytes")));
    }
    if file.read_at(0, MAGIC.len())?.as_ref() != MAGIC {
        return Err(broken("it does not begin as one"));
    }
    let end: [u8; 10] = file.read_at(length - 10, 10)?.as_ref().try_into().map_err(|_| Error::internal("a short read"))?;
    let footer = read_footer_length(end).map_err(|_| broken("it does not end with a footer"))?;
    match length.checked_sub(10 + footer as u64) {
        Some(start) => file.read_at(start, footer),
        None => Err(broken("its footer is longer than the file")),
    }
}

fn read_block(file: &dyn ReadAt, block: &Block) -> Result<Buffer> {
    let parts = (u64::try_from(block.offset()), usize::try_from(block.metaDataLength()), usize::try_from(block.bodyLength()));
    let (Ok(offset), Ok(meta), Ok(body)) = parts else { return Err(broken("its footer names a part with a negative length")) };
    let end = offset.checked_add(meta as u64).and_then(|end| end.checked_add(body as u64));
    if end.is_none_or(|end| end > file.len()) || meta < 8 {
        return Err(broken("its footer names data outside the file"));
    }
    Ok(Buffer::from(file.read_at(offset, meta + body)?))
}

/// The header at the front of a block.
fn header(bytes: &[u8]) -> Result<arrow_ipc::Message<'_>> {
    // An 8-byte prefix (marker and length), or 4 bytes in files older than format 0.15.
    let start = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
    arrow_ipc::root_as_message(&bytes[start..]).map_err(|error| broken(format!("a batch is damaged ({error})")))
}

/// Refuses a batch whose header does not fit its body.
fn check_buffers(batch: Option<arrow_ipc::RecordBatch<'_>>, block: &Block, bytes: &[u8]) -> Result<()> {
    let body = bytes.get(block.metaDataLength() as usize..).unwrap_or_default();
    match batch {
        Some(batch) if buffers_are_sound(&batch, body) => Ok(()),
        _ => Err(broken("the header of a batch is damaged")),
    }
}

/// The record batches, and how many rows their own headers say they have.
fn record_blocks(file: &dyn ReadAt, footer: &Footer<'_>) -> Result<Vec<(Block, u64)>> {
    let mut blocks = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        let front = Block::new(block.offset(), block.metaDataLength(), 0);
        let bytes = read_block(file, &front)?;
        let message = header(&bytes)?;
        let batch = message.header_as_record_batch().ok_or_else(|| broken("its footer names something that is not a batch"))?;
        let rows = u64::try_from(batch.length()).map_err(|_| broken("a batch with a negative length"))?;
        // The body too must be there, though it is read later.
        if (block.offset() as u64 + bytes.len() as u64).checked_add(block.bodyLength() as u64).is_none_or(|end| end > file.len()) {
            return Err(broken("its footer names data outside the file"));
        }
        if rows > 0 {
            blocks.push((*block, rows));
        }
    }
    Ok(blocks)
}

impl ContainerInput for ArrowInput {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn pieces(&self) -> Vec<u64> {
        self.0.blocks.iter().map(|(_, rows)| *rows).collect()
    }

    fn decoder(&self) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(BlockDecoder(self.0.clone())))
    }
}

struct BlockDecoder(Arc<Opened>);

impl Decoder for BlockDecoder {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let piece = token_piece(&raw.bytes).ok_or_else(|| Error::internal("an Arrow decoder got bytes that are not a piece"))?;
        let (block, rows) = self.0.blocks.get(piece as usize).ok_or_else(|| Error::internal("no such record batch"))?;
        let what = format!("record batch {piece} cannot be read");
        let batch = || {
            let bytes = read_block(self.0.file.as_ref(), block)?;
            check_buffers(header(&bytes)?.header_as_record_batch(), block, &bytes)?;
            let batch = self.0.decoder.read_record_batch(block, &bytes).map_err(|error| from_arrow(&what, error))?;
            let batch = batch.filter(|batch| batch.num_rows() as u64 == *rows);
            viewed_batch(&batch.ok_or_else(|| broken("a batch has not the rows that it promised"))?, &self.0.schema)
        };
        let batch = guarded(&what, batch).map_err(|error| error.object(&self.0.name))?;
        for first in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            let part = batch.slice(first, BATCH_ROWS.min(batch.num_rows() - first));
            emit(Rows::new(part, first as u64), rejects)?;
        }
        Ok(())
    }
}
