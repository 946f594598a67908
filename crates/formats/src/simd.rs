//! Byte classification in vector registers: the crate's only `unsafe` code.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
