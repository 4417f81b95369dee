//! Memory for chunks on their way.
#![allow(unsafe_code, reason = "memory of the C heap")]

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::error::{Error, Result};

/// A buffer of the C heap (`malloc`), freed when dropped. It holds anything: what codecs write needs no zeros first, which for
/// chunks of megabytes would cost a pass over memory.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    n_bytes: usize,
}

// SAFETY: it owns its memory, as a box does.
unsafe impl Send for Buffer {}

impl Buffer {
    /// `n_bytes` bytes.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(n_bytes: usize) -> Result<Self> {
        // SAFETY: malloc takes any size. One byte at least, so that null always means failure.
        let start = unsafe { libc::malloc(n_bytes.max(1)) };
        // As with memory that comes through the C API (see `ffi/ptr.rs`), the compiler may not know that nobody has
        // written there yet, and the engine reads nothing that it has not written.
        let start = std::hint::black_box(start);
        let start = NonNull::new(start.cast()).ok_or_else(|| Error::out_of_memory(n_bytes as u64, "chunk"))?;
        Ok(Self { start, n_bytes })
    }

    /// How many bytes it has.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: we own that many bytes, which count as initialised (see `new`), and the borrow is ours.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.n_bytes) }
    }

    /// Its memory, for who frees it with `free`.
    pub fn into_raw(self) -> *mut c_void {
        let start = self.start.as_ptr().cast();
        std::mem::forget(self);
        start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: from malloc, freed once.
        unsafe { libc::free(self.start.as_ptr().cast()) };
    }
}
