//! Reading a stream, as it comes through a pipe.

use super::damage::guarded;
use super::from_arrow;
use super::views::{viewed_batch, viewed_schema};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::SchemaRef;
use haul_model::{Error, ErrorKind, Result};
use std::io::Read;
use std::sync::Arc;

/// An Arrow IPC stream: an iterator of its record batches, strings and bytes as views.
///
/// It ends with an error where the stream stops without its end marker, because then nobody can tell whether rows
/// are missing.
pub struct RecordStream {
    reader: StreamReader<Tail>,
    schema: SchemaRef,
    name: String,
    ended: bool,
}

impl RecordStream {
    /// Reads the schema at the front of `input`. `name` stands in errors.
    ///
    /// # Errors
    /// `Data` where it is not an Arrow stream, or IO.
    pub fn open(input: Box<dyn Read + Send>, name: &str) -> Result<Self> {
        let tail = Tail { input, last: [0; 8] };
        let what = "not an Arrow stream";
        let reader = guarded(what, || StreamReader::try_new(tail, None).map_err(|error| from_arrow(what, error)));
        let reader = reader.map_err(|error| error.object(name))?;
        let schema = Arc::new(viewed_schema(&reader.schema()));
        Ok(Self { reader, schema, name: name.to_string(), ended: false })
    }

    /// Columns of its batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let what = "the stream cannot be read";
        let next = guarded(what, || self.reader.next().transpose().map_err(|error| from_arrow(what, error)))?;
        match next {
            Some(batch) => viewed_batch(&batch, &self.schema).map(Some),
            None if self.reader.get_ref().at_end_marker() => Ok(None),
            None => Err(Error::new(ErrorKind::Data, "the stream stops without its end marker, rows may be missing")
                .hint("its writer must close the stream (in pyarrow: writer.close())")),
        }
    }
}

impl Iterator for RecordStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_batch().map_err(|error| error.object(&self.name)).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Remembers the last bytes that went through.
struct Tail {
    input: Box<dyn Read + Send>,
    last: [u8; 8],
}

impl Tail {
    /// The marker of the end: a continuation and length 0.
    fn at_end_marker(&self) -> bool {
        self.last == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]
    }
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.input.read(buffer)?;
        let fresh = &buffer[..length];
        if let Some(end) = fresh.last_chunk::<8>() {
            self.last = *end;
        } else {
            self.last.rotate_left(length);
            self.last[8 - length..].copy_from_slice(fresh);
        }
        Ok(length)
    }
}
