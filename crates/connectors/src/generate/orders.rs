//! TPC-H's `orders` table, as `dbgen` makes it: 1,500,000 rows at scale 1.
//!
//! A chunk names a part of the table; the workers make its rows, each part from its own place in the random streams (TPC-H
//! specification 3.0.1, clause 4.2.3). Comments are cut from TPC-H's pool of 300 MiB of text, which is made once and stays in memory.

use arrow_array::builder::{StringBuilder, StringViewBuilder};
use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, Date32Array, Int32Array, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Error, ErrorKind, Result};
use std::fmt::Write;
use std::sync::Arc;
use tpchgen::generators::OrderGenerator;

/// Rows of a part, about.
pub const PART_ROWS: u64 = 2000;
/// Keys beyond this scale do not fit the column.
const MAX_SCALE: f64 = 300.0;

/// The columns.
pub fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8View, false);
    Arc::new(Schema::new(vec![
        Field::new("o_orderkey", DataType::Int32, false),
        Field::new("o_custkey", DataType::Int32, false),
        text("o_orderstatus"),
        Field::new("o_totalprice", DataType::Decimal128(15, 2), false),
        Field::new("o_orderdate", DataType::Date32, false),
        text("o_orderpriority"),
        Field::new("o_clerk", DataType::Utf8, false),
        Field::new("o_shippriority", DataType::Int32, false),
        text("o_comment"),
    ]))
}

/// How a scale is cut into parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Orders {
    scale: f64,
    parts: i32,
}

impl Orders {
    /// The table at `scale`.
    ///
    /// # Errors
    /// `Config`: no number, not positive, or so large that keys overflow.
    pub fn new(scale: &str) -> Result<Self> {
        let scale: f64 = scale.trim().parse().ok().filter(|s| *s > 0.0 && *s <= MAX_SCALE).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("setting \"scale\" is a number above 0 and up to {MAX_SCALE}, not {scale:?}"))
        })?;
        let rows = OrderGenerator::calculate_row_count(scale, 1, 1) as u64;
        if rows == 0 {
            return Err(Error::new(ErrorKind::Config, "at this scale the table has no rows").hint("scale 0.001 makes 1,500"));
        }
        Ok(Self { scale, parts: rows.div_ceil(PART_ROWS) as i32 })
    }

    /// Rows of the table.
    pub fn rows(self) -> u64 {
        OrderGenerator::calculate_row_count(self.scale, 1, 1) as u64
    }

    /// The part that starts at row `from`, and its rows; `None` when no part starts there.
    pub fn part_at(self, from: u64) -> Option<(i32, u64)> {
        let even = self.rows() / self.parts as u64;
        let part = i32::try_from(from / even).ok()? + 1;
        (from.is_multiple_of(even) && part <= self.parts)
            .then(|| (part, OrderGenerator::calculate_row_count(self.scale, part, self.parts) as u64))
    }

    /// The rows of the part that a chunk names.
    ///
    /// # Errors
    /// `Internal`: bytes that name no part.
    pub fn columns(self, chunk: &[u8], schema: &SchemaRef) -> Result<RecordBatch> {
        let part = chunk.try_into().map(i32::from_le_bytes).ok().filter(|part| (1..=self.parts).contains(part));
        let part = part.ok_or_else(|| Error::internal("a chunk that names no part of orders"))?;
        let rows = OrderGenerator::calculate_row_count(self.scale, part, self.parts) as usize;
        let ints = || Vec::<i32>::with_capacity(rows);
        let (mut keys, mut customers, mut dates, mut ship) = (ints(), ints(), ints(), ints());
        let mut prices = Vec::<i128>::with_capacity(rows);
        let texts = || StringViewBuilder::with_capacity(rows);
        let (mut status, mut priority, mut comments) = (texts(), texts(), texts());
        let mut clerks = StringBuilder::with_capacity(rows, 15 * rows);
        let key = |key: i64| i32::try_from(key).map_err(|_| Error::internal("a key of orders past 2^31"));
        for order in OrderGenerator::new(self.scale, part, self.parts).iter() {
            keys.push(key(order.o_orderkey)?);
            customers.push(key(order.o_custkey)?);
            status.append_value(order.o_orderstatus.as_str());
            prices.push(i128::from(order.o_totalprice.0));
            dates.push(order.o_orderdate.to_unix_epoch());
            priority.append_value(order.o_orderpriority);
            write!(clerks, "{}", order.o_clerk).map_err(|e| Error::internal("a clerk without a name").caused_by(e))?;
            clerks.append_value("");
            ship.push(order.o_shippriority);
            comments.append_value(order.o_comment);
        }
        let prices = PrimitiveArray::<Decimal128Type>::from(prices).with_data_type(DataType::Decimal128(15, 2));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(keys)),
            Arc::new(Int32Array::from(customers)),
            Arc::new(status.finish()),
            Arc::new(prices),
            Arc::new(Date32Array::from(dates)),
            Arc::new(priority.finish()),
            Arc::new(clerks.finish()),
            Arc::new(Int32Array::from(ship)),
            Arc::new(comments.finish()),
        ];
        RecordBatch::try_new(schema.clone(), columns).map_err(|e| Error::internal("orders do not fit their schema").caused_by(e))
    }
}
