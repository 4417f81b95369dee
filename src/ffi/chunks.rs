//! The functions of `gridz.h` for many chunks at once, whose frames are packed.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::engine::Context;
use crate::engine::device::{self, Chunks, Packing};
use crate::error::Result;
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
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
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
/// pinned is copied by the context's threads. With `GRIDZ_BACKEND=auto` a GPU does what is in the memory of one, and
/// in programs that use it anyway what is in pinned memory on both sides. What the program's streams do with the memory must be done before the
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
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, (array, options)) =
            unsafe { (Out::new("dst_bytes", dst_bytes)?, read_both(array, options)?) };
        let chunks = Chunks { array, n_chunks, stride: src_stride as u64 };
        let src_bytes = chunks.span("src_stride")? as usize;
        // SAFETY: the same promises, for as many arrays.
        let ((src, dst), lengths) = unsafe {
            let buffers = ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))?;
            (buffers, ptr::lengths_mut("frame_bytes", frame_bytes, n_chunks)?)
        };
        let request = &options.request;
        let end =
            options.with_context(|context| device::compress_chunks(&chunks, request, src, dst, lengths, context));
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
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
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

/// Gives work to a stream of an NVIDIA GPU that moves frames together, as `gridz_compress_async` has made them: to send
/// them, or copy them to the host, with not a byte more than there is.
///
/// Frame i is at `frames + i * frame_stride`, has `frame_bytes[i]` bytes, and goes to `packed + offsets[i]`: the first
/// multiple of 16 behind the frame before it; `offsets[n_frames]` is where the last one ends, rounded up likewise. What is
/// between frames becomes zeros. Frames that have no room in the `packed_capacity` bytes of `packed` are left out; then
/// `offsets[n_frames]` is larger than that. A length above `frame_stride` is no frame's, and counts as 0.
///
/// All memory is as for `gridz_compress_async`: of the GPU, apart from each other, used until the stream has done the work.
/// `frames` and `packed` are aligned to 16 bytes, and `frame_stride` is a multiple of that, which the last slot has too; `frame_bytes`, with `n_frames`
/// lengths, and `offsets`, with `n_frames` + 1, to 8. They may be pinned memory of the host too. Never waits for the GPU,
/// but for the first call of a process. 0 frames are nothing to do: then `offsets` is not written.
///
/// Errors: `INVALID_ARGUMENT` naming the argument, `UNSUPPORTED_JOB` for too many frames, `DEVICE`.
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
        // SAFETY: the promises that the comment above asks of the caller.
        let (packing, stream) =
            unsafe { (packing(n_frames, slots, frame_bytes, packed, offsets)?, ptr::stream(stream)) };
        device::pack_async(&packing, stream, &Context::default())
    })
}

/// Gives work to a stream of an NVIDIA GPU that moves packed frames to slots, where `gridz_decompress_async` takes them.
///
/// The way back of `gridz_pack_async`, with the same rules for memory. Frame i has `frame_bytes[i]` bytes, is at
/// `packed + offsets[i]` and goes to `frames + i * frame_stride`; `lengths[i]` becomes its length, or 0 if it is not
/// wholly inside the `packed_bytes` bytes of `packed` (which end at a multiple of 16), does not begin at a multiple of 16 there,
/// or is longer than `frame_stride`: offsets and lengths may come from anywhere. Give `lengths` to
/// `gridz_decompress_async`, for which such a frame is truncated. Here `offsets` needs `n_frames` elements only.
///
/// Errors: as `gridz_pack_async`.
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
        // SAFETY: the promises that the comment above asks of the caller.
        let (packing, stream) = unsafe {
            let packing = packing(n_frames, slots, frame_bytes, packed, (offsets, n_frames))?;
            let lengths = ptr::device_memory("lengths", lengths.cast(), (n_frames as u64).saturating_mul(8))?;
            (Packing { lengths: Some(lengths), ..packing }, ptr::stream(stream))
        };
        device::unpack_async(&packing, stream, &Context::default())
    })
}

/// Frames in slots, and packed.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it, until the work is done that is given to a stream with it.
unsafe fn packing<'a>(
    n_frames: usize,
    (slots, stride): (*const c_void, usize),
    frame_bytes: *const usize,
    (packed, packed_bytes): (*const c_void, usize),
    (offsets, n_offsets): (*const usize, usize),
) -> Result<Packing<'a>> {
    let n = n_frames as u64;
    // SAFETY: the same promise.
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
