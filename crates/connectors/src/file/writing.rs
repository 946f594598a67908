//! One file while it is written, shared by all who write to it.

use super::config;
use super::target::Target;
use arrow_schema::SchemaRef;
use haul_formats::arrow_ipc::ArrowOutput;
use haul_formats::compression::{BlockCompressor, CompressingEncoder, Compression, Envelope};
use haul_formats::csv::CsvOutput;
use haul_formats::jsonl::JsonlOutput;
use haul_formats::parquet::ParquetOutput;
use haul_formats::xlsx::XlsxOutput;
use haul_formats::{Assembler, FormatSpec, Output};
use haul_model::{Block, BlockBody, Encoder, Error, Result, Settings, Slot};
use std::sync::{Arc, Mutex, PoisonError};

/// A format, a compression and their settings: what files are written as.
#[derive(Clone)]
pub struct Dress {
    /// The format.
    pub format: &'static FormatSpec,
    /// What is around it.
    pub compression: Compression,
    /// Settings of both.
    pub settings: Settings,
}

impl Dress {
    /// By name and settings.
    ///
    /// # Errors
    /// An unknown format.
    pub fn new(name: &str, settings: &Settings) -> Result<Self> {
        let format = config::choose(name, settings.text("format"))?;
        let compression = if format.container { Compression::None } else { Compression::for_writing(settings, name) };
        Ok(Self { format, compression, settings: settings.clone() })
    }

    /// The format for files with these columns.
    ///
    /// # Errors
    /// The format's own.
    pub fn output(&self, schema: &SchemaRef) -> Result<Arc<dyn Output>> {
        Ok(match self.format.name {
            "csv" | "tsv" => Arc::new(CsvOutput::new(&config::dialect(self.format, &self.settings), schema.clone())?),
            "jsonl" => Arc::new(JsonlOutput::new(&self.settings, schema.clone())?.on_lossy(config::on_lossy(&self.settings))),
            "parquet" => Arc::new(ParquetOutput::new(&self.settings, schema.clone())?),
            "xlsx" => Arc::new(XlsxOutput::new(&self.settings, schema.clone())?),
            _ => Arc::new(ArrowOutput::new(&self.settings, schema.clone())?),
        })
    }

    /// An encoder for blocks of such files.
    ///
    /// # Errors
    /// The format's own.
    pub fn encoder(&self, output: &dyn Output) -> Result<Box<dyn Encoder>> {
        let encoder = output.encoder()?;
        Ok(match self.compression {
            Compression::None => encoder,
            compression => Box::new(CompressingEncoder::new(encoder, compression, compression.level(&self.settings)?)?),
        })
    }
}

/// An open file.
pub struct Writing {
    /// Where its bytes go.
    pub target: Target,
    output: Arc<dyn Output>,
    compression: Compression,
    state: Mutex<State>,
}

struct State {
    /// Where the next block goes.
    offset: u64,
    /// Rows that were written.
    rows: u64,
    envelope: Envelope,
    assembler: Option<Box<dyn Assembler>>,
}

impl Writing {
    /// Begins a file: header and all.
    ///
    /// # Errors
    /// IO; the format's own.
    pub fn begin(target: Target, dress: &Dress, output: Arc<dyn Output>) -> Result<Self> {
        let mut envelope = Envelope::new(dress.compression);
        let mut start = envelope.header().to_vec();
        let prolog = output.prolog();
        if dress.compression == Compression::None {
            start.extend_from_slice(&prolog);
        } else if !prolog.is_empty() {
            let level = dress.compression.level(&dress.settings)?;
            envelope.push(BlockCompressor::new(dress.compression, level)?.compress(&prolog, &mut start)?);
        }
        target.write_at(&start, 0)?;
        let assembler = if dress.format.container { output.assembler(target.writer()?)? } else { None };
        let state = State { offset: start.len() as u64, rows: 0, envelope, assembler };
        Ok(Self { target, output, compression: dress.compression, state: Mutex::new(state) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a block its place; what cannot be written positionally is written now.
    ///
    /// # Errors
    /// IO; a piece of another format.
    pub fn reserve(&self, body: &mut BlockBody) -> Result<Slot> {
        let mut state = self.state();
        let offset = state.offset;
        let bytes: &[u8] = match body {
            BlockBody::Opaque(piece) => {
                let piece = std::mem::replace(piece, Box::new(()));
                let assembler = state.assembler.as_mut().ok_or_else(|| Error::internal("a container piece for a record file"))?;
                let rows = assembler.add(piece).map_err(|e| self.target.named(e))?;
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
        if !self.target.positional() {
            self.target.write_at(bytes, offset)?;
        }
        Ok(Slot { offset })
    }

    /// Writes a block at its place.
    ///
    /// # Errors
    /// IO.
    pub fn write(&self, slot: Slot, block: &Block) -> Result<()> {
        let bytes: &[u8] = match &block.body {
            BlockBody::Opaque(_) => return Ok(()),
            BlockBody::Bytes(bytes) | BlockBody::Compressed { bytes, .. } => bytes,
            BlockBody::Shared(bytes) => bytes,
        };
        if self.target.positional() {
            self.target.write_at(bytes, slot.offset)?;
        }
        // An independent count of what was really written, where the format allows a cheap one.
        let rows = match &block.body {
            BlockBody::Compressed { .. } => block.rows,
            _ => self.output.count_records(bytes).unwrap_or(block.rows),
        };
        self.state().rows += rows;
        Ok(())
    }

    /// Writes what stands at the end; the rows of the whole file.
    ///
    /// # Errors
    /// IO.
    pub fn complete(&self) -> Result<u64> {
        let mut state = self.state();
        if let Some(assembler) = state.assembler.take() {
            assembler.finish().map_err(|e| self.target.named(e))?;
        } else {
            let tail = if self.compression == Compression::None { Vec::new() } else { state.envelope.finish()? };
            self.target.write_at(&tail, state.offset)?;
            state.offset += tail.len() as u64;
            self.target.expect_length(state.offset)?;
        }
        Ok(state.rows)
    }

    /// Takes the file back; names what could not be removed.
    pub fn discard(&self) -> Vec<String> {
        self.state().assembler = None;
        self.target.discard()
    }
}
