//! Buffers that libhdf5 and its filters exchange, from libc's malloc and free.

#![allow(unsafe_code)] // raw buffers of the C heap

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::bulk::{Buffer, FrameBuffer};
use gridz_codecs::error::{Error, Result};

/// The buffer that libhdf5 passes to one call of the filter.
pub struct HostBuffer {
    buffer: NonNull<*mut c_void>,
    buffer_bytes: NonNull<usize>,
    n_valid: usize,
}

impl HostBuffer {
    /// Takes the arguments of a filter callback.
    ///
    /// # Errors
    /// `InvalidArgument` for a null pointer or an empty buffer.
    ///
    /// # Safety
    /// Non-null pointers must be as libhdf5 passes them: `*buffer` is a block of the C heap with at
    /// least `n_valid` initialized bytes. Nothing else uses it until the call returns.
    pub unsafe fn new(buffer: *mut *mut c_void, buffer_bytes: *mut usize, n_valid: usize) -> Result<Self> {
        let null = || Error::invalid("HDF5 passed no buffer to the filter");
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
        // SAFETY: that many initialized bytes by the contract of `new`. Nothing writes to them
        // while `self` is borrowed, since `put` and `replace` consume it.
        unsafe { std::slice::from_raw_parts(self.buffer.read().cast_const().cast(), self.n_valid) }
    }

    /// Returns the first `n_bytes` of `frame` to libhdf5: in its own buffer if they fit, else in a
    /// new one.
    pub fn put(self, mut frame: FrameBuffer, n_bytes: usize) {
        if n_bytes > self.n_valid
            && let Some(buffer) = frame.take_buffer()
        {
            return self.replace(buffer);
        }
        // SAFETY: the buffer has at least this many bytes, which only this call uses. `frame` is
        // another buffer.
        unsafe { self.buffer.read().cast::<u8>().copy_from_nonoverlapping(frame.bytes().as_ptr(), n_bytes) };
    }

    /// Returns `new` to libhdf5 in place of the old buffer, which is freed.
    pub fn replace(self, new: Buffer) {
        // SAFETY: only this call uses both locations until it returns. The old block is of the C
        // heap and nothing refers to it any more. libhdf5 owns the new one from here on.
        unsafe {
            libc::free(self.buffer.read());
            self.buffer_bytes.write(new.n_bytes());
            self.buffer.write(new.into_raw());
        }
    }
}
