// Compression in one pass, by the protocol of common/ordered_frames.cuh. CTAs are persistent; each
// has 8 compute warps (compute.cuh) and 2 writer warps (write.cuh). A tile is 32 KiB of input (two
// blocks of f32, one of f64), or 8192 (f32) or 4096 (f64) elements of the border.
//
// The tiles of a chunk are first those of blocks, then those of the border. For every tile of
// blocks, the compute warps:
//   1. wait for its copy to shared memory (the slot), and compute its residuals: these determine
//      the heads, and so the size;
//   2. start the copy of the next tile into the slot, publish the size, and pass the tile to the
//      writer warps;
//   3. transpose, and write heads and columns, in the format of the payload, to a stage in shared
//      memory.
// Meanwhile each writer warp looks back for the position of the tile, and one of them writes the
// offset table. Then they copy the stage to the payload and add it to the checksum. The compute
// warps copy tiles of the border as soon as the chunk's last block has a position. Before a warp
// continues with another chunk, it counts the parts of the previous chunk that it has finished.
//
// A chunk that does not shrink is stored instead, but this is known only when its last block has a
// position. So each CTA guesses. If the chunk has not shrunk up to the last tile that the CTA has
// placed, the compute warps do not transpose the next tile. Instead, they fill the stage with the
// tile's share of the array, and the writer warps copy it to its position in a stored frame. If a
// chunk turns out to be written in the wrong form, even partly, all of its tiles are rewritten
// after all other tiles.
//
// Compute and writer warps synchronize by mbarriers (Mbarrier). sized_mbarriers: the size of a tile
// is in `sized`. There are four of them, since the compute warps run at most three tiles ahead:
// they wait for a free stage. full_mbarriers: a stage has been written. empty_mbarriers: a stage
// may be overwritten.
//
// Memory traffic: the array is read once and the payload is written once. Predecessors along the
// slowest axis are read once more, from shared memory. Without asynchronous copies, the slot and
// the stage are the same memory: then copies and computation overlap only between CTAs.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../common/tuning.cuh"
#include "compute.cuh"
#include "layout.cuh"
#include "tiles.cuh"
#include "write.cuh"

template <typename W, int kRank>
__device__ __forceinline__ void compress(const CompressArgs<Blocks>& args) {
    extern __shared__ __align__(128) unsigned char bytes[];
    CompressShared& shared = *reinterpret_cast<CompressShared*>(bytes);
    const Layout<W, kRank> layout(args.own);
    const OrderedFrames<Layout<W, kRank>> frames(args, layout, layout.tiles(kTileBlocks<W>), layout.block_tiles(kTileBlocks<W>));
    if (threadIdx.x < kLineBytes / kUnitBytes) shared.zeros[threadIdx.x] = make_uint4(0, 0, 0, 0);
    if (threadIdx.x == 0) {
        for (Mbarrier& mbarrier : shared.sized_mbarriers) mbarrier.init(1);
        for (Mbarrier& mbarrier : shared.full_mbarriers) mbarrier.init(kComputeThreads);
        for (Mbarrier& mbarrier : shared.empty_mbarriers) mbarrier.init(kWriterWarps * kWarp);
        shared.tiles[0].kind = kStart;
        shared.by_x = Divisor(layout.blocks_x), shared.by_y = Divisor(layout.blocks_y);
    }
    __syncthreads();
    if (threadIdx.x < kComputeThreads) {
        ComputeWarps<W, kRank>(frames, shared).run();
    } else {
        WriterWarps<W, kRank>(frames, shared).run();
    }
}

template <typename W>
constexpr LaunchInfo kCompressInfo = ordered_launch(kCompressThreads, sizeof(CompressShared), kTileBlocks<W>);
