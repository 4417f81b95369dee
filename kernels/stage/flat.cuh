// A flat payload: the array is cut into blocks of contiguous elements, whatever its extents.
//
//   table, per block: u32 end in units of 16 bytes, u32 checksum | padding to 16 bytes | blocks

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"

// The host's description of a chunk.
struct Flat {
    u64 n;         // elements of the chunk
    u32 n_blocks;  // number of blocks; the last one may be shorter
    u32 how;       // log2 of a block's elements, and a flag of the codec; one byte each

    __device__ __forceinline__ u32 log_block() const { return how & 0xff; }
    __device__ __forceinline__ bool flag() const { return how >> 8 & 1; }
    __device__ __forceinline__ u64 table_bytes() const { return (8ull * n_blocks + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }
    // Elements of a block.
    __device__ __forceinline__ u32 of_block(u32 block) const {
        return static_cast<u32>(min(n - (static_cast<u64>(block) << log_block()), u64{1} << log_block()));
    }
};
static_assert(sizeof(Flat) == 16 && offsetof(Flat, n_blocks) == 8, "cuda.rs of the codecs has the same struct");
