//! The functions of `gridz.h` that turn requests in text form into cd_values of the HDF5 filter, and cd_values into text.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::engine::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::ffi::guard::guard;
use crate::ffi::ptr::{self, Out};
use crate::ffi::status::gridz_status;
use crate::hdf5::cd::{self, Values};

/// Turns a request in text form, such as `"lorenzo,level=dense"` or `"szp,abs=1e-3"`, into what `H5Pset_filter`, h5repack's
/// UD and `nc_def_var_filter` take: `*n_values` cd_values, for which `values` has room for `capacity` (64 are always enough).
///
/// Fill values and the valid range of the text are among them; the filter adds the fill value of the dataset's property list.
/// h5repack takes 20 values at most; requests with more than four fill values and limits may have more.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `DST_TOO_SMALL` with the needed capacity in `*n_values`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cd_values(
    request: *const c_char,
    values: *mut u32,
    capacity: usize,
    n_values: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (request, room, n_values) = unsafe {
            (ptr::text(request), ptr::room("values", values, capacity)?, Out::new("n_values", n_values)?)
        };
        let request = request.ok_or_else(|| Error::invalid("request is NULL; give its text".to_owned()))?;
        let text = request.to_str().map_err(|_| Error::invalid("the request is no UTF-8".to_owned()))?;
        let request: Request = text.parse()?;
        copy(&cd::user_words(&request), room, n_values)
    })
}

/// Turns cd_values of the filter, a user's or those stored with a dataset, into a request in text form. The text ends with a
/// 0 byte, and with it has at most `capacity` bytes, for which there is room at `text`; `*text_bytes` becomes how many they
/// are. 1024 are enough for all codecs of this version.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `CORRUPT`, `UNSUPPORTED_FORMAT` for values of a later version,
/// `DST_TOO_SMALL` with the needed bytes in `*text_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_cd_text(
    values: *const u32,
    n_values: usize,
    text: *mut c_char,
    capacity: usize,
    text_bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (values, room, text_bytes) = unsafe {
            (
                ptr::words("values", values, n_values)?,
                ptr::room("text", text.cast::<u8>(), capacity)?,
                Out::new("text_bytes", text_bytes)?,
            )
        };
        let request = Values::parse(values)?.request()?;
        copy(format!("{request}\0").as_bytes(), room, text_bytes)
    })
}

/// Copies all of `from` and tells how much that is, also where there is no room.
fn copy<T: Copy>(from: &[T], to: &mut [MaybeUninit<T>], n: Out<usize>) -> Result<()> {
    n.write(from.len());
    let (need, have) = (from.len(), to.len());
    let Some(to) = to.get_mut(..need) else {
        let text = format!("{need} elements of {} bytes do not fit into {have}", size_of::<T>());
        return Err(Error::new(ErrorKind::DstTooSmall { need: need as u64 }, text));
    };
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
    Ok(())
}
