//! One context on one GPU: makes it current and interprets its errors. All other GPU code of gridz
//! uses this module.
//!
//! Every call makes the context current on the calling thread and restores the previous one. An
//! error after which CUDA refuses all further work marks the context as lost. Each later call
//! reports that error.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::fmt::Display;
use std::marker::PhantomData;
use std::ptr;

use crate::sys::{self, CUcontext, CUresult};
use once_cell::race::OnceBox;

use crate::error::{check, is_fatal};
use crate::probe::{self, Gpu};
use gridz_codecs::error::{Error, Result};

/// One of the driver's opaque pointers. The driver's functions may be called from every thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle<T>(pub T);

// SAFETY: see the comment above; the handle is only a number here.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as for `Send`.
unsafe impl<T> Sync for Handle<T> {}

/// A driver context, which lives as long as the process. Any thread may use it at any time.
#[derive(Debug)]
pub(super) struct DriverContext {
    pub(super) gpu: &'static Gpu,
    raw: Handle<CUcontext>,
    /// CUDA's id of the context. CUDA never reuses ids, but it does reuse addresses.
    pub(super) id: u64,
    lost: OnceBox<Error>,
}

impl DriverContext {
    pub(super) fn new(gpu: &'static Gpu, raw: CUcontext) -> Result<Self> {
        Ok(Self { gpu, raw: Handle(raw), id: id_of(raw)?, lost: OnceBox::new() })
    }

    /// Makes the context current on this thread as long as the result lives.
    pub(super) fn enter(&self) -> Result<Entered> {
        probe::check_process()?;
        if let Some(error) = self.lost.get() {
            return Err(error.clone());
        }
        if !self.exists() {
            let Gpu { ordinal, name, .. } = self.gpu;
            let text = format!("GPU {ordinal} ({name}): the program has destroyed or reset the CUDA context");
            let _ = self.lost.set(Box::new(Error::device(text.clone())));
            return Err(Error::device(text));
        }
        Entered::new(self.raw.0, |code| self.check(code, "making its context current failed"))
    }

    /// True if the context still is the one that this value was created for. The driver accepts a
    /// push of a destroyed or reset context without an error, and crashes at the next call. But the
    /// id of such a context is missing or different.
    pub(super) fn exists(&self) -> bool {
        id_of(self.raw.0).is_ok_and(|id| id == self.id)
    }

    /// Returns an error of this GPU unless `code` is success; `what` describes the failed
    /// operation. Marks the context as lost if no further work is possible.
    pub(super) fn check(&self, code: CUresult, what: impl Display) -> Result<()> {
        let Gpu { ordinal, name, .. } = self.gpu;
        check(code, format_args!("GPU {ordinal} ({name}): {what}")).inspect_err(|error| {
            if is_fatal(code) {
                let lost = Error::device(format!("{error}; this process cannot use the GPU any more"));
                // Another thread may have stored its error first.
                let _ = self.lost.set(Box::new(lost));
            }
        })
    }

    /// The error that made the context unusable, if there was one.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Must be called when waiting for a copy has failed, before the copy's memory is reused. The
    /// copy may still be running, so this waits for all work of the context. If that fails too, the
    /// context is lost, and no work continues.
    pub(super) fn settle(&self) {
        if let Ok(_entered) = self.enter() {
            // SAFETY: the context is current.
            let result = self.check(unsafe { sys::cuCtxSynchronize() }, "waiting for its work failed");
            if let Err(error) = result {
                let _ = self.lost.set(Box::new(error));
            }
        }
    }
}

/// CUDA's id of a context.
pub(super) fn id_of(context: CUcontext) -> Result<u64> {
    let mut id = 0;
    // SAFETY: writes one integer; for a destroyed context the driver returns an error.
    check(unsafe { sys::cuCtxGetId(context, &raw mut id) }, "querying the id of a CUDA context failed")?;
    Ok(id)
}

/// Proof that the context is current on this thread.
#[derive(Debug)]
pub struct Entered {
    is_pushed: bool,
    /// Makes the type neither `Send` nor `Sync`, because the context is current on this thread
    /// only.
    thread: PhantomData<*const ()>,
}

impl Entered {
    /// Makes `context` current unless it already is; `check` converts the driver's result code.
    pub(super) fn new(context: CUcontext, check: impl FnOnce(CUresult) -> Result<()>) -> Result<Self> {
        let is_pushed = probe::current_context() != Some(context);
        if is_pushed {
            // SAFETY: an existing context of this process.
            check(unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        }
        Ok(Self { is_pushed, thread: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_pushed {
            let mut former = ptr::null_mut();
            // SAFETY: undoes the push on the same thread. An error can be neither reported nor
            // handled.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut former) };
        }
    }
}
