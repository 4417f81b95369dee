//! Selects the back end for a chunk, and falls back to the CPU if the GPU cannot do the work.

use std::borrow::Cow;

use crate::context::Context;
use crate::kernels;
use gridz_codecs::codec::registry::{CODECS, Entry, STORED};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::{self, Backend, Gpus, LogLevel, Settings};
use gridz_cuda::Device;

/// With `auto`, a program that already uses a GPU gets it for chunks in host memory with at least
/// this many raw bytes.
const AUTO_BYTES: u64 = 4 << 20;
/// With `auto`, the CPU processes chunks in host memory if it has at least this many threads,
/// because copies take most of the GPU's time. On an H200 host, the GPU compresses at 5 GB/s and
/// decompresses at 5 GB/s with one thread, and at 12 and 15 GB/s with four. The CPU (AVX-512)
/// reaches 5 and 3 GB/s, or 15 and 12 GB/s.
const AUTO_THREADS: usize = 4;

/// Result of work on a GPU.
pub enum Attempt<R> {
    /// The GPU has done the work.
    Done(R),
    /// There are no kernels for it, for the given reason. Nothing was done.
    Unsupported(Cow<'static, str>),
}

impl<R> Attempt<R> {
    /// Continues the work with its first part's result.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn and_then<T>(self, next: impl FnOnce(R) -> Result<T>) -> Result<Attempt<T>> {
        match self {
            Self::Done(result) => next(result).map(Attempt::Done),
            Self::Unsupported(reason) => Ok(Attempt::Unsupported(reason)),
        }
    }
}

/// True if this library has kernels of the codec and this machine has a GPU for them. Asks the
/// driver, without creating a CUDA context.
pub fn gpu_available(entry: &Entry) -> bool {
    let is_usable = || gridz_cuda::gpus().is_ok_and(|gpus| gpus.iter().any(|gpu| gpu.check_usable().is_ok()));
    entry.gpu.is_some() && kernels::find(entry.name).is_ok() && is_usable()
}

/// Checks that a GPU can be used, if one is required.
///
/// # Errors
/// `Device` with the reason.
pub fn check(settings: &Settings) -> Result<()> {
    if settings.backend != Backend::Cuda {
        return Ok(());
    }
    let because = |error: Error| Error::new(error.kind(), format!("the required GPU cannot be used: {error}"));
    // This runs in every call, so no list is allocated for a single GPU.
    let found = match settings.gpus {
        Gpus::All => Device::all().map(drop),
        _ => Device::choose(settings).and_then(|device| device.enter().map(drop)),
    };
    found.map_err(because)?;
    // A library built without kernels has none for any codec.
    CODECS
        .iter()
        .filter(|entry| entry.gpu.is_some())
        .try_for_each(|entry| kernels::find(entry.name).map(|_| ()).map_err(because))
}

/// The GPUs that `choose` selects for `raw_bytes` bytes in host memory, if the CPU has `threads`
/// threads. `None`: the CPU should do the work, or there is no GPU.
///
/// # Errors
/// `Device`, `InvalidArgument` if the GPU is required.
pub fn for_host_memory<R>(
    settings: &Settings,
    raw_bytes: u64,
    threads: usize,
    choose: impl FnOnce(&Settings) -> Result<R>,
) -> Result<Option<R>> {
    let use_gpu = match settings.backend {
        Backend::Cpu => false,
        Backend::Cuda => true,
        // A CUDA context costs a second and hundreds of megabytes: no program gets one unasked.
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
/// `Device`, `InvalidArgument` if the GPU is required.
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
        // Stored bytes are only copied, which is fastest in place.
        None if entry.id == STORED => Ok(None),
        None => for_host_memory(settings, raw_bytes, context.pool().threads(), Device::in_turn),
    }
}

/// The result of `attempt`, or `None` if the CPU must do the work: if the GPU failed and is not
/// required, or if there are no kernels. In the latter case, stderr gets a warning if the GPU is
/// required.
///
/// # Errors
/// Errors that the CPU would report too; all errors if the GPU is required.
pub fn or_cpu<R>(settings: &Settings, attempt: Result<Attempt<R>>) -> Result<Option<R>> {
    let is_required = settings.backend == Backend::Cuda;
    match attempt {
        Ok(Attempt::Done(result)) => Ok(Some(result)),
        Ok(Attempt::Unsupported(reason)) => {
            if is_required {
                settings::warn(&format!(
                    "{reason}; the GPU is required, but the CPU does this part (the bytes are the same)"
                ));
            } else {
                settings::log(LogLevel::Debug, || format!("{reason}; the CPU does this part"));
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
