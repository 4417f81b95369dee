// Shared memory of a decompressing CTA: the block's bytes (the stage), its elements (the tile), and
// the parsed headers of the block and its mask. See the head of decompress.cuh.

#pragma once

#include "../common/checksum.cuh"
#include "../stage/boxes.cuh"
#include "../stage/huff.cuh"
#include "../stage/unpack.cuh"
#include "../stage/words.cuh"
#include "layout.cuh"
#include "mask.cuh"
#include "tails_read.cuh"

constexpr u32 kMasked = 8;  // flag added to a Map: some elements are masked

// The map and the prediction according to a block's header. RAW, CONST and DICT have no prediction:
// all orders are 0.
struct BlockPlan {
    u32 coder, map;   // map includes kMasked
    u32 x, y, z;      // orders
    bool adds_above;  // each number lacks its column's sum over the rows of preceding warps
};
// Parameters for the conversion of numbers to words, needed only at the end: the map, with kMasked;
// t or e, depending on the map; the base.
template <typename W>
struct Offset {
    u32 map_and_shift;
    W base;

    __device__ __forceinline__ u32 map() const { return map_and_shift >> 16; }
    __device__ __forceinline__ u32 shift() const { return map_and_shift & 0xffff; }
};

// Length of a block's rows: 32 elements, or the whole block as one row.
enum class RowLength : u32 { k32, kBlock };

// Bytes of a dictionary that are in shared memory at a time.
constexpr u32 kEntryBytes = 2048;

// Maximum units of 16 bytes in a block. The 32 strings of HUFF have up to 64 KiB each, and
// everything else in a block of 2^14 elements together has less than 2 MiB. A longer block is
// damaged; its size in bytes might exceed 32 bits.
constexpr u32 kMostUnits = (4u << 20) / kUnitBytes;

// For blocks of 2^kLog elements. A thread has one segment in every 4096 elements.
template <typename W, u32 kLog>
struct DecompressShared {
    static constexpr u32 kSegments = (1u << kLog) / Segment<W>::kNumbers;
    static constexpr u32 kThreads = 4096 / Segment<W>::kNumbers;
    static constexpr u32 kWarps = kThreads / kWarp;
    // Only blocks of 4096 elements are staged.
    static constexpr bool kStaged = kLog == 12;
    using Place = Places<W, kLog>;
    // The padding after the last segment is omitted, unless it holds a sum. With 32 bytes more, one
    // CTA fewer would be resident for blocks of 2^13 elements of u32.
    static constexpr u32 kTileBytes = Place::segment(kSegments - 1) + kSegmentBytes + (kSegments == kWarps * kRow ? kUnitBytes : 0);
    // Maximum size of a staged block in bytes: it is shorter than its elements. The stage also
    // holds the tables of HUFF, or entries of a dictionary. With this size, a multiprocessor of
    // sm_90 has room for 7 CTAs of u32 or 3 of u64.
    static constexpr u32 kMaxStaged = 4096 * sizeof(W) / 16 * (sizeof(W) == 4 ? 13 : 15);
    static constexpr u32 kStageBytes = kStaged ? kMaxStaged + kRow * sizeof(W) : sizeof(HuffTables);

    // Data that the first warp reads while the others stage the block: the header and its damage
    // code; the header of the mask; for SPLIT, the number of coded numbers, the groups, and whether
    // they are sound and fill the block (is_whole).
    struct Ahead {
        BlockPlan plan;
        MaskPlan mask;
        u32 damage;
        u32 n_numbers;
        bool is_whole;
        GroupPlan groups[4096 / kGroup];
    };
    // Data that warps exchange while they fill the tile and add up.
    struct Rows {
        CtaSums<kWarps> sums;
        W carries[kWarps];      // sum of a warp's segments or entries
        Ahead ahead;
    };
    // Offset of Rows. If blocks are not staged, Rows overlap the tables of HUFF, after the entries
    // of a dictionary.
    static constexpr u32 kRowsAt = kStaged ? kStageBytes : kStageBytes - sizeof(Rows);
    static_assert(kStaged || kEntryBytes + sizeof(Rows) <= kStageBytes, "rows are in the place of the tables");

    // The stage. Some rows of words after a staged block can be read without leaving the array.
    alignas(16) unsigned char stage[kStaged ? kStageBytes + sizeof(Rows) : kStageBytes];
    alignas(16) unsigned char tile[kTileBytes];
    Box box;
    u32 tails;  // for CUT: start of the tails, in bytes from the block's start
    Offset<W> offset;

    // last(): the sum of a column over a warp's rows, in the padding between the tile's segments.
    // above(): the sums of all columns over the rows of preceding warps, in place of the stage.
    __device__ __forceinline__ W& last(u32 warp, u32 column) {
        return *reinterpret_cast<W*>(tile + Place::segment(warp * kRow + column) + kSegmentBytes);
    }
    __device__ __forceinline__ W* above(u32 warp) { return reinterpret_cast<W*>(stage) + warp * kRow; }
    static_assert(kSegmentStride - kSegmentBytes >= sizeof(W) && kWarps * kRow <= kSegments && kWarps * kRow * sizeof(W) <= kStageBytes, "room for sums");

    // The mask, in place of the stage or the tables until the elements are stored.
    using Masked = Mask<Place, 1u << kLog, kThreads>;
    __device__ __forceinline__ Masked& mask() { return *reinterpret_cast<Masked*>(stage); }
    // State of the tails, after the mask.
    using Tails = TailReader<Place, 1u << kLog, kWarps>;
    static constexpr u32 kTailsAt = (sizeof(Masked) + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
    __device__ __forceinline__ Tails& tail_reader() { return *reinterpret_cast<Tails*>(stage + kTailsAt); }
    static_assert(kTailsAt + sizeof(Tails) <= kRowsAt, "rows are behind mask and tails");

    __device__ __forceinline__ Rows& rows() { return *reinterpret_cast<Rows*>(stage + kRowsAt); }
};
