/* Sparse matrices in C programs: round trips, products, and every invalid call. */
#include <gridz_sparse.h>

#include "check.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/*  . 2 . 1
 *  3 . . .
 *  . . . .
 *  4 5 . 6  with its columns 3, 0, 1 */
static const int32_t STARTS[] = {0, 2, 3, 3, 6}, COLUMNS[] = {1, 3, 0, 3, 0, 1};
static const float VALUES[] = {2, 1, 3, 6, 4, 5};

static gridz_csr described(void)
{
    gridz_csr csr = {0};
    csr.struct_size = sizeof csr;
    csr.n_rows = 4;
    csr.n_cols = 4;
    csr.nnz = 6;
    csr.dtype = GRIDZ_DTYPE_F32;
    csr.index_dtype = GRIDZ_DTYPE_I32;
    csr.starts = STARTS;
    csr.indices = COLUMNS;
    csr.values = VALUES;
    return csr;
}

static gridz_cci *made(const gridz_csr *csr)
{
    gridz_cci *cci = NULL;
    CHECK_OK(gridz_cci_create(csr, GRIDZ_CCI_VALUES_BEST, NULL, &cci));
    CHECK(cci != NULL);
    return cci;
}

static gridz_cci_info inspected(const gridz_cci *cci)
{
    gridz_cci_info info = {0};
    info.struct_size = sizeof info;
    CHECK_OK(gridz_cci_inspect(cci, &info));
    return info;
}

/* Checks y = A x in a semiring; x and y have four numbers each. */
static void is_product(const gridz_cci *cci, uint32_t semiring, uint32_t transposed, const float *want)
{
    static const float X[] = {1, 10, 100, -1};
    float y[4] = {-7, -7, -7, -7};
    CHECK_OK(gridz_cci_multiply(cci, semiring, transposed, 1, X, sizeof X, y, sizeof y, NULL));
    CHECK(memcmp(y, want, sizeof y) == 0);
}

static void test_products(void)
{
    gridz_csr csr = described();
    gridz_cci *cci = made(&csr);
    is_product(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, (const float[]){19, 3, 0, 48});
    is_product(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 1, (const float[]){26, -3, 0, -5});
    is_product(cci, GRIDZ_CCI_SEMIRING_MIN_PLUS, 0, (const float[]){0, 4, INFINITY, 5});
    is_product(cci, GRIDZ_CCI_SEMIRING_MAX_TIMES, 0, (const float[]){20, 3, -INFINITY, 50});
    is_product(cci, GRIDZ_CCI_SEMIRING_OR_AND, 0, (const float[]){1, 1, 0, 1});

    /* Two vectors, interleaved. */
    const float x[] = {1, 2, 10, 20, 100, 200, -1, -2}, want[] = {19, 38, 3, 6, 0, 0, 48, 96};
    float y[8];
    CHECK_OK(gridz_cci_multiply(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, 2, x, sizeof x, y, sizeof y, NULL));
    CHECK(memcmp(y, want, sizeof y) == 0);
    gridz_cci_destroy(cci);

    /* Without values, all values are 1. The same arrays interpreted as columns are the transpose.
     * */
    csr.values = NULL;
    cci = made(&csr);
    is_product(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, (const float[]){9, 1, 0, 10});
    gridz_cci_destroy(cci);
    csr = described();
    csr.layout = GRIDZ_CCI_COLUMNS;
    cci = made(&csr);
    is_product(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, (const float[]){26, -3, 0, -5});
    gridz_cci_destroy(cci);
}

static void test_rows(void)
{
    gridz_csr csr = described();
    gridz_cci *cci = made(&csr);
    const gridz_cci_info info = inspected(cci);
    CHECK(info.n_rows == 4 && info.n_cols == 4 && info.nnz == 6 && info.dtype == GRIDZ_DTYPE_F32);
    CHECK(info.by_distance + info.blocked + info.short_codes + info.plain == 6);

    uint64_t nnz;
    CHECK_OK(gridz_cci_count(cci, 1, 3, &nnz));
    CHECK(nnz == 4);
    int64_t starts[4], columns[4];
    float values[4];
    CHECK_OK(gridz_cci_decode(cci, 1, 3, GRIDZ_DTYPE_I64, starts, columns, values, nnz, NULL));
    for (size_t i = 0; i < 4; i++) {
        CHECK(starts[i] == STARTS[i + 1] - 2 && columns[i] == COLUMNS[i + 2]);
        CHECK(values[i] == VALUES[i + 2]);
    }
    int32_t short_starts[5], short_columns[6];
    CHECK_OK(gridz_cci_decode(cci, 0, 4, GRIDZ_DTYPE_I32, short_starts, short_columns, NULL, 6, NULL));
    CHECK(memcmp(short_starts, STARTS, sizeof STARTS) == 0 && memcmp(short_columns, COLUMNS, sizeof COLUMNS) == 0);

    CHECK_FAILS(gridz_cci_decode(cci, 1, 3, GRIDZ_DTYPE_I64, starts, columns, values, 3, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "gridz_cci_count");
    CHECK_FAILS(gridz_cci_decode(cci, 1, 4, GRIDZ_DTYPE_I64, starts, columns, values, nnz, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "rows");
    CHECK_FAILS(gridz_cci_decode(cci, 1, 3, GRIDZ_DTYPE_U64, starts, columns, values, nnz, NULL),
                GRIDZ_ERROR_UNSUPPORTED_JOB, "index_dtype");
    CHECK_FAILS(gridz_cci_decode(cci, 1, 3, GRIDZ_DTYPE_I64, NULL, columns, values, nnz, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "starts");
    CHECK_FAILS(gridz_cci_decode(cci, 1, 3, GRIDZ_DTYPE_I64, (char *)starts + 4, columns, values, nnz, NULL),
                GRIDZ_ERROR_INVALID_ARGUMENT, "starts");
    CHECK_FAILS(gridz_cci_count(cci, UINT64_MAX, 3, &nnz), GRIDZ_ERROR_INVALID_ARGUMENT, "rows");
    CHECK_FAILS(gridz_cci_count(cci, 0, 5, &nnz), GRIDZ_ERROR_INVALID_ARGUMENT, "rows");
    CHECK_FAILS(gridz_cci_count(NULL, 0, 4, &nnz), GRIDZ_ERROR_INVALID_ARGUMENT, "cci");
    CHECK_FAILS(gridz_cci_count(cci, 0, 4, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "nnz");
    gridz_cci_destroy(cci);
}

static void test_frames(void)
{
    gridz_csr csr = described();
    gridz_cci *cci = made(&csr), *again = NULL;
    const void *frame;
    size_t frame_bytes;
    CHECK_OK(gridz_cci_frame(cci, &frame, &frame_bytes));
    CHECK(inspected(cci).frame_bytes == frame_bytes && (uintptr_t)frame % 64 == 0);

    /* The bytes need no alignment. */
    unsigned char *bytes = exactly(frame_bytes + 1);
    memcpy(bytes + 1, frame, frame_bytes);
    CHECK_OK(gridz_cci_open(bytes + 1, frame_bytes, NULL, &again));
    is_product(again, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, (const float[]){19, 3, 0, 48});
    gridz_cci_destroy(again);
    for (size_t cut = 0; cut < frame_bytes; cut += 37)
        CHECK_STATUS(gridz_cci_open(bytes + 1, cut, NULL, &again), GRIDZ_ERROR_TRUNCATED);
    for (size_t i = 0; i < frame_bytes; i++) {
        bytes[i + 1] ^= 0x20;
        CHECK_STATUS(gridz_cci_open(bytes + 1, frame_bytes, NULL, &again), GRIDZ_ERROR_CORRUPT);
        bytes[i + 1] ^= 0x20;
    }
    CHECK_FAILS(gridz_cci_open(NULL, frame_bytes, NULL, &again), GRIDZ_ERROR_INVALID_ARGUMENT, "frame");
    CHECK_FAILS(gridz_cci_open(frame, frame_bytes, NULL, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "cci");
    CHECK_FAILS(gridz_cci_frame(cci, NULL, &frame_bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "frame");
    CHECK_FAILS(gridz_cci_frame(NULL, &frame, &frame_bytes), GRIDZ_ERROR_INVALID_ARGUMENT, "cci");
    CHECK_FAILS(gridz_cci_inspect(cci, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");
    free(bytes);
    gridz_cci_destroy(cci);
    gridz_cci_destroy(NULL);
}

/* Invalid descriptions of matrices. */
static void test_descriptions(void)
{
    static const int32_t DOWN[] = {0, 3, 2, 3, 6}, LATE[] = {1, 2, 3, 3, 6}, SHORT[] = {0, 2, 3, 3, 5};
    static const int32_t OUTSIDE[] = {1, 3, 0, 4, 0, 1}, NEGATIVE[] = {1, 3, 0, -1, 0, 1};
    gridz_csr csr = described();
    gridz_cci *cci = NULL;
#define REFUSED(change, status, words)                                                             \
    do {                                                                                           \
        csr = described();                                                                         \
        change;                                                                                    \
        CHECK_FAILS(gridz_cci_create(&csr, GRIDZ_CCI_VALUES_BEST, NULL, &cci), status, words);     \
        CHECK(cci == NULL);                                                                        \
    } while (0)
    REFUSED(csr.starts = DOWN, GRIDZ_ERROR_INVALID_ARGUMENT, "row 1 starts at");
    REFUSED(csr.starts = LATE, GRIDZ_ERROR_INVALID_ARGUMENT, "from 1 to 6");
    REFUSED(csr.starts = SHORT, GRIDZ_ERROR_INVALID_ARGUMENT, "from 0 to 5");
    REFUSED(csr.starts = NULL, GRIDZ_ERROR_INVALID_ARGUMENT, "starts");
    REFUSED(csr.indices = OUTSIDE, GRIDZ_ERROR_INVALID_ARGUMENT, "column 4 of element 3");
    REFUSED(csr.indices = NEGATIVE, GRIDZ_ERROR_INVALID_ARGUMENT, "column -1 of element 3");
    REFUSED(csr.indices = NULL, GRIDZ_ERROR_INVALID_ARGUMENT, "indices");
    REFUSED(csr.values = (const char *)VALUES + 1, GRIDZ_ERROR_INVALID_ARGUMENT, "values");
    REFUSED(csr.dtype = GRIDZ_DTYPE_I32, GRIDZ_ERROR_UNSUPPORTED_JOB, "GRIDZ_DTYPE_F32 or _F64");
    REFUSED(csr.index_dtype = GRIDZ_DTYPE_U32, GRIDZ_ERROR_UNSUPPORTED_JOB, "GRIDZ_DTYPE_I32 or _I64");
    REFUSED(csr.layout = 2, GRIDZ_ERROR_INVALID_ARGUMENT, "layout 2");
    REFUSED(csr.reserved = 1, GRIDZ_ERROR_INVALID_ARGUMENT, "reserved");
    REFUSED(csr.struct_size = 8, GRIDZ_ERROR_INVALID_ARGUMENT, "struct_size");
    REFUSED(csr.n_rows = UINT64_MAX, GRIDZ_ERROR_INVALID_ARGUMENT, "exceed the address space");
    csr = described();
    CHECK_FAILS(gridz_cci_create(&csr, 5, NULL, &cci), GRIDZ_ERROR_INVALID_ARGUMENT, "GRIDZ_CCI_VALUES_");
    CHECK_FAILS(gridz_cci_create(&csr, GRIDZ_CCI_VALUES_CONSTANT, NULL, &cci), GRIDZ_ERROR_INVALID_ARGUMENT, "not all equal");
    CHECK_FAILS(gridz_cci_create(&csr, 0, NULL, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "cci");
    CHECK_FAILS(gridz_cci_create(NULL, 0, NULL, &cci), GRIDZ_ERROR_INVALID_ARGUMENT, "NULL");

    /* An empty matrix needs no arrays except the starts. */
    const int32_t zero = 0;
    csr = described();
    csr.n_rows = csr.n_cols = csr.nnz = 0;
    csr.starts = &zero;
    csr.indices = csr.values = NULL;
    cci = made(&csr);
    CHECK_OK(gridz_cci_multiply(cci, GRIDZ_CCI_SEMIRING_PLUS_TIMES, 0, 1, NULL, 0, NULL, 0, NULL));
    gridz_cci_destroy(cci);
}

static void test_vectors(void)
{
    gridz_csr csr = described();
    gridz_cci *cci = made(&csr);
    float x[8] = {0}, y[8] = {0};
#define REFUSES(semiring, transposed, n, from, from_bytes, to, to_bytes, words)                                  \
    CHECK_FAILS(gridz_cci_multiply(cci, semiring, transposed, n, from, from_bytes, to, to_bytes, NULL),          \
                GRIDZ_ERROR_INVALID_ARGUMENT, words)
    REFUSES(4, 0, 1, x, 16, y, 16, "semiring");
    REFUSES(0, 2, 1, x, 16, y, 16, "transposed is 2");
    REFUSES(0, 0, 0, x, 0, y, 0, "vectors");
    REFUSES(0, 0, 257, x, 16, y, 16, "vectors");
    REFUSES(0, 0, 1, x, 12, y, 16, "x has 3 elements");
    REFUSES(0, 0, 1, x, 16, y, 20, "y has 5 elements");
    REFUSES(0, 0, 1, x, 15, y, 16, "15 bytes");
    REFUSES(0, 0, 2, x, 16, y, 16, "x has 4 elements");
    REFUSES(0, 0, 1, NULL, 16, y, 16, "x");
    REFUSES(0, 0, 1, x, 16, NULL, 16, "y");
    REFUSES(0, 0, 1, (char *)x + 2, 16, y, 16, "x");
    REFUSES(0, 0, 1, x, 16, x + 3, 16, "overlap");
    CHECK_FAILS(gridz_cci_multiply(NULL, 0, 0, 1, x, 16, y, 16, NULL), GRIDZ_ERROR_INVALID_ARGUMENT, "cci");
    gridz_cci_destroy(cci);
}

int main(void)
{
    static void (*const TESTS[])(void) = {test_products, test_rows, test_frames, test_descriptions, test_vectors};
    for (size_t i = 0; i < COUNT(TESTS); i++)
        TESTS[i]();
    printf("all %zu tests of sparse matrices passed\n", COUNT(TESTS));
    return 0;
}
