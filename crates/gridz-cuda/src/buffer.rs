//! Device memory.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use crate::sys::{self, CUdeviceptr};

use crate::slice::DeviceSlice;
use crate::stream::Stream;
use gridz_codecs::error::{Error, Result};

/// Device memory, for work on one stream; it is freed in the order of that stream, so it may be dropped
/// as soon as the work is given to the stream. It keeps its stream.
#[derive(Debug)]
pub struct DeviceBuffer<'a> {
    stream: Stream<'a>,
    address: CUdeviceptr,
    n_bytes: u64,
}

impl<'a> Stream<'a> {
    /// Device memory of `n_bytes`, with anything in it, aligned to 256 bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if the GPU has no more, `Device`.
    pub fn alloc(&self, n_bytes: u64) -> Result<DeviceBuffer<'a>> {
        let context = &self.device().context;
        let _entered = context.enter()?;
        let pool = self.device().pool.get(context)?;
        let mut address = 0;
        // The driver has no address for no bytes, but callers need not know that.
        let size = usize::try_from(n_bytes.max(1)).map_err(|_| Error::out_of_memory(n_bytes, "GPU memory"))?;
        // SAFETY: writes one address; pool and stream are alive.
        let code = unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, size, pool, self.raw()) };
        context.check(code, format_args!("no {n_bytes} bytes of GPU memory"))?;
        Ok(DeviceBuffer { stream: self.clone(), address, n_bytes })
    }
}

impl<'a> DeviceBuffer<'a> {
    /// The stream whose work it is for.
    pub fn stream(&self) -> &Stream<'a> {
        &self.stream
    }

    /// All of it.
    pub fn all(&self) -> DeviceSlice<'_> {
        let start = ptr::without_provenance::<c_void>(self.address as usize);
        // SAFETY: the memory is this buffer's, which lives as long as the result, and is freed in the stream's order.
        unsafe { DeviceSlice::from_raw(start, self.n_bytes) }
    }

    /// A part.
    ///
    /// # Errors
    /// `Internal` if it is not inside.
    pub fn slice(&self, range: Range<u64>) -> Result<DeviceSlice<'_>> {
        self.all().slice(range)
    }
}

impl Drop for DeviceBuffer<'_> {
    fn drop(&mut self) {
        let context = &self.stream.device().context;
        if let Ok(_entered) = context.enter() {
            // SAFETY: allocated on this stream and not used by anything that is given to it later. The
            // check notes a lost device; nothing else can be done about an error.
            let code = unsafe { sys::cuMemFreeAsync(self.address, self.stream.raw()) };
            let _ = context.check(code, "GPU memory is not given back");
        }
    }
}
