//! Blocks by vector instructions.
//!
//! Blocks are worked on in bundles of 64 elements, so that a plane of all of them is a word of 64 bits.

#![allow(unsafe_code)] // vector instructions, and functions that need them

mod avx512;
mod read;

use super::bits::{BitReader, BitWriter, Room};
use super::scalar::{Form, lossy_planes};
use super::value::{Scalar, exponent_of};
use crate::codec::zfp::numbers::Numbers;
use crate::cpu::level::features;
use crate::stage::word::Word;
pub use avx512::Convert;
use avx512::Avx512;

/// Elements of a bundle.
const BUNDLE: usize = 64;
/// Lanes of a quarter of a bundle.
const LANES: usize = 16;

/// The strings of eight planes: their bits, and how many they are, at most 127.
struct Strings {
    low: [u64; 8],
    high: [u64; 8],
    length: [u64; 8],
    /// All places at which one of these planes or of those above has a 1.
    above: u64,
}

/// What a level has to offer for elements of type `T`.
///
/// # Safety
/// Of all functions: the CPU must have the level.
trait Machine<T: Scalar> {
    /// The numbers of a bundle.
    type Digits: Copy;

    /// The integers of a bundle, the last axis first; of floats, the largest magnitude of the blocks of the lanes of a
    /// quarter.
    unsafe fn integers<const RANK: usize>(elements: &[T; BUNDLE], largest: &mut [T::Word; LANES]) -> Self::Digits;
    /// Transforms integers.
    unsafe fn digits<const RANK: usize>(integers: Self::Digits) -> Self::Digits;
    /// The digits from the lowest plane on that is kept.
    unsafe fn kept(digits: Self::Digits, lowest: u32) -> Self::Digits;
    /// Elements of digits, for the powers of two of the lanes of a quarter.
    unsafe fn elements<const RANK: usize>(digits: Self::Digits, powers: &[T; LANES], elements: &mut [T; BUNDLE]);
    /// Planes 8q to 8q + 7.
    unsafe fn eight_planes<const RANK: usize>(digits: &Self::Digits, q: usize) -> [u64; 8];
    /// Digits of planes.
    unsafe fn of_planes<const RANK: usize>(planes: &[u64; 64]) -> Self::Digits;
    /// The strings of planes of 64 places, from the lowest plane on that is kept, if one has a 1 at the places `above`.
    unsafe fn strings(planes: [u64; 8], above: u64, lowest: u32) -> Strings;
}

/// Encodes blocks with three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn encode_3<T: Scalar, M: Machine<T>>(
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
                    let strings = M::strings(planes, above, lowest.saturating_sub(8 * q as u32));
                    for r in (0..8).rev() {
                        out.put_wide(strings.low[r], strings.high[r], strings.length[r] as u32);
                    }
                    above = strings.above;
                    if out.position() >= end {
                        break;
                    }
                }
                let is_cut = out.position() > end;
                if is_cut {
                    out.cut(end);
                }
                if let Some(decoded) = decoded {
                    let digits = if is_cut {
                        let mut planes = [0; 64];
                        let at = start + n_bits as usize;
                        read::planes::<64>(out.bytes(), at, end, lowest, T::Word::BITS, &mut planes);
                        M::of_planes::<3>(&planes)
                    } else {
                        M::kept(digits, lowest)
                    };
                    M::elements::<3>(digits, &[form.power::<T>(); LANES], decoded);
                }
            }
        }
        out.fill_to(start + numbers.minbits as usize);
    }
}

/// Decodes blocks with three axes.
///
/// # Safety
/// The CPU must have the machine's level.
#[inline(always)]
unsafe fn decode_3<T: Scalar, M: Machine<T>>(numbers: &Numbers, bits: &mut BitReader, blocks: &mut [T]) {
    for block in blocks.as_chunks_mut().0 {
        let start = bits.position();
        let form = Form::read::<T>(false, bits);
        if matches!(form, Form::Zeros) {
            block.fill(T::default());
        } else {
            let mut planes = [0; 64];
            let lowest = T::Word::BITS.saturating_sub(form.lossy_planes::<T>(3, numbers));
            let end = start + numbers.maxbits as usize;
            // SAFETY: the caller's promise.
            unsafe {
                let at =
                    read::planes::<64>(bits.bytes(), bits.position(), end, lowest, T::Word::BITS, &mut planes);
                bits.go_to(at);
                let digits = M::of_planes::<3>(&planes);
                M::elements::<3>(digits, &[form.power::<T>(); LANES], block);
            }
        }
        bits.go_to(bits.position().max(start + numbers.minbits as usize));
    }
}

/// Encodes with the instructions of AVX-512, if it can be done so.
pub fn encode<T: Value>(
    rank: usize,
    numbers: &Numbers,
    blocks: &[T],
    out: &mut BitWriter,
    decoded: Option<&mut [T]>,
) -> Option<u32> {
    if numbers.is_reversible() || rank != 3 {
        return None;
    }
    let start = out.position();
    let mut room = out.room()?;
    // SAFETY: a `Level` is proof that the CPU has its instructions.
    unsafe { avx512_level::encode(numbers, blocks, &mut room, decoded) };
    let end = room.close();
    out.go_on(end);
    Some((out.position() - start) as u32)
}

/// Decodes with the instructions of AVX-512, if it can be done so.
pub fn decode<T: Value>(rank: usize, numbers: &Numbers, bits: &mut BitReader, blocks: &mut [T]) -> Option<u32> {
    if numbers.is_reversible() || rank != 3 {
        return None;
    }
    let start = bits.position();
    // SAFETY: a `Level` is proof that the CPU has its instructions.
    unsafe { avx512_level::decode(numbers, bits, blocks) };
    Some((bits.position() - start) as u32)
}

/// Elements with registers at every level.
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

macro_rules! level {
    ([$($feature:tt)*] $name:ident, $machine:ident) => {
        mod $name {
            use super::*;

            #[target_feature($(enable = $feature),*)]
            pub fn encode<T: Value>(numbers: &Numbers, blocks: &[T], out: &mut Room, decoded: Option<&mut [T]>) {
                // SAFETY: who calls this has seen to the features, which are the level's.
                unsafe { encode_3::<T, T::$machine>(numbers, blocks, out, decoded) }
            }

            #[target_feature($(enable = $feature),*)]
            pub fn decode<T: Value>(numbers: &Numbers, bits: &mut BitReader, blocks: &mut [T]) {
                // SAFETY: who calls this has seen to the features, which are the level's.
                unsafe { decode_3::<T, T::$machine>(numbers, bits, blocks) }
            }
        }
    };
}

features!(avx512 => level! { avx512_level, Avx512 });
