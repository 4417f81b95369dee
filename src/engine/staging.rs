//! Large copies between host and GPU. The driver copies memory that is not pinned with one thread; here the
//! workers copy one step to or from pinned memory while the GPU transfers another.

use std::ops::Range;

use crate::cpu::pool::Pool;
use crate::cuda::{DeviceBuffer, Pending};
use crate::error::Result;

/// Bytes of a step.
const STEP: usize = 8 << 20;
/// Steps on their way at the same time.
const AHEAD: usize = 2;
/// Bytes that one worker copies at a time.
const SHARE: usize = 1 << 20;

/// One thread is no faster than the driver, and few steps are not worth pinned memory.
fn pays(n_bytes: usize, pool: &Pool) -> bool {
    n_bytes >= 2 * AHEAD * STEP && pool.threads() > 1
}

/// Copies `src` to all of `dst`, which has as many bytes. `src` has been read when this returns.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_in(dst: &DeviceBuffer, src: &[u8], pool: &Pool) -> Result<()> {
    let stream = dst.stream();
    if !pays(src.len(), pool) {
        return stream.copy_in(dst.all(), src);
    }
    let mut pending: [Option<Pending>; AHEAD] = [const { None }; AHEAD];
    for (i, bytes) in src.chunks(STEP).enumerate() {
        let pending = &mut pending[i % AHEAD];
        let mut pinned = match pending.take() {
            Some(earlier) => earlier.wait()?,
            None => stream.device().pinned(STEP)?,
        };
        copy(bytes, &mut pinned[..bytes.len()], pool);
        *pending = Some(dst.copy_in_async(step(i, bytes.len()), pinned)?);
    }
    Ok(())
}

/// Copies the first bytes of `src` to all of `dst`, and waits for it.
///
/// # Errors
/// `Device`, `OutOfMemory`.
pub fn copy_out(src: &DeviceBuffer, dst: &mut [u8], pool: &Pool) -> Result<()> {
    let stream = src.stream();
    if !pays(dst.len(), pool) {
        return stream.copy_out(src.slice(0..dst.len() as u64)?, dst);
    }
    let finish = |(pending, bytes): (Pending, &mut [u8])| -> Result<()> {
        copy(&pending.wait()?[..bytes.len()], bytes, pool);
        Ok(())
    };
    let mut last = None;
    for (i, bytes) in dst.chunks_mut(STEP).enumerate() {
        let pinned = stream.device().pinned(STEP)?;
        let pending = src.copy_out_async(step(i, bytes.len()), pinned)?;
        last.replace((pending, bytes)).map_or(Ok(()), finish)?;
    }
    last.map_or(Ok(()), finish)
}

/// Where step `i` of so many bytes is.
fn step(i: usize, n_bytes: usize) -> Range<u64> {
    let start = (i * STEP) as u64;
    start..start + n_bytes as u64
}

/// Copies by all threads.
pub fn copy(src: &[u8], dst: &mut [u8], pool: &Pool) {
    let shares: Vec<_> = src.chunks(SHARE).zip(dst.chunks_mut(SHARE)).collect();
    pool.map(shares, |(from, to)| to.copy_from_slice(from));
}
