//! The loops of this codec with vector instructions.
//!
//! The loops are those of the files above, compiled once for each level: everything in them is inlined into a function
//! that has the level's instructions, which is why they are plain loops without iterators and closures (those would be
//! compiled apart, without them). `avx512` and `avx2` have the operations on rows.

#![allow(unsafe_code)] // vector instructions, and functions that need them

mod avx2;
mod avx512;

use crate::codec::lorenzo::block::{Source, Target, Work};
use crate::codec::lorenzo::rows::{Portable, Rows};
use crate::codec::lorenzo::word::Word;
use crate::codec::lorenzo::{Chunk, decode_block, encode_block};
use crate::cpu::level::{Level, features};
use crate::error::Result;
use crate::settings::CpuLevel;
use avx2::Avx2;
use avx512::Avx512;

/// What can be had only where the CPU has the instructions of a level.
trait Token: Sized {
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn new() -> Self;
}

/// Words with rows of every level.
pub trait SimdWord: Word {
    #[expect(private_bounds)]
    type Avx2: Rows<Self> + Token;
    #[expect(private_bounds)]
    type Avx512: Rows<Self> + Token;
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
        mod $name {
            use super::*;

            #[target_feature($(enable = $feature),*)]
            pub fn encode<W: SimdWord>(
                work: &mut Work<W>,
                chunk: &Chunk,
                source: &Source,
                shape: [usize; 3],
                out: &mut [u8],
            ) -> usize {
                // SAFETY: who calls this has seen to the features, which are the level's.
                let rows = unsafe { W::$rows::new() };
                encode_block(rows, work, chunk, source, shape, out)
            }

            #[target_feature($(enable = $feature),*)]
            pub fn decode<W: SimdWord>(
                work: &mut Work<W>,
                chunk: &Chunk,
                shape: [usize; 3],
                bytes: &[u8],
                target: &mut Target,
            ) -> Result<()> {
                // SAFETY: who calls this has seen to the features, which are the level's.
                let rows = unsafe { W::$rows::new() };
                decode_block(rows, work, chunk, shape, bytes, target)
            }
        }
    };
}

features!(avx2 => level! { avx2_level, Avx2 });
features!(avx512 => level! { avx512_level, Avx512 });

/// [`encode_block`] with the instructions of a level.
pub fn encode<W: SimdWord>(
    level: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    source: &Source,
    shape: [usize; 3],
    out: &mut [u8],
) -> usize {
    match level.kind() {
        CpuLevel::Scalar => encode_block(Portable, work, chunk, source, shape, out),
        // SAFETY: a `Level` is proof that the CPU has its instructions.
        CpuLevel::Avx2 => unsafe { avx2_level::encode(work, chunk, source, shape, out) },
        // SAFETY: as above.
        CpuLevel::Avx512 => unsafe { avx512_level::encode(work, chunk, source, shape, out) },
    }
}

/// [`decode_block`] with the instructions of a level.
pub fn decode<W: SimdWord>(
    level: Level,
    work: &mut Work<W>,
    chunk: &Chunk,
    shape: [usize; 3],
    bytes: &[u8],
    target: &mut Target,
) -> Result<()> {
    match level.kind() {
        CpuLevel::Scalar => decode_block(Portable, work, chunk, shape, bytes, target),
        // SAFETY: a `Level` is proof that the CPU has its instructions.
        CpuLevel::Avx2 => unsafe { avx2_level::decode(work, chunk, shape, bytes, target) },
        // SAFETY: as above.
        CpuLevel::Avx512 => unsafe { avx512_level::decode(work, chunk, shape, bytes, target) },
    }
}
