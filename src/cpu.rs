//! One chunk on the CPU.

use crate::context::Context;
use crate::frame::{Verify, stored_bytes};
use crate::prepared::Prepared;
use gridz_codecs::codec::registry::STORED;
use gridz_codecs::codec::{BlockCounts, Encoded, Job};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::header::Header;
use gridz_codecs::format::region::Region;
use gridz_codecs::types::DType;

/// The description of a chunk for its codec.
pub fn job<'a>(prepared: &'a Prepared, verify: Verify, context: &'a Context) -> Result<Job<'a>> {
    Ok(Job {
        dtype: prepared.array.dtype(),
        shape: prepared.shape,
        layout: &prepared.layout,
        pool: context.pool(),
        level: context.level()?,
        verify: verify == Verify::Checksum,
    })
}

/// Compresses `src`, which has the array's length, to the start of `dst`, which has the bound.
/// Returns the frame's length. If the frame would not be shorter than a stored one, stores the
/// array.
pub fn compress(prepared: &Prepared, src: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    let array = &prepared.array;
    let mut swapped;
    let little = if prepared.is_swapped() {
        swapped = context.scratch(src.len())?;
        swapped.copy_from_slice(src);
        swap_bytes(&mut swapped, array.dtype());
        &swapped
    } else {
        src
    };
    let n_bytes = encode_shortest(prepared, little, dst, context)?;
    if n_bytes as u64 >= stored_bytes(array) && prepared.entry.id != STORED {
        return encode(&Prepared::stored(array), src, dst, context);
    }
    Ok(n_bytes)
}

/// Writes the shortest of the frames that `prepared` and its fallbacks give, of equal ones the
/// first. Returns its length.
fn encode_shortest(prepared: &Prepared, little: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    let mut shortest: Option<(usize, Prepared)> = None;
    for fallback in prepared.fallbacks() {
        let n_bytes = encode(&fallback, little, dst, context)?;
        if shortest.as_ref().is_none_or(|&(least, _)| n_bytes < least) {
            shortest = Some((n_bytes, fallback));
        }
    }
    // The slowest way is last. It is usually the best, so that nothing is encoded again and no
    // second buffer is needed.
    let n_bytes = encode(prepared, little, dst, context)?;
    match shortest {
        Some((least, fallback)) if least < n_bytes => encode(&fallback, little, dst, context),
        _ => Ok(n_bytes),
    }
}

/// Writes the frame of little-endian elements with the fold that suits them, and returns its length.
/// If that is at least the length of a stored frame, the contents of `dst` are unspecified.
fn encode(prepared: &Prepared, little: &[u8], dst: &mut [u8], context: &Context) -> Result<usize> {
    let mut other = None;
    if let Some(choice) = prepared.fold_choice()
        && prepared.entry.codec.takes_other_fold(&choice, &job(prepared, Verify::Checksum, context)?, little)
    {
        other = prepared.otherwise();
    }
    let prepared = other.as_ref().unwrap_or(prepared);
    let header = prepared.header();
    let (header_dst, payload_dst) = dst.split_at_mut(header.n_bytes());
    let job = job(prepared, Verify::Checksum, context)?;
    let Encoded { n_bytes, sums } = prepared.entry.codec.encode(&job, little, payload_dst)?;
    Header { payload_bytes: n_bytes as u64, payload_checksum: sums.finish(n_bytes as u64), ..header }
        .emit(header_dst);
    Ok(header_dst.len() + n_bytes)
}

/// Decodes the payload, or a region of it, and fills `dst`. Compares the checksum of the whole
/// payload with `checksum`, as far as `verify` and the region allow.
pub fn decompress(
    prepared: &Prepared,
    region: Option<&Region>,
    checksum: u64,
    payload: &[u8],
    dst: &mut [u8],
    verify: Verify,
    context: &Context,
) -> Result<()> {
    let (job, codec) = (job(prepared, verify, context)?, prepared.entry.codec);
    let sums = match region {
        None => Some(codec.decode(&job, payload, dst)?).filter(|_| verify == Verify::Checksum),
        Some(region) => codec.decode_region(&job, payload, &region.folded(prepared.fold, codec.max_rank()), dst)?,
    };
    check_sums(sums, payload, checksum)?;
    if prepared.is_swapped() {
        swap_bytes(dst, prepared.array.dtype());
    }
    Ok(())
}

/// Compares the checksum of a payload, if it was computed, with the expected one.
pub fn check_sums(sums: Option<Checksum>, payload: &[u8], checksum: u64) -> Result<()> {
    match sums {
        Some(sums) if sums.finish(payload.len() as u64) != checksum => {
            Err(Error::corrupt("the data is damaged: its checksum does not match"))
        }
        _ => Ok(()),
    }
}

/// Counts the blocks of a payload by how they are coded, and compares their checksums.
pub fn count_blocks(prepared: &Prepared, payload: &[u8], context: &Context) -> Result<BlockCounts> {
    let job = job(prepared, Verify::Checksum, context)?;
    let counts = prepared.entry.codec.count_blocks(&job, payload);
    counts.unwrap_or_else(|| {
        Err(Error::unsupported(format!(
            "{} has only one kind of block, so there is nothing to count",
            prepared.entry.name
        )))
    })
}

/// Reverses the bytes of every number. Elements that are not numbers have no byte order.
pub fn swap_bytes(bytes: &mut [u8], dtype: DType) {
    if let Some(size) = dtype.number_size() {
        bytes.chunks_exact_mut(size as usize).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_swapped_number_by_number() {
        let swapped = |dtype| {
            let mut bytes: Vec<u8> = (1..=8).collect();
            swap_bytes(&mut bytes, dtype);
            bytes
        };
        assert_eq!(swapped(DType::F64), [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(swapped(DType::F32), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(swapped(DType::C64), [4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(swapped(DType::Opaque), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
