// Decodes exact elements and writes them to the array: a CTA per piece of the array. The
// counterpart of exact.rs, which describes the format.

#pragma once

#include "../stage/bitmap.cuh"
#include "decompress.cuh"

constexpr u32 kExactThreads = 256;

struct ExactShared {
    Bitmap<kPiece, kExactThreads> bitmap;
    u64 sums[kExactThreads / kWarp];
};

template <typename W, bool kPart>
struct ExactReader {
    using Bitmap = ::Bitmap<kPiece, kExactThreads>;

    const DecompressArgs<Chunk>& args;
    ExactShared& shared;
    const u32 chunk, piece;
    const Plan& plan;

    __device__ __forceinline__ ExactReader(const DecompressArgs<Chunk>& args, ExactShared& shared)
        : args(args), shared(shared), chunk(blockIdx.x / args.own.n_pieces), piece(blockIdx.x % args.own.n_pieces), plan(work_of<W>(args, chunk).plan()) {}

    __device__ __forceinline__ void run() const {
        if (plan.is_stored) return;
        const s32 status = args.statuses[chunk];
        // CTAs of other pieces may change the status meanwhile, but never to kOk.
        if (!__syncthreads_and(status == kOk)) return;
#pragma unroll 1
        for (u32 number = 0; number < args.own.n_layers; ++number) {
            const Layer& layer = plan.layers[number];
            if (layer.n_exact == 0) continue;
            const Status own = is_checked(layer, number) ? read(layer) : kCorrupt;
            if (own != kOk && threadIdx.x == 0) report(own);
            __syncthreads();
        }
    }
    // True if the exact elements of a layer match their check, or if there is none or it is
    // skipped.
    __device__ __forceinline__ bool is_checked(const Layer& layer, u32 number) const {
        if (args.own.n_layers == 1 || args.flags & kSkipChecksum) return true;
        const Sums& sums = zeroed_of(args, chunk).exact[number];
        return static_cast<u32>(checksum_of(sums.a, sums.b, layer.n_exact)) == layer.exact_check;
    }
    // Sets the chunk's status. If several CTAs report one, the lowest number remains.
    __device__ __forceinline__ void report(Status own) const {
        s32* const status = args.statuses + chunk;
        if (atomicCAS(status, s32{kOk}, s32{own}) != kOk) atomicMin(status, s32{own});
    }

    // Total bytes of all pieces before this CTA's piece. Called by all threads; contains a barrier.
    __device__ __forceinline__ u64 bytes_before(const u32* table) const {
        u64 sum = 0;
        for (u32 i = threadIdx.x; i < piece; i += kExactThreads) sum += table[i];
        sum = warp_sum(sum);
        if (lane_id() == 0) shared.sums[threadIdx.x / kWarp] = sum;
        __syncthreads();
        u64 all = 0;
        for (u32 w = 0; w < kExactThreads / kWarp; ++w) all += shared.sums[w];
        return all;
    }
    // Writes the piece's exact elements to the array. Returns the same status in all threads.
    __device__ __forceinline__ Status read(const Layer& layer) const {
        const char* const section = Frame(args, chunk).payload + layer.exact_at;
        const u32* const table = reinterpret_cast<const u32*>(section);
        const u64 table_bytes = 4ull * args.own.n_pieces;
        if (table_bytes > layer.n_exact) return kCorrupt;
        const u64 start = bytes_before(table), n_all = layer.n_exact - table_bytes;
        const u32 n_bytes = table[piece];
        const bool is_last = piece + 1 == args.own.n_pieces;
        if (start + n_bytes > n_all || (is_last && start + n_bytes != n_all) || (start | n_bytes) % kUnit != 0) return kCorrupt;
        return n_bytes == 0 ? kOk : put(reinterpret_cast<const unsigned char*>(section + table_bytes + start), n_bytes);
    }
    __device__ __forceinline__ Status put(const unsigned char* from, u32 n_bytes) const {
        const u32 flags = *reinterpret_cast<const u32*>(from), m = min(args.own.elements() - piece * kPiece, kPiece);
        if (flags == 0 || flags & ~(kFillMask | kOutliers)) return kUnsupportedFormat;
        u32 at = 4;
        if (flags & kFillMask && !put_filled(from, n_bytes, m, at)) return kCorrupt;
        __syncthreads();
        if (flags & kOutliers && !put_outliers(from, n_bytes, m, at)) return kCorrupt;
        return at == n_bytes ? kOk : kCorrupt;
    }
    __device__ __forceinline__ W* array() const { return array_of<W, kPart>(args, chunk) + piece * kPiece; }
    __device__ __forceinline__ W in_array(W word) const { return args.flags & kSwapBytes ? swapped_bytes(word) : word; }

    // Writes the filled elements to the array. Their description begins at byte `at`, which is
    // moved past it. Returns false in all threads if it is damaged.
    __device__ __forceinline__ bool put_filled(const unsigned char* from, u32 n_bytes, u32 m, u32& at) const {
        if (n_bytes - at < sizeof(W) + 4) return false;
        const W fill = load_word<W>(from + at);
        const u32 header = *reinterpret_cast<const u32*>(from + at + sizeof(W)), n_filled = header & 0xffff, bitmap_bytes = header >> 16 & ~kCodedBitmap;
        at += sizeof(W) + 4;
        if (n_bytes - at < aligned_up(bitmap_bytes, 4)) return false;
        const unsigned char* const bitmap = from + at;
        bool is_sound = n_filled > 0;
        if (header >> 16 & kCodedBitmap) {
            const CodedBitmap<kPiece> coded(bitmap, bitmap_bytes, m);
            if (!coded.is_sound || coded.n_bytes != bitmap_bytes) return false;
            is_sound &= shared.bitmap.read(coded, m);
            const u32 row = args.own.extents[kAxes - 1];
            if (row < m) shared.bitmap.undo_changes(m, row);
        } else {
            if (bitmap_bytes != 4 * Bitmap::n_words(m)) return false;
            is_sound &= shared.bitmap.read(reinterpret_cast<const u32*>(bitmap), m);
        }
        if (!shared.bitmap.count(m, n_filled, is_sound)) return false;
        W* const array = this->array();
        const W word = in_array(fill);
        for (u32 i = threadIdx.x / kWarp; i < Bitmap::n_words(m); i += kExactThreads / kWarp) {
            if (shared.bitmap.has(i)) array[i * kWarp + lane_id()] = word;
        }
        at += aligned_up(bitmap_bytes, 4);
        return true;
    }
    // Writes the outliers to the array, like put_filled().
    __device__ __forceinline__ bool put_outliers(const unsigned char* from, u32 n_bytes, u32 m, u32& at) const {
        if (n_bytes - at < 4) return false;
        const unsigned short* const places = reinterpret_cast<const unsigned short*>(from + at);
        const u32 n = places[0], elements = at + aligned_up(2 + 2 * n, 4);
        if (n == 0 || static_cast<u64>(elements) + n * sizeof(W) > n_bytes) return false;
        bool is_sound = true;
        for (u32 i = threadIdx.x + 1; i <= n; i += kExactThreads) is_sound &= places[i] < m && (i == 1 || places[i] > places[i - 1]);
        if (!__syncthreads_and(is_sound)) return false;
        W* const array = this->array();
        for (u32 i = threadIdx.x; i < n; i += kExactThreads) array[places[i + 1]] = in_array(load_word<W>(from + elements + i * sizeof(W)));
        at = elements + n * static_cast<u32>(sizeof(W));
        return true;
    }
};

template <typename W, bool kPart>
__device__ __forceinline__ void multigrid_read_exact(const DecompressArgs<Chunk>& args) {
    __shared__ ExactShared shared;
    ExactReader<W, kPart>(args, shared).run();
}
