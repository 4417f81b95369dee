//! AVX2.
//!
//! The transposition has three steps:
//!
//! 1. Bytes are gathered until eight consecutive bytes are the same byte of eight neighboring
//!    elements.
//! 2. The 8×8 bits in them are transposed by exchanging off-diagonal sub-matrices, so each byte is
//!    part of one column.
//! 3. The byte exchange of step 1 assembles these bytes into columns.
//!
//! The first element's byte is held last, so that rows and columns of bits are numbered the same
//! way.
//!
//! AVX2 has no instruction to compress or expand lanes. Words are permuted instead, with indices
//! from a table that is addressed by the mask of the selected words.

use std::arch::x86_64::*;

use super::Lanes;
use super::avx512::lanes;

/// Words of f32.
pub struct U32s;
/// Words of f64.
pub struct U64s;

/// Index of a lane that no word goes to.
const ABSENT: i8 = i8::MIN;

/// `COMPRESS_LANES` compresses lanes: for every mask of eight words, the source lane of each selected
/// word.
const COMPRESS_LANES: [[i8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut i, mut n) = (0, 0);
        while i < 8 {
            if mask >> i & 1 == 1 {
                table[mask][n] = i as i8;
                n += 1;
            }
            i += 1;
        }
        mask += 1;
    }
    table
};

/// `EXPAND_LANES` expands lanes: for every mask of eight words, the packed word that goes to each lane,
/// or [`ABSENT`].
const EXPAND_LANES: [[i8; 8]; 256] = {
    let mut table = [[ABSENT; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut i, mut n) = (0, 0);
        while i < 8 {
            if mask >> i & 1 == 1 {
                table[mask][i] = n;
                n += 1;
            }
            i += 1;
        }
        mask += 1;
    }
    table
};

/// Every bit twice: converts a mask of four 64-bit words to one of 32-bit words.
const TWICE: [u8; 16] = {
    let mut table = [0; 16];
    let mut mask = 0;
    while mask < 16 {
        let mut i = 0;
        while i < 4 {
            table[mask] |= (3 * (mask >> i & 1) as u8) << (2 * i);
            i += 1;
        }
        mask += 1;
    }
    table
};

/// Transposes the bits of every eight bytes: bit i of byte j goes to bit j of byte i.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn transpose_bits(v: __m256i) -> __m256i {
    macro_rules! exchange {
        ($v:expr, $distance:literal, $mask:literal) => {{
            let swapped = _mm256_and_si256(
                _mm256_xor_si256($v, _mm256_srli_epi64::<$distance>($v)),
                _mm256_set1_epi64x($mask),
            );
            _mm256_xor_si256($v, _mm256_xor_si256(swapped, _mm256_slli_epi64::<$distance>(swapped)))
        }};
    }
    // SAFETY: the caller's promise.
    unsafe {
        let v = exchange!(v, 7, 0x00aa_00aa_00aa_00aa);
        let v = exchange!(v, 14, 0x0000_cccc_0000_cccc);
        exchange!(v, 28, 0x0000_0000_f0f0_f0f0)
    }
}

/// Transposes the 64-bit words of four registers.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn transpose_byte_groups(r: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (even01, odd01) = (_mm256_unpacklo_epi64(r[0], r[1]), _mm256_unpackhi_epi64(r[0], r[1]));
        let (even23, odd23) = (_mm256_unpacklo_epi64(r[2], r[3]), _mm256_unpackhi_epi64(r[2], r[3]));
        [
            _mm256_permute2x128_si256::<0x20>(even01, even23),
            _mm256_permute2x128_si256::<0x20>(odd01, odd23),
            _mm256_permute2x128_si256::<0x31>(even01, even23),
            _mm256_permute2x128_si256::<0x31>(odd01, odd23),
        ]
    }
}

/// Transposes the 4×4 bytes in every 128 bits, and reverses both orders.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn transpose_bytes_4x4(v: __m256i) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let order = _mm_setr_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order))
    }
}

/// Transposes the 8×8 bytes in two registers, and reverses both orders.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn transpose_bytes_8x8(first: __m256i, second: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        // Collect pairs of bytes of two rows, then of four rows in every half, then of eight.
        let order = _mm_setr_epi8(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
        let order = _mm256_broadcastsi128_si256(order);
        let (first, second) = (_mm256_shuffle_epi8(first, order), _mm256_shuffle_epi8(second, order));
        let lower = _mm256_permute2x128_si256::<0x31>(second, first);
        let upper = _mm256_permute2x128_si256::<0x20>(second, first);
        let halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        [
            _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi16(lower, upper), halves),
            _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi16(lower, upper), halves),
        ]
    }
}

/// Compresses lanes: writes the 32-bit words that the mask selects. It overwrites all eight places.
///
/// # Safety
/// The CPU must have AVX2; `*to` must be valid for writing a register.
#[inline(always)]
unsafe fn compress(words: __m256i, present: u8, to: &mut *mut u8) {
    // SAFETY: the caller's promise; a row of the table has eight bytes.
    unsafe {
        let from = _mm256_cvtepi8_epi32(_mm_loadl_epi64(COMPRESS_LANES[usize::from(present)].as_ptr().cast()));
        _mm256_storeu_si256((*to).cast(), _mm256_permutevar8x32_epi32(words, from));
        *to = to.add(4 * present.count_ones() as usize);
    }
}

/// Expands lanes: reads one 32-bit word per set bit of the mask, and puts it in that lane. Other
/// lanes are zero.
///
/// # Safety
/// The CPU must have AVX2; `*from` must be valid for reading a register.
#[inline(always)]
unsafe fn expand(present: u8, from: &mut *const u8) -> __m256i {
    // SAFETY: the caller's promise; a row of the table has eight bytes.
    unsafe {
        let places = _mm256_cvtepi8_epi32(_mm_loadl_epi64(EXPAND_LANES[usize::from(present)].as_ptr().cast()));
        let words = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((*from).cast()), places);
        *from = from.add(4 * present.count_ones() as usize);
        // The index of an absent word is negative.
        _mm256_andnot_si256(_mm256_srai_epi32::<31>(places), words)
    }
}

impl Lanes<u32> for U32s {
    type Vector = __m256i;
    type Group = [__m256i; 4];
    type Batch = [[__m256i; 4]; 1];
    type Plane = [__m256i; 32];
    const LANES: usize = 8;

    lanes! {
        unsafe fn zero() -> __m256i { _mm256_setzero_si256() }
        unsafe fn batch_of_zeros() -> [[__m256i; 4]; 1] { [[_mm256_setzero_si256(); 4]; 1] }
        unsafe fn plane_of_zeros() -> [__m256i; 32] { [_mm256_setzero_si256(); 32] }
        unsafe fn load(from: *const u8) -> __m256i { _mm256_loadu_si256(from.cast()) }
        unsafe fn store(vector: __m256i, to: *mut u8) -> () { _mm256_storeu_si256(to.cast(), vector) }
        unsafe fn add(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi32(a, b) }
        unsafe fn sub(a: __m256i, b: __m256i) -> __m256i { _mm256_sub_epi32(a, b) }
        unsafe fn rotated_left(v: __m256i) -> __m256i {
            _mm256_or_si256(_mm256_slli_epi32::<1>(v), _mm256_srli_epi32::<31>(v))
        }
        unsafe fn rotated_right(v: __m256i) -> __m256i {
            _mm256_or_si256(_mm256_srli_epi32::<1>(v), _mm256_slli_epi32::<31>(v))
        }
        unsafe fn fold_signs(v: __m256i) -> __m256i {
            _mm256_xor_si256(v, _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(v)))
        }
        unsafe fn shift_in(v: __m256i, before: __m256i) -> __m256i {
            _mm256_alignr_epi8::<12>(v, _mm256_permute2x128_si256::<0x21>(before, v))
        }
        unsafe fn prefix_sum(groups: &mut [[__m256i; 4]]) -> () {
            for v in groups.as_flattened_mut() {
                *v = _mm256_add_epi32(*v, _mm256_bslli_epi128::<4>(*v));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm256_add_epi32(*v, _mm256_bslli_epi128::<8>(*v));
            }
            for v in groups.as_flattened_mut() {
                let low = _mm256_permutevar8x32_epi32(*v, _mm256_set1_epi32(3));
                *v = _mm256_add_epi32(*v, _mm256_blend_epi32::<0xf0>(_mm256_setzero_si256(), low));
            }
        }
        unsafe fn last(v: __m256i) -> __m256i { _mm256_permutevar8x32_epi32(v, _mm256_set1_epi32(7)) }
        unsafe fn transpose(group: [__m256i; 4]) -> [__m256i; 4] {
            let mut byte_groups = group;
            for byte_group in &mut byte_groups {
                let bytes = transpose_bytes_4x4(*byte_group);
                let bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3));
                *byte_group = transpose_bits(bytes);
            }
            let mut columns = transpose_byte_groups(byte_groups);
            for column in &mut columns {
                let bytes = _mm256_permutevar8x32_epi32(*column, _mm256_setr_epi32(1, 3, 5, 7, 0, 2, 4, 6));
                *column = transpose_bytes_4x4(bytes);
            }
            columns
        }
        unsafe fn pack(columns: [__m256i; 4], to: &mut *mut u8) -> u32 {
            let mut mask = 0;
            for (i, &columns) in columns.iter().enumerate() {
                let absent = _mm256_cmpeq_epi32(columns, _mm256_setzero_si256());
                let present = !_mm256_movemask_ps(_mm256_castsi256_ps(absent)) as u8;
                compress(columns, present, to);
                mask |= u32::from(present) << (8 * i);
            }
            mask
        }
        unsafe fn unpack(mask: u32, from: &mut *const u8) -> [__m256i; 4] {
            let mut columns = [_mm256_setzero_si256(); 4];
            for (i, columns) in columns.iter_mut().enumerate() {
                *columns = expand((mask >> (8 * i)) as u8, from);
            }
            columns
        }
    }
}

impl Lanes<u64> for U64s {
    type Vector = __m256i;
    type Group = [__m256i; 16];
    type Batch = [[__m256i; 16]; 1];
    type Plane = [__m256i; 64];
    const LANES: usize = 4;

    lanes! {
        unsafe fn zero() -> __m256i { _mm256_setzero_si256() }
        unsafe fn batch_of_zeros() -> [[__m256i; 16]; 1] { [[_mm256_setzero_si256(); 16]; 1] }
        unsafe fn plane_of_zeros() -> [__m256i; 64] { [_mm256_setzero_si256(); 64] }
        unsafe fn load(from: *const u8) -> __m256i { _mm256_loadu_si256(from.cast()) }
        unsafe fn store(vector: __m256i, to: *mut u8) -> () { _mm256_storeu_si256(to.cast(), vector) }
        unsafe fn add(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi64(a, b) }
        unsafe fn sub(a: __m256i, b: __m256i) -> __m256i { _mm256_sub_epi64(a, b) }
        unsafe fn rotated_left(v: __m256i) -> __m256i {
            _mm256_or_si256(_mm256_slli_epi64::<1>(v), _mm256_srli_epi64::<63>(v))
        }
        unsafe fn rotated_right(v: __m256i) -> __m256i {
            _mm256_or_si256(_mm256_srli_epi64::<1>(v), _mm256_slli_epi64::<63>(v))
        }
        unsafe fn fold_signs(v: __m256i) -> __m256i {
            let signs = _mm256_cmpgt_epi64(_mm256_setzero_si256(), v);
            _mm256_xor_si256(v, _mm256_srli_epi64::<1>(signs))
        }
        unsafe fn shift_in(v: __m256i, before: __m256i) -> __m256i {
            _mm256_alignr_epi8::<8>(v, _mm256_permute2x128_si256::<0x21>(before, v))
        }
        unsafe fn prefix_sum(groups: &mut [[__m256i; 16]]) -> () {
            for v in groups.as_flattened_mut() {
                *v = _mm256_add_epi64(*v, _mm256_bslli_epi128::<8>(*v));
            }
            for v in groups.as_flattened_mut() {
                let low = _mm256_permute4x64_epi64::<0x55>(*v);
                *v = _mm256_add_epi64(*v, _mm256_blend_epi32::<0xf0>(_mm256_setzero_si256(), low));
            }
        }
        unsafe fn last(v: __m256i) -> __m256i { _mm256_permute4x64_epi64::<0xff>(v) }
        unsafe fn transpose(group: [__m256i; 16]) -> [__m256i; 16] {
            // Byte planes of the same eight elements: [half of the planes][elements]
            let mut byte_groups = [[_mm256_setzero_si256(); 8]; 2];
            for i in 0..8 {
                let planes = transpose_bytes_8x8(group[2 * i], group[2 * i + 1]);
                byte_groups[0][i] = transpose_bits(planes[0]);
                byte_groups[1][i] = transpose_bits(planes[1]);
            }
            let mut columns = [_mm256_setzero_si256(); 16];
            for half in 0..2 {
                let r = byte_groups[half];
                let first = transpose_byte_groups([r[0], r[1], r[2], r[3]]);
                let second = transpose_byte_groups([r[4], r[5], r[6], r[7]]);
                for q in 0..4 {
                    let pair = transpose_bytes_8x8(first[q], second[q]);
                    columns[8 * half + 2 * q] = pair[0];
                    columns[8 * half + 2 * q + 1] = pair[1];
                }
            }
            columns
        }
        unsafe fn pack(columns: [__m256i; 16], to: &mut *mut u8) -> u64 {
            let mut mask = 0;
            for (i, &columns) in columns.iter().enumerate() {
                let absent = _mm256_cmpeq_epi64(columns, _mm256_setzero_si256());
                let present = !_mm256_movemask_pd(_mm256_castsi256_pd(absent)) as usize & 15;
                compress(columns, TWICE[present], to);
                mask |= (present as u64) << (4 * i);
            }
            mask
        }
        unsafe fn unpack(mask: u64, from: &mut *const u8) -> [__m256i; 16] {
            let mut columns = [_mm256_setzero_si256(); 16];
            for (i, columns) in columns.iter_mut().enumerate() {
                *columns = expand(TWICE[(mask >> (4 * i)) as usize & 15], from);
            }
            columns
        }
    }
}
