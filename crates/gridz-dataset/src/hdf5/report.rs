//! Error reporting of the filter.
//!
//! At dataset creation an error goes to the error stack of the calling libhdf5. A program that
//! turns libhdf5's error output off may print the stack itself, as h5py does, or hide it. h5repack
//! hides it, and so does netCDF, which returns only a number. gridz cannot distinguish these, so
//! for such programs the error also goes to stderr.
//!
//! Some versions lose the stack in the filter callback, so errors there go to stderr. Each distinct
//! text is printed once, because a damaged file has thousands of chunks.

use std::ffi::CString;

use super::api::{Api, Callback};
use gridz_codecs::error::{self, Error};
pub use gridz_codecs::settings::warn as line;

/// Stores `error` as the thread's last error and shows it to the creator of a dataset.
pub fn refuse(api: &Api, callback: Callback, error: &Error) {
    error::set_last(error);
    let text = CString::new(error.context().replace('\0', "")).unwrap_or_default();
    // Must come first, because the query clears the stack.
    let is_shown = api.shows_errors();
    if api.push_error(callback, &text).is_none() || !is_shown {
        line(&format!("a dataset is refused: {error}"));
    }
}

/// Stores `error` as the thread's last error and prints it, unless it was printed before.
pub fn failed(error: &Error) {
    error::set_last(error);
    line(error.context());
}
