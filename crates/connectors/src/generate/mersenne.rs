//! MT19937, the generator behind Python's `random`, so that anyone can make the same rows in ten lines of Python.
//!
//! Source: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998), and their 2002 initialisation by
//! array. Seeding and drawing follow CPython: `Random(seed)`, `getrandbits`, `random`.

const N: usize = 624;
const M: usize = 397;

/// The generator's state.
pub struct Mersenne {
    state: Box<[u32; N]>,
    used: usize,
}

impl Mersenne {
    /// Seeds with `init_by_array` over the 32-bit words of `seed`, low word first (one word below 2^32).
    pub fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let key = if words[1] == 0 { &words[..1] } else { &words[..] };
        let mut s = Box::new([0u32; N]);
        s[0] = 19_650_218;
        for i in 1..N {
            s[i] = 1_812_433_253u32.wrapping_mul(s[i - 1] ^ (s[i - 1] >> 30)).wrapping_add(i as u32);
        }
        let (mut i, mut j) = (1, 0);
        for _ in 0..N.max(key.len()) {
            s[i] = (s[i] ^ (s[i - 1] ^ (s[i - 1] >> 30)).wrapping_mul(1_664_525)).wrapping_add(key[j]).wrapping_add(j as u32);
            i = Self::advance(&mut s, i);
            j = (j + 1) % key.len();
        }
        for _ in 0..N - 1 {
            s[i] = (s[i] ^ (s[i - 1] ^ (s[i - 1] >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i = Self::advance(&mut s, i);
        }
        s[0] = 0x8000_0000;
        Self { state: s, used: N }
    }

    /// The next index of the seeding loops: past the end, the last word is carried to the front.
    fn advance(s: &mut [u32; N], i: usize) -> usize {
        if i + 1 < N {
            return i + 1;
        }
        s[0] = s[N - 1];
        1
    }

    fn twist(upper: u32, lower: u32, far: u32) -> u32 {
        let y = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
        far ^ (y >> 1) ^ if y & 1 == 0 { 0 } else { 0x9908_b0df }
    }

    /// Makes the next 624 words.
    fn refill(&mut self) {
        let s = &mut self.state;
        for i in 0..N - M {
            s[i] = Self::twist(s[i], s[i + 1], s[i + M]);
        }
        for i in N - M..N - 1 {
            s[i] = Self::twist(s[i], s[i + 1], s[i + M - N]);
        }
        s[N - 1] = Self::twist(s[N - 1], s[0], s[M - 1]);
        self.used = 0;
    }

    /// 32 random bits.
    #[inline]
    pub fn bits(&mut self) -> u32 {
        if self.used == N {
            self.refill();
        }
        let mut y = self.state[self.used];
        self.used += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number in `0..n`, without bias: the top bits, as many as `n` is long, drawn again while they are not below `n`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        let shift = n.leading_zeros();
        loop {
            let draw = self.bits() >> shift;
            if draw < n {
                return draw;
            }
        }
    }

    /// A number in `[0, 1)` with 53 bits.
    #[inline]
    pub fn real(&mut self) -> f64 {
        let (a, b) = (self.bits() >> 5, self.bits() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }
}
