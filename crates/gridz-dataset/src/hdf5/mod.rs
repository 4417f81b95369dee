//! The HDF5 filter plugin.
//!
//! `filter` has the entry points that libhdf5 calls. What a dataset is comes from the library that
//! called (`dl` finds it, `dataset` asks it) and is kept in the filter's cd_values ([`cd`]), so
//! that reading needs neither. `buf` owns the buffers libhdf5 exchanges with filters,
//! `shuffle` undoes what HDF5's filter of that name did before ours, and `report` tells people what went wrong.
//!
//! Beside the filter, [`bulk`] moves whole datasets: `library` calls the libhdf5 of the program, and `chunk` does to a chunk
//! what HDF5 would do to it with its filters; `foreign` reads those of a filter of others. [`progressive`] reads less than there is, by
//! `descriptor` from the file itself.

mod abi;
mod buf;
pub mod bulk;
pub mod cd;
mod chunk;
mod dataset;
mod descriptor;
mod dl;
mod filter;
mod foreign;
mod functions;
pub mod library;
pub mod progressive;
mod report;
mod shuffle;

pub use abi::PLUGIN_TYPE_FILTER;
pub use filter::class as filter_class;
