/*
 * Compresses a 3-D field, inspects the frame, decompresses it and compares.
 *
 *     cc -std=c99 -I include examples/c/compress_array.c -L target/release -lgridz -lm -o compress_array
 *     LD_LIBRARY_PATH=target/release ./compress_array
 */
#include <gridz.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 96 };

/* Ends the program with gridz's error text if a call failed. */
static void check(gridz_status status, const char *call)
{
    if (status != GRIDZ_OK) {
        fprintf(stderr, "%s: %s: %s\n", call, gridz_status_name(status), gridz_last_error());
        exit(EXIT_FAILURE);
    }
}

static void *allocate(size_t n_bytes)
{
    void *memory = malloc(n_bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", n_bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* A smooth wave with a fine ripple, z slowest, as in a simulation. */
static void fill(float *field)
{
    for (int z = 0; z < N; z++) {
        for (int y = 0; y < N; y++) {
            for (int x = 0; x < N; x++) {
                double wave = sin(0.05 * x) * cos(0.04 * y) + 0.1 * sin(0.03 * z);
                *field++ = (float)(wave + 1e-4 * sin(1.7 * (x + y + z)));
            }
        }
    }
}

int main(void)
{
    const uint64_t extents[3] = {N, N, N};
    const gridz_array array = {
        .struct_size = sizeof array, .dtype = GRIDZ_DTYPE_F32, .rank = 3, .extents = extents};
    const size_t field_bytes = sizeof(float) * N * N * N;
    float *field = allocate(field_bytes);
    fill(field);

    /* NULL for the options means the default lossless codec, all cores, no memory limit. */
    size_t bound = 0, frame_bytes = 0;
    check(gridz_compress_bound(&array, NULL, &bound), "gridz_compress_bound");
    void *frame = allocate(bound);
    check(gridz_compress(&array, field, field_bytes, frame, bound, &frame_bytes, NULL), "gridz_compress");

    /* The frame could now be written to a file. A reader gets the array's description from the
     * frame itself. */
    gridz_frame_info info = {.struct_size = sizeof info};
    check(gridz_inspect(frame, frame_bytes, &info), "gridz_inspect");
    printf("gridz %s, codec %s: %llu x %llu x %llu floats\n", gridz_version(), info.codec_name,
           (unsigned long long)info.extents[0], (unsigned long long)info.extents[1],
           (unsigned long long)info.extents[2]);

    size_t back_bytes = 0;
    float *back = allocate((size_t)info.array_bytes);
    check(gridz_decompress(frame, frame_bytes, back, (size_t)info.array_bytes, &back_bytes, NULL),
          "gridz_decompress");

    int same = back_bytes == field_bytes && memcmp(back, field, field_bytes) == 0;
    printf("%zu -> %zu bytes, ratio %.3f, %s\n", field_bytes, frame_bytes, (double)field_bytes / (double)frame_bytes,
           same ? "the same bit for bit" : "DIFFERENT");

    free(back);
    free(frame);
    free(field);
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
