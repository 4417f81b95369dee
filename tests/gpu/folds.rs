//! Batches whose chunks have different folds: each chunk gets the fold of the CPU, and all are
//! decompressed, also regions of them.

use gridz::{Array, ByteOrder, DType, Request, Verify};
use gridz_codecs::codec::mode::Mode;

use crate::arrays::array;
use crate::batch::{Batch, Layout};
use crate::common::{assert_same_bytes, decompress, specs_of_gpus};
use crate::driver::{Memory, Stream};
use crate::{cpu, has_gpu, n_cases};

/// A number that depends on the position, and on nothing near it.
fn noise(at: [u64; 3]) -> f64 {
    let mixed = at.iter().fold(1u64, |mixed, &k| (mixed ^ k).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
    (mixed >> 54) as f64
}

/// A chunk of smooth steps along one of two axes, which predicts best with one of two folds.
fn chunk(array: &Array, kind: usize) -> Vec<u8> {
    let extents = array.shape().extents();
    let mut bytes = Vec::new();
    for i in 0..array.shape().n_elements() {
        let (mut at, mut rest) = (vec![0; extents.len()], i);
        for axis in (0..extents.len()).rev() {
            (at[axis], rest) = (rest % extents[axis], rest / extents[axis]);
        }
        let number = match (&at[..], kind) {
            (&[t, z, y, x], 0) => noise([t, y, x]) + z as f64,
            (&[t, z, y, x], _) => noise([z, y, x]) + t as f64,
            (_, 0) => noise([at[1], 0, 0]) + at[0] as f64,
            (_, _) => noise([at[0], at[1] / 16, 1]),
        };
        let mut part = |number: f64| match array.dtype().parts().0 {
            DType::I16 => bytes.extend((number as i16).to_le_bytes()),
            DType::U8 => bytes.push(number as u8),
            DType::F32 => bytes.extend((number as f32).to_le_bytes()),
            _ => bytes.extend(number.to_le_bytes()),
        };
        (0..array.dtype().parts().1).for_each(|_| part(number));
    }
    if array.order() == ByteOrder::Big {
        let size = array.dtype().number_size().unwrap() as usize;
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

/// The fold byte of a frame.
fn fold(frame: &[u8]) -> u8 {
    frame[10]
}

#[test]
fn chunks_of_a_batch_have_different_folds() {
    if !has_gpu("chunks_of_a_batch_have_different_folds") {
        return;
    }
    let stream = Stream::new();
    let mut folds = std::collections::BTreeMap::<(String, u8), usize>::new();
    let bounded = ["quant,rel=1e-3", "quant,abs=0.5,level=dense", "quant,abs=2,level=max", "quant,pwrel=1e-2"];
    let specs: Vec<Request> = specs_of_gpus()
        .filter(|spec| spec.name() == "lorenzo")
        .chain(bounded.map(|text| text.parse().unwrap()))
        .collect();
    let n_specs = specs.len();
    let types = [DType::F32, DType::F64, DType::C64, DType::I16, DType::U8];
    for (case, spec) in (0..n_cases(20).max(5)).flat_map(|case| specs.iter().map(move |spec| (case as usize, spec)))
    {
        // Pointwise relative bounds are for floats.
        let n_types = if spec.mode() == Mode::Pwrel { 3 } else { types.len() };
        let dtype = types[case % n_types];
        let order = [ByteOrder::Little, ByteOrder::Big][case / types.len() % 2];
        let extents: &[u64] = [&[7, 5, 12, 26][..], &[3, 5000]][(case + case / types.len()) % 2];
        let array = array(dtype, order, extents);
        let n_chunks = 1 + case % 4 * 2;
        let layout = Layout { n_chunks, shift: 0, gap: case % 3, slot_gap: case % 2, has_workspace: case % 2 == 0 };
        let chunks: Vec<Vec<u8>> = (0..n_chunks).map(|i| chunk(&array, i % 2)).collect();
        let what = format!("{spec:?} {dtype:?} {extents:?}");
        let batch = Batch::new(&stream, array, spec, layout);
        batch.check(&chunks, &what);
        let (all, lengths) = (batch.frames.read_all(), batch.read_lengths());
        let frames: Vec<&[u8]> = (0..n_chunks).map(|i| &all[i * batch.slot..][..lengths[i] as usize]).collect();
        for frame in &frames {
            assert_eq!(decompress(frame, &cpu()).unwrap().len() as u64, array.n_bytes());
            *folds.entry((spec.to_string(), fold(frame))).or_default() += 1;
        }

        let start: Vec<u64> = extents.iter().map(|&n| n / 3).collect();
        let count: Vec<u64> = extents.iter().zip(&start).map(|(&n, &start)| (n - start).min(n / 2 + 1)).collect();
        let n_bytes = count.iter().product::<u64>() as usize * array.element_size() as usize;
        let dst = Memory::new(&stream, n_chunks * n_bytes, 0);
        batch.submit_region(&start, &count, &dst, n_bytes, 0);
        let regions = dst.read_all();
        assert_eq!(batch.read_statuses(), vec![0; n_chunks], "{what}");
        for (frame, region) in frames.iter().zip(regions.chunks_exact(n_bytes)) {
            let mut expected = vec![0; n_bytes];
            let part = gridz::Part::Region { start: &start, count: &count };
            gridz::decompress(*frame, part, &mut expected[..], Verify::Checksum, &cpu()).unwrap();
            assert_same_bytes(region, &expected, &what);
        }
    }
    println!("frames by request and fold: {folds:?}");
    assert_eq!(folds.len(), n_specs * 3, "{folds:?}");
}
