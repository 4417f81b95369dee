//! The parts of libhdf5's C interface that a filter plugin needs, 1.10 and later.

#![allow(unsafe_code)] // a raw pointer in a constant

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// `hid_t`: 64 bits since 1.10.
pub type Hid = i64;

/// `H5Z_CLASS_T_VERS`.
pub const CLASS_VERSION: c_int = 1;
/// `H5PL_TYPE_FILTER`.
pub const PLUGIN_TYPE_FILTER: c_int = 0;
/// `H5Z_FLAG_REVERSE`: decode.
pub const FLAG_REVERSE: c_uint = 0x0100;
/// `H5Z_FLAG_SKIP_EDC`: do not compare checksums.
pub const FLAG_SKIP_EDC: c_uint = 0x0200;
/// `H5Z_FILTER_SHUFFLE`.
pub const FILTER_SHUFFLE: c_int = 2;
/// `H5D_FILL_VALUE_USER_DEFINED`.
pub const FILL_USER_DEFINED: c_int = 2;
/// `H5D_FILL_VALUE_UNDEFINED`.
pub const FILL_VALUE_UNDEFINED: c_int = 0;
/// `H5D_FILL_TIME_NEVER`.
pub const FILL_TIME_NEVER: c_int = 1;
/// `H5D_FILL_TIME_IFSET`.
pub const FILL_TIME_IFSET: c_int = 2;
/// `H5D_CHUNKED`.
pub const LAYOUT_CHUNKED: c_int = 2;
/// `H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS`.
pub const CHUNK_DONT_FILTER_PARTIAL: c_uint = 2;
/// `H5S_NULL`.
pub const SPACE_NULL: c_int = 2;
/// `H5S_SELECT_SET`.
pub const SELECT_SET: c_int = 0;
/// `H5Z_DISABLE_EDC`.
pub const DISABLE_EDC: c_int = 0;
/// `H5E_WALK_UPWARD`: from the function that failed first.
pub const WALK_UPWARD: c_int = 0;
/// `H5P_DEFAULT`.
pub const DEFAULT_PLIST: Hid = 0;
/// `HADDR_UNDEF`.
pub const NO_ADDRESS: u64 = u64::MAX;
/// `H5FD_FEAT_POSIX_COMPAT_HANDLE`: the handle of the driver is a descriptor.
pub const POSIX_HANDLE: c_ulong = 0x80;
/// `H5F_ACC_RDONLY`, without SWMR.
pub const FILE_READ_ONLY: c_uint = 0;
/// `H5F_ACC_RDWR`.
pub const FILE_WRITES: c_uint = 1;
/// `H5F_SCOPE_LOCAL`.
pub const SCOPE_LOCAL: c_int = 0;
/// `H5S_MAX_RANK`.
pub const MAX_RANK: usize = 32;
/// `H5E_DEFAULT`.
pub const DEFAULT_STACK: Hid = 0;

/// `H5T_class_t`: the classes that gridz distinguishes.
pub mod class {
    use std::ffi::c_int;

    pub const INTEGER: c_int = 0;
    pub const FLOAT: c_int = 1;
    pub const STRING: c_int = 3;
    pub const COMPOUND: c_int = 6;
    pub const REFERENCE: c_int = 7;
    pub const ENUMERATION: c_int = 8;
    pub const VLEN: c_int = 9;
    pub const ARRAY: c_int = 10;
    pub const COMPLEX: c_int = 11;
}

/// `H5T_order_t`: the byte orders that gridz supports.
pub mod order {
    use std::ffi::c_int;

    pub const LITTLE: c_int = 0;
    pub const BIG: c_int = 1;
}

/// `H5E_error2_t`: an entry of an error stack.
#[repr(C)]
pub struct ErrorEntry {
    pub class: Hid,
    pub major: Hid,
    pub minor: Hid,
    pub line: c_uint,
    pub function: *const c_char,
    pub file: *const c_char,
    pub description: *const c_char,
}

/// `can_apply` and `set_local`.
pub type PrepareFn = unsafe extern "C" fn(dcpl: Hid, dtype: Hid, space: Hid) -> c_int;

/// `H5Z_func_t`.
pub type FilterFn = unsafe extern "C" fn(
    flags: c_uint,
    n_values: usize,
    values: *const c_uint,
    n_bytes: usize,
    buffer_bytes: *mut usize,
    buffer: *mut *mut c_void,
) -> usize;

/// `H5Z_class2_t`.
#[repr(C)]
pub struct FilterClass {
    pub version: c_int,
    pub id: c_int,
    pub encoder_present: c_uint,
    pub decoder_present: c_uint,
    pub name: *const c_char,
    pub can_apply: Option<PrepareFn>,
    pub set_local: Option<PrepareFn>,
    pub filter: Option<FilterFn>,
}

// SAFETY: the only instance is a constant whose `name` points to a string literal.
unsafe impl Sync for FilterClass {}
