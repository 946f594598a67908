//! One column's values to JSON: the type is looked at once per batch, then a value is a match and a few stores.

use super::escape::{push_inline_view, push_raw_json, push_string, push_string_in};
use crate::literal::{
    print_date, print_decimal, print_decimal256, print_f32, print_f64, print_hex, print_time, print_time_nanos, print_timestamp, print_uuid,
};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use haul_model::{Error, ErrorKind, Result, field_meta};

/// A value that JSON has no form for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoJson {
    /// NaN.
    NotANumber,
    /// Infinity; whether it is negative.
    Infinity {
        /// Below zero.
        negative: bool,
    },
}

impl NoJson {
    /// As PostgreSQL writes it, which is also the text that `--on-lossy text` carries.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotANumber => "NaN",
            Self::Infinity { negative: false } => "Infinity",
            Self::Infinity { negative: true } => "-Infinity",
        }
    }

    /// The error, without its place.
    pub fn error(self) -> Error {
        Error::new(ErrorKind::Lossy, format!("the number {} has no form in JSON", self.text()))
            .hint("--on-lossy text writes it as a string, --on-lossy null as null")
    }
}

/// Writes the values of one array as JSON. Holds the array's buffers, so it outlives the batch's borrow.
pub struct ValueWriter {
    nulls: Option<NullBuffer>,
    values: Values,
    json: bool,
}

enum Values {
    Null,
    Bool(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>, i8),
    Decimal256(ScalarBuffer<i256>, i8),
    Date(ScalarBuffer<i32>),
    Micros(ScalarBuffer<i64>),
    Nanos(ScalarBuffer<i64>),
    Timestamp { values: ScalarBuffer<i64>, unit: TimeUnit, utc: bool },
    Duration(ScalarBuffer<i64>, TimeUnit),
    Interval(ScalarBuffer<IntervalMonthDayNano>),
    TextView(Views),
    Text(Slices),
    JsonView(Views),
    Json(Slices),
    BytesView(Views),
    Bytes(Slices),
    Uuid(Buffer),
    FixedBytes(Buffer, usize),
    List(Slices, Box<ValueWriter>),
    Struct(Vec<(Vec<u8>, ValueWriter)>),
    Map(Slices, Box<ValueWriter>, Box<ValueWriter>),
}

struct Views {
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
}

impl Views {
    /// The bytes of a value that is not inside its view: buffer, start, end.
    #[inline(always)]
    fn outside(&self, view: u128) -> (&[u8], usize, usize) {
        let (length, buffer, offset) = (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as usize);
        (self.buffers[buffer].as_slice(), offset, offset + length)
    }

    /// Calls `f` with the bytes of value `row`.
    #[inline(always)]
    fn with(&self, row: usize, f: impl FnOnce(&[u8])) {
        let view = self.views[row];
        let length = view as u32 as usize;
        if length <= 12 {
            f(&(view >> 32).to_le_bytes()[..length]);
        } else {
            let (buffer, start, end) = self.outside(view);
            f(&buffer[start..end]);
        }
    }
}

/// Values back to back with 32- or 64-bit offsets, or all of one length.
struct Slices {
    bounds: Bounds,
    bytes: Buffer,
}

enum Bounds {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

impl Slices {
    #[inline(always)]
    fn range(&self, row: usize) -> (usize, usize) {
        match &self.bounds {
            Bounds::Small(o) => (o[row] as usize, o[row + 1] as usize),
            Bounds::Large(o) => (o[row] as usize, o[row + 1] as usize),
            Bounds::Fixed(length) => (row * length, (row + 1) * length),
        }
    }

    #[inline(always)]
    fn get(&self, row: usize) -> &[u8] {
        let (start, end) = self.range(row);
        &self.bytes.as_slice()[start..end]
    }
}

fn native<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
    array.as_primitive::<T>().values().clone()
}

fn widened<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<i128>
where
    T::Native: Into<i128>,
{
    array.as_primitive::<T>().values().iter().map(|v| (*v).into()).collect()
}

fn scaled<T: ArrowPrimitiveType>(array: &dyn Array, factor: i64) -> ScalarBuffer<i64>
where
    T::Native: Into<i64>,
{
    array.as_primitive::<T>().values().iter().map(|v| (*v).into() * factor).collect()
}

/// The 64-bit values of any type that is stored as such.
fn raw_i64(array: &dyn Array) -> ScalarBuffer<i64> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

impl ValueWriter {
    /// A writer for the values of `array`, whose field is `field` (its extension type matters).
    ///
    /// # Errors
    /// `Unsupported`: a type that has no form in JSON.
    pub fn new(array: &dyn Array, field: &Field) -> Result<Self> {
        let json = field_meta::is_json(field);
        if let DataType::Dictionary(..) = array.data_type() {
            let dictionary = array.as_any_dictionary();
            let plain = arrow_select::take::take(dictionary.values().as_ref(), dictionary.keys(), None)
                .map_err(|e| Error::internal(format!("a dictionary could not be read: {e}")))?;
            return Self::new(plain.as_ref(), &field.clone().with_data_type(plain.data_type().clone()));
        }
        let values = match text_values(array, field) {
            Some(values) => values,
            None => match scalar_values(array) {
                Some(values) => values,
                None => nested_values(array)?.ok_or_else(|| unsupported(field))?,
            },
        };
        Ok(Self { nulls: array.nulls().cloned(), values, json })
    }

    /// Whether value `row` is NULL.
    #[inline(always)]
    pub fn is_null(&self, row: usize) -> bool {
        match &self.nulls {
            Some(nulls) => nulls.is_null(row),
            None => matches!(self.values, Values::Null),
        }
    }

    /// Whether a NULL leaves its key out of an object (JSON columns, where `null` is a value).
    #[inline(always)]
    pub(crate) fn omits_null(&self) -> bool {
        self.json
    }

    /// Appends value `row`, `null` for NULL.
    ///
    /// # Errors
    /// A value without a form in JSON; `out` may have a part of it then.
    #[inline]
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        self.write_valid(row, out)
    }

    /// [`ValueWriter::write`] for a value that is not NULL.
    #[inline(always)]
    pub(crate) fn write_valid(&self, row: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
        if let Values::TextView(text) = &self.values {
            let view = text.views[row];
            if view as u32 <= 12 {
                push_inline_view(view, out);
            } else {
                let (buffer, start, end) = text.outside(view);
                push_string_in(buffer, start, end, out);
            }
            return Ok(());
        }
        self.write_other(row, out)
    }

    /// Appends value `row`, which is not NULL, as text for formats without types: as in JSON, but strings, times and bytes
    /// stand without quotes and escapes, and NaN and infinity have their names.
    ///
    /// # Errors
    /// NaN or infinity inside a nested value, which is JSON.
    pub(crate) fn write_text(&self, row: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
        match &self.values {
            Values::Float32(v) => print_f32(out, v[row]),
            Values::Float64(v) => print_f64(out, v[row]),
            Values::TextView(v) | Values::JsonView(v) => v.with(row, |text| out.extend_from_slice(text)),
            Values::Text(v) | Values::Json(v) => out.extend_from_slice(v.get(row)),
            Values::BytesView(v) => v.with(row, |bytes| print_hex(out, bytes)),
            Values::Bytes(v) => print_hex(out, v.get(row)),
            Values::FixedBytes(v, length) => print_hex(out, &v.as_slice()[row * length..(row + 1) * length]),
            Values::Date(_)
            | Values::Micros(_)
            | Values::Nanos(_)
            | Values::Timestamp { .. }
            | Values::Duration(..)
            | Values::Interval(_)
            | Values::Uuid(_) => write_plain(&self.values, row, out),
            _ => return self.write_other(row, out),
        }
        Ok(())
    }

    fn write_other(&self, row: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
        match &self.values {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Bool(v) => out.extend_from_slice(if v.value(row) { b"true" } else { b"false" }),
            Values::Int8(v) => push_integer(v[row], out),
            Values::Int16(v) => push_integer(v[row], out),
            Values::Int32(v) => push_integer(v[row], out),
            Values::Int64(v) => push_integer(v[row], out),
            Values::UInt8(v) => push_integer(v[row], out),
            Values::UInt16(v) => push_integer(v[row], out),
            Values::UInt32(v) => push_integer(v[row], out),
            Values::UInt64(v) => push_integer(v[row], out),
            Values::Float32(v) => {
                finite(f64::from(v[row]))?;
                print_f32(out, v[row]);
            }
            Values::Float64(v) => {
                finite(v[row])?;
                print_f64(out, v[row]);
            }
            Values::Decimal(v, scale) => print_decimal(out, v[row], *scale),
            Values::Decimal256(v, scale) => print_decimal256(out, v[row], *scale),
            Values::Text(v) => {
                let (start, end) = v.range(row);
                push_string_in(v.bytes.as_slice(), start, end, out);
            }
            Values::JsonView(v) => v.with(row, |text| push_raw_json(text, out)),
            Values::Json(v) => push_raw_json(v.get(row), out),
            Values::List(slices, items) => return write_list(slices.range(row), items, out),
            Values::Struct(fields) => return write_struct(fields, row, out),
            Values::Map(slices, keys, values) => return write_map(slices.range(row), keys, values, out),
            quoted => {
                out.push(b'"');
                write_plain(quoted, row, out);
                out.push(b'"');
            }
        }
        Ok(())
    }
}

/// Appends a value whose text needs no escapes and stands in quotes.
fn write_plain(values: &Values, row: usize, out: &mut Vec<u8>) {
    match values {
        Values::Date(v) => print_date(out, v[row]),
        Values::Micros(v) => print_time(out, v[row]),
        Values::Nanos(v) => print_time_nanos(out, v[row]),
        Values::Timestamp { values, unit, utc } => print_timestamp(out, values[row], *unit, *utc),
        Values::Duration(v, unit) => push_duration(v[row], *unit, out),
        Values::Interval(v) => push_interval(v[row], out),
        Values::BytesView(v) => v.with(row, |bytes| push_bytes(bytes, out)),
        Values::Bytes(v) => push_bytes(v.get(row), out),
        Values::FixedBytes(v, length) => push_bytes(&v.as_slice()[row * length..(row + 1) * length], out),
        Values::Uuid(v) => {
            let mut uuid = [0; 16];
            uuid.copy_from_slice(&v.as_slice()[row * 16..row * 16 + 16]);
            print_uuid(out, &uuid);
        }
        _ => unreachable!("write_valid and write_other take all other values"),
    }
}

fn write_list((start, end): (usize, usize), items: &ValueWriter, out: &mut Vec<u8>) -> Result<(), NoJson> {
    out.push(b'[');
    for item in start..end {
        if item > start {
            out.push(b',');
        }
        items.write(item, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_struct(fields: &[(Vec<u8>, ValueWriter)], row: usize, out: &mut Vec<u8>) -> Result<(), NoJson> {
    let start = out.len();
    for (key, values) in fields {
        if values.omits_null() && values.is_null(row) {
            continue;
        }
        out.extend_from_slice(key);
        values.write(row, out)?;
    }
    // Every key begins with a comma; the first one's place is the brace's.
    match out.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
    Ok(())
}

fn write_map((start, end): (usize, usize), keys: &ValueWriter, values: &ValueWriter, out: &mut Vec<u8>) -> Result<(), NoJson> {
    out.push(b'{');
    for entry in start..end {
        if entry > start {
            out.push(b',');
        }
        let key = out.len();
        keys.write(entry, out)?;
        // A key is always a string: a number or boolean gets quotes around its text.
        if out[key] != b'"' {
            let text = out.split_off(key);
            push_string(&text, out);
        }
        out.push(b':');
        values.write(entry, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn text_values(array: &dyn Array, field: &Field) -> Option<Values> {
    let json = field_meta::is_json(field);
    let text = |slices| if json { Values::Json(slices) } else { Values::Text(slices) };
    Some(match array.data_type() {
        DataType::Utf8View => {
            let array = array.as_string_view();
            let views = Views { views: array.views().clone(), buffers: array.data_buffers().to_vec() };
            if json { Values::JsonView(views) } else { Values::TextView(views) }
        }
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            text(Slices { bounds: Bounds::Small(array.offsets().clone()), bytes: array.values().clone() })
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            text(Slices { bounds: Bounds::Large(array.offsets().clone()), bytes: array.values().clone() })
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            Values::BytesView(Views { views: array.views().clone(), buffers: array.data_buffers().to_vec() })
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Values::Bytes(Slices { bounds: Bounds::Small(array.offsets().clone()), bytes: array.values().clone() })
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Values::Bytes(Slices { bounds: Bounds::Large(array.offsets().clone()), bytes: array.values().clone() })
        }
        DataType::FixedSizeBinary(width) => {
            let (width, array) = (*width as usize, array.as_fixed_size_binary());
            let bytes = array.values().clone();
            if width == 16 && field_meta::is_uuid(field) { Values::Uuid(bytes) } else { Values::FixedBytes(bytes, width) }
        }
        _ => return None,
    })
}

fn scalar_values(array: &dyn Array) -> Option<Values> {
    Some(match array.data_type() {
        DataType::Null => Values::Null,
        DataType::Boolean => Values::Bool(array.as_boolean().values().clone()),
        DataType::Int8 => Values::Int8(native::<Int8Type>(array)),
        DataType::Int16 => Values::Int16(native::<Int16Type>(array)),
        DataType::Int32 => Values::Int32(native::<Int32Type>(array)),
        DataType::Int64 => Values::Int64(native::<Int64Type>(array)),
        DataType::UInt8 => Values::UInt8(native::<UInt8Type>(array)),
        DataType::UInt16 => Values::UInt16(native::<UInt16Type>(array)),
        DataType::UInt32 => Values::UInt32(native::<UInt32Type>(array)),
        DataType::UInt64 => Values::UInt64(native::<UInt64Type>(array)),
        // Exact as 32 bits, and the shortest text for those reads back to the same 16.
        DataType::Float16 => Values::Float32(array.as_primitive::<Float16Type>().values().iter().map(|v| v.to_f32()).collect()),
        DataType::Float32 => Values::Float32(native::<Float32Type>(array)),
        DataType::Float64 => Values::Float64(native::<Float64Type>(array)),
        DataType::Decimal32(_, scale) => Values::Decimal(widened::<Decimal32Type>(array), *scale),
        DataType::Decimal64(_, scale) => Values::Decimal(widened::<Decimal64Type>(array), *scale),
        DataType::Decimal128(_, scale) => Values::Decimal(native::<Decimal128Type>(array), *scale),
        DataType::Decimal256(_, scale) => Values::Decimal256(native::<Decimal256Type>(array), *scale),
        DataType::Date32 => Values::Date(native::<Date32Type>(array)),
        DataType::Date64 => Values::Timestamp { values: raw_i64(array), unit: TimeUnit::Millisecond, utc: false },
        DataType::Time32(TimeUnit::Second) => Values::Micros(scaled::<Time32SecondType>(array, 1_000_000)),
        DataType::Time32(_) => Values::Micros(scaled::<Time32MillisecondType>(array, 1_000)),
        DataType::Time64(TimeUnit::Nanosecond) => Values::Nanos(raw_i64(array)),
        DataType::Time64(_) => Values::Micros(raw_i64(array)),
        DataType::Timestamp(unit, zone) => Values::Timestamp { values: raw_i64(array), unit: *unit, utc: zone.is_some() },
        DataType::Duration(unit) => Values::Duration(raw_i64(array), *unit),
        DataType::Interval(IntervalUnit::MonthDayNano) => Values::Interval(native::<IntervalMonthDayNanoType>(array)),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let months: &PrimitiveArray<IntervalYearMonthType> = array.as_primitive();
            Values::Interval(months.values().iter().map(|m| IntervalMonthDayNano::new(*m, 0, 0)).collect())
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let parts: &PrimitiveArray<IntervalDayTimeType> = array.as_primitive();
            let nanos = |ms: i32| i64::from(ms) * 1_000_000;
            Values::Interval(parts.values().iter().map(|p| IntervalMonthDayNano::new(0, p.days, nanos(p.milliseconds))).collect())
        }
        _ => return None,
    })
}

fn nested_values(array: &dyn Array) -> Result<Option<Values>> {
    let list = |bounds, field: &FieldRef, items: &ArrayRef| -> Result<Option<Values>> {
        let slices = Slices { bounds, bytes: Buffer::from(&[] as &[u8]) };
        Ok(Some(Values::List(slices, Box::new(ValueWriter::new(items.as_ref(), field)?))))
    };
    match array.data_type() {
        DataType::List(field) => {
            let array = array.as_list::<i32>();
            list(Bounds::Small(array.offsets().clone()), field, array.values())
        }
        DataType::LargeList(field) => {
            let array = array.as_list::<i64>();
            list(Bounds::Large(array.offsets().clone()), field, array.values())
        }
        DataType::FixedSizeList(field, length) => list(Bounds::Fixed(*length as usize), field, array.as_fixed_size_list().values()),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let writers = columns.map(|(field, column)| Ok((key(field.name()), ValueWriter::new(column.as_ref(), field)?)));
            Ok(Some(Values::Struct(writers.collect::<Result<_>>()?)))
        }
        DataType::Map(entry, _) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entry.data_type() else { return Ok(None) };
            let [key_field, value_field] = fields.as_ref() else { return Ok(None) };
            let slices = Slices { bounds: Bounds::Small(map.offsets().clone()), bytes: Buffer::from(&[] as &[u8]) };
            let keys = ValueWriter::new(map.keys().as_ref(), key_field)?;
            Ok(Some(Values::Map(slices, Box::new(keys), Box::new(ValueWriter::new(map.values().as_ref(), value_field)?))))
        }
        _ => Ok(None),
    }
}

/// `,"name":`, escaped once for all rows.
pub(crate) fn key(name: &str) -> Vec<u8> {
    let mut key = vec![b','];
    push_string(name.as_bytes(), &mut key);
    key.push(b':');
    key
}

/// Checks that a column of this type can be written, before any row is there.
///
/// # Errors
/// `Unsupported`, naming the column.
pub(crate) fn check(field: &Field) -> Result<()> {
    if has_form(field.data_type()) { Ok(()) } else { Err(unsupported(field)) }
}

fn has_form(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::ListView(_) | DataType::LargeListView(_) => false,
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::Map(f, _) => has_form(f.data_type()),
        DataType::Struct(fields) => fields.iter().all(|f| has_form(f.data_type())),
        DataType::Dictionary(_, values) => has_form(values),
        _ => true,
    }
}

fn unsupported(field: &Field) -> Error {
    Error::new(ErrorKind::Unsupported, format!("values of type {} have no form in JSON", field.data_type()))
        .column(field.name())
        .hint("--cast the column to text, or leave it out")
}

#[inline(always)]
fn push_integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[inline(always)]
fn finite(value: f64) -> Result<(), NoJson> {
    if value.is_finite() {
        Ok(())
    } else if value.is_nan() {
        Err(NoJson::NotANumber)
    } else {
        Err(NoJson::Infinity { negative: value < 0.0 })
    }
}

/// `\x6869`, its backslash escaped.
fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'\\');
    print_hex(out, bytes);
}

/// Seconds and their fraction, trimmed, with a sign: `-1.5`.
fn push_seconds(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let places = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let start = out.len();
    print_decimal(out, i128::from(value), places);
    if places > 0 {
        while out.len() > start && out.last() == Some(&b'0') {
            out.pop();
        }
        if out.last() == Some(&b'.') {
            out.pop();
        }
    }
}

/// ISO 8601: `PT-1.5S`.
fn push_duration(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    out.extend_from_slice(b"PT");
    push_seconds(value, unit, out);
    out.push(b'S');
}

/// ISO 8601 with signs, as PostgreSQL reads it: `P1M-1DT90000.000001S`.
fn push_interval(value: IntervalMonthDayNano, out: &mut Vec<u8>) {
    out.push(b'P');
    push_integer(value.months, out);
    out.push(b'M');
    push_integer(value.days, out);
    out.extend_from_slice(b"DT");
    push_seconds(value.nanoseconds, TimeUnit::Nanosecond, out);
    out.push(b'S');
}

/// Appends one value of any array as JSON: for values inside another format (CSV). Where many rows are written, make a
/// [`ValueWriter`] once per batch instead.
///
/// # Errors
/// A type without a form in JSON, or NaN and infinity.
pub fn write_json_value(array: &dyn Array, field: &Field, row: usize, out: &mut Vec<u8>) -> Result<()> {
    ValueWriter::new(array, field)?.write(row, out).map_err(|e| e.error().column(field.name()))
}
