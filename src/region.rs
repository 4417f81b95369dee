//! Part of a chunk: a box of the array in a frame.
//!
//! A codec decodes the blocks that the box touches, of which some of the elements are copied. Where a GPU works it does
//! the same in one launch.

use std::time::Instant;

use crate::backend;
use crate::chunk::{start_of, through_host};
use crate::context::Context;
use crate::frame::{Verify, check_destination, check_payload, entry_of};
use crate::launch::Procedure;
use crate::memory::{Destination, Source};
use crate::prepared::Prepared;
use crate::{cpu, gpu, log};
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::error::Result;
use gridz_codecs::format::header::{Header, MAX_HEADER_BYTES};
use gridz_codecs::format::region::Region;
use gridz_codecs::settings::Backend;
use gridz_cuda::Device;

/// Decompresses the elements from `start` on, `count` of them along each axis of the array in `frame`, to the start of
/// `dst`, in C order, and returns their bytes. After an error the contents of `dst` are unspecified.
///
/// Unless only structure is verified, checksums are compared: of `lorenzo` those of the blocks that the region touches, of
/// `stored` none, of other codecs, whose blocks have none, that of the payload.
///
/// # Errors
/// `InvalidArgument` if the region is not one of the array, `DstTooSmall` if it does not fit, `Truncated`, `Corrupt`,
/// `UnsupportedFormat`, `OutOfMemory`; `Device` where a GPU is required and fails.
pub fn decompress_region(
    frame: &[u8],
    start: &[u64],
    count: &[u64],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    decompress_region_from(Source::Host(frame), start, count, Destination::Host(dst), verify, context)
}

/// [`decompress_region`] where source, destination or both may be memory of a GPU, which then does the work. What the
/// program's own streams do with that must be done; the elements are there when this returns.
///
/// # Errors
/// As `decompress_region`; `Device`; `InvalidArgument` for memory of two GPUs or of another one than the context's.
pub fn decompress_region_from(
    frame: Source,
    start: &[u64],
    count: &[u64],
    mut dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let settings = context.settings()?;
    let memory_of = context.device_of(&frame, &dst)?;
    let mut header_bytes = [0; MAX_HEADER_BYTES];
    let header = Header::parse(start_of(memory_of, frame, &mut header_bytes)?)?;
    let (array, entry) = (&header.array, entry_of(&header)?);
    check_payload(&header, frame.n_bytes() - header.n_bytes() as u64)?;
    let region = Region::new(array.shape(), start, count)?;
    // Not more elements than the array has, whose bytes fit.
    let n_bytes = region.n_elements() * u64::from(array.element_size());
    check_destination(dst.n_bytes(), n_bytes)?;
    if n_bytes == 0 {
        return Ok(0);
    }
    let prepared = Prepared::of(&header)?;
    let begin = Instant::now();
    let device = match memory_of {
        Some(_) if settings.backend == Backend::Cpu => None,
        Some(device) => Some(device),
        // All of the frame would be copied for a part of the array: only if a GPU is required.
        None if settings.backend == Backend::Cuda && entry.id != STORED => Some(Device::in_turn(settings)?),
        None => None,
    };
    let by_gpu = match device {
        None => None,
        Some(device) => {
            let procedure = Procedure::region(&prepared, &region, verify);
            let attempt = gpu::decompress(device, procedure, frame, dst.reborrow(), n_bytes, context);
            backend::or_cpu(settings, attempt)?
        }
    };
    let by = match by_gpu {
        Some(()) => log::CUDA,
        None => {
            let work = |frame: &[u8], dst: &mut [u8]| {
                by_cpu(&header, &prepared, frame, &region, &mut dst[..n_bytes as usize], verify, context)
            };
            through_host(memory_of, frame, dst, n_bytes, context, work)?;
            log::CPU
        }
    };
    log::chunk("decompressed a region of", array, entry.name, (frame.n_bytes(), n_bytes), begin, by);
    Ok(n_bytes as usize)
}

/// Decodes the region from a payload in host memory into all of `dst`, and returns its bytes.
fn by_cpu(
    header: &Header,
    prepared: &Prepared,
    frame: &[u8],
    region: &Region,
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<usize> {
    let (payload, codec) = (&frame[header.n_bytes()..], prepared.entry.codec);
    let folded = region.folded(prepared.fold, codec.max_rank());
    let sums = codec.decode_region(&cpu::job(prepared, verify, context)?, payload, &folded, dst)?;
    cpu::check_sums(sums, payload, header.payload_checksum)?;
    if prepared.is_swapped() {
        cpu::swap_bytes(dst, prepared.array.dtype());
    }
    Ok(dst.len())
}
