// Where everything is. The twin of the layout of the CPU codec.
//
//   table: u32 end of each block in units of 16 bytes, u32 its check | pad to 16 bytes | blocks

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"

constexpr u32 kBlockHead = 4;  // bytes: kind, whether there are differences, zeros

enum BlockKind : u32 { kRawBlock = 0, kConstBlock = 1, kCodesBlock = 2 };

// What the host says of a chunk.
struct Numbers {
    u64 n;         // of the chunk
    u32 n_blocks;  // the last one may be shorter
    u32 how;       // the logarithm of a block's numbers; 1 if they have signs: a byte each

    __device__ __forceinline__ u32 log_block() const { return how & 0xff; }
    __device__ __forceinline__ bool is_signed() const { return how >> 8 & 1; }
    __device__ __forceinline__ u64 table_bytes() const { return (8ull * n_blocks + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }
    // Numbers of a block.
    __device__ __forceinline__ u32 of_block(u32 block) const {
        return static_cast<u32>(min(n - (static_cast<u64>(block) << log_block()), u64{1} << log_block()));
    }
};
static_assert(sizeof(Numbers) == 16 && offsetof(Numbers, n_blocks) == 8, "src/codec/huffman/cuda.rs has the same struct");
