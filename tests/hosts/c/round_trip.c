/* round_trip FILE [WORD...]: writes float and double with these cd_values and with chunks that do
 * not divide the array, and compares bit for bit; then a partial rewrite after reopening. Prints
 * "compressed" or "raw". */
#include "host.h"

static void rewrite(const char *path, float *data, size_t columns)
{
    const hsize_t start[] = {40, 3}, count[] = {30, 50};
    float part[30 * 50];
    for (size_t i = 0; i < 30 * 50; i++)
        part[i] = (float)i / 3.0f;
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    CHECK(file >= 0);
    hid_t dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    hid_t memory = H5Screate_simple(2, count, NULL), space = H5Dget_space(dataset);
    CHECK(dataset >= 0 && memory >= 0 && space >= 0);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, part) >= 0);
    for (size_t i = 0; i < 30; i++)
        memcpy(&data[(40 + i) * columns + 3], &part[50 * i], 50 * sizeof *part);
    H5Sclose(memory);
    H5Sclose(space);
    CHECK(H5Dclose(dataset) >= 0);
    CHECK(H5Fclose(file) >= 0);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2 && argc <= 258);
    unsigned values[256];
    for (int i = 2; i < argc; i++)
        values[i - 2] = (unsigned)strtoul(argv[i], NULL, 0);
    const size_t n_values = (size_t)(argc - 2);
    const hsize_t extents[] = {130, 150}, chunk[] = {64, 64};
    const size_t n = 130 * 150;
    float *single = host_field(n, 1);
    double *twice = malloc(n * sizeof *twice);
    CHECK(twice != NULL);
    for (size_t i = 0; i < n; i++)
        twice[i] = sin((double)i * 0.01) / 3.0;
    twice[5] = -0.0;
    twice[6] = HUGE_VAL;

    hsize_t stored =
        host_round_trip(argv[1], H5T_NATIVE_DOUBLE, sizeof *twice, 2, extents, chunk, n_values, values, twice);
    printf("%s\n", stored < 9 * 64 * 64 * sizeof *twice ? "compressed" : "raw");
    host_round_trip(argv[1], H5T_NATIVE_FLOAT, sizeof *single, 2, extents, chunk, n_values, values, single);
    rewrite(argv[1], single, 150);

    float *back = malloc(n * sizeof *back);
    CHECK(back != NULL);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    CHECK(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, back) >= 0);
    CHECK(memcmp(back, single, n * sizeof *back) == 0);
    CHECK(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0);
    free(back);
    free(single);
    free(twice);
    CHECK(H5close() >= 0);
    return 0;
}
