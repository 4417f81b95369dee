/* threads FOLDER: four threads write and read their own files concurrently. If libhdf5 is not
 * thread-safe, they take turns. */
#include "host.h"

#include <pthread.h>

static const char *folder;
static hbool_t is_safe;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    const unsigned *seed = argument;
    const hsize_t extents[] = {300, 200}, large[] = {1, 1024, 512};
    float *data = host_field(1024 * 512, *seed);
    for (unsigned round = 0; round < 8; round++) {
        char path[4096];
        CHECK(snprintf(path, sizeof path, "%s/%u-%u.h5", folder, *seed, round % 2) < (int)sizeof path);
        if (!is_safe)
            pthread_mutex_lock(&turn);
        const hsize_t chunk[] = {64 + round, 128};
        if (round % 4 == 3)
            host_round_trip(path, H5T_NATIVE_FLOAT, sizeof *data, 3, large, large, 0, NULL, data);
        else
            host_round_trip(path, H5T_NATIVE_FLOAT, sizeof *data, 2, extents, chunk, 0, NULL, data);
        if (!is_safe)
            pthread_mutex_unlock(&turn);
    }
    free(data);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    folder = argv[1];
    CHECK(H5is_library_threadsafe(&is_safe) >= 0);
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &seeds[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts(is_safe ? "at once" : "in turns");
    return 0;
}
