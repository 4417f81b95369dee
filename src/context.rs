//! What a caller brings along: threads, memory, and where to work.

use crate::backend;
use crate::memory::{self, Destination, Source};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::cpu::thread_cache;
use gridz_codecs::error::{Error, ErrorKind, Result, try_vec};
use gridz_codecs::settings::{self, Backend, CpuLevel, Gpus, Settings};
use gridz_cuda::{self, Device};

/// Whether the `GRIDZ_*` variables can be used on this machine.
///
/// # Errors
/// `InvalidArgument` naming the one that cannot.
pub fn check_environment() -> Result<()> {
    Isa::choose(settings::checked()?.cpu_level).map(|_| ())
}

/// Whether what `GRIDZ_*` demands is there, for those who can still tell somebody: who demands the GPU
/// gets an error where there is none, never the CPU in silence.
///
/// # Errors
/// `InvalidArgument` for an environment variable that cannot be used, `Device` saying why there is no
/// GPU.
pub fn check_backend() -> Result<()> {
    check_environment()?;
    backend::check(settings::checked()?)
}

/// Frees memory that is kept for later calls: GPU memory, the calling thread's memory, and the memory of each worker thread
/// once the thread is idle.
pub fn release_caches() {
    thread_cache::release();
    Pool::when_idle(thread_cache::release);
    gridz_cuda::release_caches();
}

/// What threads that work side by side may take, where nobody has set a limit: else they do one thing together.
const MOST_OF_THREADS: u64 = 4 << 30;

/// Resources of a caller: threads and memory. `Default` means the pool of the process and no limit.
/// May be used from several threads at once.
#[derive(Debug, Default)]
pub struct Context {
    pool: Option<Pool>,
    memory_limit: Option<u64>,
    settings: Option<Settings>,
    /// The only GPU that it was made for.
    gpu: Option<u32>,
}

impl Context {
    /// A context with its own `threads` workers (`None`: the pool of the process) that may allocate at
    /// most `memory_limit` bytes of working memory per call.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 threads or more than 1024.
    pub fn new(threads: Option<usize>, memory_limit: Option<u64>) -> Result<Self> {
        if threads.is_some_and(|n| !(1..=settings::MAX_THREADS).contains(&n)) {
            let max = settings::MAX_THREADS;
            return Err(Error::invalid(format!("a context has 1 to {max} threads")));
        }
        Ok(Self { pool: threads.map(Pool::new), memory_limit, ..Self::default() })
    }

    /// A context that takes the defaults where an environment variable cannot be used: for readers, which must
    /// never fail over a typo.
    pub fn lenient() -> Self {
        let mut settings = settings::or_default().clone();
        settings.cpu_level = settings.cpu_level.filter(|&level| Isa::choose(Some(level)).is_ok());
        Self { settings: Some(settings), ..Self::default() }
    }

    /// The same context for one back end, whatever `GRIDZ_BACKEND` says, and for GPU `device`, counted from
    /// 0, or the one that gridz chooses.
    ///
    /// # Errors
    /// `Device` if that is [`Backend::Cuda`] and no GPU can be used, `InvalidArgument` for one that is not
    /// there or an environment variable that cannot be used.
    pub fn on(self, backend: Backend, device: Option<u32>) -> Result<Self> {
        let settings = self.settings()?;
        let gpus = device.map_or(settings.gpus, Gpus::Number);
        let settings = Settings { backend, gpus, ..settings.clone() };
        backend::check(&settings)?;
        Ok(Self { settings: Some(settings), gpu: device, ..self })
    }

    /// The same context for all GPUs that can be used: many chunks in host memory are dealt to them.
    ///
    /// # Errors
    /// As [`Context::on`].
    pub fn on_all_gpus(self) -> Result<Self> {
        let settings = Settings { backend: Backend::Cuda, gpus: Gpus::All, ..self.settings()?.clone() };
        backend::check(&settings)?;
        Ok(Self { settings: Some(settings), gpu: None, ..self })
    }

    /// The same context with only the instructions of one level, whatever `GRIDZ_CPU_LEVEL` says.
    ///
    /// # Errors
    /// `InvalidArgument` if the CPU does not have them or an environment variable cannot be used.
    pub fn with_level(self, level: CpuLevel) -> Result<Self> {
        Isa::choose(Some(level))?;
        let settings = Settings { cpu_level: Some(level), ..self.settings()?.clone() };
        Ok(Self { settings: Some(settings), ..self })
    }

    /// The same context with the calling thread alone.
    ///
    /// # Errors
    /// `InvalidArgument` for an environment variable that cannot be used.
    pub fn of_one_thread(&self) -> Result<Self> {
        let settings = Some(self.settings()?.clone());
        Ok(Self { pool: Some(Pool::new(1)), memory_limit: self.memory_limit, settings, gpu: self.gpu })
    }

    /// The context's settings or those of the process.
    ///
    /// # Errors
    /// `InvalidArgument` for an environment variable that cannot be used.
    pub(super) fn settings(&self) -> Result<&Settings> {
        match &self.settings {
            Some(settings) => Ok(settings),
            None => settings::checked(),
        }
    }

    /// The device whose memory source or destination is. `None`: both are in host memory, and a GPU is there if one
    /// is required.
    ///
    /// # Errors
    /// `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
    pub(super) fn device_of(&self, src: &Source, dst: &Destination) -> Result<Option<&'static Device>> {
        let device = memory::device_of(src, dst)?;
        match device {
            Some(device) => self.check_device(device)?,
            None => backend::check(self.settings()?)?,
        }
        Ok(device)
    }

    /// Whether memory of `device` may be used in this context.
    ///
    /// # Errors
    /// `InvalidArgument` if it was made for another GPU.
    pub(super) fn check_device(&self, device: &Device) -> Result<()> {
        let ordinal = device.gpu().ordinal;
        match self.gpu {
            Some(gpu) if gpu != ordinal => Err(Error::invalid(format!(
                "the context was made for GPU {gpu} (device = {}), but the call is about GPU {ordinal}; use a context \
                 for that one",
                gpu + 1
            ))),
            _ => Ok(()),
        }
    }

    /// Its workers or those of the process.
    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap_or_else(|| Pool::global())
    }

    /// The instructions to use.
    ///
    /// # Errors
    /// `InvalidArgument` for a level that the CPU does not have.
    pub fn level(&self) -> Result<Isa> {
        Isa::choose(self.settings()?.cpu_level)
    }

    /// Bytes of arrays in a batch at most: several are on their way, each with its frames.
    pub(super) fn batch_bytes(&self) -> u64 {
        self.memory_limit.map_or(u64::MAX, |limit| limit / 8)
    }

    /// Whether so many bytes may be allocated by all threads together.
    pub(super) fn affords(&self, n_bytes: u64) -> bool {
        n_bytes <= self.memory_limit.unwrap_or(MOST_OF_THREADS)
    }

    /// Working memory, zeroed.
    pub(super) fn scratch(&self, n_bytes: usize) -> Result<Vec<u8>> {
        let need = n_bytes as u64;
        if let Some(limit) = self.memory_limit.filter(|&limit| limit < need) {
            let text = format!("{need} bytes of working memory are over the context's limit of {limit}");
            return Err(Error::new(ErrorKind::OutOfMemory, text));
        }
        let mut bytes = try_vec(n_bytes, "working memory")?;
        bytes.resize(n_bytes, 0);
        Ok(bytes)
    }
}
