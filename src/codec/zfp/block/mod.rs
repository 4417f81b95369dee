//! Blocks of a zfp stream: 4 to the power of the rank elements, and the bits they become.
//!
//! The elements of a block become integers with one exponent for all of them, or are integers. A transform along each
//! axis makes most of these small. Their digits to base −2, in an order in which the small ones come last, are written plane by
//! plane from the top, until the planes or the bits that the block may have are used up; see `planes`. A reversible
//! block has another transform, which loses nothing, and floats that do not survive to become integers are taken
//! as their words.
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
pub use self::simd::Value;
/// Elements with registers at every level.
#[cfg(not(target_arch = "x86_64"))]
pub trait Value: Scalar {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: Scalar> Value for T {}
pub use self::value::{Scalar, exponent, is_tiny};

use crate::codec::zfp::numbers::Numbers;
use crate::cpu::level::Level;
use crate::settings::CpuLevel;

/// Elements of the blocks that are coded together at most.
pub const GROUP: usize = 256;

/// Encodes blocks of 4^rank elements, which follow each other and are [`GROUP`] elements at most; the number of their
/// bits. The rank is 1 to 4.
///
/// Unless blocks are reversible, floats are finite and the magnitude of integers is below 2^(W−2), W being their bits.
pub fn encode<T: Value>(level: Level, rank: usize, numbers: &Numbers, blocks: &[T], out: &mut BitWriter) -> u32 {
    at_level(level, Encode { rank, numbers, blocks, out, decoded: None })
}

/// As [`encode`], and what a decoder makes of the blocks.
pub fn encode_checked<T: Value>(
    level: Level,
    rank: usize,
    numbers: &Numbers,
    blocks: &[T],
    out: &mut BitWriter,
    decoded: &mut [T],
) -> u32 {
    at_level(level, Encode { rank, numbers, blocks, out, decoded: Some(decoded) })
}

/// Decodes such blocks, whatever the bits are; how many they were.
pub fn decode<T: Value>(
    level: Level,
    rank: usize,
    numbers: &Numbers,
    bits: &mut BitReader,
    blocks: &mut [T],
) -> u32 {
    at_level(level, Decode { rank, numbers, bits, blocks })
}

/// Blocks to be encoded.
struct Encode<'a, 'b, T> {
    rank: usize,
    numbers: &'a Numbers,
    blocks: &'a [T],
    out: &'a mut BitWriter<'b>,
    decoded: Option<&'a mut [T]>,
}

/// Blocks to be decoded.
struct Decode<'a, 'b, T> {
    rank: usize,
    numbers: &'a Numbers,
    bits: &'a mut BitReader<'b>,
    blocks: &'a mut [T],
}

/// Either of them: the number of bits.
trait Task {
    /// Does it as the definition has it. All is inlined, so that it is compiled for each level.
    fn run(self) -> u32;
    /// Does it in registers of AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn run_in_registers(self) -> u32;
}

impl<T: Value> Task for Encode<'_, '_, T> {
    #[inline(always)]
    fn run(self) -> u32 {
        let Self { rank, numbers, blocks, out, decoded } = self;
        match rank {
            1 => scalar::encode::<T, 4, 1>(numbers, blocks, out, decoded),
            2 => scalar::encode::<T, 16, 1>(numbers, blocks, out, decoded),
            3 => scalar::encode::<T, 64, 1>(numbers, blocks, out, decoded),
            _ => scalar::encode::<T, 256, 4>(numbers, blocks, out, decoded),
        }
    }
    #[cfg(target_arch = "x86_64")]
    fn run_in_registers(self) -> u32 {
        simd::encode(self)
    }
}

impl<T: Value> Task for Decode<'_, '_, T> {
    #[inline(always)]
    fn run(self) -> u32 {
        let Self { rank, numbers, bits, blocks } = self;
        match rank {
            1 => scalar::decode::<T, 4, 1>(numbers, bits, blocks),
            2 => scalar::decode::<T, 16, 1>(numbers, bits, blocks),
            3 => scalar::decode::<T, 64, 1>(numbers, bits, blocks),
            _ => scalar::decode::<T, 256, 4>(numbers, bits, blocks),
        }
    }
    #[cfg(target_arch = "x86_64")]
    fn run_in_registers(self) -> u32 {
        simd::decode(self)
    }
}

/// Does a task with the instructions of a level.
fn at_level(level: Level, task: impl Task) -> u32 {
    match level.kind() {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 => simd::with_avx2(level, task),
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx512 => task.run_in_registers(),
        _ => task.run(),
    }
}
