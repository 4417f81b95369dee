//! Batches of all shapes, contents and memory locations.

use gridz::{Array, ByteOrder, DType, Request, Shape};
use gridz_codecs::codec::mode::Mode;
use gridz_codecs::codec::registry;

use crate::arrays::{self, Kind, Random, array};
use crate::batch::{Batch, Layout};
use crate::common::{assert_same_bytes, specs_of_gpus, vectors::vectors};
use crate::driver::Stream;
use crate::{has_gpu, n_cases};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

#[test]
fn reference_vectors() {
    if !has_gpu("reference_vectors") {
        return;
    }
    let stream = Stream::new();
    for vector in vectors("gpu reference_vectors").unwrap_or_default() {
        let batch = Batch::new(&stream, vector.array(), &crate::common::ndzip(), Layout::of(1));
        batch.check(std::slice::from_ref(&vector.raw), &vector.name);
        let frame = &batch.frames.read_all()[..batch.read_lengths()[0] as usize];
        // The frame contains the published stream, unless that is longer than the array.
        if gridz::inspect(frame).unwrap().codec == batch.spec.codec() {
            let payload = &frame[frame.len() - vector.stream.len()..];
            let mut stream = vector.stream;
            if let Some(pad) = vector.pad {
                stream[pad].fill(0);
            }
            assert_same_bytes(payload, &stream, &vector.name);
        }
    }
}

#[test]
fn random_batches() {
    if !has_gpu("random_batches") {
        return;
    }
    specs_of_gpus().for_each(|spec| random_batches_by(&spec));
}

/// Cycles through the types that the codec supports, with an occasional one that it may store
/// instead.
pub fn dtype(spec: &Request, case: usize) -> DType {
    const NUMBERS: [DType; 9] = [
        DType::F32,
        DType::F64,
        DType::C64,
        DType::I64,
        DType::U8,
        DType::F64,
        DType::I16,
        DType::U32,
        DType::C128,
    ];
    let dtype = NUMBERS[case % NUMBERS.len()];
    let of_codec = registry::find(spec.codec()).unwrap().dtypes;
    let own: Vec<DType> = of_codec.iter().copied().filter(|&dtype| dtype != DType::Opaque).collect();
    let is_usual = case % 7 < 6 && (own.contains(&dtype) || (dtype == DType::I16 && spec.mode() == Mode::Lossless));
    if is_usual { dtype } else { own[case / 7 % own.len()] }
}

/// The part of these tests that needs no GPU.
#[test]
fn arrays_of_every_type_are_made() {
    let mut random = Random::new(9);
    for spec in specs_of_gpus() {
        for case in 0..200 {
            let array =
                array(dtype(&spec, case), ORDERS[case % 2], &arrays::extents(&mut random, 1 + case % 4, 3000));
            let kind = Kind::random(&mut random, array.shape().n_elements() as usize);
            assert_eq!(arrays::bytes(&array, kind, &mut random).len() as u64, array.n_bytes(), "{spec:?} {kind:?}");
        }
    }
}

fn random_batches_by(spec: &Request) {
    let stream = Stream::new();
    let mut random = Random::new(1);
    let n_cases = n_cases(300);
    // A small number of cases means a sanitizer run, which is slow.
    let most = if n_cases < 20 { 100_000 } else { 1_000_000 };
    for case in 0..n_cases as usize {
        // Types, ranks and orders cycle, so that few cases cover all of them.
        let dtype = dtype(spec, case);
        let order = ORDERS[usize::from(case % 5 == 4)];
        let most_chunks = random.pick(&[1, 1, 1, 1, 1, 1, 5, 5, 300]);
        let n_chunks = 1 + random.below(most_chunks);
        let rank = 1 + case / 2 % 4;
        let extents = arrays::extents(&mut random, rank, if n_chunks > 10 { most / 25 } else { most });
        let layout = Layout {
            n_chunks,
            shift: random.below(5),
            gap: if random.once_in(2) { random.below(40) } else { 0 },
            slot_gap: if random.once_in(2) { random.below(100) } else { 0 },
            has_workspace: random.once_in(2),
        };
        let array = array(dtype, order, &extents);
        check(
            &stream,
            spec,
            &array,
            layout,
            &mut random,
            &format!("case {case}: {dtype:?} {order:?} {extents:?} {layout:?}"),
        );
    }
}

/// Checks chunks of random contents.
fn check(stream: &Stream, spec: &Request, array: &Array, layout: Layout, random: &mut Random, what: &str) {
    let n = array.shape().n_elements() as usize;
    let kinds: Vec<Kind> = (0..layout.n_chunks).map(|_| Kind::random(random, n)).collect();
    let chunks: Vec<Vec<u8>> = kinds.iter().map(|&kind| arrays::bytes(array, kind, random)).collect();
    let what = format!("{spec:?} {what} {:?}", &kinds[..kinds.len().min(5)]);
    Batch::new(stream, *array, spec, layout).check(&chunks, &what);
}

/// Very many chunks; a few are incompressible.
#[test]
fn large_batches() {
    if !has_gpu("large_batches") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(2);
    for (dtype, extents, n_chunks) in [
        (DType::F32, &[18, 17, 19][..], 4096),
        (DType::F64, &[70, 66], 2048),
        (DType::F32, &[4096], 4096),
        (DType::F64, &[100], 4096),
    ] {
        let n_chunks = n_cases(n_chunks) as usize;
        let array = array(dtype, ByteOrder::Little, extents);
        let chunks: Vec<Vec<u8>> = (0..n_chunks)
            .map(|_| {
                let kind = if random.once_in(500) { Kind::Noise } else { random.pick(&[Kind::Walk, Kind::Mixed]) };
                arrays::bytes(&array, kind, &mut random)
            })
            .collect();
        let layout = Layout { has_workspace: true, gap: 1, ..Layout::of(n_chunks) };
        for spec in specs_of_gpus() {
            let what = format!("{spec:?}: {n_chunks} of {extents:?}");
            Batch::new(&stream, array, &spec, layout).check(&chunks, &what);
        }
    }
}

/// Elements that no codec supports, arrays with zero elements or one, and requests for `stored`.
#[test]
fn stored_arrays() {
    if !has_gpu("stored_arrays") {
        return;
    }
    let stream = Stream::new();
    let mut random = Random::new(3);
    let shape = |extents: &[u64]| Shape::new(extents).unwrap();
    let cases = [
        (Array::new(DType::I16, ByteOrder::Big, shape(&[3, 1001])), Ok(crate::common::ndzip())),
        (Array::new(DType::U8, ByteOrder::Little, shape(&[16_385])), Ok(crate::common::ndzip())),
        (Array::new(DType::U8, ByteOrder::Little, shape(&[1])), Ok(crate::common::ndzip())),
        (Array::opaque(3, shape(&[77, 1003])), Ok(crate::common::ndzip())),
        (Array::new(DType::C128, ByteOrder::Big, shape(&[5, 999])), Ok(crate::common::ndzip())),
        (Array::new(DType::F32, ByteOrder::Little, shape(&[40, 0, 9])), Ok(crate::common::ndzip())),
        (Array::new(DType::U8, ByteOrder::Little, shape(&[0])), Ok(crate::common::ndzip())),
        (Array::new(DType::F64, ByteOrder::Big, shape(&[])), Ok(crate::common::ndzip())),
        (Array::new(DType::F32, ByteOrder::Little, shape(&[15, 15, 15])), Ok(crate::common::ndzip())),
        (Array::new(DType::F64, ByteOrder::Big, shape(&[4095])), Ok(crate::common::ndzip())),
        (Array::new(DType::F32, ByteOrder::Little, shape(&[100, 101])), Request::new(0, 0)),
        (Array::new(DType::F64, ByteOrder::Big, shape(&[33, 34, 35])), Request::new(0, 0)),
    ];
    for (array, spec) in cases {
        let (array, spec) = (array.unwrap(), spec.unwrap());
        for layout in [
            Layout::of(1),
            Layout { n_chunks: 7, shift: 1, gap: 0, slot_gap: 16, has_workspace: true },
            Layout { n_chunks: 100, shift: 3, gap: 5, slot_gap: 0, has_workspace: false },
        ] {
            let mut bytes = || arrays::bytes(&array, Kind::Noise, &mut random);
            let chunks: Vec<Vec<u8>> = (0..layout.n_chunks).map(|_| bytes()).collect();
            Batch::new(&stream, array, &spec, layout).check(&chunks, &format!("{array:?} {layout:?}"));
        }
    }
}
