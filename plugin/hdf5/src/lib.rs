//! `libgridz.so` and `libgridz.a`: the HDF5 filter plugin and the C API in one library.
#![allow(unsafe_code, reason = "exports the two functions that libhdf5 looks up in a plugin")]

use std::ffi::{c_int, c_void};

pub use gridz_capi::*;
use gridz_dataset::hdf5::{PLUGIN_TYPE_FILTER, filter_class};

/// Returns the plugin type that identifies this library as a filter.
// SAFETY: no other function of the program has this name: plugins are opened with local symbols.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    PLUGIN_TYPE_FILTER
}

/// Returns the filter's `H5Z_class2_t`, which is valid for the lifetime of the process. Programs
/// that do not use plugins can pass it to `H5Zregister`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    filter_class()
}
