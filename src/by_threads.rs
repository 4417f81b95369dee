//! Many chunks by the CPU: every thread takes a chunk.

use crate::context::Context;
use crate::cpu;
use crate::frame::{FRAME_ALIGNMENT, Verify, check_payload};
use crate::lanes::most_packed_bytes;
use crate::list::{Chunks, of_frame, other_array, too_small};
use crate::prepared::Prepared;
use gridz_codecs::cpu::ordered;
use gridz_codecs::error::{ErrorKind, Result, try_vec};
use gridz_codecs::format::header::Header;
use gridz_codecs::types::Array;

/// Compresses a chunk to the start of `out`, which need not have the bound, with zeros up to where the next frame
/// begins. Returns the bytes of the frame.
fn pack_one(prepared: &Prepared, chunk: &[u8], out: &mut [u8], context: &Context) -> Result<u64> {
    let bound = prepared.bound() as usize;
    let n_bytes = if out.len() >= bound {
        cpu::compress(prepared, chunk, out, context)?
    } else {
        let mut own = context.scratch(bound)?;
        let n_bytes = cpu::compress(prepared, chunk, &mut own, context)?;
        let room = out.get_mut(..n_bytes).ok_or_else(|| too_small(0, &prepared.array, 1))?;
        room.copy_from_slice(&own[..n_bytes]);
        n_bytes
    };
    let end = n_bytes.next_multiple_of(FRAME_ALIGNMENT as usize);
    out.get_mut(n_bytes..end).ok_or_else(|| too_small(0, &prepared.array, 1))?.fill(0);
    Ok(n_bytes as u64)
}

/// Most chunks of a round.
const MOST_AT_ONCE: usize = 1 << 16;

/// Rounds of as many chunks as surely have room.
pub fn by_threads(
    chunks: &Chunks,
    prepared: &Prepared,
    src: &[u8],
    dst: &mut [u8],
    lengths: &mut [u64],
    context: &Context,
) -> Result<u64> {
    let pool = context.pool();
    let alone = context.of_one_thread()?;
    let most = prepared.bound() as usize;
    let (mut next, mut end) = (0, 0);
    while next < chunks.n_chunks {
        let room = &mut dst[end..];
        let n_left = (chunks.n_chunks - next).min(MOST_AT_ONCE);
        let n_sure = (room.len() / most_packed_bytes(&chunks.array) as usize).min(n_left);
        if n_sure < pool.threads() || !context.affords((pool.threads() * most) as u64) {
            // One after the other, each by all threads.
            let chunk = &src[chunks.place(next)];
            let n_bytes = pack_one(prepared, chunk, room, context).map_err(|error| match error.kind() {
                ErrorKind::DstTooSmall { .. } => too_small(dst.len() as u64, &chunks.array, chunks.n_chunks),
                _ => error,
            })?;
            lengths[next] = n_bytes;
            end += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
            next += 1;
            continue;
        }
        let make = |&mut i: &mut usize, _: Option<usize>, out: &mut [u8]| {
            let made = pack_one(prepared, &src[chunks.place(i)], out, &alone);
            let n_bytes = made.as_ref().map_or(0, |n_bytes| n_bytes.next_multiple_of(FRAME_ALIGNMENT));
            (n_bytes as usize, made)
        };
        let items = (next..next + n_sure).collect();
        let (n_bytes, made) = ordered::concatenate(pool, items, most, room, make, |_, made, _, _| made);
        for (length, made) in lengths[next..].iter_mut().zip(made) {
            *length = made?;
        }
        next += n_sure;
        end += n_bytes;
    }
    Ok(end as u64)
}

/// Decompresses frame `i`.
pub fn unpack_one(
    array: &Array,
    i: usize,
    frame: &[u8],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let mut unpack = || {
        let header = Header::parse(frame)?;
        if header.array != *array {
            return Err(other_array(&header.array, array));
        }
        let payload = &frame[header.n_bytes()..];
        check_payload(&header, payload.len() as u64)?;
        cpu::decompress(&Prepared::of(&header)?, None, header.payload_checksum, payload, dst, verify, context)
    };
    unpack().map_err(|error| of_frame(i, &error))
}

pub fn from_threads(
    chunks: &Chunks,
    frames: &[u8],
    lengths: &[u64],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let (pool, alone) = (context.pool(), context.of_one_thread()?);
    let (mut at, mut items) = (0, try_vec(chunks.n_chunks, "places of chunks")?);
    // Arrays of no bytes have no places to be cut into.
    let mut places = dst.chunks_mut(chunks.step().max(1) as usize);
    for (i, &n_bytes) in lengths.iter().enumerate() {
        let place = places.next().unwrap_or_default();
        items.push((i, &frames[at..at + n_bytes as usize], &mut place[..chunks.array.n_bytes() as usize]));
        at += n_bytes.next_multiple_of(FRAME_ALIGNMENT) as usize;
    }
    let one = |(i, frame, place): (usize, &[u8], &mut [u8]), context: &Context| {
        unpack_one(&chunks.array, i, frame, place, verify, context)
    };
    if chunks.n_chunks < pool.threads() {
        return items.into_iter().try_for_each(|item| one(item, context));
    }
    pool.map(items, |item| one(item, &alone)).into_iter().collect()
}
