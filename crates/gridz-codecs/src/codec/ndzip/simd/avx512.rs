//! AVX-512 with VBMI, VBMI2 and GFNI.
//!
//! Transposition: `gf2p8affineqb` transposes the 8×8 bits in every eight bytes. So bytes are
//! gathered until eight consecutive bytes are the same byte of eight neighboring elements. Their
//! bits are transposed. Each byte is now a part of one column. Finally the bytes are assembled to
//! columns. Gathering and assembling are byte permutations of one or two registers.

use std::arch::asm;
use std::arch::x86_64::*;

use super::Lanes;

/// Words of f32.
pub struct U32s;
/// Words of f64.
pub struct U64s;

type Indices = [u8; 64];

/// Index of byte `byte` of register `register` in a permutation of two registers.
const fn byte_of(register: usize, byte: usize) -> u8 {
    (64 * register + byte) as u8
}

/// f32, gathering, for the upper and the lower half of the columns: from elements to groups of
/// eight bytes. Group q·4+m has byte 3−q, counted from the low end, of elements 8m to 8m+7.
const GATHER_32: [Indices; 2] = {
    let mut tables = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (half, q, m, e) = (i / 64, i / 32, i / 8 % 4, i % 8);
        tables[half][i % 64] = byte_of(0, 4 * (8 * m + e) + 3 - q);
        i += 1;
    }
    tables
};

/// f32, assembling: byte 3−m of column 8q+r is byte r of group q·4+m.
const SCATTER_32: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (q, m, r) = (i / 32, i / 8 % 4, i % 8);
        table[4 * (8 * q + r) + 3 - m] = i as u8;
        i += 1;
    }
    table
};

/// f64, first step, on registers 2i and 2i+1, for the upper and the lower half of the columns:
/// group 2q+s of eight bytes has byte 7−q of the eight elements in register 2i+s.
const GATHER_64: [Indices; 2] = {
    let mut tables = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (half, q, s, e) = (i / 64, i / 16, i / 8 % 2, i % 8);
        tables[half][i % 64] = byte_of(s, 8 * e + 7 - q);
        i += 1;
    }
    tables
};

/// f64, second step, after the bits are transposed: from two such pairs to groups 4q+o, for two
/// values of q and the four registers o.
const MERGE_64: [Indices; 2] = {
    let mut tables = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (half, q, o, r) = (i / 64, i / 32, i / 8 % 4, i % 8);
        tables[half][i % 64] = byte_of(o / 2, 8 * (2 * q + o % 2) + r);
        i += 1;
    }
    tables
};

/// f64, last step: for one value of q, byte 7−o of column r is byte r of the group of register o.
const SCATTER_64: [Indices; 2] = {
    let mut tables = [[0; 64]; 2];
    let mut i = 0;
    while i < 128 {
        let (q, o, r) = (i / 64, i / 8 % 8, i % 8);
        tables[q][8 * r + 7 - o] = byte_of(o / 4, 8 * (4 * q + o % 4) + r);
        i += 1;
    }
    tables
};

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn indices(table: &Indices) -> __m512i {
    // SAFETY: the table is as long as the register.
    unsafe { _mm512_loadu_si512(table.as_ptr().cast()) }
}

/// Transposes the bits of every eight bytes: byte r of the result has bit 7−r of every byte, the
/// first byte's as its highest bit.
///
/// # Safety
/// The CPU must have AVX-512 and GFNI.
#[inline(always)]
unsafe fn transpose_bits(byte_groups: __m512i) -> __m512i {
    // SAFETY: the caller's promise. The product of a matrix with the unit vectors is its columns.
    unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x0102_0408_1020_4080), byte_groups) }
}

/// Compresses and expands lanes; unselected lanes become zero. The instruction depends on the old
/// value of its destination even if that is not used. A compiler's choice of register could
/// therefore chain unrelated groups together. Here the destination is the source.
macro_rules! in_place {
    ($name:ident, $instruction:literal, $mask:ty) => {
        #[inline]
        #[target_feature(enable = "avx512f,avx512vbmi2")]
        fn $name(present: $mask, mut words: __m512i) -> __m512i {
            // SAFETY: the instruction changes nothing but the register.
            unsafe {
                asm!(
                    concat!($instruction, " {words}{{{present}}}{{z}}, {words}"),
                    words = inout(zmm_reg) words,
                    present = in(kreg) present,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            words
        }
    };
}

in_place!(compress_32, "vpcompressd", __mmask16);
in_place!(compress_64, "vpcompressq", __mmask8);
in_place!(expand_32, "vpexpandd", __mmask16);
in_place!(expand_64, "vpexpandq", __mmask8);

/// Defines an operation of the trait, whose contract is that of the intrinsics.
macro_rules! lanes {
    ($(unsafe fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            #[inline(always)]
            unsafe fn $name($($arg: $type),*) -> $result {
                // SAFETY: the trait's contract: the CPU has the instructions, and pointers are
                // valid.
                unsafe { $body }
            }
        )*
    };
}
pub(super) use lanes;

impl Lanes<u32> for U32s {
    type Vector = __m512i;
    type Group = [__m512i; 2];
    type Batch = [[__m512i; 2]; 4];
    type Plane = [__m512i; 16];
    const LANES: usize = 16;

    lanes! {
        unsafe fn zero() -> __m512i { _mm512_setzero_si512() }
        unsafe fn batch_of_zeros() -> [[__m512i; 2]; 4] { [[_mm512_setzero_si512(); 2]; 4] }
        unsafe fn plane_of_zeros() -> [__m512i; 16] { [_mm512_setzero_si512(); 16] }
        unsafe fn load(from: *const u8) -> __m512i { _mm512_loadu_si512(from.cast()) }
        unsafe fn store(vector: __m512i, to: *mut u8) -> () { _mm512_storeu_si512(to.cast(), vector) }
        unsafe fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi32(a, b) }
        unsafe fn sub(a: __m512i, b: __m512i) -> __m512i { _mm512_sub_epi32(a, b) }
        unsafe fn rotated_left(v: __m512i) -> __m512i { _mm512_rol_epi32::<1>(v) }
        unsafe fn rotated_right(v: __m512i) -> __m512i { _mm512_ror_epi32::<1>(v) }
        unsafe fn fold_signs(v: __m512i) -> __m512i {
            // v ^ (sign & rest)
            _mm512_ternarylogic_epi32::<0x78>(v, _mm512_srai_epi32::<31>(v), _mm512_set1_epi32(i32::MAX))
        }
        unsafe fn shift_in(v: __m512i, before: __m512i) -> __m512i { _mm512_alignr_epi32::<15>(v, before) }
        unsafe fn prefix_sum(groups: &mut [[__m512i; 2]]) -> () {
            // Apply each step to all vectors before the next step, so that the steps of one vector
            // do not stall.
            let zero = _mm512_setzero_si512();
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi32(*v, _mm512_alignr_epi32::<15>(*v, zero));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi32(*v, _mm512_alignr_epi32::<14>(*v, zero));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi32(*v, _mm512_alignr_epi32::<12>(*v, zero));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi32(*v, _mm512_alignr_epi32::<8>(*v, zero));
            }
        }
        unsafe fn last(v: __m512i) -> __m512i { _mm512_permutexvar_epi32(_mm512_set1_epi32(15), v) }
        unsafe fn transpose(group: [__m512i; 2]) -> [__m512i; 2] {
            let mut columns = group;
            for (half, gather) in GATHER_32.iter().enumerate() {
                let byte_groups = _mm512_permutex2var_epi8(group[0], indices(gather), group[1]);
                columns[half] = _mm512_permutexvar_epi8(indices(&SCATTER_32), transpose_bits(byte_groups));
            }
            columns
        }
        unsafe fn pack(columns: [__m512i; 2], to: &mut *mut u8) -> u32 {
            let mut mask = 0;
            for (i, &columns) in columns.iter().enumerate() {
                let present = _mm512_test_epi32_mask(columns, columns);
                _mm512_storeu_si512((*to).cast(), compress_32(present, columns));
                *to = to.add(4 * present.count_ones() as usize);
                mask |= u32::from(present) << (16 * i);
            }
            mask
        }
        unsafe fn unpack(mask: u32, from: &mut *const u8) -> [__m512i; 2] {
            let mut columns = [_mm512_setzero_si512(); 2];
            for (i, columns) in columns.iter_mut().enumerate() {
                let present = (mask >> (16 * i)) as u16;
                let words = _mm512_loadu_si512((*from).cast());
                *from = from.add(4 * present.count_ones() as usize);
                *columns = expand_32(present, words);
            }
            columns
        }
    }
}

impl Lanes<u64> for U64s {
    type Vector = __m512i;
    type Group = [__m512i; 8];
    type Batch = [[__m512i; 8]; 1];
    type Plane = [__m512i; 32];
    const LANES: usize = 8;

    lanes! {
        unsafe fn zero() -> __m512i { _mm512_setzero_si512() }
        unsafe fn batch_of_zeros() -> [[__m512i; 8]; 1] { [[_mm512_setzero_si512(); 8]; 1] }
        unsafe fn plane_of_zeros() -> [__m512i; 32] { [_mm512_setzero_si512(); 32] }
        unsafe fn load(from: *const u8) -> __m512i { _mm512_loadu_si512(from.cast()) }
        unsafe fn store(vector: __m512i, to: *mut u8) -> () { _mm512_storeu_si512(to.cast(), vector) }
        unsafe fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi64(a, b) }
        unsafe fn sub(a: __m512i, b: __m512i) -> __m512i { _mm512_sub_epi64(a, b) }
        unsafe fn rotated_left(v: __m512i) -> __m512i { _mm512_rol_epi64::<1>(v) }
        unsafe fn rotated_right(v: __m512i) -> __m512i { _mm512_ror_epi64::<1>(v) }
        unsafe fn fold_signs(v: __m512i) -> __m512i {
            _mm512_ternarylogic_epi64::<0x78>(v, _mm512_srai_epi64::<63>(v), _mm512_set1_epi64(i64::MAX))
        }
        unsafe fn shift_in(v: __m512i, before: __m512i) -> __m512i { _mm512_alignr_epi64::<7>(v, before) }
        unsafe fn prefix_sum(groups: &mut [[__m512i; 8]]) -> () {
            // Apply each step to all vectors before the next step, so that the steps of one vector
            // do not stall.
            let zero = _mm512_setzero_si512();
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi64(*v, _mm512_alignr_epi64::<7>(*v, zero));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi64(*v, _mm512_alignr_epi64::<6>(*v, zero));
            }
            for v in groups.as_flattened_mut() {
                *v = _mm512_add_epi64(*v, _mm512_alignr_epi64::<4>(*v, zero));
            }
        }
        unsafe fn last(v: __m512i) -> __m512i { _mm512_permutexvar_epi64(_mm512_set1_epi64(7), v) }
        unsafe fn transpose(group: [__m512i; 8]) -> [__m512i; 8] {
            // [pair of registers][half of the columns]
            let mut byte_groups = [[_mm512_setzero_si512(); 2]; 4];
            for (i, byte_groups) in byte_groups.iter_mut().enumerate() {
                for (byte_groups, gather) in byte_groups.iter_mut().zip(&GATHER_64) {
                    let bytes = _mm512_permutex2var_epi8(group[2 * i], indices(gather), group[2 * i + 1]);
                    *byte_groups = transpose_bits(bytes);
                }
            }
            let mut columns = [_mm512_setzero_si512(); 8];
            for half in 0..2 {
                for quarter in 0..2 {
                    let merge = indices(&MERGE_64[quarter]);
                    let first = _mm512_permutex2var_epi8(byte_groups[0][half], merge, byte_groups[1][half]);
                    let second = _mm512_permutex2var_epi8(byte_groups[2][half], merge, byte_groups[3][half]);
                    for q in 0..2 {
                        let scatter = indices(&SCATTER_64[q]);
                        columns[4 * half + 2 * quarter + q] = _mm512_permutex2var_epi8(first, scatter, second);
                    }
                }
            }
            columns
        }
        unsafe fn pack(columns: [__m512i; 8], to: &mut *mut u8) -> u64 {
            let mut mask = 0;
            for (i, &columns) in columns.iter().enumerate() {
                let present = _mm512_test_epi64_mask(columns, columns);
                _mm512_storeu_si512((*to).cast(), compress_64(present, columns));
                *to = to.add(8 * present.count_ones() as usize);
                mask |= u64::from(present) << (8 * i);
            }
            mask
        }
        unsafe fn unpack(mask: u64, from: &mut *const u8) -> [__m512i; 8] {
            let mut columns = [_mm512_setzero_si512(); 8];
            for (i, columns) in columns.iter_mut().enumerate() {
                let present = (mask >> (8 * i)) as u8;
                let words = _mm512_loadu_si512((*from).cast());
                *from = from.add(8 * present.count_ones() as usize);
                *columns = expand_64(present, words);
            }
            columns
        }
    }
}
