//! The GPU against the CPU, on a machine that has one: frames are the same bytes, and each side reads what the
//! other wrote.
//!
//! Skipped, counted and printed where there is no GPU; `GRIDZ_REQUIRE_GPU=1` makes that a failure.
//! `GRIDZ_GPU_CASES` is the largest number of random cases of a test. Tests that need the GPU for themselves are
//! ignored: `-- --ignored --test-threads=1` runs them.
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
mod chunks;
mod codes;
mod cut;
mod driver;
mod faults;
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

/// A context that works on the CPU.
pub fn cpu() -> Context {
    Context::new(Some(4), None).unwrap().on(Backend::Cpu, None).unwrap()
}

/// One that works on the GPU or fails.
pub fn gpu() -> Context {
    Context::new(Some(1), None).unwrap().on(Backend::Cuda, None).unwrap()
}

/// Whether there is a GPU; else `test` is skipped.
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

/// So many random cases, where the caller has no wish of its own.
pub fn n_cases(otherwise: u64) -> u64 {
    match std::env::var("GRIDZ_GPU_CASES") {
        Ok(n) => n.parse::<u64>().expect("GRIDZ_GPU_CASES is a number").min(otherwise),
        Err(_) => otherwise,
    }
}
