//! Safe access to NVIDIA GPUs through the CUDA driver API, as far as codecs need it.
//!
//! libcuda is loaded when the first function here needs it, never at load time. If it is missing,
//! too old or fails, every function here returns an error of kind `Device` that gives the reason,
//! and gridz works on the CPU. This module does not depend on any codec, and no other module of
//! gridz calls the driver.
//!
//! - [`gpus`], [`is_active`], [`gpu_of_pointer`]: query the machine without creating a context.
//! - [`Device`]: one context on one GPU, selected by [`Device::choose`] or [`Device::current`].
//! - [`Stream`], [`Event`]: order, copies, timing. [`Stream::alloc`] returns a [`DeviceBuffer`] and
//!   [`Device::pinned`] a [`PinnedBuffer`]. Both are cached; [`release_caches`] frees the unused
//!   memory.
//! - [`Fatbin`], [`Module`], [`Function`]: kernels. [`Function::launch`] starts a kernel with the
//!   bytes of a struct that [`kernel_struct!`](gridz_codecs::kernel_struct!) defines.
//!
//! Each inner module uses only those before it: `sys`, the driver's functions; `loaded`; `error`,
//! `slice`, `kernel_struct`; `probe`, the GPUs; `context`, one context; `caches` and `pinned`;
//! `modules`; `device`, everything in a context; `event`, `stream`, `buffer`, `launch`.
//!
//! This is how a codec compresses. Only the last call waits for the kernel:
//!
//! ```no_run
//! # gridz_codecs::kernel_struct! { struct Args, size 16 { src: u64, dst: u64, } }
//! # fn compress(kernels: &'static gridz_cuda::Fatbin, chunk: &[u8], dst: &mut [u8]) -> gridz_codecs::error::Result<()> {
//! use gridz_cuda::{Device, Grid, KernelStruct};
//!
//! let device = Device::choose(gridz_codecs::settings::checked()?)?;
//! let kernel = device.module(kernels)?.function("ndzip_compress_f32_3d")?;
//! let stream = device.stream()?;
//! let (src_dev, dst_dev) = (stream.alloc(chunk.len() as u64)?, stream.alloc(dst.len() as u64)?);
//! stream.copy_in(src_dev.all(), chunk)?;
//! let grid = Grid { ctas: 100, threads: 256, shared_bytes: 0 };
//! let args = Args { src: src_dev.all().address(), dst: dst_dev.all().address() };
//! // SAFETY: the kernel reads and writes these two buffers only, which outlive it.
//! unsafe { kernel.launch(grid, &stream, args.as_bytes())? };
//! stream.copy_out(dst_dev.all(), dst)
//! # }
//! ```

mod buffer;
mod caches;
mod context;
mod device;
mod error;
mod event;
mod launch;
mod loaded;
mod modules;
mod pinned;
mod probe;
mod slice;
mod stream;
mod sys;

pub use buffer::DeviceBuffer;
pub use context::Entered;
pub use device::{Device, release_caches};
pub use event::Event;
pub use gridz_codecs::kernel_struct::KernelStruct;
pub use launch::Grid;
pub use modules::{Aligned, Fatbin, Function, Module};
pub use pinned::PinnedBuffer;
pub use probe::gpu_of_address;
pub use probe::{Gpu, gpu_of_pointer, gpus, is_active, is_pinned};
pub use slice::DeviceSlice;
pub use stream::{Stream, StreamHandle};
