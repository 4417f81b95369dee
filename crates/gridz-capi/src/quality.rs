//! Functions of `gridz.h` that examine values: errors relative to the original, and the range of an
//! array.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::{read_array, read_missing};
use crate::convert;
use crate::guard::{guard, guard_or};
use crate::ptr::{self, Out, OutStruct};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_quality_options, gridz_quality_report};
use gridz::{Context, MissingElements};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::Array;
use gridz_quality::{self, Bound};

/// Compares an array with its original. Writes the largest errors and their positions, whether a
/// bound is kept, and the usual quality figures to `*report`, whose `struct_size` the caller has
/// set.
///
/// `original` and `decoded` are two arrays like `array` in host memory, of equal `original_bytes`
/// and `decoded_bytes`. Any codec may have produced `decoded`. Elements that are not finite, or
/// missing, in one of them count only in the mismatches. Working memory is less than 1 MiB for each
/// working thread. The report does not depend on the number of threads.
///
/// Errors: `INVALID_ARGUMENT`; `UNSUPPORTED_JOB` for opaque elements, for `GRIDZ_MODE_PWREL` with
/// integers, for modes that do not bound each error, and for GPU memory; `OUT_OF_MEMORY`.
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
        let found = gridz_quality::compare(&array, original, decoded, bound, &missing, context)?;
        report.write(&convert::quality_report(&found));
        Ok(())
    })
}

/// Finds the smallest and the largest number of an array. Use it to compute a bound relative to the
/// range, or to combine the ranges of several processes: the smallest minimum and the largest
/// maximum.
///
/// `data` is an array like `array` of `data_bytes` bytes, in host memory. Elements that are not
/// finite, or missing, do not count. Without any numbers `*minimum` is infinity and `*maximum`
/// minus infinity. 64-bit integers that a double cannot represent are rounded toward the inside of
/// the range, so `*minimum` may exceed `*maximum`. `mode` and `value` of the options must be 0.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements and for GPU memory,
/// `OUT_OF_MEMORY`.
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
            return Err(Error::invalid("mode and value are not used by gridz_range; set them to 0"));
        }
        let [least, most] = gridz_quality::range(&array, data, &missing, context)?;
        minimum.write(least);
        maximum.write(most);
        Ok(())
    })
}

/// Returns `value` times the range from `minimum` to `maximum`, rounded down: the absolute bound
/// (`GRIDZ_MODE_ABS`) that keeps all errors within `value` times the range.
///
/// Returns 0, which no codec accepts as a bound, if an argument is not finite or the range is
/// empty: all numbers are equal, or there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_relative_bound(minimum: f64, maximum: f64, value: f64) -> f64 {
    guard_or(0.0, || gridz_quality::relative_bound([minimum, maximum], value))
}

/// Options, converted from C.
struct Asked<'a> {
    bound: Bound,
    missing: MissingElements,
    context: &'a Context,
}

impl Asked<'_> {
    /// Reads the options, and the fill values and valid range for `array`.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn read(from: *const gridz_quality_options, array: &Array) -> Result<Self> {
        // SAFETY: the caller's promise.
        let c = unsafe { ptr::read_options(from)? };
        let limits = [c.valid_min, c.valid_max];
        // SAFETY: the caller's promise, for what the struct points to.
        let (missing, context) =
            unsafe { (read_missing(array, c.fill_value, c.n_fill_values, limits)?, ptr::context(c.context)) };
        Ok(Self { bound: convert::bound(&c)?, missing, context })
    }
}
