/*
 * Whole boxes of a dataset in parallel HDF5: each rank writes its own box by gridz_h5_write and
 * reads the boxes of all other ranks by gridz_h5_read.
 *
 *     mpirun -n 4 boxes [FILE]
 *
 * HDF5 writes compressed chunks only collectively; reading is independent for each rank, with all
 * of its threads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>
#include <mpi.h>

#include "gridz_hdf5.h"

static int rank;

static void must(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "boxes, rank %d: %s failed: %s\n", rank, what, gridz_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static float value(size_t i)
{
    return sinf(i * 1e-3f) + i * 1e-5f;
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *name = argc > 1 ? argv[1] : "boxes.h5";

    /* Planes of each rank, not a multiple of the chunk's 16; if there are several ranks, the last
     * one has none. */
    const hsize_t extents[3] = {50, 60, 70}, chunk[3] = {16, 20, 35}, plane = extents[1] * extents[2];
    const int writers = size > 1 ? size - 1 : 1;
    const hsize_t per_rank = (extents[0] + writers - 1) / writers;
    hsize_t start[3] = {0, 0, 0}, count[3] = {0, extents[1], extents[2]};
    if (rank < writers && rank * per_rank < extents[0]) {
        start[0] = rank * per_rank;
        count[0] = extents[0] - start[0] < per_rank ? extents[0] - start[0] : per_rank;
    }
    float *mine = malloc((count[0] * plane + 1) * sizeof *mine), *all = calloc(extents[0] * plane, sizeof *all);
    must(mine != NULL && all != NULL, "malloc");
    for (size_t i = 0; i < count[0] * plane; i++)
        mine[i] = value(start[0] * plane + i);

    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t collective = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
    must(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE) >= 0, "H5Pset_dxpl_mpio");
    must(H5Pset_chunk(dcpl, 3, chunk) >= 0, "H5Pset_chunk");
    must(gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_FAST) >= 0, "gridz_h5_set (is HDF5_PLUGIN_PATH set?)");
    const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    must(file >= 0, "H5Fcreate");
    const hid_t space = H5Screate_simple(3, extents, NULL);
    const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");

    gridz_h5_options options = {.struct_size = sizeof options, .dxpl = collective};
    must(gridz_h5_write(set, H5T_NATIVE_FLOAT, start, count, mine, &options) == GRIDZ_OK, "gridz_h5_write");
    must(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "H5Fflush");
    MPI_Barrier(MPI_COMM_WORLD);
    must(gridz_h5_read(set, H5T_NATIVE_FLOAT, NULL, NULL, all, &options) == GRIDZ_OK, "gridz_h5_read");
    for (size_t i = 0; i < extents[0] * plane; i++)
        must(all[i] == value(i), "the comparison");
    const unsigned long long stored = H5Dget_storage_size(set);
    must(H5Dclose(set) >= 0 && H5Fclose(file) >= 0, "closing");
    if (rank == 0)
        printf("%d ranks, %llu of %zu bytes: the same bit for bit\n", size, stored,
               (size_t)(extents[0] * plane) * sizeof *all);
    free(mine);
    free(all);
    MPI_Finalize();
    return 0;
}
