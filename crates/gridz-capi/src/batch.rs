//! The functions of `gridz.h` that only give work to a stream of a GPU.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::api::{Options, read_both};
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_options};
use gridz::device::{self, Batch, BatchMemory, Direction, PreparedBatch};
use gridz_codecs::error::Result;

/// Finds the GPU memory that a call of `gridz_compress_async`, `gridz_decompress_async` or
/// `gridz_decompress_region_async` needs as workspace.
///
/// `*bytes` becomes what `n_chunks` arrays like `array` need with these `options` on the GPU of
/// `stream`, the largest of all these; it may differ between GPU models. The kernels of both
/// directions are loaded into the stream's CUDA context, which takes a moment the first time.
/// Afterwards those calls with such arrays do nothing but give work to a stream of that context. Call
/// it before a stream is captured into a CUDA graph. `stream` NULL is the default stream of the
/// current CUDA context, or if there is none, of the GPU that `gridz_compress` would choose.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for too many chunks and for what has no kernels
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (bytes, (array, options), stream) =
            unsafe { (Out::new("bytes", bytes)?, read_both(array, options)?, ptr::stream(stream)) };
        let n_bytes = options.with_context(|context| {
            device::async_workspace_bytes(&array, n_chunks, &options.request, stream, context)
        })?;
        bytes.write(n_bytes as usize);
        Ok(())
    })
}

/// Gives the compression of `n_chunks` arrays of one type and shape to a stream of an NVIDIA GPU.
///
/// Returns at once: once `gridz_async_workspace_bytes` has been called for such arrays, it never waits
/// for the GPU nor reads its memory (else the first call loads the kernels, which does). What can be
/// wrong with the arguments is told by the return value; an error of the GPU itself shows in the calls
/// that wait for the stream. When the stream has done the work, frame i is at `dst + i * dst_stride` and its length
/// in bytes is `frame_bytes[i]`. What follows it in its slot is unspecified. The frames are those of
/// `gridz_compress`: any machine decodes them.
///
/// All memory is the GPU's, or managed or pinned memory that it can use, and none of it may overlap.
/// It is used until the stream has done the work; `array` and `options` are read during the call
/// only.
///
/// - `src`: array i is at `src + i * src_stride`. Arrays that the codec looks at as numbers (`ndzip`
///   at `float` and `double`, `lorenzo` at all but complex ones) begin at multiples of their element
///   size, which divides `src_stride`. With one chunk `src_stride` means nothing; else it is at least
///   the size of an array. Fastest if all rows begin at multiples of 16 bytes.
/// - `dst`: slots for frames, aligned to 16 bytes. `dst_stride` is a multiple of 16 and, also with
///   one chunk, at least the bound of `gridz_compress_bound`. The last slot needs that many bytes too.
/// - `frame_bytes`: `n_chunks` lengths, in GPU memory, aligned to 8 bytes.
/// - `workspace`: `workspace_bytes` bytes of GPU memory, at least what `gridz_async_workspace_bytes`
///   says, aligned to 8 bytes, better 256. Calls on different streams need one each; calls on one
///   stream may share it. With NULL and 0 gridz takes it from a stream-ordered memory pool of its
///   own, of which it keeps what `gridz_release_caches` says. Give one where
///   the stream is being captured into a CUDA graph; then the graph may be launched again with
///   other contents of `src`.
/// - `stream`: a `CUstream` or `cudaStream_t`. NULL is the legacy default stream, of the current CUDA
///   context or, if there is none, that of `dst`.
///
/// 0 chunks are nothing to do, whatever the pointers are. Elements that the codec cannot take are
/// stored, as by `gridz_compress`.
///
/// Errors: `INVALID_ARGUMENT` naming the argument, `UNSUPPORTED_JOB` for too many chunks (2^31, or
/// fewer that have more than 16 KiB each) and for `lorenzo` at level 3, which
/// only `gridz_compress` makes, `OUT_OF_MEMORY`, `DEVICE` also with `GRIDZ_BACKEND=cpu`: there is no way
/// back to the CPU.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (array, options) = unsafe { read_both(array, options)? };
        let (array_stride, frame_stride) = (src_stride as u64, dst_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare(&options.request)?;
        let (array_span, frame_span) = batch.spans(Direction::Compress)?;
        // SAFETY: the promises that the comment above asks of the caller.
        let (memory, stream) = unsafe {
            let memory = BatchMemory {
                arrays: ptr::device_memory("src", src, array_span)?,
                frames: ptr::device_memory("dst", dst, frame_span)?,
                frame_bytes: ptr::device_memory("frame_bytes", frame_bytes.cast(), 8 * n_chunks as u64)?,
                workspace: ptr::optional_device_memory("workspace", workspace, workspace_bytes)?,
            };
            (memory, ptr::stream(stream))
        };
        options.with_context(|context| batch.compress(&memory, stream, context))
    })
}

/// Gives the decompression of `n_chunks` frames of one type and shape to a stream of an NVIDIA GPU.
///
/// The counterpart of `gridz_compress_async`, and all it says of memory, alignment, `workspace` and
/// `stream` holds here. Frame i is at `frames + i * frame_stride` and has `frame_bytes[i]` bytes;
/// `frame_stride` is a multiple of 16 and at least the bound of `gridz_compress_bound`; the last slot
/// has so many bytes too, since a little of a slot is read even if its frame is cut short. Array i goes
/// to `dst + i * dst_stride`, in the byte order that `array` says. `frames` and `frame_bytes` are
/// only read, `frame_bytes` when the stream comes to this work: it may be what `gridz_compress_async`
/// writes there before.
///
/// When the stream has done the work, `statuses[i]` is `GRIDZ_OK`, `GRIDZ_ERROR_CORRUPT` or
/// `GRIDZ_ERROR_TRUNCATED`; `statuses` has `n_chunks` elements in GPU memory, aligned to 4 bytes. The
/// contents of an array whose status is an error are unspecified; the other arrays are right. A frame
/// counts as corrupt also if it is sound, but not one that `gridz_compress_async` makes with this
/// `array` and these `options`: here, unlike in `gridz_decompress`, the codec matters, so name it in
/// the options where frames are kept for longer (the default may change with a later version). Frames
/// of other arrays, codecs or versions are for `gridz_decompress`, and so are frames that were moved
/// together: here each has its slot. Any bytes may be passed as frames. `GRIDZ_FLAG_SKIP_CHECKSUM` is heeded.
///
/// Fastest if all rows of the arrays begin at multiples of 8 bytes, or of 32 where they can.
///
/// Errors: as `gridz_compress_async`. What is wrong with a frame is no error of the call.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (array, options) = unsafe { read_both(array, options)? };
        let (array_stride, frame_stride) = (dst_stride as u64, frame_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare(&options.request)?;
        // SAFETY: the promises that the comment above asks of the caller.
        unsafe {
            let (frames, workspace) = ((frames, frame_bytes), (workspace, workspace_bytes));
            decompress(&batch, n_chunks, frames, (dst, statuses), workspace, stream, &options)
        }
    })
}

/// Gives the decompression of a region of `n_chunks` frames of one type and shape to a stream of an NVIDIA GPU: along each
/// axis of `array` `count` elements from `start` on.
///
/// As `gridz_decompress_async`, and all it says holds here, but region i goes to `dst + i * dst_stride`, its elements one
/// behind the other in C order, and `dst_stride` is, with more than one chunk, at least the size of a region. `start` and
/// `count` have `array->rank` numbers in elements, slowest-varying axis first, and are read during the call only.
///
/// In one launch the blocks that the region touches are decoded, no others, and what is compared with checksums is what
/// `gridz_decompress_region` says: a frame may be damaged elsewhere and its status `GRIDZ_OK`.
///
/// Errors: as `gridz_decompress_async`; `INVALID_ARGUMENT` for a region that is not one of the array.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (array, options) = unsafe { read_both(array, options)? };
        let rank = array.shape().rank();
        // SAFETY: the same promises.
        let [start, count] =
            unsafe { [ptr::extents("start", start, rank.into())?, ptr::extents("count", count, rank.into())?] };
        let [start, count] = [&start[..rank.into()], &count[..rank.into()]];
        let (array_stride, frame_stride) = (dst_stride as u64, frame_stride as u64);
        let batch = Batch { array, n_chunks, array_stride, frame_stride };
        let batch = batch.prepare_region(&options.request, start, count)?;
        // SAFETY: the promises that the comment above asks of the caller.
        unsafe {
            let (frames, workspace) = ((frames, frame_bytes), (workspace, workspace_bytes));
            decompress(&batch, n_chunks, frames, (dst, statuses), workspace, stream, &options)
        }
    })
}

/// Gives a decompression to the stream: of frames and their lengths, to arrays and statuses.
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
    // SAFETY: the same promise.
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
    options.with_context(|context| batch.decompress(&memory, statuses, options.verify, stream, context))
}
