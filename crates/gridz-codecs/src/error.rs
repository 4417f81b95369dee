//! The one error type, the message that a C caller reads back, and the guard that stops panics.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Kind of an error, by its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something that no version of gridz accepts.
    InvalidArgument,
    /// The bytes are not a frame, or were damaged after they were written.
    Corrupt,
    /// The bytes are the beginning of a frame; its end is missing.
    Truncated,
    /// A well-formed frame of a format, codec or type that this version does not know.
    UnsupportedFormat,
    /// A legal request that this version or this codec cannot carry out.
    UnsupportedJob,
    /// The destination is too small; `need` bytes would be enough.
    DstTooSmall {
        /// Bytes the destination must have.
        need: u64,
    },
    /// The caller canceled the call.
    Cancelled,
    /// Memory could not be allocated, or the context's memory limit forbids it.
    OutOfMemory,
    /// The GPU or its driver is missing, too old, or failed.
    Device,
    /// The host library (HDF5) refused something gridz needs from it.
    Host,
    /// A defect of gridz itself.
    Internal,
}

impl ErrorKind {
    /// The status code of this kind in the C API and in kernels. Each hundred is a family of codes;
    /// a code is never changed and never reused. 0 is success.
    pub const fn status(self) -> i32 {
        match self {
            Self::InvalidArgument => 100,
            Self::DstTooSmall { .. } => 101,
            Self::UnsupportedJob => 102,
            Self::Cancelled => 103,
            Self::Corrupt => 200,
            Self::Truncated => 201,
            Self::UnsupportedFormat => 202,
            Self::OutOfMemory => 300,
            Self::Device => 301,
            Self::Host => 400,
            Self::Internal => 900,
        }
    }

    /// The kind of a status code that a kernel reported. Kernels look at frames only, so only three
    /// kinds are possible.
    pub fn of_kernel(status: i32) -> Option<Self> {
        [Self::Corrupt, Self::Truncated, Self::UnsupportedFormat].into_iter().find(|kind| kind.status() == status)
    }
}

/// An error with a text for the user that must act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    context: Cow<'static, str>,
}

/// Result with gridz's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`; `context` describes the problem and, if possible, the remedy.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, context: context.into() }
    }

    /// The caller's mistake.
    pub fn invalid(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, context)
    }

    /// A legal request that cannot be fulfilled.
    pub fn unsupported(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::UnsupportedJob, context)
    }

    /// Damaged bytes.
    pub fn corrupt(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, context)
    }

    /// The GPU is missing or failed.
    pub fn device(context: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Device, context)
    }

    /// Memory for `what` could not be allocated.
    pub fn out_of_memory(bytes: u64, what: &str) -> Self {
        Self::new(ErrorKind::OutOfMemory, format!("{bytes} bytes of {what} could not be allocated"))
    }

    /// A defect of gridz itself. The text asks the user to report it.
    pub fn internal(context: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, format!("defect in gridz, please report it: {context}"))
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The text without the kind's name.
    pub fn context(&self) -> &str {
        &self.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Stores `error` as the calling thread's last error. If the thread's local variables are already
/// destroyed (at thread exit), the error is dropped.
pub fn set_last(error: &Error) {
    let text: Vec<u8> = error.context().bytes().filter(|&b| b != 0).collect();
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = CString::new(text).ok());
}

/// Calls `read` with the calling thread's last error, empty if there was none. The text is valid
/// until the next error of the same thread.
pub fn with_last<R>(read: impl Fn(&CStr) -> R) -> R {
    let kept = LAST_ERROR.try_with(|last| read(last.borrow().as_deref().unwrap_or(c"")));
    kept.unwrap_or_else(|_| read(c""))
}

/// Runs `body` and turns a panic into [`ErrorKind::Internal`]. Every entry point that C can call
/// uses this function, because a panic that reaches C aborts the host process.
pub fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    // Unwind safety: state behind our entry points is owned by the call, or lock-free and valid at
    // every step, or protected by a mutex. Holders of a mutex leave its state valid wherever they
    // may panic. So no inconsistent state is visible afterwards.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(from_panic(panic.as_ref())))
}

fn from_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::internal(text)
}

/// An empty vector with capacity for `n` items, or an error instead of an abort. `what` names the
/// items in the error text.
pub fn try_vec<T>(n: usize, what: &str) -> Result<Vec<T>> {
    let mut items = Vec::new();
    let bytes = (n as u64).saturating_mul(size_of::<T>() as u64);
    items.try_reserve_exact(n).map_err(|_| Error::out_of_memory(bytes, what))?;
    Ok(items)
}

/// Reserves capacity for `n` more items in a vector. `what` names the items in the error text.
///
/// # Errors
/// `OutOfMemory`.
pub fn try_reserve<T>(items: &mut Vec<T>, n: usize, what: &str) -> Result<()> {
    let bytes = (n as u64).saturating_mul(size_of::<T>() as u64);
    items.try_reserve(n).map_err(|_| Error::out_of_memory(bytes, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_text() {
        let error = guarded::<()>(|| panic!("block {} is odd", 3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.context().ends_with("block 3 is odd"), "{error}");
    }

    #[test]
    fn the_last_error_is_kept_without_nul_bytes() {
        with_last(|text| assert_eq!(text, c""));
        set_last(&Error::invalid("a\0b"));
        with_last(|text| assert_eq!(text, c"ab"));
    }
}
