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

/// Version of this header, first number: grows with an incompatible change.
#define GRIDZ_VERSION_MAJOR 0

/// Second number: grows with an addition, and while the first is 0 with an incompatible change too.
#define GRIDZ_VERSION_MINOR 1

/// Third number: grows with a correction.
#define GRIDZ_VERSION_PATCH 0

/// Largest rank of an array.
#define GRIDZ_MAX_RANK 32

/// Elements that are only bytes to gridz, of any size: structs, strings.
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

/// The order of the machine that gridz runs on. `gridz_inspect` never answers this.
#define GRIDZ_BYTE_ORDER_NATIVE 0

/// Least significant byte first.
#define GRIDZ_BYTE_ORDER_LITTLE 1

/// Most significant byte first.
#define GRIDZ_BYTE_ORDER_BIG 2

/// Every bit of every value comes back.
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

/// The root of the mean of all squared differences is at most `value`.
#define GRIDZ_MODE_RMS 6

/// Parameters of the codec's own.
#define GRIDZ_MODE_EXPERT 7

/// `gridz_codec.backends`: the CPU.
#define GRIDZ_BACKEND_CPU 1

/// `gridz_codec.backends`: an NVIDIA GPU.
#define GRIDZ_BACKEND_CUDA 2

/// `gridz_options.flags`: decompress without comparing the checksum. What keeps decoding safe is
/// checked all the same, but damaged data may come back as wrong values.
#define GRIDZ_FLAG_SKIP_CHECKSUM 1

/// `gridz_context_options.device`: gridz chooses.
#define GRIDZ_DEVICE_AUTO 0

/// `gridz_context_options.device`: all NVIDIA GPUs that can be used.
#define GRIDZ_DEVICE_ALL 4294967295

/// `gridz_context_options.device`: the CPU.
#define GRIDZ_DEVICE_CPU 4294967294

/// `gridz_context_options.device`: an NVIDIA GPU, the one that gridz would choose.
#define GRIDZ_DEVICE_CUDA 4294967293

/// What to read of a frame: the grid of level `value`, every 2^level-th element along each axis, from the first layer.
/// Level 0 is the array.
#define GRIDZ_DETAIL_LEVEL 0

/// What to read of a frame: its first `value` layers.
#define GRIDZ_DETAIL_LAYERS 1

/// What to read of a frame: as few layers as have a bound that is not above `value`, or such a root mean square if that is what
/// was asked for; all if none has.
#define GRIDZ_DETAIL_ERROR 2

/// `gridz_csr.layout`: `starts` are those of rows, and `indices` are columns.
#define GRIDZ_CCI_ROWS 0

/// `gridz_csr.layout`: `starts` are those of columns, and `indices` are rows.
#define GRIDZ_CCI_COLUMNS 1

/// How a sparse matrix keeps its values: what is smallest, as far as it pays; bit for bit, as all of these.
#define GRIDZ_CCI_VALUES_BEST 0

/// As they are.
#define GRIDZ_CCI_VALUES_PLAIN 1

/// One for all. Others are an error.
#define GRIDZ_CCI_VALUES_CONSTANT 2

/// Numbers of 1 or 2 bytes in a table of the different ones, at most 65536. More are an error.
#define GRIDZ_CCI_VALUES_DICTIONARY 3

/// Multiples of a power of two, as bits, from the smallest of 32 rows.
#define GRIDZ_CCI_VALUES_BLOCKS 4

/// Sums of products, as in algebra.
#define GRIDZ_CCI_SEMIRING_PLUS_TIMES 0

/// Smallest of sums (shortest paths); infinity where a row has no elements.
#define GRIDZ_CCI_SEMIRING_MIN_PLUS 1

/// Largest of products; minus infinity where a row has no elements.
#define GRIDZ_CCI_SEMIRING_MAX_TIMES 2

/// 1 where an element and what it meets are both not 0, else 0 (what can be reached).
#define GRIDZ_CCI_SEMIRING_OR_AND 3

/// Success.
#define GRIDZ_OK 0

/// An argument, option or environment variable has a value that no version of gridz accepts.
#define GRIDZ_ERROR_INVALID_ARGUMENT 100

/// The destination is too small; `*dst_bytes` is what it needs.
#define GRIDZ_ERROR_DST_TOO_SMALL 101

/// A legal request that this version of gridz or the chosen codec cannot fulfil.
#define GRIDZ_ERROR_UNSUPPORTED_JOB 102

/// The call was ended by a function of the caller.
#define GRIDZ_ERROR_CANCELLED 103

/// The bytes are no frame, or were damaged after they were written.
#define GRIDZ_ERROR_CORRUPT 200

/// The bytes are the beginning of a frame whose end is missing.
#define GRIDZ_ERROR_TRUNCATED 201

/// A sound frame of a newer format or codec; a newer gridz may read it.
#define GRIDZ_ERROR_UNSUPPORTED_FORMAT 202

/// Memory could not be had, or the context's limit forbids it.
#define GRIDZ_ERROR_OUT_OF_MEMORY 300

/// The GPU or its driver is missing, too old, or failed.
#define GRIDZ_ERROR_DEVICE 301

/// Another library refused something that gridz needs from it.
#define GRIDZ_ERROR_HOST 400

/// A defect of gridz. The text says what to report.
#define GRIDZ_ERROR_INTERNAL 900

/// A sparse matrix that is compressed in memory. Made by `gridz_cci_create` and `gridz_cci_open`; only gridz looks inside.
typedef struct gridz_cci gridz_cci;

/// Threads and memory for gridz to work with. Made by `gridz_context_create`; only gridz looks inside.
typedef struct gridz_context gridz_context;

/// What a function returns: `GRIDZ_OK` or one of the `GRIDZ_ERROR_*` codes.
///
/// 1xx: the call was wrong. 2xx: the data is wrong. 3xx: the machine could not. 4xx: another library
/// could not. 9xx: gridz is wrong. Later versions may add codes; treat an unknown one by its family.
typedef int32_t gridz_status;

/// Element type: one of `GRIDZ_DTYPE_*`. The numbers are those in frames and never change.
typedef uint32_t gridz_dtype;

/// Order of the bytes in an element: one of `GRIDZ_BYTE_ORDER_*`.
typedef uint32_t gridz_byte_order;

/// An array in memory, without its data: contiguous, in C order.
typedef struct gridz_array {
    /// `sizeof(gridz_array)`.
    size_t struct_size;
    /// Element type.
    gridz_dtype dtype;
    /// Byte order of the elements. Means nothing for opaque and one-byte elements.
    gridz_byte_order byte_order;
    /// Bytes of one element. 0 = that of `dtype`; `GRIDZ_DTYPE_OPAQUE` needs it.
    uint32_t element_size;
    /// Number of extents, 0 to `GRIDZ_MAX_RANK`. 0 = a scalar, which is one element.
    uint32_t rank;
    /// `rank` extents in elements, slowest-varying first; an extent may be 0. Read during the call
    /// only. May be NULL if `rank` is 0.
    const uint64_t *extents;
} gridz_array;

/// What a codec may do to the values: one of `GRIDZ_MODE_*`.
typedef uint32_t gridz_mode;

/// How to compress and decompress. All zero except `struct_size` means the defaults, and so does NULL
/// in place of the struct.
typedef struct gridz_options {
    /// `sizeof(gridz_options)`.
    size_t struct_size;
    /// Threads and memory. NULL = those of the process, without a limit. Must live until the call
    /// returns; any number of calls may share it at the same time.
    const struct gridz_context *context;
    /// Name of the codec to compress with, one of those that `gridz_codec_info` tells. NULL = this version's default
    /// lossless codec. Or a whole request in text form, with a mode and its value and a level by number or name, such
    /// as `"lorenzo,level=dense"` and, of a codec that keeps an error bound, `"NAME,abs=1e-3,level=2"`; then `mode`,
    /// `level` and `value` are 0. Read during the call only. A frame knows its codec, so `gridz_decompress` checks
    /// `codec`, `mode`, `level` and `value` but does not need them; `gridz_decompress_async` does.
    const char *codec;
    /// What the codec may do to the values: `gridz_codec_info` tells which of these it takes.
    gridz_mode mode;
    /// Level of the codec; 0 = its default, and all that a codec without levels takes. `gridz_codec_info` tells the
    /// others.
    uint32_t level;
    /// The number that belongs to `mode`; 0 for `GRIDZ_MODE_LOSSLESS` and `GRIDZ_MODE_EXPERT`, whose numbers are said in
    /// text form, in `codec`.
    double value;
    /// 0 or `GRIDZ_FLAG_SKIP_CHECKSUM`.
    uint64_t flags;
    /// The fill values, which mark elements without data, such as -999: `n_fill_values` elements of the array's type, size
    /// and byte order, one after the other, in host memory. NULL = none. A codec with an error bound returns elements
    /// that equal one of them bit for bit, and decodes no other element to one of them. Lossless codecs return every
    /// element bit for bit, and do not read this. In text form fill values are written `fill=-999,fill=1e20`; both
    /// may be given. Read during the call only, and not by `gridz_decompress` and `gridz_decompress_region`.
    const void *fill_value;
    /// How many fill values there are, at most 8. 0 = one, if `fill_value` is not NULL.
    size_t n_fill_values;
    /// The smallest and the largest valid number: elements outside of that range are treated like fill values. Each is one
    /// element of the array's type, size and byte order, in host memory; NULL = no limit. Not for complex
    /// elements. In text form `valid_min=0` and `valid_max=350`.
    const void *valid_min;
    /// See `valid_min`.
    const void *valid_max;
} gridz_options;

/// What comes of a part of a frame of `multigrid`.
typedef struct gridz_part_info {
    /// `sizeof(gridz_part_info)`, set by the caller.
    size_t struct_size;
    /// Number of extents of what comes back: that of the array, but 4 for a grid of a level above 0 if the array has more
    /// axes than that with several elements, of which the first ones are merged.
    uint32_t rank;
    /// Its level: 0 for the array.
    uint32_t level;
    /// `rank` extents in elements, slowest-varying first; the rest are 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Its bytes: what `gridz_decompress_progressive` needs as destination. A damaged or hostile frame can say anything.
    uint64_t array_bytes;
    /// The first bytes of the frame that are needed, header included.
    uint64_t frame_bytes;
    /// Levels above that of the array.
    uint32_t n_levels;
    /// Layers that are read.
    uint32_t layers;
    /// Layers that there are.
    uint32_t n_layers;
    /// What holds for what comes back, as in `gridz_frame_info`.
    uint32_t mode;
    /// The number that belongs to the mode.
    double value;
    /// No element differs by more from what it was.
    double bound;
} gridz_part_info;

/// How the blocks of a frame are coded. Codecs that cut an array into blocks choose for each.
typedef struct gridz_block_counts {
    /// `sizeof(gridz_block_counts)`, set by the caller.
    size_t struct_size;
    /// All blocks.
    uint64_t all;
    /// Those that hold their elements as they are.
    uint64_t raw;
    /// Those of a single value.
    uint64_t constant;
    /// Those of numbers with fixed widths.
    uint64_t packed;
    /// Those with an entropy code.
    uint64_t entropy;
    /// Of those with numbers (packed, entropy, sparse): those in which floats are taken as multiples of a power of two.
    uint64_t fixed_point;
    /// Of the packed ones: those with a dictionary of their values.
    uint64_t dictionary;
    /// Those of which only the few numbers are kept that are not zero.
    uint64_t sparse;
    /// Of those with numbers: those in which floats are taken as decimal fractions, multiples of a power of ten.
    uint64_t decimal;
    /// Of those with numbers: those that leave out elements with one frequent value, such as a fill value.
    uint64_t masked;
    /// Of those with numbers: those in which floats are cut at a power of two, and the bits below it are kept as they are.
    uint64_t cut;
    /// Elements (of complex ones parts) that a codec with a bound keeps exactly in blocks of several values, since no other
    /// value is within the bound, or they are fill values, infinite or NaN.
    uint64_t exact;
} gridz_block_counts;

/// What a frame says about itself.
typedef struct gridz_frame_info {
    /// `sizeof(gridz_frame_info)`, set by the caller.
    size_t struct_size;
    /// Element type.
    gridz_dtype dtype;
    /// `GRIDZ_BYTE_ORDER_LITTLE` or `GRIDZ_BYTE_ORDER_BIG`; little for opaque and one-byte elements.
    gridz_byte_order byte_order;
    /// Bytes of one element.
    uint32_t element_size;
    /// Number of extents.
    uint32_t rank;
    /// `rank` extents in elements, slowest-varying first; the rest are 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Bytes of the array: what `gridz_decompress` needs as destination. It is what the frame says,
    /// and a damaged or hostile frame can say anything below 2^63: compare it with what you expect
    /// before you allocate so much.
    uint64_t array_bytes;
    /// Bytes of the whole frame, header included.
    uint64_t frame_bytes;
    /// Name of the codec that wrote the frame, or NULL if this version does not have it. Lives as long
    /// as the process.
    const char *codec_name;
    /// Its number in the frame.
    uint32_t codec;
    /// What the codec was allowed to do to the values: `GRIDZ_MODE_LOSSLESS`, `GRIDZ_MODE_ABS` and so on. (0 in the
    /// first version, which knew lossless codecs only.)
    uint32_t mode;
    /// The number that belongs to the mode.
    double value;
    /// No element differs by more from what it was. 0 if none differs; NaN if there is no such bound (in mode
    /// `GRIDZ_MODE_PWREL`, `_RATE`, `_PRECISION` and `_EXPERT`), or it is behind the header in a part of the frame that was
    /// not given. It is a promise, not the error that there is. `zfp` and `multigrid` keep it to what this frame was made of: where parts
    /// of an array are decoded, changed and encoded again and again, the rest of it drifts away.
    double bound;
} gridz_frame_info;

/// What `gridz_context_create` is to make. All zero except `struct_size` means the defaults.
typedef struct gridz_context_options {
    /// `sizeof(gridz_context_options)`.
    size_t struct_size;
    /// Worker threads of the context's own, 1 to 1024; 1 = only the calling thread works. 0 = share
    /// the workers of the process, of which there are `GRIDZ_THREADS` or the available cores divided
    /// by the MPI ranks on this machine.
    uint32_t threads;
    /// What computes: `GRIDZ_DEVICE_AUTO` for what `GRIDZ_BACKEND` says, or an NVIDIA GPU, counted from 1.
    /// Where that one cannot be used the context is not made, and memory of another one is refused.
    /// `GRIDZ_DEVICE_ALL`: `gridz_compress_chunks` and `gridz_decompress_chunks` deal chunks in host memory to all GPUs
    /// that can be used, and calls with one array in host memory take them in turn.
    /// `GRIDZ_DEVICE_CPU` and `GRIDZ_DEVICE_CUDA` are what `GRIDZ_BACKEND=cpu` and `cuda` are for a whole process.
    uint32_t device;
    /// Most bytes of working memory that one call may take beside the caller's buffers, apart from
    /// some bookkeeping per block; a call that needs more fails with `GRIDZ_ERROR_OUT_OF_MEMORY`.
    /// Compressing numbers of big-endian order that the codec takes takes the array's size,
    /// everything else takes none, except that where the CPU takes over from a GPU each of array,
    /// or region, and frame may be copied to the host. GPU
    /// memory, up to 100 MiB of pinned memory for each GPU, and 1 MiB for each thread that works are not counted; where
    /// many chunks go through GPUs, a batch for each has at most an eighth of the limit, all together. The GPU memory of `multigrid` is up
    /// to 6 times the array to compress, and layers + 3.2 times to decompress. 0 = no limit.
    uint64_t memory_limit;
} gridz_context_options;

/// A codec of this library. What it points to lives as long as the process.
typedef struct gridz_codec {
    /// `sizeof(gridz_codec)`, set by the caller.
    size_t struct_size;
    /// Its name, the same everywhere.
    const char *name;
    /// What it is for, in one line.
    const char *description;
    /// The names of its `n_levels` levels. The first one is the default.
    const char *const *level_names;
    /// Their numbers.
    const uint32_t *level_numbers;
    /// How many levels it has; 0 = it knows only level 0.
    uint32_t n_levels;
    /// Its number in frames and cd_values.
    uint32_t id;
    /// The modes that it takes: bit `GRIDZ_MODE_X` is set for each.
    uint32_t modes;
    /// The element types that it encodes: bit `GRIDZ_DTYPE_X` is set for each. Arrays of others are kept as they are
    /// in mode `GRIDZ_MODE_LOSSLESS`.
    uint32_t dtypes;
    /// What can compute it here: `GRIDZ_BACKEND_CPU`, and `GRIDZ_BACKEND_CUDA` if this library has kernels for it and
    /// this machine a GPU for them.
    uint32_t backends;
    /// Always 0.
    uint32_t reserved;
} gridz_codec;

/// How close an array is to the original. Numbers are elements, or the two parts of each complex one. An index is that
/// of an element, in C order; of equal errors the first one counts. NaN is what there is no answer to: of no numbers, of
/// a range of 0, of too few axes.
typedef struct gridz_quality_report {
    /// `sizeof(gridz_quality_report)`, set by the caller.
    size_t struct_size;
    /// Elements of the array.
    uint64_t elements;
    /// Numbers that are finite, and not fill values, in both arrays. All that follows is about them, but for the three
    /// mismatches.
    uint64_t numbers;
    /// Elements that are missing, that is fill values or outside of the valid range, in one of the arrays, and not the same in
    /// the other one.
    uint64_t fill_mismatches;
    /// Numbers that are NaN in one array, and not the same NaN, bit for bit, in the other.
    uint64_t nan_mismatches;
    /// Numbers that are infinite in one array, and not the same infinity in the other.
    uint64_t infinity_mismatches;
    /// Largest absolute error. It is the exact one, rounded to the nearest double.
    double largest_error;
    /// The exact one minus that; both together are exact. 0 unless elements have more bits than a double, or magnitudes
    /// that are far apart.
    double largest_error_rest;
    /// Where it is. `UINT64_MAX` if there are no numbers.
    uint64_t largest_error_index;
    /// Largest error divided by the magnitude of the original number; infinite where a zero has become another number.
    double largest_relative_error;
    /// Where it is. `UINT64_MAX` if there are no numbers.
    uint64_t largest_relative_error_index;
    /// The bound on the absolute error: `value` for `GRIDZ_MODE_ABS`, for `GRIDZ_MODE_REL` `value` × `range`, rounded
    /// down. NaN for the other modes.
    double bound;
    /// Largest error divided by the bound. It is above 1 if, and only if, an error is larger than the bound in exact
    /// arithmetic. NaN without a bound.
    double error_over_bound;
    /// Smallest number of the original.
    double minimum;
    /// Largest number of the original.
    double maximum;
    /// `maximum` − `minimum`.
    double range;
    /// Root of the sum of the squares of all errors.
    double l2_error;
    /// Root of the mean of these squares.
    double rmse;
    /// `rmse` / `range`.
    double nrmse;
    /// Peak signal-to-noise ratio, 20 log10(`range` / `rmse`), in dB; infinite if there are no errors.
    double psnr;
    /// Pearson's correlation coefficient.
    double correlation;
    /// Mean structural similarity (SSIM) of planes of the last two axes that are longer than 1. Windows are squares of 7
    /// × 7 numbers of equal weight, at every place where they fit and have no element that does not count; K1 = 0.01, K2
    /// = 0.03, L = `range`; variances are those of samples. So has scikit-image it by default.
    double ssim_2d;
    /// The same of volumes of the last three of these axes, in cubes of 7 × 7 × 7 numbers.
    double ssim_3d;
} gridz_quality_report;

/// What `gridz_quality` is to compare with. All zero except `struct_size` means no bound and no missing elements, and so does
/// NULL in place of the struct.
typedef struct gridz_quality_options {
    /// `sizeof(gridz_quality_options)`.
    size_t struct_size;
    /// Threads. NULL = those of the process.
    const struct gridz_context *context;
    /// What `value` bounds: `GRIDZ_MODE_ABS`, `GRIDZ_MODE_REL` or `GRIDZ_MODE_PWREL`; `GRIDZ_MODE_LOSSLESS` = no bound.
    gridz_mode mode;
    /// 0.
    uint32_t reserved;
    /// The number that belongs to `mode`; 0 for `GRIDZ_MODE_LOSSLESS`.
    double value;
    /// The fill values, which mark elements without data: `n_fill_values` elements of the array's type, size and byte order,
    /// one after the other, in host memory. NULL = none. Read during the call only.
    const void *fill_value;
    /// How many fill values there are, at most 8. 0 = one, if `fill_value` is not NULL.
    size_t n_fill_values;
    /// The smallest and the largest valid number, each one element of the array's type, size and byte order, in host memory;
    /// NULL = no limit. Elements outside of that range are treated like fill values.
    const void *valid_min;
    /// See `valid_min`.
    const void *valid_max;
} gridz_quality_options;

/// A sparse matrix in rows (CSR) or columns (CSC).
typedef struct gridz_csr {
    /// `sizeof(gridz_csr)`.
    size_t struct_size;
    /// Rows of the matrix.
    uint64_t n_rows;
    /// Columns of the matrix.
    uint64_t n_cols;
    /// Elements.
    uint64_t nnz;
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    gridz_dtype dtype;
    /// Type of starts and indices: `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`.
    gridz_dtype index_dtype;
    /// `GRIDZ_CCI_ROWS` or `GRIDZ_CCI_COLUMNS`.
    uint32_t layout;
    /// 0.
    uint32_t reserved;
    /// Where each row (column) starts among the elements, from 0, and at the end `nnz`: one more than rows (columns). The
    /// library cannot see the length of this memory; the caller ensures it. All three are aligned for their elements, and in
    /// host memory.
    const void *starts;
    /// The column (row) of each element.
    const void *indices;
    /// The value of each element. NULL: all are 1.
    const void *values;
} gridz_csr;

/// What a compressed sparse matrix is, and how it is kept.
typedef struct gridz_cci_info {
    /// `sizeof(gridz_cci_info)`, set by the caller.
    size_t struct_size;
    /// Rows.
    uint64_t n_rows;
    /// Columns.
    uint64_t n_cols;
    /// Elements.
    uint64_t nnz;
    /// Type of the values: `GRIDZ_DTYPE_F32` or `GRIDZ_DTYPE_F64`.
    gridz_dtype dtype;
    /// How values are kept: 0 as they are, 1 one for all, 2 numbers of 1 byte in a table, 3 of 2 bytes, 4 blocks.
    uint32_t values;
    /// Side of the blocks that elements come in, such as the unknowns of a node; 1 = none.
    uint32_t block;
    /// 0.
    uint32_t reserved;
    /// Bytes of the frame, which is all that the matrix takes of memory but for 8 bytes for every 3840 rows.
    uint64_t frame_bytes;
    /// Bytes of values in it.
    uint64_t value_bytes;
    /// Elements whose columns take no bytes: the distances from the diagonal are known for 32 rows at a time.
    uint64_t by_distance;
    /// Elements in blocks with one code for each block.
    uint64_t blocked;
    /// Elements with codes of 1 or 2 bytes.
    uint64_t short_codes;
    /// Elements whose columns are kept as they are, in 4 or 8 bytes, as nothing shorter was found.
    uint64_t plain;
    /// Of all these: elements of rows that are much longer than others.
    uint64_t long_rows;
} gridz_cci_info;

/// A function whose type is not told.
typedef void (*gridz_function)(void);

/// A function of libhdf5, for the functions of gridz that move whole datasets.
typedef struct gridz_h5_function {
    /// Its name, such as `"H5Dwrite"`.
    const char *name;
    /// The function, whatever its type.
    gridz_function address;
} gridz_h5_function;

/// Is told of the bytes of the array that are done, and how many there are, after every chunk or box, by the thread that
/// called gridz. Anything but 0 ends the call. The function must return, may not change the array, and may not use the dataset.
/// A C++ exception must not leave it: catch it inside, return 1, and rethrow it after the call.
typedef int32_t (*gridz_progress)(void *data, uint64_t done, uint64_t total);

/// How to move a dataset. All zero except `struct_size` means the defaults, and so does NULL in place of the struct.
typedef struct gridz_h5_options {
    /// `sizeof(gridz_h5_options)`.
    size_t struct_size;
    /// Threads. NULL = those of the process.
    const struct gridz_context *context;
    /// Bytes from element to element in memory along each axis of the dataset, also negative ones; no two elements may have
    /// a byte in common. NULL = contiguous, in C order. The pointer of the call is that of the first element. Read during
    /// the call only.
    const int64_t *strides;
    /// Is told of what is done, or NULL.
    gridz_progress progress;
    /// What it is given.
    void *progress_data;
    /// About how many bytes of buffers there may be, though always enough for one chunk; beside them, what the context's
    /// `memory_limit` says of each chunk. 0 = 1 GiB.
    uint64_t memory_limit;
    /// The data transfer property list, an `hid_t`. 0 = `H5P_DEFAULT`.
    int64_t dxpl;
    /// A `cudaStream_t` (or `CUstream`), if `src` or `dst` is memory of a GPU: the call waits for the work that the stream has, which
    /// may be what makes the array. NULL = the program has waited for what its streams do with the array. For the
    /// default streams there are `cudaStreamLegacy` and `cudaStreamPerThread`.
    void *stream;
} gridz_h5_options;

/// What comes of a part of a dataset.
typedef struct gridz_h5_part_info {
    /// `sizeof(gridz_h5_part_info)`, set by the caller.
    size_t struct_size;
    /// Number of extents, that of the dataset.
    uint32_t rank;
    /// The level of the grid: 0 for the dataset itself.
    uint32_t level;
    /// `rank` extents in elements of what comes back, slowest-varying first; the rest are 0.
    uint64_t extents[GRIDZ_MAX_RANK];
    /// Its bytes in memory, where it is contiguous.
    uint64_t array_bytes;
    /// Chunks that it is read of; those that were never written do not count.
    uint64_t n_chunks;
    /// The encoded bytes that these chunks have.
    uint64_t stored_bytes;
    /// How many of those are read.
    uint64_t read_bytes;
    /// Levels above 0 that the dataset has.
    uint32_t n_levels;
    /// Most layers that are read of a chunk; 0 if no chunk has layers.
    uint32_t layers;
    /// Most layers that a chunk has.
    uint32_t n_layers;
    /// Always 0.
    uint32_t reserved;
    /// No element differs by more from what it was; NaN if a chunk does not promise a bound. 0 of what is exact, such as chunks
    /// that were never written. What `gridz_frame_info` says of bounds holds here, too.
    double bound;
    /// In no chunk that is read, as a whole, is the root of the mean of the squares of all errors larger: what mode
    /// `GRIDZ_MODE_RMS` promises, or `bound`. NaN if a chunk promises neither.
    double rms;
} gridz_h5_part_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// Finds the destination size that compressing an array needs, whatever its values are.
///
/// `*bound` becomes the bytes that `gridz_compress` may write on the way, for these `options`: a
/// multiple of 16, and the smallest `dst_stride` of `gridz_compress_async`. The frame that it leaves
/// is never longer than the array and a header of 40 + 8 * `rank` bytes, rounded up to a multiple of
/// 16.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`.
gridz_status gridz_compress_bound(const struct gridz_array *array,
                                  const struct gridz_options *options,
                                  size_t *bound);

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
gridz_status gridz_compress(const struct gridz_array *array,
                            const void *src,
                            size_t src_bytes,
                            void *dst,
                            size_t dst_capacity,
                            size_t *dst_bytes,
                            const struct gridz_options *options);

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
gridz_status gridz_decompress(const void *frame,
                              size_t frame_bytes,
                              void *dst,
                              size_t dst_capacity,
                              size_t *dst_bytes,
                              const struct gridz_options *options);

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
gridz_status gridz_decompress_region(const void *frame,
                                     size_t frame_bytes,
                                     uint32_t rank,
                                     const uint64_t *start,
                                     const uint64_t *count,
                                     void *dst,
                                     size_t dst_capacity,
                                     size_t *dst_bytes,
                                     const struct gridz_options *options);

/// Decompresses less than there is in a frame of `multigrid`, of which the first bytes are enough: its first layers, or a coarser grid
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
/// frames of other codecs, also where an array was stored since `multigrid` did not make it smaller.
gridz_status gridz_decompress_progressive(const void *frame,
                                          size_t frame_bytes,
                                          uint32_t detail,
                                          double value,
                                          void *dst,
                                          size_t dst_capacity,
                                          struct gridz_part_info *info,
                                          const struct gridz_options *options);

/// Tells what `gridz_decompress_progressive` would read and make, for each level and number of layers that there is.
///
/// `frame` may be the first bytes of a frame: 3072 are enough for layers, and as many more for a level above 0 as the table has, 8
/// bytes for each 65536 elements and some more for each level.
///
/// Errors: `INVALID_ARGUMENT`, also for a level or layer that there is not, `UNSUPPORTED_JOB` for frames of other codecs,
/// `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect_progressive(const void *frame,
                                       size_t frame_bytes,
                                       uint32_t detail,
                                       double value,
                                       struct gridz_part_info *info);

/// Counts how the blocks of a frame are coded, into `*counts`, whose `struct_size` the caller has set, and compares
/// the blocks with their checksums. The frame may be in memory of a GPU.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for codecs whose blocks are all of one kind,
/// `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect_blocks(const void *frame,
                                  size_t frame_bytes,
                                  struct gridz_block_counts *counts);

/// Reads what a frame says about itself into `*info`, whose `struct_size` the caller has set.
///
/// Needs only the header, so `frame` may be the first bytes of a frame: 560 hold any header,
/// and `info->frame_bytes` tells how long the whole is. The payload is not looked at. `frame` may be
/// memory of an NVIDIA GPU.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`.
gridz_status gridz_inspect(const void *frame,
                           size_t frame_bytes,
                           struct gridz_frame_info *info);

/// Makes a context with threads and a memory limit of its own; `options` may be NULL for the defaults.
///
/// `*context` then belongs to the caller, who ends it with `gridz_context_destroy`. Its threads start
/// when a call first has enough work for them, and again in a forked child.
///
/// Errors: `INVALID_ARGUMENT`, `DEVICE` for a GPU that cannot be used.
gridz_status gridz_context_create(const struct gridz_context_options *options,
                                  struct gridz_context **context);

/// Ends a context. No call may be using it, and none may use it afterwards. NULL is ignored.
void gridz_context_destroy(struct gridz_context *context);

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
void gridz_release_caches(void);

/// The name of a status, spelt as in this header. Never NULL; lives as long as the process.
const char *gridz_status_name(gridz_status status);

/// What the calling thread's last failed call found wrong, and the remedy where there is one: UTF-8
/// for a person to read, not for a program to compare. Empty if no call has failed. Never NULL; valid
/// until the next failing call of the same thread, or the thread's end.
const char *gridz_last_error(void);

/// The version of the library, such as `"1.2.3"`; that of this header is in `GRIDZ_VERSION_*`. Never
/// NULL; lives as long as the process.
const char *gridz_version(void);

/// Finds the GPU memory that a call of `gridz_compress_async`, `gridz_decompress_async` or
/// `gridz_decompress_region_async` needs as workspace.
///
/// `*bytes` becomes what `n_chunks` arrays like `array` need with these `options` on the GPU of
/// `stream`, the largest of all these; it may differ between GPU models. The kernels of both
/// directions are loaded into the stream's CUDA context, which takes a moment the first time.
/// Afterwards those calls with such arrays do nothing but give work to a stream of that context. Call
/// it before a stream is captured into a CUDA graph. `stream` NULL is the default stream of the
/// current CUDA context, or if there is none, of the GPU that `gridz_compress` would choose.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for too many chunks and for what has no kernels
/// (`lorenzo` at level 3), `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_async_workspace_bytes(const struct gridz_array *array,
                                         size_t n_chunks,
                                         void *stream,
                                         const struct gridz_options *options,
                                         size_t *bytes);

/// Gives the compression of `n_chunks` arrays of one type and shape to a stream of an NVIDIA GPU.
///
/// Returns at once: once `gridz_async_workspace_bytes` has been called for such arrays, it never waits
/// for the GPU nor reads its memory (else the first call loads the kernels, which does). What can be
/// wrong with the arguments is told by the return value; an error of the GPU itself shows in the calls
/// that wait for the stream. When the stream has done the work, frame i is at `dst + i * dst_stride` and its length
/// in bytes is `frame_bytes[i]`. What follows it in its slot is unspecified. The frames are those of
/// `gridz_compress`: any machine decodes them.
///
/// All memory is the GPU's, or managed or pinned memory that it can use, and none of it may overlap.
/// It is used until the stream has done the work; `array` and `options` are read during the call
/// only.
///
/// - `src`: array i is at `src + i * src_stride`. Arrays that the codec looks at as numbers (`ndzip`
///   at `float` and `double`, `lorenzo` at all but complex ones) begin at multiples of their element
///   size, which divides `src_stride`. With one chunk `src_stride` means nothing; else it is at least
///   the size of an array. Fastest if all rows begin at multiples of 16 bytes.
/// - `dst`: slots for frames, aligned to 16 bytes. `dst_stride` is a multiple of 16 and, also with
///   one chunk, at least the bound of `gridz_compress_bound`. The last slot needs that many bytes too.
/// - `frame_bytes`: `n_chunks` lengths, in GPU memory, aligned to 8 bytes.
/// - `workspace`: `workspace_bytes` bytes of GPU memory, at least what `gridz_async_workspace_bytes`
///   says, aligned to 8 bytes, better 256. Calls on different streams need one each; calls on one
///   stream may share it. With NULL and 0 gridz takes it from a stream-ordered memory pool of its
///   own, of which it keeps what `gridz_release_caches` says. Give one where
///   the stream is being captured into a CUDA graph; then the graph may be launched again with
///   other contents of `src`.
/// - `stream`: a `CUstream` or `cudaStream_t`. NULL is the legacy default stream, of the current CUDA
///   context or, if there is none, that of `dst`.
///
/// 0 chunks are nothing to do, whatever the pointers are. Elements that the codec cannot take are
/// stored, as by `gridz_compress`.
///
/// Errors: `INVALID_ARGUMENT` naming the argument, `UNSUPPORTED_JOB` for too many chunks (2^31, or
/// fewer that have more than 16 KiB each) and for `lorenzo` at level 3, which
/// only `gridz_compress` makes, `OUT_OF_MEMORY`, `DEVICE` also with `GRIDZ_BACKEND=cpu`: there is no way
/// back to the CPU.
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

/// Gives the decompression of `n_chunks` frames of one type and shape to a stream of an NVIDIA GPU.
///
/// The counterpart of `gridz_compress_async`, and all it says of memory, alignment, `workspace` and
/// `stream` holds here. Frame i is at `frames + i * frame_stride` and has `frame_bytes[i]` bytes;
/// `frame_stride` is a multiple of 16 and at least the bound of `gridz_compress_bound`; the last slot
/// has so many bytes too, since a little of a slot is read even if its frame is cut short. Array i goes
/// to `dst + i * dst_stride`, in the byte order that `array` says. `frames` and `frame_bytes` are
/// only read, `frame_bytes` when the stream comes to this work: it may be what `gridz_compress_async`
/// writes there before.
///
/// When the stream has done the work, `statuses[i]` is `GRIDZ_OK`, `GRIDZ_ERROR_CORRUPT` or
/// `GRIDZ_ERROR_TRUNCATED`; `statuses` has `n_chunks` elements in GPU memory, aligned to 4 bytes. The
/// contents of an array whose status is an error are unspecified; the other arrays are right. A frame
/// counts as corrupt also if it is sound, but not one that `gridz_compress_async` makes with this
/// `array` and these `options`: here, unlike in `gridz_decompress`, the codec matters, so name it in
/// the options where frames are kept for longer (the default may change with a later version). Frames
/// of other arrays, codecs or versions are for `gridz_decompress`, and so are frames that were moved
/// together: here each has its slot. Any bytes may be passed as frames. `GRIDZ_FLAG_SKIP_CHECKSUM` is heeded.
///
/// Fastest if all rows of the arrays begin at multiples of 8 bytes, or of 32 where they can.
///
/// Errors: as `gridz_compress_async`. What is wrong with a frame is no error of the call.
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

/// Gives the decompression of a region of `n_chunks` frames of one type and shape to a stream of an NVIDIA GPU: along each
/// axis of `array` `count` elements from `start` on.
///
/// As `gridz_decompress_async`, and all it says holds here, but region i goes to `dst + i * dst_stride`, its elements one
/// behind the other in C order, and `dst_stride` is, with more than one chunk, at least the size of a region. `start` and
/// `count` have `array->rank` numbers in elements, slowest-varying axis first, and are read during the call only.
///
/// In one launch the blocks that the region touches are decoded, no others, and what is compared with checksums is what
/// `gridz_decompress_region` says: a frame may be damaged elsewhere and its status `GRIDZ_OK`.
///
/// Errors: as `gridz_decompress_async`; `INVALID_ARGUMENT` for a region that is not one of the array.
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

/// Finds the destination size that is enough for `gridz_compress_chunks`, whatever the values are: `*bound` becomes
/// `n_chunks` times the bytes of an array and of a header, rounded up to a multiple of 16.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_packed_bound(const struct gridz_array *array,
                                size_t n_chunks,
                                size_t *bound);

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
gridz_status gridz_compress_chunks(const struct gridz_array *array,
                                   size_t n_chunks,
                                   const void *src,
                                   size_t src_stride,
                                   void *dst,
                                   size_t dst_capacity,
                                   size_t *frame_bytes,
                                   size_t *dst_bytes,
                                   const struct gridz_options *options);

/// Decompresses `n_chunks` packed frames of arrays of one type and shape, many at once.
///
/// The frames are where `gridz_compress_chunks` leaves them: frame i has `frame_bytes[i]` bytes, and begins at the first
/// multiple of 16 bytes behind the one before it; `frames` has `frames_bytes` bytes, up to a multiple of 16 behind the
/// last frame. Array i goes to `dst + i * dst_stride`, in the byte order that `array` says. The frames may be
/// of any codec, and all is fastest if they are of one. All else is as for `gridz_compress_chunks` and `gridz_decompress`.
///
/// Errors: those of `gridz_decompress`, about the first frame that cannot be decompressed, whose number is in
/// `gridz_last_error`; `INVALID_ARGUMENT` also if a frame is of another array than `array`.
gridz_status gridz_decompress_chunks(const struct gridz_array *array,
                                     size_t n_chunks,
                                     const void *frames,
                                     size_t frames_bytes,
                                     const size_t *frame_bytes,
                                     void *dst,
                                     size_t dst_stride,
                                     const struct gridz_options *options);

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
gridz_status gridz_pack_async(size_t n_frames,
                              const void *frames,
                              size_t frame_stride,
                              const size_t *frame_bytes,
                              void *packed,
                              size_t packed_capacity,
                              size_t *offsets,
                              void *stream);

/// Gives work to a stream of an NVIDIA GPU that moves packed frames to slots, where `gridz_decompress_async` takes them.
///
/// The way back of `gridz_pack_async`, with the same rules for memory. Frame i has `frame_bytes[i]` bytes, is at
/// `packed + offsets[i]` and goes to `frames + i * frame_stride`; `lengths[i]` becomes its length, or 0 if it is not
/// wholly inside the `packed_bytes` bytes of `packed` (which end at a multiple of 16), does not begin at a multiple of 16 there,
/// or is longer than `frame_stride`: offsets and lengths may come from anywhere. Give `lengths` to
/// `gridz_decompress_async`, for which such a frame is truncated. Here `offsets` needs `n_frames` elements only.
///
/// Errors: as `gridz_pack_async`.
gridz_status gridz_unpack_async(size_t n_frames,
                                const void *packed,
                                size_t packed_bytes,
                                const size_t *offsets,
                                const size_t *frame_bytes,
                                void *frames,
                                size_t frame_stride,
                                size_t *lengths,
                                void *stream);

/// How many codecs this library has.
size_t gridz_codec_count(void);

/// The name of the codec at `index`, or NULL if `index` is not below `gridz_codec_count()`. Lives as long as the process.
/// Unlike `gridz_codec_info` it asks for nothing, in particular not for GPUs.
const char *gridz_codec_name(size_t index);

/// Describes the codec at `index`, which is below `gridz_codec_count()`, in `*codec`, whose `struct_size` the caller
/// has set. The first one is always `"stored"`. What `*codec` points to lives as long as the process. In a library with
/// CUDA kernels the driver is loaded and asked for GPUs, as by other calls that use one: a process forked afterwards
/// has none.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_codec_info(size_t index,
                              struct gridz_codec *codec);

/// Turns a request in text form, such as `"lorenzo,level=dense"` or `"quant,abs=1e-3"`, into what `H5Pset_filter`, h5repack's
/// UD and `nc_def_var_filter` take: `*n_values` cd_values, for which `values` has room for `capacity` (64 are always enough).
///
/// Fill values and the valid range of the text are among them; the filter adds the fill value of the dataset's property list.
/// h5repack takes 20 values at most; requests with more than four fill values and limits may have more.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `DST_TOO_SMALL` with the needed capacity in `*n_values`.
gridz_status gridz_cd_values(const char *request,
                             uint32_t *values,
                             size_t capacity,
                             size_t *n_values);

/// Turns cd_values of the filter, a user's or those stored with a dataset, into a request in text form. The text ends with a
/// 0 byte, and with it has at most `capacity` bytes, for which there is room at `text`; `*text_bytes` becomes how many they
/// are. 1024 are enough for all codecs of this version.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB`, `CORRUPT`, `UNSUPPORTED_FORMAT` for values of a later version,
/// `DST_TOO_SMALL` with the needed bytes in `*text_bytes`.
gridz_status gridz_cd_text(const uint32_t *values,
                           size_t n_values,
                           char *text,
                           size_t capacity,
                           size_t *text_bytes);

/// Compares an array with its original, into `*report`, whose `struct_size` the caller has set: the largest errors and
/// where they are, whether they keep a bound, and the figures that codecs are compared by.
///
/// `original` and `decoded` are two arrays such as `array` says, of `original_bytes` and `decoded_bytes` bytes, which are the
/// same number, in host memory; any codec may have made the second one. Elements that are not finite, or missing, in one of
/// them count in the mismatches only. Working memory is less than 1 MiB for each thread that works. The report
/// does not depend on the number of threads.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements, for `GRIDZ_MODE_PWREL` with integers, for modes that
/// bound no single error, and for memory of a GPU, `OUT_OF_MEMORY`.
gridz_status gridz_quality(const struct gridz_array *array,
                           const void *original,
                           size_t original_bytes,
                           const void *decoded,
                           size_t decoded_bytes,
                           struct gridz_quality_report *report,
                           const struct gridz_quality_options *options);

/// Finds the smallest and the largest number of an array, in order to make a bound of the range, or to put those of several
/// processes together (of all minima the smallest, of all maxima the largest).
///
/// `data` is an array such as `array` says, of `data_bytes` bytes, in host memory. Elements that are not finite, or missing, do not
/// count. 64-bit integers that a double cannot hold are rounded to inside of the range, where `*minimum` may become larger than
/// `*maximum`. Without any numbers `*minimum` is
/// infinity and `*maximum` minus infinity. Of the options `mode` and `value` are 0.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for opaque elements and for memory of a GPU, `OUT_OF_MEMORY`.
gridz_status gridz_range(const struct gridz_array *array,
                         const void *data,
                         size_t data_bytes,
                         double *minimum,
                         double *maximum,
                         const struct gridz_quality_options *options);

/// `value` times the range from `minimum` to `maximum`, rounded down: the absolute bound (`GRIDZ_MODE_ABS`) that keeps all errors
/// within `value` times the range. 0, which no codec takes for a bound, if there is no range (all numbers are the same, or there are
/// none) or one of the three is not finite.
double gridz_relative_bound(double minimum,
                            double maximum,
                            double value);

/// Compresses a sparse matrix, which `*cci` then holds, until `gridz_cci_destroy`.
///
/// `csr` describes it in rows or columns and is not needed afterwards. The elements of a row keep their order, also where
/// columns do not ascend or come twice. `values` is one of `GRIDZ_CCI_VALUES_*`. `context` may be NULL.
///
/// Working memory is in proportion to the elements, plus 16 bytes for every 3840 rows; the frame has at least 1 byte a row.
///
/// Errors: `INVALID_ARGUMENT` for what is no matrix, or values that are not as `values` says, `UNSUPPORTED_JOB` for other types,
/// for memory of a GPU, and for more elements than one frame can have, which are more than 10^11, `OUT_OF_MEMORY`.
gridz_status gridz_cci_create(const struct gridz_csr *csr,
                              uint32_t values,
                              const struct gridz_context *context,
                              struct gridz_cci **cci);

/// Ends a sparse matrix. No call may be using it, and none may use it or its frame afterwards. NULL is ignored.
void gridz_cci_destroy(struct gridz_cci *cci);

/// Tells what a sparse matrix is and how it is kept, in `*info`, whose `struct_size` the caller has set.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_inspect(const struct gridz_cci *cci,
                               struct gridz_cci_info *info);

/// The frame of a sparse matrix, in which it is held: `*frame_bytes` bytes at `*frame`, which live as long as the matrix. The same
/// matrix has the same frame on every machine. To keep it, write these bytes; `gridz_cci_open` reads them.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_frame(const struct gridz_cci *cci,
                             const void **frame,
                             size_t *frame_bytes);

/// A sparse matrix from its frame, which is in host memory and not needed afterwards. `context` may be NULL.
///
/// Any bytes may be passed: all tables are checked, and a damaged or hostile frame gives an error. Time and memory are in
/// proportion to `frame_bytes`, regardless of the rows and elements that the frame claims.
///
/// Errors: `INVALID_ARGUMENT`, `CORRUPT`, `TRUNCATED`, `UNSUPPORTED_FORMAT`, `UNSUPPORTED_JOB` for memory of a GPU and for slices that share
/// codes, which no version of gridz writes, `OUT_OF_MEMORY`.
gridz_status gridz_cci_open(const void *frame,
                            size_t frame_bytes,
                            const struct gridz_context *context,
                            struct gridz_cci **cci);

/// Multiplies a sparse matrix with `n_vectors` vectors: Y = A X, or with `transposed`, which is 0 or 1, Y = Aᵀ X.
///
/// `semiring` is one of `GRIDZ_CCI_SEMIRING_*`. Vectors have elements of the matrix's type, `x_bytes` and `y_bytes` bytes of them,
/// and do not overlap; those of several vectors lie side by side: element c of vector j is `x[c * n_vectors + j]`. `n_vectors` is 1 to 256.
/// `context` may be NULL. The result does not depend on threads or instructions: a row is summed from its first element to its
/// last, one multiplication and one addition each; SPEC.md has the order for rows that are much longer than others.
///
/// Both may be memory of an NVIDIA GPU, as for `gridz_compress`; then it is one vector, not transposed, and sums of products, and the first
/// call copies the frame there, see `gridz_cci_multiply_async`. `transposed` puts together results of parts of
/// the matrix, which take memory of up to an eighth of its elements for each vector; a matrix made of the transpose is faster.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for what GPUs do not do, `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_cci_multiply(const struct gridz_cci *cci,
                                uint32_t semiring,
                                uint32_t transposed,
                                size_t n_vectors,
                                const void *x,
                                size_t x_bytes,
                                void *y,
                                size_t y_bytes,
                                const struct gridz_context *context);

/// The same on a CUDA stream, without waiting: y = A x with vectors in the memory of a GPU, in the semiring
/// `GRIDZ_CCI_SEMIRING_PLUS_TIMES`, bit for bit as on the CPU.
///
/// The first call with a GPU copies the matrix's frame to it, compressed, waits for that, and keeps it there as long as the matrix lives. Both
/// vectors are aligned for their elements, and live, as the matrix does, until the stream has done the work. `stream` is a
/// `cudaStream_t` or `CUstream`; NULL is the legacy default stream.
///
/// Errors: `INVALID_ARGUMENT`, `UNSUPPORTED_JOB` for more than 2^32 rows or columns, `OUT_OF_MEMORY`, `DEVICE`.
gridz_status gridz_cci_multiply_async(const struct gridz_cci *cci,
                                      const void *x,
                                      size_t x_bytes,
                                      void *y,
                                      size_t y_bytes,
                                      void *stream);

/// Counts the elements of `n` rows from `first` on.
///
/// Errors: `INVALID_ARGUMENT`.
gridz_status gridz_cci_count(const struct gridz_cci *cci,
                             uint64_t first,
                             uint64_t n,
                             uint64_t *nnz);

/// Decodes `n` rows from `first` on, as they were: `n + 1` row starts from 0, and the columns and values of their elements, of
/// which there are `nnz`, as `gridz_cci_count` tells.
///
/// `index_dtype` is `GRIDZ_DTYPE_I32` or `GRIDZ_DTYPE_I64`, the type of starts and columns. All three are in host memory, aligned for their
/// elements; `values` may be NULL. `context` may be NULL.
///
/// Errors: `INVALID_ARGUMENT`, also for indices that are too short, `OUT_OF_MEMORY`.
gridz_status gridz_cci_decode(const struct gridz_cci *cci,
                              uint64_t first,
                              uint64_t n,
                              gridz_dtype index_dtype,
                              void *starts,
                              void *columns,
                              void *values,
                              uint64_t nnz,
                              const struct gridz_context *context);

/// Writes a box of a dataset: `gridz_h5_write` of `gridz_hdf5.h`, which calls it with the functions of the program's
/// libhdf5. The list ends with an entry whose name is NULL. NULL in its place = the functions that have these names in the
/// program, if it is linked with one libhdf5.
///
/// Errors: those of `gridz_h5_write`.
gridz_status gridz_h5_write_by(const struct gridz_h5_function *functions,
                               int64_t dataset,
                               int64_t mem_type,
                               const uint64_t *start,
                               const uint64_t *count,
                               const void *src,
                               const struct gridz_h5_options *options);

/// Reads a box of a dataset: `gridz_h5_read` of `gridz_hdf5.h`, likewise.
///
/// Errors: those of `gridz_h5_read`.
gridz_status gridz_h5_read_by(const struct gridz_h5_function *functions,
                              int64_t dataset,
                              int64_t mem_type,
                              const uint64_t *start,
                              const uint64_t *count,
                              void *dst,
                              const struct gridz_h5_options *options);

/// Reads less than there is of a box of a dataset: `gridz_h5_read_progressive` of `gridz_hdf5.h`, likewise.
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

/// Tells what that would read: `gridz_h5_inspect_progressive` of `gridz_hdf5.h`, likewise.
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

/// Copies a dataset: `gridz_h5_copy` of `gridz_hdf5.h`, likewise.
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
