//! Device memory.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use crate::sys::{self, CUdeviceptr};

use crate::slice::DeviceSlice;
use crate::stream::Stream;
use gridz_codecs::error::{Error, Result};

/// Device memory for work on one stream. It is freed in stream order, so it may be dropped as soon
/// as its work has been enqueued. It holds a reference to its stream.
#[derive(Debug)]
pub struct DeviceBuffer<'a> {
    stream: Stream<'a>,
    address: CUdeviceptr,
    n_bytes: u64,
}

impl<'a> Stream<'a> {
    /// Allocates `n_bytes` of device memory with unspecified contents, aligned to 256 bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if GPU memory is exhausted, `Device`.
    pub fn alloc(&self, n_bytes: u64) -> Result<DeviceBuffer<'a>> {
        let context = &self.device().context;
        let _entered = context.enter()?;
        let pool = self.device().pool.get(context)?;
        let mut address = 0;
        // The driver rejects allocations of 0 bytes; allocate 1 instead.
        let size = usize::try_from(n_bytes.max(1)).map_err(|_| Error::out_of_memory(n_bytes, "GPU memory"))?;
        // SAFETY: writes one address; pool and stream are alive.
        let code = unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, size, pool, self.raw()) };
        context.check(code, format_args!("allocating {n_bytes} bytes of GPU memory failed"))?;
        Ok(DeviceBuffer { stream: self.clone(), address, n_bytes })
    }
}

impl<'a> DeviceBuffer<'a> {
    /// The stream whose work may use the memory.
    pub fn stream(&self) -> &Stream<'a> {
        &self.stream
    }

    /// The whole buffer.
    pub fn all(&self) -> DeviceSlice<'_> {
        let start = ptr::without_provenance::<c_void>(self.address as usize);
        // SAFETY: the memory belongs to this buffer, which lives as long as the result, and is
        // freed in stream order.
        unsafe { DeviceSlice::from_raw(start, self.n_bytes) }
    }

    /// A part of the buffer.
    ///
    /// # Errors
    /// `Internal` if `range` is not inside the buffer.
    pub fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.all().slice(range)
    }
}

impl Drop for DeviceBuffer<'_> {
    fn drop(&mut self) {
        let context = &self.stream.device().context;
        if let Ok(_entered) = context.enter() {
            // SAFETY: allocated on this stream and not used by any work enqueued later. The check
            // records a lost device; no other error can be handled here.
            let code = unsafe { sys::cuMemFreeAsync(self.address, self.stream.raw()) };
            let _ = context.check(code, "freeing GPU memory failed");
        }
    }
}
