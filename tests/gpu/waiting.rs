//! Synchronous calls: Rust and C, with host and GPU memory.

use std::ffi::{CStr, c_void};
use std::ptr;

use gridz::{Array, ByteOrder, DType, ErrorKind, Request, Verify};
use gridz_capi::api::{gridz_compress, gridz_decompress, gridz_last_error};
use gridz_capi::types::gridz_array;
use gridz_codecs::codec::mode::Mode;
use gridz_codecs::codec::registry::CODECS;

use crate::arrays::{self, Kind, Random, array};
use crate::common::generate::Input;
use crate::common::{assert_same_bytes, compress, decompress, quant, vectors::vectors};
use crate::driver::{Memory, Stream};
use crate::{cpu, gpu, has_gpu, n_cases};

/// Asserts that both back ends write the same frame, and read each other's.
fn agree(array: &Array, raw: &[u8], what: &str) {
    let lossless = CODECS.iter().filter(|entry| entry.modes.contains(&Mode::Lossless));
    let specs = lossless.map(|entry| Request::new(u32::from(entry.id), 0).unwrap());
    for spec in specs.chain([quant(Mode::Abs, 1e-3, 1), quant(Mode::Rel, 1e-4, 1)]) {
        let by_cpu = compress(array, &spec, raw, &cpu());
        let by_gpu = compress(array, &spec, raw, &gpu());
        assert_same_bytes(&by_gpu, &by_cpu, &format!("{what}: frame of {spec:?}"));
        let kept = decompress(&by_cpu, &cpu()).unwrap();
        assert!(spec.mode() != Mode::Lossless || kept == raw, "{what}: {spec:?}");
        assert_same_bytes(
            &decompress(&by_cpu, &gpu()).unwrap(),
            &kept,
            &format!("{what}: {spec:?} read by the GPU"),
        );
    }
}

#[test]
fn reference_vectors() {
    if !has_gpu("waiting::reference_vectors") {
        return;
    }
    for vector in vectors("gpu waiting::reference_vectors").unwrap_or_default() {
        agree(&vector.array(), &vector.raw, &vector.name);
    }
}

#[test]
fn random_arrays() {
    if !has_gpu("random_arrays") {
        return;
    }
    let mut random = Random::new(13);
    for case in 0..n_cases(150) {
        let dtype = [DType::F32, DType::F64][case as usize % 2];
        let order = [ByteOrder::Little, ByteOrder::Big][usize::from(case % 5 == 4)];
        let array = array(dtype, order, &arrays::extents(&mut random, 1 + case as usize / 2 % 4, 500_000));
        let kind = Kind::random(&mut random, array.shape().n_elements() as usize);
        let raw = arrays::bytes(&array, kind, &mut random);
        agree(&array, &raw, &format!("case {case}: {dtype:?} {order:?} {:?} {kind:?}", array.shape().extents()));
    }
}

#[test]
fn large_arrays() {
    if !has_gpu("large_arrays") {
        return;
    }
    for (dtype, extents) in [
        (DType::F32, &[250, 509, 253][..]),
        (DType::F64, &[128, 256, 256]),
        (DType::F32, &[33_554_433]),
        (DType::F64, &[2049, 4099]),
        (DType::F32, &[16, 1024, 1023]),
    ] {
        let input = Input::new("walk", dtype, extents);
        agree(&input.array(), &input.bytes(), &format!("{input:?}"));
    }
}

#[test]
fn threads_share_a_gpu() {
    if !has_gpu("threads_share_a_gpu") {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for i in 0..10 {
                    let input = Input::new("walk", DType::F32, &[40 + thread, 64 + i, 70]);
                    agree(&input.array(), &input.bytes(), &format!("thread {thread} {input:?}"));
                }
            });
        }
    });
}

/// The GPU detects damage as the CPU does, and keeps working afterwards.
#[test]
fn damaged_frames() {
    if !has_gpu("waiting::damaged_frames") {
        return;
    }
    let mut random = Random::new(99);
    for (dtype, extents) in [(DType::F32, &[40, 33, 50][..]), (DType::F64, &[70, 130]), (DType::F32, &[12_305])] {
        let input = Input::new("walk", dtype, extents);
        let (array, raw) = (input.array(), input.bytes());
        let frame = compress(&array, &crate::common::ndzip(), &raw, &cpu());
        let start = gridz_codecs::format::header::header_bytes(array.shape().rank(), 0);
        for i in 0..100 {
            let mut damaged = frame.clone();
            // Damage mainly the table and the heads, which contain values that a decoder might use
            // as a length.
            let end = if i % 2 == 0 { start + 700 } else { frame.len() };
            for _ in 0..=random.below(4) {
                damaged[start + random.below(end - start)] = random.word() as u8;
            }
            if damaged == frame {
                continue;
            }
            let known = [ErrorKind::Corrupt, ErrorKind::Truncated];
            let error = decompress(&damaged, &gpu()).err().map(|error| error.kind());
            assert!(error.is_some_and(|kind| known.contains(&kind)), "damage {i} of {input:?}: {error:?}");
            // Without checksum verification, both give the same result.
            let read = |context| {
                let mut back = vec![0; raw.len()];
                gridz::decompress(&damaged, gridz::Part::All, &mut back, Verify::Structure, &context).map(|_| back)
            };
            match (read(cpu()), read(gpu())) {
                (Ok(by_cpu), Ok(by_gpu)) => assert_same_bytes(&by_gpu, &by_cpu, "damaged data"),
                (Err(by_cpu), Err(by_gpu)) => {
                    assert!(known.contains(&by_cpu.kind()) && known.contains(&by_gpu.kind()));
                }
                (by_cpu, by_gpu) => panic!("CPU {:?}, GPU {:?}", by_cpu.err(), by_gpu.err()),
            }
        }
        assert_same_bytes(&decompress(&frame, &gpu()).unwrap(), &raw, "after all that");
    }
}

/// A call of the C API that reads `src` and writes to `dst`; returns its status and the number of
/// bytes written.
type Call<'a> = &'a dyn Fn((*const c_void, usize), (*mut c_void, usize)) -> (i32, usize);

/// Runs `call` with source and destination in host or GPU memory, `shift` bytes past an aligned
/// address.
fn call_with(call: Call, src: &[u8], capacity: usize, on_gpu: (bool, bool), shift: usize, what: &str) -> Vec<u8> {
    let stream = Stream::new();
    let (src_dev, dst_dev) = (Memory::of(&stream, src, shift), Memory::new(&stream, capacity, shift));
    stream.synchronize();
    let mut dst = vec![0u8; capacity];
    let from = if on_gpu.0 { src_dev.ptr::<c_void>().cast_const() } else { src.as_ptr().cast() };
    let to = if on_gpu.1 { dst_dev.ptr() } else { dst.as_mut_ptr().cast() };
    let (status, n_bytes) = call((from, src.len()), (to, capacity));
    // SAFETY: the string is valid until the next error of this thread.
    let text = unsafe { CStr::from_ptr(gridz_last_error()) };
    assert_eq!(status, 0, "{what}: {text:?}");
    src_dev.assert_guards(what);
    dst_dev.assert_guards(what);
    if on_gpu.1 {
        dst = dst_dev.read_all();
    }
    dst.truncate(n_bytes);
    dst
}

/// The C API accepts GPU pointers in place of host pointers: the same frames and arrays for any
/// combination.
#[test]
fn memory_of_the_gpu() {
    if !has_gpu("memory_of_the_gpu") {
        return;
    }
    for (generator, dtype, extents, big_endian) in [
        ("walk", DType::F32, &[40, 70, 90][..], false),
        ("walk", DType::F64, &[130, 140], false),
        ("zero", DType::F32, &[4096], false),
        ("random", DType::F32, &[64, 64], false),
        ("walk", DType::F32, &[33, 34, 35], true),
        ("walk", DType::I16, &[1000], false),
        ("walk", DType::F64, &[7], false),
    ] {
        let input = Input { big_endian, ..Input::new(generator, dtype, extents) };
        let (array, raw) = (input.array(), input.bytes());
        let frame = compress(&array, &gridz::Request::default(), &raw, &cpu());
        let bound = gridz::compress_bound(&array, &gridz::Request::default()).unwrap() as usize;
        let c_array = gridz_array {
            struct_size: size_of::<gridz_array>(),
            dtype: u32::from(array.dtype().id()),
            byte_order: if big_endian { 2 } else { 1 },
            element_size: 0,
            rank: extents.len() as u32,
            extents: extents.as_ptr(),
        };
        for on_gpu in [(true, true), (true, false), (false, true), (false, false)] {
            for shift in [0, 16, 8, 4, 1] {
                let what = format!("{input:?} {on_gpu:?} shift {shift}");
                let pack: Call = &|src, dst| {
                    let mut n = 0;
                    // SAFETY: memory of the given lengths.
                    let status =
                        unsafe { gridz_compress(&c_array, src.0, src.1, dst.0, dst.1, &mut n, ptr::null()) };
                    (status, n)
                };
                assert_same_bytes(&call_with(pack, &raw, bound, on_gpu, shift, &what), &frame, &what);
                let unpack: Call = &|src, dst| {
                    let mut n = 0;
                    // SAFETY: memory of the given lengths.
                    let status = unsafe { gridz_decompress(src.0, src.1, dst.0, dst.1, &mut n, ptr::null()) };
                    (status, n)
                };
                assert_same_bytes(&call_with(unpack, &frame, raw.len() + 5, on_gpu, shift, &what), &raw, &what);
            }
        }
    }
}
