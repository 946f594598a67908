//! Rows into folders by the values of columns: `country=DE/day=2024-01-01/`, as Hive, Spark, DuckDB and pyarrow name them.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use haul_formats::literal::{print_bool, print_date, print_decimal, print_i64, print_timestamp, print_u64};
use haul_model::{Error, ErrorKind, Result, Rows, nearest};
use std::collections::HashMap;
use std::sync::Arc;

/// The folder name for NULL.
pub const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Which columns name the folders, and what is left for the files.
#[derive(Debug, Clone)]
pub struct PartitionBy {
    columns: Vec<(usize, String)>,
    kept: Vec<usize>,
    files: SchemaRef,
}

impl PartitionBy {
    /// Partitions by `names`.
    ///
    /// # Errors
    /// `NotFound`; a type that has no one text; a set that would have no column left.
    pub fn new(names: &[String], schema: &Schema) -> Result<Self> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let index = schema.index_of(name).map_err(|_| {
                let error = Error::new(ErrorKind::NotFound, "no such column to partition by").column(name);
                match nearest(name, schema.fields().iter().map(|f| f.name().as_str())) {
                    Some(near) => error.hint(format!("did you mean {near:?}?")),
                    None => error,
                }
            })?;
            let data_type = schema.field(index).data_type();
            if !has_one_text(data_type) {
                return Err(Error::new(ErrorKind::Unsupported, format!("a column of the type {data_type} cannot name folders"))
                    .column(name)
                    .hint("partition by text, whole numbers, booleans, dates, timestamps or decimals"));
            }
            columns.push((index, escaped(name)));
        }
        let kept: Vec<usize> = (0..schema.fields().len()).filter(|index| !columns.iter().any(|(column, _)| column == index)).collect();
        if kept.is_empty() {
            return Err(Error::new(ErrorKind::Config, "partition_by names every column, so that none is left for the files"));
        }
        let files = schema.project(&kept).map_err(|e| Error::internal(e.to_string()))?;
        Ok(Self { columns, kept, files: Arc::new(files) })
    }

    /// The columns of the files.
    pub fn files(&self) -> &SchemaRef {
        &self.files
    }

    /// Whether a column names folders.
    pub fn is_folder(&self, index: usize) -> bool {
        self.columns.iter().any(|(column, _)| *column == index)
    }

    /// The rows by folder, each folder's in their order.
    ///
    /// # Errors
    /// `Internal`.
    pub fn split(&self, rows: &Rows) -> Result<Vec<(Arc<str>, Rows)>> {
        let batch = &rows.batch;
        let mut groups: Vec<(Arc<str>, Vec<u32>)> = Vec::new();
        let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut folder, mut last, mut group) = (Vec::new(), Vec::new(), 0);
        let mut value = Vec::new();
        for row in 0..batch.num_rows() {
            folder.clear();
            for (column, name) in &self.columns {
                folder.extend_from_slice(name.as_bytes());
                folder.push(b'=');
                push_value(batch.column(*column).as_ref(), row, &mut value, &mut folder);
                folder.push(b'/');
            }
            // Rows come in runs more often than not.
            if row == 0 || folder != last {
                group = match known.get(&folder) {
                    Some(group) => *group,
                    None => {
                        groups.push((String::from_utf8_lossy(&folder).into(), Vec::new()));
                        known.insert(folder.clone(), groups.len() - 1);
                        groups.len() - 1
                    }
                };
                std::mem::swap(&mut folder, &mut last);
            }
            groups[group].1.push(row as u32);
        }
        let batch = batch.project(&self.kept).map_err(|e| Error::internal(e.to_string()))?;
        groups.into_iter().map(|(folder, indices)| Ok((folder, pick(rows, &batch, indices)?))).collect()
    }
}

/// The rows of `batch` at `indices`.
fn pick(rows: &Rows, batch: &RecordBatch, indices: Vec<u32>) -> Result<Rows> {
    if indices.len() == batch.num_rows() {
        return Ok(Rows { batch: batch.clone(), ..rows.clone() });
    }
    let selection = indices.iter().map(|row| rows.record_of(*row as usize) as u32).collect();
    let indices = UInt32Array::from(indices);
    let batch = arrow_select::take::take_record_batch(batch, &indices).map_err(|e| Error::internal(e.to_string()))?;
    Ok(Rows { batch, origin: rows.origin.clone(), first_record: rows.first_record, selection: Some(Arc::new(selection)) })
}

fn has_one_text(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Boolean
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Decimal128(..)
        )
}

fn push_value(array: &dyn Array, row: usize, value: &mut Vec<u8>, out: &mut Vec<u8>) {
    if array.is_null(row) {
        out.extend_from_slice(NULL.as_bytes());
        return;
    }
    value.clear();
    match array.data_type() {
        DataType::Utf8 => value.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => value.extend_from_slice(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => value.extend_from_slice(array.as_string_view().value(row).as_bytes()),
        DataType::Boolean => print_bool(value, array.as_boolean().value(row)),
        DataType::Int8 => print_i64(value, array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => print_i64(value, array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => print_i64(value, array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => print_i64(value, array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => print_u64(value, array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => print_u64(value, array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => print_u64(value, array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => print_u64(value, array.as_primitive::<UInt64Type>().value(row)),
        DataType::Date32 => print_date(value, array.as_primitive::<Date32Type>().value(row)),
        DataType::Decimal128(_, scale) => print_decimal(value, array.as_primitive::<Decimal128Type>().value(row), *scale),
        DataType::Timestamp(unit, zone) => {
            let at = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
            };
            print_timestamp(value, at, *unit, zone.is_some());
        }
        _ => {}
    }
    push_escaped(value, out);
}

/// What a path must not hold, as `%2F`. A value that is spelled like Hive's word for NULL keeps apart from it.
fn push_escaped(value: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let odd = |byte: u8| byte < 0x20 || byte == 0x7f || b"\"#%'*/:=?\\{[]^ ".contains(&byte);
    let special = value == NULL.as_bytes() || value == b"." || value == b"..";
    for (at, byte) in value.iter().enumerate() {
        if odd(*byte) || special && at == 0 {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(*byte);
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    push_escaped(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Date32Array, Int64Array, StringViewArray};

    #[test]
    fn rows_go_by_their_values() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("c", Arc::new(StringViewArray::from(vec![Some("DE"), Some("a/b"), None, Some("DE"), Some("")]))),
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
            ("d", Arc::new(Date32Array::from(vec![0, 0, 0, 0, -1]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let by = PartitionBy::new(&["c".into(), "d".into()], &batch.schema()).unwrap();
        let split = by.split(&Rows::new(batch, 10)).unwrap();
        let found: Vec<_> =
            split.iter().map(|(f, r)| (f.as_ref(), r.batch.column(0).as_primitive::<Int64Type>().values().to_vec())).collect();
        let expected = [
            ("c=DE/d=1970-01-01/", vec![1, 4]),
            ("c=a%2Fb/d=1970-01-01/", vec![2]),
            ("c=__HIVE_DEFAULT_PARTITION__/d=1970-01-01/", vec![3]),
            ("c=/d=1969-12-31/", vec![5]),
        ];
        assert_eq!(found, expected);
        assert_eq!(split[0].1.record_of(1), 3);
        assert_eq!(
            crate::file::shape::hive_columns("c=a%2Fb/d=1970-01-01/x"),
            [("c".into(), Some("a/b".into())), ("d".into(), Some("1970-01-01".into()))]
        );
    }

    #[test]
    fn what_cannot_name_a_folder() {
        let schema = Schema::new(vec![
            arrow_schema::Field::new("f", DataType::Float64, true),
            arrow_schema::Field::new("id", DataType::Int64, true),
        ]);
        let told = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_string()).collect();
            PartitionBy::new(&names, &schema).unwrap_err().to_string()
        };
        assert!(told(&["f"]).contains("cannot name folders"));
        assert!(told(&["ib"]).contains("no such column"));
        let one = Schema::new(vec![arrow_schema::Field::new("id", DataType::Int64, true)]);
        assert!(PartitionBy::new(&["id".into()], &one).unwrap_err().to_string().contains("every column"));
    }
}
