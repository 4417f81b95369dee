//! `cuda` on a real GPU, with the kernels of `kernels/common/selftest.cu`. Ignored where there may be none:
//! `cargo test --test cuda_gpu -- --ignored` runs it, and fails without one.
#![allow(unsafe_code, reason = "fork, and kernels")]

mod mock_cuda;

use std::ffi::c_void;

use gridz::cuda::{
    Device, DeviceBuffer, DeviceSlice, Fatbin, Function, Grid, KernelStruct, Stream, gpu_of_pointer,
};
use gridz::{ErrorKind, Result, settings};
use mock_cuda::{Args, Info, with_driver};

fn device() -> &'static Device {
    Device::choose(settings::checked().unwrap()).unwrap()
}

fn kernel(name: &'static str) -> Function {
    device().module(Fatbin::find("selftest").unwrap()).unwrap().function(name).unwrap()
}

fn launch(name: &'static str, grid: Grid, stream: &Stream, args: &Args) -> Result<()> {
    // SAFETY: these kernels write `n_words` words at `dst` and nothing else; the tests keep that memory.
    unsafe { kernel(name).launch(grid, stream, args.as_bytes()) }
}

fn words(stream: &Stream, src: DeviceSlice) -> Result<Vec<u64>> {
    let mut bytes = vec![0; src.n_bytes() as usize];
    stream.copy_out(src, &mut bytes)?;
    Ok(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect())
}

const ONE: Grid = Grid { ctas: 1, threads: 1, shared_bytes: 0 };

#[test]
#[ignore = "needs a GPU"]
fn structs_are_the_same_on_both_sides() {
    let stream = device().stream().unwrap();
    let dst = stream.alloc(64).unwrap();
    let address = dst.all().address();
    assert_eq!(address % 256, 0);
    let args = Args { dst: address, n_words: 1 << 40, extents: [2, 3, 5 << 33], value: 7, other: u32::MAX };
    launch("selftest_fields", ONE, &stream, &args).unwrap();
    let expected = [address, 1 << 40, 2, 3, 5 << 33, 7, u64::from(u32::MAX), 48];
    assert_eq!(words(&stream, dst.all()).unwrap(), expected);
}

#[test]
#[ignore = "needs a GPU"]
fn the_kernels_tell_of_themselves() {
    let module = device().module(Fatbin::find("selftest").unwrap()).unwrap();
    let info: Info = module.global("selftest_info").unwrap();
    assert_eq!(info, Info { threads: 128, shared_bytes: 0 });
    let stream = device().stream().unwrap();
    // SAFETY: arguments of another size are refused.
    assert!(unsafe { kernel("selftest_fill").launch(ONE, &stream, info.as_bytes()) }.is_err());
    assert!(kernel("selftest_fill").resident_ctas(128, 0).unwrap() >= device().gpu().multiprocessors);
}

#[test]
#[ignore = "needs a GPU"]
fn copies_and_kernels_keep_their_order() {
    let n_words = 1_000_003_u64;
    let streams: Vec<Stream> = (0..4).map(|_| device().stream().unwrap()).collect();
    std::thread::scope(|scope| {
        for stream in &streams {
            scope.spawn(move || {
                for value in 0..20 {
                    let (a, b) = (stream.alloc(4 * n_words).unwrap(), stream.alloc(4 * n_words).unwrap());
                    // SAFETY: our memory is freed in the stream's order.
                    unsafe { stream.zero(a.all()).unwrap() };
                    let args = Args { dst: a.all().address(), n_words, extents: [0; 3], value, other: 0 };
                    let grid = Grid { ctas: 1000, threads: 128, shared_bytes: 0 };
                    launch("selftest_fill", grid, stream, &args).unwrap();
                    // SAFETY: the same.
                    unsafe { stream.copy(b.all(), a.all()).unwrap() };
                    let pinned = device().pinned(4 * n_words as usize).unwrap();
                    let pinned = b.copy_out_async(0..4 * n_words, pinned).unwrap().wait().unwrap();
                    let mut found = pinned.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
                    assert!((value..value + n_words as u32).all(|word| found.next() == Some(word)));
                    let pending = a.copy_in_async(0..4 * n_words, pinned).unwrap();
                    let mut bytes = vec![0; 4 * n_words as usize];
                    stream.copy_out(a.all(), &mut bytes).unwrap();
                    assert_eq!(bytes[..], pending.wait().unwrap()[..]);
                }
            });
        }
    });
}

#[test]
#[ignore = "needs a GPU"]
fn memory_that_is_used_up_is_an_error_and_comes_back() {
    with_driver("memory_that_is_used_up_is_an_error_and_comes_back", || {
        let stream = device().stream().unwrap();
        let mut all: Vec<DeviceBuffer> = Vec::new();
        let error = loop {
            match stream.alloc(8 << 30) {
                Ok(buffer) => all.push(buffer),
                Err(error) => break error,
            }
            assert!(all.len() < 1000);
        };
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(device().lost().is_none());
        drop(all);
        stream.synchronize().unwrap();
        drop(stream.alloc(8 << 30).unwrap());
    });
}

#[test]
#[ignore = "needs a GPU"]
fn pointers_tell_whose_they_are() {
    let stream = device().stream().unwrap();
    let (dst, pinned) = (stream.alloc(100).unwrap(), device().pinned(100).unwrap());
    let address = std::ptr::without_provenance::<c_void>(dst.all().address() as usize);
    assert_eq!(gpu_of_pointer(address), Some(device().gpu().ordinal));
    assert_eq!(gpu_of_pointer(pinned.as_ptr().cast()), None);
    assert_eq!(gpu_of_pointer((&raw const stream).cast()), None);
}

#[test]
#[ignore = "needs a GPU"]
fn a_lost_device_says_so_at_once() {
    with_driver("a_lost_device_says_so_at_once", || {
        let stream = device().stream().unwrap();
        let buffer = stream.alloc(64).unwrap();
        let args = |value| Args { dst: 0, n_words: 0, extents: [0; 3], value, other: 0 };
        launch("selftest_trap", ONE, &stream, &args(0)).unwrap();
        stream.synchronize().unwrap();
        launch("selftest_trap", ONE, &stream, &args(1)).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        for error in [words(&stream, buffer.all()).unwrap_err(), stream.alloc(1).unwrap_err()] {
            assert!(error.context().contains("cannot use the GPU any more"), "{error}");
        }
        drop(buffer);
    });
}

#[test]
#[ignore = "needs a GPU"]
fn a_forked_child_has_no_gpu() {
    with_driver("a_forked_child_has_no_gpu", || {
        let stream = device().stream().unwrap();
        let buffer = stream.alloc(64).unwrap();
        // SAFETY: the child looks at errors and ends without any work at exit.
        match unsafe { libc::fork() } {
            0 => {
                let is_refused = words(&stream, buffer.all()).is_err()
                    && Device::choose(settings::checked().unwrap())
                        .is_err_and(|error| error.context().contains("was forked from process"));
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!is_refused)) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child and writes one integer.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
            }
        }
        words(&stream, buffer.all()).unwrap();
    });
}
