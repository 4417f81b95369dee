//! Codes blocks with vector instructions.
//!
//! Blocks are processed in bundles of 64 elements, so that a plane of all of them is one 64-bit
//! word.

#![allow(unsafe_code)] // vector instructions, and functions that need them
#![expect(clippy::needless_range_loop, reason = "what several arrays have of a block, by its number")]

mod avx512;
mod four;
mod lanes;
mod read;
mod short;
mod side;
mod side_16;
mod side_4;
mod strings;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::bits::{BitReader, Room};
use super::scalar::{Form, lossy_planes};
use super::value::{Scalar, exponent_of};
use super::{Decode, Encode, GROUP, ZfpKernel};
use crate::codec::zfp::numbers::Numbers;
use crate::cpu::isa::{Isa, features};
use crate::settings::CpuLevel;
use crate::stage::word::Word;
use avx512::Avx512;
use read::Stream;
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
    unsafe fn integers<const RANK: usize>(elements: &[T; BUNDLE], largest: &mut [T::Word; LANES]) -> Self::Digits;
    /// Transforms integers.
    unsafe fn digits<const RANK: usize>(integers: Self::Digits) -> Self::Digits;
    /// Masks the digits; `masks` has one mask per lane of a quarter.
    unsafe fn kept(digits: Self::Digits, masks: &[T::Word; LANES]) -> Self::Digits;
    /// Converts digits to elements; `powers` has one power of two per lane of a quarter.
    unsafe fn elements<const RANK: usize>(digits: Self::Digits, powers: &[T; LANES], elements: &mut [T; BUNDLE]);
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
    /// The digits of a block with four axes; `power` scales its floats to integers.
    unsafe fn digits_4(elements: &[T; GROUP], power: T, digits: &mut [T::Word; GROUP]);
    /// Undoes `digits_4`, with the decoder's power.
    unsafe fn elements_4(digits: &[T::Word; GROUP], power: T, elements: &mut [T; GROUP]);
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

/// Encodes blocks with three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn encode_3<T: Value, M: Machine<T>>(
    numbers: &Numbers,
    blocks: &[T],
    out: &mut Room,
    mut decoded: Option<&mut [T]>,
) {
    for (i, block) in blocks.as_chunks().0.iter().enumerate() {
        let start = out.position();
        let mut largest = [T::Word::default(); LANES];
        // SAFETY: the caller's promise.
        let integers = unsafe { M::integers::<3>(block, &mut largest) };
        let e = exponent_of::<T>(largest[0]);
        let form = Form::lossy::<T>(3, numbers, e);
        let (code, n_bits) = form.code::<T>(false);
        out.put(code, n_bits);
        let decoded = decoded.as_deref_mut().map(|decoded| &mut decoded.as_chunks_mut().0[i]);
        if matches!(form, Form::Zeros) {
            if let Some(decoded) = decoded {
                decoded.fill(T::default());
            }
        } else {
            let lowest = T::Word::BITS.saturating_sub(lossy_planes::<T>(3, numbers, e));
            // SAFETY: the caller's promise.
            unsafe {
                let digits = M::digits::<3>(integers);
                let end = start + numbers.maxbits as usize;
                let mut above = 0;
                for q in (lowest as usize / 8..T::Word::BYTES).rev() {
                    let planes = M::eight_planes::<3>(&digits, q);
                    let mut strings =
                        M::strings(planes, above, lowest.saturating_sub(8 * q as u32), out.position());
                    // The strings are forced to memory, where scalar code can read single words
                    // without moving them from vector registers.
                    let strings = &*std::hint::black_box(&mut strings);
                    out.put_eight(&strings.at, &strings.bits, strings.end);
                    above = strings.above;
                    if strings.end >= end {
                        break;
                    }
                }
                // Planes may be missing even if no bit was truncated.
                let is_cut = out.position() >= end;
                out.end_at(end, start + numbers.minbits as usize);
                if let Some(decoded) = decoded {
                    if is_cut {
                        avx512_level::decode(3, numbers, out.bytes(), &mut [start], decoded);
                    } else {
                        let digits = M::kept(digits, &[kept_digits(lowest); LANES]);
                        M::elements::<3>(digits, &[form.power::<T>(); LANES], decoded);
                    }
                }
            }
        }
        out.end_at(usize::MAX, start + numbers.minbits as usize);
    }
}

/// A mask of the planes from `lowest` on.
#[inline(always)]
fn kept_digits<W: Word>(lowest: u32) -> W {
    W::from_u64(u64::MAX.checked_shl(lowest).unwrap_or(0))
}

/// Encodes blocks with one or two axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn encode_short<T: Value, M: Machine<T>, const RANK: usize, const N: usize>(
    numbers: &Numbers,
    blocks: &[T],
    out: &mut Room,
    mut decoded: Option<&mut [T]>,
) {
    let n_lanes = LANES * N / BUNDLE;
    for (i, bundle) in blocks.chunks(BUNDLE).enumerate() {
        let mut copy;
        let elements = match bundle.as_chunks().0.first() {
            Some(whole) => whole,
            None => {
                copy = [T::default(); BUNDLE];
                copy[..bundle.len()].copy_from_slice(bundle);
                &copy
            }
        };
        let n_blocks = bundle.len() / N;
        let mut largest = [T::Word::default(); LANES];
        // SAFETY: the caller's promise.
        let integers = unsafe { M::integers::<RANK>(elements, &mut largest) };
        let mut forms = [Form::Zeros; LANES];
        let mut lowest = [u64::from(T::Word::BITS); LANES];
        let mut n_bits = [0; LANES];
        for b in 0..n_blocks {
            let e = exponent_of::<T>(largest[b * n_lanes]);
            forms[b] = Form::lossy::<T>(RANK as u32, numbers, e);
            let n_planes = forms[b].lossy_planes::<T>(RANK as u32, numbers);
            lowest[slot::<RANK>(b)] = T::Word::BITS.saturating_sub(n_planes).into();
            n_bits[b] = forms[b].code::<T>(false).1;
        }
        let last = lowest.iter().fold(u64::from(T::Word::BITS), |a, &b| a.min(b)) as usize / 8;
        // SAFETY: the caller's promise.
        let digits = unsafe { M::digits::<RANK>(integers) };
        let mut strings = [ShortStrings { bits: [0; LANES], length: [0; LANES], above: 0 }; 8];
        let (mut first, mut above) = (T::Word::BYTES, 0);
        while first > last {
            first -= 1;
            // SAFETY: the caller's promise.
            strings[first] = unsafe {
                let planes = M::eight_planes::<RANK>(&digits, first);
                M::short_strings::<RANK>(planes, above, first, &lowest)
            };
            above = strings[first].above;
            let mut is_done = true;
            for b in 0..n_blocks {
                for k in 0..n_lanes {
                    n_bits[b] += strings[first].length[slot::<RANK>(b) * n_lanes + k] as u32;
                }
                is_done &= n_bits[b] >= numbers.maxbits || matches!(forms[b], Form::Zeros);
            }
            if is_done {
                break;
            }
        }
        let (start, mut is_cut) = (out.position(), false);
        for b in 0..n_blocks {
            let start = out.position();
            let end = start + numbers.maxbits as usize;
            let (code, n) = forms[b].code::<T>(false);
            out.put(code, n);
            for strings in strings[first..T::Word::BYTES].iter().rev() {
                for k in 0..n_lanes {
                    let at = slot::<RANK>(b) * n_lanes + k;
                    out.put(strings.bits[at], strings.length[at] as u32);
                }
            }
            is_cut |= out.position() >= end;
            out.end_at(end, start + numbers.minbits as usize);
        }
        if let Some(decoded) = decoded.as_deref_mut() {
            let decoded = &mut decoded[i * BUNDLE..][..bundle.len()];
            // SAFETY: the caller's promise.
            unsafe {
                if is_cut {
                    avx512_level::decode(RANK, numbers, out.bytes(), &mut [start], decoded);
                } else {
                    let mut masks = [T::Word::default(); LANES];
                    let mut powers = [T::default(); LANES];
                    for lane in 0..LANES {
                        let at = slot::<RANK>(if RANK == 1 { lane } else { lane % 4 });
                        masks[lane] = kept_digits(lowest[at] as u32);
                        powers[lane] = forms[lane / n_lanes].power();
                    }
                    let digits = M::kept(digits, &masks);
                    elements_to::<T, M, RANK>(digits, &powers, decoded);
                }
            }
        }
    }
}

/// Converts digits to elements, as many as fit in `to`.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn elements_to<T: Scalar, M: Machine<T>, const RANK: usize>(
    digits: M::Digits,
    powers: &[T; LANES],
    to: &mut [T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(whole) = to.first_chunk_mut() {
            return M::elements::<RANK>(digits, powers, whole);
        }
        let mut elements = [T::default(); BUNDLE];
        M::elements::<RANK>(digits, powers, &mut elements);
        to.copy_from_slice(&elements[..to.len()]);
    }
}

/// Decodes blocks with up to three axes and `N` elements each: `S` sequences of the same number of
/// blocks, side by side, from the bits at `at` on.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn decode_side_by_side<T: Scalar, M: Machine<T>, const RANK: usize, const N: usize, const S: usize>(
    numbers: &Numbers,
    bytes: &[u8],
    at: &mut [usize; S],
    blocks: &mut [T],
) {
    let n_lanes = LANES * N / BUNDLE;
    let n_elements = blocks.len() / S;
    for first in (0..n_elements).step_by(BUNDLE) {
        let n = (n_elements - first).min(BUNDLE);
        let mut powers = [[T::default(); LANES]; S];
        let mut planes = [[0; 64]; S];
        let mut rows = [[[0; 72]; LANES]; S];
        for b in 0..n / N {
            let (mut streams, mut ends) = ([Stream::new(0, 0, 0, 0); S], [0; S]);
            for i in 0..S {
                let mut bits = BitReader::new(bytes, at[i]);
                let form = Form::read::<T>(false, &mut bits);
                let n_planes = form.lossy_planes::<T>(RANK as u32, numbers);
                let end = at[i] + numbers.maxbits as usize;
                let lowest = T::Word::BITS.saturating_sub(n_planes);
                if RANK == 1 {
                    let n_planes = (T::Word::BITS - lowest) as usize;
                    // SAFETY: the caller's promise.
                    ends[i] = unsafe { short::planes(bytes, bits.position(), end, n_planes, &mut rows[i][b]) };
                } else {
                    streams[i] = Stream::new(bits.position(), end, T::Word::BITS, lowest);
                    streams[i].skip_zeros(bytes);
                }
                let power = form.power();
                for lane in 0..n_lanes {
                    powers[i][b * n_lanes + lane] = power;
                }
            }
            if RANK > 1 {
                // SAFETY: the caller's promise.
                unsafe { read::planes::<N, S>(bytes, &mut streams, b * N % BUNDLE, &mut planes) };
                ends = streams.map(|stream| stream.at);
            }
            for i in 0..S {
                let least = at[i] + numbers.minbits as usize;
                // With fixed lengths, no block depends on the bits of the previous one.
                at[i] = if numbers.is_fixed() { least } else { ends[i].max(least) };
            }
        }
        for i in 0..S {
            if RANK == 1 {
                // SAFETY: the caller's promise.
                planes[i] = unsafe { M::planes_of_rows(&rows[i]) };
            }
            let to = &mut blocks[i * n_elements + first..][..n];
            // SAFETY: the caller's promise.
            unsafe { elements_to::<T, M, RANK>(M::of_planes::<RANK>(&planes[i]), &powers[i], to) };
        }
    }
}

/// Decodes blocks with up to three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn decode_blocks<T: Value, M: Machine<T>, const RANK: usize, const N: usize, const S: usize>(
    numbers: &Numbers,
    bytes: &[u8],
    at: &mut [usize; S],
    blocks: &mut [T],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if S == SIDE_BY_SIDE && RANK < 3 {
            side::decode::<T, M, RANK, N>(numbers, bytes, at, blocks);
        } else if S == 1 && numbers.is_fixed() && blocks.len() == 4 * BUNDLE {
            // The start of the other blocks of the sequence is known, so they are decoded as four
            // sequences.
            let n_bits = BUNDLE / N * numbers.maxbits as usize;
            let mut four = [at[0], at[0] + n_bits, at[0] + 2 * n_bits, at[0] + 3 * n_bits];
            avx512_level::decode(RANK, numbers, bytes, &mut four, blocks);
            at[0] = four[3];
        } else {
            decode_side_by_side::<T, M, RANK, N, S>(numbers, bytes, at, blocks);
        }
    }
}

/// Runs a task with the instructions of AVX2.
#[inline(always)]
pub fn with_avx2<T: ZfpKernel>(level: Isa, task: T) -> T::Output {
    assert!(level.kind() >= CpuLevel::Avx2);
    // SAFETY: an `Isa` is proof that the CPU has its instructions.
    unsafe { avx2_level::run(task) }
}

/// Runs a task with the instructions of AVX-512.
#[inline(always)]
pub fn with_avx512<T: ZfpKernel>(level: Isa, task: T) -> T::Output {
    assert!(level.kind() >= CpuLevel::Avx512);
    // SAFETY: an `Isa` is proof that the CPU has its instructions.
    unsafe { avx512_level::run(task) }
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

/// Elements for which every level has vector code.
pub trait Value: Scalar {
    #[expect(private_bounds)]
    type Avx512: Machine<Self>;
}

impl Value for f32 {
    type Avx512 = Avx512<4>;
}
impl Value for i32 {
    type Avx512 = Avx512<4>;
}
impl Value for f64 {
    type Avx512 = Avx512<8>;
}
impl Value for i64 {
    type Avx512 = Avx512<8>;
}

/// Tasks, compiled with the instructions of a level.
macro_rules! run {
    ([$($feature:tt)*] $name:ident) => {
        #[target_feature($(enable = $feature),*)]
        pub fn $name<T: ZfpKernel>(task: T) -> T::Output {
            task.run()
        }
    };
}

mod avx2_level {
    use super::*;
    features!(avx2 => run! { run });
}

macro_rules! level {
    ([$($feature:tt)*] $name:ident, $machine:ident) => {
        mod $name {
            use super::*;

            #[target_feature($(enable = $feature),*)]
            pub fn run<T: ZfpKernel>(task: T) -> T::Output {
                task.run()
            }

            #[target_feature($(enable = $feature),*)]
            pub fn encode<T: Value>(
                rank: usize,
                numbers: &Numbers,
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
                numbers: &Numbers,
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
