//! The functions of `gridz.h` that look at values: what came back beside the original, and the range of an array.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::engine::{Context, MissingElements};
use crate::error::{Error, Result};
use crate::ffi::api::read_array;
use crate::ffi::convert;
use crate::ffi::guard::{guard, guard_or};
use crate::ffi::ptr::{self, Out, OutStruct};
use crate::ffi::status::gridz_status;
use crate::ffi::types::{gridz_array, gridz_quality_options, gridz_quality_report};
use crate::quality::{self, Bound};
use crate::types::Array;

/// Compares an array with its original, into `*report`, whose `struct_size` the caller has set: the largest errors and
/// where they are, whether they keep a bound, and the figures that codecs are compared by.
///
/// `original` and `decoded` are two arrays such as `array` says, of `original_bytes` and `decoded_bytes` bytes, which are the
/// same number, in host memory; any codec may have made the second one. Elements that are not finite, or missing, in one of
/// them count in the mismatches only. Working memory is less than 1 MiB for each thread that works. The report
/// does not depend on the number of threads.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements, for `GRIDZ_MODE_PWREL` with integers, for modes that
/// bound no single error, and for memory of a GPU, `OUT_OF_MEMORY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_quality(
    array: *const gridz_array,
    original: *const c_void,
    original_bytes: usize,
    decoded: *const c_void,
    decoded_bytes: usize,
    report: *mut gridz_quality_report,
    options: *const gridz_quality_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (report, array, original, decoded) = unsafe {
            (
                OutStruct::new(report)?,
                read_array(array)?,
                ptr::host_bytes("original", original, original_bytes)?,
                ptr::host_bytes("decoded", decoded, decoded_bytes)?,
            )
        };
        // SAFETY: the same promises.
        let Asked { bound, missing, context } = unsafe { Asked::read(options, &array)? };
        let of_process = Context::default();
        let found = quality::compare(&array, original, decoded, bound, &missing, context.unwrap_or(&of_process))?;
        let struct_size = report.n_bytes();
        report.write(&convert::quality_report(&found, struct_size));
        Ok(())
    })
}

/// Finds the smallest and the largest number of an array, in order to make a bound of the range, or to put those of several
/// processes together (of all minima the smallest, of all maxima the largest).
///
/// `data` is an array such as `array` says, of `data_bytes` bytes, in host memory. Elements that are not finite, or missing, do not
/// count. 64-bit integers that a double cannot hold are rounded to inside of the range, where `*minimum` may become larger than
/// `*maximum`. Without any numbers `*minimum` is
/// infinity and `*maximum` minus infinity. Of the options `mode` and `value` are 0.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements and for memory of a GPU, `OUT_OF_MEMORY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_range(
    array: *const gridz_array,
    data: *const c_void,
    data_bytes: usize,
    minimum: *mut f64,
    maximum: *mut f64,
    options: *const gridz_quality_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (minimum, maximum, array, data) = unsafe {
            (
                Out::new("minimum", minimum)?,
                Out::new("maximum", maximum)?,
                read_array(array)?,
                ptr::host_bytes("data", data, data_bytes)?,
            )
        };
        // SAFETY: the same promises.
        let Asked { bound, missing, context } = unsafe { Asked::read(options, &array)? };
        if bound != Bound::None {
            return Err(Error::invalid("mode and value mean nothing here; set them to 0"));
        }
        let of_process = Context::default();
        let [least, most] = quality::range(&array, data, &missing, context.unwrap_or(&of_process))?;
        minimum.write(least);
        maximum.write(most);
        Ok(())
    })
}

/// `value` times the range from `minimum` to `maximum`, rounded down: the absolute bound (`GRIDZ_MODE_ABS`) that keeps all errors
/// within `value` times the range. 0, which no codec takes for a bound, if there is no range (all numbers are the same, or there are
/// none) or one of the three is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_relative_bound(minimum: f64, maximum: f64, value: f64) -> f64 {
    guard_or(0.0, || quality::relative_bound([minimum, maximum], value))
}

/// What the options say.
struct Asked<'a> {
    bound: Bound,
    missing: MissingElements,
    context: Option<&'a Context>,
}

impl Asked<'_> {
    /// With the missing elements of an array.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn read(from: *const gridz_quality_options, array: &Array) -> Result<Self> {
        // SAFETY: the same promise.
        let Some(c) = (unsafe { ptr::read_optional(from)? }) else {
            let missing = MissingElements::none(array.element_size().into());
            return Ok(Self { bound: Bound::None, missing, context: None });
        };
        let limits = [c.valid_min, c.valid_max];
        // SAFETY: the same promise, for what the struct points to.
        let (missing, context) =
            unsafe { (ptr::missing(array, c.fill_value, c.n_fill_values, limits)?, ptr::context(c.context)) };
        Ok(Self { bound: convert::bound(&c)?, missing, context: context.map(|context| &context.0) })
    }
}
