//! The lorenzo decoder with any blocks for a small array, on every CPU level; parts of it are those of the whole.
#![no_main]

use std::sync::LazyLock;

use gridz::codec::lorenzo::Lorenzo;
use gridz::codec::lorenzo::layout::Layout;
use gridz::codec::{Codec, Job};
use gridz::cpu::level::Level;
use gridz::cpu::pool::Pool;
use gridz::format::checksum::Sums;
use gridz::format::fold::Fold;
use gridz::format::region::Region;
use gridz::{DType, Shape};
use libfuzzer_sys::fuzz_target;

static SERIAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1));

const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::U8, DType::I16, DType::I32, DType::U64];

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, b, x, y, z, at], bytes)) = data.split_first_chunk() else { return };
    let dtype = DTYPES[usize::from(mode >> 4) % DTYPES.len()];
    let [x, y, z] = [x, y, z].map(|n| u64::from(n) + 1);
    let mut extents = match mode & 3 {
        0 => vec![x * y % 20_000 + 1],
        1 => vec![y, x],
        _ => vec![z % 20 + 1, y % 40 + 1, x % 80 + 1],
    };
    // Folded, there are no others.
    extents.retain(|&n| n > 1);
    if extents.is_empty() {
        extents.push(1);
    }
    let shape = Shape::new(&extents).unwrap();
    let params = [12 + b % 3];
    let size = dtype.size().unwrap() as usize;
    let payload = if mode & 4 == 0 { bytes.to_vec() } else { with_table(&shape, size, params[0], bytes) };

    let layout = Lorenzo.layout(dtype, &shape, &params).unwrap();
    let job = |level| Job { dtype, shape, layout: &layout, pool: &SERIAL, level, verify: false };
    let mut array = vec![0; shape.n_elements() as usize * size];
    let result = Lorenzo.decode(&job(Level::PORTABLE), &payload, &mut array);
    for level in Level::all() {
        let mut same = vec![0; array.len()];
        assert_eq!(Lorenzo.decode(&job(level), &payload, &mut same).is_ok(), result.is_ok(), "{level:?}");
        assert!(result.is_err() || same == array, "{level:?}");
    }
    let Ok(sums) = result else { return };
    assert_eq!(sums, Sums::of(&payload, 0));

    // A box from one corner, and one to the other.
    let first: Vec<u64> = extents.iter().map(|n| u64::from(at) % n).collect();
    let rest: Vec<u64> = extents.iter().zip(&first).map(|(n, first)| n - first).collect();
    for (origin, count) in [(&vec![0; extents.len()], &rest), (&first, &rest)] {
        let mut part = vec![0; count.iter().product::<u64>() as usize * size];
        let region = Region::new(&shape, origin, count).unwrap().folded(Fold::Merge, Lorenzo.max_rank());
        Lorenzo.decode_region(&job(Level::best()), &payload, &region, &mut part).unwrap();
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

    // Other encoders may have made other payloads of this array, but ours must come back.
    let mut ours = vec![0; Layout::new(&shape, size, params[0]).unwrap().payload_bound() as usize];
    let encoded = Lorenzo.encode(&job(Level::best()), &array, &mut ours).unwrap();
    let mut back = vec![1; array.len()];
    Lorenzo.decode(&job(Level::best()), &ours[..encoded.n_bytes], &mut back).unwrap();
    assert!(back == array);
});

/// A payload whose blocks share `bytes` evenly.
fn with_table(shape: &Shape, size: usize, b: u8, bytes: &[u8]) -> Vec<u8> {
    let layout = Layout::new(shape, size, b).unwrap();
    let mut payload = vec![0; layout.table_bytes()];
    let share = (bytes.len() / layout.blocks.n_blocks()).max(1);
    for (block, content) in
        bytes.chunks(share).chain(std::iter::repeat(&[][..])).take(layout.blocks.n_blocks()).enumerate()
    {
        payload.extend(content);
        payload.resize(payload.len().next_multiple_of(16), 0);
        let end = (payload.len() - layout.table_bytes()) / 16;
        payload[8 * block..][..4].copy_from_slice(&(end as u32).to_le_bytes());
    }
    payload
}
