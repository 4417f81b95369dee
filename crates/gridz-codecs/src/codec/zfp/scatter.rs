//! Blocks to their places in an array that several threads write at the same time. No slices can be cut for them: the
//! rows of the blocks of two sections lie between each other.
#![allow(unsafe_code, reason = "threads write blocks of one array, which have no element in common")]

use crate::codec::zfp::block::{Scalar, prefetch};
use crate::codec::zfp::elements::{Places, Transfer, store};
use crate::codec::zfp::layout::{Block, Layout};
use crate::cpu::shared::SharedBytes;

/// An array, as it is decoded.
pub struct Scatter<'a> {
    array: SharedBytes<'a>,
    places: Places<'a>,
}

impl<'a> Scatter<'a> {
    /// The array, of this layout.
    pub fn new(array: &'a mut [u8], layout: &'a Layout) -> Self {
        Self { array: SharedBytes::new(array), places: Places::new(layout) }
    }

    /// Writes the elements of the blocks of a group to their places.
    ///
    /// # Safety
    /// Nobody else writes these blocks meanwhile.
    #[inline(always)]
    pub unsafe fn put<T: Scalar>(&self, blocks: &[Block], elements: &[T]) {
        self.places.each(blocks, Put { array: &self.array, elements });
    }
}

/// Writes elements to the array, which nobody else writes meanwhile.
struct Put<'a, T> {
    array: &'a SharedBytes<'a>,
    elements: &'a [T],
}

impl<T: Scalar> Transfer for Put<'_, T> {
    #[inline(always)]
    fn transfer(&mut self, at: usize, place: usize, n: usize, ahead: usize) {
        // SAFETY: blocks have no element in common, and these are written by the caller of `put` alone.
        let bytes = unsafe { self.array.part(at * T::BYTES..(at + n) * T::BYTES) };
        prefetch(bytes, ahead * T::BYTES);
        store(&self.elements[place..place + n], bytes);
    }
}
