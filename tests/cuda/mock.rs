//! Every branch of `cuda`, with a mock driver that fails on request: the resulting error, the
//! remaining allocations, and that nothing crashes.
#![allow(unsafe_code, reason = "fork, and the mock's functions")]

use std::ffi::c_void;
use std::sync::OnceLock;

use crate::common::skip;
use crate::mock_cuda::{Args, Info, application_resets, application_uses, count, with_mock};
use gridz::{Array, ByteOrder, Context, DType, Detail, Error, ErrorKind, Request, Result, Shape, Verify};
use gridz::{Destination, Source};
use gridz_codecs::settings;
use gridz_codecs::settings::Backend;
use gridz_cuda::{
    Device, Fatbin, Function, Grid, KernelStruct, Stream, gpu_of_pointer, gpus, is_active, release_caches,
};

const ARGS: Args = Args { dst: 1, n_words: 2, extents: [3, 4, 5], value: 6, other: 7 };
const GRID: Grid = Grid { ctas: 10, threads: 128, shared_bytes: 0 };

/// A minimal fatbin, sufficient for the mock.
fn fatbin() -> &'static Fatbin {
    static FATBIN: OnceLock<Fatbin> = OnceLock::new();
    FATBIN.get_or_init(|| {
        let image = [&0xba55_ed50_u32.to_le_bytes()[..], &[1, 0, 16, 0], &4u64.to_le_bytes(), b"code"].concat();
        Fatbin::new("selftest", image.leak()).unwrap()
    })
}

fn choose() -> Result<&'static Device> {
    Device::choose(settings::checked().unwrap())
}

fn kernel(device: &'static Device) -> Result<Function> {
    device.module(fatbin())?.function("selftest_fill")
}

fn launch(kernel: Function, grid: Grid, stream: &Stream, args: &[u8]) -> Result<()> {
    // SAFETY: the mock's kernels do nothing.
    unsafe { kernel.launch(grid, stream, args) }
}

/// The driver calls that a codec makes for one chunk.
fn job(device: &'static Device) -> Result<()> {
    let kernel = kernel(device)?;
    let info: Info = device.module(fatbin())?.global("selftest_info")?;
    assert_eq!(info, Info { threads: 128, shared_bytes: 0 });
    assert_eq!(kernel.resident_ctas(info.threads, 0)?, 132 * 16);
    let stream = device.stream()?;
    let (a, b) = (stream.alloc(1000)?, stream.alloc(1000)?);
    // SAFETY: the memory is ours, and is freed in stream order.
    unsafe { stream.zero(b.all())? };
    let src: Vec<u8> = (0..1000).map(|i| i as u8).collect();
    stream.copy_in(a.all(), &src)?;
    launch(kernel, GRID, &stream, ARGS.as_bytes())?;
    // SAFETY: the same.
    unsafe { stream.copy(b.slice(0..500)?, a.slice(500..1000)?)? };
    let mut dst = vec![0; 1000];
    stream.copy_out(b.all(), &mut dst)?;
    assert_eq!(dst, [&src[500..], &[0; 500]].concat());

    let mut pinned = device.pinned(1000)?;
    pinned.fill(9);
    // SAFETY: the stream is synchronized below.
    unsafe { stream.bring(a.all(), &pinned)? };
    stream.synchronize()?;
    pinned.fill(0);
    // SAFETY: the same.
    unsafe { stream.fetch(a.all(), &mut pinned)? };
    stream.synchronize()?;
    assert!(pinned.iter().all(|&byte| byte == 9));

    let (begin, end) = (device.timed_event()?, device.timed_event()?);
    stream.record(&begin)?;
    stream.wait(&begin)?;
    stream.record(&end)?;
    end.synchronize()?;
    assert!(end.is_reached()?);
    assert_eq!(end.time_since(&begin)?.as_micros(), 1500);
    stream.synchronize()
}

// ---- the mock's side
// ------------------------------------------------------------------------------

/// Asserts that a call has released everything that it allocated for itself.
#[track_caller]
fn assert_clean() {
    for name in [c"pushed", c"events", c"device_buffers"] {
        assert_eq!(count(name), 0, "{name:?}");
    }
}

#[track_caller]
fn assert_error<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, parts: &[&str]) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(parts.iter().all(|part| error.context().contains(part)), "{error}");
    error
}

use ErrorKind::{Device as Gpu, Internal, InvalidArgument, OutOfMemory};

// ---- a machine that works -------------------------------------------------------------------------

#[test]
fn a_working_gpu_works() {
    with_mock("mock::a_working_gpu_works", &[], || {
        assert!(!is_active());
        let device = choose().unwrap();
        assert_eq!((device.gpu().name.as_str(), device.gpu().capability), ("Mock 0", (9, 0)));
        for _ in 0..3 {
            job(device).unwrap();
            assert_clean();
            assert!(std::ptr::eq(choose().unwrap(), device));
        }
        let entered = device.enter().unwrap();
        assert_eq!(count(c"pushed"), 1);
        assert!(is_active());
        job(device).unwrap();
        assert_eq!(count(c"pushed"), 1);
        drop(entered);
        for name in [c"init", c"contexts", c"modules", c"pools", c"streams"] {
            assert_eq!(count(name), 1, "{name:?}");
        }
        assert_eq!(count(c"launches"), 4);
        assert_eq!(count(c"threshold_mib"), 1024);
        assert_eq!(count(c"pinned_buffers"), 1);
        assert_clean();
        assert!(device.lost().is_none());
    });
}

#[test]
fn ranks_share_the_memory() {
    with_mock("mock::ranks_share_the_memory", &[("OMPI_COMM_WORLD_LOCAL_SIZE", "4")], || {
        let device = choose().unwrap();
        job(device).unwrap();
        assert_eq!(count(c"threshold_mib"), 256);
        // Pinned memory above the cache limit is not cached.
        drop((device.pinned(200 << 20).unwrap(), device.pinned(1 << 20).unwrap()));
        assert_eq!(count(c"pinned_buffers"), 2);
        let many: Vec<_> = (0..3).map(|_| device.pinned(256 << 20).unwrap()).collect();
        drop(many);
        assert_eq!(count(c"pinned_buffers"), 2);
    });
}

#[test]
fn threads_share_one_context() {
    with_mock("mock::threads_share_one_context", &[], || {
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    (0..20).for_each(|_| job(choose().unwrap()).unwrap());
                });
            }
        });
        for name in [c"contexts", c"modules", c"pools"] {
            assert_eq!(count(name), 1, "{name:?}");
        }
        assert!(count(c"streams") <= 8);
        assert_eq!(count(c"launches"), 160);
        assert_clean();
    });
}

#[test]
fn the_applications_context_is_shared() {
    with_mock("mock::the_applications_context_is_shared", &[("MOCK_CUDA_DEVICES", "2")], || {
        application_uses(1);
        assert!(is_active());
        let device = choose().unwrap();
        assert_eq!(device.gpu().ordinal, 1);
        assert!(std::ptr::eq(Device::current().unwrap().unwrap(), device));
        job(device).unwrap();
        // The counts are the application's own retained context and its push; gridz holds none.
        assert_eq!((count(c"contexts"), count(c"pushed")), (1, 1));
    });
}

#[test]
fn the_devices_number_wins() {
    let env = [("MOCK_CUDA_DEVICES", "3"), ("GRIDZ_DEVICE", "2")];
    with_mock("mock::the_devices_number_wins", &env, || {
        application_uses(1);
        let device = choose().unwrap();
        assert_eq!(device.gpu().ordinal, 2);
        job(device).unwrap();
        assert_eq!((count(c"contexts"), count(c"pushed")), (2, 1));
    });
}

#[test]
fn all_devices_take_turns() {
    let env = [("MOCK_CUDA_DEVICES", "3"), ("GRIDZ_DEVICE", "all")];
    with_mock("mock::all_devices_take_turns", &env, || {
        let settings = settings::checked().unwrap();
        let ordinals = |devices: &[&Device]| devices.iter().map(|device| device.gpu().ordinal).collect::<Vec<_>>();
        let turns: Vec<_> = (0..4).map(|_| Device::in_turn(settings).unwrap()).collect();
        assert_eq!(ordinals(&turns), [0, 1, 2, 0]);
        assert_eq!(ordinals(&Device::wanted(settings).unwrap()), [0, 1, 2]);
        assert_eq!(choose().unwrap().gpu().ordinal, 0);
    });
}

#[test]
fn no_device_of_all_can_be_used() {
    let env = [("MOCK_CUDA_DEVICES", "2"), ("MOCK_CUDA_FAIL", "cuDevicePrimaryCtxRetain:2")];
    with_mock("mock::no_device_of_all_can_be_used", &env, || {
        assert_error(Device::all().map(drop), OutOfMemory, &["creating a context on GPU 0", "MOCK_ERROR_2"]);
    });
}

/// A device that cannot create a context is skipped.
#[test]
fn a_bad_device_does_not_stop_the_others() {
    let fail = "cuDevicePrimaryCtxRetain:2:2";
    let env = [("MOCK_CUDA_DEVICES", "2"), ("GRIDZ_DEVICE", "all"), ("MOCK_CUDA_FAIL", fail)];
    with_mock("mock::a_bad_device_does_not_stop_the_others", &env, || {
        let settings = settings::checked().unwrap();
        let ordinals: Vec<_> = (0..2).map(|_| Device::in_turn(settings).unwrap().gpu().ordinal).collect();
        assert_eq!(ordinals, [0, 0]);
    });
}

#[test]
fn a_device_that_does_not_exist_is_an_error() {
    let env = [("MOCK_CUDA_DEVICES", "2"), ("GRIDZ_DEVICE", "2")];
    with_mock("mock::a_device_that_does_not_exist_is_an_error", &env, || {
        assert_error(choose(), InvalidArgument, &["no GPU 2", "0 to 1", "GRIDZ_DEVICE"]);
        assert_eq!(count(c"contexts"), 0);
    });
}

#[test]
fn ranks_spread_over_the_gpus() {
    let env = [("MOCK_CUDA_DEVICES", "2"), ("SLURM_LOCALID", "3")];
    with_mock("mock::ranks_spread_over_the_gpus", &env, || {
        assert_eq!(choose().unwrap().gpu().ordinal, 1);
    });
}

#[test]
fn pointers_tell_whose_they_are() {
    with_mock("mock::pointers_tell_whose_they_are", &[], || {
        let pointer = |address| std::ptr::without_provenance::<c_void>(address);
        // CUDA is not initialized yet, and the query does not initialize it.
        assert_eq!(gpu_of_pointer(pointer(16)), None);
        choose().unwrap();
        assert_eq!(gpu_of_pointer(pointer(16)), Some(0));
        assert_eq!(gpu_of_pointer(pointer(17)), None, "managed");
        assert_eq!(gpu_of_pointer(pointer(2048)), Some(1));
        assert_eq!(gpu_of_pointer((&raw const pointer).cast()), None, "host");
    });
}

#[test]
fn demanding_the_gpu_is_fine_where_there_is_one() {
    const TEST: &str = "mock::demanding_the_gpu_is_fine_where_there_is_one";
    match gridz::device::kernels("ndzip") {
        Ok(_) => with_mock(TEST, &[("GRIDZ_BACKEND", "cuda")], || gridz::check_backend().unwrap()),
        Err(error) => skip(TEST, &error.to_string()),
    }
}

/// A required GPU decodes parts of frames in host memory: regions and whole frames. There are no
/// kernels for levels.
#[test]
fn a_required_gpu_does_parts_of_frames() {
    const TEST: &str = "mock::a_required_gpu_does_parts_of_frames";
    if let Err(error) = gridz::device::kernels("multigrid") {
        return skip(TEST, &error.to_string());
    }
    with_mock(TEST, &[], || {
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[60, 70]).unwrap()).unwrap();
        let values: Vec<u8> = (0..60u32 * 70).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
        let request: Request = "multigrid,abs=1e-3".parse().unwrap();
        let mut frame = vec![0; gridz::compress_bound(&array, &request).unwrap() as usize];
        let by_cpu = Context::new(Some(1), None).unwrap().on(Backend::Cpu, None).unwrap();
        let n_bytes = gridz::compress(&array, &request, &values, &mut frame, &by_cpu).unwrap();
        let (frame, mut dst) = (&frame[..n_bytes], vec![0; values.len()]);
        let launches = |work: &mut dyn FnMut()| {
            let before = count(c"launches");
            work();
            count(c"launches") - before
        };
        let region = |dst: &mut [u8], context: &Context| {
            gridz::decompress(
                frame,
                gridz::Part::Region { start: &[1, 2], count: &[10, 20] },
                dst,
                Verify::Checksum,
                context,
            )
            .unwrap();
        };
        let part = |detail: Detail, dst: &mut [u8], context: &Context| {
            gridz::decompress(frame, gridz::Part::Detail(detail), dst, Verify::Checksum, context).unwrap();
        };
        assert_eq!(launches(&mut || region(&mut dst, &by_cpu)), 0);
        let by_gpu = Context::new(Some(1), None).unwrap().on(Backend::Cuda, None).unwrap();
        assert!(launches(&mut || region(&mut dst, &by_gpu)) > 0, "the CPU has done a region");
        assert!(launches(&mut || part(Detail::Level(0), &mut dst, &by_gpu)) > 0, "the CPU has done all of a frame");
        assert_eq!(launches(&mut || part(Detail::Level(1), &mut dst, &by_gpu)), 0);
    });
}

/// 4 MiB of floats, through the default codec and back.
fn round_trip(context: &Context) -> Result<()> {
    let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 128, 128])?)?;
    let values: Vec<u8> = (0..1u32 << 20).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
    let ndzip = Request::new(1, 0)?;
    let mut frame = vec![0; gridz::compress_bound(&array, &ndzip)? as usize];
    let n_bytes = gridz::compress(&array, &ndzip, &values, &mut frame, context)?;
    let mut back = vec![0; values.len()];
    gridz::decompress(&frame[..n_bytes], gridz::Part::All, &mut back, Verify::Checksum, context)?;
    assert!(back == values);
    Ok(())
}

/// The GPU fails at some call: the CPU takes over where allowed, and only there.
fn the_cpu_takes_over() {
    let one_thread = || Context::new(Some(1), None).unwrap();
    // The process does not use the GPU yet, and gridz does not start to.
    round_trip(&one_thread()).unwrap();
    assert_eq!(count(c"init"), 0);
    application_uses(0);
    round_trip(&one_thread()).unwrap();
    assert!(count(c"cuCtxGetId") > 0, "the GPU was not tried");
    let required = one_thread().on(Backend::Cuda, None);
    let kind = required.and_then(|context| round_trip(&context)).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::Device | ErrorKind::OutOfMemory), "{kind:?}");
    round_trip(&one_thread().on(Backend::Cpu, None).unwrap()).unwrap();
}

#[test]
fn the_cpu_takes_over_from_kernels_that_do_not_load() {
    let env = [("MOCK_CUDA_FAIL", "cuModuleLoadDataEx:209")];
    with_mock("mock::the_cpu_takes_over_from_kernels_that_do_not_load", &env, the_cpu_takes_over);
}

#[test]
fn the_cpu_takes_over_from_a_full_gpu() {
    let env = [("MOCK_CUDA_FAIL", "cuMemAllocFromPoolAsync:2")];
    with_mock("mock::the_cpu_takes_over_from_a_full_gpu", &env, the_cpu_takes_over);
}

#[test]
fn the_cpu_takes_over_from_a_lost_gpu() {
    let env = [("MOCK_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:719")];
    with_mock("mock::the_cpu_takes_over_from_a_lost_gpu", &env, the_cpu_takes_over);
}

#[test]
fn wrong_launches_are_refused() {
    with_mock("mock::wrong_launches_are_refused", &[("MOCK_CUDA_DEVICES", "2")], || {
        let device = choose().unwrap();
        let module = device.module(fatbin()).unwrap();
        assert_error(module.function("other"), Gpu, &["kernel other of selftest", "MOCK_ERROR_500"]);
        assert_error(module.function("a\0b"), InvalidArgument, &["is not a kernel name"]);
        assert_error(module.global::<Args>("selftest_info"), Internal, &["8 bytes, not 48"]);
        assert_error(module.global::<Info>("other"), Gpu, &["MOCK_ERROR_500"]);
        let (kernel, stream) = (kernel(device).unwrap(), device.stream().unwrap());
        for grid in [Grid { ctas: 0, ..GRID }, Grid { threads: 0, ..GRID }, Grid { threads: 1025, ..GRID }] {
            assert_error(launch(kernel, grid, &stream, ARGS.as_bytes()), Internal, &["cannot be launched"]);
        }
        let short = &ARGS.as_bytes()[..8];
        assert_error(launch(kernel, GRID, &stream, short), Internal, &["48 bytes of arguments, not 8"]);
        let large = |shared_bytes| launch(kernel, Grid { shared_bytes, ..GRID }, &stream, ARGS.as_bytes());
        large(200 << 10).unwrap();
        large(100 << 10).unwrap();
        assert_eq!(count(c"cuFuncSetAttribute"), 1);
        assert_error(large(228 << 10), Gpu, &["233472 bytes of shared memory"]);
        let buffer = stream.alloc(10).unwrap();
        assert_error(stream.copy_in(buffer.all(), &[0; 9]), InvalidArgument, &["9 bytes at its source, but 10"]);
        assert_error(
            stream.copy_out(buffer.all(), &mut [0; 11]),
            InvalidArgument,
            &["10 bytes at its source, but 11"],
        );
        let mut pinned = device.pinned(9).unwrap();
        // SAFETY: nothing is copied.
        assert_error(
            unsafe { stream.bring(buffer.all(), &pinned) },
            InvalidArgument,
            &["9 bytes at its source, but 10"],
        );
        // SAFETY: the same.
        assert_error(
            unsafe { stream.fetch(buffer.all(), &mut pinned) },
            InvalidArgument,
            &["10 bytes at its source, but 9"],
        );
        assert_error(buffer.slice(5..11), Internal, &["5..11"]);
        assert_eq!(stream.alloc(0).unwrap().all().n_bytes(), 0);
        assert_eq!(count(c"launches"), 2);
        assert!(device.lost().is_none());
    });
}

// ---- machines that do not -------------------------------------------------------------------------

#[test]
fn no_device() {
    with_mock("mock::no_device", &[("MOCK_CUDA_DEVICES", "0")], || {
        assert_error(choose(), Gpu, &["shows no GPU"]);
    });
}

#[test]
fn an_old_driver() {
    with_mock("mock::an_old_driver", &[("MOCK_CUDA_VERSION", "12090")], || {
        assert_error(choose(), Gpu, &["CUDA 12.9", "driver 580"]);
        assert_eq!(count(c"cuInit"), 0);
    });
}

#[test]
fn a_newer_driver() {
    with_mock("mock::a_newer_driver", &[("MOCK_CUDA_VERSION", "14020")], || job(choose().unwrap()).unwrap());
}

#[test]
fn an_old_gpu() {
    with_mock("mock::an_old_gpu", &[("MOCK_CUDA_CAPABILITY", "70")], || {
        assert_eq!(gpus().unwrap().len(), 1);
        assert_error(choose(), Gpu, &["compute capability 7.0", "7.5"]);
        application_uses(0);
        assert_error(Device::current(), Gpu, &["compute capability 7.0"]);
        assert_eq!(count(c"contexts"), 1);
    });
}

#[test]
fn the_oldest_gpu() {
    with_mock("mock::the_oldest_gpu", &[("MOCK_CUDA_CAPABILITY", "75")], || job(choose().unwrap()).unwrap());
}

#[test]
fn no_memory_pools() {
    with_mock("mock::no_memory_pools", &[("MOCK_CUDA_NO_POOLS", "1")], || {
        assert_error(choose(), Gpu, &["stream-ordered memory"]);
        assert_eq!(count(c"contexts"), 0);
    });
}

#[test]
fn a_driver_that_does_not_start() {
    with_mock("mock::a_driver_that_does_not_start", &[("MOCK_CUDA_FAIL", "cuInit:100")], || {
        let error = assert_error(choose(), Gpu, &["MOCK_ERROR_100 (as set by the test)"]);
        assert_eq!(gpus().unwrap_err(), error);
        assert_eq!(count(c"cuInit"), 1);
    });
}

#[test]
fn no_context() {
    with_mock("mock::no_context", &[("MOCK_CUDA_FAIL", "cuDevicePrimaryCtxRetain:2")], || {
        assert_error(choose(), OutOfMemory, &["creating a context on GPU 0 (Mock 0) failed", "MOCK_ERROR_2 "]);
        assert_eq!(count(c"contexts"), 0);
    });
}

#[test]
fn a_context_that_does_not_work_is_released() {
    let env = [("MOCK_CUDA_FAIL", "cuCtxGetId:1")];
    with_mock("mock::a_context_that_does_not_work_is_released", &env, || {
        assert_error(choose(), Gpu, &["MOCK_ERROR_1 "]);
        assert_eq!((count(c"cuDevicePrimaryCtxRetain"), count(c"contexts")), (1, 0));
    });
}

#[test]
fn kernels_that_do_not_load() {
    with_mock("mock::kernels_that_do_not_load", &[("MOCK_CUDA_FAIL", "cuModuleLoadDataEx:209")], || {
        let device = choose().unwrap();
        for _ in 0..2 {
            assert_error(device.module(fatbin()), Gpu, &["selftest", "what the compiler says", "MOCK_ERROR_209"]);
        }
        assert_eq!(count(c"cuModuleLoadDataEx"), 1);
        assert!(device.lost().is_none());
    });
}

#[test]
fn kernels_are_tried_again_after_lack_of_memory() {
    let env = [("MOCK_CUDA_FAIL", "cuModuleLoadDataEx:2")];
    with_mock("mock::kernels_are_tried_again_after_lack_of_memory", &env, || {
        let device = choose().unwrap();
        for _ in 0..2 {
            assert_error(device.module(fatbin()), OutOfMemory, &["MOCK_ERROR_2 "]);
        }
        assert_eq!(count(c"cuModuleLoadDataEx"), 2);
    });
}

#[test]
fn a_pool_that_takes_no_limit_is_destroyed() {
    let env = [("MOCK_CUDA_FAIL", "cuMemPoolSetAttribute:1")];
    with_mock("mock::a_pool_that_takes_no_limit_is_destroyed", &env, || {
        assert_error(job(choose().unwrap()), Gpu, &["MOCK_ERROR_1 "]);
        assert_eq!((count(c"cuMemPoolCreate"), count(c"pools")), (1, 0));
        assert_clean();
    });
}

/// Each driver call of a job fails once: the result is an error with the driver's text, nothing
/// leaks, and the device is not lost if the error is recoverable.
#[test]
fn every_call_may_fail() {
    let name = "mock::every_call_may_fail";
    // How often a job calls each function.
    let functions = [
        ("cuCtxPushCurrent_v2", 1),
        ("cuModuleLoadDataEx", 1),
        ("cuModuleGetFunction", 1),
        ("cuFuncGetParamInfo", 2),
        ("cuFuncGetAttribute", 1),
        ("cuModuleGetGlobal_v2", 1),
        ("cuMemcpyDtoH_v2", 1),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", 1),
        ("cuStreamCreate", 1),
        ("cuMemPoolCreate", 1),
        ("cuMemAllocFromPoolAsync", 2),
        ("cuMemsetD8Async", 1),
        ("cuMemcpyHtoDAsync_v2", 2),
        ("cuLaunchKernel", 1),
        ("cuMemcpyDtoDAsync_v2", 1),
        ("cuMemcpyDtoHAsync_v2", 2),
        ("cuMemHostAlloc", 1),
        ("cuEventCreate", 2),
        ("cuEventRecord", 2),
        ("cuEventSynchronize", 1),
        ("cuEventQuery", 1),
        ("cuStreamWaitEvent", 1),
        ("cuEventElapsedTime_v2", 1),
        ("cuStreamSynchronize", 5),
    ];
    for (function, calls) in functions {
        for call in 1..=calls {
            for code in [1, 2, 719] {
                let fail = format!("{function}:{code}:{call}");
                with_mock(name, &[("MOCK_CUDA_FAIL", &fail)], || {
                    let fail = std::env::var("MOCK_CUDA_FAIL").unwrap();
                    let code: i32 = fail.split(':').nth(1).unwrap().parse().unwrap();
                    let device = choose().unwrap();
                    let kind = if code == 2 { OutOfMemory } else { Gpu };
                    let is_answer = fail.starts_with("cuFuncGetParamInfo:1:2");
                    match job(device) {
                        // The expected answer to the query for a second kernel argument.
                        Ok(()) if is_answer => return,
                        result if fail.starts_with("cuFuncGetParamInfo") && fail.ends_with(":2") => {
                            assert_error(result, Gpu, &["more than one argument"]);
                            return;
                        }
                        result => drop(assert_error(result, kind, &[&format!("MOCK_ERROR_{code} ")])),
                    }
                    assert_eq!(count(c"pushed"), 0);
                    assert_eq!(device.lost().is_some(), code == 719);
                    // The resources of a lost context are not released.
                    if code != 719 {
                        assert_clean();
                    }
                    let calls_so_far = count(c"cuModuleGetFunction");
                    if code == 719 {
                        assert_error(job(device), Gpu, &["MOCK_ERROR_719", "cannot use the GPU any more"]);
                        assert_error(choose().and_then(job), Gpu, &["cannot use the GPU any more"]);
                        assert_eq!(count(c"cuModuleGetFunction"), calls_so_far);
                    }
                    assert_eq!(count(c"contexts"), 1);
                });
                // Only the parent process runs the loop; a child runs one case.
                if std::env::var_os("GRIDZ_TEST_CHILD").is_some() {
                    return;
                }
            }
        }
    }
}

#[test]
fn memory_that_cannot_be_freed_is_noted() {
    let env = [("MOCK_CUDA_FAIL", "cuMemFreeAsync:700")];
    with_mock("mock::memory_that_cannot_be_freed_is_noted", &env, || {
        let device = choose().unwrap();
        let stream = device.stream().unwrap();
        drop(stream.alloc(100).unwrap());
        assert!(device.lost().is_some());
        assert_error(stream.alloc(100), Gpu, &["MOCK_ERROR_700", "cannot use the GPU any more"]);
    });
}

/// A failed wait leaves no work running: the memory of the copy is reusable, pinned or not.
#[test]
fn memory_is_kept_after_a_failed_copy() {
    for fail in ["cuEventSynchronize:1", "cuStreamSynchronize:1", "cuEventQuery:1"] {
        with_mock("mock::memory_is_kept_after_a_failed_copy", &[("MOCK_CUDA_FAIL", fail)], || {
            let device = choose().unwrap();
            let stream = device.stream().unwrap();
            let buffer = stream.alloc(1000).unwrap();
            let (mut pinned, event) = (device.pinned(1000).unwrap(), device.event().unwrap());
            // SAFETY: the mock copies at once.
            unsafe { stream.fetch(buffer.all(), &mut pinned).unwrap() };
            stream.record(&event).unwrap();
            let failed =
                [event.synchronize(), stream.copy_out(buffer.all(), &mut [0; 1000]), event.is_reached().map(drop)];
            drop(pinned);
            assert_eq!(failed.iter().filter(|result| result.is_err()).count(), 1);
            assert_eq!((count(c"cuCtxSynchronize"), device.lost()), (1, None));
            drop(device.pinned(1000).unwrap());
            assert_eq!(count(c"cuMemHostAlloc"), 1);
        });
        if std::env::var_os("GRIDZ_TEST_CHILD").is_some() {
            return;
        }
    }
}

/// A call that fails after a kernel launch on the caller's memory synchronizes the stream before it
/// returns.
#[test]
fn no_work_goes_on_behind_a_call_that_fails() {
    const TEST: &str = "mock::no_work_goes_on_behind_a_call_that_fails";
    if let Err(error) = gridz::device::kernels("ndzip") {
        return skip(TEST, &error.to_string());
    }
    with_mock(TEST, &[("MOCK_CUDA_FAIL", "cuMemcpyDtoHAsync_v2:1")], || {
        let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 64, 64]).unwrap()).unwrap();
        let ndzip = Request::new(1, 0).unwrap();
        let stream = choose().unwrap().stream().unwrap();
        let bound = gridz::compress_bound(&array, &ndzip).unwrap().next_multiple_of(16);
        let (src, dst) = (stream.alloc(array.n_bytes()).unwrap(), stream.alloc(bound).unwrap());
        let (src, dst) = (Source::Device(src.all()), Destination::Device(dst.all()));
        let required = Context::default().on(Backend::Cuda, None).unwrap();
        assert_error(gridz::compress(&array, &ndzip, src, dst, &required), Gpu, &["MOCK_ERROR_1"]);
        assert_eq!((count(c"launches"), count(c"cuStreamSynchronize")), (1, 1));
    });
}

// ---- caches
// ---------------------------------------------------------------------------------------

/// A pipeline holds buffers without borrowing the stream that allocated them.
#[test]
fn buffers_keep_their_stream() {
    with_mock("mock::buffers_keep_their_stream", &[], || {
        let buffers: Vec<_> = (0..3).map(|_| choose().unwrap().stream().unwrap().alloc(100).unwrap()).collect();
        // The streams stay in use as long as the buffers live.
        release_caches();
        assert_eq!((count(c"streams"), count(c"device_buffers")), (3, 3));
        drop(buffers);
        release_caches();
        assert_eq!((count(c"streams"), count(c"device_buffers")), (0, 0));
    });
}

#[test]
fn no_more_is_kept_than_was_asked_for() {
    with_mock("mock::no_more_is_kept_than_was_asked_for", &[("GRIDZ_CACHE_MIB", "3")], || {
        let device = choose().unwrap();
        let buffers: Vec<_> = (0..4).map(|_| device.pinned(1 << 20).unwrap()).collect();
        drop(buffers);
        assert_eq!(count(c"pinned_buffers"), 3);
    });
}

#[test]
fn caches_are_released() {
    with_mock("mock::caches_are_released", &[], || {
        release_caches();
        assert_eq!(count(c"init"), 0, "nothing starts CUDA here");
        let device = choose().unwrap();
        job(device).unwrap();
        let kept = |name| count(name);
        assert_eq!((kept(c"streams"), kept(c"pinned_buffers"), kept(c"cuMemPoolTrimTo")), (1, 1, 0));
        release_caches();
        assert_eq!((kept(c"streams"), kept(c"pinned_buffers"), kept(c"cuMemPoolTrimTo")), (0, 0, 1));
        job(device).unwrap();
        assert_eq!((kept(c"streams"), kept(c"pools"), kept(c"modules")), (1, 1, 1));
        assert_clean();
    });
}

/// The resources of a context that the program has reset no longer exist; the mock crashes if gridz
/// destroys one of them.
#[test]
fn a_device_that_was_reset_is_found_anew() {
    with_mock("mock::a_device_that_was_reset_is_found_anew", &[], || {
        let device = choose().unwrap();
        job(device).unwrap();
        application_resets(0);
        let destroyed = || count(c"cuStreamDestroy_v2");
        let before = destroyed();
        release_caches();
        assert_eq!(destroyed(), before);
        assert_error(job(device), ErrorKind::Device, &["destroyed or reset the CUDA context"]);
        let again = choose().unwrap();
        assert!(!std::ptr::eq(again, device));
        job(again).unwrap();
        assert_eq!(destroyed(), before);
    });
}

#[test]
fn idle_streams_are_bounded() {
    with_mock("mock::idle_streams_are_bounded", &[], || {
        let device = choose().unwrap();
        let streams: Vec<_> = (0..100).map(|_| device.stream().unwrap()).collect();
        assert_eq!(count(c"streams"), 100);
        drop(streams);
        assert_eq!(count(c"streams"), 64);
    });
}

#[test]
fn events_without_time_tell_none() {
    with_mock("mock::events_without_time_tell_none", &[], || {
        let device = choose().unwrap();
        let [timed, untimed] = [device.timed_event().unwrap(), device.event().unwrap()];
        assert_error(timed.time_since(&untimed), Gpu, &["MOCK_ERROR_400"]);
        assert!(timed.time_since(&timed).is_ok());
    });
}

// ---- fork -----------------------------------------------------------------------------------------

/// Forks; returns true if `body` succeeds in the child.
fn in_fork(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `body` and exits; the parent's other thread is the test harness,
    // asleep.
    match unsafe { libc::fork() } {
        // SAFETY: exits the child without the harness's exit handlers.
        0 => unsafe { libc::_exit(if body() { 0 } else { 1 }) },
        child => {
            let mut status = 0;
            // SAFETY: waits for the child and writes one integer.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        }
    }
}

#[test]
fn a_child_of_a_process_that_used_cuda_has_no_gpu() {
    with_mock("mock::a_child_of_a_process_that_used_cuda_has_no_gpu", &[], || {
        let device = choose().unwrap();
        job(device).unwrap();
        let stream = device.stream().unwrap();
        let other_stream = device.stream().unwrap();
        let buffer = stream.alloc(100).unwrap();
        let pinned = device.pinned(100).unwrap();
        let before = count(c"cuCtxPushCurrent_v2");
        assert!(in_fork(|| {
            let is_forked =
                |error: Error| error.kind() == Gpu && error.context().contains("was forked from process");
            let refused = gpus().is_err_and(is_forked)
                && choose().is_err_and(is_forked)
                && job(device).is_err_and(is_forked)
                && stream.alloc(1).is_err_and(is_forked)
                && !is_active()
                && gpu_of_pointer(std::ptr::without_provenance(16)).is_none();
            // The child must not release the parent's resources.
            drop((buffer, pinned));
            drop(other_stream);
            refused && count(c"device_buffers") == 1 && count(c"cuCtxPushCurrent_v2") == before
        }));
        job(device).unwrap();
    });
}

#[test]
fn a_child_forked_before_has_its_own() {
    with_mock("mock::a_child_forked_before_has_its_own", &[], || {
        assert!(!is_active());
        assert!(in_fork(|| choose().and_then(job).is_ok()));
        job(choose().unwrap()).unwrap();
    });
}
