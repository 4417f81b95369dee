//! Writes blocks to their positions in an array that several threads write concurrently. Slices
//! cannot express this, because the rows of blocks of different sections interleave.
#![allow(unsafe_code, reason = "threads write blocks of one array, which have no element in common")]

use crate::codec::zfp::block::{Scalar, prefetch};
use crate::codec::zfp::elements::{BlockPositions, Transfer, store};
use crate::codec::zfp::layout::{Block, Layout};
use crate::cpu::shared::SharedBytes;

/// An array that is being decoded.
pub struct Scatter<'a> {
    array: SharedBytes<'a>,
    places: BlockPositions<'a>,
}

impl<'a> Scatter<'a> {
    /// The array with this layout.
    pub fn new(array: &'a mut [u8], layout: &'a Layout) -> Self {
        Self { array: SharedBytes::new(array), places: BlockPositions::new(layout) }
    }

    /// Writes the elements of the blocks of a group to their positions.
    ///
    /// # Safety
    /// No other thread may access these blocks during the call.
    #[inline(always)]
    pub unsafe fn put<T: Scalar>(&self, blocks: &[Block], elements: &[T]) {
        self.places.each(blocks, Put { array: &self.array, elements });
    }
}

/// Writes elements to the array; no other thread accesses them.
struct Put<'a, T> {
    array: &'a SharedBytes<'a>,
    elements: &'a [T],
}

impl<T: Scalar> Transfer for Put<'_, T> {
    #[inline(always)]
    fn transfer(&mut self, at: usize, place: usize, n: usize, ahead: usize) {
        // SAFETY: blocks are disjoint, and by the contract of `put`, no other thread writes these.
        let bytes = unsafe { self.array.part(at * T::BYTES..(at + n) * T::BYTES) };
        prefetch(bytes, ahead * T::BYTES);
        store(&self.elements[place..place + n], bytes);
    }
}
