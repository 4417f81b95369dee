//! The words ndzip works on: the bit patterns of f32 and f64.

use crate::stage::word::Word;

/// `u32` or `u64`.
pub trait FloatWord: Word {
    /// Words of a group. A group is a square bit matrix.
    const SIDE: usize = Self::BITS as usize;
    /// Groups of a block; each has one head word.
    const GROUPS: usize = super::layout::BLOCK / Self::SIDE;

    /// Rotation to the left by one bit.
    fn rotated_left(self) -> Self;
    /// Rotation to the right by one bit.
    fn rotated_right(self) -> Self;
    /// Number of one bits.
    fn n_ones(self) -> usize;
    /// The bits in reverse order.
    fn reversed(self) -> Self;
}

macro_rules! word {
    ($unsigned:ty) => {
        impl FloatWord for $unsigned {
            #[inline(always)]
            fn rotated_left(self) -> Self {
                self.rotate_left(1)
            }
            #[inline(always)]
            fn rotated_right(self) -> Self {
                self.rotate_right(1)
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

word!(u32);
word!(u64);
