//! NVIDIA GPUs, by the CUDA driver API: what codecs need of it, safe to use.
//!
//! libcuda is loaded when the first function here asks for it, never at load time; where it is missing,
//! too old or fails, everything here returns an error of kind `Device` that says why, and gridz works on
//! the CPU. Nothing here knows a codec, and nothing else in gridz calls the driver.
//!
//! - [`gpus`], [`is_active`], [`gpu_of_pointer`]: what there is; no context is made.
//! - [`Device`]: one context on one GPU, chosen by [`Device::choose`] or [`Device::current`].
//! - [`Stream`], [`Event`]: order; copies; time. [`Stream::alloc`] gives a [`DeviceBuffer`] and
//!   [`Device::pinned`] a [`PinnedBuffer`], both cached; [`release_caches`] gives back what is not in use.
//! - [`Fatbin`], [`Module`], [`Function`]: kernels. [`Function::launch`] starts one with the bytes of a struct that
//!   [`kernel_struct!`](gridz_codecs::kernel_struct) defines.
//!
//! Inside, each module uses only those before it: `sys`, the driver's functions; `loaded`; `error`, `slice`, `kernel_struct`; `probe`, the GPUs; `context`, one
//! context; `caches` and `pinned`; `modules`; `device`, all of a context; `event`, `stream`, `buffer`, `launch`.
//!
//! A codec's compression reads like this, with nothing that waits for the GPU before the end:
//!
//! ```no_run
//! # gridz_codecs::kernel_struct! { struct Args, size 16 { src: u64, dst: u64, } }
//! # fn compress(chunk: &[u8], dst: &mut [u8]) -> gridz_codecs::Result<()> {
//! use gridz_cuda::{Device, Fatbin, Grid, KernelStruct};
//!
//! let device = Device::choose(gridz_codecs::settings::checked()?)?;
//! let kernel = device.module(Fatbin::find("ndzip")?)?.function("ndzip_compress_f32_3d")?;
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
