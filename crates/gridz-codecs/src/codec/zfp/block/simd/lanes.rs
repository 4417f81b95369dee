//! Words and elements in AVX-512 registers, and the transform of lines whose elements are in four
//! registers.

use std::arch::x86_64::*;

use super::super::GROUP;
use super::super::transform::alternating;
use super::super::value::Scalar;
use crate::stage::word::Word;

/// Indices of the bytes of a register.
pub type Indices = [u8; 64];

/// # Safety
/// The CPU must have AVX-512.
#[inline(always)]
pub unsafe fn load<T>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: `T` has as many bytes as a register.
    unsafe { _mm512_loadu_si512((&raw const *from).cast()) }
}

/// Words in registers.
///
/// # Safety
/// For all functions: the CPU must have the level.
pub trait Lane: Word {
    unsafe fn splat(word: Self) -> __m512i;
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i;
    unsafe fn sub(a: __m512i, b: __m512i) -> __m512i;
    unsafe fn half(a: __m512i) -> __m512i;
    unsafe fn larger(a: __m512i, b: __m512i) -> __m512i;
    /// Selects lanes of both registers by the indices in `lanes`.
    unsafe fn pick(a: __m512i, lanes: __m512i, b: __m512i) -> __m512i;
    /// A register whose lane i has the value `f(i)`.
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

/// Floats in registers.
///
/// # Safety
/// For all functions: the CPU must have the level.
pub trait Convert: Scalar {
    /// Multiplies floats by powers of two, and truncates to integers.
    unsafe fn cut(floats: __m512i, powers: __m512i) -> __m512i;
    /// Converts integers to floats, and multiplies them by powers of two.
    unsafe fn back(integers: __m512i, powers: __m512i) -> __m512i;
    /// 2^(W−2−e) for the exponents e of blocks with these largest magnitudes; arbitrary for tiny
    /// blocks.
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

/// Separates even and odd lanes twice: the last two bits of an index become the first two.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn last_axis_first<W: Lane, const R: usize>(mut v: [__m512i; R]) -> [__m512i; R] {
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
pub unsafe fn first_axis_last<W: Lane, const R: usize>(mut v: [__m512i; R]) -> [__m512i; R] {
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

/// The transform of `transform`, for lines whose elements are in the four quarters.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn forward<W: Lane, const R: usize>(v: &mut [__m512i; R]) {
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
pub unsafe fn backward<W: Lane, const R: usize>(v: &mut [__m512i; R]) {
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

/// The digits to base −2 of a block with four axes in `R` registers. Its elements are integers, or
/// floats that `power` scales to integers.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn forward_4<T: Convert<Word: Lane>, const R: usize>(
    elements: &[T; GROUP],
    power: Option<T>,
    digits: &mut [T::Word; GROUP],
) {
    assert!(64 * R == GROUP * T::BYTES);
    // SAFETY: the caller's promise; R registers are as long as a block.
    unsafe {
        let mut v = std::ptr::from_ref(elements).cast::<[__m512i; R]>().read_unaligned();
        let alternating = T::Word::splat(alternating());
        if let Some(power) = power {
            let power = T::Word::splat(power.word());
            for i in 0..R {
                v[i] = T::cut(v[i], power);
            }
        }
        for _ in 0..4 {
            v = last_axis_first::<T::Word, R>(v);
            forward::<T::Word, R>(&mut v);
        }
        for i in 0..R {
            v[i] = _mm512_xor_si512(T::Word::add(v[i], alternating), alternating);
        }
        std::ptr::from_mut(digits).cast::<[__m512i; R]>().write_unaligned(v);
    }
}

/// Undoes [`forward_4`], with the decoder's power.
///
/// # Safety
/// The CPU must have the level.
#[inline(always)]
pub unsafe fn backward_4<T: Convert<Word: Lane>, const R: usize>(
    digits: &[T::Word; GROUP],
    power: Option<T>,
    elements: &mut [T; GROUP],
) {
    assert!(64 * R == GROUP * T::BYTES);
    // SAFETY: the caller's promise; R registers are as long as a block.
    unsafe {
        let mut v = std::ptr::from_ref(digits).cast::<[__m512i; R]>().read_unaligned();
        let alternating = T::Word::splat(alternating());
        for i in 0..R {
            v[i] = T::Word::sub(_mm512_xor_si512(v[i], alternating), alternating);
        }
        for _ in 0..4 {
            backward::<T::Word, R>(&mut v);
            v = first_axis_last::<T::Word, R>(v);
        }
        if let Some(power) = power {
            let power = T::Word::splat(power.word());
            for i in 0..R {
                v[i] = T::back(v[i], power);
            }
        }
        std::ptr::from_mut(elements).cast::<[__m512i; R]>().write_unaligned(v);
    }
}
