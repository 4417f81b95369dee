//! Blocks to their places in an array that several threads write at the same time. No slices can be cut for them: the
//! rows of the blocks of two sections lie between each other.
#![allow(unsafe_code, reason = "threads write blocks of one array, which have no element in common")]

use crate::codec::zfp::block::Scalar;
use crate::codec::zfp::elements::{rows, store};
use crate::codec::zfp::layout::{Block, Layout, SIDE};
use crate::cpu::shared::SharedBytes;
use crate::stage::word::Word;

/// Most bytes of a row of a block.
const ROW_BYTES: usize = 8 * SIDE;

/// An array, as it is decoded.
pub struct Scatter<'a> {
    array: SharedBytes<'a>,
    layout: &'a Layout,
}

impl<'a> Scatter<'a> {
    /// The array, of this layout.
    pub fn new(array: &'a mut [u8], layout: &'a Layout) -> Self {
        Self { array: SharedBytes::new(array), layout }
    }

    /// Writes the elements of a block to their places.
    ///
    /// # Safety
    /// Nobody else writes this block meanwhile.
    #[inline(always)]
    pub unsafe fn put<T: Scalar>(&self, block: &Block, elements: &[T]) {
        let [.., nx] = block.shape;
        let mut row = [0; ROW_BYTES];
        let row = &mut row[..nx * T::Word::BYTES];
        for (to, from) in rows(self.layout, block) {
            store(&elements[from..from + nx], row);
            // SAFETY: blocks have no element in common, and this one is written by the caller alone.
            unsafe { self.array.write(to * T::Word::BYTES, row) };
        }
    }
}
