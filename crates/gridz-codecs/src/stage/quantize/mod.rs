//! Quantizers: elements become integers, their codes, and codes become elements within a bound of
//! the original ones.
//!
//! A code depends only on the element and on the requested bound. The element that a code stands
//! for has the same code again, or it has none and then stays unchanged. So an array can be decoded
//! and encoded any number of times, whole or in parts, and no element ever differs from the
//! original one by more than the bound. (Predicting integers is the idea of cuSZp and other
//! compressors, here without their loss: Huang et al., "cuSZp", SC '23.)
//!
//! [`Uniform`] is for floats: multiples of a step of nearly twice the bound. If an element is many
//! steps large, a product in the float's precision would be rounded so much that it breaks the
//! bound. So the larger the elements, the fewer significant bits the step has, and all multiples
//! are exact. [`Whole`] is for integers. [`Relative`] is for bounds relative to the element: it
//! takes the bits of a float as an integer, which is near enough to its logarithm.
//!
//! A quantizer also reports which elements have a code, and which of those are decoded within the
//! bound. All arithmetic is that of IEEE 754 in the element's format, or in binary32 for narrower
//! ones, one operation at a time.
//!
//! This code is written for rows of lanes as arrays, without branches within a row, so that
//! compilers vectorize it. With AVX-512, floats of 32 and 64 bits have code of their own.

mod numbers;
mod relative;
#[cfg(test)]
mod tests;
mod uniform;
mod whole;

pub use numbers::Numbers;
pub use relative::Relative;
pub use uniform::{SPARE_BITS, Uniform, ZONES};
use whole::Whole;

use crate::stage::rows::{LANES, PORTABLE, Simd, mask_of, outlined};
use crate::stage::word::Word;
use crate::types::DType;

/// A quantized row: the codes, which elements have one, and which of those are decoded within the
/// bound.
pub struct Coded<R> {
    /// The codes, in two's complement; zeros where there is none.
    pub codes: R,
    /// The lanes of elements that have a code.
    pub are_coded: u32,
    /// The lanes of those that are decoded within the bound.
    pub are_within: u32,
}

/// A quantizer of elements, which are given as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantizer<W> {
    /// Floats with an absolute bound.
    Uniform(Uniform<W>),
    /// Integers with an absolute bound.
    Whole(Whole<W>),
    /// Floats with a bound relative to each of them.
    Relative(Relative<W>),
}

impl<W: Word> Quantizer<W> {
    /// For elements of one part and an absolute bound above 0. `None` if no element has a code.
    pub fn absolute(dtype: DType, bound: f64) -> Option<Self> {
        Float::of(dtype).map_or_else(
            || Some(Self::Whole(Whole::new(dtype, bound))),
            |float| W::uniform(float, bound).map(Self::Uniform),
        )
    }

    /// For floats, with a bound between 0 and 1 relative to each of them. `None` for other
    /// elements.
    pub fn relative(dtype: DType, bound: f64) -> Option<Self> {
        Float::of(dtype).map(|float| Self::Relative(Relative::new(float, bound)))
    }

    /// Quantizes a row.
    #[inline(always)]
    pub fn code<S: Simd<W>>(&self, s: S, words: S::Row) -> Coded<S::Row> {
        match self {
            Self::Uniform(uniform) => s.quantize(uniform, words),
            _ => {
                let mut lanes = lanes_of(s, words);
                let are_coded = quantize(s, self, &mut lanes);
                Coded { codes: s.load(&lanes), are_coded, are_within: are_coded }
            }
        }
    }

    /// The code of one word, 0 if it has none.
    pub fn code_of(&self, word: W) -> W {
        self.code(PORTABLE, [word; LANES]).codes[0]
    }

    /// The word of one code.
    pub fn value_of(&self, code: W) -> W {
        self.value(PORTABLE, [code; LANES])[0]
    }

    /// The words of a row of codes.
    #[inline(always)]
    pub fn value<S: Simd<W>>(&self, s: S, codes: S::Row) -> S::Row {
        match self {
            Self::Uniform(uniform) => s.dequantize(uniform, codes),
            _ => {
                let mut lanes = lanes_of(s, codes);
                self.values(s, &mut lanes);
                s.load(&lanes)
            }
        }
    }

    /// Converts whole rows of codes to words.
    #[inline(always)]
    pub fn values<S: Simd<W>>(&self, s: S, codes: &mut [W]) {
        values(s, self, codes);
    }
}

outlined! {
    /// Quantizes a row of words, for the quantizers that are not part of [`Simd`]. Returns the lanes
    /// that have a code.
    fn quantize<'a, W>(_s, quantizer: &'a Quantizer<W>, lanes: &'a mut [W; LANES]) -> u32 {
        match quantizer {
            Quantizer::Whole(whole) => {
                whole.quantize(lanes);
                u32::MAX
            }
            Quantizer::Relative(relative) => relative.quantize(lanes),
            Quantizer::Uniform(_) => unreachable!("part of Simd"),
        }
    }

    /// See [`Quantizer::values`].
    fn values<'a, W>(s, quantizer: &'a Quantizer<W>, codes: &'a mut [W]) {
        for lanes in codes.as_chunks_mut().0 {
            match quantizer {
                // Inlined: narrow floats have no faster way, and a call for each row takes 7 %.
                Quantizer::Uniform(uniform) if uniform.float.is_narrow() => W::dequantize(uniform, lanes),
                Quantizer::Uniform(uniform) => s.store(s.dequantize(uniform, s.load(lanes)), lanes),
                Quantizer::Whole(whole) => whole.dequantize(lanes),
                Quantizer::Relative(relative) => relative.dequantize(lanes),
            }
        }
    }

    /// See [`any_codes`].
    fn codes_of_lanes<'a, W>(_s, uniform: &'a Uniform<W>, lanes: &'a mut [W; LANES]) -> (u32, u32) {
        W::quantize(uniform, lanes)
    }

    /// See [`any_values`].
    fn values_of_lanes<'a, W>(_s, uniform: &'a Uniform<W>, lanes: &'a mut [W; LANES]) {
        W::dequantize(uniform, lanes);
    }
}

/// Quantizes a row of floats of any width and size.
#[inline(always)]
pub fn any_codes<W: Word, S: Simd<W>>(s: S, uniform: &Uniform<W>, floats: S::Row) -> Coded<S::Row> {
    let mut lanes = lanes_of(s, floats);
    // Inlined where speed matters: a call for each row takes 5 % of compression.
    let (are_coded, are_within) = match S::IS_SMALL {
        true => codes_of_lanes(s, uniform, &mut lanes),
        false => W::quantize(uniform, &mut lanes),
    };
    Coded { codes: s.load(&lanes), are_coded, are_within }
}

/// Converts a row of codes to floats of any width and size.
#[inline(always)]
pub fn any_values<W: Word, S: Simd<W>>(s: S, uniform: &Uniform<W>, codes: S::Row) -> S::Row {
    let mut lanes = lanes_of(s, codes);
    values_of_lanes(s, uniform, &mut lanes);
    s.load(&lanes)
}

/// A row as an array.
#[inline(always)]
pub fn lanes_of<W: Word, S: Simd<W>>(s: S, row: S::Row) -> [W; LANES] {
    let mut lanes = [W::default(); LANES];
    s.store(row, &mut lanes);
    lanes
}

/// The lanes whose words are not 0.
#[inline(always)]
fn lanes_set<W: Word>(words: &[W; LANES]) -> u32 {
    let mut flags = [0; LANES];
    let mut i = 0;
    while i < LANES {
        flags[i] = u8::from(words[i] != W::default());
        i += 1;
    }
    mask_of(&flags)
}

/// Division by an odd number: the upper half of a product, shifted, is the quotient or one less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor<W> {
    divisor: W,
    factor: W,
    shift: u32,
}

impl<W: Word> Divisor<W> {
    /// For an odd divisor; twice the divisor must fit in a word.
    fn new(divisor: W) -> Self {
        let shift = divisor.bit_length() - 1;
        let factor = (1u128 << (W::BITS + shift)) / u128::from(divisor.to_u64());
        Self { divisor, factor: W::from_u64(factor.min(W::low_mask(W::BITS).to_u64().into()) as u64), shift }
    }

    /// Returns a quotient, which may be one too small, and its remainder, which is less than twice
    /// the divisor.
    ///
    /// Let the factor be (2^(BITS + shift) − e) / divisor, where e is less than the divisor (or 1
    /// if the divisor is 1). Then the product is less than the exact one by n · e / divisor.
    /// Divided by 2^(BITS + shift), that is less than 1.
    #[inline(always)]
    fn divide(&self, n: W) -> (W, W) {
        let quotient = n.high_product(self.factor) >> self.shift;
        (quotient, n.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}

/// Formats of floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
}

impl Float {
    /// The format of a type's elements, if they are floats.
    fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F16 => Some(Self::F16),
            DType::Bf16 => Some(Self::Bf16),
            DType::F32 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Whether elements are narrower than a word, so that arithmetic is in binary32.
    #[inline(always)]
    pub fn is_narrow(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// Bits of the fraction field, and of the whole float.
    fn bits(self) -> (u32, u32) {
        match self {
            Self::F16 => (10, 16),
            Self::Bf16 => (7, 16),
            Self::F32 => (23, 32),
            Self::F64 => (52, 64),
        }
    }
}
