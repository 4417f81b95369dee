/* A small 3-D simulation that writes its fields to HDF5, as a simulation code would.
 *
 *     reaction_diffusion N STEPS SNAPSHOTS PLAIN.h5 FILTERED.h5
 *
 * runs the Gray-Scott model (gray_scott.h) on N^3 cells in float and in double, and appends SNAPSHOTS
 * equally spaced states to the datasets /f32/u, /f32/v, /f64/u, /f64/v: extents (time, z, y, x),
 * extendible in time.  It writes them to two files with the same chunks: one without any filter, and
 * one through gridz.  The filter is all that differs between the two, and it takes one line:
 * H5Pset_filter below.  HDF5 finds the plugin by HDF5_PLUGIN_PATH; nothing of gridz is linked.
 */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRIDZ_FILTER_ID = 34013, CHUNK_ZY = 64, CHUNK_X = 128 };

/* HDF5 has already printed its error stack. */
static hid_t check(hid_t result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "reaction_diffusion: %s failed\n", what);
        exit(1);
    }
    return result;
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (memory == NULL) {
        fprintf(stderr, "reaction_diffusion: no memory for %zu x %zu bytes\n", n, size);
        exit(1);
    }
    return memory;
}

#define REAL float
#define NAME(x) x##_f32
#include "gray_scott.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(x) x##_f64
#include "gray_scott.h"

static hsize_t smaller(hsize_t a, hsize_t b)
{
    return a < b ? a : b;
}

/* Creates an empty dataset of n^3 cells per time step, and the missing groups of its path. */
static hid_t create(hid_t file, const char *path, hid_t type, size_t n, int filtered)
{
    const hsize_t extents[4] = {0, n, n, n}, most[4] = {H5S_UNLIMITED, n, n, n};
    const hsize_t chunk[4] = {1, smaller(n, CHUNK_ZY), smaller(n, CHUNK_ZY), smaller(n, CHUNK_X)};
    hid_t space = check(H5Screate_simple(4, extents, most), "H5Screate_simple");
    hid_t links = check(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate");
    check(H5Pset_create_intermediate_group(links, 1), "H5Pset_create_intermediate_group");
    hid_t properties = check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
    check(H5Pset_chunk(properties, 4, chunk), "H5Pset_chunk");
    if (filtered)
        check(H5Pset_filter(properties, GRIDZ_FILTER_ID, H5Z_FLAG_MANDATORY, 0, NULL),
              "H5Pset_filter (is the plugin's folder in HDF5_PLUGIN_PATH?)");
    hid_t dataset = check(H5Dcreate2(file, path, type, space, links, properties, H5P_DEFAULT), "H5Dcreate2");
    H5Pclose(properties);
    H5Pclose(links);
    H5Sclose(space);
    return dataset;
}

/* Appends one field, without its ghost cells, to `dataset`. */
static void append(hid_t dataset, hid_t type, size_t n, const void *field)
{
    hsize_t extents[4];
    hid_t file_space = check(H5Dget_space(dataset), "H5Dget_space");
    check(H5Sget_simple_extent_dims(file_space, extents, NULL), "H5Sget_simple_extent_dims");
    H5Sclose(file_space);

    const hsize_t start[4] = {extents[0], 0, 0, 0}, count[4] = {1, n, n, n};
    extents[0]++;
    check(H5Dset_extent(dataset, extents), "H5Dset_extent");
    file_space = check(H5Dget_space(dataset), "H5Dget_space");
    check(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL), "H5Sselect_hyperslab");

    const hsize_t padded[3] = {n + 2, n + 2, n + 2}, inside[3] = {1, 1, 1};
    hid_t memory_space = check(H5Screate_simple(3, padded, NULL), "H5Screate_simple");
    check(H5Sselect_hyperslab(memory_space, H5S_SELECT_SET, inside, NULL, count + 1, NULL), "H5Sselect_hyperslab");
    check(H5Dwrite(dataset, type, memory_space, file_space, H5P_DEFAULT, field), "H5Dwrite");
    H5Sclose(memory_space);
    H5Sclose(file_space);
}

static size_t number(const char *text)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value == 0) {
        fprintf(stderr, "reaction_diffusion: \"%s\" is not a positive number\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s N STEPS SNAPSHOTS PLAIN.h5 FILTERED.h5\n", argv[0]);
        return 2;
    }
    const size_t n = number(argv[1]), steps = number(argv[2]), snapshots = number(argv[3]);
    if (n < 16 || n > 2048 || snapshots > steps) {
        fprintf(stderr, "reaction_diffusion: N must be 16 to 2048, and SNAPSHOTS no more than STEPS\n");
        return 2;
    }

    hid_t file[2], u32[2], v32[2], u64[2], v64[2];
    for (int filtered = 0; filtered < 2; filtered++) {
        hid_t f = check(H5Fcreate(argv[4 + filtered], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "H5Fcreate");
        file[filtered] = f;
        u32[filtered] = create(f, "/f32/u", H5T_IEEE_F32LE, n, filtered);
        v32[filtered] = create(f, "/f32/v", H5T_IEEE_F32LE, n, filtered);
        u64[filtered] = create(f, "/f64/u", H5T_IEEE_F64LE, n, filtered);
        v64[filtered] = create(f, "/f64/v", H5T_IEEE_F64LE, n, filtered);
    }

    model_f32 m32;
    model_f64 m64;
    start_f32(&m32, n);
    start_f64(&m64, n);
    for (size_t snapshot = 0, step = 0; snapshot < snapshots; snapshot++) {
        for (const size_t until = steps * (snapshot + 1) / snapshots; step < until; step++) {
            step_f32(&m32);
            step_f64(&m64);
        }
        for (int i = 0; i < 2; i++) {
            append(u32[i], H5T_NATIVE_FLOAT, n, m32.u);
            append(v32[i], H5T_NATIVE_FLOAT, n, m32.v);
            append(u64[i], H5T_NATIVE_DOUBLE, n, m64.u);
            append(v64[i], H5T_NATIVE_DOUBLE, n, m64.v);
        }
        printf("  step %zu of %zu written\n", step, steps);
        fflush(stdout);
    }
    stop_f32(&m32);
    stop_f64(&m64);

    /* Closing writes what is still cached, so it can fail too. */
    for (int i = 0; i < 2; i++) {
        check(H5Dclose(u32[i]), "H5Dclose");
        check(H5Dclose(v32[i]), "H5Dclose");
        check(H5Dclose(u64[i]), "H5Dclose");
        check(H5Dclose(v64[i]), "H5Dclose");
        check(H5Fclose(file[i]), "H5Fclose");
    }
    return 0;
}
