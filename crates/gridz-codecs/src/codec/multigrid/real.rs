//! Floats of both widths and their operations. Each is a single operation of IEEE 754, so that
//! every back end gets the same results.

use std::ops::{Add, Mul, Sub};

use crate::stage::rows::SimdWord;
use crate::stage::word::Word;
use crate::types::DType;
use zerocopy::FromZeros;

/// `f32` or `f64`.
pub trait Real:
    Copy + Default + PartialOrd + Send + Sync + 'static + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The word of the same size.
    type Word: SimdWord;
    /// The bytes of an element in memory, little-endian.
    type Bytes: FromZeros + Copy + Default + Send + Sync + 'static;
    /// The type whose elements are such words.
    const WORDS: DType;
    /// Bits of the fraction.
    const FRACTION_BITS: u32 = <Self::Word as Word>::FRACTION_BITS;
    const ZERO: Self;
    /// The largest finite number.
    const MAX: Self;
    const INFINITY: Self;
    const HALF: Self;
    /// The weights of near and of far neighbors in a cubic prediction.
    const NEAR: Self;
    const FAR: Self;
    /// Integers with a smaller magnitude have codes.
    const CODES: Self;

    /// Converts the bytes of an element.
    fn of(bytes: Self::Bytes) -> Self;
    /// Converts to the bytes of an element.
    fn bytes(self) -> Self::Bytes;
    /// The elements of an array.
    fn elements(array: &[u8]) -> &[Self::Bytes];
    /// The elements of an array, for writing.
    fn elements_mut(array: &mut [u8]) -> &mut [Self::Bytes];
    /// The bytes of a word.
    fn put(word: Self::Word) -> Self::Bytes;
    /// The word of bytes.
    fn word(bytes: Self::Bytes) -> Self::Word;
    /// The largest number that is not above `x`, which must not be negative.
    fn at_most(x: f64) -> Self;
    /// Converts without loss.
    fn to_f64(self) -> f64;
    /// The magnitude.
    fn size(self) -> Self;
    /// The bits.
    fn to_word(self) -> Self::Word;
    /// Rounds to the nearest integer (ties to even) and also returns it as a code: 0, -1, 1, -2, …
    /// The magnitude must be below [`Real::CODES`]; otherwise the result is arbitrary.
    fn nearest(self) -> (Self, Self::Word);
    /// The integer of a code.
    fn whole(code: Self::Word) -> Self;
    /// 1 / x, or 0 if that is not finite.
    fn inverse(self) -> Self;
}

macro_rules! real {
    ($float:ty, $word:ty, $signed:ty, $words:expr) => {
        impl Real for $float {
            type Word = $word;
            type Bytes = [u8; size_of::<$float>()];
            const WORDS: DType = $words;
            const ZERO: Self = 0.0;
            const MAX: Self = <$float>::MAX;
            const INFINITY: Self = <$float>::INFINITY;
            const HALF: Self = 0.5;
            const NEAR: Self = 0.5625;
            const FAR: Self = 0.0625;
            const CODES: Self = (1u64 << (<$float>::MANTISSA_DIGITS - 2)) as $float;

            #[inline(always)]
            fn of(bytes: Self::Bytes) -> Self {
                <$float>::from_le_bytes(bytes)
            }
            #[inline(always)]
            fn bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }
            #[inline(always)]
            fn elements(array: &[u8]) -> &[Self::Bytes] {
                array.as_chunks().0
            }
            #[inline(always)]
            fn elements_mut(array: &mut [u8]) -> &mut [Self::Bytes] {
                array.as_chunks_mut().0
            }
            #[inline(always)]
            fn put(word: Self::Word) -> Self::Bytes {
                word.to_le_bytes()
            }
            #[inline(always)]
            fn word(bytes: Self::Bytes) -> Self::Word {
                <$word>::from_le_bytes(bytes)
            }
            fn at_most(x: f64) -> Self {
                let nearest = x.min(f64::from(<$float>::MAX)) as $float;
                if f64::from(nearest) > x { nearest.next_down() } else { nearest }
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn size(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn to_word(self) -> Self::Word {
                self.to_bits()
            }
            #[inline(always)]
            fn nearest(self) -> (Self, Self::Word) {
                // Floats of this magnitude are integers.
                const MIDDLE: $float = 1.5 * (1u64 << (<$float>::MANTISSA_DIGITS - 1)) as $float;
                let shifted = self + MIDDLE;
                let code = shifted.to_bits().wrapping_sub(MIDDLE.to_bits());
                (shifted - MIDDLE, code << 1 ^ (code as $signed >> (<$word>::BITS - 1)) as $word)
            }
            #[inline(always)]
            fn whole(code: Self::Word) -> Self {
                const MIDDLE: $float = 1.5 * (1u64 << (<$float>::MANTISSA_DIGITS - 1)) as $float;
                let number = code >> 1 ^ (code & 1).wrapping_neg();
                <$float>::from_bits(MIDDLE.to_bits().wrapping_add(number)) - MIDDLE
            }
            fn inverse(self) -> Self {
                let inverse = 1.0 / self;
                if inverse.is_finite() { inverse } else { 0.0 }
            }
        }
    };
}

real!(f32, u32, i32, DType::U32);
real!(f64, u64, i64, DType::U64);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Real + std::fmt::Debug>(numbers: &[f64]) {
        for &x in numbers {
            let of = T::at_most(x.abs());
            assert!(of.to_f64() <= x.abs());
            let signed = if x < 0.0 { T::ZERO - of } else { of };
            assert!(signed.size() < T::CODES);
            let (whole, code) = signed.nearest();
            assert_eq!(whole.to_f64(), signed.to_f64().round_ties_even(), "{x}");
            let number = whole.to_f64() as i64;
            assert_eq!(code.to_u64(), (number << 1 ^ number >> 63) as u64, "{x}");
            assert_eq!(T::whole(code), whole);
        }
    }

    #[test]
    fn whole_numbers_have_codes() {
        let numbers = [0.0, 0.5, -0.5, 0.51, 1.5, -1.5, 2.5, 1000.4999, -77.5, 4_194_302.5, -4_194_303.0];
        check::<f32>(&numbers);
        check::<f64>(&numbers);
        check::<f64>(&[2_251_799_813_685_246.5, -2_251_799_813_685_247.0]);
    }
}
