//! Telling people what went wrong.
//!
//! At creation an error goes to the error stack of the calling libhdf5, which every host shows. In
//! the filter callback some versions lose the stack, so errors there go to stderr, each distinct text
//! once: a damaged file has thousands of chunks.

use std::ffi::CString;

use super::dl::{Api, Callback};
use crate::error::{self, Error};
pub use crate::settings::warn as line;

/// Keeps `error` as the thread's last one and puts it where the creator of a dataset sees it.
pub fn refuse(api: &Api, callback: Callback, error: &Error) {
    error::set_last(error);
    let text = CString::new(error.context().replace('\0', "")).unwrap_or_default();
    if api.push_error(callback, &text).is_none() {
        line(error.context());
    }
}

/// Keeps `error` as the thread's last one and prints it, if it is new.
pub fn failed(error: &Error) {
    error::set_last(error);
    line(error.context());
}
