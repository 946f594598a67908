//! Random batches of every type that both formats hold.

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use haul_model::field_meta;
use proptest::prelude::*;
use std::sync::Arc;

/// A small generator, so that one seed from proptest fills a batch.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Fields of every kind, nested ones included.
fn field() -> impl Strategy<Value = Field> {
    let zone = prop_oneof![Just(None), Just(Some(Arc::<str>::from("UTC")))];
    let unit = prop_oneof![Just(TimeUnit::Millisecond), Just(TimeUnit::Microsecond), Just(TimeUnit::Nanosecond)];
    let leaf = prop_oneof![
        prop::sample::select(vec![
            DataType::Boolean,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Date32,
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Utf8View,
            DataType::BinaryView,
            DataType::FixedSizeBinary(16),
            DataType::FixedSizeBinary(3),
        ]),
        (unit, zone).prop_map(|(unit, zone)| DataType::Timestamp(unit, zone)),
        (1u8..=38, 0i8..=10).prop_map(|(precision, scale)| DataType::Decimal128(precision, scale.min(precision as i8))),
        (39u8..=76, 0i8..=30).prop_map(|(precision, scale)| DataType::Decimal256(precision, scale)),
    ];
    let types = leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|(item, nullable)| DataType::List(Arc::new(Field::new("element", item, nullable)))),
            prop::collection::vec((inner, any::<bool>()), 1..3).prop_map(|fields| {
                let fields = fields.into_iter().enumerate();
                DataType::Struct(fields.map(|(n, (data_type, nullable))| Field::new(format!("f{n}"), data_type, nullable)).collect())
            }),
        ]
    });
    (types, any::<bool>(), any::<bool>()).prop_map(|(data_type, nullable, marked)| {
        let extension = match data_type {
            DataType::FixedSizeBinary(16) if marked => Some(field_meta::UUID),
            DataType::Utf8View if marked => Some(field_meta::JSON),
            _ => None,
        };
        let field = Field::new("", data_type, nullable);
        let field = if marked { field_meta::with(field, field_meta::SOURCE_TYPE, "postgres:some type(1,2)") } else { field };
        match extension {
            Some(extension) => field_meta::with(field, field_meta::EXTENSION, extension),
            None => field,
        }
    })
}

/// Random columns and rows.
pub(crate) fn batches() -> impl Strategy<Value = RecordBatch> {
    (prop::collection::vec(field(), 1..5), 0usize..400, any::<u64>()).prop_map(|(fields, rows, seed)| {
        let mut random = Random::new(seed);
        let fields = fields.into_iter().enumerate();
        let fields: Vec<Field> = fields.map(|(n, field)| field.with_name(["a", "b.c", "A", "d e"][n])).collect();
        let columns = fields.iter().map(|field| array(field.data_type(), field.is_nullable(), rows, &mut random)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let metadata = [("made by".to_string(), "a test".to_string())].into();
        RecordBatch::try_new_with_options(Arc::new(Schema::new_with_metadata(fields, metadata)), columns, &options).unwrap()
    })
}

fn nulls(nullable: bool, rows: usize, random: &mut Random) -> Option<NullBuffer> {
    // Sometimes all, sometimes none, mostly some.
    let share = random.below(5);
    let nulls: NullBuffer = (0..rows).map(|_| random.below(4) >= share).collect();
    (nullable && nulls.null_count() > 0).then_some(nulls)
}

fn primitive<T: ArrowPrimitiveType>(
    rows: usize,
    nulls: Option<NullBuffer>,
    random: &mut Random,
    value: impl Fn(u64) -> T::Native,
) -> PrimitiveArray<T> {
    // NULL slots hold zero, as readers leave them, so that whole buffers compare.
    let values =
        (0..rows).map(|row| if nulls.as_ref().is_some_and(|n| n.is_null(row)) { T::default_value() } else { value(random.next()) });
    PrimitiveArray::new(values.collect(), nulls)
}

fn array(data_type: &DataType, nullable: bool, rows: usize, random: &mut Random) -> ArrayRef {
    let nulls = nulls(nullable, rows, random);
    macro_rules! of {
        ($t:ty, $value:expr) => {
            Arc::new(primitive::<$t>(rows, nulls, random, $value))
        };
    }
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new((0..rows).map(|_| random.below(2) == 0).collect(), nulls)),
        DataType::Int8 => of!(Int8Type, |r| r as i8),
        DataType::Int16 => of!(Int16Type, |r| r as i16),
        DataType::Int32 => of!(Int32Type, |r| r as i32),
        DataType::Int64 => of!(Int64Type, |r| r as i64),
        DataType::UInt8 => of!(UInt8Type, |r| r as u8),
        DataType::UInt16 => of!(UInt16Type, |r| r as u16),
        DataType::UInt32 => of!(UInt32Type, |r| r as u32),
        DataType::UInt64 => of!(UInt64Type, |r| r),
        DataType::Float32 => of!(Float32Type, |r| (r as i32) as f32 / 7.0),
        DataType::Float64 => of!(Float64Type, |r| (r as i64) as f64 / 7.0),
        DataType::Date32 => of!(Date32Type, |r| r as i32),
        DataType::Time32(_) => of!(Time32MillisecondType, |r| (r % 86_400_000) as i32),
        DataType::Time64(TimeUnit::Microsecond) => of!(Time64MicrosecondType, |r| (r % 86_400_000_001) as i64),
        DataType::Time64(_) => of!(Time64NanosecondType, |r| (r % 86_400_000_000_000) as i64),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.clone();
            match unit {
                TimeUnit::Millisecond => {
                    Arc::new(primitive::<TimestampMillisecondType>(rows, nulls, random, |r| r as i64).with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    Arc::new(primitive::<TimestampMicrosecondType>(rows, nulls, random, |r| r as i64).with_timezone_opt(zone))
                }
                _ => Arc::new(primitive::<TimestampNanosecondType>(rows, nulls, random, |r| r as i64).with_timezone_opt(zone)),
            }
        }
        DataType::Decimal128(precision, scale) => {
            let limit = 10i128.pow(u32::from(*precision));
            let values =
                primitive::<Decimal128Type>(rows, nulls, random, |r| i128::from(r as i64).wrapping_mul(0x1234_5678_9abc_def1_2345) % limit);
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Decimal256(precision, scale) => {
            let values = primitive::<Decimal256Type>(rows, nulls, random, |r| i256::from_i128(i128::from(r as i64) << 60));
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::FixedSizeBinary(size) => {
            let mut builder = FixedSizeBinaryBuilder::new(*size);
            for row in 0..rows {
                match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    true => builder.append_null(),
                    false => builder.append_value(&random.next().to_be_bytes().repeat(2)[..*size as usize]).unwrap(),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Utf8View | DataType::BinaryView => bytes(data_type, rows, nulls, random),
        DataType::List(item) => {
            let lengths = (0..rows).map(|row| if nulls.as_ref().is_some_and(|n| n.is_null(row)) { 0 } else { random.below(4) as usize });
            let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
            let values = array(item.data_type(), item.is_nullable(), *offsets.last().unwrap() as usize, random);
            Arc::new(ListArray::new(item.clone(), offsets, values, nulls))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| array(field.data_type(), field.is_nullable(), rows, random)).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows).unwrap())
        }
        other => panic!("no random {other}"),
    }
}

fn bytes(data_type: &DataType, rows: usize, nulls: Option<NullBuffer>, random: &mut Random) -> ArrayRef {
    let texts = [
        "",
        "a",
        "Grün",
        "twelve bytes",
        "thirteen byte",
        "日本 and a text that is well past the twelve bytes of a view",
        "\0",
        "{\"a\":1}",
    ];
    let (mut text, mut binary) = (StringViewBuilder::new(), BinaryViewBuilder::new());
    for row in 0..rows {
        let value = texts[random.below(texts.len() as u64) as usize];
        let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        text.append_option((!null).then_some(value));
        binary.append_option((!null).then(|| [value.as_bytes(), &[0xff]].concat()));
    }
    if *data_type == DataType::Utf8View { Arc::new(text.finish()) } else { Arc::new(binary.finish()) }
}

/// Whether two batches hold equal values, NULL slots of nested columns left out of account.
pub(crate) fn assert_same(a: &RecordBatch, b: &RecordBatch) {
    assert_eq!(a.schema(), b.schema());
    assert_eq!(a.num_rows(), b.num_rows());
    for (left, right) in a.columns().iter().zip(b.columns()) {
        assert_eq!(left.as_ref() as &dyn Array, right.as_ref());
    }
}
