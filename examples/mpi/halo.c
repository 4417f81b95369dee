/*
 * Halo exchange between GPUs. Each rank compresses the faces of its slab on its GPU and sends them
 * by MPI; its neighbors decompress them into their ghost planes. The ranks form a ring along the
 * first axis of a field.
 *
 *     mpirun -n 4 halo [--planes W] [--gpu-aware] [FILE:TYPE:ZxYxX]...
 *
 * W planes (32) are sent each way. --gpu-aware passes GPU memory to MPI; otherwise messages go
 * through pinned host memory. FILE has raw numbers, TYPE is f32 or f64, Z the slowest axis; without
 * any FILE, the program generates a field.
 *
 * The table has, for each field and codec: the size of a face and its ratio; the speed at which
 * rank 0's GPU compresses and packs, and unpacks and decompresses; the speeds of whole exchanges of
 * both faces without and with compression; and the effective speed over links of 12.5, 25 and 50
 * GB/s, bold if it exceeds the link's. All are GB/s of the field that a rank sends. Exit status 77:
 * a rank has no GPU.
 *
 * Uses CUDA's runtime instead of the driver API, because the program then also starts without a
 * driver, and can report that.
 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <gridz_cuda.h>

enum { BLOCK_PLANES = 16, WARM_UPS = 3, ROUNDS = 15, NO_GPU = 77 };

/* One direction around the ring: data sent to one neighbor, and data received from the other. */
typedef struct {
    int to, from;
    char *face, *ghost;       /* planes of the slab */
    char *out, *in;           /* messages: n + 1 offsets of frames, n lengths, then the frames, packed */
    char *host_out, *host_in; /* pinned staging memory */
    size_t out_bytes, in_bytes;
    gridz_status *statuses; /* pinned too: the GPU writes them directly to host memory */
} Way;

typedef struct {
    gridz_array block; /* each face is n of these */
    size_t n, block_bytes, face_bytes;
    gridz_options options;
    size_t slot, index_bytes, capacity, workspace_bytes;
    char *slots, *workspace; /* shared by all work on the stream, which is sequential */
    size_t *lengths;
    Way ways[2];
} Halo;

static int rank, n_ranks, is_gpu_aware;
static cudaStream_t stream;

static void must(int is_good, const char *what, const char *why)
{
    if (!is_good) {
        fprintf(stderr, "halo, rank %d: %s: %s\n", rank, what, why);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void cuda(cudaError_t error, const char *call)
{
    must(error != cudaErrorMemoryAllocation, call, "no memory; try fewer --planes, or fewer ranks on a GPU");
    must(error == cudaSuccess, call, cudaGetErrorString(error));
}

/* MPI needs no such macro: by default, its errors end the program with a message. */
#define CUDA(call) cuda(call, #call)
#define GRIDZ(call) must((call) == GRIDZ_OK, #call, gridz_last_error())

static void copy(void *dst, const void *src, size_t n_bytes)
{
    CUDA(cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDefault, stream));
}

/* ---- asynchronous work of the GPU ---- */

/* The blocks of a face at `blocks`, with the memory that all work on the stream shares. */
static gridz_batch batch_of(Halo *halo, char *blocks)
{
    gridz_batch batch = {.struct_size = sizeof batch, .array = &halo->block, .n = halo->n, .options = &halo->options};
    batch.arrays = blocks;
    batch.array_stride = halo->block_bytes;
    batch.frames = halo->slots;
    batch.frame_stride = halo->slot;
    batch.workspace = halo->workspace;
    batch.workspace_bytes = halo->workspace_bytes;
    batch.stream = stream;
    return batch;
}

static void compress(Halo *halo)
{
    for (Way *way = halo->ways; way < halo->ways + 2; way++) {
        gridz_batch batch = batch_of(halo, way->face);
        batch.offsets = (size_t *)way->out;
        batch.frame_bytes = batch.offsets + halo->n + 1;
        batch.packed = way->out + halo->index_bytes;
        batch.packed_bytes = halo->capacity - halo->index_bytes;
        GRIDZ(gridz_compress_async(&batch));
        GRIDZ(gridz_pack_async(&batch));
    }
}

static void decompress(Halo *halo)
{
    for (Way *way = halo->ways; way < halo->ways + 2; way++) {
        gridz_batch batch = batch_of(halo, way->ghost);
        batch.offsets = (size_t *)way->in;
        batch.frame_bytes = batch.offsets + halo->n + 1;
        batch.packed = way->in + halo->index_bytes;
        batch.packed_bytes = way->in_bytes - halo->index_bytes;
        batch.statuses = way->statuses;
        GRIDZ(gridz_unpack_async(&batch, halo->lengths));
        batch.frame_bytes = halo->lengths; /* verified: 0 for a frame outside the message */
        GRIDZ(gridz_decompress_async(&batch));
    }
}

/* ---- from the field to the neighbors' ghost planes ---- */

/* Sends out_bytes bytes each way, of faces or of messages; sets in_bytes to the received bytes. */
static void pass(Halo *halo, int is_raw)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    for (int i = 0; i < 2; i++) {
        Way *way = &halo->ways[i];
        char *in = is_raw ? way->ghost : way->in;
        const size_t room = is_raw ? halo->face_bytes : halo->capacity;
        MPI_Irecv(is_gpu_aware ? in : way->host_in, (int)room, MPI_BYTE, way->from, i, MPI_COMM_WORLD,
                  &requests[i]);
        if (!is_gpu_aware)
            copy(way->host_out, is_raw ? way->face : way->out, way->out_bytes);
    }
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2; i++) {
        Way *way = &halo->ways[i];
        char *out = is_raw ? way->face : way->out;
        MPI_Isend(is_gpu_aware ? out : way->host_out, (int)way->out_bytes, MPI_BYTE, way->to, i, MPI_COMM_WORLD,
                  &requests[2 + i]);
    }
    MPI_Waitall(4, requests, statuses);
    for (int i = 0; i < 2; i++) {
        Way *way = &halo->ways[i];
        int n_bytes;
        MPI_Get_count(&statuses[i], MPI_BYTE, &n_bytes);
        way->in_bytes = (size_t)n_bytes;
        if (!is_gpu_aware)
            copy(is_raw ? way->ghost : way->in, way->host_in, way->in_bytes);
    }
}

static void exchange_raw(Halo *halo)
{
    for (Way *way = halo->ways; way < halo->ways + 2; way++)
        way->out_bytes = halo->face_bytes;
    pass(halo, 1);
    CUDA(cudaStreamSynchronize(stream));
}

static void exchange_compressed(Halo *halo)
{
    compress(halo);
    /* The last offset in each message is its length. */
    for (Way *way = halo->ways; way < halo->ways + 2; way++)
        copy(way->host_out, (size_t *)way->out + halo->n, sizeof(size_t));
    CUDA(cudaStreamSynchronize(stream));
    for (Way *way = halo->ways; way < halo->ways + 2; way++)
        way->out_bytes = halo->index_bytes + *(size_t *)way->host_out;
    pass(halo, 0);
    for (Way *way = halo->ways; way < halo->ways + 2; way++)
        must(way->in_bytes >= halo->index_bytes, "a message", "too short; pass the same --planes to every rank");
    decompress(halo);
    CUDA(cudaStreamSynchronize(stream));
    for (size_t k = 0; k < 2 * halo->n; k++) {
        const gridz_status status = halo->ways[k % 2].statuses[k / 2];
        must(status == GRIDZ_OK, "a received frame", gridz_status_name(status));
    }
}

/* ---- measuring ---- */

typedef void (*Work)(Halo *halo);

static double gpu_seconds(Halo *halo, Work work)
{
    cudaEvent_t begin, end;
    float milliseconds;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaEventRecord(begin, stream));
    work(halo);
    CUDA(cudaEventRecord(end, stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    return 1e-3 * milliseconds;
}

/* Time until the last rank has finished. */
static double ring_seconds(Halo *halo, Work work)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime();
    work(halo);
    seconds = MPI_Wtime() - seconds;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* GB/s of both faces, median of the rounds. */
static double speed(Halo *halo, double (*seconds)(Halo *, Work), Work work)
{
    double times[WARM_UPS + ROUNDS];
    for (int i = 0; i < WARM_UPS + ROUNDS; i++)
        times[i] = seconds(halo, work);
    qsort(times + WARM_UPS, ROUNDS, sizeof *times, compare);
    return 2e-9 * (double)halo->face_bytes / times[WARM_UPS + ROUNDS / 2];
}

/* Copies the received ghost planes to `ghosts`, and overwrites them. */
static void take(Halo *halo, char *ghosts)
{
    for (int i = 0; i < 2; i++) {
        CUDA(cudaMemcpy(ghosts + i * halo->face_bytes, halo->ways[i].ghost, halo->face_bytes, cudaMemcpyDefault));
        CUDA(cudaMemset(halo->ways[i].ghost, 0xA5, halo->face_bytes));
    }
    CUDA(cudaDeviceSynchronize());
}

/* ---- one line of the table ---- */

static void measure(const char *name, const char *codec, Halo *halo, char *slab, size_t slab_bytes)
{
    halo->options = (gridz_options){.struct_size = sizeof halo->options, .request = codec};
    GRIDZ(gridz_compress_bound(&halo->block, &halo->options, &halo->slot));
    GRIDZ(gridz_packed_bound(&halo->block, halo->n, &halo->capacity));
    const gridz_batch batch = batch_of(halo, NULL);
    GRIDZ(gridz_async_workspace_bytes(&batch, &halo->workspace_bytes));
    halo->index_bytes = 2 * (halo->n + 1) * sizeof(size_t); /* a multiple of 16 */
    halo->capacity += halo->index_bytes;
    must(halo->capacity <= INT_MAX, name, "a face is too large for a message of MPI; try fewer --planes");
    CUDA(cudaMalloc((void **)&halo->slots, halo->n * halo->slot));
    CUDA(cudaMalloc((void **)&halo->workspace, halo->workspace_bytes));
    CUDA(cudaMalloc((void **)&halo->lengths, halo->n * sizeof(size_t)));
    for (int i = 0; i < 2; i++) {
        Way *way = &halo->ways[i];
        const int down = (rank + n_ranks - 1) % n_ranks, up = (rank + 1) % n_ranks;
        way->to = i == 0 ? down : up;
        way->from = i == 0 ? up : down;
        /* Ghost planes are the first and the last planes of the slab, and faces those next to them.
         * */
        way->face = slab + (i == 0 ? halo->face_bytes : slab_bytes - 2 * halo->face_bytes);
        way->ghost = slab + (i == 0 ? slab_bytes - halo->face_bytes : 0);
        CUDA(cudaMalloc((void **)&way->out, halo->capacity));
        CUDA(cudaMalloc((void **)&way->in, halo->capacity));
        CUDA(cudaMallocHost((void **)&way->host_out, halo->capacity));
        CUDA(cudaMallocHost((void **)&way->host_in, halo->capacity));
        CUDA(cudaMallocHost((void **)&way->statuses, halo->n * sizeof(gridz_status)));
    }

    char *raw = malloc(2 * halo->face_bytes), *back = malloc(2 * halo->face_bytes);
    must(raw != NULL && back != NULL, "malloc", "no memory; try fewer --planes");
    exchange_raw(halo);
    take(halo, raw);
    exchange_compressed(halo);
    take(halo, back);
    must(memcmp(raw, back, 2 * halo->face_bytes) == 0, name, "ghost planes that were sent compressed differ from those sent uncompressed");
    free(raw);
    free(back);

    /* Ranks may share a GPU, so only rank 0's GPU is measured, while it works for rank 0 alone. */
    const double compression = rank == 0 ? speed(halo, gpu_seconds, compress) : 0;
    const double decompression = rank == 0 ? speed(halo, gpu_seconds, decompress) : 0;
    double sent = (double)(halo->ways[0].out_bytes + halo->ways[1].out_bytes);
    MPI_Allreduce(MPI_IN_PLACE, &sent, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const double ratio = 2.0 * (double)halo->face_bytes * n_ranks / sent;
    const double exchange = speed(halo, ring_seconds, exchange_raw);
    const double compressed = speed(halo, ring_seconds, exchange_compressed);
    if (rank == 0) {
        printf("| %s | %s | %.1f | %.2f | %.1f | %.1f | %.1f | %.1f |", name, codec, (double)halo->face_bytes / 1048576,
               ratio, compression, decompression, exchange, compressed);
        for (double link = 12.5; link <= 50; link *= 2) {
            /* Messages are pipelined: the slowest of the three stages determines the speed. */
            const double carried = fmin(fmin(compression, decompression), link * ratio);
            printf(carried > link ? " **%.1f** |" : " %.1f |", carried);
        }
        printf("\n");
        fflush(stdout);
    }

    for (Way *way = halo->ways; way < halo->ways + 2; way++) {
        CUDA(cudaFree(way->out));
        CUDA(cudaFree(way->in));
        CUDA(cudaFreeHost(way->host_out));
        CUDA(cudaFreeHost(way->host_in));
        CUDA(cudaFreeHost(way->statuses));
    }
    CUDA(cudaFree(halo->slots));
    CUDA(cudaFree(halo->workspace));
    CUDA(cudaFree(halo->lengths));
}

/* ---- fields ---- */

/* Waves, with noise in the low bits as in simulations. */
static void make_planes(float *values, uint64_t first, uint64_t n_planes, const uint64_t extents[3])
{
    uint32_t noise = (uint32_t)first + 1;
    for (uint64_t z = first; z < first + n_planes; z++)
        for (uint64_t y = 0; y < extents[1]; y++)
            for (uint64_t x = 0; x < extents[2]; x++) {
                noise = noise * 1664525 + 1013904223;
                *values++ = sinf(0.05f * x) * cosf(0.04f * y) + 0.1f * sinf(0.03f * z) + 1e-4f * (noise >> 20) / 4096;
            }
}

static void read_planes(const char *name, void *values, uint64_t offset, size_t n_bytes)
{
    FILE *file = fopen(name, "rb");
    must(file != NULL && fseek(file, (long)offset, SEEK_SET) == 0, name, "cannot be opened; is it on every node?");
    must(fread(values, 1, n_bytes, file) == n_bytes, name, "is shorter than its type and extents require");
    fclose(file);
}

/* The table lines of a field FILE:TYPE:ZxYxX, or of a generated field. */
static void measure_field(char *request, uint64_t n_ghosts)
{
    uint64_t extents[3] = {256, 256, 256};
    unsigned bits = 32;
    const char *name = "waves, noise";
    if (request != NULL) {
        char *colon = strrchr(request, ':');
        while (colon != NULL && colon > request && *--colon != ':')
            ;
        must(colon != NULL && sscanf(colon, ":f%u:%" SCNu64 "x%" SCNu64 "x%" SCNu64, &bits, &extents[0], &extents[1],
                                     &extents[2]) == 4 && (bits == 32 || bits == 64),
             request, "is not a field; give FILE:f32:ZxYxX or FILE:f64:ZxYxX");
        *colon = 0;
        name = strrchr(request, '/') != NULL ? strrchr(request, '/') + 1 : request;
    }

    const uint64_t first = extents[0] * rank / n_ranks, n_planes = extents[0] * (rank + 1) / n_ranks - first;
    const size_t plane_bytes = extents[1] * extents[2] * (bits / 8), own_bytes = n_planes * plane_bytes;
    must(n_planes >= n_ghosts && own_bytes > 0, name, "a rank has too few planes; try fewer ranks or --planes");
    char *values = malloc(own_bytes);
    must(values != NULL, "malloc", "no memory for the planes of a rank; try more nodes");
    if (request != NULL)
        read_planes(request, values, first * plane_bytes, own_bytes);
    else
        make_planes((float *)values, first, n_planes, extents);

    /* A face is split into blocks along its first axis, so that each block is contiguous. */
    extents[0] = n_ghosts % BLOCK_PLANES == 0 ? BLOCK_PLANES : n_ghosts;
    Halo halo = {.n = n_ghosts / extents[0], .face_bytes = n_ghosts * plane_bytes};
    halo.block_bytes = extents[0] * plane_bytes;
    halo.block = (gridz_array){.struct_size = sizeof halo.block, .rank = 3, .extents = extents};
    halo.block.dtype = bits == 32 ? GRIDZ_DTYPE_F32 : GRIDZ_DTYPE_F64;
    char *slab;
    const size_t slab_bytes = own_bytes + 2 * halo.face_bytes;
    CUDA(cudaMalloc((void **)&slab, slab_bytes));
    CUDA(cudaMemcpy(slab + halo.face_bytes, values, own_bytes, cudaMemcpyDefault));
    free(values);
    measure(name, "ndzip", &halo, slab, slab_bytes);
    measure(name, "lorenzo", &halo, slab, slab_bytes);
    CUDA(cudaFree(slab));
}

/* ---- ranks and GPUs ---- */

/* Assigns a node's GPUs to its ranks round robin. Returns 0 if a rank has none. */
static int choose_gpu(void)
{
    int n_gpus = 0, local_rank, has_gpu;
    MPI_Comm node;
    const cudaError_t error = cudaGetDeviceCount(&n_gpus);
    has_gpu = error == cudaSuccess && n_gpus > 0;
    if (!has_gpu)
        fprintf(stderr, "halo, rank %d: no GPU: %s; an NVIDIA GPU and its driver are needed on every node\n", rank,
                error == cudaSuccess ? "CUDA finds none" : cudaGetErrorString(error));
    MPI_Allreduce(MPI_IN_PLACE, &has_gpu, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    if (has_gpu)
        CUDA(cudaSetDevice(local_rank % n_gpus));
    return has_gpu;
}

/* Not every MPI supports the query. */
static int refuses_gpu_memory(void)
{
#if defined(OPEN_MPI) || (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000)
    return !MPIX_Query_cuda_support();
#else
    return 0;
#endif
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    long n_ghosts = 32;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--gpu-aware") == 0)
            is_gpu_aware = 1;
        else if (strcmp(argv[i], "--planes") == 0 && i + 1 < argc)
            n_ghosts = strtol(argv[++i], NULL, 10);
        else
            must(0, argv[i], "unknown; usage: halo [--planes W] [--gpu-aware] [FILE:TYPE:ZxYxX]...");
    }
    must(n_ghosts > 0, "--planes", "a number above 0 must follow");
    if (!choose_gpu()) {
        MPI_Finalize();
        return NO_GPU;
    }
    must(!is_gpu_aware || !refuses_gpu_memory(), "--gpu-aware", "this MPI was built without CUDA; remove this option");
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    if (rank == 0)
        printf("%d rank%s, %ld planes each way, messages in memory of the %s:\n\n"
               "| field | codec | face, MiB | ratio | compress | decompress | exchange | with compression | 12.5 GB/s "
               "| 25 GB/s | 50 GB/s |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
               n_ranks, n_ranks == 1 ? "" : "s", n_ghosts, is_gpu_aware ? "GPU" : "host");
    if (i == argc)
        measure_field(NULL, (uint64_t)n_ghosts);
    for (; i < argc; i++)
        measure_field(argv[i], (uint64_t)n_ghosts);
    CUDA(cudaStreamDestroy(stream));
    MPI_Finalize();
    return 0;
}
