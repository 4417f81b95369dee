//! Runs: elements each of which is the one before, plus 1. Of a run the first element and the length are kept.

use crate::error::{Error, Result};
use crate::stage::word::Word;

/// Elements that are written at once, some of which may be behind the run: there is room for so many behind all.
pub const AT_ONCE: usize = 16;

/// Whether so many elements are better seen as runs.
#[inline(always)]
pub fn pay<W: Word>(elements: &[W]) -> bool {
    let one = W::from_u64(1);
    let follows: usize = elements
        .iter()
        .zip(&elements[1..])
        .map(|(&before, &element)| u32::from(element.minus(before) == one))
        .sum::<u32>() as usize;
    3 * follows >= 2 * elements.len()
}

/// Writes the first elements of the runs and their lengths, less 1; how many there are.
#[inline(always)]
pub fn find<W: Word>(elements: &[W], firsts: &mut [W], lengths: &mut [u32]) -> usize {
    let one = W::from_u64(1);
    let firsts = &mut firsts[..elements.len()];
    let lengths = &mut lengths[..elements.len()];
    firsts[0] = elements[0];
    let (mut last, mut length) = (0, 0);
    for i in 1..elements.len() {
        let is_next = elements[i].minus(elements[i - 1]) == one;
        lengths[last] = length;
        last += usize::from(!is_next);
        length = if is_next { length + 1 } else { 0 };
        // Of a run that goes on its first element is written again.
        firsts[last] = if is_next { firsts[last] } else { elements[i] };
    }
    lengths[last] = length;
    last + 1
}

/// Writes the elements of runs to the start of `elements`, of which there are `n`, and room behind them.
///
/// # Errors
/// `Corrupt` if the runs have another number of elements.
#[inline(always)]
pub fn expand<W: Word>(firsts: &[W], lengths: &[u32], n: usize, elements: &mut [W]) -> Result<()> {
    let steps: [W; AT_ONCE] = std::array::from_fn(|i| W::from_u64(i as u64));
    let mut at = 0;
    for (&first, &length) in firsts.iter().zip(lengths) {
        let end = at + length as usize + 1;
        if end > n {
            return Err(damage());
        }
        let mut next = first;
        while at < end {
            let to = elements[at..].first_chunk_mut::<AT_ONCE>().expect("room behind the elements");
            for (to, step) in to.iter_mut().zip(steps) {
                *to = next.plus(step);
            }
            next = next.plus(W::from_u64(AT_ONCE as u64));
            at += AT_ONCE;
        }
        at = end;
    }
    if at == n { Ok(()) } else { Err(damage()) }
}

fn damage() -> Error {
    Error::corrupt("the runs of a cci block have another number of elements than it")
}
