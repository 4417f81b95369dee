//! `cuda` on a real GPU, with the kernels of `kernels/common/selftest.cu`. Ignored by default:
//! `cargo test --test cuda -- --ignored device::` runs it, and fails without a GPU.
#![allow(unsafe_code, reason = "fork, and kernels")]

use std::ffi::c_void;

use crate::mock_cuda::{Args, Info, with_driver};
use gridz::{ErrorKind, Result};
use gridz_codecs::format::checksum::checksum;
use gridz_codecs::settings;
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Function, Grid, KernelStruct, Stream, gpu_of_pointer};

fn device() -> &'static Device {
    Device::choose(settings::checked().unwrap()).unwrap()
}

fn kernel(name: &'static str) -> Function {
    device().module(crate::selftest::fatbin()).unwrap().function(name).unwrap()
}

fn launch(name: &'static str, grid: Grid, stream: &Stream, args: &Args) -> Result<()> {
    // SAFETY: these kernels write `n_words` words at `dst` and nothing else; the tests keep that
    // memory alive.
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
    let module = device().module(crate::selftest::fatbin()).unwrap();
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
                    // SAFETY: the memory is ours, and is freed in stream order.
                    unsafe { stream.zero(a.all()).unwrap() };
                    let args = Args { dst: a.all().address(), n_words, extents: [0; 3], value, other: 0 };
                    let grid = Grid { ctas: 1000, threads: 128, shared_bytes: 0 };
                    launch("selftest_fill", grid, stream, &args).unwrap();
                    // SAFETY: the same.
                    unsafe { stream.copy(b.all(), a.all()).unwrap() };
                    let mut pinned = device().pinned(4 * n_words as usize).unwrap();
                    let event = device().event().unwrap();
                    // SAFETY: the event is synchronized before the memory is read.
                    unsafe { stream.fetch(b.all(), &mut pinned).unwrap() };
                    stream.record(&event).unwrap();
                    event.synchronize().unwrap();
                    assert!(event.is_reached().unwrap());
                    let mut found = pinned.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
                    assert!((value..value + n_words as u32).all(|word| found.next() == Some(word)));
                    // SAFETY: copy_out waits for all earlier work.
                    unsafe { stream.bring(a.all(), &pinned).unwrap() };
                    let mut bytes = vec![0; 4 * n_words as usize];
                    stream.copy_out(a.all(), &mut bytes).unwrap();
                    assert_eq!(bytes[..], pinned[..]);
                }
            });
        }
    });
}

#[test]
#[ignore = "needs a GPU"]
fn memory_that_is_used_up_is_an_error_and_comes_back() {
    with_driver("device::memory_that_is_used_up_is_an_error_and_comes_back", || {
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
    with_driver("device::a_lost_device_says_so_at_once", || {
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
    with_driver("device::a_forked_child_has_no_gpu", || {
        let stream = device().stream().unwrap();
        let buffer = stream.alloc(64).unwrap();
        // SAFETY: the child only checks errors and exits without exit handlers.
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

/// A number that depends on all bits of `i`, as in `selftest.cu`.
fn scrambled(i: u64) -> u64 {
    let x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Prefix sums of 62 bits and of 32 bits by decoupled look-back, over many warps. Some warps are
/// delayed.
#[test]
#[ignore = "needs a GPU"]
fn looking_back_adds_up() {
    let stream = device().stream().unwrap();
    let n_words = 50_000;
    let dst = stream.alloc(8 * (1 + 2 * n_words)).unwrap();
    for (name, shift) in [("selftest_look_back_u32", 50), ("selftest_look_back_u64", 19)] {
        for ctas in [1, 2, 100, 3000] {
            // SAFETY: the buffer lives until the stream is synchronized.
            unsafe { stream.zero(dst.all()) }.unwrap();
            let args = Args { dst: dst.all().address(), n_words, extents: [0; 3], value: shift, other: 0 };
            launch(name, Grid { ctas, threads: 32, shared_bytes: 0 }, &stream, &args).unwrap();
            let found = words(&stream, dst.all()).unwrap();
            let (states, sums) = found[1..].split_at(n_words as usize);
            let mut sum = 0;
            for tile in 0..n_words {
                assert_eq!(sums[tile as usize], sum, "{name} {ctas} {tile}");
                sum += if tile % 4 == 3 { 0 } else { scrambled(tile) >> shift };
                assert_eq!(states[tile as usize], sum << 2 | 2, "{name} {ctas} {tile}");
            }
            let bits = 64 - sum.leading_zeros();
            assert!(if shift == 50 { (25..=32).contains(&bits) } else { (60..=62).contains(&bits) }, "{bits}");
        }
    }
}

gridz_codecs::kernel_struct! {
    /// `FrameForm` in `kernels/common/types.cuh`.
    struct Form, size 1080 {
        n_bytes: u32,
        crc: u32,
        crc_of_bit: [u32; 128],
        words: [u32; 140],
    }

    /// `CompressArgs` in `types.cuh`, with the words of `selftest.cu`.
    struct FramesArgs, size 2240 {
        src: u64,
        src_stride: u64,
        dst: u64,
        dst_stride: u64,
        frame_bytes: u64,
        scratch: u64,
        folds: u64,
        n_words: u64,
        n_tiles: u32,
        reserved: u32,
        n_chunks: u32,
        flags: u32,
        encoded: Form,
        stored: Form,
    }

    /// `LaunchInfo` in `types.cuh`.
    struct LaunchInfo, size 48 {
        threads: u32,
        shared_bytes: u32,
        persistent: u32,
        blocks_per_tile: u32,
        scratch_fixed_bytes: u64,
        scratch_bytes_per_chunk: u64,
        scratch_bytes_per_tile: u64,
        unzeroed_bytes_per_tile: u64,
    }
}

impl Form {
    /// Headers of `n_bytes` bytes; the kernels accept any size.
    fn new(n_bytes: u32) -> Self {
        let number = |i: usize| scrambled(u64::from(n_bytes) << 32 | i as u64) as u32;
        Self {
            n_bytes,
            crc: number(0),
            crc_of_bit: std::array::from_fn(|i| number(1000 + i)),
            words: std::array::from_fn(|i| number(2000 + i)),
        }
    }

    /// The frame with this payload.
    fn frame(&self, payload: &[u32]) -> Vec<u8> {
        let payload: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
        let fields = u128::from(checksum(&payload)) << 64 | payload.len() as u128;
        let mut words = self.words[..self.n_bytes as usize / 4].to_vec();
        for (i, word) in words[4..8].iter_mut().enumerate() {
            *word = (fields >> (32 * i)) as u32;
        }
        words[8] =
            (0..128).filter(|bit| fields >> bit & 1 == 1).fold(self.crc, |crc, bit| crc ^ self.crc_of_bit[bit]);
        words.iter().flat_map(|word| word.to_le_bytes()).chain(payload).collect()
    }
}

/// Words of a tile of the codec of `selftest.cu`.
const TILE: usize = 128;

/// The words of a chunk: some chunks shrink, some do not and are rewritten as stored, some are
/// zeros.
fn words_of_chunk(chunk: u64, n_words: usize) -> Vec<u32> {
    let word = |i: usize| {
        let (word, tile) = (scrambled(chunk << 32 | i as u64), scrambled(chunk << 40 | (i / TILE) as u64));
        let is_some = match chunk % 5 {
            0 => true,
            1 => false,
            2 => word % 2 == 0,
            3 => tile % 3 == 0 || (tile % 3 == 1 && word % 16 == 0),
            _ => word % 128 > tile % 3,
        };
        if is_some { (word >> 32) as u32 | 1 } else { 0 }
    };
    (0..n_words).map(word).collect()
}

/// The expected frame.
fn frame_of_words(words: &[u32], encoded: &Form, stored: &Form) -> Vec<u8> {
    let (mut ends, mut rest): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for tile in words.chunks(TILE) {
        rest.extend(tile.iter().filter(|&&word| word != 0));
        ends.push(rest.len() as u32);
    }
    ends.resize(ends.len().next_multiple_of(4), 0);
    ends.extend(rest);
    let is_smaller = encoded.n_bytes as usize + 4 * ends.len() < stored.n_bytes as usize + 4 * words.len();
    if is_smaller { encoded.frame(&ends) } else { stored.frame(words) }
}

/// The protocol of `kernels/common/ordered_frames.cuh` with the simplest possible codec.
#[test]
#[ignore = "needs a GPU"]
fn ordered_frames_are_complete_and_stored_where_they_must_be() {
    let stream = device().stream().unwrap();
    let module = device().module(crate::selftest::fatbin()).unwrap();
    let (encoded, stored) = (Form::new(64), Form::new(48));
    let (mut n_encoded, mut n_stored) = (0, 0);
    for (name, info) in
        [("selftest_frames_u32", "selftest_frames_u32_info"), ("selftest_frames_u64", "selftest_frames_u64_info")]
    {
        let info: LaunchInfo = module.global(info).unwrap();
        assert_eq!((info.persistent, info.blocks_per_tile), (1, 1));
        let resident = kernel(name).resident_ctas(info.threads, info.shared_bytes).unwrap();
        for (n_words, n_chunks) in
            [(1, 40), (127, 5), (128, 5), (129, 700), (5000, 1), (5001, 303), (100_000, 1), (70_001, 12)]
        {
            let chunks: Vec<Vec<u32>> = (0..n_chunks).map(|chunk| words_of_chunk(chunk as u64, n_words)).collect();
            let n_tiles = n_words.div_ceil(TILE);
            // A guard zone that must stay unchanged follows each slot.
            let slot = (64 + 4 * n_tiles.next_multiple_of(4) + 4 * n_words).next_multiple_of(16);
            let stride = slot + 16;
            let arrays = stream.alloc((4 * n_words * n_chunks) as u64).unwrap();
            let slots = stream.alloc((stride * n_chunks) as u64).unwrap();
            let frame_bytes = stream.alloc(8 * n_chunks as u64).unwrap();
            let per_chunk = info.scratch_bytes_per_chunk + n_tiles as u64 * info.scratch_bytes_per_tile;
            let scratch = stream.alloc(info.scratch_fixed_bytes + n_chunks as u64 * per_chunk).unwrap();
            let bytes: Vec<u8> = chunks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
            stream.copy_in(arrays.all(), &bytes).unwrap();
            let args = FramesArgs {
                src: arrays.all().address(),
                src_stride: 4 * n_words as u64,
                dst: slots.all().address(),
                dst_stride: stride as u64,
                frame_bytes: frame_bytes.all().address(),
                scratch: scratch.all().address(),
                folds: 0,
                n_words: n_words as u64,
                n_tiles: n_tiles as u32,
                reserved: 0,
                n_chunks: n_chunks as u32,
                flags: 0,
                encoded,
                stored,
            };
            for ctas in [1, 3, resident, 2 * resident] {
                // SAFETY: the buffer lives until the stream is synchronized.
                unsafe { stream.zero(scratch.all()) }.unwrap();
                stream.copy_in(slots.all(), &vec![0xee; stride * n_chunks]).unwrap();
                let grid = Grid { ctas, threads: info.threads, shared_bytes: info.shared_bytes };
                // SAFETY: the kernel writes only slots, frame_bytes and scratch, which are large
                // enough.
                unsafe { kernel(name).launch(grid, &stream, args.as_bytes()).unwrap() };
                let mut found = vec![0; stride * n_chunks];
                stream.copy_out(slots.all(), &mut found).unwrap();
                let lengths = words(&stream, frame_bytes.all()).unwrap();
                for (chunk, words) in chunks.iter().enumerate() {
                    let frame = frame_of_words(words, &encoded, &stored);
                    let slot_of_chunk = &found[chunk * stride..][..stride];
                    let context = format!("{name}: chunk {chunk} of {n_chunks}, {n_words} words, {ctas} CTAs");
                    assert_eq!(lengths[chunk], frame.len() as u64, "{context}");
                    assert!(slot_of_chunk[..frame.len()] == frame[..], "{context}");
                    assert!(slot_of_chunk[slot..].iter().all(|&byte| byte == 0xee), "{context}");
                    let is_stored = frame.len() == 48 + 4 * n_words;
                    *(if is_stored { &mut n_stored } else { &mut n_encoded }) += 1;
                }
            }
        }
    }
    assert!(n_encoded > 1000 && n_stored > 1000, "{n_encoded} {n_stored}");
}
