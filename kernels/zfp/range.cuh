// Finds the range of values of each chunk, before compression in mode rel (stage/range.cuh).

#pragma once

#include "../stage/range.cuh"
#include "scratch.cuh"

template <typename W>
__device__ __forceinline__ void zfp_find_range(const CompressArgs<Chunk>& args) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const Chunk& chunk = args.own;
    // The host limits the number of shares by the number of sections: a section has as many
    // elements as two shares.
    static_assert(kSectionElements == 2 * kRangeElements, "the host counts sections");
    const u32 shares = static_cast<u32>((chunk.elements() + kRangeElements - 1) / kRangeElements);
    const RangeChunks<W> chunks{static_cast<const char*>(args.src), args.src_stride, args.n_chunks, shares, chunk.elements(), kFloatType<W>,
                                Element(args.encoded), (args.flags & kSwapBytes) != 0, chunk.missing, chunk.missing};
    ChunkState* const states = ScratchView::chunks(args.scratch);
    RangeFinder<W>(chunks, *reinterpret_cast<RangeShared<W>*>(shared_bytes)).run([&](u32 number) -> RangeScratch& { return states[number].range; });
}
