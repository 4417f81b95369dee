//! Codes one block, in portable code that compilers vectorize well. This file defines the codec.
//!
//! Encoding a block of 4096 words:
//! 1. take the bit patterns and rotate them left by one, so the sign is the lowest bit;
//! 2. integer Lorenzo transform: along each axis, subtract from every word its predecessor (mod
//!    2^BITS);
//! 3. where the top bit is then set, invert the other bits: small negative numbers get leading zeros;
//! 4. cut the words into groups of BITS; a group is a square bit matrix: transpose it, so that word c
//!    holds bit BITS−1−c of every element, the first element highest;
//! 5. write the OR of each group (its head: bit BITS−1−c says whether column c is not zero), then the
//!    columns that are not zero.
//!
//! Decoding runs the steps backwards. The naive version of step 4 is in `tests/oracle`; here several
//! groups are transposed side by side, one per vector lane, by the recursive exchange of off-diagonal
//! sub-matrices. That makes every step a plain vector operation, without shuffles, on any machine.

use crate::codec::ndzip::layout::BLOCK;
use crate::codec::ndzip::word::FloatWord;

/// The words of one block in the order of its elements.
pub type Block<W> = [W; BLOCK];

/// Words of the largest encoded block, which has 128 heads. Decoding may look at one word after the
/// last nonzero column, unless all columns are nonzero.
pub const WORDS: usize = BLOCK + 128;
/// An encoded block: heads, columns, and padding.
pub type Words<W> = [W; WORDS];

/// Groups that are transposed side by side.
const LANES: usize = 4;
/// Bits of the largest word.
const MAX_BITS: usize = 64;

/// Words of several groups: `[i][lane]` is word i of group `lane`. Only the first BITS rows are used.
type Groups<W> = [[W; LANES]; MAX_BITS];

/// Performs steps 1 to 3 for the block whose first element is word 0 of `src`. `ROW`, `ROWS` and
/// `PLANES` are the block's sides, x first; `row` and `plane` are the array's strides in elements.
#[inline(always)]
pub fn load<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    src: &[u8],
    row: usize,
    plane: usize,
    block: &mut Block<W>,
) {
    for z in 0..PLANES {
        for y in 0..ROWS {
            let at = (z * plane + y * row) * W::BYTES;
            let bytes = &src[at..at + ROW * W::BYTES];
            let words = &mut block[(z * ROWS + y) * ROW..][..ROW];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(W::BYTES)) {
                *word = W::read(bytes).rotated_left();
            }
        }
    }
    // Go backwards, so that each predecessor still has its value from before the pass.
    for words in block.chunks_exact_mut(ROW) {
        subtract_predecessors::<W, 1>(words);
    }
    if ROWS > 1 {
        for words in block.chunks_exact_mut(ROW * ROWS) {
            subtract_predecessors::<W, ROW>(words);
        }
    }
    if PLANES > 1 {
        // ROW * ROWS is 256 in every block of three axes.
        subtract_predecessors::<W, 256>(block);
    }
    for word in block {
        *word = fold_sign(*word);
    }
}

/// Undoes steps 3 to 1, and stores the block at word `offset` of the bands `dst`, one per plane.
#[inline(always)]
pub fn store<W: FloatWord, const ROW: usize, const ROWS: usize, const PLANES: usize>(
    block: &mut Block<W>,
    dst: &mut [&mut [u8]],
    offset: usize,
    row: usize,
) {
    for word in block.iter_mut() {
        *word = fold_sign(*word);
    }
    if PLANES > 1 {
        add_predecessors::<W, 256>(block);
    }
    if ROWS > 1 {
        for words in block.chunks_exact_mut(ROW * ROWS) {
            add_predecessors::<W, ROW>(words);
        }
    }
    for (z, band) in dst.iter_mut().enumerate().take(PLANES) {
        for y in 0..ROWS {
            let at = (offset + y * row) * W::BYTES;
            let bytes = &mut band[at..at + ROW * W::BYTES];
            let words = &block[(z * ROWS + y) * ROW..][..ROW];
            let mut sum = W::default();
            for (&word, bytes) in words.iter().zip(bytes.chunks_exact_mut(W::BYTES)) {
                sum = sum.wrapping_add(word);
                sum.rotated_right().write(bytes);
            }
        }
    }
}

/// Step 3, which is its own inverse.
#[inline(always)]
fn fold_sign<W: FloatWord>(word: W) -> W {
    word ^ (word.shift_signed(W::BITS - 1) & (!W::default() >> 1))
}

/// Subtracts from every word, from `STRIDE` on, the word `STRIDE` before it.
#[inline(always)]
fn subtract_predecessors<W: FloatWord, const STRIDE: usize>(words: &mut [W]) {
    if STRIDE == 1 {
        for i in (1..words.len()).rev() {
            words[i] = words[i].wrapping_sub(words[i - 1]);
        }
        return;
    }
    for start in (STRIDE..words.len()).step_by(STRIDE).rev() {
        let (before, these) = words[start - STRIDE..][..2 * STRIDE].split_at_mut(STRIDE);
        for (word, &predecessor) in these.iter_mut().zip(before.iter()) {
            *word = word.wrapping_sub(predecessor);
        }
    }
}

/// Prefix sums: the inverse of [`subtract_predecessors`].
#[inline(always)]
fn add_predecessors<W: FloatWord, const STRIDE: usize>(words: &mut [W]) {
    for start in (STRIDE..words.len()).step_by(STRIDE) {
        let (before, these) = words[start - STRIDE..][..2 * STRIDE].split_at_mut(STRIDE);
        for (word, &predecessor) in these.iter_mut().zip(before.iter()) {
            *word = word.wrapping_add(predecessor);
        }
    }
}

/// Steps 4 and 5: writes heads and columns to `out`. Returns the number of words.
pub fn pack<W: FloatWord>(block: &Block<W>, out: &mut Words<W>) -> usize {
    let mut end = W::GROUPS;
    let mut groups: Groups<W> = [[W::default(); LANES]; MAX_BITS];
    for first in (0..W::GROUPS).step_by(LANES) {
        let words = &block[first * W::SIDE..][..LANES * W::SIDE];
        for (lane, group) in words.chunks_exact(W::SIDE).enumerate() {
            for (row, &word) in groups.iter_mut().zip(group) {
                row[lane] = word;
            }
        }
        let mut heads = [W::default(); LANES];
        for row in &groups[..W::SIDE] {
            for (head, &word) in heads.iter_mut().zip(row) {
                *head |= word;
            }
        }
        transpose(&mut groups);
        out[first..first + LANES].copy_from_slice(&heads);
        for (lane, &head) in heads.iter().enumerate() {
            if head == W::default() {
                continue;
            }
            // Write every column. A zero column is overwritten by the next one.
            for row in &groups[..W::SIDE] {
                out[end] = row[lane];
                end += usize::from(row[lane] != W::default());
            }
        }
    }
    end
}

/// Undoes steps 5 and 4. `words` has a block's heads, then at least as many columns as the heads
/// have one bits, and one word more.
pub fn unpack<W: FloatWord>(words: &Words<W>, block: &mut Block<W>) {
    let mut next = W::GROUPS;
    let mut groups: Groups<W> = [[W::default(); LANES]; MAX_BITS];
    for first in (0..W::GROUPS).step_by(LANES) {
        for lane in 0..LANES {
            let mut head = words[first + lane];
            for row in &mut groups[..W::SIDE] {
                let present = head.shift_signed(W::BITS - 1);
                row[lane] = words[next] & present;
                next += usize::from(present != W::default());
                head = head << 1;
            }
        }
        transpose(&mut groups);
        let words = &mut block[first * W::SIDE..][..LANES * W::SIDE];
        for (lane, group) in words.chunks_exact_mut(W::SIDE).enumerate() {
            for (word, row) in group.iter_mut().zip(&groups) {
                *word = row[lane];
            }
        }
    }
}

/// Transposes the bit matrix of every lane: exchanges the off-diagonal quarters, then those of each
/// quarter, down to single bits. Its own inverse.
#[inline(always)]
fn transpose<W: FloatWord>(groups: &mut Groups<W>) {
    let mut half = W::SIDE / 2;
    while half > 0 {
        exchange(groups, half);
        half /= 2;
    }
}

/// Exchanges the off-diagonal quarters, `half` bits wide and high, of all matrices on the diagonal.
#[inline(never)] // for six sizes, the loops would be large
fn exchange<W: FloatWord>(groups: &mut Groups<W>, half: usize) {
    // Ones in the lower half of every field of 2·half bits.
    let mask = W::from_u64(u64::MAX / ((1 << half) + 1));
    for rows in groups[..W::SIDE].chunks_exact_mut(2 * half) {
        let (upper, lower) = rows.split_at_mut(half);
        for (upper, lower) in upper.iter_mut().zip(lower) {
            for (u, l) in upper.iter_mut().zip(lower) {
                let swapped = (*u ^ (*l >> half as u32)) & mask;
                *u = *u ^ swapped;
                *l = *l ^ (swapped << half as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise<W: FloatWord>() -> Box<Block<W>> {
        let mut state = 88172645463325252u64;
        Box::new(std::array::from_fn(|i| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Some groups sparse, some empty, some full.
            W::from_u64(if i / W::SIDE % 5 == 0 { 0 } else { state >> (i / W::SIDE % 64) })
        }))
    }

    fn transpose_is_the_bit_transpose<W: FloatWord + std::fmt::Debug>() {
        let block = noise::<W>();
        let mut groups: Groups<W> = std::array::from_fn(|i| std::array::from_fn(|lane| block[lane * MAX_BITS + i]));
        let before = groups;
        transpose(&mut groups);
        let bit = |word: W, i: usize| (word >> (W::SIDE - 1 - i) as u32) & W::from_u64(1);
        for (c, column) in groups.iter().enumerate().take(W::SIDE) {
            for (j, element) in before.iter().enumerate().take(W::SIDE) {
                for lane in 0..LANES {
                    assert_eq!(bit(column[lane], j), bit(element[lane], c), "lane {lane} column {c} element {j}");
                }
            }
        }
    }

    #[test]
    fn transposes() {
        transpose_is_the_bit_transpose::<u32>();
        transpose_is_the_bit_transpose::<u64>();
    }

    fn packing_round_trips<W: FloatWord + std::fmt::Debug>() {
        let block = noise::<W>();
        let mut words = Box::new([W::default(); WORDS]);
        let n = pack(&block, &mut words);
        let ones: usize = words[..W::GROUPS].iter().map(|head| head.n_ones()).sum();
        assert_eq!(n, W::GROUPS + ones);
        words[n..].fill(!W::default());
        let mut back = Box::new([!W::default(); BLOCK]);
        unpack(&words, &mut back);
        assert_eq!(back[..], block[..]);
    }

    #[test]
    fn packing_and_unpacking() {
        packing_round_trips::<u32>();
        packing_round_trips::<u64>();
    }

    #[test]
    fn signs_fold_as_specified() {
        assert_eq!(fold_sign(0u32), 0);
        assert_eq!(fold_sign(1u32), 1);
        assert_eq!(fold_sign(u32::MAX), 0x8000_0000);
        assert_eq!(fold_sign(0x8000_0000u32), u32::MAX);
        assert_eq!(fold_sign(fold_sign(0xdead_beef_0000_0001u64)), 0xdead_beef_0000_0001);
    }
}
