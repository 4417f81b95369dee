//! What `GRIDZ_LOG=debug` tells of a chunk.

use std::time::Instant;

use crate::settings::{self, LogLevel};
use crate::types::Array;

/// The back ends' names, as in `GRIDZ_BACKEND`.
pub const CPU: &str = "cpu";
pub const CUDA: &str = "cuda";

/// One line for one chunk, if they are wanted.
pub fn chunk(done: &str, array: &Array, codec: &str, (from, to): (u64, u64), begin: Instant, backend: &str) {
    settings::log(LogLevel::Debug, || {
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        let (dtype, shape) = (array.dtype().name(), array.shape());
        format!("{done} {dtype} {shape:?} by {codec}: {from} -> {to} bytes in {ms:.3} ms on {backend}")
    });
}
