//! Compression of scientific arrays, bit for bit or within an error bound that you choose, at
//! gigabytes per second on CPUs and NVIDIA GPUs.
//!
//! ```
//! fn main() -> gridz::Result<()> {
//!     let field: Vec<f32> = (0..64 * 64 * 64).map(|i| (i as f32 * 1e-4).sin()).collect();
//!     let frame = gridz::compress_slice(&field, &[64, 64, 64], "quant,abs=1e-3")?;
//!     let (back, extents) = gridz::decompress_vec::<f32>(&frame)?;
//!     assert!(field.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 1e-3) && extents == [64, 64, 64]);
//!     Ok(())
//! }
//! ```
//!
//! A *frame* describes itself: [`inspect`] reads its type and extents, and every program with gridz
//! decompresses it, in any language. Each frame has a checksum; damaged data is an error.
//!
//! | request | result |
//! |---|---|
//! | `"lorenzo"` | every bit, fast; `"lorenzo,level=dense"` is smaller, `level=max` smallest |
//! | `"quant,abs=0.01"` | every value within 0.01; also `rel=1e-4` of the range, `pwrel=1e-4` of the value |
//! | `"multigrid,abs=0.01"` | the same bound, smallest for smooth fields |
//! | `"zfp,rate=8"` | the stream of libzfp, here with 8 bits per value |
//!
//! [`Codec`] and [`Level`] express the same request as Rust values: `Codec::Quant.abs(0.01)`.
//!
//! The calls after [`compress_slice`] and [`decompress_vec`], for memory and threads of your own:
//!
//! - [`compress`] and [`decompress`]: one array of bytes, in host or GPU memory; also a region of a
//!   frame, or a coarser version of it ([`Part`]).
//! - [`Prepared`]: many arrays of one type and shape, checked and planned once.
//! - [`Context`]: number of threads, memory limit, CPU or GPU.
//! - [`device`]: batches on a CUDA stream.
//!
//! # Features
//!
//! - `ndarray`: `compress_array` and `decompress_array`.
//! - `cuda`: kernels for GPUs, which need nvcc 13 at build time and only the driver at run time.
//! - `ndzip`, `quant`, `zfp`, `multigrid`, `huffman`, `cci`: the codecs, all on by default. `lorenzo`
//!   is always available.
//!
//! # HDF5
//!
//! HDF5 loads gridz's filter, number 34013, as a plugin, so this crate does not register it. Programs
//! that use the crate `hdf5-metno` read and write compressed datasets once `HDF5_PLUGIN_PATH` names
//! the plugin's folder (`make install` of gridz prints it).
//!
//! The format of frames is [specified](mod@format).

// Modules, in an order in which each uses only those before it:
// - `memory`, `backend`: host or GPU memory, and the choice of CPU or GPU;
// - `Prepared`: everything about a request that does not depend on the data;
// - `context`: the caller's threads and settings;
// - `cpu`, `gpu`: the two back ends, the latter with `header_template`, `kernel_args`, `grid`, `launch` and
//   `staging`;
// - `frame`, `compress`, `decompress`, `detail`: the calls for one frame;
// - `into_request`, `typed`: requests as Rust values, and slices of numbers;
// - `batch`: batches on a stream, without waiting, after the checks of `async_args`;
// - `chunks`: many chunks of a `chunk_array`, on CPUs (`chunks_cpu`) or GPUs (`chunks_gpu` with
//   `pipeline`, `scheduler`, `batch_sizer`, `packing`);
// - `chunk_stream`: the chunks of a dataset, whose frames are in a file, through the same pipelines;
// - `strided_copy`: copies between an array and a chunk in GPU memory.
//
// `log` writes the debug lines.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("gridz is for 64-bit machines: sizes in its format are");

mod async_args;
mod backend;
mod batch;
mod batch_sizer;
mod chunk_array;
mod chunk_stream;
mod chunks;
mod chunks_cpu;
mod chunks_gpu;
mod compress;
mod context;
mod cpu;
mod decompress;
mod detail;
pub mod device;
pub mod format;
mod frame;
mod gpu;
mod grid;
mod header_template;
mod into_request;
mod kernel_args;
mod kernels;
mod launch;
mod log;
mod memory;
mod packing;
mod pipeline;
mod prepared;
mod scheduler;
mod staging;
mod strided_copy;
mod third_party;
mod typed;

pub use crate::compress::{compress, compress_bound};
pub use crate::context::{Context, check_backend, check_environment, release_caches};
pub use crate::decompress::{Part, count_blocks, decompress};
pub use crate::detail::{PartInfo, inspect_part};
pub use crate::frame::{Frame, FrameInfo, Verify, inspect, stored_bytes};
pub use crate::into_request::{Codec, IntoRequest, Level, Setting};
pub use crate::memory::{Destination, Source};
pub use crate::prepared::Prepared;
pub use crate::third_party::ThirdPartyChunks;
pub use crate::typed::{Element, compress_slice, decompress_vec};
#[cfg(feature = "ndarray")]
pub use crate::typed::{compress_array, decompress_array};
#[doc(inline)]
pub use gridz_codecs::VERSION;
#[doc(inline)]
pub use gridz_codecs::codec::encode_params::MAX_CODEC_PARAMS;
#[doc(inline)]
pub use gridz_codecs::codec::fill::Fill;
#[doc(inline)]
pub use gridz_codecs::codec::missing::{MAX_FILLS, MAX_MISSING_WORDS, Missing, MissingElements};
#[doc(inline)]
pub use gridz_codecs::codec::mode::Mode;
#[doc(inline)]
pub use gridz_codecs::codec::registry::STORED;
#[doc(inline)]
pub use gridz_codecs::codec::request::Request;
#[doc(inline)]
pub use gridz_codecs::codec::{BlockCounts, Detail, Promise};
#[doc(inline)]
pub use gridz_codecs::error::{Error, ErrorKind, Result};
#[doc(inline)]
pub use gridz_codecs::settings::{Backend, CpuLevel};
#[doc(inline)]
pub use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};
