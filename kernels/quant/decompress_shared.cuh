// Shared memory of a decompressing CTA. See the head of decompress.cuh.

#pragma once

#include "block_tile.cuh"

template <typename W>
struct QuantDecompressShared {
    // The longest block, at any offset within a 16-byte unit, and the bytes that are read after it.
    static constexpr u32 kMostBytes = kElements * sizeof(W) + kUnitBytes;
    static constexpr u32 kStageBytes = kMostBytes + 3 * kUnitBytes;

    alignas(128) unsigned char stage[kStageBytes];  // later the tile
    Quantizer<W> quantizer;
    Box box;
    CtaSums<kQuantWarps> sums;
    u32 totals[kQuantWarps];             // bytes of a warp's groups
    u32 carries[kQuantWarps][kRow];      // sums of a warp's numbers
    Bitmap<kElements, kQuantThreads> bitmap;
};
