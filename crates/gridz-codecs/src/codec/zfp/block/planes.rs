//! The bit planes of a block: bit k of all its numbers, in 64-bit words.
//!
//! Planes are coded from the top. Let s be the number of positions up to the last one at which a
//! plane has had a 1 so far. The first s bits of a plane are written verbatim. The bits above them
//! are nearly always 0 and are run-length coded: a 1 followed by the zeros up to and including the
//! next 1, or a 0 if no 1 follows. So a plane's code has s bits, one for each zero and two for each
//! one above s, and that final 0. Neither a 1 in the last position nor a 0 after it is written,
//! because nothing else is possible there.

use super::bits::{BitReader, BitWriter, low_mask};

/// State of the coding of a block's planes.
pub struct Progress {
    /// Positions below which bits are written verbatim.
    pub seen: u32,
    /// Bits that the block may still use.
    pub left: u32,
}

impl Progress {
    pub fn new(left: u32) -> Self {
        Self { seen: 0, left }
    }

    /// Takes `n` bits from the budget, or as many as are left.
    #[inline(always)]
    fn claim(&mut self, n: u32) -> u32 {
        let n = n.min(self.left);
        self.left -= n;
        n
    }
}

/// The first position from `from` on with a 1.
#[inline(always)]
fn next_one<const M: usize>(plane: &[u64; M], from: u32) -> Option<u32> {
    let first = (from / 64) as usize;
    let above = plane.get(first)? & !low_mask(from % 64);
    let rest = (first + 1..M).map(|i| (i, plane[i]));
    let (i, word) = std::iter::once((first, above)).chain(rest).find(|&(_, word)| word != 0)?;
    Some(64 * i as u32 + word.trailing_zeros())
}

/// Writes a plane of `n` positions. `plane` becomes what a reader decodes.
#[inline(always)]
pub fn write<const M: usize>(out: &mut BitWriter, plane: &mut [u64; M], n: u32, progress: &mut Progress) {
    let as_they_are = progress.claim(progress.seen);
    let mut written = 0;
    for word in plane.iter() {
        let few = (as_they_are - written).min(64);
        out.put(word & low_mask(few), few);
        written += few;
    }
    while progress.left > 0 && progress.seen < n {
        progress.left -= 1;
        let Some(next) = next_one(plane, progress.seen) else {
            out.put(0, 1);
            break;
        };
        let mut zeros = next - progress.seen;
        if zeros < 62 && zeros + 1 < progress.left && next < n - 1 {
            // This is nearly always the case.
            out.put(1 | 2 << zeros, zeros + 2);
            progress.left -= zeros + 1;
        } else {
            zeros = progress.claim(zeros);
            out.put(1, 1);
            out.put_zeros(zeros);
            if next < n - 1 && progress.claim(1) == 1 {
                out.put(1, 1);
            }
        }
        // If the zeros are truncated, a reader assumes the 1 there.
        written = progress.seen + zeros;
        plane[(written / 64) as usize] |= 1 << (written % 64);
        written += 1;
        progress.seen = written;
    }
    for (i, word) in (0..).zip(plane) {
        *word &= low_mask(written.saturating_sub(64 * i).min(64));
    }
}

/// Reads a plane of `n` places.
#[inline(always)]
pub fn read<const M: usize>(bits: &mut BitReader, n: u32, progress: &mut Progress) -> [u64; M] {
    let mut plane = [0; M];
    let as_they_are = progress.claim(progress.seen);
    for (i, word) in (0..).zip(&mut plane) {
        *word = bits.take(as_they_are.saturating_sub(64 * i).min(64));
    }
    while progress.left > 0 && progress.seen < n {
        progress.left -= 1;
        if bits.take(1) == 0 {
            break;
        }
        // The next 1 must be at the last position if it does not occur before it or before the end
        // of the block.
        let most = progress.left.min(n - 1 - progress.seen);
        let zeros = zeros_before_one(bits, most);
        progress.left -= zeros;
        if zeros < most {
            bits.skip(1);
            progress.left -= 1;
        }
        let place = progress.seen + zeros;
        plane[(place / 64) as usize] |= 1 << (place % 64);
        progress.seen = place + 1;
    }
    plane
}

/// Consumes zeros up to a 1, which is not consumed, but at most `most`.
#[inline(always)]
fn zeros_before_one(bits: &mut BitReader, most: u32) -> u32 {
    let mut zeros = 0;
    loop {
        let few = bits.peek().trailing_zeros().min(most - zeros);
        bits.skip(few);
        zeros += few;
        if few < 64 {
            return zeros;
        }
    }
}
