//! Registers of AVX-512, with VBMI, BITALG and GFNI.
//!
//! A quarter of a bundle is one register of 32-bit words or two of 64-bit ones. Which axis the quarters differ in is
//! changed by sorting even and odd lanes apart, twice; so lines are four registers, and the transform needs no shuffles.
//!
//! Planes: bytes q of all numbers are gathered in the order of the numbers, and `gf2p8affineqb` transposes the 8×8 bits of
//! every eight bytes, which gives the planes 8q to 8q + 7.

use std::arch::x86_64::*;

use super::super::order::order;
use super::super::transform;
use super::super::value::Scalar;
use super::{BUNDLE, LANES, Machine, ShortStrings, Strings};
use crate::stage::word::Word;

/// Indices of the bytes of a register.
type Indices = [u8; 64];

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn load<T>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: there are as many bytes as a register has.
    unsafe { _mm512_loadu_si512((&raw const *from).cast()) }
}

/// Words in registers.
///
/// # Safety
/// Of all functions: the CPU must have the level.
trait Lane: Word {
    unsafe fn splat(word: Self) -> __m512i;
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i;
    unsafe fn sub(a: __m512i, b: __m512i) -> __m512i;
    unsafe fn half(a: __m512i) -> __m512i;
    unsafe fn larger(a: __m512i, b: __m512i) -> __m512i;
    /// Lanes of both registers, by the numbers in `lanes`.
    unsafe fn pick(a: __m512i, lanes: __m512i, b: __m512i) -> __m512i;
    /// For lane i its `factor`-fold plus `offset`, where every second lane counts as the one before and `odd` more.
    unsafe fn numbered(f: impl Fn(usize) -> usize) -> __m512i;
}

macro_rules! lane {
    ($word:ty, $splat:ident, $plus:ident, $minus:ident, $half:ident, $max:ident, $pick:ident) => {
        impl Lane for $word {
            #[inline(always)]
            unsafe fn splat(word: Self) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $splat(word as _) }
            }
            #[inline(always)]
            unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $plus(a, b) }
            }
            #[inline(always)]
            unsafe fn sub(a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $minus(a, b) }
            }
            #[inline(always)]
            unsafe fn half(a: __m512i) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $half::<1>(a) }
            }
            #[inline(always)]
            unsafe fn larger(a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $max(a, b) }
            }
            #[inline(always)]
            unsafe fn pick(a: __m512i, lanes: __m512i, b: __m512i) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { $pick(a, lanes, b) }
            }
            #[inline(always)]
            unsafe fn numbered(f: impl Fn(usize) -> usize) -> __m512i {
                let mut lanes = [0 as $word; 64 / <$word>::BYTES];
                let mut i = 0;
                while i < lanes.len() {
                    lanes[i] = f(i) as $word;
                    i += 1;
                }
                // SAFETY: the caller's promise.
                unsafe { load(&lanes) }
            }
        }
    };
}

lane!(
    u32,
    _mm512_set1_epi32,
    _mm512_add_epi32,
    _mm512_sub_epi32,
    _mm512_srai_epi32,
    _mm512_max_epu32,
    _mm512_permutex2var_epi32
);
lane!(
    u64,
    _mm512_set1_epi64,
    _mm512_add_epi64,
    _mm512_sub_epi64,
    _mm512_srai_epi64,
    _mm512_max_epu64,
    _mm512_permutex2var_epi64
);

/// Floats in registers. Of integers nothing is called.
///
/// # Safety
/// Of all functions: the CPU must have the level.
pub trait Convert: Scalar {
    /// Products of floats with powers of two, cut off to integers.
    unsafe fn cut(floats: __m512i, powers: __m512i) -> __m512i;
    /// Integers as floats, times powers of two.
    unsafe fn back(integers: __m512i, powers: __m512i) -> __m512i;
    /// 2^(W−2−e) for the exponents e of blocks with these largest magnitudes; anything where they are tiny.
    unsafe fn powers(largest: __m512i) -> __m512i;
}

impl Convert for f32 {
    #[inline(always)]
    unsafe fn cut(floats: __m512i, powers: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(floats), _mm512_castsi512_ps(powers))) }
    }
    #[inline(always)]
    unsafe fn back(integers: __m512i, powers: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_castsi512_ps(powers))) }
    }
    #[inline(always)]
    unsafe fn powers(largest: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let fields = _mm512_srli_epi32::<23>(largest);
            _mm512_slli_epi32::<23>(_mm512_sub_epi32(_mm512_set1_epi32(29 + 2 * 127), fields))
        }
    }
}

impl Convert for f64 {
    #[inline(always)]
    unsafe fn cut(floats: __m512i, powers: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvttpd_epi64(_mm512_mul_pd(_mm512_castsi512_pd(floats), _mm512_castsi512_pd(powers))) }
    }
    #[inline(always)]
    unsafe fn back(integers: __m512i, powers: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_castpd_si512(_mm512_mul_pd(_mm512_cvtepi64_pd(integers), _mm512_castsi512_pd(powers))) }
    }
    #[inline(always)]
    unsafe fn powers(largest: __m512i) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let fields = _mm512_srli_epi64::<52>(largest);
            _mm512_slli_epi64::<52>(_mm512_sub_epi64(_mm512_set1_epi64(61 + 2 * 1023), fields))
        }
    }
}

macro_rules! no_floats {
    ($integer:ty) => {
        impl Convert for $integer {
            #[inline(always)]
            unsafe fn cut(integers: __m512i, _: __m512i) -> __m512i {
                integers
            }
            #[inline(always)]
            unsafe fn back(integers: __m512i, _: __m512i) -> __m512i {
                integers
            }
            #[inline(always)]
            unsafe fn powers(largest: __m512i) -> __m512i {
                largest
            }
        }
    };
}
no_floats!(i32);
no_floats!(i64);

/// Sorts even and odd places apart, twice: the last two bits of a place become the first two.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn last_axis_first<W: Lane, const R: usize>(mut v: [__m512i; R]) -> [__m512i; R] {
    // SAFETY: the caller's promise.
    unsafe {
        let (even, odd) = (W::numbered(|i| 2 * i), W::numbered(|i| 2 * i + 1));
        for _ in 0..2 {
            let mut sorted = v;
            for i in 0..R / 2 {
                sorted[i] = W::pick(v[2 * i], even, v[2 * i + 1]);
                sorted[i + R / 2] = W::pick(v[2 * i], odd, v[2 * i + 1]);
            }
            v = sorted;
        }
        v
    }
}

/// Undoes [`last_axis_first`].
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn first_axis_last<W: Lane, const R: usize>(mut v: [__m512i; R]) -> [__m512i; R] {
    let lanes = 64 / W::BYTES;
    // SAFETY: the caller's promise.
    unsafe {
        let low = W::numbered(|i| i / 2 + i % 2 * lanes);
        let high = W::numbered(|i| i / 2 + i % 2 * lanes + lanes / 2);
        for _ in 0..2 {
            let mut mixed = v;
            for i in 0..R / 2 {
                mixed[2 * i] = W::pick(v[i], low, v[i + R / 2]);
                mixed[2 * i + 1] = W::pick(v[i], high, v[i + R / 2]);
            }
            v = mixed;
        }
        v
    }
}

/// The transform of [`transform::forward`], of lines of which the quarters have the elements.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn forward<W: Lane, const R: usize>(v: &mut [__m512i; R]) {
    for i in 0..R / 4 {
        let [mut x, mut y, mut z, mut w] = [v[i], v[i + R / 4], v[i + R / 2], v[i + R / 4 * 3]];
        // SAFETY: the caller's promise.
        unsafe {
            x = W::half(W::add(x, w));
            w = W::sub(w, x);
            z = W::half(W::add(z, y));
            y = W::sub(y, z);
            x = W::half(W::add(x, z));
            z = W::sub(z, x);
            w = W::half(W::add(w, y));
            y = W::sub(y, w);
            w = W::add(w, W::half(y));
            y = W::sub(y, W::half(w));
        }
        [v[i], v[i + R / 4], v[i + R / 2], v[i + R / 4 * 3]] = [x, y, z, w];
    }
}

/// Undoes [`forward`].
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
unsafe fn backward<W: Lane, const R: usize>(v: &mut [__m512i; R]) {
    for i in 0..R / 4 {
        let [mut x, mut y, mut z, mut w] = [v[i], v[i + R / 4], v[i + R / 2], v[i + R / 4 * 3]];
        // SAFETY: the caller's promise.
        unsafe {
            y = W::add(y, W::half(w));
            w = W::sub(w, W::half(y));
            y = W::add(y, w);
            w = W::sub(w, W::sub(y, w));
            z = W::add(z, x);
            x = W::sub(x, W::sub(z, x));
            y = W::add(y, z);
            z = W::sub(z, W::sub(y, z));
            w = W::add(w, x);
            x = W::sub(x, W::sub(w, x));
        }
        [v[i], v[i + R / 4], v[i + R / 2], v[i + R / 4 * 3]] = [x, y, z, w];
    }
}

/// Where the number at a place of a plane is in a bundle, after the transform: its axes are in another order then.
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

/// How bytes are gathered: the first byte of every number from pairs of registers, and which places come from which pair.
struct Gather {
    bytes: Indices,
    pairs: [u64; 4],
}

/// Numbers of `width` bytes. Of every eight the last one comes first, as the transposition wants it.
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

/// How bytes come back, for each register: byte q of a number is in one of the registers q and q ^ 1.
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

/// From eight by eight bytes to their transpose.
static TRANSPOSED: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// From planes to bytes as the transposition of bits wants them: the last plane first.
static FROM_PLANES: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = ((7 - i % 8) * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// Transposes the bits of every eight bytes: byte r of the result has bit r of every byte, that of the last byte lowest.
///
/// # Safety
/// The CPU must have AVX-512 and GFNI.
#[inline(always)]
unsafe fn transposed_bits(bytes: __m512i) -> __m512i {
    // SAFETY: the caller's promise. The product of a matrix with the unit vectors is its columns.
    unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(0x8040_2010_0804_0201u64 as i64), bytes) }
}

/// AVX-512 for words of which `R` registers have a bundle.
pub struct Avx512<const R: usize>;

impl<T: Convert<Word: Lane>, const R: usize> Machine<T> for Avx512<R> {
    type Digits = [__m512i; R];

    #[inline(always)]
    unsafe fn integers<const RANK: usize>(elements: &[T; BUNDLE], largest: &mut [T::Word; LANES]) -> [__m512i; R] {
        let from = elements.as_ptr().cast::<__m512i>();
        // SAFETY: the caller's promise; R registers are as long as a bundle, and a quarter of them as 16 words.
        unsafe {
            let mut v = [_mm512_setzero_si512(); R];
            for i in 0..R {
                v[i] = _mm512_loadu_si512(from.add(i));
            }
            v = last_axis_first::<T::Word, R>(v);
            if !T::IS_FLOAT {
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
    unsafe fn elements<const RANK: usize>(mut v: [__m512i; R], powers: &[T; LANES], elements: &mut [T; BUNDLE]) {
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
            for i in 0..R {
                v[i] = T::back(v[i], _mm512_loadu_si512(from.add(i % (R / 4))));
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
    unsafe fn strings(planes: [u64; 8], above: u64, lowest: u32, start: usize) -> Strings {
        // SAFETY: the caller's promise.
        unsafe {
            let planes = std::mem::transmute::<[u64; 8], __m512i>(planes);
            let zero = _mm512_setzero_si512();
            let ones = _mm512_set1_epi64(-1);
            let sixty_four = _mm512_set1_epi64(64);
            let (any, before) = seen(planes, above);
            let before = _mm512_sub_epi64(sixty_four, _mm512_lzcnt_epi64(before));
            let after = _mm512_sub_epi64(sixty_four, _mm512_lzcnt_epi64(any));

            // Four bits at a time: each bit, and a 1 behind every 1. Then these strings are joined, two by two.
            let rest = _mm512_srlv_epi64(planes, before);
            let codes = _mm512_broadcast_i32x4(load_16(&CODES));
            let lengths = _mm512_broadcast_i32x4(load_16(&LENGTHS));
            let nibble = _mm512_set1_epi8(15);
            let (low, high) =
                (_mm512_and_si512(rest, nibble), _mm512_and_si512(_mm512_srli_epi64::<4>(rest), nibble));
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
            let (low_length, high_length) = (_mm512_and_si512(length, word), _mm512_srli_epi64::<32>(length));
            let n_ones = _mm512_sub_epi64(_mm512_add_epi64(low_length, high_length), sixty_four);

            // A 1 before all of it; cut off behind the last 1 of the plane, or before it in the last place.
            let one = _mm512_set1_epi64(1);
            let open = _mm512_cmplt_epu64_mask(before, sixty_four);
            let full = _mm512_mask_cmpeq_epi64_mask(open, after, sixty_four);
            let n = _mm512_add_epi64(n_ones, _mm512_sub_epi64(after, before));
            let n = _mm512_mask_sub_epi64(n, full, n, one);
            let from = _mm512_add_epi64(low_length, one);
            let second = _mm512_or_si512(_mm512_srli_epi64::<63>(low), {
                let high = _mm512_add_epi64(high, high);
                _mm512_srlv_epi64(high, _mm512_sub_epi64(sixty_four, low_length))
            });
            let first = _mm512_or_si512(_mm512_add_epi64(low, low), _mm512_sllv_epi64(high, from));
            let first = _mm512_andnot_si512(_mm512_sllv_epi64(ones, n), _mm512_or_si512(first, one));
            let n_second = _mm512_subs_epu16(n, sixty_four);
            let second = _mm512_andnot_si512(_mm512_sllv_epi64(ones, n_second), second);

            // Behind the bits that are written as they are.
            let as_they_are = _mm512_andnot_si512(_mm512_sllv_epi64(ones, before), planes);
            let low = _mm512_or_si512(as_they_are, _mm512_sllv_epi64(first, before));
            let carried = _mm512_srlv_epi64(first, _mm512_sub_epi64(sixty_four, before));
            let high = _mm512_or_si512(_mm512_sllv_epi64(second, before), carried);
            let end = _mm512_mask_add_epi64(n, _mm512_cmplt_epu64_mask(after, sixty_four), n, one);
            let kept = 0xff << lowest;
            let length = _mm512_maskz_add_epi64(kept, before, end);
            let (low, high) = (_mm512_maskz_mov_epi64(kept, low), _mm512_maskz_mov_epi64(kept, high));

            // Where each begins, the last one first, and its bits in the words there.
            let mut sum = _mm512_add_epi64(length, _mm512_alignr_epi64::<1>(zero, length));
            sum = _mm512_add_epi64(sum, _mm512_alignr_epi64::<2>(zero, sum));
            sum = _mm512_add_epi64(sum, _mm512_alignr_epi64::<4>(zero, sum));
            sum = _mm512_add_epi64(sum, _mm512_set1_epi64(start as i64));
            let from = _mm512_sub_epi64(sum, length);
            let shift = _mm512_and_si512(from, _mm512_set1_epi64(63));
            let back = _mm512_sub_epi64(sixty_four, shift);
            let second = _mm512_or_si512(_mm512_srlv_epi64(low, back), _mm512_sllv_epi64(high, shift));
            Strings {
                at: words(_mm512_srli_epi64::<6>(from)),
                bits: [words(_mm512_sllv_epi64(low, shift)), words(second), words(_mm512_srlv_epi64(high, back))],
                end: _mm_cvtsi128_si64(_mm512_castsi512_si128(sum)) as usize,
                above: _mm_cvtsi128_si64(_mm512_castsi512_si128(any)) as u64,
            }
        }
    }

    #[inline(always)]
    unsafe fn short_strings<const RANK: usize>(
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
}

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn words(register: __m512i) -> [u64; 8] {
    // SAFETY: any bits are words.
    unsafe { std::mem::transmute::<__m512i, [u64; 8]>(register) }
}

/// Of eight planes, the last one highest: the places at which each of them or one above it has a 1, and those at which
/// one above it has; `above` are those of the planes above all of them.
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

/// Places of four bits: the codes and lengths of planes for what was seen, `16·s + plane`, the lowest bit first.
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

/// Sixteen times the places up to the last 1.
static SEEN_4: [u8; 16] = [0, 16, 32, 32, 48, 48, 48, 48, 64, 64, 64, 64, 64, 64, 64, 64];

/// From the bytes of planes to those of blocks, the highest plane first.
static OF_BLOCKS: Indices = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = ((7 - i % 8) * 8 + i / 8) as u8;
        i += 1;
    }
    table
};

/// The strings of eight planes of 16 blocks with four places: one string for all planes of a block.
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
            // Blocks 2i, and then 2i + 1.
            let shift = _mm_cvtsi32_si128(4 * odd as i32);
            let plane = _mm512_and_si512(_mm512_srl_epi64(planes, shift), nibble);
            let before = _mm512_and_si512(_mm512_srl_epi64(before, shift), nibble);
            let at = _mm512_or_si512(plane, _mm512_shuffle_epi8(seen_4, before));
            let code = _mm512_permutex2var_epi8(load(&tables[0][0]), at, load(&tables[0][1]));
            let length = _mm512_permutex2var_epi8(load(&tables[1][0]), at, load(&tables[1][1]));
            // The planes that the block has of these eight.
            let missing = _mm512_subs_epu16(lowest[odd], _mm512_set1_epi64(8 * q as i64));
            let kept = _mm512_srlv_epi64(_mm512_set1_epi64(-1), _mm512_slli_epi64::<3>(missing));
            let (code, length) = (_mm512_and_si512(code, kept), _mm512_and_si512(length, kept));
            let byte = _mm512_set1_epi16(0xff);
            let first_length = _mm512_and_si512(length, byte);
            let second = _mm512_sllv_epi16(_mm512_srli_epi16::<8>(code), first_length);
            let code = _mm512_or_si512(_mm512_and_si512(code, byte), second);
            let length = _mm512_add_epi16(first_length, _mm512_srli_epi16::<8>(length));
            let half = _mm512_set1_epi32(0xffff);
            let first_length = _mm512_and_si512(length, half);
            let second = _mm512_sllv_epi32(_mm512_srli_epi32::<16>(code), first_length);
            let code = _mm512_or_si512(_mm512_and_si512(code, half), second);
            let length = _mm512_add_epi32(first_length, _mm512_srli_epi32::<16>(length));
            let word = _mm512_set1_epi64(0xffff_ffff);
            let first_length = _mm512_and_si512(length, word);
            let second = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(code), first_length);
            bits[odd] = _mm512_or_si512(_mm512_and_si512(code, word), second);
            lengths[odd] = _mm512_add_epi64(first_length, _mm512_srli_epi64::<32>(length));
            odd += 1;
        }
        (bits, lengths)
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

/// The strings of eight planes of four blocks with 16 places: four strings of two planes for each block.
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
            // The planes that each block has of these eight.
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
    // SAFETY: there are as many bytes.
    unsafe { &*(&raw const *table).cast() }
}

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
unsafe fn load_16(from: &[u8; 16]) -> __m128i {
    // SAFETY: there are as many bytes as the register has.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Four bits, the lowest first, with a 1 behind every 1.
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

/// How many bits these are.
static LENGTHS: [u8; 16] = {
    let mut lengths = [0; 16];
    let mut bits = 0;
    while bits < 16 {
        lengths[bits] = 4 + bits.count_ones() as u8;
        bits += 1;
    }
    lengths
};
