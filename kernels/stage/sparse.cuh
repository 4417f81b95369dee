// Reads numbers that are nearly all 0. There are two forms. In the first one, a bitmap marks the
// nonzero numbers, and a bit string contains them. In the second one, a list has for each nonzero
// number the count of zeros before it, its length, and its bits.
//
// With a bitmap, a warp reads 32 numbers at a time; the count of preceding marks locates the bits
// of a number. A list is short, so one warp writes its numbers, to positions that prefix sums give.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "bitmap.cuh"
#include "unpack.cuh"
#include "words.cuh"

constexpr u32 kMaxListed = 256;   // maximum numbers of a list
constexpr u32 kMaxGapBits = 14;

// Bits of a field that holds the length, minus 1, of a number of up to `width` bits.
__device__ __forceinline__ u32 length_bits(u32 width) { return bit_length(max(width, 1u) - 1); }

// Reads n numbers from a list and undoes the zigzag coding. Returns the bytes of the list, or 0 if
// it is damaged.
template <typename Place, u32 kThreads>
__device__ __forceinline__ u32 read_list(const u32* string, u32 available, u32 n, unsigned char* tile) {
    using W = typename Place::Word;
    const u32 n_listed = string[0] & 0xffff, w = string[0] >> 16 & 0xff, gap_bits = string[0] >> 24;
    const u32 lengths = kSparseHeader + (n_listed * gap_bits + 7) / 8, fields = lengths + (n_listed * length_bits(w) + 7) / 8;
    if (n_listed > kMaxListed || gap_bits > kMaxGapBits || fields > available) return 0;
#pragma unroll 1
    for (u32 row = threadIdx.x / kWarp; row * kRow < n; row += kThreads / kWarp) *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(lane_id())) = 0;
    __syncthreads();
    // Every warp scans the list, so that all warps know its end. The first warp writes the numbers.
    u32 next = 0, at = 8 * fields;
    bool is_sound = true;
#pragma unroll 1
    for (u32 first = 0; first < n_listed; first += kWarp) {
        const u32 i = first + lane_id();
        const bool exists = i < n_listed;
        const u32 step = exists ? load_bits(string, 8 * kSparseHeader + i * gap_bits, gap_bits, 0u) + 1 : 0;
        const u32 low = exists && w > 1 ? load_bits(string, 8 * lengths + i * length_bits(w), length_bits(w), 0u) : 0;
        const u32 number = next + warp_inclusive_sum(step) - 1, end = at + warp_inclusive_sum(low);
        is_sound &= !exists || (number < n && end <= 8 * available);
        if (threadIdx.x < kWarp && exists && is_sound) {
            const W r = static_cast<W>(1) << low | (low > 0 ? load_bits(string, end - low, low, W()) : 0);
            *reinterpret_cast<W*>(tile + Place::number(number)) = unzigzag(r);
        }
        next = __shfl_sync(kAllLanes, number, kWarp - 1) + 1;
        at = __shfl_sync(kAllLanes, end, kWarp - 1);
    }
    return __syncthreads_and(is_sound) ? (at + 7) / 8 : 0;
}

// Reads n numbers of either form to the tile in shared memory and undoes the zigzag coding. Called
// by all threads of a CTA. The payload has `available` bytes from `from`, which is aligned to 4.
// Returns the bytes of the numbers in all threads, or 0 if they are damaged.
template <typename Place, u32 kNumbers, u32 kThreads>
__device__ __forceinline__ u32 read_sparse(const unsigned char* from, u32 available, u32 n, Bitmap<kNumbers, kThreads>& bitmap, unsigned char* tile) {
    using W = typename Place::Word;
    if (available < kSparseHeader) return 0;
    const u32* const string = reinterpret_cast<const u32*>(from);
    const u32 n_marked = string[0] & 0xffff, w = string[0] >> 16 & 0xff;
    if (w > Word<W>::kBits || (w == 0) != (n_marked == 0)) return 0;
    if (string[0] >> 24) return read_list<Place, kThreads>(string, available, n, tile);
    const CodedBitmap coded(from + kSparseHeader, available - kSparseHeader, n);
    const u32 fields = kSparseHeader + coded.n_bytes, n_bytes = fields + (n_marked * w + 7) / 8;
    if (!coded.is_sound || n_bytes > available) return 0;
    if (!bitmap.count(n, n_marked, bitmap.read(coded, n))) return 0;
#pragma unroll 1
    for (u32 row = threadIdx.x / kWarp; row * kRow < n; row += kThreads / kWarp) {
        const W r = bitmap.has(row) ? load_bits(string, fields * 8 + bitmap.n_before(row) * w, w, W()) : 0;
        *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(lane_id())) = unzigzag(r);
    }
    return n_bytes;
}
