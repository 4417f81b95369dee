//! AVX2: a row is four or eight registers.
//!
//! The portable code compresses and expands words, since AVX2 has no instructions for it.

use std::arch::x86_64::*;

use super::{Token, each, rows};
use crate::stage::rows::{LANES, LENGTHS, Simd, WithSimd};

/// Proof that the CPU has the instructions of the level.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Token for Avx2 {
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }
}

/// A shift count for all lanes.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn count(n: u32) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_cvtsi32_si128(n as i32) }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn shift_right_signed_32(a: __m256i, n: u32) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_sra_epi32(a, count(n)) }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn shift_right_signed_64(a: __m256i, n: u32) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        // The position of the sign bit after the shift.
        let sign = _mm256_srl_epi64(_mm256_set1_epi64x(i64::MIN), count(n));
        _mm256_sub_epi64(_mm256_xor_si256(_mm256_srl_epi64(a, count(n)), sign), sign)
    }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn min_64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)) }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn max_64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)) }
}

/// Products modulo 2^64: the upper halves of the factors contribute only to the upper half.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn products_64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let (upper_a, upper_b) = (_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
        let upper = _mm256_add_epi64(_mm256_mul_epu32(upper_a, b), _mm256_mul_epu32(a, upper_b));
        _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64::<32>(upper))
    }
}

/// Bit lengths, from the exponents of floats. The bit below the highest one is cleared first, so
/// that no float is rounded up to the next power of two.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn lengths_32(a: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let floats = _mm256_cvtepi32_ps(_mm256_andnot_si256(_mm256_srli_epi32::<1>(a), a));
        // Numbers with the top bit set become negative floats; the blend gives them 32 bits.
        let exponents = _mm256_srli_epi32::<24>(_mm256_slli_epi32::<1>(_mm256_castps_si256(floats)));
        let lengths = _mm256_max_epi32(_mm256_sub_epi32(exponents, _mm256_set1_epi32(126)), _mm256_setzero_si256());
        _mm256_blendv_epi8(lengths, _mm256_set1_epi32(32), _mm256_srai_epi32::<31>(a))
    }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn leading_zeros_32(a: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_sub_epi32(_mm256_set1_epi32(32), lengths_32(a)) }
}

/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn leading_zeros_64(a: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let lengths = lengths_32(a);
        let (low, high) = (_mm256_and_si256(lengths, _mm256_set1_epi64x(0xff)), _mm256_srli_epi64::<32>(lengths));
        let if_high = _mm256_sub_epi64(_mm256_set1_epi64x(32), high);
        let if_low = _mm256_sub_epi64(_mm256_set1_epi64x(64), low);
        _mm256_blendv_epi8(if_high, if_low, _mm256_cmpeq_epi64(high, _mm256_setzero_si256()))
    }
}

/// Leading zeros of the longest of every eight words; zeros in the last lanes.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn group_zeros_32([a, b, c, d]: [__m256i; 4]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        // Combines the words of each register by OR: to two in each half, to one in each half, and
        // to one.
        let ab = _mm256_or_si256(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let cd = _mm256_or_si256(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        let all = _mm256_or_si256(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
        let any = _mm_or_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all));
        let zeros = leading_zeros_32(_mm256_castsi128_si256(any));
        _mm256_blend_epi32::<0xf0>(zeros, _mm256_setzero_si256())
    }
}

/// [`group_zeros_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn group_zeros_64([a, b, c, d, e, f, g, h]: [__m256i; 8]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (_mm256_or_si256(a, b), _mm256_or_si256(c, d));
        let (c, d) = (_mm256_or_si256(e, f), _mm256_or_si256(g, h));
        // Combines the words of each pair of registers by OR: to one in each half, and to one.
        let ab = _mm256_or_si256(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        let cd = _mm256_or_si256(_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
        let any =
            _mm256_or_si256(_mm256_permute2x128_si256::<0x20>(ab, cd), _mm256_permute2x128_si256::<0x31>(ab, cd));
        leading_zeros_64(any)
    }
}

/// The operations for a type of word. A register has `$lanes` words, a row has `$n` registers.
macro_rules! level {
    (
        $word:ty, $n:literal, $lanes:literal, $bytes:literal, $set1:ident, $add:ident, $sub:ident, $mul:ident,
        $sll:ident, $srl:ident, $sra:ident, $min:ident, $max:ident, $lzcnt:ident, $cmpgt:ident, $movemask:ident,
        $cast:ident, $bits:ident, $sllv:ident, $srlv:ident, $group_zeros:ident
    ) => {
        impl Simd<$word> for Avx2 {
            type Row = [__m256i; $n];
            type Sum = __m256i;

            #[inline(always)]
            fn outlined<T: WithSimd<$word>>(self, task: T) -> T::Output {
                // SAFETY: the token is proof of the instructions.
                unsafe { super::with_avx2(task) }
            }

            #[inline(always)]
            fn outlined_up_to_avx2<T: WithSimd<$word>>(self, task: T) -> T::Output {
                // SAFETY: the token is proof of the instructions.
                unsafe { super::with_avx2(task) }
            }

            rows! { $word, __m256i, $n, $bytes, _mm256_loadu_si256, _mm256_storeu_si256 }
            each! { splat(word: $word) [__m256i; $n] = $set1(word as _) }
            each! { add(a, b) = $add(a, b) }
            each! { sub(a, b) = $sub(a, b) }
            each! { and(a, b) = _mm256_and_si256(a, b) }
            each! { or(a, b) = _mm256_or_si256(a, b) }
            each! { xor(a, b) = _mm256_xor_si256(a, b) }
            each! { min_signed(a, b) = $min(a, b) }
            each! { max_signed(a, b) = $max(a, b) }
            each! { mul_scalar(a; factor: $word) = $mul(a, $set1(factor as _)) }
            each! { mul(a, b) = $mul(a, b) }
            each! { shift_left(a; n: u32) = $sll(a, count(n)) }
            each! { shift_right(a; n: u32) = $srl(a, count(n)) }
            each! { shift_right_signed(a; n: u32) = $sra(a, n) }
            each! { shift_left_each(a, n) = $sllv(a, n) }
            each! { shift_right_each(a, n) = $srlv(a, n) }
            each! { leading_zeros(a) = $lzcnt(a) }

            #[inline(always)]
            fn no_sum(self) -> Self::Sum {
                // SAFETY: the token is proof of the instructions.
                unsafe { _mm256_setzero_si256() }
            }
            #[inline(always)]
            fn add_leading_zeros(self, mut sum: Self::Sum, mask: u32, a: Self::Row) -> Self::Sum {
                let mut zeros = Simd::<$word>::leading_zeros(self, a);
                if mask != u32::MAX {
                    zeros = Simd::<$word>::select_or_zero(self, mask, zeros);
                }
                for zeros in zeros {
                    // SAFETY: the token is proof of the instructions.
                    sum = unsafe { $add(sum, zeros) };
                }
                sum
            }
            #[inline(always)]
            fn add_group_zeros(self, sum: Self::Sum, a: Self::Row) -> Self::Sum {
                // SAFETY: the token is proof of the instructions.
                unsafe { $add(sum, $group_zeros(a)) }
            }
            #[inline(always)]
            fn group_lengths(self, numbers: &[$word], lengths: &mut [u8]) {
                let mut k = 0;
                while k < lengths.len() / (LANES / 8) {
                    let mut zeros = [0 as $word; $lanes];
                    // SAFETY: the token is proof of the instructions; there are as many words as a register has.
                    unsafe {
                        let row = Simd::<$word>::load(self, &numbers[k * LANES..]);
                        _mm256_storeu_si256(zeros.as_mut_ptr().cast(), $group_zeros(row));
                    }
                    let mut i = 0;
                    while i < LANES / 8 {
                        lengths[k * (LANES / 8) + i] = (<$word>::BITS as $word - zeros[i]) as u8;
                        i += 1;
                    }
                    k += 1;
                }
            }
            #[inline(always)]
            fn total(self, sum: Self::Sum) -> u64 {
                let mut words = [0 as $word; $lanes];
                // SAFETY: the token is proof of the instructions; there are as many words as a register has.
                unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), sum) };
                let mut total = 0;
                for word in words {
                    total += word as u64;
                }
                total
            }
            #[inline(always)]
            fn gt_mask(self, a: Self::Row, limit: $word) -> u32 {
                let mut mask = 0;
                for i in 0..$n {
                    // SAFETY: the token is proof of the instructions.
                    let lanes = unsafe {
                        // AVX2 compares only signed numbers.
                        let sign = 1 << (<$word>::BITS - 1);
                        let a = _mm256_xor_si256(a[i], $set1(sign as _));
                        $movemask($cast($cmpgt(a, $set1((limit ^ sign) as _))))
                    };
                    mask |= (lanes as u32) << (i * $lanes);
                }
                mask
            }
            #[inline(always)]
            fn select_or_zero(self, mask: u32, mut a: Self::Row) -> Self::Row {
                for i in 0..$n {
                    // SAFETY: the token is proof of the instructions.
                    unsafe {
                        let bits = $bits();
                        let lanes = _mm256_and_si256($set1((mask >> (i * $lanes)) as _), bits);
                        // All bits but the lane's own are zero, so a shift is not needed to compare.
                        let is_kept = if $lanes == 8 {
                            _mm256_cmpeq_epi32(lanes, bits)
                        } else {
                            _mm256_cmpeq_epi64(lanes, bits)
                        };
                        a[i] = _mm256_and_si256(a[i], is_kept);
                    }
                }
                a
            }
            #[inline(always)]
            fn shift_in(self, a: Self::Row, before: Self::Row) -> Self::Row {
                let mut row = a;
                for i in 0..$n {
                    let before = if i == 0 { before[$n - 1] } else { a[i - 1] };
                    // SAFETY: the token is proof of the instructions.
                    row[i] = unsafe {
                        _mm256_alignr_epi8::<{ 16 - $bytes }>(a[i], _mm256_permute2x128_si256::<0x21>(before, a[i]))
                    };
                }
                row
            }
            #[inline(always)]
            fn prefix_sum(self, mut a: Self::Row) -> Self::Row {
                // SAFETY: the token is proof of the instructions.
                unsafe {
                    let zero = _mm256_setzero_si256();
                    for a in &mut a {
                        *a = $add(*a, _mm256_bslli_epi128::<$bytes>(*a));
                        if $bytes == 4 {
                            *a = $add(*a, _mm256_bslli_epi128::<8>(*a));
                        }
                        // The last word of the lower half.
                        let low = if $bytes == 4 {
                            _mm256_permutevar8x32_epi32(*a, _mm256_set1_epi32(3))
                        } else {
                            _mm256_permute4x64_epi64::<0x55>(*a)
                        };
                        *a = $add(*a, _mm256_blend_epi32::<0xf0>(zero, low));
                    }
                    for i in 1..$n {
                        a[i] = $add(a[i], last_of(a[i - 1], $bytes));
                    }
                }
                a
            }
            #[inline(always)]
            fn last(self, a: Self::Row) -> Self::Row {
                // SAFETY: the token is proof of the instructions.
                [unsafe { last_of(a[$n - 1], $bytes) }; $n]
            }
            #[inline(always)]
            fn prefetch(self, byte: *const u8) {
                // SAFETY: nothing is accessed.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(byte.cast()) };
            }
            #[inline(always)]
            fn counts_larger(self, bytes: &[u8; LENGTHS], limit: u8) -> [u64; 8] {
                let mut result = [0; 8];
                for (result, limit) in result.iter_mut().zip(limit..) {
                    // SAFETY: the token is proof of the instructions; a register has 32 bytes, which as signed numbers
                    // are never negative.
                    *result = unsafe {
                        let limit = _mm256_set1_epi8(limit as i8);
                        let mut counts = _mm256_setzero_si256();
                        for bytes in bytes.as_chunks::<32>().0 {
                            let bytes = _mm256_loadu_si256(bytes.as_ptr().cast());
                            counts = _mm256_sub_epi8(counts, _mm256_cmpgt_epi8(bytes, limit));
                        }
                        let sums = _mm256_sad_epu8(counts, _mm256_setzero_si256());
                        let sums = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
                        (_mm_cvtsi128_si64(sums) + _mm_extract_epi64::<1>(sums)) as u64
                    };
                }
                result
            }
        }
    };
}

/// The last word in all lanes.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn last_of(a: __m256i, word_bytes: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if word_bytes == 4 {
            _mm256_permutevar8x32_epi32(a, _mm256_set1_epi32(7))
        } else {
            _mm256_permute4x64_epi64::<0xff>(a)
        }
    }
}

/// Every lane's own bit.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn bits_32() -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128) }
}

/// [`bits_32`] for 64-bit words.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn bits_64() -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_setr_epi64x(1, 2, 4, 8) }
}

level!(
    u32,
    4,
    8,
    4,
    _mm256_set1_epi32,
    _mm256_add_epi32,
    _mm256_sub_epi32,
    _mm256_mullo_epi32,
    _mm256_sll_epi32,
    _mm256_srl_epi32,
    shift_right_signed_32,
    _mm256_min_epi32,
    _mm256_max_epi32,
    leading_zeros_32,
    _mm256_cmpgt_epi32,
    _mm256_movemask_ps,
    _mm256_castsi256_ps,
    bits_32,
    _mm256_sllv_epi32,
    _mm256_srlv_epi32,
    group_zeros_32
);
level!(
    u64,
    8,
    4,
    8,
    _mm256_set1_epi64x,
    _mm256_add_epi64,
    _mm256_sub_epi64,
    products_64,
    _mm256_sll_epi64,
    _mm256_srl_epi64,
    shift_right_signed_64,
    min_64,
    max_64,
    leading_zeros_64,
    _mm256_cmpgt_epi64,
    _mm256_movemask_pd,
    _mm256_castsi256_pd,
    bits_64,
    _mm256_sllv_epi64,
    _mm256_srlv_epi64,
    group_zeros_64
);
