//! Columns as Haul's other parts see them: strings and bytes as views over the buffers they came in.

use super::batches::{map_children, map_type};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use haul_model::{Error, Result};
use std::sync::Arc;

/// The schema with strings and bytes as views, dictionaries unpacked.
pub(super) fn viewed_schema(schema: &Schema) -> Schema {
    let viewed = |leaf: &DataType| match leaf {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    };
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_data_type(map_type(field.data_type(), &viewed)));
    Schema::new_with_metadata(fields.collect::<Vec<Field>>(), schema.metadata().clone())
}

/// The batch in the types of `schema`, made by [`viewed_schema`].
pub(super) fn viewed_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(viewed_array).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| Error::internal(error.to_string()))
}

fn viewed_array(array: &ArrayRef) -> Result<ArrayRef> {
    map_children(array, &|leaf| {
        Ok(match leaf.data_type() {
            DataType::Utf8 => Arc::new(StringViewArray::from(leaf.as_string::<i32>())),
            DataType::LargeUtf8 => Arc::new(StringViewArray::from(leaf.as_string::<i64>())),
            DataType::Binary => Arc::new(BinaryViewArray::from(leaf.as_binary::<i32>())),
            DataType::LargeBinary => Arc::new(BinaryViewArray::from(leaf.as_binary::<i64>())),
            _ => leaf.clone(),
        })
    })
}
