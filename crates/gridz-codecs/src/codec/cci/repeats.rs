//! Repeats: sequences of copies that equal earlier sequences of copies. Regular grids have repeated
//! rows and planes.

use crate::codec::cci::copies::Copy;
use crate::codec::cci::params::SYMBOLS_PER;
use crate::error::{Error, Result};

/// With fewer copies, no repeats are sought.
const LEAST_COPIES: usize = 16;
/// Minimum copies of a repeat. A block may have one repeat per this many copies.
const LEAST_LENGTH: usize = SYMBOLS_PER;
/// Bits of a hash of two copies.
const HASH_BITS: u32 = 10;

/// One repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeat {
    /// Literal copies (copies that no repeat makes) between the previous repeat and this one.
    pub literals: u32,
    /// Number of copies that it makes.
    pub length: u32,
    /// Distance, in copies, back to the start of the repeated sequence.
    pub distance: u32,
}

/// Finds repeats. Writes them to the start of `repeats` and the literal copies to the start of
/// `literals`, and returns both counts. Finds none if repeats make less than half of the copies.
pub fn find(copies: &[Copy], repeats: &mut [Repeat], literals: &mut [Copy]) -> (usize, usize) {
    let n = copies.len();
    let (mut at, mut n_repeats, mut end_of_last, mut n_literals) = (0, 0, 0, 0);
    let mut last = [0_u16; 1 << HASH_BITS];
    while n >= LEAST_COPIES && at + 1 < n {
        let place = hash(&copies[at..at + 2]);
        let from = usize::from(last[place]);
        last[place] = at as u16;
        let length = if from < at {
            copies[from..].iter().zip(&copies[at..]).take_while(|(a, b)| a == b).count()
        } else {
            0
        };
        if length >= LEAST_LENGTH {
            repeats[n_repeats] =
                Repeat { literals: (at - end_of_last) as u32, length: length as u32, distance: (at - from) as u32 };
            n_repeats += 1;
            at += length;
            end_of_last = at;
        } else {
            literals[n_literals] = copies[at];
            n_literals += 1;
            at += 1;
        }
    }
    literals[n_literals..n_literals + n - at].copy_from_slice(&copies[at..]);
    n_literals += n - at;
    if 2 * n_literals <= n {
        return (n_repeats, n_literals);
    }
    literals[..n].copy_from_slice(copies);
    (0, n)
}

fn hash(two: &[Copy]) -> usize {
    let words = two.iter().flat_map(|copy| [copy.literals, copy.distance, copy.length]);
    let mixed = words.fold(0_u32, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b1));
    (mixed >> (32 - HASH_BITS)) as usize
}

/// Counts the literal copies among `n` copies.
///
/// # Errors
/// `Corrupt` if a repeat is impossible.
pub fn check(repeats: &[Repeat], n: usize) -> Result<usize> {
    let (mut at, mut n_literals) = (0_u64, 0_u64);
    for repeat in repeats {
        at += u64::from(repeat.literals);
        n_literals += u64::from(repeat.literals);
        if repeat.length == 0 || repeat.distance == 0 || u64::from(repeat.distance) > at {
            return Err(Error::corrupt("a cci block is damaged: it has an invalid repeat"));
        }
        at += u64::from(repeat.length);
    }
    let left = (n as u64).checked_sub(at);
    left.map(|left| (n_literals + left) as usize)
        .ok_or_else(|| Error::corrupt("a cci block is damaged: a repeat refers to more copies than precede it"))
}

/// Builds all copies in place. On entry, the literal copies are at the end of `copies`.
pub fn expand(repeats: &[Repeat], n_literals: usize, copies: &mut [Copy]) {
    let (mut at, mut from) = (0, copies.len() - n_literals);
    for repeat in repeats {
        let n = repeat.literals as usize;
        copies.copy_within(from..from + n, at);
        (at, from) = (at + n, from + n);
        for _ in 0..repeat.length {
            copies[at] = copies[at - repeat.distance as usize];
            at += 1;
        }
    }
    // The remaining literal copies are already in place.
}
