/*
 * A libcuda.so.1 without a GPU, which fails where its environment says. It proves that gridz takes
 * the right branch after each failure, not that a real device would recover.
 *
 *   MOCK_CUDA_DEVICES=n        GPUs (1)              MOCK_CUDA_VERSION=n       driver's version (13000)
 *   MOCK_CUDA_CAPABILITY=n     90 for 9.0            MOCK_CUDA_NO_POOLS=1      no memory pools
 *   MOCK_CUDA_FAIL=f:code[:n]  the function f returns code from its n-th call on (n = 1); several
 *                              with commas
 *   MOCK_CUDA_KERNELS=folder   libraries with CPU versions of kernels (tests/emulator), which are run
 *   MOCK_CUDA_FILL=byte        initial value of device memory (0)
 *
 * Device memory is host memory, copies are copies, streams are synchronous. Kernels do nothing
 * unless there is a CPU version. Objects are counted; mock_cuda_count("name") returns the count of:
 * contexts (retained), pushed, streams, events, pools, device_buffers, pinned_buffers, launches,
 * modules, init.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

/* ---- counting ---- */

static struct counter {
    const char *name;
    _Atomic int value;
} counters[128];

static _Atomic int *count_of(const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int i = 0;
    pthread_mutex_lock(&lock);
    while (counters[i].name != NULL && strcmp(counters[i].name, name) != 0) i++;
    if (counters[i].name == NULL) counters[i].name = strdup(name);
    pthread_mutex_unlock(&lock);
    return &counters[i].value;
}

int mock_cuda_count(const char *name) { return *count_of(name); }

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : otherwise;
}

/* The result that MOCK_CUDA_FAIL requests for this call of `function`. */
static CUresult called(const char *function) {
    int calls = ++*count_of(function);
    const char *entry = getenv("MOCK_CUDA_FAIL");
    size_t length = strlen(function);
    while (entry != NULL && *entry != 0) {
        if (strncmp(entry, function, length) == 0 && entry[length] == ':') {
            char *end;
            int code = (int)strtol(entry + length + 1, &end, 10);
            int from = *end == ':' ? atoi(end + 1) : 1;
            if (calls >= from) return code;
        }
        entry = strchr(entry, ',');
        if (entry != NULL) entry++;
    }
    return 0;
}

#define CALLED()                             \
    do {                                     \
        CUresult code = called(__func__);    \
        if (code != 0) return code;          \
    } while (0)

/* ---- errors and devices ---- */

CUresult cuGetErrorName(CUresult code, const char **text) {
    static char texts[8][32];
    static int next;
    char *name = texts[next++ % 8];
    snprintf(name, 32, "MOCK_ERROR_%d", code);
    *text = name;
    return 0;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
    (void)code;
    *text = "as set by the test";
    return 0;
}

CUresult cuDriverGetVersion(int *version) {
    CALLED();
    *version = number("MOCK_CUDA_VERSION", 13000);
    return 0;
}

static _Atomic int is_started;

CUresult cuInit(unsigned flags) {
    (void)flags;
    CALLED();
    ++*count_of("init");
    is_started = 1;
    return 0;
}

CUresult cuDeviceGetCount(int *count) {
    CALLED();
    *count = number("MOCK_CUDA_DEVICES", 1);
    return 0;
}

CUresult cuDeviceGet(int *device, int ordinal) {
    CALLED();
    *device = ordinal;
    return 0;
}

CUresult cuDeviceGetName(char *name, int length, int device) {
    CALLED();
    snprintf(name, (size_t)length, "Mock %d", device);
    return 0;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    CALLED();
    int capability = number("MOCK_CUDA_CAPABILITY", 90);
    switch (attribute) {
    case 16: *value = getenv("MOCK_CUDA_KERNELS") != NULL ? 2 : 132; return 0;
    case 75: *value = capability / 10; return 0;
    case 76: *value = capability % 10; return 0;
    case 115: *value = !number("MOCK_CUDA_NO_POOLS", 0); return 0;
    default: return 1;
    }
}

/* ---- contexts ---- */

struct context {
    int device;
    unsigned long long id;
};
static struct context primary[8];
static struct context second = {0, 500}; /* another one on GPU 0 */
static _Thread_local struct context *stack[64];
static _Thread_local int depth;
static unsigned long long resets[8];

static struct context *context_of(int device) {
    primary[device].device = device;
    primary[device].id = 100 + (unsigned long long)device + 1000 * resets[device];
    return &primary[device];
}

/* Like cudaDeviceReset: from now on, the primary context is a different one at the same address. */
void mock_cuda_reset(int device) {
    ++resets[device];
    context_of(device);
}

CUresult cuDevicePrimaryCtxRetain(struct context **context, int device) {
    CALLED();
    ++*count_of("contexts");
    *context = context_of(device);
    return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    --*count_of("contexts");
    return 0;
}

CUresult cuCtxGetCurrent(struct context **context) {
    if (!is_started) return 3;
    *context = depth != 0 ? stack[depth - 1] : NULL;
    return 0;
}

CUresult cuCtxGetDevice(int *device) {
    CALLED();
    if (depth == 0) return 201;
    *device = stack[depth - 1]->device;
    return 0;
}

CUresult cuCtxGetId(struct context *context, unsigned long long *id) {
    CALLED();
    *id = context->id;
    return 0;
}

CUresult cuCtxPushCurrent_v2(struct context *context) {
    CALLED();
    stack[depth++] = context;
    ++*count_of("pushed");
    return 0;
}

CUresult cuCtxPopCurrent_v2(struct context **context) {
    *context = stack[--depth];
    --*count_of("pushed");
    return 0;
}

CUresult cuCtxSetCurrent(struct context *context) {
    CALLED();
    if (depth == 0) depth = 1;
    stack[depth - 1] = context;
    return 0;
}

CUresult cuCtxSynchronize(void) {
    CALLED();
    return depth != 0 ? 0 : 201;
}

/* ---- modules and kernels: names like those of the self-test or of a codec exist ---- */

static int is_known(const char *name) {
    static const char *const parts[] = {"_compress", "_decompress", "_region", "_range",  "_finish",
                                        "_store",    "_predict",    "_encode", "_place", "_choose", "_write",
                                        "_load",     "_find"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]) != NULL) return 1;
    return strncmp(name, "selftest", 8) == 0 || strncmp(name, "packing_", 8) == 0 || strncmp(name, "multigrid_", 10) == 0 ||
           strncmp(name, "sparse_", 7) == 0 || strncmp(name, "boxes_", 6) == 0;
}

CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
    (void)image;
    CUresult code = called(__func__);
    if (code != 0) {
        for (unsigned i = 0; i < n; i++) /* CU_JIT_ERROR_LOG_BUFFER */
            if (options[i] == 5) strcpy(values[i], "what the compiler says");
        return code;
    }
    ++*count_of("modules");
    *module = (void *)count_of("modules");
    return 0;
}

/* ---- kernels for the CPU ---- */

typedef void launch_function(void *kernel, unsigned n_ctas, unsigned n_threads, unsigned n_shared, const void *arguments);

static struct library {
    void *handle;
    launch_function *launch;
} libraries[32];
static size_t n_libraries;

static void open_libraries(void) {
    const char *folder = getenv("MOCK_CUDA_KERNELS");
    DIR *files = folder != NULL ? opendir(folder) : NULL;
    if (folder != NULL && files == NULL) perror(folder), abort();
    for (struct dirent *file; files != NULL && (file = readdir(files)) != NULL;) {
        char path[4096];
        if (strstr(file->d_name, ".so") == NULL || n_libraries == sizeof libraries / sizeof *libraries) continue;
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) fprintf(stderr, "%s\n", dlerror()), abort();
        launch_function *launch = (launch_function *)dlsym(handle, "emulator_launch");
        if (launch == NULL) fprintf(stderr, "%s has no kernels for the CPU; build it with tests/emulator/build.sh\n", path), abort();
        libraries[n_libraries++] = (struct library){handle, launch};
    }
    if (files != NULL) closedir(files);
}

static void open_libraries_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_libraries);
}

/* Looks up a name in the libraries; also returns the library. NULL if none has it. */
static void *find(const char *name, struct library **library) {
    open_libraries_once();
    for (size_t i = 0; i < n_libraries; i++) {
        void *found = dlsym(libraries[i].handle, name);
        if (found != NULL) {
            *library = &libraries[i];
            return found;
        }
    }
    return NULL;
}

/*
 * While CPU kernels run, parts of `memory` change to n_variants variants of it, stored one after
 * another; n_bytes 0 ends that. Returns the number of changes since the previous call.
 */
unsigned long long mock_cuda_change(void *memory, const void *variants, size_t n_bytes, unsigned n_variants, unsigned long long seed) {
    typedef unsigned long long change_function(void *, const void *, size_t, unsigned, unsigned long long);
    unsigned long long n_changes = 0;
    open_libraries_once();
    for (size_t i = 0; i < n_libraries; i++) {
        change_function *change = (change_function *)dlsym(libraries[i].handle, "emulator_change");
        if (change != NULL) n_changes += change(memory, variants, n_bytes, n_variants, seed);
    }
    return n_changes;
}

CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    CALLED();
    *function = strdup(name);
    return is_known(name) ? 0 : 500;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *n_bytes, void *module, const char *name) {
    static const uint32_t info[2] = {128, 0};
    /* LaunchInfo: 128 threads, persistent, 4 blocks a tile; scratch of 64 + chunks * (16 + tiles * 8) bytes. */
    static const uint32_t launch[12] = {128, 0, 1, 4, 64, 0, 16, 0, 8, 0, 0, 0};
    /* Kernels that read regions: one CTA a tile, scratch of 16 bytes a chunk. */
    static const uint32_t region[12] = {128, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0};
    (void)module;
    CALLED();
    const char *end = strstr(name, "_info");
    int is_selftest = strcmp(name, "selftest_info") == 0;
    struct library *library;
    const void *found = find(name, &library);
    Dl_info where;
    ElfW(Sym) *symbol;
    if (found != NULL && dladdr1(found, &where, (void **)&symbol, RTLD_DL_SYMENT) != 0) {
        *address = (CUdeviceptr)(uintptr_t)found;
        *n_bytes = symbol->st_size;
        return 0;
    }
    *address = (CUdeviceptr)(uintptr_t)(is_selftest ? info : strstr(name, "_region") != NULL ? region : launch);
    *n_bytes = is_selftest ? sizeof info : sizeof launch;
    return is_known(name) && end != NULL && end[5] == 0 ? 0 : 500;
}

CUresult cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *n_bytes) {
    const char *name = function;
    CALLED();
    *offset = 0;
    /* Size of the codecs' own parameters in bytes: stored 8, huffman and cci 16, quant 224, zfp 152,
     * multigrid 216, all others 32; to choose folds 48, and 272 for quant. */
    size_t own = strncmp(name, "lorenzo_choose_", 15) == 0 ? 48
                 : strncmp(name, "quant_choose_", 13) == 0 ? 272
                 : strncmp(name, "stored_", 7) == 0  ? 8
                 : strncmp(name, "huffman_", 8) == 0 ? 16
                 : strncmp(name, "cci_", 4) == 0     ? 16
                 : strncmp(name, "multigrid_", 10) == 0   ? 216
                 : strncmp(name, "quant_", 6) == 0     ? 224
                 : strncmp(name, "zfp_", 4) == 0     ? 152
                                                     : 32;
    int is_region = strstr(name, "_region") != NULL;
    *n_bytes = strncmp(name, "packing_take_", 13) == 0 ? 56
               : strncmp(name, "packing_", 8) == 0 ? 64
               : strncmp(name, "sparse_", 7) == 0 ? 104
               : strncmp(name, "boxes_", 6) == 0 ? 824
               : is_region || strstr(name, "_decompress") != NULL ? 2232 + own + (is_region ? 1200 : 0)
               : is_known(name) && strncmp(name, "selftest", 8) != 0 ? 2224 + own
                                                                     : 48;
    return index == 0 ? 0 : 1;
}

CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    CALLED();
    *value = 1024;
    return attribute == 0 ? 0 : 1;
}

CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function;
    CALLED();
    return attribute == 8 && value <= 227 << 10 ? 0 : 1;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    (void)function, (void)shared;
    CALLED();
    *blocks = 2048 / threads;
    return 0;
}

CUresult cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned thready,
                        unsigned threadz, unsigned shared, void *stream, void **params, void **extra) {
    (void)stream;
    CALLED();
    if (function == NULL || x == 0 || y != 1 || z != 1 || threads == 0 || thready != 1 || threadz != 1 ||
        shared > 227 << 10 || params[0] == NULL || extra != NULL)
        return 1;
    ++*count_of("launches");
    struct library *library;
    void *kernel = find(function, &library);
    if (kernel != NULL) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&lock);
        library->launch(kernel, x, threads, shared, params[0]);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

/* ---- memory ---- */

CUresult cuMemPoolCreate(void **pool, const int *properties) {
    CALLED();
    if (properties[0] != 1 || properties[2] != 1) return 1; /* pinned, on a device */
    ++*count_of("pools");
    *pool = (void *)count_of("pools");
    return 0;
}

CUresult cuMemPoolDestroy(void *pool) {
    (void)pool;
    --*count_of("pools");
    return 0;
}

CUresult cuMemPoolTrimTo(void *pool, size_t n_bytes) {
    (void)pool;
    CALLED();
    return n_bytes == 0 ? 0 : 1;
}

CUresult cuMemPoolSetAttribute(void *pool, int attribute, uint64_t *value) {
    (void)pool;
    CALLED();
    *count_of("threshold_mib") = (int)(*value >> 20);
    return attribute == 4 ? 0 : 1;
}

/* The allocations, for address look-ups. */
static struct buffer {
    CUdeviceptr start;
    size_t n_bytes;
    int is_host;
} buffers[4096];
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry that contains the address, or for 0 the first free one. */
static struct buffer *buffer_of(CUdeviceptr address) {
    for (size_t i = 0; i < 4096; i++) {
        struct buffer *buffer = &buffers[i];
        if (address == 0 ? buffer->start == 0
                         : buffer->start != 0 && address >= buffer->start && address - buffer->start < buffer->n_bytes)
            return buffer;
    }
    return NULL;
}

/* Allocates exactly the requested bytes, so that a sanitizer detects accesses past the end. */
static CUresult allocate(CUdeviceptr *address, size_t n_bytes) {
    void *memory = NULL;
    if (n_bytes == 0) return 1;
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = buffer_of(0);
    int is_there = buffer != NULL && posix_memalign(&memory, 256, n_bytes) == 0;
    if (is_there) *buffer = (struct buffer){(CUdeviceptr)(uintptr_t)memory, n_bytes, 0};
    pthread_mutex_unlock(&buffers_lock);
    if (!is_there) return 2;
    memset(memory, number("MOCK_CUDA_FILL", 0), n_bytes);
    *address = (CUdeviceptr)(uintptr_t)memory;
    ++*count_of("device_buffers");
    return 0;
}

static void release(CUdeviceptr address) {
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = buffer_of(address);
    if (buffer != NULL) buffer->start = 0;
    pthread_mutex_unlock(&buffers_lock);
    free((void *)(uintptr_t)address);
    --*count_of("device_buffers");
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t n_bytes) {
    CALLED();
    return allocate(address, n_bytes);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    release(address);
    return called(__func__);
}

CUresult cuMemGetInfo_v2(size_t *n_free, size_t *n_total) {
    CALLED();
    *n_free = *n_total = (size_t)1 << 30;
    return 0;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t n_bytes, void *pool, void *stream) {
    (void)pool, (void)stream;
    CALLED();
    return allocate(address, n_bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr address, void *stream) {
    (void)stream;
    release(address);
    return called(__func__);
}

CUresult cuMemHostAlloc(void **memory, size_t n_bytes, unsigned flags) {
    (void)flags;
    CALLED();
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = buffer_of(0);
    *memory = buffer != NULL ? malloc(n_bytes) : NULL;
    if (*memory != NULL) *buffer = (struct buffer){(CUdeviceptr)(uintptr_t)*memory, n_bytes, 1};
    pthread_mutex_unlock(&buffers_lock);
    if (*memory == NULL) return 2;
    ++*count_of("pinned_buffers");
    return 0;
}

CUresult cuMemFreeHost(void *memory) {
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = buffer_of((CUdeviceptr)(uintptr_t)memory);
    if (buffer != NULL) buffer->start = 0;
    pthread_mutex_unlock(&buffers_lock);
    free(memory);
    --*count_of("pinned_buffers");
    return 0;
}

static CUresult copy(void *dst, const void *src, size_t n_bytes) {
    memcpy(dst, src, n_bytes);
    return 0;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n_bytes, void *stream) {
    (void)stream;
    CALLED();
    return copy((void *)(uintptr_t)dst, src, n_bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n_bytes, void *stream) {
    (void)stream;
    CALLED();
    return copy(dst, (void *)(uintptr_t)src, n_bytes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, void *stream) {
    (void)stream;
    CALLED();
    return copy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n_bytes);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n_bytes) {
    CALLED();
    return copy(dst, (void *)(uintptr_t)src, n_bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n_bytes, void *stream) {
    (void)stream;
    CALLED();
    memset((void *)(uintptr_t)dst, value, n_bytes);
    return 0;
}

/*
 * Memory of the pool, and pinned memory, belong to GPU 0 and no context. So do the addresses below
 * 1024; the odd ones are managed memory. Addresses from 1024 to 2047 belong to GPU 0 and its second
 * context, those from 2048 to 4095 to GPU 1 and its primary context.
 */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
    pthread_mutex_lock(&buffers_lock);
    struct buffer *buffer = pointer >= 4096 ? buffer_of(pointer) : NULL;
    int is_pool = buffer != NULL, is_host = is_pool && buffer->is_host;
    CUdeviceptr start = is_pool ? buffer->start : 0;
    pthread_mutex_unlock(&buffers_lock);
    if (pointer >= 4096 && !is_pool) return 1;
    int device = !is_pool && pointer >= 2048;
    struct context *context = is_pool || pointer < 1024 ? NULL : pointer < 2048 ? &second : context_of(1);
    switch (attribute) {
    case 1: *(struct context **)value = context; return 0;
    case 2: *(unsigned *)value = is_host ? 1 : 2; return 0;
    case 3:
        *(CUdeviceptr *)value = pointer;
        return depth != 0 && stack[depth - 1]->device == device ? 0 : 1;
    case 8: *(unsigned char *)value = !is_pool && pointer % 2 == 1; return 0;
    case 9: *(int *)value = device; return 0;
    case 11: *(CUdeviceptr *)value = is_pool ? start : pointer; return 0;
    default: return 1;
    }
}

/* ---- streams and events ---- */

CUresult cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    CALLED();
    ++*count_of("streams");
    struct context **owner = malloc(sizeof *owner);
    *owner = depth != 0 ? stack[depth - 1] : NULL;
    *stream = owner;
    return 0;
}

CUresult cuStreamDestroy_v2(void *stream) {
    CALLED();
    free(stream);
    --*count_of("streams");
    return 0;
}

CUresult cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)stream, (void)event, (void)flags;
    CALLED();
    return 0;
}

CUresult cuStreamGetCtx(void *stream, struct context **context) {
    CALLED();
    *context = *(struct context **)stream;
    return 0;
}

CUresult cuStreamSynchronize(void *stream) {
    (void)stream;
    CALLED();
    return 0;
}

CUresult cuEventCreate(void **event, unsigned flags) {
    CALLED();
    ++*count_of("events");
    unsigned *made = malloc(sizeof *made);
    *made = flags;
    *event = made;
    return 0;
}

/* Fails for events without timing (CU_EVENT_DISABLE_TIMING). */
CUresult cuEventElapsedTime_v2(float *milliseconds, const unsigned *begin, const unsigned *end) {
    CALLED();
    *milliseconds = 1.5f;
    return *begin == 0 && *end == 0 ? 0 : 400;
}

CUresult cuEventDestroy_v2(void *event) {
    free(event);
    --*count_of("events");
    return 0;
}

CUresult cuEventRecord(void *event, void *stream) {
    (void)event, (void)stream;
    CALLED();
    return 0;
}

CUresult cuEventQuery(void *event) {
    (void)event;
    CALLED();
    return 0;
}

CUresult cuEventSynchronize(void *event) {
    (void)event;
    CALLED();
    return 0;
}

