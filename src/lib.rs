//! gridz: compression of scientific arrays where they are stored and computed.
//!
//! One library is an HDF5 filter plugin, a C library (`gridz.h`) and this crate. A chunk of an
//! array becomes a *frame* that describes itself and decodes anywhere; see [`mod@format`] for its
//! bytes.
//!
//! An [`Array`] describes a chunk, a [`Request`] names the codec and its settings, and a
//! [`Context`] holds threads and a memory limit. [`compress`] and [`decompress`] process one chunk
//! in host or GPU memory. [`Prepared`] avoids repeated planning for chunks of one kind, and
//! [`device`] has batches.
//!
//! ```
//! use gridz::{Array, ByteOrder, Context, DType, Part, Request, Shape, Verify};
//!
//! # fn main() -> gridz::Result<()> {
//! let values: Vec<u8> = (0..40_000u32).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
//! let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[200, 200])?)?;
//! let (request, context) = (Request::default(), Context::default());
//!
//! let mut frame = vec![0; gridz::compress_bound(&array, &request)? as usize];
//! let n = gridz::compress(&array, &request, &values, &mut frame, &context)?;
//! frame.truncate(n);
//!
//! let mut back = vec![0; gridz::inspect(&frame)?.array.n_bytes() as usize];
//! gridz::decompress(&frame, Part::All, &mut back, Verify::Checksum, &context)?;
//! assert_eq!(back, values);
//! # Ok(())
//! # }
//! ```
//!
//! Modules, in an order in which each uses only those before it:
//! - `memory`, `backend`: host or GPU memory, and the choice of CPU or GPU;
//! - [`Prepared`]: everything about a request that does not depend on the data;
//! - `context`: the caller's threads and settings;
//! - `cpu`, `gpu`: the two back ends, the latter with `header_template`, `kernel_args`, `launch`
//!   and `staging`;
//! - `frame`, `compress`, `decompress`, `detail`: the calls for one frame;
//! - `batch`: batches on a stream, without waiting, after the checks of `async_args`;
//! - `chunks`: many chunks of a `chunk_array`, on CPUs (`chunks_cpu`) or GPUs (`chunks_gpu` with
//!   `pipeline`, `scheduler`, `batch_sizer`, `packing`);
//! - `strided_copy`: copies between an array and a chunk in GPU memory.
//!
//! `log` writes the debug lines.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("gridz is for 64-bit machines: sizes in its format are");

mod async_args;
mod backend;
mod batch;
mod batch_sizer;
mod chunk_array;
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
mod header_template;
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

pub use crate::compress::{compress, compress_bound};
pub use crate::context::{Context, check_backend, check_environment, release_caches};
pub use crate::decompress::{Part, count_blocks, decompress};
pub use crate::detail::{PartInfo, inspect_part};
pub use crate::frame::{Frame, FrameInfo, Verify, inspect, stored_bytes};
pub use crate::memory::{Destination, Source};
pub use crate::prepared::Prepared;
pub use crate::third_party::ThirdPartyChunks;
pub use gridz_codecs::VERSION;
pub use gridz_codecs::codec::encode_params::MAX_CODEC_PARAMS;
pub use gridz_codecs::codec::fill::Fill;
pub use gridz_codecs::codec::missing::{MAX_FILLS, MAX_MISSING_WORDS, Missing, MissingElements};
pub use gridz_codecs::codec::mode::Mode;
pub use gridz_codecs::codec::registry::STORED;
pub use gridz_codecs::codec::request::Request;
pub use gridz_codecs::codec::{BlockCounts, Detail, Promise};
pub use gridz_codecs::error::{Error, ErrorKind, Result};
pub use gridz_codecs::settings::{Backend, CpuLevel};
pub use gridz_codecs::types::{Array, ByteOrder, DType, MAX_RANK, Shape};
