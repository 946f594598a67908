//! CRC-32 of joined pieces from the CRC-32 of each: a checksum is a polynomial over GF(2), and `n` bytes that follow
//! multiply it by x^(8n) modulo the generator.

/// The generator, lowest power in the highest bit, x^32 left out.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The product of two polynomials modulo the generator.
fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    // From x^0 (the highest bit) up; `b` is multiplied by x each time.
    for power in (0..32).rev() {
        if a >> power & 1 == 1 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
    }
    product
}

/// x^(8 * bytes) modulo the generator.
fn shift(mut bytes: u64) -> u32 {
    let mut square = 1 << 23; // x^8
    let mut power = 1 << 31; // x^0
    while bytes > 0 {
        if bytes & 1 == 1 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        bytes >>= 1;
    }
    power
}

/// The CRC-32 of two pieces joined; `second_length` is the second's length in bytes.
pub(super) fn combine(first: u32, second: u32, second_length: u64) -> u32 {
    multiply(first, shift(second_length)) ^ second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    #[test]
    fn joined_pieces_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for cut in [0, 1, 2, 3, 255, 256, 4095, 65_536, 69_999, 70_000] {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(combine(crc(a), crc(b), b.len() as u64), crc(&bytes), "cut at {cut}");
        }
        assert_eq!(combine(0, crc(&bytes), bytes.len() as u64), crc(&bytes));
        // Lengths past 32 bits: twice half of it is the same as once the whole.
        let far = 5 << 32;
        assert_eq!(multiply(shift(far / 2), shift(far / 2)), shift(far));
    }
}
