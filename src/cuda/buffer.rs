//! Device memory, and copies in the background between it and pinned memory.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use cudarc::driver::sys::{self, CUdeviceptr};

use crate::cuda::event::Event;
use crate::cuda::pinned::PinnedBuffer;
use crate::cuda::slice::DeviceSlice;
use crate::cuda::stream::Stream;
use crate::error::{Error, Result};

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

    /// Copies the first bytes of `src` to all of `range`, in the background of the buffer's stream.
    ///
    /// # Errors
    /// `InvalidArgument` if `src` is shorter, `Internal` if the range is not inside, `Device`.
    pub fn copy_in_async(&self, range: Range<u64>, src: PinnedBuffer) -> Result<Pending> {
        let (dst, device) = (self.slice(range)?, self.stream.device());
        let _entered = device.enter()?;
        let event = device.event()?;
        let from = src.first(dst.n_bytes())?;
        // SAFETY: both sides have that many bytes. This one is freed in the order of the same stream, the other one is
        // kept until the copy is done.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(dst.address(), from.as_ptr().cast(), from.len(), self.stream.raw())
        };
        self.finish_async(code, "copying to the GPU failed", event, src)
    }

    /// Copies all of `range` to the first bytes of `dst`, in the background of the buffer's stream.
    ///
    /// # Errors
    /// `InvalidArgument` if `dst` is shorter, `Internal` if the range is not inside, `Device`.
    pub fn copy_out_async(&self, range: Range<u64>, mut dst: PinnedBuffer) -> Result<Pending> {
        let (src, device) = (self.slice(range)?, self.stream.device());
        let _entered = device.enter()?;
        let event = device.event()?;
        let n_bytes = dst.first(src.n_bytes())?.len();
        // SAFETY: as above.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src.address(), n_bytes, self.stream.raw())
        };
        self.finish_async(code, "copying from the GPU failed", event, dst)
    }

    fn finish_async(&self, code: sys::CUresult, what: &str, event: Event, buffer: PinnedBuffer) -> Result<Pending> {
        self.stream.device().context.check(code, what)?;
        let pending = Pending { event, buffer: Some(buffer) };
        // Without its mark nobody would know when the copy ends, so wait for it here.
        if let Err(error) = self.stream.record(&pending.event) {
            let _ = self.stream.synchronize();
            return Err(error);
        }
        Ok(pending)
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

/// A copy in the background that uses a buffer.
#[derive(Debug)]
#[must_use = "dropping it waits for the copy"]
pub struct Pending {
    event: Event,
    buffer: Option<PinnedBuffer>,
}

impl Pending {
    /// Waits for the copy and gives the buffer back.
    ///
    /// # Errors
    /// `Device`. The copy does not go on then, and the buffer is kept for other copies.
    pub fn wait(mut self) -> Result<PinnedBuffer> {
        let buffer = self.buffer.take();
        self.event.synchronize()?;
        Ok(buffer.expect("only this takes the buffer"))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.buffer.is_some() {
            // Whether it succeeds or fails, the copy is over.
            let _ = self.event.synchronize();
        }
    }
}
