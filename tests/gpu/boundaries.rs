//! Arrays at the boundary between a codec's frame and a stored one, which the kernels decide while
//! they run.

use gridz::{Array, ByteOrder, DType};

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::common::compress;
use crate::driver::Stream;
use crate::{cpu, has_gpu};

const SHAPES: [(DType, &[u64]); 8] = [
    (DType::F32, &[16, 16, 64]),
    (DType::F32, &[100, 17, 18]),
    (DType::F32, &[640, 16, 16]),
    (DType::F64, &[50, 33, 20]),
    (DType::F32, &[300, 129]),
    (DType::F64, &[64, 640]),
    (DType::F32, &[50_001]),
    (DType::F64, &[40_960]),
];

fn is_stored(array: &Array, raw: &[u8]) -> bool {
    gridz::inspect(&compress(array, &crate::common::ndzip(), raw, &cpu())).unwrap().codec == 0
}

/// The first elements do not predict the rest, wherever the contents change.
#[test]
fn content_that_changes() {
    if !has_gpu("content_that_changes") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(4);
    for (dtype, extents) in SHAPES {
        let array = array(dtype, ByteOrder::Little, extents);
        let n = array.shape().n_elements() as usize;
        let plane = (n / extents[0] as usize).max(1);
        let places = [1, 4095, 4096, 8191, 8192, 8193, 16_384, 16 * plane, 32 * plane, n / 2, n - 4096, n - 1];
        let chunks: Vec<Vec<u8>> = places
            .into_iter()
            .flat_map(|at| [Kind::NoiseThenWalk(at), Kind::WalkThenNoise(at)])
            .map(|kind| arrays::bytes(&array, kind, &mut random))
            .collect();
        assert!(chunks.iter().any(|raw| is_stored(&array, raw)), "{extents:?}: nothing is stored");
        assert!(chunks.iter().any(|raw| !is_stored(&array, raw)), "{extents:?}: everything is stored");
        // All chunks together, and each alone: a chunk's neighbors must not matter.
        Batch::new(&stream, array, &crate::common::ndzip(), Layout::of(chunks.len()))
            .check(&chunks, &format!("{extents:?}"));
        for (i, chunk) in chunks.iter().enumerate() {
            let alone = Batch::new(&stream, array, &crate::common::ndzip(), Layout::of(1));
            alone.check(std::slice::from_ref(chunk), &format!("{extents:?}, content {i} alone"));
        }
    }
}

/// Noise with the number of leading or trailing zeros at which the frame becomes shorter than a
/// stored one, and with a few more and fewer.
#[test]
fn frames_that_just_fit() {
    if !has_gpu("frames_that_just_fit") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(5);
    for (dtype, extents) in SHAPES {
        let array = array(dtype, ByteOrder::Little, extents);
        let size = array.element_size() as usize;
        let noise = arrays::bytes(&array, Kind::Noise, &mut random);
        let n = noise.len() / size;
        for in_front in [true, false] {
            let with_zeros = |n_zeros: usize| {
                let mut raw = noise.clone();
                let zeros = if in_front { 0..n_zeros * size } else { (n - n_zeros) * size..n * size };
                raw[zeros].fill(0);
                raw
            };
            // The smallest sufficient number of zeros is in (low, high].
            let (mut low, mut high) = (0, n);
            assert!(is_stored(&array, &with_zeros(low)) && !is_stored(&array, &with_zeros(high)), "{extents:?}");
            while high - low > 1 {
                let middle = low.midpoint(high);
                if is_stored(&array, &with_zeros(middle)) { low = middle } else { high = middle }
            }
            let near = high.saturating_sub(3)..=(high + 3).min(n);
            let chunks: Vec<Vec<u8>> = near.map(with_zeros).collect();
            let batch = Batch::new(&stream, array, &crate::common::ndzip(), Layout::of(chunks.len()));
            batch.check(&chunks, &format!("{extents:?} in_front {in_front}"));
        }
    }
}
