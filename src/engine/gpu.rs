//! One chunk by a GPU: when, and the copies around the kernels.

use crate::codec::gpu::{Direction, FRAME_ALIGNMENT, Memory};
use crate::codec::registry::CODECS;
use crate::cpu::pool::Pool;
use crate::cuda::{self, Device, DeviceBuffer, DeviceSlice, Fatbin, Stream};
use crate::engine::launch::Plan;
use crate::engine::{Context, Spec, Verify, compress_bound, staging};
use crate::error::{Error, ErrorKind, Result};
use crate::format::header::Header;
use crate::settings::{self, Backend, LogLevel, Settings};
use crate::types::Array;

/// With `auto`, a program that uses a GPU anyway gets it for chunks of so many raw bytes …
const AUTO_BYTES: u64 = 4 << 20;
/// … unless the CPU has so many threads. Copies take most of the GPU's time: on an H200 host it compresses at 5 GB/s
/// and decompresses at 5 with one thread, at 12 and 15 with four, and the CPU (AVX-512) at 5 and 3, or 15 and 12.
const AUTO_THREADS: usize = 4;

/// Checks that there is a GPU if one is required.
///
/// # Errors
/// `Device` saying why there is none.
pub fn check(settings: &Settings) -> Result<()> {
    if settings.backend != Backend::Cuda {
        return Ok(());
    }
    let because =
        |error: Error| Error::new(error.kind(), format!("the GPU that is required cannot be used: {error}"));
    let device = Device::choose(settings).map_err(because)?;
    device.enter().map_err(because)?;
    // A library built without kernels has them for no codec.
    CODECS
        .iter()
        .filter(|entry| entry.gpu.is_some())
        .try_for_each(|entry| Fatbin::find(entry.name).map(|_| ()).map_err(because))
}

/// Lets the GPU do `work` on a chunk of `raw_bytes` in host memory, if the settings want that. `None`: the CPU
/// is to do it, because it should or because the GPU could not.
///
/// # Errors
/// Those of `work` that the CPU would find too; where the GPU is required, all.
pub fn attempt<R>(
    context: &Context,
    raw_bytes: u64,
    work: impl FnOnce(&'static Device) -> Result<Option<R>>,
) -> Result<Option<R>> {
    let settings = context.settings()?;
    let is_wanted = match settings.backend {
        Backend::Cpu => false,
        Backend::Cuda => true,
        // A context costs a second and hundreds of megabytes: no program gets one unasked.
        Backend::Auto => raw_bytes >= AUTO_BYTES && context.pool().threads() < AUTO_THREADS && cuda::is_active(),
    };
    if !is_wanted {
        return Ok(None);
    }
    match Device::choose(settings) {
        Ok(device) => or_cpu(settings, work(device)),
        Err(error) if settings.backend == Backend::Cuda => Err(error),
        Err(error) => {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
    }
}

/// `result` of a GPU, or `None` for the CPU to do it where the GPU failed and is not required.
///
/// # Errors
/// What the CPU would find too; where the GPU is required, all.
pub fn or_cpu<R>(settings: &Settings, result: Result<Option<R>>) -> Result<Option<R>> {
    match result {
        Err(error)
            if settings.backend != Backend::Cuda
                && matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory) =>
        {
            settings::log(LogLevel::Info, || format!("{error}; the CPU takes over"));
            Ok(None)
        }
        result => result,
    }
}

// ---- memory ----------------------------------------------------------------------------------------

/// Memory to read.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Of the host.
    Host(&'a [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

/// Memory to write.
#[derive(Debug)]
pub enum Destination<'a> {
    /// Of the host.
    Host(&'a mut [u8]),
    /// Of the GPU.
    Device(DeviceSlice<'a>),
}

impl<'a> Source<'a> {
    /// Its bytes.
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Source::Host(bytes) => bytes.len() as u64,
            Source::Device(bytes) => bytes.n_bytes(),
        }
    }

    /// The memory, if it is the GPU's.
    pub(super) fn on_device(&self) -> Option<DeviceSlice<'a>> {
        match self {
            Source::Host(_) => None,
            Source::Device(bytes) => Some(*bytes),
        }
    }
}

impl<'a> Destination<'a> {
    /// Its bytes.
    pub(super) fn n_bytes(&self) -> u64 {
        match self {
            Destination::Host(bytes) => bytes.len() as u64,
            Destination::Device(bytes) => bytes.n_bytes(),
        }
    }

    /// The memory, if it is the GPU's.
    pub(super) fn on_device(&self) -> Option<DeviceSlice<'a>> {
        match self {
            Destination::Host(_) => None,
            Destination::Device(bytes) => Some(*bytes),
        }
    }

    /// The same for a while.
    pub(super) fn reborrow(&mut self) -> Destination<'_> {
        match self {
            Destination::Host(bytes) => Destination::Host(bytes),
            Destination::Device(bytes) => Destination::Device(*bytes),
        }
    }
}

/// Memory that a kernel can be given: the caller's, or a substitute for it.
enum Staged<'a> {
    Callers(DeviceSlice<'a>),
    Ours(DeviceBuffer<'a>),
}

impl Staged<'_> {
    fn slice(&self) -> DeviceSlice<'_> {
        match self {
            Staged::Callers(slice) => *slice,
            Staged::Ours(buffer) => buffer.all(),
        }
    }
}

/// What is in `src`, aligned.
fn stage_in<'a>(stream: &'a Stream, src: Source<'a>, alignment: u64, pool: &Pool) -> Result<Staged<'a>> {
    if let Source::Device(slice) = src
        && slice.address().is_multiple_of(alignment)
    {
        return Ok(Staged::Callers(slice));
    }
    let buffer = stream.alloc(src.n_bytes())?;
    match src {
        Source::Host(bytes) => staging::copy_in(stream, buffer.all(), bytes, pool)?,
        Source::Device(bytes) => stream.copy(buffer.all(), bytes)?,
    }
    Ok(Staged::Ours(buffer))
}

/// Room for `n_bytes` on their way to `dst`.
fn stage_out<'a>(stream: &'a Stream, dst: &Destination<'a>, alignment: u64, n_bytes: u64) -> Result<Staged<'a>> {
    match dst {
        Destination::Device(slice) if slice.address().is_multiple_of(alignment) && slice.n_bytes() >= n_bytes => {
            Ok(Staged::Callers(slice.slice(0..n_bytes)?))
        }
        _ => Ok(Staged::Ours(stream.alloc(n_bytes)?)),
    }
}

/// Brings the first `n_bytes` to `dst`, once everything on the stream is done.
fn deliver(stream: &Stream, staged: &Staged, dst: Destination, n_bytes: u64, pool: &Pool) -> Result<()> {
    match (staged, dst) {
        (Staged::Callers(_), _) => Ok(()),
        (Staged::Ours(buffer), Destination::Host(dst)) => {
            staging::copy_out(stream, buffer.slice(0..n_bytes)?, &mut dst[..n_bytes as usize], pool)
        }
        (Staged::Ours(buffer), Destination::Device(dst)) => {
            stream.copy(dst.slice(0..n_bytes)?, buffer.slice(0..n_bytes)?)?;
            stream.synchronize()
        }
    }
}

// ---- one chunk -------------------------------------------------------------------------------------

/// Compresses `src`, which has the array's bytes, to the start of `dst`, which has the bound: bytes of the
/// frame, or `None` if the codec has no kernels.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn compress(
    device: &'static Device,
    array: &Array,
    spec: &Spec,
    src: Source,
    dst: Destination,
    context: &Context,
) -> Result<Option<usize>> {
    let Some(plan) = Plan::by_spec(Direction::Compress, array, spec, Verify::Checksum) else { return Ok(None) };
    let slot_bytes = compress_bound(array, spec)?.next_multiple_of(FRAME_ALIGNMENT);
    let stream = device.stream()?;
    let arrays = stage_in(&stream, src, plan.alignment, context.pool())?;
    let frames = stage_out(&stream, &dst, FRAME_ALIGNMENT, slot_bytes)?;
    let launch = plan.launch(device, 1, arrays.slice().address())?;
    let (scratch, length) = (stream.alloc(launch.scratch_bytes())?, stream.alloc(8)?);
    let memory = Memory {
        arrays: arrays.slice(),
        array_stride: array.n_bytes(),
        frames: frames.slice(),
        frame_stride: slot_bytes,
        slot_bytes,
        frame_bytes: length.all(),
        statuses: None,
    };
    launch.start(&stream, &plan.frames, &memory, scratch.all())?;
    let mut n_bytes = [0; 8];
    stream.copy_out(length.all(), &mut n_bytes)?;
    let n_bytes = u64::from_le_bytes(n_bytes);
    if n_bytes > slot_bytes {
        return Err(defect(format_args!("a kernel wrote {n_bytes} bytes to {slot_bytes}")));
    }
    deliver(&stream, &frames, dst, n_bytes, context.pool())?;
    Ok(Some(n_bytes as usize))
}

/// Decompresses `frame`, which is one whole frame of that header, to `dst`, which has the array's bytes. `None`
/// if there are no kernels for such frames.
///
/// # Errors
/// `Corrupt`, `Truncated`, `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn decompress(
    device: &'static Device,
    header: &Header,
    frame: Source,
    dst: Destination,
    verify: Verify,
    context: &Context,
) -> Result<Option<()>> {
    let Some(plan) = Plan::of_header(header, verify) else { return Ok(None) };
    let (frame_bytes, array_bytes) = (frame.n_bytes(), header.array.n_bytes());
    if frame_bytes < plan.least_frame_bytes() {
        return Err(cut());
    }
    let stream = device.stream()?;
    let frames = stage_in(&stream, frame, FRAME_ALIGNMENT, context.pool())?;
    let arrays = stage_out(&stream, &dst, plan.alignment, array_bytes)?;
    let launch = plan.launch(device, 1, arrays.slice().address())?;
    let (scratch, length, told) = (stream.alloc(launch.scratch_bytes())?, stream.alloc(8)?, stream.alloc(4)?);
    stream.copy_in(length.all(), &frame_bytes.to_le_bytes())?;
    let memory = Memory {
        arrays: arrays.slice(),
        array_stride: array_bytes,
        frames: frames.slice(),
        frame_stride: frame_bytes.next_multiple_of(FRAME_ALIGNMENT),
        slot_bytes: frame_bytes,
        frame_bytes: length.all(),
        statuses: Some(told.all()),
    };
    launch.start(&stream, &plan.frames, &memory, scratch.all())?;
    let mut status = [0; 4];
    stream.copy_out(told.all(), &mut status)?;
    match i32::from_le_bytes(status) {
        0 => deliver(&stream, &arrays, dst, array_bytes, context.pool()).map(Some),
        200 => Err(Error::corrupt("the data is damaged: its checksum does not match, or its parts contradict it")),
        201 => Err(cut()),
        202 => {
            let text = "a part of the data is of a kind unknown to this version; a newer gridz may read it";
            Err(Error::new(ErrorKind::UnsupportedFormat, text))
        }
        other => Err(defect(format_args!("a kernel tells status {other}"))),
    }
}

fn cut() -> Error {
    Error::new(ErrorKind::Truncated, "the data ends early")
}

fn defect(what: std::fmt::Arguments) -> Error {
    Error::new(ErrorKind::Internal, format!("defect in gridz, please report it: {what}"))
}
