//! Many chunks on the CPU, one chunk per thread.

use crate::chunk_array::{ChunkArray, array_mismatch, frame_error, too_small};
use crate::context::Context;
use crate::cpu;
use crate::frame::{FRAME_ALIGNMENT, Verify, check_payload, max_packed_bytes};
use crate::prepared::Prepared;
use gridz_codecs::cpu::ordered;
use gridz_codecs::error::{ErrorKind, Result, try_vec};
use gridz_codecs::format::header::Header;
use gridz_codecs::types::Array;

/// Compresses a chunk to the start of `out`, which may be shorter than the bound, and adds zeros up
/// to the next frame's start. Returns the length of the frame.
fn compress_one(prepared: &Prepared, chunk: &[u8], out: &mut [u8], context: &Context) -> Result<u64> {
    let bound = prepared.bound() as usize;
    let n_bytes = if out.len() >= bound {
        cpu::compress(prepared, chunk, out, context)?
    } else {
        let mut buffer = context.scratch(bound)?;
        let n_bytes = cpu::compress(prepared, chunk, &mut buffer, context)?;
        let slot = out.get_mut(..n_bytes).ok_or_else(|| too_small(0, &prepared.array, 1))?;
        slot.copy_from_slice(&buffer[..n_bytes]);
        n_bytes
    };
    let end = n_bytes.next_multiple_of(FRAME_ALIGNMENT as usize);
    out.get_mut(n_bytes..end).ok_or_else(|| too_small(0, &prepared.array, 1))?.fill(0);
    Ok(n_bytes as u64)
}

const MAX_CHUNKS_PER_ROUND: usize = 1 << 16;

/// Compresses in rounds, each of as many chunks as are certain to fit into the rest of `dst`.
/// Returns the end of the packed frames.
pub fn compress_cpu(
    chunks: &ChunkArray,
    prepared: &Prepared,
    src: &[u8],
    dst: &mut [u8],
    lengths: &mut [u64],
    context: &Context,
) -> Result<u64> {
    let pool = context.pool();
    let one_thread = context.of_one_thread()?;
    let bound = prepared.bound() as usize;
    let (mut next, mut end) = (0, 0);
    while next < chunks.n_chunks {
        let free = &mut dst[end..];
        let n_left = (chunks.n_chunks - next).min(MAX_CHUNKS_PER_ROUND);
        let n_fitting = (free.len() / max_packed_bytes(&chunks.array) as usize).min(n_left);
        if n_fitting < pool.threads() || !context.affords((pool.threads() * bound) as u64) {
            // If few chunks fit, they are compressed one after the other, each by all threads.
            let chunk = &src[chunks.host_range(next)];
            let n_bytes = compress_one(prepared, chunk, free, context).map_err(|error| match error.kind() {
                ErrorKind::DstTooSmall { .. } => too_small(dst.len() as u64, &chunks.array, chunks.n_chunks),
                _ => error,
            })?;
            lengths[next] = n_bytes;
            end += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
            next += 1;
            continue;
        }
        let compress = |&mut i: &mut usize, _: Option<usize>, out: &mut [u8]| {
            let result = compress_one(prepared, &src[chunks.host_range(i)], out, &one_thread);
            let n_bytes = result.as_ref().map_or(0, |n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT));
            (n_bytes as usize, result)
        };
        let items = (next..next + n_fitting).collect();
        let (n_bytes, result) = ordered::concatenate(pool, items, bound, free, compress, |_, result, _, _| result);
        for (length, result) in lengths[next..].iter_mut().zip(result) {
            *length = result?;
        }
        next += n_fitting;
        end += n_bytes;
    }
    Ok(end as u64)
}

/// Decompresses frame `i`.
pub fn decompress_one(
    array: &Array,
    i: usize,
    frame: &[u8],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let mut decompress = || {
        let header = Header::parse(frame)?;
        if header.array != *array {
            return Err(array_mismatch(&header.array, array));
        }
        let payload = &frame[header.n_bytes()..];
        check_payload(&header, payload.len() as u64)?;
        cpu::decompress(&Prepared::of(&header)?, None, header.payload_checksum, payload, dst, verify, context)
    };
    decompress().map_err(|error| frame_error(i, &error))
}

pub fn decompress_cpu(
    chunks: &ChunkArray,
    frames: &[u8],
    lengths: &[u64],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let (pool, one_thread) = (context.pool(), context.of_one_thread()?);
    let (mut at, mut items) = (0, try_vec(chunks.n_chunks, "outputs of chunks")?);
    // `chunks_mut` does not take 0 for arrays without bytes.
    let mut outputs = dst.chunks_mut(chunks.step().max(1) as usize);
    for (i, &n_bytes) in lengths.iter().enumerate() {
        let output = outputs.next().unwrap_or_default();
        items.push((i, &frames[at..at + n_bytes as usize], &mut output[..chunks.array.n_bytes() as usize]));
        at += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
    }
    let one = |(i, frame, output): (usize, &[u8], &mut [u8]), context: &Context| {
        decompress_one(&chunks.array, i, frame, output, verify, context)
    };
    if chunks.n_chunks < pool.threads() {
        return items.into_iter().try_for_each(|item| one(item, context));
    }
    pool.map(items, |item| one(item, &one_thread)).into_iter().collect()
}
