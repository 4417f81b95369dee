//! Floats with a relative bound: only every n-th float is used, in the order of their bits.

use super::{Divisor, Float, lanes_set};
use crate::stage::rows::LANES;
use crate::stage::word::Word;

/// Rounds the place of a float, which is its bits as an integer, to a multiple of an odd number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative<W> {
    /// This many places to either side are rounded to the same float.
    half: W,
    step: Divisor<W>,
    /// The multiple that the least code above 0 stands for.
    first: W,
    /// The sign bit of an element, and all bits above it.
    signs: W,
    /// The places of the least normal float and of infinity.
    normal: W,
    infinity: W,
}

impl<W: Word> Relative<W> {
    /// For a bound between 0 and 1.
    pub fn new(float: Float, bound: f64) -> Self {
        let (fraction_bits, bits) = float.bits();
        // A power of two times the bound is exact.
        let half = (bound * (1u64 << fraction_bits) as f64) as u64;
        Self {
            half: W::from_u64(half),
            step: Divisor::new(W::from_u64(2 * half + 1)),
            first: W::from_u64(((1 << fraction_bits) + half) / (2 * half + 1)),
            signs: !W::low_mask(bits - 1),
            normal: W::from_u64(1 << fraction_bits),
            infinity: W::low_mask(bits - 1 - fraction_bits) << fraction_bits,
        }
    }

    /// Converts elements to codes; returns the lanes of those that have one. The bits above an
    /// element may be copies of its sign.
    #[inline(always)]
    pub fn quantize(&self, lanes: &mut [W; LANES]) -> u32 {
        let [zero, one, all] = [W::default(), W::from_u64(1), !W::default()];
        // The sign bit of an element is the lowest of these bits.
        let top = self.signs & !(self.signs << 1);
        let mut are_coded = [all; LANES];
        let mut some_are_not = zero;
        let mut i = 0;
        while i < LANES {
            let sign = if lanes[i] & top == zero { zero } else { all };
            let place = lanes[i] & !self.signs;
            let (mut multiple, rest) = self.step.divide(place.wrapping_add(self.half));
            multiple = multiple.wrapping_add(if rest >= self.step.divisor { one } else { zero });
            let is_multiple = (place >= self.normal)
                & (place < self.infinity)
                & (multiple.wrapping_mul(self.step.divisor) < self.infinity);
            let size = multiple.wrapping_sub(self.first).wrapping_add(one);
            let code = (size ^ sign).wrapping_sub(sign);
            let is_coded = if is_multiple | (place | sign == zero) { all } else { zero };
            lanes[i] = if is_multiple { code } else { zero };
            are_coded[i] = is_coded;
            some_are_not |= !is_coded;
            i += 1;
        }
        if some_are_not == zero { u32::MAX } else { lanes_set(&are_coded) }
    }

    /// Converts codes to elements, which are sign-extended.
    #[inline(always)]
    pub fn dequantize(&self, lanes: &mut [W; LANES]) {
        let before = self.first.wrapping_sub(W::from_u64(1));
        let mut i = 0;
        while i < LANES {
            let sign = lanes[i].shift_signed(W::BITS - 1);
            let multiple = (lanes[i] ^ sign).wrapping_sub(sign).wrapping_add(before);
            let place = multiple.wrapping_mul(self.step.divisor) & !self.signs;
            let element = place | sign & self.signs;
            lanes[i] = if lanes[i] == W::default() { W::default() } else { element };
            i += 1;
        }
    }
}
