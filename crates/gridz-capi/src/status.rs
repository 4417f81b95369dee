//! Status codes, in families of a hundred. A number is never changed or reused.

use std::ffi::CStr;

use gridz_codecs::error::ErrorKind;

/// Return value of a function: `GRIDZ_OK` or one of the `GRIDZ_ERROR_*` codes.
///
/// 1xx: invalid call. 2xx: invalid data. 3xx: failure of the machine. 4xx: failure of another
/// library. 9xx: defect of gridz. Later versions may add codes; handle an unknown code by its
/// family.
pub type gridz_status = i32;

/// Success.
pub const GRIDZ_OK: i32 = 0;
/// An argument, option or environment variable has a value that no version of gridz accepts.
pub const GRIDZ_ERROR_INVALID_ARGUMENT: i32 = 100;
/// The destination is too small. `*dst_bytes` is the needed size.
pub const GRIDZ_ERROR_DST_TOO_SMALL: i32 = 101;
/// A valid request that this version of gridz or the chosen codec does not support.
pub const GRIDZ_ERROR_UNSUPPORTED_JOB: i32 = 102;
/// A callback of the caller canceled the call.
pub const GRIDZ_ERROR_CANCELLED: i32 = 103;
/// The bytes are not a frame, or were damaged after they were written.
pub const GRIDZ_ERROR_CORRUPT: i32 = 200;
/// The bytes are the beginning of a frame whose end is missing.
pub const GRIDZ_ERROR_TRUNCATED: i32 = 201;
/// A valid frame of a format or codec version that this gridz does not read, often a newer one.
pub const GRIDZ_ERROR_UNSUPPORTED_FORMAT: i32 = 202;
/// Memory allocation failed, or the memory limit of the context forbids it.
pub const GRIDZ_ERROR_OUT_OF_MEMORY: i32 = 300;
/// The GPU or its driver is missing, too old, or failed.
pub const GRIDZ_ERROR_DEVICE: i32 = 301;
/// Another library failed to do something that gridz needs from it.
pub const GRIDZ_ERROR_HOST: i32 = 400;
/// A defect of gridz. The error text says what to report.
pub const GRIDZ_ERROR_INTERNAL: i32 = 900;

/// Defined twice, here and in [`ErrorKind::status`], because cbindgen needs literals.
const _: () = {
    assert!(ErrorKind::InvalidArgument.status() == GRIDZ_ERROR_INVALID_ARGUMENT);
    assert!(ErrorKind::DstTooSmall { need: 0 }.status() == GRIDZ_ERROR_DST_TOO_SMALL);
    assert!(ErrorKind::UnsupportedJob.status() == GRIDZ_ERROR_UNSUPPORTED_JOB);
    assert!(ErrorKind::Cancelled.status() == GRIDZ_ERROR_CANCELLED);
    assert!(ErrorKind::Corrupt.status() == GRIDZ_ERROR_CORRUPT);
    assert!(ErrorKind::Truncated.status() == GRIDZ_ERROR_TRUNCATED);
    assert!(ErrorKind::UnsupportedFormat.status() == GRIDZ_ERROR_UNSUPPORTED_FORMAT);
    assert!(ErrorKind::OutOfMemory.status() == GRIDZ_ERROR_OUT_OF_MEMORY);
    assert!(ErrorKind::Device.status() == GRIDZ_ERROR_DEVICE);
    assert!(ErrorKind::Host.status() == GRIDZ_ERROR_HOST);
    assert!(ErrorKind::Internal.status() == GRIDZ_ERROR_INTERNAL);
};

/// Name of a code, spelled as in C.
pub(super) fn name(status: gridz_status) -> &'static CStr {
    match status {
        GRIDZ_OK => c"GRIDZ_OK",
        GRIDZ_ERROR_INVALID_ARGUMENT => c"GRIDZ_ERROR_INVALID_ARGUMENT",
        GRIDZ_ERROR_DST_TOO_SMALL => c"GRIDZ_ERROR_DST_TOO_SMALL",
        GRIDZ_ERROR_UNSUPPORTED_JOB => c"GRIDZ_ERROR_UNSUPPORTED_JOB",
        GRIDZ_ERROR_CANCELLED => c"GRIDZ_ERROR_CANCELLED",
        GRIDZ_ERROR_CORRUPT => c"GRIDZ_ERROR_CORRUPT",
        GRIDZ_ERROR_TRUNCATED => c"GRIDZ_ERROR_TRUNCATED",
        GRIDZ_ERROR_UNSUPPORTED_FORMAT => c"GRIDZ_ERROR_UNSUPPORTED_FORMAT",
        GRIDZ_ERROR_OUT_OF_MEMORY => c"GRIDZ_ERROR_OUT_OF_MEMORY",
        GRIDZ_ERROR_DEVICE => c"GRIDZ_ERROR_DEVICE",
        GRIDZ_ERROR_HOST => c"GRIDZ_ERROR_HOST",
        GRIDZ_ERROR_INTERNAL => c"GRIDZ_ERROR_INTERNAL",
        _ => c"unknown gridz_status",
    }
}
