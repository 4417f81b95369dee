//! Samples of a block's values: a cheap estimate of their properties.

use crate::stage::rows::{LANES, Simd};
use crate::stage::word::Word;

/// Where few samples are enough, only every fourth is examined.
const STEP: usize = 4;
/// Number of samples for the median of small blocks.
pub const FEW: usize = LANES / STEP;

/// The values at indices ⌊j · n / 32⌋ of n values.
#[derive(Clone, Copy)]
pub struct Samples<W>(pub [W; LANES]);

impl<W: Word> Samples<W> {
    /// Samples `values`, which has at least one.
    #[inline(always)]
    pub fn new(values: &[W]) -> Self {
        let mut samples = [W::default(); LANES];
        let mut j = 0;
        while j < LANES {
            samples[j] = values[j * values.len() / LANES];
            j += 1;
        }
        Self(samples)
    }

    /// The median of `N` samples, which is near that of all values. Values are signed numbers,
    /// stored minus `base`.
    #[inline(always)]
    pub fn middle<const N: usize>(values: &[W], base: W) -> W {
        let mut few = [W::default(); N];
        let mut i = 0;
        while i < N {
            few[i] = values[i * values.len() / N].wrapping_add(base);
            i += 1;
        }
        // Insertion sort without branches: each value moves past those that are larger.
        let mut i = 1;
        while i < N {
            let mut j = i;
            while j > 0 {
                (few[j - 1], few[j]) = few[j - 1].min_max_signed(few[j]);
                j -= 1;
            }
            i += 1;
        }
        few[N / 2].wrapping_sub(base)
    }

    /// The most frequent one of some of the samples, and how many of all samples have this value.
    #[inline(always)]
    pub fn most_frequent<S: Simd<W>>(&self, s: S) -> (W, u32) {
        let all = s.load(&self.0);
        let (mut best, mut most) = (W::default(), 0);
        let mut i = 0;
        while i < LANES {
            let n = LANES as u32 - s.gt_mask(s.xor(all, s.splat(self.0[i])), W::default()).count_ones();
            (best, most) = if n > most { (self.0[i], n) } else { (best, most) };
            i += STEP;
        }
        (best, most)
    }
}
