// What the threads of a compressing CTA hand to each other in shared memory, and CTAs in scratch memory. See the head
// of compress.cuh.

#pragma once

#include "../common/checksum.cuh"
#include "../common/tuning.cuh"
#include "../common/warp.cuh"
#include "layout.cuh"

constexpr u32 kTileBytes = 32768;
constexpr u32 kComputeThreads = kTileBytes / kLineBytes;
constexpr u32 kComputeWarps = kComputeThreads / kWarp;
constexpr u32 kCompressThreads = kComputeThreads + kWriterWarps * kWarp;

template <typename W>
constexpr u32 kTileBlocks = kTileBytes / kBlock / Type<W>::kBytes;

// Room for the longest tile, that of two blocks of f32.
constexpr u32 kStageBytes = (4 * padded(2 * Type<u32>::kMaxWords) + 127) / 128 * 128;

constexpr u32 kComputeBarrier = 1;
constexpr u32 kSizedSlots = 4;

enum TileKind : u32 {
    kFirst,   // seen for the first time
    kRedo,    // of a chunk that is done again
    kStart,   // before a CTA's first
    kBeyond,  // behind the last tile that is seen for the first time: nobody knows yet whether it exists
    kNone,    // does not exist
};

struct Tile {
    TileKind kind;
    u32 number;     // that the counter gave
    u32 chunk;
    u32 index;      // in the chunk
    u32 starts[2];  // first elements of its blocks
};

struct SizedTile {
    TileKind kind;
    u32 chunk, index;
    u32 first_words, words;  // of the first block and of the tile
    bool is_stored;
};

// Whether the tiles of a chunk up to one that is placed have got smaller together.
struct Progress {
    u32 chunk;
    bool is_smaller;
};

// What a warp of the compute warps has added up of a chunk and not told yet.
struct Untold {
    u64 sum_a, sum_b;
    TileKind kind;
    u32 chunk, parts, marks;
};

struct CompressShared {
    alignas(128) unsigned char stages[kStages][kStageBytes];
    alignas(128) unsigned char slot[kAsyncCopy ? kTileBytes : 128];
    alignas(128) uint4 zeros[kLineBytes / kUnitBytes];
    Tile tiles[2];  // this and the next
    SizedTile sized[kSizedSlots];
    Progress progress[kSizedSlots];  // up to the tiles in `sized`, by a writer warp
    Untold untold[kComputeWarps];
    u32 warp_columns[kComputeWarps];
    Gate sized_gates[kSizedSlots], full_gates[kStages], empty_gates[kStages];
};
static_assert(kStageBytes >= kTileBytes, "without asynchronous copies the slot is the stage");
static_assert(sizeof(CompressShared) <= kMaxSharedBytes, "a CTA cannot have so much");

// Scratch: this, then CompressChunk per chunk, then one state per tile. Counters that many look at are apart.
struct CompressScratch {
    u32 next_tile;
    u32 reserved[31];
    u32 n_finished;  // chunks
    u32 n_redo;      // of which so many are to be done again
    u32 reserved2[30];
};
struct CompressChunk {
    Totals first, redo;
    u32 to_redo;  // entry of a list that all chunks share
    u32 reserved[3];
};

// How a tile was written.
enum Mark : u32 { kEncoded = 1, kStored = 2 };

// A tile is finished by all compute warps or by all writer warps; each counts for its part of so many.
constexpr u32 kPartsPerTile = kComputeWarps;
