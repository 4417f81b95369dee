//! Functions of `gridz.h` that make requests in text form, and convert them to cd_values of the HDF5
//! filter and back.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::convert;
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use crate::types::gridz_mode;
use gridz::Request;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_dataset::hdf5::cd::{self, Values};

/// Makes a request in text form from its parts, for `gridz_options.request` and `gridz_compress_nd`.
///
/// `codec` is the name of a codec, or NULL for the default one. `mode` is one of `GRIDZ_MODE_*` and
/// `value` the number that belongs to it: 0 for `GRIDZ_MODE_LOSSLESS` and `GRIDZ_MODE_EXPERT`.
/// `level` is one of the numbers that `gridz_codec_info` lists; 0 = the default. Parameters of the
/// codec and fill values may be appended to the text: `",layers=3,fill=-999"`.
///
/// Writes the text and a terminating 0 byte to `text`, which has room for `capacity` bytes; 64 are
/// always enough. Sets `*text_bytes` to the number of bytes, the 0 byte included. `text_bytes` may be
/// NULL.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for a codec, mode or level that this version lacks,
/// `DST_TOO_SMALL` with the needed bytes in `*text_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_request_text(
    codec: *const c_char,
    mode: gridz_mode,
    value: f64,
    level: u32,
    text: *mut c_char,
    capacity: usize,
    text_bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        let mut unused = 0;
        let text_bytes = if text_bytes.is_null() { &raw mut unused } else { text_bytes };
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (codec, room, text_bytes) = unsafe {
            (ptr::text(codec), ptr::room("text", text.cast::<u8>(), capacity)?, Out::new("text_bytes", text_bytes)?)
        };
        let codec = codec.map(|codec| convert::utf8("codec", codec)).transpose()?;
        let request = Request::by_name(codec, mode, value, level)?;
        copy(format!("{request}\0").as_bytes(), room, text_bytes)
    })
}

/// Converts a request in text form, such as `"lorenzo,level=dense"` or `"quant,abs=1e-3"`, to
/// cd_values for `H5Pset_filter`, h5repack's UD and `nc_def_var_filter`.
///
/// Writes `*n_values` cd_values to `values`, which has room for `capacity` of them; 64 are always
/// enough. They include the fill values and the valid range of the text. The filter adds the fill
/// value of the dataset's property list. h5repack accepts at most 20 values; requests with more
/// than four fill values and limits may have more.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `DST_TOO_SMALL` with the needed capacity in
/// `*n_values`.
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
        let request =
            request.ok_or_else(|| Error::invalid("request is NULL; pass a request in text form".to_owned()))?;
        copy(&cd::user_words(&convert::request(Some(request))?), room, n_values)
    })
}

/// Converts cd_values of the filter, from a user or stored with a dataset, to a request in text
/// form.
///
/// Writes the text and a terminating 0 byte to `text`, which has room for `capacity` bytes. Sets
/// `*text_bytes` to the number of bytes, the 0 byte included. 1024 bytes are enough for all codecs
/// of this version.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `CORRUPT`, `UNSUPPORTED_FORMAT` for values of a
/// later version, `DST_TOO_SMALL` with the needed bytes in `*text_bytes`.
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

/// Copies all of `from` to `to` and writes its length to `n`, even if `to` is too small.
fn copy<T: Copy>(from: &[T], to: &mut [MaybeUninit<T>], n: Out<usize>) -> Result<()> {
    n.write(from.len());
    let (need, have) = (from.len(), to.len());
    let Some(to) = to.get_mut(..need) else {
        let text = format!(
            "the destination has room for {have} elements of {} bytes, but {need} are needed",
            size_of::<T>()
        );
        return Err(Error::new(ErrorKind::DstTooSmall { need: need as u64 }, text));
    };
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
    Ok(())
}
