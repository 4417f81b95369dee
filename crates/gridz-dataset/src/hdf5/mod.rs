//! HDF5 support: the filter plugin, and transfers of whole datasets.
//!
//! `filter` has the entry points that libhdf5 calls. At creation, `dl` finds the libhdf5 that
//! called, and `dataset` queries it for the description of the dataset. The filter's cd_values
//! ([`cd`]) store this description as a [`record`], so that reading needs neither. `buf` owns the
//! buffers that libhdf5 exchanges with filters, `shuffle` undoes HDF5's shuffle filter, and
//! `report` reports errors.
//!
//! [`bulk`] transfers whole datasets, without the filter interface. `library` calls the libhdf5 of
//! the program. `chunk` applies to a chunk the filters that HDF5 would apply, and `third_party`
//! decodes chunks of third-party filters. [`progressive`] reads coarser grids or fewer layers,
//! through
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
mod functions;
pub mod library;
pub mod progressive;
pub mod record;
mod report;
mod shuffle;
mod third_party;

pub use abi::PLUGIN_TYPE_FILTER;
pub use filter::class as filter_class;
