//! A source and a sink that keep their batches in memory: the first endpoints to pass the conformance suite, and the
//! ones that tests of the engine are written with.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use haul_model::{
    Batch, Block, BlockBody, ColumnMapping, Decoder, Emit, Encoder, Encoding, Error, Estimate, Finished, Form, Guarantee, Holds, Incoming,
    Next, Payload, Position, Raw, ReadBack, ReadPlan, Reader, Reading, Rejects, Result, Rows, Sink, Slot, Source, Span, Split, WritePlan,
    Writer,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A chunk as a test gives it.
#[derive(Debug, Clone)]
pub enum Chunk {
    /// Columns.
    Columns(RecordBatch),
    /// Encoded records (as many as said), for pass-through.
    Raw(Bytes, u64),
}

/// Splits of chunks. Positions count chunks.
#[derive(Debug, Clone)]
pub struct MemorySource {
    schema: SchemaRef,
    splits: Arc<Vec<Vec<Chunk>>>,
    encoding: Option<Encoding>,
    /// Lanes of the read plan.
    lanes: usize,
}

impl MemorySource {
    /// Each inner list is a split. All batches have the schema.
    pub fn new(schema: SchemaRef, splits: Vec<Vec<RecordBatch>>) -> Self {
        let splits = splits.into_iter().map(|s| s.into_iter().map(Chunk::Columns).collect()).collect();
        Self { schema, splits: Arc::new(splits), encoding: None, lanes: 0 }
    }

    /// Encoded chunks, offered for pass-through only.
    pub fn encoded(schema: SchemaRef, encoding: Encoding, splits: Vec<Vec<(Bytes, u64)>>) -> Self {
        let splits = splits.into_iter().map(|s| s.into_iter().map(|(bytes, records)| Chunk::Raw(bytes, records)).collect()).collect();
        Self { schema, splits: Arc::new(splits), encoding: Some(encoding), lanes: 0 }
    }

    /// With this number of lanes in its plan.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }
}

fn records(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Columns(batch) => batch.num_rows() as u64,
        Chunk::Raw(_, records) => *records,
    }
}

impl Source for MemorySource {
    fn name(&self) -> String {
        "memory".into()
    }
    fn estimate(&self) -> Estimate {
        Estimate { rows: Some(self.splits.iter().flatten().map(records).sum()), bytes: None }
    }
    fn encodings(&self) -> Vec<Encoding> {
        self.encoding.iter().cloned().collect()
    }
    fn schema(&self, _form: Form) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }
    fn plan(&mut self, _reading: &Reading) -> Result<ReadPlan> {
        let splits = self.splits.iter().enumerate().map(|(id, chunks)| Split {
            id: id as u32,
            what: format!("memory:{id}"),
            rows: Some(chunks.iter().map(records).sum()),
            bytes: None,
        });
        let splits = splits.collect();
        Ok(ReadPlan { splits, method: "batches in memory".into(), lanes: self.lanes, ..ReadPlan::default() })
    }
    fn reopens(&self) -> bool {
        true
    }
    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        let next = from.as_number().ok_or_else(|| Error::internal("a position of another source"))?;
        Ok(Box::new(MemoryReader { splits: self.splits.clone(), split: split.id, from: from.clone(), next: next as usize }))
    }
    fn decoder(&self, _form: Form) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(NoDecoder(self.schema.clone())))
    }
}

struct MemoryReader {
    splits: Arc<Vec<Vec<Chunk>>>,
    split: u32,
    from: Position,
    next: usize,
}

impl Reader for MemoryReader {
    fn next(&mut self) -> Result<Next> {
        let Some(chunk) = self.splits[self.split as usize].get(self.next) else { return Ok(Next::End) };
        self.next += 1;
        let to = Position::number(self.next as u64);
        let span = Span { split: self.split, from: std::mem::replace(&mut self.from, to.clone()), to };
        let payload = match chunk.clone() {
            Chunk::Columns(batch) => Payload::Columns(batch),
            Chunk::Raw(bytes, records) => Payload::Raw(Raw { bytes, records: Some(records), ..Raw::default() }),
        };
        Ok(Next::Batch(Batch { spans: vec![span], payload }))
    }
}

/// The decoder of a source whose readers give columns: it has nothing to decode.
struct NoDecoder(SchemaRef);

impl Decoder for NoDecoder {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }
    fn decode(&mut self, _raw: Raw, _rejects: &mut dyn Rejects, _emit: &mut Emit<'_>) -> Result<()> {
        Err(Error::internal("raw bytes in memory can only pass through"))
    }
}

/// What a [`MemorySink`] holds, as a reader of the target sees it.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// Batches in the order of their slots.
    pub batches: Vec<RecordBatch>,
    /// Pass-through bytes in the order of their slots.
    pub bytes: Vec<u8>,
    /// In how many blocks they came.
    pub blocks: usize,
    /// How often a sink has finished.
    pub finished: u32,
    /// How often one was aborted.
    pub aborted: u32,
}

/// Collects what is written; visible only once it has finished.
#[derive(Debug, Clone, Default)]
pub struct MemorySink {
    target: Arc<Mutex<Content>>,
    staging: Arc<Mutex<Staging>>,
    form: Option<Form>,
    encoding: Option<Encoding>,
    own_connections: bool,
    block_bytes: usize,
    refuse: Option<u64>,
    takes_back: bool,
    columns: Vec<String>,
}

#[derive(Debug, Default)]
struct Staging {
    begun: bool,
    next: u64,
    written: BTreeMap<u64, Piece>,
}

#[derive(Debug)]
enum Piece {
    Batches(Vec<RecordBatch>),
    Bytes(Bytes),
}

impl MemorySink {
    /// An empty one for typed values in blocks of a few rows.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wants values in this form.
    pub fn form(mut self, form: Form) -> Self {
        self.form = Some(form);
        self
    }
    /// Takes bytes in this encoding as they are.
    pub fn accepting(mut self, encoding: Encoding) -> Self {
        self.encoding = Some(encoding);
        self
    }
    /// Each writer has a connection of its own, so that blocks have no order.
    pub fn own_connections(mut self) -> Self {
        self.own_connections = true;
        self
    }
    /// Takes blocks of about this many bytes.
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = bytes;
        self
    }
    /// Hands back row `row` of every block that has it, as a database does that refuses it.
    pub fn refusing(mut self, row: u64) -> Self {
        self.refuse = Some(row);
        self
    }
    /// A writer that is dropped before its end takes back what it wrote, as a database does.
    pub fn taking_back(mut self) -> Self {
        self.takes_back = true;
        self.own_connections()
    }
    /// The target, as a reader sees it now.
    pub fn content(&self) -> Content {
        self.target.lock().unwrap().clone()
    }
    /// A new sink on the same target.
    pub fn again(&self) -> Self {
        Self { staging: Arc::default(), ..self.clone() }
    }
}

impl Sink for MemorySink {
    fn name(&self) -> String {
        "memory".into()
    }
    fn form(&self) -> Form {
        self.form.unwrap_or(Form::Typed)
    }
    fn accepts(&self, encoding: &Encoding, _schema: &SchemaRef) -> bool {
        self.encoding.as_ref() == Some(encoding)
    }
    fn plan(&mut self, incoming: &Incoming) -> Result<WritePlan> {
        let columns = incoming.schema.fields().iter().map(|field| ColumnMapping {
            source: field.name().clone(),
            source_type: field.data_type().to_string(),
            target: field.name().clone(),
            target_type: field.data_type().to_string(),
            note: None,
        });
        self.columns = incoming.schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(WritePlan {
            method: "kept in memory".into(),
            ddl: Vec::new(),
            columns: columns.collect(),
            notes: Vec::new(),
            guarantee: Guarantee::AllOrNothing,
            own_connections: self.own_connections,
            whole_splits: false,
            in_split_order: false,
            max_writers: None,
            block_bytes: self.block_bytes,
            run_bytes: None,
        })
    }
    fn takes_back(&self) -> bool {
        self.takes_back
    }
    fn read_back(&self) -> Result<ReadBack> {
        let columns = self.columns.iter().cloned().enumerate().collect();
        Ok(ReadBack { at: None, settings: Vec::new(), columns, holds: Holds::Written, tokens: false })
    }
    fn begin(&mut self) -> Result<()> {
        *self.staging.lock().unwrap() = Staging { begun: true, ..Staging::default() };
        Ok(())
    }
    fn encoder(&self) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(MemoryEncoder::default()))
    }
    fn open(&self, _lane: u32) -> Result<Box<dyn Writer>> {
        if !self.staging.lock().unwrap().begun {
            return Err(Error::internal("a writer was opened before the sink began"));
        }
        Ok(Box::new(MemoryWriter { staging: self.staging.clone(), refuse: self.refuse, slots: Vec::new(), kept: !self.takes_back }))
    }
    fn finish(&mut self) -> Result<Finished> {
        let staging = std::mem::take(&mut *self.staging.lock().unwrap());
        if !staging.begun {
            return Err(Error::internal("the sink finished without having begun"));
        }
        let mut target = self.target.lock().unwrap();
        let (mut rows, mut bytes) = (0, 0);
        target.finished += 1;
        target.blocks += staging.written.len();
        for piece in staging.written.into_values() {
            match piece {
                Piece::Batches(batches) => {
                    rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
                    target.batches.extend(batches);
                }
                // Pass-through records are lines here: counted again, not taken over.
                Piece::Bytes(more) => {
                    rows += more.iter().filter(|b| **b == b'\n').count() as u64;
                    bytes += more.len() as u64;
                    target.bytes.extend_from_slice(&more);
                }
            }
        }
        Ok(Finished { rows, bytes, ..Finished::default() })
    }
    fn abort(&mut self) -> Vec<String> {
        *self.staging.lock().unwrap() = Staging::default();
        self.target.lock().unwrap().aborted += 1;
        Vec::new()
    }
}

#[derive(Default)]
struct MemoryEncoder {
    batches: Vec<RecordBatch>,
}

impl Encoder for MemoryEncoder {
    fn push(&mut self, rows: &Rows, _rejects: &mut dyn Rejects) -> Result<()> {
        if rows.batch.num_rows() > 0 {
            self.batches.push(rows.batch.clone());
        }
        Ok(())
    }
    fn pending(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }
    fn take(&mut self) -> Result<Option<Block>> {
        if self.batches.is_empty() {
            return Ok(None);
        }
        let rows = self.batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        Ok(Some(Block { body: BlockBody::Opaque(Box::new(std::mem::take(&mut self.batches))), rows }))
    }
}

struct MemoryWriter {
    staging: Arc<Mutex<Staging>>,
    refuse: Option<u64>,
    slots: Vec<u64>,
    /// What it wrote stays when it is dropped.
    kept: bool,
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        if !self.kept {
            let mut staging = self.staging.lock().unwrap();
            self.slots.iter().for_each(|slot| drop(staging.written.remove(slot)));
        }
    }
}

impl Writer for MemoryWriter {
    fn reserve(&mut self, _block: &mut Block) -> Result<Slot> {
        let mut staging = self.staging.lock().unwrap();
        staging.next += 1;
        Ok(Slot { offset: staging.next })
    }
    fn write(&mut self, slot: Slot, block: &mut Block) -> Result<Vec<(u64, Error)>> {
        let mut refused = Vec::new();
        let piece = match std::mem::replace(&mut block.body, BlockBody::Bytes(Vec::new())) {
            BlockBody::Bytes(bytes) | BlockBody::Compressed { bytes, .. } => Piece::Bytes(bytes.into()),
            BlockBody::Shared(bytes) => Piece::Bytes(bytes),
            BlockBody::Opaque(batches) => {
                let batches = batches.downcast::<Vec<RecordBatch>>().map_err(|_| Error::internal("a block of another sink"))?;
                Piece::Batches(match self.refuse.filter(|row| *row < block.rows) {
                    Some(row) => {
                        refused.push((row, Error::new(haul_model::ErrorKind::Constraint, "this row is refused")));
                        without(&batches, row as usize)
                    }
                    None => *batches,
                })
            }
        };
        self.slots.push(slot.offset);
        let earlier = self.staging.lock().unwrap().written.insert(slot.offset, piece);
        if earlier.is_some() {
            return Err(Error::internal("two blocks were written to one slot"));
        }
        Ok(refused)
    }
    fn close(&mut self) -> Result<Vec<(u64, Error)>> {
        self.kept = true;
        Ok(Vec::new())
    }
}

/// The batches without row `row` of them all.
fn without(batches: &[RecordBatch], mut row: usize) -> Vec<RecordBatch> {
    let mut out = Vec::new();
    for batch in batches {
        if row < batch.num_rows() {
            out.push(batch.slice(0, row));
            out.push(batch.slice(row + 1, batch.num_rows() - row - 1));
            row = usize::MAX;
        } else {
            out.push(batch.clone());
            row = row.saturating_sub(batch.num_rows());
        }
    }
    out.retain(|batch| batch.num_rows() > 0);
    out
}
