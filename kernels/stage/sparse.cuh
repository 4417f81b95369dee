// Reads numbers that are nearly all 0. There are two forms. In the first one, a bitmap marks the
// nonzero numbers, and a bit string contains them. In the second one, a list has for each nonzero
// number the count of zeros before it and the number itself, both as a length and the low bits.
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
    // Positions in bits: the lengths of gaps, the lengths of numbers, the low bits of gaps.
    const u32 n_gap = bit_length(gap_bits), n_length = length_bits(w), gaps = 8 * kSparseHeader, lengths = gaps + n_listed * n_gap;
    const u32 low_gaps = lengths + n_listed * n_length;
    if (n_listed > kMaxListed || gap_bits > kMaxGapBits || low_gaps > 8 * available) return 0;
    const auto gap_length = [=](u32 i) { return i < n_listed ? load_bits(string, gaps + i * n_gap, n_gap, 0u) : 0; };
    u32 own_low = 0;
#pragma unroll 1
    for (u32 i = lane_id(); i < n_listed; i += kWarp) own_low += max(gap_length(i), 1u) - 1;
#pragma unroll 1
    for (u32 row = threadIdx.x / kWarp; row * kRow < n; row += kThreads / kWarp) *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(lane_id())) = 0;
    __syncthreads();
    // Every warp scans the list, so that all warps know its end. The first warp writes the numbers.
    u32 next = 0, gap_at = low_gaps, at = low_gaps + warp_sum(own_low);
    bool is_sound = true;
#pragma unroll 1
    for (u32 first = 0; first < n_listed; first += kWarp) {
        const u32 i = first + lane_id();
        const bool exists = i < n_listed;
        const u32 length = gap_length(i), gap_low = max(length, 1u) - 1, gap_end = gap_at + warp_inclusive_sum(gap_low);
        is_sound &= length <= gap_bits && gap_end <= 8 * available;
        u32 gap = length > 0 ? 1u << gap_low : 0;
        if (is_sound && gap_low > 0) gap |= load_bits(string, gap_end - gap_low, gap_low, 0u);
        const u32 step = exists ? gap + 1 : 0;
        const u32 low = exists && w > 1 ? load_bits(string, lengths + i * n_length, n_length, 0u) : 0;
        const u32 number = next + warp_inclusive_sum(step) - 1, end = at + warp_inclusive_sum(low);
        is_sound &= !exists || (number < n && end <= 8 * available);
        if (threadIdx.x < kWarp && exists && is_sound) {
            const W r = static_cast<W>(1) << low | (low > 0 ? load_bits(string, end - low, low, W()) : 0);
            *reinterpret_cast<W*>(tile + Place::number(number)) = unzigzag(r);
        }
        next = __shfl_sync(kAllLanes, number, kWarp - 1) + 1;
        gap_at = __shfl_sync(kAllLanes, gap_end, kWarp - 1);
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
