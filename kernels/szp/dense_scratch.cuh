// What the passes that compress at level dense leave for each other of a block, in scratch; and how they are launched.
//
//   1. dense_predict.cuh, a CTA a block: numbers, what they are predicted by, and the tables of their contexts.
//   2. dense_encode.cuh, a warp a block: the string.
//   3. dense_place.cuh: its place in the payload, by the protocol of common/ordered_frames.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/contexts.cuh"
#include "block.cuh"
#include "range.cuh"

constexpr u32 kDenseElements = 1 << kLogDense;
constexpr u32 kDenseMarks = kDenseElements / 32 / 8 * 9;  // words, of which the last ones are 0: all threads have as many

// What is told of a block.
template <typename W>
struct DenseInfo {
    u32 header;        // kConstBlock, kRawBlock, or 0 for one that has numbers
    u32 n_units;       // of the payload
    W word;            // of a constant one
    u32 front_bytes;   // of what is before the string: header, base, exceptions and tables
    u32 string, string_bytes;  // where it is, and its bytes, with the states
};

// In scratch. Bytes behind each other: the front of the block grows from the start of `codes`, the string from its end downwards.
template <typename W>
struct alignas(256) DenseBlock {
    // As much as rows that are loaded together, and the states, may take in the string; and zeros behind its end, which readers of whole words
    // meet.
    static constexpr u32 kRowsBytes = 2048, kEndBytes = 8;
    static constexpr u32 kSymbols = ContextReader<W>::kWordSymbols;

    DenseInfo<W> info;
    u32 ranges[kNumberContexts * kSymbols];  // by keys, the first slot of the symbol and, in the upper half, its frequency
    u32 uncoded[kDenseMarks], holes[kDenseMarks], others[kDenseMarks];
    alignas(16) unsigned short entries[kDenseElements];  // ContextEntry
    alignas(16) W residuals[kDenseElements];             // those at least of which an entry has not all bits of the tail
    alignas(16) W codes[kDenseElements + kRowsBytes / sizeof(W)];

    static constexpr u32 kFrontAndString = sizeof(W) * kDenseElements + kRowsBytes - kEndBytes;
    __device__ __forceinline__ unsigned char* front() { return reinterpret_cast<unsigned char*>(codes); }
};

// How to launch any of the passes, which have the same scratch.
template <typename W>
constexpr LaunchInfo dense_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    LaunchInfo info = szp_launch(threads, shared_bytes);
    info.persistent = persistent, info.unzeroed_bytes_per_tile = sizeof(DenseBlock<W>);
    return info;
}

// The blocks of all chunks, behind what was zeroed.
template <typename W>
__device__ __forceinline__ DenseBlock<W>* dense_blocks(const CompressArgs<Chunk>& args) {
    constexpr u64 alignment = 256;
    const RangeScratch* const end = range_scratch(args) + args.n_chunks;
    const u64 n_bytes = reinterpret_cast<u64>(end) - reinterpret_cast<u64>(args.scratch);
    return reinterpret_cast<DenseBlock<W>*>(static_cast<char*>(args.scratch) + (n_bytes + alignment - 1) / alignment * alignment);
}

// A block, by its number among those of all chunks.
struct DenseTile {
    u32 number, chunk, index;

    __device__ __forceinline__ DenseTile(const Chunk& own, u32 number) : number(number), chunk(number / own.n_blocks), index(number % own.n_blocks) {}
};
