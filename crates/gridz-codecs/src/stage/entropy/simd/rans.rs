//! rANS steps with AVX-512, where two vectors hold the 32 states, and with AVX2, where four do. `rans`
//! defines the results.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use std::arch::x86_64::*;

use crate::cpu::isa::features;
use crate::stage::entropy::frequencies::{DISTANCE_AT, FREQUENCY_AT, FREQUENCY_BITS, LOG2_TOTAL};
use crate::stage::entropy::rans::LOWEST;
use crate::stage::entropy::simd::{Avx2, Avx512, with};
use crate::stage::rows::LANES;

/// Lanes of a vector of AVX-512, and of AVX2.
const HALF: usize = 16;
const QUARTER: usize = 8;

/// For each mask of eight lanes: the lanes in it, in order, as the last ones of eight.
const LAST: [[u8; QUARTER]; 1 << QUARTER] = {
    let mut last = [[0; QUARTER]; 1 << QUARTER];
    let mut mask = 0;
    while mask < last.len() {
        let (mut lane, mut at) = (QUARTER, QUARTER);
        while lane > 0 {
            lane -= 1;
            if mask >> lane & 1 != 0 {
                at -= 1;
                last[mask][at] = lane as u8;
            }
        }
        mask += 1;
    }
    last
};

/// AVX-512 version of [`Decoder::symbols`](crate::stage::entropy::rans::Decoder::symbols).
#[inline(always)]
pub fn symbols(
    _: Avx512,
    states: &mut [u32; LANES],
    slots: &[u32],
    contexts: &[u32; LANES],
    lanes: u32,
) -> [u8; LANES] {
    assert!(!slots.is_empty());
    // SAFETY: the token is proof of the instructions, and there is a slot.
    unsafe { take_symbols(states, slots, contexts, lanes) }
}

/// AVX-512 version of [`Decoder::refill`](crate::stage::entropy::rans::Decoder::refill). Returns
/// how many of the next words were taken.
#[inline(always)]
pub fn refill(_: Avx512, states: &mut [u32; LANES], next: &[u8; 2 * LANES]) -> usize {
    // SAFETY: the token is proof of the instructions.
    unsafe { refill_states(states, next) }
}

/// AVX-512 version of [`Decoder::bits`](crate::stage::entropy::rans::Decoder::bits). Also returns
/// how many of the next words were taken.
#[inline(always)]
pub fn bits(
    _: Avx512,
    states: &mut [u32; LANES],
    next: &[u8; 2 * LANES],
    n: &[u32; LANES],
) -> ([u32; LANES], usize) {
    // SAFETY: the token is proof of the instructions.
    unsafe { take_bits(states, next, n) }
}

/// AVX-512 version of [`Encoder::symbols`](crate::stage::entropy::rans::Encoder::symbols). Returns
/// how many words were written at the end of `before`.
#[inline(always)]
pub fn put_symbols(
    _: Avx512,
    states: &mut [u32; LANES],
    before: &mut [u16; LANES],
    symbols: (&[u32; LANES], u32),
    bits: (&[u32; LANES], &[u32; LANES]),
) -> usize {
    // SAFETY: the token is proof of the instructions.
    unsafe { write_symbols(states, before, symbols, bits) }
}

/// AVX2 version of [`Encoder::symbols_alone`](crate::stage::entropy::rans::Encoder::symbols_alone).
#[inline(always)]
pub fn put_symbols_avx2(
    _: Avx2,
    states: &mut [u32; LANES],
    before: &mut [u16; LANES],
    symbols: (&[u32; LANES], u32),
) -> usize {
    // SAFETY: the token is proof of the instructions.
    unsafe { write_symbols_256(states, before, symbols) }
}

/// AVX-512 version of [`Encoder::bits`](crate::stage::entropy::rans::Encoder::bits). Returns how
/// many words were written at the end of `before`.
#[inline(always)]
pub fn put_bits(
    _: Avx512,
    states: &mut [u32; LANES],
    before: &mut [u16; LANES],
    bits: &[u32; LANES],
    n: &[u32; LANES],
) -> usize {
    // SAFETY: the token is proof of the instructions.
    unsafe { write_bits(states, before, bits, n) }
}

features!(avx512 => with! {

#[inline]
fn load(numbers: &[u32; LANES]) -> [__m512i; 2] {
    // SAFETY: the array is as long as two vectors.
    unsafe { [0, HALF].map(|at| _mm512_loadu_si512(numbers[at..].as_ptr().cast())) }
}

#[inline]
fn store(vectors: [__m512i; 2], numbers: &mut [u32; LANES]) {
    for (vector, half) in vectors.into_iter().zip(numbers.as_chunks_mut::<HALF>().0) {
        // SAFETY: half of the array is as long as a vector.
        unsafe { _mm512_storeu_si512(half.as_mut_ptr().cast(), vector) };
    }
}

/// # Safety
/// `slots` is not empty.
#[inline]
unsafe fn take_symbols(
    states: &mut [u32; LANES],
    slots: &[u32],
    contexts: &[u32; LANES],
    lanes: u32,
) -> [u8; LANES] {
    let last = _mm512_set1_epi32((slots.len() - 1).min(i32::MAX as usize) as i32);
    let below = _mm512_set1_epi32((1 << LOG2_TOTAL) - 1);
    let frequencies = _mm512_set1_epi32((1 << FREQUENCY_BITS) - 1);
    let mut vectors = load(states);
    let contexts = load(contexts);
    let mut symbols = [0; LANES];
    for half in 0..2 {
        let state = vectors[half];
        let slot = _mm512_add_epi32(contexts[half], _mm512_and_si512(state, below));
        // SAFETY: the index is clamped to the last slot.
        let entry = unsafe { _mm512_i32gather_epi32::<4>(_mm512_min_epu32(slot, last), slots.as_ptr().cast()) };
        // SAFETY: half of the symbols are as long as this vector.
        unsafe { _mm_storeu_si128(symbols[HALF * half..].as_mut_ptr().cast(), _mm512_cvtepi32_epi8(entry)) };
        let frequency = _mm512_and_si512(_mm512_srli_epi32::<FREQUENCY_AT>(entry), frequencies);
        let share = _mm512_mullo_epi32(frequency, _mm512_srli_epi32::<LOG2_TOTAL>(state));
        let takes_part = (lanes >> (HALF * half)) as __mmask16;
        let distance = _mm512_srli_epi32::<DISTANCE_AT>(entry);
        vectors[half] = _mm512_mask_add_epi32(state, takes_part, share, distance);
    }
    store(vectors, states);
    symbols
}

#[inline]
fn refill_states(states: &mut [u32; LANES], next: &[u8; 2 * LANES]) -> usize {
    let mut vectors = load(states);
    let n_words = fill(&mut vectors, next);
    store(vectors, states);
    n_words
}

#[inline]
fn take_bits(states: &mut [u32; LANES], next: &[u8; 2 * LANES], n: &[u32; LANES]) -> ([u32; LANES], usize) {
    let one = _mm512_set1_epi32(1);
    let mut vectors = load(states);
    let n = load(n);
    let mut taken = vectors;
    for half in 0..2 {
        let below = _mm512_sub_epi32(_mm512_sllv_epi32(one, n[half]), one);
        taken[half] = _mm512_and_si512(vectors[half], below);
        vectors[half] = _mm512_srlv_epi32(vectors[half], n[half]);
    }
    let n_words = fill(&mut vectors, next);
    store(vectors, states);
    let mut bits = [0; LANES];
    store(taken, &mut bits);
    (bits, n_words)
}

/// Refills the states that are too low with the next words; returns their number.
#[inline]
fn fill(states: &mut [__m512i; 2], next: &[u8; 2 * LANES]) -> usize {
    let lowest = _mm512_set1_epi32(LOWEST as i32);
    let low = [0, 1].map(|half| _mm512_cmplt_epu32_mask(states[half], lowest));
    let n_first = low[0].count_ones() as usize;
    for (half, at) in [0, n_first].into_iter().enumerate() {
        // SAFETY: `at` is at most 16, so 16 of the 32 words are left.
        let words = unsafe { _mm256_loadu_si256(next[2 * at..].as_ptr().cast()) };
        let words = _mm512_maskz_expand_epi32(low[half], _mm512_cvtepu16_epi32(words));
        let higher = _mm512_slli_epi32::<16>(states[half]);
        states[half] = _mm512_mask_or_epi32(states[half], low[half], higher, words);
    }
    n_first + low[1].count_ones() as usize
}

/// Moves the lower halves of full states to the end of `before`; returns their number.
#[inline]
fn drain(states: &mut [__m512i; 2], full: [__mmask16; 2], before: &mut [u16; LANES]) -> usize {
    let mut n_words = 0;
    for half in [1, 0] {
        let words = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full[half], states[half]));
        let n = full[half].count_ones() as usize;
        n_words += n;
        let place = before[LANES - n_words..].as_mut_ptr();
        // SAFETY: there is room for `n` words at `place`, and no more are stored.
        unsafe { _mm256_mask_storeu_epi16(place.cast(), _bzhi_u32(u32::MAX, n as u32) as __mmask16, words) };
        states[half] = _mm512_mask_srli_epi32::<16>(states[half], full[half], states[half]);
    }
    n_words
}

#[inline]
fn write_symbols(
    states: &mut [u32; LANES],
    before: &mut [u16; LANES],
    (ranges, lanes): (&[u32; LANES], u32),
    (bits, n): (&[u32; LANES], &[u32; LANES]),
) -> usize {
    let start = _mm512_set1_epi32(0xffff);
    let highest_bits = _mm512_set1_epi32((32 - LOG2_TOTAL) as i32);
    let mut vectors = load(states);
    let ranges = load(ranges);
    let (bits, n) = (load(bits), load(n));
    let takes_part = [lanes as __mmask16, (lanes >> HALF) as __mmask16];
    let frequencies = ranges.map(|range| _mm512_srli_epi32::<16>(range));
    let full = [0, 1].map(|half| {
        let highest = _mm512_srlv_epi32(vectors[half], _mm512_sub_epi32(highest_bits, n[half]));
        _mm512_mask_cmpge_epu32_mask(takes_part[half], highest, frequencies[half])
    });
    let n_words = drain(&mut vectors, full, before);
    for half in 0..2 {
        let with_bits = _mm512_or_si512(_mm512_sllv_epi32(vectors[half], n[half]), bits[half]);
        // The quotient is below 2^22, so that of floats is wrong by one at most.
        let [state, frequency] = [with_bits, frequencies[half]].map(|vector| _mm512_cvtepu32_ps(vector));
        let about = _mm512_cvttps_epu32(_mm512_div_ps(state, frequency));
        let rest = _mm512_sub_epi32(with_bits, _mm512_mullo_epi32(about, frequencies[half]));
        let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
        let (is_above, is_below) =
            (_mm512_cmplt_epi32_mask(rest, zero), _mm512_cmpge_epi32_mask(rest, frequencies[half]));
        let quotient = _mm512_mask_sub_epi32(about, is_above, about, one);
        let quotient = _mm512_mask_add_epi32(quotient, is_below, quotient, one);
        let rest = _mm512_mask_add_epi32(rest, is_above, rest, frequencies[half]);
        let rest = _mm512_mask_sub_epi32(rest, is_below, rest, frequencies[half]);
        let slot = _mm512_add_epi32(rest, _mm512_and_si512(ranges[half], start));
        let next = _mm512_or_si512(_mm512_slli_epi32::<LOG2_TOTAL>(quotient), slot);
        vectors[half] = _mm512_mask_mov_epi32(vectors[half], takes_part[half], next);
    }
    store(vectors, states);
    n_words
}

#[inline]
fn write_bits(states: &mut [u32; LANES], before: &mut [u16; LANES], bits: &[u32; LANES], n: &[u32; LANES]) -> usize {
    let all = _mm512_set1_epi32(32);
    let mut vectors = load(states);
    let (bits, n) = (load(bits), load(n));
    let full = [0, 1].map(|half| {
        let highest = _mm512_srlv_epi32(vectors[half], _mm512_sub_epi32(all, n[half]));
        _mm512_test_epi32_mask(highest, highest)
    });
    let n_words = drain(&mut vectors, full, before);
    for half in 0..2 {
        vectors[half] = _mm512_or_si512(_mm512_sllv_epi32(vectors[half], n[half]), bits[half]);
    }
    store(vectors, states);
    n_words
}

});

features!(avx2 => with! {

#[inline]
fn write_symbols_256(
    states: &mut [u32; LANES],
    before: &mut [u16; LANES],
    (ranges, lanes): (&[u32; LANES], u32),
) -> usize {
    let start = _mm256_set1_epi32(0xffff);
    let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
    let half = _mm256_set1_ps(65536.0);
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let mut end = LANES;
    for i in (0..LANES / QUARTER).rev() {
        let at = QUARTER * i;
        // SAFETY: a quarter of each array is as long as a vector.
        let (state, range) = unsafe {
            (_mm256_loadu_si256(states[at..].as_ptr().cast()), _mm256_loadu_si256(ranges[at..].as_ptr().cast()))
        };
        let of_quarter = _mm256_set1_epi32((lanes >> at & 0xff) as i32);
        let takes_part = _mm256_cmpeq_epi32(_mm256_and_si256(of_quarter, bits), bits);
        let frequency = _mm256_srli_epi32::<16>(range);
        // Both are at most 2^10.
        let is_small = _mm256_cmpgt_epi32(frequency, _mm256_srli_epi32::<{ 32 - LOG2_TOTAL as i32 }>(state));
        let is_full = _mm256_andnot_si256(is_small, takes_part);
        let full = _mm256_movemask_ps(_mm256_castsi256_ps(is_full)) as usize;
        // SAFETY: the table has eight bytes for each mask.
        let last = unsafe { _mm_loadl_epi64(LAST[full].as_ptr().cast()) };
        let words = _mm256_permutevar8x32_epi32(_mm256_and_si256(state, start), _mm256_cvtepu8_epi32(last));
        let words = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        // SAFETY: three quarters have taken 24 words at most, so there are eight before `end`.
        unsafe { _mm_storeu_si128(before.as_mut_ptr().add(end - QUARTER).cast(), words) };
        end -= full.count_ones() as usize;
        let state = _mm256_blendv_epi8(state, _mm256_srli_epi32::<16>(state), is_full);
        // The quotient is below 2^22, so that of floats is wrong by one at most.
        let high = _mm256_cvtepi32_ps(_mm256_srli_epi32::<16>(state));
        let low = _mm256_cvtepi32_ps(_mm256_and_si256(state, start));
        let float = _mm256_add_ps(_mm256_mul_ps(high, half), low);
        let about = _mm256_cvttps_epi32(_mm256_div_ps(float, _mm256_cvtepi32_ps(frequency)));
        let rest = _mm256_sub_epi32(state, _mm256_mullo_epi32(about, frequency));
        let is_above = _mm256_cmpgt_epi32(zero, rest);
        let is_below = _mm256_cmpgt_epi32(rest, _mm256_sub_epi32(frequency, one));
        // A mask is -1.
        let quotient = _mm256_sub_epi32(_mm256_add_epi32(about, is_above), is_below);
        let rest = _mm256_add_epi32(rest, _mm256_and_si256(is_above, frequency));
        let rest = _mm256_sub_epi32(rest, _mm256_and_si256(is_below, frequency));
        let slot = _mm256_add_epi32(rest, _mm256_and_si256(range, start));
        let next = _mm256_or_si256(_mm256_slli_epi32::<{ LOG2_TOTAL as i32 }>(quotient), slot);
        let next = _mm256_blendv_epi8(state, next, takes_part);
        // SAFETY: a quarter of the array is as long as a vector.
        unsafe { _mm256_storeu_si256(states[at..].as_mut_ptr().cast(), next) };
    }
    LANES - end
}

});
