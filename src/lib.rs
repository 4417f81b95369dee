//! gridz: compression of scientific arrays where they are stored and computed.
//!
//! One library is an HDF5 filter plugin, a C library (`gridz.h`) and this crate. A chunk of an array
//! becomes a *frame* that describes itself and decodes anywhere; see [`mod@format`] for its bytes.
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
//! Layers, each using only those below it: `ffi` and `hdf5`, [`engine`], [`codec`], [`stage`], [`cpu`] and [`cuda`];
//! everything may use [`mod@format`], [`types`], [`error`] and [`settings`]. `tests/layers.rs` holds them to it.
//!
//! `unsafe` is allowed in the files and folders of this list and nowhere else: `hdf5/{abi,dl,buf,filter}.rs`, `ffi/`,
//! `codec/kept.rs`, `codec/{ndzip,lorenzo}/simd/`, `stage/sums.rs`, `cuda/`, `engine/{batch,gpu,launch}.rs`. That is what
//! C calls and what calls C, what gives memory to GPUs, and vector instructions with the loads and stores between them.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("gridz is for 64-bit machines: sizes in its format are");

pub mod codec;
pub mod cpu;
pub mod cuda;
pub mod engine;
pub mod error;
pub mod ffi;
pub mod format;
pub mod hdf5;
pub mod settings;
pub mod stage;
pub mod types;

pub use engine::{
    BlockCounts, Context, FrameInfo, Mode, Prepared, Request, Verify, array_bytes, compress, compress_bound,
    count_blocks, decompress, decompress_region, inspect, store,
};
pub use error::{Error, ErrorKind, Result};
pub use types::{Array, ByteOrder, DType, MAX_RANK, Shape};

/// Version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
