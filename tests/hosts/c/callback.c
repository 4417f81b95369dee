/* callback PLUGIN PART CODEC LEVEL: calls the plugin's filter function directly, also in ways that
   libhdf5 does not.
   values    random cd_values of 0 to 256 words: encoding never fails and its frame decodes
   garbage   decoding bytes that are not a frame fails and leaves the caller's buffer and length unchanged
   damaged   one wrong byte is an error; under H5Z_FLAG_SKIP_EDC, where payload checksums are not
             compared, it is an error or gives a whole chunk of other values, and some bytes do the latter
   at once   eight threads encode and decode different chunks concurrently */
#include "host.h"

#include <H5PLextern.h>
#include <dlfcn.h>
#include <pthread.h>

static H5Z_func_t filter;
static unsigned codec_and_level;

static uint32_t random_word(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* True if the codec supports only integers: huffman and cci. */
static int is_of_integers(void)
{
    return (codec_and_level & 0xff) == 6 || (codec_and_level & 0xff) == 7;
}

/* Elements that every codec compresses. */
static void *field(size_t n, unsigned seed)
{
    float *data = host_field(n, seed);
    for (size_t i = 0; i < n && is_of_integers(); i++) {
        int32_t whole = isfinite(data[i]) ? (int32_t)data[i] : -999;
        memcpy(&data[i], &whole, sizeof whole);
    }
    return data;
}

/* The stored cd_values for little-endian elements of 32 bits. */
static size_t stored_values(unsigned *values, int rank, const hsize_t *extents)
{
    const unsigned fixed[] = {0x475a0001u, codec_and_level, (is_of_integers() ? 7u : 11u) | (unsigned)rank << 16, 4, 0, 0};
    memcpy(values, fixed, sizeof fixed);
    for (int i = 0; i < rank; i++) {
        values[6 + 2 * i] = (unsigned)extents[i];
        values[7 + 2 * i] = (unsigned)(extents[i] >> 32);
    }
    return 6 + 2 * (size_t)rank;
}

/* Encodes and decodes `n_bytes` of `data` and compares; returns the frame's length. */
static size_t there_and_back(size_t n_values, const unsigned *values, const void *data, size_t n_bytes)
{
    void *buffer = malloc(n_bytes);
    size_t buffer_bytes = n_bytes;
    CHECK(buffer != NULL);
    memcpy(buffer, data, n_bytes);
    size_t n_frame = filter(0, n_values, values, n_bytes, &buffer_bytes, &buffer);
    CHECK(n_frame > 0 && n_frame <= buffer_bytes);
    CHECK(memcmp(buffer, "GRDZ", 4) == 0);
    size_t n_back = filter(H5Z_FLAG_REVERSE, n_values, values, n_frame, &buffer_bytes, &buffer);
    CHECK(n_back == n_bytes && buffer_bytes >= n_back);
    CHECK(memcmp(buffer, data, n_bytes) == 0);
    free(buffer);
    return n_frame;
}

static void any_values(void)
{
    uint32_t state = 34013;
    unsigned values[256];
    unsigned char data[1000];
    for (size_t n = 0; n <= 256; n++) {
        for (int style = 0; style < 4; style++) {
            const hsize_t extents[] = {5, 50};
            for (size_t i = 0; i < n; i++)
                values[i] = style == 0 ? random_word(&state) : random_word(&state) % 8;
            if (style == 2 && n > 0)
                values[0] = 0x475a0001u;
            if (style == 3 && n >= 10) {
                stored_values(values, 2, extents);
                /* Flip one bit of the description; for extents a low bit, or valgrind would have to
                 * fill gigabytes. */
                uint32_t at = random_word(&state) % 8;
                if (at < 6)
                    values[at] ^= 1u << random_word(&state) % 32;
                else
                    values[2 * at - 6] ^= 1u << random_word(&state) % 12;
            }
            for (size_t i = 0; i < sizeof data; i++)
                data[i] = (unsigned char)random_word(&state);
            there_and_back(n, values, data, 1 + random_word(&state) % sizeof data);
            there_and_back(n, values, data, sizeof data);
        }
    }
    /* cd_values that describe other chunks, as left by a tool that copies them without asking the
     * filter: the encoded data must be restored. */
    for (size_t n_bytes = 1; n_bytes <= sizeof data; n_bytes++) {
        const hsize_t extents[] = {n_bytes % 9 + 1, random_word(&state) % 40 + 1};
        there_and_back(stored_values(values, 2, extents), values, data, n_bytes);
    }
}

static void refused(unsigned flags, size_t n_values, const unsigned *values, const void *bytes, size_t n_bytes)
{
    void *buffer = malloc(n_bytes + 1), *before = buffer;
    size_t buffer_bytes = n_bytes;
    CHECK(buffer != NULL);
    memcpy(buffer, bytes, n_bytes);
    CHECK(filter(H5Z_FLAG_REVERSE | flags, n_values, values, n_bytes, &buffer_bytes, &buffer) == 0);
    CHECK(buffer == before && buffer_bytes == n_bytes && memcmp(buffer, bytes, n_bytes) == 0);
    free(buffer);
}

static void garbage(void)
{
    uint32_t state = 1;
    unsigned char bytes[700];
    unsigned values[12];
    const hsize_t extents[] = {40, 40};
    size_t n_values = stored_values(values, 2, extents);
    for (int i = 0; i < 2000; i++) {
        size_t n_bytes = random_word(&state) % sizeof bytes;
        for (size_t j = 0; j < n_bytes; j++)
            bytes[j] = (unsigned char)random_word(&state);
        if (i % 2 == 0 && n_bytes >= 5)
            memcpy(bytes, "GRDZ\1", 5);
        refused(i % 3 == 0 ? H5Z_FLAG_SKIP_EDC : 0, i % 5 == 0 ? 0 : n_values, values, bytes, n_bytes);
    }
}

static void damaged(void)
{
    unsigned values[12];
    const hsize_t extents[] = {4096};
    size_t n_values = stored_values(values, 1, extents), n_bytes = 4096 * sizeof(float);
    void *data = field(4096, 7), *frame = malloc(n_bytes);
    CHECK(frame != NULL);
    memcpy(frame, data, n_bytes);
    size_t frame_bytes = n_bytes, n_frame = filter(0, n_values, values, n_bytes, &frame_bytes, &frame);
    CHECK(n_frame > 0 && n_frame < n_bytes);
    unsigned char *bytes = frame;
    for (size_t i = 0; i < n_frame; i += 13) {
        bytes[i] ^= 4;
        refused(0, n_values, values, bytes, n_frame);
        bytes[i] ^= 4;
    }
    for (size_t n = 1; n < n_frame; n += 101)
        refused(H5Z_FLAG_SKIP_EDC, n_values, values, bytes, n);
    size_t n_other = 0;
    for (size_t i = 0; i < n_frame; i += 29) {
        bytes[i] ^= 4;
        void *chunk = malloc(n_frame), *before = chunk;
        size_t chunk_bytes = n_frame;
        CHECK(chunk != NULL);
        memcpy(chunk, bytes, n_frame);
        size_t n = filter(H5Z_FLAG_REVERSE | H5Z_FLAG_SKIP_EDC, n_values, values, n_frame, &chunk_bytes, &chunk);
        if (n == 0) {
            CHECK(chunk == before && chunk_bytes == n_frame && memcmp(chunk, bytes, n_frame) == 0);
        } else {
            CHECK(n == n_bytes && chunk_bytes >= n_bytes);
            n_other += memcmp(chunk, data, n_bytes) != 0;
        }
        free(chunk);
        bytes[i] ^= 4;
    }
    /* In huffman and cci nearly any wrong bit breaks the structure; in lorenzo at level max, two of
     * three bits. */
    CHECK(n_other > (is_of_integers() ? 0 : n_frame / 29 / 4));
    CHECK(filter(H5Z_FLAG_REVERSE, n_values, values, n_frame, &frame_bytes, &frame) == n_bytes);
    CHECK(memcmp(frame, data, n_bytes) == 0);
    free(frame);
    free(data);
}

static void *many(void *argument)
{
    const unsigned *seed = argument;
    unsigned values[12];
    for (unsigned round = 0; round < 12; round++) {
        const hsize_t extents[] = {8 + *seed + round, 64, round % 3 == 0 ? 1024 : 33};
        size_t n = (size_t)(extents[0] * extents[1] * extents[2]), n_values = stored_values(values, 3, extents);
        void *data = field(n, *seed * 1000 + round);
        there_and_back(n_values, values, data, n * sizeof(float));
        free(data);
    }
    return NULL;
}

static void at_once(void)
{
    pthread_t threads[8];
    unsigned seeds[8];
    for (unsigned i = 0; i < 8; i++) {
        seeds[i] = i;
        CHECK(pthread_create(&threads[i], NULL, many, &seeds[i]) == 0);
    }
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    codec_and_level = (unsigned)atoi(argv[3]) | (unsigned)atoi(argv[4]) << 16;
    void *plugin = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
    if (plugin == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin != NULL);
    /* C has no cast from an object pointer to a function pointer. */
    const void *(*info)(void);
    H5PL_type_t (*type)(void);
    void *symbol = dlsym(plugin, "H5PLget_plugin_info");
    memcpy(&info, &symbol, sizeof info);
    symbol = dlsym(plugin, "H5PLget_plugin_type");
    memcpy(&type, &symbol, sizeof type);
    CHECK(type() == H5PL_TYPE_FILTER);
    const H5Z_class2_t *gridz = info();
    CHECK(gridz->version == H5Z_CLASS_T_VERS && gridz->id == GRIDZ);
    CHECK(gridz->encoder_present && gridz->decoder_present);
    filter = gridz->filter;

    if (strcmp(argv[2], "values") == 0)
        any_values();
    else if (strcmp(argv[2], "garbage") == 0)
        garbage();
    else if (strcmp(argv[2], "damaged") == 0)
        damaged();
    else if (strcmp(argv[2], "at once") == 0)
        at_once();
    else
        CHECK(!"a part of the test");
    puts("done");
    return 0;
}
