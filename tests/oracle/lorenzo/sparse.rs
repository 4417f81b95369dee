//! The coder SPARSE.

use super::bits::{BitString, string_of};
use super::split::GROUP;
use super::{bit_length, bitmap};

/// Encodes the numbers; `None` if SPARSE is not considered.
pub fn encode(numbers: &[u64]) -> Option<Vec<u8>> {
    let not_zero = |numbers: &[u64]| numbers.iter().filter(|&&r| r != 0).count();
    if numbers.chunks(GROUP).any(|group| 16 * not_zero(group) > 15 * group.len()) {
        return None;
    }
    let w = numbers.iter().map(|&r| bit_length(r)).max()?;
    let c = not_zero(numbers);
    let bitmap: Vec<bool> = numbers.iter().map(|&r| r != 0).collect();
    let marked = [bitmap::coded(&bitmap), string_of(numbers.iter().copied().filter(|&r| r != 0), w)].concat();
    let (g, contents) = match list(numbers, w) {
        (g, list) if c <= 256 && list.len() < marked.len() => (g, list),
        _ => (0, marked),
    };
    Some([&(c as u16).to_le_bytes()[..], &[w as u8, g as u8], &contents].concat())
}

/// g, and the string of the list form.
fn list(numbers: &[u64], w: u32) -> (u32, Vec<u8>) {
    let mut zeros_before = vec![];
    let mut zeros = 0;
    for &r in numbers {
        if r == 0 {
            zeros += 1;
        } else {
            zeros_before.push(zeros);
            zeros = 0;
        }
    }
    let g = zeros_before.iter().map(|&zeros| bit_length(zeros)).max().unwrap_or(0).max(1);
    let others = || numbers.iter().copied().filter(|&r| r != 0);
    let length_bits = bit_length(u64::from(w).saturating_sub(1));
    let mut string = BitString::default();
    zeros_before.iter().for_each(|&zeros| string.push(bit_length(zeros).into(), bit_length(g.into())));
    others().for_each(|r| string.push(u64::from(bit_length(r)) - 1, length_bits));
    zeros_before.iter().for_each(|&zeros| string.push(zeros, bit_length(zeros).saturating_sub(1)));
    others().for_each(|r| string.push(r, bit_length(r) - 1));
    (g, string.into_bytes())
}
