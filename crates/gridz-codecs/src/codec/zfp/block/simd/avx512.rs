//! Registers of AVX-512, with VBMI, VBMI2, VPOPCNTDQ and GFNI.
//!
//! A quarter of a bundle is one register of 32-bit words, or two of 64-bit words. Separating even
//! and odd lanes twice changes the axis in which the quarters differ. So lines are spread over four
//! registers, and the transform itself needs no shuffles.
//!
//! Planes: bytes q of all numbers are gathered in the order of the numbers. `gf2p8affineqb`
//! transposes the 8×8 bits of every eight bytes, which gives the planes 8q to 8q + 7.

#![expect(clippy::needless_range_loop, reason = "registers of several arrays, by one number")]

use std::arch::x86_64::*;

use super::super::GROUP;
use super::super::order::order;
use super::super::transform;
use super::lanes::{
    Convert, Indices, Lane, backward, backward_4, first_axis_last, forward, forward_4, last_axis_first, load,
};
use super::short::Rows;
use super::strings::{short_strings, strings_of_64, words};
use super::{BUNDLE, LANES, Machine, ShortStrings, Strings};
use crate::stage::word::Word;

/// Index in a bundle, after the transform, of the number at a position of a plane. The transform
/// changes the order of the axes.
const fn source(rank: usize, place: usize) -> usize {
    match rank {
        1 => 16 * (place % 4) + place / 4,
        2 => {
            let at = order(2)[place % 16] as usize;
            16 * (at / 4) + 4 * (at % 4) + place / 16
        }
        3 => order(3)[place] as usize,
        _ => place,
    }
}

/// Tables to gather bytes: the first byte of every number from pairs of registers, and the
/// positions that each pair provides.
struct Gather {
    bytes: Indices,
    pairs: [u64; 4],
}

/// The tables for numbers of `width` bytes. Each eight are in reverse order, as the transposition
/// requires.
const fn gather(rank: usize, width: usize) -> Gather {
    let mut gather = Gather { bytes: [0; 64], pairs: [0; 4] };
    let mut i = 0;
    while i < 64 {
        let at = source(rank, i ^ 7) * width;
        gather.bytes[i] = (at % 128) as u8;
        gather.pairs[at / 128] |= 1 << i;
        i += 1;
    }
    gather
}

/// Tables to scatter bytes, one per register. Byte q of a number is in one of the registers q and q
/// ^ 1.
const fn scatter(rank: usize, width: usize) -> [Indices; 8] {
    let mut tables = [[0; 64]; 8];
    let mut place = 0;
    while place < 64 {
        let at = source(rank, place) * width;
        let mut q = 0;
        while q < width {
            tables[at / 64][at % 64 + q] = (q % 2 * 64 + place) as u8;
            q += 1;
        }
        place += 1;
    }
    tables
}

/// The tables for all ranks and both widths.
struct Tables {
    gather: [[Gather; 2]; 4],
    scatter: [[[Indices; 8]; 2]; 4],
}

static TABLES: Tables = Tables {
    gather: [
        [gather(1, 4), gather(1, 8)],
        [gather(2, 4), gather(2, 8)],
        [gather(3, 4), gather(3, 8)],
        [gather(4, 4), gather(4, 8)],
    ],
    scatter: [
        [scatter(1, 4), scatter(1, 8)],
        [scatter(2, 4), scatter(2, 8)],
        [scatter(3, 4), scatter(3, 8)],
        [scatter(4, 4), scatter(4, 8)],
    ],
};

/// Transposes eight by eight bytes.
static TRANSPOSED: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// From planes to the byte order that the bit transposition requires: the last plane first.
static FROM_PLANES: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = ((7 - i % 8) * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// From eight rows of bytes to planes, the last plane first.
static OF_ROWS: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * 8 + 7 - i / 8) as u8;
        i += 1;
    }
    table
};

/// From words of 16 blocks to pairs of planes: the bytes of even blocks, and of odd ones.
static PAIRS: [Indices; 2] = {
    let mut tables = [[0; 64]; 2];
    let mut i = 0;
    while i < 64 {
        let (pair, block) = (i / 8, i % 8 * 2);
        tables[0][i] = (8 * block + pair) as u8;
        tables[1][i] = (8 * (block + 1) + pair) as u8;
        i += 1;
    }
    tables
};

/// From pairs of planes to eight planes, the last one first; the first eight, and the others.
static MIXED: [[u64; 8]; 2] = [[11, 3, 10, 2, 9, 1, 8, 0], [15, 7, 14, 6, 13, 5, 12, 4]];

/// From two words of each of four blocks, with 16 bits per plane, to eight planes, the last one
/// first.
static OF_WORDS: [u16; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        let (plane, block) = (7 - i / 4, i % 4);
        table[i] = (8 * block + plane) as u16;
        i += 1;
    }
    table
};

/// Transposes the bits of every eight bytes: byte r of the result has bit r of every byte, with
/// that of the last byte lowest.
///
/// # Safety
/// The CPU must have AVX-512 and GFNI.
#[inline(always)]
unsafe fn transposed_bits(bytes: __m512i) -> __m512i {
    // SAFETY: the caller's promise. The product of a matrix with the unit vectors is its columns.
    unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x8040_2010_0804_0201u64 as i64), bytes) }
}

/// AVX-512 for words with which a bundle takes `R` registers.
pub struct Avx512<const R: usize>;

impl<T: Convert<Word: Lane>, const R: usize> Machine<T> for Avx512<R> {
    type Digits = [__m512i; R];

    #[inline(always)]
    unsafe fn integers<const RANK: usize>(
        elements: &[T; BUNDLE],
        are_integers: bool,
        largest: &mut [T::Word; LANES],
    ) -> [__m512i; R] {
        let from = elements.as_ptr().cast::<__m512i>();
        // SAFETY: the caller's promise; R registers are as long as a bundle, and a quarter of them as 16 words.
        unsafe {
            let mut v = [_mm512_setzero_si512(); R];
            for i in 0..R {
                v[i] = _mm512_loadu_si512(from.add(i));
            }
            v = last_axis_first::<T::Word, R>(v);
            if are_integers {
                return v;
            }
            let magnitude = T::Word::splat(T::Word::from_u64(u64::MAX >> (65 - T::Word::BITS)));
            let mut all = v;
            for i in 0..R {
                all[i] = _mm512_and_si512(v[i], magnitude);
            }
            for i in 0..R / 2 {
                all[i] = T::Word::larger(all[i], all[i + R / 2]);
            }
            for i in 0..R / 4 {
                all[i] = T::Word::larger(all[i], all[i + R / 4]);
            }
            let lanes = 64 / T::Word::BYTES;
            if RANK >= 3 && R == 8 {
                all[0] = T::Word::larger(all[0], all[1]);
                all[1] = all[0];
            }
            let others = if RANK == 1 {
                1
            } else if RANK == 2 {
                4
            } else {
                lanes
            };
            for i in 0..R / 4 {
                let mut apart = 1;
                while apart < others {
                    let other = T::Word::pick(all[i], T::Word::numbered(|i| i ^ apart), all[i]);
                    all[i] = T::Word::larger(all[i], other);
                    apart *= 2;
                }
                _mm512_storeu_si512(largest.as_mut_ptr().cast::<__m512i>().add(i), all[i]);
            }
            for i in 0..R {
                v[i] = T::cut(v[i], T::powers(all[i % (R / 4)]));
            }
            v
        }
    }

    #[inline(always)]
    unsafe fn digits<const RANK: usize>(mut v: [__m512i; R]) -> [__m512i; R] {
        // SAFETY: the caller's promise.
        unsafe {
            forward::<T::Word, R>(&mut v);
            for _ in 1..RANK.min(3) {
                v = last_axis_first::<T::Word, R>(v);
                forward::<T::Word, R>(&mut v);
            }
            let alternating = T::Word::splat(transform::alternating());
            for i in 0..R {
                v[i] = _mm512_xor_si512(T::Word::add(v[i], alternating), alternating);
            }
            v
        }
    }

    #[inline(always)]
    unsafe fn kept(mut digits: [__m512i; R], masks: &[T::Word; LANES]) -> [__m512i; R] {
        let masks = masks.as_ptr().cast::<__m512i>();
        // SAFETY: the caller's promise; a quarter of the registers is as long as 16 words.
        unsafe {
            for i in 0..R {
                digits[i] = _mm512_and_si512(digits[i], _mm512_loadu_si512(masks.add(i % (R / 4))));
            }
            digits
        }
    }

    #[inline(always)]
    unsafe fn elements<const RANK: usize>(
        mut v: [__m512i; R],
        are_integers: bool,
        powers: &[T; LANES],
        elements: &mut [T; BUNDLE],
    ) {
        // SAFETY: the caller's promise; R registers are as long as a bundle, and a quarter of them as 16 words.
        unsafe {
            let alternating = T::Word::splat(transform::alternating());
            for i in 0..R {
                v[i] = T::Word::sub(_mm512_xor_si512(v[i], alternating), alternating);
            }
            for _ in 1..RANK.min(3) {
                backward::<T::Word, R>(&mut v);
                v = first_axis_last::<T::Word, R>(v);
            }
            backward::<T::Word, R>(&mut v);
            let from = powers.as_ptr().cast::<__m512i>();
            if !are_integers {
                for i in 0..R {
                    v[i] = T::back(v[i], _mm512_loadu_si512(from.add(i % (R / 4))));
                }
            }
            v = first_axis_last::<T::Word, R>(v);
            let to = elements.as_mut_ptr().cast::<__m512i>();
            for i in 0..R {
                _mm512_storeu_si512(to.add(i), v[i]);
            }
        }
    }

    #[inline(always)]
    unsafe fn eight_planes<const RANK: usize>(digits: &[__m512i; R], q: usize) -> [u64; 8] {
        let gather = &TABLES.gather[RANK - 1][R / 8];
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = _mm512_add_epi8(load(&gather.bytes), _mm512_set1_epi8(q as i8));
            let mut numbers = _mm512_permutex2var_epi8(digits[0], bytes, digits[1]);
            for pair in 1..R / 2 {
                let others = _mm512_permutex2var_epi8(digits[2 * pair], bytes, digits[2 * pair + 1]);
                numbers = _mm512_mask_blend_epi8(gather.pairs[pair], numbers, others);
            }
            let planes = _mm512_permutexvar_epi8(load(&TRANSPOSED), transposed_bits(numbers));
            std::mem::transmute::<__m512i, [u64; 8]>(planes)
        }
    }

    #[inline(always)]
    unsafe fn planes_of_rows(rows: &[Rows; LANES]) -> [u64; 64] {
        let mut planes = [0; 64];
        let (eights, _) = planes.as_chunks_mut::<8>();
        let mut q = 0;
        while q < T::Word::BYTES {
            let from = T::Word::BYTES - 1 - q;
            let mut pairs = [0; 8];
            let mut i = 0;
            while i < 8 {
                let (even, odd) = (rows[2 * i].as_chunks::<8>().0[from], rows[2 * i + 1].as_chunks::<8>().0[from]);
                pairs[i] = u64::from_le_bytes(even) | u64::from_le_bytes(odd) << 4;
                i += 1;
            }
            // SAFETY: the caller's promise.
            eights[q] = unsafe { words(_mm512_permutexvar_epi8(load(&OF_ROWS), load(&pairs))) };
            q += 1;
        }
        planes
    }

    #[inline(always)]
    unsafe fn planes_of_words<const RANK: usize>(word: impl Fn(usize) -> u64) -> [u64; 64] {
        let mut planes = [0; 64];
        let (eights, _) = planes.as_chunks_mut::<8>();
        // SAFETY: the caller's promise.
        unsafe {
            if RANK == 1 {
                // 16 planes at a time; they are one word of each block.
                let per_block = T::Word::BYTES / 2;
                for w in 0..per_block {
                    let of_blocks =
                        |first: usize| -> [u64; 8] { std::array::from_fn(|i| word((first + i) * per_block + w)) };
                    let (low, high) = (load(&of_blocks(0)), load(&of_blocks(8)));
                    let even = _mm512_permutex2var_epi8(low, load(&PAIRS[0]), high);
                    let odd = _mm512_permutex2var_epi8(low, load(&PAIRS[1]), high);
                    let nibble = _mm512_set1_epi8(15);
                    let first = _mm512_ternarylogic_epi64::<0xca>(nibble, even, _mm512_slli_epi64::<4>(odd));
                    let second = _mm512_ternarylogic_epi64::<0xca>(nibble, _mm512_srli_epi64::<4>(even), odd);
                    for half in 0..2 {
                        let mixed = _mm512_permutex2var_epi64(first, load(&MIXED[half]), second);
                        eights[T::Word::BYTES - 1 - 2 * w - half] = words(mixed);
                    }
                }
            } else {
                let per_block = T::Word::BYTES * 2;
                for q in 0..T::Word::BYTES {
                    let of_blocks: [u64; 8] = std::array::from_fn(|i| word(i / 2 * per_block + 2 * q + i % 2));
                    let planes = _mm512_permutexvar_epi16(load(&OF_WORDS), load(&of_blocks));
                    eights[T::Word::BYTES - 1 - q] = words(planes);
                }
            }
        }
        planes
    }

    #[inline(always)]
    unsafe fn of_planes<const RANK: usize>(planes: &[u64; 64]) -> [__m512i; R] {
        let tables = &TABLES.scatter[RANK - 1][R / 8];
        let width = T::Word::BYTES;
        // SAFETY: the caller's promise.
        unsafe {
            let mut bytes = [_mm512_setzero_si512(); 8];
            let (eights, _) = planes.as_chunks::<8>();
            for q in 0..width {
                let permuted = _mm512_permutexvar_epi8(load(&FROM_PLANES), load(&eights[q]));
                bytes[q] = transposed_bits(permuted);
            }
            let mut digits = [_mm512_setzero_si512(); R];
            for i in 0..R {
                let table = load(&tables[i]);
                digits[i] = _mm512_permutex2var_epi8(bytes[0], table, bytes[1]);
                for pair in 1..width / 2 {
                    let others = _mm512_permutex2var_epi8(bytes[2 * pair], table, bytes[2 * pair + 1]);
                    let which = u64::MAX / ((1 << width) - 1) * (3 << (2 * pair));
                    digits[i] = _mm512_mask_blend_epi8(which, digits[i], others);
                }
            }
            digits
        }
    }

    #[inline(always)]
    unsafe fn load(words: &[T::Word; BUNDLE]) -> [__m512i; R] {
        // SAFETY: the caller's promise; R registers are as long as a bundle.
        unsafe { std::ptr::from_ref(words).cast::<[__m512i; R]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(digits: [__m512i; R], words: &mut [T::Word; BUNDLE]) {
        // SAFETY: the caller's promise; R registers are as long as a bundle.
        unsafe { std::ptr::from_mut(words).cast::<[__m512i; R]>().write_unaligned(digits) }
    }

    #[inline(always)]
    unsafe fn digits_4(elements: &[T; GROUP], power: Option<T>, digits: &mut [T::Word; GROUP]) {
        // SAFETY: the caller's promise.
        unsafe {
            match R {
                4 => forward_4::<T, 16>(elements, power, digits),
                _ => forward_4::<T, 32>(elements, power, digits),
            }
        }
    }

    #[inline(always)]
    unsafe fn elements_4(digits: &[T::Word; GROUP], power: Option<T>, elements: &mut [T; GROUP]) {
        // SAFETY: the caller's promise.
        unsafe {
            match R {
                4 => backward_4::<T, 16>(digits, power, elements),
                _ => backward_4::<T, 32>(digits, power, elements),
            }
        }
    }

    #[inline(always)]
    unsafe fn strings(planes: [u64; 8], above: u64, lowest: u32, start: usize) -> Strings {
        // SAFETY: the caller's promise.
        unsafe { strings_of_64(planes, above, lowest, start) }
    }

    #[inline(always)]
    unsafe fn short_strings<const RANK: usize>(
        planes: [u64; 8],
        above: u64,
        q: usize,
        lowest: &[u64; LANES],
    ) -> ShortStrings {
        // SAFETY: the caller's promise.
        unsafe { short_strings::<RANK>(planes, above, q, lowest) }
    }
}
