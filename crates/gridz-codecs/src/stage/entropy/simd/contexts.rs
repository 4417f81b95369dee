//! Symbols in contexts, and tails, with vector instructions. `contexts` defines the results.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use std::arch::x86_64::*;

use crate::cpu::isa::features;
use crate::stage::entropy::contexts::{Rows, SIZES, STRING_BYTES, States};
use crate::stage::entropy::frequencies::{DISTANCE_AT, FREQUENCY_AT, FREQUENCY_BITS, LOG2_TOTAL};
use crate::stage::entropy::rans::LOWEST;
use crate::stage::entropy::simd::{Avx2, Avx512, with};
use crate::stage::rows::LANES;

/// Half of the rows' 32 lanes, and a quarter.
const HALF: usize = 16;
const QUARTER: usize = 8;
/// Bytes of a vector of AVX-512.
const VECTOR: usize = 64;
/// Maximum number of bits of each of two tails that are joined.
const PAIR_BITS: i32 = 28;

/// AVX-512 version of `read` in `contexts::symbols`.
pub fn read_avx512(_: Avx512, rows: Rows, at: &mut usize, states: &mut States, symbols: &mut [u8]) -> usize {
    check(&rows, symbols);
    // SAFETY: the token is proof of the instructions, and the memory of all rows was checked.
    unsafe { rows_512(rows, at, states, symbols) }
}

/// AVX2 version of `read` in `contexts::symbols`.
pub fn read_avx2(_: Avx2, rows: Rows, at: &mut usize, states: &mut States, symbols: &mut [u8]) -> usize {
    check(&rows, symbols);
    // SAFETY: the token is proof of the instructions, and the memory of all rows was checked.
    unsafe { rows_256(rows, at, states, symbols) }
}

/// Panics unless all rows and their neighbors are in memory.
fn check(rows: &Rows, symbols: &[u8]) {
    let n = rows.n.next_multiple_of(LANES);
    assert!(n <= symbols.len() && rows.start + n <= rows.sizes.len());
    assert!(rows.near.iter().all(|&distance| distance <= rows.start));
}

/// Completes a row of numbers of 32 bits from the tails at bit `at`. Those of invalid symbols are
/// arbitrary. False if `tails` may have too few bytes.
#[inline(always)]
pub fn read_tails_32(
    _: Avx512,
    symbols: &[u8; LANES],
    tails: &[u8],
    at: &mut usize,
    numbers: &mut [u32; LANES],
) -> bool {
    // SAFETY: the token is proof of the instructions.
    unsafe { tails_32(symbols, tails, at, numbers) }
}

/// As [`read_tails_32`], for numbers of 64 bits.
#[inline(always)]
pub fn read_tails_64(
    _: Avx512,
    symbols: &[u8; LANES],
    tails: &[u8],
    at: &mut usize,
    numbers: &mut [u64; LANES],
) -> bool {
    // SAFETY: the token is proof of the instructions.
    unsafe { tails_64(symbols, tails, at, numbers) }
}

/// Joins the tails of a row of numbers of 32 bits to as few fields as possible, of up to 56 bits, and
/// returns how many. `None` if a pair may be longer.
#[inline(always)]
pub fn join_tails_32(
    _: Avx512,
    symbols: &[u16; LANES],
    numbers: &[u32; LANES],
    fields: &mut [u64; HALF],
    lengths: &mut [u64; HALF],
) -> Option<usize> {
    // SAFETY: the token is proof of the instructions.
    unsafe { join_32(symbols, numbers, fields, lengths) }
}

/// As [`join_tails_32`], for numbers of 64 bits.
#[inline(always)]
pub fn join_tails_64(
    _: Avx512,
    symbols: &[u16; LANES],
    numbers: &[u64; LANES],
    fields: &mut [u64; HALF],
    lengths: &mut [u64; HALF],
) -> Option<usize> {
    // SAFETY: the token is proof of the instructions.
    unsafe { join_64(symbols, numbers, fields, lengths) }
}

/// For each mask of eight lanes, and each of the lanes in it, how many of them are before it.
const RANKS: [[u8; QUARTER]; 1 << QUARTER] = {
    let mut ranks = [[0; QUARTER]; 1 << QUARTER];
    let mut mask = 0;
    while mask < ranks.len() {
        let (mut lane, mut rank) = (0, 0);
        while lane < QUARTER {
            ranks[mask][lane] = rank;
            rank += (mask >> lane & 1) as u8;
            lane += 1;
        }
        mask += 1;
    }
    ranks
};

features!(avx512 => with! {

/// # Safety
/// The memory of all rows was checked.
unsafe fn rows_512(rows: Rows, at: &mut usize, states: &mut States, symbols: &mut [u8]) -> usize {
    let Rows { slots, near, string, sizes, start, n } = rows;
    // SAFETY: all arrays are as long as the vectors.
    let (first, all_sizes, mut vectors) = unsafe {
        (
            _mm512_loadu_si512(slots.first().as_ptr().cast()),
            _mm256_loadu_si256(SIZES.as_ptr().cast()),
            [0, HALF].map(|lane| _mm512_loadu_si512(states[lane..].as_ptr().cast())),
        )
    };
    let in_table = _mm512_set1_epi32((1 << LOG2_TOTAL) - 1);
    let frequencies = _mm512_set1_epi32((1 << FREQUENCY_BITS) - 1);
    let lowest = _mm512_set1_epi32(LOWEST as i32);
    let bits = _mm512_set1_epi32(u32::BITS as i32);
    let last_size = _mm256_set1_epi8(SIZES.len() as i8 - 1);
    let sizes = sizes.as_mut_ptr();
    let (mut done, mut from) = (0, *at);
    while done < n && from + STRING_BYTES <= string.len() {
        let mut sums = _mm512_setzero_si512();
        for &distance in near {
            // SAFETY: a row begins at this distance before the place of this one, or before that.
            let row = unsafe { _mm256_loadu_si256(sizes.add(start + done - distance).cast()) };
            sums = _mm512_add_epi16(sums, _mm512_cvtepu8_epi16(row));
        }
        let sums = [_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums)].map(|half| _mm512_cvtepu16_epi32(half));
        let lanes = u32::MAX >> (LANES - LANES.min(n - done));
        let mut of_halves = [_mm_setzero_si128(); 2];
        for half in 0..2 {
            let state = vectors[half];
            let context = _mm512_sub_epi32(bits, _mm512_lzcnt_epi32(sums[half]));
            let slot = _mm512_add_epi32(_mm512_permutexvar_epi32(context, first), _mm512_and_si512(state, in_table));
            // SAFETY: `Slots` has every slot of each of the 16 contexts.
            let entry = unsafe { _mm512_i32gather_epi32::<4>(slot, slots.all().as_ptr().cast()) };
            let takes_part = (lanes >> (HALF * half)) as __mmask16;
            of_halves[half] = _mm512_maskz_cvtepi32_epi8(takes_part, entry);
            let frequency = _mm512_and_si512(_mm512_srli_epi32::<FREQUENCY_AT>(entry), frequencies);
            let share = _mm512_mullo_epi32(frequency, _mm512_srli_epi32::<LOG2_TOTAL>(state));
            let state = _mm512_mask_add_epi32(state, takes_part, share, _mm512_srli_epi32::<DISTANCE_AT>(entry));
            let low = _mm512_cmplt_epu32_mask(state, lowest);
            // SAFETY: a row has taken half of its words at most, so the string has this half.
            let words = unsafe { _mm256_loadu_si256(string.as_ptr().add(from).cast()) };
            let words = _mm512_maskz_expand_epi32(low, _mm512_cvtepu16_epi32(words));
            vectors[half] = _mm512_mask_or_epi32(state, low, _mm512_slli_epi32::<16>(state), words);
            from += 2 * low.count_ones() as usize;
        }
        let row = _mm256_set_m128i(of_halves[1], of_halves[0]);
        let of_row = _mm256_permutexvar_epi8(_mm256_min_epu8(row, last_size), all_sizes);
        // SAFETY: there is room for the row's symbols and their sizes.
        unsafe {
            _mm256_storeu_si256(symbols[done..].as_mut_ptr().cast(), row);
            _mm256_storeu_si256(sizes.add(start + done).cast(), of_row);
        }
        done += LANES;
    }
    *at = from;
    for (vector, half) in vectors.into_iter().zip(states.as_chunks_mut::<HALF>().0) {
        // SAFETY: half of the array is as long as a vector.
        unsafe { _mm512_storeu_si512(half.as_mut_ptr().cast(), vector) };
    }
    done
}

#[inline]
fn tails_32(symbols: &[u8; LANES], tails: &[u8], at: &mut usize, numbers: &mut [u32; LANES]) -> bool {
    if tails.len() < *at / 8 + 2 * VECTOR {
        return false;
    }
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
    let (two, seven, longest) = (_mm512_set1_epi32(2), _mm512_set1_epi32(7), _mm512_set1_epi32(30));
    // `lowest` copies a word's lowest byte to all of its bytes. Adding `four` gives the indices of
    // four bytes from there on; adding `fifth` moves the first index to the fifth byte.
    let lowest = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    let (four, fifth) = (_mm512_set1_epi32(0x0302_0100), _mm512_set1_epi32(4));
    for (symbols, numbers) in symbols.as_chunks::<HALF>().0.iter().zip(numbers.as_chunks_mut::<HALF>().0) {
        // The tails of 16 numbers, of up to 30 bits, begin in the first byte and end within 61 bytes.
        // SAFETY: there were two vectors of bytes, and the first half took less than one; the symbols
        // are as long as their vector.
        let (bytes, symbols) = unsafe {
            (_mm512_loadu_si512(tails.as_ptr().add(*at / 8).cast()), _mm_loadu_si128(symbols.as_ptr().cast()))
        };
        let symbols = _mm512_cvtepu8_epi32(symbols);
        let are_long = _mm512_cmpgt_epu32_mask(symbols, seven);
        let n_bits = _mm512_maskz_sub_epi32(are_long, _mm512_srli_epi32::<1>(symbols), two);
        let n_bits = _mm512_min_epu32(n_bits, longest);
        let mut ends = _mm512_add_epi32(n_bits, _mm512_alignr_epi32::<15>(n_bits, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<14>(ends, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<12>(ends, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<8>(ends, zero));
        let starts = _mm512_add_epi32(_mm512_sub_epi32(ends, n_bits), _mm512_set1_epi32(*at as i32 % 8));
        let places = _mm512_add_epi32(_mm512_shuffle_epi8(_mm512_srli_epi32::<3>(starts), lowest), four);
        let low = _mm512_permutexvar_epi8(places, bytes);
        let high = _mm512_permutexvar_epi8(_mm512_add_epi32(places, fifth), bytes);
        let from_start = _mm512_shrdv_epi32(low, high, _mm512_and_si512(starts, seven));
        let tail = _mm512_and_si512(from_start, _mm512_sub_epi32(_mm512_sllv_epi32(one, n_bits), one));
        let top = _mm512_or_si512(_mm512_and_si512(symbols, one), two);
        let top = _mm512_mask_sllv_epi32(symbols, are_long, top, n_bits);
        // SAFETY: half of the numbers are as long as a vector.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), _mm512_or_si512(top, tail)) };
        *at += _mm_extract_epi32::<3>(_mm512_extracti32x4_epi32::<3>(ends)) as usize;
    }
    true
}

#[inline]
fn tails_64(symbols: &[u8; LANES], tails: &[u8], at: &mut usize, numbers: &mut [u64; LANES]) -> bool {
    if tails.len() < *at / 8 + 4 * VECTOR {
        return false;
    }
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
    let (two, seven, longest) = (_mm512_set1_epi64(2), _mm512_set1_epi64(7), _mm512_set1_epi64(62));
    // As for 32 bits, with eight bytes, and the index of the ninth.
    let lowest = _mm512_set4_epi32(0x0808_0808, 0x0808_0808, 0, 0);
    let (eight, ninth) = (_mm512_set1_epi64(0x0706_0504_0302_0100), _mm512_set1_epi64(8));
    for (symbols, numbers) in symbols.as_chunks::<QUARTER>().0.iter().zip(numbers.as_chunks_mut::<QUARTER>().0) {
        // The tails of 8 numbers, of up to 62 bits, begin in the first byte and end within 63 bytes.
        // SAFETY: there were four vectors of bytes, and each quarter before took less than one; the
        // symbols are as long as their vector.
        let (bytes, symbols) = unsafe {
            (_mm512_loadu_si512(tails.as_ptr().add(*at / 8).cast()), _mm_loadl_epi64(symbols.as_ptr().cast()))
        };
        let symbols = _mm512_cvtepu8_epi64(symbols);
        let are_long = _mm512_cmpgt_epu64_mask(symbols, seven);
        let n_bits = _mm512_maskz_sub_epi64(are_long, _mm512_srli_epi64::<1>(symbols), two);
        let n_bits = _mm512_min_epu64(n_bits, longest);
        let mut ends = _mm512_add_epi64(n_bits, _mm512_alignr_epi64::<7>(n_bits, zero));
        ends = _mm512_add_epi64(ends, _mm512_alignr_epi64::<6>(ends, zero));
        ends = _mm512_add_epi64(ends, _mm512_alignr_epi64::<4>(ends, zero));
        let starts = _mm512_add_epi64(_mm512_sub_epi64(ends, n_bits), _mm512_set1_epi64(*at as i64 % 8));
        let places = _mm512_add_epi64(_mm512_shuffle_epi8(_mm512_srli_epi64::<3>(starts), lowest), eight);
        let low = _mm512_permutexvar_epi8(places, bytes);
        let high = _mm512_permutexvar_epi8(_mm512_add_epi64(places, ninth), bytes);
        let from_start = _mm512_shrdv_epi64(low, high, _mm512_and_si512(starts, seven));
        let tail = _mm512_and_si512(from_start, _mm512_sub_epi64(_mm512_sllv_epi64(one, n_bits), one));
        let top = _mm512_or_si512(_mm512_and_si512(symbols, one), two);
        let top = _mm512_mask_sllv_epi64(symbols, are_long, top, n_bits);
        // SAFETY: a quarter of the numbers is as long as a vector.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), _mm512_or_si512(top, tail)) };
        *at += _mm_extract_epi64::<1>(_mm512_extracti64x2_epi64::<3>(ends)) as usize;
    }
    true
}

#[inline]
fn join_32(
    symbols: &[u16; LANES],
    numbers: &[u32; LANES],
    fields: &mut [u64; HALF],
    lengths: &mut [u64; HALF],
) -> Option<usize> {
    let (two, seven, byte) = (_mm512_set1_epi32(2), _mm512_set1_epi32(7), _mm512_set1_epi32(0xff));
    let (all, low) = (_mm512_set1_epi32(-1), _mm512_set1_epi64(u32::MAX.into()));
    let n_bits = [0, HALF].map(|lane| {
        // SAFETY: half of the symbols are as long as the vector.
        let symbols = unsafe { _mm256_loadu_si256(symbols[lane..].as_ptr().cast()) };
        let symbols = _mm512_and_si512(_mm512_cvtepu16_epi32(symbols), byte);
        let are_long = _mm512_cmpgt_epu32_mask(symbols, seven);
        _mm512_maskz_sub_epi32(are_long, _mm512_srli_epi32::<1>(symbols), two)
    });
    let longest = _mm512_max_epu32(n_bits[0], n_bits[1]);
    if _mm512_test_epi32_mask(longest, longest) == 0 {
        return Some(0);
    }
    if _mm512_cmpgt_epu32_mask(longest, _mm512_set1_epi32(PAIR_BITS)) != 0 {
        return None;
    }
    let mut pairs = [(_mm512_setzero_si512(), _mm512_setzero_si512()); 2];
    for half in 0..2 {
        // SAFETY: half of the numbers are as long as the vector.
        let numbers = unsafe { _mm512_loadu_si512(numbers[HALF * half..].as_ptr().cast()) };
        let tails = _mm512_andnot_si512(_mm512_sllv_epi32(all, n_bits[half]), numbers);
        let first = _mm512_and_si512(n_bits[half], low);
        let second = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(tails), first);
        let pair = _mm512_or_si512(_mm512_and_si512(tails, low), second);
        pairs[half] = (pair, _mm512_add_epi64(first, _mm512_srli_epi64::<32>(n_bits[half])));
    }
    let is_up_to = |n: i32| _mm512_cmpgt_epu32_mask(longest, _mm512_set1_epi32(n)) == 0;
    Some(store_joined(pairs, is_up_to(PAIR_BITS / 2), is_up_to(PAIR_BITS / 4), fields, lengths))
}

#[inline]
fn join_64(
    symbols: &[u16; LANES],
    numbers: &[u64; LANES],
    fields: &mut [u64; HALF],
    lengths: &mut [u64; HALF],
) -> Option<usize> {
    let (two, seven, byte) = (_mm512_set1_epi64(2), _mm512_set1_epi64(7), _mm512_set1_epi64(0xff));
    let all = _mm512_set1_epi64(-1);
    let n_bits = [0, 1, 2, 3].map(|quarter| {
        // SAFETY: a quarter of the symbols is as long as the vector.
        let symbols = unsafe { _mm_loadu_si128(symbols[QUARTER * quarter..].as_ptr().cast()) };
        let symbols = _mm512_and_si512(_mm512_cvtepu16_epi64(symbols), byte);
        let are_long = _mm512_cmpgt_epu64_mask(symbols, seven);
        _mm512_maskz_sub_epi64(are_long, _mm512_srli_epi64::<1>(symbols), two)
    });
    let longest =
        _mm512_max_epu64(_mm512_max_epu64(n_bits[0], n_bits[1]), _mm512_max_epu64(n_bits[2], n_bits[3]));
    if _mm512_test_epi64_mask(longest, longest) == 0 {
        return Some(0);
    }
    if _mm512_cmpgt_epu64_mask(longest, _mm512_set1_epi64(PAIR_BITS.into())) != 0 {
        return None;
    }
    let tails: [(__m512i, __m512i); 4] = std::array::from_fn(|quarter| {
        // SAFETY: a quarter of the numbers is as long as the vector.
        let numbers = unsafe { _mm512_loadu_si512(numbers[QUARTER * quarter..].as_ptr().cast()) };
        (_mm512_andnot_si512(_mm512_sllv_epi64(all, n_bits[quarter]), numbers), n_bits[quarter])
    });
    let pairs = [join(tails[0], tails[1]), join(tails[2], tails[3])];
    let is_up_to = |n: i32| _mm512_cmpgt_epu64_mask(longest, _mm512_set1_epi64(n.into())) == 0;
    Some(store_joined(pairs, is_up_to(PAIR_BITS / 2), is_up_to(PAIR_BITS / 4), fields, lengths))
}

/// Joins neighbors among 16 fields, given with their lengths, to 8.
#[inline]
fn join(first: (__m512i, __m512i), second: (__m512i, __m512i)) -> (__m512i, __m512i) {
    let even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    let of = |a, index, b| _mm512_permutex2var_epi64(a, index, b);
    let length = of(first.1, even, second.1);
    let above = _mm512_sllv_epi64(of(first.0, odd, second.0), length);
    let field = _mm512_or_si512(of(first.0, even, second.0), above);
    (field, _mm512_add_epi64(length, of(first.1, odd, second.1)))
}

/// Stores 16 pairs of tails, joined to 8 or to 4 fields if that is possible. Returns how many.
#[inline]
fn store_joined(
    pairs: [(__m512i, __m512i); 2],
    to_fours: bool,
    to_eights: bool,
    fields: &mut [u64; HALF],
    lengths: &mut [u64; HALF],
) -> usize {
    let mut put = |at: usize, (field, length): (__m512i, __m512i)| {
        // SAFETY: eight of each are as long as a vector.
        unsafe {
            _mm512_storeu_si512(fields[at..][..QUARTER].as_mut_ptr().cast(), field);
            _mm512_storeu_si512(lengths[at..][..QUARTER].as_mut_ptr().cast(), length);
        }
    };
    if !to_fours {
        put(0, pairs[0]);
        put(QUARTER, pairs[1]);
        return HALF;
    }
    let fours = join(pairs[0], pairs[1]);
    if !to_eights {
        put(0, fours);
        return QUARTER;
    }
    put(0, join(fours, fours));
    QUARTER / 2
}

});

features!(avx2 => with! {

/// # Safety
/// The memory of all rows was checked.
unsafe fn rows_256(rows: Rows, at: &mut usize, states: &mut States, symbols: &mut [u8]) -> usize {
    const QUARTERS: usize = LANES / QUARTER;
    let Rows { slots, near, string, sizes, start, n } = rows;
    // SAFETY: all arrays are as long as the vectors.
    let (first, all_sizes, mut vectors) = unsafe {
        let half_of_sizes = |from: usize| _mm256_broadcastsi128_si256(_mm_loadu_si128(SIZES[from..].as_ptr().cast()));
        (
            [0, QUARTER].map(|context| _mm256_loadu_si256(slots.first()[context..].as_ptr().cast())),
            [0, HALF].map(half_of_sizes),
            [0, 1, 2, 3].map(|i| _mm256_loadu_si256(states[QUARTER * i..].as_ptr().cast())),
        )
    };
    let zero = _mm256_setzero_si256();
    let in_table = _mm256_set1_epi32((1 << LOG2_TOTAL) - 1);
    let frequencies = _mm256_set1_epi32((1 << FREQUENCY_BITS) - 1);
    // The exponent of a float is that of 1, and its bit length more, less 1.
    let (exponent_before, most_below) = (_mm256_set1_epi32(126), _mm256_set1_epi32(QUARTER as i32 - 1));
    let (last_size, last_of_half) = (_mm256_set1_epi8(SIZES.len() as i8 - 1), _mm256_set1_epi8(HALF as i8 - 1));
    let byte = _mm256_set1_epi32(0xff);
    let in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let sizes = sizes.as_mut_ptr();
    let (mut done, mut from) = (0, *at);
    while done < n && from + STRING_BYTES <= string.len() {
        let mut sums = [zero; 2];
        for &distance in near {
            // SAFETY: a row begins at this distance before the place of this one, or before that.
            let row = unsafe { _mm256_loadu_si256(sizes.add(start + done - distance).cast()) };
            sums[0] = _mm256_add_epi16(sums[0], _mm256_unpacklo_epi8(row, zero));
            sums[1] = _mm256_add_epi16(sums[1], _mm256_unpackhi_epi8(row, zero));
        }
        let sums: [__m128i; QUARTERS] = [
            _mm256_castsi256_si128(sums[0]),
            _mm256_castsi256_si128(sums[1]),
            _mm256_extracti128_si256::<1>(sums[0]),
            _mm256_extracti128_si256::<1>(sums[1]),
        ];
        let n_lanes = LANES.min(n - done);
        let mut entries = [zero; QUARTERS];
        for i in 0..QUARTERS {
            let float = _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(sums[i])));
            let context = _mm256_max_epi32(_mm256_sub_epi32(_mm256_srli_epi32::<23>(float), exponent_before), zero);
            let of_contexts = first.map(|eight| _mm256_permutevar8x32_epi32(eight, context));
            let of_context =
                _mm256_blendv_epi8(of_contexts[0], of_contexts[1], _mm256_cmpgt_epi32(context, most_below));
            let slot = _mm256_add_epi32(of_context, _mm256_and_si256(vectors[i], in_table));
            // SAFETY: `Slots` has every slot of each of the 16 contexts.
            entries[i] = unsafe { _mm256_i32gather_epi32::<4>(slots.all().as_ptr().cast(), slot) };
        }
        for i in 0..QUARTERS {
            let frequency = _mm256_and_si256(_mm256_srli_epi32::<{ FREQUENCY_AT as i32 }>(entries[i]), frequencies);
            let share = _mm256_mullo_epi32(frequency, _mm256_srli_epi32::<{ LOG2_TOTAL as i32 }>(vectors[i]));
            let mut state = _mm256_add_epi32(share, _mm256_srli_epi32::<{ DISTANCE_AT as i32 }>(entries[i]));
            if n_lanes < LANES {
                let lanes = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32((QUARTER * i) as i32));
                let takes_part = _mm256_cmpgt_epi32(_mm256_set1_epi32(n_lanes as i32), lanes);
                state = _mm256_blendv_epi8(vectors[i], state, takes_part);
                entries[i] = _mm256_and_si256(entries[i], takes_part);
            }
            let is_low = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(state), zero);
            let low = _mm256_movemask_ps(_mm256_castsi256_ps(is_low)) as usize;
            // SAFETY: a quarter takes eight words at most, so the string has eight more for each
            // quarter that is left; a table of ranks is eight bytes long.
            let (words, ranks) = unsafe {
                (_mm_loadu_si128(string.as_ptr().add(from).cast()), _mm_loadl_epi64(RANKS[low].as_ptr().cast()))
            };
            let words = _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(words), _mm256_cvtepu8_epi32(ranks));
            let filled = _mm256_or_si256(_mm256_slli_epi32::<16>(state), words);
            vectors[i] = _mm256_blendv_epi8(state, filled, is_low);
            from += 2 * low.count_ones() as usize;
        }
        let [a, b, c, d] = entries.map(|entries| _mm256_and_si256(entries, byte));
        let row = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        let row = _mm256_permutevar8x32_epi32(row, in_order);
        let index = _mm256_min_epu8(row, last_size);
        let [first_half, second_half] =
            all_sizes.map(|half| _mm256_shuffle_epi8(half, _mm256_and_si256(index, last_of_half)));
        let of_row = _mm256_blendv_epi8(first_half, second_half, _mm256_cmpgt_epi8(index, last_of_half));
        // SAFETY: there is room for the row's symbols and their sizes.
        unsafe {
            _mm256_storeu_si256(symbols[done..].as_mut_ptr().cast(), row);
            _mm256_storeu_si256(sizes.add(start + done).cast(), of_row);
        }
        done += LANES;
    }
    *at = from;
    for (vector, quarter) in vectors.into_iter().zip(states.as_chunks_mut::<QUARTER>().0) {
        // SAFETY: a quarter of the array is as long as a vector.
        unsafe { _mm256_storeu_si256(quarter.as_mut_ptr().cast(), vector) };
    }
    done
}

});
