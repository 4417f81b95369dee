//! `gridz_quality.h`: errors of arrays relative to their originals, the range of an array, and the
//! coding of blocks.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::{read_array, read_missing};
use crate::convert;
use crate::guard::{guard, guard_or};
use crate::ptr::{self, Out, OutStruct};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_context, gridz_mode};
use gridz::{Context, MissingElements};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::Array;
use gridz_quality::{self, Bound};

/// Options of `gridz_quality` and `gridz_range`. Zero in all fields except `struct_size` means no
/// bound and no missing elements. So does NULL in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_quality_options {
    /// `sizeof(gridz_quality_options)`.
    pub struct_size: usize,
    /// Threads. NULL = the worker threads of the process.
    pub context: *const gridz_context,
    /// Meaning of `value`: `GRIDZ_MODE_ABS`, `GRIDZ_MODE_REL` or `GRIDZ_MODE_PWREL`.
    /// `GRIDZ_MODE_LOSSLESS` = no bound.
    pub mode: gridz_mode,
    /// Must be 0.
    pub reserved: u32,
    /// The bound, as `mode` defines it. 0 for `GRIDZ_MODE_LOSSLESS`.
    pub value: f64,
    /// Fill values, which mark elements without data. They are `n_fill_values` consecutive elements
    /// of the array's type, size and byte order, in host memory. NULL = none. Read during the call
    /// only.
    pub fill_value: *const c_void,
    /// Number of fill values, at most 8. 0 = one, if `fill_value` is not NULL.
    pub n_fill_values: usize,
    /// Smallest valid number. Elements below it, or above `valid_max`, are treated like fill
    /// values. Both point to one element of the array's type, size and byte order, in host memory.
    /// NULL = no limit.
    pub valid_min: *const c_void,
    /// Largest valid number. See `valid_min`.
    pub valid_max: *const c_void,
}

/// Differences between an array and its original.
///
/// "Numbers" are elements; a complex element is two numbers, its parts. An index is the index of an
/// element in C order; the first one counts if errors are equal. A figure is NaN if it is
/// undefined: without numbers, with a range of 0, or with too few axes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_quality_report {
    /// `sizeof(gridz_quality_report)`, set by the caller.
    pub struct_size: usize,
    /// Elements of the array.
    pub elements: u64,
    /// Numbers that are finite and not missing in both arrays. All figures below, except the three
    /// mismatches, are computed from these.
    pub numbers: u64,
    /// Elements that are missing (fill values or outside the valid range) in one array and not
    /// identical in the other.
    pub fill_mismatches: u64,
    /// Numbers that are NaN in one array and not bit-identical in the other.
    pub nan_mismatches: u64,
    /// Numbers that are infinite in one array and not the same infinity in the other.
    pub infinity_mismatches: u64,
    /// Largest absolute error: the exact value, rounded to the nearest double.
    pub largest_error: f64,
    /// Exact largest absolute error minus `largest_error`, so that the sum of both is exact. It is
    /// 0 unless elements have more bits than a double, or magnitudes that are far apart.
    pub largest_error_rest: f64,
    /// Index of the element with the largest absolute error. `UINT64_MAX` if there are no numbers.
    pub largest_error_index: u64,
    /// Largest error divided by the magnitude of the original number. Infinite if a zero became
    /// another number.
    pub largest_relative_error: f64,
    /// Index of the element with the largest relative error. `UINT64_MAX` if there are no numbers.
    pub largest_relative_error_index: u64,
    /// Bound on the absolute error: `value` for `GRIDZ_MODE_ABS`; `value` × `range`, rounded down,
    /// for `GRIDZ_MODE_REL`; NaN for the other modes.
    pub bound: f64,
    /// Largest error divided by the bound. It is above 1 if and only if an error exceeds the bound
    /// in exact arithmetic. NaN without a bound.
    pub error_over_bound: f64,
    /// Smallest number of the original.
    pub minimum: f64,
    /// Largest number of the original.
    pub maximum: f64,
    /// `maximum` − `minimum`.
    pub range: f64,
    /// Square root of the sum of all squared errors.
    pub l2_error: f64,
    /// Root mean square error.
    pub rmse: f64,
    /// `rmse` / `range`.
    pub nrmse: f64,
    /// Peak signal-to-noise ratio, 20 log10(`range` / `rmse`), in dB. Infinite if all errors are 0.
    pub psnr: f64,
    /// Pearson's correlation coefficient.
    pub correlation: f64,
    /// Mean structural similarity (SSIM) of all planes along the last two axes of extent above 1.
    /// The windows are squares of 7 × 7 numbers of equal weight, at every position where they fit
    /// and contain no excluded element. K1 = 0.01, K2 = 0.03, L = `range`, and sample variances.
    /// These are the defaults of scikit-image.
    pub ssim_2d: f64,
    /// Mean structural similarity of all volumes along the last three axes of extent above 1, with
    /// cubes of 7 × 7 × 7 numbers.
    pub ssim_3d: f64,
}

/// Numbers of blocks by coding. Codecs that divide an array into blocks choose a coding for each
/// block.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_block_counts {
    /// `sizeof(gridz_block_counts)`, set by the caller.
    pub struct_size: usize,
    /// All blocks.
    pub all: u64,
    /// Blocks that store their elements verbatim.
    pub raw: u64,
    /// Blocks that store a single value for all elements.
    pub constant: u64,
    /// Blocks of integers that are bit-packed with fixed widths.
    pub packed: u64,
    /// Blocks of integers that are entropy-coded.
    pub entropy: u64,
    /// Of the `packed`, `entropy` and `sparse` blocks: those that represent floats as multiples of
    /// a power of two.
    pub fixed_point: u64,
    /// Of the `packed` blocks: those that index a dictionary of their values.
    pub dictionary: u64,
    /// Blocks that store only their nonzero integers.
    pub sparse: u64,
    /// Of the `packed`, `entropy` and `sparse` blocks: those that represent floats as decimal
    /// fractions, that is multiples of a power of ten.
    pub decimal: u64,
    /// Of the `packed`, `entropy` and `sparse` blocks: those that leave out all elements with one
    /// frequent value, such as a fill value.
    pub masked: u64,
    /// Of the `packed`, `entropy` and `sparse` blocks: those that split floats at a power of two
    /// and store the lower bits verbatim.
    pub cut: u64,
    /// Elements (for complex types: parts of elements) that a codec with an error bound stores
    /// exactly, in blocks of several values. They are outliers that no code represents within the
    /// bound, fill values, infinities and NaNs.
    pub exact: u64,
}

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

/// Counts the blocks of a frame by coding and compares them with their checksums. Writes `*counts`,
/// whose `struct_size` the caller has set. The frame may be in GPU memory.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for codecs with one kind of block, `CORRUPT`,
/// `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect_blocks(
    frame: *const c_void,
    frame_bytes: usize,
    counts: *mut gridz_block_counts,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (counts, frame) = unsafe { (OutStruct::new(counts)?, ptr::source("frame", frame, frame_bytes)?) };
        counts.write(&convert::block_counts(&gridz::count_blocks(frame, &Context::default())?));
        Ok(())
    })
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
