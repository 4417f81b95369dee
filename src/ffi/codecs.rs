//! The functions of `gridz.h` about codecs: what there is, and how a request is written.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_char;

use crate::ffi::convert;
use crate::ffi::guard::{guard, guard_or};
use crate::ffi::ptr::{self, OutStruct};
use crate::ffi::status::gridz_status;
use crate::ffi::types::{gridz_codec, gridz_options};

/// How many codecs this library has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_count() -> usize {
    guard_or(0, convert::codec_count)
}

/// Describes the codec at `index`, which is below `gridz_codec_count()`, in `*codec`, whose `struct_size` the caller has
/// set. The first one is always `"stored"`. What `*codec` points to lives as long as the process.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_codec_info(index: usize, codec: *mut gridz_codec) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let codec = unsafe { OutStruct::new(codec)? };
        let struct_size = codec.n_bytes();
        codec.write(&convert::codec(index, struct_size)?);
        Ok(())
    })
}

/// Reads a request in text form into the fields `codec`, `mode`, `value` and `level` of `*options`, whose `struct_size`
/// the caller has set; the other fields stay as they are.
///
/// The text is the name of a codec, then, if they are not the defaults, a mode with its value and a level by name or
/// number: `"lorenzo"`, `"lorenzo,level=dense"`, and of a codec that keeps an error bound `"NAME,abs=1e-3,level=2"`.
/// Options that were made so are what `gridz_compress` takes; it does not matter how they came about.
///
/// Errors: `INVALID_ARGUMENT` and `UNSUPPORTED_JOB`, with what is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_parse_options(text: *const c_char, options: *mut gridz_options) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (text, to, old) = unsafe { (ptr::text(text), OutStruct::new(options)?, ptr::read(options)?) };
        to.write(&convert::parsed(text, &old)?);
        Ok(())
    })
}
