//! Shared by the targets that decode payloads of blocks: any blocks for a small array, on every CPU
//! level. Decoded regions must equal parts of the whole array.
#![allow(dead_code, reason = "no target uses all of it")]

use std::sync::LazyLock;

use gridz::{DType, Shape};
use gridz_codecs::codec::{Codec, Job};
use gridz_codecs::cpu::isa::Isa;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::format::checksum::Checksum;
use gridz_codecs::format::fold::Fold;
use gridz_codecs::format::region::Region;

use crate::reach::REACH;

static SERIAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1));

/// The extents of a folded array, from any three bytes.
pub fn extents(mode: u8, sides: [u8; 3]) -> Vec<u64> {
    let [x, y, z] = sides.map(|n| u64::from(n) + 1);
    let mut extents = match mode & 3 {
        0 => vec![x * y % 20_000 + 1],
        1 => vec![y, x],
        _ => vec![z % 20 + 1, y % 40 + 1, x % 80 + 1],
    };
    // After folding, there are no axes of extent 1.
    extents.retain(|&n| n > 1);
    if extents.is_empty() {
        extents.push(1);
    }
    extents
}

/// A payload with this head whose blocks share `bytes` evenly. Parameters: the number of blocks,
/// the bytes before them, and their alignment.
pub fn with_table([n_blocks, table_bytes, unit]: [usize; 3], head: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut payload = head.to_vec();
    payload.resize(table_bytes, 0);
    let share = (bytes.len() / n_blocks).max(1);
    for (block, content) in bytes.chunks(share).chain(std::iter::repeat(&[][..])).take(n_blocks).enumerate() {
        payload.extend(content);
        payload.resize(payload.len().next_multiple_of(unit), 0);
        let end = (payload.len() - table_bytes) / unit;
        payload[head.len() + 8 * block..][..4].copy_from_slice(&(end as u32).to_le_bytes());
    }
    payload
}

/// Decodes a payload in every way. If that succeeds and the codec has parameters besides the block
/// size, the first re-encoding may change the array, but a second one must not.
pub fn attack(codec: &dyn Codec, dtype: DType, shape: &Shape, params: &[u8], bound: u64, payload: &[u8], at: u8) {
    let Some(array) = decode(codec, dtype, shape, params, payload, at) else { return };
    let layout = codec.layout(dtype, shape, params).unwrap();
    let level = Isa::best();
    let job = Job { dtype, shape: *shape, layout: &layout, pool: &SERIAL, level, verify: false };
    // Other encoders may produce other payloads of this array, but this encoder's payload must
    // decode to it.
    let mut ours = vec![0; bound as usize];
    let mut encode = |array: &[u8]| {
        let encoded = codec.encode(&job, array, &mut ours).unwrap();
        let mut back = vec![1; array.len()];
        codec.decode(&job, &ours[..encoded.n_bytes], &mut back).unwrap();
        back
    };
    let back = encode(&array);
    assert!(back == array || params.len() > 1 && encode(&back) == back);
}

/// Decodes a payload in every way; returns the array if the payload is valid.
pub fn decode(
    codec: &dyn Codec,
    dtype: DType,
    shape: &Shape,
    params: &[u8],
    payload: &[u8],
    at: u8,
) -> Option<Vec<u8>> {
    let size = dtype.size().unwrap() as usize;
    let layout = codec.layout(dtype, shape, params).unwrap();
    let job = |level| Job { dtype, shape: *shape, layout: &layout, pool: &SERIAL, level, verify: false };
    let mut array = vec![0; shape.n_elements() as usize * size];
    REACH.reached();
    let result = codec.decode(&job(Isa::PORTABLE), payload, &mut array);
    for level in Isa::all() {
        let mut same = vec![0; array.len()];
        assert_eq!(codec.decode(&job(level), payload, &mut same).is_ok(), result.is_ok(), "{level:?}");
        assert!(result.is_err() || same == array, "{level:?}");
    }
    let sums = result.ok()?;
    REACH.accepted();
    assert_eq!(sums, Checksum::of(payload, 0));

    // A box from one corner, and one to the other.
    let extents = shape.extents();
    let first: Vec<u64> = extents.iter().map(|n| u64::from(at) % n).collect();
    let rest: Vec<u64> = extents.iter().zip(&first).map(|(n, first)| n - first).collect();
    for (origin, count) in [(&vec![0; extents.len()], &rest), (&first, &rest)] {
        let mut part = vec![0; count.iter().product::<u64>() as usize * size];
        let region = Region::new(shape, origin, count).unwrap().folded(Fold::Merge, codec.max_rank());
        codec.decode_region(&job(Isa::best()), payload, &region, &mut part).unwrap();
        let row = *count.last().unwrap() as usize * size;
        for (number, part) in part.chunks_exact(row).enumerate() {
            let (mut number, mut place, mut stride) = (number as u64, 0, 1);
            for axis in (0..extents.len()).rev() {
                let k = if axis + 1 == extents.len() { 0 } else { number % count[axis] };
                number /= if axis + 1 == extents.len() { 1 } else { count[axis] };
                place += (origin[axis] + k) * stride;
                stride *= extents[axis];
            }
            assert!(array[place as usize * size..][..row] == *part);
        }
    }
    Some(array)
}
