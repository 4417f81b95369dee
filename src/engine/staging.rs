//! Large copies between host and GPU. The driver copies memory that is not pinned with one thread; here the
//! workers copy one piece to or from pinned memory while the GPU transfers another.

use crate::cpu::pool::Pool;
use crate::cuda::{DeviceSlice, Pending, Stream};
use crate::error::Result;

/// Bytes of a piece.
const PIECE: usize = 8 << 20;
/// Pieces on their way at the same time.
const SLOTS: usize = 2;
/// Bytes that one worker copies at a time.
const SHARE: usize = 1 << 20;

/// One thread is no faster than the driver, and few pieces are not worth pinned memory.
fn pays(n_bytes: usize, pool: &Pool) -> bool {
    n_bytes >= 2 * SLOTS * PIECE && pool.threads() > 1
}

/// Copies `src` to `dst`, which has as many bytes. `src` has been read when this returns.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_in(stream: &Stream, dst: DeviceSlice, src: &[u8], pool: &Pool) -> Result<()> {
    if !pays(src.len(), pool) {
        return stream.copy_in(dst, src);
    }
    let mut slots: [Option<Pending>; SLOTS] = [const { None }; SLOTS];
    for (i, piece) in src.chunks(PIECE).enumerate() {
        let slot = &mut slots[i % SLOTS];
        let mut pinned = match slot.take() {
            Some(pending) => pending.wait()?,
            None => stream.device().pinned(PIECE)?,
        };
        copy(piece, &mut pinned[..piece.len()], pool);
        *slot = Some(stream.copy_in_async(part(dst, i, piece.len())?, pinned)?);
    }
    Ok(())
}

/// Copies `src` to all of `dst`, which has as many bytes, and waits for it.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_out(stream: &Stream, src: DeviceSlice, dst: &mut [u8], pool: &Pool) -> Result<()> {
    if !pays(dst.len(), pool) {
        return stream.copy_out(src, dst);
    }
    let finish = |(pending, piece): (Pending, &mut [u8])| -> Result<()> {
        copy(&pending.wait()?[..piece.len()], piece, pool);
        Ok(())
    };
    let mut last = None;
    for (i, piece) in dst.chunks_mut(PIECE).enumerate() {
        let pinned = stream.device().pinned(PIECE)?;
        let pending = stream.copy_out_async(part(src, i, piece.len())?, pinned)?;
        last.replace((pending, piece)).map_or(Ok(()), finish)?;
    }
    last.map_or(Ok(()), finish)
}

/// The memory of piece `i`.
fn part(memory: DeviceSlice, i: usize, n_bytes: usize) -> Result<DeviceSlice> {
    let start = (i * PIECE) as u64;
    memory.slice(start..start + n_bytes as u64)
}

fn copy(src: &[u8], dst: &mut [u8], pool: &Pool) {
    let shares: Vec<_> = src.chunks(SHARE).zip(dst.chunks_mut(SHARE)).collect();
    pool.map(shares, |(from, to)| to.copy_from_slice(from));
}
