//! The buffers that libhdf5 and its filters hand to each other: libc's malloc and free.

#![allow(unsafe_code)] // raw buffers of the C heap

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::bulk::{Buffer, FrameBuffer};
use gridz_codecs::error::{Error, Result};

/// The buffer in libhdf5's hands during one call of the filter.
pub struct HostBuffer {
    buffer: NonNull<*mut c_void>,
    buffer_bytes: NonNull<usize>,
    n_valid: usize,
}

impl HostBuffer {
    /// The arguments of a filter callback.
    ///
    /// # Errors
    /// `InvalidArgument` if there is a null pointer or nothing in the buffer.
    ///
    /// # Safety
    /// Non-null pointers must be as libhdf5 passes them: `*buffer` a block of the C heap with at
    /// least `n_valid` initialised bytes, all of them for our use alone until the call returns.
    pub unsafe fn new(buffer: *mut *mut c_void, buffer_bytes: *mut usize, n_valid: usize) -> Result<Self> {
        let null = || Error::invalid("HDF5 passed the filter no buffer");
        let buffer = NonNull::new(buffer).ok_or_else(null)?;
        let buffer_bytes = NonNull::new(buffer_bytes).ok_or_else(null)?;
        // SAFETY: valid by our contract.
        if unsafe { buffer.read() }.is_null() || n_valid == 0 || isize::try_from(n_valid).is_err() {
            return Err(null());
        }
        Ok(Self { buffer, buffer_bytes, n_valid })
    }

    /// The valid bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: that many initialised bytes by the contract of `new`; nothing writes them while `self`
        // is borrowed, since `replace` consumes it.
        unsafe { std::slice::from_raw_parts(self.buffer.read().cast_const().cast(), self.n_valid) }
    }

    /// Hands the first `n_bytes` of `frame` to libhdf5: in its own buffer where they fit, else in place of that.
    pub fn put(self, mut frame: FrameBuffer, n_bytes: usize) {
        if n_bytes > self.n_valid
            && let Some(buffer) = frame.take_buffer()
        {
            return self.replace(buffer);
        }
        // SAFETY: the buffer has more bytes than these, which are ours until the call returns; `frame` is another one.
        unsafe { self.buffer.read().cast::<u8>().copy_from_nonoverlapping(frame.bytes().as_ptr(), n_bytes) };
    }

    /// Hands `new` to libhdf5 instead of the old buffer, which is freed.
    pub fn replace(self, new: Buffer) {
        // SAFETY: both places are ours to write until the call returns; the old block is of the C heap
        // and nothing refers to it any more; the new one is libhdf5's from here on.
        unsafe {
            libc::free(self.buffer.read());
            self.buffer_bytes.write(new.n_bytes());
            self.buffer.write(new.into_raw());
        }
    }
}
