//! Decompression of one frame: all of it, a region, or a coarser or less accurate version.

use std::time::Instant;

use crate::backend;
use crate::context::Context;
use crate::detail;
use crate::frame::{Frame, Verify, check_destination, check_payload, entry_of};
use crate::launch::GpuPlan;
use crate::memory::{Destination, Source, start_of, through_host};
use crate::prepared::Prepared;
use crate::{cpu, gpu, log};
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::codec::{BlockCounts, Detail};
use gridz_codecs::error::Result;
use gridz_codecs::format::header::MAX_HEADER_BYTES;
use gridz_codecs::format::region::Region;
use gridz_codecs::settings::Backend;
use gridz_cuda::Device;

/// The part of a frame to decompress.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// The whole array.
    All,
    /// A box of the array: `count` elements along each axis, from `start` on, in C order. The codec
    /// decodes only the blocks that the box touches.
    Region {
        /// Index of the first element along each axis.
        start: &'a [u64],
        /// Number of elements along each axis.
        count: &'a [u64],
    },
    /// A coarser or less accurate version of the array, from the first bytes of the frame.
    /// [`inspect_part`](crate::inspect_part) returns its shape and the bytes that it needs; the
    /// frame may be cut after those.
    Detail(Detail),
}

/// Decompresses `frame`, or a part of it, to the start of `dst` and returns the number of bytes
/// written. After an error the contents of `dst` are unspecified.
///
/// Frame, destination or both may be memory of a GPU; then the caller's work on that memory must be
/// complete, and the elements are complete on return. The GPU does the work if it can. The CPU does
/// the rest on copies.
///
/// With [`Verify::Checksum`], these checksums are compared. For the whole array: that of the
/// payload. For a region: those of its blocks (`lorenzo`, `quant`, `huffman`, `cci`), that of the
/// payload (`ndzip`, `zfp`, `multigrid`), or none (`stored`). For a detail: those of the blocks
/// that are read.
///
/// # Errors
/// `DstTooSmall`; `InvalidArgument` for a region outside of the array, a missing layer or level, or
/// memory of two GPUs or of another GPU than the context's; `UnsupportedJob` for a detail of a
/// codec without layers and levels; `Truncated`, `Corrupt`, `UnsupportedFormat`, `OutOfMemory`;
/// `Device` if a GPU is required and fails.
pub fn decompress<'s, 'd>(
    frame: impl Into<Source<'s>>,
    part: Part,
    dst: impl Into<Destination<'d>>,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let (frame, dst) = (frame.into(), dst.into());
    let device = context.device_of(&frame, &dst)?;
    match (frame, part) {
        (Source::Device(_), Part::Detail(detail)) => {
            detail::from_device(device, frame, detail, dst, verify, context)
        }
        _ => {
            let mut start = [0; MAX_HEADER_BYTES];
            run(&Frame::parse(start_of(device, frame, &mut start)?)?, frame, device, part, dst, verify, context)
        }
    }
}

/// [`decompress`] of `source`. `frame` has at least its header; for a detail, `source` must be in
/// host memory. `memory_of` is the device that owns source or destination.
pub(super) fn run(
    frame: &Frame,
    source: Source,
    memory_of: Option<&'static Device>,
    part: Part,
    mut dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let settings = context.settings()?;
    let (header, entry) = (&frame.header, entry_of(&frame.header)?);
    let (array, header_bytes) = (&header.array, header.n_bytes());
    if let Part::Detail(detail) = part {
        return detail::run(frame, source, memory_of, detail, dst, verify, context);
    }
    check_payload(header, source.n_bytes() - header_bytes as u64)?;
    let region = match part {
        Part::Region { start, count } => Some(Region::new(array.shape(), start, count)?),
        _ => None,
    };
    // A region has at most as many elements as the array, whose number of bytes fits.
    let n_elements = region.as_ref().map_or(array.shape().n_elements(), Region::n_elements);
    let n_bytes = n_elements * u64::from(array.element_size());
    check_destination(dst.n_bytes(), n_bytes)?;
    if region.is_some() && n_bytes == 0 {
        return Ok(0);
    }
    let prepared = Prepared::of(header)?;
    let begin = Instant::now();
    let device = match (memory_of, &region) {
        // For a region of a frame in host memory, a GPU needs a copy of the whole frame. So it is
        // used only if it is required.
        (None, Some(_)) if settings.backend == Backend::Cuda && entry.id != STORED => {
            Some(Device::in_turn(settings)?)
        }
        (None, Some(_)) => None,
        _ => backend::of_chunk(settings, memory_of, (&prepared, Direction::Decompress), n_bytes, context)?,
    };
    let attempt = match device {
        None => Ok(None),
        Some(device) => {
            let plan = match &region {
                None => GpuPlan::new(Direction::Decompress, &prepared, verify),
                Some(region) => GpuPlan::region(&prepared, region, verify),
            };
            let attempt =
                plan.and_then(|plan| gpu::decompress(device, &plan, source, dst.reborrow(), n_bytes, context));
            backend::or_cpu(settings, attempt)
        }
    };
    let by = match attempt? {
        Some(()) => log::CUDA,
        None => {
            let work = |frame: &[u8], dst: &mut [u8]| {
                let (payload, dst) = (&frame[header_bytes..], &mut dst[..n_bytes as usize]);
                cpu::decompress(
                    &prepared,
                    region.as_ref(),
                    header.payload_checksum,
                    payload,
                    dst,
                    verify,
                    context,
                )?;
                Ok(dst.len())
            };
            through_host(memory_of, source, dst, n_bytes, context, work)?;
            log::CPU
        }
    };
    let what = if region.is_some() { "decompressed a region of" } else { "decompressed" };
    log::chunk(what, array, entry.name, (source.n_bytes(), n_bytes), begin, by);
    Ok(n_bytes as usize)
}

/// Counts the blocks of a frame's payload by how they are coded, and compares their checksums. The
/// CPU counts; a frame in memory of a GPU is copied.
///
/// # Errors
/// `UnsupportedJob` for codecs without kinds of blocks, `Truncated`, `Corrupt`,
/// `UnsupportedFormat`, `OutOfMemory`, `Device`.
pub fn count_blocks<'a>(frame: impl Into<Source<'a>>, context: &Context) -> Result<BlockCounts> {
    let (frame, nothing) = (frame.into(), Destination::Host(&mut []));
    let device = context.device_of(&frame, &nothing)?;
    let mut counts = BlockCounts::default();
    let count = |frame: &[u8], _: &mut [u8]| {
        let frame = Frame::parse(frame)?;
        entry_of(&frame.header)?;
        check_payload(&frame.header, frame.payload().len() as u64)?;
        counts = cpu::count_blocks(&Prepared::of(&frame.header)?, frame.payload(), context)?;
        Ok(0)
    };
    through_host(device, frame, nothing, 0, context, count)?;
    Ok(counts)
}
