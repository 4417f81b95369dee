// Scratch data of a block, shared by the passes of compression at level max:
//
//   1. max_load.cuh (a CTA per block) finds codes and weights, and writes the part before the
//      tables.
//   2. max_find.cuh (a warp per block) finds the residuals of codes, and their contexts.
//   3. max_write.cuh (a warp per block) writes the tables of contexts and the string.
//   4. block_place.cuh copies the block to the payload.

#pragma once

#include "blocks_scratch.cuh"
#include "max_scan.cuh"

template <typename W>
using MaxCoding = Coding<W, kMaxContexts, kNoNumbers, false>;

// Scratch data of a block. The front of the encoded block grows up from `start`, the string down
// from the end of `codes`.
template <typename W>
struct alignas(256) MaxBlock {
    // Room for the outliers, at most an eighth of the elements, and for all other sections.
    static constexpr u32 kFrontBytes = sizeof(W) * kLargeElements / 8 + 4096;

    BlockInfo<W> info;
    u32 has_weights, has_exceptions;
    MaxWeights weights;
    BlockBitmaps bitmap;
    u32 counts[MaxCoding<W>::kKeys];  // occurrences, indexed by key
    // Indexed by key: the first slot of the symbol and, in the upper half, its frequency.
    u32 ranges[MaxCoding<W>::kKeys];
    alignas(16) unsigned char start[kFrontBytes];
    alignas(16) W codes[kLargeElements + kStringRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = kFrontBytes + sizeof(W) * kLargeElements + kStringRowsBytes - kStringEndBytes;
    // Whether residuals are found row by row (max_rows.cuh). Residuals that do not fit their
    // entries are then stored in the order of rows, not in that of decompression.
    __device__ __forceinline__ bool is_by_rows(const MaxView& view) const { return !view.is_line() && view.length <= 1 << kLogMaxRow && !has_exceptions; }
    __device__ __forceinline__ unsigned char* front() { return start; }
    __device__ __forceinline__ const unsigned char* front() const { return start; }
};

// For each lane at each time step, a block is followed by a word, for a residual that does not fit
// its entry, and by an entry. Cells follow. The host passes the numbers of time steps and of cells;
// crates/gridz-codecs/src/codec/quant/cuda.rs has the same formula for their bytes.
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
