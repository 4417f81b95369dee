/* Helpers of the C hosts: checks that end the program, a smooth field, one dataset with the filter.
 * */
#ifndef HOST_H
#define HOST_H

#include <hdf5.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRIDZ 34013

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);             \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

/* A wave with NaNs of two payloads, an infinity, a negative zero and a subnormal. */
static inline float *host_field(size_t n, unsigned seed)
{
    static const uint32_t special[] = {0x7fc00000u, 0xffc0beefu, 0x7f800000u, 0x80000000u, 0x00000001u};
    float *field = malloc(n * sizeof *field);
    CHECK(field != NULL);
    for (size_t i = 0; i < n; i++)
        field[i] = 100.0f * sinf((float)(i + seed) * 0.01f);
    for (size_t i = 0; i < sizeof special / sizeof *special && 97 * i < n; i++)
        memcpy(&field[97 * i], &special[i], sizeof special[i]);
    return field;
}

/* Creates the dataset `name` of native numbers with the cd_values `values`; negative if refused. */
static inline hid_t host_create(hid_t file, const char *name, hid_t type, int rank, const hsize_t *extents,
                                const hsize_t *chunk, size_t n_values, const unsigned *values)
{
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, extents, NULL);
    CHECK(plist >= 0 && space >= 0);
    CHECK(H5Pset_chunk(plist, rank, chunk) >= 0);
    hid_t dataset = -1;
    if (H5Pset_filter(plist, GRIDZ, H5Z_FLAG_MANDATORY, n_values, values) >= 0)
        dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Sclose(space);
    H5Pclose(plist);
    return dataset;
}

/* Writes `data` to a new file with one dataset `x`, whose filter has the cd_values `values`; then
 * reads it back and compares bit for bit. Returns the dataset's bytes in the file. */
static inline hsize_t host_round_trip(const char *path, hid_t type, size_t size, int rank, const hsize_t *extents,
                                      const hsize_t *chunk, size_t n_values, const unsigned *values,
                                      const void *data)
{
    size_t n_bytes = size;
    for (int i = 0; i < rank; i++)
        n_bytes *= (size_t)extents[i];
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file >= 0);
    hid_t dataset = host_create(file, "x", type, rank, extents, chunk, n_values, values);
    CHECK(dataset >= 0);
    CHECK(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    CHECK(H5Dclose(dataset) >= 0);
    CHECK(H5Fclose(file) >= 0);

    void *back = malloc(n_bytes);
    CHECK(back != NULL);
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0);
    dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    CHECK(dataset >= 0);
    CHECK(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) >= 0);
    CHECK(memcmp(back, data, n_bytes) == 0);
    hsize_t stored = H5Dget_storage_size(dataset);
    CHECK(H5Dclose(dataset) >= 0);
    CHECK(H5Fclose(file) >= 0);
    free(back);
    return stored;
}

#endif
