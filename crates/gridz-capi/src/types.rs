//! What C sees beside the functions: constants and structs. Their doc comments are the C manual.
//!
//! Numbers that come from C are plain integers here, never Rust enums: a caller can put anything in
//! them, and an enum with an unknown value would be undefined behaviour before anybody could look.
//! The constants are typed as plain integers too, because cbindgen puts those before the structs.
//! The structs have no padding on 64-bit machines, so that a field added later cannot hide in it.

use std::ffi::{c_char, c_void};

use gridz_sparse::Matrix;

/// Version of this header, first number: grows with an incompatible change.
pub const GRIDZ_VERSION_MAJOR: u32 = 0;
/// Second number: grows with an addition, and while the first is 0 with an incompatible change too.
pub const GRIDZ_VERSION_MINOR: u32 = 1;
/// Third number: grows with a correction.
pub const GRIDZ_VERSION_PATCH: u32 = 0;

/// Largest rank of an array.
pub const GRIDZ_MAX_RANK: usize = 32;

/// Elements that are only bytes to gridz, of any size: structs, strings.
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

/// The order of the machine that gridz runs on. `gridz_inspect` never answers this.
pub const GRIDZ_BYTE_ORDER_NATIVE: u32 = 0;
/// Least significant byte first.
pub const GRIDZ_BYTE_ORDER_LITTLE: u32 = 1;
/// Most significant byte first.
pub const GRIDZ_BYTE_ORDER_BIG: u32 = 2;

/// Every bit of every value comes back.
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
/// The root of the mean of all squared differences is at most `value`.
pub const GRIDZ_MODE_RMS: u32 = 6;
/// Parameters of the codec's own.
pub const GRIDZ_MODE_EXPERT: u32 = 7;

/// `gridz_codec.backends`: the CPU.
pub const GRIDZ_BACKEND_CPU: u32 = 1;
/// `gridz_codec.backends`: an NVIDIA GPU.
pub const GRIDZ_BACKEND_CUDA: u32 = 2;

/// `gridz_options.flags`: decompress without comparing the checksum. What keeps decoding safe is
/// checked all the same, but damaged data may come back as wrong values.
pub const GRIDZ_FLAG_SKIP_CHECKSUM: u64 = 1;

/// `gridz_context_options.device`: gridz chooses.
pub const GRIDZ_DEVICE_AUTO: u32 = 0;
/// `gridz_context_options.device`: all NVIDIA GPUs that can be used.
pub const GRIDZ_DEVICE_ALL: u32 = 0xffff_ffff;
/// `gridz_context_options.device`: the CPU.
pub const GRIDZ_DEVICE_CPU: u32 = 0xffff_fffe;
/// `gridz_context_options.device`: an NVIDIA GPU, the one that gridz would choose.
pub const GRIDZ_DEVICE_CUDA: u32 = 0xffff_fffd;

/// What to read of a frame: the grid of level `value`, every 2^level-th element along each axis, from the first layer.
/// Level 0 is the array.
pub const GRIDZ_DETAIL_LEVEL: u32 = 0;
/// What to read of a frame: its first `value` layers.
pub const GRIDZ_DETAIL_LAYERS: u32 = 1;
/// What to read of a frame: as few layers as have a bound that is not above `value`, or such a root mean square if that is what
/// was asked for; all if none has.
pub const GRIDZ_DETAIL_ERROR: u32 = 2;

/// `gridz_csr.layout`: `starts` are those of rows, and `indices` are columns.
pub const GRIDZ_CCI_ROWS: u32 = 0;
/// `gridz_csr.layout`: `starts` are those of columns, and `indices` are rows.
pub const GRIDZ_CCI_COLUMNS: u32 = 1;

/// How a sparse matrix keeps its values: what is smallest, as far as it pays; bit for bit, as all of these.
pub const GRIDZ_CCI_VALUES_BEST: u32 = 0;
/// As they are.
pub const GRIDZ_CCI_VALUES_PLAIN: u32 = 1;
/// One for all. Others are an error.
pub const GRIDZ_CCI_VALUES_CONSTANT: u32 = 2;
/// Numbers of 1 or 2 bytes in a table of the different ones, at most 65536. More are an error.
pub const GRIDZ_CCI_VALUES_DICTIONARY: u32 = 3;
/// Multiples of a power of two, as bits, from the smallest of 32 rows.
pub const GRIDZ_CCI_VALUES_BLOCKS: u32 = 4;

/// Sums of products, as in algebra.
pub const GRIDZ_CCI_SEMIRING_PLUS_TIMES: u32 = 0;
/// Smallest of sums (shortest paths); infinity where a row has no elements.
pub const GRIDZ_CCI_SEMIRING_MIN_PLUS: u32 = 1;
/// Largest of products; minus infinity where a row has no elements.
pub const GRIDZ_CCI_SEMIRING_MAX_TIMES: u32 = 2;
/// 1 where an element and what it meets are both not 0, else 0 (what can be reached).
pub const GRIDZ_CCI_SEMIRING_OR_AND: u32 = 3;

/// Element type: one of `GRIDZ_DTYPE_*`. The numbers are those in frames and never change.
pub type gridz_dtype = u32;

/// Order of the bytes in an element: one of `GRIDZ_BYTE_ORDER_*`.
pub type gridz_byte_order = u32;

/// What a codec may do to the values: one of `GRIDZ_MODE_*`.
pub type gridz_mode = u32;

/// An array in memory, without its data: contiguous, in C order.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_array {
    /// `sizeof(gridz_array)`.
    pub struct_size: usize,
    /// Element type.
    pub dtype: gridz_dtype,
    /// Byte order of the elements. Means nothing for opaque and one-byte elements.
    pub byte_order: gridz_byte_order,
    /// Bytes of one element. 0 = that of `dtype`; `GRIDZ_DTYPE_OPAQUE` needs it.
    pub element_size: u32,
    /// Number of extents, 0 to `GRIDZ_MAX_RANK`. 0 = a scalar, which is one element.
    pub rank: u32,
    /// `rank` extents in elements, slowest-varying first; an extent may be 0. Read during the call
    /// only. May be NULL if `rank` is 0.
    pub extents: *const u64,
}

/// How to compress and decompress. All zero except `struct_size` means the defaults, and so does NULL
/// in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_options {
    /// `sizeof(gridz_options)`.
    pub struct_size: usize,
    /// Threads and memory. NULL = those of the process, without a limit. Must live until the call
    /// returns; any number of calls may share it at the same time.
    pub context: *const gridz_context,
    /// Name of the codec to compress with, one of those that `gridz_codec_info` tells. NULL = this version's default
    /// lossless codec. Or a whole request in text form, with a mode and its value and a level by number or name, such
    /// as `"lorenzo,level=dense"` and, of a codec that keeps an error bound, `"NAME,abs=1e-3,level=2"`; then `mode`,
    /// `level` and `value` are 0. Read during the call only. A frame knows its codec, so `gridz_decompress` checks
    /// `codec`, `mode`, `level` and `value` but does not need them; `gridz_decompress_async` does.
    pub codec: *const c_char,
    /// What the codec may do to the values: `gridz_codec_info` tells which of these it takes.
    pub mode: gridz_mode,
    /// Level of the codec; 0 = its default, and all that a codec without levels takes. `gridz_codec_info` tells the
    /// others.
    pub level: u32,
    /// The number that belongs to `mode`; 0 for `GRIDZ_MODE_LOSSLESS` and `GRIDZ_MODE_EXPERT`, whose numbers are said in
    /// text form, in `codec`.
    pub value: f64,
    /// 0 or `GRIDZ_FLAG_SKIP_CHECKSUM`.
    pub flags: u64,
    /// The fill values, which mark elements without data, such as -999: `n_fill_values` elements of the array's type, size
    /// and byte order, one after the other, in host memory. NULL = none. A codec with an error bound returns elements
    /// that equal one of them bit for bit, and decodes no other element to one of them. Lossless codecs return every
    /// element bit for bit, and do not read this. In text form fill values are written `fill=-999,fill=1e20`; both
    /// may be given. Read during the call only, and not by `gridz_decompress` and `gridz_decompress_region`.
    pub fill_value: *const c_void,
    /// How many fill values there are, at most 8. 0 = one, if `fill_value` is not NULL.
    pub n_fill_values: usize,
    /// The smallest and the largest valid number: elements outside of that range are treated like fill values. Each is one
    /// element of the array's type, size and byte order, in host memory; NULL = no limit. Not for complex
    /// elements. In text form `valid_min=0` and `valid_max=350`.
    pub valid_min: *const c_void,
    /// See `valid_min`.
    pub valid_max: *const c_void,
}

/// What `gridz_context_create` is to make. All zero except `struct_size` means the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_context_options {
    /// `sizeof(gridz_context_options)`.
    pub struct_size: usize,
    /// Worker threads of the context's own, 1 to 1024; 1 = only the calling thread works. 0 = share
    /// the workers of the process, of which there are `GRIDZ_THREADS` or the available cores divided
    /// by the MPI ranks on this machine.
    pub threads: u32,
    /// What computes: `GRIDZ_DEVICE_AUTO` for what `GRIDZ_BACKEND` says, or an NVIDIA GPU, counted from 1.
    /// Where that one cannot be used the context is not made, and memory of another one is refused.
    /// `GRIDZ_DEVICE_ALL`: `gridz_compress_chunks` and `gridz_decompress_chunks` deal chunks in host memory to all GPUs
    /// that can be used, and calls with one array in host memory take them in turn.
    /// `GRIDZ_DEVICE_CPU` and `GRIDZ_DEVICE_CUDA` are what `GRIDZ_BACKEND=cpu` and `cuda` are for a whole process.
    pub device: u32,
    /// Most bytes of working memory that one call may take beside the caller's buffers, apart from
    /// some bookkeeping per block; a call that needs more fails with `GRIDZ_ERROR_OUT_OF_MEMORY`.
    /// Compressing numbers of big-endian order that the codec takes takes the array's size,
    /// everything else takes none, except that where the CPU takes over from a GPU each of array,
    /// or region, and frame may be copied to the host. GPU
    /// memory, up to 100 MiB of pinned memory for each GPU, and 1 MiB for each thread that works are not counted; where
    /// many chunks go through GPUs, a batch for each has at most an eighth of the limit, all together. The GPU memory of `mgard` is up
    /// to 6 times the array to compress, and layers + 3.2 times to decompress. 0 = no limit.
    pub memory_limit: u64,
}

/// What a frame says about itself.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_frame_info {
    /// `sizeof(gridz_frame_info)`, set by the caller.
    pub struct_size: usize,
    /// Element type.
    pub dtype: gridz_dtype,
    /// `GRIDZ_BYTE_ORDER_LITTLE` or `GRIDZ_BYTE_ORDER_BIG`; little for opaque and one-byte elements.
    pub byte_order: gridz_byte_order,
    /// Bytes of one element.
    pub element_size: u32,
    /// Number of extents.
    pub rank: u32,
    /// `rank` extents in elements, slowest-varying first; the rest are 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Bytes of the array: what `gridz_decompress` needs as destination. It is what the frame says,
    /// and a damaged or hostile frame can say anything below 2^63: compare it with what you expect
    /// before you allocate so much.
    pub array_bytes: u64,
    /// Bytes of the whole frame, header included.
    pub frame_bytes: u64,
    /// Name of the codec that wrote the frame, or NULL if this version does not have it. Lives as long
    /// as the process.
    pub codec_name: *const c_char,
    /// Its number in the frame.
    pub codec: u32,
    /// What the codec was allowed to do to the values: `GRIDZ_MODE_LOSSLESS`, `GRIDZ_MODE_ABS` and so on. (0 in the
    /// first version, which knew lossless codecs only.)
    pub mode: u32,
    /// The number that belongs to the mode.
    pub value: f64,
    /// No element differs by more from what it was. 0 if none differs; NaN if there is no such bound (in mode
    /// `GRIDZ_MODE_PWREL`, `_RATE`, `_PRECISION` and `_EXPERT`), or it is behind the header in a part of the frame that was
    /// not given. It is a promise, not the error that there is. `zfp` and `mgard` keep it to what this frame was made of: where parts
    /// of an array are decoded, changed and encoded again and again, the rest of it drifts away.
    pub bound: f64,
}

/// What comes of a part of a frame of `mgard`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_part_info {
    /// `sizeof(gridz_part_info)`, set by the caller.
    pub struct_size: usize,
    /// Number of extents of what comes back: that of the array, but 4 for a grid of a level above 0 if the array has more
    /// axes than that with several elements, of which the first ones are merged.
    pub rank: u32,
    /// Its level: 0 for the array.
    pub level: u32,
    /// `rank` extents in elements, slowest-varying first; the rest are 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Its bytes: what `gridz_decompress_progressive` needs as destination. A damaged or hostile frame can say anything.
    pub array_bytes: u64,
    /// The first bytes of the frame that are needed, header included.
    pub frame_bytes: u64,
    /// Levels above that of the array.
    pub n_levels: u32,
    /// Layers that are read.
    pub layers: u32,
    /// Layers that there are.
    pub n_layers: u32,
    /// What holds for what comes back, as in `gridz_frame_info`.
    pub mode: u32,
    /// The number that belongs to the mode.
    pub value: f64,
    /// No element differs by more from what it was.
    pub bound: f64,
}

/// A codec of this library. What it points to lives as long as the process.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_codec {
    /// `sizeof(gridz_codec)`, set by the caller.
    pub struct_size: usize,
    /// Its name, the same everywhere.
    pub name: *const c_char,
    /// What it is for, in one line.
    pub description: *const c_char,
    /// The names of its `n_levels` levels. The first one is the default.
    pub level_names: *const *const c_char,
    /// Their numbers.
    pub level_numbers: *const u32,
    /// How many levels it has; 0 = it knows only level 0.
    pub n_levels: u32,
    /// Its number in frames and cd_values.
    pub id: u32,
    /// The modes that it takes: bit `GRIDZ_MODE_X` is set for each.
    pub modes: u32,
    /// The element types that it encodes: bit `GRIDZ_DTYPE_X` is set for each. Arrays of others are kept as they are
    /// in mode `GRIDZ_MODE_LOSSLESS`.
    pub dtypes: u32,
    /// What can compute it here: `GRIDZ_BACKEND_CPU`, and `GRIDZ_BACKEND_CUDA` if this library has kernels for it and
    /// this machine a GPU for them.
    pub backends: u32,
    /// Always 0.
    pub reserved: u32,
}

/// How the blocks of a frame are coded. Codecs that cut an array into blocks choose for each.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_block_counts {
    /// `sizeof(gridz_block_counts)`, set by the caller.
    pub struct_size: usize,
    /// All blocks.
    pub all: u64,
    /// Those that hold their elements as they are.
    pub raw: u64,
    /// Those of a single value.
    pub constant: u64,
    /// Those of numbers with fixed widths.
    pub packed: u64,
    /// Those with an entropy code.
    pub entropy: u64,
    /// Of those with numbers (packed, entropy, sparse): those in which floats are taken as multiples of a power of two.
    pub fixed_point: u64,
    /// Of the packed ones: those with a dictionary of their values.
    pub dictionary: u64,
    /// Those of which only the few numbers are kept that are not zero.
    pub sparse: u64,
    /// Of those with numbers: those in which floats are taken as decimal fractions, multiples of a power of ten.
    pub decimal: u64,
    /// Of those with numbers: those that leave out elements with one frequent value, such as a fill value.
    pub masked: u64,
    /// Of those with numbers: those in which floats are cut at a power of two, and the bits below it are kept as they are.
    pub cut: u64,
    /// Elements (of complex ones parts) that a codec with a bound keeps exactly in blocks of several values, since no other
    /// value is within the bound, or they are fill values, infinite or NaN.
    pub exact: u64,
}

/// What `gridz_quality` is to compare with. All zero except `struct_size` means no bound and no missing elements, and so does
/// NULL in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_quality_options {
    /// `sizeof(gridz_quality_options)`.
    pub struct_size: usize,
    /// Threads. NULL = those of the process.
    pub context: *const gridz_context,
    /// What `value` bounds: `GRIDZ_MODE_ABS`, `GRIDZ_MODE_REL` or `GRIDZ_MODE_PWREL`; `GRIDZ_MODE_LOSSLESS` = no bound.
    pub mode: gridz_mode,
    /// 0.
    pub reserved: u32,
    /// The number that belongs to `mode`; 0 for `GRIDZ_MODE_LOSSLESS`.
    pub value: f64,
    /// The fill values, which mark elements without data: `n_fill_values` elements of the array's type, size and byte order,
    /// one after the other, in host memory. NULL = none. Read during the call only.
    pub fill_value: *const c_void,
    /// How many fill values there are, at most 8. 0 = one, if `fill_value` is not NULL.
    pub n_fill_values: usize,
    /// The smallest and the largest valid number, each one element of the array's type, size and byte order, in host memory;
    /// NULL = no limit. Elements outside of that range are treated like fill values.
    pub valid_min: *const c_void,
    /// See `valid_min`.
    pub valid_max: *const c_void,
}

/// How close an array is to the original. Numbers are elements, or the two parts of each complex one. An index is that
/// of an element, in C order; of equal errors the first one counts. NaN is what there is no answer to: of no numbers, of
/// a range of 0, of too few axes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_quality_report {
    /// `sizeof(gridz_quality_report)`, set by the caller.
    pub struct_size: usize,
    /// Elements of the array.
    pub elements: u64,
    /// Numbers that are finite, and not fill values, in both arrays. All that follows is about them, but for the three
    /// mismatches.
    pub numbers: u64,
    /// Elements that are missing, that is fill values or outside of the valid range, in one of the arrays, and not the same in
    /// the other one.
    pub fill_mismatches: u64,
    /// Numbers that are NaN in one array, and not the same NaN, bit for bit, in the other.
    pub nan_mismatches: u64,
    /// Numbers that are infinite in one array, and not the same infinity in the other.
    pub infinity_mismatches: u64,
    /// Largest absolute error. It is the exact one, rounded to the nearest double.
    pub largest_error: f64,
    /// The exact one minus that; both together are exact. 0 unless elements have more bits than a double, or magnitudes
    /// that are far apart.
    pub largest_error_rest: f64,
    /// Where it is. `UINT64_MAX` if there are no numbers.
    pub largest_error_index: u64,
    /// Largest error divided by the magnitude of the original number; infinite where a zero has become another number.
    pub largest_relative_error: f64,
    /// Where it is. `UINT64_MAX` if there are no numbers.
    pub largest_relative_error_index: u64,
    /// The bound on the absolute error: `value` for `GRIDZ_MODE_ABS`, for `GRIDZ_MODE_REL` `value` × `range`, rounded
    /// down. NaN for the other modes.
    pub bound: f64,
    /// Largest error divided by the bound. It is above 1 if, and only if, an error is larger than the bound in exact
    /// arithmetic. NaN without a bound.
    pub error_over_bound: f64,
    /// Smallest number of the original.
    pub minimum: f64,
    /// Largest number of the original.
    pub maximum: f64,
    /// `maximum` − `minimum`.
    pub range: f64,
    /// Root of the sum of the squares of all errors.
    pub l2_error: f64,
    /// Root of the mean of these squares.
    pub rmse: f64,
    /// `rmse` / `range`.
    pub nrmse: f64,
    /// Peak signal-to-noise ratio, 20 log10(`range` / `rmse`), in dB; infinite if there are no errors.
    pub psnr: f64,
    /// Pearson's correlation coefficient.
    pub correlation: f64,
    /// Mean structural similarity (SSIM) of planes of the last two axes that are longer than 1. Windows are squares of 7
    /// × 7 numbers of equal weight, at every place where they fit and have no element that does not count; K1 = 0.01, K2
    /// = 0.03, L = `range`; variances are those of samples. So has scikit-image it by default.
    pub ssim_2d: f64,
    /// The same of volumes of the last three of these axes, in cubes of 7 × 7 × 7 numbers.
    pub ssim_3d: f64,
}

/// Threads and memory for gridz to work with. Made by `gridz_context_create`; only gridz looks inside.
#[derive(Debug)]
pub struct gridz_context(pub(super) gridz::Context);

/// A function whose type is not told.
pub type gridz_function = Option<unsafe extern "C" fn()>;

/// A function of libhdf5, for the functions of gridz that move whole datasets.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_function {
    /// Its name, such as `"H5Dwrite"`.
    pub name: *const c_char,
    /// The function, whatever its type.
    pub address: gridz_function,
}

/// Is told of the bytes of the array that are done, and how many there are, after every chunk or box, by the thread that
/// called gridz. Anything but 0 ends the call. The function must return, may not change the array, and may not use the dataset.
/// A C++ exception must not leave it: catch it inside, return 1, and rethrow it after the call.
pub type gridz_progress = Option<unsafe extern "C" fn(data: *mut c_void, done: u64, total: u64) -> i32>;

/// How to move a dataset. All zero except `struct_size` means the defaults, and so does NULL in place of the struct.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_options {
    /// `sizeof(gridz_h5_options)`.
    pub struct_size: usize,
    /// Threads. NULL = those of the process.
    pub context: *const gridz_context,
    /// Bytes from element to element in memory along each axis of the dataset, also negative ones; no two elements may have
    /// a byte in common. NULL = contiguous, in C order. The pointer of the call is that of the first element. Read during
    /// the call only.
    pub strides: *const i64,
    /// Is told of what is done, or NULL.
    pub progress: gridz_progress,
    /// What it is given.
    pub progress_data: *mut c_void,
    /// About how many bytes of buffers there may be, though always enough for one chunk; beside them, what the context's
    /// `memory_limit` says of each chunk. 0 = 1 GiB.
    pub memory_limit: u64,
    /// The data transfer property list, an `hid_t`. 0 = `H5P_DEFAULT`.
    pub dxpl: i64,
    /// A `cudaStream_t` (or `CUstream`), if `src` or `dst` is memory of a GPU: the call waits for the work that the stream has, which
    /// may be what makes the array. NULL = the program has waited for what its streams do with the array. For the
    /// default streams there are `cudaStreamLegacy` and `cudaStreamPerThread`.
    pub stream: *mut c_void,
}

/// What comes of a part of a dataset.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_h5_part_info {
    /// `sizeof(gridz_h5_part_info)`, set by the caller.
    pub struct_size: usize,
    /// Number of extents, that of the dataset.
    pub rank: u32,
    /// The level of the grid: 0 for the dataset itself.
    pub level: u32,
    /// `rank` extents in elements of what comes back, slowest-varying first; the rest are 0.
    pub extents: [u64; GRIDZ_MAX_RANK],
    /// Its bytes in memory, where it is contiguous.
    pub array_bytes: u64,
    /// Chunks that it is read of; those that were never written do not count.
    pub n_chunks: u64,
    /// The encoded bytes that these chunks have.
    pub stored_bytes: u64,
    /// How many of those are read.
    pub read_bytes: u64,
    /// Levels above 0 that the dataset has.
    pub n_levels: u32,
    /// Most layers that are read of a chunk; 0 if no chunk has layers.
    pub layers: u32,
    /// Most layers that a chunk has.
    pub n_layers: u32,
    /// Always 0.
    pub reserved: u32,
    /// No element differs by more from what it was; NaN if a chunk does not promise a bound. 0 of what is exact, such as chunks
    /// that were never written. What `gridz_frame_info` says of bounds holds here, too.
    pub bound: f64,
    /// In no chunk that is read, as a whole, is the root of the mean of the squares of all errors larger: what mode
    /// `GRIDZ_MODE_RMS` promises, or `bound`. NaN if a chunk promises neither.
    pub rms: f64,
}

/// A sparse matrix that is compressed in memory. Made by `gridz_cci_create` and `gridz_cci_open`; only gridz looks inside.
#[derive(Debug)]
pub struct gridz_cci(pub(crate) Matrix);

/// A sparse matrix in rows (CSR) or columns (CSC).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_csr {
    /// `sizeof(gridz_csr)`.
    pub struct_size: usize,
    /// Rows of the matrix.
    pub n_rows: u64,
    /// Columns of the matrix.
    pub n_cols: u64,
    /// Elements.
    pub nnz: u64,
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    pub dtype: gridz_dtype,
    /// Type of starts and indices: `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`.
    pub index_dtype: gridz_dtype,
    /// `GRIDZ_CCI_ROWS` or `GRIDZ_CCI_COLUMNS`.
    pub layout: u32,
    /// 0.
    pub reserved: u32,
    /// Where each row (column) starts among the elements, from 0, and at the end `nnz`: one more than rows (columns). The
    /// library cannot see the length of this memory; the caller ensures it. All three are aligned for their elements, and in
    /// host memory.
    pub starts: *const c_void,
    /// The column (row) of each element.
    pub indices: *const c_void,
    /// The value of each element. NULL: all are 1.
    pub values: *const c_void,
}

/// What a compressed sparse matrix is, and how it is kept.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gridz_cci_info {
    /// `sizeof(gridz_cci_info)`, set by the caller.
    pub struct_size: usize,
    /// Rows.
    pub n_rows: u64,
    /// Columns.
    pub n_cols: u64,
    /// Elements.
    pub nnz: u64,
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    pub dtype: gridz_dtype,
    /// How values are kept: 0 as they are, 1 one for all, 2 numbers of 1 byte in a table, 3 of 2 bytes, 4 blocks.
    pub values: u32,
    /// Side of the blocks that elements come in, such as the unknowns of a node; 1 = none.
    pub block: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of the frame, which is all that the matrix takes of memory but for 8 bytes for every 3840 rows.
    pub frame_bytes: u64,
    /// Bytes of values in it.
    pub value_bytes: u64,
    /// Elements whose columns take no bytes: the distances from the diagonal are known for 32 rows at a time.
    pub by_distance: u64,
    /// Elements in blocks with one code for each block.
    pub blocked: u64,
    /// Elements with codes of 1 or 2 bytes.
    pub short_codes: u64,
    /// Elements whose columns are kept as they are, in 4 or 8 bytes, as nothing shorter was found.
    pub plain: u64,
    /// Of all these: elements of rows that are much longer than others.
    pub long_rows: u64,
}
