//! Streams, and copies between host and device.
//!
//! Memory that a function here is given is free again when it returns, unless the function is `unsafe`.
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

/// A stream: what is given to it happens in order. A clone is the same stream.
#[derive(Debug, Clone)]
pub struct Stream<'a> {
    device: &'static Device,
    raw: Raw<'a>,
}

/// Whose it is.
#[derive(Debug, Clone)]
enum Raw<'a> {
    Ours(Arc<OwnStream>),
    Callers(Handle<CUstream>, PhantomData<&'a ()>),
}

impl Device {
    /// A stream of ours, which does not wait for the legacy default stream.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn stream(&'static self) -> Result<Stream<'static>> {
        let _entered = self.enter()?;
        Ok(Stream { device: self, raw: Raw::Ours(self.streams.get(&self.context)?) })
    }
}

/// A stream by its handle, as CUDA's own functions and other libraries know it; null is the legacy default
/// stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamHandle<'a> {
    raw: CUstream,
    owner: PhantomData<&'a ()>,
}

/// The handles of the legacy and the per-thread default stream, and null: they mean a stream of the context that
/// is current.
const LAST_SPECIAL: usize = 2;

impl StreamHandle<'_> {
    /// A caller's stream: a `CUstream` or `cudaStream_t`.
    ///
    /// # Safety
    /// The stream and all memory that calls with the result are given live until the work is done.
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self { raw: raw.cast(), owner: PhantomData }
    }
}

impl<'a> StreamHandle<'a> {
    /// The stream, in its context. That of a default stream is the current one or, if none is, what `otherwise`
    /// finds.
    ///
    /// # Errors
    /// `Device` if there is no GPU, or CUDA does not know the context; those of `otherwise`.
    pub fn open(self, otherwise: impl FnOnce() -> Result<&'static Device>) -> Result<Stream<'a>> {
        probe::gpus()?;
        let device = if self.raw.addr() <= LAST_SPECIAL {
            Device::current()?.map_or_else(otherwise, Ok)?
        } else {
            let mut context = ptr::null_mut();
            // SAFETY: writes one pointer; the stream is alive.
            check(unsafe { sys::cuStreamGetCtx(self.raw, &raw mut context) }, "a stream has no context")?;
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

    /// The device it belongs to.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// Its handle, for functions that take any stream.
    ///
    /// # Safety
    /// All memory that calls with the result are given lives until the work is done: a
    /// [`DeviceBuffer`](super::DeviceBuffer) of another stream does not wait for this one when it is dropped.
    pub unsafe fn handle(&self) -> StreamHandle<'_> {
        StreamHandle { raw: self.raw(), owner: PhantomData }
    }

    /// Waits until everything that was given to the stream is done. If it cannot, nothing goes on all the same, and the
    /// memory of copies is free.
    ///
    /// # Errors
    /// `Device`, also for what failed earlier on the stream.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { sys::cuStreamSynchronize(self.raw()) };
        self.device.context.check(code, "work on a stream failed").inspect_err(|_| self.device.context.settle())
    }

    /// Copies `src` to `dst`. `src` has been read when this returns.
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

    /// Copies `src` to `dst` and waits for it, and so for everything that was given to the stream before.
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

    /// Copies `src`, which is pinned, to `dst` in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    ///
    /// # Safety
    /// Both memories live, and nobody changes them, until the stream has done the work.
    pub unsafe fn bring(&self, dst: DeviceSlice, src: &[u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.len() as u64)?;
        // SAFETY: both sides have that many bytes, and live long enough by the caller's promise.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(dst.address(), src.as_ptr().cast(), src.len(), self.raw()) };
        self.device.context.check(code, "copying to the GPU failed")
    }

    /// Copies `src` to `dst`, which is pinned, in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    ///
    /// # Safety
    /// Both memories live, and nobody touches them, until the stream has done the work.
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
    /// Both memories live until the stream has done the work.
    pub unsafe fn copy(&self, dst: DeviceSlice, src: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.n_bytes())?;
        // SAFETY: both sides are device memory of that many bytes, which lives long enough by the caller's promise.
        let code =
            unsafe { sys::cuMemcpyDtoDAsync_v2(dst.address(), src.address(), src.n_bytes() as usize, self.raw()) };
        self.device.context.check(code, "copying on the GPU failed")
    }

    /// Fills with zeros, in the background.
    ///
    /// # Errors
    /// `Device`.
    ///
    /// # Safety
    /// The memory lives until the stream has done the work.
    pub unsafe fn zero(&self, dst: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: device memory of that many bytes, which lives long enough by the caller's promise.
        let code = unsafe { sys::cuMemsetD8Async(dst.address(), 0, dst.n_bytes() as usize, self.raw()) };
        self.device.context.check(code, "filling memory of the GPU failed")
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// `Device`.
    pub fn record(&self, event: &Event) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: both are alive.
        let code = unsafe { sys::cuEventRecord(event.raw(), self.raw()) };
        self.device.context.check(code, "an event was not recorded")
    }

    /// Lets what is given to the stream from now on wait for the point that `event` marks, on any stream of any device.
    ///
    /// # Errors
    /// `Device`.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: both are alive; the driver keeps what it needs of the event.
        let code = unsafe { sys::cuStreamWaitEvent(self.raw(), event.raw(), 0) };
        self.device.context.check(code, "a stream does not wait for an event")
    }
}

fn same_length(dst: u64, src: u64) -> Result<()> {
    match dst == src {
        true => Ok(()),
        false => Err(Error::invalid(format!("a copy of {src} bytes to {dst}"))),
    }
}
