// Frames whose payload is the array's bytes, unchanged: any bytes, any length. One CTA per tile of
// 64 KiB. The CTA that finishes the chunk's last tile writes or verifies the frame's header.

#include "../common/checksum.cuh"
#include "../common/frame.cuh"
#include "../common/region.cuh"
#include "../common/tile.cuh"

constexpr u32 kStoredTileBytes = 65536;
constexpr u32 kStoredThreads = 256;
// The host counts a chunk in these units, so that it does not depend on the tile size.
constexpr u32 kStoredBlockBytes = 4096;

// The host's description of a chunk.
struct Bytes {
    u64 n_bytes;  // of the array
};
static_assert(sizeof(Bytes) == 8, "crates/gridz-codecs/src/codec/stored/cuda.rs has the same struct");

// A tile of a stored frame. The scratch has a Totals for each chunk.
struct StoredTile {
    u64 n_bytes;
    u32 tiles, chunk;
    u64 first;  // first byte of the tile in the array

    __device__ __forceinline__ StoredTile(Bytes bytes, u32 n_chunks)
        : n_bytes(bytes.n_bytes), tiles(gridDim.x / n_chunks), chunk(blockIdx.x / tiles),
          first(static_cast<u64>(blockIdx.x % tiles) * kStoredTileBytes) {}

    // Copies the tile if `is_sound`. Returns true in the first warp of the CTA that finishes the
    // last tile of the chunk.
    template <Towards kTowards>
    __device__ __forceinline__ bool copy(const void* array, const void* payload, Totals& totals, bool is_sound) const {
        __shared__ CtaSums<kStoredThreads / kWarp> all;
        __shared__ bool is_last;
        Sums sums;
        if (is_sound && first < n_bytes) {
            const auto bytes = [](const void* p) { return static_cast<unsigned char*>(const_cast<void*>(p)); };
            copy_stored<StoredCopy<kStoredThreads, 8, kTowards, Pieces::kBytes>>(threadIdx.x, bytes(array), bytes(payload), first,
                                                                                 static_cast<u32>(min(n_bytes - first, static_cast<u64>(kStoredTileBytes))), sums);
        }
        all.share(sums);
        __syncthreads();
        if (threadIdx.x == 0) {
            totals.add(all.sum());
            is_last = totals.count(0, 1) + 1 == tiles;
        }
        __syncthreads();
        return is_last && threadIdx.x < kWarp;
    }
};

extern "C" __global__ void __launch_bounds__(kStoredThreads) stored_compress(const __grid_constant__ CompressArgs<Bytes> args) {
    const StoredTile tile(args.own, args.n_chunks);
    const char* const array = static_cast<const char*>(args.src) + tile.chunk * args.src_stride;
    char* const frame = static_cast<char*>(args.dst) + tile.chunk * args.dst_stride;
    Totals& totals = static_cast<Totals*>(args.scratch)[tile.chunk];
    if (!tile.copy<Towards::kPayload>(array, frame + args.stored.n_bytes, totals, true)) return;
    Totals::acquire();
    write_header(args.stored, frame, tile.n_bytes, totals.checksum(tile.n_bytes));
    if (threadIdx.x == 0) args.frame_bytes[tile.chunk] = args.stored.n_bytes + tile.n_bytes;
}

extern "C" __global__ void __launch_bounds__(kStoredThreads) stored_decompress(const __grid_constant__ DecompressArgs<Bytes> args) {
    const StoredTile tile(args.own, args.n_chunks);
    const char* const frame = static_cast<const char*>(args.src) + tile.chunk * args.src_stride;
    char* const array = static_cast<char*>(args.dst) + tile.chunk * args.dst_stride;
    Totals& totals = static_cast<Totals*>(args.scratch)[tile.chunk];
    const u64 n_bytes = args.frame_bytes[tile.chunk];
    const u64 need = args.stored.n_bytes + tile.n_bytes;
    if (!tile.copy<Towards::kArray>(array, frame + args.stored.n_bytes, totals, n_bytes == need)) return;
    Totals::acquire();
    Status status = n_bytes == need ? kOk : n_bytes < need ? kTruncated : kCorrupt;
    if (n_bytes >= args.stored.n_bytes) {
        const bool with_checksum = status == kOk && !(args.flags & kSkipChecksum);
        const u64 payload_bytes = n_bytes - args.stored.n_bytes;
        const Status of_header = check_header(args.stored, frame, payload_bytes, totals.checksum(payload_bytes), with_checksum);
        if (status == kOk || of_header == kCorrupt) status = of_header;
    }
    if (threadIdx.x == 0) args.statuses[tile.chunk] = status;
}

// Decompresses a region. The checksum is not verified, so only the copied bytes are read.
extern "C" __global__ void __launch_bounds__(kStoredThreads) stored_region(const __grid_constant__ RegionArgs<Bytes> args) {
    const DecompressTile<Bytes> tile(args);
    const u32 damage = tile.check_length(tile.frame_bytes, args.stored.n_bytes + args.own.n_bytes);
    // The header's fourth word holds the bytes of an element.
    if (damage == 0) copy_region<kStoredThreads>(args.region, args.stored.words[3], tile.frame + args.stored.n_bytes, tile.array, tile.tile, tile.tiles);
    if (threadIdx.x == 0) tile.report(damage);
    __syncthreads();
    tile.finish(tile.count(), false);
}

extern "C" __device__ const LaunchInfo stored_compress_info = {kStoredThreads, 0, 0, kStoredTileBytes / kStoredBlockBytes, 0, sizeof(Totals), 0};
extern "C" __device__ const LaunchInfo stored_decompress_info = {kStoredThreads, 0, 0, kStoredTileBytes / kStoredBlockBytes, 0, sizeof(Totals), 0};
extern "C" __device__ const LaunchInfo stored_region_info = {kStoredThreads, 0, 0, 1, 0, kDecompressScratch, 0};
