//! Bodies of the fuzz targets for COPY BINARY; the tests replay mutated rows through them on stable Rust.

use super::decode::CopyDecoder;
use super::types::{ColumnPlan, ReadAs};
use arrow_schema::{DataType, Field, TimeUnit};
use haul_model::{Decoder, Error, Form, OnLossy, Raw, Rejects, Result, Rows};
use std::sync::Arc;

/// Leaves every bad row out.
struct Ignore;

impl Rejects for Ignore {
    fn row(&mut self, _rows: &Rows, _row: usize, _error: Error) -> Result<()> {
        Ok(())
    }
    fn record(&mut self, _record: &[u8], _error: Error) -> Result<()> {
        Ok(())
    }
    fn lossy(&mut self, _column: &str, _count: u64) {}
}

/// A column of each way to read.
fn columns() -> Vec<ColumnPlan> {
    let text = DataType::Utf8View;
    let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    let kinds = [
        (DataType::Boolean, ReadAs::Bool),
        (DataType::Int64, ReadAs::Int8),
        (DataType::Float64, ReadAs::Float8),
        (text.clone(), ReadAs::Text),
        (text.clone(), ReadAs::Jsonb),
        (DataType::BinaryView, ReadAs::Bytea),
        (DataType::FixedSizeBinary(16), ReadAs::Uuid),
        (DataType::Date32, ReadAs::Date),
        (DataType::Time64(TimeUnit::Microsecond), ReadAs::Time),
        (stamp, ReadAs::Timestamp),
        (DataType::Decimal128(20, 5), ReadAs::Decimal128 { precision: 20, scale: 5 }),
        (DataType::Decimal256(60, 5), ReadAs::Decimal256 { precision: 60, scale: 5 }),
        (list(DataType::Int32), ReadAs::List(Box::new(ReadAs::Int4))),
        (list(text.clone()), ReadAs::List(Box::new(ReadAs::Text))),
        (text.clone(), ReadAs::DateText),
        (text.clone(), ReadAs::TimeText),
        (text.clone(), ReadAs::TimestampText { zone: true }),
        (text.clone(), ReadAs::NumericText),
        (text.clone(), ReadAs::NumericJson),
        (text.clone(), ReadAs::FloatJson { double: true }),
        (text.clone(), ReadAs::QuotedChar),
        (text.clone(), ReadAs::ArrayJson(Box::new(ReadAs::Text))),
        (text, ReadAs::ArrayJson(Box::new(ReadAs::NumericJson))),
    ];
    let plan = |(i, (data_type, read)): (usize, (DataType, ReadAs))| ColumnPlan {
        field: Field::new(format!("c{i}"), data_type, true),
        select: String::new(),
        read,
        note: None,
    };
    kinds.into_iter().enumerate().map(plan).collect()
}

/// Decodes any bytes as CopyData frames of a table that has a column of each kind. Must not panic, and every batch must have as many rows as
/// its columns.
pub fn copy_decoder(data: &[u8]) {
    for on_lossy in [OnLossy::Error, OnLossy::Null, OnLossy::Clamp, OnLossy::Text] {
        let mut decoder = CopyDecoder::new("fuzz", &columns(), Form::Typed, on_lossy);
        let raw = Raw { bytes: bytes::Bytes::copy_from_slice(data), ..Raw::default() };
        let decoded = decoder.decode(raw, &mut Ignore, &mut |rows, _| {
            assert!(rows.batch.columns().iter().all(|c| c.len() == rows.batch.num_rows()));
            assert!(rows.selection.as_ref().is_none_or(|s| s.len() == rows.batch.num_rows()));
            Ok(())
        });
        drop(decoded);
    }
}

/// The same bytes as one tuple's fields, so that a fuzzer need not find out about frames.
pub fn copy_fields(data: &[u8]) {
    let mut frame = vec![b'd'];
    frame.extend_from_slice(&(data.len() as u32 + 6).to_be_bytes());
    frame.extend_from_slice(&(columns().len() as u16).to_be_bytes());
    frame.extend_from_slice(data);
    copy_decoder(&frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of one good row.
    fn good() -> Vec<u8> {
        let array = |elem: u32, items: &[&[u8]]| {
            let mut out = [1u32, 0, elem, items.len() as u32, 1].iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
            for item in items {
                out.extend_from_slice(&(item.len() as u32).to_be_bytes());
                out.extend_from_slice(item);
            }
            out
        };
        let numeric: &[u8] = &[0, 2, 0, 0, 0x40, 0, 0, 2, 0, 12, 0x1A, 0x90];
        let fields: Vec<Vec<u8>> = vec![
            vec![1],
            7i64.to_be_bytes().to_vec(),
            0.5f64.to_be_bytes().to_vec(),
            "é a longer text than a view holds".into(),
            b"\x01{\"a\":1}".to_vec(),
            vec![0, 255],
            vec![7; 16],
            1i32.to_be_bytes().to_vec(),
            5i64.to_be_bytes().to_vec(),
            5i64.to_be_bytes().to_vec(),
            numeric.to_vec(),
            numeric.to_vec(),
            array(23, &[&1i32.to_be_bytes(), &2i32.to_be_bytes()]),
            array(25, &[b"x", b"a text that is longer than twelve"]),
            (-5i32).to_be_bytes().to_vec(),
            86_400_000_000i64.to_be_bytes().to_vec(),
            i64::MAX.to_be_bytes().to_vec(),
            numeric.to_vec(),
            numeric.to_vec(),
            1e300f64.to_be_bytes().to_vec(),
            vec![0xC3],
            array(25, &[b"\"q\"", b"\n"]),
            array(1700, &[numeric]),
        ];
        fields.iter().flat_map(|f| (f.len() as u32).to_be_bytes().into_iter().chain(f.iter().copied())).collect()
    }

    #[test]
    fn a_good_row_is_decoded() {
        let mut frame = vec![b'd'];
        let fields = good();
        frame.extend_from_slice(&(fields.len() as u32 + 6).to_be_bytes());
        frame.extend_from_slice(&23u16.to_be_bytes());
        frame.extend_from_slice(&fields);
        let mut decoder = CopyDecoder::new("t", &columns(), Form::Typed, OnLossy::Error);
        let mut rows = 0;
        let raw = Raw { bytes: [&frame[..], &frame[..]].concat().into(), ..Raw::default() };
        decoder
            .decode(raw, &mut haul_model::Strict::default(), &mut |r, _| {
                rows += r.batch.num_rows();
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, 2);
    }

    #[test]
    fn mutated_rows_never_panic() {
        let good = good();
        copy_fields(&good);
        copy_decoder(&good);
        for cut in 0..good.len() {
            copy_fields(&good[..cut]);
        }
        // A small generator: the same mutations on every run.
        let mut state = 0x2545_F491_4F6C_DD1Du64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for _ in 0..4000 {
            let mut data = good.clone();
            for _ in 0..1 + next(4) {
                let at = next(data.len());
                data[at] = [0, 1, 0x7F, 0x80, 0xFF, 0xC3][next(6)];
            }
            copy_fields(&data);
        }
    }
}
