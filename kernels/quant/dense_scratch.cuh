// Scratch data of a block, shared by the passes of compression at level dense:
//
//   1. dense_predict.cuh (a CTA per block) finds residuals, and the tables of their contexts.
//   2. dense_write.cuh (two warps per block) writes the tails and the string.
//   3. block_place.cuh copies the block to the payload.

#pragma once

#include "../stage/contexts.cuh"
#include "blocks_scratch.cuh"

template <typename W>
using DenseCoding = Coding<W, kNumberContexts, 0, true>;

// Scratch data of a block. The encoded block replaces the codes: its front grows up from the start
// of `codes`, the string down from the end.
template <typename W>
struct alignas(256) DenseBlock {
    BlockInfo<W> info;
    // Indexed by key: the first slot of the symbol and, in the upper half, its frequency.
    u32 ranges[DenseCoding<W>::kKeys];
    BlockBitmaps bitmap;
    alignas(16) unsigned short entries[kLargeElements];  // ContextEntry
    // Residuals. Those whose entries contain all their bits may be absent.
    alignas(16) W residuals[kLargeElements];
    alignas(16) W codes[kLargeElements + kStringRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = sizeof(W) * kLargeElements + kStringRowsBytes - kStringEndBytes;
    __device__ __forceinline__ unsigned char* front() { return reinterpret_cast<unsigned char*>(codes); }
    __device__ __forceinline__ const unsigned char* front() const { return reinterpret_cast<const unsigned char*>(codes); }
};

// Properties of level dense, for code that several levels share.
template <typename W>
struct DenseLevel {
    using Block = DenseBlock<W>;
    static constexpr u32 kLog = kLogDense, kLogRow = ::kLogRow;

    static __device__ __forceinline__ Block& block(const CompressArgs<Chunk>& args, u32 number) {
        return *reinterpret_cast<Block*>(blocks_scratch(args) + static_cast<u64>(number) * sizeof(Block));
    }
};
