//! The environment variables, read once per process.
//!
//! An unknown value is an error if the caller can report it (dataset creation, the C API). On
//! decode it is only a warning, because a reader must never fail because of a typo.

use std::collections::BTreeSet;
use std::env::{self, VarError};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::race::OnceBox;

use crate::error::{Error, Result};

/// How much `GRIDZ_LOG` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only warnings.
    Quiet,
    /// One line per dataset or context.
    Info,
    /// One line per chunk.
    Debug,
}

/// Value of `GRIDZ_BACKEND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The best available backend; never an error.
    Auto,
    /// Only the CPU.
    Cpu,
    /// Only the GPU; an error if no GPU is available.
    Cuda,
}

/// Value of `GRIDZ_CPU_LEVEL`: the instruction set of the CPU codecs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLevel {
    /// Only the instructions that every CPU of the architecture has.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 with VBMI2 and GFNI.
    Avx512,
}

impl CpuLevel {
    /// The name in `GRIDZ_CPU_LEVEL`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Scalar, Self::Avx2, Self::Avx512].into_iter().find(|level| level.name() == name)
    }
}

/// The GPUs to use. Numbers start at 0, in CUDA's order of the GPUs that are visible to the
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gpus {
    /// The program's current CUDA device if it has one, else one GPU per local MPI rank.
    Programs,
    /// The GPU with this number.
    Number(u32),
    /// All usable GPUs.
    All,
}

/// The settings of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `GRIDZ_THREADS`: worker threads; `None` = available cores ÷ local MPI ranks.
    pub threads: Option<usize>,
    /// `GRIDZ_LOG`.
    pub log: LogLevel,
    /// `GRIDZ_BACKEND`.
    pub backend: Backend,
    /// `GRIDZ_DEVICE`.
    pub gpus: Gpus,
    /// `GRIDZ_CPU_LEVEL`; `None` = the best one.
    pub cpu_level: Option<CpuLevel>,
    /// `GRIDZ_CACHE_MIB` in bytes: the unused memory that may stay allocated on each GPU, and the
    /// unused pinned memory; `None` = 1 GiB ÷ local MPI ranks.
    pub cache_bytes: Option<u64>,
}

/// Largest number of worker threads that can be requested.
pub const MAX_THREADS: usize = 1024;

const DEFAULT: Settings = Settings {
    threads: None,
    log: LogLevel::Quiet,
    backend: Backend::Auto,
    gpus: Gpus::Programs,
    cpu_level: None,
    cache_bytes: None,
};

/// The settings, or the reason why they are unusable.
///
/// # Errors
/// `InvalidArgument` naming the variable, its value and what is allowed.
pub fn checked() -> Result<&'static Settings> {
    // A race cell instead of a lock: if another thread holds a lock during a fork, it stays locked
    // in the child forever.
    static SETTINGS: OnceBox<Result<Settings>> = OnceBox::new();
    let read = || {
        // This is the first use of the library: record the state of descriptor 2.
        let _ = stderr();
        guard_panic_messages();
        Box::new(parse(|name| env::var(name)))
    };
    SETTINGS.get_or_init(read).as_ref().map_err(Clone::clone)
}

/// The settings; the defaults if they are unusable.
pub fn or_default() -> &'static Settings {
    checked().unwrap_or(&DEFAULT)
}

/// Prints one line to stderr if `GRIDZ_LOG` asks for `level`. `line` is called only in that case.
pub fn log(level: LogLevel, line: impl FnOnce() -> String) {
    if or_default().log >= level {
        print(&line());
    }
}

/// Prints one line to stderr, if it exists. `eprintln!` would panic if stderr is closed. It would
/// also take a lock, which may stay locked forever in a forked child.
pub fn print(line: &str) {
    if let Some(mut stderr) = stderr() {
        // One write, so that lines of several processes do not mix.
        let _ = stderr.write_all(format!("gridz: {line}\n").as_bytes());
    }
}

/// The process's stderr. `None` if descriptor 2 is closed or has become another file. In a program
/// that starts without a stderr, the first file that it opens gets descriptor 2, and text would
/// overwrite that file's data.
///
/// Three signs of such a file are known. Descriptor 2 was closed when this library was first used.
/// Or it is closed on exec, which an inherited descriptor cannot be. Or it is a named file opened
/// for reading and writing: HDF5 opens files like that, a redirection of output does not.
fn stderr() -> Option<File> {
    static WAS_OPEN: OnceBox<bool> = OnceBox::new();
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().ok().map(File::from);
    let was_open = *WAS_OPEN.get_or_init(|| Box::new(stderr.is_some()));
    stderr
        .filter(|file| was_open && is_stderr(file, &fs::read_to_string("/proc/self/fdinfo/2").unwrap_or_default()))
}

/// True if a file on descriptor 2 can be the process's stderr; `info` is the content of
/// `/proc/self/fdinfo/2`.
fn is_stderr(file: &File, info: &str) -> bool {
    const ACCESS: u32 = 3;
    const WRITE_ONLY: u32 = 1;
    const APPEND: u32 = 0o2_000;
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let Ok(of) = file.metadata() else { return false };
    // Test runners capture stderr in files that they have unlinked. So a file without links is taken
    // for such a file, and not for data.
    let may_hold_data = (of.is_file() && of.nlink() > 0) || of.file_type().is_block_device();
    match flags {
        Some(flags) => {
            let is_log = flags & ACCESS == WRITE_ONLY || flags & APPEND != 0;
            flags & CLOSE_ON_EXEC == 0 && (!may_hold_data || is_log)
        }
        None => !may_hold_data,
    }
}

/// Installs a panic hook that prints nothing if there is no stderr, and otherwise calls the
/// previous hook.
fn guard_panic_messages() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if std::thread::panicking() || IS_DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if stderr().is_some() {
            print(panic);
        }
    }));
}

/// Largest number of distinct lines that [`warn`] prints in one process.
const MAX_WARNINGS: usize = 64;

/// Prints `text` to stderr unless this process has already printed it.
pub fn warn(text: &str) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // Never wait: after a fork, a thread that no longer exists may hold the lock.
    let is_last = match SEEN.try_lock() {
        Ok(mut seen) => {
            if seen.len() >= MAX_WARNINGS || !seen.insert(text.to_owned()) {
                return;
            }
            seen.len() == MAX_WARNINGS
        }
        Err(_) => false,
    };
    print(text);
    if is_last {
        print("further messages are not shown");
    }
}

fn parse(get: impl Fn(&str) -> std::result::Result<String, VarError>) -> Result<Settings> {
    let get = |name: &str| match get(name) {
        Ok(value) => Ok(Some(value).filter(|v| !v.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => Err(unknown(name, &value.to_string_lossy(), "plain text")),
    };
    let mut settings = DEFAULT;
    if let Some(value) = get("GRIDZ_THREADS")? {
        let threads = value.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
        settings.threads =
            Some(threads.ok_or_else(|| {
                unknown("GRIDZ_THREADS", &value, &format!("a whole number from 1 to {MAX_THREADS}"))
            })?);
    }
    if let Some(value) = get("GRIDZ_LOG")? {
        settings.log = match value.as_str() {
            "info" => LogLevel::Info,
            "debug" => LogLevel::Debug,
            _ => return Err(unknown("GRIDZ_LOG", &value, "info or debug")),
        };
    }
    if let Some(value) = get("GRIDZ_BACKEND")? {
        settings.backend = match value.as_str() {
            "auto" => Backend::Auto,
            "cpu" => Backend::Cpu,
            "cuda" => Backend::Cuda,
            _ => return Err(unknown("GRIDZ_BACKEND", &value, "auto, cpu or cuda")),
        };
    }
    if let Some(value) = get("GRIDZ_DEVICE")? {
        settings.gpus = match (value.as_str(), value.parse()) {
            ("all", _) => Gpus::All,
            (_, Ok(number)) => Gpus::Number(number),
            _ => return Err(unknown("GRIDZ_DEVICE", &value, "the number of a GPU, 0 or more, or all")),
        };
    }
    if let Some(value) = get("GRIDZ_CACHE_MIB")? {
        let bytes = value.parse().ok().and_then(|mib: u64| mib.checked_mul(1 << 20));
        let allowed = || format!("a whole number of MiB from 0 to {}", u64::MAX >> 20);
        settings.cache_bytes = Some(bytes.ok_or_else(|| unknown("GRIDZ_CACHE_MIB", &value, &allowed()))?);
    }
    if let Some(value) = get("GRIDZ_CPU_LEVEL")? {
        let level = CpuLevel::from_name(&value);
        let level = level.ok_or_else(|| unknown("GRIDZ_CPU_LEVEL", &value, "scalar, avx2 or avx512"))?;
        settings.cpu_level = Some(level);
    }
    Ok(settings)
}

fn unknown(name: &str, value: &str, allowed: &str) -> Error {
    Error::invalid(format!("{name}={value} is not valid; use {allowed}, or unset it"))
}

/// MPI ranks on this node, which share its cores and its GPUs' memory; 1 if no launcher reports a
/// number.
pub fn local_ranks() -> usize {
    ranks_of(|name| env::var(name).ok())
}

/// The number of this process among the local ranks, from 0.
pub fn local_rank() -> usize {
    rank_of(|name| env::var(name).ok())
}

fn ranks_of(get: impl Fn(&str) -> Option<String>) -> usize {
    // The Slurm variable is that of a step. In a batch script, the variables of the job count tasks
    // that do not run.
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"];
    launcher(&names, get).filter(|&n| n > 0).unwrap_or(1)
}

fn rank_of(get: impl Fn(&str) -> Option<String>) -> usize {
    launcher(&["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"], get).unwrap_or(0)
}

/// The number in the first launcher variable that is set. The names are those of Open MPI, of MPICH
/// (Hydra) and its relatives, and of Slurm.
fn launcher(names: &[&str], get: impl Fn(&str) -> Option<String>) -> Option<usize> {
    names.iter().find_map(|name| get(name).and_then(|value| leading_number(&value)))
}

/// The leading number of a value: Slurm writes `8(x2),4` for eight tasks on each of the first two
/// nodes and four on the next.
fn leading_number(value: &str) -> Option<usize> {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests each kind of file that can be on descriptor 2, stderr or not.
    #[test]
    fn stderr_is_distinguished_from_data() {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let captured = tempfile::tempfile().unwrap();
        let terminal = File::open("/dev/null").unwrap();
        for (file, flags, expected) in [
            (&log, "0100001", true),
            (&log, "0102001", true),
            (&log, "0100002", false),
            (&log, "0100000", false),
            (&log, "0102002", true),
            (&captured, "0100002", true),
            (&captured, "02100002", false),
            (&log, "02100001", false),
            (&terminal, "0100002", true),
            (&terminal, "0100001", true),
            (&terminal, "02100002", false),
        ] {
            let info = format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\n");
            assert_eq!(is_stderr(file, &info), expected, "{flags}");
        }
        assert!(!is_stderr(&log, "") && is_stderr(&terminal, ""));
        assert!(stderr().is_some());
    }

    fn with(vars: &[(&str, &str)]) -> Result<Settings> {
        parse(|name| {
            let found = vars.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned()).ok_or(VarError::NotPresent)
        })
    }

    #[test]
    fn unset_and_empty_mean_the_defaults() {
        assert_eq!(with(&[]).unwrap(), DEFAULT);
        assert_eq!(with(&[("GRIDZ_THREADS", ""), ("GRIDZ_LOG", "")]).unwrap(), DEFAULT);
    }

    #[test]
    fn known_values_are_taken() {
        let values = [
            ("GRIDZ_THREADS", "3"),
            ("GRIDZ_LOG", "debug"),
            ("GRIDZ_BACKEND", "cuda"),
            ("GRIDZ_DEVICE", "1"),
            ("GRIDZ_CACHE_MIB", "16"),
        ];
        let expected = Settings {
            threads: Some(3),
            log: LogLevel::Debug,
            backend: Backend::Cuda,
            gpus: Gpus::Number(1),
            cpu_level: None,
            cache_bytes: Some(16 << 20),
        };
        assert_eq!(with(&values).unwrap(), expected);
        assert_eq!(with(&[("GRIDZ_BACKEND", "cpu")]).unwrap().backend, Backend::Cpu);
        assert_eq!(with(&[("GRIDZ_BACKEND", "auto")]).unwrap(), DEFAULT);
        assert_eq!(with(&[("GRIDZ_DEVICE", "all")]).unwrap().gpus, Gpus::All);
        for level in [CpuLevel::Scalar, CpuLevel::Avx2, CpuLevel::Avx512] {
            assert_eq!(with(&[("GRIDZ_CPU_LEVEL", level.name())]).unwrap().cpu_level, Some(level));
        }
    }

    #[test]
    fn unknown_values_are_errors_that_name_the_variable() {
        for (name, value) in [
            ("GRIDZ_THREADS", "0"),
            ("GRIDZ_THREADS", "1025"),
            ("GRIDZ_THREADS", "many"),
            ("GRIDZ_LOG", "loud"),
            ("GRIDZ_BACKEND", "gpu"),
            ("GRIDZ_DEVICE", "-1"),
            ("GRIDZ_DEVICE", "a"),
            ("GRIDZ_DEVICE", "4294967296"),
            ("GRIDZ_CACHE_MIB", "1G"),
            ("GRIDZ_CACHE_MIB", "17592186044416"),
            ("GRIDZ_CPU_LEVEL", "AVX2"),
            ("GRIDZ_CPU_LEVEL", "sse2"),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert!(error.context().starts_with(&format!("{name}={value} ")), "{error}");
        }
    }

    #[test]
    fn launchers_tell_the_local_ranks() {
        let get = |vars: &'static [(&str, &str)]| {
            move |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())
        };
        let ranks = |vars| ranks_of(get(vars));
        assert_eq!(ranks(&[]), 1);
        assert_eq!(ranks(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), ("SLURM_STEP_TASKS_PER_NODE", "9")]), 4);
        assert_eq!(ranks(&[("MPI_LOCALNRANKS", "6")]), 6);
        assert_eq!(ranks(&[("SLURM_STEP_TASKS_PER_NODE", "8(x2),4")]), 8);
        assert_eq!(ranks(&[("MPI_LOCALNRANKS", "none")]), 1);
        assert_eq!(ranks(&[("MPI_LOCALNRANKS", "0")]), 1);
        // A batch script's own tasks do not run at the same time.
        assert_eq!(ranks(&[("SLURM_TASKS_PER_NODE", "8")]), 1);
        let rank = |vars| rank_of(get(vars));
        assert_eq!(rank(&[]), 0);
        assert_eq!(rank(&[("OMPI_COMM_WORLD_LOCAL_RANK", "3"), ("SLURM_LOCALID", "1")]), 3);
        assert_eq!(rank(&[("MPI_LOCALRANKID", "2")]), 2);
        assert_eq!(rank(&[("SLURM_LOCALID", "1")]), 1);
    }
}
