//! Whether a dictionary is worth its work: how many of a column's values are different ones.
//!
//! A dictionary of values that hardly repeat takes longer to build than everything else about its column, and saves nothing. How many
//! differ is estimated by linear counting (Whang, Vander-Zanden, Taylor 1990): each value sets a bit that its hash names, and the share of
//! bits that stay clear tells the number.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use haul_model::digest::hash_bytes;

/// Bits of a sketch: enough for the rows of a row group.
const BITS: usize = 1 << 17;
/// Of fewer values than this nothing is concluded.
const FEWEST: usize = 8_192;

/// What is known of the values of one column.
pub(super) struct Sketch {
    bits: Vec<u64>,
    values: usize,
}

impl Sketch {
    /// For a column of this type; `None` where its dictionary stays in any case.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        let counted = data_type.primitive_width().is_some()
            || matches!(
                data_type,
                T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_)
            );
        counted.then(|| Self { bits: vec![0; BITS / 64], values: 0 })
    }

    /// Takes more values in.
    pub(super) fn add(&mut self, array: &ArrayRef) {
        self.values += array.len() - array.null_count();
        match array.data_type() {
            DataType::Utf8 => self.count(array.as_string::<i32>().iter().flatten().map(str::as_bytes)),
            DataType::LargeUtf8 => self.count(array.as_string::<i64>().iter().flatten().map(str::as_bytes)),
            DataType::Utf8View => self.count(array.as_string_view().iter().flatten().map(str::as_bytes)),
            DataType::Binary => self.count(array.as_binary::<i32>().iter().flatten()),
            DataType::LargeBinary => self.count(array.as_binary::<i64>().iter().flatten()),
            DataType::BinaryView => self.count(array.as_binary_view().iter().flatten()),
            DataType::FixedSizeBinary(_) => self.count(array.as_fixed_size_binary().iter().flatten()),
            other => {
                let Some(width) = other.primitive_width() else { return };
                let data = array.to_data();
                let Some(buffer) = data.buffers().first() else { return };
                let bytes = &buffer.as_slice()[data.offset() * width..][..data.len() * width];
                // Slots without a value hold some number too: at most one more of them.
                self.count(bytes.chunks_exact(width));
            }
        }
    }

    fn count<'a>(&mut self, values: impl Iterator<Item = &'a [u8]>) {
        values.for_each(|value| self.set(hash_bytes(value)));
    }

    fn set(&mut self, hash: u64) {
        let bit = (hash >> 47) as usize;
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Whether more than half of the values are different ones.
    pub(super) fn hardly_repeats(&self) -> bool {
        let clear: usize = self.bits.iter().map(|word| word.count_zeros() as usize).sum();
        let distinct = match clear {
            0 => f64::INFINITY,
            clear => -(BITS as f64) * (clear as f64 / BITS as f64).ln(),
        };
        self.values >= FEWEST && distinct > self.values as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::*;
    use std::sync::Arc;

    fn repeats(array: impl Array + 'static) -> bool {
        let array: ArrayRef = Arc::new(array);
        let mut sketch = Sketch::of(array.data_type()).unwrap();
        sketch.add(&array.slice(0, 1000));
        sketch.add(&array.slice(1000, array.len() - 1000));
        !sketch.hardly_repeats()
    }

    #[test]
    fn unique_values_are_told_from_repeated_ones() {
        let n = 60_000_i64;
        assert!(!repeats(Int64Array::from_iter_values(0..n)));
        assert!(!repeats(Int32Array::from_iter_values((0..n).map(|i| i as i32 * 7))));
        assert!(!repeats(Decimal128Array::from_iter_values((0..n).map(|i| i128::from(i) * 99))));
        assert!(!repeats(StringViewArray::from_iter_values((0..n).map(|i| format!("a comment, number {i}")))));
        assert!(!repeats(StringArray::from_iter_values((0..n).map(|i| i.to_string()))));
        assert!(!repeats(Float64Array::from_iter_values((0..n).map(|i| i as f64 / 3.0))));
        for distinct in [1, 2000, n / 3] {
            assert!(repeats(Int64Array::from_iter_values((0..n).map(|i| i % distinct))), "{distinct}");
            assert!(repeats(StringArray::from_iter_values((0..n).map(|i| format!("clerk {}", i % distinct)))), "{distinct}");
        }
        assert!(repeats(Int32Array::from_iter((0..n as i32).map(|i| (i % 100 == 0).then_some(i)))), "too few values to tell");
    }

    #[test]
    fn more_values_than_bits_are_many() {
        let mut sketch = Sketch::of(&DataType::Int64).unwrap();
        sketch.add(&(Arc::new(Int64Array::from_iter_values(0..2_000_000)) as ArrayRef));
        assert!(sketch.hardly_repeats());
        assert!(Sketch::of(&DataType::Boolean).is_none());
    }
}
