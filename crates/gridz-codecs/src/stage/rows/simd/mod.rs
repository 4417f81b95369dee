//! Rows in registers.

#![allow(unsafe_code)] // vector instructions, and functions that need them

mod avx2;
mod avx512;
mod byte_groups;
mod floats;
mod quantize;

use std::arch::x86_64::*;

use crate::cpu::isa::features;
use crate::stage::rows::{FACTORS, KEYS, Keys, LANES, Lanes, Simd, VALUES, WithSimd};
use crate::stage::word::Word;
use avx2::Avx2;
use avx512::Avx512;

/// Proof that the CPU has the instructions of a level.
trait Token: Sized {
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn new() -> Self;
}

/// Words that have rows at every level.
pub trait SimdWord: Word {
    #[expect(private_bounds)]
    type Avx2: Simd<Self> + Token;
    #[expect(private_bounds)]
    type Avx512: Simd<Self> + Token;
}

impl SimdWord for u32 {
    type Avx2 = Avx2;
    type Avx512 = Avx512;
}

impl SimdWord for u64 {
    type Avx2 = Avx2;
    type Avx512 = Avx512;
}

/// Loads and stores of rows of `$n` registers.
macro_rules! rows {
    ($word:ty, $vector:ty, $n:literal, $bytes:literal, $load:ident, $store:ident) => {
        #[inline(always)]
        fn load(self, from: &[$word]) -> Self::Row {
            let from = from[..LANES].as_ptr().cast::<$vector>();
            // SAFETY: the token is proof of the instructions; a row is as long as its registers.
            unsafe {
                let mut row = [$load(from.cast()); $n];
                for i in 1..$n {
                    row[i] = $load(from.add(i).cast());
                }
                row
            }
        }
        #[inline(always)]
        fn store(self, row: Self::Row, to: &mut [$word]) {
            let to = to[..LANES].as_mut_ptr().cast::<$vector>();
            for i in 0..$n {
                // SAFETY: the token is proof of the instructions; a row is as long as its registers.
                unsafe { $store(to.add(i).cast(), row[i]) };
            }
        }
        #[inline(always)]
        fn load_bytes(self, from: &[u8]) -> Self::Row {
            let from = from[..LANES * $bytes].as_ptr().cast::<$vector>();
            // SAFETY: the token is proof of the instructions; a row is as long as its registers.
            unsafe {
                let mut row = [$load(from.cast()); $n];
                for i in 1..$n {
                    row[i] = $load(from.add(i).cast());
                }
                row
            }
        }
        #[inline(always)]
        fn store_bytes(self, row: Self::Row, to: &mut [u8]) {
            let to = to[..LANES * $bytes].as_mut_ptr().cast::<$vector>();
            for i in 0..$n {
                // SAFETY: the token is proof of the instructions; a row is as long as its registers.
                unsafe { $store(to.add(i).cast(), row[i]) };
            }
        }
    };
}
use rows;

/// Vector code for [`Keys`], because the compiler would process the keys one by one.
macro_rules! keys {
    ($level:ty) => {
        impl Keys for $level {
            #[inline(always)]
            fn dot(self, a: &[f64; FACTORS], b: &[f64; FACTORS]) -> f64 {
                // SAFETY: the token is proof of the instructions; the factors are as long as three registers.
                unsafe {
                    let product = |k: usize| {
                        _mm256_mul_pd(_mm256_loadu_pd(a.as_ptr().add(k)), _mm256_loadu_pd(b.as_ptr().add(k)))
                    };
                    let first = _mm256_add_pd(_mm256_setzero_pd(), product(0));
                    let sums = _mm256_add_pd(_mm256_add_pd(first, product(4)), product(8));
                    let pairs = _mm256_hadd_pd(sums, sums);
                    let [low, high] = [_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd::<1>(pairs)];
                    _mm_cvtsd_f64(_mm_add_sd(low, high))
                }
            }

            #[inline(always)]
            fn chosen(self, values: &[f64; KEYS], lanes: &Lanes) -> [f64; VALUES] {
                floats::chosen(values, lanes)
            }

            #[inline(always)]
            fn ordered_singles(
                self,
                values: &[f64; KEYS],
                lanes: &Lanes,
                shift: u32,
                given: [(u8, i64); 2],
            ) -> [i64; VALUES] {
                // SAFETY: the token is proof of the instructions.
                unsafe { floats::ordered_singles(values, lanes, shift, given) }
            }

            #[inline(always)]
            fn nearest(self, values: &[f64; KEYS], lanes: &Lanes, given: [(u8, i64); 2]) -> [i64; VALUES] {
                // SAFETY: the token is proof of the instructions.
                unsafe { floats::nearest(values, lanes, given) }
            }

            #[inline(always)]
            fn least(self, keys: &[u16; KEYS]) -> u16 {
                let from = keys.as_ptr().cast::<__m128i>();
                // SAFETY: the token is proof of the instructions; the keys are as long as two registers.
                unsafe {
                    let least = _mm_min_epu16(_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
                    _mm_cvtsi128_si32(_mm_minpos_epu16(least)) as u16
                }
            }

            #[inline(always)]
            fn not_above(self, keys: &[u16; KEYS], most: u16) -> u32 {
                // SAFETY: the token is proof of the instructions; the keys are as long as the register.
                unsafe {
                    let keys = _mm256_loadu_si256(keys.as_ptr().cast());
                    let least = _mm256_min_epu16(keys, _mm256_set1_epi16(most as i16));
                    (_mm256_movemask_epi8(_mm256_cmpeq_epi16(least, keys)) as u32).count_ones() / 2
                }
            }

            #[inline(always)]
            fn n_same_bytes(self, a: &[u8; LANES], b: &[u8; LANES]) -> u32 {
                let [a, b] = [a, b].map(|bytes| bytes.as_ptr().cast());
                // SAFETY: the token is proof of the instructions; the bytes are as long as a register.
                unsafe {
                    let are_same = _mm256_cmpeq_epi8(_mm256_loadu_si256(a), _mm256_loadu_si256(b));
                    (_mm256_movemask_epi8(are_same) as u32).trailing_ones()
                }
            }
        }
    };
}
keys!(Avx2);
keys!(Avx512);

/// An operation on every register of a row.
macro_rules! each {
    ($name:ident($arg:ident: $type:ty) [$vector:ty; $n:literal] = $result:expr) => {
        #[inline(always)]
        fn $name(self, $arg: $type) -> Self::Row {
            // SAFETY: the token is proof of the instructions.
            [unsafe { $result }; $n]
        }
    };
    ($name:ident($a:ident $(, $b:ident)? $(; $arg:ident: $type:ty)?) = $result:expr) => {
        #[inline(always)]
        fn $name(self, mut $a: Self::Row $(, $b: Self::Row)? $(, $arg: $type)?) -> Self::Row {
            for i in 0..$a.len() {
                let result = {
                    let $a = $a[i];
                    $(let $b = $b[i];)?
                    // SAFETY: the token is proof of the instructions.
                    unsafe { $result }
                };
                $a[i] = result;
            }
            $a
        }
    };
}
use each;

macro_rules! level {
    ([$($feature:tt)*] $name:ident, $rows:ident) => {
        /// Runs a task with rows of the level, in a function of its own.
        #[inline(never)]
        #[target_feature($(enable = $feature),*)]
        pub fn $name<W: SimdWord, T: WithSimd<W>>(task: T) -> T::Output {
            // SAFETY: a call of this function requires the features, which are the level's
            // instructions.
            task.run(unsafe { W::$rows::new() })
        }
    };
}

features!(avx2 => level! { with_avx2, Avx2 });
features!(avx512 => level! { with_avx512, Avx512 });
