//! `gridz_cuda.h`: asynchronous functions, which only enqueue work on a CUDA stream.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use crate::batch::{Batch, gridz_batch};
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use gridz::Context;
use gridz::device::{self, BatchMemory, Packing, PreparedBatch};
use gridz_codecs::error::Result;

/// Computes the size of the GPU workspace that `gridz_compress_async` and `gridz_decompress_async`
/// need.
///
/// Reads `array`, `n`, `stream` and `options`. Sets `*bytes` to the largest workspace that any of
/// these calls needs for such a batch, on the GPU of `stream`. It may differ between GPU models. The
/// call also loads the kernels of both directions into the stream's CUDA context, which takes a
/// moment the first time. After that, such calls only enqueue work on a stream of that context. Call
/// this function before a stream is captured into a CUDA graph. NULL for `stream` = the default
/// stream of the current CUDA context or, without one, of the GPU that `gridz_compress` would choose.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for too many arrays and for codecs without kernels
/// (`lorenzo` at level 3), `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_async_workspace_bytes(batch: *const gridz_batch, bytes: *mut usize) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (bytes, batch) = unsafe { (Out::new("bytes", bytes)?, Batch::read(batch)?) };
        // SAFETY: the same promises.
        let (options, stream) = unsafe { (batch.options()?, ptr::stream(batch.c.stream)) };
        let request = &options.request;
        let n_bytes = device::async_workspace_bytes(&batch.array, batch.c.n, request, stream, options.context)?;
        bytes.write(n_bytes as usize);
        Ok(())
    })
}

/// Enqueues the compression of `n` arrays of one type and shape on a CUDA stream.
///
/// Reads `array`, `n`, `arrays`, `array_stride`, `frame_stride`, `workspace`, `workspace_bytes`,
/// `stream` and `options`. Writes `frames` and `frame_bytes`.
///
/// The call returns at once. After `gridz_async_workspace_bytes` for such arrays it never waits for
/// the GPU and never reads GPU memory. Without that, the first call loads the kernels, which may
/// wait. The return value reports invalid arguments. An error of the GPU itself shows up in the
/// calls that wait for the stream.
///
/// Once the stream has completed the work, frame i is in slot i and its length in bytes is
/// `frame_bytes[i]`. The rest of its slot is unspecified. The frames are those of `gridz_compress`:
/// any machine decodes them.
///
/// All buffers are GPU memory, or managed or pinned memory that the GPU can access:
///
/// - `arrays`: arrays whose elements the codec interprets (`ndzip`: `float` and `double`; `lorenzo`:
///   all numbers) must be aligned to their element size, and so must `array_stride`. Fastest if all
///   rows begin at multiples of 16 bytes.
/// - `frames`: aligned to 16 bytes. The last slot needs as many bytes as the others, and so does a
///   single slot.
/// - `frame_bytes`: aligned to 8 bytes.
/// - `workspace`: at least the size that `gridz_async_workspace_bytes` reports. Aligned to 8 bytes,
///   preferably 256. Calls on different streams need separate workspaces; calls on one stream may
///   share one. With NULL and 0 gridz allocates it from its own stream-ordered memory pool, which
///   `gridz_release_caches` describes. Pass a workspace if the stream is being captured into a CUDA
///   graph. The graph can then be launched again with other contents of `arrays`.
///
/// Arrays of a type that the codec does not encode are stored, as by `gridz_compress`.
///
/// Errors: `INVALID_ARGUMENT`, naming the field; `UNSUPPORTED_JOB` for too many arrays (2^31, or
/// fewer if arrays exceed 16 KiB) and for `lorenzo` at level 3, which only `gridz_compress`
/// supports; `OUT_OF_MEMORY`; `DEVICE`, also with `GRIDZ_BACKEND=cpu`, since there is no fallback
/// to the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_async(batch: *const gridz_batch) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let batch = unsafe { Batch::read(batch)? };
        batch.refuse_region("gridz_compress_async")?;
        // SAFETY: the same promises.
        let options = unsafe { batch.options()? };
        let prepared = batch.of_device().prepare(&options.request)?;
        // SAFETY: the caller keeps the promises of the comment above.
        let (memory, stream) = unsafe { (batch.memory(&prepared)?, ptr::stream(batch.c.stream)) };
        prepared.compress(&memory, stream, options.context)
    })
}

/// Enqueues the decompression of `n` frames of one type and shape on a CUDA stream.
///
/// This is the counterpart of `gridz_compress_async`. Its rules for memory, alignment, `workspace`
/// and `stream` apply here too. Reads `array`, `n`, `array_stride`, `frames`, `frame_stride`,
/// `frame_bytes`, `start`, `count`, `workspace`, `workspace_bytes`, `stream` and `options`. Writes
/// `arrays`, in the byte order of `array`, and `statuses`.
///
/// With `start` and `count`, region i is written to `arrays + i * array_stride`, its elements
/// contiguous in C order. `array_stride` is then at least the size of a region. One launch decodes
/// only the blocks that the region touches. It verifies the checksums that
/// `gridz_decompress_region` lists. So a frame may be damaged elsewhere although its status is
/// `GRIDZ_OK`.
///
/// - `frames`: the last slot needs as many bytes as the others, because a few bytes of a slot are
///   read even if its frame is truncated.
/// - `frame_bytes`: read when the stream reaches this work. So it may be written by an earlier
///   `gridz_compress_async` on the stream.
/// - `statuses`: GPU memory, aligned to 4 bytes.
///
/// Once the stream has completed the work, `statuses[i]` is `GRIDZ_OK`, `GRIDZ_ERROR_CORRUPT` or
/// `GRIDZ_ERROR_TRUNCATED`. After an error the contents of array i are unspecified; the other
/// arrays are valid.
///
/// A valid frame still counts as corrupt if `gridz_compress_async` would not make such a frame with
/// this `array` and these `options`. Unlike in `gridz_decompress`, the codec matters here. Name it
/// in the request if frames are stored for longer, because the default may change in a later
/// version. Use `gridz_decompress` for frames of other arrays, codecs or versions. Unpack packed
/// frames first, because this function expects each frame in its slot.
///
/// Untrusted input is safe. `GRIDZ_FLAG_SKIP_CHECKSUM` is respected. Fastest if all rows of the
/// arrays begin at multiples of 8 bytes, or of 32 where possible.
///
/// Errors: those of `gridz_compress_async`; `INVALID_ARGUMENT` if the region is not inside the
/// array. A bad frame is not an error of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_async(batch: *const gridz_batch) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let batch = unsafe { Batch::read(batch)? };
        // SAFETY: the same promises.
        let (options, prepared) = unsafe {
            let options = batch.options()?;
            let prepared = batch.prepare_decompression(&options.request)?;
            (options, prepared)
        };
        // SAFETY: the caller keeps the promises of the comment above.
        let (memory, statuses, stream) = unsafe {
            (
                batch.memory(&prepared)?,
                ptr::device_memory("statuses", batch.c.statuses.cast(), 4 * batch.c.n as u64)?,
                ptr::stream(batch.c.stream),
            )
        };
        prepared.decompress(&memory, statuses, options.verify, stream, options.context)
    })
}

/// Enqueues on a CUDA stream the packing of frames that `gridz_compress_async` writes to slots.
/// Packed frames can be sent, or copied to the host, without unused bytes between them.
///
/// Reads `n`, `frames`, `frame_stride`, `frame_bytes`, `packed_bytes` and `stream`. Writes `packed`
/// and `offsets`.
///
/// Frame i is copied to offset `offsets[i]` of `packed`: the first multiple of 16 after the previous
/// frame. `offsets[n]` is the end of the last frame, rounded up in the same way. Gaps between frames
/// are zeroed. Frames that do not fit in the `packed_bytes` bytes of `packed` are left out.
/// `offsets[n]` is then larger than `packed_bytes`. A length above `frame_stride` is invalid and
/// counts as 0.
///
/// The memory rules of `gridz_compress_async` apply: GPU memory, no overlaps, valid until the
/// stream has completed the work. `frames` and `packed` are aligned to 16 bytes, and `frame_stride`
/// is any multiple of 16 above 0. The last slot has `frame_stride` bytes too. `frame_bytes` has `n`
/// and `offsets` has `n` + 1 elements; both are aligned to 8 bytes, and may be pinned host memory.
/// Only the first call of a process may wait for the GPU. With 0 frames the call does not write
/// `offsets`.
///
/// Errors: `INVALID_ARGUMENT`, naming the field; `UNSUPPORTED_JOB` for too many frames; `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_pack_async(batch: *const gridz_batch) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises of the comment above.
        let (packing, stream) = unsafe {
            let c = ptr::read(batch)?;
            (packing(&c, c.n.saturating_add(1))?, ptr::stream(c.stream))
        };
        device::pack_async(&packing, stream, &Context::default())
    })
}

/// Enqueues on a CUDA stream the unpacking of packed frames into slots for
/// `gridz_decompress_async`.
///
/// This is the inverse of `gridz_pack_async`, with the same rules for memory. Reads `n`, `packed`,
/// `packed_bytes`, `offsets`, `frame_bytes`, `frame_stride` and `stream`. Writes `frames`: frame i
/// has `frame_bytes[i]` bytes, is at `packed + offsets[i]` and is copied to slot i. `offsets` needs
/// only `n` elements here.
///
/// Offsets and lengths may be untrusted. `lengths[i]`, in GPU memory, is set to the length of frame
/// i. It is set to 0 if the frame does not begin at a multiple of 16, is not wholly inside the
/// `packed_bytes` bytes of `packed` (a multiple of 16), or is longer than `frame_stride`. Pass
/// `lengths` as `frame_bytes` to `gridz_decompress_async`, which reports a frame of length 0 as
/// truncated.
///
/// Errors: those of `gridz_pack_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_unpack_async(batch: *const gridz_batch, lengths: *mut usize) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises of the comment above.
        let (packing, stream) = unsafe {
            let c = ptr::read(batch)?;
            let lengths = ptr::device_memory("lengths", lengths.cast(), (c.n as u64).saturating_mul(8))?;
            (Packing { lengths: Some(lengths), ..packing(&c, c.n)? }, ptr::stream(c.stream))
        };
        device::unpack_async(&packing, stream, &Context::default())
    })
}

impl Batch {
    fn of_device(&self) -> device::Batch {
        device::Batch {
            array: self.array,
            n_chunks: self.c.n,
            array_stride: self.c.array_stride as u64,
            frame_stride: self.c.frame_stride as u64,
        }
    }

    /// Prepares the decompression of whole arrays, or of the region of each.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    unsafe fn prepare_decompression(&self, request: &gridz::Request) -> Result<PreparedBatch> {
        let (batch, rank) = (self.of_device(), self.array.shape().rank());
        if self.c.start.is_null() && self.c.count.is_null() {
            return batch.prepare(request);
        }
        // SAFETY: the caller's promise.
        let [start, count] = unsafe {
            [ptr::extents("start", self.c.start, rank.into())?, ptr::extents("count", self.c.count, rank.into())?]
        };
        batch.prepare_region(request, &start[..rank.into()], &count[..rank.into()])
    }

    /// The GPU memory of arrays and frames.
    ///
    /// # Safety
    /// The caller's promise, as [`gridz_compress_async`] states it.
    unsafe fn memory<'a>(&self, prepared: &PreparedBatch) -> Result<BatchMemory<'a>> {
        let c = &self.c;
        let (array_span, frame_span) = prepared.spans()?;
        // SAFETY: the caller's promise.
        unsafe {
            Ok(BatchMemory {
                arrays: ptr::device_memory("arrays", c.arrays, array_span)?,
                frames: ptr::device_memory("frames", c.frames, frame_span)?,
                frame_bytes: ptr::device_memory("frame_bytes", c.frame_bytes.cast(), 8 * c.n as u64)?,
                workspace: ptr::optional_device_memory("workspace", c.workspace, c.workspace_bytes)?,
            })
        }
    }
}

/// Frames in slots, and their packed form.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it, until the stream has completed the work that uses
/// it.
unsafe fn packing<'a>(c: &gridz_batch, n_offsets: usize) -> Result<Packing<'a>> {
    let (n, stride) = (c.n as u64, c.frame_stride as u64);
    // Without frames, no pointer is used.
    let n_offsets = if n == 0 { 0 } else { n_offsets };
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Packing {
            n_frames: n,
            slots: ptr::device_memory("frames", c.frames, n.saturating_mul(stride))?,
            slot_stride: stride,
            packed: ptr::device_memory("packed", c.packed, c.packed_bytes as u64)?,
            offsets: ptr::device_memory("offsets", c.offsets.cast(), (n_offsets as u64).saturating_mul(8))?,
            frame_bytes: ptr::device_memory("frame_bytes", c.frame_bytes.cast(), n.saturating_mul(8))?,
            lengths: None,
        })
    }
}
