//! The unsigned words ndzip works on: the bit patterns of f32 and f64.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

/// `u32` or `u64`.
pub trait Word:
    Copy
    + Default
    + Eq
    + Send
    + Sync
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// Bits of a word; also the words of a group and the columns of its transpose.
    const BITS: usize;
    /// Bytes of a word.
    const BYTES: usize = Self::BITS / 8;
    /// Groups, and so heads, of a block.
    const GROUPS: usize = super::layout::BLOCK / Self::BITS;

    /// The low word of `x`.
    fn from_u64(x: u64) -> Self;
    /// The word at the start of `bytes`, which has at least [`Word::BYTES`].
    fn read(bytes: &[u8]) -> Self;
    /// Writes the word to the start of `bytes`.
    fn write(self, bytes: &mut [u8]);
    /// Addition modulo 2^BITS.
    fn plus(self, other: Self) -> Self;
    /// Subtraction modulo 2^BITS.
    fn minus(self, other: Self) -> Self;
    /// Rotation to the left by one bit.
    fn rotated_left(self) -> Self;
    /// Rotation to the right by one bit.
    fn rotated_right(self) -> Self;
    /// All ones if the top bit is set, else zero.
    fn sign_mask(self) -> Self;
    /// Number of one bits.
    fn n_ones(self) -> usize;
    /// The bits in reverse order.
    fn reversed(self) -> Self;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty) => {
        impl Word for $unsigned {
            const BITS: usize = <$unsigned>::BITS as usize;

            #[inline(always)]
            fn from_u64(x: u64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("the bytes of a word"))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                *bytes.first_chunk_mut().expect("room for a word") = self.to_le_bytes();
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn rotated_left(self) -> Self {
                self.rotate_left(1)
            }
            #[inline(always)]
            fn rotated_right(self) -> Self {
                self.rotate_right(1)
            }
            #[inline(always)]
            fn sign_mask(self) -> Self {
                ((self as $signed) >> (Self::BITS - 1)) as Self
            }
            #[inline(always)]
            fn n_ones(self) -> usize {
                self.count_ones() as usize
            }
            #[inline(always)]
            fn reversed(self) -> Self {
                self.reverse_bits()
            }
        }
    };
}

word!(u32, i32);
word!(u64, i64);
