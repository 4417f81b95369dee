//! Structs of the C API for whole HDF5 datasets. Their doc comments are the C manual.

use std::ffi::{c_char, c_void};

use crate::types::{GRIDZ_MAX_RANK, gridz_context};

/// A function pointer of unspecified type.
pub type gridz_function = Option<unsafe extern "C" fn()>;

/// Name and address of a libhdf5 function, for the functions that transfer whole datasets.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_function {
    /// Name of the function, such as `"H5Dwrite"`.
    pub name: *const c_char,
    /// Address of the function, cast from its own type.
    pub address: gridz_function,
}

/// Progress callback. The thread that called gridz invokes it after every chunk or box. `done` and
/// `total` are bytes of the array; `gridz_h5_inspect_progressive` counts chunks instead. Any return
/// value except 0 cancels the call, which then returns `GRIDZ_ERROR_CANCELLED`.
///
/// The callback must return, must not modify the array, and must not use the dataset. A C++
/// exception must not leave it: catch it inside, return 1, and rethrow it after the call.
pub type gridz_progress = Option<unsafe extern "C" fn(data: *mut c_void, done: u64, total: u64) -> i32>;

/// Options for transferring a dataset. Zero in all fields except `struct_size` selects the
/// defaults. So does NULL in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_options {
    /// `sizeof(gridz_h5_options)`.
    pub struct_size: usize,
    /// Threads. NULL = the worker threads of the process.
    pub context: *const gridz_context,
    /// Distance in memory from element to element along each axis of the dataset, in bytes. Strides
    /// may be negative. No two elements may share a byte. The data pointer of the call is that of
    /// the first element. NULL = contiguous, in C order. Read during the call only.
    pub strides: *const i64,
    /// Progress callback, or NULL.
    pub progress: gridz_progress,
    /// First argument of `progress`.
    pub progress_data: *mut c_void,
    /// Approximate limit for buffers, in bytes, but always enough for one chunk. The context's
    /// `memory_limit` applies to each chunk in addition. 0 = 1 GiB.
    pub memory_limit: u64,
    /// Data transfer property list, an `hid_t`. 0 = `H5P_DEFAULT`.
    pub dxpl: i64,
    /// A `cudaStream_t` (or `CUstream`), if `src` or `dst` is GPU memory. The call waits for all
    /// work in this stream, such as the kernels that produce the array. NULL = the program has
    /// already synchronized the streams that use the array. Pass `cudaStreamLegacy` or
    /// `cudaStreamPerThread` for a default stream.
    pub stream: *mut c_void,
}

/// Description of a part of a dataset: a coarser grid, or fewer layers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_part_info {
    /// `sizeof(gridz_h5_part_info)`, set by the caller.
    pub struct_size: usize,
    /// Number of extents, the rank of the dataset.
    pub rank: u32,
    /// Level of the grid. 0 = the dataset itself.
    pub level: u32,
    /// `rank` extents of the result in elements, slowest-varying first. The remaining entries are
    /// 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Bytes of the result if it is contiguous in memory.
    pub array_bytes: u64,
    /// Number of chunks that the result needs. Chunks that were never written do not count.
    pub n_chunks: u64,
    /// Encoded bytes of these chunks.
    pub stored_bytes: u64,
    /// Encoded bytes that are read, at most `stored_bytes`.
    pub read_bytes: u64,
    /// Number of levels above level 0 that the dataset has.
    pub n_levels: u32,
    /// Largest number of layers read from a chunk. 0 if no chunk has layers.
    pub layers: u32,
    /// Largest number of layers in a chunk.
    pub n_layers: u32,
    /// Always 0.
    pub reserved: u32,
    /// Largest absolute difference between an element of the result and its original. NaN if a
    /// chunk guarantees no bound. Exact chunks, such as those that were never written, count as 0.
    /// The remarks on `bound` in `gridz_frame_info` apply here too.
    pub bound: f64,
    /// Upper limit of the root mean square error of each chunk that is read, taken over the whole
    /// chunk. It is the guarantee of mode `GRIDZ_MODE_RMS`, or else `bound`. NaN if a chunk
    /// guarantees neither.
    pub rms: f64,
}
