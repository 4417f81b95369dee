//! Calls in steady state (the third call of a kind) allocate nothing.
#![allow(unsafe_code, reason = "an allocator that counts, and the functions that C calls")]

mod common;
mod mock_cuda;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

use common::{compresses_on_gpu, lossy_specs, skip, specs, specs_of_gpus};
use gridz::device::{Batch, BatchMemory, async_workspace_bytes, compress_async, decompress_async};
use gridz::{Array, ByteOrder, Context, DType, Mode, Request, Shape, Verify};
use gridz_codecs::codec::registry;
use gridz_codecs::settings::{self, Backend};
use gridz_cuda::Device;
use mock_cuda::with_mock;

/// Counts the allocations of the calling thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: forwards to the system allocator, and counts the calls.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the third call of `call`.
fn of_third(mut call: impl FnMut()) -> u64 {
    call();
    call();
    let before = ALLOCATIONS.get();
    call();
    ALLOCATIONS.get() - before
}

/// Small enough that no codec uses several threads.
const SHAPE: [u64; 3] = [16, 32, 64];

fn array() -> Array {
    Array::new(DType::F32, ByteOrder::Little, Shape::new(&SHAPE).unwrap()).unwrap()
}

/// An array of this shape; of integers if the codec does not support floats.
fn array_for(spec: &Request) -> Array {
    if registry::find(spec.codec()).unwrap().dtypes.contains(&DType::F32) {
        return array();
    }
    Array::new(DType::I32, ByteOrder::Little, Shape::new(&SHAPE).unwrap()).unwrap()
}

/// Data that every codec compresses: half of it is smooth, the rest repeats the first value.
fn values() -> Vec<u8> {
    let n = SHAPE.iter().product::<u64>() as u32;
    (0..n).flat_map(|i| (if i < n / 2 { i as f32 } else { 0.0 }).sqrt().to_le_bytes()).collect()
}

#[test]
fn calls_on_the_cpu() {
    let (values, context) = (values(), Context::new(Some(1), None).unwrap());
    for spec in specs().chain(lossy_specs()) {
        let array = array_for(&spec);
        let mut frame = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
        let mut back = vec![0; values.len()];
        let mut n = 0;
        let compress = of_third(|| n = gridz::compress(&array, &spec, &values, &mut frame, &context).unwrap());
        let decompress = of_third(|| {
            gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &context).unwrap();
        });
        let is_back = back == values || spec.mode() != Mode::Lossless;
        assert!(is_back && gridz::inspect(&frame[..n]).unwrap().codec == spec.codec(), "{spec:?}");
        println!("cpu {spec:?}: compress {compress:?}, decompress {decompress:?}");
        // Norms are computed in memory that is not cached.
        let is_kept = !spec.to_string().contains(",s=");
        assert!((compress == 0 || !is_kept) && decompress == 0, "{spec:?}");
    }
}

/// `H5Z_class2_t`.
#[repr(C)]
struct FilterClass {
    numbers: [c_int; 4],
    name: *const c_void,
    can_apply: *const c_void,
    set_local: *const c_void,
    filter: unsafe extern "C" fn(u32, usize, *const u32, usize, *mut usize, *mut *mut c_void) -> usize,
}

#[test]
fn chunks_of_hdf5() {
    let values = values();
    // SAFETY: the struct lives as long as the process.
    let class = unsafe { &*gridz_dataset::hdf5::filter_class().cast::<FilterClass>() };
    for spec in specs() {
        let array = array_for(&spec);
        let words = gridz_dataset::hdf5::record::Record::new(&spec, array, None).unwrap().words();
        let run = |flags: u32, bytes: &[u8]| {
            // SAFETY: a malloc buffer with its size, as libhdf5 passes it.
            unsafe {
                let mut size = bytes.len();
                let mut buffer = libc::malloc(size);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast::<u8>(), size);
                let given = buffer;
                let n = (class.filter)(flags, words.len(), words.as_ptr(), size, &raw mut size, &raw mut buffer);
                assert!(n > 0);
                // A frame that fits is written to HDF5's own buffer: malloc returns freed pages to
                // the system, which costs more than compression.
                assert_eq!(buffer == given, flags == 0 && n <= bytes.len(), "{spec:?}");
                (n, buffer)
            }
        };
        let mut last: Option<(usize, *mut c_void)> = None;
        let mut keep = |made: (usize, *mut c_void)| {
            if let Some((_, buffer)) = last.replace(made) {
                // SAFETY: allocated by malloc, and not used again.
                unsafe { libc::free(buffer) };
            }
        };
        let write = of_third(|| keep(run(0, &values)));
        let (n, buffer) = last.unwrap();
        // SAFETY: the filter has written `n` bytes there.
        let frame = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), n) };
        let read = of_third(|| {
            let (n, back) = run(0x100, frame);
            // SAFETY: the filter has written `n` bytes there; allocated by malloc.
            unsafe {
                assert!(std::slice::from_raw_parts(back.cast::<u8>(), n) == values);
                libc::free(back);
            }
        });
        println!("hdf5 {spec:?}: write {write:?}, read {read:?}");
        assert!(write == 0 && read == 0, "{spec:?}");
    }
}

/// Calls that only submit work to a stream, and calls that wait for the GPU.
#[test]
fn calls_of_the_gpu() {
    const TEST: &str = "calls_of_the_gpu";
    if let Err(error) = gridz::device::kernels("ndzip") {
        return skip(TEST, &error.to_string());
    }
    with_mock(TEST, &[], || {
        let context = Context::new(Some(1), None).unwrap();
        let device = Device::choose(settings::checked().unwrap()).unwrap();
        let stream = device.stream().unwrap();
        let of_gpus =
            || specs_of_gpus().chain(lossy_specs()).filter(|spec| compresses_on_gpu(&array_for(spec), spec));
        for spec in of_gpus() {
            let array = array_for(&spec);
            let slot = gridz::compress_bound(&array, &spec).unwrap().next_multiple_of(16);
            let batch = Batch { array, n_chunks: 2, array_stride: array.n_bytes(), frame_stride: slot };
            // SAFETY: the mock does nothing after a call has returned.
            let handle = unsafe { stream.handle() };
            let alloc = |n_bytes| stream.alloc(n_bytes).unwrap();
            let need = async_workspace_bytes(&array, 2, &spec, handle, &context).unwrap();
            let buffers = [2 * array.n_bytes(), 2 * slot, 16, need, 8].map(alloc);
            let [arrays, frames, frame_bytes, workspace, statuses] = buffers.each_ref().map(|buffer| buffer.all());
            let memory = BatchMemory { arrays, frames, frame_bytes, workspace: Some(workspace) };
            let compress = of_third(|| compress_async(&batch, &memory, &spec, handle, &context).unwrap());
            let decompress = of_third(|| {
                decompress_async(&batch, &memory, statuses, &spec, Verify::Checksum, handle, &context).unwrap();
            });
            println!("async {spec:?}: compress {compress:?}, decompress {decompress:?}");
            assert_eq!([compress, decompress], [0; 2], "{spec:?}");
        }
        let required = Context::new(Some(1), None).unwrap().on(Backend::Cuda, None).unwrap();
        for spec in of_gpus() {
            let array = array_for(&spec);
            let (values, mut back) = (values(), vec![0; array.n_bytes() as usize]);
            let mut frame = vec![0; gridz::compress_bound(&array, &spec).unwrap() as usize];
            let compress = of_third(|| {
                gridz::compress(&array, &spec, &values, &mut frame, &required).unwrap();
            });
            let n = gridz::compress(&array, &spec, &values, &mut frame, &context).unwrap();
            let decompress = of_third(|| {
                gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &required).unwrap();
            });
            println!("gpu {spec:?}: compress {compress:?}, decompress {decompress:?}");
            assert_eq!([compress, decompress], [0; 2], "{spec:?}");
        }
    });
}
