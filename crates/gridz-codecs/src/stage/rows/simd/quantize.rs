//! Quantizes floats with AVX-512 and converts them back, see [`Uniform`], a register at a time. If
//! all its numbers are in the first zone, it does only that zone's arithmetic.

use std::arch::x86_64::*;

use crate::stage::quantize::{SPARE_BITS, Uniform, ZONES};

/// Both directions for one width of words.
macro_rules! quantize {
    ($module:ident, $word:ty, $float:ty, $vector:ty, $mask:ty, { $($instruction:ident as $name:ident,)* }) => {
        /// For registers of one width of words.
        pub mod $module {
            use std::arch::x86_64::{$($instruction as $name,)*};
            use super::*;

            /// A float in all lanes, given its bits.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            unsafe fn float(word: $word) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { to_floats(set1(word as _)) }
            }

            /// Looks up each zone in a table.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            unsafe fn in_table(zones: __m512i, table: &[$word; ZONES]) -> __m512i {
                // SAFETY: the caller's promise; there are four words.
                unsafe { look_up(zones, all_four(load_four(table.as_ptr().cast()))) }
            }

            /// A word in all lanes.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            unsafe fn all(word: $word) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { set1(word as _) }
            }

            /// Parameters of the zones of a register's numbers.
            struct Found {
                start: $vector,
                end: $vector,
                step: $vector,
                inverse: $vector,
                first: __m512i,
            }

            /// Looks up the parameters of zones by the zones' numbers.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            unsafe fn find(zones: __m512i, uniform: &Uniform<$word>) -> Found {
                // SAFETY: the caller's promise; tables have four words.
                unsafe {
                    let [_, a, b, c] = uniform.starts;
                    let ends = [a, b, c, <$float>::INFINITY.to_bits()];
                    Found {
                        start: to_floats(in_table(zones, &uniform.starts)),
                        end: to_floats(in_table(zones, &ends)),
                        step: to_floats(in_table(zones, &uniform.steps)),
                        inverse: to_floats(in_table(zones, &uniform.inverses)),
                        first: in_table(zones, &uniform.firsts),
                    }
                }
            }

            /// Quantizes floats: the codes, a mask of the floats that have one, and a mask of those
            /// that are also within the bound.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            pub unsafe fn quantize(words: __m512i, uniform: &Uniform<$word>) -> (__m512i, $mask, $mask) {
                const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
                // SAFETY: the caller's promise.
                unsafe {
                    let size = abs(to_floats(words));
                    let end = float(uniform.starts[1]);
                    let are_low = compare::<_CMP_LT_OQ>(size, end);
                    let (sizes, values, are_coded);
                    if are_low == <$mask>::MAX {
                        let steps = round::<NEAREST>(times(size, float(uniform.inverses[0])));
                        sizes = to_words(steps);
                        values = least(times(steps, float(uniform.steps[0])), end);
                        are_coded = are_low;
                    } else {
                        let mut zones = _mm512_setzero_si512();
                        let [_, starts @ ..] = uniform.starts;
                        for start in starts {
                            let are_in = compare::<_CMP_GE_OQ>(size, float(start));
                            zones = plus_some_words(zones, are_in, zones, all(1));
                        }
                        let zone = find(zones, uniform);
                        let rest = minus(size, zone.start);
                        let mut steps = round::<NEAREST>(times(rest, zone.inverse));
                        let one = float((1.0 as $float).to_bits());
                        let half = times(zone.step, float((0.5 as $float).to_bits()));
                        let error = minus(rest, times(steps, zone.step));
                        let above = !are_low & compare::<_CMP_GT_OQ>(error, half);
                        let below = !are_low & compare::<_CMP_LT_OQ>(plus(error, half), to_floats(_mm512_setzero_si512()));
                        steps = plus_some(steps, above, steps, one);
                        steps = minus_some(steps, below, steps, one);
                        are_coded = compare::<_CMP_LT_OQ>(steps, float(uniform.most));
                        sizes = keep_words(are_coded, plus_words(to_words(steps), zone.first));
                        values = least(plus(times(steps, zone.step), zone.start), zone.end);
                    }
                    let errors = abs(minus(size, values));
                    let codes = minus_some_words(sizes, signs(words), _mm512_setzero_si512(), sizes);
                    (codes, are_coded, are_coded & compare::<_CMP_LE_OQ>(errors, float(uniform.bound)))
                }
            }

            /// The floats that codes stand for.
            ///
            /// # Safety
            /// The CPU must have AVX-512.
            #[inline(always)]
            pub unsafe fn dequantize(codes: __m512i, uniform: &Uniform<$word>) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe {
                    let sizes = _mm512_and_si512(abs_words(codes), all(<$word>::MAX >> SPARE_BITS));
                    let x = if less_words(sizes, all(uniform.firsts[1])) == <$mask>::MAX {
                        least(times(from_words(sizes), float(uniform.steps[0])), float(uniform.starts[1]))
                    } else {
                        let mut zones = _mm512_setzero_si512();
                        let [_, firsts @ ..] = uniform.firsts;
                        for first in firsts {
                            zones = plus_some_words(zones, !less_words(sizes, all(first)), zones, all(1));
                        }
                        let zone = find(zones, uniform);
                        let steps = from_words(minus_words(sizes, zone.first));
                        least(plus(times(steps, zone.step), zone.start), zone.end)
                    };
                    _mm512_or_si512(to_bits(x), _mm512_and_si512(codes, all(1 << (<$word>::BITS - 1))))
                }
            }
        }
    };
}

quantize!(f32x16, u32, f32, __m512, __mmask16, {
    _mm512_set1_epi32 as set1,
    _mm_loadu_epi32 as load_four,
    _mm512_broadcast_i32x4 as all_four,
    _mm512_permutexvar_epi32 as look_up,
    _mm512_castsi512_ps as to_floats,
    _mm512_castps_si512 as to_bits,
    _mm512_cvtps_epi32 as to_words,
    _mm512_cvtepi32_ps as from_words,
    _mm512_abs_ps as abs,
    _mm512_add_ps as plus,
    _mm512_sub_ps as minus,
    _mm512_mask_add_ps as plus_some,
    _mm512_mask_sub_ps as minus_some,
    _mm512_mul_ps as times,
    _mm512_min_ps as least,
    _mm512_cmp_ps_mask as compare,
    _mm512_roundscale_ps as round,
    _mm512_abs_epi32 as abs_words,
    _mm512_add_epi32 as plus_words,
    _mm512_sub_epi32 as minus_words,
    _mm512_mask_add_epi32 as plus_some_words,
    _mm512_mask_sub_epi32 as minus_some_words,
    _mm512_maskz_mov_epi32 as keep_words,
    _mm512_cmplt_epi32_mask as less_words,
    _mm512_movepi32_mask as signs,
});
quantize!(f64x8, u64, f64, __m512d, __mmask8, {
    _mm512_set1_epi64 as set1,
    _mm256_loadu_epi64 as load_four,
    _mm512_broadcast_i64x4 as all_four,
    _mm512_permutexvar_epi64 as look_up,
    _mm512_castsi512_pd as to_floats,
    _mm512_castpd_si512 as to_bits,
    _mm512_cvtpd_epi64 as to_words,
    _mm512_cvtepi64_pd as from_words,
    _mm512_abs_pd as abs,
    _mm512_add_pd as plus,
    _mm512_sub_pd as minus,
    _mm512_mask_add_pd as plus_some,
    _mm512_mask_sub_pd as minus_some,
    _mm512_mul_pd as times,
    _mm512_min_pd as least,
    _mm512_cmp_pd_mask as compare,
    _mm512_roundscale_pd as round,
    _mm512_abs_epi64 as abs_words,
    _mm512_add_epi64 as plus_words,
    _mm512_sub_epi64 as minus_words,
    _mm512_mask_add_epi64 as plus_some_words,
    _mm512_mask_sub_epi64 as minus_some_words,
    _mm512_maskz_mov_epi64 as keep_words,
    _mm512_cmplt_epi64_mask as less_words,
    _mm512_movepi64_mask as signs,
});
