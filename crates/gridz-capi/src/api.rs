//! Core functions of `gridz.h`. Each is one guarded call that checks the arguments, converts them,
//! calls the engine, and converts the result back.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::{CStr, c_char, c_void};

use crate::arguments::{Options, deliver, plain_array, read_both};
use crate::convert;
use crate::guard::{guard, guard_or, guard_size, guard_text};
use crate::ptr::{self, Out, OutStruct};
use crate::status::{self, gridz_status};
use crate::types::{
    gridz_array, gridz_context, gridz_context_options, gridz_dtype, gridz_frame_info, gridz_options,
};
use gridz::Verify;
use gridz_codecs::error::{Error, with_last};

/// Returns the destination size that is always enough for `gridz_compress_nd` with the same array
/// and request: a multiple of 16, in bytes.
///
/// Returns 0 after an error, and `gridz_last_error` returns the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_bound_nd(
    dtype: gridz_dtype,
    rank: u32,
    extents: *const u64,
    request: *const c_char,
) -> usize {
    guard_size(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, request) = unsafe { (plain_array(dtype, rank, extents)?, ptr::text(request)) };
        Ok(gridz::compress_bound(&array, &convert::request(request)?)? as usize)
    })
}

/// Compresses an array of numbers into one self-describing frame: `gridz_compress` without structs.
///
/// `src` is the array of `rank` `extents`, contiguous, in C order and in the byte order of this
/// machine. `dst` has `dst_capacity` bytes, at least the size that `gridz_compress_bound_nd`
/// returns. Writes the frame to the start of `dst` and its length in bytes to `*dst_bytes`.
///
/// `request` is a text such as `"lorenzo"`, `"lorenzo,level=dense"` or `"quant,abs=1e-3"`; see
/// `gridz_options`. NULL = the default lossless codec.
///
/// Errors: those of `gridz_compress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_nd(
    dst: *mut c_void,
    dst_capacity: usize,
    src: *const c_void,
    dtype: gridz_dtype,
    rank: u32,
    extents: *const u64,
    request: *const c_char,
    dst_bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, array, request, context) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                plain_array(dtype, rank, extents)?,
                ptr::text(request),
                ptr::context(std::ptr::null()),
            )
        };
        let request = convert::request(request)?;
        let src_bytes = array.n_bytes() as usize;
        // SAFETY: the same promises.
        let (src, dst) =
            unsafe { ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))? };
        deliver(gridz::compress(&array, &request, src, dst, context), n_bytes)
    })
}

/// Decompresses one frame into an array whose type and extents the caller knows: `gridz_decompress`
/// without structs.
///
/// `frame` is exactly one frame of `frame_bytes` bytes. Writes the array to the start of `dst`, which
/// has `dst_capacity` bytes. The frame must contain an array of `dtype`, `rank` and `extents` in the
/// byte order of this machine. `gridz_inspect` describes the array of an unknown frame.
///
/// Errors: those of `gridz_decompress`, but `DST_TOO_SMALL` does not report the size;
/// `INVALID_ARGUMENT` if the frame contains another array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_nd(
    dst: *mut c_void,
    dst_capacity: usize,
    frame: *const c_void,
    frame_bytes: usize,
    dtype: gridz_dtype,
    rank: u32,
    extents: *const u64,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (array, context, (frame, dst)) = unsafe {
            (
                plain_array(dtype, rank, extents)?,
                ptr::context(std::ptr::null()),
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let found = gridz::inspect(frame)?.array;
        if found != array {
            return Err(Error::invalid(format!(
                "the frame contains an array of {}, not of {}; pass the type and extents that gridz_inspect reports, \
                 or use gridz_decompress",
                convert::description(&found),
                convert::description(&array)
            )));
        }
        gridz::decompress(frame, gridz::Part::All, dst, Verify::Checksum, context).map(|_| ())
    })
}

/// Computes the destination size that is always enough to compress an array, whatever its values.
///
/// Sets `*bound` to the largest number of bytes that `gridz_compress` may write with these
/// `options`, intermediate results included. It is a multiple of 16, and the smallest valid
/// `frame_stride` of a `gridz_batch`. The frame itself is never longer than the array plus a
/// header of 40 + 8 * `rank` bytes, rounded up to a multiple of 16.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_bound(
    array: *const gridz_array,
    options: *const gridz_options,
    bound: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (bound, (array, options)) = unsafe { (Out::new("bound", bound)?, read_both(array, options)?) };
        bound.write(gridz::compress_bound(&array, &options.request)? as usize);
        Ok(())
    })
}

/// Compresses an array into one self-describing frame that decodes on any machine.
///
/// `src` is the array's data and has exactly `src_bytes` bytes. `dst` has `dst_capacity` bytes, at
/// least the bound that `gridz_compress_bound` returns for the same array and options. It need not
/// be initialized. Writes the frame to the start of `dst` and its length in bytes to `*dst_bytes`.
/// The contents of `dst` after the frame are unspecified. The same input gives the same frame,
/// whatever the number of threads.
///
/// `src`, `dst` or both may be memory of an NVIDIA GPU. The caller must first wait for all work of
/// its streams on that memory. `dst` is complete when the call returns. `gridz_compress_async` does
/// the same without waiting.
///
/// Errors: `INVALID_ARGUMENT` (also if `src_bytes` is not the size of the array), `DST_TOO_SMALL`
/// with the bound in `*dst_bytes`, `UNSUPPORTED_JOB`, `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress(
    array: *const gridz_array,
    src: *const c_void,
    src_bytes: usize,
    dst: *mut c_void,
    dst_capacity: usize,
    dst_bytes: *mut usize,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, (array, options), buffers) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                read_both(array, options)?,
                ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let request = &options.request;
        let (src, dst) = buffers;
        let result = gridz::compress(&array, request, src, dst, options.context);
        deliver(result, n_bytes)
    })
}

/// Decompresses one frame.
///
/// `frame` is exactly one frame of `frame_bytes` bytes. `dst` has `dst_capacity` bytes, at least
/// the `array_bytes` of `gridz_inspect`. It need not be initialized. Writes the array to the start
/// of `dst`, in its original byte order, and its size in bytes to `*dst_bytes`. The rest of `dst`
/// is left unchanged. After an error the contents of `dst` are unspecified. `frame`, `dst` or both
/// may be memory of an NVIDIA GPU, as for `gridz_compress`.
///
/// Untrusted input is safe: a damaged or hostile frame gives an error and never makes gridz read or
/// write outside the two buffers.
///
/// Errors: `INVALID_ARGUMENT`, `DST_TOO_SMALL` with the size of the array in `*dst_bytes`,
/// `CORRUPT` (also if more bytes follow the frame), `TRUNCATED`, `UNSUPPORTED_FORMAT`,
/// `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress(
    frame: *const c_void,
    frame_bytes: usize,
    dst: *mut c_void,
    dst_capacity: usize,
    dst_bytes: *mut usize,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, options, buffers) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                Options::read(options, None)?,
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let (frame, dst) = buffers;
        let result = gridz::decompress(frame, gridz::Part::All, dst, options.verify, options.context);
        deliver(result, n_bytes)
    })
}

/// Decompresses a region of an array: `count` elements from `start` on, along each of its `rank`
/// axes.
///
/// Writes the elements to the start of `dst`, in C order and in their original byte order, and
/// their size in bytes to `*dst_bytes`. `dst` has `dst_capacity` bytes. `rank` is that of the array
/// in the frame. `start` and `count` are in elements, slowest-varying axis first. Everything else
/// is as for `gridz_decompress`, except which device works:
///
/// - Both buffers in host memory: the CPU works, on the calling thread (`multigrid`: on all threads),
///   unless the GPU is required (`GRIDZ_BACKEND=cuda`, or the back end of the context).
/// - Otherwise: the GPU works, in one launch. `gridz_decompress_async` with a region does the same
///   without waiting.
///
/// Only the blocks that the region touches are decoded, except by `multigrid`, which decodes the whole
/// array. The codec determines what is verified:
///
/// - `lorenzo`, `quant`, `huffman`, `cci`: the checksums of these blocks. Damage in other blocks goes
///   unnoticed.
/// - `stored`: nothing.
/// - `ndzip`, `zfp`: the checksum of the whole payload. Reading it all takes much less time than
///   decoding it. `GRIDZ_FLAG_SKIP_CHECKSUM` avoids this.
/// - `multigrid`: everything, as by `gridz_decompress`.
///
/// Errors: those of `gridz_decompress`; `INVALID_ARGUMENT` if the region is not inside the array;
/// `DST_TOO_SMALL` with the size of the region in `*dst_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_region(
    frame: *const c_void,
    frame_bytes: usize,
    rank: u32,
    start: *const u64,
    count: *const u64,
    dst: *mut c_void,
    dst_capacity: usize,
    dst_bytes: *mut usize,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, options, [start, count], buffers) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                Options::read(options, None)?,
                [ptr::extents("start", start, rank)?, ptr::extents("count", count, rank)?],
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let (frame, dst) = buffers;
        let [start, count] = [&start[..rank as usize], &count[..rank as usize]];
        let result =
            gridz::decompress(frame, gridz::Part::Region { start, count }, dst, options.verify, options.context);
        deliver(result, n_bytes)
    })
}

/// Reads the header of a frame into `*info`, whose `struct_size` the caller has set.
///
/// `frame` may be the first bytes of a frame: 560 hold any header. `info->frame_bytes` is the
/// length of the whole frame. The payload is not read. `frame` may be memory of an NVIDIA GPU.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect(
    frame: *const c_void,
    frame_bytes: usize,
    info: *mut gridz_frame_info,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (info, frame) = unsafe { (OutStruct::new(info)?, ptr::source("frame", frame, frame_bytes)?) };
        info.write(&convert::frame_info(&gridz::inspect(frame)?));
        Ok(())
    })
}

/// Creates a context with its own threads, device and memory limit. NULL for `options` = the
/// defaults.
///
/// The caller owns `*context` and frees it with `gridz_context_destroy`. The threads start at the
/// first call with enough work for them, and again in a forked child.
///
/// Errors: `INVALID_ARGUMENT`, `DEVICE` for a GPU that cannot be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_context_create(
    options: *const gridz_context_options,
    context: *mut *mut gridz_context,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (context, options) = unsafe { (Out::new("context", context)?, ptr::read_options(options)?) };
        context.write(ptr::leak(gridz_context(convert::context(&options)?)));
        Ok(())
    })
}

/// Frees a context. No call may be using it, and none may use it afterwards. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_context_destroy(context: *mut gridz_context) {
    // SAFETY: the caller keeps the promise of the comment above.
    guard_or((), || drop(unsafe { ptr::take_back(context) }));
}

/// Frees the resources that gridz caches for later calls and no call uses now: GPU memory, pinned
/// memory, streams, and the working memory of threads.
///
/// For each GPU context gridz caches at most 1 GiB of GPU memory, 1 GiB of pinned memory and 64
/// streams. Both memory limits are divided by the MPI ranks on the node; `GRIDZ_CACHE_MIB` replaces
/// them. GPU memory above the limit is freed when a call next waits for the GPU. A thread caches at
/// most 64 MiB of working memory until it ends.
///
/// This call frees the working memory of the calling thread before it returns, and that of the
/// worker threads of the process once they are idle. Other threads of the program must call it
/// themselves. The threads of a context keep their memory until `gridz_context_destroy`.
///
/// The call is allowed at any time, also while other calls run. It starts no threads and no GPU
/// work, and later calls allocate again what they need. Kernels stay loaded, since CUDA graphs of
/// the program may hold them. The threads of contexts keep running.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_release_caches() {
    guard_or((), gridz::release_caches);
}

/// Returns the name of a status as spelled in this header. Never NULL; valid for the lifetime of
/// the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_status_name(status: gridz_status) -> *const c_char {
    guard_text(|| status::name(status).as_ptr())
}

/// Returns the error text of the calling thread's last failed call: the cause and, where possible,
/// a remedy. The text is UTF-8 and meant for people; programs must not compare it. It is empty if
/// no call has failed. Never NULL; valid until the thread's next failing call or its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_last_error() -> *const c_char {
    guard_text(|| with_last(CStr::as_ptr))
}

/// Returns the version of the library, such as `"1.2.3"`. `GRIDZ_VERSION_*` is the version of this
/// header. Never NULL; valid for the lifetime of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_version() -> *const c_char {
    guard_text(|| concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast())
}
