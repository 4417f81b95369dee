// Scratch data shared by the passes that compress blocks of 65536 elements, at levels dense and
// max.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/contexts_write.cuh"
#include "block.cuh"
#include "range.cuh"

constexpr u32 kLargeElements = 1 << 16;
static_assert(kLogDense == 16 && kLogMax == 16, "blocks have 65536 elements");
// Words of a bitmap. Padding with zero words gives all threads equally many.
constexpr u32 kLargeBitmap = kLargeElements / 32 / 8 * 9;

// Results of the passes for a block.
template <typename W>
struct BlockInfo {
    u32 header;        // kConstBlock, kRawBlock, or 0 for a block that has numbers
    u32 n_units;       // length in units of the payload
    W word;            // the element of a constant block
    u32 front_bytes;   // bytes before the string: header, base, exceptions, tables and, if they are apart, tails
    u32 tails_at;      // where these tails begin
    u32 string, string_bytes;  // offset from front(); bytes, with the coder's states
};

// Bitmaps of a block's elements: those without a code, filled elements, and outliers.
struct BlockBitmaps {
    u32 uncoded[kLargeBitmap], fill_mask[kLargeBitmap], outliers[kLargeBitmap];
};

// Address of the first block's scratch data, which follows the zeroed part of scratch.
__device__ __forceinline__ char* blocks_scratch(const CompressArgs<Chunk>& args) {
    const RangeScratch* const end = range_scratch(args) + args.n_chunks;
    const u64 n_bytes = reinterpret_cast<u64>(end) - reinterpret_cast<u64>(args.scratch);
    return static_cast<char*>(args.scratch) + (n_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

// A block, identified by its number among the blocks of all chunks.
struct BlockOfAll {
    u32 number, chunk, index;

    __device__ __forceinline__ BlockOfAll(const Chunk& own, u32 number) : number(number), chunk(number / own.n_blocks), index(number % own.n_blocks) {}
};

// Launch parameters of a pass. All passes of a level share the scratch data.
template <typename Block>
constexpr LaunchInfo blocks_launch(u32 threads, u32 shared_bytes, u32 persistent) {
    LaunchInfo info = quant_launch(threads, shared_bytes);
    info.persistent = persistent, info.unzeroed_bytes_per_tile = sizeof(Block);
    return info;
}

// Defines the entry point and the launch parameters of a pass. The last argument is the function
// that does the work.
#define BLOCKS_PASS(name, Block, kThreads, kCtas, Shared, kPersistent, ...)                                                  \
    extern "C" __global__ void __launch_bounds__(kThreads, kCtas) name(const __grid_constant__ CompressArgs<Chunk> args) { \
        __VA_ARGS__(args);                                                                                                 \
    }                                                                                                                      \
    extern "C" __device__ const LaunchInfo name##_info = blocks_launch<Block>(kThreads, sizeof(Shared), kPersistent);
