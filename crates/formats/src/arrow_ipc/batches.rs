//! Rebuilding nested types and arrays with other leaves.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, MapArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use haul_model::{Error, Result};
use std::sync::Arc;

/// The type with `change` applied to its leaves; dictionaries count as their values.
pub(super) fn map_type(data_type: &DataType, change: &dyn Fn(&DataType) -> DataType) -> DataType {
    let child = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(map_type(field.data_type(), change)));
    match data_type {
        DataType::List(item) => DataType::List(child(item)),
        DataType::LargeList(item) => DataType::LargeList(child(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(child(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(child(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(child).collect()),
        DataType::Dictionary(_, value) => map_type(value, change),
        leaf => change(leaf),
    }
}

/// The array with `change` applied to its leaves; dictionaries are unpacked first.
pub(super) fn map_children(array: &ArrayRef, change: &dyn Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let retyped =
        |field: &FieldRef, array: &ArrayRef| -> FieldRef { Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone())) };
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Struct(fields) => Arc::new(map_struct(array.as_struct(), fields, change)?),
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = map_children(list.values(), change)?;
            Arc::new(ListArray::try_new(retyped(item, &values), list.offsets().clone(), values, nulls).map_err(internal)?)
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            let values = map_children(list.values(), change)?;
            Arc::new(LargeListArray::try_new(retyped(item, &values), list.offsets().clone(), values, nulls).map_err(internal)?)
        }
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let values = map_children(list.values(), change)?;
            let rebuilt = FixedSizeListArray::try_new_with_length(retyped(item, &values), *size, values, nulls, list.len());
            Arc::new(rebuilt.map_err(internal)?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let DataType::Struct(pair) = entries.data_type() else { return Ok(array.clone()) };
            let values = map_struct(map.entries(), pair, change)?;
            let field = Arc::new(entries.as_ref().clone().with_data_type(values.data_type().clone()));
            Arc::new(MapArray::try_new(field, map.offsets().clone(), values, nulls, *sorted).map_err(internal)?)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None).map_err(internal)?;
            map_children(&values, change)?
        }
        _ => change(array)?,
    })
}

fn map_struct(array: &StructArray, fields: &Fields, change: &dyn Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<StructArray> {
    let columns = array.columns().iter().map(|column| map_children(column, change)).collect::<Result<Vec<_>>>()?;
    let fields: Vec<Field> =
        fields.iter().zip(&columns).map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone())).collect();
    StructArray::try_new_with_length(fields.into(), columns, array.nulls().cloned(), array.len()).map_err(internal)
}

fn internal(error: ArrowError) -> Error {
    Error::internal(format!("a nested column cannot be rebuilt: {error}"))
}
