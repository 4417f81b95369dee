//! The public interfaces of the library, in C and as an HDF5 filter, and the layers of its source.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod c_api;
mod hdf5_filter;
mod layers;
