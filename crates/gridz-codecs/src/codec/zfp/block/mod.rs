//! Blocks of a zfp stream: 4 to the power of the rank elements, and their encoding.
//!
//! The elements of a block are integers, or are converted to integers with a common exponent. A
//! transform along each axis makes most of them small. Their digits to base −2, ordered such that
//! small numbers come last, are written bit plane by bit plane from the top. Coding ends when the
//! planes or the bits that the block may have are used up; see `planes`. A reversible block has
//! another, lossless transform. Floats that conversion to integers would change are coded as their
//! words.
//!
//! `scalar` is the definition.

pub mod bits;
mod order;
mod planes;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod simd;
mod transform;
mod value;

pub use self::bits::{BitReader, BitWriter};
#[cfg(target_arch = "x86_64")]
pub use self::simd::{Value, prefetch};
/// Floats for which every level has vector code.
#[cfg(not(target_arch = "x86_64"))]
pub trait Value: Scalar {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: Scalar> Value for T {}
/// Prefetches the bytes that are `ahead` after the start of these.
#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch(_: &[u8], _: usize) {}
pub use self::value::{Scalar, tiny_limit};

use std::ops::Deref;

use crate::codec::zfp::numbers::Numbers;
use crate::cpu::isa::{self, Isa, Kernel, dispatch};
use crate::settings::CpuLevel;

/// Maximum number of elements of the blocks that are coded together.
pub const GROUP: usize = 256;

/// The truncation of blocks, and the kind of their elements. Integers are processed as floats with the
/// same bits, so that the code for them is not compiled a second time.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    pub numbers: &'a Numbers,
    /// True if elements are integers.
    pub are_integers: bool,
}

impl Deref for Parameters<'_> {
    type Target = Numbers;

    #[inline(always)]
    fn deref(&self) -> &Numbers {
        self.numbers
    }
}

/// Encodes consecutive blocks of 4^rank elements, at most [`GROUP`] elements in total. Returns the
/// number of their bits. The rank is 1 to 4. `decoded` receives the blocks as a decoder restores them.
///
/// Unless blocks are reversible, floats must be finite, and the magnitude of integers must be below
/// 2^(W−2), where W is their bits.
pub fn encode<T: Value>(
    level: Isa,
    rank: usize,
    numbers: &Parameters,
    blocks: &[T],
    out: &mut BitWriter,
    decoded: Option<&mut [T]>,
) -> u32 {
    Encode { rank, numbers, blocks, out, decoded }.at(level)
}

/// Decodes such blocks from arbitrary bits: `S` sequences of the same number of blocks, side by
/// side. Sequence i begins at bit `at[i]`, which becomes the bit at which it ends. A step in a
/// sequence depends on the previous one, and a CPU has time for other sequences meanwhile.
pub fn decode<T: Value, const S: usize>(
    level: Isa,
    rank: usize,
    numbers: &Parameters,
    bytes: &[u8],
    at: &mut [usize; S],
    blocks: &mut [T],
) {
    Decode { rank, numbers, bytes, at, blocks }.at(level);
}

struct Encode<'a, 'b, T> {
    rank: usize,
    numbers: &'a Parameters<'a>,
    blocks: &'a [T],
    out: &'a mut BitWriter<'b>,
    decoded: Option<&'a mut [T]>,
}

impl<T: Value> Encode<'_, '_, T> {
    #[inline(always)]
    fn at(self, level: Isa) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if has_registers(level, self.numbers) && self.out.has_room() {
            return simd::encode(level, self);
        }
        #[cfg(target_arch = "x86_64")]
        if level.kind() == CpuLevel::Avx512 {
            // With AVX-512, compilers generate no better code for this, and for short blocks code
            // that takes a quarter longer.
            return isa::dispatch_up_to_avx2(level, self);
        }
        dispatch(level, self)
    }
}

impl<T: Value> Kernel for Encode<'_, '_, T> {
    type Output = u32;
    #[inline(always)]
    fn run(self) -> u32 {
        let Self { rank, numbers, blocks, out, decoded } = self;
        match rank {
            1 => scalar::encode::<T, 4, 1>(1, numbers, blocks, out, decoded),
            2 => scalar::encode::<T, 16, 1>(2, numbers, blocks, out, decoded),
            3 => scalar::encode::<T, 64, 1>(3, numbers, blocks, out, decoded),
            _ => scalar::encode::<T, 256, 4>(4, numbers, blocks, out, decoded),
        }
    }

    #[inline(always)]
    fn run_small(self) -> u32 {
        let Self { rank, numbers, blocks, out, decoded } = self;
        scalar::encode::<T, 256, 4>(rank as u32, numbers, blocks, out, decoded)
    }
}

struct Decode<'a, T, const S: usize> {
    rank: usize,
    numbers: &'a Parameters<'a>,
    bytes: &'a [u8],
    at: &'a mut [usize; S],
    blocks: &'a mut [T],
}

impl<T: Value, const S: usize> Decode<'_, T, S> {
    #[inline(always)]
    fn at(self, level: Isa) {
        #[cfg(target_arch = "x86_64")]
        if has_registers(level, self.numbers) {
            return simd::decode(level, self);
        }
        // The sequences are decoded one after the other, so the same code handles any number of
        // them.
        let Self { rank, numbers, bytes, at, blocks } = self;
        isa::dispatch_up_to_avx2(level, DecodeInTurn { rank, numbers, bytes, at, blocks });
    }
}

/// Sequences of blocks that are decoded one after the other.
struct DecodeInTurn<'a, T> {
    rank: usize,
    numbers: &'a Parameters<'a>,
    bytes: &'a [u8],
    at: &'a mut [usize],
    blocks: &'a mut [T],
}

impl<T: Value> Kernel for DecodeInTurn<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rank = self.rank;
        self.each(|numbers, bits, blocks| match rank {
            1 => scalar::decode::<T, 4, 1>(1, numbers, bits, blocks),
            2 => scalar::decode::<T, 16, 1>(2, numbers, bits, blocks),
            3 => scalar::decode::<T, 64, 1>(3, numbers, bits, blocks),
            _ => scalar::decode::<T, 256, 4>(4, numbers, bits, blocks),
        });
    }

    #[inline(always)]
    fn run_small(self) {
        let rank = self.rank as u32;
        self.each(|numbers, bits, blocks| scalar::decode::<T, 256, 4>(rank, numbers, bits, blocks));
    }
}

impl<T: Value> DecodeInTurn<'_, T> {
    /// Decodes each sequence of blocks by `decode`.
    #[inline(always)]
    fn each(self, decode: impl Fn(&Parameters, &mut BitReader, &mut [T])) {
        let Self { numbers, bytes, at, blocks, .. } = self;
        let n = blocks.len() / at.len();
        for (at, blocks) in at.iter_mut().zip(blocks.chunks_exact_mut(n)) {
            let mut bits = BitReader::new(bytes, *at);
            decode(numbers, &mut bits, blocks);
            *at = bits.position();
        }
    }
}

/// True if blocks are processed in AVX-512 registers, by other code than the definition.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_registers(level: Isa, numbers: &Parameters) -> bool {
    level.kind() == CpuLevel::Avx512 && !numbers.is_reversible()
}
