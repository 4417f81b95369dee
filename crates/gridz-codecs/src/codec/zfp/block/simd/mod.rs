//! Codes blocks with vector instructions.
//!
//! Blocks are processed in bundles of 64 elements, so that a plane of all of them is one 64-bit
//! word.

#![allow(unsafe_code)] // vector instructions, and functions that need them
#![expect(clippy::needless_range_loop, reason = "what several arrays have of a block, by its number")]

mod avx512;
mod decode;
mod encode;
mod four;
mod lanes;
mod read;
mod short;
mod side;
mod side_16;
mod side_4;
mod strings;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::bits::Room;
use super::value::Scalar;
use super::{Decode, Encode, GROUP, Parameters};
use crate::cpu::isa::{Isa, features};
use crate::settings::CpuLevel;
use avx512::Avx512;
use decode::decode_blocks;
use encode::{encode_3, encode_short};
use short::Rows;
use side::SIDE_BY_SIDE;

/// Elements of a bundle.
const BUNDLE: usize = 64;
/// Lanes of a quarter of a bundle.
const LANES: usize = 16;

/// The bit strings of eight planes of 64 positions, as words of a [`Room`]: three words each, from
/// word `at` on.
struct Strings {
    at: [u64; 8],
    bits: [[u64; 8]; 3],
    /// The position after all of them.
    end: usize,
    /// All positions at which one of these planes or a higher one has a 1.
    above: u64,
}

/// The bit strings of eight planes of several blocks, and their lengths. Each block has four
/// strings of two planes each, or one string of all eight.
#[derive(Clone, Copy)]
struct ShortStrings {
    bits: [u64; LANES],
    length: [u64; LANES],
    above: u64,
}

/// Index of a block of a bundle among those of [`ShortStrings`].
#[inline(always)]
const fn slot<const RANK: usize>(block: usize) -> usize {
    if RANK == 1 { block % 2 * 8 + block / 2 } else { block }
}

/// The vector operations of a level for elements of type `T`.
///
/// # Safety
/// For all functions: the CPU must have the level.
trait Machine<T: Scalar> {
    /// The numbers of a bundle.
    type Digits: Copy;

    /// Converts a bundle to integers, with the last axis first. For floats, also computes the
    /// largest magnitude of the block of each lane of a quarter.
    unsafe fn integers<const RANK: usize>(
        elements: &[T; BUNDLE],
        are_integers: bool,
        largest: &mut [T::Word; LANES],
    ) -> Self::Digits;
    /// Transforms integers.
    unsafe fn digits<const RANK: usize>(integers: Self::Digits) -> Self::Digits;
    /// Masks the digits; `masks` has one mask per lane of a quarter.
    unsafe fn kept(digits: Self::Digits, masks: &[T::Word; LANES]) -> Self::Digits;
    /// Converts digits to elements; `powers` has one power of two per lane of a quarter.
    unsafe fn elements<const RANK: usize>(
        digits: Self::Digits,
        are_integers: bool,
        powers: &[T; LANES],
        elements: &mut [T; BUNDLE],
    );
    /// Extracts planes 8q to 8q + 7.
    unsafe fn eight_planes<const RANK: usize>(digits: &Self::Digits, q: usize) -> [u64; 8];
    /// Collects planes from the rows of 16 blocks.
    unsafe fn planes_of_rows(rows: &[Rows; LANES]) -> [u64; 64];
    /// Collects planes from the words that `side_4` and `side_16` have read for the blocks of a
    /// bundle in one lane.
    unsafe fn planes_of_words<const RANK: usize>(words: impl Fn(usize) -> u64) -> [u64; 64];
    /// Converts planes to digits.
    unsafe fn of_planes<const RANK: usize>(planes: &[u64; 64]) -> Self::Digits;
    /// Loads the words of a bundle verbatim; and stores them.
    unsafe fn load(words: &[T::Word; BUNDLE]) -> Self::Digits;
    unsafe fn store(digits: Self::Digits, words: &mut [T::Word; BUNDLE]);
    /// The digits of a block with four axes; `power` scales its floats to integers, if there are any.
    unsafe fn digits_4(elements: &[T; GROUP], power: Option<T>, digits: &mut [T::Word; GROUP]);
    /// Undoes `digits_4`, with the decoder's power.
    unsafe fn elements_4(digits: &[T::Word; GROUP], power: Option<T>, elements: &mut [T; GROUP]);
    /// The bit strings of planes of 64 positions, from plane `lowest` on. Higher planes have had 1s
    /// at the positions `above`, and the first bit is written at `start`.
    unsafe fn strings(planes: [u64; 8], above: u64, lowest: u32, start: usize) -> Strings;
    /// The bit strings of planes 8q to 8q + 7 of blocks with fewer positions. `lowest` has the
    /// lowest plane of each block; for the order of blocks see [`slot`].
    unsafe fn short_strings<const RANK: usize>(
        planes: [u64; 8],
        above: u64,
        q: usize,
        lowest: &[u64; LANES],
    ) -> ShortStrings;
}

/// Encodes blocks that are not reversible with AVX-512 registers. `task.out` must have room for a
/// group.
#[inline(always)]
pub fn encode<T: Value>(level: Isa, task: Encode<T>) -> u32 {
    assert!(level.kind() >= CpuLevel::Avx512);
    if task.rank == 4 {
        // SAFETY: an `Isa` is proof that the CPU has its instructions.
        return unsafe { avx512_level::encode_4(task) };
    }
    let Encode { rank, numbers, blocks, out, decoded } = task;
    // SAFETY: an `Isa` is proof that the CPU has its instructions.
    out.in_room(|room| unsafe { avx512_level::encode(rank, numbers, blocks, room, decoded) })
}

/// Decodes blocks that are not reversible with AVX-512 registers.
#[inline(always)]
pub fn decode<T: Value, const S: usize>(level: Isa, task: Decode<T, S>) {
    assert!(level.kind() >= CpuLevel::Avx512);
    let Decode { rank, numbers, bytes, at, blocks } = task;
    // SAFETY: an `Isa` is proof that the CPU has its instructions.
    unsafe { avx512_level::decode(rank, numbers, bytes, at, blocks) }
}

/// Prefetches the bytes that are `ahead` after the start of these; they need not exist.
#[inline(always)]
pub fn prefetch(bytes: &[u8], ahead: usize) {
    // SAFETY: every x86-64 CPU has this instruction, and it never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(ahead).cast()) };
}

/// Floats for which every level has vector code.
pub trait Value: Scalar {
    #[expect(private_bounds)]
    type Avx512: Machine<Self>;
}

impl Value for f32 {
    type Avx512 = Avx512<4>;
}
impl Value for f64 {
    type Avx512 = Avx512<8>;
}

macro_rules! level {
    ([$($feature:tt)*] $name:ident, $machine:ident) => {
        mod $name {
            use super::*;

            #[target_feature($(enable = $feature),*)]
            pub fn encode<T: Value>(
                rank: usize,
                numbers: &Parameters,
                blocks: &[T],
                out: &mut Room,
                decoded: Option<&mut [T]>,
            ) {
                // SAFETY: the caller has checked the features, which are those of the level.
                unsafe {
                    match rank {
                        1 => encode_short::<T, T::$machine, 1, 4>(numbers, blocks, out, decoded),
                        2 => encode_short::<T, T::$machine, 2, 16>(numbers, blocks, out, decoded),
                        _ => encode_3::<T, T::$machine>(numbers, blocks, out, decoded),
                    }
                }
            }

            #[target_feature($(enable = $feature),*)]
            pub fn encode_4<T: Value>(task: Encode<T>) -> u32 {
                // SAFETY: the caller has checked the features, which are those of the level.
                unsafe { four::encode_4::<T, T::$machine>(task) }
            }

            #[target_feature($(enable = $feature),*)]
            pub fn decode<T: Value, const S: usize>(
                rank: usize,
                numbers: &Parameters,
                bytes: &[u8],
                at: &mut [usize; S],
                blocks: &mut [T],
            ) {
                // SAFETY: the caller has checked the features, which are those of the level.
                unsafe {
                    match rank {
                        1 => decode_blocks::<T, T::$machine, 1, 4, S>(numbers, bytes, at, blocks),
                        2 => decode_blocks::<T, T::$machine, 2, 16, S>(numbers, bytes, at, blocks),
                        3 if S < SIDE_BY_SIDE => {
                            decode_blocks::<T, T::$machine, 3, 64, S>(numbers, bytes, at, blocks);
                        }
                        // Long blocks do not gain from decoding several sequences side by side.
                        _ if S > 1 => {
                            let n = blocks.len() / S;
                            for (at, blocks) in at.iter_mut().zip(blocks.chunks_exact_mut(n)) {
                                decode(rank, numbers, bytes, std::array::from_mut(at), blocks);
                            }
                        }
                        _ => four::decode_4::<T, T::$machine>(numbers, bytes, &mut at[0], blocks),
                    }
                }
            }
        }
    };
}

features!(avx512 => level! { avx512_level, Avx512 });
