//! Tests of `crates/gridz-cuda` and its callers: with a mock driver, without a driver, and on a real GPU.

#[path = "../common/mod.rs"]
mod common;
#[path = "../mock_cuda/mod.rs"]
mod mock_cuda;
#[path = "../common/selftest.rs"]
mod selftest;

mod absent;
mod batch;
mod device;
mod mock;
