//! The order of elements, and how far apart they are.

use super::Float;
use super::uniform::widen;
use super::whole::Integers;
use crate::stage::rows::Simd;
use crate::stage::word::Word;
use crate::types::DType;

/// The numbers that words stand for: which are finite, and their order.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    dtype: DType,
}

impl Numbers {
    /// For elements with one part.
    pub fn of(dtype: DType) -> Self {
        Self { dtype }
    }

    /// The places of a row of words in the order of their numbers, as signed integers, and the lanes of those that are
    /// finite.
    #[inline(always)]
    pub fn places<W: Word, S: Simd<W>>(self, s: S, words: S::Row) -> (S::Row, u32) {
        if let Some(float) = Float::of(self.dtype) {
            let (fraction_bits, bits) = float.bits();
            let sizes = s.and(words, s.splat(W::low_mask(bits - 1)));
            let last_finite = (W::low_mask(bits - 1 - fraction_bits) << fraction_bits).wrapping_sub(W::from_u64(1));
            // The bits of negative numbers are in the opposite order.
            let signs = s.and(s.shift_right_signed(words, W::BITS - 1), s.splat(W::low_mask(W::BITS - 1)));
            return (s.xor(words, signs), !s.gt_mask(sizes, last_finite));
        }
        let is_unsigned = matches!(self.dtype, DType::U32 | DType::U64);
        let turned = if is_unsigned { W::from_u64(1) << (W::BITS - 1) } else { W::default() };
        (s.xor(words, s.splat(turned)), u32::MAX)
    }

    /// The word of -0, if elements are floats.
    pub fn negative_zero<W: Word>(self) -> Option<W> {
        Float::of(self.dtype).map(|float| !W::low_mask(float.bits().1 - 1))
    }

    /// The place of a word in the order of numbers, as a signed integer.
    #[inline(always)]
    pub fn place<W: Word>(self, word: W) -> W {
        self.at_place(word) // which is its own inverse
    }

    /// The word at a place.
    #[inline(always)]
    pub fn at_place<W: Word>(self, place: W) -> W {
        let top = W::from_u64(1) << (W::BITS - 1);
        match self.dtype {
            DType::U32 | DType::U64 => place ^ top,
            _ if Float::of(self.dtype).is_some() && place & top != W::default() => place ^ !top,
            _ => place,
        }
    }

    /// The difference of two numbers, the larger one first, rounded down to a float; the largest
    /// float if it overflows.
    pub fn difference_down<W: Word>(self, most: W, least: W) -> f64 {
        let Some(float) = Float::of(self.dtype) else {
            let integers = Integers::of(self.dtype);
            let range = (integers.number(most.to_i64()) - integers.number(least.to_i64())) as u128;
            let nearest = range as f64;
            return if nearest as u128 > range { nearest.next_down() } else { nearest };
        };
        let number = |word: W| match float {
            Float::F64 => f64::from_bits(word.to_u64()),
            _ => widen(float, word.to_u64() as u32).into(),
        };
        let (a, b) = (number(most), number(least));
        let nearest = a - b;
        if nearest.is_infinite() {
            return f64::MAX;
        }
        // The rounding error (Knuth, TAOCP vol. 2, 4.2.2, theorem B).
        let b_part = a - nearest;
        let a_part = nearest + b_part;
        let rest = (a - a_part) + (b_part - b);
        if rest < 0.0 { nearest.next_down() } else { nearest }
    }
}
