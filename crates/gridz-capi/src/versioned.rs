//! Structs of the API in older and newer versions. Each begins with its size in the caller's
//! version, so that programs and libraries of different versions work together.
#![allow(unsafe_code, reason = "makes structs of bytes")]

use std::mem::MaybeUninit;

use crate::batch::gridz_batch;
use crate::cci_types::{gridz_cci_info, gridz_csr};
use crate::hdf5_types::{gridz_h5_options, gridz_h5_part_info};
use crate::progressive::gridz_part_info;
use crate::quality::{gridz_block_counts, gridz_quality_options, gridz_quality_report};
use crate::types::{gridz_array, gridz_codec, gridz_context_options, gridz_frame_info, gridz_options};
use gridz_codecs::error::{Error, Result};

/// A struct of the API that begins with `size_t struct_size`.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize`, has no padding on 64-bit machines, and all its
/// values are valid for any bit pattern.
pub unsafe trait Versioned: Copy {
    /// Name of the type in C.
    const NAME: &'static str;
    /// Size in the first library version that had the struct: the smallest valid `struct_size`.
    const FIRST_BYTES: usize;
}

macro_rules! versioned {
    ($($type:ident: $first_bytes:expr),* $(,)?) => {
        $(
            // SAFETY: integers, floats and raw pointers in `repr(C)`, `struct_size` first.
            unsafe impl Versioned for $type {
                const NAME: &'static str = stringify!($type);
                const FIRST_BYTES: usize = $first_bytes;
            }
        )*
    };
}

versioned! {
    gridz_array: size_of::<gridz_array>(),
    gridz_batch: size_of::<gridz_batch>(),
    gridz_options: size_of::<gridz_options>(),
    gridz_context_options: size_of::<gridz_context_options>(),
    gridz_frame_info: 312,
    gridz_part_info: size_of::<gridz_part_info>(),
    gridz_block_counts: 96,
    gridz_codec: size_of::<gridz_codec>(),
    gridz_quality_options: size_of::<gridz_quality_options>(),
    gridz_quality_report: size_of::<gridz_quality_report>(),
    gridz_h5_options: size_of::<gridz_h5_options>(),
    gridz_h5_part_info: size_of::<gridz_h5_part_info>(),
    gridz_csr: size_of::<gridz_csr>(),
    gridz_cci_info: size_of::<gridz_cci_info>(),
}

/// Upper limit of `struct_size`: no struct of the API will ever be larger.
const MAX_STRUCT_BYTES: usize = 4096;

/// Checks the `struct_size` of a struct.
///
/// # Errors
/// `InvalidArgument` if the struct has that size in no version.
pub fn check_size<T: Versioned>(n_bytes: usize) -> Result<()> {
    let (name, first) = (T::NAME, T::FIRST_BYTES);
    if !(first..=MAX_STRUCT_BYTES).contains(&n_bytes) {
        let text =
            format!("struct_size of {name} is {n_bytes}; set it to sizeof({name}), which is at least {first}");
        return Err(Error::invalid(text));
    }
    Ok(())
}

/// The struct that has `bytes` in the caller's version. Fields that the caller's version lacks
/// become zero.
///
/// # Errors
/// `InvalidArgument` if fields are set that this library does not know.
pub fn from_bytes<T: Versioned>(bytes: &[u8]) -> Result<T> {
    let known = size_of::<T>();
    if bytes.iter().skip(known).any(|&byte| byte != 0) {
        return Err(Error::invalid(format!(
            "a {} of {} bytes sets fields that gridz {} does not support: the program was compiled with a newer \
             header; leave these fields zero or install a newer gridz",
            T::NAME,
            bytes.len(),
            gridz_codecs::VERSION
        )));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: both have that many bytes, and only this function uses `value`.
    unsafe { value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len().min(known)) };
    // SAFETY: every byte is initialized, and all values of a `Versioned` are valid.
    Ok(unsafe { value.assume_init() })
}
