//! Which back end does a chunk: the choice, and what happens where the GPU cannot.

use std::borrow::Cow;

use crate::context::Context;
use crate::kernels;
use gridz_codecs::codec::registry::{CODECS, Entry, STORED};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::{self, Backend, Gpus, LogLevel, Settings};
use gridz_cuda::Device;

/// With `auto`, a program that uses a GPU anyway gets it for chunks of so many raw bytes …
const AUTO_BYTES: u64 = 4 << 20;
/// … unless the CPU has so many threads. Copies take most of the GPU's time: on an H200 host it compresses at 5 GB/s
/// and decompresses at 5 with one thread, at 12 and 15 with four, and the CPU (AVX-512) at 5 and 3, or 15 and 12.
const AUTO_THREADS: usize = 4;

/// What came of asking a GPU.
pub enum Attempt<R> {
    /// It is done.
    Done(R),
    /// There are no kernels for it; nothing was done.
    Unsupported(Cow<'static, str>),
}

/// Whether this library has a codec's kernels, and this machine a GPU for them. Asks the driver, without making a CUDA
/// context.
pub fn gpu_available(entry: &Entry) -> bool {
    let is_usable = || gridz_cuda::gpus().is_ok_and(|gpus| gpus.iter().any(|gpu| gpu.check_usable().is_ok()));
    entry.gpu.is_some() && kernels::find(entry.name).is_ok() && is_usable()
}

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
    // Every call passes here, and one GPU needs no list.
    let found = match settings.gpus {
        Gpus::All => Device::all().map(drop),
        _ => Device::choose(settings).and_then(|device| device.enter().map(drop)),
    };
    found.map_err(because)?;
    // A library built without kernels has them for no codec.
    CODECS
        .iter()
        .filter(|entry| entry.gpu.is_some())
        .try_for_each(|entry| kernels::find(entry.name).map(|_| ()).map_err(because))
}

/// What GPUs `choose` finds for `raw_bytes` in host memory, where the CPU has `threads`. `None`: the CPU is to do it, because it
/// should or because there is no GPU.
///
/// # Errors
/// `Device`, `InvalidArgument` where the GPU is required.
pub fn for_host_memory<R>(
    settings: &Settings,
    raw_bytes: u64,
    threads: usize,
    choose: impl FnOnce(&Settings) -> Result<R>,
) -> Result<Option<R>> {
    let use_gpu = match settings.backend {
        Backend::Cpu => false,
        Backend::Cuda => true,
        // A context costs a second and hundreds of megabytes: no program gets one unasked.
        Backend::Auto => raw_bytes >= AUTO_BYTES && threads < AUTO_THREADS && gridz_cuda::is_active(),
    };
    if !use_gpu {
        return Ok(None);
    }
    match choose(settings) {
        Ok(found) => Ok(Some(found)),
        Err(error) if settings.backend == Backend::Cuda => Err(error),
        Err(error) => {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
    }
}

/// The device that compresses or decompresses one chunk with `raw_bytes` bytes; `None` for the CPU.
/// `memory_of` is the device that owns the chunk's source or destination.
///
/// # Errors
/// `Device`, `InvalidArgument` where the GPU is required.
pub fn of_chunk(
    settings: &Settings,
    memory_of: Option<&'static Device>,
    entry: &Entry,
    raw_bytes: u64,
    context: &Context,
) -> Result<Option<&'static Device>> {
    match memory_of {
        Some(_) if settings.backend == Backend::Cpu => Ok(None),
        Some(device) => Ok(Some(device)),
        // Bytes that are only copied are copied fastest in place.
        None if entry.id == STORED => Ok(None),
        None => for_host_memory(settings, raw_bytes, context.pool().threads(), Device::in_turn),
    }
}

/// What came of an `attempt`, or `None` for the CPU to do it: where the GPU failed and is not required, and where it
/// has no kernels, which somebody who requires it reads on stderr.
///
/// # Errors
/// What the CPU would find too; where the GPU is required, all.
pub fn or_cpu<R>(settings: &Settings, attempt: Result<Attempt<R>>) -> Result<Option<R>> {
    let is_required = settings.backend == Backend::Cuda;
    match attempt {
        Ok(Attempt::Done(result)) => Ok(Some(result)),
        Ok(Attempt::Unsupported(reason)) => {
            if is_required {
                settings::warn(&format!(
                    "{reason}; the GPU is required, but the CPU does it (the bytes are the same)"
                ));
            } else {
                settings::log(LogLevel::Debug, || format!("{reason}; the CPU does it"));
            }
            Ok(None)
        }
        Err(error) if !is_required && matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory) => {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
