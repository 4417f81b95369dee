/*
 * gridz: compression of scientific arrays.
 *
 * gridz_compress turns an array into a frame, gridz_decompress turns a frame into the array again, bit
 * for bit. A frame describes itself: dtype, byte order, extents and codec. Frames of a released
 * version are decoded by every later version. Link with -lgridz.
 *
 *     uint64_t extents[3] = {128, 128, 128};
 *     gridz_array array = {.struct_size = sizeof array, .dtype = GRIDZ_DTYPE_F32, .rank = 3,
 *                          .extents = extents};
 *     size_t bound, frame_bytes;
 *     gridz_compress_bound(&array, NULL, &bound);
 *     void *frame = malloc(bound);
 *     if (gridz_compress(&array, data, data_bytes, frame, bound, &frame_bytes, NULL) != GRIDZ_OK)
 *         fprintf(stderr, "%s\n", gridz_last_error());
 *
 * Many chunks of one type and shape in the memory of an NVIDIA GPU, one behind the other, to frames in
 * slots and back, on a CUDA stream and without waiting:
 *
 *     gridz_compress_bound(&array, NULL, &bound);
 *     size_t slot = (bound + 15) / 16 * 16, space;
 *     gridz_async_workspace_bytes(&array, n, stream, NULL, &space);
 *     cudaMalloc(&frames, n * slot);
 *     cudaMalloc(&lengths, n * sizeof(size_t));
 *     cudaMalloc(&statuses, n * sizeof(gridz_status));
 *     cudaMalloc(&workspace, space);
 *     gridz_compress_async(&array, n, chunks, chunk_bytes, frames, slot, lengths,
 *                          workspace, space, stream, NULL);
 *     gridz_decompress_async(&array, n, frames, slot, lengths, back, chunk_bytes, statuses,
 *                            workspace, space, stream, NULL);
 *     cudaMemcpyAsync(host_statuses, statuses, n * sizeof(gridz_status), cudaMemcpyDefault, stream);
 *     cudaStreamSynchronize(stream);
 *
 * Units.      Every size, length, capacity and bound is in bytes; extents are in elements.
 * Memory.     The caller owns every buffer and struct. gridz reads and writes them during the call only
 *             and keeps no pointer to them; the functions named *_async are done with the memory when
 *             their stream is. The one thing that gridz makes for the caller to end is a
 *             gridz_context. Texts that gridz returns are never freed by the caller.
 * Pointers.   A pointer must be valid for as many bytes as its length says. NULL is allowed for a
 *             buffer of length 0 and where this header says so, and is an error elsewhere. Source and
 *             destination may not overlap, and nobody else may write to a buffer during the call.
 * Structs.    Set everything to zero, then struct_size to the sizeof of the struct, then what you need.
 *             That keeps programs and libraries of different versions compatible: a field that the
 *             library does not know is an error only if it is not zero.
 * Errors.     Functions that can fail return GRIDZ_OK or a GRIDZ_ERROR_* code, and gridz_last_error has
 *             the text. They write their results only on success, except the needed size on
 *             GRIDZ_ERROR_DST_TOO_SMALL. Below, errors are named without GRIDZ_ERROR_; besides those named,
 *             any function may return INTERNAL, or INVALID_ARGUMENT for an environment variable.
 * Threads.    Every function may be called from any thread at any time, also with the same context,
 *             frame, source or options, and in a child after fork. Not from signal handlers.
 * Environment GRIDZ_THREADS=1..1024, GRIDZ_LOG=info|debug, GRIDZ_BACKEND=auto|cpu|cuda, GRIDZ_DEVICE=0..|all,
 *             GRIDZ_CACHE_MIB=0.., GRIDZ_CPU_LEVEL=scalar|avx2|avx512: read once per process, at the first
 *             call. A value that gridz does not know, or a level that the CPU lacks, fails every call.
 */

#ifndef GRIDZ_H
#define GRIDZ_H

/* Made by cbindgen from crates/gridz-capi/src; do not edit. */

#include <stddef.h>
#include <stdint.h>

/// Major version of this header. It grows with every incompatible change.
#define GRIDZ_VERSION_MAJOR 0

/// Minor version. It grows with additions and, while the major version is 0, with incompatible
/// changes.
#define GRIDZ_VERSION_MINOR 1

/// Patch version. It grows with corrections.
#define GRIDZ_VERSION_PATCH 0

/// Largest rank of an array.
#define GRIDZ_MAX_RANK 32

/// Elements of any size that gridz does not interpret: structs, strings.
#define GRIDZ_DTYPE_OPAQUE 0

/// Unsigned 8-bit integer.
#define GRIDZ_DTYPE_U8 1

/// Unsigned 16-bit integer.
#define GRIDZ_DTYPE_U16 2

/// Unsigned 32-bit integer.
#define GRIDZ_DTYPE_U32 3

/// Unsigned 64-bit integer.
#define GRIDZ_DTYPE_U64 4

/// Signed 8-bit integer.
#define GRIDZ_DTYPE_I8 5

/// Signed 16-bit integer.
#define GRIDZ_DTYPE_I16 6

/// Signed 32-bit integer.
#define GRIDZ_DTYPE_I32 7

/// Signed 64-bit integer.
#define GRIDZ_DTYPE_I64 8

/// IEEE binary16 (half).
#define GRIDZ_DTYPE_F16 9

/// bfloat16, the upper half of a binary32.
#define GRIDZ_DTYPE_BF16 10

/// IEEE binary32 (`float`).
#define GRIDZ_DTYPE_F32 11

/// IEEE binary64 (`double`).
#define GRIDZ_DTYPE_F64 12

/// Two binary32: real, imaginary (`float complex`).
#define GRIDZ_DTYPE_C64 13

/// Two binary64: real, imaginary (`double complex`).
#define GRIDZ_DTYPE_C128 14

/// Byte order of the machine that runs gridz. `gridz_inspect` never returns this value.
#define GRIDZ_BYTE_ORDER_NATIVE 0

/// Least significant byte first.
#define GRIDZ_BYTE_ORDER_LITTLE 1

/// Most significant byte first.
#define GRIDZ_BYTE_ORDER_BIG 2

/// Every element is restored bit for bit.
#define GRIDZ_MODE_LOSSLESS 0

/// No element differs by more than `value`.
#define GRIDZ_MODE_ABS 1

/// No element differs by more than `value` × (largest − smallest element of the array).
#define GRIDZ_MODE_REL 2

/// `value` bits for each element.
#define GRIDZ_MODE_RATE 3

/// `value` bit planes, a whole number.
#define GRIDZ_MODE_PRECISION 4

/// No element differs by more than `value` × its own magnitude; `value` is below 1.
#define GRIDZ_MODE_PWREL 5

/// The root mean square of all differences is at most `value`.
#define GRIDZ_MODE_RMS 6

/// Parameters that are specific to the codec.
#define GRIDZ_MODE_EXPERT 7

/// `gridz_codec.backends`: the CPU.
#define GRIDZ_BACKEND_CPU 1

/// `gridz_codec.backends`: an NVIDIA GPU.
#define GRIDZ_BACKEND_CUDA 2

/// `gridz_options.flags`: decompress without verifying the checksum. The checks that keep decoding
/// memory-safe still run, but damaged data may decode to wrong values.
#define GRIDZ_FLAG_SKIP_CHECKSUM 1

/// `gridz_context_options.device`: choose by `GRIDZ_BACKEND`.
#define GRIDZ_DEVICE_AUTO 0

/// `gridz_context_options.device`: all usable NVIDIA GPUs.
#define GRIDZ_DEVICE_ALL 4294967295

/// `gridz_context_options.device`: the CPU.
#define GRIDZ_DEVICE_CPU 4294967294

/// `gridz_context_options.device`: the NVIDIA GPU that gridz chooses.
#define GRIDZ_DEVICE_CUDA 4294967293

/// `detail`: the grid of level `value`, which holds every 2^level-th element along each axis,
/// decoded from the first layer. Level 0 is the whole array.
#define GRIDZ_DETAIL_LEVEL 0

/// `detail`: all elements, decoded from the first `value` layers.
#define GRIDZ_DETAIL_LAYERS 1

/// `detail`: all elements, from the fewest layers whose error bound is at most `value`; all layers
/// if none qualifies. For a frame in mode `GRIDZ_MODE_RMS` the root mean square counts instead of
/// the bound.
#define GRIDZ_DETAIL_ERROR 2

/// `gridz_csr.layout`: CSR. `starts` are row starts and `indices` are column indices.
#define GRIDZ_CCI_ROWS 0

/// `gridz_csr.layout`: CSC. `starts` are column starts and `indices` are row indices.
#define GRIDZ_CCI_COLUMNS 1

/// Value coding of a sparse matrix: the smallest of the lossless codings below. `BLOCKS` is chosen
/// only if it saves at least a fifth of the value bytes.
#define GRIDZ_CCI_VALUES_BEST 0

/// Value coding: values are stored verbatim.
#define GRIDZ_CCI_VALUES_PLAIN 1

/// Value coding: one value for all elements. Different values are an error.
#define GRIDZ_CCI_VALUES_CONSTANT 2

/// Value coding: indices of 1 or 2 bytes into a table of at most 65536 distinct values. More
/// distinct values are an error.
#define GRIDZ_CCI_VALUES_DICTIONARY 3

/// Value coding: the values of 32 rows as bit-packed multiples of a power of two, relative to the
/// smallest one.
#define GRIDZ_CCI_VALUES_BLOCKS 4

/// Sum of products, as in linear algebra.
#define GRIDZ_CCI_SEMIRING_PLUS_TIMES 0

/// Minimum of sums (shortest paths). The result of an empty row is infinity.
#define GRIDZ_CCI_SEMIRING_MIN_PLUS 1

/// Maximum of products. The result of an empty row is minus infinity.
#define GRIDZ_CCI_SEMIRING_MAX_TIMES 2

/// 1 if a row has a nonzero element that meets a nonzero vector element, else 0 (reachability).
#define GRIDZ_CCI_SEMIRING_OR_AND 3

/// Success.
#define GRIDZ_OK 0

/// An argument, option or environment variable has a value that no version of gridz accepts.
#define GRIDZ_ERROR_INVALID_ARGUMENT 100

/// The destination is too small. `*dst_bytes` is the needed size.
#define GRIDZ_ERROR_DST_TOO_SMALL 101

/// A valid request that this version of gridz or the chosen codec does not support.
#define GRIDZ_ERROR_UNSUPPORTED_JOB 102

/// A callback of the caller canceled the call.
#define GRIDZ_ERROR_CANCELLED 103

/// The bytes are not a frame, or were damaged after they were written.
#define GRIDZ_ERROR_CORRUPT 200

/// The bytes are the beginning of a frame whose end is missing.
#define GRIDZ_ERROR_TRUNCATED 201

/// A valid frame of a newer format or codec. A newer gridz may read it.
#define GRIDZ_ERROR_UNSUPPORTED_FORMAT 202

/// Memory allocation failed, or the memory limit of the context forbids it.
#define GRIDZ_ERROR_OUT_OF_MEMORY 300

/// The GPU or its driver is missing, too old, or failed.
#define GRIDZ_ERROR_DEVICE 301

/// Another library failed to do something that gridz needs from it.
#define GRIDZ_ERROR_HOST 400

/// A defect of gridz. The error text says what to report.
#define GRIDZ_ERROR_INTERNAL 900

/// A sparse matrix that stays compressed in memory. Opaque. `gridz_cci_create` and `gridz_cci_open`
/// create it, `gridz_cci_destroy` frees it.
typedef struct gridz_cci gridz_cci;

/// Worker threads and a memory limit for calls. Opaque. `gridz_context_create` creates it,
/// `gridz_context_destroy` frees it.
typedef struct gridz_context gridz_context;

/// Return value of a function: `GRIDZ_OK` or one of the `GRIDZ_ERROR_*` codes.
///
/// 1xx: invalid call. 2xx: invalid data. 3xx: failure of the machine. 4xx: failure of another
/// library. 9xx: defect of gridz. Later versions may add codes; handle an unknown code by its
/// family.
typedef int32_t gridz_status;

/// Element type: one of `GRIDZ_DTYPE_*`. Frames store these numbers, so they never change.
typedef uint32_t gridz_dtype;

/// Byte order of an element: one of `GRIDZ_BYTE_ORDER_*`.
typedef uint32_t gridz_byte_order;

/// Type and shape of an array in memory, which is contiguous and in C order. It has no data
/// pointer.
typedef struct gridz_array {
    /// `sizeof(gridz_array)`.
    size_t struct_size;
    /// Element type.
    gridz_dtype dtype;
    /// Byte order of the elements. Ignored for opaque and one-byte elements.
    gridz_byte_order byte_order;
    /// Bytes of one element. 0 = the size of `dtype`. `GRIDZ_DTYPE_OPAQUE` requires a size.
    uint32_t element_size;
    /// Number of extents, 0 to `GRIDZ_MAX_RANK`. 0 = a scalar, which has one element.
    uint32_t rank;
    /// `rank` extents in elements, slowest-varying first. An extent may be 0. Read during the call
    /// only. May be NULL if `rank` is 0.
    const uint64_t *extents;
} gridz_array;

/// Permitted change of the values: one of `GRIDZ_MODE_*`.
typedef uint32_t gridz_mode;

/// How to compress and decompress. Zero in all fields except `struct_size` selects the defaults. So
/// does NULL in place of the struct.
typedef struct gridz_options {
    /// `sizeof(gridz_options)`.
    size_t struct_size;
    /// Threads and memory. NULL = the worker threads of the process, and no memory limit. The
    /// context must outlive the call. Several calls may share it concurrently.
    const struct gridz_context *context;
    /// Name of a codec that `gridz_codec_info` lists, or a whole request in text form. NULL = the
    /// default lossless codec of this version. Read during the call only.
    ///
    /// A request in text form contains the codec, a mode with its value, and a level by number or
    /// name: `"lorenzo,level=dense"` or, for a codec with an error bound,
    /// `"NAME,abs=1e-3,level=2"`. `mode`, `level` and `value` must then be 0.
    ///
    /// A frame identifies its codec, so `gridz_decompress` validates `codec`, `mode`, `level` and
    /// `value` but does not need them. `gridz_decompress_async` needs them.
    const char *codec;
    /// Permitted change of the values. `gridz_codec_info` lists the modes of each codec.
    gridz_mode mode;
    /// Level of the codec. 0 = its default; codecs without levels accept only 0. `gridz_codec_info`
    /// lists the other levels.
    uint32_t level;
    /// The number that belongs to `mode`. It is 0 for `GRIDZ_MODE_LOSSLESS` and
    /// `GRIDZ_MODE_EXPERT`. The parameters of expert mode are given in text form, in `codec`.
    double value;
    /// 0 or `GRIDZ_FLAG_SKIP_CHECKSUM`.
    uint64_t flags;
    /// Fill values, which mark elements without data, such as -999. They are `n_fill_values`
    /// consecutive elements of the array's type, size and byte order, in host memory. NULL = none.
    ///
    /// A codec with an error bound restores elements that equal a fill value bit for bit, and
    /// decodes no other element to a fill value. Lossless codecs restore every element bit for bit
    /// and ignore this field. The text form is `fill=-999,fill=1e20`; both forms may be combined.
    /// Read during the call only. `gridz_decompress` and `gridz_decompress_region` do not read it.
    const void *fill_value;
    /// Number of fill values, at most 8. 0 = one, if `fill_value` is not NULL.
    size_t n_fill_values;
    /// Smallest valid number. Elements below it, or above `valid_max`, are treated like fill
    /// values. Both point to one element of the array's type, size and byte order, in host memory.
    /// NULL = no limit. Not supported for complex elements. The text form is
    /// `valid_min=0,valid_max=350`.
    const void *valid_min;
    /// Largest valid number. See `valid_min`.
    const void *valid_max;
} gridz_options;

/// Description of a part of a frame: a coarser grid, or fewer layers. Only `multigrid` supports parts.
typedef struct gridz_part_info {
    /// `sizeof(gridz_part_info)`, set by the caller.
    size_t struct_size;
    /// Number of extents of the result. It is the rank of the array, with one exception. For a
    /// level above 0 and an array with more than 4 axes of several elements it is 4: the first of
    /// these axes are merged.
    uint32_t rank;
    /// Level of the result. 0 = the array.
    uint32_t level;
    /// `rank` extents in elements, slowest-varying first. The remaining entries are 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Bytes of the result, which is the destination size that `gridz_decompress_progressive`
    /// needs. A damaged or hostile frame can claim any value.
    uint64_t array_bytes;
    /// Number of bytes at the start of the frame that are needed, header included.
    uint64_t frame_bytes;
    /// Number of levels above level 0.
    uint32_t n_levels;
    /// Number of layers that are read.
    uint32_t layers;
    /// Number of layers in the frame.
    uint32_t n_layers;
    /// Mode that holds for the result, as in `gridz_frame_info`.
    uint32_t mode;
    /// The number that belongs to `mode`.
    double value;
    /// Largest absolute difference between an element of the result and its original. See
    /// `gridz_frame_info`.
    double bound;
} gridz_part_info;

/// Numbers of blocks by coding. Codecs that divide an array into blocks choose a coding for each
/// block.
typedef struct gridz_block_counts {
    /// `sizeof(gridz_block_counts)`, set by the caller.
    size_t struct_size;
    /// All blocks.
    uint64_t all;
    /// Blocks that store their elements verbatim.
    uint64_t raw;
    /// Blocks that store a single value for all elements.
    uint64_t constant;
    /// Blocks of integers that are bit-packed with fixed widths.
    uint64_t packed;
    /// Blocks of integers that are entropy-coded.
    uint64_t entropy;
    /// Of the `packed`, `entropy` and `sparse` blocks: those that represent floats as multiples of
    /// a power of two.
    uint64_t fixed_point;
    /// Of the `packed` blocks: those that index a dictionary of their values.
    uint64_t dictionary;
    /// Blocks that store only their nonzero integers.
    uint64_t sparse;
    /// Of the `packed`, `entropy` and `sparse` blocks: those that represent floats as decimal
    /// fractions, that is multiples of a power of ten.
    uint64_t decimal;
    /// Of the `packed`, `entropy` and `sparse` blocks: those that leave out all elements with one
    /// frequent value, such as a fill value.
    uint64_t masked;
    /// Of the `packed`, `entropy` and `sparse` blocks: those that split floats at a power of two
    /// and store the lower bits verbatim.
    uint64_t cut;
    /// Elements (for complex types: parts of elements) that a codec with an error bound stores
    /// exactly, in blocks of several values. They are outliers that no code represents within the
    /// bound, fill values, infinities and NaNs.
    uint64_t exact;
} gridz_block_counts;

/// Description of a frame, from its header.
typedef struct gridz_frame_info {
    /// `sizeof(gridz_frame_info)`, set by the caller.
    size_t struct_size;
    /// Element type.
    gridz_dtype dtype;
    /// `GRIDZ_BYTE_ORDER_LITTLE` or `GRIDZ_BYTE_ORDER_BIG`; little for opaque and one-byte
    /// elements.
    gridz_byte_order byte_order;
    /// Bytes of one element.
    uint32_t element_size;
    /// Number of extents.
    uint32_t rank;
    /// `rank` extents in elements, slowest-varying first. The remaining entries are 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Bytes of the array, which is the destination size that `gridz_decompress` needs. The value
    /// comes from the frame, and a damaged or hostile frame can claim any value below 2^63. Compare
    /// it with the expected size before you allocate that much.
    uint64_t array_bytes;
    /// Bytes of the whole frame, header included.
    uint64_t frame_bytes;
    /// Name of the codec that wrote the frame, or NULL if this version lacks that codec. Valid for
    /// the lifetime of the process.
    const char *codec_name;
    /// Number of the codec in the frame.
    uint32_t codec;
    /// Mode that the frame was compressed in: one of `GRIDZ_MODE_*`. (The first version, which had
    /// lossless codecs only, always set 0.)
    uint32_t mode;
    /// The number that belongs to `mode`.
    double value;
    /// Largest absolute difference between a decoded element and its original. 0 = none differs.
    /// NaN = no such bound exists (modes `GRIDZ_MODE_PWREL`, `_RATE`, `_PRECISION` and `_EXPERT`),
    /// or it is stored after the header, in a part of the frame that was not passed.
    ///
    /// This is a guarantee, not the actual error. `zfp` and `multigrid` guarantee it only relative to
    /// the input of this frame. If parts of an array are decoded, modified and encoded repeatedly,
    /// the error of its other elements can grow each time.
    double bound;
} gridz_frame_info;

/// Options of `gridz_context_create`. Zero in all fields except `struct_size` selects the defaults.
typedef struct gridz_context_options {
    /// `sizeof(gridz_context_options)`.
    size_t struct_size;
    /// Number of worker threads that belong to the context, 1 to 1024. 1 = only the calling thread
    /// works. 0 = share the worker threads of the process. Their number is `GRIDZ_THREADS` or, by
    /// default, the available cores divided by the MPI ranks on this machine.
    uint32_t threads;
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
    uint32_t device;
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
    uint64_t memory_limit;
} gridz_context_options;

/// Description of a codec of this library. Its pointers are valid for the lifetime of the process.
typedef struct gridz_codec {
    /// `sizeof(gridz_codec)`, set by the caller.
    size_t struct_size;
    /// Name of the codec, the same in all interfaces.
    const char *name;
    /// Purpose of the codec, in one line.
    const char *description;
    /// Names of the `n_levels` levels. The first one is the default.
    const char *const *level_names;
    /// Numbers of the levels, in the same order.
    const uint32_t *level_numbers;
    /// Number of levels. 0 = the codec accepts only level 0.
    uint32_t n_levels;
    /// Number of the codec in frames and cd_values.
    uint32_t id;
    /// Modes of the codec: bit `GRIDZ_MODE_X` is set for each.
    uint32_t modes;
    /// Element types that the codec encodes: bit `GRIDZ_DTYPE_X` is set for each. In mode
    /// `GRIDZ_MODE_LOSSLESS` arrays of other types are stored verbatim.
    uint32_t dtypes;
    /// Back ends that run the codec here: `GRIDZ_BACKEND_CPU`, and `GRIDZ_BACKEND_CUDA` if this
    /// library has kernels for the codec and this machine has a GPU for them.
    uint32_t backends;
    /// Always 0.
    uint32_t reserved;
} gridz_codec;

/// Differences between an array and its original.
///
/// "Numbers" are elements; a complex element is two numbers, its parts. An index is the index of an
/// element in C order; the first one counts if errors are equal. A figure is NaN if it is
/// undefined: without numbers, with a range of 0, or with too few axes.
typedef struct gridz_quality_report {
    /// `sizeof(gridz_quality_report)`, set by the caller.
    size_t struct_size;
    /// Elements of the array.
    uint64_t elements;
    /// Numbers that are finite and not missing in both arrays. All figures below, except the three
    /// mismatches, are computed from these.
    uint64_t numbers;
    /// Elements that are missing (fill values or outside the valid range) in one array and not
    /// identical in the other.
    uint64_t fill_mismatches;
    /// Numbers that are NaN in one array and not bit-identical in the other.
    uint64_t nan_mismatches;
    /// Numbers that are infinite in one array and not the same infinity in the other.
    uint64_t infinity_mismatches;
    /// Largest absolute error: the exact value, rounded to the nearest double.
    double largest_error;
    /// Exact largest absolute error minus `largest_error`, so that the sum of both is exact. It is
    /// 0 unless elements have more bits than a double, or magnitudes that are far apart.
    double largest_error_rest;
    /// Index of the element with the largest absolute error. `UINT64_MAX` if there are no numbers.
    uint64_t largest_error_index;
    /// Largest error divided by the magnitude of the original number. Infinite if a zero became
    /// another number.
    double largest_relative_error;
    /// Index of the element with the largest relative error. `UINT64_MAX` if there are no numbers.
    uint64_t largest_relative_error_index;
    /// Bound on the absolute error: `value` for `GRIDZ_MODE_ABS`; `value` × `range`, rounded down,
    /// for `GRIDZ_MODE_REL`; NaN for the other modes.
    double bound;
    /// Largest error divided by the bound. It is above 1 if and only if an error exceeds the bound
    /// in exact arithmetic. NaN without a bound.
    double error_over_bound;
    /// Smallest number of the original.
    double minimum;
    /// Largest number of the original.
    double maximum;
    /// `maximum` − `minimum`.
    double range;
    /// Square root of the sum of all squared errors.
    double l2_error;
    /// Root mean square error.
    double rmse;
    /// `rmse` / `range`.
    double nrmse;
    /// Peak signal-to-noise ratio, 20 log10(`range` / `rmse`), in dB. Infinite if all errors are 0.
    double psnr;
    /// Pearson's correlation coefficient.
    double correlation;
    /// Mean structural similarity (SSIM) of all planes along the last two axes of extent above 1.
    /// The windows are squares of 7 × 7 numbers of equal weight, at every position where they fit
    /// and contain no excluded element. K1 = 0.01, K2 = 0.03, L = `range`, and sample variances.
    /// These are the defaults of scikit-image.
    double ssim_2d;
    /// Mean structural similarity of all volumes along the last three axes of extent above 1, with
    /// cubes of 7 × 7 × 7 numbers.
    double ssim_3d;
} gridz_quality_report;

/// Options of `gridz_quality` and `gridz_range`. Zero in all fields except `struct_size` means no
/// bound and no missing elements. So does NULL in place of the struct.
typedef struct gridz_quality_options {
    /// `sizeof(gridz_quality_options)`.
    size_t struct_size;
    /// Threads. NULL = the worker threads of the process.
    const struct gridz_context *context;
    /// Meaning of `value`: `GRIDZ_MODE_ABS`, `GRIDZ_MODE_REL` or `GRIDZ_MODE_PWREL`.
    /// `GRIDZ_MODE_LOSSLESS` = no bound.
    gridz_mode mode;
    /// Must be 0.
    uint32_t reserved;
    /// The bound, as `mode` defines it. 0 for `GRIDZ_MODE_LOSSLESS`.
    double value;
    /// Fill values, which mark elements without data. They are `n_fill_values` consecutive elements
    /// of the array's type, size and byte order, in host memory. NULL = none. Read during the call
    /// only.
    const void *fill_value;
    /// Number of fill values, at most 8. 0 = one, if `fill_value` is not NULL.
    size_t n_fill_values;
    /// Smallest valid number. Elements below it, or above `valid_max`, are treated like fill
    /// values. Both point to one element of the array's type, size and byte order, in host memory.
    /// NULL = no limit.
    const void *valid_min;
    /// Largest valid number. See `valid_min`.
    const void *valid_max;
} gridz_quality_options;

/// A sparse matrix in compressed rows (CSR) or columns (CSC).
typedef struct gridz_csr {
    /// `sizeof(gridz_csr)`.
    size_t struct_size;
    /// Rows of the matrix.
    uint64_t n_rows;
    /// Columns of the matrix.
    uint64_t n_cols;
    /// Number of elements.
    uint64_t nnz;
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    gridz_dtype dtype;
    /// Type of `starts` and `indices`: `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`.
    gridz_dtype index_dtype;
    /// `GRIDZ_CCI_ROWS` or `GRIDZ_CCI_COLUMNS`.
    uint32_t layout;
    /// Must be 0.
    uint32_t reserved;
    /// Index of the first element of each row (column), counted from 0, and `nnz` at the end: one
    /// entry more than there are rows (columns). gridz cannot check the length of this memory; the
    /// caller ensures it. `starts`, `indices` and `values` are in host memory and aligned for their
    /// elements.
    const void *starts;
    /// Column (row) of each element.
    const void *indices;
    /// Value of each element. NULL = all values are 1.
    const void *values;
} gridz_csr;

/// Dimensions of a compressed sparse matrix, and its coding.
typedef struct gridz_cci_info {
    /// `sizeof(gridz_cci_info)`, set by the caller.
    size_t struct_size;
    /// Rows.
    uint64_t n_rows;
    /// Columns.
    uint64_t n_cols;
    /// Number of elements.
    uint64_t nnz;
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    gridz_dtype dtype;
    /// Value coding: 0 verbatim, 1 one value for all, 2 table indices of 1 byte, 3 table indices of
    /// 2 bytes, 4 blocks.
    uint32_t values;
    /// Side of the dense blocks that the elements form, such as the unknowns of one node. 1 = no
    /// blocks.
    uint32_t block;
    /// Always 0.
    uint32_t reserved;
    /// Bytes of the frame. The matrix takes this much memory, plus 8 bytes for every 3840 rows.
    uint64_t frame_bytes;
    /// Bytes of the frame that hold values.
    uint64_t value_bytes;
    /// Elements whose columns take no bytes, because their distance from the diagonal is stored
    /// once for 32 rows.
    uint64_t by_distance;
    /// Elements in blocks, with one column code per block.
    uint64_t blocked;
    /// Elements with column codes of 1 or 2 bytes.
    uint64_t short_codes;
    /// Elements whose columns are stored verbatim in 4 or 8 bytes, because no shorter code was
    /// found.
    uint64_t plain;
    /// Elements of rows that are much longer than the other rows. They are included in the counts
    /// above.
    uint64_t long_rows;
} gridz_cci_info;

/// A function pointer of unspecified type.
typedef void (*gridz_function)(void);

/// Name and address of a libhdf5 function, for the functions that transfer whole datasets.
typedef struct gridz_h5_function {
    /// Name of the function, such as `"H5Dwrite"`.
    const char *name;
    /// Address of the function, cast from its own type.
    gridz_function address;
} gridz_h5_function;

/// Progress callback. The thread that called gridz invokes it after every chunk or box. `done` and
/// `total` are bytes of the array; `gridz_h5_inspect_progressive` counts chunks instead. Any return
/// value except 0 cancels the call, which then returns `GRIDZ_ERROR_CANCELLED`.
///
/// The callback must return, must not modify the array, and must not use the dataset. A C++
/// exception must not leave it: catch it inside, return 1, and rethrow it after the call.
typedef int32_t (*gridz_progress)(void *data, uint64_t done, uint64_t total);

/// Options for transferring a dataset. Zero in all fields except `struct_size` selects the
/// defaults. So does NULL in place of the struct.
typedef struct gridz_h5_options {
    /// `sizeof(gridz_h5_options)`.
    size_t struct_size;
    /// Threads. NULL = the worker threads of the process.
    const struct gridz_context *context;
    /// Distance in memory from element to element along each axis of the dataset, in bytes. Strides
    /// may be negative. No two elements may share a byte. The data pointer of the call is that of
    /// the first element. NULL = contiguous, in C order. Read during the call only.
    const int64_t *strides;
    /// Progress callback, or NULL.
    gridz_progress progress;
    /// First argument of `progress`.
    void *progress_data;
    /// Approximate limit for buffers, in bytes, but always enough for one chunk. The context's
    /// `memory_limit` applies to each chunk in addition. 0 = 1 GiB.
    uint64_t memory_limit;
    /// Data transfer property list, an `hid_t`. 0 = `H5P_DEFAULT`.
    int64_t dxpl;
    /// A `cudaStream_t` (or `CUstream`), if `src` or `dst` is GPU memory. The call waits for all
    /// work in this stream, such as the kernels that produce the array. NULL = the program has
    /// already synchronized the streams that use the array. Pass `cudaStreamLegacy` or
    /// `cudaStreamPerThread` for a default stream.
    void *stream;
} gridz_h5_options;

/// Description of a part of a dataset: a coarser grid, or fewer layers.
typedef struct gridz_h5_part_info {
    /// `sizeof(gridz_h5_part_info)`, set by the caller.
    size_t struct_size;
    /// Number of extents, the rank of the dataset.
    uint32_t rank;
    /// Level of the grid. 0 = the dataset itself.
    uint32_t level;
    /// `rank` extents of the result in elements, slowest-varying first. The remaining entries are
    /// 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Bytes of the result if it is contiguous in memory.
    uint64_t array_bytes;
    /// Number of chunks that the result needs. Chunks that were never written do not count.
    uint64_t n_chunks;
    /// Encoded bytes of these chunks.
    uint64_t stored_bytes;
    /// Encoded bytes that are read, at most `stored_bytes`.
    uint64_t read_bytes;
    /// Number of levels above level 0 that the dataset has.
    uint32_t n_levels;
    /// Largest number of layers read from a chunk. 0 if no chunk has layers.
    uint32_t layers;
    /// Largest number of layers in a chunk.
    uint32_t n_layers;
    /// Always 0.
    uint32_t reserved;
    /// Largest absolute difference between an element of the result and its original. NaN if a
    /// chunk guarantees no bound. Exact chunks, such as those that were never written, count as 0.
    /// The remarks on `bound` in `gridz_frame_info` apply here too.
    double bound;
    /// Upper limit of the root mean square error of each chunk that is read, taken over the whole
    /// chunk. It is the guarantee of mode `GRIDZ_MODE_RMS`, or else `bound`. NaN if a chunk
    /// guarantees neither.
    double rms;
} gridz_h5_part_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Computes the destination size that is always enough to compress an array, whatever its values.
///
/// Sets `*bound` to the largest number of bytes that `gridz_compress` may write with these
/// `options`, intermediate results included. It is a multiple of 16, and the smallest valid
/// `dst_stride` of `gridz_compress_async`. The frame itself is never longer than the array plus a
/// header of 40 + 8 * `rank` bytes, rounded up to a multiple of 16.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`.
gridz_status gridz_compress_bound(const struct gridz_array *array,
                                  const struct gridz_options *options,
                                  size_t *bound);

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
gridz_status gridz_compress(const struct gridz_array *array,
                            const void *src,
                            size_t src_bytes,
                            void *dst,
                            size_t dst_capacity,
                            size_t *dst_bytes,
                            const struct gridz_options *options);

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
gridz_status gridz_decompress(const void *frame,
                              size_t frame_bytes,
                              void *dst,
                              size_t dst_capacity,
                              size_t *dst_bytes,
                              const struct gridz_options *options);

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
/// - Otherwise: the GPU works, in one launch. `gridz_decompress_region_async` does the same without
///   waiting.
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
gridz_status gridz_decompress_region(const void *frame,
                                     size_t frame_bytes,
                                     uint32_t rank,
                                     const uint64_t *start,
                                     const uint64_t *count,
                                     void *dst,
                                     size_t dst_capacity,
                                     size_t *dst_bytes,
                                     const struct gridz_options *options);

/// Decompresses a part of a `multigrid` frame from its first bytes: its first layers, or a coarser
/// grid. Describes the result in `*info`, whose `struct_size` the caller has set.
///
/// `detail` is one of `GRIDZ_DETAIL_*` and `value` the number that belongs to it. `frame` may be
/// cut: `frame_bytes` must be at least the `frame_bytes` that `gridz_inspect_progressive` reports
/// for the same detail. Writes the result to the start of `dst`, which has `dst_capacity` bytes, in
/// C order and in its original byte order.
///
/// `frame`, `dst` or both may be memory of a GPU. GPUs decompress whole frames only. For a part,
/// the CPU copies the bytes that it needs and decompresses them. If a GPU is required, the call
/// fails where no GPU is available, and logs a warning where the CPU decompresses.
///
/// The blocks that are read are compared with their checksums. If the whole frame is read, so is
/// its checksum.
///
/// Errors: those of `gridz_decompress`, `DST_TOO_SMALL` with the needed bytes in
/// `info->array_bytes`; `INVALID_ARGUMENT` for a level or layer that the frame does not have;
/// `UNSUPPORTED_JOB` for frames of other codecs. An array that `multigrid` could not make smaller is
/// such a frame, written by `stored`.
gridz_status gridz_decompress_progressive(const void *frame,
                                          size_t frame_bytes,
                                          uint32_t detail,
                                          double value,
                                          void *dst,
                                          size_t dst_capacity,
                                          struct gridz_part_info *info,
                                          const struct gridz_options *options);

/// Describes the result of `gridz_decompress_progressive` for a level or a number of layers,
/// without decompressing anything.
///
/// `frame` may be the first bytes of a frame. For layers 3072 bytes are enough. A level above 0
/// also needs the frame's table: 8 bytes for each 65536 elements, and a few more for each level.
///
/// Errors: `INVALID_ARGUMENT`, also for a level or layer that the frame does not have;
/// `UNSUPPORTED_JOB` for frames of other codecs; `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect_progressive(const void *frame,
                                       size_t frame_bytes,
                                       uint32_t detail,
                                       double value,
                                       struct gridz_part_info *info);

/// Counts the blocks of a frame by coding and compares them with their checksums. Writes `*counts`,
/// whose `struct_size` the caller has set. The frame may be in GPU memory.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for codecs with one kind of block, `CORRUPT`,
/// `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect_blocks(const void *frame,
                                  size_t frame_bytes,
                                  struct gridz_block_counts *counts);

/// Reads the header of a frame into `*info`, whose `struct_size` the caller has set.
///
/// `frame` may be the first bytes of a frame: 560 hold any header. `info->frame_bytes` is the
/// length of the whole frame. The payload is not read. `frame` may be memory of an NVIDIA GPU.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect(const void *frame, size_t frame_bytes, struct gridz_frame_info *info);

/// Creates a context with its own threads, device and memory limit. NULL for `options` = the
/// defaults.
///
/// The caller owns `*context` and frees it with `gridz_context_destroy`. The threads start at the
/// first call with enough work for them, and again in a forked child.
///
/// Errors: `INVALID_ARGUMENT`, `DEVICE` for a GPU that cannot be used.
gridz_status gridz_context_create(const struct gridz_context_options *options,
                                  struct gridz_context **context);

/// Frees a context. No call may be using it, and none may use it afterwards. NULL is ignored.
void gridz_context_destroy(struct gridz_context *context);

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
void gridz_release_caches(void);

/// Returns the name of a status as spelled in this header. Never NULL; valid for the lifetime of
/// the process.
const char *gridz_status_name(gridz_status status);

/// Returns the error text of the calling thread's last failed call: the cause and, where possible,
/// a remedy. The text is UTF-8 and meant for people; programs must not compare it. It is empty if
/// no call has failed. Never NULL; valid until the thread's next failing call or its end.
const char *gridz_last_error(void);

/// Returns the version of the library, such as `"1.2.3"`. `GRIDZ_VERSION_*` is the version of this
/// header. Never NULL; valid for the lifetime of the process.
const char *gridz_version(void);

/// Computes the size of the GPU workspace that `gridz_compress_async`, `gridz_decompress_async` and
/// `gridz_decompress_region_async` need.
///
/// Sets `*bytes` to the largest workspace that any of these calls needs for `n_chunks` arrays like
/// `array` with these `options`, on the GPU of `stream`. It may differ between GPU models. The call
/// also loads the kernels of both directions into the stream's CUDA context, which takes a moment
/// the first time. After that, such calls only enqueue work on a stream of that context. Call this
/// function before a stream is captured into a CUDA graph. NULL for `stream` = the default stream
/// of the current CUDA context or, without one, of the GPU that `gridz_compress` would choose.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for too many chunks and for codecs without kernels
/// (`lorenzo` at level 3), `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_async_workspace_bytes(const struct gridz_array *array,
                                         size_t n_chunks,
                                         void *stream,
                                         const struct gridz_options *options,
                                         size_t *bytes);

/// Enqueues the compression of `n_chunks` arrays of one type and shape on a CUDA stream.
///
/// The call returns at once. After `gridz_async_workspace_bytes` for such arrays it never waits for
/// the GPU and never reads GPU memory. Without that, the first call loads the kernels, which may
/// wait. The return value reports invalid arguments. An error of the GPU itself shows up in the
/// calls that wait for the stream.
///
/// Once the stream has completed the work, frame i is at `dst + i * dst_stride` and its length in
/// bytes is `frame_bytes[i]`. The rest of its slot is unspecified. The frames are those of
/// `gridz_compress`: any machine decodes them.
///
/// All buffers are GPU memory, or managed or pinned memory that the GPU can access. They must not
/// overlap and must stay valid until the stream has completed the work. `array` and `options` are
/// read during the call only.
///
/// - `src`: array i is at `src + i * src_stride`. With more than one chunk, `src_stride` is at
///   least the size of an array; with one chunk it is ignored. Arrays whose elements the codec
///   interprets (`ndzip`: `float` and `double`; `lorenzo`: all but complex types) must be aligned
///   to their element size, and so must `src_stride`. Fastest if all rows begin at multiples of 16
///   bytes.
/// - `dst`: slots for frames, aligned to 16 bytes. `dst_stride` is a multiple of 16 and, also with
///   one chunk, at least the bound of `gridz_compress_bound`. The last slot needs that many bytes
///   too.
/// - `frame_bytes`: `n_chunks` lengths, in GPU memory, aligned to 8 bytes.
/// - `workspace`: `workspace_bytes` bytes of GPU memory, at least the size that
///   `gridz_async_workspace_bytes` reports. Aligned to 8 bytes, preferably 256. Calls on different
///   streams need separate workspaces; calls on one stream may share one. With NULL and 0 gridz
///   allocates it from its own stream-ordered memory pool, which `gridz_release_caches` describes.
///   Pass a workspace if the stream is being captured into a CUDA graph. The graph can then be
///   launched again with other contents of `src`.
/// - `stream`: a `CUstream` or `cudaStream_t`. NULL = the legacy default stream of the current CUDA
///   context or, without one, of the context that owns `dst`.
///
/// With 0 chunks the call does nothing, whatever the pointers are. Arrays of a type that the codec
/// does not encode are stored, as by `gridz_compress`.
///
/// Errors: `INVALID_ARGUMENT`, naming the argument; `UNSUPPORTED_JOB` for too many chunks (2^31, or
/// fewer if chunks exceed 16 KiB) and for `lorenzo` at level 3, which only `gridz_compress`
/// supports; `OUT_OF_MEMORY`; `DEVICE`, also with `GRIDZ_BACKEND=cpu`, since there is no fallback
/// to the CPU.
gridz_status gridz_compress_async(const struct gridz_array *array,
                                  size_t n_chunks,
                                  const void *src,
                                  size_t src_stride,
                                  void *dst,
                                  size_t dst_stride,
                                  size_t *frame_bytes,
                                  void *workspace,
                                  size_t workspace_bytes,
                                  void *stream,
                                  const struct gridz_options *options);

/// Enqueues the decompression of `n_chunks` frames of one type and shape on a CUDA stream.
///
/// This is the counterpart of `gridz_compress_async`. Its rules for memory, alignment, `workspace`
/// and `stream` apply here too.
///
/// - `frames`: frame i is at `frames + i * frame_stride` and has `frame_bytes[i]` bytes.
///   `frame_stride` is a multiple of 16 and at least the bound of `gridz_compress_bound`. The last
///   slot needs that many bytes too, because a few bytes of a slot are read even if its frame is
///   truncated.
/// - `frame_bytes`: read when the stream reaches this work. So it may be written by an earlier
///   `gridz_compress_async` on the stream. `frames` and `frame_bytes` are never written.
/// - `dst`: array i is written to `dst + i * dst_stride`, in the byte order of `array`.
/// - `statuses`: `n_chunks` elements in GPU memory, aligned to 4 bytes.
///
/// Once the stream has completed the work, `statuses[i]` is `GRIDZ_OK`, `GRIDZ_ERROR_CORRUPT` or
/// `GRIDZ_ERROR_TRUNCATED`. After an error the contents of array i are unspecified; the other
/// arrays are valid.
///
/// A valid frame still counts as corrupt if `gridz_compress_async` would not make such a frame with
/// this `array` and these `options`. Unlike in `gridz_decompress`, the codec matters here. Name it
/// in the options if frames are stored for longer, because the default may change in a later
/// version. Use `gridz_decompress` for frames of other arrays, codecs or versions. Also use it for
/// packed frames, because this function expects each frame in its slot.
///
/// Untrusted input is safe. `GRIDZ_FLAG_SKIP_CHECKSUM` is respected. Fastest if all rows of the
/// arrays begin at multiples of 8 bytes, or of 32 where possible.
///
/// Errors: those of `gridz_compress_async`. A bad frame is not an error of the call.
gridz_status gridz_decompress_async(const struct gridz_array *array,
                                    size_t n_chunks,
                                    const void *frames,
                                    size_t frame_stride,
                                    const size_t *frame_bytes,
                                    void *dst,
                                    size_t dst_stride,
                                    gridz_status *statuses,
                                    void *workspace,
                                    size_t workspace_bytes,
                                    void *stream,
                                    const struct gridz_options *options);

/// Enqueues the decompression of a region of each of `n_chunks` frames of one type and shape on a
/// CUDA stream: `count` elements from `start` on, along each axis of `array`.
///
/// All rules of `gridz_decompress_async` apply. Region i is written to `dst + i * dst_stride`, its
/// elements contiguous in C order. With more than one chunk, `dst_stride` is at least the size of a
/// region. `start` and `count` have `array->rank` numbers in elements, slowest-varying axis first.
/// They are read during the call only.
///
/// One launch decodes only the blocks that the region touches. It verifies the checksums that
/// `gridz_decompress_region` lists. So a frame may be damaged elsewhere although its status is
/// `GRIDZ_OK`.
///
/// Errors: those of `gridz_decompress_async`; `INVALID_ARGUMENT` if the region is not inside the
/// array.
gridz_status gridz_decompress_region_async(const struct gridz_array *array,
                                           size_t n_chunks,
                                           const void *frames,
                                           size_t frame_stride,
                                           const size_t *frame_bytes,
                                           const uint64_t *start,
                                           const uint64_t *count,
                                           void *dst,
                                           size_t dst_stride,
                                           gridz_status *statuses,
                                           void *workspace,
                                           size_t workspace_bytes,
                                           void *stream,
                                           const struct gridz_options *options);

/// Computes the destination size that is always enough for `gridz_compress_chunks`, whatever the
/// values.
///
/// Sets `*bound` to `n_chunks` times the size of an array plus a header, rounded up to a multiple
/// of 16.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_packed_bound(const struct gridz_array *array, size_t n_chunks, size_t *bound);

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
gridz_status gridz_compress_chunks(const struct gridz_array *array,
                                   size_t n_chunks,
                                   const void *src,
                                   size_t src_stride,
                                   void *dst,
                                   size_t dst_capacity,
                                   size_t *frame_bytes,
                                   size_t *dst_bytes,
                                   const struct gridz_options *options);

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
gridz_status gridz_decompress_chunks(const struct gridz_array *array,
                                     size_t n_chunks,
                                     const void *frames,
                                     size_t frames_bytes,
                                     const size_t *frame_bytes,
                                     void *dst,
                                     size_t dst_stride,
                                     const struct gridz_options *options);

/// Enqueues on a CUDA stream the packing of frames that `gridz_compress_async` writes to slots.
/// Packed frames can be sent, or copied to the host, without unused bytes between them.
///
/// Frame i is at `frames + i * frame_stride`, has `frame_bytes[i]` bytes, and is copied to offset
/// `offsets[i]` of `packed`: the first multiple of 16 after the previous frame. `offsets[n_frames]`
/// is the end of the last frame, rounded up in the same way. Gaps between frames are zeroed. Frames
/// that do not fit in the `packed_capacity` bytes of `packed` are left out. `offsets[n_frames]` is
/// then larger than `packed_capacity`. A length above `frame_stride` is invalid and counts as 0.
///
/// The memory rules of `gridz_compress_async` apply: GPU memory, no overlaps, valid until the
/// stream has completed the work. `frames` and `packed` are aligned to 16 bytes, and `frame_stride`
/// is a multiple of 16. The last slot has `frame_stride` bytes too. `frame_bytes` has `n_frames`
/// lengths and `offsets` has `n_frames` + 1 elements; both are aligned to 8 bytes, and may be
/// pinned host memory. Only the first call of a process may wait for the GPU. With 0 frames the
/// call does nothing and does not write `offsets`.
///
/// Errors: `INVALID_ARGUMENT`, naming the argument; `UNSUPPORTED_JOB` for too many frames;
/// `DEVICE`.
gridz_status gridz_pack_async(size_t n_frames,
                              const void *frames,
                              size_t frame_stride,
                              const size_t *frame_bytes,
                              void *packed,
                              size_t packed_capacity,
                              size_t *offsets,
                              void *stream);

/// Enqueues on a CUDA stream the unpacking of packed frames into slots for
/// `gridz_decompress_async`.
///
/// This is the inverse of `gridz_pack_async`, with the same rules for memory. Frame i has
/// `frame_bytes[i]` bytes, is at `packed + offsets[i]` and is copied to `frames + i *
/// frame_stride`. `offsets` needs only `n_frames` elements here.
///
/// Offsets and lengths may be untrusted. `lengths[i]` is set to the length of frame i. It is set to
/// 0 if the frame does not begin at a multiple of 16, is not wholly inside the `packed_bytes` bytes
/// of `packed` (a multiple of 16), or is longer than `frame_stride`. Pass `lengths` to
/// `gridz_decompress_async`, which reports a frame of length 0 as truncated.
///
/// Errors: those of `gridz_pack_async`.
gridz_status gridz_unpack_async(size_t n_frames,
                                const void *packed,
                                size_t packed_bytes,
                                const size_t *offsets,
                                const size_t *frame_bytes,
                                void *frames,
                                size_t frame_stride,
                                size_t *lengths,
                                void *stream);

/// Returns the number of codecs in this library.
size_t gridz_codec_count(void);

/// Returns the name of the codec at `index`, or NULL if `index` is not below `gridz_codec_count()`.
/// Valid for the lifetime of the process. Unlike `gridz_codec_info`, this never initializes the GPU
/// driver.
const char *gridz_codec_name(size_t index);

/// Describes the codec at `index`, which is below `gridz_codec_count()`, in `*codec`, whose
/// `struct_size` the caller has set. The first codec is always `"stored"`. The pointers in `*codec`
/// are valid for the lifetime of the process.
///
/// In a library with CUDA kernels this loads the driver and queries the GPUs, as every call does
/// that uses a GPU. A process forked afterwards cannot use GPUs.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_codec_info(size_t index, struct gridz_codec *codec);

/// Converts a request in text form, such as `"lorenzo,level=dense"` or `"quant,abs=1e-3"`, to
/// cd_values for `H5Pset_filter`, h5repack's UD and `nc_def_var_filter`.
///
/// Writes `*n_values` cd_values to `values`, which has room for `capacity` of them; 64 are always
/// enough. They include the fill values and the valid range of the text. The filter adds the fill
/// value of the dataset's property list. h5repack accepts at most 20 values; requests with more
/// than four fill values and limits may have more.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `DST_TOO_SMALL` with the needed capacity in
/// `*n_values`.
gridz_status gridz_cd_values(const char *request,
                             uint32_t *values,
                             size_t capacity,
                             size_t *n_values);

/// Converts cd_values of the filter, from a user or stored with a dataset, to a request in text
/// form.
///
/// Writes the text and a terminating 0 byte to `text`, which has room for `capacity` bytes. Sets
/// `*text_bytes` to the number of bytes, the 0 byte included. 1024 bytes are enough for all codecs
/// of this version.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `CORRUPT`, `UNSUPPORTED_FORMAT` for values of a
/// later version, `DST_TOO_SMALL` with the needed bytes in `*text_bytes`.
gridz_status gridz_cd_text(const uint32_t *values,
                           size_t n_values,
                           char *text,
                           size_t capacity,
                           size_t *text_bytes);

/// Compares an array with its original. Writes the largest errors and their positions, whether a
/// bound is kept, and the usual quality figures to `*report`, whose `struct_size` the caller has
/// set.
///
/// `original` and `decoded` are two arrays like `array` in host memory, of equal `original_bytes`
/// and `decoded_bytes`. Any codec may have produced `decoded`. Elements that are not finite, or
/// missing, in one of them count only in the mismatches. Working memory is less than 1 MiB for each
/// working thread. The report does not depend on the number of threads.
///
/// Errors: `INVALID_ARGUMENT`; `UNSUPPORTED_JOB` for opaque elements, for `GRIDZ_MODE_PWREL` with
/// integers, for modes that do not bound each error, and for GPU memory; `OUT_OF_MEMORY`.
gridz_status gridz_quality(const struct gridz_array *array,
                           const void *original,
                           size_t original_bytes,
                           const void *decoded,
                           size_t decoded_bytes,
                           struct gridz_quality_report *report,
                           const struct gridz_quality_options *options);

/// Finds the smallest and the largest number of an array. Use it to compute a bound relative to the
/// range, or to combine the ranges of several processes: the smallest minimum and the largest
/// maximum.
///
/// `data` is an array like `array` of `data_bytes` bytes, in host memory. Elements that are not
/// finite, or missing, do not count. Without any numbers `*minimum` is infinity and `*maximum`
/// minus infinity. 64-bit integers that a double cannot represent are rounded toward the inside of
/// the range, so `*minimum` may exceed `*maximum`. `mode` and `value` of the options must be 0.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements and for GPU memory,
/// `OUT_OF_MEMORY`.
gridz_status gridz_range(const struct gridz_array *array,
                         const void *data,
                         size_t data_bytes,
                         double *minimum,
                         double *maximum,
                         const struct gridz_quality_options *options);

/// Returns `value` times the range from `minimum` to `maximum`, rounded down: the absolute bound
/// (`GRIDZ_MODE_ABS`) that keeps all errors within `value` times the range.
///
/// Returns 0, which no codec accepts as a bound, if an argument is not finite or the range is
/// empty: all numbers are equal, or there are none.
double gridz_relative_bound(double minimum, double maximum, double value);

/// Compresses a sparse matrix. The caller owns `*cci` and frees it with `gridz_cci_destroy`.
///
/// `csr` describes the matrix in rows or columns and is not needed afterwards. The elements of a
/// row keep their order, even if their columns are unsorted or duplicated. `values` is one of
/// `GRIDZ_CCI_VALUES_*`. `context` may be NULL.
///
/// Working memory is proportional to the number of elements, plus 16 bytes for every 3840 rows. The
/// frame has at least 1 byte per row.
///
/// Errors: `INVALID_ARGUMENT` for an invalid matrix, or for values that `values` cannot code;
/// `UNSUPPORTED_JOB` for other types, for GPU memory, and for more elements than one frame can hold
/// (more than 10^11); `OUT_OF_MEMORY`.
gridz_status gridz_cci_create(const struct gridz_csr *csr,
                              uint32_t values,
                              const struct gridz_context *context,
                              struct gridz_cci **cci);

/// Frees a sparse matrix. No call may be using it, and none may use it or its frame afterwards.
/// NULL is ignored.
void gridz_cci_destroy(struct gridz_cci *cci);

/// Describes a sparse matrix and its coding in `*info`, whose `struct_size` the caller has set.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_inspect(const struct gridz_cci *cci, struct gridz_cci_info *info);

/// Returns the frame that holds a sparse matrix: `*frame_bytes` bytes at `*frame`, valid as long as
/// the matrix. The same matrix has the same frame on every machine. Write these bytes to store the
/// matrix; `gridz_cci_open` reads them.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_frame(const struct gridz_cci *cci, const void **frame, size_t *frame_bytes);

/// Creates a sparse matrix from its frame, which is in host memory and not needed afterwards. The
/// caller owns `*cci` and frees it with `gridz_cci_destroy`. `context` may be NULL.
///
/// Untrusted input is safe: all tables are checked, and a damaged or hostile frame gives an error.
/// Time and memory are proportional to `frame_bytes`, regardless of the rows and elements that the
/// frame claims.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`, `OUT_OF_MEMORY`;
/// `UNSUPPORTED_JOB` for GPU memory and for slices that share codes, which no version of gridz
/// writes.
gridz_status gridz_cci_open(const void *frame,
                            size_t frame_bytes,
                            const struct gridz_context *context,
                            struct gridz_cci **cci);

/// Multiplies a sparse matrix by `n_vectors` vectors: Y = A X, or Y = Aᵀ X if `transposed` is 1
/// instead of 0.
///
/// `semiring` is one of `GRIDZ_CCI_SEMIRING_*`. `x` and `y` have elements of the matrix's type, in
/// `x_bytes` and `y_bytes` bytes, and must not overlap. `n_vectors` is 1 to 256. Several vectors
/// are interleaved: element c of vector j is `x[c * n_vectors + j]`. `context` may be NULL.
///
/// The result does not depend on the number of threads or the CPU's instruction set. Each row is
/// summed from its first element to its last, with one multiplication and one addition per element.
/// SPEC.md defines the order for rows that are much longer than the other rows.
///
/// With `transposed`, results of parts of the matrix are added. For each vector they take memory of
/// up to an eighth of the matrix's elements. A matrix created from the transpose is faster.
///
/// `x` and `y` may both be memory of an NVIDIA GPU, as for `gridz_compress`. This supports one
/// vector, not transposed, and the semiring `GRIDZ_CCI_SEMIRING_PLUS_TIMES` only. The first call
/// copies the frame to the GPU; see `gridz_cci_multiply_async`.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for products that GPUs do not support,
/// `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_cci_multiply(const struct gridz_cci *cci,
                                uint32_t semiring,
                                uint32_t transposed,
                                size_t n_vectors,
                                const void *x,
                                size_t x_bytes,
                                void *y,
                                size_t y_bytes,
                                const struct gridz_context *context);

/// Enqueues a product on a CUDA stream: y = A x with vectors in GPU memory, in the semiring
/// `GRIDZ_CCI_SEMIRING_PLUS_TIMES`. The result is bit-identical to that of the CPU.
///
/// The first call for a GPU copies the compressed frame to it and waits for that. The copy stays
/// there as long as the matrix exists. Both vectors are aligned for their elements. The vectors and
/// the matrix must stay valid until the stream has completed the work. `stream` is a `cudaStream_t`
/// or `CUstream`; NULL is the legacy default stream.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for more than 2^32 rows or columns,
/// `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_cci_multiply_async(const struct gridz_cci *cci,
                                      const void *x,
                                      size_t x_bytes,
                                      void *y,
                                      size_t y_bytes,
                                      void *stream);

/// Counts the elements of `n` rows, from row `first` on.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_count(const struct gridz_cci *cci,
                             uint64_t first,
                             uint64_t n,
                             uint64_t *nnz);

/// Decodes `n` rows, from row `first` on: their `n + 1` row starts, counted from 0, and the columns
/// and values of their elements in the original order. `nnz` is the number of these elements, as
/// `gridz_cci_count` returns it.
///
/// `index_dtype` is `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`, the type of `starts` and `columns`. All
/// three arrays are in host memory and aligned for their elements. `values` and `context` may be
/// NULL.
///
/// Errors: `INVALID_ARGUMENT`, also if the index type is too narrow; `OUT_OF_MEMORY`.
gridz_status gridz_cci_decode(const struct gridz_cci *cci,
                              uint64_t first,
                              uint64_t n,
                              gridz_dtype index_dtype,
                              void *starts,
                              void *columns,
                              void *values,
                              uint64_t nnz,
                              const struct gridz_context *context);

/// Writes a box of a dataset. This implements `gridz_h5_write` of `gridz_hdf5.h`, which documents
/// it and passes the functions of the program's libhdf5.
///
/// `functions` ends with an entry whose name is NULL. NULL in place of the list = look up these
/// functions in the program, which must be linked with one libhdf5.
///
/// Errors: those of `gridz_h5_write`.
gridz_status gridz_h5_write_by(const struct gridz_h5_function *functions,
                               int64_t dataset,
                               int64_t mem_type,
                               const uint64_t *start,
                               const uint64_t *count,
                               const void *src,
                               const struct gridz_h5_options *options);

/// Reads a box of a dataset. This implements `gridz_h5_read` of `gridz_hdf5.h`; see
/// `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_read`.
gridz_status gridz_h5_read_by(const struct gridz_h5_function *functions,
                              int64_t dataset,
                              int64_t mem_type,
                              const uint64_t *start,
                              const uint64_t *count,
                              void *dst,
                              const struct gridz_h5_options *options);

/// Reads a coarser grid, or fewer layers, of a box of a dataset. This implements
/// `gridz_h5_read_progressive` of `gridz_hdf5.h`; see `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_read_progressive`.
gridz_status gridz_h5_read_progressive_by(const struct gridz_h5_function *functions,
                                          int64_t dataset,
                                          int64_t mem_type,
                                          const uint64_t *start,
                                          const uint64_t *count,
                                          uint32_t detail,
                                          double value,
                                          void *dst,
                                          struct gridz_h5_part_info *info,
                                          const struct gridz_h5_options *options);

/// Describes the result of `gridz_h5_read_progressive_by` without reading it. This implements
/// `gridz_h5_inspect_progressive` of `gridz_hdf5.h`; see `gridz_h5_write_by` for `functions`.
///
/// Errors: those of `gridz_h5_inspect_progressive`.
gridz_status gridz_h5_inspect_progressive_by(const struct gridz_h5_function *functions,
                                             int64_t dataset,
                                             const uint64_t *start,
                                             const uint64_t *count,
                                             uint32_t detail,
                                             double value,
                                             struct gridz_h5_part_info *info,
                                             const struct gridz_h5_options *options);

/// Copies a dataset. This implements `gridz_h5_copy` of `gridz_hdf5.h`; see `gridz_h5_write_by` for
/// `functions`.
///
/// Errors: those of `gridz_h5_copy`.
gridz_status gridz_h5_copy_by(const struct gridz_h5_function *functions,
                              int64_t src,
                              int64_t dst,
                              const struct gridz_h5_options *options);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GRIDZ_H */
