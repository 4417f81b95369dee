//! The functions of `gridz.h` that list the codecs.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_char;
use std::ptr;

use crate::ffi::convert;
use crate::ffi::guard::{guard, guard_or};
use crate::ffi::ptr::OutStruct;
use crate::ffi::status::gridz_status;
use crate::ffi::types::gridz_codec;

/// How many codecs this library has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_count() -> usize {
    guard_or(0, convert::codec_count)
}

/// The name of the codec at `index`, or NULL if `index` is not below `gridz_codec_count()`. Lives as long as the process.
/// Unlike `gridz_codec_info` it asks for nothing, in particular not for GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_name(index: usize) -> *const c_char {
    guard_or(ptr::null(), || convert::codec_name(index))
}

/// Describes the codec at `index`, which is below `gridz_codec_count()`, in `*codec`, whose `struct_size` the caller
/// has set. The first one is always `"stored"`. What `*codec` points to lives as long as the process. In a library with
/// CUDA kernels the driver is loaded and asked for GPUs, as by other calls that use one: a process forked afterwards
/// has none.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_info(index: usize, codec: *mut gridz_codec) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let codec = unsafe { OutStruct::new(codec)? };
        let struct_size = codec.n_bytes();
        codec.write(&convert::codec(index, struct_size)?);
        Ok(())
    })
}
