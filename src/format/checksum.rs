//! The payload checksum: two sums over the payload's words.
//!
//! With w_0, w_1, … the payload's little-endian u32 words (the last one zero-padded) and
//! g(w) = (w XOR K)², `a = Σ g(w_i)` and `b = Σ (i+1)·g(w_i)`, both modulo 2^64, are mixed into one
//! u64. Sums of adjacent pieces combine by integer addition (`b` of the later piece grows by `n·a`), so
//! threads and tiles sum what they have just written, in any order, in the pass they make anyway.
//!
//! Why squares: over the words themselves, damage d_i with Σ d_i = 0 and Σ i·d_i = 0 would go unseen,
//! and the same bit inverted in four neighbouring words is such damage one time in eight. A square
//! makes the change depend on the rest of the word. No two words have the same square, so a change
//! of one word is always seen.

/// What the words are combined with, so that zeros and small words count too. Odd.
pub const K: u32 = 0x9e37_79b9;

/// Words summed side by side.
const LANES: usize = 8;

/// Sums over the words of a piece of a payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    a: u64,
    b: u64,
    n_words: u64,
}

impl Sums {
    /// The sums of `bytes`; the last word is padded with zeros.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut plain, mut running) = ([0u64; LANES], [0u64; LANES]);
        let rows = bytes.chunks_exact(4 * LANES);
        let (rest, n_rows) = (rows.remainder(), rows.len());
        for row in rows {
            for (lane, word) in row.chunks_exact(4).enumerate() {
                let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
                plain[lane] = plain[lane].wrapping_add(square(word));
                running[lane] = running[lane].wrapping_add(plain[lane]);
            }
        }
        Self::from_lanes(&plain, &running, n_rows).then_bytes(rest)
    }

    /// The sums of `n_rows` rows with a word per lane, from what the lanes have summed: `plain` is Σ g over a
    /// lane's words, and `running` the sum of all values that `plain` had after each of them. That replaces the
    /// weights, because after m rows it is Σ (m − k)·g over the rows k = 0, 1, …
    pub fn from_lanes(plain: &[u64], running: &[u64], n_rows: usize) -> Self {
        let (m, n_lanes) = (n_rows as u64, plain.len() as u64);
        let mut sums = Self { n_words: m * n_lanes, ..Self::default() };
        for ((&plain, &running), lane) in plain.iter().zip(running).zip(1..) {
            // Word (k, lane) has the weight k·n_lanes + lane, where lanes count from 1.
            let by_row = m.wrapping_mul(plain).wrapping_sub(running);
            let weighted = by_row.wrapping_mul(n_lanes).wrapping_add(plain.wrapping_mul(lane));
            sums.a = sums.a.wrapping_add(plain);
            sums.b = sums.b.wrapping_add(weighted);
        }
        sums
    }

    /// The sums of this piece followed by `bytes`, word by word. The bytes of this piece must be whole words.
    #[must_use]
    pub fn then_bytes(self, bytes: &[u8]) -> Self {
        bytes.chunks(4).fold(self, |sums, word| {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            let g = square(u32::from_le_bytes(padded));
            sums.then(Self { a: g, b: g, n_words: 1 })
        })
    }

    /// The sums `a` and `b` of `n_bytes` bytes, as a kernel found them.
    pub fn from_parts(a: u64, b: u64, n_bytes: u64) -> Self {
        Self { a, b, n_words: n_bytes.div_ceil(4) }
    }

    /// The sums of this piece followed by `next`. The bytes of this piece must be whole words.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            a: self.a.wrapping_add(next.a),
            b: self.b.wrapping_add(next.b).wrapping_add(self.n_words.wrapping_mul(next.a)),
            n_words: self.n_words + next.n_words,
        }
    }

    /// The checksum as stored.
    pub fn mixed(self) -> u64 {
        mix(self.a.wrapping_add(mix(self.b)))
    }
}

#[inline(always)]
fn square(word: u32) -> u64 {
    let x = u64::from(word ^ K);
    x * x
}

/// A bijection of the 64-bit words that spreads every bit (the finaliser of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn by_definition(bytes: &[u8]) -> u64 {
        let (mut a, mut b) = (0u64, 0u64);
        for (i, word) in bytes.chunks(4).enumerate() {
            let mut le = [0; 4];
            le[..word.len()].copy_from_slice(word);
            let x = u64::from(u32::from_le_bytes(le) ^ K);
            a = a.wrapping_add(x * x);
            b = b.wrapping_add((i as u64 + 1).wrapping_mul(x * x));
        }
        mix(a.wrapping_add(mix(b)))
    }

    fn noise(n: usize) -> Vec<u8> {
        (0..n as u64).map(|i| (mix(i) >> 13) as u8).collect()
    }

    #[test]
    fn equals_the_definition() {
        for n in (0..200).chain([100_003]) {
            let bytes = noise(n);
            assert_eq!(Sums::of(&bytes).mixed(), by_definition(&bytes), "{n} bytes");
        }
        let ones = vec![0xff; 1 << 20];
        assert_eq!(Sums::of(&ones).mixed(), by_definition(&ones));
    }

    #[test]
    fn pieces_combine() {
        let bytes = noise(30_001);
        for cut in [0, 4, 4096, 4100, 29_996, 30_000] {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(Sums::of(left).then(Sums::of(right)), Sums::of(&bytes), "cut at {cut}");
        }
    }

    #[test]
    fn every_bit_counts_and_so_does_the_place() {
        let bytes = noise(259);
        let sum = Sums::of(&bytes).mixed();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Sums::of(&flipped).mixed(), sum, "bit {bit}");
        }
        let mut swapped = bytes.clone();
        swapped.swap(0, 4);
        assert_ne!(Sums::of(&swapped).mixed(), sum);
    }

    /// A stuck or swapped data line inverts one bit of neighbouring words.
    #[test]
    fn a_bit_inverted_in_neighbouring_words_is_seen() {
        let bytes = noise(20_000);
        let sum = Sums::of(&bytes).mixed();
        for n in [4, 8, 16] {
            for (bit, start) in (0..32).flat_map(|bit| (0..300).map(move |start| (bit, 7 * start))) {
                let mut damaged = bytes.clone();
                (start..start + n).for_each(|word| damaged[4 * word + bit / 8] ^= 1 << (bit % 8));
                assert_ne!(Sums::of(&damaged).mixed(), sum, "bit {bit} of {n} words from {start}");
            }
        }
    }
}
