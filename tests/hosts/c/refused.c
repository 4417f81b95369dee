/* refused FILE [WORD...]: creates a dataset with these cd_values and prints HDF5's error stack,
 * which HDF5 itself prints only if SHOW_ERRORS is set. The exit status is 0 if the dataset was
 * created, 3 if not. */
#include "host.h"

static herr_t show(unsigned n, const H5E_error2_t *entry, void *unused)
{
    (void)n;
    (void)unused;
    printf("%s: %s\n", entry->func_name, entry->desc);
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2 && argc <= 258);
    unsigned values[256];
    for (int i = 2; i < argc; i++)
        values[i - 2] = (unsigned)strtoul(argv[i], NULL, 0);
    const hsize_t extents[] = {100}, chunk[] = {50};
    if (getenv("SHOW_ERRORS") == NULL)
        CHECK(H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(file >= 0);
    /* The error stack is that of the last call, so no other call may follow H5Dcreate. */
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, extents, NULL);
    CHECK(H5Pset_chunk(plist, 1, chunk) >= 0);
    CHECK(H5Pset_filter(plist, GRIDZ, H5Z_FLAG_OPTIONAL, (size_t)(argc - 2), values) >= 0);
    hid_t dataset = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (dataset < 0)
        CHECK(H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, show, NULL) >= 0);
    else
        CHECK(H5Dclose(dataset) >= 0);
    H5Sclose(space);
    H5Pclose(plist);
    CHECK(H5Fclose(file) >= 0);
    return dataset < 0 ? 3 : 0;
}
