//! HDF5 support: the filter plugin, and transfers of whole datasets.
//!
//! `filter` has the entry points that libhdf5 calls. At creation, `dl` finds the libhdf5 that
//! called, and `dataset` queries it, through `api`, for the description of the dataset. The
//! filter's cd_values ([`cd`]) store this description as a [`record`], so that reading needs
//! neither. `buf` owns the buffers that libhdf5 exchanges with filters, `shuffle` undoes HDF5's
//! shuffle filter, and `report` reports errors.
//!
//! [`bulk`] transfers whole datasets, without the filter interface. `library` and `chunk_io` call
//! the libhdf5 of the program, and `dataset_store` reads and writes encoded chunks through them.
//! `chunk` applies to a chunk the filters that HDF5 would apply. `third_party` decodes chunks of
//! third-party filters. [`progressive`] reads coarser grids or fewer layers, through `descriptor`
//! from the file itself.

mod abi;
mod api;
mod buf;
pub mod bulk;
pub mod cd;
mod chunk;
mod chunk_io;
mod dataset;
mod dataset_store;
mod descriptor;
mod dl;
mod filter;
mod functions;
pub mod library;
pub mod progressive;
pub mod record;
mod report;
mod shuffle;
mod third_party;

pub use abi::PLUGIN_TYPE_FILTER;
pub use filter::class as filter_class;
