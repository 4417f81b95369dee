//! The functions of `gridz.h` for many chunks at once, whose frames are packed.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::engine::device::{self, Chunks};
use crate::ffi::api::{Options, deliver, read_array, read_both};
use crate::ffi::guard::guard;
use crate::ffi::ptr::{self, Out};
use crate::ffi::status::gridz_status;
use crate::ffi::types::{gridz_array, gridz_options};

/// Finds the destination size that is enough for `gridz_compress_chunks`, whatever the values are: `*bound` becomes
/// `n_chunks` times the bytes of an array and of a header, rounded up to a multiple of 16.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_packed_bound(
    array: *const gridz_array,
    n_chunks: usize,
    bound: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (bound, array) = unsafe { (Out::new("bound", bound)?, read_array(array)?) };
        bound.write(device::packed_bound(&array, n_chunks)? as usize);
        Ok(())
    })
}

/// Compresses `n_chunks` arrays of one type and shape, many at once, into packed frames.
///
/// Array i is at `src + i * src_stride`; with one chunk `src_stride` means nothing, else it is at least the size of an array.
/// The frames are those of `gridz_compress`, one after the other from the start of `dst` on: each begins at the first
/// multiple of 16 bytes behind the one before it, with zeros between them. Frame i has `frame_bytes[i]` bytes, so its place
/// is the sum of the lengths before it, each rounded up to a multiple of 16; `*dst_bytes` is where the last one ends,
/// rounded up likewise. `dst` has `dst_capacity` bytes: `gridz_packed_bound` says how many are always enough, and fewer are
/// enough if the frames fit. After an error what is in `dst` and `frame_bytes` is unspecified.
///
/// `src`, `dst` or both may be memory of an NVIDIA GPU, or pinned memory; `frame_bytes` is the host's. Copies to and from the
/// GPU and kernels work at the same time, on streams of gridz, so pinned memory is as fast as the bus; memory that is not
/// pinned is copied by the context's threads. What the program's streams do with the memory must be done before the
/// call; the frames are there when it returns. On the CPU each thread compresses a chunk.
///
/// Errors: `INVALID_ARGUMENT`, `DST_TOO_SMALL` with the bound in `*dst_bytes`, `UNSUPPORTED_JOB`, `OUT_OF_MEMORY`,
/// `DEVICE`.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (n_bytes, (array, options)) = unsafe { (Out::new("dst_bytes", dst_bytes)?, read_both(array, options)?) };
        let chunks = Chunks { array, n_chunks, stride: src_stride as u64 };
        let src_bytes = chunks.span("src_stride")? as usize;
        // SAFETY: the same promises, for as many arrays.
        let ((src, dst), lengths) = unsafe {
            let buffers = ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))?;
            (buffers, ptr::lengths_mut("frame_bytes", frame_bytes, n_chunks)?)
        };
        let request = &options.request;
        let end = options
            .with_context(|context| device::compress_chunks(&chunks, request, src, dst, lengths, context));
        deliver(end.map(|end| end as usize), n_bytes)
    })
}

/// Decompresses `n_chunks` packed frames of arrays of one type and shape, many at once.
///
/// The frames are where `gridz_compress_chunks` leaves them: frame i has `frame_bytes[i]` bytes, and begins at the first
/// multiple of 16 bytes behind the one before it; `frames` has `frames_bytes` bytes, up to a multiple of 16 behind the
/// last frame. Array i goes to `dst + i * dst_stride`, in the byte order that `array` says. The frames may be
/// of any codec, and all is fastest if they are of one. All else is as for `gridz_compress_chunks` and `gridz_decompress`.
///
/// Errors: those of `gridz_decompress`, about the first frame that cannot be decompressed, whose number is in
/// `gridz_last_error`; `INVALID_ARGUMENT` also if a frame is of another array than `array`.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (array, options) = unsafe { (read_array(array)?, Options::read(options, None)?) };
        let chunks = Chunks { array, n_chunks, stride: dst_stride as u64 };
        let dst_bytes = chunks.span("dst_stride")? as usize;
        // SAFETY: the same promises, for as many arrays.
        let ((frames, dst), lengths) = unsafe {
            let buffers = ptr::source_and_destination(("frames", frames, frames_bytes), ("dst", dst, dst_bytes))?;
            (buffers, ptr::lengths("frame_bytes", frame_bytes, n_chunks)?)
        };
        options.with_context(|context| {
            device::decompress_chunks(&chunks, frames, lengths, dst, options.verify, context)
        })
    })
}
