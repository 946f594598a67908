//! One column of a batch under construction: COPY BINARY values in, an Arrow array out.

use super::array_wire::ArrayWire;
use super::datetime::{self, DAY_MICROS, EPOCH_DAYS, EPOCH_MICROS, LastDay};
use super::decode_json;
use super::numeric::Wire;
use super::types::ReadAs;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, ListArray, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field};
use haul_formats::checked_string_views;
use haul_model::{OnLossy, field_meta};
use std::sync::Arc;

/// Why a value was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The bytes are not what the type's binary form is.
    Malformed,
    /// Text that is not UTF-8.
    Utf8,
    /// A fine value that the Arrow type (or JSON) cannot hold.
    Lossy(&'static str),
}

/// Values of a column, without the NULLs' bitmap.
enum Data {
    Bits(BooleanBufferBuilder),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    I256(Vec<i256>),
    Fixed(Vec<u8>),
    /// Views into the chunk.
    Chunk(Vec<u128>),
    /// Views into text printed here.
    Printed {
        views: Vec<u128>,
        text: Vec<u8>,
        day: LastDay,
    },
    List {
        offsets: Vec<i32>,
        items: Box<Column>,
    },
}

/// A column under construction.
pub(super) struct Column {
    read: ReadAs,
    data_type: DataType,
    on_lossy: OnLossy,
    /// Whether values that Arrow has no room for are counted although they are carried as text.
    count: bool,
    nulls: Vec<u32>,
    rows: usize,
    data: Data,
    /// Values replaced in this batch.
    pub lossy: u64,
}

impl Column {
    /// An empty column. `typed` = the form is typed, so that special values in text columns count as lossy.
    pub fn new(read: &ReadAs, field: &Field, on_lossy: OnLossy, typed: bool) -> Self {
        let of_array = field_meta::source_type(field, "postgres").is_some_and(|t| t.ends_with("[]"));
        let mut column = Self {
            read: read.clone(),
            data_type: field.data_type().clone(),
            on_lossy,
            count: typed && on_lossy == OnLossy::Text && (*read != ReadAs::ServerText || of_array),
            nulls: Vec::new(),
            rows: 0,
            data: Data::I16(Vec::new()),
            lossy: 0,
        };
        column.data = column.empty(0);
        column
    }

    fn empty(&self, rows: usize) -> Data {
        match &self.read {
            ReadAs::Bool => Data::Bits(BooleanBufferBuilder::new(rows)),
            ReadAs::Int2 => Data::I16(Vec::with_capacity(rows)),
            ReadAs::Int4 | ReadAs::Date => Data::I32(Vec::with_capacity(rows)),
            ReadAs::Int8 | ReadAs::Time | ReadAs::Timestamp => Data::I64(Vec::with_capacity(rows)),
            ReadAs::Oid => Data::U32(Vec::with_capacity(rows)),
            ReadAs::Float4 => Data::F32(Vec::with_capacity(rows)),
            ReadAs::Float8 => Data::F64(Vec::with_capacity(rows)),
            ReadAs::Decimal128 { .. } => Data::I128(Vec::with_capacity(rows)),
            ReadAs::Decimal256 { .. } => Data::I256(Vec::with_capacity(rows)),
            ReadAs::Uuid => Data::Fixed(Vec::with_capacity(16 * rows)),
            ReadAs::Text | ReadAs::Json | ReadAs::ServerText | ReadAs::Bytea | ReadAs::Jsonb => Data::Chunk(Vec::with_capacity(rows)),
            ReadAs::List(item) => {
                let DataType::List(field) = &self.data_type else { return Data::I16(Vec::new()) };
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                Data::List { offsets, items: Box::new(Column::new(item, field, OnLossy::Error, false)) }
            }
            _ => Data::Printed { views: Vec::with_capacity(rows), text: Vec::with_capacity(24 * rows), day: LastDay::default() },
        }
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.nulls.push(self.rows as u32);
        self.rows += 1;
        match &mut self.data {
            Data::Bits(bits) => bits.append(false),
            Data::I16(v) => v.push(0),
            Data::I32(v) => v.push(0),
            Data::I64(v) => v.push(0),
            Data::U32(v) => v.push(0),
            Data::F32(v) => v.push(0.0),
            Data::F64(v) => v.push(0.0),
            Data::I128(v) => v.push(0),
            Data::I256(v) => v.push(i256::ZERO),
            Data::Fixed(v) => v.extend_from_slice(&[0; 16]),
            Data::Chunk(views) | Data::Printed { views, .. } => views.push(0),
            Data::List { offsets, items } => offsets.push(items.rows as i32),
        }
    }

    /// Appends a value: its bytes and where they start in the chunk. `careful` checks text here (else only when the array is built).
    #[inline]
    pub fn push(&mut self, chunk: &[u8], bytes: &[u8], at: usize, careful: bool) -> Result<(), Refused> {
        match self.push_exact(chunk, bytes, at, careful) {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(Refused::Lossy(_)) if matches!(self.on_lossy, OnLossy::Null | OnLossy::Clamp) => {
                self.lossy += 1;
                if self.on_lossy == OnLossy::Clamp && self.push_clamped(bytes) {
                    self.rows += 1;
                } else {
                    self.push_null();
                }
                Ok(())
            }
            Err(refused) => Err(refused),
        }
    }

    #[inline]
    fn push_exact(&mut self, chunk: &[u8], bytes: &[u8], at: usize, careful: bool) -> Result<(), Refused> {
        match (&mut self.data, &self.read) {
            (Data::I64(v), ReadAs::Int8) => v.push(i64::from_be_bytes(exact(bytes)?)),
            (Data::Chunk(views), ReadAs::Text | ReadAs::Json | ReadAs::ServerText) => {
                if careful && std::str::from_utf8(bytes).is_err() {
                    return Err(Refused::Utf8);
                }
                if self.count && self.read == ReadAs::ServerText && (bytes.starts_with(b"[") || bytes.starts_with(b"{{")) {
                    self.lossy += 1;
                }
                views.push(chunk_view(chunk, at, bytes.len()));
            }
            (Data::Chunk(views), ReadAs::Jsonb) => {
                let (1, text) = bytes.split_first().map(|(v, t)| (*v, t)).ok_or(Refused::Malformed)? else {
                    return Err(Refused::Malformed);
                };
                if careful && std::str::from_utf8(text).is_err() {
                    return Err(Refused::Utf8);
                }
                views.push(chunk_view(chunk, at + 1, text.len()));
            }
            (Data::Chunk(views), _) => views.push(chunk_view(chunk, at, bytes.len())),
            (Data::F64(v), _) => v.push(f64::from_be_bytes(exact(bytes)?)),
            (Data::I64(v), ReadAs::Timestamp) => match i64::from_be_bytes(exact(bytes)?) {
                i64::MAX => return Err(Refused::Lossy("infinity")),
                i64::MIN => return Err(Refused::Lossy("-infinity")),
                micros => v.push(micros.checked_add(EPOCH_MICROS).ok_or(Refused::Lossy("a time past the year 294247"))?),
            },
            (Data::I64(v), _) => match i64::from_be_bytes(exact(bytes)?) {
                DAY_MICROS => return Err(Refused::Lossy("24:00:00")),
                micros => v.push(micros),
            },
            (Data::Bits(bits), _) => bits.append(match exact(bytes)? {
                [0] => false,
                [1] => true,
                _ => return Err(Refused::Malformed),
            }),
            (Data::I32(v), ReadAs::Date) => match i32::from_be_bytes(exact(bytes)?) {
                i32::MAX => return Err(Refused::Lossy("infinity")),
                i32::MIN => return Err(Refused::Lossy("-infinity")),
                day => v.push(day.checked_add(EPOCH_DAYS).ok_or(Refused::Malformed)?),
            },
            (Data::I32(v), _) => v.push(i32::from_be_bytes(exact(bytes)?)),
            (Data::I16(v), _) => v.push(i16::from_be_bytes(exact(bytes)?)),
            (Data::U32(v), _) => v.push(u32::from_be_bytes(exact(bytes)?)),
            (Data::F32(v), _) => v.push(f32::from_be_bytes(exact(bytes)?)),
            (Data::Fixed(v), _) => v.extend_from_slice(&exact::<16>(bytes)?),
            (Data::I128(v), ReadAs::Decimal128 { precision, scale }) => v.push(decimal128(bytes, *precision, *scale)?),
            (Data::I256(v), ReadAs::Decimal256 { scale, .. }) => {
                let wire = Wire::parse(bytes).ok_or(Refused::Malformed)?;
                v.push(wire.to_i256(i32::from(*scale)).ok_or(Refused::Lossy(wire.special().unwrap_or("more digits than the type has")))?);
            }
            (Data::List { offsets, items }, _) => push_list(chunk, bytes, at, careful, offsets, items)?,
            (Data::Printed { views, text, day }, read) => {
                let start = text.len();
                match print(read, bytes, text, day, self.on_lossy) {
                    Ok(special) => {
                        self.lossy += u64::from(special && (self.count || matches!(read, ReadAs::NumericJson | ReadAs::FloatJson { .. })))
                    }
                    Err(refused) => {
                        text.truncate(start);
                        return Err(refused);
                    }
                }
                views.push(view(&text[start..], start));
            }
            (Data::I128(_) | Data::I256(_), _) => return Err(Refused::Malformed),
        }
        Ok(())
    }

    /// Appends the nearest value for one that was refused as lossy; whether there is one.
    fn push_clamped(&mut self, bytes: &[u8]) -> bool {
        let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
        match (&mut self.data, &self.read) {
            (Data::I64(v), ReadAs::Timestamp) => v.push(if negative { i64::MIN } else { i64::MAX }),
            (Data::I64(v), ReadAs::Time) => v.push(DAY_MICROS - 1),
            (Data::I32(v), ReadAs::Date) => v.push(if negative { i32::MIN } else { i32::MAX }),
            _ => return false,
        }
        true
    }

    /// Cuts the column back to `rows`, for a row that was refused in a later column.
    pub fn truncate(&mut self, rows: usize) {
        if self.rows <= rows {
            return;
        }
        self.rows = rows;
        while self.nulls.last().is_some_and(|n| *n as usize >= rows) {
            self.nulls.pop();
        }
        match &mut self.data {
            Data::Bits(bits) => bits.truncate(rows),
            Data::I16(v) => v.truncate(rows),
            Data::I32(v) => v.truncate(rows),
            Data::I64(v) => v.truncate(rows),
            Data::U32(v) => v.truncate(rows),
            Data::F32(v) => v.truncate(rows),
            Data::F64(v) => v.truncate(rows),
            Data::I128(v) => v.truncate(rows),
            Data::I256(v) => v.truncate(rows),
            Data::Fixed(v) => v.truncate(16 * rows),
            Data::Chunk(views) | Data::Printed { views, .. } => views.truncate(rows),
            Data::List { offsets, items } => {
                offsets.truncate(rows + 1);
                items.truncate(offsets[rows] as usize);
            }
        }
    }

    /// Hands the column over as an array and starts an empty one of about the same size.
    ///
    /// # Errors
    /// `Utf8`: a text value is not UTF-8 (the batch must be read again with `careful`).
    pub fn finish(&mut self, chunk: &Buffer) -> Result<ArrayRef, Refused> {
        let rows = std::mem::take(&mut self.rows);
        let nulls = null_buffer(&self.nulls, rows);
        self.nulls.clear();
        let next = self.empty(rows + rows / 8);
        let views = |views: Vec<u128>, buffer: Buffer, nulls| -> Result<ArrayRef, Refused> {
            if self.data_type != DataType::BinaryView {
                return Ok(Arc::new(checked_string_views(views, nulls, buffer).map_err(|_| Refused::Utf8)?));
            }
            let buffers = if buffer.is_empty() { vec![] } else { vec![buffer] };
            Ok(Arc::new(BinaryViewArray::try_new(ScalarBuffer::from(views), buffers, nulls).map_err(|_| Refused::Malformed)?))
        };
        Ok(match std::mem::replace(&mut self.data, next) {
            Data::Bits(mut bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Data::I16(v) => primitive::<Int16Type>(v, nulls, &self.data_type),
            Data::I32(v) if self.read == ReadAs::Date => primitive::<Date32Type>(v, nulls, &self.data_type),
            Data::I32(v) => primitive::<Int32Type>(v, nulls, &self.data_type),
            Data::I64(v) => match self.read {
                ReadAs::Timestamp => primitive::<TimestampMicrosecondType>(v, nulls, &self.data_type),
                ReadAs::Time => primitive::<Time64MicrosecondType>(v, nulls, &self.data_type),
                _ => primitive::<Int64Type>(v, nulls, &self.data_type),
            },
            Data::U32(v) => primitive::<UInt32Type>(v, nulls, &self.data_type),
            Data::F32(v) => primitive::<Float32Type>(v, nulls, &self.data_type),
            Data::F64(v) => primitive::<Float64Type>(v, nulls, &self.data_type),
            Data::I128(v) => primitive::<Decimal128Type>(v, nulls, &self.data_type),
            Data::I256(v) => primitive::<Decimal256Type>(v, nulls, &self.data_type),
            Data::Fixed(v) => Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(v), nulls)),
            Data::Chunk(v) => views(v, chunk.clone(), nulls)?,
            Data::Printed { views: v, text, .. } => views(v, Buffer::from_vec(text), nulls)?,
            Data::List { offsets, mut items } => {
                let DataType::List(field) = &self.data_type else { return Err(Refused::Malformed) };
                let values = items.finish(chunk)?;
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls).map_err(|_| Refused::Malformed)?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
}

pub(super) fn null_buffer(nulls: &[u32], rows: usize) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, true);
    for row in nulls {
        bits.set_bit(*row as usize, false);
    }
    Some(NullBuffer::new(bits.finish()))
}

#[inline]
fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Refused> {
    bytes.try_into().map_err(|_| Refused::Malformed)
}

/// An Arrow view of `bytes`, which start at `at` in buffer 0: length, then the bytes themselves (up to 12) or prefix, buffer and offset.
#[inline]
pub(super) fn view(bytes: &[u8], at: usize) -> u128 {
    let length = bytes.len() as u32;
    if let Some(prefix) = bytes.first_chunk::<4>()
        && length > 12
    {
        return u128::from(length) | u128::from(u32::from_le_bytes(*prefix)) << 32 | (at as u128) << 96;
    }
    let mut inline = [0u8; 16];
    inline[..4].copy_from_slice(&length.to_le_bytes());
    inline[4..4 + bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(inline)
}

/// The view of `length` bytes at `at` of the chunk. Short ones are read as twelve bytes and masked, which needs no copy of odd length.
#[inline]
fn chunk_view(chunk: &[u8], at: usize, length: usize) -> u128 {
    if length <= 12
        && let Some(window) = chunk.get(at..).and_then(|rest| rest.first_chunk::<12>())
    {
        let mut inline = [0u8; 16];
        inline[..4].copy_from_slice(&(length as u32).to_le_bytes());
        inline[4..].copy_from_slice(window);
        return u128::from_le_bytes(inline) & (u128::MAX >> (8 * (12 - length)));
    }
    view(&chunk[at..at + length], at)
}

fn decimal128(bytes: &[u8], precision: u8, scale: i8) -> Result<i128, Refused> {
    let wire = Wire::parse(bytes).ok_or(Refused::Malformed)?;
    let value = wire.to_i128(i32::from(scale)).ok_or(Refused::Lossy(wire.special().unwrap_or("more digits than the type has")))?;
    if value.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
        return Err(Refused::Lossy("more digits than the type has"));
    }
    Ok(value)
}

fn push_list(chunk: &[u8], bytes: &[u8], at: usize, careful: bool, offsets: &mut Vec<i32>, items: &mut Column) -> Result<(), Refused> {
    let array = ArrayWire::parse(bytes).ok_or(Refused::Malformed)?;
    if array.dimensions > 1 {
        return Err(Refused::Lossy("an array of several dimensions"));
    }
    if array.shifted {
        return Err(Refused::Lossy("an array with a lower bound other than 1"));
    }
    let start = items.rows;
    let mut elements = array.elements();
    for _ in 0..array.count() {
        let pushed = match elements.next_value() {
            None => Err(Refused::Malformed),
            Some(None) => {
                items.push_null();
                Ok(())
            }
            Some(Some(value)) => items.push(chunk, value, at + bytes.len() - elements.remaining() - value.len(), careful),
        };
        if let Err(refused) = pushed {
            items.truncate(start);
            return Err(refused);
        }
    }
    if elements.remaining() != 0 {
        items.truncate(start);
        return Err(Refused::Malformed);
    }
    offsets.push(i32::try_from(items.rows).map_err(|_| Refused::Malformed)?);
    Ok(())
}

/// Prints a value as text; whether it was one that the typed form could not hold.
fn print(read: &ReadAs, bytes: &[u8], out: &mut Vec<u8>, day: &mut LastDay, on_lossy: OnLossy) -> Result<bool, Refused> {
    match read {
        ReadAs::DateText => {
            let day = i32::from_be_bytes(exact(bytes)?);
            datetime::print_date(day, out);
            Ok(matches!(day, i32::MAX | i32::MIN))
        }
        ReadAs::TimeText => {
            let micros = i64::from_be_bytes(exact(bytes)?);
            if !(0..=DAY_MICROS).contains(&micros) {
                return Err(Refused::Malformed);
            }
            datetime::print_time(micros, out);
            Ok(micros == DAY_MICROS)
        }
        ReadAs::TimestampText { zone } => {
            let micros = i64::from_be_bytes(exact(bytes)?);
            day.print_timestamp(micros, *zone, out);
            Ok(micros.checked_add(EPOCH_MICROS).is_none() || micros == i64::MIN)
        }
        ReadAs::NumericText => {
            let wire = Wire::parse(bytes).ok_or(Refused::Malformed)?;
            wire.print(out);
            Ok(wire.special().is_some())
        }
        ReadAs::QuotedChar => {
            print_quoted_char(exact::<1>(bytes)?[0], out);
            Ok(false)
        }
        ReadAs::ArrayJson(item) => decode_json::print_array(item, bytes, out).map(|()| false),
        read => decode_json::print_number(read, bytes, out, on_lossy),
    }
}

/// As `charout`: nothing for zero, the byte if it is ASCII, else `\` and three octal digits.
pub(super) fn print_quoted_char(byte: u8, out: &mut Vec<u8>) {
    match byte {
        0 => {}
        1..0x80 => out.push(byte),
        _ => out.extend_from_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
    }
}
