/*
 * Parallel HDF5 with the gridz filter: collective writes and reads of a chunked dataset, then independent reads.
 *
 *     mpirun -n 4 collective_c [FILE [BOUND]]
 *
 * Ranks share chunks. If there are several ranks, the last one has no data at all, but takes part
 * in all collective calls, as HDF5 requires. Every rank compares the data that it reads with the
 * data that it wrote: bit for bit or, with BOUND, by the largest allowed difference of an element.
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
        fprintf(stderr, "collective_c, rank %d: %s failed\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int are_kept(const float *data, const float *back, size_t n, double bound)
{
    if (bound == 0.0)
        return memcmp(data, back, n * sizeof *data) == 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)data[i] - (double)back[i]) <= bound))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *name = argc > 1 ? argv[1] : "collective_c.h5";
    const double bound = argc > 2 ? atof(argv[2]) : 0.0;

    /* Planes of each rank: not a multiple of the chunk's 16. */
    const hsize_t extents[3] = {50, 60, 70}, chunk[3] = {16, 20, 35};
    const int writers = size > 1 ? size - 1 : 1;
    const hsize_t per_rank = (extents[0] + writers - 1) / writers;
    hsize_t start[3] = {rank * per_rank, 0, 0}, count[3] = {0, extents[1], extents[2]};
    if (rank < writers && start[0] < extents[0])
        count[0] = extents[0] - start[0] < per_rank ? extents[0] - start[0] : per_rank;
    const size_t n = count[0] * count[1] * count[2], first = start[0] * extents[1] * extents[2];
    float *data = malloc((n + 1) * sizeof *data), *back = calloc(n + 1, sizeof *back);
    must(data != NULL && back != NULL, "malloc");
    for (size_t i = 0; i < n; i++)
        data[i] = sinf((first + i) * 1e-3f) + (first + i) * 1e-5f;

    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    must(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
    must(H5Pset_chunk(dcpl, 3, chunk) >= 0, "H5Pset_chunk");
    const herr_t is_set = bound == 0.0 ? gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, GRIDZ_LEVEL_FAST)
                                       : gridz_h5_set_mode(dcpl, GRIDZ_CODEC_QUANT, GRIDZ_MODE_ABS, bound, GRIDZ_LEVEL_FAST);
    must(is_set >= 0, "gridz_h5_set (is HDF5_PLUGIN_PATH set on all ranks?)");
    const hid_t space = H5Screate_simple(3, extents, NULL), memory = H5Screate_simple(1, &(hsize_t){n + 1}, NULL);
    if (n > 0) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        H5Sselect_hyperslab(memory, H5S_SELECT_SET, &(hsize_t){0}, NULL, &(hsize_t){n}, NULL);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(memory);
    }
    const hid_t collective = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE) >= 0, "H5Pset_dxpl_mpio");

    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    must(file >= 0, "H5Fcreate");
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "H5Dcreate");
    /* HDF5 1.10 and later write filtered chunks only collectively. */
    must(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, collective, data) >= 0, "the collective write");
    must(H5Dread(set, H5T_NATIVE_FLOAT, memory, space, collective, back) >= 0, "the collective read");
    must(are_kept(data, back, n, bound), "the comparison");
    const unsigned long long stored = H5Dget_storage_size(set);
    must(H5Dclose(set) >= 0 && H5Fclose(file) >= 0, "closing");

    file = H5Fopen(name, H5F_ACC_RDONLY, fapl);
    set = H5Dopen2(file, "x", H5P_DEFAULT);
    memset(back, 0, n * sizeof *back);
    must(H5Dread(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, back) >= 0, "the independent read");
    must(are_kept(data, back, n, bound), "the comparison");
    must(H5Dclose(set) >= 0 && H5Fclose(file) >= 0, "closing");

    if (rank == 0)
        printf("%d ranks, %llu of %llu bytes: %s\n", size, stored,
               (unsigned long long)(extents[0] * extents[1] * extents[2] * sizeof(float)),
               bound == 0.0 ? "the same bit for bit" : "all within the bound");
    free(data);
    free(back);
    MPI_Finalize();
    return 0;
}
