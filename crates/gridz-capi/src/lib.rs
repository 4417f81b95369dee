//! The C API, `gridz.h`.
//!
//! Nothing is decided here. A function checks what C handed over, converts it, calls the engine and
//! converts the result back:
//!
//! - [`types`] and [`status`]: what C sees beside the functions
//! - [`api`], [`batch`], [`cci`], [`cd_values`], [`chunks`], [`codecs`], [`hdf5`] and [`quality`]: the functions, each one call of a guard that stops panics and keeps
//! the error text
//! - `ptr`: pointers become slices and values, and results go out; the only place that follows them
//! - `convert`: C's descriptions become the engine's
//!
//! The doc comments of `types`, `status`, `api`, `batch`, `cci`, `cd_values`, `chunks`, `codecs`, `hdf5` and `quality` are the C manual: cbindgen copies them
//! into `include/gridz.h`, and `tests/api/c_api.rs` keeps that file fresh.

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
