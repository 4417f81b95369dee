/*
 * A simulation that writes checkpoints through the gridz filter of HDF5 and restarts from them.
 *
 *     heat_c               computes 40 steps, writes heat_c.h5 after 20 of them
 *     heat_c restart       reads that and computes the other 20
 *
 * Both print a checksum of the last state. The checksums are equal, because every bit of a
 * checkpoint is restored.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#include "gridz_hdf5.h"

enum { N = 48, STEPS = 40, CHECKPOINT = 20 };
static const char FILE_NAME[] = "heat_c.h5";
typedef double field[N][N][N];

static void must(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "heat_c: %s failed\n", what);
        exit(1);
    }
}

static void start(field t)
{
    for (int z = 0; z < N; z++)
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++)
                t[z][y][x] = (x - N / 2) * (x - N / 2) + (y - N / 2) * (y - N / 2) < N * N / 16 ? 900.0 + z : 300.0;
}

/* Explicit diffusion; the surface keeps its temperature. */
static void step(field t, field next)
{
    memcpy(next, t, sizeof(field));
    for (int z = 1; z < N - 1; z++)
        for (int y = 1; y < N - 1; y++)
            for (int x = 1; x < N - 1; x++)
                next[z][y][x] = t[z][y][x] + 0.1 * (t[z][y][x - 1] + t[z][y][x + 1] + t[z][y - 1][x] + t[z][y + 1][x] +
                                                    t[z - 1][y][x] + t[z + 1][y][x] - 6.0 * t[z][y][x]);
    memcpy(t, next, sizeof(field));
}

static void save(field t)
{
    const hsize_t extents[3] = {N, N, N}, chunk[3] = {N / 2, N, N};
    const hid_t file = H5Fcreate(FILE_NAME, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(3, extents, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    must(file >= 0 && space >= 0 && dcpl >= 0, "making the file");
    must(H5Pset_chunk(dcpl, 3, chunk) >= 0, "H5Pset_chunk");
    must(gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_FAST) >= 0, "gridz_h5_set (is HDF5_PLUGIN_PATH set?)");
    const hid_t set =
        H5Dcreate2(file, "temperature", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");
    must(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t) >= 0, "H5Dwrite");
    must(H5Dclose(set) >= 0 && H5Pclose(dcpl) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0, "closing");
}

static void load(field t)
{
    const hid_t file = H5Fopen(FILE_NAME, H5F_ACC_RDONLY, H5P_DEFAULT);
    must(file >= 0, "opening the checkpoint");
    const hid_t set = H5Dopen2(file, "temperature", H5P_DEFAULT);
    must(set >= 0 && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t) >= 0, "reading");
    must(H5Dclose(set) >= 0 && H5Fclose(file) >= 0, "closing");
}

int main(int argc, char **argv)
{
    static field t, next;
    int first = 0;
    if (argc > 1 && strcmp(argv[1], "restart") == 0) {
        load(t);
        first = CHECKPOINT;
    } else {
        start(t);
    }
    for (int i = first; i < STEPS; i++) {
        step(t, next);
        if (i + 1 == CHECKPOINT)
            save(t);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < (size_t)N * N * N; i++) {
        uint64_t bits;
        memcpy(&bits, (double *)t + i, sizeof bits);
        sum = sum * 31 + bits;
    }
    printf("step %d: %016llx\n", STEPS, (unsigned long long)sum);
    return 0;
}
