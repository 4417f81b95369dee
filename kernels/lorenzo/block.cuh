// What the threads of a compressing CTA have in common: its block, in shared memory. See the head of compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../stage/boxes.cuh"
#include "../stage/differences.cuh"
#include "layout.cuh"

constexpr u32 kLogBlock = 12;
constexpr u32 kElements = 1 << kLogBlock;
constexpr u32 kGroups = kElements / kGroup;
constexpr u32 kLorenzoThreads = kGroups * kWarp;  // a warp a group

// How the elements of a block become numbers.
template <typename W>
struct Mapping {
    u32 map, shift;  // t or e
    W base;
};

// The numbers of a block or what is made of them. A step of rows behind them can be read.
template <typename W>
struct alignas(128) Buffer {
    W words[kElements + kStepRows * kRow];
};

template <typename W>
struct LorenzoShared {
    // The block's words, then its numbers, then the stage, at most as long as a block in RAW; and the residuals, then lists
    // of patches. With FIXED they change places.
    Buffer<W> buffers[2];
    // What each warp knows of the words, or of its costs.
    W ors[kGroups], lows[kGroups], highs[kGroups];
    u32 first_bits[kGroups], last_bits[kGroups], bad[kGroups];
    alignas(16) u32 costs[8][kGroups];
    uint4 sections[kGroups];  // bytes of a group's sections
    uint4 header;             // of the block, in SPLIT
    CtaSums<kGroups> sums;
    RowBox box;
    alignas(16) Orders cubic;  // 3 where the box has an extent
    bool is_full;              // at least kMinDepth planes of 16 rows of 32
    Drawn drawn;
    u32 before;  // units of all blocks before
};
