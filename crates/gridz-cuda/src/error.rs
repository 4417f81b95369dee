//! Turns the driver's result codes into errors.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::ptr;

use crate::sys::{self, CUresult};

use gridz_codecs::error::{Error, Result};

/// Returns an error unless `code` is success; `what` describes the failed operation.
///
/// Exhausted device memory is `OutOfMemory`, everything else `Device`.
pub(super) fn check(code: CUresult, what: impl Display) -> Result<()> {
    if code == CUresult::SUCCESS {
        return Ok(());
    }
    let text = format!("{what}: {}", describe(code));
    Err(match code {
        CUresult::OUT_OF_MEMORY => Error::new(gridz_codecs::error::ErrorKind::OutOfMemory, text),
        _ => Error::device(text),
    })
}

/// True if the context is unusable after this error: every later call on it would fail, and the
/// output of kernels may be wrong.
pub(super) fn is_fatal(code: CUresult) -> bool {
    matches!(
        code.0,
        4            // the driver is shutting down
        | 46         // device unavailable
        | 201        // invalid context: the application has reset or destroyed it
        | 214        // uncorrectable memory error
        | 220..=222  // NVLink; MPS; contained memory error
        | 700        // illegal address
        | 702        // kernel timeout
        | 709        // context destroyed
        | 710        // assertion in a kernel
        | 714..=719  // stack, instruction, alignment, address space, program counter, launch failed (trap)
        | 721        // tensor memory leak
        | 999        // unknown
    )
}

/// Formats a code, for example `CUDA_ERROR_NOT_FOUND (named symbol not found)`.
fn describe(code: CUresult) -> String {
    let text = |get: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text = ptr::null();
        // SAFETY: the driver is loaded, since it returned a code; it writes a static string or
        // null.
        unsafe {
            get(code, &raw mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    match (text(sys::cuGetErrorName), text(sys::cuGetErrorString)) {
        (Some(name), Some(meaning)) => format!("{name} ({meaning})"),
        _ => format!("CUDA error {}", code.0),
    }
}
