// Finds the value range of an array (stage/range.cuh), which scales a relative bound. The pass
// stores the range after the scratch data of compression.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/range.cuh"
#include "layout.cuh"

// Like ordered_launch(), with a RangeScratch for each chunk.
constexpr LaunchInfo quant_launch(u32 threads, u32 shared_bytes) {
    return LaunchInfo{threads, shared_bytes, 1, 1, sizeof(FramesScratch), sizeof(ChunkScratch) + sizeof(RangeScratch), sizeof(u64)};
}

__device__ __forceinline__ RangeScratch* range_scratch(const CompressArgs<Chunk>& args) {
    char* const scratch = static_cast<char*>(args.scratch) + sizeof(FramesScratch);
    return reinterpret_cast<RangeScratch*>(scratch + args.n_chunks * (sizeof(ChunkScratch) + static_cast<u64>(args.own.n_blocks) * sizeof(u64)));
}

// The error bound in force in a chunk.
template <typename W>
__device__ __forceinline__ double bound_of(const CompressArgs<Chunk>& args, u32 chunk) {
    const double value = __longlong_as_double(static_cast<s64>(args.own.value));
    return args.own.mode() == kRel ? bound_of_range<W>(range_scratch(args)[chunk], args.own.dtype(), value) : value;
}

// Finds the value ranges of all chunks. Their blocks have 2^kLog elements.
template <typename W, u32 kLog>
__device__ __forceinline__ void find_range(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    const Chunk& chunk = args.own;
    // kShares shares per block cover all elements. Clipped blocks leave some shares empty.
    constexpr u32 kShares = (1u << kLog) / kRangeElements;
    const RangeChunks<W> chunks{static_cast<const char*>(args.src), args.src_stride, args.n_chunks, chunk.n_blocks * kShares, chunk.elements() << chunk.log_parts(),
                                chunk.dtype(), chunk.part(args.encoded), (args.flags & kSwapBytes) != 0, chunk.missing[0], chunk.missing[1]};
    RangeFinder<W>(chunks, *reinterpret_cast<RangeShared<W>*>(bytes)).run([&](u32 number) -> RangeScratch& { return range_scratch(args)[number]; });
}
