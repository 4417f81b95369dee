//! Planes from bits, without a step for each bit.
//!
//! In the code of the places above s every 1 that tells of another one is followed by zeros and that other one. So
//! the parity of the ones before a bit says which it is: even, and it tells whether there is another; odd, and it is a place's.
//! The code ends with the first 0 at even parity, and what it says of places are the bits at odd parity, put together.

use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi64x, _pdep_u64, _pext_u64};

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

/// A block whose planes are being read.
#[derive(Clone, Copy)]
pub struct Stream {
    /// Where the next plane begins.
    pub at: usize,
    /// Where the bits of the block end.
    end: usize,
    /// Places below which bits are as they are.
    seen: u32,
    /// One more than the number of the next plane.
    next: u32,
    /// The last plane.
    lowest: u32,
}

impl Stream {
    /// A block that has planes from `highest` − 1 down to `lowest`, as long as there are bits between `at` and `end`.
    #[inline(always)]
    pub fn new(at: usize, end: usize, highest: u32, lowest: u32) -> Self {
        Self { at, end, seen: 0, next: highest, lowest }
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        self.next > self.lowest && self.at < self.end
    }

    /// Adds the next plane, of `N` places, at a place of `planes`.
    ///
    /// # Safety
    /// The CPU must have BMI2 and PCLMULQDQ.
    #[inline(always)]
    unsafe fn step<const N: usize>(&mut self, bytes: &[u8], place: usize, planes: &mut [u64; 64]) {
        self.next -= 1;
        let plane = &mut planes[self.next as usize % 64];
        let left = self.end - self.at;
        if self.seen == N as u32 {
            *plane |= (peek(bytes, self.at) & low_mask((N as u32).min(left as u32))) << place;
            self.at += N.min(left);
            return;
        }
        let as_they_are = if N < WINDOW_BITS as usize || self.seen < WINDOW_BITS {
            window(bytes, self.at) & low_mask(self.seen)
        } else {
            peek(bytes, self.at) & low_mask(self.seen)
        };
        let code = window(bytes, self.at + self.seen as usize);
        // SAFETY: the caller's promise.
        let parities = unsafe { parities(code) };
        let mut n_code = (!(code | parities)).trailing_zeros();
        let mut of_places = parities & low_mask(n_code);
        let mut rest = 0;
        let mut n_places = of_places.count_ones();
        let mut n_bits = (self.seen + n_code + 1) as usize;
        if n_places >= N as u32 - self.seen {
            // The last place is reached, which has no bit of its own, and no 0 behind it.
            n_places = N as u32 - self.seen;
            rest = 1 << (n_places - 1);
            // SAFETY: the caller's promise.
            n_code = unsafe { _pdep_u64(rest, parities) }.trailing_zeros();
            of_places = parities & low_mask(n_code);
            n_bits = (self.seen + n_code) as usize;
        }
        if n_code < WINDOW_BITS && n_bits <= left {
            // SAFETY: the caller's promise.
            rest |= unsafe { _pext_u64(code, of_places) };
            *plane |= (as_they_are | rest << self.seen) << place;
            self.seen += n_places;
            self.at += n_bits;
        } else {
            *plane |= self.last_steps::<N>(bytes) << place;
        }
    }

    /// A plane that the bits end in, or with a code that is longer than a window.
    #[inline(never)]
    fn last_steps<const N: usize>(&mut self, bytes: &[u8]) -> u64 {
        let mut bits = BitReader::new(bytes, self.at);
        let left = (self.end - self.at).min(u32::MAX as usize) as u32;
        let mut progress = Progress { seen: self.seen, left };
        let [plane] = read(&mut bits, N as u32, &mut progress);
        (self.seen, self.at) = (progress.seen, bits.position());
        plane
    }
}

/// Reads the planes of several blocks, side by side: a step waits for the one before, and the CPU has time for others.
/// They are added at a place of each one's `planes`.
///
/// # Safety
/// The CPU must have BMI2 and PCLMULQDQ.
#[inline(always)]
pub unsafe fn planes<const N: usize, const S: usize>(
    bytes: &[u8],
    streams: &mut [Stream; S],
    place: usize,
    planes: &mut [[u64; 64]; S],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut is_any = true;
        while is_any {
            is_any = false;
            for i in 0..S {
                if streams[i].has_more() {
                    streams[i].step::<N>(bytes, place, &mut planes[i]);
                    is_any = true;
                }
            }
        }
    }
}
