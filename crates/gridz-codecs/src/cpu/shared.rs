//! Memory that several threads write at the same time, each to a different part.
#![allow(unsafe_code, reason = "threads write parts of one memory that no slice can be cut into")]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// The destination of a transfer. The boxes of two chunks are interleaved rows of the array, so
/// they are no slices; but every byte belongs to at most one chunk.
#[derive(Debug)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    n_bytes: usize,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: writers promise that no other code accesses these bytes (see `write` and `part`).
unsafe impl Sync for SharedBytes<'_> {}
// SAFETY: as above; it owns the borrow of the memory.
unsafe impl Send for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// Shares all of `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let n_bytes = bytes.len();
        Self { start: NonNull::from(bytes).cast(), n_bytes, of: PhantomData }
    }

    /// Copies `bytes` to `at`.
    ///
    /// # Safety
    /// No other code accesses these bytes of the memory during the call.
    ///
    /// # Panics
    /// If they are not all within the memory.
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the same promise.
        unsafe { self.part(at..at + bytes.len()) }.copy_from_slice(bytes);
    }

    /// Borrows a part of the memory.
    ///
    /// # Safety
    /// No other code accesses it while the slice lives.
    ///
    /// # Panics
    /// If it is not all within the memory.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the promise is that of a slice cut off")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.n_bytes, "outside of the memory");
        // SAFETY: within the memory, which is borrowed for `'a`; the caller promises that no other
        // code uses this part.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start).as_ptr(), range.end - range.start) }
    }
}
