// What the passes that compress at level max leave for each other of a block, in scratch; and how they are launched.
//
//   1. max_load.cuh, a CTA a block: codes, weights, and what is before the tables.
//   2. max_find.cuh, a warp a block: what is left of codes, in its contexts.
//   3. max_write.cuh, a warp a block: the tables of contexts, and the string.
//   4. block_place.cuh: its place in the payload.

#pragma once

#include "blocks_scratch.cuh"
#include "max_scan.cuh"

template <typename W>
using MaxCoding = Coding<W, kMaxContexts, kNoNumbers>;

// In scratch. The front of the block grows from its start, the string from the end of `codes` downwards.
template <typename W>
struct alignas(256) MaxBlock {
    // Elements that are kept exactly are no more than an eighth; and room for all else.
    static constexpr u32 kFrontBytes = sizeof(W) * kLargeElements / 8 + 4096;

    BlockInfo<W> info;
    u32 has_weights, has_exceptions;
    MaxWeights weights;
    BlockMarks marks;
    u32 counts[MaxCoding<W>::kKeys];  // by keys, how often they come
    u32 ranges[MaxCoding<W>::kKeys];  // and the first slot of the symbol and, in the upper half, its frequency
    alignas(16) unsigned char start[kFrontBytes];
    alignas(16) W codes[kLargeElements + kStringRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = kFrontBytes + sizeof(W) * kLargeElements + kStringRowsBytes - kStringEndBytes;
    // Whether what is left of numbers is found row by row (max_rows.cuh), and is in that order where entries have not all of it.
    __device__ __forceinline__ bool is_by_rows(const MaxView& view) const { return !view.is_line() && view.length <= 1 << kLogMaxRow && !has_exceptions; }
    __device__ __forceinline__ unsigned char* front() { return start; }
    __device__ __forceinline__ const unsigned char* front() const { return start; }
};

// Behind a block, as many as the host says: an entry for each lane at each time, numbers as long as words where an entry has not all of one, and
// cells. src/codec/szp/cuda.rs knows how many bytes those are.
template <typename W>
struct MaxLevel {
    using Block = MaxBlock<W>;
    static constexpr u32 kLog = kLogMax, kLogRow = kLogMaxRow;

    static __device__ __forceinline__ u64 n_bytes(const Chunk& own) {
        const u64 n_bytes = static_cast<u64>(own.n_times) * kWarp * (sizeof(unsigned short) + sizeof(W)) + KeptCells<W>::n_bytes(own.n_cells);
        return sizeof(Block) + (n_bytes + alignof(Block) - 1) / alignof(Block) * alignof(Block);
    }
    static __device__ __forceinline__ Block& block(const CompressArgs<Chunk>& args, u32 number) {
        return *reinterpret_cast<Block*>(blocks_scratch(args) + number * n_bytes(args.own));
    }
    static __device__ __forceinline__ W* residuals(Block& block) { return reinterpret_cast<W*>(&block + 1); }
    static __device__ __forceinline__ unsigned short* entries(const Chunk& own, Block& block) {
        return reinterpret_cast<unsigned short*>(residuals(block) + own.n_times * kWarp);
    }
    static __device__ __forceinline__ KeptCells<W> cells(const Chunk& own, Block& block) {
        return KeptCells<W>(reinterpret_cast<char*>(entries(own, block) + own.n_times * kWarp), own.n_cells);
    }
};
