//! Reads planes without a step per bit.
//!
//! In the code of the positions above s, every 1 flag (another 1 follows) is followed by zeros and
//! that other 1. So the parity of the 1s before a bit gives its role. At even parity the bit is a
//! flag; at odd parity it belongs to a position. The code ends with the first 0 at even parity. The
//! bits of the positions are the bits at odd parity, extracted with `pext`.

use std::arch::x86_64::{
    _bzhi_u64, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_set1_epi64x, _pdep_u64, _pext_u64,
};

use super::super::bits::BitReader;
use super::super::planes::{Progress, read};
use crate::stage::bits::{WINDOW_BITS, peek, window};

/// For every bit, the parity of the bits below it.
///
/// # Safety
/// The CPU must have PCLMULQDQ.
#[inline(always)]
unsafe fn parities(bits: u64) -> u64 {
    // SAFETY: the caller's promise. The carry-less product with all ones has the sums modulo 2 of
    // all bits up to each.
    unsafe {
        let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(bits as i64), _mm_set1_epi64x(-1));
        (_mm_cvtsi128_si64(product) as u64) << 1
    }
}

/// A block whose planes are being read.
#[derive(Clone, Copy)]
pub struct Stream {
    /// Start of the next plane.
    pub at: usize,
    /// End of the block's bits.
    end: usize,
    /// Positions below which bits are verbatim.
    seen: u32,
    /// The number of the next plane plus 1.
    next: u32,
    /// The last plane.
    lowest: u32,
}

impl Stream {
    /// A block with planes from `highest` − 1 down to `lowest`, limited by the bits between `at`
    /// and `end`.
    #[inline(always)]
    pub fn new(at: usize, end: usize, highest: u32, lowest: u32) -> Self {
        Self { at, end, seen: 0, next: highest, lowest }
    }

    /// Skips the leading planes without a 1. Each of them is a single 0 bit.
    #[inline(always)]
    pub fn skip_zeros(&mut self, bytes: &[u8]) {
        let most = (self.next - self.lowest).min(WINDOW_BITS);
        let zeros = window(bytes, self.at).trailing_zeros().min(most);
        let zeros = (zeros as usize).min(self.end.saturating_sub(self.at));
        self.next -= zeros as u32;
        self.at += zeros;
    }

    #[inline(always)]
    fn has_more(self) -> bool {
        self.next > self.lowest && self.at < self.end
    }

    /// Reads the next plane, of `N` positions, and ORs it into `planes`, shifted by `place`.
    ///
    /// # Safety
    /// The CPU must have BMI2 and PCLMULQDQ.
    #[inline(always)]
    unsafe fn step<const N: usize>(&mut self, bytes: &[u8], place: usize, planes: &mut [u64; 64]) {
        let (seen, left) = (self.seen, self.end - self.at);
        self.next -= 1;
        let plane = &mut planes[self.next as usize % 64];
        // SAFETY: the caller's promise.
        unsafe {
            if seen == N as u32 {
                let left = left.min(N);
                *plane |= _bzhi_u64(peek(bytes, self.at), left as u32) << place;
                self.at += left;
                return;
            }
            let as_they_are = if N < WINDOW_BITS as usize || seen < WINDOW_BITS {
                window(bytes, self.at)
            } else {
                peek(bytes, self.at)
            };
            let as_they_are = _bzhi_u64(as_they_are, seen);
            let code = window(bytes, self.at + seen as usize);
            let parities = parities(code);
            let end = (!(code | parities)).trailing_zeros();
            let of_places = _bzhi_u64(parities, end);
            let n_places = of_places.count_ones();
            let n_bits = (seen + end + 1) as usize;
            if (n_places >= N as u32 - seen) | (end >= WINDOW_BITS) | (n_bits > left) {
                *plane |= self.rare_step::<N>(bytes, as_they_are, code) << place;
                return;
            }
            *plane |= (as_they_are | _pext_u64(code, of_places) << seen) << place;
            self.seen = seen + n_places;
            self.at += n_bits;
        }
    }

    /// Reads a plane that reaches the last position, in which the bits end, or whose code is longer
    /// than a window.
    ///
    /// # Safety
    /// The CPU must have BMI2 and PCLMULQDQ.
    #[inline(always)]
    unsafe fn rare_step<const N: usize>(&mut self, bytes: &[u8], as_they_are: u64, code: u64) -> u64 {
        let (seen, left) = (self.seen, (self.end - self.at).min(255) as u32);
        // SAFETY: the caller's promise.
        unsafe {
            let as_they_are = _bzhi_u64(as_they_are, left);
            // Truncated bits are zero, except for the 1 that a reader assumes where zeros are
            // truncated.
            let valid = left.saturating_sub(seen).min(63);
            let code = _bzhi_u64(code, valid);
            let parities = _bzhi_u64(parities(code), valid + 1);
            let code = code | parities & 1 << valid;
            let end = (!(code | parities)).trailing_zeros();
            // The last position has no bit of its own, and no 0 follows it.
            let n_left = N as u32 - seen;
            let last = 1 << (n_left - 1);
            let end_at_last = _pdep_u64(last, parities).trailing_zeros();
            let is_last = u32::from(end_at_last < end);
            let n_code = end.min(end_at_last);
            if n_code >= WINDOW_BITS {
                let plane;
                (*self, plane) = self.long_step::<N>(bytes);
                return plane;
            }
            let of_places = _bzhi_u64(parities, n_code);
            let rest = _pext_u64(code, of_places) | last & 0u64.wrapping_sub(is_last.into());
            self.seen = seen + (n_left & 0u32.wrapping_sub(is_last)).max(of_places.count_ones());
            self.at += (seen + n_code + 1 - is_last).min(left) as usize;
            as_they_are | rest << seen
        }
    }

    /// Reads a plane whose code is longer than a window.
    #[inline(never)]
    fn long_step<const N: usize>(mut self, bytes: &[u8]) -> (Self, u64) {
        let mut bits = BitReader::new(bytes, self.at);
        let left = (self.end - self.at).min(u32::MAX as usize) as u32;
        let mut progress = Progress { seen: self.seen, left };
        let [plane] = read(&mut bits, N as u32, &mut progress);
        (self.seen, self.at) = (progress.seen, bits.position());
        (self, plane)
    }
}

/// Reads the planes of up to four blocks side by side: a step depends on the previous one, and the
/// CPU has time for other blocks meanwhile. The planes are ORed into each block's `planes`, shifted
/// by `place`.
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
    // Unrolled by hand, so that the state of the streams stays in registers.
    macro_rules! step {
        ($($i:literal)*) => {
            $(
                if $i < S {
                    // SAFETY: the caller's promise.
                    unsafe { streams[$i].step::<N>(bytes, place, &mut planes[$i]) };
                }
            )*
        };
    }
    while streams.iter().all(|stream| stream.has_more()) {
        step!(0 1 2 3);
    }
    for i in 0..S {
        while streams[i].has_more() {
            // SAFETY: the caller's promise.
            unsafe { streams[i].step::<N>(bytes, place, &mut planes[i]) };
        }
    }
}
