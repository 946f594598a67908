//! The crate's only `unsafe` code: byte classification in vector registers, each kernel with a portable twin, and string
//! views over checked text. Everything here is safe to call.

use arrow_array::StringViewArray;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use haul_model::{Error, Result};

// --- JSON strings -----------------------------------------------------------------------------------------

/// What is in 16 bytes of a JSON string, one bit per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StringBits {
    /// A quote, a backslash or a control character.
    pub special: u32,
    /// A byte of a character outside ASCII.
    pub wide: u32,
}

/// Classifies 16 bytes of a JSON string.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn string_bits(chunk: &[u8; 16]) -> StringBits {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: SSE2 is part of every x86_64 target, and the unaligned load reads the 16 bytes that `chunk` borrows.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        StringBits {
            special: _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash))) as u32,
            wide: _mm_movemask_epi8(bytes) as u32,
        }
    }
}

/// Classifies 16 bytes of a JSON string.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn string_bits(chunk: &[u8; 16]) -> StringBits {
    string_bits_portable(chunk)
}

/// [`string_bits`] without vector registers: eight bytes at a time in a general one.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn string_bits_portable(chunk: &[u8; 16]) -> StringBits {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    // The high bit of each zero byte; exact, no carry crosses a byte.
    let zero = |x: u64| !(((x & !HIGH) + !HIGH) | x) & HIGH;
    // Moves the eight high bits down into one byte, first byte lowest.
    let gather = |x: u64| ((x >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    let (mut special, mut wide) = (0, 0);
    for half in 0..2 {
        let mut word = [0; 8];
        word.copy_from_slice(&chunk[half * 8..half * 8 + 8]);
        let word = u64::from_le_bytes(word);
        let found = zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c)) | zero(word & (ONES * 0xe0));
        special |= gather(found) << (half * 8);
        wide |= gather(word & HIGH) << (half * 8);
    }
    StringBits { special, wide }
}

// --- CSV structure -----------------------------------------------------------------------------------------

/// Bytes that one mask word stands for.
pub(crate) const BLOCK: usize = 64;

/// Which bytes of a 64-byte block equal which needle; bit `i` = byte `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Masks<const N: usize> {
    /// One word per needle.
    pub hits: [u64; N],
    /// Inclusive prefix XOR of the first needle's word: bit `i` = parity of its hits in bytes `0..=i`.
    pub parity: u64,
}

impl<const N: usize> Masks<N> {
    /// No hits.
    pub(crate) const NONE: Self = Self { hits: [0; N], parity: 0 };
}

/// Compares each byte of `bytes` with each of the needles. `bytes` holds exactly `out.len()` blocks. Looks at the CPU once a
/// call (a cached flag): hand it kilobytes at a time.
pub(crate) fn classify<const N: usize>(bytes: &[u8], needles: &[u8; N], out: &mut [Masks<N>]) {
    assert_eq!(bytes.len(), out.len() * BLOCK, "whole blocks");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: both features were found on this CPU just now.
        unsafe { x86::classify(bytes, needles, out) };
        return;
    }
    classify_portable(bytes, needles, out);
}

/// [`classify`] without vector instructions.
pub(crate) fn classify_portable<const N: usize>(bytes: &[u8], needles: &[u8; N], out: &mut [Masks<N>]) {
    for (block, masks) in bytes.as_chunks::<BLOCK>().0.iter().zip(out) {
        for (hits, &needle) in masks.hits.iter_mut().zip(needles) {
            *hits = equal_mask(block, needle);
        }
        masks.parity = prefix_xor(masks.hits[0]);
    }
}

/// One bit for each byte of `block` that is `needle`. Needs no look at the CPU.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn bytes_equal(block: &[u8; BLOCK], needle: u8) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let mut mask = 0;
    for (i, chunk) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: SSE2 is part of every x86_64 target, and the unaligned load reads the 16 bytes that `chunk` borrows.
        let bits = unsafe {
            let bytes = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(needle.cast_signed())))
        };
        mask |= u64::from(bits.cast_unsigned()) << (i * 16);
    }
    mask
}

/// One bit for each byte of `block` that is `needle`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn bytes_equal(block: &[u8; BLOCK], needle: u8) -> u64 {
    equal_mask(block, needle)
}

fn equal_mask(block: &[u8; BLOCK], needle: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let spread = u64::from(needle) * 0x0101_0101_0101_0101;
    let mut mask = 0;
    for (i, word) in block.as_chunks::<8>().0.iter().enumerate() {
        let x = u64::from_le_bytes(*word) ^ spread;
        let zero = !(((x & LOW) + LOW) | x | LOW);
        mask |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (i * 8);
    }
    mask
}

/// Inclusive prefix XOR: bit `i` of the result is the parity of bits `0..=i`.
pub(crate) fn prefix_xor(mut x: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        x ^= x << shift;
    }
    x
}

/// Whether any of four bytes occurs in `text`.
pub(crate) fn has_any(text: &[u8], needles: &[u8; 4]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if text.len() >= 32 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was found on this CPU just now, and `text` holds at least one vector.
        return unsafe { x86::has_any(text, needles) };
    }
    has_any_portable(text, needles)
}

/// [`has_any`] without vector instructions.
pub(crate) fn has_any_portable(text: &[u8], needles: &[u8; 4]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    words.iter().any(|word| word_has_any(u64::from_le_bytes(*word), needles)) || rest.iter().any(|b| needles.contains(b))
}

/// Whether any of four bytes occurs among the eight bytes of `word`.
#[inline]
pub(crate) fn word_has_any(word: u64, needles: &[u8; 4]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut found = 0;
    for &needle in needles {
        let x = word ^ (u64::from(needle) * ONES);
        found |= x.wrapping_sub(ONES) & !x;
    }
    found & HIGH != 0
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, Masks};
    use std::arch::x86_64::{
        __m256i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };

    /// Needs `bytes.len() == out.len() * BLOCK`.
    #[target_feature(enable = "avx2,pclmulqdq")]
    pub(super) fn classify<const N: usize>(bytes: &[u8], needles: &[u8; N], out: &mut [Masks<N>]) {
        let needles: [__m256i; N] = needles.map(|n| _mm256_set1_epi8(n.cast_signed()));
        for (block, masks) in bytes.as_chunks::<BLOCK>().0.iter().zip(out) {
            // SAFETY: a block is 64 readable bytes: two unaligned 32-byte loads.
            let (low, high) = unsafe { (_mm256_loadu_si256(block.as_ptr().cast()), _mm256_loadu_si256(block.as_ptr().add(32).cast())) };
            for (hits, &needle) in masks.hits.iter_mut().zip(&needles) {
                let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, needle)).cast_unsigned();
                let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, needle)).cast_unsigned();
                *hits = u64::from(low) | u64::from(high) << 32;
            }
            // A carry-less product with all ones adds up, without carries, all lower bits: the prefix XOR.
            let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, masks.hits[0].cast_signed()), _mm_set1_epi8(-1));
            masks.parity = _mm_cvtsi128_si64(product).cast_unsigned();
        }
    }

    /// Needs `text.len() >= 32`.
    #[target_feature(enable = "avx2")]
    pub(super) fn has_any(text: &[u8], needles: &[u8; 4]) -> bool {
        let needles: [__m256i; 4] = needles.map(|n| _mm256_set1_epi8(n.cast_signed()));
        let test = |at: usize| {
            let window = &text[at..at + 32];
            // SAFETY: `window` is 32 readable bytes.
            let v = unsafe { _mm256_loadu_si256(window.as_ptr().cast()) };
            let [a, b, c, d] = needles.map(|n| _mm256_cmpeq_epi8(v, n));
            _mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d))) != 0
        };
        let mut at = 0;
        while at + 32 <= text.len() {
            if test(at) {
                return true;
            }
            at += 32;
        }
        // The last vector overlaps the one before it.
        at < text.len() && test(text.len() - 32)
    }
}

// --- string views ------------------------------------------------------------------------------------------

/// Bytes that are known to be UTF-8: what string views may point into.
#[derive(Debug, Clone)]
pub(crate) struct TextBuffer(Buffer);

impl TextBuffer {
    /// Checks `bytes`; shares them, no copy.
    pub(crate) fn new(bytes: impl Into<Buffer>) -> std::result::Result<Self, simdutf8::basic::Utf8Error> {
        let buffer = bytes.into();
        simdutf8::basic::from_utf8(buffer.as_slice())?;
        Ok(Self(buffer))
    }
}

/// A string column from finished Arrow views into `buffers`. A NULL row's view must be valid too (0 is).
///
/// # Errors
/// `Internal` when a view does not point at whole characters of its buffer.
pub(crate) fn string_views(views: Vec<u128>, nulls: Option<NullBuffer>, buffers: &[TextBuffer]) -> Result<StringViewArray> {
    if let Some(at) = views.iter().position(|view| !view_is_text(*view, buffers)) {
        return Err(Error::internal(format!("string view {at} does not point at whole characters")));
    }
    if nulls.as_ref().is_some_and(|n| n.len() != views.len()) {
        return Err(Error::internal("validity and views differ in length"));
    }
    let buffers: Vec<Buffer> = buffers.iter().map(|b| b.0.clone()).collect();
    // SAFETY: each view was checked just now: an inline one holds UTF-8, any other lies inside a buffer that holds UTF-8 and
    // starts and ends at character borders; validity has one bit per view.
    Ok(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) })
}

/// Views into bytes of which only the values themselves are text: each one is checked.
///
/// # Errors
/// The number of the first view whose value is not UTF-8, or which is no view into `buffer` (padding and prefix included).
pub fn checked_string_views(views: Vec<u128>, nulls: Option<NullBuffer>, buffer: Buffer) -> std::result::Result<StringViewArray, usize> {
    if let Some(at) = views.iter().position(|view| !value_is_text(*view, buffer.as_slice())) {
        return Err(at);
    }
    if nulls.as_ref().is_some_and(|n| n.len() != views.len()) {
        return Err(views.len());
    }
    let buffers = if buffer.is_empty() { vec![] } else { vec![buffer] };
    // SAFETY: each view was checked just now: an inline one holds UTF-8 and zeros after it, any other names bytes of buffer 0
    // that are UTF-8, and their first four; validity has one bit per view.
    Ok(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) })
}

#[inline]
fn value_is_text(view: u128, buffer: &[u8]) -> bool {
    let length = view as u32 as usize;
    if length <= 12 {
        let bytes = view >> 32;
        return bytes & !KEEP[length] == 0 && (bytes & ASCII_12 == 0 || std::str::from_utf8(&bytes.to_le_bytes()[..length]).is_ok());
    }
    let from = (view >> 96) as usize;
    let Some(text) = buffer.get(from..from + length).filter(|_| (view >> 64) as u32 == 0) else { return false };
    text[..4] == ((view >> 32) as u32).to_le_bytes() && (is_short_ascii(text) || simdutf8::basic::from_utf8(text).is_ok())
}

/// Whether a text of 13 to 64 bytes is ASCII: most are, and the general check has no short way for so few bytes.
#[inline]
fn is_short_ascii(text: &[u8]) -> bool {
    let (words, _) = text.as_chunks::<8>();
    let Some(last) = text.last_chunk::<8>() else { return false };
    let all = words.iter().fold(u64::from_le_bytes(*last), |all, word| all | u64::from_le_bytes(*word));
    text.len() <= 64 && all & 0x8080_8080_8080_8080 == 0
}

/// The bits that no ASCII character of an inline view has.
const ASCII_12: u128 = 0x8080_8080_8080_8080_8080_8080;

#[inline]
fn view_is_text(view: u128, buffers: &[TextBuffer]) -> bool {
    let length = view as u32 as usize;
    if length <= 12 {
        let bytes = view >> 32;
        return bytes & ASCII_12 == 0 || std::str::from_utf8(&bytes.to_le_bytes()[..length]).is_ok();
    }
    let Some(TextBuffer(buffer)) = buffers.get((view >> 64) as u32 as usize) else { return false };
    let from = (view >> 96) as usize;
    let is_border = |at: usize| at == buffer.len() || buffer.get(at).is_some_and(|b| b.cast_signed() >= -0x40);
    is_border(from) && is_border(from + length)
}

/// The low `n` bytes, for `n` up to 12: cheaper than a shift of 128 bits by a variable.
const KEEP: [u128; 13] = {
    let mut keep = [0; 13];
    let mut n = 1;
    while n < 13 {
        keep[n] = keep[n - 1] << 8 | 0xff;
        n += 1;
    }
    keep
};

/// The view of `text[from..to]`, where `text` is buffer number `buffer` of the column.
#[inline]
pub(crate) fn view_of(text: &[u8], buffer: u32, from: usize, to: usize) -> u128 {
    let length = to - from;
    if length <= 12 {
        if let Some(window) = text.get(from..from + 16) {
            let bytes = u128::from_le_bytes(window.try_into().expect("16 bytes"));
            return (bytes & KEEP[length]) << 32 | length as u128;
        }
        let mut bytes = [0; 16];
        bytes[4..4 + length].copy_from_slice(&text[from..to]);
        return u128::from_le_bytes(bytes) | length as u128;
    }
    let prefix = u32::from_le_bytes(text[from..from + 4].try_into().expect("4 bytes"));
    length as u128 | u128::from(prefix) << 32 | u128::from(buffer) << 64 | (from as u128) << 96
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use proptest::prelude::*;

    const NASTY: &[u8] = b"\",\n\r\\#;\t\x00\xff\x80\x22\x2c a";

    #[test]
    fn string_bits_agree_with_the_definition_for_every_byte_in_every_place() {
        for byte in 0..=255u8 {
            for place in 0..16 {
                let mut chunk = *b"abcdefgh ~\x7f0123z";
                chunk[place] = byte;
                let bit = |f: &dyn Fn(u8) -> bool| chunk.iter().enumerate().fold(0u32, |m, (i, b)| m | (u32::from(f(*b)) << i));
                let expected = StringBits { special: bit(&|b| b == b'"' || b == b'\\' || b < 0x20), wide: bit(&|b| b >= 0x80) };
                assert_eq!(string_bits(&chunk), expected, "byte {byte} at {place}");
                assert_eq!(string_bits_portable(&chunk), expected, "byte {byte} at {place}");
            }
        }
    }

    proptest! {
        #[test]
        fn vector_and_portable_kernels_agree(picks in prop::collection::vec(0..NASTY.len(), 64 * 5 + 64), shift in 0..64usize, len in 0..200usize) {
            let bytes: Vec<u8> = picks.iter().map(|p| NASTY[*p]).collect();
            let blocks = &bytes[shift..shift + 64 * 5];
            let needles = [b'"', b',', b'\n', b'\r'];
            let (mut a, mut b) = ([Masks::NONE; 5], [Masks::NONE; 5]);
            classify(blocks, &needles, &mut a);
            classify_portable(blocks, &needles, &mut b);
            prop_assert_eq!(a, b);
            for (block, masks) in blocks.as_chunks().0.iter().zip(&a) {
                prop_assert_eq!(bytes_equal(block, b'"'), masks.hits[0]);
            }
            for (i, byte) in blocks.iter().enumerate() {
                for (hits, needle) in a[i / 64].hits.iter().zip(needles) {
                    prop_assert_eq!(hits >> (i % 64) & 1 == 1, *byte == needle);
                }
            }
            let text = &bytes[shift..shift + len];
            let rare = [0x01, 0x02, b'\\', 0xff];
            prop_assert_eq!(has_any(text, &rare), text.iter().any(|b| rare.contains(b)));
            prop_assert_eq!(has_any_portable(text, &rare), text.iter().any(|b| rare.contains(b)));
        }
    }

    #[test]
    fn a_needle_is_found_at_every_place_of_every_length() {
        for len in 1..130 {
            for at in 0..len {
                let mut text = vec![b'x'; len];
                assert!(!has_any(&text, b"\",\n\r"));
                text[at] = b',';
                assert!(has_any(&text, b"\",\n\r"), "{at} of {len}");
            }
        }
    }

    #[test]
    fn views_equal_the_strings_they_stand_for() {
        let text = "é, a somewhat longer piece of text, 日本語";
        let buffer = TextBuffer::new(Buffer::from(text.as_bytes())).unwrap();
        let ranges: Vec<_> =
            text.char_indices().flat_map(|(from, _)| text[from..].char_indices().map(move |(n, _)| (from, from + n))).collect();
        let views = ranges.iter().map(|(from, to)| view_of(text.as_bytes(), 0, *from, *to)).collect();
        let column = string_views(views, None, &[buffer]).unwrap();
        for (i, (from, to)) in ranges.iter().enumerate() {
            assert_eq!(column.value(i), &text[*from..*to]);
        }
        column.to_data().validate_full().unwrap();
    }

    #[test]
    fn values_are_checked_one_by_one_where_the_bytes_around_them_are_not_text() {
        let text = "é, a somewhat longer piece of text, with \u{65e5}\u{672c}\u{8a9e} and more of it, past sixty-four bytes";
        let mut bytes = vec![0xff, 0xfe, 0x80];
        let at = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&[0xff; 16]);
        let buffer = Buffer::from(bytes.as_slice());
        let of = |from: usize, to: usize| checked_string_views(vec![0, view_of(&bytes, 0, from, to)], None, buffer.clone());
        for from in 0..=text.len() {
            for to in from + 1..=text.len() {
                match (text.get(from..to), of(at + from, at + to)) {
                    (Some(value), Ok(column)) => {
                        assert_eq!(column.value(1), value);
                        column.to_data().validate_full().unwrap();
                    }
                    (None, Err(which)) => assert_eq!(which, 1),
                    (expected, got) => panic!("{from}..{to}: {expected:?}, {got:?}"),
                }
            }
        }
        assert!(of(0, 20).is_err() && of(0, 2).is_err() && of(at + text.len() - 1, at + text.len() + 1).is_err());
        let long = view_of(&bytes, 0, at + 2, at + 30);
        for broken in [13 | 1 << 64, 200, long ^ 1 << 33, long | 1 << 64, long | 1 << 127, 5 | 0x41 << 72] {
            assert!(checked_string_views(vec![broken], None, buffer.clone()).is_err(), "{broken:x}");
        }
        assert!(checked_string_views(vec![0], Some(NullBuffer::new_valid(2)), buffer.clone()).is_err());
    }

    #[test]
    fn a_view_that_cuts_a_character_is_refused() {
        let text = "aé日本語 and some more";
        let buffer = TextBuffer::new(Buffer::from(text.as_bytes())).unwrap();
        for (from, to) in [(2, 20), (0, 5), (2, 4)] {
            let views = vec![view_of(text.as_bytes(), 0, from, to)];
            assert!(string_views(views, None, std::slice::from_ref(&buffer)).is_err(), "{from}..{to}");
        }
        assert!(string_views(vec![13 | 1 << 64], None, std::slice::from_ref(&buffer)).is_err());
        assert!(string_views(vec![200], None, &[buffer]).is_err());
        assert!(TextBuffer::new(Buffer::from(b"\xff".as_slice())).is_err());
    }
}
