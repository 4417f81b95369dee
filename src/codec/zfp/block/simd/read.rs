//! Planes from bits, without a step for each bit.
//!
//! In the code of the places above s every 1 that tells of another one is followed by zeros and that other one. So
//! the parity of the ones before a bit says which it is: even, and it tells whether there is another; odd, and it is a place's.
//! The code ends with the first 0 at even parity, and what it says of places are the bits at odd parity, put together.

use std::arch::x86_64::_pext_u64;

use super::super::bits::{low_mask, BitReader};
use super::super::planes::{Progress, read};
use crate::stage::bits::peek;

/// For every bit the parity of the bits below it.
#[inline(always)]
fn parities(bits: u64) -> u64 {
    let mut x = bits << 1;
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    x ^= x << 32;
    x
}

/// Reads planes of `N` places from `highest` − 1 down to `lowest`, as long as there are bits between `at` and `end`;
/// where they end.
///
/// # Safety
/// The CPU must have BMI2.
#[inline(always)]
pub unsafe fn planes<const N: u32>(
    bytes: &[u8],
    mut at: usize,
    end: usize,
    lowest: u32,
    highest: u32,
    planes: &mut [u64; 64],
) -> usize {
    let mut seen = 0;
    let mut k = highest as usize;
    while k > lowest as usize && at < end {
        k -= 1;
        let left = end - at;
        if seen < N {
            let as_they_are = peek(bytes, at) & low_mask(seen);
            let code = peek(bytes, at + seen as usize);
            let parities = parities(code);
            let n_code = (!(code | parities)).trailing_zeros();
            let of_places = parities & !(u64::MAX << (n_code % 64));
            let n_places = of_places.count_ones();
            let n_bits = seen + n_code + 1;
            if n_code < 64 && n_places < N - seen && n_bits as usize <= left {
                // SAFETY: the caller's promise.
                let rest = unsafe { _pext_u64(code, of_places) };
                planes[k] = as_they_are | rest << seen;
                seen += n_places;
                at += n_bits as usize;
                continue;
            }
        } else if left >= N as usize {
            planes[k] = peek(bytes, at) & low_mask(N);
            at += N as usize;
            continue;
        }
        // The last place is reached, or the bits end.
        let mut bits = BitReader::new(bytes, at);
        let mut progress = Progress { seen, left: left.min(u32::MAX as usize) as u32 };
        [planes[k]] = read(&mut bits, N, &mut progress);
        seen = progress.seen;
        at = bits.position();
    }
    at
}
