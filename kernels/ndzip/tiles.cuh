// Data that the threads of a compressing CTA exchange in shared memory. See the head of
// compress.cuh.

#pragma once

#include "../common/ordered_frames.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"

constexpr u32 kTileBytes = 32768;
constexpr u32 kComputeThreads = kTileBytes / kLineBytes;
constexpr u32 kComputeWarps = kComputeThreads / kWarp;
constexpr u32 kCompressThreads = kComputeThreads + kWriterWarps * kWarp;

template <typename W>
constexpr u32 kTileBlocks = kTileBytes / kBlock / Type<W>::kBytes;

// Size of a stage: room for the longest tile, two blocks of f32.
constexpr u32 kStageBytes = (4 * padded(2 * Type<u32>::kMaxWords) + 127) / 128 * 128;

constexpr u32 kComputeBarrier = 1;
constexpr u32 kSizedSlots = 4;

// A tile that was taken, and the positions of its blocks.
struct Tile : Ticket {
    u32 starts[2];  // index of each block's first element
};

struct SizedTile {
    TileKind kind;
    u32 chunk, index;
    u32 first_words, words;  // sizes of the first block and of the tile, in words
    bool is_stored;
};

// Whether a chunk has shrunk in total up to the end of a tile whose position is known.
struct Progress {
    u32 chunk;
    bool is_smaller;
};

// Sums and parts of a chunk that a compute warp has finished but not counted yet.
struct Pending {
    u64 sum_a, sum_b;
    TileKind kind;
    u32 chunk, parts, n_stored;
};

struct CompressShared {
    alignas(128) unsigned char stages[kStages][kStageBytes];
    alignas(128) unsigned char slot[kAsyncCopy ? kTileBytes : 128];
    alignas(128) uint4 zeros[kLineBytes / kUnitBytes];
    Divisor by_x, by_y;  // for the number of blocks along x and along y
    Tile tiles[2];  // the current one and the next one
    SizedTile sized[kSizedSlots];
    Progress progress[kSizedSlots];  // for each tile in `sized`; written by a writer warp
    Pending pending[kComputeWarps];
    u32 warp_columns[kComputeWarps];
    Mbarrier sized_mbarriers[kSizedSlots], full_mbarriers[kStages], empty_mbarriers[kStages];

    __device__ __forceinline__ u32 stage_address(u32 n) const { return shared_address(stages[n % kStages]); }
};
static_assert(kStageBytes >= kTileBytes, "without asynchronous copies the slot is the stage");
static_assert(sizeof(CompressShared) <= kMaxSharedBytes, "a CTA cannot have so much");

static_assert(kPartsPerTile == kComputeWarps && kPartsPerTile % kWriterWarps == 0, "each warp counts for its part");

// A tile's share of the bytes of a stored frame: kTileBytes per tile, regardless of the elements
// that the tile would encode.
struct StoredRange {
    u64 first;
    u32 n;

    __device__ __forceinline__ StoredRange(u64 n_bytes, u32 tile)
        : first(min(static_cast<u64>(tile) * kTileBytes, n_bytes)), n(static_cast<u32>(min(n_bytes - first, static_cast<u64>(kTileBytes)))) {}
};
