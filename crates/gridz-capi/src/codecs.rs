//! Functions of `gridz.h` that list the codecs.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_char;
use std::ptr;

use crate::convert;
use crate::guard::{guard, guard_or};
use crate::ptr::OutStruct;
use crate::status::gridz_status;
use crate::types::gridz_codec;

/// Returns the number of codecs in this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_count() -> usize {
    guard_or(0, convert::codec_count)
}

/// Returns the name of the codec at `index`, or NULL if `index` is not below `gridz_codec_count()`.
/// Valid for the lifetime of the process. Unlike `gridz_codec_info`, this never initializes the GPU
/// driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_name(index: usize) -> *const c_char {
    guard_or(ptr::null(), || convert::codec_name(index))
}

/// Describes the codec at `index`, which is below `gridz_codec_count()`, in `*codec`, whose
/// `struct_size` the caller has set. The first codec is always `"stored"`. The pointers in `*codec`
/// are valid for the lifetime of the process.
///
/// In a library with CUDA kernels this loads the driver and queries the GPUs, as every call does
/// that uses a GPU. A process forked afterwards cannot use GPUs.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_info(index: usize, codec: *mut gridz_codec) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let codec = unsafe { OutStruct::new(codec)? };
        codec.write(&convert::codec(index)?);
        Ok(())
    })
}
