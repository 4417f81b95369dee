//! Conversions of floats, for all levels with AVX2.

#![allow(unsafe_code)] // vector instructions

use std::arch::x86_64::*;

use crate::stage::rows::{KEYS, Keys, Lanes, PORTABLE, VALUES, put_given};

/// 1.5·2^52. The bits of this plus an integer of up to 51 bits are its bits plus the integer.
const OFFSET: f64 = 6_755_399_441_055_744.0;
const TWO_32: f64 = 4_294_967_296.0;
const TWO_51: f64 = 2_251_799_813_685_248.0;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// The values of these lanes.
#[inline(always)]
pub fn chosen(values: &[f64; KEYS], lanes: &Lanes) -> [f64; VALUES] {
    lanes.0.map(|lane| values[lane as usize % KEYS])
}

/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub unsafe fn ordered_singles(
    values: &[f64; KEYS],
    lanes: &Lanes,
    shift: u32,
    given: [(u8, i64); 2],
) -> [i64; VALUES] {
    let [a, b, c, d, e, f, g, h] = chosen(values, lanes);
    // SAFETY: by this function's contract.
    unsafe {
        let low = _mm256_cvtpd_ps(_mm256_setr_pd(a, b, c, d));
        let high = _mm256_cvtpd_ps(_mm256_setr_pd(e, f, g, h));
        let ordered = order(_mm256_set_m128(high, low), shift);
        let low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(ordered));
        let high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(ordered));
        stored([low, high], given)
    }
}

// Functions and no closures: compilers may compile closures for any processor.

/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub unsafe fn nearest(values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
    let [a, b, c, d, e, f, g, h] = chosen(values, lanes);
    // SAFETY: by this function's contract.
    unsafe {
        let low = rounded(_mm256_setr_pd(a, b, c, d));
        let high = rounded(_mm256_setr_pd(e, f, g, h));
        if are_below(TWO_51, low, high) {
            stored([small(low), small(high)], given)
        } else if are_below(TWO_63, low, high) {
            stored([large(low), large(high)], given)
        } else {
            nearest_of_any(values, lanes, given)
        }
    }
}

/// Rounds values to whole numbers, halves away from zero.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn rounded(values: __m256d) -> __m256d {
    // SAFETY: by this function's contract.
    unsafe {
        let half = _mm256_or_pd(_mm256_and_pd(values, _mm256_set1_pd(-0.0)), _mm256_set1_pd(0.5));
        _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(_mm256_add_pd(values, half))
    }
}

/// Whether the magnitudes of all values are below a limit.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn are_below(limit: f64, low: __m256d, high: __m256d) -> bool {
    // SAFETY: by this function's contract.
    unsafe {
        let (sign, limit) = (_mm256_set1_pd(-0.0), _mm256_set1_pd(limit));
        let low = _mm256_cmp_pd::<_CMP_LT_OQ>(_mm256_andnot_pd(sign, low), limit);
        let high = _mm256_cmp_pd::<_CMP_LT_OQ>(_mm256_andnot_pd(sign, high), limit);
        _mm256_movemask_pd(_mm256_and_pd(low, high)) == 0b1111
    }
}

/// The integers of whole numbers below 2^51.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn small(values: __m256d) -> __m256i {
    // SAFETY: by this function's contract.
    unsafe {
        let offset = _mm256_set1_pd(OFFSET);
        _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(values, offset)), _mm256_castpd_si256(offset))
    }
}

/// The integers of whole numbers below 2^63.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn large(values: __m256d) -> __m256i {
    // SAFETY: by this function's contract.
    unsafe {
        let quotient = _mm256_mul_pd(values, _mm256_set1_pd(1.0 / TWO_32));
        let upper = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(quotient);
        let lower = _mm256_sub_pd(values, _mm256_mul_pd(upper, _mm256_set1_pd(TWO_32)));
        _mm256_add_epi64(_mm256_slli_epi64::<32>(small(upper)), small(lower))
    }
}

/// [`nearest`] for values of any size.
#[cold]
fn nearest_of_any(values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
    PORTABLE.nearest(values, lanes, given)
}

/// The words of float32 in the order of values, shifted to the right; 0 for values that are not
/// finite.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn order(values: __m256, shift: u32) -> __m256i {
    // SAFETY: by this function's contract.
    unsafe {
        let words = _mm256_castps_si256(values);
        let sizes = _mm256_and_si256(words, _mm256_set1_epi32(i32::MAX));
        let are_finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f80_0000), sizes);
        let sign = _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(words));
        let ordered = _mm256_and_si256(_mm256_xor_si256(words, sign), are_finite);
        _mm256_sra_epi32(ordered, _mm_cvtsi32_si128(shift as i32))
    }
}

/// The numbers of two registers and of `given`.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn stored(registers: [__m256i; 2], given: [(u8, i64); 2]) -> [i64; VALUES] {
    let mut numbers = [0; VALUES];
    let to = numbers.as_mut_ptr().cast::<__m256i>();
    // SAFETY: by this function's contract; the numbers are as long as two registers.
    unsafe {
        _mm256_storeu_si256(to, registers[0]);
        _mm256_storeu_si256(to.add(1), registers[1]);
    }
    put_given(&mut numbers, given);
    numbers
}
