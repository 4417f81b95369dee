//! Speed of whole frames on the GPU: arrays and frames in GPU memory, through the asynchronous C
//! API.
//!
//! `gpu_throughput REQUEST FILE f32|f64|i16|i32|i64|u16|u8 EXTENTS CHUNKS …`, where REQUEST is a
//! codec's name or text such as `quant,rel=1e-3`: for each four words, chunks of these extents from a
//! raw file, which is repeated if it is too short.
//!
//! Times are medians of 25 calls after 3 warm-up calls, by events around each call. Compression is
//! measured only if the codec has kernels for it; otherwise the CPU produces the frames. The stream
//! is blocked before the first event until everything is submitted. So a time contains all work of
//! the GPU for the call, and none of the host. The host's time to submit a call is reported
//! separately.
//!
//! GB/s are 1e9 raw bytes a second. Decompressed arrays are compared with the source, in modes with
//! a bound by that bound. For one chunk with three axes, a box of 64 elements a side and a plane of
//! the slowest axis are also read; `unchecked` means without verifying checksums.
//!
//! `gpu_throughput once REQUEST FILE …`: the same calls once each, without times, for profilers.
//!
//! `gpu_throughput first-call`: the latency of a program's first call, with an existing CUDA
//! context.

#![allow(unsafe_code, reason = "calls the C API and the CUDA driver")]

#[path = "shared/bounds.rs"]
mod bounds;
#[path = "../tests/gpu/driver.rs"]
mod driver;

use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Instant;

use driver::{Memory, Stream};
use gridz::{Array, ByteOrder, Context, DType, Request, Shape, Verify};
use gridz_capi::api::gridz_last_error;
use gridz_capi::batch::gridz_batch;
use gridz_capi::cuda::{gridz_async_workspace_bytes, gridz_compress_async, gridz_decompress_async};
use gridz_capi::types::{GRIDZ_FLAG_SKIP_CHECKSUM, gridz_array, gridz_options};
use gridz_codecs::settings::Backend;

type Failure = Box<dyn std::error::Error>;

const WARM_UPS: usize = 3;
const ROUNDS: usize = 25;

fn main() -> Result<(), Failure> {
    gridz_cuda::gpus()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["first-call"] => first_call(),
        ["once", request, jobs @ ..] => all(request, jobs, 0),
        [request, jobs @ ..] => all(request, jobs, ROUNDS),
        [] => all("", &[], 0),
    }
}

/// Runs all jobs of the command line, also those after a failed one.
fn all(request: &str, jobs: &[&str], rounds: usize) -> Result<(), Failure> {
    let mut result = if jobs.is_empty() || !jobs.len().is_multiple_of(4) {
        Err("usage: gpu_throughput [once] REQUEST FILE f32|f64|i16|i32|i64|u16|u8 EXTENTS CHUNKS … | gpu_throughput first-call"
            .into())
    } else {
        Ok(())
    };
    for job in jobs.chunks_exact(4) {
        if let Err(error) = measure(request, job[0], job[1], job[2], job[3].parse()?, rounds) {
            println!("{}: FAILED: {error}", job.join(" "));
            result = Err(error);
        }
    }
    result
}

fn measure(
    request: &str,
    file: &str,
    dtype: &str,
    extents: &str,
    n_chunks: usize,
    rounds: usize,
) -> Result<(), Failure> {
    let spec: Request = request.parse()?;
    let text = CString::new(request)?;
    let options = gridz_options {
        struct_size: size_of::<gridz_options>(),
        context: ptr::null(),
        request: text.as_ptr(),
        flags: 0,
        fill_value: ptr::null(),
        n_fill_values: 0,
        valid_min: ptr::null(),
        valid_max: ptr::null(),
    };
    let dtype = match dtype {
        "f32" => DType::F32,
        "f64" => DType::F64,
        "i16" => DType::I16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "u16" => DType::U16,
        "u8" => DType::U8,
        other => return Err(format!("{other} is not a type; use f32, f64, i16, i32, i64, u16 or u8").into()),
    };
    let shape: Vec<u64> = extents.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let array = Array::new(dtype, ByteOrder::Little, Shape::new(&shape)?)?;
    let chunk_bytes = array.n_bytes() as usize;
    let slot = (gridz::compress_bound(&array, &spec)? as usize).next_multiple_of(16);
    let mut raw = std::fs::read(file)?;
    raw.truncate(n_chunks * chunk_bytes);
    while raw.len() < n_chunks * chunk_bytes {
        raw.extend_from_within(..raw.len().min(n_chunks * chunk_bytes - raw.len()));
    }
    let c_array = gridz_array {
        struct_size: size_of::<gridz_array>(),
        dtype: u32::from(dtype.id()),
        byte_order: 1,
        element_size: 0,
        rank: shape.len() as u32,
        extents: shape.as_ptr(),
    };
    let stream = Stream::new();
    let mut batch = gridz_batch {
        struct_size: size_of::<gridz_batch>(),
        array: &c_array,
        n: n_chunks,
        arrays: ptr::null_mut(),
        array_stride: chunk_bytes,
        frames: ptr::null_mut(),
        frame_stride: slot,
        frame_bytes: ptr::null_mut(),
        packed: ptr::null_mut(),
        packed_bytes: 0,
        offsets: ptr::null_mut(),
        statuses: ptr::null_mut(),
        start: ptr::null(),
        count: ptr::null(),
        workspace: ptr::null_mut(),
        workspace_bytes: 0,
        stream: stream.raw(),
        options: &options,
    };
    let mut workspace_bytes = 0;
    // SAFETY: the structs and the number are local variables.
    checked(unsafe { gridz_async_workspace_bytes(&batch, &mut workspace_bytes) })?;
    let src = Memory::of(&stream, &raw, 0);
    let frames = Memory::new(&stream, n_chunks * slot, 0);
    let lengths = Memory::new(&stream, 8 * n_chunks, 0);
    let back = Memory::new(&stream, raw.len(), 0);
    let statuses = Memory::new(&stream, 4 * n_chunks, 0);
    let workspace = Memory::new(&stream, workspace_bytes, 0);
    batch = gridz_batch {
        arrays: src.ptr(),
        frames: frames.ptr(),
        frame_bytes: lengths.ptr(),
        statuses: statuses.ptr(),
        workspace: workspace.ptr(),
        workspace_bytes,
        ..batch
    };

    let compressed = time(&stream, rounds, || {
        // SAFETY: device memory of the sizes that the API requires, which outlives the stream's
        // work.
        checked(unsafe { gridz_compress_async(&batch) })
    });
    let (compress, submit_compress) = match compressed {
        Err(error) if error.to_string().contains("use gridz_compress") => {
            let mut slots = vec![0; n_chunks * slot];
            let mut n_bytes = Vec::new();
            for (chunk, slot) in raw.chunks_exact(chunk_bytes).zip(slots.chunks_exact_mut(slot)) {
                n_bytes.extend(
                    (gridz::compress(&array, &spec, chunk, slot, &Context::default())? as u64).to_le_bytes(),
                );
            }
            frames.write(0, &slots);
            lengths.write(0, &n_bytes);
            (f64::NAN, f64::NAN)
        }
        other => other?,
    };
    let (decompress, submit_decompress) = time(&stream, rounds, || {
        // SAFETY: as above.
        checked(unsafe { gridz_decompress_async(&gridz_batch { arrays: back.ptr(), ..batch }) })
    })?;
    if statuses.read_all().iter().any(|&byte| byte != 0) {
        return Err("a frame cannot be read".into());
    }
    for (original, decoded) in raw.chunks_exact(chunk_bytes).zip(back.read_all().chunks_exact(chunk_bytes)) {
        bounds::check(&array, original, decoded, &spec)?;
    }
    let frame_bytes: u64 =
        lengths.read_all().chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).sum();
    if rounds == 0 {
        return Ok(());
    }
    let name = std::path::Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    let speed = |microseconds: f64| raw.len() as f64 / 1e3 / microseconds;
    let shown = |number: f64| if number.is_nan() { "-".to_owned() } else { format!("{number:.1}") };
    println!(
        "{request:<8} {name:<14} {:<7} {extents:<15} x{n_chunks:<5} ratio {:.4}  compress {:>7} GB/s {:>8} µs  \
         decompress {:7.1} GB/s {decompress:8.1} µs  submit {:>5} + {submit_decompress:5.1} µs",
        dtype.name(),
        frame_bytes as f64 / raw.len() as f64,
        shown(speed(compress)),
        shown(compress),
        speed(decompress),
        shown(submit_compress),
    );
    if n_chunks > 1 || shape.len() != 3 {
        return Ok(());
    }
    let middle = |count: [u64; 3]| {
        let count = [0, 1, 2].map(|k| count[k].min(shape[k]));
        ([0, 1, 2].map(|k| (shape[k] - count[k]) / 2), count)
    };
    for (what, (start, count)) in [("box", middle([64; 3])), ("plane", middle([1, shape[1], shape[2]]))] {
        for (flags, checks) in [(0, "checked"), (GRIDZ_FLAG_SKIP_CHECKSUM, "unchecked")] {
            let options = gridz_options { flags, ..options };
            let (region, _) = time(&stream, rounds, || {
                let (start, count) = (start.as_ptr(), count.as_ptr());
                let batch = gridz_batch { arrays: back.ptr(), start, count, options: &options, ..batch };
                // SAFETY: as above, and three numbers each for start and count.
                checked(unsafe { gridz_decompress_async(&batch) })
            })?;
            if statuses.read_all().iter().any(|&byte| byte != 0) {
                return Err("a region cannot be read".into());
            }
            let n_bytes = count.iter().product::<u64>() * u64::from(array.element_size());
            let speed = n_bytes as f64 / 1e3 / region;
            println!("{:<24} {checks:<9} {what:<5} {count:?} {speed:7.1} GB/s {region:8.1} µs", "");
        }
    }
    Ok(())
}

/// Microseconds of a call on the GPU, and of the host to submit it.
fn time(stream: &Stream, rounds: usize, call: impl Fn() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
    let (mut on_gpu, mut to_submit) = (Vec::new(), Vec::new());
    // The first call loads the kernels and may block for that.
    call()?;
    let n_calls = if rounds == 0 { 0 } else { WARM_UPS + rounds };
    for round in 0..n_calls {
        stream.synchronize();
        let gate = stream.gate();
        let begin = stream.record();
        let submit = Instant::now();
        call()?;
        let submitted = submit.elapsed().as_secs_f64() * 1e6;
        let end = stream.record();
        gate.open();
        let microseconds = end.microseconds_since(&begin);
        if round >= WARM_UPS {
            on_gpu.push(microseconds);
            to_submit.push(submitted);
        }
    }
    Ok((median(on_gpu), median(to_submit)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn checked(status: i32) -> Result<(), Failure> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the string is valid until the next error of this thread.
    let text = unsafe { CStr::from_ptr(gridz_last_error()) };
    Err(text.to_string_lossy().into())
}

/// 4 MiB in host memory: the first call of this process loads the kernels, later calls do not.
fn first_call() -> Result<(), Failure> {
    let begin = Instant::now();
    driver::enter();
    let milliseconds = |begin: Instant| begin.elapsed().as_secs_f64() * 1e3;
    println!("CUDA context, made by the program: {:.1} ms", milliseconds(begin));
    let array = Array::new(DType::F32, ByteOrder::Little, Shape::new(&[64, 128, 128])?)?;
    let raw: Vec<u8> = (0..1_u32 << 20).flat_map(|i| (i as f32 * 0.25).to_le_bytes()).collect();
    let mut frame = vec![0; gridz::compress_bound(&array, &Request::default())? as usize];
    let mut back = vec![0; raw.len()];
    let context = Context::new(Some(1), None)?.on(Backend::Cuda, None)?;
    for call in ["first", "second", "third"] {
        let begin = Instant::now();
        let n_bytes = gridz::compress(&array, &Request::default(), &raw, &mut frame, &context)?;
        let compress = milliseconds(begin);
        let begin = Instant::now();
        gridz::decompress(&frame[..n_bytes], gridz::Part::All, &mut back, Verify::Checksum, &context)?;
        println!("{call} call, 4 MiB: compress {compress:.2} ms, decompress {:.2} ms", milliseconds(begin));
        if back != raw {
            return Err("the decompressed data differs from the source".into());
        }
    }
    Ok(())
}
