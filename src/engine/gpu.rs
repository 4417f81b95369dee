//! Chunks in host memory, done by a GPU: when, and the copies around the kernels.

use crate::codec::gpu::{ChunkResult, GpuCodec};
use crate::codec::registry::CODECS;
use crate::codec::{Encoded, Job};
use crate::cuda::{self, Device, DeviceBuffer, Fatbin, KernelStruct, Stream};
use crate::engine::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::format::checksum::Sums;
use crate::settings::{self, Backend, LogLevel, Settings};

/// With `auto`, a program that uses a GPU anyway gets it for chunks of so many raw bytes …
const AUTO_BYTES: u64 = 4 << 20;
/// … unless the CPU has so many threads. Pageable copies take most of the GPU's time: on an H200 host it
/// compresses at 8 to 10 GB/s and decompresses at 5 to 7, between 4 and 16 threads of the CPU.
const AUTO_THREADS: usize = 8;

/// Checks that there is a GPU if one is required.
///
/// # Errors
/// `Device` saying why there is none.
pub fn check(settings: &Settings) -> Result<()> {
    if settings.backend != Backend::Cuda {
        return Ok(());
    }
    let because =
        |error: Error| Error::new(error.kind(), format!("the GPU that is required cannot be used: {error}"));
    let device = Device::choose(settings).map_err(because)?;
    device.enter().map_err(because)?;
    // A library built without kernels has them for no codec.
    CODECS
        .iter()
        .filter(|entry| entry.gpu.is_some())
        .try_for_each(|entry| Fatbin::find(entry.name).map(|_| ()).map_err(because))
}

/// Lets the GPU do `work` on a chunk of `raw_bytes`, if the settings want that. `None`: the CPU is to do
/// it, because it should or because the GPU could not.
///
/// # Errors
/// Those of `work` that the CPU would find too; where the GPU is required, all.
pub fn attempt<R>(
    context: &Context,
    raw_bytes: u64,
    work: impl FnOnce(&'static Device) -> Result<R>,
) -> Result<Option<R>> {
    let settings = context.settings();
    let is_wanted = match settings.backend {
        Backend::Cpu => false,
        Backend::Cuda => true,
        // A context costs a second and hundreds of megabytes: no program gets one unasked.
        Backend::Auto => raw_bytes >= AUTO_BYTES && context.pool().threads() < AUTO_THREADS && cuda::is_active(),
    };
    if !is_wanted {
        return Ok(None);
    }
    match Device::choose(settings) {
        Ok(device) => or_cpu(settings, work(device).map(Some)),
        Err(error) if settings.backend == Backend::Cuda => Err(error),
        Err(error) => {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
    }
}

/// `result` of a GPU, or `None` for the CPU to do it where the GPU failed and is not required.
///
/// # Errors
/// What the CPU would find too; where the GPU is required, all.
pub fn or_cpu<R>(settings: &Settings, result: Result<Option<R>>) -> Result<Option<R>> {
    match result {
        Err(error)
            if settings.backend != Backend::Cuda
                && matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory) =>
        {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
        result => result,
    }
}

/// Encodes `src` into `dst`, which has the planned bound. A payload not shorter than `src` stays on the
/// GPU: the chunk will be stored.
pub fn encode(
    codec: &dyn GpuCodec,
    job: &Job,
    src: &[u8],
    dst: &mut [u8],
    device: &'static Device,
) -> Result<Encoded> {
    let stream = device.stream()?;
    let src_dev = stream.alloc(src.len() as u64)?;
    let dst_dev = stream.alloc((dst.len() as u64).next_multiple_of(16))?;
    let result = result_buffer(&stream)?;
    stream.copy_in(src_dev.all(), src)?;
    codec.encode(job, &stream, src_dev.all(), dst_dev.all(), result.all())?;
    let (n_bytes, sums) = read_result(&stream, result.all())?;
    if n_bytes < src.len() as u64 {
        stream.copy_out(dst_dev.slice(0..n_bytes)?, &mut dst[..n_bytes as usize])?;
    }
    Ok(Encoded { n_bytes: n_bytes as usize, sums })
}

/// Decodes `payload` into `dst`, and returns the payload's sums.
pub fn decode(
    codec: &dyn GpuCodec,
    job: &Job,
    payload: &[u8],
    dst: &mut [u8],
    device: &'static Device,
) -> Result<Sums> {
    let stream = device.stream()?;
    let n_bytes = payload.len() as u64;
    let payload_dev = stream.alloc(n_bytes.next_multiple_of(16))?;
    let dst_dev = stream.alloc(dst.len() as u64)?;
    let result = result_buffer(&stream)?;
    stream.copy_in(payload_dev.slice(0..n_bytes)?, payload)?;
    codec.decode(job, &stream, payload_dev.slice(0..n_bytes)?, dst_dev.all(), result.all())?;
    let (_, sums) = read_result(&stream, result.all())?;
    stream.copy_out(dst_dev.all(), dst)?;
    Ok(sums)
}

/// What the kernel told, once it is done.
pub fn read_result(stream: &Stream, result: cuda::DeviceSlice) -> Result<(u64, Sums)> {
    let mut bytes = [0; ChunkResult::BYTES as usize];
    stream.copy_out(result, &mut bytes)?;
    ChunkResult::from_bytes(&bytes).expect("as many bytes").checked()
}

/// Room for what a kernel tells.
pub fn result_buffer(stream: &Stream) -> Result<DeviceBuffer<'_>> {
    stream.alloc(ChunkResult::BYTES)
}
