//! Lanes with AVX2: the 32 lanes of a row are the 16-bit elements of two vectors. `lanes` and
//! `section` define the results.
//!
//! As in `simd::lanes`, the upper and the lower 16 bits of the lanes are in separate vectors. AVX2
//! shifts all 16-bit elements of a vector by the same number of bits; so elements are multiplied
//! by powers of two, which are looked up.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

use std::arch::x86_64::*;

use crate::cpu::isa::features;
use crate::stage::entropy::lanes::{Codes, LANES, MAX_BITS, Reader, WORD_BITS, WORD_BYTES, Writer};
use crate::stage::entropy::simd::{Avx2, with};

/// Elements of a vector.
const HALF: usize = LANES / 2;
/// Elements that a shuffle moves at once.
const GROUP: usize = 8;
/// Most bytes of the words that a row of codes reads or writes.
const ROW_BYTES: usize = LANES * WORD_BYTES;
/// Entries of a table that a shuffle looks up.
const TABLE: usize = 16;
/// Tables for all bytes.
const BYTE_TABLES: usize = 256 / TABLE;

/// Shuffles by the mask of the elements that take or give a word: spread the first words of a group
/// to these elements; gather the words of these elements at the end.
struct Shuffles {
    spread: [[u8; 2 * GROUP]; 1 << GROUP],
    gather: [[u8; 2 * GROUP]; 1 << GROUP],
}

static SHUFFLES: Shuffles = {
    // Bytes above 127 select zero.
    let mut all = Shuffles { spread: [[0x80; 16]; 256], gather: [[0x80; 16]; 256] };
    let mut mask = 0;
    while mask < 256_usize {
        let (mut lane, mut n) = (0, 0);
        while lane < GROUP {
            if mask >> lane & 1 == 1 {
                let place = GROUP - mask.count_ones() as usize + n;
                let mut byte = 0;
                while byte < 2 {
                    all.spread[mask][2 * lane + byte] = (2 * n + byte) as u8;
                    all.gather[mask][2 * place + byte] = (2 * lane + byte) as u8;
                    byte += 1;
                }
                n += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    all
};

/// The bytes of the mask of a row, as [`mask_of`] returns it, that belong to each group of lanes.
const GROUP_BYTES: [u32; LANES / GROUP] = [0, 2, 1, 3];

/// 2^n for n below 16.
const POWERS: [u16; TABLE] = {
    let mut powers = [0; TABLE];
    let mut n = 0;
    while n < TABLE {
        powers[n] = 1 << n;
        n += 1;
    }
    powers
};

/// 2^(16 - n) for n below 16; 0 for n = 0.
const OPPOSITE_POWERS: [u16; TABLE] = {
    let mut powers = [0; TABLE];
    let mut n = 1;
    while n < TABLE {
        powers[n] = 1 << (TABLE - n);
        n += 1;
    }
    powers
};

/// Its products with powers of two have different upper four bits: a de Bruijn sequence.
const SEQUENCE: u16 = 0x0f65;

/// Code lengths by the upper four bits of the product of [`SEQUENCE`] and the bit that ends a code.
const LENGTHS: [u8; TABLE] = {
    let mut lengths = [0; TABLE];
    let mut length = 1;
    while length <= MAX_BITS as usize {
        lengths[(SEQUENCE << (TABLE - 1 - length) >> 12) as usize] = length as u8;
        length += 1;
    }
    lengths
};

/// Reads the ranks of whole rows while the stream surely has enough words; returns their number.
pub fn read(_: Avx2, codes: &Codes, reader: &mut Reader, ranks: &mut [u16]) -> usize {
    // SAFETY: the token is proof of the instructions; `ranks` has room for `ranks.len()` numbers.
    unsafe { read_rows::<false>(codes, &[], reader, ranks.as_mut_ptr().cast(), ranks.len()) }
}

/// Like [`read`], but writes the bytes that `by_rank` has for the ranks.
pub fn read_bytes(_: Avx2, codes: &Codes, by_rank: &[u16], reader: &mut Reader, bytes: &mut [u8]) -> usize {
    // SAFETY: the token is proof of the instructions; `bytes` has room for `bytes.len()` numbers.
    unsafe { read_rows::<true>(codes, by_rank, reader, bytes.as_mut_ptr(), bytes.len()) }
}

/// Prepends the last rows of `codes` while `out` surely has room. Writes full words to the end of
/// `out`; returns where they begin, and the number of codes left.
pub fn write(_: Avx2, writer: &mut Writer, codes: &[u16], out: &mut [u8]) -> (usize, usize) {
    // SAFETY: the token is proof of the instructions.
    unsafe { write_rows(writer, codes, out) }
}

/// Looks up symbols, in whole rows, in `table`, whose entries from `first` on are enough.
pub fn look_up(_: Avx2, table: &[u16], first: usize, symbols: &[u16], found: &mut [u16]) {
    // SAFETY: the token is proof of the instructions.
    unsafe { look_up_rows(table, first, symbols, found) }
}

/// Bits of the codes of each lane, in at most `section::MAX_ROWS` whole rows.
pub fn lane_bits(_: Avx2, codes: &[u16]) -> [u32; LANES] {
    // SAFETY: the token is proof of the instructions.
    unsafe { add_lengths(codes) }
}

features!(avx2 => with! {

#[inline]
fn load(numbers: &[u16; HALF]) -> __m256i {
    // SAFETY: the array is as long as a vector.
    unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
}

#[inline]
fn load_row(numbers: &[u16; LANES]) -> [__m256i; 2] {
    [0, HALF].map(|at| load(numbers[at..].first_chunk().expect("half a row")))
}

#[inline]
fn load_lanes(lanes: [u32; LANES]) -> [__m256i; 2] {
    load_row(&lanes.map(|lane| lane as u16))
}

#[inline]
fn store_lanes(halves: [__m256i; 2]) -> [u32; LANES] {
    let mut numbers = [0_u16; LANES];
    for (i, half) in halves.into_iter().enumerate() {
        // SAFETY: half a row is as long as a vector.
        unsafe { _mm256_storeu_si256(numbers[HALF * i..].as_mut_ptr().cast(), half) };
    }
    numbers.map(u32::from)
}

/// A table of bytes, in both halves of a vector.
#[inline]
fn load_table(table: [u8; TABLE]) -> __m256i {
    // SAFETY: the array is as long as half a vector.
    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
}

/// A table of 16-bit numbers: their lower and their upper bytes.
#[inline]
fn load_wide_table(table: [u16; TABLE]) -> [__m256i; 2] {
    [0, 8].map(|shift| load_table(table.map(|number| (number >> shift) as u8)))
}

/// Looks up 16-bit numbers. The indices have 0x80 in their upper bytes.
#[inline]
fn find([low, high]: [__m256i; 2], indices: __m256i) -> __m256i {
    let upper = _mm256_or_si256(_mm256_slli_epi16::<8>(indices), _mm256_set1_epi16(0x80));
    _mm256_or_si256(_mm256_shuffle_epi8(low, indices), _mm256_shuffle_epi8(high, upper))
}

/// The mask of the lanes whose elements are all ones; all other elements are 0. See
/// [`GROUP_BYTES`].
#[inline]
fn mask_of([first, second]: [__m256i; 2]) -> u32 {
    _mm256_movemask_epi8(_mm256_packs_epi16(first, second)) as u32
}

/// # Safety
/// `out` has room for `n` bytes if `TO_BYTES`, else for `n` ranks of 16 bits.
unsafe fn read_rows<const TO_BYTES: bool>(
    codes: &Codes,
    by_rank: &[u16],
    reader: &mut Reader,
    out: *mut u8,
    n: usize,
) -> usize {
    let [mut high, mut low] = [16, 0].map(|shift| load_lanes(reader.bits.map(|bits| bits >> shift)));
    let mut counts = load_lanes(reader.counts);
    let sign = _mm256_set1_epi16(i16::MIN);
    let (zero, word_bits) = (_mm256_setzero_si256(), _mm256_set1_epi16(WORD_BITS as i16));
    let longest = _mm256_set1_epi16(codes.longest as i16);
    let (powers, opposite) = (load_wide_table(POWERS), load_wide_table(OPPOSITE_POWERS));
    let offsets = load_wide_table(*codes.offsets.first_chunk().expect("offsets of all lengths"));
    // With their highest bits inverted, since comparisons are signed.
    let mut limits = [zero; MAX_BITS as usize];
    let mut n_limits = 0;
    for length in codes.shortest..codes.longest {
        limits[n_limits] = _mm256_xor_si256(_mm256_set1_epi16(codes.limits[length as usize] as i16), sign);
        n_limits += 1;
    }
    let mut tables = [zero; BYTE_TABLES];
    for (table, symbols) in tables.iter_mut().zip(by_rank.chunks(TABLE)) {
        *table = load_table(std::array::from_fn(|i| symbols.get(i).map_or(0, |&symbol| symbol as u8)));
    }
    let tables = &tables[..by_rank.len().div_ceil(TABLE).min(tables.len())];
    let mut n_read = 0;
    while n_read + LANES <= n {
        // A row takes at most as many words.
        let Some(next) = reader.stream.get(reader.at..reader.at + ROW_BYTES) else { break };
        let takes = counts.map(|counts| _mm256_cmpgt_epi16(longest, counts));
        let mask = mask_of(takes);
        let mut n_before = 0;
        let groups = GROUP_BYTES.map(|byte| {
            let of_group = (mask >> (8 * byte)) as usize % 256;
            // SAFETY: at most 8 words of each group before were taken, so 8 more are in the row;
            // a shuffle is as long as the vector.
            let words = unsafe {
                let shuffle = _mm_loadu_si128(SHUFFLES.spread[of_group].as_ptr().cast());
                _mm_shuffle_epi8(_mm_loadu_si128(next.as_ptr().add(n_before).cast()), shuffle)
            };
            n_before += WORD_BYTES * of_group.count_ones() as usize;
            words
        });
        reader.at += n_before;
        let mut found = [zero; 2];
        for i in 0..2 {
            let words = _mm256_set_m128i(groups[2 * i + 1], groups[2 * i]);
            let power = find(opposite, _mm256_or_si256(counts[i], sign));
            // Lanes without bits, which are not shifted.
            let whole = _mm256_and_si256(words, _mm256_cmpeq_epi16(counts[i], zero));
            let top = _mm256_or_si256(high[i], _mm256_or_si256(whole, _mm256_mulhi_epu16(words, power)));
            let below = _mm256_or_si256(low[i], _mm256_mullo_epi16(words, power));
            let signed = _mm256_xor_si256(top, sign);
            // Each limit that is above shortens the code by one bit.
            let mut lengths = _mm256_or_si256(longest, sign);
            for &limit in &limits[..n_limits] {
                lengths = _mm256_add_epi16(lengths, _mm256_cmpgt_epi16(limit, signed));
            }
            let power = find(powers, lengths);
            found[i] = _mm256_add_epi16(_mm256_mulhi_epu16(top, power), find(offsets, lengths));
            high[i] = _mm256_or_si256(_mm256_mullo_epi16(top, power), _mm256_mulhi_epu16(below, power));
            low[i] = _mm256_mullo_epi16(below, power);
            counts[i] = _mm256_add_epi16(counts[i], _mm256_and_si256(takes[i], word_bits));
            counts[i] = _mm256_sub_epi16(counts[i], _mm256_xor_si256(lengths, sign));
        }
        if TO_BYTES {
            let low_bytes = found.map(|found| _mm256_and_si256(found, _mm256_set1_epi16(0xff)));
            let ranks = _mm256_packus_epi16(low_bytes[0], low_bytes[1]);
            let mut ranks = _mm256_permute4x64_epi64::<0b1101_1000>(ranks);
            let mut row = zero;
            for &table in tables {
                row = _mm256_or_si256(row, _mm256_shuffle_epi8(table, below_16(ranks)));
                ranks = _mm256_sub_epi8(ranks, _mm256_set1_epi8(TABLE as i8));
            }
            // SAFETY: a row of bytes is as long as a vector.
            unsafe { _mm256_storeu_si256(out.add(n_read).cast(), row) };
        } else {
            for (i, found) in found.into_iter().enumerate() {
                // SAFETY: half a row of ranks is as long as a vector.
                unsafe { _mm256_storeu_si256(out.cast::<u16>().add(n_read + HALF * i).cast(), found) };
            }
        }
        n_read += LANES;
    }
    let (high, low) = (store_lanes(high), store_lanes(low));
    reader.bits = std::array::from_fn(|lane| high[lane] << 16 | low[lane]);
    reader.counts = store_lanes(counts);
    n_read
}

fn look_up_rows(table: &[u16], first: usize, symbols: &[u16], found: &mut [u16]) {
    let mut tables = [[_mm256_setzero_si256(); 2]; BYTE_TABLES];
    let used = table[first..].chunks(TABLE);
    let n_tables = tables.iter_mut().zip(used).map(|(table, entries)| {
        *table = load_wide_table(std::array::from_fn(|i| entries.get(i).map_or(0, |&entry| entry)));
    }).count();
    let (base, small) = (_mm256_set1_epi16(first as i16), _mm256_set1_epi16(0xff));
    for (symbols, found) in symbols.as_chunks::<LANES>().0.iter().zip(found.as_chunks_mut::<LANES>().0) {
        let indices = load_row(symbols).map(|half| _mm256_sub_epi16(half, base));
        if _mm256_testc_si256(small, _mm256_or_si256(indices[0], indices[1])) == 0 {
            for (found, &symbol) in found.iter_mut().zip(symbols) {
                *found = table[usize::from(symbol)];
            }
            continue;
        }
        // The halves of a vector stay apart until the results are stored.
        let mut indices = _mm256_packus_epi16(indices[0], indices[1]);
        let mut bytes = [_mm256_setzero_si256(); 2];
        for tables in &tables[..n_tables] {
            let of_table = below_16(indices);
            for (bytes, &table) in bytes.iter_mut().zip(tables) {
                *bytes = _mm256_or_si256(*bytes, _mm256_shuffle_epi8(table, of_table));
            }
            indices = _mm256_sub_epi8(indices, _mm256_set1_epi8(TABLE as i8));
        }
        let halves = [_mm256_unpacklo_epi8(bytes[0], bytes[1]), _mm256_unpackhi_epi8(bytes[0], bytes[1])];
        for (to, half) in found.as_chunks_mut::<HALF>().0.iter_mut().zip(halves) {
            // SAFETY: half a row is as long as a vector.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), half) };
        }
    }
}

/// Indices for a shuffle, which looks up bytes below 16 and gives zero for the others.
#[inline]
fn below_16(bytes: __m256i) -> __m256i {
    // For the others, the highest bit is set.
    _mm256_adds_epu8(bytes, _mm256_set1_epi8(0x70))
}

/// The bits that end the codes, and the lengths of these.
#[inline]
fn lengths_of(ended: __m256i) -> (__m256i, __m256i) {
    let end = _mm256_and_si256(ended, _mm256_sub_epi16(_mm256_setzero_si256(), ended));
    let product = _mm256_mullo_epi16(end, _mm256_set1_epi16(SEQUENCE as i16));
    // The first entry, for the upper bytes, is 0: no code has that length.
    (end, _mm256_shuffle_epi8(load_table(LENGTHS), _mm256_srli_epi16::<12>(product)))
}

fn add_lengths(codes: &[u16]) -> [u32; LANES] {
    let mut sums = [_mm256_setzero_si256(); 2];
    for row in codes.as_chunks().0 {
        let row = load_row(row);
        for i in 0..2 {
            sums[i] = _mm256_add_epi16(sums[i], lengths_of(row[i]).1);
        }
    }
    store_lanes(sums)
}

fn write_rows(writer: &mut Writer, codes: &[u16], out: &mut [u8]) -> (usize, usize) {
    let [mut high, mut low] = [16, 0].map(|shift| load_lanes(writer.bits.map(|bits| bits >> shift)));
    let mut counts = load_lanes(writer.counts);
    let sign = _mm256_set1_epi16(i16::MIN);
    let word_bits = _mm256_set1_epi16(WORD_BITS as i16);
    let most = _mm256_set1_epi16((WORD_BITS + writer.longest) as i16 - 1);
    let powers = load_wide_table(POWERS);
    let (mut end, mut n_left) = (out.len(), codes.len());
    for row in codes.as_chunks::<LANES>().0.iter().rev() {
        if end < ROW_BYTES {
            break;
        }
        let row = load_row(row);
        let (mut are_full, mut words) = ([_mm256_setzero_si256(); 2], [_mm256_setzero_si256(); 2]);
        for i in 0..2 {
            let (end, lengths) = lengths_of(row[i]);
            let code = _mm256_xor_si256(row[i], end);
            let next = _mm256_add_epi16(counts[i], lengths);
            are_full[i] = _mm256_cmpgt_epi16(next, most);
            // A full lane has 16 to 30 bits; shuffles ignore the bit for 16.
            let power = find(powers, _mm256_or_si256(counts[i], sign));
            words[i] = _mm256_or_si256(_mm256_mullo_epi16(high[i], power), _mm256_mulhi_epu16(low[i], power));
            counts[i] = _mm256_sub_epi16(next, _mm256_and_si256(are_full[i], word_bits));
            // 2^(16 - length), to shift to the right.
            let power = _mm256_add_epi16(end, end);
            low[i] = _mm256_or_si256(_mm256_mullo_epi16(high[i], power), _mm256_mulhi_epu16(low[i], power));
            high[i] = _mm256_or_si256(_mm256_mulhi_epu16(high[i], power), code);
        }
        let mask = mask_of(are_full);
        for (group, byte) in GROUP_BYTES.into_iter().enumerate().rev() {
            let of_group = (mask >> (8 * byte)) as usize % 256;
            let half = words[group / 2];
            let words = if group % 2 == 0 { _mm256_castsi256_si128(half) } else { _mm256_extracti128_si256::<1>(half) };
            let place = &mut out[end - 2 * GROUP..end];
            // SAFETY: the shuffle and the place are as long as the vector. What it has before the
            // group's words is overwritten later.
            unsafe {
                let shuffle = _mm_loadu_si128(SHUFFLES.gather[of_group].as_ptr().cast());
                _mm_storeu_si128(place.as_mut_ptr().cast(), _mm_shuffle_epi8(words, shuffle));
            }
            end -= WORD_BYTES * of_group.count_ones() as usize;
        }
        n_left -= LANES;
    }
    let (high, low) = (store_lanes(high), store_lanes(low));
    writer.bits = std::array::from_fn(|lane| high[lane] << 16 | low[lane]);
    writer.counts = store_lanes(counts);
    (end, n_left)
}

});
