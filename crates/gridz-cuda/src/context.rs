//! One context on one GPU: making it current, and what its errors mean. Everything else that gridz does with a GPU
//! stands on this.
//!
//! Every call makes the context current on the calling thread and puts the former one back. An error
//! after which CUDA refuses all further work marks the context as lost, and each later call says so.
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

// SAFETY: as the comment above says; the handle is a number to us.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: the same.
unsafe impl<T> Sync for Handle<T> {}

/// A context of the driver, which lives as long as the process. Any thread may use it at any time.
#[derive(Debug)]
pub(super) struct DriverContext {
    pub(super) gpu: &'static Gpu,
    raw: Handle<CUcontext>,
    /// CUDA's number of it, which CUDA gives only once; addresses are used again.
    pub(super) id: u64,
    lost: OnceBox<Error>,
}

impl DriverContext {
    pub(super) fn new(gpu: &'static Gpu, raw: CUcontext) -> Result<Self> {
        Ok(Self { gpu, raw: Handle(raw), id: id_of(raw)?, lost: OnceBox::new() })
    }

    /// Makes the context current on this thread while the result lives.
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
        Entered::new(self.raw.0, |code| self.check(code, "its context cannot be used"))
    }

    /// Whether the context is still the one that it was. The driver pushes one that was destroyed or reset without an
    /// error, and crashes at the next call; but it knows that such a one has no number, or another.
    pub(super) fn exists(&self) -> bool {
        id_of(self.raw.0).is_ok_and(|id| id == self.id)
    }

    /// An error of this GPU unless `code` is success; `what` says what could not be done. Marks the
    /// context as lost where nothing can be done any more.
    pub(super) fn check(&self, code: CUresult, what: impl Display) -> Result<()> {
        let Gpu { ordinal, name, .. } = self.gpu;
        check(code, format_args!("GPU {ordinal} ({name}): {what}")).inspect_err(|error| {
            if is_fatal(code) {
                let lost = Error::device(format!("{error}; this process cannot use the GPU any more"));
                // Somebody else may have noticed it first.
                let _ = self.lost.set(Box::new(lost));
            }
        })
    }

    /// Why nothing can be done any more, if so.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// To be called when waiting for a copy has failed, before its memory is used for anything else: nobody knows
    /// whether the copy goes on, so this waits for all work of the context. If that fails too, it is lost, and nothing
    /// goes on.
    pub(super) fn settle(&self) {
        if let Ok(_entered) = self.enter() {
            // SAFETY: the context is current.
            let result = self.check(unsafe { sys::cuCtxSynchronize() }, "its work does not end");
            if let Err(error) = result {
                let _ = self.lost.set(Box::new(error));
            }
        }
    }
}

/// CUDA's number of a context.
pub(super) fn id_of(context: CUcontext) -> Result<u64> {
    let mut id = 0;
    // SAFETY: writes one integer; the driver answers with an error for a context that was destroyed.
    check(unsafe { sys::cuCtxGetId(context, &raw mut id) }, "a CUDA context has no number")?;
    Ok(id)
}

/// The context is current on this thread.
#[derive(Debug)]
pub struct Entered {
    is_pushed: bool,
    /// It is so on this thread only.
    thread: PhantomData<*const ()>,
}

impl Entered {
    /// Makes `context` current, unless it is; `check` tells what came of it.
    pub(super) fn new(context: CUcontext, check: impl FnOnce(CUresult) -> Result<()>) -> Result<Self> {
        let is_pushed = probe::current_context() != Some(context);
        if is_pushed {
            // SAFETY: a context of this process that exists.
            check(unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        }
        Ok(Self { is_pushed, thread: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_pushed {
            let mut former = ptr::null_mut();
            // SAFETY: undoes the push on the same thread. An error can be neither told nor helped.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut former) };
        }
    }
}
