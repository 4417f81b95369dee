/* Helpers of the C tests: counted checks and pseudo-random bytes. */
#ifndef CHECK_H
#define CHECK_H

#include <gridz.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program at the first false claim. */
#define CHECK(claim)                                                                          \
    do {                                                                                      \
        if (!(claim)) {                                                                       \
            fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #claim);                \
            fprintf(stderr, "last error of gridz: \"%s\"\n", gridz_last_error());             \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* Checks that a call returns `expected`, and prints the actual status if not. */
#define CHECK_STATUS(call, expected)                                                          \
    do {                                                                                      \
        gridz_status got_ = (call);                                                           \
        if (got_ != (expected)) {                                                             \
            fprintf(stderr, "%s:%d: %s gave %s instead of %s: \"%s\"\n", __FILE__, __LINE__, #call, \
                    gridz_status_name(got_), #expected, gridz_last_error());                  \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(call, GRIDZ_OK)

/* Checks that a call fails with `expected` and that the error text contains `words`. */
#define CHECK_FAILS(call, expected, words)                                                    \
    do {                                                                                      \
        CHECK_STATUS(call, expected);                                                         \
        CHECK(strstr(gridz_last_error(), words) != NULL);                                     \
    } while (0)

/* A buffer of exactly n bytes, so that AddressSanitizer detects an access one byte past it; never
 * NULL. */
static inline unsigned char *exactly(size_t n_bytes)
{
    unsigned char *bytes = malloc(n_bytes);
    if (bytes == NULL && n_bytes == 0)
        bytes = malloc(1);
    CHECK(bytes != NULL);
    return bytes;
}

/* xorshift64*, so that every run and machine generates the same bytes. */
static inline void random_bytes(unsigned char *to, size_t n_bytes, uint64_t seed)
{
    uint64_t state = seed * 2654435769u + 88172645463325252u;
    for (size_t i = 0; i < n_bytes; i++) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        to[i] = (unsigned char)((state * 2685821657736338717u) >> 56);
    }
}

static inline size_t bytes_of(const gridz_array *array, size_t element_size)
{
    size_t n_bytes = element_size;
    for (uint32_t i = 0; i < array->rank; i++)
        n_bytes *= (size_t)array->extents[i];
    return n_bytes;
}

/* Compresses into a destination of exactly the bound, which the caller frees. */
static inline unsigned char *compressed(const gridz_array *array, const void *src, size_t src_bytes,
                                        size_t *frame_bytes, const gridz_options *options)
{
    size_t bound = 0;
    CHECK_OK(gridz_compress_bound(array, options, &bound));
    unsigned char *frame = exactly(bound);
    CHECK_OK(gridz_compress(array, src, src_bytes, frame, bound, frame_bytes, options));
    CHECK(*frame_bytes <= bound);
    return frame;
}

/* Checks that a frame, copied to a buffer of exactly its length, decompresses to these bytes. */
static inline void check_decompresses(const unsigned char *frame, size_t frame_bytes, const void *expected,
                                      size_t expected_bytes, const gridz_options *options)
{
    unsigned char *exact = exactly(frame_bytes);
    unsigned char *back = exactly(expected_bytes);
    size_t back_bytes = 99;
    memcpy(exact, frame, frame_bytes);
    CHECK_OK(gridz_decompress(exact, frame_bytes, back, expected_bytes, &back_bytes, options));
    CHECK(back_bytes == expected_bytes);
    CHECK(expected_bytes == 0 || memcmp(back, expected, expected_bytes) == 0);
    free(back);
    free(exact);
}

#endif
