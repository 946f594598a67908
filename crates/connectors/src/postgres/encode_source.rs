//! Arrow arrays as the encoder reads them: one enum over the types, bound once per batch.

use super::target::is_text;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, PrimitiveArray,
    StringArray, StringViewArray,
};
use arrow_schema::{DataType, Field, TimeUnit};
use haul_formats::literal;
use haul_model::{Error, Result, field_meta};

/// Text of any layout.
pub(super) enum Text<'a> {
    View(&'a StringViewArray),
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
}

impl<'a> Text<'a> {
    #[inline]
    pub fn value(&self, row: usize) -> &'a [u8] {
        match self {
            Self::View(a) => a.value(row).as_bytes(),
            Self::Small(a) => a.value(row).as_bytes(),
            Self::Large(a) => a.value(row).as_bytes(),
        }
    }
}

/// Bytes of any layout.
pub(super) enum Binary<'a> {
    View(&'a BinaryViewArray),
    Small(&'a BinaryArray),
    Large(&'a LargeBinaryArray),
    Fixed(&'a FixedSizeBinaryArray),
}

impl<'a> Binary<'a> {
    #[inline]
    pub fn value(&self, row: usize) -> &'a [u8] {
        match self {
            Self::View(a) => a.value(row),
            Self::Small(a) => a.value(row),
            Self::Large(a) => a.value(row),
            Self::Fixed(a) => a.value(row),
        }
    }
}

/// Integers of any width.
pub(super) enum Ints<'a> {
    I8(&'a PrimitiveArray<Int8Type>),
    I16(&'a PrimitiveArray<Int16Type>),
    I32(&'a PrimitiveArray<Int32Type>),
    I64(&'a PrimitiveArray<Int64Type>),
    U8(&'a PrimitiveArray<UInt8Type>),
    U16(&'a PrimitiveArray<UInt16Type>),
    U32(&'a PrimitiveArray<UInt32Type>),
    U64(&'a PrimitiveArray<UInt64Type>),
}

impl Ints<'_> {
    #[inline]
    pub fn value(&self, row: usize) -> i128 {
        match self {
            Self::I64(a) => i128::from(a.value(row)),
            Self::I32(a) => i128::from(a.value(row)),
            Self::I16(a) => i128::from(a.value(row)),
            Self::I8(a) => i128::from(a.value(row)),
            Self::U8(a) => i128::from(a.value(row)),
            Self::U16(a) => i128::from(a.value(row)),
            Self::U32(a) => i128::from(a.value(row)),
            Self::U64(a) => i128::from(a.value(row)),
        }
    }
}

/// Decimals of any width; all have a scale.
pub(super) enum Decimals<'a> {
    D32(&'a PrimitiveArray<Decimal32Type>),
    D64(&'a PrimitiveArray<Decimal64Type>),
    D128(&'a PrimitiveArray<Decimal128Type>),
    D256(&'a PrimitiveArray<Decimal256Type>),
}

/// Offsets of a list's rows.
pub(super) enum Ranges<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
    Fixed(usize),
}

impl Ranges<'_> {
    pub fn of(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Fixed(width) => row * width..(row + 1) * width,
        }
    }
}

/// The values of a column, without its NULLs.
pub(super) enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    Ints(Ints<'a>),
    F16(&'a PrimitiveArray<Float16Type>),
    F32(&'a PrimitiveArray<Float32Type>),
    F64(&'a PrimitiveArray<Float64Type>),
    Decimals(Decimals<'a>, i8),
    Text(Text<'a>),
    /// Text that is one JSON value. `from_database`: the column was JSON there, so a string is not unwrapped into a text column.
    Json {
        text: Text<'a>,
        from_database: bool,
    },
    Binary(Binary<'a>),
    /// 16 bytes that are a UUID.
    Uuid(&'a FixedSizeBinaryArray),
    /// Days since 1970.
    Date32(&'a PrimitiveArray<Date32Type>),
    Date64(&'a PrimitiveArray<Date64Type>),
    Time(Clock<'a>),
    Timestamp {
        at: Stamp<'a>,
        zone: bool,
    },
    List {
        ranges: Ranges<'a>,
        item: Box<Source<'a>>,
    },
}

/// Times of day of any unit.
pub(super) enum Clock<'a> {
    S(&'a PrimitiveArray<Time32SecondType>),
    Ms(&'a PrimitiveArray<Time32MillisecondType>),
    Us(&'a PrimitiveArray<Time64MicrosecondType>),
    Ns(&'a PrimitiveArray<Time64NanosecondType>),
}

impl Clock<'_> {
    /// Nanoseconds since midnight.
    pub fn nanos(&self, row: usize) -> i128 {
        match self {
            Self::S(a) => i128::from(a.value(row)) * 1_000_000_000,
            Self::Ms(a) => i128::from(a.value(row)) * 1_000_000,
            Self::Us(a) => i128::from(a.value(row)) * 1_000,
            Self::Ns(a) => i128::from(a.value(row)),
        }
    }
}

/// Timestamps of any unit.
pub(super) enum Stamp<'a> {
    S(&'a PrimitiveArray<TimestampSecondType>),
    Ms(&'a PrimitiveArray<TimestampMillisecondType>),
    Us(&'a PrimitiveArray<TimestampMicrosecondType>),
    Ns(&'a PrimitiveArray<TimestampNanosecondType>),
}

impl Stamp<'_> {
    /// The value and its unit.
    #[inline]
    pub fn value(&self, row: usize) -> (i64, TimeUnit) {
        match self {
            Self::Us(a) => (a.value(row), TimeUnit::Microsecond),
            Self::S(a) => (a.value(row), TimeUnit::Second),
            Self::Ms(a) => (a.value(row), TimeUnit::Millisecond),
            Self::Ns(a) => (a.value(row), TimeUnit::Nanosecond),
        }
    }
}

/// A column of a batch.
pub(super) struct Source<'a> {
    pub values: Values<'a>,
    nulls: Option<&'a arrow_buffer::NullBuffer>,
}

impl<'a> Source<'a> {
    /// Binds an array. Dictionaries must have been unpacked ([`unpacked`]).
    ///
    /// # Errors
    /// `Internal`: a type that planning should have refused.
    pub fn new(array: &'a ArrayRef, field: &Field) -> Result<Self> {
        let values = Self::values(array, field)
            .ok_or_else(|| Error::internal(format!("no encoder for Arrow type {}", array.data_type())).column(field.name()))?;
        Ok(Self { values, nulls: array.nulls() })
    }

    fn values(array: &'a ArrayRef, field: &Field) -> Option<Values<'a>> {
        use DataType as D;
        if is_text(array.data_type()) {
            let text = match array.data_type() {
                D::Utf8View => Text::View(array.as_string_view()),
                D::Utf8 => Text::Small(array.as_string()),
                _ => Text::Large(array.as_string()),
            };
            let from_database = field_meta::source_type(field, "postgres").is_some_and(|t| t.starts_with("json"));
            return Some(if field_meta::is_json(field) { Values::Json { text, from_database } } else { Values::Text(text) });
        }
        Some(match array.data_type() {
            D::Null => Values::Null,
            D::Boolean => Values::Bool(array.as_boolean()),
            D::Int8 => Values::Ints(Ints::I8(array.as_primitive())),
            D::Int16 => Values::Ints(Ints::I16(array.as_primitive())),
            D::Int32 => Values::Ints(Ints::I32(array.as_primitive())),
            D::Int64 => Values::Ints(Ints::I64(array.as_primitive())),
            D::UInt8 => Values::Ints(Ints::U8(array.as_primitive())),
            D::UInt16 => Values::Ints(Ints::U16(array.as_primitive())),
            D::UInt32 => Values::Ints(Ints::U32(array.as_primitive())),
            D::UInt64 => Values::Ints(Ints::U64(array.as_primitive())),
            D::Float16 => Values::F16(array.as_primitive()),
            D::Float32 => Values::F32(array.as_primitive()),
            D::Float64 => Values::F64(array.as_primitive()),
            D::Decimal32(_, scale) => Values::Decimals(Decimals::D32(array.as_primitive()), *scale),
            D::Decimal64(_, scale) => Values::Decimals(Decimals::D64(array.as_primitive()), *scale),
            D::Decimal128(_, scale) => Values::Decimals(Decimals::D128(array.as_primitive()), *scale),
            D::Decimal256(_, scale) => Values::Decimals(Decimals::D256(array.as_primitive()), *scale),
            D::BinaryView => Values::Binary(Binary::View(array.as_binary_view())),
            D::Binary => Values::Binary(Binary::Small(array.as_binary())),
            D::LargeBinary => Values::Binary(Binary::Large(array.as_binary())),
            D::FixedSizeBinary(16) if field_meta::is_uuid(field) => Values::Uuid(array.as_fixed_size_binary()),
            D::FixedSizeBinary(_) => Values::Binary(Binary::Fixed(array.as_fixed_size_binary())),
            D::Date32 => Values::Date32(array.as_primitive()),
            D::Date64 => Values::Date64(array.as_primitive()),
            D::Time32(TimeUnit::Second) => Values::Time(Clock::S(array.as_primitive())),
            D::Time32(_) => Values::Time(Clock::Ms(array.as_primitive())),
            D::Time64(TimeUnit::Microsecond) => Values::Time(Clock::Us(array.as_primitive())),
            D::Time64(_) => Values::Time(Clock::Ns(array.as_primitive())),
            D::Timestamp(unit, zone) => {
                let at = match unit {
                    TimeUnit::Second => Stamp::S(array.as_primitive()),
                    TimeUnit::Millisecond => Stamp::Ms(array.as_primitive()),
                    TimeUnit::Microsecond => Stamp::Us(array.as_primitive()),
                    TimeUnit::Nanosecond => Stamp::Ns(array.as_primitive()),
                };
                Values::Timestamp { at, zone: zone.is_some() }
            }
            D::List(item) => {
                let list = array.as_list::<i32>();
                Values::List { ranges: Ranges::Small(list.value_offsets()), item: Box::new(Self::new(list.values(), item).ok()?) }
            }
            D::LargeList(item) => {
                let list = array.as_list::<i64>();
                Values::List { ranges: Ranges::Large(list.value_offsets()), item: Box::new(Self::new(list.values(), item).ok()?) }
            }
            D::FixedSizeList(item, width) => {
                let list = array.as_fixed_size_list();
                Values::List { ranges: Ranges::Fixed(*width as usize), item: Box::new(Self::new(list.values(), item).ok()?) }
            }
            _ => return None,
        })
    }

    /// Whether the value is NULL.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.is_some_and(|n| n.is_null(row))
    }
}

/// The array without dictionary encoding.
///
/// # Errors
/// `Internal`: the dictionary is broken.
pub(super) fn unpacked(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return Ok(ArrayRef::clone(array)) };
    arrow_select::take::take(dictionary.values(), dictionary.keys(), None)
        .map_err(|e| Error::internal(format!("a dictionary could not be unpacked: {e}")))
}

/// Appends the text of a scalar value as the server reads it; `false` for lists.
pub(super) fn print(values: &Values<'_>, row: usize, out: &mut Vec<u8>) -> bool {
    match values {
        Values::Null | Values::List { .. } => return false,
        Values::Bool(a) => literal::print_bool(out, a.value(row)),
        Values::Ints(ints) => out.extend_from_slice(itoa::Buffer::new().format(ints.value(row)).as_bytes()),
        Values::F16(a) => literal::print_f32(out, a.value(row).to_f32()),
        Values::F32(a) => literal::print_f32(out, a.value(row)),
        Values::F64(a) => literal::print_f64(out, a.value(row)),
        Values::Decimals(decimals, scale) => match decimals {
            Decimals::D32(a) => literal::print_decimal(out, i128::from(a.value(row)), *scale),
            Decimals::D64(a) => literal::print_decimal(out, i128::from(a.value(row)), *scale),
            Decimals::D128(a) => literal::print_decimal(out, a.value(row), *scale),
            Decimals::D256(a) => literal::print_decimal256(out, a.value(row), *scale),
        },
        Values::Text(text) | Values::Json { text, .. } => out.extend_from_slice(text.value(row)),
        Values::Binary(binary) => literal::print_hex(out, binary.value(row)),
        Values::Uuid(a) => match a.value(row).try_into() {
            Ok(bytes) => literal::print_uuid(out, bytes),
            Err(_) => return false,
        },
        Values::Date32(a) => literal::print_date(out, a.value(row)),
        Values::Date64(a) => literal::print_timestamp(out, a.value(row), TimeUnit::Millisecond, false),
        Values::Time(clock) => {
            let nanos = clock.nanos(row);
            literal::print_time_nanos(out, i64::try_from(nanos).unwrap_or(i64::MAX));
        }
        Values::Timestamp { at, zone } => {
            let (value, unit) = at.value(row);
            literal::print_timestamp(out, value, unit, *zone);
        }
    }
    true
}
