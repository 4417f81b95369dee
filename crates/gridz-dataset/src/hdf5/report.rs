//! Telling people what went wrong.
//!
//! At creation an error goes to the error stack of the calling libhdf5. A program that keeps libhdf5 from showing that
//! stack may show it itself, as h5py does, or hide it, as h5repack does and netCDF, which tells its callers only a
//! number; gridz cannot know, so for such programs the error goes to stderr too. In the filter callback some versions
//! lose the stack, so errors there go to stderr. Each distinct text is printed once: a damaged file has thousands of
//! chunks.

use std::ffi::CString;

use super::dl::{Api, Callback};
use gridz_codecs::error::{self, Error};
pub use gridz_codecs::settings::warn as line;

/// Keeps `error` as the thread's last one and puts it where the creator of a dataset sees it.
pub fn refuse(api: &Api, callback: Callback, error: &Error) {
    error::set_last(error);
    let text = CString::new(error.context().replace('\0', "")).unwrap_or_default();
    // Asked first: the question empties the stack.
    let is_shown = api.shows_errors();
    if api.push_error(callback, &text).is_none() || !is_shown {
        line(&format!("a dataset is refused: {error}"));
    }
}

/// Keeps `error` as the thread's last one and prints it, if it is new.
pub fn failed(error: &Error) {
    error::set_last(error);
    line(error.context());
}
