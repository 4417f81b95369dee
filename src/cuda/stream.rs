//! Streams, events, and copies between host and device.
//!
//! Host memory that gridz does not own is free again when a call returns. Copies that run on behind
//! the call use [`PinnedBuffer`]s, which are handed in and come back when the copy is done.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUevent, CUstream};

use crate::cuda::arena::{DeviceSlice, PinnedBuffer};
use crate::cuda::context::{Device, Handle};
use crate::cuda::error::check;
use crate::cuda::probe;
use crate::error::{Error, Result};

/// A stream: what is given to it happens in order.
#[derive(Debug)]
pub struct Stream {
    pub(super) device: &'static Device,
    pub(super) raw: Handle<CUstream>,
    /// Ours, to be used again; else the caller's.
    is_ours: bool,
}

/// Streams that are not in use. Making one takes longer than compressing a small chunk.
#[derive(Debug, Default)]
pub(super) struct IdleStreams(Mutex<Vec<Handle<CUstream>>>);

impl Device {
    /// A stream of ours, which does not wait for the legacy default stream.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn stream(&'static self) -> Result<Stream> {
        let _entered = self.enter()?;
        let idle = self.idle_streams.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let raw = match idle {
            Some(raw) => raw,
            None => {
                let mut raw = ptr::null_mut();
                let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
                // SAFETY: writes one handle; the context is current.
                self.check(unsafe { sys::cuStreamCreate(&raw mut raw, flags) }, "no stream can be made")?;
                Handle(raw)
            }
        };
        Ok(Stream { device: self, raw, is_ours: true })
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
    /// finds. The result must not outlive this.
    ///
    /// # Errors
    /// `Device` if there is no GPU, or CUDA does not know the context; those of `otherwise`.
    pub(crate) fn open(self, otherwise: impl FnOnce() -> Result<&'static Device>) -> Result<Stream> {
        probe::gpus()?;
        let device = if self.raw.addr() <= LAST_SPECIAL {
            Device::current()?.map_or_else(otherwise, Ok)?
        } else {
            let mut context = ptr::null_mut();
            // SAFETY: writes one pointer; the stream is alive.
            check(unsafe { sys::cuStreamGetCtx(self.raw, &raw mut context) }, "a stream has no context")?;
            Device::of_context(context)?
        };
        Ok(Stream { device, raw: Handle(self.raw), is_ours: false })
    }
}

impl Stream {
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
        StreamHandle { raw: self.raw.0, owner: PhantomData }
    }

    /// Waits until everything that was given to the stream is done.
    ///
    /// # Errors
    /// `Device`, also for what failed earlier on the stream.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: the stream is alive.
        self.device.check(unsafe { sys::cuStreamSynchronize(self.raw.0) }, "work on a stream failed")
    }

    /// Copies `src` to `dst`. `src` has been read when this returns.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    pub fn copy_in(&self, dst: DeviceSlice, src: &[u8]) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.len() as u64)?;
        // SAFETY: both sides have that many bytes, and the next line waits for the copy.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(dst.address(), src.as_ptr().cast(), src.len(), self.raw.0) };
        self.device.check(code, "copying to the GPU failed")?;
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
            unsafe { sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src.address(), dst.len(), self.raw.0) };
        self.device.check(code, "copying from the GPU failed")?;
        self.synchronize()
    }

    /// Copies the first bytes of `src` to all of `dst`, in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if `src` is shorter than `dst`, `Device`.
    pub fn copy_in_behind(&self, dst: DeviceSlice, src: PinnedBuffer) -> Result<Pending> {
        let _entered = self.device.enter()?;
        let event = self.device.event()?;
        let n_bytes = src.first(dst.n_bytes())?.len();
        // SAFETY: both sides have that many bytes; the buffer is kept until the copy is done.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(dst.address(), src.as_ptr().cast(), n_bytes, self.raw.0) };
        self.finish_behind(code, "copying to the GPU failed", event, src)
    }

    /// Copies all of `src` to the first bytes of `dst`, in the background.
    ///
    /// # Errors
    /// `InvalidArgument` if `dst` is shorter than `src`, `Device`.
    pub fn copy_out_behind(&self, src: DeviceSlice, mut dst: PinnedBuffer) -> Result<Pending> {
        let _entered = self.device.enter()?;
        let event = self.device.event()?;
        let n_bytes = dst.first(src.n_bytes())?.len();
        // SAFETY: both sides have that many bytes; the buffer is kept until the copy is done.
        let code =
            unsafe { sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src.address(), n_bytes, self.raw.0) };
        self.finish_behind(code, "copying from the GPU failed", event, dst)
    }

    fn finish_behind(
        &self,
        code: sys::CUresult,
        what: &str,
        event: Event,
        buffer: PinnedBuffer,
    ) -> Result<Pending> {
        self.device.check(code, what)?;
        let pending = Pending { event, buffer: Some(buffer) };
        // Without its mark nobody would know when the copy ends, so wait for it here.
        if let Err(error) = self.record(&pending.event) {
            let _ = self.synchronize();
            return Err(error);
        }
        Ok(pending)
    }

    /// Copies on the device.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths differ, `Device`.
    pub fn copy(&self, dst: DeviceSlice, src: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        same_length(dst.n_bytes(), src.n_bytes())?;
        // SAFETY: both sides are device memory of that many bytes.
        let code =
            unsafe { sys::cuMemcpyDtoDAsync_v2(dst.address(), src.address(), src.n_bytes() as usize, self.raw.0) };
        self.device.check(code, "copying on the GPU failed")
    }

    /// Fills with zeros.
    ///
    /// # Errors
    /// `Device`.
    pub fn zero(&self, dst: DeviceSlice) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: device memory of that many bytes.
        let code = unsafe { sys::cuMemsetD8Async(dst.address(), 0, dst.n_bytes() as usize, self.raw.0) };
        self.device.check(code, "filling memory of the GPU failed")
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// `Device`.
    pub fn record(&self, event: &Event) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: both are alive.
        self.device.check(unsafe { sys::cuEventRecord(event.raw.0, self.raw.0) }, "an event was not recorded")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whoever gets it next comes after what is still running on it.
        if self.is_ours && self.device.enter().is_ok() {
            self.device.idle_streams.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.raw);
        }
    }
}

fn same_length(dst: u64, src: u64) -> Result<()> {
    match dst == src {
        true => Ok(()),
        false => Err(Error::invalid(format!("a copy of {src} bytes to {dst}"))),
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
    /// `Device`.
    pub fn wait(mut self) -> Result<PinnedBuffer> {
        let buffer = self.buffer.take();
        match self.event.synchronize() {
            Ok(()) => Ok(buffer.expect("only this takes the buffer")),
            Err(error) => {
                // Nobody knows whether the copy goes on, so its memory is not used again.
                std::mem::forget(buffer);
                Err(error)
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.buffer.is_some() && self.event.synchronize().is_err() {
            std::mem::forget(self.buffer.take());
        }
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    device: &'static Device,
    raw: Handle<CUevent>,
}

impl Device {
    /// An event to wait for.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn event(&'static self) -> Result<Event> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let _entered = self.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle; the context is current.
        self.check(unsafe { sys::cuEventCreate(&raw mut raw, flags) }, "no event can be made")?;
        Ok(Event { device: self, raw: Handle(raw) })
    }
}

impl Event {
    /// Waits until the marked point is reached.
    ///
    /// # Errors
    /// `Device`, also for what failed on the stream before it.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check(unsafe { sys::cuEventSynchronize(self.raw.0) }, "work on a stream failed")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: the event is alive and not used again. An error can be neither told nor helped.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw.0) };
        }
    }
}
