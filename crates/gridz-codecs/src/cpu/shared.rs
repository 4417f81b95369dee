//! Memory that several threads write at the same time, each another part of it.
#![allow(unsafe_code, reason = "threads write parts of one memory that no slice can be cut into")]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// The destination of a transfer. The boxes of two chunks of an array are rows that lie between each other, of which no
/// two slices can be made; every byte belongs to one chunk at most.
#[derive(Debug)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    n_bytes: usize,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: whoever writes promises that nobody else touches these bytes (see `write` and `part`).
unsafe impl Sync for SharedBytes<'_> {}
// SAFETY: as above; it owns the borrow of the memory.
unsafe impl Send for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let n_bytes = bytes.len();
        Self { start: NonNull::from(bytes).cast(), n_bytes, of: PhantomData }
    }

    /// Copies `bytes` to `at`.
    ///
    /// # Safety
    /// Nobody else touches these bytes of the memory meanwhile.
    ///
    /// # Panics
    /// If they are not all inside.
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the same promise.
        unsafe { self.part(at..at + bytes.len()) }.copy_from_slice(bytes);
    }

    /// A part of the memory.
    ///
    /// # Safety
    /// Nobody else touches it while the slice lives.
    ///
    /// # Panics
    /// If it is not all inside.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the promise is that of a slice cut off")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.n_bytes, "outside of the memory");
        // SAFETY: inside of the memory, which is borrowed for `'a`; that nobody else uses this part is the promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start).as_ptr(), range.end - range.start) }
    }
}
