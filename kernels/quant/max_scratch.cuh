// Scratch data of a block that the passes of compression at level max share; and their launch
// parameters.
//
//   1. max_load.cuh, a CTA per block: codes, weights, and the part before the tables.
//   2. max_find.cuh, a warp per block: residuals of codes, in their contexts.
//   3. max_write.cuh, a warp per block: the tables of contexts, and the string.
//   4. block_place.cuh: its place in the payload.

#pragma once

#include "blocks_scratch.cuh"
#include "max_scan.cuh"

template <typename W>
using MaxCoding = Coding<W, kMaxContexts, kNoNumbers>;

// In scratch. The front of the block grows up from its start, the string down from the end of
// `codes`.
template <typename W>
struct alignas(256) MaxBlock {
    // Room for exact elements, which are at most an eighth, and for all other parts.
    static constexpr u32 kFrontBytes = sizeof(W) * kLargeElements / 8 + 4096;

    BlockInfo<W> info;
    u32 has_weights, has_exceptions;
    MaxWeights weights;
    BlockBitmaps bitmap;
    u32 counts[MaxCoding<W>::kKeys];  // occurrences, by keys
    // By keys: the first slot of the symbol and, in the upper half, its frequency.
    u32 ranges[MaxCoding<W>::kKeys];
    alignas(16) unsigned char start[kFrontBytes];
    alignas(16) W codes[kLargeElements + kStringRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = kFrontBytes + sizeof(W) * kLargeElements + kStringRowsBytes - kStringEndBytes;
    // Whether residuals are found row by row (max_rows.cuh). Those that do not fit their entries
    // are then in that order.
    __device__ __forceinline__ bool is_by_rows(const MaxView& view) const { return !view.is_line() && view.length <= 1 << kLogMaxRow && !has_exceptions; }
    __device__ __forceinline__ unsigned char* front() { return start; }
    __device__ __forceinline__ const unsigned char* front() const { return start; }
};

// A block is followed by an entry for each lane at each time, by words for residuals that do not
// fit their entries, and by cells. The host gives their numbers; crates/gridz-codecs/src/codec/quant/cuda.rs has the same
// formula for their bytes.
template <typename W>
struct MaxLevel {
    using Block = MaxBlock<W>;
    static constexpr u32 kLog = kLogMax, kLogRow = kLogMaxRow;

    static __device__ __forceinline__ u64 n_bytes(const Chunk& own) {
        const u64 n_bytes = static_cast<u64>(own.n_times) * kWarp * (sizeof(unsigned short) + sizeof(W)) + CellWindow<W>::n_bytes(own.n_cells);
        return sizeof(Block) + (n_bytes + alignof(Block) - 1) / alignof(Block) * alignof(Block);
    }
    static __device__ __forceinline__ Block& block(const CompressArgs<Chunk>& args, u32 number) {
        return *reinterpret_cast<Block*>(blocks_scratch(args) + number * n_bytes(args.own));
    }
    static __device__ __forceinline__ W* residuals(Block& block) { return reinterpret_cast<W*>(&block + 1); }
    static __device__ __forceinline__ unsigned short* entries(const Chunk& own, Block& block) {
        return reinterpret_cast<unsigned short*>(residuals(block) + own.n_times * kWarp);
    }
    static __device__ __forceinline__ CellWindow<W> cells(const Chunk& own, Block& block) {
        return CellWindow<W>(reinterpret_cast<char*>(entries(own, block) + own.n_times * kWarp), own.n_cells);
    }
};
