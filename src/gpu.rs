//! One chunk on a GPU: the copies around the kernels.
#![allow(unsafe_code, reason = "gives memory to a stream")]

use crate::context::Context;
use crate::frame::FRAME_ALIGNMENT;
use crate::launch::{GpuPlan, LaunchMemory};
use crate::memory::{Destination, Source};
use crate::prepared::Prepared;
use crate::staging;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Stream};

/// Memory for a kernel: the caller's, or a buffer in its place.
enum Staged<'a> {
    Borrowed(DeviceSlice<'a>),
    Owned(DeviceBuffer<'a>),
}

impl Staged<'_> {
    fn slice(&self) -> DeviceSlice<'_> {
        match self {
            Staged::Borrowed(slice) => *slice,
            Staged::Owned(buffer) => buffer.all(),
        }
    }
}

/// Synchronizes a call's stream on an early return. The stream uses memory that is borrowed for the
/// call, so its work must not outlast the call. [`disarm`](Self::disarm) is called after a
/// successful synchronization.
struct SyncOnDrop<'a>(Option<&'a Stream<'static>>);

impl SyncOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for SyncOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0 {
            // If it fails, no work continues either, and the call already returns an error.
            let _ = stream.synchronize();
        }
    }
}

/// The contents of `src` at an aligned address.
///
/// # Safety
/// `src` must live until the stream has completed the work.
unsafe fn stage_in<'a>(stream: &Stream<'a>, src: Source<'a>, alignment: u64, pool: &Pool) -> Result<Staged<'a>> {
    if let Source::Device(slice) = src
        && slice.address().is_multiple_of(alignment)
    {
        return Ok(Staged::Borrowed(slice));
    }
    let buffer = stream.alloc(src.n_bytes())?;
    match src {
        Source::Host(bytes) => staging::h2d(&buffer, bytes, pool)?,
        // SAFETY: the source lives long enough by this function's contract, and the buffer is freed
        // in stream order.
        Source::Device(bytes) => unsafe { stream.copy(buffer.all(), bytes)? },
    }
    Ok(Staged::Owned(buffer))
}

/// Memory for `n_bytes` bytes of output: `dst` itself if it is aligned and long enough.
fn stage_out<'a>(stream: &Stream<'a>, dst: &Destination<'a>, alignment: u64, n_bytes: u64) -> Result<Staged<'a>> {
    match dst {
        Destination::Device(slice) if slice.address().is_multiple_of(alignment) && slice.n_bytes() >= n_bytes => {
            Ok(Staged::Borrowed(slice.slice(0..n_bytes)?))
        }
        _ => Ok(Staged::Owned(stream.alloc(n_bytes)?)),
    }
}

/// Copies the first `n_bytes` bytes to `dst` after all work on the stream, and waits for the copy.
fn copy_to_destination(
    stream: &Stream,
    staged: &Staged,
    dst: Destination,
    n_bytes: u64,
    pool: &Pool,
) -> Result<()> {
    match (staged, dst) {
        (Staged::Borrowed(_), _) => Ok(()),
        (Staged::Owned(buffer), Destination::Host(dst)) => staging::d2h(buffer, &mut dst[..n_bytes as usize], pool),
        (Staged::Owned(buffer), Destination::Device(dst)) => {
            // SAFETY: the next line waits for the copy; if this line fails, there is none.
            unsafe { stream.copy(dst.slice(0..n_bytes)?, buffer.slice(0..n_bytes)?)? };
            stream.synchronize()
        }
    }
}

/// Compresses `src`, which has the array's length, to the start of `dst`, which has the bound, by
/// the plan of `prepared`. Returns the frame's length.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn compress(
    device: &'static Device,
    plan: &GpuPlan,
    prepared: &Prepared,
    src: Source,
    dst: Destination,
    context: &Context,
) -> Result<usize> {
    let slot_bytes = prepared.bound();
    let stream = device.stream()?;
    let sync = SyncOnDrop(Some(&stream));
    // SAFETY: the source lives as long as the call, and the work does not outlast the call.
    let arrays = unsafe { stage_in(&stream, src, plan.alignment, context.pool())? };
    let frames = stage_out(&stream, &dst, FRAME_ALIGNMENT, slot_bytes)?;
    let launch = plan.launch(device, 1, arrays.slice().address())?;
    let (scratch, length) = (stream.alloc(launch.scratch_bytes())?, stream.alloc(8)?);
    let memory = LaunchMemory {
        arrays: arrays.slice(),
        array_stride: prepared.array.n_bytes(),
        frames: frames.slice(),
        frame_stride: slot_bytes,
        slot_bytes,
        frame_bytes: length.all(),
        statuses: None,
    };
    // SAFETY: one array, and a slot of the bound. The caller's memory lives as long as the call,
    // and the work does not outlast the call. Our memory is freed in stream order.
    unsafe { launch.start(&stream, &memory, scratch.all())? };
    let mut n_bytes = [0; 8];
    stream.copy_out(length.all(), &mut n_bytes)?;
    let n_bytes = u64::from_le_bytes(n_bytes);
    if n_bytes > slot_bytes {
        return Err(Error::internal(format_args!("a kernel wrote {n_bytes} bytes to a slot of {slot_bytes}")));
    }
    copy_to_destination(&stream, &frames, dst, n_bytes, context.pool())?;
    sync.disarm();
    Ok(n_bytes as usize)
}

/// Decompresses `frame`, one whole frame, or a region of it, according to `plan`. The result has
/// `array_bytes` bytes; `dst` has room for them.
///
/// # Errors
/// `Corrupt`, `Truncated`, `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn decompress(
    device: &'static Device,
    plan: &GpuPlan,
    frame: Source,
    dst: Destination,
    array_bytes: u64,
    context: &Context,
) -> Result<()> {
    let frame_bytes = frame.n_bytes();
    if frame_bytes < plan.min_frame_bytes() {
        return Err(truncated());
    }
    let stream = device.stream()?;
    let sync = SyncOnDrop(Some(&stream));
    // SAFETY: the frame lives as long as the call, and the work does not outlast the call.
    let frames = unsafe { stage_in(&stream, frame, FRAME_ALIGNMENT, context.pool())? };
    let arrays = stage_out(&stream, &dst, plan.alignment, array_bytes)?;
    let launch = plan.launch(device, 1, arrays.slice().address())?;
    let (scratch, length, status_buffer) =
        (stream.alloc(launch.scratch_bytes())?, stream.alloc(8)?, stream.alloc(4)?);
    stream.copy_in(length.all(), &frame_bytes.to_le_bytes())?;
    let memory = LaunchMemory {
        arrays: arrays.slice(),
        array_stride: array_bytes,
        frames: frames.slice(),
        frame_stride: frame_bytes.next_multiple_of(FRAME_ALIGNMENT),
        slot_bytes: frame_bytes,
        frame_bytes: length.all(),
        statuses: Some(status_buffer.all()),
    };
    // SAFETY: one frame, not shorter than any valid one, and room for its array. All memory lives
    // long enough, as above.
    unsafe { launch.start(&stream, &memory, scratch.all())? };
    let mut status = [0; 4];
    stream.copy_out(status_buffer.all(), &mut status)?;
    let status = i32::from_le_bytes(status);
    match ErrorKind::of_kernel(status) {
        None if status == 0 => {
            copy_to_destination(&stream, &arrays, dst, array_bytes, context.pool())?;
            sync.disarm();
            Ok(())
        }
        Some(ErrorKind::Corrupt) => {
            Err(Error::corrupt("the data is damaged: its checksum does not match, or its parts are inconsistent"))
        }
        Some(ErrorKind::Truncated) => Err(truncated()),
        Some(kind @ ErrorKind::UnsupportedFormat) => {
            let text = "a part of the data is of an unknown kind; a newer gridz may read this data";
            Err(Error::new(kind, text))
        }
        _ => Err(Error::internal(format_args!("a kernel returned the unknown status {status}"))),
    }
}

fn truncated() -> Error {
    Error::new(ErrorKind::Truncated, "the data is truncated")
}
