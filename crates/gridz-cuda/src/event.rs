//! Events: points in a stream. The host and other streams can wait for them, and the time between
//! two of them can be measured.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ptr;
use std::time::Duration;

use crate::sys::{self, CUevent, CUresult};

use crate::context::{DriverContext, Handle};
use crate::device::Device;
use gridz_codecs::error::Result;

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    context: &'static DriverContext,
    raw: Handle<CUevent>,
}

impl Device {
    /// An event to wait for.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn event(&'static self) -> Result<Event> {
        Event::new(&self.context, sys::CU_EVENT_DISABLE_TIMING)
    }

    /// An event that also records the time.
    ///
    /// # Errors
    /// `Device`, `OutOfMemory`.
    pub fn timed_event(&'static self) -> Result<Event> {
        Event::new(&self.context, sys::CU_EVENT_DEFAULT)
    }
}

impl Event {
    fn new(context: &'static DriverContext, flags: u32) -> Result<Self> {
        let _entered = context.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: writes one handle; the context is current.
        context.check(unsafe { sys::cuEventCreate(&raw mut raw, flags) }, "creating an event failed")?;
        Ok(Self { context, raw: Handle(raw) })
    }

    pub(super) fn raw(&self) -> CUevent {
        self.raw.0
    }

    /// Waits until the stream has reached the marked point. Even after an error, no copy is still
    /// running, and the memory of copies may be reused.
    ///
    /// # Errors
    /// `Device`, also for an earlier failure on the stream.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.context.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { sys::cuEventSynchronize(self.raw.0) };
        self.context.check(code, "work on a stream failed").inspect_err(|_| self.context.settle())
    }

    /// True if the stream has reached the marked point.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn is_reached(&self) -> Result<bool> {
        let _entered = self.context.enter()?;
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(self.raw.0) } {
            CUresult::NOT_READY => Ok(false),
            code => {
                self.context.check(code, "work on a stream failed").inspect_err(|_| self.context.settle())?;
                Ok(true)
            }
        }
    }

    /// The time from the point of `begin` to the point of this event; both must be timed and
    /// reached.
    ///
    /// # Errors
    /// `Device`, also if one of them is not timed, not recorded or not reached.
    pub fn time_since(&self, begin: &Event) -> Result<Duration> {
        let _entered = self.context.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: writes one number; both events are alive.
        let code = unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, begin.raw.0, self.raw.0) };
        self.context.check(code, "measuring the time between two events failed")?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: the event is alive and not used again. An error can be neither reported nor
            // handled.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw.0) };
        }
    }
}
