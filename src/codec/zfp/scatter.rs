//! Blocks to their places in an array that several threads write at the same time. No slices can be cut for them: the
//! rows of the blocks of two sections lie between each other.
#![allow(unsafe_code, reason = "threads write blocks of one array, which have no element in common")]

use crate::codec::zfp::block::{GROUP, Scalar};
use crate::codec::zfp::elements::{in_line, rows, store};
use crate::codec::zfp::layout::{Block, Layout, MAX_RANK};
use crate::cpu::shared::SharedBytes;

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

    /// Writes the elements of the blocks of a group to their places.
    ///
    /// # Safety
    /// Nobody else writes these blocks meanwhile.
    #[inline(always)]
    pub unsafe fn put<T: Scalar>(&self, blocks: &[Block], elements: &[T]) {
        let mut bytes = [0; 8 * GROUP];
        let bytes = &mut bytes[..elements.len() * T::BYTES];
        store(elements, bytes);
        if let Some(n) = in_line(self.layout, blocks) {
            // SAFETY: blocks have no element in common, and these are written by the caller alone.
            unsafe { self.array.write(blocks[0].start * T::BYTES, &bytes[..n * T::BYTES]) };
            return;
        }
        let block_bytes = self.layout.block_elements() * T::BYTES;
        for (block, bytes) in blocks.iter().zip(bytes.chunks_exact(block_bytes)) {
            let row_bytes = usize::from(block.shape[MAX_RANK - 1]) * T::BYTES;
            for (to, from) in rows(self.layout, block) {
                // SAFETY: as above.
                unsafe { self.array.write(to * T::BYTES, &bytes[from * T::BYTES..][..row_bytes]) };
            }
        }
    }
}
