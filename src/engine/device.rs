//! Chunks in GPU memory: one at a time, for calls that wait for the result, and batches, for calls that only
//! give work to a stream.

mod batch;

use std::time::Instant;

pub use batch::{Batch, BatchMemory, async_workspace_bytes, compress_async, decompress_async};

use super::{
    CUDA, Context, FrameInfo, Spec, Verify, check_payload, check_source, compress_bound, entry_of, log,
    log_compressed, too_small,
};
pub use crate::codec::gpu::Direction;
use crate::codec::registry::Entry;
use crate::cuda::{self, Device, Fatbin};
pub use crate::cuda::{DeviceSlice, StreamHandle, gpu_of_pointer};
use crate::engine::gpu::{self, or_cpu};
pub use crate::engine::gpu::{Destination, Source};
use crate::error::Result;
use crate::format::header::{Header, MAX_HEADER_BYTES};
use crate::settings::Backend;
use crate::types::Array;

/// Whether this library has a codec's kernels, and this machine a GPU for them. Asks the driver, without making a CUDA
/// context.
pub fn has_kernels_here(entry: &Entry) -> bool {
    let is_usable = || cuda::gpus().is_ok_and(|gpus| gpus.iter().any(|gpu| gpu.check_usable().is_ok()));
    entry.gpu.is_some() && Fatbin::find(entry.name).is_ok() && is_usable()
}

/// [`compress`](super::compress) where source, destination or both are memory of a GPU. What the program's own
/// streams do with them must be done; the frame is there when this returns.
///
/// # Errors
/// As `compress`; `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
pub fn compress(array: &Array, spec: &Spec, src: Source, mut dst: Destination, context: &Context) -> Result<usize> {
    let settings = context.settings()?;
    check_source(array, src.n_bytes())?;
    let need = compress_bound(array, spec)?;
    if dst.n_bytes() < need {
        return Err(too_small(dst.n_bytes(), need));
    }
    let device = device_of(&src, &dst, context)?;
    let begin = Instant::now();
    if settings.backend != Backend::Cpu
        && let Some(n_bytes) = or_cpu(settings, gpu::compress(device, array, spec, src, dst.reborrow(), context))?
    {
        log_compressed(array, spec, n_bytes, begin, CUDA);
        return Ok(n_bytes);
    }
    through_host(device, src, dst, need, context, |src, dst, on_cpu| super::compress(array, spec, src, dst, on_cpu))
}

/// [`decompress`](super::decompress) where source, destination or both are memory of a GPU, likewise.
///
/// # Errors
/// As `decompress`; `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
pub fn decompress(frame: Source, mut dst: Destination, verify: Verify, context: &Context) -> Result<usize> {
    let settings = context.settings()?;
    let device = device_of(&frame, &dst, context)?;
    let mut start = [0; MAX_HEADER_BYTES];
    let header = Header::parse(match frame {
        Source::Host(bytes) => bytes,
        Source::Device(bytes) => first_bytes(device, bytes, &mut start)?,
    })?;
    let name = entry_of(&header)?.name;
    check_payload(&header, frame.n_bytes() - header.n_bytes() as u64)?;
    let need = header.array.n_bytes();
    if dst.n_bytes() < need {
        return Err(too_small(dst.n_bytes(), need));
    }
    let begin = Instant::now();
    if settings.backend != Backend::Cpu
        && or_cpu(settings, gpu::decompress(device, &header, frame, dst.reborrow(), verify, context))?.is_some()
    {
        log("decompressed", &header.array, name, (frame.n_bytes(), need), begin, CUDA);
        return Ok(need as usize);
    }
    through_host(device, frame, dst, need, context, |frame, dst, on_cpu| {
        super::decompress(frame, dst, verify, on_cpu)
    })
}

/// [`inspect`](super::inspect) for a frame in memory of a GPU.
///
/// # Errors
/// As `inspect`, and `Device`.
pub fn inspect(frame: DeviceSlice) -> Result<FrameInfo> {
    super::inspect(first_bytes(Device::of_memory(&[frame])?, frame, &mut [0; MAX_HEADER_BYTES])?)
}

/// As many of the first bytes of `src` as fit into `start`.
fn first_bytes<'a>(device: &'static Device, src: DeviceSlice, start: &'a mut [u8]) -> Result<&'a [u8]> {
    let n_bytes = src.n_bytes().min(start.len() as u64);
    let start = &mut start[..n_bytes as usize];
    device.stream()?.copy_out(src.slice(0..n_bytes)?, start)?;
    Ok(start)
}

/// The device of the memory that is not the host's.
fn device_of(src: &Source, dst: &Destination, context: &Context) -> Result<&'static Device> {
    let memory: Vec<DeviceSlice> = [src.on_device(), dst.on_device()].into_iter().flatten().collect();
    let device = Device::of_memory(&memory)?;
    context.check_device(device)?;
    Ok(device)
}

/// What the CPU is to do: `work` on copies in host memory, `need` bytes of the destination.
fn through_host(
    device: &'static Device,
    src: Source,
    dst: Destination,
    need: u64,
    context: &Context,
    work: impl FnOnce(&[u8], &mut [u8], &Context) -> Result<usize>,
) -> Result<usize> {
    let stream = device.stream()?;
    let mut host_src;
    let src = match src {
        Source::Host(bytes) => bytes,
        Source::Device(bytes) => {
            host_src = context.scratch(bytes.n_bytes() as usize)?;
            stream.copy_out(bytes, &mut host_src)?;
            &host_src
        }
    };
    let on_cpu = context.on_cpu()?;
    match dst {
        Destination::Host(bytes) => work(src, bytes, &on_cpu),
        Destination::Device(bytes) => {
            let mut host_dst = context.scratch(need as usize)?;
            let n_bytes = work(src, &mut host_dst, &on_cpu)?;
            stream.copy_in(bytes.slice(0..n_bytes as u64)?, &host_dst[..n_bytes])?;
            Ok(n_bytes)
        }
    }
}
