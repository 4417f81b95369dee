//! The payload checksum: a sum over the payload's words, each multiplied by a key of its position.
//!
//! The payload's little-endian u32 words (the last one zero-padded) form rows of [`LANES`]. With
//! w(r, l) the word in row r and lane l, [`key`] of the row, and two odd weights A and B of every
//! lane,
//!
//! ```text
//! a = Σ A(l)·key(r)·w(r, l)        b = Σ B(l)·key(r)·w(r, l)        checksum = mix(a + mix(b + bytes))
//! ```
//!
//! modulo 2^64. These are sums of integers. Tiles, threads and thread blocks of a GPU can add up
//! their words in any order, in the pass that they make anyway. Each only has to know the position
//! of its words in the payload. A row has one key, so a lane's Σ key·w takes one multiplication and
//! one addition per word. The weights are applied at the end.
//!
//! **What it detects.** A change of one word by d changes its lane's sum by key·d. Both factors are
//! below 2^32 and no key is 0 (in the first 2^32 − 1 rows, which are 256 GiB), so key·d is not 0
//! modulo 2^64. The weights are odd, so a and b change. Then the checksum changes except in one
//! case in 2^64. Swapping two different words of a lane also changes a and b, because no two of
//! these rows have the same key.
//!
//! For all other changes, the argument treats keys and weights as random, since they are hashes.
//! Let two payloads of the same length differ in lane l, among others. Let d(r) be the differences
//! there, and D = Σ key(r)·d(r). D = 0 for one key in 2^32 (the key that cancels the other terms).
//! Otherwise let 2^s be the largest power of two that divides D. When A(l) changes by 2, the other
//! side of "a is unchanged" takes 2^(63−s) values (at most 2^31, as weights have 32 bits). The same
//! holds for B(l), independently. 2^s divides D for at most one key in 2^(s−31), because a
//! difference has at most 31 trailing zeros. So a and b are unchanged for fewer than 2^-32 + Σ
//! 2^-(s−31)·4^-(63−s) < 2^-30 of all keys, whatever the two payloads are. Shifted, swapped,
//! repeated or reversed parts are no special case. If D has few trailing zeros, as after random
//! damage, the probability is about 2^-64.
//!
//! Sums whose weights are polynomials in the position are weaker. Version 1 of the format had the
//! weights 1 and i + 1. It missed every exchange of two parts that hold the same words in another
//! order.

/// Words of a row.
pub const LANES: usize = 16;
/// Bytes of a row.
pub const ROW_BYTES: usize = 4 * LANES;
/// A row.
pub type Row = [u8; ROW_BYTES];

/// The weights of the lanes: `WEIGHTS[0]` is A, `WEIGHTS[1]` is B.
pub const WEIGHTS: [[u32; LANES]; 2] = {
    let mut weights = [[0; LANES]; 2];
    let mut i = 0;
    while i < 2 * LANES {
        weights[i / LANES][i % LANES] = key((1 << 31) + i as u32) | 1;
        i += 1;
    }
    weights
};

/// Multipliers of [`key`].
pub const MULTIPLIERS: [u32; 3] = [0xed5a_d4bb, 0xac4c_1b51, 0x3184_8bab];

/// The key of row `row` modulo 2^32. It is a bijection; only 2^32 − 1, the last row before 256 GiB,
/// has key 0.
#[inline(always)]
pub const fn key(row: u32) -> u32 {
    let mut x = row.wrapping_add(1).wrapping_mul(MULTIPLIERS[0]);
    x = (x ^ (x >> 11)).wrapping_mul(MULTIPLIERS[1]);
    x = (x ^ (x >> 15)).wrapping_mul(MULTIPLIERS[2]);
    x ^ (x >> 14)
}

/// Σ key·w of every lane over some words of a payload: first the even lanes, then the odd ones,
/// which is the order of vector multiplication.
pub type LaneSums = [[u64; LANES / 2]; 2];

/// The two sums over some words of a payload. [`Checksum::combine`] adds the sums of several parts,
/// in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum {
    a: u64,
    b: u64,
}

impl Checksum {
    /// The sums of `bytes`, which start at byte `start` of the payload (a multiple of 4). If they
    /// end within a word, that word must be the payload's last one.
    pub fn of(bytes: &[u8], start: u64) -> Self {
        let mut lanes = LaneSums::default();
        RowSplit::of(bytes, start).add(&mut lanes);
        Self::from_lanes(&lanes)
    }

    /// Combines the sums of the lanes with their weights.
    pub fn from_lanes(lanes: &LaneSums) -> Self {
        let weighted = |weights: &[u32; LANES]| {
            let products = (0..LANES).map(|l| lanes[l % 2][l / 2].wrapping_mul(u64::from(weights[l])));
            products.fold(0, u64::wrapping_add)
        };
        let [a, b] = &WEIGHTS;
        Self { a: weighted(a), b: weighted(b) }
    }

    /// The sums over the words of both.
    #[must_use]
    pub fn combine(self, other: Self) -> Self {
        Self { a: self.a.wrapping_add(other.a), b: self.b.wrapping_add(other.b) }
    }

    /// The checksum of a payload of `n_bytes` bytes with these sums.
    pub fn finish(self, n_bytes: u64) -> u64 {
        mix(self.a.wrapping_add(mix(self.b.wrapping_add(n_bytes))))
    }
}

/// The checksum of a whole payload.
pub fn checksum(payload: &[u8]) -> u64 {
    Checksum::of(payload, 0).finish(payload.len() as u64)
}

/// Bytes of a payload, split at row boundaries.
#[derive(Debug, Clone, Copy)]
pub struct RowSplit<'a> {
    /// The bytes before the first row boundary, if the bytes do not begin at one.
    pub head: &'a [u8],
    /// Lane of the first word of `head`.
    pub head_lane: usize,
    /// Whole rows.
    pub rows: &'a [Row],
    /// Number of the first whole row.
    pub first_row: u64,
    /// The bytes after the last whole row, if they end within a row other than that of `head`.
    pub tail: &'a [u8],
}

impl<'a> RowSplit<'a> {
    /// Splits `bytes`, which start at byte `start` of the payload.
    pub fn of(bytes: &'a [u8], start: u64) -> Self {
        let head_lane = start as usize / 4 % LANES;
        let head_bytes = start.next_multiple_of(ROW_BYTES as u64) - start;
        let (head, rest) = bytes.split_at(bytes.len().min(head_bytes as usize));
        let (rows, tail) = rest.as_chunks();
        Self { head, head_lane, rows, first_row: (start + head_bytes) / ROW_BYTES as u64, tail }
    }

    /// Adds all words to the sums of their lanes.
    pub fn add(&self, lanes: &mut LaneSums) {
        for (row, number) in self.rows.iter().zip(self.first_row..) {
            add_words(lanes, row.as_chunks().0, 0, number);
        }
        add_words(lanes, self.head.as_chunks().0, self.head_lane, self.first_row.wrapping_sub(1));
        add_words(lanes, self.tail.as_chunks().0, 0, self.first_row + self.rows.len() as u64);
        self.add_last(lanes);
    }

    /// Adds the incomplete last word, if the bytes end within a word.
    pub fn add_last(&self, lanes: &mut LaneSums) {
        let row = self.first_row + self.rows.len() as u64;
        for (bytes, row, first_lane) in [(self.head, row.wrapping_sub(1), self.head_lane), (self.tail, row, 0)] {
            let (words, last) = bytes.as_chunks::<4>();
            if !last.is_empty() {
                let mut word = [0; 4];
                word[..last.len()].copy_from_slice(last);
                add_words(lanes, &[word], first_lane + words.len(), row);
            }
        }
    }
}

/// Adds words of row `row` of the payload, starting in lane `first`, to the sums of their lanes.
#[inline(always)]
fn add_words(lanes: &mut LaneSums, words: &[[u8; 4]], first: usize, row: u64) {
    let key = u64::from(key(row as u32));
    for (&word, lane) in words.iter().zip(first..) {
        let sum = &mut lanes[lane % 2][lane / 2];
        *sum = sum.wrapping_add(key * u64::from(u32::from_le_bytes(word)));
    }
}

/// A bijection of the 64-bit words that spreads every bit (the finalizer of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
