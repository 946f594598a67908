//! Hashes of Arrow columns: a column at a time, no allocation per row.

use super::canon::Canon;
use super::value::{self, Scratch};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use haul_formats::jsonl::ValueWriter;
use haul_formats::literal::{parse_i64, print_decimal256};
use haul_model::digest::{NO_NUMBER, NULL_HASH, hash_bytes, hash_word};
use haul_model::{Error, ErrorKind, Hashes, Result, field_meta};

/// Hashes batches whose columns are compared in these forms. One per worker.
pub(crate) struct ArrayHasher {
    /// For each column that is compared: where it stands in the batch, and its form.
    columns: Vec<(usize, Canon)>,
    /// Texts are JSON tokens.
    tokens: bool,
    scratch: Scratch,
    printed: Vec<u8>,
}

impl ArrayHasher {
    pub fn new(columns: Vec<(usize, Canon)>, tokens: bool) -> Self {
        Self { columns, tokens, scratch: Scratch::default(), printed: Vec::new() }
    }

    /// Puts the hashes of a batch in place of what `out` holds.
    ///
    /// # Errors
    /// A value without a canonical form.
    pub fn hash(&mut self, batch: &RecordBatch, out: &mut Hashes) -> Result<()> {
        out.clear();
        out.rows = batch.num_rows();
        out.columns.resize(self.columns.len(), Vec::new());
        let schema = batch.schema_ref().clone();
        for place in 0..self.columns.len() {
            let (index, canon) = self.columns[place];
            let column = batch.columns().get(index).ok_or_else(|| Error::internal("a column that is compared is not there"))?;
            let hashes = &mut out.columns[place];
            self.column(column, schema.field(index), canon, hashes).map_err(|e| e.column(schema.field(index).name()))?;
            let nulls = column.logical_nulls();
            if let Some(nulls) = &nulls {
                (!nulls.inner()).set_indices().for_each(|row| hashes[row] = NULL_HASH);
            }
            if out.number == Some(place) {
                integers(column, &mut out.numbers);
                if let Some(nulls) = nulls {
                    (!nulls.inner()).set_indices().for_each(|row| out.numbers[row] = NO_NUMBER);
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, array: &ArrayRef, field: &Field, canon: Canon, out: &mut Vec<u64>) -> Result<()> {
        match array.data_type() {
            DataType::Null => out.resize(array.len(), NULL_HASH),
            DataType::Boolean => out.extend(array.as_boolean().values().iter().map(|v| hash_word(u64::from(v)))),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let plain = arrow_select::take::take(dictionary.values().as_ref(), dictionary.keys(), None)
                    .map_err(|e| Error::internal(format!("a dictionary could not be read: {e}")))?;
                let field = field.clone().with_data_type(plain.data_type().clone());
                return self.column(&plain, &field, canon, out);
            }
            DataType::Utf8View => {
                let texts = array.as_string_view();
                self.texts(field, canon, (0..texts.len()).map(|row| texts.value(row).as_bytes()), out);
            }
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                self.texts(field, canon, (0..texts.len()).map(|row| texts.value(row).as_bytes()), out);
            }
            DataType::LargeUtf8 => {
                let texts = array.as_string::<i64>();
                self.texts(field, canon, (0..texts.len()).map(|row| texts.value(row).as_bytes()), out);
            }
            DataType::BinaryView => {
                let bytes = array.as_binary_view();
                out.extend((0..bytes.len()).map(|row| hash_bytes(bytes.value(row))));
            }
            DataType::Binary => {
                let bytes = array.as_binary::<i32>();
                out.extend((0..bytes.len()).map(|row| hash_bytes(bytes.value(row))));
            }
            DataType::LargeBinary => {
                let bytes = array.as_binary::<i64>();
                out.extend((0..bytes.len()).map(|row| hash_bytes(bytes.value(row))));
            }
            DataType::FixedSizeBinary(_) => {
                let bytes = array.as_fixed_size_binary();
                out.extend((0..bytes.len()).map(|row| hash_bytes(bytes.value(row))));
            }
            _ => return self.numbers(array, field, canon, out),
        }
        Ok(())
    }

    fn texts<'a>(&mut self, field: &Field, canon: Canon, texts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u64>) {
        let scratch = &mut self.scratch;
        // A column that comes from the name of a folder stands beside those with tokens.
        let token = field_meta::is_json(field) && (self.tokens || !matches!(canon, Canon::Text | Canon::Loose));
        match (token, canon) {
            (false, Canon::Text) => out.extend(texts.map(hash_bytes)),
            (false, canon) => out.extend(texts.map(|text| scratch.text(canon, text))),
            (true, canon) => out.extend(texts.map(|text| scratch.token(canon, text))),
        }
    }

    fn numbers(&mut self, array: &ArrayRef, field: &Field, canon: Canon, out: &mut Vec<u64>) -> Result<()> {
        match array.data_type() {
            DataType::Int8 => each::<Int8Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::Int16 => each::<Int16Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::Int32 => each::<Int32Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::Int64 => each::<Int64Type>(array, out, |v| whole(v, canon)),
            DataType::UInt8 => each::<UInt8Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::UInt16 => each::<UInt16Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::UInt32 => each::<UInt32Type>(array, out, |v| whole(i64::from(v), canon)),
            DataType::UInt64 => each::<UInt64Type>(array, out, |v| match (i64::try_from(v), canon) {
                (Ok(v), canon) => whole(v, canon),
                (Err(_), Canon::Number) => value::number(false, u128::from(v), 0),
                (Err(_), Canon::Float64) => value::float64(v as f64),
                (Err(_), _) => value::unsigned(v),
            }),
            DataType::Float32 if canon == Canon::Float64 => each::<Float32Type>(array, out, |v| value::float64(f64::from(v))),
            DataType::Float32 => each::<Float32Type>(array, out, value::float32),
            DataType::Float64 => each::<Float64Type>(array, out, value::float64),
            DataType::Decimal32(_, scale) => each::<Decimal32Type>(array, out, |v| value::decimal(i128::from(v), *scale)),
            DataType::Decimal64(_, scale) => each::<Decimal64Type>(array, out, |v| value::decimal(i128::from(v), *scale)),
            DataType::Decimal128(_, scale) => each::<Decimal128Type>(array, out, |v| value::decimal(v, *scale)),
            DataType::Decimal256(_, scale) => {
                let (scratch, printed) = (&mut self.scratch, &mut self.printed);
                each::<Decimal256Type>(array, out, |v| {
                    printed.clear();
                    print_decimal256(printed, v, *scale);
                    scratch.text(Canon::Number, printed)
                });
            }
            DataType::Date32 => each::<Date32Type>(array, out, |v| day(i64::from(v), canon)),
            DataType::Date64 => each::<Date64Type>(array, out, |v| day(v.div_euclid(86_400_000), canon)),
            DataType::Time32(TimeUnit::Second) => each::<Time32SecondType>(array, out, |v| value::time(i64::from(v) * 1_000_000_000)),
            DataType::Time32(_) => each::<Time32MillisecondType>(array, out, |v| value::time(i64::from(v) * 1_000_000)),
            DataType::Time64(TimeUnit::Microsecond) => each::<Time64MicrosecondType>(array, out, |v| value::time(v.wrapping_mul(1000))),
            DataType::Time64(_) => each::<Time64NanosecondType>(array, out, value::time),
            DataType::Timestamp(unit, _) => timestamps(array, *unit, out),
            _ => return self.nested(array, field, out),
        }
        Ok(())
    }

    /// Lists, structs and maps: by the JSON that they are written as.
    fn nested(&mut self, array: &ArrayRef, field: &Field, out: &mut Vec<u64>) -> Result<()> {
        let values = ValueWriter::new(array.as_ref(), field)?;
        for row in 0..array.len() {
            self.printed.clear();
            values.write(row, &mut self.printed).map_err(|_| {
                Error::new(ErrorKind::Unsupported, "a value cannot be compared: NaN or infinity inside a list")
                    .hint("--verify count compares rows only")
            })?;
            out.push(self.scratch.json(&self.printed));
        }
        Ok(())
    }
}

/// The values as integers of 64 bits, where they are some.
fn integers(array: &ArrayRef, out: &mut Vec<i64>) {
    fn all<T: ArrowPrimitiveType>(array: &ArrayRef, out: &mut Vec<i64>, number: impl Fn(T::Native) -> Option<i64>) {
        out.extend(array.as_primitive::<T>().values().iter().map(|v| number(*v).unwrap_or(NO_NUMBER)));
    }
    let parsed = |text: &str| parse_i64(text.as_bytes()).unwrap_or(NO_NUMBER);
    match array.data_type() {
        DataType::Int8 => all::<Int8Type>(array, out, |v| Some(i64::from(v))),
        DataType::Int16 => all::<Int16Type>(array, out, |v| Some(i64::from(v))),
        DataType::Int32 => all::<Int32Type>(array, out, |v| Some(i64::from(v))),
        DataType::Int64 => all::<Int64Type>(array, out, Some),
        DataType::UInt8 => all::<UInt8Type>(array, out, |v| Some(i64::from(v))),
        DataType::UInt16 => all::<UInt16Type>(array, out, |v| Some(i64::from(v))),
        DataType::UInt32 => all::<UInt32Type>(array, out, |v| Some(i64::from(v))),
        DataType::UInt64 => all::<UInt64Type>(array, out, |v| i64::try_from(v).ok()),
        DataType::Utf8View => out.extend(array.as_string_view().iter().map(|text| text.map_or(NO_NUMBER, parsed))),
        DataType::Utf8 => out.extend(array.as_string::<i32>().iter().map(|text| text.map_or(NO_NUMBER, parsed))),
        DataType::LargeUtf8 => out.extend(array.as_string::<i64>().iter().map(|text| text.map_or(NO_NUMBER, parsed))),
        _ => out.resize(array.len(), NO_NUMBER),
    }
}

fn each<T: ArrowPrimitiveType>(array: &ArrayRef, out: &mut Vec<u64>, mut hash: impl FnMut(T::Native) -> u64) {
    out.extend(array.as_primitive::<T>().values().iter().map(|v| hash(*v)));
}

#[inline(always)]
fn whole(v: i64, canon: Canon) -> u64 {
    match canon {
        Canon::Number => value::number(v < 0, u128::from(v.unsigned_abs()), 0),
        Canon::Float64 => value::float64(v as f64),
        Canon::Float32 => value::float32(v as f32),
        _ => value::int(v),
    }
}

fn day(days: i64, canon: Canon) -> u64 {
    match canon {
        Canon::Timestamp => value::timestamp(days.wrapping_mul(86_400_000_000), 0),
        _ => value::int(days),
    }
}

fn timestamps(array: &ArrayRef, unit: TimeUnit, out: &mut Vec<u64>) {
    let data = array.to_data();
    let values = arrow_buffer::ScalarBuffer::<i64>::new(data.buffers()[0].clone(), data.offset(), data.len());
    match unit {
        TimeUnit::Microsecond => out.extend(values.iter().map(|v| value::timestamp(*v, 0))),
        TimeUnit::Second => out.extend(values.iter().map(|v| value::timestamp(v.wrapping_mul(1_000_000), 0))),
        TimeUnit::Millisecond => out.extend(values.iter().map(|v| value::timestamp(v.wrapping_mul(1000), 0))),
        TimeUnit::Nanosecond => out.extend(values.iter().map(|v| value::timestamp(v.div_euclid(1000), v.rem_euclid(1000) as u16))),
    }
}
