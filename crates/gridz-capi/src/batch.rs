//! `gridz_batch.h`: many arrays at once, with packed frames.
#![allow(unsafe_code, reason = "functions that C calls")]
#![allow(clippy::missing_safety_doc, reason = "these comments are the C manual; its head states the promises")]

use std::ffi::c_void;

use crate::arguments::{Options, deliver, read_array};
use crate::guard::guard;
use crate::ptr::{self, Out};
use crate::status::gridz_status;
use crate::types::{gridz_array, gridz_options};
use gridz::device::{self, ChunkArray};
use gridz_codecs::error::{Error, Result};
use gridz_codecs::types::Array;

/// Many arrays of one type and shape, and their frames: the argument of the calls that process many
/// arrays. One struct may serve all of them: each call uses the fields that its comment names, and
/// ignores the others.
///
/// The caller owns all memory. It stays valid until the call returns or, for the functions named
/// `*_async`, until the stream has completed the work. `array`, `start`, `count` and `options` are
/// read during the call only. Memory that different fields refer to must not overlap.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_batch {
    /// `sizeof(gridz_batch)`.
    pub struct_size: usize,
    /// Type and shape of each array.
    pub array: *const gridz_array,
    /// Number of arrays, and of frames. With 0 a call accesses no arrays or frames, and their pointers
    /// may be NULL. `array` and `options` are still checked.
    pub n: usize,
    /// The arrays: array i is at `arrays + i * array_stride`. Compression only reads them.
    pub arrays: *mut c_void,
    /// Bytes from array to array, at least the size of an array. Ignored if `n` is 1.
    pub array_stride: usize,
    /// Frames in slots: frame i is at `frames + i * frame_stride`. Decompression only reads them.
    pub frames: *mut c_void,
    /// Bytes from slot to slot: a multiple of 16 and at least the bound of `gridz_compress_bound`.
    pub frame_stride: usize,
    /// Length of each frame in bytes: `n` elements. Decompression only reads them.
    pub frame_bytes: *mut usize,
    /// Packed frames: one after the other. Each begins at the first multiple of 16 bytes after the
    /// previous one, with zeros between them.
    pub packed: *mut c_void,
    /// Bytes at `packed`.
    pub packed_bytes: usize,
    /// Offset of each packed frame in bytes, for `gridz_pack_async` and `gridz_unpack_async`.
    pub offsets: *mut usize,
    /// Result of each decompression, for `gridz_decompress_async`: `n` elements.
    pub statuses: *mut gridz_status,
    /// Start of a region of each array, for `gridz_decompress_async`: one number for each axis, in
    /// elements, slowest-varying axis first. NULL = whole arrays.
    pub start: *const u64,
    /// Extents of that region. NULL if `start` is NULL.
    pub count: *const u64,
    /// GPU memory for intermediate results, or NULL: see `gridz_compress_async`.
    pub workspace: *mut c_void,
    /// Bytes at `workspace`.
    pub workspace_bytes: usize,
    /// CUDA stream of the functions named `*_async`: a `cudaStream_t` or `CUstream`. NULL = the legacy
    /// default stream of the current CUDA context or, without one, of the context that owns `frames`.
    pub stream: *mut c_void,
    /// How to compress and decompress. NULL = the defaults.
    pub options: *const gridz_options,
}

/// Computes the number of packed bytes that is always enough for `gridz_compress_chunks`, whatever
/// the values and the codec.
///
/// Sets `*bound` to `n` times the size of an array plus a header, rounded up to a multiple of 16.
///
/// Errors: `INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_packed_bound(
    array: *const gridz_array,
    n: usize,
    bound: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (bound, array) = unsafe { (Out::new("bound", bound)?, read_array(array)?) };
        bound.write(device::packed_bound(&array, n)? as usize);
        Ok(())
    })
}

/// Compresses `n` arrays of one type and shape, in parallel, into packed frames.
///
/// Reads `array`, `n`, `arrays`, `array_stride` and `options`. Writes the frames of `gridz_compress`
/// to `packed` and their lengths to `frame_bytes`. The offset of frame i is the sum of the preceding
/// lengths, each rounded up to a multiple of 16. `*packed_bytes` is the end of the last frame,
/// rounded up in the same way.
///
/// `packed` has `batch->packed_bytes` bytes. `gridz_packed_bound` returns a size that is always
/// enough; less is enough if the frames fit. After an error the contents of `packed` and
/// `frame_bytes` are unspecified.
///
/// `arrays`, `packed` or both may be memory of an NVIDIA GPU, or pinned memory. `frame_bytes` is in
/// host memory. The caller must first wait for all work of its streams on this memory. The frames
/// are complete when the call returns.
///
/// With `GRIDZ_BACKEND=auto` the GPU compresses arrays in GPU memory. If the process already uses a
/// GPU, the GPU also compresses arrays if both sides are pinned. Transfers and kernels overlap, on
/// streams that gridz owns, so pinned memory is transferred at bus speed. Threads of the context
/// copy memory that is not pinned. On the CPU each thread compresses one array at a time.
///
/// Errors: `INVALID_ARGUMENT`, also for a region; `DST_TOO_SMALL` with the bound in `*packed_bytes`;
/// `UNSUPPORTED_JOB`, `OUT_OF_MEMORY`, `DEVICE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_compress_chunks(
    batch: *const gridz_batch,
    packed_bytes: *mut usize,
) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let (n_bytes, batch) = unsafe { (Out::new("packed_bytes", packed_bytes)?, Batch::read(batch)?) };
        batch.refuse_region("gridz_compress_chunks")?;
        let c = &batch.c;
        // SAFETY: the same promises.
        let options = unsafe { batch.options()? };
        let chunks = batch.chunks();
        let src_bytes = chunks.span("array_stride")? as usize;
        // SAFETY: the same promises, for `n` arrays.
        let ((src, dst), lengths) = unsafe {
            let packed = ("packed", c.packed, c.packed_bytes);
            let buffers = ptr::source_and_destination(("arrays", c.arrays.cast_const(), src_bytes), packed)?;
            (buffers, ptr::lengths_mut("frame_bytes", c.frame_bytes, c.n)?)
        };
        let end = device::compress_chunks(&chunks, &options.request, src, dst, lengths, options.context);
        deliver(end.map(|end| end as usize), n_bytes)
    })
}

/// Decompresses `n` packed frames of arrays of one type and shape, in parallel.
///
/// Reads the frames that `gridz_compress_chunks` has packed: `n` frames of `frame_bytes[i]` bytes in
/// `packed`. `packed_bytes` is at least the end of the last frame, rounded up to a multiple of 16;
/// further bytes are ignored. Writes array i
/// to `arrays + i * array_stride`, in the byte order of `array`. Frames of different codecs may be
/// mixed; frames of one codec are fastest. `options->request` is checked, but not needed. Everything
/// else is as for `gridz_compress_chunks` and `gridz_decompress`.
///
/// Errors: those of `gridz_decompress`, for the first frame that cannot be decompressed;
/// `gridz_last_error` contains its number. `INVALID_ARGUMENT` also for a region, and if a frame is of
/// another array than `array`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gridz_decompress_chunks(batch: *const gridz_batch) -> gridz_status {
    guard(|| {
        // SAFETY: the caller keeps the promises about pointers in the head of the manual.
        let batch = unsafe { Batch::read(batch)? };
        batch.refuse_region("gridz_decompress_chunks")?;
        let c = &batch.c;
        // SAFETY: the same promises.
        let options = unsafe { Options::read(c.options, None)? };
        let chunks = batch.chunks();
        let dst_bytes = chunks.span("array_stride")? as usize;
        // SAFETY: the same promises, for `n` arrays.
        let ((frames, dst), lengths) = unsafe {
            let packed = ("packed", c.packed.cast_const(), c.packed_bytes);
            let buffers = ptr::source_and_destination(packed, ("arrays", c.arrays, dst_bytes))?;
            (buffers, ptr::lengths("frame_bytes", c.frame_bytes.cast_const(), c.n)?)
        };
        device::decompress_chunks(&chunks, frames, lengths, dst, options.verify, options.context)
    })
}

/// A batch, read from C.
pub(crate) struct Batch {
    pub(crate) c: gridz_batch,
    pub(crate) array: Array,
}

impl Batch {
    /// Reads a batch and the description of its arrays.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    pub(crate) unsafe fn read(from: *const gridz_batch) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            let c = ptr::read(from)?;
            Ok(Self { c, array: read_array(c.array)? })
        }
    }

    /// Reads the options, with the missing elements of the arrays.
    ///
    /// # Safety
    /// The caller's promise, as [`ptr`] states it.
    pub(crate) unsafe fn options<'a>(&self) -> Result<Options<'a>> {
        // SAFETY: the caller's promise.
        unsafe { Options::read(self.c.options, Some(&self.array)) }
    }

    fn chunks(&self) -> ChunkArray {
        ChunkArray { array: self.array, n_chunks: self.c.n, stride: self.c.array_stride as u64 }
    }

    /// Refuses a region, because `function` processes whole arrays.
    pub(crate) fn refuse_region(&self, function: &str) -> Result<()> {
        match self.c.start.is_null() && self.c.count.is_null() {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "start and count select a region, but {function} processes whole arrays; set both to NULL, or use \
                 gridz_decompress_async"
            ))),
        }
    }
}
