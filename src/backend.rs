//! Selects the back end for a chunk, and falls back to the CPU if the GPU cannot do the work.

use std::borrow::Cow;

use crate::context::Context;
use crate::kernels;
use crate::prepared::Prepared;
use crate::staging;
use gridz_codecs::codec::Speeds;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::registry::{CODECS, Entry, STORED};
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::settings::{self, Backend, Gpus, LogLevel, Settings};
use gridz_cuda::Device;

/// With `auto`, a program that already uses a GPU gets it for chunks in host memory with at least
/// this many raw bytes.
const AUTO_BYTES: u64 = 4 << 20;
// Speeds of copies between host and GPU, in GB/s of raw data, measured on the host of an H200 (PCIe 5).
/// Of pinned memory.
pub const PINNED_SPEED: f32 = 45.0;
/// Of pageable memory: for each CPU thread, and the maximum of all threads.
const STAGED_SPEED_PER_THREAD: f32 = 4.0;
const MAX_STAGED_SPEED: f32 = 30.0;

/// Work on chunks in host memory.
pub struct HostWork {
    /// Raw bytes of all chunks.
    pub raw_bytes: u64,
    pub direction: Direction,
    /// Speeds of the codec.
    pub speeds: Speeds,
    /// Number of CPU threads.
    pub threads: usize,
    pub copies: Copies,
}

/// Copies of host memory to a GPU and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Of pinned memory, in batches both ways at the same time.
    Pinned,
    /// Of pageable memory, by all threads, in batches both ways at the same time.
    Staged,
    /// Of one chunk, one after the other.
    Single,
}

impl Copies {
    /// Their speed in GB/s of raw data.
    fn speed(self, raw_bytes: u64, threads: usize) -> f32 {
        let staged = (STAGED_SPEED_PER_THREAD * threads as f32).min(MAX_STAGED_SPEED);
        match self {
            Self::Pinned => PINNED_SPEED,
            Self::Staged => staged,
            Self::Single if raw_bytes >= staging::PARALLEL_BYTES as u64 => staged / 2.0,
            Self::Single => STAGED_SPEED_PER_THREAD,
        }
    }
}

impl HostWork {
    /// True if a GPU does the work faster than the CPU threads.
    fn is_faster_on_gpu(&self) -> bool {
        let (threads, direction) = (self.threads as f32, self.direction as usize);
        let copies = self.copies.speed(self.raw_bytes, self.threads);
        let gpu = self.speeds.slow_kernels.map_or(copies, |kernels| kernels[direction].min(copies));
        self.raw_bytes >= AUTO_BYTES && gpu > self.speeds.core[direction] * threads
    }
}

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

/// The GPUs that `choose` selects for `work`. `None`: the CPU should do it, or there is no GPU.
///
/// # Errors
/// `Device`, `InvalidArgument` if the GPU is required.
pub fn for_host_memory<R>(
    settings: &Settings,
    work: &HostWork,
    choose: impl FnOnce(&Settings) -> Result<R>,
) -> Result<Option<R>> {
    let use_gpu = match settings.backend {
        Backend::Cpu => false,
        Backend::Cuda => true,
        // A CUDA context costs a second and hundreds of megabytes: no program gets one unasked.
        Backend::Auto => work.is_faster_on_gpu() && gridz_cuda::is_active(),
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

/// The device that compresses or decompresses one chunk; `None` for the CPU. `memory_of` is the
/// device that owns the chunk's source or destination.
///
/// # Errors
/// `Device`, `InvalidArgument` if the GPU is required.
pub fn of_chunk(
    settings: &Settings,
    memory_of: Option<&'static Device>,
    (prepared, direction): (&Prepared, Direction),
    raw_bytes: u64,
    context: &Context,
) -> Result<Option<&'static Device>> {
    match memory_of {
        Some(_) if settings.backend == Backend::Cpu => Ok(None),
        Some(device) => Ok(Some(device)),
        // Stored bytes are only copied, which is fastest in place.
        None if prepared.entry.id == STORED => Ok(None),
        None => {
            let (speeds, threads) = (prepared.speeds(), context.n_threads());
            let work = HostWork { raw_bytes, direction, speeds, threads, copies: Copies::Single };
            for_host_memory(settings, &work, Device::in_turn)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_processor_does_the_work() {
        const LARGE: u64 = 1 << 30;
        const FAST: Speeds = Speeds::of_core(2.5, 2.5);
        const SLOW: Speeds = Speeds::of_core(0.2, 0.2);
        const SLOW_KERNELS: Speeds = Speeds { slow_kernels: Some([0.3, 20.0]), ..SLOW };
        for (speeds, raw_bytes, threads, copies, is_on_gpu) in [
            (FAST, LARGE, 1, Copies::Staged, true),
            (FAST, LARGE, 16, Copies::Staged, false),
            (FAST, LARGE, 16, Copies::Pinned, true),
            (SLOW, LARGE, 16, Copies::Staged, true),
            // Copies of one chunk are slower.
            (SLOW, AUTO_BYTES, 16, Copies::Single, true),
            (SLOW, AUTO_BYTES, 32, Copies::Single, false),
            (FAST, AUTO_BYTES, 1, Copies::Single, true),
            (FAST, AUTO_BYTES, 2, Copies::Single, false),
            (SLOW, AUTO_BYTES - 1, 1, Copies::Pinned, false),
            (SLOW_KERNELS, LARGE, 1, Copies::Pinned, true),
            (SLOW_KERNELS, LARGE, 2, Copies::Pinned, false),
        ] {
            let work = HostWork { raw_bytes, direction: Direction::Compress, speeds, threads, copies };
            assert_eq!(work.is_faster_on_gpu(), is_on_gpu, "{speeds:?} {raw_bytes} {threads} {copies:?}");
        }
        let work = HostWork {
            raw_bytes: LARGE,
            direction: Direction::Decompress,
            speeds: SLOW_KERNELS,
            threads: 16,
            copies: Copies::Pinned,
        };
        assert!(work.is_faster_on_gpu());
    }
}
