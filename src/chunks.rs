//! Many chunks at once, in host or GPU memory: selects the back end.

use std::time::Instant;

use crate::backend::{self, Attempt, Copies, HostWork};
use crate::chunk_array::{ChunkArray, check_lengths, packed_bytes, to_usize};
use crate::chunks_cpu::{compress_cpu, decompress_cpu};
use crate::chunks_gpu::{compress_gpu, decompress_gpu};
use crate::context::Context;
use crate::frame::{Verify, max_packed_bytes};
use crate::log;
use crate::memory::{Destination, Source, through_host};
use crate::prepared::Prepared;
use gridz_codecs::codec::Speeds;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::codec::request::Request;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_codecs::format::header::Header;
use gridz_codecs::settings::{Backend, Settings};
use gridz_cuda::{Device, is_pinned};

/// The GPUs for a call; none if the CPU should do it. Memory of a GPU is processed by that GPU. For
/// host memory [`backend::for_host_memory`] decides.
///
/// # Errors
/// As `for_host_memory`.
fn devices_for(
    memory_of: Option<&'static Device>,
    (src, dst): (&Source, &Destination),
    (direction, speeds, raw_bytes): (Direction, Speeds, u64),
    context: &Context,
) -> Result<Vec<&'static Device>> {
    let settings = context.settings()?;
    let (Source::Host(src), Destination::Host(dst)) = (src, dst) else {
        return Ok(memory_of.filter(|_| settings.backend != Backend::Cpu).into_iter().collect());
    };
    let copies = if is_pinned(src) && is_pinned(dst) { Copies::Pinned } else { Copies::Staged };
    let work = HostWork { raw_bytes, direction, speeds, threads: context.pool().threads(), copies };
    Ok(backend::for_host_memory(settings, &work, Device::wanted)?.unwrap_or_default())
}

/// Runs `work` if there are devices. `None` means that the CPU must do it, as for
/// [`backend::or_cpu`].
pub(super) fn on_gpus<R>(
    devices: &[&'static Device],
    settings: &Settings,
    work: impl FnOnce() -> Result<Attempt<R>>,
) -> Result<Option<R>> {
    if devices.is_empty() { Ok(None) } else { backend::or_cpu(settings, work()) }
}

/// Compresses all chunks of `src`, which has their [`span`](ChunkArray::span), into packed frames
/// at the start of `dst`. Returns the end of the last frame, and stores the length of each frame in
/// `lengths`.
///
/// # Errors
/// `DstTooSmall` if the frames do not fit; as [`compress`](crate::compress).
pub fn compress_chunks(
    chunks: &ChunkArray,
    request: &Request,
    src: Source,
    mut dst: Destination,
    lengths: &mut [u64],
    context: &Context,
) -> Result<u64> {
    check_lengths(chunks, lengths)?;
    let prepared = Prepared::new(&chunks.array, request)?;
    let settings = context.settings()?;
    let memory_of = context.device_of(&src, &dst)?;
    if chunks.n_chunks == 0 {
        return Ok(0);
    }
    let (begin, raw_bytes) = (Instant::now(), chunks.n_chunks as u64 * chunks.array.n_bytes());
    let work = (Direction::Compress, prepared.speeds(), raw_bytes);
    let devices = devices_for(memory_of, (&src, &dst), work, context)?;
    let by_gpus = on_gpus(&devices, settings, || {
        compress_gpu(&devices, chunks, &prepared, src, dst.reborrow(), lengths, context)
    })?;
    let (end, by) = match by_gpus {
        Some(end) => (end, log::CUDA),
        None => {
            let need = max_packed_bytes(&chunks.array) * chunks.n_chunks as u64;
            let need = need.min(dst.n_bytes());
            let work = |src: &[u8], dst: &mut [u8]| {
                compress_cpu(chunks, &prepared, src, dst, lengths, context).map(|end| end as usize)
            };
            (through_host(memory_of, src, dst, need, context, work)? as u64, log::CPU)
        }
    };
    log::chunks("compressed", chunks.n_chunks, (raw_bytes, end), begin, by);
    Ok(end)
}

const UNKNOWN_SPEEDS: Speeds = Speeds::of_core(1.0, 1.0);

/// Speeds with frames like this one.
fn speeds_of(frame: &[u8]) -> Result<Speeds> {
    Ok(Prepared::of(&Header::parse(frame)?)?.speeds())
}

/// Decompresses packed frames with these `lengths` to the chunks of `dst`, which has their
/// [`span`](ChunkArray::span).
///
/// # Errors
/// As [`decompress`](crate::decompress), with the index of the first frame that failed;
/// `InvalidArgument` if a frame has another array.
pub fn decompress_chunks(
    chunks: &ChunkArray,
    frames: Source,
    lengths: &[u64],
    mut dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<()> {
    check_lengths(chunks, lengths)?;
    let settings = context.settings()?;
    let memory_of = context.device_of(&frames, &dst)?;
    if chunks.n_chunks == 0 {
        return Ok(());
    }
    let end = packed_bytes(lengths).filter(|&end| end <= frames.n_bytes()).ok_or_else(|| {
        let text =
            format!("the lengths of the frames add up to more than the {} bytes of the source", frames.n_bytes());
        Error::new(ErrorKind::Truncated, text)
    })?;
    let (begin, raw_bytes) = (Instant::now(), chunks.n_chunks as u64 * chunks.array.n_bytes());
    // A damaged frame is an error later.
    let speeds = match frames {
        Source::Host(frames) => speeds_of(&frames[..lengths[0] as usize]).unwrap_or(UNKNOWN_SPEEDS),
        Source::Device(_) => UNKNOWN_SPEEDS,
    };
    let work = (Direction::Decompress, speeds, raw_bytes);
    let devices = devices_for(memory_of, (&frames, &dst), work, context)?;
    let by_gpus = on_gpus(&devices, settings, || {
        decompress_gpu(&devices, chunks, frames, lengths, dst.reborrow(), verify, context)
    })?;
    let by = match by_gpus {
        Some(()) => log::CUDA,
        None => {
            let work = |frames: &[u8], dst: &mut [u8]| {
                decompress_cpu(chunks, frames, lengths, dst, verify, context).map(|()| dst.len())
            };
            match (memory_of, dst) {
                (Some(device), Destination::Device(dst)) => {
                    // The bytes between the arrays must not change.
                    let dense = ChunkArray { stride: chunks.array.n_bytes(), ..*chunks };
                    let mut arrays = context.scratch(raw_bytes as usize)?;
                    let work = |frames: &[u8], dst: &mut [u8]| {
                        decompress_cpu(&dense, frames, lengths, dst, verify, context).map(|()| dst.len())
                    };
                    let to = Destination::Host(&mut arrays);
                    through_host(memory_of, frames, to, raw_bytes, context, work)?;
                    let stream = device.stream()?;
                    for i in 0..chunks.n_chunks as u64 {
                        let array = &arrays[to_usize(dense.span_of(i..i + 1))];
                        stream.copy_in(dst.slice(chunks.span_of(i..i + 1))?, array)?;
                    }
                }
                (_, dst) => drop(through_host(memory_of, frames, dst, 0, context, work)?),
            }
            log::CPU
        }
    };
    log::chunks("decompressed", chunks.n_chunks, (end, raw_bytes), begin, by);
    Ok(())
}
