//! Reading from `generate://`: one split, drawn in order. Readers hand out packed draws and the workers make columns
//! of them, or, where the sink takes the fixture's CSV as it is, the text itself.

use super::bench::{self, Bench};
use super::orders::{self, Orders};
use super::padded;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use haul_model::{
    Batch, Decoder, Emit, Encoding, Error, ErrorKind, Estimate, Form, Next, Payload, Position, Raw, ReadPlan, Reader, Reading, Rejects,
    Result, Rows, Source, Span, Split,
};

/// Bytes of output that one chunk should come to.
const CHUNK: usize = 256 << 10;
/// Bytes of a bench row as CSV, on average.
const BENCH_ROW: usize = 122;

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Table {
    /// The bench table for this seed.
    Bench {
        /// The seed.
        seed: u64,
    },
    /// Rows of this many bytes as JSON.
    Padded {
        /// Bytes a row.
        bytes: usize,
    },
    /// TPC-H's orders.
    Orders(Orders),
}

impl Table {
    fn schema(self) -> SchemaRef {
        match self {
            Self::Bench { .. } => bench::schema(),
            Self::Padded { .. } => padded::schema(),
            Self::Orders(_) => orders::schema(),
        }
    }

    /// Rows in one chunk.
    fn chunk_rows(self) -> u64 {
        match self {
            Self::Bench { .. } => (CHUNK / BENCH_ROW) as u64,
            Self::Padded { bytes } => (CHUNK / bytes).max(1) as u64,
            Self::Orders(_) => orders::PART_ROWS,
        }
    }
}

/// Generated rows as a source.
pub struct GenerateSource {
    table: Table,
    rows: u64,
    pass_through: bool,
}

impl GenerateSource {
    /// `rows` rows of `table`.
    pub fn new(table: Table, rows: u64) -> Self {
        Self { table, rows, pass_through: false }
    }
}

impl Source for GenerateSource {
    fn name(&self) -> String {
        match self.table {
            Table::Bench { .. } => "bench".into(),
            Table::Padded { .. } => "padded".into(),
            Table::Orders(_) => "orders".into(),
        }
    }

    fn estimate(&self) -> Estimate {
        let bytes = match self.table {
            Table::Bench { .. } | Table::Orders(_) => None,
            Table::Padded { bytes } => self.rows.checked_mul(bytes as u64),
        };
        Estimate { rows: Some(self.rows), bytes }
    }

    fn encodings(&self) -> Vec<Encoding> {
        match self.table {
            Table::Bench { .. } => super::csv_encoding().into_iter().collect(),
            Table::Padded { .. } | Table::Orders(_) => Vec::new(),
        }
    }

    fn schema(&self, _form: Form) -> Result<SchemaRef> {
        Ok(self.table.schema())
    }

    fn plan(&mut self, reading: &Reading) -> Result<ReadPlan> {
        self.pass_through = match &reading.pass_through {
            None => false,
            Some(encoding) if self.encodings().contains(encoding) => true,
            Some(encoding) => return Err(Error::internal(format!("generated rows were asked for as {}", encoding.format))),
        };
        let split = Split { id: 0, what: format!("rows:{}", self.rows), rows: Some(self.rows), bytes: self.estimate().bytes };
        let method = match self.table {
            Table::Bench { seed } => format!("drawn in order from seed {seed}"),
            Table::Padded { bytes } => format!("rows of {bytes} bytes"),
            Table::Orders(_) => "TPC-H parts, in order".to_string(),
        };
        Ok(ReadPlan { splits: vec![split], method, lanes: 1, network: false, notes: Vec::new() })
    }

    fn open(&self, split: &Split, from: &Position) -> Result<Box<dyn Reader>> {
        let next = from.as_number().filter(|row| *row <= self.rows).ok_or_else(|| {
            Error::new(ErrorKind::Data, format!("a position that these {} rows do not have", self.rows)).object(self.name())
        })?;
        let (bench, orders) = match self.table {
            Table::Orders(orders) => (None, Some(orders)),
            Table::Bench { seed } => {
                let mut bench = Bench::new(seed);
                bench.skip(next);
                (Some(bench), None)
            }
            Table::Padded { .. } => (None, None),
        };
        Ok(Box::new(GenerateReader {
            bench,
            orders,
            next,
            rows: self.rows,
            split: split.id,
            from: from.clone(),
            chunk_rows: self.table.chunk_rows(),
            pass_through: self.pass_through,
        }))
    }

    fn decoder(&self, _form: Form) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(GenerateDecoder { table: self.table, schema: self.table.schema() }))
    }
}

struct GenerateReader {
    bench: Option<Bench>,
    orders: Option<Orders>,
    /// Rows handed out.
    next: u64,
    rows: u64,
    split: u32,
    from: Position,
    chunk_rows: u64,
    pass_through: bool,
}

impl Reader for GenerateReader {
    fn next(&mut self) -> Result<Next> {
        let mut count = self.chunk_rows.min(self.rows - self.next);
        if count == 0 {
            return Ok(Next::End);
        }
        let bytes = match &mut self.bench {
            None if let Some(orders) = self.orders => {
                let (part, rows) = orders.part_at(self.next).ok_or_else(|| Error::internal("no part of orders starts here"))?;
                count = rows;
                part.to_le_bytes().to_vec()
            }
            Some(bench) if self.pass_through => {
                let mut out = Vec::with_capacity(count as usize * (BENCH_ROW + 8));
                bench.write_csv(count as usize, &mut out);
                out
            }
            Some(bench) => bench.pack(count as usize),
            None => padded::pack(self.next, count as u32),
        };
        self.next += count;
        let to = Position::number(self.next);
        let span = Span { split: self.split, from: std::mem::replace(&mut self.from, to.clone()), to };
        let raw = Raw { bytes: Bytes::from(bytes), records: Some(count), ..Raw::default() };
        Ok(Next::Batch(Batch { spans: vec![span], payload: Payload::Raw(raw) }))
    }
}

struct GenerateDecoder {
    table: Table,
    schema: SchemaRef,
}

impl Decoder for GenerateDecoder {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn decode(&mut self, raw: Raw, rejects: &mut dyn Rejects, emit: &mut Emit<'_>) -> Result<()> {
        let batch = match self.table {
            Table::Bench { .. } => bench::columns(&raw.bytes, &self.schema)?,
            Table::Padded { bytes } => padded::columns(&raw.bytes, bytes, &self.schema)?,
            Table::Orders(orders) => orders.columns(&raw.bytes, &self.schema)?,
        };
        emit(Rows::new(batch, 0), rejects)
    }
}
