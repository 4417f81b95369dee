//! Planes of blocks of 16 positions, side by side. `read` explains how codes end.

use std::arch::x86_64::*;

use super::lanes::{Indices, Lane, load};
use super::side::{Blocks, Lanes, windows};
use super::strings::{four_behind_each_other, words};
use crate::stage::bits::WINDOW_BITS;

/// Reads the planes of blocks of 16 positions, the highest one first, with 16 bits each. Each word
/// of `to` has four planes of all lanes. All blocks are at the same plane, which has at most 31
/// bits.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn planes(bytes: &[u8], blocks: &mut Blocks, to: &mut [[Lanes; 2]]) {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, ones) = (_mm512_setzero_si512(), _mm512_set1_epi64(-1));
        let sixteen = _mm512_set1_epi32(16);
        let [end, left] = blocks.bits();
        let n_planes = narrow([load(&blocks.n_planes[0]), load(&blocks.n_planes[1])]);
        let (mut at, mut left) =
            ([_mm512_sub_epi64(end[0], left[0]), _mm512_sub_epi64(end[1], left[1])], narrow(left));
        let (mut seen, mut pairs) = (zero, [zero; 2]);
        let (mut n, mut is_open) = (0, true);
        while n < 4 * to.len() && is_open {
            let is_there = _mm512_cmpgt_epu32_mask(n_planes, _mm512_set1_epi32(n as i32));
            let now = _mm512_maskz_mov_epi32(is_there, left);
            let bits = narrow([windows(bytes, at[0]), windows(bytes, at[1])]);
            let Step { plane, n_bits, after } = step(bits, now, seen);
            let n_bits = _mm512_min_epu32(n_bits, now);
            left = _mm512_sub_epi32(left, n_bits);
            let [first, second] = widen(n_bits);
            at = [_mm512_add_epi64(at[0], first), _mm512_add_epi64(at[1], second)];
            seen = after;
            let may_go_on = _mm512_mask_cmplt_epu32_mask(is_there, after, sixteen);
            is_open = _mm512_mask_test_epi32_mask(may_go_on, left, left) != 0;
            let plane = _mm512_sll_epi32(plane, _mm_cvtsi32_si128(n as i32 % 2 * 16));
            if n % 4 < 2 {
                pairs[0] = _mm512_or_si512(pairs[0], plane);
            } else {
                pairs[1] = _mm512_or_si512(pairs[1], plane);
            }
            n += 1;
            if n.is_multiple_of(4) {
                let [first, second] = joined(pairs);
                to[n / 4 - 1] = [words(first), words(second)];
                pairs = [zero; 2];
            }
        }
        // All further planes are verbatim.
        let mut word = joined(pairs);
        let n_planes = _mm512_subs_epu16(n_planes, _mm512_set1_epi32(n as i32));
        let mut rest = widen(_mm512_min_epu32(_mm512_slli_epi32::<4>(n_planes), left));
        while n < 4 * to.len() {
            let taken = (4 - n % 4).min(WINDOW_BITS as usize / 16);
            for r in 0..2 {
                if _mm512_test_epi64_mask(rest[r], ones) != 0 {
                    let n_bits = _mm512_min_epu64(rest[r], _mm512_set1_epi64((16 * taken) as i64));
                    let bits = _mm512_andnot_si512(_mm512_sllv_epi64(ones, n_bits), windows(bytes, at[r]));
                    let shifted = _mm512_sll_epi64(bits, _mm_cvtsi32_si128(n as i32 % 4 * 16));
                    word[r] = _mm512_or_si512(word[r], shifted);
                    rest[r] = _mm512_sub_epi64(rest[r], n_bits);
                    at[r] = _mm512_add_epi64(at[r], n_bits);
                }
            }
            n += taken;
            if n.is_multiple_of(4) {
                to[n / 4 - 1] = [words(word[0]), words(word[1])];
                word = [zero; 2];
            }
        }
        blocks.at = [words(at[0]), words(at[1])];
    }
}

/// Packs the low halves of the lanes of two registers.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn narrow([first, second]: [__m512i; 2]) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_permutex2var_epi32(first, u32::numbered(|i| 2 * i), second) }
}

/// Undoes [`narrow`].
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn widen(lanes: __m512i) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let [first, second] = [_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64::<1>(lanes)];
        [_mm512_cvtepu32_epi64(first), _mm512_cvtepu32_epi64(second)]
    }
}

/// Combines lanes whose low halves are in one register and whose high halves are in another.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn joined([low, high]: [__m512i; 2]) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let first = u32::numbered(|i| i / 2 + i % 2 * 16);
        let second = u32::numbered(|i| i / 2 + i % 2 * 16 + 8);
        [_mm512_permutex2var_epi32(low, first, high), _mm512_permutex2var_epi32(low, second, high)]
    }
}

/// One plane of each block.
struct Step {
    plane: __m512i,
    /// Number of its bits.
    n_bits: __m512i,
    /// Number of positions seen after it.
    after: __m512i,
}

/// For every bit of a 32-bit lane, the parity of the bits below it.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn parities(bits: __m512i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = _mm512_xor_si512(bits, _mm512_slli_epi32::<1>(bits));
        let bits = _mm512_xor_si512(bits, _mm512_slli_epi32::<2>(bits));
        let bits = _mm512_xor_si512(bits, _mm512_slli_epi32::<4>(bits));
        let bits = _mm512_xor_si512(bits, _mm512_slli_epi32::<8>(bits));
        let bits = _mm512_xor_si512(bits, _mm512_slli_epi32::<16>(bits));
        _mm512_add_epi32(bits, bits)
    }
}

/// Decodes four bits of a code, indexed by these bits and, in bit 4, the parity before them. The
/// low four bits of an entry are the bits of positions, and the upper four their number.
static PLACES: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (mut parity, mut places, mut n, mut bit) = (i >> 4 & 1, 0, 0, 0);
        while bit < 4 {
            let value = i >> bit & 1;
            if parity == 1 {
                places |= value << n;
                n += 1;
            }
            parity ^= value;
            bit += 1;
        }
        table[i] = (places | n << 4) as u8;
        i += 1;
    }
    table
};

/// Extracts the bits of codes at odd parity, for one half of each 64-bit lane. `fours` and `before`
/// select its bits, four at a time, and the parities before them.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn places_of_half(code: __m512i, parities: __m512i, fours: i64, before: i64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        // Decode four of the 32 bits at a time, then join these strings in pairs.
        let fours = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(fours), code);
        let before = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(before), parities);
        let fours = _mm512_ternarylogic_epi64::<0xca>(_mm512_set1_epi8(15), fours, before);
        let strings = _mm512_permutexvar_epi8(fours, load(&PLACES));
        let four = _mm512_set1_epi16(15);
        let length = _mm512_and_si512(_mm512_srli_epi16::<4>(strings), four);
        let second = _mm512_and_si512(_mm512_srli_epi16::<8>(strings), four);
        let string = _mm512_or_si512(_mm512_and_si512(strings, four), _mm512_sllv_epi16(second, length));
        let length = _mm512_add_epi16(length, _mm512_srli_epi16::<12>(strings));
        four_behind_each_other(string, length).0
    }
}

/// Extracts the bits of codes at odd parity to the low bits of each 32-bit lane; the bits above
/// them are arbitrary.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn places(code: __m512i, parities: __m512i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let even = places_of_half(code, parities, 0x1c18_1410_0c08_0400, 0x1814_100c_0804_003c);
        let odd = places_of_half(code, parities, 0x3c38_3430_2c28_2420, 0x3834_302c_2824_201c);
        _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64::<32>(odd))
    }
}

/// Decodes the next plane of each block in a 32-bit lane. `left` is the number of remaining bits,
/// and `seen` the number of positions seen.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn step(bits: __m512i, left: __m512i, seen: __m512i) -> Step {
    // SAFETY: the caller's promise.
    unsafe {
        let (ones, one, sixteen) = (_mm512_set1_epi32(-1), _mm512_set1_epi32(1), _mm512_set1_epi32(16));
        // Truncated bits are zero, except for the 1 that a reader assumes where zeros are
        // truncated.
        let bits = _mm512_andnot_si512(_mm512_sllv_epi32(ones, left), bits);
        let code = _mm512_srlv_epi32(bits, seen);
        let odd = _mm512_and_si512(_mm512_popcnt_epi32(code), one);
        let code = _mm512_or_si512(code, _mm512_sllv_epi32(odd, _mm512_sub_epi32(left, seen)));
        let as_they_are = _mm512_andnot_si512(_mm512_sllv_epi32(ones, seen), bits);

        let parities = parities(code);
        let stop = _mm512_ternarylogic_epi32::<0x03>(code, parities, parities);
        let below = _mm512_andnot_si512(stop, _mm512_add_epi32(stop, ones));
        let n_places = _mm512_popcnt_epi32(_mm512_and_si512(parities, below));
        let after = _mm512_add_epi32(seen, n_places);
        let rest = _mm512_andnot_si512(_mm512_sllv_epi32(ones, n_places), places(code, parities));
        let plane = _mm512_or_si512(as_they_are, _mm512_sllv_epi32(rest, seen));
        // The last position has no bit of its own, and no 0 follows it. Every other position has a
        // bit, and every 1 has a flag before it.
        let is_open = _mm512_cmplt_epu32_mask(seen, sixteen);
        let is_last = _mm512_mask_cmpge_epu32_mask(is_open, after, sixteen);
        let plane = _mm512_mask_or_epi32(plane, is_last, plane, _mm512_set1_epi32(1 << 15));
        let plane = _mm512_and_si512(plane, _mm512_set1_epi32(0xffff));
        let n_ones = _mm512_popcnt_epi32(_mm512_srlv_epi32(plane, seen));
        let n_bits = _mm512_add_epi32(_mm512_add_epi32(seen, _mm512_popcnt_epi32(below)), one);
        let n_bits = _mm512_mask_add_epi32(n_bits, is_last, n_ones, _mm512_set1_epi32(15));
        let n_bits = _mm512_mask_mov_epi32(sixteen, is_open, n_bits);
        Step { plane, n_bits, after: _mm512_min_epu32(after, sixteen) }
    }
}
