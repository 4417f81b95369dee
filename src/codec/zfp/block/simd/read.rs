//! Planes from bits, without a step for each bit.
//!
//! In the code of the places above s every 1 that tells of another one is followed by zeros and that other one. So
//! the parity of the ones before a bit says which it is: even, and it tells whether there is another; odd, and it is a place's.
//! The code ends with the first 0 at even parity, and what it says of places are the bits at odd parity, put together.

use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi64x, _pext_u64};

use super::super::bits::{low_mask, BitReader};
use super::super::planes::{Progress, read};
use crate::stage::bits::{WINDOW_BITS, peek, window};

/// For every bit the parity of the bits below it.
///
/// # Safety
/// The CPU must have PCLMULQDQ.
#[inline(always)]
unsafe fn parities(bits: u64) -> u64 {
    // SAFETY: the caller's promise. The product without carries with ones has the sums modulo 2 of all bits up to each.
    unsafe {
        let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(bits as i64), _mm_set1_epi64x(-1));
        (_mm_cvtsi128_si64(product) as u64) << 1
    }
}

/// Reads planes of `N` places from `highest` − 1 down to `lowest`, as long as there are bits between `at` and `end`;
/// where they end. They are added at place `shift` of `planes`.
///
/// # Safety
/// The CPU must have BMI2 and PCLMULQDQ.
#[inline(always)]
pub unsafe fn planes<const N: usize>(
    bytes: &[u8],
    mut at: usize,
    end: usize,
    lowest: u32,
    highest: u32,
    shift: usize,
    planes: &mut [u64; 64],
) -> usize {
    let mut seen = 0;
    let mut k = highest as usize;
    while k > lowest as usize && at < end {
        k -= 1;
        let left = end - at;
        if seen < N as u32 {
            let as_they_are = peek(bytes, at) & low_mask(seen);
            let code = window(bytes, at + seen as usize);
            // SAFETY: the caller's promise.
            let parities = unsafe { parities(code) };
            let n_code = (!(code | parities)).trailing_zeros();
            let of_places = parities & !(u64::MAX << (n_code % 64));
            let n_places = of_places.count_ones();
            let n_bits = seen + n_code + 1;
            if n_code < WINDOW_BITS && n_places < N as u32 - seen && n_bits as usize <= left {
                // SAFETY: the caller's promise.
                let rest = unsafe { _pext_u64(code, of_places) };
                planes[k] |= (as_they_are | rest << seen) << shift;
                seen += n_places;
                at += n_bits as usize;
                continue;
            }
        } else if left >= N {
            planes[k] |= (peek(bytes, at) & low_mask(N as u32)) << shift;
            at += N;
            continue;
        }
        // The last place is reached, or the bits end.
        let mut bits = BitReader::new(bytes, at);
        let mut progress = Progress { seen, left: left.min(u32::MAX as usize) as u32 };
        let [plane] = read(&mut bits, N as u32, &mut progress);
        planes[k] |= plane << shift;
        seen = progress.seen;
        at = bits.position();
    }
    at
}
