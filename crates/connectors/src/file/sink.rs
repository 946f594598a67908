//! Files as a sink: a new file beside the old one, which takes its name only when it is whole and durable.
//!
//! Workers write positionally at offsets handed out in order; containers and pipes are written in order. Until `finish` the
//! new file has no name (`O_TMPFILE`) where the file system allows it, so that even a killed run leaves nothing behind.

use super::config;
use super::target::{Target, open_target, would_leave};
use arrow_schema::SchemaRef;
use haul_formats::arrow_ipc::ArrowOutput;
use haul_formats::compression::{BlockCompressor, CompressingEncoder, Compression, Envelope};
use haul_formats::csv::CsvOutput;
use haul_formats::jsonl::JsonlOutput;
use haul_formats::parquet::ParquetOutput;
use haul_formats::{Assembler, FormatSpec, Output, form_of};
use haul_model::{
    Block, BlockBody, ColumnMapping, Encoder, Encoding, Error, ErrorKind, Finished, Form, Guarantee, Holds, Incoming, Note, ReadBack,
    Result, Settings, Sink, Slot, WritePlan, Writer, field_meta,
};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Output of a record format is taken from the encoder in blocks of about this size.
const BLOCK: usize = 256 << 10;

/// Where the bytes go.
pub enum Destination {
    /// A path.
    Path(PathBuf),
    /// A pipe, handed in by the caller.
    Pipe(Box<dyn Write + Send + Sync>),
}

/// One output file (or pipe).
pub struct FileSink {
    name: String,
    destination: Mutex<Option<Destination>>,
    path: Option<PathBuf>,
    format: &'static FormatSpec,
    compression: Compression,
    settings: Settings,
    run_id: String,
    /// Names of the columns as they are written, once planned.
    columns: Vec<String>,
    output: Option<Arc<dyn Output>>,
    open: Option<Arc<Open>>,
}

/// The file while it is written; shared by all writers.
struct Open {
    target: Target,
    state: Mutex<State>,
    output: Arc<dyn Output>,
}

struct State {
    /// Where the next block goes.
    offset: u64,
    /// Rows confirmed by writers.
    rows: u64,
    envelope: Envelope,
    assembler: Option<Box<dyn Assembler>>,
}

impl FileSink {
    /// A sink for `destination`.
    ///
    /// # Errors
    /// An unknown format, or a mode that files do not have.
    pub fn new(destination: Destination, settings: &Settings, run_id: &str) -> Result<Self> {
        let path = match &destination {
            Destination::Path(path) => Some(path.clone()),
            Destination::Pipe(_) => None,
        };
        let name = path.as_ref().map_or("standard output".to_string(), |p| p.display().to_string());
        let file_name = if path.is_some() { name.as_str() } else { "-" };
        let format = config::choose(file_name, settings.text("format"))?;
        let compression = if format.container { Compression::None } else { Compression::for_writing(settings, file_name) };
        if settings.choice("mode").as_deref() == Some("append") {
            return Err(Error::new(ErrorKind::Unsupported, "a file cannot be appended to without risking half a record")
                .object(name)
                .hint("write another file beside it"));
        }
        Ok(Self {
            name,
            destination: Mutex::new(Some(destination)),
            path,
            format,
            compression,
            settings: settings.clone(),
            run_id: run_id.to_string(),
            columns: Vec::new(),
            output: None,
            open: None,
        })
    }

    fn make_output(&self, schema: &SchemaRef) -> Result<Arc<dyn Output>> {
        Ok(match self.format.name {
            "csv" | "tsv" => Arc::new(CsvOutput::new(&config::dialect(self.format, &self.settings), schema.clone())?),
            "jsonl" => Arc::new(JsonlOutput::new(&self.settings, schema.clone())?.on_lossy(config::on_lossy(&self.settings))),
            "parquet" => Arc::new(ParquetOutput::new(&self.settings, schema.clone())?),
            _ => Arc::new(ArrowOutput::new(&self.settings, schema.clone())?),
        })
    }

    fn output(&self) -> Result<&Arc<dyn Output>> {
        self.output.as_ref().ok_or_else(|| Error::internal("the file sink was not planned"))
    }
}

impl Sink for FileSink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn form(&self) -> Form {
        form_of(self.format)
    }

    fn accepts(&self, encoding: &Encoding, schema: &SchemaRef) -> bool {
        // Compressed output is made block by block from encoded rows.
        self.compression == Compression::None && self.make_output(schema).is_ok_and(|o| o.encoding().as_ref() == Some(encoding))
    }

    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let output = self.make_output(&incoming.schema).map_err(|e| e.object(&self.name))?;
        let mut notes: Vec<Note> = output.notes();
        let (method, guarantee) = match &self.path {
            Some(path) => {
                super::target::check(path, self.settings.choice("mode").as_deref() == Some("create"))?;
                if super::target::is_special(path) {
                    ("written straight to the device or pipe".to_string(), Guarantee::None)
                } else {
                    let durable = if self.settings.flag("fsync", true) {
                        "temporary file, fsync, rename"
                    } else {
                        "temporary file, rename (no fsync)"
                    };
                    (durable.to_string(), Guarantee::AllOrNothing)
                }
            }
            None => ("written to the pipe in order".to_string(), Guarantee::None),
        };
        if self.compression != Compression::None {
            notes.push(Note::new(format!("compressed with {}, block by block on every core", self.compression.name())));
        }
        let run_bytes = output.run_bytes();
        let columns = incoming.schema.fields().iter().zip(output.columns()).map(|(field, (target, target_type, note))| ColumnMapping {
            source: field.name().clone(),
            source_type: field_meta::source_type(field, "postgres").map_or_else(|| field.data_type().to_string(), str::to_string),
            target,
            target_type,
            note,
        });
        let plan = WritePlan {
            method,
            ddl: Vec::new(),
            columns: columns.collect(),
            notes,
            guarantee,
            own_connections: false,
            whole_splits: false,
            max_writers: None,
            block_bytes: run_bytes.map_or(BLOCK, |_| usize::MAX),
            run_bytes,
        };
        self.columns = plan.columns.iter().map(|column| column.target.clone()).collect();
        self.output = Some(output);
        Ok(plan)
    }

    fn leaves(&self) -> Vec<String> {
        let temp = self.path.as_ref().and_then(|path| would_leave(path, &self.run_id));
        temp.map(|temp| format!("file {}", temp.display())).into_iter().collect()
    }

    fn read_back(&self) -> Result<ReadBack> {
        if self.path.as_ref().is_none_or(|path| super::target::is_special(path)) {
            return Err(Error::new(ErrorKind::Unsupported, "what goes into a pipe or device cannot be read again").object(&self.name));
        }
        let tokens = self.format.name == "jsonl";
        let settings = config::reading(self.format, &self.settings, &self.columns);
        Ok(ReadBack { settings, columns: self.columns.iter().cloned().enumerate().collect(), holds: Holds::Written, tokens })
    }

    fn begin(&mut self) -> Result<()> {
        let output = self.output()?.clone();
        let destination = self.destination.lock().unwrap_or_else(PoisonError::into_inner).take();
        let destination = destination.ok_or_else(|| Error::internal("the file sink was begun twice"))?;
        let target = open_target(destination, &self.run_id)?;
        let mut envelope = Envelope::new(self.compression);
        let mut start = envelope.header().to_vec();
        let prolog = output.prolog();
        if self.compression == Compression::None {
            start.extend_from_slice(&prolog);
        } else if !prolog.is_empty() {
            let level = self.compression.level(&self.settings)?;
            let plain = BlockCompressor::new(self.compression, level)?.compress(&prolog, &mut start)?;
            envelope.push(plain);
        }
        target.write_at(&start, 0)?;
        let assembler = if self.format.container { output.assembler(target.writer()?)? } else { None };
        let state = State { offset: start.len() as u64, rows: 0, envelope, assembler };
        self.open = Some(Arc::new(Open { target, state: Mutex::new(state), output }));
        Ok(())
    }

    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        let encoder = self.output()?.encoder()?;
        Ok(match self.compression {
            Compression::None => encoder,
            compression => Box::new(CompressingEncoder::new(encoder, compression, compression.level(&self.settings)?)?),
        })
    }

    fn open(&self, _lane: u32) -> Result<Box<dyn Writer>> {
        let open = self.open.clone().ok_or_else(|| Error::internal("the file sink was not begun"))?;
        Ok(Box::new(FileWriter { open }))
    }

    fn finish(&mut self) -> Result<Finished> {
        let open = self.open.take().ok_or_else(|| Error::internal("the file sink was not begun"))?;
        let mut state = open.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(assembler) = state.assembler.take() {
            assembler.finish().map_err(|e| open.target.named(e))?;
        } else {
            let tail = if self.compression == Compression::None { Vec::new() } else { state.envelope.finish()? };
            open.target.write_at(&tail, state.offset)?;
            state.offset += tail.len() as u64;
            open.target.expect_length(state.offset)?;
        }
        let bytes = open.target.publish(self.settings.flag("fsync", true))?;
        Ok(Finished { rows: state.rows, bytes, ..Finished::default() })
    }

    fn abort(&mut self) -> Vec<String> {
        match self.open.take() {
            Some(open) => {
                open.state.lock().unwrap_or_else(PoisonError::into_inner).assembler = None;
                open.target.discard()
            }
            None => Vec::new(),
        }
    }
}

struct FileWriter {
    open: Arc<Open>,
}

impl Writer for FileWriter {
    fn reserve(&mut self, block: &mut Block) -> Result<Slot> {
        let open = &self.open;
        let mut state = open.state.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = state.offset;
        let bytes: &[u8] = match &mut block.body {
            BlockBody::Opaque(piece) => {
                let piece = std::mem::replace(piece, Box::new(()));
                let assembler = state.assembler.as_mut().ok_or_else(|| Error::internal("a container piece for a record file"))?;
                let rows = assembler.add(piece).map_err(|e| open.target.named(e))?;
                state.rows += rows;
                return Ok(Slot { offset });
            }
            BlockBody::Bytes(bytes) => bytes,
            BlockBody::Compressed { bytes, plain } => {
                state.envelope.push(*plain);
                bytes
            }
            BlockBody::Shared(bytes) => bytes,
        };
        state.offset += bytes.len() as u64;
        if !open.target.positional() {
            open.target.write_at(bytes, offset)?;
        }
        Ok(Slot { offset })
    }

    fn write(&mut self, slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        let bytes: &[u8] = match &block.body {
            BlockBody::Opaque(_) => return Ok(Vec::new()),
            BlockBody::Bytes(bytes) | BlockBody::Compressed { bytes, .. } => bytes,
            BlockBody::Shared(bytes) => bytes,
        };
        if self.open.target.positional() {
            self.open.target.write_at(bytes, slot.offset)?;
        }
        // An independent count of what was really written, where the format allows a cheap one.
        let rows = match &block.body {
            BlockBody::Compressed { .. } => block.rows,
            _ => self.open.output.count_records(bytes).unwrap_or(block.rows),
        };
        self.open.state.lock().unwrap_or_else(PoisonError::into_inner).rows += rows;
        Ok(Vec::new())
    }

    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        Ok(Vec::new())
    }
}
