//! gridz: compression of scientific arrays where they are stored and computed.
//!
//! One library is an HDF5 filter plugin, a C library (`gridz.h`) and this crate. A chunk of an array
//! becomes a *frame* that describes itself and decodes anywhere; see [`mod@format`] for its bytes.
//!
//! An [`Array`] says what a chunk is and a [`Request`] what to compress it with, and a [`Context`] brings threads and
//! memory along. [`compress`] and [`decompress`] do one chunk in host memory; [`Prepared`] does many of one kind, and
//! [`device`] those in the memory of a GPU. Everything else in this crate is its inside: public for its own tests and
//! tools, and free to change.
//!
//! ```
//! use gridz::{Array, ByteOrder, Context, DType, Request, Shape, Verify};
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
//! gridz::decompress(&frame, &mut back, Verify::Checksum, &context)?;
//! assert_eq!(back, values);
//! # Ok(())
//! # }
//! ```
//!
//! Layers, each using only those below it: `ffi`, `hdf5`, `bulk`, `quality` and `sparse`, `engine`, `codec`, `stage`, `cpu` and `cuda`; everything
//! may use `format`, `types`, `error` and `settings`. `tests/api/layers.rs` holds them to it.
//!
//! `unsafe` is allowed in the files and folders of this list and nowhere else: `hdf5/{abi,descriptor,dl,functions,library,bulk,buf,filter}.rs`, `ffi/`,
//! `codec/kept.rs`, `codec/ndzip/simd/`, `codec/zfp/{decode,scatter}.rs`, `codec/zfp/block/simd/`, `stage/rows/`, `stage/entropy/simd/`, `stage/sums.rs`, `cpu/{copy,float,pages,shared}.rs`, `cuda/`,
//! `engine/{batch,boxes,by_lanes,ferry,gpu,lanes,launch,packing,traffic}.rs`, `bulk/{buffer,placement,transfer}.rs`, `sparse/{gpu,level,product,sums,turned,values,wide}.rs`, `sparse/simd/`. That is what C calls and what calls C, what gives memory to GPUs or to several threads, the state of
//! arithmetic, and vector instructions with the loads and stores between them.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("gridz is for 64-bit machines: sizes in its format are");

#[doc(hidden)]
pub mod bulk;
#[doc(hidden)]
pub mod codec;
#[doc(hidden)]
pub mod cpu;
#[doc(hidden)]
pub mod cuda;
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod error;
#[doc(hidden)]
pub mod ffi;
pub mod format;
#[doc(hidden)]
pub mod hdf5;
#[doc(hidden)]
pub mod quality;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod sparse;
#[doc(hidden)]
pub mod stage;
#[doc(hidden)]
pub mod types;

pub use engine::{
    BlockCounts, Context, Detail, Fill, FrameInfo, Missing, Mode, PartInfo, Prepared, Promise, Request, Verify,
    array_bytes, compress, compress_bound, count_blocks, decompress, decompress_progressive, decompress_region,
    device, inspect, inspect_progressive, store,
};
pub use error::{Error, ErrorKind, Result};
pub use settings::{Backend, CpuLevel};
pub use types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// Version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
