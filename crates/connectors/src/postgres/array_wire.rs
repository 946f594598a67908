//! The binary form of arrays (`array_send`): i32 dimensions, i32 has-nulls, u32 element OID, then per dimension
//! i32 length and i32 lower bound, then the elements, each with an i32 length (-1 = NULL).

/// The server's own limit.
pub(super) const MAX_DIMENSIONS: usize = 6;

/// A binary array, its elements not yet read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayWire<'a> {
    /// Number of dimensions; 0 = empty.
    pub dimensions: usize,
    /// Length of each dimension.
    pub lengths: [usize; MAX_DIMENSIONS],
    /// Whether any lower bound is not 1.
    pub shifted: bool,
    elements: &'a [u8],
}

impl<'a> ArrayWire<'a> {
    /// Reads the header. `None` when it is malformed or promises more elements than bytes are there.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_first_chunk::<12>()?;
        let dimensions = usize::try_from(i32_at(head, 0)?).ok().filter(|n| *n <= MAX_DIMENSIONS)?;
        let (mut lengths, mut shifted, mut total) = ([0; MAX_DIMENSIONS], false, usize::from(dimensions > 0));
        for length in lengths.iter_mut().take(dimensions) {
            let (dimension, after) = rest.split_first_chunk::<8>()?;
            *length = usize::try_from(i32_at(dimension, 0)?).ok()?;
            shifted |= i32_at(dimension, 4)? != 1;
            total = total.checked_mul(*length)?;
            rest = after;
        }
        (total <= rest.len() / 4).then_some(Self { dimensions, lengths, shifted, elements: rest })
    }

    /// The elements in order (`None` = NULL), each with its offset behind the header's start.
    pub fn elements(&self) -> Elements<'a> {
        Elements { rest: self.elements }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        if self.dimensions == 0 { 0 } else { self.lengths[..self.dimensions].iter().product() }
    }
}

/// Iterator over the elements of an array; an `Err` item is a malformed length.
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next element. The outer `None` = malformed or the end.
    pub fn next_value(&mut self) -> Option<Option<&'a [u8]>> {
        let (value, rest) = field(self.rest)?;
        self.rest = rest;
        Some(value)
    }
}

/// A length-prefixed value at the front: (`None` = NULL, what follows). `None` when it is cut or the length is impossible.
pub(super) fn field(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    match i32::from_be_bytes(*length) {
        -1 => Some((None, rest)),
        length => {
            let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(value), rest))
        }
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}
