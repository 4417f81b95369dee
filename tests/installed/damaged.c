/*
 * Several ranks read a file with a damaged chunk, or write a part of that chunk. Only the last rank
 * uses the damaged chunk.
 *
 *     mpirun -n 3 damaged independently|collectively|write
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>
#include <mpi.h>

#include "gridz_hdf5.h"

enum { SIDE = 64 };
static const char FILE_NAME[] = "damaged.h5";

static void must(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "damaged: %s failed\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int value(hsize_t i)
{
    return (int)(i * i % 1000);
}

/* Writes one chunk for each rank; then flips a bit in the middle of the last one. */
static void write_damaged(int ranks)
{
    const hsize_t n = (hsize_t)ranks * SIDE * SIDE, extents[2] = {(hsize_t)ranks * SIDE, SIDE}, chunk[2] = {SIDE, SIDE};
    const hsize_t last[2] = {(hsize_t)(ranks - 1) * SIDE, 0};
    int *values = malloc(n * sizeof *values);
    must(values != NULL, "malloc");
    for (hsize_t i = 0; i < n; i++)
        values[i] = value(i);
    const hid_t file = H5Fcreate(FILE_NAME, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(2, extents, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    must(H5Pset_chunk(dcpl, 2, chunk) >= 0 && gridz_h5_set(dcpl, GRIDZ_CODEC_LORENZO, 0) >= 0, "the filter");
    const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0, "writing");
    hsize_t n_bytes;
    uint32_t mask;
    must(H5Dget_chunk_storage_size(set, last, &n_bytes) >= 0, "asking for the chunk's size");
    unsigned char *bytes = malloc(n_bytes);
    must(bytes != NULL && H5Dread_chunk(set, H5P_DEFAULT, last, &mask, bytes) >= 0, "reading the chunk");
    bytes[n_bytes / 2] ^= 1;
    must(H5Dwrite_chunk(set, H5P_DEFAULT, mask, last, n_bytes, bytes) >= 0, "writing the chunk");
    must(H5Dclose(set) >= 0 && H5Pclose(dcpl) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0, "closing");
    free(bytes);
    free(values);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        write_damaged(ranks);
    MPI_Barrier(MPI_COMM_WORLD);

    const int is_write = argc > 1 && strcmp(argv[1], "write") == 0;
    const int is_collective = is_write || (argc > 1 && strcmp(argv[1], "collectively") == 0);
    const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_mpio(fapl, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0, "H5Pset_fapl_mpio");
    must(H5Pset_dxpl_mpio(dxpl, is_collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) >= 0, "H5Pset_dxpl_mpio");
    const hid_t file = H5Fopen(FILE_NAME, is_write ? H5F_ACC_RDWR : H5F_ACC_RDONLY, fapl), set = H5Dopen2(file, "x", H5P_DEFAULT);
    /* Writing a part of a chunk requires reading it first. */
    const hsize_t start[2] = {(hsize_t)rank * SIDE, 0}, count[2] = {is_write ? SIDE / 2 : SIDE, SIDE};
    const hid_t space = H5Dget_space(set), memory = H5Screate_simple(2, count, NULL);
    must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0, "the selection");
    static int values[SIDE * SIDE];
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (is_write) {
        H5Zfilter_avail(GRIDZ_H5_FILTER);
        if (H5Dwrite(set, H5T_NATIVE_INT, memory, space, dxpl, values) < 0) {
            fprintf(stderr, "rank %d: the write was refused\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    const herr_t status = H5Dread(set, H5T_NATIVE_INT, memory, space, dxpl, values);
    int is_right = 1;
    for (hsize_t i = 0; i < SIDE * SIDE; i++)
        is_right &= values[i] == value((hsize_t)rank * SIDE * SIDE + i);
    printf("rank %d: %s\n", rank, status < 0 ? "refused" : is_right ? "right" : "wrong");
    fflush(stdout);
    H5Dclose(set);
    H5Fclose(file);
    MPI_Finalize();
    return 0;
}
