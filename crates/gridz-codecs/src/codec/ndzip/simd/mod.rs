//! Codes blocks with vector instructions: one body for every level, type and rank.
//!
//! The steps are those of `scalar`, but a group goes through all of them in registers. Encoding
//! loads the group's elements, rotates them, and subtracts the predecessors. They are one lane to
//! the left along x, the row above along y (still in a register or nearby), and the previous plane
//! along z (held in a small array). Then encoding folds the signs, transposes the bits, and writes
//! the nonzero columns consecutively. Decoding reverses the steps, with prefix sums instead of
//! differences. So each element and each column of a block is touched once; only the heads are held
//! back.
//!
//! Lanes are compressed in a register, and the whole register is stored. The next store, or the
//! next block, overwrites what lies after the last column. In the same way, whole registers are
//! loaded and then expanded.
//!
//! [`block`] is that body. [`Lanes`] is the set of vector operations of a level for one type of
//! word: `avx512`, `avx2`.

#![allow(unsafe_code)] // vector instructions, and their loads and stores

mod avx2;
mod avx512;
mod block;

use crate::codec::ndzip::Sections;
use crate::codec::ndzip::blocks::{self, DecodeTarget, Encoded, Piece};
use crate::codec::ndzip::layout::Layout;
use crate::codec::ndzip::word::FloatWord;
use crate::cpu::isa::{Isa, features};
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::settings::CpuLevel;
use block::Vectors;

/// Bytes of the largest register: this much may be loaded where one word is.
const REGISTER: usize = 64;

/// Vectors of words of type `W`.
///
/// # Safety
/// For all functions: the CPU must have the level, and pointers must be valid for the documented
/// reads and writes; they need no alignment.
trait Lanes<W: FloatWord> {
    /// Some words in a register.
    type Vector: Copy;
    /// The words of a group in registers.
    type Group: Copy + AsRef<[Self::Vector]> + AsMut<[Self::Vector]>;
    /// One, two or four groups, which are processed side by side. Every step depends on the
    /// previous one, and the CPU does not look far enough ahead to overlap consecutive groups.
    type Batch: AsMut<[Self::Group]>;
    /// 256 words: a plane of a block with three axes.
    type Plane: AsMut<[Self::Vector]>;
    /// Words of a vector.
    const LANES: usize;

    unsafe fn zero() -> Self::Vector;
    unsafe fn batch_of_zeros() -> Self::Batch;
    unsafe fn plane_of_zeros() -> Self::Plane;
    /// Reads a vector.
    unsafe fn load(from: *const u8) -> Self::Vector;
    /// Writes a vector.
    unsafe fn store(vector: Self::Vector, to: *mut u8);
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn sub(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn rotated_left(v: Self::Vector) -> Self::Vector;
    unsafe fn rotated_right(v: Self::Vector) -> Self::Vector;
    /// Inverts all bits but the top one where that is set.
    unsafe fn fold_signs(v: Self::Vector) -> Self::Vector;
    /// The predecessor of every word. The predecessor of the first word is the last word of
    /// `before`.
    unsafe fn shift_in(v: Self::Vector, before: Self::Vector) -> Self::Vector;
    /// Prefix sums within every vector.
    unsafe fn prefix_sum(groups: &mut [Self::Group]);
    /// The last word, in all lanes.
    unsafe fn last(v: Self::Vector) -> Self::Vector;
    /// The transpose of the group's bit matrix; its own inverse.
    unsafe fn transpose(group: Self::Group) -> Self::Group;
    /// Writes the nonzero columns to `*to`, and advances `*to` past them. Returns a mask with bit c
    /// for column c. It may overwrite as many words as a group has.
    unsafe fn pack(columns: Self::Group, to: &mut *mut u8) -> W;
    /// Reads the columns that the mask names from `*from`, and advances `*from` past them. It may
    /// read [`REGISTER`] bytes more.
    unsafe fn unpack(mask: W, from: &mut *const u8) -> Self::Group;
}

/// Encodes a piece with the instructions of some level.
pub struct Encoder(unsafe fn(Isa, &Layout, &[u8], Piece) -> Encoded);
/// Decodes strips with the instructions of some level.
pub struct Decoder(unsafe fn(Isa, &Layout, &Sections, DecodeTarget) -> Result<Checksum>);

impl Encoder {
    pub fn run(self, level: Isa, layout: &Layout, src: &[u8], piece: Piece) -> Encoded {
        // SAFETY: `encoder` selected the function for an `Isa` that has its instructions.
        unsafe { self.0(level, layout, src, piece) }
    }
}

impl Decoder {
    pub fn run(self, level: Isa, layout: &Layout, sections: &Sections, places: DecodeTarget) -> Result<Checksum> {
        // SAFETY: `decoder` selected the function for an `Isa` that has its instructions.
        unsafe { self.0(level, layout, sections, places) }
    }
}

/// Words that have vectors of every level.
pub trait NdzipSimdWord: FloatWord {
    #[expect(private_bounds)]
    type Avx512: Lanes<Self>;
    #[expect(private_bounds)]
    type Avx2: Lanes<Self>;
}

impl NdzipSimdWord for u32 {
    type Avx512 = avx512::U32s;
    type Avx2 = avx2::U32s;
}

impl NdzipSimdWord for u64 {
    type Avx512 = avx512::U64s;
    type Avx2 = avx2::U64s;
}

/// The encoder of a level for blocks of a rank. `None`: use portable code.
pub fn encoder<W: NdzipSimdWord>(level: Isa, rank: usize) -> Option<Encoder> {
    Some(Encoder(match (level.kind(), rank) {
        (CpuLevel::Scalar, _) => return None,
        (CpuLevel::Avx2, 1) => avx2_level::encode::<W, W::Avx2, 4096, 1, 1>,
        (CpuLevel::Avx2, 2) => avx2_level::encode::<W, W::Avx2, 64, 64, 1>,
        (CpuLevel::Avx2, _) => avx2_level::encode::<W, W::Avx2, 16, 16, 16>,
        (CpuLevel::Avx512, 1) => avx512_level::encode::<W, W::Avx512, 4096, 1, 1>,
        (CpuLevel::Avx512, 2) => avx512_level::encode::<W, W::Avx512, 64, 64, 1>,
        (CpuLevel::Avx512, _) => avx512_level::encode::<W, W::Avx512, 16, 16, 16>,
    }))
}

/// The decoder of a level for blocks of a rank. `None`: use portable code.
pub fn decoder<W: NdzipSimdWord>(level: Isa, rank: usize) -> Option<Decoder> {
    Some(Decoder(match (level.kind(), rank) {
        (CpuLevel::Scalar, _) => return None,
        (CpuLevel::Avx2, 1) => avx2_level::decode::<W, W::Avx2, 4096, 1, 1>,
        (CpuLevel::Avx2, 2) => avx2_level::decode::<W, W::Avx2, 64, 64, 1>,
        (CpuLevel::Avx2, _) => avx2_level::decode::<W, W::Avx2, 16, 16, 16>,
        (CpuLevel::Avx512, 1) => avx512_level::decode::<W, W::Avx512, 4096, 1, 1>,
        (CpuLevel::Avx512, 2) => avx512_level::decode::<W, W::Avx512, 64, 64, 1>,
        (CpuLevel::Avx512, _) => avx512_level::decode::<W, W::Avx512, 16, 16, 16>,
    }))
}

/// The loops of `blocks`, compiled with the instructions of a level.
macro_rules! level {
    ([$($feature:tt)*] $name:ident) => {
        mod $name {
            use super::*;

            #[target_feature($(enable = $feature),*)]
            unsafe fn decode_block<
                W: FloatWord,
                L: Lanes<W>,
                const ROW: usize,
                const ROWS: usize,
                const PLANES: usize,
            >(
                stream: *const u8,
                bands: &mut [&mut [u8]],
                offset: usize,
                row: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { block::decode_block::<W, L, ROW, ROWS, PLANES>(stream, bands, offset, row) };
            }

            #[target_feature($(enable = $feature),*)]
            pub fn encode<W: FloatWord, L: Lanes<W>, const ROW: usize, const ROWS: usize, const PLANES: usize>(
                level: Isa,
                layout: &Layout,
                src: &[u8],
                piece: Piece,
            ) -> Encoded {
                // SAFETY: the caller has checked the features, which are those of the level.
                let coder = unsafe { Vectors::<W, L>::new(decode_block::<W, L, ROW, ROWS, PLANES>) };
                blocks::encode::<W, ROW, ROWS, PLANES>(coder, layout, src, level, piece)
            }

            #[target_feature($(enable = $feature),*)]
            pub fn decode<W: FloatWord, L: Lanes<W>, const ROW: usize, const ROWS: usize, const PLANES: usize>(
                level: Isa,
                layout: &Layout,
                sections: &Sections,
                places: DecodeTarget,
            ) -> Result<Checksum> {
                // SAFETY: the caller has checked the features, which are those of the level.
                let coder = unsafe { Vectors::<W, L>::new(decode_block::<W, L, ROW, ROWS, PLANES>) };
                blocks::decode::<W, ROW, ROWS, PLANES>(level, coder, layout, sections, places)
            }
        }
    };
}

features!(avx2 => level! { avx2_level });
features!(avx512 => level! { avx512_level });
