//! Batches whose chunks have different folds, or different blocks at level max of quant: each chunk
//! gets those of the CPU, and all are decompressed, also regions of them.

use gridz::{Array, ByteOrder, DType, Request, Verify};
use gridz_codecs::codec::mode::Mode;

use crate::arrays::array;
use crate::batch::{Batch, Layout};
use crate::common::generate::Input;
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

/// The frames of a batch; `all` are the bytes of its slots.
fn frames_of<'a>(batch: &Batch, all: &'a [u8]) -> Vec<&'a [u8]> {
    let lengths = batch.read_lengths();
    (0..batch.n_chunks).map(|i| &all[i * batch.slot..][..lengths[i] as usize]).collect()
}

/// Decompresses a region of each chunk of a batch.
fn check_regions(stream: &Stream, batch: &Batch, frames: &[&[u8]], what: &str) {
    let (array, n_chunks) = (&batch.array, batch.n_chunks);
    let extents = array.shape().extents();
    let start: Vec<u64> = extents.iter().map(|&n| n / 3).collect();
    let count: Vec<u64> = extents.iter().zip(&start).map(|(&n, &start)| (n - start).min(n / 2 + 1)).collect();
    let n_bytes = count.iter().product::<u64>() as usize * array.element_size() as usize;
    let dst = Memory::new(stream, n_chunks * n_bytes, 0);
    batch.submit_region(&start, &count, &dst, n_bytes, 0);
    let regions = dst.read_all();
    assert_eq!(batch.read_statuses(), vec![0; n_chunks], "{what}");
    for (frame, region) in frames.iter().zip(regions.chunks_exact(n_bytes)) {
        let mut expected = vec![0; n_bytes];
        let part = gridz::Part::Region { start: &start, count: &count };
        gridz::decompress(*frame, part, &mut expected[..], Verify::Checksum, &cpu()).unwrap();
        assert_same_bytes(region, &expected, what);
    }
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
        let all = batch.frames.read_all();
        let frames = frames_of(&batch, &all);
        for frame in &frames {
            assert_eq!(decompress(frame, &cpu()).unwrap().len() as u64, array.n_bytes());
            *folds.entry((spec.to_string(), fold(frame))).or_default() += 1;
        }

        check_regions(&stream, &batch, &frames, &what);
    }
    println!("frames by request and fold: {folds:?}");
    assert_eq!(folds.len(), n_specs * 3, "{folds:?}");
}

/// The kind of a quant frame's blocks; 0 if it is stored.
fn kind_of(frame: &[u8]) -> u8 {
    if frame[5] == 3 { frame[43 + 8 * usize::from(frame[9])] & 3 } else { 0 }
}

#[test]
fn chunks_of_a_batch_at_level_max_have_different_blocks() {
    const GENERATORS: [&str; 6] = ["field", "cubic", "field_noise", "field_over_time", "random", "field_gaps"];
    const EXTENTS: [&[u64]; 5] = [&[9, 40, 70], &[7, 5, 12, 26], &[3, 5000], &[100, 60, 3], &[20_000]];
    if !has_gpu("chunks_of_a_batch_at_level_max_have_different_blocks") {
        return;
    }
    let stream = Stream::new();
    let (mut kinds, mut n_mixed) = ([0; 4], 0);
    let types = [DType::F32, DType::F64, DType::I16, DType::C64];
    let n = n_cases(20).max(10) as usize;
    for case in 0..n {
        let bound = ["rel=1e-3", "abs=0.01", "rel=1e-5,fill=-999", "abs=2"][case % 4];
        let spec: Request = format!("quant,level=max,{bound}").parse().unwrap();
        let (dtype, extents) = (types[case / 2 % types.len()], EXTENTS[case % EXTENTS.len()]);
        let n_chunks = 2 + case % 5;
        let inputs = (0..n_chunks).map(|i| {
            let generator = GENERATORS[(case + i) % GENERATORS.len()];
            Input {
                big_endian: case % 3 == 0,
                seed: (case * 7 + i) as u64,
                ..Input::new(generator, dtype, extents)
            }
        });
        let inputs: Vec<Input> = inputs.collect();
        let layout = Layout { n_chunks, shift: 0, gap: case % 3, slot_gap: case % 2, has_workspace: case % 2 == 0 };
        let (array, what) = (inputs[0].array(), format!("{spec:?} {inputs:?}"));
        let chunks: Vec<Vec<u8>> = inputs.iter().map(Input::bytes).collect();
        let batch = Batch::new(&stream, array, &spec, layout);
        batch.check(&chunks, &what);
        let all = batch.frames.read_all();
        let frames = frames_of(&batch, &all);
        check_regions(&stream, &batch, &frames, &what);
        let mut found = [0; 4];
        frames.iter().for_each(|frame| found[usize::from(kind_of(frame))] += 1);
        n_mixed += usize::from(found[1] > 0 && found[3] > 0);
        kinds.iter_mut().zip(found).for_each(|(all, found)| *all += found);
    }
    println!("frames by kind of blocks: {kinds:?}, both kinds in {n_mixed} of {n} batches");
    assert!(kinds[2] == 0 && kinds[1] >= n && kinds[3] >= n && 4 * n_mixed >= n, "{kinds:?} {n_mixed}");
}
