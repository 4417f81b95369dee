//! `gridz_cuda.h`: asynchronous functions, which only enqueue work on a CUDA stream.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::{Options, read_both};
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_options};
use gridz::Context;
use gridz::device::{self, Batch, BatchMemory, Direction, Packing, PreparedBatch};
use gridz_codecs::error::Result;

/// Computes the size of the GPU workspace that `gridz_compress_async`, `gridz_decompress_async` and
/// `gridz_decompress_region_async` need.
///
/// Sets `*bytes` to the largest workspace that any of these calls needs for `n_chunks` arrays like
/// `array` with these `options`, on the GPU of `stream`. It may differ between GPU models. The call
/// also loads the kernels of both directions into the stream's CUDA context, which takes a moment
/// the first time. After that, such calls only enqueue work on a stream of that context. Call this
/// function before a stream is captured into a CUDA graph. NULL for `stream` = the default stream
/// of the current CUDA context or, without one, of the GPU that `gridz_compress` would choose.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for too many chunks and for codecs without kernels
/// (`lorenzo` at level 3), `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_async_workspace_bytes(
    array: *const gridz_array,
    n_chunks: usize,
    stream: *mut c_void,
    options: *const gridz_options,
    bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (bytes, (array, options), stream) =
            unsafe { (Out::new("bytes", bytes)?, read_both(array, options)?, ptr::stream(stream)) };
        let n_bytes = device::async_workspace_bytes(&array, n_chunks, &options.request, stream, options.context)?;
        bytes.write(n_bytes as usize);
        Ok(())
    })
}

/// Enqueues the compression of `n_chunks` arrays of one type and shape on a CUDA stream.
///
/// The call returns at once. After `gridz_async_workspace_bytes` for such arrays it never waits for
/// the GPU and never reads GPU memory. Without that, the first call loads the kernels, which may
/// wait. The return value reports invalid arguments. An error of the GPU itself shows up in the
/// calls that wait for the stream.
///
/// Once the stream has completed the work, frame i is at `dst + i * dst_stride` and its length in
/// bytes is `frame_bytes[i]`. The rest of its slot is unspecified. The frames are those of
/// `gridz_compress`: any machine decodes them.
///
/// All buffers are GPU memory, or managed or pinned memory that the GPU can access. They must not
/// overlap and must stay valid until the stream has completed the work. `array` and `options` are
/// read during the call only.
///
/// - `src`: array i is at `src + i * src_stride`. With more than one chunk, `src_stride` is at
///   least the size of an array; with one chunk it is ignored. Arrays whose elements the codec
///   interprets (`ndzip`: `float` and `double`; `lorenzo`: all numbers) must be aligned
///   to their element size, and so must `src_stride`. Fastest if all rows begin at multiples of 16
///   bytes.
/// - `dst`: slots for frames, aligned to 16 bytes. `dst_stride` is a multiple of 16 and, also with
///   one chunk, at least the bound of `gridz_compress_bound`. The last slot needs that many bytes
///   too.
/// - `frame_bytes`: `n_chunks` lengths, in GPU memory, aligned to 8 bytes.
/// - `workspace`: `workspace_bytes` bytes of GPU memory, at least the size that
///   `gridz_async_workspace_bytes` reports. Aligned to 8 bytes, preferably 256. Calls on different
///   streams need separate workspaces; calls on one stream may share one. With NULL and 0 gridz
///   allocates it from its own stream-ordered memory pool, which `gridz_release_caches` describes.
///   Pass a workspace if the stream is being captured into a CUDA graph. The graph can then be
///   launched again with other contents of `src`.
/// - `stream`: a `CUstream` or `cudaStream_t`. NULL = the legacy default stream of the current CUDA
///   context or, without one, of the context that owns `dst`.
///
/// With 0 chunks the call does nothing, whatever the pointers are. Arrays of a type that the codec
/// does not encode are stored, as by `gridz_compress`.
///
/// Errors: `INVALID_ARGUMENT`, naming the argument; `UNSUPPORTED_JOB` for too many chunks (2^31, or
/// fewer if chunks exceed 16 KiB) and for `lorenzo` at level 3, which only `gridz_compress`
/// supports; `OUT_OF_MEMORY`; `DEVICE`, also with `GRIDZ_BACKEND=cpu`, since there is no fallback
/// to the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_async(
    array: *const gridz_array,
    n_chunks: usize,
    src: *const c_void,
    src_stride: usize,
    dst: *mut c_void,
    dst_stride: usize,
    frame_bytes: *mut usize,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, options) = unsafe { read_both(array, options)? };
        let (array_stride, frame_stride) = (src_stride as u64, dst_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare(&options.request)?;
        let (array_span, frame_span) = batch.spans(Direction::Compress)?;
        // SAFETY: the caller keeps the promises of the comment above.
        let (memory, stream) = unsafe {
            let memory = BatchMemory {
                arrays: ptr::device_memory("src", src, array_span)?,
                frames: ptr::device_memory("dst", dst, frame_span)?,
                frame_bytes: ptr::device_memory("frame_bytes", frame_bytes.cast(), 8 * n_chunks as u64)?,
                workspace: ptr::optional_device_memory("workspace", workspace, workspace_bytes)?,
            };
            (memory, ptr::stream(stream))
        };
        batch.compress(&memory, stream, options.context)
    })
}

/// Enqueues the decompression of `n_chunks` frames of one type and shape on a CUDA stream.
///
/// This is the counterpart of `gridz_compress_async`. Its rules for memory, alignment, `workspace`
/// and `stream` apply here too.
///
/// - `frames`: frame i is at `frames + i * frame_stride` and has `frame_bytes[i]` bytes.
///   `frame_stride` is a multiple of 16 and at least the bound of `gridz_compress_bound`. The last
///   slot needs that many bytes too, because a few bytes of a slot are read even if its frame is
///   truncated.
/// - `frame_bytes`: read when the stream reaches this work. So it may be written by an earlier
///   `gridz_compress_async` on the stream. `frames` and `frame_bytes` are never written.
/// - `dst`: array i is written to `dst + i * dst_stride`, in the byte order of `array`.
/// - `statuses`: `n_chunks` elements in GPU memory, aligned to 4 bytes.
///
/// Once the stream has completed the work, `statuses[i]` is `GRIDZ_OK`, `GRIDZ_ERROR_CORRUPT` or
/// `GRIDZ_ERROR_TRUNCATED`. After an error the contents of array i are unspecified; the other
/// arrays are valid.
///
/// A valid frame still counts as corrupt if `gridz_compress_async` would not make such a frame with
/// this `array` and these `options`. Unlike in `gridz_decompress`, the codec matters here. Name it
/// in the options if frames are stored for longer, because the default may change in a later
/// version. Use `gridz_decompress` for frames of other arrays, codecs or versions. Also use it for
/// packed frames, because this function expects each frame in its slot.
///
/// Untrusted input is safe. `GRIDZ_FLAG_SKIP_CHECKSUM` is respected. Fastest if all rows of the
/// arrays begin at multiples of 8 bytes, or of 32 where possible.
///
/// Errors: those of `gridz_compress_async`. A bad frame is not an error of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_async(
    array: *const gridz_array,
    n_chunks: usize,
    frames: *const c_void,
    frame_stride: usize,
    frame_bytes: *const usize,
    dst: *mut c_void,
    dst_stride: usize,
    statuses: *mut gridz_status,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, options) = unsafe { read_both(array, options)? };
        let (array_stride, frame_stride) = (dst_stride as u64, frame_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare(&options.request)?;
        // SAFETY: the caller keeps the promises of the comment above.
        unsafe {
            let (frames, workspace) = ((frames, frame_bytes), (workspace, workspace_bytes));
            decompress(&batch, n_chunks, frames, (dst, statuses), workspace, stream, &options)
        }
    })
}

/// Enqueues the decompression of a region of each of `n_chunks` frames of one type and shape on a
/// CUDA stream: `count` elements from `start` on, along each axis of `array`.
///
/// All rules of `gridz_decompress_async` apply. Region i is written to `dst + i * dst_stride`, its
/// elements contiguous in C order. With more than one chunk, `dst_stride` is at least the size of a
/// region. `start` and `count` have `array->rank` numbers in elements, slowest-varying axis first.
/// They are read during the call only.
///
/// One launch decodes only the blocks that the region touches. It verifies the checksums that
/// `gridz_decompress_region` lists. So a frame may be damaged elsewhere although its status is
/// `GRIDZ_OK`.
///
/// Errors: those of `gridz_decompress_async`; `INVALID_ARGUMENT` if the region is not inside the
/// array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_region_async(
    array: *const gridz_array,
    n_chunks: usize,
    frames: *const c_void,
    frame_stride: usize,
    frame_bytes: *const usize,
    start: *const u64,
    count: *const u64,
    dst: *mut c_void,
    dst_stride: usize,
    statuses: *mut gridz_status,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, options) = unsafe { read_both(array, options)? };
        let rank = array.shape().rank();
        // SAFETY: the caller keeps the same promises.
        let [start, count] =
            unsafe { [ptr::extents("start", start, rank.into())?, ptr::extents("count", count, rank.into())?] };
        let [start, count] = [&start[..rank.into()], &count[..rank.into()]];
        let (array_stride, frame_stride) = (dst_stride as u64, frame_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare_region(&options.request, start, count)?;
        // SAFETY: the caller keeps the promises of the comment above.
        unsafe {
            let (frames, workspace) = ((frames, frame_bytes), (workspace, workspace_bytes));
            decompress(&batch, n_chunks, frames, (dst, statuses), workspace, stream, &options)
        }
    })
}

/// Enqueues a decompression of frames of given lengths to arrays and statuses.
///
/// # Safety
/// The caller's promise, as [`gridz_decompress_async`] states it.
unsafe fn decompress(
    batch: &PreparedBatch,
    n_chunks: usize,
    (frames, frame_bytes): (*const c_void, *const usize),
    (dst, statuses): (*mut c_void, *mut gridz_status),
    (workspace, workspace_bytes): (*mut c_void, usize),
    stream: *mut c_void,
    options: &Options,
) -> Result<()> {
    let (array_span, frame_span) = batch.spans(Direction::Decompress)?;
    // SAFETY: the caller's promise.
    let (memory, statuses, stream) = unsafe {
        let memory = BatchMemory {
            frames: ptr::device_memory("frames", frames, frame_span)?,
            frame_bytes: ptr::device_memory("frame_bytes", frame_bytes.cast(), 8 * n_chunks as u64)?,
            arrays: ptr::device_memory("dst", dst, array_span)?,
            workspace: ptr::optional_device_memory("workspace", workspace, workspace_bytes)?,
        };
        let statuses = ptr::device_memory("statuses", statuses.cast(), 4 * n_chunks as u64)?;
        (memory, statuses, ptr::stream(stream))
    };
    batch.decompress(&memory, statuses, options.verify, stream, options.context)
}

/// Enqueues on a CUDA stream the packing of frames that `gridz_compress_async` writes to slots.
/// Packed frames can be sent, or copied to the host, without unused bytes between them.
///
/// Frame i is at `frames + i * frame_stride`, has `frame_bytes[i]` bytes, and is copied to offset
/// `offsets[i]` of `packed`: the first multiple of 16 after the previous frame. `offsets[n_frames]`
/// is the end of the last frame, rounded up in the same way. Gaps between frames are zeroed. Frames
/// that do not fit in the `packed_capacity` bytes of `packed` are left out. `offsets[n_frames]` is
/// then larger than `packed_capacity`. A length above `frame_stride` is invalid and counts as 0.
///
/// The memory rules of `gridz_compress_async` apply: GPU memory, no overlaps, valid until the
/// stream has completed the work. `frames` and `packed` are aligned to 16 bytes, and `frame_stride`
/// is a multiple of 16. The last slot has `frame_stride` bytes too. `frame_bytes` has `n_frames`
/// lengths and `offsets` has `n_frames` + 1 elements; both are aligned to 8 bytes, and may be
/// pinned host memory. Only the first call of a process may wait for the GPU. With 0 frames the
/// call does nothing and does not write `offsets`.
///
/// Errors: `INVALID_ARGUMENT`, naming the argument; `UNSUPPORTED_JOB` for too many frames;
/// `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_pack_async(
    n_frames: usize,
    frames: *const c_void,
    frame_stride: usize,
    frame_bytes: *const usize,
    packed: *mut c_void,
    packed_capacity: usize,
    offsets: *mut usize,
    stream: *mut c_void,
) -> gridz_status {
    guard(|| {
        let (slots, packed) = ((frames, frame_stride), (packed.cast_const(), packed_capacity));
        let offsets = (offsets.cast_const(), n_frames.saturating_add(1));
        // SAFETY: the caller keeps the promises of the comment above.
        let (packing, stream) =
            unsafe { (packing(n_frames, slots, frame_bytes, packed, offsets)?, ptr::stream(stream)) };
        device::pack_async(&packing, stream, &Context::default())
    })
}

/// Enqueues on a CUDA stream the unpacking of packed frames into slots for
/// `gridz_decompress_async`.
///
/// This is the inverse of `gridz_pack_async`, with the same rules for memory. Frame i has
/// `frame_bytes[i]` bytes, is at `packed + offsets[i]` and is copied to `frames + i *
/// frame_stride`. `offsets` needs only `n_frames` elements here.
///
/// Offsets and lengths may be untrusted. `lengths[i]` is set to the length of frame i. It is set to
/// 0 if the frame does not begin at a multiple of 16, is not wholly inside the `packed_bytes` bytes
/// of `packed` (a multiple of 16), or is longer than `frame_stride`. Pass `lengths` to
/// `gridz_decompress_async`, which reports a frame of length 0 as truncated.
///
/// Errors: those of `gridz_pack_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_unpack_async(
    n_frames: usize,
    packed: *const c_void,
    packed_bytes: usize,
    offsets: *const usize,
    frame_bytes: *const usize,
    frames: *mut c_void,
    frame_stride: usize,
    lengths: *mut usize,
    stream: *mut c_void,
) -> gridz_status {
    guard(|| {
        let (slots, packed) = ((frames.cast_const(), frame_stride), (packed, packed_bytes));
        // SAFETY: the caller keeps the promises of the comment above.
        let (packing, stream) = unsafe {
            let packing = packing(n_frames, slots, frame_bytes, packed, (offsets, n_frames))?;
            let lengths = ptr::device_memory("lengths", lengths.cast(), (n_frames as u64).saturating_mul(8))?;
            (Packing { lengths: Some(lengths), ..packing }, ptr::stream(stream))
        };
        device::unpack_async(&packing, stream, &Context::default())
    })
}

/// Frames in slots, and their packed form.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it, until the stream has completed the work that uses
/// it.
unsafe fn packing<'a>(
    n_frames: usize,
    (slots, stride): (*const c_void, usize),
    frame_bytes: *const usize,
    (packed, packed_bytes): (*const c_void, usize),
    (offsets, n_offsets): (*const usize, usize),
) -> Result<Packing<'a>> {
    let n = n_frames as u64;
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Packing {
            n_frames: n,
            slots: ptr::device_memory("frames", slots, n.saturating_mul(stride as u64))?,
            slot_stride: stride as u64,
            packed: ptr::device_memory("packed", packed, packed_bytes as u64)?,
            offsets: ptr::device_memory("offsets", offsets.cast(), (n_offsets as u64).saturating_mul(8))?,
            frame_bytes: ptr::device_memory("frame_bytes", frame_bytes.cast(), n.saturating_mul(8))?,
            lengths: None,
        })
    }
}
