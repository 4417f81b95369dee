//! The lines of `GRIDZ_LOG=debug` about chunks.

use std::time::{Duration, Instant};

use crate::batch_sizer::BatchSizer;
use crate::pipeline::StreamTimes;
use gridz_codecs::settings::{self, LogLevel};
use gridz_codecs::types::Array;

/// Names of the back ends, as in `GRIDZ_BACKEND`.
pub const CPU: &str = "cpu";
pub const CUDA: &str = "cuda";

/// Logs the result for one chunk.
pub fn chunk(done: &str, array: &Array, codec: &str, (from, to): (u64, u64), begin: Instant, backend: &str) {
    settings::log(LogLevel::Debug, || {
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        let (dtype, shape) = (array.dtype().name(), array.shape());
        format!("{done} {dtype} {shape:?} by {codec}: {from} -> {to} bytes in {ms:.3} ms on {backend}")
    });
}

/// Logs the result for many chunks.
pub fn chunks(done: &str, n_chunks: usize, (from, to): (u64, u64), begin: Instant, backend: &str) {
    settings::log(LogLevel::Debug, || {
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        format!("{done} {n_chunks} chunks: {from} -> {to} bytes in {ms:.3} ms on {backend}")
    });
}

/// Logs how many of the chunks `backend` has processed in parallel with the GPUs.
pub fn cpu_help(backend: &str, n_chunks: u64) {
    settings::log(LogLevel::Debug, || format!("{n_chunks} of the chunks by {backend}"));
}

/// Logs how long each pipeline's streams were busy, and the final batch size.
pub fn stream_times(pipelines: impl Iterator<Item = StreamTimes>, sizer: &BatchSizer) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for StreamTimes { upload, compute, download } in pipelines {
        settings::log(LogLevel::Debug, || {
            let (upload, compute, download, n) = (ms(upload), ms(compute), ms(download), sizer.n_chunks());
            format!(
                "copies to the GPU {upload:.3} ms, kernels {compute:.3} ms, copies back {download:.3} ms; {n} chunks a batch"
            )
        });
    }
}
