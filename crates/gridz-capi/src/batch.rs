//! `gridz_batch.h`: many arrays at once, with packed frames.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::{Options, deliver, read_array, read_both};
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_options};
use gridz::device::{self, ChunkArray};

/// Computes the destination size that is always enough for `gridz_compress_chunks`, whatever the
/// values.
///
/// Sets `*bound` to `n_chunks` times the size of an array plus a header, rounded up to a multiple
/// of 16.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_packed_bound(
    array: *const gridz_array,
    n_chunks: usize,
    bound: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (bound, array) = unsafe { (Out::new("bound", bound)?, read_array(array)?) };
        bound.write(device::packed_bound(&array, n_chunks)? as usize);
        Ok(())
    })
}

/// Compresses `n_chunks` arrays of one type and shape, in parallel, into packed frames.
///
/// Array i is at `src + i * src_stride`. With more than one chunk, `src_stride` is at least the
/// size of an array; with one chunk it is ignored.
///
/// Packed frames are the frames of `gridz_compress`, one after the other from the start of `dst`.
/// Each begins at the first multiple of 16 bytes after the previous one, with zeros between them.
/// Frame i has `frame_bytes[i]` bytes. Its offset is the sum of the preceding lengths, each rounded
/// up to a multiple of 16. `*dst_bytes` is the end of the last frame, rounded up in the same way.
///
/// `dst` has `dst_capacity` bytes. `gridz_packed_bound` returns a size that is always enough; less
/// is enough if the frames fit. After an error the contents of `dst` and `frame_bytes` are
/// unspecified.
///
/// `src`, `dst` or both may be memory of an NVIDIA GPU, or pinned memory. `frame_bytes` is in host
/// memory. The caller must first wait for all work of its streams on this memory. The frames are
/// complete when the call returns.
///
/// With `GRIDZ_BACKEND=auto` a GPU processes arrays in GPU memory. If the program uses a GPU
/// anyway, it also processes arrays when both sides are pinned. Transfers and kernels overlap, on
/// streams that gridz owns, so pinned memory is transferred at bus speed. Threads of the context
/// copy memory that is not pinned. On the CPU each thread compresses one chunk at a time.
///
/// Errors: `INVALID_ARGUMENT`, `DST_TOO_SMALL` with the bound in `*dst_bytes`, `UNSUPPORTED_JOB`,
/// `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_chunks(
    array: *const gridz_array,
    n_chunks: usize,
    src: *const c_void,
    src_stride: usize,
    dst: *mut c_void,
    dst_capacity: usize,
    frame_bytes: *mut usize,
    dst_bytes: *mut usize,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, (array, options)) =
            unsafe { (Out::new("dst_bytes", dst_bytes)?, read_both(array, options)?) };
        let chunks = ChunkArray { array, n_chunks, stride: src_stride as u64 };
        let src_bytes = chunks.span("src_stride")? as usize;
        // SAFETY: the same promises, for `n_chunks` arrays.
        let ((src, dst), lengths) = unsafe {
            let buffers = ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))?;
            (buffers, ptr::lengths_mut("frame_bytes", frame_bytes, n_chunks)?)
        };
        let request = &options.request;
        let end = device::compress_chunks(&chunks, request, src, dst, lengths, options.context);
        deliver(end.map(|end| end as usize), n_bytes)
    })
}

/// Decompresses `n_chunks` packed frames of arrays of one type and shape, in parallel.
///
/// The frames are packed as `gridz_compress_chunks` writes them. Frame i has `frame_bytes[i]` bytes
/// and begins at the first multiple of 16 bytes after the previous one. `frames` has `frames_bytes`
/// bytes, up to a multiple of 16 after the last frame. Array i is written to `dst + i *
/// dst_stride`, in the byte order of `array`. Frames of different codecs may be mixed; frames of
/// one codec are fastest. Everything else is as for `gridz_compress_chunks` and `gridz_decompress`.
///
/// Errors: those of `gridz_decompress`, for the first frame that cannot be decompressed;
/// `gridz_last_error` contains its number. `INVALID_ARGUMENT` also if a frame is of another array
/// than `array`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_chunks(
    array: *const gridz_array,
    n_chunks: usize,
    frames: *const c_void,
    frames_bytes: usize,
    frame_bytes: *const usize,
    dst: *mut c_void,
    dst_stride: usize,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, options) = unsafe { (read_array(array)?, Options::read(options, None)?) };
        let chunks = ChunkArray { array, n_chunks, stride: dst_stride as u64 };
        let dst_bytes = chunks.span("dst_stride")? as usize;
        // SAFETY: the same promises, for `n_chunks` arrays.
        let ((frames, dst), lengths) = unsafe {
            let buffers = ptr::source_and_destination(("frames", frames, frames_bytes), ("dst", dst, dst_bytes))?;
            (buffers, ptr::lengths("frame_bytes", frame_bytes, n_chunks)?)
        };
        device::decompress_chunks(&chunks, frames, lengths, dst, options.verify, options.context)
    })
}
