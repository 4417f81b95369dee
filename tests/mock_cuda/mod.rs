//! Runs the body of a test in a process of its own, whose libcuda is a mock or missing: the driver is
//! looked for once per process, and there may be a real one on this machine.
#![allow(dead_code)] // each test program uses its own part

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the child; names its test.
const CHILD: &str = "GRIDZ_TEST_CHILD";

/// Runs `body` in a child with the mock driver and `env`; `test` is the name of the calling test.
#[track_caller]
pub fn with_mock(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    in_child(test, env, mock, body);
}

/// The same without any driver.
#[track_caller]
pub fn without_driver(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    in_child(test, env, garbage, body);
}

/// The same with the driver of this machine.
#[track_caller]
pub fn with_driver(test: &str, body: impl FnOnce()) {
    in_child(test, &[], |_| (), body);
}

#[track_caller]
fn in_child(test: &str, env: &[(&str, &str)], library: fn(&Path), body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        return body();
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
}

/// The mock, compiled once per test that needs it.
fn mock(library: &Path) {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mock_cuda/cuda.c");
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

/// A file that no linker takes for a library hides a real driver.
fn garbage(library: &Path) {
    fs::write(library, "no library").unwrap();
}
