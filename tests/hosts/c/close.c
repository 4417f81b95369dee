/* close FILE: closes HDF5, which unloads its plugins, while the plugin's worker threads are alive;
 * then starts it again, and leaves the rest to exit(). Prints the number of threads before H5close.
 * */
#define _DEFAULT_SOURCE
#include "host.h"

#include <dirent.h>
#include <unistd.h>

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const hsize_t extents[] = {128, 128, 128};
    float *data = host_field(128 * 128 * 128, 0);
    for (int round = 0; round < 2; round++) {
        host_round_trip(argv[1], H5T_NATIVE_FLOAT, sizeof *data, 3, extents, extents, 0, NULL, data);
        printf("%d\n", threads());
        CHECK(H5close() >= 0);
        usleep(1000);
    }
    host_round_trip(argv[1], H5T_NATIVE_FLOAT, sizeof *data, 3, extents, extents, 0, NULL, data);
    free(data);
    return 0;
}
