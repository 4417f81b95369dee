/*
 * A program of an old version: it uses the features of the first header, and its structs have the
 * sizes of that time. It is compiled with an old header and run with the current library.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gridz.h"

#define MUST(condition)                                                                      \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "abi.c:%d: %s: %s\n", __LINE__, #condition, gridz_last_error()); \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

enum { NZ = 20, NY = 30, NX = 40, N = NZ * NY * NX };

int main(void)
{
    static double field[N], back[N];
    static const struct {
        const char *name;
        uint32_t mode;
        double bound;
    } codecs[] = {{NULL, 0, 0}, {"stored", 0, 0}, {"ndzip", 0, 0}, {"lorenzo", 0, 0}, {"quant", GRIDZ_MODE_ABS, 0.01},
                  {"zfp", 0, 0}, {"multigrid", GRIDZ_MODE_ABS, 0.01}, {"huffman", 0, 0}, {"cci", 0, 0}};
    const uint64_t extents[3] = {NZ, NY, NX}, start[3] = {1, 2, 3}, count[3] = {4, 5, 6};
    const gridz_array array = {
        .struct_size = sizeof array, .dtype = GRIDZ_DTYPE_F64, .rank = 3, .extents = extents};
    const gridz_context_options threads = {.struct_size = sizeof threads, .threads = 2};
    gridz_context *context;

    for (int i = 0; i < N; i++)
        field[i] = i % NX * 0.25 + i / NX;
    MUST(gridz_context_create(&threads, &context) == GRIDZ_OK);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        char request[64];
        const gridz_options options = {.struct_size = sizeof options, .context = context, .request = request};
        gridz_frame_info info = {.struct_size = sizeof info};
        size_t bound, n, n_back;
        MUST(gridz_request_text(codecs[i].name, codecs[i].mode, codecs[i].bound, 0, request, sizeof request, NULL) == GRIDZ_OK);
        MUST(gridz_compress_bound(&array, &options, &bound) == GRIDZ_OK);
        void *frame = malloc(bound);
        MUST(frame != NULL);
        MUST(gridz_compress(&array, field, sizeof field, frame, bound, &n, &options) == GRIDZ_OK);
        MUST(gridz_inspect(frame, n, &info) == GRIDZ_OK);
        MUST(info.rank == 3 && memcmp(info.extents, extents, sizeof extents) == 0 && info.frame_bytes == n);
        memset(back, 0, sizeof back);
        MUST(gridz_decompress(frame, n, back, sizeof back, &n_back, &options) == GRIDZ_OK);
        MUST(n_back == sizeof field);
        for (int k = 0; k < N; k++)
            MUST(back[k] - field[k] <= codecs[i].bound && field[k] - back[k] <= codecs[i].bound);
        const double corner = back[(1 * NY + 2) * NX + 3];
        MUST(gridz_decompress_region(frame, n, 3, start, count, back, sizeof back, &n_back, NULL) == GRIDZ_OK);
        MUST(n_back == 4 * 5 * 6 * sizeof(double) && back[0] == corner);
        ((unsigned char *)frame)[n / 2] ^= 1;
        MUST(gridz_decompress(frame, n, back, sizeof back, &n_back, NULL) == GRIDZ_ERROR_CORRUPT);
        free(frame);
    }
    gridz_context_destroy(context);
    MUST(strcmp(gridz_status_name(GRIDZ_ERROR_CORRUPT), "GRIDZ_ERROR_CORRUPT") == 0);
    puts("abi: all passed");
    return 0;
}
