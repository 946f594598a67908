//! Checksums of rows that do not depend on their order, nor on how they are cut into chunks.
//!
//! Every value has a 64-bit hash, every row one that is made of its values' in column order. A [`Sums`] adds both up, modulo 2^64: one sum for
//! each column, one for the rows, beside counts of rows and of NULLs. Sums of parts add up to the sum of the whole, so they are taken chunk
//! by chunk on any number of threads, and what a failed try added is taken back by leaving its sums away.
//!
//! What they can miss: values that differ are hashed alike with a chance of 2^-64, and a set of errors cancels out in a column's sum with the
//! same chance; to stay unseen it must also cancel out in the sum of rows, which tells when values have only changed places between rows.
//! The hash has no key and is no protection against someone who wants to be unseen. The order of rows is not looked at.

use crate::{Raw, Result};

/// The hash of NULL.
pub const NULL_HASH: u64 = 0x9ae1_6a3b_2f90_404f;

const ONE: u64 = 0xa076_1d64_78bd_642f;
const TWO: u64 = 0xe703_7ed1_a0b4_28db;
const THREE: u64 = 0x8ebc_6af0_9c88_c6e3;

/// Both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The finish of splitmix64: a bijection, so that different words never have the same hash.
#[inline(always)]
pub fn hash_word(word: u64) -> u64 {
    let mut x = word ^ ONE;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Of 128 bits.
#[inline(always)]
pub fn hash_wide(value: u128) -> u64 {
    hash_word(fold(value as u64 ^ TWO, (value >> 64) as u64 ^ THREE) ^ (value as u64).rotate_left(32))
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |chunk| u64::from(u32::from_le_bytes(*chunk)))
}

/// Of a string of bytes: 16 at a time by folded multiplication (as in wyhash), the length mixed in, then finished as a word.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut hash = THREE ^ length as u64;
    let (a, b) = match length {
        0 => (0, 0),
        1..4 => (u64::from(bytes[0]) << 16 | u64::from(bytes[length / 2]) << 8 | u64::from(bytes[length - 1]), 0),
        4..8 => (half(bytes, 0), half(bytes, length - 4)),
        8..=16 => (word(bytes, 0), word(bytes, length - 8)),
        _ => {
            let mut at = 0;
            while at + 16 < length {
                hash = fold(word(bytes, at) ^ ONE, word(bytes, at + 8) ^ hash).wrapping_add(at as u64);
                at += 16;
            }
            (word(bytes, length - 16), word(bytes, length - 8))
        }
    };
    hash_word(fold(a ^ TWO ^ hash, b ^ THREE).wrapping_add(hash) ^ a.rotate_left(23))
}

/// `hash` joined to what came before it: depends on the order.
#[inline(always)]
pub fn join(before: u64, hash: u64) -> u64 {
    (before.rotate_left(23) ^ hash).wrapping_mul(TWO | 1).wrapping_add(hash >> 29)
}

/// The hashes of a chunk's values, column by column: buffers that are used again for chunk after chunk.
#[derive(Debug, Clone, Default)]
pub struct Hashes {
    /// Rows in it. Each column has as many hashes.
    pub rows: usize,
    /// For each column, a hash for each row; [`NULL_HASH`] for NULL.
    pub columns: Vec<Vec<u64>>,
    /// A column of integers whose values are wanted too.
    pub number: Option<usize>,
    /// Its values, one for each row; [`NO_NUMBER`] for NULL and for what is no integer of 64 bits.
    pub numbers: Vec<i64>,
    row: Vec<u64>,
}

/// In place of a number that is not there.
pub const NO_NUMBER: i64 = i64::MIN;

impl Hashes {
    /// For so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns: vec![Vec::new(); columns], ..Self::default() }
    }

    /// The same, and the numbers of one column.
    pub fn with_number(self, number: Option<usize>) -> Self {
        Self { number, ..self }
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.numbers.clear();
        self.columns.iter_mut().for_each(Vec::clear);
    }

    /// A hash for each row, of all its values in the order of the columns.
    pub fn rows(&mut self) -> &[u64] {
        self.row.clear();
        self.row.resize(self.rows, ONE);
        for column in &self.columns {
            for (row, hash) in self.row.iter_mut().zip(column) {
                *row = join(*row, *hash);
            }
        }
        self.row.iter_mut().for_each(|row| *row = hash_word(*row));
        &self.row
    }

    /// What [`Hashes::rows`] gave last.
    pub fn last_rows(&self) -> &[u64] {
        &self.row
    }

    /// As [`Hashes::rows`], over some of the columns.
    pub fn rows_of(&self, columns: &[usize], out: &mut Vec<u64>) {
        out.clear();
        out.resize(self.rows, TWO);
        for column in columns.iter().filter_map(|column| self.columns.get(*column)) {
            for (row, hash) in out.iter_mut().zip(column) {
                *row = join(*row, *hash);
            }
        }
        out.iter_mut().for_each(|row| *row = hash_word(*row));
    }
}

/// Of one column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnSum {
    /// Of the values' hashes.
    pub sum: u64,
    /// NULLs.
    pub nulls: u64,
}

/// Of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many.
    pub rows: u64,
    /// Of the rows' hashes.
    pub sum: u64,
    /// Column by column; empty where rows were only counted.
    pub columns: Vec<ColumnSum>,
}

impl Sums {
    /// Adds the rows of a chunk.
    pub fn add(&mut self, hashes: &mut Hashes) {
        hashes.rows();
        self.add_summed(hashes);
    }

    /// As [`Sums::add`], where [`Hashes::rows`] was asked already.
    pub fn add_summed(&mut self, hashes: &Hashes) {
        self.rows += hashes.rows as u64;
        self.columns.resize(hashes.columns.len(), ColumnSum::default());
        for (sum, column) in self.columns.iter_mut().zip(&hashes.columns) {
            sum.sum = column.iter().fold(sum.sum, |sum, hash| sum.wrapping_add(*hash));
            sum.nulls += column.iter().map(|hash| u64::from(*hash == NULL_HASH)).sum::<u64>();
        }
        self.sum = hashes.last_rows().iter().fold(self.sum, |sum, row| sum.wrapping_add(*row));
    }

    /// Adds other rows.
    pub fn merge(&mut self, more: &Self) {
        self.combine(more, u64::wrapping_add);
    }

    /// Takes rows away that are in it.
    pub fn take(&mut self, less: &Self) {
        self.combine(less, u64::wrapping_sub);
    }

    fn combine(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        self.rows = with(self.rows, other.rows);
        self.sum = with(self.sum, other.sum);
        self.columns.resize(self.columns.len().max(other.columns.len()), ColumnSum::default());
        for (one, other) in self.columns.iter_mut().zip(&other.columns) {
            one.sum = with(one.sum, other.sum);
            one.nulls = with(one.nulls, other.nulls);
        }
    }
}

/// Hashes the values of raw records without decoding them: each by its bytes, as they stand in the encoding. Two sides that are read in the
/// same encoding are compared by it. One per worker.
pub trait Digester: Send {
    /// Puts the hashes of a chunk's rows in place of what `out` holds.
    ///
    /// # Errors
    /// `Protocol`: not whole records of this encoding.
    fn digest(&mut self, raw: &Raw, out: &mut Hashes) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(rows: &[[Option<&str>; 2]]) -> Hashes {
        let mut out = Hashes::new(2);
        out.rows = rows.len();
        for row in rows {
            for (column, value) in out.columns.iter_mut().zip(row) {
                column.push(value.map_or(NULL_HASH, |v| hash_bytes(v.as_bytes())));
            }
        }
        out
    }

    fn sums(rows: &[[Option<&str>; 2]]) -> Sums {
        let mut sums = Sums::default();
        sums.add(&mut hashes(rows));
        sums
    }

    #[test]
    fn bytes_of_every_length_have_hashes_of_their_own() {
        let text: Vec<u8> = (0..200u8).collect();
        let mut seen = std::collections::HashSet::new();
        for length in 0..text.len() {
            assert!(seen.insert(hash_bytes(&text[..length])), "{length}");
            for at in 0..length {
                for bit in 0..8 {
                    let mut flipped = text[..length].to_vec();
                    flipped[at] ^= 1 << bit;
                    assert!(seen.insert(hash_bytes(&flipped)), "bit {bit} of byte {at} of {length}");
                }
            }
        }
        assert!(seen.insert(hash_bytes(&[0; 3])) && seen.insert(hash_bytes(&[0; 20])) && seen.insert(hash_bytes(&[0; 21])));
        assert!(!seen.contains(&NULL_HASH));
    }

    #[test]
    fn the_order_of_rows_and_chunks_does_not_matter_and_everything_else_does() {
        let (a, b, c) = ([Some("1"), Some("x")], [Some("2"), None], [Some("3"), Some("")]);
        let whole = sums(&[a, b, c]);
        assert_eq!(whole, sums(&[c, a, b]));
        let mut parts = sums(&[c]);
        parts.merge(&sums(&[a, b]));
        assert_eq!(whole, parts);
        parts.take(&sums(&[b]));
        assert_eq!(parts, sums(&[a, c]));
        assert_eq!(whole.columns[1].nulls, 1);
        for other in [&[a, b][..], &[a, b, c, c], &[a, a, c], &[a, b, [Some("3"), None]], &[[Some("1"), Some("y")], b, c]] {
            assert_ne!(whole, sums(other), "{other:?}");
        }
        // The same values in each column, in other rows.
        let swapped = sums(&[[Some("1"), None], [Some("2"), Some("x")], c]);
        assert_eq!(whole.columns, swapped.columns);
        assert_ne!(whole, swapped);
    }
}
