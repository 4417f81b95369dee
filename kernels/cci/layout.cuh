// Where everything is, in payloads and in scratch. The twin of the layout of the CPU codec.
//
//   table: u32 end of each block in units of 16 bytes, u32 its check | pad to 16 bytes | blocks

#pragma once

#include "../common/types.cuh"
#include "../common/warp.cuh"

constexpr u32 kRawHead = 16, kCodedHead = 24;  // bytes in front of elements, and of lists
constexpr u32 kLogMostElements = 16;           // of a block
constexpr u32 kMostElements = 1u << kLogMostElements;
constexpr u32 kSymbolsPer = 4;                 // a block has up to its symbols divided by that of copies, and of rows; and so its copies of repeats
constexpr u32 kElementsPerRun = 2;

enum BlockKind : u32 { kRawBlock = 0, kCodedBlock = 1 };
enum BlockFlags : u32 { kHasRuns = 1, kHasRows = 2 };

// What the host says of a chunk.
struct Indices {
    u64 n;         // of the chunk
    u32 n_blocks;  // the last one may be shorter
    u32 how;       // the logarithm of a block's elements; 1 if there may be codes: a byte each

    __device__ __forceinline__ u32 log_block() const { return how & 0xff; }
    __device__ __forceinline__ bool has_codes() const { return how >> 8 & 1; }
    __device__ __forceinline__ u64 table_bytes() const { return (8ull * n_blocks + kUnitBytes - 1) / kUnitBytes * kUnitBytes; }
    // Elements of a block.
    __device__ __forceinline__ u32 of_block(u32 block) const {
        return static_cast<u32>(min(n - (static_cast<u64>(block) << log_block()), u64{1} << log_block()));
    }
};
static_assert(sizeof(Indices) == 16 && offsetof(Indices, n_blocks) == 8, "src/codec/cci/cuda.rs has the same struct");

// A copy: literal symbols before it, how far back what it copies is, and how long it is.
struct Copy {
    unsigned short literals, distance;
    u32 length;
};

// Copies that are as those before.
struct Repeat {
    unsigned short literals, length, distance, unused;
};

// In scratch, of a block. What is not made by copies comes at the end of its array first: what is then made, from the start on, never
// reaches what has not been read.
template <typename W>
struct alignas(256) BlockScratch {
    W symbols[kMostElements];  // with runs, their lengths less 1 are behind those that a block can have then
    W starts[kMostElements / kSymbolsPer];
    Copy copies[kMostElements / kSymbolsPer];
    Repeat repeats[kMostElements / kSymbolsPer / kSymbolsPer];

    __device__ __forceinline__ unsigned short* lengths() { return reinterpret_cast<unsigned short*>(symbols + kMostElements / kElementsPerRun); }
};
