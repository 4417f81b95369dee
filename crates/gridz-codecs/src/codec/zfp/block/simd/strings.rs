//! Builds the bit strings of planes in AVX-512 registers: eight planes at once.
//!
//! The positions below s are verbatim. The code of those above is the bits themselves with a 1
//! inserted after every 1, and one before all of them, up to the last 1. It is assembled from
//! strings of a few bits, which are joined in pairs; each step doubles their length.

use std::arch::x86_64::*;

use super::lanes::{Indices, load};
use super::{LANES, ShortStrings, Strings};

/// The bit strings of planes of 64 positions; see [`super::Machine`].
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn strings_of_64(planes: [u64; 8], above: u64, lowest: u32, start: usize) -> Strings {
    // SAFETY: the caller's promise.
    unsafe {
        let planes = std::mem::transmute::<[u64; 8], __m512i>(planes);
        let zero = _mm512_setzero_si512();
        let ones = _mm512_set1_epi64(-1);
        let sixty_four = _mm512_set1_epi64(64);
        let (any, before) = seen(planes, above);
        let before = _mm512_sub_epi64(sixty_four, _mm512_lzcnt_epi64(before));
        let after = _mm512_sub_epi64(sixty_four, _mm512_lzcnt_epi64(any));

        // Four bits at a time, insert a 1 after every 1. Then join these strings in pairs.
        let rest = _mm512_srlv_epi64(planes, before);
        let codes = _mm512_broadcast_i32x4(load_16(&CODES));
        let lengths = _mm512_broadcast_i32x4(load_16(&LENGTHS));
        let nibble = _mm512_set1_epi8(15);
        let (low, high) = (_mm512_and_si512(rest, nibble), _mm512_and_si512(_mm512_srli_epi64::<4>(rest), nibble));
        let (low, low_length) = (_mm512_shuffle_epi8(codes, low), _mm512_shuffle_epi8(lengths, low));
        let (high, high_length) = (_mm512_shuffle_epi8(codes, high), _mm512_shuffle_epi8(lengths, high));
        let length = _mm512_add_epi8(low_length, high_length);
        let byte = _mm512_set1_epi16(0xff);
        let shifted = _mm512_sllv_epi16(_mm512_and_si512(high, byte), _mm512_and_si512(low_length, byte));
        let even = _mm512_or_si512(_mm512_and_si512(low, byte), shifted);
        let shifted = _mm512_sllv_epi16(_mm512_srli_epi16::<8>(high), _mm512_srli_epi16::<8>(low_length));
        let odd = _mm512_or_si512(_mm512_srli_epi16::<8>(low), shifted);
        let (even_length, odd_length) = (_mm512_and_si512(length, byte), _mm512_srli_epi16::<8>(length));
        let length = _mm512_add_epi16(even_length, odd_length);
        let half = _mm512_set1_epi32(0xffff);
        let shifted = _mm512_sllv_epi32(_mm512_and_si512(odd, half), _mm512_and_si512(even_length, half));
        let first = _mm512_or_si512(_mm512_and_si512(even, half), shifted);
        let shifted = _mm512_sllv_epi32(_mm512_srli_epi32::<16>(odd), _mm512_srli_epi32::<16>(even_length));
        let second = _mm512_or_si512(_mm512_srli_epi32::<16>(even), shifted);
        let (first_length, second_length) = (_mm512_and_si512(length, half), _mm512_srli_epi32::<16>(length));
        let length = _mm512_add_epi32(first_length, second_length);
        let word = _mm512_set1_epi64(0xffff_ffff);
        let shifted = _mm512_sllv_epi64(_mm512_and_si512(second, word), _mm512_and_si512(first_length, word));
        let low = _mm512_or_si512(_mm512_and_si512(first, word), shifted);
        let shifted = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(second), _mm512_srli_epi64::<32>(first_length));
        let high = _mm512_or_si512(_mm512_srli_epi64::<32>(first), shifted);
        let low_length = _mm512_and_si512(length, word);
        let second = _mm512_srlv_epi64(high, _mm512_sub_epi64(sixty_four, low_length));
        let first = _mm512_or_si512(low, _mm512_sllv_epi64(high, low_length));

        // Insert a 1 at the start. Truncate after the last 1 of the plane, or before it if that is
        // in the last position.
        let one = _mm512_set1_epi64(1);
        let open = _mm512_cmplt_epu64_mask(before, sixty_four);
        let full = _mm512_mask_cmpeq_epi64_mask(open, after, sixty_four);
        let n = _mm512_add_epi64(_mm512_popcnt_epi64(rest), _mm512_sub_epi64(after, before));
        let n = _mm512_mask_sub_epi64(n, full, n, one);
        let second = _mm512_shldi_epi64::<1>(second, first);
        let first = _mm512_shldi_epi64::<1>(first, ones);
        let first = _mm512_andnot_si512(_mm512_sllv_epi64(ones, n), first);
        let n_second = _mm512_subs_epu16(n, sixty_four);
        let second = _mm512_andnot_si512(_mm512_sllv_epi64(ones, n_second), second);

        // Append to the verbatim bits.
        let as_they_are = _mm512_andnot_si512(_mm512_sllv_epi64(ones, before), planes);
        let low = _mm512_or_si512(as_they_are, _mm512_sllv_epi64(first, before));
        // If all 64 positions are below s, nothing follows them.
        let high = _mm512_shldv_epi64(second, first, before);
        let end = _mm512_mask_add_epi64(n, _mm512_cmplt_epu64_mask(after, sixty_four), n, one);
        let kept = 0xff << lowest;
        let length = _mm512_maskz_add_epi64(kept, before, end);
        let (low, high) = (_mm512_maskz_mov_epi64(kept, low), _mm512_maskz_mov_epi64(kept, high));

        // The start of each string, the last one first, and its bits in the words there.
        let mut sum = _mm512_add_epi64(length, _mm512_alignr_epi64::<1>(zero, length));
        sum = _mm512_add_epi64(sum, _mm512_alignr_epi64::<2>(zero, sum));
        sum = _mm512_add_epi64(sum, _mm512_alignr_epi64::<4>(zero, sum));
        sum = _mm512_add_epi64(sum, _mm512_set1_epi64(start as i64));
        let from = _mm512_sub_epi64(sum, length);
        let shift = _mm512_and_si512(from, _mm512_set1_epi64(63));
        let back = _mm512_sub_epi64(sixty_four, shift);
        let second = _mm512_shldv_epi64(high, low, shift);
        Strings {
            at: words(_mm512_srli_epi64::<6>(from)),
            bits: [words(_mm512_sllv_epi64(low, shift)), words(second), words(_mm512_srlv_epi64(high, back))],
            end: _mm_cvtsi128_si64(_mm512_castsi512_si128(sum)) as usize,
            above: _mm_cvtsi128_si64(_mm512_castsi512_si128(any)) as u64,
        }
    }
}

/// The bit strings of planes of fewer positions; see [`super::Machine`].
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn short_strings<const RANK: usize>(
    planes: [u64; 8],
    above: u64,
    q: usize,
    lowest: &[u64; LANES],
) -> ShortStrings {
    // SAFETY: the caller's promise.
    unsafe {
        let planes = std::mem::transmute::<[u64; 8], __m512i>(planes);
        let (any, before) = seen(planes, above);
        let (bits, length) = if RANK == 1 {
            strings_of_4(planes, before, q, lowest)
        } else {
            strings_of_16(planes, before, any, q, lowest)
        };
        ShortStrings {
            bits: std::mem::transmute::<[__m512i; 2], [u64; 16]>(bits),
            length: std::mem::transmute::<[__m512i; 2], [u64; 16]>(length),
            above: _mm_cvtsi128_si64(_mm512_castsi512_si128(any)) as u64,
        }
    }
}

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
pub unsafe fn words(register: __m512i) -> [u64; 8] {
    // SAFETY: every bit pattern is a valid word.
    unsafe { std::mem::transmute::<__m512i, [u64; 8]>(register) }
}

/// For eight planes, the last one highest: the positions at which each of them or a higher one has
/// a 1, and those at which a higher one has. `above` are the positions of the planes above all of
/// them.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn seen(planes: __m512i, above: u64) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = _mm512_setzero_si512();
        let mut any = _mm512_or_si512(planes, _mm512_alignr_epi64::<1>(zero, planes));
        any = _mm512_or_si512(any, _mm512_alignr_epi64::<2>(zero, any));
        any = _mm512_or_si512(any, _mm512_alignr_epi64::<4>(zero, any));
        let above = _mm512_set1_epi64(above as i64);
        any = _mm512_or_si512(any, above);
        (any, _mm512_alignr_epi64::<1>(above, any))
    }
}

/// For planes of four positions: codes and their lengths, indexed by `16·s + plane`, lowest bit
/// first.
static OF_4: [[u8; 128]; 2] = {
    let mut tables = [[0; 128]; 2];
    let mut i = 0;
    while i < 80 {
        let (mut seen, plane) = (i / 16, i % 16);
        let (mut code, mut n) = (plane & ((1 << seen) - 1), seen);
        while seen < 4 {
            let rest = plane >> seen;
            if rest == 0 {
                n += 1;
                break;
            }
            let zeros = usize::trailing_zeros(rest) as usize;
            code |= 1 << n;
            n += 1 + zeros;
            seen += zeros + 1;
            if seen < 4 {
                code |= 1 << n;
                n += 1;
            }
        }
        tables[0][i] = code as u8;
        tables[1][i] = n as u8;
        i += 1;
    }
    tables
};

/// Sixteen times the number of positions up to the last 1.
static SEEN_4: [u8; 16] = [0, 16, 32, 32, 48, 48, 48, 48, 64, 64, 64, 64, 64, 64, 64, 64];

/// From the bytes of planes to the bytes of blocks, the highest plane first.
static OF_BLOCKS: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = ((7 - i % 8) * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// The bit strings of eight planes of 16 blocks with four positions: one string per block for all
/// planes.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn strings_of_4(
    planes: __m512i,
    before: __m512i,
    q: usize,
    lowest: &[u64; LANES],
) -> ([__m512i; 2], [__m512i; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        let nibble = _mm512_set1_epi8(15);
        let of_blocks = load(&OF_BLOCKS);
        let (planes, before) =
            (_mm512_permutexvar_epi8(of_blocks, planes), _mm512_permutexvar_epi8(of_blocks, before));
        let tables: [&[[u8; 64]; 2]; 2] = [as_halves(&OF_4[0]), as_halves(&OF_4[1])];
        let seen_4 = _mm512_broadcast_i32x4(load_16(&SEEN_4));
        let lowest: [__m512i; 2] = std::mem::transmute::<[u64; 16], [__m512i; 2]>(*lowest);
        let (mut bits, mut lengths) = ([planes; 2], [planes; 2]);
        let mut odd = 0;
        while odd < 2 {
            // Blocks 2i, then 2i + 1.
            let shift = _mm_cvtsi32_si128(4 * odd as i32);
            let plane = _mm512_and_si512(_mm512_srl_epi64(planes, shift), nibble);
            let before = _mm512_and_si512(_mm512_srl_epi64(before, shift), nibble);
            let at = _mm512_or_si512(plane, _mm512_shuffle_epi8(seen_4, before));
            let code = _mm512_permutex2var_epi8(load(&tables[0][0]), at, load(&tables[0][1]));
            let length = _mm512_permutex2var_epi8(load(&tables[1][0]), at, load(&tables[1][1]));
            // The planes of these eight that the block has.
            let missing = _mm512_subs_epu16(lowest[odd], _mm512_set1_epi64(8 * q as i64));
            let kept = _mm512_srlv_epi64(_mm512_set1_epi64(-1), _mm512_slli_epi64::<3>(missing));
            let (code, length) = (_mm512_and_si512(code, kept), _mm512_and_si512(length, kept));
            let byte = _mm512_set1_epi16(0xff);
            let first_length = _mm512_and_si512(length, byte);
            let second = _mm512_sllv_epi16(_mm512_srli_epi16::<8>(code), first_length);
            let code = _mm512_or_si512(_mm512_and_si512(code, byte), second);
            let length = _mm512_add_epi16(first_length, _mm512_srli_epi16::<8>(length));
            (bits[odd], lengths[odd]) = four_behind_each_other(code, length);
            odd += 1;
        }
        (bits, lengths)
    }
}

/// Joins strings in 16-bit lanes, of the given lengths: four strings become one, with its length.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
pub unsafe fn four_behind_each_other(strings: __m512i, lengths: __m512i) -> (__m512i, __m512i) {
    // SAFETY: the caller's promise.
    unsafe {
        let half = _mm512_set1_epi32(0xffff);
        let first_lengths = _mm512_and_si512(lengths, half);
        let second = _mm512_sllv_epi32(_mm512_srli_epi32::<16>(strings), first_lengths);
        let strings = _mm512_or_si512(_mm512_and_si512(strings, half), second);
        let lengths = _mm512_add_epi32(first_lengths, _mm512_srli_epi32::<16>(lengths));
        let word = _mm512_set1_epi64(0xffff_ffff);
        let first_lengths = _mm512_and_si512(lengths, word);
        let second = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(strings), first_lengths);
        let strings = _mm512_or_si512(_mm512_and_si512(strings, word), second);
        (strings, _mm512_add_epi64(first_lengths, _mm512_srli_epi64::<32>(lengths)))
    }
}

/// From planes to 32 bits for each plane of two blocks, the highest plane first.
static OF_BLOCKS_16: [[u16; 32]; 2] = {
    let mut tables = [[0; 32]; 2];
    let mut i = 0;
    while i < 32 {
        tables[i / 16][i % 16 * 2] = (4 * (7 - i % 8) + i / 8) as u16;
        i += 1;
    }
    tables
};

/// The bit strings of eight planes of four blocks with 16 positions: four strings of two planes per
/// block.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn strings_of_16(
    planes: __m512i,
    before: __m512i,
    any: __m512i,
    q: usize,
    lowest: &[u64; LANES],
) -> ([__m512i; 2], [__m512i; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut bits, mut lengths) = ([planes; 2], [planes; 2]);
        let codes = _mm512_broadcast_i32x4(load_16(&CODES));
        let code_lengths = _mm512_broadcast_i32x4(load_16(&LENGTHS));
        let (nibble, byte) = (_mm512_set1_epi8(15), _mm512_set1_epi32(0xff));
        let (ones, one) = (_mm512_set1_epi32(-1), _mm512_set1_epi32(1));
        let (sixteen, thirty_two) = (_mm512_set1_epi32(16), _mm512_set1_epi32(32));
        let mut pair = 0;
        while pair < 2 {
            let lanes = load(&OF_BLOCKS_16[pair]);
            let plane = _mm512_maskz_permutexvar_epi16(0x5555_5555, lanes, planes);
            let before = _mm512_maskz_permutexvar_epi16(0x5555_5555, lanes, before);
            let after = _mm512_maskz_permutexvar_epi16(0x5555_5555, lanes, any);
            let before = _mm512_sub_epi32(thirty_two, _mm512_lzcnt_epi32(before));
            let after = _mm512_sub_epi32(thirty_two, _mm512_lzcnt_epi32(after));
            let rest = _mm512_srlv_epi32(plane, before);
            let (low, high) =
                (_mm512_and_si512(rest, nibble), _mm512_and_si512(_mm512_srli_epi64::<4>(rest), nibble));
            let (low_length, high_length) =
                (_mm512_shuffle_epi8(code_lengths, low), _mm512_shuffle_epi8(code_lengths, high));
            let (low, high) = (_mm512_shuffle_epi8(codes, low), _mm512_shuffle_epi8(codes, high));
            let length = _mm512_add_epi8(low_length, high_length);
            let shifted = _mm512_sllv_epi32(_mm512_and_si512(high, byte), _mm512_and_si512(low_length, byte));
            let first = _mm512_or_si512(_mm512_and_si512(low, byte), shifted);
            let low_length = _mm512_and_si512(_mm512_srli_epi32::<8>(low_length), byte);
            let shifted = _mm512_sllv_epi32(_mm512_srli_epi32::<8>(high), low_length);
            let second = _mm512_or_si512(_mm512_srli_epi32::<8>(low), shifted);
            let first_length = _mm512_and_si512(length, byte);
            let second_length = _mm512_and_si512(_mm512_srli_epi32::<8>(length), byte);
            let code = _mm512_or_si512(first, _mm512_sllv_epi32(second, first_length));
            let n_ones = _mm512_sub_epi32(_mm512_add_epi32(first_length, second_length), sixteen);

            let open = _mm512_cmplt_epu32_mask(before, sixteen);
            let full = _mm512_mask_cmpeq_epi32_mask(open, after, sixteen);
            let n = _mm512_add_epi32(n_ones, _mm512_sub_epi32(after, before));
            let n = _mm512_mask_sub_epi32(n, full, n, one);
            let code = _mm512_or_si512(_mm512_add_epi32(code, code), one);
            let code = _mm512_andnot_si512(_mm512_sllv_epi32(ones, n), code);
            let as_they_are = _mm512_andnot_si512(_mm512_sllv_epi32(ones, before), plane);
            let code = _mm512_or_si512(as_they_are, _mm512_sllv_epi32(code, before));
            let end = _mm512_mask_add_epi32(n, _mm512_cmplt_epu32_mask(after, sixteen), n, one);
            // The planes of these eight that each block has.
            let has = |block: usize| {
                let n = (8 * q as u64 + 8).saturating_sub(lowest[block]).min(8);
                (1u16 << n) - 1
            };
            let kept = has(2 * pair) | has(2 * pair + 1) << 8;
            let length = _mm512_maskz_add_epi32(kept, before, end);
            let code = _mm512_maskz_mov_epi32(kept, code);

            let word = _mm512_set1_epi64(0xffff_ffff);
            let first_length = _mm512_and_si512(length, word);
            let second = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(code), first_length);
            bits[pair] = _mm512_or_si512(_mm512_and_si512(code, word), second);
            lengths[pair] = _mm512_add_epi64(first_length, _mm512_srli_epi64::<32>(length));
            pair += 1;
        }
        (bits, lengths)
    }
}

/// # Safety
/// None.
#[inline(always)]
unsafe fn as_halves(table: &[u8; 128]) -> &[[u8; 64]; 2] {
    // SAFETY: both types have the same number of bytes.
    unsafe { &*(&raw const *table).cast() }
}

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn load_16(from: &[u8; 16]) -> __m128i {
    // SAFETY: the array has as many bytes as the register.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Four bits, lowest first, with a 1 inserted after every 1.
static CODES: [u8; 16] = {
    let mut codes = [0; 16];
    let mut bits = 0;
    while bits < 16 {
        let (mut i, mut at) = (0, 0);
        while i < 4 {
            if bits >> i & 1 == 1 {
                codes[bits] |= 3 << at;
                at += 1;
            }
            at += 1;
            i += 1;
        }
        bits += 1;
    }
    codes
};

/// The lengths of these codes.
static LENGTHS: [u8; 16] = {
    let mut lengths = [0; 16];
    let mut bits = 0;
    while bits < 16 {
        lengths[bits] = 4 + bits.count_ones() as u8;
        bits += 1;
    }
    lengths
};
