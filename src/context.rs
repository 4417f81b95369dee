//! The caller's resources: threads, memory limit, and the back end to use.

use crate::backend;
use crate::memory::{self, Destination, Source};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::cpu::thread_cache;
use gridz_codecs::error::{Error, ErrorKind, Result, try_vec};
use gridz_codecs::settings::{self, Backend, CpuLevel, Gpus, Settings};
use gridz_cuda::{self, Device};

/// Checks that the `GRIDZ_*` environment variables are valid on this machine.
///
/// # Errors
/// `InvalidArgument` with the name of the invalid variable.
pub fn check_environment() -> Result<()> {
    Isa::choose(settings::checked()?.cpu_level).map(|_| ())
}

/// Checks that the back end that `GRIDZ_*` requires is available. A caller that can still report
/// errors should call this first: if the GPU is required but missing, it gets an error instead of a
/// silent fallback to the CPU.
///
/// # Errors
/// `InvalidArgument` for an invalid environment variable, `Device` with the reason why there is no
/// GPU.
pub fn check_backend() -> Result<()> {
    check_environment()?;
    backend::check(settings::checked()?)
}

/// Frees memory that is cached for later calls: GPU memory, the calling thread's memory, and the
/// memory of each worker thread once the thread is idle.
pub fn release_caches() {
    thread_cache::release();
    Pool::when_idle(thread_cache::release);
    gridz_cuda::release_caches();
}

/// Without a limit by the caller, threads may use this much memory together to process chunks in
/// parallel. If that is not enough, all threads work on one chunk.
const DEFAULT_PARALLEL_BYTES: u64 = 4 << 30;

/// A caller's resources: threads and memory. `Default` means the pool of the process and no limit.
/// May be used from several threads at once.
#[derive(Debug, Default)]
pub struct Context {
    pool: Option<Pool>,
    memory_limit: Option<u64>,
    settings: Option<Settings>,
    /// Number of the only GPU that may be used.
    gpu: Option<u32>,
    /// Number of further threads that work on other chunks at the same time.
    n_others: usize,
}

impl Context {
    /// A context with its own `threads` workers (`None`: the pool of the process) that may allocate
    /// at most `memory_limit` bytes of working memory per call.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 threads or more than 1024.
    pub fn new(threads: Option<usize>, memory_limit: Option<u64>) -> Result<Self> {
        if let Some(n) = threads.filter(|n| !(1..=settings::MAX_THREADS).contains(n)) {
            let max = settings::MAX_THREADS;
            return Err(Error::invalid(format!("a context cannot have {n} threads; give 1 to {max}")));
        }
        Ok(Self { pool: threads.map(Pool::new), memory_limit, ..Self::default() })
    }

    /// A context that uses the default for each invalid environment variable. It is for readers,
    /// which must never fail because of a typo.
    pub fn lenient() -> Self {
        let mut settings = settings::or_default().clone();
        settings.cpu_level = settings.cpu_level.filter(|&level| Isa::choose(Some(level)).is_ok());
        Self { settings: Some(settings), ..Self::default() }
    }

    /// The same context for one back end, whatever `GRIDZ_BACKEND` says, and for GPU number
    /// `device`, counted from 0. `None`: gridz selects the GPU.
    ///
    /// # Errors
    /// `Device` if the back end is [`Backend::Cuda`] and no GPU can be used, `InvalidArgument` for
    /// a GPU that does not exist or an invalid environment variable.
    pub fn on(self, backend: Backend, device: Option<u32>) -> Result<Self> {
        let settings = self.settings()?;
        let gpus = device.map_or(settings.gpus, Gpus::Number);
        let settings = Settings { backend, gpus, ..settings.clone() };
        backend::check(&settings)?;
        Ok(Self { settings: Some(settings), gpu: device, ..self })
    }

    /// The same context for all usable GPUs. Chunks of a call in host memory are distributed among
    /// them.
    ///
    /// # Errors
    /// As [`Context::on`].
    pub fn on_all_gpus(self) -> Result<Self> {
        let settings = Settings { backend: Backend::Cuda, gpus: Gpus::All, ..self.settings()?.clone() };
        backend::check(&settings)?;
        Ok(Self { settings: Some(settings), gpu: None, ..self })
    }

    /// The same context with only the CPU instructions of one level, whatever `GRIDZ_CPU_LEVEL`
    /// says.
    ///
    /// # Errors
    /// `InvalidArgument` if the CPU does not support them, or for an invalid environment variable.
    pub fn with_level(self, level: CpuLevel) -> Result<Self> {
        Isa::choose(Some(level))?;
        let settings = Settings { cpu_level: Some(level), ..self.settings()?.clone() };
        Ok(Self { settings: Some(settings), ..self })
    }

    /// A context of one thread, for code that gives each thread of this context its own chunk.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid environment variable.
    pub fn of_one_thread(&self) -> Result<Self> {
        let settings = Some(self.settings()?.clone());
        let n_others = self.n_threads() - 1;
        Ok(Self { pool: Some(Pool::new(1)), memory_limit: self.memory_limit, settings, gpu: self.gpu, n_others })
    }

    /// Number of threads that work at the same time, on this chunk or on others.
    pub(super) fn n_threads(&self) -> usize {
        self.pool().threads() + self.n_others
    }

    /// The context's settings or those of the process.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid environment variable.
    pub(super) fn settings(&self) -> Result<&Settings> {
        match &self.settings {
            Some(settings) => Ok(settings),
            None => settings::checked(),
        }
    }

    /// The device that owns the source or the destination. `None`: both are in host memory, and a
    /// GPU is available if one is required.
    ///
    /// # Errors
    /// `Device`; `InvalidArgument` for memory of two GPUs or of another GPU than the context's.
    pub(super) fn device_of(&self, src: &Source, dst: &Destination) -> Result<Option<&'static Device>> {
        let device = memory::device_of(src, dst)?;
        match device {
            Some(device) => self.check_device(device)?,
            None => backend::check(self.settings()?)?,
        }
        Ok(device)
    }

    /// Checks that memory of `device` may be used in this context.
    ///
    /// # Errors
    /// `InvalidArgument` if the context is for another GPU.
    pub(super) fn check_device(&self, device: &Device) -> Result<()> {
        let ordinal = device.gpu().ordinal;
        match self.gpu {
            Some(gpu) if gpu != ordinal => Err(Error::invalid(format!(
                "the context was created for GPU {gpu} (device = {}), but the call uses memory or a stream of GPU \
                 {ordinal}; use a context for that GPU",
                gpu + 1
            ))),
            _ => Ok(()),
        }
    }

    /// The context's workers or those of the process.
    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    /// The CPU instructions to use.
    ///
    /// # Errors
    /// `InvalidArgument` for a level that the CPU does not support.
    pub fn level(&self) -> Result<Isa> {
        Isa::choose(self.settings()?.cpu_level)
    }

    /// Maximum total size in bytes of the arrays in a batch. Several batches are in flight, each
    /// with its frames.
    pub(super) fn batch_bytes(&self) -> u64 {
        self.memory_limit.map_or(u64::MAX, |limit| limit / 8)
    }

    /// True if all threads together may allocate this many bytes.
    pub(super) fn affords(&self, n_bytes: u64) -> bool {
        n_bytes <= self.memory_limit.unwrap_or(DEFAULT_PARALLEL_BYTES)
    }

    /// Zeroed working memory.
    pub(super) fn scratch(&self, n_bytes: usize) -> Result<Vec<u8>> {
        let need = n_bytes as u64;
        if let Some(limit) = self.memory_limit.filter(|&limit| limit < need) {
            let text = format!("{need} bytes of working memory exceed the limit of the context, {limit}");
            return Err(Error::new(ErrorKind::OutOfMemory, text));
        }
        let mut bytes = try_vec(n_bytes, "working memory")?;
        bytes.resize(n_bytes, 0);
        Ok(bytes)
    }
}
