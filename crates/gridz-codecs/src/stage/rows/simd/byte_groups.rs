//! Groups of eight numbers with AVX-512. Each group is packed within the eight bytes of a quadword.
//! For all groups at once, one instruction then compresses the bytes that are used, or expands
//! them.

use std::arch::x86_64::*;

use super::avx512::{compress_8, compress_wide_8, expand_8, expand_wide_8};

/// For widths up to 8, a byte with that many low bits set.
const LOW_BITS: [i8; 16] = [0, 1, 3, 7, 15, 31, 63, 127, -1, 0, 0, 0, 0, 0, 0, 0];
/// Times a width in every 16 bits, this is the first bit of each of eight fields, a byte each.
const FIRST_BITS: i64 = 0x0706_0504_0302_0100;
/// Shuffles that copy byte g to each byte of quadword g, or to the lower of every two. The index −1
/// results in zero.
const IN_ALL: [i8; 64] = repeat_index(1);
const IN_EVEN: [i8; 64] = repeat_index(2);

const fn repeat_index(step: usize) -> [i8; 64] {
    let mut table = [-1; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i / 8) as i8;
        i += step;
    }
    table
}

/// Puts the least of every eight bytes in the lowest one.
///
/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
pub unsafe fn least(bytes: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let least = _mm256_min_epu8(bytes, _mm256_srli_epi64::<32>(bytes));
        let least = _mm256_min_epu8(least, _mm256_srli_epi64::<16>(least));
        _mm256_min_epu8(least, _mm256_srli_epi64::<8>(least))
    }
}

/// Whether no width is larger than `most`.
#[inline(always)]
pub fn are_up_to(widths: [u8; 4], most: u32) -> bool {
    (u32::from_le_bytes(widths) + (0x7f - most) * 0x0101_0101) & 0x8080_8080 == 0
}

/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
unsafe fn low_bits(widths: __m128i) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_shuffle_epi8(_mm_loadu_si128(LOW_BITS.as_ptr().cast()), widths) }
}

/// Packs four groups of eight bytes: each byte to as many low bits as the width of its group. The
/// bytes of the groups follow each other.
///
/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
pub unsafe fn pack_one(widths: [u8; 4], bytes: __m256i) -> __m256i {
    // SAFETY: the caller's promise; tables are longer than registers.
    unsafe {
        let widths = _mm_cvtsi32_si128(i32::from_le_bytes(widths));
        let present = _mm_cvtsi128_si32(low_bits(widths)) as u32;
        let all = _mm256_broadcastd_epi32(widths);
        let even = _mm256_shuffle_epi8(all, _mm256_loadu_si256(IN_EVEN.as_ptr().cast()));
        let each = _mm256_srli_epi32::<16>(even);
        let pairs = _mm256_or_si256(
            _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
            _mm256_sllv_epi16(_mm256_srli_epi16::<8>(bytes), even),
        );
        let fours = _mm256_or_si256(
            _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)),
            _mm256_sllv_epi32(_mm256_srli_epi32::<16>(pairs), _mm256_slli_epi32::<1>(each)),
        );
        let eights = _mm256_or_si256(
            _mm256_and_si256(fours, _mm256_set1_epi64x(0xffff_ffff)),
            _mm256_sllv_epi64(
                _mm256_srli_epi64::<32>(fours),
                _mm256_srli_epi64::<30>(_mm256_slli_epi64::<32>(each)),
            ),
        );
        compress_8(present, eights)
    }
}

/// The inverse of [`pack_one`].
///
/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
pub unsafe fn unpack_one(widths: [u8; 4], bytes: __m256i) -> __m256i {
    // SAFETY: the caller's promise; tables are longer than registers.
    unsafe {
        let widths = _mm_cvtsi32_si128(i32::from_le_bytes(widths));
        let low_bits = low_bits(widths);
        let expanded = expand_8(_mm_cvtsi128_si32(low_bits) as u32, bytes);
        let even =
            _mm256_shuffle_epi8(_mm256_broadcastd_epi32(widths), _mm256_loadu_si256(IN_EVEN.as_ptr().cast()));
        let first_bits = _mm256_mullo_epi16(even, _mm256_set1_epi64x(FIRST_BITS));
        let masks =
            _mm256_shuffle_epi8(_mm256_broadcastd_epi32(low_bits), _mm256_loadu_si256(IN_ALL.as_ptr().cast()));
        _mm256_and_si256(_mm256_multishift_epi64_epi8(first_bits, expanded), masks)
    }
}

/// Permutation that moves byte p of a group's words to quadword p of the group, and its inverse,
/// for words of `word_bytes` bytes.
const fn transposed(word_bytes: usize) -> [[u8; 64]; 2] {
    let (mut there, mut back) = ([0; 64], [0; 64]);
    let mut i = 0;
    while i < 64 {
        let (group, part, number) = (i / (8 * word_bytes), i / 8 % word_bytes, i % 8);
        let from = (8 * group + number) * word_bytes + part;
        there[i] = from as u8;
        back[from] = i as u8;
        i += 1;
    }
    [there, back]
}

/// For words of 4 and of 8 bytes.
const TRANSPOSED: [[[u8; 64]; 2]; 2] = [transposed(4), transposed(8)];

/// Bit widths of the byte parts of a register's groups, from number `group` on; a byte for each
/// part.
///
/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
unsafe fn of_parts<const WORD_BYTES: usize>(widths: [u8; 4], group: usize) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe {
        let (all, first_bits) = if WORD_BYTES == 8 {
            (_mm_set1_epi8(widths[group] as i8), 0x3830_2820_1810_0800)
        } else {
            let pair = u64::from(widths[group]) | u64::from(widths[group + 1]) << 32;
            (_mm_cvtsi64_si128((pair * 0x0101_0101) as i64), 0x1810_0800_1810_0800)
        };
        _mm_min_epu8(_mm_subs_epu8(all, _mm_cvtsi64_si128(first_bits)), _mm_set1_epi8(8))
    }
}

/// Like [`pack_one`], for the groups of a register from number `group` on, which may have any
/// width. Also returns the number of packed bytes.
///
/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
pub unsafe fn pack<const WORD_BYTES: usize>(widths: [u8; 4], group: usize, words: __m512i) -> (__m512i, usize) {
    // SAFETY: the caller's promise; tables are as long as registers.
    unsafe {
        let widths = of_parts::<WORD_BYTES>(widths, group);
        let present = _mm_cvtsi128_si64(low_bits(widths)) as u64;
        let order = _mm512_loadu_si512(TRANSPOSED[WORD_BYTES / 8][0].as_ptr().cast());
        let bytes = _mm512_permutexvar_epi8(order, words);
        let all = _mm512_broadcastq_epi64(widths);
        let even = _mm512_shuffle_epi8(all, _mm512_loadu_si512(IN_EVEN.as_ptr().cast()));
        // Bits above a part's width are zero. Those in parts of width 0 are dropped at the end.
        let pairs = _mm512_or_si512(
            _mm512_and_si512(bytes, _mm512_set1_epi16(0xff)),
            _mm512_sllv_epi16(_mm512_srli_epi16::<8>(bytes), even),
        );
        let each = _mm512_srli_epi32::<16>(even);
        let fours = _mm512_or_si512(
            _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff)),
            _mm512_sllv_epi32(_mm512_srli_epi32::<16>(pairs), _mm512_slli_epi32::<1>(each)),
        );
        let each = _mm512_srli_epi64::<30>(_mm512_slli_epi64::<32>(each));
        let eights = _mm512_or_si512(
            _mm512_and_si512(fours, _mm512_set1_epi64(0xffff_ffff)),
            _mm512_sllv_epi64(_mm512_srli_epi64::<32>(fours), each),
        );
        (compress_wide_8(present, eights), present.count_ones() as usize)
    }
}

/// The inverse of [`pack`].
///
/// # Safety
/// The CPU must have AVX-512 with VBMI and VBMI2.
#[inline(always)]
pub unsafe fn unpack<const WORD_BYTES: usize>(widths: [u8; 4], group: usize, bytes: __m512i) -> (__m512i, usize) {
    // SAFETY: the caller's promise; tables are as long as registers.
    unsafe {
        let widths = of_parts::<WORD_BYTES>(widths, group);
        let low_bits = low_bits(widths);
        let present = _mm_cvtsi128_si64(low_bits) as u64;
        let expanded = expand_wide_8(present, bytes);
        let even =
            _mm512_shuffle_epi8(_mm512_broadcastq_epi64(widths), _mm512_loadu_si512(IN_EVEN.as_ptr().cast()));
        let first_bits = _mm512_mullo_epi16(even, _mm512_set1_epi64(FIRST_BITS));
        let masks =
            _mm512_shuffle_epi8(_mm512_broadcastq_epi64(low_bits), _mm512_loadu_si512(IN_ALL.as_ptr().cast()));
        let parts = _mm512_and_si512(_mm512_multishift_epi64_epi8(first_bits, expanded), masks);
        let order = _mm512_loadu_si512(TRANSPOSED[WORD_BYTES / 8][1].as_ptr().cast());
        (_mm512_permutexvar_epi8(order, parts), present.count_ones() as usize)
    }
}
