//! Runs: sequences of elements that ascend by 1. A run is stored as its first element and its
//! length.

use crate::error::{Error, Result};
use crate::stage::entropy::lanes::LANES;
use crate::stage::rows::Simd;
use crate::stage::word::Word;

/// Elements that are written at once; the last of them may lie beyond the run.
pub const AT_ONCE: usize = 16;

/// True if the elements are better coded as runs.
#[inline(always)]
pub fn pay<W: Word>(elements: &[W]) -> bool {
    let one = W::from_u64(1);
    let (before, behind) = (&elements[..elements.len() - 1], &elements[1..]);
    let mut n_following = 0_u32;
    for i in 0..before.len() {
        n_following += u32::from(behind[i].wrapping_sub(before[i]) == one);
    }
    3 * n_following as usize >= 2 * elements.len()
}

/// Writes the first elements of the runs, and their lengths minus 1. Returns the number of runs.
#[inline(always)]
pub fn find<W: Word, S: Simd<W>>(s: S, elements: &[W], firsts: &mut [W], lengths: &mut [u32]) -> usize {
    let n = elements.len();
    let (firsts, lengths) = (&mut firsts[..n], &mut lengths[..n]);
    (firsts[0], lengths[0]) = (elements[0], 0);
    let mut n_runs = 1;
    let mut at = 1;
    while at < n {
        // Take whole rows, in which few elements begin a run; at the end single elements.
        let begins = if at + LANES <= n {
            let differences = s.sub(s.load(&elements[at..]), s.load(&elements[at - 1..]));
            s.gt_mask(s.xor(differences, s.splat(W::from_u64(1))), W::ZERO)
        } else {
            u32::from(elements[at].wrapping_sub(elements[at - 1]) != W::from_u64(1))
        };
        let mut left = begins;
        while left != 0 {
            let i = at + left.trailing_zeros() as usize;
            (firsts[n_runs], lengths[n_runs]) = (elements[i], i as u32);
            n_runs += 1;
            left &= left - 1;
        }
        at += if at + LANES <= n { LANES } else { 1 };
    }
    // Replace the start of each run by its length.
    for i in 1..n_runs {
        lengths[i - 1] = lengths[i] - lengths[i - 1] - 1;
    }
    lengths[n_runs - 1] = n as u32 - lengths[n_runs - 1] - 1;
    n_runs
}

/// Writes the elements of runs to `out`, which they must fill.
///
/// # Errors
/// `Corrupt` if the runs have a different number of elements.
#[inline(always)]
pub fn expand<W: Word>(firsts: &[W], lengths: &[u32], out: &mut [u8]) -> Result<()> {
    let steps: [W; AT_ONCE] = std::array::from_fn(|i| W::from_u64(i as u64));
    let n = out.len() / W::BYTES;
    let mut at = 0;
    for (&first, &length) in firsts.iter().zip(lengths) {
        let end = at + length as usize + 1;
        if end > n {
            return Err(damage());
        }
        let mut next = first;
        while at < end {
            // The next run overwrites the positions beyond this one.
            if let Some(to) = out.get_mut(at * W::BYTES..(at + AT_ONCE) * W::BYTES) {
                for i in 0..AT_ONCE {
                    next.wrapping_add(steps[i]).write(&mut to[i * W::BYTES..(i + 1) * W::BYTES]);
                }
            } else {
                for (to, step) in out[at * W::BYTES..].chunks_exact_mut(W::BYTES).zip(steps) {
                    next.wrapping_add(step).write(to);
                }
            }
            next = next.wrapping_add(W::from_u64(AT_ONCE as u64));
            at += AT_ONCE;
        }
        at = end;
    }
    if at == n { Ok(()) } else { Err(damage()) }
}

fn damage() -> Error {
    Error::corrupt("a cci block is damaged: its runs do not add up to its number of elements")
}
