// What the passes that compress at level dense leave for each other of a block, in scratch; and how they are launched.
//
//   1. dense_predict.cuh, a CTA a block: numbers, what they are predicted by, and the tables of their contexts.
//   2. dense_write.cuh, a warp a block: the string.
//   3. block_place.cuh: its place in the payload.

#pragma once

#include "../stage/contexts.cuh"
#include "blocks_scratch.cuh"

template <typename W>
using DenseCoding = Coding<W, kNumberContexts, 0>;

// In scratch. Bytes behind each other: the front of the block grows from the start of `codes`, the string from its end downwards.
template <typename W>
struct alignas(256) DenseBlock {
    BlockInfo<W> info;
    u32 ranges[DenseCoding<W>::kKeys];  // by keys, the first slot of the symbol and, in the upper half, its frequency
    BlockMarks marks;
    alignas(16) unsigned short entries[kLargeElements];  // ContextEntry
    alignas(16) W residuals[kLargeElements];             // those at least of which an entry has not all bits of the tail
    alignas(16) W codes[kLargeElements + kStringRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = sizeof(W) * kLargeElements + kStringRowsBytes - kStringEndBytes;
    __device__ __forceinline__ unsigned char* front() { return reinterpret_cast<unsigned char*>(codes); }
    __device__ __forceinline__ const unsigned char* front() const { return reinterpret_cast<const unsigned char*>(codes); }
};

// The level, for what is the same of several.
template <typename W>
struct DenseLevel {
    using Block = DenseBlock<W>;
    static constexpr u32 kLog = kLogDense, kLogRow = ::kLogRow;

    static __device__ __forceinline__ Block& block(const CompressArgs<Chunk>& args, u32 number) {
        return *reinterpret_cast<Block*>(blocks_scratch(args) + static_cast<u64>(number) * sizeof(Block));
    }
};
