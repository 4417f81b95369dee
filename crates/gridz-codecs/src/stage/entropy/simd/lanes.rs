//! Lanes with AVX-512: the 32 lanes of a row are the 32 16-bit elements of a vector. `lanes` and
//! `section` define the results.
//!
//! The up to 32 bits of a lane are in two vectors: the upper 16 bits and the lower 16 bits.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use std::arch::x86_64::*;

use crate::cpu::isa::features;
use crate::stage::entropy::lanes::{Codes, LANES, MAX_BITS, Reader, WORD_BITS, WORD_BYTES, Writer};
use crate::stage::entropy::section::LOG_BITS;
use crate::stage::entropy::simd::{Avx512, with};
use crate::stage::entropy::symbols::Number;

/// Bytes of a vector.
const VECTOR: usize = 64;
/// First bits of a code, by which short code lengths are looked up at once.
const FIRST_BITS: u32 = 7;
/// 32-bit words of a vector.
const WORDS: usize = 16;
/// Entries of a table that is looked up in registers.
const FEW: usize = 256;

/// Reads the ranks of whole rows while the stream surely has enough words; returns their number.
pub fn read(_: Avx512, codes: &Codes, reader: &mut Reader, ranks: &mut [u16]) -> usize {
    // SAFETY: the token is proof of the instructions; `ranks` has room for `ranks.len()` numbers.
    unsafe { read_rows::<false>(codes, &[0; 256], reader, ranks.as_mut_ptr().cast(), ranks.len()) }
}

/// Like [`read`], but writes the bytes that `by_rank` has for the ranks.
pub fn read_bytes(_: Avx512, codes: &Codes, by_rank: &[u8; 256], reader: &mut Reader, bytes: &mut [u8]) -> usize {
    // SAFETY: the token is proof of the instructions; `bytes` has room for `bytes.len()` numbers.
    unsafe { read_rows::<true>(codes, by_rank, reader, bytes.as_mut_ptr(), bytes.len()) }
}

/// Prepends the rows of `codes`. Writes full words to the end of `out`; returns where they begin.
pub fn write(_: Avx512, writer: &mut Writer, codes: &[u16], out: &mut [u8]) -> usize {
    // SAFETY: the token is proof of the instructions.
    unsafe { write_rows(writer, codes, out) }
}

/// Builds numbers from `entries`, see [`LOG_BITS`], by whole vectors. Their tails begin at bit `at`.
/// Returns their number and the end of their tails.
pub fn read_tails<T: Number>(
    _: Avx512,
    entries: &[u16],
    tails: &[u8],
    at: usize,
    numbers: &mut [T],
) -> (usize, usize) {
    // SAFETY: the token is proof of the instructions.
    unsafe { read_tails_by_vectors(entries, tails, at, numbers) }
}

/// Looks up symbols, in whole rows, in `table`.
pub fn look_up(_: Avx512, table: &[u16], symbols: &[u16], found: &mut [u16]) {
    // SAFETY: the token is proof of the instructions.
    unsafe { look_up_rows(table, symbols, found) }
}

#[inline(always)]
fn halves(bits: &[u32; LANES]) -> [[u16; LANES]; 2] {
    [16, 0].map(|shift| bits.map(|bits| (bits >> shift) as u16))
}

#[inline(always)]
fn whole([high, low]: &[[u16; LANES]; 2]) -> [u32; LANES] {
    std::array::from_fn(|lane| u32::from(high[lane]) << 16 | u32::from(low[lane]))
}

features!(avx512 => with! {

#[inline]
fn load(numbers: &[u16; LANES]) -> __m512i {
    // SAFETY: the array is as long as a vector.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

#[inline]
fn store(vector: __m512i) -> [u16; LANES] {
    let mut numbers = [0; LANES];
    // SAFETY: the array is as long as a vector.
    unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), vector) };
    numbers
}

/// Reads ranks, or bytes if `TO_BYTES`.
///
/// # Safety
/// `out` has room for `n` bytes if `TO_BYTES`, else for `n` ranks of 16 bits.
unsafe fn read_rows<const TO_BYTES: bool>(
    codes: &Codes,
    by_rank: &[u8; 256],
    reader: &mut Reader,
    out: *mut u8,
    n: usize,
) -> usize {
    let [mut high, mut low] = halves(&reader.bits).map(|half| load(&half));
    let mut counts = load(&reader.counts.map(|count| count as u16));
    let longest = _mm512_set1_epi16(codes.longest as i16);
    let word_bits = _mm512_set1_epi16(WORD_BITS as i16);
    let offsets = load(&codes.offsets);
    let one = _mm512_set1_epi16(1);
    // Code lengths by the first bits; one bit more than these for longer codes.
    let starts: [u8; 2 * VECTOR] = std::array::from_fn(|first| {
        let last_bits = ((first as u32 + 1) << (WORD_BITS - FIRST_BITS)) - 1;
        codes.length(last_bits as u16).min(FIRST_BITS + 1) as u8
    });
    // SAFETY: the array is as long as two vectors.
    let starts = unsafe { [0, VECTOR].map(|at| _mm512_loadu_si512(starts[at..].as_ptr().cast())) };
    let mut limits = [_mm512_setzero_si512(); MAX_BITS as usize];
    let mut n_limits = 0;
    for length in FIRST_BITS + 1..codes.longest {
        limits[n_limits] = _mm512_set1_epi16(codes.limits[length as usize] as i16);
        n_limits += 1;
    }
    // SAFETY: the table is as long as four vectors.
    let bytes: [__m512i; 4] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(by_rank[VECTOR * i..].as_ptr().cast()) });
    let mut n_read = 0;
    while n_read + LANES <= n {
        let Some(next) = reader.stream.get(reader.at..reader.at + VECTOR) else { break };
        let takes = _mm512_cmplt_epu16_mask(counts, longest);
        // SAFETY: `next` is as long as a vector.
        let words = unsafe { _mm512_maskz_expand_epi16(takes, _mm512_loadu_si512(next.as_ptr().cast())) };
        reader.at += WORD_BYTES * takes.count_ones() as usize;
        let top = _mm512_or_si512(high, _mm512_srlv_epi16(words, counts));
        let below = _mm512_or_si512(low, _mm512_sllv_epi16(words, _mm512_sub_epi16(word_bits, counts)));
        let first = _mm512_srli_epi16(top, WORD_BITS - FIRST_BITS);
        let mut lengths = _mm512_maskz_permutex2var_epi8(0x5555_5555_5555_5555, starts[0], first, starts[1]);
        for &limit in &limits[..n_limits] {
            lengths = _mm512_mask_add_epi16(lengths, _mm512_cmpge_epu16_mask(top, limit), lengths, one);
        }
        let code = _mm512_srlv_epi16(top, _mm512_sub_epi16(word_bits, lengths));
        let found = _mm512_add_epi16(code, _mm512_permutexvar_epi16(lengths, offsets));
        if TO_BYTES {
            let low = _mm512_permutex2var_epi8(bytes[0], found, bytes[1]);
            let high = _mm512_permutex2var_epi8(bytes[2], found, bytes[3]);
            let is_high = _mm512_test_epi16_mask(found, _mm512_set1_epi16(1 << 7));
            let row = _mm512_cvtepi16_epi8(_mm512_mask_blend_epi16(is_high, low, high));
            // SAFETY: a row of bytes is half a vector.
            unsafe { _mm256_storeu_si256(out.add(n_read).cast(), row) };
        } else {
            // SAFETY: a row of ranks is as long as a vector.
            unsafe { _mm512_storeu_si512(out.cast::<u16>().add(n_read).cast(), found) };
        }
        high = _mm512_shldv_epi16(top, below, lengths);
        low = _mm512_sllv_epi16(below, lengths);
        counts = _mm512_sub_epi16(_mm512_mask_add_epi16(counts, takes, counts, word_bits), lengths);
        n_read += LANES;
    }
    reader.bits = whole(&[store(high), store(low)]);
    reader.counts = store(counts).map(u32::from);
    n_read
}

fn write_rows(writer: &mut Writer, codes: &[u16], out: &mut [u8]) -> usize {
    let [mut high, mut low] = halves(&writer.bits).map(|half| load(&half));
    let mut counts = load(&writer.counts.map(|count| count as u16));
    let full = _mm512_set1_epi16((WORD_BITS + writer.longest) as i16);
    let word_bits = _mm512_set1_epi16(WORD_BITS as i16);
    let (one, most) = (_mm512_set1_epi16(1), _mm512_set1_epi16(WORD_BITS as i16 - 1));
    let mut end = out.len();
    for codes in codes.as_chunks().0.iter().rev() {
        let ended = load(codes);
        let before = _mm512_sub_epi16(ended, one);
        // A one for each bit below the one that marks the code's end.
        let below = _mm512_andnot_si512(ended, before);
        let (codes, lengths) =
            (_mm512_and_si512(ended, before), _mm512_sub_epi16(most, _mm512_popcnt_epi16(below)));
        let next = _mm512_add_epi16(counts, lengths);
        let are_full = _mm512_cmpge_epu16_mask(next, full);
        let words = _mm512_shldv_epi16(high, low, _mm512_sub_epi16(counts, word_bits));
        let words = _mm512_maskz_compress_epi16(are_full, words);
        let n_words = are_full.count_ones();
        let start = end - WORD_BYTES * n_words as usize;
        let place = out[start..end].as_mut_ptr();
        // SAFETY: only the words are stored, and the range has room for them.
        unsafe { _mm512_mask_storeu_epi16(place.cast(), _bzhi_u32(u32::MAX, n_words), words) };
        end = start;
        counts = _mm512_mask_sub_epi16(next, are_full, next, word_bits);
        low = _mm512_shrdv_epi16(low, high, lengths);
        high = _mm512_or_si512(_mm512_srlv_epi16(high, lengths), codes);
    }
    writer.bits = whole(&[store(high), store(low)]);
    writer.counts = store(counts).map(u32::from);
    end
}

fn look_up_rows(table: &[u16], symbols: &[u16], found: &mut [u16]) {
    let mut first = [0; FEW];
    let n_first = table.len().min(FEW);
    first[..n_first].copy_from_slice(&table[..n_first]);
    let first = first.as_chunks().0;
    let parts: [__m512i; FEW / LANES] = std::array::from_fn(|i| load(&first[i]));
    let most = _mm512_set1_epi16(FEW as i16 - 1);
    let (bit_6, bit_7) = (_mm512_set1_epi16(1 << 6), _mm512_set1_epi16(1 << 7));
    for (symbols, found) in symbols.as_chunks().0.iter().zip(found.as_chunks_mut().0) {
        let row = load(symbols);
        if _mm512_cmpgt_epu16_mask(row, most) != 0 {
            for lane in 0..LANES {
                found[lane] = table[usize::from(symbols[lane])];
            }
            continue;
        }
        let quarters: [__m512i; 4] =
            std::array::from_fn(|i| _mm512_permutex2var_epi16(parts[2 * i], row, parts[2 * i + 1]));
        let is_odd = _mm512_test_epi16_mask(row, bit_6);
        let low = _mm512_mask_blend_epi16(is_odd, quarters[0], quarters[1]);
        let high = _mm512_mask_blend_epi16(is_odd, quarters[2], quarters[3]);
        *found = store(_mm512_mask_blend_epi16(_mm512_test_epi16_mask(row, bit_7), low, high));
    }
}

fn read_tails_by_vectors<T: Number>(
    entries: &[u16],
    tails: &[u8],
    mut at: usize,
    numbers: &mut [T],
) -> (usize, usize) {
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi32(1));
    let lengths = _mm512_set1_epi32((1 << LOG_BITS) - 1);
    // `lowest` copies a word's lowest byte to all of its bytes. Adding `four` gives the indices of
    // four bytes from there on; adding `fifth` moves the first index to the fifth byte.
    let lowest = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    let (four, fifth) = (_mm512_set1_epi32(0x0302_0100), _mm512_set1_epi32(4));
    let mut n_read = 0;
    for (entries, numbers) in entries.as_chunks::<WORDS>().0.iter().zip(numbers.as_chunks_mut::<WORDS>().0) {
        // The tails of 16 numbers have at most 58 bytes and begin in the first byte. Bytes past the
        // end are zeros.
        let bytes = tails.get(at / 8..).unwrap_or_default();
        let there = if bytes.len() < VECTOR { (1 << bytes.len()) - 1 } else { u64::MAX };
        // SAFETY: the mask selects only bytes of `bytes`; `entries` is as long as half a vector.
        let (bytes, entries) = unsafe {
            (_mm512_maskz_loadu_epi8(there, bytes.as_ptr().cast()), _mm256_loadu_si256(entries.as_ptr().cast()))
        };
        let entries = _mm512_cvtepu16_epi32(entries);
        let n_bits = _mm512_and_si512(entries, lengths);
        let mut ends = _mm512_add_epi32(n_bits, _mm512_alignr_epi32::<15>(n_bits, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<14>(ends, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<12>(ends, zero));
        ends = _mm512_add_epi32(ends, _mm512_alignr_epi32::<8>(ends, zero));
        let starts = _mm512_add_epi32(_mm512_sub_epi32(ends, n_bits), _mm512_set1_epi32(at as i32 % 8));
        let places = _mm512_shuffle_epi8(_mm512_srli_epi32::<3>(starts), lowest);
        let places = _mm512_add_epi32(places, four);
        let low = _mm512_permutexvar_epi8(places, bytes);
        let high = _mm512_permutexvar_epi8(_mm512_add_epi32(places, fifth), bytes);
        let from_start = _mm512_shrdv_epi32(low, high, _mm512_and_si512(starts, _mm512_set1_epi32(7)));
        let mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, n_bits), one);
        let above = _mm512_sllv_epi32(_mm512_srli_epi32::<LOG_BITS>(entries), n_bits);
        let row = _mm512_or_si512(above, _mm512_and_si512(from_start, mask));
        let mut words = [0; WORDS];
        // SAFETY: the words are as long as a vector.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), row) };
        for lane in 0..WORDS {
            numbers[lane] = T::from_u32(words[lane]);
        }
        at += _mm_extract_epi32::<3>(_mm512_extracti32x4_epi32::<3>(ends)) as usize;
        n_read += WORDS;
    }
    (n_read, at)
}

});
