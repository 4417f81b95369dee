//! The GPU against the CPU, on a machine that has one: whole frames are the same bytes, and each side
//! reads what the other wrote.
//!
//! Skipped, counted and printed where there is no GPU; `GRIDZ_REQUIRE_GPU=1` makes that a failure.

#![allow(unsafe_code, reason = "calls the C API")]

mod common;

use std::ffi::c_void;

use common::generate::{Input, Xorshift};
use common::{assert_same_bytes, compress, decompress, sha256, shared, skip};
use gridz::codec::registry::CODECS;
use gridz::cuda::{Device, gpus};
use gridz::ffi::api::{gridz_compress, gridz_decompress, gridz_last_error};
use gridz::ffi::types::gridz_array;
use gridz::settings::Backend;
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Shape, Spec, Verify};

fn cpu() -> Context {
    Context::new(Some(4), None).unwrap().on(Backend::Cpu, None).unwrap()
}

fn gpu() -> Context {
    Context::new(Some(1), None).unwrap().on(Backend::Cuda, None).unwrap()
}

fn has_gpu(test: &str) -> bool {
    match gpus() {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("GRIDZ_REQUIRE_GPU").is_none(), "{test}: {error}");
            skip(test, &error.to_string());
            false
        }
    }
}

/// Both back ends write the same frame, and read each other's.
fn agree(array: &Array, raw: &[u8], what: &str) {
    for entry in CODECS.iter().filter(|entry| entry.gpu.is_some()) {
        let spec = Spec::new(u32::from(entry.id), 0).unwrap();
        let by_cpu = compress(array, &spec, raw, &cpu());
        let by_gpu = compress(array, &spec, raw, &gpu());
        assert_same_bytes(&by_gpu, &by_cpu, &format!("{what}: frame"));
        assert_same_bytes(&decompress(&by_cpu, &gpu()).unwrap(), raw, &format!("{what}: read by the GPU"));
        assert_same_bytes(&decompress(&by_gpu, &cpu()).unwrap(), raw, &format!("{what}: read by the CPU"));
    }
}

fn input(generator: &str, dtype: &str, extents: &[u64], big_endian: bool) -> Input {
    Input { generator: generator.into(), dtype: dtype.into(), big_endian, extents: extents.to_vec(), seed: 0 }
}

#[test]
fn reference_vectors() {
    if !has_gpu("reference_vectors") {
        return;
    }
    let Some(shared) = shared("gpu reference_vectors") else { return };
    let folder = shared.join("vectors/ndzip");
    let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let vectors = manifest["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 82);
    for vector in vectors {
        let text = |key: &str| vector[key].as_str().unwrap().to_owned();
        let raw = std::fs::read(folder.join(text("raw_file"))).unwrap();
        assert_eq!(sha256(&raw), text("raw_sha256"));
        let dims: Vec<u64> = vector["dims"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let dtype = if text("dtype") == "f32" { DType::F32 } else { DType::F64 };
        let array = Array::new(dtype, ByteOrder::Little, Shape::new(&dims).unwrap()).unwrap();
        agree(&array, &raw, &text("name"));
    }
}

#[test]
fn shapes_and_values_of_all_kinds() {
    if !has_gpu("shapes_and_values_of_all_kinds") {
        return;
    }
    let generators = ["walk", "random", "zero", "negative_zero", "ramp", "pi"];
    let sides = [1, 2, 3, 15, 16, 17, 31, 33, 48, 63, 64, 65, 67, 100, 128, 129, 200];
    let mut random = Xorshift::new(7);
    let mut pick = |n: usize| (random.next() >> 33) as usize % n;
    for i in 0..600 {
        let rank = 1 + pick(4);
        let mut extents: Vec<u64> = (0..rank).map(|_| sides[pick(sides.len())]).collect();
        if rank == 1 {
            extents[0] = (pick(40_000) + 1) as u64;
        }
        while extents.iter().product::<u64>() > 1 << 21 {
            let largest = extents.iter_mut().max().unwrap();
            *largest = largest.div_ceil(2);
        }
        let input =
            input(generators[pick(generators.len())], ["float32", "float64"][pick(2)], &extents, pick(4) == 0);
        agree(&input.array(), &input.bytes(), &format!("case {i} {input:?}"));
    }
}

#[test]
fn large_arrays() {
    if !has_gpu("large_arrays") {
        return;
    }
    for (dtype, extents) in [
        ("float32", &[250, 509, 253][..]),
        ("float64", &[128, 256, 256]),
        ("float32", &[33_554_433]),
        ("float64", &[4097, 4099]),
        ("float32", &[16, 1024, 1023]),
    ] {
        let input = input("walk", dtype, extents, false);
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
                for i in 0..20 {
                    let input = input("walk", "float32", &[40 + thread, 64 + i, 70], false);
                    agree(&input.array(), &input.bytes(), &format!("thread {thread} {input:?}"));
                }
            });
        }
    });
}

/// Damage is found on the GPU as on the CPU, and the GPU works on afterwards.
#[test]
fn hostile_payloads() {
    if !has_gpu("hostile_payloads") {
        return;
    }
    let mut random = Xorshift::new(99);
    for (dtype, extents) in [("float32", &[40, 33, 50][..]), ("float64", &[70, 130]), ("float32", &[12_305])] {
        let input = input("walk", dtype, extents, false);
        let (array, raw) = (input.array(), input.bytes());
        let frame = compress(&array, &Spec::default(), &raw, &cpu());
        for i in 0..300 {
            let mut damaged = frame.clone();
            // The table and the heads first: what a decoder might use as a length.
            let end = if i % 2 == 0 { 64 + 700 } else { frame.len() };
            for _ in 0..1 + random.next() % 4 {
                let at = 64 + (random.next() >> 16) as usize % (end - 64);
                damaged[at] = (random.next() >> 24) as u8;
            }
            if damaged == frame {
                continue;
            }
            let error = decompress(&damaged, &gpu()).unwrap_err();
            let known = [ErrorKind::Corrupt, ErrorKind::Truncated];
            assert!(known.contains(&error.kind()), "{error:?}");
            // Without the comparison of checksums both give the same answer.
            let read = |context: &Context| {
                let mut back = vec![0; raw.len()];
                gridz::decompress(&damaged, &mut back, Verify::Structure, context).map(|_| back)
            };
            match (read(&cpu()), read(&gpu())) {
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

/// A call of the C API that reads `src` and writes to `dst`: its status, and how many bytes it wrote.
type Call<'a> = &'a dyn Fn((*const c_void, usize), (*mut c_void, usize)) -> (i32, usize);

/// Makes `call` with source and destination in host memory or that of the GPU, `shift` bytes from an aligned
/// address.
fn call_with(call: Call, src: &[u8], capacity: usize, on_gpu: (bool, bool), shift: u64) -> Vec<u8> {
    let stream = Device::of_gpu(0).unwrap().stream().unwrap();
    let (src_dev, dst_dev) =
        (stream.alloc(src.len() as u64 + shift).unwrap(), stream.alloc(capacity as u64 + shift).unwrap());
    stream.copy_in(src_dev.slice(shift..shift + src.len() as u64).unwrap(), src).unwrap();
    stream.zero(dst_dev.all()).unwrap();
    stream.synchronize().unwrap();
    let address = |memory: u64| (memory + shift) as usize;
    let mut dst = vec![0u8; capacity];
    let from = if on_gpu.0 {
        std::ptr::with_exposed_provenance(address(src_dev.all().address()))
    } else {
        src.as_ptr().cast()
    };
    let to = if on_gpu.1 {
        std::ptr::with_exposed_provenance_mut(address(dst_dev.all().address()))
    } else {
        dst.as_mut_ptr().cast()
    };
    let (status, n_bytes) = call((from, src.len()), (to, capacity));
    // SAFETY: a string that lives until the next error of this thread.
    let text = unsafe { std::ffi::CStr::from_ptr(gridz_last_error()) };
    assert_eq!(status, 0, "{on_gpu:?} {shift}: {text:?}");
    if on_gpu.1 {
        stream.copy_out(dst_dev.slice(shift..shift + capacity as u64).unwrap(), &mut dst).unwrap();
    }
    dst.truncate(n_bytes);
    dst
}

/// The C API takes pointers to GPU memory for host memory: the same frames and arrays, whatever lies where.
#[test]
fn memory_of_the_gpu() {
    if !has_gpu("memory_of_the_gpu") {
        return;
    }
    for (generator, dtype, extents, big_endian) in [
        ("walk", "float32", &[40, 70, 90][..], false),
        ("walk", "float64", &[130, 140], false),
        ("zero", "float32", &[4096], false),
        ("random", "float32", &[64, 64], false),
        ("walk", "float32", &[33, 34, 35], true),
        ("walk", "int16", &[1000], false),
        ("walk", "float64", &[7], false),
    ] {
        let input = input(generator, dtype, extents, big_endian);
        let (array, raw) = (input.array(), input.bytes());
        let frame = compress(&array, &Spec::default(), &raw, &cpu());
        let bound = gridz::compress_bound(&array, &Spec::default()).unwrap() as usize;
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
                let compressed = call_with(
                    &|src, dst| {
                        let mut n = 0;
                        // SAFETY: memory of the lengths given.
                        let status = unsafe {
                            gridz_compress(&c_array, src.0, src.1, dst.0, dst.1, &mut n, std::ptr::null())
                        };
                        (status, n)
                    },
                    &raw,
                    bound,
                    on_gpu,
                    shift,
                );
                assert_same_bytes(&compressed, &frame, &what);
                let back = call_with(
                    &|src, dst| {
                        let mut n = 0;
                        // SAFETY: memory of the lengths given.
                        let status =
                            unsafe { gridz_decompress(src.0, src.1, dst.0, dst.1, &mut n, std::ptr::null()) };
                        (status, n)
                    },
                    &frame,
                    raw.len() + 5,
                    on_gpu,
                    shift,
                );
                assert_same_bytes(&back, &raw, &what);
            }
        }
    }
}
