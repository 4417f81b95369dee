/*
 * bench_filter FIELD ID [VALUE ...]: writes a cube of float32 through one HDF5 filter and reads it back.
 *
 * FIELD is a raw little-endian file; ID is the filter's number, 0 for none, and VALUEs are its
 * cd_values. One dataset with chunks of 4 MiB in an in-memory file, chunk cache off, so that every
 * chunk passes the filter once in each direction. Prints the ratio and the medians of 7 rounds,
 * after one warm-up round, in MB (10^6) a second.
 */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 7

static void fail(const char *what) {
    fprintf(stderr, "bench_filter: %s\n", what);
    exit(1);
}

static hid_t checked(hid_t id, const char *what) {
    if (id < 0) fail(what);
    return id;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of all but the first round. */
static double median(double *times) {
    qsort(times + 1, ROUNDS, sizeof *times, ascending);
    return times[1 + ROUNDS / 2];
}

int main(int argc, char **argv) {
    if (argc < 3) fail("usage: bench_filter FIELD ID [VALUE ...]");
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail("the field cannot be read");
    size_t n_bytes = (size_t)ftell(file);
    hsize_t n = (hsize_t)llround(cbrt((double)(n_bytes / 4)));
    if (n * n * n * 4 != n_bytes) fail("the field is not a cube of float32");
    float *field = malloc(n_bytes), *back = calloc(n_bytes, 1);
    rewind(file);
    if (field == NULL || back == NULL || fread(field, 1, n_bytes, file) != n_bytes) fail("the field cannot be read");
    fclose(file);
    memset(back, 1, n_bytes); /* maps its pages before the timing starts */

    H5Z_filter_t filter = atoi(argv[2]);
    unsigned values[16];
    size_t n_values = 0;
    for (int i = 3; i < argc && n_values < 16; i++) values[n_values++] = (unsigned)strtoul(argv[i], NULL, 10);
    hsize_t extents[3] = {n, n, n}, chunk[3] = {64, 128, 128};
    for (int i = 0; i < 3; i++) chunk[i] = chunk[i] < n ? chunk[i] : n;

    double writes[1 + ROUNDS], reads[1 + ROUNDS];
    hsize_t stored = 0;
    for (int round = 0; round <= ROUNDS; round++) {
        hid_t access = checked(H5Pcreate(H5P_FILE_ACCESS), "no property list");
        /* A block size of the whole file: the in-memory file grows once, not with every chunk. */
        if (H5Pset_fapl_core(access, 2 * n_bytes, 0) < 0 || H5Pset_cache(access, 0, 0, 0, 0.0) < 0) fail("no core driver");
        hid_t h5 = checked(H5Fcreate("bench", H5F_ACC_TRUNC, H5P_DEFAULT, access), "no file");
        hid_t create = checked(H5Pcreate(H5P_DATASET_CREATE), "no property list");
        if (H5Pset_chunk(create, 3, chunk) < 0) fail("no chunks");
        if (filter != 0 && H5Pset_filter(create, filter, H5Z_FLAG_MANDATORY, n_values, values) < 0) fail("no such filter");
        hid_t space = checked(H5Screate_simple(3, extents, NULL), "no space");

        double begin = seconds();
        hid_t set = H5Dcreate2(h5, "field", H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
        checked(set, "the dataset cannot be created");
        if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) < 0 || H5Fflush(h5, H5F_SCOPE_LOCAL) < 0)
            fail("writing failed");
        writes[round] = seconds() - begin;
        stored = H5Dget_storage_size(set);

        begin = seconds();
        if (H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) < 0) fail("reading failed");
        reads[round] = seconds() - begin;
        if (memcmp(field, back, n_bytes) != 0) fail("the data that was read differs from the data that was written");
        memset(back, 1, n_bytes);
        H5Dclose(set), H5Sclose(space), H5Pclose(create), H5Fclose(h5), H5Pclose(access);
    }
    printf("{\"ratio\": %f, \"write\": %f, \"read\": %f}\n", (double)n_bytes / (double)stored,
           (double)n_bytes / median(writes) / 1e6, (double)n_bytes / median(reads) / 1e6);
    free(field), free(back);
    return 0;
}
