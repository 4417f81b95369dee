//! Compares the GPU with the CPU, on a machine with a GPU: both write the same bytes, and each reads
//! the other's frames.
//!
//! Without a GPU, tests are skipped, printed and counted; `GRIDZ_REQUIRE_GPU=1` makes that a
//! failure. `GRIDZ_GPU_CASES` is the largest number of random cases of a test. Tests that need
//! exclusive use of the GPU are ignored: `-- --ignored --test-threads=1` runs them.
#![allow(unsafe_code, reason = "calls the C API and the CUDA driver")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../mock_cuda/mod.rs"]
mod mock_cuda;
#[path = "../common/selftest.rs"]
mod selftest;

mod arrays;
mod batch;
mod boundaries;
mod bounded;
mod changing;
mod chunk_stream;
mod chunks;
mod codes;
mod cut;
mod driver;
mod faults;
mod folds;
mod hostile;
mod indices;
mod lanes;
mod large;
mod layers;
mod parts;
mod regions;
mod resealed;
mod shapes;
mod sparse;
mod streams;
mod waiting;

use gridz::Context;
use gridz_codecs::settings::Backend;
use gridz_cuda::gpus;

/// A context that uses the CPU.
pub fn cpu() -> Context {
    Context::new(Some(4), None).unwrap().on(Backend::Cpu, None).unwrap()
}

/// A context that uses the GPU or fails.
pub fn gpu() -> Context {
    Context::new(Some(1), None).unwrap().on(Backend::Cuda, None).unwrap()
}

/// True if there is a GPU; otherwise `test` is skipped.
pub fn has_gpu(test: &str) -> bool {
    match gpus() {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("GRIDZ_REQUIRE_GPU").is_none(), "{test}: {error}");
            common::skip(test, &error.to_string());
            false
        }
    }
}

/// Number of random cases: `otherwise`, unless `GRIDZ_GPU_CASES` is set.
pub fn n_cases(otherwise: u64) -> u64 {
    match std::env::var("GRIDZ_GPU_CASES") {
        Ok(n) => n.parse::<u64>().expect("GRIDZ_GPU_CASES is a number").min(otherwise),
        Err(_) => otherwise,
    }
}
