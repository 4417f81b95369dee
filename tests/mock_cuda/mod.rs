//! Runs the body of a test in a separate process, whose libcuda is a mock or missing. Reason: a
//! process looks for the driver only once, and this machine may have a real one.
#![allow(dead_code)] // each test program uses only some of it
#![allow(unsafe_code, reason = "calls the mock's functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::root;

gridz_codecs::kernel_struct! {
    /// The arguments of the kernels in `kernels/common/selftest.cu`.
    pub struct Args, size 48 {
        /// Address of memory for `n_words` words.
        pub dst: u64,
        /// Number of words.
        pub n_words: u64,
        /// Arbitrary numbers.
        pub extents: [u64; 3],
        /// The first word.
        pub value: u32,
        /// An arbitrary number.
        pub other: u32,
    }

    /// The launch parameters that the kernels report.
    pub struct Info, size 8 {
        /// Threads of a block.
        pub threads: u32,
        /// Dynamic shared memory of a block.
        pub shared_bytes: u32,
    }
}

/// Set in the child; names its test.
const CHILD: &str = "GRIDZ_TEST_CHILD";

/// Runs `body` in a child with the mock driver and `env`; `test` is the name of the calling test.
#[track_caller]
pub fn with_mock(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    in_child(test, env, mock, body);
}

/// As `with_mock`, without any driver.
#[track_caller]
pub fn without_driver(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    in_child(test, env, garbage, body);
}

/// As `with_mock`, with the driver of this machine.
#[track_caller]
pub fn with_driver(test: &str, body: impl FnOnce()) {
    in_child(test, &[], |_| (), body);
}

/// As `with_driver`, with `env`; in the parent, also returns the child's output.
#[track_caller]
pub fn output_with_driver(test: &str, env: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    in_child(test, env, |_| (), body)
}

#[track_caller]
fn in_child(test: &str, env: &[(&str, &str)], library: fn(&Path), body: impl FnOnce()) -> Option<String> {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        body();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libcuda.so.1");
    library(&file);
    if file.exists() {
        std::os::unix::fs::symlink("libcuda.so.1", folder.path().join("libcuda.so")).unwrap();
    }
    let mut path = folder.path().as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["GRIDZ_", "OMPI_", "MPI_", "SLURM_"].iter().any(|prefix| name.starts_with(prefix)) {
            child.env_remove(name);
        }
    }
    child
        .args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", path);
    let output = child.env(CHILD, test).envs(env.iter().copied()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}", output.status);
    Some(text.into_owned())
}

/// Compiles the mock, once per test that needs it.
fn mock(library: &Path) {
    let source = root().join("tests/mock_cuda/cuda.c");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        "-pthread",
        "-Wl,-soname,libcuda.so.1",
    ]);
    let status = compiler.arg("-o").arg(library).arg(source).status().expect("cc: these tests need a C compiler");
    assert!(status.success(), "the mock driver does not compile");
}

/// Writes a file that no linker accepts as a library, to hide a real driver.
fn garbage(library: &Path) {
    fs::write(library, "no library").unwrap();
}

// ---- calls of the mock
// -----------------------------------------------------------------------------

/// Looks up a function of the mock.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the library stays loaded; the names are C strings.
    let symbol = unsafe { libc::dlsym(libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW), name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    symbol
}

/// Number of existing objects of a kind, or number of calls of a function.
pub fn count(name: &CStr) -> i32 {
    // SAFETY: the mock's function has that type.
    let count: extern "C" fn(*const c_char) -> c_int = unsafe { std::mem::transmute(symbol(c"mock_cuda_count")) };
    count(name.as_ptr())
}

/// While CPU kernels run, parts of `memory` change to parts of `variants`, which follow each other
/// and have `n_bytes` each; `n_bytes` 0 ends that. Returns the number of changes since the previous
/// call, or `None` with a real driver.
///
/// # Safety
/// `memory` and `variants` stay allocated until then, and no other thread uses `memory` while a
/// kernel runs.
pub unsafe fn change(memory: *mut u8, variants: &[u8], n_bytes: usize, seed: u64) -> Option<u64> {
    type Change = extern "C" fn(*mut c_void, *const c_void, usize, u32, u64) -> u64;
    // SAFETY: the library stays loaded; the names are C strings.
    let found = unsafe {
        libc::dlsym(libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW), c"mock_cuda_change".as_ptr())
    };
    if found.is_null() {
        return None;
    }
    // SAFETY: the mock's function has that type.
    let change = unsafe { std::mem::transmute::<*mut c_void, Change>(found) };
    let n_variants = variants.len().checked_div(n_bytes).unwrap_or(0);
    Some(change(memory.cast(), variants.as_ptr().cast(), n_bytes, n_variants as u32, seed))
}

/// Simulates an application that resets a device, like cudaDeviceReset.
pub fn application_resets(device: c_int) {
    // SAFETY: the mock's function has that type.
    let reset: extern "C" fn(c_int) = unsafe { std::mem::transmute(symbol(c"mock_cuda_reset")) };
    reset(device);
}

/// Simulates an application that starts CUDA and makes the primary context of `device` current.
pub fn application_uses(device: c_int) {
    type Retain = extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    // SAFETY: the mock's functions have these types.
    let (init, retain, push) = unsafe {
        (
            std::mem::transmute::<*mut c_void, extern "C" fn(u32) -> c_int>(symbol(c"cuInit")),
            std::mem::transmute::<*mut c_void, Retain>(symbol(c"cuDevicePrimaryCtxRetain")),
            std::mem::transmute::<*mut c_void, extern "C" fn(*mut c_void) -> c_int>(symbol(c"cuCtxPushCurrent_v2")),
        )
    };
    let mut context = std::ptr::null_mut();
    assert_eq!((init(0), retain(&raw mut context, device), push(context)), (0, 0, 0));
}
