// Numbers of which nearly all are 0: marks say which are not, and a bit string has these.
//
// A warp has 32 numbers at a time. How many marked ones are before a number says where its bits are.

#pragma once

#include "../common/warp.cuh"
#include "groups.cuh"
#include "marks.cuh"
#include "unpack.cuh"
#include "words.cuh"

// Reads n such numbers and undoes their signs, by all threads of a CTA, from a payload that has `available` bytes from
// `from`, which is aligned to 4, to the tile in shared memory. Is false, in all threads, if they are damaged.
template <typename Place, u32 kNumbers, u32 kThreads>
__device__ __forceinline__ bool read_sparse(const unsigned char* from, u32 available, u32 n, Marks<kNumbers, kThreads>& marks, unsigned char* tile) {
    using W = typename Place::Word;
    if (available < kSparseHeader) return false;
    const u32* const string = reinterpret_cast<const u32*>(from);
    const u32 n_marked = string[0] & 0xffff, w = string[0] >> 16;  // and a byte that is 0
    const CodedMarks coded(from + kSparseHeader, available - kSparseHeader, n);
    const u32 fields = kSparseHeader + coded.n_bytes, n_bytes = fields + (n_marked * min(w, Word<W>::kBits) + 7) / 8;
    if (!coded.is_sound || w > Word<W>::kBits || (w == 0) != (n_marked == 0) || n_bytes > available || available - n_bytes >= kUnitBytes) return false;
    if (!marks.count(n, n_marked, marks.read(coded, n))) return false;
#pragma unroll 1
    for (u32 row = threadIdx.x / kWarp; row * kRow < n; row += kThreads / kWarp) {
        const W r = marks.has(row) ? load_bits(string, fields * 8 + marks.n_before(row) * w, w, W()) : 0;
        *reinterpret_cast<W*>(tile + Place::row(row) + Place::in_row(lane_id())) = unzigzag(r);
    }
    return true;
}
