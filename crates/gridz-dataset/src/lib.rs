//! Whole datasets, and HDF5.

pub mod bulk;
pub mod hdf5;
