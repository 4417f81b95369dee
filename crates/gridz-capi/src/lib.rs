//! The C API, `gridz.h`.
//!
//! This layer makes no decisions. A function checks C's arguments, converts them, calls the engine
//! and converts the result back:
//!
//! - [`types`] and [`status`]: structs and constants
//! - [`api`], [`batch`], [`cci`], [`cd_values`], [`chunks`], [`codecs`], [`hdf5`] and [`quality`]:
//!   the functions. Each is one call of a guard that stops panics and keeps the error text
//! - `ptr`: converts pointers to slices and values, and writes results; the only module that
//!   dereferences pointers of C
//! - `convert`: converts between C's structs and the engine's types
//!
//! The doc comments of `types`, `status`, `api`, `batch`, `cci`, `cd_values`, `chunks`, `codecs`,
//! `hdf5` and `quality` are the C manual. cbindgen copies them into `include/gridz.h`, and
//! `tests/api/c_api.rs` verifies that this file is up to date.

#![allow(non_camel_case_types, reason = "the types are spelt as in C")]

pub mod api;
pub mod batch;
pub mod cci;
pub mod cd_values;
pub mod chunks;
pub mod codecs;
mod convert;
mod guard;
pub mod hdf5;
mod ptr;
pub mod quality;
pub mod status;
pub mod types;
