//! Compression of one chunk.

use std::time::Instant;

use crate::context::Context;
use crate::frame::{Verify, check_destination, check_source, stored_bytes};
use crate::launch::GpuPlan;
use crate::memory::{Destination, Source, through_host};
use crate::prepared::Prepared;
use crate::{backend, cpu, gpu, log};
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::request::Request;
use gridz_codecs::error::Result;
use gridz_codecs::types::Array;

/// Number of bytes that [`compress`] needs as destination for any chunk of this array: a multiple
/// of 16. The frame itself is never longer than the raw bytes and a header.
///
/// # Errors
/// `InvalidArgument` if that many bytes cannot be addressed; the codec's reason if it refuses the
/// request for this array.
pub fn compress_bound(array: &Array, request: &Request) -> Result<u64> {
    Prepared::new(array, request).map(|prepared| prepared.bound())
}

/// Compresses the chunk `src` of `array` into a frame at the start of `dst`, and returns the
/// frame's number of bytes. Source, destination or both may be memory of a GPU; then the caller's
/// work on that memory must be complete, and the frame is complete on return.
///
/// # Errors
/// `InvalidArgument` if `src` does not have the array's length, or for memory of two GPUs or of
/// another GPU than the context's; `DstTooSmall` if `dst` is shorter than [`compress_bound`];
/// `OutOfMemory`; `Device` if a GPU is required and fails.
pub fn compress<'s, 'd>(
    array: &Array,
    request: &Request,
    src: impl Into<Source<'s>>,
    dst: impl Into<Destination<'d>>,
    context: &Context,
) -> Result<usize> {
    Prepared::new(array, request)?.compress(src, dst, context)
}

impl Prepared {
    /// Compresses one chunk, as [`compress`](crate::compress).
    ///
    /// # Errors
    /// As `compress`.
    pub fn compress<'s, 'd>(
        &self,
        src: impl Into<Source<'s>>,
        dst: impl Into<Destination<'d>>,
        context: &Context,
    ) -> Result<usize> {
        let (src, mut dst) = (src.into(), dst.into());
        let Self { array, entry, .. } = self;
        let settings = context.settings()?;
        let memory_of = context.device_of(&src, &dst)?;
        check_source(array, src.n_bytes())?;
        check_destination(dst.n_bytes(), self.bound())?;
        let begin = Instant::now();
        let device = backend::of_chunk(settings, memory_of, (self, Direction::Compress), array.n_bytes(), context)?;
        let by_gpu = device.map(|device| {
            GpuPlan::new(Direction::Compress, self, Verify::Checksum)
                .and_then(|plan| gpu::compress(device, &plan, self, src, dst.reborrow(), context))
        });
        let by_gpu = by_gpu.map_or(Ok(None), |attempt| backend::or_cpu(settings, attempt))?;
        let (n_bytes, by) = match by_gpu {
            Some(n_bytes) => (n_bytes, log::CUDA),
            None => {
                let work = |src: &[u8], dst: &mut [u8]| cpu::compress(self, src, dst, context);
                (through_host(memory_of, src, dst, self.bound(), context, work)?, log::CPU)
            }
        };
        // A codec's own frame is shorter than a stored one.
        let name = if n_bytes as u64 == stored_bytes(array) { "stored" } else { entry.name };
        log::chunk("compressed", array, name, (array.n_bytes(), n_bytes as u64), begin, by);
        Ok(n_bytes)
    }
}
