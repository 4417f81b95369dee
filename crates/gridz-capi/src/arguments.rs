//! Arguments that several functions have: the array, the options, the missing
//! elements, and the number of bytes of the result.
#![allow(unsafe_code, reason = "reads what C's pointers point to, by `ptr`")]

use std::ffi::c_void;

use crate::convert;
use crate::ptr::{self, Out};
use crate::types::{GRIDZ_BYTE_ORDER_NATIVE, GRIDZ_DTYPE_OPAQUE, gridz_array, gridz_dtype, gridz_options};
use gridz::{Context, MAX_FILLS, MissingElements, Request, Verify};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::types::Array;

/// Options, converted for the engine.
pub struct Options<'a> {
    pub request: Request,
    pub verify: Verify,
    pub context: &'a Context,
}

impl<'a> Options<'a> {
    /// Reads the options, and the fill values and valid range for `array` if it is given.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    pub unsafe fn read(from: *const gridz_options, array: Option<&Array>) -> Result<Self> {
        // SAFETY: the caller's promise.
        let c = unsafe { ptr::read_options(from)? };
        // SAFETY: the caller's promise, for what the struct points to.
        let (text, context) = unsafe { (ptr::text(c.request), ptr::context(c.context)) };
        let (mut request, verify) = (convert::request(text)?, convert::verify(&c)?);
        if let Some(array) = array.filter(|_| request.wants_missing()) {
            // SAFETY: the caller's promise, for elements of the array's type.
            let missing =
                unsafe { read_missing(array, c.fill_value, c.n_fill_values, [c.valid_min, c.valid_max])? };
            request = request.with_elements(array, &missing)?;
        }
        Ok(Self { request, verify, context })
    }
}

/// Reads an array description and the options for compressing it.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub unsafe fn read_both<'a>(
    array: *const gridz_array,
    options: *const gridz_options,
) -> Result<(Array, Options<'a>)> {
    // SAFETY: the caller's promise.
    unsafe {
        let array = read_array(array)?;
        Ok((array, Options::read(options, Some(&array))?))
    }
}

/// An array of numbers in this machine's byte order, for the functions without structs.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub unsafe fn plain_array(dtype: gridz_dtype, rank: u32, extents: *const u64) -> Result<Array> {
    if dtype == GRIDZ_DTYPE_OPAQUE {
        return Err(Error::invalid(
            "dtype is GRIDZ_DTYPE_OPAQUE, which this function does not support; use gridz_compress or gridz_decompress",
        ));
    }
    let c =
        gridz_array { struct_size: 0, dtype, byte_order: GRIDZ_BYTE_ORDER_NATIVE, element_size: 0, rank, extents };
    // SAFETY: the caller's promise.
    let extents = unsafe { ptr::extents("extents", extents, rank)? };
    convert::array(&c, &extents)
}

/// Reads an array description.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub unsafe fn read_array(from: *const gridz_array) -> Result<Array> {
    // SAFETY: the caller's promise.
    let c = unsafe { ptr::read(from)? };
    // SAFETY: the caller's promise, for what the struct points to.
    let extents = unsafe { ptr::extents("extents", c.extents, c.rank)? };
    convert::array(&c, &extents)
}

/// Reads the missing elements: consecutive fill values, and the limits of the valid range.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub unsafe fn read_missing(
    array: &Array,
    fill_value: *const c_void,
    n_fill_values: usize,
    [valid_min, valid_max]: [*const c_void; 2],
) -> Result<MissingElements> {
    let size = array.element_size() as usize;
    let mut missing = MissingElements::none(size as u64);
    if n_fill_values > 0 && fill_value.is_null() {
        let text = format!("n_fill_values is {n_fill_values}, but fill_value is NULL; set both, or neither");
        return Err(Error::invalid(text));
    }
    if n_fill_values > MAX_FILLS {
        let text = format!(
            "n_fill_values is {n_fill_values}; at most {MAX_FILLS} are supported; pass fewer, or use a lossless \
             codec"
        );
        return Err(Error::invalid(text));
    }
    // SAFETY: the caller's promise.
    let fills = unsafe { ptr::optional_bytes("fill_value", fill_value, n_fill_values.max(1) * size)? };
    for fill in fills.into_iter().flat_map(|fills| fills.chunks_exact(size)) {
        missing.add(fill)?;
    }
    for (which, (name, from)) in [("valid_min", valid_min), ("valid_max", valid_max)].into_iter().enumerate() {
        // SAFETY: the caller's promise.
        if let Some(limit) = unsafe { ptr::optional_bytes(name, from, size)? } {
            missing.set_limit(which, limit)?;
        }
    }
    Ok(missing)
}

/// Writes the number of written bytes or, on `DstTooSmall`, the number of needed bytes to
/// `n_bytes`.
pub fn deliver(result: Result<usize>, n_bytes: Out<usize>) -> Result<()> {
    match result {
        Ok(written) => n_bytes.write(written),
        Err(error) => {
            if let ErrorKind::DstTooSmall { need } = error.kind() {
                n_bytes.write(need as usize);
            }
            return Err(error);
        }
    }
    Ok(())
}
