//! The functions of `gridz.h`. Each is one guarded call that checks, converts, calls the engine and
//! converts back.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::{CStr, c_char, c_void};

use crate::convert;
use crate::guard::{guard, guard_or, guard_text};
use crate::ptr::{self, Out, OutStruct};
use crate::status::{self, gridz_status};
use crate::types::{
    gridz_array, gridz_block_counts, gridz_context, gridz_context_options, gridz_frame_info, gridz_options,
    gridz_part_info,
};
use gridz::{Context, Request, Verify, device};
use gridz_codecs::error::{ErrorKind, Result, with_last};
use gridz_codecs::types::Array;

/// Finds the destination size that compressing an array needs, whatever its values are.
///
/// `*bound` becomes the bytes that `gridz_compress` may write on the way, for these `options`: a
/// multiple of 16, and the smallest `dst_stride` of `gridz_compress_async`. The frame that it leaves
/// is never longer than the array and a header of 40 + 8 * `rank` bytes, rounded up to a multiple of
/// 16.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_bound(
    array: *const gridz_array,
    options: *const gridz_options,
    bound: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (bound, (array, options)) = unsafe { (Out::new("bound", bound)?, read_both(array, options)?) };
        bound.write(gridz::compress_bound(&array, &options.request)? as usize);
        Ok(())
    })
}

/// Compresses an array into one frame, which describes itself and decodes on any machine.
///
/// `src` is the array's data of exactly `src_bytes` bytes. `dst` has `dst_capacity` bytes, at least
/// what `gridz_compress_bound` says for the same array and options, and need not be initialised. The
/// frame goes to the start of `dst` and its length in bytes to `*dst_bytes`; what follows it in `dst`
/// is unspecified. The same input gives the same frame, whatever the number of threads.
///
/// `src`, `dst` or both may be memory of an NVIDIA GPU. What the program's streams do with them must be
/// done before the call; `dst` is complete when it returns. `gridz_compress_async` does not wait.
///
/// Errors: `INVALID_ARGUMENT` (also if `src_bytes` is not the size of the array), `DST_TOO_SMALL` with
/// the bound in `*dst_bytes`, `UNSUPPORTED_JOB`, `OUT_OF_MEMORY`, `DEVICE`.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (n_bytes, (array, options), buffers) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                read_both(array, options)?,
                ptr::source_and_destination(("src", src, src_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let request = &options.request;
        let (src, dst) = buffers;
        let result = options.with_context(|context| device::compress(&array, request, src, dst, context));
        deliver(result, n_bytes)
    })
}

/// Decompresses one frame.
///
/// `frame` is exactly one frame of `frame_bytes` bytes. `dst` has `dst_capacity` bytes, at least the
/// `array_bytes` of `gridz_inspect`, and need not be initialised. The array goes to the start of `dst`
/// in the byte order it had, and its size in bytes to `*dst_bytes`; the rest of `dst` is left alone.
/// After an error the contents of `dst` are unspecified. `frame`, `dst` or both may be memory of an
/// NVIDIA GPU, as for `gridz_compress`.
///
/// Any bytes may be passed as a frame: a damaged or hostile one gives an error and never makes gridz
/// read or write outside the two buffers.
///
/// Errors: `INVALID_ARGUMENT`, `DST_TOO_SMALL` with the size of the array in `*dst_bytes`, `CORRUPT`
/// (also if more bytes follow the frame), `TRUNCATED`, `UNSUPPORTED_FORMAT`, `OUT_OF_MEMORY`, `DEVICE`.
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (n_bytes, options, buffers) = unsafe {
            (
                Out::new("dst_bytes", dst_bytes)?,
                Options::read(options, None)?,
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let (frame, dst) = buffers;
        let result = options.with_context(|context| device::decompress(frame, dst, options.verify, context));
        deliver(result, n_bytes)
    })
}

/// Decompresses part of an array: along each of its `rank` axes `count` elements from `start` on.
///
/// The elements go to the start of `dst`, which has `dst_capacity` bytes, in C order and in the byte order they had,
/// and their size in bytes to `*dst_bytes`. `rank` is that of the array in the frame; `start` and `count` are in
/// elements, slowest-varying axis first. All else is as for `gridz_decompress`, but where both buffers are in host memory
/// the CPU works, on the calling thread, unless the GPU is required (`GRIDZ_BACKEND=cuda`, or a context's backend). Where
/// one of them is memory of a GPU, that works, in one launch; `gridz_decompress_region_async` does not wait.
///
/// Only the blocks that the region touches are decoded. Of `lorenzo` these are compared with their checksums, and damage
/// in other blocks is not seen. Blocks of `ndzip` have none, so the whole payload is read and compared with its own, which takes
/// much less time than to decode it; with `GRIDZ_FLAG_SKIP_CHECKSUM` it is not read. Of `stored` the bytes are copied
/// without looking at a checksum.
///
/// Errors: those of `gridz_decompress`; `INVALID_ARGUMENT` for a region that is not one of the array, and
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
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
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
        let result = options
            .with_context(|context| device::decompress_region(frame, start, count, dst, options.verify, context));
        deliver(result, n_bytes)
    })
}

/// Decompresses less than there is in a frame of `mgard`, of which the first bytes are enough: its first layers, or a coarser grid
/// of its array. `*info`, whose `struct_size` the caller has set, tells what that is.
///
/// `detail` is one of `GRIDZ_DETAIL_*` and `value` the number that belongs to it. `frame` may be cut: `frame_bytes` is at
/// least the `frame_bytes` that `gridz_inspect_progressive` tells for the same detail. What comes back goes to the start of
/// `dst`, which has `dst_capacity` bytes, in C order and in the byte order that it had.
/// Either may be memory of a GPU. A GPU decompresses whole frames only; for a part the CPU copies the bytes that it needs.
/// If a GPU is required, the call fails where no GPU is available, and warns where the CPU decompresses.
///
/// The blocks that are read are compared with their checks, and with the frame's checksum if all of it is read.
///
/// Errors: those of `gridz_decompress`, `DST_TOO_SMALL` with the bytes in `info->array_bytes`; `INVALID_ARGUMENT` for a level or layer that there is not; `UNSUPPORTED_JOB` for
/// frames of other codecs, also where an array was stored since `mgard` did not make it smaller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_progressive(
    frame: *const c_void,
    frame_bytes: usize,
    detail: u32,
    value: f64,
    dst: *mut c_void,
    dst_capacity: usize,
    info: *mut gridz_part_info,
    options: *const gridz_options,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (info, options, buffers) = unsafe {
            (
                OutStruct::new(info)?,
                Options::read(options, None)?,
                ptr::source_and_destination(("frame", frame, frame_bytes), ("dst", dst, dst_capacity))?,
            )
        };
        let (detail, (frame, dst)) = (convert::detail(detail, value)?, buffers);
        // Also for whoever's destination is too small.
        let found = device::inspect_progressive(frame, detail)?;
        let struct_size = info.n_bytes();
        info.write(&convert::part_info(&found, struct_size));
        options.with_context(|context| {
            device::decompress_progressive(frame, detail, dst, options.verify, context).map(|_| ())
        })
    })
}

/// Tells what `gridz_decompress_progressive` would read and make, for each level and number of layers that there is.
///
/// `frame` may be the first bytes of a frame: 3072 are enough for layers, and as many more for a level above 0 as the table has, 8
/// bytes for each 65536 elements and some more for each level.
///
/// Errors: `INVALID_ARGUMENT`, also for a level or layer that there is not, `UNSUPPORTED_JOB` for frames of other codecs,
/// `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect_progressive(
    frame: *const c_void,
    frame_bytes: usize,
    detail: u32,
    value: f64,
    info: *mut gridz_part_info,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (info, frame) = unsafe { (OutStruct::new(info)?, ptr::source("frame", frame, frame_bytes)?) };
        let found = device::inspect_progressive(frame, convert::detail(detail, value)?)?;
        let struct_size = info.n_bytes();
        info.write(&convert::part_info(&found, struct_size));
        Ok(())
    })
}

/// Counts how the blocks of a frame are coded, into `*counts`, whose `struct_size` the caller has set, and compares
/// the blocks with their checksums. The frame may be in memory of a GPU.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for codecs whose blocks are all of one kind,
/// `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect_blocks(
    frame: *const c_void,
    frame_bytes: usize,
    counts: *mut gridz_block_counts,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (counts, frame) = unsafe { (OutStruct::new(counts)?, ptr::source("frame", frame, frame_bytes)?) };
        let found = device::count_blocks(frame, &Context::default())?;
        let struct_size = counts.n_bytes();
        counts.write(&convert::block_counts(&found, struct_size));
        Ok(())
    })
}

/// Reads what a frame says about itself into `*info`, whose `struct_size` the caller has set.
///
/// Needs only the header, so `frame` may be the first bytes of a frame: 560 hold any header,
/// and `info->frame_bytes` tells how long the whole is. The payload is not looked at. `frame` may be
/// memory of an NVIDIA GPU.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_inspect(
    frame: *const c_void,
    frame_bytes: usize,
    info: *mut gridz_frame_info,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (info, frame) = unsafe { (OutStruct::new(info)?, ptr::source("frame", frame, frame_bytes)?) };
        let found = device::inspect(frame)?;
        let struct_size = info.n_bytes();
        info.write(&convert::frame_info(&found, struct_size));
        Ok(())
    })
}

/// Makes a context with threads and a memory limit of its own; `options` may be NULL for the defaults.
///
/// `*context` then belongs to the caller, who ends it with `gridz_context_destroy`. Its threads start
/// when a call first has enough work for them, and again in a forked child.
///
/// Errors: `INVALID_ARGUMENT`, `DEVICE` for a GPU that cannot be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_context_create(
    options: *const gridz_context_options,
    context: *mut *mut gridz_context,
) -> gridz_status {
    guard(|| {
        // SAFETY: the promises about pointers that the head of the manual asks of the caller.
        let (context, options) = unsafe { (Out::new("context", context)?, ptr::read_optional(options)?) };
        let made = match options {
            Some(options) => convert::context(&options)?,
            None => Context::default(),
        };
        context.write(ptr::leak(gridz_context(made)));
        Ok(())
    })
}

/// Ends a context. No call may be using it, and none may use it afterwards. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_context_destroy(context: *mut gridz_context) {
    // SAFETY: as the comment above asks.
    guard_or((), || drop(unsafe { ptr::take_back(context) }));
}

/// Gives back what gridz keeps for later calls and no call uses now: memory of GPUs, pinned memory, streams, and working memory of
/// threads.
///
/// Of each GPU context there are at most 1 GiB of GPU memory and 1 GiB of pinned memory, both divided by the MPI ranks
/// on the node, or what `GRIDZ_CACHE_MIB` says, and 64 streams; GPU memory above that goes back when a call next waits for the GPU.
/// A thread keeps at most 64 MiB of working memory until it ends. This call frees the working memory of the calling thread before
/// it returns, and that of the worker threads of the process once they are idle. Other threads of the program call it for
/// themselves, and the threads of a context keep theirs until `gridz_context_destroy`.
///
/// May be called at any time, also while other calls run; it starts nothing, and a later call takes anew what it needs. Kernels
/// stay loaded, since CUDA graphs of the program may hold them, and so do the threads of contexts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_release_caches() {
    guard_or((), gridz::release_caches);
}

/// The name of a status, spelt as in this header. Never NULL; lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_status_name(status: gridz_status) -> *const c_char {
    guard_text(|| status::name(status).as_ptr())
}

/// What the calling thread's last failed call found wrong, and the remedy where there is one: UTF-8
/// for a person to read, not for a program to compare. Empty if no call has failed. Never NULL; valid
/// until the next failing call of the same thread, or the thread's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_last_error() -> *const c_char {
    guard_text(|| with_last(CStr::as_ptr))
}

/// The version of the library, such as `"1.2.3"`; that of this header is in `GRIDZ_VERSION_*`. Never
/// NULL; lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_version() -> *const c_char {
    guard_text(|| concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast())
}

/// Options as the engine wants them.
pub(super) struct Options<'a> {
    pub request: Request,
    pub verify: Verify,
    context: Option<&'a gridz_context>,
}

impl<'a> Options<'a> {
    /// With the missing elements of an array, if there is one.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    pub(super) unsafe fn read(from: *const gridz_options, array: Option<&Array>) -> Result<Self> {
        // SAFETY: the same promise.
        let Some(c) = (unsafe { ptr::read_optional(from)? }) else {
            return Ok(Self { request: Request::default(), verify: Verify::Checksum, context: None });
        };
        // SAFETY: the same promise, for what the struct points to.
        let (codec, context) = unsafe { (ptr::text(c.codec), ptr::context(c.context)) };
        let (mut request, verify) = (convert::request(&c, codec)?, convert::verify(&c)?);
        if let Some(array) = array.filter(|_| request.wants_missing()) {
            // SAFETY: the same promise, for elements of the array's type.
            let missing =
                unsafe { ptr::missing(array, c.fill_value, c.n_fill_values, [c.valid_min, c.valid_max])? };
            request = request.with_elements(array, &missing)?;
        }
        Ok(Self { request, verify, context })
    }

    /// Calls `work` with the caller's context or that of the process.
    pub fn with_context<R>(&self, work: impl FnOnce(&Context) -> R) -> R {
        match self.context {
            Some(context) => work(&context.0),
            None => work(&Context::default()),
        }
    }
}

/// An array, and how to compress it.
///
/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub(super) unsafe fn read_both<'a>(
    array: *const gridz_array,
    options: *const gridz_options,
) -> Result<(Array, Options<'a>)> {
    // SAFETY: the same promise.
    unsafe {
        let array = read_array(array)?;
        Ok((array, Options::read(options, Some(&array))?))
    }
}

/// # Safety
/// The caller's promise, as [`ptr`] states it.
pub(super) unsafe fn read_array(from: *const gridz_array) -> Result<Array> {
    // SAFETY: the same promise.
    let c = unsafe { ptr::read(from)? };
    // SAFETY: the same promise, for what the struct points to.
    let extents = unsafe { ptr::extents("extents", c.extents, c.rank)? };
    convert::array(&c, &extents)
}

/// Tells the caller the bytes that were written, or those that were missing.
pub(super) fn deliver(result: Result<usize>, n_bytes: Out<usize>) -> Result<()> {
    match result {
        Ok(written) => n_bytes.write(written),
        Err(error) => {
            if let ErrorKind::DstTooSmall { need } = error.kind() {
                n_bytes.write(need as usize);
            }
            return Err(error);
        }
    }
    Ok(())
}
