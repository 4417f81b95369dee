//! The words that stages compute with.

use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Not, Shl, Shr};

use crate::cpu::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::stage::entropy::simd::{Avx512, contexts as simd};
use crate::stage::quantize::{Float, Uniform};
use crate::stage::rows::{LANES, WithSimd, at_level, up_to_avx2};

/// `u32` or `u64`; arithmetic is modulo 2^BITS.
pub trait Word:
    Copy
    + Default
    + Ord
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitOrAssign
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const ZERO: Self;
    const BITS: u32;
    const BYTES: usize = Self::BITS as usize / 8;
    /// Bits of the fraction field of a float of this size.
    const FRACTION_BITS: u32;

    /// The low bits of `x`.
    fn from_u64(x: u64) -> Self;
    /// The word, zero-extended.
    fn to_u64(self) -> u64;
    /// The word, sign-extended.
    fn to_i64(self) -> i64;
    /// The value of the float whose bits these are.
    fn to_float(self) -> f64;
    /// The bits of the float that is nearest to a value.
    fn from_float(value: f64) -> Self;
    /// The word at the start of `bytes`.
    fn read(bytes: &[u8]) -> Self;
    /// Writes the word to the start of `bytes`.
    fn write(self, bytes: &mut [u8]);
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    fn wrapping_mul(self, other: Self) -> Self;
    /// Upper half of the whole product.
    fn high_product(self, other: Self) -> Self;
    /// Arithmetic shift to the right.
    fn shift_signed(self, n: u32) -> Self;
    fn leading_zeros(self) -> u32;
    fn trailing_zeros(self) -> u32;
    /// The smaller and the larger of two words in two's complement.
    fn min_max_signed(self, other: Self) -> (Self, Self);

    /// Runs a task with rows of words of this type and the instructions of a level.
    fn at_level<T: WithSimd<Self>>(level: Isa, task: T) -> T::Output;
    /// As [`Self::at_level`], but with AVX2 at most.
    fn up_to_avx2<T: WithSimd<Self>>(level: Isa, task: T) -> T::Output;

    /// Completes a row of numbers from their tails, see [`simd::read_tails_32`].
    #[cfg(target_arch = "x86_64")]
    fn read_tails(
        avx512: Avx512,
        symbols: &[u8; LANES],
        tails: &[u8],
        at: &mut usize,
        numbers: &mut [Self; LANES],
    ) -> bool;

    /// Joins the tails of a row of numbers, see [`simd::join_tails_32`].
    #[cfg(target_arch = "x86_64")]
    fn join_tails(
        avx512: Avx512,
        symbols: &[u16; LANES],
        numbers: &[Self; LANES],
        fields: &mut [u64; LANES / 2],
        lengths: &mut [u64; LANES / 2],
    ) -> Option<usize>;

    /// The quantizer of floats of this width, see [`Uniform`].
    fn uniform(float: Float, bound: f64) -> Option<Uniform<Self>>;
    /// The codes of a row if all its floats are in the first zone, see [`Uniform::first_codes`].
    fn first_codes(uniform: &Uniform<Self>, lanes: &[Self; LANES]) -> Option<[Self; LANES]>;
    /// The floats of a row of codes if all are in the first zone, see [`Uniform::first_values`].
    fn first_values(uniform: &Uniform<Self>, lanes: &[Self; LANES]) -> Option<[Self; LANES]>;
    /// Quantizes a row; returns the lanes that have a code, and those that are decoded within the
    /// bound.
    fn quantize(uniform: &Uniform<Self>, lanes: &mut [Self; LANES]) -> (u32, u32);
    /// Converts codes back to elements, see [`Word::quantize`].
    fn dequantize(uniform: &Uniform<Self>, lanes: &mut [Self; LANES]);

    /// 0 for 0, else 1 + the index of the highest set bit.
    #[inline(always)]
    fn bit_length(self) -> u32 {
        Self::BITS - self.leading_zeros()
    }
    /// The lowest `n` bits set, for `n` up to BITS.
    #[inline(always)]
    fn low_mask(n: u32) -> Self {
        if n == 0 { Self::default() } else { !Self::default() >> (Self::BITS - n) }
    }
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $twice:ty, $float:ty, $fraction_bits:literal, $read_tails:ident, $join_tails:ident) => {
        impl Word for $unsigned {
            const ZERO: Self = 0;
            const BITS: u32 = <$unsigned>::BITS;
            const FRACTION_BITS: u32 = $fraction_bits;

            fn at_level<T: WithSimd<Self>>(level: Isa, task: T) -> T::Output {
                at_level(level, task)
            }

            fn up_to_avx2<T: WithSimd<Self>>(level: Isa, task: T) -> T::Output {
                up_to_avx2(level, task)
            }

            #[inline(always)]
            fn from_u64(x: u64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self as $signed)
            }
            #[inline(always)]
            fn to_float(self) -> f64 {
                f64::from(<$float>::from_bits(self))
            }
            #[inline(always)]
            fn from_float(value: f64) -> Self {
                (value as $float).to_bits()
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("the bytes of a word"))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                *bytes.first_chunk_mut().expect("room for a word") = self.to_le_bytes();
            }
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn wrapping_mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn high_product(self, other: Self) -> Self {
                ((self as $twice * other as $twice) >> <$unsigned>::BITS) as Self
            }
            #[inline(always)]
            fn shift_signed(self, n: u32) -> Self {
                ((self as $signed) >> n) as Self
            }
            #[inline(always)]
            fn leading_zeros(self) -> u32 {
                <$unsigned>::leading_zeros(self)
            }
            #[inline(always)]
            fn trailing_zeros(self) -> u32 {
                <$unsigned>::trailing_zeros(self)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn read_tails(
                avx512: Avx512,
                symbols: &[u8; LANES],
                tails: &[u8],
                at: &mut usize,
                numbers: &mut [Self; LANES],
            ) -> bool {
                simd::$read_tails(avx512, symbols, tails, at, numbers)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn join_tails(
                avx512: Avx512,
                symbols: &[u16; LANES],
                numbers: &[Self; LANES],
                fields: &mut [u64; LANES / 2],
                lengths: &mut [u64; LANES / 2],
            ) -> Option<usize> {
                simd::$join_tails(avx512, symbols, numbers, fields, lengths)
            }
            fn uniform(float: Float, bound: f64) -> Option<Uniform<Self>> {
                Uniform::<$unsigned>::new(float, bound)
            }
            #[inline(always)]
            fn first_codes(uniform: &Uniform<Self>, lanes: &[Self; LANES]) -> Option<[Self; LANES]> {
                uniform.first_codes(lanes)
            }
            #[inline(always)]
            fn first_values(uniform: &Uniform<Self>, lanes: &[Self; LANES]) -> Option<[Self; LANES]> {
                uniform.first_values(lanes)
            }
            #[inline(always)]
            fn quantize(uniform: &Uniform<Self>, lanes: &mut [Self; LANES]) -> (u32, u32) {
                uniform.quantize(lanes)
            }
            #[inline(always)]
            fn dequantize(uniform: &Uniform<Self>, lanes: &mut [Self; LANES]) {
                uniform.dequantize(lanes);
            }
            #[inline(always)]
            fn min_max_signed(self, other: Self) -> (Self, Self) {
                let (a, b) = (self as $signed, other as $signed);
                (a.min(b) as Self, a.max(b) as Self)
            }
        }
    };
}

word!(u32, i32, u64, f32, 23, read_tails_32, join_tails_32);
word!(u64, i64, u128, f64, 52, read_tails_64, join_tails_64);
