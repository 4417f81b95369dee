//! Streams, and copies between host and device.
//!
//! Safe functions no longer use the caller's memory when they return; `unsafe` functions may.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use crate::sys::{self, CUstream};

use crate::caches::OwnStream;
use crate::context::Handle;
use crate::device::Device;
use crate::error::check;
use crate::event::Event;
use crate::probe;
use crate::slice::DeviceSlice;
use gridz_codecs::error::{Error, Result};

/// A stream: its work runs in order. A clone refers to the same stream.
#[derive(Debug, Clone)]
pub struct Stream<'a> {
    device: &'static Device,
    raw: Raw<'a>,
}

/// The stream's handle, by owner.
#[derive(Debug, Clone)]
enum Raw<'a> {
    Ours(Arc<OwnStream>),
    Callers(Handle<CUstream>, PhantomData<&'a ()>),
}

impl Device {
    /// A stream that gridz owns. It does not synchronize with the legacy default stream.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn stream(&'static self) -> Result<Stream<'static>> {
        let _entered = self.enter()?;
        Ok(Stream { device: self, raw: Raw::Ours(self.streams.get(&self.context)?) })
    }
}

/// The raw handle of a stream, as used by CUDA and other libraries; null is the legacy default
/// stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamHandle<'a> {
    raw: CUstream,
    owner: PhantomData<&'a ()>,
}

/// The largest special handle. Null and the handles of the legacy and the per-thread default stream
/// denote a stream of the current context.
const LAST_SPECIAL: usize = 2;

impl StreamHandle<'_> {
    /// A caller's stream: a `CUstream` or `cudaStream_t`.
    ///
    /// # Safety
    /// The stream must live until its work has completed. So must all memory that is passed to
    /// calls with the result.
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self { raw: raw.cast(), owner: PhantomData }
    }
}

impl<'a> StreamHandle<'a> {
    /// The stream, with its device. A default stream belongs to the current context or, if none is
    /// current, to the device that `otherwise` returns.
    ///
    /// # Errors
    /// `Device` if no GPU is usable or CUDA does not know the context; errors of `otherwise`.
    pub fn open(self, otherwise: impl FnOnce() -> Result<&'static Device>) -> Result<Stream<'a>> {
        probe::gpus()?;
        let device = if self.raw.addr() <= LAST_SPECIAL {
            Device::current()?.map_or_else(otherwise, Ok)?
        } else {
            let mut context = ptr::null_mut();
            // SAFETY: writes one pointer; the stream is alive.
            let code = unsafe { sys::cuStreamGetCtx(self.raw, &raw mut context) };
            check(code, "querying the context of a stream failed")?;
            Device::of_context(context)?
        };
        Ok(Stream { device, raw: Raw::Callers(Handle(self.raw), PhantomData) })
    }
}

impl Stream<'_> {
    pub(super) fn raw(&self) -> CUstream {
        match &self.raw {
            Raw::Ours(stream) => stream.raw.0,
            Raw::Callers(stream, _) => stream.0,
        }
    }

    /// The device that the stream belongs to.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// The stream's handle, for functions that take any stream.
    ///
    /// # Safety
    /// All memory that is passed to calls with the result must live until the work has completed. A
    /// [`DeviceBuffer`](super::DeviceBuffer) of another stream does not wait for this one when it
    /// is dropped.
    pub unsafe fn handle(&self) -> StreamHandle<'_> {
        StreamHandle { raw: self.raw(), owner: PhantomData }
    }

    /// Waits until all work of the stream has completed. Even after an error, no copy is still
    /// running, and the memory of copies may be reused.
    ///
    /// # Errors
    /// `Device`, also for an earlier failure on the stream.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { sys::cuStreamSynchronize(self.raw()) };
        self.device.context.check(code, "work on a stream failed").inspect_err(|_| self.device.context.settle())
    }

    /// Uploads `src` to `dst` and waits for the copy.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    pub fn copy_in(&self, dst: DeviceSlice, src: &[u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.len() as u64)?;
        // SAFETY: both sides have that many bytes, and the next line waits for the copy.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(dst.address(), src.as_ptr().cast(), src.len(), self.raw()) };
        self.device.context.check(code, "copying to the GPU failed")?;
        self.synchronize()
    }

    /// Downloads `src` to `dst` and waits for the copy, and therefore for all earlier work on the
    /// stream.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    pub fn copy_out(&self, src: DeviceSlice, dst: &mut [u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.len() as u64, src.n_bytes())?;
        // SAFETY: both sides have that many bytes, and the next line waits for the copy.
        let code =
            unsafe { sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src.address(), dst.len(), self.raw()) };
        self.device.context.check(code, "copying from the GPU failed")?;
        self.synchronize()
    }

    /// Uploads `src`, which must be pinned, to `dst` in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    ///
    /// # Safety
    /// Both memory ranges must live until the stream has completed the copy, and no other code may
    /// change them until then.
    pub unsafe fn bring(&self, dst: DeviceSlice, src: &[u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.len() as u64)?;
        // SAFETY: both sides have that many bytes, and live long enough by the caller's promise.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(dst.address(), src.as_ptr().cast(), src.len(), self.raw()) };
        self.device.context.check(code, "copying to the GPU failed")
    }

    /// Downloads `src` to `dst`, which must be pinned, in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    ///
    /// # Safety
    /// Both memory ranges must live until the stream has completed the copy, and no other code may
    /// access them until then.
    pub unsafe fn fetch(&self, src: DeviceSlice, dst: &mut [u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.len() as u64, src.n_bytes())?;
        // SAFETY: both sides have that many bytes, and live long enough by the caller's promise.
        let code =
            unsafe { sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src.address(), dst.len(), self.raw()) };
        self.device.context.check(code, "copying from the GPU failed")
    }

    /// Copies on the device, in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    ///
    /// # Safety
    /// Both memory ranges must live until the stream has completed the copy.
    pub unsafe fn copy(&self, dst: DeviceSlice, src: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.n_bytes())?;
        // SAFETY: both sides are device memory of that many bytes, which lives long enough by the caller's promise.
        let code =
            unsafe { sys::cuMemcpyDtoDAsync_v2(dst.address(), src.address(), src.n_bytes() as usize, self.raw()) };
        self.device.context.check(code, "copying on the GPU failed")
    }

    /// Fills device memory with zeros, in the background.
    ///
    /// # Errors
    /// `Device`.
    ///
    /// # Safety
    /// The memory must live until the stream has completed the work.
    pub unsafe fn zero(&self, dst: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: device memory of that many bytes, which lives long enough by the caller's promise.
        let code = unsafe { sys::cuMemsetD8Async(dst.address(), 0, dst.n_bytes() as usize, self.raw()) };
        self.device.context.check(code, "filling GPU memory failed")
    }

    /// Records `event` at this point of the stream.
    ///
    /// # Errors
    /// `Device`.
    pub fn record(&self, event: &Event) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: both are alive.
        let code = unsafe { sys::cuEventRecord(event.raw(), self.raw()) };
        self.device.context.check(code, "recording an event failed")
    }

    /// Makes all later work on the stream wait for the point that `event` marks, which may be on
    /// any stream of any device.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: both are alive; the driver keeps the event's state as long as it needs it.
        let code = unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw(), 0) };
        self.device.context.check(code, "making a stream wait for an event failed")
    }
}

fn same_length(dst: u64, src: u64) -> Result<()> {
    match dst == src {
        true => Ok(()),
        false => Err(Error::invalid(format!("a copy has {src} bytes at its source, but {dst} at its destination"))),
    }
}
