//! One chunk by a GPU: the copies around the kernels.
#![allow(unsafe_code, reason = "gives memory to a stream")]

use crate::backend::Attempt;
use crate::context::Context;
use crate::ferry;
use crate::frame::{FRAME_ALIGNMENT, Verify};
use crate::launch::{Memory, Procedure};
use crate::memory::{Destination, Source};
use crate::prepared::Prepared;
use gridz_codecs::codec::gpu::Direction;
use gridz_codecs::cpu::pool::Pool;
use gridz_codecs::error::{Error, ErrorKind, Result};
use gridz_cuda::{Device, DeviceBuffer, DeviceSlice, Stream};

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

/// A call's work on its own stream, with memory that is borrowed for the call. It does not go on behind the call: until
/// [`done`](Self::done) says that the stream has been waited for, whatever ends the call early waits for it here.
struct Working<'a>(Option<&'a Stream<'static>>);

impl Working<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0 {
            // If it fails, nothing goes on all the same; there is an error to tell already.
            let _ = stream.synchronize();
        }
    }
}

/// What is in `src`, aligned.
///
/// # Safety
/// `src` lives until the stream has done the work.
unsafe fn stage_in<'a>(stream: &Stream<'a>, src: Source<'a>, alignment: u64, pool: &Pool) -> Result<Staged<'a>> {
    if let Source::Device(slice) = src
        && slice.address().is_multiple_of(alignment)
    {
        return Ok(Staged::Callers(slice));
    }
    let buffer = stream.alloc(src.n_bytes())?;
    match src {
        Source::Host(bytes) => ferry::copy_in(&buffer, bytes, pool)?,
        // SAFETY: the source lives long enough by the caller's promise, and the buffer is freed in the stream's order.
        Source::Device(bytes) => unsafe { stream.copy(buffer.all(), bytes)? },
    }
    Ok(Staged::Ours(buffer))
}

/// Room for `n_bytes` on their way to `dst`.
fn stage_out<'a>(stream: &Stream<'a>, dst: &Destination<'a>, alignment: u64, n_bytes: u64) -> Result<Staged<'a>> {
    match dst {
        Destination::Device(slice) if slice.address().is_multiple_of(alignment) && slice.n_bytes() >= n_bytes => {
            Ok(Staged::Callers(slice.slice(0..n_bytes)?))
        }
        _ => Ok(Staged::Ours(stream.alloc(n_bytes)?)),
    }
}

/// Brings the first `n_bytes` to `dst`, once everything on the stream is done, and waits for it.
fn deliver(stream: &Stream, staged: &Staged, dst: Destination, n_bytes: u64, pool: &Pool) -> Result<()> {
    match (staged, dst) {
        (Staged::Callers(_), _) => Ok(()),
        (Staged::Ours(buffer), Destination::Host(dst)) => {
            ferry::copy_out(buffer, &mut dst[..n_bytes as usize], pool)
        }
        (Staged::Ours(buffer), Destination::Device(dst)) => {
            // SAFETY: the next line waits for the copy; should this one fail, there is none.
            unsafe { stream.copy(dst.slice(0..n_bytes)?, buffer.slice(0..n_bytes)?)? };
            stream.synchronize()
        }
    }
}

// ---- one chunk -------------------------------------------------------------------------------------

/// Compresses `src`, which has the array's bytes, to the start of `dst`, which has the bound: bytes of the frame.
///
/// # Errors
/// `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn compress(
    device: &'static Device,
    prepared: &Prepared,
    src: Source,
    dst: Destination,
    context: &Context,
) -> Result<Attempt<usize>> {
    let procedure = match Procedure::new(Direction::Compress, prepared, Verify::Checksum) {
        Attempt::Done(procedure) => procedure,
        Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
    };
    let slot_bytes = prepared.bound();
    let stream = device.stream()?;
    let working = Working(Some(&stream));
    // SAFETY: the source lives as long as the call, behind which the work does not go on.
    let arrays = unsafe { stage_in(&stream, src, procedure.alignment, context.pool())? };
    let frames = stage_out(&stream, &dst, FRAME_ALIGNMENT, slot_bytes)?;
    let launch = procedure.launch(device, 1, arrays.slice().address())?;
    let (scratch, length) = (stream.alloc(launch.scratch_bytes())?, stream.alloc(8)?);
    let memory = Memory {
        arrays: arrays.slice(),
        array_stride: prepared.array.n_bytes(),
        frames: frames.slice(),
        frame_stride: slot_bytes,
        slot_bytes,
        frame_bytes: length.all(),
        statuses: None,
    };
    // SAFETY: one array, and a slot of the bound. The caller's memory lives as long as the call, behind which the work
    // does not go on; ours is freed in the stream's order.
    unsafe { launch.start(&stream, &memory, scratch.all())? };
    let mut n_bytes = [0; 8];
    stream.copy_out(length.all(), &mut n_bytes)?;
    let n_bytes = u64::from_le_bytes(n_bytes);
    if n_bytes > slot_bytes {
        return Err(defect(format_args!("a kernel wrote {n_bytes} bytes to {slot_bytes}")));
    }
    deliver(&stream, &frames, dst, n_bytes, context.pool())?;
    working.done();
    Ok(Attempt::Done(n_bytes as usize))
}

/// Decompresses `frame`, which is one whole frame, or a region of it, as `procedure` says, to `dst`, which has the
/// `array_bytes` bytes that this gives.
///
/// # Errors
/// `Corrupt`, `Truncated`, `Device`, `OutOfMemory`, `UnsupportedJob`.
pub fn decompress(
    device: &'static Device,
    procedure: Attempt<Procedure>,
    frame: Source,
    dst: Destination,
    array_bytes: u64,
    context: &Context,
) -> Result<Attempt<()>> {
    let procedure = match procedure {
        Attempt::Done(procedure) => procedure,
        Attempt::NotHere(reason) => return Ok(Attempt::NotHere(reason)),
    };
    let frame_bytes = frame.n_bytes();
    if frame_bytes < procedure.least_frame_bytes() {
        return Err(cut());
    }
    let stream = device.stream()?;
    let working = Working(Some(&stream));
    // SAFETY: the frame lives as long as the call, behind which the work does not go on.
    let frames = unsafe { stage_in(&stream, frame, FRAME_ALIGNMENT, context.pool())? };
    let arrays = stage_out(&stream, &dst, procedure.alignment, array_bytes)?;
    let launch = procedure.launch(device, 1, arrays.slice().address())?;
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
    // SAFETY: one frame, not shorter than any sound one, and room for its array. All memory lives long enough, as
    // above.
    unsafe { launch.start(&stream, &memory, scratch.all())? };
    let mut status = [0; 4];
    stream.copy_out(told.all(), &mut status)?;
    let status = i32::from_le_bytes(status);
    match ErrorKind::of_kernel(status) {
        None if status == 0 => {
            deliver(&stream, &arrays, dst, array_bytes, context.pool())?;
            working.done();
            Ok(Attempt::Done(()))
        }
        Some(ErrorKind::Corrupt) => {
            Err(Error::corrupt("the data is damaged: its checksum does not match, or its parts contradict it"))
        }
        Some(ErrorKind::Truncated) => Err(cut()),
        Some(kind @ ErrorKind::UnsupportedFormat) => {
            let text = "a part of the data is of a kind unknown to this version; a newer gridz may read it";
            Err(Error::new(kind, text))
        }
        _ => Err(defect(format_args!("a kernel tells status {status}"))),
    }
}

fn cut() -> Error {
    Error::new(ErrorKind::Truncated, "the data ends early")
}

fn defect(what: std::fmt::Arguments) -> Error {
    Error::new(ErrorKind::Internal, format!("defect in gridz, please report it: {what}"))
}
