// Shared memory of a CTA that decompresses a block of 4096 elements. See the head of
// decompress.cuh.

#pragma once

#include "block_tile.cuh"

template <typename W>
struct QuantDecompressShared {
    // Maximum bytes of a block. The stage also has room for the block's offset within a 16-byte
    // unit and for bytes that are read past its end.
    static constexpr u32 kMostBytes = kElements * sizeof(W) + kUnitBytes;
    static constexpr u32 kStageBytes = kMostBytes + 3 * kUnitBytes;

    alignas(128) unsigned char stage[kStageBytes];  // the staged block, later the tile
    Quantizer<W> quantizer;
    Box box;
    CtaSums<kQuantWarps> sums;
    u32 totals[kQuantWarps];             // bytes of a warp's groups
    u32 carries[kQuantWarps][kRow];      // sums of a warp's numbers
    Bitmap<kElements, kQuantThreads> bitmap;
};
