/*
 * Tests every function of gridz.h: its results, the calls that it refuses, and the error messages.
 * Run under AddressSanitizer with buffers of exactly the size that the header states.
 *
 *     test_gridz            all tests
 *     test_gridz bad-env    with GRIDZ_THREADS=many in the environment: every call reports it
 *     test_gridz overflow   reads past a buffer; AddressSanitizer must detect it
 */
#define _POSIX_C_SOURCE 200809L

#include <gridz_cuda.h>
#include <gridz_progressive.h>
#include <gridz_quality.h>

#include "check.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    uint32_t dtype;
    size_t size;
} DTYPES[] = {
    {GRIDZ_DTYPE_U8, 1},   {GRIDZ_DTYPE_U16, 2},  {GRIDZ_DTYPE_U32, 4}, {GRIDZ_DTYPE_U64, 8},
    {GRIDZ_DTYPE_I8, 1},   {GRIDZ_DTYPE_I16, 2},  {GRIDZ_DTYPE_I32, 4}, {GRIDZ_DTYPE_I64, 8},
    {GRIDZ_DTYPE_F16, 2},  {GRIDZ_DTYPE_BF16, 2}, {GRIDZ_DTYPE_F32, 4}, {GRIDZ_DTYPE_F64, 8},
    {GRIDZ_DTYPE_C64, 8},  {GRIDZ_DTYPE_C128, 16},
};

/* Extents around the block sizes of ndzip: 4096, 64 x 64, 16 x 16 x 16. */
static const struct {
    uint32_t rank;
    uint64_t extents[7];
} SHAPES[] = {
    {0, {0}},           {1, {0}},           {1, {1}},           {1, {17}},
    {1, {4095}},        {1, {4096}},        {1, {4097}},        {1, {12301}},
    {2, {64, 64}},      {2, {65, 127}},     {2, {3, 5000}},     {2, {100, 0}},
    {3, {16, 16, 16}},  {3, {33, 17, 40}},  {3, {1, 1, 9000}},  {3, {15, 15, 15}},
    {4, {2, 16, 3, 64}}, {5, {2, 2, 8, 16, 16}}, {6, {1, 2, 3, 4, 5, 6}}, {7, {2, 2, 2, 2, 2, 2, 70}},
};

static gridz_array describe(uint32_t dtype, uint32_t rank, const uint64_t *extents)
{
    gridz_array array = {.struct_size = sizeof array, .dtype = dtype, .rank = rank, .extents = extents};
    return array;
}

static uint64_t header_bytes(uint32_t rank)
{
    return (40 + 8 * (uint64_t)rank + 15) / 16 * 16;
}

/* A compressible array of floats, and its frame. */
enum { SMALL = 20 };
static const uint64_t SMALL_EXTENTS[3] = {SMALL, SMALL, SMALL};
static float small[SMALL * SMALL * SMALL];
static gridz_array small_array;
static unsigned char *small_frame;
static size_t small_frame_bytes;

static void make_small(void)
{
    for (size_t i = 0; i < COUNT(small); i++)
        small[i] = 1.0f + (float)(i % SMALL) * 0.125f;
    small_array = describe(GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS);
    small_frame = compressed(&small_array, small, sizeof small, &small_frame_bytes, NULL);
    CHECK(small_frame_bytes < sizeof small);
}

static void test_texts(void)
{
#define CHECK_NAME(status) CHECK(strcmp(gridz_status_name(status), #status) == 0)
    CHECK_NAME(GRIDZ_OK);
    CHECK_NAME(GRIDZ_ERROR_INVALID_ARGUMENT);
    CHECK_NAME(GRIDZ_ERROR_DST_TOO_SMALL);
    CHECK_NAME(GRIDZ_ERROR_UNSUPPORTED_JOB);
    CHECK_NAME(GRIDZ_ERROR_CORRUPT);
    CHECK_NAME(GRIDZ_ERROR_TRUNCATED);
    CHECK_NAME(GRIDZ_ERROR_UNSUPPORTED_FORMAT);
    CHECK_NAME(GRIDZ_ERROR_OUT_OF_MEMORY);
    CHECK_NAME(GRIDZ_ERROR_DEVICE);
    CHECK_NAME(GRIDZ_ERROR_HOST);
    CHECK_NAME(GRIDZ_ERROR_INTERNAL);
    CHECK(strcmp(gridz_status_name(12345), "unknown gridz_status") == 0);
    CHECK(strcmp(gridz_status_name(-1), "unknown gridz_status") == 0);

    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", GRIDZ_VERSION_MAJOR, GRIDZ_VERSION_MINOR, GRIDZ_VERSION_PATCH);
    CHECK(strcmp(gridz_version(), version) == 0);
}

/* Round trip of one array; checks the frame's info and that its size is within the bound. */
static void check_round_trip(const gridz_array *array, size_t element_size, const unsigned char *data,
                             size_t n_bytes, const gridz_options *options)
{
    size_t frame_bytes = 0;
    unsigned char *frame = compressed(array, data, n_bytes, &frame_bytes, options);
    CHECK(frame_bytes <= header_bytes(array->rank) + n_bytes);
    check_decompresses(frame, frame_bytes, data, n_bytes, options);

    gridz_frame_info info;
    memset(&info, 0xee, sizeof info);
    info.struct_size = sizeof info;
    CHECK_OK(gridz_inspect(frame, frame_bytes, &info));
    int is_number = array->dtype != GRIDZ_DTYPE_OPAQUE && element_size > 1;
    CHECK(info.struct_size == sizeof info);
    CHECK(info.dtype == array->dtype);
    CHECK(info.element_size == element_size);
    if (is_number && array->byte_order == GRIDZ_BYTE_ORDER_BIG)
        CHECK(info.byte_order == GRIDZ_BYTE_ORDER_BIG);
    else if (!is_number || array->byte_order == GRIDZ_BYTE_ORDER_LITTLE)
        CHECK(info.byte_order == GRIDZ_BYTE_ORDER_LITTLE);
    CHECK(info.rank == array->rank);
    for (uint32_t i = 0; i < GRIDZ_MAX_RANK; i++)
        CHECK(info.extents[i] == (i < array->rank ? array->extents[i] : 0));
    CHECK(info.array_bytes == n_bytes);
    CHECK(info.frame_bytes == frame_bytes);
    CHECK(info.codec_name != NULL);
    CHECK(strcmp(info.codec_name, info.codec == 0 ? "stored" : "lorenzo") == 0);
    CHECK(info.mode == GRIDZ_MODE_LOSSLESS && info.value == 0 && info.bound == 0);

    /* The previous contents of the destination must not influence the frame. */
    size_t bound = 0, again_bytes = 0;
    CHECK_OK(gridz_compress_bound(array, options, &bound));
    unsigned char *again = exactly(bound);
    for (int pattern = 0; pattern < 256; pattern += 255) {
        memset(again, pattern, bound);
        CHECK_OK(gridz_compress(array, data, n_bytes, again, bound, &again_bytes, options));
        CHECK(again_bytes == frame_bytes && memcmp(again, frame, frame_bytes) == 0);
    }
    free(again);
    free(frame);
}

/* No alignment is required: of elements, frames or results. */
static void test_misaligned(void)
{
    static const char *const CODECS[] = {"lorenzo", "ndzip", "stored"};
    for (size_t i = 0; i < COUNT(CODECS); i++) {
        const gridz_options options = {.struct_size = sizeof options, .request = CODECS[i]};
        size_t bound = 0, n_bytes = 0, expected_bytes = 0;
        unsigned char *expected = compressed(&small_array, small, sizeof small, &expected_bytes, &options);
        CHECK_OK(gridz_compress_bound(&small_array, &options, &bound));
        for (size_t shift = 1; shift < 8; shift += 2) {
            unsigned char *src = exactly(sizeof small + shift), *frame = exactly(bound + shift);
            memcpy(src + shift, small, sizeof small);
            CHECK_OK(gridz_compress(&small_array, src + shift, sizeof small, frame + shift, bound, &n_bytes, &options));
            CHECK(n_bytes == expected_bytes && memcmp(frame + shift, expected, n_bytes) == 0);
            memset(src, 0, sizeof small + shift);
            CHECK_OK(gridz_decompress(frame + shift, n_bytes, src + shift, sizeof small, &n_bytes, &options));
            CHECK(n_bytes == sizeof small && memcmp(src + shift, small, sizeof small) == 0);
            free(src);
            free(frame);
        }
        free(expected);
    }
}

static void test_round_trips(void)
{
    static const uint32_t ORDERS[] = {GRIDZ_BYTE_ORDER_NATIVE, GRIDZ_BYTE_ORDER_LITTLE, GRIDZ_BYTE_ORDER_BIG};
    for (size_t t = 0; t < COUNT(DTYPES); t++) {
        for (size_t s = 0; s < COUNT(SHAPES); s++) {
            gridz_array array = describe(DTYPES[t].dtype, SHAPES[s].rank, SHAPES[s].extents);
            size_t n_bytes = bytes_of(&array, DTYPES[t].size);
            unsigned char *data = exactly(n_bytes);
            for (size_t o = 0; o < COUNT(ORDERS); o++) {
                array.byte_order = ORDERS[o];
                random_bytes(data, n_bytes, 100 * t + s);
                check_round_trip(&array, DTYPES[t].size, data, n_bytes, NULL);
                memset(data, 0, n_bytes);
                check_round_trip(&array, DTYPES[t].size, data, n_bytes, NULL);
            }
            free(data);
        }
    }
}

static void test_opaque(void)
{
    static const uint32_t SIZES[] = {1, 2, 3, 7, 16, 1000};
    const uint64_t extents[2] = {11, 13};
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        gridz_array array = describe(GRIDZ_DTYPE_OPAQUE, 2, extents);
        array.element_size = SIZES[i];
        size_t n_bytes = bytes_of(&array, SIZES[i]);
        unsigned char *data = exactly(n_bytes);
        random_bytes(data, n_bytes, i);
        check_round_trip(&array, SIZES[i], data, n_bytes, NULL);
        free(data);
    }
}

/* Bit patterns that a compiler or an FPU might change. */
static void test_special_values(void)
{
    const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 5e-324, -5e-324, 1.7976931348623157e308};
    const uint64_t extents[1] = {8192};
    static double data[8192];
    for (size_t i = 0; i < COUNT(data); i++)
        data[i] = values[(i * i) % COUNT(values)];
    const uint64_t payload = 0x7ff4dead0000beefu; /* a signalling NaN */
    memcpy(&data[5000], &payload, sizeof payload);
    gridz_array array = describe(GRIDZ_DTYPE_F64, 1, extents);
    check_round_trip(&array, sizeof *data, (const unsigned char *)data, sizeof data, NULL);
}

static void test_array_descriptions(void)
{
    size_t bound = 77;
    const uint64_t ones[33] = {1};
    const uint64_t huge[2] = {(uint64_t)1 << 40, (uint64_t)1 << 40};
    const uint64_t large[1] = {(uint64_t)1 << 62};

    gridz_array array = small_array;
    array.dtype = 15;
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "dtype 15");
    array.dtype = 256 + GRIDZ_DTYPE_F32;
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "dtype 267");
    array = small_array;
    array.byte_order = 3;
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "byte_order 3");
    array = small_array;
    array.element_size = 4;
    CHECK_OK(gridz_compress_bound(&array, NULL, &bound));
    array.element_size = 8;
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "elements have 4 bytes");
    array = describe(GRIDZ_DTYPE_OPAQUE, 3, SMALL_EXTENTS);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "element_size");
    array = describe(GRIDZ_DTYPE_U8, 33, ones);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "rank 33");
    array = describe(GRIDZ_DTYPE_U8, UINT32_MAX, ones);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "rank 4294967295");
    array = describe(GRIDZ_DTYPE_U8, 2, huge);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "2^64");
    array = describe(GRIDZ_DTYPE_F32, 1, large);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "exceeds the address space");
    array = describe(GRIDZ_DTYPE_F32, 3, NULL);
    CHECK_FAILS(gridz_compress_bound(&array, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT, "extents is NULL");
    array = describe(GRIDZ_DTYPE_U8, 32, ones);
    CHECK_OK(gridz_compress_bound(&array, NULL, &bound));
    array = describe(GRIDZ_DTYPE_F32, 0, NULL);
    CHECK_OK(gridz_compress_bound(&array, NULL, &bound));
    CHECK(bound >= 4 + header_bytes(0));
}

static void test_too_small(void)
{
    size_t bound = 0, n_bytes = 77;
    CHECK_OK(gridz_compress_bound(&small_array, NULL, &bound));
    unsigned char *dst = exactly(bound - 1);
    CHECK_FAILS(gridz_compress(&small_array, small, sizeof small, dst, bound - 1, &n_bytes, NULL),
                GRIDZ_ERROR_DST_TOO_SMALL, "too small");
    CHECK(n_bytes == bound);
    n_bytes = 77;
    CHECK_STATUS(gridz_compress(&small_array, small, sizeof small, NULL, 0, &n_bytes, NULL),
                 GRIDZ_ERROR_DST_TOO_SMALL);
    CHECK(n_bytes == bound);
    free(dst);

    dst = exactly(sizeof small - 1);
    CHECK_FAILS(gridz_decompress(small_frame, small_frame_bytes, dst, sizeof small - 1, &n_bytes, NULL),
                GRIDZ_ERROR_DST_TOO_SMALL, "too small");
    CHECK(n_bytes == sizeof small);
    n_bytes = 77;
    CHECK_STATUS(gridz_decompress(small_frame, small_frame_bytes, NULL, 0, &n_bytes, NULL),
                 GRIDZ_ERROR_DST_TOO_SMALL);
    CHECK(n_bytes == sizeof small);
    free(dst);

    /* A larger destination is allowed; the bytes after the frame stay unchanged. */
    dst = exactly(sizeof small + 100);
    memset(dst, 0x5a, sizeof small + 100);
    CHECK_OK(gridz_decompress(small_frame, small_frame_bytes, dst, sizeof small + 100, &n_bytes, NULL));
    CHECK(n_bytes == sizeof small && memcmp(dst, small, sizeof small) == 0);
    for (size_t i = 0; i < 100; i++)
        CHECK(dst[sizeof small + i] == 0x5a);
    free(dst);
}

static void test_pointers_and_lengths(void)
{
    size_t bound = 0, n_bytes = 77;
    gridz_frame_info info = {.struct_size = sizeof info};
    CHECK_OK(gridz_compress_bound(&small_array, NULL, &bound));
    unsigned char *dst = exactly(bound);

#define CHECK_INVALID(call, words) CHECK_FAILS(call, GRIDZ_ERROR_INVALID_ARGUMENT, words)
    CHECK_INVALID(gridz_compress_bound(NULL, NULL, &bound), "gridz_array is NULL");
    CHECK_INVALID(gridz_compress_bound(&small_array, NULL, NULL), "bound is NULL");

    CHECK_INVALID(gridz_compress(NULL, small, sizeof small, dst, bound, &n_bytes, NULL), "gridz_array is NULL");
    CHECK_INVALID(gridz_compress(&small_array, NULL, sizeof small, dst, bound, &n_bytes, NULL), "src is NULL");
    CHECK_INVALID(gridz_compress(&small_array, small, sizeof small, NULL, bound, &n_bytes, NULL), "dst is NULL");
    CHECK_INVALID(gridz_compress(&small_array, small, sizeof small, dst, bound, NULL, NULL), "dst_bytes is NULL");
    CHECK_INVALID(gridz_compress(&small_array, small, sizeof small - 4, dst, bound, &n_bytes, NULL), "source");
    CHECK_INVALID(gridz_compress(&small_array, NULL, 0, dst, bound, &n_bytes, NULL), "source");
    CHECK_INVALID(gridz_compress(&small_array, small, SIZE_MAX, dst, bound, &n_bytes, NULL), "exceeds the address space");
    CHECK_INVALID(gridz_compress(&small_array, small, sizeof small, dst, SIZE_MAX, &n_bytes, NULL), "exceeds the address space");

    CHECK_INVALID(gridz_decompress(NULL, 5, dst, bound, &n_bytes, NULL), "frame is NULL");
    CHECK_INVALID(gridz_decompress(small_frame, small_frame_bytes, NULL, 9, &n_bytes, NULL), "dst is NULL");
    CHECK_INVALID(gridz_decompress(small_frame, small_frame_bytes, dst, bound, NULL, NULL), "dst_bytes is NULL");
    CHECK_INVALID(gridz_decompress(small_frame, SIZE_MAX, dst, bound, &n_bytes, NULL), "exceeds the address space");
    CHECK_INVALID(gridz_decompress(small_frame, small_frame_bytes, dst, SIZE_MAX / 2 + 1, &n_bytes, NULL), "exceeds the address space");

    CHECK_INVALID(gridz_inspect(NULL, 5, &info), "frame is NULL");
    CHECK_INVALID(gridz_inspect(small_frame, small_frame_bytes, NULL), "gridz_frame_info is NULL");
    CHECK_INVALID(gridz_context_create(NULL, NULL), "context is NULL");
    gridz_context_destroy(NULL);

    /* Overlapping buffers are refused; adjacent buffers are accepted. */
    unsigned char *both = exactly(sizeof small + bound);
    memcpy(both, small, sizeof small);
    CHECK_INVALID(gridz_compress(&small_array, both, sizeof small, both, bound, &n_bytes, NULL), "overlap");
    CHECK_INVALID(gridz_compress(&small_array, both, sizeof small, both + sizeof small - 1, bound, &n_bytes, NULL),
                  "overlap");
    CHECK_OK(gridz_compress(&small_array, both, sizeof small, both + sizeof small, bound, &n_bytes, NULL));
    CHECK_INVALID(gridz_decompress(both + sizeof small, n_bytes, both, sizeof small + 1, &n_bytes, NULL), "overlap");
    CHECK_OK(gridz_decompress(both + sizeof small, n_bytes, both, sizeof small, &n_bytes, NULL));
    CHECK(memcmp(both, small, sizeof small) == 0);
    free(both);
#undef CHECK_INVALID

    /* NULL is valid for a buffer of 0 bytes. */
    const uint64_t none[2] = {5, 0};
    gridz_array empty = describe(GRIDZ_DTYPE_F32, 2, none);
    unsigned char *frame = compressed(&empty, NULL, 0, &n_bytes, NULL);
    size_t frame_bytes = n_bytes;
    CHECK_OK(gridz_decompress(frame, frame_bytes, NULL, 0, &n_bytes, NULL));
    CHECK(n_bytes == 0);
    free(frame);
    CHECK_STATUS(gridz_decompress(NULL, 0, dst, bound, &n_bytes, NULL), GRIDZ_ERROR_TRUNCATED);
    CHECK_STATUS(gridz_inspect(NULL, 0, &info), GRIDZ_ERROR_TRUNCATED);
    free(dst);
}

/* The next functions each pass the struct at `bytes` to one gridz function. */
static gridz_status use_array(void *bytes)
{
    size_t bound;
    return gridz_compress_bound(bytes, NULL, &bound);
}

static gridz_status use_options(void *bytes)
{
    size_t bound;
    return gridz_compress_bound(&small_array, bytes, &bound);
}

static gridz_status use_context_options(void *bytes)
{
    gridz_context *context = NULL;
    gridz_status status = gridz_context_create(bytes, &context);
    CHECK((status == GRIDZ_OK) == (context != NULL));
    gridz_context_destroy(context);
    return status;
}

static gridz_status use_frame_info(void *bytes)
{
    return gridz_inspect(small_frame, small_frame_bytes, bytes);
}

/* Struct sizes of programs and libraries of different versions. `known` is a valid struct of this
 * version; in the first version, the struct had `first_bytes` bytes. */
static void check_struct_sizes(gridz_status (*use)(void *), const void *known, size_t known_bytes, size_t first_bytes,
                               int is_input)
{
    static const size_t WRONG[] = {0, 1, 8, 4097, (size_t)1 << 60, SIZE_MAX};
    unsigned char *bytes = exactly(known_bytes + 24);
    memset(bytes, 0, known_bytes + 24);
    memcpy(bytes, known, known_bytes);

    CHECK_OK(use(bytes));
    for (size_t i = 0; i < COUNT(WRONG); i++) {
        memcpy(bytes, &WRONG[i], sizeof(size_t));
        CHECK_FAILS(use(bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "struct_size");
    }
    size_t struct_size = first_bytes - 1;
    memcpy(bytes, &struct_size, sizeof struct_size);
    CHECK_FAILS(use(bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "struct_size");

    /* An older program: the bytes past its struct stay unchanged. */
    struct_size = first_bytes;
    memcpy(bytes, &struct_size, sizeof struct_size);
    memset(bytes + first_bytes, 0xa5, known_bytes + 24 - first_bytes);
    CHECK_OK(use(bytes));
    for (size_t i = first_bytes; i < known_bytes + 24; i++)
        CHECK(bytes[i] == 0xa5);
    memset(bytes, 0, known_bytes + 24);
    memcpy(bytes, known, known_bytes);

    /* A newer program that does not use the new fields. */
    struct_size = known_bytes + 24;
    memcpy(bytes, &struct_size, sizeof struct_size);
    CHECK_OK(use(bytes));

    /* A newer program that uses them. */
    bytes[known_bytes + 23] = 1;
    if (is_input) {
        CHECK_FAILS(use(bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "compiled with a newer header");
    } else {
        CHECK_OK(use(bytes));
        CHECK(bytes[known_bytes + 23] == 0);
        CHECK(memcmp(bytes, &struct_size, sizeof struct_size) == 0);
    }
    free(bytes);
}

/* Arguments of a batch that the host can check are checked before any GPU is looked for. The
 * addresses are never dereferenced. */
static void test_async_arguments(void)
{
    size_t bound = 0, bytes = 77;
    CHECK_OK(gridz_compress_bound(&small_array, NULL, &bound));
    const size_t slot = bound, array = sizeof small;
    char *const base = (char *)(uintptr_t)(1 << 30);
    char *const src = base, *const dst = base + (1 << 24), *const work = base + (2 << 24);
    size_t *const lengths = (size_t *)(base + (3 << 24));
    gridz_status *const statuses = (gridz_status *)(base + (4 << 24));
    const gridz_batch two = {.struct_size = sizeof two, .array = &small_array, .n = 2, .arrays = src, .array_stride = array,
                             .frames = dst, .frame_stride = slot, .frame_bytes = lengths, .statuses = statuses};
    gridz_batch batch;

/* The call with these fields instead of those of `two` fails with these words. */
#define CHECK_BATCH(function, words, ...)                                                  \
    do {                                                                                   \
        batch = two;                                                                       \
        __VA_ARGS__;                                                                       \
        CHECK_FAILS(function(&batch), GRIDZ_ERROR_INVALID_ARGUMENT, words);                \
    } while (0)
#define CHECK_BOTH(words, ...)                                                             \
    do {                                                                                   \
        CHECK_BATCH(gridz_compress_async, words, __VA_ARGS__);                             \
        CHECK_BATCH(gridz_decompress_async, words, __VA_ARGS__);                           \
    } while (0)

    CHECK_FAILS(gridz_compress_async(NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_batch is NULL");
    CHECK_FAILS(gridz_pack_async(NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_batch is NULL");
    CHECK_FAILS(gridz_async_workspace_bytes(&two, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "bytes is NULL");
    CHECK_FAILS(gridz_async_workspace_bytes(NULL, &bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_batch");
    CHECK_BOTH("gridz_array is NULL", batch.array = NULL);
    CHECK_BOTH("struct_size of gridz_batch is 8", batch.struct_size = 8);

    CHECK_BOTH("arrays is NULL", batch.arrays = NULL);
    CHECK_BOTH("frames is NULL", batch.frames = NULL);
    CHECK_BOTH("frame_bytes is NULL", batch.frame_bytes = NULL);
    CHECK_BOTH("workspace is NULL", batch.workspace_bytes = 8);
    CHECK_BOTH("array_stride is 31996", batch.array_stride = array - 4);
    CHECK_BOTH("array_stride is 0", batch.array_stride = 0);
    CHECK_BOTH("multiple of 4 and at least 32000", batch.array_stride = array + 2);
    CHECK_BOTH("frame_stride is", batch.n = 1, batch.frame_stride = slot - 16);
    CHECK_BOTH("multiple of 16 and at least", batch.n = 1, batch.frame_stride = slot + 8);
    CHECK_BOTH("exceed the address space", batch.n = SIZE_MAX);
    CHECK_BOTH("arrays is at 0x40000002", batch.n = 1, batch.arrays = src + 2);
    CHECK_BOTH("aligned to 16 bytes", batch.frames = dst + 8);
    CHECK_BOTH("frame_bytes is at", batch.frame_bytes = (size_t *)((char *)lengths + 4));
    CHECK_BOTH("workspace is at", batch.workspace = work + 4, batch.workspace_bytes = 100);
    CHECK_BOTH("arrays and frames overlap", batch.frames = src + array + 16);
    CHECK_BOTH("frames and frame_bytes overlap", batch.frame_bytes = (size_t *)dst);
    CHECK_BOTH("arrays and workspace overlap", batch.workspace = src, batch.workspace_bytes = 100);
    CHECK_BATCH(gridz_decompress_async, "statuses is NULL", batch.statuses = NULL);
    CHECK_BATCH(gridz_decompress_async, "statuses is at", batch.statuses = (gridz_status *)((char *)statuses + 2));
    CHECK_BATCH(gridz_decompress_async, "arrays and statuses overlap", batch.statuses = (gridz_status *)src);

    const uint64_t start[3] = {1, 2, 3}, count[3] = {4, 5, 6}, beyond[3] = {1, 2, SMALL - 2};
#define CHECK_REGION(words, ...) \
    CHECK_BATCH(gridz_decompress_async, words, batch.start = start, batch.count = count, batch.array_stride = 480, __VA_ARGS__)
    CHECK_REGION("start is NULL", batch.start = NULL);
    CHECK_REGION("count is NULL", batch.count = NULL);
    CHECK_REGION("axis 2", batch.count = beyond);
    CHECK_REGION("arrays is NULL", batch.arrays = NULL);
    CHECK_REGION("multiple of 4 and at least 480", batch.array_stride = 476);
    CHECK_REGION("arrays is at", batch.arrays = src + 2);
    CHECK_REGION("arrays and frames overlap", batch.arrays = dst + slot);
    CHECK_BATCH(gridz_compress_async, "gridz_compress_async processes whole arrays", batch.start = start, batch.count = count);
    CHECK_BATCH(gridz_decompress_chunks, "gridz_decompress_chunks processes whole arrays", batch.count = count);
    batch = two;
    batch.start = start;
    CHECK_FAILS(gridz_compress_chunks(&batch, &bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "set both to NULL");

    /* An empty batch needs neither memory nor a GPU. */
    batch = (gridz_batch){.struct_size = sizeof batch, .array = &small_array};
    CHECK_OK(gridz_compress_async(&batch));
    CHECK_OK(gridz_decompress_async(&batch));
    CHECK_OK(gridz_pack_async(&batch));
    CHECK_OK(gridz_unpack_async(&batch, NULL));
    CHECK_OK(gridz_async_workspace_bytes(&batch, &bytes));
    CHECK(bytes == 0);
    batch.start = start;
    batch.count = count;
    CHECK_OK(gridz_decompress_async(&batch));

    /* Not GPU memory: refused on every machine, for one reason or another, and never accessed. */
    batch = two;
    batch.n = 1;
    gridz_status status = gridz_compress_async(&batch);
    CHECK(status == GRIDZ_ERROR_DEVICE || status == GRIDZ_ERROR_INVALID_ARGUMENT);
    status = gridz_decompress_async(&batch);
    CHECK(status == GRIDZ_ERROR_DEVICE || status == GRIDZ_ERROR_INVALID_ARGUMENT);
    batch.start = start;
    batch.count = count;
    status = gridz_decompress_async(&batch);
    CHECK(status == GRIDZ_ERROR_DEVICE || status == GRIDZ_ERROR_INVALID_ARGUMENT);
#undef CHECK_BATCH
#undef CHECK_BOTH
#undef CHECK_REGION
}

/* Many arrays in host memory, with a gap between them: packed frames equal those of gridz_compress. */
static void test_batches(void)
{
    enum { N = 5, GAP = 3 };
    static float arrays[N][SMALL * SMALL * SMALL + GAP], back[N][SMALL * SMALL * SMALL + GAP];
    size_t lengths[N], bound = 0, packed_bytes = 0, at = 0, n_bytes = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < COUNT(small); k++)
            arrays[i][k] = small[k] + (float)i;
    CHECK_OK(gridz_packed_bound(&small_array, N, &bound));
    unsigned char *packed = exactly(bound);
    const gridz_options options = {.struct_size = sizeof options, .request = "lorenzo,level=dense"};
    gridz_batch batch = {.struct_size = sizeof batch, .array = &small_array, .n = N, .arrays = arrays, .packed = packed,
                         .array_stride = sizeof *arrays, .frame_bytes = lengths, .packed_bytes = bound, .options = &options};
    CHECK_OK(gridz_compress_chunks(&batch, &packed_bytes));
    for (size_t i = 0; i < N; i++) {
        unsigned char *frame = compressed(&small_array, arrays[i], sizeof small, &n_bytes, &options);
        CHECK(n_bytes == lengths[i] && memcmp(packed + at, frame, n_bytes) == 0);
        at += (lengths[i] + 15) / 16 * 16;
        free(frame);
    }
    CHECK(packed_bytes == at && at <= bound);

    batch.arrays = back;
    batch.packed_bytes = packed_bytes;
    CHECK_OK(gridz_decompress_chunks(&batch));
    for (size_t i = 0; i < N; i++) {
        CHECK(memcmp(back[i], arrays[i], sizeof small) == 0);
        CHECK(back[i][COUNT(small)] == 0); /* the gap is left unchanged */
    }
    batch.packed_bytes = packed_bytes - 16;
    CHECK_FAILS(gridz_decompress_chunks(&batch), GRIDZ_ERROR_TRUNCATED, "");
    batch.packed_bytes = packed_bytes;
    packed[lengths[0] / 2] ^= 1;
    CHECK_FAILS(gridz_decompress_chunks(&batch), GRIDZ_ERROR_CORRUPT, "0");
    batch.arrays = arrays;
    batch.packed_bytes = 100;
    CHECK_FAILS(gridz_compress_chunks(&batch, &n_bytes), GRIDZ_ERROR_DST_TOO_SMALL, "");
    CHECK(n_bytes == bound);
    batch.array_stride = sizeof small - 1;
    CHECK_FAILS(gridz_compress_chunks(&batch, &n_bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "array_stride is 31999");
    batch.array_stride = sizeof *arrays;
    batch.packed = arrays[1];
    batch.packed_bytes = bound;
    CHECK_FAILS(gridz_compress_chunks(&batch, &n_bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "arrays and packed overlap");
    batch.packed = packed;
    batch.frame_bytes = NULL;
    CHECK_FAILS(gridz_compress_chunks(&batch, &n_bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "frame_bytes is NULL");
    CHECK_FAILS(gridz_compress_chunks(&batch, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "packed_bytes is NULL");
    free(packed);
}

static gridz_status use_block_counts(void *counts)
{
    return gridz_inspect_blocks(small_frame, small_frame_bytes, counts);
}

static gridz_status use_quality_options(void *options)
{
    gridz_quality_report report = {.struct_size = sizeof report};
    return gridz_quality(&small_array, small, sizeof small, small, sizeof small, &report, options);
}

static gridz_status use_quality_report(void *report)
{
    return gridz_quality(&small_array, small, sizeof small, small, sizeof small, report, NULL);
}

static gridz_status use_batch(void *batch)
{
    return gridz_compress_async(batch);
}

static void test_struct_sizes(void)
{
    gridz_batch batch = {.struct_size = sizeof batch, .array = &small_array};
    check_struct_sizes(use_batch, &batch, sizeof batch, sizeof batch, 1);
    gridz_quality_options quality_options = {.struct_size = sizeof quality_options};
    gridz_quality_report quality_report = {.struct_size = sizeof quality_report};
    gridz_block_counts counts = {.struct_size = sizeof counts};
    gridz_options options = {.struct_size = sizeof options};
    gridz_context_options context_options = {.struct_size = sizeof context_options};
    gridz_frame_info info = {.struct_size = sizeof info};
    check_struct_sizes(use_array, &small_array, sizeof small_array, sizeof small_array, 1);
    check_struct_sizes(use_options, &options, sizeof options, sizeof options, 1);
    check_struct_sizes(use_context_options, &context_options, sizeof context_options, sizeof context_options, 1);
    /* The size in version 0.1.0. */
    check_struct_sizes(use_frame_info, &info, sizeof info, 312, 0);
    check_struct_sizes(use_block_counts, &counts, sizeof counts, 96, 0);
    check_struct_sizes(use_quality_options, &quality_options, sizeof quality_options, sizeof quality_options, 1);
    check_struct_sizes(use_quality_report, &quality_report, sizeof quality_report, sizeof quality_report, 0);

    /* Programs were compiled with these sizes: a struct may only grow at its end. */
    if (sizeof(void *) == 8) {
        CHECK(sizeof(gridz_array) == 32 && offsetof(gridz_array, extents) == 24);
        CHECK(sizeof(gridz_options) == 64 && offsetof(gridz_options, fill_value) == 32);
        CHECK(sizeof(gridz_batch) == 144 && offsetof(gridz_batch, options) == 136);
        CHECK(sizeof(gridz_context_options) == 24 && offsetof(gridz_context_options, memory_limit) == 16);
        CHECK(sizeof(gridz_frame_info) == 328 && offsetof(gridz_frame_info, bound) == 320);
        CHECK(sizeof(gridz_block_counts) == 104 && offsetof(gridz_block_counts, exact) == 96);
        CHECK(sizeof(gridz_quality_options) == 64 && offsetof(gridz_quality_options, fill_value) == 32);
        CHECK(sizeof(gridz_quality_report) == 184 && offsetof(gridz_quality_report, ssim_3d) == 176);
    }
}

/* Quality of a decoded array compared with the original: figures, mismatches, bounds, refusals. */
static void test_quality(void)
{
    static float back[SMALL * SMALL * SMALL];
    memcpy(back, small, sizeof small);
    back[7] += 0.25f;
    back[4000] -= 0.125f;
    gridz_quality_report report = {.struct_size = sizeof report};
    gridz_quality_options options = {.struct_size = sizeof options, .mode = GRIDZ_MODE_ABS, .value = 0.25};
    CHECK_OK(gridz_quality(&small_array, small, sizeof small, back, sizeof back, &report, &options));
    CHECK(report.elements == COUNT(small) && report.numbers == COUNT(small));
    CHECK(report.fill_mismatches == 0 && report.nan_mismatches == 0 && report.infinity_mismatches == 0);
    CHECK(report.largest_error == 0.25 && report.largest_error_rest == 0 && report.largest_error_index == 7);
    CHECK(report.largest_relative_error == 0.25 / (1 + 7 * 0.125) && report.largest_relative_error_index == 7);
    CHECK(report.bound == 0.25 && report.error_over_bound == 1);
    CHECK(report.minimum == 1 && report.maximum == 1 + 19 * 0.125 && report.range == 19 * 0.125);
    const double squares = 0.25 * 0.25 + 0.125 * 0.125, rmse = sqrt(squares / COUNT(small));
    CHECK(fabs(report.l2_error - sqrt(squares)) < 1e-12 && fabs(report.rmse - rmse) < 1e-12);
    CHECK(fabs(report.nrmse - rmse / report.range) < 1e-12);
    CHECK(fabs(report.psnr - 20 * log10(report.range / rmse)) < 1e-9);
    CHECK(report.correlation > 0.9999 && report.correlation < 1);
    CHECK(report.ssim_2d > 0.99 && report.ssim_2d < 1 && report.ssim_3d > 0.99 && report.ssim_3d < 1);

    /* The same array, without a bound. */
    CHECK_OK(gridz_quality(&small_array, small, sizeof small, small, sizeof small, &report, NULL));
    CHECK(report.largest_error == 0 && isinf(report.psnr) && isnan(report.error_over_bound) && isnan(report.bound));
    CHECK(fabs(report.correlation - 1) < 1e-12 && fabs(report.ssim_3d - 1) < 1e-9);

    /* A bound relative to the range of the numbers that are not fill values, and an explicit thread
     * count. */
    const float fill = 99;
    gridz_context_options two = {.struct_size = sizeof two, .threads = 2};
    gridz_context *context = NULL;
    CHECK_OK(gridz_context_create(&two, &context));
    static float with_fill[COUNT(small)];
    memcpy(with_fill, small, sizeof small);
    with_fill[0] = back[0] = with_fill[1] = fill;
    options.mode = GRIDZ_MODE_REL;
    options.value = 0.1;
    options.fill_value = &fill;
    options.context = context;
    CHECK_OK(gridz_quality(&small_array, with_fill, sizeof small, back, sizeof back, &report, &options));
    CHECK(report.numbers == COUNT(small) - 2 && report.fill_mismatches == 1 && report.range == 19 * 0.125);
    CHECK(fabs(report.bound - 0.2375) < 1e-12 && report.bound <= 0.2375);
    CHECK(report.error_over_bound > 1.05 && report.error_over_bound < 1.06);
    gridz_context_destroy(context);
    options.context = NULL;

    /* Refused calls leave the report unchanged. */
    report.elements = 77;
#define QUALITY(n, from, m, to) gridz_quality(&small_array, from, n, to, m, &report, &options)
    CHECK_FAILS(QUALITY(sizeof small, small, sizeof back - 4, back), GRIDZ_ERROR_INVALID_ARGUMENT, "decoded has");
    CHECK_FAILS(QUALITY(sizeof small, NULL, sizeof back, back), GRIDZ_ERROR_INVALID_ARGUMENT, "original is NULL");
    options.value = 0;
    CHECK_FAILS(QUALITY(sizeof small, small, sizeof back, back), GRIDZ_ERROR_INVALID_ARGUMENT, "rel=0");
    options.value = 8;
    options.mode = GRIDZ_MODE_RATE;
    CHECK_FAILS(QUALITY(sizeof small, small, sizeof back, back), GRIDZ_ERROR_UNSUPPORTED_JOB, "abs, rel or pwrel");
    options.mode = 99;
    CHECK_FAILS(QUALITY(sizeof small, small, sizeof back, back), GRIDZ_ERROR_INVALID_ARGUMENT, "mode 99");
    options.mode = GRIDZ_MODE_ABS;
    options.reserved = 1;
    CHECK_FAILS(QUALITY(sizeof small, small, sizeof back, back), GRIDZ_ERROR_INVALID_ARGUMENT, "reserved");
    const uint64_t extents[1] = {sizeof small};
    gridz_array opaque = describe(GRIDZ_DTYPE_OPAQUE, 1, extents);
    opaque.element_size = 1;
    CHECK_FAILS(gridz_quality(&opaque, small, sizeof small, back, sizeof back, &report, NULL),
                GRIDZ_ERROR_UNSUPPORTED_JOB, "opaque");
    CHECK_FAILS(gridz_quality(&small_array, small, sizeof small, back, sizeof back, NULL, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_quality_report is NULL");
    CHECK(report.elements == 77);
#undef QUALITY
}

static gridz_status with_options(const gridz_options *options)
{
    size_t bound = 0, n_bytes = 0;
    gridz_status status = gridz_compress_bound(&small_array, options, &bound);
    if (status == GRIDZ_OK) {
        unsigned char *frame = compressed(&small_array, small, sizeof small, &n_bytes, options);
        check_decompresses(frame, n_bytes, small, sizeof small, options);
        free(frame);
        return GRIDZ_OK;
    }
    /* The other functions report the same frame info. */
    static unsigned char dst[sizeof small];
    CHECK_STATUS(gridz_compress(&small_array, small, sizeof small, dst, sizeof dst, &n_bytes, options), status);
    CHECK_STATUS(gridz_decompress(small_frame, small_frame_bytes, dst, sizeof dst, &n_bytes, options), status);
    return status;
}

static void test_options(void)
{
    const gridz_options defaults = {.struct_size = sizeof defaults};
    gridz_options options = defaults;
    size_t n_bytes = 0;
    gridz_frame_info info = {.struct_size = sizeof info};

    /* NULL and all zero are the same: the default codec, here by its name. */
    const char *const names[] = {NULL, "lorenzo", "lorenzo,level=fast", " lorenzo "};
    for (size_t i = 0; i < COUNT(names); i++) {
        options.request = names[i];
        CHECK_OK(with_options(&options));
        unsigned char *frame = compressed(&small_array, small, sizeof small, &n_bytes, &options);
        CHECK(n_bytes == small_frame_bytes && memcmp(frame, small_frame, n_bytes) == 0);
        free(frame);
    }
    options.request = "stored";
    CHECK_OK(with_options(&options));
    unsigned char *frame = compressed(&small_array, small, sizeof small, &n_bytes, &options);
    CHECK_OK(gridz_inspect(frame, n_bytes, &info));
    CHECK(strcmp(info.codec_name, "stored") == 0 && n_bytes == sizeof small + header_bytes(3));
    free(frame);

    options.request = "nosuch";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "codec \"nosuch\"");
    options.request = "";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "codec \"\"");
    options.request = ",level=1";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "1 ndzip");
    options.request = "lorenzo,\xff";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_INVALID_ARGUMENT, "not valid UTF-8 from byte 8 on");
    options.request = "lorenzo,level=2";
    CHECK_OK(with_options(&options));
    options.request = "lorenzo,level=4";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "its levels are 1 fast, 2 dense, 3 max");
    options.request = "lorenzo,level=most";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "1 fast, 2 dense, 3 max");
    options.request = "lorenzo,lvl=1";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_INVALID_ARGUMENT, "level=fast|dense|max");
    options.request = "ndzip,level=1";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "ndzip has no levels");
    options.request = "lorenzo,abs=.5";
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_UNSUPPORTED_JOB, "lorenzo: use mode 0, lossless; it has no mode 1, abs");

    options = defaults;
    options.flags = 2;
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_INVALID_ARGUMENT, "flags");
    options.flags = (uint64_t)1 << 63 | GRIDZ_FLAG_SKIP_CHECKSUM;
    CHECK_FAILS(with_options(&options), GRIDZ_ERROR_INVALID_ARGUMENT, "flags");
    options.flags = GRIDZ_FLAG_SKIP_CHECKSUM;
    CHECK_OK(with_options(&options));
}

/* Codecs that keep every element ignore the fill value: it changes nothing, and its pointer is not
 * dereferenced. */
static void test_fill_values(void)
{
    const char *const names[] = {NULL, "stored", "ndzip", "lorenzo,level=dense", "ndzip,fill=-999", "lorenzo,fill=1e20"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const gridz_options without = {.struct_size = sizeof without, .request = names[i]};
        gridz_options with = without;
        with.fill_value = (const void *)(uintptr_t)8;
        size_t n = 0, n_with = 0;
        unsigned char *frame = compressed(&small_array, small, sizeof small, &n, &without);
        unsigned char *same = compressed(&small_array, small, sizeof small, &n_with, &with);
        CHECK(n == n_with && memcmp(frame, same, n) == 0);
        CHECK_OK(with_options(&with));
        free(frame);
        free(same);
    }
    const gridz_options wrong = {.struct_size = sizeof wrong, .request = "lorenzo,fill=none"};
    CHECK_FAILS(with_options(&wrong), GRIDZ_ERROR_INVALID_ARGUMENT, "is not valid; give a number, such as fill=-999");
}

/* Text from numbers: every codec with every level and mode that it lists. */
static void test_request_text(void)
{
    char text[64];
    size_t n = 0;
    for (size_t i = 0; i < gridz_codec_count(); i++) {
        gridz_codec codec = {.struct_size = sizeof codec};
        CHECK_OK(gridz_codec_info(i, &codec));
        for (uint32_t mode = GRIDZ_MODE_LOSSLESS; mode <= GRIDZ_MODE_EXPERT; mode++) {
            const double value = mode == GRIDZ_MODE_LOSSLESS || mode == GRIDZ_MODE_EXPERT ? 0
                                 : mode == GRIDZ_MODE_RATE || mode == GRIDZ_MODE_PRECISION ? 8
                                                                                           : 1.2345678901234567e-300;
            for (uint32_t level = 0; level < 4; level++) {
                gridz_status status = gridz_request_text(codec.name, mode, value, level, text, sizeof text, &n);
                if (status == GRIDZ_OK) {
                    CHECK(codec.modes & 1u << mode);
                    CHECK(n == strlen(text) + 1 && n <= sizeof text && strstr(text, codec.name) == text);
                    const gridz_options options = {.struct_size = sizeof options, .request = text};
                    CHECK_OK(gridz_compress_bound(&small_array, &options, &n));
                } else {
                    CHECK(status == GRIDZ_ERROR_UNSUPPORTED_JOB && (level > 0 || !(codec.modes & 1u << mode)));
                }
            }
        }
    }
    CHECK_OK(gridz_request_text("quant", GRIDZ_MODE_ABS, 1e-3, 2, text, sizeof text, NULL));
    CHECK(strcmp(text, "quant,abs=1e-3,level=dense") == 0);
    CHECK_OK(gridz_request_text(NULL, GRIDZ_MODE_LOSSLESS, 0, 0, text, sizeof text, &n));
    CHECK(strcmp(text, "lorenzo,level=fast") == 0 && n == sizeof "lorenzo,level=fast");
    n = 77;
    CHECK_FAILS(gridz_request_text(NULL, GRIDZ_MODE_LOSSLESS, 0, 0, text, 18, &n), GRIDZ_ERROR_DST_TOO_SMALL, "19 are needed");
    CHECK(n == 19);
    CHECK_FAILS(gridz_request_text("quant", GRIDZ_MODE_ABS, -1, 0, text, sizeof text, &n), GRIDZ_ERROR_INVALID_ARGUMENT,
                "a finite number above 0");
    CHECK_FAILS(gridz_request_text("quant", 99, 1, 0, text, sizeof text, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "no mode 99");
    CHECK_FAILS(gridz_request_text("lorenzo", 0, 0, UINT32_MAX, text, sizeof text, &n), GRIDZ_ERROR_UNSUPPORTED_JOB,
                "its levels are");
    CHECK_FAILS(gridz_request_text("\xff", 0, 0, 0, text, sizeof text, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "not valid UTF-8");
    CHECK_FAILS(gridz_request_text(NULL, 0, 0, 0, NULL, sizeof text, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "text is NULL");
}

/* The functions without structs give the same frames as those with structs. */
static void test_nd(void)
{
    static const char *const REQUESTS[] = {NULL, "lorenzo,level=dense", "quant,abs=1e-3", "stored"};
    const uint64_t other[3] = {SMALL, SMALL, SMALL + 1};
    static float back[SMALL * SMALL * SMALL];
    for (size_t i = 0; i < COUNT(REQUESTS); i++) {
        const gridz_options options = {.struct_size = sizeof options, .request = REQUESTS[i]};
        size_t n = 0, bound = gridz_compress_bound_nd(GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, REQUESTS[i]), expected = 0;
        CHECK_OK(gridz_compress_bound(&small_array, &options, &expected));
        CHECK(bound == expected && bound % 16 == 0);
        unsigned char *same = compressed(&small_array, small, sizeof small, &expected, &options), *frame = exactly(bound);
        CHECK_OK(gridz_compress_nd(frame, bound, small, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, REQUESTS[i], &n));
        CHECK(n == expected && memcmp(frame, same, n) == 0);
        memset(back, 0, sizeof back);
        CHECK_OK(gridz_decompress_nd(back, sizeof back, frame, n, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS));
        for (size_t k = 0; k < COUNT(back); k++)
            CHECK(fabs((double)back[k] - (double)small[k]) <= 1e-3);

        CHECK_FAILS(gridz_compress_nd(frame, bound - 1, small, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, REQUESTS[i], &n),
                    GRIDZ_ERROR_DST_TOO_SMALL, "");
        CHECK(n == bound);
        CHECK_FAILS(gridz_decompress_nd(back, sizeof back - 1, frame, expected, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS),
                    GRIDZ_ERROR_DST_TOO_SMALL, "");
        CHECK_FAILS(gridz_decompress_nd(back, sizeof back, frame, expected, GRIDZ_DTYPE_I32, 3, SMALL_EXTENTS),
                    GRIDZ_ERROR_INVALID_ARGUMENT, "float32 with the extents [20, 20, 20], not of int32");
        CHECK_FAILS(gridz_decompress_nd(back, sizeof back, frame, expected, GRIDZ_DTYPE_F32, 3, other),
                    GRIDZ_ERROR_INVALID_ARGUMENT, "[20, 20, 21]");
        CHECK_FAILS(gridz_decompress_nd(back, sizeof back, frame, expected, GRIDZ_DTYPE_F32, 2, SMALL_EXTENTS),
                    GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_inspect");
        CHECK_FAILS(gridz_decompress_nd(back, sizeof back, frame, expected - 1, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS),
                    GRIDZ_ERROR_TRUNCATED, "");
        free(frame);
        free(same);
    }
    gridz_array big = small_array;
    big.byte_order = GRIDZ_BYTE_ORDER_BIG;
    size_t n = 0;
    unsigned char *frame = compressed(&big, small, sizeof small, &n, NULL);
    CHECK_FAILS(gridz_decompress_nd(back, sizeof back, frame, n, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS),
                GRIDZ_ERROR_INVALID_ARGUMENT, "in the other byte order");
    free(frame);
    CHECK(gridz_compress_bound_nd(GRIDZ_DTYPE_OPAQUE, 3, SMALL_EXTENTS, NULL) == 0 && strstr(gridz_last_error(), "use gridz_compress"));
    CHECK(gridz_compress_bound_nd(GRIDZ_DTYPE_F32, 3, NULL, NULL) == 0 && strstr(gridz_last_error(), "extents is NULL"));
    CHECK(gridz_compress_bound_nd(GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, "zip") == 0 && strstr(gridz_last_error(), "zip"));
    CHECK_FAILS(gridz_compress_nd(back, sizeof back, NULL, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, NULL, &n),
                GRIDZ_ERROR_INVALID_ARGUMENT, "src is NULL");
    CHECK_FAILS(gridz_compress_nd(back, sizeof back, small, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, NULL, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "dst_bytes is NULL");
    CHECK_FAILS(gridz_compress_nd(small, sizeof small, small, GRIDZ_DTYPE_F32, 3, SMALL_EXTENTS, NULL, &n),
                GRIDZ_ERROR_INVALID_ARGUMENT, "overlap");
}

/* Bounds are multiples of 16: slots of this size are aligned. */
static void test_bounds(void)
{
    static const char *const REQUESTS[] = {"stored", "ndzip", "lorenzo", "lorenzo,level=max", "quant,abs=1e-3", "zfp,rate=7",
                                           "multigrid,abs=1e-3", "huffman", "cci"};
    for (size_t i = 0; i < COUNT(REQUESTS); i++)
        for (uint64_t n = 0; n < 40; n += 3)
            for (size_t t = 0; t < COUNT(DTYPES); t++) {
                const uint64_t extents[2] = {n, 7};
                const size_t bound = gridz_compress_bound_nd(DTYPES[t].dtype, 2, extents, REQUESTS[i]);
                if (bound == 0)
                    CHECK(strstr(gridz_last_error(), "supports only") || strstr(gridz_last_error(), "support"));
                CHECK(bound % 16 == 0);
                const gridz_array array = describe(DTYPES[t].dtype, 2, extents);
                size_t packed = 1;
                CHECK_OK(gridz_packed_bound(&array, (size_t)n, &packed));
                CHECK(packed % 16 == 0);
            }
}

static void test_codecs(void)
{
    CHECK(gridz_codec_count() >= 3);
    for (size_t i = 0; i < gridz_codec_count(); i++) {
        gridz_codec codec = {.struct_size = sizeof codec};
        CHECK_OK(gridz_codec_info(i, &codec));
        CHECK(gridz_codec_name(i) == codec.name);
        CHECK(codec.struct_size == sizeof codec && codec.reserved == 0 && strlen(codec.description) > 10);
        CHECK((codec.backends & GRIDZ_BACKEND_CPU) && codec.backends < 4);
        CHECK((i == 0) == (strcmp(codec.name, "stored") == 0));
        /* Every listed level can be requested, by name and by number. */
        CHECK(codec.modes != 0 && codec.dtypes != 0);
        const char *mode = "";
        if (!(codec.modes & 1u << GRIDZ_MODE_LOSSLESS)) {
            CHECK(codec.modes & 1u << GRIDZ_MODE_ABS);
            mode = ",abs=1e-300"; /* so small that only the exact values meet it */
        }
        char text[64];
        const gridz_options options = {.struct_size = sizeof options, .request = text};
        snprintf(text, sizeof text, "%s%s", codec.name, mode);
        CHECK_OK(with_options(&options));
        for (uint32_t k = 0; k < codec.n_levels; k++) {
            CHECK(codec.level_numbers[k] > 0);
            snprintf(text, sizeof text, "%s%s,level=%u", codec.name, mode, codec.level_numbers[k]);
            CHECK_OK(with_options(&options));
            snprintf(text, sizeof text, "%s%s,level=%s", codec.name, mode, codec.level_names[k]);
            CHECK_OK(with_options(&options));
        }
    }
    CHECK(gridz_codec_name(gridz_codec_count()) == NULL);
    gridz_codec codec = {.struct_size = sizeof codec};
    CHECK_FAILS(gridz_codec_info(gridz_codec_count(), &codec), GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_codec_count()");
    CHECK_FAILS(gridz_codec_info(0, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
    codec.struct_size = 8;
    CHECK_FAILS(gridz_codec_info(0, &codec), GRIDZ_ERROR_INVALID_ARGUMENT, "struct_size of gridz_codec is 8");
}

/* Text to cd_values and back, with limited buffers. */
static void test_cd_values(void)
{
    uint32_t values[64];
    char text[1024];
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < gridz_codec_count(); i++) {
        gridz_codec codec = {.struct_size = sizeof codec};
        CHECK_OK(gridz_codec_info(i, &codec));
        const char *mode = codec.modes & 1u << GRIDZ_MODE_LOSSLESS ? "" : ",abs=1e-300";
        char request[128];
        snprintf(request, sizeof request, "%s%s%s%s", codec.name, mode, codec.n_levels > 0 ? ",level=" : "",
                 codec.n_levels > 0 ? codec.level_names[codec.n_levels - 1] : "");
        CHECK_OK(gridz_cd_values(request, values, 16, &n));
        CHECK(n >= 3 && values[0] == codec.id);
        CHECK_OK(gridz_cd_text(values, n, text, sizeof text, &bytes));
        CHECK(strcmp(text, request) == 0 && bytes == strlen(text) + 1);
        CHECK(gridz_cd_values(request, values, n - 1, &n) == GRIDZ_ERROR_DST_TOO_SMALL && n >= 3);
        CHECK(gridz_cd_text(values, n, text, bytes - 1, &bytes) == GRIDZ_ERROR_DST_TOO_SMALL);
        CHECK(bytes == strlen(request) + 1);
    }
    CHECK_OK(gridz_cd_text(NULL, 0, text, sizeof text, &bytes));
    CHECK(strcmp(text, "lorenzo,level=fast") == 0);
    CHECK_FAILS(gridz_cd_values(NULL, values, 16, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "request is NULL");
    /* Fill values and limits are included, each in three words if a double represents it. */
    CHECK_OK(gridz_cd_values("quant,abs=1,fill=-999,fill=0,valid_max=300", values, COUNT(values), &n));
    CHECK(n == 5 + 3 * 3);
    CHECK_OK(gridz_cd_text(values, n, text, sizeof text, &bytes));
    CHECK(strcmp(text, "quant,abs=1,level=fast,fill=-999,fill=0,valid_max=300") == 0);
    CHECK_FAILS(gridz_cd_values("zfp,maxprec=10", values, 16, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "mode expert");
    CHECK_FAILS(gridz_cd_values("zip", values, 16, &n), GRIDZ_ERROR_UNSUPPORTED_JOB, "1 ndzip");
    CHECK_FAILS(gridz_cd_values("\xff", values, 16, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "UTF-8");
    CHECK_FAILS(gridz_cd_values("ndzip", NULL, 16, &n), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gridz_cd_values("ndzip", values, 16, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(gridz_cd_text(NULL, 1, text, sizeof text, &bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
    values[0] = 77;
    CHECK_FAILS(gridz_cd_text(values, 1, text, sizeof text, &bytes), GRIDZ_ERROR_UNSUPPORTED_JOB, "codec 77");
    values[0] = 0x475a0001;
    CHECK_FAILS(gridz_cd_text(values, 1, text, sizeof text, &bytes), GRIDZ_ERROR_CORRUPT, "too few");
}

static void test_regions(void)
{
    const uint64_t start[3] = {3, 0, 17}, count[3] = {10, SMALL, 3}, beyond[3] = {10, SMALL, 4};
    static float region[10 * SMALL * 3];
    size_t n_bytes = 0;
#define REGION(rank, start, count, dst, room)                                                                  \
    gridz_decompress_region(small_frame, small_frame_bytes, rank, start, count, dst, room, &n_bytes, NULL)
    CHECK_OK(REGION(3, start, count, region, sizeof region));
    CHECK(n_bytes == sizeof region);
    for (int z = 0; z < 10; z++)
        for (int y = 0; y < SMALL; y++)
            CHECK(memcmp(&region[(z * SMALL + y) * 3], &small[((z + 3) * SMALL + y) * SMALL + 17], 3 * sizeof *region) == 0);

    CHECK_FAILS(REGION(3, start, beyond, region, sizeof region), GRIDZ_ERROR_INVALID_ARGUMENT, "axis 2");
    CHECK_FAILS(REGION(2, start, count, region, sizeof region), GRIDZ_ERROR_INVALID_ARGUMENT, "2 counts");
    CHECK_FAILS(REGION(33, start, count, region, sizeof region), GRIDZ_ERROR_INVALID_ARGUMENT, "rank 33");
    CHECK_FAILS(REGION(3, NULL, count, region, sizeof region), GRIDZ_ERROR_INVALID_ARGUMENT, "start is NULL");
    CHECK_FAILS(REGION(3, start, NULL, region, sizeof region), GRIDZ_ERROR_INVALID_ARGUMENT, "count is NULL");
    CHECK_FAILS(REGION(3, start, count, NULL, 4), GRIDZ_ERROR_INVALID_ARGUMENT, "dst is NULL");
    n_bytes = 0;
    CHECK_FAILS(REGION(3, start, count, region, sizeof region - 1), GRIDZ_ERROR_DST_TOO_SMALL, "too small");
    CHECK(n_bytes == sizeof region);
#undef REGION

    gridz_block_counts counts = {.struct_size = sizeof counts};
    CHECK_OK(gridz_inspect_blocks(small_frame, small_frame_bytes, &counts));
    CHECK(counts.all > 0 && counts.raw + counts.constant + counts.packed + counts.entropy + counts.sparse == counts.all);
    CHECK_STATUS(gridz_inspect_blocks(small_frame, small_frame_bytes - 1, &counts), GRIDZ_ERROR_TRUNCATED);
    CHECK_FAILS(gridz_inspect_blocks(small_frame, small_frame_bytes, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
}

static void test_parts(void)
{
    const gridz_options layered = {.struct_size = sizeof layered, .request = "multigrid,abs=1e-3,layers=3"};
    gridz_part_info info = {.struct_size = sizeof info}, inspected = info;
    static float part[SMALL * SMALL * SMALL];
    size_t n;
    unsigned char *frame = compressed(&small_array, small, sizeof small, &n, &layered);

#define PART(frame, n, detail, value)                                                                          \
    gridz_decompress_progressive(frame, n, detail, value, part, sizeof part, &info, NULL)
    for (uint32_t layers = 1; layers <= 3; layers++) {
        CHECK_OK(gridz_inspect_progressive(frame, n, GRIDZ_DETAIL_LAYERS, layers, &inspected));
        CHECK(inspected.layers == layers && inspected.n_layers == 3 && inspected.level == 0 && inspected.mode == GRIDZ_MODE_ABS);
        CHECK(inspected.array_bytes == sizeof small && (inspected.frame_bytes == n) == (layers == 3));
        /* A buffer that ends with the last byte needed. */
        unsigned char *first = exactly(inspected.frame_bytes);
        memcpy(first, frame, inspected.frame_bytes);
        CHECK_OK(PART(first, inspected.frame_bytes, GRIDZ_DETAIL_ERROR, inspected.bound));
        CHECK(memcmp(&info, &inspected, sizeof info) == 0);
        for (int i = 0; i < SMALL * SMALL * SMALL; i++)
            CHECK(part[i] - small[i] <= inspected.bound && small[i] - part[i] <= inspected.bound);
        CHECK_STATUS(PART(first, inspected.frame_bytes - 1, GRIDZ_DETAIL_LAYERS, layers), GRIDZ_ERROR_TRUNCATED);
        free(first);
    }
    CHECK_OK(PART(frame, n, GRIDZ_DETAIL_LEVEL, 2));
    CHECK(info.rank == 3 && info.extents[2] == (SMALL + 3) / 4 && info.level == 2 && info.layers == 1);
    CHECK(info.array_bytes == sizeof *part * info.extents[0] * info.extents[1] * info.extents[2]);

    CHECK_FAILS(PART(frame, n, GRIDZ_DETAIL_LEVEL, 99), GRIDZ_ERROR_INVALID_ARGUMENT, "level 99 does not exist");
    CHECK_FAILS(PART(frame, n, GRIDZ_DETAIL_LAYERS, 4), GRIDZ_ERROR_INVALID_ARGUMENT, "the frame has 3");
    CHECK_FAILS(PART(frame, n, GRIDZ_DETAIL_LAYERS, 1.5), GRIDZ_ERROR_INVALID_ARGUMENT, "1.5");
    CHECK_FAILS(PART(frame, n, GRIDZ_DETAIL_ERROR, -1), GRIDZ_ERROR_INVALID_ARGUMENT, "error -1.0 is invalid");
    CHECK_FAILS(PART(frame, n, 3, 0), GRIDZ_ERROR_INVALID_ARGUMENT, "GRIDZ_DETAIL_");
    CHECK_FAILS(PART(small_frame, small_frame_bytes, GRIDZ_DETAIL_LEVEL, 0), GRIDZ_ERROR_UNSUPPORTED_JOB, "multigrid");
    CHECK_FAILS(gridz_decompress_progressive(frame, n, GRIDZ_DETAIL_LAYERS, 1, part, 4, &info, NULL),
                GRIDZ_ERROR_DST_TOO_SMALL, "too small");
    CHECK(info.array_bytes == sizeof small);
    CHECK_FAILS(gridz_inspect_progressive(frame, n, GRIDZ_DETAIL_LAYERS, 1, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
#undef PART
    free(frame);
}

static void test_damaged_frames(void)
{
    size_t n_bytes = 0;
    static unsigned char dst[sizeof small];
    gridz_frame_info info = {.struct_size = sizeof info};

    /* Every truncation, in a buffer of exactly the truncated size. lorenzo has a byte of
     * parameters. */
    const size_t small_header_bytes = header_bytes(3) + 16;
    for (size_t cut = 0; cut < small_frame_bytes; cut++) {
        unsigned char *frame = exactly(cut);
        memcpy(frame, small_frame, cut);
        CHECK_STATUS(gridz_decompress(frame, cut, dst, sizeof dst, &n_bytes, NULL), GRIDZ_ERROR_TRUNCATED);
        if (cut < small_header_bytes)
            CHECK_STATUS(gridz_inspect(frame, cut, &info), GRIDZ_ERROR_TRUNCATED);
        else
            CHECK_OK(gridz_inspect(frame, cut, &info));
        free(frame);
    }
    unsigned char *longer = exactly(small_frame_bytes + 1);
    memcpy(longer, small_frame, small_frame_bytes);
    longer[small_frame_bytes] = 0;
    CHECK_FAILS(gridz_decompress(longer, small_frame_bytes + 1, dst, sizeof dst, &n_bytes, NULL),
                GRIDZ_ERROR_CORRUPT, "follow");
    free(longer);

    /* Every flipped bit is detected. Without checksum verification it may go undetected, but does
     * no harm. */
    gridz_options skip = {.struct_size = sizeof skip, .flags = GRIDZ_FLAG_SKIP_CHECKSUM};
    unsigned char *frame = exactly(small_frame_bytes);
    memcpy(frame, small_frame, small_frame_bytes);
    size_t unnoticed = 0;
    for (size_t bit = 0; bit < 8 * small_frame_bytes; bit++) {
        frame[bit / 8] ^= (unsigned char)(1u << bit % 8);
        gridz_status status = gridz_decompress(frame, small_frame_bytes, dst, sizeof dst, &n_bytes, NULL);
        CHECK(status / 100 == 2);
        unnoticed += gridz_decompress(frame, small_frame_bytes, dst, sizeof dst, &n_bytes, &skip) == GRIDZ_OK;
        frame[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    CHECK(unnoticed > 0);

    for (unsigned char version = 7; version <= 9; version += 2) {
        frame[4] = version; /* of the format, which is 8 */
        CHECK_STATUS(gridz_inspect(frame, small_frame_bytes, &info), GRIDZ_ERROR_UNSUPPORTED_FORMAT);
    }
    random_bytes(frame, small_frame_bytes, 1);
    CHECK_FAILS(gridz_inspect(frame, small_frame_bytes, &info), GRIDZ_ERROR_CORRUPT, "not a gridz frame");
    free(frame);
}

/* Large enough to be split into pieces for the workers. */
static const uint64_t LARGE_EXTENTS[3] = {64, 96, 128};
enum { LARGE = 64 * 96 * 128 };
static float *large;
static gridz_array large_array;
static unsigned char *large_frame;
static size_t large_frame_bytes;

static void make_large(void)
{
    large = (float *)exactly(LARGE * sizeof *large);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = sinf((float)i * 0.001f);
    large_array = describe(GRIDZ_DTYPE_F32, 3, LARGE_EXTENTS);
    large_frame = compressed(&large_array, large, LARGE * sizeof *large, &large_frame_bytes, NULL);
}

static void check_large(const gridz_context *context)
{
    gridz_options options = {.struct_size = sizeof options, .context = context};
    size_t n_bytes = 0;
    unsigned char *frame = compressed(&large_array, large, LARGE * sizeof *large, &n_bytes, &options);
    CHECK(n_bytes == large_frame_bytes && memcmp(frame, large_frame, n_bytes) == 0);
    check_decompresses(frame, n_bytes, large, LARGE * sizeof *large, &options);
    free(frame);
}

static gridz_context *context_of(uint32_t threads, uint64_t memory_limit)
{
    gridz_context_options options = {.struct_size = sizeof options,
                                     .threads = threads,
                                     .device = GRIDZ_DEVICE_AUTO,
                                     .memory_limit = memory_limit};
    gridz_context *context = NULL;
    CHECK_OK(gridz_context_create(&options, &context));
    CHECK(context != NULL);
    return context;
}

static void test_contexts(void)
{
    gridz_context *context = NULL;
    CHECK_OK(gridz_context_create(NULL, &context));
    check_large(context);
    gridz_context_destroy(context);

    /* The frame does not depend on the number of threads. */
    for (uint32_t threads = 0; threads < 6; threads++) {
        context = context_of(threads, 0);
        check_large(context);
        gridz_context_destroy(context);
    }

    /* The CPU is always available; a GPU only on some machines, and then also for this frame. */
    gridz_context_options one = {.struct_size = sizeof one, .device = GRIDZ_DEVICE_CPU};
    CHECK_OK(gridz_context_create(&one, &context));
    check_large(context);
    gridz_context_destroy(context);
    context = NULL;
    one.device = GRIDZ_DEVICE_CUDA;
    const gridz_status with_gpu = gridz_context_create(&one, &context);
    CHECK(with_gpu == GRIDZ_OK || with_gpu == GRIDZ_ERROR_DEVICE);
    if (with_gpu == GRIDZ_OK)
        check_large(context);
    gridz_context_destroy(context);

    gridz_context_options wrong = {.struct_size = sizeof wrong, .threads = 1025};
    context = NULL;
    CHECK_FAILS(gridz_context_create(&wrong, &context), GRIDZ_ERROR_INVALID_ARGUMENT, "threads");
    wrong.threads = 0;
    /* GPU 1000: no machine has that many, or has none at all. */
    wrong.device = 1000;
    gridz_status status = gridz_context_create(&wrong, &context);
    CHECK(status == GRIDZ_ERROR_DEVICE || status == GRIDZ_ERROR_INVALID_ARGUMENT);
    CHECK(strlen(gridz_last_error()) > 10);
    CHECK(context == NULL);
}

static void test_memory_limit(void)
{
    gridz_array big_endian = small_array;
    big_endian.byte_order = GRIDZ_BYTE_ORDER_BIG;
    gridz_options options = {.struct_size = sizeof options};
    size_t bound = 0, n_bytes = 77;
    CHECK_OK(gridz_compress_bound(&big_endian, &options, &bound));
    unsigned char *dst = exactly(bound);

    gridz_context *tight = context_of(1, sizeof small - 1);
    options.context = tight;
    CHECK_FAILS(gridz_compress(&big_endian, small, sizeof small, dst, bound, &n_bytes, &options),
                GRIDZ_ERROR_OUT_OF_MEMORY, "limit");
    CHECK(n_bytes == 77);
    /* A little-endian array needs no working memory, and neither does decompression. */
    CHECK_OK(gridz_compress(&small_array, small, sizeof small, dst, bound, &n_bytes, &options));

    gridz_context *enough = context_of(1, sizeof small);
    options.context = enough;
    CHECK_OK(gridz_compress(&big_endian, small, sizeof small, dst, bound, &n_bytes, &options));
    options.context = tight;
    check_decompresses(dst, n_bytes, small, sizeof small, &options);
    gridz_context_destroy(enough);
    gridz_context_destroy(tight);
    free(dst);
}

/* Threads share a context, a source and a frame; each has its own last error. */
static void *work(void *context)
{
    size_t bound;
    CHECK(strcmp(gridz_last_error(), "") == 0);
    for (int i = 0; i < 3; i++) {
        check_large(context);
        CHECK_STATUS(gridz_compress_bound(NULL, NULL, &bound), GRIDZ_ERROR_INVALID_ARGUMENT);
        CHECK(strcmp(gridz_last_error(), "gridz_array is NULL") == 0);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[6];
    gridz_context *context = context_of(3, 0);
    CHECK_STATUS(gridz_inspect(NULL, 0, NULL), GRIDZ_ERROR_INVALID_ARGUMENT);
    const char *text = gridz_last_error();
    char before[100];
    snprintf(before, sizeof before, "%s", text);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, work, i % 2 == 0 ? context : NULL) == 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    /* Neither the other threads' errors nor a successful call changed this thread's error text. */
    check_large(context);
    CHECK(gridz_last_error() == text && strcmp(text, before) == 0);
    gridz_context_destroy(context);
}

/* Set by a thread-specific destructor, which runs when the library's own thread data may already be
 * destroyed. */
static int called_at_end;

static void at_end_of_thread(void *key)
{
    (void)key;
    CHECK_STATUS(gridz_inspect(NULL, 0, NULL), GRIDZ_ERROR_INVALID_ARGUMENT);
    CHECK(gridz_last_error() != NULL);
    called_at_end = 1;
}

static void *end(void *key)
{
    CHECK_STATUS(gridz_inspect(NULL, 0, NULL), GRIDZ_ERROR_INVALID_ARGUMENT);
    CHECK(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
    return NULL;
}

static void test_end_of_thread(void)
{
    pthread_key_t key;
    pthread_t thread;
    CHECK(pthread_key_create(&key, at_end_of_thread) == 0);
    CHECK(pthread_create(&thread, NULL, end, &key) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_key_delete(key) == 0);
    CHECK(called_at_end);
}

/* After a fork, the child has none of the parent's workers and starts its own. */
static void test_fork(void)
{
    gridz_context *context = context_of(3, 0);
    check_large(context);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(120); /* a child that waits forever must fail the test, not hang it */
        check_large(context);
        check_large(NULL);
        gridz_context_destroy(context);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_large(context);
    gridz_context_destroy(context);
}

/* With GRIDZ_THREADS=many in the environment, every call that can fail does. */
static int bad_environment(void)
{
    size_t n_bytes = 77;
    char src[4] = {0}, dst[100];
    gridz_context *context = NULL;
    gridz_frame_info info = {.struct_size = sizeof info};
    gridz_codec codec = {.struct_size = sizeof codec};
    gridz_quality_report report = {.struct_size = sizeof report};
    const gridz_array array = describe(GRIDZ_DTYPE_F32, 0, NULL);
    const gridz_batch batch = {.struct_size = sizeof batch, .array = &array};
    for (int again = 0; again < 2; again++) {
#define CHECK_BAD(call) CHECK_FAILS(call, GRIDZ_ERROR_INVALID_ARGUMENT, "GRIDZ_THREADS=many")
        CHECK_BAD(gridz_compress_bound(&array, NULL, &n_bytes));
        CHECK_BAD(gridz_compress(&array, src, sizeof src, dst, sizeof dst, &n_bytes, NULL));
        CHECK_BAD(gridz_decompress(src, sizeof src, dst, sizeof dst, &n_bytes, NULL));
        CHECK_BAD(gridz_compress_nd(dst, sizeof dst, src, GRIDZ_DTYPE_F32, 0, NULL, NULL, &n_bytes));
        CHECK(gridz_compress_bound_nd(GRIDZ_DTYPE_F32, 0, NULL, NULL) == 0);
        CHECK_BAD(gridz_inspect(src, sizeof src, &info));
        CHECK_BAD(gridz_codec_info(0, &codec));
        CHECK_BAD(gridz_quality(&array, src, sizeof src, src, sizeof src, &report, NULL));
        CHECK_BAD(gridz_context_create(NULL, &context));
        CHECK_BAD(gridz_async_workspace_bytes(&batch, &n_bytes));
        CHECK_BAD(gridz_compress_async(&batch));
        CHECK_BAD(gridz_decompress_async(&batch));
        CHECK_BAD(gridz_compress_chunks(&batch, &n_bytes));
        CHECK_BAD(gridz_decompress_chunks(&batch));
    }
    CHECK(n_bytes == 77 && context == NULL);
    CHECK(strcmp(gridz_status_name(GRIDZ_OK), "GRIDZ_OK") == 0);
    puts("bad-env: ok");
    return 0;
}

static int overflow(void)
{
    volatile unsigned char *bytes = exactly(16);
    bytes[15] = bytes[16];
    free((void *)bytes);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bad-env") == 0)
        return bad_environment();
    if (argc > 1 && strcmp(argv[1], "overflow") == 0)
        return overflow();

    CHECK(strcmp(gridz_last_error(), "") == 0);
    make_small();
    make_large();
    static const struct {
        const char *name;
        void (*run)(void);
    } TESTS[] = {
        {"texts", test_texts},
        {"round trips", test_round_trips},
        {"misaligned", test_misaligned},
        {"opaque", test_opaque},
        {"special values", test_special_values},
        {"array descriptions", test_array_descriptions},
        {"too small", test_too_small},
        {"pointers and lengths", test_pointers_and_lengths},
        {"arguments of batches", test_async_arguments},
        {"batches", test_batches},
        {"struct sizes", test_struct_sizes},
        {"options", test_options},
        {"text of requests", test_request_text},
        {"functions without structs", test_nd},
        {"bounds", test_bounds},
        {"fill values", test_fill_values},
        {"codecs", test_codecs},
        {"cd_values", test_cd_values},
        {"quality", test_quality},
        {"regions", test_regions},
        {"parts", test_parts},
        {"damaged frames", test_damaged_frames},
        {"contexts", test_contexts},
        {"memory limit", test_memory_limit},
        {"threads", test_threads},
        {"end of a thread", test_end_of_thread},
        {"fork", test_fork},
    };
    for (size_t i = 0; i < COUNT(TESTS); i++) {
        TESTS[i].run();
        printf("%s: ok\n", TESTS[i].name);
    }
    free(small_frame);
    free(large_frame);
    free(large);
    printf("all %zu tests of the C API passed\n", COUNT(TESTS));
    return 0;
}
