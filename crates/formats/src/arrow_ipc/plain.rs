//! Columns in the types that every reader of Arrow files knows: plain strings and bytes instead of views, plain
//! values instead of dictionaries.

use super::batches::{map_children, map_type};
use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use haul_model::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The field in its plain type, children included.
pub(crate) fn plain_field(field: &Field) -> Field {
    field.clone().with_data_type(plain_type(field.data_type()))
}

/// The plain type, children included.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    map_type(data_type, &|leaf| match leaf {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    })
}

/// The array in its plain type.
///
/// # Errors
/// `Limit` for more than 2 GiB of text in one batch.
pub(super) fn plain_array(array: &ArrayRef) -> Result<ArrayRef> {
    map_children(array, &|leaf| match leaf.data_type() {
        DataType::Utf8View => {
            let views = leaf.as_string_view();
            let mut plain = StringBuilder::with_capacity(views.len(), below_2_gib(slice_bytes(leaf))?);
            views.iter().for_each(|value| plain.append_option(value));
            Ok(Arc::new(plain.finish()))
        }
        DataType::BinaryView => {
            let views = leaf.as_binary_view();
            let mut plain = BinaryBuilder::with_capacity(views.len(), below_2_gib(slice_bytes(leaf))?);
            views.iter().for_each(|value| plain.append_option(value));
            Ok(Arc::new(plain.finish()))
        }
        _ => Ok(leaf.clone()),
    })
}

fn below_2_gib(bytes: usize) -> Result<usize> {
    if i32::try_from(bytes).is_err() {
        return Err(Error::new(ErrorKind::Limit, "more than 2 GiB of text in one batch").hint("read smaller batches: --batch-rows"));
    }
    Ok(bytes)
}

/// Whether two types hold the same values: they differ at most in views, offsets' width and names of children.
pub(crate) fn same_values(a: &DataType, b: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeUtf8, List, Map, Struct, Utf8, Utf8View};
    let same_child = |a: &Field, b: &Field| a.is_nullable() == b.is_nullable() && same_values(a.data_type(), b.data_type());
    match (a, b) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (List(a), List(b)) | (LargeList(a), LargeList(b)) | (Map(a, _), Map(b, _)) => same_child(a, b),
        (FixedSizeList(a, m), FixedSizeList(b, n)) => m == n && same_child(a, b),
        (Struct(a), Struct(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_child(a, b)),
        _ => a == b,
    }
}

/// Bytes of the values in an array, whatever larger buffers they are slices of.
pub(crate) fn slice_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.len() * 4 + array.as_string_view().lengths().map(|length| length as usize).sum::<usize>(),
        DataType::BinaryView => array.len() * 4 + array.as_binary_view().lengths().map(|length| length as usize).sum::<usize>(),
        DataType::Struct(_) => array.as_struct().columns().iter().map(slice_bytes).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, to) = (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
            array.len() * 4 + slice_bytes(&list.values().slice(from, to - from))
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    }
}
