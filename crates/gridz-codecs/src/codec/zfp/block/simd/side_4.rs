//! Planes of blocks of four positions, side by side.

use std::arch::x86_64::*;

use super::lanes::load;
use super::short::TABLE;
use super::side::{Blocks, Lanes, windows};
use super::strings::words;
use crate::stage::bits::WINDOW_BITS;

/// Reads the planes of blocks of four positions, the highest one first, with four bits each, into
/// `W` words per block. Each lane advances through its planes independently, using the table of
/// `short`.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn planes<const W: usize>(bytes: &[u8], blocks: &mut Blocks, to: &mut [[Lanes; 2]]) {
    // SAFETY: the caller's promise; all table indices are within the table.
    unsafe {
        let (zero, ones) = (_mm512_setzero_si512(), _mm512_set1_epi64(-1));
        let (four, eight) = (_mm512_set1_epi64(4), _mm512_set1_epi64(8));
        let [end, mut left] = blocks.bits();
        let (mut seen, mut bits, mut n, mut planes, mut rest) =
            ([zero; 2], [zero; 2], [zero; 2], [[zero; W]; 2], [zero; 2]);
        for r in 0..2 {
            rest[r] = load(&blocks.n_planes[r]);
        }
        let (mut i, mut is_open) = (0, true);
        while is_open {
            is_open = false;
            for r in 0..2 {
                if i % (WINDOW_BITS / 8) == 0 {
                    bits[r] = windows(bytes, _mm512_sub_epi64(end[r], left[r]));
                }
                let has_more = _mm512_test_epi64_mask(left[r], ones) & _mm512_test_epi64_mask(rest[r], ones);
                let known = _mm512_min_epu64(left[r], eight);
                let first = _mm512_sllv_epi64(_mm512_add_epi64(seen[r], _mm512_set1_epi64(5)), known);
                let index = _mm512_sub_epi64(first, _mm512_set1_epi64(10));
                let index = _mm512_add_epi64(index, _mm512_andnot_si512(_mm512_sllv_epi64(ones, known), bits[r]));
                let entry = _mm512_mask_i64gather_epi64::<8>(zero, has_more, index, TABLE.as_ptr().cast());
                let taken = _mm512_min_epu64(_mm512_and_si512(entry, _mm512_set1_epi64(15)), rest[r]);
                let taken_bits = _mm512_slli_epi64::<2>(taken);
                let n_bits = _mm512_srlv_epi64(entry, taken_bits);
                let n_bits = _mm512_maskz_and_epi64(has_more, n_bits, _mm512_set1_epi64(15));
                let found =
                    _mm512_andnot_si512(_mm512_sllv_epi64(ones, taken_bits), _mm512_srli_epi64::<32>(entry));
                add(&mut planes[r], found, n[r]);
                n[r] = _mm512_add_epi64(n[r], taken_bits);
                rest[r] = _mm512_sub_epi64(rest[r], taken);
                left[r] = _mm512_sub_epi64(left[r], n_bits);
                bits[r] = _mm512_srlv_epi64(bits[r], n_bits);
                seen[r] = _mm512_mask_srli_epi64::<60>(seen[r], has_more, entry);
                let has_more = _mm512_test_epi64_mask(left[r], ones) & _mm512_test_epi64_mask(rest[r], ones);
                is_open |= _mm512_mask_cmplt_epu64_mask(has_more, seen[r], four) != 0;
            }
            i += 1;
        }
        // All further planes are verbatim.
        for r in 0..2 {
            let mut rest = _mm512_min_epu64(_mm512_slli_epi64::<2>(rest[r]), left[r]);
            while _mm512_test_epi64_mask(rest, ones) != 0 {
                let n_bits = _mm512_min_epu64(rest, _mm512_set1_epi64(56));
                let bits = windows(bytes, _mm512_sub_epi64(end[r], left[r]));
                add(&mut planes[r], _mm512_andnot_si512(_mm512_sllv_epi64(ones, n_bits), bits), n[r]);
                n[r] = _mm512_add_epi64(n[r], n_bits);
                rest = _mm512_sub_epi64(rest, n_bits);
                left[r] = _mm512_sub_epi64(left[r], n_bits);
            }
            blocks.at[r] = words(_mm512_sub_epi64(end[r], left[r]));
            for w in 0..W {
                to[w][r] = words(planes[r][w]);
            }
        }
    }
}

/// ORs bits into `to` from bit `at` on.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn add<const W: usize>(to: &mut [__m512i; W], bits: __m512i, at: __m512i) {
    // SAFETY: the caller's promise. Shifts by a negative count, or by more than the width, yield
    // zero.
    unsafe {
        for w in 0..W {
            let start = _mm512_set1_epi64(64 * w as i64);
            to[w] = _mm512_or_si512(to[w], _mm512_sllv_epi64(bits, _mm512_sub_epi64(at, start)));
            if w > 0 {
                to[w] = _mm512_or_si512(to[w], _mm512_srlv_epi64(bits, _mm512_sub_epi64(start, at)));
            }
        }
    }
}
