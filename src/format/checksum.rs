//! The payload checksum: two sums over the payload's words.
//!
//! With w_0, w_1, … the payload's little-endian u32 words (the last one zero-padded),
//! `a = Σ w_i` and `b = Σ (i+1)·w_i`, both modulo 2^64, are mixed into one u64. Sums of adjacent
//! pieces combine by integer addition (`b` of the later piece grows by `n·a`), so threads and tiles
//! sum what they have just written, in any order, in the pass they make anyway.

/// Sums over the words of a piece of a payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    a: u64,
    b: u64,
    n_words: u64,
}

/// Words summed with 32-bit weights before the sums are widened.
const TILE_WORDS: usize = 1024;

impl Sums {
    /// The sums of `bytes`; the last word is padded with zeros.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sums = Self::default();
        for tile in bytes.chunks(TILE_WORDS * 4) {
            let words = tile.chunks_exact(4);
            let mut last = [0; 4];
            last[..words.remainder().len()].copy_from_slice(words.remainder());
            let (mut a, mut b, mut weight) = (0u64, 0u64, 1u32);
            for word in words {
                let w = u32::from_le_bytes(word.try_into().expect("four bytes"));
                a += u64::from(w);
                b += u64::from(w) * u64::from(weight);
                weight += 1;
            }
            let w = u64::from(u32::from_le_bytes(last));
            let n_words = tile.len().div_ceil(4) as u64;
            sums = sums.then(Self { a: a + w, b: b + w * u64::from(weight), n_words });
        }
        sums
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
            let w = u64::from(u32::from_le_bytes(le));
            a = a.wrapping_add(w);
            b = b.wrapping_add((i as u64 + 1).wrapping_mul(w));
        }
        mix(a.wrapping_add(mix(b)))
    }

    fn noise(n: usize) -> Vec<u8> {
        (0..n as u64).map(|i| (mix(i) >> 13) as u8).collect()
    }

    #[test]
    fn equals_the_definition_at_every_length_around_a_tile() {
        for n in (0..70).chain(TILE_WORDS * 4 - 5..TILE_WORDS * 4 + 6).chain([100_003]) {
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
}
