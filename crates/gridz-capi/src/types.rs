//! Constants and structs of `gridz.h`. Their doc comments are the C manual. The modules of the other
//! headers hold those that only they need, by the same rules.
//!
//! Integers from C stay plain integers here and are never Rust enums. A caller can pass any value,
//! and an enum with an unknown value is undefined behavior before any code can check it. The
//! constants are plain integers too, because cbindgen emits those before the structs. The structs
//! have no padding on 64-bit machines, so that a field added later cannot hide in padding bytes.

use std::ffi::{c_char, c_void};

/// Major version of this header. It grows with every incompatible change.
pub const GRIDZ_VERSION_MAJOR: u32 = 0;
/// Minor version. It grows with additions and, while the major version is 0, with incompatible
/// changes.
pub const GRIDZ_VERSION_MINOR: u32 = 1;
/// Patch version. It grows with corrections.
pub const GRIDZ_VERSION_PATCH: u32 = 0;

/// Largest rank of an array.
pub const GRIDZ_MAX_RANK: usize = 32;

/// Elements of any size that gridz does not interpret: structs, strings.
pub const GRIDZ_DTYPE_OPAQUE: u32 = 0;
/// Unsigned 8-bit integer.
pub const GRIDZ_DTYPE_U8: u32 = 1;
/// Unsigned 16-bit integer.
pub const GRIDZ_DTYPE_U16: u32 = 2;
/// Unsigned 32-bit integer.
pub const GRIDZ_DTYPE_U32: u32 = 3;
/// Unsigned 64-bit integer.
pub const GRIDZ_DTYPE_U64: u32 = 4;
/// Signed 8-bit integer.
pub const GRIDZ_DTYPE_I8: u32 = 5;
/// Signed 16-bit integer.
pub const GRIDZ_DTYPE_I16: u32 = 6;
/// Signed 32-bit integer.
pub const GRIDZ_DTYPE_I32: u32 = 7;
/// Signed 64-bit integer.
pub const GRIDZ_DTYPE_I64: u32 = 8;
/// IEEE binary16 (half).
pub const GRIDZ_DTYPE_F16: u32 = 9;
/// bfloat16, the upper half of a binary32.
pub const GRIDZ_DTYPE_BF16: u32 = 10;
/// IEEE binary32 (`float`).
pub const GRIDZ_DTYPE_F32: u32 = 11;
/// IEEE binary64 (`double`).
pub const GRIDZ_DTYPE_F64: u32 = 12;
/// Two binary32: real, imaginary (`float complex`).
pub const GRIDZ_DTYPE_C64: u32 = 13;
/// Two binary64: real, imaginary (`double complex`).
pub const GRIDZ_DTYPE_C128: u32 = 14;

/// Byte order of the machine that runs gridz. `gridz_inspect` never returns this value.
pub const GRIDZ_BYTE_ORDER_NATIVE: u32 = 0;
/// Least significant byte first.
pub const GRIDZ_BYTE_ORDER_LITTLE: u32 = 1;
/// Most significant byte first.
pub const GRIDZ_BYTE_ORDER_BIG: u32 = 2;

/// Every element is restored bit for bit.
pub const GRIDZ_MODE_LOSSLESS: u32 = 0;
/// No element differs by more than `value`.
pub const GRIDZ_MODE_ABS: u32 = 1;
/// No element differs by more than `value` × (largest − smallest element of the array).
pub const GRIDZ_MODE_REL: u32 = 2;
/// `value` bits for each element.
pub const GRIDZ_MODE_RATE: u32 = 3;
/// `value` bit planes, a whole number.
pub const GRIDZ_MODE_PRECISION: u32 = 4;
/// No element differs by more than `value` × its own magnitude; `value` is below 1.
pub const GRIDZ_MODE_PWREL: u32 = 5;
/// The root mean square of all differences is at most `value`.
pub const GRIDZ_MODE_RMS: u32 = 6;
/// Parameters that are specific to the codec.
pub const GRIDZ_MODE_EXPERT: u32 = 7;

/// `gridz_codec.backends`: the CPU.
pub const GRIDZ_BACKEND_CPU: u32 = 1;
/// `gridz_codec.backends`: an NVIDIA GPU.
pub const GRIDZ_BACKEND_CUDA: u32 = 2;

/// `gridz_options.flags`: decompress without verifying the checksum. The checks that keep decoding
/// memory-safe still run, but damaged data may decode to wrong values.
pub const GRIDZ_FLAG_SKIP_CHECKSUM: u64 = 1;

/// `gridz_context_options.device`: choose by `GRIDZ_BACKEND`.
pub const GRIDZ_DEVICE_AUTO: u32 = 0;
/// `gridz_context_options.device`: all usable NVIDIA GPUs.
pub const GRIDZ_DEVICE_ALL: u32 = 0xffff_ffff;
/// `gridz_context_options.device`: the CPU.
pub const GRIDZ_DEVICE_CPU: u32 = 0xffff_fffe;
/// `gridz_context_options.device`: the NVIDIA GPU that gridz chooses.
pub const GRIDZ_DEVICE_CUDA: u32 = 0xffff_fffd;

/// Element type: one of `GRIDZ_DTYPE_*`. Frames store these numbers, so they never change.
pub type gridz_dtype = u32;

/// Byte order of an element: one of `GRIDZ_BYTE_ORDER_*`.
pub type gridz_byte_order = u32;

/// Permitted change of the values: one of `GRIDZ_MODE_*`. In a request in text form a mode is written
/// with its value: `abs=1e-3`, `rel=1e-4`, `rate=8`, `precision=12`, `pwrel=1e-3`, `rms=1e-3`,
/// `expert`. Without a mode, a request is lossless.
pub type gridz_mode = u32;

/// Type and shape of an array in memory, which is contiguous and in C order. It has no data
/// pointer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_array {
    /// `sizeof(gridz_array)`.
    pub struct_size: usize,
    /// Element type.
    pub dtype: gridz_dtype,
    /// Byte order of the elements. Ignored for opaque and one-byte elements.
    pub byte_order: gridz_byte_order,
    /// Bytes of one element. 0 = the size of `dtype`. `GRIDZ_DTYPE_OPAQUE` requires a size.
    pub element_size: u32,
    /// Number of extents, 0 to `GRIDZ_MAX_RANK`. 0 = a scalar, which has one element.
    pub rank: u32,
    /// `rank` extents in elements, slowest-varying first. An extent may be 0. Read during the call
    /// only. May be NULL if `rank` is 0.
    pub extents: *const u64,
}

/// How to compress and decompress. Zero in all fields except `struct_size` selects the defaults. So
/// does NULL in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_options {
    /// `sizeof(gridz_options)`.
    pub struct_size: usize,
    /// Threads and memory. NULL = the worker threads of the process, and no memory limit. The
    /// context must outlive the call. Several calls may share it concurrently.
    pub context: *const gridz_context,
    /// Request in text form: a codec that `gridz_codec_info` lists, then a mode with its value, a
    /// level by name or number, and parameters of the codec: `"lorenzo"`, `"lorenzo,level=dense"`,
    /// `"quant,abs=1e-3,level=fast"`. `gridz_request_text` makes this text from numbers. NULL = the
    /// default lossless codec of this version. Read during the call only.
    ///
    /// A frame identifies its codec, so `gridz_decompress` checks this text but does not need it.
    /// `gridz_decompress_async` needs it.
    pub request: *const c_char,
    /// 0 or `GRIDZ_FLAG_SKIP_CHECKSUM`.
    pub flags: u64,
    /// Fill values, which mark elements without data, such as -999. They are `n_fill_values`
    /// consecutive elements of the array's type, size and byte order, in host memory. NULL = none.
    ///
    /// A codec with an error bound restores elements that equal a fill value bit for bit, and
    /// decodes no other element to a fill value. Lossless codecs restore every element bit for bit
    /// and ignore this field. The text form is `fill=-999,fill=1e20`; both forms may be combined.
    /// Read during the call only. `gridz_decompress` and `gridz_decompress_region` do not read it.
    pub fill_value: *const c_void,
    /// Number of fill values, at most 8. 0 = one, if `fill_value` is not NULL.
    pub n_fill_values: usize,
    /// Smallest valid number. Elements below it, or above `valid_max`, are treated like fill
    /// values. Both point to one element of the array's type, size and byte order, in host memory.
    /// NULL = no limit. Not supported for complex elements. The text form is
    /// `valid_min=0,valid_max=350`.
    pub valid_min: *const c_void,
    /// Largest valid number. See `valid_min`.
    pub valid_max: *const c_void,
}

/// Options of `gridz_context_create`. Zero in all fields except `struct_size` selects the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_context_options {
    /// `sizeof(gridz_context_options)`.
    pub struct_size: usize,
    /// Number of worker threads that belong to the context, 1 to 1024. 1 = only the calling thread
    /// works. 0 = share the worker threads of the process. Their number is `GRIDZ_THREADS` or, by
    /// default, the available cores divided by the MPI ranks on this machine.
    pub threads: u32,
    /// Device that computes: one of `GRIDZ_DEVICE_*`, or the number of an NVIDIA GPU, counted from
    /// 1.
    ///
    /// - `GRIDZ_DEVICE_AUTO`: as `GRIDZ_BACKEND` says.
    /// - A GPU number: creating the context fails if that GPU is unusable. Calls reject memory of
    ///   other GPUs.
    /// - `GRIDZ_DEVICE_ALL`: `gridz_compress_chunks` and `gridz_decompress_chunks` distribute
    ///   chunks in host memory over all usable GPUs. Calls with one array in host memory use the
    ///   GPUs in turn.
    /// - `GRIDZ_DEVICE_CPU` and `GRIDZ_DEVICE_CUDA`: like `GRIDZ_BACKEND=cpu` and
    ///   `GRIDZ_BACKEND=cuda`, but for this context only.
    pub device: u32,
    /// Maximum working memory of one call, in bytes, beyond the caller's buffers. 0 = no limit. A
    /// call that needs more fails with `GRIDZ_ERROR_OUT_OF_MEMORY`.
    ///
    /// Only these calls need working memory:
    ///
    /// - Compression of big-endian numbers that the codec encodes: the size of the array.
    /// - The fallback from a GPU to the CPU: host copies of the array (or region) and of the frame.
    /// - `gridz_compress_chunks` on the CPU: a frame buffer for each worker thread if the limit
    ///   allows it, or else one buffer at most.
    ///
    /// The limit does not cover GPU memory, up to 100 MiB of pinned memory per GPU, 1 MiB per
    /// working thread, and some bookkeeping per block. It does limit batches: if many chunks go
    /// through GPUs, the batches of all GPUs together hold at most an eighth of it. On a GPU,
    /// `multigrid` takes up to 6 times the size of the array to compress it, and up to layers + 3.2
    /// times to decompress it.
    pub memory_limit: u64,
}

/// Description of a frame, from its header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_frame_info {
    /// `sizeof(gridz_frame_info)`, set by the caller.
    pub struct_size: usize,
    /// Element type.
    pub dtype: gridz_dtype,
    /// `GRIDZ_BYTE_ORDER_LITTLE` or `GRIDZ_BYTE_ORDER_BIG`; little for opaque and one-byte
    /// elements.
    pub byte_order: gridz_byte_order,
    /// Bytes of one element.
    pub element_size: u32,
    /// Number of extents.
    pub rank: u32,
    /// `rank` extents in elements, slowest-varying first. The remaining entries are 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Bytes of the array, which is the destination size that `gridz_decompress` needs. The value
    /// comes from the frame, and a damaged or hostile frame can claim any value below 2^63. Compare
    /// it with the expected size before you allocate that much.
    pub array_bytes: u64,
    /// Bytes of the whole frame, header included.
    pub frame_bytes: u64,
    /// Name of the codec that wrote the frame, or NULL if this version lacks that codec. Valid for
    /// the lifetime of the process.
    pub codec_name: *const c_char,
    /// Number of the codec in the frame.
    pub codec: u32,
    /// Mode that the frame was compressed in: one of `GRIDZ_MODE_*`. (The first version, which had
    /// lossless codecs only, always set 0.)
    pub mode: u32,
    /// The number that belongs to `mode`.
    pub value: f64,
    /// Largest absolute difference between a decoded element and its original. 0 = none differs.
    /// NaN = no such bound exists (modes `GRIDZ_MODE_PWREL`, `_RATE`, `_PRECISION` and `_EXPERT`),
    /// or it is stored after the header, in a part of the frame that was not passed.
    ///
    /// This is a guarantee, not the actual error. `zfp` and `multigrid` guarantee it only relative to
    /// the input of this frame. If parts of an array are decoded, modified and encoded repeatedly,
    /// the error of its other elements can grow each time.
    pub bound: f64,
}

/// Description of a codec of this library. Its pointers are valid for the lifetime of the process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_codec {
    /// `sizeof(gridz_codec)`, set by the caller.
    pub struct_size: usize,
    /// Name of the codec, the same in all interfaces.
    pub name: *const c_char,
    /// Purpose of the codec, in one line.
    pub description: *const c_char,
    /// Names of the `n_levels` levels. The first one is the default.
    pub level_names: *const *const c_char,
    /// Numbers of the levels, in the same order.
    pub level_numbers: *const u32,
    /// Number of levels. 0 = the codec accepts only level 0.
    pub n_levels: u32,
    /// Number of the codec in frames and cd_values.
    pub id: u32,
    /// Modes of the codec: bit `GRIDZ_MODE_X` is set for each.
    pub modes: u32,
    /// Element types that the codec encodes: bit `GRIDZ_DTYPE_X` is set for each. In mode
    /// `GRIDZ_MODE_LOSSLESS` arrays of other types are stored verbatim.
    pub dtypes: u32,
    /// Back ends that run the codec here: `GRIDZ_BACKEND_CPU`, and `GRIDZ_BACKEND_CUDA` if this
    /// library has kernels for the codec and this machine has a GPU for them.
    pub backends: u32,
    /// Always 0.
    pub reserved: u32,
}

/// Worker threads and a memory limit for calls. Opaque. `gridz_context_create` creates it,
/// `gridz_context_destroy` frees it.
#[derive(Debug)]
pub struct gridz_context(pub(super) gridz::Context);
