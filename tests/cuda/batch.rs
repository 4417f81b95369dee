//! Batches of chunks in GPU memory, with a mock driver: which stream and context receive which
//! calls, which requests are refused, and that no call blocks. The mock computes nothing;
//! `tests/gpu` compares frames.
#![allow(unsafe_code, reason = "addresses that are no memory")]

use std::ffi::c_void;
use std::ptr;

use crate::common::skip;
use crate::mock_cuda::{application_uses, count, with_mock};
use gridz::device::{
    Batch, BatchMemory, ChunkArray, StreamHandle, async_workspace_bytes, compress_async, compress_chunks,
    decompress_async, decompress_chunks, packed_bound,
};
use gridz::{Array, ByteOrder, Context, DType, ErrorKind, Result, Shape, Verify};
use gridz::{Destination, Source};
use gridz_codecs::settings;
use gridz_codecs::settings::Backend;
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Stream};

/// Runs `body` if the library contains kernels; the mock pretends to run them.
#[track_caller]
fn with_kernels(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    match gridz::device::kernels("ndzip") {
        Ok(_) => with_mock(test, env, body),
        Err(error) => skip(test, &error.to_string()),
    }
}

/// 64 blocks of floats.
fn array() -> Array {
    Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 64, 64]).unwrap()).unwrap()
}

const N: usize = 3;
/// Workspace that the mock's kernels need for three chunks of 16 tiles.
const WORKSPACE: u64 = 64 + 3 * (16 + 16 * 8);

fn handle<'a>(stream: &'a Stream<'_>) -> StreamHandle<'a> {
    // SAFETY: the mock does nothing after a call has returned.
    unsafe { stream.handle() }
}

fn choose() -> &'static Device {
    Device::choose(settings::checked().unwrap()).unwrap()
}

/// Memory for a batch of `N` chunks; the statuses follow the lengths.
struct Buffers<'s> {
    batch: Batch,
    arrays: DeviceBuffer<'s>,
    frames: DeviceBuffer<'s>,
    reports: DeviceBuffer<'s>,
    workspace: DeviceBuffer<'s>,
}

impl<'s> Buffers<'s> {
    fn new(stream: &Stream<'s>) -> Self {
        let array = array();
        let slot = gridz::compress_bound(&array, &crate::common::ndzip()).unwrap().next_multiple_of(16);
        let batch = Batch { array, n_chunks: N, array_stride: array.n_bytes(), frame_stride: slot };
        let alloc = |n_bytes| stream.alloc(n_bytes).unwrap();
        let (arrays, frames) = (alloc(N as u64 * array.n_bytes()), alloc(N as u64 * slot));
        Self { batch, arrays, frames, reports: alloc(12 * N as u64), workspace: alloc(WORKSPACE) }
    }

    fn memory(&self, workspace: Option<u64>) -> BatchMemory<'_> {
        BatchMemory {
            arrays: self.arrays.all(),
            frames: self.frames.all(),
            frame_bytes: self.reports.slice(0..8 * N as u64).unwrap(),
            workspace: workspace.map(|n_bytes| self.workspace.slice(0..n_bytes).unwrap()),
        }
    }

    fn compress(&self, memory: &BatchMemory, stream: StreamHandle, context: &Context) -> Result<()> {
        compress_async(&self.batch, memory, &crate::common::ndzip(), stream, context)
    }

    fn both(&self, memory: &BatchMemory, stream: StreamHandle) -> Result<()> {
        self.compress(memory, stream, &Context::default())?;
        let statuses = self.reports.slice(8 * N as u64..12 * N as u64)?;
        let (spec, context) = (crate::common::ndzip(), Context::default());
        decompress_async(&self.batch, memory, statuses, &spec, Verify::Checksum, stream, &context)
    }
}

#[track_caller]
fn assert_error<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(parts.iter().all(|part| error.context().contains(part)), "{error}");
}

use ErrorKind::{Device as Gpu, InvalidArgument, UnsupportedJob};

#[test]
fn nothing_waits() {
    with_kernels("batch::nothing_waits", &[], || {
        let stream = choose().stream().unwrap();
        let buffers = Buffers::new(&stream);
        let workspace =
            async_workspace_bytes(&array(), N, &crate::common::ndzip(), handle(&stream), &Context::default());
        assert_eq!(workspace.unwrap(), WORKSPACE);
        let waits = [c"cuStreamSynchronize", c"cuMemcpyDtoH_v2", c"cuMemcpyDtoHAsync_v2", c"cuMemcpyHtoDAsync_v2"];
        let once =
            [c"cuModuleGetGlobal_v2", c"cuModuleGetFunction", c"cuOccupancyMaxActiveBlocksPerMultiprocessor"];
        let calls = || waits.iter().chain(&once).map(|name| count(name)).collect::<Vec<_>>();
        let (before, allocated) = (calls(), count(c"cuMemAllocFromPoolAsync"));
        buffers.both(&buffers.memory(Some(WORKSPACE)), handle(&stream)).unwrap();
        assert_eq!((calls(), count(c"cuMemAllocFromPoolAsync")), (before.clone(), allocated));
        assert_eq!((count(c"launches"), count(c"cuMemsetD8Async")), (2, 2));
        buffers.both(&buffers.memory(None), handle(&stream)).unwrap();
        assert_eq!((calls(), count(c"cuMemAllocFromPoolAsync")), (before, allocated + 2));
        assert_eq!((count(c"launches"), count(c"device_buffers"), count(c"pushed")), (4, 4, 0));
    });
}

#[test]
fn the_default_stream_is_that_of_the_memory_or_the_current_context() {
    with_kernels("batch::the_default_stream_is_that_of_the_memory_or_the_current_context", &[], || {
        let stream = choose().stream().unwrap();
        let buffers = Buffers::new(&stream);
        // SAFETY: the default streams live as long as the process.
        let default = |handle| unsafe { StreamHandle::from_raw(ptr::without_provenance_mut(handle)) };
        (0..3).for_each(|handle| buffers.both(&buffers.memory(None), default(handle)).unwrap());
        application_uses(0);
        (0..3).for_each(|handle| buffers.both(&buffers.memory(None), default(handle)).unwrap());
        assert_eq!(count(c"launches"), 12);
    });
}

#[test]
fn wrong_memory_is_refused() {
    with_kernels("batch::wrong_memory_is_refused", &[], || {
        let stream = choose().stream().unwrap();
        let buffers = Buffers::new(&stream);
        let compress = |memory: &BatchMemory| buffers.compress(memory, handle(&stream), &Context::default());
        let good = buffers.memory(Some(WORKSPACE));
        let short = buffers.memory(Some(WORKSPACE - 8));
        assert_error(compress(&short), InvalidArgument, &["workspace has 488 bytes; 496", "gridz_async_workspace"]);
        let frames = buffers.frames.slice(0..100).unwrap();
        assert_error(compress(&BatchMemory { frames, ..good }), InvalidArgument, &["frames has 100 bytes"]);
        let host = vec![0u64; buffers.arrays.all().n_bytes() as usize / 8];
        // SAFETY: the memory lives until the end of the test; the call refuses it.
        let arrays = unsafe { DeviceSlice::from_raw(host.as_ptr().cast(), good.arrays.n_bytes()) };
        let memory = BatchMemory { arrays, ..good };
        assert_error(
            compress(&memory),
            InvalidArgument,
            &["arrays is not memory that a GPU can access", "gridz_compress"],
        );
        assert_eq!(count(c"launches"), 0);

        let many = |n_chunks| {
            async_workspace_bytes(&array(), n_chunks, &crate::common::ndzip(), handle(&stream), &Context::default())
        };
        let most = i32::MAX as usize / 16;
        assert_eq!(many(most).unwrap(), 64 + most as u64 * 144);
        assert_error(many(most + 1), UnsupportedJob, &["134217728 chunks of 16 tiles", "2^31"]);
        assert_error(many(1 << 33), UnsupportedJob, &["2^31"]);
        assert_error(many(usize::MAX), UnsupportedJob, &["2^31"]);
    });
}

#[test]
fn a_batch_needs_the_gpu() {
    let env = [("GRIDZ_BACKEND", "cpu")];
    with_mock("batch::a_batch_needs_the_gpu", &env, || {
        let stream = choose().stream().unwrap();
        let buffers = Buffers::new(&stream);
        let parts = ["GRIDZ_BACKEND=cpu", "gridz_compress"];
        assert_error(buffers.both(&buffers.memory(None), handle(&stream)), Gpu, &parts);
        let workspace =
            async_workspace_bytes(&array(), 1, &crate::common::ndzip(), handle(&stream), &Context::default());
        assert_error(workspace, Gpu, &parts);
    });
}

#[test]
fn a_context_is_for_its_gpu() {
    let env = [("MOCK_CUDA_DEVICES", "2")];
    with_kernels("batch::a_context_is_for_its_gpu", &env, || {
        let on = |gpu| Context::default().on(Backend::Cuda, Some(gpu)).unwrap();
        let stream = choose().stream().unwrap();
        let buffers = Buffers::new(&stream);
        let parts = ["created for GPU 1", "uses memory or a stream of GPU 0"];
        let memory = buffers.memory(None);
        buffers.compress(&memory, handle(&stream), &on(0)).unwrap();
        assert_error(buffers.compress(&memory, handle(&stream), &on(1)), InvalidArgument, &parts);
        let src = Source::Device(buffers.arrays.slice(0..array().n_bytes()).unwrap());
        let compress = |context: &Context| {
            gridz::compress(
                &array(),
                &crate::common::ndzip(),
                src,
                Destination::Device(buffers.frames.all()),
                context,
            )
        };
        compress(&on(0)).unwrap();
        assert_error(compress(&on(1)), InvalidArgument, &parts);
    });
}

#[test]
fn memory_belongs_to_its_context() {
    with_mock("batch::memory_belongs_to_its_context", &[("MOCK_CUDA_DEVICES", "2")], || {
        // SAFETY: the address is never dereferenced; the mock knows its device.
        let at = |address| unsafe { DeviceSlice::from_raw(ptr::without_provenance::<c_void>(address), 1) };
        let (pool, second, other) = (at(16), at(1040), at(2064));
        let primary = Device::of_memory(&[pool]).unwrap();
        let owner = Device::of_memory(&[second]).unwrap();
        assert!(ptr::eq(primary, choose()) && !ptr::eq(primary, owner));
        assert_eq!((owner.gpu().ordinal, count(c"contexts"), count(c"pushed")), (0, 1, 0));
        for memory in [[pool, second], [second, pool], [second, second]] {
            assert!(ptr::eq(Device::of_memory(&memory).unwrap(), owner));
        }
        assert_eq!(Device::of_memory(&[other]).unwrap().gpu().ordinal, 1);
        assert_error(Device::of_memory(&[second, other]), InvalidArgument, &["different GPUs, 0 and 1"]);
        assert_error(Device::of_memory(&[at(5000)]), InvalidArgument, &["no GPU memory at 0x1388"]);
        assert!(primary.reaches(pool).unwrap() && !primary.reaches(other).unwrap());
    });
}

/// Each driver call of a batch fails once: the result is an error with the driver's text, nothing
/// leaks, and the device is not lost.
#[test]
fn calls_may_fail() {
    for fail in [
        "cuStreamGetCtx:400",
        "cuModuleLoadDataEx:209",
        "cuModuleGetGlobal_v2:500",
        "cuModuleGetFunction:500",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor:1",
        "cuMemAllocFromPoolAsync:2:5",
        "cuMemsetD8Async:1",
        "cuLaunchKernel:1",
    ] {
        with_kernels("batch::calls_may_fail", &[("MOCK_CUDA_FAIL", fail)], || {
            let fail = std::env::var("MOCK_CUDA_FAIL").unwrap();
            let code = fail.split(':').nth(1).unwrap();
            let kind = if code == "2" { ErrorKind::OutOfMemory } else { Gpu };
            let stream = choose().stream().unwrap();
            let buffers = Buffers::new(&stream);
            let result = buffers.both(&buffers.memory(None), handle(&stream));
            assert_error(result, kind, &[&format!("MOCK_ERROR_{code} ")]);
            assert_eq!((count(c"launches"), count(c"device_buffers"), count(c"pushed")), (0, 4, 0));
            assert!(choose().lost().is_none());
        });
        // Only the parent process runs the loop; a child runs one case.
        if std::env::var_os("GRIDZ_TEST_CHILD").is_some() {
            return;
        }
    }
}

/// Chunks in GPU memory are processed by its kernels, for every type and alignment.
#[test]
fn kernels_do_everything() {
    with_kernels("batch::kernels_do_everything", &[], || {
        let stream = choose().stream().unwrap();
        let shape = Shape::new(&[10, 10, 100]).unwrap();
        for (dtype, order) in
            [(DType::F32, ByteOrder::Big), (DType::F64, ByteOrder::Little), (DType::I16, ByteOrder::Big)]
        {
            let array = Array::new(dtype, order, shape).unwrap();
            let bound = gridz::compress_bound(&array, &crate::common::ndzip()).unwrap();
            let (src, dst) = (stream.alloc(array.n_bytes() + 1).unwrap(), stream.alloc(bound + 31).unwrap());
            for shift in [0, 1] {
                let src = Source::Device(src.slice(shift..shift + array.n_bytes()).unwrap());
                let dst = Destination::Device(dst.slice(shift..shift + bound).unwrap());
                let launches = count(c"launches");
                gridz::compress(&array, &crate::common::ndzip(), src, dst, &Context::default()).unwrap();
                assert_eq!(count(c"launches"), launches + 1, "{array:?}");
            }
        }
        assert_eq!(count(c"device_buffers"), 0);
    });
}

/// With several threads, chunks in host memory are copied through pinned memory in pieces of 8 MiB,
/// and arrive complete.
#[test]
fn large_chunks_are_copied_in_pieces() {
    with_kernels("batch::large_chunks_are_copied_in_pieces", &[], || {
        let shape = Shape::new(&[(41 << 20) / 4 + 1]).unwrap();
        let array = Array::new(DType::F32, ByteOrder::Little, shape).unwrap();
        let on = |backend| Context::new(Some(2), None).unwrap().on(backend, None).unwrap();
        let zeros = vec![0; array.n_bytes() as usize];
        let mut frame = vec![0; gridz::compress_bound(&array, &crate::common::ndzip()).unwrap() as usize];
        gridz::compress(&array, &crate::common::ndzip(), &zeros, &mut frame, &on(Backend::Cuda)).unwrap();
        assert_eq!((count(c"cuMemcpyHtoDAsync_v2"), count(c"pinned_buffers")), (6, 6));
        let n = gridz::compress(&array, &crate::common::ndzip(), &zeros, &mut frame, &on(Backend::Cpu)).unwrap();
        // The mock's memory is zero, so its kernels seem to decompress zeros.
        let mut back = vec![1; zeros.len()];
        let before = count(c"cuMemcpyDtoHAsync_v2");
        gridz::decompress(&frame[..n], gridz::Part::All, &mut back, Verify::Checksum, &on(Backend::Cuda)).unwrap();
        assert!(back == zeros);
        assert_eq!((count(c"cuMemcpyDtoHAsync_v2") - before, count(c"pinned_buffers")), (1 + 6, 6));
        for name in [c"device_buffers", c"events", c"pushed"] {
            assert_eq!(count(name), 0, "{name:?}");
        }
    });
}

/// The processors that decompress.
#[derive(Clone, Copy, PartialEq)]
enum Workers {
    OneGpu,
    AllGpus,
    /// The GPU; if the arrays are pinned, also the CPU.
    Any,
}

/// Decompresses frames of zeros (the mock's kernels seem to decompress every frame to zeros) into
/// pageable or pinned memory. Frame `damaged` is damaged.
fn through_lanes(is_pinned: bool, workers: Workers, n_chunks: usize, damaged: Option<usize>) -> Result<()> {
    let chunks = ChunkArray { array: array(), n_chunks, stride: array().n_bytes() };
    let zeros = vec![0; chunks.span("stride")? as usize];
    let bound = packed_bound(&chunks.array, chunks.n_chunks)? as usize;
    let (mut frames, mut lengths) = (vec![0; bound], vec![0; chunks.n_chunks]);
    let cpu = Context::new(Some(2), None)?.on(Backend::Cpu, None)?;
    let dst = Destination::Host(&mut frames);
    compress_chunks(&chunks, &crate::common::ndzip(), Source::Host(&zeros), dst, &mut lengths, &cpu)?;
    // Batches of three chunks.
    let gpu = Context::new(Some(3), Some(8 * 3 * array().n_bytes()))?;
    let gpu = match workers {
        Workers::OneGpu => gpu.on(Backend::Cuda, None)?,
        Workers::AllGpus => gpu.on_all_gpus()?,
        Workers::Any => gpu,
    };
    if let Some(i) = damaged {
        frames[lengths[..i].iter().map(|n_bytes: &u64| n_bytes.next_multiple_of(16) as usize).sum::<usize>()] ^= 1;
    }
    let mut frames_pinned;
    let frames = if workers == Workers::Any {
        frames_pinned = choose().pinned(frames.len())?;
        frames_pinned.copy_from_slice(&frames);
        &frames_pinned[..]
    } else {
        &frames[..]
    };
    let (mut back, mut pinned);
    let dst = if is_pinned {
        pinned = choose().pinned(zeros.len())?;
        pinned.fill(1);
        &mut pinned[..]
    } else {
        back = vec![1; zeros.len()];
        &mut back[..]
    };
    let to = Destination::Host(&mut *dst);
    decompress_chunks(&chunks, Source::Host(frames), &lengths, to, Verify::Checksum, &gpu)?;
    assert!(dst == zeros, "not all arrays have come");
    Ok(())
}

fn assert_nothing_is_left() {
    for name in [c"device_buffers", c"events", c"pushed"] {
        assert_eq!(count(name), 0, "{name:?}");
    }
}

#[test]
fn many_chunks_go_through_lanes() {
    with_kernels("batch::many_chunks_go_through_lanes", &[], || {
        for (is_pinned, launches) in [(false, 14), (true, 28)] {
            through_lanes(is_pinned, Workers::OneGpu, 20, None).unwrap();
            // Seven batches; each takes one launch to move frames to slots, and one to decompress.
            assert_eq!(count(c"launches"), launches);
            assert_nothing_is_left();
        }
    });
}

/// Batches are distributed over all GPUs, and all arrays arrive.
#[test]
fn lanes_of_several_gpus_share_the_work() {
    let env = [("MOCK_CUDA_DEVICES", "3")];
    with_kernels("batch::lanes_of_several_gpus_share_the_work", &env, || {
        // The GPUs share the memory limit: batches of one chunk.
        for (is_pinned, launches) in [(false, 40), (true, 80)] {
            through_lanes(is_pinned, Workers::AllGpus, 20, None).unwrap();
            // Each GPU has loaded the codec's kernels and those that move frames.
            let counts = (count(c"launches"), count(c"contexts"), count(c"modules"));
            assert_eq!(counts, (launches, 3, 6));
            assert_nothing_is_left();
        }
    });
}

/// Between pinned memories, CPU threads take chunks from the end. Only they read the frames, as the
/// mock's kernels do not; so they detect the damage there. The mock's GPU finishes at once,
/// possibly before any thread has started.
#[test]
fn the_cpu_works_beside_the_gpu() {
    with_kernels("batch::the_cpu_works_beside_the_gpu", &[], || {
        application_uses(0);
        through_lanes(true, Workers::Any, 150, None).unwrap();
        assert!(count(c"launches") > 0);
        let found = (0..100).find_map(|_| through_lanes(true, Workers::Any, 150, Some(149)).err());
        let error = found.expect("no thread has come in a hundred calls");
        assert!(error.context().starts_with("frame 149: "), "{error}");
        assert_eq!((count(c"device_buffers"), count(c"events")), (0, 0));
    });
}

/// Each failure on the way is reported, and nothing leaks.
#[test]
fn lanes_may_fail() {
    let fails = [
        "cuStreamCreate:1:2",
        "cuEventCreate:2:5",
        "cuMemAllocFromPoolAsync:2:6",
        "cuMemHostAlloc:2:2",
        "cuMemcpyHtoDAsync_v2:1:4",
        "cuMemcpyDtoHAsync_v2:1:3",
        "cuLaunchKernel:1:3",
        "cuEventRecord:1:9",
        "cuStreamWaitEvent:1:2",
        "cuEventQuery:1:3",
        "cuEventElapsedTime_v2:1:2",
    ];
    for fail in fails {
        with_kernels("batch::lanes_may_fail", &[("MOCK_CUDA_FAIL", fail)], || {
            let fail = std::env::var("MOCK_CUDA_FAIL").unwrap();
            let error = through_lanes(false, Workers::OneGpu, 20, None).expect_err(&fail);
            assert!(matches!(error.kind(), Gpu | ErrorKind::OutOfMemory), "{fail}: {error}");
            assert_nothing_is_left();
        });
        if std::env::var_os("GRIDZ_TEST_CHILD").is_some() {
            return;
        }
    }
}
