//! Builds the CUDA kernels.
//!
//! Every `kernels/<folder>/<name>.cu` becomes one fatbin that the library embeds as `<name>`. This
//! needs nvcc 13, but neither a GPU nor a driver. Without nvcc, the library works on the CPU only,
//! and a warning says so. Without the feature `cuda` nothing of this happens.
//!
//! | variable | values |
//! |---|---|
//! | `GRIDZ_CUDA` | `require`: no nvcc is an error; `off`: no kernels, no warning |
//! | `GRIDZ_CUDA_ARCHS` | `sm_*` and `compute_*` (PTX), or `all`; unset: sm_90 and PTX for the rest |
//! | `GRIDZ_CUDA_CHECK` | `1`: kernels that spill registers or keep arrays in local memory are an error |
//! | `GRIDZ_CUDA_CACHE` | folder for compiled kernels, shared by profiles and clones; unset: none is shared |
//! | `NVCC`, `CUDA_HOME`, `PATH` | location of nvcc; if unset, the one that `make cuda` installs |

use std::env;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::Mutex;
use std::thread;

/// SASS for the GPU that gridz is tuned on, PTX that the driver compiles for all others: quick to
/// build.
const DEFAULT_ARCHS: &str = "sm_90 compute_75";
/// SASS for every family that CUDA 13 supports. PTX of the newest family is for future GPUs, PTX of
/// the oldest one for the few in between.
const ALL_ARCHS: &str = "sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 compute_75 compute_120";

/// Folders whose files the kernels of all folders may include.
const SHARED: [&str; 2] = ["kernels/common", "kernels/stage"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(error) = kernels() {
        println!("cargo::error={error}");
        exit(1);
    }
}

/// Kernels that only tests use. The library does not contain them.
const FOR_TESTS: &str = "selftest";

/// Compiles the kernels and writes two files: `fatbins.rs`, which `src/kernels.rs` includes, and
/// `fatbin_for_tests.rs`, which `tests/common/selftest.rs` includes.
fn kernels() -> Result<(), String> {
    println!("cargo:rerun-if-changed=kernels");
    for name in [
        "GRIDZ_CUDA",
        "GRIDZ_CUDA_ARCHS",
        "GRIDZ_CUDA_CHECK",
        "GRIDZ_CUDA_CACHE",
        "NVCC",
        "NVCC_APPEND_FLAGS",
        "CUDA_HOME",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut for_tests = "None".to_owned();
    let mut fatbins = String::new();
    let mut table = String::new();
    let nvcc = if env::var_os("CARGO_FEATURE_CUDA").is_some() { choose_nvcc()? } else { None };
    if let Some(nvcc) = nvcc {
        let sources = sources()?;
        let fatbin_of = |source: &Path| out.join(source.with_extension("fatbin").file_name().unwrap_or_default());
        compile_all(&nvcc, &sources, fatbin_of)?;
        for source in &sources {
            let name = source.file_stem().and_then(|stem| stem.to_str()).ok_or("a kernel file has an odd name")?;
            if name == FOR_TESTS {
                for_tests = format!("Some(include_bytes!(\"{name}.fatbin\"))");
                continue;
            }
            let (constant, n_bytes) = (name.to_uppercase(), size(&fatbin_of(source))?);
            writeln!(
                fatbins,
                "static {constant}: Aligned<[u8; {n_bytes}]> = Aligned(*include_bytes!(\"{name}.fatbin\"));"
            )
            .map_err(text)?;
            writeln!(table, "    Fatbin::embedded(\"{name}\", &{constant}.0),").map_err(text)?;
        }
    }
    let code = format!("{fatbins}static FATBINS: &[Fatbin] = &[\n{table}];\n");
    fs::write(out.join("fatbins.rs"), code).map_err(text)?;
    let code = format!("static {}: Option<&[u8]> = {for_tests};\n", FOR_TESTS.to_uppercase());
    fs::write(out.join("fatbin_for_tests.rs"), code).map_err(text)
}

/// The compiler, or `None` if the library is to be built without kernels.
fn choose_nvcc() -> Result<Option<PathBuf>, String> {
    let is_required = match variable("GRIDZ_CUDA").as_str() {
        "" => false,
        "require" => true,
        "off" => return Ok(None),
        other => return Err(format!("GRIDZ_CUDA={other} is unknown; use require or off, or unset it")),
    };
    match find_nvcc() {
        Ok(nvcc) => Ok(Some(nvcc)),
        Err(reason) if is_required => Err(format!("{reason}; `make cuda` installs it")),
        Err(reason) => {
            println!(
                "cargo:warning=gridz is built without CUDA kernels, for the CPU only: {reason}. `make cuda` builds \
                 with them, GRIDZ_CUDA=off silences this."
            );
            Ok(None)
        }
    }
}

/// nvcc 13: older versions do not know all architectures, newer ones write files that the oldest
/// driver cannot read.
fn find_nvcc() -> Result<PathBuf, String> {
    let from = |name: &str, tail: &str| {
        Some(variable(name)).filter(|value| !value.is_empty()).map(|value| Path::new(&value).join(tail))
    };
    let in_path: Vec<PathBuf> = env::split_paths(&variable("PATH"))
        .map(|folder| folder.join("nvcc"))
        .filter(|nvcc| nvcc.exists())
        .collect();
    let in_venv = fs::read_dir(".venv-cuda/lib").into_iter().flatten().flatten();
    let in_venv = in_venv.map(|python| python.path().join("site-packages/nvidia/cu13/bin/nvcc"));
    let candidates: Vec<PathBuf> = match from("NVCC", "") {
        Some(named) => vec![named.components().collect()],
        None => from("CUDA_HOME", "bin/nvcc").into_iter().chain(in_path).chain(in_venv).collect(),
    };
    let mut reason = "no nvcc in NVCC, CUDA_HOME, PATH or .venv-cuda".to_owned();
    for nvcc in candidates {
        match Command::new(&nvcc).arg("--version").output() {
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("release 13.") => return Ok(nvcc),
            Ok(_) => reason = format!("{} is not nvcc 13", nvcc.display()),
            Err(error) => reason = format!("{} does not run ({error})", nvcc.display()),
        }
    }
    Err(reason)
}

/// `kernels/*/*.cu` in a fixed order, so that builds are the same everywhere.
fn sources() -> Result<Vec<PathBuf>, String> {
    let mut found = files("kernels")?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    Ok(found)
}

/// All files in the subfolders of `folder`, sorted.
fn files(folder: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for folder in fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))? {
        let folder = folder.map_err(text)?.path();
        for file in folder.read_dir().into_iter().flatten() {
            found.push(file.map_err(text)?.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Compiles all sources, with as many parallel jobs as cargo allows.
fn compile_all(
    nvcc: &Path,
    sources: &[PathBuf],
    fatbin_of: impl Fn(&Path) -> PathBuf + Sync,
) -> Result<(), String> {
    let n_jobs = variable("NUM_JOBS").parse().unwrap_or(1).max(1);
    let n_threads = (n_jobs / sources.len().max(1)).max(1);
    // Start at the end: zfp takes longest.
    let left = Mutex::new(sources.iter().rev());
    let next = || left.lock().map_err(text).map(|mut left| left.next());
    let work = || -> Result<(), String> {
        while let Some(source) = next()? {
            compile(nvcc, source, &fatbin_of(source), n_threads)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..n_jobs.min(sources.len())).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a thread of the build panicked".to_owned())?)
    })
}

/// Compiles a source unless the cache holds its fatbin.
fn compile(nvcc: &Path, source: &Path, fatbin: &Path, n_threads: usize) -> Result<(), String> {
    let archs = match variable("GRIDZ_CUDA_ARCHS") {
        archs if archs.is_empty() => DEFAULT_ARCHS.to_owned(),
        archs if archs == "all" => ALL_ARCHS.to_owned(),
        archs => archs.replace(',', " "),
    };
    // Multiplication and addition stay two roundings (no FMA), so that the CPU computes the same
    // bits.
    // Fatbins that are compressed for size take a quarter of the bytes of the default; every driver
    // that CUDA 13 supports reads them.
    let mut args = [
        "-fatbin",
        "--compress-mode=size",
        "-std=c++17",
        "-O3",
        "-fmad=false",
        "-Werror=all-warnings",
        "-Xptxas=-v",
        "-Ikernels",
    ]
    .map(str::to_owned)
    .to_vec();
    for arch in archs.split_whitespace() {
        let number = arch.strip_prefix("sm_").or_else(|| arch.strip_prefix("compute_")).ok_or_else(|| {
            format!("GRIDZ_CUDA_ARCHS: {arch} is unknown; use all, or a list such as {DEFAULT_ARCHS}")
        })?;
        args.push(format!("-gencode=arch=compute_{number},code={arch}"));
    }
    let (kept_fatbin, kept_report) = kept(nvcc, source, &args, fatbin)?;
    // The lock makes simultaneous builds of two profiles compile the source only once.
    let lock = fs::File::create(kept_fatbin.with_extension("lock")).map_err(text)?;
    lock.lock().map_err(text)?;
    let report = match fs::read_to_string(&kept_report) {
        Ok(report) => {
            fs::copy(&kept_fatbin, fatbin).map_err(|error| format!("{}: {error}", kept_fatbin.display()))?;
            report
        }
        Err(_) => {
            let mut command = Command::new(nvcc);
            command.args(&args).args(["--threads", &n_threads.to_string(), "-o"]).arg(fatbin).arg(source);
            let output = command.output().map_err(|error| format!("nvcc: {error}"))?;
            let report = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() {
                return Err(format!("nvcc cannot compile {}: {}", source.display(), one_line(&report)));
            }
            fs::copy(fatbin, &kept_fatbin).map_err(text)?;
            // The report is written last: if it exists, the cached fatbin is complete.
            fs::write(&kept_report, &report).map_err(text)?;
            report
        }
    };
    match variable("GRIDZ_CUDA_CHECK").as_str() {
        "1" => check_report(source, &report),
        _ => Ok(()),
    }
}

/// Paths of a source's cached fatbin and of nvcc's report; the name contains a hash of everything
/// the fatbin depends on.
fn kept(nvcc: &Path, source: &Path, args: &[String], fatbin: &Path) -> Result<(PathBuf, PathBuf), String> {
    let version = Command::new(nvcc).arg("--version").output().map_err(text)?.stdout;
    let mut hasher = DefaultHasher::new();
    (version, source, args, variable("NVCC_APPEND_FLAGS")).hash(&mut hasher);
    // A kernel includes files of its own folder and of the shared folders only.
    let of_source =
        |file: &Path| file.parent() == source.parent() || SHARED.iter().any(|shared| file.starts_with(shared));
    for file in files("kernels")?.iter().filter(|file| of_source(file)) {
        let code = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        file.hash(&mut hasher);
        // Lines that are only comments do not change a kernel.
        code.lines().filter(|line| !line.trim_start().starts_with("//")).for_each(|line| line.hash(&mut hasher));
    }
    let folder = match variable("GRIDZ_CUDA_CACHE") {
        folder if folder.is_empty() => fatbin.with_file_name("kernels"),
        folder => PathBuf::from(folder),
    };
    fs::create_dir_all(&folder).map_err(text)?;
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let path = folder.join(format!("{name}-{:016x}.fatbin", hasher.finish()));
    Ok((path.clone(), path.with_extension("txt")))
}

/// Kernels that may use this many bytes of local memory per thread. Registers run out in several
/// cases:
/// - a thread processes a block of three axes, or a quarter of a block of four axes, with 64
///   numbers;
/// - `lorenzo` dense compresses, or fast decompresses 4-byte words;
/// - `quant` dense reads the bitmap of holes, or keeps values from one step of a block to the next;
/// - elements are loaded ahead.
///
/// Measurements on an H200 or H100 show that these kernels are fast nevertheless.
const ALLOWED: &[(&str, u32)] = &[
    ("lorenzo_compress_u32_13", 192),
    ("lorenzo_compress_u64_13", 80),
    ("lorenzo_decompress_u32_12", 48),
    ("quant_dense_decompress_u32", 56),
    ("quant_dense_predict_u32", 448),
    ("quant_max_load_u32", 192),
    ("zfp_compress_lossless_u64_3d", 128),
    ("zfp_compress_lossless_u64_4d", 64),
    ("zfp_decompress_u32_4d", 32),
    ("zfp_decompress_u64_4d", 32),
    ("zfp_finish_u32_4d", 16),
    ("zfp_finish_u64_3d", 16),
    ("zfp_region_u64_3d", 16),
    ("zfp_decompress_u32_3d", 96),
];

/// Reads the ptxas report of each kernel: `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill
/// loads`.
fn check_report(source: &Path, report: &str) -> Result<(), String> {
    let mut kernel = "?";
    let (mut n_checked, mut wrong) = (0, Vec::new());
    for line in report.lines() {
        if let Some((_, name)) = line.split_once("Compiling entry function ") {
            kernel = name;
        } else if line.contains("bytes stack frame") {
            n_checked += 1;
            let most = ALLOWED.iter().find(|(name, _)| kernel.contains(name)).map_or(0, |&(_, most)| most);
            let bytes = |part: &str| part.trim().split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
            if line.split(',').any(|part| bytes(part) > most) {
                wrong.push(format!("{kernel}: {}", line.trim()));
            }
        }
    }
    if n_checked == 0 {
        return Err(format!(
            "{}: ptxas reports no kernel; GRIDZ_CUDA_CHECK needs an sm_* architecture",
            source.display()
        ));
    }
    if !wrong.is_empty() {
        return Err(format!("{}: kernels use local memory: {}", source.display(), wrong.join("; ")));
    }
    Ok(())
}

/// The errors of a report on one line, because a message to cargo has one line.
fn one_line(report: &str) -> String {
    let is_error = |line: &&str| !line.starts_with("ptxas info") && !line.trim().is_empty();
    report.lines().filter(is_error).collect::<Vec<_>>().join(" | ")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn size(path: &Path) -> Result<u64, String> {
    Ok(fs::metadata(path).map_err(text)?.len())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
