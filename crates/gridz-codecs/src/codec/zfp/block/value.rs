//! The element types of blocks, and their conversion to integers.

use crate::stage::word::Word;

/// An element: `f32` or `f64`, or an integer of the same size as the float with its bits.
pub trait Scalar: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The word of such an element, in which blocks are computed.
    type Word: Word;
    /// Bits of the exponent of a block of floats.
    const EXPONENT_BITS: u32;
    /// Bias of that exponent.
    const BIAS: i32;
    /// Bits of the number of planes of a reversible block.
    const PLANES_BITS: u32;

    /// Bytes of an element.
    const BYTES: usize = Self::Word::BYTES;

    /// Reads an element from little-endian bytes.
    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        Self::of_word(Self::Word::read(bytes))
    }
    /// Writes the element to little-endian bytes.
    #[inline(always)]
    fn write(self, bytes: &mut [u8]) {
        self.word().write(bytes);
    }
    /// The element's word.
    fn word(self) -> Self::Word;
    /// The element with a word.
    fn of_word(word: Self::Word) -> Self;
    /// The bits of the float without the sign.
    fn magnitude(self) -> Self::Word;
    /// 2^exponent, rounded to the type; it may be 0 or infinite.
    fn power(exponent: i32) -> Self;
    /// The product with a power of two as an integer, truncated towards zero.
    fn scaled(self, power: Self) -> Self::Word;
    /// Converts an integer to a float and multiplies it by a power of two.
    fn of_scaled(number: Self::Word, power: Self) -> Self;
}

macro_rules! float {
    ($float:ident, $word:ty, $signed:ty, $exponent_bits:literal, $planes_bits:literal) => {
        impl Scalar for $float {
            type Word = $word;
            const EXPONENT_BITS: u32 = $exponent_bits;
            const BIAS: i32 = (1 << ($exponent_bits - 1)) - 1;
            const PLANES_BITS: u32 = $planes_bits;

            #[inline(always)]
            fn word(self) -> $word {
                self.to_bits()
            }
            #[inline(always)]
            fn of_word(word: $word) -> Self {
                Self::from_bits(word)
            }
            #[inline(always)]
            fn magnitude(self) -> $word {
                self.to_bits() & (<$word>::MAX >> 1)
            }
            #[inline(always)]
            fn power(exponent: i32) -> Self {
                const FRACTION_BITS: i32 = $float::MANTISSA_DIGITS as i32 - 1;
                let field = exponent + Self::BIAS;
                Self::from_bits(if field > 0 {
                    (field.min(2 * Self::BIAS + 1) as $word) << FRACTION_BITS
                } else if field > -FRACTION_BITS {
                    1 << (field + FRACTION_BITS - 1)
                } else {
                    0
                })
            }
            #[inline(always)]
            fn scaled(self, power: Self) -> $word {
                (self * power) as $signed as $word
            }
            #[inline(always)]
            fn of_scaled(number: $word, power: Self) -> Self {
                number as $signed as Self * power
            }
        }
    };
}

float!(f32, u32, i32, 8, 5);
float!(f64, u64, i64, 11, 6);

/// The exponent of a block of floats. It is e if its largest magnitude is f·2^e with 1/2 ≤ f < 1,
/// but at least that of the smallest normal number, or −[`Scalar::BIAS`] if all are zero.
#[inline(always)]
pub fn exponent<T: Scalar>(block: &[T]) -> i32 {
    let mut largest = T::Word::default();
    for value in block {
        largest = largest.max(value.magnitude());
    }
    exponent_of::<T>(largest)
}

/// The exponent of a block with this largest magnitude.
#[inline(always)]
pub fn exponent_of<T: Scalar>(largest: T::Word) -> i32 {
    if largest == T::Word::default() {
        return -T::BIAS;
    }
    (largest >> (T::Word::BITS - 1 - T::EXPONENT_BITS)).to_u64() as i32 + 1 - T::BIAS
}

/// True if, for a block with this exponent, no power of two converts its floats to integers. All
/// elements of such a block are coded as 0, unless it is reversible.
#[inline(always)]
pub fn is_tiny<T: Scalar>(exponent: i32) -> bool {
    T::Word::BITS as i32 - 2 - exponent > T::BIAS
}

/// The smallest magnitude of a block for which [`is_tiny`] is false.
pub fn tiny_limit<T: Scalar>() -> T::Word {
    T::power(T::Word::BITS as i32 - 3 - T::BIAS).word()
}

/// Inverts the other bits of floats whose top bit is set, so that words have the order of values.
#[inline(always)]
pub fn sortable<W: Word>(word: W) -> W {
    word ^ (word.shift_signed(W::BITS - 1) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_where_tiny_blocks_end<T: Scalar>() {
        let limit = tiny_limit::<T>();
        let below = limit.wrapping_sub(T::Word::from_u64(1));
        assert!(!is_tiny::<T>(exponent_of::<T>(limit)) && is_tiny::<T>(exponent_of::<T>(below)));
    }

    #[test]
    fn the_limit_is_where_tiny_blocks_end() {
        is_where_tiny_blocks_end::<f32>();
        is_where_tiny_blocks_end::<f64>();
    }
}
