//! The C API: `gridz.h` and the headers of single subjects.
//!
//! This layer makes no decisions. A function checks C's arguments, converts them, calls the engine
//! and converts the result back. `headers.toml` lists the headers, with the modules of each:
//!
//! - [`types`], [`cci_types`], [`hdf5_types`] and [`status`]: structs and constants
//! - [`api`], [`batch`], [`cci`], [`cd_values`], [`codecs`], [`cuda`], [`hdf5`], [`progressive`] and
//!   [`quality`]: the functions. Each is one call of a guard that stops panics and keeps the error
//!   text
//! - `versioned`: structs of older and newer versions
//! - `ptr`: converts pointers to slices and values, and writes results; the only module that
//!   dereferences pointers of C
//! - `arguments`: arguments that several functions have
//! - `convert`: converts between C's structs and the engine's types
//!
//! The doc comments of the modules in the first two lines are the C manual. cbindgen copies them into
//! `include/`, and `tests/api/c_api.rs` verifies that these files are up to date.

#![allow(non_camel_case_types, reason = "the types are spelt as in C")]

pub mod api;
mod arguments;
pub mod batch;
pub mod cci;
pub mod cci_types;
pub mod cd_values;
pub mod codecs;
mod convert;
pub mod cuda;
mod guard;
pub mod hdf5;
pub mod hdf5_types;
pub mod progressive;
mod ptr;
pub mod quality;
pub mod status;
pub mod types;
mod versioned;
