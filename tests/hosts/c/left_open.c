/* left_open FILE: writes datasets and returns from main without closing anything. So HDF5
 * compresses the chunks in its cache during exit(), when the thread-local values of the main thread
 * are already destroyed. The first dataset is flushed before that: the plugin's worker threads are
 * then alive while the process ends. */
#include "host.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const hsize_t extents[] = {1024, 1024};
    float *data = host_field(1024 * 1024, 0);
    hid_t plist = H5Pcreate(H5P_FILE_ACCESS);
    /* A cache that fits a whole chunk; otherwise HDF5 would write the chunk at once. */
    CHECK(plist >= 0 && H5Pset_cache(plist, 0, 521, (size_t)1 << 27, 1.0) >= 0);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, plist);
    CHECK(file >= 0);
    const char *names[] = {"flushed", "left"};
    for (int i = 0; i < 2; i++) {
        hid_t dataset = host_create(file, names[i], H5T_NATIVE_FLOAT, 2, extents, extents, 0, NULL);
        CHECK(dataset >= 0);
        CHECK(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
        CHECK(i > 0 || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    }
    free(data);
    return 0;
}
