// Compression in one pass, by the protocol of common/ordered_frames.cuh. CTAs of 8 compute warps (compute.cuh) and 2 writer
// warps (write.cuh) stay; a tile is 32 KiB of input (two blocks of f32, one of f64) or 8192 (f32) or 4096 (f64) elements
// of the border.
//
// The tiles of a chunk are first those of blocks, then those of the border. The compute warps, for every tile of blocks:
//   1. wait for its copy to shared memory (the slot), read it, difference it: now the heads, and so the
//      size, are known;
//   2. start the copy of the next tile into the slot, publish the size, hand it to the writer warps;
//   3. transpose, and write heads and columns, as they will be in the payload, to a stage in shared memory.
// Meanwhile the writer warps look back for the place of the tile (each by itself), one writes the offset
// table, then they copy the stage to the payload and sum it up for the checksum. Tiles of the border are
// copied by the compute warps as soon as the chunk's last block is placed. Each warp counts what it has finished of a
// chunk when it comes to another one.
//
// A chunk that does not get smaller is stored instead, but that is known only when its last block is placed.
// So the CTA guesses: where the last tile it has placed in the chunk shows nothing saved so far, the compute warps
// do not transpose the next, but fill the stage with as many of the array's bytes, which the writer warps copy to where
// a stored frame has them. Where a chunk turns out to be written the wrong way, or partly so, all of its tiles are
// written once more, after all others.
//
// Compute and writer warps meet at gates. sized: the size of a tile is in `sized`; four of them, since the
// compute warps run at most three tiles ahead (they wait for a free stage). full: a stage is written. empty:
// it may be overwritten.
//
// Bytes per element: all are read once, and once more from shared memory for the slowest axis; the payload
// is written once. Without asynchronous copies slot and stage are the same memory and nothing overlaps but
// CTAs.

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
        for (Gate& gate : shared.sized_gates) gate.init(1);
        for (Gate& gate : shared.full_gates) gate.init(kComputeThreads);
        for (Gate& gate : shared.empty_gates) gate.init(kWriterWarps * kWarp);
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
