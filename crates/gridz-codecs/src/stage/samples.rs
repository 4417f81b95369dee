//! Samples of a block's values: what the values are like, at the cost of a few.

use crate::stage::rows::{LANES, Rows};
use crate::stage::word::Word;

/// Of the samples, every so many are looked at where fewer are enough.
const STEP: usize = 4;
/// Samples of small blocks of which the middle is taken.
pub const FEW: usize = LANES / STEP;

/// The values numbered ⌊j · n / 32⌋ of n.
#[derive(Clone, Copy)]
pub struct Samples<W>(pub [W; LANES]);

impl<W: Word> Samples<W> {
    /// Samples of all of `values`, of which there is at least one.
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

    /// A value that is near the middle of all, which are signed numbers, each less `base`: that of `N` of them.
    #[inline(always)]
    pub fn middle<const N: usize>(values: &[W], base: W) -> W {
        let mut few = [W::default(); N];
        let mut i = 0;
        while i < N {
            few[i] = values[i * values.len() / N].plus(base);
            i += 1;
        }
        // Sorted by insertion without branches: each goes past those that are larger.
        let mut i = 1;
        while i < N {
            let mut j = i;
            while j > 0 {
                (few[j - 1], few[j]) = few[j - 1].min_max_signed(few[j]);
                j -= 1;
            }
            i += 1;
        }
        few[N / 2].minus(base)
    }

    /// The value that most samples have, of some of them, and how many.
    #[inline(always)]
    pub fn most_frequent<S: Rows<W>>(&self, s: S) -> (W, u32) {
        let all = s.load(&self.0);
        let (mut best, mut most) = (W::default(), 0);
        let mut i = 0;
        while i < LANES {
            let n = LANES as u32 - s.larger(s.xor(all, s.splat(self.0[i])), W::default()).count_ones();
            (best, most) = if n > most { (self.0[i], n) } else { (best, most) };
            i += STEP;
        }
        (best, most)
    }
}
