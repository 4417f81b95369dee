//! Copies: sequences of symbols whose differences equal those of earlier symbols in the same order.
//!
//! The search is that of LZ77, on differences. Equal differences allow elements to be copied as
//! well: every element of a copy differs from its source by the same constant. A copy may overlap
//! its own output, so a row that repeats many times is one copy.

use crate::codec::cci::params::SYMBOLS_PER;
use crate::error::{Error, Result, try_vec};
use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;

/// Symbols that are copied at once. The last of them may lie beyond the copy, so the buffer is
/// padded by this many.
pub const AT_ONCE: usize = 16;
/// Maximum number of symbols of a block.
const MOST: usize = 1 << u16::BITS;
/// Bits of a hash.
const HASH_BITS: u32 = 13;
/// Positions at the end of each copy that are entered into the hash table.
const FOUND_AT_END: usize = 16;
/// After this many symbols without a copy, the search begins to skip symbols.
const PATIENCE: usize = 128;
/// Maximum number of symbols that are skipped at a time.
const MOST_LEFT_OUT: usize = 7;
/// Odd factors of the hash, one per symbol.
const FACTORS: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];

/// Hashes of symbols. Each array has an entry for every 16-bit position, which makes bounds checks
/// unnecessary.
pub struct Hashes {
    whole: Box<[u32; MOST]>,
    short: Box<[u16; MOST]>,
    /// Tags of single symbols, padded by a row.
    tags: Box<[u8; MOST + LANES]>,
}

impl Hashes {
    /// Allocates the arrays.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new() -> Result<Self> {
        Ok(Self { whole: zeros()?, short: zeros()?, tags: zeros()? })
    }

    /// Bytes that this memory occupies.
    pub fn n_bytes(&self) -> usize {
        let Self { whole, short, tags } = self;
        size_of_val(&**whole) + size_of_val(&**short) + size_of_val(&**tags)
    }
}

fn zeros<T: Clone + Default, const N: usize>() -> Result<Box<[T; N]>> {
    let mut all = try_vec(N, "a block")?;
    all.resize(N, T::default());
    Ok(all.into_boxed_slice().try_into().ok().expect("as many"))
}

/// One copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copy {
    /// Literal symbols between the previous copy and this one.
    pub literals: u32,
    /// Distance, in symbols, back to the start of the source.
    pub distance: u32,
    /// Number of symbols that it makes.
    pub length: u32,
}

impl Copy {
    /// The four numbers that describe the copy in a frame. They are chosen to be small or constant:
    /// rows often begin with a literal and are as long as an all-literal one, and copies often end
    /// with a row.
    #[inline(always)]
    pub fn numbers(self) -> [u32; 4] {
        let Self { literals, distance, length } = self;
        let more = distance.wrapping_add(1).wrapping_sub(literals);
        let sign = if more >> 31 == 1 { u32::MAX } else { 0 };
        [literals, more << 1 ^ sign, (length + 1) / distance, (length + 1) % distance]
    }

    /// Builds the copy that these numbers describe. Returns `None` if they are impossible.
    #[inline(always)]
    pub fn of([literals, distance, rounds, rest]: [u32; 4]) -> Option<Self> {
        let more = (distance >> 1 ^ (distance & 1).wrapping_neg()) as i32;
        let distance =
            u32::try_from(i64::from(literals) - 1 + i64::from(more)).ok().filter(|&distance| rest < distance)?;
        let length = u64::from(rounds) * u64::from(distance) + u64::from(rest);
        let length = u32::try_from(length).ok()?.checked_sub(1).filter(|&length| length > 0)?;
        Some(Self { literals, distance, length })
    }
}

/// Symbols: differences and, if the block has runs, their lengths.
#[derive(Clone, Copy)]
pub struct Symbols<'a, W> {
    /// Number of symbols.
    pub n: usize,
    /// One difference per symbol, followed by [`LANES`] arbitrary words.
    pub differences: &'a [W],
    /// One length per symbol, or empty.
    pub lengths: &'a [u32],
}

impl<W: Word> Symbols<'_, W> {
    /// Length of the match between the symbols from `from` on and those from `to` on; `from` is
    /// below `to`.
    #[inline(always)]
    fn n_same<S: Simd<W>>(&self, s: S, from: usize, to: usize) -> usize {
        // Compare a whole row at once: the end of the match is hard to predict.
        let row = s.xor(s.load(&self.differences[from..]), s.load(&self.differences[to..]));
        let mut n = (s.gt_mask(row, W::ZERO).trailing_zeros() as usize).min(self.n - to);
        if n == LANES {
            n += n_same(&self.differences[from + LANES..], &self.differences[to + LANES..self.n]);
        }
        if self.lengths.is_empty() { n } else { n_same(&self.lengths[from..], &self.lengths[to..to + n]) }
    }

    #[inline(always)]
    fn is_same(&self, from: usize, to: usize) -> bool {
        self.differences[from] == self.differences[to]
            && (self.lengths.is_empty() || self.lengths[from] == self.lengths[to])
    }

    /// Computes a tag of each symbol, and a hash of the `least` symbols that begin there; `least`
    /// is 3, 4 or 8.
    #[inline(always)]
    fn hash(&self, least: usize, found: &mut Hashes) {
        let fold = |x: u64| x as u32 ^ ((x >> 32) as u32).wrapping_mul(FACTORS[4]);
        let tag = |hash: u32| (hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24) as u8;
        let short = |hash: u32| (hash >> (u32::BITS - HASH_BITS)) as u16;
        let n = self.n;
        let (hashes, tags) = (&mut found.whole[..n], &mut found.tags[..n]);
        if self.lengths.is_empty() {
            for i in 0..n {
                hashes[i] = fold(self.differences[..n][i].to_u64());
                tags[i] = tag(hashes[i]);
            }
        } else {
            for i in 0..n {
                hashes[i] =
                    fold(self.differences[..n][i].to_u64()).wrapping_add(self.lengths[..n][i].rotate_right(8));
                tags[i] = tag(hashes[i]);
            }
        }
        let [a, b, c, d, e] = FACTORS;
        let d = if least > 3 { d } else { 0 };
        let times = u32::wrapping_mul;
        let of_four = |hashes: &[u32; 4]| {
            let [first, second, third, fourth] = *hashes;
            times(first, a)
                .wrapping_add(times(second, b))
                .wrapping_add(times(third, c))
                .wrapping_add(times(fourth, d))
        };
        let to = &mut found.short[..n];
        if least < 8 {
            for i in 3..n {
                to[i - 3] = short(of_four(&[hashes[i - 3], hashes[i - 2], hashes[i - 1], hashes[i]]));
            }
            // A copy that begins after this position can only have three symbols.
            to[n - 3] = short(hashes[n - 3]);
            return;
        }
        for i in 3..n {
            hashes[i - 3] = of_four(&[hashes[i - 3], hashes[i - 2], hashes[i - 1], hashes[i]]);
        }
        for i in 4..n {
            to[i - 4] = short((hashes[i - 4] ^ hashes[i - 4] >> 15).wrapping_add(times(hashes[i], e)));
        }
    }
}

#[inline(always)]
fn n_same<T: std::marker::Copy + PartialEq>(from: &[T], to: &[T]) -> usize {
    let mut n = 0;
    while n + AT_ONCE <= to.len() && from[n..n + AT_ONCE] == to[n..n + AT_ONCE] {
        n += AT_ONCE;
    }
    n + from[n..].iter().zip(&to[n..]).take_while(|(a, b)| a == b).count()
}

/// Finds copies of at least `least` symbols and writes them to the start of `copies`. Returns their
/// number.
#[inline(always)]
pub fn find<W: Word, S: Simd<W>>(
    s: S,
    symbols: Symbols<W>,
    least: usize,
    hashes: &mut Hashes,
    copies: &mut [Copy],
) -> usize {
    let n = symbols.n;
    let hashed = if least >= 8 { 8 } else { least.clamp(3, 4) };
    if n <= hashed {
        return 0;
    }
    symbols.hash(hashed, hashes);
    let tags = |at: u16| hashes.tags[usize::from(at)..].first_chunk().expect("tags of a row");
    // Last position of each hash. Position 0 is also found by other hashes, which the comparison
    // rejects.
    let mut last = [0_u16; 1 << HASH_BITS];
    let (mut at, mut n_copies, mut end_of_last, mut n_missed) = (1, 0, 0, 1);
    let most = n / SYMBOLS_PER;
    while at + least <= n && n_copies < most {
        let place = at as u16;
        let from =
            std::mem::replace(&mut last[usize::from(hashes.short[usize::from(place)]) % (1 << HASH_BITS)], place);
        // Positions within the last copy are only entered into the table.
        let is_behind = at >= end_of_last;
        // This is one unpredictable branch, instead of one per symbol.
        if is_behind && s.n_same_bytes(tags(from), tags(place)) as usize >= least {
            let from = usize::from(from);
            let mut length = symbols.n_same(s, from, at);
            if length >= least {
                // Extend the copy backwards over skipped symbols.
                let (mut start, distance) = (at, at - from);
                while start > end_of_last && start > distance && symbols.is_same(start - 1 - distance, start - 1) {
                    (start, length) = (start - 1, length + 1);
                }
                copies[n_copies] = Copy {
                    literals: (start - end_of_last) as u32,
                    distance: distance as u32,
                    length: length as u32,
                };
                n_copies += 1;
                end_of_last = start + length;
                (at, n_missed) = (end_of_last.saturating_sub(FOUND_AT_END).max(at + 1), 0);
                continue;
            }
        }
        at += 1 + (n_missed / PATIENCE).min(MOST_LEFT_OUT);
        n_missed += usize::from(is_behind);
    }
    n_copies
}

/// Counts the literal symbols among `m` symbols.
///
/// # Errors
/// `Corrupt` if a copy is impossible.
pub fn check(copies: &[Copy], m: usize) -> Result<usize> {
    let (mut at, mut n_literals) = (0_u64, 0_u64);
    for copy in copies {
        at += u64::from(copy.literals);
        n_literals += u64::from(copy.literals);
        if u64::from(copy.distance) > at {
            return Err(damage("from before its first symbol"));
        }
        at += u64::from(copy.length);
    }
    if at > m as u64 {
        return Err(damage("to positions after its last symbol"));
    }
    Ok((n_literals + m as u64 - at) as usize)
}

/// Copies symbols to `at`. `all[0]` is the base, and the first symbol is `all[1]`. The buffer is
/// padded after the symbols.
#[inline(always)]
pub fn copy<W: Word>(all: &mut [W], at: usize, copy: Copy) {
    let (mut distance, length) = (copy.distance as usize, copy.length as usize);
    let end = at + length;
    let mut added = all[at - 1].wrapping_sub(all[at - 1 - distance]);
    let mut at = at;
    // The output of a copy repeats with its distance, so the distance may be doubled.
    while distance < AT_ONCE && at < end {
        let until = end.min(at + distance);
        while at < until {
            all[at] = all[at - distance].wrapping_add(added);
            at += 1;
        }
        (distance, added) = (2 * distance, added.wrapping_add(added));
    }
    while at < end {
        let from: [W; AT_ONCE] = *all[at - distance..].first_chunk().expect("symbols before");
        let to = all[at..].first_chunk_mut::<AT_ONCE>().expect("room after the symbols");
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.wrapping_add(added);
        }
        at += AT_ONCE;
    }
}

/// Copies lengths of runs to `at`. The buffer is padded after them.
#[inline(always)]
pub fn copy_lengths(all: &mut [u32], at: usize, copy: Copy) {
    let (mut distance, end) = (copy.distance as usize, at + copy.length as usize);
    let mut at = at;
    while distance < AT_ONCE && at < end {
        let until = end.min(at + distance);
        while at < until {
            all[at] = all[at - distance];
            at += 1;
        }
        distance *= 2;
    }
    while at < end {
        let from: [u32; AT_ONCE] = *all[at - distance..].first_chunk().expect("lengths before");
        *all[at..].first_chunk_mut().expect("room after the lengths") = from;
        at += AT_ONCE;
    }
}

fn damage(what: &str) -> Error {
    Error::corrupt(format!("a cci block is damaged: it copies symbols {what}"))
}
