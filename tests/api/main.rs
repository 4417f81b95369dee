//! The public interfaces of the library, in C and as an HDF5 filter.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod c_api;
mod hdf5_filter;
mod library;
